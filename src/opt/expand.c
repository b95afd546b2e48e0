/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/layout.h"
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

static bool has_unknown_sizes(const struct value *v)
{
	const struct shape *s = &v->info.shape;

	if (v->info.type.kind != V_TENSOR)
		return false;
	for (int i = 0; i < s->rank; i++)
		if (s->dim[i] == DIM_UNKNOWN)
			return true;
	return s->rank < 0;
}

/*
 * If the file does not say what sizes an operand has, the operators that replace the node may take what the node does not, since they
 * broadcast. A view of its first operand that is no constant then checks them all when a plan is made.
 */
static void guard_operands(struct optimizer *o, struct graph *g, struct node *n)
{
	uint32_t in[MAX_OPERANDS], nin = 0, first = n->nin, unknown = 0;

	if (o->config->to_file || o->config->compared || n->nin > MAX_OPERANDS)
		return;
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = node_in(g, n, i);
		unknown += v && has_unknown_sizes(v);
		if (v && v->info.type.kind != V_TENSOR)
			return;
		if (v && !v->init && first == n->nin)
			first = i;
	}
	if (!unknown || first == n->nin)
		return;
	struct operands *p = arena_new(g->arena, struct operands);
	*p = (struct operands){.node = n->id, .op = n->op, .params = n->params, .nin = n->nin};
	for (uint32_t k = 0; k <= n->nin; k++) {
		uint32_t i = k ? k - 1 : first;
		if (n->in[i] == NO_VALUE || (k && i == first))
			continue;
		p->at[nin] = i;
		in[nin++] = n->in[i];
	}
	const struct value *from = g->value[n->in[first]];
	uint32_t out = graph_add_value(g, "")->id;
	struct node *guard =
		graph_add_node(g, op_named("infer::Operands"), p, in, nin, &out, 1, n->origin);
	guard->type = guard->op->name;
	guard->version = guard->op->since;
	g->value[out]->info = from->info;
	node_set_in(g, n, first, out);
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
		guard_operands(o, g, n);
		r = rewrite_expand(&w, n);
		if (r) {
			diag_where(o->diag, NULL, n->origin->name, n->origin->op);
			return r;
		}
	}
	return changes;
}
