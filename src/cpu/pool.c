/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/pool.h"

#include "base/cancel.h"
#include "base/pool.h"
#include "cpu/onednn/onednn.h"
#include "cpu/math/level.h"
#include "cpu/math/move.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "cpu/math/window.h"

#include <math.h>
#include <string.h>

/*
 * Returns the number of input elements in the window of output o along axis d; with `pads`, padding
 * elements count too.
 */
static int64_t window_count(const struct window *w, int d, int64_t o, bool pads)
{
	int64_t at = o * w->stride[d] - w->begin[d], step = w->dilation[d];
	int64_t low = pads ? -w->begin[d] : 0, high = w->in[d] + (pads ? w->end[d] : 0);
	int64_t first = at >= low ? 0 : (low - at + step - 1) / step;
	int64_t end = high <= at ? 0 : (high - at + step - 1) / step;

	if (end > w->kernel[d])
		end = w->kernel[d];
	return end > first ? end - first : 0;
}

/*
 * Returns w without the kernel elements at both ends of each axis that read padding for all outputs, so that a kernel
 * which is much larger than the input costs no more than one as large as the input.
 */
static struct window window_without_padding(const struct window *w)
{
	struct window cut = *w;

	for (int d = 0; d < w->n; d++) {
		int64_t step = w->dilation[d];
		/* where the first kernel element lies for the last output, and how far the input reaches beyond it */
		int64_t last = (w->out[d] - 1) * w->stride[d] - w->begin[d];
		int64_t first = last >= 0 ? 0 : (-last + step - 1) / step;
		int64_t end =
			w->in[d] + w->begin[d] <= 0 ? 0 : (w->in[d] + w->begin[d] - 1) / step + 1;
		if (w->out[d] < 1 || first >= end || first >= w->kernel[d])
			continue;
		cut.begin[d] -= first * step;
		cut.kernel[d] = (end < w->kernel[d] ? end : w->kernel[d]) - first;
	}
	return cut;
}

/* Converts a row-major index in a plane to a column-major one, in which the first axis runs fastest. */
static int64_t transposed_index(const struct window *w, int64_t at)
{
	int64_t o[MAX_RANK], r = 0;

	window_split(at, w->in, w->n, o);
	for (int d = w->n - 1; d >= 0; d--)
		r = r * w->in[d] + o[d];
	return r;
}

static float sum_f32(const float *x, int64_t n)
{
	return simd()->sum(x, n);
}

static void add_every_f32(const float *x, int64_t step, float *y, int64_t n)
{
	simd()->add_every(x, step, y, n);
}

static void add_every_f64(const double *x, int64_t step, double *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] += x[i * step];
}

static float max_f32(const float *x, int64_t n)
{
	return simd()->max(x, n);
}

static double max_f64(const double *x, int64_t n)
{
	double m = -(double)INFINITY;

	for (int64_t i = 0; i < n; i++)
		m = x[i] > m || isnan(x[i]) ? x[i] : m;
	return m;
}

static double sum_f64(const double *x, int64_t n)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += x[i];
	return sum;
}

#define FLOATING 1
#define LEAST	 (-INFINITY)
#define TEMPLATE "cpu/pool.inc"
#include "cpu/math/reals.inc"
#undef LEAST
#undef FLOATING

#define FLOATING 0
#define LEAST	 INT8_MIN
#define REAL	 int8_t
#define FN(x)	 x##_i8
#include "cpu/pool.inc"
#undef REAL
#undef FN
#undef LEAST

#define LEAST 0
#define REAL  uint8_t
#define FN(x) x##_u8
#include "cpu/pool.inc"
#undef REAL
#undef FN
#undef LEAST
#undef FLOATING

static int pool_run(const struct call *c, enum pool_variant kind)
{
	const struct pool *p = call_params(c);
	struct window w;
	const char *bad =
		window_set(&w, &p->window, &c->in[0]->shape, NULL, p->ceil_mode != 0, c->diag);
	enum dtype t = tensor_dtype(c->in[0]);

	if (bad)
		return call_fail(c, E_OP_ATTRIBUTE, bad, NULL);
	if (t == DT_F64)
		return run_pool_f64(c, kind, p, &w);
	if (t == DT_I8)
		return run_pool_i8(c, kind, p, &w);
	if (t == DT_U8)
		return run_pool_u8(c, kind, p, &w);
	return run_pool_f32(c, kind, p, &w);
}

