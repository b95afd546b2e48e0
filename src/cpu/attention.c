/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention in all its forms. Work is handed out by head and block of queries: the scores of a
 * block are one product, masked and normalised row by row, and multiplied with the values.
 */
#include "ops/attention.h"

#include "base/pool.h"
#include "cpu/gemm.h"
#include "cpu/simd.h"
#include "cpu/wide.h"

#include <math.h>
#include <string.h>

enum { ATT_BLOCK = 64, ATT_MASKS = 2 };

/* What every form comes to; the data stand beside it. */
struct att {
	int64_t batch, heads, kv_heads, queries, keys, size, vsize;
	float scale, softcap;
	bool causal;
	bool last_sees_all;	/* causal says nothing of the last query */
	int64_t left, right;	/* window; -1: no bound */
	int64_t offset;		/* position of query 0 */
	const int64_t *offsets; /* of each batch, instead */
	const int64_t *valid;	/* of each batch: keys that count; NULL: all */
	int64_t mask_step[ATT_MASKS][4], mask_keys[ATT_MASKS];
	const uint8_t *hide; /* 0: the key is hidden */
	int64_t hide_step[4], hide_keys;
	float hidden;	  /* what a hidden key's score gets added; -inf: it is out */
	int mode;	  /* what qk is: 0 product, 1 capped, 2 masked, 3 probabilities */
	enum dtype round; /* scores and probabilities go through this type */
};

/* Keys first..end-1 that query i of batch b may see. */
static void att_range(const struct att *a, int64_t b, int64_t i, int64_t *first, int64_t *end)
{
	int64_t p = i + (a->offsets ? a->offsets[b] : a->offset);

	*first = a->left >= 0 && p - a->left > 0 ? p - a->left : 0;
	*end = a->keys;
	if (a->right >= 0 && p + a->right + 1 < *end)
		*end = p + a->right + 1;
	if (a->causal && p + 1 < *end && !(a->last_sees_all && i + 1 == a->queries))
		*end = p + 1;
}

static size_t att_scratch_one(enum gemm_type t, int64_t queries, int64_t keys)
{
	size_t rows = (size_t)(queries < ATT_BLOCK ? queries : ATT_BLOCK);

	return scratch_size(gemm_scratch_one(t)) +
	       scratch_size(rows * (size_t)keys * (t == GEMM_F64 ? 8 : 4));
}

static const struct tensor *att_in(const struct call *c, uint32_t i)
{
	return i < c->step->nin ? c->in[i] : NULL;
}

static struct tensor *att_out(const struct call *c, uint32_t i)
{
	return i < c->step->nout ? c->out[i] : NULL;
}

/* Strides of a mask broadcast (aligned right) to [batch, heads, queries, keys]. */
static void mask_steps(const struct shape *s, int64_t keys, int64_t *step, int64_t *mask_keys)
{
	int64_t own[MAX_RANK];

	shape_strides(s, own);
	*mask_keys = s->rank ? s->dim[s->rank - 1] : keys;
	for (int i = 0; i < 4; i++)
		step[i] = i < 4 - s->rank ? 0 : own[i - (4 - s->rank)];
	if (s->rank && *mask_keys == 1)
		step[3] = 0;
}

static float row_max_f32(const float *s, int64_t n)
{
	return simd()->max(s, n);
}

static float row_exp_f32(float *s, int64_t n, float top)
{
	return simd()->exp_sum(s, s, n, top);
}

static void softcap_f32(float *s, int64_t n, float cap)
{
	simd()->scale_shift(s, s, n, 0, 1 / cap, 0);
	simd()->map[VF_TANH](s, s, n, NULL);
	simd()->scale_shift(s, s, n, 0, cap, 0);
}

static double row_max_f64(const double *s, int64_t n)
{
	double top = -INFINITY;

	for (int64_t i = 0; i < n; i++)
		top = s[i] > top || isnan(s[i]) ? s[i] : top;
	return top;
}

static double row_exp_f64(double *s, int64_t n, double top)
{
	double sum = 0;

	for (int64_t i = 0; i < n; i++)
		sum += s[i] = exp(s[i] - top);
	return sum;
}

static void softcap_f64(double *s, int64_t n, double cap)
{
	for (int64_t i = 0; i < n; i++)
		s[i] = cap * tanh(s[i] / cap);
}

#define TEMPLATE "cpu/attention.inc"
#include "cpu/reals.inc"

static float scale_or(float scale, int64_t size)
{
	return isnan(scale) ? 1 / sqrtf((float)(size > 0 ? size : 1)) : scale;
}

/* com.microsoft's operators say 0 for the usual one. */
static float ms_scale(float scale, int64_t size)
{
	return scale_or(scale == 0 ? NAN : scale, size);
}

static enum gemm_type gemm_of(enum dtype t)
{
	return t == DT_F64 ? GEMM_F64 : GEMM_F32;
}

/* ---- Attention (ai.onnx) ---------------------------------------------------------------------- */

/* Sizes alone: shapes of Q, K, V and of past_key (NULL: none). */
static void attention_sizes(const struct attention *p, const struct shape *q, const struct shape *k,
			    const struct shape *v, const struct shape *past, struct att *a)
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
	enum gemm_type t = gemm_of((enum dtype)q->type.dtype);
	size_t elem = t == GEMM_F64 ? 8 : 4;
	struct att a = {0};

	(void)d;
	attention_sizes(p, &q->shape, &k->shape, &v->shape, past ? &past->shape : NULL, &a);
	step->workspace =
		wide_workspace(site) + 2 * scratch_size((size_t)a.batch * sizeof(int64_t)) +
		scratch_size(att_scratch_one(t, a.queries, a.keys) * (size_t)pool_threads());
	if (past)
		step->workspace +=
			scratch_size((size_t)(a.batch * a.kv_heads * a.keys * a.size) * elem) +
			scratch_size((size_t)(a.batch * a.kv_heads * a.keys * a.vsize) * elem);
	if (mask)
		step->workspace += scratch_size((size_t)shape_count(&mask->shape) * elem);
	return 0;
}

static int attention_run(const struct call *c)
{
	const struct attention *p = call_params(c);
	const struct tensor *past = att_in(c, ATT_PAST_K), *mask = att_in(c, ATT_MASK),
			    *pad = att_in(c, ATT_NONPAD);
	struct att a = {.softcap = p->softcap,
			.causal = p->is_causal != 0,
			.left = p->left_window_size,
			.right = p->right_window_size,
			.hidden = -INFINITY,
			.mode = (int)p->qk_matmul_output_mode};
	struct scratch s = scratch_of(c);

	attention_sizes(p, &c->in[ATT_Q]->shape, &c->in[ATT_K]->shape, &c->in[ATT_V]->shape,
			past ? &past->shape : NULL, &a);
	a.scale = scale_or(p->scale, a.size);
	if (p->softmax_precision == DT_F16 || p->softmax_precision == DT_BF16)
		a.round = (enum dtype)p->softmax_precision;
	a.offset = past ? past->shape.dim[2] : 0;
	if (pad) {
		int64_t *valid = scratch_take(&s, (size_t)a.batch * sizeof(int64_t));
		int64_t *offsets = scratch_take(&s, (size_t)a.batch * sizeof(int64_t));
		if (tensor_count(pad) != a.batch)
			return call_fail(c, E_SHAPE, "nonpad_kv_seqlen of one number a batch", NULL);
		for (int64_t b = 0; b < a.batch; b++) {
			valid[b] = ((const int64_t *)pad->data)[b];
			offsets[b] = valid[b] - a.queries;
		}
		a.valid = valid;
		if (!past)
			a.offsets = offsets;
	}
	if (mask && tensor_dtype(mask) == DT_BOOL) {
		a.hide = mask->data;
		mask_steps(&mask->shape, a.keys, a.hide_step, &a.hide_keys);
	} else if (mask) {
		mask_steps(&mask->shape, a.keys, a.mask_step[0], &a.mask_keys[0]);
	}
	if (tensor_count(c->out[0]) == 0 && a.keys == 0)
		return 0;
	return tensor_dtype(c->in[ATT_Q]) == DT_F64 ? run_attention_f64(c, &a, &s)
						    : run_attention_f32(c, &a, &s);
}

