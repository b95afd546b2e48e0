/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_DECONV_H
#define GPU_OPS_DECONV_H
/* Entries of ConvTranspose, DeformConv and CausalConvWithState for gpu_conv[], the table of kernels in conv.c. */
#include "gpu/launch/util.h"

#define GPU_DECONV_OP(how)                                                                         \
	int gpu_##how##_reshape(struct site *s, struct step *step, struct diag *d);                \
	int gpu_##how##_run(const struct call *c)
GPU_DECONV_OP(transposed);
GPU_DECONV_OP(deform);
GPU_DECONV_OP(causal);
bool gpu_transposed_accepts(const struct site *s, struct why *w);
bool gpu_deform_accepts(const struct site *s, struct why *w);
void gpu_transposed_drop(struct step *step);

#define GPU_DECONV_ROWS                                                                            \
	{.op = "ConvTranspose",                                                                    \
	 .types = T_FLOATING,                                                                      \
	 .accepts = gpu_transposed_accepts,                                                        \
	 .reshape = gpu_transposed_reshape,                                                        \
	 .run = gpu_transposed_run,                                                                \
	 .drop = gpu_transposed_drop},                                                             \
		{.op = "DeformConv",                                                               \
		 .types = T_FLOATING,                                                              \
		 .accepts = gpu_deform_accepts,                                                    \
		 .reshape = gpu_deform_reshape,                                                    \
		 .run = gpu_deform_run},                                                           \
		GPU_CAUSAL_ROW("CausalConvWithState"),                                             \
		GPU_CAUSAL_ROW("com.microsoft::CausalConvWithState")
#define GPU_CAUSAL_ROW(name)                                                                       \
	{                                                                                          \
		.op = (name), .types = T_F32 | T_F16 | T_BF16, .reshape = gpu_causal_reshape,      \
		.run = gpu_causal_run                                                              \
	}

#endif
