/* SPDX-License-Identifier: Apache-2.0 */
/*
 * com.microsoft::GatedDeltaNet. Each head of values has a state matrix [vsize, size]; its rows do not depend on each other, so
 * that every row is advanced through all tokens of its sequence by itself.
 */
#include "ops/delta_net.h"

#include "base/pool.h"
#include "cpu/attention/kernels.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/attention.h"

#include <math.h>
#include <string.h>

struct net {
	const struct delta_net *p;
	struct delta_net_sizes z;
	/* rows of tokens, and how far apart the rows are */
	const float *q, *k, *v;
	int64_t q_step, k_step, v_step;
	float *unit_q, *unit_k; /* queries and keys of length 1; NULL: they are taken as they are */
	const float *decay;	/* as the input has it; NULL: none */
	float *factor; /* by which the states shrink at each token, [tokens, width]; NULL: by none */
	const float *beta, *a_log, *bias;
	int64_t nbias;
	const int32_t *starts, *count; /* NULL: sequences of one length; NULL: no update is kept */
	float *state, *update, *y;
	float scale;
};

static int64_t start_of(const struct net *n, int64_t sequence)
{
	return n->starts ? n->starts[sequence] : n->z.tokens / n->z.batch * sequence;
}

/* Number of the sequence's first tokens whose updates are kept. */
static int64_t kept(const struct net *n, int64_t sequence)
{
	int64_t length = start_of(n, sequence + 1) - start_of(n, sequence);

	return n->count ? greater(0, lesser(n->count[sequence],
					    lesser(length, n->p->state_update_capacity)))
			: 0;
}

/* ---- what the tokens bring ---------------------------------------------------------------------- */

static void unit_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct net *n = arg;
	int64_t heads = n->z.heads, size = n->z.size;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		for (int key = 0; key < 2; key++) {
			const float *x =
				key ? n->k + i / heads * n->k_step : n->q + i / heads * n->q_step;
			float *y = (key ? n->unit_k : n->unit_q) + i * size, sum = 0;
			x += i % heads * size;
			for (int64_t e = 0; e < size; e++)
				sum += x[e] * x[e];
			float by = 1 / sqrtf(sum + 1e-12f); /* as ONNX Runtime's kernel has it */
			for (int64_t e = 0; e < size; e++)
				y[e] = x[e] * by;
		}
	}
}

static float softplus(float x)
{
	/* log(1 + exp(x)), in the form that does not overflow */
	return isnan(x) ? x : fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
}

static float sigmoid(float x)
{
	return 1 / (1 + expf(-x));
}

static void factor_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct net *n = arg;
	int64_t each = n->z.width / n->z.vheads;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		int64_t at = i % n->z.width;
		float g = n->decay[i];
		if (n->a_log) {
			float a = expf(n->a_log[at / each]);
			float x = g + n->bias[n->nbias == n->z.width ? at : at / each];
			bool bounded = n->p->gate_activation == GATE_SIGMOID ||
				       n->p->gate_activation == GATE_KDA;
			g = bounded ? n->p->gate_lower_bound * sigmoid(a * x) : -a * softplus(x);
		}
		n->factor[i] = expf(g);
	}
}

/* ---- the states ----------------------------------------------------------------------------------- */

/* Advances a row of a state by one token. Returns the part of the value that is added. */
static float step_row(const struct net *n, int64_t token, int64_t h, int64_t row, float *s)
{
	int64_t size = n->z.size, key_head = h * n->z.heads / n->z.vheads;
	const float *k = n->k + token * n->k_step + key_head * size;
	float delta = n->v[token * n->v_step + h * n->z.vsize + row];

	if (n->factor && n->z.width == n->z.vheads) {
		float f = n->factor[token * n->z.width + h];
		LOOP for (int64_t e = 0; e < size; e++) s[e] *= f;
	} else if (n->factor) {
		const float *f = n->factor + token * n->z.width + h * size;
		LOOP for (int64_t e = 0; e < size; e++) s[e] *= f[e];
	}
	if (n->beta) {
		float beta = n->beta[token * n->z.vheads + h], read = 0;
		for (int64_t e = 0; e < size; e++)
			read += s[e] * k[e];
		delta = (n->p->beta_activation ? sigmoid(beta) : beta) * (delta - read);
	}
	LOOP for (int64_t e = 0; e < size; e++) s[e] += k[e] * delta;
	return delta;
}

static void rows_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct net *n = arg;
	int64_t size = n->z.size, rows = n->z.vsize, heads = n->z.vheads,
		capacity = n->p->state_update_capacity,
		factors = capacity * (n->z.width + n->z.heads * size),
		all = factors + capacity * heads * rows;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		int64_t row = i % rows, h = i / rows % heads, b = i / rows / heads,
			first = start_of(n, b), last = start_of(n, b + 1), keep = kept(n, b);
		float *s = n->state + i * size;
		for (int64_t t = first; t < last; t++) {
			float delta = step_row(n, t, h, row, s), sum = 0;
			const float *q = n->q + t * n->q_step + h * n->z.heads / heads * size;
			if (t - first < keep)
				n->update[b * all + factors + ((t - first) * heads + h) * rows + row] =
					delta;
			for (int64_t e = 0; e < size; e++)
				sum += q[e] * s[e];
			n->y[(t * heads + h) * rows + row] = n->scale * sum;
		}
	}
}

