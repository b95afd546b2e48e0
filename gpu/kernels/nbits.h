/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_NBITS_H
#define GPU_KERNELS_NBITS_H
/*
 * Parameters of the kernels of nbits.cu, which multiply by weights of 2, 4 or 8 bits. Blocks of weights along k share a
 * scale. Weights in the format of bitsandbytes have blocks that continue from one row to the next.
 */
#include "jobs.h"

enum {
	GPU_NBITS_ROWS = 4,   /* rows that a warp computes at a time */
	GPU_NBITS_STEP = 8,   /* elements along k that a thread processes at a time */
	GPU_NBITS_ALIGN = 16, /* bytes that a thread reads at a time */
	GPU_NBITS_SLICES = 8  /* warps that share k if columns are stored side by side */
};

struct gpu_nbits {
	struct gpu_io io; /* inputs: A, B, scales, zero points, g_idx, bias; output: Y */
	int64_t rows, n, k, blocks, size; /* size: number of elements of a block */
	int64_t first, columns;		  /* the columns of B that are unpacked to floats */
	int64_t at;			  /* offset of the unpacked columns in the workspace */
	int bits;
	int shift; /* size is 2 to the power of shift */
	/*
	 * for bitsandbytes: weights are stored with neighbouring columns side by side, instead of neighbouring elements
	 * along k
	 */
	int turned;
	float value[16]; /* the numbers that the codes of bitsandbytes represent */
};

#endif
