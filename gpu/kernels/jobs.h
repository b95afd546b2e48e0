/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_JOBS_H
#define GPU_KERNELS_JOBS_H
/*
 * What kernels are handed that look up element types as they run (any.cuh): first the step's operands,
 * then what the family wants. Read by C and by CUDA.
 */
#include "params.h"

enum { GPU_IN = 10, GPU_OUT = 5 };

struct gpu_io {
	const void *in[GPU_IN]; /* null: left out */
	void *out[GPU_OUT];
	void *work;
	uint8_t it[GPU_IN], ot[GPU_OUT]; /* element types as ONNX numbers them */
	uint64_t *fault, who;		 /* *fault = who: the data are wrong */
};

struct gpu_any_cast {
	struct gpu_io io;
	int64_t n;
	int saturate, mode;
};

struct gpu_fill {
	struct gpu_io io;
	int64_t n; /* bytes, a multiple of 16 or the last ones by themselves */
	uint8_t unit[16];
};

struct gpu_make { /* EyeLike, Range, random numbers */
	struct gpu_io io;
	int64_t n, rows, cols, k;
	uint64_t seed;
	double a, b;
	int kind; /* GPU_RANDOM_... */
};

/*
 * Lines of `padded` (a power of two) sort keys, each with the number of the element it came from.
 * Members named `at_` are offsets into the workspace.
 */
struct gpu_sort {
	int64_t at_key, at_index; /* uint64_t, uint32_t */
	int64_t lines, n, padded;
	int64_t width, step; /* of the bitonic merge */
};

struct gpu_topk {
	struct gpu_io io;
	struct gpu_sort sort;
	int64_t inner, k;
	int largest, size;
};

struct gpu_nms {
	struct gpu_io io;
	struct gpu_sort sort; /* a line is a class of a batch */
	int64_t classes, most;
	int64_t at_corners, at_picked, at_count, at_total; /* float[5], int32_t, int64_t, int64_t */
	/* boxes by falling score, 64 a word: those that are out, and by row those that a box puts out */
	int64_t words, at_out, at_mask;
	int64_t rows, first; /* rows of the mask at a time, from which box on */
	int64_t group, line; /* lines at a time, from which on */
	int64_t total;
	int center;
};

/* Slices along an axis, some of which are kept: Unique, Compress, NonZero. */
struct gpu_slices {
	struct gpu_io io;
	struct gpu_sort sort; /* its n: how many slices there are */
	int64_t outer, inner, given;
	int64_t at_flag, at_place, at_sums, at_total; /* uint32_t, int64_t, int64_t, int64_t */
	int64_t at_group, at_first, at_size;	      /* int64_t each */
	int64_t kept;				      /* told by the first part of the run */
	int rank, size, sorted, by_key;
	int64_t dim[GPU_DIMS];
};
enum { GPU_CHUNK = 2048 }; /* flags that a block counts */

/* Updates that are put together with what is there: sorted by where they go, equal ones in order. */
struct gpu_scatter {
	struct gpu_io io;
	struct gpu_sort sort;
	int64_t run; /* elements of an update that lie together */
	int how, rank, axis, nd, tuple, wide;
	int64_t xs[GPU_DIMS], xd[GPU_DIMS], id[GPU_DIMS];
};

struct gpu_onehot {
	struct gpu_io io;
	int64_t n, depth, inner;
	int size;
};

struct gpu_tensor_scatter {
	struct gpu_io io;
	int64_t n, between, room, len, run;
	int circular, size;
};

struct gpu_rnn {
	struct gpu_io io;
	int cell, gates, dirs, reverse, layout, input_forget, linear_before_reset, clipped;
	int64_t seq, batch, input, hidden, step;
	int act[6];
	float alpha[6], beta[6];
	double clip;
	int64_t at_xg, at_h[2], at_c, at_rh; /* offsets into the workspace */
	int now, part;
};

struct gpu_signal { /* transforms of `length` samples: `taken` are there, `made` are given */
	struct gpu_io io;
	int64_t n, inner, length, taken, made, frames, samples;
	int parts, gives, inverse, mirror, periodic;
	double p[3];
};

struct gpu_grid_job { /* in, out: spatial dims, right-aligned */
	struct gpu_io io;
	int64_t n, batch, channels;
	int rank, mode, padding, align;
	int64_t in[3], out[3];
};

struct gpu_roi {
	struct gpu_io io;
	int64_t n, batch, channels, height, width, ph, pw, sampling;
	int half, kind; /* kind: 1 the greatest */
	double scale;
};

struct gpu_col2im {
	struct gpu_io io;
	int64_t n, positions, window;
	int rank;
	int64_t image[GPU_DIMS], block[GPU_DIMS], count[GPU_DIMS], begin[GPU_DIMS],
		stride[GPU_DIMS], dilation[GPU_DIMS];
};

struct gpu_matrix { /* Det: n of size x size; LpNormalization: lines */
	struct gpu_io io;
	int64_t n, size, outer, inner;
	int p;
};

/* Channels of `inner` elements: LRN, BatchNormalization in training, GroupNormalization with a scale a group. */
struct gpu_channels {
	struct gpu_io io;
	int64_t n, batch, channels, inner, window, per_group;
	double epsilon, momentum, alpha, beta;
};

