/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_ACTIVATE_H
#define CPU_MATH_ACTIVATE_H
/* The activations of fused operators (enum act of ops/fused.h) over dense runs, in place. */
#include "cpu/math/simd.h"

void act_f32(int act, float alpha, float beta, float *y, int64_t n);
void act_f64(int act, double alpha, double beta, double *y, int64_t n);
/* The vector function that an activation is; its parameters are alpha and beta. */
enum vfun act_function(int act);

#endif
