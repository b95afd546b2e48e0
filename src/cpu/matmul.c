/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MatMul, Gemm, Einsum, Det and Inverse for every element type. Matrix products use the blocked
 * product of cpu/math/gemm.h: fp16 and bf16 are converted to fp32, and signed integers are
 * multiplied as unsigned ones, because both wrap to the same bits.
 */
#include "ops/matmul.h"

#include "base/pool.h"
#include "cpu/math/gemm.h"
#include "cpu/math/simd.h"
#include "cpu/onednn/onednn.h"
#include "cpu/math/wide.h"
#include "cpu/product.h"

#include <math.h>
#include <string.h>

static enum gemm_type gemm_type_of(enum dtype t)
{
	if (t == DT_F64)
		return GEMM_F64;
	if (t == DT_I32 || t == DT_U32)
		return GEMM_U32;
	return t == DT_I64 || t == DT_U64 ? GEMM_U64 : GEMM_F32;
}

static size_t gemm_elem_size(enum gemm_type t)
{
	return t == GEMM_F32 || t == GEMM_U32 ? 4 : 8;
}

/* ---- MatMul ----------------------------------------------------------------------------------- */

struct batches {
	enum gemm_type type;
	struct gemm one; /* the product of batch entry 0 */
	struct matmul_shape s;
	char *scratch;
};

static void gemm_of_batch(const struct batches *b, int64_t i, struct gemm *g)
{
	size_t size = gemm_elem_size(b->type);
	int64_t at = i, a_off = 0, b_off = 0;

	*g = b->one;
	for (int d = b->s.nbatch - 1; d >= 0; d--) {
		int64_t o = at % b->s.batch[d];
		at /= b->s.batch[d];
		a_off += o * b->s.a_batch[d];
		b_off += o * b->s.b_batch[d];
	}
	g->a = (const char *)b->one.a + (size_t)a_off * size;
	g->b = (const char *)b->one.b + (size_t)b_off * size;
	g->c = (char *)b->one.c + (size_t)(i * b->s.m * b->s.n) * size;
}

static void run_batches(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct batches *b = arg;
	struct gemm g;

	for (int64_t i = begin; i < end; i++) {
		gemm_of_batch(b, i, &g);
		gemm_one(b->type, &g, b->scratch + (size_t)thread * gemm_scratch_one(b->type));
	}
}

/*
 * When every batch entry multiplies the same B and the rows of A follow each other evenly, treats
 * the batch as more rows of A: one large product is faster than many small ones.
 */
static void merge_rows(struct matmul_shape *s)
{
	while (s->nbatch && s->b_batch[s->nbatch - 1] == 0 &&
	       s->a_batch[s->nbatch - 1] == s->m * s->a_row && s->m > 0) {
		s->nbatch--;
		s->m *= s->batch[s->nbatch];
	}
}

static void multiply_batches(enum gemm_type t, const struct matmul_shape *shape, const void *a,
			     const void *b, void *y, double alpha, void *scratch)
{
	struct batches j = {.type = t, .s = *shape, .scratch = scratch};
	struct gemm g;
	int64_t n = 1;

	merge_rows(&j.s);
	j.one = (struct gemm){.m = j.s.m,
			      .n = j.s.n,
			      .k = j.s.k,
			      .a = a,
			      .b = b,
			      .a_row = j.s.a_row,
			      .a_col = j.s.a_col,
			      .b_row = j.s.b_row,
			      .b_col = j.s.b_col,
			      .c = y,
			      .c_row = j.s.n,
			      .alpha = alpha};
	for (int i = 0; i < j.s.nbatch; i++)
		n *= j.s.batch[i];
	double work = (double)j.s.m * (double)j.s.n * (double)j.s.k;
	if (n >= 2 * pool_threads() || work < 4096) {
		pool_for(n, 1 + (int64_t)(32768 / (1 + work)), run_batches, &j);
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		gemm_of_batch(&j, i, &g);
		gemm_run(t, &g, scratch);
	}
}

static int matmul_reshape(struct site *site, struct step *step, struct diag *d)
{
	enum gemm_type t = gemm_type_of((enum dtype)site_in(site, 0)->type.dtype);

	(void)d;
	step->workspace = wide_workspace(site) + scratch_size(gemm_scratch(t));
	return 0;
}

