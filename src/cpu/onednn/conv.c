/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/onednn/onednn.h"

#if HAVE_DNNL

#include "base/arena.h"
#include "cpu/onednn/conv.h"
#include "ops/conv.h"
#include "ops/fused.h"

#include <string.h>

/*
 * Sets the dims and strides of the weights as oneDNN orders them: group, output channels, input channels,
 * kernel. ONNX stores ConvTranspose's weights with input channels before output channels.
 */
static void conv_weights(struct conv_step *c, const struct shape *w)
{
	int64_t g = c->group, n = c->w.n, kernel = window_size(&c->w), ic, oc, i_step, o_step, g_step;
	if (c->transposed) {
		ic = w->dim[0] / g;
		oc = w->dim[1];
		o_step = kernel;
		i_step = oc * kernel;
		g_step = ic * i_step;
	} else {
		oc = w->dim[0] / g;
		ic = w->dim[1];
		i_step = kernel;
		o_step = ic * kernel;
		g_step = oc * o_step;
	}
	int k = 0;
	if (g > 1) {
		c->weights[k] = g;
		c->weight_strides[k++] = g_step;
	}
	c->weights[k] = oc;
	c->weight_strides[k++] = o_step;
	c->weights[k] = ic;
	c->weight_strides[k++] = i_step;
	for (int i = 0; i < n; i++, k++) {
		c->weights[k] = c->w.kernel[i];
		kernel /= c->w.kernel[i];
		c->weight_strides[k] = kernel;
	}
}

/*
 * oneDNN works along the last dimension, and computes a picture of one column as slowly as one of many: [256,512,1] with a
 * kernel [5,1] at a third of the speed of [256,512] with a kernel [5], whose elements lie alike. So such dimensions
 * are left out.
 */
static void drop_single_columns(struct conv_step *c)
{
	int k = c->group > 1;

	for (int i = c->w.n - 1; i > 0; i--, c->rank--)
		if (c->src[c->rank - 1] != 1 || c->dst[c->rank - 1] != 1 ||
		    c->weights[k + c->rank - 1] != 1 || c->begin[i] || c->end[i])
			return;
}

void conv_dims(const struct site *s, struct conv_step *c, uint32_t w)
{
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	c->rank = x->rank;
	for (int i = 0; i < x->rank; i++) {
		c->src[i] = x->dim[i];
		c->dst[i] = y->dim[i];
	}
	for (int i = 0; i < c->w.n; i++) {
		c->strides[i] = c->w.stride[i];
		c->dilates[i] = c->w.dilation[i] - 1;
		c->begin[i] = c->w.begin[i];
		c->end[i] = c->w.end[i];
	}
	conv_weights(c, &site_in(s, w)->shape);
	drop_single_columns(c);
}

static bool implemented_by(const_dnnl_primitive_desc_t pd, const char *kind)
{
	const char *name = NULL;
	onednn_api.dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
	return name && strncmp(name, kind, strlen(kind)) == 0;
}

/*
 * Whether the implementation may be one of those for AMX that compute wrong sums in oneDNN 3.2. Convolutions of 1 x 1 on 8-bit codes were wrong for planes of 36
 * and 48 pixels, and wrote beyond their buffers; all planes of less than 64 are left to other code. Larger kernels in bf16 were wrong for even kernels with even
 * strides, where the channels do not fill whole tiles; whether the kernel is even is not looked at. Codes with a zero point were wrong, and written beyond their
 * buffers, at some widths if other axes have pads and the last one has none; in three dimensions also where another axis has none.
 */
static bool is_faulty(const_dnnl_primitive_desc_t pd, const struct conv_step *c)
{
	const int64_t tile = 32;
	const int last = c->rank - 3;
	int64_t pixels = 1;
	bool even = false, pads = false, all = true; /* all: every axis has pads at both ends */

	for (int i = 0; i <= last; i++) {
		pixels *= c->dst[2 + i];
		even |= c->strides[i] % 2 == 0;
		pads |= c->begin[i] || c->end[i];
		all &= c->begin[i] && c->end[i];
	}
	if (implemented_by(pd, "jit:avx512_core_amx"))
		return c->from_zero && pads && (last > 1 ? !all : !c->begin[last] && !c->end[last]);
	if (implemented_by(pd, "jit_1x1:avx512_core_amx"))
		return pixels < 64;
	return even && c->src[1] / c->group % tile && implemented_by(pd, "brgconv:avx512_core_amx");
}

