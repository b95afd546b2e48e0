/* SPDX-License-Identifier: Apache-2.0 */
/* This file is compiled once for each SIMD_LEVEL; igemm.c chooses the level at run time. */
#include "cpu/math/igemm.h"

#include "cpu/math/amx.h"

#include <math.h>
#include <string.h>
#if SIMD_LEVEL >= 2
#include <immintrin.h>
#endif

#if SIMD_LEVEL >= 4
#define VEC	       __m512i
#define LANES	       16
#define LOAD(p)	       _mm512_loadu_si512(p)
#define STORE(p, v)    _mm512_storeu_si512(p, v)
#define ADD	       _mm512_add_epi32
#define MADD	       _mm512_madd_epi16
#define SPLAT(x)       _mm512_set1_epi32(x)
#define ZERO	       _mm512_setzero_si512()
#define LOW_U(v)       _mm512_and_si512(v, _mm512_set1_epi16(255))
#define HIGH_U(v)      _mm512_srli_epi16(v, 8)
#define HIGH_S(v)      _mm512_srai_epi16(v, 8)
#define BYTES	       _mm512_maddubs_epi16 /* sums of two products of unsigned and signed bytes */
#define ADD16	       _mm512_add_epi16
#define SUB	       _mm512_sub_epi32
#define SHIFT_DOWN2(v) _mm512_srai_epi32(v, 2)
#define WIDEN_U8(p)    _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define WIDEN_S8(p)    _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define MAX8	       _mm512_max_epi8
#define MIN8	       _mm512_min_epi8
#define ABOVE16(a, b)  _mm512_movm_epi16(_mm512_cmpgt_epi16_mask(a, b))
#define OR	       _mm512_or_si512
#define IS_ZERO(v)     (_mm512_test_epi32_mask(v, v) == 0)
#define XOR	       _mm512_xor_si512
#define AND	       _mm512_and_si512
#define SUBS8	       _mm512_subs_epi8
#define SHUFFLE8       _mm512_shuffle_epi8
#define SUB8	       _mm512_sub_epi8
#define SUB16	       _mm512_sub_epi16
#define SUBS16	       _mm512_subs_epu16
#define MAX16	       _mm512_max_epi16
#define MIN16	       _mm512_min_epi16
#define SHIFT_UP8(v)   _mm512_slli_epi16(v, 8)
#define EQUAL8(a, b)   _mm512_movm_epi8(_mm512_cmpeq_epi8_mask(a, b))
#define EQUAL32(a, b)  _mm512_movm_epi32(_mm512_cmpeq_epi32_mask(a, b))
#define MASK8(v)       ((uint64_t)_mm512_movepi8_mask(v))
#define LOW_S(v)       HIGH_S(_mm512_slli_epi16(v, 8))
#define ROWS	       8
#elif SIMD_LEVEL == 3
#define VEC	       __m256i
#define LANES	       8
#define LOAD(p)	       _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, v)    _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define ADD	       _mm256_add_epi32
#define MADD	       _mm256_madd_epi16
#define SPLAT(x)       _mm256_set1_epi32(x)
#define ZERO	       _mm256_setzero_si256()
#define LOW_U(v)       _mm256_and_si256(v, _mm256_set1_epi16(255))
#define HIGH_U(v)      _mm256_srli_epi16(v, 8)
#define HIGH_S(v)      _mm256_srai_epi16(v, 8)
#define BYTES	       _mm256_maddubs_epi16
#define ADD16	       _mm256_add_epi16
#define SUB	       _mm256_sub_epi32
#define SHIFT_DOWN2(v) _mm256_srai_epi32(v, 2)
#define WIDEN_U8(p)    _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define WIDEN_S8(p)    _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define MAX8	       _mm256_max_epi8
#define MIN8	       _mm256_min_epi8
#define ABOVE16	       _mm256_cmpgt_epi16
#define OR	       _mm256_or_si256
#define IS_ZERO(v)     _mm256_testz_si256(v, v)
#define XOR	       _mm256_xor_si256
#define AND	       _mm256_and_si256
#define SUBS8	       _mm256_subs_epi8
#define SHUFFLE8       _mm256_shuffle_epi8
#define SUB8	       _mm256_sub_epi8
#define SUB16	       _mm256_sub_epi16
#define SUBS16	       _mm256_subs_epu16
#define MAX16	       _mm256_max_epi16
#define MIN16	       _mm256_min_epi16
#define SHIFT_UP8(v)   _mm256_slli_epi16(v, 8)
#define EQUAL8	       _mm256_cmpeq_epi8
#define EQUAL32	       _mm256_cmpeq_epi32
#define MASK8(v)       ((uint64_t)(uint32_t)_mm256_movemask_epi8(v))
#define LOW_S(v)       HIGH_S(_mm256_slli_epi16(v, 8))
#define ROWS	       4
#elif SIMD_LEVEL == 2
#define VEC	       __m128i
#define LANES	       4
#define LOAD(p)	       _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STORE(p, v)    _mm_storeu_si128((__m128i *)(void *)(p), v)
#define ADD	       _mm_add_epi32
#define MADD	       _mm_madd_epi16
#define SPLAT(x)       _mm_set1_epi32(x)
#define ZERO	       _mm_setzero_si128()
#define LOW_U(v)       _mm_and_si128(v, _mm_set1_epi16(255))
#define HIGH_U(v)      _mm_srli_epi16(v, 8)
#define HIGH_S(v)      _mm_srai_epi16(v, 8)
#define BYTES	       _mm_maddubs_epi16
#define ADD16	       _mm_add_epi16
#define SUB	       _mm_sub_epi32
#define SHIFT_DOWN2(v) _mm_srai_epi32(v, 2)
#define WIDEN_U8(p)    _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define WIDEN_S8(p)    _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define MAX8	       _mm_max_epi8
#define MIN8	       _mm_min_epi8
#define ABOVE16	       _mm_cmpgt_epi16
#define OR	       _mm_or_si128
#define IS_ZERO(v)     _mm_testz_si128(v, v)
#define XOR	       _mm_xor_si128
#define AND	       _mm_and_si128
#define SUBS8	       _mm_subs_epi8
#define SHUFFLE8       _mm_shuffle_epi8
#define SUB8	       _mm_sub_epi8
#define SUB16	       _mm_sub_epi16
#define SUBS16	       _mm_subs_epu16
#define MAX16	       _mm_max_epi16
#define MIN16	       _mm_min_epi16
#define SHIFT_UP8(v)   _mm_slli_epi16(v, 8)
#define EQUAL8	       _mm_cmpeq_epi8
#define EQUAL32	       _mm_cmpeq_epi32
#define MASK8(v)       ((uint64_t)(uint32_t)_mm_movemask_epi8(v))
#define LOW_S(v)       HIGH_S(_mm_slli_epi16(v, 8))
#define ROWS	       2
#endif

enum { QUAD = 4 * IGEMM_NR }; /* bytes of a panel for four values of k */

#ifdef VEC
enum { VECS = IGEMM_NR / LANES };

/*
 * Number of panels that are multiplied by the same rows of A at once. The number of vector registers limits it:
 * PANELS_AT_ONCE is for a strip of ROWS rows, MAX_PANELS for a single row.
 */
enum { PANELS_AT_ONCE = LANES == 16 ? 2 : 1, MAX_PANELS = 4 };

/*
 * Defines the function `name`, which multiplies `rows` rows of A by n panels. PRODUCT is the body of the
 * loop over k: BY_FOURS if the machine has an instruction that sums four products of bytes (VNNI),
 * otherwise BY_PAIRS, which widens the bytes at even and odd positions to 16 bits and multiplies pairs.
 */
#define STRIP(name, attribute, PRODUCT)                                                            \
	attribute static inline __attribute__((always_inline)) void name(                          \
		const uint8_t *a, int64_t lda, const uint8_t *b, int64_t k4, int rows, int n,      \
		int32_t *c, int64_t ldc, const bool a_signed)                                      \
	{                                                                                          \
		VEC sum[ROWS][MAX_PANELS * VECS];                                                  \
		const uint8_t *at[MAX_PANELS];                                                     \
		for (int p = 0; p < n; p++)                                                        \
			at[p] = b + p * QUAD * k4;                                                 \
		for (int r = 0; r < rows; r++)                                                     \
			for (int v = 0; v < n * VECS; v++)                                         \
				sum[r][v] = ZERO;                                                  \
		for (int64_t k = 0; k < k4; k++, a += 4) {                                         \
			PRODUCT                                                                    \
			for (int p = 0; p < n; p++)                                                \
				at[p] += QUAD;                                                     \
		}                                                                                  \
		for (int r = 0; r < rows; r++)                                                     \
			for (int v = 0; v < n * VECS; v++)                                         \
				STORE(c + r * ldc + v * LANES, sum[r][v]);                         \
	}

#define BY_PAIRS                                                                                   \
	VEC low[MAX_PANELS * VECS], high[MAX_PANELS * VECS];                                       \
	for (int v = 0; v < n * VECS; v++) {                                                       \
		VEC y = LOAD(at[v / VECS] + 4 * LANES * (v % VECS));                               \
		low[v] = a_signed ? LOW_U(y) : LOW_S(y);                                           \
		high[v] = a_signed ? HIGH_U(y) : HIGH_S(y);                                        \
	}                                                                                          \
	for (int r = 0; r < rows; r++) {                                                           \
		int32_t four;                                                                      \
		memcpy(&four, a + r * lda, sizeof(four));                                          \
		VEC x = SPLAT(four);                                                               \
		VEC x0 = a_signed ? LOW_S(x) : LOW_U(x), x1 = a_signed ? HIGH_S(x) : HIGH_U(x);    \
		for (int v = 0; v < n * VECS; v++)                                                 \
			sum[r][v] = ADD(sum[r][v], ADD(MADD(x0, low[v]), MADD(x1, high[v])));      \
	}

/* Defines the function `name`, which multiplies all rows of A by all panels in strips of ROWS rows and of single rows. */
#define PANELS(name, attribute, strip)                                                             \
	attribute static inline __attribute__((always_inline)) void name##_strip(                  \
		const struct igemm_block *g, int64_t i, int rows, const bool a_signed)             \
	{                                                                                          \
		const uint8_t *a = g->a + i * g->lda;                                              \
		int32_t *c = g->c + i * g->ldc;                                                    \
		int64_t p = 0;                                                                     \
		for (; rows == 1 && p + MAX_PANELS <= g->panels; p += MAX_PANELS)                  \
			strip(a, g->lda, g->b + p * QUAD * g->k4, g->k4, rows, MAX_PANELS,         \
			      c + p * IGEMM_NR, g->ldc, a_signed);                                 \
		for (; p + PANELS_AT_ONCE <= g->panels; p += PANELS_AT_ONCE)                       \
			strip(a, g->lda, g->b + p * QUAD * g->k4, g->k4, rows, PANELS_AT_ONCE,     \
			      c + p * IGEMM_NR, g->ldc, a_signed);                                 \
		for (; p < g->panels; p++)                                                         \
			strip(a, g->lda, g->b + p * QUAD * g->k4, g->k4, rows, 1,                  \
			      c + p * IGEMM_NR, g->ldc, a_signed);                                 \
	}                                                                                          \
	attribute static inline __attribute__((always_inline)) void name##_as(                     \
		const struct igemm_block *g, const bool a_signed)                                  \
	{                                                                                          \
		int64_t i = 0;                                                                     \
		for (; i + ROWS <= g->m; i += ROWS)                                                \
			name##_strip(g, i, ROWS, a_signed);                                        \
		for (; i < g->m; i++)                                                              \
			name##_strip(g, i, 1, a_signed);                                           \
	}                                                                                          \
	attribute static void name(const struct igemm_block *g)                                    \
	{                                                                                          \
		if (g->a_signed)                                                                   \
			name##_as(g, true);                                                        \
		else                                                                               \
			name##_as(g, false);                                                       \
	}
#endif

#if SIMD_LEVEL >= 4
#define VNNI __attribute__((target("avx512vnni")))
#define BY_FOURS                                                                                   \
	VEC y[MAX_PANELS];                                                                         \
	for (int v = 0; v < n; v++)                                                                \
		y[v] = LOAD(at[v]);                                                                \
	for (int r = 0; r < rows; r++) {                                                           \
		int32_t four;                                                                      \
		memcpy(&four, a + r * lda, sizeof(four));                                          \
		VEC x = SPLAT(four);                                                               \
		for (int v = 0; v < n; v++)                                                        \
			sum[r][v] = a_signed ? _mm512_dpbusd_epi32(sum[r][v], y[v], x)             \
					     : _mm512_dpbusd_epi32(sum[r][v], x, y[v]);            \
	}
STRIP(strip_pairs, , BY_PAIRS)
PANELS(panels_pairs, , strip_pairs)
STRIP(strip_fours, VNNI, BY_FOURS)
PANELS(panels_fours, VNNI, strip_fours)

#define WITH_AMX __attribute__((target("amx-tile,amx-int8")))

