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
	const struct sdpa *library; /* cuDNN's plan, or NULL if our own kernel is used */
	void *fn;
	void *make; /* as fn, but it also copies cached keys and values to where it reads them; NULL if there is none */
	void *now; /* as make, but it also makes the new row of keys, values and queries */
	/* launch of `make` or `now`, and keys of a part, if it joins its parts itself; no threads: it is launched as fn */
	struct gpu_grid near;
	int near_part;
	void *join; /* joins the parts that `fn` has made of each query, or NULL if there is one part */
	bool few;    /* fn is one of the kernels for few queries */
	bool rounds; /* fn writes float8, and takes struct gpu_attend_float8 */
	bool early;  /* fn may start while the kernel ahead still runs */
	struct gpu_grid grid;
	struct gpu_attend job;
	size_t scratch; /* bytes of workspace that the kernel needs */
};

/*
 * Sets the strides of batch, head and position, in elements. A merged tensor is [batch, length, heads * size], with
 * `row` elements from one position to the next; otherwise the tensor is [batch, heads, length, size].
 */
void gpu_attend_steps(bool merged, int64_t heads, int64_t length, int64_t size, int64_t row,
		      int64_t *steps);
/*
 * Sets the strides of a mask or bias that broadcasts to [batch, heads, queries, keys] and has at most four dimensions.
 * *mask_keys becomes its last dimension, which may be shorter than `keys`.
 */
void gpu_attend_mask(const struct shape *s, int64_t keys, int64_t *steps, int64_t *mask_keys);
/* Returns why no kernel supports the job, or NULL if one does. */
const char *gpu_attend_refusal(const struct gpu_attend *job);
/*
 * Chooses the kernel for plan->job and sets plan->scratch. t is the element type of q, k, v and y. starts holds the
 * distance of q, k and v from an aligned address, in bytes. The job's `sink`, `qk` and `valid` must be gpu_attend_there
 * if the run will set them. Returns 0 or -code.
 */
int gpu_attend_set(const struct site *s, struct gpu_attend_plan *plan, enum dtype t,
		   const size_t starts[3], struct diag *d);
/* Looks for a kernel that copies cached rows of keys and values while it reads them. Call after gpu_attend_set(). */
int gpu_attend_set_make(const struct site *s, struct gpu_attend_plan *plan, enum dtype t,
			struct diag *d);
/* Lets a copy of the plan, which has such a kernel, use it: plan->make or plan->now. */
void gpu_attend_use_make(struct gpu_attend_plan *plan, void *fn);
/* Queues the kernel. plan must be a copy of the plan whose job has its pointers filled in. Returns 0 or -code. */
int gpu_attend_launch(const struct call *c, const struct gpu_attend_plan *plan);
/* The same for plan->now; the attention of `job` is filled in from the plan. */
struct gpu_attend_now;
int gpu_attend_launch_now(const struct call *c, const struct gpu_attend_plan *plan,
			  struct gpu_attend_now *job);

/* placeholder for a pointer that is known only at run time */
extern const char gpu_attend_there[];

/* infer::Attention */
bool gpu_fused_attention_accepts(const struct site *s, struct why *w);
int gpu_fused_attention_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_fused_attention_run(const struct call *c);

#endif
