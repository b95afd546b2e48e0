/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over strided views against a plain loop in fp64: in fp32 and, where there is AMX, in bf16. */
#include "cpu/attention/sdpa.h"

#include "base/pool.h"
#include "cpu/math/amx.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int bad;
static uint64_t seed = 7;
static enum dtype type = DT_F32; /* of the tensors, unless a test has one of its own */

static double random_value(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(seed >> 33) / 1073741824.0 - 1;
}

static void *filled(size_t n, enum dtype t)
{
	void *p = malloc(n * 8);
	for (size_t i = 0; p && i < n; i++)
		elem_set_f64(t, p, (int64_t)i, random_value());
	return p;
}

static double get(const struct attend *a, const void *p, int64_t i)
{
	return elem_f64(a->type, p, i);
}

static int64_t seen(const struct attend *a, int64_t i)
{
	int64_t n = a->causal == 0 ? a->keys : i + 1 + (a->causal == 2 ? a->keys - a->queries : 0);
	return n < 0 ? 0 : n > a->keys ? a->keys : n;
}

static double score(const struct attend *a, int64_t b, int64_t h, int64_t i, int64_t t)
{
	int64_t kv = h / (a->heads / a->kv_heads), at = b * a->mask_step[0] + h * a->mask_step[1] +
							i * a->mask_step[2] + t * a->mask_step[3];
	double sum = 0;
	if (t >= seen(a, i))
		return -INFINITY;
	for (int64_t d = 0; d < a->size; d++)
		sum += get(a, a->q.data, b * a->q.batch + h * a->q.head + i * a->q.row + d) *
		       get(a, a->k.data,
			   b * a->k.batch + kv * a->k.head +
				   (a->k_col ? d * a->k.row + t : t * a->k.row + d));
	sum *= (double)a->scale;
	if (a->mask && a->mask_bool)
		return ((const uint8_t *)a->mask)[at] ? sum : -INFINITY;
	return a->mask ? sum + (double)((const float *)a->mask)[at] : sum;
}

static double expected(const struct attend *a, int64_t b, int64_t h, int64_t i, int64_t d)
{
	double max = -INFINITY, sum = 0, y = 0;
	int64_t kv = h / (a->heads / a->kv_heads);
	for (int64_t t = 0; t < a->keys; t++)
		max = fmax(max, score(a, b, h, i, t));
	if (max == -INFINITY)
		return a->safe ? 0 : NAN;
	for (int64_t t = 0; t < a->keys; t++)
		sum += exp(score(a, b, h, i, t) - max);
	for (int64_t t = 0; t < a->keys; t++)
		y += exp(score(a, b, h, i, t) - max) / sum *
		     get(a, a->v.data, b * a->v.batch + kv * a->v.head + t * a->v.row + d);
	return y;
}

static void test(const char *name, struct attend *a, size_t nq, size_t nk, size_t nv, size_t ny)
{
	size_t size = dtype_bits(a->type) / 8;
	a->q.data = filled(nq, a->type);
	a->k.data = nk ? filled(nk, a->type)
		       : (const char *)a->q.data + (size_t)(a->heads * a->size) * size;
	a->v.data = nv ? filled(nv, a->type)
		       : (const char *)a->q.data + (size_t)(2 * a->heads * a->size) * size;
	void *y = filled(ny, a->type),
	     *scratch = aligned_alloc(64, (attend_scratch(a) + 63) / 64 * 64);
	double worst = 0;
	a->y.data = y;
	attend_run(a, scratch);
	for (int64_t b = 0; b < a->batch; b++)
		for (int64_t h = 0; h < a->heads; h++)
			for (int64_t i = 0; i < a->queries; i++)
				for (int64_t d = 0; d < a->vsize; d += 3) {
					double want = expected(a, b, h, i, d);
					double got = get(a, y,
							 b * a->y.batch + h * a->y.head +
								 i * a->y.row + d);
					double diff =
						isnan(want) && isnan(got) ? 0 : fabs(got - want);
					if (!(diff <= worst))
						worst = diff;
				}
	bool ok = worst < (a->type == DT_F64 ? 1e-12 : a->type == DT_F32 ? 2e-6 : 8e-3);
	printf("%sok %s, %s # %.2g\n", ok ? "" : "not ", name, dtype_name(a->type), worst);
	bad += !ok;
	free(y);
	free(scratch);
	free((void *)(uintptr_t)a->q.data);
	if (nk)
		free((void *)(uintptr_t)a->k.data);
	if (nv)
		free((void *)(uintptr_t)a->v.data);
}

