/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/softmax.h"

#include "gpu/ops/norm.h"

struct line {
	void *fn;
	struct gpu_grid grid;
	struct gpu_line job;
};

static int softmax_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct softmax *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct line *l = arena_new(s->plan_arena, struct line);
	int axis = x->rank ? axis_of(p->axis, x->rank) : 0;
	char first = s->node->op->name[0], name[64];
	struct gpu_rows fit;

	l->job = (struct gpu_line){.outer = 1,
				   .n = 1,
				   .inner = 1,
				   .op = first == 'S'	? GPU_SOFTMAX
					 : first == 'L' ? GPU_LOG_SOFTMAX
							: GPU_HARDMAX};
	if (x->rank) {
		l->job.outer = shape_span(x, 0, axis);
		l->job.n = x->dim[axis];
		l->job.inner = shape_span(x, axis + 1, x->rank);
	}
	step->state = l;
	gpu_inplace(step, 0, 0);
	if (l->job.inner == 1 && l->job.op != GPU_HARDMAX &&
	    gpu_rows_fit(l->job.outer, l->job.n, gpu_type(s, 0), "softmax", name, &fit)) {
		l->grid = fit.grid;
		l->job.row_threads = fit.threads;
		l->fn = gpu_kernel(s, "rows", name, d);
		return l->fn ? 0 : -E_DEVICE;
	}
	int64_t lines = l->job.outer * l->job.inner;
	l->grid = (struct gpu_grid){(unsigned)(lines > 1 << 20 ? 1 << 20 : lines), 1, 1,
				    l->job.n <= 32    ? 32
				    : l->job.n <= 256 ? 128
						      : 256,
				    0};
	l->fn = gpu_typed(s, "rows", "softmax", gpu_type(s, 0), d);
	return l->fn ? 0 : -E_DEVICE;
}

static int softmax_run(const struct call *c)
{
	const struct line *l = c->step->state;
	struct gpu_line job = l->job;
	int64_t lines = job.outer * job.inner;

	job.x = gpu_data(c, 0);
	job.y = gpu_out(c, 0);
	return lines > 0 && job.n > 0 ? gpu_launch(c, l->fn, l->grid, &job, sizeof(job)) : 0;
}

#define ROW(name)                                                                                  \
	{                                                                                          \
		.op = (name), .types = T_FLOATING, .reshape = softmax_reshape, .run = softmax_run  \
	}
const struct kernel gpu_softmax[] = {ROW("Softmax"), ROW("LogSoftmax"), ROW("Hardmax"), {0}};
