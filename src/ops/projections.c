/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft's operators that are several products of one input: projections of attention and of gated layers. */
#include "ops/infer_util.h"

#include <inttypes.h>
#include <string.h>

#define NF (T_F32 | T_F16 | T_BF16)

struct nbits_group {
	int64_t K, N, Nq, Nkv, bits, block_size, accuracy_level, lora_bits, lora_block_size;
	float epsilon;
	const char *activation;
};
struct router_gate_up {
	int64_t router_size;
	float limit, activation_alpha, activation_beta;
	const char *activation;
};

/* Output k has the shape of input 0 with a last dimension of n. */
static void set_projected(struct infer *c, uint32_t k, int64_t n)
{
	struct shape y = infer_shape(c, 0);

	if (y.rank > 0)
		y.dim[y.rank - 1] = n;
	infer_set(c, k, infer_dtype(c, 0), &y);
}

static int check_activation(const struct infer *c, const char *is, const char *want)
{
	if (is && !strcmp(is, want))
		return 0;
	return infer_fail(c, E_OP_UNSUPPORTED, -1, fmt(c->diag, "the activation %s", want), is);
}

/* ---- MatMulNBitsMlp, MatMulNBitsQkv --------------------------------------------------------------- */

enum { GROUP_A, GROUP_SKIP, GROUP_SCALE };

static int group_infer(struct infer *c, uint32_t sum)
{
	struct shape x = infer_shape(c, GROUP_A), skip = infer_shape(c, GROUP_SKIP);

	if (infer_in(c, GROUP_SKIP) && !infer_in(c, GROUP_SCALE))
		return infer_fail(c, E_OP_INPUTS, GROUP_SCALE, "norm_scale, as skip is given", "none");
	if (infer_out(c, sum) && !infer_in(c, GROUP_SKIP))
		return infer_fail(c, E_OP_INPUTS, GROUP_SKIP,
				  "skip, whose sum with A is the output input_skip_bias_sum", "none");
	if (shape_known(&x) && shape_known(&skip) && !shape_equal(&x, &skip))
		return infer_fail(c, E_SHAPE, GROUP_SKIP, "the shape of A",
				  infer_shape_text(c, &skip));
	infer_set(c, sum, infer_dtype(c, 0), &x);
	return 0;
}

static int mlp_infer(struct infer *c)
{
	const struct nbits_group *p = infer_params(c);
	int err = check_activation(c, p->activation, "silu");

	if (!err)
		err = group_infer(c, 1);
	set_projected(c, 0, p->N);
	return err;
}

static int qkv_infer(struct infer *c)
{
	const struct nbits_group *p = infer_params(c);

	set_projected(c, 0, p->Nq);
	set_projected(c, 1, p->Nkv);
	set_projected(c, 2, p->Nkv);
	return group_infer(c, 3);
}

/* The norm before the projections, whose input is x, in text. */
static const char *norm_text(const struct graph *g, const struct node *n)
{
	if (!node_in(g, n, GROUP_SCALE))
		return "x = A";
	return node_in(g, n, GROUP_SKIP)
		       ? "x, unused1, unused2, input_skip_bias_sum = com.microsoft::SkipSimplifiedLayerNormalization"
			 "(A, skip, norm_scale) {epsilon=$epsilon}"
		       : "x = SimplifiedLayerNormalization(A, norm_scale) {axis=-1, epsilon=$epsilon}";
}

#define PRODUCT(y, which, n)                                                                       \
	y " = com.microsoft::MatMulNBits(x, " which "_B, " which "_scales, _, _, " which           \
	  "_bias?) {K=$K, N=" n ", bits=$bits, block_size=$block_size, "                           \
	  "accuracy_level=$accuracy_level}"

static const char *mlp_text(const struct graph *g, const struct node *n)
{
	return arena_printf(g->arena, "%s; %s; %s; Y = Mul(Mul(gate, Sigmoid(gate)), up)",
			    norm_text(g, n), PRODUCT("gate", "gate", "$N"),
			    PRODUCT("up", "up", "$N"));
}

static const char *qkv_text(const struct graph *g, const struct node *n)
{
	return arena_printf(g->arena, "%s; %s; %s; %s", norm_text(g, n), PRODUCT("Q", "q", "$Nq"),
			    PRODUCT("K", "k", "$Nkv"), PRODUCT("V", "v", "$Nkv"));
}

/* ---- MatMulNBitsQLoRA ----------------------------------------------------------------------------- */

