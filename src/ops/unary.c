/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators of one tensor, Clip, Dropout, Identity, BitCast. */
#include "ops/unary.h"

#include "ops/activation.h"
#include "ops/infer_util.h"
#include "ops/upgrade.h"

#include <inttypes.h>
#include <math.h>

static const struct slot x[] = {SLOT("X", "T", T_FLOATS_BF), SLOT_END};
static const struct slot y[] = {SLOT("Y", "T", T_FLOATS_BF), SLOT_END};
static const struct slot y_bool[] = {SLOT("Y", "T2", T_BOOL), SLOT_END};
static const struct slot x1[] = {SLOT("X", "T", T_FLOATS_BF | T_F8), SLOT_END};

#define NEWEST(name_, since_, types_)                                                              \
	.name = (name_), .since = (since_), .in = x, .out = y, .types = (types_),                  \
	.infer = infer_same, .flags = OP_ELEMENTWISE
/* The row of opset 1, which has the meaningless attribute consumed_inputs. */
#define FIRST(name_)                                                                               \
	{                                                                                          \
		.name = (name_), .since = 1, .types = T_FLOATS, .in = x, .out = y,                 \
		ATTRS(upgrade_consumed_attrs, struct no_params), .upgrade = upgrade_prefix         \
	}

/* ---- attributes ------------------------------------------------------------------------------ */

#define ALPHA(var, struct_, def, help)                                                             \
	static const struct field var[] = {FIELD(struct_, alpha, F_FLOAT, def, help), {0}};
#define ALPHA_OLD(var, struct_, def)                                                               \
	struct struct_ {                                                                           \
		float alpha;                                                                       \
		struct ints consumed_inputs;                                                       \
	};                                                                                         \
	static const struct field var[] = {FIELD(struct struct_, alpha, F_FLOAT, def, "slope"),    \
					   CONSUMED(struct struct_),                               \
					   {0}};

ALPHA(leaky_attrs, struct alpha, "0.01", "slope below zero")
ALPHA(elu_attrs, struct alpha, "1", "scale below zero")
ALPHA(thresholded_attrs, struct alpha, "1", "threshold")
ALPHA(swish_attrs, struct alpha, "1", "factor in the sigmoid")
ALPHA(quick_gelu_attrs, struct alpha, "1.702", "factor in the sigmoid")
ALPHA_OLD(leaky_1_attrs, leaky_1, "0.01")
ALPHA_OLD(elu_1_attrs, elu_1, "1")

static const struct field selu_attrs[] = {
	FIELD(struct selu, alpha, F_FLOAT, "1.67326319217681884765625", "scale of the exponential"),
	FIELD(struct selu, gamma, F_FLOAT, "1.05070102214813232421875", "scale of all"),
	{0}};
struct selu_1 {
	struct selu now;
	struct ints consumed_inputs;
};
static const struct field selu_1_attrs[] = {{.name = "alpha",
					     .type = F_FLOAT,
					     .off = offsetof(struct selu_1, now.alpha),
					     .def = "1.6732",
					     .help = "scale of the exponential"},
					    {.name = "gamma",
					     .type = F_FLOAT,
					     .off = offsetof(struct selu_1, now.gamma),
					     .def = "1.0507",
					     .help = "scale of all"},
					    CONSUMED(struct selu_1),
					    {0}};

static const struct field hard_sigmoid_attrs[] = {
	FIELD(struct alpha_beta, alpha, F_FLOAT, "0.2", "slope"),
	FIELD(struct alpha_beta, beta, F_FLOAT, "0.5", "offset"),
	{0}};
struct hard_sigmoid_1 {
	struct alpha_beta now;
	struct ints consumed_inputs;
};
static const struct field hard_sigmoid_1_attrs[] = {{.name = "alpha",
						     .type = F_FLOAT,
						     .off = offsetof(struct hard_sigmoid_1, now.alpha),
						     .def = "0.2",
						     .help = "slope"},
						    {.name = "beta",
						     .type = F_FLOAT,
						     .off = offsetof(struct hard_sigmoid_1, now.beta),
						     .def = "0.5",
						     .help = "offset"},
						    CONSUMED(struct hard_sigmoid_1),
						    {0}};

static const struct field gelu_attrs[] = {
	FIELD_ENUM(struct gelu, approximate, "none", "none|tanh", "formula"), {0}};
