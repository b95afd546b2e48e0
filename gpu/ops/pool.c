/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/pool.h"

#include "gpu/launch/channels_last.h"
#include "gpu/ops/task_rows.h"
#include "gpu/launch/window.h"

struct pool_state {
	void *fn;
	bool last; /* channels last */
	struct gpu_pool_job job;
	struct gpu_window_pool window;
};

static const char *fill_pool(const struct site *s, struct pool_state *c)
{
	const struct pool *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_pool_job *j = &c->job;
	const char *bad = gpu_window_set(&j->win, &p->window, x, NULL, p->ceil_mode != 0, j->end);

	if (bad)
		return bad;
	j->kind = s->node->op->variant == POOL_MAX	 ? GPU_POOL_MAX
		  : s->node->op->variant == POOL_AVERAGE ? GPU_POOL_AVERAGE
							 : GPU_POOL_LP;
	j->count_pad = j->kind == GPU_POOL_AVERAGE && p->count_include_pad;
	j->column_major = j->kind == GPU_POOL_MAX && p->storage_order;
	j->p = p->old_p > 0 ? (double)p->old_p : (double)p->p;
	j->n = gpu_count(&site_out(s, 0)->shape);
	return NULL;
}

static bool pool_accepts(const struct site *s, struct why *w)
{
	struct pool_state c = {0};
	const char *bad = fill_pool(s, &c);

	return bad ? refuse(w, "%s", bad) : true;
}

/*
 * Returns whether the channels-last kernel supports this pooling: maxima or means over windows of images, without an
 * output of indices. Codes come channels last only from convolutions (int8_conv.h), in multiples of 16 bytes.
 */
static bool takes_last(const struct site *s, const struct gpu_pool_job *j)
{
	enum dtype t = gpu_type(s, 0);
	bool codes = t == DT_I8 || t == DT_U8;

	if (codes && site_in(s, 0)->shape.dim[1] % 16)
		return false;
	return gpu_is_last(s, 0) && (codes || T_BIT(t) & (T_F32 | T_F16 | T_BF16)) &&
	       j->kind != GPU_POOL_LP && !site_out(s, 1) && gpu_window_flat(&j->win) &&
	       gpu_count(&site_in(s, 0)->shape) < INT32_MAX && j->n < INT32_MAX;
}

static int last_reshape(struct site *s, struct step *step, struct pool_state *c, struct diag *d)
{
	const struct gpu_pool_job *j = &c->job;
	struct gpu_window_pool *w = &c->window;
	int64_t channels = site_in(s, 0)->shape.dim[1], vector = 16 / gpu_size(gpu_type(s, 0));
	bool whole = channels % vector == 0;
	enum layout *want, *give;

	*w = (struct gpu_window_pool){.channels = (int)channels,
				      .win = gpu_window_plane(&j->win),
				      .end = {(int)j->end[1], (int)j->end[2]},
				      .average = j->kind == GPU_POOL_AVERAGE,
				      .count_pad = j->count_pad};
	w->n = j->n / (whole ? vector : 1);
	c->last = true;
	c->fn = gpu_typed(s, "conv", whole ? "window_pool_v" : "window_pool_1", gpu_type(s, 0), d);
	gpu_layouts(s, step, &want, &give);
	want[0] = LAYOUT_CHANNELS_LAST;
	give[0] = gpu_channels_last(&site_out(s, 0)->shape);
	return c->fn ? 0 : -E_DEVICE;
}

static int pool_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct pool_state *c = arena_new(s->plan_arena, struct pool_state);

	fill_pool(s, c);
	step->state = c;
	if (takes_last(s, &c->job))
		return last_reshape(s, step, c, d);
	c->fn = gpu_typed(s, "product", "pool", gpu_type(s, 0), d);
	step->state = c;
	return c->fn ? 0 : -E_DEVICE;
}

