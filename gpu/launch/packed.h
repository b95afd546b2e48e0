/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_PACKED_H
#define GPU_LAUNCH_PACKED_H
/*
 * Packed weights: weights that a kernel reads in another order than the model's. They are packed once for each session
 * and shared by its plans.
 */
#include "gpu/driver/cuda.h"

/* Queues on c's stream a kernel that packs src to dst; arg describes the packed form. Returns 0 or -code. */
typedef int gpu_form_make(const struct call *c, void *dst, const void *src, const void *arg);

/*
 * Returns input i of the node, which must be a weight (site_is_weight), after make() has packed it into `bytes` bytes
 * on the device. A weight is packed once for each form; `form` is the name of the form. The device owns the memory.
 * Returns NULL with a finding on failure.
 */
const void *gpu_packed(const struct site *s, uint32_t i, const char *form, size_t bytes,
		       gpu_form_make *make, const void *arg, struct diag *d);
/*
 * An input in packed form. The device keeps a packed weight; any other input is packed into the workspace in each run.
 */
struct gpu_form {
	const void *kept;
	size_t at; /* offset in the workspace */
	bool made; /* false if the input is read without packing */
};
/*
 * Called while a step is planned. Packs input i now if it is a weight, otherwise reserves workspace for it. Returns 0
 * or -code.
 */
int gpu_form_take(struct site *s, struct step *step, uint32_t i, const char *form, size_t bytes,
		  gpu_form_make *make, const void *arg, struct gpu_form *f, struct diag *d);
/*
 * Called in a run. Sets *w to the address that the kernel reads, and queues the packing if the input is packed in each
 * run. Returns 0 or -code.
 */
int gpu_form_give(const struct call *c, uint32_t i, gpu_form_make *make, const void *arg,
		  const struct gpu_form *f, const void **w);
/*
 * Returns `bytes` zeros on the device, for kernels that need a bias when there is none. Returns NULL with a finding on
 * failure.
 */
const void *gpu_zeros(const struct site *s, size_t bytes, struct diag *d);

#endif
