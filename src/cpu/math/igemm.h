/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_IGEMM_H
#define CPU_MATH_IGEMM_H
/*
 * Products of 8-bit integer matrices with int32 sums. One operand is signed and the other one
 * unsigned, because the processors' dot-product instructions require that. If an operand has the wrong
 * signedness, the caller flips the sign bit of its bytes (XOR with IGEMM_FLIP) and moves its zero point
 * by 128. The zero points are subtracted from the sums afterwards:
 *   sum (a - za) (b - zb) = sum a b - za * sum b - zb * (sum a - k za)
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	IGEMM_NR = 16,	    /* columns of a panel */
	IGEMM_GROUP = 4,    /* panels that are multiplied at once */
	IGEMM_MC = 192,	    /* most rows that are multiplied at once */
	IGEMM_WIDE_K4 = 96, /* most fours of k that widen() takes at once */
	IGEMM_NARROW = 8,   /* values of k in a group of struct igemm_narrow */
	IGEMM_WORDS = 32,   /* numbers of 16 bits in the widest vector */
	IGEMM_POINTS = 16, /* codes, and products, of a tile of 2 x 2 outputs of a convolution by 3 x 3 */
	IGEMM_FAR_ZERO = 64, /* least zero point of A for which rows are clipped about it */
	IGEMM_FLIP = 128
};

/*
 * Panels of signed weights as groups of IGEMM_NARROW values of k: without VNNI, sums of products of bytes have 16 bits. The groups are
 * made so that four products at a time always fit; a group of large weights is the sum of several. Such panels are half as long
 * as widened ones, and a product takes two thirds of the time.
 */
struct igemm_narrow {
	const int32_t *start; /* the first group of each panel, and their number behind the last one */
	const int32_t *at;    /* where along k a group lies */
	const uint8_t *data; /* of each group two quads of a panel */
};

/*
 * A remainder: what four codes of a row have lost by clipping, or a part of it. Clipped rows and remainders hold codes of which any two neighbours,
 * multiplied by any two bytes of B, have a sum that fits in 16 bits: without VNNI, such products with weights of the whole range take three
 * quarters of the time.
 */
struct igemm_rest {
	int32_t at; /* which four values of k */
	uint8_t value[4];
};

struct igemm {
	int64_t m, n, k;
	const uint8_t *a; /* rows of igemm_depth(k) bytes, padded with zeros */
	bool a_signed; /* true if A is signed and B unsigned, false if A is unsigned and B signed */
	const int32_t *a_zero; /* zero point of each row of A; NULL if all are 0 */
	const int32_t *b_zero; /* zero points of B's columns; NULL if all are 0 */
	int b_zero_step; /* 1 if each column has its own zero point, 0 if all columns share one */
	/* needed if b_zero is set: for each row of A, the sum of the row minus k * a_zero */
	const int32_t *a_rest;
	/* if not NULL: is called once for each row of A before it is read, and then writes it and its a_rest */
	void (*rows)(const void *arg, int64_t m, int64_t count);
	/*
	 * A panel holds up to IGEMM_NR columns of B in groups of four along k:
	 * panel[k / 4][IGEMM_NR][4], padded with zeros. `packed` has all panels of B; if it is NULL,
	 * pack() is called to write the panel of columns n..n+count-1.
	 */
	const uint8_t *packed;
	const int32_t *packed_sums; /* needed if packed and a_zero are set: sum of each column of B */
	/* without VNNI: no two products of neighbouring codes of a column with unsigned ones have a sum of more than 16 bits (igemm_kernels.pairs_fit) */
	bool pairs_fit;
	const struct igemm_narrow *narrow; /* if not NULL: all panels of B in this form */
	/* if not NULL: a signed A in this form, where each panel holds IGEMM_NR rows */
	const struct igemm_narrow *narrow_rows;
	void (*pack)(const void *arg, int64_t n, int64_t count, uint8_t *panel);
	/*
	 * Receives the sums of rows m..m+rows-1 and columns n..n+cols-1. sums[r * ld + c] belongs to row m + r and
	 * column n + c.
	 */
	void (*store)(const void *arg, int64_t m, int64_t rows, int64_t n, int64_t cols,
		      const int32_t *sums, int64_t ld);
	const void *arg;
};

static inline int64_t igemm_depth(int64_t k)
{
	return (k + 7) & ~(int64_t)7;
}
/* Bytes of a panel. */
static inline size_t igemm_panel(int64_t k)
{
	return (size_t)igemm_depth(k) * IGEMM_NR;
}
/* Returns the bytes of scratch for all threads together, SIZE_MAX if there are too many. `alone`: threads run products of their own, by igemm_run_alone(). */
size_t igemm_scratch(int64_t m, int64_t k, bool alone);
void igemm_run(const struct igemm *g, void *scratch);
/*
 * Does the work of igemm_run on the calling thread alone, in the part of the scratch that belongs to thread number
 * `thread`.
 */
