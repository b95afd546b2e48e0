/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft's operators on runs of n tokens: what would repeat one is hidden, and runs are hashed for tables of embeddings. */
#include "ops/infer_util.h"

#include <inttypes.h>

enum { MAX_REPEAT = 16, MAX_HASHED = 8 };

/* ---- NGramRepeatBlock ------------------------------------------------------------------------------ */

struct repeat_block {
	int64_t ngram_size;
};

static int repeat_infer(struct infer *c)
{
	const struct repeat_block *p = infer_params(c);
	struct shape y = infer_shape(c, 1);

	if (p->ngram_size < 1 || p->ngram_size > MAX_REPEAT)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "ngram_size from 1 to %d", MAX_REPEAT),
				  fmt(c->diag, "%" PRId64, p->ngram_size));
	infer_set(c, 0, infer_dtype(c, 1), &y);
	return 0;
}

/* Tokens that follow where the last n - 1 tokens stood before get the least score, all others keep theirs. */
static const char *repeat_text(const struct graph *g, const struct node *n)
{
	int before = (int)((const struct repeat_block *)n->params)->ngram_size - 1;
	const char *text = arena_printf(
		g->arena,
		"count = Max(Sub(Shape(input_ids) {start=1}, %d), [0]); "
		"next = Slice(input_ids, [%d], [2147483647], [1]); found0 = Equal(next, next); ",
		before, before);

	for (int j = 0; j < before; j++)
		text = arena_printf(
			g->arena,
			"%sfound%d = And(found%d, Equal(Slice(input_ids, [%d], Add(count, %d), [1]), "
			"Slice(input_ids, [%d], [%d], [1]))); ",
			text, j + 1, j, j, j, j - before,
			j + 1 < before ? j + 1 - before : INT32_MAX);
	return arena_printf(
		g->arena,
		"%smost = Reciprocal(Cast(0) {to=1}); scores_out = ScatterElements(scores, next, "
		"Where(found%d, Neg(most), most)) {axis=1, reduction=min}",
		text, before);
}

/* ---- NGramHashMapping ------------------------------------------------------------------------------ */

struct ngram_hash {
	int64_t max_ngram_size, n_head_per_ngram, pad_id, reset_on_eos;
};
enum { HASH_IDS, HASH_FACTORS, HASH_SIZES, HASH_PAST, HASH_OFFSETS, HASH_EOS, HASH_SEGMENTS };

static int check_vector(const struct infer *c, uint32_t i, int64_t n, bool more)
{
	struct shape s = infer_shape(c, i);

	if (s.rank != 1 || s.dim[0] < 0 || s.dim[0] == n || (more && s.dim[0] > n))
		return 0;
	return infer_fail(c, E_SHAPE, (int)i, fmt(c->diag, "%" PRId64 " elements", n),
			  infer_shape_text(c, &s));
}

static int hash_infer(struct infer *c)
{
	const struct ngram_hash *p = infer_params(c);
	struct shape x = infer_shape(c, HASH_IDS), y;
	int64_t n = p->max_ngram_size, heads = p->n_head_per_ngram, same;
	int64_t batch = x.rank == 2 ? x.dim[0] : DIM_UNKNOWN,
		length = x.rank == 2 ? x.dim[1] : DIM_UNKNOWN;
	int err;

	if (n < 2 || n > MAX_HASHED || heads < 1 || heads > INT32_MAX)
		return infer_fail(
			c, E_OP_ATTRIBUTE, -1,
			fmt(c->diag, "max_ngram_size from 2 to %d, and n_head_per_ngram of 1 or more",
			    MAX_HASHED),
			fmt(c->diag, "%" PRId64 " and %" PRId64, n, heads));
	struct shape past = infer_shape(c, HASH_PAST);
	if ((err = check_vector(c, HASH_FACTORS, n, true)) ||
	    (err = check_vector(c, HASH_SIZES, (n - 1) * heads, false)) ||
	    (err = check_vector(c, HASH_OFFSETS, (n - 1) * heads, false)) ||
	    (past.rank == 2 && (err = infer_unify(c, HASH_PAST, n - 1, past.dim[1], &same))))
		return err;
	const struct tensor *sizes = infer_in(c, HASH_SIZES)->known;
	for (int64_t i = 0; sizes && i < tensor_count(sizes); i++)
		if (elem_i64(tensor_dtype(sizes), sizes->data, i) < 1)
			return infer_fail(c, E_VALUE, HASH_SIZES, "positive sizes", NULL);
	y = shape_of(3, (int64_t[]){batch, length, (n - 1) * heads});
	infer_set(c, 0, infer_dtype(c, HASH_IDS), &y);
	y = shape_of(2, (int64_t[]){batch, n - 1});
	infer_set(c, 1, infer_dtype(c, HASH_IDS), &y);
	return 0;
}

/*
 * Makes the text that computes shifted0, shifted1, ..., where shiftedK holds the tokens K positions earlier. Positions before the start of a
 * segment or, with reset_on_eos, of a document get the pad token.
 */
