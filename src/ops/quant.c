/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized operators of ONNX and of com.microsoft. */
#include "ops/quant.h"

#include "ops/reduce.h"

#include "ops/infer_util.h"
#include "ops/layout.h"
#include "ops/ints.h"
#include "ops/matmul.h"
#include "ops/upgrade.h"

#include <inttypes.h>

/* ---- QuantizeLinear, DequantizeLinear ---------------------------------------------------------------- */

static const char *blocked(struct granularity *g, const struct shape *x, const struct shape *scale,
			   int axis, int64_t block)
{
	for (int i = 0; i < x->rank; i++)
		if (i != axis && scale->dim[i] != x->dim[i])
			return "scale must have x's sizes but for the axis";
	g->kind = QUANT_BLOCK;
	g->block = block;
	g->blocks = scale->dim[axis];
	if (g->blocks != x->dim[axis] / block + (x->dim[axis] % block != 0))
		return "scale must have one element a block along the axis";
	return NULL;
}

const char *granularity_set(struct granularity *g, const struct shape *x, const struct shape *scale,
			    int64_t axis, int64_t block_size)
{
	int64_t n = shape_count(scale);
	int a = axis_of(axis, x->rank);

	*g = (struct granularity){.kind = QUANT_TENSOR, .outer = 1, .dim = 1, .inner = shape_count(x)};
	if (block_size < 0)
		return "block_size is negative";
	if (n == 1 && !block_size)
		return NULL;
	if (a < 0)
		return "axis lies outside the rank";
	g->outer = shape_span(x, 0, a);
	g->dim = x->dim[a];
	g->inner = shape_span(x, a + 1, x->rank);
	if (block_size) {
		if (scale->rank != x->rank)
			return "scale must have x's rank where block_size is given";
		return blocked(g, x, scale, a, block_size);
	}
	g->kind = QUANT_AXIS;
	if (scale->rank != 1)
		return "scale must be a scalar or a list";
	return n == g->dim ? NULL : "scale must have one element for each along the axis";
}

/* Checks that a zero point has as many elements as its scale. */
static int check_pair(const struct infer *c, uint32_t scale, uint32_t zero)
{
	struct shape s = infer_shape(c, scale), z = infer_shape(c, zero);

	if (!shape_known(&s) || !shape_known(&z) || shape_count(&s) == shape_count(&z))
		return 0;
	return infer_fail(c, E_SHAPE, (int)zero,
			  fmt(c->diag, "the scale's shape, %s", infer_shape_text(c, &s)),
			  infer_shape_text(c, &z));
}

/* Checks the shapes of scale (input 1) and zero point (input 2) against x (input 0). */
static int quantize_shapes(struct infer *c)
{
	const struct quantize_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), s = infer_shape(c, 1);
	struct granularity g;

	if (shape_known(&x) && shape_known(&s)) {
		const char *bad = granularity_set(&g, &x, &s, p->axis, p->block_size);
		if (bad)
			return infer_fail(c, E_SHAPE, 1, bad, infer_shape_text(c, &s));
	}
	return check_pair(c, 1, 2);
}

static int quantize_infer(struct infer *c)
{
	const struct quantize_params *p = infer_params(c);
	const struct vinfo *z = infer_in(c, 2);
	enum dtype t = z && z->type.dtype ? (enum dtype)z->type.dtype : DT_NONE;
	struct shape x = infer_shape(c, 0);

	if (p->output_dtype && (p->output_dtype < 0 || p->output_dtype >= DT_COUNT ||
				(t && p->output_dtype != (int64_t)t)))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "output_dtype as y_zero_point's",
				  fmt(c->diag, "%" PRId64, p->output_dtype));
	if (!t && !z)
		t = p->output_dtype ? (enum dtype)p->output_dtype : DT_U8;
	infer_set(c, 0, t, &x);
	int rc = infer_float_attribute(c, "precision", p->precision, true);
	return rc ? rc : quantize_shapes(c);
}

static int dequantize_infer(struct infer *c)
{
	const struct quantize_params *p = infer_params(c);
	enum dtype t = infer_dtype(c, 1);
	struct shape x = infer_shape(c, 0);

	if (p->output_dtype && (p->output_dtype < 0 || p->output_dtype >= DT_COUNT ||
				!(T_BIT(p->output_dtype) & (T_F32 | T_F16 | T_BF16))))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "output_dtype of a float type",
				  fmt(c->diag, "%" PRId64, p->output_dtype));
	if (p->output_dtype)
		t = (enum dtype)p->output_dtype;
	else if (t == DT_F8E8M0)
		t = DT_F32;
	infer_set(c, 0, t, &x);
	return quantize_shapes(c);
}

static int dynamic_quantize_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), scalar = {0};

	infer_set(c, 0, DT_U8, &x);
	infer_set(c, 1, DT_F32, &scalar);
	infer_set(c, 2, DT_U8, &scalar);
	return 0;
}

/* ---- products --------------------------------------------------------------------------------------------- */

/* The operands of an integer product. One that an operator does not have is NO_SLOT. */
struct product_slots {
	uint32_t a, b, a_scale, a_zero, b_scale, b_zero, bias;
};
enum { NO_SLOT = 255 };

/*
 * Checks scales or zero points, input i: one for all, one for each of the n rows or columns, or one for each in every product of a
 * batch. The texts of the slots (.dims) cannot say that, since "M" and "N" are not bound where A or B is a vector, and batches
 * are broadcast.
 */
static int check_each(const struct infer *c, uint32_t i, int64_t n, int64_t batches)
{
	struct shape s = infer_shape(c, i);
	int64_t count = shape_count(&s), all;

	if (i == NO_SLOT || count < 0 || n < 0 || count == 1 || count == n || batches < 0 ||
	    (!__builtin_mul_overflow(n, batches, &all) && count == all))
		return 0;
	return infer_fail(c, E_SHAPE, (int)i,
			  fmt(c->diag, "1, %" PRId64 " or %" PRId64 " times %" PRId64 " numbers", n,
			      batches, n),
			  infer_shape_text(c, &s));
}

static int check_product_operands(const struct infer *c, const struct product_slots *in,
				  const struct matmul_shape *s)
{
	int64_t batches = shape_span(&s->out, 0, s->nbatch);
	struct shape bias = in->bias == NO_SLOT ? SHAPE_UNKNOWN : infer_shape(c, in->bias);
	int64_t biases = shape_count(&bias);
	int err = check_each(c, in->a_scale, s->m, batches);

	err = err ? err : check_each(c, in->a_zero, s->m, batches);
	err = err ? err : check_each(c, in->b_scale, s->n, batches);
	err = err ? err : check_each(c, in->b_zero, s->n, batches);
	if (err || biases < 0 || s->n < 0 || biases == s->n)
		return err;
	return infer_fail(c, E_SHAPE, (int)in->bias, fmt(c->diag, "[%" PRId64 "]", s->n),
			  infer_shape_text(c, &bias));
}

static int product_shape(struct infer *c, const struct product_slots *in, enum dtype t)
{
	uint32_t ia = in->a, ib = in->b;
	struct shape a = infer_shape(c, ia), b = infer_shape(c, ib);
	struct matmul_shape s;

	if (a.rank < 0 || b.rank < 0) {
		infer_set(c, 0, t, &SHAPE_UNKNOWN);
		return 0;
	}
	if (!a.rank || !b.rank || !matmul_shape(&a, &b, NULL, &s))
		return infer_fail(c, E_SHAPE, (int)ib,
				  fmt(c->diag, "a matrix that %s can be multiplied by",
				      infer_shape_text(c, &a)),
				  infer_shape_text(c, &b));
	infer_set(c, 0, t, &s.out);
	return check_product_operands(c, in, &s);
}

static int matmul_integer_infer(struct infer *c)
{
	static const struct product_slots in = {
		.b = 1, .a_scale = NO_SLOT, .a_zero = 2, .b_scale = NO_SLOT, .b_zero = 3, .bias = NO_SLOT};

	return product_shape(c, &in, DT_I32);
}

