/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize is separable: for each axis that changes, a table lists the taps (input elements and their
 * weights) of each output index, and one pass per axis applies the table. Floats are computed in
 * fp32 (f64 in f64). Integers are computed in fp32 if fp32 holds them exactly, otherwise in f64.
 * Results are rounded once, but antialiased integers are rounded after every pass. The mode nearest
 * copies elements, so it serves every type.
 */
#include "ops/resize.h"
#include "ops/taps.h"

#include "base/pool.h"
#include "cpu/math/move.h"
#include "cpu/math/wide.h"
#include "image/image.h"

#include <math.h>
#include <string.h>

/* The axes are in the order in which the tensors' layout stores them. */
struct resize_job {
	int rank, changed;
	int order[MAX_RANK]; /* the axes that change, in the order of their passes */
	int64_t in[MAX_RANK], out[MAX_RANK];
	struct taps taps[MAX_RANK];
	bool whole; /* every pass rounds its results to integers in low..high */
	double low, high;
};

static int64_t product_of_sizes(const int64_t *size, int from, int to)
{
	int64_t n = 1;

	for (int i = from; i < to; i++)
		n *= size[i];
	return n;
}

/* ---- taps ------------------------------------------------------------------------------------- */

/*
 * Returns the bytes of the taps of an axis. Planning knows the sizes but not always the scale. The
 * function assumes a scale slightly below the ratio of the sizes, because a lower scale needs at
 * least as many taps.
 */
static size_t taps_bytes(const struct resize *p, int64_t in, int64_t out)
{
	double scale = in > 0 && out > 0 ? ((double)out - 0.5) / (double)in : 1;
	size_t n = (size_t)taps_count(p, scale) * (size_t)out;

	return scratch_size(n * sizeof(int64_t)) + scratch_size(n * sizeof(double)) +
	       scratch_size((size_t)out);
}

/*
 * Whether every pass rounds its results, as it does for antialiased integers. The result then depends
 * on the order of the passes, so they start with the last axis.
 */
static bool passes_round(const struct resize *p, enum dtype t)
{
	return p->antialias && dtype_class(t) != DT_FLOAT;
}

/*
 * Sets j->order and j->changed from rank, in, out and taps[].n, which is 0 if the axis does not
 * change.
 */
static void set_order(struct resize_job *j, bool fixed)
{
	bool changed[MAX_RANK];

	for (int d = 0; d < j->rank; d++)
		changed[d] = j->taps[d].n != 0;
	j->changed = taps_order(j->rank, j->in, j->out, changed, fixed, j->order);
}

static double roi_at(const struct tensor *roi, int64_t i, double absent)
{
	return roi && i < tensor_count(roi) ? elem_f64(tensor_dtype(roi), roi->data, i) : absent;
}

static int make_taps(const struct call *c, const struct resize *p, const struct resize_sizes *r,
		     struct scratch *s, struct resize_job *j)
{
	const struct shape *x = &c->in[0]->shape;
	const struct tensor *roi = c->step->nin > 1 ? c->in[1] : NULL;

	j->rank = x->rank;
	for (int d = 0; d < x->rank; d++) {
		struct taps_axis a = {.p = p, .in = x->dim[d], .out = r->out[d], .scale = r->scale[d]};
		int at = stored_dim(d, x->rank, c->in[0]->layout);
		struct taps *t = &j->taps[at];
		char *end = s->at + taps_bytes(p, x->dim[d], r->out[d]);
		j->in[at] = t->in = x->dim[d];
		j->out[at] = t->out = r->out[d];
		if (!taps_change(p, r, x, d)) {
			s->at = end;
			continue;
		}
		a.roi0 = roi_at(roi, r->axis[d], 0);
		a.roi1 = roi_at(roi, r->axis[d] + r->naxes, 1);
		t->n = taps_count(p, a.scale);
		size_t n = (size_t)(t->n * t->out);
		if (scratch_size(n * sizeof(int64_t)) + scratch_size(n * sizeof(double)) +
			    scratch_size((size_t)t->out) >
		    taps_bytes(p, x->dim[d], r->out[d]))
			return call_fail(c, E_VALUE, "scales that fit the output's size", NULL);
		t->index = scratch_take(s, n * sizeof(int64_t));
		t->weight = scratch_take(s, n * sizeof(double));
		t->outside = scratch_take(s, (size_t)t->out);
		s->at = end;
		taps_fill(&a, t);
	}
	set_order(j, passes_round(p, tensor_dtype(c->in[0])));
	return 0;
}