void igemm_run_alone(const struct igemm *g, void *scratch, int thread);

/* ---- inner loops, compiled in igemm.simd.c for several instruction sets ---- */

/* Operands of one block: m rows of A, and `panels` adjacent panels of B that have 4 * k4 rows each. */
struct igemm_block {
	const uint8_t *a, *b;
	int64_t lda, ldc, k4, m, panels;
	int32_t *c;
	bool a_signed;
	const int32_t *start; /* panels_clipped: what the sums of each row begin with, or NULL */
	int64_t start_row;    /* the elements of `start` from one row to the next */
};
/* Rows of bytes: row k begins at base + offset[k], or at base + k * row if offset is NULL. */
struct igemm_rows {
	const uint8_t *base;
	const int32_t *offset;
	int64_t row;
};
/*
 * Parameters of add8 and multiply8, which compute on quantized values. For add8, each scale is the operand's scale
 * divided by the result's scale. multiply8 uses only a_scale, which is the product of both operands' scales divided
 * by the result's scale. `zero` is the zero point of the result.
 */
struct igemm_codes {
	float a_scale, b_scale, zero;
	int32_t a_zero, b_zero;
	uint8_t flip;
};

/*
 * Rows of 8-bit codes, from -127 to 127, and columns of nibbles, both in blocks with a scale each. For each 4 * widened bytes of nibbles a
 * row first has the codes for the low ones, then those for the high ones, with zeros behind the end.
 */
enum { IGEMM_CODE_ROWS = 4 };
struct igemm_nibbles {
	const int8_t *a;
	int64_t a_row; /* bytes from row to row */
	const uint8_t *w;
	int64_t column;	     /* bytes from column to column */
	int64_t bytes, blob; /* of a column and of a block, which is a power of two, from 8 */
	int64_t blocks;
	/*
	 * Of each block of the rows: the scale, and that times the sum of the codes; of the columns: the scale, and that times the zero point.
	 * `factors` elements from row to row and from column to column, of which those behind the blocks, 16 or more, are 0.
	 */
	const float *a_scale, *a_sum, *scale, *zero;
	int64_t factors;
};

