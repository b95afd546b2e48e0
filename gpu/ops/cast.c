/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cast.h"

#include "gpu/launch/job.h"

GPU_SAME(GPU_CAST_UP, CAST_UP);
GPU_SAME(GPU_CAST_DOWN, CAST_DOWN);
GPU_SAME(GPU_CAST_NEAREST, CAST_NEAREST);

/* types between which the kernels for each input type convert; casts with other types use the kernel cast_any */
#define T_USUAL (T_NUMBERS | T_BOOL)
#define T_CAST	((T_ALL | T_F6) & ~(T_STRING | T_COMPLEX))

/* types between which cast_some converts whole pieces of 16 bytes */
#define T_SOME (T_BIT(DT_F32) | T_F16 | T_BF16)

struct cast_state {
	void *fn, *some; /* some: where both types are among T_SOME, for operands that are aligned to 16 bytes */
	struct gpu_map job;
};

static bool is_like(const struct site *s)
{
	return s->node->op->name[4] != 0;
}

static bool usual_accepts(const struct site *s, struct why *w)
{
	if (!(T_BIT(gpu_out_type(s, 0)) & T_USUAL))
		return refuse(w, "to %s", dtype_name(gpu_out_type(s, 0)));
	if (gpu_type(s, 0) == DT_F64 && T_BIT(gpu_out_type(s, 0)) & (T_F16 | T_BF16))
		return refuse(w, "a conversion that would round twice, through fp32");
	return true;
}

static int usual_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct cast_state *c = arena_new(s->plan_arena, struct cast_state);

	c->job.n = gpu_count(&site_in(s, 0)->shape);
	c->job.to = (int)gpu_out_type(s, 0);
	if (!is_like(s) && ((const struct cast *)s->node->params)->finite)
		c->job.p[0] = (double)(float)float_largest(gpu_out_type(s, 0));
	c->fn = gpu_typed(s, "elementwise", "cast", gpu_type(s, 0), d);
	if (T_BIT(gpu_type(s, 0)) & T_SOME && T_BIT(gpu_out_type(s, 0)) & T_SOME)
		c->some = gpu_typed(s, "elementwise", "cast_some", gpu_type(s, 0), d);
	step->state = c;
	/*
	 * The kernel does not read CastLike's second input: only its type matters, which is known when the plan is
	 * made.
	 */
	step->unread = 2;
	return c->fn ? 0 : -E_DEVICE;
}

static int usual_run(const struct call *c)
{
	const struct cast_state *s = c->step->state;
	struct gpu_map job = s->job;

	job.x = gpu_data(c, 0);
	job.y = gpu_out(c, 0);
	if (!job.n)
		return 0;
	if (s->some && ((uintptr_t)job.x | (uintptr_t)job.y) % 16 == 0)
		return gpu_launch(c, s->some,
				  gpu_grid((job.n + GPU_CAST_AT_ONCE - 1) / GPU_CAST_AT_ONCE), &job,
				  sizeof(job));
	return gpu_launch(c, s->fn, gpu_grid(job.n), &job, sizeof(job));
}

static bool any_accepts(const struct site *s, struct why *w)
{
	if (!(T_BIT(gpu_out_type(s, 0)) & T_CAST))
		return refuse(w, "to %s", dtype_name(gpu_out_type(s, 0)));
	return true;
}

static int any_reshape(struct site *s, struct step *step, struct diag *d)
{
	bool like = is_like(s);
	const struct cast *c = s->node->params;
	const struct cast_like *l = s->node->params;
	struct gpu_any_cast job = {.n = gpu_count(&site_in(s, 0)->shape),
				   .saturate = (like ? l->saturate : c->saturate) != 0,
				   .mode = like ? l->round_mode : c->round_mode};

	step->unread = 2;
	return job.n ? GPU_TASK(s, step, "cast", "cast_any", &job, job.n, d) : 0;
}

#define ROWS(name)                                                                                                         \
	{.op = (name),                                                                                                     \
	 .types = T_NUMBERS, /* bool is left out, because any byte other than 0 means true, which only cast_any handles */ \
	 .flags = K_ANY_LAYOUT,                                                                                            \
	 .accepts = usual_accepts,                                                                                         \
	 .reshape = usual_reshape,                                                                                         \
	 .run = usual_run},                                                                                                \
	{                                                                                                                  \
		.op = (name), .types = T_CAST, .accepts = any_accepts, .reshape = any_reshape,                             \
		.run = gpu_tasks_run                                                                                       \
	}
const struct kernel gpu_cast[] = {ROWS("Cast"), ROWS("CastLike"), {0}};
