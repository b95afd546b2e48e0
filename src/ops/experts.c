/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/experts.h"

#include "ops/infer_util.h"

#include <inttypes.h>

struct expert_inputs expert_inputs(const struct op *op, int fc)
{
	static const uint32_t none = EXPERTS_NONE;
	static const struct expert_inputs plain[] = {{2, 3, none, none, none},
						     {4, 5, none, none, none},
						     {6, 7, none, none, none}},
					  quantized[] = {{2, 4, 3, 11, 15},
							 {5, 7, 6, 12, 16},
							 {8, 10, 9, 13, none}};

	return op->variant == EXPERTS_QUANTIZED ? quantized[fc] : plain[fc];
}

static int64_t divided(int64_t a, int64_t b)
{
	return a < 0 ? DIM_UNKNOWN : a / b + (a % b != 0);
}

static int64_t dim_of(const struct infer *c, uint32_t i, int axis)
{
	struct shape s = infer_shape(c, i);

	return axis < s.rank ? s.dim[axis] : DIM_UNKNOWN;
}

static int check_attributes(const struct infer *c)
{
	const struct experts *p = infer_params(c);
	int64_t experts = dim_of(c, EXPERTS_ROUTER, 1);

	if (p->k < 1 || (experts >= 0 && p->k > experts))
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  experts >= 0 ? fmt(c->diag, "k from 1 to %" PRId64, experts)
					       : "k of 1 or more",
				  fmt(c->diag, "%" PRId64, p->k));
	if (p->use_sparse_mixer && p->k != 2)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "k of 2 with use_sparse_mixer",
				  fmt(c->diag, "%" PRId64, p->k));
	if (p->swiglu_limit_after_activation)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "swiglu_limit_after_activation of 0",
				  fmt(c->diag, "%" PRId64, p->swiglu_limit_after_activation));
	if (p->swiglu_fusion < SWIGLU_APART || p->swiglu_fusion > SWIGLU_HALVES)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "swiglu_fusion of 0, 1 or 2",
				  fmt(c->diag, "%" PRId64, p->swiglu_fusion));
	return 0;
}

/* fc3 is the linear part of a gated first layer: SwiGLU needs it in fc1 or in fc3, and cannot have it in both. */
static int check_gate(const struct infer *c, uint32_t fc3)
{
	const struct experts *p = infer_params(c);
	bool swiglu = p->activation_type == EXPERT_SWIGLU, fused = swiglu && p->swiglu_fusion;

	if (swiglu && !fused && !infer_in(c, fc3))
		return infer_fail(c, E_OP_INPUTS, (int)fc3,
				  "the linear part of SwiGLU, as swiglu_fusion is 0", "none");
	if (fused && infer_in(c, fc3))
		return infer_fail(c, E_OP_INPUTS, (int)fc3,
				  "none, as the linear part of SwiGLU is in fc1", "a tensor");
	return 0;
}

/* Checks that dimension `axis` of input i, if there is one, has this size. */
static int check_dim(const struct infer *c, uint32_t i, int axis, int64_t size)
{
	int64_t same;

	if (i == EXPERTS_NONE || !infer_in(c, i))
		return 0;
	return infer_unify(c, (int)i, size, dim_of(c, i, axis), &same);
}

/* Rows of a layer's weights. */
static int64_t rows_of(const struct infer *c, uint32_t weights)
{
	return expert_fp4_block(infer_params(c)) ? known_product(dim_of(c, weights, 2), 2)
						 : dim_of(c, weights, 1);
}

/*
 * Sizes that inputs share are compared by the row; these are the products and quotients of sizes that a row cannot express.
 * Sets the output and *inter.
 */
static int check_sizes(struct infer *c, int64_t *inter)
{
	const struct experts *p = infer_params(c);
	struct shape x = infer_shape(c, EXPERTS_X);
	bool fused = p->activation_type == EXPERT_SWIGLU && p->swiglu_fusion;
	int64_t rows = rows_of(c, expert_inputs(c->node->op, FC1).weights), tokens = DIM_UNKNOWN,
		same;

	if (fused && rows >= 0 && rows % 2)
		return infer_fail(c, E_SHAPE, (int)expert_inputs(c->node->op, FC1).weights,
				  "an even number of rows, for gate and linear part",
				  fmt(c->diag, "%" PRId64, rows));
	*inter = rows >= 0 && fused ? rows / 2 : rows;
	if (x.rank == 2)
		tokens = x.dim[0];
	else if (x.rank == 3)
		tokens = known_product(x.dim[0], x.dim[1]);
	infer_set(c, 0, infer_dtype(c, EXPERTS_X), &x);
	return infer_unify(c, EXPERTS_ROUTER, tokens, dim_of(c, EXPERTS_ROUTER, 0), &same);
}

