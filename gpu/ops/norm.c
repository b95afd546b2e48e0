/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/norm.h"

#include "ops/norm.h"
#include "gpu/ops/task_rows.h"

enum {
	/* With fewer rows than this, a whole block computes each row instead of a warp, so that more of the device has work. */
	MIN_WARP_ROWS = 2048,
	/* From so many rows on, a warp computes two or four rows that are too short for all of its threads. */
	MANY_ROWS = 8192,
	SHORT_ROW = 3 * 32 * 8, /* elements of 16 bits that a warp has in three pieces a thread */
};

bool gpu_rows_fit(int64_t rows, int64_t n, enum dtype t, const char *prefix, char name[64],
		  struct gpu_rows *out)
{
	int64_t vector = t == DT_F64 || n % (16 / gpu_size(t)) ? 1 : 16 / gpu_size(t);
	/* number of pieces that a thread can hold in registers */
	int64_t pieces = n / vector, each = vector == 1 ? 8 : 32 / vector;
	int64_t threads = (pieces + 31) / 32 * 32;

	/* With enough rows, a warp computes a row, because the threads of a warp need no barrier between them. */
	if (pieces <= 32 * each && (rows >= MIN_WARP_ROWS || threads > 512))
		threads = 32;
	if (t == DT_F64 || n < 1 || rows < 1 || rows > INT32_MAX || threads > 512 ||
	    threads * each < pieces)
		return false;
	unsigned together = threads > 32 || rows < 4096 ? 1 : 4; /* rows of one block */
	out->threads = (int)threads;
	out->grid = (struct gpu_grid){(unsigned)((rows + together - 1) / together), 1, 1,
				      together * (unsigned)threads, 0};
	snprintf(name, 64, "%s%s_%s", prefix, vector == 1 ? "_any_row" : "_row", dtype_name(t));
	return true;
}

int gpu_norm_set(struct site *s, struct step *step, struct gpu_norm_state *n, struct diag *d)
{
	struct gpu_norm *j = &n->job;
	struct gpu_rows fit;
	char name[64];

	step->state = n;
	if (j->period == 1 && j->inner == 1 &&
	    gpu_rows_fit(j->rows, j->n, gpu_type(s, 0), "norm", name, &fit)) {
		int64_t vector = 16 / gpu_size(gpu_type(s, 0));
		bool one = j->n % vector == 0 && fit.threads * vector >= j->n;
		n->grid = fit.grid;
		j->row_threads = fit.threads;
		if (one)
			snprintf(name, sizeof(name), "norm_one_row_%s", dtype_name(gpu_type(s, 0)));
		else if (vector == 8 && j->n % vector == 0 && fit.threads == 32 && j->n <= SHORT_ROW)
			snprintf(name, sizeof(name), "norm_short_row_%s", dtype_name(gpu_type(s, 0)));
		if (one && fit.threads == 32 && j->rows >= MANY_ROWS && j->n <= 16 * vector) {
			unsigned at_once = j->n <= 8 * vector ? 4 : 2; /* rows of a warp */
			j->row_threads = (int)(32 / at_once);
			n->grid.x = (n->grid.x + at_once - 1) / at_once;
		}
		n->fn = gpu_kernel(s, "rows", name, d);
		n->early = true;
		return n->fn ? 0 : -E_DEVICE;
	}
	n->grid = (struct gpu_grid){(unsigned)(j->rows > 1 << 20 ? 1 << 20 : j->rows), 1, 1,
				    j->n <= 32	  ? 32
				    : j->n <= 256 ? 128
						  : 256,
				    0};
	n->fn = gpu_typed(s, "rows", "norm", gpu_type(s, 0), d);
	return n->fn ? 0 : -E_DEVICE;
}

static const void *input_or_null(const struct call *c, int i)
{
	return i < 0 ? NULL : gpu_data(c, (uint32_t)i);
}
static void *output_or_null(const struct call *c, int i)
{
	return i < 0 ? NULL : gpu_out(c, (uint32_t)i);
}

