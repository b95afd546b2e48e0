/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/product.h"

#include "backend/weight_store.h"
#include "base/pool.h"
#include "cpu/math/function.h"
#include "cpu/math/gemm.h"
#include "cpu/math/level.h"
#include "cpu/math/util.h"
#include "cpu/onednn/onednn.h"
#include "ops/fused.h"
#include "ops/matmul.h"

/* Packing pads the columns to those of a strip, up to 32, so that a narrow matrix would take many times its size. */
enum { MIN_COLUMNS = 16 };

enum { IN_A, IN_B, IN_C, IN_R };

/* y = act(alpha * A * B + C + R) for A [m, k], the packed B [k, n], a row C [n] or none, and R [m, n] or none. */
struct linear {
	int64_t m, n, k;
	const float *packed;
	float alpha;
	int act;
	float act_alpha, act_beta;
	bool has_c, has_r;
};

/* What the three operators say, as infer::Gemm says it. */
static struct fused_gemm matmul_params(void)
{
	return (struct fused_gemm){.alpha = 1, .beta = 1, .act = ACT_NONE};
}

static struct fused_gemm gemm_params(const struct site *s)
{
	const struct gemm_params *g = site_params(s);
	struct fused_gemm f = matmul_params();

	f.alpha = g->alpha;
	f.beta = g->beta;
	f.transA = g->transA;
	f.transB = g->transB;
	return f;
}

static bool is_row(const struct vinfo *c, int64_t n)
{
	return c->shape.rank >= 1 && c->shape.dim[c->shape.rank - 1] == n &&
	       shape_count(&c->shape) == n;
}

/*
 * With AVX-512, oneDNN waits for weights that come from memory: on one core of a Xeon, 128 rows by 768 x 3072 run at 150 GFLOP/s
 * there and at 185 here. With many rows the weights matter less, and less still with several threads: with eight it is
 * the faster one (bert's 128 rows by a quarter). Its GELU is faster, which shows behind short sums.
 */
static bool onednn_faster(const struct fused_gemm *f, int64_t m, int64_t k)
{
	enum { FEW_ROWS = 16, MANY_BY_TWO = 160, MANY_ALONE = 512, SHORT_SUM = 512 };
	int threads = pool_threads();
	int64_t many = threads == 1 ? MANY_ALONE : threads == 2 ? MANY_BY_TWO : FEW_ROWS;
	bool gelu = f->act == ACT_GELU || f->act == ACT_GELU_TANH;

	return m > FEW_ROWS && (m > many || (gelu && k < SHORT_SUM)) && onednn_usable(NULL);
}

static bool accepts(const struct site *s, const struct fused_gemm *f, struct why *w)
{
	const struct vinfo *a = site_in(s, IN_A), *b = site_in(s, IN_B), *c = site_in(s, IN_C);

	if (!s->store || !site_is_weight(s, IN_B) || b->shape.rank != 2)
		return refuse(w, "a second factor that is no constant matrix");
	if (a->shape.rank < 2 || f->transA)
		return refuse(w, "a first factor whose rows are not dense");
	int64_t k = a->shape.dim[a->shape.rank - 1], n = b->shape.dim[f->transB ? 0 : 1];
	int64_t m = shape_span(&a->shape, 0, a->shape.rank - 1);
	if (m < 1 || k < 1 || b->shape.dim[f->transB ? 1 : 0] != k)
		return refuse(w, "an empty factor");
	if (n < MIN_COLUMNS)
		return refuse(w, "few columns");
	if (simd_level() == 4 && onednn_faster(f, m, k))
		return refuse(w, "oneDNN's product is faster with AVX-512");
	if (c && (f->beta != 1 || !is_row(c, n)))
		return refuse(w, "a C that is no row");
	return true;
}

/* ---- packing ---------------------------------------------------------------------------------- */

/* gemm_pack's strips divide this number of columns, so that so many can be packed apart from the others. */
enum { PACK_COLUMNS = 64 };

struct packing {
	int64_t n, k;
	bool transposed;
	const float *from;
	float *to;
};

