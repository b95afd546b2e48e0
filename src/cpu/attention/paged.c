/* SPDX-License-Identifier: Apache-2.0 */
/*
 * com.microsoft's PagedAttention. The queries of several sequences are packed without padding; keys and values lie in blocks of
 * a cache that all sequences share, and a table says which blocks a sequence has. New keys and values are stored first, then
 * every query reads the cache through the table.
 */
#include "cpu/attention/kernels.h"

#include "base/mem.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/attention.h"

#include <math.h>
#include <string.h>

struct paged {
	const struct paged_attention *p;
	int64_t tokens, batch, heads, kv_heads, size, vsize,
		group; /* group: heads of queries that share one of keys */
	int64_t blocks, block,
		table_step; /* blocks of the cache; positions of a block; blocks that a sequence may have */
	const int32_t *starts, *past, *table, *slots;
	const float *cos, *sin, *sink;
	int64_t turned, cos_rows;
	/* rows of tokens, and where the heads of a kind begin in them */
	const float *q, *k, *v;
	int64_t q_step, k_step, v_step;
	const float *q_norm, *k_norm, *k_scale, *v_scale;
	bool k_each, v_each; /* a scale for each channel */
	enum dtype cache_type;
	void *k_cache, *v_cache;
	int64_t *sequence; /* of each token */
	float *turned_q, *y;
	char *room; /* of each thread */
	size_t each;
	float scale;
};

/* ---- new keys and values ----------------------------------------------------------------------- */

static int64_t position_of(const struct paged *a, int64_t token)
{
	int64_t b = a->sequence[token];

	return a->past[b] + token - a->starts[b];
}

/* Row of the cache, counted over all blocks, that holds a position of a sequence. */
static int64_t row_of(const struct paged *a, int64_t b, int64_t position)
{
	return a->table[b * a->table_step + position / a->block] * a->block + position % a->block;
}

/* Copies a head with RMS norm, if there are weights for it, and turns its pairs. */
static void prepare_head(const struct paged *a, const float *x, const float *norm, int64_t position,
			 float *y)
{
	int64_t half = a->turned / 2;
	float by = 1;

	if (norm)
		by = 1 / sqrtf(simd()->dot(x, x, a->size) / (float)a->size + a->p->qk_norm_epsilon);
	for (int64_t i = 0; i < a->size; i++)
		y[i] = norm ? x[i] * by * norm[i] : x[i];
	float *z = y + a->p->rotary_offset;
	for (int64_t i = 0; i < half; i++) {
		int64_t first = a->p->rotary_interleaved ? 2 * i : i,
			second = a->p->rotary_interleaved ? 2 * i + 1 : i + half;
		float u = z[first], v = z[second], co = a->cos[position * half + i],
		      si = a->sin[position * half + i];
		z[first] = co * u - si * v;
		z[second] = si * u + co * v;
	}
}

static void store_head(const struct paged *a, const float *x, const float *scale, bool each,
		       int64_t head, int64_t row, void *cache)
{
	int64_t at = (row * a->kv_heads + head) * a->size;

	if (!scale) {
		from_f32(a->cache_type, x, a->size, cache, at);
		return;
	}
	for (int64_t i = 0; i < a->size; i++) {
		float code = x[i] / scale[each ? head * a->size + i : 0];
		if (a->cache_type == DT_F8E4M3FN)
			((uint8_t *)cache)[at + i] = f32_to_f8(a->cache_type, code, true);
		else
			((int8_t *)cache)[at + i] =
				(int8_t)(isnan(code) ? 0 : fmaxf(-128, fminf(127, rintf(code))));
	}
}

/* A head of keys and values stores its tokens in their order, so that the last one counts where two have one row. */
static void store_tokens(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct paged *a = arg;
	float *head = (float *)(void *)(a->room + (size_t)thread * a->each);

	for (int64_t h = begin; h < end; h++)
		for (int64_t t = 0; t < a->tokens; t++) {
			int64_t position = position_of(a, t),
				row = a->slots ? a->slots[t] : row_of(a, a->sequence[t], position);
			if (row < 0)
				continue;
			prepare_head(a, a->k + t * a->k_step + h * a->size, a->k_norm, position, head);
			store_head(a, head, a->k_scale, a->k_each, h, row, a->k_cache);
			if (a->v)
				store_head(a, a->v + t * a->v_step + h * a->size, a->v_scale,
					   a->v_each, h, row, a->v_cache);
		}
}

