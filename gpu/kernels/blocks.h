/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_BLOCKS_H
#define GPU_KERNELS_BLOCKS_H
/* What blocks.cu is handed: slices of data in blocks that share a scale, gathered and widened. */
#include "jobs.h"

enum { GPU_BLOCK_RUN = 8 }; /* elements that a thread takes at a time where it can */

struct gpu_block_gather {
	struct gpu_io io;	    /* data, indices, scales, zero points */
	int64_t n;		    /* elements of the output */
	int64_t dim, inner, picked; /* of the gathered axis; behind it; indices */
	struct gpu_dims d;	    /* of the data, as if it were not packed */
	int64_t step[GPU_DIMS];	    /* of the scales; 0 where they repeat */
	int64_t block, blocks;
	int axis, bits; /* axis: of the blocks. bits: of an element that is packed in bytes; 0: it has a type of its own */
};

#endif
