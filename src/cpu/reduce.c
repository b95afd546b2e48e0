/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions. Neighbouring dimensions are merged until kept and reduced dimensions alternate. If the
 * last dimension is reduced, each output sums over contiguous runs; if it is kept, whole rows are
 * added to rows of accumulators. If there are too few outputs to occupy all threads, the outermost
 * reduced dimension is split, and the partial results are combined in a fixed order, so that the
 * result does not depend on which thread finishes first.
 */
#include "cpu/reduce.h"

#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "ops/reduce.h"

#include <math.h>
#include <string.h>

enum kind { A_SUM, A_ABS, A_SQUARE, A_PROD, A_MAX, A_MIN, A_EXP };
enum {
	MAX_COLUMNS = 512, /* maximum number of outputs of one task if the last dimension is kept */
	FLUSH_ROWS = 128, /* rows summed in fp32 before the sum is added to the double accumulator */
	MAX_PARTS = 4096, /* maximum number of partial results that the workspace holds */
	MAX_SPLIT = 64,	  /* maximum number of tasks after splitting the reduced range */
	SMALL_ROW = 48,	  /* rows of at most this many elements are summed by a plain loop */
};

union acc {
	double d;
	int64_t i;
};

struct reduction {
	const char *op;
	enum kind kind;
	bool mean, root, log;
};
static const struct reduction reductions[] = {
	{"ReduceSum", A_SUM, false, false, false},
	{"ReduceMean", A_SUM, true, false, false},
	{"ReduceMax", A_MAX, false, false, false},
	{"ReduceMin", A_MIN, false, false, false},
	{"ReduceProd", A_PROD, false, false, false},
	{"ReduceL1", A_ABS, false, false, false},
	{"ReduceL2", A_SQUARE, false, true, false},
	{"ReduceSumSquare", A_SQUARE, false, false, false},
	{"ReduceLogSum", A_SUM, false, false, true},
	{"ReduceLogSumExp", A_EXP, false, false, true},
};

struct loops;

struct plan {
	const struct reduction *r;
	const struct loops *loops;
	const struct simd *simd;
	enum dtype t;
	/* reduction of the current phase; a first phase of A_EXP uses A_MAX to find the maximum */
	enum kind kind;
	const void *x;
	void *y;
	int nk, nr; /* number of kept and of reduced dimensions */
	/* kept dimensions, outermost first; the last dimension of the shape is never included */
	int64_t kdim[MAX_RANK], kstep[MAX_RANK];
	int64_t rdim[MAX_RANK], rstep[MAX_RANK]; /* reduced dimensions, outermost first */
	bool inner_kept;			 /* the last dimension of the shape is kept */
	int64_t inner;				 /* size of the last dimension of the shape */
	int64_t outputs;			 /* number of output elements */
	int64_t count;				 /* input elements per output */
	int64_t splits, blocks, columns;
	bool small; /* every output reduces one dense row of at most SMALL_ROW fp32 elements */
	/* partial results [splits, outputs], or NULL if outputs are written directly */
	union acc *part;
	const double *max; /* the maximum of each output, for A_EXP with splits; otherwise NULL */
};

/*
 * The inner loops for one element type. `run` reduces n contiguous elements into one accumulator;
 * `rows` reduces rows of n elements into n accumulators, element by element.
 */
struct loops {
	void (*run)(const struct plan *p, int64_t off, int64_t n, double max, union acc *a);
	void (*rows)(const struct plan *p, int64_t off, int64_t rows, int64_t step, int64_t n,
		     const double *max, union acc *a);
	bool whole; /* the accumulators are integers (member i), not doubles (member d) */
};

/* ---- fp32 and narrower floats, which are computed in fp32 ------------------------------------ */

static inline double combine(enum kind k, double a, double b)
{
	if (k == A_PROD)
		return a * b;
	if (k == A_MAX)
		return a > b || isnan(a) ? a : b;
	if (k == A_MIN)
		return a < b || isnan(a) ? a : b;
	return a + b;
}

/*
 * Returns n elements from offset off as fp32: a pointer into x if x is fp32, or else the elements
 * converted into buf, where n must be at most BLOCK.
 */
