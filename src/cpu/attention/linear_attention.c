/* SPDX-License-Identifier: Apache-2.0 */
/* LinearAttention: each head has a state matrix [size, vsize], which every position updates and then reads. */
#include "base/pool.h"
#include "cpu/attention/kernels.h"
#include "cpu/attention/heads.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/attention.h"

#include <math.h>
#include <string.h>

struct linear {
	const struct linear_attention *p;
	int64_t batch, length, size, vsize;
	int64_t decay_size; /* number of decay elements per head and position; 0 if the node has no decay */
	/* number of beta's heads: 1 (shared by all heads) or kv_num_heads; 0 if the node has no beta */
	int64_t beta_heads;
	const float *q, *k, *v, *decay, *beta;
	float *state, *y;
	/* with state_window: the states after the last positions, all batches and heads of one position side by side; or NULL */
	float *window;
	float scale;
	char *scratch;
};

/*
 * Advances one head of one batch by position t: updates the state s with the key and value, then computes the output
 * of each query head that shares this key head. `read` is scratch memory for vsize elements.
 */
static void head_step(const struct linear *l, int64_t b, int64_t h, int64_t t, float *s, float *read)
{
	int64_t hk = l->p->kv_num_heads, hq = l->p->q_num_heads, row = b * l->length + t;
	const float *k = l->k + (row * hk + h) * l->size, *v = l->v + (row * hk + h) * l->vsize;
	const float *g = l->decay ? l->decay + (row * hk + h) * l->decay_size : NULL;
	float beta = l->beta ? l->beta[row * l->beta_heads + (l->beta_heads == 1 ? 0 : h)] : 1;

	memset(read, 0, (size_t)l->vsize * sizeof(float));
	for (int64_t i = 0; i < l->size; i++) {
		float *si = s + i * l->vsize;
		if (g) {
			float e = expf(g[l->decay_size == 1 ? 0 : i]);
			for (int64_t m = 0; m < l->vsize; m++)
				si[m] *= e;
		}
		if (l->beta)
			for (int64_t m = 0; m < l->vsize; m++)
				read[m] += si[m] * k[i];
	}
	for (int64_t m = 0; m < l->vsize; m++)
		read[m] = l->beta ? beta * (v[m] - read[m]) : v[m];
	for (int64_t i = 0; i < l->size; i++)
		for (int64_t m = 0; m < l->vsize; m++)
			s[i * l->vsize + m] += k[i] * read[m];
	/* the output has as many heads as the queries or the keys, whichever are more */
	int64_t outputs = greater(hq, hk), each = hq > hk ? hq / hk : 1;
	for (int64_t n = h * each; n < (h + 1) * each; n++) {
		const float *q = l->q + (row * hq + n * hq / outputs) * l->size;
		float *y = l->y + (row * outputs + n) * l->vsize;
		memset(y, 0, (size_t)l->vsize * sizeof(float));
		for (int64_t i = 0; i < l->size; i++)
			for (int64_t m = 0; m < l->vsize; m++)
				y[m] += l->scale * q[i] * s[i * l->vsize + m];
	}
}

/* Writes the state of head i after position t to its place in the window, if it is one of the last positions. */
static void keep_state(const struct linear *l, int64_t i, int64_t t, const float *state)
{
	int64_t one = l->size * l->vsize, slot = l->p->state_window - l->length + t;

	if (l->window && slot >= 0)
		memcpy(l->window + (slot * l->batch * l->p->kv_num_heads + i) * one, state,
		       (size_t)one * sizeof(float));
}

static void heads_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct linear *l = arg;
	float *read = (float *)(void *)(l->scratch + (size_t)thread * scratch_size((size_t)l->vsize *
										   sizeof(float)));

	for (int64_t i = begin; i < end; i++) {
		float *state = l->state + i * l->size * l->vsize;
		for (int64_t t = 0; t < l->length; t++) {
			head_step(l, i / l->p->kv_num_heads, i % l->p->kv_num_heads, t, state, read);
			keep_state(l, i, t, state);
		}
	}
}

static int64_t value_size(const struct linear_attention *p, const struct shape *v)
{
	return v->dim[2] / p->kv_num_heads;
}

static size_t state_bytes(const struct linear_attention *p, const struct shape *q,
			  const struct shape *v)
{
	return (size_t)(q->dim[0] * p->kv_num_heads * (q->dim[2] / p->q_num_heads) * value_size(p, v)) *
	       sizeof(float);
}