static int run_matmul(const struct call *c, const struct fused_matmul *f)
{
	enum gemm_type t = gemm_type_of(tensor_dtype(c->in[0]));
	struct scratch s = scratch_of(c);
	struct matmul_shape shape;
	void *scratch = scratch_take(&s, gemm_scratch(t));
	const void *a = wide_in(&s, c->in[0]), *b = wide_in(&s, c->in[1]);
	void *y = wide_out(&s, c->out[0]);

	if (!matmul_shape(&c->in[0]->shape, &c->in[1]->shape, f, &shape))
		return call_fail(c, E_SHAPE, "matrices that fit", NULL);
	if (tensor_count(c->out[0]) > 0)
		multiply_batches(t, &shape, a, b, y, f ? (double)f->alpha : 1, scratch);
	wide_done(c->out[0], y);
	return 0;
}

static int matmul_run(const struct call *c)
{
	return run_matmul(c, NULL);
}

static int fused_matmul_run(const struct call *c)
{
	return run_matmul(c, call_params(c));
}

/* ---- Gemm ------------------------------------------------------------------------------------- */

struct bias {
	enum dtype type; /* type of the computation: f32, f64 or the integer type */
	const void *c;
	void *y;
	int64_t cols, row_step, col_step;
	double alpha, beta; /* used for integers only: y = alpha * y + beta * c */
};

static void fill_bias(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct bias *b = arg;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		for (int64_t j = 0; j < b->cols; j++) {
			int64_t from = i * b->row_step + j * b->col_step, to = i * b->cols + j;
			if (b->type == DT_F32)
				((float *)b->y)[to] = ((const float *)b->c)[from];
			else
				((double *)b->y)[to] = ((const double *)b->c)[from];
		}
	}
}

static void add_integer_bias(const struct bias *b, int64_t rows)
{
	bool whole = b->alpha == 1 && (!b->c || b->beta == 1);

	for (int64_t i = 0; i < rows && !(whole && !b->c); i++)
		for (int64_t j = 0; j < b->cols; j++) {
			int64_t from = i * b->row_step + j * b->col_step, to = i * b->cols + j;
			int64_t y = elem_i64(b->type, b->y, to),
				c = b->c ? elem_i64(b->type, b->c, from) : 0;
			if (whole)
				elem_set_i64(b->type, b->y, to, (int64_t)((uint64_t)y + (uint64_t)c));
			else
				elem_set_f64(b->type, b->y, to,
					     trunc(b->alpha * (double)y + b->beta * (double)c));
		}
}

static void set_bias_strides(const struct shape *s, struct bias *b)
{
	int64_t rows = s->rank == 2 ? s->dim[0] : 1, cols = s->rank ? s->dim[s->rank - 1] : 1;

	b->row_step = rows == 1 ? 0 : cols;
	b->col_step = cols == 1 ? 0 : 1;
}

static int gemm_reference(const struct call *c)
{
	const struct gemm_params *p = call_params(c);
	enum dtype type = tensor_dtype(c->in[0]);
	enum gemm_type t = gemm_type_of(type);
	struct scratch s = scratch_of(c);
	const struct shape *a = &c->in[0]->shape, *b = &c->in[1]->shape;
	const struct tensor *ct = c->step->nin > 2 && p->beta != 0 ? c->in[2] : NULL;
	bool floats = t == GEMM_F32 || t == GEMM_F64;
	void *scratch = scratch_take(&s, gemm_scratch(t)), *y;
	struct gemm g = {.m = a->dim[p->transA ? 1 : 0],
			 .k = a->dim[p->transA ? 0 : 1],
			 .n = b->dim[p->transB ? 0 : 1],
			 .alpha = floats ? (double)p->alpha : 1};
	struct bias bias = {.type = t == GEMM_F32 ? DT_F32 : type,
			    .cols = g.n,
			    .alpha = (double)p->alpha,
			    .beta = (double)p->beta};

	g.a = wide_in(&s, c->in[0]);
	g.b = wide_in(&s, c->in[1]);
	bias.c = wide_in(&s, ct);
	bias.y = g.c = y = wide_out(&s, c->out[0]);
	g.a_row = p->transA ? 1 : g.k;
	g.a_col = p->transA ? g.m : 1;
	g.b_row = p->transB ? 1 : g.n;
	g.b_col = p->transB ? g.k : 1;
	g.c_row = g.n;
	if (ct)
		set_bias_strides(&ct->shape, &bias);
	if (ct && floats) {
		pool_for(g.m, 1 + 16384 / (g.n + 1), fill_bias, &bias);
		g.beta = (double)p->beta;
	}
	gemm_run(t, &g, scratch);
	if (!floats)
		add_integer_bias(&bias, g.m);
	wide_done(c->out[0], y);
	return 0;
}

