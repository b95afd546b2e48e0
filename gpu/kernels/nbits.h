/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_NBITS_H
#define GPU_KERNELS_NBITS_H
/* What the kernels of nbits.cu are handed: weights of 2, 4 or 8 bits, in blocks along k that share a scale. */
#include "jobs.h"

enum {
	GPU_NBITS_ROWS = 4,
	GPU_NBITS_STEP = 8
}; /* rows that a warp makes at a time; elements a thread takes at a time */

struct gpu_nbits {
	struct gpu_io io;		  /* A, B, scales, zero points, -, bias; Y */
	int64_t rows, n, k, blocks, size; /* size: of a block */
	int64_t first, columns;		  /* of B, that are widened */
	int64_t at;			  /* of the widened ones in the workspace */
	int bits;
};

#endif
