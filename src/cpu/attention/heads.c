/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads share the work by head and block of queries. For a block, one matrix product computes the scores of all
 * keys; each row of scores is masked, and softmax turns it into probabilities; a second product multiplies the
 * probabilities by the values.
 */
#include "cpu/attention/heads.h"

#include "base/pool.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"

#include <math.h>
#include <string.h>

enum {
	/* approximate number of scores of a block, so small that they stay in a core's cache */
	BLOCK_SCORES = 96 << 10,
	/* smallest number of queries of a block, because gemm works on strips of 12 rows */
	MIN_BLOCK_ROWS = 12,
};

enum gemm_type heads_real(enum dtype t)
{
	return t == DT_F64 ? GEMM_F64 : GEMM_F32;
}

size_t heads_real_size(enum gemm_type real)
{
	return real == GEMM_F64 ? sizeof(double) : sizeof(float);
}

float heads_scale(float scale, int64_t size)
{
	return isnan(scale) ? 1 / sqrtf((float)(size > 0 ? size : 1)) : scale;
}

float heads_ms_scale(float scale, int64_t size)
{
	return heads_scale(scale == 0 ? NAN : scale, size);
}

/* Sets *first and *end so that query i of batch b may see the keys first..end-1. */
static void visible_keys(const struct heads *a, int64_t b, int64_t i, int64_t *first, int64_t *end)
{
	int64_t p = i + (a->offsets ? a->offsets[b] : a->offset);

	*first = a->left >= 0 && p - a->left > 0 ? p - a->left : 0;
	*end = a->keys;
	if (a->right >= 0 && p + a->right + 1 < *end)
		*end = p + a->right + 1;
	if (a->causal && p + 1 < *end && !(a->last_sees_all && i + 1 == a->queries))
		*end = p + 1;
}

/* Returns the offset of the mask's row for query i of batch b and head h, in elements. */
static int64_t mask_start(const struct heads_mask *m, int64_t b, int64_t h, int64_t i)
{
	return b * m->step[0] + h * m->step[1] + i * m->step[2];
}

static float row_max_f32(const float *s, int64_t n)
{
	return simd()->max(s, n);
}

static float row_exp_f32(float *s, int64_t n, float top)
{
	return simd()->exp_sum(s, s, n, top);
}

static void row_scale_f32(float *s, int64_t n, float scale)
{
	simd()->scale_shift(s, s, n, 0, scale, 0);
}

static void softcap_f32(float *s, int64_t n, float cap)
{
	simd()->scale_shift(s, s, n, 0, 1 / cap, 0);
	simd()->map[VF_TANH](s, s, n, NULL);
	simd()->scale_shift(s, s, n, 0, cap, 0);
}

static double row_max_f64(const double *s, int64_t n)
{
	double top = -INFINITY;

	for (int64_t i = 0; i < n; i++)
		top = s[i] > top || isnan(s[i]) ? s[i] : top;
	return top;
}

static double row_exp_f64(double *s, int64_t n, double top)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += s[i] = exp(s[i] - top);
	return sum;
}

static void row_scale_f64(double *s, int64_t n, double scale)
{
	for (int64_t i = 0; i < n; i++)
		s[i] *= scale;
}

static void softcap_f64(double *s, int64_t n, double cap)
{
	for (int64_t i = 0; i < n; i++)
		s[i] = cap * tanh(s[i] / cap);
}

/* Number of queries per block. */
static int64_t block_rows(int64_t queries, int64_t keys)
{
	return lesser(queries, greater(MIN_BLOCK_ROWS, BLOCK_SCORES / greater(1, keys)));
}

/* Returns the size of one thread's scratch: gemm's scratch, then the scores of a block. */
static size_t thread_scratch(enum gemm_type real, int64_t queries, int64_t keys)
{
	return scratch_size(gemm_scratch_one(real)) +
	       scratch_size((size_t)block_rows(queries, keys) * (size_t)keys * heads_real_size(real));
}

#define TEMPLATE "cpu/attention/heads.inc"
#include "cpu/math/reals.inc"

size_t heads_scratch(enum gemm_type real, int64_t queries, int64_t keys)
{
	return thread_scratch(real, queries, keys) * (size_t)pool_threads();
}

/*
 * Computes the output of the block of queries that begins at query i0, for the head with index bh = batch * heads +
 * head.
 */