static int matmul_to_float_infer(struct infer *c)
{
	static const struct product_slots in = {
		.b = 1, .a_scale = 2, .b_scale = 3, .a_zero = 4, .b_zero = 5, .bias = 6};

	return product_shape(c, &in, infer_dtype(c, 2));
}

static int qlinear_matmul_infer(struct infer *c)
{
	static const struct product_slots in = {
		.a_scale = 1, .a_zero = 2, .b = 3, .b_scale = 4, .b_zero = 5, .bias = NO_SLOT};
	int err = check_pair(c, 1, 2);

	if (!err)
		err = check_pair(c, 4, 5);
	return err ? err : product_shape(c, &in, infer_dtype(c, 7));
}

static int64_t product_macs(const struct infer *c, uint32_t ia, uint32_t ib)
{
	struct shape a = infer_shape(c, ia), b = infer_shape(c, ib), y = infer_shape(c, 0);
	struct matmul_shape s;

	(void)y;
	if (a.rank < 1 || b.rank < 1 || !matmul_shape(&a, &b, NULL, &s))
		return 0;
	int64_t n = shape_count(&s.out), macs;
	return n < 0 || __builtin_mul_overflow(n, s.k, &macs) ? 0 : macs;
}

static int64_t matmul_integer_macs(const struct infer *c)
{
	return product_macs(c, 0, 1);
}

static int64_t qlinear_matmul_macs(const struct infer *c)
{
	return product_macs(c, 0, 3);
}

/* Checks a scale or zero point of B: one for all of it, or one for each of its n columns. */
static int check_columns(const struct infer *c, uint32_t i, int64_t n)
{
	struct shape s = infer_shape(c, i);
	int64_t count = shape_count(&s);

	if (s.rank < 1 || (s.rank == 1 && (count < 0 || count == 1 || n < 0 || count == n)))
		return 0;
	return infer_fail(c, E_SHAPE, (int)i, fmt(c->diag, "[], [1] or [%" PRId64 "]", n),
			  infer_shape_text(c, &s));
}

static int qgemm_infer(struct infer *c)
{
	const struct qgemm_params *p = infer_params(c);
	struct shape a = infer_shape(c, 0), b = infer_shape(c, 3), out = {.rank = 2};
	const struct vinfo *zero = infer_in(c, 8);
	int64_t k;

	if (a.rank < 0 || b.rank < 0) {
		out = SHAPE_UNKNOWN;
	} else {
		int err = infer_unify(c, 3, a.dim[!p->transA], b.dim[p->transB != 0], &k);
		if (err)
			return err;
		out.dim[0] = a.dim[p->transA != 0];
		out.dim[1] = b.dim[!p->transB];
		for (uint32_t i = 4; !err && i < 6; i++)
			err = check_columns(c, i, out.dim[1]);
		if (err)
			return err;
	}
	infer_set(c, 0,
		  !infer_in(c, 7) ? DT_F32
		  : zero	  ? (enum dtype)zero->type.dtype
				  : infer_dtype(c, 0),
		  &out);
	return 0;
}

/*
 * Products by weights [N, K] in FP8 or, two a byte, in FP4, with a scale for each block_size weights of a row. `packed` is the
 * number of weights in an element of B.
 */
static int block_weight_infer(struct infer *c, int64_t packed)
{
	const struct block_weight *p = infer_params(c);
	struct shape a = infer_shape(c, 0), b = infer_shape(c, 1), s = infer_shape(c, 2), y = a;
	int64_t k = b.rank == 2 && b.dim[1] >= 0 ? known_product(b.dim[1], packed) : DIM_UNKNOWN,
		same;
	int err = 0;

	if (p->block_size < 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "block_size of 1 or more",
				  fmt(c->diag, "%" PRId64, p->block_size));
	if (a.rank > 0)
		err = infer_unify(c, 1, a.dim[a.rank - 1], k, &same);
	if (!err && s.rank == 2 && k >= 0)
		err = infer_unify(c, 2, k / p->block_size + (k % p->block_size != 0), s.dim[1], &same);
	if (a.rank > 0)
		y.dim[a.rank - 1] = b.rank == 2 ? b.dim[0] : DIM_UNKNOWN;
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return err;
}

static int fp8_weight_infer(struct infer *c)
{
	return block_weight_infer(c, 1);
}

static int fp4_weight_infer(struct infer *c)
{
	return block_weight_infer(c, 2);
}

static int64_t block_weight_macs(const struct infer *c)
{
	struct shape a = infer_shape(c, 0), b = infer_shape(c, 1);

	return b.rank == 2 ? known_product(shape_count(&a), b.dim[0]) : 0;
}

static int matmul_nbits_infer(struct infer *c)
{
	const struct matmul_nbits_params *p = infer_params(c);
	struct shape a = infer_shape(c, 0);
	int64_t k;

	if (p->K < 1 || p->N < 1 || (p->bits != 2 && p->bits != 4 && p->bits != 8) ||
	    p->block_size < 16 || (p->block_size & (p->block_size - 1)))
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "K, N above 0, bits 2, 4 or 8, block_size a power of 2 from 16",
				  NULL);
	if (p->weight_prepacked)
		return infer_fail(
			c, E_OP_ATTRIBUTE, 1,
			"weight_prepacked of 0: other orders of B are those of ONNX Runtime's own kernels",
			fmt(c->diag, "%" PRId64, p->weight_prepacked));
	if (a.rank >= 0) {
		if (!a.rank)
			return infer_fail(c, E_SHAPE, 0, "rank 1 or more", "a scalar");
		int err = infer_unify(c, 0, p->K, a.dim[a.rank - 1], &k);
		if (err)
			return err;
		a.dim[a.rank - 1] = p->N;
	}
	infer_set(c, 0, infer_dtype(c, 0), &a);
	return 0;
}

const float bnb_values[2][16] = {
	/* FP4: one sign bit, and three bits that number a value */
	{0, 5.208333333e-03f, 2.0f / 3, 1, 1.0f / 3, 0.5f, 1.0f / 6, 0.25f, -0.0f,
	 -5.208333333e-03f, -2.0f / 3, -1, -1.0f / 3, -0.5f, -1.0f / 6, -0.25f},
	/* NF4: quantiles of a normal distribution */
	{-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
	 -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0,
	 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
	 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1},
};

static int bnb_infer(struct infer *c)
{
	const struct bnb_params *p = infer_params(c);
	struct shape a = infer_shape(c, 0);
	int64_t k;

	if (p->K < 1 || p->N < 1 || p->K > INT64_MAX / p->N || p->block_size < 1 ||
	    p->quant_type < 0 || p->quant_type > 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "K, N and block_size above 0, quant_type 0 or 1", NULL);
	if (a.rank >= 0) {
		if (!a.rank)
			return infer_fail(c, E_SHAPE, 0, "rank 1 or more", "a scalar");
		int err = infer_unify(c, 0, p->transB ? p->K : p->N, a.dim[a.rank - 1], &k);
		if (err)
			return err;
		a.dim[a.rank - 1] = p->transB ? p->N : p->K;
	}
	infer_set(c, 0, infer_dtype(c, 0), &a);
	return 0;
}

/* ---- convolutions ---------------------------------------------------------------------------------------------- */

static int conv_shape(struct infer *c, uint32_t iw, enum dtype t)
{
	const struct int_conv_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), w = infer_shape(c, iw), y = x;
	struct window win;

	if (x.rank >= 0 && w.rank >= 0) {
		if (x.rank < 3 || w.rank != x.rank)
			return infer_fail(c, E_SHAPE, (int)iw,
					  fmt(c->diag, "rank %d, 3 or more", x.rank),
					  fmt(c->diag, "rank %d", w.rank));
		const char *bad = window_set(&win, &p->window, &x, &w, false, c->diag);
		if (bad)
			return infer_fail(c, E_SHAPE, 0, bad, NULL);
		if (window_too_large(&win))
			return infer_fail_shape(
				c, 0, "an input, with its pads, as large as the kernel", &x);
		if ((w.dim[0] >= 0 && w.dim[0] % p->group) ||
		    (x.dim[1] >= 0 && w.dim[1] >= 0 && w.dim[1] * p->group != x.dim[1]))
			return infer_fail(
				c, E_SHAPE, (int)iw,
				fmt(c->diag, "channels of x in %" PRId64 " groups", p->group), NULL);
		y.dim[1] = w.dim[0];
		for (int i = 0; i < win.n; i++)
			y.dim[2 + i] = win.out[i];
	}
	infer_set(c, 0, t, &y);
	return 0;
}

