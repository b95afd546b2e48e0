/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/pool.h"

#include "gpu/driver/tune.h"
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
	bool last, joined;
	unsigned blocks; /* blocks across the channels */
	struct gpu_reduce_job job;
	struct gpu_whole_pool pool;
};

/*
 * The ways to divide the work, of which timing chooses one: `lanes` neighbouring threads read neighbouring channels, and the splits of an
 * image are blocks of a cluster or not.
 */
static const struct {
	int lanes;
	bool joined;
} /* the first ones, of rising lanes, are what usual_way() chooses from */ ways[] = {
	{2, false}, {4, false}, {8, false}, {2, true}, {4, true}, {8, true}};
enum { WAYS = sizeof(ways) / sizeof(*ways) };

static int vectors_of(const struct site *s, const struct gpu_whole_pool *p)
{
	int vector = (int)(16 / gpu_size(gpu_type(s, 0)));

	return p->channels % vector ? p->channels : p->channels / vector;
}

/* The way that is taken without timing. Neighbouring lanes save traffic; fewer of them give more processors work. */
static int usual_way(const struct site *s, const struct gpu_whole_pool *p)
{
	int64_t processors = cuda_facts(s->device)->processors, images = p->batch ? p->batch : 1;
	int vectors = vectors_of(s, p), way = 0;

	while (ways[way].lanes < POOL_LANES && ways[way].lanes < vectors &&
	       images * vectors > ways[way].lanes * processors)
		way++;
	return way;
}

/*
 * Divides the channels among threads and, if the images are few and large, the pixels of an image among blocks. Returns false if this
 * is no way for the device and the image.
 */
static bool divide_work(const struct site *s, struct global_state *c, int way)
{
	struct gpu_whole_pool *p = &c->pool;
	int64_t processors = cuda_facts(s->device)->processors, images = p->batch ? p->batch : 1;
	int vectors = vectors_of(s, p), lanes = ways[way].lanes;
	bool not_idle = lanes == ways[0].lanes || lanes < 2 * vectors;

	p->lanes = lanes;
	c->joined = ways[way].joined;
	c->blocks = (unsigned)((vectors + lanes - 1) / lanes);
	if (c->joined) {
		p->splits = POOL_JOINED;
		return vectors != p->channels && gpu_can_launch_early(cuda_facts(s->device)) &&
		       c->blocks * images < 2 * processors &&
		       p->pixels >= POOL_JOINED * (POOL_THREADS / lanes) && not_idle;
	}
	/* Each thread should have at least some 16 pixels, and each processor should get about two blocks. */
	int64_t by_pixels = p->pixels / (16 * POOL_THREADS / lanes),
		by_processors = 2 * processors / (c->blocks * images);
	int64_t splits = by_pixels < by_processors ? by_pixels : by_processors;
	p->splits = splits < 2 ? 1 : splits > 64 ? 64 : (int)splits;
	return not_idle;
}

static size_t parts_bytes(const struct global_state *c)
{
	const struct gpu_whole_pool *p = &c->pool;

	return c->joined || p->splits == 1
		       ? 0
		       : (size_t)p->batch * (size_t)p->splits * (size_t)p->channels * sizeof(float);
}

static bool find_pool_kernels(const struct site *s, struct global_state *c, struct diag *d)
{
	bool whole = vectors_of(s, &c->pool) != c->pool.channels;

	c->fn = gpu_typed(s, "conv",
			  c->joined ? "whole_pool_joined"
			  : whole   ? "whole_pool_v"
				    : "whole_pool_1",
			  gpu_type(s, 0), d);
	c->end_fn = gpu_typed(s, "conv", "whole_pool_end", gpu_type(s, 0), d);
	return c->fn && c->end_fn;
}

static int launch_pool(const struct call *c, const struct global_state *s)
{
	const struct gpu_whole_pool *p = &s->pool;
	struct gpu_grid g = {s->blocks * (s->joined ? POOL_JOINED : 1), (unsigned)p->batch,
			     s->joined ? 1 : (unsigned)p->splits, POOL_THREADS, 0};
	int err = p->batch ? gpu_launch_early(c, s->fn, g, p, sizeof(*p)) : 0;

	if (err || s->joined || p->splits == 1 || !p->batch)
		return err;
	return gpu_launch_early(c, s->end_fn, gpu_grid((int64_t)p->batch * p->channels), p,
				sizeof(*p));
}

struct trial {
	const struct site *site;
	struct call call;
	struct global_state state;
	size_t x, part; /* aligned bytes of the image and of the parts */
};

static bool set_way(void *arg, int way)
{
	struct trial *t = arg;

	return divide_work(t->site, &t->state, way) && find_pool_kernels(t->site, &t->state, NULL);
}

static void place_trial_operands(void *arg, char *memory)
{
	struct trial *t = arg;

	t->state.pool.x = memory;
	t->state.pool.part = (float *)(void *)(memory + t->x);
	t->state.pool.y = memory + t->x + t->part;
}

static int enqueue_trial(void *arg, struct diag *d)
{
	struct trial *t = arg;

	t->call.diag = d;
	return launch_pool(&t->call, &t->state);
}

/* Returns an index in ways[]. */
static int choose_way(const struct site *s, const struct global_state *c)
{
	static const struct step none;
	const struct gpu_whole_pool *p = &c->pool;
	size_t size = (size_t)gpu_size(gpu_type(s, 0)), n = (size_t)p->batch * (size_t)p->channels;
	struct trial t = {.site = s,
			  .call = {.step = &none, .stream = cuda_stream(s->device)},
			  .state = *c,
			  .x = cuda_aligned(n * (size_t)p->pixels * size)};
	char key[128];

	for (int i = 0; i < WAYS; i++)
		if (divide_work(s, &t.state, i) && cuda_aligned(parts_bytes(&t.state)) > t.part)
			t.part = cuda_aligned(parts_bytes(&t.state));
	const struct tune_ways all = {WAYS,
				      usual_way(s, p),
				      set_way,
				      place_trial_operands,
				      t.x + t.part + n * size,
				      enqueue_trial,
				      &t};
	snprintf(key, sizeof(key), "infer1 whole pool %s b%d c%d pixels%d average%d",
		 dtype_name(gpu_type(s, 0)), p->batch, p->channels, p->pixels, p->average);
	return tune_choose(s->device, key, &all);
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
	divide_work(s, c, gpu_count(x) ? choose_way(s, c) : usual_way(s, &c->pool));
	step->workspace = parts_bytes(c);
	gpu_layouts(s, step, &want, &give);
	want[0] = LAYOUT_CHANNELS_LAST;
	return find_pool_kernels(s, c, d) ? 0 : -E_DEVICE;
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
		struct global_state now = *s;
		now.pool.x = gpu_data(c, 0);
		now.pool.y = gpu_out(c, 0);
		now.pool.part = c->workspace;
		return launch_pool(c, &now);
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
