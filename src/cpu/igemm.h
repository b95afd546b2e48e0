/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_IGEMM_H
#define CPU_IGEMM_H
/*
 * Products of 8-bit integer matrices with int32 sums. Elements are widened to int16 with their
 * zero points taken off, so that one kernel serves every mix of signs.
 */
#include <stddef.h>
#include <stdint.h>

enum { IGEMM_NR = 16, IGEMM_GROUP = 4, IGEMM_MC = 64 };

struct igemm {
	int64_t m, n, k;
	const int16_t *a; /* rows of igemm_depth(k) elements, the pad zero */
	/*
	 * Columns n..n+count-1 of B as pairs along k: panel[k / 2][IGEMM_NR][2]; what lies beyond
	 * count or k is zero already.
	 */
	void (*pack)(const void *arg, int64_t n, int64_t count, int16_t *panel);
	/* Sums of rows m..m+rows-1, columns n..n+cols-1; rows of `sums` are ld apart. */
	void (*store)(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
		      const int32_t *sums, int64_t ld);
	const void *arg;
};

static inline int64_t igemm_depth(int64_t k)
{
	return (k + 1) & ~(int64_t)1;
}
/* Scratch for all threads. */
size_t igemm_scratch(int64_t k);
void igemm_run(const struct igemm *g, void *scratch);

/* ---- loops in several instruction sets: igemm.simd.c ---- */
struct igemm_kernels {
	/* c[m][n * IGEMM_NR] = a (rows lda apart) times n panels of k2 pairs, which follow each other */
	void (*panels)(const int16_t *a, int64_t lda, const int16_t *b, int64_t k2, int64_t n,
		       int64_t m, int32_t *c, int64_t ldc);
	/* k rows of IGEMM_NR bytes, row apart, less zero[IGEMM_NR], as a panel */
	void (*pack)(const void *b, int64_t row, int64_t k, int is_signed, const int16_t *zero,
		     int16_t *panel);
	/* y = clamp(round(x * scale) + zero), low byte; scales are step (0 or 1) apart */
	void (*requantize)(const int32_t *x, void *y, int64_t n, const float *scale, int step,
			   int32_t zero, int32_t low, int32_t high);
	/* y = clamp(round(x / scale) + zero), low byte */
	void (*quantize)(const float *x, void *y, int64_t n, float scale, int32_t zero, int32_t low,
			 int32_t high);
	/* y = (x - zero) * scale */
	void (*dequantize_u8)(const uint8_t *x, float *y, int64_t n, float scale, int32_t zero);
	void (*dequantize_i8)(const int8_t *x, float *y, int64_t n, float scale, int32_t zero);
	/* y = x - zero */
	void (*widen_u8)(const uint8_t *x, int64_t n, int16_t zero, int16_t *y);
	void (*widen_i8)(const int8_t *x, int64_t n, int16_t zero, int16_t *y);
	/*
	 * Sum over blocks of scale[b] times the products with nibbles: a has a block's elements for the
	 * low nibbles of its blob bytes (a multiple of 8), then those for the high ones.
	 */
	float (*nibbles)(const float *a, const uint8_t *w, const float *scale, int64_t blocks,
			 int64_t blob);
};
extern const struct igemm_kernels igemm_kernels_v0, igemm_kernels_v2, igemm_kernels_v3,
	igemm_kernels_v4;
const struct igemm_kernels *igemm_kernels(void);

#endif