static void pack_columns(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct packing *p = arg;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		int64_t first = i * PACK_COLUMNS, rest = p->n - first;
		struct gemm g = {.n = rest < PACK_COLUMNS ? rest : PACK_COLUMNS,
				 .k = p->k,
				 .b = p->from + first * (p->transposed ? p->k : 1),
				 .b_row = p->transposed ? 1 : p->n,
				 .b_col = p->transposed ? p->k : 1};
		gemm_pack(GEMM_F32, &g, p->to + first * p->k);
	}
}

static int pack_weights(void *dst, const struct tensor *t, void *arg)
{
	struct packing *p = arg;

	p->from = t->data;
	p->to = dst;
	pool_for((p->n + PACK_COLUMNS - 1) / PACK_COLUMNS, 1, pack_columns, p);
	return 0;
}

/* ---- the kernel ------------------------------------------------------------------------------- */

/* The product without its operands' data. */
static struct gemm product_of(const struct linear *l)
{
	return (struct gemm){.m = l->m,
			     .n = l->n,
			     .k = l->k,
			     .a_row = l->k,
			     .a_col = 1,
			     .b = l->packed,
			     .packed = l->packed,
			     .c_row = l->n,
			     .alpha = (double)l->alpha};
}

/* Packs the weights of the product, a matrix [n, k] if `transposed` and else [k, n], and finishes the step. */
static int prepare(struct site *s, struct step *step, struct linear *l, bool transposed,
		   struct diag *d)
{
	struct packing p = {.n = l->n, .k = l->k, .transposed = transposed};
	size_t bytes = gemm_packed_bytes(GEMM_F32, l->n, l->k);

	l->has_c = site_in(s, IN_C) != NULL;
	l->has_r = site_in(s, IN_R) != NULL;
	l->packed = store_get(s->store, site_known(s, IN_B),
			      transposed ? "product transposed" : "product", bytes, pack_weights,
			      &p, d);
	if (!l->packed)
		return -E_MEMORY;
	step->unread |= UINT64_C(1) << IN_B;
	const struct gemm g = product_of(l);
	step->workspace = gemm_scratch_for(GEMM_F32, &g);
	step->state = l;
	if (l->has_r)
		allow_inplace(step, 0, IN_R);
	return 0;
}

static int reshape(struct site *s, struct step *step, const struct fused_gemm *f, struct diag *d)
{
	struct linear *l = arena_new(s->plan_arena, struct linear);
	const struct tensor *b = site_known(s, IN_B);
	const struct shape *a = &site_in(s, IN_A)->shape;

	*l = (struct linear){.m = shape_span(a, 0, a->rank - 1),
			     .k = a->dim[a->rank - 1],
			     .n = b->shape.dim[f->transB ? 0 : 1],
			     .alpha = f->alpha,
			     .act = f->act,
			     .act_alpha = f->act_alpha,
			     .act_beta = f->act_beta};
	return prepare(s, step, l, f->transB != 0, d);
}

struct linear_run {
	const struct linear *l;
	const float *c;
	const float *r; /* NULL if the product is added to R in place */
};

/* Applies what follows the product to a block of it. */
static void finish(const struct gemm *g, int64_t m0, int64_t m1, int64_t n0, int64_t n1)
{
	const struct linear_run *run = g->finish_arg;
	const struct linear *l = run->l;
	const float *c = run->c ? run->c + n0 : NULL;
	const struct simd *v = simd();
	int64_t cols = n1 - n0;

	for (int64_t i = m0; i < m1; i++) {
		float *y = (float *)g->c + i * g->c_row + n0;
		bool gelu = l->act == ACT_GELU || l->act == ACT_GELU_TANH;
		if (c && !run->r && gelu) {
			v->bias_map(y, c, y, cols, act_function(l->act));
			continue;
		}
		if (c)
			v->bin[VB_ADD][DT_F32](y, c, y, cols);
		if (run->r)
			v->bin[VB_ADD][DT_F32](y, run->r + i * l->n + n0, y, cols);
		act_f32(l->act, l->act_alpha, l->act_beta, y, cols);
	}
}

