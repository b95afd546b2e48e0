/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/line.h"

#include "base/arena.h"
#include "base/pool.h"
#include "cpu/math/function.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/fused.h"
#include "ops/window.h"

enum { PART = 1024 }; /* outputs that are computed at once */

/*
 * With a stride, output o reads elements o * stride + k. A part of the line is first divided into `stride` lines, whose elements lie
 * that far apart, and along each of them neighbouring outputs read neighbouring elements.
 */
struct line {
	int64_t images, maps, in, out, taps, stride, parts;
	int64_t room; /* elements of each of the lines of a part */
	int act;
	float alpha, beta;
	bool has_bias;
	size_t each; /* bytes of a thread's scratch */
};

bool line_accepts(const struct site *s, struct why *w)
{
	enum { FEW_MAPS = 4, MIN_TAPS = 16, MIN_OUTPUTS = 64, MAX_STRIDE = 8 };
	const struct fused_conv *p = site_params(s);
	const struct shape *x = &site_in(s, 0)->shape, *weight = &site_in(s, 1)->shape;
	const struct shape *y = &site_out(s, 0)->shape;
	int last = x->rank - 1;

	if (x->rank < 3 || weight->rank != x->rank || x->dim[1] != 1 || p->group != 1 ||
	    shape_count(x) < 1)
		return refuse(w, "more than one channel");
	if (shape_span(x, 2, last) != 1 || shape_span(weight, 2, last) != 1 ||
	    shape_span(y, 2, last) != 1)
		return refuse(w, "a picture of more than one row");
	if (weight->dim[0] > FEW_MAPS || weight->dim[last] < MIN_TAPS || y->dim[last] < MIN_OUTPUTS)
		return refuse(w, "more maps, or less work, than pays off");
	if (!all_are(p->dilations, 1) || !all_are(p->pads, 0) || site_in(s, 3))
		return refuse(w, "dilations, pads or a residual");
	for (int64_t i = 0; i < p->strides.n; i++)
		if (p->strides.v[i] < 1 || p->strides.v[i] > MAX_STRIDE)
			return refuse(w, "a wide stride");
	/* auto_pad leaves `pads` empty: the size of the output says whether there are some */
	int64_t stride = p->strides.n > 0 ? p->strides.v[p->strides.n - 1] : 1;
	return (x->dim[last] - weight->dim[last]) / stride + 1 == y->dim[last] || refuse(w, "pads");
}

int line_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_conv *p = site_params(s);
	const struct shape *x = &site_in(s, 0)->shape, *weight = &site_in(s, 1)->shape;
	struct line *l = arena_new(s->plan_arena, struct line);

	(void)d;
	*l = (struct line){.images = x->dim[0],
			   .maps = weight->dim[0],
			   .in = x->dim[x->rank - 1],
			   .out = site_out(s, 0)->shape.dim[x->rank - 1],
			   .taps = weight->dim[x->rank - 1],
			   .stride = p->strides.n > 0 ? p->strides.v[p->strides.n - 1] : 1,
			   .act = p->act,
			   .alpha = p->act_alpha,
			   .beta = p->act_beta,
			   .has_bias = site_in(s, 2) != NULL};
	l->parts = (l->out + PART - 1) / PART;
	l->room = PART + (l->taps + l->stride - 1) / l->stride;
	/* the taps are in memory and the stride is small, so that nothing here overflows */
	l->each = scratch_size((size_t)(l->stride * l->room + l->taps) * sizeof(float));
	step->workspace = (size_t)pool_threads() * l->each;
	step->state = l;
	return 0;
}

struct line_run {
	const struct line *l;
	const float *x, *weight, *bias;
	float *y;
	char *scratch;
};

static void run_parts(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct line_run *j = arg;
	const struct line *l = j->l;
	float *lines = (float *)(void *)(j->scratch + (size_t)thread * l->each);
	float *taps = lines + l->stride * l->room;

	for (int64_t i = begin; i < end; i++) {
		int64_t image = i / l->parts, o = i % l->parts * PART, n = lesser(l->out - o, PART);
		const float *x = j->x + image * l->in + o * l->stride;
		int64_t left = lesser((n - 1) * l->stride + l->taps, l->in - o * l->stride);
		for (int64_t p = 0; p < l->stride; p++)
			for (int64_t k = p, at = p * l->room; k < left; k += l->stride)
				lines[at++] = x[k];
		for (int64_t m = 0; m < l->maps; m++) {
			float *y = j->y + (image * l->maps + m) * l->out + o;
			for (int64_t k = 0; k < n; k++)
				y[k] = j->bias ? j->bias[m] : -0.0F;
			for (int64_t p = 0; p < lesser(l->stride, l->taps); p++) {
				int64_t count = 0;
				for (int64_t k = p; k < l->taps; k += l->stride)
					taps[count++] = j->weight[m * l->taps + k];
				simd()->correlate(lines + p * l->room, taps, count, y, n);
			}
			act_f32(l->act, l->alpha, l->beta, y, n);
		}
	}
}

int line_run(const struct call *c)
{
	const struct line *l = c->step->state;
	struct line_run j = {.l = l,
			     .x = c->in[0]->data,
			     .weight = c->in[1]->data,
			     .bias = l->has_bias ? c->in[2]->data : NULL,
			     .y = c->out[0]->data,
			     .scratch = c->workspace};

	pool_for(l->images * l->parts, 1, run_parts, &j);
	return 0;
}
