/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: inputs are R, T, then all X, all G, and the states of each; outputs the new X and states. */
#include "ops/training.h"

#include "gpu/launch/job.h"

enum { ADAGRAD, ADAM, MOMENTUM };

struct train {
	void *fn;
	uint32_t tensors, states;
	struct gpu_train job;
};

static int train_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct adagrad_params *a = s->node->params;
	const struct adam_params *m = s->node->params;
	const struct momentum_params *v = s->node->params;
	struct train *t = arena_new(s->plan_arena, struct train);
	struct gpu_train *j = &t->job;

	j->kind = s->node->op->variant == TRAIN_ADAGRAD ? ADAGRAD
		  : s->node->op->variant == TRAIN_ADAM	? ADAM
							: MOMENTUM;
	if (j->kind == ADAGRAD) {
		j->decay = (double)a->decay_factor;
		j->epsilon = (double)a->epsilon;
		j->norm = (double)a->norm_coefficient;
	} else if (j->kind == ADAM) {
		j->alpha = (double)m->alpha;
		j->beta = (double)m->beta;
		j->epsilon = (double)m->epsilon;
		j->norm = (double)m->norm_coefficient;
		j->norm_post = (double)m->norm_coefficient_post;
	} else {
		j->alpha = (double)v->alpha;
		j->beta = (double)v->beta;
		j->norm = (double)v->norm_coefficient;
		j->nesterov = v->mode == MOMENTUM_NESTEROV;
	}
	t->states = j->kind == ADAM ? 2 : 1;
	t->tensors = (s->node->nin - 2) / (2 + t->states);
	t->fn = gpu_kernel(s, "training", "optimizer", d);
	step->state = t;
	return t->fn ? 0 : -E_DEVICE;
}

/* Operand k of the kernel is input i of the node. */
static void take(const struct call *c, struct gpu_io *io, int k, uint32_t i)
{
	io->in[k] = gpu_data(c, i);
	io->it[k] = (uint8_t)tensor_dtype(c->in[i]);
}

static int train_run(const struct call *c)
{
	const struct train *t = c->step->state;
	struct gpu_train job = t->job;
	uint32_t n = t->tensors;
	int err = 0;

	take(c, &job.io, 0, 0);
	take(c, &job.io, 1, 1);
	for (uint32_t k = 0; k < n && !err; k++) {
		for (uint32_t s = 0; s < 2 + t->states; s++)
			take(c, &job.io, 2 + (int)s, 2 + s * n + k);
		for (uint32_t s = 0; s < 1 + t->states; s++) {
			job.io.out[s] = gpu_out(c, s * n + k);
			if (job.io.out[s])
				job.io.ot[s] = (uint8_t)tensor_dtype(c->out[s * n + k]);
		}
		job.n = tensor_count(c->in[2 + k]);
		if (job.n)
			err = gpu_launch(c, t->fn, gpu_grid(job.n), &job, sizeof(job));
	}
	return err;
}

#define ROW(name)                                                                                   \
	{                                                                                           \
		.op = "ai.onnx.preview.training::" name, .reshape = train_reshape, .run = train_run \
	}
const struct kernel gpu_training[] = {ROW("Adagrad"), ROW("Adam"), ROW("Momentum"), {0}};
