/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft's Attention and MultiHeadAttention, which accept the same forms of masks. */
#include "cpu/attention/kernels.h"
#include "cpu/attention/heads.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/attention.h"

/*
 * Returns whether mask_index or key_padding_mask lets query i of batch b see key j. A mask of shape [B] holds the
 * number of valid keys of each batch, [2B] the ends and then the starts of the valid keys, and [3B+2] the numbers of
 * valid keys in the first B elements. Masks of shape [B, keys], [B, queries, keys] and [B, 1, max, max] have an
 * element per key; in the last one rows and columns are positions.
 */
static bool mask_allows(const struct tensor *mask, const struct heads *a, int64_t b, int64_t i,
			int64_t j)
{
	const int32_t *m = mask->data;
	const int64_t *dim = mask->shape.dim;

	switch (mask->shape.rank) {
	case 1: return j < m[b] && (dim[0] != 2 * a->batch || j >= m[a->batch + b]);
	case 2: return j >= dim[1] || m[b * dim[1] + j] > 0;
	case 3: return m[(b * dim[1] + i) * dim[2] + j] > 0;
	default: return m[(b * dim[3] + a->keys - a->queries + i) * dim[3] + j] > 0;
	}
}

/*
 * Writes the numbers that the mask adds to the scores, as [batch, rows, keys]. rows is the number of queries, or 1 if
 * all queries have the same mask.
 */
static void fill_mask(const struct tensor *mask, const struct heads *a, int64_t rows, float *to)
{
	for (int64_t b = 0; b < a->batch; b++)
		for (int64_t i = 0; i < rows; i++)
			for (int64_t j = 0; j < a->keys; j++)
				*to++ = mask_allows(mask, a, b, i, j) ? 0 : a->hidden;
}

static bool mask_fits(const struct tensor *mask, const struct heads *a)
{
	const struct shape *s = &mask->shape;

	if (s->rank == 1)
		return s->dim[0] == a->batch || s->dim[0] == 2 * a->batch;
	if (s->rank == 2)
		return s->dim[0] == a->batch && s->dim[1] <= a->keys;
	if (s->rank == 3)
		return s->dim[0] == a->batch && s->dim[1] == a->queries && s->dim[2] == a->keys;
	return s->rank == 4 && s->dim[0] == a->batch && s->dim[1] == 1 && s->dim[2] == s->dim[3] &&
	       s->dim[3] >= a->keys;
}

/* Sets the masks of `a` from the inputs mask and bias [B or 1, H or 1, queries, keys]; either may be NULL. */
static void add_masks(struct heads *a, const struct tensor *mask, const struct tensor *bias,
		      struct scratch *s)
{
	if (mask) {
		int64_t rows = mask->shape.rank > 2 ? a->queries : 1;
		float *m = scratch_take(s, (size_t)(a->batch * rows * a->keys) * sizeof(float));
		fill_mask(mask, a, rows, m);
		a->mask[0] =
			(struct heads_mask){.data = m,
					    .step = {rows * a->keys, 0, rows > 1 ? a->keys : 0, 1},
					    .keys = a->keys};
	}
	if (bias) {
		a->mask[1].data = wide_in(s, bias);
		heads_mask_steps(&bias->shape, a->keys, &a->mask[1]);
	}
}

/* ---- com.microsoft::Attention ----------------------------------------------------------------- */

/*
 * com.microsoft::Attention is replaced by two nodes: the product of its input and weights, and
 * infer::ProjectedAttention. These are the inputs of infer::ProjectedAttention; the first one is the product, which
 * holds q, k and v side by side.
 */
enum { PRO_QKV, PRO_MASK, PRO_PAST, PRO_BIAS };

