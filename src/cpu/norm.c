/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizations. Narrow floats compute in fp32; f64 in double, plainly. */
#include "ops/norm.h"

#include "cpu/simd.h"
#include "cpu/util.h"

#include <math.h>
#include <string.h>

static double scalar_of(const struct tensor *t, int64_t i)
{
	return elem_f64(tensor_dtype(t), t->data, i);
}

/* Scratch for each thread: `floats` of them. */
static int want_scratch(struct site *s, struct step *step, struct diag *d, int64_t shared,
			int64_t floats)
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
	const float *mean, *scale, *shift; /* y = (x - mean) * scale + shift of the channel */
	const double *dmean, *dscale, *dshift;
};

static void channel_run(const struct channel_job *j, int64_t off, int64_t n, int64_t c)
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

/* Elements begin..end where the channel changes with each (inner is 1). */
static void channel_vector(const struct channel_job *j, int64_t begin, int64_t end)
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

static void channel_piece(void *arg, int64_t begin, int64_t end, int thread)
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
		channel_vector(j, begin, end);
		return;
	}
	while (begin < end) {
		int64_t row = begin / j->inner, n = (row + 1) * j->inner - begin;
		n = n < end - begin ? n : end - begin;
		channel_run(j, begin, n, row % j->channels);
		begin += n;
	}
}

/* Mean and variance of every channel of x, in double. */
struct stats_job {
	enum dtype t;
	const void *x;
	int64_t batch, channels, inner;
	double *mean, *var;
};

static double run_sum(enum dtype t, const void *x, int64_t off, int64_t n, double center, bool square)
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

static void stats_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct stats_job *j = arg;
	double n = (double)j->batch * (double)j->inner;

	(void)thread;
	for (int64_t c = begin; c < end; c++) {
		double sum = 0, square = 0;
		for (int64_t b = 0; b < j->batch; b++)
			sum += run_sum(j->t, j->x, (b * j->channels + c) * j->inner, j->inner, 0,
				       false);
		j->mean[c] = sum / n;
		for (int64_t b = 0; b < j->batch; b++)
			square += run_sum(j->t, j->x, (b * j->channels + c) * j->inner, j->inner,
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
	return want_scratch(s, step, d, 16 * c, 0); /* five vectors of double, three of float */
}

static void running(const struct call *c, uint32_t out, uint32_t in, const double *now, int64_t n)
{
	double momentum = (double)((const struct batch_norm *)call_params(c))->momentum;
	struct tensor *y = out < c->step->nout ? c->out[out] : NULL;

	for (int64_t i = 0; y && i < n; i++)
		elem_set_f64(tensor_dtype(y), y->data, i,
			     scalar_of(c->in[in], i) * momentum + now[i] * (1 - momentum));
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
		pool_for(n, rows_grain(GRAIN, total / n), stats_piece, &s);
	}
	for (int64_t i = 0; i < n; i++) {
		if (!p->training_mode) {
			m[i] = scalar_of(c->in[3], i);
			v[i] = scalar_of(c->in[4], i);
		}
		mean[i] = m[i];
		scale[i] = scalar_of(c->in[1], i) / sqrt(v[i] + (double)p->epsilon);
		shift[i] = scalar_of(c->in[2], i);
		f[i] = (float)mean[i];
		f[n + i] = (float)scale[i];
		f[2 * n + i] = (float)shift[i];
	}
	pool_for(total, GRAIN, channel_piece, &j);
	if (p->training_mode) {
		running(c, 1, 3, m, n);
		running(c, 2, 4, v, n);
	}
	return 0;
}

/* ---- InstanceNormalization, GroupNormalization ----------------------------------------------- */

/* Groups of `per` channels of `inner` elements that lie together. */
struct group_job {
	enum dtype t;
	const void *x;
	void *y;
	int64_t groups, per, inner;
	const struct tensor *scale, *bias;
	bool per_group; /* an element of scale and bias for each group */
	bool silu;
	double epsilon;
};

static void group_channel(const struct group_job *j, int64_t off, double mean, double a, double b)
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
	channel_run(&c, off, j->inner, 0);
	for (int64_t i = 0, n; j->silu && i < j->inner; i += n) {
		float buf[BLOCK];
		n = j->inner - i < BLOCK ? j->inner - i : BLOCK;
		simd_to_f32(j->t, j->y, off + i, n, buf);
		simd()->map[VF_SWISH](buf, buf, n, one);
		simd_from_f32(j->t, buf, n, j->y, off + i);
	}
}

