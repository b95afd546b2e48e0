/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the operators that the optimizer's fusions create (ops/fused.h). Convolutions and matrix products use
 * oneDNN if it is available; attention, normalization and pointwise programs are our own loops.
 */
#include "ops/fused.h"

#include "base/pool.h"
#include "cpu/math/function.h"
#include "cpu/attention/sdpa.h"
#include "cpu/conv.h"
#include "cpu/math/amx.h"
#include "cpu/math/gemm.h"
#include "cpu/onednn/onednn.h"
#include "cpu/pointwise.h"
#include "cpu/amx_product.h"
#include "cpu/depthwise.h"
#include "cpu/line.h"
#include "cpu/product.h"
#include "cpu/winograd.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"

#include <math.h>
#include <string.h>

static enum gemm_type gemm_type_of(enum dtype t)
{
	return t == DT_F64 ? GEMM_F64 : GEMM_F32;
}

/* ---- infer::Gemm: reference ------------------------------------------------------------------ */

struct product {
	const struct fused_gemm *f;
	bool f64;
	struct shape y; /* batch dims, rows, columns */
	int64_t m, n, k, batches;
	/* strides of A and B over the batch dims, in matrices */
	int64_t a_step[MAX_RANK], b_step[MAX_RANK];
	int64_t c_step[MAX_RANK]; /* strides of C over the dims of y, in elements */
	const void *a, *b, *c, *r;
	void *out;
};

/* Sets the sizes for A and B seen as batches of matrices: a vector becomes a matrix with one row (A) or column (B). */
static void set_product_sizes(struct product *p, struct shape a, struct shape b)
{
	if (a.rank == 1)
		a = shape_of(2, (int64_t[]){1, a.dim[0]});
	if (b.rank == 1)
		b = shape_of(2, (int64_t[]){b.dim[0], 1});
	struct shape ba = shape_of(a.rank - 2, a.dim), bb = shape_of(b.rank - 2, b.dim);
	shape_broadcast(&ba, &bb, &p->y);
	p->m = a.dim[a.rank - (p->f->transA ? 1 : 2)];
	p->k = a.dim[a.rank - (p->f->transA ? 2 : 1)];
	p->n = b.dim[b.rank - (p->f->transB ? 2 : 1)];
	p->batches = shape_count(&p->y);
	shape_broadcast_strides(&ba, &p->y, p->a_step);
	shape_broadcast_strides(&bb, &p->y, p->b_step);
	p->y.dim[p->y.rank++] = p->m;
	p->y.dim[p->y.rank++] = p->n;
}

/*
 * Sets C's strides over the dims of p->y. A vector operand has a dim of size 1 in p->y, but not in the node's output
 * Y. C is broadcast to Y, so this dim gets stride 0.
 */
static void set_addend_strides(struct product *p, const struct tensor *c, const struct tensor *a,
			       const struct tensor *b)
{
	int64_t step[MAX_RANK];
	struct shape y = p->y;
	int n = 0;
	if (!c)
		return;
	if (b->shape.rank == 1)
		y.rank--;
	if (a->shape.rank == 1) {
		y.dim[p->y.rank - 2] = y.dim[p->y.rank - 1];
		y.rank--;
	}
	shape_broadcast_strides(&c->shape, &y, step);
	for (int i = 0; i < p->y.rank; i++) {
		bool gone = (i == p->y.rank - 2 && a->shape.rank == 1) ||
			    (i == p->y.rank - 1 && b->shape.rank == 1);
		p->c_step[i] = gone ? 0 : step[n++];
	}
}

/* Initializes batch i of the output to beta * C + R, to which the matrix product is then added. */
static void init_product_batch(const struct product *p, int64_t i)
{
	int64_t size = p->m * p->n, c_at = 0, rest = i;
	for (int d = p->y.rank - 3; d >= 0; rest /= p->y.dim[d--])
		c_at += rest % p->y.dim[d] * p->c_step[d];
	for (int64_t k = 0; k < size; k++) {
		int64_t from = c_at + k / p->n * p->c_step[p->y.rank - 2] +
			       k % p->n * p->c_step[p->y.rank - 1];
		if (p->f64)
			((double *)p->out)[i * size + k] =
				(p->c ? (double)p->f->beta * ((const double *)p->c)[from] : 0) +
				(p->r ? ((const double *)p->r)[i * size + k] : 0);
		else
			((float *)p->out)[i * size + k] =
				(p->c ? p->f->beta * ((const float *)p->c)[from] : 0) +
				(p->r ? ((const float *)p->r)[i * size + k] : 0);
	}
}

