/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators of two or more tensors that broadcast. */
#include "ops/binary.h"

#include "ops/infer_util.h"
#include "ops/unary.h"
#include "ops/upgrade.h"

#include <inttypes.h>

#define T_WIDE (T_I32 | T_I64 | T_U32 | T_U64)

static const struct slot ab[] = {SLOT("A", "T", T_NUMERIC_BF), SLOT("B", "T", T_NUMERIC_BF), SLOT_END};
static const struct slot out_c[] = {SLOT("C", "T", T_NUMERIC_BF), SLOT_END};
static const struct slot out_bool[] = {SLOT("C", NULL, T_BOOL), SLOT_END};
static const struct slot xy[] = {SLOT("X", "T", T_UNSIGNED), SLOT("Y", "T", T_UNSIGNED), SLOT_END};
static const struct slot out_z[] = {SLOT("Z", "T", T_UNSIGNED), SLOT_END};
static const struct slot pow_in[] = {SLOT("X", "T", T_FLOATS_BF | T_I32 | T_I64),
				     SLOT("Y", "T1", T_NUMERIC_BF), SLOT_END};
static const struct slot pow_13_in[] = {SLOT("X", "T", T_FLOATS_BF | T_I32 | T_I64),
					SLOT("Y", "T1", T_NUMERIC), SLOT_END};
static const struct slot pow_7_in[] = {SLOT("X", "T", T_FLOATS), SLOT("Y", "T", T_FLOATS), SLOT_END};
static const struct slot data[] = {
	{.name = "data_0", .tvar = "T", .types = T_NUMERIC_BF, .variadic = true}, SLOT_END};
/* below opset 8 nothing was broadcast */
static const struct slot same[] = {
	{.name = "data_0", .tvar = "T", .types = T_NUMERIC_BF, .variadic = true, .dims = "..."},
	SLOT_END};
static const struct slot many_out[] = {SLOT("result", "T", T_NUMERIC_BF), SLOT_END};
static const struct slot prelu_in[] = {SLOT("X", "T", T_FLOATS_BF | T_WIDE),
				       SLOT("slope", "T", T_FLOATS_BF | T_WIDE), SLOT_END};
static const struct slot prelu_out[] = {SLOT("Y", "T", T_FLOATS_BF | T_WIDE), SLOT_END};
static const struct slot where_in[] = {SLOT("condition", NULL, T_BOOL),
				       SLOT("X", "T", T_ALL_OLD | T_BF16),
				       SLOT("Y", "T", T_ALL_OLD | T_BF16), SLOT_END};
static const struct slot where_9_in[] = {SLOT("condition", NULL, T_BOOL), SLOT("X", "T", T_ALL_OLD),
					 SLOT("Y", "T", T_ALL_OLD), SLOT_END};
static const struct slot where_out[] = {SLOT("output", "T", T_ALL_OLD | T_BF16), SLOT_END};
static const struct slot swiglu_in[] = {SLOT("A", "T", T_FLOATS_BF), SLOT("B", "T", T_FLOATS_BF),
					SLOT_END};
#define T_GATED (T_F32 | T_F16 | T_BF16)
static const struct slot gated_add_in[] = {SLOT("X", "T", T_GATED, .dims = "..."),
					   SLOT("Y", "T", T_GATED, .dims = "..."),
					   SLOT("gate", "T", T_GATED, .dims = "_... 1"), SLOT_END};
static const struct slot gated_add_out[] = {SLOT("output", "T", T_GATED), SLOT_END};
static const struct slot swiglu_out[] = {SLOT("Y", "T", T_FLOATS_BF), SLOT_END};
static const struct slot ms_bias_in[] = {SLOT("A", "T", T_FLOATS_BF, .dims = "_... C"),
					 SLOT("B", "T", T_FLOATS_BF, .dims = "C"), SLOT_END};
static const struct slot ms_fast_in[] = {SLOT("X", "T", T_FLOATS_BF, .dims = "_... C"),
					 SLOT_OPT("bias", "T", T_FLOATS_BF, .dims = "C"), SLOT_END};
static const struct slot ms_add_in[] = {SLOT("X", "T", T_FLOATS_BF, .dims = "N S C"),
					SLOT("bias", "T", T_FLOATS_BF, .dims = "C"),
					SLOT("skip", "T", T_FLOATS_BF, .dims = "N S C"), SLOT_END};

