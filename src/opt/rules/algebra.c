/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that remove nodes without effect, and pairs of nodes that cancel. */
#include "ops/layout.h"
#include "opt/rules/guards.h"

#include <math.h>

/* True if y has the type of x, and certainly the shape of x. */
static bool same(struct match *m)
{
	if (match_dtype(m, "x") != match_dtype(m, "y") || !match_dtype(m, "x"))
		return match_why(m, "the types differ or are not known");
	return match_same_shape(m, "x", "y") || match_why(m, "the shapes may differ");
}

static bool same_type(struct match *m)
{
	return (match_dtype(m, "x") && match_dtype(m, "x") == match_dtype(m, "y")) ||
	       match_why(m, "the types differ or are not known");
}

static bool steps_are_one(const struct match *m, const char *steps)
{
	const struct tensor *t = match_const(m, steps);

	if (!match_value(m, steps))
		return true;
	for (int64_t i = 0; t && i < tensor_count(t); i++)
		if (elem_i64(tensor_dtype(t), t->data, i) != 1)
			return false;
	return t != NULL;
}

static bool whole_slice(struct match *m)
{
	return steps_are_one(m, "st") ? same(m) : match_why(m, "its steps are not known to be 1");
}

/* Pads of both signs may leave the shape as it is, and shift what is in it. */
static bool pads_nothing(struct match *m)
{
	const struct tensor *p = match_const(m, "p");

	for (int64_t i = 0; p && i < tensor_count(p); i++)
		if (elem_i64(tensor_dtype(p), p->data, i))
			return match_why(m, "it pads");
	return p ? same(m) : match_why(m, "its pads are not constant");
}

/*
 * True if the target of the second Reshape copies no dim of its input (has no 0), so that the first Reshape does not
 * matter.
 */
static bool plain_target(struct match *m)
{
	const struct tensor *t = match_const(m, "s");

	if (!t)
		return match_why(m, "the shape is not constant");
	for (int64_t i = 0; i < tensor_count(t); i++)
		if (elem_i64(tensor_dtype(t), t->data, i) == 0)
			return match_why(m, "the target copies a dimension of its input");
	return true;
}

static bool inverse_perms(struct match *m)
{
	struct ints a = match_ints(m, "a", "perm"), b = match_ints(m, "b", "perm");

	if (a.n < 0 || a.n != b.n)
		return (a.n < 0 && b.n < 0) || /* reversed twice */
		       match_why(m, "one of the two has no permutation");
	for (int64_t i = 0; i < a.n; i++)
		if (b.v[i] < 0 || b.v[i] >= a.n || a.v[b.v[i]] != i)
			return match_why(m, "the second does not undo the first");
	return true;
}

static bool both_perms(struct match *m)
{
	struct ints a = match_ints(m, "a", "perm"), b = match_ints(m, "b", "perm");
	return (a.n >= 0 && a.n == b.n && a.n <= MAX_RANK) ||
	       match_why(m, "one of the two has no permutation");
}

static void compose_perms(const struct match *m, void *params, struct arena *a)
{
	struct ints first = match_ints(m, "a", "perm"), then = match_ints(m, "b", "perm");
	struct transpose_params *p = params;
	int64_t *perm = arena_new_n(a, int64_t, (size_t)first.n);

	for (int64_t i = 0; i < first.n; i++)
		perm[i] = first.v[then.v[i]];
	p->perm = (struct ints){perm, first.n};
}

/* True if both summands are transposed in the same way, so that the sum may be transposed instead. */
static bool same_perms(struct match *m)
{
	struct ints a = match_ints(m, "a", "perm"), b = match_ints(m, "b", "perm");

	for (int64_t i = 0; a.n == b.n && i < a.n; i++)
		if (a.v[i] != b.v[i])
			return match_why(m, "the permutations differ");
	return a.n == b.n && match_rank(m, "t") == match_rank(m, "u") && match_rank(m, "t") > 0;
}

static bool identity_perm(struct match *m)
{
	struct ints p = match_ints(m, "t", "perm");

	for (int64_t i = 0; i < p.n; i++)
		if (p.v[i] != i)
			return match_why(m, "it moves a dimension");
	return p.n >= 0 || match_why(m, "it reverses the dimensions");
}

static bool not_training(struct match *m)
{
	const struct tensor *t = match_const(m, "t");

	if (match_value(m, "t") && (!t || elem_i64(tensor_dtype(t), t->data, 0)))
		return match_why(m, "it may be in training mode");
	return same_type(m);
}

static bool floats_one_number(struct match *m)
{
	double v;

	if (!is_float(m, "x"))
		return match_why(m, "on integers it would overflow for other inputs");
	return match_number(m, "a", &v) || match_number(m, "b", &v) ||
	       match_why(m, "the two constants would broadcast");
}

/* The least magnitude in a constant: 0 if an element is 0. */
static double least(const struct match *m, const char *name)
{
	const struct tensor *t = match_const(m, name);
	double few = (double)INFINITY;

	for (int64_t i = 0; i < tensor_count(t); i++)
		few = fmin(few, fabs(elem_f64(tensor_dtype(t), t->data, i)));
	return few;
}