/* Number of elements of the largest intermediate result if every axis is resized. */
static int64_t largest_intermediate(const struct shape *x, const struct shape *y, bool fixed)
{
	struct resize_job j = {.rank = x->rank};
	int64_t most = 0;

	for (int d = 0; d < x->rank; d++) {
		j.in[d] = x->dim[d];
		j.out[d] = y->dim[d];
		j.taps[d].n = 1;
	}
	set_order(&j, fixed);
	for (int k = 0; k < j.changed; k++) {
		j.in[j.order[k]] = j.out[j.order[k]];
		int64_t n = product_of_sizes(j.in, 0, j.rank);
		most = n > most ? n : most;
	}
	return most;
}

/*
 * Maximum number of taps of one output element: cubic interpolation has 4 taps along each of 4
 * axes, linear interpolation 2 taps along each of 8 axes.
 */
enum { GRID_TAPS = 256 };

/* Arguments of GridSample. Exactly one of grid32 and grid64 is not NULL. */
struct grid_job {
	int n, mode, padding;
	bool align;
	int64_t channels, inputs, outputs, in[MAX_RANK], step[MAX_RANK];
	const float *grid32;
	const double *grid64;
	const void *x;
	void *y;
};

#define TEMPLATE "cpu/resize.inc"
#include "cpu/math/reals.inc"

/* ---- types ------------------------------------------------------------------------------------ */

/*
 * Whether elements of type t are computed in fp32: floats of up to 32 bits, and integers of up to 16
 * bits, which fp32 holds exactly. All other types are computed in f64.
 */
static bool in_f32(enum dtype t)
{
	return t == DT_F32 || t == DT_F16 || t == DT_BF16 ||
	       (dtype_class(t) != DT_FLOAT && dtype_bits(t) <= 16);
}

/* Workspace that real_in or real_out needs for a tensor of type t. */
static size_t real_bytes(enum dtype t, const struct shape *s)
{
	if (dtype_class(t) == DT_FLOAT)
		return wide_bytes(t, s);
	return scratch_size((size_t)shape_count(s) * (in_f32(t) ? sizeof(float) : sizeof(double)));
}

/* Conversion between an integer tensor and its elements as f32 or f64. */
struct whole {
	const struct tensor *t;
	void *real; /* f32 or f64 */
	bool drop;  /* cut off the fraction instead of rounding to nearest */
	double low, high;
};

static void integers_to_real(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct whole *w = arg;
	enum dtype d = tensor_dtype(w->t);

	(void)thread;
	if (d == DT_U8)
		for (int64_t i = begin; i < end; i++)
			((float *)w->real)[i] = ((const uint8_t *)w->t->data)[i];
	else if (in_f32(d))
		for (int64_t i = begin; i < end; i++)
			((float *)w->real)[i] = (float)elem_i64(d, w->t->data, i);
	else
		for (int64_t i = begin; i < end; i++)
			((double *)w->real)[i] = elem_f64(d, w->t->data, i);
}

/*
 * Returns the elements of t as f32 or f64 (see in_f32). An f32 or f64 tensor is used without a
 * copy.
 */
