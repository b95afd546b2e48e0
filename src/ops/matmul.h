/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_MATMUL_H
#define OPS_MATMUL_H
#include "ops/op.h"

/* .variant of the rows: which params struct the node has. */
enum { PRODUCT_MATMUL, PRODUCT_GEMM, PRODUCT_FUSED_MATMUL, PRODUCT_TRANSPOSE_MATMUL };

struct gemm_params {
	float alpha, beta;
	int64_t transA, transB;
	int64_t broadcast; /* Gemm-1 and -6 only: C broadcasts anyway */
};

/* com.microsoft::FusedGemm */
struct fused_gemm_params {
	struct gemm_params gemm;
	const char *activation;
	float activation_alpha, activation_beta, activation_gamma;
};

/* com.microsoft::FusedMatMul, TransposeMatMul: alpha * op(A) * op(B) */
struct fused_matmul {
	float alpha;
	int64_t transA, transB, transBatchA, transBatchB;
};

struct einsum {
	const char *equation;
};

/*
 * A product as strides: for each of `batch` dims and for rows, columns and depth, in elements.
 * Vectors are matrices of one row or column, which the output then lacks.
 */
struct matmul_shape {
	struct shape out; /* as the node gives it */
	int nbatch;
	int64_t batch[MAX_RANK], a_batch[MAX_RANK], b_batch[MAX_RANK];
	int64_t m, n, k;
	int64_t a_row, a_col, b_row, b_col;
};
/* false where they do not fit. Dims may be unknown: then only out (and m, n, k) mean something. */
bool matmul_shape(const struct shape *a, const struct shape *b, const struct fused_matmul *f,
		  struct matmul_shape *s);

/*
 * An Einsum equation over operands of known rank. Labels are 0..nlabels-1; the broadcast dims of
 * an ellipsis are labels too, aligned at their end.
 */
enum { EINSUM_LABELS = 64, EINSUM_OPERANDS = 32 };
struct einsum_plan {
	int noperands, nlabels, nout;
	int rank[EINSUM_OPERANDS];
	int8_t label[EINSUM_OPERANDS][MAX_RANK]; /* of each dim of each operand */
	int8_t out[MAX_RANK];
};
/* NULL or what is wrong. */
const char *einsum_parse(const char *equation, int noperands, const int *rank,
			 struct einsum_plan *p, struct diag *d);

#endif
