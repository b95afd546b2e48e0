/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_PACKED_H
#define GPU_PACKED_H
/* Weights on the device in another form than the model's: made once a session, shared by its plans. */
#include "gpu/cuda.h"

/*
 * Input i of the node, which is a weight (site_is_weight), in the form that make() gives it: queued on the
 * device's stream, from src (the model's bytes, on the device for the time being) to dst. NULL with a finding.
 */
const void *gpu_packed(const struct site *s, uint32_t i, const char *form, size_t bytes,
		       int (*make)(const struct call *c, void *dst, const void *src, void *arg),
		       void *arg, struct diag *d);
/* Memory of zeros, for a bias that is not there. */
const void *gpu_zeros(const struct site *s, size_t bytes, struct diag *d);

#endif
