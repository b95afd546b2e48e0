/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CHOICES_H
#define GPU_LIBRARY_CHOICES_H
/* Reports which kernels were chosen for a device's steps, and why some steps do not use cuDNN or cuBLASLt. */
#include "gpu/launch/util.h"

/* Records that the node of s runs "by our own convolution", for example, because of `why`; once for each node and reason. */
void gpu_fell_back(const struct site *s, const char *by, const char *why);
/* The i-th fallback as "node (operator): by: why", in the arena; NULL: there are fewer. */
const char *gpu_fallback(const struct device *device, size_t i, struct arena *a);

/* What tuning found, with `each` for every convolution and attention; in the arena; NULL: nothing was chosen. */
const char *gpu_choices(struct device *device, bool each, struct arena *a);

#endif
