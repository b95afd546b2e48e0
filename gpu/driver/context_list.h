/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_CONTEXT_LIST_H
#define GPU_DRIVER_CONTEXT_LIST_H
/* The contexts on a device, in this process and in others. */
#include "backend/backend.h"

/* Strings live in d's arena. 0 or -code. */
int cuda_contexts(struct device *device, struct device_contexts *out, struct diag *d);

#endif
