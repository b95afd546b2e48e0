/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/quantized/nbits.h"

#include "base/pool.h"
#include "cpu/math/gemm.h"
#include "cpu/math/igemm.h"
#include "cpu/math/move.h"
#include "cpu/quantized/quant.h"
#include "cpu/math/simd.h"
#include "cpu/math/wide.h"
#include "ops/quant.h"

/*
 * If A has at most MAX_DIRECT_ROWS rows, they are multiplied without a GEMM. If it has more, each thread widens some columns of B
 * at a time to fp32 and multiplies by them: so few that they stay in its cache, unless A is larger than it.
 */
enum { MAX_DIRECT_ROWS = 4, FEW_COLUMNS = 64, MANY_COLUMNS = 256, MANY_ROWS = 256 };
enum { INT8_LEVEL = 4 }; /* the accuracy_level at which A may be quantized to 8 bits */
enum { CODE_COLUMNS = 16 };
enum { MOST_COLUMNS = 16 }; /* that igemm's kernels take at once */

struct nbits {
	/* number of rows of A; number of blocks in a column of B; number of bytes in a block */
	int64_t rows, blocks, blob;
	int64_t a_row; /* elements between rows of A for the GEMM, which would copy rows that are 4,096 bytes apart each time */
	bool zeros;    /* there are zero points */
	bool strips;   /* columns are widened as they are packed for the GEMM */
	bool direct; /* few rows, 4 bits, no g_idx: multiply by the 4-bit weights without widening them to fp32 */
	bool codes;	  /* A is quantized to 8 bits, as its accuracy_level allows */
	int64_t code_row; /* bytes of a row of codes */
	int64_t factors; /* elements from one row's or column's scales to the next one's (struct igemm_nibbles) */
	int64_t own; /* floats of each thread in `columns` */
	size_t sums, columns, narrow,
		gemm; /* offsets in the workspace; the output of split_rows or quantize_rows is at offset 0 */
};

struct nbits_job {
	const struct call *c;
	const struct matmul_nbits_params *p;
	const struct nbits *v;
	const float *a; /* A in fp32; the output of split_rows if `direct` is set */
	float *sums; /* `direct`: the sum of each block of A. `codes`: the scale of each block, then scale times sum of codes */
	/* each thread's widened columns of B; scales and zero points if `direct` or `codes` is set */
	float *columns;
	float *y;
	char *scratch; /* each thread's, of the GEMM */
	int64_t a_row; /* elements between rows of a */
};

static int64_t columns_at_once(const struct nbits *v)
{
	return v->rows > MANY_ROWS ? MANY_COLUMNS : FEW_COLUMNS;
}

static const char *sizes_fit(const struct site *s, const struct matmul_nbits_params *p,
			     const struct nbits *v)
{
	const struct vinfo *z = site_in(s, 3);
	int64_t zeros = z && z->type.dtype == DT_U8 ? (v->blocks * p->bits + 7) / 8 : v->blocks;

	if (shape_count(&site_in(s, 1)->shape) != p->N * v->blocks * v->blob ||
	    shape_count(&site_in(s, 2)->shape) != p->N * v->blocks)
		return "B and scales as K, N, bits and block_size say";
	if (z && shape_count(&z->shape) != p->N * zeros)
		return "one zero point a block";
	if (site_in(s, 4) && shape_count(&site_in(s, 4)->shape) < p->K)
		return "g_idx of K elements";
	return NULL;
}

