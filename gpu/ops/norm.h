/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_NORM_H
#define GPU_OPS_NORM_H
#include "gpu/launch/util.h"

/*
 * A normalization of rows. add and add2 (addends to x), scale and bias are indices of inputs. mean, inv (1 / standard
 * deviation), sum (x + addends) and q (y * job.q_factor as float8e4m3fn) are indices of outputs. An index is -1 if the
 * node has no such input or output. `y` is the index of the output y.
 * gpu_norm_set() chooses the kernel once the state is filled.
 */
struct gpu_norm_state {
	void *fn;
	struct gpu_grid grid;
	struct gpu_norm job;
	bool early; /* the kernel waits by itself: gpu_launch_early() */
	int add, add2, scale, bias, y, mean, inv, sum, q;
};
int gpu_norm_set(struct site *s, struct step *step, struct gpu_norm_state *n, struct diag *d);
int gpu_norm_run(const struct call *c);

/*
 * Chooses a kernel that holds a row of n elements in registers. `name` becomes PREFIX_row_TYPE, which reads 16 bytes at
 * a time, or PREFIX_any_row_TYPE. Returns false if the rows are too long for the registers of a block.
 */
struct gpu_rows {
	struct gpu_grid grid;
	int threads; /* threads that share a row */
};
bool gpu_rows_fit(int64_t rows, int64_t n, enum dtype t, const char *prefix, char name[64],
		  struct gpu_rows *out);
#endif
