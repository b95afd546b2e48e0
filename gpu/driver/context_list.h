/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_CONTEXT_LIST_H
#define GPU_DRIVER_CONTEXT_LIST_H
/* Lists the contexts on a device, those of this process and those of others. */
#include "backend/backend.h"

/* Returns 0 or -code. Strings live in d's arena. */
int cuda_contexts(struct device *device, struct device_contexts *out, struct diag *d);

#endif
