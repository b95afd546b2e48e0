/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/onednn/onednn.h"

#if HAVE_DNNL

#include "base/arena.h"
#include "cpu/math/level.h"
#include "cpu/onednn/build.h"
#include "ops/pool.h"
#include "ops/window.h"

#include <string.h>

static bool is_global(const struct site *s)
{
	return s->node->op->variant == POOL_GLOBAL_AVERAGE;
}

/* Sets the window of an AveragePool or GlobalAveragePool. */
static const char *pool_window(const struct site *s, struct window *w, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape;
	const struct pool *p = site_params(s);
	if (!is_global(s))
		return window_set(w, &p->window, x, NULL, p->ceil_mode != 0, d);
	window_whole(w, x);
	return NULL;
}

bool onednn_pool_accepts(const struct site *s, struct why *w)
{
	enum { MIN_ROW = 8 };
	const struct pool *p = site_params(s);
	struct window win;
	if (!onednn_spatial_accept(s, w))
		return false;
	if (is_global(s))
		return true;
	if (!onednn_pads_accept(&p->window.pads, w))
		return false;
	if (p->ceil_mode)
		return refuse(w, "an average with ceil_mode");
	if (pool_window(s, &win, NULL))
		return refuse(w, "a window that does not fit");
	for (int i = 0; i < win.n; i++)
		if (win.begin[i] >= win.kernel[i] || win.end[i] >= win.kernel[i])
			return refuse(w, "pads as large as the window");
	/* oneDNN runs these cases in plain loops, which are slower than our own kernel */
	for (int i = 0; i < win.n; i++)
		if (win.dilation[i] > 1)
			return refuse(w, "a dilated window");
	if (site_in(s, 0)->layout == LAYOUT_ROW && site_in(s, 0)->shape.dim[1] < 16)
		return refuse(w, "few channels");
	bool long_rows = win.out[win.n - 1] >= MIN_ROW && win.stride[win.n - 1] <= 2;
	if (site_in(s, 0)->layout == LAYOUT_ROW && long_rows && simd_level() != 4)
		return refuse(w, "rows of a picture, without AVX-512");
	return true;
}

static int pool_choose(struct build *b, struct made *m, const struct window *w, enum layout l)
{
	const struct site *s = b->s;
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	const struct pool *p = site_params(s);
	dnnl_dims_t src, dst, stride, kernel, dilate, begin, end;
	dnnl_alg_kind_t alg = dnnl_pooling_avg_exclude_padding;
	if (!is_global(s) && p->count_include_pad)
		alg = dnnl_pooling_avg_include_padding;
	for (int i = 0; i < x->rank; i++) {
		src[i] = x->dim[i];
		dst[i] = y->dim[i];
	}
	for (int i = 0; i < w->n; i++) {
		stride[i] = w->stride[i];
		kernel[i] = w->kernel[i];
		dilate[i] = w->dilation[i] - 1;
		begin[i] = w->begin[i];
		int64_t need = (w->out[i] - 1) * w->stride[i] +
			       (w->kernel[i] - 1) * w->dilation[i] + 1 - w->in[i] - w->begin[i];
		end[i] = need > w->end[i] ? need : w->end[i];
	}
	dnnl_memory_desc_t from = md_tag(m, x->rank, src, md_layout_tag(l, x->rank));
	dnnl_memory_desc_t to = md_tag(m, x->rank, dst, md_layout_tag(l, x->rank));
	TRY(b->d, dnnl_pooling_forward_primitive_desc_create(
			  &m->pd, onednn_engine, dnnl_forward_inference, alg, from, to, stride,
			  kernel, dilate, begin, end, m->attr));
	return 0;
}

static int pool_operands(struct build *b, struct made *m, enum layout l)
{
	struct action *a;
	struct at x = build_operand_in(b, 0, l), y = build_result(b, l);
	int r = build_primitive(b, m->pd, &a);
	r = r ? r : build_argument(b, a, DNNL_ARG_SRC, pd_md(m->pd, dnnl_query_src_md), x);
	r = r ? r : build_argument(b, a, DNNL_ARG_DST, pd_md(m->pd, dnnl_query_dst_md), y);
	build_result_end(b, l, y);
	return r;
}

int onednn_pool_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *y = &site_out(s, 0)->shape;
	enum layout l = site_in(s, 0)->layout;
	enum layout *want = arena_new_n(s->plan_arena, enum layout, 1);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	struct window w;
	struct build b;
	build_start(&b, s, step, d);
	struct made m = made_new(&b);
	want[0] = l;
	give[0] = md_layouts_same(y, l, LAYOUT_ROW) ? LAYOUT_ROW : l;
	step->want = want;
	step->give = give;
	const char *wrong = onednn_counts_fit(s) ? pool_window(s, &w, d) : "sizes that fit in memory";
	if (wrong)
		return FAIL(d, E_SHAPE, .expected = wrong);
	if (onednn_api.dnnl_post_ops_create(&m.ops))
		return onednn_failed(d, dnnl_out_of_memory, "dnnl_post_ops_create");
	int r = build_attributes(&b, &m);
	r = r ? r : pool_choose(&b, &m, &w, l);
	r = r ? r : pool_operands(&b, &m, l);
	made_free(&m);
	return r ? r : build_end(&b);
}

#endif
