/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalizations of rows: LayerNormalization, RMSNormalization and SimplifiedLayerNormalization, also
 * after a residual addition (SkipLayerNormalization) or an embedding (EmbedLayerNormalization).
 */
#include "cpu/norm.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "ops/norm.h"

#include <math.h>
#include <string.h>

/* y = normalize(x + skip + bias) * w + b, for each row of n elements. */
struct rows {
	enum dtype t, ty;
	/* skip has skip_rows rows, bias has one row; either may be NULL */
	const void *x, *skip, *bias;
	int64_t skip_rows;
	const float *w, *b;
	const double *dw, *db; /* w and b when t is f64 */
	bool rms;
	int64_t n;
	double epsilon;
	void *y;
	struct tensor *mean, *inverse, *sum; /* NULL: not wanted */
	float *scratch;
	/*
	 * EmbedLayerNormalization: each row is the sum of one row of each of `tables` tables. gather sets *table to
	 * the k-th table and returns the index of the row to add from that table.
	 */
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

/*
 * Returns the row to normalize in fp32: a row of x itself if x is fp32 and nothing is added, otherwise a row computed
 * in buf.
 */
static const float *row_to_normalize(const struct rows *r, int64_t row, float *buf)
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

static void normalize_row_f32(const struct rows *r, int64_t row, float *buf)
{
	const struct simd *s = simd();
	int64_t n = r->n;
	const float *x = row_to_normalize(r, row, buf);
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

static double row_element_f64(const struct rows *r, int64_t row, int64_t i)
{
	double v = ((const double *)r->x)[row * r->n + i];

	if (r->skip)
		v += ((const double *)r->skip)[row % r->skip_rows * r->n + i];
	return r->bias ? v + ((const double *)r->bias)[i] : v;
}

static void normalize_row_f64(const struct rows *r, int64_t row)
{
	double mean = 0, var = 0, n = (double)r->n;

	for (int64_t i = 0; i < r->n && !r->rms; i++)
		mean += row_element_f64(r, row, i) / n;
	for (int64_t i = 0; i < r->n; i++) {
		double v = row_element_f64(r, row, i) - mean;
		var += v * v / n;
	}
	double inverse = 1 / sqrt(var + r->epsilon);
	for (int64_t i = 0; i < r->n; i++) {
		double x = row_element_f64(r, row, i), v = (x - mean) * inverse;
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

static void normalize_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct rows *r = arg;

	for (int64_t row = begin; row < end; row++) {
		if (r->t == DT_F64)
			normalize_row_f64(r, row);
		else
			normalize_row_f32(r, row, r->scratch + thread * r->n);
	}
}

/*
 * Returns a scale or bias in the type of the computation: t's own data if t has that type, otherwise a copy in `to`.
 */
static const void *row_params(const struct tensor *t, enum dtype with, int64_t n, void *to)
{
	if (!t)
		return NULL;
	if (tensor_dtype(t) == with)
		return t->data;
	for (int64_t i = 0; i < n && with == DT_F64; i++)
		((double *)to)[i] = norm_scalar(t, i);
	if (with == DT_F32)
		for (int64_t i = 0; i < n; i++)
			((float *)to)[i] = (float)norm_scalar(t, i);
	return to;
}

/*
 * Normalizes all rows. w and b may be NULL; otherwise each has n = r->n elements. The workspace has room
 * for w and b as doubles (4 n floats), and then n floats for each thread.
 */
static int normalize_rows(const struct call *c, struct rows *r, int64_t rows,
			  const struct tensor *w, const struct tensor *b)
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
		if (r->b && !r->w) /* normalize cannot add a bias without a scale: use ones */
			for (int64_t i = 0; i < r->n; i++)
				room[i] = 1;
		r->w = r->b && !r->w ? room : r->w;
	}
	if (rows > 0 && r->n > 0)
		pool_for(rows, rows_grain(GRAIN / 2, r->n), normalize_piece, r);
	return 0;
}

static int64_t row_length(const struct shape *s, int64_t axis)
{
	int a = axis_of(axis, s->rank);
	return a < 0 ? 1 : shape_span(s, a, s->rank);
}

int layer_norm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct layer_norm *p = s->node->params;
	int64_t n = row_length(&site_in(s, 0)->shape, p->axis);

	if (site_type(s, 0) == site_out_type(s, 0))
		allow_inplace(step, 0, 0);
	/* 4 n floats are for normalize_rows, the other 4 n for a scale and a bias broadcast to a row */
	return norm_workspace(s, step, d, n > INT64_MAX / 64 ? -1 : 8 * n, n);
}

/*
 * Returns scale or bias t as one row of n elements: t itself, or *copy, whose data is broadcast into `room`. If t
 * differs from row to row, t is returned unchanged.
 */
static const struct tensor *broadcast_to_row(const struct call *c, const struct tensor *t, int axis,
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
		room[i] = (float)norm_scalar(t, off);
	}
	return copy;
}

/*
 * Multiplies the normalized y by w and adds b (both may be NULL), broadcast to the shape of y. This function serves a
 * scale or bias that differs from row to row, which normalize_rows cannot apply.
 */
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
				v = k ? v + norm_scalar(both[k], off) : v * norm_scalar(both[k], off);
		}
		elem_set_f64(tensor_dtype(y), y->data, i, v);
	}
	return 0;
}

