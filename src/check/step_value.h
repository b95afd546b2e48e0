/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_STEP_VALUE_H
#define CHECK_STEP_VALUE_H
/* Fetches the values that a step reads and writes into host memory, and computes statistics of their numbers. */
#include "plan/plan.h"

/* A row-major tensor in host memory; it may borrow its bytes from the step. */
struct value_copy {
	struct tensor t;
	void *own;	    /* of mem_alloc; NULL: borrowed */
	struct arena arena; /* of host values (strings, sequences) */
};

/*
 * Makes *v a copy of tensor t, an operand of call c in a session with runtime rt. The copy is fetched from the device
 * and reordered to row-major if necessary. If `keep` is set, the copy has bytes of its own and outlives the step;
 * otherwise it may borrow the step's bytes. Returns 0 or -code. Free the copy with value_free.
 */
int value_fetch(const struct runtime *rt, const struct call *c, const struct tensor *t, bool keep,
		struct value_copy *v, struct diag *d);
void value_free(struct value_copy *v);

/* Whether the step only moves a value to another layout or device (a Reorder or Copy step). */
bool step_moves(const struct runtime *rt, const struct step *s);
/* Whether the step's node is in graph g itself, not in the body of a node of g. */
static inline bool step_of(const struct graph *g, const struct step *s)
{
	return s->node && s->node->id < g->nnodes && g->node[s->node->id] == s->node;
}
/* Whether the step computes a node of graph g itself: what it writes are then that node's outputs, in their own shapes. */
static inline bool step_computes(const struct runtime *rt, const struct graph *g, const struct step *s)
{
	return !step_moves(rt, s) && step_of(g, s);
}

/* Tells, with what the caller has at `arg`, whether views need not be followed further back than value `id`. */
typedef bool value_test(const void *arg, uint32_t id);
/*
 * Follows views back from value `id`. Returns the first value on the way, `id` included, that `stop` accepts; if it accepts none or is NULL,
 * the last one. Views are made by operators whose output has the bytes of their first input; `any`: by all nodes, as only those that
 * do nothing in this plan have no step, at which the caller stops. No more than 64 views are followed, for time.
 */
uint32_t follow_views(const struct graph *g, uint32_t id, bool any, value_test *stop, const void *arg);

struct value_stats {
	bool number; /* has elements that are numbers */
	int64_t count, nan, inf, denormal, zero;
	double min, max; /* smallest and largest finite element; NAN if there are no finite elements */
	bool constant; /* there are at least two elements, and all are equal */
};
/* Computes the statistics of tensor t, which must be row-major and in host memory. */
struct value_stats value_stats(const struct tensor *t);
/* Returns a text such as "min -3.1, max 12.8, 3 NaN of 40". */
const char *value_say(struct diag *d, const struct value_stats *s);

#endif
