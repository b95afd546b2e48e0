/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_FLOAT8_H
#define OPS_FLOAT8_H
/*
 * Operators of the domain "infer" for --precision fp8, which only the optimizer creates (opt/float8.c). "float8" is
 * float8e4m3fn: four bits of exponent and three of mantissa, so that a number is rounded by at most 1/16 of itself
 * from 2^-6 to 448. A tensor is divided by its scale before it is rounded, so that none of its numbers is beyond 448;
 * as with any floating-point type, a scale that is some binades too large costs no accuracy. What is not float8 is fp16.
 */
#include "ops/op.h"

#define FLOAT8	    DT_F8E4M3FN
#define FLOAT8_MOST 448.0f

/*
 * infer::Float8(X) -> Q, S?: Q = X / scale in float8. If scale is 0, the scale is the largest magnitude of X over 448,
 * and S, of one element, receives it.
 */
struct float8_convert {
	float scale;
};

/*
 * infer::LayerNormFloat8(X, Scale, B?) -> Q, Y?: Y = normalized rows of X * Scale + B over the last dimension, as
 * LayerNormalization or, with `rms`, RMSNormalization makes it; Q = Y / scale in float8.
 */
struct float8_norm {
	float epsilon, scale;
	int64_t rms;
};

/*
 * infer::GemmFloat8(A, B, C?, R?, S?, D?) -> Y: Y = act(scale * S * A * B^T + C + R) * D.
 * A [...,M,K] and B [N,K] are float8. S and D have one element; each is 1 if it is left out. C is [N], R has Y's shape.
 * Y has the type `type`, which is float8 if D is given.
 */
struct float8_gemm {
	int64_t type; /* enum dtype */
	float scale;
	int act; /* enum act: none, relu or a form of gelu */
	float act_alpha, act_beta;
};
enum float8_gemm_in { FLOAT8_A, FLOAT8_B, FLOAT8_C, FLOAT8_R, FLOAT8_S, FLOAT8_D };

struct fused_gemm;
/*
 * Returns the reason why an infer::Gemm cannot be computed in float8, or NULL if it can: a is the shape of A, b the
 * shape of B, c the shape of C or NULL. `weight` says whether B is known before the run.
 */
const char *float8_gemm_refusal(const struct fused_gemm *p, const struct shape *a,
				const struct shape *b, const struct shape *c, bool weight);

#endif
