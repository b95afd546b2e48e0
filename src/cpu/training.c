/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers. The inputs are the learning rate R and the update count T, then all parameters X, the
 * gradients G of all parameters, and the states: first all states of one kind, then all states of
 * the next kind. The outputs are the new X and the new states.
 */
#include "ops/training.h"

#include "cpu/math/move.h"

#include <math.h>

/* Learning rate and update count, which all parameters share. */
struct update {
	double rate;
	int64_t turn;
};

static double load_element(const struct tensor *t, int64_t i)
{
	return elem_f64(tensor_dtype(t), t->data, i);
}

static void store_element(struct tensor *t, int64_t i, double v)
{
	if (t)
		elem_set_f64(tensor_dtype(t), t->data, i, v);
}

static void read_rate_and_count(const struct call *c, struct update *u)
{
	u->rate = load_element(c->in[0], 0);
	u->turn = elem_i64(tensor_dtype(c->in[1]), c->in[1]->data, 0);
}

static int adagrad_run(const struct call *c)
{
	const struct adagrad_params *p = call_params(c);
	uint32_t n = (c->step->node->nin - 2) / 3;
	struct update u;

	read_rate_and_count(c, &u);
	double r = u.rate / (1 + (double)u.turn * (double)p->decay_factor);
	for (uint32_t k = 0; k < n; k++) {
		const struct tensor *x = c->in[2 + k], *g = c->in[2 + n + k],
				    *h = c->in[2 + 2 * n + k];
		for (int64_t i = 0, count = tensor_count(x); i < count; i++) {
			double grad = (double)p->norm_coefficient * load_element(x, i) +
				      load_element(g, i);
			double sum = load_element(h, i) + grad * grad;
			store_element(c->out[k], i,
				      load_element(x, i) -
					      r * grad / (sqrt(sum) + (double)p->epsilon));
			store_element(c->out[n + k], i, sum);
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

	read_rate_and_count(c, &u);
	double t = (double)u.turn;
	double r = u.turn > 0 ? u.rate * sqrt(1 - pow(beta, t)) / (1 - pow(alpha, t)) : u.rate;
	for (uint32_t k = 0; k < n; k++) {
		const struct tensor *x = c->in[2 + k], *g = c->in[2 + n + k];
		const struct tensor *v = c->in[2 + 2 * n + k], *h = c->in[2 + 3 * n + k];
		for (int64_t i = 0, count = tensor_count(x); i < count; i++) {
			double grad = (double)p->norm_coefficient * load_element(x, i) +
				      load_element(g, i);
			double vn = alpha * load_element(v, i) + (1 - alpha) * grad;
			double hn = beta * load_element(h, i) + (1 - beta) * grad * grad;
			double xn = load_element(x, i) - r * vn / (sqrt(hn) + (double)p->epsilon);
			store_element(c->out[k], i, (1 - (double)p->norm_coefficient_post) * xn);
			store_element(c->out[n + k], i, vn);
			store_element(c->out[2 * n + k], i, hn);
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

	read_rate_and_count(c, &u);
	double beta = u.turn > 0 ? (double)p->beta : 1; /* ONNX: the first update always uses 1 */
	for (uint32_t k = 0; k < n; k++) {
		const struct tensor *x = c->in[2 + k], *g = c->in[2 + n + k],
				    *v = c->in[2 + 2 * n + k];
		for (int64_t i = 0, count = tensor_count(x); i < count; i++) {
			double grad = (double)p->norm_coefficient * load_element(x, i) +
				      load_element(g, i);
			double vn = alpha * load_element(v, i) + beta * grad;
			double step = p->mode == MOMENTUM_NESTEROV ? grad + alpha * vn : vn;
			store_element(c->out[k], i, load_element(x, i) - u.rate * step);
			store_element(c->out[n + k], i, vn);
		}
	}
	return 0;
}

#define TRAINING(name_) .op = "ai.onnx.preview.training::" name_, .flags = K_REFERENCE
const struct kernel cpu_training[] = {{TRAINING("Adagrad"), .run = adagrad_run},
				      {TRAINING("Adam"), .run = adam_run},
				      {TRAINING("Momentum"), .run = momentum_run},
				      {0}};