static const float *load_f32(const struct plan *p, int64_t off, int64_t n, float *buf)
{
	if (p->t == DT_F32)
		return (const float *)p->x + off;
	simd_to_f32(p->t, p->x, off, n, buf);
	return buf;
}

static double reduce_f32(const struct plan *p, const float *x, int64_t n, double max)
{
	const struct simd *s = p->simd;

	switch (p->kind) {
	case A_SUM: return (double)s->sum(x, n);
	case A_ABS: return (double)s->sum_abs(x, n);
	case A_SQUARE: return (double)s->sum_square(x, n);
	case A_PROD: return s->product(x, n);
	case A_MAX: return (double)s->max(x, n);
	case A_MIN: return (double)s->min(x, n);
	case A_EXP: return (double)s->sum_exp(x, n, (float)max);
	}
	return 0;
}

static void f32_run(const struct plan *p, int64_t off, int64_t n, double max, union acc *a)
{
	float buf[BLOCK];
	int64_t most = p->t == DT_F32 ? 1 << 16 : BLOCK;

	for (int64_t m; n > 0; off += m, n -= m) {
		m = n < most ? n : most;
		const float *x = load_f32(p, off, m, buf);
		a->d = combine(p->kind, a->d, reduce_f32(p, x, m, max));
	}
}

/*
 * Returns the terms that the elements x of a row contribute to the accumulators: either x itself,
 * or |x|, x^2 or exp(x - max), which are written to buf.
 */
static const float *row_terms(const struct plan *p, const float *x, int64_t n, const float *max,
			      float *buf)
{
	const struct simd *s = p->simd;

	if (p->kind == A_ABS) {
		s->map[VF_ABS](x, buf, n, NULL);
	} else if (p->kind == A_SQUARE) {
		s->map[VF_SQUARE](x, buf, n, NULL);
	} else if (p->kind == A_EXP) {
		s->bin[VB_SUB][DT_F32](x, max, buf, n);
		s->map[VF_EXP](buf, buf, n, NULL);
	} else {
		return x;
	}
	return buf;
}

static void f32_rows(const struct plan *p, int64_t off, int64_t rows, int64_t step, int64_t n,
		     const double *max, union acc *a)
{
	static const enum vbin bins[] = {
		[A_SUM] = VB_ADD, [A_ABS] = VB_ADD, [A_SQUARE] = VB_ADD, [A_PROD] = VB_MUL,
		[A_MAX] = VB_MAX, [A_MIN] = VB_MIN, [A_EXP] = VB_ADD};
	simd_bin *add = p->simd->bin[bins[p->kind]][DT_F32];
	float sum[MAX_COLUMNS], buf[MAX_COLUMNS], term[MAX_COLUMNS], fmax_[MAX_COLUMNS];

	for (int64_t i = 0; max && i < n; i++)
		fmax_[i] = (float)max[i];
	for (int64_t r = 0; r < rows;) {
		int64_t stop = r + FLUSH_ROWS < rows ? r + FLUSH_ROWS : rows;
		const float *x = row_terms(p, load_f32(p, off + r * step, n, buf), n, fmax_, term);
		memcpy(sum, x, (size_t)n * sizeof(float));
		for (r++; r < stop; r++) {
			x = row_terms(p, load_f32(p, off + r * step, n, buf), n, fmax_, term);
			add(sum, x, sum, n);
		}
		for (int64_t i = 0; i < n; i++)
			a[i].d = combine(p->kind, a[i].d, (double)sum[i]);
	}
}

/* ---- f64 ------------------------------------------------------------------------------------- */

static inline double term_f64(enum kind k, double v, double max)
{
	return k == A_ABS ? fabs(v) : k == A_SQUARE ? v * v : k == A_EXP ? exp(v - max) : v;
}

static void f64_run(const struct plan *p, int64_t off, int64_t n, double max, union acc *a)
{
	const double *x = (const double *)p->x + off;
	double s[4] = {a->d, 0, 0, 0};
	int64_t i = 0;

	if (p->kind == A_SUM || p->kind == A_ABS || p->kind == A_SQUARE) {
		for (; i + 4 <= n; i += 4)
			for (int k = 0; k < 4; k++)
				s[k] += term_f64(p->kind, x[i + k], 0);
		s[0] = (s[0] + s[1]) + (s[2] + s[3]);
	}
	for (; i < n; i++)
		s[0] = combine(p->kind, s[0], term_f64(p->kind, x[i], max));
	a->d = s[0];
}

