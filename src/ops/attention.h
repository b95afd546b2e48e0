/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_ATTENTION_H
#define OPS_ATTENTION_H
#include "ops/op.h"

#include <math.h>

/* Attention (ai.onnx) */
struct attention {
	int64_t is_causal, q_num_heads, kv_num_heads, qk_matmul_output_mode, softmax_precision;
	int64_t left_window_size, right_window_size; /* -1 if there is no bound */
	float scale, softcap; /* a scale of NAN stands for the default, 1 / sqrt(head size) */
};
enum { ATT_Q, ATT_K, ATT_V, ATT_MASK, ATT_PAST_K, ATT_PAST_V, ATT_NONPAD };

/* ai.onnx.preview::FlexAttention; score_mod and prob_mod are indices of bodies in node->sub, or -1 if there is none */
struct flex_attention {
	float scale;
	int score_mod, prob_mod;
	int64_t softmax_precision;
};

enum { RULE_LINEAR, RULE_GATED, RULE_DELTA, RULE_GATED_DELTA };
struct linear_attention {
	int64_t q_num_heads, kv_num_heads, chunk_size;
	float scale;
	int update_rule;
	/* com.microsoft: the states after this number of last positions are kept, and the last one of past_state is read; 0: one state */
	int64_t state_window;
};
enum { MAX_STATE_WINDOW = 8 };
enum { LINEAR_MICROSOFT = 1 }; /* variant: there may be more heads of keys than of queries */
enum { LIN_Q, LIN_K, LIN_V, LIN_PAST, LIN_DECAY, LIN_BETA };

/* inputs of LinearAttentionGate */
enum { GATE_A, GATE_BIAS, GATE_SCALE, GATE_B };

/* RotaryEmbedding of ai.onnx and of com.microsoft */
struct rotary {
	int64_t interleaved, num_heads, rotary_embedding_dim;
	int64_t is_packed_batching;
	float scale;
};

/* com.microsoft::MRotaryEmbedding: a position has three numbers, and each pair turns by one of them. */
struct mrotary {
	struct rotary rotary;
	struct ints mrope_section; /* pairs that turn by the first, second and third number */
	int64_t mrope_layout;
};
enum { MROTARY_CHUNKS, MROTARY_IN_TURN };
enum { ROTARY_STREAMS = 2 }; /* variant: MRotaryEmbedding, against RotaryEmbedding */
/* By which of the three numbers pair k turns. */
static inline int mrotary_stream(const struct mrotary *p, int64_t k)
{
	const int64_t *n = p->mrope_section.v;

	if (p->mrope_layout == MROTARY_CHUNKS)
		return k < n[0] ? 0 : k < n[0] + n[1] ? 1 : 2;
	return k % 3 && k < 3 * n[k % 3] ? (int)(k % 3) : 0;
}

/* com.microsoft::Attention */
struct ms_attention {
	int64_t num_heads, unidirectional, do_rotary, rotary_embedding_dim, past_present_share_buffer;
	struct ints qkv_hidden_sizes;
	float mask_filter_value, scale;
};
enum { MSA_X, MSA_W, MSA_B, MSA_MASK, MSA_PAST, MSA_BIAS, MSA_PAST_LEN };

/* com.microsoft::MultiHeadAttention */
struct multi_head {
	int64_t num_heads, unidirectional;
	float mask_filter_value, scale;
};
enum {
	MHA_Q,
	MHA_K,
	MHA_V,
	MHA_BIAS,
	MHA_PADDING,
	MHA_ATT_BIAS,
	MHA_PAST_K,
	MHA_PAST_V,
	MHA_PAST_LEN,
	MHA_CACHE
};

/* com.microsoft::GroupQueryAttention */
struct group_query {
	int64_t num_heads, kv_num_heads, local_window_size, do_rotary, rotary_interleaved,
		smooth_softmax;
	int64_t qk_output, kv_cache_bit_width, sliding_window_cache, causal;
	float scale, softcap, qk_norm_epsilon;
	float q_norm_epsilon, k_norm_epsilon; /* NAN: qk_norm_epsilon */
	const char *k_quant_type, *v_quant_type;
};
enum {
	GQA_Q,
	GQA_K,
	GQA_V,
	GQA_PAST_K,
	GQA_PAST_V,
	GQA_SEQLENS,
	GQA_TOTAL,
	GQA_COS,
	GQA_SIN,
	GQA_POSITION,
	GQA_BIAS,
	GQA_SINK,
	GQA_K_SCALE,
	GQA_V_SCALE,
	GQA_Q_NORM,
	GQA_K_NORM
};
/* The epsilon of the norm whose weights are input `norm`, GQA_Q_NORM or GQA_K_NORM. */
static inline float group_query_epsilon(const struct group_query *p, uint32_t norm)
{
	float own = norm == GQA_Q_NORM ? p->q_norm_epsilon : p->k_norm_epsilon;

	return isnan(own) ? p->qk_norm_epsilon : own;
}

/* com.microsoft::SparseAttention, and infer::SparseMask, which makes its mask */
struct sparse_attention {
	int64_t num_heads, kv_num_heads, sparse_block_size, do_rotary, rotary_interleaved;
	float scale;
};
enum {
	SPARSE_Q,
	SPARSE_K,
	SPARSE_V,
	SPARSE_PAST_K,
	SPARSE_PAST_V,
	SPARSE_ROWS,
	SPARSE_COLS,
	SPARSE_TOTAL,
	SPARSE_LENS,
	SPARSE_COS,
	SPARSE_SIN
};
enum { MASK_Q, MASK_PAST, MASK_ROWS, MASK_COLS, MASK_TOTAL, MASK_LENS };

/* com.microsoft::PagedAttention */
struct paged_attention {
	int64_t num_heads, kv_num_heads, do_rotary, rotary_interleaved, rotary_offset, is_causal,
		local_window_size, v_head_size;
	float scale, softcap, qk_norm_epsilon;
	int kv_cache_layout, k_quant_type, v_quant_type;
	const char *k_cache_dtype, *v_cache_dtype;
};
enum { PAGED_SEPARATE, PAGED_LATENT };
enum { PAGED_PLAIN, PAGED_PER_TENSOR, PAGED_PER_CHANNEL };
enum {
	PAGED_Q,
	PAGED_K,
	PAGED_V,
	PAGED_K_CACHE,
	PAGED_V_CACHE,
	PAGED_STARTS,
	PAGED_PAST,
	PAGED_TABLE,
	PAGED_COS,
	PAGED_SIN,
	PAGED_SLOTS,
	PAGED_SINK,
	PAGED_Q_NORM,
	PAGED_K_NORM,
	PAGED_K_SCALE,
	PAGED_V_SCALE,
	PAGED_METADATA
};
/* Size of a head of queries and keys, from the shape of the queries; `packed`: they hold keys and values, too. */
static inline int64_t paged_head_size(const struct paged_attention *p, const struct shape *q,
				      bool packed)
{
	int64_t heads = packed ? p->num_heads + 2 * p->kv_num_heads : p->num_heads;

	return q->rank == 2 && q->dim[1] >= 0 && heads > 0 ? q->dim[1] / heads : DIM_UNKNOWN;
}

#endif
