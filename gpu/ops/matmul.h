/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_MATMUL_H
#define GPU_OPS_MATMUL_H
/*
 * Matrix products for MatMul and Gemm (matmul.c) and for infer::Gemm (fused.c). All of them become a struct fused_gemm.
 */
#include "gpu/launch/util.h"
#include "ops/fused.h"
#include "ops/matmul.h"

/*
 * Describes the product y = act(alpha * op(A) * op(B) + beta * C + R) without its addresses. Returns the reason if our kernels
 * cannot compute it, otherwise NULL.
 */
const char *gpu_gemm_job(const struct site *s, const struct fused_gemm *f, struct gpu_gemm *j);
/* Makes the rows of all batches the rows of one product. Returns false if B is not the same for all of them. */
bool gpu_one_batch(struct gpu_gemm *j);
/* The grid of the kernels gemm_* for it. */
struct gpu_grid gpu_gemm_grid(const struct gpu_gemm *j);

/*
 * Returns weights of `rows` x `cols` elements, input i, transposed; rounded by `round` (gpu_group_rounder), if it is not NULL. The device keeps them,
 * and the step does not read the input any more. NULL with a finding on failure.
 */
const void *gpu_turned_weights(struct site *s, struct step *step, uint32_t i, int64_t rows,
			       int64_t cols, void *round, struct diag *d);

/* With --precision fp8, notes for the report why this product is computed in fp16. */
void gpu_note_wide_product(const struct site *s, const struct fused_gemm *f);

/* Kernels of our own, which support every type and form of product. */
bool gpu_product_accepts(const struct site *s, const struct fused_gemm *f, struct why *w);
int gpu_product_reshape(struct site *s, const struct fused_gemm *f, struct step *step, struct diag *d);
int gpu_product_run(const struct call *c);

/* Products by cuBLASLt. Our epilogue kernel adds what cuBLASLt cannot do after the product. */
bool gpu_library_accepts(const struct site *s, const struct fused_gemm *f, struct why *w);
int gpu_library_reshape(struct site *s, const struct fused_gemm *f, struct step *step, struct diag *d);
int gpu_library_run(const struct call *c);
void gpu_library_drop(struct step *step);

#endif
