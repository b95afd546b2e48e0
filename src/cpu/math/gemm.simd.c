/* SPDX-License-Identifier: Apache-2.0 */
/* This file is compiled once for each SIMD_LEVEL; gemm.c chooses the level at run time. */
#include "cpu/math/gemm.h"

#include "base/asan.h"

#include <stdbool.h>
#include <string.h>
#if SIMD_LEVEL >= 3
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/*
 * Tiles: TILES(F) has F(v, r) for each number of vectors v of columns and of rows r that a tile may have, TILE_ROWS(v) is the
 * greatest number of rows for so many vectors. The sums of a tile fill three quarters of the registers. With few registers
 * it is two vectors.
 *
 * Where a tile is wide, each element of A that is spread over a register serves more products: on a Xeon with AVX-512 tiles of
 * 6 x 4 vectors run at 0.97 of what the core can multiply, those of 8 x 3 at 0.93, of 12 x 2 at 0.86. The loop is unrolled because its own
 * instructions count where the core's other thread works, too: by 7 % there, by less than 1 % the other way where it does not.
 */
#define ROWS6(F, v)  F(v, 1) F(v, 2) F(v, 3) F(v, 4) F(v, 5) F(v, 6)
#define ROWS8(F, v)  ROWS6(F, v) F(v, 7) F(v, 8)
#define ROWS12(F, v) ROWS8(F, v) F(v, 9) F(v, 10) F(v, 11) F(v, 12)
#if SIMD_LEVEL >= 4
enum { BYTES = 64, MAX_ROWS = 12, MAX_VECS = 4 };
#define TILES(F)     ROWS12(F, 1) ROWS12(F, 2) ROWS8(F, 3) ROWS6(F, 4)
#define TILE_ROWS(v) ((v) == 4 ? 6 : (v) == 3 ? 8 : 12)
#elif SIMD_LEVEL == 3
enum { BYTES = 32, MAX_ROWS = 6, MAX_VECS = 2 };
#define TILES(F)     ROWS6(F, 1) ROWS6(F, 2)
#define TILE_ROWS(v) 6
#elif defined(__aarch64__)
/* NEON has 32 registers: a tile's sums take 24 of them. */
enum { BYTES = 16, MAX_ROWS = 12, MAX_VECS = 2 };
#define TILES(F)     ROWS12(F, 1) ROWS12(F, 2)
#define TILE_ROWS(v) 12
#else
enum { BYTES = 16, MAX_ROWS = 6, MAX_VECS = 2 };
#define TILES(F)     ROWS6(F, 1) ROWS6(F, 2)
#define TILE_ROWS(v) 6
#endif
/* Whether a vector can be read and written in part, so that tiles may end within one. */
#define RAGGED (SIMD_LEVEL >= 4)
_Static_assert(GEMM_MC % MAX_ROWS == 0, "blocks of A are whole tiles");

/* Sanitizers add code to each access: of unrolled tiles clang would make an object for a quarter of an hour. */
#define PRAGMA(text) _Pragma(#text)
#if WITH_ASAN
#define UNROLLED(n) PRAGMA(GCC unroll 1)
#else
#define UNROLLED(n) PRAGMA(GCC unroll n)
#endif

typedef float vec_f32 __attribute__((vector_size(BYTES)));
typedef double vec_f64 __attribute__((vector_size(BYTES)));
typedef uint32_t vec_u32 __attribute__((vector_size(BYTES)));
typedef uint64_t vec_u64 __attribute__((vector_size(BYTES)));

#if SIMD_LEVEL >= 4
#define FMA_F32(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FMA_F64(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif SIMD_LEVEL == 3
#define FMA_F32(a, b, c) _mm256_fmadd_ps(a, b, c)
#define FMA_F64(a, b, c) _mm256_fmadd_pd(a, b, c)
#elif defined(__aarch64__)
#define FMA_F32(a, b, c) vfmaq_f32(c, a, b)
#define FMA_F64(a, b, c) vfmaq_f64(c, a, b)
#else
#define FMA_F32(a, b, c) ((a) * (b) + (c))
#define FMA_F64(a, b, c) ((a) * (b) + (c))
#endif
#define SPLAT(x) ((x) - (VEC){0})

