/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/paged_attention.h"

#include "base/mem.h"
#include "gpu/kernels/heads.h"
#include "gpu/kernels/paged.h"
#include "gpu/launch/job.h"
#include "ops/attention.h"

#include <math.h>

/* ---- PagedAttention ---------------------------------------------------------------------------- */

struct paged_plan {
	struct gpu_paged job;
	void *check, *store, *attend;
	size_t sequence, query, cache[2]; /* offsets in the workspace */
};

static void fill(const struct site *s, struct gpu_paged *j)
{
	const struct paged_attention *p = s->node->params;
	const struct shape *q = &site_in(s, PAGED_Q)->shape,
			   *cache = &site_in(s, PAGED_K_CACHE)->shape,
			   *table = &site_in(s, PAGED_TABLE)->shape;
	const struct vinfo *cos = site_in(s, PAGED_COS);

	*j = (struct gpu_paged){.tokens = q->dim[0],
				.batch = table->dim[0],
				.heads = p->num_heads,
				.kv_heads = p->kv_num_heads,
				.size = paged_head_size(p, q, !site_in(s, PAGED_K)),
				.blocks = cache->dim[0],
				.block = cache->dim[1],
				.table_step = table->dim[1],
				.offset = p->rotary_offset,
				.window = p->local_window_size > 0 ? p->local_window_size : 0,
				.cache_type = (int)gpu_type(s, PAGED_K_CACHE),
				.k_each = p->k_quant_type == PAGED_PER_CHANNEL,
				.v_each = p->v_quant_type == PAGED_PER_CHANNEL,
				.interleaved = p->rotary_interleaved != 0,
				.causal = p->is_causal != 0,
				.latent = p->kv_cache_layout == PAGED_LATENT,
				.softcap = p->softcap,
				.epsilon = p->qk_norm_epsilon};
	j->vsize = p->v_head_size ? p->v_head_size : j->size;
	j->scale = isnan(p->scale) || p->scale == 0 ? 1 / sqrtf((float)j->size) : p->scale;
	j->q_step = q->dim[1];
	j->k_step = j->v_step = site_in(s, PAGED_K) ? j->kv_heads * j->size : j->q_step;
	if (p->do_rotary) {
		j->turned = 2 * cos->shape.dim[1];
		j->cos_rows = cos->shape.dim[0];
	}
}

bool gpu_paged_accepts(const struct site *s, struct why *w)
{
	struct gpu_paged j;

	if (gpu_type(s, PAGED_K_CACHE) == DT_U8)
		return refuse(w, "a cache of 4-bit codes");
	fill(s, &j);
	if (j.vsize > GPU_PAGED_THREADS * GPU_PAGED_ELEMENTS)
		return refuse(w, "heads of more than %d elements",
			      GPU_PAGED_THREADS * GPU_PAGED_ELEMENTS);
	return true;
}

int gpu_paged_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct paged_plan *p = arena_new(s->plan_arena, struct paged_plan);
	enum dtype t = gpu_type(s, PAGED_Q);
	size_t cache = (size_t)(gpu_count(&site_in(s, PAGED_K_CACHE)->shape) *
				gpu_size(gpu_type(s, PAGED_K_CACHE)));

	fill(s, &p->job);
	step->state = p;
	p->sequence = gpu_room(step, (size_t)p->job.tokens * sizeof(int64_t));
	p->query =
		gpu_room(step, (size_t)(p->job.tokens * p->job.heads * p->job.size) * sizeof(float));
	for (uint32_t i = 0; i < 2; i++) {
		if (site_out(s, 1 + i))
			gpu_inplace(step, (uint8_t)(1 + i), (uint8_t)(PAGED_K_CACHE + i));
		else if (site_in(s, PAGED_K_CACHE + i))
			p->cache[i] = gpu_room(step, cache);
	}
	p->check = gpu_kernel(s, "paged", "paged_check", d);
	p->store = p->check ? gpu_typed(s, "paged", "paged_store", t, d) : NULL;
	p->attend = p->store ? gpu_typed(s, "paged", "paged_attend", t, d) : NULL;
	return p->attend ? 0 : -E_DEVICE;
}

/* Copies a cache to where it is updated, unless the plan gave the output the input's memory. */
static void *updated(const struct call *c, uint32_t i, size_t room, int *err)
{
	const struct tensor *from =
		PAGED_K_CACHE + i < c->step->nin ? c->in[PAGED_K_CACHE + i] : NULL;
	void *to = gpu_out(c, 1 + i);

	if (!from)
		return NULL;
	to = to ? to : gpu_at(c, room);
	if (!*err && to != from->data && from->bytes)
		*err = gpu_copy(c, to, from->data, from->bytes);
	return to;
}

