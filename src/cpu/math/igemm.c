/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/igemm.h"

#include "base/cancel.h"
#include "base/pool.h"
#include "cpu/math/level.h"

#include <string.h>

const struct igemm_kernels *igemm_kernels(void)
{
#if defined(__x86_64__)
	int level = simd_level();

	if (level == 4)
		return __builtin_cpu_supports("avx512vnni") ? &igemm_kernels_v4
							    : &igemm_kernels_v4_bytes;
	return level == 3 ? &igemm_kernels_v3 : &igemm_kernels_v2;
#else
	return &igemm_kernels_v0;
#endif
}

/* Divides the rows of a product evenly into blocks of at most IGEMM_MC, so that the last one is not much shorter than the others. */
static int64_t block_rows(int64_t m)
{
	int64_t blocks = (m + IGEMM_MC - 1) / IGEMM_MC;

	return (m + blocks - 1) / blocks;
}

static bool has_wide_rows(int64_t m)
{
	enum { WIDE_MIN_ROWS = 8 };

	return m >= WIDE_MIN_ROWS && igemm_kernels()->widen;
}

/*
 * Returns the bytes of one thread's scratch, which holds the panels of a group, the int32 sums of IGEMM_MC rows, the
 * sums of B's columns, and the zero points of B's columns.
 */
static size_t thread_scratch_bytes(int64_t k)
{
	size_t width = IGEMM_NR * IGEMM_GROUP;
	size_t bytes = igemm_panel(k) * IGEMM_GROUP + (IGEMM_MC + 2) * width * sizeof(int32_t);

	return (bytes + 63) & ~(size_t)63;
}

/* What lies behind the rows of clipped bytes for each of them, with room for a remainder of each four. */
struct clipped_row {
	int32_t count; /* of its remainders */
	/* if its codes have lost their zero point: their sum if B has zero points, otherwise what its sums begin with */
	int32_t correction;
	struct igemm_rest rest[];
};

static size_t clipped_row_bytes(int64_t k)
{
	return sizeof(struct clipped_row) + (size_t)igemm_depth(k) / 4 * sizeof(struct igemm_rest);
}

/* Bytes of a row that is clipped, or widened, which takes less. */
static size_t wide_row_bytes(int64_t k)
{
	return (size_t)igemm_depth(k) + clipped_row_bytes(k);
}

size_t igemm_scratch(int64_t m, int64_t k, bool alone)
{
	size_t threads = (size_t)pool_threads(), wide = 0, bytes;

	/* blocks of rows that threads have by themselves are rounded up to whole rows */
	if (has_wide_rows(m) && (__builtin_add_overflow((size_t)m, threads, &wide) ||
				 __builtin_mul_overflow(wide, wide_row_bytes(k), &wide)))
		return SIZE_MAX;
	if (__builtin_add_overflow(wide, 63, &wide) ||
	    __builtin_mul_overflow(wide & ~(size_t)63, alone ? threads : 1, &wide) ||
	    __builtin_mul_overflow(thread_scratch_bytes(k), threads, &bytes) ||
	    __builtin_add_overflow(bytes, wide, &bytes))
		return SIZE_MAX;
	return bytes;
}

struct job {
	const struct igemm *g;
	const struct igemm_kernels *k;
	char *scratch; /* of the first thread */
	int16_t *wide; /* room for widened rows, or NULL */
	bool clipped; /* `wide` has clipped rows instead, and behind them a struct clipped_row for each */
	bool moved; /* the zero points have been taken off the clipped rows, whose bytes are signed then */
	int64_t rows; /* in a block, which is multiplied at once */
	int64_t parts; /* blocks that are multiplied by themselves: 1 if a group of panels has all rows */
	int64_t first; /* row of the whole product with which `g` begins */
};

/* Returns where the widened rows of a product lie that begins on this thread. */
static int16_t *wide_rows(const struct igemm *g, void *scratch, int thread)
{
	size_t bytes = ((size_t)g->m + (size_t)pool_threads()) * wide_row_bytes(g->k);
	char *all = (char *)scratch + (size_t)pool_threads() * thread_scratch_bytes(g->k);

	return has_wide_rows(g->m) && g->k > 0 && !g->narrow && !g->narrow_rows && !g->pairs_fit
		       ? (int16_t *)(void *)(all + (size_t)thread * ((bytes + 63) & ~(size_t)63))
		       : NULL;
}

static uint8_t *clipped_bytes(const struct job *j, int64_t m)
{
	return (uint8_t *)j->wide + m * igemm_depth(j->g->k);
}

