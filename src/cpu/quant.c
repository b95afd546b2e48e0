/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/quant.h"

#include "base/pool.h"
#include "cpu/broadcast.h"
#include "cpu/igemm.h"
#include "cpu/move.h"
#include "cpu/nbits.h"
#include "cpu/simd.h"
#include "ops/matmul.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 1024 };

static int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t int8_at(const void *p, bool is_signed, int64_t i)
{
	return is_signed ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

/* ---- rows of x that share a scale, or have one each ------------------------------------------------------ */

struct rows {
	struct granularity g;
	int64_t count, length; /* of the longest */
	int64_t total;
};

/* Row r: where it lies in x, its length, its scale and the step from element to element. */
static inline void row_at(const struct rows *v, int64_t r, int64_t *at, int64_t *n, int64_t *scale,
			  int64_t *step)
{
	const struct granularity *g = &v->g;

	*n = v->length;
	*at = r * v->length;
	*step = 0;
	if (g->kind == QUANT_TENSOR) {
		*n = lesser(v->length, v->total - *at);
		*scale = 0;
	} else if (g->kind == QUANT_AXIS) {
		*scale = g->inner > 1 ? r % g->dim : 0;
		*step = g->inner > 1 ? 0 : 1;
	} else if (g->inner > 1) {
		*scale = (r / g->dim * g->blocks + r % g->dim / g->block) * g->inner;
		*step = 1;
	} else {
		int64_t o = r / g->blocks, b = r % g->blocks;
		*at = o * g->dim + b * g->block;
		*n = lesser(g->block, g->dim - b * g->block);
		*scale = r;
	}
}

static int rows_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct quantize_params *p = site_params(s);
	struct rows *v = arena_new(s->plan_arena, struct rows);
	const struct shape *x = &site_in(s, 0)->shape;
	struct granularity *g = &v->g;
	const char *bad = granularity_set(g, x, &site_in(s, 1)->shape, p->axis, p->block_size);

	if (bad)
		return site_fail(s, d, E_SHAPE, bad, NULL);
	v->total = shape_count(x);
	st->state = v;
	if (!v->total)
		return 0;
	if (g->kind == QUANT_TENSOR) {
		v->length = 16 * CHUNK;
		v->count = (v->total + v->length - 1) / v->length;
	} else if (g->inner > 1) {
		v->length = g->inner;
		v->count = g->outer * g->dim;
	} else if (g->kind == QUANT_AXIS) {
		v->length = g->dim;
		v->count = g->outer;
	} else {
		v->length = g->block;
		v->count = g->outer * g->blocks;
	}
	return 0;
}

struct quant_job {
	const struct rows *v;
	const struct tensor *x, *scale, *zero;
	struct tensor *y;
	enum dtype precision;
	bool saturate;
};

static int64_t grain_rows(const struct quant_job *j)
{
	/* packed elements of two rows may share a byte */
	if (dtype_bits(tensor_dtype(j->y)) < 8)
		return INT64_MAX;
	return j->v->length >= 16384 ? 1 : 16384 / j->v->length + 1;
}

static void int_range(enum dtype t, float *low, float *high)
{
	int bits = (int)dtype_bits(t);

	*low = dtype_class(t) == DT_INT ? -ldexpf(1, bits - 1) : 0;
	*high = dtype_class(t) == DT_INT ? ldexpf(1, bits - 1) - 1 : ldexpf(1, bits) - 1;
}

static float narrowed(enum dtype t, float v)
{
	return t == DT_F16    ? f16_to_f32(f32_to_f16(v))
	       : t == DT_BF16 ? bf16_to_f32(f32_to_bf16(v))
			      : v;
}

static float scale_at(const struct tensor *t, int64_t i)
{
	return (float)elem_f64(tensor_dtype(t), t->data, i);
}

/* n elements from `at`, whose scales are scale + i * step. */
static void quantize_run(const struct quant_job *j, int64_t at, int64_t n, int64_t scale, int64_t step)
{
	enum dtype t = tensor_dtype(j->y);
	bool is_float = dtype_class(t) == DT_FLOAT;
	float x[CHUNK], low, high, s = scale_at(j->scale, scale);
	float z = j->zero ? scale_at(j->zero, scale) : 0;

	to_f32(tensor_dtype(j->x), j->x->data, at, n, x);
	int_range(t, &low, &high);
	for (int64_t i = 0; i < n; i++) {
		if (step) {
			s = scale_at(j->scale, scale + i * step);
			z = j->zero ? scale_at(j->zero, scale + i * step) : 0;
		}
		float q = narrowed(j->precision, x[i] / s);
		if (is_float) {
			q += z;
			if (dtype_bits(t) == 8)
				((uint8_t *)j->y->data)[at + i] = f32_to_f8(t, q, j->saturate);
			else
				elem_set_f64(t, j->y->data, at + i, (double)q);
			continue;
		}
		q = rintf(q) + z;
		q = q >= low ? q : low; /* NaN too */
		q = q <= high ? q : high;
		elem_set_i64(t, j->y->data, at + i, (int64_t)q);
	}
}

static void quantize_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct quant_job *j = arg;
	enum dtype t = tensor_dtype(j->y);
	bool quick = (t == DT_U8 || t == DT_I8) && tensor_dtype(j->x) == DT_F32 &&
		     j->precision == DT_F32;
	int64_t at, n, scale, step;

	(void)thread;
	for (int64_t r = begin; r < end; r++) {
		row_at(j->v, r, &at, &n, &scale, &step);
		if (quick && !step) {
			int32_t z = j->zero ? (int32_t)int8_at(j->zero->data, t == DT_I8, scale) : 0;
			igemm_kernels()->quantize((const float *)j->x->data + at,
						  (uint8_t *)j->y->data + at, n,
						  scale_at(j->scale, scale), z,
						  t == DT_I8 ? -128 : 0, t == DT_I8 ? 127 : 255);
			continue;
		}
		for (int64_t i = 0; i < n; i += CHUNK)
			quantize_run(j, at + i, lesser(CHUNK, n - i), scale + i * step, step);
	}
}

static int quantize_run_step(const struct call *c)
{
	const struct quantize_params *p = call_params(c);
	struct quant_job j = {.v = c->step->state,
			      .x = c->in[0],
			      .scale = c->in[1],
			      .zero = c->step->node->nin > 2 ? c->in[2] : NULL,
			      .y = c->out[0],
			      .saturate = p->saturate != 0};

	j.precision = p->precision ? (enum dtype)p->precision : tensor_dtype(j.scale);
	if (j.precision != DT_F16 && j.precision != DT_BF16)
		j.precision = DT_F32;
	if (j.v->total)
		pool_for(j.v->count, grain_rows(&j), quantize_piece, &j);
	return 0;
}

/* 8-bit integers whose scales are fp32, one an element. */
static void dequantize_each(const struct quant_job *j, int64_t at, int64_t n, int64_t scale)
{
	const float *s = (const float *)j->scale->data + scale;
	float *y = (float *)j->y->data + at;
	const char *x = (const char *)j->x->data + at;
	const char *z = j->zero ? (const char *)j->zero->data + scale : NULL;

	if (tensor_dtype(j->x) == DT_U8)
		for (int64_t i = 0; i < n; i++)
			y[i] = (float)((uint8_t)x[i] - (z ? (uint8_t)z[i] : 0)) * s[i];
	else
		for (int64_t i = 0; i < n; i++)
			y[i] = (float)((int8_t)x[i] - (z ? (int8_t)z[i] : 0)) * s[i];
}

static void dequantize_run(const struct quant_job *j, int64_t at, int64_t n, int64_t scale,
			   int64_t step)
{
	enum dtype t = tensor_dtype(j->x);
	bool is_float = dtype_class(t) == DT_FLOAT;
	float y[CHUNK], s = scale_at(j->scale, scale), zf = 0;
	int64_t z = 0;

	for (int64_t i = 0; i < n; i++) {
		if (step || !i) {
			s = scale_at(j->scale, scale + i * step);
			if (j->zero && is_float)
				zf = scale_at(j->zero, scale + i * step);
			else if (j->zero)
				z = elem_i64(t, j->zero->data, scale + i * step);
		}
		y[i] = (is_float ? (float)elem_f64(t, j->x->data, at + i) - zf
				 : (float)(elem_i64(t, j->x->data, at + i) - z)) *
		       s;
	}
	from_f32(tensor_dtype(j->y), y, n, j->y->data, at);
}

static void dequantize_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct quant_job *j = arg;
	enum dtype t = tensor_dtype(j->x);
	bool quick = (t == DT_U8 || t == DT_I8) && tensor_dtype(j->y) == DT_F32;
	int64_t at, n, scale, step;

	(void)thread;
	for (int64_t r = begin; r < end; r++) {
		row_at(j->v, r, &at, &n, &scale, &step);
		if (quick && !step) {
			int32_t z = j->zero ? (int32_t)int8_at(j->zero->data, t == DT_I8, scale) : 0;
			float s = scale_at(j->scale, scale), *y = (float *)j->y->data + at;
			if (t == DT_U8)
				igemm_kernels()->dequantize_u8((const uint8_t *)j->x->data + at, y,
							       n, s, z);
			else
				igemm_kernels()->dequantize_i8((const int8_t *)j->x->data + at, y,
							       n, s, z);
			continue;
		}
		if (quick && step == 1 && tensor_dtype(j->scale) == DT_F32) {
			dequantize_each(j, at, n, scale);
			continue;
		}
		for (int64_t i = 0; i < n; i += CHUNK)
			dequantize_run(j, at + i, lesser(CHUNK, n - i), scale + i * step, step);
	}
}

