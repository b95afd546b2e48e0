/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocked product of every instruction set that this machine has against a plain one: small integers, whose products
 * and sums are exact in every type, in sizes around the borders of tiles and blocks. What is added to a product, the functions
 * behind it, and rows that are runs of a picture, some of them outside, come on top.
 */
#include "cpu/math/gemm.h"
#include "cpu/math/level.h"

#include "unit.h"

#include <stdlib.h>

static unsigned seed = 20261123;

static int draw(int n)
{
	seed = seed * 1103515245 + 12345;
	return (int)(seed >> 8 & 0xffffff) % n;
}

static const struct gemm_kernels *kernels_of(int level)
{
#if defined(__x86_64__)
	if (level > simd_level())
		return NULL;
	return level == 4 ? &gemm_kernels_v4 : level == 3 ? &gemm_kernels_v3 : &gemm_kernels_v2;
#else
	return level == 2 ? &gemm_kernels_v0 : NULL;
#endif
}

static void set(enum gemm_type t, void *p, int64_t i, int v)
{
	if (t == GEMM_F32)
		((float *)p)[i] = (float)v;
	else if (t == GEMM_F64)
		((double *)p)[i] = v;
	else if (t == GEMM_U32)
		((uint32_t *)p)[i] = (uint32_t)v;
	else
		((uint64_t *)p)[i] = (uint64_t)(int64_t)v;
}

static int get(enum gemm_type t, const void *p, int64_t i)
{
	if (t == GEMM_F32)
		return (int)((const float *)p)[i];
	if (t == GEMM_F64)
		return (int)((const double *)p)[i];
	if (t == GEMM_U32)
		return (int)(int32_t)((const uint32_t *)p)[i];
	return (int)(int64_t)((const uint64_t *)p)[i];
}

/* The last step of a product adds 1000 to each element, so that one that it misses, or meets twice, shows. */
static void add_thousand(const float *x, float *y, int64_t n, const float *thousand)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] + *thousand;
}

struct trial {
	int m, n, k;
	int a_row, a_col, b_row, b_col, c_row;
	int alpha, beta;
	bool packed, map, backwards, halves, bias, residual, masks;
	enum gemm_act act;
	int length; /* of a run; 0 if A is a matrix */
};

/* Rows that begin a_row elements apart, with runs that are 3 elements further apart than they are long. */
enum { RUN_GAP = 3 };

static int64_t run_offset(const struct trial *x, int64_t run)
{
	return run * (x->length + RUN_GAP);
}

static bool is_outside(const struct trial *x, int64_t m, int64_t run)
{
	return x->masks && (m * 5 + run * 3) % 4 == 0;
}

static void picture_rows(const void *arg, int64_t m, int64_t count, int64_t *begin, uint64_t *outside)
{
	const struct trial *x = arg;

	for (int64_t i = 0; i < count; i++) {
		begin[i] = (m + i) * x->a_row;
		if (x->masks)
			outside[i] = 0;
		for (int64_t r = 0; x->masks && r < x->k / x->length; r++)
			outside[i] |= (uint64_t)is_outside(x, m + i, r) << r;
	}
}

/* The element of A that value k of row m is. */
static int a_at(const struct trial *x, enum gemm_type t, const void *a, int64_t m, int64_t k)
{
	if (!x->length)
		return get(t, a, m * x->a_row + k * x->a_col);
	if (is_outside(x, m, k / x->length))
		return 0;
	return get(t, a, m * x->a_row + run_offset(x, k / x->length) + k % x->length);
}

static struct trial draw_trial(enum gemm_type t)
{
	static const int sizes[] = {1, 2, 3, 5, 6, 7, 11, 12, 13, 16, 17, 31, 33, 64, 97};
	enum { SIZES = sizeof(sizes) / sizeof(*sizes) };
	struct trial x = {.m = sizes[draw(SIZES)],
			  .n = sizes[draw(SIZES)],
			  .k = draw(4) ? sizes[draw(SIZES)] : 200 + draw(400)};
	int gap = draw(3);

	if (!draw(8))
		x.m = 140 + draw(160);
	if (!draw(8))
		x.n = 500 + draw(60);
	if (!draw(30))
		x.k = 0;
	x.a_row = x.k + gap;
	x.a_col = 1;
	if (!draw(6) && x.k)
		x.a_row = 1024 * (1 + x.k / 1024); /* 4,096 bytes apart */
	if (!draw(3)) {
		x.a_row = 1;
		x.a_col = x.m + gap;
	}
	x.b_row = x.n + gap;
	x.b_col = 1;
	if (!draw(3)) {
		x.b_row = 1;
		x.b_col = x.k + gap;
	}
	x.c_row = x.n + gap;
	bool real = t == GEMM_F32 || t == GEMM_F64;
	x.alpha = real && !draw(3) ? 2 : 1;
	x.beta = real && !draw(4) ? 3 : draw(2);
	x.packed = draw(2) && x.k;
	x.map = t == GEMM_F32 && draw(2);
	x.backwards = draw(2);
	x.halves = draw(2) && x.n > 32;
	x.bias = draw(2);
	x.residual = draw(2);
	x.act = real ? (enum gemm_act)draw(3) : GEMM_PLAIN;
	if (x.packed && draw(2)) {
		int runs = 1 + draw(9);
		x.length = 1 + x.k / runs;
		x.k = runs * x.length;
		x.masks = draw(2);
		x.a_col = 1;
		x.a_row = 1 + draw(2 * x.k);
		x.b_row = x.n + gap;
		x.b_col = 1;
	}
	return x;
}

