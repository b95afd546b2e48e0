/* SPDX-License-Identifier: Apache-2.0 */
/* What the optimizer makes. */
#include "ops/fused.h"

#include "gpu/attend.h"
#include "gpu/norm.h"
#include "gpu/product.h"

static bool gemm_accepts(const struct site *s, struct why *w)
{
	return gpu_product_accepts(s, s->node->params, w);
}

static int gemm_reshape(struct site *s, struct step *step, struct diag *d)
{
	return gpu_product_reshape(s, s->node->params, step, d);
}

static bool library_accepts(const struct site *s, struct why *w)
{
	return gpu_library_accepts(s, s->node->params, w);
}

static int library_reshape(struct site *s, struct step *step, struct diag *d)
{
	return gpu_library_reshape(s, s->node->params, step, d);
}

/* ---- AddLayerNorm ---------------------------------------------------------------------------- */

static int addnorm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_addnorm *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_norm_state *n = arena_new(s->plan_arena, struct gpu_norm_state);
	int64_t row = x->rank ? x->dim[x->rank - 1] : 1;

	*n = (struct gpu_norm_state){
		.add = 1, .add2 = -1, .scale = 2, .bias = 3, .mean = -1, .inv = -1, .sum = 1};
	n->job = (struct gpu_norm){.rows = x->rank ? shape_span(x, 0, x->rank - 1) : 1,
				   .n = row,
				   .period = 1,
				   .inner = 1,
				   .epsilon = (double)p->epsilon};
	return gpu_norm_set(s, step, n, d);
}

static bool addnorm_accepts(const struct site *s, struct why *w)
{
	const struct shape *x = &site_in(s, 0)->shape;
	int64_t row = x->rank ? x->dim[x->rank - 1] : 1;

	for (uint32_t i = 2; i < 4; i++)
		if (site_in(s, i) && shape_count(&site_in(s, i)->shape) != row)
			return refuse(w, "a scale or bias that is not as long as a row");
	return true;
}

/* ---- Pointwise ------------------------------------------------------------------------------- */

struct pointwise {
	void *fn;
	struct gpu_pointwise job;
};

static const char *fill_pointwise(const struct site *s, struct gpu_pointwise *j)
{
	const struct fused_pointwise *p = s->node->params;
	const struct shape *in[GPU_MANY], *y = &site_out(s, 0)->shape;
	struct gpu_dims d;
	int64_t step[GPU_MANY][GPU_DIMS] = {{0}};

	if (s->node->nin > GPU_PW_IN || s->node->nout > GPU_PW_OUT || p->code.n > 4 * GPU_CODE ||
	    p->consts.n > GPU_CONSTS - 1)
		return "a program that is too long";
	for (uint32_t i = 0; i < s->node->nin; i++)
		in[i] = &site_in(s, i)->shape;
	if (!gpu_broadcast(y, (int)s->node->nin, in, &d, step) || d.rank > GPU_PW_DIMS)
		return "too many dimensions";
	j->n = gpu_count(y);
	j->rank = d.rank;
	j->ncode = (int)(p->code.n / 4);
	j->nout = (int)s->node->nout;
	for (int r = 0; r < d.rank; r++) {
		j->dim[r] = d.dim[r];
		for (int k = 0; k < GPU_PW_IN; k++)
			j->step[k][r] = step[k][r];
	}
	for (int64_t i = 0; i < p->code.n; i++)
		j->code[i / 4][i % 4] = (uint8_t)p->code.v[i];
	for (int64_t i = 0; i < p->consts.n; i++)
		j->consts[i] = p->consts.v[i];
	for (int k = 0; k < j->nout; k++)
		j->outs[k] = (uint8_t)p->outs.v[k];
	return NULL;
}

static bool pointwise_accepts(const struct site *s, struct why *w)
{
	struct gpu_pointwise j = {0};
	const char *bad = fill_pointwise(s, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

static int pointwise_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct pointwise *p = arena_new(s->plan_arena, struct pointwise);

	fill_pointwise(s, &p->job);
	p->fn = gpu_typed(s, "product", "pointwise", gpu_type(s, 0), d);
	step->state = p;
	return p->fn ? 0 : -E_DEVICE;
}

static int pointwise_run(const struct call *c)
{
	const struct pointwise *p = c->step->state;
	struct gpu_pointwise job = p->job;

	for (uint32_t i = 0; i < c->step->nin; i++)
		job.in[i] = gpu_data(c, i);
	for (uint32_t i = 0; i < c->step->nout; i++)
		job.out[i] = gpu_out(c, i);
	return job.n ? gpu_launch(c, p->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

#define ROW(name, how, run_)                                                                       \
	{                                                                                          \
		.op = (name), .types = T_FLOATING, .accepts = how##_accepts,                       \
		.reshape = how##_reshape, .run = run_                                              \
	}

const struct kernel gpu_fused[] = {{.op = "infer::Conv",
				    .types = T_FLOATING,
				    .accepts = gpu_conv_accepts,
				    .reshape = gpu_conv_reshape,
				    .run = gpu_conv_run,
				    .drop = gpu_conv_drop},
				   {.op = "infer::Gemm",
				    .types = T_FLOATING,
				    .accepts = library_accepts,
				    .reshape = library_reshape,
				    .run = gpu_library_run,
				    .drop = gpu_library_drop},
				   ROW("infer::Gemm", gemm, gpu_product_run),
				   ROW("infer::Attention", gpu_fused_attention, gpu_fused_attention_run),
				   ROW("infer::AddLayerNorm", addnorm, gpu_norm_run),
				   ROW("infer::Pointwise", pointwise, pointwise_run),
				   {0}};
