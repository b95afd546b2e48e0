/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_WINOGRAD_H
#define CPU_MATH_WINOGRAD_H
/*
 * Winograd's transforms for convolutions by 3 x 3 in fp32 (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016). A tile
 * of m x m outputs reads m + 2 by m + 2 pixels. Transformed pixels times transformed weights, summed over the channels, are the points of the
 * tile, as many as it has pixels; its outputs are a transform of the points.
 * m is 2 or 4. For m = 4 the polynomials are evaluated at 0, 3/4, -3/4, 3/2, -3/2 and infinity: with the usual 0, 1, -1, 2, -2 the largest errors
 * are six times those of plain sums, with these twice.
 */
#include <stdbool.h>
#include <stdint.h>

enum { WINOGRAD_MOST = 4, WINOGRAD_POINTS = (WINOGRAD_MOST + 2) * (WINOGRAD_MOST + 2) };

struct winograd_kernels {
	/*
	 * Transforms the weights of `strip` maps for one channel: w has 9 rows of `strip` numbers, a row for each element of the window. The
	 * rows of the points are written `point` elements apart.
	 */
	void (*weights)(const float *w, int64_t strip, float *to, int64_t point);
	/* Transforms n channels of the pixels at x, whose rows and columns are `row` and `column` elements apart; the channels lie side by side. */
	void (*pixels)(const float *x, int64_t row, int64_t column, int64_t n, float *to,
		       int64_t point);
	/*
	 * Writes n maps of the outputs of a tile: transformed points plus the bias (NULL: none), then Relu if `relu`. Returns false if one of them was infinite or
	 * NaN before.
	 */
	bool (*outputs)(const float *points, int64_t point, int64_t n, const float *bias, bool relu,
			float *y, int64_t row, int64_t column);
};

/* The functions for tiles of m x m outputs. */
const struct winograd_kernels *winograd_kernels(int m);

/* For winograd.c and winograd.simd.c only: for m = 2 and m = 4. */
extern const struct winograd_kernels winograd_kernels_v0[2], winograd_kernels_v2[2],
	winograd_kernels_v3[2], winograd_kernels_v4[2];

#endif