static const struct field mod_attrs[] = {
	FIELD(struct mod, fmod, F_INT, "0", "1: the result has the dividend's sign, as C's fmod"),
	{0}};
static const struct field shift_attrs[] = {{.name = "direction",
					    .type = F_ENUM,
					    .off = offsetof(struct bit_shift, direction),
					    .choices = "LEFT|RIGHT",
					    .flags = FIELD_REQUIRED,
					    .help = "direction"},
					   {0}};
static const struct field swiglu_attrs[] = {
	FIELD(struct alpha, alpha, F_FLOAT, "1", "factor in the sigmoid"), {0}};

/* ---- the broadcasting of opset 1 to 6 -------------------------------------------------------- */

struct old_broadcast {
	int64_t axis, broadcast;
	struct ints consumed_inputs;
};
static const struct field broadcast_6_attrs[] = {
	FIELD(struct old_broadcast, axis, F_INT, NULL, "where the second input's dimensions begin"),
	FIELD(struct old_broadcast, broadcast, F_INT, "0", "whether the second input repeats"),
	{0}};
static const struct field broadcast_1_attrs[] = {
	FIELD(struct old_broadcast, axis, F_INT, NULL, "where the second input's dimensions begin"),
	FIELD(struct old_broadcast, broadcast, F_INT, "0", "whether the second input repeats"),
	CONSUMED(struct old_broadcast),
	{0}};

/* Inserts an Unsqueeze that appends n dimensions of size 1 to input i, which has rank `rank`. */
static void append_ones(struct edit *e, uint32_t i, int rank, int n)
{
	int64_t axes[MAX_RANK];
	uint32_t in[2] = {e->node->in[i]};

	for (int k = 0; k < n; k++)
		axes[k] = rank + k;
	in[1] = edit_ints(e, axes, n);
	node_set_in(e->graph, e->node, i, edit_before(e, "Unsqueeze", in, 2, NULL));
}

/*
 * Below opset 7 the second input lined up with the dimensions of the first from `axis` on. Appending ones gives
 * the same alignment under the rules of today, which line up the last dimensions.
 */
static int upgrade_broadcast(struct edit *e)
{
	const struct old_broadcast *old = e->node->params;
	int ra = edit_rank(e, 0), rb = edit_rank(e, 1);
	int64_t axis = old->axis;

	edit_params(e);
	if (!old->broadcast || axis == INT_ABSENT)
		return 0;
	if (ra < 0 || rb < 0)
		return edit_fail(e, E_OP_UNSUPPORTED,
				 "inputs of known rank to broadcast along axis", "an unknown rank");
	if (axis < 0)
		axis += ra;
	if (axis < 0 || axis + rb > ra)
		return edit_fail(e, E_OP_ATTRIBUTE, fmt(e->diag, "axis within rank %d", ra),
				 fmt(e->diag, "%" PRId64, old->axis));
	if (axis + rb < ra)
		append_ones(e, 1, rb, ra - rb - (int)axis);
	return 0;
}

/*
 * Below opset 7 a slope of rank 1 had an element for each channel. Dimensions of size 1 are appended, so that it
 * still broadcasts this way.
 */