/* ---- attention --------------------------------------------------------------------------------- */

/* Reads the first n elements of a head from a row of the cache. */
static void read_head(const struct paged *a, const void *cache, const float *scale, bool each,
		      int64_t head, int64_t row, int64_t n, float *to)
{
	int64_t at = (row * a->kv_heads + head) * a->size;

	if (a->cache_type == DT_I8)
		for (int64_t i = 0; i < n; i++)
			to[i] = ((const int8_t *)cache)[at + i];
	else
		simd_to_f32(a->cache_type, cache, at, n, to);
	for (int64_t i = 0; i < n && scale; i++)
		to[i] *= scale[each ? head * a->size + i : 0];
}

static void soften(const struct paged *a, int64_t head, float *s, int64_t n)
{
	float top = a->sink ? a->sink[head] : -INFINITY, sum = 0;

	for (int64_t j = 0; j < n; j++) {
		s[j] *= a->scale;
		if (a->p->softcap > 0)
			s[j] = a->p->softcap * tanhf(s[j] / a->p->softcap);
		top = greatest_f32(top, s[j]);
	}
	for (int64_t j = 0; j < n; j++)
		sum += s[j] = expf(s[j] - top);
	if (a->sink)
		sum += expf(a->sink[head] - top);
	for (int64_t j = 0; j < n; j++)
		s[j] /= sum;
}

/* The queries of one token that share a head of keys. */
static void attend_group(const struct paged *a, int64_t token, int64_t head, float *row, float *scores)
{
	int64_t b = a->sequence[token], own = position_of(a, token),
		all = a->past[b] + a->starts[b + 1] - a->starts[b];
	int64_t end = a->p->is_causal ? own + 1 : all,
		first = a->p->local_window_size > 0 ? greater(0, own - a->p->local_window_size + 1)
						    : 0,
		n = end - first;
	const float *q = a->turned_q + (token * a->heads + head * a->group) * a->size;
	float *y = a->y + (token * a->heads + head * a->group) * a->vsize;
	bool latent = a->p->kv_cache_layout == PAGED_LATENT;

	for (int64_t j = 0; j < n; j++) {
		read_head(a, a->k_cache, a->k_scale, a->k_each, head, row_of(a, b, first + j),
			  a->size, row);
		for (int64_t g = 0; g < a->group; g++)
			scores[g * n + j] = simd()->dot(q + g * a->size, row, a->size);
	}
	for (int64_t g = 0; g < a->group; g++)
		soften(a, head * a->group + g, scores + g * n, n);
	memset(y, 0, (size_t)(a->group * a->vsize) * sizeof(float));
	for (int64_t j = 0; j < n; j++) {
		read_head(a, latent ? a->k_cache : a->v_cache, latent ? a->k_scale : a->v_scale,
			  latent ? a->k_each : a->v_each, head, row_of(a, b, first + j), a->vsize,
			  row);
		for (int64_t g = 0; g < a->group; g++) {
			LOOP for (int64_t i = 0; i < a->vsize; i++) y[g * a->vsize + i] +=
				scores[g * n + j] * row[i];
		}
	}
}

static void attend_tokens(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct paged *a = arg;
	float *row = (float *)(void *)(a->room + (size_t)thread * a->each);

	for (int64_t i = begin; i < end; i++) {
		int64_t t = i / a->kv_heads, h = i % a->kv_heads;
		for (int64_t g = 0; g < a->group; g++)
			prepare_head(a, a->q + t * a->q_step + (h * a->group + g) * a->size,
				     a->q_norm, position_of(a, t),
				     a->turned_q + (t * a->heads + h * a->group + g) * a->size);
		attend_group(a, t, h, row, row + a->size);
	}
}

/* ---- the kernel -------------------------------------------------------------------------------- */

