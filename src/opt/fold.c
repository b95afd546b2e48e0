/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/optimizer.h"

/*
 * Nodes whose outputs are known become constants. Larger ones than inference evaluates (weights
 * times a folded scale) are evaluated here, within a budget: a result may be no larger than what
 * went in, or than this.
 */
enum { FOLD_BYTES = 4 << 20 };

static bool inputs_constant(const struct graph *g, const struct node *n, size_t *bytes)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = node_in(g, n, i);
		if (!v)
			continue;
		if (!v->init || v->init->type.kind != V_TENSOR || v->init->type.dtype == DT_STRING)
			return false;
		*bytes += v->init->bytes;
	}
	return n->nin > 0;
}

static bool within_budget(const struct graph *g, const struct node *n, size_t in)
{
	size_t out = 0, bytes;

	for (uint32_t i = 0; i < n->nout; i++) {
		const struct value *v = node_out(g, n, i);
		if (!v)
			continue;
		if (v->info.type.kind != V_TENSOR || !shape_known(&v->info.shape) ||
		    !tensor_bytes((enum dtype)v->info.type.dtype, &v->info.shape, LAYOUT_ROW, &bytes) ||
		    !size_add(out, bytes, &out))
			return false;
	}
	return out <= FOLD_BYTES || out <= in;
}

static bool outputs_known(const struct graph *g, const struct node *n)
{
	bool any = false;

	for (uint32_t i = 0; i < n->nout; i++) {
		const struct value *v = node_out(g, n, i);
		if (v && !v->info.known)
			return false;
		any |= v != NULL;
	}
	return any;
}

/* 1 where the outputs are known now. */
static int evaluate(struct optimizer *o, struct graph *g, struct node *n)
{
	const struct tensor **in = arena_new_n(&o->scratch, const struct tensor *, n->nin + 1);
	struct tensor **out = arena_new_n(&o->scratch, struct tensor *, n->nout + 1);
	size_t bytes = 0;

	if (outputs_known(g, n))
		return 1;
	if (n->op->flags & (OP_RANDOM | OP_CONTROL | OP_HOST_VALUES) || !inputs_constant(g, n, &bytes) ||
	    !within_budget(g, n, bytes))
		return 0;
	for (uint32_t i = 0; i < n->nin; i++)
		in[i] = node_in(g, n, i) ? node_in(g, n, i)->init : NULL;
	/* what cannot be evaluated stays, and says why when it runs */
	if (eval_node(o->cpu, g, n, in, out, g->arena, NULL))
		return 0;
	for (uint32_t i = 0; i < n->nout; i++)
		if (node_out(g, n, i) && out[i])
			node_out(g, n, i)->info.known = out[i];
	return outputs_known(g, n);
}

int pass_fold(struct optimizer *o, struct graph *g)
{
	int changes = 0, r = graph_sort(g, o->diag);

	for (uint32_t i = 0; !r && i < g->norder; i++) {
		struct node *n = g->node[g->order[i]];
		if (n->nsub || !evaluate(o, g, n))
			continue;
		for (uint32_t k = 0; k < n->nout; k++) {
			struct value *v = node_out(g, n, k);
			if (v)
				opt_set_const(o, g, v, v->info.known);
		}
		graph_remove_node(g, n);
		changes++;
	}
	return r ? r : changes;
}