static void set_operands(const struct call *c, struct gpu_paged *j)
{
	int64_t size = gpu_size(tensor_dtype(c->in[PAGED_Q]));
	const struct paged_attention *p = call_params(c);

	j->q = gpu_data(c, PAGED_Q);
	j->k = gpu_data(c, PAGED_K);
	j->v = gpu_data(c, PAGED_V);
	if (!j->k) {
		j->k = (const char *)j->q + j->heads * j->size * size;
		j->v = (const char *)j->k + j->kv_heads * j->size * size;
	}
	j->starts = gpu_data(c, PAGED_STARTS);
	j->past = gpu_data(c, PAGED_PAST);
	j->table = gpu_data(c, PAGED_TABLE);
	j->slots = gpu_data(c, PAGED_SLOTS);
	j->sink = gpu_data(c, PAGED_SINK);
	j->q_norm = gpu_data(c, PAGED_Q_NORM);
	j->k_norm = gpu_data(c, PAGED_K_NORM);
	j->k_scale = gpu_data(c, PAGED_K_SCALE);
	j->v_scale = gpu_data(c, PAGED_V_SCALE);
	if (p->do_rotary) {
		j->cos = gpu_data(c, PAGED_COS);
		j->sin = gpu_data(c, PAGED_SIN);
	}
}

int gpu_paged_run(const struct call *c)
{
	const struct paged_plan *p = c->step->state;
	struct gpu_paged job = p->job;
	int err = 0;

	set_operands(c, &job);
	job.k_cache = updated(c, 0, p->cache[0], &err);
	job.v_cache = updated(c, 1, p->cache[1], &err);
	job.y = gpu_out(c, 0);
	job.sequence = gpu_at(c, p->sequence);
	job.query = gpu_at(c, p->query);
	job.fault = gpu_fault(c);
	job.who = (uint64_t)(uintptr_t)c->step->from;
	if (!err)
		err = gpu_launch(c, p->check, gpu_grid(job.tokens), &job, sizeof(job));
	if (err || job.tokens < 1)
		return err;
	err = gpu_launch(c, p->store,
			 gpu_blocks(job.tokens * (job.heads + job.kv_heads), job.size <= 64 ? 64 : 128),
			 &job, sizeof(job));
	return err ? err
		   : gpu_launch(c, p->attend, gpu_blocks(job.tokens * job.heads, GPU_PAGED_THREADS),
				&job, sizeof(job));
}

/* ---- infer::SparseMask ------------------------------------------------------------------------- */

struct sparse_plan {
	struct gpu_sparse_mask job;
	void *check, *mask;
};

int gpu_sparse_mask_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct sparse_attention *p = s->node->params;
	const struct shape *y = &site_out(s, 0)->shape, *rows = &site_in(s, MASK_ROWS)->shape;
	struct sparse_plan *m = arena_new(s->plan_arena, struct sparse_plan);

	m->job = (struct gpu_sparse_mask){.batch = y->dim[0],
					  .heads = y->dim[1],
					  .queries = y->dim[2],
					  .keys = y->dim[3],
					  .room = site_in(s, MASK_PAST)->shape.dim[2],
					  .block = p->sparse_block_size,
					  .layouts = rows->dim[0],
					  .row_step = rows->dim[1],
					  .col_step = site_in(s, MASK_COLS)->shape.dim[1]};
	step->state = m;
	m->check = gpu_kernel(s, "heads", "sparse_check", d);
	m->mask = m->check ? gpu_typed(s, "heads", "sparse_mask", gpu_type(s, MASK_Q), d) : NULL;
	return m->mask ? 0 : -E_DEVICE;
}

int gpu_sparse_mask_run(const struct call *c)
{
	const struct sparse_plan *m = c->step->state;
	struct gpu_sparse_mask job = m->job;
	int64_t n = job.batch * job.heads * job.queries * job.keys, rest = job.batch * job.room;

	job.rows = gpu_data(c, MASK_ROWS);
	job.cols = gpu_data(c, MASK_COLS);
	job.lens = gpu_data(c, MASK_LENS);
	job.y = gpu_out(c, 0);
	job.rest = gpu_out(c, 1);
	job.fault = gpu_fault(c);
	job.who = (uint64_t)(uintptr_t)c->step->from;
	int err = gpu_launch(c, m->check,
			     gpu_grid(job.layouts * (job.row_step + job.col_step) + job.batch),
			     &job, sizeof(job));
	return err || n + rest < 1
		       ? err
		       : gpu_launch(c, m->mask, gpu_grid(n > rest ? n : rest), &job, sizeof(job));
}
