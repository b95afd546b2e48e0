/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hyper-connections, where the residual connection is C streams of H features, their norms and gates, and the router that
 * chooses experts by groups. All are expressed by other operators, which compute in float and round at the end.
 */
#include "ops/streams.h"

#include "ops/infer_util.h"

#include <inttypes.h>

#define NF (T_F32 | T_F16 | T_BF16)

static int64_t last_dim(const struct shape *s, int back)
{
	return s->rank >= back ? s->dim[s->rank - back] : DIM_UNKNOWN;
}

/* ---- streams ---------------------------------------------------------------------------------- */

/* Sizes of streams. lead: number of dimensions before those of the streams; -1 if it is not known. */
struct stream_sizes {
	int lead;
	int64_t branches, features;
};

/* Finds the sizes of input 0, and refuses streams that num_branches does not fit. */
static int find_streams(const struct infer *c, int64_t flat, struct stream_sizes *z)
{
	struct shape x = infer_shape(c, 0);
	int64_t all = last_dim(&x, 1);

	*z = (struct stream_sizes){-1, flat ? flat : last_dim(&x, 2), flat ? DIM_UNKNOWN : all};
	if (flat < 0)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "num_branches: 0 or more",
				  fmt(c->diag, "%" PRId64, flat));
	if (x.rank < 0)
		return 0;
	if (x.rank < (flat ? 1 : 2))
		return infer_refuse_shape(c, 0, flat ? "rank 1 or more" : "rank 2 or more");
	z->lead = x.rank - (flat ? 1 : 2);
	if (flat && all >= 0) {
		if (all % flat)
			return infer_refuse_shape(
				c, 0, fmt(c->diag, "a multiple of %" PRId64 " features", flat));
		z->features = all / flat;
	}
	return 0;
}

/* Refuses input i if it does not have the leading dimensions of input 0, then a and, unless that is 0, b; -1 fits any size. */
static int check_led(const struct infer *c, uint32_t i, int lead, int64_t a, int64_t b)
{
	struct shape x = infer_shape(c, 0), s = infer_shape(c, i);
	int64_t same, want[2] = {a, b};
	int err = 0, rank = lead + (b ? 2 : 1);

	if (s.rank < 0 || lead < 0)
		return 0;
	if (s.rank != rank)
		return infer_refuse_shape(c, (int)i, fmt(c->diag, "rank %d", rank));
	for (int k = 0; k < rank && !err; k++)
		err = infer_unify(c, (int)i, k < lead ? x.dim[k] : want[k - lead], s.dim[k], &same);
	return err;
}

/*
 * Refuses gates that are neither [..., C] nor [..., C, 1] nor [..., C, H]; with `flat` they may be [..., C * H], too. Their rank
 * tells which of them they are.
 */
static int check_gates(const struct infer *c, uint32_t i, const struct stream_sizes *z, bool flat)
{
	struct shape s = infer_shape(c, i);
	int64_t wide = known_product(z->branches, z->features);

	if (s.rank < 0 || z->lead < 0)
		return 0;
	if (s.rank == z->lead + 1) {
		bool features = flat && (wide < 0 || s.dim[z->lead] == wide);
		return check_led(c, i, z->lead, features ? wide : z->branches, 0);
	}
	return check_led(c, i, z->lead, z->branches, last_dim(&s, 1) == 1 ? 1 : z->features);
}

/* A shape in text: the leading dimensions of x, its branches, and `last`. */
static const char *led(const struct graph *g, const char *x, int64_t flat, const char *last)
{
	return flat ? arena_printf(g->arena, "Concat(Shape(%s) {end=-1}, [%" PRId64 "], %s) {axis=0}",
				   x, flat, last)
		    : arena_printf(g->arena, "Concat(Shape(%s) {end=-1}, %s) {axis=0}", x, last);
}

/* The shape [..., C, H] of x in text. */
static const char *grouped(const struct graph *g, const char *x, int64_t flat)
{
	return flat ? led(g, x, flat,
			  arena_printf(g->arena, "Div(Shape(%s) {start=-1}, [%" PRId64 "])", x, flat))
		    : arena_printf(g->arena, "Shape(%s)", x);
}

