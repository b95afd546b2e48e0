/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, LogSoftmax, Hardmax along one dimension. */
#include "ops/softmax.h"

#include "cpu/math/simd.h"
#include "cpu/math/util.h"

#include <math.h>
#include <string.h>

enum kind { SOFTMAX, LOG_SOFTMAX, HARDMAX };
enum {
	MAX_STACK_ROW = 4096,	/* longest row that is converted in a buffer on the stack */
	COLUMNS_PER_TASK = 256, /* number of columns of a task if the dimension is not the last */
	/* if there are fewer columns, each is copied to a dense row first */
	MIN_COLUMNS = 16,
	/* rows of at most this length are too short for SIMD one by one: process many at once */
	MAX_SHORT_ROW = 64,
};

struct job {
	enum kind kind;
	enum dtype t;
	const void *x;
	void *y;
	struct axis_split s;
	int64_t blocks; /* number of blocks of COLUMNS_PER_TASK columns, for each outer index */
	float *scratch; /* one row per thread */
};

/* Index of the first element that equals max or is NaN. */
static int64_t find_max(const float *x, int64_t n, float max)
{
	for (int64_t i = 0; i < n; i++)
		if (x[i] == max || isnan(x[i]))
			return i;
	return 0;
}

static void softmax_row_f32(enum kind k, const float *x, float *y, int64_t n)
{
	const struct simd *s = simd();
	float max = s->max(x, n);

	if (k == SOFTMAX) {
		s->scale_shift(y, y, n, 0, 1 / s->exp_sum(x, y, n, max), 0);
	} else if (k == LOG_SOFTMAX) {
		s->scale_shift(x, y, n, max, 1, -logf(s->sum_exp(x, n, max)));
	} else {
		int64_t at_ = find_max(x, n, max);
		memset(y, 0, (size_t)n * sizeof(*y));
		y[at_] = 1;
	}
}

/* Softmax or LogSoftmax of many short rows; one call computes the exponentials of a block of rows. */
static void softmax_short_rows(enum kind k, const float *x, float *y, int64_t rows, int64_t n)
{
	const struct simd *s = simd();
	float e[BLOCK];

	for (int64_t r0 = 0, m; r0 < rows; r0 += m, x += m * n, y += m * n) {
		m = BLOCK / n < rows - r0 ? BLOCK / n : rows - r0;
		for (int64_t r = 0; r < m; r++) {
			const float *v = x + r * n;
			float max = s->max(v, n);
			for (int64_t i = 0; i < n; i++)
				e[r * n + i] = v[i] - max;
		}
		if (k == LOG_SOFTMAX)
			memcpy(y, e, (size_t)(m * n) * sizeof(*e));
		s->map[VF_EXP](e, e, m * n, NULL);
		for (int64_t r = 0; r < m; r++) {
			float *to = y + r * n, sum = s->sum(e + r * n, n);
			float by = k == SOFTMAX ? 1 / sum : logf(sum);
			if (k == SOFTMAX)
				for (int64_t i = 0; i < n; i++)
					to[i] = e[r * n + i] * by;
			else
				for (int64_t i = 0; i < n; i++)
					to[i] -= by;
		}
	}
}

/* Copies a line of elements, which are `inner` apart, to a dense row, computes there and copies back. */
static void softmax_gathered_line(const struct job *j, int64_t base, float *row)
{
	int64_t n = j->s.n, inner = j->s.inner;
	const float *x = (const float *)j->x + base;
	float *y = (float *)j->y + base;

	for (int64_t i = 0; i < n; i++)
		row[i] = x[i * inner];
	softmax_row_f32(j->kind, row, row, n);
	for (int64_t i = 0; i < n; i++)
		y[i * inner] = row[i];
}

/* Computes one line of doubles that are `step` apart. */
static void softmax_line_f64(enum kind k, const double *x, double *y, int64_t n, int64_t step)
{
	double max = x[0], sum = 0;
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++) {
		if (x[i * step] > max || isnan(x[i * step])) {
			best = isnan(max) ? best : i;
			max = isnan(max) ? max : x[i * step];
		}
	}
	for (int64_t i = 0; i < n && k != HARDMAX; i++)
		sum += exp(x[i * step] - max);
	for (int64_t i = 0; i < n; i++) {
		double v = x[i * step] - max;
		y[i * step] = k == SOFTMAX	 ? exp(v) / sum
			      : k == LOG_SOFTMAX ? v - log(sum)
						 : i == best;
	}
}

/*
 * Computes w adjacent columns of n rows, which are `inner` apart, in three passes over the rows: the
 * maximum of each column, the sum of its exponentials, and the results.
 */