static const struct field shrink_attrs[] = {
	FIELD(struct shrink, lambd, F_FLOAT, "0.5", "threshold"),
	FIELD(struct shrink, bias, F_FLOAT, "0", "taken from what passes"),
	{0}};

/* ---- Clip ------------------------------------------------------------------------------------ */

static const struct slot clip_in[] = {SLOT("input", "T", T_NUMERIC_BF),
				      SLOT_OPT("min", "T", T_NUMERIC_BF),
				      SLOT_OPT("max", "T", T_NUMERIC_BF), SLOT_END};
static const struct slot clip_out[] = {SLOT("output", "T", T_NUMERIC_BF), SLOT_END};
static const struct slot clip_6_in[] = {SLOT("input", "T", T_FLOATS), SLOT_END};
static const struct slot clip_6_out[] = {SLOT("output", "T", T_FLOATS), SLOT_END};

struct clip_6 {
	float min, max;
	struct ints consumed_inputs;
};
static const struct field clip_6_attrs[] = {
	FIELD(struct clip_6, min, F_FLOAT, "-3.402823466e+38", "lower bound"),
	FIELD(struct clip_6, max, F_FLOAT, "3.402823466e+38", "upper bound"),
	{0}};
static const struct field clip_1_attrs[] = {FIELD(struct clip_6, min, F_FLOAT, NULL, "lower bound"),
					    FIELD(struct clip_6, max, F_FLOAT, NULL, "upper bound"),
					    CONSUMED(struct clip_6),
					    {0}};

static int upgrade_clip(struct edit *e)
{
	const struct clip_6 *old = e->node->params;
	enum dtype t = edit_dtype(e, 0);

	edit_params(e);
	if (t == DT_NONE)
		t = DT_F32;
	if (!isnan(old->min))
		edit_const_scalar(e, 1, (double)old->min, t);
	else if (!isnan(old->max))
		node_set_in(e->graph, e->node, 1, NO_VALUE);
	if (!isnan(old->max))
		edit_const_scalar(e, 2, (double)old->max, t);
	return 0;
}

static int infer_clip(struct infer *c)
{
	for (uint32_t i = 1; i < 3; i++) {
		struct shape s = infer_shape(c, i);
		if (infer_in(c, i) && s.rank > 0 && shape_known(&s) && shape_count(&s) != 1)
			return infer_fail(c, E_SHAPE, (int)i, "a scalar",
					  fmt(c->diag, "rank %d", s.rank));
	}
	return infer_same(c);
}

/* ---- Dropout --------------------------------------------------------------------------------- */

static const struct slot dropout_in[] = {SLOT("data", "T", T_FLOATS_BF | T_F8),
					 SLOT_OPT("ratio", "T1", T_FLOATS_BF | T_F8, .dims = "()"),
					 SLOT_OPT("training_mode", "T2", T_BOOL, .dims = "()"),
					 SLOT_END};
static const struct slot dropout_out[] = {SLOT("output", "T", T_FLOATS_BF | T_F8),
					  SLOT_OPT("mask", NULL, T_BOOL), SLOT_END};
static const struct slot dropout_1_in[] = {SLOT("data", "T", T_FLOATS), SLOT_END};
static const struct field dropout_attrs[] = {
	FIELD_DATA(struct dropout, seed, F_INT, NULL, "of the random numbers"), {0}};

struct dropout_1 {
	float ratio;
	int64_t is_test;
	struct ints consumed_inputs;
};
static const struct field dropout_7_attrs[] = {
	FIELD(struct dropout_1, ratio, F_FLOAT, "0.5", "part that is dropped"), {0}};
static const struct field dropout_1_attrs[] = {
	FIELD(struct dropout_1, ratio, F_FLOAT, "0.5", "part that is dropped"),
	FIELD(struct dropout_1, is_test, F_INT, "0", "not 0: nothing is dropped"),
	CONSUMED(struct dropout_1),
	{0}};

