/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_INT8_H
#define GPU_OPS_INT8_H
/*
 * Products and convolutions of 8-bit integers on the tensor cores, with exact 32-bit sums. Either a kernel of ours
 * computes, scales and rounds in one launch, or cuBLASLt computes and our epilogue kernel scales: whichever was measured to
 * be faster. Weights are packed once a session. A zero point is accounted for by the row sums of the other operand.
 */
#include "gpu/launch/job.h"
#include "ops/matmul.h"

/* Which inputs the node's operands, scales and zero points are. */
struct gpu_qslots gpu_quant_slots(const struct site *s);
/* The product as strides; false where shapes do not fit. */
bool gpu_quant_shape(const struct site *s, struct gpu_qslots q, struct matmul_shape *m);
/* A convolution's window, right-aligned in GPU_SPACE dimensions; what is wrong, or NULL. */
const char *gpu_quant_conv(const struct site *s, struct gpu_int_conv *j);
/* Elements of each input. */
void gpu_quant_counts(const struct site *s, int64_t *count);
/* Factor of the product, and the steps of what is added to it. */
void gpu_quant_finish(const struct site *s, struct gpu_qslots q, float *alpha, int64_t *add_row,
		      int64_t *add_col);

bool gpu_int8_product_accepts(const struct site *s, struct why *w);
int gpu_int8_product_reshape(struct site *s, struct step *step, struct diag *d);
bool gpu_int8_conv_accepts(const struct site *s, struct why *w);
int gpu_int8_conv_reshape(struct site *s, struct step *step, struct diag *d);
int gpu_int8_run(const struct call *c);
void gpu_int8_drop(struct step *step);

#endif
