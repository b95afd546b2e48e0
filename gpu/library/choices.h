/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CHOICES_H
#define GPU_LIBRARY_CHOICES_H
/* Reports which kernels were chosen for a device's steps, and why some steps do not use cuDNN or cuBLASLt. */
#include "gpu/launch/util.h"

/*
 * Records why the node of s does not use a library's kernel: it runs `by` another one, for example "by our own
 * convolution", because of `why`. A node is recorded once for each reason.
 */
void gpu_fell_back(const struct site *s, const char *by, const char *why);
/*
 * Returns the i-th record of gpu_fell_back() as "node (operator): by: why", in the arena, or NULL if there are fewer
 * records.
 */
const char *gpu_fallback(const struct device *device, size_t i, struct arena *a);

/*
 * Returns a text about what tuning found, in the arena, or NULL if nothing was chosen. With `each`, the text lists
 * every convolution and attention.
 */
const char *gpu_choices(struct device *device, bool each, struct arena *a);

#endif
