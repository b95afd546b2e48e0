/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_GEMV_H
#define GPU_OPS_GEMV_H
/*
 * Products of few rows by one matrix, at the memory's speed: a row of MatMul (matmul.c), Gemm and infer::Gemm (fused.c) before
 * the library's.
 */
#include "gpu/ops/matmul.h"

bool gpu_gemv_accepts(const struct site *s, const struct fused_gemm *f, struct why *w);
int gpu_gemv_reshape(struct site *s, const struct fused_gemm *f, struct step *step, struct diag *d);
int gpu_gemv_run(const struct call *c);
/*
 * Lets the launch that has been written down last multiply its two products, a and b, element by element, in place of writing them, if
 * it can, and nobody but c's step reads them. Each product is rounded before, so that y is the same to the bit. Returns whether it does.
 */
bool gpu_gemv_multiply(const struct call *c, const void *a, const void *b, void *y, int64_t n);

#endif
