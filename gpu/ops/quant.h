/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_QUANT_H
#define GPU_OPS_QUANT_H
/*
 * Properties of a quantized product or convolution, for its plain kernels (quant.c) and for the kernels on tensor cores
 * (int8.c).
 */
#include "gpu/launch/job.h"
#include "ops/matmul.h"

/*
 * Returns the indices of the inputs that are the node's operands, scales and zero points; -1 stands for a missing
 * input.
 */
struct gpu_qslots gpu_quant_slots(const struct site *s);
/* Sets the sizes and strides of the product. Returns false if the shapes do not match. */
bool gpu_quant_shape(const struct site *s, struct gpu_qslots q, struct matmul_shape *m);
/*
 * Fills in the sizes of a convolution and its window, right-aligned in GPU_SPACE dimensions. Returns the reason on
 * failure, otherwise NULL.
 */
const char *gpu_quant_conv(const struct site *s, struct gpu_int_conv *j);
/*
 * Sets count[i] to the number of elements of input i, or to 0 if the node does not have it. count holds GPU_IN numbers.
 */
void gpu_quant_counts(const struct site *s, int64_t *count);
/* Sets the factor of the product, and the row and column strides of the matrix that is added to the product. */
void gpu_quant_finish(const struct site *s, struct gpu_qslots q, float *alpha, int64_t *add_row,
		      int64_t *add_col);

#endif