static int norm_infer(struct infer *c)
{
	const struct streams *p = infer_params(c);
	struct shape s = infer_shape(c, 1);
	struct stream_sizes z;
	int err = find_streams(c, p->num_branches, &z);
	int64_t same, all = known_product(z.branches, z.features);

	if (!err && s.rank >= 0 && (s.rank < 1 || s.rank > 2))
		err = infer_refuse_shape(c, 1, "rank 1 or 2");
	if (!err && s.rank == 2 && !(err = infer_unify(c, 1, z.branches, s.dim[0], &same)))
		err = infer_unify(c, 1, z.features, s.dim[1], &same);
	if (!err && s.rank == 1 && s.dim[0] >= 0 && all >= 0 && s.dim[0] != all)
		err = infer_unify(c, 1, z.features, s.dim[0], &same);
	return err ? err : infer_same(c);
}

/* A scale of any of its shapes has rows of H: one of them for all branches, or one for each. */
static const char *norm_text(const struct graph *g, const struct node *n)
{
	int64_t flat = ((const struct streams *)n->params)->num_branches;

	return arena_printf(
		g->arena,
		"rows = Reshape(Cast(X) {to=1}, %s); "
		"n = RMSNormalization(rows, %s) {axis=-1, epsilon=$epsilon}; "
		"Y = CastLike(Reshape(n, Shape(X)), X)",
		grouped(g, "X", flat),
		node_in(g, n, 1)
			? "Reshape(Cast(scale) {to=1}, Concat([-1], Shape(rows) {start=-1}) {axis=0})"
			: "1.0");
}

