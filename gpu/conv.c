/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/conv.h"

#include "gpu/product.h"

enum { TILE = 64, MOST = 65535, FEW = 16 };

struct conv_state {
	void *fn;
	bool direct;
	struct gpu_conv_job job;
};

static const char *fill(const struct site *s, struct conv_state *c)
{
	const struct window_attrs *a = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *weight = &site_in(s, 1)->shape;
	struct gpu_conv_job *j = &c->job;
	struct window w = {0};
	bool fused = s->node->op->domain != NULL;

	if (x->rank < 3 || x->rank > 2 + GPU_SPACE)
		return "no window of one to three dimensions";
	if (window_set(&w, a, x, weight, false, NULL))
		return "a window that does not fit";
	if (fused) {
		const struct fused_conv *f = s->node->params;
		j->group = f->group;
		j->act = f->act, j->act_alpha = (double)f->act_alpha,
		j->act_beta = (double)f->act_beta;
	} else {
		j->group = ((const struct conv *)s->node->params)->group;
	}
	j->image = j->pixels = j->window = 1;
	for (int i = 0; i < GPU_SPACE; i++) {
		int k = i - (GPU_SPACE - w.n);
		j->in[i] = k < 0 ? 1 : w.in[k];
		j->out[i] = k < 0 ? 1 : w.out[k];
		j->kernel[i] = k < 0 ? 1 : w.kernel[k];
		j->stride[i] = k < 0 ? 1 : w.stride[k];
		j->dilation[i] = k < 0 ? 1 : w.dilation[k];
		j->begin[i] = k < 0 ? 0 : w.begin[k];
		j->image *= j->in[i];
		j->pixels *= j->out[i];
		j->window *= j->kernel[i];
	}
	j->batch = x->dim[0];
	j->cin = weight->dim[1];
	j->cout = weight->dim[0] / j->group;
	c->direct = j->cout < FEW || j->batch * j->group > MOST;
	return NULL;
}

bool gpu_conv_accepts(const struct site *s, struct why *w)
{
	struct conv_state c = {0};
	const char *bad = fill(s, &c);

	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct conv_state *c = arena_new(s->plan_arena, struct conv_state);

	fill(s, c);
	c->fn = gpu_typed(s, "product", c->direct ? "direct" : "conv", gpu_type(s, 0), d);
	step->state = c;
	return c->fn ? 0 : -E_DEVICE;
}

int gpu_conv_run(const struct call *c)
{
	const struct conv_state *s = c->step->state;
	struct gpu_conv_job job = s->job;
	int64_t n = job.batch * job.group * job.cout * job.pixels;
	struct gpu_grid g = {(unsigned)((job.pixels + TILE - 1) / TILE),
			     (unsigned)((job.cout + TILE - 1) / TILE),
			     (unsigned)(job.batch * job.group), 256, 0};

	job.x = gpu_data(c, 0);
	job.w = gpu_data(c, 1);
	job.b = gpu_data(c, 2);
	job.r = gpu_data(c, 3);
	job.y = gpu_out(c, 0);
	return n ? gpu_launch(c, s->fn, s->direct ? gpu_grid(n) : g, &job, sizeof(job)) : 0;
}

const struct kernel gpu_conv[] = {{.op = "Conv",
				   .types = T_FLOATING,
				   .accepts = gpu_conv_accepts,
				   .reshape = gpu_conv_reshape,
				   .run = gpu_conv_run},
				  {0}};
