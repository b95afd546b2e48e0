/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/quant.h"

#include "base/pool.h"
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
	const int32_t *add;	  /* per column: added to the sum */
	int64_t add_row, add_col; /* steps of add */
	float alpha;
	bool by_row; /* scales of b, and add, go by rows (convolutions) */
	int64_t first_row, first_col, rows,
		cols; /* of the whole matrix, where scales count on over batches */
};

static float scale_of(const struct tensor *t, int64_t i, int64_t n, int64_t batch_first)
{
	int64_t count = tensor_count(t);

	if (count == 1)
		return scale_at(t, 0);
	return scale_at(t, count == n ? i : batch_first + i);
}

/* The factors of a row's sums: one a column, or one for all; *step: 1 or 0. */
static void row_scales(const struct finish *f, int64_t m, int64_t n0, int64_t cols, float *scale,
		       int *step)
{
	float as = f->alpha * scale_of(f->ascale, m, f->rows, f->first_row);
	float ys = f->yscale ? scale_of(f->yscale, m, f->rows, f->first_row) : 1;

	*step = !f->by_row && tensor_count(f->bscale) > 1;
	for (int64_t i = 0; i < (*step ? cols : 1); i++) {
		int64_t b = f->by_row ? m : n0 + i;
		scale[i] = as *
			   scale_of(f->bscale, b, f->by_row ? f->rows : f->cols, f->first_col) / ys;
	}
}

static void store_row(const struct finish *f, int64_t m, int64_t n0, int64_t cols,
		      const int32_t *sums, void *out, int64_t at)
{
	int32_t added[IGEMM_NR * IGEMM_GROUP];
	float scale[IGEMM_NR * IGEMM_GROUP];
	int step;

	if (f->type == DT_I32) {
		memcpy((int32_t *)out + at, sums, (size_t)cols * sizeof(*sums));
		return;
	}
	for (int64_t i = 0; i < cols && f->add; i++)
		added[i] = (int32_t)((uint32_t)sums[i] +
				     (uint32_t)f->add[m * f->add_row + (n0 + i) * f->add_col]);
	if (f->add)
		sums = added;
	row_scales(f, m, n0, cols, scale, &step);
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

/* ---- matrix products ------------------------------------------------------------------------------------------- */

struct product {
	struct matmul_shape s;
	uint32_t a, b, za, zb; /* inputs */
	size_t scratch;	       /* of igemm; the widened A follows */
};

struct product_job {
	const struct product *p;
	const char *b;
	bool b_signed;
	const struct tensor *zb;
	int64_t zb_first; /* of this batch */
	struct finish f;
	void *y;
	int64_t y_first;
};

static int64_t zero_of(const struct tensor *z, int64_t i, int64_t n, int64_t first)
{
	if (!z)
		return 0;
	int64_t count = tensor_count(z);
	bool is_signed = tensor_dtype(z) == DT_I8;
	return int8_at(z->data, is_signed, count == 1 ? 0 : count == n ? i : first + i);
}

static void pack_matrix(const void *arg, int64_t n0, int64_t count, int16_t *panel)
{
	const struct product_job *j = arg;
	const struct matmul_shape *s = &j->p->s;
	int16_t zero[IGEMM_NR];

	for (int64_t i = 0; i < count; i++)
		zero[i] = (int16_t)zero_of(j->zb, n0 + i, s->n, j->zb_first);
	if (s->b_col == 1 && count == IGEMM_NR) {
		igemm_kernels()->pack(j->b + n0, s->b_row, s->k, j->b_signed, zero, panel);
		return;
	}
	for (int64_t k = 0; k < s->k; k++) {
		const char *b = j->b + n0 * s->b_col + k * s->b_row;
		int16_t *to = panel + (k >> 1) * 2 * IGEMM_NR + (k & 1);
		for (int64_t i = 0; i < count; i++)
			to[2 * i] = (int16_t)(int8_at(b, j->b_signed, i * s->b_col) - zero[i]);
	}
}

static void store_matrix(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
			 const int32_t *sums, int64_t ld)
{
	const struct product_job *j = arg;

	for (int64_t r = 0; r < rows; r++)
		store_row(&j->f, m + r, n, cols, sums + r * ld, j->y,
			  j->y_first + (m + r) * j->p->s.n + n);
}

struct widen_job {
	int16_t *to;
	const struct matmul_shape *s;
	const char *a;
	bool is_signed;
	const struct tensor *za;
	int64_t first;
};

static void widen_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct widen_job *j = arg;
	const struct matmul_shape *s = j->s;
	int64_t depth = igemm_depth(s->k);

	(void)thread;
	for (int64_t m = begin; m < end; m++) {
		int16_t z = (int16_t)zero_of(j->za, m, s->m, j->first), *to = j->to + m * depth;
		const char *a = j->a + m * s->a_row;
		if (s->a_col == 1 && j->is_signed)
			igemm_kernels()->widen_i8((const int8_t *)a, s->k, z, to);
		else if (s->a_col == 1)
			igemm_kernels()->widen_u8((const uint8_t *)a, s->k, z, to);
		else
			for (int64_t k = 0; k < s->k; k++)
				to[k] = (int16_t)(int8_at(a, j->is_signed, k * s->a_col) - z);
		if (depth > s->k)
			to[s->k] = 0;
	}
}