/* ---- Einsum ----------------------------------------------------------------------------------- */

/*
 * Einsum contracts its operands from left to right. Each step brings the left operand into the
 * order (batch, rows, depth) and the right one into (batch, depth, columns), sums over the labels
 * that neither a later operand nor the output has, and multiplies the two as batched matrices. The
 * result has the labels (batch, rows, columns). A last step brings the result into the order of
 * the output. The computation runs in f32, f64 or u64.
 */
struct operand {
	const void *data;
	int n; /* number of distinct labels; a diagonal has its label only once */
	int8_t label[EINSUM_LABELS];
	int64_t step[EINSUM_LABELS];
};

struct einsum_job {
	struct einsum_plan plan;
	enum gemm_type type;
	int64_t size[EINSUM_LABELS];
	size_t need; /* bytes of scratch taken so far */
	char *at, *gemm;
	bool dry; /* only count the scratch that the run will need; compute nothing */
};

static void *take_einsum_scratch(struct einsum_job *j, int64_t count)
{
	size_t bytes = scratch_size((size_t)(count > 0 ? count : 1) * gemm_elem_size(j->type));
	void *p = j->dry ? NULL : j->at + j->need;

	j->need += bytes;
	return p;
}

static bool has_label(const struct operand *o, int8_t l)
{
	for (int i = 0; i < o->n; i++)
		if (o->label[i] == l)
			return true;
	return false;
}

static int64_t step_of(const struct operand *o, int8_t l)
{
	for (int i = 0; i < o->n; i++)
		if (o->label[i] == l)
			return o->step[i];
	return 0;
}

/*
 * For each k below n: adds to y[k] the sum of x[k * xs + offset], over all indices of the `nsum` summed labels;
 * `step` has the strides of these labels. If the innermost one has stride 1 and xs is not 1 or n is small, the
 * function finishes that label's sum for one k after the other, because adding short or strided rows is slow.
 */
#define ADD_ALL(name, REAL, total)                                                                 \
	static void name(const struct einsum_job *j, const REAL *x, int64_t xs,                    \
			 const int8_t *label, const int64_t *step, int nsum, REAL *y, int64_t n)   \
	{                                                                                          \
		if (nsum > 1) {                                                                    \
			for (int64_t i = 0; i < j->size[*label]; i++)                              \
				name(j, x + i * *step, xs, label + 1, step + 1, nsum - 1, y, n);   \
			return;                                                                    \
		}                                                                                  \
		int64_t count = nsum ? j->size[*label] : 1, s = nsum ? *step : 0;                  \
		if (nsum && s == 1 && (xs != 1 || n < 8)) {                                        \
			for (int64_t k = 0; k < n; k++)                                            \
				y[k] += total(x + k * xs, count);                                  \
			return;                                                                    \
		}                                                                                  \
		for (int64_t i = 0; i < count; i++, x += s) {                                      \
			if (xs == 1)                                                               \
				for (int64_t k = 0; k < n; k++)                                    \
					y[k] += x[k];                                              \
			else                                                                       \
				for (int64_t k = 0; k < n; k++)                                    \
					y[k] += x[k * xs];                                         \
		}                                                                                  \
	}

static float total_f32(const float *x, int64_t n)
{
	return simd()->sum(x, n);
}

static double total_f64(const double *x, int64_t n)
{
	double s[4] = {0};
	int64_t k = 0;

	for (; k + 4 <= n; k += 4)
		for (int i = 0; i < 4; i++)
			s[i] += x[k + i];
	for (; k < n; k++)
		s[0] += x[k];
	return s[0] + s[1] + (s[2] + s[3]);
}

static uint64_t total_u64(const uint64_t *x, int64_t n)
{
	uint64_t sum = 0;

	for (int64_t k = 0; k < n; k++)
		sum += x[k];
	return sum;
}
ADD_ALL(add_all_f32, float, total_f32)
ADD_ALL(add_all_f64, double, total_f64)
ADD_ALL(add_all_u64, uint64_t, total_u64)
#undef ADD_ALL

