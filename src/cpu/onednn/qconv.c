/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QLinearConv by oneDNN, in the layout that has the channels last: between convolutions nothing is reordered.
 *
 * oneDNN multiplies the sums by a scale for each channel, adds a float bias, and rounds. The scale is x_scale * w_scale / y_scale,
 * so that the sums are scaled once, and the bias is scaled alike. A processor without VNNI adds pairs of products in 16 bits,
 * which saturate; there our own kernel runs.
 */
#include "cpu/onednn/onednn.h"

#if HAVE_DNNL

#include "backend/weight_store.h"
#include "base/arena.h"
#include "base/mem.h"
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
	uint8_t flip;	     /* mask for XOR that makes the weights signed */
	float *scale, *bias; /* by output channel; bias is NULL if there is none */
};

static bool multiplies_bytes(void)
{
	enum { AVX2_VNNI = 8, AVX512_VNNI = 64 }; /* bits of enum dnnl_cpu_isa_t */

	return onednn_api.dnnl_get_effective_cpu_isa() & (AVX2_VNNI | AVX512_VNNI);
}

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

bool onednn_qconv_accepts(const struct site *s, struct why *w)
{
	const struct int_conv_params *p = site_params(s);
	int64_t channels = site_in(s, W)->shape.dim[0];
	const struct tensor *zeros = numbers(s, W_ZERO, channels);
	double zero = site_in(s, W)->type.dtype == DT_U8 ? 128 : 0;

	if (!onednn_spatial_accept(s, w) || !onednn_pads_accept(&p->window.pads, w))
		return false;
	if (!multiplies_bytes())
		return refuse(w, "a processor without VNNI");
	for (uint32_t i = X_SCALE; i <= BIAS; i++)
		if (i != W && i != W_ZERO && site_in(s, i) && !numbers(s, i, channels))
			return refuse(w, "input %u is not known before the run", i);
	if (!zeros || !site_is_weight(s, W) || !site_known(s, W))
		return refuse(w, "the weights are not known before the run");
	for (int64_t i = 0; i < tensor_count(zeros); i++)
		if (number_at(zeros, i) != zero)
			return refuse(w, "weights with a zero point");
	for (int64_t i = 0; i < channels; i++)
		if (!isfinite((float)(number_at(numbers(s, X_SCALE, 1), 0) *
				      number_at(numbers(s, W_SCALE, channels), i) /
				      number_at(numbers(s, Y_SCALE, 1), 0))))
			return refuse(w, "a scale that is no finite number");
	return true;
}

/* Reads the inputs that are known: scales, zero points and bias. */
static void read_numbers(struct qconv *q, const struct site *s)
{
	int64_t n = site_in(s, W)->shape.dim[0];
	const struct tensor *ws = site_known(s, W_SCALE), *b = site_in(s, BIAS) ? site_known(s, BIAS) : NULL;
	float xs = (float)number_at(site_known(s, X_SCALE), 0);
	float ys = (float)number_at(site_known(s, Y_SCALE), 0);

	q->x_type = site_in(s, X)->type.dtype == DT_U8 ? dnnl_u8 : dnnl_s8;
	q->y_type = site_out(s, 0)->type.dtype == DT_U8 ? dnnl_u8 : dnnl_s8;
	q->flip = site_in(s, W)->type.dtype == DT_U8 ? 128 : 0;
	q->x_zero = (int32_t)number_at(site_known(s, X_ZERO), 0);
	q->y_zero = (int32_t)number_at(site_known(s, Y_ZERO), 0);
	q->scale = arena_new_n(s->plan_arena, float, (size_t)n);
	q->bias = b ? arena_new_n(s->plan_arena, float, (size_t)n) : NULL;
	for (int64_t i = 0; i < n; i++) {
		q->scale[i] = xs * (float)number_at(ws, i) / ys;
		if (b)
			q->bias[i] = (float)number_at(b, i) * q->scale[i];
	}
}

/* ---- attributes and descriptors ---------------------------------------------------------------------------------- */