/* Copies the factors and keys of the updates that are kept; the deltas are written as they are made. */
static void keep_updates(const struct net *n, int64_t bytes)
{
	int64_t width = n->z.width, keys = n->z.heads * n->z.size,
		capacity = n->p->state_update_capacity,
		all = capacity * (width + keys + n->z.vheads * n->z.vsize);

	memset(n->update, 0, (size_t)bytes);
	for (int64_t b = 0; b < n->z.batch; b++) {
		float *to = n->update + b * all;
		for (int64_t t = 0; t < kept(n, b); t++) {
			int64_t token = start_of(n, b) + t;
			for (int64_t e = 0; e < width; e++)
				to[t * width + e] = n->factor ? n->factor[token * width + e] : 1;
			memcpy(to + capacity * width + t * keys, n->k + token * n->k_step,
			       (size_t)keys * sizeof(float));
		}
	}
}

/* ---- the kernel ----------------------------------------------------------------------------------- */

static struct delta_net_sizes sizes_of_site(const struct site *site)
{
	struct shape in[NET_INPUTS];
	bool has[NET_INPUTS];

	for (uint32_t i = 0; i < NET_INPUTS; i++) {
		const struct shape *s = site_shape(site, i);
		has[i] = s != NULL;
		in[i] = s ? *s : SHAPE_UNKNOWN;
	}
	return delta_net_sizes(in, has);
}

static struct delta_net_sizes sizes_of_call(const struct call *c)
{
	struct shape in[NET_INPUTS];
	bool has[NET_INPUTS];

	for (uint32_t i = 0; i < NET_INPUTS; i++) {
		const struct tensor *t = optional_in(c, i);
		has[i] = t != NULL;
		in[i] = t ? t->shape : SHAPE_UNKNOWN;
	}
	return delta_net_sizes(in, has);
}

static size_t floats(int64_t a, int64_t b)
{
	return scratch_size((size_t)(a * b) * sizeof(float));
}

static int64_t state_count(const struct delta_net_sizes *z)
{
	return z->batch * z->vheads * z->vsize * z->size;
}

int delta_net_reshape(struct site *site, struct step *step, struct diag *d)
{
	struct delta_net_sizes z = sizes_of_site(site);

	(void)d;
	step->workspace = wide_workspace(site) + floats(state_count(&z), 1) +
			  2 * floats(z.tokens, z.heads * z.size) + floats(z.tokens, z.width);
	return 0;
}

/* Sets the rows of query, key and value, which may lie side by side. */
static void set_rows(struct net *n, const struct call *c, struct scratch *s)
{
	int64_t keys = n->z.heads * n->z.size, values = n->z.vheads * n->z.vsize;

	n->q = wide_in(s, c->in[NET_Q]);
	if (n->z.packed) {
		n->k = n->q + keys;
		n->v = n->k + keys;
		n->q_step = n->k_step = n->v_step = 2 * keys + values;
	} else {
		n->k = wide_in(s, c->in[NET_K]);
		n->v = wide_in(s, c->in[NET_V]);
		n->q_step = n->k_step = keys;
		n->v_step = values;
	}
	if (!n->p->qk_l2_norm)
		return;
	n->unit_q = scratch_take(s, floats(n->z.tokens, keys));
	n->unit_k = scratch_take(s, floats(n->z.tokens, keys));
	pool_for(n->z.tokens * n->z.heads, rows_grain(GRAIN, n->z.size), unit_part, n);
	n->q = n->unit_q;
	n->k = n->unit_k;
	n->q_step = n->k_step = keys;
}

static int check_starts(const struct call *c, const struct net *n)
{
	bool right = n->starts[0] == 0 && n->starts[n->z.batch] == n->z.tokens;

	for (int64_t b = 0; right && b < n->z.batch; b++)
		right = n->starts[b] <= n->starts[b + 1];
	return right ? 0
		     : call_fail(c, E_VALUE,
				 "cu_seqlens that begins with 0, never falls and ends with the number of tokens",
				 NULL);
}

int delta_net_run(const struct call *c)
{
	const struct tensor *starts = optional_in(c, NET_STARTS), *bias = optional_in(c, NET_BIAS),
			    *a_log = optional_in(c, NET_A_LOG), *count = optional_in(c, NET_COUNT),
			    *active = optional_in(c, NET_ACTIVE), *past = optional_in(c, NET_STATE);
	struct tensor *last = optional_out(c, 1), *update = optional_out(c, 2);
	struct scratch s = scratch_of(c);
	struct net n = {
		.p = call_params(c), .z = sizes_of_call(c), .starts = starts ? starts->data : NULL};
	size_t bytes = (size_t)state_count(&n.z) * sizeof(float);
	int rc = starts ? check_starts(c, &n) : 0;

	if (rc)
		return rc;
	n.state = scratch_take(&s, bytes);
	if (past)
		memcpy(n.state, past->data, bytes);
	else
		memset(n.state, 0, bytes);
	set_rows(&n, c, &s);
	n.decay = wide_in(&s, optional_in(c, NET_DECAY));
	n.beta = wide_in(&s, optional_in(c, NET_BETA));
	n.a_log = a_log ? a_log->data : NULL;
	n.bias = bias ? bias->data : NULL;
	n.nbias = bias ? tensor_count(bias) : 0;
	n.scale = n.p->scale != 0 ? n.p->scale : 1 / sqrtf((float)n.z.size);
	if (n.decay) {
		n.factor = scratch_take(&s, floats(n.z.tokens, n.z.width));
		pool_for(n.z.tokens * n.z.width, GRAIN_HEAVY, factor_part, &n);
	}
	n.update = update ? update->data : NULL;
	if (update && count && !(active && *(const int32_t *)active->data == 0))
		n.count = count->data;
	if (update)
		keep_updates(&n, (int64_t)update->bytes);
	n.y = wide_out(&s, c->out[0]);
	pool_for(n.z.batch * n.z.vheads * n.z.vsize, 1, rows_part, &n);
	wide_done(c->out[0], n.y);
	if (last)
		memcpy(last->data, n.state, bytes);
	return 0;
}
