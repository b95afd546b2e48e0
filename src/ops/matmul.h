/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_MATMUL_H
#define OPS_MATMUL_H
#include "ops/op.h"

/* The .variant of a row says which params struct the node has. */
enum { PRODUCT_MATMUL, PRODUCT_GEMM, PRODUCT_FUSED_MATMUL, PRODUCT_TRANSPOSE_MATMUL };

struct gemm_params {
	float alpha, beta;
	int64_t transA, transB;
	int64_t broadcast; /* attribute of Gemm-1 and Gemm-6; not used, since C broadcasts whenever it can */
};

/* com.microsoft::FusedGemm */
struct fused_gemm_params {
	struct gemm_params gemm;
	const char *activation;
	float activation_alpha, activation_beta, activation_gamma;
};

/* com.microsoft::FusedMatMul and TransposeMatMul: alpha * op(A) * op(B), where op may transpose */
struct fused_matmul {
	float alpha;
	int64_t transA, transB, transBatchA, transBatchB;
};

struct einsum {
	const char *equation;
};

/*
 * A matrix product [m, k] x [k, n], repeated over nbatch batch dims, with all strides in elements (0 along a
 * dimension that is broadcast). A vector counts as a matrix of one row or column; the output lacks that dimension.
 */
struct matmul_shape {
	struct shape out; /* shape of the node's output */
	int nbatch;
	int64_t batch[MAX_RANK], a_batch[MAX_RANK], b_batch[MAX_RANK];
	int64_t m, n, k;
	int64_t a_row, a_col, b_row, b_col;
};
/*
 * Fills *s; returns false if a and b do not fit. If dims are unknown, only out, m, n and k of *s are valid. f is NULL
 * for a plain MatMul.
 */
bool matmul_shape(const struct shape *a, const struct shape *b, const struct fused_matmul *f,
		  struct matmul_shape *s);

/*
 * A parsed Einsum equation over operands of known rank. Each letter has a label, a number below nlabels. Each dim of
 * an ellipsis has a label, too; the ellipses of several operands are aligned at the end, as in broadcasting.
 */
enum { EINSUM_LABELS = 64, EINSUM_OPERANDS = 32 };
struct einsum_plan {
	int noperands, nlabels, nout;
	int rank[EINSUM_OPERANDS];
	int8_t label[EINSUM_OPERANDS][MAX_RANK]; /* label of each dim of each operand */
	int8_t out[MAX_RANK];
};
/*
 * Fills *p from the equation and the ranks of the operands. Returns NULL, or a text in the arena of d that says what
 * is wrong.
 */
const char *einsum_parse(const char *equation, int noperands, const int *rank,
			 struct einsum_plan *p, struct diag *d);

#endif