static int upgrade_prelu(struct edit *e)
{
	int rx = edit_rank(e, 0), rs = edit_rank(e, 1);

	edit_params(e);
	if (rx <= 2 || rs != 1)
		return 0;
	const struct shape *x = &node_in(e->graph, e->node, 0)->info.shape;
	const struct shape *s = &node_in(e->graph, e->node, 1)->info.shape;
	/*
	 * ONNX's test cases of these opsets have slopes that fit the last dimension instead; such a slope broadcasts
	 * without a change
	 */
	if (s->dim[0] > 1 && x->dim[1] >= 0 && x->dim[1] != s->dim[0])
		return 0;
	append_ones(e, 1, 1, rx - 2);
	return 0;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* The slope broadcasts to X, but X does not broadcast to the slope. */
static int infer_prelu(struct infer *c)
{
	struct shape x = infer_shape(c, 0), s = infer_shape(c, 1);

	if (!shape_broadcasts_to(&s, &x))
		return infer_fail(
			c, E_SHAPE, 1,
			fmt(c->diag, "a slope that broadcasts to %s", infer_shape_text(c, &x)),
			infer_shape_text(c, &s));
	return infer_same(c);
}

/* com.microsoft::GatedAdd: a row of the gate is one number for each row of X and Y. */
static int infer_gated_add(struct infer *c)
{
	struct shape x = infer_shape(c, 0), gate = infer_shape(c, 2);
	int64_t both;
	int err = 0;

	if (x.rank == 0)
		return infer_fail(c, E_SHAPE, 0, "rank 1 or more", "a scalar");
	if (x.rank > 0 && gate.rank >= 0 && gate.rank != x.rank)
		return infer_fail(c, E_SHAPE, 2, fmt(c->diag, "rank %d", x.rank),
				  fmt(c->diag, "rank %d", gate.rank));
	for (int i = 0; i < x.rank && gate.rank == x.rank && !err; i++)
		err = infer_unify(c, 2, i < x.rank - 1 ? x.dim[i] : 1, gate.dim[i], &both);
	infer_set(c, 0, infer_dtype(c, 0), &x);
	return err;
}

/* Where the shapes are not known to agree, the expansion would broadcast what the operator does not. */
static bool gated_add_expands(const struct graph *g, const struct node *n)
{
	const struct value *x = node_in(g, n, 0), *gate = node_in(g, n, 2);
	int rank = x ? x->info.shape.rank : -1;

	if (rank < 1 || !gate || gate->info.shape.rank != rank || !inputs_agree(g, n, 0, 1) ||
	    gate->info.shape.dim[rank - 1] != 1)
		return false;
	for (int i = 0; i < rank - 1; i++)
		if (x->info.shape.dim[i] == DIM_UNKNOWN ||
		    x->info.shape.dim[i] != gate->info.shape.dim[i])
			return false;
	return true;
}

static int infer_swiglu(struct infer *c)
{
	struct shape a = infer_shape(c, 0), b = infer_shape(c, 1);

	if (shape_known(&a) && shape_known(&b) && !shape_equal(&a, &b))
		return infer_fail(c, E_SHAPE, 1, "the shape of A", infer_shape_text(c, &b));
	return infer_same(c);
}

/* com.microsoft::BiasSplitGelu: with x [..., D] + bias [D] split in halves, Y [..., D/2] = left * gelu(right). */
static int infer_bias_split_gelu(struct infer *c)
{
	struct shape s = infer_shape(c, 0);

	if (s.rank > 0 && s.dim[s.rank - 1] >= 0)
		s.dim[s.rank - 1] /= 2;
	else if (s.rank > 0)
		s.dim[s.rank - 1] = DIM_UNKNOWN;
	infer_set(c, 0, infer_dtype(c, 0), &s);
	return 0;
}

/* ---- com.microsoft::SwiGLU, ComplexMul, ComplexMulConj ------------------------------------------ */

struct ms_swiglu {
	float limit, activation_alpha, activation_beta;
	int64_t round_activation;
};
static const struct slot ms_swiglu_in[] = {SLOT("gate", "T", T_F32 | T_F16 | T_BF16),
					   SLOT_OPT("up", "T", T_F32 | T_F16 | T_BF16), SLOT_END};
static const struct slot ms_swiglu_out[] = {SLOT("output", "T", T_F32 | T_F16 | T_BF16), SLOT_END};
static const struct field ms_swiglu_attrs[] = {
	FIELD(struct ms_swiglu, limit, F_FLOAT, "0", "bound of both halves; 0 or less: none"),
	FIELD(struct ms_swiglu, activation_alpha, F_FLOAT, "1", "factor in the sigmoid"),
	FIELD(struct ms_swiglu, activation_beta, F_FLOAT, "0", "is added to the linear half"),
	FIELD(struct ms_swiglu, round_activation, F_INT, "0",
	      "1: the activated gate is rounded before the product"),
	{0}};

static int ms_swiglu_infer(struct infer *c)
{
	struct shape y = infer_shape(c, 0), up = infer_shape(c, 1);

	if (infer_in(c, 1) && shape_known(&y) && shape_known(&up) && !shape_equal(&y, &up))
		return infer_fail(c, E_SHAPE, 1, "the shape of gate", infer_shape_text(c, &up));
	if (!infer_in(c, 1) &&
	    (y.rank == 0 || (y.rank > 0 && y.dim[y.rank - 1] >= 0 && y.dim[y.rank - 1] % 2)))
		return infer_fail(c, E_SHAPE, 0, "two halves in the last dimension",
				  infer_shape_text(c, &y));
	if (!infer_in(c, 1) && y.rank > 0)
		y.dim[y.rank - 1] = y.dim[y.rank - 1] >= 0 ? y.dim[y.rank - 1] / 2 : DIM_UNKNOWN;
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static const char *ms_swiglu_text(const struct graph *g, const struct node *n)
{
	const struct ms_swiglu *p = n->params;

	return arena_printf(
		g->arena,
		"%s; gate1 = Cast(half1) {to=1}; up1 = Cast(half2) {to=1}; %s"
		"activated = Swish(gate2) {alpha=$activation_alpha}; %s"
		"output = CastLike(Mul(rounded, Add(up2, $activation_beta)), gate)",
		node_in(g, n, 1) ? "half1 = gate; half2 = up"
				 : "half1, half2 = Split(gate) {axis=-1, num_outputs=2}",
		p->limit > 0
			? arena_printf(g->arena,
				       "gate2 = Min(gate1, $limit); up2 = Max(Min(up1, $limit), -%.9g); ",
				       (double)p->limit)
			: "gate2 = gate1; up2 = up1; ",
		p->round_activation ? "rounded = Cast(CastLike(activated, gate)) {to=1}; "
				    : "rounded = activated; ");
}

static const struct slot complex_in[] = {SLOT("A", "T", T_FLOATS, .dims = "_... 2"),
					 SLOT("B", "T", T_FLOATS, .dims = "_... 2"), SLOT_END};
static const struct slot complex_out[] = {SLOT("C", "T", T_FLOATS), SLOT_END};
#define COMPLEX(name_, real, imaginary)                                                                \
	{                                                                                              \
		.name = (name_), MICROSOFT, .in = complex_in, .out = complex_out,                      \
		.infer = infer_broadcast,                                                              \
		.expand = "ar, ai = Split(A, [1, 1]) {axis=-1}; br, bi = Split(B, [1, 1]) {axis=-1}; " \
			  "C = Concat(" real "(Mul(ar, br), Mul(ai, bi)), " imaginary                  \
			  "(Mul(ai, br), Mul(ar, bi))) {axis=-1}"                                      \
	}

/* ---- rows ------------------------------------------------------------------------------------ */

#define ARITH(name_, flags_, reduced_)                                                             \
	{.name = (name_),                                                                          \
	 .since = 14,                                                                              \
	 .in = ab,                                                                                 \
	 .out = out_c,                                                                             \
	 .types = T_NUMERIC_BF,                                                                    \
	 .infer = infer_broadcast,                                                                 \
	 .flags = OP_ELEMENTWISE | (flags_),                                                       \
	 .reduced = (reduced_)},                                                                   \
		OLD(name_, 13, T_FLOATS_BF | T_WIDE), OLD(name_, 7, T_FLOATS | T_WIDE),            \
		{.name = (name_),                                                                  \
		 .since = 6,                                                                       \
		 .in = ab,                                                                         \
		 .out = out_c,                                                                     \
		 .types = T_FLOATS | T_WIDE,                                                       \
		 ATTRS(broadcast_6_attrs, struct old_broadcast),                                   \
		 .upgrade = upgrade_broadcast},                                                    \
	{                                                                                          \
		.name = (name_), .since = 1, .in = ab, .out = out_c, .types = T_FLOATS,            \
		ATTRS(broadcast_1_attrs, struct old_broadcast), .upgrade = upgrade_broadcast       \
	}
#define COMPARE(name_, since_, types_, flags_)                                                     \
	{                                                                                          \
		.name = (name_), .since = (since_), .in = ab, .out = out_bool, .types = (types_),  \
		.infer = infer_broadcast_bool, .flags = OP_ELEMENTWISE | (flags_)                  \
	}
#define COMPARE_1(name_, types_)                                                                   \
	{                                                                                          \
		.name = (name_), .since = 1, .in = ab, .out = out_bool, .types = (types_),         \
		ATTRS(broadcast_6_attrs, struct old_broadcast), .upgrade = upgrade_broadcast       \
	}
#define MANY(name_, types_, variant_, reduced_)                                                    \
	{                                                                                          \
		.name = (name_), .since = 13, .in = data, .out = many_out, .types = (types_),      \
		.infer = infer_broadcast, .flags = OP_ELEMENTWISE | OP_COMMUTATIVE,                \
		.variant = (variant_), .reduced = (reduced_)                                       \
	}
#define MANY_OLD(name_)                                                                            \
	OLD(name_, 8, T_FLOATS), {.name = (name_), .since = 6, .in = same, .types = T_FLOATS},     \
	{                                                                                          \
		.name = (name_), .since = 1, .in = same, .out = many_out, .types = T_FLOATS,       \
		ATTRS(upgrade_consumed_attrs, struct no_params), .upgrade = upgrade_prefix         \
	}
#define BITWISE(name_)                                                                             \
	{                                                                                          \
		.name = (name_), .since = 18, .in = ab, .out = out_c, .types = T_INTS,             \
		.infer = infer_broadcast, .flags = OP_ELEMENTWISE | OP_COMMUTATIVE                 \
	}
#define GATED(name_, in_, infer_, reduced_)                                                        \
	{                                                                                          \
		.name = (name_), MICROSOFT, .in = (in_), .out = swiglu_out, .types = T_FLOATS_BF,  \
		.infer = (infer_), .flags = OP_ELEMENTWISE, .reduced = (reduced_)                  \
	}

const struct op ops_binary[] = {
	ARITH("Add", OP_COMMUTATIVE, REDUCED_COMPUTES),
	ARITH("Sub", 0, REDUCED_COMPUTES),
	ARITH("Mul", OP_COMMUTATIVE, REDUCED_COMPUTES),
	ARITH("Div", 0, REDUCED_NEVER),
	{.name = "Mod",
	 .since = 28,
	 .in = ab,
	 .out = out_c,
	 .types = T_NUMERIC_BF,
	 .infer = infer_broadcast,
	 .flags = OP_ELEMENTWISE,
	 ATTRS(mod_attrs, struct mod)},
	OLD("Mod", 13, T_NUMERIC_BF),
	OLD("Mod", 10, T_NUMERIC),
	{.name = "Pow",
	 .since = 15,
	 .in = pow_in,
	 .out = out_c,
	 .types = T_FLOATS_BF | T_I32 | T_I64,
	 .infer = infer_broadcast,
	 .flags = OP_ELEMENTWISE},
	{.name = "Pow", .since = 13, .in = pow_13_in, .types = T_FLOATS_BF | T_I32 | T_I64},
	{.name = "Pow", .since = 12, .in = pow_13_in, .types = T_FLOATS | T_I32 | T_I64},
	{.name = "Pow", .since = 7, .in = pow_7_in, .types = T_FLOATS},
	{.name = "Pow",
	 .since = 1,
	 .in = pow_7_in,
	 .out = out_c,
	 .types = T_FLOATS,
	 ATTRS(broadcast_6_attrs, struct old_broadcast),
	 .upgrade = upgrade_broadcast},
	MANY("Max", T_NUMERIC_BF, MANY_PLAIN, REDUCED_COMPUTES),
	OLD("Max", 12, T_NUMERIC),
	MANY_OLD("Max"),
	MANY("Min", T_NUMERIC_BF, MANY_PLAIN, REDUCED_COMPUTES),
	OLD("Min", 12, T_NUMERIC),
	MANY_OLD("Min"),
	MANY("Mean", T_FLOATS_BF, MANY_MEAN, REDUCED_NEVER),
	MANY_OLD("Mean"),
	MANY("Sum", T_FLOATS_BF, MANY_PLAIN, REDUCED_NEVER),
	MANY_OLD("Sum"),
	COMPARE("And", 7, T_BOOL, OP_COMMUTATIVE),
	COMPARE_1("And", T_BOOL),
	COMPARE("Or", 7, T_BOOL, OP_COMMUTATIVE),
	COMPARE_1("Or", T_BOOL),
	COMPARE("Xor", 7, T_BOOL, OP_COMMUTATIVE),
	COMPARE_1("Xor", T_BOOL),
	COMPARE("Equal", 19, T_NUMERIC_BF | T_BOOL | T_STRING, OP_COMMUTATIVE),
	OLD("Equal", 13, T_NUMERIC_BF | T_BOOL),
	OLD("Equal", 11, T_NUMERIC | T_BOOL),
	OLD("Equal", 7, T_BOOL | T_I32 | T_I64),
	COMPARE_1("Equal", T_BOOL | T_I32 | T_I64),
	COMPARE("Greater", 13, T_NUMERIC_BF, 0),
	OLD("Greater", 9, T_NUMERIC),
	OLD("Greater", 7, T_FLOATS),
	COMPARE_1("Greater", T_FLOATS),
	COMPARE("GreaterOrEqual", 16, T_NUMERIC_BF, 0),
	OLD("GreaterOrEqual", 12, T_NUMERIC),
	COMPARE("Less", 13, T_NUMERIC_BF, 0),
	OLD("Less", 9, T_NUMERIC),
	OLD("Less", 7, T_FLOATS),
	COMPARE_1("Less", T_FLOATS),
	COMPARE("LessOrEqual", 16, T_NUMERIC_BF, 0),
	OLD("LessOrEqual", 12, T_NUMERIC),
	{.name = "BitShift",
	 .since = 28,
	 .in = xy,
	 .out = out_z,
	 .types = T_INTS,
	 .infer = infer_broadcast,
	 .flags = OP_ELEMENTWISE,
	 ATTRS(shift_attrs, struct bit_shift)},
	OLD("BitShift", 11, T_UNSIGNED),
	BITWISE("BitwiseAnd"),
	BITWISE("BitwiseOr"),
	BITWISE("BitwiseXor"),
	{.name = "Where",
	 .since = 16,
	 .reduced = REDUCED_MOVES,
	 .in = where_in,
	 .out = where_out,
	 .infer = infer_broadcast,
	 .flags = OP_ELEMENTWISE},
	{.name = "Where", .since = 9, .in = where_9_in},
	{.name = "PRelu",
	 .since = 16,
	 .reduced = REDUCED_COMPUTES,
	 .in = prelu_in,
	 .out = prelu_out,
	 .types = T_FLOATS_BF | T_WIDE,
	 .infer = infer_prelu,
	 .flags = OP_ELEMENTWISE},
	OLD("PRelu", 9, T_FLOATS | T_WIDE),
	OLD("PRelu", 7, T_FLOATS),
	{.name = "PRelu",
	 .since = 6,
	 .in = prelu_in,
	 .out = prelu_out,
	 .types = T_FLOATS,
	 .upgrade = upgrade_prelu},
	{.name = "PRelu",
	 .since = 1,
	 .in = prelu_in,
	 .out = prelu_out,
	 .types = T_FLOATS,
	 ATTRS(upgrade_consumed_attrs, struct no_params),
	 .upgrade = upgrade_prelu},
	{.name = "GatedAdd",
	 MICROSOFT,
	 .in = gated_add_in,
	 .out = gated_add_out,
	 .infer = infer_gated_add,
	 .expand_when = gated_add_expands,
	 .expand = "output = Add(X, Mul(Y, gate))"},
	{.name = "SwiGLU",
	 .since = 28,
	 .in = swiglu_in,
	 .out = swiglu_out,
	 .types = T_FLOATS_BF,
	 .infer = infer_swiglu,
	 .flags = OP_ELEMENTWISE,
	 ATTRS(swiglu_attrs, struct alpha)},
	GATED("BiasGelu", ms_bias_in, infer_broadcast, REDUCED_COMPUTES),
	GATED("FastGelu", ms_fast_in, infer_broadcast, REDUCED_COMPUTES),
	GATED("BiasAdd", ms_add_in, infer_same, REDUCED_NEVER),
	{.name = "BiasSplitGelu",
	 MICROSOFT,
	 .in = ms_bias_in,
	 .out = swiglu_out,
	 .types = T_FLOATS_BF,
	 .infer = infer_bias_split_gelu},
	{.name = "SwiGLU",
	 MICROSOFT,
	 .in = ms_swiglu_in,
	 .out = ms_swiglu_out,
	 ATTRS(ms_swiglu_attrs, struct ms_swiglu),
	 .infer = ms_swiglu_infer,
	 .expand_as = ms_swiglu_text},
	COMPLEX("ComplexMul", "Sub", "Add"),
	COMPLEX("ComplexMulConj", "Add", "Sub"),
	{0}};
