/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/onednn/onednn.h"

#if HAVE_DNNL

#include "cpu/math/level.h"
#include "cpu/onednn/build.h"
#include "ops/fused.h"
#include "ops/matmul.h"

#include <string.h>

enum { NO_INPUT = UINT8_MAX };

struct product {
	float alpha, beta;
	bool trans_a, trans_b;
	int act;
	float act_alpha, act_beta;
	uint8_t c, r; /* indices of the inputs C and residual; NO_INPUT if there is no such input */
	/* dims and strides for oneDNN: batch dims, then rows and columns; a batch dim of 1 is broadcast */
	int rank;
	dnnl_dims_t a, a_step, b, b_step, y;
};

/* Merges adjacent batch dims of A and B that broadcast in the same way, so that the rank becomes small. */
static void product_batch(struct product *p, const struct shape *a, const struct shape *b, int n)
{
	int64_t as[MAX_RANK + 1], bs[MAX_RANK + 1]; /* sizes of the merged dims, outermost first */
	int last = -1, k = 0;
	for (int i = 0; i < n; i++) {
		int ia = i - n + a->rank - 2, ib = i - n + b->rank - 2;
		int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
		int kind = da == db ? 0 : da == 1 ? 1 : 2;
		if (da == 1 && db == 1)
			continue;
		if (kind == last) {
			as[k - 1] *= da;
			bs[k - 1] *= db;
		} else {
			as[k] = da;
			bs[k++] = db;
		}
		last = kind;
	}
	p->rank = k + 2;
	for (int i = 0; i < k; i++) {
		p->a[i] = as[i];
		p->b[i] = bs[i];
		p->y[i] = as[i] > bs[i] ? as[i] : bs[i];
	}
}

/*
 * Sets the strides of a dense operand whose last two dims are rows and columns, or columns and rows in memory if
 * `transposed` is set.
 */
static void product_steps(int rank, const dnnl_dim_t *dim, bool transposed, dnnl_dim_t *step)
{
	int64_t rows = dim[rank - 2], cols = dim[rank - 1], at = rows * cols;
	step[rank - 2] = transposed ? 1 : cols;
	step[rank - 1] = transposed ? rows : 1;
	for (int i = rank - 3; i >= 0; i--) {
		step[i] = at;
		at *= dim[i];
	}
}

static void product_dims(struct product *p, struct shape a, struct shape b)
{
	if (a.rank == 1)
		a = shape_of(2, (int64_t[]){1, a.dim[0]});
	if (b.rank == 1)
		b = shape_of(2, (int64_t[]){b.dim[0], 1});
	if (shape_span(&b, 0, b.rank - 2) == 1) {
		b = shape_of(2, &b.dim[b.rank - 2]);
		if (!p->trans_a) /* all batches share one B, so A's batches become further rows of a single product */
			a = shape_of(2, (int64_t[]){shape_span(&a, 0, a.rank - 1), a.dim[a.rank - 1]});
	}
	int n = (a.rank > b.rank ? a.rank : b.rank) - 2;
	product_batch(p, &a, &b, n);
	int64_t *da = &p->a[p->rank - 2], *db = &p->b[p->rank - 2];
	da[0] = a.dim[a.rank - (p->trans_a ? 1 : 2)];
	da[1] = a.dim[a.rank - (p->trans_a ? 2 : 1)];
	db[0] = b.dim[b.rank - (p->trans_b ? 1 : 2)];
	db[1] = b.dim[b.rank - (p->trans_b ? 2 : 1)];
	p->y[p->rank - 2] = da[0];
	p->y[p->rank - 1] = db[1];
	product_steps(p->rank, p->a, p->trans_a, p->a_step);
	product_steps(p->rank, p->b, p->trans_b, p->b_step);
}

/*
 * How C is added: not at all, as the primitive's bias, or by broadcasting C to the output's buffer first and
 * letting the primitive add its product to the buffer.
 */
enum addend { C_NONE, C_BIAS, C_SUM };

static enum addend addend_kind(const struct build *b, const struct product *p)
{
	if (p->c == NO_INPUT || p->beta == 0)
		return C_NONE;
	const struct shape *c = &site_in(b->s, p->c)->shape;
	int64_t n = p->y[p->rank - 1];
	bool row = c->rank >= 1 && c->dim[c->rank - 1] == n && shape_count(c) == n;
	return row && p->beta == 1 && p->alpha == 1 ? C_BIAS : C_SUM;
}

/* Appends an action that broadcasts C to the result's buffer `to`. */
static void addend_expand(struct build *b, const struct product *p, struct at to)
{
	const struct vinfo *c = site_in(b->s, p->c), *y = site_out(b->s, 0);
	struct at from = build_operand(b, p->c);
	struct action *a = build_action(b, DO_EXPAND);
	struct shape as = y->shape;
	if (!as.rank)
		as = shape_of(1, (int64_t[]){1});
	a->at[0] = from;
	a->at[1] = to;
	a->count = shape_count(&as);
	a->rank = as.rank;
	memcpy(a->dim, as.dim, sizeof(a->dim));
	shape_broadcast_strides(&c->shape, &as, a->stride);
}

