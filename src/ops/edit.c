/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/activation.h"
#include "ops/op.h"

#include <math.h>
#include <string.h>

static void *default_params(struct graph *g, const struct op *op)
{
	struct op r = op_resolved(op);
	void *p = arena_alloc(g->arena, r.params_size + 1);

	if (r.attrs)
		field_defaults(r.attrs, p, g->arena);
	return p;
}

void *edit_params(struct edit *e)
{
	e->node->op = op_named(op_qualified(e->node->op));
	return e->node->params = default_params(e->graph, e->node->op);
}

void *edit_become(struct edit *e, const char *qualified)
{
	e->node->op = op_named(qualified);
	return e->node->params = default_params(e->graph, e->node->op);
}

void edit_const_ints(struct edit *e, uint32_t i, const int64_t *v, int64_t n)
{
	struct value *c = graph_add_const(e->graph, "", tensor_i64(e->graph->arena, 1, v, n));
	node_set_in(e->graph, e->node, i, c->id);
}

void edit_const_scalar(struct edit *e, uint32_t i, double v, enum dtype t)
{
	struct shape scalar = {0};
	struct tensor *x = tensor_new(e->graph->arena, t, &scalar);

	elem_set_f64(t, x->data, 0, v);
	node_set_in(e->graph, e->node, i, graph_add_const(e->graph, "", x)->id);
}

enum dtype edit_dtype(const struct edit *e, uint32_t i)
{
	const struct value *v = node_in(e->graph, e->node, i);
	return v ? (enum dtype)v->info.type.dtype : DT_NONE;
}

int edit_rank(const struct edit *e, uint32_t i)
{
	const struct value *v = node_in(e->graph, e->node, i);
	return v ? v->info.shape.rank : -1;
}

uint32_t edit_before(struct edit *e, const char *qualified, const uint32_t *in, uint32_t nin,
		     void **params)
{
	const struct op *op = op_named(qualified);
	uint32_t out = graph_add_value(e->graph, "")->id;
	struct node *n = graph_add_node(e->graph, op, default_params(e->graph, op), in, nin, &out,
					1, e->node->origin);

	n->type = op->name;
	n->version = op->since;
	if (params)
		*params = n->params;
	return out;
}

struct node *edit_after(struct edit *e, uint32_t k, const char *qualified, const uint32_t *extra,
			uint32_t nextra, void **params)
{
	const struct op *op = op_named(qualified);
	uint32_t out = e->node->out[k], mid = graph_add_value(e->graph, "")->id;
	uint32_t *in = arena_new_n(e->graph->arena, uint32_t, nextra + 1);

	e->node->out[k] = mid;
	e->graph->value[mid]->producer = e->node->id;
	in[0] = mid;
	if (nextra)
		memcpy(in + 1, extra, nextra * sizeof(*in));
	struct node *n = graph_add_node(e->graph, op, default_params(e->graph, op), in, nextra + 1,
					&out, 1, e->node->origin);
	n->type = op->name;
	n->version = op->since;
	if (params)
		*params = n->params;
	return n;
}

/* Sets the attribute if the operator has it and v is a number. */
static void set_float(const struct op *op, void *params, const char *attr, float v)
{
	const struct field *f = field_find(op->attrs, attr);

	if (f && !isnan(v))
		*(float *)(void *)((char *)params + f->off) = v;
}

/* Sets inputs 1 and 2 of Clip node n to those bounds that are finite. */
static void set_clip_bounds(struct edit *e, struct node *n, float low, float high)
{
	struct edit behind = *e;
	enum dtype t = edit_dtype(e, 0);

	behind.node = n;
	if (low > -INFINITY)
		edit_const_scalar(&behind, 1, (double)low, t ? t : DT_F32);
	if (high < INFINITY)
		edit_const_scalar(&behind, 2, (double)high, t ? t : DT_F32);
}

int edit_activation(struct edit *e, uint32_t k, const char *name, float alpha, float beta)
{
	const uint32_t bounds[2] = {NO_VALUE, NO_VALUE};
	void *params;

	if (!name || !*name)
		return 0;
	enum act act = activation_named(name);
	if (act == ACT_NONE)
		return edit_fail(e, E_OP_ATTRIBUTE, "an activation that is known", name);
	bool clips = act == ACT_CLIP;
	struct node *n = edit_after(e, k, activations[act].op, bounds, clips ? 2 : 0, &params);
	const struct op r = op_resolved(n->op);
	set_float(&r, params, "alpha", alpha);
	set_float(&r, params, "beta", beta);
	if (clips)
		set_clip_bounds(e, n, alpha, beta);
	return 0;
}

int edit_fail(const struct edit *e, enum code code, const char *expected, const char *actual)
{
	return FAIL(e->diag, code, .node = e->node->origin->name, .op = e->node->origin->op,
		    .expected = expected, .actual = actual);
}