/* Checks the lengths of the sequences and every index into the cache, and notes which sequence a token belongs to. */
static int check_indices(const struct call *c, const struct paged *a)
{
	if (a->starts[0] != 0 || a->starts[a->batch] != a->tokens)
		return call_fail(c, E_VALUE,
				 "cumulative_sequence_length from 0 to the number of tokens",
				 fmt(c->diag, "%d to %d", a->starts[0], a->starts[a->batch]));
	for (int64_t b = 0; b < a->batch; b++) {
		if (a->starts[b] > a->starts[b + 1] || a->starts[b + 1] > a->tokens)
			return call_fail(c, E_VALUE,
					 "cumulative_sequence_length that does not decrease", NULL);
		int64_t n = a->starts[b + 1] - a->starts[b], all = a->past[b] + n;
		if (!n)
			continue;
		if (a->past[b] < 0 || all > a->table_step * a->block)
			return call_fail(c, E_VALUE, "past_seqlens that fit the blocks of a sequence",
					 fmt(c->diag, "%d", a->past[b]));
		if (a->cos && all > a->cos_rows)
			return call_fail(c, E_VALUE,
					 "caches of cos and sin that have every position", NULL);
		for (int64_t k = 0; k * a->block < all; k++) {
			int64_t block = a->table[b * a->table_step + k];
			if (block < 0 || block >= a->blocks)
				return call_fail(c, E_VALUE, "a block_table of blocks of the cache",
						 fmt(c->diag, "%" PRId64, block));
		}
		for (int64_t t = a->starts[b]; t < a->starts[b + 1]; t++)
			a->sequence[t] = b;
	}
	for (int64_t t = 0; t < a->tokens && a->slots; t++)
		if (a->slots[t] < -1 || a->slots[t] >= a->blocks * a->block)
			return call_fail(c, E_VALUE, "a slot_mapping of rows of the cache, or of -1",
					 fmt(c->diag, "%d", a->slots[t]));
	return 0;
}

static void set_sizes(const struct paged_attention *p, const struct shape *q,
		      const struct shape *cache, const struct shape *table, bool packed,
		      struct paged *a)
{
	*a = (struct paged){.p = p,
			    .tokens = q->dim[0],
			    .batch = table->dim[0],
			    .heads = p->num_heads,
			    .kv_heads = p->kv_num_heads,
			    .group = p->num_heads / p->kv_num_heads,
			    .size = paged_head_size(p, q, packed),
			    .blocks = cache->dim[0],
			    .block = cache->dim[1],
			    .table_step = table->dim[1]};
	a->vsize = p->v_head_size ? p->v_head_size : a->size;
}

/* Bytes of a thread: a head, and the scores of a group for all positions that a sequence may have. Returns false if they overflow. */
static bool thread_bytes(const struct paged *a, size_t *bytes)
{
	size_t keys, scores;

	if (!size_mul((size_t)a->table_step, (size_t)a->block, &keys) ||
	    !size_mul(keys, (size_t)a->group * sizeof(float), &scores) || scores > SIZE_MAX / 2)
		return false;
	*bytes = scratch_size(scores + (size_t)a->size * sizeof(float));
	return size_mul(*bytes, (size_t)pool_threads(), &keys) && keys <= PTRDIFF_MAX / 2;
}

int paged_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct shape *cache = site_shape(site, PAGED_K_CACHE);
	struct paged a;
	size_t each, caches = 0;

	set_sizes(site_params(site), site_shape(site, PAGED_Q), cache,
		  site_shape(site, PAGED_TABLE), !site_in(site, PAGED_K), &a);
	if (!thread_bytes(&a, &each))
		return FAIL(d, E_SIZE, .node = site->node->origin->name,
			    .op = op_qualified(site->node->op));
	/* caches are updated in a copy, unless the plan gives the output the input's memory */
	for (uint32_t i = 0; i < 2; i++) {
		if (site_in(site, PAGED_K_CACHE + i) && !site_out(site, 1 + i))
			caches += scratch_size((size_t)(shape_count(cache) *
							elem_size(site_type(site, PAGED_K_CACHE))));
		else if (site_out(site, 1 + i))
			allow_inplace(step, (uint8_t)(1 + i), (uint8_t)(PAGED_K_CACHE + i));
	}
	step->workspace = scratch_size((size_t)a.tokens * sizeof(int64_t)) +
			  scratch_size((size_t)(a.tokens * a.heads * a.size) * sizeof(float)) +
			  caches + each * (size_t)pool_threads();
	/* the caches themselves are not converted, but read row by row */
	for (uint32_t i = 0; i < site->node->nin; i++)
		if (site_in(site, i) && i != PAGED_K_CACHE && i != PAGED_V_CACHE)
			step->workspace += wide_bytes(site_type(site, i), site_shape(site, i));
	step->workspace += wide_bytes(site_out_type(site, 0), &site_out(site, 0)->shape);
	return 0;
}

