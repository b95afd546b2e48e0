/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/attention/sdpa.h"

#include "base/pool.h"
#include "cpu/math/amx.h"
#include "cpu/math/gemm.h"
#include "cpu/math/simd.h"

#include <math.h>
#include <string.h>

/*
 * A block of queries has about BLOCK_SCORES scores, few enough to stay in a core's cache, but at least MIN_BLOCK_ROWS
 * queries.
 */
enum { BLOCK_SCORES = 96 << 10, MIN_BLOCK_ROWS = 12 };

/* Returns how many keys query i sees if there is no mask. */
static int64_t keys_seen(const struct attend *a, int64_t i)
{
	int64_t n = a->causal == 0   ? a->keys
		    : a->causal == 1 ? i + 1
				     : i + 1 + a->keys - a->queries;
	return n < 0 ? 0 : n > a->keys ? a->keys : n;
}

static void softmax_f32(float *x, int64_t n, bool safe)
{
	float max = simd()->max(x, n), sum;
	if (safe && !isfinite(max)) {
		memset(x, 0, (size_t)n * sizeof(*x));
		return;
	}
	sum = simd()->exp_sum(x, x, n, max);
	simd()->scale_shift(x, x, n, 0, 1 / sum, 0);
}

static void softmax_f64(double *x, int64_t n, bool safe)
{
	double max = -INFINITY, sum = 0;
	for (int64_t i = 0; i < n; i++)
		max = x[i] > max || isnan(x[i]) ? x[i] : max;
	for (int64_t i = 0; i < n; i++)
		sum += x[i] = safe && !isfinite(max) ? 0 : exp(x[i] - max);
	for (int64_t i = 0; i < n; i++)
		x[i] = safe && !isfinite(max) ? 0 : x[i] / sum;
}

#define TEMPLATE "cpu/attention/sdpa.inc"
#include "cpu/math/reals.inc"

/* ---- bf16 by AMX ------------------------------------------------------------------------------ */

/* A block of queries is two tiles high: so the products use each tile twice, and the scores stay in the L1 cache. */
enum { AMX_BLOCK = 2 * AMX_ROWS };

struct amx_scratch {
	uint16_t *k, *v, *q, *weights;
	float *scores, *y;
};

/* Sets where each operand lies from `scratch` on, and returns the bytes of all of them. */
static size_t amx_scratch_set(const struct attend *a, char *scratch, struct amx_scratch *s)
{
	size_t at = 0, half = sizeof(uint16_t);
	int64_t size = amx_depth(a->size), keys = amx_depth(a->keys), vsize = amx_rows(a->vsize);
	struct {
		void *to;
		size_t bytes;
	} parts[] = {{&s->k, (size_t)(size * keys) * half},
		     {&s->v, (size_t)(keys * vsize) * half},
		     {&s->q, (size_t)(AMX_BLOCK * size) * half},
		     {&s->weights, (size_t)(AMX_BLOCK * keys) * half},
		     {&s->scores, (size_t)(AMX_BLOCK * keys) * sizeof(float)},
		     {&s->y, (size_t)(AMX_BLOCK * vsize) * sizeof(float)}};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		char *p = scratch ? scratch + at : NULL;
		memcpy(parts[i].to, &p, sizeof(p));
		at += (parts[i].bytes + 63) / 64 * 64;
	}
	return at;
}

static const uint16_t *head_of(const struct attend_view *v, int64_t b, int64_t h)
{
	return (const uint16_t *)v->data + b * v->batch + h * v->head;
}

/*
 * Turns the scores of query i into weights as bf16, not divided by their sum yet. Returns the factor by which the result
 * of the query must be multiplied for that.
 */
static float amx_weights_row(const struct attend *a, int64_t b, int64_t h, int64_t i, float *scores,
			     uint16_t *weights)
{
	int64_t seen = keys_seen(a, i), padded = amx_depth(a->keys);
	float scale = a->scale, max;

	if (a->mask || scale < 0) {
		simd()->scale_shift(scores, scores, seen, 0, scale, 0);
		scale = 1;
	}
	if (a->mask)
		mask_row_f32(a, b, h, i, scores, seen);
	max = simd()->max(scores, seen);
	memset(weights + seen, 0, (size_t)(padded - seen) * sizeof(*weights));
	if (a->safe && !isfinite(max)) {
		memset(weights, 0, (size_t)seen * sizeof(*weights));
		return 1;
	}
	return 1 / amx_exp_sum(scores, weights, seen, max, scale);
}