int layer_norm_run(const struct call *c)
{
	const struct layer_norm *p = call_params(c);
	const struct tensor *x = c->in[0], *w = c->in[1], *b = NULL;
	bool layer = c->step->node->op->variant != NORM_RMS;
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
		b = optional_in(c, 2);
		r.mean = optional_out(c, 1);
		r.inverse = optional_out(c, 2);
	} else {
		r.inverse = optional_out(c, 1);
	}
	w = broadcast_to_row(c, w, axis, n, &wcopy, room);
	b = broadcast_to_row(c, b, axis, n, &bcopy, room + 2 * n);
	int64_t rows = n ? tensor_count(x) / n : 0;
	if (!n && r.mean) /* the mean of an empty row is NaN */
		for (int64_t i = 0; i < tensor_count(r.mean); i++)
			elem_set_f64(tensor_dtype(r.mean), r.mean->data, i, (double)NAN);
	if ((!w || tensor_count(w) == n) && (!b || tensor_count(b) == n))
		return normalize_rows(c, &r, rows, w, b);
	int err = normalize_rows(c, &r, rows, NULL, NULL);
	return err ? err : apply_affine(c, w, b);
}

int skip_norm_reshape(struct site *s, struct step *step, struct diag *d)
{
	int64_t n = row_length(&site_in(s, 0)->shape, -1);

	return norm_workspace(s, step, d, n > INT64_MAX / 64 ? -1 : 4 * n, n);
}

int skip_norm_run(const struct call *c)
{
	const struct epsilon *p = call_params(c);
	const struct tensor *x = c->in[0], *skip = c->in[1];
	bool rms = c->step->node->op->variant == NORM_RMS;
	const struct tensor *bias = optional_in(c, rms ? 3 : 4);
	struct rows r = {.t = tensor_dtype(x),
			 .ty = tensor_dtype(x),
			 .x = x->data,
			 .skip = skip->data,
			 .bias = bias ? bias->data : NULL,
			 .rms = rms,
			 .n = row_length(&x->shape, -1),
			 .epsilon = (double)p->epsilon,
			 .y = c->out[0]->data,
			 .mean = optional_out(c, 1),
			 .inverse = optional_out(c, 2),
			 .sum = optional_out(c, 3)};

	if (tensor_count(x) == 0)
		return 0;
	if (tensor_count(skip) == 0 || tensor_count(skip) % r.n ||
	    tensor_count(x) % tensor_count(skip) || (bias && tensor_count(bias) != r.n))
		return call_fail(c, E_SHAPE,
				 "a skip that repeats over the input and a bias of one row",
				 "other shapes");
	r.skip_rows = tensor_count(skip) / r.n;
	return normalize_rows(c, &r, tensor_count(x) / r.n, c->in[2], rms ? NULL : optional_in(c, 3));
}

/* ---- EmbedLayerNormalization ----------------------------------------------------------------- */

/*
 * Returns the row of table k that is added for an output row; k is 0 for words, 1 for positions and 2 for segments.
 * Sets *table to the table, or to NULL if there are no segments.
 */
static int64_t embed_row(const struct rows *r, int64_t row, int k, const struct tensor **table)
{
	const struct tensor *const *in = r->call->in;
	const struct tensor *position = optional_in(r->call, 8), *segment = in[1];
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

int embed_norm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct vinfo *w = site_in(s, 2);
	int64_t n = w->shape.rank == 2 ? w->shape.dim[1] : 0;

	return norm_workspace(s, step, d, n > INT64_MAX / 64 ? -1 : 4 * n, n);
}

/* Writes the output mask_index, which is the number of unmasked tokens of each sequence, or 0 if there is no mask. */
static void write_mask_index(const struct call *c)
{
	struct tensor *y = optional_out(c, 1);
	const struct tensor *mask = optional_in(c, 7);
	int64_t length = c->in[0]->shape.dim[1];

	for (int64_t b = 0; y && b < tensor_count(y); b++) {
		int64_t n = 0;
		for (int64_t i = 0; mask && i < length; i++)
			n += elem_i64(DT_I32, mask->data, b * length + i) != 0;
		elem_set_i64(DT_I32, y->data, b, n);
	}
}

int embed_norm_run(const struct call *c)
{
	const struct embed_norm *p = call_params(c);
	const struct tensor *ids = c->in[0];
	int64_t n = c->in[2]->shape.dim[1], rows = tensor_count(ids);
	struct rows r = {.t = tensor_dtype(c->in[2]),
			 .ty = tensor_dtype(c->in[2]),
			 .n = n,
			 .epsilon = (double)p->epsilon,
			 .y = c->out[0]->data,
			 .sum = optional_out(c, 2),
			 .gather = embed_row,
			 .call = c,
			 .tables = optional_in(c, 1) && c->in[4] ? 3 : 2};

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
	write_mask_index(c);
	return normalize_rows(c, &r, rows, c->in[5], c->in[6]);
}

bool embed_norm_accepts(const struct site *s, struct why *w)
{
	if (site_type(s, 2) == DT_F64)
		return refuse(w, "tables of f64");
	return true;
}