static int upgrade_dropout(struct edit *e)
{
	const struct dropout_1 *old = e->node->params;
	struct dropout *now = edit_params(e);
	enum dtype t = edit_dtype(e, 0);
	bool train = e->old->since < 7 && !old->is_test;
	struct shape scalar = {0};

	now->mask_zero = true;
	if (train) {
		struct tensor *yes = tensor_new(e->graph->arena, DT_BOOL, &scalar);
		elem_set_i64(DT_BOOL, yes->data, 0, 1);
		edit_const_scalar(e, 1, (double)old->ratio, DT_F32);
		node_set_in(e->graph, e->node, 2, graph_add_const(e->graph, "", yes)->id);
	}
	/* below opset 10 the mask had the type of the data, now it is bool: convert it */
	if (e->old->since < 10 && node_out(e->graph, e->node, 1)) {
		int64_t *to;
		void *params;
		edit_after(e, 1, "Cast", NULL, 0, &params);
		to = params; /* struct cast begins with `to` */
		*to = t == DT_NONE ? DT_F32 : t;
	}
	return 0;
}

static int infer_dropout(struct infer *c)
{
	struct shape s = infer_shape(c, 0);

	infer_set(c, 0, infer_dtype(c, 0), &s);
	infer_set(c, 1, DT_BOOL, &s);
	return 0;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static int infer_bool(struct infer *c)
{
	return infer_same_as(c, DT_BOOL);
}

static const struct field is_inf_attrs[] = {
	FIELD(struct is_inf, detect_negative, F_INT, "1", "whether -inf counts"),
	FIELD(struct is_inf, detect_positive, F_INT, "1", "whether inf counts"),
	{0}};

static const struct slot identity_in[] = {SLOT("input", "T", T_ALL | T_SEQ | T_OPT), SLOT_END};
static const struct slot identity_out[] = {SLOT("output", "T", T_ALL | T_SEQ | T_OPT), SLOT_END};

static int infer_identity(struct infer *c)
{
	const struct vinfo *a = infer_in(c, 0);
	struct vinfo *b = infer_out(c, 0);

	if (a && b) {
		b->type = a->type;
		b->shape = a->shape;
		b->known = a->known;
		b->ints = a->ints;
	}
	return 0;
}

#define T_BITS (T_ALL & ~T_STRING)
static const struct slot bit_cast_in[] = {SLOT("input", "T1", T_BITS), SLOT_END};
static const struct slot bit_cast_out[] = {SLOT("output", NULL, T_BITS), SLOT_END};
static const struct field bit_cast_attrs[] = {
	FIELD_REQ(struct bit_cast, to, F_INT, "element type of the output"), {0}};

static int infer_bit_cast(struct infer *c)
{
	const struct bit_cast *p = infer_params(c);
	enum dtype from = infer_dtype(c, 0), to = (enum dtype)p->to;

	if (p->to <= 0 || p->to >= DT_COUNT || !(T_BIT(to) & T_BITS))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "to: a type other than string",
				  fmt(c->diag, "%" PRId64, p->to));
	if (from && dtype_bits(from) != dtype_bits(to))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "to: a type as wide as the input's",
				  fmt(c->diag, "%s for %s", dtype_name(to), dtype_name(from)));
	return infer_same_as(c, to);
}

/* ---- operators that opset 1 had as experiments ----------------------------------------------- */

static const struct field affine_attrs[] = {FIELD(struct alpha_beta, alpha, F_FLOAT, "1", "factor"),
					    FIELD(struct alpha_beta, beta, F_FLOAT, "0", "summand"),
					    {0}};
static const struct field scaled_attrs[] = {
	FIELD(struct alpha_beta, alpha, F_FLOAT, "1", "outer factor"),
	FIELD(struct alpha_beta, beta, F_FLOAT, "1", "inner factor"),
	{0}};
struct scale {
	float scale;
};
static const struct field scale_attrs[] = {FIELD(struct scale, scale, F_FLOAT, "1", "factor"), {0}};

static const struct field image_scaler_attrs[] = {
	FIELD(struct image_scaler, scale, F_FLOAT, "1", "factor"),
	FIELD(struct image_scaler, bias, F_FLOATS, NULL, "summand of each channel"),
	{0}};

static int infer_image_scaler(struct infer *c)
{
	const struct image_scaler *p = infer_params(c);
	struct shape s = infer_shape(c, 0);

	if (p->bias.n > 0 && s.rank >= 0 && (s.rank < 2 || (s.dim[1] >= 0 && s.dim[1] != p->bias.n)))
		return infer_fail(c, E_SHAPE, 0, fmt(c->diag, "%" PRId64 " channels", p->bias.n),
				  infer_shape_text(c, &s));
	return infer_same(c);
}

