/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft's attention of a decoder that takes one token at a time, and Longformer's attention within a window. */
#include "ops/infer_util.h"

#include <inttypes.h>

#define NF (T_F32 | T_F16)

static int64_t head_size(int64_t hidden, int64_t heads)
{
	return hidden < 0 ? DIM_UNKNOWN : hidden / heads;
}

/* Refuses input i unless its last dimension is `parts` times num_heads heads of at least one element. */
static int check_hidden(const struct infer *c, uint32_t i, int64_t heads, int64_t parts)
{
	struct shape s = infer_shape(c, i);
	int64_t all = known_product(heads, parts);

	if (heads < 1 || heads > INT32_MAX)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "num_heads of at least 1",
				  fmt(c->diag, "%" PRId64, heads));
	if (s.rank < 1 || s.dim[s.rank - 1] < 0 || (s.dim[s.rank - 1] && s.dim[s.rank - 1] % all == 0))
		return 0;
	return infer_refuse_shape(c, (int)i,
				  fmt(c->diag, "a last dimension for %" PRId64 " heads", all));
}

/* ---- DecoderMaskedMultiHeadAttention -------------------------------------------------------------- */

struct decoder_masked {
	int64_t num_heads, past_present_share_buffer, output_qk, do_rotary;
	float mask_filter_value, scale;
};
enum {
	DEC_Q,
	DEC_K,
	DEC_V,
	DEC_MASK,
	DEC_ATT_BIAS,
	DEC_PAST_K,
	DEC_PAST_V,
	DEC_PAST_LEN,
	DEC_BEAMS,
	DEC_CACHE,
	DEC_BIAS
};

static int check_decoder_operands(const struct infer *c)
{
	const struct decoder_masked *p = infer_params(c);
	struct shape k = infer_shape(c, DEC_K), v = infer_shape(c, DEC_V);
	bool past = infer_in(c, DEC_PAST_K) != NULL;

	if (!infer_in(c, DEC_K) && !past)
		return infer_fail(c, E_OP_INPUTS, DEC_PAST_K,
				  "past_key and past_value, since query holds key and value", "none");
	if (past && k.rank >= 0 && k.rank != 3)
		return infer_refuse_shape(c, DEC_K, "rank 3, since past_key is given");
	if (k.rank >= 0 && v.rank >= 0 && v.rank != k.rank)
		return infer_refuse_shape(c, DEC_V, fmt(c->diag, "key's rank of %d", k.rank));
	if (past && p->past_present_share_buffer && !infer_in(c, DEC_PAST_LEN))
		return infer_fail(c, E_OP_INPUTS, DEC_PAST_LEN,
				  "past_sequence_length, as past_present_share_buffer is set",
				  "none");
	if (infer_in(c, DEC_CACHE) && !past)
		return infer_fail(c, E_OP_INPUTS, DEC_CACHE, "none without past_key", "a tensor");
	return 0;
}

static int check_cache_indirection(const struct infer *c, uint32_t i, int64_t batch)
{
	struct shape s = infer_shape(c, i);
	int64_t rows = s.rank == 3 ? known_product(s.dim[0], s.dim[1]) : DIM_UNKNOWN, same;

	if (s.rank == 3 && s.dim[1] == 0)
		return infer_refuse_shape(c, (int)i, "at least one beam");
	return infer_unify(c, (int)i, batch, rows, &same);
}

