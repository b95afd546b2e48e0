/* SPDX-License-Identifier: Apache-2.0 */
/*
 * com.microsoft's GroupQueryAttention. Several query heads share one head of keys and values. The cache may
 * be quantized to 8 or 4 bits, or hold only a sliding window of positions. Queries and keys may be normalised
 * (RMS norm per head) and rotated by rotary embedding before the product.
 */
#include "cpu/attention/kernels.h"
#include "cpu/attention/heads.h"
#include "cpu/attention/rotary.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/attention.h"

#include <math.h>
#include <string.h>

static void set_sizes(const struct group_query *p, const struct shape *q, bool packed, int64_t room,
		      struct heads *a)
{
	a->batch = q->dim[0];
	a->queries = q->dim[1];
	a->heads = p->num_heads;
	a->kv_heads = p->kv_num_heads;
	a->size = a->vsize = q->dim[2] / (packed ? p->num_heads + 2 * p->kv_num_heads : p->num_heads);
	a->keys = room;
}

/*
 * Returns how many rows of keys the attention reads: the capacity of the cache or, with a sliding window, the rows of
 * the past cache plus the new rows.
 */
static int64_t rows_read(const struct group_query *p, const struct shape *present,
			 const struct shape *past, int64_t queries, int64_t total)
{
	int64_t room = present && present->rank == 4 ? present->dim[2] : total;

	if (p->sliding_window_cache)
		return (past ? past->dim[2] : 0) + queries;
	return past && past->dim[2] > room ? past->dim[2] : room;
}

int group_query_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct group_query *p = site_params(site);
	const struct vinfo *q = site_in(site, GQA_Q), *present = site_out(site, 1),
			   *total = site_in(site, GQA_TOTAL);
	const struct shape *past = site_shape(site, GQA_PAST_K);
	int64_t n = total->known ? elem_i64(DT_I32, total->known->data, 0) : 0;
	int64_t room = rows_read(p, present ? &present->shape : NULL, past, q->shape.dim[1], n);
	struct heads a = {0};

	(void)d;
	set_sizes(p, &q->shape, !site_in(site, GQA_K), room, &a);
	size_t kv = scratch_size((size_t)(a.batch * a.kv_heads * room * a.size) * sizeof(float));
	size_t scores = scratch_size((size_t)(a.batch * a.heads * a.queries * room) * sizeof(float));
	step->workspace =
		wide_workspace(site) + 6 * kv +
		scratch_size(heads_scratch(GEMM_F32, a.queries, room)) +
		scratch_size((size_t)(a.batch * a.queries * (a.heads + 2 * a.kv_heads) * a.size) *
			     sizeof(float)) +
		3 * scratch_size((size_t)a.batch * sizeof(int64_t)) +
		scratch_size((size_t)a.heads * sizeof(float));
	if (site_out(site, 3))
		step->workspace += scores;
	if (site_in(site, GQA_BIAS) && p->sliding_window_cache)
		step->workspace += scores;
	return 0;
}

/* How a quantized cache of keys or values is encoded. */
struct codes {
	enum dtype t;
	int bits;
	const float *scale; /* NULL: the cache is not quantized */
	bool each; /* true if each head and channel has its own scale, false if all share one */
};

static float code_scale(const struct codes *q, int64_t head, int64_t size, int64_t i)
{
	return q->scale[q->each ? head * size + i : 0];
}

static float decode_code(const struct codes *q, const void *x, int64_t i)
{
	if (q->bits == 4)
		return (float)(((const uint8_t *)x)[i / 2] >> (i & 1) * 4 & 15) - 8;
	return (float)elem_f64(q->t, x, i);
}

/* Rounds x to the nearest value that a code can have. */
static float nearest_code(const struct codes *q, float x)
{
	float most = q->bits == 4 ? 7 : 127;

	if (q->t == DT_F8E4M3FN)
		return f8_to_f32(q->t, f32_to_f8(q->t, x, true));
	x = rintf(x);
	x = x > -most - 1 ? x : -most - 1;
	return x < most ? x : most;
}

