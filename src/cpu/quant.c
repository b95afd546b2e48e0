/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/quantized/quant.h"

#include "base/pool.h"
#include "cpu/math/move.h"
#include "cpu/onednn/onednn.h"
#include "cpu/quantized/nbits.h"
#include "cpu/quantized/qconv.h"
#include "cpu/quantized/qlinear.h"
#include "cpu/quantized/qproduct.h"
#include "cpu/math/simd.h"
#include "ops/quant.h"

#include <string.h>

enum { CHUNK = 1024 };

/* ---- QuantizeLinear, DequantizeLinear ---------------------------------------------------------------------- */

/*
 * The tensor x, cut into rows, which are the units of work. Either all elements of a row share one
 * scale, or each element has its own scale; row_at tells which.
 */
struct rows {
	struct granularity g;
	int64_t count, length; /* number of rows; elements of the longest row */
	int64_t total;	       /* elements of x */
};

/*
 * Sets *at to the offset of row r in x, *n to its number of elements, *scale to the index of its
 * first scale, and *step to 0 if all elements share that scale, or to 1 if the scale index grows by
 * 1 from element to element.
 */
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

static int64_t rows_per_task(const struct quant_job *j)
{
	/*
	 * Neighbouring rows of packed elements may share a byte, so that two threads would race.
	 * Therefore one thread writes all rows.
	 */
	if (dtype_bits(tensor_dtype(j->y)) < 8)
		return INT64_MAX;
	return j->v->length >= 16384 ? 1 : 16384 / j->v->length + 1;
}

static float round_to_precision(enum dtype t, float v)
{
	return t == DT_F16    ? f16_to_f32(f32_to_f16(v))
	       : t == DT_BF16 ? bf16_to_f32(f32_to_bf16(v))
			      : v;
}

/*
 * Quantizes n elements (at most CHUNK) from offset `at`. Element i has the scale with index scale +
 * i * step.
 */
static void quantize_elements(const struct quant_job *j, int64_t at, int64_t n, int64_t scale,
			      int64_t step)
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
		float q = round_to_precision(j->precision, x[i] / s);
		if (is_float) {
			q += z;
			if (dtype_bits(t) == 8)
				((uint8_t *)j->y->data)[at + i] = f32_to_f8(t, q, j->saturate);
			else
				elem_set_f64(t, j->y->data, at + i, (double)q);
			continue;
		}
		q = clamped(rintf(q) + z, low, high);
		elem_set_i64(t, j->y->data, at + i, (int64_t)q);
	}
}

static void quantize_rows(void *arg, int64_t begin, int64_t end, int thread)
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
			quantize_elements(j, at + i, lesser(CHUNK, n - i), scale + i * step, step);
	}
}

static int quantize_run(const struct call *c)
{
	const struct quantize_params *p = call_params(c);
	struct quant_job j = {.v = c->step->state,
			      .x = c->in[0],
			      .scale = c->in[1],
			      .zero = optional_in(c, 2),
			      .y = c->out[0],
			      .saturate = p->saturate != 0};

	j.precision = p->precision ? (enum dtype)p->precision : tensor_dtype(j.scale);
	if (j.precision != DT_F16 && j.precision != DT_BF16)
		j.precision = DT_F32;
	if (j.v->total)
		pool_for(j.v->count, rows_per_task(&j), quantize_rows, &j);
	return 0;
}

/* Dequantizes n 8-bit integers from offset `at`; each element has its own fp32 scale. */
static void dequantize_int8_per_element(const struct quant_job *j, int64_t at, int64_t n, int64_t scale)
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

static void dequantize_elements(const struct quant_job *j, int64_t at, int64_t n, int64_t scale,
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

static void dequantize_rows(void *arg, int64_t begin, int64_t end, int thread)
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
			dequantize_int8_per_element(j, at, n, scale);
			continue;
		}
		for (int64_t i = 0; i < n; i += CHUNK)
			dequantize_elements(j, at + i, lesser(CHUNK, n - i), scale + i * step, step);
	}
}

