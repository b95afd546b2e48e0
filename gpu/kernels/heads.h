/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_HEADS_H
#define GPU_KERNELS_HEADS_H
/* Parameters of the kernels of heads.cu, which com.microsoft's attention operators run around the attention itself. */
#include <stdint.h>

/* How a cache is quantized. */
struct gpu_codes {
	const float *scale; /* null: the cache is not quantized */
	int type, bits,
		each; /* type: the cache's, as ONNX numbers it; each: every channel has its own scale */
};
/*
 * Heads as the attention reads them, [batch, heads, room, size]: the cached rows, then the new rows (with bias,
 * normalized and rotated if wanted), then zeros.
 */
struct gpu_heads {
	const void *past, *x, *bias, *norm, *cos, *sin;
	void *y;
	const int64_t *position; /* of the new rows; null: first[batch] and on */
	const int64_t *used;	 /* valid rows of the past by batch; null: all */
	const int64_t *first;	 /* position of the first new row, by batch */
	int64_t batch, heads, room, size, rows, past_room;
	int64_t step[3]; /* of x: batch, head, row */
	int64_t turned, cache_rows;
	struct gpu_codes codes; /* of the past; new rows are rounded as if they had been in the cache */
	int interleaved;
	float epsilon;
	uint64_t *fault, who;
};

/* Copies the rows of heads that stay in a cache that is quantized, or that holds a window of positions. */
struct gpu_keep {
	const void *x;
	void *y;
	const int64_t *first, *count; /* by batch */
	int64_t batch, heads, room, rows, size;
	struct gpu_codes codes;
};

/* Turns mask_index or key_padding_mask into numbers that are added to scores: [batch, rows, keys]. */
struct gpu_ms_mask {
	const int32_t *mask;
	void *y;
	int64_t batch, queries, rows, keys, dim[4];
	int rank;
	float filter;
};

/* Computes the lengths of GroupQueryAttention for each batch, and fills a sink with zeros. */
struct gpu_lengths {
	const int32_t *last;	       /* seqlens_k */
	int64_t *valid, *first, *used; /* valid keys; position of query 0; valid rows of the past */
	int64_t *keep_first, *keep_count;
	void *zeros;
	int64_t batch, queries, keys, past, zero_bytes,
		window; /* window 0: the cache holds all positions */
	int prompt;
	uint64_t *fault, who;
};

/* Copies rows of scores to rows of another length; hidden (-infinity) and missing scores become 0. */
struct gpu_score_rows {
	const void *x;
	void *y;
	int64_t n, from, to;
};

/* FlexAttention with its scores in memory, in f32, or in f64 for operands of f64. */
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
