/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/slice.h"

#include "base/pool.h"
#include "cpu/math/move.h"
#include "cpu/math/util.h"

/* A strided copy whose first element is element `from` of the input. */
struct window_copy {
	int64_t from;
	struct strided view;
};

static int copy_window(struct mover *m)
{
	const struct window_copy *w = m->call->step->state;
	char *y = move_out(m, 0, &m->call->out[0]->shape);

	if (!w->view.total)
		return 0;
	if (!y)
		return -E_RUN;
	strided_copy(&w->view, (const char *)move_in(m, 0) + w->from * (int64_t)m->size, y, m->size);
	return 0;
}

static int copy_input(struct mover *m)
{
	void *y = move_out(m, 0, &m->call->out[0]->shape);

	if (y)
		move_bytes(y, move_in(m, 0), (size_t)tensor_count(m->call->in[0]) * m->size);
	return 0;
}

static int window_run(const struct call *c)
{
	if (!c->step->nop)
		return move_run(c, 0, copy_window);
	return c->out[0]->data == c->in[0]->data ? 0 : move_run(c, 0, copy_input);
}

/* Both tensors have the layout l. */
static void window_set_copy(struct window_copy *w, const struct shape *x, const struct shape *y,
			    enum layout l, const struct slice_spec *spec)
{
	int64_t dense[MAX_RANK], in[MAX_RANK], out[MAX_RANK], len[MAX_RANK];
	const struct shape from = stored_shape(x, l), to = stored_shape(y, l);

	dense_strides(&from, dense);
	dense_strides(&to, out);
	for (int i = 0; i < x->rank; i++) {
		int at = stored_dim(i, x->rank, l);
		in[at] = dense[at] * spec->step[i];
		len[at] = spec->len[i];
		w->from += dense[at] * spec->from[i];
	}
	strided_set(&w->view, x->rank, len, in, out);
}

static int slice_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	struct int_list l[4];
	struct slice_spec spec;
	bool has_axes = site_in(s, 3), has_steps = site_in(s, 4);
	const char *bad = NULL;

	if (!site_list(s, 1, &l[0]) || !site_list(s, 2, &l[1]) ||
	    (has_axes && !site_list(s, 3, &l[2])) || (has_steps && !site_list(s, 4, &l[3])))
		return site_fail(s, d, E_INTERNAL, "known starts, ends, axes and steps", NULL);
	bad = slice_spec(x, &l[0], &l[1], has_axes ? &l[2] : NULL, has_steps ? &l[3] : NULL, &spec);
	if (bad)
		return site_fail(s, d, E_VALUE, "starts, ends, axes and steps that fit", bad);
	struct window_copy *w = arena_new(s->plan_arena, struct window_copy);
	st->nop = shape_equal(x, y);
	for (int i = 0; i < x->rank; i++)
		st->nop &= spec.step[i] == 1;
	window_set_copy(w, x, y, st->nop ? LAYOUT_ROW : move_in_layout(s, st, 1), &spec);
	st->state = w;
	return 0;
}

static int crop_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct crop_params *p = site_params(s);
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	struct window_copy *w = arena_new(s->plan_arena, struct window_copy);
	struct slice_spec spec;

	(void)d;
	for (int i = 0; i < 4; i++) {
		spec.from[i] = i < 2 ? 0 : p->border.v[3 - i];
		spec.step[i] = 1;
		spec.len[i] = y->dim[i];
	}
	window_set_copy(w, x, y, LAYOUT_ROW, &spec);
	st->state = w;
	return 0;
}

/* ---- Split --------------------------------------------------------------------------------------- */

struct split {
	int64_t outer, row;
	/*
	 * For each output: the offset of its part in an input row, and the number of elements of
	 * the part.
	 */
	int64_t *from, *part;
};

