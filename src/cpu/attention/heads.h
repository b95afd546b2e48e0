/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ATTENTION_HEADS_H
#define CPU_ATTENTION_HEADS_H
/*
 * Attention with all that the operators' definitions know: windows, caches, masks of every form, soft
 * caps, sinks, and the scores handed out. For operators as models have them (Attention,
 * MultiHeadAttention, GroupQueryAttention); what fusion makes of them is smaller, and attend.h's.
 */
#include "backend/backend.h"
#include "cpu/attention/sdpa.h"
#include "cpu/math/gemm.h"

enum { HEADS_MASKS = 2 };

/* Broadcast over [batch, heads, queries, keys]: strides in elements. */
struct heads_mask {
	const void *data; /* NULL: none */
	int64_t step[4];
	int64_t keys; /* it has; those beyond are hidden */
};

/* Which scores `qk` gets. */
enum heads_scores { HEADS_PRODUCT, HEADS_CAPPED, HEADS_MASKED, HEADS_PROBABILITIES };

struct heads {
	enum gemm_type real; /* GEMM_F32 or GEMM_F64: what all numbers here are */
	int64_t batch, heads, kv_heads, queries, keys, size, vsize;
	struct attend_view q, k, v;
	void *y;
	int64_t y_batch, y_head, y_row;
	float scale;
	float softcap; /* 0: none */

	bool causal;
	bool last_sees_all;	/* causal says nothing of the last query */
	int64_t left, right;	/* window; -1: no bound */
	int64_t offset;		/* position of query 0 */
	const int64_t *offsets; /* of each batch, instead */
	const int64_t *valid;	/* of each batch: keys that count; NULL: all */

	struct heads_mask mask[HEADS_MASKS]; /* added to the scores */
	struct heads_mask hide;		     /* bytes; 0: the key is hidden */
	float hidden;	  /* what a hidden key's score gets added; -inf: it is out */
	const void *sink; /* a head: one more score that takes part in the sum; or NULL */
	enum dtype round; /* not 0: scores and probabilities go through this type */

	void *qk; /* [batch, heads, queries, keys] or NULL */
	enum heads_scores scores;
	void *scratch; /* heads_scratch bytes */
};

/* Bytes that heads_run wants, for all threads. */
size_t heads_scratch(enum gemm_type real, int64_t queries, int64_t keys);
void heads_run(struct heads *a);

/* Dense view of [batch, heads, rows, size] or, merged, of [batch, rows, heads * size]. */
struct attend_view heads_view(const void *data, int64_t heads, int64_t rows, int64_t size,
			      bool merged);
/*
 * past [batch, kv_heads, past_rows, size] (NULL where there are none) and the `rows` that x views, one
 * behind the other, as [batch, kv_heads, keys, size] at `to`, which x views afterwards.
 */
void heads_append(const struct heads *a, const void *past, int64_t past_rows, struct attend_view *x,
		  int64_t rows, int64_t size, void *to);
/* Strides of a mask of shape s, broadcast (aligned right) to [batch, heads, queries, keys]. */
void heads_mask_steps(const struct shape *s, int64_t keys, struct heads_mask *m);
/* The results of all heads side by side: y is [batch, queries, heads * vsize]. */
void heads_merged_result(struct heads *a, void *y);

/* Softmax of each row. */
void heads_softmax(enum gemm_type real, void *scores, int64_t rows, int64_t keys);

enum gemm_type heads_real(enum dtype t);
size_t heads_real_size(enum gemm_type real);
/* The scale of a head's size, where none (NAN) is given. */
float heads_scale(float scale, int64_t size);
/* com.microsoft's operators say 0 for none. */
float heads_ms_scale(float scale, int64_t size);

#endif
