/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/float8.h"

#include "ops/fused.h"
#include "ops/infer_util.h"

#define T_FLOAT8 T_BIT(FLOAT8)

/* Libraries multiply float8 only if rows of both operands and of the result begin at multiples of 16 bytes. */
enum { FLOAT8_MULTIPLE = 16 };

const char *float8_gemm_refusal(const struct fused_gemm *p, const struct shape *a,
				const struct shape *b, const struct shape *c, bool weight)
{
	if (!weight || b->rank != 2)
		return "the right operand is no constant matrix";
	if (a->rank < 2 || p->transA)
		return "the left operand is a vector or is stored by columns";
	if (b->dim[0] % FLOAT8_MULTIPLE || b->dim[1] % FLOAT8_MULTIPLE)
		return "its sizes are no multiples of 16";
	if (p->alpha < 1 || p->alpha > 1 || (c && (p->beta < 1 || p->beta > 1)))
		return "it has factors alpha or beta";
	if (c && (c->rank < 1 || c->dim[c->rank - 1] != b->dim[p->transB ? 0 : 1] ||
		  shape_count(c) != c->dim[c->rank - 1]))
		return "the summand is no vector along the columns";
	if (p->act != ACT_NONE && p->act != ACT_RELU && p->act != ACT_GELU && p->act != ACT_GELU_TANH)
		return "its activation is neither relu nor gelu";
	return NULL;
}

/* ---- Float8 ---------------------------------------------------------------------------------- */

static const struct slot convert_in[] = {SLOT("X", NULL, T_F16), SLOT_END};
static const struct slot convert_out[] = {SLOT("Q", NULL, T_FLOAT8), SLOT_OPT("S", NULL, T_F32),
					  SLOT_END};

static const struct field convert_attrs[] = {FIELD(struct float8_convert, scale, F_FLOAT, "0",
						   "what X is divided by; 0: found in the run"),
					     {0}};

static int convert_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), one = shape_of(1, (int64_t[]){1});

	infer_set(c, 0, FLOAT8, &x);
	if (infer_out(c, 1))
		infer_set(c, 1, DT_F32, &one);
	return 0;
}

/* ---- LayerNormFloat8 ------------------------------------------------------------------------- */

static const struct slot norm_in[] = {SLOT("X", NULL, T_F16, .dims = "... D"),
				      SLOT("Scale", NULL, T_F16, .dims = "D"),
				      SLOT_OPT("B", NULL, T_F16, .dims = "D"), SLOT_END};
static const struct slot norm_out[] = {SLOT("Q", NULL, T_FLOAT8), SLOT_OPT("Y", NULL, T_F16),
				       SLOT_END};

static const struct field norm_attrs[] = {
	FIELD(struct float8_norm, epsilon, F_FLOAT, "1e-05", "added to the variance"),
	FIELD(struct float8_norm, scale, F_FLOAT, "1", "what Y is divided by"),
	FIELD(struct float8_norm, rms, F_INT, "0", "1: the mean is not subtracted"),
	{0}};

static int norm_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0);

	infer_set(c, 0, FLOAT8, &x);
	if (infer_out(c, 1))
		infer_set(c, 1, infer_dtype(c, 0), &x);
	return 0;
}

/* ---- GemmFloat8 ------------------------------------------------------------------------------ */

static const struct slot gemm_in[] = {SLOT("A", NULL, T_FLOAT8, .dims = "_... K"),
				      SLOT("B", NULL, T_FLOAT8, .dims = "N K"),
				      SLOT_OPT("C", NULL, T_F16),
				      SLOT_OPT("R", NULL, T_F16),
				      SLOT_OPT("S", NULL, T_F32),
				      SLOT_OPT("D", NULL, T_F32),
				      SLOT_END};
static const struct slot gemm_out[] = {SLOT("Y", NULL, T_F16 | T_FLOAT8), SLOT_END};

static const struct field gemm_attrs[] = {
	FIELD_REQ(struct float8_gemm, type, F_INT, "element type of Y"),
	FIELD(struct float8_gemm, scale, F_FLOAT, "1", "factor of the product"),
	FIELD_ENUM(struct float8_gemm, act, "none", act_choices, "activation"),
	FIELD(struct float8_gemm, act_alpha, F_FLOAT, "0", "its alpha"),
	FIELD(struct float8_gemm, act_beta, F_FLOAT, "0", "its beta"),
	{0}};

static int gemm_infer(struct infer *c)
{
	const struct float8_gemm *p = infer_params(c);
	struct shape a = infer_shape(c, FLOAT8_A), b = infer_shape(c, FLOAT8_B), y = a;

	if (a.rank >= 1 && b.rank == 2)
		y.dim[a.rank - 1] = b.dim[0];
	else
		y = SHAPE_UNKNOWN;
	infer_set(c, 0, (enum dtype)p->type, &y);
	return 0;
}

static int64_t gemm_macs(const struct infer *c)
{
	struct shape b = infer_shape(c, FLOAT8_B);
	int64_t out = shape_count(&infer_out(c, 0)->shape), n;

	if (out < 0 || b.rank != 2 || __builtin_mul_overflow(out, b.dim[1], &n))
		return 0;
	return n;
}

const struct op ops_float8[] = {{"Float8", .domain = "infer", .since = 1, .in = convert_in,
				 .out = convert_out, ATTRS(convert_attrs, struct float8_convert),
				 .infer = convert_infer, .flags = OP_INTERNAL | OP_OPTIONAL_OUT},
				{"LayerNormFloat8", .domain = "infer", .since = 1, .in = norm_in,
				 .out = norm_out, ATTRS(norm_attrs, struct float8_norm),
				 .infer = norm_infer, .flags = OP_INTERNAL | OP_OPTIONAL_OUT},
				{"GemmFloat8", .domain = "infer", .since = 1, .in = gemm_in,
				 .out = gemm_out, ATTRS(gemm_attrs, struct float8_gemm),
				 .infer = gemm_infer, .macs = gemm_macs,
				 .flags = OP_PRODUCT | OP_INTERNAL},
				{0}};
