/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/igemm.h"

#include "base/pool.h"
#include "cpu/math/level.h"

#include <string.h>

const struct igemm_kernels *igemm_kernels(void)
{
#if defined(__x86_64__)
	int level = simd_level();

	return level == 4 ? &igemm_kernels_v4 : level == 3 ? &igemm_kernels_v3 : &igemm_kernels_v2;
#else
	return &igemm_kernels_v0;
#endif
}

/* Rows of a product that are multiplied at once, where rows are widened: all blocks have about as many. */
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

/* Each thread has widened rows, too, for threads may run products of their own. */
size_t igemm_scratch(int64_t m, int64_t k)
{
	size_t bytes = 0;

	if (has_wide_rows(m) &&
	    __builtin_mul_overflow((size_t)m, (size_t)igemm_depth(k) * sizeof(int16_t), &bytes))
		return SIZE_MAX;
	if (__builtin_add_overflow(bytes, thread_scratch_bytes(k) + 63, &bytes) ||
	    __builtin_mul_overflow(bytes & ~(size_t)63, (size_t)pool_threads(), &bytes))
		return SIZE_MAX;
	return bytes;
}

struct job {
	const struct igemm *g;
	const struct igemm_kernels *k;
	char *scratch; /* of the first thread */
	int16_t *wide; /* the widened rows, or NULL */
};

/* Returns where the widened rows of a product lie that begins on this thread. */
static int16_t *wide_rows(const struct igemm *g, void *scratch, int thread)
{
	size_t bytes = (size_t)g->m * (size_t)igemm_depth(g->k) * sizeof(int16_t);
	char *all = (char *)scratch + (size_t)pool_threads() * thread_scratch_bytes(g->k);

	return has_wide_rows(g->m) && !g->narrow && !g->narrow_rows
		       ? (int16_t *)(void *)(all + (size_t)thread * ((bytes + 63) & ~(size_t)63))
		       : NULL;
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
	int64_t lda = igemm_depth(g->k), rows = block_rows(g->m);

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		int64_t m = i / wide_parts(g) * rows, k = i % wide_parts(g) * IGEMM_WIDE_K4;
		int64_t n = g->m - m < rows ? g->m - m : rows, k4 = lda / 4 - k;
		j->k->widen(g->a + m * lda + 4 * k, lda, n, k4 < IGEMM_WIDE_K4 ? k4 : IGEMM_WIDE_K4,
			    g->a_signed, j->wide + m * lda + n * 4 * k);
	}
}

static int64_t wide_pieces(const struct igemm *g)
{
	int64_t rows = block_rows(g->m);

	return (g->m + rows - 1) / rows * wide_parts(g);
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

/* Multiplies all rows of A by one group of IGEMM_GROUP panels of B, which begins at column n0. */
static void multiply_group(const struct job *j, int64_t n0, char *room)
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
	struct igemm_narrow narrow = g->narrow ? *g->narrow : (struct igemm_narrow){NULL};
	narrow.start = g->narrow ? narrow.start + n0 / IGEMM_NR : NULL;
	if (g->a_zero && g->packed_sums)
		memcpy(column, g->packed_sums + n0, (size_t)b.panels * IGEMM_NR * sizeof(*column));
	for (int64_t p = 0; p < b.panels && g->a_zero && !g->packed_sums; p++)
		j->k->column_sums(b.b + (size_t)p * igemm_panel(g->k), b.k4, !g->a_signed,
				  column + p * IGEMM_NR);
	for (int64_t i = 0; i < cols && g->b_zero; i++)
		zero[i] = g->b_zero[g->b_zero_step * (n0 + i)];
	int64_t rows = g->narrow_rows ? IGEMM_MC : j->wide || g->narrow ? block_rows(g->m) : 64;
	for (int64_t m = 0; m < g->m; m += rows) {
		b.a = g->a + m * b.lda;
		b.m = g->m - m < rows ? g->m - m : rows;
		if (g->narrow)
			j->k->panels_narrow(&b, &narrow);
		else if (g->narrow_rows)
			j->k->rows_narrow(&b, &(struct igemm_narrow){
						      .start = g->narrow_rows->start + m / IGEMM_NR,
						      .at = g->narrow_rows->at,
						      .data = g->narrow_rows->data});
		else if (j->wide)
			j->k->panels_wide(&b, j->wide + m * b.lda);
		else
			j->k->panels(&b);
		for (int64_t r = 0; r < b.m && (g->a_zero || g->b_zero); r++)
			j->k->correct(sums + r * width, cols, g->a_zero ? g->a_zero[m + r] : 0,
				      column, g->b_zero ? g->a_rest[m + r] : 0, zero);
		g->store(g->arg, m, b.m, n0, cols, sums, width);
	}
}

static void groups_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;

	for (int64_t i = begin; i < end; i++)
		multiply_group(j, i * IGEMM_NR * IGEMM_GROUP,
			       j->scratch + (size_t)thread * thread_scratch_bytes(j->g->k));
}

static int64_t group_count(const struct igemm *g)
{
	int64_t width = IGEMM_NR * IGEMM_GROUP;

	return g->m > 0 ? (g->n + width - 1) / width : 0;
}

void igemm_run(const struct igemm *g, void *scratch)
{
	struct job j = {g, igemm_kernels(), scratch, wide_rows(g, scratch, 0)};
	int64_t work = g->m * g->k * IGEMM_NR * IGEMM_GROUP;

	if (group_count(g) < 1)
		return;
	if (j.wide)
		pool_for(wide_pieces(g), 1 + (1 << 16) / (IGEMM_WIDE_K4 * block_rows(g->m)),
			 widen_piece, &j);
	pool_for(group_count(g), work > 1 << 18 ? 1 : (1 << 18) / (work + 1) + 1, groups_piece, &j);
}

void igemm_run_alone(const struct igemm *g, void *scratch, int thread)
{
	struct job j = {g, igemm_kernels(), scratch, wide_rows(g, scratch, thread)};

	if (j.wide && group_count(g) > 0)
		widen_piece(&j, 0, wide_pieces(g), thread);
	groups_piece(&j, 0, group_count(g), thread);
}