static int moe_infer(struct infer *c)
{
	struct expert_inputs fc2 = expert_inputs(c->node->op, FC2),
			     fc3 = expert_inputs(c->node->op, FC3);
	int64_t inter;
	int err;

	if ((err = check_attributes(c)) || (err = check_gate(c, fc3.weights)) ||
	    (err = check_sizes(c, &inter)) || (err = check_dim(c, fc2.weights, 2, inter)))
		return err;
	return check_dim(c, fc3.weights, 1, inter);
}

static int check_quantization(const struct infer *c)
{
	const struct experts *p = infer_params(c);
	int64_t block = p->block_size;

	for (int fc = FC1; fc < EXPERT_LAYERS && p->quant_type == EXPERT_INT; fc++) {
		int64_t bits = expert_bits(p, fc);
		if (bits != 2 && bits != 4 && bits != 8)
			return infer_fail(c, E_OP_ATTRIBUTE, -1, "expert_weight_bits of 2, 4 or 8",
					  fmt(c->diag, "%" PRId64, bits));
	}
	if (p->activation_type == EXPERT_SWIGLU && p->swiglu_fusion && p->fc3_expert_weight_bits &&
	    p->fc3_expert_weight_bits != expert_bits(p, FC1))
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "fc3_expert_weight_bits as those of fc1, in which fc3 is",
				  fmt(c->diag, "%" PRId64, p->fc3_expert_weight_bits));
	if (p->quant_type == EXPERT_INT && block && (block < 16 || (block & (block - 1))))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "block_size a power of two from 16",
				  fmt(c->diag, "%" PRId64, block));
	if (p->weights_prepacked < -1 || p->weights_prepacked > 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "weights_prepacked of -1, 0 or 1",
				  fmt(c->diag, "%" PRId64, p->weights_prepacked));
	return 0;
}

/* The scales of a layer's weights must be given, in one of the types that compute. */
static int check_scale_type(const struct infer *c, const struct expert_inputs *i)
{
	if (!infer_in(c, i->scales))
		return infer_fail(c, E_OP_INPUTS, (int)i->scales, "the scales of the weights", "none");
	if (!(T_BIT(infer_dtype(c, i->scales)) & (T_F32 | T_F16 | T_BF16 | T_BIT(DT_NONE))))
		return infer_fail(c, E_TYPE, (int)i->scales, "float, float16 or bfloat16",
				  dtype_name(infer_dtype(c, i->scales)));
	return 0;
}

/*
 * Checks a layer of `in` inputs whose weights are integers: the sizes of the weights, and of the scales and zero points, of which
 * there is one for each row or for each block of a row.
 */
static int check_codes(const struct infer *c, int fc, int64_t in)
{
	const struct experts *p = infer_params(c);
	struct expert_inputs i = expert_inputs(c->node->op, fc);
	int64_t per = 8 / expert_bits(p, fc), rows = dim_of(c, i.weights, 1);
	int rank = p->block_size ? 3 : 2, err;

	if (!infer_in(c, i.weights))
		return 0;
	if (infer_dtype(c, i.weights) != DT_U8)
		return infer_fail(c, E_TYPE, (int)i.weights, "uint8, as quant_type is int",
				  dtype_name(infer_dtype(c, i.weights)));
	if (in >= 0 && (in % per || (p->block_size && in % p->block_size)))
		return infer_fail(c, E_SHAPE, (int)i.weights,
				  fmt(c->diag, "rows of a multiple of %" PRId64 " weights",
				      p->block_size ? p->block_size : per),
				  fmt(c->diag, "%" PRId64, in));
	if ((err = check_scale_type(c, &i)))
		return err;
	for (uint32_t k = 0; k < 2; k++) {
		uint32_t slot = k ? i.zeros : i.scales;
		struct shape s = infer_shape(c, slot);
		if (infer_in(c, slot) && s.rank >= 0 && s.rank != rank)
			return infer_fail(c, E_SHAPE, (int)slot,
					  p->block_size ? "rank 3, as there is a block_size"
							: "rank 2, as there is no block_size",
					  fmt(c->diag, "rank %d", s.rank));
	}
	if ((err = check_dim(c, i.weights, 2, in < 0 ? in : in / per)) ||
	    (err = check_dim(c, i.scales, 1, rows)))
		return err;
	if (!p->block_size)
		return check_dim(c, i.zeros, 1, divided(rows, per));
	int64_t blocks = divided(in, p->block_size);
	if ((err = check_dim(c, i.scales, 2, blocks)) || (err = check_dim(c, i.zeros, 1, rows)))
		return err;
	return check_dim(c, i.zeros, 2, divided(blocks, per));
}

