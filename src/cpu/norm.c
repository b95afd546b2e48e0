/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizations. Float types narrower than fp32 compute in fp32; f64 has simple loops in double. */
#include "cpu/norm.h"

#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/norm.h"

#include <math.h>
#include <string.h>

int norm_workspace(struct site *s, struct step *step, struct diag *d, int64_t shared, int64_t floats)
{
	size_t bytes, more;

	if (shared < 0 || floats < 0 ||
	    !size_mul((size_t)floats * sizeof(float), (size_t)pool_threads(), &bytes) ||
	    !size_mul((size_t)shared, sizeof(float), &more) || !size_add(bytes, more, &bytes))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = s->node->origin->op);
	step->workspace = bytes;
	return 0;
}

/* ---- BatchNormalization ---------------------------------------------------------------------- */

struct channel_job {
	enum dtype t;
	const void *x;
	void *y;
	int64_t channels, inner;
	const float *mean, *scale, *shift; /* one per channel: y = (x - mean) * scale + shift */
	const double *dmean, *dscale, *dshift;
};

static void normalize_channel(const struct channel_job *j, int64_t off, int64_t n, int64_t c)
{
	const struct simd *s = simd();
	float buf[BLOCK];

	if (j->t == DT_F32) {
		s->scale_shift((const float *)j->x + off, (float *)j->y + off, n, j->mean[c],
			       j->scale[c], j->shift[c]);
		return;
	}
	for (int64_t m; n > 0; off += m, n -= m) {
		m = n < BLOCK ? n : BLOCK;
		simd_to_f32(j->t, j->x, off, m, buf);
		s->scale_shift(buf, buf, m, j->mean[c], j->scale[c], j->shift[c]);
		simd_from_f32(j->t, buf, m, j->y, off);
	}
}

/* Normalizes elements begin..end when inner is 1: consecutive elements belong to consecutive channels. */
static void normalize_channels_last(const struct channel_job *j, int64_t begin, int64_t end)
{
	float a[BLOCK];

	while (begin < end) {
		int64_t c = begin % j->channels, n = j->channels - c;
		n = n < end - begin ? n : end - begin;
		n = n < BLOCK ? n : BLOCK;
		const float *x = j->t == DT_F32 ? (const float *)j->x + begin : a;
		float *y = j->t == DT_F32 ? (float *)j->y + begin : a;
		if (x == a)
			simd_to_f32(j->t, j->x, begin, n, a);
		LOOP for (int64_t i = 0; i < n; i++) y[i] =
			(x[i] - j->mean[c + i]) * j->scale[c + i] + j->shift[c + i];
		if (y == a)
			simd_from_f32(j->t, a, n, j->y, begin);
		begin += n;
	}
}

static void normalize_elements(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct channel_job *j = arg;

	(void)thread;
	if (j->t == DT_F64) {
		for (int64_t i = begin; i < end; i++) {
			int64_t c = i / j->inner % j->channels;
			((double *)j->y)[i] =
				(((const double *)j->x)[i] - j->dmean[c]) * j->dscale[c] +
				j->dshift[c];
		}
		return;
	}
	if (j->inner == 1) {
		normalize_channels_last(j, begin, end);
		return;
	}
	while (begin < end) {
		int64_t row = begin / j->inner, n = (row + 1) * j->inner - begin;
		n = n < end - begin ? n : end - begin;
		normalize_channel(j, begin, n, row % j->channels);
		begin += n;
	}
}

/* Arguments for computing the mean and the variance of every channel of x in double. */
struct stats_job {
	enum dtype t;
	const void *x;
	int64_t batch, channels, inner;
	double *mean, *var;
};

static double sum_run(enum dtype t, const void *x, int64_t off, int64_t n, double center, bool square)
{
	const struct simd *s = simd();
	float buf[BLOCK];
	double sum = 0;

	if (t == DT_F64) {
		const double *v = (const double *)x + off;
		for (int64_t i = 0; i < n; i++)
			sum += square ? (v[i] - center) * (v[i] - center) : v[i];
		return sum;
	}
	int64_t most = t == DT_F32 ? 1 << 14 : BLOCK;
	for (int64_t m; n > 0; off += m, n -= m) {
		const float *f = t == DT_F32 ? (const float *)x + off : buf;
		m = n < most ? n : most;
		if (f == buf)
			simd_to_f32(t, x, off, m, buf);
		sum += (double)(square ? s->sum_deviation(f, m, (float)center) : s->sum(f, m));
	}
	return sum;
}

