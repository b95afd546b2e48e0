/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IR_WALK_H
#define IR_WALK_H
/*
 * A walk from value to value, also into bodies, that comes to each value once and to the nearest first. A recursion without that
 * mark follows every path, and six nodes of a hundred inputs each already have 10^12 paths.
 */
#include "base/hash.h"
#include "ir/graph.h"

struct walk_place {
	const struct graph *g;
	const struct value *v;
	int steps; /* as the caller counts them */
};

/* Begin with {0} and walk_to(). */
struct walk {
	struct arena arena;
	struct map seen;
	struct walk_place *place; /* in the order of the walk */
	size_t n, next;
};

/* Adds a value to come to, unless it was added before. v may be NULL. */
void walk_to(struct walk *w, const struct graph *g, const struct value *v, int steps);
/* Returns the next value, or NULL at the end. It is valid until the next call of walk_to(). */
const struct walk_place *walk_next(struct walk *w);
void walk_end(struct walk *w);

#endif
