/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/sdpa.h"

#include "gpu/library/choices.h"
#include "gpu/library/cudnn_attention.h"
#include "gpu/kernels/attend_group.h"
#include "gpu/kernels/float8.h"
#include "gpu/kernels/heads.h"
#include "gpu/launch/group.h"
#include "ops/float8.h"
#include "ops/fused.h"

#include <math.h>

enum {
	MAX_HEAD_SIZE = 128,
	MAX_PLAIN_BLOCKS =
		2048, /* each has a row of scores in the workspace, and takes several rows if there are more */
	MAX_KNOWN_MASK = 1 << 20,
	HIDING_SCORE = 30000, /* masks below its negative hide: exporters write -65504, -1e9 or a type's lowest number */
	MAX_FEW = 16,	 /* queries of a head of keys that the kernels for few queries take */
	FEW_AT_ONCE = 4, /* pieces of 16 bytes that each thread of these reads of the keys at once, */
	FEW_THREADS = 128,
	MANY_THREADS = 256, /* of a block that has a processor for itself */
	MAX_PARTS = 64,
	NEAR_PARTS = 8,	 /* of the kernels attend_near, whose blocks of a cluster join them, */
	NEAR_ROUNDS = 4, /* if each of MANY_THREADS reads no more of the keys than this many times */
};

const char gpu_attend_there[1];

void gpu_attend_steps(bool merged, int64_t heads, int64_t length, int64_t size, int64_t row,
		      int64_t *steps)
{
	steps[0] = merged ? length * row : heads * length * size;
	steps[1] = merged ? size : length * size;
	steps[2] = merged ? row : size;
}

void gpu_attend_mask(const struct shape *s, int64_t keys, int64_t *steps, int64_t *mask_keys)
{
	int64_t own[MAX_RANK];

	shape_strides(s, own);
	*mask_keys = s->rank && s->dim[s->rank - 1] != 1 ? s->dim[s->rank - 1] : keys;
	for (int i = 0; i < 4; i++)
		steps[i] = i < 4 - s->rank ? 0 : own[i - (4 - s->rank)];
}

const char *gpu_attend_refusal(const struct gpu_attend *j)
{
	int64_t rows;

	if (__builtin_mul_overflow(j->batch * j->heads, j->s, &rows) || rows > INT32_MAX)
		return "batch * heads * queries of 2^31 or more";
	return j->kv_heads < 1 || j->heads % j->kv_heads
		       ? "query heads that are no multiple of the key heads"
		       : NULL;
}

/* Returns whether the kernels on tensor cores, which keep the scores in registers, support this form of attention. */
static bool fits_tensor_cores(const struct gpu_attend *j, enum dtype t)
{
	bool mask = !j->mask_type || j->mask_type == DT_BOOL || j->mask_type == (int)t;

	return t != DT_F64 && mask && !j->bias_type && !j->sink && !j->qk && !j->round &&
	       j->d <= MAX_HEAD_SIZE && j->dv <= MAX_HEAD_SIZE && j->heads <= MAX_GRID_YZ &&
	       j->batch <= MAX_GRID_YZ;
}

static bool are_multiples(const int64_t *steps, int64_t by)
{
	return steps[0] % by == 0 && steps[1] % by == 0 && steps[2] % by == 0;
}

/*
 * Returns the number of warps in a block of the strict fp32 kernel, in which each warp computes 16 queries. If there
 * are few blocks, they are made smaller, so that more processors of the device have work.
 */
static unsigned exact_warps(const struct site *s, const struct gpu_attend *j)
{
	const struct device_facts *f = cuda_facts(s->device);
	int64_t heads = j->batch * j->heads, blocks = (j->s + 63) / 64 * heads;

	if (j->s <= 16)
		return 1;
	return j->s <= 32 || blocks < f->processors ? 2 : 4;
}

static int set_plain(const struct site *s, struct gpu_attend_plan *p, enum dtype t, struct diag *d)
{
	const struct gpu_attend *j = &p->job;
	int64_t rows = j->batch * j->heads * j->s,
		blocks = rows < MAX_PLAIN_BLOCKS ? rows : MAX_PLAIN_BLOCKS;

	p->grid = (struct gpu_grid){(unsigned)blocks, 1, 1, 128, 0};
	p->scratch = (size_t)(blocks * j->t) * (t == DT_F64 ? 8 : 4);
	p->fn = gpu_typed(s, "attend", "attend_plain", t, d);
	return p->fn ? 0 : -E_DEVICE;
}

