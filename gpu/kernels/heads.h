/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_HEADS_H
#define GPU_KERNELS_HEADS_H
/* What com.microsoft's attention operators do before the attention itself. Read by C and by CUDA. */
#include <stdint.h>

/*
 * Heads as the attention reads them, [batch, heads, room, size]: what is cached, then what is new, with a
 * bias, normalised and turned if asked for, then zeros.
 */
struct gpu_codes {
	const float *scale;   /* null: the cache holds numbers */
	int type, bits, each; /* of the cache, as ONNX numbers it; each: every channel has a scale */
};
struct gpu_heads {
	const void *past, *x, *bias, *norm, *cos, *sin;
	void *y;
	const int64_t *position; /* null: they count from first[batch] */
	const int64_t *used;	 /* rows of the past that count, by batch; null: all */
	const int64_t *first;	 /* position of the first new row, by batch */
	int64_t batch, heads, room, size, rows, past_room;
	int64_t step[3]; /* of x: batch, head, row */
	int64_t turned, cache_rows;
	struct gpu_codes codes; /* of the past; new rows are as if they came from it */
	int interleaved;
	float epsilon;
	uint64_t *fault, who;
};

/* Rows of the heads that stay in a cache of codes, or of a window. */
struct gpu_keep {
	const void *x;
	void *y;
	const int64_t *first, *count; /* by batch */
	int64_t batch, heads, room, rows, size;
	struct gpu_codes codes;
};

/* mask_index or key_padding_mask as numbers that are added: [batch, rows, keys]. */
struct gpu_ms_mask {
	const int32_t *mask;
	void *y;
	int64_t batch, queries, rows, keys, dim[4];
	int rank;
	float filter;
};

/* Lengths of GroupQueryAttention by batch, and a sink of zeros. */
struct gpu_lengths {
	const int32_t *last;	       /* seqlens_k */
	int64_t *valid, *first, *used; /* keys that count; position of query 0; rows of the past */
	int64_t *keep_first, *keep_count;
	void *zeros;
	int64_t batch, queries, keys, past, zero_bytes, window; /* window 0: the cache holds all */
	int prompt;
	uint64_t *fault, who;
};

/* Rows of scores to rows of another length; what is out counts 0. */
struct gpu_score_rows {
	const void *x;
	void *y;
	int64_t n, from, to;
};

/* FlexAttention, its scores in memory: f32, or f64 of f64. */
struct gpu_flex {
	const void *q, *k, *v;
	void *score, *y;
	int64_t batch, heads, kv_heads, queries, keys, size, vsize;
	int type, wide; /* of the operands, of the scores; as ONNX numbers them */
	float scale;
};

/* Elements of one type to another. */
struct gpu_retype {
	const void *x;
	void *y;
	int64_t n;
	int from, to;
};

#endif