static void group_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct group_job *j = arg;
	int64_t n = j->per * j->inner;

	(void)thread;
	for (int64_t g = begin; g < end; g++) {
		double mean = run_sum(j->t, j->x, g * n, n, 0, false) / (double)n;
		double var = run_sum(j->t, j->x, g * n, n, mean, true) / (double)n;
		double inverse = 1 / sqrt(var + j->epsilon);
		for (int64_t k = 0; k < j->per; k++) {
			int64_t c = j->per_group ? g % j->groups : g % j->groups * j->per + k;
			group_channel(j, g * n + k * j->inner, mean,
				      inverse * scalar_of(j->scale, c), scalar_of(j->bias, c));
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
	pool_for(tensor_count(x) / n, rows_grain(GRAIN / 2, n), group_piece, j);
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

/* com.microsoft::GroupNorm with channels last: each group of each image by itself. */
struct nhwc_job {
	const struct call *c;
	int64_t pixels, channels, groups;
	bool silu;
	double epsilon;
};

static void nhwc_piece(void *arg, int64_t begin, int64_t end, int thread)
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
			sum += run_sum(t, x->data, base + i * j->channels, per, 0, false);
		for (int64_t i = 0; i < j->pixels; i++)
			square += run_sum(t, x->data, base + i * j->channels, per, sum / n, true);
		double mean = sum / n, inverse = 1 / sqrt(square / n + j->epsilon);
		for (int64_t i = 0; i < j->pixels * per; i++) {
			int64_t at_ = base + i / per * j->channels + i % per, c = c0 + i % per;
			double v = (elem_f64(t, x->data, at_) - mean) * inverse *
					   scalar_of(j->c->in[1], c) +
				   scalar_of(j->c->in[2], c);
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
	pool_for(s->dim[0] * p->groups, 1, nhwc_piece, &j);
	return 0;
}

/* ---- rows: LayerNormalization and its like --------------------------------------------------- */

/* y = normalized(x + skip + bias) * w + b over rows of n. */
struct rows {
	enum dtype t, ty;
	const void *x, *skip, *bias; /* skip: skip_rows rows; bias: one row; each may be NULL */
	int64_t skip_rows;
	const float *w, *b;
	const double *dw, *db; /* of f64 */
	bool rms;
	int64_t n;
	double epsilon;
	void *y;
	struct tensor *mean, *inverse, *sum; /* NULL: not wanted */
	float *scratch;
	/* tables of EmbedLayerNormalization: rows are sums of these rows */
	int64_t (*gather)(const struct rows *r, int64_t row, int k, const struct tensor **table);
	const struct call *call;
	int tables;
};

static void add_row(enum dtype t, const void *src, int64_t off, int64_t n, float *to)
{
	float buf[BLOCK];

	for (int64_t i = 0, m; i < n; i += m) {
		m = n - i < BLOCK ? n - i : BLOCK;
		simd_to_f32(t, src, off + i, m, buf);
		simd()->bin[VB_ADD][DT_F32](to + i, buf, to + i, m);
	}
}

/* The row that is normalized, in fp32: x's own memory where it is that. */
static const float *row_source(const struct rows *r, int64_t row, float *buf)
{
	int64_t n = r->n;

	if (r->gather) {
		memset(buf, 0, (size_t)n * sizeof(*buf));
		for (int k = 0; k < r->tables; k++) {
			const struct tensor *table = NULL;
			int64_t at_ = r->gather(r, row, k, &table);
			if (table)
				add_row(r->t, table->data, at_ * n, n, buf);
		}
	} else if (r->t == DT_F32 && !r->skip && !r->bias) {
		return (const float *)r->x + row * n;
	} else {
		simd_to_f32(r->t, r->x, row * n, n, buf);
	}
	if (r->skip)
		add_row(r->t, r->skip, row % r->skip_rows * n, n, buf);
	if (r->bias)
		add_row(r->t, r->bias, 0, n, buf);
	return buf;
}

static void row_f32(const struct rows *r, int64_t row, float *buf)
{
	const struct simd *s = simd();
	int64_t n = r->n;
	const float *x = row_source(r, row, buf);
	float *y = r->ty == DT_F32 ? (float *)r->y + row * n : buf;
	float mean = r->rms ? 0 : s->sum(x, n) / (float)n;
	float var = (r->rms ? s->sum_square(x, n) : s->sum_deviation(x, n, mean)) / (float)n;
	float inverse = 1 / sqrtf(var + (float)r->epsilon);

	if (r->sum)
		simd_from_f32(tensor_dtype(r->sum), x, n, r->sum->data, row * n);
	s->normalize(x, y, n, mean, inverse, r->w, r->b);
	if (y == buf)
		simd_from_f32(r->ty, buf, n, r->y, row * n);
	if (r->mean)
		elem_set_f64(tensor_dtype(r->mean), r->mean->data, row, (double)mean);
	if (r->inverse)
		elem_set_f64(tensor_dtype(r->inverse), r->inverse->data, row, (double)inverse);
}

static double row_value(const struct rows *r, int64_t row, int64_t i)
{
	double v = ((const double *)r->x)[row * r->n + i];

	if (r->skip)
		v += ((const double *)r->skip)[row % r->skip_rows * r->n + i];
	return r->bias ? v + ((const double *)r->bias)[i] : v;
}

static void row_f64(const struct rows *r, int64_t row)
{
	double mean = 0, var = 0, n = (double)r->n;

	for (int64_t i = 0; i < r->n && !r->rms; i++)
		mean += row_value(r, row, i) / n;
	for (int64_t i = 0; i < r->n; i++) {
		double v = row_value(r, row, i) - mean;
		var += v * v / n;
	}
	double inverse = 1 / sqrt(var + r->epsilon);
	for (int64_t i = 0; i < r->n; i++) {
		double x = row_value(r, row, i), v = (x - mean) * inverse;
		if (r->dw)
			v *= r->dw[i];
		if (r->db)
			v += r->db[i];
		if (r->sum)
			((double *)r->sum->data)[row * r->n + i] = x;
		elem_set_f64(r->ty, r->y, row * r->n + i, v);
	}
	if (r->mean)
		elem_set_f64(tensor_dtype(r->mean), r->mean->data, row, mean);
	if (r->inverse)
		elem_set_f64(tensor_dtype(r->inverse), r->inverse->data, row, inverse);
}

static void rows_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct rows *r = arg;

	for (int64_t row = begin; row < end; row++) {
		if (r->t == DT_F64)
			row_f64(r, row);
		else
			row_f32(r, row, r->scratch + thread * r->n);
	}
}

/* A row of parameters in the type that is computed in; to: room for it. */
static const void *row_params(const struct tensor *t, enum dtype with, int64_t n, void *to)
{
	if (!t)
		return NULL;
	if (tensor_dtype(t) == with)
		return t->data;
	for (int64_t i = 0; i < n && with == DT_F64; i++)
		((double *)to)[i] = scalar_of(t, i);
	if (with == DT_F32)
		for (int64_t i = 0; i < n; i++)
			((float *)to)[i] = (float)scalar_of(t, i);
	return to;
}

/* w and b (may be NULL), each of r->n elements; workspace: 4 n, then n a thread. */
static int run_rows(const struct call *c, struct rows *r, int64_t rows, const struct tensor *w,
		    const struct tensor *b)
{
	enum dtype with = r->t == DT_F64 ? DT_F64 : DT_F32;
	float *room = c->workspace;

	if ((w && tensor_count(w) != r->n) || (b && tensor_count(b) != r->n))
		return call_fail(c, E_SHAPE,
				 fmt(c->diag, "a scale and a bias of %" PRId64 " elements", r->n),
				 "others");
	r->scratch = room + 4 * r->n;
	if (with == DT_F64) {
		r->dw = row_params(w, with, r->n, room);
		r->db = row_params(b, with, r->n, room + 2 * r->n);
	} else {
		r->w = row_params(w, with, r->n, room);
		r->b = row_params(b, with, r->n, room + 2 * r->n);
		if (r->b && !r->w) /* normalize knows no bias alone */
			for (int64_t i = 0; i < r->n; i++)
				room[i] = 1;
		r->w = r->b && !r->w ? room : r->w;
	}
	if (rows > 0 && r->n > 0)
		pool_for(rows, rows_grain(GRAIN / 2, r->n), rows_piece, r);
	return 0;
}

static struct tensor *output(const struct call *c, uint32_t i)
{
	return i < c->step->nout ? c->out[i] : NULL;
}
static const struct tensor *input(const struct call *c, uint32_t i)
{
	return i < c->step->nin ? c->in[i] : NULL;
}

static int64_t row_length(const struct shape *s, int64_t axis)
{
	int a = axis_of(axis, s->rank);
	return a < 0 ? 1 : shape_span(s, a, s->rank);
}

static int layer_norm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct layer_norm *p = s->node->params;
	int64_t n = row_length(&site_in(s, 0)->shape, p->axis);

	if (site_type(s, 0) == site_out_type(s, 0))
		allow_inplace(step, 0, 0);
	/* room for a scale and a bias that are broadcast */
	return want_scratch(s, step, d, n > INT64_MAX / 64 ? -1 : 8 * n, n);
}

