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
 * The layouts of source and target. The target is blocked: block k splits dimension block_dim[k] into blocks of
 * block[k] indices, and the last block is innermost. Inside the blocks an index counts modulo the block sizes;
 * the quotient that remains of it is multiplied by the outer stride to[].
 */
struct pack {
	int rank;
	int64_t dim[PACK_MAX], from[PACK_MAX]; /* sizes and strides of the source */
	int64_t to[PACK_MAX];		       /* strides of the target's outer part */
	int blocks;
	int64_t block[PACK_BLOCKS];
	int block_dim[PACK_BLOCKS];
	bool padded;  /* the target has more elements than the source; the others become zero */
	size_t bytes; /* of the target */
};

/* False, with nothing written, if the target has no inner dimension or memory cannot be allocated. */
bool pack_f32(const struct pack *p, const float *src, float *dst);

#endif
