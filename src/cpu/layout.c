/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that change a shape, or the order of elements: Reshape, Transpose, Expand, Tile, Concat and others. */
#include "ops/layout.h"

#include "base/pool.h"
#include "cpu/cpu.h"
#include "cpu/math/move.h"
#include "ops/ints.h"

/* ---- views: Reshape, Flatten, Squeeze, Unsqueeze ---------------------------------------------- */

static int view_reshape(struct site *s, struct step *st, struct diag *d)
{
	(void)s;
	(void)d;
	st->nop = true;
	return 0;
}

static int view_core(struct mover *m)
{
	const struct tensor *x = m->call->in[0];
	void *y = move_out(m, 0, &m->call->out[0]->shape);
	int64_t n = tensor_count(x);

	if (!y)
		return n ? -E_RUN : 0;
	move_bytes(y, move_in(m, 0), (size_t)n * m->size);
	return 0;
}

/* Copies the input only if the output has memory of its own. Otherwise the output is a view of the input already. */
static int view_run(const struct call *c)
{
	const struct tensor *x = c->in[0];

	if (c->out[0]->data == x->data)
		return 0;
	if (tensor_dtype(x) == DT_STRING)
		return move_run(c, 0, view_core);
	int err = out_ready(c, 0, tensor_dtype(x), &c->out[0]->shape);
	if (!err)
		move_bytes(c->out[0]->data, x->data, x->bytes);
	return err;
}

/* ---- one strided copy: Transpose, Expand, DepthToSpace, SpaceToDepth ---------------------------- */

static int strided_core(struct mover *m)
{
	const struct strided *s = m->call->step->state;
	void *y = move_out(m, 0, &m->call->out[0]->shape);

	if (s->total && y)
		strided_copy(s, move_in(m, 0), y, m->size);
	return !y && s->total ? -E_RUN : 0;
}

static int strided_run(const struct call *c)
{
	return move_run(c, 0, strided_core);
}

static int transpose_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct transpose_params *p = site_params(s);
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	int64_t dense[MAX_RANK], in[MAX_RANK], out[MAX_RANK];
	struct strided *v = arena_new(s->plan_arena, struct strided);

	(void)d;
	dense_strides(x, dense);
	dense_strides(y, out);
	for (int i = 0; i < x->rank; i++)
		in[i] = dense[p->perm.n < 0 ? x->rank - 1 - i : axis_of(p->perm.v[i], x->rank)];
	strided_set(v, x->rank, y->dim, in, out);
	st->state = v;
	st->nop = !v->rank || (v->rank == 1 &&
			       v->in[0] == 1); /* no element moves if only dims of 1 are permuted */
	return 0;
}

static int transpose_run(const struct call *c)
{
	return c->step->nop ? view_run(c) : move_run(c, 0, strided_core);
}

static int expand_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	int64_t in[MAX_RANK], out[MAX_RANK];
	struct strided *v = arena_new(s->plan_arena, struct strided);

	(void)d;
	shape_broadcast_strides(x, y, in);
	dense_strides(y, out);
	strided_set(v, y->rank, y->dim, in, out);
	st->state = v;
	st->nop = shape_count(x) == shape_count(y);
	return 0;
}

/*
 * Strides of the deep tensor [N, C*b*b, H, W], b being the block size, along six dimensions: N, C, H, row in the block,
 * W, column in the block. image_strides uses the same dimensions.
 */
static void deep_strides(const struct shape *deep, const struct depth_params *p, int64_t *st)
{
	int64_t b = p->blocksize, c = deep->dim[1] / (b * b), hw = deep->dim[2] * deep->dim[3];
	bool dcr = p->mode == DEPTH_DCR;

	st[0] = deep->dim[1] * hw;
	st[1] = dcr ? hw : b * b * hw; /* channel */
	st[2] = deep->dim[3];
	st[3] = dcr ? b * c * hw : b * hw; /* row in the block */
	st[4] = 1;
	st[5] = dcr ? c * hw : hw; /* column in the block */
}

/*
 * Sizes of the dimensions N, C, H, row in the block, W, column in the block, and their strides in the image
 * [N, C, H*b, W*b].
 */
static void image_strides(const struct shape *deep, int64_t b, int64_t *n, int64_t *st)
{
	int64_t c = deep->dim[1] / (b * b), h = deep->dim[2], w = deep->dim[3];
	const int64_t dims[] = {deep->dim[0], c, h, b, w, b};
	const int64_t steps[] = {c * h * b * w * b, h * b * w * b, b * w * b, w * b, b, 1};

	memcpy(n, dims, sizeof(dims));
	memcpy(st, steps, sizeof(steps));
}

