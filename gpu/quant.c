/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/quant.h"

#include "gpu/util.h"

#define T_HALVES (T_F32 | T_F16 | T_BF16)

struct quant_state {
	void *fn;
	struct gpu_quantize job;
};

static const char *fill(const struct site *s, struct quant_state *q)
{
	const struct quantize_params *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	bool down = !strcmp(s->node->op->name, "QuantizeLinear");
	struct granularity g;

	enum dtype wide = down ? gpu_type(s, 0) : gpu_out_type(s, 0),
		   small = down ? gpu_out_type(s, 0) : gpu_type(s, 0);
	if (!(T_BIT(wide) & T_HALVES) || gpu_type(s, 1) != wide || (down && p->precision))
		return "scales of another type";
	if (!(T_BIT(small) & (T_I8 | T_U8 | T_I16 | T_U16 | (down ? 0 : T_I32))))
		return "no kernel for this narrow type";
	if (granularity_set(&g, x, &site_in(s, 1)->shape, p->axis, p->block_size))
		return "scales that do not fit";
	q->job = (struct gpu_quantize){
		.n = gpu_count(x), .from = (int)gpu_type(s, 0), .to = (int)gpu_out_type(s, 0)};
	if (g.kind != QUANT_TENSOR) {
		q->job.dim = g.dim;
		q->job.inner = g.inner;
	}
	if (g.kind == QUANT_BLOCK) {
		q->job.block = g.block;
		q->job.blocks = g.blocks;
	}
	return NULL;
}

static bool quant_accepts(const struct site *s, struct why *w)
{
	struct quant_state q = {0};
	const char *bad = fill(s, &q);

	return bad ? refuse(w, "%s", bad) : true;
}

static int quant_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct quant_state *q = arena_new(s->plan_arena, struct quant_state);
	bool down = !strcmp(s->node->op->name, "QuantizeLinear");

	fill(s, q);
	q->fn = gpu_typed(s, "rows", down ? "quantize" : "dequantize",
			  down ? gpu_out_type(s, 0) : gpu_type(s, 0), d);
	step->state = q;
	return q->fn ? 0 : -E_DEVICE;
}

static int quant_run(const struct call *c)
{
	const struct quant_state *q = c->step->state;
	struct gpu_quantize job = q->job;

	job.x = gpu_data(c, 0);
	job.scale = gpu_data(c, 1);
	job.zero = gpu_data(c, 2);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, q->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

const struct kernel gpu_quant[] = {{.op = "QuantizeLinear",
				    .types = T_HALVES,
				    .accepts = quant_accepts,
				    .reshape = quant_reshape,
				    .run = quant_run},
				   {.op = "DequantizeLinear",
				    .types = T_I8 | T_U8 | T_I16 | T_U16 | T_I32,
				    .accepts = quant_accepts,
				    .reshape = quant_reshape,
				    .run = quant_run},
				   {0}};
