/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/experts.h"

#include "base/mem.h"
#include "gpu/kernels/experts.h"
#include "gpu/launch/job.h"

GPU_SAME(GPU_EXPERT_RELU, EXPERT_RELU);
GPU_SAME(GPU_EXPERT_GELU, EXPERT_GELU);
GPU_SAME(GPU_EXPERT_SILU, EXPERT_SILU);
GPU_SAME(GPU_EXPERT_SWIGLU, EXPERT_SWIGLU);
GPU_SAME(GPU_EXPERT_IDENTITY, EXPERT_IDENTITY);
GPU_SAME(GPU_SWIGLU_APART, SWIGLU_APART);
GPU_SAME(GPU_SWIGLU_IN_TURN, SWIGLU_IN_TURN);
GPU_SAME(GPU_SWIGLU_HALVES, SWIGLU_HALVES);

struct experts_plan {
	struct gpu_experts job;
	void *route, *first, *second;
	size_t chosen, weight, between; /* offsets in the workspace */
};

static struct gpu_expert_layer layer_of(const struct site *s, int fc, int64_t rows, int64_t in)
{
	const struct experts *p = s->node->params;
	struct expert_inputs i = expert_inputs(s->node->op, fc);
	struct gpu_expert_layer l = {
		.rows = rows, .in = in, .block = in > 0 ? in : 1, .type = (int)gpu_type(s, i.weights)};

	if (s->node->op->variant == EXPERTS_QUANTIZED && p->quant_type == EXPERT_INT) {
		l.bits = (int)expert_bits(p, fc);
		l.block = p->block_size ? p->block_size : l.block;
		l.by_row = !p->block_size;
		l.scale_type = (int)gpu_type(s, i.scales);
	} else if (s->node->op->variant == EXPERTS_QUANTIZED &&
		   (expert_squares(p) || expert_fp4_block(p))) {
		l.fp4 = expert_fp4_block(p) != 0;
		l.block = l.fp4 ? expert_fp4_block(p) : p->block_size;
		l.scale_type = (int)gpu_type(s, i.scales);
	}
	return l;
}

static bool experts_accepts(const struct site *s, struct why *w)
{
	const struct experts *p = s->node->params;

	if (s->node->op->variant != EXPERTS_QUANTIZED)
		return true;
	if (p->quant_type == EXPERT_WFP4AFP8)
		return refuse(w, "activations in FP8");
	if (p->quant_type != EXPERT_INT && !expert_squares(p) &&
	    site_in(s, expert_inputs(s->node->op, FC3).weights))
		return refuse(w, "fc3 whose experts have no scale");
	return p->weights_prepacked == 1 ? refuse(w, "weights in a provider's own order") : true;
}

/* Reserves a * b * c elements of the workspace. Returns false if their size overflows. */
static bool room(struct step *step, int64_t a, int64_t b, int64_t c, size_t size, size_t *at)
{
	size_t n;

	if (!size_mul((size_t)a, (size_t)b, &n) || !size_mul(n, (size_t)c, &n) ||
	    !size_mul(n, size, &n) || n > PTRDIFF_MAX / 8)
		return false;
	*at = gpu_room(step, n);
	return true;
}

static int experts_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct experts *p = s->node->params;
	const struct op *op = s->node->op;
	enum dtype t = gpu_type(s, EXPERTS_X);
	struct expert_sizes z =
		expert_sizes(&site_in(s, EXPERTS_X)->shape, &site_in(s, EXPERTS_ROUTER)->shape,
			     &site_in(s, expert_inputs(op, FC1).weights)->shape, p);
	struct experts_plan *e = arena_new(s->plan_arena, struct experts_plan);

	e->job = (struct gpu_experts){.first = layer_of(s, FC1, z.wide, z.hidden),
				      .second = layer_of(s, FC2, z.hidden, z.inter),
				      .third = layer_of(s, FC3, z.inter, z.hidden),
				      .tokens = z.tokens,
				      .hidden = z.hidden,
				      .inter = z.inter,
				      .experts = z.experts,
				      .k = p->k,
				      .activation = p->activation_type,
				      .fusion = (int)p->swiglu_fusion,
				      .normalize = p->normalize_routing_weights != 0,
				      .mixer = p->use_sparse_mixer != 0,
				      .alpha = p->activation_alpha,
				      .beta = p->activation_beta,
				      .limit = expert_limit(p),
				      .jitter = EXPERTS_JITTER};
	step->state = e;
	if (!room(step, z.tokens, p->k, 1, sizeof(int64_t), &e->chosen) ||
	    !room(step, z.tokens, p->k, 1, sizeof(float), &e->weight) ||
	    !room(step, z.tokens, p->k, z.inter, sizeof(float), &e->between))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = op_qualified(op));
	e->route = gpu_typed(s, "experts", "experts_route", t, d);
	e->first = e->route ? gpu_typed(s, "experts", "experts_first", t, d) : NULL;
	e->second = e->first ? gpu_typed(s, "experts", "experts_second", t, d) : NULL;
	return e->second ? 0 : -E_DEVICE;
}

static void set_layer(const struct call *c, int fc, struct gpu_expert_layer *l)
{
	struct expert_inputs i = expert_inputs(c->step->node->op, fc);

	l->weights = gpu_data(c, i.weights);
	l->scales = gpu_data(c, i.scales);
	l->zeros = gpu_data(c, i.zeros);
	l->global = gpu_data(c, i.global);
	l->bias = gpu_data(c, i.bias);
}

static int experts_run(const struct call *c)
{
	const struct experts_plan *e = c->step->state;
	struct gpu_experts job = e->job;
	int err;

	job.x = gpu_data(c, EXPERTS_X);
	job.logits = gpu_data(c, EXPERTS_ROUTER);
	if (c->step->node->op->variant == EXPERTS_QUANTIZED)
		job.router_weights = gpu_data(c, EXPERTS_ROUTER_WEIGHTS);
	job.y = gpu_out(c, 0);
	job.chosen = gpu_at(c, e->chosen);
	job.weight = gpu_at(c, e->weight);
	job.between = gpu_at(c, e->between);
	set_layer(c, FC1, &job.first);
	set_layer(c, FC2, &job.second);
	set_layer(c, FC3, &job.third);
	if (job.tokens < 1 || job.hidden < 1)
		return 0;
	/* a block has four warps, and a warp computes an element */
	if ((err = gpu_launch(c, e->route, gpu_grid(job.tokens), &job, sizeof(job))))
		return err;
	if (job.inter > 0 &&
	    (err = gpu_launch(c, e->first, gpu_blocks((job.tokens * job.k * job.inter + 3) / 4, 128),
			      &job, sizeof(job))))
		return err;
	return gpu_launch(c, e->second, gpu_blocks((job.tokens * job.hidden + 3) / 4, 128), &job,
			  sizeof(job));
}

#define NF (T_F32 | T_F16 | T_BF16)
const struct kernel gpu_experts[] = {{.op = "com.microsoft::MoE",
				      .types = NF,
				      .accepts = experts_accepts,
				      .reshape = experts_reshape,
				      .run = experts_run},
				     {.op = "com.microsoft::QMoE",
				      .types = NF,
				      .accepts = experts_accepts,
				      .reshape = experts_reshape,
				      .run = experts_run},
				     {0}};
