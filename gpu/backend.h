/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_BACKEND_H
#define GPU_BACKEND_H
/* The CUDA backend. In a build without CUDA it finds no device and says why. */
#include "backend/backend.h"

extern const struct backend cuda_backend;

#endif