static int conv_integer_infer(struct infer *c)
{
	return conv_shape(c, 1, DT_I32);
}

static int qlinear_conv_infer(struct infer *c)
{
	return conv_shape(c, 3, infer_dtype(c, 7));
}

/* ---- QLinearConcat: scale and zero point of Y, then triples --------------------------------------------------- */

/* Checks input i, which is one of a triple: codes, their scale, their zero point. */
static int check_concat_operand(const struct infer *c, uint32_t i)
{
	struct shape s = infer_shape(c, i);
	enum dtype t = infer_dtype(c, i);
	int64_t count = shape_count(&s);
	bool scale = i % 3 == 0, codes = i % 3 == 2;

	if (t && scale != (t == DT_F32))
		return infer_fail(c, E_TYPE, (int)i,
				  scale ? "a scale of type f32" : "codes, u8 or i8", dtype_name(t));
	if (!codes && (s.rank > 1 || (count >= 0 && count != 1)))
		return infer_fail(c, E_SHAPE, (int)i, "[] or [1]", infer_shape_text(c, &s));
	return 0;
}

static int qconcat_infer(struct infer *c)
{
	const struct qconcat_params *p = infer_params(c);
	struct shape y = infer_shape(c, 2);
	bool over = false;
	int axis;

	if (c->node->nin < 5 || (c->node->nin - 2) % 3)
		return infer_fail(
			c, E_OP_INPUTS, -1, "a scale, a zero point and triples",
			fmt(c->diag, "%u input%s", c->node->nin, c->node->nin == 1 ? "" : "s"));
	int err = infer_axis(c, 2, p->axis, &axis);
	for (uint32_t i = 2; i < c->node->nin && !err; i++)
		err = check_concat_operand(c, i);
	for (uint32_t i = 5; i < c->node->nin && !err && y.rank >= 0; i += 3) {
		struct shape x = infer_shape(c, i);
		if (x.rank < 0)
			y = x;
		else if (x.rank != y.rank)
			err = infer_fail(c, E_SHAPE, (int)i, fmt(c->diag, "rank %d", y.rank), NULL);
		for (int k = 0; k < x.rank && !err; k++) {
			if (k == axis)
				y.dim[k] = dim_add(y.dim[k], x.dim[k], &over);
			else
				err = infer_unify(c, (int)i, y.dim[k], x.dim[k], &y.dim[k]);
		}
	}
	if (!err)
		infer_set(c, 0, infer_dtype(c, 1), &y);
	return err ? err : over ? infer_fail(c, E_SIZE, -1, NULL, NULL) : 0;
}

/* Infers the result of A op B, with a scalar scale and zero point for A, for B and for the result. */
static int qbinary_infer(struct infer *c)
{
	struct shape a = infer_shape(c, 0), b = infer_shape(c, 3), y;

	if (!shape_broadcast(&a, &b, &y))
		return infer_fail(c, E_SHAPE, 3, "a shape that broadcasts with A's", NULL);
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int qglobal_infer(struct infer *c)
{
	const struct qglobal_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0);

	if (x.rank >= 0 && x.rank < 3)
		return infer_fail(c, E_SHAPE, 0, "rank 3 or more", fmt(c->diag, "rank %d", x.rank));
	for (int i = p->channels_last ? 1 : 2; i < (p->channels_last ? x.rank - 1 : x.rank); i++)
		x.dim[i] = 1;
	infer_set(c, 0, infer_dtype(c, 0), &x);
	return 0;
}

/* The result of CodeTable has the type of the table, which must have an element for each code. */
static int code_table_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0);

	infer_set(c, 0, infer_dtype(c, 1), &x);
	return 0;
}

static int all_codes_infer(struct infer *c)
{
	struct shape y = shape_of(1, (int64_t[]){256});

	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

/* ---- GatherBlockQuantized ------------------------------------------------------------------------------------- */

struct shape block_gather_data(const struct shape *x, enum dtype t, int64_t bits)
{
	struct shape s = *x;

	if (t == DT_U8 && bits > 0 && bits < 8 && s.rank > 0 && s.dim[s.rank - 1] >= 0 &&
	    s.dim[s.rank - 1] < INT64_MAX / 8)
		s.dim[s.rank - 1] *= 8 / bits;
	return s;
}

static int block_gather_infer(struct infer *c)
{
	const struct block_gather_params *p = infer_params(c);
	enum dtype t = infer_dtype(c, 0);
	struct shape stored = infer_shape(c, 0), i = infer_shape(c, 1), out;
	struct shape x = block_gather_data(&stored, t, p->bits);
	bool packed = t == DT_U8;
	int axis, qaxis, err = infer_axis(c, 0, p->gather_axis, &axis);

	err = err ? err : infer_axis(c, 0, p->quantize_axis, &qaxis);
	if (err)
		return err;
	if ((packed && p->bits != 2 && p->bits != 4 && p->bits != 8) ||
	    p->block_size < (dtype_class(t) == DT_FLOAT ? 0 : 1))
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "bits of 2, 4 or 8 and blocks of 1 or more", NULL);
	if (packed && x.rank >= 0 && (axis || qaxis != x.rank - 1 || axis == qaxis))
		return infer_fail(
			c, E_OP_ATTRIBUTE, -1,
			"bytes that are gathered along the first axis and quantized along the last",
			NULL);
	if ((err = infer_gathered(c, &x, axis, &i, &out)))
		return err;
	infer_set(c, 0, infer_dtype(c, 2), &out);
	return 0;
}

/* ---- upgrades of com.microsoft's ---------------------------------------------------------------------------------- */

/*
 * Sets input i, the zero point of the output, if it is left out and the data are int8; without it, the expansion into
 * QuantizeLinear would make the output uint8.
 */
static void fill_zero_point(struct edit *e, uint32_t i)
{
	if ((i >= e->node->nin || e->node->in[i] == NO_VALUE) && edit_dtype(e, 0) == DT_I8)
		edit_const_scalar(e, i, 0, DT_I8);
}

static int qunary_upgrade(struct edit *e)
{
	fill_zero_point(e, 4);
	return 0;
}

static int qbinary_upgrade(struct edit *e)
{
	fill_zero_point(e, 7);
	return 0;
}

static int upgrade_channels_last(struct edit *e, int64_t *channels_last)
{
	bool last = *channels_last != 0;

	*channels_last = 0;
	return last ? edit_channels_first(e) : 0;
}

static int qconv_upgrade(struct edit *e)
{
	return upgrade_channels_last(e, &((struct int_conv_params *)e->node->params)->channels_last);
}

static int qpool_upgrade(struct edit *e)
{
	fill_zero_point(e, 4);
	return upgrade_channels_last(e, &((struct qpool_params *)e->node->params)->channels_last);
}

/*
 * Below opset 13 Softmax normalized over all dims from axis on together. The upgrade flattens X to rank 2, applies a
 * softmax and reshapes the result back.
 */
static int qsoftmax_upgrade(struct edit *e)
{
	struct qsoftmax_params *p = e->node->params;
	int rank = edit_rank(e, 0);
	int64_t axis = p->axis;
	uint32_t x = e->node->in[0], shape;
	void *params;

	fill_zero_point(e, 4);
	if (rank > 0 && axis_of(axis, rank) < 0)
		return edit_fail(e, E_OP_ATTRIBUTE, fmt(e->diag, "axis within rank %d", rank),
				 fmt(e->diag, "%" PRId64, axis));
	if (p->opset >= 13 || axis == -1 || (rank > 0 && axis == rank - 1))
		return 0;
	p->opset = 13;
	p->axis = -1;
	shape = edit_before(e, "Shape", &x, 1, NULL);
	node_set_in(e->graph, e->node, 0, edit_before(e, "Flatten", &x, 1, &params));
	((struct flatten_params *)params)->axis = axis;
	edit_after(e, 0, "Reshape", &shape, 1, &params);
	((struct reshape_params *)params)->allowzero = 1;
	return 0;
}