static void attend_block_bf16(const struct attend *a, int64_t b, int64_t h, int64_t first,
			      int64_t count, const struct amx_scratch *s)
{
	uint16_t *y = (uint16_t *)(uintptr_t)head_of(&a->y, b, h) + first * a->y.row;
	int64_t size = amx_depth(a->size), keys = amx_depth(a->keys), vsize = amx_rows(a->vsize);
	struct amx qk = {.m = amx_rows(count),
			 .n = amx_rows(keys_seen(a, first + count - 1)),
			 .k = size,
			 .a = s->q,
			 .a_row = size,
			 .b = s->k,
			 .c = s->scores,
			 .c_row = keys};
	struct amx wv = {.m = qk.m,
			 .n = vsize,
			 .k = keys,
			 .a = s->weights,
			 .a_row = keys,
			 .b = s->v,
			 .c = s->y,
			 .c_row = vsize};
	float factor[AMX_BLOCK];

	amx_pack_a(head_of(&a->q, b, h) + first * a->q.row, a->q.row, count, a->size, s->q);
	amx_multiply(&qk);
	for (int64_t i = 0; i < count; i++)
		factor[i] = amx_weights_row(a, b, h, first + i, s->scores + i * keys,
					    s->weights + i * keys);
	amx_multiply(&wv);
	for (int64_t i = 0; i < count; i++) {
		float *row = s->y + i * vsize;
		simd()->scale_shift(row, row, a->vsize, 0, factor[i], 0);
		simd()->f32_to_bf16(row, y + i * a->y.row, a->vsize);
	}
}

/* The same for a group of queries: K and V of the head are packed once. */
static void attend_group_bf16(const struct attend *a, int64_t b, int64_t h, int64_t first,
			      int64_t count, char *scratch)
{
	int64_t kv = h / (a->heads / a->kv_heads);
	struct amx_scratch s;

	amx_scratch_set(a, scratch, &s);
	amx_pack_b(head_of(&a->k, b, kv), a->k.row, !a->k_col, a->size, a->keys, s.k);
	amx_pack_b(head_of(&a->v, b, kv), a->v.row, false, a->keys, a->vsize, s.v);
	for (int64_t i = 0; i < count; i += AMX_BLOCK)
		attend_block_bf16(a, b, h, first + i, count - i < AMX_BLOCK ? count - i : AMX_BLOCK,
				  &s);
}

/* ---- blocks of queries for the threads --------------------------------------------------------- */

/* Number of queries per block. */
static int64_t block_rows(const struct attend *a)
{
	int64_t rows = BLOCK_SCORES / (a->keys > 0 ? a->keys : 1);
	rows = rows < MIN_BLOCK_ROWS ? MIN_BLOCK_ROWS : rows;
	return rows > a->queries ? a->queries : rows;
}

static size_t thread_scratch(const struct attend *a)
{
	struct amx_scratch unused;

	if (a->type == DT_BF16)
		return amx_scratch_set(a, NULL, &unused);
	size_t size = a->type == DT_F64 ? sizeof(double) : sizeof(float);
	size_t scores = (size_t)block_rows(a) * (size_t)a->keys * size;
	return gemm_scratch_one(a->type == DT_F64 ? GEMM_F64 : GEMM_F32) + (scores + 63) / 64 * 64;
}

size_t attend_scratch(const struct attend *a)
{
	return thread_scratch(a) * (size_t)pool_threads();
}

struct attend_job {
	const struct attend *a;
	char *scratch;
	size_t scratch_each;
	int64_t rows, blocks;
};

static void attend_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct attend_job *j = arg;
	const struct attend *a = j->a;
	char *scratch = j->scratch + (size_t)thread * j->scratch_each;
	for (int64_t i = begin; i < end; i++) {
		int64_t block = i % j->blocks, head = i / j->blocks, first = block * j->rows;
		int64_t count = a->queries - first < j->rows ? a->queries - first : j->rows;
		if (a->type == DT_BF16)
			attend_group_bf16(a, head / a->heads, head % a->heads, first, count, scratch);
		else if (a->type == DT_F64)
			attend_block_f64(a, head / a->heads, head % a->heads, first, count, scratch);
		else
			attend_block_f32(a, head / a->heads, head % a->heads, first, count, scratch);
	}
}

void attend_run(const struct attend *a, void *scratch)
{
	struct attend_job j = {.a = a, .scratch = scratch, .scratch_each = thread_scratch(a)};
	if (!a->batch || !a->heads || !a->queries)
		return;
	j.rows = block_rows(a);
	j.blocks = (a->queries + j.rows - 1) / j.rows;
	pool_for(a->batch * a->heads * j.blocks, 1, attend_piece, &j);
}