int nbits_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct matmul_nbits_params *p = site_params(s);
	const struct shape *a = &site_in(s, 0)->shape;
	struct nbits *v = arena_new(s->plan_arena, struct nbits);
	const char *bad;

	v->rows = shape_span(a, 0, a->rank - 1);
	v->blocks = (p->K + p->block_size - 1) / p->block_size;
	v->blob = p->block_size * p->bits / 8;
	v->direct = v->rows <= MAX_DIRECT_ROWS && p->bits == 4 && v->blob % 8 == 0 && !site_in(s, 4);
	v->zeros = site_in(s, 3) != NULL;
	v->strips = igemm_kernels()->widen_columns && !site_in(s, 4) && p->K % 16 == 0;
	bad = sizes_fit(s, p, v);
	if (bad)
		return site_fail(s, d, E_SHAPE, bad, NULL);
	v->codes = p->accuracy_level == INT8_LEVEL && p->bits == 4 && !site_in(s, 4) &&
		   igemm_kernels()->nibble_codes;
	v->direct &= !v->codes;
	v->factors = (v->blocks + 2 * MOST_COLUMNS - 1) / MOST_COLUMNS * MOST_COLUMNS;
	size_t wide = (size_t)v->rows * (size_t)v->blocks * (size_t)p->block_size * sizeof(float);
	v->own = v->direct ? 2 * v->blocks : p->K * columns_at_once(v);
	size_t sums = (size_t)v->rows * (size_t)v->blocks;
	if (v->codes) {
		int64_t unit = 8 * igemm_kernels()->widened;
		v->code_row = (v->blocks * p->block_size + unit - 1) / unit * unit;
		v->own = v->code_row / 4 > 2 * CODE_COLUMNS * v->factors
				 ? v->code_row / 4
				 : 2 * CODE_COLUMNS * v->factors;
		wide = (size_t)v->rows * (size_t)v->code_row;
		sums = 2 * (size_t)v->rows * (size_t)v->factors;
	}
	v->sums = scratch_size(wide);
	v->columns = v->sums + scratch_size(sums * sizeof(float));
	v->narrow =
		v->columns + scratch_size((size_t)v->own * sizeof(float) * (size_t)pool_threads());
	bool f32 = site_in(s, 0)->type.dtype == DT_F32;
	v->a_row = p->K % 1024 ? p->K : p->K + 16;
	size_t narrow = f32 && v->a_row == p->K
				? 0
				: (size_t)(v->rows * (v->a_row + (f32 ? 0 : p->N))) * sizeof(float);
	v->gemm = v->narrow + scratch_size(narrow);
	st->workspace = v->gemm + gemm_scratch(GEMM_F32);
	st->state = v;
	return 0;
}

static inline int packed_at(const uint8_t *p, int64_t i, int64_t bits)
{
	uint64_t at = (uint64_t)(i * bits);

	return p[at / 8] >> at % 8 & ((1 << bits) - 1);
}

/* Returns the zero point that applies if the node has no input zero_points: the middle of the range of codes. */
static float default_zero(const struct nbits_job *j)
{
	return (float)(1 << (j->p->bits - 1));
}

static float zero_of_block(const struct nbits_job *j, int64_t n, int64_t block)
{
	const struct tensor *z = optional_in(j->c, 3);
	int64_t bytes = (j->v->blocks * j->p->bits + 7) / 8;

	if (!z)
		return default_zero(j);
	if (tensor_dtype(z) == DT_U8)
		return (float)packed_at((const uint8_t *)z->data + n * bytes, block, j->p->bits);
	return scale_at(z, n * j->v->blocks + block);
}

/* ---- few rows ---------------------------------------------------------------------------------- */

/*
 * Writes each block of A to `to` with the elements of even index first and those of odd index after them, because
 * even elements meet the low nibbles of the weights and odd elements the high nibbles. Also stores the sum of each
 * block in `sums`, for the correction by zero points.
 */
static void split_rows(const struct nbits_job *j, const float *a, float *to, float *sums)
{
	int64_t size = j->p->block_size, half = size / 2;

	for (int64_t r = 0; r < j->v->rows; r++) {
		for (int64_t b = 0; b < j->v->blocks; b++, to += size) {
			float sum = 0;
			for (int64_t i = 0; i < size; i++) {
				int64_t k = b * size + i;
				float x = k < j->p->K ? a[r * j->p->K + k] : 0;
				to[(i & 1) * half + i / 2] = x;
				sum += x;
			}
			sums[r * j->v->blocks + b] = sum;
		}
	}
}