static int dequantize_run(const struct call *c)
{
	struct quant_job j = {.v = c->step->state,
			      .x = c->in[0],
			      .scale = c->in[1],
			      .zero = optional_in(c, 2),
			      .y = c->out[0]};

	if (j.v->total)
		pool_for(j.v->count, rows_per_task(&j), dequantize_rows, &j);
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

static void find_range(void *arg, int64_t begin, int64_t end, int thread)
{
	struct range_job *j = arg;
	enum { PART = 4096 }; /* floats, which stay in the cache for both */
	float low = INFINITY, high = -INFINITY;

	for (int64_t i = begin, n; i < end; i += n) {
		n = end - i < PART ? end - i : PART;
		low = least_f32(low, simd()->min(j->x + i, n));
		high = greatest_f32(high, simd()->max(j->x + i, n));
	}

	j->low[thread & 63] = least_f32(j->low[thread & 63], low);
	j->high[thread & 63] = greatest_f32(j->high[thread & 63], high);
}

static void quantize_dynamic(void *arg, int64_t begin, int64_t end, int thread)
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

	/* low and high have 64 slots; with more threads, two would share a slot and race */
	if (pool_threads() > 64)
		find_range(&j, 0, n, 0);
	else
		pool_for(n, 1 << 15, find_range, &j);
	for (int i = 0; i < 64; i++) {
		low = least_f32(low, j.low[i]);
		high = greatest_f32(high, j.high[i]);
	}
	j.scale = low == high ? 1 : (high - low) / 255.0f;
	float zero = rintf(0 - low / j.scale);
	j.zero = (int32_t)(zero >= 0 ? (zero <= 255 ? zero : 255) : 0);
	if (c->out[0])
		pool_for(n, 1 << 15, quantize_dynamic, &j);
	if (c->out[1])
		*(float *)c->out[1]->data = j.scale;
	if (c->out[2])
		*(uint8_t *)c->out[2]->data = (uint8_t)j.zero;
	return 0;
}

/* ---- GatherBlockQuantized ------------------------------------------------------------------------------------------------ */

struct block_gather {
	int64_t bits; /* bits of an element if uint8 data packs several per byte, otherwise 0 */
	/* number of elements before, along and after the gathered axis; number of indices */
	int64_t rows, dim, inner, picked;
	/* size of the quantized axis; number and size of its blocks */
	int64_t qdim, blocks, block;
	struct shape data;	      /* shape of the data when unpacked */
	int64_t scale_step[MAX_RANK]; /* strides of the scales; 0 along broadcast dimensions */
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
	v->blocks = v->qdim > 0 ? (v->qdim - 1) / v->block + 1 : 0;
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

static int unpack_element(const void *p, int64_t i, int64_t bits)
{
	int64_t per = 8 / bits;

	return ((const uint8_t *)p)[i / per] >> (i % per * bits) & ((1 << bits) - 1);
}

/* Dequantizes element i of the data: (element - zero point) * scale. */
static float dequantize_block_element(const struct block_gather_job *j, int64_t i)
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
	x = v->bits ? (float)unpack_element(j->data->data, i, v->bits)
		    : (float)elem_f64(t, j->data->data, i);
	if (j->zero && v->bits) /* each row of zero points starts at a new byte */
		z = (float)unpack_element((const uint8_t *)j->zero->data +
						  at / v->blocks * ((v->blocks * v->bits + 7) / 8),
					  block, v->bits);
	else if (j->zero)
		z = scale_at(j->zero, at);
	else if (t == DT_U8)
		z = v->bits ? (float)(1 << (v->bits - 1)) : 128;
	return (x - z) * scale_at(j->scale, at);
}

static void gather_rows(void *arg, int64_t begin, int64_t end, int thread)
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
				part[e] = dequantize_block_element(j, from + i + e);
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
	pool_for(v->rows * v->picked, 1 + 4096 / (v->inner + 1), gather_rows, &j);
	return 0;
}