/* ---- the rows ------------------------------------------------------------------------------------------------------ */

#define T_Q8   (T_U8 | T_I8)
#define T_Q10  (T_U8 | T_I8)
#define T_Q19  (T_Q10 | T_F8)
#define T_Q21  (T_Q19 | T_U16 | T_I16 | T_4BIT)
#define T_Q23  (T_Q21 | T_F4)
#define T_Q25  (T_Q23 | T_2BIT)
#define T_Q28  (T_Q25 | T_F6)
#define T_WIDE (T_F32 | T_F16 | T_BF16)

static const struct slot quantize_in[] = {
	{.name = "x", .tvar = "T1", .types = T_WIDE | T_I32 | T_F64},
	{.name = "y_scale",
	 .tvar = "T2",
	 .types = T_WIDE | T_I32 | T_F8E8M0 | T_F64,
	 .dims = "() | 1 | ..."},
	{.name = "y_zero_point", .tvar = "T", .types = T_Q28, .optional = true, .dims = "() | 1 | ..."},
	SLOT_END};
static const struct slot quantize_out[] = {{.name = "y", .tvar = "T", .types = T_Q28}, SLOT_END};
static const struct slot dequantize_in[] = {
	{.name = "x", .tvar = "T", .types = T_Q28 | T_I32},
	{.name = "x_scale", .tvar = "T2", .types = T_WIDE | T_F8E8M0, .dims = "() | 1 | ..."},
	{.name = "x_zero_point",
	 .tvar = "T",
	 .types = T_Q28 | T_I32,
	 .optional = true,
	 .dims = "() | 1 | ..."},
	SLOT_END};
/* the operands of older versions, for what other runtimes take: the run has the newest version's */
#define Q_ZERO(name_, types_)                                                                      \
	{                                                                                          \
		.name = (name_), .tvar = "T", .types = (types_), .optional = true,                 \
		.dims = "() | 1 | ..."                                                             \
	}
#define Q_SCALE(name_, tvar_, types_)                                                              \
	{                                                                                          \
		.name = (name_), .tvar = (tvar_), .types = (types_), .dims = "() | 1 | ..."        \
	}
static const struct slot quantize10_in[] = {{.name = "x", .tvar = "T1", .types = T_F32 | T_I32},
					    Q_SCALE("y_scale", NULL, T_F32),
					    Q_ZERO("y_zero_point", T_Q10),
					    SLOT_END};
static const struct slot quantize19_in[] = {{.name = "x", .tvar = "T1", .types = T_WIDE | T_I32},
					    Q_SCALE("y_scale", "T1", T_WIDE | T_I32),
					    Q_ZERO("y_zero_point", T_Q21),
					    SLOT_END};
static const struct slot quantize23_in[] = {{.name = "x", .tvar = "T1", .types = T_WIDE | T_I32},
					    Q_SCALE("y_scale", "T2", T_WIDE | T_I32),
					    Q_ZERO("y_zero_point", T_Q23),
					    SLOT_END};
static const struct slot dequantize10_in[] = {{.name = "x", .tvar = "T", .types = T_Q10 | T_I32},
					      Q_SCALE("x_scale", NULL, T_F32),
					      Q_ZERO("x_zero_point", T_Q10 | T_I32),
					      SLOT_END};
static const struct slot dequantize19_in[] = {{.name = "x", .tvar = "T", .types = T_Q23 | T_I32},
					      Q_SCALE("x_scale", "T2", T_WIDE),
					      Q_ZERO("x_zero_point", T_Q23 | T_I32),
					      SLOT_END};
static const struct slot dequantize_out[] = {{.name = "y", .types = T_WIDE}, SLOT_END};
static const struct slot dynamic_in[] = {{.name = "x", .types = T_F32}, SLOT_END};
static const struct slot dynamic_out[] = {{.name = "y", .types = T_U8},
					  {.name = "y_scale", .types = T_F32},
					  {.name = "y_zero_point", .types = T_U8},
					  SLOT_END};
static const struct slot matmul_integer_in[] = {
	{.name = "A", .tvar = "T1", .types = T_Q8, .dims = "K | _... M K"},
	{.name = "B", .tvar = "T2", .types = T_Q8, .dims = "K | _... K N"},
	{.name = "a_zero_point",
	 .tvar = "T1",
	 .types = T_Q8,
	 .optional = true,
	 .dims = "() | 1 | M | _... M 1"},
	{.name = "b_zero_point",
	 .tvar = "T2",
	 .types = T_Q8,
	 .optional = true,
	 .dims = "() | 1 | N | _... 1 N"},
	SLOT_END};
static const struct slot i32_out[] = {{.name = "y", .types = T_I32}, SLOT_END};
static const struct slot conv_integer_in[] = {
	{.name = "x", .tvar = "T1", .types = T_Q8, .dims = "N $group*C _ _..."},
	{.name = "w", .tvar = "T2", .types = T_Q8, .dims = "M C _ _..."},
	{.name = "x_zero_point", .tvar = "T1", .types = T_Q8, .optional = true, .dims = "() | 1"},
	{.name = "w_zero_point", .tvar = "T2", .types = T_Q8, .optional = true, .dims = "() | 1 | M"},
	SLOT_END};
/* Codes with their scale and zero point, and these two alone. */
#define QSLOTS(name_, tvar_, dims_, each_)                                                         \
	{.name = name_, .tvar = tvar_, .types = T_Q8, .dims = dims_}, QSCALES(name_, tvar_, each_)
#define QSCALES(name_, tvar_, each_)                                                               \
	{.name = name_ "_scale", .types = T_F32, .dims = each_},                                   \
	{                                                                                          \
		.name = name_ "_zero_point", .tvar = tvar_, .types = T_Q8, .dims = each_           \
	}
static const struct slot qlinear_conv_in[] = {
	QSLOTS("x", "T1", NULL, "() | 1"),
	QSLOTS("w", "T2", "M _ _ _...", "() | 1 | M"),
	QSCALES("y", "T3", "() | 1"),
	{.name = "B", .types = T_I32, .optional = true, .dims = "M"},
	SLOT_END};
static const struct slot qconv_add_in[] = {QSLOTS("x", "T1", NULL, "() | 1"),
					   QSLOTS("w", "T2", "M _ _ _...", "() | 1 | M"),
					   QSCALES("c", "T3", "() | 1"),
					   {.name = "B", .types = T_I32, .optional = true, .dims = "M"},
					   QSLOTS("r", "T3", NULL, "() | 1"),
					   QSCALES("y", "T3", "() | 1"),
					   SLOT_END};
static const struct slot q8_out[] = {{.name = "y", .tvar = "T3", .types = T_Q8}, SLOT_END};
static const struct slot qlinear_matmul_in[] = {
	{.name = "a", .tvar = "T1", .types = T_Q19, .dims = "K | _... M K"},
	{.name = "a_scale", .tvar = "TS", .types = T_WIDE, .dims = "() | 1 | M | _... M 1"},
	{.name = "a_zero_point", .tvar = "T1", .types = T_Q19, .dims = "() | 1 | M | _... M 1"},
	{.name = "b", .tvar = "T2", .types = T_Q19, .dims = "K | _... K N"},
	{.name = "b_scale", .tvar = "TS", .types = T_WIDE, .dims = "() | 1 | N | _... 1 N"},
	{.name = "b_zero_point", .tvar = "T2", .types = T_Q19, .dims = "() | 1 | N | _... 1 N"},
	{.name = "y_scale", .tvar = "TS", .types = T_WIDE, .dims = "() | 1"},
	{.name = "y_zero_point", .tvar = "T3", .types = T_Q19, .dims = "() | 1"},
	SLOT_END};