static int max_run(const struct call *c)
{
	return pool_run(c, POOL_MAX);
}

static int average_run(const struct call *c)
{
	return pool_run(c, POOL_AVERAGE);
}

static int lp_run(const struct call *c)
{
	return pool_run(c, POOL_LP);
}

static int global_run(const struct call *c, enum pool_variant kind, double p)
{
	if (tensor_dtype(c->in[0]) == DT_F64)
		return run_global_f64(c, kind, p);
	return run_global_f32(c, kind, p);
}

static int global_max_run(const struct call *c)
{
	return global_run(c, POOL_MAX, 0);
}

static int global_average_run(const struct call *c)
{
	return global_run(c, POOL_AVERAGE, 0);
}

static int global_lp_run(const struct call *c)
{
	const struct global_lp *p = call_params(c);

	return global_run(c, POOL_LP, p->old_p > 0 ? (double)p->old_p : (double)p->p);
}

static int max_roi_run(const struct call *c)
{
	return tensor_dtype(c->in[0]) == DT_F64 ? run_max_roi_f64(c) : run_max_roi_f32(c);
}

static int max_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct shape *x = &site_in(site, 0)->shape;
	size_t lines;

	if (!size_mul((size_t)x->dim[x->rank - 1], (size_t)pool_threads() * sizeof(double), &lines))
		return FAIL(d, E_SIZE, .node = site->node->origin->name, .op = "MaxPool");
	step->workspace = wide_workspace(site) + scratch_size(lines);
	return 0;
}

static int roi_align_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct shape *x = &site_in(site, 0)->shape;

	if (x->dim[2] > 0 && x->dim[3] > INT32_MAX / x->dim[2])
		return FAIL(d, E_SIZE, .node = site->node->origin->name, .op = "RoiAlign");
	step->workspace =
		wide_workspace(site) +
		scratch_size((size_t)pool_threads() * ALIGN_TAPS_f64 * sizeof(struct tap_f64));
	return 0;
}

static int roi_align_run(const struct call *c)
{
	return tensor_dtype(c->in[0]) == DT_F64 ? run_align_f64(c) : run_align_f32(c);
}

/* ---- MaxUnpool -------------------------------------------------------------------------------- */

static int64_t unpool_offset(const struct shape *space, const struct shape *y, int64_t k)
{
	int64_t at[MAX_RANK], o = 0;

	window_split(k, space->dim, space->rank, at);
	for (int d = 0; d < y->rank; d++)
		o = o * y->dim[d] + at[d];
	return o;
}

/*
 * Scatters n elements of four bytes: to[index[i]] = from[i]. Stops at the first index that is
 * negative or not below count, and returns the number of elements written.
 */
static int64_t unpool_4_byte_elements(int64_t n, int64_t count, const int64_t *restrict index,
				      const uint32_t *restrict from, uint32_t *restrict to)
{
	for (int64_t i = 0; i < n; i++) {
		if ((uint64_t)index[i] >= (uint64_t)count)
			return i;
		to[index[i]] = from[i];
	}
	return n;
}

/*
 * The indices refer to a tensor whose shape follows from kernel, strides and pads. If the attribute
 * output_shape asks for a larger output, this tensor is the corner of the output that begins at
 * index 0. If output_shape is smaller in any dimension, the indices refer to the output itself.
 */
static int unpool_run(const struct call *c)
{
	const struct max_unpool *p = call_params(c);
	const struct shape *x = &c->in[0]->shape, *y = &c->out[0]->shape;
	const int64_t *index = c->in[1]->data;
	int64_t n = tensor_count(c->in[0]), count, done = 0;
	size_t size = dtype_bits(tensor_dtype(c->in[0])) / 8;
	const char *from = c->in[0]->data;
	char *to = c->out[0]->data;
	struct shape space;
	const char *bad = max_unpool_shape(p, x, &space, c->diag);

	if (bad)
		return call_fail(c, E_OP_ATTRIBUTE, bad, NULL);
	for (int d = 0; d < y->rank; d++)
		if (space.dim[d] > y->dim[d])
			space = *y;
	count = shape_count(&space);
	bool whole = shape_equal(&space, y);
	memset(to, 0, c->out[0]->bytes);
	if (whole && size == 4)
		done = unpool_4_byte_elements(n, count, index, c->in[0]->data, c->out[0]->data);
	else
		for (; done < n && index[done] >= 0 && index[done] < count; done++) {
			int64_t o = whole ? index[done] : unpool_offset(&space, y, index[done]);
			memcpy(to + (size_t)o * size, from + (size_t)done * size, size);
		}
	if (done < n)
		return call_fail(c, E_VALUE, "indices within the unpooled tensor",
				 fmt(c->diag, "%lld", (long long)index[done]));
	return 0;
}

