/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of the ONNX operator Attention, and the table of all attention kernels of the CPU. */
#include "cpu/attention/kernels.h"

#include "base/pool.h"
#include "cpu/attention/heads.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/attention.h"

#include <math.h>

/* Sets the sizes in `a` from the shapes of Q, K, V and past_key (NULL if the node has no past). */
static void set_sizes(const struct attention *p, const struct shape *q, const struct shape *k,
		      const struct shape *v, const struct shape *past, struct heads *a)
{
	a->batch = q->dim[0];
	a->heads = q->rank == 4 ? q->dim[1] : p->q_num_heads;
	a->kv_heads = k->rank == 4 ? k->dim[1] : p->kv_num_heads;
	a->queries = q->dim[q->rank == 4 ? 2 : 1];
	a->size = q->rank == 4 ? q->dim[3] : q->dim[2] / a->heads;
	a->vsize = v->rank == 4 ? v->dim[3] : v->dim[2] / p->kv_num_heads;
	a->keys = k->dim[k->rank == 4 ? 2 : 1] + (past ? past->dim[2] : 0);
}

static int attention_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct attention *p = site_params(site);
	const struct vinfo *q = site_in(site, ATT_Q), *k = site_in(site, ATT_K),
			   *v = site_in(site, ATT_V);
	const struct vinfo *past = site_in(site, ATT_PAST_K), *mask = site_in(site, ATT_MASK);
	enum gemm_type real = heads_real((enum dtype)q->type.dtype);
	size_t elem = heads_real_size(real);
	struct heads a = {0};

	(void)d;
	set_sizes(p, &q->shape, &k->shape, &v->shape, past ? &past->shape : NULL, &a);
	step->workspace = wide_workspace(site) + 2 * scratch_size((size_t)a.batch * sizeof(int64_t)) +
			  scratch_size(heads_scratch(real, a.queries, a.keys));
	if (past)
		step->workspace +=
			scratch_size((size_t)(a.batch * a.kv_heads * a.keys * a.size) * elem) +
			scratch_size((size_t)(a.batch * a.kv_heads * a.keys * a.vsize) * elem);
	if (mask)
		step->workspace += scratch_size((size_t)shape_count(&mask->shape) * elem);
	return 0;
}

/* Converts a mask of any numeric type to `real`, the type that the kernel computes in. */
static const void *convert_mask(enum gemm_type real, const struct tensor *mask, struct scratch *s)
{
	int64_t n = tensor_count(mask);
	void *to = scratch_take(s, (size_t)n * heads_real_size(real));

	for (int64_t i = 0; i < n; i++) {
		double v = elem_f64(tensor_dtype(mask), mask->data, i);
		if (real == GEMM_F64)
			((double *)to)[i] = v;
		else
			((float *)to)[i] = (float)v;
	}
	return to;
}

/*
 * Reads nonpad_kv_seqlen, the number of valid keys of each batch. Without past_key, the queries stand at the positions
 * of the last valid keys, so query 0 has the position (valid keys - queries).
 */
static int set_valid_keys(const struct call *c, const struct tensor *pad, struct heads *a,
			  struct scratch *s)
{
	int64_t *valid = scratch_take(s, (size_t)a->batch * sizeof(int64_t));
	int64_t *offsets = scratch_take(s, (size_t)a->batch * sizeof(int64_t));

	if (tensor_count(pad) != a->batch)
		return call_fail(c, E_SHAPE, "nonpad_kv_seqlen of one number a batch", NULL);
	for (int64_t b = 0; b < a->batch; b++) {
		/* no more keys than 32 bits can count: the positions are computed from any number that a caller feeds */
		valid[b] = greater(INT32_MIN, lesser(((const int64_t *)pad->data)[b], INT32_MAX));
		offsets[b] = valid[b] - a->queries;
	}
	a->valid = valid;
	if (!optional_in(c, ATT_PAST_K))
		a->offsets = offsets;
	return 0;
}

/*
 * Sets the views of Q, K, V and Y. If the node has a past or returns the present, the new keys and values are appended
 * to the past first; *key and *value then point to the result (present_key and present_value). Otherwise both are
 * NULL.
 */
static void set_operands(const struct call *c, struct heads *a, void **key, void **value,
			 struct scratch *s)
{
	const struct tensor *past = optional_in(c, ATT_PAST_K);
	bool merged = c->in[ATT_Q]->shape.rank == 3;
	int64_t past_rows = past ? past->shape.dim[2] : 0, rows = a->keys - past_rows;
	size_t line = (size_t)(a->batch * a->kv_heads * a->keys) * heads_real_size(a->real);