static int qconv_attributes(struct build *b, struct made *m, const struct qconv *q)
{
	if (onednn_api.dnnl_post_ops_create(&m->ops))
		return onednn_failed(b->d, dnnl_out_of_memory, "dnnl_post_ops_create");
	/* oneDNN adds the zero point before it rounds: with an odd one, ties would go the other way */
	int r = q->y_zero % 2 ? build_eltwise(b, m, dnnl_eltwise_round, 0, 0) : 0;
	r = r ? r : build_attributes(b, m);
	if (r)
		return r;
	TRY(b->d, dnnl_primitive_attr_set_scales_mask(m->attr, DNNL_ARG_WEIGHTS,
						      q->conv.group > 1 ? 3 : 1));
	if (q->x_zero)
		TRY(b->d, dnnl_primitive_attr_set_zero_points_mask(m->attr, DNNL_ARG_SRC, 0));
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

static int qconv_choose(struct build *b, struct made *m, const struct qconv *q)
{
	const struct conv_step *c = &q->conv;
	dnnl_format_tag_t tag = md_layout_tag(LAYOUT_CHANNELS_LAST, c->rank);
	int r = qconv_attributes(b, m, q);

	return r ? r
		 : conv_describe(b, m, c, typed(m, q->x_type, c->rank, c->src, tag),
				 typed(m, dnnl_s8, c->rank + (c->group > 1), c->weights,
				       dnnl_format_tag_any),
				 typed(m, q->y_type, c->rank, c->dst, tag));
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

struct signed_weights {
	const_dnnl_memory_desc_t from, to;
	uint8_t flip;
	struct diag *d;
};

/* Writes the weights t to dst in the layout that the implementation wants. This is the callback of store_get. */
static int pack_signed(void *dst, const struct tensor *t, void *arg)
{
	const struct signed_weights *p = arg;
	size_t n = (size_t)tensor_count(t);
	uint8_t *flipped = p->flip ? mem_alloc(n, MEM_STAGING) : NULL;

	if (p->flip && !flipped)
		return FAIL(p->d, E_MEMORY, .actual = fmt(p->d, "%zu bytes", n));
	for (size_t i = 0; flipped && i < n; i++)
		flipped[i] = ((const uint8_t *)t->data)[i] ^ p->flip;
	int r = build_reorder_now(p->from, p->to, flipped ? flipped : t->data, dst, p->d);
	mem_free(flipped);
	return r;
}

/*
 * Packs the weights into the session's store. What oneDNN stores behind packed weights, their sums, depends on the type of x and on
 * whether x has a zero point, which the key therefore tells.
 */
static int qconv_weights(struct build *b, struct made *m, const struct qconv *q, struct at *out)
{
	const struct conv_step *c = &q->conv;
	m->type = dnnl_s8;
	dnnl_memory_desc_t from = md_strides(m, c->rank + (c->group > 1), c->weights, c->weight_strides);
	m->type = dnnl_f32;
	const_dnnl_memory_desc_t to = pd_md(m->pd, dnnl_query_weights_md);
	struct signed_weights p = {from, to, q->flip, b->d};
	const char *text = build_layout_text(b->s->plan_arena, to);
	const char *key = arena_printf(b->s->plan_arena, "onednn 8-bit %d %d%s", q->x_type == dnnl_u8,
				       q->x_zero != 0, text ? text : "");
	const void *fixed;

	fixed = store_get(b->s->store, site_known(b->s, W), key,
			  onednn_api.dnnl_memory_desc_get_size(to), pack_signed, &p, b->d);
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
	give[0] = md_layouts_same(&y->shape, LAYOUT_CHANNELS_LAST, LAYOUT_ROW) ? LAYOUT_ROW
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

static int qconv_arguments(struct build *b, struct made *m, const struct qconv *q, struct at w)
{
	struct action *a;
	int r = build_primitive(b, m->pd, &a);

	r = r ? r : build_argument(b, a, DNNL_ARG_SRC, pd_md(m->pd, dnnl_query_src_md), IN(X));
	r = r ? r : build_argument(b, a, DNNL_ARG_WEIGHTS, pd_md(m->pd, dnnl_query_weights_md), w);
	r = r ? r : build_argument(b, a, DNNL_ARG_DST, pd_md(m->pd, dnnl_query_dst_md), OUT0);
	if (!r && q->bias)
		r = build_argument(b, a, DNNL_ARG_BIAS, md_vector(m, q->conv.dst[1]), fixed_at(q->bias));
	r = r ? r
	      : build_argument(b, a, DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS,
			       md_vector(m, q->conv.dst[1]), fixed_at(q->scale));
	if (!r && q->x_zero)
		r = zero_argument(b, m, a, DNNL_ARG_SRC, q->x_zero);
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