static void compute_channel_stats(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct stats_job *j = arg;
	double n = (double)j->batch * (double)j->inner;

	(void)thread;
	for (int64_t c = begin; c < end; c++) {
		double sum = 0, square = 0;
		for (int64_t b = 0; b < j->batch; b++)
			sum += sum_run(j->t, j->x, (b * j->channels + c) * j->inner, j->inner, 0,
				       false);
		j->mean[c] = sum / n;
		for (int64_t b = 0; b < j->batch; b++)
			square += sum_run(j->t, j->x, (b * j->channels + c) * j->inner, j->inner,
					  j->mean[c], true);
		j->var[c] = square / n;
	}
}

static int64_t channels_of(const struct shape *s)
{
	return s->rank == 1 ? 1 : s->rank > 1 ? s->dim[1] : 1;
}

static int batch_norm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct vinfo *x = site_in(s, 0);
	int64_t c = channels_of(&x->shape);

	if (!((const struct batch_norm *)s->node->params)->training_mode)
		allow_inplace(step, 0, 0);
	/*
	 * Five doubles and three floats per channel need the room of 13 floats; 16 leaves some
	 * spare.
	 */
	return norm_workspace(s, step, d, 16 * c, 0);
}

static void update_running_stats(const struct call *c, uint32_t out, uint32_t in, const double *now,
				 int64_t n)
{
	double momentum = (double)((const struct batch_norm *)call_params(c))->momentum;
	struct tensor *y = optional_out(c, out);

	for (int64_t i = 0; y && i < n; i++)
		elem_set_f64(tensor_dtype(y), y->data, i,
			     norm_scalar(c->in[in], i) * momentum + now[i] * (1 - momentum));
}

static int batch_norm_run(const struct call *c)
{
	const struct batch_norm *p = call_params(c);
	const struct tensor *x = c->in[0];
	int64_t n = channels_of(&x->shape), total = tensor_count(x);
	double *mean = c->workspace, *scale = mean + n, *shift = scale + n, *m = shift + n,
	       *v = m + n;
	float *f = (float *)(v + n);
	struct channel_job j = {tensor_dtype(x), x->data, c->out[0]->data, n,	 1, f, f + n,
				f + 2 * n,	 mean,	  scale,	   shift};

	if (x->shape.rank > 2)
		j.inner = shape_span(&x->shape, 2, x->shape.rank);
	if (total == 0)
		return 0;
	for (uint32_t i = 1; i < 5; i++)
		if (tensor_count(c->in[i]) != n)
			return call_fail(c, E_SHAPE,
					 fmt(c->diag, "%" PRId64 " elements a channel vector", n),
					 fmt(c->diag, "%" PRId64, tensor_count(c->in[i])));
	if (p->training_mode) {
		struct stats_job s = {j.t, x->data, total / (n * j.inner), n, j.inner, m, v};
		pool_for(n, rows_grain(GRAIN, total / n), compute_channel_stats, &s);
	}
	for (int64_t i = 0; i < n; i++) {
		if (!p->training_mode) {
			m[i] = norm_scalar(c->in[3], i);
			v[i] = norm_scalar(c->in[4], i);
		}
		mean[i] = m[i];
		scale[i] = norm_scalar(c->in[1], i) / sqrt(v[i] + (double)p->epsilon);
		shift[i] = norm_scalar(c->in[2], i);
		f[i] = (float)mean[i];
		f[n + i] = (float)scale[i];
		f[2 * n + i] = (float)shift[i];
	}
	pool_for(total, GRAIN, normalize_elements, &j);
	if (p->training_mode) {
		update_running_stats(c, 1, 3, m, n);
		update_running_stats(c, 2, 4, v, n);
	}
	return 0;
}

