/* SPDX-License-Identifier: Apache-2.0 */
/* CumSum and CumProd. */
#include "cpu/reduce.h"
#include "cpu/math/util.h"
#include "ops/reduce.h"

#include <string.h>

struct cum_job {
	enum dtype t;
	const void *x;
	void *y;
	struct axis_split s;
	bool exclusive, reverse, prod;
};

/*
 * Computes the cumulative sum or product for outer index o of a tensor seen as [outer, n, inner], with n along the
 * axis. If inner is 1 the running value stays in a register; otherwise each output row of `inner` elements is computed
 * from the row before. U is the type of the arithmetic: unsigned for integers, so that they wrap.
 */
#define CUM(t, T, U)                                                                               \
	static void cum_##t(const struct cum_job *j, int64_t o)                                    \
	{                                                                                          \
		int64_t n = j->s.n, inner = j->s.inner, step = j->reverse ? -inner : inner;        \
		int64_t at_ = o * n * inner + (j->reverse ? (n - 1) * inner : 0);                  \
		const T *x = (const T *)j->x + at_;                                                \
		T *y = (T *)j->y + at_, one = j->prod ? 1 : 0, sum = one;                          \
		for (int64_t k = 0; k < n && inner == 1; k++, x += step, y += step) {              \
			T v = *x, next = (T)(j->prod ? (U)((U)sum * (U)v) : (U)((U)sum + (U)v));   \
			*y = j->exclusive ? sum : next;                                            \
			sum = next;                                                                \
		}                                                                                  \
		if (inner == 1)                                                                    \
			return;                                                                    \
		for (int64_t k = 0; k < n; k++, x += step, y += step) {                            \
			const T *before = y - step, *add = j->exclusive ? x - step : x;            \
			for (int64_t i = 0; i < inner; i++) {                                      \
				T a = k ? before[i] : one, b = one;                                \
				if (k || !j->exclusive)                                            \
					b = add[i];                                                \
				y[i] = (T)(j->prod ? (U)((U)a * (U)b) : (U)((U)a + (U)b));         \
			}                                                                          \
		}                                                                                  \
	}
CUM(f32, float, float)
CUM(f64, double, double)
CUM(i32, int32_t, uint32_t)
CUM(u32, uint32_t, uint32_t)
CUM(i64, int64_t, uint64_t)
CUM(u64, uint64_t, uint64_t)

/* Serves narrow float types. The running value stays in fp32, so that each output is rounded only once. */
static void cum_narrow(const struct cum_job *j, int64_t o)
{
	int64_t n = j->s.n, inner = j->s.inner;

	for (int64_t i = 0; i < inner; i++) {
		float sum = j->prod ? 1 : 0;
		for (int64_t k = 0; k < n; k++) {
			int64_t at_ = (o * n + (j->reverse ? n - 1 - k : k)) * inner + i;
			float v = (float)elem_f64(j->t, j->x, at_),
			      next = j->prod ? sum * v : sum + v;
			elem_set_f64(j->t, j->y, at_, (double)(j->exclusive ? sum : next));
			sum = next;
		}
	}
}

static void cum_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	static void (*const f[DT_COUNT])(const struct cum_job *, int64_t) = {
		[DT_F32] = cum_f32, [DT_F64] = cum_f64, [DT_I32] = cum_i32,
		[DT_U32] = cum_u32, [DT_I64] = cum_i64, [DT_U64] = cum_u64,
	};
	const struct cum_job *j = arg;

	(void)thread;
	for (int64_t o = begin; o < end; o++)
		(f[j->t] ? f[j->t] : cum_narrow)(j, o);
}

int cumulate_run(const struct call *c)
{
	const struct cumulate *p = call_params(c);
	const struct tensor *x = c->in[0], *a = c->in[1];
	int64_t which = tensor_count(a) == 1 ? elem_i64(tensor_dtype(a), a->data, 0) : INT64_MAX;
	int axis = axis_of(which, x->shape.rank);
	struct cum_job j = {.t = tensor_dtype(x),
			    .x = x->data,
			    .y = c->out[0]->data,
			    .exclusive = p->exclusive != 0,
			    .reverse = p->reverse != 0,
			    .prod = c->step->node->op->variant == CUMULATE_PRODUCT};

	if (!x->shape.rank && (which == 0 || which == -1))
		axis = 0;
	if (axis < 0)
		return call_fail(c, E_VALUE, fmt(c->diag, "one axis within rank %d", x->shape.rank),
				 fmt(c->diag, "%" PRId64, which));
	j.s = split_at(&x->shape, axis);
	if (tensor_count(x) > 0)
		pool_for(j.s.outer, rows_grain(GRAIN, j.s.n * j.s.inner), cum_piece, &j);
	return 0;
}
