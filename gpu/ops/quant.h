/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_QUANT_H
#define GPU_OPS_QUANT_H
/* Facts of a quantized product or convolution, for its plain kernels (quant.c) and for those on tensor cores (int8.c). */
#include "gpu/launch/job.h"
#include "ops/matmul.h"

/* The numbers of the inputs that are the node's operands, scales and zero points; -1: none. */
struct gpu_qslots gpu_quant_slots(const struct site *s);
/* Sizes and strides of the product; false if the shapes do not match. */
bool gpu_quant_shape(const struct site *s, struct gpu_qslots q, struct matmul_shape *m);
/* Fills the window, right-aligned in GPU_SPACE dimensions, and the sizes of a convolution; returns why not, or NULL. */
const char *gpu_quant_conv(const struct site *s, struct gpu_int_conv *j);
/* Number of elements of each input, 0 if there is none; count: GPU_IN numbers. */
void gpu_quant_counts(const struct site *s, int64_t *count);
/* The product's factor, and the strides of rows and columns of what is added to it. */
void gpu_quant_finish(const struct site *s, struct gpu_qslots q, float *alpha, int64_t *add_row,
		      int64_t *add_col);

#endif