int gpu_norm_run(const struct call *c)
{
	const struct gpu_norm_state *n = c->step->state;
	struct gpu_norm job = n->job;

	job.x = gpu_data(c, 0);
	job.add = input_or_null(c, n->add);
	job.add2 = input_or_null(c, n->add2);
	job.scale = input_or_null(c, n->scale);
	job.bias = input_or_null(c, n->bias);
	job.y = output_or_null(c, n->y);
	job.q = output_or_null(c, n->q);
	job.mean = output_or_null(c, n->mean);
	job.inv = output_or_null(c, n->inv);
	job.sum = output_or_null(c, n->sum);
	if (job.rows < 1 || job.n < 1)
		return 0;
	return n->early ? gpu_launch_early(c, n->fn, n->grid, &job, sizeof(job))
			: gpu_launch(c, n->fn, n->grid, &job, sizeof(job));
}

/* Accepts LayerNormalization and RMS forms whose scale and bias are as long as a row. matrix.c supports the others. */
static bool layer_accepts(const struct site *s, struct why *w)
{
	const struct layer_norm *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	int axis = axis_of(p->axis, x->rank);

	if (axis < 0)
		return refuse(w, "an axis beyond the rank");
	int64_t n = shape_span(x, axis, x->rank);
	for (uint32_t i = 1; i < 3; i++)
		if (site_in(s, i) &&
		    (shape_count(&site_in(s, i)->shape) != n || gpu_type(s, i) != gpu_type(s, 0)))
			return refuse(
				w, "a scale or bias that is not as long as a row, or of another type");
	for (uint32_t i = 1; i < 3; i++)
		if (site_out(s, i) && gpu_out_type(s, i) != DT_F32)
			return refuse(w, "statistics of %s", dtype_name(gpu_out_type(s, i)));
	return true;
}

static int layer_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct layer_norm *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_norm_state *n = arena_new(s->plan_arena, struct gpu_norm_state);
	int axis = axis_of(p->axis, x->rank);
	bool rms = s->node->op->variant == NORM_RMS;

	*n = (struct gpu_norm_state){.add = -1,
				     .add2 = -1,
				     .scale = 1,
				     .bias = 2,
				     .mean = rms ? -1 : 1,
				     .inv = rms ? 1 : 2,
				     .sum = -1,
				     .q = -1};
	n->job = (struct gpu_norm){.rows = shape_span(x, 0, axis),
				   .n = shape_span(x, axis, x->rank),
				   .period = 1,
				   .inner = 1,
				   .rms = rms,
				   .epsilon = (double)p->epsilon};
	return gpu_norm_set(s, step, n, d);
}

static bool channels_accepts(const struct site *s, struct why *w)
{
	const struct shape *x = &site_in(s, 0)->shape;

	if (x->rank < 2)
		return refuse(w, "rank below 2");
	for (uint32_t i = 1; i < 3; i++)
		if (!site_in(s, i) || shape_count(&site_in(s, i)->shape) != x->dim[1] ||
		    gpu_type(s, i) != gpu_type(s, 0))
			return refuse(
				w,
				"a scale or bias that is not as long as the channels, or of another type");
	return true;
}

static int channels_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_norm_state *n = arena_new(s->plan_arena, struct gpu_norm_state);
	int64_t spatial = shape_span(x, 2, x->rank), groups = x->dim[1];
	const struct epsilon *e = s->node->params;
	const struct group_norm *q = s->node->params;
	bool grouped = s->node->op->variant == NORM_GROUPED;

	if (grouped)
		groups = q->num_groups;
	int64_t each = groups > 0 ? x->dim[1] / groups : 0;
	*n = (struct gpu_norm_state){
		.add = -1, .add2 = -1, .scale = 1, .bias = 2, .mean = -1, .inv = -1, .sum = -1, .q = -1};
	n->job = (struct gpu_norm){.rows = x->dim[0] * groups,
				   .n = each * spatial,
				   .period = groups,
				   .per_row = each,
				   .inner = spatial,
				   .epsilon = (double)(grouped ? q->epsilon : e->epsilon)};
	return gpu_norm_set(s, step, n, d);
}