/* FP8 weights of rows of `in` have one scale an expert, or one a square of block_size. */
static int check_fp8(const struct infer *c, int fc, int64_t in)
{
	const struct experts *p = infer_params(c);
	struct expert_inputs i = expert_inputs(c->node->op, fc);
	int64_t block = p->block_size;
	int err;

	if (!infer_in(c, i.weights))
		return 0;
	if (infer_dtype(c, i.weights) != DT_F8E4M3FN)
		return infer_fail(c, E_TYPE, (int)i.weights, "float8e4m3fn, as quant_type is fp8",
				  dtype_name(infer_dtype(c, i.weights)));
	if (infer_in(c, i.zeros))
		return infer_fail(c, E_OP_INPUTS, (int)i.zeros, "none, as quant_type is fp8",
				  "a tensor");
	if ((err = check_dim(c, i.weights, 2, in)))
		return err;
	if (!expert_squares(p))
		return i.global == EXPERTS_NONE || infer_in(c, i.global)
			       ? 0
			       : infer_fail(c, E_OP_INPUTS, (int)i.global,
					    "the scales of the experts", "none");
	struct shape s = infer_shape(c, i.scales);
	if (i.global != EXPERTS_NONE && infer_in(c, i.global))
		return infer_fail(c, E_OP_INPUTS, (int)i.global, "none, as there is a block_size",
				  "a tensor");
	if ((err = check_scale_type(c, &i)))
		return err;
	if (s.rank >= 0 && s.rank != 3)
		return infer_fail(c, E_SHAPE, (int)i.scales, "rank 3, as there is a block_size",
				  fmt(c->diag, "rank %d", s.rank));
	err = check_dim(c, i.scales, 1, divided(dim_of(c, i.weights, 1), block));
	return err ? err : check_dim(c, i.scales, 2, divided(in, block));
}

/* FP4 weights of rows of `in`: two rows lie in a byte. */
static int check_fp4(const struct infer *c, int fc, int64_t in)
{
	const struct experts *p = infer_params(c);
	struct expert_inputs i = expert_inputs(c->node->op, fc);
	int64_t block = expert_fp4_block(p), rows = rows_of(c, i.weights);
	enum dtype want = p->quant_type == EXPERT_FP4 ? DT_F8E8M0 : DT_F8E4M3FN;
	struct shape s = infer_shape(c, i.scales);
	int err;

	if (!infer_in(c, i.weights))
		return 0;
	if (infer_dtype(c, i.weights) != DT_U8)
		return infer_fail(c, E_TYPE, (int)i.weights, "uint8, two codes a byte",
				  dtype_name(infer_dtype(c, i.weights)));
	if (infer_in(c, i.zeros))
		return infer_fail(c, E_OP_INPUTS, (int)i.zeros, "none, as the weights are numbers",
				  "a tensor");
	if (!infer_in(c, i.scales))
		return infer_fail(c, E_OP_INPUTS, (int)i.scales, "the scales of the weights", "none");
	if (infer_dtype(c, i.scales) != want)
		return infer_fail(c, E_TYPE, (int)i.scales, dtype_name(want),
				  dtype_name(infer_dtype(c, i.scales)));
	if (i.global != EXPERTS_NONE && !infer_in(c, i.global))
		return infer_fail(c, E_OP_INPUTS, (int)i.global, "the scales of the experts", "none");
	if (in >= 0 && in % block)
		return infer_fail(c, E_SHAPE, (int)i.weights,
				  fmt(c->diag, "rows of a multiple of %" PRId64 " weights", block),
				  fmt(c->diag, "%" PRId64, in));
	if (s.rank >= 0 && s.rank != 3)
		return infer_fail(c, E_SHAPE, (int)i.scales, "rank 3",
				  fmt(c->diag, "rank %d", s.rank));
	if ((err = check_dim(c, i.weights, 1, in)) || (err = check_dim(c, i.scales, 1, rows)))
		return err;
	return check_dim(c, i.scales, 2, divided(in, block));
}

