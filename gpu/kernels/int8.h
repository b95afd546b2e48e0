/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_INT8_H
#define GPU_KERNELS_INT8_H
/* Parameters of the kernels of int8.cu: exact products of 8-bit integers, and the packing of their operands. */
#include "jobs.h"

/* The length of a packed row is a multiple of this many bytes; zeros fill the rest of the row. */
enum { GPU_INT8_PITCH = 64 };

/*
 * Packs rows of 8-bit integers into rows of `pitch` bytes, y[z][row][col] = x[...] ^ flip, and sums up the packed
 * numbers of each row. y or sum may be null.
 */
struct gpu_int8_pack {
	const void *x;
	void *y;
	int32_t *sum;
	int64_t rows, cols, pitch, batches;
	int64_t row, col; /* steps of x, in elements */
	struct gpu_dims batch;
	int64_t xs[GPU_DIMS];
	/* 0x80 to subtract 128 from unsigned numbers, which makes them signed, or 0 */
	int flip;
	int is_signed; /* the packed numbers are signed */
};

/*
 * Packs the windows of a convolution into rows: y[image][pixel][channel, tap], where a tap is an element of the window.
 * Padding becomes the zero point.
 */
struct gpu_int8_windows {
	/* rows.rows: pixels of an image; rows.cols: channels * window elements */
	struct gpu_int8_pack rows;
	const void *zero; /* zero point of the input; 0 is used if this is null */
	struct gpu_window win;
	int64_t image, channel; /* strides of x */
};

/*
 * y[z][i][j] = the sum over k of (a[i][k] - a's zero point) * (b[j][k] - b's zero point), scaled and converted to the
 * type of the output. Rows of both operands run along k. b is signed, and the kernel's name says whether a is signed. A
 * `shift` (128 or 0) has been subtracted from each element of an operand and must be subtracted from the operand's zero
 * point as well.
 */
struct gpu_int8 {
	struct gpu_io io;
	struct gpu_qslots q;
	/*
	 * number of elements of each input: 1, one for each row or column of the output, or one for each row or column
	 * of each batch
	 */
	int64_t count[GPU_IN];
	const void *a, *b;
	/*
	 * sums of the rows of a and of b; null if the other operand has no zero point, because the sums are not needed
	 * then
	 */
	const int32_t *a_sum, *b_sum;
	const int32_t *product; /* only for int8_epilogue: the sums that a library computed */
	int64_t m, n, k, lda, ldb;
	/*
	 * batches: number of batches in this launch; first: index of the first of them, which selects the output and
	 * the inputs other than a and b
	 */
	int64_t batches, first;
	struct gpu_dims batch;
	/* strides over the batches, of the operands and of their row sums */
	int64_t as[GPU_DIMS], bs[GPU_DIMS], a_sums, b_sums;
	int64_t add_row, add_col;
	int a_shift, b_shift;
	float alpha;
};

#endif