/* ---- InstanceNormalization, GroupNormalization ----------------------------------------------- */

/*
 * Arguments of a normalization over groups. A group is `per` channels of `inner` elements, dense in
 * memory.
 */
struct group_job {
	enum dtype t;
	const void *x;
	void *y;
	int64_t groups, per, inner;
	const struct tensor *scale, *bias;
	bool per_group; /* scale and bias have one element per group, not per channel */
	bool silu;
	double epsilon;
};

static void normalize_group_channel(const struct group_job *j, int64_t off, double mean, double a,
				    double b)
{
	struct channel_job c = {.t = j->t, .x = j->x, .y = j->y, .channels = 1, .inner = j->inner};
	float f[3] = {(float)mean, (float)a, (float)b}, one[2] = {1, 0};

	if (j->t == DT_F64) {
		for (int64_t i = off; i < off + j->inner; i++) {
			double v = (((const double *)j->x)[i] - mean) * a + b;
			((double *)j->y)[i] = j->silu ? v / (1 + exp(-v)) : v;
		}
		return;
	}
	c.mean = f;
	c.scale = f + 1;
	c.shift = f + 2;
	normalize_channel(&c, off, j->inner, 0);
	for (int64_t i = 0, n; j->silu && i < j->inner; i += n) {
		float buf[BLOCK];
		n = j->inner - i < BLOCK ? j->inner - i : BLOCK;
		simd_to_f32(j->t, j->y, off + i, n, buf);
		simd()->map[VF_SWISH](buf, buf, n, one);
		simd_from_f32(j->t, buf, n, j->y, off + i);
	}
}

static void normalize_groups(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct group_job *j = arg;
	int64_t n = j->per * j->inner;

	(void)thread;
	for (int64_t g = begin; g < end; g++) {
		double mean = sum_run(j->t, j->x, g * n, n, 0, false) / (double)n;
		double var = sum_run(j->t, j->x, g * n, n, mean, true) / (double)n;
		double inverse = 1 / sqrt(var + j->epsilon);
		for (int64_t k = 0; k < j->per; k++) {
			int64_t c = j->per_group ? g % j->groups : g % j->groups * j->per + k;
			normalize_group_channel(j, g * n + k * j->inner, mean,
						inverse * norm_scalar(j->scale, c),
						norm_scalar(j->bias, c));
		}
	}
}

static int run_groups(const struct call *c, struct group_job *j, int64_t channels)
{
	const struct tensor *x = c->in[0];

	j->t = tensor_dtype(x);
	j->x = x->data;
	j->y = c->out[0]->data;
	j->scale = c->in[1];
	j->bias = c->in[2];
	if (tensor_count(x) == 0)
		return 0;
	if (channels % j->groups)
		return call_fail(c, E_OP_ATTRIBUTE, "groups that divide the channels", "others");
	j->per = channels / j->groups;
	j->per_group = tensor_count(j->scale) != channels;
	int64_t want = j->per_group ? j->groups : channels;
	if (tensor_count(j->scale) != want || tensor_count(j->bias) != want)
		return call_fail(c, E_SHAPE, fmt(c->diag, "%" PRId64 " scales and biases", want),
				 "others");
	int64_t n = j->per * j->inner;
	pool_for(tensor_count(x) / n, rows_grain(GRAIN / 2, n), normalize_groups, j);
	return 0;
}

static int64_t inner_of(const struct shape *s)
{
	return s->rank > 2 ? shape_span(s, 2, s->rank) : 1;
}

static int instance_norm_run(const struct call *c)
{
	const struct epsilon *p = call_params(c);
	const struct shape *s = &c->in[0]->shape;
	int64_t channels = channels_of(s);
	struct group_job j = {.groups = channels, .inner = inner_of(s), .epsilon = (double)p->epsilon};

	return run_groups(c, &j, channels);
}

static int group_norm_run(const struct call *c)
{
	const struct group_norm *p = call_params(c);
	const struct shape *s = &c->in[0]->shape;
	struct group_job j = {
		.groups = p->num_groups, .inner = inner_of(s), .epsilon = (double)p->epsilon};

	return run_groups(c, &j, channels_of(s));
}

