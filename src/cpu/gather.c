/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that pick or replace elements by index: Gather, Scatter, OneHot, Compress, TensorScatter. */
#include "ops/gather.h"

#include "base/pool.h"
#include "cpu/math/move.h"
#include "ops/ints.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>

/* Returns element i of an index array, which has type int64 if `wide`, otherwise int32. */
static inline int64_t index_at(const void *p, bool wide, int64_t i)
{
	return wide ? ((const int64_t *)p)[i] : ((const int32_t *)p)[i];
}

static int fail_index(const struct call *c, int64_t i, int64_t n)
{
	return call_fail(c, E_VALUE, fmt(c->diag, "indices from %" PRId64 " to %" PRId64, -n, n - 1),
			 fmt(c->diag, "%" PRId64, i));
}

/* The position of the first index outside -n..n-1, or count if there is none. */
static int64_t first_bad_index(const void *p, bool wide, int64_t count, int64_t n)
{
	if (wide) {
		const int64_t *v = p;
		for (int64_t i = 0; i < count; i++)
			if (v[i] < -n || v[i] >= n)
				return i;
	} else {
		const int32_t *v = p;
		for (int64_t i = 0; i < count; i++)
			if (v[i] < -n || v[i] >= n)
				return i;
	}
	return count;
}

/* ---- Gather ---------------------------------------------------------------------------------------- */

struct gather_job {
	const char *x;
	char *y;
	const void *index;
	bool wide;
	int64_t n, count; /* size of the axis; number of indices */
	size_t run;	  /* number of adjacent bytes that one index selects */
};

#define GATHER_LOOP(type)                                                                          \
	do {                                                                                       \
		type *out = (type *)(void *)j->y;                                                  \
		for (int64_t k = begin; k < end;) {                                                \
			int64_t o = k / j->count, first = o * j->count;                            \
			int64_t stop = first + j->count < end ? first + j->count : end;            \
			const type *in = (const type *)(const void *)j->x + o * j->n;              \
			for (; k < stop; k++) {                                                    \
				int64_t i = index_at(j->index, j->wide, k - first);                \
				out[k] = in[i < 0 ? i + j->n : i];                                 \
			}                                                                          \
		}                                                                                  \
	} while (0)

static void gather_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct gather_job *j = arg;

	(void)thread;
	if (j->run == 4) {
		GATHER_LOOP(uint32_t);
		return;
	}
	if (j->run == 8) {
		GATHER_LOOP(uint64_t);
		return;
	}
	int64_t o = begin / j->count, at = begin % j->count;
	for (int64_t k = begin; k < end; k++) {
		int64_t i = index_at(j->index, j->wide, at);
		i += i < 0 ? j->n : 0;
		copy_run(j->y + (size_t)k * j->run, j->x + (size_t)(o * j->n + i) * j->run, j->run);
		if (++at == j->count) {
			at = 0;
			o++;
		}
	}
}

static int gather_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct gather_params *p = call_params(c);
	const struct shape *x = &c->in[0]->shape, *y = &c->out[0]->shape;
	int axis = axis_of(p->axis, x->rank);
	struct gather_job j = {.index = c->in[1]->data,
			       .wide = tensor_dtype(c->in[1]) == DT_I64,
			       .n = x->dim[axis],
			       .count = tensor_count(c->in[1]),
			       .run = (size_t)shape_span(x, axis + 1, x->rank) * m->size,
			       .y = move_out(m, 0, y)};
	int64_t bad = first_bad_index(j.index, j.wide, j.count, j.n);

	if (bad < j.count)
		return fail_index(c, index_at(j.index, j.wide, bad), j.n);
	if (!shape_count(y))
		return 0;
	if (!j.y)
		return -E_RUN;
	j.x = move_in(m, 0);
	pool_for(shape_span(x, 0, axis) * j.count, move_grain((int64_t)j.run), gather_piece, &j);
	return 0;
}

static int gather_run(const struct call *c)
{
	return move_run(c, 0, gather_core);
}

/* ---- GatherElements, ScatterElements: along one axis ------------------------------------------------- */

