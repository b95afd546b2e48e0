/* SPDX-License-Identifier: Apache-2.0 */
/*
 * com.microsoft's operators on batches without their padding: the tokens of all sequences one after the other, and for each
 * its place in the padded batch (token_offset: first the places of the tokens, then those of the padding).
 */
#include "ops/infer_util.h"

#include <inttypes.h>
#include <math.h>

#define NF (T_F32 | T_F16)

struct packed_attention {
	int64_t num_heads;
	struct ints qkv_hidden_sizes;
	float scale, mask_filter_value;
};

/* ---- RemovePadding, RestorePadding -------------------------------------------------------------- */

static int remove_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), y;
	int64_t batch = x.rank == 3 ? x.dim[0] : DIM_UNKNOWN,
		length = x.rank == 3 ? x.dim[1] : DIM_UNKNOWN;

	y = shape_of(2, (int64_t[]){DIM_UNKNOWN, x.rank == 3 ? x.dim[2] : DIM_UNKNOWN});
	infer_set(c, 0, infer_dtype(c, 0), &y);
	y = shape_of(2, (int64_t[]){batch, length});
	infer_set(c, 1, DT_I32, &y);
	y = shape_of(1, (int64_t[]){batch >= 0 ? batch + 1 : DIM_UNKNOWN});
	infer_set(c, 2, DT_I32, &y);
	y = shape_of(1, (int64_t[]){1});
	infer_set(c, 3, DT_I32, &y);
	return 0;
}

static int restore_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), at = infer_shape(c, 1), y = SHAPE_UNKNOWN;
	int64_t places = shape_count(&at);

	if (x.rank == 2 && x.dim[0] >= 0 && places >= 0 && x.dim[0] > places)
		return infer_refuse_shape(c, 0, fmt(c->diag, "at most %" PRId64 " tokens", places));
	if (x.rank == 2 && at.rank == 2)
		y = shape_of(3, (int64_t[]){at.dim[0], at.dim[1], x.dim[1]});
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

/* ---- PackedAttention, PackedMultiHeadAttention --------------------------------------------------- */

enum { PMHA_Q, PMHA_K, PMHA_V, PMHA_BIAS, PMHA_OFFSET, PMHA_STARTS, PMHA_ATT_BIAS };
enum { PA_X, PA_W, PA_B, PA_OFFSET, PA_STARTS, PA_ATT_BIAS };

static int check_heads(const struct infer *c, int64_t width, int slot)
{
	const struct packed_attention *p = infer_params(c);

	if (p->num_heads < 1 || p->num_heads > INT32_MAX)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "num_heads: 1 or more",
				  fmt(c->diag, "%" PRId64, p->num_heads));
	if (width >= 0 && (!width || width % p->num_heads))
		return infer_refuse_shape(
			c, slot, fmt(c->diag, "a last dimension for %" PRId64 " heads", p->num_heads));
	return 0;
}

/* token_offset and cumulative_sequence_length are of one batch, and have no fewer places than there are tokens. */
static int check_places(const struct infer *c, int offset, int64_t tokens)
{
	struct shape at = infer_shape(c, (uint32_t)offset),
		     starts = infer_shape(c, (uint32_t)offset + 1);
	int64_t places = shape_count(&at);

	if (starts.rank == 1 && at.rank == 2 && starts.dim[0] >= 0 && at.dim[0] >= 0 &&
	    starts.dim[0] - 1 != at.dim[0])
		return infer_refuse_shape(
			c, offset + 1,
			fmt(c->diag, "%" PRId64 " numbers, one more than sequences", at.dim[0] + 1));
	if (tokens >= 0 && places >= 0 && tokens > places)
		return infer_refuse_shape(c, 0, fmt(c->diag, "at most %" PRId64 " tokens", places));
	return 0;
}

static int packed_mha_infer(struct infer *c)
{
	struct shape q = infer_shape(c, PMHA_Q), v = infer_shape(c, PMHA_V), y = q;
	bool packed = !infer_in(c, PMHA_K);
	int err;

	if (q.rank >= 0 && q.rank != (packed ? 4 : 2))
		return infer_refuse_shape(c, PMHA_Q, packed ? "rank 4" : "rank 2");
	int64_t width = q.rank < 0 ? DIM_UNKNOWN
			: packed   ? known_product(q.dim[1], q.dim[3])
				   : q.dim[1];
	if ((err = check_heads(c, width, PMHA_Q)) ||
	    (err = check_places(c, PMHA_OFFSET, q.rank > 0 ? q.dim[0] : DIM_UNKNOWN)))
		return err;
	if (packed && q.rank == 4)
		y = shape_of(2, (int64_t[]){q.dim[0], width});
	else if (q.rank == 2)
		y.dim[1] = v.rank == 2 ? v.dim[1] : DIM_UNKNOWN;
	infer_set(c, 0, infer_dtype(c, PMHA_Q), &y);
	return 0;
}