static int dequantize_run_step(const struct call *c)
{
	struct quant_job j = {.v = c->step->state,
			      .x = c->in[0],
			      .scale = c->in[1],
			      .zero = c->step->node->nin > 2 ? c->in[2] : NULL,
			      .y = c->out[0]};

	if (j.v->total)
		pool_for(j.v->count, grain_rows(&j), dequantize_piece, &j);
	return 0;
}

/* ---- DynamicQuantizeLinear ----------------------------------------------------------------------------------- */

struct range_job {
	const float *x;
	uint8_t *y;
	float low[64], high[64];
	float scale;
	int32_t zero;
};

static void range_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	struct range_job *j = arg;
	float low = simd()->min(j->x + begin, end - begin),
	      high = simd()->max(j->x + begin, end - begin);

	j->low[thread & 63] = fminf(j->low[thread & 63], low);
	j->high[thread & 63] = fmaxf(j->high[thread & 63], high);
}

static void dynamic_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct range_job *j = arg;

	(void)thread;
	igemm_kernels()->quantize(j->x + begin, j->y + begin, end - begin, j->scale, j->zero, 0, 255);
}

static int dynamic_run(const struct call *c)
{
	struct range_job j = {.x = c->in[0]->data, .y = c->out[0] ? c->out[0]->data : NULL};
	int64_t n = tensor_count(c->in[0]);
	float low = 0, high = 0;

	/* more threads than slots would race */
	if (pool_threads() > 64)
		range_piece(&j, 0, n, 0);
	else
		pool_for(n, 1 << 15, range_piece, &j);
	for (int i = 0; i < 64; i++) {
		low = fminf(low, j.low[i]);
		high = fmaxf(high, j.high[i]);
	}
	j.scale = low == high ? 1 : (high - low) / 255.0f;
	float zero = rintf(0 - low / j.scale);
	j.zero = (int32_t)(zero >= 0 ? (zero <= 255 ? zero : 255) : 0);
	if (c->out[0])
		pool_for(n, 1 << 15, dynamic_piece, &j);
	if (c->out[1])
		*(float *)c->out[1]->data = j.scale;
	if (c->out[2])
		*(uint8_t *)c->out[2]->data = (uint8_t)j.zero;
	return 0;
}

/* ---- what becomes of an integer sum ---------------------------------------------------------------------------- */

/*
 * int32: as it is. Float: sum * scale + bias. Quantized: rounded, zero point added, clamped. The
 * factor is ascale * bscale (/ yscale), each one number, or one a row (a) or a column (b).
 */
struct finish {
	enum dtype type; /* of the output */
	const struct tensor *ascale, *bscale, *yscale, *yzero, *bias;
	const int32_t *add;	  /* of a row or column: added to the sum */
	int64_t add_row, add_col; /* steps of add */
	float alpha;
	bool by_row; /* scales of b, and add, go by rows (convolutions) */
	int64_t first_row, first_col, rows,
		cols; /* of the whole matrix, where scales count on over batches */
	/* made once a batch: factors of rows or of columns; NULL where both differ */
	const float *factor;
	int64_t factor_row, factor_col; /* steps of factor */
};

static float scale_of(const struct tensor *t, int64_t i, int64_t n, int64_t batch_first)
{
	int64_t count = tensor_count(t);

	if (count == 1)
		return scale_at(t, 0);
	return scale_at(t, count == n ? i : batch_first + i);
}

/* The factor of one sum: row m, column n. */
static float factor_of(const struct finish *f, int64_t m, int64_t n)
{
	float as = f->alpha * scale_of(f->ascale, m, f->rows, f->first_row);
	float ys = f->yscale ? scale_of(f->yscale, m, f->rows, f->first_row) : 1;

	return as *
	       scale_of(f->bscale, f->by_row ? m : n, f->by_row ? f->rows : f->cols, f->first_col) /
	       ys;
}

static bool is_many(const struct tensor *t)
{
	return t && tensor_count(t) > 1;
}

/* room: for as many factors as there are rows or columns. */
static void finish_prepare(struct finish *f, float *room)
{
	bool columns = f->type != DT_I32 && !f->by_row && is_many(f->bscale);
	bool rows = f->type != DT_I32 &&
		    (is_many(f->ascale) || is_many(f->yscale) || (f->by_row && is_many(f->bscale)));

	f->factor = NULL;
	if (f->type == DT_I32 || (rows && columns))
		return;
	f->factor = room;
	f->factor_row = rows;
	f->factor_col = columns;
	for (int64_t i = 0; i < (rows ? f->rows : columns ? f->cols : 1); i++)
		room[i] = factor_of(f, rows ? i : 0, columns ? i : 0);
}

enum { FINISH = 64 }; /* sums that are looked at together */

static void store_some(const struct finish *f, int64_t m, int64_t n0, int64_t cols,
		       const int32_t *sums, void *out, int64_t at)
{
	int32_t added[FINISH];
	float own[FINISH];
	const float *scale = own;
	int step = 1;

	for (int64_t i = 0; i < cols && f->add; i++)
		added[i] = (int32_t)((uint32_t)sums[i] +
				     (uint32_t)f->add[m * f->add_row + (n0 + i) * f->add_col]);
	if (f->add)
		sums = added;
	if (f->factor) {
		scale = f->factor + m * f->factor_row + n0 * f->factor_col;
		step = (int)f->factor_col;
	} else {
		for (int64_t i = 0; i < cols; i++)
			own[i] = factor_of(f, m, n0 + i);
	}
	if (f->type == DT_F32) {
		float *y = (float *)out + at;
		for (int64_t i = 0; i < cols; i++)
			y[i] = (float)sums[i] * scale[i * step];
		for (int64_t i = 0; i < cols && f->bias; i++)
			y[i] += scale_at(f->bias, n0 + i);
		return;
	}
	bool is_signed = f->type == DT_I8;
	int32_t z = f->yzero ? (int32_t)scale_of(f->yzero, m, f->rows, f->first_row) : 0;
	igemm_kernels()->requantize(sums, (uint8_t *)out + at, cols, scale, step, z,
				    is_signed ? -128 : 0, is_signed ? 127 : 255);
}

static void store_row(const struct finish *f, int64_t m, int64_t n0, int64_t cols,
		      const int32_t *sums, void *out, int64_t at)
{
	if (f->type == DT_I32) {
		int32_t *y = (int32_t *)out + at;
		memcpy(y, sums, (size_t)cols * sizeof(*sums));
		for (int64_t i = 0; i < cols && f->add; i++)
			y[i] = (int32_t)((uint32_t)y[i] +
					 (uint32_t)f->add[m * f->add_row + (n0 + i) * f->add_col]);
		return;
	}
	for (int64_t i = 0; i < cols; i += FINISH)
		store_some(f, m, n0 + i, lesser(FINISH, cols - i), sums + i, out, at + i);
}

/* ---- matrix products ------------------------------------------------------------------------------------------- */

struct product {
	struct matmul_shape s;
	uint32_t a, b, za, zb; /* inputs */
	size_t scratch; /* of igemm; rows of A and what is known of rows and columns follow */
	const uint8_t *packed; /* B */
};

struct product_job {
	const struct product *p;
	const char *b;
	uint8_t flip; /* of B, whose bytes are taken as signed */
	struct finish f;
	void *y;
	int64_t y_first;
};

static int32_t zero_of(const struct tensor *z, int64_t i, int64_t n, int64_t first)
{
	if (!z)
		return 0;
	int64_t count = tensor_count(z);
	bool is_signed = tensor_dtype(z) == DT_I8;
	return (int32_t)int8_at(z->data, is_signed, count == 1 ? 0 : count == n ? i : first + i);
}

/* What bytes of this type are flipped by to be taken as the other kind, and how zero points move. */
static uint8_t flip_to(bool want_signed, enum dtype t)
{
	return (t == DT_I8) == want_signed ? 0 : IGEMM_FLIP;
}

static int32_t zero_move(bool want_signed, uint8_t flip)
{
	return want_signed ? -flip : flip;
}

/* Columns n0.. of a matrix as a panel. */
static void pack_columns(const struct matmul_shape *s, const uint8_t *b, uint8_t flip, int64_t n0,
			 int64_t count, uint8_t *panel)
{
	const uint8_t *from = b + n0 * s->b_col;

	if (s->b_col == 1) {
		struct igemm_rows rows = {.base = from, .row = s->b_row};
		igemm_kernels()->pack(&rows, s->k, count, flip, panel);
		return;
	}
	memset(panel, 0, igemm_panel(s->k));
	for (int64_t k = 0; k < s->k; k += 4, panel += 4 * IGEMM_NR)
		for (int64_t i = 0; i < count; i++)
			for (int64_t j = 0; j < 4 && k + j < s->k; j++)
				panel[4 * i + j] = from[i * s->b_col + (k + j) * s->b_row] ^ flip;
}

