/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_INT8_H
#define GPU_OPS_INT8_H
/*
 * Products and convolutions of 8-bit integers on tensor cores, with exact 32-bit sums. Either a kernel of ours
 * computes, scales and rounds in one launch, or cuBLASLt computes the sums and our epilogue kernel scales them. The
 * faster of the two is chosen by measurement. Weights are packed once for each session. Zero points are accounted for
 * by the row sums of the other operand.
 */
#include "gpu/launch/job.h"

bool gpu_int8_product_accepts(const struct site *s, struct why *w);
int gpu_int8_product_reshape(struct site *s, struct step *step, struct diag *d);
bool gpu_int8_conv_accepts(const struct site *s, struct why *w);
int gpu_int8_conv_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_int8_run(const struct call *c);
void gpu_int8_drop(struct step *step);

#endif
