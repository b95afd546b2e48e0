/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --precision fp16 and bf16: nodes inside an fp32 graph compute in the smaller type if their operator's row says that this does no harm (enum
 * op_reduced), and neither what they read nor what it leads to must stay fp32 (opt/stays.h). --precision fp8 begins as fp16 here, and float8.c
 * converts products afterwards. Constants are converted here, once. Inputs and outputs of the graph stay fp32, with Cast nodes between the two
 * types. Kernels accumulate sums, normalize and exponentiate in fp32 whatever the type of their inputs.
 */
#include "base/pool.h"
#include "ops/cast.h"
#include "ops/fused.h"
#include "opt/optimizer.h"
#include "opt/stays.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct lowering {
	struct optimizer *o;
	struct graph *g;
	enum dtype type;
	/* indexed by value id: the fp32 value converted to the smaller type; NO_VALUE if not made yet */
	uint32_t *small;
	/* indexed by value id: the lowered value converted back to fp32; NO_VALUE if not made yet */
	uint32_t *large;
	/* indexed by value id: whether the value was fp32 and has the smaller type now */
	bool *lowered;
	bool *stays; /* indexed by node id: what must stay fp32 because of where its numbers come from or go to */
	bool *captured; /* indexed by value id: whether a body reads the value */
	uint32_t n; /* number of values before the pass: only these have entries in the arrays */
	int changes;
};

static bool is_f32(const struct value *v)
{
	return v && v->info.type.kind == V_TENSOR && v->info.type.dtype == DT_F32;
}

/* Whether the node raises to a power or exponentiates: such results overflow the smaller type easily. */
static bool may_overflow(const struct node *n)
{
	const struct fused_pointwise *p = n->params;

	if (n->op != op_named("infer::Pointwise"))
		return false;
	for (int64_t i = 0; i + 3 < p->code.n; i += 4)
		if (p->code.v[i] == PW_EXP || p->code.v[i] == PW_POW)
			return true;
	return false;
}

/* The value whose elements a REDUCED_MOVES node copies or blends: its first input of the type of the output (not the condition of a Where). */
static const struct value *moved_value(const struct graph *g, const struct node *n)
{
	struct op op = op_resolved(n->op);

	for (uint32_t i = 0; i < n->nin; i++)
		if (op_has_output_type(&op, i))
			return node_in(g, n, i);
	return NULL;
}

/*
 * Whether a REDUCED_MOVES node should take the smaller type: the value that it copies has it, or is a constant or an input
 * of the graph, which can be converted before as well as after.
 */
static bool moves_small(const struct lowering *l, const struct node *n)
{
	const struct value *v = moved_value(l->g, n);

	if (!v || v->id >= l->n)
		return false;
	return v->init || v->producer == NO_NODE || l->lowered[v->id];
}

static bool may_be_small(const struct lowering *l, const struct node *n)
{
	bool any = false;

	if (!n->op || n->nsub || n->ncap || may_overflow(n) || l->stays[n->id])
		return false;
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = node_in(l->g, n, i);
		any |= v && (is_f32(v) || (v->id < l->n && l->lowered[v->id]));
	}
	for (uint32_t i = 0; i < n->nout; i++)
		if (node_out(l->g, n, i) && l->captured[n->out[i]])
			return false;
	return any && (n->op->reduced == REDUCED_COMPUTES ||
		       (n->op->reduced == REDUCED_MOVES && moves_small(l, n)));
}

/* ---- values in another type ------------------------------------------------------------------ */

/* Whether a product or convolution reads the value. */
static bool is_multiplied(const struct lowering *l, const struct value *v)
{
	static const char *const products[] = {"MatMul", "Gemm",	  "infer::Gemm",
					       "Conv",	 "ConvTranspose", "infer::Conv"};

	for (uint32_t i = 0; i < v->nusers; i++)
		for (size_t k = 0; k < sizeof(products) / sizeof(*products); k++)
			if (l->g->node[v->users[i]]->op == op_named(products[k]))
				return true;
	return false;
}

struct conversion {
	const float *from;
	void *to;
	enum dtype type;
	float least; /* numbers below it become 0 */
};

/*
 * Finite numbers beyond the range of the smaller type become its largest number, not infinity: attention masks
 * hold the lowest number of fp32, and a row of -inf would make the softmax NaN. Weights that are denormal in bf16 become 0, as processors
 * for bf16 products take them, so that no sums are denormal, on which other instructions are a hundred times as slow.
 */
static void convert_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct conversion *c = arg;
	float largest = (float)float_largest(c->type), part[256];

	(void)thread;
	for (int64_t i = begin; i < end; i += 256) {
		int64_t n = end - i < 256 ? end - i : 256;
		for (int64_t k = 0; k < n; k++) {
			float v = c->from[i + k];
			part[k] = isinf(v)		? v
				  : v > largest		? largest
				  : v < -largest	? -largest
				  : fabsf(v) < c->least ? copysignf(0, v)
							: v;
		}
		from_f32(c->type, part, n, c->to, i);
	}
}

static const struct tensor *convert_constant(struct lowering *l, const struct value *v)
{
	const struct tensor *t = v->init;
	struct tensor *y = tensor_new(l->g->arena, l->type, &t->shape);
	struct conversion c = {.from = t->data,
			       .type = l->type,
			       .least = l->type == DT_BF16 && is_multiplied(l, v) ? FLT_MIN : 0};

	if (!y)
		return NULL;
	c.to = y->data;
	pool_for(tensor_count(t), 1 << 16, convert_part, &c);
	return y;
}