static int pool_run(const struct call *c)
{
	const struct pool_state *s = c->step->state;
	struct gpu_pool_job job = s->job;

	if (s->last) {
		struct gpu_window_pool window = s->window;
		window.x = gpu_data(c, 0);
		window.y = gpu_out(c, 0);
		return window.n ? gpu_launch_early(c, s->fn, gpu_grid(window.n), &window,
						   sizeof(window))
				: 0;
	}
	job.x = gpu_data(c, 0);
	job.y = gpu_out(c, 0);
	job.index = gpu_out(c, 1);
	return job.n ? gpu_launch(c, s->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

struct global_state {
	void *fn, *end_fn;
	bool last;
	unsigned blocks; /* blocks across the channels */
	struct gpu_reduce_job job;
	struct gpu_whole_pool pool;
};

/*
 * Divides the channels among threads and, if the images are few and large, the pixels of an image among blocks. Neighbouring lanes
 * read neighbouring channels, which saves traffic; fewer of them give more processors work.
 */
static void divide_work(const struct site *s, struct step *step, struct global_state *c)
{
	struct gpu_whole_pool *p = &c->pool;
	int64_t processors = cuda_facts(s->device)->processors, images = p->batch ? p->batch : 1;
	int vector = (int)(16 / gpu_size(gpu_type(s, 0)));
	int vectors = p->channels % vector ? p->channels : p->channels / vector, lanes = 2;

	while (lanes < POOL_LANES && lanes < vectors && images * vectors > lanes * processors)
		lanes *= 2;
	p->lanes = lanes;
	c->blocks = (unsigned)((vectors + lanes - 1) / lanes);
	/* Each thread should have at least some 16 pixels, and each processor should get about two blocks. */
	int64_t by_pixels = p->pixels / (16 * POOL_THREADS / lanes),
		by_processors = 2 * processors / (c->blocks * images);
	int64_t splits = by_pixels < by_processors ? by_pixels : by_processors;
	p->splits = splits < 2 ? 1 : splits > 64 ? 64 : (int)splits;
	if (p->splits > 1)
		step->workspace =
			(size_t)p->batch * (size_t)p->splits * (size_t)p->channels * sizeof(float);
}

static int global_last_reshape(struct site *s, struct step *step, struct global_state *c,
			       struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape;
	enum layout *want, *give;

	c->last = true;
	c->pool = (struct gpu_whole_pool){.batch = (int)x->dim[0],
					  .channels = (int)x->dim[1],
					  .pixels = (int)shape_span(x, 2, x->rank),
					  .average = s->node->op->variant != POOL_GLOBAL_MAX};
	divide_work(s, step, c);
	bool whole = x->dim[1] % (16 / gpu_size(gpu_type(s, 0))) == 0;
	c->fn = gpu_typed(s, "conv", whole ? "whole_pool_v" : "whole_pool_1", gpu_type(s, 0), d);
	c->end_fn = gpu_typed(s, "conv", "whole_pool_end", gpu_type(s, 0), d);
	gpu_layouts(s, step, &want, &give);
	want[0] = LAYOUT_CHANNELS_LAST;
	return c->fn && c->end_fn ? 0 : -E_DEVICE;
}

static int global_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape;
	struct global_state *c = arena_new(s->plan_arena, struct global_state);
	int64_t rows = shape_span(x, 0, 2), n = shape_span(x, 2, x->rank);

	step->state = c;
	if (gpu_is_last(s, 0) && gpu_type(s, 0) != DT_F64 && gpu_count(x) < INT32_MAX / 2 &&
	    x->dim[0] < 65536)
		return global_last_reshape(s, step, c, d);
	c->job = (struct gpu_reduce_job){.n = rows,
					 .m = n,
					 .op = s->node->op->variant == POOL_GLOBAL_MAX ? R_MAX : R_MEAN,
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

	if (s->last) {
		struct gpu_whole_pool pool = s->pool;
		g = (struct gpu_grid){s->blocks, (unsigned)pool.batch, (unsigned)pool.splits,
				      POOL_THREADS, 0};
		pool.x = gpu_data(c, 0);
		pool.y = gpu_out(c, 0);
		pool.part = c->workspace;
		int err = pool.batch ? gpu_launch_early(c, s->fn, g, &pool, sizeof(pool)) : 0;
		if (err || pool.splits == 1 || !pool.batch)
			return err;
		return gpu_launch_early(c, s->end_fn, gpu_grid((int64_t)pool.batch * pool.channels),
					&pool, sizeof(pool));
	}
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

const struct kernel gpu_pool[] = {{.op = "MaxPool",
				   .types = T_FLOATING | T_I8 | T_U8,
				   .accepts = pool_accepts,
				   .reshape = pool_reshape,
				   .run = pool_run},
				  ROW("AveragePool"),
				  ROW("LpPool"),
				  GLOBAL("GlobalAveragePool"),
				  GLOBAL("GlobalMaxPool"),
				  GPU_POOL_ROWS,
				  {0}};