static const void *real_in(struct scratch *s, const struct tensor *t)
{
	enum dtype d = tensor_dtype(t);
	struct whole w = {.t = t};

	if (dtype_class(d) == DT_FLOAT)
		return wide_in(s, t);
	w.real = scratch_take(s, (size_t)tensor_count(t) *
					 (in_f32(d) ? sizeof(float) : sizeof(double)));
	pool_for(tensor_count(t), 8192, integers_to_real, &w);
	return w.real;
}

/*
 * Returns the memory to which the results for t are written as f32 or f64; real_done then converts
 * the results to the type of t.
 */
static void *real_out(struct scratch *s, const struct tensor *t)
{
	enum dtype d = tensor_dtype(t);

	if (dtype_class(d) == DT_FLOAT)
		return wide_out(s, t);
	return scratch_take(s, (size_t)tensor_count(t) * (in_f32(d) ? sizeof(float) : sizeof(double)));
}

static void integer_range(enum dtype d, double *low, double *high)
{
	int bits = (int)dtype_bits(d);
	bool is_signed = dtype_class(d) == DT_INT;

	*low = is_signed ? -ldexp(1, bits - 1) : 0;
	*high = d == DT_BOOL ? 1 : ldexp(1, bits - (is_signed ? 1 : 0)) - 1;
}

static void store_clamped_integer(enum dtype d, void *data, int64_t i, double v, double low,
				  double high)
{
	/* store the limit as an integer, because no double equals 2^63 - 1 or 2^64 - 1 */
	if (!(v < high))
		elem_set_i64(d, data, i,
			     d == DT_U64   ? -1
			     : d == DT_I64 ? INT64_MAX
					   : (int64_t)high);
	else if (v >= 0x1p63)
		elem_set_i64(d, data, i, (int64_t)(uint64_t)v);
	else
		elem_set_i64(d, data, i, (int64_t)(v < low ? low : v));
}

static void integers_from_real(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct whole *w = arg;
	enum dtype d = tensor_dtype(w->t);
	const float *narrow = in_f32(d) ? w->real : NULL;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		if (d == DT_U8 && w->drop) {
			float f = narrow[i] < 0	     ? 0
				  : narrow[i] <= 255 ? narrow[i]
						     : 255; /* NaN: 255 */
			((uint8_t *)w->t->data)[i] = (uint8_t)(int)f;
			continue;
		}
		double v = narrow ? (double)narrow[i] : ((const double *)w->real)[i];
		/* Rounding to float first keeps 93.9999999, a 94 with rounding error, from becoming 93. */
		if (w->drop && d != DT_BOOL)
			v = trunc(fabs(v) < 0x1p23 ? (double)(float)v : v);
		else
			v = rint(v);
		if (d == DT_BOOL)
			((uint8_t *)w->t->data)[i] = v != 0;
		else
			store_clamped_integer(d, w->t->data, i, v, w->low, w->high);
	}
}

/*
 * Converts the results to the type of t and clamps them to its range. ONNX does not define how
 * integer results are rounded. As in other implementations, linear interpolation and GridSample cut
 * off the fraction (drop), and the other modes round to nearest.
 */
static void real_done(const struct tensor *t, void *from, bool drop)
{
	struct whole w = {.t = t, .real = from, .drop = drop};

	if (dtype_class(tensor_dtype(t)) == DT_FLOAT) {
		wide_done(t, from);
		return;
	}
	integer_range(tensor_dtype(t), &w.low, &w.high);
	pool_for(tensor_count(t), 8192, integers_from_real, &w);
}

/* ---- nearest ---------------------------------------------------------------------------------- */

struct nearest_job {
	const struct resize_job *j;
	const char *x;
	char *y;
	int axes; /* number of leading axes to walk; the axes after them are copied as a block */
	int64_t block;
	size_t size;
};

static void copy_line(const struct nearest_job *n, const struct taps *t, const char *from, char *to,
		      int64_t step)
{
	size_t bytes = n->size * (size_t)n->block;

	for (int64_t o = 0; o < t->out; o++, to += bytes)
		memcpy(to, from + (size_t)((t->n ? t->index[o] : o) * step) * n->size, bytes);
}