static void pack_matrix(const void *arg, int64_t n0, int64_t count, uint8_t *panel)
{
	const struct product_job *j = arg;

	pack_columns(&j->p->s, (const uint8_t *)j->b, j->flip, n0, count, panel);
}

static void store_matrix(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
			 const int32_t *sums, int64_t ld)
{
	const struct product_job *j = arg;

	for (int64_t r = 0; r < rows; r++)
		store_row(&j->f, m + r, n, cols, sums + r * ld, j->y,
			  j->y_first + (m + r) * j->p->s.n + n);
}

/* Rows of A as igemm wants them, and their sums where those are asked for. */
struct code_job {
	uint8_t *to;
	int32_t *sum;
	const uint8_t *from;
	int64_t k, row, col;
	uint8_t flip;
	bool is_signed; /* afterwards */
};

static void code_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct code_job *j = arg;
	int64_t depth = igemm_depth(j->k);

	(void)thread;
	for (int64_t m = begin; m < end; m++) {
		uint8_t *restrict to = j->to + m * depth;
		const uint8_t *from = j->from + m * j->row;
		if (j->col == 1 && !j->flip)
			memcpy(to, from, (size_t)j->k);
		else if (j->col == 1)
			for (int64_t k = 0; k < j->k; k++)
				to[k] = from[k] ^ IGEMM_FLIP;
		else
			for (int64_t k = 0; k < j->k; k++)
				to[k] = from[k * j->col] ^ j->flip;
		for (int64_t k = j->k; k < depth; k++)
			to[k] = 0;
		if (j->sum)
			j->sum[m] = igemm_kernels()->row_sum(to, j->k, j->is_signed);
	}
}

static void code_rows(struct code_job *j, int64_t m)
{
	if (m > 0)
		pool_for(m, 1 + (1 << 15) / (j->k + 1), code_piece, j);
}

/* Room of a product behind igemm's scratch: rows of A, their zero points and sums, zero points of B. */
struct product_room {
	uint8_t *rows;
	int32_t *za, *rest, *zb;
	float *factor;
};

static size_t align64(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

static struct product_room product_room(char *at, int64_t m, int64_t n, int64_t k)
{
	struct product_room r = {.rows = (uint8_t *)at};

	r.za = (int32_t *)(void *)(at + align64((size_t)m * (size_t)igemm_depth(k)));
	r.rest = r.za + m;
	r.factor = (float *)(r.rest + m);
	r.zb = (int32_t *)(void *)(r.factor + (m > n ? m : n));
	return r;
}

static bool product_bytes(int64_t m, int64_t n, int64_t k, size_t scratch, size_t *bytes)
{
	size_t rows, numbers;

	return size_mul((size_t)m, (size_t)igemm_depth(k), &rows) &&
	       size_mul((size_t)(m > n ? m : n), 4 * sizeof(int32_t), &numbers) &&
	       size_add(rows, numbers, &rows) && size_add(rows, 64, &rows) &&
	       size_add(rows, scratch, bytes);
}

struct pack_all {
	const struct matmul_shape *s;
	const uint8_t *b;
	uint8_t *to, flip;
	int32_t *sums; /* of the columns: behind the panels */
};

static int64_t panels_of(const struct matmul_shape *s)
{
	return (s->n + IGEMM_NR - 1) / IGEMM_NR;
}

static void pack_all_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct pack_all *j = arg;

	(void)thread;
	for (int64_t p = begin; p < end; p++) {
		uint8_t *panel = j->to + (size_t)p * igemm_panel(j->s->k);
		pack_columns(j->s, j->b, j->flip, p * IGEMM_NR,
			     lesser(IGEMM_NR, j->s->n - p * IGEMM_NR), panel);
		igemm_kernels()->column_sums(panel, igemm_depth(j->s->k) / 4, true,
					     j->sums + p * IGEMM_NR);
	}
}

static int pack_all(void *dst, const struct tensor *t, void *arg)
{
	struct pack_all j = {
		.s = arg, .b = t->data, .to = dst, .flip = flip_to(true, tensor_dtype(t))};

	j.sums = (int32_t *)(void *)(j.to + (size_t)panels_of(j.s) * igemm_panel(j.s->k));
	pool_for(panels_of(j.s), 8, pack_all_piece, &j);
	return 0;
}

/* A constant matrix is packed once a session. */
static int pack_weights(struct site *s, struct step *st, struct diag *d, struct product *p)
{
	const struct tensor *b = site_known(s, p->b);
	size_t bytes;

	if (!s->store || !b || !site_is_weight(s, p->b) || b->shape.rank > 2 || !tensor_count(b) ||
	    !size_mul((size_t)panels_of(&p->s), igemm_panel(p->s.k) + IGEMM_NR * sizeof(int32_t),
		      &bytes))
		return 0;
	p->packed = store_get(s->store, b, p->s.b_col == 1 ? "igemm" : "igemm transposed", bytes,
			      pack_all, &p->s, d);
	if (!p->packed)
		return -E_MEMORY;
	st->unread |= UINT64_C(1) << p->b;
	return 0;
}

static int product_prepare(struct site *s, struct step *st, struct diag *d, struct product *p)
{
	p->scratch = igemm_scratch(p->s.k);
	if (!product_bytes(p->s.m, p->s.n, p->s.k, p->scratch, &st->workspace))
		return site_fail(s, d, E_SIZE, NULL, NULL);
	st->state = p;
	return pack_weights(s, st, d, p);
}

static int product_reshape(struct site *s, struct step *st, struct diag *d, uint32_t a, uint32_t b,
			   uint32_t za, uint32_t zb)
{
	struct product *p = arena_new(s->plan_arena, struct product);

	p->a = a;
	p->b = b;
	p->za = za;
	p->zb = zb;
	if (!matmul_shape(&site_in(s, a)->shape, &site_in(s, b)->shape, NULL, &p->s))
		return site_fail(s, d, E_SHAPE, "matrices that can be multiplied", NULL);
	return product_prepare(s, st, d, p);
}

static const struct tensor *optional_in(const struct call *c, uint32_t i)
{
	return i < c->step->node->nin ? c->in[i] : NULL;
}

/* Zero points of n rows or columns; whether there is one that is not 0. */
static bool zeros_of(const struct tensor *z, int32_t move, int64_t n, int64_t first, int32_t *to)
{
	bool any = false;

	for (int64_t i = 0; i < n; i++) {
		to[i] = zero_of(z, i, n, first) + move;
		any |= to[i] != 0;
	}
	return any;
}

/* One batch: A from a, B from j->b. */
static void product_batch(const struct call *c, struct product_job *j, const uint8_t *a, int64_t batch)
{
	const struct product *p = c->step->state;
	const struct matmul_shape *s = &p->s;
	const struct tensor *za = optional_in(c, p->za), *zb = optional_in(c, p->zb);
	uint8_t flip = flip_to(false, tensor_dtype(c->in[p->a]));
	struct product_room r = product_room((char *)c->workspace + p->scratch, s->m, s->n, s->k);
	struct igemm g = {
		.m = s->m,
		.n = s->n,
		.k = s->k,
		.packed = p->packed,
		.packed_sums = !p->packed
				       ? NULL
				       : (const int32_t *)(const void *)(p->packed +
									 (size_t)panels_of(s) *
										 igemm_panel(s->k)),
		.pack = pack_matrix,
		.store = store_matrix,
		.arg = j};

	finish_prepare(&j->f, r.factor);
	if (zeros_of(za, zero_move(false, flip), s->m, batch * s->m, r.za))
		g.a_zero = r.za;
	if (zeros_of(zb, zero_move(true, j->flip), s->n, batch * s->n, r.zb)) {
		g.b_zero = r.zb;
		g.b_zero_step = 1;
		g.a_rest = r.rest;
	}
	g.a = a;
	if (flip || s->a_col != 1 || s->a_row != igemm_depth(s->k) || g.b_zero) {
		struct code_job code = {.to = r.rows,
					.sum = g.b_zero ? r.rest : NULL,
					.from = a,
					.k = s->k,
					.row = s->a_row,
					.col = s->a_col,
					.flip = flip};
		code_rows(&code, s->m);
		g.a = r.rows;
	}
	for (int64_t m = 0; m < s->m && g.b_zero; m++)
		r.rest[m] = (int32_t)((uint32_t)r.rest[m] - (uint32_t)s->k * (uint32_t)r.za[m]);
	igemm_run(&g, c->workspace);
}