static int decoder_infer(struct infer *c)
{
	const struct decoder_masked *p = infer_params(c);
	struct shape q = infer_shape(c, DEC_Q), k = infer_shape(c, DEC_K), y = q,
		     past = infer_shape(c, DEC_PAST_K);
	bool packed = !infer_in(c, DEC_K);
	int64_t batch = q.rank == 3 ? q.dim[0] : DIM_UNKNOWN, keys = DIM_UNKNOWN, same;
	int err = check_hidden(c, DEC_Q, p->num_heads, packed ? 3 : 1);

	if (err || (err = check_decoder_operands(c)) ||
	    (err = check_cache_indirection(c, DEC_CACHE, batch)))
		return err;
	if (y.rank == 3 && y.dim[2] >= 0 && packed)
		y.dim[2] /= 3;
	int64_t size = y.rank == 3 ? head_size(y.dim[2], p->num_heads) : DIM_UNKNOWN;
	if (past.rank == 4) {
		keys = past.dim[2];
		if (!p->past_present_share_buffer && keys >= 0)
			keys++;
		if ((err = infer_unify(c, DEC_PAST_K, size, past.dim[3], &same)))
			return err;
	} else if (k.rank >= 3) {
		keys = k.rank == 4 ? k.dim[2] : k.dim[1];
	}
	struct shape bias = infer_shape(c, DEC_BIAS);
	if (bias.rank == 1 && y.rank == 3 &&
	    (err = infer_unify(c, DEC_BIAS, known_product(3, y.dim[2]), bias.dim[0], &same)))
		return err;
	infer_set(c, 0, infer_dtype(c, 0), &y);
	y = shape_of(4, (int64_t[]){batch, p->num_heads, keys, size});
	infer_set(c, 1, infer_dtype(c, 0), &y);
	infer_set(c, 2, infer_dtype(c, 0), &y);
	y = shape_of(4, (int64_t[]){batch, p->num_heads, 1, DIM_UNKNOWN});
	infer_set(c, 3, infer_dtype(c, 0), &y);
	return 0;
}

/* The text of q, k and v with their biases; of q alone if the keys and values come from elsewhere. */
static const char *projected_text(const struct graph *g, const struct node *n)
{
	const struct value *k = node_in(g, n, DEC_K);
	bool biased = node_in(g, n, DEC_BIAS) != NULL;
	const char *text = "q0 = query; k0 = key; v0 = value; ";

	if (!k)
		text = "q0, k0, v0 = Split(query) {axis=-1, num_outputs=3}; ";
	else if (k->info.shape.rank == 4)
		text = "q0 = query; ";
	if (!biased)
		return arena_printf(g->arena, "%sq = q0; %s", text,
				    k && k->info.shape.rank == 4 ? "" : "k = k0; v = v0; ");
	text = arena_printf(
		g->arena,
		"%sb_q, b_k, b_v = Split(bias) {axis=0, num_outputs=3}; q = Add(q0, b_q); ", text);
	return k && k->info.shape.rank == 4
		       ? text
		       : arena_printf(g->arena, "%sk = Add(k0, b_k); v = Add(v0, b_v); ", text);
}

/*
 * The text of present_key and present_value, and of the keys and values that are seen. A shared buffer has the new row at
 * past_sequence_length, which must be one of its rows; otherwise the new row follows the others. With beams, each earlier row
 * comes from the beam that cache_indirection names.
 */
static const char *cached_text(const struct graph *g, const struct node *n)
{
	bool shared = ((const struct decoder_masked *)n->params)->past_present_share_buffer;
	int64_t heads = ((const struct decoder_masked *)n->params)->num_heads;
	const char *text =
		arena_printf(g->arena,
			     "k1 = Transpose(Reshape(k, [0, 0, %" PRId64 ", -1])) {perm=[0,2,1,3]}; "
			     "v1 = Transpose(Reshape(v, [0, 0, %" PRId64 ", -1])) {perm=[0,2,1,3]}; "
			     "rows = Shape(past_key) {start=2, end=3}; ",
			     heads, heads);

	if (shared)
		text = arena_printf(
			g->arena,
			"%sat = Reshape(Cast(past_sequence_length) {to=7}, [1]); "
			"slots = Range(0, Squeeze(rows), 1); "
			"row = Gather(slots, Where(Less(at, 0), rows, at)); "
			"new = Unsqueeze(Equal(slots, row), [1]); "
			"present_key = Where(new, k1, past_key); present_value = Where(new, v1, past_value); ",
			text);
	else
		text = arena_printf(g->arena,
				    "%srow = rows; slots = Range(0, Squeeze(Add(rows, [1])), 1); "
				    "present_key = Concat(past_key, k1) {axis=2}; "
				    "present_value = Concat(past_value, v1) {axis=2}; ",
				    text);
	text = arena_printf(g->arena, "%stotal = Add(row, [1]); ", text);
	if (node_in(g, n, DEC_CACHE))
		text = arena_printf(
			g->arena,
			"%sbatch = Shape(query) {end=1}; beams = Shape(cache_indirection) {start=1, end=2}; "
			"own = Unsqueeze(Range(0, Squeeze(batch), 1), [1]); "
			"beam = Slice(Reshape(Cast(cache_indirection) {to=7}, Concat(batch, [-1]) {axis=0}), "
			"[0], Shape(slots), [1]); "
			"of = Where(Less(beam, 0), batch, Add(beam, Mul(Div(own, beams), beams))); "
			"from = Unsqueeze(Where(Less(slots, row), of, own), [1, 3]); "
			"k2 = GatherElements(present_key, Expand(from, Shape(present_key))) {axis=0}; "
			"v2 = GatherElements(present_value, Expand(from, Shape(present_value))) {axis=0}; ",
			text);
	else
		text = arena_printf(g->arena, "%sk2 = present_key; v2 = present_value; ", text);
	return arena_printf(
		g->arena,
		"%skeys = Slice(k2, [0], total, [2]); values = Slice(v2, [0], total, [2]); ", text);
}

