/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_ONEDNN_ONEDNN_H
#define CPU_ONEDNN_ONEDNN_H
/*
 * Kernels that use oneDNN. Only the files in src/cpu/onednn/ include oneDNN's headers or use its symbols.
 * libdnnl is opened when the first kernel checks whether it accepts a node. If libdnnl is missing, or its
 * headers were missing at build time, every kernel here refuses its node and a later row of the kernel table
 * runs the node.
 *
 * A step of oneDNN is a small program (primitives, conversions, copies), built in reshape and run
 * by onednn_run. The macro ONEDNN fills a row of the kernel table:
 *
 *   {"Conv", T_F32 | T_F16 | T_BF16, ONEDNN(conv)},
 */
#include "backend/backend.h"

#define ONEDNN(what)                                                                               \
	.accepts = onednn_##what##_accepts, .reshape = onednn_##what##_reshape, .run = onednn_run, \
	.drop = onednn_drop

/* Returns whether libdnnl can be used on this machine; if not, *w says why. */
bool onednn_usable(struct why *w);
/*
 * Returns the version and path of libdnnl, such as "oneDNN 3.2.0 (libdnnl.so.3)", or the reason why libdnnl cannot be
 * used.
 */
const char *onednn_about(void);

bool onednn_conv_accepts(const struct site *s, struct why *w); /* Conv */
int onednn_conv_reshape(struct site *s, struct step *step, struct diag *d);
bool onednn_qconv_accepts(const struct site *s, struct why *w); /* QLinearConv */
int onednn_qconv_reshape(struct site *s, struct step *step, struct diag *d);
/* Whether oneDNN multiplies its bytes by VNNI. Its inputs but the first are known. */
bool onednn_qconv_of_bytes(const struct site *s);
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
