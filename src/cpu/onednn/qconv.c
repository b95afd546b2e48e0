/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QLinearConv by oneDNN, in the layout that has the channels last: between convolutions nothing is reordered.
 *
 * The sums, with the bias, are multiplied once by x_scale * w_scale / y_scale and rounded, as the operator's text has it: any other
 * order makes another code of a sum that lies on a tie. oneDNN scales sums before it adds a bias; with a bias the scales are
 * therefore the operand of a multiplication behind it, or, as oneDNN 3.2 takes wrong ones of these for groups, the sums become
 * floats, which a loop of ours scales. With VNNI oneDNN adds a scaled bias: there a sum with a bias that lies within 1e-5 of a tie
 * may get the code beside it.
 *
 * A processor without VNNI adds pairs of products in 16 bits, which may saturate, and no code of oneDNN's multiplies weights that
 * have a zero point. Then codes and weights become floats, whose products oneDNN sums, if that is faster than our own kernel
 * for integers. The sums stay below 2^24, so that they are exact.
 */
#include "cpu/onednn/onednn.h"

#if HAVE_DNNL

#include "backend/weight_store.h"
#include "base/arena.h"
#include "base/mem.h"
#include "cpu/math/level.h"
#include "cpu/onednn/conv.h"
#include "ops/quant.h"

#include <math.h>
#include <string.h>

/* The node's inputs. */
enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS };

struct qconv {
	struct conv_step conv;
	dnnl_data_type_t x_type, y_type;
	int32_t x_zero, y_zero;
	bool widened;	     /* codes and weights become floats */
	bool sums;	     /* what oneDNN writes are sums, as floats */
	bool multiplied;     /* the scales are an operand of a multiplication */
	uint8_t flip;	     /* mask for XOR that makes the weights signed */
	float *scale, *bias; /* by output channel; bias is NULL if there is none */
	int64_t width; /* numbers in `scale`: if channels are few, their scales are repeated */
};

/* Returns the numbers of input i, which are one or one for each of n channels, or NULL. */
static const struct tensor *numbers(const struct site *s, uint32_t i, int64_t n)
{
	const struct tensor *t = site_known(s, i);

	return t && (tensor_count(t) == 1 || tensor_count(t) == n) ? t : NULL;
}

static double number_at(const struct tensor *t, int64_t i)
{
	return elem_f64(tensor_dtype(t), t->data, tensor_count(t) == 1 ? 0 : i);
}

/* Whether the weights, without their zero points, are signed 8-bit numbers: the zero points are those of signed codes. */
static bool plain_weights(const struct site *s)
{
	const struct tensor *zeros = site_known(s, W_ZERO);
	double zero = site_in(s, W)->type.dtype == DT_U8 ? 128 : 0;

	for (int64_t i = 0; i < tensor_count(zeros); i++)
		if (number_at(zeros, i) != zero)
			return false;
	return true;
}

static bool has_vnni(void)
{
	enum { AVX2_VNNI = 8, AVX512_VNNI = 64 }; /* bits of enum dnnl_cpu_isa_t */

	return onednn_api.dnnl_get_effective_cpu_isa() & (AVX2_VNNI | AVX512_VNNI);
}

/* Whether the sum of any two of n weights, times the largest code, fits in 16 bits. */
static bool pairs_fit(const uint8_t *w, int64_t n, uint8_t flip)
{
	int most[2] = {0}, least[2] = {0};

	for (int64_t i = 0; i < n; i++) {
		int v = (int8_t)(w[i] ^ flip);
		if (v > most[0])
			most[1] = most[0], most[0] = v;
		else if (v > most[1])
			most[1] = v;
		if (v < least[0])
			least[1] = least[0], least[0] = v;
		else if (v < least[1])
			least[1] = v;
	}
	return most[0] + most[1] <= 128 && least[0] + least[1] >= -128;
}

/*
 * Whether oneDNN's sums of two products of bytes, which without VNNI saturate in 16 bits, are exact whatever the codes of x are.
 * Weights of 7 bits, which tools choose for such processors, always fit.
 */