static int depth_to_space_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct depth_params *p = site_params(s);
	const struct shape *deep = &site_in(s, 0)->shape;
	int64_t n[6], in[6], out[6];

	(void)d;
	st->state = arena_new(s->plan_arena, struct strided);
	deep_strides(deep, p, in);
	image_strides(deep, p->blocksize, n, out);
	strided_set(st->state, 6, n, in, out);
	return 0;
}

static int space_to_depth_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct depth_params *p = site_params(s);
	const struct shape *deep = &site_out(s, 0)->shape;
	int64_t n[6], in[6], out[6];
	/* Reorders the dimensions to N, row, column, C, H, W, so that the innermost loops write contiguous elements. */
	static const int order[] = {0, 3, 5, 1, 2, 4};
	int64_t on[6], oin[6], oout[6];

	(void)d;
	st->state = arena_new(s->plan_arena, struct strided);
	deep_strides(deep, p, out);
	image_strides(deep, p->blocksize, n, in);
	for (int i = 0; i < 6; i++) {
		on[i] = n[order[i]];
		oin[i] = in[order[i]];
		oout[i] = out[order[i]];
	}
	strided_set(st->state, 6, on, oin, oout);
	return 0;
}

/* ---- Tile ----------------------------------------------------------------------------------------- */

/*
 * Describes each output dim as a pair of a repeat count (rep) and an input size (n). A dim that is not repeated is
 * merged with the dim before it.
 */
struct tile {
	int lead; /* number of outer dims for which the strided view has no room */
	int64_t rep[MAX_RANK], n[MAX_RANK], in[MAX_RANK], out[MAX_RANK];
	struct strided view;
};

enum { MAX_TILE_PAIRS = MAX_RANK / 2 }; /* number of pairs for which a strided view has room */

static int tile_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	struct tile *t = arena_new(s->plan_arena, struct tile);
	int64_t n[MAX_RANK], in[MAX_RANK], out[MAX_RANK], sx = 1, sy = 1;
	int m = 0, k = 0;

	(void)d;
	st->state = t;
	st->nop = shape_equal(x, y);
	if (!shape_count(y))
		return 0;
	for (int i = 0; i < x->rank; i++) {
		int64_t rep = y->dim[i] / x->dim[i];
		if (m && rep == 1) {
			t->n[m - 1] *= x->dim[i];
			continue;
		}
		t->n[m] = x->dim[i];
		t->rep[m++] = rep;
	}
	for (int i = m - 1; i >= 0; i--) {
		t->in[i] = sx;
		t->out[i] = sy;
		sx *= t->n[i];
		sy *= t->n[i] * t->rep[i];
	}
	t->lead = m > MAX_TILE_PAIRS ? m - MAX_TILE_PAIRS : 0;
	for (int i = t->lead; i < m; i++) {
		n[k] = t->rep[i];
		in[k] = 0;
		out[k++] = t->out[i] * t->n[i];
		n[k] = t->n[i];
		in[k] = t->in[i];
		out[k++] = t->out[i];
	}
	strided_set(&t->view, k, n, in, out);
	return 0;
}

static int tile_core(struct mover *m)
{
	const struct tile *t = m->call->step->state;
	const struct shape *s = &m->call->out[0]->shape;
	const char *x = move_in(m, 0);
	char *y = move_out(m, 0, s);
	int64_t at[MAX_RANK] = {0}, size = (int64_t)m->size;

	if (!shape_count(s))
		return 0;
	if (!y)
		return -E_RUN;
	for (;;) {
		int64_t in = 0, out = 0;
		int i = t->lead - 1;
		for (int k = 0; k < t->lead; k++) {
			in += at[k] % t->n[k] * t->in[k];
			out += at[k] * t->out[k];
		}
		strided_copy(&t->view, x + in * size, y + out * size, m->size);
		while (i >= 0 && ++at[i] == t->n[i] * t->rep[i])
			at[i--] = 0;
		if (i < 0)
			return 0;
	}
}

static int tile_run(const struct call *c)
{
	return c->step->nop ? view_run(c) : move_run(c, 0, tile_core);
}

/* ---- Concat ----------------------------------------------------------------------------------------- */

struct concat {
	int64_t outer, row; /* number of output rows; number of elements of an output row */
	/* for each input, the number of elements that it adds to an output row */
	int64_t *part;
};

static int concat_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct concat_params *p = site_params(s);
	struct concat *v = arena_new(s->plan_arena, struct concat);

	(void)d;
	st->nop = s->node->nin == 1;
	enum layout l = st->nop ? LAYOUT_ROW : move_in_layout(s, st, s->node->nin);
	struct shape y = stored_shape(&site_out(s, 0)->shape, l);
	int axis = stored_dim(axis_of(p->axis, y.rank), y.rank, l);
	v->outer = shape_span(&y, 0, axis);
	v->row = shape_span(&y, axis, y.rank);
	v->part = arena_new_n(s->plan_arena, int64_t, s->node->nin);
	for (uint32_t i = 0; i < s->node->nin; i++) {
		struct shape x = stored_shape(&site_in(s, i)->shape, l);
		v->part[i] = shape_span(&x, axis, y.rank);
	}
	st->state = v;
	return 0;
}

