/* SPDX-License-Identifier: Apache-2.0 */
/* Slices, splits, padding, triangles and reversed sequences. */
#include "gpu/launch/job.h"
#include "ops/slice.h"

GPU_SAME(GPU_PAD_CONSTANT, PAD_CONSTANT);
GPU_SAME(GPU_PAD_REFLECT, PAD_REFLECT);
GPU_SAME(GPU_PAD_EDGE, PAD_EDGE);
GPU_SAME(GPU_PAD_WRAP, PAD_WRAP);

static bool fill_slice(const struct site *s, struct gpu_piece *p)
{
	struct int_list l[4];
	const struct int_list *given[4] = {NULL};
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	struct slice_spec spec;
	int64_t own[MAX_RANK], xs[MAX_RANK], ys[MAX_RANK];

	for (uint32_t i = 0; i < 4; i++) {
		if (!site_in(s, i + 1))
			continue;
		if (!gpu_list(s, i + 1, &l[i]))
			return false;
		given[i] = &l[i];
	}
	if (!given[0] || !given[1] || slice_spec(x, given[0], given[1], given[2], given[3], &spec))
		return false;
	gpu_strides(x, own);
	gpu_strides(y, ys);
	for (int r = 0; r < x->rank; r++) {
		xs[r] = own[r] * spec.step[r];
		p->from += own[r] * spec.from[r] * gpu_size(gpu_type(s, 0));
	}
	return gpu_piece(p, y->rank, y->dim, xs, ys);
}

static bool slice_accepts(const struct site *s, struct why *w)
{
	struct gpu_piece p = {0};

	return fill_slice(s, &p) || refuse(w, "bounds that only the run knows");
}

static int slice_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_moves *m = arena_new(s->plan_arena, struct gpu_moves);

	m->count = 1;
	m->piece = arena_new(s->plan_arena, struct gpu_piece);
	fill_slice(s, m->piece);
	step->state = m;
	step->unread = ~UINT64_C(1);
	return gpu_moves_set(s, m, gpu_type(s, 0), d);
}

/* Returns the length, along the axis, of Split's output k if the model does not use that output. */
static int64_t unused_length(const struct site *s, uint32_t k, int axis)
{
	const struct tensor *t = site_known(s, 1);

	if (t)
		return elem_i64(tensor_dtype(t), t->data, k);
	return split_part(site_in(s, 0)->shape.dim[axis], s->node->nout, k);
}

static int split_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct split_params *q = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_moves *m = arena_new(s->plan_arena, struct gpu_moves);
	int axis = axis_of(q->axis, x->rank);
	int64_t at = 0, inner = shape_span(x, axis + 1, x->rank), size = gpu_size(gpu_type(s, 0));

	m->piece = arena_new_n(s->plan_arena, struct gpu_piece, s->node->nout + 1);
	for (uint32_t i = 0; i < s->node->nout; i++) {
		const struct vinfo *y = site_out(s, i);
		struct gpu_piece *p = &m->piece[m->count];
		if (!y) {
			at += unused_length(s, i, axis);
			continue;
		}
		int64_t run = y->shape.dim[axis] * inner;
		m->count++;
		p->out = i;
		p->from = at * inner * size;
		gpu_piece(p, 2, (int64_t[]){shape_span(x, 0, axis), run},
			  (int64_t[]){x->dim[axis] * inner, 1}, (int64_t[]){run, 1});
		at += y->shape.dim[axis];
	}
	step->state = m;
	step->unread = ~UINT64_C(1);
	return gpu_moves_set(s, m, gpu_type(s, 0), d);
}

struct pad_state {
	void *fn;
	struct gpu_pad job;
};

static bool fill_pad(const struct site *s, struct pad_state *p)
{
	const struct pad_params *q = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	struct int_list pads, axes;
	int64_t end[MAX_RANK], begin[MAX_RANK];

	if (x->rank > GPU_DIMS || !gpu_list(s, 1, &pads) || (site_in(s, 3) && !gpu_list(s, 3, &axes)) ||
	    !pad_spec(x->rank, &pads, site_in(s, 3) ? &axes : NULL, begin, end))
		return false;
	p->job.rank = x->rank;
	p->job.mode = q->mode;
	p->job.n = gpu_count(y);
	for (int r = 0; r < x->rank; r++) {
		p->job.low[r] = begin[r] < 0 ? -begin[r] : 0;
		p->job.core[r] = x->dim[r] - p->job.low[r] + (end[r] < 0 ? end[r] : 0);
		p->job.xd[r] = x->dim[r];
		p->job.yd[r] = y->dim[r];
		p->job.begin[r] = begin[r];
	}
	return true;
}

static bool pad_accepts(const struct site *s, struct why *w)
{
	struct pad_state p = {0};

	return fill_pad(s, &p) ||
	       refuse(w, "pads that only the run knows, or more than %d dimensions", GPU_DIMS);
}

static int pad_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct pad_state *p = arena_new(s->plan_arena, struct pad_state);

	fill_pad(s, p);
	p->fn = gpu_sized(s, "move", "pad", gpu_type(s, 0), d);
	step->state = p;
	step->unread = ~UINT64_C(5);
	return p->fn ? 0 : -E_DEVICE;
}