int product_run(const struct call *c)
{
	const struct linear *l = c->step->state;
	const void *r = l->has_r ? c->in[IN_R]->data : NULL;
	bool in_place = r && r == c->out[0]->data;
	struct linear_run run = {
		.l = l, .c = l->has_c ? c->in[IN_C]->data : NULL, .r = in_place ? NULL : r};
	struct gemm g = product_of(l);

	g.a = c->in[IN_A]->data;
	g.c = c->out[0]->data;
	g.beta = in_place ? 1 : 0;
	if (run.c || run.r || l->act != ACT_NONE) {
		g.finish = finish;
		g.finish_arg = &run;
	}
	gemm_run(GEMM_F32, &g, c->workspace);
	return 0;
}

bool product_matmul_accepts(const struct site *s, struct why *w)
{
	const struct fused_gemm f = matmul_params();

	return accepts(s, &f, w);
}

int product_matmul_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_gemm f = matmul_params();

	return reshape(s, step, &f, d);
}

bool product_gemm_accepts(const struct site *s, struct why *w)
{
	const struct fused_gemm f = gemm_params(s);

	return accepts(s, &f, w);
}

int product_gemm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_gemm f = gemm_params(s);

	return reshape(s, step, &f, d);
}

bool product_fused_gemm_accepts(const struct site *s, struct why *w)
{
	return accepts(s, site_params(s), w);
}

int product_fused_gemm_reshape(struct site *s, struct step *step, struct diag *d)
{
	return reshape(s, step, site_params(s), d);
}

/* ---- convolutions with a kernel of one element ------------------------------------------------ */

/* The number of positions of all pictures: the rows of the product if the channels of a position lie side by side. */
static int64_t positions(const struct shape *x)
{
	return x->dim[0] * shape_span(x, 2, x->rank);
}

/*
 * As for products, oneDNN waits for weights that come from memory. But its threads keep to the same part of the picture from
 * convolution to convolution, which then is in their own caches: with several threads that counts more, unless the
 * picture is small.
 */
bool product_fused_conv_accepts(const struct site *s, struct why *w)
{
	enum { MANY_POSITIONS = 64, MANY_ALONE = 256, FEW_CHANNELS = 64 };
	int64_t many = pool_threads() > 1 ? MANY_POSITIONS : MANY_ALONE;
	const struct fused_conv *p = site_params(s);
	const struct shape *x = &site_in(s, IN_A)->shape, *weight = &site_in(s, IN_B)->shape;

	if (simd_level() != 4 || !onednn_usable(NULL))
		return refuse(w, "convolutions around it that want another layout than channels last");
	if (!s->store || !site_is_weight(s, IN_B))
		return refuse(w, "weights that are no constant");
	if (x->rank < 3 || weight->rank != x->rank || p->group != 1 ||
	    shape_span(weight, 2, weight->rank) != 1 || !all_are(p->strides, 1) ||
	    !all_are(p->pads, 0))
		return refuse(w, "a window of more than one element");
	if (weight->dim[0] < FEW_CHANNELS || weight->dim[1] < FEW_CHANNELS)
		return refuse(w, "few channels");
	if (pool_threads() > 2)
		return refuse(w, "more than two threads");
	if (positions(x) < 1 || positions(x) > many)
		return refuse(w, "so many positions that oneDNN is as fast");
	return true;
}

int product_fused_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct linear *l = arena_new(s->plan_arena, struct linear);
	const struct fused_conv *p = site_params(s);
	const struct vinfo *x = site_in(s, IN_A);
	const struct shape *weight = &site_in(s, IN_B)->shape;
	enum layout *want = arena_new_n(s->plan_arena, enum layout, s->node->nin);
	enum layout *give = arena_new_n(s->plan_arena, enum layout, s->node->nout);
	bool single = shape_span(&x->shape, 2, x->shape.rank) == 1;

	*l = (struct linear){.m = positions(&x->shape),
			     .k = weight->dim[1],
			     .n = weight->dim[0],
			     .alpha = 1,
			     .act = p->act,
			     .act_alpha = p->act_alpha,
			     .act_beta = p->act_beta};
	/* for a single position the two layouts are one */
	give[0] = single ? LAYOUT_ROW : LAYOUT_CHANNELS_LAST;
	want[0] = single && x->layout == LAYOUT_CHANNELS_LAST ? x->layout : give[0];
	if (site_in(s, IN_R))
		want[IN_R] = give[0];
	step->want = want;
	step->give = give;
	return prepare(s, step, l, true, d);
}