/*
 * Multiplies one tile of rows by up to four panels. Tiles 0 to 3 hold the sums, tiles 4 and 6 the whole tiles of A and B. If k
 * is no multiple of a tile, its last values are in the shorter tiles 5 (A) and 7 (B). A panel stores four values of k for each of
 * its columns side by side, which is what one row of a tile holds.
 */
#define TILES(name, product)                                                                       \
	WITH_AMX static void name(const struct igemm_block *g, int64_t i)                          \
	{                                                                                          \
		const uint8_t *a = g->a + i * g->lda, *b = g->b;                                   \
		int64_t panel = QUAD * g->k4, whole = g->k4 / 16 * 16;                             \
		size_t lda = (size_t)g->lda, ldc = (size_t)g->ldc * sizeof(*g->c);                 \
		int32_t *c = g->c + i * g->ldc;                                                    \
		_tile_zero(0);                                                                     \
		_tile_zero(1);                                                                     \
		_tile_zero(2);                                                                     \
		_tile_zero(3);                                                                     \
		for (int64_t k = 0; k < whole; k += 16) {                                          \
			_tile_loadd(4, a + 4 * k, lda);                                            \
			FOR_PANELS(6, 4, product, b + k * QUAD)                                    \
		}                                                                                  \
		if (whole < g->k4) {                                                               \
			_tile_loadd(5, a + 4 * whole, lda);                                        \
			FOR_PANELS(7, 5, product, b + whole * QUAD)                                \
		}                                                                                  \
		_tile_stored(0, c, ldc);                                                           \
		if (g->panels > 1)                                                                 \
			_tile_stored(1, c + IGEMM_NR, ldc);                                        \
		if (g->panels > 2)                                                                 \
			_tile_stored(2, c + 2 * IGEMM_NR, ldc);                                    \
		if (g->panels > 3)                                                                 \
			_tile_stored(3, c + 3 * IGEMM_NR, ldc);                                    \
	}
#define FOR_PANELS(to, rows, product, at)                                                          \
	_tile_loadd(to, at, QUAD);                                                                 \
	product(0, rows, to);                                                                      \
	if (g->panels > 1) {                                                                       \
		_tile_loadd(to, (at) + panel, QUAD);                                               \
		product(1, rows, to);                                                              \
	}                                                                                          \
	if (g->panels > 2) {                                                                       \
		_tile_loadd(to, (at) + 2 * panel, QUAD);                                           \
		product(2, rows, to);                                                              \
	}                                                                                          \
	if (g->panels > 3) {                                                                       \
		_tile_loadd(to, (at) + 3 * panel, QUAD);                                           \
		product(3, rows, to);                                                              \
	}
TILES(tiles_signed, _tile_dpbsud)
TILES(tiles_unsigned, _tile_dpbusd)

WITH_AMX static void panels_amx(const struct igemm_block *g)
{
	for (int64_t i = 0; i < g->m; i += 16) {
		uint8_t rows = g->m - i < 16 ? (uint8_t)(g->m - i) : 16, left = (uint8_t)(g->k4 % 16);
		struct amx_configuration all = {.palette = 1};
		for (int t = 0; t < 8; t++) {
			all.rows[t] = t < 6 ? rows : 16;
			all.row_bytes[t] = 64;
		}
		if (left) {
			all.row_bytes[5] = (uint16_t)(4 * left);
			all.rows[7] = left;
		}
		if (i == 0 || rows < 16)
			_tile_loadconfig(&all);
		if (g->a_signed)
			tiles_signed(g, i);
		else
			tiles_unsigned(g, i);
	}
	_tile_release();
}

static void panels(const struct igemm_block *g)
{
	enum {
		MIN_ROWS = 4,
		MAX_TILES = 4
	}; /* a tile takes as long with one row as with sixteen */

	if (g->m >= MIN_ROWS && g->panels <= MAX_TILES && amx_usable())
		panels_amx(g);
	else
		panels_fours(g);
}
#elif defined(VEC)
STRIP(strip_pairs, , BY_PAIRS)
PANELS(panels, , strip_pairs)
#endif

#ifdef VEC
/*
 * With many rows, bytes are widened to 16 bits beforehand: then the loop over k has nothing to do but multiply pairs and add. Four
 * values of k become two pairs, of the even and of the odd ones, in the rows as in the panel. The rows of a strip lie side by side.
 */
enum { STRIP_ROWS = 6 };

/* Returns how many of the rows that are left the next strip has. What remains beyond whole strips is halved. */
static int strip_rows(int64_t left)
{
	return left >= 2 * STRIP_ROWS ? STRIP_ROWS
	       : left > STRIP_ROWS    ? (int)((left + 1) / 2)
				      : (int)left;
}

/* Widens k4 groups of four rows of a panel: first the even, then the odd ones of a group, of all columns. */
static inline __attribute__((always_inline)) void widen_panel(const uint8_t *x, int64_t k4,
							      int16_t *to, const bool is_signed)
{
	for (int64_t k = 0; k < k4; k++, x += QUAD, to += QUAD)
		for (int v = 0; v < VECS; v++) {
			VEC y = LOAD(x + 4 * LANES * v);
			STORE(to + 2 * LANES * v, is_signed ? LOW_S(y) : LOW_U(y));
			STORE(to + QUAD / 2 + 2 * LANES * v, is_signed ? HIGH_S(y) : HIGH_U(y));
		}
}

/* Interleaves lanes of 32 bits: the first of a, the first of b, the second of a, ... in two vectors. */
static inline void interleave(VEC a, VEC b, VEC *first, VEC *second)
{
#if LANES == 16
	const VEC order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
	*first = _mm512_permutex2var_epi32(a, order, b);
	*second = _mm512_permutex2var_epi32(a, ADD(order, SPLAT(8)), b);
#elif LANES == 8
	VEC low = _mm256_unpacklo_epi32(a, b), high = _mm256_unpackhi_epi32(a, b);
	*first = _mm256_permute2x128_si256(low, high, 0x20);
	*second = _mm256_permute2x128_si256(low, high, 0x31);
#else
	*first = _mm_unpacklo_epi32(a, b);
	*second = _mm_unpackhi_epi32(a, b);
#endif
}

/* Widens k4 groups of four of a row: a group's pairs lie side by side, as the loop over k reads them. */
static inline __attribute__((always_inline)) void widen_row(const uint8_t *x, int64_t k4,
							    int16_t *to, const bool is_signed)
{
	int64_t k = 0;

	for (; k + LANES <= k4; k += LANES, x += 4 * LANES, to += 4 * LANES) {
		VEC v = LOAD(x), first, second;
		interleave(is_signed ? LOW_S(v) : LOW_U(v), is_signed ? HIGH_S(v) : HIGH_U(v),
			   &first, &second);
		STORE(to, first);
		STORE(to + 2 * LANES, second);
	}
	for (; k < k4; k++, x += 4, to += 4)
		for (int i = 0; i < 4; i++) {
			uint8_t v = x[2 * (i % 2) + i / 2];
			to[i] = is_signed ? (int8_t)v : v;
		}
}

/*
 * An empty instruction that needs both sums in registers. Without it gcc loads all rows before it multiplies the first, for which
 * the registers do not suffice, and keeps sums in memory. ADD_TO adds in place; a plain ADD gets a copy of the register besides.
 */
#define KEEP_ORDER(x, y) __asm__ volatile("" : "+x"(x), "+x"(y))
#if SIMD_LEVEL >= 4
#undef KEEP_ORDER
#define KEEP_ORDER(x, y)
#define ADD_TO(sum, x) __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(x))
#elif SIMD_LEVEL == 3
#define ADD_TO(sum, x) __asm__("vpaddd %1, %0, %0" : "+x"(sum) : "x"(x))
#else
#define ADD_TO(sum, x) ((sum) = ADD(sum, x))
#endif

/* The sums of row r of a strip, in two vectors, or one if not `two`: from c unless they are the first, and back. */
#define SUMS_START(r)                                                                              \
	VEC c0_##r = ZERO, c1_##r = ZERO;                                                          \
	if (rows > (r) && !first) {                                                                \
		c0_##r = LOAD(c + (r)*ldc);                                                        \
		if (two)                                                                           \
			c1_##r = LOAD(c + (r)*ldc + LANES);                                        \
	}
