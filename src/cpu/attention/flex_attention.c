/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FlexAttention of ai.onnx.preview. Its subgraphs score_mod and prob_mod change the scores of all heads at
 * once, so the complete score tensor is kept in memory.
 */
#include "cpu/attention/kernels.h"
#include "cpu/attention/heads.h"
#include "cpu/math/util.h"
#include "cpu/math/wide.h"
#include "ops/attention.h"

#include <string.h>

static void set_sizes(const struct shape *q, const struct shape *k, const struct shape *v,
		      struct heads *a)
{
	a->batch = q->dim[0];
	a->heads = q->dim[1];
	a->kv_heads = k->dim[1];
	a->queries = q->dim[2];
	a->size = q->dim[3];
	a->keys = k->dim[2];
	a->vsize = v->dim[3];
}

/* Returns the element type of the inputs and outputs of score_mod and prob_mod. */
static enum dtype body_type(const struct flex_attention *p, enum dtype q)
{
	if (p->softmax_precision)
		return (enum dtype)p->softmax_precision;
	return q == DT_F64 ? DT_F64 : DT_F32;
}

bool flex_attention_accepts(const struct site *s, struct why *why)
{
	const struct flex_attention *p = site_params(s);
	enum dtype q = (enum dtype)site_in(s, 0)->type.dtype, t = body_type(p, q);

	if (!(T_BIT(t) & T_FLOATS_BF) || (t == DT_F64) != (q == DT_F64))
		return refuse(why, "softmax_precision %s for %s", dtype_name(t), dtype_name(q));
	return true;
}

int flex_attention_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct vinfo *q = site_in(site, 0);
	enum gemm_type real = heads_real((enum dtype)q->type.dtype);
	struct heads a = {0};
	size_t scores;

	(void)d;
	set_sizes(&q->shape, &site_in(site, 1)->shape, &site_in(site, 2)->shape, &a);
	scores = scratch_size((size_t)(a.batch * a.heads * a.queries * a.keys) *
			      heads_real_size(real));
	step->workspace = wide_workspace(site) + scratch_size(gemm_scratch(real)) + 2 * scores;
	return 0;
}

/*
 * Replaces the scores by the output of subgraph k, or keeps them if k < 0. narrow is a buffer for the scores in the
 * subgraph's type, used if `score` has another type.
 */
static int run_body(const struct call *c, int k, enum dtype t, const struct heads *a, void *score,
		    void *narrow)
{
	struct tensor x = {.type = type_tensor(t)};
	const struct tensor *in = &x, *out = NULL;
	int rc;

	if (k < 0)
		return 0;
	x.shape = shape_of(4, (int64_t[]){a->batch, a->heads, a->queries, a->keys});
	x.data = wide_as_is(t) ? score : narrow;
	if (!tensor_bytes(t, &x.shape, LAYOUT_ROW, &x.bytes))
		return call_fail(c, E_SIZE, NULL, NULL);
	wide_done(&x, score);
	struct body *b = c->step->body[k];
	rc = b->ops->run(b, &in, 1, &out, 1, c->diag);
	if (rc)
		return rc;
	if (tensor_dtype(out) != t || !shape_equal(&out->shape, &x.shape))
		return call_fail(c, E_SHAPE, "a body whose output is like its input", NULL);
	if (wide_as_is(t))
		memmove(score, out->data, x.bytes);
	else
		to_f32(t, out->data, 0, tensor_count(out), score);
	return 0;
}

/* Computes one matrix product per head: probabilities * V if of_values is set, otherwise scale * Q K^T. */
static void run_products(const struct heads *a, bool of_values, void *score, void *scratch)
{
	int64_t elem = (int64_t)heads_real_size(a->real), group = a->heads / a->kv_heads;

	for (int64_t bh = 0; bh < a->batch * a->heads; bh++) {
		int64_t kv = bh / a->heads * a->kv_heads + bh % a->heads / group;
		void *s = at_mut(score, bh * a->queries * a->keys * elem);
		struct gemm m = {.m = a->queries, .alpha = 1, .a_col = 1};
		if (!of_values) {
			m.n = a->keys;
			m.k = m.a_row = m.b_col = a->size;
			m.a = at(a->q.data, bh * a->queries * a->size * elem);
			m.b = at(a->k.data, kv * a->keys * a->size * elem);
			m.b_row = 1;
			m.c = s;
			m.alpha = (double)a->scale;
		} else {
			m.n = m.b_row = a->vsize;
			m.k = m.a_row = a->keys;
			m.a = s;
			m.b = at(a->v.data, kv * a->keys * a->vsize * elem);
			m.b_col = 1;
			m.c = at_mut(a->y, bh * a->queries * a->vsize * elem);
		}
		m.c_row = m.n;
		gemm_run(a->real, &m, scratch);
	}
}

int flex_attention_run(const struct call *c)
{
	const struct flex_attention *p = call_params(c);
	enum dtype q = tensor_dtype(c->in[0]), t = body_type(p, q);
	struct scratch s = scratch_of(c);
	struct heads a = {.real = heads_real(q)};
	int rc;

	set_sizes(&c->in[0]->shape, &c->in[1]->shape, &c->in[2]->shape, &a);
	a.scale = heads_scale(p->scale, a.size);
	int64_t rows = a.batch * a.heads * a.queries;
	size_t bytes = (size_t)(rows * a.keys) * heads_real_size(a.real);
	void *gemm = scratch_take(&s, gemm_scratch(a.real));
	void *score = scratch_take(&s, bytes), *narrow = scratch_take(&s, bytes);
	a.q.data = wide_in(&s, c->in[0]);
	a.k.data = wide_in(&s, c->in[1]);
	a.v.data = wide_in(&s, c->in[2]);
	a.y = wide_out(&s, c->out[0]);
	run_products(&a, false, score, gemm);
	if ((rc = run_body(c, p->score_mod, t, &a, score, narrow)))
		return rc;
	heads_softmax(a.real, score, rows, a.keys);
	if ((rc = run_body(c, p->prob_mod, t, &a, score, narrow)))
		return rc;
	run_products(&a, true, score, gemm);
	wide_done(c->out[0], a.y);
	return 0;
}