/* The batch with its padding goes through MultiHeadAttention, whose mask of lengths hides the padding. */
static const char *packed_mha_text(const struct graph *g, const struct node *n)
{
	bool packed = !node_in(g, n, PMHA_K);

	return arena_printf(
		g->arena,
		"%s; lengths = Sub(Slice(cumulative_sequence_length, [1], [2147483647]), "
		"Slice(cumulative_sequence_length, [0], [-1])); "
		"all = com.microsoft::MultiHeadAttention(%s, bias?, lengths, attention_bias?) "
		"{num_heads=$num_heads, scale=$scale, mask_filter_value=$mask_filter_value}; "
		"places = Slice(Reshape(token_offset, [-1]), [0], Shape(query) {end=1}); "
		"output = Gather(Reshape(all, Concat([-1], Shape(all) {start=-1}) {axis=0}), places)",
		packed ? "rows = com.microsoft::RestorePadding(Reshape(query, Concat(Shape(query) {end=1}, [-1]) "
			 "{axis=0}), token_offset); q = Reshape(rows, Concat(Shape(token_offset), Shape(query) "
			 "{start=1}) {axis=0})"
		       : "q = com.microsoft::RestorePadding(query, token_offset); "
			 "k = com.microsoft::RestorePadding(key, token_offset); "
			 "v = com.microsoft::RestorePadding(value, token_offset)",
		packed ? "q, _, _" : "q, k, v");
}

static int packed_infer(struct infer *c)
{
	const struct packed_attention *p = infer_params(c);
	struct shape x = infer_shape(c, PA_X), w = infer_shape(c, PA_W);
	const struct ints *sizes = &p->qkv_hidden_sizes;
	int64_t all = w.rank == 2 ? w.dim[1] : DIM_UNKNOWN, sum = 0, width = DIM_UNKNOWN;
	int err;

	if (sizes->n > 0 && sizes->n != 3)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "three qkv_hidden_sizes",
				  fmt(c->diag, "%" PRId64, sizes->n));
	for (int64_t i = 0; i < sizes->n; i++)
		if (sizes->v[i] < 1 || __builtin_add_overflow(sum, sizes->v[i], &sum))
			return infer_fail(c, E_OP_ATTRIBUTE, -1, "positive qkv_hidden_sizes", NULL);
	if (all >= 0 && (sizes->n > 0 ? sum != all || sizes->v[0] != sizes->v[1] : all % 3))
		return infer_refuse_shape(c, PA_W, "columns for queries, keys and values");
	if (sizes->n > 0 || all >= 0)
		width = sizes->n > 0 ? sizes->v[2] : all / 3;
	if ((err = check_heads(c, width, PA_W)) ||
	    (err = check_places(c, PA_OFFSET, x.rank > 0 ? x.dim[0] : DIM_UNKNOWN)))
		return err;
	struct shape y = shape_of(2, (int64_t[]){x.rank == 2 ? x.dim[0] : DIM_UNKNOWN, width});
	infer_set(c, 0, infer_dtype(c, PA_X), &y);
	return 0;
}

static const char *packed_text(const struct graph *g, const struct node *n)
{
	const struct ints *sizes = &((const struct packed_attention *)n->params)->qkv_hidden_sizes;
	const char *split = "Split(p) {axis=-1, num_outputs=3}";

	if (sizes->n > 0)
		split = arena_printf(g->arena,
				     "Split(p, [%" PRId64 ", %" PRId64 ", %" PRId64 "]) {axis=-1}",
				     sizes->v[0], sizes->v[1], sizes->v[2]);
	return arena_printf(
		g->arena,
		"p = Add(MatMul(input, weights), bias); q, k, v = %s; "
		"output = com.microsoft::PackedMultiHeadAttention(q, k, v, _, token_offset, "
		"cumulative_sequence_length, attention_bias?) {num_heads=$num_heads, scale=$scale}",
		split);
}

/* ---- VarlenCausalConvWithState -------------------------------------------------------------------- */

struct varlen_conv {
	int64_t state_update_capacity, dilation, group_size, delta_offset;
	int activation;
};
enum { CONV_X, CONV_W, CONV_STARTS, CONV_BIAS, CONV_STATE, CONV_COUNT, CONV_DELTA, CONV_MASK };
enum { CONV_NONE, CONV_SILU, CONV_SWISH };
enum { MAX_UPDATES = 8, MAX_TAPS = 16 };

