/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_FLEX_ATTENTION_H
#define GPU_OPS_FLEX_ATTENTION_H
/* The kernel of FlexAttention (ai.onnx.preview), which is listed in the kernel table of attention.c. */
#include "gpu/launch/util.h"

bool gpu_flex_accepts(const struct site *s, struct why *w);
int gpu_flex_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_flex_run(const struct call *c);

#endif