static void product_batch(const struct product *p, int64_t i, void *scratch)
{
	int64_t size = p->f64 ? 8 : 4, a_at = 0, b_at = 0, rest = i;
	const struct fused_gemm *f = p->f;
	for (int d = p->y.rank - 3; d >= 0; rest /= p->y.dim[d--]) {
		a_at += rest % p->y.dim[d] * p->a_step[d];
		b_at += rest % p->y.dim[d] * p->b_step[d];
	}
	struct gemm g = {
		.m = p->m,
		.n = p->n,
		.k = p->k,
		.a = at(p->a, a_at * p->m * p->k * size),
		.b = at(p->b, b_at * p->k * p->n * size),
		.a_row = f->transA ? 1 : p->k,
		.a_col = f->transA ? p->m : 1,
		.b_row = f->transB ? 1 : p->n,
		.b_col = f->transB ? p->k : 1,
		.c = at_mut(p->out, i * p->m * p->n * size),
		.c_row = p->n,
		.alpha = (double)f->alpha,
		.beta = p->c || p->r ? 1 : 0,
	};
	if (g.beta != 0)
		init_product_batch(p, i);
	gemm_run(p->f64 ? GEMM_F64 : GEMM_F32, &g, scratch);
}

static int gemm_any_reshape(struct site *site, struct step *step, struct diag *d)
{
	(void)d;
	step->workspace =
		wide_workspace(site) + scratch_size(gemm_scratch(gemm_type_of(site_type(site, 0))));
	return 0;
}

static int gemm_any_run(const struct call *c)
{
	const struct fused_gemm *f = call_params(c);
	const struct tensor *add = c->step->nin > 2 ? c->in[2] : NULL;
	const struct tensor *res = c->step->nin > 3 ? c->in[3] : NULL;
	struct scratch s = scratch_of(c);
	struct product p = {.f = f, .f64 = tensor_dtype(c->in[0]) == DT_F64};
	set_product_sizes(&p, c->in[0]->shape, c->in[1]->shape);
	set_addend_strides(&p, add, c->in[0], c->in[1]);
	p.a = wide_in(&s, c->in[0]);
	p.b = wide_in(&s, c->in[1]);
	p.c = wide_in(&s, add);
	p.r = wide_in(&s, res);
	p.out = wide_out(&s, c->out[0]);
	for (int64_t i = 0; i < p.batches; i++)
		product_batch(&p, i, s.at);
	if (p.f64)
		act_f64(f->act, (double)f->act_alpha, (double)f->act_beta, p.out,
			tensor_count(c->out[0]));
	else
		act_f32(f->act, f->act_alpha, f->act_beta, p.out, tensor_count(c->out[0]));
	wide_done(c->out[0], p.out);
	return 0;
}

/* ---- infer::Attention ------------------------------------------------------------------------ */

/*
 * Returns the strides of a tensor with shape [B,S,H*D] or [B,H,S,D]. With the first shape, a row has `columns`
 * elements, which is 3*H*D if Q, K and V are packed.
 */
static struct attend_view head_strides(const struct shape *s, int64_t size, int64_t columns)
{
	if (s->rank == 3)
		return (struct attend_view){.batch = s->dim[1] * columns, .head = size, .row = columns};
	return (struct attend_view){.batch = s->dim[1] * s->dim[2] * s->dim[3],
				    .head = s->dim[2] * s->dim[3],
				    .row = s->dim[3]};
}

/*
 * Sets sizes and strides; attention_run sets the data pointers. x holds the shapes of the inputs, with NULL for absent
 * inputs.
 */
static void set_attend_sizes(struct attend *a, const struct fused_attention *p,
			     const struct shape *const *x, const struct shape *y)
{
	const struct shape *q = x[0], *k = x[1] ? x[1] : q, *v = x[1] ? x[2] : q;
	*a = (struct attend){
		.batch = q->dim[0],
		.heads = p->num_heads,
		.kv_heads = p->kv_heads > 0 ? p->kv_heads : p->num_heads,
		.queries = q->dim[q->rank - 2],
		.keys = k->dim[k->rank - (p->k_transposed ? 1 : 2)],
		.scale = p->scale,
		.causal = (int)p->causal,
		.safe = p->safe != 0,
	};
	a->size = q->rank == 4 ? q->dim[3] : q->dim[2] / p->num_heads / (x[1] ? 1 : 3);
	a->vsize = !x[1] ? a->size : v->rank == 4 ? v->dim[3] : v->dim[2] / a->kv_heads;
	a->q = head_strides(q, a->size, q->rank == 3 ? q->dim[2] : 0);
	a->k = head_strides(k, a->size, k->rank == 3 ? k->dim[2] : 0);
	a->v = head_strides(v, a->vsize, v->rank == 3 ? v->dim[2] : 0);
	a->y = head_strides(y, a->vsize, y->rank == 3 ? y->dim[2] : 0);
	a->k_col = p->k_transposed ? 1 : 0;
	if (x[3]) {
		struct shape scores =
			shape_of(4, (int64_t[]){a->batch, a->heads, a->queries, a->keys});
		shape_broadcast_strides(x[3], &scores, a->mask_step);
	}
}