static void encode_code(const struct codes *q, float code, void *y, int64_t i)
{
	if (q->bits != 4) {
		elem_set_f64(q->t, y, i, (double)code);
		return;
	}
	uint8_t *to = (uint8_t *)y + i / 2, nibble = (uint8_t)((int)code + 8);
	*to = i & 1 ? (uint8_t)((*to & 15) | nibble << 4) : (uint8_t)((*to & 0xf0) | nibble);
}

/* Dequantizes the past cache into the workspace. */
static const float *dequantize_past(const struct codes *q, const struct heads *a,
				    const struct tensor *past, struct scratch *s)
{
	int64_t rows = past->shape.dim[2], n = a->batch * a->kv_heads * rows * a->size;
	float *to = scratch_take(s, (size_t)n * sizeof(float));

	for (int64_t i = 0; i < n; i++)
		to[i] = decode_code(q, past->data, i) *
			code_scale(q, i / (rows * a->size) % a->kv_heads, a->size, i % a->size);
	return to;
}

/*
 * Quantizes and dequantizes the new rows, so that this step reads the same values as later steps, which read them
 * from the quantized cache. used[b] is how many rows of the past batch b has.
 */
static void round_new_rows(const struct codes *q, const struct heads *a, const int64_t *used, float *x)
{
	for (int64_t bh = 0; bh < a->batch * a->kv_heads; bh++)
		for (int64_t r = used[bh / a->kv_heads];
		     r < used[bh / a->kv_heads] + a->queries && r < a->keys; r++)
			for (int64_t i = 0; i < a->size; i++) {
				float f = code_scale(q, bh % a->kv_heads, a->size, i);
				float *v = x + (bh * a->keys + r) * a->size + i;
				*v = nearest_code(q, *v / f) * f;
			}
}

/*
 * Returns how many positions a sliding-window cache holds once the sequence has `t` positions. When the cache
 * overflows, the oldest capacity - local_window_size + 1 positions are dropped at once, so that local_window_size
 * positions remain.
 */
static int64_t positions_kept(const struct group_query *p, int64_t capacity, int64_t t)
{
	int64_t step = capacity - p->local_window_size + 1;

	if (t <= capacity)
		return t;
	return t - step * ((t - capacity + step - 1) / step);
}

/*
 * Writes the cache after the step in the cache's type: for each head of batch b, count[b] rows of x starting at
 * row first[b], then zeros.
 */
static void write_present(const struct codes *q, const struct heads *a, const float *x,
			  const int64_t *first, const int64_t *count, struct tensor *y)
{
	int64_t rows = y->shape.dim[2];

	memset(y->data, 0, y->bytes);
	for (int64_t bh = 0; bh < a->batch * a->kv_heads; bh++)
		for (int64_t r = 0; r < count[bh / a->kv_heads] && r < rows; r++) {
			const float *from =
				x + (bh * a->keys + first[bh / a->kv_heads] + r) * a->size;
			int64_t to = (bh * rows + r) * a->size;
			if (!q->scale) {
				from_f32(tensor_dtype(y), from, a->size, y->data, to);
				continue;
			}
			for (int64_t i = 0; i < a->size; i++)
				encode_code(q,
					    nearest_code(q, from[i] / code_scale(q, bh % a->kv_heads,
										 a->size, i)),
					    y->data, to + i);
		}
}

/* Copies the heads that x views into the dense buffer t->y. Applies RMS norm to each head if `norm` is not NULL. */
static void copy_heads(const struct rotation *t, const struct attend_view *x, const float *norm,
		       float epsilon)
{
	for (int64_t b = 0; b < t->batches; b++)
		for (int64_t n = 0; n < t->heads; n++)
			for (int64_t s = 0; s < t->length; s++) {
				const float *from = (const float *)x->data + b * x->batch +
						    n * x->head + s * x->row;
				float *to = t->y + b * t->batch + n * t->head + s * t->row, sum = 0;
				for (int64_t i = 0; norm && i < t->size; i++)
					sum += from[i] * from[i];
				float f = norm ? 1 / sqrtf(sum / (float)t->size + epsilon) : 1;
				for (int64_t i = 0; i < t->size; i++)
					to[i] = from[i] * f * (norm ? norm[i] : 1);
			}
}