static void *updated(const struct call *c, uint32_t i, struct scratch *s)
{
	const struct tensor *from = optional_in(c, PAGED_K_CACHE + i), *out = optional_out(c, 1 + i);

	if (!from)
		return NULL;
	void *to = out ? out->data : scratch_take(s, from->bytes);
	if (to != from->data)
		memcpy(to, from->data, from->bytes);
	return to;
}

static void set_operands(const struct call *c, bool packed, struct paged *a, struct scratch *s)
{
	const struct tensor *slots = optional_in(c, PAGED_SLOTS),
			    *k_scale = optional_in(c, PAGED_K_SCALE),
			    *v_scale = optional_in(c, PAGED_V_SCALE);

	a->starts = c->in[PAGED_STARTS]->data;
	a->past = c->in[PAGED_PAST]->data;
	a->table = c->in[PAGED_TABLE]->data;
	a->slots = slots ? slots->data : NULL;
	a->cache_type = tensor_dtype(c->in[PAGED_K_CACHE]);
	a->q = wide_in(s, c->in[PAGED_Q]);
	a->q_step = a->k_step = a->v_step = c->in[PAGED_Q]->shape.dim[1];
	if (packed) {
		a->k = a->q + a->heads * a->size;
		a->v = a->k + a->kv_heads * a->size;
	} else {
		a->k = wide_in(s, c->in[PAGED_K]);
		a->v = wide_in(s, optional_in(c, PAGED_V));
		a->k_step = a->v_step = a->kv_heads * a->size;
	}
	a->q_norm = wide_in(s, optional_in(c, PAGED_Q_NORM));
	a->k_norm = wide_in(s, optional_in(c, PAGED_K_NORM));
	a->sink = wide_in(s, optional_in(c, PAGED_SINK));
	if (k_scale) {
		a->k_scale = k_scale->data;
		a->k_each = a->p->k_quant_type == PAGED_PER_CHANNEL;
	}
	if (v_scale) {
		a->v_scale = v_scale->data;
		a->v_each = a->p->v_quant_type == PAGED_PER_CHANNEL;
	}
	if (a->p->do_rotary) {
		const struct shape *cos = &c->in[PAGED_COS]->shape;
		a->cos = wide_in(s, c->in[PAGED_COS]);
		a->sin = wide_in(s, c->in[PAGED_SIN]);
		a->cos_rows = cos->dim[0];
		a->turned = 2 * cos->dim[1];
	}
}

int paged_run(const struct call *c)
{
	const struct paged_attention *p = call_params(c);
	struct scratch s = scratch_of(c);
	bool packed = !optional_in(c, PAGED_K);
	struct paged a;
	int rc;

	set_sizes(p, &c->in[PAGED_Q]->shape, &c->in[PAGED_K_CACHE]->shape,
		  &c->in[PAGED_TABLE]->shape, packed, &a);
	a.scale = isnan(p->scale) || p->scale == 0 ? 1 / sqrtf((float)a.size) : p->scale;
	thread_bytes(&a, &a.each);
	set_operands(c, packed, &a, &s);
	a.sequence = scratch_take(&s, (size_t)a.tokens * sizeof(int64_t));
	if ((rc = check_indices(c, &a)))
		return rc;
	a.turned_q = scratch_take(&s, (size_t)(a.tokens * a.heads * a.size) * sizeof(float));
	a.k_cache = updated(c, 0, &s);
	a.v_cache = updated(c, 1, &s);
	a.y = wide_out(&s, c->out[0]);
	a.room = scratch_take(&s, a.each * (size_t)pool_threads());
	pool_for(a.kv_heads, rows_grain(GRAIN, a.tokens * a.size), store_tokens, &a);
	pool_for(a.tokens * a.kv_heads, 1, attend_tokens, &a);
	wide_done(c->out[0], a.y);
	return 0;
}

bool paged_accepts(const struct site *s, struct why *why)
{
	if (site_type(s, PAGED_K_CACHE) == DT_U8)
		return refuse(why, "a cache of 4-bit codes");
	return true;
}