/* Scale or bias as one row of n: itself, or broadcast along the normalized dims. */
static const struct tensor *as_row(const struct call *c, const struct tensor *t, int axis,
				   int64_t n, struct tensor *copy, float *room)
{
	const struct shape *x = &c->in[0]->shape;
	struct shape tail = {.rank = x->rank - axis};
	int64_t strides[MAX_RANK], lead = 1;

	if (!t || tensor_count(t) == n)
		return t;
	for (int i = 0; i < tail.rank; i++)
		tail.dim[i] = x->dim[axis + i];
	struct shape own = t->shape;
	while (own.rank > tail.rank) { /* leading ones */
		lead *= own.dim[0];
		memmove(own.dim, own.dim + 1, (size_t)(own.rank - 1) * sizeof(own.dim[0]));
		own.rank--;
	}
	if (lead != 1)
		return t;
	shape_broadcast_strides(&own, &tail, strides);
	*copy = (struct tensor){
		.type = type_tensor(DT_F32), .shape = {.rank = 1, .dim = {n}}, .data = room};
	for (int64_t i = 0; i < n; i++) {
		int64_t off = 0, k = i;
		for (int d = tail.rank - 1; d >= 0; d--) {
			off += k % tail.dim[d] * strides[d];
			k /= tail.dim[d];
		}
		room[i] = (float)scalar_of(t, off);
	}
	return copy;
}

