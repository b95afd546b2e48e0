/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gather.h"

#include "gpu/ops/sorted_lines.h"

GPU_SAME(GPU_SCATTER_NONE, SCATTER_NONE);
GPU_SAME(GPU_SCATTER_ADD, SCATTER_ADD);
GPU_SAME(GPU_SCATTER_MUL, SCATTER_MUL);
GPU_SAME(GPU_SCATTER_MAX, SCATTER_MAX);
GPU_SAME(GPU_SCATTER_MIN, SCATTER_MIN);

/* wide_fn copies `by` elements at a time; NULL if slices are no multiples of 16 bytes. */
struct gather {
	void *fn, *wide_fn;
	int by;
	bool scatter;
	struct gpu_gather_job job;
};

static int plan_kernel(struct site *s, struct step *step, struct gather *g, const char *kernel,
		       struct diag *d)
{
	g->job.wide = gpu_type(s, 1) == DT_I64;
	g->job.who = (uint64_t)(uintptr_t)s->node->origin;
	g->fn = gpu_sized(s, "move", kernel, gpu_type(s, 0), d);
	step->state = g;
	if (g->scatter)
		gpu_inplace(step, 0, 0);
	return g->fn ? 0 : -E_DEVICE;
}

static int gather_run(const struct call *c)
{
	const struct gather *g = c->step->state;
	struct gpu_gather_job job = g->job;
	int err = 0;

	job.x = gpu_data(c, 0);
	job.index = gpu_data(c, 1);
	job.update = gpu_data(c, 2);
	job.y = gpu_out(c, 0);
	job.fault = gpu_fault(c);
	if (g->wide_fn && ((uintptr_t)job.x | (uintptr_t)job.y) % 16 == 0) {
		job.inner /= g->by;
		job.n /= g->by;
		return job.n ? gpu_launch(c, g->wide_fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
	}
	if (g->scatter && job.x != job.y)
		err = gpu_copy(c, job.y, job.x, c->out[0]->bytes);
	return job.n && !err ? gpu_launch(c, g->fn, gpu_grid(job.n), &job, sizeof(job)) : err;
}

static bool index_types_accept(const struct site *s, struct why *w)
{
	if (gpu_type(s, 1) != DT_I64 && gpu_type(s, 1) != DT_I32)
		return refuse(w, "indices of %s", dtype_name(gpu_type(s, 1)));
	return true;
}

static int gather_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct gather_params *q = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gather *g = arena_new(s->plan_arena, struct gather);
	int axis = axis_of(q->axis, x->rank);

	g->job.n = gpu_count(&site_out(s, 0)->shape);
	g->job.dim = x->dim[axis];
	g->job.inner = shape_span(x, axis + 1, x->rank);
	g->job.count = gpu_count(&site_in(s, 1)->shape);
	g->by = (int)(16 / gpu_size(gpu_type(s, 0)));
	if (g->by > 1 && g->job.inner % g->by == 0) {
		g->wide_fn = gpu_kernel(s, "move", "gather_16", d);
		if (!g->wide_fn)
			return -E_DEVICE;
	}
	return plan_kernel(s, step, g, "gather", d);
}

/*
 * Accepts gathers and scatters without a reduction, with one index for each element (along an axis) or with index
 * tuples (ND).
 */
static bool indexed_accepts(const struct site *s, struct why *w)
{
	const struct scatter_params *q = s->node->params;

	if (site_in(s, 0)->shape.rank > GPU_DIMS)
		return refuse(w, "more than %d dimensions", GPU_DIMS);
	if (s->node->nin > 2 && q->reduction != SCATTER_NONE)
		return refuse(w, "a reduction");
	return index_types_accept(s, w);
}

static int along_reshape(struct site *s, struct step *step, struct diag *d)
{
	/* gather_params and scatter_params both begin with the axis */
	const struct gather_params *q = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *id = &site_in(s, 1)->shape;
	struct gather *g = arena_new(s->plan_arena, struct gather);
	int64_t xs[MAX_RANK];

	g->scatter = s->node->nin > 2;
	g->job.n = gpu_count(id);
	g->job.rank = x->rank;
	g->job.axis = axis_of(q->axis, x->rank);
	gpu_strides(x, xs);
	for (int r = 0; r < x->rank; r++) {
		g->job.xs[r] = xs[r];
		g->job.xd[r] = x->dim[r];
		g->job.id[r] = id->dim[r];
	}
	return plan_kernel(s, step, g, g->scatter ? "scatter_elements" : "gather_elements", d);
}