static void direct_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct nbits_job *j = arg;
	const struct call *c = j->c;
	const struct nbits *v = j->v;
	const struct tensor *bias = optional_in(c, 5), *s = c->in[2];
	float *own = j->columns + thread * 2 * v->blocks, *zero = own + v->blocks;
	bool plain = tensor_dtype(s) == DT_F32, zeros = optional_in(c, 3) != NULL;

	for (int64_t n = begin; n < end; n++) {
		const float *scale = plain ? (const float *)s->data + n * v->blocks : own;
		for (int64_t b = 0; b < v->blocks && !plain; b++)
			own[b] = scale_at(s, n * v->blocks + b);
		for (int64_t b = 0; b < v->blocks && zeros; b++)
			zero[b] = zero_of_block(j, n, b);
		for (int64_t r = 0; r < v->rows; r++) {
			const uint8_t *w = (const uint8_t *)c->in[1]->data + n * v->blocks * v->blob;
			float y = igemm_kernels()->nibbles(j->a + r * v->blocks * j->p->block_size,
							   w, zeros ? 0 : default_zero(j), scale,
							   v->blocks, v->blob);
			for (int64_t b = 0; b < v->blocks && zeros; b++)
				y -= scale[b] * zero[b] * j->sums[r * v->blocks + b];
			if (bias)
				y += scale_at(bias, n);
			from_f32(tensor_dtype(c->out[0]), &y, 1, c->out[0]->data, r * j->p->N + n);
		}
	}
}

/* ---- A in 8 bits, of any number of rows, as an accuracy_level of 4 allows ---------------------------------------------------- */

/*
 * Quantizes each block of rows of A to codes from -127 to 127, its largest magnitude being 127, in the order of struct igemm_nibbles. A
 * thread has room for a row of codes.
 */
static void quantize_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	enum { MIDDLE = 128 };
	const struct nbits_job *j = arg;
	const struct nbits *v = j->v;
	const struct igemm_kernels *k = igemm_kernels();
	int64_t unit = 4 * k->widened, size = j->p->block_size;
	uint8_t *plain = (uint8_t *)(j->columns + thread * v->own);

	for (int64_t r = begin; r < end; r++) {
		const float *a = j->a + r * j->a_row;
		int8_t *to = (int8_t *)j->c->workspace + r * v->code_row;
		float *scale = j->sums + r * v->factors, *sum = scale + v->rows * v->factors;
		memset(plain, MIDDLE, (size_t)v->code_row);
		memset(scale, 0, (size_t)v->factors * sizeof(*scale));
		memset(sum, 0, (size_t)v->factors * sizeof(*sum));
		for (int64_t b = 0; b < v->blocks; b++) {
			int64_t first = b * size, n = lesser(size, j->p->K - first);
			float most = greatest_f32(simd()->max(a + first, n),
						  -simd()->min(a + first, n)),
			      by = most / 127;
			/* denormal numbers whose scale would be 0 count as 0; with an infinity nothing is known */
			k->quantize(a + first, plain + first, n, by > 0 ? by : 1, MIDDLE, 1, 255);
			scale[b] = isfinite(by) ? by : NAN;
			/* by the zero point, too, if that is one for all */
			sum[b] = scale[b] * (float)(k->sum_bytes(plain + first, n, 0) - MIDDLE * n) *
				 (v->zeros ? 1 : default_zero(j));
		}
		const uint8_t *from = plain;
		for (int64_t i = 0; i < v->code_row; i += 2 * unit, to += 2 * unit, from += 2 * unit)
			for (int64_t e = 0; e < unit; e++) {
				to[e] = (int8_t)(from[2 * e] - MIDDLE);
				to[unit + e] = (int8_t)(from[2 * e + 1] - MIDDLE);
			}
	}
}

/* Fills in the scales of column n and, if there are zero points, what they are times these. */
static void fill_factors(const struct nbits_job *j, int64_t n, float *scale, float *zero)
{
	const struct nbits *v = j->v;
	const struct tensor *s = j->c->in[2];

	if (tensor_dtype(s) == DT_F32)
		memcpy(scale, (const float *)s->data + n * v->blocks,
		       (size_t)v->blocks * sizeof(float));
	else
		for (int64_t b = 0; b < v->blocks; b++)
			scale[b] = scale_at(s, n * v->blocks + b);
	for (int64_t b = 0; b < v->blocks && v->zeros; b++)
		zero[b] = scale[b] * zero_of_block(j, n, b);
}

