/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_FUNCTION_H
#define CPU_MATH_FUNCTION_H
/* The functions of ops/unary.def in double, and activations over dense runs. In float they are simd()->map. */
#include "cpu/math/simd.h"
#include "ops/activation.h"

/* By enum vfun: y = f(x) with the parameters a and b. */
extern double (*const function_f64[VF_COUNT])(double x, double a, double b);
/* By enum vfun: whether GRAIN_HEAVY elements are worth a thread, else GRAIN. */
extern const bool function_heavy[VF_COUNT];

/* The function that an activation is; its parameters are alpha and beta. Not for ACT_NONE. */
enum vfun act_function(int act);
/* The activation of n elements, in place. */
void act_f32(int act, float alpha, float beta, float *y, int64_t n);
void act_f64(int act, double alpha, double beta, double *y, int64_t n);

#endif
