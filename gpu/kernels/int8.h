/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_INT8_H
#define GPU_KERNELS_INT8_H
/* What the kernels of int8.cu are handed: exact products of 8-bit integers, and what prepares their operands. */
#include "jobs.h"

/* Of a packed row: a whole number of pieces of so many bytes, zeros at its end. */
enum { GPU_INT8_PITCH = 64 };

/*
 * Rows of 8-bit integers put one behind the other, `pitch` bytes each: y[z][row][col] = x[...] ^ flip, and their
 * sums as they were written. y or sum may be null.
 */
struct gpu_int8_pack {
	const void *x;
	void *y;
	int32_t *sum;
	int64_t rows, cols, pitch, batches;
	int64_t row, col; /* steps of x, in elements */
	struct gpu_dims batch;
	int64_t xs[GPU_DIMS];
	int flip, is_signed; /* flip: 0x80 makes signed numbers of unsigned ones, less 128. is_signed: as written */
};

/* The windows of a convolution as such rows: y[image][pixel][channel, tap]; beside the image lies its zero point. */
struct gpu_int8_windows {
	struct gpu_int8_pack rows; /* rows: pixels of an image; cols: channels * taps */
	const void *zero;	   /* null: 0 */
	struct gpu_window win;
	int64_t image, channel; /* steps of x */
};

/*
 * y[z][i][j] = what the output makes of the sum over k of (a[i][k] - its zero) * (b[j][k] - its zero).
 * Both lie by rows of k; b is signed, a is what the kernel's name says. A `shift` was taken from each element of an
 * operand (128 or 0), and so from its zero.
 */
struct gpu_int8 {
	struct gpu_io io;
	struct gpu_qslots q;
	int64_t count[GPU_IN]; /* elements of each input: 1, one a row or column, or that of all batches */
	const void *a, *b;
	const int32_t *a_sum, *b_sum; /* null: the other operand has no zero point */
	const int32_t *product;	      /* of the epilogue alone: what a library made */
	int64_t m, n, k, lda, ldb;
	int64_t batches, first; /* of them; that of the output and of what belongs to it */
	struct gpu_dims batch;
	int64_t as[GPU_DIMS], bs[GPU_DIMS], a_sums, b_sums; /* steps over the batches */
	int64_t add_row, add_col;
	int a_shift, b_shift;
	float alpha;
};

#endif
