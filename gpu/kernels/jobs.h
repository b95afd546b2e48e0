/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_JOBS_H
#define GPU_KERNELS_JOBS_H
/*
 * Parameters of kernels that look up element types at run time (any.cuh): first the step's operands, then what the
 * operator needs. Read by C and by CUDA. Members whose names begin with at_ are offsets into the workspace, in bytes.
 */
#include "params.h"

enum { GPU_IN = 10, GPU_OUT = 5 };

struct gpu_io {
	const void *in[GPU_IN]; /* null: the input is left out */
	void *out[GPU_OUT];
	void *work;
	uint8_t it[GPU_IN], ot[GPU_OUT]; /* element types as ONNX numbers them */
	uint64_t *fault, who;		 /* a kernel sets *fault = who if the data are invalid */
};

struct gpu_any_cast {
	struct gpu_io io;
	int64_t n;
	int saturate, mode;
};

struct gpu_fill {
	struct gpu_io io;
	int64_t n; /* bytes; need not be a multiple of 16 */
	uint8_t unit[16];
};

struct gpu_make { /* EyeLike, Range, random numbers */
	struct gpu_io io;
	int64_t n, rows, cols, k;
	uint64_t seed;
	double a, b;
	int kind; /* GPU_RANDOM_... */
};

/* Lines of `padded` (a power of two) sort keys, each with the number of the element that it belongs to. */
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
	struct gpu_sort sort; /* a line is one class of one batch */
	int64_t classes, most;
	int64_t at_corners, at_picked, at_count, at_total; /* float[5], int32_t, int64_t, int64_t */
	/* Bits of boxes by falling score, 64 in a word: the suppressed boxes; and a row of those that each box suppresses. */
	int64_t words, at_out, at_mask;
	int64_t rows, first; /* rows of the mask in this launch, and the box of the first of them */
	int64_t group, line; /* lines in this launch, and the first of them */
	int64_t total;
	int center;
};

/* Unique, Compress and NonZero: slices along an axis, some of which are kept. */
struct gpu_slices {
	struct gpu_io io;
	struct gpu_sort sort; /* sort.n: number of slices */
	int64_t outer, inner, given;
	int64_t at_flag, at_place, at_sums, at_total; /* uint32_t, int64_t, int64_t, int64_t */
	int64_t at_group, at_first, at_size;	      /* int64_t each */
	int64_t kept;				      /* known after the first launches of a run */
	int rank, size, sorted, by_key;
	int64_t dim[GPU_DIMS];
};
enum { GPU_CHUNK = 2048 }; /* flags that a block counts at a time */

/* Scatter with a reduction: updates are sorted by their target; those of one target keep their order. */
struct gpu_scatter {
	struct gpu_io io;
	struct gpu_sort sort;
	int64_t run; /* contiguous elements of an update */
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

struct gpu_signal { /* transforms of `length` samples: `taken` exist (the others are 0), `made` results are written */
	struct gpu_io io;
	int64_t n, inner, length, taken, made, frames, samples;
	int parts, gives, inverse, mirror, periodic;
	double p[3];
};

struct gpu_grid_job { /* in, out: spatial dims, right-aligned; mode, padding: GPU_GRID_... */
	struct gpu_io io;
	int64_t n, batch, channels;
	int rank, mode, padding, align;
	int64_t in[3], out[3];
};

struct gpu_roi {
	struct gpu_io io;
	int64_t n, batch, channels, height, width, ph, pw, sampling;
	int half, kind; /* kind: 0 the average, 1 the maximum */
	double scale;
};

struct gpu_col2im {
	struct gpu_io io;
	int64_t n, positions, window;
	int rank;
	int64_t image[GPU_DIMS], block[GPU_DIMS], count[GPU_DIMS], begin[GPU_DIMS],
		stride[GPU_DIMS], dilation[GPU_DIMS];
};

struct gpu_matrix { /* Det, Inverse: n matrices of size x size; LpNormalization: lines of size */
	struct gpu_io io;
	int64_t n, size, outer, inner;
	int p;
};

/* Channels of `inner` elements: LRN, BatchNormalization in training, GroupNormalization with one scale for each group. */
struct gpu_channels {
	struct gpu_io io;
	int64_t n, batch, channels, inner, window, per_group;
	double epsilon, momentum, alpha, beta;
};

/* Pools, convolutions and transposed convolutions over any number of spatial dims, of any type. */
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

/* Rows of n: y = (x + skip + bias - mean) / sqrt(var + eps) * w + b. Each operand may have another type and shape. */
struct gpu_norm_any {
	struct gpu_io io;
	int64_t rows, n, skip_rows;
	struct gpu_dims d; /* of x, for w and b that broadcast */
	int64_t step[2][GPU_DIMS];
	int skip, bias, w, b, mean, inv, sum; /* numbers of the operands; -1: none */
	int rms, tables; /* tables: a row is the sum of rows of in[2], in[3] and in[4] */
	int64_t length, positions,
		table[3]; /* of sequences; number of position ids; rows of each table */
	double epsilon;
};

/* com.microsoft's GroupNorm: channels first or last, with SiLU behind it if wanted. */
struct gpu_group_any {
	struct gpu_io io;
	int64_t batch, channels, pixels, per_group;
	int last, silu;
	double epsilon;
};

enum { EINSUM_IN = 10, EINSUM_FEW = 3 };
struct gpu_einsum {
	struct gpu_io io;
	int64_t n, m; /* n: outputs; m: products that each sums */
	int nin;
	struct gpu_dims keep, sum;
	int64_t ks[EINSUM_IN][GPU_DIMS], ss[EINSUM_IN][GPU_DIMS];
};

struct gpu_quant_any {
	struct gpu_io io;
	int64_t n, dim, inner, block, blocks; /* block 0: scales per axis; dim 0: one scale */
	int saturate, precision;	      /* precision: type that x / scale is rounded to */
};

enum { GPU_RANGE_BLOCKS = 1024 };
struct gpu_dynamic_quant {
	struct gpu_io io;
	int64_t n;
	int parts; /* blocks that search for the range */
};

/* Means over images of 8-bit integers: each line has `pixels` of them. */
struct gpu_quant_mean {
	struct gpu_io io;
	int64_t lines, pixels,
		channels; /* channels: of channels-last images; 0 if channels come first */
};

/* Copies rows of `part` 8-bit integers into rows of `row`, converted to another scale and zero point. */
struct gpu_requantize {
	const void *x, *x_zero, *y_zero;
	void *y;
	const float *x_scale, *y_scale;
	int64_t n, part, row;
	int xt, yt; /* element types as ONNX numbers them */
};

/* The number of each input of a quantized product; -1: there is none. */
struct gpu_qslots {
	int a, b, a_zero, b_zero, a_scale, b_scale, y_scale, y_zero, add, bias;
};
struct gpu_int_product {
	struct gpu_io io;
	struct gpu_qslots q;
	int64_t m, n, k, batches;
	struct gpu_dims batch;
	int64_t bs[2][GPU_DIMS]; /* strides of a and b over the batches */
	int64_t a_row, a_col, b_row, b_col, add_row, add_col;
	int64_t count[GPU_IN]; /* elements of each input: 1, one for each row or column, or one for each in all batches */
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
struct gpu_image_scale { /* channels first to first + GPU_SCALES - 1: the biases travel in the parameters */
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
