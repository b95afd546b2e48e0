/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_SDPA_H
#define GPU_OPS_SDPA_H
/*
 * Scaled dot-product attention on the device, shared by all attention operators. A caller fills the job's sizes,
 * strides and options, calls gpu_attend_set() to choose the kernel when the step is planned, and in each run fills the
 * job's pointers in a copy of the plan and calls gpu_attend_launch().
 */
#include "gpu/launch/util.h"

struct sdpa;
struct gpu_attend_plan {
	const struct sdpa *library; /* cuDNN's plan; NULL: our own kernel */
	void *fn;
	struct gpu_grid grid;
	struct gpu_attend job;
	size_t scratch; /* bytes of workspace that the kernel needs */
};

/*
 * Strides of batch, head and position, in elements: of [batch, length, heads * size] if merged, with `row` elements
 * from one position to the next, else of [batch, heads, length, size].
 */
void gpu_attend_steps(bool merged, int64_t heads, int64_t length, int64_t size, int64_t row,
		      int64_t *steps);
/*
 * Strides of a mask or bias that broadcasts to [batch, heads, queries, keys]; *mask_keys: its last dimension, which may
 * be shorter than `keys`. A mask of rank 4 at most.
 */
void gpu_attend_mask(const struct shape *s, int64_t keys, int64_t *steps, int64_t *mask_keys);
/* Why no kernel supports the job; NULL if one does. */
const char *gpu_attend_refusal(const struct gpu_attend *job);
/*
 * Chooses the kernel for plan->job and sets plan->scratch. t: element type of q, k, v and y. starts: bytes from an
 * aligned address to q, k and v. The job's `sink`, `qk` and `valid` must be gpu_attend_there if the run will set them.
 * 0 or -code.
 */
int gpu_attend_set(const struct site *s, struct gpu_attend_plan *plan, enum dtype t,
		   const size_t starts[3], struct diag *d);
/* Queues the kernel; plan: a copy whose job has its pointers. 0 or -code. */
int gpu_attend_launch(const struct call *c, const struct gpu_attend_plan *plan);

extern const char gpu_attend_there[]; /* placeholder of a pointer that only the run knows */

/* infer::Attention */
bool gpu_fused_attention_accepts(const struct site *s, struct why *w);
int gpu_fused_attention_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_fused_attention_run(const struct call *c);

#endif