/* The type in which the attention of tensors of type t computes. */
static enum dtype attend_type(enum dtype t)
{
	return t == DT_F64 || (t == DT_BF16 && amx_usable()) ? t : DT_F32;
}

/* Returns the data of an operand as a->type. */
static const void *attention_in(const struct attend *a, struct scratch *s, const struct tensor *t)
{
	return a->type == DT_BF16 ? t->data : wide_in(s, t);
}

static int attention_reshape(struct site *site, struct step *step, struct diag *d)
{
	struct attend *a = arena_new(site->plan_arena, struct attend);
	const struct shape *x[4] = {NULL};
	(void)d;
	for (uint32_t i = 0; i < 4; i++)
		x[i] = site_in(site, i) ? &site_in(site, i)->shape : NULL;
	set_attend_sizes(a, site_params(site), x, &site_out(site, 0)->shape);
	a->type = attend_type(site_type(site, 0));
	a->mask_bool = site_type(site, 3) == DT_BOOL;
	step->state = a;
	step->workspace = (a->type == DT_BF16 && x[3] ? wide_bytes(site_type(site, 3), x[3])
			   : a->type == DT_BF16	      ? 0
						      : wide_workspace(site)) +
			  attend_scratch(a);
	return 0;
}

static int attention_run(const struct call *c)
{
	const struct fused_attention *p = call_params(c);
	struct attend a = *(const struct attend *)c->step->state;
	struct scratch s = scratch_of(c);
	size_t size = dtype_bits(a.type) / 8;
	uint32_t nin = c->step->nin;
	const char *q = attention_in(&a, &s, c->in[0]);
	bool packed = nin < 2 || !c->in[1];
	int64_t part = a.heads * a.size;
	void *y = a.type == DT_BF16 ? c->out[0]->data : wide_out(&s, c->out[0]);
	a.q.data = q;
	a.k.data = packed ? q + (size_t)part * size : attention_in(&a, &s, c->in[1]);
	a.v.data = packed ? q + 2 * (size_t)part * size : attention_in(&a, &s, c->in[2]);
	a.mask = nin > 3 ? wide_in(&s, c->in[3]) : NULL;
	a.y.data = y;
	attend_run(&a, s.at);
	for (int64_t i = 0; p->y_scale > 0 && i < tensor_count(c->out[0]); i++)
		((float *)y)[i] /= p->y_scale;
	if (a.type != DT_BF16)
		wide_done(c->out[0], y);
	return 0;
}

static bool attention_accepts(const struct site *s, struct why *w)
{
	const struct fused_attention *p = site_params(s);
	const struct vinfo *mask = site_in(s, 3);
	enum dtype m = site_type(s, 3);
	if (p->num_heads < 1)
		return refuse(w, "no heads");
	if (mask && m != DT_BOOL && m != site_type(s, 0))
		return refuse(w, "a mask of another type");
	return !mask || mask->shape.rank <= 4 || refuse(w, "a mask of rank %d", mask->shape.rank);
}

/* ---- infer::AddLayerNorm --------------------------------------------------------------------- */

struct norm_job {
	const void *x, *r, *scale, *bias;
	void *y, *sum; /* sum may be NULL */
	int64_t n;
	double epsilon;
};

static void norm_rows_f32(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct norm_job *j = arg;
	const struct simd *v = simd();
	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		const float *x = (const float *)j->x + i * j->n, *r = (const float *)j->r + i * j->n;
		float *y = (float *)j->y + i * j->n, *s = j->sum ? (float *)j->sum + i * j->n : y;
		v->bin[VB_ADD][DT_F32](x, r, s, j->n);
		float mean = v->sum(s, j->n) / (float)j->n;
		float var = v->sum_deviation(s, j->n, mean) / (float)j->n;
		v->normalize(s, y, j->n, mean, 1 / sqrtf(var + (float)j->epsilon), j->scale, j->bias);
	}
}