static void projected_sizes(const struct ms_attention *p, const struct shape *x,
			    const struct shape *past, struct heads *a)
{
	int64_t third = x->dim[2] / 3;

	a->batch = x->dim[0];
	a->queries = x->dim[1];
	a->heads = a->kv_heads = p->num_heads;
	a->size = (p->qkv_hidden_sizes.n == 3 ? p->qkv_hidden_sizes.v[0] : third) / p->num_heads;
	a->vsize = (p->qkv_hidden_sizes.n == 3 ? p->qkv_hidden_sizes.v[2] : third) / p->num_heads;
	a->keys = a->queries + (past ? past->dim[3] : 0);
}

int projected_attention_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct ms_attention *p = site_params(site);
	const struct vinfo *x = site_in(site, PRO_QKV), *past = site_in(site, PRO_PAST);
	struct heads a = {0};

	(void)d;
	projected_sizes(p, &x->shape, past ? &past->shape : NULL, &a);
	step->workspace =
		wide_workspace(site) + scratch_size(heads_scratch(GEMM_F32, a.queries, a.keys)) +
		2 * scratch_size((size_t)(a.batch * a.heads * a.keys * (a.size + a.vsize)) *
				 sizeof(float)) +
		scratch_size((size_t)(a.batch * a.queries * a.keys) * sizeof(float));
	return 0;
}

int projected_attention_run(const struct call *c)
{
	const struct ms_attention *p = call_params(c);
	const struct tensor *past = optional_in(c, PRO_PAST), *mask = optional_in(c, PRO_MASK),
			    *bias = optional_in(c, PRO_BIAS);
	struct scratch s = scratch_of(c);
	struct heads a = {.left = -1, .right = -1, .causal = p->unidirectional != 0};
	int64_t wide = c->in[PRO_QKV]->shape.dim[2];

	projected_sizes(p, &c->in[PRO_QKV]->shape, past ? &past->shape : NULL, &a);
	int64_t have = a.keys - a.queries, hidden = a.heads * a.size;
	a.scale = heads_ms_scale(p->scale, a.size);
	a.offset = have;
	a.hidden = p->mask_filter_value;
	a.scratch = scratch_take(&s, heads_scratch(GEMM_F32, a.queries, a.keys));
	const float *qkv = wide_in(&s, c->in[PRO_QKV]);
	a.q = (struct attend_view){qkv, a.queries * wide, a.size, wide};
	a.k = (struct attend_view){qkv + hidden, a.queries * wide, a.size, wide};
	a.v = (struct attend_view){qkv + 2 * hidden, a.queries * wide, a.vsize, wide};
	float *present = wide_out(&s, optional_out(c, 1));
	if (past || present) {
		const float *old = wide_in(&s, past);
		size_t kv = (size_t)(a.batch * a.heads * a.keys);
		float *key =
			present ? present
				: scratch_take(&s, kv * (size_t)(a.size + a.vsize) * sizeof(float));
		float *value = key + kv * (size_t)a.size;
		const float *old_value = old ? old + a.batch * a.heads * have * a.size : NULL;
		heads_append(&a, old, have, &a.k, a.queries, a.size, key);
		heads_append(&a, old_value, have, &a.v, a.queries, a.vsize, value);
	}
	if (mask && !mask_fits(mask, &a))
		return call_fail(c, E_SHAPE, "a mask_index of a known form", NULL);
	add_masks(&a, mask, bias, &s);
	heads_merged_result(&a, wide_out(&s, c->out[0]));
	heads_run(&a);
	wide_done(c->out[0], a.y);
	if (present)
		wide_done(c->out[1], present);
	return 0;
}

bool projected_attention_accepts(const struct site *s, struct why *why)
{
	const struct ms_attention *p = site_params(s);

	if (p->do_rotary)
		return refuse(why, "do_rotary");
	if (p->past_present_share_buffer)
		return refuse(why, "past_present_share_buffer");
	return true;
}

/* ---- com.microsoft::MultiHeadAttention -------------------------------------------------------- */