#define SUMS_STORE(r)                                                                              \
	if (rows > (r)) {                                                                          \
		STORE(c + (r)*ldc, c0_##r);                                                        \
		if (two)                                                                           \
			STORE(c + (r)*ldc + LANES, c1_##r);                                        \
	}
/* The second of two vectors of columns, if there are `two`: a vector may be a panel's width. */
#define LOAD_SECOND(p) (two ? LOAD(p) : ZERO)

/*
 * Adds the products of `rows` rows with two vectors of a panel's columns to c, or stores them if `first`. The sums have names so that
 * they stay in registers. `rows` is a constant where this is inlined.
 */
static inline __attribute__((always_inline)) void wide_strip(const int16_t *a, const int16_t *b,
							     int64_t k4, int rows, int32_t *c,
							     int64_t ldc, bool first)
{
#define WIDE_EACH(F) F(0) F(1) F(2) F(3) F(4) F(5)
#define WIDE_PAIR(r)                                                                               \
	if (rows > (r)) {                                                                          \
		memcpy(&pair, a + 2 * (r), sizeof(pair));                                          \
		ADD_TO(c0_##r, MADD(SPLAT(pair), b0));                                             \
		if (two)                                                                           \
			ADD_TO(c1_##r, MADD(SPLAT(pair), b1));                                     \
		KEEP_ORDER(c0_##r, c1_##r);                                                        \
	}
	const bool two = VECS > 1;

	WIDE_EACH(SUMS_START)
	for (int64_t k = 0; k < k4; k++) {
		for (int i = 0; i < 2; i++, a += 2 * rows, b += QUAD / 2) {
			VEC b0 = LOAD(b), b1 = LOAD_SECOND(b + 2 * LANES);
			int32_t pair;
			WIDE_EACH(WIDE_PAIR)
		}
	}
	WIDE_EACH(SUMS_STORE)
#undef WIDE_PAIR
}

/* The products of all rows with two vectors of columns. */
static void wide_columns(const int16_t *a, const int16_t *b, int64_t k4, int64_t m, int32_t *c,
			 int64_t ldc, bool first)
{
	for (int64_t left = m, rows; left > 0; left -= rows, a += rows * 4 * k4, c += rows * ldc) {
		rows = strip_rows(left);
#define WIDE_STRIP(n)                                                                              \
	case n: wide_strip(a, b, k4, n, c, ldc, first); break;
		switch (rows) {
			WIDE_STRIP(1)
			WIDE_STRIP(2)
			WIDE_STRIP(3)
			WIDE_STRIP(4)
			WIDE_STRIP(5)
			WIDE_STRIP(6)
		}
#undef WIDE_STRIP
	}
}

static void widen(const uint8_t *a, int64_t lda, int64_t m, int64_t k4, bool is_signed, int16_t *to)
{
	int16_t row[4 * IGEMM_WIDE_K4];

	for (int64_t left = m, rows; left > 0; left -= rows, to += rows * 4 * k4) {
		rows = strip_rows(left);
		for (int64_t r = 0; r < rows; r++, a += lda) {
			if (is_signed)
				widen_row(a, k4, row, true);
			else
				widen_row(a, k4, row, false);
			for (int64_t k = 0; k < 2 * k4; k++)
				memcpy(to + 2 * (k * rows + r), row + 2 * k, 2 * sizeof(*row));
		}
	}
}

static void panels_wide(const struct igemm_block *g, const int16_t *a)
{
	__attribute__((aligned(64))) int16_t b[QUAD * IGEMM_WIDE_K4];

	for (int64_t k = 0; k < g->k4; k += IGEMM_WIDE_K4) {
		int64_t k4 = g->k4 - k < IGEMM_WIDE_K4 ? g->k4 - k : IGEMM_WIDE_K4;
		for (int64_t p = 0; p < g->panels; p++) {
			const uint8_t *panel = g->b + (p * g->k4 + k) * QUAD;
			if (g->a_signed)
				widen_panel(panel, k4, b, false);
			else
				widen_panel(panel, k4, b, true);
			for (int v = 0; v < VECS; v += 2)
				wide_columns(a + g->m * 4 * k, b + 2 * LANES * v, k4, g->m,
					     g->c + p * IGEMM_NR + v * LANES, g->ldc, k == 0);
		}
	}
}

/* The greatest sum that two neighbouring bytes of a clipped row may have. Of signed bytes, the positive ones and the negative ones count apart. */
enum { SIGNED_SUM = 128, UNSIGNED_SUM = 256 };

/* Takes as much off four numbers as fits in bytes whose neighbours' sums are small enough. Returns whether something is left of them. */
static bool clip_four(int *x, bool is_signed, uint8_t *to)
{
	int left = 0;

	for (int i = 0; i < 4; i += 2) {
		int most = is_signed ? 127 : 255, least = is_signed ? -128 : 0;
		int sum = is_signed ? SIGNED_SUM : UNSIGNED_SUM, down = is_signed ? -SIGNED_SUM : 0;
		int u = x[i] > most ? most : x[i] < least ? least : x[i];
		int up = u > 0 ? sum - u : sum, low = u < 0 ? down - u : down, v = x[i + 1];
		most = up < most ? up : most;
		least = low > least ? low : least;
		v = v > most ? most : v < least ? least : v;
		to[i] = (uint8_t)u;
		to[i + 1] = (uint8_t)v;
		x[i] -= u;
		x[i + 1] -= v;
		left |= x[i] | x[i + 1];
	}
	return left;
}

/* Bits of a vector's bytes: those of pairs that must be clipped, and codes that may have been too large for a byte. */
struct over {
	uint64_t pairs, codes;
};

/* Writes a vector of codes, less the zero point, and says which of them must be clipped. */
static inline __attribute__((always_inline)) struct over clip_vector(const uint8_t *a, bool is_signed,
								     VEC zero, uint8_t *to)
{
	const VEC ones = SPLAT(0x01010101), flip = SPLAT((int)0x80808080);
	VEC x = LOAD(a);

	if (!is_signed) {
		STORE(to, x);
		return (struct over){
			MASK8(ABOVE16(BYTES(x, ones), SPLAT(UNSIGNED_SUM * 0x00010001))), 0};
	}
	VEC v = SUBS8(XOR(x, flip), zero);
	VEC up = ABOVE16(BYTES(ones, MAX8(v, ZERO)), SPLAT(SIGNED_SUM * 0x00010001));
	VEC down = ABOVE16(SPLAT((int)0xff80ff80), BYTES(ones, MIN8(v, ZERO)));
	VEC ends = OR(EQUAL8(v, SPLAT(0x7f7f7f7f)), EQUAL8(v, flip));
	STORE(to, v);
	return (struct over){MASK8(OR(up, down)), MASK8(ends)};
}

struct clipping {
	const uint8_t *a;
	int64_t k;
	int32_t zero;
	bool is_signed;
	uint8_t *to;
	struct igemm_rest *rest;
	int64_t n, most; /* of the remainders */
	int64_t spare;	 /* bytes behind the row that may be read, and written behind `to` */
};

static void add_four(struct clipping *j, int64_t i, const uint8_t *four)
{
	if (j->n < j->most) {
		j->rest[j->n].at = (int32_t)(i / 4);
		memcpy(j->rest[j->n].value, four, 4);
	}
	j->n++;
}

/* Clips the fours of a vector that begins at code i. */
static void clip_fours(struct clipping *j, int64_t i, uint64_t over)
{
	for (; over; over >>= 4, i += 4) {
		int x[4];
		uint8_t four[4];
		if (!(over & 15))
			continue;
		for (int64_t e = 0; e < 4; e++)
			x[e] = i + e < j->k ? j->a[i + e] - j->zero : 0;
		bool left = clip_four(x, j->is_signed, j->to + i);
		while (left) {
			left = clip_four(x, j->is_signed, four);
			add_four(j, i, four);
		}
	}
}

/* Takes off the odd codes of a vector, n from i on, by how much pairs are too large. */
static void take_excess(struct clipping *j, int64_t i, int64_t n)
{
	const VEC ones = SPLAT(0x01010101);
	const VEC most = SPLAT((j->is_signed ? SIGNED_SUM : UNSIGNED_SUM) * 0x00010001);
	uint8_t codes[4 * LANES] = {0}, lost[4 * LANES];

	bool whole = n == 4 * LANES;
	memcpy(codes, j->to + i, whole ? 0 : (size_t)n);
	VEC v = LOAD(whole ? j->to + i : codes), excess = SHIFT_UP8(SUBS16(BYTES(v, ones), most));
	if (j->is_signed) {
		/* never more than the odd code has, for the even one is at most the bound */
		VEC up = SUBS16(BYTES(ones, MAX8(v, ZERO)), most);
		VEC down = SUBS16(SUB16(ZERO, BYTES(ones, MIN8(v, ZERO))), most);
		excess = SHIFT_UP8(SUB16(up, down));
	}
	STORE(whole ? j->to + i : codes, SUB8(v, excess));
	STORE(lost, excess);
	memcpy(j->to + i, codes, whole ? 0 : (size_t)n);
	/* of the fours that have lost something, the bits of their first bytes; nothing is lost behind n */
	for (uint64_t some = ~MASK8(EQUAL32(excess, ZERO)) &
			     UINT64_C(0x1111111111111111) >> (64 - 4 * LANES);
	     some; some &= some - 1)
		add_four(j, i + __builtin_ctzll(some), lost + __builtin_ctzll(some));
}

/* Makes the bytes of a vector from place n on equal to `fill`. */
static inline VEC fill_from(VEC v, int64_t n, int fill)
{
	static const int32_t edge[2][LANES] = {[1] = {-1, -1, -1, -1,
#if LANES >= 8
						      -1, -1, -1, -1,
#endif
#if LANES >= 16
						      -1, -1, -1, -1, -1, -1, -1, -1
#endif
					       }};
	VEC behind = LOAD((const uint8_t *)edge + 4 * LANES - n);

	return XOR(v, AND(behind, XOR(v, SPLAT((int)((unsigned)fill * 0x01010101u)))));
}

static inline __attribute__((always_inline)) int64_t clip_as(struct clipping j, const bool is_signed)
{
	enum { STEP = 4 * LANES };
	const VEC z = SPLAT((int)((uint8_t)(j.zero ^ IGEMM_FLIP) * 0x01010101u));
	uint8_t last[STEP];

	for (int64_t i = 0, end = igemm_depth(j.k); i < end && j.n <= j.most; i += STEP) {
		struct over over;
		if (i + STEP <= j.k) {
			over = clip_vector(j.a + i, is_signed, z, j.to + i);
		} else {
			bool room = i + STEP <= end + j.spare;
			const uint8_t *from = room ? j.a + i : last;
			memcpy(last, j.a + i, room ? 0 : (size_t)(end - i));
			STORE(last, fill_from(LOAD(from), j.k - i, is_signed ? j.zero : 0));
			over = clip_vector(last, is_signed, z, room ? j.to + i : last);
			memcpy(j.to + i, last, room ? 0 : (size_t)(end - i));
		}
		if (over.codes)
			clip_fours(&j, i, over.pairs | over.codes);
		else if (over.pairs)
			take_excess(&j, i, end - i < STEP ? end - i : STEP);
	}
	return j.n > j.most ? -1 : j.n;
}

static int64_t clip(const uint8_t *a, int64_t k, bool is_signed, int32_t zero, uint8_t *to,
		    struct igemm_rest *rest, int64_t most, int64_t spare)
{
	struct clipping j = {.a = a,
			     .k = k,
			     .zero = is_signed ? zero : 0,
			     .is_signed = is_signed,
			     .to = to,
			     .rest = rest,
			     .most = most,
			     .spare = spare};

	return is_signed ? clip_as(j, true) : clip_as(j, false);
}

enum { CLIPPED_ROWS = LANES == 16 ? 12 : 5 };

/*
 * The piece of B that is multiplied at once: one or two vectors of columns, of which it has k4 groups of four values, beginning with group k. The second vector
 * belongs to the same panel, or to the next one if one vector has all columns of a panel. `next` is the piece that comes after it, which is prefetched.
 */
struct part {
	const uint8_t *b;
	int64_t second; /* bytes from the first vector to the second one */
	int64_t k, k4;
	const uint8_t *next;
};

/*
 * Multiplies `rows` clipped rows by a part. Adds the products to c, or stores them there if k is 0. One of A and B is signed and the other one is not:
 * a_signed says which. It, `two` and `rows` are constants where this is inlined.
 */
static inline __attribute__((always_inline)) void clipped_strip(const struct igemm_block *g,
								const bool a_signed, const bool two,
								int rows, int64_t m,
								const struct part *at, int32_t *c)
{
#define CLIPPED_EACH(F)	   F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define CLIPPED_SUMS(x, y) (a_signed ? BYTES(y, x) : BYTES(x, y))
#define CLIPPED_FOUR(r)                                                                            \
	if (rows > (r)) {                                                                          \
		memcpy(&four, a + (r)*lda, sizeof(four));                                          \
		VEC x = SPLAT(four);                                                               \
		ADD_TO(c0_##r, MADD(CLIPPED_SUMS(x, b0), ones));                                   \
		if (two)                                                                           \
			ADD_TO(c1_##r, MADD(CLIPPED_SUMS(x, b1), ones));                           \
		KEEP_ORDER(c0_##r, c1_##r);                                                        \
	}
#define CLIPPED_START(r)                                                                           \
	if (rows > (r))                                                                            \
		c0_##r = c1_##r = SPLAT(start[(r)*g->start_row]);
	const int64_t lda = g->lda, ldc = g->ldc, second = at->second;
	const uint8_t *a = g->a + m * lda + 4 * at->k, *b = at->b;
	const bool first = at->k == 0;
	const VEC ones = SPLAT(0x00010001);
	int32_t four;

	c += m * ldc;
	CLIPPED_EACH(SUMS_START)
	if (g->start && first) {
		const int32_t *start = g->start + m * g->start_row;
		CLIPPED_EACH(CLIPPED_START)
	}
	for (int64_t i = 0; i < at->k4; i++, a += 4, b += QUAD) {
		VEC b0 = LOAD(b), b1 = LOAD_SECOND(b + second);
		CLIPPED_EACH(CLIPPED_FOUR)
	}
	CLIPPED_EACH(SUMS_STORE)
#undef CLIPPED_START
#undef CLIPPED_FOUR
#undef CLIPPED_SUMS
#undef CLIPPED_EACH
}

/* The products of all rows with a part. */
static inline __attribute__((always_inline)) void clipped_columns(const struct igemm_block *g,
								  const bool a_signed, const bool two,
								  const struct part *at, int32_t *c)
{
	int64_t ahead = 0;

	for (int64_t m = 0, rows; m < g->m; m += rows) {
		int64_t left = g->m - m;
		/* what remains beyond whole strips is halved */
		rows = left >= 2 * CLIPPED_ROWS ? CLIPPED_ROWS
		       : left > CLIPPED_ROWS	? (left + 1) / 2
						: left;
		for (int64_t end = at->k4 * (m + rows) / g->m; ahead < end; ahead++) {
			_mm_prefetch((const char *)at->next + ahead * QUAD, _MM_HINT_T0);
			if (two && VECS == 1)
				_mm_prefetch((const char *)at->next + (g->k4 + ahead) * QUAD,
					     _MM_HINT_T0);
		}
		switch (rows) {
#define CLIPPED_STRIP(n)                                                                           \
	case n:                                                                                    \
		if (n <= CLIPPED_ROWS)                                                             \
			clipped_strip(g, a_signed, two, n, m, at, c);                              \
		break;
			CLIPPED_STRIP(1)
			CLIPPED_STRIP(2)
			CLIPPED_STRIP(3)
			CLIPPED_STRIP(4)
			CLIPPED_STRIP(5)
			CLIPPED_STRIP(6)
			CLIPPED_STRIP(7)
			CLIPPED_STRIP(8)
			CLIPPED_STRIP(9)
			CLIPPED_STRIP(10)
			CLIPPED_STRIP(11)
			CLIPPED_STRIP(12)
#undef CLIPPED_STRIP
		}
	}
}

static void clipped_part(const struct igemm_block *g, const bool two, struct part at, int32_t *c)
{
	if (g->a_signed && two)
		clipped_columns(g, true, true, &at, c);
	else if (two)
		clipped_columns(g, false, true, &at, c);
	else if (g->a_signed)
		clipped_columns(g, true, false, &at, c);
	else
		clipped_columns(g, false, false, &at, c);
}

static void panels_clipped(const struct igemm_block *g)
{
	enum { K4_AT_ONCE = 128, PAIR = VECS > 1 ? 1 : 2 }; /* panels of two vectors */
	__attribute__((aligned(64))) uint8_t moved[PAIR * QUAD * K4_AT_ONCE];
	const VEC flip = SPLAT((int)0x80808080);

	for (int64_t k = 0; k < g->k4; k += K4_AT_ONCE) {
		int64_t k4 = g->k4 - k < K4_AT_ONCE ? g->k4 - k : K4_AT_ONCE;
		for (int64_t p = 0, n; p < g->panels; p += n) {
			const uint8_t *b = g->b + (p * g->k4 + k) * QUAD, *next = b + k4 * QUAD;
			n = g->panels - p < PAIR ? g->panels - p : PAIR;
			if (p + n < g->panels)
				next = b + n * g->k4 * QUAD;
			else if (k + k4 < g->k4)
				next = g->b + (k + k4) * QUAD;
			for (int64_t i = 0; i < n * k4 * QUAD && g->a_signed; i += 4 * LANES)
				STORE(moved + i,
				      XOR(LOAD(b + i % (k4 * QUAD) + i / (k4 * QUAD) * g->k4 * QUAD),
					  flip));
			struct part at = {g->a_signed ? moved : b,
					  VECS > 1	? 4 * LANES
					  : g->a_signed ? k4 * QUAD
							: g->k4 * QUAD,
					  k, k4, next};
			for (int v = 0; v < VECS; v += 2, at.b += 8 * LANES)
				clipped_part(g, VECS > 1 || n > 1, at,
					     g->c + p * IGEMM_NR + v * LANES);
		}
	}
}

/* Adds the products of remainders with some panels from p on; their number is a constant where this is inlined. */
static inline __attribute__((always_inline)) void add_rest_to(const struct igemm_block *g,
							      const struct igemm_rest *rest, int64_t n,
							      int64_t p, int panels, int32_t *c)
{
	const VEC flip = g->a_signed ? SPLAT((int)0x80808080) : ZERO, ones = SPLAT(0x00010001);
	VEC sum[MAX_PANELS * VECS];

	c += p * IGEMM_NR;
	for (int v = 0; v < panels * VECS; v++)
		sum[v] = LOAD(c + v * LANES);
	for (int64_t i = 0; i < n; i++) {
		const uint8_t *b = g->b + (p * g->k4 + rest[i].at) * QUAD;
		int32_t four;
		memcpy(&four, rest[i].value, sizeof(four));
		VEC x = SPLAT(four);
		for (int v = 0; v < panels * VECS; v++) {
			VEC y = LOAD(b + v / VECS * QUAD * g->k4 + 4 * LANES * (v % VECS));
			VEC s = g->a_signed ? BYTES(XOR(y, flip), x) : BYTES(x, y);
			ADD_TO(sum[v], MADD(s, ones));
		}
	}
	for (int v = 0; v < panels * VECS; v++)
		STORE(c + v * LANES, sum[v]);
}

static void add_rest(const struct igemm_block *g, const struct igemm_rest *rest, int64_t n, int32_t *c)
{
	int64_t p = 0;

	for (; p + MAX_PANELS <= g->panels; p += MAX_PANELS)
		add_rest_to(g, rest, n, p, MAX_PANELS, c);
	for (; p < g->panels; p++)
		add_rest_to(g, rest, n, p, 1, c);
}

/*
 * Convolutions with windows of 3 x 3 by tiles of 2 x 2 outputs, which 4 x 4 codes make (Winograd's F(2 x 2, 3 x 3)): 16 products, one for each
 * point of a tile, in place of 36. Codes and weights become numbers of 16 bits; with the weights' matrix doubled they are integers, and the sums four
 * times the convolution's.
 */
enum { WORD_ROWS = LANES == 16 ? 8 : 6 };

/* The products of `rows` rows of pairs with two vectors of a panel's columns. `rows` is a constant where this is inlined. */
static inline __attribute__((always_inline)) void words_strip(const int16_t *a, int64_t lda,
							      const int16_t *b, int64_t pairs,
							      int rows, int32_t *c)
{
#define WORDS_EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define WORDS_PAIR(r)                                                                              \
	if (rows > (r)) {                                                                          \
		memcpy(&pair, a + (r)*lda, sizeof(pair));                                          \
		VEC x = SPLAT(pair);                                                               \
		ADD_TO(c0_##r, MADD(x, b0));                                                       \
		if (two)                                                                           \
			ADD_TO(c1_##r, MADD(x, b1));                                               \
		KEEP_ORDER(c0_##r, c1_##r);                                                        \
	}
	const bool first = true, two = VECS > 1;
	const int64_t ldc = IGEMM_NR;
	int32_t pair;

	WORDS_EACH(SUMS_START)
	for (int64_t k = 0; k < pairs; k++, a += 2, b += 2 * IGEMM_NR) {
		VEC b0 = LOAD(b), b1 = LOAD_SECOND(b + 2 * LANES);
		WORDS_EACH(WORDS_PAIR)
	}
	WORDS_EACH(SUMS_STORE)
#undef WORDS_PAIR
#undef WORDS_EACH
}

static void words(const int16_t *a, int64_t lda, const int16_t *b, int64_t k, int64_t m, int32_t *c)
{
	for (int64_t left = m, rows; left > 0; left -= rows, a += rows * lda, c += rows * IGEMM_NR) {
		rows = left >= 2 * WORD_ROWS ? WORD_ROWS : left > WORD_ROWS ? (left + 1) / 2 : left;
		for (int v = 0; v < VECS; v += 2)
#define WORDS_STRIP(n)                                                                             \
	case n:                                                                                    \
		if (n <= WORD_ROWS)                                                                \
			words_strip(a, lda, b + 2 * LANES * v, k / 2, n, c + v * LANES);           \
		break;
			switch (rows) {
				WORDS_STRIP(1)
				WORDS_STRIP(2)
				WORDS_STRIP(3)
				WORDS_STRIP(4)
				WORDS_STRIP(5)
				WORDS_STRIP(6)
				WORDS_STRIP(7)
				WORDS_STRIP(8)
			}
#undef WORDS_STRIP
	}
}

/* Transforms four points of a tile, which are `step` vectors apart, in place: first those of each row of points, then those of each column. */
static inline void transform_four(VEC *v, int step)
{
	VEC a = v[0], b = v[step], c = v[2 * step], d = v[3 * step];

	v[0] = SUB16(a, c);
	v[step] = ADD16(b, c);
	v[2 * step] = SUB16(c, b);
	v[3 * step] = SUB16(b, d);
}

static inline __attribute__((always_inline)) void tile_codes_as(const uint8_t *const *pixel, int64_t n,
								const bool is_signed, int32_t zero,
								int16_t *to, int64_t point)
{
	enum { STEP = 2 * LANES };
	const VEC z = SPLAT((int32_t)(((uint32_t)zero & 0xffff) * 0x10001u));
	uint8_t last[IGEMM_POINTS][STEP];
	VEC v[IGEMM_POINTS];

	for (int64_t k = 0; k < (n + IGEMM_WORDS - 1) / IGEMM_WORDS * IGEMM_WORDS; k += STEP) {
		for (int p = 0; p < IGEMM_POINTS; p++) {
			const uint8_t *from = last[p];
			if (k + STEP <= n) {
				from = pixel[p] + k;
			} else {
				memset(last[p], zero, STEP);
				if (k < n)
					memcpy(last[p], pixel[p] + k, (size_t)(n - k));
			}
			v[p] = SUB16(is_signed ? WIDEN_S8(from) : WIDEN_U8(from), z);
		}
		for (int i = 0; i < 4; i++)
			transform_four(v + 4 * i, 1);
		for (int i = 0; i < 4; i++)
			transform_four(v + i, 4);
		for (int p = 0; p < IGEMM_POINTS; p++)
			STORE(to + p * point + k, v[p]);
	}
}

static void tile_codes(const uint8_t *const *pixel, int64_t n, bool is_signed, int32_t zero,
		       int16_t *to, int64_t point)
{
	if (is_signed)
		tile_codes_as(pixel, n, true, zero, to, point);
	else
		tile_codes_as(pixel, n, false, zero, to, point);
}

static void tile_sums(const int32_t *c, int64_t point, int32_t *y)
{
	for (int v = 0; v < VECS; v++, c += LANES, y += LANES) {
		VEC s[4], d[4];
		for (int i = 0; i < 4; i++) {
			const int32_t *at = c + 4 * i * point;
			VEC m1 = LOAD(at + point), m2 = LOAD(at + 2 * point);
			s[i] = ADD(ADD(LOAD(at), m1), m2);
			d[i] = SUB(SUB(m1, m2), LOAD(at + 3 * point));
		}
		STORE(y, SHIFT_DOWN2(ADD(ADD(s[0], s[1]), s[2])));
		STORE(y + IGEMM_NR, SHIFT_DOWN2(ADD(ADD(d[0], d[1]), d[2])));
		STORE(y + 2 * IGEMM_NR, SHIFT_DOWN2(SUB(SUB(s[1], s[2]), s[3])));
		STORE(y + 3 * IGEMM_NR, SHIFT_DOWN2(SUB(SUB(d[1], d[2]), d[3])));
	}
}

static bool pairs_fit(const uint8_t *panel, int64_t k4)
{
	const VEC ones = SPLAT(0x01010101), most = SPLAT(0x00800080), least = SPLAT((int)0xff80ff80);
	VEC over = ZERO;

	for (int64_t i = 0; i < k4 * QUAD; i += 4 * LANES) {
		VEC x = LOAD(panel + i);
		over = OR(over, OR(ABOVE16(BYTES(ones, MAX8(x, ZERO)), most),
				   ABOVE16(least, BYTES(ones, MIN8(x, ZERO)))));
	}
	return IS_ZERO(over);
}

/* Whether sums of the products of a group with bytes of up to 255 fit in 16 bits: two pairs of weights at a time. */
static bool group_fits(const uint8_t *w)
{
	const VEC ones = SPLAT(0x01010101), most = SPLAT(0x00800080), least = SPLAT((int)0xff80ff80);
	VEC over = ZERO;

	for (int i = 0; i < QUAD; i += 4 * LANES) {
		VEC x = LOAD(w + i), y = LOAD(w + QUAD + i);
		VEC up = ADD16(BYTES(ones, MAX8(x, ZERO)), BYTES(ones, MAX8(y, ZERO)));
		VEC down = ADD16(BYTES(ones, MIN8(x, ZERO)), BYTES(ones, MIN8(y, ZERO)));
		over = OR(over, OR(ABOVE16(up, most), ABOVE16(least, down)));
	}
	return IS_ZERO(over);
}

/* Splits the weights `rest` into groups that fit. */
static int split_rest(int8_t *rest, uint8_t *to)
{
	enum { GROUP = 2 * QUAD };
	int n = 0;

	while (!group_fits((const uint8_t *)rest)) {
		for (int i = 0; i < QUAD; i += 2) {
			int up = 128, down = -128, at[] = {i, i + 1, QUAD + i, QUAD + i + 1};
			for (int k = 0; k < 4; k++) {
				int v = rest[at[k]];
				v = v > up ? up : v < down ? down : v;
				up -= v > 0 ? v : 0;
				down -= v < 0 ? v : 0;
				rest[at[k]] = (int8_t)(rest[at[k]] - v);
				if (to)
					to[at[k]] = (uint8_t)v;
			}
		}
		to = to ? to + GROUP : NULL;
		n++;
	}
	if (to)
		memcpy(to, rest, GROUP);
	return n + 1;
}

static int split(const uint8_t *w, const int8_t *zero, uint8_t *to)
{
	int8_t rest[2 * QUAD], more[2 * QUAD];
	bool any = false;

	for (int i = 0; i < 2 * QUAD; i++) {
		int v = (int8_t)w[i] - zero[i / 4 % IGEMM_NR];
		rest[i] = (int8_t)(v > 127 ? 127 : v < -128 ? -128 : v);
		more[i] = (int8_t)(v - rest[i]);
		any |= more[i] != 0;
	}
	int n = split_rest(rest, to);
	return any ? n + split_rest(more, to ? to + n * 2 * QUAD : NULL) : n;
}

/*
 * Adds the products of `rows` rows with n groups of two vectors of a panel's columns to c, or stores them if `first`. Sums of four
 * products fit in 16 bits. `rows` is a constant where this is inlined.
 */
static inline __attribute__((always_inline)) void narrow_strip(const uint8_t *a, int64_t lda,
							       const int32_t *at, const uint8_t *b,
							       int64_t n, int rows, int32_t *c,
							       int64_t ldc, bool first)
{
#define NARROW_EACH(F) F(0) F(1) F(2) F(3) F(4)
#define NARROW_FOURS(r)                                                                            \
	if (rows > (r)) {                                                                          \
		memcpy(four, x + (r)*lda, sizeof(four));                                           \
		VEC p = SPLAT(four[0]), q = SPLAT(four[1]);                                        \
		VEC s0 = ADD16(BYTES(p, LOAD(b)), BYTES(q, LOAD(b + QUAD)));                       \
		ADD_TO(c0_##r, MADD(s0, ones));                                                    \
		if (two) {                                                                         \
			VEC s1 = ADD16(BYTES(p, LOAD(b + 4 * LANES)),                              \
				       BYTES(q, LOAD(b + QUAD + 4 * LANES)));                      \
			ADD_TO(c1_##r, MADD(s1, ones));                                            \
		}                                                                                  \
		KEEP_ORDER(c0_##r, c1_##r);                                                        \
	}
	const VEC ones = SPLAT(0x00010001);
	const bool two = VECS > 1;

	NARROW_EACH(SUMS_START)
	for (int64_t j = 0; j < n; j++, b += 2 * QUAD) {
		const uint8_t *x = a + at[j];
		int32_t four[2];
		NARROW_EACH(NARROW_FOURS)
	}
	NARROW_EACH(SUMS_STORE)
#undef NARROW_FOURS
#undef NARROW_EACH
}

/* The products of all rows with n groups of a panel. */
static void narrow_panel(const struct igemm_block *g, const int32_t *at, const uint8_t *b,
			 int64_t n, int32_t *c, bool first)
{
	enum { ROWS_AT_ONCE = 5 };

	for (int64_t m = 0, rows; m < g->m; m += rows) {
		int64_t left = g->m - m;
		rows = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
		for (int v = 0; v < VECS; v += 2)
#define NARROW_STRIP(k)                                                                            \
	case k:                                                                                    \
		narrow_strip(g->a + m * g->lda, g->lda, at, b + 4 * LANES * v, n, k,               \
			     c + m * g->ldc + v * LANES, g->ldc, first);                           \
		break;
			switch (rows) {
				NARROW_STRIP(1)
				NARROW_STRIP(2)
				NARROW_STRIP(3)
				NARROW_STRIP(4)
				NARROW_STRIP(5)
			}
#undef NARROW_STRIP
	}
}

static void panels_narrow(const struct igemm_block *g, const struct igemm_narrow *w)
{
	enum { GROUPS_AT_ONCE = 128 }; /* half of the L1 cache */

	for (int64_t p = 0; p < g->panels; p++) {
		int64_t end = w->start[p + 1], n;
		for (int64_t i = w->start[p]; i < end; i += n) {
			n = end - i < GROUPS_AT_ONCE ? end - i : GROUPS_AT_ONCE;
			narrow_panel(g, w->at + i, w->data + i * 2 * QUAD, n, g->c + p * IGEMM_NR,
				     i == w->start[p]);
		}
	}
}

/* Like narrow_strip, of four rows of weights and two vectors of a panel's columns. */
static inline __attribute__((always_inline)) void narrow_rows(const uint8_t *w, const int32_t *at,
							      const uint8_t *panel, int64_t n,
							      int rows, int32_t *c, int64_t ldc,
							      bool first)
{
#define NARROW_EACH(F) F(0) F(1) F(2) F(3)
#define NARROW_FOURS(r)                                                                            \
	if (rows > (r)) {                                                                          \
		int32_t p, q;                                                                      \
		memcpy(&p, w + 4 * (r), sizeof(p));                                                \
		memcpy(&q, w + QUAD + 4 * (r), sizeof(q));                                         \
		VEC s0 = ADD16(BYTES(x0, SPLAT(p)), BYTES(y0, SPLAT(q)));                          \
		ADD_TO(c0_##r, MADD(s0, ones));                                                    \
		if (two) {                                                                         \
			VEC s1 = ADD16(BYTES(x1, SPLAT(p)), BYTES(y1, SPLAT(q)));                  \
			ADD_TO(c1_##r, MADD(s1, ones));                                            \
		}                                                                                  \
		KEEP_ORDER(c0_##r, c1_##r);                                                        \
	}
	const VEC ones = SPLAT(0x00010001);
	const bool two = VECS > 1;

	NARROW_EACH(SUMS_START)
	for (int64_t j = 0; j < n; j++, w += 2 * QUAD) {
		const uint8_t *b = panel + (int64_t)at[j] * IGEMM_NR;
		VEC x0 = LOAD(b), x1 = LOAD_SECOND(b + 4 * LANES);
		VEC y0 = LOAD(b + QUAD), y1 = LOAD_SECOND(b + QUAD + 4 * LANES);
		NARROW_EACH(NARROW_FOURS)
	}
	NARROW_EACH(SUMS_STORE)
#undef NARROW_FOURS
#undef NARROW_EACH
}

/* The products of up to IGEMM_NR rows of weights, in n groups, with a panel. */
static void narrow_weights(const uint8_t *w, const int32_t *at, int64_t n, int64_t rows,
			   const uint8_t *panel, int32_t *c, int64_t ldc, bool first)
{
	for (int64_t r = 0; r < rows; r += 4)
		for (int v = 0; v < VECS; v += 2) {
			int32_t *to = c + r * ldc + v * LANES;
			if (rows - r >= 4)
				narrow_rows(w + 4 * r, at, panel + 4 * LANES * v, n, 4, to, ldc,
					    first);
			else if (rows - r > 1)
				narrow_rows(w + 4 * r, at, panel + 4 * LANES * v, n, 3, to, ldc,
					    first);
			else
				narrow_rows(w + 4 * r, at, panel + 4 * LANES * v, n, 1, to, ldc,
					    first);
		}
}

static void rows_narrow(const struct igemm_block *g, const struct igemm_narrow *w)
{
	enum { GROUPS_AT_ONCE = 64 };

	for (int64_t p = 0; p < g->panels; p++)
		for (int64_t m = 0; m < g->m; m += IGEMM_NR) {
			const int32_t *start = w->start + m / IGEMM_NR;
			int64_t rows = g->m - m < IGEMM_NR ? g->m - m : IGEMM_NR, n;
			for (int64_t i = start[0]; i < start[1]; i += n) {
				n = start[1] - i < GROUPS_AT_ONCE ? start[1] - i : GROUPS_AT_ONCE;
				narrow_weights(w->data + i * 2 * QUAD, w->at + i, n, rows,
					       g->b + p * g->k4 * QUAD,
					       g->c + m * g->ldc + p * IGEMM_NR, g->ldc,
					       i == start[0]);
			}
		}
}

#else
static inline int byte_at(uint8_t v, bool is_signed)
{
	return is_signed ? (int8_t)v : v;
}

static void panels(const struct igemm_block *g)
{
	for (int64_t i = 0; i < g->m; i++)
		for (int64_t col = 0; col < g->panels * IGEMM_NR; col++) {
			const uint8_t *a = g->a + i * g->lda, *b = g->b;
			int32_t sum = 0;
			b += col / IGEMM_NR * QUAD * g->k4 + col % IGEMM_NR * 4;
			for (int64_t k = 0; k < 4 * g->k4; k++)
				sum += byte_at(a[k], g->a_signed) *
				       byte_at(b[k / 4 * QUAD + k % 4], !g->a_signed);
			g->c[i * g->ldc + col] = sum;
		}
}
#endif

/* Interleaves four rows of 16 bytes: out gets byte 0 of each row, then byte 1 of each row, ..., XORed with flip. */
static inline void interleave_rows(const uint8_t *const *r, uint8_t flip, uint8_t *out)
{
#if SIMD_LEVEL >= 2
	__m128i f = _mm_set1_epi8((char)flip), v[4];
	for (int i = 0; i < 4; i++)
		v[i] = _mm_xor_si128(f, _mm_loadu_si128((const __m128i *)(const void *)r[i]));
	__m128i a0 = _mm_unpacklo_epi8(v[0], v[1]), a1 = _mm_unpackhi_epi8(v[0], v[1]);
	__m128i b0 = _mm_unpacklo_epi8(v[2], v[3]), b1 = _mm_unpackhi_epi8(v[2], v[3]);
	__m128i *to = (__m128i *)(void *)out;
	_mm_storeu_si128(to, _mm_unpacklo_epi16(a0, b0));
	_mm_storeu_si128(to + 1, _mm_unpackhi_epi16(a0, b0));
	_mm_storeu_si128(to + 2, _mm_unpacklo_epi16(a1, b1));
	_mm_storeu_si128(to + 3, _mm_unpackhi_epi16(a1, b1));
#else
	for (int i = 0; i < IGEMM_NR; i++)
		for (int k = 0; k < 4; k++)
			out[4 * i + k] = r[k][i] ^ flip;
#endif
}

static inline const uint8_t *row_of(const struct igemm_rows *b, int64_t k)
{
	return b->base + (b->offset ? b->offset[k] : k * b->row);
}

static void pack(const struct igemm_rows *b, int64_t k, int64_t count, uint8_t flip, uint8_t *out)
{
	uint8_t part[4][IGEMM_NR];
	const uint8_t *r[4];
	int64_t i = 0;

	for (; i + 4 <= k && count == IGEMM_NR; i += 4, out += QUAD) {
		for (int j = 0; j < 4; j++)
			r[j] = row_of(b, i + j);
		interleave_rows(r, flip, out);
	}
	/* rows beyond k are filled with flip, which interleave_rows turns into 0 */
	for (; i < igemm_depth(k); i += 4, out += QUAD) {
		memset(part, flip, sizeof(part));
		for (int j = 0; j < 4; j++) {
			r[j] = part[j];
			if (i + j < k)
				memcpy(part[j], row_of(b, i + j), (size_t)count);
		}
		interleave_rows(r, flip, out);
	}
}

static void column_sums(const uint8_t *panel, int64_t k4, bool is_signed, int32_t *sum)
{
	memset(sum, 0, IGEMM_NR * sizeof(*sum));
	for (int64_t k = 0; k < k4; k++, panel += QUAD)
		for (int i = 0; i < IGEMM_NR; i++) {
			const uint8_t *q = panel + 4 * i;
			sum[i] += is_signed
					  ? (int8_t)q[0] + (int8_t)q[1] + (int8_t)q[2] + (int8_t)q[3]
					  : q[0] + q[1] + q[2] + q[3];
		}
}

static void add_rows(const struct igemm_rows *b, const int8_t *w, int32_t zero, int64_t k,
		     uint8_t flip, int32_t start, int64_t n, int32_t *restrict sum)
{
	int64_t i = 0;

#if SIMD_LEVEL >= 4
	const __m128i f = _mm_set1_epi8((char)flip);
	for (; i + 64 <= n; i += 64) {
		__m512i v[4];
		for (int e = 0; e < 4; e++)
			v[e] = _mm512_set1_epi32(start);
		for (int64_t j = 0; j < k; j++) {
			const uint8_t *x = row_of(b, j) + i;
			/* madd sums two 16-bit products in each lane; the upper product is 0 here */
			__m512i y = _mm512_set1_epi32((w[j] - zero) & 0xffff);
			for (int e = 0; e < 4; e++) {
				__m128i c =
					_mm_loadu_si128((const __m128i *)(const void *)(x + 16 * e));
				__m512i u = _mm512_cvtepu8_epi32(_mm_xor_si128(c, f));
				v[e] = _mm512_add_epi32(v[e], _mm512_madd_epi16(u, y));
			}
		}
		for (int e = 0; e < 4; e++)
			_mm512_storeu_si512(sum + i + 16 * e, v[e]);
	}
#endif
	for (int64_t e = i; e < n; e++)
		sum[e] = start;
	for (int64_t j = 0; j < k; j++) {
		const uint8_t *x = row_of(b, j);
		int32_t y = w[j] - zero;
		for (int64_t e = i; e < n; e++)
			sum[e] += y * (x[e] ^ flip);
	}
}

static void every_other(const uint8_t *restrict x, int64_t n, uint8_t *restrict y)
{
	int64_t i = 0;

#if SIMD_LEVEL >= 2
	const __m128i even = _mm_set1_epi16(255);
	/* < rather than <=: the last load would touch x[2 * n - 1], which may be out of bounds. */
	for (; i + 16 < n; i += 16) {
		__m128i a = _mm_loadu_si128((const __m128i *)(const void *)(x + 2 * i));
		__m128i b = _mm_loadu_si128((const __m128i *)(const void *)(x + 2 * i + 16));
		_mm_storeu_si128((__m128i *)(void *)(y + i),
				 _mm_packus_epi16(_mm_and_si128(a, even), _mm_and_si128(b, even)));
	}
#endif
	for (; i < n; i++)
		y[i] = x[2 * i];
}

static int32_t row_sum(const uint8_t *a, int64_t n, bool is_signed)
{
	int32_t sum = 0;

	if (is_signed)
		for (int64_t i = 0; i < n; i++)
			sum += (int8_t)a[i];
	else
		for (int64_t i = 0; i < n; i++)
			sum += a[i];
	return sum;
}

/* Subtracts za * column[i] + rest * zb[i] from each c[i], modulo 2^32. */
static void correct(int32_t *c, int64_t n, int32_t za, const int32_t *column, int32_t rest,
		    const int32_t *zb)
{
	for (int64_t i = 0; i < n && za; i++)
		c[i] = (int32_t)((uint32_t)c[i] - (uint32_t)za * (uint32_t)column[i]);
	for (int64_t i = 0; i < n && rest; i++)
		c[i] = (int32_t)((uint32_t)c[i] - (uint32_t)rest * (uint32_t)zb[i]);
}

/* LANE_ORDER: the order of fours of bytes that packing by parts of registers has made another. */
#if SIMD_LEVEL >= 4
#define LANE_ORDER _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)

/* Requantizes sixteen sums, or those that m says, to numbers of 32 bits. */
static inline __attribute__((always_inline)) __m512i requantize_sixteen(
	const void *x, const bool floats, const int32_t *add, __m512 scale, __m512 low, __m512 high,
	__m512i zero, __mmask16 m)
{
	__m512i whole = floats ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi32(m, x);
	if (add)
		whole = ADD(whole, _mm512_maskz_loadu_epi32(m, add));
	__m512 q = floats ? _mm512_maskz_loadu_ps(m, x) : _mm512_cvtepi32_ps(whole);
	q = _mm512_mul_ps(q, scale);
	q = _mm512_min_ps(_mm512_max_ps(q, low), high); /* max gives low for NaN */
	return _mm512_and_si512(ADD(_mm512_cvtps_epi32(q), zero), SPLAT(255));
}
#elif SIMD_LEVEL == 3
#define LANE_ORDER _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)

/* Requantizes eight sums to numbers of 32 bits. */
static inline __attribute__((always_inline)) __m256i requantize_eight(const void *x, const bool floats,
								      const int32_t *add,
								      __m256 scale, __m256 low,
								      __m256 high, __m256i zero)
{
	__m256i whole = floats ? _mm256_setzero_si256() : LOAD(x);
	if (add)
		whole = ADD(whole, LOAD(add));
	__m256 q = _mm256_mul_ps(floats ? _mm256_loadu_ps(x) : _mm256_cvtepi32_ps(whole), scale);
	q = _mm256_min_ps(_mm256_max_ps(q, low), high); /* max gives low for NaN */
	return _mm256_and_si256(ADD(_mm256_cvtps_epi32(q), zero), SPLAT(255));
}

/* Requantizes as many sums as whole vectors hold, and returns how many these are. */
static inline __attribute__((always_inline)) int64_t requantize_many(const void *x, const bool floats,
								     const int32_t *add, uint8_t *y,
								     int64_t n, const float *scale,
								     int step, int32_t zero,
								     float lo, float hi)
{
	const int32_t *whole = x;
	int64_t i = 0;
	const __m256 l = _mm256_set1_ps(lo), h = _mm256_set1_ps(hi), one = _mm256_set1_ps(*scale);
	const __m256i z = SPLAT(zero), order = LANE_ORDER;
#define EIGHT(at)                                                                                  \
	requantize_eight(whole + (at), floats, add ? add + (at) : NULL,                            \
			 step ? _mm256_loadu_ps(scale + (at)) : one, l, h, z)
	for (; i + 32 <= n; i += 32) {
		__m256i a = _mm256_packs_epi32(EIGHT(i), EIGHT(i + 8));
		__m256i b = _mm256_packs_epi32(EIGHT(i + 16), EIGHT(i + 24));
		STORE(y + i, _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), order));
	}
	for (; i + 8 <= n; i += 8) {
		__m256i v = EIGHT(i);
		__m128i a =
			_mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
		_mm_storel_epi64((__m128i *)(void *)(y + i), _mm_packus_epi16(a, a));
	}
#undef EIGHT
	return i;
}
#endif

/* The sums x are floats, or else integers, to which `add` is added if it is not NULL. */
static inline __attribute__((always_inline)) void requantize_sums(const void *x, const bool floats,
								  const int32_t *add, void *out,
								  int64_t n, const float *scale,
								  int step, int32_t zero,
								  int32_t low, int32_t high)
{
	const float *real = x;
	const int32_t *whole = x;
	float lo = (float)(low - zero), hi = (float)(high - zero);
	uint8_t *y = out;
	int64_t i = 0;

#if SIMD_LEVEL >= 4
	__m512 lw = _mm512_set1_ps(lo), hw = _mm512_set1_ps(hi), all = _mm512_set1_ps(*scale);
	__m512i zw = _mm512_set1_epi32(zero);
#define SIXTEEN(at, m)                                                                             \
	requantize_sixteen(whole + (at), floats, add ? add + (at) : NULL,                          \
			   step ? _mm512_maskz_loadu_ps(m, scale + (at)) : all, lw, hw, zw, m)
	for (; i + 64 <= n; i += 64) {
		const __mmask16 m = 0xffff;
		__m512i a = _mm512_packs_epi32(SIXTEEN(i, m), SIXTEEN(i + 16, m));
		__m512i b = _mm512_packs_epi32(SIXTEEN(i + 32, m), SIXTEEN(i + 48, m));
		STORE(y + i, _mm512_permutexvar_epi32(LANE_ORDER, _mm512_packus_epi16(a, b)));
	}
	for (; i < n; i += 16) {
		__mmask16 m = n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : 0xffff;
		_mm512_mask_cvtepi32_storeu_epi8(y + i, m, SIXTEEN(i, m));
	}
#undef SIXTEEN
#elif SIMD_LEVEL == 3
	i = requantize_many(x, floats, add, y, n, scale, step, zero, lo, hi);
#elif SIMD_LEVEL == 2
	__m128 l = _mm_set1_ps(lo), h = _mm_set1_ps(hi), one = _mm_set1_ps(*scale);
	__m128i z = _mm_set1_epi32(zero), byte = _mm_set1_epi32(255);
	for (; i + 16 <= n; i += 16) {
		__m128i v[4];
		for (int k = 0; k < 4; k++) {
			const void *at = whole + i + 4 * k;
			__m128i v4 = floats ? z : _mm_loadu_si128(at);
			if (add)
				v4 = ADD(v4, LOAD(add + i + 4 * k));
			__m128 q = floats ? _mm_loadu_ps(at) : _mm_cvtepi32_ps(v4);
			q = _mm_mul_ps(q, step ? _mm_loadu_ps(scale + i + 4 * k) : one);
			q = _mm_min_ps(_mm_max_ps(q, l), h); /* max gives l for NaN */
			v[k] = _mm_and_si128(_mm_add_epi32(_mm_cvtps_epi32(q), z), byte);
		}
		_mm_storeu_si128(
			(__m128i *)(void *)(y + i),
			_mm_packus_epi16(_mm_packs_epi32(v[0], v[1]), _mm_packs_epi32(v[2], v[3])));
	}
#endif
	for (; i < n; i++) {
		int32_t sum = floats ? 0
			      : add  ? (int32_t)((uint32_t)whole[i] + (uint32_t)add[i])
				     : whole[i];
		float q = (floats ? real[i] : (float)sum) * scale[i * step];
		q = q > lo ? q : lo;
		q = q < hi ? q : hi;
		y[i] = (uint8_t)((int32_t)rintf(q) + zero);
	}
}

static void requantize(const int32_t *x, const int32_t *add, void *y, int64_t n, const float *scale,
		       int step, int32_t zero, int32_t low, int32_t high)
{
	if (add)
		requantize_sums(x, false, add, y, n, scale, step, zero, low, high);
	else
		requantize_sums(x, false, NULL, y, n, scale, step, zero, low, high);
}

static void requantize_floats(const float *x, void *y, int64_t n, const float *scale, int step,
			      int32_t zero, int32_t low, int32_t high)
{
	requantize_sums(x, true, NULL, y, n, scale, step, zero, low, high);
}

static void to_floats(const int32_t *x, float *y, int64_t n, const float *scale, int step,
		      const float *bias)
{
	if (step)
		for (int64_t i = 0; i < n; i++)
			y[i] = (float)x[i] * scale[i];
	else
		for (int64_t i = 0; i < n; i++)
			y[i] = (float)x[i] * *scale;
	for (int64_t i = 0; i < n && bias; i++)
		y[i] += bias[i];
}

static inline int32_t quantize_one(float x, float scale, float low, float high)
{
	float q = x / scale;

	q = q > low ? q : low; /* NaN becomes low, too */
	q = q < high ? q : high;
	return (int32_t)rintf(q);
}

static void quantize(const float *x, void *out, int64_t n, float scale, int32_t zero, int32_t low,
		     int32_t high)
{
	float lo = (float)(low - zero), hi = (float)(high - zero);
	uint8_t *y = out;
	int64_t i = 0;

#if SIMD_LEVEL >= 4
	__m512 sw = _mm512_set1_ps(scale), lw = _mm512_set1_ps(lo), hw = _mm512_set1_ps(hi);
	__m512i zw = _mm512_set1_epi32(zero);
	for (; i + 16 <= n; i += 16) {
		__m512 q = _mm512_div_ps(_mm512_loadu_ps(x + i), sw);
		q = _mm512_min_ps(_mm512_max_ps(q, lw), hw);
		_mm_storeu_si128((__m128i *)(void *)(y + i),
				 _mm512_cvtepi32_epi8(_mm512_add_epi32(_mm512_cvtps_epi32(q), zw)));
	}
#elif SIMD_LEVEL >= 2
	__m128 s = _mm_set1_ps(scale), l = _mm_set1_ps(lo), h = _mm_set1_ps(hi);
	__m128i z = _mm_set1_epi32(zero), byte = _mm_set1_epi32(255);
	for (; i + 16 <= n; i += 16) {
		__m128i v[4];
		for (int k = 0; k < 4; k++) {
			__m128 q = _mm_div_ps(_mm_loadu_ps(x + i + 4 * k), s);
			q = _mm_min_ps(_mm_max_ps(q, l), h); /* max gives l for NaN */
			v[k] = _mm_and_si128(_mm_add_epi32(_mm_cvtps_epi32(q), z), byte);
		}
		_mm_storeu_si128(
			(__m128i *)(void *)(y + i),
			_mm_packus_epi16(_mm_packs_epi32(v[0], v[1]), _mm_packs_epi32(v[2], v[3])));
	}
#endif
	for (; i < n; i++)
		y[i] = (uint8_t)(quantize_one(x[i], scale, lo, hi) + zero);
}

static void dequantize_u8(const uint8_t *x, float *y, int64_t n, float scale, int32_t zero)
{
	int64_t i = 0;

#if SIMD_LEVEL >= 3
	__m256 s = _mm256_set1_ps(scale);
	__m256i z = _mm256_set1_epi32(zero);
	for (; i + 8 <= n; i += 8) {
		__m256i v =
			_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x + i)));
		_mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(v, z)), s));
	}
#endif
	for (; i < n; i++)
		y[i] = (float)(x[i] - zero) * scale;
}

static void dequantize_i8(const int8_t *x, float *y, int64_t n, float scale, int32_t zero)
{
	int64_t i = 0;

#if SIMD_LEVEL >= 3
	__m256 s = _mm256_set1_ps(scale);
	__m256i z = _mm256_set1_epi32(zero);
	for (; i + 8 <= n; i += 8) {
		__m256i v =
			_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x + i)));
		_mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(v, z)), s));
	}
#endif
	for (; i < n; i++)
		y[i] = (float)(x[i] - zero) * scale;
}

/*
 * Kernels for sums and products of quantized 8-bit values, which compute on unsigned bytes. Signed operands are
 * converted by an XOR of each byte with j->flip (128), which their zero points already include; the result is
 * converted back in the same way.
 */
#if SIMD_LEVEL >= 4
#define WIDE(x)	    _mm512_cvtepu8_epi32(_mm_xor_si128(x, flip))
#define BYTES_AT(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define SIXTEEN_CODES(r, at, BODY)                                                                 \
	__m512i r;                                                                                 \
	{                                                                                          \
		__m512i va = _mm512_sub_epi32(WIDE(BYTES_AT(a + (at))), za);                       \
		__m512i vb = _mm512_sub_epi32(WIDE(BYTES_AT(b + (at))), zb);                       \
		__m512 q = BODY;                                                                   \
		q = _mm512_min_ps(_mm512_max_ps(q, lo), hi);                                       \
		r = _mm512_add_epi32(_mm512_cvtps_epi32(q), zero);                                 \
	}
#define CODES_LOOP(BODY)                                                                           \
	const __m128i flip = _mm_set1_epi8((char)j->flip);                                         \
	const __m512i flips = SPLAT((int)(j->flip * 0x01010101u)), order = LANE_ORDER;             \
	const __m512 lo = _mm512_set1_ps(-j->zero), hi = _mm512_set1_ps(255 - j->zero);            \
	const __m512i zero = _mm512_set1_epi32((int32_t)j->zero);                                  \
	const __m512i za = _mm512_set1_epi32(j->a_zero), zb = _mm512_set1_epi32(j->b_zero);        \
	const __m512 fa = _mm512_set1_ps(j->a_scale), fb = _mm512_set1_ps(j->b_scale);             \
	(void)fb;                                                                                  \
	for (; i + 64 <= n; i += 64) {                                                             \
		SIXTEEN_CODES(r0, i, BODY)                                                         \
		SIXTEEN_CODES(r1, i + 16, BODY)                                                    \
		SIXTEEN_CODES(r2, i + 32, BODY)                                                    \
		SIXTEEN_CODES(r3, i + 48, BODY)                                                    \
		__m512i codes = _mm512_packus_epi16(_mm512_packs_epi32(r0, r1),                    \
						    _mm512_packs_epi32(r2, r3));                   \
		STORE(y + i, XOR(_mm512_permutexvar_epi32(order, codes), flips));                  \
	}                                                                                          \
	for (; i + 16 <= n; i += 16) {                                                             \
		SIXTEEN_CODES(r, i, BODY)                                                          \
		_mm_storeu_si128((__m128i *)(void *)(y + i),                                       \
				 _mm_xor_si128(_mm512_cvtepi32_epi8(r), flip));                    \
	}
#define ADD_WIDE                                                                                   \
	_mm512_fmadd_ps(_mm512_cvtepi32_ps(va), fa, _mm512_mul_ps(_mm512_cvtepi32_ps(vb), fb))
#define MULTIPLY_WIDE _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_mullo_epi32(va, vb)), fa)
#elif SIMD_LEVEL == 3
#define WIDE(p)                                                                                    \
	_mm256_cvtepu8_epi32(_mm_xor_si128(_mm_loadl_epi64((const __m128i *)(const void *)(p)), flip))
#define EIGHT_CODES(r, at, BODY)                                                                   \
	__m256i r;                                                                                 \
	{                                                                                          \
		__m256i va = _mm256_sub_epi32(WIDE(a + (at)), za);                                 \
		__m256i vb = _mm256_sub_epi32(WIDE(b + (at)), zb);                                 \
		__m256 q = BODY;                                                                   \
		q = _mm256_min_ps(_mm256_max_ps(q, lo), hi);                                       \
		r = _mm256_add_epi32(_mm256_cvtps_epi32(q), zero);                                 \
	}
#define CODES_LOOP(BODY)                                                                            \
	const __m128i flip = _mm_set1_epi8((char)j->flip);                                          \
	const __m256i flips = SPLAT((int)(j->flip * 0x01010101u)), order = LANE_ORDER;              \
	const __m256 lo = _mm256_set1_ps(-j->zero), hi = _mm256_set1_ps(255 - j->zero);             \
	const __m256i zero = _mm256_set1_epi32((int32_t)j->zero);                                   \
	const __m256i za = _mm256_set1_epi32(j->a_zero), zb = _mm256_set1_epi32(j->b_zero);         \
	const __m256 fa = _mm256_set1_ps(j->a_scale), fb = _mm256_set1_ps(j->b_scale);              \
	(void)fb;                                                                                   \
	for (; i + 32 <= n; i += 32) {                                                              \
		EIGHT_CODES(r0, i, BODY)                                                            \
		EIGHT_CODES(r1, i + 8, BODY)                                                        \
		EIGHT_CODES(r2, i + 16, BODY)                                                       \
		EIGHT_CODES(r3, i + 24, BODY)                                                       \
		__m256i codes = _mm256_packus_epi16(_mm256_packs_epi32(r0, r1),                     \
						    _mm256_packs_epi32(r2, r3));                    \
		STORE(y + i, XOR(_mm256_permutevar8x32_epi32(codes, order), flips));                \
	}                                                                                           \
	for (; i + 8 <= n; i += 8) {                                                                \
		EIGHT_CODES(r, i, BODY)                                                             \
		__m128i pairs =                                                                     \
			_mm_packs_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)); \
		_mm_storel_epi64((__m128i *)(void *)(y + i),                                        \
				 _mm_xor_si128(_mm_packus_epi16(pairs, pairs), flip));              \
	}
#define ADD_WIDE                                                                                   \
	_mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(va), fa),                                   \
		      _mm256_mul_ps(_mm256_cvtepi32_ps(vb), fb))