/* How positions in the index tensor map to elements of the data. */
struct along {
	int rank, axis;
	int64_t n;				 /* size of the data along the axis */
	int64_t dim[MAX_RANK], stride[MAX_RANK]; /* dims of the index tensor; strides of the data */
	int64_t rows, last; /* the index tensor has `rows` rows of `last` indices */
	bool wide;
};

static int along_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape, *i = &site_in(s, 1)->shape;
	struct along *a = arena_new(s->plan_arena, struct along);
	int64_t axis = ((const struct gather_params *)site_params(s))->axis;

	_Static_assert(offsetof(struct gather_params, axis) == offsetof(struct scatter_params, axis),
		       "axis first");
	(void)d;
	a->rank = x->rank;
	a->axis = axis_of(axis, x->rank);
	a->n = x->dim[a->axis];
	dense_strides(x, a->stride);
	for (int k = 0; k < x->rank; k++)
		a->dim[k] = i->dim[k];
	a->last = i->dim[i->rank - 1];
	a->rows = shape_span(i, 0, i->rank - 1);
	a->wide = site_in(s, 1)->type.dtype == DT_I64;
	st->state = a;
	return 0;
}

/*
 * Returns the offset in the data that corresponds to the coordinates of row r of the index tensor. The coordinate
 * along the axis is left out, because the indices replace that coordinate.
 */
static int64_t along_row_offset(const struct along *a, int64_t r)
{
	int64_t at = 0;

	for (int i = a->rank - 2; i >= 0; i--) {
		if (i != a->axis)
			at += r % a->dim[i] * a->stride[i];
		r /= a->dim[i];
	}
	return at;
}

struct along_job {
	const struct along *a;
	const char *x;
	char *y;
	const void *index;
	size_t size;
	_Atomic int64_t bad; /* position of an index out of range, or -1 */
};

#define ALONG_LOOP(type, index_type)                                                               \
	do {                                                                                       \
		const type *x = (const type *)(const void *)j->x + base;                           \
		type *y = (type *)(void *)j->y + r * a->last;                                      \
		const index_type *v = (const index_type *)j->index + r * a->last;                  \
		for (int64_t k = 0; k < a->last; k++) {                                            \
			int64_t i = v[k];                                                          \
			i += i < 0 ? a->n : 0;                                                     \
			if ((uint64_t)i >= (uint64_t)a->n) {                                       \
				j->bad = r * a->last + k;                                          \
				return;                                                            \
			}                                                                          \
			y[k] = x[i * step + k * hop];                                              \
		}                                                                                  \
	} while (0)

static void gather_along(void *arg, int64_t begin, int64_t end, int thread)
{
	struct along_job *j = arg;
	const struct along *a = j->a;
	/*
	 * In each row, the index i at position k selects data element base + i * step + k * hop. If the axis is the
	 * last dim, i replaces the position, so hop is 0.
	 */
	int64_t step = a->stride[a->axis], hop = a->axis == a->rank - 1 ? 0 : 1;

	(void)thread;
	for (int64_t r = begin; r < end; r++) {
		int64_t base = along_row_offset(a, r);
		if (j->size == 4 && a->wide)
			ALONG_LOOP(uint32_t, int64_t);
		else if (j->size == 4)
			ALONG_LOOP(uint32_t, int32_t);
		else if (j->size == 8 && a->wide)
			ALONG_LOOP(uint64_t, int64_t);
		else if (j->size == 8)
			ALONG_LOOP(uint64_t, int32_t);
		else {
			for (int64_t k = 0; k < a->last; k++) {
				int64_t at = r * a->last + k, i = index_at(j->index, a->wide, at);
				i += i < 0 ? a->n : 0;
				if (i < 0 || i >= a->n) {
					j->bad = at;
					return;
				}
				copy_run(j->y + (size_t)at * j->size,
					 j->x + (size_t)(base + i * step + k * hop) * j->size,
					 j->size);
			}
		}
	}
}

static int gather_elements_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct along *a = c->step->state;
	struct along_job j = {.a = a,
			      .index = c->in[1]->data,
			      .size = m->size,
			      .bad = -1,
			      .y = move_out(m, 0, &c->out[0]->shape)};

	if (!a->rows || !a->last)
		return 0;
	if (!j.y)
		return -E_RUN;
	j.x = move_in(m, 0);
	pool_for(a->rows, move_grain(a->last * (int64_t)m->size), gather_along, &j);
	return j.bad < 0 ? 0 : fail_index(c, index_at(j.index, a->wide, j.bad), a->n);
}

