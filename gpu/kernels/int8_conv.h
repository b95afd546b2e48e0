/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_INT8_CONV_H
#define GPU_KERNELS_INT8_CONV_H
/* Parameters of the kernels of int8_conv.cu: convolutions of 8-bit codes whose channels come last. */
#include "conv.h"

/*
 * GPU_CODES_UNIT: channels that are read at once; images and weights have a multiple of it. GPU_CODES_PITCH: rows of
 * weights begin at multiples of so many bytes, with zeros behind them. GPU_CODES_UNITS, GPU_CODES_TAPS: units and
 * pixels that a window may have.
 */
enum { GPU_CODES_UNIT = 16, GPU_CODES_PITCH = 128, GPU_CODES_UNITS = 640, GPU_CODES_TAPS = 63 };

/*
 * Puts blocks of stride x stride pixels of an image into the channels of one pixel, so that a convolution with this
 * stride becomes one with stride 1: y[n][v][u][(b * stride[1] + a) * channels + c] = x[n][c][v * stride[0] + b -
 * begin[0]][u * stride[1] + a - begin[1]]. What lies outside of x, and channels of y behind these, become the zero point.
 */
struct gpu_fold_codes {
	const void *x, *zero; /* zero may be null */
	void *y;
	int64_t n;	    /* units of y */
	int64_t xs[4];	    /* strides of x: image, channel, row, column */
	int channels, room; /* of a pixel of x and of y */
	int in[2], out[2], stride[2], begin[2];
};

/*
 * Packs weights [cout][channels][kernel] in the order of such images, y[k][v][u][(b * stride[1] + a) * channels + c], and
 * adds up the weights of each output channel. If `dealt` is true, y[k] is in the row that row_of_channel() gives for k.
 */
struct gpu_fold_weights {
	const void *x;
	void *y;
	int32_t *sum;
	int channels, room, pitch, cout, dealt;
	int kernel[2], folded[2], stride[2]; /* folded: the window of the folded image */
};

/*
 * y[m][n] = the sum over a window of (x - x's zero point) * w, scaled and rounded to y's codes, for pixels m and output
 * channels n. With a residual r, y is that code and r's, added and rounded as QLinearAdd does, to codes of the scale
 * `sum_scale`.
 */
struct gpu_codes_conv {
	const void *x, *w;	   /* x: channels last; w: packed, signed */
	const int32_t *sum, *bias; /* sum: of the weights of a channel; bias may be null */
	const float *x_scale, *w_scale, *y_scale;
	const void *x_zero, *y_zero;	   /* may be null */
	const void *r, *r_zero, *sum_zero; /* may be null */
	const float *r_scale, *sum_scale;
	void *y;
	int64_t m;
	int n, pitch, channels;
	struct gpu_plane win;
	int w_scales, y_signed; /* w_scales: whether each channel has a scale */
	/*
	 * offset in shared memory, behind the steps in flight, of a tile of codes, whose rows are 16 bytes apart, and of
	 * another one if r is added
	 */
	int tiles;
	/*
	 * plain: windows of one pixel that are read one after the other; whole: windows that reach into no padding; adds: r is
	 * added
	 */
	int plain, whole, adds;
};

#endif
