/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_NORM_H
#define GPU_OPS_NORM_H
#include "gpu/launch/util.h"

/* Normalisation of rows; inputs and outputs by number, -1: none. */
struct gpu_norm_state {
	void *fn;
	struct gpu_grid grid;
	struct gpu_norm job;
	int add, add2, scale, bias, mean, inv, sum;
};
int gpu_norm_set(struct site *s, struct step *step, struct gpu_norm_state *n, struct diag *d);
int gpu_norm_run(const struct call *c);

/*
 * Rows of n elements that fit the registers of a block: the kernel PREFIX_row_T (16 bytes at a time) or
 * PREFIX_any_row_T; false where they do not fit.
 */
struct gpu_rows {
	struct gpu_grid grid;
	int threads; /* a row */
};
bool gpu_rows_fit(int64_t rows, int64_t n, enum dtype t, const char *prefix, char name[64],
		  struct gpu_rows *out);
#endif