/* All batches; f says what becomes of the sums. */
static int product_run(const struct call *c, const struct finish *f)
{
	const struct product *p = c->step->state;
	const struct matmul_shape *s = &p->s;
	const struct tensor *a = c->in[p->a], *b = c->in[p->b];
	struct product_job j = {
		.p = p, .flip = flip_to(true, tensor_dtype(b)), .f = *f, .y = c->out[0]->data};
	int64_t batches = 1, at[MAX_RANK] = {0};

	for (int i = 0; i < s->nbatch; i++)
		batches *= s->batch[i];
	j.f.rows = s->m;
	j.f.cols = s->n;
	for (int64_t k = 0; k < batches; k++) {
		int64_t ao = 0, bo = 0;
		for (int i = 0; i < s->nbatch; i++) {
			ao += at[i] * s->a_batch[i];
			bo += at[i] * s->b_batch[i];
		}
		j.b = (const char *)b->data + bo;
		j.f.first_col = k * s->n;
		j.f.first_row = k * s->m;
		j.y_first = k * s->m * s->n;
		product_batch(c, &j, (const uint8_t *)a->data + ao, k);
		for (int i = s->nbatch - 1; i >= 0 && ++at[i] == s->batch[i]; i--)
			at[i] = 0;
	}
	return 0;
}

static int matmul_integer_reshape(struct site *s, struct step *st, struct diag *d)
{
	return product_reshape(s, st, d, 0, 1, 2, 3);
}

static int matmul_integer_run(const struct call *c)
{
	return product_run(c, &(struct finish){.type = DT_I32});
}

static int to_float_reshape(struct site *s, struct step *st, struct diag *d)
{
	return product_reshape(s, st, d, 0, 1, 4, 5);
}

static int to_float_run(const struct call *c)
{
	return product_run(c, &(struct finish){.type = DT_F32,
					       .alpha = 1,
					       .ascale = c->in[2],
					       .bscale = c->in[3],
					       .bias = optional_in(c, 6)});
}

static bool qlinear_int(const struct site *s, struct why *w)
{
	uint64_t q8 = T_U8 | T_I8;

	if (!(T_BIT(site_in(s, 0)->type.dtype) & q8) || !(T_BIT(site_in(s, 3)->type.dtype) & q8) ||
	    !(T_BIT(site_in(s, 7)->type.dtype) & q8))
		return refuse(w, "8-bit integers only");
	return true;
}

static int qlinear_matmul_reshape(struct site *s, struct step *st, struct diag *d)
{
	return product_reshape(s, st, d, 0, 3, 2, 5);
}

static int qlinear_matmul_run(const struct call *c)
{
	return product_run(c, &(struct finish){.type = tensor_dtype(c->out[0]),
					       .alpha = 1,
					       .ascale = c->in[1],
					       .bscale = c->in[4],
					       .yscale = c->in[6],
					       .yzero = c->in[7]});
}

/* Any 8-bit type, floats too: element by element. */
static int qlinear_reference_run(const struct call *c)
{
	const struct product *p = c->step->state;
	const struct matmul_shape *s = &p->s;
	const struct tensor *a = c->in[0], *b = c->in[3], *za = c->in[2], *zb = c->in[5],
			    *ys = c->in[6], *yz = c->in[7];
	enum dtype t = tensor_dtype(c->out[0]);
	int64_t total = tensor_count(c->out[0]), mn = s->m * s->n;
	float low, high;

	int_range(t, &low, &high);
	for (int64_t o = 0; o < total; o++) {
		int64_t k = o / mn, m = o % mn / s->n, n = o % s->n, ao = 0, bo = 0, rest = k;
		double sum = 0;
		for (int i = s->nbatch - 1; i >= 0; i--) {
			ao += rest % s->batch[i] * s->a_batch[i];
			bo += rest % s->batch[i] * s->b_batch[i];
			rest /= s->batch[i];
		}
		float az = scale_of(za, m, s->m, k * s->m), bz = scale_of(zb, n, s->n, k * s->n);
		for (int64_t i = 0; i < s->k; i++)
			sum += (elem_f64(tensor_dtype(a), a->data, ao + m * s->a_row + i * s->a_col) -
				(double)az) *
			       (elem_f64(tensor_dtype(b), b->data, bo + i * s->b_row + n * s->b_col) -
				(double)bz);
		float scale = scale_of(c->in[1], m, s->m, k * s->m) *
			      scale_of(c->in[4], n, s->n, k * s->n) / scale_of(ys, m, s->m, k * s->m);
		float v = (float)sum * scale, z = scale_of(yz, m, s->m, k * s->m);
		if (dtype_class(t) == DT_FLOAT) {
			((uint8_t *)c->out[0]->data)[o] = f32_to_f8(t, v + z, true);
			continue;
		}
		v = rintf(v) + z;
		v = v >= low ? v : low;
		elem_set_i64(t, c->out[0]->data, o, (int64_t)(v <= high ? v : high));
	}
	return 0;
}

/* ---- QGemm ------------------------------------------------------------------------------------------------------- */

static int qgemm_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct qgemm_params *q = site_params(s);
	const struct shape *a = &site_in(s, 0)->shape, *b = &site_in(s, 3)->shape;
	const struct vinfo *add = site_in(s, 6);
	struct product *p = arena_new(s->plan_arena, struct product);
	struct shape y = site_out(s, 0)->shape, full;

	*p = (struct product){.a = 0, .b = 3, .za = 2, .zb = 5};
	p->s = (struct matmul_shape){.out = y,
				     .m = y.dim[0],
				     .n = y.dim[1],
				     .k = a->dim[!q->transA],
				     .a_row = q->transA ? 1 : a->dim[1],
				     .a_col = q->transA ? a->dim[1] : 1,
				     .b_row = q->transB ? 1 : b->dim[1],
				     .b_col = q->transB ? b->dim[1] : 1};
	if (add && (!shape_broadcast(&add->shape, &y, &full) || !shape_equal(&full, &y)))
		return site_fail(s, d, E_SHAPE, "C that broadcasts to the product", NULL);
	return product_prepare(s, st, d, p);
}

static int qgemm_run(const struct call *c)
{
	const struct qgemm_params *q = call_params(c);
	const struct tensor *add = optional_in(c, 6);
	struct finish f = {.type = tensor_dtype(c->out[0]),
			   .alpha = q->alpha,
			   .ascale = c->in[1],
			   .bscale = c->in[4],
			   .yscale = optional_in(c, 7),
			   .yzero = optional_in(c, 8)};
	int64_t st[MAX_RANK] = {0};

	if (add) {
		shape_broadcast_strides(&add->shape, &c->out[0]->shape, st);
		f.add = add->data;
		f.add_row = st[0];
		f.add_col = st[1];
	}
	return product_run(c, &f);
}

/* ---- convolutions -------------------------------------------------------------------------------------------------- */

struct int_conv {
	struct window w;
	int64_t n, channels, group, features; /* channels and features of a group */
	int64_t k, pixels, inputs;
	size_t scratch, padded; /* of igemm; of an image with its pads */
	uint32_t x, wt, zx, zw;
	/*
	 * The padded image is split by the places' remainders by the strides: a tap of the kernel then reads
	 * one part at a constant distance from where the output element lies in it. Columns are the places
	 * of a part up to the last output; what lies between the rows is left out when results are stored.
	 * Not even: pads that cut off, or an image too large: taps are looked up place by place.
	 */
	bool even;
	int64_t columns, plane; /* plane: elements of a part */
	int64_t part[MAX_RANK]; /* its size */
	int64_t parts;
	int32_t *offset; /* of each k, even only */
};

/* Weights as igemm wants them with the rows' sums, kept in the store where they are constant. */
struct conv_rows {
	const uint8_t *rows;
	const int32_t *sum;
};

struct conv_job {
	const struct int_conv *v;
	const uint8_t *x; /* of one image and group */
	int32_t zero;	  /* of x, as it is */
	uint8_t flip;	  /* of x, whose bytes are taken as unsigned */
	struct finish f;
	void *y;
	int64_t y_first, m_first;
};

/* Where tap k reads in the parts of its channel. */
static int64_t tap_offset(const struct int_conv *v, int64_t tap)
{
	const struct window *w = &v->w;
	int64_t at = 0, step = 1, part = 0, parts = 1;

	for (int d = w->n - 1; d >= 0; d--) {
		int64_t o = tap % w->kernel[d] * w->dilation[d];
		tap /= w->kernel[d];
		at += o / w->stride[d] * step;
		part += o % w->stride[d] * parts;
		step *= v->part[d];
		parts *= w->stride[d];
	}
	return part * v->plane + at;
}

/* The parts of the padded image: their size, and where each k is read; false: not in this way. */
static bool set_parts(struct int_conv *v, struct site *s)
{
	const struct window *w = &v->w;
	int64_t last = 0, size = window_size(w), image;

	v->plane = v->parts = 1;
	for (int d = 0; d < w->n; d++) {
		if (w->begin[d] < 0 || w->end[d] < 0 || w->out[d] < 1)
			return false;
		/* what a rounded size leaves unread is not there */
		v->part[d] = w->out[d] + (w->kernel[d] - 1) * w->dilation[d] / w->stride[d];
		if (v->part[d] > INT32_MAX / v->plane || w->stride[d] > INT32_MAX / v->parts)
			return false;
		v->plane *= v->part[d];
		v->parts *= w->stride[d];
		last = last * v->part[d] + w->out[d] - 1;
	}
	if (v->channels < 1 || __builtin_mul_overflow(v->plane, v->parts, &image) ||
	    image > INT32_MAX / v->channels ||
	    !size_mul((size_t)image, (size_t)(v->channels * v->group), &v->padded))
		return false;
	v->columns = last + 1;
	v->offset = arena_new_n(s->plan_arena, int32_t, (size_t)v->k);
	for (int64_t k = 0; k < v->k; k++)
		v->offset[k] = (int32_t)(k / size * image + tap_offset(v, k % size));
	return true;
}

