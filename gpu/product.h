/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_PRODUCT_H
#define GPU_PRODUCT_H
/* Matrix products and convolutions as both the ONNX operators and the fused ones want them. */
#include "gpu/util.h"
#include "ops/fused.h"
#include "ops/matmul.h"

struct gpu_product {
	void *fn;
	struct gpu_gemm job;
};
bool gpu_product_accepts(const struct site *s, const struct fused_gemm *f, struct why *w);
int gpu_product_reshape(struct site *s, const struct fused_gemm *f, struct step *step, struct diag *d);
int gpu_product_run(const struct call *c);

bool gpu_conv_accepts(const struct site *s, struct why *w);
int gpu_conv_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_conv_run(const struct call *c);
#endif