static int check_conv(const struct infer *c)
{
	const struct varlen_conv *p = infer_params(c);
	bool updates = p->state_update_capacity > 0;

	if (p->state_update_capacity < 0 || p->state_update_capacity > MAX_UPDATES ||
	    p->dilation < 1 || p->dilation > INT32_MAX)
		return infer_fail(
			c, E_OP_ATTRIBUTE, -1,
			fmt(c->diag, "state_update_capacity from 0 to %d and a dilation of 1 or more",
			    MAX_UPDATES),
			fmt(c->diag, "%" PRId64 " and %" PRId64, p->state_update_capacity,
			    p->dilation));
	if (infer_in(c, CONV_DELTA) || infer_in(c, CONV_MASK))
		return infer_fail(c, E_OP_UNSUPPORTED, CONV_DELTA,
				  "none: dynamic taps are not supported", "a tensor");
	if (updates != (infer_in(c, CONV_COUNT) != NULL))
		return infer_fail(c, E_OP_INPUTS, CONV_COUNT,
				  updates ? "a tensor, as state_update_capacity says"
					  : "none without a state_update_capacity",
				  updates ? "none" : "a tensor");
	return infer_out(c, 2) && !updates
		       ? infer_fail(c, E_OP_ATTRIBUTE, -1,
				    "a state_update_capacity of 1 or more for the output state_update",
				    "0")
		       : 0;
}

static int conv_infer(struct infer *c)
{
	const struct varlen_conv *p = infer_params(c);
	struct shape x = infer_shape(c, CONV_X), w = infer_shape(c, CONV_W),
		     state = infer_shape(c, CONV_STATE), starts = infer_shape(c, CONV_STARTS), y;
	int64_t taps = w.rank == 3 ? w.dim[2] : DIM_UNKNOWN, batch = DIM_UNKNOWN, same,
		room = taps > 0 ? known_product(taps - 1, p->dilation) : DIM_UNKNOWN;
	int err = check_conv(c);

	if (err)
		return err;
	if (taps == 0 || taps > MAX_TAPS)
		return infer_refuse_shape(c, CONV_W, fmt(c->diag, "a kernel of 1 to %d", MAX_TAPS));
	if (starts.rank == 1 && starts.dim[0] >= 0) {
		if (!starts.dim[0])
			return infer_refuse_shape(c, CONV_STARTS, "at least one number");
		batch = starts.dim[0] - 1;
	}
	if (state.rank == 3 && ((err = infer_unify(c, CONV_STATE, batch, state.dim[0], &batch)) ||
				(err = infer_unify(c, CONV_STATE, room, state.dim[2], &same))))
		return err;
	infer_set(c, 0, infer_dtype(c, CONV_X), &x);
	infer_set(c, 1, infer_dtype(c, CONV_X), &state);
	y = shape_of(3, (int64_t[]){batch, p->state_update_capacity,
				    x.rank == 2 ? x.dim[1] : DIM_UNKNOWN});
	infer_set(c, 2, infer_dtype(c, CONV_X), &y);
	return 0;
}

/*
 * `rows` are the tokens, then the states of all sequences. The token that lies d positions before one that is the n-th of its
 * sequence is d rows before it, if n is d or more, else n - d of its sequence's state, counted from the end.
 */
static const char *taps_text(const struct graph *g, int64_t taps, int64_t dilation)
{
	const char *text = "", *sum = "";

	for (int64_t j = 0; j < taps; j++) {
		int64_t back = (taps - 1 - j) * dilation;
		text = arena_printf(g->arena,
				    "%stap%" PRId64
				    " = Mul(Gather(rows, Where(GreaterOrEqual(own, %" PRId64
				    "), Sub(at, %" PRId64 "), Add(before, Sub(own, %" PRId64
				    ")))), Gather(w, %" PRId64 ") {axis=1}); ",
				    text, j, back, back, back, j);
		sum = j ? arena_printf(g->arena, "Add(%s, tap%" PRId64 ")", sum, j) : "tap0";
	}
	return arena_printf(g->arena, "%ssum = %s; ", text, sum);
}

