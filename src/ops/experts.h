/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_EXPERTS_H
#define OPS_EXPERTS_H
/*
 * com.microsoft's MoE and QMoE: of many feed-forward nets, the experts, each token passes through the k that a router chooses.
 * Weights of routes that are not to be normalized are a softmax over all experts, as the text of both and their CUDA kernels have it;
 * ONNX Runtime 1.31.1's CPU kernel of QMoE normalizes them whatever the attribute says, and knows no sparse mixer.
 */
#include "ops/op.h"

#include <math.h>

/* The .variant of QMoE, whose weights are quantized. */
enum { EXPERTS_QUANTIZED = 1 };

enum expert_activation { EXPERT_RELU, EXPERT_GELU, EXPERT_SILU, EXPERT_SWIGLU, EXPERT_IDENTITY };
/* Where the gate and the linear part of SwiGLU are: in fc1 and fc3, in turn in the rows of fc1, or one half of its rows each. */
enum { SWIGLU_APART, SWIGLU_IN_TURN, SWIGLU_HALVES };
enum { EXPERT_INT, EXPERT_FP4, EXPERT_NVFP4, EXPERT_FP8, EXPERT_WFP4AFP8 }; /* quant_type */

struct experts {
	int64_t k, normalize_routing_weights, swiglu_fusion, use_sparse_mixer;
	int64_t swiglu_limit_after_activation;
	float activation_alpha, activation_beta, swiglu_limit; /* a limit of NAN is none */
	int activation_type;
	/* QMoE */
	int64_t expert_weight_bits, fc1_expert_weight_bits, fc2_expert_weight_bits,
		fc3_expert_weight_bits; /* a layer's 0: as all */
	int64_t block_size, accuracy_level, weights_prepacked;
	int quant_type;
};

enum { EXPERTS_X, EXPERTS_ROUTER };
/* The layers of an expert: hidden to inter size, inter to hidden size, and the linear part of a gated first layer. */
enum { FC1, FC2, FC3, EXPERT_LAYERS };
/* Numbers of the inputs of a layer; EXPERTS_NONE stands for none. */
enum { EXPERTS_NONE = 99 };
struct expert_inputs {
	uint32_t weights, bias, scales, zeros, global;
};
/* Where MoE and QMoE have the inputs of layer fc. */
struct expert_inputs expert_inputs(const struct op *op, int fc);
/* Bits of the integer weights of layer fc. */
static inline int64_t expert_bits(const struct experts *p, int fc)
{
	int64_t own = fc == FC1	  ? p->fc1_expert_weight_bits
		      : fc == FC2 ? p->fc2_expert_weight_bits
				  : p->fc3_expert_weight_bits;

	return own ? own : p->expert_weight_bits;
}
/* Whether FP8 weights have a scale for each square of block_size x block_size of them, in place of one for each expert. */
static inline bool expert_squares(const struct experts *p)
{
	return p->quant_type == EXPERT_FP8 && p->block_size > 0;
}
/* The weights of the routes, which may be others than the probabilities by which experts are chosen; of QMoE only. */
enum { EXPERTS_ROUTER_WEIGHTS = 14 };

/* In the sparse mixer only experts compete whose logit is by no more than this part below the greatest. */
#define EXPERTS_JITTER 0.02F

/*
 * FP4 weights are stored as [experts, in, rows / 2], two rows a byte, as ONNX Runtime's kernels read them and its tools write them,
 * though the operator's text names the axes in another order. They have a scale for each block of this number of weights of a row; else it is 0.
 */
static inline int64_t expert_fp4_block(const struct experts *p)
{
	return p->quant_type == EXPERT_FP4 ? 32 : p->quant_type == EXPERT_NVFP4 ? 16 : 0;
}

struct expert_sizes {
	int64_t tokens, hidden, inter, experts;
	int64_t wide; /* rows of fc1: inter, or twice as many with the linear part of SwiGLU */
};
/* Reads the sizes from shapes that are all known and were checked by the row. */
static inline struct expert_sizes expert_sizes(const struct shape *x, const struct shape *router,
					       const struct shape *fc1, const struct experts *p)
{
	bool fused = p->activation_type == EXPERT_SWIGLU && p->swiglu_fusion;
	int64_t wide = expert_fp4_block(p) ? 2 * fc1->dim[2] : fc1->dim[1];

	return (struct expert_sizes){.tokens = router->dim[0],
				     .hidden = x->dim[x->rank - 1],
				     .inter = fused ? wide / 2 : wide,
				     .experts = router->dim[1],
				     .wide = wide};
}
static inline float expert_limit(const struct experts *p)
{
	return isnan(p->swiglu_limit) ? INFINITY : p->swiglu_limit;
}

#endif
