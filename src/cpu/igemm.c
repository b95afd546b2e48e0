/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/igemm.h"

#include "base/pool.h"

#include <string.h>

const struct igemm_kernels *igemm_kernels(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512vl"))
		return &igemm_kernels_v4;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	    __builtin_cpu_supports("bmi2"))
		return &igemm_kernels_v3;
	return &igemm_kernels_v2;
#else
	return &igemm_kernels_v0;
#endif
}

/* Panels of a group, then sums of IGEMM_MC rows. */
static size_t panel_elements(int64_t k)
{
	return (size_t)igemm_depth(k) * IGEMM_NR;
}

static size_t scratch_one(int64_t k)
{
	size_t bytes = panel_elements(k) * IGEMM_GROUP * sizeof(int16_t) +
		       (size_t)IGEMM_MC * IGEMM_NR * IGEMM_GROUP * sizeof(int32_t);

	return (bytes + 63) & ~(size_t)63;
}

size_t igemm_scratch(int64_t k)
{
	return scratch_one(k) * (size_t)pool_threads();
}

struct job {
	const struct igemm *g;
	const struct igemm_kernels *k;
	char *scratch;
};

/* One group of panels. */
static void group(const struct job *j, int64_t n0, int16_t *panels, int32_t *sums)
{
	const struct igemm *g = j->g;
	int64_t width = IGEMM_NR * IGEMM_GROUP, cols = g->n - n0 < width ? g->n - n0 : width;
	int64_t depth = igemm_depth(g->k);
	size_t panel = panel_elements(g->k);

	memset(panels, 0, panel * IGEMM_GROUP * sizeof(*panels));
	for (int64_t c = 0, p = 0; c < cols; c += IGEMM_NR, p++)
		g->pack(g->arg, n0 + c, cols - c < IGEMM_NR ? cols - c : IGEMM_NR,
			panels + (size_t)p * panel);
	for (int64_t m = 0; m < g->m; m += IGEMM_MC) {
		int64_t rows = g->m - m < IGEMM_MC ? g->m - m : IGEMM_MC;
		j->k->panels(g->a + m * depth, depth, panels, depth / 2,
			     (cols + IGEMM_NR - 1) / IGEMM_NR, rows, sums, width);
		g->store(g->arg, m, rows, n0, cols, sums, width);
	}
}

static void piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct job *j = arg;
	char *mine = j->scratch + (size_t)thread * scratch_one(j->g->k);
	int16_t *panels = (int16_t *)(void *)mine;
	int32_t *sums = (int32_t *)(void *)(panels + panel_elements(j->g->k) * IGEMM_GROUP);

	for (int64_t i = begin; i < end; i++)
		group(j, i * IGEMM_NR * IGEMM_GROUP, panels, sums);
}

void igemm_run(const struct igemm *g, void *scratch)
{
	struct job j = {g, igemm_kernels(), scratch};
	int64_t width = IGEMM_NR * IGEMM_GROUP, work = g->m * g->k * width;

	if (g->m > 0 && g->n > 0)
		pool_for((g->n + width - 1) / width,
			 work > 1 << 18 ? 1 : (1 << 18) / (work + 1) + 1, piece, &j);
}