static const char *conv_text(const struct graph *g, const struct node *n)
{
	const struct varlen_conv *p = n->params;
	const struct shape *w = &node_in(g, n, CONV_W)->info.shape;
	int64_t taps = w->rank == 3 ? w->dim[2] : -1, room = (taps - 1) * p->dilation;

	if (taps < 1)
		return NULL;
	return arena_printf(
		g->arena,
		"bounds = Cast(cumulative_sequence_length) {to=7}; tokens = Squeeze(Shape(input) {end=1}); "
		/* a bound beyond the tokens is none of these numbers, and refused */
		"starts = Gather(Range(0, Add(tokens, 1), 1), Where(Less(bounds, 0), Add(tokens, 1), bounds)); "
		"first = Slice(starts, [0], [-1]); last = Slice(starts, [1], [2147483647]); count = Sub(last, first); "
		"state = Transpose(Cast(initial_state) {to=1}) {perm=[0,2,1]}; w = Cast(Squeeze(weight, [1])) {to=1}; "
		"rows = Concat(Cast(input) {to=1}, Reshape(state, Concat([-1], Shape(input) {start=1}) {axis=0})) {axis=0}; "
		"at = Range(0, tokens, 1); wide = Cast(bias?) {to=1}; "
		"of = ReduceSum(Cast(LessOrEqual(Unsqueeze(last, [0]), Unsqueeze(at, [1]))) {to=7}, [1]) {keepdims=0}; "
		"own = Sub(at, Gather(first, of)); before = Add(Add(Mul(of, %" PRId64
		"), tokens), %" PRId64 "); %s"
		"y = Add(sum, wide?); output = CastLike(%s, input); "
		"none = Sub(tokens, tokens); "
		"places = Add(Range(Sub(none, %" PRId64 "), none, 1), Unsqueeze(count, [1])); "
		"ends = Add(Mul(Range(1, Add(Squeeze(Shape(first)), 1), 1), %" PRId64 "), tokens); "
		"kept = Gather(rows, Where(GreaterOrEqual(places, 0), Add(Unsqueeze(first, [1]), places), "
		"Add(Unsqueeze(ends, [1]), places))); "
		"final_state = CastLike(Transpose(kept) {perm=[0,2,1]}, input); %s",
		room, room, taps_text(g, taps, p->dilation),
		p->activation == CONV_NONE ? "y" : "Mul(y, Sigmoid(y))", room, room,
		p->state_update_capacity
			? "slots = Unsqueeze(Range(0, Add(none, $state_update_capacity), 1), [0]); "
			  "taken = Less(slots, Unsqueeze(Min(Cast(capture_count) {to=7}, count), [1])); "
			  "got = Gather(input, Where(taken, Add(Unsqueeze(first, [1]), slots), 0)); "
			  "state_update = Where(Unsqueeze(taken, [2]), got, CastLike(Cast(0) {to=1}, input))"
			: "");
}

/* ---- rows ----------------------------------------------------------------------------------------- */

#define PLACES SLOT("token_offset", NULL, T_I32, .dims = "B S")
#define STARTS SLOT("cumulative_sequence_length", NULL, T_I32, .dims = "_")
#define OUTPUT SLOT("output", "T", NF)
static const struct slot remove_in[] = {SLOT("input", "T", NF, .dims = "B _ _"),
					SLOT("sequence_token_count", NULL, T_I32, .dims = "B"),
					SLOT_END};
static const struct slot remove_out[] = {OUTPUT, SLOT("token_offset", NULL, T_I32),
					 SLOT("cumulated_seq_len", NULL, T_I32),
					 SLOT("max_seq_len", NULL, T_I32), SLOT_END};
static const struct slot restore_in[] = {SLOT("input", "T", NF, .dims = "_ _"), PLACES, SLOT_END};
static const struct slot output_out[] = {OUTPUT, SLOT_END};
static const struct slot packed_mha_in[] = {SLOT("query", "T", NF, .dims = "N C | N H 3 E"),
					    SLOT_OPT("key", "T", NF, .dims = "N C", .with = "value"),
					    SLOT_OPT("value", "T", NF, .dims = "N _", .with = "key"),
					    SLOT_OPT("bias", "T", NF, .dims = "_"),
					    PLACES,
					    STARTS,
					    SLOT_OPT("attention_bias", "T", NF, .dims = "_ _ S S"),
					    SLOT_END};
static const struct slot packed_in[] = {SLOT("input", "T", NF, .dims = "N I"),
					SLOT("weights", "T", NF, .dims = "I O"),
					SLOT("bias", "T", NF, .dims = "O"),
					PLACES,
					STARTS,
					SLOT_OPT("attention_bias", "T", NF, .dims = "_ _ S S"),
					SLOT_END};
#define HEADS                                                                                      \
	FIELD_REQ(struct packed_attention, num_heads, F_INT, "heads of queries, keys and values"), \
		FIELD(struct packed_attention, scale, F_FLOAT, NULL,                               \
		      "of Q K^T; absent: 1 / sqrt(head size)")