/* Packs eight columns of 4-byte elements: dst[at[k] + l] is element k of column l. */
static inline void pack_eight(const void *b, int64_t b_col, int64_t kc, void *dst, const int64_t *at)
{
	const float *from = b;
	float *to = dst;
	int64_t k = 0;

#if SIMD_LEVEL >= 3
	for (; k + 8 <= kc; k += 8) {
		__m256 x[8], y[8];
		for (int i = 0; i < 8; i++)
			x[i] = _mm256_loadu_ps(from + i * b_col + k);
		for (int i = 0; i < 8; i += 2) {
			y[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
			y[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
		}
		for (int i = 0; i < 8; i += 4)
			for (int h = 0; h < 2; h++) {
				x[i + 2 * h] = _mm256_shuffle_ps(y[i + h], y[i + 2 + h], 0x44);
				x[i + 2 * h + 1] = _mm256_shuffle_ps(y[i + h], y[i + 2 + h], 0xee);
			}
		for (int i = 0; i < 4; i++) {
			_mm256_storeu_ps(to + at[k + i], _mm256_permute2f128_ps(x[i], x[i + 4], 0x20));
			_mm256_storeu_ps(to + at[k + 4 + i],
					 _mm256_permute2f128_ps(x[i], x[i + 4], 0x31));
		}
	}
#endif
	for (; k < kc; k++)
		for (int i = 0; i < 8; i++)
			memcpy(to + at[k] + i, from + i * b_col + k, sizeof(*to));
}

/* The instructions return their second operand if one of the two is no number. */
#if SIMD_LEVEL >= 4
#define AT_LEAST(x, low) _mm512_max_ps(low, x)
#define AT_MOST(x, high) _mm512_min_ps(high, x)
#elif SIMD_LEVEL == 3
#define AT_LEAST(x, low) _mm256_max_ps(low, x)
#define AT_MOST(x, high) _mm256_min_ps(high, x)
#else
#define AT_LEAST(x, low) FN(pick)((x) < (low), x, low)
#define AT_MOST(x, high) FN(pick)((x) > (high), x, high)
#endif
#define REAL  float
#define VEC   vec_f32
#define LANES (BYTES / 4)
#define FMA   FMA_F32
#define FN(x) x##_f32
#include "cpu/math/gemm.inc"
#undef REAL
#undef VEC
#undef LANES
#undef FMA
#undef FN
#undef AT_LEAST
#undef AT_MOST
#define AT_LEAST(x, low) FN(pick)((x) < (low), x, low)
#define AT_MOST(x, high) FN(pick)((x) > (high), x, high)

#define REAL  double
#define VEC   vec_f64
#define LANES (BYTES / 8)
#define FMA   FMA_F64
#define FN(x) x##_f64
#include "cpu/math/gemm.inc"
#undef REAL
#undef VEC
#undef LANES
#undef FMA
#undef FN

#define REAL	     uint32_t
#define VEC	     vec_u32
#define LANES	     (BYTES / 4)
#define FMA(a, b, c) ((a) * (b) + (c))
#define FN(x)	     x##_u32
#include "cpu/math/gemm.inc"
#undef REAL
#undef VEC
#undef LANES
#undef FN

#define REAL  uint64_t
#define VEC   vec_u64
#define LANES (BYTES / 8)
#define FN(x) x##_u64
#include "cpu/math/gemm.inc"

#define NAME2(level) gemm_kernels_v##level
#define NAME1(level) NAME2(level)
const struct gemm_kernels NAME1(SIMD_LEVEL) = {.piece = {piece_f32, piece_f64, piece_u32, piece_u64},
					       .pack = {pack_f32, pack_f64, pack_u32, pack_u64},
					       .strip = {BYTES / 2, BYTES / 4, BYTES / 2, BYTES / 4}};
