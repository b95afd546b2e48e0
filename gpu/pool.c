/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/pool.h"

#include "gpu/util.h"

enum { MAX, AVERAGE, LP };

struct pool_state {
	void *fn;
	struct gpu_pool_job job;
};

static const char *fill(const struct site *s, struct pool_state *c)
{
	const struct pool *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_pool_job *j = &c->job;
	const char *name = s->node->op->name;
	struct window w = {0};

	if (x->rank < 3 || x->rank > 2 + GPU_SPACE)
		return "no window of one to three dimensions";
	if (window_set(&w, &p->window, x, NULL, p->ceil_mode != 0, NULL))
		return "a window that does not fit";
	for (int i = 0; i < GPU_SPACE; i++) {
		int k = i - (GPU_SPACE - w.n);
		j->in[i] = k < 0 ? 1 : w.in[k];
		j->out[i] = k < 0 ? 1 : w.out[k];
		j->kernel[i] = k < 0 ? 1 : w.kernel[k];
		j->stride[i] = k < 0 ? 1 : w.stride[k];
		j->dilation[i] = k < 0 ? 1 : w.dilation[k];
		j->begin[i] = k < 0 ? 0 : w.begin[k];
		j->end[i] = k < 0 ? 0 : w.end[k];
	}
	j->kind = !strcmp(name, "MaxPool") ? MAX : !strcmp(name, "AveragePool") ? AVERAGE : LP;
	j->count_pad = j->kind == AVERAGE && p->count_include_pad;
	j->column_major = j->kind == MAX && p->storage_order;
	j->p = p->old_p > 0 ? (double)p->old_p : (double)p->p;
	j->n = gpu_count(&site_out(s, 0)->shape);
	return NULL;
}

static bool pool_accepts(const struct site *s, struct why *w)
{
	struct pool_state c = {0};
	const char *bad = fill(s, &c);

	return bad ? refuse(w, "%s", bad) : true;
}

static int pool_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct pool_state *c = arena_new(s->plan_arena, struct pool_state);

	fill(s, c);
	c->fn = gpu_typed(s, "product", "pool", gpu_type(s, 0), d);
	step->state = c;
	return c->fn ? 0 : -E_DEVICE;
}

static int pool_run(const struct call *c)
{
	const struct pool_state *s = c->step->state;
	struct gpu_pool_job job = s->job;

	job.x = gpu_data(c, 0);
	job.y = gpu_out(c, 0);
	job.index = gpu_out(c, 1);
	return job.n ? gpu_launch(c, s->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

struct global_state {
	void *fn;
	struct gpu_reduce_job job;
};

static int global_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape;
	struct global_state *c = arena_new(s->plan_arena, struct global_state);
	int64_t rows = shape_span(x, 0, 2), n = shape_span(x, 2, x->rank);

	c->job = (struct gpu_reduce_job){.n = rows,
					 .m = n,
					 .op = strcmp(s->node->op->name, "GlobalMaxPool") ? R_MEAN
											  : R_MAX,
					 .keep = {1, {rows}},
					 .red = {1, {n}},
					 .ks = {n},
					 .rs = {1}};
	c->fn = gpu_typed(s, "rows", "reduce", gpu_type(s, 0), d);
	step->state = c;
	return c->fn ? 0 : -E_DEVICE;
}

static int global_run(const struct call *c)
{
	const struct global_state *s = c->step->state;
	struct gpu_reduce_job job = s->job;
	struct gpu_grid g = {(unsigned)(job.n > 1 << 20 ? 1 << 20 : job.n), 1, 1,
			     job.m <= 32 ? 32 : 128, 0};

	job.x = gpu_data(c, 0);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, s->fn, g, &job, sizeof(job)) : 0;
}

#define ROW(name)                                                                                  \
	{                                                                                          \
		.op = (name), .types = T_FLOATING, .accepts = pool_accepts,                        \
		.reshape = pool_reshape, .run = pool_run                                           \
	}
#define GLOBAL(name)                                                                               \
	{                                                                                          \
		.op = (name), .types = T_FLOATING, .reshape = global_reshape, .run = global_run    \
	}

const struct kernel gpu_pool[] = {ROW("MaxPool"),	   ROW("AveragePool"),
				  ROW("LpPool"),	   GLOBAL("GlobalAveragePool"),
				  GLOBAL("GlobalMaxPool"), {0}};
