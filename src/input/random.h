/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_RANDOM_H
#define INPUT_RANDOM_H
/* Random input values. The same seed and input name give the same values on every machine. */
#include "ir/graph.h"

enum range_kind {
	RANGE_UNIFORM,
	RANGE_IDS,   /* indices into a table of hi + 1 rows */
	RANGE_ONES,  /* a mask that hides nothing */
	RANGE_ZERO,  /* token types */
	RANGE_COUNT, /* positions: 0, 1, 2, ... along the last axis */
};

struct range {
	double lo, hi;
	bool named; /* the user gave the range for this input by name: it is not adapted */
	enum range_kind kind;
};
/*
 * Choose plausible integers for ids, masks and positions, by how the graph uses the input (a Gather tells the number of
 * ids) or else by its name: integers at random would be outside of most tables.
 */
void random_choose(struct range *r, const struct graph *g, const struct value *v);
/* What the values are, for people: "random -1..1, seed 0". */
const char *random_text(const struct range *r, int64_t seed, enum dtype t, struct arena *a);
/* Fill the tensor, whose memory exists; not for strings. */
void random_fill(const struct range *r, int64_t seed, const char *name, struct tensor *t);
/* A tensor of random words, in the arena; NULL: no memory. */
struct tensor *random_strings(const struct range *r, int64_t seed, const char *name,
			      const struct shape *s, struct arena *a);

#endif
