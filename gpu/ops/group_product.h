/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_OPS_GROUP_PRODUCT_H
#define GPU_OPS_GROUP_PRODUCT_H
/*
 * Products of 32 rows and more by kernels of our own for compute capability 9.0 (gpu/kernels/group_product.cu), in float16, bfloat16,
 * TF32 and float8e4m3fn. A product of matmul.c, or infer::GemmFloat8, uses them in place of cuBLASLt where they were measured to be faster.
 */
#include "gpu/ops/matmul.h"

struct group_product;
/*
 * Returns the product in the plan's arena. NULL if device, types, sizes or layouts do not suit, if it takes no less than library_us
 * microseconds, or if there was no time to measure it or no memory for transposed weights. library_us is 0 if there is no
 * library to compare with; then the product is taken unmeasured.
 */
struct group_product *gpu_group_product(struct site *s, struct step *step,
					const struct fused_gemm *f, double library_us);
int gpu_group_product_run(const struct call *c, const struct group_product *p);

#endif