static int split_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct split_params *p = site_params(s);
	struct split *v = arena_new(s->plan_arena, struct split);
	const struct tensor *sizes = site_known(s, 1);
	struct int_list l = {0};

	st->nop = s->node->nout == 1;
	enum layout layout = st->nop ? LAYOUT_ROW : move_in_layout(s, st, 1);
	struct shape x = stored_shape(&site_in(s, 0)->shape, layout);
	int axis = stored_dim(axis_of(p->axis, x.rank), x.rank, layout);
	int64_t inner = shape_span(&x, axis + 1, x.rank), at = 0, dim = x.dim[axis];
	v->outer = shape_span(&x, 0, axis);
	v->row = shape_span(&x, axis, x.rank);
	v->from = arena_new_n(s->plan_arena, int64_t, s->node->nout);
	v->part = arena_new_n(s->plan_arena, int64_t, s->node->nout);
	if (site_in(s, 1) && !sizes && !site_list(s, 1, &l))
		return site_fail(s, d, E_INTERNAL, "known sizes", NULL);
	for (uint32_t k = 0; k < s->node->nout; k++) {
		int64_t n = sizes	    ? elem_i64(tensor_dtype(sizes), sizes->data, k)
			    : site_in(s, 1) ? l.v[k]
					    : split_part(dim, s->node->nout, k);
		v->from[k] = at * inner;
		v->part[k] = n * inner;
		at += n;
	}
	st->state = v;
	return 0;
}

struct split_job {
	struct mover *m;
	const struct split *v;
	char **y;
};

static void split_band(const struct split_job *j, int64_t begin, int64_t end)
{
	size_t size = j->m->size, step = (size_t)j->v->row * size;
	const char *from = (const char *)move_in(j->m, 0) + (size_t)begin * step;

	for (uint32_t i = 0; i < j->m->call->step->nout; i++) {
		size_t bytes = (size_t)j->v->part[i] * size;
		if (!bytes || !j->y[i])
			continue;
		const char *x = from + (size_t)j->v->from[i] * size;
		char *y = j->y[i] + (size_t)begin * bytes;
		for (int64_t k = begin; k < end; k++, x += step, y += bytes)
			copy_run(y, x, bytes);
	}
}

static void split_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct split_job *j = arg;
	int64_t band = move_grain(j->v->row * (int64_t)j->m->size);

	(void)thread;
	for (int64_t k = begin; k < end; k += band)
		split_band(j, k, lesser(k + band, end));
}

static int split_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct split *v = c->step->state;
	struct split_job j = {m, v, c->workspace};

	for (uint32_t i = 0; i < c->step->nout; i++)
		j.y[i] = c->out[i] ? move_out(m, i, &c->out[i]->shape) : NULL;
	if (v->outer > 1) {
		pool_for(v->outer, move_grain(v->row * (int64_t)m->size), split_piece, &j);
		return 0;
	}
	for (uint32_t i = 0; i < c->step->nout && v->outer; i++)
		if (j.y[i])
			move_bytes(j.y[i], (const char *)move_in(m, 0) + (size_t)v->from[i] * m->size,
				   (size_t)v->part[i] * m->size);
	return 0;
}

static int split_reshape_all(struct site *s, struct step *st, struct diag *d)
{
	st->workspace = s->node->nout * sizeof(char *);
	return split_reshape(s, st, d);
}

static int split_run(const struct call *c)
{
	if (!c->step->nop)
		return move_run(c, 0, split_core);
	return c->out[0]->data == c->in[0]->data ? 0 : move_run(c, 0, copy_input);
}

/* ---- Pad, CenterCropPad ---------------------------------------------------------------------------- */

/*
 * Trailing dimensions without pads are merged into units of `unit` elements, and the arrays below
 * count these units. A row runs along the last dimension that has pads. A scalar counts as a tensor
 * of shape [1], so that there is at least one dimension.
 */