static int pad_run(const struct call *c)
{
	const struct pad_state *p = c->step->state;
	struct gpu_pad job = p->job;

	job.x = gpu_data(c, 0);
	job.value = gpu_data(c, 2);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, p->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

struct trilu_state {
	void *fn;
	/* the kernel reads the number of the diagonal, k, because it is known only at run time */
	bool reads;
	struct gpu_trilu job;
};

static bool trilu_accepts(const struct site *s, struct why *w)
{
	return !site_in(s, 1) || gpu_count(&site_in(s, 1)->shape) == 1 ||
	       refuse(w, "more than one diagonal");
}

static int trilu_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct trilu_state *p = arena_new(s->plan_arena, struct trilu_state);
	const struct shape *x = &site_in(s, 0)->shape;
	const struct tensor *k = site_known(s, 1);

	p->job = (struct gpu_trilu){.n = gpu_count(x),
				    .rows = x->dim[x->rank - 2],
				    .cols = x->dim[x->rank - 1],
				    .k = k ? elem_i64(tensor_dtype(k), k->data, 0) : 0,
				    .upper = ((const struct trilu_params *)s->node->params)->upper !=
					     0};
	p->fn = gpu_sized(s, "move", "trilu", gpu_type(s, 0), d);
	p->reads = site_in(s, 1) && !k;
	step->state = p;
	step->unread = p->reads ? 0 : 2;
	return p->fn ? 0 : -E_DEVICE;
}

static int trilu_run(const struct call *c)
{
	const struct trilu_state *p = c->step->state;
	struct gpu_trilu job = p->job;

	job.x = gpu_data(c, 0);
	job.at = p->reads ? gpu_data(c, 1) : NULL;
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, p->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

/* ---- CenterCropPad, Crop, ReverseSequence -------------------------------------------------------- */

static bool center_accepts(const struct site *s, struct why *w)
{
	const struct shape *y = &site_out(s, 0)->shape;

	if (!shape_known(y))
		return refuse(w, "a size that only the run knows");
	return y->rank <= GPU_DIMS || refuse(w, "more than %d dimensions", GPU_DIMS);
}

static int center_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct pad_state *p = arena_new(s->plan_arena, struct pad_state);
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;

	p->job.n = gpu_count(y);
	p->job.rank = x->rank;
	p->job.mode = PAD_CONSTANT;
	for (int r = 0; r < x->rank; r++) {
		int64_t more = y->dim[r] - x->dim[r];
		p->job.xd[r] = x->dim[r];
		p->job.yd[r] = y->dim[r];
		p->job.begin[r] = more < 0 ? -(-more / 2) : more / 2;
	}
	p->fn = gpu_sized(s, "move", "pad", gpu_type(s, 0), d);
	step->state = p;
	step->unread = 2;
	return p->fn ? 0 : -E_DEVICE;
}

static int crop_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct crop_params *q = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	struct gpu_moves *m = arena_new(s->plan_arena, struct gpu_moves);
	int64_t xs[MAX_RANK], ys[MAX_RANK];

	m->count = 1;
	m->piece = arena_new(s->plan_arena, struct gpu_piece);
	gpu_strides(x, xs);
	gpu_strides(y, ys);
	for (int i = 2; i < 4; i++)
		m->piece->from += q->border.v[3 - i] * xs[i] * gpu_size(gpu_type(s, 0));
	gpu_piece(m->piece, y->rank, y->dim, xs, ys);
	step->state = m;
	return gpu_moves_set(s, m, gpu_type(s, 0), d);
}

static int reverse_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct reverse_sequence_params *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_reverse job = {.d0 = x->dim[0],
				  .d1 = x->dim[1],
				  .run = shape_span(x, 2, x->rank),
				  .time_first = p->time_axis == 0,
				  .size = (int)gpu_size(gpu_type(s, 0))};
	int64_t n = gpu_count(x);

	return n ? GPU_TASK(s, step, "slice", "reverse_sequence", &job, n, d) : 0;
}

const struct kernel gpu_slice[] = {
	{.op = "Slice",
	 .types = T_MOVED,
	 .accepts = slice_accepts,
	 .reshape = slice_reshape,
	 .run = gpu_moves_run},
	{.op = "Split", .types = T_MOVED, .reshape = split_reshape, .run = gpu_moves_run},
	{.op = "Pad", .types = T_MOVED, .accepts = pad_accepts, .reshape = pad_reshape, .run = pad_run},
	{.op = "Trilu",
	 .types = T_MOVED,
	 .accepts = trilu_accepts,
	 .reshape = trilu_reshape,
	 .run = trilu_run},
	{.op = "DynamicSlice",
	 .types = T_MOVED,
	 .accepts = slice_accepts,
	 .reshape = slice_reshape,
	 .run = gpu_moves_run},
	{.op = "CenterCropPad",
	 .types = T_MOVED,
	 .accepts = center_accepts,
	 .reshape = center_reshape,
	 .run = pad_run},
	{.op = "Crop", .types = T_MOVED, .reshape = crop_reshape, .run = gpu_moves_run},
	{.op = "ReverseSequence", .types = T_MOVED, .reshape = reverse_reshape, .run = gpu_tasks_run},
	{0}};
