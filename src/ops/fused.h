/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_FUSED_H
#define OPS_FUSED_H
/*
 * Operators of the domain "infer", which only the optimizer creates. On fp16 and bf16 they compute in fp32 and
 * round the result once.
 */
#include "ops/activation.h"
#include "ops/op.h"

/* "SAME_UPPER" pads more at the end, "SAME_LOWER" at the begin; "NOTSET" uses the attribute pads. */
enum fused_pad { FUSED_NOTSET, FUSED_SAME_UPPER, FUSED_SAME_LOWER, FUSED_VALID };

/*
 * infer::Conv(X, W, B?, R?) -> Y: Y = act(Conv(X, W) + B + R).
 * X [N,C,spatial...], W [M,C/group,kernel...], B [M], R has the shape of Y.
 * The first fields are those of ONNX's Conv and mean the same; absent lists have n = -1.
 */
struct fused_conv {
	int auto_pad; /* enum fused_pad */
	struct ints dilations, kernel_shape, pads, strides;
	int64_t group;
	int act; /* the activation (enum act) that is applied to the result */
	float act_alpha, act_beta;
};

/*
 * infer::Gemm(A, B, C?, R?) -> Y: Y = act(alpha * op(A) * op(B) + beta * C + R).
 * A [...,M,K] or [K], B [...,K,N] or [K], batch dims broadcast as in MatMul; transA and transB
 * swap the last two dims first. C broadcasts to Y (most often [N]); R has the shape of Y.
 */
struct fused_gemm {
	float alpha, beta;
	int64_t transA, transB;
	int act; /* the activation (enum act) that is applied to the result */
	float act_alpha, act_beta;
};

/*
 * infer::Attention(Q, K?, V?, mask?) -> Y: Y = softmax(scale * Q K^T + mask) V per head.
 * Q, K, V: each of rank 3 [B,S,H*D] (heads side by side) or of rank 4 [B,H,S,D].
 * If K and V are left out, Q is packed: rank 3 [B,S,3*H*D], first all of q, then k, then v.
 * If kv_heads is below num_heads, query head h uses kv head h / (num_heads / kv_heads).
 * mask broadcasts to [B,H,S,T]. A mask of type T is added to the scores; in a bool mask, false
 * hides the key (-infinity).
 * A query whose keys are all hidden gives NaN, or 0 with `safe`.
 * causal = 1 lets query i see only keys j <= i, causal = 2 only keys j <= i + (T - S).
 * With k_transposed, K is [B,H,D,T] (rank 4 only).
 * Y has rank 3 [B,S,H*Dv] if `merged`, otherwise rank 4 [B,H,S,Dv].
 * infer::AttentionFloat8, for --precision fp8 (ops/float8.h), divides Y by `y_scale` and rounds it to float8.
 */
struct fused_attention {
	int64_t num_heads, kv_heads; /* kv_heads 0: num_heads */
	float scale, y_scale;	     /* y_scale: 0 in infer::Attention */
	int64_t causal, k_transposed, merged, safe;
};

/*
 * infer::AddLayerNorm(X, R, Scale, B?) -> Y, S?: S = X + R; Y = LayerNormalization(S) * Scale + B
 * over the last dimension. X and R have one shape.
 */
struct fused_addnorm {
	float epsilon;
};

/*
 * infer::Pointwise(in...) -> out...: a program in single-assignment form over inputs that
 * broadcast; every output has the broadcast shape of all inputs and the type of the inputs.
 * Computed in fp32 (fp64 for f64). code has four numbers for each instruction, {op, a, b, c}; a, b, c are numbers of
 * earlier instructions, except
 *   PW_INPUT: a is the number of the input.
 *   PW_CONST: a is an index into consts.
 *   PW_NEG to PW_COS take a alone.
 *   PW_ACT: applies the activation b (enum act) to a; consts[c] is alpha, consts[c + 1] is beta.
 * outs[i] is the instruction that computes output i.
 * expr is the program as text for people, "out0 = relu(in0 + in1)".
 */
enum pw_op {
#define INSTRUCTION(id) PW_##id,
#include "ops/pointwise.def"
	PW_COUNT
};
enum { PW_MAX_CODE = 64, PW_MAX_IN = 16, PW_MAX_OUT = 4 };

struct fused_pointwise {
	struct ints code;     /* 4 * number of instructions */
	struct floats consts; /* values of PW_CONST, and alpha and beta of PW_ACT */
	struct ints outs;
	const char *expr;
};

#endif
