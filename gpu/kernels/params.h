/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_PARAMS_H
#define GPU_KERNELS_PARAMS_H
/* Parameters of the kernels. Each kernel takes one of these structs by value. C and CUDA both read this file. */
#include <stdint.h>

#include "modes.h"

enum { GPU_DIMS = 12, GPU_MANY = 8 };

/* Mirrors the CPU's enum of the functions in ops/unary.def. */
enum gpu_unary {
#define FUNCTION(id, cost, formula) U_##id,
#define BIT_FUNCTION(id, formula)   U_##id,
#include "ops/unary.def"
	U_COUNT
};
/* Mirrors enum act of ops/activation.h. */
enum gpu_act {
	GPU_ACT_NONE,
#define ACTIVATION(id, text, op, nparams, alpha, beta) GPU_ACT_##id,
#define NAMED_ACTIVATION(id, op, nparams, alpha, beta) GPU_ACT_##id,
#include "ops/unary.def"
};
/* Mirrors enum pw_op of ops/fused.h. */
enum gpu_instruction {
#define INSTRUCTION(id) GPU_OP_##id,
#include "ops/pointwise.def"
};
enum gpu_binary {
	B_ADD,
	B_SUB,
	B_MUL,
	B_DIV,
	B_MAX,
	B_MIN,
	B_POW,
	B_MOD,
	B_FMOD,
	B_AND,
	B_OR,
	B_XOR,
	B_SHL,
	B_SHR,
	B_PRELU,
	B_BIASGELU,
	B_BIASGELU_TANH,
	B_EQ,
	B_LT,
	B_LE,
	B_GT,
	B_GE
};
enum gpu_reduce {
	R_SUM,
	R_MEAN,
	R_MAX,
	R_MIN,
	R_PROD,
	R_L1,
	R_L2,
	R_SUMSQUARE,
	R_LOGSUM,
	R_LOGSUMEXP,
	R_ARGMAX,
	R_ARGMIN,
	R_ARGMAX_LAST,
	R_ARGMIN_LAST
};

/*
 * An index space that tensors are walked over. Each tensor has a stride for each dim, in elements; a stride of 0
 * repeats the tensor along the dim.
 */
struct gpu_dims {
	int rank;
	int64_t dim[GPU_DIMS];
};

enum { GPU_CAST_AT_ONCE = 8 }; /* elements that a thread of cast_some casts at a time */
struct gpu_map {
	const void *x;
	void *y;
	int64_t n;
	int op, from, to; /* op: gpu_unary; from, to: element types, as ONNX numbers them */
	double p[2];
	const void *lo, *hi; /* bounds of Clip in device memory, or null if there is no bound */
};

struct gpu_binary_job {
	const void *a, *b;
	void *y;
	int64_t n;
	int op, tb;
	struct gpu_dims d;
	int64_t step[2][GPU_DIMS];
};

struct gpu_nary {
	const void *in[GPU_MANY];
	void *y;
	int64_t n;
	int op, nin;
	double scale;
	struct gpu_dims d;
	int64_t step[GPU_MANY][GPU_DIMS];
};

struct gpu_where {
	const uint8_t *c;
	const void *a, *b;
	void *y;
	int64_t n;
	struct gpu_dims d;
	int64_t step[3][GPU_DIMS];
};

/* Copies a strided view to another. */
struct gpu_strided {
	const void *x;
	void *y;
	int64_t n;
	struct gpu_dims d;
	int64_t xs[GPU_DIMS], ys[GPU_DIMS];
};

/* Copies several strided views at once, a row of blocks (blockIdx.y) for each. */
enum { GPU_PIECES = 4 };
struct gpu_strided_pieces {
	struct gpu_strided piece[GPU_PIECES];
};