struct arrange {
	const struct einsum_job *j;
	const struct operand *from;
	int nkeep, nsum;
	int8_t keep[EINSUM_LABELS], sum[EINSUM_LABELS];
	int64_t keep_step[EINSUM_LABELS], sum_step[EINSUM_LABELS];
	void *to;
};

/*
 * Fills elements begin..end of the output. A row runs along the output's last label (a->keep); each iteration fills
 * one row, or the part of it that lies in begin..end.
 */
static void arrange_elements(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct arrange *a = arg;
	const struct einsum_job *j = a->j;
	int last = a->nkeep - 1;
	int64_t row = last >= 0 ? j->size[a->keep[last]] : 1, xs = last >= 0 ? a->keep_step[last] : 0;

	(void)thread;
	for (int64_t i = begin; i < end;) {
		int64_t at = i / row, off = i % row * xs,
			n = row - i % row < end - i ? row - i % row : end - i;
		for (int d = last - 1; d >= 0; d--) {
			off += at % j->size[a->keep[d]] * a->keep_step[d];
			at /= j->size[a->keep[d]];
		}
		size_t size = gemm_elem_size(j->type);
		const void *x = (const char *)a->from->data + off * (int64_t)size;
		void *y = (char *)a->to + i * (int64_t)size;
		memset(y, 0, (size_t)n * size);
		if (j->type == GEMM_F32)
			add_all_f32(j, x, xs, a->sum, a->sum_step, a->nsum, y, n);
		else if (j->type == GEMM_F64)
			add_all_f64(j, x, xs, a->sum, a->sum_step, a->nsum, y, n);
		else
			add_all_u64(j, x, xs, a->sum, a->sum_step, a->nsum, y, n);
		i += n;
	}
}

static int64_t label_count(const struct einsum_job *j, const int8_t *label, int n)
{
	int64_t count = 1;

	for (int i = 0; i < n; i++)
		if (__builtin_mul_overflow(count, j->size[label[i]], &count))
			return INT64_MAX;
	return count;
}

/* Whether `from` has exactly these labels in this order and lies densely in memory. */
static bool is_dense_in_order(const struct einsum_job *j, const struct operand *from,
			      const int8_t *label, int n)
{
	int64_t step = 1;

	if (from->n != n)
		return false;
	for (int i = n - 1; i >= 0; i--) {
		if (from->label[i] != label[i] || (from->step[i] != step && j->size[label[i]] != 1))
			return false;
		step *= j->size[label[i]];
	}
	return true;
}

/*
 * Returns `from` as a dense operand with exactly these labels, summed over its other labels. The
 * data goes to `to`, or to scratch memory if `to` is NULL. If `to` is NULL and `from` already is
 * such an operand, nothing is copied.
 */
static struct operand arrange_operand(struct einsum_job *j, const struct operand *from,
				      const int8_t *label, int n, void *to)
{
	struct arrange a = {.j = j, .from = from, .nkeep = n, .to = to};
	struct operand r = {.n = n};
	int64_t step = 1, count = label_count(j, label, n);

	for (int i = n - 1; i >= 0; i--) {
		r.label[i] = a.keep[i] = label[i];
		a.keep_step[i] = step_of(from, label[i]);
		r.step[i] = step;
		step *= j->size[label[i]];
	}
	r.data = from->data;
	if (!to && is_dense_in_order(j, from, label, n))
		return r;
	for (int i = 0; i < from->n; i++) {
		bool kept = false;
		for (int k = 0; k < n; k++)
			kept |= label[k] == from->label[i];
		if (!kept) {
			a.sum[a.nsum] = from->label[i];
			a.sum_step[a.nsum++] = from->step[i];
		}
	}
	if (!to)
		a.to = take_einsum_scratch(j, count);
	r.data = a.to;
	int64_t work = label_count(j, a.sum, a.nsum);
	if (!j->dry)
		pool_for(count, 1 + 16384 / (work > 0 ? work : 1), arrange_elements, &a);
	return r;
}

/*
 * Whether the labels in this order can be walked as one dimension with a constant stride, which is
 * returned in *step (0 if all of them have size 1).
 */
