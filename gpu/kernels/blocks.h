/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_BLOCKS_H
#define GPU_KERNELS_BLOCKS_H
/* Parameters of the kernels of blocks.cu, which gather slices of data quantized in blocks and dequantize them. */
#include "jobs.h"

enum { GPU_BLOCK_RUN = 8 }; /* elements that a thread reads at a time if they share a scale */

struct gpu_block_gather {
	struct gpu_io io; /* data, indices, scales, zero points */
	int64_t n;	  /* elements of the output */
	/* dim: size of the gathered axis; inner: number of elements behind the axis; picked: number of indices */
	int64_t dim, inner, picked;
	struct gpu_dims d;	/* shape of the data before elements were packed into bytes */
	int64_t step[GPU_DIMS]; /* strides of the scales; 0 along dims in which a scale repeats */
	int64_t block, blocks;
	int axis; /* the axis that is divided into blocks */
	/* bits of an element if elements are packed into bytes, or 0 if elements have a type of their own */
	int bits;
};

#endif
