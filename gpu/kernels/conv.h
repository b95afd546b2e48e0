/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_CONV_H
#define GPU_KERNELS_CONV_H
/* Parameters of the kernels of conv.cu. Tensors are channels-last unless strides say otherwise. */
#include <stdint.h>

/*
 * Gathers windows: y[n][p][q][r][s][c] = x[n, c, p * step + r, q * step + s] for c below `channels`. Pixels of y have
 * `room` channels; those from `channels` on become 0. With a window of one element, this changes the layout and pads
 * the channels.
 */
struct gpu_pack {
	const void *x;
	void *y;
	int64_t n; /* elements of y */
	int channels, room, kernel[2], step[2], out[2];
	int runs;      /* pack_planes: elements of a row of a window, of the kernel's type */
	int64_t xs[4]; /* strides of x in elements: image, channel, row, column */
};

/* Transposes [batch][rows][cols] to [batch][cols][rows]. */
struct gpu_flip {
	const void *x;
	void *y;
	int64_t batch, rows, cols;
};

/* A window over two dims. */
struct gpu_plane {
	int in[2], out[2], kernel[2], stride[2], dilation[2], begin[2];
};

struct gpu_depthwise {
	const void *x, *w, *b, *r; /* w: f32 [rows][cols][channels]; b and r may be null */
	void *y;
	int64_t n;	    /* number of pieces of work, which the threads share */
	int threads, items; /* of a block: its threads, and the pieces that it takes at a time */
	int shared;	    /* bytes of shared memory of a block */
	int batch, channels;
	struct gpu_plane win;
	int act;
	float alpha, beta;
	/* depthwise_tiled alone: the tiles of a block beside one another, below one another, and of further channels */
	int across, down, deep;
	int w_is_weight; /* w may be read while the kernels before this one still run */
};

/*
 * The first convolution of an image network: 3 x 3 windows, up to STEM_IN input channels in planes (channels first),
 * and a channels-last output.
 */
enum { STEM_ROWS = 4, STEM_COLS = 32, STEM_IN = 4, STEM_OUT = 32, STEM_STEP = 2 };
struct gpu_stem {
	const void *x, *w, *b; /* w: f32 [cin][3][3][cout]; b may be null */
	void *y;
	int batch, cin, cout, in[2], out[2], stride[2], begin[2];
	int act;
	float alpha, beta;
};

/* Convolves images of one pixel: y[n][k] = act(sum over c of x[n][c] * w[k][c] + b[k] + r[n][k]). */
struct gpu_point {
	const void *x, *w, *b, *r;
	void *y;
	int batch, cin, cout;
	int act;
	float alpha, beta;
	int w_is_weight; /* w may be read while the kernels before this one still run */
};

/*
 * Adds bias and residual to the output of a convolution and applies the activation, in place: y = act(y + b[channel] +
 * r).
 */
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
	int64_t n; /* vectors of channels in the output */
	int channels;
	struct gpu_plane win;
	int end[2];
	int average, count_pad;
};

/*
 * Pools all pixels of an image: y[n][c] is their mean or maximum. `lanes` threads of a block (a power of two, at most POOL_LANES)
 * take a vector of channels each; the other threads of the block take other pixels. With several splits (parts of the pixels), each split
 * writes its partial result, and whole_pool_end combines them. In whole_pool_joined the splits
 * are the POOL_JOINED blocks of a cluster along x, whose first one combines them without a second launch.
 */
enum { POOL_THREADS = 512, POOL_LANES = 8, POOL_JOINED = 8 };
struct gpu_whole_pool {
	const void *x;
	void *y;
	float *part; /* [batch][splits][channels] */
	int batch, channels, pixels, average, lanes, splits;
};

/* Scales channels: y = x * s[image][channel]. */
struct gpu_scale {
	const void *x, *s;
	void *y;
	int batch, channels;
	int64_t image; /* elements of an image, fewer than 2^32 */
};

#endif