struct gpu_pad {
	const void *x, *value; /* if value is null, the padding is zero */
	void *y;
	int64_t n;
	int rank, mode; /* GPU_PAD_... */
	int64_t xd[GPU_DIMS], yd[GPU_DIMS], begin[GPU_DIMS];
	/*
	 * Negative pads cut elements off x: low is the index of the first element of x that remains on each axis,
	 * core is the number of elements that remain.
	 */
	int64_t low[GPU_DIMS], core[GPU_DIMS];
};

struct gpu_gather_job {
	const void *x, *index, *update;
	void *y;
	int64_t n, outer, dim, inner, count; /* count: number of indices */
	int wide;			     /* indices have 64 bits */
	int rank, k, reduction;
	int64_t xs[GPU_DIMS], id[GPU_DIMS], xd[GPU_DIMS];
	int axis;
	uint64_t *fault, who;
};

struct gpu_trilu {
	const void *x;
	void *y;
	int64_t n, rows, cols, k;
	int upper;
	const int64_t *at; /* if not null, k is in device memory at this address */
};

struct gpu_reduce_job {
	const void *x;
	void *y;
	int64_t n, m; /* n: number of outputs; m: number of elements that each output reduces */
	int op;
	struct gpu_dims keep, red;
	int64_t ks[GPU_DIMS], rs[GPU_DIMS];
};

/* softmax and running sums: the input is outer x n x inner, and a line is the n elements in its middle dim */
struct gpu_line {
	const void *x;
	void *y;
	int64_t outer, n, inner;
	int op, reverse, exclusive;
	/* number of threads that share a row, in kernels that hold the row in registers */
	int row_threads;
};

struct gpu_norm { /* rows of n elements: y = (x - mean) / sqrt(var + eps) * scale + bias */
	const void *x, *add, *add2, *scale, *bias;
	void *y, *sum;
	void *mean, *inv; /* may be null */
	void *q; /* receives y * q_factor as float8e4m3fn if it is not null; y may be null then */
	int64_t rows, n, period, per_row, inner;
	int rms, row_threads;
	double epsilon;
	float q_factor;
};

struct gpu_batch { /* normalizes each channel with given statistics */
	const void *x, *scale, *bias, *mean, *var;
	void *y;
	int64_t n, channels, inner;
	double epsilon;
};

struct gpu_gemm {
	const void *a, *b, *c, *r;
	void *y;
	int64_t m, n, k;
	int64_t a_row, a_col, b_row, b_col, c_row, c_col;
	struct gpu_dims batch;
	int64_t as[GPU_DIMS], bs[GPU_DIMS], cs[GPU_DIMS];
	double alpha, beta, act_alpha, act_beta;
	int act;
	int b_is_weight; /* nothing that runs before the product writes B */
};
/* Products of the same rows by several matrices, in one launch: blockIdx.z tells which. */
enum { GPU_SEVERAL = 3 };
struct gpu_gemms {
	struct gpu_gemm job[GPU_SEVERAL];
};

/*
 * A window over GPU_SPACE axes. Its numbers are right-aligned: with fewer spatial dims, the first axes have one
 * element.
 */
enum { GPU_SPACE = 3 };
struct gpu_window {
	int64_t in[GPU_SPACE], out[GPU_SPACE], kernel[GPU_SPACE], stride[GPU_SPACE],
		dilation[GPU_SPACE], begin[GPU_SPACE];
};

struct gpu_conv_job {
	const void *x, *w, *b, *r;
	void *y;
	int64_t batch, group, cin, cout; /* cin, cout: channels of a group */
	struct gpu_window win;
	int64_t image, pixels, window; /* products of in, out and kernel */
	double act_alpha, act_beta;
	int act;
};

struct gpu_pool_job {
	const void *x;
	void *y;
	int64_t *index;
	int64_t n, planes;
	struct gpu_window win;
	int64_t end[GPU_SPACE];
	int kind, count_pad, column_major; /* kind: GPU_POOL_... */
	double p;
};