/* Arguments of com.microsoft::GroupNorm with channels last; a task is one group of one image. */
struct nhwc_job {
	const struct call *c;
	int64_t pixels, channels, groups;
	bool silu;
	double epsilon;
};

static void normalize_nhwc_groups(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct nhwc_job *j = arg;
	const struct tensor *x = j->c->in[0];
	struct tensor *y = j->c->out[0];
	enum dtype t = tensor_dtype(x);
	int64_t per = j->channels / j->groups;
	double n = (double)(per * j->pixels);

	(void)thread;
	for (int64_t k = begin; k < end; k++) {
		int64_t c0 = k % j->groups * per, base = k / j->groups * j->pixels * j->channels + c0;
		double sum = 0, square = 0;
		for (int64_t i = 0; i < j->pixels; i++)
			sum += sum_run(t, x->data, base + i * j->channels, per, 0, false);
		for (int64_t i = 0; i < j->pixels; i++)
			square += sum_run(t, x->data, base + i * j->channels, per, sum / n, true);
		double mean = sum / n, inverse = 1 / sqrt(square / n + j->epsilon);
		for (int64_t i = 0; i < j->pixels * per; i++) {
			int64_t at_ = base + i / per * j->channels + i % per, c = c0 + i % per;
			double v = (elem_f64(t, x->data, at_) - mean) * inverse *
					   norm_scalar(j->c->in[1], c) +
				   norm_scalar(j->c->in[2], c);
			elem_set_f64(t, y->data, at_, j->silu ? v / (1 + exp(-v)) : v);
		}
	}
}

static int ms_group_norm_run(const struct call *c)
{
	const struct ms_group_norm *p = call_params(c);
	const struct shape *s = &c->in[0]->shape;

	if (!p->channels_last) {
		struct group_job j = {.groups = p->groups,
				      .inner = inner_of(s),
				      .epsilon = (double)p->epsilon,
				      .silu = p->activation != 0};
		return run_groups(c, &j, channels_of(s));
	}
	struct nhwc_job j = {c,
			     shape_span(s, 1, s->rank - 1),
			     s->dim[s->rank - 1],
			     p->groups,
			     p->activation != 0,
			     (double)p->epsilon};
	if (tensor_count(c->in[0]) == 0)
		return 0;
	if (p->groups < 1 || j.channels % p->groups || tensor_count(c->in[1]) != j.channels ||
	    tensor_count(c->in[2]) != j.channels)
		return call_fail(c, E_SHAPE,
				 "groups that divide the channels, gamma and beta as many", "others");
	pool_for(s->dim[0] * p->groups, 1, normalize_nhwc_groups, &j);
	return 0;
}

/* ---- LRN ------------------------------------------------------------------------------------- */

struct lrn_job {
	const struct lrn *p;
	const struct tensor *x;
	struct tensor *y;
	int64_t channels, inner;
};

/*
 * LRN of all channels of w pixels of one image: for each channel, sums the squares of the
 * neighbouring channels in its window. w is at most WIDTH.
 */
static void lrn_block(const struct lrn_job *j, int64_t image, int64_t first, int64_t w)
{
	enum { WIDTH = 128 };
	const struct simd *s = simd();
	enum dtype t = tensor_dtype(j->x);
	int64_t base = image * j->channels * j->inner + first;
	int64_t before = (j->p->size - 1) / 2, after = j->p->size - 1 - before;
	float sum[WIDTH], row[WIDTH], p[2] = {j->p->alpha / (float)j->p->size, j->p->bias};

	for (int64_t c = 0; c < j->channels; c++) {
		int64_t from = c > before ? c - before : 0;
		int64_t to = c + after < j->channels - 1 ? c + after : j->channels - 1;
		memset(sum, 0, sizeof(sum));
		for (int64_t k = from; k <= to; k++) {
			simd_to_f32(t, j->x->data, base + k * j->inner, w, row);
			s->map[VF_SQUARE](row, row, w, NULL);
			s->bin[VB_ADD][DT_F32](sum, row, sum, w);
		}
		s->map[VF_AFFINE](sum, sum, w, p);
		/* sum^-beta = exp(-beta * log(sum)) */
		s->map[VF_LOG](sum, sum, w, NULL);
		float minus[2] = {-j->p->beta, 0};
		s->map[VF_AFFINE](sum, sum, w, minus);
		s->map[VF_EXP](sum, sum, w, NULL);
		simd_to_f32(t, j->x->data, base + c * j->inner, w, row);
		s->bin[VB_MUL][DT_F32](row, sum, row, w);
		simd_from_f32(t, row, w, j->y->data, base + c * j->inner);
	}
}