/* ---- MaxPool and GlobalMaxPool of channels that lie side by side ------------------------------------------------------- */

/*
 * oneDNN's max pooling drops NaN, and gives the lowest finite number where a window holds only -infinity. In layouts whose
 * innermost elements are channels, our own loop over them is as fast.
 */
struct channels {
	struct window w;
	int64_t inner, kernel, inputs, outputs, planes; /* inner channels make a plane */
	enum layout layout;
	enum dtype type;
	const char *x;
	char *y;
};

static bool is_global_max(const struct site *s)
{
	return s->node->op->variant == POOL_GLOBAL_MAX;
}

static bool channels_accept(const struct site *s, struct why *w)
{
	const struct shape *x = &site_in(s, 0)->shape;

	if (site_in(s, 0)->layout == LAYOUT_ROW)
		return refuse(w, "channels that lie apart");
	for (int i = 0; i < x->rank; i++)
		if (x->dim[i] == 0)
			return refuse(w, "input 0 is empty");
	return !site_out(s, 1) || refuse(w, "indices are wanted");
}

static int channels_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	const struct pool *p = site_params(s);
	struct channels *c = arena_new(s->plan_arena, struct channels);
	enum layout *want = arena_new_n(s->plan_arena, enum layout, 1);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	const char *wrong = NULL;

	c->layout = site_in(s, 0)->layout;
	if (is_global_max(s))
		window_whole(&c->w, x);
	else
		wrong = window_set(&c->w, &p->window, x, NULL, p->ceil_mode != 0, d);
	if (wrong)
		return FAIL(d, E_SHAPE, .expected = wrong);
	c->inner = c->layout == LAYOUT_CHANNELS_LAST ? x->dim[1]
		   : c->layout == LAYOUT_BLOCK8	     ? 8
						     : 16;
	c->planes = x->dim[0] * ((x->dim[1] + c->inner - 1) / c->inner);
	c->kernel = window_size(&c->w);
	c->inputs = window_inputs(&c->w);
	c->outputs = window_outputs(&c->w);
	want[0] = c->layout;
	/* a single output of whole blocks of channels lies as in a row-major tensor */
	give[0] = shape_span(y, 2, y->rank) == 1 && x->dim[1] % c->inner == 0 ? LAYOUT_ROW
									      : c->layout;
	step->want = want;
	step->give = give;
	step->state = c;
	return 0;
}

/*
 * Takes the maximum over one row of the window, for one row of outputs. With a stride of one, what an element of the window reads
 * for neighbouring outputs lies side by side, and is one run however few the channels are.
 */
static void max_of_row(const struct channels *c, const char *x, char *y, size_t plane)
{
	simd_bin *max = simd()->bin[VB_MAX][c->type];
	int d = c->w.n - 1;
	int64_t stride = c->w.stride[d], from, count;

	for (int64_t tap = 0; tap < c->w.kernel[d]; tap++) {
		window_run(&c->w, d, tap, &from, &count);
		if (!count)
			continue;
		const char *a =
			x + (size_t)(from * stride - c->w.begin[d] + tap * c->w.dilation[d]) * plane;
		char *b = y + (size_t)from * plane;
		if (stride == 1) {
			max(a, b, b, count * c->inner);
			continue;
		}
		for (int64_t i = 0; i < count; i++, a += (size_t)stride * plane, b += plane)
			max(a, b, b, c->inner);
	}
}

