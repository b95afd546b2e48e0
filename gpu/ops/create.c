/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are made from few or no input values: constants, EyeLike, Range and random numbers. */
#include "ops/create.h"

#include "gpu/launch/job.h"

#include "base/seed.h"

#include <math.h>

#define T_MADE (T_NUMBERS | T_BOOL)

/* ---- filling --------------------------------------------------------------------------------- */

/* Fills the 16-byte pattern that the kernel repeats with copies of the element at `unit`. */
static void fill_pattern(struct gpu_fill *j, enum dtype t, const void *unit)
{
	unsigned bits = dtype_bits(t);

	if (bits < 8) {
		for (int64_t i = 0; i < 128 / bits; i++)
			elem_set_f64(t, j->unit, i, elem_f64(t, unit, 0));
		return;
	}
	for (unsigned i = 0; i < 16; i += bits / 8)
		memcpy(j->unit + i, unit, bits / 8);
}

static bool fill_accepts(const struct site *s, struct why *w)
{
	if (gpu_out_type(s, 0) == DT_STRING)
		return refuse(w, "strings");
	if (dtype_bits(gpu_out_type(s, 0)) < 8 && gpu_count(&site_out(s, 0)->shape) % 8)
		return refuse(w, "a last byte that is not full");
	return true;
}

static int fill_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct constant_of_shape *p = s->node->params;
	const struct constant_fill *f = s->node->params;
	enum dtype t = gpu_out_type(s, 0);
	struct gpu_fill job = {0};
	uint64_t unit[2] = {0};
	size_t bytes = 0;

	dtype_bytes(t, gpu_count(&site_out(s, 0)->shape), &bytes);
	if (s->node->op->variant == FILL_WITH_TENSOR)
		fill_pattern(&job, t, p->value ? p->value->data : unit);
	else {
		elem_set_f64(t, unit, 0, (double)f->value);
		fill_pattern(&job, t, unit);
	}
	job.n = (int64_t)bytes;
	step->unread = 1;
	return bytes ? GPU_TASK(s, step, "create", "fill_bytes", &job, job.n / 16 + 1, d) : 0;
}

/* ---- EyeLike, Range -------------------------------------------------------------------------- */

static bool output_accepts(const struct site *s, struct why *w)
{
	enum dtype t = gpu_out_type(s, 0);

	return T_BIT(t) & T_MADE ? true : refuse(w, "%s", dtype_name(t));
}

static int eye_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct eye_like *p = s->node->params;
	const struct shape *y = &site_out(s, 0)->shape;
	struct gpu_make job = {.n = gpu_count(y), .cols = y->dim[1], .k = p->k};

	if (p->k < -y->dim[0] || p->k > y->dim[1])
		job.k = INT64_MAX; /* puts the diagonal outside of the matrix */
	step->unread = 1;
	return job.n ? GPU_TASK(s, step, "create", "eye", &job, job.n, d) : 0;
}

static int range_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_make job = {.n = gpu_count(&site_out(s, 0)->shape)};

	step->unread = 2;
	return job.n ? GPU_TASK(s, step, "create", "range", &job, job.n, d) : 0;
}

static bool range_accepts(const struct site *s, struct why *w)
{
	if (!shape_known(&site_out(s, 0)->shape))
		return refuse(w, "a length that only the run knows");
	return output_accepts(s, w);
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* State of a node with random numbers. Without the attribute `seed`, the node draws other numbers in each run. */
struct random_state {
	struct gpu_tasks *tasks;
	bool fixed;
};

static int random_add(struct site *s, struct step *step, struct gpu_make *job, const char *kernel,
		      float seed, struct diag *d)
{
	struct random_state *r = arena_new(s->plan_arena, struct random_state);
	uint32_t bits;
	int err = 0;

	memcpy(&bits, &seed, sizeof(bits));
	job->seed = bits;
	r->fixed = !isnan(seed);
	if (job->n > 0)
		err = GPU_TASK(s, step, "create", kernel, job, job->n, d);
	r->tasks = step->state;
	step->state = r;
	step->no_capture = !r->fixed;
	return err;
}

static int random_run(const struct call *c)
{
	const struct random_state *r = c->step->state;
	struct gpu_make job;

	if (!r->tasks)
		return 0;
	memcpy(&job, r->tasks->v[0].job, sizeof(job));
	gpu_io_fill(c, &job.io);
	if (!r->fixed)
		job.seed = seed_new();
	return gpu_launch(c, r->tasks->v[0].fn, r->tasks->v[0].grid, &job, sizeof(job));
}

static int random_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct random *p = s->node->params;
	struct gpu_make job = {.n = gpu_count(&site_out(s, 0)->shape),
			       .a = (double)p->a,
			       .b = (double)p->b,
			       .kind = s->node->op->variant == RANDOM_NORMAL ? GPU_RANDOM_NORMAL
									     : GPU_RANDOM_UNIFORM};

	step->unread = 1;
	return random_add(s, step, &job, "random_numbers", p->seed, d);
}

static int bernoulli_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct bernoulli *p = s->node->params;
	struct gpu_make job = {.n = gpu_count(&site_out(s, 0)->shape), .kind = GPU_RANDOM_BERNOULLI};

	return random_add(s, step, &job, "random_numbers", p->seed, d);
}

static int multinomial_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct multinomial *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	struct gpu_make job = {.n = gpu_count(y), .cols = x->dim[1], .k = y->dim[1]};

	return random_add(s, step, &job, "multinomial", p->seed, d);
}

static bool multinomial_accepts(const struct site *s, struct why *w)
{
	return site_in(s, 0)->shape.dim[1] > 0 || refuse(w, "no classes");
}

#define RANDOM(name)                                                                                  \
	{                                                                                             \
		.op = (name), .accepts = output_accepts, .reshape = random_reshape, .run = random_run \
	}

const struct kernel gpu_create[] = {
	{.op = "ConstantOfShape", .accepts = fill_accepts, .reshape = fill_reshape, .run = gpu_tasks_run},
	{.op = "ConstantFill", .accepts = fill_accepts, .reshape = fill_reshape, .run = gpu_tasks_run},
	{.op = "EyeLike", .accepts = output_accepts, .reshape = eye_reshape, .run = gpu_tasks_run},
	{.op = "Range", .accepts = range_accepts, .reshape = range_reshape, .run = gpu_tasks_run},
	RANDOM("RandomNormal"),
	RANDOM("RandomUniform"),
	RANDOM("RandomNormalLike"),
	RANDOM("RandomUniformLike"),
	{.op = "Bernoulli", .accepts = output_accepts, .reshape = bernoulli_reshape, .run = random_run},
	{.op = "Multinomial",
	 .accepts = multinomial_accepts,
	 .reshape = multinomial_reshape,
	 .run = random_run},
	{0}};
