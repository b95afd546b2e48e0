/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/util.h"
#include "ops/gather.h"

struct gather {
	void *fn;
	bool scatter;
	struct gpu_gather_job job;
};

static int finish(struct site *s, struct step *step, struct gather *g, const char *kernel,
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
	if (g->scatter && job.x != job.y)
		err = gpu_copy(c, job.y, job.x, c->out[0]->bytes);
	return job.n && !err ? gpu_launch(c, g->fn, gpu_grid(job.n), &job, sizeof(job)) : err;
}

static bool index_types(const struct site *s, struct why *w)
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
	return finish(s, step, g, "gather", d);
}

static bool along_accepts(const struct site *s, struct why *w)
{
	const struct scatter_params *q = s->node->params;

	if (site_in(s, 0)->shape.rank > GPU_DIMS)
		return refuse(w, "more than %d dimensions", GPU_DIMS);
	if (s->node->nin > 2 && q->reduction != SCATTER_NONE)
		return refuse(w, "a reduction");
	return index_types(s, w);
}

static int along_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct gather_params *q = s->node->params; /* the axis comes first in both */
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
	return finish(s, step, g, g->scatter ? "scatter_elements" : "gather_elements", d);
}

static bool nd_accepts(const struct site *s, struct why *w)
{
	const struct scatter_params *q = s->node->params;

	if (site_in(s, 0)->shape.rank > GPU_DIMS)
		return refuse(w, "more than %d dimensions", GPU_DIMS);
	if (s->node->nin > 2 && q->reduction != SCATTER_NONE)
		return refuse(w, "a reduction");
	return index_types(s, w);
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
	return finish(s, step, g, g->scatter ? "scatter_nd" : "gather_nd", d);
}

#define ROW(name, how, takes)                                                                      \
	{                                                                                          \
		.op = (name), .types = T_MOVED, .accepts = takes, .reshape = how##_reshape,        \
		.run = gather_run                                                                  \
	}

const struct kernel gpu_gather[] = {ROW("Gather", gather, index_types),
				    ROW("GatherElements", along, along_accepts),
				    ROW("GatherND", nd, nd_accepts),
				    ROW("ScatterElements", along, along_accepts),
				    ROW("Scatter", along, along_accepts),
				    ROW("ScatterND", nd, nd_accepts),
				    {0}};