enum { LORA_X, LORA_W, LORA_SCALES, LORA_A, LORA_A_SCALES, LORA_B, LORA_B_SCALES };

static int lora_infer(struct infer *c)
{
	const struct nbits_group *p = infer_params(c);
	struct shape down = infer_shape(c, LORA_A_SCALES);

	if (down.rank == 2 && down.dim[0] == 0)
		return infer_fail(c, E_SHAPE, LORA_A_SCALES, "an adapter of rank 1 or more",
				  infer_shape_text(c, &down));
	if (c->concrete && down.rank != 2)
		return infer_fail(c, E_SHAPE, LORA_A_SCALES, "rank 2", NULL);
	set_projected(c, 0, p->N);
	return 0;
}

static bool is_empty(const struct graph *g, const struct node *n, uint32_t i)
{
	return shape_count(&node_in(g, n, i)->info.shape) == 0;
}

/* An adapter without weights adds nothing. */
static const char *lora_text(const struct graph *g, const struct node *n)
{
	const struct shape *down = &node_in(g, n, LORA_A_SCALES)->info.shape;
	const char *base = "base = com.microsoft::MatMulNBits(X, W, scales) {K=$K, N=$N, bits=$bits, "
			   "block_size=$block_size, accuracy_level=$accuracy_level}";

	if (down->rank != 2 || down->dim[0] < 0)
		return NULL;
	if (is_empty(g, n, LORA_A) || is_empty(g, n, LORA_B))
		return arena_printf(g->arena, "%s; Y = base", base);
	return arena_printf(
		g->arena,
		"%s; low = com.microsoft::MatMulNBits(X, lora_A, lora_A_scales) {K=$K, N=%" PRId64
		", bits=$lora_bits, block_size=$lora_block_size, accuracy_level=$accuracy_level}; "
		"high = com.microsoft::MatMulNBits(low, lora_B, lora_B_scales) {K=%" PRId64
		", N=$N, bits=$lora_bits, block_size=$lora_block_size}; Y = Add(base, high)",
		base, down->dim[0], down->dim[0]);
}

/* ---- RouterGateUpProj ----------------------------------------------------------------------------- */

static int router_gate_infer(struct infer *c)
{
	const struct router_gate_up *p = infer_params(c);
	struct shape w = infer_shape(c, 1);
	int64_t rest = w.rank == 2 && w.dim[1] >= 0 ? w.dim[1] - p->router_size : DIM_UNKNOWN;
	int err = check_activation(c, p->activation, "swiglu");

	if (err)
		return err;
	if (p->router_size < 1 || (w.rank == 2 && w.dim[1] >= 0 && (rest < 0 || rest % 2)))
		return infer_fail(
			c, E_OP_ATTRIBUTE, -1,
			"a router_size of at least 1 that leaves two halves of the columns of W",
			fmt(c->diag, "%" PRId64, p->router_size));
	set_projected(c, 0, p->router_size);
	set_projected(c, 1, rest >= 0 ? rest / 2 : DIM_UNKNOWN);
	return 0;
}

static const char *router_gate_text(const struct graph *g, const struct node *n)
{
	int64_t size = ((const struct router_gate_up *)n->params)->router_size;

	return arena_printf(g->arena,
			    "p = MatMul(X, W); router, both = Split(p, Concat([%" PRId64
			    "], Sub(Shape(p) {start=-1}, [%" PRId64 "])) {axis=0}) {axis=-1}; "
			    "activated = com.microsoft::SwiGLU(both) {limit=$limit, "
			    "activation_alpha=$activation_alpha, activation_beta=$activation_beta}",
			    size, size);
}

/* ---- rows ------------------------------------------------------------------------------------------- */

#define WEIGHTS(which, n)                                                                          \
	SLOT(which "_B", "T2", T_U8, .dims = n " _ _"),                                            \
		SLOT(which "_scales", "T1", NF, .dims = "_ | " n " _"),                            \
		SLOT_OPT(which "_bias", "T1", NF, .dims = n)
#define A_AND_SKIP SLOT("A", "T1", NF, .dims = "_... $K"), SLOT_OPT("skip", "T1", NF)
static const struct slot mlp_in[] = {A_AND_SKIP, SLOT_OPT("norm_scale", "T1", NF, .dims = "$K"),
				     WEIGHTS("gate", "$N"), WEIGHTS("up", "$N"), SLOT_END};
static const struct slot mlp_out[] = {SLOT("Y", "T1", NF),
				      SLOT_OPT("input_skip_bias_sum", "T1", NF), SLOT_END};
