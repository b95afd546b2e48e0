/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss, which compare class scores [batch, classes, positions] with
 * target class indices [batch, positions].
 */
#include "ops/loss.h"

#include "cpu/math/simd.h"
#include "cpu/math/util.h"

#include <math.h>
#include <string.h>

enum { MAX_COLUMNS = 256 }; /* positions that a task computes */

struct job {
	const struct call *call;
	const struct loss *p;
	const struct tensor *x, *target, *weight;
	struct tensor *y, *log_prob;
	bool softmax;
	int64_t classes, inner, blocks;
	double *loss, *mass; /* loss and weight of each position */
};

static double element_f64(const struct tensor *t, int64_t i)
{
	if (tensor_dtype(t) == DT_F32)
		return (double)((const float *)t->data)[i];
	return elem_f64(tensor_dtype(t), t->data, i);
}

static int64_t class_at(const struct tensor *t, int64_t i)
{
	if (tensor_dtype(t) == DT_I64)
		return ((const int64_t *)t->data)[i];
	return elem_i64(tensor_dtype(t), t->data, i);
}

static bool is_ignored(const struct job *j, int64_t class)
{
	return j->p->ignore_index != INT_ABSENT && class == j->p->ignore_index;
}

/*
 * Computes, for each of w positions, the logarithm of the sum of exp(score) over all classes. The first score of the
 * first position is at offset `base`.
 */
static void log_sum_exp_columns(const struct job *j, int64_t base, int64_t w, double *out)
{
	const struct simd *s = simd();
	enum dtype t = tensor_dtype(j->x);
	float max[MAX_COLUMNS], sum[MAX_COLUMNS] = {0}, row[MAX_COLUMNS];

	if (t == DT_F64) {
		for (int64_t i = 0; i < w; i++) {
			double m = -(double)INFINITY, total = 0;
			for (int64_t k = 0; k < j->classes; k++)
				m = fmax(m, element_f64(j->x, base + i + k * j->inner));
			for (int64_t k = 0; k < j->classes; k++)
				total += exp(element_f64(j->x, base + i + k * j->inner) - m);
			out[i] = m + log(total);
		}
		return;
	}
	for (int64_t i = 0; i < w; i++)
		max[i] = -INFINITY;
	for (int64_t k = 0; k < j->classes; k++) {
		simd_to_f32(t, j->x->data, base + k * j->inner, w, row);
		s->bin[VB_MAX][DT_F32](max, row, max, w);
	}
	for (int64_t k = 0; k < j->classes; k++) {
		simd_to_f32(t, j->x->data, base + k * j->inner, w, row);
		s->bin[VB_SUB][DT_F32](row, max, row, w);
		s->map[VF_EXP](row, row, w, NULL);
		s->bin[VB_ADD][DT_F32](sum, row, sum, w);
	}
	for (int64_t i = 0; i < w; i++)
		out[i] = (double)max[i] + log((double)sum[i]);
}

/*
 * Logarithm of the sum of exp(score) over all classes, for one position whose scores are contiguous. The first pass finds
 * the greatest score, the second one sums exp(score - greatest), so that exp does not overflow.
 */
static double log_sum_exp_row(const struct job *j, int64_t base)
{
	const struct simd *s = simd();
	enum dtype t = tensor_dtype(j->x);
	float buf[BLOCK], max = -INFINITY;
	double sum = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (int64_t i = 0, n; i < j->classes; i += n) {
			const float *x = t == DT_F32 ? (const float *)j->x->data + base + i : buf;
			n = j->classes - i < BLOCK ? j->classes - i : BLOCK;
			if (x == buf)
				simd_to_f32(t, j->x->data, base + i, n, buf);
			float m = pass ? max : s->max(x, n);
			max = m > max || isnan(m) ? m : max;
			sum += pass ? (double)s->sum_exp(x, n, max) : 0;
		}
	}
	return (double)max + log(sum);
}

static void loss_task(const struct job *j, int64_t task)
{
	int64_t n = task / j->blocks, first = task % j->blocks * MAX_COLUMNS;
	int64_t w = j->inner - first < MAX_COLUMNS ? j->inner - first : MAX_COLUMNS;
	int64_t base = n * j->classes * j->inner + first, at_ = n * j->inner + first;
	double lse[MAX_COLUMNS];
	enum dtype t = tensor_dtype(j->x);

	for (int64_t i = 0; i < w; i++)
		lse[i] = 0;
	if (j->softmax && j->inner == 1 && t != DT_F64)
		lse[0] = log_sum_exp_row(j, base);
	else if (j->softmax)
		log_sum_exp_columns(j, base, w, lse);
	for (int64_t k = 0; j->log_prob && k < j->classes; k++)
		for (int64_t i = 0; i < w; i++) {
			int64_t e = base + k * j->inner + i;
			elem_set_f64(t, j->log_prob->data, e, element_f64(j->x, e) - lse[i]);
		}
	for (int64_t i = 0; i < w; i++) {
		int64_t class = class_at(j->target, at_ + i);
		double weight = is_ignored(j, class) ? 0
				: j->weight	     ? element_f64(j->weight, class)
						     : 1;
		double v = is_ignored(j, class)
				   ? 0
				   : element_f64(j->x, base + class * j->inner + i) - lse[i];
		j->mass[at_ + i] = weight;
		j->loss[at_ + i] = is_ignored(j, class) ? 0 : -v * weight;
	}
}