#define MULTIPLY_WIDE _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_mullo_epi32(va, vb)), fa)
#else
#define CODES_LOOP(BODY)
#endif

static inline uint8_t code_of(const struct igemm_codes *j, float q)
{
	float lo = -j->zero, hi = 255 - j->zero;

	q = q > lo ? q : lo; /* NaN becomes lo, too */
	q = q < hi ? q : hi;
	return (uint8_t)((int32_t)rintf(q) + (int32_t)j->zero) ^ j->flip;
}

static void add8(const struct igemm_codes *j, const uint8_t *a, const uint8_t *b,
		 uint8_t *restrict y, int64_t n)
{
	int64_t i = 0;

	CODES_LOOP(ADD_WIDE)
	for (; i < n; i++) {
		float va = (float)((a[i] ^ j->flip) - j->a_zero);
		float vb = (float)((b[i] ^ j->flip) - j->b_zero);
		y[i] = code_of(j, va * j->a_scale + vb * j->b_scale);
	}
}

static void multiply8(const struct igemm_codes *j, const uint8_t *a, const uint8_t *b,
		      uint8_t *restrict y, int64_t n)
{
	int64_t i = 0;

	CODES_LOOP(MULTIPLY_WIDE)
	for (; i < n; i++) {
		int32_t va = (a[i] ^ j->flip) - j->a_zero, vb = (b[i] ^ j->flip) - j->b_zero;
		y[i] = code_of(j, (float)(va * vb) * j->a_scale);
	}
}

