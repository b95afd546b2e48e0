/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LIBRARY_CUBLASLT_H
#define GPU_LIBRARY_CUBLASLT_H
/*
 * Matrix products by cuBLASLt. Everything is row-major here, as ONNX has it:
 *
 *	y = act(alpha * op(A) * op(B) + beta * R + bias)
 *
 * A product is prepared while a plan is made (the library's first choice of an algorithm, remembered
 * by the device for equal products) and launched by blaslt_run.
 */
#include "gpu/driver/cuda.h"

enum blaslt_act { BLASLT_NONE, BLASLT_RELU, BLASLT_GELU }; /* GELU: the form with tanh */

/* Plain numbers, no padding that is not cleared: it is its own key. */
struct blaslt_job {
	int32_t type; /* enum dtype of a, b, r, bias: f32, f16, bf16, f64; i8 with y and r i32 */
	int32_t tf32; /* f32 may be rounded to tf32 on its way in */
	int32_t trans_a, trans_b; /* a is stored as [k,m]; b as [n,k] */
	int32_t bias, residual;	  /* bias: n elements, added to each row; residual: R is read */
	int32_t act, align;	  /* align: bytes that all pointers are a multiple of; 0: of 64 */
	int64_t m, n, k;
	int64_t lda, ldb, ldr, ldy; /* elements from one stored row to the next */
	int64_t batch, step_a, step_b, step_r, step_y; /* elements; a step of 0 repeats */
	double alpha, beta;
};

/* Whether the library takes it; else why not (it is missing, or has no algorithm). */
bool blaslt_takes(const struct site *s, const struct blaslt_job *j, struct why *why);

/* Microseconds that it was measured to take when its algorithm was chosen; 0: it was not measured. */
double blaslt_us(const struct site *s, const struct blaslt_job *j);

struct blaslt_product;
/* Prepared, in the plan's arena. *workspace: the bytes that blaslt_run wants. NULL with a finding. */
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