static int conv_reshape_as(struct site *s, struct step *st, struct diag *d, uint32_t x, uint32_t wt,
			   uint32_t zx, uint32_t zw)
{
	const struct int_conv_params *p = site_params(s);
	struct int_conv *v = arena_new(s->plan_arena, struct int_conv);
	const struct shape *xs = &site_in(s, x)->shape, *ws = &site_in(s, wt)->shape;
	const char *bad = window_set(&v->w, &p->window, xs, ws, false, d);

	if (bad)
		return site_fail(s, d, E_SHAPE, bad, NULL);
	v->x = x;
	v->wt = wt;
	v->zx = zx;
	v->zw = zw;
	v->n = xs->dim[0];
	v->group = p->group;
	v->channels = ws->dim[1];
	v->features = ws->dim[0] / p->group;
	v->k = v->channels * window_size(&v->w);
	v->pixels = v->columns = window_outputs(&v->w);
	v->inputs = window_inputs(&v->w);
	v->scratch = igemm_scratch(v->k);
	v->even = v->pixels > 0 && v->k > 0 && set_parts(v, s);
	if (!v->even)
		v->padded = 0;
	if (!product_bytes(ws->dim[0], 1, v->k, v->scratch, &st->workspace) ||
	    !size_add(st->workspace, v->padded, &st->workspace))
		return site_fail(s, d, E_SIZE, NULL, NULL);
	st->state = v;
	return 0;
}

enum { TAPS = 32 }; /* that are prepared at once */

/* What a tap reads for the pixels of a panel: runs of elements; between them it lies in the padding. */
struct run {
	int32_t from; /* in the channel */
	int16_t to, n;
};
struct taps {
	int64_t n;
	int runs[TAPS];
	struct run run[TAPS][IGEMM_NR];
};

static void add_tap(struct taps *t, int64_t tap, int64_t from, int64_t to)
{
	struct run *last = t->runs[tap] ? &t->run[tap][t->runs[tap] - 1] : NULL;

	if (last && last->from + last->n == from && last->to + last->n == to)
		last->n++;
	else
		t->run[tap][t->runs[tap]++] = (struct run){(int32_t)from, (int16_t)to, 1};
}

/* Taps e0..e0+n-1 of a pixel, column i. */
static void taps_of_pixel(const struct window *w, int64_t e0, int64_t pixel, int64_t i, struct taps *t)
{
	int64_t origin[MAX_RANK], at[MAX_RANK], rest = e0;

	for (int d = w->n - 1; d >= 0; d--) {
		origin[d] = pixel % w->out[d] * w->stride[d] - w->begin[d];
		pixel /= w->out[d];
		at[d] = rest % w->kernel[d];
		rest /= w->kernel[d];
	}
	for (int64_t e = 0; e < t->n; e++) {
		int64_t o = 0;
		bool inside = true;
		for (int d = 0; d < w->n; d++) {
			int64_t p = origin[d] + at[d] * w->dilation[d];
			inside &= p >= 0 && p < w->in[d];
			o = o * w->in[d] + p;
		}
		if (inside)
			add_tap(t, e, o, i);
		for (int d = w->n - 1; d >= 0 && ++at[d] == w->kernel[d]; d--)
			at[d] = 0;
	}
}

/* What a tap of a channel reads for the pixels: bytes, the zero point in the padding. */
static void read_tap(const uint8_t *x, const struct taps *t, int64_t tap, uint8_t zero, uint8_t *to)
{
	const struct run *run = t->run[tap];

	if (t->runs[tap] == 1 && run->n == IGEMM_NR) {
		memcpy(to, x + run->from, IGEMM_NR);
		return;
	}
	memset(to, zero, IGEMM_NR);
	for (int r = 0; r < t->runs[tap]; r++)
		for (int i = 0; i < run[r].n; i++)
			to[run[r].to + i] = x[run[r].from + i];
}

/* All taps at hand: rows of bytes in the order of k, some at a time. */
static void pack_channels(const struct conv_job *j, const struct taps *t, int64_t count, uint8_t *panel)
{
	enum { ROWS = 64 };
	uint8_t rows[ROWS][IGEMM_NR];
	struct igemm_rows b = {.base = rows[0], .row = IGEMM_NR};
	int64_t k = 0, first = 0;

	for (int64_t c = 0; c < j->v->channels; c++) {
		const uint8_t *x = j->x + c * j->v->inputs;
		for (int64_t e = 0; e < t->n; e++) {
			read_tap(x, t, e, (uint8_t)j->zero, rows[k++ - first]);
			if (k - first < ROWS && k < j->v->k)
				continue;
			igemm_kernels()->pack(&b, k - first, count, j->flip, panel + first * IGEMM_NR);
			first = k;
		}
	}
}

static void pack_taps(const struct conv_job *j, int64_t n0, int64_t count, uint8_t *panel)
{
	const struct int_conv *v = j->v;
	int64_t size = window_size(&v->w);
	uint8_t row[IGEMM_NR];
	struct taps t;

	memset(panel, 0, igemm_panel(v->k));
	for (int64_t e0 = 0; e0 < size; e0 += t.n) {
		t.n = lesser(TAPS, size - e0);
		memset(t.runs, 0, sizeof(t.runs));
		for (int64_t i = 0; i < count; i++)
			taps_of_pixel(&v->w, e0, n0 + i, i, &t);
		if (t.n == size) {
			pack_channels(j, &t, count, panel);
			return;
		}
		for (int64_t c = 0; c < v->channels; c++) {
			for (int64_t e = 0, k = c * size + e0; e < t.n; e++, k++) {
				uint8_t *to = panel + k / 4 * 4 * IGEMM_NR + k % 4;
				read_tap(j->x + c * v->inputs, &t, e, (uint8_t)j->zero, row);
				for (int64_t i = 0; i < count; i++)
					to[4 * i] = row[i] ^ j->flip;
			}
		}
	}
}

static void pack_pixels(const void *arg, int64_t n0, int64_t count, uint8_t *panel)
{
	const struct conv_job *j = arg;

	if (j->v->even) {
		struct igemm_rows rows = {.base = j->x + n0, .offset = j->v->offset};
		igemm_kernels()->pack(&rows, j->v->k, count, j->flip, panel);
	} else {
		pack_taps(j, n0, count, panel);
	}
}

/* The output element of column n, and how many columns from it on are outputs side by side (0: none). */
static int64_t column_run(const struct int_conv *v, int64_t n, int64_t *pixel)
{
	const struct window *w = &v->w;
	int last = w->n - 1;
	int64_t x = n % v->part[last], rest = n / v->part[last], at = 0, step = w->out[last];
	bool inside = x < w->out[last];

	for (int d = last - 1; d >= 0; d--) {
		int64_t o = rest % v->part[d];
		inside &= o < w->out[d];
		at += o * step;
		step *= w->out[d];
		rest /= v->part[d];
	}
	*pixel = at + x;
	return inside ? w->out[last] - x : 0;
}

enum { CONV_COLUMNS = 512 }; /* that are stored at once, at most */

/* Runs of columns that are outputs side by side. */
struct segment {
	int64_t pixel;
	int16_t from, n;
};

static int segments_of(const struct int_conv *v, int64_t n, int64_t cols, struct segment *to)
{
	int64_t width = v->part[v->w.n - 1], pixel;
	int count = 0;

	for (int64_t i = 0, rest; i < cols; i += rest) {
		int64_t run = column_run(v, n + i, &pixel);
		rest = lesser(width - (n + i) % width, cols - i);
		run = lesser(run, rest);
		if (run)
			to[count++] = (struct segment){pixel, (int16_t)i, (int16_t)run};
	}
	return count;
}

static void store_pixels(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
			 const int32_t *sums, int64_t ld)
{
	const struct conv_job *j = arg;
	const struct int_conv *v = j->v;
	size_t size = dtype_bits(j->f.type) / 8;
	struct segment seg[CONV_COLUMNS];
	int32_t line[CONV_COLUMNS];
	int count;

	if (!v->even) {
		for (int64_t r = 0; r < rows; r++)
			store_row(&j->f, j->m_first + m + r, n, cols, sums + r * ld, j->y,
				  j->y_first + (m + r) * v->pixels + n);
		return;
	}
	count = segments_of(v, n, cols, seg);
	for (int64_t r = 0; r < rows && count; r++) {
		char *y = (char *)j->y + (size_t)(j->y_first + (m + r) * v->pixels) * size;
		store_row(&j->f, j->m_first + m + r, 0, cols, sums + r * ld, line, 0);
		for (int k = 0; k < count; k++)
			memcpy(y + (size_t)seg[k].pixel * size,
			       (const char *)line + (size_t)seg[k].from * size,
			       (size_t)seg[k].n * size);
	}
}