static const char *decoder_text(const struct graph *g, const struct node *n)
{
	const struct value *k = node_in(g, n, DEC_K);
	const char *outputs = node_out(g, n, 3) ? "output, unused1, unused2, qk" : "output",
		   *cache = "keys = key; values = value; ";

	if (k && k->info.shape.rank != 3 && k->info.shape.rank != 4)
		return NULL;
	if (node_in(g, n, DEC_PAST_K)) {
		cache = cached_text(g, n);
	} else if (k->info.shape.rank == 3) {
		cache = "keys = k; values = v; ";
		outputs = "output, present_key, present_value, qk";
	}
	return arena_printf(
		g->arena,
		"%s%s%s = com.microsoft::MultiHeadAttention(q, keys, values, _, mask_index?, attention_bias?) "
		"{num_heads=$num_heads, mask_filter_value=$mask_filter_value, scale=$scale}",
		projected_text(g, n), cache, outputs);
}

/* ---- DecoderMaskedSelfAttention ------------------------------------------------------------------- */

enum {
	SELF_X,
	SELF_W,
	SELF_BIAS,
	SELF_MASK,
	SELF_PAST,
	SELF_ATT_BIAS,
	SELF_PAST_LEN,
	SELF_BEAMS,
	SELF_CACHE
};

static int self_infer(struct infer *c)
{
	const struct decoder_masked *p = infer_params(c);
	struct shape x = infer_shape(c, SELF_X), w = infer_shape(c, SELF_W), y = x,
		     past = infer_shape(c, SELF_PAST);
	int64_t same, hidden = w.rank == 2 && w.dim[1] >= 0 ? w.dim[1] / 3 : DIM_UNKNOWN;
	int err = check_hidden(c, SELF_W, p->num_heads, 3);

	if (err)
		return err;
	if (p->do_rotary)
		return infer_fail(c, E_OP_UNSUPPORTED, -1, "do_rotary of 0", NULL);
	if ((err = check_cache_indirection(c, SELF_CACHE, x.rank == 3 ? x.dim[0] : DIM_UNKNOWN)))
		return err;
	if (past.rank == 5) {
		if ((err = infer_unify(c, SELF_PAST, head_size(hidden, p->num_heads), past.dim[4],
				       &same)))
			return err;
		if (!p->past_present_share_buffer && past.dim[3] >= 0)
			past.dim[3]++;
	}
	if (y.rank == 3)
		y.dim[2] = hidden;
	infer_set(c, 0, infer_dtype(c, 0), &y);
	infer_set(c, 1, infer_dtype(c, 0), &past);
	return 0;
}

/* ---- LongformerAttention -------------------------------------------------------------------------- */

struct longformer {
	int64_t num_heads, window;
};
enum { LONG_X, LONG_W, LONG_BIAS, LONG_MASK, LONG_GLOBAL_W, LONG_GLOBAL_BIAS, LONG_GLOBAL };

