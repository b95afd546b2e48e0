/* SPDX-License-Identifier: Apache-2.0 */
/* ArgMax and ArgMin. */
#include "cpu/reduce.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "ops/reduce.h"

#include <math.h>
#include <string.h>

struct arg_job {
	enum dtype t;
	const void *x;
	int64_t *y;
	struct axis_split s;
	bool min, last;
};

/*
 * Returns whether value b replaces value a as the extremum. As in numpy, NaN ranks before every number. If `last`, the
 * last of several equal elements wins.
 */
static inline bool replaces_best(double a, double b, bool min, bool last)
{
	if (isnan(a))
		return last && isnan(b);
	if (isnan(b))
		return true;
	return min ? b < a || (last && b == a) : b > a || (last && b == a);
}

#define ARG_INT(t, T)                                                                              \
	static int64_t arg_row_##t(const struct arg_job *j, const T *x)                            \
	{                                                                                          \
		T best = x[0];                                                                     \
		int64_t at_ = 0, n = j->s.n;                                                       \
		for (int64_t k = 1; k < n; k++)                                                    \
			best = (j->min ? x[k] < best : x[k] > best) ? x[k] : best;                 \
		if (j->last)                                                                       \
			for (at_ = n - 1; x[at_] != best; at_--)                                   \
				;                                                                  \
		else                                                                               \
			while (x[at_] != best)                                                     \
				at_++;                                                             \
		return at_;                                                                        \
	}                                                                                          \
	static void arg_##t(const struct arg_job *j, int64_t o)                                    \
	{                                                                                          \
		int64_t inner = j->s.inner;                                                        \
		const T *x = (const T *)j->x + o * j->s.n * inner;                                 \
		int64_t *y = j->y + o * inner;                                                     \
		if (inner == 1) {                                                                  \
			*y = arg_row_##t(j, x);                                                    \
			return;                                                                    \
		}                                                                                  \
		for (int64_t i = 0; i < inner; i++)                                                \
			y[i] = 0;                                                                  \
		for (int64_t k = 1; k < j->s.n; k++) {                                             \
			for (int64_t i = 0; i < inner; i++) {                                      \
				T a = x[y[i] * inner + i], b = x[k * inner + i];                   \
				bool take = j->min ? b < a : b > a;                                \
				y[i] = take || (j->last && a == b) ? k : y[i];                     \
			}                                                                          \
		}                                                                                  \
	}
ARG_INT(i8, int8_t)
ARG_INT(u8, uint8_t)
ARG_INT(i16, int16_t)
ARG_INT(u16, uint16_t)
ARG_INT(i32, int32_t)
ARG_INT(u32, uint32_t)
ARG_INT(i64, int64_t)
ARG_INT(u64, uint64_t)

static void (*const arg_ints[DT_COUNT])(const struct arg_job *, int64_t) = {
	[DT_I8] = arg_i8,   [DT_U8] = arg_u8,	[DT_I16] = arg_i16, [DT_U16] = arg_u16,
	[DT_I32] = arg_i32, [DT_U32] = arg_u32, [DT_I64] = arg_i64, [DT_U64] = arg_u64,
};

/* Index of the extremum of a dense row of fp32: SIMD finds the value, then a second pass finds its position. */
static int64_t arg_row_f32(const struct arg_job *j, const float *x, int64_t n)
{
	float m = j->min ? simd()->min(x, n) : simd()->max(x, n);

	if (j->last) {
		for (int64_t i = n - 1; i > 0; i--)
			if (x[i] == m || (isnan(m) && isnan(x[i])))
				return i;
		return 0;
	}
	for (int64_t i = 0; i < n; i++)
		if (x[i] == m || (isnan(m) && isnan(x[i])))
			return i;
	return 0;
}

/*
 * Views the tensor as [outer, n, inner], with n along the axis. For outer index o, finds the row index of the extremum
 * of each of the `inner` columns. Serves the types that are computed in fp32.
 */
static void arg_columns(const struct arg_job *j, int64_t o)
{
	enum { WIDTH = 256 };
	float best[WIDTH], row[WIDTH];
	int64_t inner = j->s.inner, base = o * j->s.n * inner;

	for (int64_t c = 0, w; c < inner; c += w) {
		int64_t *y = j->y + o * inner + c;
		w = inner - c < WIDTH ? inner - c : WIDTH;
		simd_to_f32(j->t, j->x, base + c, w, best);
		memset(y, 0, (size_t)w * sizeof(*y));
		for (int64_t k = 1; k < j->s.n; k++) {
			simd_to_f32(j->t, j->x, base + k * inner + c, w, row);
			for (int64_t i = 0; i < w; i++) {
				bool take = (j->min ? row[i] < best[i] : row[i] > best[i]) ||
					    (isnan(row[i]) && !isnan(best[i])) ||
					    (j->last && (row[i] == best[i] ||
							 (isnan(row[i]) && isnan(best[i]))));
				take &= !isnan(best[i]) || (j->last && isnan(row[i]));
				best[i] = take ? row[i] : best[i];
				y[i] = take ? k : y[i];
			}
		}
	}
}

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));

