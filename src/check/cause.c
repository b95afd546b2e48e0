/* SPDX-License-Identifier: Apache-2.0 */
#include "check/cause.h"

#include "check/check.h"
#include "ir/walk.h"
#include "ops/gather.h"

#include <inttypes.h>
#include <math.h>

/* The bad element and what the node read to make it. */
struct bad_element {
	struct diag *d;
	const struct node *node;
	const struct tensor *const *in;
	const struct tensor *out;
	int64_t at;   /* index of the element in out */
	double value; /* NaN or an infinity */
	/* the elements of the first two inputs that belong to it, if the operator works by element; otherwise NAN */
	double a, b;
};

static bool is_float_tensor(const struct tensor *t)
{
	return t && t->type.kind == V_TENSOR && t->data && (T_BIT(tensor_dtype(t)) & T_FLOATS_BF);
}

/* Finds the first NaN, or the first infinity if there is no NaN. Returns -1 if all elements are finite. */
static int64_t first_bad(const struct tensor *t, double *value)
{
	int64_t inf = -1, n = is_float_tensor(t) ? tensor_count(t) : 0;

	for (int64_t i = 0; i < n; i++) {
		double v = elem_f64(tensor_dtype(t), t->data, i);
		if (isnan(v)) {
			*value = v;
			return i;
		}
		if (inf < 0 && isinf(v)) {
			*value = v;
			inf = i;
		}
	}
	return inf;
}

/* Returns the element of t that broadcasting pairs with element `at` of out, or NAN if the shapes do not broadcast. */
static double paired_element(const struct tensor *t, const struct tensor *out, int64_t at)
{
	int64_t index = 0, stride = 1;

	if (!t || t->type.kind != V_TENSOR || !t->data || t->shape.rank > out->shape.rank ||
	    !(T_BIT(tensor_dtype(t)) & (T_FLOATS_BF | T_INTS)))
		return NAN;
	for (int i = 1; i <= out->shape.rank; i++) {
		int64_t size = out->shape.dim[out->shape.rank - i];
		int64_t own = i <= t->shape.rank ? t->shape.dim[t->shape.rank - i] : 1;
		if (own != size && own != 1)
			return NAN;
		index += own == 1 ? 0 : at % size * stride;
		stride *= own;
		at /= size;
	}
	return elem_f64(tensor_dtype(t), t->data, index);
}

static const char *overflow(const struct bad_element *e)
{
	switch (tensor_dtype(e->out)) {
	case DT_F16: return "an overflow: 65504 is the largest number of fp16";
	case DT_BF16: return "an overflow: 3.39e38 is the largest number of bf16";
	case DT_F64: return "an overflow: 1.8e308 is the largest number of fp64";
	default: return "an overflow: 3.4e38 is the largest number of fp32";
	}
}

static const char *div_cause(const struct bad_element *e)
{
	if (e->b == 0)
		return fmt(e->d, "a division by zero: %.6g / 0; add a small number to the divisor",
			   e->a);
	if (isinf(e->a) && isinf(e->b))
		return "Inf / Inf";
	return isnan(e->a + e->b) ? NULL : fmt(e->d, "%.6g / %.6g is %s", e->a, e->b, overflow(e));
}

static const char *log_cause(const struct bad_element *e)
{
	if (e->a < 0)
		return fmt(e->d, "the logarithm of a negative number: log(%.6g); clip its input",
			   e->a);
	return e->a == 0 ? "the logarithm of zero; clip its input" : NULL;
}

static const char *sqrt_cause(const struct bad_element *e)
{
	return e->a < 0 ? fmt(e->d,
			      "the root of a negative number: sqrt(%.6g); clip its input at 0", e->a)
			: NULL;
}

static const char *pow_cause(const struct bad_element *e)
{
	if (e->a < 0 && e->b != floor(e->b))
		return fmt(e->d, "a negative base with a fractional exponent: %.6g to the power %.6g",
			   e->a, e->b);
	if (e->a == 0 && e->b < 0)
		return fmt(e->d, "a division by zero: 0 to the power %.6g", e->b);
	return isnan(e->a + e->b)
		       ? NULL
		       : fmt(e->d, "%.6g to the power %.6g is %s", e->a, e->b, overflow(e));
}

static const char *reciprocal_cause(const struct bad_element *e)
{
	return e->a == 0 ? "a division by zero: 1/0; add a small number to its input" : NULL;
}

static const char *exp_cause(const struct bad_element *e)
{
	return fmt(e->d, "exp(%.6g) is %s", e->a, overflow(e));
}

static const char *add_cause(const struct bad_element *e)
{
	if (isnan(e->value) && isinf(e->a) && isinf(e->b))
		return "Inf - Inf";
	return isfinite(e->a) && isfinite(e->b) ? overflow(e) : NULL;
}

static const char *mul_cause(const struct bad_element *e)
{
	if (isnan(e->value) && ((e->a == 0 && isinf(e->b)) || (isinf(e->a) && e->b == 0)))
		return "0 x Inf";
	return isfinite(e->a) && isfinite(e->b)
		       ? fmt(e->d, "%.6g x %.6g is %s", e->a, e->b, overflow(e))
		       : NULL;
}

