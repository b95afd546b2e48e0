/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ATTENTION_HEADS_H
#define CPU_ATTENTION_HEADS_H
/*
 * Attention with every feature that the operators Attention, MultiHeadAttention and GroupQueryAttention define:
 * sliding windows, caches, masks of every form, soft caps, sinks, and the scores as an output. The attention
 * nodes that fusion makes have fewer features and use sdpa.h.
 */
#include "backend/backend.h"
#include "cpu/attention/sdpa.h"
#include "cpu/math/gemm.h"

enum { HEADS_MASKS = 2 };

/*
 * A mask that broadcasts to [batch, heads, queries, keys]. step holds the mask's strides in elements; a stride of 0
 * repeats the mask along that dimension.
 */
struct heads_mask {
	const void *data; /* NULL: no mask */
	int64_t step[4];
	int64_t keys; /* number of keys that the mask covers; further keys are hidden */
};

/*
 * The stage of the computation after which the scores are copied to `qk`: the product, the soft cap, the masks or the
 * softmax.
 */
enum heads_scores { HEADS_PRODUCT, HEADS_CAPPED, HEADS_MASKED, HEADS_PROBABILITIES };

struct heads {
	enum gemm_type real; /* element type of all data: GEMM_F32 or GEMM_F64 */
	int64_t batch, heads, kv_heads, queries, keys, size, vsize;
	struct attend_view q, k, v;
	void *y;
	int64_t y_batch, y_head, y_row;
	float scale;
	float softcap; /* 0: none */

	bool causal;
	bool last_sees_all; /* `causal` does not restrict the last query */
	int64_t left,
		/* how many keys before and after its own position a query sees; -1 if there is no bound */
		right;
	int64_t offset;		/* position of query 0 among the keys */
	const int64_t *offsets; /* one offset per batch, used instead of `offset` if not NULL */
	const int64_t *valid; /* number of valid keys for each batch; NULL if all keys are valid */

	struct heads_mask mask[HEADS_MASKS]; /* added to the scores */
	struct heads_mask hide;		     /* mask of bytes, in which 0 hides the key */
	float hidden;	  /* added to the score of a hidden key; -INFINITY excludes the key */
	const void *sink; /* one extra score per head that only adds to the softmax's sum; or NULL */
	enum dtype round; /* if not 0, the type that scores and probabilities are rounded to */

	void *qk; /* [batch, heads, queries, keys] or NULL */
	enum heads_scores scores;
	void *scratch; /* heads_scratch bytes */
};

/* Returns the bytes of scratch that heads_run needs for all threads together. */
size_t heads_scratch(enum gemm_type real, int64_t queries, int64_t keys);
void heads_run(struct heads *a);

/* Returns the view of a dense tensor [batch, heads, rows, size], or [batch, rows, heads * size] if merged is set. */
struct attend_view heads_view(const void *data, int64_t heads, int64_t rows, int64_t size,
			      bool merged);
/*
 * Concatenates past [batch, kv_heads, past_rows, size] (NULL if there is none) and the `rows` new rows that x
 * views into `to` [batch, kv_heads, keys, size]. Afterwards x views `to`.
 */
void heads_append(const struct heads *a, const void *past, int64_t past_rows, struct attend_view *x,
		  int64_t rows, int64_t size, void *to);
/* Sets the strides of m for a mask of shape s that broadcasts, aligned right, to [batch, heads, queries, keys]. */
void heads_mask_steps(const struct shape *s, int64_t keys, struct heads_mask *m);
/*
 * Sets the output of `a` to y, a tensor of shape [batch, queries, heads * vsize] that holds the results of all heads
 * side by side.
 */
void heads_merged_result(struct heads *a, void *y);

/* Softmax of each row. */
void heads_softmax(enum gemm_type real, void *scores, int64_t rows, int64_t keys);

enum gemm_type heads_real(enum dtype t);
size_t heads_real_size(enum gemm_type real);
/* Returns `scale`, or 1 / sqrt(size of a head) if `scale` is NAN. */
float heads_scale(float scale, int64_t size);
/* Does the same as heads_scale for com.microsoft's operators, where a scale of 0 means that no scale is given. */
float heads_ms_scale(float scale, int64_t size);

#endif
