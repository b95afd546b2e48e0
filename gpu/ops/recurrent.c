/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/recurrent.h"

#include "gpu/kernels/recurrent.h"
#include "gpu/launch/job.h"
#include "ops/attention.h"
#include "ops/delta_net.h"

#include <math.h>

/* ---- LinearAttention ------------------------------------------------------------------------- */

struct linear_plan {
	void *fn;
	struct gpu_linear_attention job;
};

static const char *linear_fill(const struct site *s, struct gpu_linear_attention *j)
{
	const struct linear_attention *p = s->node->params;
	const struct shape *q = &site_in(s, LIN_Q)->shape, *v = &site_in(s, LIN_V)->shape;
	const struct vinfo *decay = site_in(s, LIN_DECAY), *beta = site_in(s, LIN_BETA),
			   *past = site_in(s, LIN_PAST);
	enum dtype t = gpu_type(s, 0), kept = past ? gpu_type(s, LIN_PAST) : t;

	j->batch = q->dim[0], j->length = q->dim[1];
	j->q_heads = p->q_num_heads, j->kv_heads = p->kv_num_heads;
	j->d = q->dim[2] / j->q_heads, j->dv = v->dim[2] / j->kv_heads;
	j->decay_size = decay ? decay->shape.dim[2] / j->kv_heads : 0;
	j->beta_heads = beta ? beta->shape.dim[2] : 0;
	j->past_type = (int)kept;
	j->scale = p->scale != 0 ? p->scale : 1 / sqrtf((float)j->d);
	j->window = p->state_window;
	if ((decay && j->decay_size != 1 && j->decay_size != j->d) ||
	    (beta && j->beta_heads != 1 && j->beta_heads != j->kv_heads))
		return "decay or beta that do not fit the heads";
	for (uint32_t i = 0; i < s->node->nin; i++)
		if (site_in(s, i) && i != LIN_PAST && gpu_type(s, i) != t)
			return "inputs of several types";
	return T_BIT(kept) & (T_F32 | T_F16 | T_BF16) ? NULL : "a state of another type";
}

