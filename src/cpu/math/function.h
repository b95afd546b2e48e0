/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_FUNCTION_H
#define CPU_MATH_FUNCTION_H
/* The functions of ops/unary.def for double (simd()->map has them for float), and activations of dense arrays. */
#include "cpu/math/simd.h"
#include "ops/activation.h"

/* Indexed by enum vfun: returns f(x) with the function's parameters a and b. */
extern double (*const function_f64[VF_COUNT])(double x, double a, double b);
/* Indexed by enum vfun: true if the function is expensive, so that a thread gets GRAIN_HEAVY elements, not GRAIN. */
extern const bool function_heavy[VF_COUNT];

/*
 * Returns the function that computes an activation other than ACT_NONE. The function's parameters a and b are the
 * activation's alpha and beta.
 */
enum vfun act_function(int act);
/* Apply the activation to n elements in place. */
void act_f32(int act, float alpha, float beta, float *y, int64_t n);
void act_f64(int act, double alpha, double beta, double *y, int64_t n);

#endif
