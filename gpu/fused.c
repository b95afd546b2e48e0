/* SPDX-License-Identifier: Apache-2.0 */
/* What the optimizer makes. */
#include "ops/fused.h"

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

/* ---- Attention ------------------------------------------------------------------------------- */

enum { SHARED = 48 << 10 };

struct attention {
	void *fn;
	unsigned shared;
	int64_t offset[3]; /* bytes: of packed q, k, v in input 0 */
	bool packed;
	struct gpu_attention_job job;
};

/* Strides of [B,S,H*D] (rank 3, of a row of `row` elements) or [B,H,S,D]. */
static void strides_of(int rank, int64_t heads, int64_t len, int64_t d, int64_t row, int64_t *st)
{
	if (rank == 3) {
		st[0] = len * row;
		st[1] = d;
		st[2] = row;
	} else {
		st[0] = heads * len * d;
		st[1] = len * d;
		st[2] = d;
	}
}

static const char *fill_attention(const struct site *s, struct attention *a)
{
	const struct fused_attention *p = s->node->params;
	const struct vinfo *q = site_in(s, 0), *k = site_in(s, 1), *v = site_in(s, 2),
			   *mask = site_in(s, 3);
	struct gpu_attention_job *j = &a->job;
	int64_t size = gpu_size(gpu_type(s, 0));
	bool four = q->shape.rank == 4;

	a->packed = !k;
	j->batch = q->shape.dim[0];
	j->heads = p->num_heads;
	j->kv_heads = p->kv_heads > 0 ? p->kv_heads : p->num_heads;
	j->kd = 1;
	j->s = q->shape.dim[four ? 2 : 1];
	if (a->packed) {
		int64_t row = q->shape.dim[2], hidden = row / 3;
		j->t = j->s;
		j->d = j->dv = hidden / j->heads;
		strides_of(3, j->heads, j->s, j->d, row, j->qs);
		memcpy(j->ks, j->qs, sizeof(j->qs));
		memcpy(j->vs, j->qs, sizeof(j->qs));
		a->offset[1] = hidden * size;
		a->offset[2] = 2 * hidden * size;
	} else {
		bool k4 = k->shape.rank == 4, v4 = v->shape.rank == 4;
		j->d = four ? q->shape.dim[3] : q->shape.dim[2] / j->heads;
		j->t = v->shape.dim[v4 ? 2 : 1];
		j->dv = v4 ? v->shape.dim[3] : v->shape.dim[2] / j->kv_heads;
		strides_of(q->shape.rank, j->heads, j->s, j->d, j->heads * j->d, j->qs);
		strides_of(k->shape.rank, j->kv_heads, j->t, j->d, j->kv_heads * j->d, j->ks);
		strides_of(v->shape.rank, j->kv_heads, j->t, j->dv, j->kv_heads * j->dv, j->vs);
		if (p->k_transposed && k4) {
			j->ks[2] = 1;
			j->kd = j->t;
		}
	}
	strides_of(p->merged ? 3 : 4, j->heads, j->s, j->dv, j->heads * j->dv, j->ys);
	j->scale = (double)p->scale;
	j->causal = (int)p->causal;
	j->safe = p->safe != 0;
	if (mask) {
		struct shape full = {4, {j->batch, j->heads, j->s, j->t}};
		int64_t st[MAX_RANK] = {0};
		shape_broadcast_strides(&mask->shape, &full, st);
		memcpy(j->ms, st, sizeof(j->ms));
		j->mask_bool = mask->type.dtype == DT_BOOL;
		if (!j->mask_bool && mask->type.dtype != q->type.dtype)
			return "a mask of another type";
	}
	int64_t each = gpu_type(s, 0) == DT_F64 ? 8 : 4;
	if (j->t > SHARED / each || j->batch * j->heads * j->s > INT32_MAX)
		return "too many keys";
	a->shared = (unsigned)(j->t * each);
	return NULL;
}

static bool attention_accepts(const struct site *s, struct why *w)
{
	struct attention a = {0};
	const char *bad = fill_attention(s, &a);

	return bad ? refuse(w, "%s", bad) : true;
}

static int attention_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct attention *a = arena_new(s->plan_arena, struct attention);

	fill_attention(s, a);
	a->fn = gpu_typed(s, "product", "attention", gpu_type(s, 0), d);
	step->state = a;
	return a->fn ? 0 : -E_DEVICE;
}

static int attention_run(const struct call *c)
{
	const struct attention *a = c->step->state;
	struct gpu_attention_job job = a->job;
	int64_t rows = job.batch * job.heads * job.s;
	struct gpu_grid g = {(unsigned)rows, 1, 1, 128, a->shared};

	job.q = gpu_data(c, 0);
	job.k = a->packed ? (const char *)job.q + a->offset[1] : gpu_data(c, 1);
	job.v = a->packed ? (const char *)job.q + a->offset[2] : gpu_data(c, 2);
	job.mask = gpu_data(c, 3);
	job.y = gpu_out(c, 0);
	return rows > 0 && job.dv > 0 ? gpu_launch(c, a->fn, g, &job, sizeof(job)) : 0;
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
				    .run = gpu_conv_run},
				   ROW("infer::Gemm", gemm, gpu_product_run),
				   ROW("infer::Attention", attention, attention_run),
				   ROW("infer::AddLayerNorm", addnorm, gpu_norm_run),
				   ROW("infer::Pointwise", pointwise, pointwise_run),
				   {0}};