/* Rows of scores that are logarithms already: of each row, one score is read, which is asked for ahead. */
static void row_losses(const struct job *j, int64_t begin, int64_t end)
{
	enum { AHEAD = 16 };

	for (int64_t k = begin; k < end; k++) {
		if (k + AHEAD < end) {
			int64_t class = class_at(j->target, k + AHEAD);
			int64_t at_ = (k + AHEAD) * j->classes + (is_ignored(j, class) ? 0 : class);
			__builtin_prefetch((const char *)j->x->data +
					   (size_t)at_ * dtype_bits(tensor_dtype(j->x)) / 8);
		}
		int64_t class = class_at(j->target, k);
		bool ignored = is_ignored(j, class);
		double weight = ignored ? 0 : j->weight ? element_f64(j->weight, class) : 1;
		j->mass[k] = weight;
		j->loss[k] = ignored ? 0 : -element_f64(j->x, k * j->classes + class) * weight;
	}
}

static void loss_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;

	(void)thread;
	if (!j->softmax && j->inner == 1 && !j->log_prob)
		row_losses(j, begin, end);
	else
		for (int64_t k = begin; k < end; k++)
			loss_task(j, k);
}

/* Fails if a target class is not among the classes of the scores, or the number of weights is wrong. */
static int check_classes(const struct job *j)
{
	for (int64_t i = 0; i < tensor_count(j->target); i++) {
		int64_t class = class_at(j->target, i);
		if (!is_ignored(j, class) && (class < 0 || class >= j->classes))
			return call_fail(
				j->call, E_VALUE,
				fmt(j->call->diag, "classes from 0 to %" PRId64, j->classes - 1),
				fmt(j->call->diag, "%" PRId64, class));
	}
	if (j->weight && tensor_count(j->weight) != j->classes)
		return call_fail(j->call, E_SHAPE, "a weight a class",
				 fmt(j->call->diag, "%" PRId64, tensor_count(j->weight)));
	return 0;
}

static int loss_reshape(struct site *s, struct step *step, struct diag *d)
{
	size_t n = (size_t)shape_count(&site_in(s, 1)->shape);

	if (!size_mul(n, 2 * sizeof(double), &step->workspace))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = s->node->origin->op);
	return 0;
}

static int loss_run(const struct call *c)
{
	const struct tensor *x = c->in[0];
	int64_t n = tensor_count(c->in[1]);
	struct job j = {.call = c,
			.p = call_params(c),
			.x = x,
			.target = c->in[1],
			.weight = c->step->nin > 2 ? c->in[2] : NULL,
			.y = c->out[0],
			.log_prob = c->step->nout > 1 ? c->out[1] : NULL,
			.softmax = c->step->node->op->name[0] == 'S',
			.classes = x->shape.dim[1],
			.inner = x->shape.rank > 2 ? shape_span(&x->shape, 2, x->shape.rank) : 1,
			.loss = c->workspace,
			.mass = (double *)c->workspace + n};
	enum dtype t = tensor_dtype(x);
	double sum = 0, mass = 0;
	int err = check_classes(&j);

	if (err)
		return err;
	j.blocks = (j.inner + MAX_COLUMNS - 1) / MAX_COLUMNS;
	if (n > 0)
		pool_for(x->shape.dim[0] * j.blocks, rows_grain(GRAIN_HEAVY, j.classes * j.inner),
			 loss_piece, &j);
	for (int64_t i = 0; i < n; i++) {
		sum += j.loss[i];
		mass += j.mass[i];
		if (j.p->reduction == LOSS_NONE)
			elem_set_f64(t, j.y->data, i, j.loss[i]);
	}
	if (j.p->reduction != LOSS_NONE)
		elem_set_f64(t, j.y->data, 0, j.p->reduction == LOSS_MEAN ? sum / mass : sum);
	return 0;
}

#define KERNEL(name)                                                                               \
	{                                                                                          \
		.op = (name), .flags = K_REFERENCE, .reshape = loss_reshape, .run = loss_run       \
	}

const struct kernel cpu_loss[] = {
	KERNEL("NegativeLogLikelihoodLoss"), KERNEL("SoftmaxCrossEntropyLoss"), {0}};