/* A scale that differs from row to row: normalize alone, then multiply and add where it belongs. */
static int apply_affine(const struct call *c, const struct tensor *w, const struct tensor *b)
{
	struct tensor *y = c->out[0];
	int64_t sw[MAX_RANK], sb[MAX_RANK], n = tensor_count(y);
	const struct tensor *const both[2] = {w, b};
	int64_t *const strides[2] = {sw, sb};

	for (int k = 0; k < 2; k++) {
		struct shape s;
		if (!both[k])
			continue;
		if (!shape_broadcast(&y->shape, &both[k]->shape, &s) || !shape_equal(&s, &y->shape))
			return call_fail(c, E_SHAPE, "a scale and a bias that broadcast to X",
					 "others");
		shape_broadcast_strides(&both[k]->shape, &y->shape, strides[k]);
	}
	for (int64_t i = 0; i < n; i++) {
		double v = elem_f64(tensor_dtype(y), y->data, i);
		for (int k = 0; k < 2; k++) {
			int64_t off = 0, rest = i;
			for (int d = y->shape.rank - 1; both[k] && d >= 0; d--) {
				off += rest % y->shape.dim[d] * strides[k][d];
				rest /= y->shape.dim[d];
			}
			if (both[k])
				v = k ? v + scalar_of(both[k], off) : v * scalar_of(both[k], off);
		}
		elem_set_f64(tensor_dtype(y), y->data, i, v);
	}
	return 0;
}

static int layer_norm_run(const struct call *c)
{
	const struct layer_norm *p = call_params(c);
	const struct tensor *x = c->in[0], *w = c->in[1], *b = NULL;
	bool layer = !strcmp(c->step->node->op->name, "LayerNormalization");
	int axis = axis_of(p->axis, x->shape.rank);
	int64_t n = row_length(&x->shape, p->axis);
	struct rows r = {.t = tensor_dtype(x),
			 .ty = tensor_dtype(c->out[0]),
			 .x = x->data,
			 .rms = !layer,
			 .n = n,
			 .epsilon = (double)p->epsilon,
			 .y = c->out[0]->data};
	struct tensor wcopy, bcopy;
	float *room = (float *)c->workspace + 4 * n + (int64_t)pool_threads() * n;

	if (layer) {
		b = input(c, 2);
		r.mean = output(c, 1);
		r.inverse = output(c, 2);
	} else {
		r.inverse = output(c, 1);
	}
	w = as_row(c, w, axis, n, &wcopy, room);
	b = as_row(c, b, axis, n, &bcopy, room + 2 * n);
	int64_t rows = n ? tensor_count(x) / n : 0;
	if (!n && r.mean) /* the mean of nothing */
		for (int64_t i = 0; i < tensor_count(r.mean); i++)
			elem_set_f64(tensor_dtype(r.mean), r.mean->data, i, (double)NAN);
	if ((!w || tensor_count(w) == n) && (!b || tensor_count(b) == n))
		return run_rows(c, &r, rows, w, b);
	int err = run_rows(c, &r, rows, NULL, NULL);
	return err ? err : apply_affine(c, w, b);
}