static bool agrees(const struct gemm_kernels *kernels, enum gemm_type t, const struct trial *x)
{
	size_t size = t == GEMM_F32 || t == GEMM_U32 ? 4 : 8;
	size_t na = (size_t)(x->m * x->a_row + x->k * (x->a_col + RUN_GAP) + 1);
	size_t nb = (size_t)(x->k * x->b_row + x->n * x->b_col + 1), nc = (size_t)(x->m * x->c_row);
	void *a = calloc(na, size), *b = calloc(nb, size), *c = calloc(nc, size);
	void *bias = calloc((size_t)x->n, size), *residual = calloc(nc, size);
	void *zeros = calloc((size_t)x->length + 1, size);
	int64_t offset[16] = {0};
	int *want = calloc(nc, sizeof(int));
	void *room = aligned_alloc(64, (gemm_scratch_one(t) + 63) / 64 * 64), *packed = NULL;
	struct gemm g = {.m = x->m,
			 .n = x->n,
			 .k = x->k,
			 .a = a,
			 .b = b,
			 .a_row = x->a_row,
			 .a_col = x->a_col,
			 .b_row = x->b_row,
			 .b_col = x->b_col,
			 .c = c,
			 .c_row = x->c_row,
			 .alpha = x->alpha,
			 .beta = x->beta,
			 .bias = x->bias ? bias : NULL,
			 .residual = x->residual ? residual : NULL,
			 .act = x->act,
			 .act_alpha = 1,
			 .backwards = x->backwards};
	struct gemm_runs runs = {.runs = x->length ? x->k / x->length : 0,
				 .length = x->length,
				 .offset = offset,
				 .zeros = x->masks ? zeros : NULL,
				 .rows = picture_rows,
				 .arg = x};
	struct gemm_piece p = {.g = &g, .m1 = x->m, .n1 = x->halves ? 32 : x->n, .scratch = room};
	const float thousand = 1000;
	bool same = true;

	for (size_t i = 0; i < na; i++)
		set(t, a, (int64_t)i, draw(9) - 4);
	for (size_t i = 0; i < nb; i++)
		set(t, b, (int64_t)i, draw(9) - 4);
	for (size_t i = 0; i < nc; i++)
		set(t, c, (int64_t)i, want[i] = draw(9) - 4);
	for (size_t i = 0; i < nc; i++)
		set(t, residual, (int64_t)i, draw(9) - 4);
	for (int i = 0; i < x->n; i++)
		set(t, bias, i, draw(99) - 49);
	for (int64_t i = 0; i < runs.runs; i++)
		offset[i] = run_offset(x, i);
	for (int i = 0; i < x->m; i++)
		for (int j = 0; j < x->n; j++) {
			int sum = 0;
			for (int k = 0; k < x->k; k++)
				sum += a_at(x, t, a, i, k) * get(t, b, k * x->b_row + j * x->b_col);
			int *w = &want[i * x->c_row + j];
			*w = x->alpha * sum + x->beta * *w;
			*w += x->bias ? get(t, bias, j) : 0;
			*w += x->residual ? get(t, residual, i * x->c_row + j) : 0;
			*w = x->act != GEMM_PLAIN && *w < 0 ? 0 : *w;
			*w += x->map ? 1000 : 0;
		}
	if (x->packed) {
		packed = aligned_alloc(64, (gemm_packed_bytes(t, x->n, x->k) + 63) / 64 * 64);
		kernels->pack[t](&g, packed);
		g.packed = packed;
		g.runs = x->length ? &runs : NULL;
	}
	if (x->map) {
		g.map = add_thousand;
		g.map_arg = &thousand;
	}
	kernels->piece[t](&p);
	if (x->halves) {
		p.n0 = p.n1;
		p.n1 = x->n;
		kernels->piece[t](&p);
	}
	for (size_t i = 0; i < nc; i++)
		same &= get(t, c, (int64_t)i) == want[i];
	free(a);
	free(b);
	free(c);
	free(bias);
	free(residual);
	free(zeros);
	free(want);
	free(room);
	free(packed);
	return same;
}

static void products_of_all_levels(void)
{
	for (int level = 2; level <= 4; level++) {
		const struct gemm_kernels *kernels = kernels_of(level);
		for (int i = 0; kernels && i < 1200; i++) {
			enum gemm_type t = (enum gemm_type)(i % GEMM_TYPES);
			struct trial x = draw_trial(t);
			if (!CHECK(agrees(kernels, t, &x)))
				printf("# level %d type %d: %d x %d x %d, A %d %d, B %d %d, alpha %d beta %d packed %d map %d bias %d residual %d act %d length %d masks %d\n",
				       level, (int)t, x.m, x.n, x.k, x.a_row, x.a_col, x.b_row,
				       x.b_col, x.alpha, x.beta, x.packed, x.map, x.bias,
				       x.residual, (int)x.act, x.length, x.masks);
		}
	}
}

int main(void)
{
	UNIT(products_of_all_levels);
	return unit_end();
}