static int gather_elements_run(const struct call *c)
{
	return move_run(c, 0, gather_elements_core);
}

/* ---- reductions of scatter ----------------------------------------------------------------------------- */

/*
 * reduce_f64 and reduce_i64 are helpers of reduce_any, which computes a[i] = reduce(a[i], b[k]). `how` is one of
 * SCATTER_ADD to SCATTER_MIN.
 */
static double reduce_f64(int how, double a, double b)
{
	if (how == SCATTER_ADD)
		return a + b;
	if (how == SCATTER_MUL)
		return a * b;
	if (isnan(a) || isnan(b))
		return NAN;
	return how == SCATTER_MAX ? (a > b ? a : b) : (a < b ? a : b);
}

static int64_t reduce_i64(int how, bool is_unsigned, int64_t a, int64_t b)
{
	bool less = is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;

	if (how == SCATTER_ADD)
		return (int64_t)((uint64_t)a + (uint64_t)b);
	if (how == SCATTER_MUL)
		return (int64_t)((uint64_t)a * (uint64_t)b);
	return how == SCATTER_MAX ? (less ? b : a) : (less ? a : b);
}

static void reduce_c128(int how, double *a, const double *b)
{
	double re = a[0] * b[0] - a[1] * b[1], im = a[0] * b[1] + a[1] * b[0];

	a[0] = how == SCATTER_ADD ? a[0] + b[0] : re;
	a[1] = how == SCATTER_ADD ? a[1] + b[1] : im;
}

static void reduce_complex(enum dtype t, int how, void *a, int64_t i, const void *b, int64_t k)
{
	if (t == DT_C128) {
		reduce_c128(how, (double *)a + 2 * i, (const double *)b + 2 * k);
		return;
	}
	float *x = (float *)a + 2 * i;
	const float *y = (const float *)b + 2 * k;
	double v[2] = {(double)x[0], (double)x[1]}, w[2] = {(double)y[0], (double)y[1]};
	reduce_c128(how, v, w);
	x[0] = (float)v[0];
	x[1] = (float)v[1];
}

static void reduce_any(enum dtype t, int how, void *a, int64_t i, const void *b, int64_t k)
{
	enum dtype_class cls = dtype_class(t);

	if (t == DT_BOOL) {
		uint8_t *x = (uint8_t *)a + i, y = ((const uint8_t *)b)[k];
		*x = how == SCATTER_ADD || how == SCATTER_MAX ? *x | y : *x & y;
	} else if (cls == DT_COMPLEX) {
		reduce_complex(t, how, a, i, b, k);
	} else if (cls == DT_FLOAT) {
		elem_set_f64(t, a, i, reduce_f64(how, elem_f64(t, a, i), elem_f64(t, b, k)));
	} else {
		elem_set_i64(t, a, i,
			     reduce_i64(how, cls == DT_UINT, elem_i64(t, a, i), elem_i64(t, b, k)));
	}
}

/* Reduces n elements of a, from index i on, with n elements of b, from index k on. */
static void reduce_span(enum dtype t, int how, void *a, int64_t i, const void *b, int64_t k, int64_t n)
{
	if (t == DT_F32 && how == SCATTER_ADD) {
		float *x = (float *)a + i;
		const float *y = (const float *)b + k;
		for (int64_t e = 0; e < n; e++)
			x[e] += y[e];
		return;
	}
	for (int64_t e = 0; e < n; e++)
		reduce_any(t, how, a, i + e, b, k + e);
}

/* ---- ScatterElements ----------------------------------------------------------------------------------- */

#define SCATTER_LOOP(type)                                                                         \
	do {                                                                                       \
		const type *u = (const type *)(const void *)j->x + r * a->last;                    \
		type *y = (type *)(void *)j->y + base;                                             \
		for (int64_t k = 0; k < a->last; k++) {                                            \
			int64_t i = index_at(j->index, a->wide, r * a->last + k);                  \
			i += i < 0 ? a->n : 0;                                                     \
			if ((uint64_t)i >= (uint64_t)a->n) {                                       \
				j->bad = r * a->last + k;                                          \
				return;                                                            \
			}                                                                          \
			y[i * step + k * hop] = u[k];                                              \
		}                                                                                  \
	} while (0)

