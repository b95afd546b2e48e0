/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What serves bf16 alone: products by AMX and AVX512-BF16, of small integers, which are exact, in sizes around those of tiles; exp for
 * attention; the larger of two numbers. Without these instructions only the last is tested.
 */
#include "cpu/math/amx.h"

#include "cpu/math/simd.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int small(int64_t i, int64_t j)
{
	return (int)((i * 7 + j * 5) % 9) - 4;
}

/* The products of whole tiles, and those of any rows and columns: by what the processor is best at, or by AVX512-BF16. */
enum way { WHOLE, BEST, BACKWARDS, DOTS, DOTS_BACKWARDS, WAYS };

static void multiply(enum way way, const struct amx *p)
{
	if (way == WHOLE)
		amx_multiply(p);
#if defined(__x86_64__)
	else if (way >= DOTS && __builtin_cpu_supports("avx512bf16"))
		bf16_dots_v4(p, way == DOTS_BACKWARDS);
#endif
	else
		bf16_multiply(p, way == BACKWARDS || way == DOTS_BACKWARDS);
}

static bool product_is_exact(int64_t m, int64_t n, int64_t k, bool transposed, enum way way)
{
	int64_t depth = amx_depth(k), step = (transposed ? k : n) + 3;
	size_t half = sizeof(uint16_t);
	uint16_t *a = calloc((size_t)(m * (k + 1)), half),
		 *b = calloc((size_t)(step * (transposed ? n : k)), half);
	uint16_t *pa = malloc((size_t)(amx_rows(m) * depth) * half);
	uint16_t *pb = malloc((size_t)(amx_rows(n) * depth) * half);
	float *c = malloc((size_t)(amx_rows(m) * amx_rows(n)) * sizeof(*c));
	struct amx p = {amx_rows(m), amx_rows(n), depth, pa, depth, pb, c, amx_rows(n)};
	if (way != WHOLE)
		p.m = m, p.n = p.c_row = n;
	bool same = a && b && pa && pb && c;

	for (int64_t i = 0; same && i < m; i++)
		for (int64_t t = 0; t < k; t++)
			a[i * (k + 1) + t] = f32_to_bf16((float)small(i, t));
	for (int64_t t = 0; same && t < k; t++)
		for (int64_t j = 0; j < n; j++)
			b[transposed ? j * step + t : t * step + j] =
				f32_to_bf16((float)small(t, 2 * j));
	if (same) {
		amx_pack_a(a, k + 1, m, k, pa);
		amx_pack_b(b, step, transposed, k, n, pb);
		memset(c, 0xff, (size_t)(amx_rows(m) * amx_rows(n)) * sizeof(*c));
		multiply(way, &p);
	}
	for (int64_t i = 0; same && i < m; i++)
		for (int64_t j = 0; same && j < n; j++) {
			int sum = 0;
			for (int64_t t = 0; t < k; t++)
				sum += small(i, t) * small(t, 2 * j);
			same = (int)c[i * p.c_row + j] == sum;
		}
	/* nothing is written behind what there is */
	for (int64_t i = m * n; same && way != WHOLE && i < amx_rows(m) * amx_rows(n); i++)
		same = isnan(c[i]);
	free(a), free(b), free(pa), free(pb), free(c);
	return same;
}

static void products_are_exact(void)
{
	static const int64_t sizes[] = {1, 2, 5, 15, 16, 17, 31, 32, 33, 64, 70, 150};
	enum { N = sizeof(sizes) / sizeof(*sizes) };

	for (enum way way = amx_usable() ? WHOLE : BEST; bf16_usable() && way < WAYS; way++)
		for (int i = 0; i < N * N * N * 2; i++) {
			int64_t m = sizes[i % N], n = sizes[i / N % N], k = sizes[i / N / N % N];
			if (!CHECK(product_is_exact(m, n, k, i >= N * N * N, way)))
				printf("# way %d: %lld x %lld x %lld\n", (int)way, (long long)m,
				       (long long)n, (long long)k);
		}
}

static void exp_is_close(void)
{
	enum { N = 1003 };
	static float x[N];
	static uint16_t y[N];
	double sum = 0;

	for (int i = 0; i < N; i++)
		sum += exp(2 * (double)(x[i] = -(float)i * 0.05F));
	if (!amx_usable())
		return;
	CHECK(fabs((double)amx_exp_sum(x, y, N, 0, 2) / sum - 1) < 2e-4);
	for (int i = 0; i < N; i++) {
		double want = exp(2 * (double)x[i]);
		CHECK(fabs((double)bf16_to_f32(y[i]) - want) <= want * 0x1p-8 + 1.2e-38);
	}
	x[1] = -INFINITY;
	CHECK(isfinite(amx_exp_sum(x, y, 3, 0, 1)) && !y[1]);
	x[1] = NAN;
	CHECK(isnan(amx_exp_sum(x, y, 3, 0, 1)) && isnan(bf16_to_f32(y[1])));
}

static void the_larger_is_found(void)
{
	static const float v[] = {0, -0.0F, 1, -1, 2, -2, INFINITY, -INFINITY, NAN, -NAN};
	enum { N = sizeof(v) / sizeof(*v) };

	for (int i = 0; i < N * N; i++) {
		uint16_t a = f32_to_bf16(v[i / N]), b = f32_to_bf16(v[i % N]), y;
		simd()->bin[VB_MAX][DT_BF16](&a, &b, &y, 1);
		if (isnan(v[i / N]) || isnan(v[i % N]))
			CHECK(isnan(bf16_to_f32(y)));
		else
			CHECK(bf16_to_f32(y) == fmaxf(v[i / N], v[i % N]));
	}
}

int main(void)
{
	UNIT(products_are_exact);
	UNIT(exp_is_close);
	UNIT(the_larger_is_found);
	return unit_end();
}
