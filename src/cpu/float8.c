/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference kernels of the operators of --precision fp8, which is for GPUs: they tell what the numbers must be, and run a
 * node for which the GPU has no kernel.
 */
#include "ops/float8.h"

#include "cpu/math/function.h"
#include "cpu/math/gemm.h"
#include "cpu/math/simd.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"

#include <string.h>

/* ---- infer::Float8 --------------------------------------------------------------------------- */

static int convert_run(const struct call *c)
{
	const struct float8_convert *p = call_params(c);
	int64_t n = tensor_count(c->in[0]);
	struct scratch s = scratch_of(c);
	const float *x = wide_in(&s, c->in[0]);
	float *q = wide_out(&s, c->out[0]), most = 0, scale = p->scale;

	for (int64_t i = 0; i < n && scale <= 0; i++)
		most = fmaxf(most, isfinite(x[i]) ? fabsf(x[i]) : 0);
	if (scale <= 0)
		scale = most > 0 ? most / FLOAT8_MOST : 1;
	for (int64_t i = 0; i < n; i++)
		q[i] = x[i] / scale;
	wide_done(c->out[0], q);
	if (c->step->nout > 1 && c->out[1])
		*(float *)c->out[1]->data = scale;
	return 0;
}

/* ---- infer::LayerNormFloat8 ------------------------------------------------------------------ */

static int norm_run(const struct call *c)
{
	const struct float8_norm *p = call_params(c);
	const struct shape *x = &c->in[0]->shape;
	const struct simd *v = simd();
	struct tensor *y = c->step->nout > 1 ? c->out[1] : NULL;
	struct scratch s = scratch_of(c);
	const float *from = wide_in(&s, c->in[0]), *scale = wide_in(&s, c->in[1]);
	const float *bias = wide_in(&s, c->step->nin > 2 ? c->in[2] : NULL);
	float *q = wide_out(&s, c->out[0]), *to = wide_out(&s, y);
	int64_t n = x->dim[x->rank - 1], rows = n ? tensor_count(c->in[0]) / n : 0;

	for (int64_t i = 0; i < rows; i++, from += n, q += n) {
		float mean = p->rms ? 0 : v->sum(from, n) / (float)n;
		float var = v->sum_deviation(from, n, mean) / (float)n;
		v->normalize(from, q, n, mean, 1 / sqrtf(var + p->epsilon), scale, bias);
		if (to)
			memcpy(to + i * n, q, (size_t)n * sizeof(float));
		for (int64_t k = 0; k < n; k++)
			q[k] /= p->scale;
	}
	wide_done(c->out[0], q - rows * n);
	wide_done(y, to);
	return 0;
}

/* ---- infer::GemmFloat8 ----------------------------------------------------------------------- */

static int gemm_reshape(struct site *s, struct step *step, struct diag *d)
{
	(void)d;
	step->workspace = wide_workspace(s) + scratch_size(gemm_scratch(GEMM_F32));
	return 0;
}

static float factor(const struct call *c, uint32_t i)
{
	return i < c->step->nin && c->in[i] ? *(const float *)c->in[i]->data : 1;
}

static int gemm_run_float8(const struct call *c)
{
	const struct float8_gemm *p = call_params(c);
	const struct tensor *const *in = c->in;
	uint32_t nin = c->step->nin;
	struct scratch s = scratch_of(c);
	int64_t n = in[FLOAT8_B]->shape.dim[0], k = in[FLOAT8_B]->shape.dim[1];
	int64_t count = tensor_count(c->out[0]);
	const float *a = wide_in(&s, in[FLOAT8_A]), *b = wide_in(&s, in[FLOAT8_B]);
	const float *bias = wide_in(&s, nin > FLOAT8_C ? in[FLOAT8_C] : NULL);
	const float *r = wide_in(&s, nin > FLOAT8_R ? in[FLOAT8_R] : NULL);
	float *y = wide_out(&s, c->out[0]), after = factor(c, FLOAT8_D);
	struct gemm g = {.m = n ? count / n : 0,
			 .n = n,
			 .k = k,
			 .a = a,
			 .b = b,
			 .a_row = k,
			 .a_col = 1,
			 .b_row = 1,
			 .b_col = k,
			 .c = y,
			 .c_row = n,
			 .alpha = (double)(p->scale * factor(c, FLOAT8_S)),
			 .beta = 1};

	for (int64_t i = 0; i < count; i++)
		y[i] = (bias ? bias[i % n] : 0) + (r ? r[i] : 0);
	gemm_run(GEMM_F32, &g, s.at);
	act_f32(p->act, p->act_alpha, p->act_beta, y, count);
	for (int64_t i = 0; i < count; i++)
		y[i] *= after;
	wide_done(c->out[0], y);
	return 0;
}

const struct kernel cpu_float8[] = {
	{"infer::Float8", T_F16, K_REFERENCE, .reshape = wide_reshape, .run = convert_run},
	{"infer::LayerNormFloat8", T_F16, K_REFERENCE, .reshape = wide_reshape, .run = norm_run},
	{"infer::GemmFloat8", T_BIT(FLOAT8), K_REFERENCE, .reshape = gemm_reshape,
	 .run = gemm_run_float8},
	{0}};
