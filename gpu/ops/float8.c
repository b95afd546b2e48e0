/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of --precision fp8 (ops/float8.h). */
#include "ops/float8.h"

#include "gpu/kernels/float8.h"
#include "gpu/launch/job.h"
#include "gpu/library/choices.h"
#include "gpu/library/cublaslt.h"
#include "gpu/ops/group_product.h"
#include "gpu/ops/norm.h"
#include "ops/activation.h"
#include "ops/fused.h"

/* ---- infer::Float8 --------------------------------------------------------------------------- */

struct rounding {
	void *most, *round;
	struct gpu_grid parts, grid;
	struct gpu_float8 job;
};

static int convert_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct float8_convert *p = s->node->params;
	struct rounding *r = arena_new(s->plan_arena, struct rounding);
	int64_t n = gpu_count(&site_in(s, 0)->shape);

	r->job = (struct gpu_float8){.n = n, .scale = p->scale};
	r->grid = gpu_grid(n / 8 + 1);
	r->round = gpu_kernel(s, "float8", "float8_round", d);
	if (p->scale <= 0) {
		r->parts = gpu_grid(n);
		if (r->parts.x > GPU_FLOAT8_PARTS)
			r->parts.x = GPU_FLOAT8_PARTS;
		r->job.parts = (int32_t)r->parts.x;
		r->most = gpu_kernel(s, "float8", "float8_most", d);
		step->workspace = GPU_FLOAT8_PARTS * sizeof(float);
	}
	step->state = r;
	return r->round && (r->most || p->scale > 0) ? 0 : -E_DEVICE;
}

static int convert_run(const struct call *c)
{
	const struct rounding *r = c->step->state;
	struct gpu_float8 job = r->job;
	int err = 0;

	job.x = gpu_data(c, 0);
	job.y = gpu_out(c, 0);
	if (r->most) {
		job.part = c->workspace;
		job.s = gpu_out(c, 1);
		err = gpu_launch(c, r->most, r->parts, &job, sizeof(job));
	}
	return err ? err : gpu_launch(c, r->round, r->grid, &job, sizeof(job));
}

/* ---- infer::LayerNormFloat8 ------------------------------------------------------------------ */

static int norm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct float8_norm *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_norm_state *n = arena_new(s->plan_arena, struct gpu_norm_state);

	*n = (struct gpu_norm_state){.add = -1,
				     .add2 = -1,
				     .scale = 1,
				     .bias = 2,
				     .y = 1,
				     .mean = -1,
				     .inv = -1,
				     .sum = -1,
				     .q = 0};
	n->job = (struct gpu_norm){.rows = shape_span(x, 0, x->rank - 1),
				   .n = x->dim[x->rank - 1],
				   .period = 1,
				   .inner = 1,
				   .rms = p->rms != 0,
				   .epsilon = (double)p->epsilon,
				   .q_factor = 1 / p->scale};
	return gpu_norm_set(s, step, n, d);
}

/* ---- infer::GemmFloat8 by warpgroups ---------------------------------------------------------- */

/* The product as one of group_product.c's, as which infer::Gemm has the same operands; NULL where cuBLASLt takes no longer than library_us. */
static struct group_product *by_groups(struct site *s, struct step *step, double library_us)
{
	const struct float8_gemm *p = s->node->params;
	const struct fused_gemm f = {.alpha = p->scale,
				     .beta = 1,
				     .transB = 1,
				     .act = p->act,
				     .act_alpha = p->act_alpha,
				     .act_beta = p->act_beta};

	return gpu_group_product(s, step, &f, library_us);
}

/* ---- infer::GemmFloat8 by cuBLASLt ----------------------------------------------------------- */

struct library_gemm {
	struct blaslt_product *product;
	struct group_product *group; /* if it is not NULL, warpgroups compute the product, and not cuBLASLt */
	float scale;
};

static struct blaslt_job library_job(const struct site *s)
{
	const struct float8_gemm *p = s->node->params;
	const struct shape *b = &site_in(s, FLOAT8_B)->shape;
	int64_t n = b->dim[0], k = b->dim[1], count = gpu_count(&site_out(s, 0)->shape);

	return (struct blaslt_job){.type = FLOAT8,
				   .b_is_weight = 1,
				   .out = (int32_t)p->type,
				   .scaled = site_in(s, FLOAT8_S) != NULL,
				   .trans_b = 1,
				   .bias = site_in(s, FLOAT8_C) != NULL,
				   .residual = site_in(s, FLOAT8_R) != NULL,
				   .act = p->act == ACT_RELU   ? BLASLT_RELU
					  : p->act != ACT_NONE ? BLASLT_GELU
							       : BLASLT_NONE,
				   .m = n ? count / n : 0,
				   .n = n,
				   .k = k,
				   .lda = k,
				   .ldb = k,
				   .ldr = n,
				   .ldy = n,
				   .batch = 1,
				   .alpha = 1,
				   .beta = 1};
}

