/* SPDX-License-Identifier: Apache-2.0 */
/*
 * com.microsoft's attention operators. Queries, keys and values are read in place if possible. Otherwise a kernel
 * copies them: the cached rows first, then the new rows with bias, normalization and rotary embedding. Masks become
 * numbers that are added to the scores. sdpa.c computes the attention itself.
 */
#include "gpu/ops/contrib_attention.h"

#include "gpu/ops/sdpa.h"
#include "gpu/launch/job.h"
#include "gpu/kernels/heads.h"
#include "ops/attention.h"

#include <math.h>

static const uint32_t NONE = UINT32_MAX; /* no such input or output */

/* How the attention gets one of its three operands: the queries, the keys or the values. */
struct part {
	struct gpu_heads job;
	uint32_t in, bias, norm, past;
	size_t start, bias_start, past_start; /* byte offsets in the inputs */
	/* true if the kernel heads_fill makes a copy, false if the attention reads the input in place */
	bool made;
	/*
	 * index of the node's output into which heads_fill writes its copy of the operand; NONE if it writes the
	 * copy to the workspace
	 */
	uint32_t out;
	/* out_start: byte offset of the copy in that output; room: byte offset in the workspace */
	size_t out_start, room;
	uint32_t keep;	/* output for the new cache, which gets some rows of the copy */
	uint32_t scale; /* input with the scales of a quantized cache */
};
struct heads_plan {
	struct gpu_attend_plan attend;
	void *fill, *mask_fn, *score_fn, *keep_fn;
	struct part q, k, v;
	uint32_t mask, bias, sink; /* indices of inputs */
	uint32_t cos, position, lens;
	struct gpu_ms_mask shown;
	size_t mask_room;
	struct gpu_lengths lengths;
	size_t numbers_room, zero_room; /* four int64_t for each batch, see batch_numbers() */
	uint32_t qk;			/* index of the output of scores */
	struct gpu_score_rows scores;
	size_t qk_room, scratch_room;
};

static struct heads_plan new_plan(void)
{
	struct part none = {.in = NONE,
			    .bias = NONE,
			    .norm = NONE,
			    .past = NONE,
			    .out = NONE,
			    .keep = NONE,
			    .scale = NONE};

	return (struct heads_plan){.q = none,
				   .k = none,
				   .v = none,
				   .mask = NONE,
				   .bias = NONE,
				   .sink = NONE,
				   .cos = NONE,
				   .position = NONE,
				   .lens = NONE,
				   .qk = NONE};
}

static float ms_scale(float scale, int64_t size)
{
	return isnan(scale) || scale == 0 ? 1 / sqrtf((float)(size > 0 ? size : 1)) : scale;
}

/* ---- queries, keys and values ----------------------------------------------------------------- */

/* Lets a part read input `in` from element `start` on. Positions are `row` elements apart, heads `head` elements. */
static void read_from(struct part *p, uint32_t in, int64_t rows, int64_t row, int64_t head,
		      int64_t start, int64_t size)
{
	p->in = in;
	p->start = (size_t)(start * size);
	p->job.step[0] = rows * row;
	p->job.step[1] = head;
	p->job.step[2] = row;
	p->job.rows = rows;
}

static void read_heads_first(struct part *p, uint32_t in, int64_t heads, int64_t rows, int64_t width)
{
	p->in = in;
	p->start = 0;
	p->job.step[0] = heads * rows * width;
	p->job.step[1] = rows * width;
	p->job.step[2] = width;
	p->job.rows = rows;
}

/* Adds to a part the bias that begins at element `start` of input `in`. A part with a bias must be copied. */
static void add_bias(struct part *p, uint32_t in, int64_t start, int64_t size)
{
	p->bias = in;
	p->bias_start = (size_t)(start * size);
	p->made = true;
}

/* Sets the sizes of a part's copy: each head has `room` rows of `width` elements. */
static void size_copy(struct part *p, const struct gpu_attend *j, int64_t heads, int64_t room,
		      int64_t width)
{
	p->made = true;
	p->job.batch = j->batch;
	p->job.heads = heads;
	p->job.room = room;
	p->job.size = width;
}

/* Returns the strides with which the attention reads a part: the strides of the part's copy, or of the input. */
static void get_strides(const struct part *p, int64_t *steps)
{
	if (p->made)
		gpu_attend_steps(false, p->job.heads, p->job.room, p->job.size, 0, steps);
	else
		memcpy(steps, p->job.step, 3 * sizeof(*steps));
}

static const char *set_strides(struct heads_plan *h)
{
	struct gpu_attend *j = &h->attend.job;

	if (h->q.made)
		size_copy(&h->q, j, j->heads, j->s, j->d);
	if (h->k.made)
		size_copy(&h->k, j, j->kv_heads, j->t, j->d);
	if (h->v.made)
		size_copy(&h->v, j, j->kv_heads, j->t, j->dv);
	get_strides(&h->q, j->qs);
	get_strides(&h->k, j->ks);
	get_strides(&h->v, j->vs);
	gpu_attend_steps(true, j->heads, j->s, j->dv, j->heads * j->dv, j->ys);
	return gpu_attend_refusal(j);
}