static int pre_mix_infer(struct infer *c)
{
	const struct streams *p = infer_params(c);
	struct shape y = infer_shape(c, 0);
	struct stream_sizes z;
	int err = find_streams(c, p->num_branches, &z);

	if (err || (err = check_gates(c, 1, &z, p->num_branches > 0)))
		return err;
	if (y.rank >= 0) {
		y.rank = z.lead + 1;
		y.dim[z.lead] = z.features;
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static const char *pre_mix_text(const struct graph *g, const struct node *n)
{
	int64_t flat = ((const struct streams *)n->params)->num_branches;

	return arena_printf(g->arena,
			    "x = Reshape(Cast(streams) {to=1}, %s); "
			    "gates = Reshape(Cast(pre_mix) {to=1}, %s); "
			    "sum = ReduceSum(Mul(x, gates), [-2]) {keepdims=0}; "
			    "output = CastLike(Mul(sum, $reduction_scale), streams)",
			    grouped(g, "streams", flat), led(g, "streams", flat, "[-1]"));
}

static int post_mix_infer(struct infer *c)
{
	const struct streams *p = infer_params(c);
	struct stream_sizes z;
	int err = find_streams(c, p->num_branches, &z);

	if (err || (err = check_led(c, 1, z.lead, z.features, 0)) ||
	    (err = check_gates(c, 2, &z, false)) ||
	    (infer_in(c, 3) && (err = check_led(c, 3, z.lead, z.branches, z.branches))))
		return err;
	return infer_same(c);
}

static const char *post_mix_text(const struct graph *g, const struct node *n)
{
	int64_t flat = ((const struct streams *)n->params)->num_branches;

	return arena_printf(
		g->arena,
		"x = Reshape(Cast(streams) {to=1}, %s); %s; "
		"gates = Reshape(Cast(post_mix) {to=1}, %s); "
		"new = Mul(gates, Unsqueeze(Cast(block_output) {to=1}, [-2])); "
		"output = CastLike(Reshape(Add(kept, new), Shape(streams)), streams)",
		grouped(g, "streams", flat),
		node_in(g, n, 3)
			? "kept = com.microsoft::FusedMatMul(Cast(stream_mix) {to=1}, x) {transA=1}"
			: "kept = x",
		led(g, "streams", flat, "[-1]"));
}

/* ---- HyperConnectionLowRankMix ------------------------------------------------------------------ */

enum { MIX_STREAMS, MIX_SCALE, MIX_DOWN, MIX_UP, MIX_INJECT, MIX_BLOCK, MIX_GATE };

static int check_matrix(const struct infer *c, uint32_t i, int64_t rows, int64_t cols)
{
	struct shape s = infer_shape(c, i);
	int64_t same;
	int err;

	if (s.rank < 0)
		return 0;
	if (s.rank != 2)
		return infer_refuse_shape(c, (int)i, "rank 2");
	err = infer_unify(c, (int)i, rows, s.dim[0], &same);
	return err ? err : infer_unify(c, (int)i, cols, s.dim[1], &same);
}

static int low_rank_infer(struct infer *c)
{
	const struct low_rank_mix *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = x, gate = x, scale = infer_shape(c, MIX_SCALE),
		     down = infer_shape(c, MIX_DOWN);
	struct stream_sizes z;
	int64_t same, all = last_dim(&x, 1), rank = down.rank == 2 ? down.dim[1] : DIM_UNKNOWN;
	int err;

	if (p->num_branches < 1 || p->gate_div == 0)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  p->gate_div == 0 ? "gate_div: not 0" : "num_branches: 1 or more",
				  p->gate_div == 0 ? "0" : fmt(c->diag, "%" PRId64, p->num_branches));
	if ((err = find_streams(c, p->num_branches, &z)) ||
	    (scale.rank == 1 && (err = infer_unify(c, MIX_SCALE, all, scale.dim[0], &same))) ||
	    (err = check_matrix(c, MIX_DOWN, all, DIM_UNKNOWN)) ||
	    (err = check_matrix(c, MIX_UP, rank, all)) ||
	    (err = check_matrix(c, MIX_INJECT, all, z.branches)))
		return err;
	if (infer_in(c, MIX_BLOCK) && ((err = check_led(c, MIX_BLOCK, z.lead, z.features, 0)) ||
				       (err = check_led(c, MIX_GATE, z.lead, z.branches, 0))))
		return err;
	if (x.rank > 0) {
		y.dim[x.rank - 1] = z.features;
		gate.dim[x.rank - 1] = z.branches;
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	infer_set(c, 1, infer_dtype(c, 0), &gate);
	infer_set(c, 2, infer_dtype(c, 0), &x);
	return 0;
}

/* Each step is rounded to the type of the streams, as the operator's text has it. */
static const char *low_rank_text(const struct graph *g, const struct node *n)
{
	int64_t c = ((const struct low_rank_mix *)n->params)->num_branches;
	const char *old = "s = streams", *shape = grouped(g, "streams", c);

	if (node_in(g, n, MIX_BLOCK))
		old = arena_printf(
			g->arena,
			"new = Mul(Unsqueeze(Cast(prev_post_gate) {to=1}, [-1]), Unsqueeze(Cast(prev_block_output) {to=1}, [-2])); "
			"s = CastLike(Reshape(Add(Reshape(Cast(streams) {to=1}, %s), new), Shape(streams)), streams)",
			shape);
	return arena_printf(
		g->arena,
		"%s; scale = Reshape(Cast(norm_scale) {to=1}, Concat([%" PRId64
		"], Div(Shape(streams) {start=-1}, [%" PRId64 "])) {axis=0}); "
		"rows = RMSNormalization(Reshape(Cast(s) {to=1}, %s), scale) {axis=-1, epsilon=$epsilon}; "
		"hn = CastLike(Reshape(rows, Shape(streams)), streams); "
		"z = CastLike(Mul(Cast(MatMul(hn, down_weight)) {to=1}, $silu_alpha), streams); "
		"gates = Sigmoid(MatMul(Mul(z, Sigmoid(z)), up_weight)); "
		"mixed = Reshape(Mul(Cast(hn) {to=1}, Cast(gates) {to=1}), %s); "
		"pre_output = CastLike(Mul(ReduceSum(mixed, [-2]) {keepdims=0}, $reduction_scale), streams); "
		"inject = CastLike(Div(Cast(MatMul(hn, inject_weight)) {to=1}, $gate_div), streams); "
		"post_gate = CastLike(Mul(Cast(Sigmoid(inject)) {to=1}, $gate_mul), streams); "
		"streams_out = s",
		old, c, c, shape, shape);
}

/* ---- EngramGate --------------------------------------------------------------------------------- */

static int engram_infer(struct infer *c)
{
	struct shape key = infer_shape(c, 0);

	if (infer_out(c, 1) && !infer_in(c, 5))
		return infer_fail(c, E_OP_INPUTS, 5,
				  "conv_norm_scale, by which the output gated_value_normed is scaled",
				  "none");
	infer_set(c, 0, infer_dtype(c, 0), &key);
	infer_set(c, 1, infer_dtype(c, 0), &key);
	return 0;
}

static const char *engram_text(const struct graph *g, const struct node *n)
{
	return arena_printf(
		g->arena,
		"k = RMSNormalization(Cast(key) {to=1}, Cast(key_norm_scale) {to=1}) {axis=-1, epsilon=$epsilon}; "
		"q = RMSNormalization(Cast(query) {to=1}, Cast(query_norm_scale) {to=1}) {axis=-1, epsilon=$epsilon}; "
		"dot = Div(ReduceSum(Mul(k, q), [-1]), Sqrt(Cast(Shape(key) {start=-1}) {to=1})); "
		"gate = Sigmoid(Mul(Sign(dot), Sqrt(Max(Abs(dot), 1e-6)))); "
		"gated = Mul(gate, Unsqueeze(Cast(value) {to=1}, [2])); output = CastLike(gated, key)%s",
		node_out(g, n, 1)
			? "; gated_value_normed = CastLike(RMSNormalization(gated, Cast(conv_norm_scale) {to=1}) "
			  "{axis=-1, epsilon=$epsilon}, key)"
			: "");
}

/* ---- MoEGroupRouter ----------------------------------------------------------------------------- */

enum { ROUTER_LOGITS, ROUTER_BIAS, ROUTER_PROJECTION };

static int check_router(const struct infer *c, int64_t experts)
{
	const struct group_router *p = infer_params(c);
	bool scores = infer_out(c, 1) || infer_out(c, 2);
	int64_t size = experts >= 0 && p->n_group > 0 ? experts / p->n_group : DIM_UNKNOWN, room;

	if (p->top_k < 1 || p->n_group < 1 || p->topk_group < 1 || p->group_topk < 1 ||
	    p->topk_group > p->n_group)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "positive numbers, and a topk_group of at most n_group", NULL);
	if (experts >= 0 && (!experts || experts % p->n_group))
		return infer_refuse_shape(c, ROUTER_BIAS,
					  fmt(c->diag, "experts in %" PRId64 " groups", p->n_group));
	if (size >= 0 && !__builtin_mul_overflow(size, p->topk_group, &room) && p->top_k > room)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag,
				      "a top_k of at most %" PRId64 ", the experts of the groups",
				      room),
				  fmt(c->diag, "%" PRId64, p->top_k));
	if (scores && (infer_out(c, 0) || !infer_out(c, 1) || !infer_out(c, 2) || p->n_group != 1))
		return infer_fail(
			c, E_OP_INPUTS, -1,
			"selection_scores and router_weights together, without router_probs, of one group",
			NULL);
	if (!scores && infer_in(c, ROUTER_PROJECTION))
		return infer_fail(c, E_OP_INPUTS, ROUTER_PROJECTION,
				  "none without selection_scores and router_weights", "a tensor");
	return 0;
}

