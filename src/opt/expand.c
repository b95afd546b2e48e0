/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/optimizer.h"

/* Whether the CPU has a kernel for the operator. */
static bool has_kernel(const struct optimizer *o, const struct op *op)
{
	return backend_kernel(o->cpu, op, 0) != NULL;
}

static bool expands(const struct optimizer *o, const struct graph *g, const struct node *n)
{
	struct op op;

	if (!n->op->expand && !n->op->expand_as && n->op->in)
		return false;
	op = op_resolved(n->op);
	if (!op.expand && !op.expand_as)
		return false;
	return n->op->expand_when ? n->op->expand_when(g, n) : !has_kernel(o, n->op);
}

int pass_expand(struct optimizer *o, struct graph *g)
{
	struct made made = {o, g};
	struct rewriter w = opt_rewriter(&made);
	int changes = 0, r;

	/* new nodes are appended to the list, so the loop reaches them and expands them in turn */
	for (uint32_t i = 0; i < g->nnodes; i++) {
		struct node *n = g->node[i];
		if (n->dead || !n->op || !expands(o, g, n))
			continue;
		if (++changes > 1000000)
			return FAIL(o->diag, E_INTERNAL, .op = n->op->name,
				    .message = "an operator that expands to itself");
		r = rewrite_expand(&w, n);
		if (r) {
			diag_where(o->diag, NULL, n->origin->name, n->origin->op);
			return r;
		}
	}
	return changes;
}
