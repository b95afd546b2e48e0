/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_HEADS_H
#define GPU_KERNELS_HEADS_H
/*
 * Parameters of the kernels of heads.cu, which com.microsoft's attention operators run before and after the attention
 * itself.
 */
#include "params.h"

/* How a cache is quantized. */
struct gpu_codes {
	const float *scale; /* null if the cache is not quantized */
	/* type: element type of the cache, as ONNX numbers it; each: every channel has its own scale */
	int type, bits, each;
};
/*
 * Builds the heads that the attention reads, [batch, heads, room, size]: the cached rows come first, then the new rows
 * (with bias, normalized and rotated if wanted), then rows of zeros.
 */
struct gpu_heads {
	const void *past, *x, *bias, *norm, *cos, *sin;
	void *y;
	/* position of each new row; if null, the new rows begin where the lengths say, or at 0 */
	const int64_t *position;
	int64_t batch, heads, room, size, rows, past_room;
	int64_t step[3]; /* strides of x: batch, head, row */
	int64_t turned, cache_rows;
	/* quantization of the cached rows; new rows are rounded as if they had been in the cache */
	struct gpu_codes codes;
	int plain; /* the cached rows have the type of the new ones, and are not quantized */
	int fresh; /* only the new rows are written: the attention copies the others */
	int interleaved;
	float epsilon;
	uint64_t *fault, who;
};

/* Computes the lengths of GroupQueryAttention for each batch, and fills a sink with zeros. */
struct gpu_lengths {
	const int32_t *last; /* seqlens_k; if null, all cached rows are valid, and new rows begin at position 0 */
	int64_t *valid, *used; /* for each batch: number of valid keys, number of valid cached rows */
	int64_t *keep_first, *keep_count;
	void *zeros;
	int64_t batch, queries, keys, past, zero_bytes,
		window; /* window: 0 if the cache holds all positions */
	int prompt;
	uint64_t *fault, who;
};

/* Up to three parts that are made at once, and the numbers of each batch, if they follow from seqlens_k. */
struct gpu_heads_parts {
	struct gpu_heads part[3];
	struct gpu_lengths lengths;
};

/* An attention of one new position of each batch that makes the parts itself: query, keys and values, in this order. */
struct gpu_attend_now {
	struct gpu_attend attend;
	struct gpu_heads_parts heads;
	int ahead; /* what runs before the attention and may still run writes nothing that is read but the rows x of the parts */
};

/*
 * Copies the rows of the heads that remain in the new cache, when the cache is quantized or holds a window of
 * positions.
 */
struct gpu_keep {
	const void *x;
	void *y;
	/* first row to keep and number of rows to keep, for each batch */
	const int64_t *first, *count;
	int64_t batch, heads, room, rows, size;
	struct gpu_codes codes;
};

/* Turns mask_index or key_padding_mask into numbers that are added to the scores: [batch, rows, keys]. */
struct gpu_ms_mask {
	const int32_t *mask;
	void *y;
	int64_t batch, queries, rows, keys, dim[4];
	int rank;
	float filter;
};

/*
 * infer::SparseMask: the blocks of keys that queries see, as numbers added to the scores [batch, heads, queries, keys], and the rows
 * of the cache [batch, room] that no new key takes.
 */
struct gpu_sparse_mask {
	const int32_t *rows, *cols, *lens;
	void *y;
	uint8_t *rest;
	int64_t batch, heads, queries, keys, room, block, layouts;
	int64_t row_step, col_step; /* indices of a layout */
	uint64_t *fault, who;
};

/*
 * Copies rows of `from` scores to rows of `to` scores. Hidden scores (-infinity) and scores that x does not have become
 * 0.
 */
struct gpu_score_rows {
	const void *x;
	void *y;
	int64_t n, from, to;
};

/* FlexAttention, whose scores are stored in memory: in f64 if the operands are f64, otherwise in f32. */
struct gpu_flex {
	const void *q, *k, *v;
	void *score, *y;
	int64_t batch, heads, kv_heads, queries, keys, size, vsize;
	int type, wide; /* types of the operands and of the scores, as ONNX numbers them */
	float scale;
};

/* Converts elements of one type to another. */
struct gpu_retype {
	const void *x;
	void *y;
	int64_t n;
	int from, to;
};

#endif