static int nd_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape, *id = &site_in(s, 1)->shape;
	struct gather *g = arena_new(s->plan_arena, struct gather);
	int64_t xs[MAX_RANK], k = id->dim[id->rank - 1];
	int b = 0;

	g->scatter = s->node->nin > 2;
	if (!g->scatter)
		b = (int)((const struct gather_nd_params *)s->node->params)->batch_dims;
	gpu_strides(x, xs);
	g->job.k = (int)k;
	g->job.dim = shape_span(x, b, x->rank);
	g->job.inner = shape_span(x, b + (int)k, x->rank);
	g->job.count = shape_span(id, b, id->rank - 1);
	g->job.n = gpu_count(g->scatter ? &site_in(s, 2)->shape : &site_out(s, 0)->shape);
	for (int r = 0; r < g->job.k; r++) {
		g->job.xs[r] = xs[b + r];
		g->job.xd[r] = x->dim[b + r];
	}
	return plan_kernel(s, step, g, g->scatter ? "scatter_nd" : "gather_nd", d);
}

/* ---- scattering with a reduction -------------------------------------------------------------- */

static bool reduce_accepts(const struct site *s, struct why *w)
{
	const struct shape *x = &site_in(s, 0)->shape;

	if (x->rank > GPU_DIMS || gpu_count(&site_in(s, 1)->shape) >= INT64_C(1) << 31)
		return refuse(w, "too many dimensions or indices");
	return index_types_accept(s, w);
}

static void fill_scatter(const struct site *s, struct gpu_scatter *j)
{
	const struct scatter_params *q = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *id = &site_in(s, 1)->shape;
	int64_t xs[MAX_RANK];

	gpu_strides(x, xs);
	j->nd = s->node->op->variant == SCATTER_TUPLES;
	j->how = q->reduction;
	j->rank = x->rank;
	j->wide = gpu_type(s, 1) == DT_I64;
	j->run = 1;
	if (j->nd) {
		j->tuple = (int)id->dim[id->rank - 1];
		j->run = shape_span(x, j->tuple, x->rank);
	} else {
		j->axis = axis_of(q->axis, x->rank);
	}
	for (int r = 0; r < x->rank; r++) {
		j->xs[r] = xs[r];
		j->xd[r] = x->dim[r];
		j->id[r] = j->nd ? 0 : id->dim[r];
	}
}

static int reduce_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *id = &site_in(s, 1)->shape;
	struct gpu_scatter job = {0};

	fill_scatter(s, &job);
	gpu_inplace(step, 0, 0);
	int64_t n = job.nd ? shape_span(id, 0, id->rank - 1) : gpu_count(id);
	if (!n || !job.run)
		return 0;
	gpu_sort_room(&job.sort, step, 1, n);
	int err = GPU_TASK(s, step, "gather", "scatter_keys", &job, job.sort.padded, d);
	if (!err)
		err = gpu_sort_add(s, step, "gather", "scatter", &job, sizeof(job), &job.sort, d);
	return err ? err : GPU_TASK(s, step, "gather", "scatter_apply", &job, n * job.run, d);
}

/* Copies the data to the output, unless both share memory, then scatters the updates over the output. */
static int copy_and_scatter(const struct call *c)
{
	int err = 0;

	if (c->in[0]->data != c->out[0]->data && c->out[0]->bytes)
		err = gpu_copy(c, c->out[0]->data, c->in[0]->data, c->out[0]->bytes);
	return err ? err : gpu_tasks_run(c);
}

/* ---- OneHot, Compress, TensorScatter ----------------------------------------------------------- */

static bool one_hot_accepts(const struct site *s, struct why *w)
{
	if (!(T_BIT(gpu_type(s, 2)) & T_MOVED) || gpu_count(&site_in(s, 2)->shape) != 2)
		return refuse(w, "values of %s", dtype_name(gpu_type(s, 2)));
	return shape_known(&site_out(s, 0)->shape) || refuse(w, "a depth that only the run knows");
}

