/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_PRODUCT_H
#define GPU_OPS_PRODUCT_H
/* Matrix products and convolutions as both the ONNX operators and the fused ones want them. */
#include "gpu/launch/util.h"
#include "ops/fused.h"
#include "ops/matmul.h"

/* By our own kernel: every type and form. */
bool gpu_product_accepts(const struct site *s, const struct fused_gemm *f, struct why *w);
int gpu_product_reshape(struct site *s, const struct fused_gemm *f, struct step *step, struct diag *d);
int gpu_product_run(const struct call *c);

/* By cuBLASLt, with our own kernel behind it for what the library cannot do after the product. */
bool gpu_library_accepts(const struct site *s, const struct fused_gemm *f, struct why *w);
int gpu_library_reshape(struct site *s, const struct fused_gemm *f, struct step *step, struct diag *d);
int gpu_library_run(const struct call *c);
void gpu_library_drop(struct step *step);

bool gpu_conv_accepts(const struct site *s, struct why *w);
int gpu_conv_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_conv_run(const struct call *c);
void gpu_conv_drop(struct step *step);
#endif