	a->q = heads_view(wide_in(s, c->in[ATT_Q]), a->heads, a->queries, a->size, merged);
	a->k = heads_view(wide_in(s, c->in[ATT_K]), a->kv_heads, rows, a->size,
			  c->in[ATT_K]->shape.rank == 3);
	a->v = heads_view(wide_in(s, c->in[ATT_V]), a->kv_heads, rows, a->vsize,
			  c->in[ATT_V]->shape.rank == 3);
	a->y = wide_out(s, c->out[0]);
	struct attend_view y = heads_view(a->y, a->heads, a->queries, a->vsize, merged);
	a->y_batch = y.batch;
	a->y_head = y.head;
	a->y_row = y.row;
	*key = wide_out(s, optional_out(c, 1));
	*value = wide_out(s, optional_out(c, 2));
	a->qk = wide_out(s, optional_out(c, 3));
	const void *past_key = wide_in(s, past);
	const void *past_value = wide_in(s, optional_in(c, ATT_PAST_V));
	if (past && !*key)
		*key = scratch_take(s, line * (size_t)a->size);
	if (past && !*value)
		*value = scratch_take(s, line * (size_t)a->vsize);
	if (*key)
		heads_append(a, past_key, past_rows, &a->k, rows, a->size, *key);
	if (*value)
		heads_append(a, past_value, past_rows, &a->v, rows, a->vsize, *value);
}

static int attention_run(const struct call *c)
{
	const struct attention *p = call_params(c);
	const struct tensor *past = optional_in(c, ATT_PAST_K), *mask = optional_in(c, ATT_MASK),
			    *pad = optional_in(c, ATT_NONPAD);
	struct heads a = {.real = heads_real(tensor_dtype(c->in[ATT_Q])),
			  .softcap = p->softcap,
			  .causal = p->is_causal != 0,
			  .left = p->left_window_size,
			  .right = p->right_window_size,
			  .hidden = -INFINITY,
			  .scores = (enum heads_scores)p->qk_matmul_output_mode};
	struct scratch s = scratch_of(c);
	void *key, *value;
	int rc;

	set_sizes(p, &c->in[ATT_Q]->shape, &c->in[ATT_K]->shape, &c->in[ATT_V]->shape,
		  past ? &past->shape : NULL, &a);
	a.scale = heads_scale(p->scale, a.size);
	if (p->softmax_precision == DT_F16 || p->softmax_precision == DT_BF16)
		a.round = (enum dtype)p->softmax_precision;
	a.offset = past ? past->shape.dim[2] : 0;
	if (pad && (rc = set_valid_keys(c, pad, &a, &s)))
		return rc;
	if (tensor_count(c->out[0]) == 0 && a.keys == 0)
		return 0;
	a.scratch = scratch_take(&s, heads_scratch(a.real, a.queries, a.keys));
	set_operands(c, &a, &key, &value, &s);
	if (mask) {
		bool hides = tensor_dtype(mask) == DT_BOOL;
		struct heads_mask *m = hides ? &a.hide : &a.mask[0];
		heads_mask_steps(&mask->shape, a.keys, m);
		m->data = hides ? mask->data : convert_mask(a.real, mask, &s);
	}
	heads_run(&a);
	wide_done(c->out[0], a.y);
	for (uint32_t i = 1; i < 4; i++)
		if (optional_out(c, i))
			wide_done(c->out[i], i == 1 ? key : i == 2 ? value : a.qk);
	return 0;
}

static bool attention_accepts(const struct site *s, struct why *why)
{
	enum dtype q = (enum dtype)site_in(s, ATT_Q)->type.dtype,
		   v = (enum dtype)site_in(s, ATT_V)->type.dtype;

	if ((q == DT_F64) != (v == DT_F64))
		return refuse(why, "f64 and %s together", dtype_name(q == DT_F64 ? v : q));
	return true;
}

#define NF (T_F32 | T_F16 | T_BF16)
#define REFERENCE(name, types, accepts, reshape, run)                                              \
	{                                                                                          \
		name, types, K_REFERENCE, accepts, NULL, reshape, run, NULL, NULL                  \
	}
const struct kernel cpu_attention[] = {
	REFERENCE("Attention", T_FLOATS_BF, attention_accepts, attention_reshape, attention_run),
	REFERENCE("ai.onnx.preview::FlexAttention", T_FLOATS_BF, flex_attention_accepts,
		  flex_attention_reshape, flex_attention_run),
	REFERENCE("LinearAttention", NF, NULL, linear_attention_reshape, linear_attention_run),
	REFERENCE("com.microsoft::LinearAttention", NF, NULL, linear_attention_reshape,
		  linear_attention_run),
	REFERENCE("com.microsoft::GatedDeltaNet", NF, NULL, delta_net_reshape, delta_net_run),
	REFERENCE("com.microsoft::LinearAttentionGate", NF, NULL, wide_reshape, linear_gate_run),
	REFERENCE("RotaryEmbedding", NF, NULL, wide_reshape, rotary_run),
	REFERENCE("com.microsoft::RotaryEmbedding", NF, ms_rotary_accepts, wide_reshape, ms_rotary_run),
	REFERENCE("com.microsoft::MRotaryEmbedding", NF, ms_rotary_accepts, mrotary_reshape,
		  mrotary_run),
	REFERENCE("infer::ProjectedAttention", NF, projected_attention_accepts,
		  projected_attention_reshape, projected_attention_run),
	REFERENCE("com.microsoft::MultiHeadAttention", NF, multi_head_accepts, multi_head_reshape,
		  multi_head_run),
	REFERENCE("com.microsoft::GroupQueryAttention", NF, group_query_accepts,
		  group_query_reshape, group_query_run),
	REFERENCE("infer::SparseMask", NF, NULL, NULL, sparse_mask_run),
	REFERENCE("com.microsoft::PagedAttention", T_F16 | T_BF16, paged_accepts, paged_reshape,
		  paged_run),
	{0}};
