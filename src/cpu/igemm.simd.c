/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once for each instruction set level; igemm.c chooses. */
#include "cpu/igemm.h"

#include <math.h>
#include <string.h>
#if SIMD_LEVEL >= 2
#include <immintrin.h>
#endif

#if SIMD_LEVEL >= 4
#define VEC	      __m512i
#define LANES	      16
#define LOAD(p)	      _mm512_loadu_si512(p)
#define STORE(p, v)   _mm512_storeu_si512(p, v)
#define MADD(a, b, c) _mm512_add_epi32(c, _mm512_madd_epi16(a, b))
#define SPLAT(x)      _mm512_set1_epi32(x)
#define ZERO	      _mm512_setzero_si512()
#define ROWS	      8
#elif SIMD_LEVEL == 3
#define VEC	      __m256i
#define LANES	      8
#define LOAD(p)	      _mm256_loadu_si256((const __m256i *)(p))
#define STORE(p, v)   _mm256_storeu_si256((__m256i *)(p), v)
#define MADD(a, b, c) _mm256_add_epi32(c, _mm256_madd_epi16(a, b))
#define SPLAT(x)      _mm256_set1_epi32(x)
#define ZERO	      _mm256_setzero_si256()
#define ROWS	      4
#elif SIMD_LEVEL == 2
#define VEC	      __m128i
#define LANES	      4
#define LOAD(p)	      _mm_loadu_si128((const __m128i *)(p))
#define STORE(p, v)   _mm_storeu_si128((__m128i *)(p), v)
#define MADD(a, b, c) _mm_add_epi32(c, _mm_madd_epi16(a, b))
#define SPLAT(x)      _mm_set1_epi32(x)
#define ZERO	      _mm_setzero_si128()
#define ROWS	      2
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
/* Panels that one strip of rows is multiplied by at once: as many as there are registers for. */
enum { TOGETHER = LANES == 16 ? 2 : 1 };

/* ROWS rows by `n` panels (1 or TOGETHER, a constant where this is inlined). */
#define ROWS_VEC(name, attribute, madd)                                                            \
	attribute static inline __attribute__((always_inline)) void name(                          \
		const int16_t *a, int64_t lda, const int16_t *b, int64_t k2, int n, int32_t *c,    \
		int64_t ldc)                                                                       \
	{                                                                                          \
		VEC sum[ROWS][TOGETHER * VECS];                                                    \
		for (int r = 0; r < ROWS; r++)                                                     \
			for (int v = 0; v < n * VECS; v++)                                         \
				sum[r][v] = ZERO;                                                  \
		for (int64_t k = 0; k < k2; k++, a += 2, b += 2 * IGEMM_NR) {                      \
			VEC y[TOGETHER * VECS];                                                    \
			for (int v = 0; v < n * VECS; v++)                                         \
				y[v] = LOAD(b + v / VECS * 2 * IGEMM_NR * k2 +                     \
					    2 * LANES * (v % VECS));                               \
			for (int r = 0; r < ROWS; r++) {                                           \
				int32_t pair;                                                      \
				memcpy(&pair, a + r * lda, sizeof(pair));                          \
				VEC x = SPLAT(pair);                                               \
				for (int v = 0; v < n * VECS; v++)                                 \
					sum[r][v] = madd(x, y[v], sum[r][v]);                      \
			}                                                                          \
		}                                                                                  \
		for (int r = 0; r < ROWS; r++)                                                     \
			for (int v = 0; v < n * VECS; v++)                                         \
				STORE(c + r * ldc + v * LANES, sum[r][v]);                         \
	}

#define PANELS(name, attribute, rows)                                                              \
	attribute static void name(const int16_t *a, int64_t lda, const int16_t *b, int64_t k2,    \
				   int64_t n, int64_t m, int32_t *c, int64_t ldc)                  \
	{                                                                                          \
		const int64_t panel = 2 * IGEMM_NR * k2;                                           \
		int64_t i = 0;                                                                     \
		for (; i + ROWS <= m; i += ROWS) {                                                 \
			int64_t p = 0;                                                             \
			for (; p + TOGETHER <= n; p += TOGETHER)                                   \
				rows(a + i * lda, lda, b + p * panel, k2, TOGETHER,                \
				     c + i * ldc + p * IGEMM_NR, ldc);                             \
			for (; p < n; p++)                                                         \
				rows(a + i * lda, lda, b + p * panel, k2, 1,                       \
				     c + i * ldc + p * IGEMM_NR, ldc);                             \
		}                                                                                  \
		rest_rows(a + i * lda, lda, b, k2, n, m - i, c + i * ldc, ldc);                    \
	}