static inline float lanes_sum(const float *v, int n)
{
	float sum = 0;

	for (int i = 0; i < n; i++)
		sum += v[i];
	return sum;
}

static float nibbles(const float *a, const uint8_t *w, float zero, const float *scale,
		     int64_t blocks, int64_t blob)
{
#if SIMD_LEVEL >= 4
	__m512 total = _mm512_setzero_ps(), table;
	float value[16];

	for (int i = 0; i < 16; i++)
		value[i] = (float)i - zero;
	table = _mm512_loadu_ps(value);
	for (int64_t b = 0; b < blocks && blob % 16 == 0; b++, w += blob, a += 2 * blob) {
		__m512 even = _mm512_setzero_ps(), odd = even;
		for (int64_t i = 0; i < blob; i += 16) {
			__m512i v = _mm512_cvtepu8_epi32(
				_mm_loadu_si128((const __m128i *)(const void *)(w + i)));
			/* permutexvar uses only the lowest four bits of an index */
			__m512 l = _mm512_permutexvar_ps(v, table);
			__m512 h = _mm512_permutexvar_ps(_mm512_srli_epi32(v, 4), table);
			even = _mm512_fmadd_ps(l, _mm512_loadu_ps(a + i), even);
			odd = _mm512_fmadd_ps(h, _mm512_loadu_ps(a + blob + i), odd);
		}
		total = _mm512_fmadd_ps(_mm512_add_ps(even, odd), _mm512_set1_ps(scale[b]), total);
	}
	if (blob % 16 == 0)
		return _mm512_reduce_add_ps(total);
#endif
#if SIMD_LEVEL >= 3
	__m256 sum = _mm256_setzero_ps(), less = _mm256_set1_ps(zero);
	const __m256i low = _mm256_set1_epi32(15);

	for (int64_t b = 0; b < blocks; b++, w += blob, a += 2 * blob) {
		__m256 even = _mm256_setzero_ps(), odd = even;
		for (int64_t i = 0; i < blob; i += 8) {
			__m256i v = _mm256_cvtepu8_epi32(
				_mm_loadl_epi64((const __m128i *)(const void *)(w + i)));
			__m256 l = _mm256_cvtepi32_ps(_mm256_and_si256(v, low));
			__m256 h = _mm256_cvtepi32_ps(_mm256_srli_epi32(v, 4));
			even = _mm256_fmadd_ps(_mm256_sub_ps(l, less), _mm256_loadu_ps(a + i), even);
			odd = _mm256_fmadd_ps(_mm256_sub_ps(h, less), _mm256_loadu_ps(a + blob + i),
					      odd);
		}
		sum = _mm256_fmadd_ps(_mm256_add_ps(even, odd), _mm256_set1_ps(scale[b]), sum);
	}
	float lane[8];
	_mm256_storeu_ps(lane, sum);
	return lanes_sum(lane, 8);
#else
	float lane[8] = {0};

	for (int64_t b = 0; b < blocks; b++, w += blob, a += 2 * blob)
		for (int64_t i = 0; i < blob; i += 8)
			for (int k = 0; k < 8; k++)
				lane[k] += scale[b] *
					   (((float)(w[i + k] & 15) - zero) * a[i + k] +
					    ((float)(w[i + k] >> 4) - zero) * a[blob + i + k]);
	return lanes_sum(lane, 8);
#endif
}