/* ---- masks ----------------------------------------------------------------------------------- */

static bool mask_fits(const struct shape *m, const struct gpu_attend *j, bool offsets)
{
	switch (m->rank) {
	case 1:
		return m->dim[0] == j->batch || m->dim[0] == 2 * j->batch ||
		       (offsets && m->dim[0] == 3 * j->batch + 2);
	case 2: return m->dim[0] == j->batch && m->dim[1] <= j->t;
	case 3: return m->dim[0] == j->batch && m->dim[1] == j->s && m->dim[2] == j->t;
	default:
		return m->rank == 4 && m->dim[0] == j->batch && m->dim[1] == 1 &&
		       m->dim[2] == m->dim[3] && m->dim[3] >= j->t;
	}
}

/*
 * Returns the number that is added to hidden scores. It is bounded so that its sum with a score of this type stays
 * finite.
 */
static float bound_filter(float filter, enum dtype t)
{
	float limit = t == DT_F16 ? 65504.0F : 1e30F;

	return filter < -limit ? -limit : filter > limit ? limit : filter;
}

static const char *take_masks(const struct site *s, struct heads_plan *h, uint32_t mask,
			      uint32_t bias, float filter, bool offsets)
{
	struct gpu_attend *j = &h->attend.job;
	const struct vinfo *m = site_in(s, mask), *b = site_in(s, bias);
	enum dtype t = gpu_type(s, 0);
	int64_t keys = j->t;

	if (m && !mask_fits(&m->shape, j, offsets))
		return "a mask of an unsupported shape";
	if (b && (b->shape.rank > 4 || gpu_type(s, bias) != t))
		return "an attention bias of more than four dimensions or another type";
	if (m) {
		h->mask = mask;
		h->shown = (struct gpu_ms_mask){.batch = j->batch,
						.queries = j->s,
						.rows = m->shape.rank > 2 ? j->s : 1,
						.keys = j->t,
						.rank = m->shape.rank,
						.filter = bound_filter(filter, t)};
		memcpy(h->shown.dim, m->shape.dim, (size_t)m->shape.rank * sizeof(int64_t));
		j->mask_type = (int)t;
		j->mask_keys = j->t;
		j->ms[0] = h->shown.rows * j->t;
		j->ms[2] = h->shown.rows > 1 ? j->t : 0;
		j->ms[3] = 1;
	}
	if (!b)
		return NULL;
	h->bias = bias;
	j->safe = 1;
	if (!m) {
		j->mask_type = (int)t;
		gpu_attend_mask(&b->shape, j->t, j->ms, &j->mask_keys);
		return NULL;
	}
	j->bias_type = (int)t;
	gpu_attend_mask(&b->shape, j->t, j->bs, &keys);
	return keys == j->t ? NULL : "a bias of the scores for fewer keys";
}

/* ---- infer::ProjectedAttention --------------------------------------------------------------- */

