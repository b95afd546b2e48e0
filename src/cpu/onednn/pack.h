/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ONEDNN_PACK_H
#define CPU_ONEDNN_PACK_H
/*
 * Copies dense weights to a blocked layout of oneDNN at the speed of memory. This copy takes most of the time
 * between the start of the program and its first result.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PACK_MAX = 6, PACK_BLOCKS = 8 };

/*
 * The layouts of source and target. The source is dense with strides. The target is blocked as in oneDNN's
 * formats: nChw16c, for example, has one block of 16 channels (block[0] = 16, block_dim[0] = 1). If there are
 * several blocks, the last one is innermost. A blocked dimension's index modulo its block selects the element
 * inside the block; the quotient selects the block and is multiplied by the stride in to[].
 */
struct pack {
	int rank;
	int64_t dim[PACK_MAX], from[PACK_MAX]; /* sizes and strides of the source */
	/* strides of the target in elements; for a blocked dimension, the distance between blocks */
	int64_t to[PACK_MAX];
	int blocks;
	int64_t block[PACK_BLOCKS];
	int block_dim[PACK_BLOCKS];
	bool padded; /* the target has more elements than the source; the additional elements become zero */
	size_t bytes; /* of the target */
};

/*
 * Copies src to dst. Returns false, with nothing written, if no dimension of the target has adjacent elements or
 * memory cannot be allocated.
 */
bool pack_f32(const struct pack *p, const float *src, float *dst);

#endif
