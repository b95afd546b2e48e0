/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk forwards tells where each value comes from, a walk backwards what it leads to.
 *
 * Forwards: what a Cast makes of integers is a count (a size, a position, a mask), and so is what is computed of counts and
 * constants. Inputs of the graph are raw. A product, convolution, normalization or look-up of weights makes them features,
 * which small types hold well enough. Counts stay fp32.
 * Backwards: what is not yet a feature, and becomes an integer or a bool, a size or a scale of another node, or the argument
 * of a Sin or Cos, stays fp32. Features are not followed, since they are rounded already where they were made.
 *
 * In fp16, whose numbers end at 65504, powers are followed until a root, say, makes them small, and scores to which a mask
 * is added before a Softmax stay fp32: a mask of -65504 would not hide what is added to it.
 */
#include "opt/stays.h"

#include "ops/cast.h"
#include "ops/fused.h"

#include <math.h>

/* in the order in which they prevail where values meet */
enum lineage { ORIGIN_CONSTANT, ORIGIN_COUNT, ORIGIN_RAW, ORIGIN_FEATURE };

struct survey {
	const struct graph *g;
	enum dtype small;
	/* indexed by value id */
	unsigned char *origin; /* enum lineage */
	bool *wide;	       /* a power, or what is computed of powers only */
	bool *exact;	       /* leads to what rounding would spoil */
	bool *stays;	       /* indexed by node id */
};

static bool is_one_of(const struct node *n, const char *const *names)
{
	for (; *names; names++)
		if (n->op == op_named(*names))
			return true;
	return false;
}

static bool is_f32(const struct value *v)
{
	return v && v->info.type.kind == V_TENSOR && v->info.type.dtype == DT_F32;
}

/* Whether input i of n is an fp32 value that is computed, not a constant. */
static const struct value *computed_in(const struct survey *s, const struct node *n, uint32_t i)
{
	const struct value *v = node_in(s->g, n, i);

	return is_f32(v) && !v->init ? v : NULL;
}

/* A product over one element of each operand, as of positions and frequencies, is a Mul that broadcasts. */
static bool is_outer(const struct survey *s, const struct node *n)
{
	static const char *const products[] = {"MatMul", "infer::Gemm", NULL};
	const struct value *a = node_in(s->g, n, 0), *b = node_in(s->g, n, 1);
	const struct fused_gemm *p = n->params;

	if (!is_one_of(n, products) || !a || !b || a->info.shape.rank < 1 || b->info.shape.rank < 2)
		return false;
	const struct shape *x = &a->info.shape, *y = &b->info.shape;
	bool ta = n->op->domain && p->transA, tb = n->op->domain && p->transB;
	return (!ta && x->dim[x->rank - 1] == 1) || y->dim[y->rank - (tb ? 1 : 2)] == 1;
}

/* Whether the node makes features of what it reads: each of its results depends on many numbers, or on weights. */
static bool mixes(const struct survey *s, const struct node *n)
{
	if (n->op->macs)
		return !is_outer(s, n);
	return n->op->reduced == REDUCED_COMPUTES && !(n->op->flags & OP_ELEMENTWISE);
}

/* ---- forwards -------------------------------------------------------------------------------- */

static enum lineage origin_of_cast(const struct survey *s, const struct node *n)
{
	const struct value *v = node_in(s->g, n, 0);
	enum dtype t = (enum dtype)v->info.type.dtype;

	if (dtype_class(t) == DT_FLOAT)
		return s->origin[v->id] ? s->origin[v->id] : ORIGIN_RAW;
	if (s->origin[v->id] == ORIGIN_FEATURE)
		return ORIGIN_FEATURE; /* sums of products of codes */
	return dtype_bits(t) > 8 || t == DT_BOOL ? ORIGIN_COUNT
						 : ORIGIN_RAW; /* 8 bits are pixels and codes */
}

static bool is_integer(const struct value *v)
{
	return v && v->info.type.kind == V_TENSOR &&
	       dtype_class((enum dtype)v->info.type.dtype) != DT_FLOAT;
}

/* Of integers only sums of products of codes are features, and what is computed of them. */
static enum lineage origin_of_integers(const struct survey *s, const struct node *n)
{
	bool sums = n->op && n->op->macs;

	for (uint32_t i = 0; i < n->nin; i++)
		sums |= is_integer(node_in(s->g, n, i)) && s->origin[n->in[i]] == ORIGIN_FEATURE;
	return sums ? ORIGIN_FEATURE : ORIGIN_CONSTANT;
}

static enum lineage origin_of(const struct survey *s, const struct node *n)
{
	static const char *const lookups[] = {"Gather", "GatherElements", "GatherND",
					      "DequantizeLinear", NULL};
	enum lineage from = ORIGIN_CONSTANT;