/* The parts of an image of all channels, with its pads. */
struct pad_job {
	const struct int_conv *v;
	const uint8_t *x;
	uint8_t *to, zero;
};

/* n elements of a line of the image that are `stride` apart. */
static void pad_line(const uint8_t *x, int64_t n, int64_t stride, uint8_t *to)
{
	if (stride == 1)
		memcpy(to, x, (size_t)n);
	else if (stride == 2)
		igemm_kernels()->every_other(x, n, to);
	else
		for (int64_t i = 0; i < n; i++)
			to[i] = x[i * stride];
}

/* One part of a channel: the places that leave the remainders rem. */
static void pad_part(const struct int_conv *v, const int64_t *rem, const uint8_t *x, uint8_t *to)
{
	const struct window *w = &v->w;
	int last = w->n - 1;
	int64_t at[MAX_RANK] = {0}, stride = w->stride[last], width = v->part[last];
	int64_t first = rem[last] - w->begin[last]; /* place in the image of a line's first element */
	int64_t i = first < 0 ? (-first + stride - 1) / stride : 0;
	int64_t end = w->in[last] > first ? (w->in[last] - first + stride - 1) / stride : 0;

	end = lesser(end, width);
	for (const uint8_t *stop = to + v->plane; to < stop; to += width) {
		int64_t from = 0;
		bool inside = end > i;
		for (int d = 0; d < last; d++) {
			int64_t o = at[d] * w->stride[d] + rem[d] - w->begin[d];
			inside &= o >= 0 && o < w->in[d];
			from = from * w->in[d] + o;
		}
		if (inside)
			pad_line(x + from * w->in[last] + first + i * stride, end - i, stride, to + i);
		for (int d = last - 1; d >= 0 && ++at[d] == v->part[d]; d--)
			at[d] = 0;
	}
}

static void pad_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct pad_job *j = arg;
	const struct int_conv *v = j->v;

	(void)thread;
	for (int64_t c = begin; c < end; c++) {
		uint8_t *to = j->to + c * v->plane * v->parts;
		int64_t rem[MAX_RANK] = {0};
		memset(to, j->zero, (size_t)(v->plane * v->parts));
		for (int64_t p = 0; p < v->parts; p++) {
			pad_part(v, rem, j->x + c * v->inputs, to + p * v->plane);
			for (int d = v->w.n - 1; d >= 0 && ++rem[d] == v->w.stride[d]; d--)
				rem[d] = 0;
		}
	}
}

static bool has_no_pads(const struct int_conv *v)
{
	for (int d = 0; d < v->w.n; d++)
		if (v->w.begin[d] || v->w.stride[d] != 1 || v->part[d] != v->w.in[d])
			return false;
	return true;
}

/* The image that taps are read from; even: with its pads, unless there are none. */
static const uint8_t *padded_image(const struct int_conv *v, const uint8_t *x, uint8_t zero,
				   uint8_t *room)
{
	struct pad_job j = {v, x, room, zero};
	int64_t channels = v->channels * v->group;

	if (!v->even || has_no_pads(v))
		return x;
	pool_for(channels, 1 + 16384 / ((int64_t)v->padded / channels + 1), pad_piece, &j);
	return room;
}

/* Groups of one image. */
struct groups_job {
	const struct conv_job *j;
	const struct igemm *g;
	void *scratch;
	int64_t image; /* bytes of a group */
};

static void one_group(const struct groups_job *a, int64_t group, bool alone, int thread)
{
	const struct int_conv *v = a->j->v;
	struct conv_job j = *a->j;
	struct igemm g = *a->g;
	int64_t m = group * v->features;

	j.x += group * a->image;
	j.m_first = m;
	j.y_first += m * v->pixels;
	g.a += m * igemm_depth(v->k);
	g.a_zero = g.a_zero ? g.a_zero + m : NULL;
	g.a_rest += m;
	g.arg = &j;
	if (alone)
		igemm_run_alone(&g, a->scratch, thread);
	else
		igemm_run(&g, a->scratch);
}

static void groups_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	for (int64_t g = begin; g < end; g++)
		one_group(arg, g, true, thread);
}

/* One feature of one channel: the taps' rows are added up. */
static void one_channel(const struct groups_job *a, int64_t channel)
{
	const struct int_conv *v = a->j->v;
	struct conv_job j = *a->j;
	const uint8_t *w = a->g->a + channel * igemm_depth(v->k);
	int32_t sums[CONV_COLUMNS], za = a->g->a_zero ? a->g->a_zero[channel] : 0, zero = 0;

	for (int64_t k = 0; k < v->k && a->g->b_zero; k++)
		zero += ((int8_t)w[k] - za) * *a->g->b_zero;
	j.x += channel * a->image;
	j.m_first = channel;
	j.y_first += channel * v->pixels;
	for (int64_t n = 0, cols; n < v->columns; n += cols) {
		struct igemm_rows rows = {.base = j.x + n, .offset = v->offset};
		cols = lesser(CONV_COLUMNS, v->columns - n);
		igemm_kernels()->add_rows(&rows, (const int8_t *)w, za, v->k, j.flip, -zero, cols,
					  sums);
		store_pixels(&j, 0, 1, n, cols, sums, cols);
	}
}

static void channels_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	(void)thread;
	for (int64_t c = begin; c < end; c++)
		one_channel(arg, c);
}

static int conv_run_as(const struct call *c, const struct finish *f)
{
	const struct int_conv *v = c->step->state;
	const struct tensor *x = c->in[v->x], *wt = c->in[v->wt], *zx = optional_in(c, v->zx);
	int64_t features = v->features * v->group, channels = v->channels * v->group;
	struct product_room room = product_room((char *)c->workspace + v->scratch, features, 1, v->k);
	struct conv_job j = {
		.v = v, .flip = flip_to(false, tensor_dtype(x)), .f = *f, .y = c->out[0]->data};
	struct code_job code = {.to = room.rows,
				.sum = room.rest,
				.from = wt->data,
				.k = v->k,
				.row = v->k,
				.col = 1,
				.flip = flip_to(true, tensor_dtype(wt)),
				.is_signed = true};
	struct igemm g = {.m = v->features,
			  .n = v->columns,
			  .k = v->k,
			  .a = room.rows,
			  .a_signed = true,
			  .a_rest = room.rest,
			  .pack = pack_pixels,
			  .store = store_pixels};
	struct groups_job groups = {&j, &g, c->workspace,
				    v->even ? (int64_t)v->padded / v->group : v->channels * v->inputs};

	if (zx && tensor_count(zx) != 1)
		return call_fail(c, E_SHAPE, "one zero point of x", NULL);
	if (!v->pixels || !features)
		return 0;
	j.zero = zero_of(zx, 0, 1, 0);
	j.f.by_row = true;
	j.f.rows = features;
	finish_prepare(&j.f, room.factor);
	room.zb[0] = j.zero + zero_move(false, j.flip);
	if (room.zb[0])
		g.b_zero = room.zb;
	code_rows(&code, features);
	if (zeros_of(optional_in(c, v->zw), zero_move(true, code.flip), features, 0, room.za))
		g.a_zero = room.za;
	for (int64_t m = 0; m < features; m++)
		room.rest[m] =
			(int32_t)((uint32_t)room.rest[m] - (uint32_t)v->k * (uint32_t)room.za[m]);
	for (int64_t i = 0; i < v->n; i++) {
		j.x = padded_image(v, (const uint8_t *)x->data + i * channels * v->inputs,
				   (uint8_t)j.zero, (uint8_t *)(room.zb + 1));
		j.y_first = i * features * v->pixels;
		if (v->even && v->channels == 1 && v->features == 1)
			pool_for(v->group, 1 + 16384 / (v->columns * v->k + 1), channels_piece,
				 &groups);
		else if (v->group >= 2 * pool_threads())
			pool_for(v->group, 1, groups_piece, &groups);
		else
			for (int64_t k = 0; k < v->group; k++)
				one_group(&groups, k, false, 0);
	}
	return 0;
}

static int conv_integer_reshape(struct site *s, struct step *st, struct diag *d)
{
	return conv_reshape_as(s, st, d, 0, 1, 2, 3);
}

static int conv_integer_run(const struct call *c)
{
	return conv_run_as(c, &(struct finish){.type = DT_I32});
}

static int qlinear_conv_reshape(struct site *s, struct step *st, struct diag *d)
{
	return conv_reshape_as(s, st, d, 0, 3, 2, 5);
}

static int qlinear_conv_run(const struct call *c)
{
	const struct tensor *bias = optional_in(c, 8);
	struct finish f = {.type = tensor_dtype(c->out[0]),
			   .alpha = 1,
			   .ascale = c->in[1],
			   .bscale = c->in[4],
			   .yscale = c->in[6],
			   .yzero = c->in[7],
			   .add = bias ? bias->data : NULL,
			   .add_row = 1};

	return conv_run_as(c, &f);
}

/* ---- QLinearConcat -------------------------------------------------------------------------------------------------------- */

struct qconcat_job {
	const uint8_t *x;
	uint8_t *y;
	int64_t part, row;    /* elements of a row of x, of y */
	const uint8_t *table; /* NULL: as they are */
};