/* fc2 has a row for each element of the hidden size, fc3 for each of the inter size; a bias has a number for each row. */
static int check_rows(const struct infer *c, int fc, int64_t want)
{
	struct expert_inputs i = expert_inputs(c->node->op, fc);
	int64_t rows = rows_of(c, i.weights), same;
	int err = fc == FC1 || !infer_in(c, i.weights)
			  ? 0
			  : infer_unify(c, (int)i.weights, want, rows, &same);

	return err ? err : check_dim(c, i.bias, 1, rows);
}

static int qmoe_infer(struct infer *c)
{
	const struct experts *p = infer_params(c);
	int64_t inter, hidden = DIM_UNKNOWN;
	struct shape x = infer_shape(c, EXPERTS_X);
	int err;

	if ((err = check_attributes(c)) || (err = check_quantization(c)) ||
	    (err = check_gate(c, expert_inputs(c->node->op, FC3).weights)) ||
	    (err = check_sizes(c, &inter)))
		return err;
	if (x.rank > 0)
		hidden = x.dim[x.rank - 1];
	for (int fc = FC1; fc < EXPERT_LAYERS && !err; fc++) {
		int64_t in = fc == FC2 ? inter : hidden;
		if (p->quant_type == EXPERT_INT)
			err = check_codes(c, fc, in);
		else if (p->quant_type == EXPERT_FP8)
			err = check_fp8(c, fc, in);
		else if (expert_fp4_block(p))
			err = check_fp4(c, fc, in);
		if (!err && p->quant_type != EXPERT_WFP4AFP8)
			err = check_rows(c, fc, fc == FC2 ? hidden : inter);
	}
	return err;
}

/* Each token passes k experts. */
static int64_t experts_macs(const struct infer *c)
{
	const struct experts *p = infer_params(c);
	uint32_t fc1 = expert_inputs(c->node->op, FC1).weights,
		 fc3 = expert_inputs(c->node->op, FC3).weights;
	struct shape x = infer_shape(c, EXPERTS_X), router = infer_shape(c, EXPERTS_ROUTER),
		     w = infer_shape(c, fc1);
	struct expert_sizes z = expert_sizes(&x, &router, &w, p);
	int64_t rows = z.wide + z.inter + (infer_in(c, fc3) ? z.inter : 0);

	return known_product(known_product(known_product(z.tokens, p->k), z.hidden), rows);
}

/* ---- rows -------------------------------------------------------------------------------------- */

#define NF (T_F32 | T_F16 | T_BF16)
static const struct slot moe_in[] = {
	SLOT("input", "T", NF, .dims = "_ H | _ _ H"),
	SLOT("router_probs", "T", NF, .dims = "_ E"),
	SLOT("fc1_experts_weights", "T", NF, .dims = "E G H"),
	SLOT_OPT("fc1_experts_bias", "T", NF, .dims = "E G"),
	SLOT("fc2_experts_weights", "T", NF, .dims = "E H I"),
	SLOT_OPT("fc2_experts_bias", "T", NF, .dims = "E H"),
	SLOT_OPT("fc3_experts_weights", "T", NF, .dims = "E I H"),
	SLOT_OPT("fc3_experts_bias", "T", NF, .dims = "E I", .with = "fc3_experts_weights"),
	SLOT_END};