struct pad {
	int mode, rank;
	int64_t unit, rows;
	int64_t x[MAX_RANK], y[MAX_RANK], begin[MAX_RANK], in[MAX_RANK];
	/* Negative pads crop the input. low: first index of the part that is left; core: its size. */
	int64_t low[MAX_RANK], core[MAX_RANK];
};

/*
 * Returns the input index for output index o of dimension i, or -1 if the output element is the pad
 * constant.
 */
static int64_t pad_source(const struct pad *p, int i, int64_t o)
{
	int64_t k = o - p->begin[i], n = p->core[i], period;

	if (p->mode == PAD_CONSTANT)
		return k >= 0 && k < p->x[i] ? k : -1;
	k -= p->low[i];
	if (k >= 0 && k < n)
		return p->low[i] + k;
	if (p->mode == PAD_EDGE) {
		k = k < 0 ? 0 : n - 1;
	} else {
		period = p->mode == PAD_WRAP ? n : n > 1 ? 2 * (n - 1) : 1;
		k = (k % period + period) % period;
		if (k >= n)
			k = period - k;
	}
	return p->low[i] + k;
}

static void pad_set(struct pad *p, const struct shape *x, const struct shape *y,
		    const int64_t *begin, int mode)
{
	int last = x->rank - 1;

	*p = (struct pad){.mode = mode, .unit = 1, .rows = 1};
	while (last > 0 && !begin[last] && x->dim[last] == y->dim[last])
		p->unit *= x->dim[last--];
	p->rank = last + 1;
	for (int i = 0; i <= last; i++) {
		p->x[i] = x->dim[i];
		p->y[i] = y->dim[i];
		p->begin[i] = begin[i];
		p->low[i] = greater(-begin[i], 0);
		p->core[i] = x->dim[i] - p->low[i] - greater(x->dim[i] + begin[i] - y->dim[i], 0);
		p->rows *= i < last ? y->dim[i] : 1;
	}
	if (!p->rank) { /* a scalar */
		p->rank = 1;
		p->x[0] = p->y[0] = p->core[0] = 1;
	}
	for (int64_t i = p->rank - 1, step = 1; i >= 0; i--) {
		p->in[i] = step;
		step *= p->x[i];
	}
}

static int pad_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct pad_params *p = site_params(s);
	const struct shape *x = &site_in(s, 0)->shape;
	int64_t begin[MAX_RANK], end[MAX_RANK];
	struct int_list pads, axes;
	bool has_axes = site_in(s, 3);

	if (!site_list(s, 1, &pads) || (has_axes && !site_list(s, 3, &axes)))
		return site_fail(s, d, E_INTERNAL, "known pads and axes", NULL);
	if (!pad_spec(x->rank, &pads, has_axes ? &axes : NULL, begin, end))
		return site_fail(s, d, E_VALUE, "a begin and an end for each axis", NULL);
	st->state = arena_new(s->plan_arena, struct pad);
	pad_set(st->state, x, &site_out(s, 0)->shape, begin, p->mode);
	return 0;
}

static int center_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	int64_t begin[MAX_RANK];

	(void)d;
	for (int i = 0; i < x->rank; i++) {
		int64_t more = y->dim[i] - x->dim[i];
		begin[i] = more < 0 ? -(-more / 2) : more / 2;
	}
	st->state = arena_new(s->plan_arena, struct pad);
	pad_set(st->state, x, y, begin, PAD_CONSTANT);
	return 0;
}

struct pad_job {
	const struct pad *p;
	const char *x, *value;
	char *y;
	size_t size;
};

/* Fills units from..to-1 of output row y, which are padding before or after the input row x. */
static void pad_edge(const struct pad_job *j, char *y, const char *x, int64_t from, int64_t to)
{
	const struct pad *p = j->p;
	int last = p->rank - 1;
	size_t unit = (size_t)p->unit * j->size;

	if (from >= to)
		return;
	if (p->mode == PAD_CONSTANT || !x) {
		fill_run(y + (size_t)from * unit, j->value, (to - from) * p->unit, j->size);
		return;
	}
	for (int64_t o = from; o < to; o++)
		copy_run(y + (size_t)o * unit, x + (size_t)pad_source(p, last, o) * unit, unit);
}