#if SIMD_LEVEL >= 3
typedef uint32_t vec_codes __attribute__((vector_size(4 * LANES)));
typedef int32_t vec_ints __attribute__((vector_size(4 * LANES)));
typedef float vec_floats __attribute__((vector_size(4 * LANES)));
#if SIMD_LEVEL >= 4
typedef __m512 vec_sums;
#define AND	       _mm512_and_si512
#define HALVES(v)      _mm512_srli_epi16(v, 4)
#define FLOATS(v)      _mm512_cvtepi32_ps(v)
#define TIMES	       _mm512_mul_ps
#define PLUS(a, b, c)  _mm512_fmadd_ps(a, b, c)
#define MINUS(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define PICK(v, of)    _mm512_permutexvar_ps(of, v)
#define NUMBERS(p)     _mm512_loadu_ps(p)
#define FIRST(p)                                                                                   \
	_mm512_castps256_ps512(_mm256_loadu_ps(p)) /* a unit has no more blocks than these */
#define ALL(v) _mm512_reduce_add_ps(v)
/* a nibble by a code is at most 15 * 127, so that sums of four such products fit 16 bits */
#define FOURS(even, odd, a, ones)                                                                  \
	MADD(_mm512_add_epi16(_mm512_maddubs_epi16(even, LOAD(a)),                                 \
			      _mm512_maddubs_epi16(odd, LOAD((a) + 4 * LANES))),                   \
	     ones)