static void widen(int16_t *to, const struct matmul_shape *s, const char *a, bool is_signed,
		  const struct tensor *za, int64_t first)
{
	struct widen_job j = {to, s, a, is_signed, za, first};

	if (s->m > 0)
		pool_for(s->m, 1 + (1 << 15) / (s->k + 1), widen_piece, &j);
}

static int product_prepare(struct site *s, struct step *st, struct diag *d, struct product *p)
{
	size_t wide;

	p->scratch = igemm_scratch(p->s.k);
	if (!size_mul((size_t)p->s.m, (size_t)igemm_depth(p->s.k) * sizeof(int16_t), &wide) ||
	    !size_add(wide, p->scratch, &st->workspace))
		return site_fail(s, d, E_SIZE, NULL, NULL);
	st->state = p;
	return 0;
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

/* All batches; f says what becomes of the sums. */
static int product_run(const struct call *c, const struct finish *f)
{
	const struct product *p = c->step->state;
	const struct matmul_shape *s = &p->s;
	const struct tensor *a = c->in[p->a], *b = c->in[p->b];
	struct product_job j = {.p = p,
				.b_signed = tensor_dtype(b) == DT_I8,
				.zb = optional_in(c, p->zb),
				.f = *f,
				.y = c->out[0]->data};
	int16_t *wide = (int16_t *)(void *)((char *)c->workspace + p->scratch);
	struct igemm g = {s->m, s->n, s->k, wide, pack_matrix, store_matrix, &j};
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
		j.zb_first = j.f.first_col = k * s->n;
		j.f.first_row = k * s->m;
		j.y_first = k * s->m * s->n;
		widen(wide, s, (const char *)a->data + ao, tensor_dtype(a) == DT_I8,
		      optional_in(c, p->za), k * s->m);
		igemm_run(&g, c->workspace);
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
	size_t scratch;
	uint32_t x, wt, zx, zw;
};

struct conv_job {
	const struct int_conv *v;
	const char *x; /* of one image and group */
	bool is_signed;
	int64_t zero;
	struct finish f;
	void *y;
	int64_t y_first, m_first;
};

static int conv_reshape_as(struct site *s, struct step *st, struct diag *d, uint32_t x, uint32_t wt,
			   uint32_t zx, uint32_t zw)
{
	const struct int_conv_params *p = site_params(s);
	struct int_conv *v = arena_new(s->plan_arena, struct int_conv);
	const struct shape *xs = &site_in(s, x)->shape, *ws = &site_in(s, wt)->shape;
	const char *bad = window_set(&v->w, &p->window, xs, ws, false, d);
	size_t wide;

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
	v->pixels = window_outputs(&v->w);
	v->inputs = window_inputs(&v->w);
	v->scratch = igemm_scratch(v->k);
	if (!size_mul((size_t)ws->dim[0], (size_t)igemm_depth(v->k) * sizeof(int16_t), &wide) ||
	    !size_add(wide, v->scratch, &st->workspace))
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
static void pack_channels(const struct conv_job *j, const struct taps *t, int16_t *panel)
{
	enum { ROWS = 64 };
	uint8_t rows[ROWS][IGEMM_NR];
	int16_t zero[IGEMM_NR];
	int64_t k = 0, first = 0;

	for (int i = 0; i < IGEMM_NR; i++)
		zero[i] = (int16_t)j->zero;
	for (int64_t c = 0; c < j->v->channels; c++) {
		const uint8_t *x = (const uint8_t *)j->x + c * j->v->inputs;
		for (int64_t e = 0; e < t->n; e++) {
			read_tap(x, t, e, (uint8_t)j->zero, rows[k++ - first]);
			if (k - first < ROWS && k < j->v->k)
				continue;
			igemm_kernels()->pack(rows, IGEMM_NR, k - first, j->is_signed, zero,
					      panel + (first >> 1) * 2 * IGEMM_NR);
			first = k;
		}
	}
}

static void pack_pixels(const void *arg, int64_t n0, int64_t count, int16_t *panel)
{
	const struct conv_job *j = arg;
	const struct int_conv *v = j->v;
	int64_t size = window_size(&v->w);
	uint8_t row[IGEMM_NR];
	struct taps t;

	for (int64_t e0 = 0; e0 < size; e0 += t.n) {
		t.n = lesser(TAPS, size - e0);
		memset(t.runs, 0, sizeof(t.runs));
		for (int64_t i = 0; i < count; i++)
			taps_of_pixel(&v->w, e0, n0 + i, i, &t);
		if (t.n == size) {
			pack_channels(j, &t, panel);
			return;
		}
		for (int64_t c = 0; c < v->channels; c++) {
			for (int64_t e = 0, k = c * size + e0; e < t.n; e++, k++) {
				int16_t *to = panel + (k >> 1) * 2 * IGEMM_NR + (k & 1);
				read_tap((const uint8_t *)j->x + c * v->inputs, &t, e,
					 (uint8_t)j->zero, row);
				for (int64_t i = 0; i < count; i++)
					to[2 * i] =
						(int16_t)(int8_at(row, j->is_signed, i) - j->zero);
			}
		}
	}
}

static void store_pixels(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
			 const int32_t *sums, int64_t ld)
{
	const struct conv_job *j = arg;

	for (int64_t r = 0; r < rows; r++)
		store_row(&j->f, j->m_first + m + r, n, cols, sums + r * ld, j->y,
			  j->y_first + (m + r) * j->v->pixels + n);
}

static int conv_run_as(const struct call *c, const struct finish *f)
{
	const struct int_conv *v = c->step->state;
	const struct tensor *x = c->in[v->x], *wt = c->in[v->wt], *zx = optional_in(c, v->zx);
	struct conv_job j = {
		.v = v, .is_signed = tensor_dtype(x) == DT_I8, .f = *f, .y = c->out[0]->data};
	int16_t *wide = (int16_t *)(void *)((char *)c->workspace + v->scratch);
	int64_t depth = igemm_depth(v->k), features = v->features * v->group;
	struct matmul_shape ws = {.m = features, .k = v->k, .a_row = v->k, .a_col = 1};

	if (zx && tensor_count(zx) != 1)
		return call_fail(c, E_SHAPE, "one zero point of x", NULL);
	j.zero = zx ? int8_at(zx->data, j.is_signed, 0) : 0;
	j.f.by_row = true;
	j.f.rows = features;
	widen(wide, &ws, wt->data, tensor_dtype(wt) == DT_I8, optional_in(c, v->zw), 0);
	for (int64_t i = 0; i < v->n; i++) {
		for (int64_t g = 0; g < v->group; g++) {
			struct igemm m = {
				v->features, v->pixels,	   v->k, wide + g * v->features * depth,
				pack_pixels, store_pixels, &j};
			j.x = (const char *)x->data + (i * v->group + g) * v->channels * v->inputs;
			j.m_first = g * v->features;
			j.y_first = (i * features + g * v->features) * v->pixels;
			igemm_run(&m, c->workspace);
		}
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
		for (int64_t e = 0; e < n && j->table; e++)
			y[e] = j->table[x[e]];
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

/* Sum of n bytes as they are, eight at a time. */
static int64_t sum_bytes(const uint8_t *x, int64_t n)
{
	const uint64_t even = UINT64_C(0x00ff00ff00ff00ff), words = UINT64_C(0x0000ffff0000ffff);
	int64_t sum = 0, i = 0;

	while (n - i >= 8) {
		uint64_t lanes = 0;
		for (int k = 0; k < 128 && n - i >= 8; k++, i += 8) { /* 16-bit lanes hold 128 pairs */
			uint64_t v;
			memcpy(&v, x + i, 8);
			lanes += (v & even) + (v >> 8 & even);
		}
		lanes = (lanes & words) + (lanes >> 16 & words);
		sum += (int64_t)(lanes & UINT32_MAX) + (int64_t)(lanes >> 32);
	}
	for (; i < n; i++)
		sum += x[i];
	return sum;
}

static int64_t sum_channel(const struct qglobal_job *j, int64_t k)
{
	int64_t sum = 0, flip = j->is_signed ? 128 : 0;
	const uint8_t *x = j->x + (j->last ? k / j->channels * j->pixels * j->channels + k % j->channels
					   : k * j->pixels);

	if (!j->last && !j->is_signed)
		return sum_bytes(x, j->pixels);
	for (int64_t i = 0, step = j->last ? j->channels : 1; i < j->pixels; i++)
		sum += (x[i * step] ^ flip) - flip;
	return sum;
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
	{.op = "com.microsoft::QLinearConcat", .flags = K_REFERENCE, .run = qconcat_run},
	{.op = "com.microsoft::QLinearGlobalAveragePool", .flags = K_REFERENCE, .run = qglobal_run},
	{0}};