static void max_of_channels(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct channels *c = arg;
	int d = c->w.n - 1;
	int64_t o[MAX_RANK], rows = c->outputs / c->w.out[d];
	size_t size = dtype_bits(c->type) / 8, plane = (size_t)c->inner * size;
	char lowest[8];

	(void)thread;
	if (dtype_class(c->type) == DT_FLOAT)
		elem_set_f64(c->type, lowest, 0, -(double)INFINITY);
	else
		elem_set_i64(c->type, lowest, 0, c->type == DT_I8 ? INT8_MIN : 0);
	window_split(begin % rows, c->w.out, d, o);
	for (int64_t i = begin; i < end; i++, window_next(o, c->w.out, d)) {
		const char *x = c->x + (size_t)(i / rows * c->inputs) * plane;
		char *y = c->y + (size_t)(i * c->w.out[d]) * plane;
		int64_t tap[MAX_RANK] = {0}, at;
		fill_run(y, lowest, c->w.out[d] * c->inner, size);
		for (int64_t k = 0; k < c->kernel;
		     k += c->w.kernel[d], window_next(tap, c->w.kernel, d))
			if (window_at(&c->w, d, o, tap, &at))
				max_of_row(c, x + (size_t)(at * c->w.in[d]) * plane, y, plane);
	}
}

static int channels_run(const struct call *call)
{
	struct channels c = *(const struct channels *)call->step->state;

	c.x = call->in[0]->data;
	c.y = call->out[0]->data;
	c.type = tensor_dtype(call->in[0]);
	int64_t last = c.w.out[c.w.n - 1];

	if (c.outputs > 0)
		pool_for(c.planes * c.outputs / last, 8192 / (c.kernel * c.inner * last) + 1,
			 max_of_channels, &c);
	return 0;
}

#define CHANNELS .accepts = channels_accept, .reshape = channels_reshape, .run = channels_run

/* ---- means of channels that lie side by side ---------------------------------------------------- */

/*
 * Positions are split among threads, not channels. The steps before and after this one split positions as well, so that each core reads
 * what it has just written. oneDNN's threads share out channels: of two, each reads half of its elements from the other core's cache.
 */
struct means {
	int64_t batch, positions, channels, parts;
	int64_t width; /* sums of a part: several for each channel where these are few, so that loops are long */
	size_t each; /* bytes of a part */
	enum dtype type;
};

static bool means_accept(const struct site *s, struct why *w)
{
	const struct shape *x = &site_in(s, 0)->shape;

	if (x->rank < 3 || site_in(s, 0)->layout != LAYOUT_CHANNELS_LAST)
		return refuse(w, "channels that lie apart");
	return shape_count(x) > 0 || refuse(w, "an empty picture");
}

static int means_reshape(struct site *s, struct step *step, struct diag *d)
{
	enum { LONG_LOOP = 256, PART_ELEMENTS = 4096 };
	const struct shape *x = &site_in(s, 0)->shape;
	struct means *m = arena_new(s->plan_arena, struct means);
	enum layout *want = arena_new_n(s->plan_arena, enum layout, 1);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, 1);

	*m = (struct means){.batch = x->dim[0],
			    .positions = shape_span(x, 2, x->rank),
			    .channels = x->dim[1],
			    .type = site_type(s, 0)};
	int64_t most = m->positions * m->channels / PART_ELEMENTS;
	m->parts = greater(lesser(pool_threads(), most), 1);
	m->width = m->channels * greater(LONG_LOOP / m->channels, 1);
	/* the sums and a run of elements in fp32 */
	m->each = 2 * scratch_size((size_t)m->width * sizeof(float));
	if (!size_mul((size_t)(m->batch * m->parts), m->each, &step->workspace))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = "GlobalAveragePool");
	want[0] = LAYOUT_CHANNELS_LAST;
	give[0] = LAYOUT_ROW;
	step->want = want;
	step->give = give;
	step->state = m;
	return 0;
}

struct means_run {
	const struct means *m;
	const struct tensor *x;
	char *sums;
};

static float *sums_of(const struct means_run *j, int64_t part)
{
	return (float *)(void *)(j->sums + (size_t)part * j->m->each);
}

static void sum_parts(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct means_run *j = arg;
	const struct means *m = j->m;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		int64_t picture = i / m->parts * m->positions, part = i % m->parts;
		int64_t at = (picture + m->positions * part / m->parts) * m->channels;
		int64_t stop = (picture + m->positions * (part + 1) / m->parts) * m->channels;
		float *sum = sums_of(j, i), *run = sums_of(j, i) + m->each / 2 / sizeof(float);
		memset(sum, 0, (size_t)m->width * sizeof(float));
		for (int64_t n; at < stop; at += n) {
			const float *x = (const float *)j->x->data + at;
			n = lesser(m->width, stop - at);
			if (m->type != DT_F32) {
				simd_to_f32(m->type, j->x->data, at, n, run);
				x = run;
			}
			simd()->bin[VB_ADD][DT_F32](sum, x, sum, n);
		}
	}
}