static bool attention_accepts(const struct site *s, struct why *why)
{
	enum dtype q = (enum dtype)site_in(s, ATT_Q)->type.dtype,
		   v = (enum dtype)site_in(s, ATT_V)->type.dtype;

	if ((q == DT_F64) != (v == DT_F64))
		return refuse(why, "f64 and %s together", dtype_name(q == DT_F64 ? v : q));
	return true;
}

/* ---- FlexAttention ---------------------------------------------------------------------------- */

static void flex_sizes(const struct shape *q, const struct shape *k, const struct shape *v,
		       struct att *a)
{
	a->batch = q->dim[0];
	a->heads = q->dim[1];
	a->kv_heads = k->dim[1];
	a->queries = q->dim[2];
	a->size = q->dim[3];
	a->keys = k->dim[2];
	a->vsize = v->dim[3];
}

static enum dtype flex_type(const struct flex_attention *p, enum dtype q)
{
	if (p->softmax_precision > 0 && p->softmax_precision < DT_COUNT)
		return (enum dtype)p->softmax_precision;
	return q == DT_F64 ? DT_F64 : DT_F32;
}

static bool flex_accepts(const struct site *s, struct why *why)
{
	const struct flex_attention *p = site_params(s);
	enum dtype q = (enum dtype)site_in(s, 0)->type.dtype, t = flex_type(p, q);

	if (!(T_BIT(t) & T_FLOATS_BF) || (t == DT_F64) != (q == DT_F64))
		return refuse(why, "softmax_precision %s for %s", dtype_name(t), dtype_name(q));
	return true;
}

static int flex_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct vinfo *q = site_in(site, 0);
	struct att a = {0};
	bool f64 = q->type.dtype == DT_F64;
	size_t scores;

	(void)d;
	flex_sizes(&q->shape, &site_in(site, 1)->shape, &site_in(site, 2)->shape, &a);
	scores = scratch_size((size_t)(a.batch * a.heads * a.queries * a.keys) * (f64 ? 8 : 4));
	step->workspace = wide_workspace(site) +
			  scratch_size(gemm_scratch(f64 ? GEMM_F64 : GEMM_F32)) + 2 * scores;
	return 0;
}

/* Body k (or none) on the scores, in place; narrow: room for them in a half type. */
static int flex_body(const struct call *c, int k, enum dtype t, const struct att *a, void *score,
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

static int flex_run(const struct call *c)
{
	const struct flex_attention *p = call_params(c);
	enum dtype q = tensor_dtype(c->in[0]), t = flex_type(p, q);
	struct scratch s = scratch_of(c);
	struct att a = {0};
	bool f64 = q == DT_F64;
	int rc;

	flex_sizes(&c->in[0]->shape, &c->in[1]->shape, &c->in[2]->shape, &a);
	a.scale = scale_or(p->scale, a.size);
	int64_t rows = a.batch * a.heads * a.queries;
	size_t bytes = (size_t)(rows * a.keys) * (f64 ? 8 : 4);
	void *gemm = scratch_take(&s, gemm_scratch(f64 ? GEMM_F64 : GEMM_F32));
	void *score = scratch_take(&s, bytes), *narrow = scratch_take(&s, bytes);
	const void *data[3];
	for (int i = 0; i < 3; i++)
		data[i] = wide_in(&s, c->in[i]);
	void *y = wide_out(&s, c->out[0]);
	if (f64)
		flex_products_f64(&a, data[0], data[1], NULL, score, NULL, gemm);
	else
		flex_products_f32(&a, data[0], data[1], NULL, score, NULL, gemm);
	if ((rc = flex_body(c, p->score_mod, t, &a, score, narrow)))
		return rc;
	if (f64)
		flex_softmax_f64(score, rows, a.keys);
	else
		flex_softmax_f32(score, rows, a.keys);
	if ((rc = flex_body(c, p->prob_mod, t, &a, score, narrow)))
		return rc;
	if (f64)
		flex_products_f64(&a, NULL, NULL, data[2], score, y, gemm);
	else
		flex_products_f32(&a, NULL, NULL, data[2], score, y, gemm);
	wide_done(c->out[0], y);
	return 0;
}

/* ---- LinearAttention -------------------------------------------------------------------------- */

struct linear {
	const struct linear_attention *p;
	int64_t batch, length, size, vsize;
	int64_t decay_size, beta_heads; /* of a head and step; 0: none */
	const float *q, *k, *v, *decay, *beta;
	float *state, *y;
	float scale;
	char *scratch;
};

/* One step of one head: the state, then what its queries read. */
static void linear_step(const struct linear *l, int64_t b, int64_t h, int64_t t, float *s, float *read)
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
	for (int64_t n = h * (hq / hk); n < (h + 1) * (hq / hk); n++) {
		const float *q = l->q + (row * hq + n) * l->size;
		float *y = l->y + (row * hq + n) * l->vsize;
		memset(y, 0, (size_t)l->vsize * sizeof(float));
		for (int64_t i = 0; i < l->size; i++)
			for (int64_t m = 0; m < l->vsize; m++)
				y[m] += l->scale * q[i] * s[i * l->vsize + m];
	}
}

static void linear_heads(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct linear *l = arg;
	float *read = (float *)(void *)(l->scratch + (size_t)thread * scratch_size((size_t)l->vsize *
										   sizeof(float)));

	for (int64_t i = begin; i < end; i++)
		for (int64_t t = 0; t < l->length; t++)
			linear_step(l, i / l->p->kv_num_heads, i % l->p->kv_num_heads, t,
				    l->state + i * l->size * l->vsize, read);
}

static int64_t linear_vsize(const struct linear_attention *p, const struct shape *v)
{
	return v->dim[2] / p->kv_num_heads;
}

static size_t linear_state(const struct linear_attention *p, const struct shape *q,
			   const struct shape *v)
{
	return (size_t)(q->dim[0] * p->kv_num_heads * (q->dim[2] / p->q_num_heads) *
			linear_vsize(p, v)) *
	       sizeof(float);
}

static int linear_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct linear_attention *p = site_params(site);
	const struct shape *q = &site_in(site, LIN_Q)->shape, *v = &site_in(site, LIN_V)->shape;

	(void)d;
	step->workspace =
		wide_workspace(site) + scratch_size(linear_state(p, q, v)) +
		scratch_size((size_t)linear_vsize(p, v) * sizeof(float)) * (size_t)pool_threads();
	return 0;
}