struct scatter_job {
	struct along_job j;
	enum dtype type;
	int how;
	/* number of rows that may write to the same element; one task handles these rows in order */
	int64_t group;
};

static void scatter_row(struct scatter_job *s, int64_t r)
{
	struct along_job *j = &s->j;
	const struct along *a = j->a;
	int64_t step = a->stride[a->axis], hop = a->axis == a->rank - 1 ? 0 : 1,
		base = along_row_offset(a, r);

	if (s->how == SCATTER_NONE && j->size == 4) {
		SCATTER_LOOP(uint32_t);
		return;
	}
	if (s->how == SCATTER_NONE && j->size == 8) {
		SCATTER_LOOP(uint64_t);
		return;
	}
	for (int64_t k = 0; k < a->last; k++) {
		int64_t at = r * a->last + k, i = index_at(j->index, a->wide, at), to;
		i += i < 0 ? a->n : 0;
		if (i < 0 || i >= a->n) {
			j->bad = at;
			return;
		}
		to = base + i * step + k * hop;
		if (s->how == SCATTER_NONE)
			copy_run(j->y + (size_t)to * j->size, j->x + (size_t)at * j->size, j->size);
		else if (s->type == DT_F32 && s->how == SCATTER_ADD)
			((float *)(void *)j->y)[to] += ((const float *)(const void *)j->x)[at];
		else
			reduce_any(s->type, s->how, j->y, to, j->x, at);
	}
}

static void scatter_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	struct scatter_job *s = arg;

	(void)thread;
	for (int64_t r = begin * s->group; r < end * s->group && s->j.bad < 0; r++)
		scatter_row(s, r);
}

static int scatter_elements_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct scatter_params *p = call_params(c);
	const struct along *a = c->step->state;
	struct scatter_job s = {.type = tensor_dtype(c->in[0]), .how = p->reduction, .group = 1};
	char *y = move_out(m, 0, &c->out[0]->shape);
	int64_t total = tensor_count(c->in[0]);

	if (!total)
		return tensor_count(c->in[1]) ? fail_index(c, 0, 0) : 0;
	if (!y)
		return -E_RUN;
	move_bytes(y, move_in(m, 0), (size_t)total * m->size);
	if (!a->rows || !a->last)
		return 0;
	s.j.a = a;
	s.j.x = move_in(m, 2);
	s.j.y = y;
	s.j.index = c->in[1]->data;
	s.j.size = m->size;
	s.j.bad = -1;
	/*
	 * Two rows can write to the same element only if their coordinates before the axis are equal. Groups of such rows
	 * are independent, so different threads may handle them.
	 */
	for (int i = a->axis; i < a->rank - 1; i++)
		s.group *= a->dim[i];
	pool_for(a->rows / s.group, move_grain(a->last * s.group * (int64_t)m->size), scatter_piece,
		 &s);
	return s.j.bad < 0 ? 0 : fail_index(c, index_at(s.j.index, a->wide, s.j.bad), a->n);
}

/*
 * Handles reductions of types of less than a byte. move_run would unpack the elements to raw bits, which cannot be
 * reduced, so this function works on the packed data, element by element.
 */
static int scatter_elements_packed(const struct call *c)
{
	const struct scatter_params *p = call_params(c);
	const struct along *a = c->step->state;
	enum dtype t = tensor_dtype(c->in[0]);
	int64_t step = a->stride[a->axis], hop = a->axis == a->rank - 1 ? 0 : 1;
	void *y = c->out[0]->data;

	move_bytes(y, c->in[0]->data, c->in[0]->bytes);
	for (int64_t r = 0; r < a->rows; r++) {
		int64_t base = along_row_offset(a, r);
		for (int64_t k = 0; k < a->last; k++) {
			int64_t at = r * a->last + k, i = index_at(c->in[1]->data, a->wide, at);
			i += i < 0 ? a->n : 0;
			if (i < 0 || i >= a->n)
				return fail_index(c, i, a->n);
			reduce_any(t, p->reduction, y, base + i * step + k * hop, c->in[2]->data, at);
		}
	}
	return 0;
}