static struct clipped_row *clipped_row(const struct job *j, int64_t m)
{
	return (struct clipped_row *)(void *)(clipped_bytes(j, j->g->m) +
					      (size_t)m * clipped_row_bytes(j->g->k));
}

static void clip_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;
	const struct igemm *g = j->g;
	int64_t depth = igemm_depth(g->k);

	(void)thread;
	for (int64_t m = begin; m < end; m++) {
		const uint8_t *a = g->a + m * depth;
		struct clipped_row *r = clipped_row(j, m);
		int32_t zero = g->a_zero ? g->a_zero[m] : 0;
		r->count = (int32_t)j->k->clip(a, g->k, j->moved, zero, clipped_bytes(j, m),
					       r->rest, depth / 4, (end - 1 - m) * depth);
		if (j->moved)
			r->correction = (int32_t)(((uint32_t)j->k->sum_bytes(a, g->k, 0) -
						   (uint32_t)g->k * (uint32_t)zero) *
						  (g->b_zero ? 1 : (uint32_t)-IGEMM_FLIP));
	}
}

/*
 * Clips the rows if that pays: if there are enough columns, and few fours of k have a remainder, as each costs as much as four
 * values of k of a whole strip. Codes of activations mostly lie close to their zero point.
 */
static bool clip_rows(struct job *j)
{
	enum { LEAST_COLUMNS = 16, FOURS_OF_A_REST = 4 };
	const struct igemm *g = j->g;
	int64_t rests = 0, most = g->m * igemm_depth(g->k) / (4 * FOURS_OF_A_REST);

	if (g->a_signed || g->n < LEAST_COLUMNS || g->k < 1)
		return false;
	j->moved = g->a_zero && *g->a_zero >= IGEMM_FAR_ZERO;
	pool_for(g->m, 1 + (1 << 14) / igemm_depth(g->k), clip_piece, j);
	for (int64_t m = 0; m < g->m && rests >= 0 && rests <= most; m++)
		rests = clipped_row(j, m)->count < 0 ? -1 : rests + clipped_row(j, m)->count;
	/* a run that is cancelled leaves out rows, whose remainders are then undefined */
	bool pays = rests >= 0 && rests <= most && !cancel_requested();
	j->moved &= pays;
	return pays;
}

static int64_t wide_parts(const struct igemm *g)
{
	return (igemm_depth(g->k) / 4 + IGEMM_WIDE_K4 - 1) / IGEMM_WIDE_K4;
}

/* Widens parts of k of all blocks of rows. */
static void widen_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;
	const struct igemm *g = j->g;
	int64_t lda = igemm_depth(g->k), rows = j->rows;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		int64_t m = i / wide_parts(g) * rows, k = i % wide_parts(g) * IGEMM_WIDE_K4;
		int64_t n = g->m - m < rows ? g->m - m : rows, k4 = lda / 4 - k;
		j->k->widen(g->a + m * lda + 4 * k, lda, n, k4 < IGEMM_WIDE_K4 ? k4 : IGEMM_WIDE_K4,
			    g->a_signed, j->wide + m * lda + n * 4 * k);
	}
}

static int64_t wide_pieces(const struct job *j)
{
	return (j->g->m + j->rows - 1) / j->rows * wide_parts(j->g);
}

static const uint8_t *group_panels(const struct igemm *g, int64_t n0, int64_t cols, uint8_t *room)
{
	if (g->narrow)
		return NULL;
	if (g->packed)
		return g->packed + (size_t)(n0 / IGEMM_NR) * igemm_panel(g->k);
	for (int64_t c = 0; c < cols; c += IGEMM_NR)
		g->pack(g->arg, n0 + c, cols - c < IGEMM_NR ? cols - c : IGEMM_NR,
			room + (size_t)(c / IGEMM_NR) * igemm_panel(g->k));
	return room;
}

static struct igemm_narrow narrow_from(const struct igemm_narrow *w, int64_t row)
{
	return (struct igemm_narrow){w->start + row / IGEMM_NR, w->at, w->data};
}