static bool has_one_stride(const struct einsum_job *j, const struct operand *o, const int8_t *label,
			   int n, int64_t *step)
{
	int64_t want = -1;

	*step = 0;
	for (int i = n - 1; i >= 0; i--) {
		int64_t size = j->size[label[i]], s = step_of(o, label[i]);
		if (size == 1)
			continue;
		if (want < 0)
			*step = s;
		else if (s != want)
			return false;
		want = s * size;
	}
	return true;
}

/* Whether the output or an operand after k has label l. */
static bool label_needed_after(const struct einsum_job *j, int k, int8_t l)
{
	const struct einsum_plan *p = &j->plan;

	for (int i = 0; i < p->nout; i++)
		if (p->out[i] == l)
			return true;
	for (k++; k < p->noperands; k++)
		for (int i = 0; i < p->rank[k]; i++)
			if (p->label[k][i] == l)
				return true;
	return false;
}

/* Labels of a matrix product, sorted by the matrix dimension that each belongs to. */
struct product_labels {
	int8_t batch[EINSUM_LABELS], rows[EINSUM_LABELS], depth[EINSUM_LABELS], cols[EINSUM_LABELS];
	int nb, nm, nk, nn;
};

static struct product_labels product_labels(const struct einsum_job *j, const struct operand *a,
					    const struct operand *b, int k)
{
	struct product_labels p = {0};

	for (int i = 0; i < a->n; i++) {
		int8_t l = a->label[i];
		if (has_label(b, l) && label_needed_after(j, k, l))
			p.batch[p.nb++] = l;
		else if (has_label(b, l))
			p.depth[p.nk++] = l;
		else if (label_needed_after(j, k, l))
			p.rows[p.nm++] = l;
	}
	for (int i = 0; i < b->n; i++)
		if (!has_label(a, b->label[i]) && label_needed_after(j, k, b->label[i]))
			p.cols[p.nn++] = b->label[i];
	return p;
}

/* Concatenates three lists of labels; returns the number of labels. */
static int join_labels(int8_t *to, const int8_t *a, int na, const int8_t *b, int nb,
		       const int8_t *c, int nc)
{
	memcpy(to, a, (size_t)na);
	memcpy(to + na, b, (size_t)nb);
	memcpy(to + na + nb, c, (size_t)nc);
	return na + nb + nc;
}

/* Describes dense row-major data that has these labels in this order. */
static struct operand dense_operand(const struct einsum_job *j, const int8_t *label, int n,
				    const void *data)
{
	struct operand r = {.n = n, .data = data};
	int64_t step = 1;

	for (int i = n - 1; i >= 0; i--) {
		r.label[i] = label[i];
		r.step[i] = step;
		step *= j->size[label[i]];
	}
	return r;
}

/* Multiplies a, the product of all operands before k, by b, which is operand k. */
static struct operand contract(struct einsum_job *j, const struct operand *a,
			       const struct operand *b, int k)
{
	const struct product_labels p = product_labels(j, a, b, k);
	struct operand l = *a, m = *b;
	struct matmul_shape s = {.nbatch = p.nb,
				 .m = label_count(j, p.rows, p.nm),
				 .k = label_count(j, p.depth, p.nk),
				 .n = label_count(j, p.cols, p.nn)};
	int8_t order[3 * EINSUM_LABELS];

	/*
	 * An operand is multiplied in place if its rows, its columns and its depth each have one
	 * stride; otherwise it is copied into a dense order first.
	 */
	if (a->n != p.nb + p.nm + p.nk || !has_one_stride(j, a, p.rows, p.nm, &s.a_row) ||
	    !has_one_stride(j, a, p.depth, p.nk, &s.a_col)) {
		int n = join_labels(order, p.batch, p.nb, p.rows, p.nm, p.depth, p.nk);
		l = arrange_operand(j, a, order, n, NULL);
		s.a_row = s.k;
		s.a_col = 1;
	}
	if (b->n != p.nb + p.nk + p.nn || !has_one_stride(j, b, p.depth, p.nk, &s.b_row) ||
	    !has_one_stride(j, b, p.cols, p.nn, &s.b_col)) {
		int n = join_labels(order, p.batch, p.nb, p.depth, p.nk, p.cols, p.nn);
		m = arrange_operand(j, b, order, n, NULL);
		s.b_row = s.n;
		s.b_col = 1;
	}
	for (int i = 0; i < p.nb; i++) {
		s.batch[i] = j->size[p.batch[i]];
		s.a_batch[i] = step_of(&l, p.batch[i]);
		s.b_batch[i] = step_of(&m, p.batch[i]);
	}
	int n = join_labels(order, p.batch, p.nb, p.rows, p.nm, p.cols, p.nn);
	int64_t count = label_count(j, order, n);
	void *y = take_einsum_scratch(j, count);
	if (!j->dry && count > 0)
		multiply_batches(j->type, &s, l.data, m.data, y, 1, j->gemm);
	return dense_operand(j, order, n, y);
}