static int scatter_elements_run(const struct call *c)
{
	const struct scatter_params *p = call_params(c);

	if (p->reduction != SCATTER_NONE && dtype_bits(tensor_dtype(c->in[0])) < 8)
		return scatter_elements_packed(c);
	return move_run(c, 0, scatter_elements_core);
}

static int scatter_elements_reshape(struct site *s, struct step *st, struct diag *d)
{
	st->inplace[0].out = 0;
	st->inplace[0].in = 0;
	st->ninplace = 1;
	return along_reshape(s, st, d);
}

/* ---- GatherND, ScatterND ---------------------------------------------------------------------------------- */

/* How the index tuples of GatherND and ScatterND select runs of contiguous elements of the data. */
struct tuples {
	int64_t q, count;	/* number of indices of a tuple; number of tuples */
	int64_t run, per_batch; /* number of elements of a run; number of tuples of a batch */
	int64_t batch_stride;
	/* sizes and strides of the data dims that the indices of a tuple select */
	int64_t dim[MAX_RANK], stride[MAX_RANK];
};

static void tuples_set(struct tuples *t, const struct shape *x, const struct shape *i, int batch)
{
	int64_t dense[MAX_RANK];

	dense_strides(x, dense);
	t->q = i->dim[i->rank - 1];
	t->count = shape_span(i, 0, i->rank - 1);
	t->run = shape_span(x, batch + (int)t->q, x->rank);
	t->per_batch = shape_span(i, batch, i->rank - 1);
	t->batch_stride = shape_span(x, batch, x->rank);
	for (int k = 0; k < t->q; k++) {
		t->dim[k] = x->dim[batch + k];
		t->stride[k] = dense[batch + k];
	}
}

static int gather_nd_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct gather_nd_params *p = site_params(s);

	(void)d;
	st->state = arena_new(s->plan_arena, struct tuples);
	tuples_set(st->state, &site_in(s, 0)->shape, &site_in(s, 1)->shape, (int)p->batch_dims);
	return 0;
}

static int scatter_nd_reshape(struct site *s, struct step *st, struct diag *d)
{
	(void)d;
	st->state = arena_new(s->plan_arena, struct tuples);
	tuples_set(st->state, &site_in(s, 0)->shape, &site_in(s, 1)->shape, 0);
	st->inplace[0].out = 0;
	st->inplace[0].in = 0;
	st->ninplace = 1;
	return 0;
}

/*
 * Returns the offset of the run that tuple k selects. If an index of the tuple is out of range, returns -1 and sets
 * *which to the position of that index.
 */
static int64_t tuple_offset(const struct tuples *t, const int64_t *index, int64_t k, int64_t *which)
{
	int64_t at = t->per_batch ? k / t->per_batch * t->batch_stride : 0;

	for (int64_t j = 0; j < t->q; j++) {
		int64_t i = index[k * t->q + j];
		if (i < -t->dim[j] || i >= t->dim[j]) {
			*which = k * t->q + j;
			return -1;
		}
		at += (i < 0 ? i + t->dim[j] : i) * t->stride[j];
	}
	return at;
}

struct tuples_job {
	const struct tuples *t;
	const int64_t *index;
	const char *x;
	char *y;
	size_t size;
	_Atomic int64_t bad;
};

static void gather_tuples(void *arg, int64_t begin, int64_t end, int thread)
{
	struct tuples_job *j = arg;
	size_t run = (size_t)j->t->run * j->size;
	int64_t which = 0;

	(void)thread;
	for (int64_t k = begin; k < end; k++) {
		int64_t at = tuple_offset(j->t, j->index, k, &which);
		if (at < 0) {
			j->bad = which;
			return;
		}
		copy_run(j->y + (size_t)k * run, j->x + (size_t)at * j->size, run);
	}
}

static int fail_tuple(const struct call *c, const struct tuples *t, const int64_t *index, int64_t bad)
{
	return fail_index(c, index[bad], t->dim[bad % t->q]);
}

