/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_DELTA_NET_H
#define OPS_DELTA_NET_H
/* com.microsoft::GatedDeltaNet: attention with a recurrent state for each head, over packed sequences. */
#include "ops/op.h"

/* The first four are the update rules of struct linear_attention. */
enum {
	GATE_NONE,
	GATE_SOFTPLUS,
	GATE_SIGMOID,
	GATE_QWEN,
	GATE_KDA
}; /* QWEN is SOFTPLUS, KDA is SIGMOID */
struct delta_net {
	int64_t state_update_capacity, chunk_size, qk_l2_norm;
	float scale, gate_lower_bound; /* a scale of 0 stands for 1 / sqrt(head size) */
	int update_rule, gate_activation, beta_activation;
};
enum { MAX_STATE_UPDATES = 8 };
enum {
	NET_Q,
	NET_K,
	NET_V,
	NET_STARTS,
	NET_DECAY,
	NET_BETA,
	NET_STATE,
	NET_A_LOG,
	NET_BIAS,
	NET_COUNT,
	NET_ACTIVE,
	NET_INPUTS
};

/* Sizes that follow from the shapes of the inputs; DIM_UNKNOWN or a symbol if they do not say. */
struct delta_net_sizes {
	bool packed; /* query, key and value lie side by side in the first input */
	int lead; /* number of dimensions that count tokens: 1, or 2 for batch and length; 0 if not known */
	int64_t tokens, batch, heads, vheads, size, vsize;
	int64_t width; /* decays of a token, over all heads */
};

extern const struct slot delta_net_in[], delta_net_out[];
extern const struct field delta_net_attrs[];
/* in: the shapes of the inputs, SHAPE_UNKNOWN for those that are left out; has: which are given. */
struct delta_net_sizes delta_net_sizes(const struct shape *in, const bool *has);
int delta_net_infer(struct infer *c);
int64_t delta_net_macs(const struct infer *c);

#endif
