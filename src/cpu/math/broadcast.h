/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_BROADCAST_H
#define CPU_MATH_BROADCAST_H
/*
 * Elementwise work over operands that broadcast as numpy does. The dimensions are collapsed as far
 * as the operands agree; the loop is handed dense runs: an operand that repeats, or whose inner
 * runs are short, is spread into a small buffer first, so that a loop needs only one form.
 */
#include "backend/backend.h"

enum { BCAST_MAX = 3 };

/* in[k] and out are dense runs of n elements; y may lie on an input's own memory. */
typedef void bcast_loop(void *arg, const void *const *in, void *out, int64_t n);

struct bcast {
	int rank, nin;
	int64_t n;			   /* elements of the output */
	int64_t dim[MAX_RANK];		   /* collapsed */
	int64_t step[BCAST_MAX][MAX_RANK]; /* in elements */
	int64_t size[BCAST_MAX + 1];	   /* bytes of an element, the output's last */
	bool whole[BCAST_MAX];		   /* the operand is as long as the output */
};

/* in[k] must broadcast to out. Ranks up to MAX_RANK, sizes of elements 1, 2, 4, 8 or 16. */
void bcast_make(struct bcast *b, const struct shape *out, const struct shape *const *in, int nin,
		const int64_t *in_size, int64_t out_size);
/* The same of tensors, whose common layout is kept. False where the layouts do not go together. */
bool bcast_tensors(struct bcast *b, const struct tensor *out, const struct tensor *const *in, int nin);
/* Runs the loop over all of it, in parallel in pieces of at least grain elements. */
void bcast_run(const struct bcast *b, const void *const *in, void *out, int64_t grain,
	       bcast_loop *loop, void *arg);

#endif
