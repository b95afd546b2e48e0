/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CUBLASLT_H
#define GPU_LIBRARY_CUBLASLT_H
/*
 * Matrix products by cuBLASLt. Everything is row-major here, as ONNX has it:
 *
 *	y = act(alpha * op(A) * op(B) + beta * R + bias)
 *
 * blaslt_product() prepares a product while a step is planned; the device remembers the algorithm for equal products.
 * blaslt_run() launches it.
 */
#include "gpu/driver/cuda.h"

enum blaslt_act { BLASLT_NONE, BLASLT_RELU, BLASLT_GELU }; /* GELU: the form with tanh */

/* Description of a product. It is compared bytewise: it has no padding, and unused members must be 0. */
struct blaslt_job {
	int32_t type; /* enum dtype of a, b, r, bias: f32, f16, bf16, f64; i8 with y and r i32 */
	int32_t tf32; /* f32 may be rounded to tf32 on its way in */
	int32_t trans_a, trans_b; /* a is stored as [k,m]; b as [n,k] */
	int32_t bias, residual;	  /* bias: n elements, added to each row; residual: R is read */
	int32_t act, align;	  /* align: alignment of all pointers in bytes; 0: 64 */
	int64_t m, n, k;
	int64_t lda, ldb, ldr, ldy; /* elements from one stored row to the next */
	/* steps: elements from one batch to the next; 0: all batches share one matrix */
	int64_t batch, step_a, step_b, step_r, step_y;
	double alpha, beta;
};

/* Whether cuBLASLt can compute the product; if not, why: it is missing or has no algorithm. */
bool blaslt_takes(const struct site *s, const struct blaslt_job *j, struct why *why);

/* Microseconds that the product took when its algorithm was chosen; 0: it was not timed. */
double blaslt_us(const struct site *s, const struct blaslt_job *j);

struct blaslt_product;
/* Prepares a product, in the plan's arena. *workspace: bytes that blaslt_run needs. NULL with a finding. */
struct blaslt_product *blaslt_product(const struct site *s, const struct blaslt_job *j,
				      size_t *workspace, struct diag *d);
void blaslt_drop(struct blaslt_product *p); /* NULL: nothing */

struct blaslt_args {
	const void *a, *b, *bias, *r;
	void *y, *workspace;
	size_t workspace_bytes;
};
int blaslt_run(const struct call *c, const struct blaslt_product *p, const struct blaslt_args *x);

#endif