/*
 * Returns whether the kernels for few queries support this form of attention. They read 16 bytes of queries, keys and values
 * at a time. A cache of keys grows with each step of a decoder; they need no plan of cuDNN's for each of its lengths.
 */
static bool is_few(const struct gpu_attend *j, enum dtype t, const size_t starts[3])
{
	int64_t each = 16 / gpu_size(t), rows = j->heads / j->kv_heads * j->s;

	return t != DT_F64 && rows <= MAX_FEW && !j->qk && !j->round && j->kd == 1 &&
	       j->d <= MAX_HEAD_SIZE && j->dv <= MAX_HEAD_SIZE && j->d % each == 0 &&
	       j->dv % each == 0 && are_multiples(j->qs, each) && are_multiples(j->ks, each) &&
	       are_multiples(j->vs, each) && j->ks[2] <= INT32_MAX && j->vs[2] <= INT32_MAX &&
	       starts[0] % 16 == 0 && starts[1] % 16 == 0 && starts[2] % 16 == 0 &&
	       j->kv_heads * rows <= MAX_GRID_YZ && j->batch <= MAX_GRID_YZ && j->t < INT32_MAX / 2;
}

static int few_rows(const struct gpu_attend *j)
{
	return j->heads / j->kv_heads * j->s > 1 ? 4 : 1;
}

static int few_head(const struct gpu_attend *j)
{
	return j->d > 64 || j->dv > 64 ? 128 : 64;
}

static void *few_kernel(const struct site *s, const char *name, const struct gpu_attend *j,
			enum dtype t, struct diag *d)
{
	char all[64];

	snprintf(all, sizeof(all), "%s_%s_%d_%d", name, dtype_name(t), few_head(j), few_rows(j));
	return gpu_kernel(s, "attend_few", all, d);
}

/*
 * Cuts the keys into so many parts that two blocks for each processor have work. If there are nearly as many heads as processors,
 * a larger block for each of them takes all keys, and nothing is to be joined.
 */
static int set_few(const struct site *s, struct gpu_attend_plan *p, enum dtype t, struct diag *d)
{
	struct gpu_attend *j = &p->job;
	int64_t rows = j->heads / j->kv_heads * j->s, each = few_rows(j);
	int64_t heads = j->kv_heads * ((rows + each - 1) / each), blocks = heads * j->batch;
	int64_t processors = cuda_facts(s->device)->processors;
	bool whole = blocks >= processors * 3 / 4;
	unsigned threads = whole ? MANY_THREADS : FEW_THREADS;
	int64_t unit = FEW_AT_ONCE * threads * (16 / gpu_size(t)) / few_head(j),
		units = (j->t + unit - 1) / unit;
	int64_t parts = blocks > 0 && !whole ? 2 * processors / blocks : 1;

	parts = parts < MAX_PARTS ? parts : MAX_PARTS;
	parts = parts < units ? parts : units;
	parts = parts > 1 ? parts : 1;
	int64_t each_part = units > 0 ? (units + parts - 1) / parts * unit : unit;
	j->part = (int)each_part;
	j->parts = j->t > each_part ? (int)((j->t + each_part - 1) / each_part) : 1;
	p->grid = (struct gpu_grid){(unsigned)j->parts, (unsigned)heads, (unsigned)j->batch,
				    threads, 0};
	p->few = p->early = true;
	p->fn = few_kernel(s, "attend_few", j, t, d);
	if (!p->fn || j->parts == 1)
		return p->fn ? 0 : -E_DEVICE;
	p->scratch = (size_t)(j->batch * j->kv_heads * rows * j->parts * (j->dv + 2)) * sizeof(float);
	p->join = gpu_typed(s, "attend_few", "attend_join", t, d);
	return p->join ? 0 : -E_DEVICE;
}

/*
 * Whether the blocks of a cluster can have the parts: then nothing is left for another kernel to join. Clusters must find room all at a time, or
 * nearly so where blocks are short: a second round of them takes longer than that kernel.
 */
static bool parts_are_near(const struct site *s, const struct gpu_attend_plan *p, enum dtype t)
{
	const struct gpu_attend *j = &p->job;
	int64_t unit = FEW_AT_ONCE * MANY_THREADS * (16 / gpu_size(t)) / few_head(j);
	int64_t blocks = (int64_t)p->grid.y * p->grid.z * NEAR_PARTS;
	int64_t room = cuda_facts(s->device)->processors * 3 / 4;

	if (j->t <= NEAR_PARTS / 4 * unit)
		room *= 2;
	return gpu_can_launch_early(cuda_facts(s->device)) && j->parts > 1 && blocks <= room &&
	       j->t <= NEAR_PARTS * NEAR_ROUNDS * unit;
}

