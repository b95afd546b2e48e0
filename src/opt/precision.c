/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --precision fp16, bf16: the inside of an fp32 graph goes to the smaller type. Weights are converted
 * once, here; inputs, outputs and what is easily spoilt stay fp32, with casts between. The kernels sum,
 * normalise and exponentiate in fp32 in any case.
 */
#include "base/pool.h"
#include "ops/cast.h"
#include "ops/fused.h"
#include "opt/optimizer.h"

#include <math.h>
#include <string.h>

/* What computes as well in the smaller type: products, norms, activations, sums of few. */
static const char *const computing[] = {"infer::Conv",
					"infer::Gemm",
					"infer::Attention",
					"infer::AddLayerNorm",
					"infer::Pointwise",
					"Conv",
					"ConvTranspose",
					"MatMul",
					"Gemm",
					"com.microsoft::FusedMatMul",
					"com.microsoft::TransposeMatMul",
					"Attention",
					"infer::ProjectedAttention",
					"com.microsoft::MultiHeadAttention",
					"com.microsoft::GroupQueryAttention",
					"RotaryEmbedding",
					"com.microsoft::RotaryEmbedding",
					"LayerNormalization",
					"RMSNormalization",
					"SimplifiedLayerNormalization",
					"com.microsoft::SkipLayerNormalization",
					"com.microsoft::SkipSimplifiedLayerNormalization",
					"InstanceNormalization",
					"GroupNormalization",
					"Softmax",
					"LogSoftmax",
					"MaxPool",
					"AveragePool",
					"GlobalAveragePool",
					"GlobalMaxPool",
					"Relu",
					"LeakyRelu",
					"PRelu",
					"Clip",
					"Sigmoid",
					"HardSigmoid",
					"HardSwish",
					"Swish",
					"Mish",
					"Elu",
					"Tanh",
					"Erf",
					"Gelu",
					"com.microsoft::Gelu",
					"com.microsoft::FastGelu",
					"com.microsoft::BiasGelu",
					"Softplus",
					"Add",
					"Sub",
					"Mul",
					"Max",
					"Min",
					"Neg",
					"Abs",
					NULL};
/* What moves elements: in the type that they come in. */
static const char *const moving[] = {"Identity",  "Reshape",   "Flatten",      "Squeeze",
				     "Unsqueeze", "Transpose", "Concat",       "Split",
				     "Slice",	  "Gather",    "Expand",       "Tile",
				     "Where",	  "Pad",       "DepthToSpace", "SpaceToDepth",
				     "ReduceMax", "ReduceMin", "Dropout",      NULL};

struct lowering {
	struct optimizer *o;
	struct graph *g;
	enum dtype type;
	uint32_t *small; /* by value id: the same value in the smaller type; NO_VALUE: not made */
	uint32_t *large; /* the other way */
	bool *lowered;	 /* by value id: was fp32 and is of the smaller type now */
	bool *captured;	 /* by value id: a body reads it */
	uint32_t n;	 /* values there were */
	int changes;
};

static bool listed(const char *const *list, const struct op *op)
{
	for (const char *name = op_qualified(op); *list; list++)
		if (!strcmp(*list, name))
			return true;
	return false;
}

static bool is_f32(const struct value *v)
{
	return v && v->info.type.kind == V_TENSOR && v->info.type.dtype == DT_F32;
}

/* Powers and exponentials leave the range of the smaller type where a sum would not. */
static bool grows(const struct node *n)
{
	const struct fused_pointwise *p = n->params;

	if (strcmp(op_qualified(n->op), "infer::Pointwise") != 0)
		return false;
	for (int64_t i = 0; i + 3 < p->code.n; i += 4)
		if (p->code.v[i] == PW_EXP || p->code.v[i] == PW_POW)
			return true;
	return false;
}

static uint32_t first_float(const struct node *n)
{
	return !strcmp(n->op->name, "Where") ? 1 : 0;
}

/* Whether what a moving node moves is, or may as well be, of the smaller type. */
static bool moves_small(const struct lowering *l, const struct node *n)
{
	const struct value *v = node_in(l->g, n, first_float(n));

	if (!v || v->id >= l->n)
		return false;
	return v->init || v->producer == NO_NODE || l->lowered[v->id];
}

static bool may_be_small(const struct lowering *l, const struct node *n)
{
	bool any = false;

	if (!n->op || n->nsub || n->ncap || grows(n))
		return false;
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = node_in(l->g, n, i);
		any |= v && (is_f32(v) || (v->id < l->n && l->lowered[v->id]));
	}
	for (uint32_t i = 0; i < n->nout; i++)
		if (node_out(l->g, n, i) && l->captured[n->out[i]])
			return false;
	return any && (listed(computing, n->op) || (listed(moving, n->op) && moves_small(l, n)));
}

/* ---- values in another type ------------------------------------------------------------------ */

struct conversion {
	const float *from;
	void *to;
	enum dtype type;
};

/* Finite numbers stay finite: masks say "minus a lot" with the largest number of fp32. */
static void convert_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct conversion *c = arg;
	float most = c->type == DT_F16 ? 65504.0f : 3.3895314e38f, part[256];

	(void)thread;
	for (int64_t i = begin; i < end; i += 256) {
		int64_t n = end - i < 256 ? end - i : 256;
		for (int64_t k = 0; k < n; k++) {
			float v = c->from[i + k];
			part[k] = isinf(v) ? v : v > most ? most : v < -most ? -most : v;
		}
		from_f32(c->type, part, n, c->to, i);
	}
}

