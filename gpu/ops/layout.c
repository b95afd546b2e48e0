/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only move elements: views of the same bytes, and copies between strided views. */
#include "gpu/launch/channels_last.h"
#include "ops/layout.h"

#define MAKE(name)                                                                                 \
	static bool name##_accepts(const struct site *s, struct why *w)                            \
	{                                                                                          \
		struct gpu_piece p = {0};                                                          \
		return name(s, &p) || refuse(w, "more than %d dimensions", GPU_DIMS);              \
	}                                                                                          \
	static int name##_reshape(struct site *s, struct step *step, struct diag *d)               \
	{                                                                                          \
		struct gpu_moves *m = arena_new(s->plan_arena, struct gpu_moves);                  \
		m->count = 1;                                                                      \
		m->piece = arena_new(s->plan_arena, struct gpu_piece);                             \
		name(s, m->piece);                                                                 \
		step->state = m;                                                                   \
		step->unread = ~UINT64_C(1);                                                       \
		return gpu_moves_set(s, m, gpu_type(s, 0), d);                                     \
	}

static bool transpose(const struct site *s, struct gpu_piece *p)
{
	const struct transpose_params *t = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	int64_t own[MAX_RANK], xs[MAX_RANK], ys[MAX_RANK];

	gpu_strides(x, own);
	gpu_strides(y, ys);
	for (int r = 0; r < x->rank; r++)
		xs[r] = own[t->perm.n >= 0 ? axis_of(t->perm.v[r], x->rank) : x->rank - 1 - r];
	return gpu_piece(p, x->rank, y->dim, xs, ys);
}
MAKE(transpose)

/*
 * Transpose with perm 0,2,3,1 from a channels-last input, or with 0,3,1,2 into a channels-last output, needs no copy,
 * because the bytes already have the wanted order.
 */
static int transpose_or_view_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct transpose_params *t = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	int rank = x->rank;
	bool to_last = t->perm.n == rank && rank >= 3 && rank <= 5, from_last = to_last;
	enum layout *want, *give;

	for (int r = 0; r < rank && (to_last || from_last); r++) {
		int p = axis_of(t->perm.v[r], rank);
		to_last = to_last && p == (r == 0 ? 0 : r == rank - 1 ? 1 : r + 1);
		from_last = from_last && p == (r == 0 ? 0 : r == 1 ? rank - 1 : r - 1);
	}
	if (!(to_last && gpu_is_last(s, 0)) && !from_last)
		return transpose_reshape(s, step, d);
	gpu_layouts(s, step, &want, &give);
	if (to_last && gpu_is_last(s, 0))
		want[0] = LAYOUT_CHANNELS_LAST;
	else
		give[0] = gpu_channels_last(&site_out(s, 0)->shape);
	step->nop = true;
	step->unread = ~UINT64_C(1);
	return 0;
}

static int transpose_or_view_run(const struct call *c)
{
	return c->step->nop ? gpu_view_run(c) : gpu_moves_run(c);
}

static bool expand(const struct site *s, struct gpu_piece *p)
{
	const struct shape *y = &site_out(s, 0)->shape;
	int64_t xs[MAX_RANK], ys[MAX_RANK];

	shape_broadcast_strides(&site_in(s, 0)->shape, y, xs);
	gpu_strides(y, ys);
	return gpu_piece(p, y->rank, y->dim, xs, ys);
}
MAKE(expand)

/* Turns each dimension into two dimensions: the repeats, with stride 0 in the input, and the input's own dimension. */
static bool tile(const struct site *s, struct gpu_piece *p)
{
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	int64_t own[MAX_RANK], out[MAX_RANK], dim[MAX_RANK], xs[MAX_RANK], ys[MAX_RANK];

	if (2 * x->rank > MAX_RANK)
		return false;
	gpu_strides(x, own);
	gpu_strides(y, out);
	for (int r = 0; r < x->rank; r++) {
		dim[2 * r] = x->dim[r] ? y->dim[r] / x->dim[r] : 0;
		dim[2 * r + 1] = x->dim[r];
		xs[2 * r] = 0;
		xs[2 * r + 1] = own[r];
		ys[2 * r] = out[r] * x->dim[r];
		ys[2 * r + 1] = out[r];
	}
	return gpu_piece(p, 2 * x->rank, dim, xs, ys);
}
MAKE(tile)

/*
 * Plans DepthToSpace or SpaceToDepth as a transpose of six dimensions: the input has the dimensions `dim`, the output
 * dim[perm].
 */
static bool transpose_six(const int64_t *dim, const int *perm, struct gpu_piece *p)
{
	struct shape x = {.rank = 6}, y = {.rank = 6};
	int64_t own[MAX_RANK], xs[MAX_RANK], ys[MAX_RANK];

	memcpy(x.dim, dim, 6 * sizeof(*dim));
	for (int r = 0; r < 6; r++)
		y.dim[r] = dim[perm[r]];
	gpu_strides(&x, own);
	gpu_strides(&y, ys);
	for (int r = 0; r < 6; r++)
		xs[r] = own[perm[r]];
	return gpu_piece(p, 6, y.dim, xs, ys);
}