static const char *domain_cause(const struct bad_element *e)
{
	if (check_is(e->node, "Acosh"))
		return fmt(e->d, "an argument below 1: %.6g", e->a);
	return fmt(e->d, "an argument beyond -1..1: %.6g", e->a);
}

static const char *cast_cause(const struct bad_element *e)
{
	return isfinite(e->a) ? fmt(e->d, "%.6g is %s", e->a, overflow(e)) : NULL;
}

static const char *softmax_cause(const struct bad_element *e)
{
	const struct tensor *t = e->in[0];
	double axis = -1;
	int64_t step = 1, low = 0, high = 0;

	if (!is_float_tensor(t) || t->shape.rank < 1)
		return NULL;
	(void)check_number(e->node, "axis", &axis);
	int k = (int)axis < 0 ? (int)axis + t->shape.rank : (int)axis;
	if (k < 0 || k >= t->shape.rank)
		return NULL;
	for (int i = k + 1; i < t->shape.rank; i++)
		step *= t->shape.dim[i];
	int64_t size = t->shape.dim[k], first = e->at / (step * size) * step * size + e->at % step;
	for (int64_t i = 0; i < size; i++) {
		double v = elem_f64(tensor_dtype(t), t->data, first + i * step);
		low += isinf(v) && v < 0;
		high += isinf(v) && v > 0;
	}
	if (low == size)
		return "a row in which all elements are -Inf: the mask leaves none";
	return high ? "a row with +Inf: Inf / Inf" : NULL;
}

static const char *batch_norm_cause(const struct bad_element *e)
{
	const struct tensor *v = e->node->nin > 4 ? e->in[4] : NULL;
	double epsilon = 1e-5;

	if (!is_float_tensor(v) || e->out->shape.rank < 2)
		return NULL;
	int64_t step = 1;
	for (int i = 2; i < e->out->shape.rank; i++)
		step *= e->out->shape.dim[i];
	int64_t channel = e->at / step % e->out->shape.dim[1];
	if (channel >= tensor_count(v))
		return NULL;
	(void)check_number(e->node, "epsilon", &epsilon);
	double x = elem_f64(tensor_dtype(v), v->data, channel);
	return x + epsilon <= 0
		       ? fmt(e->d, "a variance that is not positive: %.6g in channel %" PRId64, x,
			     channel)
		       : NULL;
}

/* Operators by the name of their cause; the others have overflows and infinite operands only. */
static const struct {
	const char *op;
	const char *(*say)(const struct bad_element *);
} causes[] = {
	{"Div", div_cause},
	{"Log", log_cause},
	{"Sqrt", sqrt_cause},
	{"Pow", pow_cause},
	{"Exp", exp_cause},
	{"Reciprocal", reciprocal_cause},
	{"Add", add_cause},
	{"Sub", add_cause},
	{"Mul", mul_cause},
	{"Acos", domain_cause},
	{"Asin", domain_cause},
	{"Atanh", domain_cause},
	{"Acosh", domain_cause},
	{"Cast", cast_cause},
	{"Softmax", softmax_cause},
	{"LogSoftmax", softmax_cause},
	{"BatchNormalization", batch_norm_cause},
};

/* Returns the cause if it lies in what the node reads: weights that are NaN, or infinities. Returns NULL otherwise. */
static const char *operand_cause(const struct bad_element *e, const struct graph *g)
{
	const char *inf = NULL;

	for (uint32_t i = 0; i < e->node->nin; i++) {
		const struct value *v = node_in(g, e->node, i);
		double value = 0;
		if (v && !i && e->in[i]->type.kind == V_TENSOR && !tensor_count(e->in[i]))
			return fmt(e->d, "its input '%s' has no elements", v->name);
		if (!v || first_bad(e->in[i], &value) < 0)
			continue;
		if (isnan(value))
			return v->init ? fmt(e->d, "its weight '%s' contains NaN", v->name)
				       : fmt(e->d, "its input '%s' contains NaN", v->name);
		inf = fmt(e->d, "its %s '%s' contains infinities: Inf - Inf and 0 x Inf are NaN",
			  v->init ? "weight" : "input", v->name);
	}
	return inf;
}

const char *cause_of_bad_value(struct diag *d, const struct graph *g, const struct node *n,
			       const struct tensor *const *in, const struct tensor *out)
{
	struct bad_element e = {.d = d, .node = n, .in = in, .out = out, .a = NAN, .b = NAN};
	const char *text = NULL;

	e.at = first_bad(out, &e.value);
	if (e.at < 0)
		return NULL;
	if (n->nin > 0)
		e.a = paired_element(in[0], out, e.at);
	if (n->nin > 1)
		e.b = paired_element(in[1], out, e.at);
	for (size_t i = 0; n->op && i < sizeof(causes) / sizeof(*causes) && !text; i++)
		if (check_is(n, causes[i].op))
			text = causes[i].say(&e);
	text = text ? text : operand_cause(&e, g);
	return text ? text : isinf(e.value) ? overflow(&e) : NULL;
}