/* Multiplies rows m to m + b->m - 1 by the panels from column n0 on. */
static void multiply_rows(const struct job *j, struct igemm_block *b, int64_t n0, int64_t m)
{
	const struct igemm *g = j->g;

	if (g->narrow) {
		struct igemm_narrow w = narrow_from(g->narrow, n0);
		j->k->panels_narrow(b, &w);
	} else if (g->narrow_rows) {
		struct igemm_narrow w = narrow_from(g->narrow_rows, m);
		j->k->rows_narrow(b, &w);
	} else if (j->clipped) {
		b->a = clipped_bytes(j, m);
		b->a_signed = j->moved;
		b->start = j->moved && !g->b_zero ? &clipped_row(j, m)->correction : NULL;
		b->start_row = (int64_t)(clipped_row_bytes(g->k) / sizeof(*b->start));
		j->k->panels_clipped(b);
		for (int64_t r = 0; r < b->m; r++)
			if (clipped_row(j, m + r)->count)
				j->k->add_rest(b, clipped_row(j, m + r)->rest,
					       clipped_row(j, m + r)->count, b->c + r * b->ldc);
	} else if (g->pairs_fit) {
		j->k->panels_clipped(b);
	} else if (j->wide) {
		j->k->panels_wide(b, j->wide + m * b->lda);
	} else {
		j->k->panels(b);
	}
}

/* Takes zero points off the sums of row m, but that of a row of A which has lost it already. */
static void correct_row(const struct job *j, int32_t *sums, int64_t cols, int64_t m,
			const int32_t *column, const int32_t *zero)
{
	const struct igemm *g = j->g;

	if (j->moved)
		j->k->correct(sums, cols, 0, column, clipped_row(j, m)->correction, zero);
	else
		j->k->correct(sums, cols, g->a_zero ? g->a_zero[m] : 0, column,
			      g->b_zero ? g->a_rest[m] : 0, zero);
}

/* Multiplies all rows of A, or one block, by one group of IGEMM_GROUP panels of B, which begins at column n0. */
static void multiply_group(const struct job *j, int64_t n0, int64_t part, char *room)
{
	const struct igemm *g = j->g;
	int64_t width = IGEMM_NR * IGEMM_GROUP, cols = g->n - n0 < width ? g->n - n0 : width;
	int32_t *sums = (int32_t *)(void *)(room + igemm_panel(g->k) * IGEMM_GROUP);
	int32_t *column = sums + IGEMM_MC * width, *zero = column + width;
	struct igemm_block b = {.b = group_panels(g, n0, cols, (uint8_t *)room),
				.lda = igemm_depth(g->k),
				.ldc = width,
				.k4 = igemm_depth(g->k) / 4,
				.panels = (cols + IGEMM_NR - 1) / IGEMM_NR,
				.c = sums,
				.a_signed = g->a_signed};

	memset(column, 0, 2 * (size_t)width * sizeof(*column));
	if (g->a_zero && g->packed_sums)
		memcpy(column, g->packed_sums + n0, (size_t)b.panels * IGEMM_NR * sizeof(*column));
	for (int64_t p = 0; p < b.panels && g->a_zero && !g->packed_sums; p++)
		j->k->column_sums(b.b + (size_t)p * igemm_panel(g->k), b.k4, !g->a_signed,
				  column + p * IGEMM_NR);
	for (int64_t i = 0; i < cols && g->b_zero; i++)
		zero[i] = g->b_zero[g->b_zero_step * (n0 + i)] + (j->moved ? IGEMM_FLIP : 0);
	int64_t rows = j->rows, end = j->parts > 1 ? (part + 1) * rows : g->m;
	for (int64_t m = part * rows; m < end && m < g->m; m += rows) {
		b.a = g->a + m * b.lda;
		b.m = g->m - m < rows ? g->m - m : rows;
		multiply_rows(j, &b, n0, m);
		for (int64_t r = 0; r < b.m && (g->b_zero || (g->a_zero && !j->moved)); r++)
			correct_row(j, sums + r * width, cols, m + r, column, zero);
		g->store(g->arg, j->first + m, b.m, n0, cols, sums, width);
	}
}

static int64_t group_count(const struct igemm *g)
{
	int64_t width = IGEMM_NR * IGEMM_GROUP;

	return g->m > 0 ? (g->n + width - 1) / width : 0;
}

static void groups_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;

	for (int64_t i = begin; i < end; i++)
		multiply_group(j, i / j->parts * IGEMM_NR * IGEMM_GROUP, i % j->parts,
			       j->scratch + (size_t)thread * thread_scratch_bytes(j->g->k));
}

/* Clips the rows if that pays, or else widens them, if the processor's instructions need that. */
static void change_rows(struct job *j)
{
	j->clipped = j->wide && clip_rows(j);
	if (j->wide && !j->clipped)
		pool_for(wide_pieces(j), 1 + (1 << 16) / (IGEMM_WIDE_K4 * j->rows), widen_piece, j);
}

