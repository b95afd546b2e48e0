/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/optimizer.h"

#include <string.h>

/*
 * Nodes whose outputs are known become constants. Larger ones than inference evaluates (weights
 * times a folded scale) are evaluated here, within a budget: a result may be this large, or a few
 * times as large as what went in (weights that are stored in a smaller type).
 */
enum { FOLD_BYTES = 4 << 20, FOLD_GROWTH = 4 };

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
	return out <= FOLD_BYTES || out / FOLD_GROWTH <= in;
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

/* A view of a constant is that constant under another shape: its bytes may lie in the model's file. */
static bool alias(struct graph *g, const struct node *n)
{
	const struct value *x = node_in(g, n, 0);
	struct value *y = node_out(g, n, 0);
	struct tensor *t;

	if (!(n->op->flags & OP_VIEW) || n->nout != 1 || !x || !y || !x->init)
		return false;
	if (x->init->type.kind != V_TENSOR || !type_equal(x->init->type, y->info.type) ||
	    !shape_known(&y->info.shape) || shape_count(&y->info.shape) != tensor_count(x->init))
		return false;
	t = arena_dup(g->arena, x->init, sizeof(*x->init));
	t->shape = y->info.shape;
	y->info.known = t;
	return true;
}

/* 1 where the outputs are known now. */
static int evaluate(struct optimizer *o, struct graph *g, struct node *n)
{
	const struct tensor **in = arena_new_n(&o->scratch, const struct tensor *, n->nin + 1);
	struct tensor **out = arena_new_n(&o->scratch, struct tensor *, n->nout + 1);
	size_t bytes = 0;

	if (outputs_known(g, n) || alias(g, n))
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

/*
 * A transposed weight of a product stays until the rules had their turn: they turn it into an
 * attribute, which costs no copy.
 */
static bool left_to_rules(const struct graph *g, const struct node *n)
{
	const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);

	if (strcmp(n->op->name, "Transpose") != 0 || !x || !x->init || x->init->shape.rank != 2 || !y)
		return false;
	for (uint32_t i = 0; i < y->nusers; i++) {
		const struct node *u = g->node[y->users[i]];
		bool product = u->op && (!strcmp(u->op->name, "MatMul") || !strcmp(u->op->name, "Gemm"));
		if (!product || node_in(g, u, 1) != y)
			return false;
	}
	return y->nusers > 0;
}

static int fold(struct optimizer *o, struct graph *g, bool all)
{
	int changes = 0, r = graph_sort(g, o->diag);

	for (uint32_t i = 0; !r && i < g->norder; i++) {
		struct node *n = g->node[g->order[i]];
		if (n->nsub || (!all && left_to_rules(g, n)) || !evaluate(o, g, n))
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

int pass_fold(struct optimizer *o, struct graph *g)
{
	return fold(o, g, o->config->optimize == OPTIMIZE_NONE);
}

int pass_fold_weights(struct optimizer *o, struct graph *g)
{
	return fold(o, g, true);
}