static int longformer_infer(struct infer *c)
{
	const struct longformer *p = infer_params(c);
	struct shape x = infer_shape(c, LONG_X);
	int64_t twice = p->window > 0 && p->window <= INT32_MAX ? 2 * p->window : 0;
	int err = check_hidden(c, LONG_X, p->num_heads, 1);

	if (err)
		return err;
	if (!twice)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "a window of at least 1",
				  fmt(c->diag, "%" PRId64, p->window));
	if (x.rank == 3 && x.dim[1] >= 0 && x.dim[1] % twice)
		return infer_refuse_shape(
			c, LONG_X, fmt(c->diag, "a length that is a multiple of %" PRId64, twice));
	if (x.rank == 3 && infer_shape(c, LONG_W).rank == 2) {
		int64_t same;
		for (uint32_t i = LONG_W; i <= LONG_GLOBAL_W; i += LONG_GLOBAL_W - LONG_W) {
			struct shape w = infer_shape(c, i);
			if (w.rank == 2 && (err = infer_unify(c, (int)i, known_product(3, x.dim[2]),
							      w.dim[1], &same)))
				return err;
		}
	}
	return infer_same(c);
}

/* A token sees the tokens within the window and the global ones; a global token sees all, by projections of its own. */
#define LONGFORMER_TEXT                                                                                 \
	"q, k, v = Split(Add(MatMul(input, weight), bias)) {axis=-1, num_outputs=3}; "                  \
	"gq, gk, gv = Split(Add(MatMul(input, global_weight), global_bias)) {axis=-1, num_outputs=3}; " \
	"at = Range(0, Squeeze(Shape(input) {start=1, end=2}), 1); "                                    \
	"far = Greater(Abs(Sub(Unsqueeze(at, [1]), at)), $window); "                                    \
	"every = Greater(global, 0); hidden = And(far, Unsqueeze(Not(every), [1])); "                   \
	"wide = Unsqueeze(mask, [1, 2]); "                                                              \
	"near = Where(Unsqueeze(hidden, [1]), -inf, wide); "                                            \
	"y = com.microsoft::MultiHeadAttention(q, k, v, _, _, near) {num_heads=$num_heads}; "           \
	"gy = com.microsoft::MultiHeadAttention(gq, gk, gv, _, _, Expand(wide, Shape(near))) "          \
	"{num_heads=$num_heads}; "                                                                      \
	"output = Where(Unsqueeze(every, [2]), gy, y)"

/* ---- rows ------------------------------------------------------------------------------------------- */

static const struct slot decoder_in[] = {
	SLOT("query", "T", NF, .dims = "B 1 _"),
	SLOT_OPT("key", "T", NF, .dims = "B 1 $num_heads*E | B $num_heads L E", .with = "value"),
	SLOT_OPT("value", "T", NF, .dims = "B 1 $num_heads*E | B $num_heads L E", .with = "key"),
	SLOT_OPT("mask_index", NULL, T_I32, .dims = "B _"),
	SLOT_OPT("attention_bias", "T", NF, .dims = "B? $num_heads? 1 _"),
	SLOT_OPT("past_key", "T", NF, .dims = "B $num_heads P E", .with = "past_value"),
	SLOT_OPT("past_value", "T", NF, .dims = "B $num_heads P E", .with = "past_key"),
	SLOT_OPT("past_sequence_length", NULL, T_I32, .dims = "() | 1"),
	SLOT_OPT("beam_width", NULL, T_I32, .dims = "() | 1"),
	SLOT_OPT("cache_indirection", NULL, T_I32, .dims = "_ _ _"),
	SLOT_OPT("bias", "T", NF, .dims = "_"),
	SLOT_END};
static const struct slot decoder_out[] = {SLOT("output", "T", NF), SLOT_OPT("present_key", "T", NF),
					  SLOT_OPT("present_value", "T", NF),
					  SLOT_OPT("qk", "QK", NF), SLOT_END};