/* ---- what kernels compute --------------------------------------------------------------------- */

enum function {
#define FUNCTION(id, cost, formula) FN_##id,
#define BIT_FUNCTION(id, formula)   FN_##id,
#include "ops/unary.def"
	FN_COUNT
};

struct unary_function unary_function(const struct node *n)
{
	static const struct {
		const char *op;
		enum function f;
		int nparams;
	} rows[] = {
#define UNARY(op, id, types, nparams) {op, FN_##id, nparams},
#include "ops/unary.def"
		{"FastGelu", FN_GELU_TANH, 0},
		{"QuickGelu", FN_SWISH, 1},
	};
	const float *params = n->params;
	size_t k = 0;

	while (k + 1 < sizeof(rows) / sizeof(*rows) && strcmp(rows[k].op, n->op->name) != 0)
		k++;
	struct unary_function u = {.number = (int)rows[k].f};
	for (int i = 0; i < rows[k].nparams; i++)
		u.param[i] = (double)params[i];
	if (u.number == FN_HARDSWISH) {
		u.param[0] = activations[ACT_HARDSWISH].alpha;
		u.param[1] = activations[ACT_HARDSWISH].beta;
	}
	if (n->op == op_named("Gelu") && ((const struct gelu *)n->params)->approximate)
		u.number = FN_GELU_TANH;
	return u;
}

/* com.microsoft::BiasDropout */
struct bias_dropout {
	int64_t seed;
};
static const struct slot bias_dropout_in[] = {
	SLOT("data", "T", T_FLOATS_BF),
	SLOT("bias", "T", T_FLOATS_BF),
	SLOT_OPT("residual", "T", T_FLOATS_BF),
	SLOT_OPT("ratio", "T1", T_FLOATS_BF, .dims = "() | 1"),
	SLOT_OPT("training_mode", "T2", T_BOOL, .dims = "() | 1"),
	SLOT_END};
static const struct slot bias_dropout_out[] = {SLOT("output", "T", T_FLOATS_BF),
					       SLOT_OPT("mask", "T2", T_BOOL), SLOT_END};
static const struct field bias_dropout_attrs[] = {
	FIELD(struct bias_dropout, seed, F_INT, "0", "a hint for training"), {0}};

/* com.microsoft::ScaledSiLU: the scaled input and its sigmoid are rounded to the type. */
#define T_SCALED (T_F32 | T_F16 | T_BF16)
static const struct slot scaled_silu_in[] = {
	SLOT("X", "T", T_SCALED), SLOT_OPT("scale", "M", T_SCALED, .dims = "()"), SLOT_END};
static const struct slot scaled_silu_out[] = {SLOT("Y", "T", T_SCALED), SLOT_END};
static const struct field scaled_silu_attrs[] = {
	FIELD(struct alpha, alpha, F_FLOAT, "1", "factor of X without the input scale"), {0}};

static const char *scaled_silu_text(const struct graph *g, const struct node *n)
{
	return arena_printf(g->arena,
			    "z = CastLike(Mul(Cast(X) {to=1}, %s), X); Y = Mul(z, Sigmoid(z))",
			    node_in(g, n, 1) ? "Squeeze(Cast(scale) {to=1})" : "$alpha");
}

