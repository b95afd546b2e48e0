/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_RING_H
#define GPU_KERNELS_RING_H
/* Parameters of the kernels of gemv_ring.cu. */
#include "params.h"

enum {
	GPU_RING_COLUMNS = 128, /* of a block */
	GPU_RING_WARPS = 8,
	GPU_RING_CHUNK = 16, /* rows of B that a warp reads at a time */
	GPU_RING_STAGES = 4, /* chunks of a warp under way */
	GPU_RING_HALF = 8,   /* rows of A in a product of tensor cores */
	GPU_SQUARES = 32,    /* columns of a sum, */
	GPU_SQUARE_SUMS = 8, /* sums of a row that are adjacent in memory */
};

/* Products of the same rows. What other launches would do before and after them is done with them. */
struct gpu_ring {
	struct gpu_gemms all; /* must stay first */
	/*
	 * If it is not null, each row of A is normalized first, as the kernel norm_one_row of rows.cu does: divided by the root of the
	 * mean of its squares and `epsilon`, and multiplied by `scale` element by element.
	 */
	const void *scale;
	float epsilon;
	/*
	 * For rows that are normalized, if it is not null: what the launch that made them has put to its `squares`. Without it each block
	 * goes through all rows first.
	 */
	const float *known;
	/* Of the results, if `sums_squares`, gets the sums of squares of GPU_SQUARES columns each. gemv_ring.cu has their order. */
	float *squares;
	int sums_squares;
	/* of the kernels gemv_gate: the products of the first two jobs, multiplied element by element; their own y are not written */
	void *gated;
};

#endif