static bool library_accepts(const struct site *s, struct why *w)
{
	const struct blaslt_job j = library_job(s);
	struct arena a = {0};
	struct why why = {.arena = &a};
	bool taken = blaslt_takes(s, &j, &why);

	if (!taken) {
		gpu_fell_back(s, "by our own product of float8", why.text);
		refuse(w, "%s", why.text ? why.text : "cuBLASLt refused");
	}
	arena_free(&a);
	return taken;
}

static int library_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct float8_gemm *p = s->node->params;
	struct library_gemm *g = arena_new(s->plan_arena, struct library_gemm);
	const struct blaslt_job j = library_job(s);

	const double us = blaslt_us(s, &j);

	step->state = g;
	g->group = us > 0 ? by_groups(s, step, us) : NULL;
	if (g->group)
		return 0;
	g->scale = p->scale;
	g->product = blaslt_product(s, &j, &step->workspace, d);
	if (j.residual && j.out != FLOAT8)
		gpu_inplace(step, 0, FLOAT8_R);
	return g->product ? 0 : -E_LIBRARY;
}

static int library_run(const struct call *c)
{
	const struct library_gemm *g = c->step->state;
	const struct blaslt_args x = {.a = gpu_data(c, FLOAT8_A),
				      .b = gpu_data(c, FLOAT8_B),
				      .bias = gpu_data(c, FLOAT8_C),
				      .r = gpu_data(c, FLOAT8_R),
				      .y = gpu_out(c, 0),
				      .workspace = c->workspace,
				      .workspace_bytes = c->step->workspace,
				      .s = gpu_data(c, FLOAT8_S),
				      .d = gpu_data(c, FLOAT8_D),
				      .scale = g->scale};

	if (g->group)
		return gpu_group_product_run(c, g->group);
	return blaslt_run(c, g->product, &x);
}

static void library_drop(struct step *step)
{
	struct library_gemm *g = step->state;

	if (g)
		blaslt_drop(g->product);
}

/* ---- infer::GemmFloat8 by our own kernel ------------------------------------------------------ */

struct own_gemm {
	void *fn;
	struct gpu_float8_gemm job;
	struct group_product *group; /* if it is not NULL, warpgroups compute the product, and not fn */
};

static int own_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct float8_gemm *p = s->node->params;
	struct own_gemm *g = arena_new(s->plan_arena, struct own_gemm);
	const struct blaslt_job j = library_job(s);

	g->job = (struct gpu_float8_gemm){.m = j.m,
					  .n = j.n,
					  .k = j.k,
					  .act = p->act,
					  .rounds = p->type == FLOAT8,
					  .scale = p->scale,
					  .act_alpha = p->act_alpha,
					  .act_beta = p->act_beta};
	g->fn = gpu_kernel(s, "float8", "float8_gemm", d);
	step->state = g;
	g->group = by_groups(s, step, 0);
	return g->fn ? 0 : -E_DEVICE;
}

static int own_run(const struct call *c)
{
	const struct own_gemm *g = c->step->state;
	struct gpu_float8_gemm job = g->job;

	if (g->group)
		return gpu_group_product_run(c, g->group);
	int64_t rows = (job.m + GPU_FLOAT8_TILE - 1) / GPU_FLOAT8_TILE;
	struct gpu_grid grid = {(unsigned)((job.n + GPU_FLOAT8_TILE - 1) / GPU_FLOAT8_TILE),
				(unsigned)(rows < MAX_GRID_YZ ? rows : MAX_GRID_YZ), 1, 256, 0};

	job.a = gpu_data(c, FLOAT8_A);
	job.b = gpu_data(c, FLOAT8_B);
	job.c = gpu_data(c, FLOAT8_C);
	job.r = gpu_data(c, FLOAT8_R);
	job.s = gpu_data(c, FLOAT8_S);
	job.d = gpu_data(c, FLOAT8_D);
	job.y = gpu_out(c, 0);
	return job.m > 0 && job.n > 0 ? gpu_launch(c, g->fn, grid, &job, sizeof(job)) : 0;
}

const struct kernel gpu_float8[] = {
	{.op = "infer::Float8", .types = T_F16, .reshape = convert_reshape, .run = convert_run},
	{.op = "infer::LayerNormFloat8", .types = T_F16, .reshape = norm_reshape, .run = gpu_norm_run},
	{.op = "infer::GemmFloat8",
	 .types = T_BIT(FLOAT8),
	 .accepts = library_accepts,
	 .reshape = library_reshape,
	 .run = library_run,
	 .drop = library_drop},
	{.op = "infer::GemmFloat8", .types = T_BIT(FLOAT8), .reshape = own_reshape, .run = own_run},
	{0}};