static const struct slot qkv_in[] = {
	A_AND_SKIP,	      SLOT("norm_scale", "T1", NF, .dims = "$K"),
	WEIGHTS("q", "$Nq"),  WEIGHTS("k", "$Nkv"),
	WEIGHTS("v", "$Nkv"), SLOT_END};
static const struct slot qkv_out[] = {SLOT("Q", "T1", NF), SLOT("K", "T1", NF), SLOT("V", "T1", NF),
				      SLOT_OPT("input_skip_bias_sum", "T1", NF), SLOT_END};
static const struct slot lora_in[] = {SLOT("X", "T1", T_F32 | T_F16, .dims = "_... $K"),
				      SLOT("W", "T2", T_U8, .dims = "$N _ _"),
				      SLOT("scales", "T1", T_F32 | T_F16, .dims = "_ | $N _"),
				      SLOT("lora_A", "T2", T_U8, .dims = "_ _ _"),
				      SLOT("lora_A_scales", "T1", T_F32 | T_F16, .dims = "_ _"),
				      SLOT("lora_B", "T2", T_U8, .dims = "$N _ _"),
				      SLOT("lora_B_scales", "T1", T_F32 | T_F16, .dims = "$N _"),
				      SLOT_END};
static const struct slot lora_out[] = {SLOT("Y", "T1", T_F32 | T_F16), SLOT_END};
static const struct slot router_gate_in[] = {SLOT("X", "T", NF, .dims = "_... K"),
					     SLOT("W", "T", NF, .dims = "K _"), SLOT_END};
static const struct slot router_gate_out[] = {SLOT("router", "T", NF), SLOT("activated", "T", NF),
					      SLOT_END};
#define G struct nbits_group
#define GROUP_FIELDS(block)                                                                        \
	FIELD_REQ(G, K, F_INT, "columns of A"), FIELD(G, bits, F_INT, "4", "bits of a weight"),    \
		block, FIELD(G, accuracy_level, F_INT, "0", "a hint that is not needed")
#define BLOCK	FIELD_REQ(G, block_size, F_INT, "weights that share a scale")
#define EPSILON FIELD(G, epsilon, F_FLOAT, "1e-05", "keeps the root of the norm from zero")
static const struct field mlp_attrs[] = {GROUP_FIELDS(BLOCK),
					 FIELD_REQ(G, N, F_INT, "rows of either weight"),
					 EPSILON,
					 FIELD_REQ(G, activation, F_STRING, "of the gate: silu"),
					 {0}};
static const struct field qkv_attrs[] = {
	GROUP_FIELDS(BLOCK),
	FIELD_REQ(G, Nq, F_INT, "rows of the weight of Q"),
	FIELD_REQ(G, Nkv, F_INT, "rows of the weights of K and V"),
	FIELD(G, epsilon, F_FLOAT, "1e-06", "keeps the root of the norm from zero"),
	{0}};
static const struct field lora_attrs[] = {
	GROUP_FIELDS(FIELD(G, block_size, F_INT, "32", "weights that share a scale")),
	FIELD_REQ(G, N, F_INT, "rows of W"),
	FIELD(G, lora_bits, F_INT, "8", "bits of a weight of the adapter"),
	FIELD(G, lora_block_size, F_INT, "32", "its weights that share a scale"),
	{0}};
static const struct field router_gate_attrs[] = {
	FIELD_REQ(struct router_gate_up, router_size, F_INT, "first columns of W, of the router"),
	FIELD(struct router_gate_up, limit, F_FLOAT, "0", "bound of both halves; 0: none"),
	FIELD(struct router_gate_up, activation_alpha, F_FLOAT, "1", "factor in the sigmoid"),
	FIELD(struct router_gate_up, activation_beta, F_FLOAT, "0", "is added to the linear half"),
	FIELD(struct router_gate_up, activation, F_STRING, "swiglu", "of the halves: swiglu"),
	{0}};

#define ROW(name_, how, type)                                                                      \
	{                                                                                          \
		.name = (name_), MICROSOFT, .in = how##_in, .out = how##_out,                      \
		ATTRS(how##_attrs, type), .infer = how##_infer, .expand_as = how##_text,           \
		.flags = OP_PRODUCT                                                                \
	}
const struct op ops_projections[] = {ROW("MatMulNBitsMlp", mlp, G),
				     ROW("MatMulNBitsQkv", qkv, G),
				     ROW("MatMulNBitsQLoRA", lora, G),
				     ROW("RouterGateUpProj", router_gate, struct router_gate_up),
				     {0}};