static void pad_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct pad_job *j = arg;
	const struct pad *p = j->p;
	int last = p->rank - 1;
	size_t unit = (size_t)p->unit * j->size;
	/* elements lo..hi-1 of an output row are copies of consecutive input elements */
	int64_t lo = greater(p->begin[last] + p->low[last], 0), hi = lo + greater(p->core[last], 0);

	(void)thread;
	if (p->mode == PAD_CONSTANT) {
		lo = lesser(greater(p->begin[last], 0), p->y[last]);
		hi = greater(lesser(p->begin[last] + p->x[last], p->y[last]), lo);
	}
	for (int64_t r = begin; r < end; r++) {
		char *y = j->y + (size_t)(r * p->y[last]) * unit;
		int64_t rest = r, at = 0;
		bool inside = true;
		for (int i = last - 1; i >= 0; i--) {
			int64_t k = pad_source(p, i, rest % p->y[i]);
			rest /= p->y[i];
			inside &= k >= 0;
			at += k * p->in[i];
		}
		if (!inside) {
			fill_run(y, j->value, p->y[last] * p->unit, j->size);
			continue;
		}
		const char *x = j->x + (size_t)at * unit;
		pad_edge(j, y, x, 0, lo);
		if (hi > lo)
			copy_run(y + (size_t)lo * unit, x + (lo - p->begin[last]) * (int64_t)unit,
				 (size_t)(hi - lo) * unit);
		pad_edge(j, y, x, hi, p->y[last]);
	}
}

static int pad_core(struct mover *m)
{
	static const char zero[16];
	const struct call *c = m->call;
	const struct pad *p = c->step->state;
	const struct tensor *v = c->step->nin > 2 && p->mode == PAD_CONSTANT ? c->in[2] : NULL;
	struct pad_job j = {
		.p = p, .size = m->size, .value = zero, .y = move_out(m, 0, &c->out[0]->shape)};

	if (v && tensor_count(v) > 0)
		j.value = move_in(m, 2);
	if (!shape_count(&c->out[0]->shape))
		return 0;
	if (!j.y)
		return -E_RUN;
	j.x = move_in(m, 0);
	pool_for(p->rows, move_grain(p->y[p->rank - 1] * p->unit * (int64_t)m->size), pad_piece, &j);
	return 0;
}

static int pad_run(const struct call *c)
{
	return move_run(c, 0, pad_core);
}

/* ---- Trilu ----------------------------------------------------------------------------------------- */

struct trilu_job {
	const char *x;
	char *y;
	size_t size;
	int64_t rows, cols, k;
	bool upper;
};

static void trilu_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct trilu_job *j = arg;
	size_t bytes = (size_t)j->cols * j->size;

	(void)thread;
	for (int64_t r = begin; r < end; r++) {
		/*
		 * In row i the upper triangle has the columns from i + k on, the lower triangle has
		 * the columns up to i + k.
		 */
		int64_t i = r % j->rows, cut;
		if (__builtin_add_overflow(i, j->k, &cut))
			cut = j->k < 0 ? 0 : j->cols;
		if (!j->upper && cut < INT64_MAX)
			cut++;
		cut = cut < 0 ? 0 : lesser(cut, j->cols);
		size_t head = (size_t)cut * j->size;
		const char *x = j->x + (size_t)r * bytes;
		char *y = j->y + (size_t)r * bytes;
		if (j->upper) {
			memset(y, 0, head);
			memcpy(y + head, x + head, bytes - head);
		} else {
			memcpy(y, x, head);
			memset(y + head, 0, bytes - head);
		}
	}
}