static void f64_rows(const struct plan *p, int64_t off, int64_t rows, int64_t step, int64_t n,
		     const double *max, union acc *a)
{
	for (int64_t r = 0; r < rows; r++) {
		const double *x = (const double *)p->x + off + r * step;
		if (p->kind == A_SUM)
			for (int64_t i = 0; i < n; i++)
				a[i].d += x[i];
		else
			for (int64_t i = 0; i < n; i++)
				a[i].d = combine(p->kind, a[i].d,
						 term_f64(p->kind, x[i], max ? max[i] : 0));
	}
}

/* ---- integers -------------------------------------------------------------------------------- */

/* Adds or multiplies element V into accumulator ACC; unsigned arithmetic makes overflow wrap. */
#define INT_STEP(k, T, ACC, V)                                                                     \
	((k) == A_SUM ? (int64_t)((uint64_t)(ACC) + (uint64_t)(V))                                 \
	 : (k) == A_ABS                                                                            \
		 ? (int64_t)((uint64_t)(ACC) + ((V) <= 0 ? 0 - (uint64_t)(V) : (uint64_t)(V)))     \
	 : (k) == A_SQUARE ? (int64_t)((uint64_t)(ACC) + (uint64_t)(V) * (uint64_t)(V))            \
			   : (int64_t)((uint64_t)(ACC) * (uint64_t)(V)))
#define INT_CASES(T, BODY)                                                                         \
	switch (p->kind) {                                                                         \
	case A_SUM: BODY(A_SUM, T) break;                                                          \
	case A_ABS: BODY(A_ABS, T) break;                                                          \
	case A_SQUARE: BODY(A_SQUARE, T) break;                                                    \
	case A_PROD: BODY(A_PROD, T) break;                                                        \
	case A_MAX: {                                                                              \
		BODY##_MOST(T, >)                                                                  \
	} break;                                                                                   \
	case A_MIN:                                                                                \
	case A_EXP: {                                                                              \
		BODY##_MOST(T, <)                                                                  \
	} break;                                                                                   \
	}
/* Compares in the element type T, not in int64, because vector compares of T are faster. */
#define INT_RUN_MOST(T, OP)                                                                        \
	T m = (T)s;                                                                                \
	for (int64_t i = 0; i < n; i++)                                                            \
		m = m OP x[i] ? m : x[i];                                                          \
	s = (int64_t)m;
#define INT_ROW_MOST(T, OP)                                                                        \
	for (int64_t i = 0; i < n; i++)                                                            \
		a[i].i = (T)a[i].i OP x[i] ? a[i].i : (int64_t)x[i];
#define INT_RUN(k, T)                                                                              \
	for (int64_t i = 0; i < n; i++)                                                            \
		s = INT_STEP(k, T, s, x[i]);
#define INT_ROW(k, T)                                                                              \
	for (int64_t i = 0; i < n; i++)                                                            \
		a[i].i = INT_STEP(k, T, a[i].i, x[i]);
#define INT_LOOPS(t, T)                                                                             \
	static void t##_run(const struct plan *p, int64_t off, int64_t n, double max, union acc *a) \
	{                                                                                           \
		const T *x = (const T *)p->x + off;                                                 \
		int64_t s = a->i;                                                                   \
		(void)max;                                                                          \
		INT_CASES(T, INT_RUN)                                                               \
		a->i = s;                                                                           \
	}                                                                                           \
	static void t##_rows(const struct plan *p, int64_t off, int64_t rows, int64_t step,         \
			     int64_t n, const double *max, union acc *a)                            \
	{                                                                                           \
		(void)max;                                                                          \
		for (int64_t r = 0; r < rows; r++) {                                                \
			const T *x = (const T *)p->x + off + r * step;                              \
			INT_CASES(T, INT_ROW)                                                       \
		}                                                                                   \
	}
