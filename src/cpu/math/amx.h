/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_AMX_H
#define CPU_MATH_AMX_H
/*
 * Products of bf16 matrices by AMX, with sums in fp32; products of 8-bit integers by AMX are in igemm.simd.c. A tile has 16
 * rows of 64 bytes. Operands are first copied into whole tiles, which are padded with zeros. AVX512-BF16 reads the same copies
 * where there is no AMX.
 */
#include <stdbool.h>
#include <stdint.h>

enum {
	AMX_ROWS = 16,
	AMX_DEPTH = 32
}; /* a tile: rows of A and of C, columns of B and C; bf16 elements along k */

/*
 * Returns whether the processor has AMX for bf16 and for 8-bit integers, and the system lets this process use it. ONEDNN_MAX_CPU_ISA forbids it if
 * that names a smaller instruction set.
 */
bool amx_usable(void);
/* Returns the same of AVX512-BF16 or AMX: whether bf16_multiply may be called. */
bool bf16_usable(void);

/* Returns n rounded up to whole tiles. */
static inline int64_t amx_rows(int64_t n)
{
	return (n + AMX_ROWS - 1) / AMX_ROWS * AMX_ROWS;
}
static inline int64_t amx_depth(int64_t k)
{
	return (k + AMX_DEPTH - 1) / AMX_DEPTH * AMX_DEPTH;
}

/*
 * Copies rows of k elements, `row` elements apart, to `to`, amx_depth(k) elements apart and amx_rows(rows) in number. The
 * padding is zero.
 */
void amx_pack_a(const uint16_t *a, int64_t row, int64_t rows, int64_t k, uint16_t *to);
/*
 * Copies B of k rows and n columns in the order in which amx_multiply reads it: amx_depth(k) * amx_rows(n) elements. The rows
 * of B are dense and `step` elements apart, or, if `transposed` is set, its columns are.
 */
void amx_pack_b(const uint16_t *b, int64_t step, bool transposed, int64_t k, int64_t n, uint16_t *to);

/* C = A B: rows of A padded as amx_pack_a does, amx_pack_b's B, and k rounded up to tiles. */
struct amx {
	int64_t m, n, k;
	const uint16_t *a;
	int64_t a_row;
	const uint16_t *b;
	float *c;
	int64_t c_row;
};
/* m and n are whole tiles. */
void amx_multiply(const struct amx *p);
/*
 * By AMX if it is usable, else by AVX512-BF16. m and n need not be whole tiles. `backwards`, from the last columns to the first
 * (see struct gemm), matters to the latter alone.
 */
void bf16_multiply(const struct amx *p, bool backwards);

/*
 * y = exp((x - max) * scale), precise enough for bf16, where max is no less than any x; returns the sum of the terms before
 * they are rounded.
 */
float amx_exp_sum(const float *x, uint16_t *y, int64_t n, float max, float scale);

/* ---- for code that uses tiles ---- */

/* What the instruction that prepares the tiles reads. */
struct amx_configuration {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} __attribute__((aligned(64)));

/* ---- for amx.c and amx.simd.c only ---- */

void amx_multiply_v4(const struct amx *p, bool whole);
void bf16_dots_v4(const struct amx *p, bool backwards);
float amx_exp_sum_v4(const float *x, uint16_t *y, int64_t n, float max, float scale);
void amx_pack_b_v4(const uint16_t *b, int64_t step, bool transposed, int64_t k, int64_t n,
		   uint16_t *to);

#endif