/*
 * Returns the labels of operand k with the strides of its dimensions. If a label occurs twice (a
 * diagonal), its strides add up, so that one index moves along both dimensions.
 */
static struct operand operand_of(const struct einsum_job *j, int k, const struct shape *s,
				 const void *data)
{
	struct operand o = {.data = data};
	int64_t step = 1;

	for (int i = s->rank - 1; i >= 0; i--) {
		int8_t l = j->plan.label[k][i];
		int at = 0;
		while (at < o.n && o.label[at] != l)
			at++;
		if (at == o.n) {
			o.label[o.n++] = l;
			o.step[at] = 0;
		}
		o.step[at] += s->dim[i] == 1 ? 0 : step;
		step *= s->dim[i];
	}
	for (int i = 0; i < o.n / 2; i++) { /* reverse: the outermost label comes first */
		int8_t l = o.label[i];
		int64_t t = o.step[i];
		o.label[i] = o.label[o.n - 1 - i];
		o.step[i] = o.step[o.n - 1 - i];
		o.label[o.n - 1 - i] = l;
		o.step[o.n - 1 - i] = t;
	}
	return o;
}

/*
 * Returns the elements of t in the type of the computation: integers are converted to u64, floats
 * are converted by wide_in.
 */
static const void *convert_operand(struct einsum_job *j, const struct tensor *t, struct scratch *s)
{
	if (j->type != GEMM_U64)
		return wide_in(s, t);
	int64_t n = tensor_count(t);
	uint64_t *to = take_einsum_scratch(j, n);
	for (int64_t i = 0; i < n; i++)
		to[i] = (uint64_t)elem_i64(tensor_dtype(t), t->data, i);
	return to;
}

static int einsum_setup(struct einsum_job *j, const char *equation, int n,
			const struct shape *const *shape, enum dtype t, struct diag *d)
{
	int rank[EINSUM_OPERANDS];

	for (int k = 0; k < n && k < EINSUM_OPERANDS; k++)
		rank[k] = shape[k]->rank;
	if (einsum_parse(equation, n, rank, &j->plan, d))
		return -E_OP_ATTRIBUTE;
	for (int i = 0; i < EINSUM_LABELS; i++)
		j->size[i] = 1;
	for (int k = 0; k < n; k++)
		for (int i = 0; i < rank[k]; i++)
			if (shape[k]->dim[i] != 1)
				j->size[j->plan.label[k][i]] = shape[k]->dim[i];
	j->type = dtype_class(t) != DT_FLOAT ? GEMM_U64 : t == DT_F64 ? GEMM_F64 : GEMM_F32;
	return 0;
}

/* Computes the whole equation into y; while j->dry is set, only counts the scratch memory. */
static void contract_all(struct einsum_job *j, const struct shape *const *shape,
			 const void *const *data, void *y)
{
	struct operand r = operand_of(j, 0, shape[0], data ? data[0] : NULL);

	for (int k = 1; k < j->plan.noperands; k++) {
		struct operand b = operand_of(j, k, shape[k], data ? data[k] : NULL);
		r = contract(j, &r, &b, k);
	}
	if (!j->dry)
		arrange_operand(j, &r, j->plan.out, j->plan.nout, y);
}

static int einsum_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct einsum *p = site_params(site);
	const struct shape *shape[EINSUM_OPERANDS];
	struct einsum_job j = {.dry = true};
	enum dtype t = (enum dtype)site_in(site, 0)->type.dtype;
	int n = (int)site->node->nin;

	for (int k = 0; k < n && k < EINSUM_OPERANDS; k++)
		shape[k] = &site_in(site, (uint32_t)k)->shape;
	if (einsum_setup(&j, p->equation, n, shape, t, d))
		return 0; /* einsum_run reports the bad equation */
	for (int k = 0; j.type == GEMM_U64 && k < n; k++)
		take_einsum_scratch(&j, shape_count(shape[k]));
	if (j.type == GEMM_U64)
		take_einsum_scratch(&j, shape_count(&site_out(site, 0)->shape));
	contract_all(&j, shape, NULL, NULL);
	if (j.need > (size_t)1 << 46)
		return FAIL(d, E_SIZE, .node = site->node->origin->name, .op = "Einsum");
	step->workspace = wide_workspace(site) + j.need + scratch_size(gemm_scratch(j.type));
	return 0;
}