bool gpu_linear_accepts(const struct site *s, struct why *w)
{
	struct gpu_linear_attention j = {0};
	const char *bad = linear_fill(s, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_linear_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct linear_plan *p = arena_new(s->plan_arena, struct linear_plan);
	const struct gpu_linear_attention *j = &p->job;

	linear_fill(s, &p->job);
	p->fn = gpu_typed(s, "recurrent", "linear_attention", gpu_type(s, 0), d);
	step->state = p;
	step->workspace = (size_t)(j->batch * j->kv_heads * j->d * j->dv) * sizeof(float);
	return p->fn ? 0 : -E_DEVICE;
}

int gpu_linear_run(const struct call *c)
{
	const struct linear_plan *p = c->step->state;
	struct gpu_linear_attention job = p->job;
	struct gpu_grid g = {(unsigned)(job.batch * job.kv_heads), 1, 1, 64, 0};

	job.q = gpu_data(c, LIN_Q), job.k = gpu_data(c, LIN_K), job.v = gpu_data(c, LIN_V);
	job.past = gpu_data(c, LIN_PAST);
	job.decay = gpu_data(c, LIN_DECAY), job.beta = gpu_data(c, LIN_BETA);
	job.y = gpu_out(c, 0), job.present = gpu_out(c, 1);
	job.state = c->workspace;
	return g.x ? gpu_launch(c, p->fn, g, &job, sizeof(job)) : 0;
}

/* ---- LinearAttentionGate ----------------------------------------------------------------------- */

int gpu_linear_gate_reshape(struct site *s, struct step *step, struct diag *d)
{
	step->state = gpu_typed(s, "recurrent", "linear_gate", gpu_type(s, GATE_A), d);
	return step->state ? 0 : -E_DEVICE;
}

int gpu_linear_gate_run(const struct call *c)
{
	struct gpu_linear_gate job = {.a = gpu_data(c, GATE_A),
				      .b = gpu_data(c, GATE_B),
				      .bias = gpu_data(c, GATE_BIAS),
				      .scale = gpu_data(c, GATE_SCALE),
				      .decay = gpu_out(c, 0),
				      .beta = gpu_out(c, 1),
				      .n = tensor_count(c->in[GATE_A]),
				      .heads = c->in[GATE_A]->shape.dim[2]};

	return job.n ? gpu_launch(c, c->step->state, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

/* ---- GatedDeltaNet ------------------------------------------------------------------------------ */

struct delta_net_plan {
	void *rows, *factors, *updates, *net;
	struct gpu_delta_net job;
	size_t query, key, factor, state; /* offsets in the workspace */
};

static struct delta_net_sizes sizes_of(const struct site *s)
{
	struct shape in[NET_INPUTS];
	bool has[NET_INPUTS];

	for (uint32_t i = 0; i < NET_INPUTS; i++) {
		has[i] = site_in(s, i) != NULL;
		in[i] = has[i] ? site_in(s, i)->shape : SHAPE_UNKNOWN;
	}
	return delta_net_sizes(in, has);
}

static struct gpu_delta_net delta_net_job(const struct site *s, const struct delta_net_sizes *z)
{
	const struct delta_net *p = s->node->params;
	uint32_t gate = site_in(s, NET_DECAY) ? NET_DECAY : NET_BETA;
	int64_t keys = z->heads * z->size, values = z->vheads * z->vsize,
		token = z->packed ? 2 * keys + values : 0;

	return (struct gpu_delta_net){
		.q_step = z->packed ? token : keys,
		.k_step = z->packed ? token : keys,
		.v_step = z->packed ? token : values,
		.tokens = z->tokens,
		.batch = z->batch,
		.heads = z->heads,
		.vheads = z->vheads,
		.size = z->size,
		.vsize = z->vsize,
		.width = z->width,
		.biases = site_in(s, NET_BIAS) ? gpu_count(&site_in(s, NET_BIAS)->shape) : 0,
		.capacity = p->state_update_capacity,
		.gate_type = (int)gpu_type(s, gate),
		.unit = p->qk_l2_norm != 0,
		.bounded = p->gate_activation == GATE_SIGMOID || p->gate_activation == GATE_KDA,
		.beta_sigmoid = p->beta_activation != 0,
		.scale = p->scale != 0 ? p->scale : 1 / sqrtf((float)z->size),
		.lower = p->gate_lower_bound};
}

/* Reserves a * b floats of the workspace. Returns false if their size overflows. */
static bool floats(struct step *step, int64_t a, int64_t b, size_t *at)
{
	size_t n;

	if (!size_mul((size_t)a, (size_t)b, &n) || n > PTRDIFF_MAX / 8 / sizeof(float))
		return false;
	*at = gpu_room(step, n * sizeof(float));
	return true;
}

int gpu_delta_net_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct delta_net_plan *n = arena_new(s->plan_arena, struct delta_net_plan);
	struct delta_net_sizes z = sizes_of(s);
	enum dtype t = gpu_type(s, NET_Q);

	n->job = delta_net_job(s, &z);
	step->state = n;
	if (!floats(step, z.tokens, z.heads * z.size, &n->query) ||
	    !floats(step, z.tokens, z.heads * z.size, &n->key) ||
	    !floats(step, site_in(s, NET_DECAY) ? z.tokens : 0, z.width, &n->factor) ||
	    !floats(step, site_out(s, 1) ? 0 : z.batch * z.vheads, z.vsize * z.size, &n->state))
		return FAIL(d, E_SIZE, .node = s->node->origin->name, .op = op_qualified(s->node->op));
	n->rows = gpu_typed(s, "recurrent", "delta_net_rows", t, d);
	n->factors = n->rows ? gpu_kernel(s, "recurrent", "delta_net_factors", d) : NULL;
	n->updates = n->factors ? gpu_kernel(s, "recurrent", "delta_net_updates", d) : NULL;
	n->net = n->updates ? gpu_typed(s, "recurrent", "delta_net", t, d) : NULL;
	return n->net ? 0 : -E_DEVICE;
}

static void set_operands(const struct call *c, const struct delta_net_plan *n, struct gpu_delta_net *j)
{
	int64_t size = gpu_size(tensor_dtype(c->in[NET_Q])), keys = j->heads * j->size;

	j->q = gpu_data(c, NET_Q);
	j->k = gpu_data(c, NET_K);
	j->v = gpu_data(c, NET_V);
	if (!j->k) {
		j->k = (const char *)j->q + keys * size;
		j->v = (const char *)j->k + keys * size;
	}
	j->starts = gpu_data(c, NET_STARTS);
	j->decay = gpu_data(c, NET_DECAY);
	j->beta = gpu_data(c, NET_BETA);
	j->past = gpu_data(c, NET_STATE);
	j->a_log = gpu_data(c, NET_A_LOG);
	j->bias = gpu_data(c, NET_BIAS);
	j->count = gpu_data(c, NET_COUNT);
	j->active = gpu_data(c, NET_ACTIVE);
	j->y = gpu_out(c, 0);
	j->state = gpu_out(c, 1) ? gpu_out(c, 1) : gpu_at(c, n->state);
	j->update = gpu_out(c, 2);
	j->query = gpu_at(c, n->query);
	j->key = gpu_at(c, n->key);
	j->factor = j->decay ? gpu_at(c, n->factor) : NULL;
	j->fault = gpu_fault(c);
	j->who = (uint64_t)(uintptr_t)c->step->from;
}

int gpu_delta_net_run(const struct call *c)
{
	const struct delta_net_plan *n = c->step->state;
	struct gpu_delta_net j = n->job;
	int64_t rows = j.batch * j.vheads * j.vsize, heads = 2 * j.tokens * j.heads, updates = 0;
	int err = 0;

	set_operands(c, n, &j);
	if (j.update)
		updates = tensor_count(c->out[2]);
	/* a block has four warps; a warp computes a head of a token, and a row of a state */
	if (heads)
		err = gpu_launch(c, n->rows, gpu_blocks((heads + 3) / 4, 128), &j, sizeof(j));
	if (!err && j.decay && j.tokens)
		err = gpu_launch(c, n->factors, gpu_grid(j.tokens * j.width), &j, sizeof(j));
	if (!err && updates)
		err = gpu_launch(c, n->updates, gpu_grid(updates), &j, sizeof(j));
	return err || (!rows && !heads)
		       ? err
		       : gpu_launch(c, n->net, gpu_blocks((rows + 3) / 4, 128), &j, sizeof(j));
}