static void run_block(const struct heads *a, int64_t bh, int64_t i0, char *scratch)
{
	size_t elem = heads_real_size(a->real);
	void *s = scratch + scratch_size(gemm_scratch_one(a->real));
	int64_t b = bh / a->heads, h = bh % a->heads, kv = h / (a->heads / a->kv_heads);
	int64_t rows = lesser(a->queries - i0, block_rows(a->queries, a->keys)),
		keys = a->valid ? a->valid[b] : a->keys;

	keys = keys < 0 ? 0 : lesser(keys, a->keys);
	struct gemm m = {.m = rows,
			 .n = keys,
			 .k = a->size,
			 .a_row = a->q.row,
			 .a_col = 1,
			 .b_row = 1,
			 .b_col = a->k.row,
			 .c = s,
			 .c_row = keys,
			 .alpha = (double)a->scale};
	m.a = at(a->q.data, (b * a->q.batch + h * a->q.head + i0 * a->q.row) * (int64_t)elem);
	m.b = at(a->k.data, (b * a->k.batch + kv * a->k.head) * (int64_t)elem);
	gemm_one(a->real, &m, scratch);
	if (a->real == GEMM_F64)
		score_rows_f64(a, bh, i0, rows, keys, s);
	else
		score_rows_f32(a, bh, i0, rows, keys, s);
	m = (struct gemm){.m = rows,
			  .n = a->vsize,
			  .k = keys,
			  .a = s,
			  .a_row = keys,
			  .a_col = 1,
			  .b_row = a->v.row,
			  .b_col = 1,
			  .c_row = a->y_row,
			  .alpha = 1};
	m.b = at(a->v.data, (b * a->v.batch + kv * a->v.head) * (int64_t)elem);
	m.c = at_mut(a->y, (b * a->y_batch + h * a->y_head + i0 * a->y_row) * (int64_t)elem);
	gemm_one(a->real, &m, scratch);
}

/*
 * Computes the work items begin to end - 1. There is one item for each batch, head and block of queries, numbered in
 * row-major order.
 */
static void run_blocks(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct heads *a = arg;
	int64_t rows = block_rows(a->queries, a->keys), blocks = (a->queries + rows - 1) / rows;
	char *scratch =
		(char *)a->scratch + (size_t)thread * thread_scratch(a->real, a->queries, a->keys);

	for (int64_t i = begin; i < end; i++)
		run_block(a, i / blocks, i % blocks * rows, scratch);
}

void heads_run(struct heads *a)
{
	int64_t rows = greater(1, block_rows(a->queries, a->keys));

	pool_for(a->batch * a->heads * ((a->queries + rows - 1) / rows), 1, run_blocks, a);
}

struct attend_view heads_view(const void *data, int64_t heads, int64_t rows, int64_t size, bool merged)
{
	if (merged)
		return (struct attend_view){data, rows * heads * size, size, heads * size};
	return (struct attend_view){data, heads * rows * size, rows * size, size};
}

void heads_append(const struct heads *a, const void *past, int64_t past_rows, struct attend_view *x,
		  int64_t rows, int64_t size, void *to)
{
	int64_t elem = (int64_t)heads_real_size(a->real), line = size * elem;

	for (int64_t bh = 0; bh < a->batch * a->kv_heads; bh++) {
		const void *from = at(
			x->data, (bh / a->kv_heads * x->batch + bh % a->kv_heads * x->head) * elem);
		char *y = at_mut(to, bh * a->keys * line);
		if (past_rows > 0)
			memcpy(y, at(past, bh * past_rows * line), (size_t)(past_rows * line));
		for (int64_t r = 0; r < rows; r++)
			memcpy(y + (past_rows + r) * line, at(from, r * x->row * elem), (size_t)line);
	}
	*x = heads_view(to, a->kv_heads, a->keys, size, false);
}

void heads_mask_steps(const struct shape *s, int64_t keys, struct heads_mask *m)
{
	int64_t own[MAX_RANK];

	shape_strides(s, own);
	m->keys = s->rank ? s->dim[s->rank - 1] : keys;
	for (int i = 0; i < 4; i++)
		m->step[i] = i < 4 - s->rank || s->dim[i - (4 - s->rank)] == 1
				     ? 0
				     : own[i - (4 - s->rank)];
	if (s->rank && m->keys == 1)
		m->step[3] = 0;
}

void heads_merged_result(struct heads *a, void *y)
{
	a->y = y;
	a->y_row = a->heads * a->vsize;
	a->y_head = a->vsize;
	a->y_batch = a->queries * a->y_row;
}

void heads_softmax(enum gemm_type real, void *scores, int64_t rows, int64_t keys)
{
	if (real == GEMM_F64)
		softmax_f64(scores, rows, keys);
	else
		softmax_f32(scores, rows, keys);
}