/* How the inputs hold query, key and value: packed together or apart, and in which order of dimensions. */
struct form {
	bool packed_qkv, packed_kv, heads_first; /* heads_first: key and value are [B, H, T, D] */
	int64_t rows; /* number of rows of key and value, without the past */
};

static void multi_head_sizes(const struct multi_head *p, const struct shape *q,
			     const struct shape *k, const struct shape *v, const struct shape *past,
			     struct heads *a, struct form *f)
{
	*f = (struct form){.packed_qkv = q->rank == 5,
			   .packed_kv = k && k->rank == 5,
			   .heads_first = k && k->rank == 4};
	a->batch = q->dim[0];
	a->queries = q->dim[1];
	a->heads = a->kv_heads = p->num_heads;
	a->size = a->vsize = q->rank == 5 ? q->dim[4] : q->dim[2] / p->num_heads;
	f->rows = k ? k->dim[f->heads_first ? 2 : 1] : a->queries;
	if (v)
		a->vsize = v->rank == 4 ? v->dim[3] : v->dim[2] / p->num_heads;
	a->keys = f->rows + (past ? past->dim[2] : 0);
}

int multi_head_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct multi_head *p = site_params(site);
	struct heads a = {0};
	struct form f;

	(void)d;
	multi_head_sizes(p, site_shape(site, MHA_Q), site_shape(site, MHA_K),
			 site_shape(site, MHA_V), site_shape(site, MHA_PAST_K), &a, &f);
	size_t kv = (size_t)(a.batch * a.heads * a.keys);
	step->workspace =
		wide_workspace(site) + scratch_size(heads_scratch(GEMM_F32, a.queries, a.keys)) +
		scratch_size((size_t)(a.batch * a.heads * a.queries * a.size) * sizeof(float)) +
		2 * scratch_size(kv * (size_t)a.size * sizeof(float)) +
		2 * scratch_size(kv * (size_t)a.vsize * sizeof(float)) +
		scratch_size((size_t)(a.batch * a.queries * a.keys) * sizeof(float));
	return 0;
}

/*
 * Copies the heads that x views to a dense tensor [batch, heads, rows, size], adds the bias [heads, size], and
 * returns the view of the copy.
 */
static struct attend_view copy_with_bias(const struct heads *a, const struct attend_view *x,
					 const float *bias, int64_t rows, int64_t size,
					 struct scratch *s)
{
	float *to = scratch_take(s, (size_t)(a->batch * a->heads * rows * size) * sizeof(float));

	for (int64_t bh = 0; bh < a->batch * a->heads; bh++)
		for (int64_t r = 0; r < rows; r++) {
			const float *from = (const float *)x->data + bh / a->heads * x->batch +
					    bh % a->heads * x->head + r * x->row;
			float *y = to + (bh * rows + r) * size;
			for (int64_t i = 0; i < size; i++)
				y[i] = from[i] + bias[bh % a->heads * size + i];
		}
	return heads_view(to, a->heads, rows, size, false);
}

static void multi_head_views(const struct call *c, const struct form *f, struct heads *a,
			     struct scratch *s)
{
	const float *q = wide_in(s, c->in[MHA_Q]), *key = wide_in(s, optional_in(c, MHA_K));
	const float *value = wide_in(s, optional_in(c, MHA_V));
	int64_t n = a->size, wide;

	if (f->packed_qkv) { /* [B, S, H, 3, D] */
		wide = 3 * a->heads * n;
		a->q = (struct attend_view){q, a->queries * wide, 3 * n, wide};
		a->k = (struct attend_view){q + n, a->queries * wide, 3 * n, wide};
		a->v = (struct attend_view){q + 2 * n, a->queries * wide, 3 * n, wide};
		return;
	}
	a->q = heads_view(q, a->heads, a->queries, n, true);
	if (f->packed_kv) { /* [B, T, H, 2, D] */
		wide = 2 * a->heads * n;
		a->k = (struct attend_view){key, f->rows * wide, 2 * n, wide};
		a->v = (struct attend_view){key + n, f->rows * wide, 2 * n, wide};
		return;
	}
	a->k = heads_view(key, a->heads, f->rows, n, !f->heads_first);
	a->v = heads_view(value, a->heads, f->rows, a->vsize, !f->heads_first);
}