static void set_near(struct gpu_attend_plan *p, enum dtype t)
{
	const struct gpu_attend *j = &p->job;
	int64_t part = (j->t + NEAR_PARTS - 1) / NEAR_PARTS;
	int64_t threads = (part + FEW_AT_ONCE - 1) / FEW_AT_ONCE * few_head(j) / (16 / gpu_size(t));

	threads = threads < FEW_THREADS	   ? FEW_THREADS
		  : threads > MANY_THREADS ? MANY_THREADS
					   : threads;
	p->near = p->grid;
	p->near.x = NEAR_PARTS;
	p->near.threads = (unsigned)(threads + 31) / 32 * 32;
	p->near_part = (int)part;
}

int gpu_attend_set_make(const struct site *s, struct gpu_attend_plan *p, enum dtype t, struct diag *d)
{
	const struct gpu_attend *j = &p->job;

	/* a query whose probabilities are NaN would look at all values, which other blocks are still copying */
	if (!p->few || j->nan_to_zero || j->batch < 1 || j->heads < 1 || j->s < 1 || j->t < 1)
		return 0;
	if (parts_are_near(s, p, t))
		set_near(p, t);
	p->make = few_kernel(s, p->near.threads ? "attend_near" : "attend_make", j, t, d);
	if (p->make && j->s == 1)
		p->now = few_kernel(s, p->near.threads ? "attend_now_near" : "attend_now", j, t, d);
	return p->make && (p->now || j->s != 1) ? 0 : -E_DEVICE;
}

void gpu_attend_use_make(struct gpu_attend_plan *p, void *fn)
{
	p->fn = fn;
	if (!p->near.threads)
		return;
	p->grid = p->near;
	p->job.part = p->near_part;
	p->job.parts = NEAR_PARTS;
	p->join = NULL;
}

/* The parts of each query are joined by a kernel of their own, which waits for all of them. */
static int join_parts(const struct call *c, const struct gpu_attend_plan *p)
{
	const struct gpu_attend *j = &p->job;
	const struct gpu_grid g = {(unsigned)(j->batch * j->heads * j->s), 1, 1, 128, 0};

	return gpu_launch_early(c, p->join, g, j, sizeof(*j));
}

/* ---- few keys ---------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	int keys, blocks; /* of a processor */
	unsigned shared;
} few_keys[] = {
#define KEYS(keys, blocks) {#keys, keys, blocks, GPU_ATTEND_GROUP_SHARED(keys)},
	GPU_ATTEND_GROUP_KEYS(KEYS)
#undef KEYS
};
enum { FEW_KEYS = sizeof(few_keys) / sizeof(*few_keys), GROUP_HEAD = 64, GROUP_QUERIES = 64 };

/* Returns how the kernels of attend_group.cu hide keys, by its name there, or NULL if they do not support this form of attention. */
static const char *hiding(const struct gpu_attend *j, enum dtype t)
{
	const bool ranges = j->left >= 0 || j->right >= 0;

	if (j->bias_type || j->sink || j->qk || j->round || j->softcap > 0 || !(j->scale > 0) ||
	    isinf(j->scale) || (j->mask_type && (ranges || j->mask_type != (int)t)))
		return NULL;
	if (!j->mask_type)
		return ranges ? "RANGES" : "ALL";
	if (!j->ms[2])
		return "ROW_MASK";
	return j->t <= few_keys[0].keys && j->ms[3] == 1 && are_multiples(j->ms, 2) &&
			       j->mask_keys % 2 == 0
		       ? "PAIR_MASK"
		       : NULL;
}