static const struct tensor *converted(struct lowering *l, const struct tensor *t)
{
	struct tensor *y = tensor_new(l->g->arena, l->type, &t->shape);
	struct conversion c = {.from = t->data, .type = l->type};

	if (!y)
		return NULL;
	c.to = y->data;
	pool_for(tensor_count(t), 1 << 16, convert_part, &c);
	return y;
}

/* A Cast of v; a value of type t. */
static uint32_t cast(struct lowering *l, struct value *v, enum dtype t)
{
	const struct op *op = op_named("Cast");
	struct cast *p = arena_new(l->g->arena, struct cast);
	struct value *y =
		graph_add_value(l->g, arena_printf(l->g->arena, "%s as %s", v->name, dtype_name(t)));
	const char *name = arena_printf(l->g->arena, "%s to %s", v->name, dtype_name(t));

	*p = (struct cast){.to = (int64_t)t, .saturate = 1};
	struct node *n = graph_add_node(l->g, op, p, &v->id, 1, &y->id, 1,
					origin_new(l->g->arena, name, "Cast", op->since));
	l->changes++;
	return opt_infer_node(l->o, l->g, n) ? NO_VALUE : y->id;
}

static uint32_t in_small(struct lowering *l, struct value *v)
{
	if (v->id >= l->n || l->lowered[v->id])
		return v->id;
	if (l->small[v->id] == NO_VALUE && v->init) {
		const struct tensor *t = converted(l, v->init);
		struct value *y = t ? graph_add_const(l->g, v->name, t) : NULL;
		if (y)
			opt_set_const(l->o, l->g, y, t);
		l->small[v->id] = y ? y->id : NO_VALUE;
	} else if (l->small[v->id] == NO_VALUE) {
		l->small[v->id] = cast(l, v, l->type);
	}
	return l->small[v->id];
}

static uint32_t in_large(struct lowering *l, struct value *v)
{
	if (v->id >= l->n || !l->lowered[v->id])
		return v->id;
	if (l->large[v->id] == NO_VALUE)
		l->large[v->id] = cast(l, v, DT_F32);
	return l->large[v->id];
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Inputs whose slot has the type variable of the first one take its type; others stay. */
static bool follows(const struct node *n, uint32_t i)
{
	const struct slot *in = op_resolved(n->op).in;
	const struct slot *s = slot_at(in, i), *first = slot_at(in, first_float(n));
	const struct slot *mask =
		!strcmp(op_qualified(n->op), "infer::Attention") ? slot_at(in, 3) : NULL;

	if (!s || !first)
		return false;
	if (strstr(n->op->name, "Norm")) /* scales have type variables of their own */
		return (s->types & T_F16) != 0;
	return s == mask || (s->tvar && first->tvar && !strcmp(s->tvar, first->tvar));
}

static int make_small(struct lowering *l, struct node *n)
{
	uint32_t nout = n->nout;

	for (uint32_t i = 0; i < n->nin; i++) {
		struct value *v = node_in(l->g, n, i);
		if (!v || !is_f32(v) || !follows(n, i))
			continue;
		uint32_t small = in_small(l, v);
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

static int keep_large(struct lowering *l, struct node *n)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		struct value *v = node_in(l->g, n, i);
		if (!v || v->id >= l->n || !l->lowered[v->id])
			continue;
		uint32_t large = in_large(l, v);
		if (large == NO_VALUE)
			return -E_INTERNAL;
		node_set_in(l->g, n, i, large);
	}
	return 0;
}

static int keep_outputs(struct lowering *l)
{
	struct graph *g = l->g;

	for (uint32_t i = 0; i < g->nout; i++) {
		struct value *v = g->value[g->out[i]];
		uint32_t large = in_large(l, v);
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

static void begin(struct lowering *l)
{
	const struct graph *g = l->g;
	struct arena *a = &l->o->scratch;

	l->n = g->nvalues;
	l->small = arena_new_n(a, uint32_t, l->n + 1);
	l->large = arena_new_n(a, uint32_t, l->n + 1);
	l->lowered = arena_new_n(a, bool, l->n + 1);
	l->captured = arena_new_n(a, bool, l->n + 1);
	for (uint32_t i = 0; i < l->n; i++)
		l->small[i] = l->large[i] = NO_VALUE;
	for (uint32_t i = 0; i < g->norder; i++) {
		const struct node *n = g->node[g->order[i]];
		for (uint32_t k = n->nin; k < n->nin + n->ncap; k++)
			if (n->in[k] != NO_VALUE)
				l->captured[n->in[k]] = true;
	}
}

/* A chain of moving nodes behind a graph's input is of the smaller type only if something computes there. */
int pass_precision(struct optimizer *o, struct graph *g)
{
	struct lowering l = {.o = o, .g = g};
	int p = o->config->precision, err;

	if ((p != PRECISION_FP16 && p != PRECISION_BF16) || g != o->model->graph)
		return 0; /* bodies stay as they are */
	l.type = p == PRECISION_FP16 ? DT_F16 : DT_BF16;
	err = graph_sort(g, o->diag);
	if (err)
		return err;
	opt_info(o, g);
	begin(&l);
	uint32_t count = g->norder, *order = arena_dup(&o->scratch, g->order, count * sizeof(*order));
	for (uint32_t i = 0; i < count && !err; i++) {
		struct node *n = g->node[order[i]];
		err = may_be_small(&l, n) ? make_small(&l, n) : keep_large(&l, n);
	}
	if (!err)
		err = keep_outputs(&l);
	if (!err)
		err = graph_sort(g, o->diag);
	return err ? err : l.changes;
}