static int means_run(const struct call *c)
{
	const struct means *m = c->step->state;
	struct means_run j = {m, c->in[0], c->workspace};

	pool_shares(m->batch * m->parts, sum_parts, &j);
	for (int64_t b = 0; b < m->batch; b++) {
		float *sum = sums_of(&j, b * m->parts);
		for (int64_t i = 1; i < m->parts; i++)
			simd()->bin[VB_ADD][DT_F32](sum, sums_of(&j, b * m->parts + i), sum, m->width);
		for (int64_t i = m->channels; i < m->width; i += m->channels)
			simd()->bin[VB_ADD][DT_F32](sum, sum + i, sum, m->channels);
		for (int64_t i = 0; i < m->channels; i++)
			sum[i] /= (float)m->positions;
		simd_from_f32(m->type, sum, m->channels, c->out[0]->data, b * m->channels);
	}
	return 0;
}

/* ---- averages of small planes ------------------------------------------------------------------- */

/*
 * Each plane is copied into a buffer with zero pads, so that all windows have the same taps. Without it each tap would need a loop of
 * its own over the positions for which it lies inside.
 */
struct averages {
	struct simd_means means;
	int64_t planes, inputs;
	size_t padded_bytes; /* of a plane with pads */
};

/* Sets what depends on sizes alone, and returns the elements of a plane with pads, or 0 if there are too many. */
static int64_t averages_set(struct simd_means *j, const struct window *w)
{
	enum { MOST_ELEMENTS = 1 << 14 };
	int64_t size[2];

	for (int d = 0; d < 2; d++) {
		int64_t covered = (w->kernel[d] - 1) * w->dilation[d] + 1, last, end;
		if (w->begin[d] < 0 || w->begin[d] > MOST_ELEMENTS || w->in[d] > MOST_ELEMENTS ||
		    w->out[d] < 1 || w->stride[d] > MOST_ELEMENTS || w->kernel[d] > MOST_ELEMENTS ||
		    covered > MOST_ELEMENTS ||
		    __builtin_mul_overflow(w->out[d] - 1, w->stride[d], &last) || last > MOST_ELEMENTS)
			return 0;
		end = last + covered;
		size[d] = greater(end, w->begin[d] + w->in[d]);
	}
	*j = (struct simd_means){.width = w->in[1],
				 .height = w->in[0],
				 .rows = w->out[0],
				 .n = w->out[1],
				 .taps = w->kernel[0] * w->kernel[1],
				 .step = w->stride[1],
				 .down = w->stride[0] * size[1],
				 .first = w->begin[0] * size[1] + w->begin[1],
				 .pitch = size[1]};
	return size[0] * size[1] <= MOST_ELEMENTS ? size[0] * size[1] : 0;
}

static bool averages_accept(const struct site *s, struct why *w)
{
	const struct pool *p = site_params(s);
	const struct shape *x = &site_in(s, 0)->shape;
	struct simd_means means;
	struct window win;

	if (site_in(s, 0)->layout != LAYOUT_ROW)
		return refuse(w, "channels that lie apart");
	if (simd_level() == 4)
		return refuse(w, "AVX-512, where oneDNN is faster");
	if (x->rank != 4 || shape_count(x) < 1 ||
	    window_set(&win, &p->window, x, NULL, p->ceil_mode != 0, NULL))
		return refuse(w, "pictures with two axes");
	return averages_set(&means, &win) || refuse(w, "a large plane");
}