int conv_describe(struct build *b, struct made *m, const struct conv_step *c,
		  const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t w,
		  const_dnnl_memory_desc_t dst)
{
	dnnl_memory_desc_t bias = NULL;
	dnnl_dims_t strides, dilates, begin, end;
	if (c->bias != UINT32_MAX)
		bias = md_vector(m, c->dst[1]);
	memcpy(strides, c->strides, sizeof(strides));
	memcpy(dilates, c->dilates, sizeof(dilates));
	memcpy(begin, c->begin, sizeof(begin));
	memcpy(end, c->end, sizeof(end));
	if (m->pd)
		onednn_api.dnnl_primitive_desc_destroy(m->pd);
	m->pd = NULL;
	if (c->transposed)
		TRY(b->d, dnnl_deconvolution_forward_primitive_desc_create(
				  &m->pd, onednn_engine, dnnl_forward_inference,
				  dnnl_deconvolution_direct, src, w, bias, dst, strides, dilates,
				  begin, end, m->attr));
	else
		TRY(b->d,
		    dnnl_convolution_forward_primitive_desc_create(
			    &m->pd, onednn_engine, dnnl_forward_inference, dnnl_convolution_direct,
			    src, w, bias, dst, strides, dilates, begin, end, m->attr));
	while (is_faulty(m->pd, c))
		if (onednn_api.dnnl_primitive_desc_next_impl(m->pd))
			return FAIL(
				b->d, E_LIBRARY,
				.message =
					"oneDNN computes this convolution wrong on a processor with AMX, and has no other code for it");
	return 0;
}

/* Lets oneDNN choose an implementation for input and output in the layout `tag`, which may be `any`. */
static int conv_choose(struct build *b, struct made *m, const struct conv_step *c,
		       dnnl_format_tag_t tag)
{
	dnnl_memory_desc_t src = md_tag(m, c->rank, c->src, tag),
			   dst = md_tag(m, c->rank, c->dst, tag);
	return conv_describe(b, m, c, src,
			     md_tag(m, c->rank + (c->group > 1), c->weights, dnnl_format_tag_any),
			     dst);
}

/* Whether the implementation is oneDNN's slow reference code. */
static bool conv_is_reference(const_dnnl_primitive_desc_t pd)
{
	return implemented_by(pd, "ref");
}

/* Whether activations are applied by generated code, whose instructions raise exceptions. The others are plain C++. */
static bool is_generated(const_dnnl_primitive_desc_t pd)
{
	return implemented_by(pd, "brg") || implemented_by(pd, "brdgmm") || implemented_by(pd, "jit");
}

/*
 * oneDNN's products for AVX2 can take some hundred times as long with a single output map: a kernel of 7 x 3 over 32 maps 459 ms, in
 * blocks of eight maps 4.3.
 */
static bool has_slow_single_map(const_dnnl_primitive_desc_t pd, const struct conv_step *c)
{
	return implemented_by(pd, "brgconv:avx2") && c->group == 1 && c->dst[1] == 1;
}

/* Lets oneDNN choose the implementation and the layouts; sets *src and *dst to the layouts of input and output. */
static int conv_layouts(struct build *b, struct made *m, const struct conv_step *c,
			enum layout *src, enum layout *dst)
{
	struct shape x = shape_of(c->rank, c->src), y = shape_of(c->rank, c->dst);
	int r = conv_choose(b, m, c, dnnl_format_tag_any);
	if (r)
		return r;
	if (has_slow_single_map(m->pd, c)) {
		*src = *dst = LAYOUT_BLOCK8;
		return conv_choose(b, m, c, md_layout_tag(LAYOUT_BLOCK8, c->rank));
	}
	if (md_layout_find(pd_md(m->pd, dnnl_query_src_md), &x, src) &&
	    md_layout_find(pd_md(m->pd, dnnl_query_dst_md), &y, dst) && !conv_is_reference(m->pd))
		return 0;
	/* oneDNN chose a layout that enum layout lacks, or slow reference code: try common layouts instead */
	static const enum layout others[] = {LAYOUT_CHANNELS_LAST, LAYOUT_ROW};
	for (size_t i = 0; i < 2; i++) {
		*src = *dst = others[i];
		r = conv_choose(b, m, c, md_layout_tag(others[i], c->rank));
		if (r || !conv_is_reference(m->pd))
			return r;
	}
	return 0;
}