static const struct slot qlinear_matmul10_in[] = {
	{.name = "a", .tvar = "T1", .types = T_Q8, .dims = "K | _... M K"},
	{.name = "a_scale", .types = T_F32, .dims = "() | 1 | M | _... M 1"},
	{.name = "a_zero_point", .tvar = "T1", .types = T_Q8, .dims = "() | 1 | M | _... M 1"},
	{.name = "b", .tvar = "T2", .types = T_Q8, .dims = "K | _... K N"},
	{.name = "b_scale", .types = T_F32, .dims = "() | 1 | N | _... 1 N"},
	{.name = "b_zero_point", .tvar = "T2", .types = T_Q8, .dims = "() | 1 | N | _... 1 N"},
	{.name = "y_scale", .types = T_F32, .dims = "() | 1"},
	{.name = "y_zero_point", .tvar = "T3", .types = T_Q8, .dims = "() | 1"},
	SLOT_END};
static const struct slot qlinear_matmul_out[] = {{.name = "y", .tvar = "T3", .types = T_Q19},
						 SLOT_END};

/* com.microsoft */
static const struct slot to_float_in[] = {
	{.name = "A", .tvar = "T1", .types = T_Q8, .dims = "K | _... M K"},
	{.name = "B", .tvar = "T2", .types = T_Q8, .dims = "K | _... K N"},
	{.name = "a_scale", .tvar = "T3", .types = T_F32, .dims = "() | 1"},
	{.name = "b_scale", .tvar = "T3", .types = T_F32, .dims = "() | 1 | N"},
	{.name = "a_zero_point", .tvar = "T1", .types = T_Q8, .optional = true, .dims = "() | 1"},
	{.name = "b_zero_point", .tvar = "T2", .types = T_Q8, .optional = true, .dims = "() | 1 | N"},
	{.name = "bias", .tvar = "T3", .types = T_F32, .optional = true, .dims = "N"},
	SLOT_END};
static const struct slot float_out[] = {{.name = "Y", .types = T_F32}, SLOT_END};
static const struct slot dynamic_matmul_in[] = {
	{.name = "A", .types = T_F32, .dims = "K | _... M K"},
	{.name = "B", .tvar = "T2", .types = T_Q8, .dims = "K | _... K N"},
	{.name = "b_scale", .types = T_F32, .dims = "() | 1 | N"},
	{.name = "b_zero_point", .tvar = "T2", .types = T_Q8, .optional = true, .dims = "() | 1 | N"},
	{.name = "bias", .types = T_F32, .optional = true, .dims = "N"},
	SLOT_END};
static const struct slot qgemm_in[] = {
	{.name = "A", .tvar = "TA", .types = T_Q8, .dims = "_ _"},
	{.name = "a_scale", .types = T_F32, .dims = "() | 1"},
	{.name = "a_zero_point", .tvar = "TA", .types = T_Q8, .optional = true, .dims = "() | 1"},
	{.name = "B", .tvar = "TB", .types = T_Q8, .dims = "_ _"},
	{.name = "b_scale", .types = T_F32},
	{.name = "b_zero_point", .tvar = "TB", .types = T_Q8, .optional = true},
	{.name = "C", .types = T_I32, .optional = true},
	{.name = "y_scale", .types = T_F32, .optional = true, .dims = "() | 1"},
	{.name = "y_zero_point", .types = T_Q8, .optional = true, .dims = "() | 1"},
	SLOT_END};
static const struct slot qgemm_out[] = {{.name = "Y", .types = T_Q8 | T_F32}, SLOT_END};
static const struct slot fp8_weight_in[] = {SLOT("A", "T", T_F16 | T_BF16, .dims = "_... K"),
					    SLOT("B", NULL, T_BIT(DT_F8E4M3FN), .dims = "N K"),
					    SLOT("b_scale", NULL, T_F32, .dims = "N _"),
					    SLOT_OPT("a_scale", NULL, T_F32, .dims = "() | 1"),
					    SLOT_OPT("bias", "T", T_F16 | T_BF16, .dims = "N"),
					    SLOT_END};
static const struct slot fp4_weight_in[] = {SLOT("A", "T", T_F16 | T_BF16, .dims = "_... _"),
					    SLOT("B", NULL, T_U8, .dims = "N _"),
					    SLOT("weight_scale", NULL, T_U8, .dims = "N _"),
					    SLOT("weight_scale_2", NULL, T_F32, .dims = "() | 1"),
					    SLOT_OPT("input_scale", NULL, T_F32, .dims = "() | 1"),
					    SLOT_OPT("bias", "T", T_F16 | T_BF16, .dims = "N"),
					    SLOT_END};
static const struct slot block_weight_out[] = {SLOT("Y", "T", T_F16 | T_BF16), SLOT_END};
static const struct slot nbits_in[] = {
	{.name = "A", .tvar = "T1", .types = T_WIDE, .dims = "_... $K"},
	{.name = "B", .types = T_U8, .dims = "$N _ _"},
	{.name = "scales", .types = T_WIDE, .dims = "_ | $N _"},
	{.name = "zero_points", .types = T_U8 | T_WIDE, .optional = true, .dims = "_ | $N _"},
	{.name = "g_idx", .types = T_I32, .optional = true, .dims = "_"},
	{.name = "bias", .tvar = "T1", .types = T_WIDE, .optional = true, .dims = "$N"},
	SLOT_END};
static const struct slot nbits_out[] = {{.name = "Y", .tvar = "T1", .types = T_WIDE}, SLOT_END};
static const struct slot bnb_in[] = {{.name = "A", .tvar = "T1", .types = T_WIDE},
				     {.name = "B", .types = T_U8},
				     {.name = "absmax", .tvar = "T1", .types = T_WIDE},
				     SLOT_END};
static const struct field bnb_attrs[] = {
	FIELD_REQ(struct bnb_params, K, F_INT, "columns of the weights"),
	FIELD_REQ(struct bnb_params, N, F_INT, "rows of the weights"),
	FIELD_REQ(struct bnb_params, block_size, F_INT, "elements that share a scale"),
	FIELD_REQ(struct bnb_params, quant_type, F_INT, "0: FP4; 1: NF4"),
	FIELD(struct bnb_params, transB, F_INT, "1", "1: the weights are transposed"),
	FIELD(struct bnb_params, training_mode, F_INT, "0", "not looked at"),
	{0}};
static const struct slot qbinary_in[] = {
	{.name = "A", .tvar = "T", .types = T_Q8},
	{.name = "A_scale", .types = T_F32, .dims = "()"},
	{.name = "A_zero_point", .tvar = "T", .types = T_Q8, .optional = true, .dims = "()"},
	{.name = "B", .tvar = "T", .types = T_Q8},
	{.name = "B_scale", .types = T_F32, .dims = "()"},
	{.name = "B_zero_point", .tvar = "T", .types = T_Q8, .optional = true, .dims = "()"},
	{.name = "C_scale", .types = T_F32, .dims = "()"},
	{.name = "C_zero_point", .tvar = "T", .types = T_Q8, .optional = true, .dims = "()"},
	SLOT_END};
static const struct slot qbinary_out[] = {{.name = "C", .tvar = "T", .types = T_Q8}, SLOT_END};
static const struct slot qunary_in[] = {
	{.name = "X", .tvar = "T", .types = T_Q8},
	{.name = "X_scale", .types = T_F32, .dims = "()"},
	{.name = "X_zero_point", .tvar = "T", .types = T_Q8, .optional = true, .dims = "()"},
	{.name = "Y_scale", .types = T_F32, .dims = "()"},
	{.name = "Y_zero_point", .tvar = "T", .types = T_Q8, .optional = true, .dims = "()"},
	SLOT_END};
static const struct slot qunary_out[] = {{.name = "Y", .tvar = "T", .types = T_Q8}, SLOT_END};
static const struct slot qwhere_in[] = {
	{.name = "condition", .types = T_BOOL},
	{.name = "X", .tvar = "T", .types = T_Q8},
	{.name = "x_scale", .types = T_F32, .dims = "()"},
	{.name = "x_zero_point", .tvar = "T", .types = T_Q8, .dims = "()"},
	{.name = "Y", .tvar = "T", .types = T_Q8},
	{.name = "y_scale", .types = T_F32, .dims = "()"},
	{.name = "y_zero_point", .tvar = "T", .types = T_Q8, .dims = "()"},
	{.name = "z_scale", .types = T_F32, .dims = "()"},
	{.name = "z_zero_point", .tvar = "T", .types = T_Q8, .dims = "()"},
	SLOT_END};