	if (!n->op || n->nsub)
		return ORIGIN_RAW;
	for (uint32_t i = 0; i < n->nin; i++)
		if (computed_in(s, n, i) && s->origin[n->in[i]] > from)
			from = s->origin[n->in[i]];
	if (from == ORIGIN_CONSTANT && n->op == op_named("Cast") && node_in(s->g, n, 0))
		return origin_of_cast(s, n);
	if (from == ORIGIN_CONSTANT)
		return is_one_of(n, lookups) || n->op->macs ? ORIGIN_FEATURE : ORIGIN_RAW;
	if (!mixes(s, n))
		return from;
	return from == ORIGIN_COUNT ? ORIGIN_RAW : ORIGIN_FEATURE;
}

static bool is_square(const struct node *n)
{
	return n->op == op_named("Mul") && n->in[0] == n->in[1];
}

/* Whether v is a constant between -1 and 1: a power of it is no larger than what is raised. */
static bool is_root(const struct value *v)
{
	return v && v->init && tensor_count(v->init) == 1 && tensor_dtype(v->init) == DT_F32 &&
	       fabsf(*(const float *)v->init->data) <= 1;
}

/* What is known of an instruction of a Pointwise program: 0 a constant, 1 a number, 2 a power. */
static int width_of(const struct fused_pointwise *p, const int64_t *code, const int *width)
{
	int a, b;

	switch (code[0]) {
	case PW_CONST: return 0;
	case PW_NEG:
	case PW_ABS: return width[code[1]];
	case PW_MUL:
		if (code[1] == code[2])
			return 2;
		/* fallthrough */
	case PW_ADD:
	case PW_SUB:
	case PW_MIN:
	case PW_MAX:
		a = width[code[1]], b = width[code[2]];
		return a == 1 || b == 1 ? 1 : a > b ? a : b;
	case PW_DIV: return width[code[2]] == 0 ? width[code[1]] : 1;
	case PW_POW: {
		const int64_t *e = p->code.v + 4 * code[2];
		return e[0] == PW_CONST && fabsf(p->consts.v[e[1]]) <= 1 ? 1 : 2;
	}
	default: return 1;
	}
}

static bool makes_powers(const struct node *n)
{
	const struct fused_pointwise *p = n->params;
	int width[PW_MAX_CODE];
	bool wide = false;

	if (p->code.n > (int64_t)4 * PW_MAX_CODE)
		return true;
	for (int64_t i = 0; i < p->code.n / 4; i++)
		width[i] = width_of(p, p->code.v + 4 * i, width);
	for (int64_t i = 0; i < p->outs.n; i++)
		wide |= width[p->outs.v[i]] == 2;
	return wide;
}

/* Whether a constant of a Pointwise program, such as the least number of a mask, is beyond the range of the smaller type. */
static bool exceeds(const struct survey *s, const struct fused_pointwise *p)
{
	for (int64_t i = 0; i + 3 < p->code.n; i += 4)
		if (p->code.v[i] == PW_CONST && isfinite(p->consts.v[p->code.v[i + 1]]) &&
		    fabsf(p->consts.v[p->code.v[i + 1]]) > (float)float_largest(s->small))
			return true;
	return false;
}

/* Whether a product alone reads what the node computes: it takes the largest number for what is larger. */
static bool feeds_products(const struct survey *s, const struct node *n)
{
	for (uint32_t k = 0; k < n->nout; k++) {
		const struct value *v = node_out(s->g, n, k);
		for (uint32_t i = 0; v && i < v->nusers; i++)
			if (!s->g->node[v->users[i]]->op || !mixes(s, s->g->node[v->users[i]]))
				return false;
	}
	return true;
}

/* Whether the node's results may be far beyond the range of fp16, or far below. */
static bool is_wide(const struct survey *s, const struct node *n)
{
	static const char *const keep[] = {
		"Add", "Sub",  "Mul",	     "Max",	  "Min",       "Sum",	    "Mean", "Neg",
		"Abs", "Clip", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", NULL};
	bool any = false, all = true;

	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = computed_in(s, n, i);
		any |= v && s->wide[v->id];
		all &= !v || s->wide[v->id];
	}
	if (n->op == op_named("Pow"))
		return !is_root(node_in(s->g, n, 1));
	if (n->op == op_named("infer::Pointwise"))
		return makes_powers(n) && !feeds_products(s, n);
	if (n->op == op_named("Cast"))
		return node_in(s->g, n, 0)->info.type.dtype == DT_I32 &&
		       origin_of_cast(s, n) == ORIGIN_FEATURE;
	if (is_square(n) || n->op == op_named("ReduceSumSquare"))
		return !feeds_products(s, n);
	return any && all && (n->op->reduced == REDUCED_MOVES || is_one_of(n, keep));
}

/* Whether the constant has numbers other than 0, all of which become 0 in the smaller type. */
static bool vanishes(const struct survey *s, const struct tensor *t)
{
	const float least = s->small == DT_F16 ? 0x1p-25F : 0x1p-134F, *x = t->data;
	bool any = false;

	for (int64_t i = 0; i < tensor_count(t); i++) {
		if (!(fabsf(x[i]) <= least))
			return false;
		any |= x[i] != 0;
	}
	return any;
}

