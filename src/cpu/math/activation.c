/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/math/activation.h"

#include "cpu/math/simd.h"

#include <math.h>
#include <strings.h>

static const struct {
	const char *name;
	enum vfun fun;
	float p[2]; /* defaults */
	int count;  /* of parameters */
} acts[] = {
	{"Relu", VF_RELU, {0, 0}, 0},
	{"Tanh", VF_TANH, {0, 0}, 0},
	{"Sigmoid", VF_SIGMOID, {0, 0}, 0},
	{"Affine", VF_AFFINE, {1, 0}, 2},
	{"LeakyRelu", VF_LEAKYRELU, {0.01f, 0}, 1},
	{"ThresholdedRelu", VF_THRESHOLDEDRELU, {1, 0}, 1},
	{"HardSigmoid", VF_HARDSIGMOID, {0.2f, 0.5f}, 2},
	{"Elu", VF_ELU, {1, 0}, 1},
	{"Softsign", VF_SOFTSIGN, {0, 0}, 0},
	{"Softplus", VF_SOFTPLUS, {0, 0}, 0},
	{"Clip", VF_CLIP, {-INFINITY, INFINITY}, 2},
	{"HardSwish", VF_HARDSWISH, {1.0f / 6, 0.5f}, 2},
	{"ScaledTanh", VF_COUNT, {1, 1}, 2}, /* alpha * tanh(beta * x) */
	{"Gelu", VF_GELU, {0, 0}, 0},
	{"Swish", VF_SWISH, {1, 0}, 1},
};
enum { NACTS = sizeof(acts) / sizeof(*acts) };

static int find(const char *name)
{
	int k = 0;

	while (k < NACTS && strcasecmp(name, acts[k].name))
		k++;
	return k;
}

bool activation_known(const char *name)
{
	return !name || !*name || find(name) < NACTS;
}

int activation_params(const char *name)
{
	int k = find(name);

	return k < NACTS ? acts[k].count : -1;
}

struct activation activation_of(const char *name, float alpha, float beta)
{
	struct activation a = {.kind = name && *name ? find(name) : -1};

	if (a.kind >= NACTS)
		a.kind = -1;
	if (a.kind >= 0) {
		a.alpha = isnan(alpha) ? acts[a.kind].p[0] : alpha;
		a.beta = isnan(beta) ? acts[a.kind].p[1] : beta;
	}
	return a;
}

void activation_run_f32(const struct activation *a, float *y, int64_t n)
{
	float p[2] = {a->alpha, a->beta};

	if (a->kind < 0)
		return;
	if (acts[a->kind].fun != VF_COUNT) {
		simd()->map[acts[a->kind].fun](y, y, n, p);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		y[i] = p[0] * tanhf(p[1] * y[i]);
}

static double one_f64(enum vfun f, double a, double b, double x)
{
	if (f == VF_RELU)
		return x > 0 ? x : 0;
	if (f == VF_TANH)
		return tanh(x);
	if (f == VF_SIGMOID)
		return 1 / (1 + exp(-x));
	if (f == VF_AFFINE)
		return a * x + b;
	if (f == VF_LEAKYRELU)
		return x < 0 ? a * x : x;
	if (f == VF_THRESHOLDEDRELU)
		return x > a ? x : 0;
	if (f == VF_HARDSIGMOID || f == VF_HARDSWISH) {
		double s = fmax(0, fmin(1, a * x + b));
		return f == VF_HARDSWISH ? x * s : s;
	}
	if (f == VF_ELU)
		return x < 0 ? a * expm1(x) : x;
	if (f == VF_SOFTSIGN)
		return x / (1 + fabs(x));
	if (f == VF_SOFTPLUS)
		return fmax(x, 0) + log1p(exp(-fabs(x)));
	if (f == VF_CLIP)
		return fmin(fmax(x, a), b);
	if (f == VF_GELU)
		return x * 0.5 * (1 + erf(x * 0.70710678118654752440));
	if (f == VF_SWISH)
		return x / (1 + exp(-a * x));
	return a * tanh(b * x); /* ScaledTanh */
}

void activation_run_f64(const struct activation *a, double *y, int64_t n)
{
	if (a->kind < 0)
		return;
	for (int64_t i = 0; i < n; i++)
		y[i] = one_f64(acts[a->kind].fun, (double)a->alpha, (double)a->beta, y[i]);
}
