/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_UNARY_H
#define OPS_UNARY_H
#include "ir/graph.h"

struct alpha { /* LeakyRelu, Elu, Celu, ThresholdedRelu, Swish, QuickGelu, SwiGLU */
	float alpha;
};
struct alpha_beta { /* HardSigmoid; opset 1: Affine, ScaledTanh, ParametricSoftplus */
	float alpha, beta;
};
struct selu {
	float alpha, gamma;
};
struct gelu {
	int approximate; /* 0 none, 1 tanh */
};
struct shrink {
	float lambd, bias;
};
enum { IS_NAN, IS_INF }; /* .variant of the rows */
struct is_inf {
	int64_t detect_negative, detect_positive;
};
struct dropout {
	int64_t seed;	/* INT_ABSENT: any */
	bool mask_zero; /* in inference the mask is all 0, as below opset 12, instead of all 1 */
};
struct image_scaler {
	float scale;
	struct floats bias; /* one for each channel; empty if it is 0 */
};
struct bit_cast {
	int64_t to;
};

/* The function that a node computes, if its operator is one of unary.def or a relative of these in com.microsoft. */
struct unary_function {
	/* number of the function's row: VF_... in the CPU's tables, U_... in the CUDA kernels */
	int number;
	double param[2]; /* a and b of its formula */
};
struct unary_function unary_function(const struct node *n);

#endif