int multi_head_run(const struct call *c)
{
	const struct multi_head *p = call_params(c);
	const struct tensor *key = optional_in(c, MHA_K), *value = optional_in(c, MHA_V),
			    *past = optional_in(c, MHA_PAST_K);
	const struct tensor *mask = optional_in(c, MHA_PADDING);
	struct scratch s = scratch_of(c);
	struct heads a = {.left = -1, .right = -1, .causal = p->unidirectional != 0};
	struct form f;

	multi_head_sizes(p, &c->in[MHA_Q]->shape, key ? &key->shape : NULL,
			 value ? &value->shape : NULL, past ? &past->shape : NULL, &a, &f);
	a.scale = heads_ms_scale(p->scale, a.size);
	a.offset = past ? past->shape.dim[2] : 0;
	/* ONNX Runtime lets the last query see all keys; this matters only if there are more keys than queries */
	a.last_sees_all = true;
	a.hidden = p->mask_filter_value;
	a.scratch = scratch_take(&s, heads_scratch(GEMM_F32, a.queries, a.keys));
	multi_head_views(c, &f, &a, &s);
	const float *bias = wide_in(&s, optional_in(c, MHA_BIAS));
	if (bias) {
		a.q = copy_with_bias(&a, &a.q, bias, a.queries, a.size, &s);
		if (!f.heads_first) {
			a.k = copy_with_bias(&a, &a.k, bias + a.heads * a.size, f.rows, a.size, &s);
			a.v = copy_with_bias(&a, &a.v, bias + 2 * a.heads * a.size, f.rows, a.vsize,
					     &s);
		}
	}
	float *pk = wide_out(&s, optional_out(c, 1)), *pv = wide_out(&s, optional_out(c, 2));
	size_t kv = (size_t)(a.batch * a.heads * a.keys);
	int64_t have = past ? past->shape.dim[2] : 0;
	if (past || pk || pv) {
		float *to = pk ? pk : scratch_take(&s, kv * (size_t)a.size * sizeof(float));
		heads_append(&a, wide_in(&s, past), have, &a.k, f.rows, a.size, to);
		to = pv ? pv : scratch_take(&s, kv * (size_t)a.vsize * sizeof(float));
		heads_append(&a, wide_in(&s, optional_in(c, MHA_PAST_V)), have, &a.v, f.rows,
			     a.vsize, to);
	}
	if (mask && !mask_fits(mask, &a) &&
	    !(mask->shape.rank == 1 && mask->shape.dim[0] == 3 * a.batch + 2))
		return call_fail(c, E_SHAPE, "a key_padding_mask of a known form", NULL);
	add_masks(&a, mask, optional_in(c, MHA_ATT_BIAS), &s);
	a.qk = wide_out(&s, optional_out(c, 3));
	heads_merged_result(&a, wide_out(&s, c->out[0]));
	heads_run(&a);
	wide_done(c->out[0], a.y);
	for (uint32_t i = 1; i < 4; i++)
		if (optional_out(c, i))
			wide_done(c->out[i], i == 1 ? pk : i == 2 ? pv : a.qk);
	return 0;
}

bool multi_head_accepts(const struct site *s, struct why *why)
{
	const struct vinfo *q = site_in(s, MHA_Q), *k = site_in(s, MHA_K);

	if (site_in(s, MHA_PAST_LEN) || site_in(s, MHA_CACHE))
		return refuse(why, "a shared cache");
	if (q->shape.rank == 3 && (!k || (k->shape.rank == 3 && !site_in(s, MHA_V))))
		return refuse(why, "a query alone");
	return true;
}