/*
 * Copies the queries or keys that x views to `to`, normalises them as the node says, turns them as `turn` says, and lets x view the
 * copy. norm is the index of the input that holds the norm's weights.
 */
static int prepare_operand(const struct call *c, const struct heads *a, struct attend_view *x,
			   int64_t heads, uint32_t norm, const struct rotation *turn, float *to,
			   struct scratch *s)
{
	const struct group_query *p = call_params(c);
	const float *weights = wide_in(s, optional_in(c, norm));
	struct rotation t = *turn;

	t.x = t.y = to;
	t.heads = heads;
	t.batch = heads * t.head;
	if (t.cos && !rotary_fits(&t, optional_in(c, GQA_COS)->shape.dim[0]))
		return call_fail(c, E_VALUE, "caches that have every position", NULL);
	copy_heads(&t, x, weights, group_query_epsilon(p, norm));
	if (t.cos)
		rotary_turn(&t, 1);
	*x = heads_view(to, heads, a->queries, a->size, false);
	return 0;
}

/*
 * How queries and keys are turned. The caches of angles are converted here, once for both: the workspace has room for each input once.
 * starts[b] is the position of batch b's first row.
 */
static int describe_turn(const struct call *c, const struct heads *a, const int64_t *starts,
			 struct scratch *s, struct rotation *t)
{
	const struct group_query *p = call_params(c);
	const struct tensor *cos = optional_in(c, GQA_COS), *position = optional_in(c, GQA_POSITION);

	*t = (struct rotation){.batches = a->batch,
			       .length = a->queries,
			       .size = a->size,
			       .row = a->size,
			       .head = a->queries * a->size,
			       .interleaved = p->rotary_interleaved != 0,
			       .counted = true,
			       .starts = starts};
	if (!p->do_rotary || !cos)
		return 0;
	t->turned = 2 * cos->shape.dim[1];
	t->cos = wide_in(s, cos);
	t->sin = wide_in(s, optional_in(c, GQA_SIN));
	if (position) {
		t->position = position->data;
		t->position_batch = a->queries;
		t->position_row = 1;
	}
	if (t->turned > a->size || !t->sin)
		return call_fail(c, E_VALUE, "caches that have every position", NULL);
	return 0;
}

/* Fills the present cache `to`: the first starts[b] rows of batch b's past, then the new rows, then zeros. */
static void append_new(const struct heads *a, const float *past, int64_t past_room,
		       const int64_t *starts, const struct attend_view *x, float *to)
{
	for (int64_t b = 0; b < a->batch; b++)
		for (int64_t h = 0; h < a->kv_heads; h++) {
			int64_t at = b * a->kv_heads + h, used = starts[b];
			float *y = to + at * a->keys * a->size;
			if (past && used > 0)
				memcpy(y, past + at * past_room * a->size,
				       (size_t)(used * a->size) * sizeof(float));
			for (int64_t r = 0; r < a->queries && used + r < a->keys; r++)
				memcpy(y + (used + r) * a->size,
				       (const float *)x->data + b * x->batch + h * x->head + r * x->row,
				       (size_t)a->size * sizeof(float));
			int64_t end = used + a->queries;
			if (end < a->keys)
				memset(y + end * a->size, 0,
				       (size_t)((a->keys - end) * a->size) * sizeof(float));
		}
}

/*
 * Reads seqlens_k. Sets valid[b] to the number of keys that batch b may see, starts[b] to the position of the batch's
 * first query, and used[b] to the number of rows in use in the batch's past cache. In the first prompt (as many
 * queries as positions in total) a batch may have fewer valid keys than queries; the further queries are padding.
 */