static int einsum_run(const struct call *c)
{
	const struct einsum *p = call_params(c);
	const struct shape *shape[EINSUM_OPERANDS];
	const void *data[EINSUM_OPERANDS];
	struct scratch s = scratch_of(c);
	struct einsum_job j = {0};
	enum dtype t = tensor_dtype(c->in[0]);
	int n = (int)c->step->nin;
	int64_t count = tensor_count(c->out[0]);
	void *y;

	for (int k = 0; k < n && k < EINSUM_OPERANDS; k++)
		shape[k] = &c->in[k]->shape;
	if (einsum_setup(&j, p->equation, n, shape, t, c->diag))
		return call_fail(c, E_OP_ATTRIBUTE, "an equation that fits the operands", p->equation);
	j.gemm = scratch_take(&s, gemm_scratch(j.type));
	y = j.type == GEMM_U64 ? NULL : wide_out(&s, c->out[0]);
	if (j.type != GEMM_U64)
		for (int k = 0; k < n; k++)
			data[k] = convert_operand(&j, c->in[k], &s);
	j.at = s.at;
	if (j.type == GEMM_U64) {
		for (int k = 0; k < n; k++)
			data[k] = convert_operand(&j, c->in[k], &s);
		y = take_einsum_scratch(&j, count);
	}
	contract_all(&j, shape, data, y);
	if (j.type != GEMM_U64)
		wide_done(c->out[0], y);
	else
		for (int64_t i = 0; i < count; i++)
			elem_set_i64(t, c->out[0]->data, i, (int64_t)((const uint64_t *)y)[i]);
	return 0;
}

/* ---- Det -------------------------------------------------------------------------------------- */

/* Gaussian elimination with partial pivoting; overwrites a. */
static double determinant(double *a, int64_t n)
{
	double det = 1;

	for (int64_t k = 0; k < n; k++) {
		int64_t best = k;
		for (int64_t i = k + 1; i < n; i++)
			if (fabs(a[i * n + k]) > fabs(a[best * n + k]))
				best = i;
		if (a[best * n + k] == 0)
			return 0;
		if (best != k)
			det = -det;
		for (int64_t i = k; best != k && i < n; i++) {
			double t = a[k * n + i];
			a[k * n + i] = a[best * n + i];
			a[best * n + i] = t;
		}
		det *= a[k * n + k];
		for (int64_t i = k + 1; i < n; i++) {
			double f = a[i * n + k] / a[k * n + k];
			for (int64_t l = k + 1; l < n; l++)
				a[i * n + l] -= f * a[k * n + l];
		}
	}
	return det;
}

static int64_t det_size(const struct shape *x)
{
	return x->dim[x->rank - 1];
}

static int det_reshape(struct site *site, struct step *step, struct diag *d)
{
	int64_t n = det_size(&site_in(site, 0)->shape);

	(void)d;
	step->workspace = (size_t)pool_threads() * scratch_size((size_t)(n * n) * sizeof(double));
	return 0;
}

struct det_job {
	enum dtype type;
	int64_t n;
	const void *x;
	void *y;
	char *scratch;
};

static void compute_determinants(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct det_job *j = arg;
	int64_t size = j->n * j->n;
	char *at = j->scratch + (size_t)thread * scratch_size((size_t)size * sizeof(double));
	double *a = (double *)(void *)at;

	for (int64_t i = begin; i < end; i++) {
		for (int64_t k = 0; k < size; k++)
			a[k] = j->type == DT_F32 ? (double)((const float *)j->x)[i * size + k]
						 : elem_f64(j->type, j->x, i * size + k);
		elem_set_f64(j->type, j->y, i, determinant(a, j->n));
	}
}

static int det_run(const struct call *c)
{
	struct det_job j = {tensor_dtype(c->in[0]), det_size(&c->in[0]->shape), c->in[0]->data,
			    c->out[0]->data, c->workspace};

	pool_for(tensor_count(c->out[0]), 1 + 16384 / (1 + j.n * j.n * j.n), compute_determinants, &j);
	return 0;
}

