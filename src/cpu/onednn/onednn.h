/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ONEDNN_ONEDNN_H
#define CPU_ONEDNN_ONEDNN_H
/*
 * The door to oneDNN: nothing but onednn*.c includes its headers or names its symbols. libdnnl is opened
 * when the first kernel asks whether it can; where it is missing, or the build had no headers of
 * it, every kernel here refuses and the reference rows behind them run.
 *
 * A step of oneDNN is a small program (primitives, conversions, copies), made in reshape and run
 * by onednn_run. A kernel row is made of one of the macros below:
 *
 *   {"Conv", T_F32 | T_F16 | T_BF16, ONEDNN(conv)},
 */
#include "backend/backend.h"

#define ONEDNN(what)                                                                               \
	.accepts = onednn_##what##_accepts, .reshape = onednn_##what##_reshape, .run = onednn_run, \
	.drop = onednn_drop

/* Whether libdnnl can be used here; why not is said. */
bool onednn_usable(struct why *w);
/* "oneDNN 3.2.0 (AVX-512 ...)" or why there is none. */
const char *onednn_about(void);

bool onednn_conv_accepts(const struct site *s, struct why *w); /* Conv */
int onednn_conv_reshape(struct site *s, struct step *step, struct diag *d);
bool onednn_deconv_accepts(const struct site *s, struct why *w); /* ConvTranspose */
int onednn_deconv_reshape(struct site *s, struct step *step, struct diag *d);
bool onednn_fused_conv_accepts(const struct site *s, struct why *w); /* infer::Conv */
int onednn_fused_conv_reshape(struct site *s, struct step *step, struct diag *d);
bool onednn_gemm_accepts(const struct site *s, struct why *w); /* Gemm */
int onednn_gemm_reshape(struct site *s, struct step *step, struct diag *d);
bool onednn_matmul_accepts(const struct site *s, struct why *w); /* MatMul */
int onednn_matmul_reshape(struct site *s, struct step *step, struct diag *d);
bool onednn_fused_gemm_accepts(const struct site *s, struct why *w); /* infer::Gemm */
int onednn_fused_gemm_reshape(struct site *s, struct step *step, struct diag *d);
/* MaxPool (without indices), AveragePool, GlobalMaxPool, GlobalAveragePool */
bool onednn_pool_accepts(const struct site *s, struct why *w);
int onednn_pool_reshape(struct site *s, struct step *step, struct diag *d);

int onednn_run(const struct call *c);
void onednn_drop(struct step *step);

#endif