/* q, k and v packed side by side, as one product makes them */
static struct attend packed(int64_t batch, int64_t heads, int64_t rows, int64_t size)
{
	struct attend_view v = {
		.batch = rows * 3 * heads * size, .head = size, .row = 3 * heads * size};
	return (struct attend){.type = type,
			       .batch = batch,
			       .heads = heads,
			       .kv_heads = heads,
			       .queries = rows,
			       .keys = rows,
			       .size = size,
			       .vsize = size,
			       .q = v,
			       .k = v,
			       .v = v,
			       .y = {.batch = rows * heads * size, .head = size, .row = heads * size},
			       .scale = 0.25f};
}

static struct attend separate(int64_t batch, int64_t heads, int64_t kv, int64_t queries,
			      int64_t keys, int64_t size, int64_t vsize)
{
	return (struct attend){.type = type,
			       .batch = batch,
			       .heads = heads,
			       .kv_heads = kv,
			       .queries = queries,
			       .keys = keys,
			       .size = size,
			       .vsize = vsize,
			       .q = {NULL, heads * queries * size, queries * size, size},
			       .k = {NULL, kv * keys * size, keys * size, size},
			       .v = {NULL, kv * keys * vsize, keys * vsize, vsize},
			       .y = {NULL, heads * queries * vsize, queries * vsize, vsize},
			       .scale = 0.5f};
}

static void every_form(void)
{
	enum { Q = 19, T = 33 };
	static float mask[2 * T];
	static uint8_t mask_bool[Q * T];
	for (int i = 0; i < 2 * T; i++)
		mask[i] = i % 5 ? (float)random_value() : -INFINITY;
	for (int i = 0; i < Q * T; i++)
		mask_bool[i] = i / T != 4 && i % 3;
	struct attend a = packed(2, 3, 21, 16);
	test("packed", &a, 2 * 21 * 9 * 16, 0, 0, 2 * 21 * 3 * 16);
	a = packed(1, 2, 2000, 8);
	test("more queries than a block has", &a, 2000 * 6 * 8, 0, 0, 2000 * 2 * 8);
	a = separate(2, 4, 2, Q, T, 12, 20);
	test("grouped heads", &a, 2 * 4 * Q * 12, 2 * 2 * T * 12, 2 * 2 * T * 20, 2 * 4 * Q * 20);
	a.mask = mask;
	a.mask_step[0] = T;
	a.mask_step[3] = 1;
	test("with a mask of keys", &a, 2 * 4 * Q * 12, 2 * 2 * T * 12, 2 * 2 * T * 20,
	     2 * 4 * Q * 20);
	a.mask = mask_bool;
	a.mask_bool = true;
	a.mask_step[0] = 0;
	a.mask_step[2] = T;
	test("with a mask of bool, a row of it empty", &a, 2 * 4 * Q * 12, 2 * 2 * T * 12,
	     2 * 2 * T * 20, 2 * 4 * Q * 20);
	a.safe = true;
	test("the same, safe", &a, 2 * 4 * Q * 12, 2 * 2 * T * 12, 2 * 2 * T * 20, 2 * 4 * Q * 20);
	a = separate(1, 2, 1, Q, T, 12, 20);
	a.type = type == DT_F32 ? DT_F64 : type;
	a.causal = 2;
	test("causal to the last key", &a, 2 * Q * 12, T * 12, T * 20, 2 * Q * 20);
	a = separate(1, 2, 2, T, Q, 12, 20);
	a.causal = 1;
	test("causal from the first key", &a, 2 * T * 12, 2 * Q * 12, 2 * Q * 20, 2 * T * 20);
	a.causal = 2;
	test("causal, queries without keys", &a, 2 * T * 12, 2 * Q * 12, 2 * Q * 20, 2 * T * 20);
	a.safe = true;
	test("the same, safe", &a, 2 * T * 12, 2 * Q * 12, 2 * Q * 20, 2 * T * 20);
	a = separate(1, 2, 2, Q, T, 12, 20);
	a.k = (struct attend_view){NULL, 2 * T * 12, T * 12, T};
	a.k_col = 1;
	test("transposed keys", &a, 2 * Q * 12, 2 * T * 12, 2 * T * 20, 2 * Q * 20);
}

int main(void)
{
	pool_set_threads(2);
	every_form();
	type = DT_BF16;
	if (amx_usable())
		every_form();
	return bad != 0;
}