enum { GPU_CODE = 64, GPU_CONSTS = 64, GPU_PW_IN = 16, GPU_PW_OUT = 4, GPU_PW_DIMS = 8 };
struct gpu_pointwise {
	const void *in[GPU_PW_IN];
	void *out[GPU_PW_OUT];
	int64_t n;
	int ncode, nout;
	int rank;
	int64_t dim[GPU_PW_DIMS];
	int64_t step[GPU_PW_IN][GPU_PW_DIMS];
	uint8_t code[GPU_CODE][4];
	float consts[GPU_CONSTS];
	uint8_t outs[GPU_PW_OUT];
};

/*
 * Attention in all its forms. qs, ks, vs and ys are strides, in elements, over batch, head and position. A score is
 * scale * q * k, then soft-capped, then masked. A key is hidden if it lies outside of the window, if it lies behind the
 * `valid` keys of its batch, or if a mask of type bool hides it.
 */
struct gpu_attend {
	const void *q, *k, *v, *mask, *bias, *sink;
	void *y, *qk, *scratch;
	/* number of valid keys of each batch; if null, all t keys are valid */
	const int64_t *valid;
	int64_t batch, heads, kv_heads, s, t, d, dv;
	int64_t qs[3], ks[3], vs[3], ys[3], kd; /* kd: stride between the elements of a key */
	/* ms: strides of the mask; mask_keys: number of keys that the mask covers, all later keys are hidden */
	int64_t ms[4], mask_keys;
	int64_t bs[4];	/* strides of the bias, which is added like a mask */
	int64_t offset; /* position of query 0 among the keys */
	/* number of visible keys before and behind the query's position, or -1 for all keys */
	int64_t left, right;
	/* types as ONNX numbers them, or 0 if there is no mask or no bias */
	int mask_type, bias_type;
	/* the last query is at the position of the last valid key; offset is not used */
	int behind_valid;
	int last_sees_all; /* the last query sees all keys, regardless of `right` */
	int safe;	   /* a query that sees no key gives 0 instead of NaN */
	int nan_to_zero;   /* probabilities that are NaN count as 0 */
	int vector;	   /* q, k and v can be read 16 bytes at a time */
	int qk_mode;	   /* GPU_QK_...: what the output qk holds */
	/* type, as ONNX numbers it, that scores and probabilities are rounded to, or 0 if they are not rounded */
	int round;
	/* of the kernels for few queries: the keys are cut into `parts` parts of `part` keys */
	int part, parts;
	/*
	 * of the kernels attend_make: rows of caches of past_room rows a head, `used` of which (all, if it is null) they copy to k and v;
	 * `fresh` rows behind them are there already, and what follows becomes zero
	 */
	const void *past_k, *past_v;
	const int64_t *used;
	int64_t past_room, fresh;
	/* hidden: number that is added to a score if a mask of type bool hides the key */
	float scale, softcap, hidden;
};

struct gpu_rotary {
	const void *x, *cos, *sin;
	void *y;
	/* rows of the cos and sin caches; if null, row batch * length + s is used */
	const int64_t *position;
	int64_t batch, length, heads, size, turned, rows;
	int64_t step[3]; /* strides of x and y: batch, position, head */
	/* stride of position over the batches, or 0 if all batches share the positions */
	int64_t position_batch;
	/* counted: position holds only the position of the first element; the others follow it */
	int interleaved, counted;
	/*
	 * Three numbers of each position if `streams` is set: pairs up to section[0] turn by the first, pairs up to section[1] by the
	 * second. in_turn: pairs take the numbers in turn, the second and the third number up to pair section[1] and section[2].
	 */
	int streams, in_turn;
	int64_t section[3];
	uint64_t *fault, who;
};

struct gpu_quantize {
	const void *x, *scale, *zero;
	void *y;
	/*
	 * dim: size of the axis, or 0 if there is a single scale; block: elements of the axis that share a scale, or 0
	 * if each position of the axis has one
	 */
	int64_t n, outer, dim, inner, block, blocks;
	int from, to, has_zero;
};

#endif
