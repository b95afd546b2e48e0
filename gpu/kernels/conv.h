/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_CONV_H
#define GPU_KERNELS_CONV_H
/* What the kernels of conv.cu are handed. Tensors lie channels-last unless strides say otherwise. */
#include <stdint.h>

/*
 * Gathers windows: y[n][p][q][r][s][c] = x[n, c, p * step + r, q * step + s], c below `channels` of the
 * `room` that y has; what is beyond is 0. With a window of one it changes layouts and pads channels.
 */
struct gpu_pack {
	const void *x;
	void *y;
	int64_t n; /* elements of y */
	int channels, room, kernel[2], step[2], out[2];
	int64_t xs[4]; /* strides of x, elements: image, channel, row, column */
};

/* [batch][rows][cols] to [batch][cols][rows] */
struct gpu_flip {
	const void *x;
	void *y;
	int64_t batch, rows, cols;
};

/* A window over a plane. */
struct gpu_plane {
	int in[2], out[2], kernel[2], stride[2], dilation[2], begin[2];
};

struct gpu_depthwise {
	const void *x, *w, *b, *r; /* w: f32 [rows][cols][channels]; b, r may be null */
	void *y;
	int64_t n; /* threads' worth of work */
	int batch, channels;
	struct gpu_plane win;
	int act;
	float alpha, beta;
};

/* A picture's few channels, in planes, through windows of 3 x 3 to channels that lie side by side. */
enum { STEM_ROWS = 4, STEM_COLS = 32, STEM_IN = 4, STEM_OUT = 32, STEM_STEP = 2 };
struct gpu_stem {
	const void *x, *w, *b; /* w: f32 [cin][3][3][cout]; b may be null */
	void *y;
	int batch, cin, cout, in[2], out[2], stride[2], begin[2];
	int act;
	float alpha, beta;
};

/* One pixel an image: y[n][k] = act(sum of x[n][c] * w[k][c] + b[k] + r[n][k]) */
struct gpu_point {
	const void *x, *w, *b, *r;
	void *y;
	int batch, cin, cout;
	int act;
	float alpha, beta;
};

/* y = act(y + b[channel] + r), in place */
struct gpu_tail {
	const void *b, *r;
	void *y;
	int64_t n; /* elements */
	int channels;
	int act;
	float alpha, beta;
};

struct gpu_window_pool {
	const void *x;
	void *y;
	int64_t n; /* outputs, in vectors of channels */
	int channels;
	struct gpu_plane win;
	int end[2];
	int average, count_pad;
};

/*
 * y[n][c] of all pixels: mean, or largest. A block has `lanes` vectors of channels, its other threads share the
 * pixels; with several splits each leaves its part for whole_pool_end.
 */
struct gpu_whole_pool {
	const void *x;
	void *y;
	float *part; /* [batch][splits][channels] */
	int batch, channels, pixels, average, lanes, splits;
};

/* y = x * s[image][channel] */
struct gpu_scale {
	const void *x, *s;
	void *y;
	int64_t n; /* elements */
	int channels;
	int64_t image; /* elements of one */
};

#endif