static int read_lengths(const struct call *c, const struct heads *a, int64_t total,
			int64_t past_room, int64_t *valid, int64_t *starts, int64_t *used)
{
	const struct group_query *p = call_params(c);
	const struct tensor *lens = c->in[GQA_SEQLENS];
	bool prompt = a->queries == total;

	if (tensor_count(lens) != a->batch)
		return call_fail(c, E_SHAPE, "seqlens_k of one number a batch", NULL);
	for (int64_t b = 0; b < a->batch; b++) {
		valid[b] = (int64_t)((const int32_t *)lens->data)[b] + 1;
		used[b] = starts[b] = prompt ? 0 : valid[b] - a->queries;
		if (valid[b] < 0 || starts[b] < 0)
			return call_fail(c, E_VALUE, "seqlens_k that fit the cache", NULL);
		if (p->sliding_window_cache) {
			used[b] = positions_kept(p, past_room, starts[b]);
			valid[b] = used[b] + valid[b] - starts[b];
		}
		if (valid[b] > a->keys || used[b] > past_room)
			return call_fail(c, E_VALUE, "seqlens_k that fit the cache", NULL);
	}
	return 0;
}

/* Sets the views of q, k and v, which are three inputs or, if `packed` is set, side by side in one input. */
static void set_views(const struct call *c, bool packed, struct heads *a, struct scratch *s)
{
	const float *q = wide_in(s, c->in[GQA_Q]);
	int64_t wide = (packed ? a->heads + 2 * a->kv_heads : a->heads) * a->size;
	a->q = (struct attend_view){q, a->queries * wide, a->size, wide};
	if (packed) {
		a->k = (struct attend_view){q + a->heads * a->size, a->queries * wide, a->size, wide};
		a->v = (struct attend_view){q + (a->heads + a->kv_heads) * a->size,
					    a->queries * wide, a->size, wide};
	} else {
		a->k = heads_view(wide_in(s, c->in[GQA_K]), a->kv_heads, a->queries, a->size, true);
		a->v = heads_view(wide_in(s, c->in[GQA_V]), a->kv_heads, a->queries, a->size, true);
	}
}

static int set_codes(const struct call *c, const struct heads *a, uint32_t past, uint32_t scale,
		     struct codes *q)
{
	const struct group_query *p = call_params(c);
	const struct tensor *cache = optional_in(c, past), *f = optional_in(c, scale);

	*q = (struct codes){.t = cache ? tensor_dtype(cache) : DT_F32};
	if (!cache || T_BIT(q->t) & (T_F32 | T_F16 | T_BF16))
		return 0;
	q->bits = (int)p->kv_cache_bit_width;
	if (!f || (tensor_count(f) != 1 && tensor_count(f) != a->kv_heads * a->size))
		return call_fail(c, E_SHAPE, "one scale of the cache, or one a channel", NULL);
	if (q->t == DT_U8 ? q->bits != 4 || a->size % 2 : q->bits == 4)
		return call_fail(c, E_OP_ATTRIBUTE,
				 "4-bit codes in uint8, others in a type of their own", NULL);
	q->scale = f->data;
	q->each = tensor_count(f) != 1;
	return 0;
}

/*
 * Joins the cached and the new rows of the keys (or values) in the buffer `to` and lets x view it, so that
 * the attention reads one buffer.
 */
static void join_cache(const struct call *c, const struct codes *q, struct heads *a, uint32_t past,
		       struct attend_view *x, float *to, const int64_t *used, struct scratch *s)
{
	const struct tensor *cache = optional_in(c, past);
	const float *old = !cache     ? NULL
			   : q->scale ? dequantize_past(q, a, cache, s)
				      : wide_in(s, cache);

	append_new(a, old, cache ? cache->shape.dim[2] : 0, used, x, to);
	if (q->scale)
		round_new_rows(q, a, used, to);
	*x = heads_view(to, a->kv_heads, a->keys, a->size, false);
}

/*
 * Adds attention_bias to the masks of `a`. attention_bias has a column for each position since the start of the
 * sequence. A sliding-window cache holds only the last positions (used != starts), so the columns of those positions
 * are copied to a mask of their own.
 */