static int trilu_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct trilu_params *p = call_params(c);
	const struct shape *s = &c->in[0]->shape;
	const struct tensor *k = c->step->nin > 1 ? c->in[1] : NULL;
	struct trilu_job j = {.size = m->size,
			      .rows = s->dim[s->rank - 2],
			      .cols = s->dim[s->rank - 1],
			      .upper = p->upper != 0,
			      .y = move_out(m, 0, s)};

	if (k && tensor_count(k) != 1)
		return call_fail(c, E_VALUE, "one k", "another count");
	j.k = k ? elem_i64(tensor_dtype(k), k->data, 0) : 0;
	if (!shape_count(s))
		return 0;
	if (!j.y)
		return -E_RUN;
	j.x = move_in(m, 0);
	pool_for(shape_count(s) / j.cols, move_grain(j.cols * (int64_t)m->size), trilu_piece, &j);
	return 0;
}

static int trilu_run(const struct call *c)
{
	return move_run(c, 0, trilu_core);
}

/* ---- ReverseSequence ----------------------------------------------------------------------------- */

struct reverse_job {
	const char *x;
	char *y;
	size_t bytes; /* bytes of all elements at one batch and time index */
	int64_t d0, d1;
	bool time_first;
	const int64_t *lens;
};

static void reverse_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct reverse_job *j = arg;

	(void)thread;
	for (int64_t k = begin; k < end; k++) {
		int64_t a = k / j->d1, b = k % j->d1;
		int64_t len = j->lens[j->time_first ? b : a], t = j->time_first ? a : b;
		int64_t from = t < len ? len - 1 - t : t;
		from = j->time_first ? from * j->d1 + b : a * j->d1 + from;
		copy_run(j->y + (size_t)k * j->bytes, j->x + (size_t)from * j->bytes, j->bytes);
	}
}

static int reverse_core(struct mover *m)
{
	const struct call *c = m->call;
	const struct reverse_sequence_params *p = call_params(c);
	const struct shape *s = &c->in[0]->shape;
	struct reverse_job j = {.d0 = s->dim[0],
				.d1 = s->dim[1],
				.time_first = p->time_axis == 0,
				.lens = c->in[1]->data,
				.y = move_out(m, 0, s)};
	int64_t time = j.time_first ? j.d0 : j.d1, batch = j.time_first ? j.d1 : j.d0;

	if (!shape_count(s))
		return 0;
	if (!j.y)
		return -E_RUN;
	for (int64_t i = 0; i < batch; i++)
		if (j.lens[i] < 0 || j.lens[i] > time)
			return call_fail(c, E_VALUE,
					 fmt(c->diag, "lengths of 0 to %lld", (long long)time),
					 fmt(c->diag, "%lld", (long long)j.lens[i]));
	j.x = move_in(m, 0);
	j.bytes = (size_t)shape_span(s, 2, s->rank) * m->size;
	pool_for(j.d0 * j.d1, move_grain((int64_t)j.bytes), reverse_piece, &j);
	return 0;
}

static int reverse_run(const struct call *c)
{
	return move_run(c, 0, reverse_core);
}

const struct kernel cpu_slice[] = {
	{.op = "Slice", .flags = K_REFERENCE, .reshape = slice_reshape, .run = window_run},
	{.op = "DynamicSlice", .flags = K_REFERENCE, .reshape = slice_reshape, .run = window_run},
	{.op = "Split", .flags = K_REFERENCE, .reshape = split_reshape_all, .run = split_run},
	{.op = "Pad", .flags = K_REFERENCE, .reshape = pad_reshape, .run = pad_run},
	{.op = "Trilu", .flags = K_REFERENCE, .run = trilu_run},
	{.op = "ReverseSequence", .flags = K_REFERENCE, .run = reverse_run},
	{.op = "CenterCropPad", .flags = K_REFERENCE, .reshape = center_reshape, .run = pad_run},
	{.op = "Crop", .flags = K_REFERENCE, .reshape = crop_reshape, .run = window_run},
	{0}};