static const struct field packed_mha_attrs[] = {
	HEADS,
	FIELD(struct packed_attention, mask_filter_value, F_FLOAT, "-10000", "of hidden scores"),
	{0}};
static const struct field packed_attrs[] = {HEADS,
					    FIELD(struct packed_attention, qkv_hidden_sizes, F_INTS,
						  NULL, "columns of queries, keys and values"),
					    {0}};

#define T_CONV (T_F32 | T_F16 | T_BF16)
static const struct slot conv_in[] = {SLOT("input", "T", T_CONV, .dims = "_ C"),
				      SLOT("weight", "T", T_CONV, .dims = "C 1 _"),
				      SLOT("cumulative_sequence_length", NULL, T_I32, .dims = "_"),
				      SLOT_OPT("bias", "T", T_CONV, .dims = "C"),
				      SLOT("initial_state", "T", T_CONV, .dims = "B C _"),
				      SLOT_OPT("capture_count", NULL, T_I32, .dims = "B"),
				      SLOT_OPT("kernel_delta", "T", T_CONV),
				      SLOT_OPT("previous_mask", "T", T_CONV),
				      SLOT_END};
static const struct slot conv_out[] = {SLOT("output", "T", T_CONV), SLOT("final_state", "T", T_CONV),
				       SLOT_OPT("state_update", "T", T_CONV), SLOT_END};
#define V struct varlen_conv
static const struct field conv_attrs[] = {
	FIELD(V, state_update_capacity, F_INT, "0", "tokens that state_update can take"),
	FIELD(V, dilation, F_INT, "1", "distance of the kernel's elements"),
	FIELD(V, group_size, F_INT, "1", "of dynamic taps, which are not supported"),
	FIELD(V, delta_offset, F_INT, "0", "of dynamic taps, which are not supported"),
	FIELD_ENUM(V, activation, "none", "none|silu|swish", "activation behind the convolution"),
	{0}};

const struct op ops_packing[] = {
	{.name = "RemovePadding",
	 MICROSOFT,
	 .in = remove_in,
	 .out = remove_out,
	 .infer = remove_infer,
	 .expand = "size = Shape(input) {start=1, end=2}; count = Min(Cast(sequence_token_count) {to=7}, size); "
		   "real = Less(Unsqueeze(Range(0, Squeeze(size), 1), [0]), Unsqueeze(count, [1])); "
		   "flat = Reshape(real, [-1]); kept = Squeeze(NonZero(flat), [0]); "
		   "padding = Squeeze(NonZero(Not(flat)), [0]); "
		   "rows = Reshape(input, Concat([-1], Shape(input) {start=2}) {axis=0}); "
		   "output = Gather(rows, kept); "
		   "token_offset = Reshape(Cast(Concat(kept, padding) {axis=0}) {to=6}, Shape(real)); "
		   "cumulated_seq_len = Cast(Concat([0], CumSum(count, 0)) {axis=0}) {to=6}; "
		   "max_seq_len = Cast(ReduceMax(count)) {to=6}"},
	{.name = "RestorePadding",
	 MICROSOFT,
	 .in = restore_in,
	 .out = output_out,
	 .infer = restore_infer,
	 .expand = "flat = Reshape(token_offset, [-1]); "
		   "places = Slice(Cast(flat) {to=7}, [0], Shape(input) {end=1}); "
		   "zeros = CastLike(ConstantOfShape(Concat(Shape(flat), Shape(input) {start=1}) {axis=0}), input); "
		   "output = Reshape(ScatterND(zeros, Unsqueeze(places, [1]), input), "
		   "Concat(Shape(token_offset), Shape(input) {start=1}) {axis=0})"},
	{.name = "PackedMultiHeadAttention",
	 MICROSOFT,
	 .in = packed_mha_in,
	 .out = output_out,
	 ATTRS(packed_mha_attrs, struct packed_attention),
	 .infer = packed_mha_infer,
	 .expand_as = packed_mha_text},
	{.name = "PackedAttention",
	 MICROSOFT,
	 .in = packed_in,
	 .out = output_out,
	 ATTRS(packed_attrs, struct packed_attention),
	 .infer = packed_infer,
	 .expand_as = packed_text},
	{.name = "VarlenCausalConvWithState",
	 MICROSOFT,
	 .in = conv_in,
	 .out = conv_out,
	 ATTRS(conv_attrs, struct varlen_conv),
	 .infer = conv_infer,
	 .expand_as = conv_text},
	{0}};