/* The type's least number that has all its digits. */
static double least_normal(const struct match *m, const char *name)
{
	enum dtype t = match_dtype(m, name);
	return t == DT_F16 ? 0x1p-14 : t == DT_F64 ? 0x1p-1022 : 0x1p-126;
}

static bool joined_product(struct match *m)
{
	return floats_one_number(m) && products_fit(m, "a", "b") &&
	       (least(m, "a") * least(m, "b") >= least_normal(m, "x") ||
		match_why(m, "the product of the constants would be too small"));
}

static bool joined_sum(struct match *m)
{
	return floats_one_number(m) && sums_fit(m, "a", "b");
}

static bool joined_quotient(struct match *m)
{
	return floats_one_number(m) &&
	       ((largest(m, "b") / least(m, "a") <= largest_finite(m, "x") &&
		 least(m, "b") / largest(m, "a") >= least_normal(m, "x")) ||
		match_why(m, "the quotient of the constants would be too large or too small"));
}

/* True if x + z is x for each x: -0 + 0 is 0. */
static bool adds_nothing(struct match *m)
{
	double v;

	if (!match_number(m, "z", &v) || v != 0)
		return false;
	if (is_float(m, "x") && !signbit(v))
		return match_why(m, "it makes 0 of -0");
	return same(m);
}

/* The same for x - z. */
static bool takes_nothing(struct match *m)
{
	double v;

	if (!match_number(m, "z", &v) || v != 0)
		return false;
	if (is_float(m, "x") && signbit(v))
		return match_why(m, "it makes 0 of -0");
	return same(m);
}

/* True if the constant k is 1 and nothing near it: a number of a pattern would also stand for 1.00001. */
static bool by_one(struct match *m)
{
	double v;

	return match_number(m, "k", &v) && v == 1 && same(m);
}

static bool broadcasts_anyway(struct match *m)
{
	return match_same_shape(m, "x", "y") || match_why(m, "the shapes may differ");
}

/* True if a and b are numbers, so that the choice between them has the condition's shape. */
static bool chooses_numbers(struct match *m)
{
	const int rank = match_rank(m, "c");
	double v;

	return rank >= 0 && match_number(m, "a", &v) && match_number(m, "b", &v) &&
	       match_rank(m, "a") <= rank && match_rank(m, "b") <= rank;
}

/* True if the mean is over all spatial axes, which stay with size 1, as in GlobalAveragePool. */
static bool spatial_mean(struct match *m)
{
	const struct tensor *t = match_const(m, "axes");
	struct shape x = match_shape(m, "x");
	uint32_t mask = 0;

	if (!t || x.rank < 4 || x.rank > 5 || tensor_count(t) != x.rank - 2 || !is_fusable(m, "x"))
		return false;
	for (int64_t i = 0; i < tensor_count(t); i++) {
		int a = axis_of(elem_i64(tensor_dtype(t), t->data, i), x.rank);
		if (a < 2)
			return false;
		mask |= 1u << a;
	}
	return mask == ((1u << x.rank) - 1) - 3;
}

#define EXPANDED(op)                                                                               \
	{                                                                                          \
		.name = "expand-before-" #op, .kind = SIMPLIFY,                                    \
		.from = "y = " #op "(x, !Expand(z, s))", .to = "y = " #op "(x, z)",                \
		.when = broadcasts_anyway, .sample = "x[2,3] z[1,3] s=[2,3]"                       \
	}

