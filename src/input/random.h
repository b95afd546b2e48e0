/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INPUT_RANDOM_H
#define INPUT_RANDOM_H
/* Values made up: the same seed and input name give the same ones on every machine. */
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
	bool named; /* for this input by name: taken as it is */
	enum range_kind kind;
};
/* Ids and masks get sensible integers: by what the graph does with them, else by their name. */
void random_choose(struct range *r, const struct graph *g, const struct value *v);
/* "random -1..1, seed 0" */
const char *random_text(const struct range *r, int64_t seed, enum dtype t, struct arena *a);
void random_fill(const struct range *r, int64_t seed, const char *name, struct tensor *t);
struct tensor *random_strings(const struct range *r, int64_t seed, const char *name,
			      const struct shape *s, struct arena *a);

#endif
