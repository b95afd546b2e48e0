/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_HOLD_H
#define GPU_DRIVER_HOLD_H
/* Holds a CUDA stream by a kernel that waits for a word in pinned memory. */
#include "backend/observe.h"

extern const struct hold_ops cuda_hold;

#endif