static int linear_run(const struct call *c)
{
	const struct linear_attention *p = call_params(c);
	const struct shape *q = &c->in[LIN_Q]->shape, *v = &c->in[LIN_V]->shape;
	const struct tensor *decay = att_in(c, LIN_DECAY), *beta = att_in(c, LIN_BETA),
			    *past = att_in(c, LIN_PAST);
	struct scratch s = scratch_of(c);
	struct linear l = {.p = p,
			   .batch = q->dim[0],
			   .length = q->dim[1],
			   .size = q->dim[2] / p->q_num_heads,
			   .vsize = linear_vsize(p, v)};
	size_t bytes = linear_state(p, q, v);

	l.decay_size = decay ? decay->shape.dim[2] / p->kv_num_heads : 0;
	l.beta_heads = beta ? beta->shape.dim[2] : 0;
	if ((decay && l.decay_size != 1 && l.decay_size != l.size) ||
	    (beta && l.beta_heads != 1 && l.beta_heads != p->kv_num_heads))
		return call_fail(c, E_SHAPE, "decay and beta that fit the heads", NULL);
	l.scale = p->scale != 0 ? p->scale : scale_or(NAN, l.size);
	l.scratch = scratch_take(&s, scratch_size((size_t)l.vsize * sizeof(float)) *
					     (size_t)pool_threads());
	l.state = scratch_take(&s, bytes);
	l.q = wide_in(&s, c->in[LIN_Q]);
	l.k = wide_in(&s, c->in[LIN_K]);
	l.v = wide_in(&s, c->in[LIN_V]);
	l.decay = wide_in(&s, decay);
	l.beta = wide_in(&s, beta);
	l.y = wide_out(&s, c->out[0]);
	if (past)
		memcpy(l.state, wide_in(&s, past), bytes);
	else
		memset(l.state, 0, bytes);
	pool_for(l.batch * p->kv_num_heads, 1, linear_heads, &l);
	wide_done(c->out[0], l.y);
	struct tensor *present = att_out(c, 1);
	if (present && wide_as_is(tensor_dtype(present)))
		memcpy(present->data, l.state, bytes);
	else
		wide_done(present, l.state);
	return 0;
}

/* ---- RotaryEmbedding -------------------------------------------------------------------------- */

/* Where heads lie: element (b, s, n) begins at b * batch + s * row + n * head. */
struct turn {
	const float *x;
	float *y;
	int64_t batches, length, heads, size, turned; /* size of a head; elements of it that turn */
	int64_t batch, row, head;
	const float *cos, *sin;		      /* rows of turned / 2 */
	const int64_t *position;	      /* NULL: row b * length + s of the caches */
	int64_t position_batch, position_row; /* strides */
	int64_t start;			      /* added where position is NULL and `counted` */
	bool interleaved, counted;
	const int64_t *starts; /* per batch, instead of start */
};

static int64_t turn_row(const struct turn *t, int64_t b, int64_t s)
{
	if (t->position)
		return t->position[b * t->position_batch + s * t->position_row];
	if (t->counted)
		return (t->starts ? t->starts[b] : t->start) + s;
	return b * t->length + s;
}

static void turn_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct turn *t = arg;
	int64_t half = t->turned / 2;

	(void)thread;
	for (int64_t i = begin; i < end; i++) { /* batch, position */
		int64_t b = i / t->length, s = i % t->length, r = turn_row(t, b, s);
		const float *co = t->cos + r * half, *si = t->sin + r * half;
		for (int64_t n = 0; n < t->heads; n++) {
			int64_t at = b * t->batch + s * t->row + n * t->head;
			const float *x = t->x + at;
			float *y = t->y + at;
			for (int64_t k = 0; k < half; k++) {
				int64_t p = t->interleaved ? 2 * k : k,
					q = t->interleaved ? 2 * k + 1 : k + half;
				float u = x[p], v = x[q];
				y[p] = co[k] * u - si[k] * v;
				y[q] = si[k] * u + co[k] * v;
			}
			if (y != x)
				memcpy(y + t->turned, x + t->turned,
				       (size_t)(t->size - t->turned) * sizeof(float));
		}
	}
}

/* Whether every row that will be read exists in caches of `rows` rows. */
static bool turn_fits(const struct turn *t, int64_t rows)
{
	for (int64_t b = 0; b < t->batches; b++)
		for (int64_t s = 0; s < t->length; s++) {
			int64_t r = turn_row(t, b, s);
			if (r < 0 || r >= rows)
				return false;
		}
	return true;
}

static int rotary_common(const struct call *c, uint32_t cos_at, uint32_t position_at, bool ms)
{
	const struct rotary *p = call_params(c);
	const struct tensor *x = c->in[0], *cos = c->in[cos_at], *sin = c->in[cos_at + 1];
	const struct tensor *position = att_in(c, position_at);
	struct scratch s = scratch_of(c);
	int64_t half = cos->shape.dim[cos->shape.rank - 1], n = p->num_heads,
		hidden = x->shape.dim[x->shape.rank - 1];
	struct turn t = {.batches = x->shape.dim[0], .interleaved = p->interleaved != 0};

	if (x->shape.rank == 4) {
		t.heads = x->shape.dim[1];
		t.length = x->shape.dim[2];
		t.size = hidden;
	} else {
		/* without num_heads the caches tell the size of a head */
		t.size = n > 0 ? hidden / n : p->rotary_embedding_dim > 0 ? 0 : 2 * half;
		t.heads = n > 0 ? n : t.size > 0 ? hidden / t.size : 0;
		t.length = x->shape.dim[1];
	}
	t.turned = p->rotary_embedding_dim > 0 ? p->rotary_embedding_dim : t.size;
	if (t.size < 1 || t.turned > t.size || t.turned != 2 * half ||
	    t.heads * t.size != (x->shape.rank == 4 ? t.heads : 1) * hidden)
		return call_fail(c, E_SHAPE, "caches and heads that fit the input", NULL);
	t.batch = t.heads * t.length * t.size;
	t.head = x->shape.rank == 4 ? t.length * t.size : t.size;
	t.row = x->shape.rank == 4 ? t.size : t.heads * t.size;
	if (position && ms && tensor_count(position) == 1 && t.batches * t.length != 1) {
		t.counted = true;
		t.start = *(const int64_t *)position->data;
	} else if (position) {
		t.position = position->data;
		t.position_batch = position->shape.dim[0] == 1 ? 0 : t.length;
		t.position_row = 1;
		if (tensor_count(position) != t.batches * t.length && t.position_batch)
			return call_fail(c, E_SHAPE, "position_ids of every batch and position", NULL);
	}
	t.cos = wide_in(&s, cos);
	t.sin = wide_in(&s, sin);
	if (half && !turn_fits(&t, tensor_count(cos) / half))
		return call_fail(c, E_VALUE, "positions that the caches have", NULL);
	t.x = wide_in(&s, x);
	t.y = wide_out(&s, c->out[0]);
	pool_for(t.batches * t.length, 1 + 8192 / (t.heads * t.size + 1), turn_part, &t);
	wide_done(c->out[0], t.y);
	return 0;
}

static int rotary_run(const struct call *c)
{
	return rotary_common(c, 1, 3, false);
}

static int ms_rotary_run(const struct call *c)
{
	return rotary_common(c, 2, 1, true);
}

static bool ms_rotary_accepts(const struct site *s, struct why *why)
{
	const struct rotary *p = site_params(s);

	if (p->is_packed_batching)
		return refuse(why, "packed batching");
	if (p->scale != 1)
		return refuse(why, "scale %g", (double)p->scale);
	return true;
}

/* ---- com.microsoft: masks --------------------------------------------------------------------- */

/*
 * mask_index and key_padding_mask as what is added to the scores: [batch, queries or 1, keys].
 * Its forms: [B]: how many keys count; [2B] and [3B+2]: ends, then starts; [B, keys]; [B, queries,
 * keys]; [B, 1, max, max], of which the rows of these queries count.
 */