static void lrn_f64(const struct lrn_job *j, int64_t image, int64_t first, int64_t w)
{
	const double *x = (const double *)j->x->data + image * j->channels * j->inner;
	double *y = (double *)j->y->data + image * j->channels * j->inner;
	int64_t before = (j->p->size - 1) / 2, after = j->p->size - 1 - before;

	for (int64_t c = 0; c < j->channels; c++) {
		for (int64_t i = first; i < first + w; i++) {
			double sum = 0;
			for (int64_t k = c - before; k <= c + after; k++)
				if (k >= 0 && k < j->channels)
					sum += x[k * j->inner + i] * x[k * j->inner + i];
			y[c * j->inner + i] =
				x[c * j->inner + i] /
				pow((double)j->p->bias + (double)j->p->alpha / (double)j->p->size * sum,
				    (double)j->p->beta);
		}
	}
}

static void run_lrn_blocks(void *arg, int64_t begin, int64_t end, int thread)
{
	enum { WIDTH = 128 };
	const struct lrn_job *j = arg;
	int64_t blocks = (j->inner + WIDTH - 1) / WIDTH;

	(void)thread;
	for (int64_t k = begin; k < end; k++) {
		int64_t first = k % blocks * WIDTH,
			w = j->inner - first < WIDTH ? j->inner - first : WIDTH;
		if (tensor_dtype(j->x) == DT_F64)
			lrn_f64(j, k / blocks, first, w);
		else
			lrn_block(j, k / blocks, first, w);
	}
}

static int lrn_run(const struct call *c)
{
	const struct tensor *x = c->in[0];
	struct lrn_job j = {call_params(c), x, c->out[0], channels_of(&x->shape), inner_of(&x->shape)};

	if (tensor_count(x) == 0)
		return 0;
	pool_for(x->shape.dim[0] * ((j.inner + 127) / 128),
		 rows_grain(GRAIN_HEAVY, 128 * j.channels), run_lrn_blocks, &j);
	return 0;
}

/* ---- LpNormalization ------------------------------------------------------------------------- */

struct lp_job {
	const struct tensor *x;
	struct tensor *y;
	struct axis_split s;
	bool one; /* the L1 norm, not L2 */
};

static void normalize_lp_row(const struct lp_job *j, int64_t o)
{
	const struct simd *s = simd();
	const float *x = (const float *)j->x->data + o * j->s.n;
	float norm = j->one ? s->sum_abs(x, j->s.n) : sqrtf(s->sum_square(x, j->s.n));

	s->scale_shift(x, (float *)j->y->data + o * j->s.n, j->s.n, 0, norm == 0 ? 0 : 1 / norm, 0);
}

static void normalize_lp(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct lp_job *j = arg;
	enum dtype t = tensor_dtype(j->x);

	(void)thread;
	for (int64_t o = begin; o < end; o++) {
		if (t == DT_F32 && j->s.inner == 1) {
			normalize_lp_row(j, o);
			continue;
		}
		for (int64_t i = 0; i < j->s.inner; i++) {
			int64_t base = o * j->s.n * j->s.inner + i;
			double norm = 0;
			for (int64_t k = 0; k < j->s.n; k++) {
				double v = elem_f64(t, j->x->data, base + k * j->s.inner);
				norm += j->one ? fabs(v) : v * v;
			}
			norm = j->one ? norm : sqrt(norm);
			for (int64_t k = 0; k < j->s.n; k++) {
				int64_t at_ = base + k * j->s.inner;
				double v = elem_f64(t, j->x->data, at_);
				elem_set_f64(t, j->y->data, at_, norm == 0 ? 0 : v / norm);
			}
		}
	}
}

