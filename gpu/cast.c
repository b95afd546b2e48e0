/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/util.h"

struct cast_state {
	void *fn;
	struct gpu_map job;
};

static bool cast_accepts(const struct site *s, struct why *w)
{
	if (!(T_BIT(gpu_out_type(s, 0)) & (T_NUMBERS | T_BOOL)))
		return refuse(w, "to %s", dtype_name(gpu_out_type(s, 0)));
	return true;
}

static int cast_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct cast_state *c = arena_new(s->plan_arena, struct cast_state);

	c->job.n = gpu_count(&site_in(s, 0)->shape);
	c->job.to = (int)gpu_out_type(s, 0);
	c->fn = gpu_typed(s, "elementwise", "cast", gpu_type(s, 0), d);
	step->state = c;
	step->unread = 2; /* CastLike's second input says the type */
	return c->fn ? 0 : -E_DEVICE;
}

static int cast_run(const struct call *c)
{
	const struct cast_state *s = c->step->state;
	struct gpu_map job = s->job;

	job.x = gpu_data(c, 0);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, s->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

#define ROW(name)                                                                                  \
	{                                                                                          \
		.op = (name), .types = T_NUMBERS | T_BOOL, .accepts = cast_accepts,                \
		.reshape = cast_reshape, .run = cast_run                                           \
	}
const struct kernel gpu_cast[] = {ROW("Cast"), ROW("CastLike"), {0}};