static void ms_mask(const struct tensor *mask, const struct att *a, float filter, float *to)
{
	const int32_t *m = mask->data;
	int rank = mask->shape.rank;
	int64_t past = a->keys - a->queries, rows = rank > 2 ? a->queries : 1;

	for (int64_t b = 0; b < a->batch; b++)
		for (int64_t i = 0; i < rows; i++)
			for (int64_t j = 0; j < a->keys; j++) {
				bool see;
				if (rank == 1) {
					bool starts = mask->shape.dim[0] == 2 * a->batch;
					see = j < m[b] && (!starts || j >= m[a->batch + b]);
				} else if (rank == 2) {
					see = j < mask->shape.dim[1]
						      ? m[b * mask->shape.dim[1] + j] > 0
						      : true;
				} else if (rank == 3) {
					see = m[(b * mask->shape.dim[1] + i) * mask->shape.dim[2] + j] >
					      0;
				} else {
					int64_t most = mask->shape.dim[3];
					see = m[(b * most + past + i) * most + j] > 0;
				}
				to[(b * rows + i) * a->keys + j] = see ? 0 : filter;
			}
}

static bool ms_mask_fits(const struct tensor *mask, const struct att *a)
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

static void ms_mask_steps(const struct tensor *mask, struct att *a)
{
	bool rows = mask->shape.rank > 2;

	a->mask_keys[0] = a->keys;
	a->mask_step[0][0] = (rows ? a->queries : 1) * a->keys;
	a->mask_step[0][1] = 0;
	a->mask_step[0][2] = rows ? a->keys : 0;
	a->mask_step[0][3] = 1;
}

/* attention_bias [B or 1, H or 1, queries, keys] as the second mask. */
static void bias_steps(const struct tensor *bias, struct att *a)
{
	mask_steps(&bias->shape, a->keys, a->mask_step[1], &a->mask_keys[1]);
}

/* Both masks, where they are given. */
static void ms_masks(struct core_f32 *k, const struct tensor *mask, const struct tensor *bias,
		     struct scratch *s)
{
	struct att *a = &k->a;

	if (mask) {
		float *m = scratch_take(s, (size_t)(a->batch * a->queries * a->keys) * sizeof(float));
		ms_mask(mask, a, a->hidden, m);
		ms_mask_steps(mask, a);
		k->mask[0] = m;
	}
	if (bias) {
		k->mask[1] = wide_in(s, bias);
		bias_steps(bias, a);
	}
}

/* The heads' results lie side by side: [batch, queries, heads * vsize]. */
static void ms_result(struct core_f32 *k, float *y)
{
	const struct att *a = &k->a;

	k->y = y;
	k->y_row = a->heads * a->vsize;
	k->y_head = a->vsize;
	k->y_batch = a->queries * k->y_row;
}

/* ---- com.microsoft::Attention ----------------------------------------------------------------- */

/* infer::ProjectedAttention, which it expands to: the product of the input and the weights is there. */
enum { PRO_QKV, PRO_MASK, PRO_PAST, PRO_BIAS };

static void ms_attention_sizes(const struct ms_attention *p, const struct shape *x,
			       const struct shape *past, struct att *a)
{
	int64_t third = x->dim[2] / 3;

	a->batch = x->dim[0];
	a->queries = x->dim[1];
	a->heads = a->kv_heads = p->num_heads;
	a->size = (p->qkv_hidden_sizes.n == 3 ? p->qkv_hidden_sizes.v[0] : third) / p->num_heads;
	a->vsize = (p->qkv_hidden_sizes.n == 3 ? p->qkv_hidden_sizes.v[2] : third) / p->num_heads;
	a->keys = a->queries + (past ? past->dim[3] : 0);
}

static int ms_attention_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct ms_attention *p = site_params(site);
	const struct vinfo *x = site_in(site, PRO_QKV), *past = site_in(site, PRO_PAST);
	struct att a = {0};

	(void)d;
	ms_attention_sizes(p, &x->shape, past ? &past->shape : NULL, &a);
	step->workspace =
		wide_workspace(site) +
		scratch_size(att_scratch_one(GEMM_F32, a.queries, a.keys) * (size_t)pool_threads()) +
		2 * scratch_size((size_t)(a.batch * a.heads * a.keys * (a.size + a.vsize)) *
				 sizeof(float)) +
		scratch_size((size_t)(a.batch * a.queries * a.keys) * sizeof(float));
	return 0;
}

static int ms_attention_run(const struct call *c)
{
	const struct ms_attention *p = call_params(c);
	const struct tensor *past = att_in(c, PRO_PAST), *mask = att_in(c, PRO_MASK),
			    *bias = att_in(c, PRO_BIAS);
	struct scratch s = scratch_of(c);
	struct core_f32 k = {.a = {.left = -1, .right = -1, .causal = p->unidirectional != 0}};
	struct att *a = &k.a;
	int64_t wide = c->in[PRO_QKV]->shape.dim[2];

	ms_attention_sizes(p, &c->in[PRO_QKV]->shape, past ? &past->shape : NULL, a);
	int64_t have = a->keys - a->queries, hidden = a->heads * a->size;
	a->scale = ms_scale(p->scale, a->size);
	a->offset = have;
	a->hidden = p->mask_filter_value;
	k.scratch = scratch_take(&s, att_scratch_one(GEMM_F32, a->queries, a->keys) *
					     (size_t)pool_threads());
	const float *qkv = wide_in(&s, c->in[PRO_QKV]);
	k.q = (struct att_view_f32){qkv, a->queries * wide, a->size, wide};
	k.k = (struct att_view_f32){qkv + hidden, a->queries * wide, a->size, wide};
	k.v = (struct att_view_f32){qkv + 2 * hidden, a->queries * wide, a->vsize, wide};
	float *present = wide_out(&s, att_out(c, 1));
	if (past || present) {
		const float *old = wide_in(&s, past);
		size_t kv = (size_t)(a->batch * a->heads * a->keys);
		float *key =
			present ? present
				: scratch_take(&s, kv * (size_t)(a->size + a->vsize) * sizeof(float));
		float *value = key + kv * (size_t)a->size;
		append_f32(a, old, have, have, &k.k, a->queries, a->size, key, a->keys);
		append_f32(a, old ? old + a->batch * a->heads * have * a->size : NULL, have, have,
			   &k.v, a->queries, a->vsize, value, a->keys);
		k.k = view_of_f32(key, a->heads, a->keys, a->size, false);
		k.v = view_of_f32(value, a->heads, a->keys, a->vsize, false);
	}
	if (mask && !ms_mask_fits(mask, a))
		return call_fail(c, E_SHAPE, "a mask_index of a known form", NULL);
	ms_masks(&k, mask, bias, &s);
	ms_result(&k, wide_out(&s, c->out[0]));
	att_run_f32(&k);
	wide_done(c->out[0], k.y);
	if (present)
		wide_done(c->out[1], present);
	return 0;
}

static bool ms_attention_accepts(const struct site *s, struct why *why)
{
	const struct ms_attention *p = site_params(s);

	if (p->do_rotary)
		return refuse(why, "do_rotary");
	if (p->past_present_share_buffer)
		return refuse(why, "past_present_share_buffer");
	return true;
}

/* ---- com.microsoft::MultiHeadAttention -------------------------------------------------------- */

/* The forms of key and value, and whether q, k and v come in one. */
struct mha_form {
	bool packed_qkv, packed_kv, heads_first; /* heads_first: key and value are [B, H, T, D] */
	int64_t rows;				 /* of key and value, without the past */
};