static int skip_reshape(struct site *s, struct step *step, struct diag *d)
{
	int64_t n = row_length(&site_in(s, 0)->shape, -1);

	return want_scratch(s, step, d, n > INT64_MAX / 64 ? -1 : 4 * n, n);
}

static int skip_norm_run(const struct call *c)
{
	const struct epsilon *p = call_params(c);
	const struct tensor *x = c->in[0], *skip = c->in[1];
	bool rms = !strcmp(c->step->node->op->name, "SkipSimplifiedLayerNormalization");
	const struct tensor *bias = input(c, rms ? 3 : 4);
	struct rows r = {.t = tensor_dtype(x),
			 .ty = tensor_dtype(x),
			 .x = x->data,
			 .skip = skip->data,
			 .bias = bias ? bias->data : NULL,
			 .rms = rms,
			 .n = row_length(&x->shape, -1),
			 .epsilon = (double)p->epsilon,
			 .y = c->out[0]->data,
			 .mean = output(c, 1),
			 .inverse = output(c, 2),
			 .sum = output(c, 3)};

	if (tensor_count(x) == 0)
		return 0;
	if (tensor_count(skip) == 0 || tensor_count(skip) % r.n ||
	    tensor_count(x) % tensor_count(skip) || (bias && tensor_count(bias) != r.n))
		return call_fail(c, E_SHAPE,
				 "a skip that repeats over the input and a bias of one row",
				 "other shapes");
	r.skip_rows = tensor_count(skip) / r.n;
	return run_rows(c, &r, tensor_count(x) / r.n, c->in[2], rms ? NULL : input(c, 3));
}

/* ---- EmbedLayerNormalization ----------------------------------------------------------------- */

static int64_t embed_row(const struct rows *r, int64_t row, int k, const struct tensor **table)
{
	const struct tensor *const *in = r->call->in;
	const struct tensor *position = input(r->call, 8), *segment = in[1];
	int64_t length = in[0]->shape.dim[1];

	if (k == 0) {
		*table = in[2];
		return elem_i64(DT_I32, in[0]->data, row);
	}
	if (k == 1) {
		*table = in[3];
		if (!position)
			return row % length;
		return elem_i64(DT_I32, position->data, row % tensor_count(position));
	}
	*table = segment ? in[4] : NULL;
	return segment ? elem_i64(DT_I32, segment->data, row) : 0;
}

static int embed_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct vinfo *w = site_in(s, 2);
	int64_t n = w->shape.rank == 2 ? w->shape.dim[1] : 0;

	return want_scratch(s, step, d, n > INT64_MAX / 64 ? -1 : 4 * n, n);
}

/* mask_index: how many of a sequence count. */
static void mask_index(const struct call *c)
{
	struct tensor *y = output(c, 1);
	const struct tensor *mask = input(c, 7);
	int64_t length = c->in[0]->shape.dim[1];

	for (int64_t b = 0; y && b < tensor_count(y); b++) {
		int64_t n = 0;
		for (int64_t i = 0; mask && i < length; i++)
			n += elem_i64(DT_I32, mask->data, b * length + i) != 0;
		elem_set_i64(DT_I32, y->data, b, n);
	}
}

static int embed_run(const struct call *c)
{
	const struct embed_norm *p = call_params(c);
	const struct tensor *ids = c->in[0];
	int64_t n = c->in[2]->shape.dim[1], rows = tensor_count(ids);
	struct rows r = {.t = tensor_dtype(c->in[2]),
			 .ty = tensor_dtype(c->in[2]),
			 .n = n,
			 .epsilon = (double)p->epsilon,
			 .y = c->out[0]->data,
			 .sum = output(c, 2),
			 .gather = embed_row,
			 .call = c,
			 .tables = input(c, 1) && c->in[4] ? 3 : 2};

	for (int64_t row = 0; row < rows; row++) {
		for (int k = 0; k < r.tables; k++) {
			const struct tensor *table = NULL;
			int64_t at_ = embed_row(&r, row, k, &table);
			if (at_ < 0 || at_ >= table->shape.dim[0] || tensor_count(table) % n)
				return call_fail(
					c, E_VALUE,
					fmt(c->diag, "ids below %" PRId64, table->shape.dim[0]),
					fmt(c->diag, "%" PRId64, at_));
		}
	}
	mask_index(c);
	return run_rows(c, &r, rows, c->in[5], c->in[6]);
}