static void add_bias(const struct call *c, struct heads *a, const int64_t *starts,
		     const int64_t *used, struct scratch *s)
{
	const struct tensor *bias = optional_in(c, GQA_BIAS);

	if (!bias)
		return;
	struct heads_mask all = {.data = wide_in(s, bias)}, *m = &a->mask[1];
	heads_mask_steps(&bias->shape, a->keys, &all);
	*m = all;
	if (used == starts)
		return;
	int64_t n = a->heads * a->queries * a->keys;
	float *to = scratch_take(s, (size_t)(a->batch * n) * sizeof(float));
	for (int64_t i = 0; i < a->batch * n; i++) {
		int64_t b = i / n, h = i / (a->queries * a->keys) % a->heads;
		int64_t q = i / a->keys % a->queries, j = i % a->keys + starts[b] - used[b];
		const float *row = (const float *)all.data + b * all.step[0] + h * all.step[1] +
				   q * all.step[2];
		to[i] = j < all.keys ? row[j * all.step[3]] : 0;
	}
	*m = (struct heads_mask){
		.data = to, .step = {n, a->queries * a->keys, a->keys, 1}, .keys = a->keys};
}

/*
 * Writes the output output_qk, whose rows have one score for each position of the sequence. Masked scores (-inf)
 * become 0.
 */
static void write_scores(const struct heads *a, const float *qk, struct tensor *y)
{
	int64_t total = y->shape.dim[3];

	for (int64_t r = 0; r < a->batch * a->heads * a->queries; r++)
		for (int64_t j = 0; j < total; j++) {
			float v = j < a->keys ? qk[r * a->keys + j] : 0;
			v = isinf(v) && v < 0 ? 0 : v;
			from_f32(tensor_dtype(y), &v, 1, y->data, r * total + j);
		}
}

/*
 * Writes the caches after the step if the attention read other buffers, because the cache is a sliding window
 * or quantized. Overwrites used[b] with the first row to keep and starts[b] with the number of rows to keep.
 */
static void write_caches(const struct call *c, const struct codes *codes, const struct heads *a,
			 const float *const *kv, int64_t *starts, int64_t *used)
{
	const struct group_query *p = call_params(c);
	const int32_t *lens = c->in[GQA_SEQLENS]->data;

	for (int64_t b = 0; b < a->batch; b++) {
		int64_t t = (int64_t)lens[b] + 1, all = used[b] + t - starts[b];
		int64_t keep = p->sliding_window_cache
				       ? positions_kept(p, c->in[GQA_PAST_K]->shape.dim[2], t)
				       : used[b] + a->queries;
		used[b] = p->sliding_window_cache ? all - keep : 0;
		starts[b] = keep;
	}
	for (uint32_t i = 0; i < 2; i++)
		if (optional_out(c, 1 + i))
			write_present(&codes[i], a, kv[i], used, starts, c->out[1 + i]);
}

/* Replaces q and k by normalised and rotated copies. */
static int prepare_queries_and_keys(const struct call *c, struct heads *a, const int64_t *starts,
				    struct scratch *s)
{
	int64_t each = a->batch * a->queries * a->size;
	float *to = scratch_take(s, (size_t)(each * (a->heads + a->kv_heads)) * sizeof(float));
	struct rotation turn;
	int rc = describe_turn(c, a, starts, s, &turn);

	if (!rc)
		rc = prepare_operand(c, a, &a->q, a->heads, GQA_Q_NORM, &turn, to, s);
	return rc ? rc
		  : prepare_operand(c, a, &a->k, a->kv_heads, GQA_K_NORM, &turn,
				    to + each * a->heads, s);
}

/*
 * Returns the attention sink, one extra score per head that takes part in the softmax. The scores come from an input,
 * or are 0 for smooth_softmax. Returns NULL if the node has no sink.
 */
static const float *sink_of(const struct call *c, const struct heads *a, struct scratch *s)
{
	const struct group_query *p = call_params(c);
	const float *given = wide_in(s, optional_in(c, GQA_SINK));
	size_t bytes = (size_t)a->heads * sizeof(float);

	return given || p->smooth_softmax != 1 ? given : memset(scratch_take(s, bytes), 0, bytes);
}

