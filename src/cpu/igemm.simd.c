/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once for each instruction set level; igemm.c chooses. */
#include "cpu/igemm.h"

#include <math.h>
#include <string.h>
#if SIMD_LEVEL >= 2
#include <immintrin.h>
#endif

#if SIMD_LEVEL >= 4
#define VEC	    __m512i
#define LANES	    16
#define LOAD(p)	    _mm512_loadu_si512(p)
#define STORE(p, v) _mm512_storeu_si512(p, v)
#define MADD(a, b, c) _mm512_add_epi32(c, _mm512_madd_epi16(a, b))
#define SPLAT(x)    _mm512_set1_epi32(x)
#define ZERO	    _mm512_setzero_si512()
#define ROWS	    8
#elif SIMD_LEVEL == 3
#define VEC	    __m256i
#define LANES	    8
#define LOAD(p)	    _mm256_loadu_si256((const __m256i *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define MADD(a, b, c) _mm256_add_epi32(c, _mm256_madd_epi16(a, b))
#define SPLAT(x)    _mm256_set1_epi32(x)
#define ZERO	    _mm256_setzero_si256()
#define ROWS	    4
#elif SIMD_LEVEL == 2
#define VEC	    __m128i
#define LANES	    4
#define LOAD(p)	    _mm_loadu_si128((const __m128i *)(p))
#define STORE(p, v) _mm_storeu_si128((__m128i *)(p), v)
#define MADD(a, b, c) _mm_add_epi32(c, _mm_madd_epi16(a, b))
#define SPLAT(x)    _mm_set1_epi32(x)
#define ZERO	    _mm_setzero_si128()
#define ROWS	    2
#endif

/* One row at a time, for what the vectors leave. */
static inline void row_plain(const int16_t *a, const int16_t *b, int64_t k2, int32_t *c)
{
	int32_t sum[IGEMM_NR] = {0};

	for (int64_t k = 0; k < k2; k++, a += 2, b += 2 * IGEMM_NR)
		for (int i = 0; i < IGEMM_NR; i++)
			sum[i] += a[0] * b[2 * i] + a[1] * b[2 * i + 1];
	memcpy(c, sum, sizeof(sum));
}

#ifdef VEC
enum { VECS = IGEMM_NR / LANES };

static inline void rows_vec(const int16_t *a, int64_t lda, const int16_t *b, int64_t k2, int32_t *c, int64_t ldc)
{
	VEC sum[ROWS][VECS];

	for (int r = 0; r < ROWS; r++)
		for (int v = 0; v < VECS; v++)
			sum[r][v] = ZERO;
	for (int64_t k = 0; k < k2; k++, a += 2, b += 2 * IGEMM_NR) {
		VEC y[VECS];
		for (int v = 0; v < VECS; v++)
			y[v] = LOAD(b + 2 * LANES * v);
		for (int r = 0; r < ROWS; r++) {
			int32_t pair;
			memcpy(&pair, a + r * lda, sizeof(pair));
			VEC x = SPLAT(pair);
			for (int v = 0; v < VECS; v++)
				sum[r][v] = MADD(x, y[v], sum[r][v]);
		}
	}
	for (int r = 0; r < ROWS; r++)
		for (int v = 0; v < VECS; v++)
			STORE(c + r * ldc + v * LANES, sum[r][v]);
}
#endif

static void panel(const int16_t *a, int64_t lda, const int16_t *b, int64_t k2, int64_t m, int32_t *c, int64_t ldc)
{
	int64_t i = 0;

#ifdef VEC
	for (; i + ROWS <= m; i += ROWS)
		rows_vec(a + i * lda, lda, b, k2, c + i * ldc, ldc);
#endif
	for (; i < m; i++)
		row_plain(a + i * lda, b, k2, c + i * ldc);
}

static inline int32_t quantize_one(float x, float scale, float low, float high)
{
	float q = x / scale;

	q = q > low ? q : low; /* NaN too */
	q = q < high ? q : high;
	return (int32_t)rintf(q);
}

static void quantize(const float *x, void *out, int64_t n, float scale, int32_t zero, int32_t low, int32_t high)
{
	float lo = (float)(low - zero), hi = (float)(high - zero);
	uint8_t *y = out;
	int64_t i = 0;

#if SIMD_LEVEL >= 2
	__m128 s = _mm_set1_ps(scale), l = _mm_set1_ps(lo), h = _mm_set1_ps(hi);
	__m128i z = _mm_set1_epi32(zero), byte = _mm_set1_epi32(255);
	for (; i + 16 <= n; i += 16) {
		__m128i v[4];
		for (int k = 0; k < 4; k++) {
			__m128 q = _mm_div_ps(_mm_loadu_ps(x + i + 4 * k), s);
			q = _mm_min_ps(_mm_max_ps(q, l), h); /* max gives l for NaN */
			v[k] = _mm_and_si128(_mm_add_epi32(_mm_cvtps_epi32(q), z), byte);
		}
		_mm_storeu_si128((__m128i *)(void *)(y + i), _mm_packus_epi16(_mm_packs_epi32(v[0], v[1]),
									      _mm_packs_epi32(v[2], v[3])));
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
		__m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x + i)));
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
		__m256i v = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x + i)));
		_mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(v, z)), s));
	}
#endif
	for (; i < n; i++)
		y[i] = (float)(x[i] - zero) * scale;
}

#define NAME_(level) igemm_kernels_v##level
#define NAME(level)  NAME_(level)
const struct igemm_kernels NAME(SIMD_LEVEL) = {panel, quantize, dequantize_u8, dequantize_i8};