/* Multiplies blocks of rows by all of B, in the part of the scratch that belongs to the thread. */
static void blocks_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *all = arg;
	int64_t m = all->g->m, blocks = all->parts, most = (m + blocks - 1) / blocks;

	for (int64_t i = begin; i < end; i++) {
		int64_t first = m * i / blocks;
		struct igemm g = *all->g;
		struct job j = *all;
		g.m = m * (i + 1) / blocks - first;
		g.a += first * igemm_depth(g.k);
		g.a_zero = g.a_zero ? g.a_zero + first : NULL;
		g.a_rest = g.a_rest ? g.a_rest + first : NULL;
		j.g = &g;
		j.first = first;
		j.parts = 1;
		j.rows = all->rows < g.m ? all->rows : g.m;
		if (j.wide)
			j.wide = (int16_t *)(void *)((char *)all->wide +
						     (size_t)(thread * most) * wide_row_bytes(g.k));
		if (g.rows)
			g.rows(g.arg, first, g.m);
		change_rows(&j);
		groups_piece(&j, 0, group_count(&g), thread);
	}
}

static struct job job_of(const struct igemm *g, void *scratch, int thread)
{
	enum {
		PLAIN_ROWS = 64
	}; /* bytes as they are: the block stays in the cache beside a group of panels */
	struct job j = {.g = g,
			.k = igemm_kernels(),
			.scratch = scratch,
			.wide = wide_rows(g, scratch, thread),
			.rows = PLAIN_ROWS,
			.parts = 1};

	if (g->narrow_rows)
		j.rows = IGEMM_MC; /* a multiple of a panel's rows */
	else if (j.wide || g->narrow || g->pairs_fit)
		j.rows = block_rows(g->m);
	return j;
}

/*
 * Returns into how many blocks the rows are divided, each of which one thread gathers, changes and multiplies by all of B; 0 if threads are to share the columns
 * instead. Blocks pay if there are more rows than columns, because the rows that a thread has just written are in its cache, and B is in no cache. They pay
 * with fewer rows, too, where rows are clipped or widened before they are multiplied: with blocks, threads do not wait for one another between these steps.
 */
static int64_t own_blocks(const struct job *j)
{
	enum { LEAST = 24 }; /* rows of a block */
	int64_t m = j->g->m, threads = pool_threads(), blocks = (m + IGEMM_MC - 1) / IGEMM_MC;
	bool bytes = j->wide || j->g->pairs_fit;
	int64_t columns = bytes ? j->g->n / 8 : j->g->n;

	if (!j->g->packed || m <= columns || (threads < 2 && !bytes) || m < threads * LEAST)
		return 0;
	return (blocks + threads - 1) / threads * threads;
}

/* Gives each thread some rows if there are too few columns for all of them. */
static void split_blocks(struct job *j)
{
	enum { LEAST = 48 }; /* a multiple of strips and of panels */
	int64_t groups = group_count(j->g), parts = (2 * pool_threads() + groups - 1) / groups;
	int64_t rows = ((j->g->m + parts - 1) / parts + LEAST - 1) / LEAST * LEAST;

	if (pool_threads() < 2 || parts < 3 || j->g->m <= rows)
		return;
	j->rows = rows < j->rows ? rows : j->rows;
	j->parts = (j->g->m + j->rows - 1) / j->rows;
}

static void rows_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct igemm *g = arg;

	(void)thread;
	g->rows(g->arg, begin, end - begin);
}

void igemm_run(const struct igemm *g, void *scratch)
{
	if (group_count(g) < 1)
		return;
	struct job j = job_of(g, scratch, 0);
	int64_t blocks = own_blocks(&j);

	if (blocks) {
		j.parts = blocks;
		pool_for(blocks, 1, blocks_piece, &j);
		return;
	}
	if (g->rows)
		pool_for(g->m, 1 + (1 << 15) / (g->k + 1), rows_piece, (void *)(uintptr_t)g);
	split_blocks(&j);
	change_rows(&j);
	int64_t work = g->m / j.parts * g->k * IGEMM_NR * IGEMM_GROUP;
	pool_for(group_count(g) * j.parts, work > 1 << 18 ? 1 : (1 << 18) / (work + 1) + 1,
		 groups_piece, &j);
}

void igemm_run_alone(const struct igemm *g, void *scratch, int thread)
{
	if (group_count(g) < 1)
		return;
	struct job j = job_of(g, scratch, thread);

	if (g->rows)
		g->rows(g->arg, 0, g->m);
	if (j.wide)
		widen_piece(&j, 0, wide_pieces(&j), thread);
	groups_piece(&j, 0, group_count(g), thread);
}
