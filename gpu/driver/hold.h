/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_HOLD_H
#define GPU_DRIVER_HOLD_H
/* Holds a CUDA stream with a kernel that waits until a word in pinned memory changes. */
#include "backend/observe.h"

extern const struct hold_ops cuda_hold;

#endif