/* Tells the plan which layouts the step needs for its inputs and which layout its output has. */
static void conv_declare(struct build *b, const struct conv_step *c, enum layout src, enum layout dst)
{
	const struct vinfo *x = site_in(b->s, 0), *y = site_out(b->s, 0);
	enum layout *want = arena_new_n(b->s->plan_arena, enum layout, b->s->node->nin);
	enum layout *give = arena_new_n(b->s->plan_arena, enum layout, b->s->node->nout);
	want[0] = md_layouts_same(&x->shape, src, x->layout) ? x->layout : src;
	give[0] = md_layouts_same(&y->shape, dst, LAYOUT_ROW) ? LAYOUT_ROW : dst;
	if (c->sum != UINT32_MAX)
		want[c->sum] = give[0];
	b->step->want = want;
	b->step->give = give;
}

struct conv_places {
	struct at x, w, bias, y;
};

static int conv_arguments(struct build *b, struct made *m, const struct conv_step *c,
			  const_dnnl_primitive_desc_t pd, const struct conv_places *at,
			  struct action *a)
{
	int r = build_argument(b, a, DNNL_ARG_SRC, pd_md(pd, dnnl_query_src_md), at->x);
	r = r ? r : build_argument(b, a, DNNL_ARG_WEIGHTS, pd_md(pd, dnnl_query_weights_md), at->w);
	if (!r && c->bias != UINT32_MAX)
		r = build_argument(b, a, DNNL_ARG_BIAS, md_vector(m, c->dst[1]), at->bias);
	return r ? r : build_argument(b, a, DNNL_ARG_DST, pd_md(pd, dnnl_query_dst_md), at->y);
}

static int conv_attributes(struct build *b, struct made *m, const struct conv_step *c, int act)
{
	int r = 0;
	if (onednn_api.dnnl_post_ops_create(&m->ops))
		return onednn_failed(b->d, dnnl_out_of_memory, "dnnl_post_ops_create");
	if (c->sum != UINT32_MAX && onednn_api.dnnl_post_ops_append_sum(m->ops, 1, 0, m->type))
		r = onednn_failed(b->d, dnnl_invalid_arguments, "dnnl_post_ops_append_sum");
	r = r ? r : build_activation(b, m, act, c->alpha, c->beta);
	return r ? r : build_attributes(b, m);
}

/* Prepares the same convolution without its activation. */
static int conv_apart(struct build *b, struct made *fused, const struct conv_step *c,
		      const struct conv_places *at, enum layout dst, const struct action *a)
{
	struct made m = made_new(b);
	struct action *apart;
	int r = conv_attributes(b, &m, c, ACT_NONE);
	r = r ? r
	      : conv_describe(b, &m, c, pd_md(fused->pd, dnnl_query_src_md),
			      pd_md(fused->pd, dnnl_query_weights_md),
			      pd_md(fused->pd, dnnl_query_dst_md));
	r = r ? r : build_apart(b, &m, a, at->y, build_elements(site_out(b->s, 0), dst), &apart);
	r = r ? r : conv_arguments(b, &m, c, b->p->apart.desc, at, apart);
	made_free(&m);
	return r;
}

static int conv_operands(struct build *b, struct made *m, const struct conv_step *c,
			 enum layout src, enum layout dst)
{
	struct conv_places at = {0};
	struct action *a;
	dnnl_memory_desc_t given =
		md_strides(m, c->rank + (c->group > 1), c->weights, c->weight_strides);
	int r = build_weights(b, 1, given, pd_md(m->pd, dnnl_query_weights_md), 1, &at.w);
	if (r)
		return r;
	at.x = build_operand_in(b, 0, src);
	if (c->bias != UINT32_MAX)
		at.bias = build_operand(b, c->bias);
	at.y = build_result(b, dst);
	if (c->sum != UINT32_MAX)
		build_residual(b, c->sum, dst, at.y);
	r = build_primitive(b, m->pd, &a);
	r = r ? r : conv_arguments(b, m, c, m->pd, &at, a);
	if (!r && b->p->apart.exceptions)
		r = conv_apart(b, m, c, &at, dst, a);
	b->p->apart.now = b->p->apart.exceptions && !is_generated(m->pd);
	build_result_end(b, dst, at.y);
	return r;
}

