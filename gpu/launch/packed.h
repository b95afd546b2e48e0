/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_PACKED_H
#define GPU_LAUNCH_PACKED_H
/* Weights that a kernel reads in another order than the model's ("packed"): made once a session, shared by its plans. */
#include "gpu/driver/cuda.h"

/* Queues on c's stream a kernel that packs src to dst in the form described by arg. 0 or -code. */
typedef int gpu_form_make(const struct call *c, void *dst, const void *src, const void *arg);

/*
 * Input i of the node, a weight (site_is_weight), packed by make() into `bytes` bytes on the device. `form` names the form:
 * a weight is packed once for each form. The device owns the memory. NULL with a finding.
 */
const void *gpu_packed(const struct site *s, uint32_t i, const char *form, size_t bytes,
		       gpu_form_make *make, const void *arg, struct diag *d);
/* An input in packed form: kept by the device if it is a weight, else packed in each run into the workspace. */
struct gpu_form {
	const void *kept;
	size_t at; /* offset in the workspace */
	bool made; /* false: the input is read as it is */
};
/* While a step is planned: packs a weight now, or reserves workspace. 0 or -code. */
int gpu_form_take(struct site *s, struct step *step, uint32_t i, const char *form, size_t bytes,
		  gpu_form_make *make, const void *arg, struct gpu_form *f, struct diag *d);
/* In a run: *w becomes what the kernel reads; queues the packing if that is due. 0 or -code. */
int gpu_form_give(const struct call *c, uint32_t i, gpu_form_make *make, const void *arg,
		  const struct gpu_form *f, const void **w);
/* `bytes` zeros on the device, for kernels that need a bias when there is none. NULL with a finding. */
const void *gpu_zeros(const struct site *s, size_t bytes, struct diag *d);

#endif
