/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_RING_H
#define GPU_KERNELS_RING_H
/* Parameters of the kernels of gemv_ring.cu. */
#include "params.h"

/* Products of the same rows. What other launches would do before and after them is done with them. */
struct gpu_ring {
	struct gpu_gemms all; /* must stay first */
	/*
	 * If it is not null, each row of A is normalized first, as the kernel norm_one_row of rows.cu does: divided by the root of the
	 * mean of its squares and `epsilon`, and multiplied by `scale` element by element.
	 */
	const void *scale;
	float epsilon;
	/* of the kernels gemv_gate: the products of the first two jobs, multiplied element by element; their own y are not written */
	void *gated;
};

#endif