static bool not_f64(const struct site *s, struct why *w)
{
	if (site_type(s, 2) == DT_F64)
		return refuse(w, "tables of f64");
	return true;
}

/* ---- LRN ------------------------------------------------------------------------------------- */

struct lrn_job {
	const struct lrn *p;
	const struct tensor *x;
	struct tensor *y;
	int64_t channels, inner;
};

/* A block of w pixels of one image: all channels of it, with a window of squares. */
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
		/* sum^-beta */
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

static void lrn_piece(void *arg, int64_t begin, int64_t end, int thread)
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
		 rows_grain(GRAIN_HEAVY, 128 * j.channels), lrn_piece, &j);
	return 0;
}

/* ---- LpNormalization ------------------------------------------------------------------------- */

struct lp_job {
	const struct tensor *x;
	struct tensor *y;
	struct axis_split s;
	bool one;
};

static void lp_rows(const struct lp_job *j, int64_t o)
{
	const struct simd *s = simd();
	const float *x = (const float *)j->x->data + o * j->s.n;
	float norm = j->one ? s->sum_abs(x, j->s.n) : sqrtf(s->sum_square(x, j->s.n));

	s->scale_shift(x, (float *)j->y->data + o * j->s.n, j->s.n, 0, norm == 0 ? 0 : 1 / norm, 0);
}

static void lp_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct lp_job *j = arg;
	enum dtype t = tensor_dtype(j->x);

	(void)thread;
	for (int64_t o = begin; o < end; o++) {
		if (t == DT_F32 && j->s.inner == 1) {
			lp_rows(j, o);
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
		pool_for(j.s.outer, rows_grain(GRAIN, j.s.n * j.s.inner), lp_piece, &j);
	return 0;
}

/* ---- MeanVarianceNormalization --------------------------------------------------------------- */

struct mvn_job {
	const struct tensor *x;
	struct tensor *y;
	int nk, nr;
	int64_t kdim[MAX_RANK], kstep[MAX_RANK], rdim[MAX_RANK], rstep[MAX_RANK];
	int64_t run, runs; /* the last reduced dim, if it is the last of all; and how many of them */
};

static int64_t place(const int64_t *dim, const int64_t *step, int n, int64_t k)
{
	int64_t off = 0;

	for (int i = n - 1; i >= 0; i--) {
		off += k % dim[i] * step[i];
		k /= dim[i];
	}
	return off;
}

static void mvn_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct mvn_job *j = arg;
	enum dtype t = tensor_dtype(j->x);
	double n = (double)j->run * (double)j->runs;

	(void)thread;
	for (int64_t o = begin; o < end; o++) {
		int64_t base = place(j->kdim, j->kstep, j->nk, o);
		double sum = 0, square = 0;
		for (int64_t k = 0; k < j->runs; k++)
			sum += run_sum(t, j->x->data, base + place(j->rdim, j->rstep, j->nr, k),
				       j->run, 0, false);
		for (int64_t k = 0; k < j->runs; k++)
			square += run_sum(t, j->x->data, base + place(j->rdim, j->rstep, j->nr, k),
					  j->run, sum / n, true);
		double mean = sum / n, scale = 1 / (sqrt(square / n) + 1e-9);
		for (int64_t k = 0; k < j->runs; k++) {
			struct group_job g = {
				.t = t, .x = j->x->data, .y = j->y->data, .inner = j->run};
			group_channel(&g, base + place(j->rdim, j->rstep, j->nr, k), mean, scale, 0);
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
			/* outermost first */
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
	pool_for(outputs, rows_grain(GRAIN / 2, j.run * j.runs), mvn_piece, &j);
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
	 .reshape = skip_reshape,
	 .run = skip_norm_run},
	{.op = "com.microsoft::SkipSimplifiedLayerNormalization",
	 .flags = K_REFERENCE,
	 .reshape = skip_reshape,
	 .run = skip_norm_run},
	{.op = "com.microsoft::EmbedLayerNormalization",
	 .flags = K_REFERENCE,
	 .accepts = not_f64,
	 .reshape = embed_reshape,
	 .run = embed_run},
	{.op = "com.microsoft::GroupNorm", .flags = K_REFERENCE, .run = ms_group_norm_run},
	{0}};
