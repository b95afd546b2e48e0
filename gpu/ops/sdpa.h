/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_SDPA_H
#define GPU_OPS_SDPA_H
/*
 * Attention on the device, whatever operator it comes from: fill a job's sizes, steps and options, let
 * gpu_attend_set find the kernel, hand gpu_attend_run the pointers.
 */
#include "gpu/launch/util.h"

struct sdpa;
struct gpu_attend_plan {
	const struct sdpa *library; /* NULL: our own kernel */
	void *fn;
	struct gpu_grid grid;
	struct gpu_attend job;
	size_t scratch; /* bytes of workspace that the kernel wants */
};

/* Steps of [B,S,H*D] (side by side, `row` elements a position) or of [B,H,S,D]. */
void gpu_attend_steps(bool merged, int64_t heads, int64_t length, int64_t size, int64_t row,
		      int64_t *steps);
/* A mask or bias that broadcasts, aligned right, to [B,H,S,T]; the last dimension may be shorter than T. */
void gpu_attend_mask(const struct shape *s, int64_t keys, int64_t *steps, int64_t *mask_keys);
/* What no kernel takes, or NULL. */
const char *gpu_attend_refusal(const struct gpu_attend *job);
/*
 * Chooses the kernel for plan->job. t: of q, k, v and y. starts: where q, k, v lie behind memory that is
 * aligned, in bytes. sink and qk of the job: not NULL where there will be one.
 */
int gpu_attend_set(const struct site *s, struct gpu_attend_plan *plan, enum dtype t,
		   const size_t starts[3], struct diag *d);
/* A copy of the plan, its job's pointers filled in. */
int gpu_attend_launch(const struct call *c, const struct gpu_attend_plan *plan);

extern const char gpu_attend_there[]; /* stands for a pointer that the run brings */

/* infer::Attention */
bool gpu_fused_attention_accepts(const struct site *s, struct why *w);
int gpu_fused_attention_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_fused_attention_run(const struct call *c);

#endif