struct concat_job {
	struct mover *m;
	const struct concat *v;
	char *y;
};

/* Writes the output rows begin..end-1: copies the parts of one input after the other. */
static void concat_band(const struct concat_job *j, int64_t begin, int64_t end)
{
	size_t size = j->m->size, step = (size_t)j->v->row * size;
	char *to = j->y + (size_t)begin * step;

	for (uint32_t i = 0; i < j->m->call->step->nin; i++) {
		size_t bytes = (size_t)j->v->part[i] * size;
		if (!bytes)
			continue;
		const char *x = (const char *)move_in(j->m, i) + (size_t)begin * bytes;
		char *y = to;
		for (int64_t k = begin; k < end; k++, x += bytes, y += step)
			copy_run(y, x, bytes);
		to += bytes;
	}
}

static void concat_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct concat_job *j = arg;
	/* number of rows that together fit the cache */
	int64_t band = move_grain(j->v->row * (int64_t)j->m->size);

	(void)thread;
	for (int64_t k = begin; k < end; k += band)
		concat_band(j, k, k + band < end ? k + band : end);
}

static int concat_core(struct mover *m)
{
	const struct concat *v = m->call->step->state;
	const struct shape *s = &m->call->out[0]->shape;
	struct concat_job j = {m, v, move_out(m, 0, s)};

	if (!v->outer || !v->row)
		return 0;
	if (!j.y)
		return -E_RUN;
	if (v->outer > 1) {
		pool_for(v->outer, move_grain(v->row * (int64_t)m->size), concat_piece, &j);
		return 0;
	}
	for (uint32_t i = 0; i < m->call->step->nin; i++) {
		size_t bytes = (size_t)v->part[i] * m->size;
		if (bytes)
			move_bytes(j.y, move_in(m, i), bytes);
		j.y += bytes;
	}
	return 0;
}

static int concat_run(const struct call *c)
{
	return c->step->nop ? view_run(c) : move_run(c, 0, concat_core);
}

/* ---- Shape, Size -------------------------------------------------------------------------------------- */

static int shape_run(const struct call *c)
{
	const struct shape_params *p = call_params(c);
	const struct shape *x = &c->in[0]->shape;
	int64_t r = x->rank, from = p->start, to = p->end == INT_ABSENT ? r : p->end;
	struct shape s = {.rank = 1};

	from = from < -r ? 0 : from < 0 ? from + r : from > r ? r : from;
	to = to < -r ? 0 : to < 0 ? to + r : to > r ? r : to;
	s.dim[0] = to > from ? to - from : 0;
	int err = out_ready(c, 0, DT_I64, &s);
	for (int64_t i = from; i < to && !err; i++)
		((int64_t *)c->out[0]->data)[i - from] = x->dim[i];
	return err;
}

static int size_run(const struct call *c)
{
	struct shape s = {0};
	int err = out_ready(c, 0, DT_I64, &s);

	if (!err)
		*(int64_t *)c->out[0]->data = tensor_count(c->in[0]);
	return err;
}

const struct kernel cpu_layout[] = {
	{.op = "Reshape", .flags = K_REFERENCE, .reshape = view_reshape, .run = view_run},
	{.op = "Flatten", .flags = K_REFERENCE, .reshape = view_reshape, .run = view_run},
	{.op = "Squeeze", .flags = K_REFERENCE, .reshape = view_reshape, .run = view_run},
	{.op = "Unsqueeze", .flags = K_REFERENCE, .reshape = view_reshape, .run = view_run},
	{.op = "infer::Operands", .flags = K_REFERENCE, .reshape = view_reshape, .run = view_run},
	{.op = "Transpose",
	 .accepts = transpose_view_accepts,
	 .reshape = transpose_view_reshape,
	 .run = transpose_view_run},
	{.op = "Transpose", .flags = K_REFERENCE, .reshape = transpose_reshape, .run = transpose_run},
	{.op = "Expand", .flags = K_REFERENCE, .reshape = expand_reshape, .run = strided_run},
	{.op = "Tile", .flags = K_REFERENCE, .reshape = tile_reshape, .run = tile_run},
	{.op = "Concat", .flags = K_REFERENCE, .reshape = concat_reshape, .run = concat_run},
	{.op = "Shape", .flags = K_REFERENCE, .run = shape_run},
	{.op = "Size", .flags = K_REFERENCE, .run = size_run},
	{.op = "DepthToSpace", .flags = K_REFERENCE, .reshape = depth_to_space_reshape, .run = strided_run},
	{.op = "SpaceToDepth", .flags = K_REFERENCE, .reshape = space_to_depth_reshape, .run = strided_run},
	{0}};