static int lp_run(const struct call *c)
{
	const struct lp_norm *p = call_params(c);
	const struct tensor *x = c->in[0];
	struct lp_job j = {x, c->out[0], split_at(&x->shape, axis_of(p->axis, x->shape.rank)),
			   p->p == 1};

	if (tensor_count(x) > 0)
		pool_for(j.s.outer, rows_grain(GRAIN, j.s.n * j.s.inner), normalize_lp, &j);
	return 0;
}

/* ---- MeanVarianceNormalization --------------------------------------------------------------- */

struct mvn_job {
	const struct tensor *x;
	struct tensor *y;
	int nk, nr;
	int64_t kdim[MAX_RANK], kstep[MAX_RANK], rdim[MAX_RANK], rstep[MAX_RANK];
	/*
	 * `run` is the number of reduced elements that lie next to each other: the product of the
	 * trailing reduced dimensions, or 1. `runs` is the number of such runs per output.
	 */
	int64_t run, runs;
};

static int64_t offset_at(const int64_t *dim, const int64_t *step, int n, int64_t k)
{
	int64_t off = 0;

	for (int i = n - 1; i >= 0; i--) {
		off += k % dim[i] * step[i];
		k /= dim[i];
	}
	return off;
}

static void normalize_mvn(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct mvn_job *j = arg;
	enum dtype t = tensor_dtype(j->x);
	double n = (double)j->run * (double)j->runs;

	(void)thread;
	for (int64_t o = begin; o < end; o++) {
		int64_t base = offset_at(j->kdim, j->kstep, j->nk, o);
		double sum = 0, square = 0;
		for (int64_t k = 0; k < j->runs; k++)
			sum += sum_run(t, j->x->data, base + offset_at(j->rdim, j->rstep, j->nr, k),
				       j->run, 0, false);
		for (int64_t k = 0; k < j->runs; k++)
			square += sum_run(t, j->x->data,
					  base + offset_at(j->rdim, j->rstep, j->nr, k), j->run,
					  sum / n, true);
		double mean = sum / n, scale = 1 / (sqrt(square / n) + 1e-9);
		for (int64_t k = 0; k < j->runs; k++) {
			struct group_job g = {
				.t = t, .x = j->x->data, .y = j->y->data, .inner = j->run};
			normalize_group_channel(&g, base + offset_at(j->rdim, j->rstep, j->nr, k),
						mean, scale, 0);
		}
	}
}

static int mvn_run(const struct call *c)
{
	const struct mvn *p = call_params(c);
	const struct tensor *x = c->in[0];
	struct mvn_job j = {.x = x, .y = c->out[0], .run = 1, .runs = 1};
	int64_t step = 1, outputs = 1;
	uint32_t mask = 0;

	if (tensor_count(x) == 0)
		return 0;
	for (int64_t i = 0; i < p->axes.n; i++)
		mask |= 1u << axis_of(p->axes.v[i], x->shape.rank);
	for (int i = x->shape.rank - 1; i >= 0; i--) {
		int64_t d = x->shape.dim[i];
		if (mask & 1u << i && step == j.run) {
			j.run *= d;
		} else if (mask & 1u << i) {
			/* insert at the front: the outermost dimension comes first */
			memmove(j.rdim + 1, j.rdim, (size_t)j.nr * sizeof(j.rdim[0]));
			memmove(j.rstep + 1, j.rstep, (size_t)j.nr * sizeof(j.rstep[0]));
			j.rdim[0] = d;
			j.rstep[0] = step;
			j.nr++;
			j.runs *= d;
		} else {
			memmove(j.kdim + 1, j.kdim, (size_t)j.nk * sizeof(j.kdim[0]));
			memmove(j.kstep + 1, j.kstep, (size_t)j.nk * sizeof(j.kstep[0]));
			j.kdim[0] = d;
			j.kstep[0] = step;
			j.nk++;
			outputs *= d;
		}
		step *= d;
	}
	pool_for(outputs, rows_grain(GRAIN / 2, j.run * j.runs), normalize_mvn, &j);
	return 0;
}