static const struct slot qwhere_out[] = {{.name = "Z", .tvar = "T", .types = T_Q8}, SLOT_END};
#define T_BLOCK (T_U8 | T_4BIT | T_F8 | T_F4)
static const struct slot block_gather_in[] = {
	{.name = "data", .tvar = "T1", .types = T_BLOCK},
	{.name = "indices", .tvar = "Tind", .types = T_I32 | T_I64},
	{.name = "scales", .tvar = "T2", .types = T_WIDE},
	{.name = "zero_points", .tvar = "T1", .types = T_BLOCK, .optional = true},
	SLOT_END};
static const struct slot block_gather_out[] = {{.name = "output", .tvar = "T2", .types = T_WIDE},
					       SLOT_END};
static const struct field block_gather_attrs[] = {
	FIELD(struct block_gather_params, gather_axis, F_INT, "0", "axis that is gathered along"),
	FIELD(struct block_gather_params, quantize_axis, F_INT, "1", "axis that has blocks"),
	FIELD(struct block_gather_params, block_size, F_INT, "128", "elements of a block; 0: all"),
	FIELD(struct block_gather_params, bits, F_INT, "4", "of an element in uint8 data"),
	{0}};
static const struct slot qconcat_in[] = {
	{.name = "Y_scale", .types = T_F32, .dims = "() | 1"},
	{.name = "Y_zero_point", .types = T_Q8, .dims = "() | 1"},
	{.name = "inputs", .types = T_Q8 | T_F32, .variadic = true, .heterogeneous = true},
	SLOT_END};
static const struct slot code_table_in[] = {
	{.name = "X", .types = T_Q8},
	{.name = "table", .tvar = "T", .types = T_Q8, .dims = "256"},
	SLOT_END};
static const struct slot code_table_out[] = {{.name = "Y", .tvar = "T", .types = T_Q8}, SLOT_END};
static const struct slot all_codes_in[] = {
	{.name = "like", .tvar = "T", .types = T_Q8, .dims = "() | 1"}, SLOT_END};
static const struct slot qattention_in[] = {
	{.name = "input", .tvar = "T1", .types = T_Q8, .dims = "B S I"},
	{.name = "weight", .tvar = "T2", .types = T_Q8, .dims = "I W"},
	{.name = "bias", .types = T_F32, .dims = "W"},
	{.name = "input_scale", .types = T_F32, .dims = "() | 1"},
	{.name = "weight_scale", .types = T_F32, .dims = "() | 1 | W"},
	{.name = "mask_index", .types = T_I32, .optional = true},
	{.name = "input_zero_point", .tvar = "T1", .types = T_Q8, .optional = true, .dims = "() | 1"},
	{.name = "weight_zero_point", .tvar = "T2", .types = T_Q8, .optional = true, .dims = "() | 1 | W"},
	{.name = "past", .types = T_F32, .optional = true, .dims = "2 B $num_heads P E"},
	SLOT_END};
static const struct slot qattention_out[] = {{.name = "output", .types = T_F32},
					     {.name = "present", .types = T_F32, .optional = true},
					     SLOT_END};

#define Q_FIELD_IN(versions_, member, def_, help_)                                                 \
	FIELD_IN(versions_, struct quantize_params, member, F_INT, def_, help_)
static const struct field quantize_attrs[] = {
	Q_FIELD_IN("13-", axis, "1", "axis of the scales"),
	Q_FIELD_IN("21-", block_size, "0", "elements that share a scale; 0: no blocks"),
	Q_FIELD_IN("21-", output_dtype, "0", "element type of y"),
	Q_FIELD_IN("23-", precision, "0", "type in which x is divided"),
	Q_FIELD_IN("19-", saturate, "1", "for float8: to the largest number"),
	{0}};
static const struct field dequantize_attrs[] = {
	Q_FIELD_IN("13-", axis, "1", "axis of the scales"),
	Q_FIELD_IN("21-", block_size, "0", "elements that share a scale; 0: no blocks"),
	Q_FIELD_IN("23-", output_dtype, "0", "element type of y"),
	{0}};
static const struct field conv_attrs[] = {
	WINDOW_FIELDS(struct int_conv_params), GROUP_FIELD(struct int_conv_params), {0}};
static const struct field ms_conv_attrs[] = {
	WINDOW_FIELDS(struct int_conv_params),
	GROUP_FIELD(struct int_conv_params),
	FIELD(struct int_conv_params, channels_last, F_INT, "0", "channels lie last"),
	{0}};
static const struct field qgemm_attrs[] = {
	FIELD(struct qgemm_params, alpha, F_FLOAT, "1", "factor of the product"),
	FIELD(struct qgemm_params, transA, F_INT, "0", "A is transposed"),
	FIELD(struct qgemm_params, transB, F_INT, "0", "B is transposed"),
	{0}};
static const struct field fp8_weight_attrs[] = {
	FIELD(struct block_weight, block_size, F_INT, "128", "weights that share a scale"), {0}};
static const struct field fp4_weight_attrs[] = {
	FIELD(struct block_weight, block_size, F_INT, "16", "weights that share a scale"), {0}};
static const struct field nbits_attrs[] = {
	FIELD_REQ(struct matmul_nbits_params, K, F_INT, "rows of B"),
	FIELD_REQ(struct matmul_nbits_params, N, F_INT, "columns of B"),
	FIELD(struct matmul_nbits_params, bits, F_INT, "4", "bits of a weight"),
	FIELD_REQ(struct matmul_nbits_params, block_size, F_INT, "weights that share a scale"),
	FIELD(struct matmul_nbits_params, accuracy_level, F_INT, "0",
	      "4: A may be quantized to 8 bits"),
	FIELD(struct matmul_nbits_params, weight_prepacked, F_INT, "0", "0: B lies as its shape says"),
	{0}};
static const struct field qconcat_attrs[] = {
	FIELD_REQ(struct qconcat_params, axis, F_INT, "axis to concatenate along"), {0}};
static const struct field qleaky_attrs[] = {
	FIELD(struct qleaky_params, alpha, F_FLOAT, "0.01", "slope"), {0}};
static const struct field qpool_attrs[] = {
	WINDOW_FIELDS(struct qpool_params),
	FIELD(struct qpool_params, ceil_mode, F_INT, "0", "round the output size up"),
	FIELD(struct qpool_params, count_include_pad, F_INT, "0", "padding counts"),
	FIELD(struct qpool_params, channels_last, F_INT, "0", "channels lie last"),
	{0}};
static const struct field qglobal_attrs[] = {
	FIELD(struct qglobal_params, channels_last, F_INT, "0", "channels lie last"), {0}};
static const struct field qsoftmax_attrs[] = {
	FIELD(struct qsoftmax_params, axis, F_INT, "-1", "axis"),
	FIELD_REQ(struct qsoftmax_params, opset, F_INT, "opset whose Softmax is meant"),
	{0}};
static const struct field qattention_attrs[] = {
	FIELD_REQ(struct qattention_params, num_heads, F_INT, "attention heads"),
	FIELD(struct qattention_params, unidirectional, F_INT, "0", "see the left only"),
	FIELD(struct qattention_params, do_rotary, F_INT, "0", "rotary positions"),
	FIELD(struct qattention_params, past_present_share_buffer, F_INT, "0", "memory hint"),
	FIELD(struct qattention_params, mask_filter_value, F_FLOAT, "-10000", "what hides"),
	FIELD(struct qattention_params, scale, F_FLOAT, "0", "factor of the scores"),
	{0}};

#define QUANTIZE                                                                                   \
	.in = quantize_in, .out = quantize_out, ATTRS(quantize_attrs, struct quantize_params),     \
	.infer = quantize_infer
