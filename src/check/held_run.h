/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_HELD_RUN_H
#define CHECK_HELD_RUN_H
/*
 * A run of a model that is kept after its end: the calls of its steps, so that any node can be computed again, and a table
 * of the values of its main graph, from which the nodes are computed. It holds every value between the nodes at once.
 */
#include "check/check.h"
#include "check/step_value.h"

struct held_run {
	struct check_context *c;
	struct session *session; /* the caller's, on the host; it must run nothing else meanwhile */
	const struct graph *g;
	const struct runtime *rt;
	const struct call **call; /* by node id: NULL for a node that has no step, such as a view */
	struct value_copy *value; /* by value id, row-major; of kind V_NONE if there is none. Initializers are not here */
	uint32_t *position; /* by node id: its position in g->order */
	uint32_t *last; /* by value id: position of the last node that reads it; g->norder for an output */
	struct value_copy *out; /* by output: copies of what the session's run gave */
	struct arena arena;
};

/*
 * Runs the session on `in` and keeps its calls and outputs. The table of values has the inputs alone: the caller computes the
 * rest, in g->order, with held_compute. Returns 0 or -code; call held_end in either case.
 */
int held_begin(struct check_context *c, struct held_run *h, struct session *s,
	       const struct tensor *const *in);
void held_end(struct held_run *h);
/*
 * Computes node n from `other`, a table by value id like h->value, or from h->value where `other` is NULL or has no value.
 * Only `other` may replace an initializer. out has an entry for each output of the node, of kind V_NONE if the node leaves it
 * out; free each with value_free. Returns 0, or -code with all of out empty.
 */
int held_compute(struct held_run *h, const struct node *n, const struct value_copy *other,
		 struct value_copy *out, struct diag *d);
/* The value of an operand: from `other`, from the table, or the initializer. NULL if it is left out or not known. */
const struct tensor *held_value(const struct held_run *h, const struct value_copy *other, uint32_t id);
static inline bool held_has(const struct value_copy *v)
{
	return v->t.type.kind != V_NONE;
}
/* Whether t is a tensor of 32-bit floats, the only values of which errors and derivatives are computed. */
static inline bool held_floats(const struct tensor *t)
{
	return t && t->type.kind == V_TENSOR && tensor_dtype(t) == DT_F32 && (t->data || !t->bytes);
}

#endif