enum { ARG_WIDTH = 256, ARG_LANES = 4 }; /* number of columns of a task, and of a SIMD vector */

/*
 * Writes to y the row index of the extremum of each of w fp32 columns; the first column begins at x. w must be a
 * multiple of ARG_LANES. As in numpy, NaN ranks before every number.
 */
static void arg_columns_simd(const struct arg_job *j, const float *x, int64_t w, int64_t *y)
{
	v4f best[ARG_WIDTH / ARG_LANES], v;
	v4i where[ARG_WIDTH / ARG_LANES] = {{0}};
	int32_t rows[ARG_WIDTH];

	memcpy(best, x, (size_t)w * sizeof(float));
	for (int64_t k = 1; k < j->s.n; k++) {
		const float *from = x + k * j->s.inner;
		v4i row = {(int32_t)k, (int32_t)k, (int32_t)k, (int32_t)k};
		for (int64_t i = 0; i < w / ARG_LANES; i++, from += ARG_LANES) {
			memcpy(&v, from, sizeof(v));
			v4i none = v != v, over = best[i] != best[i];
			v4i take = ((j->min ? v < best[i] : v > best[i]) | none) & ~over;
			if (j->last)
				take |= (v == best[i]) | (none & over);
			best[i] = (v4f)(((v4i)v & take) | ((v4i)best[i] & ~take));
			where[i] = (row & take) | (where[i] & ~take);
		}
	}
	memcpy(rows, where, (size_t)w * sizeof(*rows));
	for (int64_t i = 0; i < w; i++)
		y[i] = rows[i];
}

/* Handles the blocks begin..end-1. A block is at most ARG_WIDTH neighboring columns of one outer index. */
static void arg_column_blocks(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct arg_job *j = arg;
	int64_t inner = j->s.inner, blocks = (inner + ARG_WIDTH - 1) / ARG_WIDTH;

	(void)thread;
	for (int64_t b = begin; b < end; b++) {
		int64_t o = b / blocks, c = b % blocks * ARG_WIDTH;
		int64_t w = inner - c < ARG_WIDTH ? inner - c : ARG_WIDTH;
		arg_columns_simd(j, (const float *)j->x + o * j->s.n * inner + c, w,
				 j->y + o * inner + c);
	}
}

static void arg_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct arg_job *j = arg;
	int64_t n = j->s.n, inner = j->s.inner;

	(void)thread;
	for (int64_t o = begin; o < end; o++) {
		if (arg_ints[j->t]) {
			arg_ints[j->t](j, o);
		} else if (j->t == DT_F32 && inner == 1) {
			j->y[o] = arg_row_f32(j, (const float *)j->x + o * n, n);
		} else if (j->t == DT_F32 || computes_in_f32(j->t)) {
			arg_columns(j, o);
		} else {
			for (int64_t i = 0; i < inner; i++) {
				int64_t at_ = o * n * inner + i, best = 0;
				for (int64_t k = 1; k < n; k++)
					if (replaces_best(elem_f64(j->t, j->x, at_ + best * inner),
							  elem_f64(j->t, j->x, at_ + k * inner),
							  j->min, j->last))
						best = k;
				j->y[o * inner + i] = best;
			}
		}
	}
}

int arg_reduce_run(const struct call *c)
{
	const struct arg_reduce *p = call_params(c);
	const struct tensor *x = c->in[0];
	int axis = x->shape.rank ? axis_of(p->axis, x->shape.rank) : 0;
	struct arg_job j = {tensor_dtype(x),
			    x->data,
			    c->out[0]->data,
			    split_at(&x->shape, axis),
			    c->step->node->op->variant == ARG_MIN,
			    p->select_last_index != 0};

	if (tensor_count(c->out[0]) == 0)
		return 0;
	if (j.s.n == 0)
		return call_fail(c, E_SHAPE, "elements along the axis", "none");
	if (j.t == DT_F32 && j.s.inner > 1 && j.s.inner % ARG_LANES == 0 && j.s.n < INT32_MAX)
		pool_for(j.s.outer * ((j.s.inner + ARG_WIDTH - 1) / ARG_WIDTH),
			 rows_grain(GRAIN, j.s.n * (j.s.inner < ARG_WIDTH ? j.s.inner : ARG_WIDTH)),
			 arg_column_blocks, &j);
	else
		pool_for(j.s.outer, rows_grain(GRAIN, j.s.n * j.s.inner), arg_piece, &j);
	return 0;
}