static void gather_32(const uint32_t *from, const struct taps *t, uint32_t *to)
{
	if (t->twice)
		for (int64_t i = 0; i < t->in; i++)
			to[2 * i] = to[2 * i + 1] = from[i];
	else
		for (int64_t i = 0; i < t->out; i++)
			to[i] = from[t->index[i]];
}

/*
 * Fills output lines along the last walked axis. If a line reads the same input line as the
 * previous output line, that output line is copied.
 */
static void nearest_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct nearest_job *n = arg;
	const struct resize_job *j = n->j;
	int last = n->axes - 1;
	const struct taps *t = &j->taps[last];
	size_t line = (size_t)(t->out * n->block) * n->size;
	int64_t before = -1;

	(void)thread;
	for (int64_t r = begin; r < end; r++) {
		int64_t at = r, from = 0, step = n->block * j->in[last];
		for (int d = last - 1; d >= 0; d--) {
			int64_t o = at % j->out[d];
			at /= j->out[d];
			from += (j->taps[d].n ? j->taps[d].index[o] : o) * step;
			step *= j->in[d];
		}
		const char *x = n->x + (size_t)from * n->size;
		char *y = n->y + (size_t)r * line;
		if (from == before)
			memcpy(y, y - line, line);
		else if (n->size == 4 && n->block == 1 && t->n)
			gather_32((const uint32_t *)(const void *)x, t, (uint32_t *)(void *)y);
		else
			copy_line(n, t, x, y, n->block);
		before = from;
	}
}

static void run_nearest(const struct resize_job *j, const void *x, void *y, size_t size)
{
	struct nearest_job n = {.j = j, .x = x, .y = y, .axes = j->rank, .block = 1, .size = size};

	while (n.axes > 1 && !j->taps[n.axes - 1].n)
		n.block *= j->out[--n.axes];
	if (!j->rank)
		memcpy(y, x, size);
	else
		pool_for(product_of_sizes(j->out, 0, n.axes - 1),
			 1 + 8192 / (1 + n.block * j->out[n.axes - 1]), nearest_part, &n);
}

/* Selects the references to strings like other elements; call_strings then copies the texts. */
static int nearest_strings(const struct call *c, const struct resize_job *j, struct scratch *s)
{
	const struct tensor *x = c->in[0];
	struct shape shape = shape_of(j->rank, j->out);
	int64_t n = shape_count(&shape);
	struct str_ref *ref = scratch_take(s, (size_t)n * sizeof(*ref));
	const char **text = scratch_take(s, (size_t)n * sizeof(*text));
	size_t *length = scratch_take(s, (size_t)n * sizeof(*length));

	run_nearest(j, x->data, ref, sizeof(*ref));
	for (int64_t i = 0; i < n; i++) {
		text[i] = x->blob + ref[i].offset;
		length[i] = (size_t)ref[i].length;
	}
	return call_strings(c, 0, &shape, text, length);
}

/* ---- Resize ----------------------------------------------------------------------------------- */

static bool resize_accepts(const struct site *site, struct why *why)
{
	const struct resize *p = site_params(site);
	enum dtype t = (enum dtype)site_in(site, 0)->type.dtype;

	if (p->mode != RESIZE_NEAREST && (T_BIT(t) & (T_STRING | T_COMPLEX)))
		return refuse(why, "interpolation of %s", dtype_name(t));
	if (p->mode == RESIZE_NEAREST &&
	    p->coordinate_transformation_mode == COORD_TF_CROP_AND_RESIZE &&
	    (T_BIT(t) & (T_STRING | T_COMPLEX)))
		return refuse(why, "extrapolation of %s", dtype_name(t));
	return true;
}

