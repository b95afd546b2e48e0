/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/attention/sdpa.h"

#include "base/pool.h"
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

/* Number of queries per block. */
static int64_t block_rows(const struct attend *a)
{
	int64_t rows = BLOCK_SCORES / (a->keys > 0 ? a->keys : 1);
	rows = rows < MIN_BLOCK_ROWS ? MIN_BLOCK_ROWS : rows;
	return rows > a->queries ? a->queries : rows;
}

static size_t thread_scratch(const struct attend *a)
{
	size_t size = a->f64 ? sizeof(double) : sizeof(float);
	size_t scores = (size_t)block_rows(a) * (size_t)a->keys * size;
	return gemm_scratch_one(a->f64 ? GEMM_F64 : GEMM_F32) + (scores + 63) / 64 * 64;
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
		if (a->f64)
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
