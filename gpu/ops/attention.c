/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention, MultiHeadAttention and RotaryEmbedding as they occur in models. infer::Attention, which
 * the optimizer makes, is in sdpa.c. com.microsoft's other attention operators are in contrib_attention.c.
 */
#include "ops/attention.h"

#include "gpu/ops/sdpa.h"
#include "gpu/ops/contrib_attention.h"
#include "gpu/ops/flex_attention.h"
#include "gpu/ops/paged_attention.h"
#include "gpu/ops/recurrent.h"

#include <math.h>

/* ---- the cache and the new keys and values become one tensor ---------------------------------- */

enum { MAX_COPIES = 4 }; /* cached keys, new keys, cached values, new values */

/* Copies one input into the keys or the values that the kernel reads, [batch, heads, keys, head size]. */
struct joined_copy {
	uint32_t in;
	bool value;
	struct gpu_strided job;
	int64_t to; /* first element of the destination */
};
/*
 * The keys (or values) that the kernel reads: the cached rows followed by the new rows. They are copied into the
 * outputs that hold the new cache, or into the workspace if the node does not have these outputs.
 */
struct joined {
	struct joined_copy copy[MAX_COPIES];
	int n;
	void *fn;
	/*
	 * key, value: true if the cached and the new rows are copied into one tensor, false if the kernel reads the
	 * input
	 */
	bool key, value;
	/* bytes in the workspace, or 0 if the copy is in output 1 (keys) or 2 (values) */
	size_t key_bytes, value_bytes;
};

static bool add_copy(struct joined *k, uint32_t in, bool value, const int64_t *dim,
		     const int64_t *from, const int64_t *to, int64_t start)
{
	struct gpu_piece piece = {0};

	if (!gpu_piece(&piece, 4, dim, from, to))
		return false;
	k->copy[k->n++] =
		(struct joined_copy){.in = in, .value = value, .job = piece.job, .to = start};
	return true;
}

/* How the cached keys (or values) lie in memory, and how they lie together with the new ones. */
struct capacities {
	int64_t past;	/* rows that there is memory for in a head of the cache */
	int64_t joined; /* the same in the joined tensor */
	bool stays;	/* the cached rows are in the joined tensor already */
};

/*
 * Plans the copies that make the keys (or, if `value` is true, the values): `before` rows of input `past`, then the
 * rows of input `now`. *steps holds the strides of `now`, and on return those of the joined tensor.
 */
static void plan_join(struct joined *k, const struct gpu_attend *j, uint32_t past, int64_t before,
		      uint32_t now, int64_t *steps, bool value, const struct capacities *capacities)
{
	int64_t size = value ? j->dv : j->d, to[4] = {0, 0, 0, 1}, from[4] = {0, 0, 0, 1};
	int64_t dim[4] = {j->batch, j->kv_heads, before, size};

	gpu_attend_steps(false, j->kv_heads, capacities->joined, size, 0, to);
	gpu_attend_steps(false, j->kv_heads, capacities->past, size, 0, from);
	if (before > 0 && !capacities->stays)
		add_copy(k, past, value, dim, from, to, 0);
	dim[2] = j->t - before;
	memcpy(from, steps, 3 * sizeof(*from));
	add_copy(k, now, value, dim, from, to, before * size);
	memcpy(steps, to, 3 * sizeof(*to));
}

static int run_copies(const struct call *c, const struct joined *k, char *key, char *value)
{
	int err = 0;

	for (int i = 0; i < k->n && !err; i++) {
		const struct joined_copy *p = &k->copy[i];
		struct gpu_strided job = p->job;
		size_t size = (size_t)gpu_size(tensor_dtype(c->in[p->in]));
		job.x = gpu_data(c, p->in);
		job.y = (p->value ? value : key) + (size_t)p->to * size;
		if (job.n > 0)
			err = gpu_strided_run(c, k->fn, &job);
	}
	return err;
}

/* ---- shared by Attention and MultiHeadAttention ---------------------------------------------- */

static const uint32_t NONE = UINT32_MAX; /* no such input */
struct onnx_attention {
	struct gpu_attend_plan plan;
	struct joined joined;
	uint32_t k, v, mask, valid; /* indices of the inputs; the queries are input 0 */
	uint32_t past;		    /* of the cached keys; the cached values are behind it */
	int64_t before;		    /* cached rows */
	int64_t now[2][3];	    /* strides of the new keys and values */
};

