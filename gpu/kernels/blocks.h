/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_BLOCKS_H
#define GPU_KERNELS_BLOCKS_H
/* Parameters of the kernels of blocks.cu, which gather slices of data quantized in blocks and dequantize them. */
#include "jobs.h"

enum { GPU_BLOCK_RUN = 8 }; /* elements that a thread takes at a time, if they share a scale */

struct gpu_block_gather {
	struct gpu_io io; /* data, indices, scales, zero points */
	int64_t n;	  /* elements of the output */
	int64_t dim, inner,
		picked;	   /* size of the gathered axis, elements behind it, number of indices */
	struct gpu_dims d; /* of the data before it was packed */
	int64_t step[GPU_DIMS]; /* strides of the scales; 0 along dims in which they repeat */
	int64_t block, blocks;
	int axis; /* the one that blocks lie along */
	int bits; /* of an element that is packed into bytes; 0: elements have a type of their own */
};

#endif
