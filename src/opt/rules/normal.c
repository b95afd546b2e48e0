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

const struct rule rules_normal[] = {
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