#define FOURS_VNNI(even, odd, a, ones)                                                             \
	_mm512_dpbusd_epi32(_mm512_dpbusd_epi32(ZERO, even, LOAD(a)), odd, LOAD((a) + 4 * LANES))
#else
typedef __m256 vec_sums;
#define AND	       _mm256_and_si256
#define HALVES(v)      _mm256_srli_epi16(v, 4)
#define FLOATS(v)      _mm256_cvtepi32_ps(v)
#define TIMES	       _mm256_mul_ps
#define PLUS(a, b, c)  _mm256_fmadd_ps(a, b, c)
#define MINUS(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define PICK(v, of)    _mm256_permutevar8x32_ps(v, of)
#define NUMBERS(p)     _mm256_loadu_ps(p)
#define FIRST(p)       _mm256_castps128_ps256(_mm_loadu_ps(p))
#define ALL(v)	       sum_of_lanes(v)
#define FOURS(even, odd, a, ones)                                                                  \
	MADD(ADD16(BYTES(even, LOAD(a)), BYTES(odd, LOAD((a) + 4 * LANES))), ones)

static inline float sum_of_lanes(__m256 v)
{
	__m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

	x = _mm_add_ps(x, _mm_movehl_ps(x, x));
	return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
#endif

#if SIMD_LEVEL >= 4
static const vec_ints places = {0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60};
#else
static const vec_ints places = {0, 4, 8, 12, 16, 20, 24, 28};
#endif

/* `rows` rows by two columns; a constant where this is inlined. */
#define NIBBLES(name, target, fours)                                                               \
	target static inline __attribute__((always_inline)) void name##_rows(                      \
		const struct igemm_nibbles *p, int rows, float *y)                                 \
	{                                                                                          \
		const VEC low = SPLAT(0x0f0f0f0f), ones = SPLAT(0x00010001);                       \
		const int shift = __builtin_ctzll((unsigned long long)p->blob);                    \
		(void)ones;                                                                        \
		/* where the factor of each four bytes is, from that of the unit's first block */  \
		const vec_ints at = places >> (shift < 7 ? shift : 7);                             \
		VEC of;                                                                            \
		memcpy(&of, &at, sizeof(of));                                                      \
		vec_sums sum[4][2];                                                                \
		for (int r = 0; r < rows; r++)                                                     \
			sum[r][0] = sum[r][1] = FLOATS(ZERO);                                      \
		for (int64_t g = 0; g < p->blocks; g += LANES)                                     \
			for (int r = 0; r < rows; r++)                                             \
				for (int c = 0; c < 2; c++)                                        \
					sum[r][c] = MINUS(NUMBERS(p->a_sum + r * p->factors + g),  \
							  NUMBERS(p->zero + c * p->factors + g),   \
							  sum[r][c]);                              \
		for (int64_t i = 0; i < p->bytes; i += 4 * LANES) {                                \
			uint8_t rest[2][4 * LANES];                                                \
			const uint8_t *w[2] = {p->w + i, p->w + p->column + i};                    \
			for (int c = 0; p->bytes - i < 4 * LANES && c < 2; c++) {                  \
				memset(rest[c], 0, sizeof(rest[c]));                               \
				w[c] = memcpy(rest[c], w[c], (size_t)(p->bytes - i));              \
			}                                                                          \
			int64_t g = i >> shift;                                                    \
			VEC even[2], odd[2];                                                       \
			vec_sums times[2];                                                         \
			for (int c = 0; c < 2; c++) {                                              \
				VEC both = LOAD(w[c]);                                             \
				even[c] = AND(both, low);                                          \
				odd[c] = AND(HALVES(both), low);                                   \
				times[c] = PICK(FIRST(p->scale + c * p->factors + g), of);         \
			}                                                                          \
			for (int r = 0; r < rows; r++) {                                           \
				const int8_t *a = p->a + r * p->a_row + 2 * i;                     \
				vec_sums by = PICK(FIRST(p->a_scale + r * p->factors + g), of);    \
				for (int c = 0; c < 2; c++)                                        \
					sum[r][c] = PLUS(FLOATS(fours(even[c], odd[c], a, ones)),  \
							 TIMES(by, times[c]), sum[r][c]);          \
			}                                                                          \
		}                                                                                  \
		for (int r = 0; r < rows; r++)                                                     \
			for (int c = 0; c < 2; c++)                                                \
				y[2 * r + c] = ALL(sum[r][c]);                                     \
	}                                                                                          \
	target static void name(const struct igemm_nibbles *p, int rows, float *y)                 \
	{                                                                                          \
		if (rows == 1)                                                                     \
			name##_rows(p, 1, y);                                                      \
		else if (rows == 2)                                                                \
			name##_rows(p, 2, y);                                                      \
		else if (rows == 3)                                                                \
			name##_rows(p, 3, y);                                                      \
		else                                                                               \
			name##_rows(p, 4, y);                                                      \
	}
