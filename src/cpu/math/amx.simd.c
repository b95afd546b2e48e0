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

/* Sets tiles up for the last rows and columns of C that two by two whole tiles leave. */
WITH_AMX static void configure(int64_t rows, int64_t columns)
{
	struct amx_configuration all = {.palette = 1};
	const uint8_t first = (uint8_t)(rows < AMX_ROWS ? rows : AMX_ROWS),
		      second = (uint8_t)(rows <= AMX_ROWS      ? AMX_ROWS
					 : rows < 2 * AMX_ROWS ? rows - AMX_ROWS
							       : AMX_ROWS);
	const uint16_t left = (uint16_t)(4 * (columns < AMX_ROWS ? columns : AMX_ROWS)),
		       right = (uint16_t)(4 * (columns <= AMX_ROWS	? AMX_ROWS
					       : columns < 2 * AMX_ROWS ? columns - AMX_ROWS
									: AMX_ROWS));

	/* 0 to 3: C, by rows; 4 and 5: A; 6 and 7: B */
	for (int t = 0; t < 8; t++) {
		bool lower = t == 2 || t == 3 || t == 5;
		all.rows[t] = t >= 6 ? AMX_ROWS : lower ? second : first;
		all.row_bytes[t] = t == 4 || t == 5 ? 64 : t % 2 ? right : left;
	}
	_tile_loadconfig(&all);
}

WITH_AMX static void block_of(const struct amx *p, int64_t i, int64_t j)
{
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

WITH_AMX void amx_multiply_v4(const struct amx *p, bool whole)
{
	enum { AT_ONCE = 2 * AMX_ROWS };
	const int64_t m = whole ? p->m : p->m / AT_ONCE * AT_ONCE,
		      n = whole ? p->n : p->n / AT_ONCE * AT_ONCE;

	if (m && n) { /* configuring costs as much as a few tiles */
		configure(AT_ONCE, AT_ONCE);
		for (int64_t i = 0; i < m; i += AT_ONCE)
			for (int64_t j = 0; j < n; j += AT_ONCE)
				block_of(p, i, j);
	}
	if (n < p->n && m) {
		configure(AT_ONCE, p->n - n);
		for (int64_t i = 0; i < m; i += AT_ONCE)
			block_of(p, i, n);
	}
	if (m < p->m && n) {
		configure(p->m - m, AT_ONCE);
		for (int64_t j = 0; j < n; j += AT_ONCE)
			block_of(p, m, j);
	}
	if (m < p->m && n < p->n) {
		configure(p->m - m, p->n - n);
		block_of(p, m, n);
	}
	_tile_release(); /* so that switches to other threads need not save the tiles */
}

#define WITH_BF16 __attribute__((target("avx512bf16")))
enum { DOT_ROWS = 6, DOT_BLOCKS = 8 };

/*
 * `rows` rows of A by `blocks` times 16 columns, from row i and column j on: so many sums side by side that none waits for itself. Both
 * numbers are constants where this is inlined.
 */
WITH_BF16 static inline __attribute__((always_inline)) void dots(const struct amx *p, int rows,
								 int blocks, int64_t i, int64_t j)
{
	const uint16_t *a = p->a + i * p->a_row, *b = p->b + j * p->k;
	__m512 sum[DOT_ROWS][DOT_BLOCKS];

	for (int r = 0; r < rows; r++)
		for (int c = 0; c < blocks; c++)
			sum[r][c] = _mm512_setzero_ps();
	for (int64_t k = 0; k < p->k; k += 2, b += AMX_DEPTH) {
		__m512i pair[DOT_ROWS];
		for (int r = 0; r < rows; r++) {
			int32_t both;
			memcpy(&both, a + r * p->a_row + k, sizeof(both));
			pair[r] = _mm512_set1_epi32(both);
		}
		for (int c = 0; c < blocks; c++) {
			__m512i line = _mm512_loadu_si512(b + c * AMX_ROWS * p->k);
			for (int r = 0; r < rows; r++)
				sum[r][c] = _mm512_dpbf16_ps(sum[r][c], (__m512bh)pair[r],
							     (__m512bh)line);
		}
	}
	for (int r = 0; r < rows; r++)
		for (int c = 0; c < blocks; c++) {
			int64_t left = p->n - j - c * AMX_ROWS;
			__mmask16 there = (__mmask16)(left < AMX_ROWS ? (1u << left) - 1 : 0xffffu);
			_mm512_mask_storeu_ps(p->c + (i + r) * p->c_row + j + c * AMX_ROWS, there,
					      sum[r][c]);
		}
}

/* Returns how many blocks of 16 columns are computed at once for this number of rows. */
static int64_t dot_blocks(int64_t rows)
{
	return rows <= 2 ? 8 : 4;
}

WITH_BF16 static void some_dots(const struct amx *p, int64_t rows, int64_t blocks, int64_t i,
				int64_t j)
{
	if (rows == 1 && blocks == 8)
		dots(p, 1, 8, i, j);
	else if (rows == 2 && blocks == 8)
		dots(p, 2, 8, i, j);
	else if (rows == 3 && blocks == 4)
		dots(p, 3, 4, i, j);
	else if (rows == 4 && blocks == 4)
		dots(p, 4, 4, i, j);
	else if (rows == 5 && blocks == 4)
		dots(p, 5, 4, i, j);
	else if (rows == 6 && blocks == 4)
		dots(p, 6, 4, i, j);
	else /* the last columns */
		for (int64_t c = 0; c < blocks; c++)
			for (int64_t r = 0; r < rows; r++)
				dots(p, 1, 1, i + r, j + c * AMX_ROWS);
}

void bf16_dots_v4(const struct amx *p, bool backwards)
{
	for (int64_t i = 0; i < p->m; i += DOT_ROWS) {
		int64_t rows = p->m - i < DOT_ROWS ? p->m - i : DOT_ROWS,
			all = (p->n + AMX_ROWS - 1) / AMX_ROWS, blocks = dot_blocks(rows),
			groups = (all + blocks - 1) / blocks;
		for (int64_t g = 0; g < groups; g++) {
			int64_t first = (backwards ? groups - 1 - g : g) * blocks;
			some_dots(p, rows, all - first < blocks ? all - first : blocks, i,
				  first * AMX_ROWS);
		}
	}
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