int linear_attention_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct linear_attention *p = site_params(site);
	const struct shape *q = &site_in(site, LIN_Q)->shape, *v = &site_in(site, LIN_V)->shape;

	(void)d;
	step->workspace =
		wide_workspace(site) + scratch_size(state_bytes(p, q, v)) +
		scratch_size(state_bytes(p, q, v) * (size_t)p->state_window) +
		scratch_size((size_t)value_size(p, v) * sizeof(float)) * (size_t)pool_threads();
	return 0;
}

int linear_attention_run(const struct call *c)
{
	const struct linear_attention *p = call_params(c);
	const struct shape *q = &c->in[LIN_Q]->shape, *v = &c->in[LIN_V]->shape;
	const struct tensor *decay = optional_in(c, LIN_DECAY), *beta = optional_in(c, LIN_BETA),
			    *past = optional_in(c, LIN_PAST);
	struct scratch s = scratch_of(c);
	struct linear l = {.p = p,
			   .batch = q->dim[0],
			   .length = q->dim[1],
			   .size = q->dim[2] / p->q_num_heads,
			   .vsize = value_size(p, v)};
	size_t bytes = state_bytes(p, q, v);

	l.decay_size = decay ? decay->shape.dim[2] / p->kv_num_heads : 0;
	l.beta_heads = beta ? beta->shape.dim[2] : 0;
	if ((decay && l.decay_size != 1 && l.decay_size != l.size) ||
	    (beta && l.beta_heads != 1 && l.beta_heads != p->kv_num_heads))
		return call_fail(c, E_SHAPE, "decay and beta that fit the heads", NULL);
	l.scale = p->scale != 0 ? p->scale : heads_scale(NAN, l.size);
	l.scratch = scratch_take(&s, scratch_size((size_t)l.vsize * sizeof(float)) *
					     (size_t)pool_threads());
	l.state = scratch_take(&s, bytes);
	l.q = wide_in(&s, c->in[LIN_Q]);
	l.k = wide_in(&s, c->in[LIN_K]);
	l.v = wide_in(&s, c->in[LIN_V]);
	l.decay = wide_in(&s, decay);
	l.beta = wide_in(&s, beta);
	l.y = wide_out(&s, c->out[0]);
	size_t others = p->state_window ? (size_t)(p->state_window - 1) * bytes : 0;
	if (past) /* the last state of a window */
		memcpy(l.state, (const char *)wide_in(&s, past) + others, bytes);
	else
		memset(l.state, 0, bytes);
	if (p->state_window) {
		l.window = scratch_take(&s, others + bytes);
		memset(l.window, 0, others + bytes);
	}
	pool_for(l.batch * p->kv_num_heads, 1, heads_part, &l);
	wide_done(c->out[0], l.y);
	/* of no position there is no state to keep but the one that was given */
	if (p->state_window && !l.length)
		memcpy((char *)l.window + others, l.state, bytes);
	struct tensor *present = optional_out(c, 1);
	const float *kept = p->state_window ? l.window : l.state;
	if (present && wide_as_is(tensor_dtype(present)))
		memcpy(present->data, kept, others + bytes);
	else
		wide_done(present, kept);
	return 0;
}

/* ---- LinearAttentionGate ------------------------------------------------------------------------ */

struct gate {
	const float *a, *bias, *scale, *b;
	float *decay, *beta;
	int64_t heads;
};

static void gate_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct gate *g = arg;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		float x = g->a[i] + g->bias[i % g->heads];
		/* log(1 + exp(x)), in the form that does not overflow */
		float softplus = fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
		g->decay[i] = g->scale[i % g->heads] * (isnan(x) ? x : softplus);
		if (g->beta)
			g->beta[i] = 1 / (1 + expf(-g->b[i]));
	}
}

int linear_gate_run(const struct call *c)
{
	struct scratch s = scratch_of(c);
	struct tensor *beta = optional_out(c, 1);
	struct gate g = {.a = wide_in(&s, c->in[GATE_A]),
			 .bias = c->in[GATE_BIAS]->data,
			 .scale = c->in[GATE_SCALE]->data,
			 .b = wide_in(&s, optional_in(c, GATE_B)),
			 .heads = c->in[GATE_A]->shape.dim[2]};

	g.decay = wide_out(&s, c->out[0]);
	g.beta = wide_out(&s, beta);
	pool_for(tensor_count(c->in[GATE_A]), GRAIN_HEAVY, gate_part, &g);
	wide_done(c->out[0], g.decay);
	wide_done(beta, g.beta);
	return 0;
}
