/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that give equal mathematics equal words, for models that are compared (infer diff) and not run. */
#include "opt/rules/guards.h"

static bool floats(struct match *m)
{
	return is_float(m, "x");
}

static bool scaled(struct match *m)
{
	double v;
	return is_float(m, "x") && match_number(m, "s", &v);
}

static bool constant_weight(struct match *m)
{
	return match_rank(m, "b") == 2;
}

/* True if the bias is a constant of zeros, which some exporters leave out. */
static bool no_bias(struct match *m)
{
	return match_value(m, "b") && match_const(m, "b") && largest(m, "b") == 0;
}

/* Whether a bound of Clip is left out, or limits no finite number: by ONNX's text both are the same. */
static bool unbounded(const struct match *m, const char *bound, bool high)
{
	double v;

	return !match_value(m, bound) ||
	       (match_number(m, bound, &v) &&
		(high ? v >= largest_finite(m, "x") : v <= -largest_finite(m, "x")));
}

static bool from_zero(struct match *m)
{
	return is_float(m, "x") && unbounded(m, "h", true);
}

static bool useless_low(struct match *m)
{
	return is_float(m, "x") && unbounded(m, "l", false);
}

static bool useless_high(struct match *m)
{
	return is_float(m, "x") && unbounded(m, "h", true);
}

static bool useless_bounds(struct match *m)
{
	return useless_low(m) && useless_high(m);
}

/* A bound of one element; with more dimensions than x it would give the result more. */
static bool bound(struct match *m)
{
	double v;
	return is_float(m, "x") && match_number(m, "c", &v) &&
	       match_rank(m, "x") >= match_rank(m, "c");
}

static bool low_then_high(struct match *m)
{
	return is_float(m, "x") && unbounded(m, "p", true) && unbounded(m, "q", false);
}

static bool high_then_low(struct match *m)
{
	double low, high;
	return is_float(m, "x") && unbounded(m, "p", false) && unbounded(m, "q", true) &&
	       match_number(m, "l", &low) && match_number(m, "h", &high) && low <= high;
}

static bool bounds_in_order(struct match *m)
{
	double a, b;
	return is_float(m, "x") && match_number(m, "a", &a) && match_number(m, "b", &b) && a <= b;
}

/* Whether the bounds of the inner Clip are in order, and those of the outer one are numbers, as far as it has any. */
static bool constant_bounds(struct match *m)
{
	double v;
	return bounds_in_order(m) && (!match_value(m, "l") || match_number(m, "l", &v)) &&
	       (!match_value(m, "h") || match_number(m, "h", &v));
}

/* Whether a bound is at least (order 1) or at most (-1) another one. */
static bool ordered(const struct match *m, const char *bound, const char *other, int order)
{
	double v, w;
	return match_number(m, bound, &v) && match_number(m, other, &w) && (v - w) * order >= 0;
}

/* The inner Clip has a low bound alone. */
static bool higher_low(struct match *m)
{
	return is_float(m, "x") && unbounded(m, "p", true) && ordered(m, "l", "a", 1);
}

static bool lower_low(struct match *m)
{
	return is_float(m, "x") && unbounded(m, "p", true) &&
	       (unbounded(m, "l", false) || ordered(m, "l", "a", -1)) &&
	       (unbounded(m, "h", true) || ordered(m, "h", "a", 1));
}

/* The inner Clip has a high bound alone. */
static bool lower_high(struct match *m)
{
	return is_float(m, "x") && unbounded(m, "p", false) && ordered(m, "h", "b", -1);
}

static bool higher_high(struct match *m)
{
	return is_float(m, "x") && unbounded(m, "p", false) &&
	       (unbounded(m, "h", true) || ordered(m, "h", "b", 1)) &&
	       (unbounded(m, "l", false) || ordered(m, "l", "b", -1));
}

static bool low_from_zero(struct match *m)
{
	double v;
	return is_float(m, "x") && match_number(m, "l", &v) && v >= 0;
}

static bool low_at_most_zero(struct match *m)
{
	double v;
	return is_float(m, "x") && (!match_value(m, "q") || (match_number(m, "q", &v) && v <= 0));
}

static bool high_from_zero(struct match *m)
{
	double v;
	return is_float(m, "x") && unbounded(m, "p", false) && match_number(m, "h", &v) && v >= 0;
}