static void mha_sizes(const struct multi_head *p, const struct shape *q, const struct shape *k,
		      const struct shape *v, const struct shape *past, struct att *a,
		      struct mha_form *f)
{
	*f = (struct mha_form){.packed_qkv = q->rank == 5,
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

static const struct shape *shape_at(const struct site *s, uint32_t i)
{
	const struct vinfo *v = site_in(s, i);

	return v ? &v->shape : NULL;
}

static int mha_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct multi_head *p = site_params(site);
	struct att a = {0};
	struct mha_form f;

	(void)d;
	mha_sizes(p, shape_at(site, MHA_Q), shape_at(site, MHA_K), shape_at(site, MHA_V),
		  shape_at(site, MHA_PAST_K), &a, &f);
	size_t kv = (size_t)(a.batch * a.heads * a.keys);
	step->workspace =
		wide_workspace(site) +
		scratch_size(att_scratch_one(GEMM_F32, a.queries, a.keys) * (size_t)pool_threads()) +
		scratch_size((size_t)(a.batch * a.heads * a.queries * a.size) * sizeof(float)) +
		2 * scratch_size(kv * (size_t)a.size * sizeof(float)) +
		2 * scratch_size(kv * (size_t)a.vsize * sizeof(float)) +
		scratch_size((size_t)(a.batch * a.queries * a.keys) * sizeof(float));
	return 0;
}

/* A copy of what x views with the bias of its heads added, dense and heads first. */
static struct att_view_f32 with_bias(const struct att *a, const struct att_view_f32 *x,
				     const float *bias, int64_t rows, int64_t size, struct scratch *s)
{
	float *to = scratch_take(s, (size_t)(a->batch * a->heads * rows * size) * sizeof(float));

	for (int64_t bh = 0; bh < a->batch * a->heads; bh++)
		for (int64_t r = 0; r < rows; r++) {
			const float *from = x->data + bh / a->heads * x->batch +
					    bh % a->heads * x->head + r * x->row;
			float *y = to + (bh * rows + r) * size;
			for (int64_t i = 0; i < size; i++)
				y[i] = from[i] + bias[bh % a->heads * size + i];
		}
	return view_of_f32(to, a->heads, rows, size, false);
}

static void mha_views(const struct call *c, const struct mha_form *f, struct core_f32 *k,
		      struct scratch *s)
{
	const struct att *a = &k->a;
	const float *q = wide_in(s, c->in[MHA_Q]), *key = wide_in(s, att_in(c, MHA_K));
	const float *value = wide_in(s, att_in(c, MHA_V));
	int64_t n = a->size, wide;

