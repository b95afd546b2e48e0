/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reduce.h"

#include "gpu/launch/job.h"
#include "ops/ints.h"

static const struct {
	const char *op;
	int how;
} hows[] = {
	{"ReduceSum", R_SUM},	    {"ReduceMean", R_MEAN},
	{"ReduceMax", R_MAX},	    {"ReduceMin", R_MIN},
	{"ReduceProd", R_PROD},	    {"ReduceL1", R_L1},
	{"ReduceL2", R_L2},	    {"ReduceSumSquare", R_SUMSQUARE},
	{"ReduceLogSum", R_LOGSUM}, {"ReduceLogSumExp", R_LOGSUMEXP},
};

struct reduction {
	void *fn;
	struct gpu_reduce_job job;
};

/*
 * Splits the dims of x into the dims to keep and the dims to reduce, whose bits are set in mask. Returns false if there
 * are too many dims.
 */
static bool fill_reduction(const struct shape *x, uint32_t mask, struct gpu_reduce_job *j)
{
	return gpu_part(x, mask, &j->keep, &j->ks, &j->n, &j->red, &j->rs, &j->m);
}

static bool axes_of(const struct site *s, uint32_t *mask)
{
	const struct reduce *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct int_list l = {0};

	if (site_in(s, 1) && !gpu_list(s, 1, &l))
		return false;
	*mask = 0;
	for (int i = 0; i < l.n; i++)
		*mask |= 1u << axis_of(l.v[i], x->rank);
	if (!l.n && !p->noop_with_empty_axes)
		*mask = (1u << x->rank) - 1;
	return true;
}

static bool reduce_accepts(const struct site *s, struct why *w)
{
	struct gpu_reduce_job j = {0};
	uint32_t mask;

	if (!axes_of(s, &mask))
		return refuse(w, "axes that only the run knows");
	return fill_reduction(&site_in(s, 0)->shape, mask, &j) ||
	       refuse(w, "more than %d dimensions", GPU_DIMS);
}

static int reduce_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct reduction *r = arena_new(s->plan_arena, struct reduction);
	uint32_t mask;

	axes_of(s, &mask);
	fill_reduction(&site_in(s, 0)->shape, mask, &r->job);
	for (size_t i = 0; i < sizeof(hows) / sizeof(*hows); i++)
		if (!strcmp(hows[i].op, s->node->op->name))
			r->job.op = hows[i].how;
	r->fn = gpu_typed(s, "rows", "reduce", gpu_type(s, 0), d);
	step->state = r;
	step->unread = 2;
	return r->fn ? 0 : -E_DEVICE;
}

static struct gpu_grid grid_of(int64_t blocks, int64_t each)
{
	unsigned threads = each <= 32 ? 32 : each <= 128 ? 128 : 256;
	return (struct gpu_grid){(unsigned)(blocks > 1 << 20 ? 1 << 20 : blocks), 1, 1, threads, 0};
}

static int reduce_run(const struct call *c)
{
	const struct reduction *r = c->step->state;
	struct gpu_reduce_job job = r->job;
	bool finds = job.op >= R_ARGMAX;

	job.x = gpu_data(c, 0);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, r->fn, grid_of(job.n, finds ? 32 : job.m), &job, sizeof(job))
		     : 0;
}

static int arg_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct arg_reduce *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct reduction *r = arena_new(s->plan_arena, struct reduction);

	fill_reduction(x, x->rank ? 1u << axis_of(p->axis, x->rank) : 0, &r->job);
	r->job.op = (s->node->op->variant == ARG_MIN ? R_ARGMIN : R_ARGMAX) +
		    (p->select_last_index ? R_ARGMAX_LAST - R_ARGMAX : 0);
	r->fn = gpu_typed(s, "rows", "arg", gpu_type(s, 0), d);
	step->state = r;
	return r->fn ? 0 : -E_DEVICE;
}

static bool arg_accepts(const struct site *s, struct why *w)
{
	struct gpu_reduce_job j = {0};
	const struct shape *x = &site_in(s, 0)->shape;

	if (!gpu_count(x) && gpu_count(&site_out(s, 0)->shape))
		return refuse(w, "nothing to choose from");
	return fill_reduction(x, x->rank ? 1 : 0, &j) ||
	       refuse(w, "more than %d dimensions", GPU_DIMS);
}

struct line {
	void *fn;
	struct gpu_line job;
};

static bool cumulate_accepts(const struct site *s, struct why *w)
{
	const struct tensor *t = site_known(s, 1);

	if (!t || tensor_count(t) != 1 || !site_in(s, 0)->shape.rank ||
	    axis_of(elem_i64(tensor_dtype(t), t->data, 0), site_in(s, 0)->shape.rank) < 0)
		return refuse(w, "an axis that only the run knows");
	return true;
}

