/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: inputs are R, T, then all X, all G, and the state of each; outputs the new X and states. */
#include "ops/training.h"

#include "cpu/math/move.h"

#include <math.h>

/* What a step shares. */
struct update {
	double rate;
	int64_t turn;
};

static double get(const struct tensor *t, int64_t i)
{
	return elem_f64(tensor_dtype(t), t->data, i);
}

static void put(struct tensor *t, int64_t i, double v)
{
	if (t)
		elem_set_f64(tensor_dtype(t), t->data, i, v);
}

static void start(const struct call *c, struct update *u)
{
	u->rate = get(c->in[0], 0);
	u->turn = elem_i64(tensor_dtype(c->in[1]), c->in[1]->data, 0);
}

static int adagrad_run(const struct call *c)
{
	const struct adagrad_params *p = call_params(c);
	uint32_t n = (c->step->node->nin - 2) / 3;
	struct update u;

	start(c, &u);
	double r = u.rate / (1 + (double)u.turn * (double)p->decay_factor);
	for (uint32_t k = 0; k < n; k++) {
		const struct tensor *x = c->in[2 + k], *g = c->in[2 + n + k],
				    *h = c->in[2 + 2 * n + k];
		for (int64_t i = 0, count = tensor_count(x); i < count; i++) {
			double grad = (double)p->norm_coefficient * get(x, i) + get(g, i);
			double sum = get(h, i) + grad * grad;
			put(c->out[k], i, get(x, i) - r * grad / (sqrt(sum) + (double)p->epsilon));
			put(c->out[n + k], i, sum);
		}
	}
	return 0;
}

static int adam_run(const struct call *c)
{
	const struct adam_params *p = call_params(c);
	uint32_t n = (c->step->node->nin - 2) / 4;
	double alpha = (double)p->alpha, beta = (double)p->beta;
	struct update u;

	start(c, &u);
	double t = (double)u.turn;
	double r = u.turn > 0 ? u.rate * sqrt(1 - pow(beta, t)) / (1 - pow(alpha, t)) : u.rate;
	for (uint32_t k = 0; k < n; k++) {
		const struct tensor *x = c->in[2 + k], *g = c->in[2 + n + k];
		const struct tensor *v = c->in[2 + 2 * n + k], *h = c->in[2 + 3 * n + k];
		for (int64_t i = 0, count = tensor_count(x); i < count; i++) {
			double grad = (double)p->norm_coefficient * get(x, i) + get(g, i);
			double vn = alpha * get(v, i) + (1 - alpha) * grad;
			double hn = beta * get(h, i) + (1 - beta) * grad * grad;
			double xn = get(x, i) - r * vn / (sqrt(hn) + (double)p->epsilon);
			put(c->out[k], i, (1 - (double)p->norm_coefficient_post) * xn);
			put(c->out[n + k], i, vn);
			put(c->out[2 * n + k], i, hn);
		}
	}
	return 0;
}

static int momentum_run(const struct call *c)
{
	const struct momentum_params *p = call_params(c);
	uint32_t n = (c->step->node->nin - 2) / 3;
	double alpha = (double)p->alpha;
	struct update u;

	start(c, &u);
	double beta = u.turn > 0 ? (double)p->beta : 1; /* always 1 at first */
	for (uint32_t k = 0; k < n; k++) {
		const struct tensor *x = c->in[2 + k], *g = c->in[2 + n + k],
				    *v = c->in[2 + 2 * n + k];
		for (int64_t i = 0, count = tensor_count(x); i < count; i++) {
			double grad = (double)p->norm_coefficient * get(x, i) + get(g, i);
			double vn = alpha * get(v, i) + beta * grad;
			double step = p->mode == MOMENTUM_NESTEROV ? grad + alpha * vn : vn;
			put(c->out[k], i, get(x, i) - u.rate * step);
			put(c->out[n + k], i, vn);
		}
	}
	return 0;
}

#define TRAINING(name_) .op = "ai.onnx.preview.training::" name_, .flags = K_REFERENCE
const struct kernel cpu_training[] = {{TRAINING("Adagrad"), .run = adagrad_run},
				      {TRAINING("Adam"), .run = adam_run},
				      {TRAINING("Momentum"), .run = momentum_run},
				      {0}};