static void softmax_columns(const struct job *j, int64_t base, int64_t w)
{
	const struct simd *s = simd();
	float max[COLUMNS_PER_TASK], sum[COLUMNS_PER_TASK], row[COLUMNS_PER_TASK];
	int64_t best[COLUMNS_PER_TASK] = {0}, n = j->s.n, inner = j->s.inner;

	simd_to_f32(j->t, j->x, base, w, max);
	for (int64_t k = 1; k < n; k++) {
		simd_to_f32(j->t, j->x, base + k * inner, w, row);
		if (j->kind == HARDMAX)
			for (int64_t i = 0; i < w; i++)
				best[i] = row[i] > max[i] || (isnan(row[i]) && !isnan(max[i]))
						  ? k
						  : best[i];
		s->bin[VB_MAX][DT_F32](max, row, max, w);
	}
	memset(sum, 0, sizeof(sum));
	for (int64_t k = 0; k < n && j->kind != HARDMAX; k++) {
		simd_to_f32(j->t, j->x, base + k * inner, w, row);
		s->bin[VB_SUB][DT_F32](row, max, row, w);
		s->map[VF_EXP](row, row, w, NULL);
		s->bin[VB_ADD][DT_F32](sum, row, sum, w);
		if (j->t == DT_F32 && j->kind == SOFTMAX)
			simd_from_f32(j->t, row, w, j->y, base + k * inner);
	}
	s->map[j->kind == LOG_SOFTMAX ? VF_LOG : VF_RECIPROCAL](sum, sum, w, NULL);
	for (int64_t k = 0; k < n; k++) {
		bool done = j->t == DT_F32 && j->kind == SOFTMAX;
		simd_to_f32(j->t, done ? j->y : j->x, base + k * inner, w, row);
		if (!done)
			s->bin[VB_SUB][DT_F32](row, max, row, w);
		if (j->kind == SOFTMAX && !done)
			s->map[VF_EXP](row, row, w, NULL);
		if (j->kind == HARDMAX)
			for (int64_t i = 0; i < w; i++)
				row[i] = best[i] == k;
		else
			s->bin[j->kind == LOG_SOFTMAX ? VB_SUB : VB_MUL][DT_F32](row, sum, row, w);
		simd_from_f32(j->t, row, w, j->y, base + k * inner);
	}
}

static void softmax_task(const struct job *j, int64_t task, int thread)
{
	int64_t n = j->s.n, inner = j->s.inner, o = task / j->blocks,
		c = task % j->blocks * COLUMNS_PER_TASK;
	int64_t base = o * n * inner + c,
		w = inner - c < COLUMNS_PER_TASK ? inner - c : COLUMNS_PER_TASK;
	float stack[MAX_STACK_ROW], *row = n <= MAX_STACK_ROW ? stack : j->scratch + thread * n;

	if (j->t == DT_F64) {
		for (int64_t i = 0; i < w; i++)
			softmax_line_f64(j->kind, (const double *)j->x + base + i,
					 (double *)j->y + base + i, n, inner);
	} else if (j->t == DT_F32 && inner > 1 && inner < MIN_COLUMNS && n <= MAX_STACK_ROW) {
		for (int64_t i = 0; i < w; i++)
			softmax_gathered_line(j, base + i, stack);
	} else if (inner > 1) {
		softmax_columns(j, base, w);
	} else if (j->t == DT_F32) {
		softmax_row_f32(j->kind, (const float *)j->x + base, (float *)j->y + base, n);
	} else {
		simd_to_f32(j->t, j->x, base, n, row);
		softmax_row_f32(j->kind, row, row, n);
		simd_from_f32(j->t, row, n, j->y, base);
	}
}

static void softmax_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;
	int64_t n = j->s.n;

	if (j->t == DT_F32 && j->s.inner == 1 && n <= MAX_SHORT_ROW && j->kind != HARDMAX) {
		softmax_short_rows(j->kind, (const float *)j->x + begin * n,
				   (float *)j->y + begin * n, end - begin, n);
		return;
	}
	for (int64_t k = begin; k < end; k++)
		softmax_task(j, k, thread);
}

static struct axis_split split_of(const struct shape *s, int64_t axis)
{
	return split_at(s, s->rank ? axis_of(axis, s->rank) : 0);
}

static int softmax_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct softmax *p = s->node->params;
	const struct vinfo *x = site_in(s, 0);
	struct axis_split a = split_of(&x->shape, p->axis);
	size_t bytes = 0;

	if (computes_in_f32(site_type(s, 0)) && a.inner == 1 && a.n > MAX_STACK_ROW &&
	    !size_mul((size_t)a.n * sizeof(float), (size_t)pool_threads(), &bytes))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = s->node->origin->op);
	step->workspace = bytes;
	if (s->node->op->variant != SOFTMAX_HARD)
		allow_inplace(step, 0, 0);
	return 0;
}

static int softmax_run(const struct call *c)
{
	const struct softmax *p = call_params(c);
	const struct tensor *x = c->in[0];
	char first = c->step->node->op->name[0];
	struct job j = {.kind = first == 'S'   ? SOFTMAX
				: first == 'L' ? LOG_SOFTMAX
					       : HARDMAX,
			.t = tensor_dtype(x),
			.x = x->data,
			.y = c->out[0]->data,
			.s = split_of(&x->shape, p->axis),
			.scratch = c->workspace};

	if (tensor_count(x) == 0)
		return 0;
	j.blocks = (j.s.inner + COLUMNS_PER_TASK - 1) / COLUMNS_PER_TASK;
	int64_t each = j.s.n * (j.s.inner < COLUMNS_PER_TASK ? j.s.inner : COLUMNS_PER_TASK);
	pool_for(j.s.outer * j.blocks, rows_grain(GRAIN_HEAVY, each), softmax_piece, &j);
	return 0;
}

#define KERNEL(name)                                                                               \
	{                                                                                          \
		.op = (name), .flags = K_REFERENCE, .reshape = softmax_reshape, .run = softmax_run \
	}

const struct kernel cpu_softmax[] = {KERNEL("Softmax"), KERNEL("LogSoftmax"), KERNEL("Hardmax"), {0}};