#endif

/* Rows that are left after whole strips. */
static void rest_rows(const int16_t *a, int64_t lda, const int16_t *b, int64_t k2, int64_t n,
		      int64_t m, int32_t *c, int64_t ldc)
{
	for (int64_t i = 0; i < m; i++)
		for (int64_t p = 0; p < n; p++)
			row_plain(a + i * lda, b + p * 2 * IGEMM_NR * k2, k2,
				  c + i * ldc + p * IGEMM_NR);
}

#if SIMD_LEVEL >= 4
/* The same with the instruction that multiplies and adds at once, where the machine has it. */
#define VNNI		__attribute__((target("avx512vnni")))
#define DPWSSD(x, y, c) _mm512_dpwssd_epi32(c, x, y)
ROWS_VEC(rows_plain, , MADD)
PANELS(panels_plain, , rows_plain)
ROWS_VEC(rows_vnni, VNNI, DPWSSD)
PANELS(panels_vnni, VNNI, rows_vnni)

static void panels(const int16_t *a, int64_t lda, const int16_t *b, int64_t k2, int64_t n,
		   int64_t m, int32_t *c, int64_t ldc)
{
	if (__builtin_cpu_supports("avx512vnni"))
		panels_vnni(a, lda, b, k2, n, m, c, ldc);
	else
		panels_plain(a, lda, b, k2, n, m, c, ldc);
}
#elif defined(VEC)
ROWS_VEC(rows_vec, , MADD)
PANELS(panels, , rows_vec)
#else
static void panels(const int16_t *a, int64_t lda, const int16_t *b, int64_t k2, int64_t n,
		   int64_t m, int32_t *c, int64_t ldc)
{
	rest_rows(a, lda, b, k2, n, m, c, ldc);
}
#endif

static void pack(const void *bytes, int64_t row, int64_t k, int is_signed, const int16_t *zero,
		 int16_t *out)
{
	const uint8_t *b = bytes;
	int64_t i = 0;

#if SIMD_LEVEL >= 2
	__m128i z0 = _mm_loadu_si128((const __m128i *)(const void *)zero);
	__m128i z1 = _mm_loadu_si128((const __m128i *)(const void *)(zero + 8)),
		none = _mm_setzero_si128();
	for (; i + 2 <= k; i += 2, out += 2 * IGEMM_NR) {
		__m128i r0 = _mm_loadu_si128((const __m128i *)(const void *)(b + i * row));
		__m128i r1 = _mm_loadu_si128((const __m128i *)(const void *)(b + (i + 1) * row));
		__m128i s0 = is_signed ? _mm_cmpgt_epi8(none, r0) : none;
		__m128i s1 = is_signed ? _mm_cmpgt_epi8(none, r1) : none;
		__m128i a0 = _mm_sub_epi16(_mm_unpacklo_epi8(r0, s0), z0);
		__m128i a1 = _mm_sub_epi16(_mm_unpackhi_epi8(r0, s0), z1);
		__m128i b0 = _mm_sub_epi16(_mm_unpacklo_epi8(r1, s1), z0);
		__m128i b1 = _mm_sub_epi16(_mm_unpackhi_epi8(r1, s1), z1);
		_mm_storeu_si128((__m128i *)(void *)out, _mm_unpacklo_epi16(a0, b0));
		_mm_storeu_si128((__m128i *)(void *)(out + 8), _mm_unpackhi_epi16(a0, b0));
		_mm_storeu_si128((__m128i *)(void *)(out + 16), _mm_unpacklo_epi16(a1, b1));
		_mm_storeu_si128((__m128i *)(void *)(out + 24), _mm_unpackhi_epi16(a1, b1));
	}
#endif
	for (; i < k; i++) {
		for (int n = 0; n < IGEMM_NR; n++) {
			int v = is_signed ? (int8_t)b[i * row + n] : b[i * row + n];
			out[2 * n + (i & 1)] = (int16_t)(v - zero[n]);
		}
		if (i & 1)
			out += 2 * IGEMM_NR;
	}
}