#define DEQUANTIZE                                                                                 \
	.in = dequantize_in, .out = dequantize_out,                                                \
	ATTRS(dequantize_attrs, struct quantize_params), .infer = dequantize_infer,                \
	.variant = QUANT_UP

#define Q_BINARY(op_, variant_)                                                                    \
	{                                                                                          \
		.name = "QLinear" op_, MICROSOFT, .in = qbinary_in, .out = qbinary_out,            \
		.upgrade = qbinary_upgrade, .infer = qbinary_infer, .variant = (variant_)          \
	}

/* com.microsoft::QLinearReduceMean: the mean of the dequantized elements, quantized. */
struct qreduce_params {
	struct ints axes;
	int64_t keepdims;
};
static const struct slot qreduce_in[] = {
	SLOT("data", "T", T_U8 | T_I8),
	SLOT("data_scale", NULL, T_F32, .dims = "() | 1"),
	SLOT_OPT("data_zero_point", "T", T_U8 | T_I8, .dims = "() | 1"),
	SLOT("reduced_scale", NULL, T_F32, .dims = "() | 1"),
	SLOT_OPT("reduced_zero_point", "T", T_U8 | T_I8, .dims = "() | 1"),
	SLOT_END};
static const struct slot qreduce_out[] = {SLOT("reduced", "T", T_U8 | T_I8), SLOT_END};
static const struct field qreduce_attrs[] = {
	FIELD_REQ(struct qreduce_params, axes, F_INTS, "dimensions that are reduced"),
	FIELD_REQ(struct qreduce_params, keepdims, F_INT, "1: they stay, with size 1"),
	{0}};

static int qreduce_upgrade(struct edit *e)
{
	const struct qreduce_params *old = e->node->params;
	const uint32_t *in = e->node->in;
	uint32_t scale[2] = {in[3], e->node->nin > 4 ? in[4] : NO_VALUE};
	int64_t type = edit_dtype(e, 0);
	void *params;
	uint32_t wide = edit_before(e, "DequantizeLinear",
				    (uint32_t[]){in[0], in[1], e->node->nin > 2 ? in[2] : NO_VALUE},
				    3, NULL);
	struct reduce *now = edit_become(e, "ReduceMean");

	node_set_ins(e->graph, e->node, &wide, 1);
	now->keepdims = old->keepdims;
	if (old->axes.n > 0)
		edit_const_ints(e, 1, old->axes.v, old->axes.n);
	edit_after(e, 0, "QuantizeLinear", scale, 2, &params);
	((struct quantize_params *)params)->output_dtype = type;
	return 0;
}

/* com.microsoft::MulInteger */
static const struct slot mul_integer_in[] = {
	SLOT("A", "T", T_U8 | T_I8), SLOT_OPT("A_zero_point", "T", T_U8 | T_I8, .dims = "() | 1"),
	SLOT("B", "T", T_U8 | T_I8), SLOT_OPT("B_zero_point", "T", T_U8 | T_I8, .dims = "() | 1"),
	SLOT_END};
static const struct slot mul_integer_out[] = {SLOT("C", NULL, T_I32), SLOT_END};