	if (f->packed_qkv) { /* [B, S, H, 3, D] */
		wide = 3 * a->heads * n;
		k->q = (struct att_view_f32){q, a->queries * wide, 3 * n, wide};
		k->k = (struct att_view_f32){q + n, a->queries * wide, 3 * n, wide};
		k->v = (struct att_view_f32){q + 2 * n, a->queries * wide, 3 * n, wide};
		return;
	}
	k->q = view_of_f32(q, a->heads, a->queries, n, true);
	if (f->packed_kv) { /* [B, T, H, 2, D] */
		wide = 2 * a->heads * n;
		k->k = (struct att_view_f32){key, f->rows * wide, 2 * n, wide};
		k->v = (struct att_view_f32){key + n, f->rows * wide, 2 * n, wide};
		return;
	}
	k->k = view_of_f32(key, a->heads, f->rows, n, !f->heads_first);
	k->v = view_of_f32(value, a->heads, f->rows, a->vsize, !f->heads_first);
}

static int mha_run(const struct call *c)
{
	const struct multi_head *p = call_params(c);
	const struct tensor *key = att_in(c, MHA_K), *value = att_in(c, MHA_V),
			    *past = att_in(c, MHA_PAST_K);
	const struct tensor *mask = att_in(c, MHA_PADDING);
	struct scratch s = scratch_of(c);
	struct core_f32 k = {.a = {.left = -1, .right = -1, .causal = p->unidirectional != 0}};
	struct att *a = &k.a;
	struct mha_form f;

	mha_sizes(p, &c->in[MHA_Q]->shape, key ? &key->shape : NULL, value ? &value->shape : NULL,
		  past ? &past->shape : NULL, a, &f);
	a->scale = ms_scale(p->scale, a->size);
	a->offset = past ? past->shape.dim[2] : 0;
	a->last_sees_all =
		true; /* as in ONNX Runtime: it counts where there are more keys than queries */
	a->hidden = p->mask_filter_value;
	k.scratch = scratch_take(&s, att_scratch_one(GEMM_F32, a->queries, a->keys) *
					     (size_t)pool_threads());
	mha_views(c, &f, &k, &s);
	const float *bias = wide_in(&s, att_in(c, MHA_BIAS));
	if (bias) {
		k.q = with_bias(a, &k.q, bias, a->queries, a->size, &s);
		if (!f.heads_first) {
			k.k = with_bias(a, &k.k, bias + a->heads * a->size, f.rows, a->size, &s);
			k.v = with_bias(a, &k.v, bias + 2 * a->heads * a->size, f.rows, a->vsize, &s);
		}
	}
	float *pk = wide_out(&s, att_out(c, 1)), *pv = wide_out(&s, att_out(c, 2));
	size_t kv = (size_t)(a->batch * a->heads * a->keys);
	int64_t have = past ? past->shape.dim[2] : 0;
	if (past || pk || pv) {
		float *to = pk ? pk : scratch_take(&s, kv * (size_t)a->size * sizeof(float));
		append_f32(a, wide_in(&s, past), have, have, &k.k, f.rows, a->size, to, a->keys);
		k.k = view_of_f32(to, a->heads, a->keys, a->size, false);
		to = pv ? pv : scratch_take(&s, kv * (size_t)a->vsize * sizeof(float));
		append_f32(a, wide_in(&s, att_in(c, MHA_PAST_V)), have, have, &k.v, f.rows,
			   a->vsize, to, a->keys);
		k.v = view_of_f32(to, a->heads, a->keys, a->vsize, false);
	}
	if (mask && !ms_mask_fits(mask, a) &&
	    !(mask->shape.rank == 1 && mask->shape.dim[0] == 3 * a->batch + 2))
		return call_fail(c, E_SHAPE, "a key_padding_mask of a known form", NULL);
	ms_masks(&k, mask, att_in(c, MHA_ATT_BIAS), &s);
	k.qk = wide_out(&s, att_out(c, 3));
	ms_result(&k, wide_out(&s, c->out[0]));
	att_run_f32(&k);
	wide_done(c->out[0], k.y);
	for (uint32_t i = 1; i < 4; i++)
		if (att_out(c, i))
			wide_done(c->out[i], i == 1 ? pk : i == 2 ? pv : k.qk);
	return 0;
}

static bool mha_accepts(const struct site *s, struct why *why)
{
	const struct vinfo *q = site_in(s, MHA_Q), *k = site_in(s, MHA_K);

	if (site_in(s, MHA_PAST_LEN) || site_in(s, MHA_CACHE))
		return refuse(why, "a shared cache");
	if (q->shape.rank == 3 && (!k || (k->shape.rank == 3 && !site_in(s, MHA_V))))
		return refuse(why, "a query alone");
	return true;
}

/* ---- com.microsoft::GroupQueryAttention ------------------------------------------------------- */

static void gqa_sizes(const struct group_query *p, const struct shape *q, bool packed, int64_t room,
		      struct att *a)
{
	a->batch = q->dim[0];
	a->queries = q->dim[1];
	a->heads = p->num_heads;
	a->kv_heads = p->kv_num_heads;
	a->size = a->vsize = q->dim[2] / (packed ? p->num_heads + 2 * p->kv_num_heads : p->num_heads);
	a->keys = room;
}

/* Keys that are looked at: the cache's; of a window's cache those and the new ones. */
static int64_t gqa_room(const struct group_query *p, const struct shape *present,
			const struct shape *past, int64_t queries, int64_t total)
{
	int64_t room = present && present->rank == 4 ? present->dim[2] : total;

	if (p->sliding_window_cache)
		return (past ? past->dim[2] : 0) + queries;
	return past && past->dim[2] > room ? past->dim[2] : room;
}

static int gqa_reshape(struct site *site, struct step *step, struct diag *d)
{
	const struct group_query *p = site_params(site);
	const struct vinfo *q = site_in(site, GQA_Q), *present = site_out(site, 1),
			   *total = site_in(site, GQA_TOTAL);
	const struct shape *past = shape_at(site, GQA_PAST_K);
	int64_t n = total->known ? elem_i64(DT_I32, total->known->data, 0) : 0;
	int64_t room = gqa_room(p, present ? &present->shape : NULL, past, q->shape.dim[1], n);
	struct att a = {0};

	(void)d;
	gqa_sizes(p, &q->shape, !site_in(site, GQA_K), room, &a);
	size_t kv = scratch_size((size_t)(a.batch * a.kv_heads * room * a.size) * sizeof(float));
	size_t scores = scratch_size((size_t)(a.batch * a.heads * a.queries * room) * sizeof(float));
	step->workspace =
		wide_workspace(site) + 6 * kv +
		scratch_size(att_scratch_one(GEMM_F32, a.queries, room) * (size_t)pool_threads()) +
		scratch_size((size_t)(a.batch * a.queries * (a.heads + 2 * a.kv_heads) * a.size) *
			     sizeof(float)) +
		3 * scratch_size((size_t)a.batch * sizeof(int64_t)) +
		scratch_size((size_t)a.heads * sizeof(float));
	if (site_out(site, 3))
		step->workspace += scores;
	if (site_in(site, GQA_BIAS) && p->sliding_window_cache)
		step->workspace += scores;
	return 0;
}

/* A cache of codes: their type and scales. */
struct gqa_codes {
	enum dtype t;
	int bits;
	const float *scale;
	bool each; /* channel of each head has a scale */
};

static float gqa_scale(const struct gqa_codes *q, int64_t head, int64_t size, int64_t i)
{
	return q->scale[q->each ? head * size + i : 0];
}

static float gqa_decode(const struct gqa_codes *q, const void *x, int64_t i)
{
	if (q->bits == 4)
		return (float)(((const uint8_t *)x)[i / 2] >> (i & 1) * 4 & 15) - 8;
	return (float)elem_f64(q->t, x, i);
}

/* The nearest code, as a number. */
static float gqa_nearest(const struct gqa_codes *q, float x)
{
	float most = q->bits == 4 ? 7 : 127;

	if (q->t == DT_F8E4M3FN)
		return f8_to_f32(q->t, f32_to_f8(q->t, x, true));
	x = rintf(x);
	x = x > -most - 1 ? x : -most - 1;
	return x < most ? x : most;
}

static void gqa_encode(const struct gqa_codes *q, float code, void *y, int64_t i)
{
	if (q->bits != 4) {
		elem_set_f64(q->t, y, i, (double)code);
		return;
	}
	uint8_t *to = (uint8_t *)y + i / 2, nibble = (uint8_t)((int)code + 8);
	*to = i & 1 ? (uint8_t)((*to & 15) | nibble << 4) : (uint8_t)((*to & 0xf0) | nibble);
}

/* A past of codes as numbers. */
static const float *gqa_widen(const struct gqa_codes *q, const struct att *a,
			      const struct tensor *past, struct scratch *s)
{
	int64_t rows = past->shape.dim[2], n = a->batch * a->kv_heads * rows * a->size;
	float *to = scratch_take(s, (size_t)n * sizeof(float));

	for (int64_t i = 0; i < n; i++)
		to[i] = gqa_decode(q, past->data, i) *
			gqa_scale(q, i / (rows * a->size) % a->kv_heads, a->size, i % a->size);
	return to;
}

/* The new rows as they come out of the cache. */
static void gqa_round(const struct gqa_codes *q, const struct att *a, const int64_t *used, float *x)
{
	for (int64_t bh = 0; bh < a->batch * a->kv_heads; bh++)
		for (int64_t r = used[bh / a->kv_heads];
		     r < used[bh / a->kv_heads] + a->queries && r < a->keys; r++)
			for (int64_t i = 0; i < a->size; i++) {
				float f = gqa_scale(q, bh % a->kv_heads, a->size, i);
				float *v = x + (bh * a->keys + r) * a->size + i;
				*v = gqa_nearest(q, *v / f) * f;
			}
}

/* How many positions a window's cache holds after `t` of them. */
static int64_t gqa_resident(const struct group_query *p, int64_t capacity, int64_t t)
{
	int64_t step = capacity - p->local_window_size + 1;

	if (t <= capacity)
		return t;
	return t - step * ((t - capacity + step - 1) / step);
}

/* The cache after the step: the last rows of what was looked at, in its own type. first[b], count[b]: which. */
static void gqa_present(const struct gqa_codes *q, const struct att *a, const float *x,
			const int64_t *first, const int64_t *count, struct tensor *y)
{
	int64_t rows = y->shape.dim[2];

	memset(y->data, 0, y->bytes);
	for (int64_t bh = 0; bh < a->batch * a->kv_heads; bh++)
		for (int64_t r = 0; r < count[bh / a->kv_heads] && r < rows; r++) {
			const float *from =
				x + (bh * a->keys + first[bh / a->kv_heads] + r) * a->size;
			int64_t to = (bh * rows + r) * a->size;
			if (!q->scale) {
				from_f32(tensor_dtype(y), from, a->size, y->data, to);
				continue;
			}
			for (int64_t i = 0; i < a->size; i++)
				gqa_encode(q,
					   gqa_nearest(q, from[i] / gqa_scale(q, bh % a->kv_heads,
									      a->size, i)),
					   y->data, to + i);
		}
}

/* q and k with their heads normalised, if asked for, and turned; views of a copy. */
struct gqa_turn {
	struct turn t;
	const float *norm; /* NULL: none */
	float epsilon;
};

static void gqa_prepare(const struct gqa_turn *g, const struct att_view_f32 *x, int64_t rows)
{
	struct turn t = g->t;

	for (int64_t b = 0; b < t.batches; b++)
		for (int64_t n = 0; n < t.heads; n++)
			for (int64_t s = 0; s < rows; s++) {
				const float *from = x->data + b * x->batch + n * x->head + s * x->row;
				float *to = t.y + b * t.batch + n * t.head + s * t.row, sum = 0;
				for (int64_t i = 0; g->norm && i < t.size; i++)
					sum += from[i] * from[i];
				float f = g->norm ? 1 / sqrtf(sum / (float)t.size + g->epsilon) : 1;
				for (int64_t i = 0; i < t.size; i++)
					to[i] = from[i] * f * (g->norm ? g->norm[i] : 1);
			}
	t.x = t.y;
	if (t.cos)
		pool_for(t.batches * t.length, 1, turn_part, &t);
}

static int gqa_operand(const struct call *c, struct core_f32 *k, struct att_view_f32 *x, int64_t heads,
		       uint32_t norm, const int64_t *starts, float *to, struct scratch *s)
{
	const struct group_query *p = call_params(c);
	const struct att *a = &k->a;
	const struct tensor *cos = att_in(c, GQA_COS), *position = att_in(c, GQA_POSITION);
	struct gqa_turn g = {.epsilon = p->qk_norm_epsilon, .norm = wide_in(s, att_in(c, norm))};
	struct turn *t = &g.t;

	*t = (struct turn){.y = to,
			   .batches = a->batch,
			   .length = a->queries,
			   .heads = heads,
			   .size = a->size,
			   .interleaved = p->rotary_interleaved != 0,
			   .counted = true,
			   .starts = starts};
	t->head = a->queries * a->size;
	t->batch = heads * t->head;
	t->row = a->size;
	if (p->do_rotary && cos) {
		int64_t half = cos->shape.dim[1];
		t->turned = 2 * half;
		t->cos = wide_in(s, cos);
		t->sin = wide_in(s, att_in(c, GQA_SIN));
		if (position) {
			t->position = position->data;
			t->position_batch = a->queries;
			t->position_row = 1;
		}
		if (t->turned > a->size || !t->sin || !turn_fits(t, cos->shape.dim[0]))
			return call_fail(c, E_VALUE, "caches that have every position", NULL);
	}
	gqa_prepare(&g, x, a->queries);
	*x = view_of_f32(to, heads, a->queries, a->size, false);
	return 0;
}

/* Present: the past's first keys of each batch, then the new ones, the rest zero. */
static void gqa_append(const struct att *a, const float *past, int64_t past_room,
		       const int64_t *starts, const struct att_view_f32 *x, float *to)
{
	for (int64_t b = 0; b < a->batch; b++)
		for (int64_t h = 0; h < a->kv_heads; h++) {
			int64_t at = b * a->kv_heads + h, used = starts[b];
			float *y = to + at * a->keys * a->size;
			if (past && used > 0)
				memcpy(y, past + at * past_room * a->size,
				       (size_t)(used * a->size) * sizeof(float));
			for (int64_t r = 0; r < a->queries && used + r < a->keys; r++)
				memcpy(y + (used + r) * a->size,
				       x->data + b * x->batch + h * x->head + r * x->row,
				       (size_t)a->size * sizeof(float));
			int64_t end = used + a->queries;
			if (end < a->keys)
				memset(y + end * a->size, 0,
				       (size_t)((a->keys - end) * a->size) * sizeof(float));
		}
}

/* The first prompt may be shorter than the queries there are: what is beyond is padding. */
static int gqa_lengths(const struct call *c, const struct att *a, int64_t total, int64_t past_room,
		       int64_t *valid, int64_t *starts, int64_t *used)
{
	const struct group_query *p = call_params(c);
	const struct tensor *lens = c->in[GQA_SEQLENS];
	bool prompt = a->queries == total;

	if (tensor_count(lens) != a->batch)
		return call_fail(c, E_SHAPE, "seqlens_k of one number a batch", NULL);
	for (int64_t b = 0; b < a->batch; b++) {
		valid[b] = (int64_t)((const int32_t *)lens->data)[b] + 1;
		used[b] = starts[b] = prompt ? 0 : valid[b] - a->queries;
		if (valid[b] < 0 || starts[b] < 0)
			return call_fail(c, E_VALUE, "seqlens_k that fit the cache", NULL);
		if (p->sliding_window_cache) {
			used[b] = gqa_resident(p, past_room, starts[b]);
			valid[b] = used[b] + valid[b] - starts[b];
		}
		if (valid[b] > a->keys || used[b] > past_room)
			return call_fail(c, E_VALUE, "seqlens_k that fit the cache", NULL);
	}
	return 0;
}

/* q, k and v where the inputs have them: side by side, or packed in one. */
static void gqa_views(const struct call *c, bool packed, struct core_f32 *k, struct scratch *s)
{
	const struct att *a = &k->a;
	const float *q = wide_in(s, c->in[GQA_Q]);
	int64_t wide = (packed ? a->heads + 2 * a->kv_heads : a->heads) * a->size;
	k->q = (struct att_view_f32){q, a->queries * wide, a->size, wide};
	if (packed) {
		k->k = (struct att_view_f32){q + a->heads * a->size, a->queries * wide, a->size, wide};
		k->v = (struct att_view_f32){q + (a->heads + a->kv_heads) * a->size,
					     a->queries * wide, a->size, wide};
	} else {
		k->k = view_of_f32(wide_in(s, c->in[GQA_K]), a->kv_heads, a->queries, a->size, true);
		k->v = view_of_f32(wide_in(s, c->in[GQA_V]), a->kv_heads, a->queries, a->size, true);
	}
}

static int gqa_codes(const struct call *c, const struct att *a, uint32_t past, uint32_t scale,
		     struct gqa_codes *q)
{
	const struct group_query *p = call_params(c);
	const struct tensor *cache = att_in(c, past), *f = att_in(c, scale);

