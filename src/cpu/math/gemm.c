/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/gemm.h"

#include "base/pool.h"
#include "cpu/math/level.h"

#include <math.h>

static const struct gemm_kernels *kernels(void)
{
#if defined(__x86_64__)
	int level = simd_level();

	return level == 4 ? &gemm_kernels_v4 : level == 3 ? &gemm_kernels_v3 : &gemm_kernels_v2;
#else
	return &gemm_kernels_v0;
#endif
}

static size_t element_bytes(enum gemm_type t)
{
	return t == GEMM_F32 || t == GEMM_U32 ? 4 : 8;
}

size_t gemm_scratch_one(enum gemm_type t)
{
	return (GEMM_COPY + GEMM_KC * GEMM_NC + GEMM_NC + GEMM_PAD) * element_bytes(t);
}

size_t gemm_scratch(enum gemm_type t)
{
	return gemm_scratch_one(t) * (size_t)pool_threads();
}

size_t gemm_packed_bytes(enum gemm_type t, int64_t n, int64_t k)
{
	return (size_t)((n + 63) / 64 * 64 * k) * element_bytes(t) + 64;
}

void gemm_pack(enum gemm_type t, const struct gemm *g, void *to)
{
	kernels()->pack[t](g, to);
}

int gemm_strip(enum gemm_type t)
{
	return kernels()->strip[t];
}

static size_t scratch_each(enum gemm_type t, const struct gemm *g)
{
	if (!g->packed)
		return gemm_scratch_one(t);
	return gemm_copies_a(g, element_bytes(t)) ? GEMM_COPY * element_bytes(t) : 0;
}

size_t gemm_scratch_for(enum gemm_type t, const struct gemm *g)
{
	return scratch_each(t, g) * (size_t)pool_threads();
}

void gemm_columns(enum gemm_type t, const struct gemm *g, int64_t n0, int64_t n1, void *scratch)
{
	struct gemm_piece p = {.g = g, .m1 = g->m, .n0 = n0, .n1 = n1, .scratch = scratch};

	if (g->m > 0 && n0 < n1)
		kernels()->piece[t](&p);
}

void gemm_one(enum gemm_type t, const struct gemm *g, void *scratch)
{
	gemm_columns(t, g, 0, g->n, scratch);
}

struct split {
	const struct gemm *g;
	enum gemm_type type;
	int64_t mparts, nparts, mstep, nstep;
	char *scratch;
	size_t each; /* bytes of a thread's part of it */
};

static int64_t min_int64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void multiply_parts(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct split *s = arg;

	for (int64_t i = begin; i < end; i++) {
		/* a thread's parts are rows that follow one another, as other operators' are: they are in its cache */
		int64_t m = i / s->nparts, n = i % s->nparts;
		struct gemm_piece p = {
			.g = s->g,
			.m0 = min_int64(m * s->mstep, s->g->m),
			.m1 = min_int64((m + 1) * s->mstep, s->g->m),
			.n0 = min_int64(n * s->nstep, s->g->n),
			.n1 = min_int64((n + 1) * s->nstep, s->g->n),
			.scratch = s->each ? s->scratch + (size_t)thread * s->each : NULL,
		};
		if (p.m0 < p.m1 && p.n0 < p.n1)
			kernels()->piece[s->type](&p);
	}
}

/* Returns a / b, rounded up to a multiple of unit. */
static int64_t part_size(int64_t a, int64_t b, int64_t unit)
{
	int64_t x = (a + b - 1) / b;

	return (x + unit - 1) / unit * unit;
}

/* Parts of C begin at whole tiles and whole strips of every type and machine. */
enum { UNIT_ROWS = 12, UNIT_COLUMNS = 32, MAX_ROUNDS = 4, MAX_ROW_PARTS = 64 };

/*
 * Estimates the time of a part of these rows and columns, in multiplications for each value of k. A part waits for its columns
 * of B to come from memory, which takes as long as some 24 rows of products, or 40 if it has to pack them. It reads its rows of A
 * once more, or copies them. Handing out a part takes as long as some 100,000 multiplications.
 */
static double part_cost(const struct gemm *g, bool copies_a, int64_t rows, int64_t cols)
{
	double busy = (double)(rows + (g->packed ? 24 : 40));

	return busy * (double)cols + (copies_a ? 40 : 8) * (double)rows + 1e5 / (double)(g->k + 1);
}

/*
 * Cuts C into parts such that the threads end at about the same time. Several rounds of smaller parts cost more than one round,
 * but a thread that loses its core for a while then delays the others less: hence the tenth of a part that is added.
 */
static void choose_parts(struct split *s)
{
	const struct gemm *g = s->g;
	bool copies_a = gemm_copies_a(g, element_bytes(s->type));
	int64_t threads = pool_threads(), most = g->m <= GEMM_FEW ? 1 : MAX_ROW_PARTS;
	double best = HUGE_VAL;

	most = min_int64(most, (g->m + UNIT_ROWS - 1) / UNIT_ROWS);
	for (int64_t parts = threads; parts <= MAX_ROUNDS * threads; parts += threads)
		for (int64_t mparts = 1; mparts <= min_int64(most, parts); mparts++) {
			int64_t mstep = min_int64(part_size(g->m, mparts, UNIT_ROWS), g->m);
			int64_t nstep =
				min_int64(part_size(g->n, parts / mparts, UNIT_COLUMNS), g->n);
			int64_t m = (g->m + mstep - 1) / mstep, n = (g->n + nstep - 1) / nstep;
			double rounds = (double)((m * n + threads - 1) / threads);
			double cost = (rounds + 0.1) * part_cost(g, copies_a, mstep, nstep);
			if (cost < best) {
				best = cost;
				s->mstep = mstep;
				s->nstep = nstep;
				s->mparts = m;
				s->nparts = n;
			}
		}
}

void gemm_run(enum gemm_type t, const struct gemm *g, void *scratch)
{
	struct split s = {.g = g,
			  .type = t,
			  .mparts = 1,
			  .nparts = 1,
			  .mstep = g->m,
			  .nstep = g->n,
			  .scratch = scratch,
			  .each = scratch_each(t, g)};

	if (g->m <= 0 || g->n <= 0)
		return;
	/* Below about 100,000 multiplications, handing work to other threads costs more time than it saves. */
	if (pool_threads() > 1 && (double)g->m * (double)g->n * (double)(g->k + 1) > 1e5)
		choose_parts(&s);
	pool_for(s.mparts * s.nparts, 1, multiply_parts, &s);
}
