/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators of one tensor. */
#include "gpu/launch/job.h"
#include "ops/unary.h"

#include "base/seed.h"

struct unary {
	void *fn;
	struct gpu_map job;
};

static int unary_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct unary *u = arena_new(s->plan_arena, struct unary);
	struct unary_function f = unary_function(s->node);

	u->job.op = f.number;
	memcpy(u->job.p, f.param, sizeof(f.param));
	u->job.n = gpu_count(&site_in(s, 0)->shape);
	u->fn = gpu_typed(s, "elementwise", "unary", gpu_type(s, 0), d);
	step->state = u;
	gpu_inplace(step, 0, 0);
	return u->fn ? 0 : -E_DEVICE;
}

static int unary_run(const struct call *c)
{
	const struct unary *u = c->step->state;
	struct gpu_map job = u->job;

	job.x = gpu_data(c, 0);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, u->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

static int clip_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct unary *u = arena_new(s->plan_arena, struct unary);

	u->job.n = gpu_count(&site_in(s, 0)->shape);
	u->fn = gpu_typed(s, "elementwise", "clip", gpu_type(s, 0), d);
	step->state = u;
	gpu_inplace(step, 0, 0);
	return u->fn ? 0 : -E_DEVICE;
}

static int clip_run(const struct call *c)
{
	const struct unary *u = c->step->state;
	struct gpu_map job = u->job;

	job.x = gpu_data(c, 0);
	job.lo = gpu_data(c, 1);
	job.hi = gpu_data(c, 2);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, u->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

static int class_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct unary *u = arena_new(s->plan_arena, struct unary);
	const struct is_inf *p = s->node->params;

	u->job.op = s->node->op->variant == IS_INF;
	if (u->job.op) {
		u->job.p[0] = (double)p->detect_negative;
		u->job.p[1] = (double)p->detect_positive;
	}
	u->job.n = gpu_count(&site_in(s, 0)->shape);
	u->fn = gpu_typed(s, "elementwise", "class", gpu_type(s, 0), d);
	step->state = u;
	return u->fn ? 0 : -E_DEVICE;
}

/* Accepts Dropout that is known not to drop anything and has no mask output. It becomes a view of its input. */
static bool dropout_accepts(const struct site *s, struct why *w)
{
	const struct tensor *mode = s->node->nin > 2 ? site_known(s, 2) : NULL;

	if (site_out(s, 1) ||
	    (site_in(s, 2) && (!mode || tensor_count(mode) != 1 || elem_i64(DT_BOOL, mode->data, 0))))
		return refuse(w, "training mode, or an output of the mask");
	return true;
}

/* Dropout in training mode, in a mode that is known only at run time, or with a mask output. */
struct dropping {
	void *fn;
	bool fixed; /* the model gives the seed */
	struct gpu_dropout job;
};

static int dropping_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct dropout *p = s->node->params;
	struct dropping *r = arena_new(s->plan_arena, struct dropping);

	r->fixed = p->seed != INT_ABSENT;
	r->job = (struct gpu_dropout){.n = gpu_count(&site_in(s, 0)->shape),
				      .seed = r->fixed ? (uint64_t)p->seed : 0,
				      .size = (int)gpu_size(gpu_type(s, 0)),
				      .mask_zero = p->mask_zero};
	gpu_io_types(s, &r->job.io);
	r->fn = gpu_kernel(s, "slice", "dropout", d);
	step->state = r;
	step->no_capture = !r->fixed;
	return r->fn ? 0 : -E_DEVICE;
}

static int dropping_run(const struct call *c)
{
	const struct dropping *r = c->step->state;
	struct gpu_dropout job = r->job;

	gpu_io_fill(c, &job.io);
	if (!r->fixed)
		job.seed = seed_new();
	return job.n ? gpu_launch(c, r->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

/* Accepts FastGelu without a bias. FastGelu with a bias is a binary operator (binary.c). */
static bool fast_gelu_accepts(const struct site *s, struct why *w)
{
	return !site_in(s, 1) || refuse(w, "a bias");
}

/* ImageScaler: y = x * scale + bias[channel]. */
static int scaler_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct image_scaler *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	int64_t channels = p->bias.n > 0 ? p->bias.n : 1,
		inner = x->rank > 2 ? shape_span(x, 2, x->rank) : 1;
	struct gpu_image_scale job = {.n = gpu_count(x), .inner = inner, .channels = channels};
	int err = 0;

	job.scale = (double)p->scale;
	/* The biases are part of the job, which holds GPU_SCALES of them for each launch. */
	for (int64_t c = 0; c < channels && job.n && !err; c += GPU_SCALES) {
		job.first = c;
		for (int64_t i = 0; i < GPU_SCALES && c + i < p->bias.n; i++)
			job.bias[i] = p->bias.v[c + i];
		err = GPU_TASK(s, step, "slice", "image_scale", &job, job.n, d);
	}
	return err;
}

static int bits_reshape(struct site *s, struct step *step, struct diag *d)
{
	(void)d;
	step->nop = dtype_bits(gpu_type(s, 0)) == dtype_bits(gpu_out_type(s, 0));
	return 0;
}

static bool bits_accepts(const struct site *s, struct why *w)
{
	const struct vinfo *x = site_in(s, 0);

	return x->type.kind == V_TENSOR || refuse(w, "no tensor");
}

#define ROW(name, types_)                                                                          \
	{                                                                                          \
		.op = (name), .types = (types_), .flags = K_ANY_LAYOUT, .reshape = unary_reshape,  \
		.run = unary_run                                                                   \
	}

const struct kernel gpu_unary[] = {
#define UNARY(op, id, types, nparams) ROW(op, types),
#include "ops/unary.def"
	ROW("com.microsoft::Gelu", T_FLOATING),
	ROW("com.microsoft::QuickGelu", T_FLOATING),
	{.op = "com.microsoft::FastGelu",
	 .types = T_FLOATING,
	 .flags = K_ANY_LAYOUT,
	 .accepts = fast_gelu_accepts,
	 .reshape = unary_reshape,
	 .run = unary_run},
	{.op = "ImageScaler", .types = T_FLOATING, .reshape = scaler_reshape, .run = gpu_tasks_run},
	{.op = "Clip", .types = T_NUMBERS, .flags = K_ANY_LAYOUT, .reshape = clip_reshape, .run = clip_run},
	{.op = "IsNaN",
	 .types = T_FLOATING,
	 .flags = K_ANY_LAYOUT,
	 .reshape = class_reshape,
	 .run = unary_run},
	{.op = "IsInf",
	 .types = T_FLOATING,
	 .flags = K_ANY_LAYOUT,
	 .reshape = class_reshape,
	 .run = unary_run},
	{.op = "Identity", .types = T_MOVED, .reshape = gpu_view_reshape, .run = gpu_view_run},
	{.op = "Dropout",
	 .types = T_FLOATING,
	 .accepts = dropout_accepts,
	 .reshape = gpu_view_reshape,
	 .run = gpu_view_run},
	{.op = "Dropout", .types = T_FLOATING, .reshape = dropping_reshape, .run = dropping_run},
	{.op = "BitCast",
	 .types = T_ALL & ~T_STRING,
	 .accepts = bits_accepts,
	 .reshape = bits_reshape,
	 .run = gpu_view_run},
	{0}};
