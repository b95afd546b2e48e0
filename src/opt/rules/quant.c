/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for products of 8-bit integers as quantization tools write them: scaling the sums is fused into the product. */
#include "opt/rules/guards.h"

/* True if a has a single scale and zero point, and b has a single one or one for each column. */
static bool scaled(struct match *m)
{
	const struct tensor *sb = match_const(m, "sb");
	struct shape a = match_shape(m, "a"), b = match_shape(m, "b"), sa = match_shape(m, "sa");
	int64_t n = tensor_count(sb);

	if (match_dtype(m, "sa") != DT_F32 || tensor_dtype(sb) != DT_F32 || b.rank != 2 || a.rank < 2)
		return match_why(m, "it is no fp32 product of a matrix with weights");
	if (shape_count(&sa) != 1 || sa.rank > 1 || sb->shape.rank > 1)
		return match_why(m, "the inputs have more than one scale");
	return n == 1 || n == b.dim[1] || match_why(m, "the scales are not one for each column");
}

static bool bias(struct match *m)
{
	const struct tensor *c = match_const(m, "c");
	struct shape b = match_shape(m, "b");

	return (tensor_dtype(c) == DT_F32 && c->shape.rank == 1 && b.rank == 2 &&
		c->shape.dim[0] == b.dim[1] && match_rank(m, "t") >= 2) ||
	       match_why(m, "the summand is no vector along the last dimension");
}

#define SAMPLE "a[2,3,8]:u8 b[8,5]:i8 za[]:u8 zb[]:i8 "

const struct rule rules_quant[] = {
	{"integer-product-scaled", FUSE,
	 "y = Mul(Cast(MatMulInteger(a, b, za?, zb?)) {to=1}, !Mul(sa, #sb))",
	 "y = com.microsoft::MatMulIntegerToFloat(a, b, sa, sb, za?, zb?)", scaled,
	 .sample = SAMPLE "sa=0.02 sb=0.03"},
	{"integer-product-bias", FUSE,
	 "t = com.microsoft::MatMulIntegerToFloat(a, b, sa, sb, za?, zb?); y = Add(t, #c)",
	 "y = com.microsoft::MatMulIntegerToFloat(a, b, sa, sb, za?, zb?, c)", bias,
	 .sample = SAMPLE "sa=0.02 sb=0.03 c[5]"},
	{0}};