/* Products of rows r..r+rows-1 by columns n..n+1, of which the last may be alone. */
static void multiply_codes(const struct nbits_job *j, int64_t r, int64_t rows, int64_t n,
			   const float *factor)
{
	const struct nbits *v = j->v;
	const struct tensor *y = j->c->out[0], *bias = optional_in(j->c, 5);
	int64_t column = v->blocks * v->blob, last = j->p->N - 1;
	struct igemm_nibbles q = {.a = (const int8_t *)j->c->workspace + r * v->code_row,
				  .a_row = v->code_row,
				  .w = (const uint8_t *)j->c->in[1]->data + n * column,
				  .column = n < last ? column : 0,
				  .bytes = column,
				  .blob = v->blob,
				  .blocks = v->blocks,
				  .a_scale = j->sums + r * v->factors,
				  .a_sum = j->sums + (v->rows + r) * v->factors,
				  .scale = factor,
				  .zero = v->zeros ? factor + 2 * v->factors : factor,
				  .factors = v->factors};
	float out[2 * IGEMM_CODE_ROWS];

	igemm_kernels()->nibble_codes(&q, (int)rows, out);
	for (int64_t i = 0; i < 2 * rows && bias; i++)
		out[i] += scale_at(bias, lesser(n + i % 2, last));
	for (int64_t i = 0; i < rows; i++)
		simd_from_f32(tensor_dtype(y), out + 2 * i, n < last ? 2 : 1, y->data,
			      (r + i) * j->p->N + n);
}

/* Products by groups of CODE_COLUMNS columns, whose codes stay in the first caches while all rows are multiplied by them. */
static void codes_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct nbits_job *j = arg;
	const struct nbits *v = j->v;
	float *own = j->columns + thread * v->own;

	memset(own, 0, 2 * CODE_COLUMNS * (size_t)v->factors * sizeof(*own));
	for (int64_t g = begin; g < end; g++) {
		int64_t first = g * CODE_COLUMNS, count = lesser(j->p->N - first, CODE_COLUMNS);
		/* two columns' scales, and then what they are times their zero points */
		for (int64_t i = 0; i < count + count % 2; i++) {
			float *scale = own + (i / 2 * 4 + i % 2) * v->factors;
			fill_factors(j, lesser(first + i, j->p->N - 1), scale, scale + 2 * v->factors);
		}
		for (int64_t r = 0; r < v->rows; r += IGEMM_CODE_ROWS)
			for (int64_t i = 0; i < count; i += 2)
				multiply_codes(j, r, lesser(v->rows - r, IGEMM_CODE_ROWS),
					       first + i, own + 2 * i * v->factors);
	}
}

/*
 * ---- many rows of A: dequantizes some columns of B at a time, for a GEMM in fp32
 * --------------------------------------------------
 */

/* Dequantizes column n of B to fp32. */
static void widen_column(const struct nbits_job *j, int64_t n, float *b)
{
	const struct call *c = j->c;
	const struct matmul_nbits_params *p = j->p;
	const struct nbits *v = j->v;
	const uint8_t *w = (const uint8_t *)c->in[1]->data + n * v->blocks * v->blob;
	const struct tensor *order = optional_in(c, 4);
	int64_t block = -1;
	float scale = 0, zero = 0;

	if (p->bits == 4 && !order && p->block_size % 2 == 0) {
		for (int64_t g = 0; g < v->blocks; g++, w += v->blob) {
			int64_t first = g * p->block_size, rest = p->K - first;
			igemm_kernels()->widen_nibbles(w, rest < p->block_size ? rest : p->block_size,
						       zero_of_block(j, n, g),
						       scale_at(c->in[2], n * v->blocks + g),
						       b + first);
		}
		return;
	}
	for (int64_t k = 0; k < p->K; k++) {
		int64_t g = order ? ((const int32_t *)order->data)[k] : k / p->block_size;
		if (g != block) {
			block = g;
			scale = scale_at(c->in[2], n * v->blocks + g);
			zero = zero_of_block(j, n, g);
		}
		b[k] = ((float)packed_at(w, k, p->bits) - zero) * scale;
	}
}

