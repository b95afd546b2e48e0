/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_STEP_VALUE_H
#define CHECK_STEP_VALUE_H
/* What a step reads and writes, as plain numbers in host memory, and what can be said of them. */
#include "plan/plan.h"

/* A tensor in host memory, row-major; it may borrow its bytes from the step. */
struct value_copy {
	struct tensor t;
	void *own;	    /* of mem_alloc; NULL: borrowed */
	struct arena arena; /* of host values (strings, sequences) */
};

/*
 * t of the call c of a session with runtime rt: fetched from the device and put into row-major order
 * where it is not. keep: never borrowed. 0 or -code.
 */
int value_fetch(const struct runtime *rt, const struct call *c, const struct tensor *t, bool keep,
		struct value_copy *v, struct diag *d);
void value_free(struct value_copy *v);

/* Whether the step moves a value and makes none (a Reorder or Copy). */
bool step_moves(const struct runtime *rt, const struct step *s);
/* Whether the node is of the model's own graph, not of a body. */
static inline bool step_of(const struct graph *g, const struct step *s)
{
	return s->node && s->node->id < g->nnodes && g->node[s->node->id] == s->node;
}

struct value_stats {
	bool number; /* has elements that are numbers */
	int64_t count, nan, inf, denormal, zero;
	double min, max; /* of the finite ones; NAN where there is none */
	bool constant;	 /* all elements are the same (and there are two at least) */
};
/* Of a row-major tensor in host memory. */
struct value_stats value_stats(const struct tensor *t);
/* "min -3.1, max 12.8, 3 NaN of 40" */
const char *value_say(struct diag *d, const struct value_stats *s);

#endif