INT_LOOPS(i8, int8_t)
INT_LOOPS(u8, uint8_t)
INT_LOOPS(i32, int32_t)
INT_LOOPS(u32, uint32_t)
INT_LOOPS(i64, int64_t)
INT_LOOPS(u64, uint64_t)

/* Reduces all other types, and exponentials of integers, element by element in double. */
static void any_run(const struct plan *p, int64_t off, int64_t n, double max, union acc *a)
{
	for (int64_t i = 0; i < n; i++)
		a->d = combine(p->kind, a->d, term_f64(p->kind, elem_f64(p->t, p->x, off + i), max));
}
static void any_rows(const struct plan *p, int64_t off, int64_t rows, int64_t step, int64_t n,
		     const double *max, union acc *a)
{
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < n; i++)
			any_run(p, off + r * step + i, 1, max ? max[i] : 0, &a[i]);
}

static const struct loops loops_f32 = {f32_run, f32_rows, false};
static const struct loops loops_f64 = {f64_run, f64_rows, false};
static const struct loops loops_any = {any_run, any_rows, false};
static const struct loops loops_int[DT_COUNT] = {
	[DT_I8] = {i8_run, i8_rows, true},    [DT_U8] = {u8_run, u8_rows, true},
	[DT_BOOL] = {u8_run, u8_rows, true},  [DT_I32] = {i32_run, i32_rows, true},
	[DT_U32] = {u32_run, u32_rows, true}, [DT_I64] = {i64_run, i64_rows, true},
	[DT_U64] = {u64_run, u64_rows, true},
};

static const struct loops *choose_loops(enum dtype t, enum kind k)
{
	if (computes_in_f32(t) || t == DT_F32)
		return &loops_f32;
	if (t == DT_F64)
		return &loops_f64;
	if (k != A_EXP && loops_int[t].run)
		return &loops_int[t];
	return &loops_any;
}

/* ---- the driver ------------------------------------------------------------------------------ */

static union acc start_value(const struct plan *p)
{
	union acc a = {.d = 0};
	unsigned bits = dtype_bits(p->t);
	bool sign = dtype_class(p->t) == DT_INT;

	if (!p->loops->whole) {
		a.d = p->kind == A_PROD	 ? 1
		      : p->kind == A_MAX ? -(double)INFINITY
		      : p->kind == A_MIN ? (double)INFINITY
					 : 0;
		return a;
	}
	a.i = p->kind == A_PROD;
	if (p->kind == A_MAX)
		a.i = sign ? INT64_MIN >> (64 - bits) : 0;
	if (p->kind == A_MIN)
		a.i = sign ? INT64_MAX >> (64 - bits) : (int64_t)(UINT64_MAX >> (64 - bits));
	if (p->kind == A_MIN && p->t == DT_BOOL)
		a.i = 1;
	return a;
}

/* Offset of element k of a grid with sizes `dim` and strides `step`. */
static int64_t offset_at(const int64_t *dim, const int64_t *step, int n, int64_t k)
{
	int64_t off = 0;

	for (int i = n - 1; i >= 0; i--) {
		off += k % dim[i] * step[i];
		k /= dim[i];
	}
	return off;
}

static int64_t product_of(const int64_t *dim, int n)
{
	int64_t r = 1;

	for (int i = 0; i < n; i++)
		r *= dim[i];
	return r;
}

/*
 * Returns the maximum to subtract in exp(x - max). An infinite maximum is replaced by 0, because
 * inf - inf is NaN.
 */
static double finite_max(double max)
{
	return isinf(max) ? 0 : max;
}

static void store_result(const struct plan *p, int64_t o, union acc a, double max)
{
	const struct reduction *r = p->r;

	if (p->loops->whole && !r->root && !r->log) {
		int64_t v = a.i;
		if (r->mean && p->t == DT_U64)
			v = p->count ? (int64_t)((uint64_t)v / (uint64_t)p->count) : 0;
		else if (r->mean)
			v = p->count ? v / p->count : 0;
		elem_set_i64(p->t, p->y, o, v);
		return;
	}
	double d = !p->loops->whole ? a.d : p->t == DT_U64 ? (double)(uint64_t)a.i : (double)a.i;
	if (r->mean)
		d /= (double)p->count;
	if (r->root)
		d = sqrt(d);
	if (r->log)
		d = log(d);
	if (r->kind == A_EXP)
		d += max;
	elem_set_f64(p->t, p->y, o, d);
}