/* Elements begin..end-1 of x. */
static void qconcat_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct qconcat_job *j = arg;

	(void)thread;
	for (int64_t i = begin; i < end;) {
		int64_t o = i / j->part, k = i % j->part, n = lesser(j->part - k, end - i);
		const uint8_t *x = j->x + i;
		uint8_t *y = j->y + o * j->row + k;
		if (!j->table)
			memcpy(y, x, (size_t)n);
		else
			igemm_kernels()->look_up(x, y, n, j->table);
		i += n;
	}
}

/* What each of the 256 codes becomes; false: itself. */
static bool requantize_table(const struct tensor *x, const struct tensor *xs,
			     const struct tensor *xz, const struct call *c, uint8_t *table)
{
	enum dtype t = tensor_dtype(x), yt = tensor_dtype(c->out[0]);
	float low, high, scale = scale_at(c->in[0], 0), zero = scale_at(c->in[1], 0);
	float from = scale_at(xs, 0), from_zero = scale_at(xz, 0);

	if (t == yt && from == scale && from_zero == zero)
		return false;
	int_range(yt, &low, &high);
	for (int k = 0; k < 256; k++) {
		float v = (float)(t == DT_I8 ? (int8_t)k : k);
		v = rintf((v - from_zero) * from / scale) + zero;
		v = v >= low ? v : low;
		v = v <= high ? v : high;
		table[k] = (uint8_t)(int)v;
	}
	return true;
}

static int qconcat_run(const struct call *c)
{
	const struct qconcat_params *p = call_params(c);
	const struct shape *ys = &c->out[0]->shape;
	int axis = axis_of(p->axis, ys->rank);
	uint8_t table[256], *y = c->out[0]->data;

	for (uint32_t i = 2; i + 2 < c->step->node->nin; i += 3) {
		const struct tensor *x = c->in[i];
		struct qconcat_job j = {.x = x->data,
					.y = y,
					.part = shape_span(&x->shape, axis, ys->rank),
					.row = shape_span(ys, axis, ys->rank)};
		if (requantize_table(x, c->in[i + 1], c->in[i + 2], c, table))
			j.table = table;
		pool_for(tensor_count(x), MOVE_GRAIN, qconcat_piece, &j);
		y += j.part;
	}
	return 0;
}

/* ---- QLinearGlobalAveragePool ---------------------------------------------------------------------------------------------- */

struct qglobal_job {
	const uint8_t *x;
	struct tensor *y;
	int64_t pixels, channels;
	bool last, is_signed;
	float scale;
	int32_t zero_x, zero_y;
};

static int64_t sum_channel(const struct qglobal_job *j, int64_t k)
{
	uint8_t flip = j->is_signed ? IGEMM_FLIP : 0;
	int64_t sum = 0;

	if (!j->last) {
		sum = igemm_kernels()->sum_bytes(j->x + k * j->pixels, j->pixels, flip);
	} else {
		const uint8_t *x = j->x + k / j->channels * j->pixels * j->channels + k % j->channels;
		for (int64_t i = 0; i < j->pixels; i++)
			sum += x[i * j->channels] ^ flip;
	}
	return sum - flip * j->pixels;
}

static void qglobal_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct qglobal_job *j = arg;
	float low, high;

	(void)thread;
	int_range(tensor_dtype(j->y), &low, &high);
	for (int64_t k = begin; k < end; k++) {
		int64_t sum = sum_channel(j, k) - j->pixels * j->zero_x;
		float q = rintf((float)sum * j->scale) + (float)j->zero_y;
		q = q >= low ? q : low;
		q = q <= high ? q : high;
		elem_set_i64(tensor_dtype(j->y), j->y->data, k, (int64_t)q);
	}
}

static int qglobal_run(const struct call *c)
{
	const struct qglobal_params *p = call_params(c);
	const struct tensor *x = c->in[0], *zx = c->in[2], *zy = optional_in(c, 4);
	const struct shape *s = &x->shape;
	int last = p->channels_last ? s->rank - 1 : 1;
	struct qglobal_job j = {.x = x->data,
				.y = c->out[0],
				.channels = s->dim[last],
				.last = p->channels_last != 0,
				.is_signed = tensor_dtype(x) == DT_I8};

	j.pixels = p->channels_last ? shape_span(s, 1, last) : shape_span(s, 2, s->rank);
	j.scale = scale_at(c->in[1], 0) / (scale_at(c->in[3], 0) * (float)j.pixels);
	j.zero_x = zx ? (int32_t)int8_at(zx->data, j.is_signed, 0) : 0;
	j.zero_y = zy ? (int32_t)int8_at(zy->data, tensor_dtype(zy) == DT_I8, 0) : 0;
	pool_for(tensor_count(c->out[0]), move_grain(j.pixels), qglobal_piece, &j);
	return 0;
}

/* ---- QLinearAdd, QLinearMul -------------------------------------------------------------------------------------------------- */

static void add_codes(void *arg, const void *const *in, void *y, int64_t n)
{
	igemm_kernels()->add8(arg, in[0], in[1], y, n);
}

static void multiply_codes(void *arg, const void *const *in, void *y, int64_t n)
{
	igemm_kernels()->multiply8(arg, in[0], in[1], y, n);
}

static int qbinary_reshape(struct site *s, struct step *st, struct diag *d)
{
	struct bcast *b = arena_new(s->plan_arena, struct bcast);
	const struct shape *in[] = {&site_in(s, 0)->shape, &site_in(s, 3)->shape};

	for (uint32_t i = 1; i < s->node->nin; i++)
		if (i != 3 && site_in(s, i) && shape_count(&site_in(s, i)->shape) != 1)
			return site_fail(s, d, E_SHAPE, "one scale and one zero point", NULL);
	bcast_make(b, &site_out(s, 0)->shape, in, 2, (int64_t[]){1, 1}, 1);
	st->state = b;
	return 0;
}

static int qbinary_run(const struct call *c, bool multiply)
{
	enum dtype t = tensor_dtype(c->in[0]);
	const void *in[] = {c->in[0]->data, c->in[3]->data};
	uint8_t flip = flip_to(false, t);
	float a = scale_at(c->in[1], 0), b = scale_at(c->in[4], 0), y = scale_at(c->in[6], 0);
	struct igemm_codes j = {
		.a_scale = multiply ? a * b / y : a / y,
		.b_scale = b / y,
		.a_zero = zero_of(c->in[2], 0, 1, 0) + zero_move(false, flip),
		.b_zero = zero_of(c->in[5], 0, 1, 0) + zero_move(false, flip),
		.zero = (float)(zero_of(optional_in(c, 7), 0, 1, 0) + zero_move(false, flip)),
		.flip = flip};

	bcast_run(c->step->state, in, c->out[0]->data, 1 << 14,
		  multiply ? multiply_codes : add_codes, &j);
	return 0;
}

static int qadd_run(const struct call *c)
{
	return qbinary_run(c, false);
}

static int qmultiply_run(const struct call *c)
{
	return qbinary_run(c, true);
}

/* ---- QLinearSigmoid, QLinearLeakyRelu: a table of what each code becomes -------------------------------------------------- */

struct table_job {
	const uint8_t *x;
	uint8_t *y, table[256];
};

static void table_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct table_job *j = arg;

	(void)thread;
	igemm_kernels()->look_up(j->x + begin, j->y + begin, end - begin, j->table);
}

static int table_reshape(struct site *s, struct step *st, struct diag *d)
{
	(void)st;
	for (uint32_t i = 1; i < s->node->nin; i++)
		if (site_in(s, i) && shape_count(&site_in(s, i)->shape) != 1)
			return site_fail(s, d, E_SHAPE, "one scale and one zero point", NULL);
	return 0;
}

static int table_run(const struct call *c, float (*f)(float, float), float alpha)
{
	struct table_job j = {.x = c->in[0]->data, .y = c->out[0]->data};
	bool is_signed = tensor_dtype(c->in[0]) == DT_I8;
	const struct tensor *zx = optional_in(c, 2), *zy = optional_in(c, 4);
	float from = scale_at(c->in[1], 0), to = scale_at(c->in[3], 0), low, high;

	int_range(tensor_dtype(c->out[0]), &low, &high);
	for (int k = 0; k < 256; k++) {
		int32_t code = is_signed ? (int8_t)k : k;
		float v = f((float)(code - zero_of(zx, 0, 1, 0)) * from, alpha);
		v = rintf(v / to) + (float)zero_of(zy, 0, 1, 0);
		v = v >= low ? v : low;
		j.table[k] = (uint8_t)(int32_t)(v <= high ? v : high);
	}
	pool_for(tensor_count(c->in[0]), 1 << 15, table_piece, &j);
	return 0;
}

static float sigmoid(float x, float alpha)
{
	(void)alpha;
	return 1 / (1 + expf(-x));
}

static float leaky(float x, float alpha)
{
	return x < 0 ? alpha * x : x;
}

static int qsigmoid_run(const struct call *c)
{
	return table_run(c, sigmoid, 0);
}