static int product_ops(struct build *b, struct made *m, const struct product *p, enum addend c, int act)
{
	if (onednn_api.dnnl_post_ops_create(&m->ops))
		return onednn_failed(b->d, dnnl_out_of_memory, "dnnl_post_ops_create");
	int r = 0;
	if (p->alpha != 1)
		r = build_eltwise(b, m, dnnl_eltwise_linear, p->alpha, 0);
	if (r)
		return r;
	if (c == C_SUM)
		TRY(b->d, dnnl_post_ops_append_sum(m->ops, p->beta, 0, m->type));
	if (p->r != NO_INPUT && c == C_SUM)
		TRY(b->d,
		    dnnl_post_ops_append_binary(m->ops, dnnl_binary_add, md_row(m, p->rank, p->y)));
	else if (p->r != NO_INPUT)
		TRY(b->d, dnnl_post_ops_append_sum(m->ops, 1, 0, m->type));
	r = build_activation(b, m, act, p->act_alpha, p->act_beta);
	return r ? r : build_attributes(b, m);
}

/* Lets oneDNN choose an implementation for weights like w, with the attributes of m. */
static int product_describe(struct build *b, struct made *m, const struct product *p, enum addend c,
			    const_dnnl_memory_desc_t w, dnnl_memory_desc_t *bias)
{
	dnnl_dims_t dims;
	dnnl_memory_desc_t a = md_strides(m, p->rank, p->a, p->a_step), y = md_row(m, p->rank, p->y);
	for (int i = 0; i < p->rank; i++)
		dims[i] = i == p->rank - 1 ? p->y[i] : 1;
	*bias = c == C_BIAS ? md_row(m, p->rank, dims) : NULL;
	TRY(b->d, dnnl_matmul_primitive_desc_create(&m->pd, onednn_engine, a, w, *bias, y, m->attr));
	return 0;
}

static int product_choose(struct build *b, struct made *m, const struct product *p, enum addend c,
			  dnnl_memory_desc_t *bias)
{
	bool packed = site_is_weight(b->s, 1) && b->s->store;
	return product_describe(b, m, p, c,
				packed ? md_tag(m, p->rank, p->b, dnnl_format_tag_any)
				       : md_strides(m, p->rank, p->b, p->b_step),
				bias);
}

struct product_places {
	struct at a, w, bias, y, sum;
};

static int product_arguments(struct build *b, struct made *m, const struct product *p, enum addend c,
			     const_dnnl_primitive_desc_t pd, const_dnnl_memory_desc_t bias_md,
			     const struct product_places *at, struct action *act)
{
	int r = build_argument(b, act, DNNL_ARG_SRC, pd_md(pd, dnnl_query_src_md), at->a);
	r = r ? r : build_argument(b, act, DNNL_ARG_WEIGHTS, pd_md(pd, dnnl_query_weights_md), at->w);
	if (!r && c == C_BIAS)
		r = build_argument(b, act, DNNL_ARG_BIAS, bias_md, at->bias);
	/*
	 * the residual's post-op has index 1, after the post-op that adds C, or index 2 if a post-op for alpha comes
	 * first
	 */
	if (!r && at->sum.place != AT_NONE)
		r = build_argument(b, act,
				   DNNL_ARG_ATTR_MULTIPLE_POST_OP(p->alpha != 1 ? 2 : 1) |
					   DNNL_ARG_SRC_1,
				   md_row(m, p->rank, p->y), at->sum);
	return r ? r : build_argument(b, act, DNNL_ARG_DST, pd_md(pd, dnnl_query_dst_md), at->y);
}

/* Prepares the same product without its activation. */
static int product_apart(struct build *b, struct made *fused, const struct product *p,
			 enum addend c, const struct product_places *at, const struct action *act)
{
	struct made m = made_new(b);
	struct action *apart;
	dnnl_memory_desc_t bias;
	int r = product_ops(b, &m, p, c, ACT_NONE);
	r = r ? r : product_describe(b, &m, p, c, pd_md(fused->pd, dnnl_query_weights_md), &bias);
	r = r ? r
	      : build_apart(b, &m, act, at->y, build_elements(site_out(b->s, 0), LAYOUT_ROW), &apart);
	r = r ? r : product_arguments(b, &m, p, c, b->p->apart.desc, bias, at, apart);
	made_free(&m);
	return r;
}