static int resize_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct resize *p = site_params(site);
	const struct vinfo *x = site_in(site, 0), *y = site_out(site, 0);
	enum dtype t = (enum dtype)x->type.dtype;
	size_t elem = in_f32(t) ? sizeof(float) : sizeof(double);
	size_t half = scratch_size(
		(size_t)largest_intermediate(&x->shape, &y->shape, passes_round(p, t)) * elem);
	int64_t count = shape_count(&y->shape);

	(void)d;
	if (p->coordinate_transformation_mode != COORD_TF_CROP_AND_RESIZE)
		(void)move_in_layout(site, step, 1);
	for (int i = 0; i < x->shape.rank; i++)
		step->workspace += taps_bytes(p, x->shape.dim[i], y->shape.dim[i]);
	if (t == DT_STRING)
		step->workspace += 3 * scratch_size((size_t)count * sizeof(struct str_ref));
	else if (p->mode != RESIZE_NEAREST ||
		 p->coordinate_transformation_mode == COORD_TF_CROP_AND_RESIZE)
		step->workspace += real_bytes(t, &x->shape) + real_bytes(t, &y->shape) + 2 * half;
	return 0;
}

static int resize_real(const struct call *c, const struct resize *p, struct resize_job *j,
		       struct scratch *s)
{
	enum dtype t = tensor_dtype(c->in[0]);
	bool narrow = in_f32(t), crop = p->coordinate_transformation_mode == COORD_TF_CROP_AND_RESIZE;
	size_t half = (size_t)largest_intermediate(&c->in[0]->shape, &c->out[0]->shape,
						   passes_round(p, t)) *
		      (narrow ? 4 : 8);
	const void *x = real_in(s, c->in[0]);
	void *y = real_out(s, c->out[0]);
	void *halves[2];

	j->whole = passes_round(p, t);
	integer_range(t, &j->low, &j->high);
	halves[0] = scratch_take(s, half);
	halves[1] = scratch_take(s, half);
	if (narrow) {
		interpolate_f32(j, x, y, (float *[2]){halves[0], halves[1]});
		if (crop)
			extrapolate_f32(j, p->extrapolation_value, y);
	} else {
		interpolate_f64(j, x, y, (double *[2]){halves[0], halves[1]});
		if (crop)
			extrapolate_f64(j, (double)p->extrapolation_value, y);
	}
	real_done(c->out[0], y, taps_linear(p) && !p->antialias);
	return 0;
}

static int resize_run(const struct call *c)
{
	const struct resize *p = call_params(c);
	const struct tensor *scales = c->step->nin > 2 ? c->in[2] : NULL;
	const struct tensor *sizes = c->step->nin > 3 ? c->in[3] : NULL;
	struct scratch s = scratch_of(c);
	struct resize_job j = {0};
	struct resize_sizes r;
	const char *bad = resize_sizes(p, &c->in[0]->shape, scales, sizes, &r, c->diag);
	struct shape y;
	int rc;

	if (bad)
		return call_fail(c, E_VALUE, bad, NULL);
	y = shape_of(r.rank, r.out);
	if (!shape_equal(&y, &c->out[0]->shape))
		return call_fail(c, E_VALUE, "scales or sizes as they were planned", NULL);
	if (shape_count(&y) == 0)
		return 0;
	if (tensor_count(c->in[0]) == 0)
		return call_fail(c, E_SHAPE, "an input with elements", NULL);
	rc = make_taps(c, p, &r, &s, &j);
	if (rc)
		return rc;
	if (tensor_dtype(c->in[0]) == DT_STRING)
		return nearest_strings(c, &j, &s);
	if (p->mode == RESIZE_NEAREST &&
	    p->coordinate_transformation_mode != COORD_TF_CROP_AND_RESIZE) {
		run_nearest(&j, c->in[0]->data, c->out[0]->data,
			    dtype_bits(tensor_dtype(c->in[0])) / 8);
		return 0;
	}
	return resize_real(c, p, &j, &s);
}

/* ---- GridSample ------------------------------------------------------------------------------- */

