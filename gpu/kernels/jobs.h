/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_JOBS_H
#define GPU_KERNELS_JOBS_H
/*
 * Parameters of kernels that look up element types at run time (any.cuh). Each struct begins with the step's operands,
 * followed by the numbers that the operator needs. C and CUDA both read this file. Members whose names begin with at_
 * are byte offsets into the workspace.
 */
#include "params.h"

enum { GPU_IN = 10, GPU_OUT = 5 };

struct gpu_io {
	const void *in[GPU_IN]; /* null if the node does not have this input */
	void *out[GPU_OUT];
	void *work;
	uint8_t it[GPU_IN], ot[GPU_OUT]; /* element types as ONNX numbers them */
	uint64_t *fault, who;		 /* a kernel sets *fault = who if it finds invalid data */
};

struct gpu_any_cast {
	struct gpu_io io;
	int64_t n;
	int saturate, mode;
};

struct gpu_fill {
	struct gpu_io io;
	int64_t n; /* number of bytes; need not be a multiple of 16 */
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
 * Sorts each of `lines` lines of keys. A line is padded to `padded` keys, a power of two; each key is stored with the
 * index of the element that it belongs to.
 */
struct gpu_sort {
	int64_t at_key, at_index; /* uint64_t, uint32_t */
	int64_t lines, n, padded;
	int64_t width, step; /* the current step of the bitonic merge */
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
	/*
	 * Bit sets of boxes in order of falling score, 64 boxes in a word. at_out: the boxes that are already
	 * suppressed. at_mask: a matrix whose rows are the boxes that one box suppresses.
	 */
	int64_t words, at_out, at_mask;
	/* rows: number of mask rows in this launch; first: the box that the first of these rows belongs to */
	int64_t rows, first;
	/* group: number of lines in this launch; line: the first of these lines */
	int64_t group, line;
	int64_t total;
	int center;
};

/* Unique, Compress and NonZero keep some of the slices along an axis. */
struct gpu_slices {
	struct gpu_io io;
	struct gpu_sort sort; /* sort.n: number of slices */
	int64_t outer, inner, given;
	int64_t at_flag, at_place, at_sums, at_total; /* uint32_t, int64_t, int64_t, int64_t */
	int64_t at_group, at_first, at_size;	      /* int64_t each */
	/* number of slices to keep, which the host reads after the first launches of a run */
	int64_t kept;
	int rank, size, sorted, by_key;
	int64_t dim[GPU_DIMS];
};
enum { GPU_CHUNK = 2048 }; /* number of flags that a block counts at a time */

/*
 * Scatter with a reduction. Updates are sorted by the element that they are applied to; updates of the same element
 * keep their order.
 */
struct gpu_scatter {
	struct gpu_io io;
	struct gpu_sort sort;
	int64_t run; /* number of contiguous elements in an update */
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

/*
 * Fourier transforms of `length` samples, of which `taken` exist (the others count as 0); `made` results are written.
 */
struct gpu_signal {
	struct gpu_io io;
	int64_t n, inner, length, taken, made, frames, samples;
	int parts, gives, inverse, mirror, periodic;
	double p[3];
};

/* in, out: spatial dims, right-aligned; mode and padding are GPU_GRID_... */
struct gpu_grid_job {
	struct gpu_io io;
	int64_t n, batch, channels;
	int rank, mode, padding, align;
	int64_t in[3], out[3];
};

struct gpu_roi {
	struct gpu_io io;
	int64_t n, batch, channels, height, width, ph, pw, sampling;
	int half, kind; /* kind: 0 for the average, 1 for the maximum */
	double scale;
};

struct gpu_col2im {
	struct gpu_io io;
	int64_t n, positions, window;
	int rank;
	int64_t image[GPU_DIMS], block[GPU_DIMS], count[GPU_DIMS], begin[GPU_DIMS],
		stride[GPU_DIMS], dilation[GPU_DIMS];
};

/* Det and Inverse: n matrices of size x size. LpNormalization: lines of `size` elements. */
struct gpu_matrix {
	struct gpu_io io;
	int64_t n, size, outer, inner;
	int p;
};

/*
 * Operators on channels of `inner` elements: LRN, BatchNormalization in training, and GroupNormalization with one scale
 * for each group.
 */
struct gpu_channels {
	struct gpu_io io;
	int64_t n, batch, channels, inner, window, per_group;
	double epsilon, momentum, alpha, beta;
};

/* Pools, convolutions and transposed convolutions with any number of spatial dims and any element type. */
enum { WINDOW_DIMS = 14 };
struct gpu_window_any {
	struct gpu_io io;
	/* cin and cout count the channels of a group */
	int64_t n, group, cin, cout;
	int rank, kind, count_pad, column_major, act; /* kind: GPU_POOL_... */
	int64_t in[WINDOW_DIMS], out[WINDOW_DIMS], kernel[WINDOW_DIMS], stride[WINDOW_DIMS],
		dilation[WINDOW_DIMS], begin[WINDOW_DIMS], end[WINDOW_DIMS];
	int64_t image, pixels, window; /* products of the sizes in `in`, `out` and `kernel` */
	double p, act_alpha, act_beta;
};

struct gpu_unpool {
	struct gpu_io io;
	int64_t n, count;
	int rank, size;
	int64_t space[GPU_DIMS], y[GPU_DIMS];
};

struct gpu_mean_variance { /* n outputs, each computed from m elements */
	struct gpu_io io;
	int64_t n, m;
	struct gpu_dims keep, red;
	int64_t ks[GPU_DIMS], rs[GPU_DIMS];
};

/*
 * Normalizes rows of n elements: y = (x + skip + bias - mean) / sqrt(var + eps) * w + b. Each operand may have another
 * type and shape.
 */
struct gpu_norm_any {
	struct gpu_io io;
	int64_t rows, n, skip_rows;
	struct gpu_dims d; /* shape of x, for w and b that broadcast */
	int64_t step[2][GPU_DIMS];
	/* indices of the operands, or -1 for an operand that does not exist */
	int skip, bias, w, b, mean, inv, sum;
	/* tables: nonzero if a row is the sum of rows of the embedding tables in[2], in[3] and in[4] */
	int rms, tables;
	int gate; /* GPU_GATE_...: the gate is in[2] */
	/* length: length of the sequences; positions: number of position ids; table: number of rows of each table */
	int64_t length, positions, table[3];
	double epsilon;
};

/* com.microsoft's GroupNorm. Channels come first or last; SiLU follows if `silu` is set. */
struct gpu_group_any {
	struct gpu_io io;
	int64_t batch, channels, pixels, per_group;
	int last, silu;
	double epsilon;
};

enum { EINSUM_IN = 10, EINSUM_FEW = 3 };
struct gpu_einsum {
	struct gpu_io io;
	int64_t n, m; /* n: number of outputs; m: number of products that each output sums up */
	int nin;
	struct gpu_dims keep, sum;
	int64_t ks[EINSUM_IN][GPU_DIMS], ss[EINSUM_IN][GPU_DIMS];
};

struct gpu_quant_any {
	struct gpu_io io;
	/*
	 * dim: size of the axis, or 0 if there is a single scale; block: elements of the axis that share a scale, or 0
	 * if each position of the axis has one
	 */
	int64_t n, dim, inner, block, blocks;
	/* precision: the type that x / scale is rounded to */
	int saturate, precision;
};

enum { GPU_RANGE_BLOCKS = 1024 };
struct gpu_dynamic_quant {
	struct gpu_io io;
	int64_t n;
	int parts; /* number of blocks that search for the range */
};

/* Averages lines of `pixels` 8-bit integers; a line is one channel of one image. */
struct gpu_quant_mean {
	struct gpu_io io;
	/* channels: number of channels if images are channels-last, or 0 if channels come first */
	int64_t lines, pixels, channels;
};

/*
 * Converts 8-bit integers to another scale and zero point. Rows of `part` integers are copied into rows of `row`
 * integers.
 */
struct gpu_requantize {
	const void *x, *x_zero, *y_zero;
	void *y;
	const float *x_scale, *y_scale;
	int64_t n, part, row;
	int xt, yt; /* element types as ONNX numbers them */
};

/* The index of each input of a quantized product, or -1 if the node does not have that input. */
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
	/*
	 * number of elements of each input: 1, one for each row or column of the output, or one for each row or column
	 * of each batch
	 */
	int64_t count[GPU_IN];
	float alpha;
};

struct gpu_int_conv {
	struct gpu_io io;
	struct gpu_qslots q;
	int64_t n, group, cin, cout; /* cin and cout count the channels of a group */
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
/* One launch scales channels first to first + GPU_SCALES - 1, because the biases are passed in the parameters. */
struct gpu_image_scale {
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