static int router_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), bias = infer_shape(c, ROUTER_BIAS), y;
	bool projected = infer_in(c, ROUTER_PROJECTION) != NULL;
	int64_t experts = bias.rank == 1 ? bias.dim[0] : DIM_UNKNOWN, tokens = DIM_UNKNOWN;
	int err = 0;

	if (x.rank >= 0 && (projected ? x.rank != 2 : x.rank < 2))
		return infer_refuse_shape(c, 0, projected ? "rank 2" : "rank 2 or more");
	if (x.rank > 0) {
		tokens = shape_span(&x, 0, x.rank - 1);
		if (!projected)
			err = infer_unify(c, 0, last_dim(&x, 1), experts, &experts);
	}
	if (!err && projected)
		err = check_matrix(c, ROUTER_PROJECTION, experts, last_dim(&x, 1));
	if (err || (err = check_router(c, experts)))
		return err;
	y = shape_of(2, (int64_t[]){tokens < 0 ? DIM_UNKNOWN : tokens, experts});
	infer_set(c, 0, infer_dtype(c, 0), &y);
	infer_set(c, 1, DT_F32, &y);
	infer_set(c, 2, DT_F32, &y);
	return 0;
}

/* Each group counts by the sum of its best experts; the experts of other groups are out, and the best of the rest are chosen. */
static const char *router_text(const struct graph *g, const struct node *n)
{
	const struct group_router *p = n->params;
	const struct shape *bias = &node_in(g, n, ROUTER_BIAS)->info.shape;
	int64_t size =
		bias->rank == 1 && bias->dim[0] >= 0 ? bias->dim[0] / p->n_group : p->group_topk;
	const char *scores =
		node_in(g, n, ROUTER_PROJECTION)
			? "s = Sigmoid(MatMul(Cast(logits) {to=1}, Transpose(Cast(projection_weight) {to=1})))"
			: "s = Sigmoid(Reshape(Cast(logits) {to=1}, Concat([-1], Shape(logits) {start=-1}) {axis=0}))";

	if (node_out(g, n, 1))
		return arena_printf(g->arena,
				    "%s; selection_scores = Add(s, expert_bias); router_weights = s",
				    scores);
	return arena_printf(
		g->arena,
		"%s; groups = Reshape(Add(s, expert_bias), [0, %" PRId64 ", -1]); "
		"best, unused1 = TopK(groups, [%" PRId64
		"]) {axis=-1}; sums = ReduceSum(best, [-1]) {keepdims=0}; "
		"unused2, chosen = TopK(sums, [%" PRId64 "]) {axis=-1}; "
		"in = ScatterElements(Expand(Cast(0) {to=1}, Shape(sums)), chosen, Expand(Cast(1) {to=1}, Shape(chosen))) {axis=-1}; "
		"left = Where(Cast(Unsqueeze(in, [-1])) {to=9}, groups, -inf); "
		"unused3, experts = TopK(Reshape(left, Shape(s)), [%" PRId64 "]) {axis=-1}; "
		"probs = Log(Max(GatherElements(s, experts) {axis=-1}, 1e-20)); "
		"filled = ScatterElements(Expand(Add(Cast(0) {to=1}, $router_sentinel), Shape(s)), experts, probs) {axis=-1}; "
		"router_probs = CastLike(filled, logits)",
		scores, p->n_group, p->group_topk < size ? p->group_topk : size, p->topk_group,
		p->top_k);
}