static int qleaky_run(const struct call *c)
{
	const struct qleaky_params *p = call_params(c);

	return table_run(c, leaky, p->alpha);
}

/* ---- GatherBlockQuantized ------------------------------------------------------------------------------------------------ */

struct block_gather {
	int64_t bits; /* of an element that is packed in bytes; 0: it has a type of its own */
	int64_t rows, dim, inner, picked; /* before the gathered axis, of it, behind it; indices */
	int64_t qdim, qinner, blocks, block; /* of the quantized axis */
	struct shape data;		     /* as if it were not packed */
	int64_t scale_step[MAX_RANK];	     /* 0 where scales repeat */
	int qaxis;
};

static int block_gather_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct block_gather_params *p = site_params(s);
	struct block_gather *v = arena_new(s->plan_arena, struct block_gather);
	const struct shape *scale = &site_in(s, 2)->shape;
	const struct vinfo *zero = site_in(s, 3);
	enum dtype t = site_in(s, 0)->type.dtype;
	int64_t step = 1;
	int axis;

	v->data = block_gather_data(&site_in(s, 0)->shape, t, p->bits);
	v->bits = t == DT_U8 && p->bits < 8 ? p->bits : 0;
	axis = axis_of(p->gather_axis, v->data.rank);
	v->qaxis = axis_of(p->quantize_axis, v->data.rank);
	v->rows = shape_span(&v->data, 0, axis);
	v->dim = v->data.dim[axis];
	v->inner = shape_span(&v->data, axis + 1, v->data.rank);
	v->picked = shape_count(&site_in(s, 1)->shape);
	v->qdim = v->data.dim[v->qaxis];
	v->block = p->block_size ? p->block_size : v->qdim > 0 ? v->qdim : 1;
	v->blocks = (v->qdim + v->block - 1) / v->block;
	if (scale->rank != v->data.rank || scale->dim[v->qaxis] != v->blocks)
		return site_fail(s, d, E_SHAPE, "a scale of each block", NULL);
	for (int i = v->data.rank - 1; i >= 0; i--) {
		v->scale_step[i] =
			scale->dim[i] == 1 && v->data.dim[i] != 1 && i != v->qaxis ? 0 : step;
		if (i != v->qaxis && scale->dim[i] != v->data.dim[i] && scale->dim[i] != 1)
			return site_fail(s, d, E_SHAPE, "scales as the data has rows", NULL);
		step *= scale->dim[i];
	}
	step = v->bits ? (v->blocks * v->bits + 7) / 8 * (step / (v->blocks > 0 ? v->blocks : 1))
		       : step;
	if (zero && shape_count(&zero->shape) != step)
		return site_fail(s, d, E_SHAPE, "zero points as there are scales", NULL);
	st->state = v;
	return 0;
}

struct block_gather_job {
	const struct block_gather *v;
	const struct tensor *data, *index, *scale, *zero;
	struct tensor *y;
};

static int packed_at(const void *p, int64_t i, int64_t bits)
{
	int64_t per = 8 / bits;

	return ((const uint8_t *)p)[i / per] >> (i % per * bits) & ((1 << bits) - 1);
}

/* Element i of the data less its zero point, times its scale. */
static float block_element(const struct block_gather_job *j, int64_t i)
{
	const struct block_gather *v = j->v;
	enum dtype t = tensor_dtype(j->data);
	int64_t at = 0, rest = i, block = 0;
	float x, z = 0;

	for (int k = v->data.rank - 1; k >= 0; k--) {
		int64_t o = rest % v->data.dim[k];
		rest /= v->data.dim[k];
		if (k == v->qaxis)
			block = o = o / v->block;
		at += o * v->scale_step[k];
	}
	x = v->bits ? (float)packed_at(j->data->data, i, v->bits)
		    : (float)elem_f64(t, j->data->data, i);
	if (j->zero && v->bits) /* rows of zero points begin at a byte */
		z = (float)packed_at((const uint8_t *)j->zero->data +
					     at / v->blocks * ((v->blocks * v->bits + 7) / 8),
				     block, v->bits);
	else if (j->zero)
		z = scale_at(j->zero, at);
	else if (t == DT_U8)
		z = v->bits ? (float)(1 << (v->bits - 1)) : 128;
	return (x - z) * scale_at(j->scale, at);
}

static void block_gather_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct block_gather_job *j = arg;
	const struct block_gather *v = j->v;
	float part[CHUNK];

	(void)thread;
	for (int64_t r = begin; r < end; r++) {
		int64_t k = elem_i64(tensor_dtype(j->index), j->index->data, r % v->picked);
		int64_t from = (r / v->picked * v->dim + (k < 0 ? k + v->dim : k)) * v->inner;
		for (int64_t i = 0, n; i < v->inner; i += n) {
			n = lesser(CHUNK, v->inner - i);
			for (int64_t e = 0; e < n; e++)
				part[e] = block_element(j, from + i + e);
			from_f32(tensor_dtype(j->y), part, n, j->y->data, r * v->inner + i);
		}
	}
}

static int block_gather_run(const struct call *c)
{
	const struct block_gather *v = c->step->state;
	struct block_gather_job j = {v, c->in[0], c->in[1], c->in[2], optional_in(c, 3), c->out[0]};

	for (int64_t i = 0; i < v->picked; i++) {
		int64_t k = elem_i64(tensor_dtype(j.index), j.index->data, i);
		if (k < -v->dim || k >= v->dim)
			return call_fail(c, E_VALUE,
					 fmt(c->diag, "indices below %lld", (long long)v->dim),
					 fmt(c->diag, "%lld", (long long)k));
	}
	pool_for(v->rows * v->picked, 1 + 4096 / (v->inner + 1), block_gather_piece, &j);
	return 0;
}

const struct kernel cpu_quant[] = {
	{.op = "QuantizeLinear", .flags = K_REFERENCE, .reshape = rows_reshape, .run = quantize_run_step},
	{.op = "com.microsoft::QuantizeLinear",
	 .flags = K_REFERENCE,
	 .reshape = rows_reshape,
	 .run = quantize_run_step},
	{.op = "DequantizeLinear",
	 .flags = K_REFERENCE,
	 .reshape = rows_reshape,
	 .run = dequantize_run_step},
	{.op = "com.microsoft::DequantizeLinear",
	 .flags = K_REFERENCE,
	 .reshape = rows_reshape,
	 .run = dequantize_run_step},
	{.op = "DynamicQuantizeLinear", .flags = K_REFERENCE, .run = dynamic_run},
	{.op = "MatMulInteger",
	 .flags = K_REFERENCE,
	 .reshape = matmul_integer_reshape,
	 .run = matmul_integer_run},
	{.op = "com.microsoft::MatMulIntegerToFloat",
	 .flags = K_REFERENCE,
	 .reshape = to_float_reshape,
	 .run = to_float_run},
	{.op = "QLinearMatMul",
	 .accepts = qlinear_int,
	 .reshape = qlinear_matmul_reshape,
	 .run = qlinear_matmul_run},
	{.op = "QLinearMatMul",
	 .flags = K_REFERENCE,
	 .reshape = qlinear_matmul_reshape,
	 .run = qlinear_reference_run},
	{.op = "com.microsoft::QGemm", .flags = K_REFERENCE, .reshape = qgemm_reshape, .run = qgemm_run},
	{.op = "ConvInteger",
	 .flags = K_REFERENCE,
	 .reshape = conv_integer_reshape,
	 .run = conv_integer_run},
	{.op = "QLinearConv",
	 .flags = K_REFERENCE,
	 .reshape = qlinear_conv_reshape,
	 .run = qlinear_conv_run},
	{.op = "com.microsoft::QLinearConv",
	 .flags = K_REFERENCE,
	 .reshape = qlinear_conv_reshape,
	 .run = qlinear_conv_run},
	{.op = "com.microsoft::MatMulNBits",
	 .flags = K_REFERENCE,
	 .reshape = nbits_reshape,
	 .run = nbits_run},
	{.op = "com.microsoft::MatMulBnb4", .flags = K_REFERENCE, .reshape = bnb_reshape, .run = bnb_run},
	{.op = "com.microsoft::QLinearAdd",
	 .flags = K_REFERENCE,
	 .reshape = qbinary_reshape,
	 .run = qadd_run},
	{.op = "com.microsoft::QLinearMul",
	 .flags = K_REFERENCE,
	 .reshape = qbinary_reshape,
	 .run = qmultiply_run},
	{.op = "com.microsoft::QLinearSigmoid",
	 .flags = K_REFERENCE,
	 .reshape = table_reshape,
	 .run = qsigmoid_run},
	{.op = "com.microsoft::QLinearLeakyRelu",
	 .flags = K_REFERENCE,
	 .reshape = table_reshape,
	 .run = qleaky_run},
	{.op = "com.microsoft::GatherBlockQuantized",
	 .flags = K_REFERENCE,
	 .reshape = block_gather_reshape,
	 .run = block_gather_run},
	{.op = "com.microsoft::QLinearConcat", .flags = K_REFERENCE, .run = qconcat_run},
	{.op = "com.microsoft::QLinearGlobalAveragePool", .flags = K_REFERENCE, .run = qglobal_run},
	{0}};
