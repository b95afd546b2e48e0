/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_BROADCAST_H
#define CPU_MATH_BROADCAST_H
/*
 * Elementwise work over operands that broadcast as in numpy. Adjacent dimensions are merged if all
 * operands allow it. The loop always gets dense runs: an operand that repeats, or whose inner runs
 * are short, is first copied into a small buffer, so that an operator needs only one loop.
 */
#include "backend/backend.h"

enum { BCAST_MAX = 3 };

/* Computes n elements of out from n elements of each in[k], all dense; out may be the same memory as an input. */
typedef void bcast_loop(void *arg, const void *const *in, void *out, int64_t n);

struct bcast {
	int rank, nin;
	int64_t n;			   /* elements of the output */
	int64_t dim[MAX_RANK];		   /* of the output, after merging */
	int64_t step[BCAST_MAX][MAX_RANK]; /* strides of each operand, in elements */
	/* bytes of an element of each input; size[BCAST_MAX] is for the output */
	int64_t size[BCAST_MAX + 1];
	bool whole[BCAST_MAX]; /* the operand has as many elements as the output */
};

/*
 * Sets up *b. Each shape in[k] must broadcast to out, ranks must be at most MAX_RANK, and elements must have 1, 2, 4,
 * 8 or 16 bytes.
 */
void bcast_make(struct bcast *b, const struct shape *out, const struct shape *const *in, int nin,
		const int64_t *in_size, int64_t out_size);
/* Sets up *b for tensors, in the memory order of their common layout. Returns false if their layouts differ. */
bool bcast_tensors(struct bcast *b, const struct tensor *out, const struct tensor *const *in, int nin);
/* Runs the loop over all elements of the output, in parallel, in pieces of at least `grain` elements. */
void bcast_run(const struct bcast *b, const void *const *in, void *out, int64_t grain,
	       bcast_loop *loop, void *arg);

#endif
