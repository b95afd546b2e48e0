/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ONEDNN_PACK_H
#define CPU_ONEDNN_PACK_H
/*
 * Dense weights into a blocked layout, as fast as memory allows: most of the time between the
 * start of the program and its first result goes here.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PACK_MAX = 6, PACK_BLOCKS = 8 };

/*
 * A blocked layout: element (i0, i1, ...) lies at the sum over the dims of what is left of i after
 * its blocks times stride, plus the blocks' own parts, the last block innermost.
 */
struct pack {
	int rank;
	int64_t dim[PACK_MAX], from[PACK_MAX]; /* sizes and strides of the source */
	int64_t to[PACK_MAX];		       /* strides of the target's outer part */
	int blocks;
	int64_t block[PACK_BLOCKS];
	int block_dim[PACK_BLOCKS];
	bool padded;  /* the target has more elements than the source: they become zero */
	size_t bytes; /* of the target */
};

/* False where the layout is none that is packed fast (nothing is written), or memory is refused. */
bool pack_f32(const struct pack *p, const float *src, float *dst);

#endif