/* Dequantizes some columns of B side by side, from n on, to columns of a strip. */
static void widen_some(const struct nbits_job *j, int64_t n, float *b)
{
	const struct igemm_kernels *k = igemm_kernels();
	const struct matmul_nbits_params *p = j->p;
	const struct nbits *v = j->v;
	const struct tensor *s = j->c->in[2];
	const float *plain =
		tensor_dtype(s) == DT_F32 ? (const float *)s->data + n * v->blocks : NULL;
	const uint8_t *w = (const uint8_t *)j->c->in[1]->data + n * v->blocks * v->blob;
	int64_t step = gemm_strip(GEMM_F32);
	float zero[MOST_COLUMNS], scale[MOST_COLUMNS];

	for (int64_t i = 0; i < k->widened; i++)
		zero[i] = default_zero(j);
	for (int64_t g = 0; g < v->blocks; g++, w += v->blob) {
		int64_t first = g * p->block_size;
		for (int64_t i = 0; i < k->widened; i++)
			scale[i] = plain ? plain[i * v->blocks + g]
					 : scale_at(s, (n + i) * v->blocks + g);
		for (int64_t i = 0; v->zeros && i < k->widened; i++)
			zero[i] = zero_of_block(j, n + i, g);
		k->widen_columns(w, v->blocks * v->blob, lesser(p->block_size, p->K - first),
				 p->bits, zero, scale, b + first * step, step);
	}
}

/* Dequantizes `count` columns of B, from n on, as they are packed for a product; or returns false if it cannot. */
static bool widen_strips(const struct nbits_job *j, int64_t n, int64_t count, float *b)
{
	int64_t strip = gemm_strip(GEMM_F32);

	if (!j->v->strips || count % strip)
		return false;
	for (int64_t i = 0; i < count; i += igemm_kernels()->widened)
		widen_some(j, n + i, b + i / strip * strip * j->p->K + i % strip);
	return true;
}

static void columns_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct nbits_job *j = arg;
	const struct matmul_nbits_params *p = j->p;
	int64_t most = columns_at_once(j->v);
	float *b = j->columns + thread * most * p->K;

	for (int64_t i = begin; i < end; i++) {
		int64_t n = i * most, count = p->N - n < most ? p->N - n : most;
		struct gemm g = {.m = j->v->rows,
				 .n = count,
				 .k = p->K,
				 .a = j->a,
				 .a_row = j->v->a_row,
				 .a_col = 1,
				 .b = b,
				 .b_row = 1,
				 .b_col = p->K,
				 .c = j->y + n,
				 .c_row = p->N,
				 .alpha = 1};
		if (widen_strips(j, n, count, b))
			g.packed = b;
		for (int64_t k = 0; k < count && !g.packed; k++)
			widen_column(j, n + k, b + k * p->K);
		gemm_one(GEMM_F32, &g, j->scratch + (size_t)thread * gemm_scratch_one(GEMM_F32));
	}
}

/* Adds the bias to the rows of y, each of N fp32 elements. */
static void add_bias(const struct nbits_job *j, float *y)
{
	const struct tensor *bias = optional_in(j->c, 5);

	for (int64_t r = 0; bias && r < j->v->rows; r++)
		for (int64_t n = 0; n < j->p->N; n++)
			y[r * j->p->N + n] += scale_at(bias, n);
}

static int groups_fit(const struct call *c, const struct nbits *v, int64_t k)
{
	const struct tensor *order = optional_in(c, 4);

	for (int64_t i = 0; order && i < k; i++) {
		int32_t g = ((const int32_t *)order->data)[i];
		if (g < 0 || g >= v->blocks)
			return call_fail(c, E_VALUE, "groups within the blocks", NULL);
	}
	return 0;
}