/* Windows over any number of spatial dims, of any type: pools, convolutions and their transposes. */
enum { WINDOW_DIMS = 14 };
struct gpu_window_any {
	struct gpu_io io;
	int64_t n, group, cin, cout;		      /* channels of a group */
	int rank, kind, count_pad, column_major, act; /* kind: GPU_POOL_... */
	int64_t in[WINDOW_DIMS], out[WINDOW_DIMS], kernel[WINDOW_DIMS], stride[WINDOW_DIMS],
		dilation[WINDOW_DIMS], begin[WINDOW_DIMS], end[WINDOW_DIMS];
	int64_t image, pixels, window; /* products */
	double p, act_alpha, act_beta;
};

struct gpu_unpool {
	struct gpu_io io;
	int64_t n, count;
	int rank, size;
	int64_t space[GPU_DIMS], y[GPU_DIMS];
};

struct gpu_mean_variance { /* n outputs of m elements */
	struct gpu_io io;
	int64_t n, m;
	struct gpu_dims keep, red;
	int64_t ks[GPU_DIMS], rs[GPU_DIMS];
};

/* Rows of n: y = (x + skip + bias - mean) / sqrt(var + eps) * w + b, all of types and shapes of their own. */
struct gpu_norm_any {
	struct gpu_io io;
	int64_t rows, n, skip_rows;
	struct gpu_dims d; /* of x, for w and b that broadcast */
	int64_t step[2][GPU_DIMS];
	int skip, bias, w, b, mean, inv, sum; /* operands by number; -1: none */
	int rms, tables; /* tables: rows are sums of rows of in[2], in[3], in[4] */
	int64_t length, positions, table[3]; /* of sequences; position ids; rows of the tables */
	double epsilon;
};

/* com.microsoft's GroupNorm: channels first or last, SiLU behind it. */
struct gpu_group_any {
	struct gpu_io io;
	int64_t batch, channels, pixels, per_group;
	int last, silu;
	double epsilon;
};

enum { EINSUM_IN = 10, EINSUM_FEW = 3 };
struct gpu_einsum {
	struct gpu_io io;
	int64_t n, m; /* outputs; products of each */
	int nin;
	struct gpu_dims keep, sum;
	int64_t ks[EINSUM_IN][GPU_DIMS], ss[EINSUM_IN][GPU_DIMS];
};

struct gpu_quant_any {
	struct gpu_io io;
	int64_t n, dim, inner, block, blocks; /* block 0: per axis; dim 0: per tensor */
	int saturate, precision;	      /* type that x / scale is rounded to */
};

enum { GPU_RANGE_BLOCKS = 1024 };
struct gpu_dynamic_quant {
	struct gpu_io io;
	int64_t n;
	int parts; /* blocks that look for the range */
};

/* Means over an image, of 8-bit integers: one a line of `pixels` of them. */
struct gpu_quant_mean {
	struct gpu_io io;
	int64_t lines, pixels, channels; /* channels: of images that have them last, else 0 */
};

/* Rows of `part` 8-bit integers with another scale and zero point, to where they lie in rows of `row`. */
struct gpu_requantize {
	const void *x, *x_zero, *y_zero;
	void *y;
	const float *x_scale, *y_scale;
	int64_t n, part, row;
	int xt, yt; /* element types as ONNX numbers them */
};

/* Which inputs of a quantized product are what; -1: none. */
struct gpu_qslots {
	int a, b, a_zero, b_zero, a_scale, b_scale, y_scale, y_zero, add, bias;
};
struct gpu_int_product {
	struct gpu_io io;
	struct gpu_qslots q;
	int64_t m, n, k, batches;
	struct gpu_dims batch;
	int64_t bs[2][GPU_DIMS]; /* steps of a and b over the batches */
	int64_t a_row, a_col, b_row, b_col, add_row, add_col;
	int64_t count[GPU_IN]; /* elements of each input: 1, one a row or column, or that of all batches */
	float alpha;
};

struct gpu_int_conv {
	struct gpu_io io;
	struct gpu_qslots q;
	int64_t n, group, cin, cout; /* channels of a group */
	struct gpu_window win;
	int64_t count[GPU_IN];
};

struct gpu_cumulate {
	struct gpu_io io;
	int64_t n, dim[GPU_DIMS];
	int rank, reverse, exclusive, product;
};

struct gpu_reverse {
	struct gpu_io io;
	int64_t d0, d1, run;
	int time_first, size;
};

enum { GPU_SCALES = 64 };
struct gpu_image_scale { /* of channels first .. first + GPU_SCALES - 1 */
	struct gpu_io io;
	int64_t n, inner, channels, first;
	double scale;
	float bias[GPU_SCALES];
};

struct gpu_dropout {
	struct gpu_io io;
	int64_t n;
	uint64_t seed;
	int size, mask_zero;
};

struct gpu_binary_any {
	struct gpu_io io;
	int64_t n;
	struct gpu_dims d;
	int64_t step[2][GPU_DIMS];
	double alpha;
};

#endif