static const char *projected_fill(const struct site *s, struct heads_plan *h)
{
	const struct ms_attention *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	const struct vinfo *past = site_in(s, 2);
	struct gpu_attend *j = &h->attend.job;
	int64_t wide = x->dim[2], n = p->num_heads, have = past ? past->shape.dim[3] : 0;
	bool apart = p->qkv_hidden_sizes.n == 3;
	int64_t qk = apart ? p->qkv_hidden_sizes.v[0] : wide / 3,
		v = apart ? p->qkv_hidden_sizes.v[2] : wide / 3;
	int64_t size = gpu_size(gpu_type(s, 0));

	*h = new_plan();
	if (p->do_rotary || p->past_present_share_buffer)
		return "do_rotary or past_present_share_buffer";
	*j = (struct gpu_attend){.batch = x->dim[0],
				 .heads = n,
				 .kv_heads = n,
				 .s = x->dim[1],
				 .t = x->dim[1] + have,
				 .d = qk / n,
				 .dv = v / n,
				 .kd = 1,
				 .offset = have,
				 .left = -1,
				 .right = p->unidirectional ? 0 : -1,
				 .hidden = -INFINITY};
	j->scale = ms_scale(p->scale, j->d);
	read_from(&h->q, 0, j->s, wide, j->d, 0, size);
	read_from(&h->k, 0, j->s, wide, j->d, qk, size);
	read_from(&h->v, 0, j->s, wide, j->dv, 2 * qk, size);
	if ((past || site_out(s, 1)) && j->d != j->dv)
		return "cached keys and values of different head sizes";
	if (past || site_out(s, 1)) {
		h->k.made = h->v.made = true;
		h->k.past = h->v.past = past ? 2 : NONE;
		h->k.job.past_room = h->v.job.past_room = have;
		h->v.past_start = (size_t)(j->batch * n * have * j->d * size);
		h->k.out = h->v.out = site_out(s, 1) ? 1 : NONE;
		h->v.out_start = (size_t)(j->batch * n * j->t * j->d * size);
	}
	const char *bad = take_masks(s, h, 1, 3, p->mask_filter_value, false);
	return bad ? bad : set_strides(h);
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

/*
 * Finds the operands. Queries, keys and values are three inputs, or keys and values are packed into one input, or all
 * three are packed into one.
 */
static const char *multi_head_place(const struct site *s, struct heads_plan *h)
{
	const struct vinfo *q = site_in(s, MHA_Q), *k = site_in(s, MHA_K), *v = site_in(s, MHA_V);
	struct gpu_attend *j = &h->attend.job;
	int64_t n = j->heads, size = gpu_size(gpu_type(s, 0)), d = j->d, rows = j->t - j->offset;

	if (q->shape.rank == 5) {
		read_from(&h->q, MHA_Q, j->s, 3 * n * d, 3 * d, 0, size);
		read_from(&h->k, MHA_Q, j->s, 3 * n * d, 3 * d, d, size);
		read_from(&h->v, MHA_Q, j->s, 3 * n * d, 3 * d, 2 * d, size);
		return NULL;
	}
	read_from(&h->q, MHA_Q, j->s, n * d, d, 0, size);
	if (!k || (!v && k->shape.rank != 5))
		return "a query without keys and values";
	if (k->shape.rank == 5) {
		read_from(&h->k, MHA_K, rows, 2 * n * d, 2 * d, 0, size);
		read_from(&h->v, MHA_K, rows, 2 * n * d, 2 * d, d, size);
	} else if (k->shape.rank == 4) {
		read_heads_first(&h->k, MHA_K, n, rows, d);
		read_heads_first(&h->v, MHA_V, n, rows, j->dv);
	} else {
		read_from(&h->k, MHA_K, rows, n * d, d, 0, size);
		read_from(&h->v, MHA_V, rows, n * j->dv, j->dv, 0, size);
	}
	return NULL;
}

static void multi_head_sizes(const struct site *s, struct gpu_attend *j)
{
	const struct multi_head *p = s->node->params;
	const struct shape *q = &site_in(s, MHA_Q)->shape;
	const struct vinfo *k = site_in(s, MHA_K), *v = site_in(s, MHA_V),
			   *past = site_in(s, MHA_PAST_K);
	int64_t n = p->num_heads, have = past ? past->shape.dim[2] : 0,
		rows = k ? k->shape.dim[k->shape.rank == 4 ? 2 : 1] : q->dim[1];

	*j = (struct gpu_attend){.batch = q->dim[0],
				 .heads = n,
				 .kv_heads = n,
				 .s = q->dim[1],
				 .t = rows + have,
				 .d = q->rank == 5 ? q->dim[4] : q->dim[2] / n,
				 .kd = 1,
				 .offset = have,
				 .left = -1,
				 .right = p->unidirectional ? 0 : -1,
				 .last_sees_all = 1,
				 .hidden = -INFINITY};
	j->dv = !v ? j->d : v->shape.rank == 4 ? v->shape.dim[3] : v->shape.dim[2] / n;
	j->scale = ms_scale(p->scale, j->d);
}

static const char *multi_head_fill(const struct site *s, struct heads_plan *h)
{
	const struct multi_head *p = s->node->params;
	const struct vinfo *k = site_in(s, MHA_K), *past = site_in(s, MHA_PAST_K);
	struct gpu_attend *j = &h->attend.job;
	int64_t size = gpu_size(gpu_type(s, 0)), n = p->num_heads;

	*h = new_plan();
	if (site_in(s, MHA_PAST_LEN) || site_in(s, MHA_CACHE))
		return "a shared cache";
	multi_head_sizes(s, j);
	const char *bad = multi_head_place(s, h);
	if (bad)
		return bad;
	if (site_in(s, MHA_BIAS)) {
		add_bias(&h->q, MHA_BIAS, 0, size);
		if (!k || k->shape.rank != 4) {
			add_bias(&h->k, MHA_BIAS, n * j->d, size);
			add_bias(&h->v, MHA_BIAS, 2 * n * j->d, size);
		}
	}
	if (past || site_out(s, 1) || site_out(s, 2)) {
		h->k.made = h->v.made = true;
		h->k.past = past ? MHA_PAST_K : NONE;
		h->v.past = past ? MHA_PAST_V : NONE;
		h->k.job.past_room = h->v.job.past_room = j->offset;
		h->k.out = site_out(s, 1) ? 1 : NONE;
		h->v.out = site_out(s, 2) ? 2 : NONE;
	}
	if (site_out(s, 3)) {
		h->qk = 3;
		j->qk = (void *)(uintptr_t)gpu_attend_there;
		if (gpu_out_type(s, 3) != gpu_type(s, 0))
			return "scores of another type";
	}
	bad = take_masks(s, h, MHA_PADDING, MHA_ATT_BIAS, p->mask_filter_value, true);
	return bad ? bad : set_strides(h);
}

/* ---- GroupQueryAttention --------------------------------------------------------------------- */

/*
 * Plans the cache of the keys (i = 0) or of the values (i = 1). The attention cannot read a cache that is quantized,
 * has another type or holds only a window of positions. In these cases the heads are copied into the workspace, and the
 * new cache is written from there.
 */
static const char *group_query_cache(const struct site *s, struct heads_plan *h, int i)
{
	const struct group_query *p = s->node->params;
	struct part *x = i ? &h->v : &h->k;
	uint32_t past = i ? GQA_PAST_V : GQA_PAST_K, scale = i ? GQA_V_SCALE : GQA_K_SCALE,
		 out = (uint32_t)(1 + i);
	const struct vinfo *cache = site_in(s, past), *f = site_in(s, scale);
	enum dtype t = cache ? gpu_type(s, past) : gpu_type(s, 0);
	bool codes = !(T_BIT(t) & (T_F32 | T_F16 | T_BF16)),
	     apart = codes || p->sliding_window_cache || t != gpu_type(s, 0);
	int64_t d = h->attend.job.d, scales = f ? shape_count(&f->shape) : 0;

	out = site_out(s, out) ? out : NONE;
	x->out = apart ? NONE : out;
	x->keep = apart ? out : NONE;
	x->job.codes.type = (int)t;
	if (cache) {
		x->past = past;
		x->job.past_room = cache->shape.dim[2];
		h->lengths.past = x->job.past_room;
	}
	if (!codes)
		return NULL;
	x->scale = scale;
	x->job.codes.bits = (int)p->kv_cache_bit_width;
	x->job.codes.each = scales != 1;
	if (scales != 1 && scales != h->attend.job.kv_heads * d)
		return "scales of the cache of another number";
	return t == DT_U8 ? x->job.codes.bits != 4 || d % 2 ? "4-bit codes of another form" : NULL
	       : x->job.codes.bits == 4 ? "4-bit codes of another type"
					: NULL;
}

static const char *group_query_place(const struct site *s, struct heads_plan *h)
{
	const struct group_query *p = s->node->params;
	const struct shape *q = &site_in(s, GQA_Q)->shape;
	struct gpu_attend *j = &h->attend.job;
	bool packed = !site_in(s, GQA_K);
	int64_t d = j->d, n = j->heads, kv = j->kv_heads, wide = q->dim[2],
		size = gpu_size(gpu_type(s, 0));

	read_from(&h->q, GQA_Q, j->s, wide, d, 0, size);
	read_from(&h->k, packed ? GQA_Q : GQA_K, j->s, packed ? wide : kv * d, d,
		  packed ? n * d : 0, size);
	read_from(&h->v, packed ? GQA_Q : GQA_V, j->s, packed ? wide : kv * d, d,
		  packed ? (n + kv) * d : 0, size);
	h->k.made = h->v.made = true;
	for (int i = 0; i < 2; i++) {
		const char *bad = group_query_cache(s, h, i);
		if (bad)
			return bad;
	}
	if (p->do_rotary && site_in(s, GQA_COS)) {
		const struct shape *cos = &site_in(s, GQA_COS)->shape;
		h->cos = GQA_COS;
		h->position = site_in(s, GQA_POSITION) ? GQA_POSITION : NONE;
		h->q.made = true;
		h->q.job.turned = h->k.job.turned = 2 * cos->dim[1];
		h->q.job.cache_rows = h->k.job.cache_rows = cos->dim[0];
		h->q.job.interleaved = h->k.job.interleaved = p->rotary_interleaved != 0;
		if (2 * cos->dim[1] > d || !site_in(s, GQA_SIN))
			return "caches that do not fit the heads";
	}
	for (int i = 0; i < 2; i++) {
		struct part *x = i ? &h->k : &h->q;
		uint32_t norm = i ? GQA_K_NORM : GQA_Q_NORM;
		x->made |= site_in(s, norm) != NULL;
		x->norm = site_in(s, norm) ? norm : NONE;
		x->job.epsilon = group_query_epsilon(p, norm);
	}
	return NULL;
}

/* Plans the lengths of each batch, the sink and the output of the scores. */
static void group_query_extras(const struct site *s, struct heads_plan *h, int64_t total)
{
	const struct group_query *p = s->node->params;
	struct gpu_attend *j = &h->attend.job;

	h->lens = GQA_SEQLENS;
	h->lengths.batch = j->batch;
	h->lengths.queries = j->s;
	h->lengths.keys = j->t;
	h->lengths.prompt = total == j->s;
	h->lengths.window = p->sliding_window_cache ? p->local_window_size : 0;
	j->valid = (const int64_t *)(const void *)gpu_attend_there;
	j->behind_valid = !h->lengths.prompt;
	if (site_in(s, GQA_SINK))
		h->sink = GQA_SINK;
	else if (p->smooth_softmax == 1)
		h->lengths.zero_bytes = j->heads * gpu_size(gpu_type(s, 0));
	if (h->sink != NONE || h->lengths.zero_bytes)
		j->sink = gpu_attend_there;
	if (site_out(s, 3)) {
		h->qk = 3;
		h->scores = (struct gpu_score_rows){
			.n = j->batch * j->heads * j->s * total, .from = j->t, .to = total};
		j->qk = (void *)(uintptr_t)gpu_attend_there;
		j->qk_mode = p->qk_output == 2 ? GPU_QK_PROBABILITIES : GPU_QK_MASKED;
	}
}

static const char *group_query_fill(const struct site *s, struct heads_plan *h)
{
	const struct group_query *p = s->node->params;
	const struct shape *q = &site_in(s, GQA_Q)->shape;
	const struct vinfo *past = site_in(s, GQA_PAST_K), *present = site_out(s, 1);
	const struct tensor *known = site_known(s, GQA_TOTAL);
	struct gpu_attend *j = &h->attend.job;
	int64_t total = known && tensor_count(known) == 1 ? elem_i64(DT_I32, known->data, 0) : -1,
		n = p->num_heads, kv = p->kv_num_heads;

	*h = new_plan();
	if (total < 0)
		return "a total length that only the run knows";
	if (p->sliding_window_cache && (site_in(s, GQA_BIAS) || site_out(s, 3)))
		return "a sliding-window cache with an attention bias or an output of the scores";
	if (shape_count(&site_in(s, GQA_SEQLENS)->shape) != q->dim[0])
		return "seqlens_k that are not of one number a batch";
	*j = (struct gpu_attend){.batch = q->dim[0],
				 .heads = n,
				 .kv_heads = kv,
				 .s = q->dim[1],
				 .t = p->sliding_window_cache ? q->dim[1]
				      : present		      ? present->shape.dim[2]
							      : total,
				 .kd = 1,
				 .left = p->local_window_size > 0 ? p->local_window_size - 1 : -1,
				 .right = p->causal ? 0 : -1,
				 .safe = 1,
				 .softcap = p->softcap,
				 .hidden = -INFINITY};
	j->d = j->dv = q->dim[2] / (site_in(s, GQA_K) ? n : n + 2 * kv);
	j->scale = ms_scale(p->scale, j->d);
	if (past && p->sliding_window_cache)
		j->t += past->shape.dim[2];
	else if (past && past->shape.dim[2] > j->t)
		j->t = past->shape.dim[2];
	group_query_extras(s, h, total);
	const char *bad = group_query_place(s, h);
	if (!bad)
		bad = take_masks(s, h, NONE, GQA_BIAS, 0, false);
	return bad ? bad : set_strides(h);
}

/* ---- planning and running all of these operators ---------------------------------------------------- */

static int find_kernels(struct site *s, struct heads_plan *h, enum dtype t, struct diag *d)
{
	bool good = true;

	if (h->q.made || h->k.made || h->v.made)
		good = (h->fill = gpu_typed(s, "heads", "heads_fill", t, d)) != NULL;
	if (good && h->mask != NONE)
		good = (h->mask_fn = gpu_typed(s, "heads", "ms_mask", t, d)) != NULL;
	if (good && (h->k.keep != NONE || h->v.keep != NONE))
		good = (h->keep_fn = gpu_typed(s, "heads", "heads_keep", t, d)) != NULL;
	if (good && h->scores.n)
		good = (h->score_fn = gpu_typed(s, "heads", "score_rows", t, d)) != NULL;
	return good ? 0 : -E_DEVICE;
}

/* Whether the part's cached rows are copied as they are. */
static bool copies_cache(const struct part *p, enum dtype t)
{
	return p->made && p->past != NONE && p->scale == NONE && p->job.codes.type == (int)t;
}

static void reserve_copy(struct step *step, struct part *p, size_t size)
{
	const struct gpu_heads *j = &p->job;

	if (p->made && p->out == NONE)
		p->room = gpu_room(step, (size_t)(j->batch * j->heads * j->room * j->size) * size);
}

/*
 * Keys and values may grow where they are cached if the attention itself copies what is cached: it then writes the new rows only. All
 * that depends on where heads begin is known to its kernel by strides.
 */
static void let_grow(struct step *step, const struct heads_plan *h)
{
	const struct part *part[MAX_GROW] = {&h->k, &h->v};

	for (int i = 0; i < MAX_GROW; i++)
		if (!h->attend.make || part[i]->out == NONE || part[i]->past == NONE ||
		    part[i]->out_start || part[i]->past_start || part[i]->job.rows > h->attend.job.t)
			return;
	if (h->k.past == h->v.past || h->k.out == h->v.out)
		return;
	for (int i = 0; i < MAX_GROW; i++) {
		step->grow[i].out = (uint8_t)part[i]->out;
		step->grow[i].in = (uint8_t)part[i]->past;
	}
	step->ngrow = MAX_GROW;
	step->grow_at = h->lens == NONE ? 0 : (uint8_t)(h->lens + 1);
}

static int heads_reshape(struct site *s, struct step *step, const struct heads_plan *filled,
			 struct diag *d)
{
	struct heads_plan *h = arena_dup(s->plan_arena, filled, sizeof(*filled));
	const struct gpu_attend *j = &h->attend.job;
	enum dtype t = gpu_type(s, 0);
	size_t size = (size_t)gpu_size(t);
	const size_t starts[3] = {h->q.made ? 0 : h->q.start, h->k.made ? h->k.out_start : h->k.start,
				  h->v.made ? h->v.out_start : h->v.start};

	step->state = h;
	if (!h->k.job.codes.type)
		h->q.job.codes.type = h->k.job.codes.type = h->v.job.codes.type = (int)t;
	int err = find_kernels(s, h, t, d);
	if (!err)
		err = gpu_attend_set(s, &h->attend, t, starts, d);
	if (!err && copies_cache(&h->k, t) && copies_cache(&h->v, t))
		err = gpu_attend_set_make(s, &h->attend, t, d);
	reserve_copy(step, &h->q, size);
	reserve_copy(step, &h->k, size);
	reserve_copy(step, &h->v, size);
	if (h->mask != NONE)
		h->mask_room = gpu_room(
			step, (size_t)(h->shown.batch * h->shown.rows * h->shown.keys) * size);
	if (h->lens != NONE) {
		step->unread |= UINT64_C(1) << GQA_TOTAL; /* known when this was planned */
		h->numbers_room = gpu_room(step, 4 * (size_t)j->batch * sizeof(int64_t));
		h->zero_room = gpu_room(step, (size_t)h->lengths.zero_bytes);
	}
	if (h->scores.n)
		h->qk_room = gpu_room(step, (size_t)(j->batch * j->heads * j->s * j->t) * size);
	h->scratch_room = gpu_room(step, h->attend.scratch);
	if (!err)
		let_grow(step, h);
	return err;
}

#define OPERATOR(name)                                                                             \
	bool gpu_##name##_accepts(const struct site *s, struct why *w)                             \
	{                                                                                          \
		struct heads_plan h;                                                               \
		const char *bad = name##_fill(s, &h);                                              \
		return bad ? refuse(w, "%s", bad) : true;                                          \
	}                                                                                          \
	int gpu_##name##_reshape(struct site *s, struct step *step, struct diag *d)                \
	{                                                                                          \
		struct heads_plan h;                                                               \
		name##_fill(s, &h);                                                                \
		return heads_reshape(s, step, &h, d);                                              \
	}
OPERATOR(projected)
OPERATOR(multi_head)
OPERATOR(group_query)

/*
 * Returns the k-th array that the kernel heads_fill writes, with one number for each batch. k is 0 for valid, 1 for
 * used, 2 for keep_first, 3 for keep_count.
 */
static int64_t *batch_numbers(const struct call *c, const struct heads_plan *h, int k)
{
	return (int64_t *)gpu_at(c, h->numbers_room) + k * h->lengths.batch;
}

static struct gpu_lengths lengths_job(const struct call *c, const struct heads_plan *h)
{
	struct gpu_lengths job = h->lengths;

	if (h->lens == NONE)
		return job;
	job.last = gpu_data(c, h->lens);
	job.valid = batch_numbers(c, h, 0);
	job.used = batch_numbers(c, h, 1);
	job.keep_first = batch_numbers(c, h, 2);
	job.keep_count = batch_numbers(c, h, 3);
	job.zeros = gpu_at(c, h->zero_room);
	job.fault = gpu_fault(c);
	job.who = (uint64_t)(uintptr_t)c->step->from;
	return job;
}

static const void *input_at(const struct call *c, uint32_t in, size_t start)
{
	const char *p = gpu_data(c, in);

	return p ? p + start : NULL;
}

/* Query, keys and values that need a copy, made by one launch. */
struct parts {
	struct gpu_heads_parts jobs;
	unsigned n;
};

/*
 * Returns the address of a part on the device. If the part needs a copy, adds the job that makes it, or (`fresh`) the new rows of it.
 */
static const void *add_part(const struct call *c, const struct heads_plan *h, const struct part *p,
			    bool fresh, struct parts *to)
{
	struct gpu_heads job = p->job;

	if (!p->made)
		return input_at(c, p->in, p->start);
	job.x = input_at(c, p->in, p->start);
	job.bias = input_at(c, p->bias, p->bias_start);
	job.norm = gpu_data(c, p->norm);
	job.past = input_at(c, p->past, p->past_start);
	job.y = p->out == NONE ? gpu_at(c, p->room) : (char *)gpu_out(c, p->out) + p->out_start;
	if (job.turned) {
		job.cos = gpu_data(c, h->cos);
		job.sin = gpu_data(c, h->cos + 1);
		job.position = gpu_data(c, h->position);
	}
	job.codes.scale = gpu_data(c, p->scale);
	job.plain = !job.codes.scale && job.codes.type == (int)tensor_dtype(c->in[p->in]);
	job.fresh = fresh;
	if (p->out != NONE &&
	    c->out[p->out]->capacity) /* the attention does the rest, see has_capacity() */
		job.room = c->out[p->out]->capacity;
	job.fault = gpu_fault(c);
	job.who = (uint64_t)(uintptr_t)c->step->from;
	if (job.batch > 0 && job.heads > 0 && job.room > 0 && job.size > 0)
		to->jobs.part[to->n++] = job;
	return job.y;
}

/* A block for each new row, or as many as copy the cached rows with 16 bytes a thread. */
static int run_parts(const struct call *c, const struct heads_plan *h, const struct parts *p)
{
	int64_t blocks = 1, threads = 64;

	for (unsigned i = 0; i < p->n; i++)
		threads = p->jobs.part[i].size > 64 ? 128 : threads;
	for (unsigned i = 0; i < p->n; i++) {
		const struct gpu_heads *j = &p->jobs.part[i];
		int64_t rows = j->batch * j->heads * j->rows;
		int64_t old = j->room > j->rows && !j->fresh
				      ? j->batch * j->heads * j->room * j->size / 8 / threads
				      : 0;
		rows = rows > old ? rows : old;
		blocks = rows > blocks ? rows : blocks;
	}
	struct gpu_grid g = gpu_blocks(blocks, (unsigned)threads);
	g.y = p->n;
	return p->n ? gpu_launch_early(c, h->fill, g, &p->jobs, sizeof(p->jobs)) : 0;
}

static int run_keep(const struct call *c, const struct heads_plan *h, const struct part *p,
		    const void *x)
{
	const struct gpu_heads *j = &p->job;
	const struct tensor *y = p->keep == NONE ? NULL : c->out[p->keep];
	struct gpu_keep job = {.x = x,
			       .batch = j->batch,
			       .heads = j->heads,
			       .room = j->room,
			       .size = j->size,
			       .codes = j->codes};

	if (!y)
		return 0;
	job.y = y->data;
	job.rows = y->shape.dim[2];
	job.first = batch_numbers(c, h, 2);
	job.count = batch_numbers(c, h, 3);
	job.codes.scale = gpu_data(c, p->scale);
	int64_t n = job.batch * job.heads * job.rows * job.size;
	return n > 0 ? gpu_launch(c, h->keep_fn, gpu_grid((n + 1) / 2), &job, sizeof(job)) : 0;
}

static int run_mask(const struct call *c, const struct heads_plan *h, const void **mask)
{
	struct gpu_ms_mask job = h->shown;
	int64_t n = job.batch * job.rows * job.keys;

	if (h->mask == NONE)
		return 0;
	job.mask = gpu_data(c, h->mask);
	job.y = gpu_at(c, h->mask_room);
	*mask = job.y;
	return n > 0 ? gpu_launch(c, h->mask_fn, gpu_grid(n), &job, sizeof(job)) : 0;
}

/* Whether the attention itself copies the cached rows of this run, 16 bytes at a time. */
static bool makes_cache(const struct call *c, const struct heads_plan *h)
{
	uintptr_t all = 0;

	for (int i = 0; i < 2 && h->attend.make; i++) {
		const struct part *p = i ? &h->v : &h->k;
		all |= (uintptr_t)input_at(c, p->past, p->past_start);
		all |= p->out == NONE ? 0 : (uintptr_t)gpu_out(c, p->out) + p->out_start;
	}
	return h->attend.make && all % 16 == 0;
}

/* The rows that a head of a cache has memory for. */
static int64_t capacity_of(const struct tensor *t, int64_t rows)
{
	return t && t->capacity ? t->capacity : rows;
}

/* Whether a cache before or behind this run has more memory than rows; see let_grow(). */
static bool has_capacity(const struct call *c, const struct heads_plan *h)
{
	for (int i = 0; i < 2; i++) {
		const struct part *p = i ? &h->v : &h->k;
		if ((p->past != NONE && c->in[p->past]->capacity) ||
		    (p->out != NONE && c->out[p->out]->capacity))
			return true;
	}
	return false;
}

/* The kernels know one number for the cached keys and values. */
static bool capacities_agree(const struct call *c, const struct heads_plan *h)
{
	return c->in[h->k.past]->capacity == c->in[h->v.past]->capacity;
}

static void set_room(const struct call *c, const struct part *p, int64_t *strides)
{
	if (p->out != NONE)
		gpu_attend_steps(false, p->job.heads, capacity_of(c->out[p->out], p->job.room),
				 p->job.size, 0, strides);
}

static void copy_cache(const struct call *c, const struct heads_plan *h,
		       struct gpu_attend_plan *plan, void *fn)
{
	struct gpu_attend *j = &plan->job;

	gpu_attend_use_make(plan, fn);
	j->past_k = input_at(c, h->k.past, h->k.past_start);
	j->past_v = input_at(c, h->v.past, h->v.past_start);
	j->past_room = capacity_of(c->in[h->k.past], h->k.job.past_room);
	set_room(c, &h->k, j->ks);
	set_room(c, &h->v, j->vs);
	j->fresh = h->k.job.rows;
	j->used = h->lens == NONE ? NULL : batch_numbers(c, h, 1);
}

/*
 * Whether the attention makes the new row of its operands as well: all three are made of rows as they are, and nothing else reads what
 * the kernel heads_fill leaves behind.
 */
static bool makes_rows(const struct heads_plan *h)
{
	bool plain = h->attend.now && !h->scores.n && !h->lengths.zero_bytes && h->mask == NONE;

	for (int i = 0; i < 3 && plain; i++) {
		const struct part *p = i == 0 ? &h->q : i == 1 ? &h->k : &h->v;
		plain = p->made && p->norm == NONE && p->scale == NONE && p->keep == NONE &&
			p->job.rows == 1;
	}
	return plain;
}

/*
 * Whether cached rows, lengths and angles may be read while what runs before the attention still writes: they come from outside of the
 * graph of launches that is written down. A cache that grows where it lies is written by the attention alone, behind the rows that are read.
 */
static bool reads_ahead(const struct call *c, const struct heads_plan *h)
{
	const uint32_t in[] = {
		h->k.past,  h->v.past, h->lens, h->cos, h->cos == NONE ? NONE : h->cos + 1,
		h->position};
	uint64_t all = 0;

	for (size_t i = 0; i < sizeof(in) / sizeof(*in); i++)
		all |= in[i] == NONE ? 0 : UINT64_C(1) << in[i];
	return gpu_writes_down(c) && (c->step->outside & all) == all;
}

static int run_now(const struct call *c, const struct heads_plan *h, struct gpu_attend_plan *plan,
		   const struct parts *parts)
{
	struct gpu_attend_now job = {.heads = parts->jobs, .ahead = reads_ahead(c, h)};

	plan->job.valid = NULL;
	plan->job.used = NULL;
	plan->job.mask = gpu_data(c, h->bias);
	plan->job.bias = plan->job.mask;
	plan->job.sink = plan->job.sink ? gpu_data(c, h->sink) : NULL;
	plan->job.y = gpu_out(c, 0);
	plan->job.scratch = gpu_at(c, h->scratch_room);
	return gpu_attend_launch_now(c, plan, &job);
}

int gpu_heads_run(const struct call *c)
{
	const struct heads_plan *h = c->step->state;
	struct gpu_attend_plan plan = h->attend;
	struct gpu_attend *j = &plan.job;
	struct parts parts = {.jobs = {.lengths = lengths_job(c, h)}, .n = 0};
	int err = 0;
	bool make = makes_cache(c, h), now = make && makes_rows(h);

	if (has_capacity(c, h) && !(make && capacities_agree(c, h)))
		return call_fail(c, E_INTERNAL, "caches without gaps", "caches with room");
	j->q = add_part(c, h, &h->q, false, &parts);
	j->k = add_part(c, h, &h->k, make, &parts);
	j->v = add_part(c, h, &h->v, make, &parts);
	if (make)
		copy_cache(c, h, &plan, now ? plan.now : plan.make);
	if (now)
		return run_now(c, h, &plan, &parts);
	if (!err)
		err = run_parts(c, h, &parts);
	j->mask = gpu_data(c, h->bias);
	j->bias = j->mask;
	if (!err)
		err = run_mask(c, h, &j->mask);
	if (h->lens != NONE)
		j->valid = batch_numbers(c, h, 0);
	if (j->sink)
		j->sink = h->sink == NONE ? gpu_at(c, h->zero_room) : gpu_data(c, h->sink);
	j->y = gpu_out(c, 0);
	j->qk = h->qk == NONE ? NULL : h->scores.n ? gpu_at(c, h->qk_room) : gpu_out(c, h->qk);
	j->scratch = gpu_at(c, h->scratch_room);
	if (!err)
		err = gpu_attend_launch(c, &plan);
	if (!err)
		err = run_keep(c, h, &h->k, j->k);
	if (!err)
		err = run_keep(c, h, &h->v, j->v);
	if (err || !h->scores.n)
		return err;
	struct gpu_score_rows job = h->scores;
	job.x = j->qk;
	job.y = gpu_out(c, h->qk);
	return gpu_launch(c, h->score_fn, gpu_grid(job.n), &job, sizeof(job));
}
