/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_IGEMM_H
#define CPU_MATH_IGEMM_H
/*
 * Products of 8-bit integer matrices with int32 sums. One operand's bytes are signed and the
 * other's are not, as the processors' instructions have it: a caller flips the sign bit of what is
 * otherwise and moves its zero point by 128. Zero points are taken off the sums:
 *   sum (a - za) (b - zb) = sum a b - za * sum b - zb * (sum a - k za)
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IGEMM_NR = 16, IGEMM_GROUP = 4, IGEMM_MC = 64, IGEMM_FLIP = 128 };

struct igemm {
	int64_t m, n, k;
	const uint8_t *a;      /* rows of igemm_depth(k) bytes, the pad zero */
	bool a_signed;	       /* then B is not */
	const int32_t *a_zero; /* of each row; NULL: all zero */
	const int32_t *b_zero; /* of each column; NULL: all zero */
	int b_zero_step;       /* 0: one for all columns */
	const int32_t *a_rest; /* where b_zero is: of each row, its sum less k * a_zero */
	/*
	 * Columns n..n+count-1 of B in fours along k: panel[k / 4][IGEMM_NR][4], zero beyond count
	 * and k. packed: all panels are there already.
	 */
	const uint8_t *packed;
	const int32_t *packed_sums; /* where packed is: sums of its columns */
	void (*pack)(const void *arg, int64_t n, int64_t count, uint8_t *panel);
	/* Sums of rows m..m+rows-1, columns n..n+cols-1; rows of `sums` are ld apart. */
	void (*store)(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
		      const int32_t *sums, int64_t ld);
	const void *arg;
};

static inline int64_t igemm_depth(int64_t k)
{
	return (k + 3) & ~(int64_t)3;
}
/* Bytes of a panel. */
static inline size_t igemm_panel(int64_t k)
{
	return (size_t)igemm_depth(k) * IGEMM_NR;
}
/* Scratch for all threads. */
size_t igemm_scratch(int64_t k);
void igemm_run(const struct igemm *g, void *scratch);
/* The same on one thread, in that thread's part of the scratch. */
void igemm_run_alone(const struct igemm *g, void *scratch, int thread);

/* ---- loops in several instruction sets: igemm.simd.c ---- */

/* m rows of A by `panels` panels, which follow each other, of k4 fours. */
struct igemm_block {
	const uint8_t *a, *b;
	int64_t lda, ldc, k4, m, panels;
	int32_t *c;
	bool a_signed;
};
/* Rows of bytes: offset[k], or k * row, from the base. */
struct igemm_rows {
	const uint8_t *base;
	const int32_t *offset;
	int64_t row;
};
/* What is done with two codes: scales are those of the operands over the result's. */
struct igemm_codes {
	float a_scale, b_scale, zero;
	int32_t a_zero, b_zero;
	uint8_t flip;
};

struct igemm_kernels {
	void (*panels)(const struct igemm_block *g);
	/* count columns of k rows as a panel, each byte flipped */
	void (*pack)(const struct igemm_rows *b, int64_t k, int64_t count, uint8_t flip,
		     uint8_t *panel);
	void (*column_sums)(const uint8_t *panel, int64_t k4, bool is_signed, int32_t *sum);
	/* sum[i] = start + sum over k of (w[k] - zero) * row k's byte i, flipped */
	void (*add_rows)(const struct igemm_rows *b, const int8_t *w, int32_t zero, int64_t k,
			 uint8_t flip, int32_t start, int64_t n, int32_t *sum);
	int32_t (*row_sum)(const uint8_t *a, int64_t n, bool is_signed);
	void (*correct)(int32_t *c, int64_t n, int32_t za, const int32_t *column, int32_t rest,
			const int32_t *zb);
	/* y = clamp(round(x * scale) + zero), low byte; scales are step (0 or 1) apart */
	void (*requantize)(const int32_t *x, void *y, int64_t n, const float *scale, int step,
			   int32_t zero, int32_t low, int32_t high);
	/* y = clamp(round(x / scale) + zero), low byte */
	void (*quantize)(const float *x, void *y, int64_t n, float scale, int32_t zero, int32_t low,
			 int32_t high);
	/* y = (x - zero) * scale */
	void (*dequantize_u8)(const uint8_t *x, float *y, int64_t n, float scale, int32_t zero);
	void (*dequantize_i8)(const int8_t *x, float *y, int64_t n, float scale, int32_t zero);
	/* y = a + b, y = a * b in codes */
	void (*add8)(const struct igemm_codes *j, const uint8_t *a, const uint8_t *b, uint8_t *y,
		     int64_t n);
	void (*multiply8)(const struct igemm_codes *j, const uint8_t *a, const uint8_t *b,
			  uint8_t *y, int64_t n);
	/* y[i] = x[2 * i] */
	void (*every_other)(const uint8_t *x, int64_t n, uint8_t *y);
	/* y = table[x] */
	void (*look_up)(const uint8_t *x, uint8_t *y, int64_t n, const uint8_t *table);
	/* sum of bytes, each flipped */
	int64_t (*sum_bytes)(const uint8_t *x, int64_t n, uint8_t flip);
	/*
	 * Sum over blocks of scale[b] times the products with nibbles less zero: a has a block's elements
	 * for the low nibbles of its blob bytes (a multiple of 8), then those for the high ones.
	 */
	float (*nibbles)(const float *a, const uint8_t *w, float zero, const float *scale,
			 int64_t blocks, int64_t blob);
	/* n nibbles, the low one of a byte first: (nibble - zero) * scale */
	void (*widen_nibbles)(const uint8_t *w, int64_t n, float zero, float scale, float *y);
};
extern const struct igemm_kernels igemm_kernels_v0, igemm_kernels_v2, igemm_kernels_v3,
	igemm_kernels_v4;
const struct igemm_kernels *igemm_kernels(void);

#endif
