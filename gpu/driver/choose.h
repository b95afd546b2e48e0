/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_CHOOSE_H
#define GPU_DRIVER_CHOOSE_H
#include "backend/choose.h"

extern const struct choose_ops cuda_choose;

#endif
