/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_CONV_H
#define GPU_OPS_CONV_H
/*
 * Kernels for Conv (listed in the table of conv.c) and for infer::Conv (in the table of fused.c), which also has an
 * activation and a residual.
 */
#include "gpu/launch/util.h"

bool gpu_conv_accepts(const struct site *s, struct why *w);
int gpu_conv_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_conv_run(const struct call *c);
void gpu_conv_drop(struct step *step);

#endif
