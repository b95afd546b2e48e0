/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/amx_product.h"

#include "backend/weight_store.h"
#include "base/arena.h"
#include "base/pool.h"
#include "cpu/math/amx.h"
#include "cpu/math/function.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/fused.h"

/* Rows and columns of a part of the output, whose sums lie in the cache until they are complete. */
enum { PART_ROWS = 64, PART_COLUMNS = 256 };

enum { IN_A, IN_B, IN_C, IN_R };

struct amx_product {
	int64_t m, n, k, depth; /* depth: k in whole tiles */
	const uint16_t *packed;
	bool transposed, has_bias;
	int act;
	float act_alpha, act_beta;
	size_t rows; /* bytes of the packed rows of A, before the threads' sums */
};

/* ---- planning --------------------------------------------------------------------------------- */

bool amx_product_accepts(const struct site *s, struct why *w)
{
	enum { SHORT_SUM = 128, MANY_COLUMNS = 769 };
	const struct fused_gemm *f = site_params(s);
	const struct vinfo *a = site_in(s, IN_A), *b = site_in(s, IN_B), *c = site_in(s, IN_C);

	if (!amx_usable())
		return refuse(w, "a processor without AMX");
	if (!s->store || !site_is_weight(s, IN_B) || b->shape.rank != 2 || a->shape.rank < 2)
		return refuse(w, "a second factor that is no constant matrix");
	if (f->transA || f->alpha != 1 || (c && f->beta != 1) || site_in(s, IN_R))
		return refuse(w, "a factor, a residual, or rows that are not dense");
	int64_t k = b->shape.dim[f->transB ? 1 : 0], n = b->shape.dim[f->transB ? 0 : 1];
	if (k < 1 || k > SHORT_SUM || n < MANY_COLUMNS || a->shape.dim[a->shape.rank - 1] != k)
		return refuse(w, "few columns or long sums, for which oneDNN uses AMX");
	if (c && (c->shape.rank < 1 || c->shape.dim[c->shape.rank - 1] != n ||
		  shape_count(&c->shape) != n))
		return refuse(w, "a C that is no row");
	return shape_count(&a->shape) > 0 || refuse(w, "no rows");
}

static int pack_weights(void *dst, const struct tensor *t, void *arg)
{
	const struct amx_product *p = arg;

	amx_pack_b(t->data, p->transposed ? p->k : p->n, p->transposed, p->k, p->n, dst);
	return 0;
}

int amx_product_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct fused_gemm *f = site_params(s);
	const struct shape *a = &site_in(s, IN_A)->shape, *b = &site_in(s, IN_B)->shape;
	struct amx_product *p = arena_new(s->plan_arena, struct amx_product);
	const size_t sums = (size_t)pool_threads() * PART_ROWS * PART_COLUMNS * sizeof(float);

	*p = (struct amx_product){.m = shape_span(a, 0, a->rank - 1),
				  .n = b->dim[f->transB ? 0 : 1],
				  .k = b->dim[f->transB ? 1 : 0],
				  .transposed = f->transB != 0,
				  .has_bias = site_in(s, IN_C) != NULL,
				  .act = f->act,
				  .act_alpha = f->act_alpha,
				  .act_beta = f->act_beta};
	p->depth = amx_depth(p->k);
	if (!size_mul((size_t)amx_rows(p->m), (size_t)p->depth * sizeof(uint16_t), &p->rows) ||
	    !size_add(scratch_size(p->rows), sums, &step->workspace))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = "Gemm");
	p->packed =
		store_get(s->store, site_known(s, IN_B), p->transposed ? "amx transposed" : "amx",
			  (size_t)(amx_rows(p->n) * p->depth) * sizeof(uint16_t), pack_weights, p, d);
	if (!p->packed)
		return -E_MEMORY;
	step->unread |= UINT64_C(1) << IN_B;
	step->state = p;
	return 0;
}

/* ---- running ---------------------------------------------------------------------------------- */

struct amx_product_run {
	const struct amx_product *p;
	const struct tensor *a, *bias;
	struct tensor *y;
	uint16_t *rows;
	float *sums;
	int64_t row_parts;
};

static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct amx_product_run *j = arg;
	const struct amx_product *p = j->p;
	int64_t first = begin * AMX_ROWS, rows = lesser(end * AMX_ROWS, p->m) - first;

	(void)thread;
	amx_pack_a((const uint16_t *)j->a->data + first * p->k, p->k, rows, p->k,
		   j->rows + first * p->depth);
}

/* Adds the bias to the sums of some rows and columns, applies the activation, and rounds. */
static void finish(const struct amx_product_run *j, float *c, int64_t m, int64_t rows, int64_t n,
		   int64_t columns)
{
	const struct amx_product *p = j->p;
	uint16_t *y = (uint16_t *)j->y->data + m * p->n + n;
	float bias[PART_COLUMNS];

	if (j->bias)
		simd_to_f32(DT_BF16, j->bias->data, n, columns, bias);
	for (int64_t i = 0; i < rows; i++, c += PART_COLUMNS, y += p->n) {
		if (j->bias)
			simd()->bin[VB_ADD][DT_F32](c, bias, c, columns);
		act_f32(p->act, p->act_alpha, p->act_beta, c, columns);
		simd()->f32_to_bf16(c, y, columns);
	}
}

static void multiply_parts(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct amx_product_run *j = arg;
	const struct amx_product *p = j->p;
	float *c = j->sums + (int64_t)thread * PART_ROWS * PART_COLUMNS;

	for (int64_t i = begin; i < end; i++) {
		int64_t n = i / j->row_parts * PART_COLUMNS, m = i % j->row_parts * PART_ROWS;
		int64_t rows = lesser(p->m - m, PART_ROWS), columns = lesser(p->n - n, PART_COLUMNS);
		struct amx product = {
			amx_rows(rows), amx_rows(columns),	  p->depth, j->rows + m * p->depth,
			p->depth,	p->packed + n * p->depth, c,	    PART_COLUMNS};
		amx_multiply(&product);
		finish(j, c, m, rows, n, columns);
	}
}

int amx_product_run(const struct call *c)
{
	const struct amx_product *p = c->step->state;
	struct scratch s = scratch_of(c);
	struct amx_product_run j = {.p = p,
				    .a = c->in[IN_A],
				    .bias = p->has_bias ? c->in[IN_C] : NULL,
				    .y = c->out[0],
				    .row_parts = (p->m + PART_ROWS - 1) / PART_ROWS};

	j.rows = scratch_take(&s, p->rows);
	j.sums = (float *)(void *)s.at;
	pool_for(amx_rows(p->m) / AMX_ROWS, PART_ROWS / AMX_ROWS, pack_part, &j);
	pool_for((p->n + PART_COLUMNS - 1) / PART_COLUMNS * j.row_parts, 1, multiply_parts, &j);
	return 0;
}
