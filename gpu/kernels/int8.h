/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_INT8_H
#define GPU_KERNELS_INT8_H
/* Parameters of the kernels of int8.cu: exact products of 8-bit integers, and the packing of their operands. */
#include "jobs.h"

/* A packed row is a multiple of so many bytes long, with zeros at its end. */
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
	int flip;      /* 0x80: turns unsigned numbers into signed ones, 128 less */
	int is_signed; /* the packed numbers are signed */
};

/* Packs the windows of a convolution in the same way: y[image][pixel][channel, tap]. Padding becomes the zero point. */
struct gpu_int8_windows {
	struct gpu_int8_pack rows; /* rows: pixels of an image; cols: channels * taps */
	const void *zero;	   /* null: 0 */
	struct gpu_window win;
	int64_t image, channel; /* strides of x */
};

/*
 * y[z][i][j] = the sum over k of (a[i][k] - a's zero point) * (b[j][k] - b's zero point), scaled and converted to the
 * type of the output. Both operands have rows along k; b is signed, and the kernel's name says whether a is. A `shift`
 * (128 or 0) has been subtracted from each element of an operand and must be subtracted from its zero point as well.
 */
struct gpu_int8 {
	struct gpu_io io;
	struct gpu_qslots q;
	int64_t count[GPU_IN]; /* elements of each input: 1, one for each row or column, or one for each in all batches */
	const void *a, *b;
	const int32_t *a_sum,
		*b_sum; /* sums of rows; null: not needed, as the other operand has no zero point */
	const int32_t *product; /* int8_epilogue only: the sums that a library computed */
	int64_t m, n, k, lda, ldb;
	int64_t batches,
		first; /* batches: of this launch; first: the number of its first batch in the output and the inputs beside a and b */
	struct gpu_dims batch;
	int64_t as[GPU_DIMS], bs[GPU_DIMS], a_sums, b_sums; /* strides over the batches */
	int64_t add_row, add_col;
	int a_shift, b_shift;
	float alpha;
};

#endif