/* Combines two partial results. */
static union acc combine_acc(const struct plan *p, union acc a, union acc b)
{
	if (!p->loops->whole)
		a.d = combine(p->kind, a.d, b.d);
	else if (p->kind == A_PROD)
		a.i = (int64_t)((uint64_t)a.i * (uint64_t)b.i);
	else if (p->kind != A_MAX && p->kind != A_MIN)
		a.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i);
	else if ((p->kind == A_MAX) != (p->t == DT_U64 ? (uint64_t)a.i > (uint64_t)b.i : a.i > b.i))
		a = b;
	return a;
}

static void keep_or_store(const struct plan *p, int64_t o, int64_t split, union acc a, double max)
{
	if (p->part)
		p->part[split * p->outputs + o] = a;
	else
		store_result(p, o, a, max);
}

/*
 * Cuts the range 0..whole-1 into p->splits parts, and sets *from and *to so that *from..*to-1 is
 * part number `split`.
 */
static void split_range(const struct plan *p, int64_t split, int64_t whole, int64_t *from, int64_t *to)
{
	*from = whole * split / p->splits;
	*to = whole * (split + 1) / p->splits;
}

/*
 * Reduces part number `split` of the runs of one output into *a. A run consists of the elements
 * along the last reduced dimension; the other reduced dimensions number the runs.
 */
static void reduce_runs(const struct plan *p, int64_t base, int64_t split, double max, union acc *a)
{
	int64_t from, to, runs = product_of(p->rdim, p->nr - 1);

	if (p->nr == 1) { /* there is a single run, so that run itself is split */
		split_range(p, split, p->inner, &from, &to);
		p->loops->run(p, base + from, to - from, max, a);
		return;
	}
	split_range(p, split, runs, &from, &to);
	if (p->nr == 2 && p->t == DT_F32) {
		/* the runs may be many and short, so avoid an indirect call for each */
		double d = a->d;
		const float *x = (const float *)p->x + base;
		for (int64_t k = from; k < to; k++)
			d = combine(p->kind, d, reduce_f32(p, x + k * p->rstep[0], p->inner, max));
		a->d = d;
		return;
	}
	for (int64_t k = from; k < to; k++)
		p->loops->run(p, base + offset_at(p->rdim, p->rstep, p->nr - 1, k), p->inner, max, a);
}

/* Computes output o when the last dimension is reduced. */
static void reduce_one_output(const struct plan *p, int64_t o, int64_t split)
{
	int64_t base = offset_at(p->kdim, p->kstep, p->nk, o);
	double max = p->max ? p->max[o] : 0;
	union acc a = start_value(p);

	if (p->kind == A_EXP && !p->max) {
		struct plan q = *p;
		union acc m;
		q.kind = A_MAX;
		q.max = NULL;
		m = start_value(&q);
		reduce_runs(&q, base, split, 0, &m);
		max = finite_max(m.d);
	}
	reduce_runs(p, base, split, max, &a);
	keep_or_store(p, o, split, a, max);
}

static void combine_rows(const struct plan *p, union acc *a, const union acc *b, int64_t n)
{
	if (!p->loops->whole && p->kind != A_PROD && p->kind != A_MAX && p->kind != A_MIN)
		for (int64_t i = 0; i < n; i++)
			a[i].d += b[i].d;
	else
		for (int64_t i = 0; i < n; i++)
			a[i] = combine_acc(p, a[i], b[i]);
}

/*
 * Reduces rows of n columns, starting at offset base, into a[0..n). Because loops over short rows
 * are slow, `fold` short dense rows at a time are handled as one long row, and the parts of the
 * long row are combined at the end.
 */
