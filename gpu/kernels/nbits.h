/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_NBITS_H
#define GPU_KERNELS_NBITS_H
/*
 * What the kernels of nbits.cu are handed: weights of 2, 4 or 8 bits, in blocks along k that share a scale; or codes
 * of bitsandbytes, whose blocks go on from row to row.
 */
#include "jobs.h"

enum {
	GPU_NBITS_ROWS = 4,
	GPU_NBITS_STEP = 8,
	GPU_NBITS_ALIGN = 16,
	GPU_NBITS_SLICES = 8
}; /* rows that a warp makes at a time; elements, and bytes, a thread takes at a time; warps that share k */

struct gpu_nbits {
	struct gpu_io io;		  /* A, B, scales, zero points, groups, bias; Y */
	int64_t rows, n, k, blocks, size; /* size: of a block */
	int64_t first, columns;		  /* of B, that are widened */
	int64_t at;			  /* of the widened ones in the workspace */
	int bits;
	int shift;	 /* size as a power of two */
	int turned;	 /* bitsandbytes: columns lie by each other, not k */
	float value[16]; /* what its codes stand for */
};

#endif