const struct op ops_unary[] = {
	{NEWEST("Abs", 13, T_NUMERIC_BF), .reduced = REDUCED_COMPUTES},
	OLD("Abs", 6, T_NUMERIC),
	FIRST("Abs"),
	{NEWEST("Neg", 13, T_FLOATS_BF | T_SIGNED), .reduced = REDUCED_COMPUTES},
	OLD("Neg", 6, T_FLOATS | T_SIGNED),
	FIRST("Neg"),
	{NEWEST("Ceil", 13, T_FLOATS_BF)},
	OLD("Ceil", 6, T_FLOATS),
	FIRST("Ceil"),
	{NEWEST("Floor", 13, T_FLOATS_BF)},
	OLD("Floor", 6, T_FLOATS),
	FIRST("Floor"),
	{NEWEST("Round", 22, T_FLOATS_BF)},
	OLD("Round", 11, T_FLOATS),
	{NEWEST("Sign", 13, T_NUMERIC_BF)},
	OLD("Sign", 9, T_NUMERIC),
	{NEWEST("Sqrt", 13, T_FLOATS_BF)},
	OLD("Sqrt", 6, T_FLOATS),
	FIRST("Sqrt"),
	{NEWEST("Exp", 13, T_FLOATS_BF)},
	OLD("Exp", 6, T_FLOATS),
	FIRST("Exp"),
	{NEWEST("Log", 13, T_FLOATS_BF)},
	OLD("Log", 6, T_FLOATS),
	FIRST("Log"),
	{NEWEST("Reciprocal", 13, T_FLOATS_BF)},
	OLD("Reciprocal", 6, T_FLOATS),
	FIRST("Reciprocal"),
	{NEWEST("Sin", 22, T_FLOATS_BF)},
	OLD("Sin", 7, T_FLOATS),
	{NEWEST("Cos", 22, T_FLOATS_BF)},
	OLD("Cos", 7, T_FLOATS),
	{NEWEST("Tan", 22, T_FLOATS_BF)},
	OLD("Tan", 7, T_FLOATS),
	{NEWEST("Asin", 22, T_FLOATS_BF)},
	OLD("Asin", 7, T_FLOATS),
	{NEWEST("Acos", 22, T_FLOATS_BF)},
	OLD("Acos", 7, T_FLOATS),
	{NEWEST("Atan", 22, T_FLOATS_BF)},
	OLD("Atan", 7, T_FLOATS),
	{NEWEST("Sinh", 22, T_FLOATS_BF)},
	OLD("Sinh", 9, T_FLOATS),
	{NEWEST("Cosh", 22, T_FLOATS_BF)},
	OLD("Cosh", 9, T_FLOATS),
	{NEWEST("Tanh", 13, T_FLOATS_BF), .reduced = REDUCED_COMPUTES},
	OLD("Tanh", 6, T_FLOATS),
	FIRST("Tanh"),
	{NEWEST("Asinh", 22, T_FLOATS_BF)},
	OLD("Asinh", 9, T_FLOATS),
	{NEWEST("Acosh", 22, T_FLOATS_BF)},
	OLD("Acosh", 9, T_FLOATS),
	{NEWEST("Atanh", 22, T_FLOATS_BF)},
	OLD("Atanh", 9, T_FLOATS),
	{NEWEST("Erf", 13, T_NUMERIC_BF), .reduced = REDUCED_COMPUTES},
	OLD("Erf", 9, T_NUMERIC),
	{NEWEST("Relu", 14, T_FLOATS_BF | T_SIGNED), .reduced = REDUCED_COMPUTES},
	OLD("Relu", 13, T_FLOATS_BF),
	OLD("Relu", 6, T_FLOATS),
	FIRST("Relu"),
	{NEWEST("LeakyRelu", 16, T_FLOATS_BF), .reduced = REDUCED_COMPUTES,
	 ATTRS(leaky_attrs, struct alpha)},
	OLD("LeakyRelu", 6, T_FLOATS),
	{.name = "LeakyRelu",
	 .since = 1,
	 .types = T_FLOATS,
	 ATTRS(leaky_1_attrs, struct leaky_1),
	 .upgrade = upgrade_prefix},
	{NEWEST("Elu", 22, T_FLOATS_BF), .reduced = REDUCED_COMPUTES, ATTRS(elu_attrs, struct alpha)},
	OLD("Elu", 6, T_FLOATS),
	{.name = "Elu",
	 .since = 1,
	 .types = T_FLOATS,
	 ATTRS(elu_1_attrs, struct elu_1),
	 .upgrade = upgrade_prefix},
	{NEWEST("Selu", 22, T_FLOATS_BF), ATTRS(selu_attrs, struct selu)},
	OLD("Selu", 6, T_FLOATS),
	{.name = "Selu",
	 .since = 1,
	 .types = T_FLOATS,
	 ATTRS(selu_1_attrs, struct selu_1),
	 .upgrade = upgrade_prefix},
	{NEWEST("Celu", 28, T_FLOATS_BF), ATTRS(elu_attrs, struct alpha)},
	OLD("Celu", 12, T_F32),
	{NEWEST("Sigmoid", 13, T_FLOATS_BF), .reduced = REDUCED_COMPUTES},
	OLD("Sigmoid", 6, T_FLOATS),
	FIRST("Sigmoid"),
	{NEWEST("HardSigmoid", 22, T_FLOATS_BF), .reduced = REDUCED_COMPUTES,
	 ATTRS(hard_sigmoid_attrs, struct alpha_beta)},
	OLD("HardSigmoid", 6, T_FLOATS),
	{.name = "HardSigmoid",
	 .since = 1,
	 .types = T_FLOATS,
	 ATTRS(hard_sigmoid_1_attrs, struct hard_sigmoid_1),
	 .upgrade = upgrade_prefix},
	{NEWEST("HardSwish", 22, T_FLOATS_BF), .reduced = REDUCED_COMPUTES},
	OLD("HardSwish", 14, T_FLOATS),
	{NEWEST("Swish", 24, T_FLOATS_BF), .reduced = REDUCED_COMPUTES,
	 ATTRS(swish_attrs, struct alpha)},
	{NEWEST("Softplus", 22, T_FLOATS_BF), .reduced = REDUCED_COMPUTES},
	OLD("Softplus", 1, T_FLOATS),
	{NEWEST("Softsign", 22, T_FLOATS_BF)},
	OLD("Softsign", 1, T_FLOATS),
	{NEWEST("ThresholdedRelu", 22, T_FLOATS_BF), ATTRS(thresholded_attrs, struct alpha)},
	OLD("ThresholdedRelu", 10, T_FLOATS),
	OLD("ThresholdedRelu", 1, T_FLOATS),
	{NEWEST("Gelu", 20, T_FLOATS_BF), .reduced = REDUCED_COMPUTES, ATTRS(gelu_attrs, struct gelu)},
	{NEWEST("Mish", 22, T_FLOATS_BF), .reduced = REDUCED_COMPUTES},
	OLD("Mish", 18, T_FLOATS),
	{NEWEST("Shrink", 9, T_NUMERIC), ATTRS(shrink_attrs, struct shrink)},
	{.name = "Clip",
	 .since = 13,
	 .reduced = REDUCED_COMPUTES,
	 .in = clip_in,
	 .out = clip_out,
	 .types = T_NUMERIC_BF,
	 .infer = infer_clip,
	 .flags = OP_ELEMENTWISE},
	OLD("Clip", 12, T_NUMERIC),
	OLD("Clip", 11, T_FLOATS),
	{.name = "Clip",
	 .since = 6,
	 .in = clip_6_in,
	 .out = clip_6_out,
	 .types = T_FLOATS,
	 ATTRS(clip_6_attrs, struct clip_6),
	 .upgrade = upgrade_clip},
	{.name = "Clip",
	 .since = 1,
	 .in = clip_6_in,
	 .out = clip_6_out,
	 .types = T_FLOATS,
	 ATTRS(clip_1_attrs, struct clip_6),
	 .upgrade = upgrade_clip},
	{NEWEST("Not", 1, T_BOOL)},
	{NEWEST("BitwiseNot", 18, T_INTS)},
	{.name = "IsNaN",
	 .since = 20,
	 .in = x1,
	 .out = y_bool,
	 .types = T_FLOATS_BF | T_F8,
	 .infer = infer_bool,
	 .flags = OP_ELEMENTWISE},
	OLD("IsNaN", 13, T_FLOATS_BF),
	OLD("IsNaN", 9, T_FLOATS),
	{.name = "IsInf",
	 .since = 20,
	 .variant = IS_INF,
	 .in = x1,
	 .out = y_bool,
	 .types = T_FLOATS_BF | T_F8,
	 .infer = infer_bool,
	 .flags = OP_ELEMENTWISE,
	 ATTRS(is_inf_attrs, struct is_inf)},
	OLD("IsInf", 10, T_F32 | T_F64),
	{.name = "Identity",
	 .since = 25,
	 .reduced = REDUCED_MOVES,
	 .in = identity_in,
	 .out = identity_out,
	 .types = T_ALL | T_SEQ | T_OPT,
	 .infer = infer_identity,
	 .flags = OP_VIEW | OP_PASSES},
	OLD("Identity", 24, (T_ALL & ~T_2BIT) | T_SEQ | T_OPT),
	OLD("Identity", 23, (T_ALL & ~(T_2BIT | T_F8E8M0)) | T_SEQ | T_OPT),
	OLD("Identity", 21, (T_ALL & ~(T_2BIT | T_F8E8M0 | T_F4)) | T_SEQ | T_OPT),
	OLD("Identity", 19, T_ALL_OLD | T_BF16 | T_F8 | T_SEQ | T_OPT),
	OLD("Identity", 16, T_ALL_OLD | T_BF16 | T_SEQ | T_OPT),
	OLD("Identity", 14, T_ALL_OLD | T_BF16 | T_SEQ),
	OLD("Identity", 13, T_ALL_OLD | T_BF16),
	OLD("Identity", 1, T_ALL_OLD),
	{.name = "Dropout",
	 .since = 22,
	 .reduced = REDUCED_MOVES,
	 .in = dropout_in,
	 .out = dropout_out,
	 .types = T_FLOATS_BF | T_F8,
	 ATTRS(dropout_attrs, struct dropout),
	 .infer = infer_dropout,
	 .flags = OP_RANDOM | OP_OPTIONAL_OUT},
	OLD("Dropout", 13, T_FLOATS_BF),
	OLD("Dropout", 12, T_FLOATS),
	{.name = "Dropout",
	 .since = 10,
	 .in = dropout_1_in,
	 .out = dropout_out,
	 .types = T_FLOATS,
	 ATTRS(dropout_7_attrs, struct dropout_1),
	 .upgrade = upgrade_dropout},
	{.name = "Dropout",
	 .since = 7,
	 .in = dropout_1_in,
	 .out = dropout_out,
	 .types = T_FLOATS,
	 ATTRS(dropout_7_attrs, struct dropout_1),
	 .upgrade = upgrade_dropout},
	{.name = "Dropout",
	 .since = 6,
	 .in = dropout_1_in,
	 .out = dropout_out,
	 .types = T_FLOATS,
	 ATTRS(dropout_1_attrs, struct dropout_1),
	 .upgrade = upgrade_dropout},
	{.name = "Dropout",
	 .since = 1,
	 .in = dropout_1_in,
	 .out = dropout_out,
	 .types = T_FLOATS,
	 ATTRS(dropout_1_attrs, struct dropout_1),
	 .upgrade = upgrade_dropout},
	{.name = "BitCast",
	 .since = 26,
	 .in = bit_cast_in,
	 .out = bit_cast_out,
	 ATTRS(bit_cast_attrs, struct bit_cast),
	 .infer = infer_bit_cast,
	 .flags = OP_ELEMENTWISE},
	{NEWEST("Affine", 1, T_FLOATS), ATTRS(affine_attrs, struct alpha_beta)},
	{NEWEST("ScaledTanh", 1, T_FLOATS), ATTRS(scaled_attrs, struct alpha_beta)},
	{NEWEST("ParametricSoftplus", 1, T_FLOATS), ATTRS(scaled_attrs, struct alpha_beta)},
	{NEWEST("Scale", 1, T_FLOATS), ATTRS(scale_attrs, struct scale)},
	{.name = "ImageScaler",
	 .since = 1,
	 .in = x,
	 .out = y,
	 .types = T_FLOATS,
	 ATTRS(image_scaler_attrs, struct image_scaler),
	 .infer = infer_image_scaler},
	{.name = "Gelu",
	 MICROSOFT,
	 .reduced = REDUCED_COMPUTES,
	 .in = x,
	 .out = y,
	 .types = T_FLOATS_BF,
	 .infer = infer_same,
	 .flags = OP_ELEMENTWISE},
	{.name = "QuickGelu",
	 MICROSOFT,
	 .in = x,
	 .out = y,
	 .types = T_FLOATS_BF,
	 ATTRS(quick_gelu_attrs, struct alpha),
	 .infer = infer_same,
	 .flags = OP_ELEMENTWISE},
	{.name = "ScaledSiLU",
	 MICROSOFT,
	 .in = scaled_silu_in,
	 .out = scaled_silu_out,
	 ATTRS(scaled_silu_attrs, struct alpha),
	 .infer = infer_same,
	 .expand_as = scaled_silu_text},
	{.name = "BiasDropout",
	 MICROSOFT,
	 .in = bias_dropout_in,
	 .out = bias_dropout_out,
	 ATTRS(bias_dropout_attrs, struct bias_dropout),
	 .expand = "kept, mask = Dropout(Add(data, bias), ratio?, training_mode?); "
		   "output = Add(kept, residual?)"},
	{0}};
