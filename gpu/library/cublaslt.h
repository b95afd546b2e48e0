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

/*
 * Bytes to whose multiples operands are aligned. cuBLASLt is told so; kernels of our own and cuDNN's need 16, as they read as many bytes at a time or have
 * the copy engine do it.
 */
enum { BLASLT_ALIGN = 64 };

enum blaslt_act { BLASLT_NONE, BLASLT_RELU, BLASLT_GELU }; /* GELU: the form with tanh */

/* Description of a product. It is compared bytewise: it has no padding, and unused members must be 0. */
struct blaslt_job {
	/* enum dtype of a, b, r and bias: f32, f16, bf16 or f64; i8 if y and r are i32; f8e4m3fn, see `out` */
	int32_t type;
	/*
	 * out: enum dtype of y if a and b are f8e4m3fn, otherwise 0. r and bias have it, too; they are f16 if it is f8e4m3fn.
	 * scaled: the product is multiplied by *blaslt_args.s. A y of f8e4m3fn is multiplied by *blaslt_args.d.
	 */
	int32_t out, scaled;
	int32_t tf32; /* f32 operands may be rounded to tf32 before they are multiplied */
	/* trans_a: a is stored as [k,m]; trans_b: b is stored as [n,k] */
	int32_t trans_a, trans_b;
	int32_t b_is_weight; /* b is the same in all runs: it comes from memory in each, which trials imitate */
	int32_t bias, residual; /* bias: n elements, added to each row; residual: R is read */
	/* align: bytes to which all pointers are aligned; 0 stands for BLASLT_ALIGN */
	int32_t act, align;
	int64_t m, n, k;
	int64_t lda, ldb, ldr, ldy; /* elements from one stored row to the next */
	/* steps: elements from one batch to the next, or 0 if all batches share one matrix */
	int64_t batch, step_a, step_b, step_r, step_y;
	double alpha, beta;
};

/*
 * Returns whether cuBLASLt can compute the product. If it cannot, *why says whether cuBLASLt is missing or has no
 * algorithm.
 */
bool blaslt_takes(const struct site *s, const struct blaslt_job *j, struct why *why);

/* Returns the microseconds that the product took when its algorithm was chosen, or 0 if the product was not timed. */
double blaslt_us(const struct site *s, const struct blaslt_job *j);

struct blaslt_product;
/*
 * Prepares a product in the plan's arena. *workspace gets the number of bytes that blaslt_run() needs. Returns NULL
 * with a finding on failure.
 */
struct blaslt_product *blaslt_product(const struct site *s, const struct blaslt_job *j,
				      size_t *workspace, struct diag *d);
void blaslt_drop(struct blaslt_product *p); /* does nothing if p is NULL */

struct blaslt_args {
	const void *a, *b, *bias, *r;
	void *y, *workspace;
	size_t workspace_bytes;
	const float *s, *d; /* on the device, for f8e4m3fn */
	float scale;	    /* a factor of the product beside alpha; 0 stands for 1 */
};
int blaslt_run(const struct call *c, const struct blaslt_product *p, const struct blaslt_args *x);

#endif