/* Adds a Cast of v to type t; returns the id of its output, or NO_VALUE on failure. */
static uint32_t add_cast(struct lowering *l, struct value *v, enum dtype t)
{
	const struct op *op = op_named("Cast");
	struct cast *p = arena_new(l->g->arena, struct cast);
	struct value *y =
		graph_add_value(l->g, arena_printf(l->g->arena, "%s as %s", v->name, dtype_name(t)));
	const char *name = arena_printf(l->g->arena, "%s to %s", v->name, dtype_name(t));

	*p = (struct cast){.to = (int64_t)t, .saturate = 1, .finite = t == l->type};
	struct node *n = graph_add_node(l->g, op, p, &v->id, 1, &y->id, 1,
					origin_new(l->g->arena, name, "Cast", op->since));
	l->changes++;
	return opt_infer_node(l->o, l->g, n) ? NO_VALUE : y->id;
}

/* Returns the id of v in the smaller type and converts v if that is not done yet; NO_VALUE on failure. */
static uint32_t value_in_small(struct lowering *l, struct value *v)
{
	if (v->id >= l->n || l->lowered[v->id])
		return v->id;
	if (l->small[v->id] == NO_VALUE && v->init) {
		const struct tensor *t = convert_constant(l, v);
		struct value *y = t ? graph_add_const(l->g, v->name, t) : NULL;
		if (y)
			opt_set_const(l->o, l->g, y, t);
		l->small[v->id] = y ? y->id : NO_VALUE;
	} else if (l->small[v->id] == NO_VALUE) {
		l->small[v->id] = add_cast(l, v, l->type);
	}
	return l->small[v->id];
}

/* Returns the id of v in fp32, behind a Cast if v was lowered to the smaller type; NO_VALUE on failure. */
static uint32_t value_in_fp32(struct lowering *l, struct value *v)
{
	if (v->id >= l->n || !l->lowered[v->id])
		return v->id;
	if (l->large[v->id] == NO_VALUE)
		l->large[v->id] = add_cast(l, v, DT_F32);
	return l->large[v->id];
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static int lower_node(struct lowering *l, struct node *n)
{
	struct op op = op_resolved(n->op);
	uint32_t nout = n->nout;

	for (uint32_t i = 0; i < n->nin; i++) {
		struct value *v = node_in(l->g, n, i);
		if (!v || !is_f32(v) || !op_lowers_input(&op, i))
			continue;
		uint32_t small = value_in_small(l, v);
		if (small == NO_VALUE)
			return FAIL(l->o->diag, E_MEMORY, .node = n->origin->name);
		node_set_in(l->g, n, i, small);
	}
	int err = opt_infer_node(l->o, l->g, n);
	for (uint32_t i = 0; i < nout && !err; i++) {
		const struct value *v = node_out(l->g, n, i);
		if (v && v->info.type.dtype == l->type)
			l->lowered[v->id] = true;
	}
	l->changes++;
	return err;
}

/* Replaces the lowered inputs of a node that stays fp32 by fp32 versions of them. */
static int keep_node(struct lowering *l, struct node *n)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		struct value *v = node_in(l->g, n, i);
		if (!v || v->id >= l->n || !l->lowered[v->id])
			continue;
		uint32_t large = value_in_fp32(l, v);
		if (large == NO_VALUE)
			return -E_INTERNAL;
		node_set_in(l->g, n, i, large);
	}
	return 0;
}

/* Casts the lowered outputs of the graph back to fp32. */
static int keep_outputs(struct lowering *l)
{
	struct graph *g = l->g;

	for (uint32_t i = 0; i < g->nout; i++) {
		struct value *v = g->value[g->out[i]];
		uint32_t large = value_in_fp32(l, v);
		if (large == v->id)
			continue;
		if (large == NO_VALUE)
			return -E_INTERNAL;
		v->is_output = false;
		g->value[large]->is_output = true;
		g->out[i] = large;
	}
	return 0;
}

static void init_lowering(struct lowering *l)
{
	const struct graph *g = l->g;
	struct arena *a = &l->o->scratch;

	l->n = g->nvalues;
	l->small = arena_new_n(a, uint32_t, l->n + 1);
	l->large = arena_new_n(a, uint32_t, l->n + 1);
	l->lowered = arena_new_n(a, bool, l->n + 1);
	l->stays = opt_stays(l->o, g, l->type);
	l->captured = opt_captured(l->o, g);
	for (uint32_t i = 0; i < l->n; i++)
		l->small[i] = l->large[i] = NO_VALUE;
}

int pass_precision(struct optimizer *o, struct graph *g)
{
	struct lowering l = {.o = o, .g = g};
	int p = o->config->precision, err;

	if ((p != PRECISION_FP16 && p != PRECISION_BF16 && p != PRECISION_FP8) || g != o->model->graph)
		return 0; /* bodies of control flow stay fp32 */
	l.type = p == PRECISION_BF16 ? DT_BF16 : DT_F16;
	err = graph_sort(g, o->diag);
	if (err)
		return err;
	opt_info(o, g);
	init_lowering(&l);
	uint32_t count = g->norder, *order = arena_dup(&o->scratch, g->order, count * sizeof(*order));
	for (uint32_t i = 0; i < count && !err; i++) {
		struct node *n = g->node[order[i]];
		err = may_be_small(&l, n) ? lower_node(&l, n) : keep_node(&l, n);
	}
	if (!err)
		err = keep_outputs(&l);
	if (!err)
		err = graph_sort(g, o->diag);
	return err ? err : l.changes;
}