/* ---- rows --------------------------------------------------------------------------------------- */

#define STREAMS	 SLOT("streams", "T", NF)
#define EPSILON	 FIELD(struct streams, epsilon, F_FLOAT, "1e-05", "keeps the root from zero")
#define BRANCHES FIELD(struct streams, num_branches, F_INT, "0", "branches of flattened streams")
static const struct slot norm_in[] = {SLOT("X", "T", NF), SLOT_OPT("scale", "M", NF), SLOT_END};
static const struct slot y_out[] = {SLOT("Y", "T", NF), SLOT_END};
static const struct field norm_attrs[] = {BRANCHES, EPSILON, {0}};
static const struct slot pre_mix_in[] = {STREAMS, SLOT("pre_mix", "M", NF), SLOT_END};
static const struct slot output_out[] = {SLOT("output", "T", NF), SLOT_END};
static const struct field pre_mix_attrs[] = {
	BRANCHES, FIELD(struct streams, reduction_scale, F_FLOAT, "1", "factor of the sum"), {0}};
static const struct slot post_mix_in[] = {STREAMS, SLOT("block_output", "T", NF),
					  SLOT("post_mix", "M", NF),
					  SLOT_OPT("stream_mix", "M", NF), SLOT_END};
static const struct field post_mix_attrs[] = {BRANCHES, {0}};
static const struct slot low_rank_in[] = {
	STREAMS,
	SLOT("norm_scale", "T", NF, .dims = "_"),
	SLOT("down_weight", "T", NF),
	SLOT("up_weight", "T", NF),
	SLOT("inject_weight", "T", NF),
	SLOT_OPT("prev_block_output", "T", NF, .with = "prev_post_gate"),
	SLOT_OPT("prev_post_gate", "T", NF, .with = "prev_block_output"),
	SLOT_END};