/* Plans the keys and values that the kernel reads if there are cached rows, or if a node behind wants them. */
static void plan_joined(struct onnx_attention *a, bool key, bool value)
{
	struct gpu_attend *j = &a->plan.job;
	const struct capacities dense = {.past = a->before, .joined = j->t};

	memcpy(a->now[0], j->ks, sizeof(j->ks));
	memcpy(a->now[1], j->vs, sizeof(j->vs));
	a->joined.key = a->before || key;
	a->joined.value = a->before || value;
	if (a->joined.key)
		plan_join(&a->joined, j, a->past, a->before, a->k, j->ks, false, &dense);
	if (a->joined.value)
		plan_join(&a->joined, j, a->past + 1, a->before, a->v, j->vs, true, &dense);
}

static int plan_attention(struct site *s, struct step *step, struct onnx_attention *a, struct diag *d)
{
	const size_t starts[3] = {0};
	struct gpu_attend *j = &a->plan.job;
	enum dtype t = gpu_type(s, 0);
	size_t rows = (size_t)(j->batch * j->kv_heads * j->t) * (size_t)gpu_size(t);

	step->state = a;
	if (a->joined.key && !site_out(s, 1))
		a->joined.key_bytes = cuda_aligned(rows * (size_t)j->d);
	if (a->joined.value && !site_out(s, 2))
		a->joined.value_bytes = cuda_aligned(rows * (size_t)j->dv);
	if (a->joined.n)
		a->joined.fn = gpu_sized(s, "move", "strided", t, d);
	if (a->joined.n && !a->joined.fn)
		return -E_DEVICE;
	int err = gpu_attend_set(s, &a->plan, t, starts, d);
	step->workspace = a->joined.key_bytes + a->joined.value_bytes + a->plan.scratch;
	/* the kernels for few queries know by strides alone where heads begin */
	if (a->plan.few && a->before && site_out(s, 1) && site_out(s, 2)) {
		for (int i = 0; i < MAX_GROW; i++) {
			step->grow[i].out = (uint8_t)(1 + i);
			step->grow[i].in = (uint8_t)(a->past + (uint32_t)i);
		}
		step->ngrow = MAX_GROW;
	}
	return err;
}

/* The copies of this run, if a cache before or behind it has more memory than rows; sets the strides of keys and values, too. */
static const struct joined *with_capacity(const struct call *c, const struct onnx_attention *a,
					  struct joined *own, struct gpu_attend *j)
{
	bool any = false;

	*own = (struct joined){.fn = a->joined.fn, .key = true, .value = true};
	for (uint32_t i = 0; i < MAX_GROW && a->before; i++) {
		const struct tensor *past = c->in[a->past + i], *out = c->out[1 + i];
		int64_t *steps = i ? j->vs : j->ks;
		if (!out)
			return &a->joined;
		const struct capacities r = {.past = past->capacity ? past->capacity : a->before,
					     .joined = out->capacity ? out->capacity : j->t,
					     .stays = out->capacity && past->data == out->data &&
						      past->capacity == out->capacity};
		any |= past->capacity || out->capacity;
		memcpy(steps, a->now[i], sizeof(a->now[i]));
		plan_join(own, j, a->past + i, a->before, i ? a->v : a->k, steps, i, &r);
	}
	return any ? own : &a->joined;
}

static int attention_run(const struct call *c)
{
	const struct onnx_attention *a = c->step->state;
	struct gpu_attend_plan plan = a->plan;
	struct gpu_attend *job = &plan.job;
	struct joined own;
	const struct joined *k = c->step->ngrow ? with_capacity(c, a, &own, job) : &a->joined;
	char *room = c->workspace;
	char *key = k->key_bytes ? room : gpu_out(c, 1);
	char *value = k->value_bytes ? room + k->key_bytes : gpu_out(c, 2);
	int err = run_copies(c, k, key, value);

	job->q = gpu_data(c, 0);
	job->k = k->key ? key : gpu_data(c, a->k);
	job->v = k->value ? value : gpu_data(c, a->v);
	job->mask = gpu_data(c, a->mask);
	job->valid = gpu_data(c, a->valid);
	job->y = gpu_out(c, 0);
	job->qk = gpu_out(c, 3);
	job->scratch = room + k->key_bytes + k->value_bytes;
	return err ? err : gpu_attend_launch(c, &plan);
}

/* ---- Attention (ai.onnx) --------------------------------------------------------------------- */