#define CODES (T_U8 | T_BIT(DT_F8E4M3FN))
#define SCALE (NF | T_F8E8M0 | T_BIT(DT_F8E4M3FN))
static const struct slot qmoe_in[] = {
	SLOT("input", "T", NF, .dims = "_ H | _ _ H"),
	SLOT("router_probs", "T", NF, .dims = "T E"),
	SLOT("fc1_experts_weights", "T1", CODES, .dims = "E _ _"),
	SLOT_OPT("fc1_scales", "T2", SCALE, .dims = "E _ | E _ _"),
	SLOT_OPT("fc1_experts_bias", "T", NF, .dims = "E _"),
	SLOT("fc2_experts_weights", "T1", CODES, .dims = "E _ _"),
	SLOT_OPT("fc2_scales", "T2", SCALE, .dims = "E _ | E _ _"),
	SLOT_OPT("fc2_experts_bias", "T", NF, .dims = "E H"),
	SLOT_OPT("fc3_experts_weights", "T1", CODES, .dims = "E _ _"),
	SLOT_OPT("fc3_scales", "T2", SCALE, .dims = "E _ | E _ _", .with = "fc3_experts_weights"),
	SLOT_OPT("fc3_experts_bias", "T", NF, .dims = "E _", .with = "fc3_experts_weights"),
	SLOT_OPT("fc1_zero_points", "T1", CODES, .dims = "E _ | E _ _"),
	SLOT_OPT("fc2_zero_points", "T1", CODES, .dims = "E _ | E _ _"),
	SLOT_OPT("fc3_zero_points", "T1", CODES, .dims = "E _ | E _ _", .with = "fc3_experts_weights"),
	SLOT_OPT("router_weights", "T", NF, .dims = "T E"),
	SLOT_OPT("fc1_global_scale", "T4", T_F32, .dims = "E"),
	SLOT_OPT("fc2_global_scale", "T4", T_F32, .dims = "E"),
	SLOT_OPT("fc1_act_scale", "T4", T_F32, .dims = "1 | E"),
	SLOT_OPT("fc2_act_scale", "T4", T_F32, .dims = "1 | E"),
	SLOT_OPT("fc1_act_block_scale", "T2", SCALE, .dims = "_ _ _"),
	SLOT_OPT("fc2_act_block_scale", "T2", SCALE, .dims = "_ _ _"),
	SLOT_END};
static const struct slot experts_out[] = {SLOT("output", "T", NF), SLOT_END};

#define EXPERTS_FIELDS                                                                             \
	FIELD(struct experts, k, F_INT, "1", "experts of a token"),                                \
		FIELD(struct experts, normalize_routing_weights, F_INT, "0",                       \
		      "1: the weights of a token's experts add up to 1"),                          \
		FIELD(struct experts, swiglu_fusion, F_INT, "0",                                   \
		      "linear part of SwiGLU; 0: fc3, 1: fc1, in turn, 2: fc1, second half"),      \
		FIELD(struct experts, use_sparse_mixer, F_INT, "0",                                \
		      "1: each choice is weighted among the logits near it"),                      \
		FIELD(struct experts, activation_alpha, F_FLOAT, "1", "of SwiGLU's sigmoid"),      \
		FIELD(struct experts, activation_beta, F_FLOAT, "0",                               \
		      "added to SwiGLU's linear part"),                                            \
		FIELD(struct experts, swiglu_limit, F_FLOAT, NULL, "bound of SwiGLU's parts"),     \
		FIELD(struct experts, swiglu_limit_after_activation, F_INT, "0",                   \
		      "0: the gate is bound before its activation"),                               \
		FIELD_ENUM(struct experts, activation_type, "relu",                                \
			   "relu|gelu|silu|swiglu|identity", "behind the first layer")
static const struct field moe_attrs[] = {EXPERTS_FIELDS, {0}};
static const struct field qmoe_attrs[] = {
	EXPERTS_FIELDS,
	FIELD(struct experts, expert_weight_bits, F_INT, "4", "bits of a weight"),
	FIELD(struct experts, fc1_expert_weight_bits, F_INT, "0", "of fc1; 0: as the others"),
	FIELD(struct experts, fc2_expert_weight_bits, F_INT, "0", "of fc2; 0: as the others"),
	FIELD(struct experts, fc3_expert_weight_bits, F_INT, "0", "of fc3; 0: as the others"),
	FIELD(struct experts, block_size, F_INT, "0", "weights that share a scale; 0: a row"),
	FIELD(struct experts, accuracy_level, F_INT, "0", "a hint"),
	FIELD(struct experts, weights_prepacked, F_INT, "-1",
	      "0 or -1: weights lie as their shape says"),
	FIELD_ENUM(struct experts, quant_type, "int", "int|fp4|nvfp4|fp8|wfp4afp8",
		   "format of the weights"),
	{0}};

const struct op ops_experts[] = {{.name = "MoE",
				  MICROSOFT,
				  .in = moe_in,
				  .out = experts_out,
				  ATTRS(moe_attrs, struct experts),
				  .infer = moe_infer,
				  .macs = experts_macs},
				 {.name = "QMoE",
				  MICROSOFT,
				  .variant = EXPERTS_QUANTIZED,
				  .in = qmoe_in,
				  .out = experts_out,
				  ATTRS(qmoe_attrs, struct experts),
				  .infer = qmoe_infer,
				  .macs = experts_macs},
				 {0}};