static int averages_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct pool *p = site_params(s);
	const struct shape *x = &site_in(s, 0)->shape;
	struct averages *a = arena_new(s->plan_arena, struct averages);
	struct window w;
	const char *bad = window_set(&w, &p->window, x, NULL, p->ceil_mode != 0, d);

	if (bad)
		return site_fail(s, d, E_OP_ATTRIBUTE, bad, NULL);
	int64_t size = averages_set(&a->means, &w), outputs = w.out[0] * w.out[1];
	int32_t *tap = arena_new_n(s->plan_arena, int32_t, (size_t)a->means.taps);
	float *by = arena_new_n(s->plan_arena, float, (size_t)(outputs + SIMD_MOST));
	for (int64_t t = 0; t < a->means.taps; t++)
		tap[t] = (int32_t)(t / w.kernel[1] * w.dilation[0] * a->means.pitch +
				   t % w.kernel[1] * w.dilation[1]);
	for (int64_t i = 0; i < outputs + SIMD_MOST; i++) {
		int64_t row = window_count(&w, 0, i / w.out[1], p->count_include_pad != 0);
		int64_t column = window_count(&w, 1, i % w.out[1], p->count_include_pad != 0);
		/* 0 for windows that lie in pads alone, whose sum is 0 */
		by[i] = i < outputs && row > 0 && column > 0 ? (float)(row * column) : 1;
	}
	a->means.tap = tap;
	a->means.by = by;
	a->planes = x->dim[0] * x->dim[1];
	a->inputs = w.in[0] * w.in[1];
	a->padded_bytes =
		scratch_size((size_t)(size + SIMD_MOST * (w.stride[1] + 1)) * sizeof(float));
	if (!size_mul(a->padded_bytes, (size_t)pool_threads(), &step->workspace))
		return site_fail(s, d, E_SIZE, NULL, NULL);
	step->state = a;
	return 0;
}

struct averages_run {
	const struct averages *a;
	const float *x;
	float *y;
	char *room;
};

static void averages_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct averages_run *j = arg;
	const struct averages *a = j->a;
	float *room = (float *)(void *)(j->room + (size_t)thread * a->padded_bytes);

	memset(room, 0, a->padded_bytes);
	for (int64_t i = begin; i < end; i++)
		simd()->window_means(&a->means, j->x + i * a->inputs, room,
				     j->y + i * a->means.rows * a->means.n);
}

static int averages_run(const struct call *c)
{
	const struct averages *a = c->step->state;
	struct averages_run j = {a, c->in[0]->data, c->out[0]->data, c->workspace};
	int64_t work = a->means.taps * a->means.rows * a->means.n + a->inputs;

	pool_for(a->planes, 1 + (1 << 16) / work, averages_piece, &j);
	return 0;
}

/* These kernels read each plane as one contiguous run, so they need a row-major layout. */
static bool row_major(const struct site *s, struct why *w)
{
	if (site_in(s, 0)->layout != LAYOUT_ROW)
		return refuse(w, "channels that lie apart");
	return true;
}

#define ROW(name, types, run)                                                                      \
	{                                                                                          \
		name, types, K_REFERENCE, NULL, NULL, wide_reshape, run, NULL, NULL                \
	}
#define FAST (T_F32 | T_F16 | T_BF16)

const struct kernel cpu_pool[] = {
	{"MaxPool", T_F32 | T_BF16 | T_U8 | T_I8, CHANNELS},
	{"AveragePool", T_F32, .accepts = averages_accept, .reshape = averages_reshape,
	 .run = averages_run},
	{"AveragePool", FAST, ONEDNN(pool)},
	{"GlobalMaxPool", T_F32, 0, row_major, NULL, wide_reshape, global_max_run, NULL, NULL},
	{"GlobalAveragePool", T_F32, 0, row_major, NULL, wide_reshape, global_average_run, NULL, NULL},
	{"GlobalMaxPool", T_F32 | T_BF16, CHANNELS},
	{"GlobalAveragePool", FAST, .accepts = means_accept, .reshape = means_reshape,
	 .run = means_run},
	{"GlobalAveragePool", FAST, ONEDNN(pool)},
	{"MaxPool", T_FLOATS_BF | T_I8 | T_U8, K_REFERENCE, NULL, NULL, max_reshape, max_run, NULL,
	 NULL},
	ROW("AveragePool", T_FLOATS_BF, average_run),
	ROW("LpPool", T_FLOATS_BF, lp_run),
	ROW("GlobalMaxPool", T_FLOATS_BF, global_max_run),
	ROW("GlobalAveragePool", T_FLOATS_BF, global_average_run),
	ROW("GlobalLpPool", T_FLOATS_BF, global_lp_run),
	ROW("MaxUnpool", T_FLOATS_BF, unpool_run),
	ROW("MaxRoiPool", T_FLOATS_BF, max_roi_run),
	{"RoiAlign", T_FLOATS_BF, K_REFERENCE, NULL, NULL, roi_align_reshape, roi_align_run, NULL,
	 NULL},
	{0}};