static int cumulate_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct cumulate *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	const struct tensor *t = site_known(s, 1);
	struct line *l = arena_new(s->plan_arena, struct line);
	int axis = axis_of(elem_i64(tensor_dtype(t), t->data, 0), x->rank);

	l->job = (struct gpu_line){.outer = shape_span(x, 0, axis),
				   .n = x->dim[axis],
				   .inner = shape_span(x, axis + 1, x->rank),
				   .reverse = p->reverse != 0,
				   .exclusive = p->exclusive != 0,
				   .op = s->node->op->variant == CUMULATE_PRODUCT};
	l->fn = gpu_typed(s, "rows", "cumulate", gpu_type(s, 0), d);
	step->state = l;
	step->unread = 2;
	return l->fn ? 0 : -E_DEVICE;
}

static int cumulate_run(const struct call *c)
{
	const struct line *l = c->step->state;
	struct gpu_line job = l->job;

	job.x = gpu_data(c, 0);
	job.y = gpu_out(c, 0);
	int64_t lines = job.outer * job.inner;

	return lines > 0 && job.n > 0 ? gpu_launch(c, l->fn, gpu_grid(lines), &job, sizeof(job)) : 0;
}

/* Accepts CumSum and CumProd along an axis that is known only at run time. */
static bool anywhere_accepts(const struct site *s, struct why *w)
{
	const struct shape *x = &site_in(s, 0)->shape;

	return (x->rank > 0 && x->rank <= GPU_DIMS && gpu_count(&site_in(s, 1)->shape) == 1) ||
	       refuse(w, "a scalar, or more than %d dimensions", GPU_DIMS);
}

static int anywhere_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct cumulate *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_cumulate job = {.n = gpu_count(x),
				   .rank = x->rank,
				   .reverse = p->reverse != 0,
				   .exclusive = p->exclusive != 0,
				   .product = s->node->op->variant == CUMULATE_PRODUCT};

	memcpy(job.dim, x->dim, (size_t)x->rank * sizeof(*x->dim));
	return job.n ? GPU_TASK(s, step, "reduce", "cumulate_any", &job, job.n, d) : 0;
}

#define ANYWHERE(name)                                                                             \
	{                                                                                          \
		.op = (name), .types = T_NUMBERS, .accepts = anywhere_accepts,                     \
		.reshape = anywhere_reshape, .run = gpu_tasks_run                                  \
	}
/* The element types that ONNX allows. 8-bit integers are allowed for ReduceMax and ReduceMin only (T_REDUCED). */
#define T_CUMULATED (T_FLOATING | T_I32 | T_I64 | T_U32 | T_U64)
#define T_REDUCED   (T_CUMULATED | T_I8 | T_U8)
#define ROW(name)                                                                                  \
	{                                                                                          \
		.op = (name), .types = T_REDUCED, .accepts = reduce_accepts,                       \
		.reshape = reduce_reshape, .run = reduce_run                                       \
	}

const struct kernel gpu_reduce[] = {ROW("ReduceSum"),
				    ROW("ReduceMean"),
				    ROW("ReduceMax"),
				    ROW("ReduceMin"),
				    {.op = "ReduceMax",
				     .types = T_BOOL,
				     .accepts = reduce_accepts,
				     .reshape = reduce_reshape,
				     .run = reduce_run},
				    {.op = "ReduceMin",
				     .types = T_BOOL,
				     .accepts = reduce_accepts,
				     .reshape = reduce_reshape,
				     .run = reduce_run},
				    ROW("ReduceProd"),
				    ROW("ReduceL1"),
				    ROW("ReduceL2"),
				    ROW("ReduceSumSquare"),
				    ROW("ReduceLogSum"),
				    ROW("ReduceLogSumExp"),
				    {.op = "ArgMax",
				     .types = T_NUMBERS,
				     .accepts = arg_accepts,
				     .reshape = arg_reshape,
				     .run = reduce_run},
				    {.op = "ArgMin",
				     .types = T_NUMBERS,
				     .accepts = arg_accepts,
				     .reshape = arg_reshape,
				     .run = reduce_run},
				    {.op = "CumSum",
				     .types = T_CUMULATED,
				     .accepts = cumulate_accepts,
				     .reshape = cumulate_reshape,
				     .run = cumulate_run},
				    {.op = "CumProd",
				     .types = T_CUMULATED,
				     .accepts = cumulate_accepts,
				     .reshape = cumulate_reshape,
				     .run = cumulate_run},
				    ANYWHERE("CumSum"),
				    ANYWHERE("CumProd"),
				    {0}};
