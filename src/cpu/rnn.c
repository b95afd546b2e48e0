/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent layers: the gates' products with the inputs of all steps are one matrix product; each
 * step then multiplies the state and runs the cell, sequence by sequence.
 */
#include "ops/rnn.h"

#include "base/pool.h"
#include "cpu/activation.h"
#include "cpu/gemm.h"
#include "cpu/wide.h"

#include <math.h>
#include <string.h>

enum cell { CELL_RNN, CELL_GRU, CELL_LSTM };

struct rnn_size {
	enum cell cell;
	int gates;
	int64_t seq, batch, input, hidden;
};

enum { PACK_BATCH = 4 };

/* Bytes of the packed first product of a step: room for all gates. */
static size_t pack_first(enum gemm_type t, int gates, int64_t hidden)
{
	return scratch_size(gemm_packed_bytes(t, gates * hidden, hidden));
}

#define REAL  float
#define GEMM  GEMM_F32
#define FN(x) x##_f32
#include "cpu/rnn.inc"
#undef REAL
#undef GEMM
#undef FN

#define REAL  double
#define GEMM  GEMM_F64
#define FN(x) x##_f64
#include "cpu/rnn.inc"
#undef REAL
#undef GEMM
#undef FN

static enum cell cell_of(const struct node *n)
{
	if (!strcmp(n->op->name, "LSTM"))
		return CELL_LSTM;
	return !strcmp(n->op->name, "GRU") ? CELL_GRU : CELL_RNN;
}

static struct rnn_size size_of(const struct node *n, const struct shape *x, const struct shape *r)
{
	const struct rnn *p = n->params;
	struct rnn_size z = {.cell = cell_of(n)};

	z.gates = z.cell == CELL_LSTM ? 4 : z.cell == CELL_GRU ? 3 : 1;
	z.seq = x->dim[p->layout ? 1 : 0];
	z.batch = x->dim[p->layout ? 0 : 1];
	z.input = x->dim[2];
	z.hidden = r->dim[2];
	return z;
}

/* Functions a cell has: f, g, h. */
static int functions(enum cell c)
{
	return c == CELL_LSTM ? 3 : c == CELL_GRU ? 2 : 1;
}

/* Name of function k; the cell's own where the model names none. */
static const char *function_name(const struct rnn *p, enum cell c, int k)
{
	if (k < p->activations.n)
		return p->activations.v[k].s;
	return c == CELL_RNN || k % functions(c) ? "Tanh" : "Sigmoid";
}

/* act[3] a direction; alphas and betas go to the functions that have such, in order. */
static void take_functions(const struct rnn *p, enum cell c, struct activation *act)
{
	int64_t a = 0, b = 0;
	int each = functions(c);

	for (int k = 0; k < each * rnn_directions(p); k++) {
		const char *name = function_name(p, c, k);
		int count = activation_params(name);
		float alpha =
			count > 0 && a < p->activation_alpha.n ? p->activation_alpha.v[a++] : NAN;
		float beta = count > 1 && b < p->activation_beta.n ? p->activation_beta.v[b++] : NAN;
		act[k / each * 3 + k % each] = activation_of(name, alpha, beta);
	}
}

static bool rnn_accepts(const struct site *site, struct why *why)
{
	const struct rnn *p = site_params(site);
	enum cell c = cell_of(site->node);
	int n = functions(c) * rnn_directions(p);

	if (p->activations.n > 0 && p->activations.n < n)
		return refuse(why, "%lld activations where there should be %d",
			      (long long)p->activations.n, n);
	for (int k = 0; k < n; k++)
		if (!activation_known(function_name(p, c, k)))
			return refuse(why, "activation %s", function_name(p, c, k));
	return true;
}

static int rnn_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct rnn *p = site_params(site);
	const struct vinfo *x = site_in(site, RNN_X);
	struct rnn_size z = size_of(site->node, &x->shape, &site_in(site, RNN_R)->shape);
	bool f64 = x->type.dtype == DT_F64;
	size_t elem = f64 ? 8 : 4, state = scratch_size((size_t)(z.batch * z.hidden) * elem);
	size_t wide = (size_t)(z.gates * z.hidden) * elem, steps = (size_t)(z.seq * z.batch);

	(void)d;
	step->workspace =
		wide_workspace(site) + scratch_size(gemm_scratch(f64 ? GEMM_F64 : GEMM_F32)) +
		scratch_size(steps * wide) + scratch_size((size_t)z.batch * wide) + 3 * state;
	step->workspace += 2 * pack_first(f64 ? GEMM_F64 : GEMM_F32, z.gates, z.hidden);
	if (p->layout)
		step->workspace += scratch_size(steps * (size_t)z.input * elem);
	return 0;
}

static int rnn_run(const struct call *c)
{
	const struct rnn *p = call_params(c);
	const struct tensor *lens = RNN_LENS < c->step->nin ? c->in[RNN_LENS] : NULL;
	struct rnn_size z = size_of(c->step->node, &c->in[RNN_X]->shape, &c->in[RNN_R]->shape);
	struct activation act[6];

	for (int64_t b = 0; lens && b < z.batch; b++) {
		int32_t len = ((const int32_t *)lens->data)[b];
		if (len < 0 || len > z.seq)
			return call_fail(c, E_VALUE, "sequence_lens within the sequence", NULL);
	}
	take_functions(p, z.cell, act);
	if (tensor_dtype(c->in[RNN_X]) == DT_F64)
		run_rnn_f64(c, &z, act);
	else
		run_rnn_f32(c, &z, act);
	return 0;
}

#define ROW(name)                                                                                   \
	{                                                                                           \
		name, T_FLOATS_BF, K_REFERENCE, rnn_accepts, NULL, rnn_reshape, rnn_run, NULL, NULL \
	}
const struct kernel cpu_rnn[] = {ROW("RNN"), ROW("GRU"), ROW("LSTM"), {0}};