static void reduce_rows(const struct plan *p, int64_t base, int64_t n, int64_t split,
			const double *max, union acc *a)
{
	int64_t last = p->nr - 1, from = 0, to = 1, outer = product_of(p->rdim, p->nr - 1);
	int64_t row0 = 0, row1 = p->rdim[last], step = p->rstep[last];
	int64_t fold = n == p->inner && step == n && n < MAX_COLUMNS / 4 && p->kind != A_EXP
			       ? MAX_COLUMNS / n
			       : 1;
	union acc wide[MAX_COLUMNS], start = start_value(p);

	if (p->nr > 1)
		split_range(p, split, outer, &from, &to);
	else
		split_range(p, split, p->rdim[0], &row0, &row1);
	for (int64_t k = from; k < to; k++) {
		int64_t off = base + offset_at(p->rdim, p->rstep, p->nr - 1, k) + row0 * step;
		int64_t rows = row1 - row0, folded = fold > 1 ? rows / fold : 0;
		if (folded) {
			for (int64_t i = 0; i < fold * n; i++)
				wide[i] = start;
			p->loops->rows(p, off, folded, fold * step, fold * n, NULL, wide);
			for (int64_t f = 0; f < fold; f++)
				combine_rows(p, a, wide + f * n, n);
		}
		if (rows > folded * fold)
			p->loops->rows(p, off + folded * fold * step, rows - folded * fold, step, n,
				       max, a);
	}
}

/*
 * Computes one block of outputs when the last dimension is kept: up to `columns` outputs along that
 * dimension.
 */
static void compute_output_block(const struct plan *p, int64_t task, int64_t split)
{
	int64_t row = task / p->blocks, c = task % p->blocks * p->columns;
	int64_t n = p->inner - c < p->columns ? p->inner - c : p->columns;
	int64_t base = offset_at(p->kdim, p->kstep, p->nk, row) + c, o = row * p->inner + c;
	union acc a[MAX_COLUMNS], start = start_value(p);
	double max[MAX_COLUMNS];

	if (p->kind == A_EXP) {
		struct plan q = *p;
		q.kind = A_MAX;
		for (int64_t i = 0; i < n; i++)
			a[i] = start_value(&q);
		if (!p->max)
			reduce_rows(&q, base, n, split, NULL, a);
		for (int64_t i = 0; i < n; i++)
			max[i] = p->max ? p->max[o + i] : finite_max(a[i].d);
	}
	for (int64_t i = 0; i < n; i++)
		a[i] = start;
	reduce_rows(p, base, n, split, max, a);
	for (int64_t i = 0; i < n; i++)
		keep_or_store(p, o + i, split, a[i], p->kind == A_EXP ? max[i] : 0);
}

/*
 * Reduces short dense fp32 rows one by one. The computations of different rows do not depend on
 * each other, so the processor works on several rows at once.
 */
#define SMALL_ROWS(START, STEP)                                                                    \
	for (int64_t o = begin; o < end; o++) {                                                    \
		const float *x = (const float *)p->x + o * n;                                      \
		float s = (START);                                                                 \
		for (int64_t i = 0; i < n; i++)                                                    \
			s = (STEP);                                                                \
		store_small(p, o, s);                                                              \
	}

static inline void store_small(const struct plan *p, int64_t o, float s)
{
	double d = (double)s;

	if (p->r->mean)
		d /= (double)p->count;
	if (p->r->root)
		d = sqrt(d);
	if (p->r->log)
		d = log(d);
	((float *)p->y)[o] = (float)d;
}

static void reduce_small_rows(const struct plan *p, int64_t begin, int64_t end)
{
	int64_t n = p->inner;

	switch (p->kind) {
	case A_SUM: SMALL_ROWS(0, s + x[i]) break;
	case A_ABS: SMALL_ROWS(0, s + fabsf(x[i])) break;
	case A_SQUARE: SMALL_ROWS(0, s + x[i] * x[i]) break;
	case A_PROD: SMALL_ROWS(1, s * x[i]) break;
	case A_MAX:
	case A_MIN:
		for (int64_t o = begin; o < end; o++) {
			const float *x = (const float *)p->x + o * n;
			((float *)p->y)[o] =
				p->kind == A_MAX ? p->simd->max(x, n) : p->simd->min(x, n);
		}
		break;
	case A_EXP: break;
	}
}