/* ---- infinities by design ---------------------------------------------------------------------- */

struct infinities infinities_of(const struct tensor *t)
{
	int64_t n = is_float_tensor(t) ? tensor_count(t) : 0;
	struct infinities has = {0};

	for (int64_t i = 0; i < n; i++) {
		double v = elem_f64(tensor_dtype(t), t->data, i);
		has.plus |= isinf(v) && v > 0;
		has.minus |= isinf(v) && v < 0;
	}
	return has;
}

/* Whether n writes elements into others as `reduction` says, such as the larger of the two. */
static bool scatters(const struct node *n, enum scatter_reduction reduction)
{
	double r = SCATTER_NONE;

	if (!check_is(n, "ScatterElements") && !check_is(n, "ScatterND"))
		return false;
	check_number(n, "reduction", &r); /* rows of old versions have no such attribute */
	return (int)r == (int)reduction;
}

bool moves_elements(const struct node *n)
{
	return n->op && n->nout == 1 && ((op_flags(n->op) & OP_PASSES) || scatters(n, SCATTER_NONE));
}

/* Whether the node compares: its result is a bool, which no infinity makes NaN. */
static bool compares(const struct node *n)
{
	return check_is(n, "Equal") || check_is(n, "Less") || check_is(n, "LessOrEqual") ||
	       check_is(n, "Greater") || check_is(n, "GreaterOrEqual");
}

bool nan_is_meant(const struct node *n, uint32_t i, struct infinities has)
{
	(void)has;
	return check_is(n, "Where") || check_is(n, "IsNaN") || compares(n) ||
	       (check_is(n, "Pad") && i == 2);
}

/* Adds the values of n's bodies that stand for input i to the walk. Returns false if a body hands the elements out, or if none reads them. */
static bool walk_to_bodies(struct walk *w, const struct node *n, uint32_t i)
{
	bool read = false;

	for (uint32_t k = 0; k < n->nsub; k++) {
		const struct graph *b = n->sub[k];
		for (uint32_t j = 0; j < b->nin + b->ncap; j++) {
			/* a Loop and a Scan hand their last inputs to their bodies */
			uint32_t outer =
				j < b->nin ? j + n->nin - b->nin : n->nin + b->capture[j - b->nin];
			const struct value *v = b->value[b->in[j]];
			if (outer != i || (!v->nusers && !v->is_output))
				continue;
			read = true;
			if (v->is_output)
				return false;
			walk_to(w, b, v, 0);
		}
	}
	return read;
}

/* Whether node n means the elements of value v so, as far as it does not hand them on to values that are added to the walk. */
static bool reader_means(struct walk *w, const struct graph *g, const struct node *n, uint32_t v,
			 struct infinities has, is_meant *meant)
{
	const struct value *y = node_out(g, n, 0);

	if (!n->nsub && moves_elements(n)) {
		walk_to(w, g, y, 0);
		return y && !y->is_output && y->nusers;
	}
	for (uint32_t i = 0; i < n->nin + n->ncap; i++)
		if (n->in[i] == v && !(n->nsub ? walk_to_bodies(w, n, i) : meant(n, i, has)))
			return false;
	return true;
}

bool readers_mean(const struct graph *g, const struct value *v, const struct tensor *t, is_meant *meant)
{
	/* that no reader of as many values misunderstands the elements is taken as the answer, as a model may have thousands of such weights */
	enum { MAX_FOLLOWED = 1000 };
	struct infinities has = infinities_of(t);
	struct walk w = {0};
	const struct walk_place *p;
	bool all = v->nusers > 0;

	walk_to(&w, g, v, 0);
	while (all && w.next < MAX_FOLLOWED && (p = walk_next(&w))) {
		struct walk_place at = *p;
		for (uint32_t k = 0; k < at.v->nusers && all; k++)
			if (!k || at.v->users[k] != at.v->users[k - 1]) /* it may read the value twice */
				all = reader_means(&w, at.g, at.g->node[at.v->users[k]], at.v->id,
						   has, meant);
	}
	walk_end(&w);
	return all;
}

bool infinities_are_meant(const struct node *n, uint32_t i, struct infinities has)
{
	if (check_is(n, "Where") || check_is(n, "IsInf") || compares(n))
		return true;
	if (check_is(n, "Add") || check_is(n, "Max") || check_is(n, "ReduceMax") ||
	    check_is(n, "Pad") || check_is(n, "Softmax") || check_is(n, "LogSoftmax") ||
	    scatters(n, SCATTER_MAX) || (check_is(n, "Clip") && i == 1))
		return !has.plus;
	if (check_is(n, "Min") || check_is(n, "ReduceMin") || check_is(n, "Sub") ||
	    scatters(n, SCATTER_MIN) || (check_is(n, "Clip") && i == 2))
		return !has.minus;
	return false;
}