/* Plans a kernel for few keys, if there is one for this form of attention. */
static bool set_group(const struct site *s, struct gpu_attend_plan *p, enum dtype t,
		      const size_t starts[3])
{
	const struct gpu_attend *j = &p->job;
	const bool float8 = gpu_out_type(s, 0) == FLOAT8;
	const char *form = hiding(j, t), *type = float8 ? "f8" : t == DT_F16 ? "f16" : "bf16";
	const int64_t tiles = (j->s + GROUP_QUERIES - 1) / GROUP_QUERIES, all = j->batch * j->heads;
	char name[48];
	int i = 0;

	while (i < FEW_KEYS && j->t > few_keys[i].keys)
		i++;
	if (!form || i == FEW_KEYS || (t != DT_F16 && t != DT_BF16) || !gpu_group_has(s->device, t) ||
	    j->d != GROUP_HEAD || j->dv != GROUP_HEAD || j->kd != 1 || !are_multiples(j->qs, 8) ||
	    !are_multiples(j->ks, 8) || !are_multiples(j->vs, 8) ||
	    !are_multiples(j->ys, float8 ? 16 : 8) || starts[0] % 16 || starts[1] % 16 ||
	    starts[2] % 16 || j->heads > MAX_GRID_YZ || j->batch > MAX_GRID_YZ || all < 1)
		return false;
	/* a block keeps the keys of its head for as many tiles of queries as leave work for all others */
	const int64_t places = (int64_t)cuda_facts(s->device)->processors * few_keys[i].blocks,
		      wanted = places / all;
	p->grid = (struct gpu_grid){(unsigned)(wanted < 1	? 1
					       : wanted < tiles ? wanted
								: tiles),
				    (unsigned)j->heads, (unsigned)j->batch, 128, few_keys[i].shared};
	snprintf(name, sizeof(name), "attend_%s_%s_%s", type, few_keys[i].name, form);
	p->fn = gpu_kernel_sharing(s, "attend_group", name, few_keys[i].shared, NULL);
	p->early = p->fn != NULL;
	p->rounds = float8 && p->fn;
	return p->early;
}

int gpu_attend_set(const struct site *s, struct gpu_attend_plan *p, enum dtype t,
		   const size_t starts[3], struct diag *d)
{
	struct gpu_attend *j = &p->job;
	int64_t each = 16 / gpu_size(t);
	bool tf32 = t == DT_F32 && s->config && s->config->precision == PRECISION_TF32;
	bool exact = t == DT_F32 && !tf32, large = j->d > 64 || j->dv > 64;
	unsigned head = large ? 128 : 64, tile = large ? 16 : 32;
	char name[64];

	if (is_few(j, t, starts))
		return set_few(s, p, t, d);
	if (set_group(s, p, t, starts))
		return 0;
	struct why why = {.arena = s->plan_arena};
	p->library = sdpa_of(s, j, t, &p->scratch, &why);
	if (p->library)
		return 0;
	if (t == DT_F16 || t == DT_BF16)
		gpu_fell_back(s, "by our own attention", why.text);
	if (!fits_tensor_cores(j, t))
		return set_plain(s, p, t, d);
	j->vector = j->kd == 1 && j->d % each == 0 && j->dv % each == 0 &&
		    are_multiples(j->ks, each) && are_multiples(j->vs, each) &&
		    starts[1] % 16 == 0 && starts[2] % 16 == 0;
	bool pairs = j->vector && are_multiples(j->qs, 2) && are_multiples(j->ys, 2) &&
		     starts[0] % 16 == 0;
	const char *form = !pairs || j->softcap > 0 ? "ANY"
			   : !j->mask_type	    ? "PLAIN"
			   : j->mask_type == (int)t ? "MASKED"
						    : "ANY";
	unsigned n = exact ? exact_warps(s, j) : 4;
	p->grid = (struct gpu_grid){(unsigned)((j->s + n * 16 - 1) / (n * 16)), (unsigned)j->heads,
				    (unsigned)j->batch, n * 32, exact ? 16 * tile * (head + 4) : 0};
	const int64_t blocks = (int64_t)p->grid.x * j->heads * j->batch;
	bool wide = tf32 && !large && blocks <= 2 * cuda_facts(s->device)->processors;
	p->early = !exact;
	if (exact)
		snprintf(name, sizeof(name), "attend_f32_%u", head);
	else
		snprintf(name, sizeof(name), "attend_%s%s_%u_%s", tf32 ? "tf32" : dtype_name(t),
			 wide ? "_wide" : "", head, form);
	p->fn = gpu_kernel(s, exact ? "attend" : "attend_half", name, d);
	return p->fn ? 0 : -E_DEVICE;
}