static bool sums_are_exact(const struct site *s)
{
	const struct tensor *w = site_known(s, W);
	int64_t row = shape_span(&w->shape, 1, w->shape.rank);

	if (has_vnni())
		return true;
	if (site_in(s, X)->type.dtype != DT_U8)
		return false; /* oneDNN halves the weights */
	for (int64_t m = 0; m < w->shape.dim[0]; m++)
		if (!pairs_fit((const uint8_t *)w->data + m * row, row,
			       tensor_dtype(w) == DT_U8 ? 128 : 0))
			return false;
	return true;
}

/*
 * Whether every partial sum of products stays within +-2^24, where float32 holds all integers. As a pad counts as the zero point,
 * a product lies between 0 and that of the least or the largest code.
 */
static bool sums_fit_floats(const struct site *s)
{
	const struct tensor *w = site_known(s, W), *zeros = site_known(s, W_ZERO);
	const struct tensor *b = site_in(s, BIAS) ? site_known(s, BIAS) : NULL;
	int64_t row = shape_span(&w->shape, 1, w->shape.rank);
	double zero = number_at(site_known(s, X_ZERO), 0);
	double low = (site_in(s, X)->type.dtype == DT_U8 ? 0 : -128) - zero, high = low + 255;

	for (int64_t m = 0; m < w->shape.dim[0]; m++) {
		double up = 0, down = 0, add = b ? fabs(number_at(b, m)) : 0;
		for (int64_t i = m * row; i < (m + 1) * row; i++) {
			double v = elem_f64(tensor_dtype(w), w->data, i) - number_at(zeros, m);
			up += v > 0 ? v : 0;
			down -= v < 0 ? v : 0;
		}
		if (up * high - down * low + add > 0x1p24 || down * high - up * low + add > 0x1p24)
			return false;
	}
	return true;
}

/* Whether sums of floats are faster than our own kernel, which is good at long sums of many channels. */
static bool floats_are_faster(const struct site *s)
{
	enum { FEW_CHANNELS = 16 };
	const struct int_conv_params *p = site_params(s);

	return p->group > 1 || simd_level() < 4 || site_in(s, X)->shape.dim[1] < FEW_CHANNELS;
}

/* Returns what sums of channel i are multiplied by. */
static float scale_of_channel(const struct site *s, int64_t i)
{
	return (float)number_at(site_known(s, X_SCALE), 0) *
	       (float)number_at(site_known(s, W_SCALE), i) /
	       (float)number_at(site_known(s, Y_SCALE), 0);
}

bool onednn_qconv_accepts(const struct site *s, struct why *w)
{
	const struct int_conv_params *p = site_params(s);
	int64_t channels = site_in(s, W)->shape.dim[0];

	if (!onednn_spatial_accept(s, w) || !onednn_pads_accept(&p->window.pads, w))
		return false;
	for (uint32_t i = X_SCALE; i <= BIAS; i++)
		if (i != W && site_in(s, i) &&
		    !numbers(s, i, i == W_SCALE || i == W_ZERO || i == BIAS ? channels : 1))
			return refuse(w, "input %u is not known before the run", i);
	if (!site_is_weight(s, W) || !site_known(s, W))
		return refuse(w, "the weights are not known before the run");
	bool codes = plain_weights(s) && sums_are_exact(s);
	if (!codes && !floats_are_faster(s))
		return refuse(w, "weights with a zero point, or a processor without VNNI");
	if ((!codes || (site_in(s, BIAS) && !has_vnni())) && !sums_fit_floats(s))
		return refuse(w, "sums of more than 24 bits");
	for (int64_t i = 0; i < channels; i++)
		if (!(fabsf(scale_of_channel(s, i)) < 0x1p64f))
			return refuse(w, "a scale that makes sums infinite");
	return true;
}

bool onednn_qconv_of_bytes(const struct site *s)
{
	return onednn_usable(NULL) && plain_weights(s) && has_vnni();
}