static void walk_forwards(struct survey *s, const struct node *n)
{
	enum lineage origin = origin_of(s, n);
	bool plain = n->op && !n->nsub && !mixes(s, n),
	     wide = plain && s->small == DT_F16 && is_wide(s, n);
	bool stays = plain && (origin == ORIGIN_COUNT || wide);

	if (plain && n->op == op_named("infer::Pointwise"))
		stays |= exceeds(s, n->params);
	for (uint32_t i = 0; i < n->nin && plain; i++) {
		const struct value *v = node_in(s->g, n, i);
		if (!is_f32(v))
			continue;
		stays |= s->wide[v->id];
		stays |= v->init && n->op->flags & OP_ELEMENTWISE && vanishes(s, v->init);
	}
	for (uint32_t i = 0; i < n->nout; i++) {
		const struct value *v = node_out(s->g, n, i);
		if (!v)
			continue;
		s->origin[v->id] = (unsigned char)(is_integer(v) ? origin_of_integers(s, n) : origin);
		s->wide[v->id] = wide;
	}
	s->stays[n->id] = stays;
}

/* ---- backwards ------------------------------------------------------------------------------- */

static bool reads_angles(const struct node *n)
{
	static const char *const angles[] = {"Sin", "Cos", "Tan", NULL};
	const struct fused_pointwise *p = n->params;

	if (n->op != op_named("infer::Pointwise"))
		return is_one_of(n, angles);
	for (int64_t i = 0; i + 3 < p->code.n; i += 4)
		if (p->code.v[i] == PW_SIN || p->code.v[i] == PW_COS)
			return true;
	return false;
}

/* Whether integers or bools are made of the elements of fp32 values. */
static bool makes_integers(const struct survey *s, const struct node *n)
{
	static const char *const shapes[] = {"Shape", "Size", NULL};

	for (uint32_t i = 0; i < n->nout; i++) {
		const struct value *v = node_out(s->g, n, i);
		if (v && (v->info.type.kind != V_TENSOR ||
			  dtype_class((enum dtype)v->info.type.dtype) == DT_FLOAT))
			return false;
	}
	return !is_one_of(n, shapes);
}

/* Whether the node adds a mask, or another value that is no feature, to features that go to a Softmax. */
static bool masks_scores(const struct survey *s, const struct node *n)
{
	static const char *const softmax[] = {"Softmax", "LogSoftmax", NULL};
	const struct value *y = node_out(s->g, n, 0);
	bool mask = false, goes = false;

	if (!(n->op->flags & OP_ELEMENTWISE) || !is_f32(y) || s->origin[y->id] != ORIGIN_FEATURE)
		return false;
	for (uint32_t i = 0; i < y->nusers; i++)
		goes |= is_one_of(s->g->node[y->users[i]], softmax);
	for (uint32_t i = 0; i < n->nin; i++)
		mask |= computed_in(s, n, i) && s->origin[n->in[i]] != ORIGIN_FEATURE;
	return goes && mask;
}

static void walk_backwards(struct survey *s, const struct node *n)
{
	bool exact = false, all;

	for (uint32_t i = 0; i < n->nout; i++)
		exact |= node_out(s->g, n, i) && s->exact[n->out[i]];
	if (n->op && s->small == DT_F16 && masks_scores(s, n))
		exact = true;
	s->stays[n->id] |= exact;
	if (!n->op)
		return;
	all = exact || n->op == op_named("Range") || reads_angles(n) || makes_integers(s, n);
	struct op op = op_resolved(n->op);
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = computed_in(s, n, i);
		if (v && s->origin[v->id] != ORIGIN_FEATURE && (all || !op_lowers_input(&op, i)))
			s->exact[v->id] = true;
	}
}

bool *opt_stays(struct optimizer *o, const struct graph *g, enum dtype small)
{
	struct arena *a = &o->scratch;
	size_t n = (size_t)g->nvalues + 1;
	struct survey s = {.g = g, .small = small};

	s.origin = arena_new_n(a, unsigned char, n);
	s.wide = arena_new_n(a, bool, n);
	s.exact = arena_new_n(a, bool, n);
	s.stays = arena_new_n(a, bool, (size_t)g->nnodes + 1);
	for (uint32_t i = 0; i < g->nvalues; i++)
		if (g->value[i]->producer == NO_NODE && !g->value[i]->init)
			s.origin[i] = ORIGIN_RAW;
	for (uint32_t i = 0; i < g->norder; i++)
		walk_forwards(&s, g->node[g->order[i]]);
	for (uint32_t i = g->norder; i-- > 0;)
		walk_backwards(&s, g->node[g->order[i]]);
	return s.stays;
}
