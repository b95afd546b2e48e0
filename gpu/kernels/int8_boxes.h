/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_INT8_BOXES_H
#define GPU_KERNELS_INT8_BOXES_H
/* Convolutions of 8-bit codes whose operands the copy engine fetches (int8_boxes.cu): parameters and tiles. */
#include "group_product.h"
#include "int8_conv.h"

/*
 * x: windows over images whose channels come last, or a matrix of pixels if conv.plain; w: packed, with rows as row_of_channel() deals them; r (if
 * conv.adds) and y: matrices with a row for each pixel. x's zero point is 0 if windows reach into padding.
 */
struct gpu_codes_boxes {
	struct gpu_box x, w, r, y;
	struct gpu_codes_conv conv;
	int steps;  /* of a window */
	int stages; /* steps in flight, at most GPU_CODES_STAGES */
	int known; /* no kernel writes scales, zero points or the bias: they are read while the kernel before may still run */
};

/*
 * A block's tile of the result: X(groups, columns, depth, stay, blocks). Each of `groups` warpgroups multiplies 64 pixels by so many output channels,
 * `depth` bytes of a window in a step. stay: the block keeps the weights of all steps; otherwise each step brings its own. blocks: those for which a
 * processor has registers.
 */
#define GPU_CODES_BOXES(X)                                                                         \
	X(2, 128, 64, 1, 2)                                                                        \
	X(2, 64, 64, 1, 3)                                                                         \
	X(1, 128, 64, 1, 4)                                                                        \
	X(1, 64, 64, 1, 4)                                                                         \
	X(2, 128, 128, 1, 2)                                                                       \
	X(1, 128, 128, 1, 3)                                                                       \
	X(2, 128, 128, 0, 2) X(2, 64, 128, 0, 2) X(1, 128, 128, 0, 3) X(1, 64, 128, 0, 3)
enum {
	GPU_CODES_STAGES = 12,
	/* bytes of shared memory, at most, that a block takes beside those of its launch */
	GPU_CODES_BOXES_OWN = 3 << 10
};

#endif