/* Reads the inputs that are known: scales, zero points and bias. */
static void read_numbers(struct qconv *q, const struct site *s)
{
	int64_t n = site_in(s, W)->shape.dim[0], least = 512, whole = 16;
	const struct tensor *b = site_in(s, BIAS) ? site_known(s, BIAS) : NULL;

	q->x_type = site_in(s, X)->type.dtype == DT_U8 ? dnnl_u8 : dnnl_s8;
	q->y_type = site_out(s, 0)->type.dtype == DT_U8 ? dnnl_u8 : dnnl_s8;
	q->widened = !plain_weights(s) || !sums_are_exact(s);
	q->flip = site_in(s, W)->type.dtype == DT_U8 ? 128 : 0;
	q->x_zero = (int32_t)number_at(site_known(s, X_ZERO), 0);
	q->y_zero = (int32_t)number_at(site_known(s, Y_ZERO), 0);
	q->multiplied = !q->widened && b && !has_vnni() && q->conv.group == 1 && n % whole == 0;
	q->sums = q->widened || (b && !has_vnni() && !q->multiplied);
	q->width = (least + n - 1) / n * n;
	q->scale = arena_new_n(s->plan_arena, float, (size_t)q->width);
	q->bias = b ? arena_new_n(s->plan_arena, float, (size_t)n) : NULL;
	for (int64_t i = 0; i < q->width; i++)
		q->scale[i] = scale_of_channel(s, i % n);
	for (int64_t i = 0; i < n && b; i++)
		q->bias[i] = (float)number_at(b, i) * (q->sums || q->multiplied ? 1 : q->scale[i]);
}

/* ---- attributes and descriptors ---------------------------------------------------------------------------------- */

/* Describes the scales as an operand of each pixel. */
static dnnl_memory_desc_t scales_md(struct made *m, const struct qconv *q)
{
	dnnl_dims_t dims = {1, q->conv.dst[1], 1, 1, 1};

	return md_row(m, q->conv.rank, dims);
}

static int qconv_attributes(struct build *b, struct made *m, const struct qconv *q)
{
	if (onednn_api.dnnl_post_ops_create(&m->ops))
		return onednn_failed(b->d, dnnl_out_of_memory, "dnnl_post_ops_create");
	if (q->multiplied)
		TRY(b->d, dnnl_post_ops_append_binary(m->ops, dnnl_binary_mul, scales_md(m, q)));
	/* oneDNN adds the zero point before it rounds: with an odd one, ties would go the other way */
	int r = q->y_zero % 2 && !q->sums ? build_eltwise(b, m, dnnl_eltwise_round, 0, 0) : 0;
	r = r ? r : build_attributes(b, m);
	if (r)
		return r;
	if (q->x_zero && !q->widened)
		TRY(b->d, dnnl_primitive_attr_set_zero_points_mask(m->attr, DNNL_ARG_SRC, 0));
	if (q->sums)
		return 0;
	if (!q->multiplied)
		TRY(b->d, dnnl_primitive_attr_set_scales_mask(m->attr, DNNL_ARG_WEIGHTS,
							      q->conv.group > 1 ? 3 : 1));
	if (q->y_zero)
		TRY(b->d, dnnl_primitive_attr_set_zero_points_mask(m->attr, DNNL_ARG_DST, 0));
	return 0;
}

static dnnl_memory_desc_t typed(struct made *m, dnnl_data_type_t t, int n, const dnnl_dim_t *dims,
				dnnl_format_tag_t tag)
{
	m->type = t;
	dnnl_memory_desc_t md = md_tag(m, n, dims, tag);
	m->type = dnnl_f32;
	return md;
}