static void requantize(const int32_t *x, void *out, int64_t n, const float *scale, int step,
		       int32_t zero, int32_t low, int32_t high)
{
	float lo = (float)(low - zero), hi = (float)(high - zero);
	uint8_t *y = out;
	int64_t i = 0;

#if SIMD_LEVEL >= 2
	__m128 l = _mm_set1_ps(lo), h = _mm_set1_ps(hi), one = _mm_set1_ps(*scale);
	__m128i z = _mm_set1_epi32(zero), byte = _mm_set1_epi32(255);
	for (; i + 16 <= n; i += 16) {
		__m128i v[4];
		for (int k = 0; k < 4; k++) {
			__m128i sum = _mm_loadu_si128((const __m128i *)(const void *)(x + i + 4 * k));
			__m128 q = _mm_mul_ps(_mm_cvtepi32_ps(sum),
					      step ? _mm_loadu_ps(scale + i + 4 * k) : one);
			q = _mm_min_ps(_mm_max_ps(q, l), h); /* max gives l for NaN */
			v[k] = _mm_and_si128(_mm_add_epi32(_mm_cvtps_epi32(q), z), byte);
		}
		_mm_storeu_si128(
			(__m128i *)(void *)(y + i),
			_mm_packus_epi16(_mm_packs_epi32(v[0], v[1]), _mm_packs_epi32(v[2], v[3])));
	}
#endif
	for (; i < n; i++) {
		float q = (float)x[i] * scale[i * step];
		q = q > lo ? q : lo;
		q = q < hi ? q : hi;
		y[i] = (uint8_t)((int32_t)rintf(q) + zero);
	}
}

static inline int32_t quantize_one(float x, float scale, float low, float high)
{
	float q = x / scale;

	q = q > low ? q : low; /* NaN too */
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

#define WIDEN(name, type)                                                                          \
	static void name(const type *x, int64_t n, int16_t zero, int16_t *restrict y)              \
	{                                                                                          \
		for (int64_t i = 0; i < n; i++)                                                    \
			y[i] = (int16_t)(x[i] - zero);                                             \
	}
WIDEN(widen_u8, uint8_t)
WIDEN(widen_i8, int8_t)

static inline float lanes_sum(const float *v, int n)
{
	float sum = 0;

	for (int i = 0; i < n; i++)
		sum += v[i];
	return sum;
}

static float nibbles(const float *a, const uint8_t *w, const float *scale, int64_t blocks, int64_t blob)
{
#if SIMD_LEVEL >= 3
	__m256 total = _mm256_setzero_ps();
	const __m256i low = _mm256_set1_epi32(15);

	for (int64_t b = 0; b < blocks; b++, w += blob, a += 2 * blob) {
		__m256 even = _mm256_setzero_ps(), odd = even;
		for (int64_t i = 0; i < blob; i += 8) {
			__m256i v = _mm256_cvtepu8_epi32(
				_mm_loadl_epi64((const __m128i *)(const void *)(w + i)));
			__m256 l = _mm256_cvtepi32_ps(_mm256_and_si256(v, low));
			__m256 h = _mm256_cvtepi32_ps(_mm256_srli_epi32(v, 4));
			even = _mm256_fmadd_ps(l, _mm256_loadu_ps(a + i), even);
			odd = _mm256_fmadd_ps(h, _mm256_loadu_ps(a + blob + i), odd);
		}
		total = _mm256_fmadd_ps(_mm256_add_ps(even, odd), _mm256_set1_ps(scale[b]), total);
	}
	float lane[8];
	_mm256_storeu_ps(lane, total);
	return lanes_sum(lane, 8);
#else
	float lane[8] = {0};

	for (int64_t b = 0; b < blocks; b++, w += blob, a += 2 * blob)
		for (int64_t i = 0; i < blob; i += 8)
			for (int k = 0; k < 8; k++)
				lane[k] += scale[b] * ((float)(w[i + k] & 15) * a[i + k] +
						       (float)(w[i + k] >> 4) * a[blob + i + k]);
	return lanes_sum(lane, 8);
#endif
}

#define NAME_(level) igemm_kernels_v##level
#define NAME(level)  NAME_(level)
const struct igemm_kernels NAME(SIMD_LEVEL) = {panels,	 pack,		requantize,
					       quantize, dequantize_u8, dequantize_i8,
					       widen_u8, widen_i8,	nibbles};