static void reduce_tasks(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct plan *p = arg;

	(void)thread;
	if (p->small) {
		reduce_small_rows(p, begin, end);
		return;
	}
	for (int64_t k = begin; k < end; k++) {
		int64_t task = k / p->splits, split = k % p->splits;
		if (p->inner_kept)
			compute_output_block(p, task, split);
		else
			reduce_one_output(p, task, split);
	}
}

/* ---- the plan -------------------------------------------------------------------------------- */

/*
 * Merges the dimensions of the input until kept and reduced ones alternate, and writes them to p.
 * Bit i of mask says that dimension i is reduced.
 */
static void merge_dims(struct plan *p, const struct shape *s, uint32_t mask)
{
	int64_t dim[MAX_RANK];
	bool red[MAX_RANK];
	int n = 0;

	for (int i = 0; i < s->rank; i++) {
		bool r = mask & 1u << i;
		if (s->dim[i] == 1)
			continue;
		if (n && red[n - 1] == r) {
			dim[n - 1] *= s->dim[i];
			continue;
		}
		dim[n] = s->dim[i];
		red[n++] = r;
	}
	if (!n) { /* the tensor has a single element: reduce a run of one */
		dim[0] = 1;
		red[0] = true;
		n = 1;
	}
	p->inner = dim[n - 1];
	p->inner_kept = !red[n - 1];
	p->count = p->outputs = 1;
	int64_t step = 1;
	int64_t steps[MAX_RANK];
	for (int i = n - 1; i >= 0; i--) {
		steps[i] = step;
		step *= dim[i];
	}
	for (int i = 0; i < n; i++) {
		if (red[i]) {
			p->rdim[p->nr] = dim[i];
			p->rstep[p->nr++] = steps[i];
			p->count *= dim[i];
		} else {
			p->outputs *= dim[i];
			if (i == n - 1)
				continue;
			p->kdim[p->nk] = dim[i];
			p->kstep[p->nk++] = steps[i];
		}
	}
	if (!p->nr) { /* no dimension is reduced: each output reduces one row */
		p->rdim[0] = 1;
		p->rstep[0] = p->inner;
		p->nr = 1;
	}
}

/* Divides the work into tasks, and splits the reduced range if there would be too few tasks. */
static void divide_work(struct plan *p)
{
	int64_t want = 4 * pool_threads(), tasks = p->outputs;
	int64_t length = p->nr > 1	 ? product_of(p->rdim, p->nr - 1)
			 : p->inner_kept ? p->rdim[0]
					 : p->inner;

	p->splits = p->blocks = 1;
	if (p->inner_kept) {
		p->columns = MAX_COLUMNS;
		p->blocks = (p->inner + MAX_COLUMNS - 1) / MAX_COLUMNS;
		tasks = product_of(p->kdim, p->nk) * p->blocks;
	}
	/*
	 * The number of splits depends on sizes only, so that every machine that splits adds in the
	 * same order. The number of threads only decides whether work of 16 or more tasks is split.
	 */
	if (p->outputs * p->count < 2 * GRAIN || tasks >= (want > 16 ? want : 16))
		return;
	int64_t splits = MAX_SPLIT / tasks;
	int64_t most = MAX_PARTS / p->outputs;
	if (splits > most)
		splits = most;
	if (splits > length)
		splits = length;
	p->splits = splits > 1 ? splits : 1;
}

static void run_tasks(struct plan *p)
{
	int64_t tasks = p->inner_kept ? product_of(p->kdim, p->nk) * p->blocks : p->outputs;
	int64_t each = p->outputs * p->count / (tasks * p->splits > 0 ? tasks * p->splits : 1);

	pool_for(tasks * p->splits, rows_grain(GRAIN / 2, each), reduce_tasks, p);
}

/* Combines the partial results of output o. */
static union acc combine_parts(const struct plan *p, int64_t o)
{
	union acc a = p->part[o];

	for (int64_t s = 1; s < p->splits; s++)
		a = combine_acc(p, a, p->part[s * p->outputs + o]);
	return a;
}