/* ---- Inverse ---------------------------------------------------------------------------------- */

/*
 * Gauss-Jordan elimination. a has the shape [n, 2n]: the matrix, and right of it the unit matrix,
 * which becomes the inverse. Returns false if the matrix is singular.
 */
static bool invert(double *a, int64_t n)
{
	for (int64_t k = 0; k < n; k++) {
		int64_t best = k;
		for (int64_t i = k + 1; i < n; i++)
			if (fabs(a[i * 2 * n + k]) > fabs(a[best * 2 * n + k]))
				best = i;
		double pivot = a[best * 2 * n + k];
		if (pivot == 0)
			return false;
		for (int64_t i = k; i < 2 * n; i++) {
			double t = a[best * 2 * n + i] / pivot;
			a[best * 2 * n + i] = a[k * 2 * n + i];
			a[k * 2 * n + i] = t;
		}
		for (int64_t r = 0; r < n; r++) {
			double f = a[r * 2 * n + k];
			for (int64_t i = k; i < 2 * n && r != k && f != 0; i++)
				a[r * 2 * n + i] -= f * a[k * 2 * n + i];
		}
	}
	return true;
}

static int inverse_reshape(struct site *site, struct step *step, struct diag *d)
{
	int64_t n = det_size(&site_in(site, 0)->shape);

	(void)d;
	step->workspace = (size_t)pool_threads() * scratch_size(2 * (size_t)(n * n) * sizeof(double));
	return 0;
}

static void compute_inverses(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct det_job *j = arg;
	int64_t n = j->n;
	char *at = j->scratch + (size_t)thread * scratch_size(2 * (size_t)(n * n) * sizeof(double));
	double *a = (double *)(void *)at;

	for (int64_t m = begin; m < end; m++) {
		for (int64_t r = 0; r < n; r++)
			for (int64_t i = 0; i < n; i++) {
				a[r * 2 * n + i] = elem_f64(j->type, j->x, (m * n + r) * n + i);
				a[r * 2 * n + n + i] = r == i;
			}
		bool has = invert(a, n);
		for (int64_t r = 0; r < n; r++)
			for (int64_t i = 0; i < n; i++)
				elem_set_f64(j->type, j->y, (m * n + r) * n + i,
					     has ? a[r * 2 * n + n + i] : (double)NAN);
	}
}

static int inverse_run(const struct call *c)
{
	struct det_job j = {tensor_dtype(c->in[0]), det_size(&c->in[0]->shape), c->in[0]->data,
			    c->out[0]->data, c->workspace};
	int64_t size = j.n * j.n;

	if (tensor_count(c->in[0]))
		pool_for(tensor_count(c->in[0]) / size, 1 + 16384 / (1 + size * j.n),
			 compute_inverses, &j);
	return 0;
}

#define T_MATMUL (T_FLOATS_BF | T_U32 | T_U64 | T_I32 | T_I64)
#define REFERENCE(name, types, accepts, reshape, run)                                              \
	{                                                                                          \
		name, types, K_REFERENCE, accepts, NULL, reshape, run, NULL, NULL                  \
	}

const struct kernel cpu_matmul[] = {
	{"MatMul", T_F32, PRODUCT(matmul)},
	{"Gemm", T_F32, PRODUCT(gemm)},
	{"MatMul", T_F32 | T_F16 | T_BF16, ONEDNN(matmul)},
	{"Gemm", T_F32 | T_F16 | T_BF16, ONEDNN(gemm)},
	REFERENCE("MatMul", T_MATMUL, NULL, matmul_reshape, matmul_run),
	REFERENCE("Gemm", T_MATMUL, NULL, matmul_reshape, gemm_reference),
	REFERENCE("Einsum", T_NUMERIC_BF, NULL, einsum_reshape, einsum_run),
	REFERENCE("Det", T_FLOATS_BF, NULL, det_reshape, det_run),
	REFERENCE("com.microsoft::Inverse", T_FLOATS, NULL, inverse_reshape, inverse_run),
	REFERENCE("com.microsoft::FusedMatMul", T_FLOATS_BF, NULL, matmul_reshape, fused_matmul_run),
	REFERENCE("com.microsoft::TransposeMatMul", T_FLOATS_BF, NULL, matmul_reshape,
		  fused_matmul_run),
	{0}};
