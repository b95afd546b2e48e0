/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_PRODUCT_H
#define CPU_PRODUCT_H
/*
 * Products of fp32 matrices with constant weights, by our own blocked product (cpu/math/gemm.h). The weights are packed
 * once a session; bias, activation and residual are applied to each block while it is in the cache. On machines with
 * AVX-512 oneDNN is faster with many rows, and these kernels then refuse unless there is no oneDNN.
 *
 *   {"Gemm", T_F32, PRODUCT(gemm)},
 */
#include "backend/backend.h"

#define PRODUCT(what)                                                                              \
	.accepts = product_##what##_accepts, .reshape = product_##what##_reshape, .run = product_run

bool product_matmul_accepts(const struct site *s, struct why *w); /* MatMul */
int product_matmul_reshape(struct site *s, struct step *step, struct diag *d);
bool product_gemm_accepts(const struct site *s, struct why *w); /* Gemm */
int product_gemm_reshape(struct site *s, struct step *step, struct diag *d);
bool product_fused_gemm_accepts(const struct site *s, struct why *w); /* infer::Gemm */
int product_fused_gemm_reshape(struct site *s, struct step *step, struct diag *d);
/* infer::Conv with a kernel of one element, where convolutions have the channels last */
bool product_fused_conv_accepts(const struct site *s, struct why *w);
int product_fused_conv_reshape(struct site *s, struct step *step, struct diag *d);
int product_run(const struct call *c);
/* infer::Conv of any window, where oneDNN is slow, or slow to generate its code */
bool product_runs_accepts(const struct site *s, struct why *w);
int product_runs_reshape(struct site *s, struct step *step, struct diag *d);

#endif