static int product_operands(struct build *b, struct made *m, const struct product *p, enum addend c,
			    const_dnnl_memory_desc_t bias_md)
{
	struct product_places at = {0};
	struct action *act;
	const_dnnl_memory_desc_t given = md_strides(m, p->rank, p->b, p->b_step);
	int r = build_weights(b, 1, given, pd_md(m->pd, dnnl_query_weights_md), 1, &at.w);
	if (r)
		return r;
	at.a = build_operand(b, 0);
	if (c == C_BIAS)
		at.bias = build_operand(b, p->c);
	at.y = build_result(b, LAYOUT_ROW);
	if (c == C_SUM) {
		addend_expand(b, p, at.y);
		if (p->r != NO_INPUT)
			at.sum = build_operand(b, p->r);
	} else if (p->r != NO_INPUT) {
		build_residual(b, p->r, LAYOUT_ROW, at.y);
	}
	r = build_primitive(b, m->pd, &act);
	r = r ? r : product_arguments(b, m, p, c, m->pd, bias_md, &at, act);
	if (!r && b->p->apart.exceptions)
		r = product_apart(b, m, p, c, &at, act);
	build_result_end(b, LAYOUT_ROW, at.y);
	return r;
}

static int product_build(struct site *s, struct step *step, struct product *p, struct diag *d)
{
	struct build b;
	dnnl_memory_desc_t bias;
	build_start(&b, s, step, d);
	if (onednn_nothing_to_do(s))
		return 0;
	if (!onednn_counts_fit(s))
		return FAIL(d, E_SIZE, .expected = "sizes that fit in memory");
	product_dims(p, site_in(s, 0)->shape, site_in(s, 1)->shape);
	if (p->rank > DNNL_MAX_NDIMS)
		return FAIL(d, E_RANK, .actual = fmt(d, "%d dimensions", p->rank));
	enum addend c = addend_kind(&b, p);
	if (c == C_SUM)
		b.type = DT_F32; /* C is broadcast as fp32 */
	struct made m = made_new(&b);
	int r = product_ops(&b, &m, p, c, p->act);
	r = r ? r : product_choose(&b, &m, p, c, &bias);
	r = r ? r : product_operands(&b, &m, p, c, bias);
	made_free(&m);
	return r ? r : build_end(&b);
}

static bool product_accepts(const struct site *s, struct why *w)
{
	if (!onednn_usable(w))
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		const struct shape *x = &site_in(s, i)->shape;
		if (x->rank < 0)
			return refuse(w, "unknown rank");
		if (x->rank > 0 && onednn_empty(x) && !onednn_empty(&site_out(s, 0)->shape))
			return refuse(w, "a sum over nothing");
	}
	return onednn_sizes_accept(s, w);
}

bool onednn_matmul_accepts(const struct site *s, struct why *w)
{
	return product_accepts(s, w);
}

int onednn_matmul_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct product p = {.alpha = 1, .beta = 1, .c = NO_INPUT, .r = NO_INPUT};
	return product_build(s, step, &p, d);
}

/* Without AVX-512, what oneDNN multiplies by a factor and then adds to something is left to its reference code, a thousand times slower. */
static bool sum_accepts(float alpha, bool adds, struct why *w)
{
	if (alpha != 1 && adds && simd_level() != 4)
		return refuse(w, "a factor before a sum, without AVX-512");
	return true;
}

bool onednn_fused_gemm_accepts(const struct site *s, struct why *w)
{
	const struct fused_gemm *f = site_params(s);
	bool adds = (site_in(s, 2) && f->beta != 0) || site_in(s, 3);

	return sum_accepts(f->alpha, adds, w) &&
	       onednn_activation_accepts(f->act, f->act_alpha, f->act_beta, w) &&
	       product_accepts(s, w);
}

int onednn_fused_gemm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_gemm *f = site_params(s);
	struct product p = {.alpha = f->alpha,
			    .beta = f->beta,
			    .trans_a = f->transA != 0,
			    .trans_b = f->transB != 0,
			    .act = f->act,
			    .act_alpha = f->act_alpha,
			    .act_beta = f->act_beta,
			    .c = site_in(s, 2) ? 2 : NO_INPUT,
			    .r = site_in(s, 3) ? 3 : NO_INPUT};
	return product_build(s, step, &p, d);
}

bool onednn_gemm_accepts(const struct site *s, struct why *w)
{
	const struct gemm_params *g = site_params(s);

	return sum_accepts(g->alpha, site_in(s, 2) && g->beta != 0, w) && product_accepts(s, w);
}

int onednn_gemm_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct gemm_params *g = site_params(s);
	struct product p = {.alpha = g->alpha,
			    .beta = g->beta,
			    .trans_a = g->transA != 0,
			    .trans_b = g->transB != 0,
			    .c = site_in(s, 2) ? 2 : NO_INPUT,
			    .r = NO_INPUT};
	return product_build(s, step, &p, d);
}

#endif