/* ---- GatedRMSNorm ------------------------------------------------------------------------------ */

struct gated_job {
	const struct gated_rms *p;
	const float *x, *scale, *gate;
	float *y;
	int64_t n; /* elements of a row */
};

static void gated_rows(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct gated_job *j = arg;

	(void)thread;
	for (int64_t r = begin; r < end; r++) {
		const float *x = j->x + r * j->n, *gate = j->gate + r * j->n;
		float *y = j->y + r * j->n, sum = 0;
		for (int64_t i = 0; i < j->n; i++)
			sum += x[i] * x[i];
		float by = 1 / sqrtf(sum / (float)j->n + j->p->epsilon);
		for (int64_t i = 0; i < j->n; i++) {
			float a = 1 / (1 + expf(-gate[i]));
			y[i] = x[i] * by * j->scale[i] *
			       (j->p->activation == GATE_SIGMOID ? a : gate[i] * a);
		}
	}
}

static int gated_rms_run(const struct call *c)
{
	struct scratch s = scratch_of(c);
	struct gated_job j = {.p = call_params(c),
			      .x = wide_in(&s, c->in[0]),
			      .scale = wide_in(&s, c->in[1]),
			      .gate = wide_in(&s, c->in[2]),
			      .y = wide_out(&s, c->out[0]),
			      .n = c->in[1]->shape.dim[0]};

	pool_for(tensor_count(c->in[0]) / j.n, rows_grain(GRAIN_HEAVY, j.n), gated_rows, &j);
	wide_done(c->out[0], j.y);
	return 0;
}

const struct kernel cpu_norm[] = {
	{.op = "BatchNormalization",
	 .flags = K_REFERENCE,
	 .reshape = batch_norm_reshape,
	 .run = batch_norm_run},
	{.op = "InstanceNormalization", .flags = K_REFERENCE, .run = instance_norm_run},
	{.op = "GroupNormalization", .flags = K_REFERENCE, .run = group_norm_run},
	{.op = "LayerNormalization",
	 .flags = K_REFERENCE,
	 .reshape = layer_norm_reshape,
	 .run = layer_norm_run},
	{.op = "RMSNormalization",
	 .flags = K_REFERENCE,
	 .reshape = layer_norm_reshape,
	 .run = layer_norm_run},
	{.op = "SimplifiedLayerNormalization",
	 .flags = K_REFERENCE,
	 .reshape = layer_norm_reshape,
	 .run = layer_norm_run},
	{.op = "LRN", .flags = K_REFERENCE, .run = lrn_run},
	{.op = "MeanVarianceNormalization", .flags = K_REFERENCE, .run = mvn_run},
	{.op = "LpNormalization", .flags = K_REFERENCE, .run = lp_run},
	{.op = "com.microsoft::LayerNormalization",
	 .flags = K_REFERENCE,
	 .reshape = layer_norm_reshape,
	 .run = layer_norm_run},
	{.op = "com.microsoft::SimplifiedLayerNormalization",
	 .flags = K_REFERENCE,
	 .reshape = layer_norm_reshape,
	 .run = layer_norm_run},
	{.op = "com.microsoft::SkipLayerNormalization",
	 .flags = K_REFERENCE,
	 .reshape = skip_norm_reshape,
	 .run = skip_norm_run},
	{.op = "com.microsoft::SkipSimplifiedLayerNormalization",
	 .flags = K_REFERENCE,
	 .reshape = skip_norm_reshape,
	 .run = skip_norm_run},
	{.op = "com.microsoft::EmbedLayerNormalization",
	 .flags = K_REFERENCE,
	 .accepts = embed_norm_accepts,
	 .reshape = embed_norm_reshape,
	 .run = embed_norm_run},
	{.op = "com.microsoft::GatedRMSNorm",
	 .flags = K_REFERENCE,
	 .reshape = wide_reshape,
	 .run = gated_rms_run},
	{.op = "com.microsoft::GroupNorm", .flags = K_REFERENCE, .run = ms_group_norm_run},
	{0}};