static void norm_rows_f64(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct norm_job *j = arg;
	const double *scale = j->scale, *bias = j->bias;
	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		const double *x = (const double *)j->x + i * j->n,
			     *r = (const double *)j->r + i * j->n;
		double *y = (double *)j->y + i * j->n, *s = j->sum ? (double *)j->sum + i * j->n : y;
		double mean = 0, var = 0;
		for (int64_t k = 0; k < j->n; k++)
			mean += s[k] = x[k] + r[k];
		mean /= (double)j->n;
		for (int64_t k = 0; k < j->n; k++)
			var += (s[k] - mean) * (s[k] - mean);
		var = 1 / sqrt(var / (double)j->n + j->epsilon);
		for (int64_t k = 0; k < j->n; k++)
			y[k] = (s[k] - mean) * var * scale[k] + (bias ? bias[k] : 0);
	}
}

static int addnorm_reshape(struct site *site, struct step *step, struct diag *d)
{
	(void)d;
	step->workspace = wide_workspace(site);
	/*
	 * Each row is read before it is written, so an output may use the memory of an input: Y the memory of X, and S
	 * the memory of R. The two outputs use different inputs, so that S never overwrites what Y is computed from.
	 */
	allow_inplace(step, 0, 0);
	allow_inplace(step, 1, 1);
	return 0;
}

static int addnorm_run(const struct call *c)
{
	const struct fused_addnorm *p = call_params(c);
	const struct shape *x = &c->in[0]->shape;
	struct tensor *sum = c->step->nout > 1 ? c->out[1] : NULL;
	struct scratch s = scratch_of(c);
	struct norm_job j = {.n = x->rank ? x->dim[x->rank - 1] : 1, .epsilon = (double)p->epsilon};
	j.x = wide_in(&s, c->in[0]);
	j.r = wide_in(&s, c->in[1]);
	j.scale = wide_in(&s, c->in[2]);
	j.bias = wide_in(&s, c->step->nin > 3 ? c->in[3] : NULL);
	j.y = wide_out(&s, c->out[0]);
	j.sum = wide_out(&s, sum);
	int64_t rows = j.n ? tensor_count(c->in[0]) / j.n : 0;
	pool_for(rows, rows_grain(GRAIN, j.n),
		 tensor_dtype(c->in[0]) == DT_F64 ? norm_rows_f64 : norm_rows_f32, &j);
	wide_done(c->out[0], j.y);
	wide_done(sum, j.sum);
	return 0;
}

#define FAST (T_F32 | T_F16 | T_BF16)

const struct kernel cpu_fused[] = {
	{"infer::Conv", T_F32, PRODUCT(fused_conv)},
	{"infer::Conv", T_F32, .accepts = winograd_accepts, .reshape = winograd_reshape,
	 .run = winograd_run},
	{"infer::Conv", T_F32, .accepts = product_runs_accepts, .reshape = product_runs_reshape,
	 .run = product_run},
	{"infer::Conv", T_F32, .accepts = line_accepts, .reshape = line_reshape, .run = line_run},
	{"infer::Conv", T_BF16, .accepts = depthwise_accepts, .reshape = depthwise_reshape,
	 .run = depthwise_run},
	{"infer::Conv", FAST, ONEDNN(fused_conv)},
	{"infer::Conv", T_FLOATS_BF, K_REFERENCE, .reshape = conv_any_reshape, .run = conv_any_run},
	{"infer::Gemm", T_F32, PRODUCT(fused_gemm)},
	{"infer::Gemm", T_BF16, .accepts = amx_product_accepts, .reshape = amx_product_reshape,
	 .run = amx_product_run},
	{"infer::Gemm", FAST, ONEDNN(fused_gemm)},
	{"infer::Gemm", T_FLOATS_BF, K_REFERENCE, .reshape = gemm_any_reshape, .run = gemm_any_run},
	{"infer::Attention", T_FLOATS_BF, K_REFERENCE, .accepts = attention_accepts,
	 .reshape = attention_reshape, .run = attention_run},
	{"infer::AttentionFloat8", T_F16, K_REFERENCE, .accepts = attention_accepts,
	 .reshape = attention_reshape, .run = attention_run},
	{"infer::AddLayerNorm", T_FLOATS_BF, K_REFERENCE, .reshape = addnorm_reshape,
	 .run = addnorm_run},
	{"infer::Pointwise", FAST, .reshape = pointwise_reshape, .run = pointwise_run},
	{"infer::Pointwise", T_FLOATS_BF, K_REFERENCE, .run = pointwise_reference_run},
	{0}};
