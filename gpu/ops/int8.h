/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_INT8_H
#define GPU_OPS_INT8_H
/*
 * Products and convolutions of 8-bit integers on the tensor cores, with exact 32-bit sums. Either a kernel of ours
 * computes, scales and rounds in one launch, or cuBLASLt computes and our epilogue kernel scales: whichever was measured to
 * be faster. Weights are packed once a session. A zero point is accounted for by the row sums of the other operand.
 */
#include "gpu/launch/job.h"

bool gpu_int8_product_accepts(const struct site *s, struct why *w);
int gpu_int8_product_reshape(struct site *s, struct step *step, struct diag *d);
bool gpu_int8_conv_accepts(const struct site *s, struct why *w);
int gpu_int8_conv_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_int8_run(const struct call *c);
void gpu_int8_drop(struct step *step);

#endif