static bool grid_accepts(const struct site *site, struct why *why)
{
	enum dtype t = (enum dtype)site_in(site, 0)->type.dtype;

	int n = site_in(site, 0)->shape.rank - 2;
	int mode = ((const struct grid_sample *)site_params(site))->mode;

	if (T_BIT(t) & (T_STRING | T_COMPLEX))
		return refuse(why, "sampling of %s", dtype_name(t));
	if (n > 8 || (n > 4 && (mode == GRID_CUBIC || mode == GRID_BICUBIC)))
		return refuse(why, "sampling in %d dimensions", n);
	return true;
}

static int grid_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct vinfo *x = site_in(site, 0), *g = site_in(site, 1), *y = site_out(site, 0);

	(void)d;
	step->workspace = real_bytes((enum dtype)x->type.dtype, &x->shape) +
			  real_bytes((enum dtype)g->type.dtype, &g->shape) +
			  real_bytes((enum dtype)y->type.dtype, &y->shape);
	return 0;
}

static int grid_run(const struct call *c)
{
	const struct grid_sample *p = call_params(c);
	const struct tensor *x = c->in[0], *g = c->in[1], *y = c->out[0];
	struct scratch s = scratch_of(c);
	struct grid_job j = {.n = x->shape.rank - 2,
			     .padding = p->padding_mode,
			     .align = p->align_corners != 0,
			     .channels = x->shape.dim[1],
			     .inputs = 1,
			     .outputs = 1};
	const void *grid;

	if (tensor_count(y) == 0)
		return 0;
	if (tensor_count(x) == 0)
		return call_fail(c, E_SHAPE, "an input with elements", NULL);
	j.mode = p->mode == GRID_BILINEAR  ? GRID_LINEAR
		 : p->mode == GRID_BICUBIC ? GRID_CUBIC
					   : p->mode;
	for (int d = j.n - 1; d >= 0; d--) {
		j.in[d] = x->shape.dim[d + 2];
		j.step[d] = j.inputs;
		j.inputs *= j.in[d];
		j.outputs *= y->shape.dim[d + 2];
	}
	grid = wide_in(&s, g);
	if (tensor_dtype(g) == DT_F64)
		j.grid64 = grid;
	else
		j.grid32 = grid;
	j.x = real_in(&s, x);
	j.y = real_out(&s, y);
	pool_for(x->shape.dim[0] * j.outputs, 64,
		 in_f32(tensor_dtype(x)) ? grid_part_f32 : grid_part_f64, &j);
	real_done(y, j.y, true);
	return 0;
}

/* ---- AffineGrid ------------------------------------------------------------------------------- */

/* The coordinate, from -1 to 1, of index i on an axis of n elements. */
static double grid_coordinate(int64_t i, int64_t n, bool align)
{
	if (align)
		return n > 1 ? 2 * (double)i / (double)(n - 1) - 1 : 0;
	return (2 * (double)i + 1) / (double)n - 1;
}

struct affine_job {
	const struct tensor *theta, *y;
	bool align;
	int n; /* spatial dimensions */
};

/* Fills one output line along the last spatial axis, whose coordinate is x. */
static void affine_line(const struct affine_job *j, int64_t line)
{
	const struct shape *s = &j->y->shape;
	enum dtype t = tensor_dtype(j->theta);
	int n = j->n;
	int64_t width = s->dim[n], rest = line;
	double start[3], step[3], at[3];

	for (int d = n - 2; d >= 0; d--) {
		at[n - 1 - d] = grid_coordinate(rest % s->dim[d + 1], s->dim[d + 1], j->align);
		rest /= s->dim[d + 1];
	}
	for (int r = 0; r < n; r++) {
		int64_t m = (rest * n + r) * (n + 1);
		step[r] = elem_f64(t, j->theta->data, m);
		start[r] = elem_f64(t, j->theta->data, m + n);
		for (int k = 1; k < n; k++)
			start[r] += elem_f64(t, j->theta->data, m + k) * at[k];
	}
	double first = grid_coordinate(0, width, j->align),
	       last = grid_coordinate(width - 1, width, j->align);
	double by = width > 1 ? (last - first) / (double)(width - 1) : 0;
	float *y = (float *)j->y->data + line * width * n;
	for (int64_t i = 0; i < width && t == DT_F32 && n == 2; i++) {
		double x = first + (double)i * by;
		y[2 * i] = (float)(start[0] + step[0] * x);
		y[2 * i + 1] = (float)(start[1] + step[1] * x);
	}
	for (int64_t i = 0; i < width * n && !(t == DT_F32 && n == 2); i++) {
		double x = first + (double)(i / n) * by;
		elem_set_f64(t, j->y->data, line * width * n + i, start[i % n] + step[i % n] * x);
	}
}