static float scale_or(float scale, int64_t size)
{
	return isnan(scale) ? 1 / sqrtf((float)(size > 0 ? size : 1)) : scale;
}

static void attention_sizes(const struct site *s, struct gpu_attend *j, int64_t *before)
{
	const struct attention *p = s->node->params;
	const struct shape *q = &site_in(s, ATT_Q)->shape, *k = &site_in(s, ATT_K)->shape,
			   *v = &site_in(s, ATT_V)->shape;
	const struct vinfo *past = site_in(s, ATT_PAST_K);

	*before = past ? past->shape.dim[2] : 0;
	j->batch = q->dim[0];
	j->heads = q->rank == 4 ? q->dim[1] : p->q_num_heads;
	j->kv_heads = k->rank == 4 ? k->dim[1] : p->kv_num_heads;
	j->s = q->dim[q->rank - 2];
	j->d = q->rank == 4 ? q->dim[3] : q->dim[2] / j->heads;
	j->dv = v->rank == 4 ? v->dim[3] : v->dim[2] / j->kv_heads;
	j->t = k->dim[k->rank - 2] + *before;
	gpu_attend_steps(q->rank == 3, j->heads, j->s, j->d, j->heads * j->d, j->qs);
	gpu_attend_steps(k->rank == 3, j->kv_heads, j->t - *before, j->d, j->kv_heads * j->d, j->ks);
	gpu_attend_steps(v->rank == 3, j->kv_heads, j->t - *before, j->dv, j->kv_heads * j->dv, j->vs);
	gpu_attend_steps(q->rank == 3, j->heads, j->s, j->dv, j->heads * j->dv, j->ys);
}

static const char *attention_fill(const struct site *s, struct onnx_attention *a)
{
	const struct attention *p = s->node->params;
	const struct vinfo *mask = site_in(s, ATT_MASK), *pad = site_in(s, ATT_NONPAD);
	struct gpu_attend *j = &a->plan.job;
	enum dtype t = gpu_type(s, ATT_Q);
	int64_t right = p->right_window_size;

	a->k = ATT_K, a->v = ATT_V, a->past = ATT_PAST_K, a->mask = ATT_MASK, a->valid = ATT_NONPAD;
	*j = (struct gpu_attend){.kd = 1,
				 .left = p->left_window_size,
				 .right = p->is_causal ? 0 : right,
				 .safe = 1,
				 .qk_mode = (int)p->qk_matmul_output_mode,
				 .softcap = p->softcap,
				 .hidden = -INFINITY};
	attention_sizes(s, j, &a->before);
	j->scale = scale_or(p->scale, j->d);
	j->offset = a->before;
	if (p->softmax_precision == DT_F16 || p->softmax_precision == DT_BF16)
		j->round = (int)p->softmax_precision;
	if (gpu_type(s, ATT_K) != t || gpu_type(s, ATT_V) != t)
		return "queries, keys and values of different types";
	if (pad) {
		j->valid = (const int64_t *)(const void *)gpu_attend_there;
		j->behind_valid = !site_in(s, ATT_PAST_K);
		if (shape_count(&pad->shape) != j->batch)
			return "nonpad_kv_seqlen that is not of one number a batch";
	}
	if (mask && mask->shape.rank > 4)
		return "a mask of more than four dimensions";
	if (mask) {
		j->mask_type = mask->type.dtype;
		gpu_attend_mask(&mask->shape, j->t, j->ms, &j->mask_keys);
	}
	if (site_out(s, 3))
		j->qk = (void *)(uintptr_t)gpu_attend_there;
	plan_joined(a, site_out(s, 1), site_out(s, 2));
	return gpu_attend_refusal(j);
}

static bool attention_accepts(const struct site *s, struct why *w)
{
	struct onnx_attention a = {0};
	const char *bad = attention_fill(s, &a);

	return bad ? refuse(w, "%s", bad) : true;
}

static int attention_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct onnx_attention *a = arena_new(s->plan_arena, struct onnx_attention);

	attention_fill(s, a);
	return plan_attention(s, step, a, d);
}

/* ---- com.microsoft::MultiHeadAttention ------------------------------------------------------- */

