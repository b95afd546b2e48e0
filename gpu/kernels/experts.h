/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_EXPERTS_H
#define GPU_KERNELS_EXPERTS_H
/* Parameters of the kernels of experts.cu, com.microsoft's MoE and QMoE. */
#include <stdint.h>

/* A layer of all experts: weights [experts, rows, in]. */
struct gpu_expert_layer {
	const void *weights, *scales, *zeros, *bias; /* null if there is none */
	const float *global; /* a scale for each expert, if there is none in scales */
	int64_t rows, in;
	int64_t block; /* weights that share a scale: of a row of codes, or the side of a square of FP8 */
	int type, scale_type, bits; /* bits: of a code, 0 if the weights are numbers of `type` */
	int by_row;		    /* the zero points of the rows of an expert lie side by side */
	int fp4; /* the weights are stored [experts, in, rows / 2], two rows a byte */
};

struct gpu_experts {
	const void *x, *logits, *router_weights;
	void *y;
	int64_t *chosen; /* [tokens, k] */
	float *weight;	 /* [tokens, k] */
	float *between;	 /* [tokens, k, inter] */
	struct gpu_expert_layer first, second, third;
	int64_t tokens, hidden, inter, experts, k;
	int activation, fusion, normalize,
		mixer; /* activation: GPU_EXPERT_..., fusion: GPU_SWIGLU_... */
	float alpha, beta, limit, jitter;
};

#endif