/* SkipLayerNormalization (com.microsoft): y = norm(x + skip + bias) */
static bool skip_accepts(const struct site *s, struct why *w)
{
	const struct shape *x = &site_in(s, 0)->shape;
	uint32_t first = 2;

	if (!site_in(s, 1) || !shape_equal(x, &site_in(s, 1)->shape) || site_out(s, 1) ||
	    site_out(s, 2))
		return refuse(w, "a skip of another shape, or statistics");
	for (uint32_t i = first; i < s->node->nin; i++)
		if (site_in(s, i) &&
		    (!x->rank || shape_count(&site_in(s, i)->shape) != x->dim[x->rank - 1]))
			return refuse(w, "a scale or bias that is not as long as a row");
	return true;
}

static int skip_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct epsilon *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_norm_state *n = arena_new(s->plan_arena, struct gpu_norm_state);
	bool rms = s->node->op->variant == NORM_RMS;

	*n = (struct gpu_norm_state){.add = 1,
				     .scale = 2,
				     .bias = rms ? -1 : 3,
				     .add2 = rms ? 3 : 4,
				     .mean = -1,
				     .inv = -1,
				     .sum = 3,
				     .q = -1};
	n->job = (struct gpu_norm){.rows = shape_span(x, 0, x->rank - 1),
				   .n = x->dim[x->rank - 1],
				   .period = 1,
				   .inner = 1,
				   .rms = rms,
				   .epsilon = (double)p->epsilon};
	return gpu_norm_set(s, step, n, d);
}

struct batch {
	void *fn;
	struct gpu_batch job;
};

static bool batch_accepts(const struct site *s, struct why *w)
{
	const struct batch_norm *p = s->node->params;

	if (p->training_mode || site_out(s, 1))
		return refuse(w, "training mode or outputs of statistics");
	for (uint32_t i = 1; i < 5; i++)
		if (gpu_type(s, i) != gpu_type(s, 0))
			return refuse(w, "statistics of another type");
	return true;
}

static int batch_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct batch_norm *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct batch *b = arena_new(s->plan_arena, struct batch);

	b->job = (struct gpu_batch){.n = gpu_count(x),
				    .channels = x->rank > 1 ? x->dim[1] : 1,
				    .inner = x->rank > 2 ? shape_span(x, 2, x->rank) : 1,
				    .epsilon = (double)p->epsilon};
	b->fn = gpu_typed(s, "rows", "batch", gpu_type(s, 0), d);
	step->state = b;
	gpu_inplace(step, 0, 0);
	return b->fn ? 0 : -E_DEVICE;
}

static int batch_run(const struct call *c)
{
	const struct batch *b = c->step->state;
	struct gpu_batch job = b->job;

	job.x = gpu_data(c, 0);
	job.scale = gpu_data(c, 1);
	job.bias = gpu_data(c, 2);
	job.mean = gpu_data(c, 3);
	job.var = gpu_data(c, 4);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, b->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

#define ROW(name, how)                                                                             \
	{                                                                                          \
		.op = (name), .types = T_FLOATING, .accepts = how##_accepts,                       \
		.reshape = how##_reshape, .run = gpu_norm_run                                      \
	}

const struct kernel gpu_norm[] = {{.op = "BatchNormalization",
				   .types = T_FLOATING,
				   .accepts = batch_accepts,
				   .reshape = batch_reshape,
				   .run = batch_run},
				  ROW("InstanceNormalization", channels),
				  ROW("GroupNormalization", channels),
				  ROW("LayerNormalization", layer),
				  ROW("RMSNormalization", layer),
				  ROW("SimplifiedLayerNormalization", layer),
				  ROW("com.microsoft::LayerNormalization", layer),
				  ROW("com.microsoft::SimplifiedLayerNormalization", layer),
				  ROW("com.microsoft::SkipLayerNormalization", skip),
				  ROW("com.microsoft::SkipSimplifiedLayerNormalization", skip),
				  GPU_NORM_ROWS,
				  {0}};