static const char *mha_fill(const struct site *s, struct onnx_attention *a)
{
	const struct multi_head *p = s->node->params;
	const struct vinfo *q = site_in(s, MHA_Q), *k = site_in(s, MHA_K), *v = site_in(s, MHA_V),
			   *past = site_in(s, MHA_PAST_K), *bias = site_in(s, MHA_ATT_BIAS);
	struct gpu_attend *j = &a->plan.job;
	int64_t before = past ? past->shape.dim[2] : 0;

	if (!k || !v || q->shape.rank != 3 || k->shape.rank != v->shape.rank ||
	    (k->shape.rank != 3 && k->shape.rank != 4))
		return "packed queries, keys and values";
	if (site_in(s, MHA_BIAS) || site_in(s, MHA_PADDING) || site_in(s, MHA_PAST_LEN) ||
	    site_in(s, MHA_CACHE) || site_out(s, 3))
		return "a bias, a padding mask, a shared cache or scores";
	bool four = k->shape.rank == 4;
	a->k = MHA_K, a->v = MHA_V, a->past = MHA_PAST_K, a->mask = MHA_ATT_BIAS, a->valid = NONE;
	a->before = before;
	*j = (struct gpu_attend){.batch = q->shape.dim[0],
				 .heads = p->num_heads,
				 .kv_heads = p->num_heads,
				 .s = q->shape.dim[1],
				 .t = k->shape.dim[four ? 2 : 1] + before,
				 .d = q->shape.dim[2] / p->num_heads,
				 .kd = 1,
				 .offset = before,
				 .left = -1,
				 .right = p->unidirectional ? 0 : -1,
				 .last_sees_all = 1,
				 .safe = 1,
				 .hidden = -INFINITY};
	j->dv = four ? v->shape.dim[3] : v->shape.dim[2] / j->heads;
	j->scale = scale_or(p->scale == 0 ? NAN : p->scale, j->d);
	gpu_attend_steps(true, j->heads, j->s, j->d, j->heads * j->d, j->qs);
	gpu_attend_steps(!four, j->heads, j->t - before, j->d, j->heads * j->d, j->ks);
	gpu_attend_steps(!four, j->heads, j->t - before, j->dv, j->heads * j->dv, j->vs);
	gpu_attend_steps(true, j->heads, j->s, j->dv, j->heads * j->dv, j->ys);
	if (bias) {
		j->mask_type = bias->type.dtype;
		gpu_attend_mask(&bias->shape, j->t, j->ms, &j->mask_keys);
	}
	plan_joined(a, site_out(s, 1), site_out(s, 2));
	return gpu_attend_refusal(j);
}

static bool mha_accepts(const struct site *s, struct why *w)
{
	struct onnx_attention a = {0};
	const char *bad = mha_fill(s, &a);

	return bad ? refuse(w, "%s", bad) : true;
}

static int mha_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct onnx_attention *a = arena_new(s->plan_arena, struct onnx_attention);

	mha_fill(s, a);
	return plan_attention(s, step, a, d);
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

struct rotary_plan {
	void *fn;
	uint32_t cos, position;
	struct gpu_rotary job;
};

static void set_streams(const struct mrotary *p, struct gpu_rotary *j)
{
	const int64_t *n = p->mrope_section.v;

	j->streams = 3;
	j->in_turn = p->mrope_layout == MROTARY_IN_TURN;
	j->position_batch = j->length;
	j->section[0] = n[0];
	j->section[1] = j->in_turn ? 3 * n[1] : n[0] + n[1];
	j->section[2] = 3 * n[2];
}

static const char *rotary_fill(const struct site *s, struct rotary_plan *r)
{
	const struct rotary *p = s->node->params;
	bool ms = s->node->op->domain != NULL;
	const struct shape *x = &site_in(s, 0)->shape;
	struct gpu_rotary *j = &r->job;

	r->cos = ms ? 2 : 1;
	r->position = ms ? 1 : 3;
	const struct shape *cos = &site_in(s, r->cos)->shape;
	const struct vinfo *at = site_in(s, r->position);
	int64_t half = cos->dim[cos->rank - 1], hidden = x->dim[x->rank - 1], n = p->num_heads;
	bool four = x->rank == 4;

	if (ms && (p->is_packed_batching || p->scale < 1 || p->scale > 1))
		return "packed batching or a scale";
	j->batch = x->dim[0];
	j->size = four ? hidden : n > 0 ? hidden / n : p->rotary_embedding_dim > 0 ? 0 : 2 * half;
	j->heads = four ? x->dim[1] : n > 0 ? n : j->size > 0 ? hidden / j->size : 0;
	j->length = x->dim[four ? 2 : 1];
	j->turned = p->rotary_embedding_dim > 0 ? p->rotary_embedding_dim : j->size;
	if (j->size < 1 || half < 1 || j->turned > j->size || j->turned != 2 * half ||
	    j->heads * j->size != (four ? j->heads : 1) * hidden)
		return "caches and heads that do not fit the input";
	j->rows = shape_count(cos) / half;
	j->interleaved = p->interleaved != 0;
	j->step[0] = j->heads * j->length * j->size;
	j->step[1] = four ? j->size : j->heads * j->size;
	j->step[2] = four ? j->length * j->size : j->size;
	if (s->node->op->variant == ROTARY_STREAMS) {
		set_streams(s->node->params, j);
	} else if (at) {
		int64_t count = shape_count(&at->shape);
		j->counted = ms && count == 1 && j->batch * j->length != 1;
		j->position_batch = at->shape.rank && at->shape.dim[0] == 1 ? 0 : j->length;
		if (!j->counted && j->position_batch && count != j->batch * j->length)
			return "positions that do not fit";
	}
	for (uint32_t i = r->cos; i < r->cos + 2; i++)
		if (gpu_type(s, i) != gpu_type(s, 0))
			return "caches of another type";
	return NULL;
}