int nbits_run(const struct call *c)
{
	const struct matmul_nbits_params *p = call_params(c);
	const struct nbits *v = c->step->state;
	char *work = c->workspace;
	struct nbits_job j = {.c = c,
			      .p = p,
			      .v = v,
			      .a = c->in[0]->data,
			      .sums = (float *)(void *)(work + v->sums),
			      .columns = (float *)(void *)(work + v->columns)};
	enum dtype t = tensor_dtype(c->in[0]);
	float *wide = (float *)(void *)(work + v->narrow), *y = c->out[0]->data;
	int err = groups_fit(c, v, p->K);

	if (err || !v->rows || !p->N)
		return err;
	int64_t a_row = v->direct || v->codes ? p->K : v->a_row;
	if (t != DT_F32 || a_row != p->K) { /* compute in fp32 and round the result once */
		for (int64_t r = 0; r < v->rows; r++)
			to_f32(t, c->in[0]->data, r * p->K, p->K, wide + r * a_row);
		j.a = wide;
	}
	j.a_row = a_row;
	if (t != DT_F32)
		y = wide + v->rows * a_row;
	if (v->codes) {
		pool_for(v->rows, 1 + (1 << 14) / p->K, quantize_rows, &j);
		pool_for((p->N + CODE_COLUMNS - 1) / CODE_COLUMNS, 1 + (1 << 12) / p->K,
			 codes_piece, &j);
	} else if (v->direct) {
		split_rows(&j, j.a, (float *)(void *)work, (float *)(void *)(work + v->sums));
		j.a = (float *)(void *)work;
		pool_for(p->N, 1 + (1 << 15) / p->K, direct_piece, &j);
	} else {
		int64_t most = columns_at_once(v);
		j.y = y;
		j.scratch = work + v->gemm;
		pool_for((p->N + most - 1) / most, 1, columns_piece, &j);
		add_bias(&j, y);
		if (t != DT_F32)
			from_f32(t, y, v->rows * p->N, c->out[0]->data, 0);
	}
	return 0;
}

/* ---- MatMulBnb4: 4-bit codes of bitsandbytes; each block of the flattened weights has a scale ----- */

struct bnb_job {
	const uint8_t *codes;
	const float *absmax; /* scale of each block: the largest magnitude of its weights */
	const float *values; /* the number that each of the 16 codes stands for */
	int64_t k_step, n_step, block;
};

/*
 * Dequantizes `count` elements of row k of B from column n on. A byte holds two codes; the first code is in the high
 * half.
 */
static void bnb_row(const void *arg, int64_t k, int64_t n, int64_t count, void *dst)
{
	const struct bnb_job *j = arg;
	float *y = dst;

	for (int64_t i = 0; i < count; i++) {
		int64_t at = k * j->k_step + (n + i) * j->n_step;
		y[i] = j->values[j->codes[at / 2] >> (at & 1 ? 0 : 4) & 15] * j->absmax[at / j->block];
	}
}

int bnb_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct bnb_params *p = site_params(s);
	int64_t count = p->N * p->K;

	if (shape_count(&site_in(s, 1)->shape) != (count + 1) / 2 ||
	    shape_count(&site_in(s, 2)->shape) != (count - 1) / p->block_size + 1)
		return site_fail(s, d, E_SHAPE, "B and absmax as K, N and block_size say", NULL);
	st->workspace = wide_workspace(s) + scratch_size(gemm_scratch(GEMM_F32));
	return 0;
}

int bnb_run(const struct call *c)
{
	const struct bnb_params *p = call_params(c);
	struct scratch s = scratch_of(c);
	struct bnb_job j = {.codes = c->in[1]->data,
			    .absmax = wide_in(&s, c->in[2]),
			    .values = bnb_values[p->quant_type],
			    .block = p->block_size,
			    .k_step = p->transB ? 1 : p->K,
			    .n_step = p->transB ? p->K : 1};
	struct gemm g = {.n = p->transB ? p->N : p->K,
			 .k = p->transB ? p->K : p->N,
			 .a = wide_in(&s, c->in[0]),
			 .a_col = 1,
			 .row = bnb_row,
			 .arg = &j,
			 .alpha = 1};
	float *y = wide_out(&s, c->out[0]);

	g.m = tensor_count(c->in[0]) / g.k;
	g.a_row = g.k;
	g.c = y;
	g.c_row = g.n;
	gemm_run(GEMM_F32, &g, scratch_take(&s, gemm_scratch(GEMM_F32)));
	wide_done(c->out[0], y);
	return 0;
}