int gpu_attend_launch(const struct call *c, const struct gpu_attend_plan *p)
{
	const struct gpu_attend *job = &p->job;
	bool any = job->batch > 0 && job->heads > 0 && job->s > 0;

	if (any && p->library)
		return sdpa_run(c, p->library, job, job->scratch);
	int (*launch)(const struct call *, void *, struct gpu_grid, const void *, size_t) =
		p->early ? gpu_launch_early : gpu_launch;
	int err = any ? launch(c, p->fn, p->grid, job, sizeof(*job)) : 0;
	return any && p->join && !err ? join_parts(c, p) : err;
}

int gpu_attend_launch_now(const struct call *c, const struct gpu_attend_plan *p,
			  struct gpu_attend_now *job)
{
	job->attend = p->job;
	int err = gpu_launch_early(c, p->fn, p->grid, job, sizeof(*job));
	return p->join && !err ? join_parts(c, p) : err;
}

/* ---- infer::Attention ------------------------------------------------------------------------ */

struct fused {
	struct gpu_attend_plan plan;
	size_t start[3]; /* byte offsets at which q, k and v begin in their inputs */
	bool packed;
	void *round; /* rounds what the attention has written to the workspace; NULL where y is of its type, or it rounds itself */
};

static void fill_packed(const struct fused_attention *p, const struct shape *q, int64_t size,
			struct fused *a)
{
	struct gpu_attend *j = &a->plan.job;
	int64_t row = q->dim[2], hidden = row / 3;

	j->t = j->s;
	j->d = j->dv = hidden / j->heads;
	gpu_attend_steps(true, p->num_heads, j->s, j->d, row, j->qs);
	memcpy(j->ks, j->qs, sizeof(j->qs));
	memcpy(j->vs, j->qs, sizeof(j->qs));
	a->start[1] = (size_t)(hidden * size);
	a->start[2] = (size_t)(2 * hidden * size);
}

static void fill_separate(const struct fused_attention *p, const struct shape *q,
			  const struct shape *k, const struct shape *v, struct fused *a)
{
	struct gpu_attend *j = &a->plan.job;

	j->d = q->rank == 4 ? q->dim[3] : q->dim[2] / j->heads;
	j->t = v->dim[v->rank - 2];
	j->dv = v->rank == 4 ? v->dim[3] : v->dim[2] / j->kv_heads;
	gpu_attend_steps(q->rank == 3, j->heads, j->s, j->d, j->heads * j->d, j->qs);
	gpu_attend_steps(k->rank == 3, j->kv_heads, j->t, j->d, j->kv_heads * j->d, j->ks);
	gpu_attend_steps(v->rank == 3, j->kv_heads, j->t, j->dv, j->kv_heads * j->dv, j->vs);
	if (p->k_transposed && k->rank == 4) {
		j->ks[2] = 1;
		j->kd = j->t;
	}
}

/* Returns whether a mask that is known before the run leaves each query at least one key. Then `safe` has no effect. */
static bool leaves_a_key(const struct tensor *t)
{
	int64_t n = t ? tensor_count(t) : 0,
		row = t && t->shape.rank ? t->shape.dim[t->shape.rank - 1] : 0;
	bool any = false;

	if (row < 1 || n > MAX_KNOWN_MASK || t->device || !t->data || tensor_dtype(t) == DT_BOOL)
		return false;
	for (int64_t i = 0; i < n; i++) {
		any |= elem_f64(tensor_dtype(t), t->data, i) > -6e4;
		if (i % row == row - 1 && !any)
			return false;
		if (i % row == row - 1)
			any = false;
	}
	return true;
}

/*
 * Returns whether a mask that is known before the run is the causal one, which hides later keys from each query and
 * nothing else.
 */
static bool is_causal(const struct tensor *t, int64_t queries, int64_t keys)
{
	int64_t n = t ? tensor_count(t) : 0, rank = t ? t->shape.rank : 0;

	if (n < 1 || n > MAX_KNOWN_MASK || t->device || !t->data || rank < 2 || queries != keys ||
	    t->shape.dim[rank - 1] != keys || t->shape.dim[rank - 2] != queries)
		return false;
	for (int64_t i = 0; i < n; i++) {
		double v = elem_f64(tensor_dtype(t), t->data, i);
		bool later = i % keys > i / keys % queries, hidden = v < -HIDING_SCORE;
		if (tensor_dtype(t) == DT_BOOL ? later != (v < 0.5)
		    : later		       ? !hidden
					       : v < 0 || v > 0)
			return false;
	}
	return true;
}

