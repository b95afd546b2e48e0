/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/optimizer.h"

static bool unused(const struct value *v)
{
	return !v->nusers && !v->is_output;
}

/*
 * Drops unused outputs of the node if its operator allows outputs to be left out: kernels then need not compute them.
 */
static int drop_outputs(struct graph *g, struct node *n)
{
	int changes = 0;

	if (!(n->op->flags & OP_OPTIONAL_OUT))
		return 0;
	for (uint32_t i = 0; i < n->nout; i++) {
		struct value *v = node_out(g, n, i);
		const struct slot *s = slot_at(op_resolved(n->op).out, i);
		if (!v || !unused(v) || !s || !s->optional)
			continue;
		v->producer = NO_NODE;
		n->out[i] = NO_VALUE;
		changes++;
	}
	while (n->nout && n->out[n->nout - 1] == NO_VALUE)
		n->nout--;
	return changes;
}

int pass_dce(struct optimizer *o, struct graph *g)
{
	int changes = 0, r = graph_sort(g, o->diag);

	if (r)
		return r;
	for (uint32_t i = g->norder; i-- > 0;) {
		struct node *n = g->node[g->order[i]];
		bool used = false;

		if (n->nsub)
			changes += opt_trim_captures(o, g, n);
		for (uint32_t k = 0; k < n->nout; k++)
			used |= node_out(g, n, k) && !unused(node_out(g, n, k));
		if (!used) {
			graph_remove_node(g, n);
			changes++;
		} else if (n->op) {
			changes += drop_outputs(g, n);
		}
	}
	r = graph_sort(g, o->diag);
	return r ? r : changes;
}
