/* SPDX-License-Identifier: Apache-2.0 */
/* Needs AVX-512 and AMX, so that only the build for SIMD_LEVEL 4 has anything here. */
#include "cpu/math/amx.h"

#if SIMD_LEVEL == 4
#include <immintrin.h>
#include <string.h>

enum { TILE = AMX_ROWS * AMX_DEPTH }; /* elements of a tile of A or B */

/*
 * A tile of B has 16 lines of 16 pairs: line i holds rows 2i and 2i+1 of B, the two elements of a column side by side. Tiles
 * follow one another along k, and then along n.
 */
static void pack_columns(const uint16_t *b, int64_t step, int64_t depth, int64_t cols, uint16_t *to)
{
	uint32_t *pair = (uint32_t *)(void *)to;

	if (depth < AMX_DEPTH || cols < AMX_ROWS)
		memset(to, 0, TILE * sizeof(*to));
	for (int64_t j = 0; j < cols; j++) {
		const uint16_t *column = b + j * step;
		for (int64_t i = 0; i < depth / 2; i++)
			memcpy(&pair[i * AMX_ROWS + j], column + 2 * i, sizeof(*pair));
		if (depth % 2)
			to[(depth - 1) * AMX_ROWS + 2 * j] = column[depth - 1];
	}
}

static void pack_rows(const uint16_t *b, int64_t step, int64_t depth, int64_t cols, uint16_t *to)
{
	__mmask16 m = (__mmask16)((1u << cols) - 1);

	for (int64_t i = 0; i < AMX_ROWS; i++, to += AMX_DEPTH, b += 2 * step) {
		__m512i even = _mm512_setzero_si512(), odd = even;
		if (2 * i < depth)
			even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, b));
		if (2 * i + 1 < depth)
			odd = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, b + step));
		_mm512_storeu_si512(to, _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
	}
}

void amx_pack_b_v4(const uint16_t *b, int64_t step, bool transposed, int64_t k, int64_t n,
		   uint16_t *to)
{
	for (int64_t j = 0; j < n; j += AMX_ROWS)
		for (int64_t i = 0; i < k; i += AMX_DEPTH, to += TILE) {
			int64_t depth = k - i < AMX_DEPTH ? k - i : AMX_DEPTH;
			int64_t cols = n - j < AMX_ROWS ? n - j : AMX_ROWS;
			if (transposed)
				pack_columns(b + j * step + i, step, depth, cols, to);
			else
				pack_rows(b + i * step + j, step, depth, cols, to);
		}
}

#define WITH_AMX __attribute__((target("amx-tile,amx-bf16")))

/*
 * One or two tiles of rows by one or two tiles of columns: with two by two each tile that is loaded serves two products.
 * Numbers of tiles are part of the instructions, hence the macro.
 */
#define BLOCK(name, two_rows, two_columns)                                                         \
	WITH_AMX static void name(const struct amx *p, int64_t i, int64_t j)                       \
	{                                                                                          \
		const uint16_t *a = p->a + i * p->a_row, *b = p->b + j * p->k;                     \
		size_t a_step = (size_t)p->a_row * sizeof(*a),                                     \
		       c_step = (size_t)p->c_row * sizeof(float);                                  \
		float *c = p->c + i * p->c_row + j;                                                \
		_tile_zero(0);                                                                     \
		if (two_columns)                                                                   \
			_tile_zero(1);                                                             \
		if (two_rows)                                                                      \
			_tile_zero(2);                                                             \
		if ((two_rows) && (two_columns))                                                   \
			_tile_zero(3);                                                             \
		for (int64_t k = 0; k < p->k; k += AMX_DEPTH) {                                    \
			_tile_loadd(4, a + k, a_step);                                             \
			_tile_loadd(6, b + k * AMX_ROWS, 64);                                      \
			_tile_dpbf16ps(0, 4, 6);                                                   \
			if (two_columns) {                                                         \
				_tile_loadd(7, b + (p->k + k) * AMX_ROWS, 64);                     \
				_tile_dpbf16ps(1, 4, 7);                                           \
			}                                                                          \
			if (two_rows) {                                                            \
				_tile_loadd(5, a + AMX_ROWS * p->a_row + k, a_step);               \
				_tile_dpbf16ps(2, 5, 6);                                           \
			}                                                                          \
			if ((two_rows) && (two_columns))                                           \
				_tile_dpbf16ps(3, 5, 7);                                           \
		}                                                                                  \
		_tile_stored(0, c, c_step);                                                        \
		if (two_columns)                                                                   \
			_tile_stored(1, c + AMX_ROWS, c_step);                                     \
		if (two_rows)                                                                      \
			_tile_stored(2, c + AMX_ROWS * p->c_row, c_step);                          \
		if ((two_rows) && (two_columns))                                                   \
			_tile_stored(3, c + AMX_ROWS * p->c_row + AMX_ROWS, c_step);               \
	}
BLOCK(block_1x1, false, false)
BLOCK(block_1x2, false, true)
BLOCK(block_2x1, true, false)
BLOCK(block_2x2, true, true)

WITH_AMX void amx_multiply_v4(const struct amx *p)
{
	struct amx_configuration all = {.palette = 1};

	for (int t = 0; t < 8; t++) {
		all.row_bytes[t] = 64;
		all.rows[t] = AMX_ROWS;
	}
	_tile_loadconfig(&all);
	for (int64_t i = 0; i < p->m; i += 2 * AMX_ROWS)
		for (int64_t j = 0; j < p->n; j += 2 * AMX_ROWS) {
			bool rows = p->m - i > AMX_ROWS, columns = p->n - j > AMX_ROWS;
			if (rows && columns)
				block_2x2(p, i, j);
			else if (rows)
				block_2x1(p, i, j);
			else if (columns)
				block_1x2(p, i, j);
			else
				block_1x1(p, i, j);
		}
	_tile_release(); /* so that switches to other threads need not save the tiles */
}
/*
 * Computes 2^x for x of at most 0, with a relative error below 2^-12: 2^n by the exponent, and a polynomial of degree 3 for the rest,
 * which lies between -1/2 and 1/2. Below 2^-126 the result is 0: numbers that small take the processor a hundred times as
 * long. NaN stays NaN.
 */
static inline __m512 exp2_of(__m512 x)
{
	__mmask16 normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126), _CMP_NLT_UQ);
	x = _mm512_maskz_mov_ps(normal, x);
	__m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	__m512 r = _mm512_sub_ps(x, n), p = _mm512_set1_ps(0.0558020f);
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.2426294f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.6931275f));
	p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.9999247f));
	return _mm512_maskz_scalef_ps(normal, p, n);
}

__attribute__((target("avx512bf16"))) float amx_exp_sum_v4(const float *x, uint16_t *y, int64_t n,
							   float max, float scale)
{
	__m512 m = _mm512_set1_ps(max), s = _mm512_set1_ps(scale * 1.44269504f),
	       sum = _mm512_setzero_ps();

	for (int64_t i = 0; i < n; i += 16) {
		__mmask16 k = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : 0xffff;
		__m512 e =
			exp2_of(_mm512_mul_ps(_mm512_sub_ps(_mm512_maskz_loadu_ps(k, x + i), m), s));
		__m256bh half = _mm512_cvtneps_pbh(e);
		__m256i bits;
		memcpy(&bits, &half, sizeof(bits));
		_mm256_mask_storeu_epi16(y + i, k, bits);
		sum = _mm512_mask_add_ps(sum, k, sum, e);
	}
	return _mm512_reduce_add_ps(sum);
}
#else
extern int amx_needs_avx512; /* a file without declarations is no C */
#endif
