/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/function.h"

#include <math.h>

/* Macros for the formulas of unary.def: C(v) converts a constant to the type of the computation, here double. */
#define C(v) ((double)(v))
#define HELPER(name, formula)                                                                      \
	static double name(double x)                                                               \
	{                                                                                          \
		return formula;                                                                    \
	}
#define FUNCTION(id, cost, formula)                                                                \
	static double f64_##id(double x, double a, double b)                                       \
	{                                                                                          \
		(void)a;                                                                           \
		(void)b;                                                                           \
		return formula;                                                                    \
	}
#include "ops/unary.def"

double (*const function_f64[VF_COUNT])(double x, double a, double b) = {
#define FUNCTION(id, cost, formula) [VF_##id] = f64_##id,
#include "ops/unary.def"
};

enum { LIGHT, HEAVY };
const bool function_heavy[VF_COUNT] = {
#define FUNCTION(id, cost, formula) [VF_##id] = (cost) == HEAVY,
#include "ops/unary.def"
};

enum vfun act_function(int act)
{
	static const enum vfun map[ACT_COUNT] = {
#define ACTIVATION(id, text, op, nparams, alpha, beta) [ACT_##id] = VF_##id,
#define NAMED_ACTIVATION(id, op, nparams, alpha, beta) [ACT_##id] = VF_##id,
#include "ops/unary.def"
	};
	return map[act];
}

void act_f32(int act, float alpha, float beta, float *y, int64_t n)
{
	const float p[2] = {alpha, beta};

	if (act != ACT_NONE)
		simd()->map[act_function(act)](y, y, n, p);
}

void act_f64(int act, double alpha, double beta, double *y, int64_t n)
{
	for (int64_t i = 0; act != ACT_NONE && i < n; i++)
		y[i] = function_f64[act_function(act)](y[i], alpha, beta);
}