static const struct slot self_in[] = {SLOT("input", "T", NF, .dims = "B 1 I"),
				      SLOT("weights", "T", NF, .dims = "I W"),
				      SLOT("bias", "T", NF, .dims = "W"),
				      SLOT_OPT("mask_index", NULL, T_I32, .dims = "B _"),
				      SLOT("past", "T", NF, .dims = "2 B $num_heads P E"),
				      SLOT_OPT("attention_bias", "T", NF, .dims = "B? $num_heads? 1 _"),
				      SLOT("past_sequence_length", NULL, T_I32, .dims = "() | 1"),
				      SLOT_OPT("beam_width", NULL, T_I32, .dims = "() | 1"),
				      SLOT_OPT("cache_indirection", NULL, T_I32, .dims = "_ _ _"),
				      SLOT_END};
static const struct slot self_out[] = {SLOT("output", "T", NF), SLOT("present", "T", NF), SLOT_END};
static const struct slot longformer_in[] = {SLOT("input", "T", NF, .dims = "B S H"),
					    SLOT("weight", "T", NF, .dims = "H W"),
					    SLOT("bias", "T", NF, .dims = "W"),
					    SLOT("mask", "T", NF, .dims = "B S"),
					    SLOT("global_weight", "T", NF, .dims = "H W"),
					    SLOT("global_bias", "T", NF, .dims = "W"),
					    SLOT("global", NULL, T_I32, .dims = "B S"),
					    SLOT_END};
static const struct slot longformer_out[] = {SLOT("output", "T", NF), SLOT_END};

#define D struct decoder_masked
#define DECODER_FIELDS                                                                             \
	FIELD_REQ(D, num_heads, F_INT, "heads"),                                                   \
		FIELD(D, past_present_share_buffer, F_INT, "0",                                    \
		      "1: past and present are one buffer"),                                       \
		FIELD(D, mask_filter_value, F_FLOAT, "-10000", "score of what is masked"),         \
		FIELD(D, scale, F_FLOAT, NULL, "of Q K^T; absent: 1 / sqrt(head size)")
static const struct field decoder_attrs[] = {
	DECODER_FIELDS, FIELD(D, output_qk, F_INT, "0", "1: qk is wanted"), {0}};
static const struct field self_attrs[] = {
	DECODER_FIELDS, FIELD(D, do_rotary, F_INT, "0", "1: turn q and k"), {0}};
static const struct field longformer_attrs[] = {
	FIELD_REQ(struct longformer, num_heads, F_INT, "heads"),
	FIELD_REQ(struct longformer, window, F_INT, "tokens seen on either side"),
	{0}};

const struct op ops_decoder[] = {
	{.name = "DecoderMaskedMultiHeadAttention",
	 MICROSOFT,
	 .in = decoder_in,
	 .out = decoder_out,
	 ATTRS(decoder_attrs, struct decoder_masked),
	 .infer = decoder_infer,
	 .expand_as = decoder_text},
	{.name = "DecoderMaskedSelfAttention",
	 MICROSOFT,
	 .in = self_in,
	 .out = self_out,
	 ATTRS(self_attrs, struct decoder_masked),
	 .infer = self_infer,
	 .expand = "old_k, old_v = Split(past) {axis=0, num_outputs=2}; "
		   "output, k, v = com.microsoft::DecoderMaskedMultiHeadAttention(Add(MatMul(input, weights), bias), "
		   "_, _, mask_index?, attention_bias?, Squeeze(old_k, [0]), Squeeze(old_v, [0]), "
		   "past_sequence_length, beam_width?, cache_indirection?) {num_heads=$num_heads, "
		   "past_present_share_buffer=$past_present_share_buffer, "
		   "mask_filter_value=$mask_filter_value, scale=$scale}; "
		   "present = Concat(Unsqueeze(k, [0]), Unsqueeze(v, [0])) {axis=0}",
	 .flags = OP_PRODUCT},
	{.name = "LongformerAttention",
	 MICROSOFT,
	 .in = longformer_in,
	 .out = longformer_out,
	 ATTRS(longformer_attrs, struct longformer),
	 .infer = longformer_infer,
	 .expand = LONGFORMER_TEXT,
	 .flags = OP_PRODUCT},
	{0}};