const struct op ops_quant[] = {
	{.name = "QuantizeLinear", .since = 28, QUANTIZE},
	OLD("QuantizeLinear", 25, T_Q25),
	OLD("QuantizeLinear", 24, T_Q23),
	{.name = "QuantizeLinear",
	 .since = 23,
	 .in = quantize23_in,
	 .types = T_Q23,
	 .flags = OP_READ_AS_NEWEST},
	{.name = "QuantizeLinear",
	 .since = 21,
	 .in = quantize19_in,
	 .types = T_Q21,
	 .flags = OP_READ_AS_NEWEST},
	{.name = "QuantizeLinear",
	 .since = 19,
	 .in = quantize19_in,
	 .types = T_Q19,
	 .flags = OP_READ_AS_NEWEST},
	{.name = "QuantizeLinear",
	 .since = 13,
	 .in = quantize10_in,
	 .types = T_Q10,
	 .flags = OP_READ_AS_NEWEST},
	{.name = "QuantizeLinear",
	 .since = 10,
	 .in = quantize10_in,
	 .types = T_Q10,
	 .flags = OP_READ_AS_NEWEST},
	{.name = "DequantizeLinear", .since = 28, DEQUANTIZE},
	OLD("DequantizeLinear", 25, T_Q25 | T_I32),
	OLD("DequantizeLinear", 24, T_Q23 | T_I32),
	{.name = "DequantizeLinear",
	 .since = 23,
	 .in = dequantize19_in,
	 .types = T_Q23 | T_I32,
	 .flags = OP_READ_AS_NEWEST},
	{.name = "DequantizeLinear",
	 .since = 21,
	 .in = dequantize19_in,
	 .types = T_Q21 | T_I32,
	 .flags = OP_READ_AS_NEWEST},
	{.name = "DequantizeLinear",
	 .since = 19,
	 .in = dequantize19_in,
	 .types = T_Q19 | T_I32,
	 .flags = OP_READ_AS_NEWEST},
	{.name = "DequantizeLinear",
	 .since = 13,
	 .in = dequantize10_in,
	 .types = T_Q10 | T_I32,
	 .flags = OP_READ_AS_NEWEST},
	{.name = "DequantizeLinear",
	 .since = 10,
	 .in = dequantize10_in,
	 .types = T_Q10 | T_I32,
	 .flags = OP_READ_AS_NEWEST},
	{.name = "DynamicQuantizeLinear",
	 .since = 11,
	 .in = dynamic_in,
	 .out = dynamic_out,
	 .infer = dynamic_quantize_infer},
	{.name = "MatMulInteger",
	 .since = 10,
	 .in = matmul_integer_in,
	 .out = i32_out,
	 .infer = matmul_integer_infer,
	 .macs = matmul_integer_macs,
	 .flags = OP_PRODUCT},
	{.name = "QLinearMatMul",
	 .since = 21,
	 .in = qlinear_matmul_in,
	 .out = qlinear_matmul_out,
	 .infer = qlinear_matmul_infer,
	 .macs = qlinear_matmul_macs,
	 .flags = OP_PRODUCT},
	{.name = "QLinearMatMul", .since = 10, .in = qlinear_matmul10_in},
	{.name = "ConvInteger",
	 .since = 10,
	 .in = conv_integer_in,
	 .out = i32_out,
	 ATTRS(conv_attrs, struct int_conv_params),
	 .infer = conv_integer_infer,
	 .flags = OP_CONVOLUTION},
	{.name = "QLinearConv",
	 .since = 10,
	 .in = qlinear_conv_in,
	 .out = q8_out,
	 ATTRS(conv_attrs, struct int_conv_params),
	 .infer = qlinear_conv_infer,
	 .flags = OP_CONVOLUTION},
	{.name = "QLinearConv",
	 MICROSOFT,
	 .in = qlinear_conv_in,
	 .out = q8_out,
	 ATTRS(ms_conv_attrs, struct int_conv_params),
	 .infer = qlinear_conv_infer,
	 .upgrade = qconv_upgrade,
	 .flags = OP_CONVOLUTION},
	{.name = "QuantizeLinear", MICROSOFT, QUANTIZE},
	{.name = "DequantizeLinear", MICROSOFT, DEQUANTIZE},
	{.name = "MatMulIntegerToFloat",
	 MICROSOFT,
	 .in = to_float_in,
	 .out = float_out,
	 .infer = matmul_to_float_infer,
	 .macs = matmul_integer_macs,
	 .flags = OP_PRODUCT},
	{.name = "DynamicQuantizeMatMul",
	 MICROSOFT,
	 .in = dynamic_matmul_in,
	 .out = float_out,
	 .expand = "aq, as, az = DynamicQuantizeLinear(A); "
		   "Y = com.microsoft::MatMulIntegerToFloat(aq, B, as, b_scale, az, b_zero_point?, bias?)",
	 .flags = OP_PRODUCT},
	{.name = "QGemm",
	 MICROSOFT,
	 .variant = QUANT_GEMM,
	 .in = qgemm_in,
	 .out = qgemm_out,
	 ATTRS(qgemm_attrs, struct qgemm_params),
	 .infer = qgemm_infer,
	 .flags = OP_PRODUCT},
	{.name = "MatMulNBits",
	 MICROSOFT,
	 .in = nbits_in,
	 .out = nbits_out,
	 ATTRS(nbits_attrs, struct matmul_nbits_params),
	 .infer = matmul_nbits_infer,
	 .flags = OP_PRODUCT},
	{.name = "MatMulBlockQuantizedFp8Weight",
	 MICROSOFT,
	 .in = fp8_weight_in,
	 .out = block_weight_out,
	 ATTRS(fp8_weight_attrs, struct block_weight),
	 .infer = fp8_weight_infer,
	 .macs = block_weight_macs,
	 .expand = "w = DequantizeLinear(B, b_scale) {axis=1, block_size=$block_size}; "
		   "x = DequantizeLinear(QuantizeLinear(Cast(A) {to=1}, a_scale?) {output_dtype=17}, a_scale?); "
		   "wide = Cast(bias?) {to=1}; Y = CastLike(Add(MatMul(x, Transpose(w)), wide?), A)",
	 .flags = OP_PRODUCT},
	/* the text computes the doubles of FP4's numbers, which are integers, from their codes, the low half of a byte first */
	{.name = "MatMulBlockQuantizedFp4Weight",
	 MICROSOFT,
	 .in = fp4_weight_in,
	 .out = block_weight_out,
	 ATTRS(fp4_weight_attrs, struct block_weight),
	 .infer = fp4_weight_infer,
	 .macs = block_weight_macs,
	 .expand = "codes = Reshape(Concat(Unsqueeze(BitwiseAnd(B, 15), [2]), "
		   "Unsqueeze(BitShift(B, 4) {direction=RIGHT}, [2])) {axis=2}, [0, -1]); "
		   "q = Cast(Gather([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], Cast(codes) {to=6})) {to=3}; "
		   "s = Mul(Cast(BitCast(weight_scale) {to=17}) {to=1}, Mul(weight_scale_2, 0.5)); "
		   "w = CastLike(DequantizeLinear(q, s) {axis=1, block_size=$block_size}, A); "
		   "Y = Add(MatMul(A, Transpose(w)), bias?)",
	 .flags = OP_PRODUCT},
	{.name = "MatMulBnb4",
	 MICROSOFT,
	 .variant = QUANT_BNB,
	 .in = bnb_in,
	 .out = nbits_out,
	 ATTRS(bnb_attrs, struct bnb_params),
	 .infer = bnb_infer,
	 .flags = OP_PRODUCT},
	Q_BINARY("Add", QUANT_PLAIN),
	Q_BINARY("Mul", QUANT_MULTIPLY),
	{.name = "QLinearSigmoid",
	 MICROSOFT,
	 .in = qunary_in,
	 .out = qunary_out,
	 .upgrade = qunary_upgrade,
	 .infer = infer_same},
	{.name = "QLinearLeakyRelu",
	 MICROSOFT,
	 .variant = QUANT_LEAKY_RELU,
	 .in = qunary_in,
	 .out = qunary_out,
	 ATTRS(qleaky_attrs, struct qleaky_params),
	 .upgrade = qunary_upgrade,
	 .infer = infer_same},
	{.name = "QLinearGlobalAveragePool",
	 MICROSOFT,
	 .in = qunary_in,
	 .out = qunary_out,
	 ATTRS(qglobal_attrs, struct qglobal_params),
	 .infer = qglobal_infer,
	 .upgrade = qunary_upgrade},
	/*
	 * the data are dequantized with a scale of 1: whole numbers are averaged exactly, so that ties round as in
	 * integer arithmetic
	 */
	{.name = "QLinearAveragePool",
	 MICROSOFT,
	 .in = qunary_in,
	 .out = qunary_out,
	 ATTRS(qpool_attrs, struct qpool_params),
	 .expand = "Y = QuantizeLinear(AveragePool(DequantizeLinear(X, Div(X_scale, X_scale), X_zero_point?)) "
		   "{auto_pad=$auto_pad, kernel_shape=$kernel_shape, pads=$pads, strides=$strides, "
		   "ceil_mode=$ceil_mode, count_include_pad=$count_include_pad}, Div(Y_scale, X_scale), "
		   "Y_zero_point?)",
	 .upgrade = qpool_upgrade},
	{.name = "QLinearSoftmax",
	 MICROSOFT,
	 .in = qunary_in,
	 .out = qunary_out,
	 ATTRS(qsoftmax_attrs, struct qsoftmax_params),
	 .expand = "Y = QuantizeLinear(Softmax(DequantizeLinear(X, X_scale, X_zero_point?)) "
		   "{axis=$axis}, Y_scale, Y_zero_point?)",
	 .upgrade = qsoftmax_upgrade},
	{.name = "QLinearWhere",
	 MICROSOFT,
	 .in = qwhere_in,
	 .out = qwhere_out,
	 .expand = "Z = QuantizeLinear(Where(condition, DequantizeLinear(X, x_scale, x_zero_point), "
		   "DequantizeLinear(Y, y_scale, y_zero_point)), z_scale, z_zero_point)"},
	{.name = "GatherBlockQuantized",
	 MICROSOFT,
	 .in = block_gather_in,
	 .out = block_gather_out,
	 ATTRS(block_gather_attrs, struct block_gather_params),
	 .infer = block_gather_infer},
	{.name = "QLinearConcat",
	 MICROSOFT,
	 .in = qconcat_in,
	 .out = q8_out,
	 ATTRS(qconcat_attrs, struct qconcat_params),
	 .infer = qconcat_infer},
	/* QLinearAdd(QLinearConv(x, ..., B), c_scale, c_zero_point, r, ...), where r has the convolution's shape */
	{.name = "QConvAdd",
	 .domain = "infer",
	 .since = 1,
	 .in = qconv_add_in,
	 .out = q8_out,
	 ATTRS(conv_attrs, struct int_conv_params),
	 .infer = qlinear_conv_infer,
	 .flags = OP_CONVOLUTION | OP_INTERNAL},
	/* what a function of one element makes of 8-bit codes: y = table[the bits of x as a number without sign] */
	{.name = "CodeTable",
	 .domain = "infer",
	 .since = 1,
	 .in = code_table_in,
	 .out = code_table_out,
	 .infer = code_table_infer,
	 .flags = OP_INTERNAL | OP_ELEMENTWISE},
	/* the 256 codes of a type, in the order of a CodeTable */
	{.name = "AllCodes",
	 .domain = "infer",
	 .since = 1,
	 .in = all_codes_in,
	 .out = code_table_out,
	 .infer = all_codes_infer,
	 .flags = OP_INTERNAL},
	{.name = "QAttention",
	 MICROSOFT,
	 .in = qattention_in,
	 .out = qattention_out,
	 ATTRS(qattention_attrs, struct qattention_params),
	 .expand = "p = com.microsoft::MatMulIntegerToFloat(input, weight, input_scale, weight_scale, "
		   "input_zero_point?, weight_zero_point?, bias); "
		   "output, present = infer::ProjectedAttention(p, mask_index?, past?) "
		   "{num_heads=$num_heads, unidirectional=$unidirectional, do_rotary=$do_rotary, "
		   "mask_filter_value=$mask_filter_value, scale=$scale}"},
	{.name = "QLinearReduceMean",
	 MICROSOFT,
	 .in = qreduce_in,
	 .out = qreduce_out,
	 ATTRS(qreduce_attrs, struct qreduce_params),
	 .upgrade = qreduce_upgrade},
	{.name = "MulInteger",
	 MICROSOFT,
	 .in = mul_integer_in,
	 .out = mul_integer_out,
	 .expand = "az = Cast(A_zero_point?) {to=6}; bz = Cast(B_zero_point?) {to=6}; "
		   "C = Mul(Sub(Cast(A) {to=6}, az?), Sub(Cast(B) {to=6}, bz?))"},
	{0}};