struct igemm_kernels {
	void (*panels)(const struct igemm_block *g);
	/*
	 * For blocks of many rows; NULL if the processor's instructions need no such form. widen() writes 4 * k4 values of each
	 * of m rows as panels_wide() reads them, with k4 up to IGEMM_WIDE_K4. `a` has such parts of a block one after the other.
	 */
	void (*widen)(const uint8_t *a, int64_t lda, int64_t m, int64_t k4, bool is_signed,
		      int16_t *to);
	void (*panels_wide)(const struct igemm_block *g, const int16_t *a);
	/*
	 * clip() writes k codes of a row as igemm_depth(k) clipped bytes, and what they have lost as remainders: the codes as they are or, if
	 * is_signed, less `zero`, which is 0 to 255. Returns the number of remainders, or -1 if there are more than `most`.
	 * `spare` bytes behind the row may be read, and as many behind `to` be written.
	 * panels_clipped() multiplies such bytes by a signed B, to which it adds IGEMM_FLIP if the bytes are signed; add_rest() adds the
	 * products of a row's n remainders. NULL where widen() is.
	 */
	int64_t (*clip)(const uint8_t *a, int64_t k, bool is_signed, int32_t zero, uint8_t *to,
			struct igemm_rest *rest, int64_t most, int64_t spare);
	void (*panels_clipped)(const struct igemm_block *g);
	/* Whether all rows may be multiplied by a panel of signed codes as they are, without being clipped. */
	bool (*pairs_fit)(const uint8_t *panel, int64_t k4);
	void (*add_rest)(const struct igemm_block *g, const struct igemm_rest *rest, int64_t n,
			 int32_t *c);
	/*
	 * split() writes a group of a panel, without its columns' zero points, as groups whose products fit in 16 bits (to may be
	 * NULL), and returns their number. zero[i] must not be -128, as w - zero[i] would not fit into two signed bytes. panels_narrow() multiplies an unsigned A by such panels,
	 * rows_narrow() such rows by an unsigned B. NULL where widen() is.
	 */
	int (*split)(const uint8_t *group, const int8_t *zero, uint8_t *to);
	void (*panels_narrow)(const struct igemm_block *g, const struct igemm_narrow *b);
	void (*rows_narrow)(const struct igemm_block *g, const struct igemm_narrow *a);
	/*
	 * Convolutions by 3 x 3 as 16 products of 16-bit numbers, one for each point of 4 x 4 codes, which make 2 x 2 outputs. tile_codes() takes `zero`
	 * off n codes of each of a tile's pixels, and writes what is to be multiplied, `point` numbers from point to point, rounded up to
	 * a multiple of IGEMM_WORDS. words() multiplies m rows of k such numbers, lda apart, by a panel, panel[k / 2][IGEMM_NR][2]. tile_sums() makes of the
	 * products of a tile, `point` numbers from point to point, IGEMM_NR sums for each of the four outputs. NULL where widen() is.
	 */
	void (*tile_codes)(const uint8_t *const *pixel, int64_t n, bool is_signed, int32_t zero,
			   int16_t *to, int64_t point);
	void (*words)(const int16_t *a, int64_t lda, const int16_t *b, int64_t k, int64_t m,
		      int32_t *c);
	void (*tile_sums)(const int32_t *c, int64_t point, int32_t *y);
	/* writes `count` columns of b, each of k rows, as a panel, with each byte XORed with flip */
	void (*pack)(const struct igemm_rows *b, int64_t k, int64_t count, uint8_t flip,
		     uint8_t *panel);
	void (*column_sums)(const uint8_t *panel, int64_t k4, bool is_signed, int32_t *sum);
	/* sum[i] = start + sum over k of (w[k] - zero) * (row_k[i] ^ flip) */
	void (*add_rows)(const struct igemm_rows *b, const int8_t *w, int32_t zero, int64_t k,
			 uint8_t flip, int32_t start, int64_t n, int32_t *sum);
	int32_t (*row_sum)(const uint8_t *a, int64_t n, bool is_signed);
	void (*correct)(int32_t *c, int64_t n, int32_t za, const int32_t *column, int32_t rest,
			const int32_t *zb);
	/* y = x * scale + bias; step is 1 if each element has its own scale, 0 if they share one; bias may be NULL */
	void (*to_floats)(const int32_t *x, float *y, int64_t n, const float *scale, int step,
			  const float *bias);
	/*
	 * y = clamp(round((x + add) * scale) + zero, low, high), stored as a byte; step is 1 if each element has
	 * its own scale, 0 if they share one; add may be NULL
	 */
	void (*requantize)(const int32_t *x, const int32_t *add, void *y, int64_t n,
			   const float *scale, int step, int32_t zero, int32_t low, int32_t high);
	/* the same of sums that are floats */
	void (*requantize_floats)(const float *x, void *y, int64_t n, const float *scale, int step,
				  int32_t zero, int32_t low, int32_t high);
	/* y = clamp(round(x / scale) + zero, low, high), stored as a byte */
	void (*quantize)(const float *x, void *y, int64_t n, float scale, int32_t zero, int32_t low,
			 int32_t high);
	/* y = (x - zero) * scale */
	void (*dequantize_u8)(const uint8_t *x, float *y, int64_t n, float scale, int32_t zero);
	void (*dequantize_i8)(const int8_t *x, float *y, int64_t n, float scale, int32_t zero);
	/* y = a + b and y = a * b of quantized values */
	void (*add8)(const struct igemm_codes *j, const uint8_t *a, const uint8_t *b, uint8_t *y,
		     int64_t n);
	void (*multiply8)(const struct igemm_codes *j, const uint8_t *a, const uint8_t *b,
			  uint8_t *y, int64_t n);
	/* y[i] = x[2 * i] */
	void (*every_other)(const uint8_t *x, int64_t n, uint8_t *y);
	/* y = table[x] */
	void (*look_up)(const uint8_t *x, uint8_t *y, int64_t n, const uint8_t *table);
	/* sum of x[i] ^ flip */
	int64_t (*sum_bytes)(const uint8_t *x, int64_t n, uint8_t flip);
	/*
	 * Dot product of a with 4-bit weights, where w has `blob` bytes (a multiple of 8) for each block. The result
	 * is the sum over blocks b of scale[b] * (sum of a * (nibble - zero)). In each block of a, the elements for
	 * the low nibbles of the bytes must come first, and the elements for the high nibbles after them.
	 */
	float (*nibbles)(const float *a, const uint8_t *w, float zero, const float *scale,
			 int64_t blocks, int64_t blob);
	/* y = (nibble - zero) * scale for n nibbles; the low nibble of a byte comes first */
	void (*widen_nibbles)(const uint8_t *w, int64_t n, float zero, float scale, float *y);
	/*
	 * y = (code - zero) * scale for n codes of 2, 4 or 8 bits of each of `widened` columns, which begin `column` bytes apart: code k
	 * of column i becomes y[k * step + i]. n codes take a multiple of four bytes. NULL without vectors of eight numbers.
	 */
	void (*widen_columns)(const uint8_t *w, int64_t column, int64_t n, int64_t bits,
			      const float *zero, const float *scale, float *y, int64_t step);
	int widened;
	/* The products of 1 to IGEMM_CODE_ROWS rows and two columns: y[2 * row + column]. NULL as widen_columns. */
	void (*nibble_codes)(const struct igemm_nibbles *p, int rows, float *y);
};
/* Those of AVX-512 differ by whether the processor has VNNI. */
extern const struct igemm_kernels igemm_kernels_v0, igemm_kernels_v2, igemm_kernels_v3,
	igemm_kernels_v4, igemm_kernels_v4_bytes;
const struct igemm_kernels *igemm_kernels(void);

#endif