/* Elements of less than a byte cannot be brought from one layout to another. */
static bool to_whole_bytes(const struct site *s, struct why *w)
{
	return dtype_bits((enum dtype)site_out(s, 0)->type.dtype) >= 8 ||
	       refuse(w, "codes of less than a byte");
}

/* With VNNI, as processors without AVX-512 may have it, oneDNN is faster. */
static bool picture_accepts(const struct site *s, struct why *w)
{
	return qpicture_accepts(s, w) &&
	       (!onednn_qconv_of_bytes(s) ||
		refuse(w, "a processor whose products of bytes do not saturate"));
}

const struct kernel cpu_quant[] = {
	{.op = "QuantizeLinear",
	 .flags = K_ANY_LAYOUT,
	 .accepts = to_whole_bytes,
	 .reshape = rows_reshape,
	 .run = quantize_run},
	{.op = "QuantizeLinear", .flags = K_REFERENCE, .reshape = rows_reshape, .run = quantize_run},
	{.op = "com.microsoft::QuantizeLinear",
	 .flags = K_ANY_LAYOUT,
	 .accepts = to_whole_bytes,
	 .reshape = rows_reshape,
	 .run = quantize_run},
	{.op = "com.microsoft::QuantizeLinear",
	 .flags = K_REFERENCE,
	 .reshape = rows_reshape,
	 .run = quantize_run},
	{.op = "DequantizeLinear",
	 .flags = K_REFERENCE | K_ANY_LAYOUT,
	 .reshape = rows_reshape,
	 .run = dequantize_run},
	{.op = "com.microsoft::DequantizeLinear",
	 .flags = K_REFERENCE | K_ANY_LAYOUT,
	 .reshape = rows_reshape,
	 .run = dequantize_run},
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
	{.op = "QLinearConv", .accepts = picture_accepts, .reshape = qpicture_reshape, .run = qpicture_run},
	{.op = "QLinearConv", ONEDNN(qconv)},
	{.op = "QLinearConv",
	 .flags = K_REFERENCE,
	 .reshape = qlinear_conv_reshape,
	 .run = qlinear_conv_run},
	{.op = "com.microsoft::QLinearConv",
	 .accepts = picture_accepts,
	 .reshape = qpicture_reshape,
	 .run = qpicture_run},
	{.op = "com.microsoft::QLinearConv", ONEDNN(qconv)},
	{.op = "com.microsoft::QLinearConv",
	 .flags = K_REFERENCE,
	 .reshape = qlinear_conv_reshape,
	 .run = qlinear_conv_run},
	{.op = "infer::QConvAdd", .flags = K_REFERENCE, .reshape = qconv_add_reshape, .run = qconv_add_run},
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
	 .flags = K_REFERENCE | K_ANY_LAYOUT,
	 .reshape = qtable_reshape,
	 .run = qsigmoid_run},
	{.op = "com.microsoft::QLinearLeakyRelu",
	 .flags = K_REFERENCE | K_ANY_LAYOUT,
	 .reshape = qtable_reshape,
	 .run = qleaky_run},
	{.op = "infer::CodeTable",
	 .flags = K_REFERENCE,
	 .reshape = code_table_reshape,
	 .run = code_table_run},
	{.op = "infer::AllCodes", .flags = K_REFERENCE, .run = all_codes_run},
	{.op = "com.microsoft::GatherBlockQuantized",
	 .flags = K_REFERENCE,
	 .reshape = block_gather_reshape,
	 .run = block_gather_run},
	{.op = "com.microsoft::QLinearConcat", .flags = K_REFERENCE, .run = qconcat_run},
	{.op = "com.microsoft::QLinearGlobalAveragePool",
	 .flags = K_REFERENCE,
	 .reshape = qglobal_reshape,
	 .run = qglobal_run},
	{0}};