static bool rotary_accepts(const struct site *s, struct why *w)
{
	struct rotary_plan r = {0};
	const char *bad = rotary_fill(s, &r);

	return bad ? refuse(w, "%s", bad) : true;
}

static int rotary_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct rotary_plan *r = arena_new(s->plan_arena, struct rotary_plan);

	rotary_fill(s, r);
	r->fn = gpu_typed(s, "attend", "rotary", gpu_type(s, 0), d);
	step->state = r;
	return r->fn ? 0 : -E_DEVICE;
}

static int rotary_run(const struct call *c)
{
	const struct rotary_plan *r = c->step->state;
	struct gpu_rotary job = r->job;
	int64_t n = job.batch * job.length * job.heads * (job.size - job.turned / 2);

	job.x = gpu_data(c, 0);
	job.cos = gpu_data(c, r->cos);
	job.sin = gpu_data(c, r->cos + 1);
	job.position = gpu_data(c, r->position);
	job.y = gpu_out(c, 0);
	job.fault = gpu_fault(c);
	job.who = (uint64_t)(uintptr_t)c->step->from;
	return n > 0 ? gpu_launch(c, r->fn, gpu_grid(n), &job, sizeof(job)) : 0;
}

#define NF (T_F32 | T_F16 | T_BF16)
#define ROW(name, types_, how, run_)                                                               \
	{                                                                                          \
		.op = (name), .types = (types_), .accepts = how##_accepts,                         \
		.reshape = how##_reshape, .run = (run_)                                            \
	}

#define HEADS(name, how)                                                                           \
	{                                                                                          \
		.op = (name), .types = NF, .accepts = gpu_##how##_accepts,                         \
		.reshape = gpu_##how##_reshape, .run = gpu_heads_run                               \
	}

const struct kernel gpu_attention[] = {
	ROW("Attention", T_FLOATING, attention, attention_run),
	ROW("com.microsoft::MultiHeadAttention", NF, mha, attention_run),
	HEADS("com.microsoft::MultiHeadAttention", multi_head),
	ROW("ai.onnx.preview::FlexAttention", T_FLOATING, gpu_flex, gpu_flex_run),
	HEADS("infer::ProjectedAttention", projected),
	HEADS("com.microsoft::GroupQueryAttention", group_query),
	ROW("RotaryEmbedding", NF, rotary, rotary_run),
	ROW("com.microsoft::RotaryEmbedding", NF, rotary, rotary_run),
	ROW("com.microsoft::MRotaryEmbedding", NF, rotary, rotary_run),
	ROW("LinearAttention", NF, gpu_linear, gpu_linear_run),
	ROW("com.microsoft::LinearAttention", NF, gpu_linear, gpu_linear_run),
	{.op = "com.microsoft::LinearAttentionGate",
	 .types = NF,
	 .reshape = gpu_linear_gate_reshape,
	 .run = gpu_linear_gate_run},
	{.op = "com.microsoft::GatedDeltaNet",
	 .types = NF,
	 .reshape = gpu_delta_net_reshape,
	 .run = gpu_delta_net_run},
	ROW("com.microsoft::PagedAttention", T_F16 | T_BF16, gpu_paged, gpu_paged_run),
	{.op = "infer::SparseMask",
	 .types = NF,
	 .reshape = gpu_sparse_mask_reshape,
	 .run = gpu_sparse_mask_run},
	{0}};