static void fill_mask(const struct site *s, const struct vinfo *mask, struct gpu_attend *j)
{
	const struct tensor *known = site_known(s, 3);

	/* if the attention is marked as causal, the kernel skips the later keys */
	if (j->right < 0 && is_causal(known, j->s, j->t)) {
		j->right = 0;
		j->offset = 0;
		return;
	}
	j->mask_type = mask->type.dtype;
	gpu_attend_mask(&mask->shape, j->t, j->ms, &j->mask_keys);
	j->safe &= !leaves_a_key(known);
}

static const char *fill_fused(const struct site *s, struct fused *a)
{
	const struct fused_attention *p = s->node->params;
	const struct vinfo *q = site_in(s, 0), *k = site_in(s, 1), *v = site_in(s, 2),
			   *mask = site_in(s, 3);
	struct gpu_attend *j = &a->plan.job;

	*j = (struct gpu_attend){.batch = q->shape.dim[0],
				 .heads = p->num_heads,
				 .kv_heads = p->kv_heads > 0 ? p->kv_heads : p->num_heads,
				 .s = q->shape.dim[q->shape.rank - 2],
				 .kd = 1,
				 .left = -1,
				 .right = p->causal ? 0 : -1,
				 .safe = p->safe != 0,
				 .nan_to_zero = p->safe != 0,
				 .scale = p->scale,
				 .hidden = -INFINITY};
	a->packed = !k;
	if (a->packed)
		fill_packed(p, &q->shape, gpu_size(gpu_type(s, 0)), a);
	else
		fill_separate(p, &q->shape, &k->shape, &v->shape, a);
	j->offset = p->causal == 2 ? j->t - j->s : 0;
	gpu_attend_steps(p->merged, j->heads, j->s, j->dv, j->heads * j->dv, j->ys);
	if (mask && mask->shape.rank > 4)
		return "a mask of more than four dimensions";
	if (mask)
		fill_mask(s, mask, j);
	return gpu_attend_refusal(j);
}

bool gpu_fused_attention_accepts(const struct site *s, struct why *w)
{
	struct fused a = {0};
	const char *bad = fill_fused(s, &a);

	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_fused_attention_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct fused *a = arena_new(s->plan_arena, struct fused);

	fill_fused(s, a);
	step->state = a;
	if (site_in(s, 3) && !a->plan.job.mask_type)
		step->unread |= 8;
	int err = gpu_attend_set(s, &a->plan, gpu_type(s, 0), a->start, d);
	step->workspace = a->plan.scratch;
	if (err || gpu_out_type(s, 0) == gpu_type(s, 0) || a->plan.rounds)
		return err;
	a->plan.scratch = cuda_aligned(a->plan.scratch);
	step->workspace = a->plan.scratch +
			  (size_t)(gpu_count(&site_out(s, 0)->shape) * gpu_size(gpu_type(s, 0)));
	a->round = gpu_kernel(s, "float8", "float8_round", d);
	return a->round ? 0 : -E_DEVICE;
}

/* Launches the attention and what rounds its result to float8, the attention itself if it can. */
static int run_float8(const struct call *c, const struct fused *a, struct gpu_attend_plan *plan)
{
	const struct fused_attention *p = c->step->node->params;
	struct gpu_attend_float8 own = {.attend = plan->job, .by = 1 / p->y_scale};
	struct gpu_float8 job = {.x = (char *)c->workspace + plan->scratch,
				 .y = plan->job.y,
				 .n = tensor_count(c->out[0]),
				 .scale = p->y_scale};

	if (!job.n)
		return 0;
	if (plan->rounds)
		return gpu_launch_early(c, plan->fn, plan->grid, &own, sizeof(own));
	plan->job.y = (char *)c->workspace + plan->scratch;
	int err = gpu_attend_launch(c, plan);
	return err ? err : gpu_launch(c, a->round, gpu_grid(job.n / 8 + 1), &job, sizeof(job));
}

int gpu_fused_attention_run(const struct call *c)
{
	const struct fused *a = c->step->state;
	struct gpu_attend_plan plan = a->plan;
	struct gpu_attend *job = &plan.job;

	job->q = gpu_data(c, 0);
	job->k = a->packed ? (const char *)job->q + a->start[1] : gpu_data(c, 1);
	job->v = a->packed ? (const char *)job->q + a->start[2] : gpu_data(c, 2);
	job->mask = gpu_data(c, 3);
	job->y = gpu_out(c, 0);
	job->scratch = c->workspace;
	return a->round || plan.rounds ? run_float8(c, a, &plan) : gpu_attend_launch(c, &plan);
}
