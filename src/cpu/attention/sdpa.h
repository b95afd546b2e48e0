/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ATTENTION_SDPA_H
#define CPU_ATTENTION_SDPA_H
/*
 * Attention over strided views: softmax(scale * Q K^T + mask) V per head. The threads share the work by head
 * and block of queries; a block is so small that its scores stay in the cache.
 */
#include "ir/dtype.h"

/* Row s of head h of batch b begins at element b * batch + h * head + s * row; a row's elements are adjacent. */
struct attend_view {
	const void *data;
	int64_t batch, head, row;
};
struct attend {
	enum dtype type; /* of Q, K, V and Y: f32, f64 or, if amx_usable(), bf16. A mask of numbers is f64 for f64, else f32 */
	int64_t batch, heads, kv_heads, queries, keys, size, vsize;
	struct attend_view q, k, v, y;
	/*
	 * 0 if each row of k is a key; 1 if k is transposed to [size, keys], and then k.row is the stride along size
	 */
	int64_t k_col;
	float scale;
	/* 0 if each query sees all keys; 1 if query i sees keys 0..i; 2 if query i sees keys 0..i + keys - queries */
	int causal;
	bool safe; /* the result of a query that sees no key is 0 if `safe` is set, otherwise NaN */
	/* numbers that are added to the scores or, if mask_bool is set, bytes in which 0 hides a key */
	const void *mask;
	bool mask_bool;
	int64_t mask_step[4]; /* strides of batch, head, query and key in elements */
};

size_t attend_scratch(const struct attend *a); /* reads only the sizes in `a` */
void attend_run(const struct attend *a, void *scratch);

#endif
