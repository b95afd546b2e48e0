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

size_t igemm_scratch(int64_t k)
{
	return thread_scratch_bytes(k) * (size_t)pool_threads();
}

struct job {
	const struct igemm *g;
	const struct igemm_kernels *k;
	char *scratch;
};

static const uint8_t *group_panels(const struct igemm *g, int64_t n0, int64_t cols, uint8_t *room)
{
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
	if (g->a_zero && g->packed)
		memcpy(column, g->packed_sums + n0, (size_t)b.panels * IGEMM_NR * sizeof(*column));
	for (int64_t p = 0; p < b.panels && g->a_zero && !g->packed; p++)
		j->k->column_sums(b.b + (size_t)p * igemm_panel(g->k), b.k4, !g->a_signed,
				  column + p * IGEMM_NR);
	for (int64_t i = 0; i < cols && g->b_zero; i++)
		zero[i] = g->b_zero[g->b_zero_step * (n0 + i)];
	for (int64_t m = 0; m < g->m; m += IGEMM_MC) {
		b.a = g->a + m * b.lda;
		b.m = g->m - m < IGEMM_MC ? g->m - m : IGEMM_MC;
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
	struct job j = {g, igemm_kernels(), scratch};
	int64_t work = g->m * g->k * IGEMM_NR * IGEMM_GROUP;

	if (group_count(g) > 0)
		pool_for(group_count(g), work > 1 << 18 ? 1 : (1 << 18) / (work + 1) + 1,
			 groups_piece, &j);
}

void igemm_run_alone(const struct igemm *g, void *scratch, int thread)
{
	struct job j = {g, igemm_kernels(), scratch};

	groups_piece(&j, 0, group_count(g), thread);
}