	*q = (struct gqa_codes){.t = cache ? tensor_dtype(cache) : DT_F32};
	if (!cache || T_BIT(q->t) & (T_F32 | T_F16 | T_BF16))
		return 0;
	q->bits = (int)p->kv_cache_bit_width;
	if (!f || (tensor_count(f) != 1 && tensor_count(f) != a->kv_heads * a->size))
		return call_fail(c, E_SHAPE, "one scale of the cache, or one a channel", NULL);
	if (q->t == DT_U8 ? q->bits != 4 || a->size % 2 : q->bits == 4)
		return call_fail(c, E_OP_ATTRIBUTE,
				 "4-bit codes in uint8, others in a type of their own", NULL);
	q->scale = f->data;
	q->each = tensor_count(f) != 1;
	return 0;
}

/* Key or value: what is cached and what is new in one buffer, which is looked at. */
static void gqa_join(const struct call *c, const struct gqa_codes *q, struct core_f32 *k,
		     uint32_t past, struct att_view_f32 *x, float *to, const int64_t *used,
		     struct scratch *s)
{
	const struct tensor *cache = att_in(c, past);
	const float *old = !cache     ? NULL
			   : q->scale ? gqa_widen(q, &k->a, cache, s)
				      : wide_in(s, cache);

	gqa_append(&k->a, old, cache ? cache->shape.dim[2] : 0, used, x, to);
	if (q->scale)
		gqa_round(q, &k->a, used, to);
	*x = view_of_f32(to, k->a.kv_heads, k->a.keys, k->a.size, false);
}

/* attention_bias counts all positions: of a window's cache those are taken that it holds. */
static void gqa_bias(const struct call *c, struct core_f32 *k, const int64_t *starts,
		     const int64_t *used, struct scratch *s)
{
	const struct tensor *bias = att_in(c, GQA_BIAS);
	struct att *a = &k->a;
	int64_t n, gone;

	if (!bias)
		return;
	k->mask[1] = wide_in(s, bias);
	bias_steps(bias, a);
	if (used == starts)
		return;
	n = a->heads * a->queries * a->keys;
	float *to = scratch_take(s, (size_t)(a->batch * n) * sizeof(float));
	for (int64_t i = 0; i < a->batch * n; i++) {
		int64_t b = i / n, h = i / (a->queries * a->keys) % a->heads;
		int64_t q = i / a->keys % a->queries, j = i % a->keys;
		const int64_t *step = a->mask_step[1];
		gone = starts[b] - used[b];
		to[i] = j + gone < a->mask_keys[1] ? k->mask[1][b * step[0] + h * step[1] +
								q * step[2] + (j + gone) * step[3]]
						   : 0;
	}
	k->mask[1] = to;
	memcpy(a->mask_step[1], (int64_t[]){n, a->queries * a->keys, a->keys, 1},
	       sizeof(a->mask_step[1]));
	a->mask_keys[1] = a->keys;
}

/* output_qk: scores that are out count 0; a row has as many as there are positions. */
static void gqa_scores(const struct att *a, const float *qk, struct tensor *y)
{
	int64_t total = y->shape.dim[3];

	for (int64_t r = 0; r < a->batch * a->heads * a->queries; r++)
		for (int64_t j = 0; j < total; j++) {
			float v = j < a->keys ? qk[r * a->keys + j] : 0;
			v = isinf(v) && v < 0 ? 0 : v;
			from_f32(tensor_dtype(y), &v, 1, y->data, r * total + j);
		}
}

/* The caches after the step, where they are not the buffers that were looked at. */
static void gqa_keep(const struct call *c, const struct gqa_codes *codes, const struct att *a,
		     const float *const *kv, int64_t *starts, int64_t *used)
{
	const struct group_query *p = call_params(c);
	const int32_t *lens = c->in[GQA_SEQLENS]->data;

	for (int64_t b = 0; b < a->batch; b++) { /* first row and count */
		int64_t t = (int64_t)lens[b] + 1, all = used[b] + t - starts[b], keep = all;
		if (p->sliding_window_cache)
			keep = gqa_resident(p, c->in[GQA_PAST_K]->shape.dim[2], t);
		else
			keep = used[b] + a->queries;
		used[b] = p->sliding_window_cache ? all - keep : 0;
		starts[b] = keep;
	}
	for (uint32_t i = 0; i < 2; i++)
		if (att_out(c, 1 + i))
			gqa_present(&codes[i], a, kv[i], used, starts, c->out[1 + i]);
}

/* Copies of q and k, normalised and turned. */
static int gqa_operands(const struct call *c, struct core_f32 *k, const int64_t *starts,
			struct scratch *s)
{
	const struct att *a = &k->a;
	int64_t each = a->batch * a->queries * a->size;
	float *to = scratch_take(s, (size_t)(each * (a->heads + a->kv_heads)) * sizeof(float));
	int rc = gqa_operand(c, k, &k->q, a->heads, GQA_Q_NORM, starts, to, s);

