/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_PACKED_H
#define GPU_LAUNCH_PACKED_H
/* Weights on the device in another form than the model's: made once a session, shared by its plans. */
#include "gpu/driver/cuda.h"

/* Queued on c's stream: what is at src, in the form that arg tells, to dst. 0 or -code. */
typedef int gpu_form_make(const struct call *c, void *dst, const void *src, const void *arg);

/*
 * Input i of the node, which is a weight (site_is_weight), in the form that make() gives it: queued on the
 * device's stream, from src (the model's bytes, on the device for the time being) to dst. NULL with a finding.
 */
const void *gpu_packed(const struct site *s, uint32_t i, const char *form, size_t bytes,
		       gpu_form_make *make, const void *arg, struct diag *d);
/* Such a form, kept where the input is a weight; else made in each run, in the workspace. */
struct gpu_form {
	const void *kept;
	size_t at; /* in the workspace */
	bool made; /* false: as the input is */
};
int gpu_form_take(struct site *s, struct step *step, uint32_t i, const char *form, size_t bytes,
		  gpu_form_make *make, const void *arg, struct gpu_form *f, struct diag *d);
/* What the kernel is to read. 0 or -code. */
int gpu_form_give(const struct call *c, uint32_t i, gpu_form_make *make, const void *arg,
		  const struct gpu_form *f, const void **w);
/* Memory of zeros, for a bias that is not there. */
const void *gpu_zeros(const struct site *s, size_t bytes, struct diag *d);

#endif
