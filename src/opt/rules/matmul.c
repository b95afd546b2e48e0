/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for matrix products: bias, sum and activation are fused behind them, Reshapes around them removed. */
#include "opt/rules/guards.h"

static bool fusable(struct match *m)
{
	return is_fusable(m, "a") || match_why(m, "the type is not fp32, fp16 or bf16");
}

/* True if a Gemm's operands are matrices for certain: infer::Gemm takes stacks of matrices as well, and would not refuse them. */
static bool matrices(struct match *m)
{
	return fusable(m) && ((match_rank(m, "a") == 2 && match_rank(m, "b") == 2) ||
			      match_why(m, "the ranks are not known"));
}

/* True if the right operand b is a matrix; the patterns with this guard require b to be constant. */
static bool weight(struct match *m)
{
	return fusable(m) && match_rank(m, "b") == 2 && match_rank(m, "a") >= 2;
}

static bool matrix(struct match *m)
{
	return fusable(m) && match_rank(m, "b") == 2 && match_rank(m, "a") >= 2;
}

/* True if c is a constant bias: one element for each column of t, perhaps with leading dims of 1. */
static bool bias(struct match *m)
{
	const struct tensor *t = match_const(m, "c");
	int64_t n = dim_at(m, "t", -1);

	if (!fusable(m) || !t || n < 0 || t->shape.rank < 1)
		return false;
	return (tensor_count(t) == n && t->shape.dim[t->shape.rank - 1] == n &&
		t->shape.rank <= match_rank(m, "t")) ||
	       match_why(m, "the summand is no vector along the last dimension");
}

static bool residual(struct match *m)
{
	if (!fusable(m) || match_const(m, "r"))
		return false;
	if (match_value(m, "r") == match_value(m, "t"))
		return match_why(m, "it is added to itself");
	return match_same_shape(m, "r", "t") || match_why(m, "the summands differ in shape");
}

/*
 * True if the Reshapes in Reshape(Gemm(Reshape(a))) only merge and split the leading dims, which infer::Gemm accepts
 * unmerged.
 */
static bool rows_only(struct match *m)
{
	struct shape a = match_shape(m, "a"), y = match_shape(m, "y"), t = match_shape(m, "t");

	if (!fusable(m) || match_attr(m, "g", "transA", 0) != 0 || match_rank(m, "b") != 2 ||
	    t.rank != 2)
		return false;
	if (a.rank < 2 || a.rank != y.rank || !dims_equal(a.dim[a.rank - 1], dim_at(m, "u", 1)) ||
	    !dims_equal(y.dim[y.rank - 1], t.dim[1]))
		return match_why(m, "the last dimension changes");
	for (int i = 0; i < a.rank - 1; i++)
		if (!dims_equal(a.dim[i], y.dim[i]))
			return match_why(m, "the leading dimensions change");
	return match_rank(m, "c") <= 1 || match_why(m, "the bias is no vector");
}

static bool bounds(struct match *m)
{
	double v;
	return fusable(m) && match_number(m, "lo", &v) && match_number(m, "hi", &v);
}

/*
 * True if s [N,1,1] has one factor for each column of b [K,N], so that the scaling can be folded into b and the bias.
 */
static bool column_scale(struct match *m)
{
	struct shape s = match_shape(m, "s");
	int64_t n = dim_at(m, "b", -1);

	return fusable(m) && match_rank(m, "b") == 2 && match_attr(m, "g", "transB", 0) == 0 &&
	       s.rank == 3 && s.dim[1] == 1 && s.dim[2] == 1 && s.dim[0] == n &&
	       match_rank(m, "c") == 1 && products_fit(m, "b", "s") && products_fit(m, "c", "s");
}

/*
 * The result of a product is transposed to channels first and then added to a convolution's result. Transposing the
 * convolution's result instead lets the product absorb the sum, and the next product of the same kind cancels the
 * Transpose.
 */
static bool channels_residual(struct match *m)
{
	const struct graph *g = match_graph(m);
	const struct value *t = match_value(m, "t"), *r = match_value(m, "r");

	if (t->producer == NO_NODE || r->producer == NO_NODE || t->nusers != 1)
		return false;
	return g->node[t->producer]->op == op_named("infer::Gemm") &&
	       g->node[r->producer]->op == op_named("infer::Conv") && match_same_shape(m, "r", "y");
}