	return rc ? rc
		  : gqa_operand(c, k, &k->k, a->kv_heads, GQA_K_NORM, starts, to + each * a->heads, s);
}

/* One more score of each head: given, or 0. */
static const float *gqa_sink(const struct call *c, const struct att *a, struct scratch *s)
{
	const struct group_query *p = call_params(c);
	const float *given = wide_in(s, att_in(c, GQA_SINK));
	size_t bytes = (size_t)a->heads * sizeof(float);

	return given || p->smooth_softmax != 1 ? given : memset(scratch_take(s, bytes), 0, bytes);
}

/* Caches that were made where they belong, or beside it in fp32. */
static void gqa_done(const struct call *c, const float *key, const float *value)
{
	if (att_out(c, 1))
		wide_done(c->out[1], key);
	if (att_out(c, 2))
		wide_done(c->out[2], value);
}

static int gqa_run(const struct call *c)
{
	const struct group_query *p = call_params(c);
	const struct tensor *past = att_in(c, GQA_PAST_K), *present = att_out(c, 1);
	bool packed = !att_in(c, GQA_K), sliding = p->sliding_window_cache != 0;
	int64_t total = *(const int32_t *)c->in[GQA_TOTAL]->data;
	struct scratch s = scratch_of(c);
	struct core_f32 k = {.a = {.right = -1,
				   .causal = p->causal != 0,
				   .softcap = p->softcap,
				   .hidden = -INFINITY}};
	struct gqa_codes codes[2];
	struct att *a = &k.a;
	int rc;

	gqa_sizes(p, &c->in[GQA_Q]->shape, packed,
		  gqa_room(p, present ? &present->shape : NULL, past ? &past->shape : NULL,
			   c->in[GQA_Q]->shape.dim[1], total),
		  a);
	a->scale = ms_scale(p->scale, a->size);
	a->left = p->local_window_size > 0 ? p->local_window_size - 1 : -1;
	a->mode = p->qk_output == 2 ? 3 : 2;
	int64_t *valid = scratch_take(&s, (size_t)a->batch * sizeof(int64_t));
	int64_t *starts = scratch_take(&s, (size_t)a->batch * sizeof(int64_t));
	int64_t *used = scratch_take(&s, (size_t)a->batch * sizeof(int64_t));
	if ((rc = gqa_lengths(c, a, total, past ? past->shape.dim[2] : 0, valid, starts, used)) ||
	    (rc = gqa_codes(c, a, GQA_PAST_K, GQA_K_SCALE, &codes[0])) ||
	    (rc = gqa_codes(c, a, GQA_PAST_V, GQA_V_SCALE, &codes[1])))
		return rc;
	k.scratch = scratch_take(&s, att_scratch_one(GEMM_F32, a->queries, a->keys) *
					     (size_t)pool_threads());
	gqa_views(c, packed, &k, &s);
	if ((rc = gqa_operands(c, &k, starts, &s)))
		return rc;
	size_t kv = (size_t)(a->batch * a->kv_heads * a->keys * a->size) * sizeof(float);
	bool apart = sliding || codes[0].scale || codes[1].scale;
	float *key = apart ? NULL : wide_out(&s, att_out(c, 1));
	float *value = apart ? NULL : wide_out(&s, att_out(c, 2));
	key = key ? key : scratch_take(&s, kv);
	value = value ? value : scratch_take(&s, kv);
	gqa_join(c, &codes[0], &k, GQA_PAST_K, &k.k, key, used, &s);
	gqa_join(c, &codes[1], &k, GQA_PAST_V, &k.v, value, used, &s);
	a->valid = valid;
	a->offsets = used;
	gqa_bias(c, &k, starts, sliding ? used : starts, &s);
	k.sink = gqa_sink(c, a, &s);
	if (att_out(c, 3))
		k.qk = scratch_take(&s, (size_t)(a->batch * a->heads * a->queries * a->keys) *
						sizeof(float));
	ms_result(&k, wide_out(&s, c->out[0]));
	att_run_f32(&k);
	wide_done(c->out[0], k.y);
	if (att_out(c, 3))
		gqa_scores(a, k.qk, c->out[3]);
	if (apart)
		gqa_keep(c, codes, a, (const float *const[]){key, value}, starts, used);
	else
		gqa_done(c, key, value);
	return 0;
}

static bool gqa_accepts(const struct site *s, struct why *why)
{
	const struct group_query *p = site_params(s);

	if (site_out(s, 3) && p->sliding_window_cache)
		return refuse(why, "output_qk of a window's cache");
	return true;
}

#define NF (T_F32 | T_F16 | T_BF16)
#define REFERENCE(name, types, accepts, reshape, run)                                              \
	{                                                                                          \
		name, types, K_REFERENCE, accepts, NULL, reshape, run, NULL, NULL                  \
	}
const struct kernel cpu_attention[] = {
	REFERENCE("Attention", T_FLOATS_BF, attention_accepts, attention_reshape, attention_run),
	REFERENCE("ai.onnx.preview::FlexAttention", T_FLOATS_BF, flex_accepts, flex_reshape, flex_run),
	REFERENCE("LinearAttention", NF, NULL, linear_reshape, linear_run),
	REFERENCE("RotaryEmbedding", NF, NULL, wide_reshape, rotary_run),
	REFERENCE("com.microsoft::RotaryEmbedding", NF, ms_rotary_accepts, wide_reshape, ms_rotary_run),
	REFERENCE("infer::ProjectedAttention", NF, ms_attention_accepts, ms_attention_reshape,
		  ms_attention_run),
	REFERENCE("com.microsoft::MultiHeadAttention", NF, mha_accepts, mha_reshape, mha_run),
	REFERENCE("com.microsoft::GroupQueryAttention", NF, gqa_accepts, gqa_reshape, gqa_run),
	{0}};