static int conv_build(struct build *b, struct conv_step *c)
{
	struct made m = made_new(b);
	enum layout src, dst;
	conv_dims(b->s, c, 1);
	int r = conv_attributes(b, &m, c, c->act);
	r = r ? r : conv_layouts(b, &m, c, &src, &dst);
	if (!r) {
		conv_declare(b, c, src, dst);
		r = conv_operands(b, &m, c, src, dst);
	}
	made_free(&m);
	return r ? r : build_end(b);
}

/* Computes the window from the attributes of a Conv, then builds the program. */
static int conv_reshape(struct build *b, struct conv_step *c, const struct window_attrs *a)
{
	const struct site *s = b->s;
	if (onednn_nothing_to_do(s))
		return 0;
	const char *wrong = onednn_counts_fit(s) ? window_set(&c->w, a, &site_in(s, 0)->shape,
							      &site_in(s, 1)->shape, false, b->d)
						 : "sizes that fit in memory";
	if (wrong)
		return FAIL(b->d, E_SHAPE, .expected = wrong);
	return conv_build(b, c);
}

bool onednn_conv_accepts(const struct site *s, struct why *w)
{
	const struct conv *p = site_params(s);
	return onednn_spatial_accept(s, w) && onednn_pads_accept(&p->window.pads, w);
}

int onednn_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct conv *p = site_params(s);
	struct conv_step c = {
		.group = p->group, .bias = site_in(s, 2) ? 2 : UINT32_MAX, .sum = UINT32_MAX};
	struct build b;
	build_start(&b, s, step, d);
	return conv_reshape(&b, &c, &p->window);
}

static struct window_attrs fused_window(const struct fused_conv *p)
{
	return (struct window_attrs){p->auto_pad, p->dilations, p->kernel_shape, p->pads, p->strides};
}

bool onednn_fused_conv_accepts(const struct site *s, struct why *w)
{
	const struct fused_conv *p = site_params(s);
	return onednn_activation_accepts(p->act, p->act_alpha, p->act_beta, w) &&
	       onednn_spatial_accept(s, w) && onednn_pads_accept(&p->pads, w);
}

int onednn_fused_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_conv *p = site_params(s);
	struct window_attrs a = fused_window(p);
	struct conv_step c = {.group = p->group,
			      .act = p->act,
			      .alpha = p->act_alpha,
			      .beta = p->act_beta,
			      .bias = site_in(s, 2) ? 2 : UINT32_MAX,
			      .sum = site_in(s, 3) ? 3 : UINT32_MAX};
	struct build b;
	build_start(&b, s, step, d);
	return conv_reshape(&b, &c, &a);
}

bool onednn_deconv_accepts(const struct site *s, struct why *w)
{
	const struct conv_transpose *p = site_params(s);
	if (!onednn_spatial_accept(s, w) || !onednn_pads_accept(&p->window.pads, w))
		return false;
	/* an output_padding makes the output larger than the size that oneDNN computes and accepts */
	for (int64_t i = 0; i < p->output_padding.n; i++)
		if (p->output_padding.v[i])
			return refuse(w, "output_padding");
	return p->output_shape.n <= 0 || refuse(w, "output_shape");
}

int onednn_deconv_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct conv_transpose *p = site_params(s);
	struct conv_step c = {.group = p->group,
			      .transposed = true,
			      .bias = site_in(s, 2) ? 2 : UINT32_MAX,
			      .sum = UINT32_MAX};
	struct build b;
	build_start(&b, s, step, d);
	if (onednn_nothing_to_do(s))
		return 0;
	const char *wrong = onednn_counts_fit(s)
				    ? conv_transpose_window(&c.w, p, &site_in(s, 0)->shape,
							    &site_in(s, 1)->shape, d)
				    : "sizes that fit in memory";
	if (wrong)
		return FAIL(d, E_SHAPE, .expected = wrong);
	return conv_build(&b, &c);
}

#endif