#define S    "a[2,3,4] b[4,5]"
#define SC   S " c[5]"
#define SR   SC " r[2,3,5]"
#define GEMM "infer::Gemm(a, b, c?, r?) {act=none}"
#define TO   "infer::Gemm(a, b, c, r) {...g, "
const struct rule rules_matmul[] = {
	{"gemm", RECOGNIZE, "y = g: Gemm(a, b, c?)", "y = infer::Gemm(a, b, c) {...g}", matrices,
	 .sample = "a[3,4] b[4,5] c[5]"},
	{"matmul-weight", RECOGNIZE, "y = MatMul(a, #b)", "y = infer::Gemm(a, b)", weight, .sample = S},
	{"matmul-transposed", FUSE, "y = MatMul(a, Transpose(#b) {perm=[1,0]})",
	 "y = infer::Gemm(a, b) {transB=1}", matrix, .sample = "a[2,3,4] b[5,4]"},
	{"gemm-transposed", FUSE,
	 "y = g: infer::Gemm(a, Transpose(#b) {perm=[1,0]}, c?, r?) {transB=0}",
	 "y = infer::Gemm(a, b, c, r) {...g, transB=1}", matrix,
	 .sample = "a[2,3,4] b[5,4] c[5] r[2,3,5]"},
	{"gemm-transposed-back", FUSE,
	 "y = g: infer::Gemm(a, Transpose(#b) {perm=[1,0]}, c?, r?) {transB=1}",
	 "y = infer::Gemm(a, b, c, r) {...g, transB=0}", matrix,
	 .sample = "a[2,3,4] b[4,5] c[5] r[2,3,5]"},
	{"gemm-reshaped", RECOGNIZE,
	 "u = Reshape(a, s); t = g: infer::Gemm(u, b, c?); y = Reshape(t, z)",
	 "y = infer::Gemm(a, b, c) {...g}", rows_only,
	 .sample = "a[2,3,4] s=[6,4] b[4,5] c[5] z=[2,3,5]"},
	{"gemm-bias", RECOGNIZE, "t = g: infer::Gemm(a, b) {act=none}; y = Add(t, #c)",
	 "y = infer::Gemm(a, b, Reshape(c, [-1])) {...g, beta=1}", bias, true,
	 .sample = SC "; y = Add(infer::Gemm(a, b) {beta=0.5}, c)"},
	{"gemm-residual", FUSE, "t = g: infer::Gemm(a, b, c?) {act=none}; y = Add(t, r)",
	 "y = infer::Gemm(a, b, c, r) {...g}", residual, true, .sample = SR},
	{"gemm-layer-scale", FUSE,
	 "y = Mul(t: Transpose(g: infer::Gemm(a, #b, #c) {act=none}) {perm=[0,3,1,2]}, #s)",
	 "k = Reshape(s, [-1]); y = Transpose(infer::Gemm(a, Mul(b, k), Mul(c, k)) {...g}) {...t}",
	 column_scale, true, .sample = "a[2,3,3,4] b[4,5] c[5] s[5,1,1]"},
	{"gemm-channels-residual", FUSE, "y = Add(a: Transpose(t) {perm=[0,3,1,2]}, r)",
	 "y = Transpose(Add(t, Transpose(r) {perm=[0,2,3,1]})) {...a}", channels_residual, true,
	 .sample = "p[2,3,3,4] q[4,5] x[2,2,3,3] w[5,2,1,1]; "
		   "y = Add(Transpose(infer::Gemm(p, q)) {perm=[0,3,1,2]}, infer::Conv(x, w))"},
#define FUSED_BY_NAME(op, act)                                                                     \
	{"gemm-" op, FUSE, "y = f: " op "(g: " GEMM ")", "y = " TO act "}", fusable, .sample = SR},
#include "ops/unary.def"
	{"gemm-gelu", FUSE, "y = Gelu(g: " GEMM ") {approximate=none}", "y = " TO "act=gelu}",
	 fusable, .sample = SR},
	{"gemm-gelu-tanh", FUSE, "y = Gelu(g: " GEMM ") {approximate=tanh}",
	 "y = " TO "act=gelutanh}", fusable, .sample = SR},
	{"gemm-swish", FUSE, "y = f: Swish(g: " GEMM ")", "y = " TO "act=silu, act_alpha=f.alpha}",
	 fusable, .sample = SR},
	{"gemm-clip", FUSE, "y = Clip(g: " GEMM ", #lo, #hi)",
	 "y = " TO "act=clip, act_alpha=@lo*1, act_beta=@hi*1}", bounds,
	 .sample = SR " lo=-0.5 hi=0.5"},
	{0}};
