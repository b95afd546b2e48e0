/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/product.h"

enum { TILE = 64, MOST_Y = 65535 };

/* y = act(alpha * op(A) * op(B) + beta * C + R); what is wrong, or NULL */
static const char *fill(const struct site *s, const struct fused_gemm *f, struct gpu_gemm *j)
{
	const struct fused_matmul m = {.alpha = 1, .transA = f->transA, .transB = f->transB};
	const struct shape *y = &site_out(s, 0)->shape;
	struct matmul_shape q = {0};
	int64_t step[3][MAX_RANK] = {{0}}, out[3][GPU_DIMS] = {{0}}, cs[MAX_RANK] = {0};

	if (!matmul_shape(&site_in(s, 0)->shape, &site_in(s, 1)->shape, &m, &q))
		return "shapes that do not fit";
	if (site_in(s, 2)) {
		if (y->rank != q.nbatch + 2)
			return "a bias of a product of vectors";
		shape_broadcast_strides(&site_in(s, 2)->shape, y, cs);
		j->c_row = cs[q.nbatch];
		j->c_col = cs[q.nbatch + 1];
	}
	memcpy(step[0], q.a_batch, sizeof(step[0]));
	memcpy(step[1], q.b_batch, sizeof(step[1]));
	memcpy(step[2], cs, sizeof(step[2]));
	if (!gpu_collapse(q.nbatch, q.batch, 3, step, &j->batch, out))
		return "too many dimensions";
	memcpy(j->as, out[0], sizeof(out[0]));
	memcpy(j->bs, out[1], sizeof(out[1]));
	memcpy(j->cs, out[2], sizeof(out[2]));
	j->m = q.m, j->n = q.n, j->k = q.k;
	j->a_row = q.a_row, j->a_col = q.a_col, j->b_row = q.b_row, j->b_col = q.b_col;
	j->alpha = (double)f->alpha, j->beta = (double)f->beta;
	j->act = f->act, j->act_alpha = (double)f->act_alpha, j->act_beta = (double)f->act_beta;
	int64_t batch = 1;
	for (int r = 0; r < j->batch.rank; r++)
		batch *= j->batch.dim[r];
	return batch > MOST_Y || (q.m + TILE - 1) / TILE > MOST_Y ? "too many rows" : NULL;
}

bool gpu_product_accepts(const struct site *s, const struct fused_gemm *f, struct why *w)
{
	struct gpu_gemm j = {0};
	const char *bad = fill(s, f, &j);
	bool whole = (T_BIT(gpu_type(s, 0)) & T_INTS) != 0;

	if (whole && (j.alpha < 1 || j.alpha > 1 || j.beta < 1 || j.beta > 1))
		return refuse(w, "factors of integers");
	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_product_reshape(struct site *s, const struct fused_gemm *f, struct step *step, struct diag *d)
{
	struct gpu_product *p = arena_new(s->plan_arena, struct gpu_product);

	fill(s, f, &p->job);
	p->fn = gpu_typed(s, "product", "gemm", gpu_type(s, 0), d);
	step->state = p;
	return p->fn ? 0 : -E_DEVICE;
}

int gpu_product_run(const struct call *c)
{
	const struct gpu_product *p = c->step->state;
	struct gpu_gemm job = p->job;
	int64_t batch = 1;

	for (int r = 0; r < job.batch.rank; r++)
		batch *= job.batch.dim[r];
	struct gpu_grid g = {(unsigned)((job.n + TILE - 1) / TILE),
			     (unsigned)((job.m + TILE - 1) / TILE), (unsigned)batch, 256, 0};
	job.a = gpu_data(c, 0);
	job.b = gpu_data(c, 1);
	job.c = gpu_data(c, 2);
	job.r = gpu_data(c, 3);
	job.y = gpu_out(c, 0);
	return job.m > 0 && job.n > 0 && batch > 0 ? gpu_launch(c, p->fn, g, &job, sizeof(job)) : 0;
}

static struct fused_gemm as_fused(const struct site *s)
{
	struct fused_gemm f = {.alpha = 1, .beta = 1};

	if (!strcmp(s->node->op->name, "Gemm")) {
		const struct gemm_params *p = s->node->params;
		f = (struct fused_gemm){
			.alpha = p->alpha, .beta = p->beta, .transA = p->transA, .transB = p->transB};
	} else if (strcmp(s->node->op->name, "MatMul") != 0) {
		const struct fused_matmul *p = s->node->params;
		f = (struct fused_gemm){
			.alpha = p->alpha, .beta = 1, .transA = p->transA, .transB = p->transB};
	}
	return f;
}

static bool accepts(const struct site *s, struct why *w)
{
	const struct fused_gemm f = as_fused(s);
	bool plain = !strcmp(s->node->op->name, "MatMul") || !strcmp(s->node->op->name, "Gemm");
	const struct fused_matmul *p = s->node->params;

	if (!plain && (p->transBatchA || p->transBatchB))
		return refuse(w, "batches transposed");
	return gpu_product_accepts(s, &f, w);
}

static int reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_gemm f = as_fused(s);

	return gpu_product_reshape(s, &f, step, d);
}

#define T_PRODUCT (T_FLOATING | T_I32 | T_I64 | T_U32 | T_U64)
#define ROW(name, types_)                                                                          \
	{                                                                                          \
		.op = (name), .types = (types_), .accepts = accepts, .reshape = reshape,           \
		.run = gpu_product_run                                                             \
	}
const struct kernel gpu_matmul[] = {ROW("MatMul", T_PRODUCT),
				    ROW("Gemm", T_PRODUCT),
				    ROW("com.microsoft::FusedMatMul", T_FLOATING),
				    ROW("com.microsoft::TransposeMatMul", T_FLOATING),
				    {0}};
