/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ATTENTION_SDPA_H
#define CPU_ATTENTION_SDPA_H
/*
 * Attention over strided views: softmax(scale * Q K^T + mask) V per head, for every kernel that
 * has it. Work is handed out by head and block of queries; the scores of a block stay in cache.
 */
#include "ir/dtype.h"

/* Offset of batch b, head h, row s: b * batch + h * head + s * row; columns are dense. */
struct attend_view {
	const void *data;
	int64_t batch, head, row;
};
struct attend {
	bool f64; /* all of it; else f32 */
	int64_t batch, heads, kv_heads, queries, keys, size, vsize;
	struct attend_view q, k, v, y;
	int64_t k_col; /* 0: keys are rows of k; else k is [size, keys]: this is 1 and k.row steps over size */
	float scale;
	int causal; /* 0; 1: query i sees keys 0..i; 2: 0..i + keys - queries */
	bool safe;  /* a row without keys gives 0, else NaN */
	/* added, or where mask_bool is set: 0 hides; strides of batch, head, query, key in elements */
	const void *mask;
	bool mask_bool;
	int64_t mask_step[4];
};

size_t attend_scratch(const struct attend *a); /* of data only the sizes are looked at */
void attend_run(const struct attend *a, void *scratch);

#endif