const struct rule rules_algebra[] = {
	{"identity", SIMPLIFY, "y = Identity(x)", "y = x", same_type, .sample = "x[2,3]"},
	{"cast-same", SIMPLIFY, "y = Cast(x)", "y = x", same_type,
	 .sample = "x[2,3]; y = Cast(x) {to=1}"},
	{"cast-like-same", SIMPLIFY, "y = CastLike(x, z)", "y = x", same_type, .sample = "x[2] z[2]"},
	{"dropout", SIMPLIFY, "y, _ = Dropout(x, r?, t?)", "y = x", not_training,
	 .sample = "x[2,3] r=0.5 t=false"},
	{"concat-one", SIMPLIFY, "y = Concat(x)", "y = x", same_type,
	 .sample = "x[2,3]; y = Concat(x) {axis=0}"},
	{"expand-same", SIMPLIFY, "y = Expand(x, s)", "y = x", same, .sample = "x[2,3] s=[1,3]"},
	{"tile-same", SIMPLIFY, "y = Tile(x, s)", "y = x", same, .sample = "x[2,3] s=[1,1]"},
	{"slice-all", SIMPLIFY, "y = Slice(x, b, e, a?, st?)", "y = x", whole_slice,
	 .sample = "x[2,3] b=[0] e=[9] a=[1] st=[1]"},
	{"pad-none", SIMPLIFY, "y = Pad(x, p, v?, a?)", "y = x", pads_nothing,
	 .sample = "x[2,3] p=[0,0,0,0] v=1.5 a=[0,1]"},
	{"reshape-same", SIMPLIFY, "y = Reshape(x, s)", "y = x", same, .sample = "x[2,3] s=[2,-1]"},
	{"squeeze-none", SIMPLIFY, "y = Squeeze(x, a?)", "y = x", same,
	 .sample = "x[2,3]; y = Squeeze(x)"},
	{"flatten-same", SIMPLIFY, "y = Flatten(x)", "y = x", same, .sample = "x[2,3]"},
	{"reshape-reshape", SIMPLIFY, "y = r: Reshape(Reshape(x, _s), s)",
	 "y = Reshape(x, s) {...r}", plain_target, .sample = "x[2,6] _s=[3,4] s=[4,-1]"},
	{"reshape-squeeze", SIMPLIFY, "y = r: Reshape(Squeeze(x, a?), s)",
	 "y = Reshape(x, s) {...r}", plain_target, .sample = "x[2,1,6] a=[1] s=[4,-1]"},
	{"reshape-unsqueeze", SIMPLIFY, "y = r: Reshape(Unsqueeze(x, a), s)",
	 "y = Reshape(x, s) {...r}", plain_target, .sample = "x[2,6] a=[1] s=[4,-1]"},
	{"reshape-flatten", SIMPLIFY, "y = r: Reshape(Flatten(x), s)", "y = Reshape(x, s) {...r}",
	 plain_target, .sample = "x[2,3,2] s=[4,-1]"},
	{"squeeze-unsqueeze", SIMPLIFY, "y = Squeeze(Unsqueeze(x, a), b)", "y = x", same,
	 .sample = "x[2,3] a=[1] b=[1]"},
	{"transpose-transpose", SIMPLIFY, "y = b: Transpose(a: Transpose(x))", "y = x",
	 inverse_perms, .sample = "x[2,3]"},
	{"transpose-compose_perms", SIMPLIFY, "y = b: Transpose(a: Transpose(x))", "y = Transpose(x)",
	 both_perms, .sample = "x[2,3,4]; y = Transpose(Transpose(x) {perm=[1,2,0]}) {perm=[2,1,0]}",
	 .adjust = compose_perms},
	{"transpose-none", SIMPLIFY, "y = t: Transpose(x)", "y = x", identity_perm,
	 .sample = "x[2,3]; y = Transpose(x) {perm=[0,1]}"},
	{"add-zero", SIMPLIFY, "y = Add(x, #z)", "y = x", adds_nothing, .sample = "x[2,3] z=-0.0"},
	{"sub-zero", SIMPLIFY, "y = Sub(x, #z)", "y = x", takes_nothing, .sample = "x[2,3] z=0"},
	{"mul-one", SIMPLIFY, "y = Mul(x, #k)", "y = x", by_one, .sample = "x[2,3] k=1"},
	{"div-one", SIMPLIFY, "y = Div(x, #k)", "y = x", by_one, .sample = "x[2,3] k=1"},
	{"pow-one", SIMPLIFY, "y = Pow(x, #k)", "y = x", by_one, .sample = "x+[2,3] k=1"},
	{"add-transposes", FUSE, "y = Add(a: Transpose(t), b: !Transpose(u))",
	 "y = Transpose(Add(t, u)) {...a}", same_perms, .sample = "t[2,3] u[2,3]"},
	{"mul-mul", RECOGNIZE, "y = Mul(Mul(x, #a), #b)", "y = Mul(x, Mul(a, b))", joined_product,
	 true, .sample = "x[2,3] a[3] b=0.5"},
	{"add-add", RECOGNIZE, "y = Add(Add(x, #a), #b)", "y = Add(x, Add(a, b))", joined_sum, true,
	 .sample = "x[2,3] a[3] b=0.5"},
	{"div-mul", RECOGNIZE, "y = Mul(Div(x, #a), #b)", "y = Mul(x, Div(b, a))", joined_quotient,
	 true, .sample = "x[2,3] a+[3] b=0.5"},
	EXPANDED(Add),
	EXPANDED(Sub),
	EXPANDED(Mul),
	EXPANDED(Div),
	/* so that what is expanded reaches an operator that broadcasts: a mask that its scores would repeat anyway */
	{"expand-after-where", SIMPLIFY, "y = Where(Expand(c, s), #a, #b)",
	 "y = Expand(Where(c, a, b), s)", chooses_numbers, .sample = "c[2,1]:bool s=[2,3] a=0.5 b=-2"},
	{"sub-expanded", SIMPLIFY, "y = Sub(!Expand(z, s), x)", "y = Sub(z, x)", broadcasts_anyway,
	 .sample = "x[2,3] z[1,3] s=[2,3]"},
	{"mean-spatial", RECOGNIZE, "y = ReduceMean(x, #axes) {keepdims=1}",
	 "y = GlobalAveragePool(x)", spatial_mean, true, .sample = "x[2,3,4,4] axes=[-1,-2]"},
	{0}};