static const char *shifted_text(const struct graph *g, const struct node *n)
{
	const struct ngram_hash *p = n->params;
	int before = (int)p->max_ngram_size - 1;
	bool ends = p->reset_on_eos && node_in(g, n, HASH_EOS), parts = node_in(g, n, HASH_SEGMENTS);
	const char *text = "shifted0 = input_ids; out0 = Less(input_ids, input_ids); ";

	for (int j = 1; j <= before; j++) {
		const char *here = arena_printf(g->arena, "Slice(all, [%d], Add(size, %d), [1])",
						before - j, before - j);
		const char *out = arena_printf(g->arena, "out%d", j - 1);
		if (ends)
			out = arena_printf(g->arena, "Or(%s, Equal(%s, missing))", out, here);
		if (parts)
			out = arena_printf(g->arena, "Or(%s, Slice(begins, [%d], Add(size, %d), [1]))",
					   out, before - j + 1, before - j + 1);
		text = arena_printf(g->arena, "%sout%d = %s; shifted%d = Where(out%d, missing, %s); ",
				    text, j, out, j, j, here);
	}
	return text;
}

static const char *hash_text(const struct graph *g, const struct node *n)
{
	const struct ngram_hash *p = n->params;
	int64_t before = p->max_ngram_size - 1, heads = p->n_head_per_ngram;
	const char *text = arena_printf(
		g->arena,
		"size = Shape(input_ids) {start=1}; missing = %s; rows = Concat(Shape(input_ids) {end=1}, [%" PRId64
		"]) {axis=0}; all = Concat(%s, input_ids) {axis=1}; %s%s"
		"present_ids = Slice(all, size, [2147483647], [1]); "
		"mix1 = Mul(shifted0, Gather(multipliers, 0)); ",
		node_in(g, n, HASH_EOS) ? "eos_token_id" : "CastLike($pad_id, input_ids)", before,
		node_in(g, n, HASH_PAST) ? "past_ids" : "Expand(missing, rows)",
		node_in(g, n, HASH_SEGMENTS)
			? arena_printf(
				  g->arena,
				  "old = Less(Expand(Cast(0) {to=6}, Concat(Shape(input_ids) {end=1}, [%" PRId64
				  "]) {axis=0}), 0); begins = Concat(old, Not(Equal(Slice(segment_ids, [1], "
				  "[2147483647], [1]), Slice(segment_ids, [0], [-1], [1])))) {axis=1}; ",
				  before + 1)
			: "",
		shifted_text(g, n));
	const char *hashes = "";

	for (int64_t k = 1; k <= before; k++) {
		text = arena_printf(g->arena,
				    "%smix%" PRId64 " = BitwiseXor(mix%" PRId64
				    ", Mul(shifted%" PRId64 ", Gather(multipliers, %" PRId64
				    "))); hash%" PRId64 " = Mod(Unsqueeze(mix%" PRId64
				    ", [2]), Slice(vocab_sizes, [%" PRId64 "], [%" PRId64 "])); ",
				    text, k + 1, k, k, k, k, k + 1, (k - 1) * heads, k * heads);
		hashes = arena_printf(g->arena, "%s%shash%" PRId64, hashes, k > 1 ? ", " : "", k);
	}
	return arena_printf(g->arena, "%shash_ids = Add(Concat(%s) {axis=2}, head_offsets?)", text,
			    hashes);
}

/* ---- rows -------------------------------------------------------------------------------------------- */

#define T_IDS (T_I32 | T_I64)
static const struct slot repeat_in[] = {SLOT("input_ids", NULL, T_I64, .dims = "B _"),
					SLOT("scores", "T", T_F32, .dims = "B _"), SLOT_END};
static const struct slot repeat_out[] = {SLOT("scores_out", "T", T_F32), SLOT_END};
static const struct field repeat_attrs[] = {
	FIELD_REQ(struct repeat_block, ngram_size, F_INT, "tokens of a run that must not repeat"),
	{0}};
static const struct slot hash_in[] = {SLOT("input_ids", "M", T_IDS, .dims = "B S"),
				      SLOT("multipliers", "M", T_IDS, .dims = "_"),
				      SLOT("vocab_sizes", "M", T_IDS, .dims = "_"),
				      SLOT_OPT("past_ids", "M", T_IDS, .dims = "B _"),
				      SLOT_OPT("head_offsets", "M", T_IDS, .dims = "_"),
				      SLOT_OPT("eos_token_id", "M", T_IDS, .dims = "()"),
				      SLOT_OPT("segment_ids", NULL, T_I32, .dims = "B S"),
				      SLOT_END};
static const struct slot hash_out[] = {SLOT("hash_ids", "M", T_IDS),
				       SLOT_OPT("present_ids", "M", T_IDS), SLOT_END};
static const struct field hash_attrs[] = {
	FIELD_REQ(struct ngram_hash, max_ngram_size, F_INT, "tokens of the longest run"),
	FIELD_REQ(struct ngram_hash, n_head_per_ngram, F_INT, "hashes of a run"),
	FIELD_REQ(struct ngram_hash, pad_id, F_INT, "stands for tokens that are missing"),
	FIELD(struct ngram_hash, reset_on_eos, F_INT, "0", "1: no run goes beyond eos_token_id"),
	{0}};

const struct op ops_ngrams[] = {{.name = "NGramRepeatBlock",
				 MICROSOFT,
				 .in = repeat_in,
				 .out = repeat_out,
				 ATTRS(repeat_attrs, struct repeat_block),
				 .infer = repeat_infer,
				 .expand_as = repeat_text},
				{.name = "NGramHashMapping",
				 MICROSOFT,
				 .in = hash_in,
				 .out = hash_out,
				 ATTRS(hash_attrs, struct ngram_hash),
				 .infer = hash_infer,
				 .expand_as = hash_text},
				{0}};