static void affine_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	(void)thread;
	for (int64_t i = begin; i < end; i++)
		affine_line(arg, i);
}

static int affine_run(const struct call *c)
{
	const struct affine_grid *p = call_params(c);
	const struct tensor *y = c->out[0];
	struct affine_job j = {c->in[0], y, p->align_corners != 0, y->shape.rank - 2};
	int64_t width = y->shape.dim[j.n];

	if (tensor_count(y))
		pool_for(shape_span(&y->shape, 0, j.n), 1 + 4096 / width, affine_piece, &j);
	return 0;
}

/* ---- ImageDecoder ----------------------------------------------------------------------------- */

/*
 * Returns channel c of pixel i as 8 bits; c is 0 for red, 1 for green and 2 for blue. A gray image
 * has the same value in all three channels.
 */
static unsigned pixel_channel(const struct image *im, int64_t i, int c)
{
	int64_t at = i * im->channels + (im->channels < 3 ? 0 : c);

	return im->bits == 16 ? ((const uint16_t *)(const void *)im->pixels)[at] >> 8
			      : im->pixels[at];
}

static unsigned pixel_luma(const struct image *im, int64_t i)
{
	if (im->channels < 3)
		return pixel_channel(im, i, 0);
	/* luma of ITU-R BT.601: the weights 0.299, 0.587 and 0.114, times 65536 */
	return (pixel_channel(im, i, 0) * 19595 + pixel_channel(im, i, 1) * 38470 +
		pixel_channel(im, i, 2) * 7471 + 0x8000) >>
	       16;
}

static int decoder_run(const struct call *c)
{
	const struct image_decoder *p = call_params(c);
	struct image im = {0};
	int channels = p->pixel_format == PIXEL_GRAYSCALE ? 1 : 3;
	int rc = image_decode(c->in[0]->data, (size_t)tensor_count(c->in[0]), &im, E_VALUE, c->diag);

	if (rc)
		return rc;
	struct shape y = shape_of(3, (int64_t[]){im.height, im.width, channels});
	rc = call_alloc(c, 0, DT_U8, &y);
	uint8_t *to = rc ? NULL : c->out[0]->data;
	for (int64_t i = 0; to && i < im.height * im.width; i++) {
		if (channels == 1)
			*to++ = (uint8_t)pixel_luma(&im, i);
		else
			for (int k = 0; k < 3; k++)
				*to++ = (uint8_t)pixel_channel(
					&im, i, p->pixel_format == PIXEL_BGR ? 2 - k : k);
	}
	image_free(&im);
	return rc;
}

const struct kernel cpu_resize[] = {
	{"Resize", T_ALL_OLD | T_BF16, K_REFERENCE, resize_accepts, NULL, resize_reshape,
	 resize_run, NULL, NULL},
	{"GridSample", T_ALL_OLD | T_BF16, K_REFERENCE, grid_accepts, NULL, grid_reshape, grid_run,
	 NULL, NULL},
	{"AffineGrid", T_FLOATS_BF, K_REFERENCE, NULL, NULL, NULL, affine_run, NULL, NULL},
	{"ImageDecoder", T_U8, K_REFERENCE, NULL, NULL, NULL, decoder_run, NULL, NULL},
	{0}};