static bool two_matrices(struct match *m)
{
	return is_fusable(m, "a") && match_rank(m, "a") == 2 && match_rank(m, "b") == 2;
}

const struct rule rules_normal[] = {
	{"clip-relu", NORMAL, "y = Clip(x, 0, h?)", "y = Relu(x)", from_zero,
	 .sample = "x[2,3] h=1e39"},
	{"clip-no-low", NORMAL, "y = Clip(x, #l, h?)", "y = Clip(x, _, h)", useless_low,
	 .sample = "x[2,3] l=-1e39 h=0.5"},
	{"clip-no-high", NORMAL, "y = Clip(x, l?, #h)", "y = Clip(x, l)", useless_high,
	 .sample = "x[2,3] l=-0.5 h=1e39"},
	{"clip-nothing", NORMAL, "y = Clip(x, l?, h?)", "y = x", useless_bounds,
	 .sample = "x[2,3] l=-1e39 h=1e39"},
	{"max-constant", NORMAL, "y = Max(x, #c)", "y = Clip(x, Squeeze(c))", bound,
	 .sample = "x[2,3] c=0.5"},
	{"min-constant", NORMAL, "y = Min(x, #c)", "y = Clip(x, _, Squeeze(c))", bound,
	 .sample = "x[2,3] c=0.5"},
	{"clip-clip", NORMAL, "y = Clip(Clip(x, #l, p?), q?, #h)", "y = Clip(x, l, h)",
	 low_then_high, .sample = "x[2,3] l=-0.5 h=0.5 p=1e39 q=-1e39"},
	{"clip-higher-low", NORMAL, "y = Clip(Clip(x, #a, p?), #l, h?)", "y = Clip(x, l, h)",
	 higher_low, .sample = "x[2,3] a=-0.5 l=-0.25 h=0.5 p=1e39"},
	{"clip-lower-low", NORMAL, "y = Clip(Clip(x, #a, p?), l?, h?)", "y = Clip(x, a, h)",
	 lower_low, .sample = "x[2,3] a=-0.5 l=-0.75 h=0.5 p=1e39"},
	{"clip-lower-high", NORMAL, "y = Clip(Clip(x, p?, #b), l?, #h)", "y = Clip(x, l, h)",
	 lower_high, .sample = "x[2,3] b=0.5 l=-0.25 h=0.25 p=-1e39"},
	{"clip-higher-high", NORMAL, "y = Clip(Clip(x, p?, #b), l?, h?)", "y = Clip(x, l, b)",
	 higher_high, .sample = "x[2,3] b=0.5 l=-0.25 h=0.75 p=-1e39"},
	{"relu-clip-low", NORMAL, "y = Clip(Relu(x), #l, h?)", "y = Clip(x, l, h)", low_from_zero,
	 .sample = "x[2,3] l=0.25 h=0.5"},
	{"clip-within", NORMAL, "y = Clip(Clip(x, #a, #b), l?, h?)",
	 "y = Clip(x, Clip(a, l, h), Clip(b, l, h))", constant_bounds,
	 .sample = "x[2,3] a=-0.5 b=0.5 l=-0.25 h=0.25"},
	{"clip-low-last", NORMAL, "y = Clip(Clip(x, p?, #h), #l, q?)", "y = Clip(x, l, h)",
	 high_then_low, .sample = "x[2,3] l=-0.5 h=0.5 p=-1e39 q=1e39"},
	{"relu-clip", NORMAL, "y = Clip(Relu(x), q?, #h)", "y = Clip(x, 0, h)", low_at_most_zero,
	 .sample = "x[2,3] h=0.5 q=-0.5"},
	{"clip-within-relu", NORMAL, "y = Relu(Clip(x, #a, #b))", "y = Clip(x, Relu(a), Relu(b))",
	 bounds_in_order, .sample = "x[2,3] a=-0.5 b=0.5"},
	{"clip-then-relu", NORMAL, "y = Relu(Clip(x, p?, #h))", "y = Clip(x, 0, h)", high_from_zero,
	 .sample = "x[2,3] h=0.5 p=-1e39"},
	{"layernorm-no-bias", NORMAL, "y = n: LayerNormalization(x, w, #b)",
	 "y = LayerNormalization(x, w) {...n}", no_bias, .sample = "x[2,4] w[4] b=[0.0,0,0,0]"},
	{"trilu-zero", NORMAL, "y = t: Trilu(x, 0)", "y = Trilu(x) {...t}", .sample = "x[3,3]"},
	{"scatter", NORMAL, "y = s: Scatter(x, i, u)", "y = ScatterElements(x, i, u) {...s}",
	 .sample = "x[4] i=[0,2] u[2]"},
	{"matmul-matrices", NORMAL, "y = MatMul(a, b)", "y = infer::Gemm(a, b)", two_matrices,
	 .sample = "a[2,3] b[3,4]"},
	{"div-constant", NORMAL, "y = Div(x, #c)", "y = Mul(x, Reciprocal(c))", floats, true,
	 .sample = "x[2,3] c+[3]"},
	{"sub-constant", NORMAL, "y = Sub(x, #c)", "y = Add(x, Neg(c))", floats, true,
	 .sample = "x[2,3] c[3]"},
	{"pow-two", NORMAL, "y = Pow(x, 2)", "y = Mul(x, x)", floats, true, .sample = "x[2,3]"},
	{"pow-half", NORMAL, "y = Pow(x, 0.5)", "y = Sqrt(x)", floats, true,
	 .sample = "x+[2,3] h=0.5; y = Pow(x, h)"},
	{"pow-minus-half", NORMAL, "y = Pow(x, -0.5)", "y = Reciprocal(Sqrt(x))", floats, true,
	 .sample = "x+[2,3] h=-0.5; y = Pow(x, h)"},
	{"one-div", NORMAL, "y = Div(1, x)", "y = Reciprocal(x)", floats, true, .sample = "x+[2,3]"},
	{"minus-one", NORMAL, "y = Mul(x, -1)", "y = Neg(x)", floats, .sample = "x[2,3]"},
	{"where-not", NORMAL, "y = Where(Not(c), x, z)", "y = Where(c, z, x)",
	 .sample = "c[2,3]:bool x[2,3] z[2,3]"},
	{"scale-left", NORMAL, "y = MatMul(Mul(x, #s), z)", "y = Mul(MatMul(x, z), s)", scaled,
	 true, .sample = "x[2,3,4] z[2,4,5] s=0.5"},
	{"scale-right", NORMAL, "y = MatMul(z, Mul(x, #s))", "y = Mul(MatMul(z, x), s)", scaled,
	 true, .sample = "z[2,3,4] x[2,4,5] s=0.5"},
	{"scale-left-turned", NORMAL, "y = MatMul(t: Transpose(Mul(x, #s)), z)",
	 "y = Mul(MatMul(Transpose(x) {...t}, z), s)", scaled, true,
	 .sample = "x[2,4,3] z[2,4,5] s=0.5; y = MatMul(Transpose(Mul(x, s)) {perm=[0,2,1]}, z)"},
	{"scale-right-turned", NORMAL, "y = MatMul(z, t: Transpose(Mul(x, #s)))",
	 "y = Mul(MatMul(z, Transpose(x) {...t}), s)", scaled, true,
	 .sample = "z[2,3,4] x[2,5,4] s=0.5; y = MatMul(z, Transpose(Mul(x, s)) {perm=[0,2,1]})"},
	{"gemm-untransposed", NORMAL, "y = g: infer::Gemm(a, #b, c?, r?) {transB=1}",
	 "y = infer::Gemm(a, Transpose(b) {perm=[1,0]}, c, r) {...g, transB=0}", constant_weight,
	 .sample = "a[2,3,4] b[5,4] c[5] r[2,3,5]"},
	{"conv-no-bias", NORMAL, "y = c: infer::Conv(x, w, #b, r?)",
	 "y = infer::Conv(x, w, _, r) {...c}", no_bias,
	 .sample = "x[2,4,6,6] w[8,4,3,3] b=[0.0,0,0,0,0,0,0,0] r[2,8,4,4]"},
	{"gemm-no-bias", NORMAL, "y = g: infer::Gemm(x, w, #b, r?)",
	 "y = infer::Gemm(x, w, _, r) {...g}", no_bias,
	 .sample = "x[2,3,4] w[4,5] b=[0.0,0,0,0,0] r[2,3,5]"},
	{0}};