/*
 * Rounds the fp32 caches to the outputs if those have another type. Caches for fp32 outputs were built in the outputs
 * already.
 */
static void round_caches(const struct call *c, const float *key, const float *value)
{
	if (optional_out(c, 1))
		wide_done(c->out[1], key);
	if (optional_out(c, 2))
		wide_done(c->out[2], value);
}

int group_query_run(const struct call *c)
{
	const struct group_query *p = call_params(c);
	const struct tensor *past = optional_in(c, GQA_PAST_K), *present = optional_out(c, 1);
	bool packed = !optional_in(c, GQA_K), sliding = p->sliding_window_cache != 0;
	int64_t total = *(const int32_t *)c->in[GQA_TOTAL]->data;
	struct scratch s = scratch_of(c);
	struct heads a = {.right = -1,
			  .causal = p->causal != 0,
			  .softcap = p->softcap,
			  .hidden = -INFINITY,
			  .scores = p->qk_output == 2 ? HEADS_PROBABILITIES : HEADS_MASKED};
	struct codes codes[2];
	int rc;

	set_sizes(p, &c->in[GQA_Q]->shape, packed,
		  rows_read(p, present ? &present->shape : NULL, past ? &past->shape : NULL,
			    c->in[GQA_Q]->shape.dim[1], total),
		  &a);
	a.scale = heads_ms_scale(p->scale, a.size);
	a.left = p->local_window_size > 0 ? p->local_window_size - 1 : -1;
	int64_t *valid = scratch_take(&s, (size_t)a.batch * sizeof(int64_t));
	int64_t *starts = scratch_take(&s, (size_t)a.batch * sizeof(int64_t));
	int64_t *used = scratch_take(&s, (size_t)a.batch * sizeof(int64_t));
	if ((rc = read_lengths(c, &a, total, past ? past->shape.dim[2] : 0, valid, starts, used)) ||
	    (rc = set_codes(c, &a, GQA_PAST_K, GQA_K_SCALE, &codes[0])) ||
	    (rc = set_codes(c, &a, GQA_PAST_V, GQA_V_SCALE, &codes[1])))
		return rc;
	a.scratch = scratch_take(&s, heads_scratch(GEMM_F32, a.queries, a.keys));
	set_views(c, packed, &a, &s);
	if ((rc = prepare_queries_and_keys(c, &a, starts, &s)))
		return rc;
	size_t kv = (size_t)(a.batch * a.kv_heads * a.keys * a.size) * sizeof(float);
	bool apart = sliding || codes[0].scale || codes[1].scale;
	float *key = apart ? NULL : wide_out(&s, optional_out(c, 1));
	float *value = apart ? NULL : wide_out(&s, optional_out(c, 2));
	key = key ? key : scratch_take(&s, kv);
	value = value ? value : scratch_take(&s, kv);
	join_cache(c, &codes[0], &a, GQA_PAST_K, &a.k, key, used, &s);
	join_cache(c, &codes[1], &a, GQA_PAST_V, &a.v, value, used, &s);
	a.valid = valid;
	a.offsets = used;
	add_bias(c, &a, starts, sliding ? used : starts, &s);
	a.sink = sink_of(c, &a, &s);
	if (optional_out(c, 3))
		a.qk = scratch_take(&s, (size_t)(a.batch * a.heads * a.queries * a.keys) *
						sizeof(float));
	heads_merged_result(&a, wide_out(&s, c->out[0]));
	heads_run(&a);
	wide_done(c->out[0], a.y);
	if (optional_out(c, 3))
		write_scores(&a, a.qk, c->out[3]);
	if (apart)
		write_caches(c, codes, &a, (const float *const[]){key, value}, starts, used);
	else
		round_caches(c, key, value);
	return 0;
}

bool group_query_accepts(const struct site *s, struct why *why)
{
	const struct group_query *p = site_params(s);

	if (site_out(s, 3) && p->sliding_window_cache)
		return refuse(why, "output_qk of a window's cache");
	return true;
}