static int one_hot_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct one_hot_params *p = s->node->params;
	const struct shape *y = &site_out(s, 0)->shape;
	int axis = axis_of(p->axis, y->rank);
	struct gpu_onehot job = {.n = gpu_count(y),
				 .depth = y->dim[axis],
				 .inner = shape_span(y, axis + 1, y->rank),
				 .size = (int)gpu_size(gpu_type(s, 2))};

	step->unread = 2;
	return job.n ? GPU_TASK(s, step, "gather", "one_hot", &job, job.n, d) : 0;
}

static bool compress_accepts(const struct site *s, struct why *w)
{
	return gpu_count(&site_in(s, 0)->shape) < INT64_C(1) << 31 || refuse(w, "too many elements");
}

static int compress_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct compress_params *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	bool flat = p->axis == INT_ABSENT;
	int axis = flat ? 0 : axis_of(p->axis, x->rank);
	struct gpu_slices job = {.outer = flat ? 1 : shape_span(x, 0, axis),
				 .inner = flat ? 1 : shape_span(x, axis + 1, x->rank),
				 .given = gpu_count(&site_in(s, 1)->shape),
				 .size = (int)gpu_size(gpu_type(s, 0))};

	gpu_flags_room(&job, step, flat ? gpu_count(x) : x->dim[axis]);
	int err = GPU_TASK(s, step, "sort", "flag_chosen", &job, job.sort.n, d);
	if (!err)
		err = gpu_flags_add(s, step, &job, d);
	return err ? err
		   : GPU_TASK(s, step, "sort", "compress_write", &job,
			      job.outer * job.sort.n * job.inner, d);
}

static int compress_run(const struct call *c)
{
	const struct compress_params *p = call_params(c);
	struct shape y = {.rank = 1};
	struct gpu_slices job;
	int err = gpu_slices_count(c, &job), axis = 0;

	if (p->axis != INT_ABSENT) {
		y = c->in[0]->shape;
		axis = axis_of(p->axis, y.rank);
	}
	y.dim[axis] = job.kept;
	if (!err)
		err = call_alloc(c, 0, tensor_dtype(c->in[0]), &y);
	return err ? err : gpu_slices_write(c, &job);
}

static int tensor_scatter_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct tensor_scatter_params *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *u = &site_in(s, 1)->shape;
	int axis = axis_of(p->axis, x->rank);
	struct gpu_tensor_scatter job = {.n = gpu_count(u),
					 .between = shape_span(x, 1, axis),
					 .room = x->dim[axis],
					 .len = u->dim[axis],
					 .run = shape_span(x, axis + 1, x->rank),
					 .circular = p->mode == TENSOR_SCATTER_CIRCULAR,
					 .size = (int)gpu_size(gpu_type(s, 0))};

	gpu_inplace(step, 0, 0);
	return job.n ? GPU_TASK(s, step, "gather", "tensor_scatter", &job, job.n, d) : 0;
}

#define ROW(name, how, takes)                                                                      \
	{                                                                                          \
		.op = (name), .types = T_MOVED, .accepts = takes, .reshape = how##_reshape,        \
		.run = gather_run                                                                  \
	}

#define REDUCE(name)                                                                               \
	{                                                                                          \
		.op = (name), .types = T_NUMBERS | T_BOOL, .accepts = reduce_accepts,              \
		.reshape = reduce_reshape, .run = copy_and_scatter                                 \
	}

const struct kernel gpu_gather[] = {ROW("Gather", gather, index_types_accept),
				    ROW("GatherElements", along, indexed_accepts),
				    ROW("GatherND", nd, indexed_accepts),
				    ROW("ScatterElements", along, indexed_accepts),
				    ROW("Scatter", along, indexed_accepts),
				    ROW("ScatterND", nd, indexed_accepts),
				    REDUCE("ScatterElements"),
				    REDUCE("Scatter"),
				    REDUCE("ScatterND"),
				    {.op = "OneHot",
				     .types = T_NUMBERS,
				     .accepts = one_hot_accepts,
				     .reshape = one_hot_reshape,
				     .run = gpu_tasks_run},
				    {.op = "Compress",
				     .types = T_MOVED,
				     .accepts = compress_accepts,
				     .reshape = compress_reshape,
				     .run = compress_run},
				    {.op = "TensorScatter",
				     .types = T_MOVED,
				     .reshape = tensor_scatter_reshape,
				     .run = copy_and_scatter},
				    {0}};