static int gather_nd_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct tuples *t = c->step->state;
	struct tuples_job j = {.t = t,
			       .index = c->in[1]->data,
			       .size = m->size,
			       .bad = -1,
			       .y = move_out(m, 0, &c->out[0]->shape)};

	if (!shape_count(&c->out[0]->shape))
		return 0;
	if (!j.y)
		return -E_RUN;
	j.x = move_in(m, 0);
	pool_for(t->count, move_grain(t->run * (int64_t)m->size), gather_tuples, &j);
	return j.bad < 0 ? 0 : fail_tuple(c, t, j.index, j.bad);
}

static int gather_nd_run(const struct call *c)
{
	return move_run(c, 0, gather_nd_core);
}

static int scatter_nd_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct scatter_params *p = call_params(c);
	const struct tuples *t = c->step->state;
	const int64_t *index = c->in[1]->data;
	char *y = move_out(m, 0, &c->out[0]->shape);
	size_t run = (size_t)t->run * m->size;
	int64_t which = 0, total = tensor_count(c->in[0]);
	enum dtype type = tensor_dtype(c->in[0]);

	if (total && !y)
		return -E_RUN;
	if (total)
		move_bytes(y, move_in(m, 0), (size_t)total * m->size);
	/* an update of elements has no place in a tensor without any: its index is refused below */
	if (!t->run)
		return 0;
	const char *u = move_in(m, 2);
	for (int64_t k = 0; k < t->count; k++) {
		int64_t at = tuple_offset(t, index, k, &which);
		if (at < 0)
			return fail_tuple(c, t, index, which);
		if (p->reduction == SCATTER_NONE)
			copy_run(y + (size_t)at * m->size, u + (size_t)k * run, run);
		else
			reduce_span(type, p->reduction, y, at, u, k * t->run, t->run);
	}
	return 0;
}

/* Handles reductions of types of less than a byte, as scatter_elements_packed does. */
static int scatter_nd_packed(const struct call *c)
{
	const struct scatter_params *p = call_params(c);
	const struct tuples *t = c->step->state;
	int64_t which = 0;

	move_bytes(c->out[0]->data, c->in[0]->data, c->in[0]->bytes);
	for (int64_t k = 0; k < t->count; k++) {
		int64_t at = tuple_offset(t, c->in[1]->data, k, &which);
		if (at < 0)
			return fail_tuple(c, t, c->in[1]->data, which);
		reduce_span(tensor_dtype(c->in[0]), p->reduction, c->out[0]->data, at,
			    c->in[2]->data, k * t->run, t->run);
	}
	return 0;
}

static int scatter_nd_run(const struct call *c)
{
	const struct scatter_params *p = call_params(c);

	if (p->reduction != SCATTER_NONE && dtype_bits(tensor_dtype(c->in[0])) < 8)
		return scatter_nd_packed(c);
	return move_run(c, 0, scatter_nd_core);
}

/* ---- OneHot -------------------------------------------------------------------------------------------------- */

static int one_hot_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct one_hot_params *p = call_params(c);
	const struct tensor *x = c->in[0];
	const struct shape *s = &c->out[0]->shape;
	int axis = axis_of(p->axis, s->rank);
	int64_t depth = s->dim[axis], inner = shape_span(s, axis + 1, s->rank),
		total = shape_count(s);
	const char *values = move_in(m, 2);
	char *y = move_out(m, 0, s);

	if (tensor_count(c->in[2]) != 2)
		return call_fail(c, E_SHAPE, "two values", NULL);
	if (!total)
		return 0;
	if (!y)
		return -E_RUN;
	fill_run(y, values, total, m->size);
	for (int64_t k = 0, n = tensor_count(x); k < n; k++) {
		int64_t i = elem_i64(tensor_dtype(x), x->data, k);
		if (i < -depth || i >= depth)
			continue;
		i += i < 0 ? depth : 0;
		int64_t at = (k / inner * depth + i) * inner + k % inner;
		copy_run(y + (size_t)at * m->size, values + m->size, m->size);
	}
	return 0;
}

static int one_hot_run(const struct call *c)
{
	return move_run(c, 2, one_hot_core);
}

/* ---- Compress ------------------------------------------------------------------------------------------------- */