static const struct slot low_rank_out[] = {SLOT("pre_output", "T", NF), SLOT("post_gate", "T", NF),
					   SLOT_OPT("streams_out", "T", NF), SLOT_END};
#define MIX(member, def, help) FIELD(struct low_rank_mix, member, F_FLOAT, def, help)
static const struct field low_rank_attrs[] = {
	FIELD_REQ(struct low_rank_mix, num_branches, F_INT, "number of streams"),
	MIX(reduction_scale, "1", "factor of the sum over the branches"),
	MIX(epsilon, "1e-05", "keeps the root from zero"),
	MIX(silu_alpha, "1", "factor before the SiLU between the projections"),
	MIX(gate_div, "1", "divisor before the sigmoid of post_gate"),
	MIX(gate_mul, "1", "factor behind it"),
	{0}};
static const struct slot engram_in[] = {SLOT("key", "T", NF, .dims = "B S M H"),
					SLOT("query", "T", NF, .dims = "B S M H"),
					SLOT("value", "T", NF, .dims = "B S H"),
					SLOT("key_norm_scale", "T", NF, .dims = "M H"),
					SLOT("query_norm_scale", "T", NF, .dims = "M H"),
					SLOT_OPT("conv_norm_scale", "T", NF, .dims = "M H"),
					SLOT_END};
static const struct slot engram_out[] = {SLOT("output", "T", NF),
					 SLOT_OPT("gated_value_normed", "T", NF), SLOT_END};
static const struct field engram_attrs[] = {
	FIELD(struct engram_gate, epsilon, F_FLOAT, "1e-05", "keeps the roots from zero"), {0}};
static const struct slot router_in[] = {SLOT("logits", "T", NF),
					SLOT("expert_bias", NULL, T_F32, .dims = "_"),
					SLOT_OPT("projection_weight", "T", NF), SLOT_END};
static const struct slot router_out[] = {SLOT_OPT("router_probs", "T", NF),
					 SLOT_OPT("selection_scores", NULL, T_F32),
					 SLOT_OPT("router_weights", NULL, T_F32), SLOT_END};
static const struct field router_attrs[] = {
	FIELD_REQ(struct group_router, top_k, F_INT, "experts of a token"),
	FIELD(struct group_router, n_group, F_INT, "1", "groups of experts"),
	FIELD(struct group_router, topk_group, F_INT, "1", "groups of a token"),
	FIELD(struct group_router, group_topk, F_INT, "2", "experts that a group counts by"),
	FIELD(struct group_router, router_sentinel, F_FLOAT, "-10000",
	      "of experts that are not chosen"),
	{0}};

#define ROW(name_, how, out_, type)                                                                \
	{                                                                                          \
		.name = (name_), MICROSOFT, .in = how##_in, .out = (out_),                         \
		ATTRS(how##_attrs, struct type), .infer = how##_infer, .expand_as = how##_text     \
	}
const struct op ops_streams[] = {ROW("BranchwiseRMSNorm", norm, y_out, streams),
				 ROW("HyperConnectionPreMix", pre_mix, output_out, streams),
				 ROW("HyperConnectionPostMix", post_mix, output_out, streams),
				 ROW("HyperConnectionLowRankMix", low_rank, low_rank_out, low_rank_mix),
				 ROW("EngramGate", engram, engram_out, engram_gate),
				 ROW("MoEGroupRouter", router, router_out, group_router),
				 {0}};
