/* SPDX-License-Identifier: Apache-2.0 */
/* Products of whole matrices of codes as on a processor without AVX-512, whose sums of two products have 16 bits: by threads, and cancelled. */
#include "cpu/math/igemm.h"

#include "base/cancel.h"
#include "base/pool.h"
#include "unit.h"

#include <stdlib.h>

struct matrices {
	int64_t m, n, k;
	uint8_t *a, *panels;
	int8_t *b;
	int32_t *sums, *a_zero, *columns;
};

static void store(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
		  const int32_t *sums, int64_t ld)
{
	const struct matrices *x = arg;

	for (int64_t r = 0; r < rows; r++)
		memcpy(x->sums + (m + r) * x->n + n, sums + r * ld, (size_t)cols * sizeof(*sums));
}

/* Codes lie up to `spread` from `zero`, but for one in sixteen. Weights have all bits or, if `small`, 7. */
static struct matrices make(int64_t m, int64_t n, int64_t k, int zero, int spread, bool small)
{
	int64_t depth = igemm_depth(k), panels = (n + IGEMM_NR - 1) / IGEMM_NR;
	struct matrices x = {.m = m, .n = n, .k = k};

	x.a = calloc((size_t)(m * depth), 1);
	x.b = malloc((size_t)(k * n));
	x.panels = calloc((size_t)panels, igemm_panel(k));
	x.sums = calloc((size_t)(m * n), sizeof(*x.sums));
	x.a_zero = malloc((size_t)m * sizeof(*x.a_zero));
	x.columns = malloc((size_t)(panels * IGEMM_NR) * sizeof(*x.columns));
	for (int64_t i = 0; i < m * k; i++) {
		int v = rand() % 16 ? zero - spread + rand() % (2 * spread + 1) : rand() % 256;
		x.a[i / k * depth + i % k] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
	}
	for (int64_t i = 0; i < k * n; i++)
		x.b[i] = (int8_t)(small ? rand() % 129 - 64 : rand() >> 7);
	for (int64_t i = 0; i < m; i++)
		x.a_zero[i] = zero;
	for (int64_t p = 0; p < panels; p++) {
		struct igemm_rows rows = {.base = (uint8_t *)x.b + p * IGEMM_NR, .row = n};
		int64_t left = n - p * IGEMM_NR;
		uint8_t *panel = x.panels + (size_t)p * igemm_panel(k);
		igemm_kernels()->pack(&rows, k, left < IGEMM_NR ? left : IGEMM_NR, 0, panel);
		igemm_kernels()->column_sums(panel, depth / 4, true, x.columns + p * IGEMM_NR);
	}
	return x;
}

static void matrices_free(struct matrices *x)
{
	free(x->a);
	free(x->b);
	free(x->panels);
	free(x->sums);
	free(x->a_zero);
	free(x->columns);
}

static struct igemm product(const struct matrices *x)
{
	return (struct igemm){.m = x->m,
			      .n = x->n,
			      .k = x->k,
			      .a = x->a,
			      .a_zero = x->a_zero,
			      .packed = x->panels,
			      .packed_sums = x->columns,
			      .store = store,
			      .arg = x};
}

static int wrong_sums(const struct matrices *x)
{
	int wrong = 0;

	for (int64_t i = 0; i < x->m * x->n; i++) {
		const uint8_t *a = x->a + i / x->n * igemm_depth(x->k);
		int32_t sum = 0;
		for (int64_t k = 0; k < x->k; k++)
			sum += (a[k] - x->a_zero[0]) * x->b[k * x->n + i % x->n];
		wrong += sum != x->sums[i];
	}
	return wrong;
}

/* More rows than columns and fewer; codes that are clipped, after their zero point was taken off or before; codes that need no clipping. */
static void products(void)
{
	static const struct {
		int64_t m, n, k;
		int zero, spread;
		bool small;
	} cases[] = {{400, 40, 72, 0, 60, false},    {400, 40, 72, 128, 60, false},
		     {50, 300, 150, 120, 50, false}, {50, 300, 150, 3, 120, false},
		     {9, 17, 5, 200, 20, false},     {300, 64, 40, 128, 127, false},
		     {400, 40, 72, 128, 127, true},  {30, 300, 150, 3, 127, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct matrices x = make(cases[i].m, cases[i].n, cases[i].k, cases[i].zero,
					 cases[i].spread, cases[i].small);
		struct igemm g = product(&x);
		if (igemm_kernels()->pairs_fit) {
			g.pairs_fit = igemm_kernels()->pairs_fit(x.panels, igemm_depth(x.k) / 4);
			CHECK_INT(g.pairs_fit, cases[i].small);
		}
		void *scratch = malloc(igemm_scratch(x.m, x.k, false));
		igemm_run(&g, scratch);
		if (!CHECK_INT(wrong_sums(&x), 0))
			printf("# case %zu\n", i);
		free(scratch);
		matrices_free(&x);
	}
}

/*
 * A cancelled run leaves the clipped rows in the scratch as they were, here as noise whose remainders would lie far outside of B. The product
 * must not read them. It has a single group of columns: threads do not share it, so it is multiplied although the run is cancelled.
 */
static void takes_no_rows_that_were_left_out(void)
{
	enum { ROUNDS = 200, FAR = 1 << 28 };
	struct matrices x = make(16, 16, 4096, 128, 20, false);
	struct igemm g = product(&x);
	size_t words = igemm_scratch(x.m, x.k, false) / sizeof(int32_t);
	int32_t *scratch = malloc(words * sizeof(*scratch));
	uint64_t before = cancel_at(1);

	CHECK(cancel_requested());
	for (int r = 0; r < ROUNDS; r++) {
		for (size_t i = 0; i < words; i++)
			scratch[i] = rand() % 8 ? 1 : FAR;
		igemm_run(&g, scratch);
	}
	cancel_at(before);
	igemm_run(&g, scratch);
	CHECK_INT(wrong_sums(&x), 0);
	free(scratch);
	matrices_free(&x);
}

int main(void)
{
	setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
	pool_set_threads(2);
	UNIT(products);
	UNIT(takes_no_rows_that_were_left_out);
	return unit_end();
}