static int compress_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct compress_params *p = call_params(c);
	const struct shape *x = &c->in[0]->shape;
	const uint8_t *keep = c->in[1]->data;
	bool flat = p->axis == INT_ABSENT;
	int axis = flat ? 0 : axis_of(p->axis, x->rank);
	struct shape s = flat ? (struct shape){.rank = 1} : *x;
	int64_t n = flat ? shape_count(x) : x->dim[axis], given = tensor_count(c->in[1]), kept = 0;
	int64_t outer = flat ? 1 : shape_span(x, 0, axis),
		inner = flat ? 1 : shape_span(x, axis + 1, x->rank);
	size_t run = (size_t)inner * m->size;

	for (int64_t k = 0; k < n && k < given; k++)
		kept += keep[k] != 0;
	s.dim[axis] = kept;
	char *y = move_out(m, 0, &s);
	if (!shape_count(&s))
		return 0;
	if (!y)
		return -E_RUN;
	const char *from = move_in(m, 0);
	for (int64_t o = 0; o < outer; o++) {
		for (int64_t k = 0; k < n && k < given; k++) {
			if (!keep[k])
				continue;
			copy_run(y, from + (size_t)(o * n + k) * run, run);
			y += run;
		}
	}
	return 0;
}

static int compress_run(const struct call *c)
{
	return move_run(c, 0, compress_core);
}

/* ---- TensorScatter -------------------------------------------------------------------------------------------- */

static int tensor_scatter_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct tensor_scatter_params *p = call_params(c);
	const struct shape *x = &c->in[0]->shape, *u = &c->in[1]->shape;
	const int64_t *at = c->step->nin > 2 && c->in[2] ? c->in[2]->data : NULL;
	int axis = axis_of(p->axis, x->rank);
	int64_t room = x->dim[axis], len = u->dim[axis];
	int64_t between = shape_span(x, 1, axis),
		run = shape_span(x, axis + 1, x->rank) * (int64_t)m->size;
	char *y = move_out(m, 0, x);

	if (!shape_count(x))
		return 0;
	if (!y)
		return -E_RUN;
	move_bytes(y, move_in(m, 0), (size_t)shape_count(x) * m->size);
	const char *from = move_in(m, 1);
	for (int64_t b = 0; b < x->dim[0]; b++) {
		int64_t start = at ? at[b] : 0;
		bool fits = start >= 0 && (p->mode == TENSOR_SCATTER_CIRCULAR || start <= room - len);
		if (!fits)
			return call_fail(c, E_VALUE,
					 fmt(c->diag, "write indices from 0 to %" PRId64, room - len),
					 fmt(c->diag, "%" PRId64, start));
		start %= room; /* a circular one may be any number */
		for (int64_t r = 0; r < between; r++)
			for (int64_t k = 0; k < len; k++)
				copy_run(y + ((b * between + r) * room + (start + k) % room) * run,
					 from + ((b * between + r) * len + k) * run, (size_t)run);
	}
	return 0;
}

static int tensor_scatter_run(const struct call *c)
{
	return move_run(c, 0, tensor_scatter_core);
}

static int tensor_scatter_reshape(struct site *s, struct step *st, struct diag *d)
{
	(void)s;
	(void)d;
	st->inplace[0].out = 0;
	st->inplace[0].in = 0;
	st->ninplace = 1;
	return 0;
}

const struct kernel cpu_gather[] = {
	{.op = "Gather", .flags = K_REFERENCE, .run = gather_run},
	{.op = "GatherElements", .flags = K_REFERENCE, .reshape = along_reshape, .run = gather_elements_run},
	{.op = "GatherND", .flags = K_REFERENCE, .reshape = gather_nd_reshape, .run = gather_nd_run},
	{.op = "ScatterElements",
	 .flags = K_REFERENCE,
	 .reshape = scatter_elements_reshape,
	 .run = scatter_elements_run},
	{.op = "Scatter",
	 .flags = K_REFERENCE,
	 .reshape = scatter_elements_reshape,
	 .run = scatter_elements_run},
	{.op = "ScatterND", .flags = K_REFERENCE, .reshape = scatter_nd_reshape, .run = scatter_nd_run},
	{.op = "OneHot", .flags = K_REFERENCE, .run = one_hot_run},
	{.op = "Compress", .flags = K_REFERENCE, .run = compress_run},
	{.op = "TensorScatter",
	 .flags = K_REFERENCE,
	 .reshape = tensor_scatter_reshape,
	 .run = tensor_scatter_run},
	{0}};