static void reduce_split(struct plan *p, void *workspace)
{
	double *max = (double *)workspace + MAX_PARTS;

	p->part = workspace;
	if (p->kind == A_EXP) {
		p->kind = A_MAX;
		run_tasks(p);
		for (int64_t o = 0; o < p->outputs; o++)
			max[o] = finite_max(combine_parts(p, o).d);
		p->kind = A_EXP;
		p->max = max;
	}
	run_tasks(p);
	for (int64_t o = 0; o < p->outputs; o++)
		store_result(p, o, combine_parts(p, o), p->max ? max[o] : 0);
}

static int axes_mask(const struct call *c, uint32_t *mask)
{
	const struct reduce *r = call_params(c);
	const struct tensor *axes = c->step->nin > 1 ? c->in[1] : NULL;
	int64_t n = axes ? tensor_count(axes) : 0;

	*mask = n || r->noop_with_empty_axes ? 0 : ~0u;
	for (int64_t i = 0; i < n; i++) {
		int a = axis_of(elem_i64(DT_I64, axes->data, i), c->in[0]->shape.rank);
		if (a < 0)
			return call_fail(c, E_VALUE,
					 fmt(c->diag, "axes within rank %d", c->in[0]->shape.rank),
					 fmt(c->diag, "%" PRId64, elem_i64(DT_I64, axes->data, i)));
		*mask |= 1u << a;
	}
	return 0;
}

/* Reduces an empty tensor: sets every output to the start value of the reduction. */
static void reduce_empty(struct plan *p, int64_t outputs)
{
	p->count = 0;
	for (int64_t o = 0; o < outputs; o++)
		store_result(p, o, start_value(p), 0);
}

static int reduce_reshape(struct site *s, struct step *step, struct diag *d)
{
	(void)s;
	(void)d;
	for (size_t i = 0; i < sizeof(reductions) / sizeof(*reductions); i++)
		if (!strcmp(reductions[i].op, s->node->op->name))
			step->state = arena_dup(s->plan_arena, &reductions[i], sizeof(reductions[i]));
	step->workspace = 2 * MAX_PARTS * sizeof(union acc);
	return 0;
}

static int reduce_run(const struct call *c)
{
	const struct reduction *r = c->step->state;
	const struct tensor *x = c->in[0];
	struct plan p = {.r = r,
			 .t = tensor_dtype(x),
			 .kind = r->kind,
			 .x = x->data,
			 .y = c->out[0]->data,
			 .simd = simd()};
	uint32_t mask;
	int err = axes_mask(c, &mask);

	if (err)
		return err;
	p.loops = choose_loops(p.t, p.kind);
	if (tensor_count(x) == 0) {
		reduce_empty(&p, tensor_count(c->out[0]));
		return 0;
	}
	merge_dims(&p, &x->shape, mask);
	divide_work(&p);
	p.small = p.t == DT_F32 && !p.inner_kept && p.nr == 1 && p.nk <= 1 &&
		  p.inner <= SMALL_ROW && p.splits == 1 && p.kind != A_EXP;
	if (p.splits > 1)
		reduce_split(&p, c->workspace);
	else
		run_tasks(&p);
	return 0;
}

#define REDUCE(name)                                                                               \
	{                                                                                          \
		.op = (name), .flags = K_REFERENCE, .reshape = reduce_reshape, .run = reduce_run   \
	}

const struct kernel cpu_reduce[] = {REDUCE("ReduceSum"),
				    REDUCE("ReduceMean"),
				    REDUCE("ReduceMax"),
				    REDUCE("ReduceMin"),
				    REDUCE("ReduceProd"),
				    REDUCE("ReduceL1"),
				    REDUCE("ReduceL2"),
				    REDUCE("ReduceSumSquare"),
				    REDUCE("ReduceLogSum"),
				    REDUCE("ReduceLogSumExp"),
				    {.op = "ArgMax", .flags = K_REFERENCE, .run = arg_reduce_run},
				    {.op = "ArgMin", .flags = K_REFERENCE, .run = arg_reduce_run},
				    {.op = "CumSum", .flags = K_REFERENCE, .run = cumulate_run},
				    {.op = "CumProd", .flags = K_REFERENCE, .run = cumulate_run},
				    {0}};