NIBBLES(nibbles_bytes, , FOURS)
#if SIMD_LEVEL >= 4
NIBBLES(nibbles_fours, VNNI, FOURS_VNNI)
#endif

#endif

static void widen_nibbles(const uint8_t *w, int64_t n, float zero, float scale, float *restrict y)
{
	int64_t i = 0;

#if SIMD_LEVEL >= 4
	float table[16];
	for (int k = 0; k < 16; k++)
		table[k] = ((float)k - zero) * scale;
	const __m512 values = _mm512_loadu_ps(table);
	for (; i + 16 <= n; i += 16) {
		__m128i b = _mm_loadl_epi64((const __m128i *)(const void *)(w + i / 2));
		__m128i both = _mm_unpacklo_epi8(b, _mm_srli_epi16(b, 4));
		_mm512_storeu_ps(y + i, _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(both), values));
	}
#elif SIMD_LEVEL == 3
	const __m128i low = _mm_set1_epi8(15);
	const __m256 less = _mm256_set1_ps(zero), times = _mm256_set1_ps(scale);
	for (; i + 16 <= n; i += 16) {
		__m128i b = _mm_loadl_epi64((const __m128i *)(const void *)(w + i / 2));
		__m128i both = _mm_unpacklo_epi8(_mm_and_si128(b, low),
						 _mm_and_si128(_mm_srli_epi16(b, 4), low));
		__m256 first = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(both));
		__m256 second = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(both, 8)));
		_mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_sub_ps(first, less), times));
		_mm256_storeu_ps(y + i + 8, _mm256_mul_ps(_mm256_sub_ps(second, less), times));
	}
#endif
	for (; i < n; i++)
		y[i] = ((float)(w[i / 2] >> (i & 1) * 4 & 15) - zero) * scale;
}

#if SIMD_LEVEL >= 3

/* Loads 16 bytes of each of LANES columns; vector i has bytes 4i..4i+3 of all of them. */
static inline void load_quads(const uint8_t *w, int64_t column, vec_codes quad[4])
{
	VEC z[4], t[4], q[4];

	for (int i = 0; i < 4; i++) {
		__m128i part[LANES / 4];
		for (int l = 0; l < LANES / 4; l++)
			part[l] = _mm_loadu_si128(
				(const __m128i *)(const void *)(w + (i + 4 * l) * column));
#if SIMD_LEVEL >= 4
		z[i] = _mm512_inserti32x4(_mm512_castsi128_si512(part[0]), part[1], 1);
		z[i] = _mm512_inserti32x4(z[i], part[2], 2);
		z[i] = _mm512_inserti32x4(z[i], part[3], 3);
#else
		z[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(part[0]), part[1], 1);
#endif
	}
#if SIMD_LEVEL >= 4
#define UNPACK(how, a, b) _mm512_unpack##how(a, b)
#else
#define UNPACK(how, a, b) _mm256_unpack##how(a, b)
#endif
	t[0] = UNPACK(lo_epi32, z[0], z[1]);
	t[1] = UNPACK(hi_epi32, z[0], z[1]);
	t[2] = UNPACK(lo_epi32, z[2], z[3]);
	t[3] = UNPACK(hi_epi32, z[2], z[3]);
	q[0] = UNPACK(lo_epi64, t[0], t[2]);
	q[1] = UNPACK(hi_epi64, t[0], t[2]);
	q[2] = UNPACK(lo_epi64, t[1], t[3]);
	q[3] = UNPACK(hi_epi64, t[1], t[3]);
#undef UNPACK
	memcpy(quad, q, sizeof(q));
}

/* Loads four bytes of each column. */
static inline void load_quad(const uint8_t *w, int64_t column, vec_codes *quad)
{
	uint32_t of[LANES];

	for (int i = 0; i < LANES; i++)
		memcpy(&of[i], w + i * column, sizeof(of[i]));
	memcpy(quad, of, sizeof(of));
}

/* `bits` is a constant where this is inlined. */
static inline __attribute__((always_inline)) void widen_codes(const uint8_t *w, int64_t column,
							      int64_t n, int bits,
							      const float *zero, const float *scale,
							      float *y, int64_t step)
{
	const int each = 32 / bits;
	vec_floats less, times;

	memcpy(&less, zero, sizeof(less));
	memcpy(&times, scale, sizeof(times));
	for (int64_t k = 0; k < n;) {
		int quads = n - k >= 4 * each ? 4 : 1;
		vec_codes quad[4];
		if (quads == 4)
			load_quads(w, column, quad);
		else
			load_quad(w, column, quad);
		for (int q = 0; q < quads; q++) {
			_Pragma("GCC unroll 16") for (int i = 0; i < each; i++, y += step)
			{
				vec_ints code = (vec_ints)(quad[q] >> (uint32_t)(i * bits) &
							   ((1u << bits) - 1));
				vec_floats v =
					(__builtin_convertvector(code, vec_floats) - less) * times;
				memcpy(y, &v, sizeof(v));
			}
		}
		w += 4 * quads;
		k += quads * each;
	}
}

static void widen_columns(const uint8_t *w, int64_t column, int64_t n, int64_t bits,
			  const float *zero, const float *scale, float *y, int64_t step)
{
	if (bits == 2)
		widen_codes(w, column, n, 2, zero, scale, y, step);
	else if (bits == 4)
		widen_codes(w, column, n, 4, zero, scale, y, step);
	else
		widen_codes(w, column, n, 8, zero, scale, y, step);
}
#endif

/* Looks up eight bytes at a time, so that eight bytes need only one load of x and one store to y. */
static void look_up_plain(const uint8_t *x, uint8_t *y, int64_t n, const uint8_t *table)
{
	int64_t i = 0;

	for (; i + 8 <= n; i += 8) {
		uint8_t in[8], out[8];
		memcpy(in, x + i, 8);
		for (int k = 0; k < 8; k++)
			out[k] = table[in[k]];
		memcpy(y + i, out, 8);
	}
	for (; i < n; i++)
		y[i] = table[x[i]];
}

#ifdef VEC
/*
 * Sixteen values of a table lie in each 16 bytes of a register, where an index finds one by its low four bits, or 0 if it is negative. An index of 16 i to
 * 16 i + 15 does in the first i + 1 of eight registers when 16 times their number is taken off it. So each holds its values XOR those of the register before;
 * the upper half of the table takes indices less 128.
 */
static void look_up_shuffled(const uint8_t *x, uint8_t *y, int64_t n, const uint8_t *table)
{
	enum { STEP = 4 * LANES, SUBTABLE = 16 };
	const VEC sixteen = SPLAT(0x10101010), upper = SPLAT((int)0x80808080);
	VEC t[256 / SUBTABLE];
	int64_t i = 0;

	for (int k = 0; k < 256 / SUBTABLE; k++) {
		uint8_t part[STEP];
		for (int e = 0; e < STEP; e++) {
			int at = k * SUBTABLE + e % SUBTABLE;
			part[e] = table[at] ^ (k % 8 ? table[at - SUBTABLE] : 0);
		}
		t[k] = LOAD(part);
	}
	for (; i + STEP <= n; i += STEP) {
		VEC low = LOAD(x + i), high = XOR(low, upper), v = ZERO, w = ZERO;
		for (int k = 0; k < 8; k++) {
			v = XOR(v, SHUFFLE8(t[k], low));
			w = XOR(w, SHUFFLE8(t[8 + k], high));
			low = SUBS8(low, sixteen);
			high = SUBS8(high, sixteen);
		}
		STORE(y + i, XOR(v, w));
	}
	look_up_plain(x + i, y + i, n - i, table);
}
#endif

#if SIMD_LEVEL >= 4
__attribute__((target("avx512vbmi"))) static void look_up_wide(const uint8_t *x, uint8_t *y,
							       int64_t n, const uint8_t *table)
{
	__m512i t[4];
	int64_t i = 0;

	for (int k = 0; k < 4; k++)
		t[k] = _mm512_loadu_si512(table + 64 * k);
	for (; i + 64 <= n; i += 64) {
		__m512i v = _mm512_loadu_si512(x + i);
		__m512i low = _mm512_permutex2var_epi8(t[0], v, t[1]);
		__m512i high = _mm512_permutex2var_epi8(t[2], v, t[3]);
		_mm512_storeu_si512(y + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high));
	}
	look_up_plain(x + i, y + i, n - i, table);
}
#endif

static void look_up(const uint8_t *x, uint8_t *y, int64_t n, const uint8_t *table)
{
	enum { MIN_SHUFFLED = 512 }; /* the registers take as long as some hundred bytes */

#if SIMD_LEVEL >= 4
	if (__builtin_cpu_supports("avx512vbmi")) {
		look_up_wide(x, y, n, table);
		return;
	}
#endif
#ifdef VEC
	if (n >= MIN_SHUFFLED) {
		look_up_shuffled(x, y, n, table);
		return;
	}
#endif
	look_up_plain(x, y, n, table);
}

static int64_t sum_bytes(const uint8_t *x, int64_t n, uint8_t flip)
{
	int64_t sum = 0, i = 0;

#if SIMD_LEVEL >= 2
	__m128i f = _mm_set1_epi8((char)flip), zero = _mm_setzero_si128(), a = zero, b = zero;
	for (; i + 32 <= n; i += 32) {
		__m128i v0 = _mm_loadu_si128((const __m128i *)(const void *)(x + i));
		__m128i v1 = _mm_loadu_si128((const __m128i *)(const void *)(x + i + 16));
		a = _mm_add_epi64(a, _mm_sad_epu8(_mm_xor_si128(v0, f), zero));
		b = _mm_add_epi64(b, _mm_sad_epu8(_mm_xor_si128(v1, f), zero));
	}
	int64_t lane[2];
	_mm_storeu_si128((__m128i *)(void *)lane, _mm_add_epi64(a, b));
	sum = lane[0] + lane[1];
#endif
	for (; i < n; i++)
		sum += x[i] ^ flip;
	return sum;
}

#define KERNELS                                                                                    \
	.pack = pack, .column_sums = column_sums, .add_rows = add_rows, .row_sum = row_sum,        \
	.correct = correct, .to_floats = to_floats, .requantize = requantize,                      \
	.requantize_floats = requantize_floats, .quantize = quantize,                              \
	.dequantize_u8 = dequantize_u8, .dequantize_i8 = dequantize_i8, .add8 = add8,              \
	.multiply8 = multiply8, .every_other = every_other, .look_up = look_up,                    \
	.sum_bytes = sum_bytes, .nibbles = nibbles, .widen_nibbles = widen_nibbles,
/* Without VNNI. */
#define BYTE_KERNELS                                                                               \
	.widen = widen, .panels_wide = panels_wide, .clip = clip,                                  \
	.panels_clipped = panels_clipped, .pairs_fit = pairs_fit, .add_rest = add_rest,            \
	.split = split, .panels_narrow = panels_narrow, .rows_narrow = rows_narrow,                \
	.words = words, .tile_codes = tile_codes, .tile_sums = tile_sums,
/* Of weights of 2, 4 and 8 bits. */
#define WEIGHT_KERNELS .widen_columns = widen_columns, .widened = LANES,
#if SIMD_LEVEL >= 4
const struct igemm_kernels igemm_kernels_v4 = {KERNELS WEIGHT_KERNELS.panels = panels,
					       .nibble_codes = nibbles_fours};
const struct igemm_kernels igemm_kernels_v4_bytes = {
	KERNELS BYTE_KERNELS WEIGHT_KERNELS.panels = panels_pairs, .nibble_codes = nibbles_bytes};
#elif SIMD_LEVEL == 3
const struct igemm_kernels igemm_kernels_v3 = {KERNELS BYTE_KERNELS WEIGHT_KERNELS.panels = panels,
					       .nibble_codes = nibbles_bytes};
#elif SIMD_LEVEL == 2
const struct igemm_kernels igemm_kernels_v2 = {KERNELS BYTE_KERNELS.panels = panels};
#else
const struct igemm_kernels igemm_kernels_v0 = {KERNELS.panels = panels};
#endif
