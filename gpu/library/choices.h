/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CHOICES_H
#define GPU_LIBRARY_CHOICES_H
/* What was chosen for a device's steps, and where that is not the library's kernel meant for it: why. */
#include "gpu/launch/util.h"

/* Node s is run by `by`, for a reason; told once a node. */
void gpu_fell_back(const struct site *s, const char *by, const char *why);
/* The i-th of them, as "node (operator): by: why", in the arena; NULL behind the last. */
const char *gpu_fallback(const struct device *device, size_t i, struct arena *a);

/* What tuning found, and (each) for which; NULL where nothing was chosen. */
const char *gpu_choices(struct device *device, bool each, struct arena *a);

#endif
