/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_NORM_H
#define GPU_NORM_H
#include "gpu/util.h"

/* Normalisation of rows; inputs and outputs by number, -1: none. */
struct gpu_norm_state {
	void *fn;
	struct gpu_norm job;
	int add, add2, scale, bias, mean, inv, sum;
};
int gpu_norm_set(struct site *s, struct step *step, struct gpu_norm_state *n, struct diag *d);
int gpu_norm_run(const struct call *c);
#endif