static bool depth_to_space(const struct site *s, struct gpu_piece *p)
{
	const struct depth_params *q = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	int64_t b = q->blocksize, c = x->dim[1] / (b * b);
	static const int dcr[6] = {0, 3, 4, 1, 5, 2}, crd[6] = {0, 1, 4, 2, 5, 3};

	if (q->mode == DEPTH_DCR)
		return transpose_six((int64_t[]){x->dim[0], b, b, c, x->dim[2], x->dim[3]}, dcr, p);
	return transpose_six((int64_t[]){x->dim[0], c, b, b, x->dim[2], x->dim[3]}, crd, p);
}
MAKE(depth_to_space)

static bool space_to_depth(const struct site *s, struct gpu_piece *p)
{
	const struct depth_params *q = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	int64_t b = q->blocksize;
	static const int dcr[6] = {0, 3, 5, 1, 2, 4}, crd[6] = {0, 1, 3, 5, 2, 4};

	return transpose_six((int64_t[]){x->dim[0], x->dim[1], x->dim[2] / b, b, x->dim[3] / b, b},
			     q->mode == DEPTH_CRD ? crd : dcr, p);
}
MAKE(space_to_depth)

/* Concatenates channels in channels-last layout if an input already has that layout. */
static bool concat_last(struct site *s, struct step *step, int axis)
{
	bool any = false;
	enum layout *want, *give;

	for (uint32_t i = 0; i < s->node->nin; i++)
		any |= gpu_is_last(s, i);
	if (axis != 1 || !any)
		return false;
	gpu_layouts(s, step, &want, &give);
	for (uint32_t i = 0; i < s->node->nin; i++)
		want[i] = gpu_channels_last(&site_in(s, i)->shape);
	give[0] = gpu_channels_last(&site_out(s, 0)->shape);
	return true;
}

static int concat_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct concat_params *q = s->node->params;
	const struct shape *y = &site_out(s, 0)->shape;
	struct gpu_moves *m = arena_new(s->plan_arena, struct gpu_moves);
	bool last = concat_last(s, step, axis_of(q->axis, y->rank));
	int axis = axis_of(q->axis, y->rank);
	int64_t at = 0, inner = last ? 1 : shape_span(y, axis + 1, y->rank),
		size = gpu_size(gpu_type(s, 0));

	m->count = (int)s->node->nin;
	m->piece = arena_new_n(s->plan_arena, struct gpu_piece, s->node->nin + 1);
	for (uint32_t i = 0; i < s->node->nin; i++) {
		const struct shape *x = &site_in(s, i)->shape;
		struct gpu_piece *p = &m->piece[i];
		int64_t run = x->dim[axis] * inner;
		p->in = i;
		p->to = at * inner * size;
		int64_t outer = last ? x->dim[0] * shape_span(x, 2, x->rank) : shape_span(x, 0, axis);
		gpu_piece(p, 2, (int64_t[]){outer, run}, (int64_t[]){run, 1},
			  (int64_t[]){y->dim[axis] * inner, 1});
		at += x->dim[axis];
	}
	step->state = m;
	return gpu_moves_set(s, m, gpu_type(s, 0), d);
}

/*
 * Reshape and its like of a channels-last value that keep its first two dimensions, as between the first convolution of a vision
 * transformer and what follows, keep its layout: the others are the pixels in the same order.
 */
static int view_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	enum layout *want, *give;

	if (gpu_is_last(s, 0) && y->rank >= 2 && x->dim[0] == y->dim[0] && x->dim[1] == y->dim[1] &&
	    gpu_channels_last(y) == LAYOUT_CHANNELS_LAST) {
		gpu_layouts(s, step, &want, &give);
		want[0] = give[0] = LAYOUT_CHANNELS_LAST;
	}
	return gpu_view_reshape(s, step, d);
}

#define VIEW(name)                                                                                 \
	{                                                                                          \
		.op = (name), .types = T_MOVED, .reshape = view_reshape, .run = gpu_view_run       \
	}
#define MOVE(name, how)                                                                            \
	{                                                                                          \
		.op = (name), .types = T_MOVED, .accepts = how##_accepts,                          \
		.reshape = how##_reshape, .run = gpu_moves_run                                     \
	}

const struct kernel gpu_layout[] = {
	VIEW("Reshape"),
	VIEW("Flatten"),
	VIEW("Squeeze"),
	VIEW("Unsqueeze"),
	VIEW("infer::Operands"),
	{.op = "Transpose",
	 .types = T_MOVED,
	 .accepts = transpose_accepts,
	 .reshape = transpose_or_view_reshape,
	 .run = transpose_or_view_run},
	MOVE("Expand", expand),
	MOVE("Tile", tile),
	MOVE("DepthToSpace", depth_to_space),
	MOVE("SpaceToDepth", space_to_depth),
	{.op = "Concat", .types = T_MOVED, .reshape = concat_reshape, .run = gpu_moves_run},
	{0}};