static int qconv_choose(struct build *b, struct made *m, struct qconv *q)
{
	struct conv_step *c = &q->conv;
	dnnl_format_tag_t tag = md_layout_tag(LAYOUT_CHANNELS_LAST, c->rank);
	dnnl_data_type_t x = q->widened ? dnnl_f32 : q->x_type, w = q->widened ? dnnl_f32 : dnnl_s8,
			 y = q->sums ? dnnl_f32 : q->y_type;
	int r = qconv_attributes(b, m, q);

	c->from_zero = q->x_zero && !q->widened;
	return r ? r
		 : conv_describe(b, m, c, typed(m, x, c->rank, c->src, tag),
				 typed(m, w, c->rank + (c->group > 1), c->weights, dnnl_format_tag_any),
				 typed(m, y, c->rank, c->dst, tag));
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

struct packed_weights {
	const_dnnl_memory_desc_t from, to;
	const struct qconv *q;
	const struct tensor *zeros; /* zero points, one or one for each channel */
	struct diag *d;
};

static void flip_weights(const struct packed_weights *p, const struct tensor *t, uint8_t *to)
{
	for (int64_t i = 0; i < tensor_count(t); i++)
		to[i] = ((const uint8_t *)t->data)[i] ^ p->q->flip;
}

/* Writes each weight without its zero point. */
static void widen_weights(const struct packed_weights *p, const struct tensor *t, float *to)
{
	int64_t row = tensor_count(t) / t->shape.dim[0];

	for (int64_t c = 0; c < t->shape.dim[0]; c++)
		for (int64_t i = c * row; i < (c + 1) * row; i++)
			to[i] = (float)(elem_f64(tensor_dtype(t), t->data, i) -
					number_at(p->zeros, c));
}

/* Writes the weights t to dst in the layout that the implementation wants. This is the callback of store_get. */
static int pack_weights(void *dst, const struct tensor *t, void *arg)
{
	const struct packed_weights *p = arg;
	size_t n = (size_t)tensor_count(t) * (p->q->widened ? sizeof(float) : 1);
	void *other = p->q->flip || p->q->widened ? mem_alloc(n, MEM_STAGING) : NULL;

	if ((p->q->flip || p->q->widened) && !other)
		return FAIL(p->d, E_MEMORY, .actual = fmt(p->d, "%zu bytes", n));
	if (p->q->widened)
		widen_weights(p, t, other);
	else if (other)
		flip_weights(p, t, other);
	int r = build_reorder_now(p->from, p->to, other ? other : t->data, dst, p->d);
	mem_free(other);
	return r;
}

/*
 * Returns what else packed weights depend on: on their zero points, or, as oneDNN stores their sums behind them, on the type of x
 * and whether x has a zero point.
 */
static const char *weights_key(const struct build *b, const struct qconv *q,
			       const_dnnl_memory_desc_t to)
{
	const char *text = build_layout_text(b->s->plan_arena, to);

	if (q->widened)
		return arena_printf(b->s->plan_arena, "onednn codes %p%s",
				    (const void *)site_known(b->s, W_ZERO), text ? text : "");
	return arena_printf(b->s->plan_arena, "onednn 8-bit %d %d%s", q->x_type == dnnl_u8,
			    q->x_zero != 0, text ? text : "");
}

static int qconv_weights(struct build *b, struct made *m, const struct qconv *q, struct at *out)
{
	const struct conv_step *c = &q->conv;
	m->type = q->widened ? dnnl_f32 : dnnl_s8;
	dnnl_memory_desc_t from =
		md_strides(m, c->rank + (c->group > 1), c->weights, c->weight_strides);
	m->type = dnnl_f32;
	const_dnnl_memory_desc_t to = pd_md(m->pd, dnnl_query_weights_md);
	struct packed_weights p = {from, to, q, site_known(b->s, W_ZERO), b->d};
	const void *fixed =
		store_get(b->s->store, site_known(b->s, W), weights_key(b, q, to),
			  onednn_api.dnnl_memory_desc_get_size(to), pack_weights, &p, b->d);

	b->step->unread |= 1u << W;
	*out = (struct at){.place = AT_FIXED, .fixed = fixed};
	return fixed ? 0 : -E_MEMORY;
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

static void qconv_declare(struct build *b)
{
	enum layout *want = arena_new_n(b->s->plan_arena, enum layout, b->s->node->nin);
	enum layout *give = arena_new_n(b->s->plan_arena, enum layout, b->s->node->nout);
	const struct vinfo *x = site_in(b->s, X), *y = site_out(b->s, 0);

	want[X] = md_layouts_same(&x->shape, LAYOUT_CHANNELS_LAST, x->layout) ? x->layout
									      : LAYOUT_CHANNELS_LAST;
	give[0] = md_layouts_same(&y->shape, LAYOUT_CHANNELS_LAST, LAYOUT_ROW)
			  ? LAYOUT_ROW
			  : LAYOUT_CHANNELS_LAST;
	b->step->want = want;
	b->step->give = give;
}

static struct at fixed_at(const void *p)
{
	return (struct at){.place = AT_FIXED, .fixed = p};
}

static int zero_argument(struct build *b, struct made *m, struct action *a, int which, int32_t zero)
{
	int32_t *at = arena_new(b->s->plan_arena, int32_t);

	*at = zero;
	return build_argument(b, a, DNNL_ARG_ATTR_ZERO_POINTS | which,
			      typed(m, dnnl_s32, 1, (dnnl_dims_t){1}, dnnl_a), fixed_at(at));
}

static struct action *convert(struct build *b, enum action_kind kind, const struct vinfo *codes,
			      int32_t zero, struct at from, struct at to)
{
	struct action *a = build_action(b, kind);

	a->dtype = (enum dtype)codes->type.dtype;
	a->count = shape_count(&codes->shape);
	a->zero = zero;
	a->at[0] = from;
	a->at[1] = to;
	return a;
}

static struct at work_of(struct build *b, const struct vinfo *v)
{
	return build_work(b, (size_t)shape_count(&v->shape) * sizeof(float));
}

static int qconv_arguments(struct build *b, struct made *m, const struct qconv *q, struct at w)
{
	const struct vinfo *xs = site_in(b->s, X), *ys = site_out(b->s, 0);
	struct at x = q->widened ? work_of(b, xs) : IN(X), y = q->sums ? work_of(b, ys) : OUT0;
	struct action *a;

	if (q->widened)
		convert(b, DO_DECODE, xs, q->x_zero, IN(X), x);
	int r = build_primitive(b, m->pd, &a);

	r = r ? r : build_argument(b, a, DNNL_ARG_SRC, pd_md(m->pd, dnnl_query_src_md), x);
	r = r ? r : build_argument(b, a, DNNL_ARG_WEIGHTS, pd_md(m->pd, dnnl_query_weights_md), w);
	r = r ? r : build_argument(b, a, DNNL_ARG_DST, pd_md(m->pd, dnnl_query_dst_md), y);
	if (!r && q->bias)
		r = build_argument(b, a, DNNL_ARG_BIAS, md_vector(m, q->conv.dst[1]),
				   fixed_at(q->bias));
	if (!r && q->x_zero && !q->widened)
		r = zero_argument(b, m, a, DNNL_ARG_SRC, q->x_zero);
	if (q->sums) {
		a = convert(b, DO_ENCODE, ys, q->y_zero, y, OUT0);
		a->scale = q->scale;
		a->width = q->width;
		return r;
	}
	if (!r && q->multiplied)
		r = build_argument(b, a, DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1,
				   scales_md(m, q), fixed_at(q->scale));
	else if (!r)
		r = build_argument(b, a, DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS,
				   md_vector(m, q->conv.dst[1]), fixed_at(q->scale));
	if (!r && q->y_zero)
		r = zero_argument(b, m, a, DNNL_ARG_DST, q->y_zero);
	return r;
}

int onednn_qconv_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct int_conv_params *p = site_params(s);
	struct qconv q = {.conv = {.group = p->group,
				   .bias = site_in(s, BIAS) ? BIAS : UINT32_MAX,
				   .sum = UINT32_MAX}};
	struct build b;
	struct at w;
	const char *wrong = window_set(&q.conv.w, &p->window, &site_in(s, X)->shape,
				       &site_in(s, W)->shape, false, d);

	if (wrong)
		return FAIL(d, E_SHAPE, .expected = wrong);
	build_start(&b, s, step, d);
	struct made m = made_new(&b);
	conv_dims(s, &q.conv, W);
	read_numbers(&q, s);
	int r = qconv_choose(&b, &m, &q);
	if (!r) {
		qconv_declare(&b);
		r = qconv_weights(&b, &m, &q, &w);
	}
	r = r ? r : qconv_arguments(&b, &m, &q, w);
	made_free(&m);
	return r ? r : build_end(&b);
}

#endif
