/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of the domain infer, which only the optimizer creates. */
#include "ops/fused.h"

#include "gpu/ops/sdpa.h"
#include "gpu/ops/norm.h"
#include "gpu/ops/pointwise.h"
#include "gpu/ops/conv.h"
#include "gpu/ops/gemv.h"
#include "gpu/ops/matmul.h"
#include "gpu/ops/task_rows.h"

static bool gemm_accepts(const struct site *s, struct why *w)
{
	return gpu_product_accepts(s, s->node->params, w);
}

static int gemm_reshape(struct site *s, struct step *step, struct diag *d)
{
	return gpu_product_reshape(s, s->node->params, step, d);
}

static bool gemv_accepts(const struct site *s, struct why *w)
{
	gpu_note_wide_product(s, s->node->params);
	return gpu_gemv_accepts(s, s->node->params, w);
}

static int gemv_reshape(struct site *s, struct step *step, struct diag *d)
{
	return gpu_gemv_reshape(s, s->node->params, step, d);
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
		.add = 1, .add2 = -1, .scale = 2, .bias = 3, .mean = -1, .inv = -1, .sum = 1, .q = -1};
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

#define ROW(name, how, run_)                                                                       \
	{                                                                                          \
		.op = (name), .types = T_FLOATING, .accepts = how##_accepts,                       \
		.reshape = how##_reshape, .run = run_                                              \
	}

const struct kernel gpu_fused[] = {
	{.op = "infer::Conv",
	 .types = T_FLOATING,
	 .accepts = gpu_conv_accepts,
	 .reshape = gpu_conv_reshape,
	 .run = gpu_conv_run,
	 .drop = gpu_conv_drop},
	ROW("infer::Gemm", gemv, gpu_gemv_run),
	{.op = "infer::Gemm",
	 .types = T_FLOATING,
	 .accepts = library_accepts,
	 .reshape = library_reshape,
	 .run = gpu_library_run,
	 .drop = gpu_library_drop},
	ROW("infer::Gemm", gemm, gpu_product_run),
	ROW("infer::Attention", gpu_fused_attention, gpu_fused_attention_run),
	{.op = "infer::AttentionFloat8",
	 .types = T_F16,
	 .accepts = gpu_fused_attention_accepts,
	 .reshape = gpu_fused_attention_reshape,
	 .run = gpu_fused_attention_run},
	ROW("infer::AddLayerNorm", addnorm, gpu_norm_run),
	{.op = "infer::Pointwise",
	 .types = T_GROUPED,
	 .accepts = gpu_pointwise_compiled_accepts,
	 .reshape = gpu_pointwise_compiled_reshape,
	 .run = gpu_pointwise_compiled_run},
	{.op = "infer::Pointwise",
	 .types = T_GROUPED,
	 .accepts = gpu_pointwise_accepts,
	 .reshape = gpu_pointwise_reshape,
	 .run = gpu_pointwise_run},
	GPU_FUSED_ROWS,
	{0}};
