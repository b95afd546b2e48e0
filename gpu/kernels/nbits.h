/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_NBITS_H
#define GPU_KERNELS_NBITS_H
/*
 * Parameters of the kernels of nbits.cu: products with weights of 2, 4 or 8 bits in blocks along k that share a scale;
 * or with codes of bitsandbytes, whose blocks continue from row to row.
 */
#include "jobs.h"

enum {
	GPU_NBITS_ROWS = 4,   /* rows that a warp computes at a time */
	GPU_NBITS_STEP = 8,   /* elements along k that a thread takes at a time */
	GPU_NBITS_ALIGN = 16, /* bytes that a thread reads at a time */
	GPU_NBITS_SLICES = 8  /* warps that share k if columns are side by side */
};

struct gpu_nbits {
	struct gpu_io io; /* inputs: A, B, scales, zero points, g_idx, bias; output: Y */
	int64_t rows, n, k, blocks, size; /* size: of a block */
	int64_t first, columns;		  /* the columns of B that are widened to floats */
	int64_t at;			  /* their offset in the workspace */
	int bits;
	int shift; /* size is 2 to the power of shift */
	int turned; /* bitsandbytes: neighbouring columns are side by side instead of neighbouring k */
	float value[16]; /* the numbers that codes of bitsandbytes stand for */
};

#endif
