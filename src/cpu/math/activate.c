/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/activate.h"

#include "ops/fused.h"

#include <math.h>

enum vfun act_function(int act)
{
	static const enum vfun map[ACT_COUNT] = {
		[ACT_RELU] = VF_RELU,
		[ACT_CLIP] = VF_CLIP,
		[ACT_SIGMOID] = VF_SIGMOID,
		[ACT_SILU] = VF_SWISH,
		[ACT_HARDSIGMOID] = VF_HARDSIGMOID,
		[ACT_HARDSWISH] = VF_HARDSWISH,
		[ACT_GELU] = VF_GELU,
		[ACT_GELU_TANH] = VF_GELU_TANH,
		[ACT_TANH] = VF_TANH,
		[ACT_LEAKYRELU] = VF_LEAKYRELU,
		[ACT_ELU] = VF_ELU,
		[ACT_SOFTPLUS] = VF_SOFTPLUS,
		[ACT_MISH] = VF_MISH,
	};
	return map[act];
}

void act_f32(int act, float alpha, float beta, float *y, int64_t n)
{
	const float p[2] = {alpha, beta};
	if (act != ACT_NONE)
		simd()->map[act_function(act)](y, y, n, p);
}

static double sigmoid(double v)
{
	return 1 / (1 + exp(-v));
}

static double softplus(double v)
{
	return v > 0 ? v + log1p(exp(-v)) : log1p(exp(v));
}

static double gelu_tanh(double v)
{
	return v * 0.5 * (1 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
}

static double clip(double v, double lo, double hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

static double act_one(int act, double a, double b, double v)
{
	switch (act) {
	case ACT_RELU: return v < 0 ? 0 : v;
	case ACT_CLIP: return clip(v, a, b);
	case ACT_SIGMOID: return sigmoid(v);
	case ACT_SILU: return v * sigmoid(a * v);
	case ACT_HARDSIGMOID: return clip(a * v + b, 0, 1);
	case ACT_HARDSWISH: return v * clip(a * v + b, 0, 1);
	case ACT_GELU: return v * 0.5 * (1 + erf(v * 0.70710678118654752440));
	case ACT_GELU_TANH: return gelu_tanh(v);
	case ACT_TANH: return tanh(v);
	case ACT_LEAKYRELU: return v < 0 ? a * v : v;
	case ACT_ELU: return v < 0 ? a * expm1(v) : v;
	case ACT_SOFTPLUS: return softplus(v);
	case ACT_MISH: return v * tanh(softplus(v));
	default: return v;
	}
}

void act_f64(int act, double alpha, double beta, double *y, int64_t n)
{
	for (int64_t i = 0; act != ACT_NONE && i < n; i++)
		y[i] = act_one(act, alpha, beta, y[i]);
}
