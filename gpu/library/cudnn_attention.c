/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/library/cudnn_attention.h"

#include "base/str.h"
#include "gpu/library/cudnn.h"
#include "gpu/driver/tune.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { UID_Q = 1, UID_K, UID_V, UID_Y, UID_SCALE, UID_MASK, UID_LEAST, UID_VIRTUAL = 100 };
enum { MAX_HEAD_SIZE = 128, HEAD_STEP = 8, MAX_ENGINES = 4, TRIAL_ROOM = 32 << 20 };

/* Everything that a plan depends on. Keys are compared bytewise. */
struct key {
	int64_t batch, heads, s, t, d, dv;
	int64_t qs[3], ks[3], vs[3], ys[3], ms[4];
	int32_t type, mask, causal, unused;
};
struct sdpa {
	struct key key;
	struct dn_plan *plan;
	struct dn_graph *graph;
	char how[DN_TEXT + 32]; /* "e2,..., from the cache" */
	const char *why;	/* why there is no plan */
	struct sdpa *next;
};
struct plans {
	struct arena arena;
	struct sdpa *first;
};

static void plans_drop(struct device *dev, void *state)
{
	struct plans *p = state;
	struct arena a = p->arena;

	(void)dev;
	for (struct sdpa *s = p->first; s; s = s->next) {
		dn_plan_free(s->plan);
		dn_graph_free(s->graph);
	}
	arena_free(&a);
}

static struct plans *plans_of(struct device *dev)
{
	return gpu_slot_new(dev, GPU_ATTENTION, sizeof(struct plans), plans_drop);
}

/* Returns why cuDNN's attention does not support the job, or NULL if it does. */
static const char *why_unsupported(const struct gpu_attend *j, enum dtype t)
{
	bool causal = j->right == 0 && j->offset == 0;

	if (t != DT_F16 && t != DT_BF16)
		return "cuDNN's attention is for fp16 and bf16";
	if (j->d % HEAD_STEP || j->dv % HEAD_STEP || j->d > MAX_HEAD_SIZE || j->dv > MAX_HEAD_SIZE)
		return "a head size that cuDNN's attention does not support";
	if (j->kv_heads != j->heads || j->kd != 1 || j->valid || j->bias_type || j->sink || j->qk ||
	    j->round || j->softcap > 0 || j->left >= 0)
		return "a form that cuDNN's attention does not support";
	if (j->right >= 0 && !causal)
		return "a window";
	if (j->mask_type && (j->mask_type != (int)t || j->mask_keys != j->t || j->safe))
		return "a mask that is not simply added to the scores";
	return j->batch < 1 || j->s < 1 || j->t < 1 ? "an empty attention" : NULL;
}

static struct key key_of(const struct gpu_attend *j, enum dtype t)
{
	struct key k;

	memset(&k, 0, sizeof(k));
	k.batch = j->batch, k.heads = j->heads, k.s = j->s, k.t = j->t, k.d = j->d, k.dv = j->dv;
	memcpy(k.qs, j->qs, sizeof(k.qs));
	memcpy(k.ks, j->ks, sizeof(k.ks));
	memcpy(k.vs, j->vs, sizeof(k.vs));
	memcpy(k.ys, j->ys, sizeof(k.ys));
	if (j->mask_type)
		memcpy(k.ms, j->ms, sizeof(k.ms));
	k.type = (int32_t)t;
	k.mask = j->mask_type != 0;
	k.causal = j->right == 0;
	return k;
}

/* ---- the graph ------------------------------------------------------------------------------- */

struct graph_builder {
	struct dn_graph *g;
	const struct key *k;
	int64_t next; /* uid of the next virtual tensor */
};

static int add_heads(struct graph_builder *w, int64_t uid, int64_t length, int64_t size,
		     const int64_t *steps, bool turned)
{
	struct dn_tensor t = {.uid = uid,
			      .type = (enum dtype)w->k->type,
			      .rank = 4,
			      .dim = {w->k->batch, w->k->heads, length, size},
			      .stride = {steps[0], steps[1], steps[2], 1}};

	if (turned) {
		t.dim[2] = size, t.dim[3] = length;
		t.stride[2] = 1, t.stride[3] = steps[2];
	}
	return dn_tensor(w->g, &t);
}

/* Adds a virtual tensor for the scores, or, with `rows`, for one number of each row of scores. */
static int add_virtual(struct graph_builder *w, enum dtype type, bool rows)
{
	int64_t t = rows ? 1 : w->k->t;
	struct dn_tensor v = {.uid = w->next++,
			      .type = type,
			      .rank = 4,
			      .dim = {w->k->batch, w->k->heads, w->k->s, t},
			      .stride = {w->k->heads * w->k->s * t, w->k->s * t, t, 1},
			      .is_virtual = true};

	return dn_tensor(w->g, &v);
}

static int add_number(struct graph_builder *w, int64_t uid)
{
	struct dn_tensor v = {.uid = uid,
			      .type = DT_F32,
			      .rank = 4,
			      .dim = {1, 1, 1, 1},
			      .stride = {1, 1, 1, 1},
			      .by_value = true};

	return dn_tensor(w->g, &v);
}

static int add_mask(struct graph_builder *w, int scores)
{
	const struct key *k = w->k;
	struct dn_tensor m = {.uid = UID_MASK,
			      .type = (enum dtype)k->type,
			      .rank = 4,
			      .dim = {k->batch, k->heads, k->s, k->t}};
	int64_t step = 1;

	for (int i = 3; i >= 0; i--) { /* a dimension that broadcasts has size 1 */
		if (!k->ms[i])
			m.dim[i] = 1;
		m.stride[i] = k->ms[i] ? k->ms[i] : step;
		step = m.stride[i] * m.dim[i];
	}
	int mask = dn_tensor(w->g, &m), y = add_virtual(w, DT_F32, false);
	dn_pointwise(w->g, DN_ADD, scores, mask, -1, y, NULL);
	return y;
}

static int add_causal_mask(struct graph_builder *w, int scores)
{
	int row = add_virtual(w, DT_I32, false), col = add_virtual(w, DT_I32, false);
	int seen = add_virtual(w, DT_BOOL, false), least = add_number(w, UID_LEAST),
	    y = add_virtual(w, DT_F32, false);

	dn_pointwise(w->g, DN_GEN_INDEX, scores, -1, -1, row,
		     &(struct dn_arg){.alpha = 2, .has_alpha = true});
	dn_pointwise(w->g, DN_GEN_INDEX, scores, -1, -1, col,
		     &(struct dn_arg){.alpha = 3, .has_alpha = true});
	dn_pointwise(w->g, DN_CMP_GE, row, col, -1, seen, NULL);
	dn_pointwise(w->g, DN_SELECT, scores, least, seen, y, NULL);
	return y;
}

/*
 * Adds the softmax. cuDNN recognizes attention only if the graph also computes the log-sum-exp, although nothing reads
 * it.
 */
static int add_softmax(struct graph_builder *w, int scores)
{
	int most = add_virtual(w, DT_F32, true), less = add_virtual(w, DT_F32, false);
	int powers = add_virtual(w, DT_F32, false), sum = add_virtual(w, DT_F32, true);
	int logarithm = add_virtual(w, DT_F32, true), stats = add_virtual(w, DT_F32, true);
	int y = add_virtual(w, (enum dtype)w->k->type, false);

	dn_reduction(w->g, DN_REDUCE_MAX, scores, most);
	dn_pointwise(w->g, DN_SUB, scores, most, -1, less, NULL);
	dn_pointwise(w->g, DN_EXP, less, -1, -1, powers, NULL);
	dn_reduction(w->g, DN_REDUCE_SUM, powers, sum);
	dn_pointwise(w->g, DN_LOG, sum, -1, -1, logarithm, NULL);
	dn_pointwise(w->g, DN_ADD, most, logarithm, -1, stats, NULL);
	dn_pointwise(w->g, DN_DIV, powers, sum, -1, y, NULL);
	return y;
}

static bool build_graph(struct dn_graph *g, const struct key *k, struct why *why)
{
	struct graph_builder w = {.g = g, .k = k, .next = UID_VIRTUAL};
	int q = add_heads(&w, UID_Q, k->s, k->d, k->qs, false);
	int keys = add_heads(&w, UID_K, k->t, k->d, k->ks, true);
	int v = add_heads(&w, UID_V, k->t, k->dv, k->vs, false);
	int y = add_heads(&w, UID_Y, k->s, k->dv, k->ys, false);
	int scale = add_number(&w, UID_SCALE), dots = add_virtual(&w, DT_F32, false);
	int scores = add_virtual(&w, DT_F32, false);

	dn_matmul(g, q, keys, dots);
	dn_pointwise(g, DN_MUL, dots, scale, -1, scores, NULL);
	if (k->mask)
		scores = add_mask(&w, scores);
	if (k->causal)
		scores = add_causal_mask(&w, scores);
	dn_matmul(g, add_softmax(&w, scores), v, y);
	return dn_graph_end(g, why);
}

struct dn_graph *sdpa_graph(struct dn *dn, const struct gpu_attend *job, enum dtype t, struct why *why)
{
	const char *bad = why_unsupported(job, t);
	struct key key = key_of(job, t);
	struct dn_graph *g = bad ? NULL : dn_graph_new(dn, why);

	if (bad)
		refuse(why, "%s", bad);
	if (g && build_graph(g, &key, why))
		return g;
	dn_graph_free(g);
	return NULL;
}

/* ---- plans ------------------------------------------------------------------------------------ */

static char *add_strides_text(char *at, const char *end, const char *name, int n, const int64_t *steps)
{
	at += snprintf(at, (size_t)(end - at), " %s", name);
	for (int i = 0; i < n && at < end; i++)
		at += snprintf(at, (size_t)(end - at), "%s%" PRId64, i ? "," : "", steps[i]);
	return at < end ? at : at + (end - at) - 1;
}

/* The key of the tuning cache. */
static void key_text(const struct key *k, size_t version, char *out, size_t n)
{
	char *at = out, *end = out + n;

	at += snprintf(at, n,
		       "cudnn%zu attention2 %s b%" PRId64 " h%" PRId64 " s%" PRId64 " t%" PRId64
		       " d%" PRId64 ",%" PRId64 "%s",
		       version, dtype_name((enum dtype)k->type), k->batch, k->heads, k->s, k->t,
		       k->d, k->dv, k->causal ? " causal" : "");
	at = add_strides_text(at, end, "q", 3, k->qs);
	at = add_strides_text(at, end, "k", 3, k->ks);
	at = add_strides_text(at, end, "v", 3, k->vs);
	at = add_strides_text(at, end, "y", 3, k->ys);
	if (k->mask)
		add_strides_text(at, end, "mask", 4, k->ms);
}

/*
 * Takes the engine that an earlier process chose: loads that process's saved plan, or makes a plan from the engine's
 * name.
 */
static bool from_cache(struct device *device, struct dn *dn, struct sdpa *s, const char *key)
{
	const char *value = tune_get(device, key);
	struct arena a = {0};
	size_t n;

	if (!value)
		return false;
	void *json = tune_blob_get(device, arena_printf(&a, "%s = %s", key, value), &a, &n);
	if (json)
		s->plan = dn_plan_of_json(dn, json, n, NULL);
	if (!s->plan) {
		s->graph = dn_graph_new(dn, NULL);
		if (s->graph && build_graph(s->graph, &s->key, NULL))
			s->plan = dn_plan_of_text(s->graph, value, NULL);
	}
	if (!s->plan) {
		dn_graph_free(s->graph);
		s->graph = NULL;
	}
	snprintf(s->how, sizeof(s->how), "%.*s, from the cache", DN_TEXT, value);
	arena_free(&a);
	return s->plan != NULL;
}

static void store_plan(struct device *device, const struct sdpa *s, const char *key)
{
	struct arena a = {0};
	size_t n;
	char *json = dn_plan_save(s->plan, &a, &n);

	tune_put(device, key, s->how);
	if (json)
		tune_blob_put(device, arena_printf(&a, "%s = %s", key, s->how), json, n);
	arena_free(&a);
}

/* ---- timing ----------------------------------------------------------------------------------- */

struct trial {
	const struct sdpa *s;
	struct gpu_attend job;
	char *workspace;
	struct call call;
};

static int enqueue_trial(void *arg, struct diag *d)
{
	struct trial *t = arg;

	t->call.diag = d;
	return sdpa_run(&t->call, t->s, &t->job, t->workspace);
}

/* Returns the bytes from the first to behind the last of the elements with these sizes and strides. */
static size_t span_bytes(const int64_t *dim, const int64_t *step, int n, int64_t last, int64_t size)
{
	int64_t end = last;

	for (int i = 0; i < n; i++)
		end += (dim[i] - 1) * step[i];
	return cuda_aligned((size_t)(end * size));
}

/* Reserves memory for the operands and a workspace of TRIAL_ROOM bytes. */
static bool place_trial_operands(struct device *device, struct trial *t)
{
	const struct key *k = &t->s->key;
	const int64_t queries[] = {k->batch, k->heads, k->s}, keys[] = {k->batch, k->heads, k->t},
		      scores[] = {k->batch, k->heads, k->s, k->t};
	int64_t size = gpu_size((enum dtype)k->type);
	size_t q = span_bytes(queries, k->qs, 3, k->d, size),
	       y = span_bytes(queries, k->ys, 3, k->dv, size),
	       key = span_bytes(keys, k->ks, 3, k->d, size),
	       v = span_bytes(keys, k->vs, 3, k->dv, size),
	       mask = k->mask ? span_bytes(scores, k->ms, 4, 1, size) : 0;
	char *p = tune_memory(device, q + y + key + v + mask + TRIAL_ROOM);

	if (!p)
		return false;
	t->job = (struct gpu_attend){.scale = 1,
				     .q = p,
				     .k = p + q,
				     .v = p + q + key,
				     .y = p + q + key + v,
				     .mask = p + q + key + v + y};
	t->workspace = p + q + key + v + y + mask;
	return true;
}

/*
 * Keeps the plan in s->plan if it is the first or, by timing, at least 3 % faster than the best before it. `best` is that one, and
 * *us what it takes: some of cuDNN's engines fill memory before each run, which with few queries takes as long as the rest.
 */
static void keep_faster(struct device *device, struct trial *t, struct sdpa *s,
			struct dn_plan *best, double *us)
{
	bool timed = t->workspace && dn_plan_workspace(s->plan) <= TRIAL_ROOM;
	double took = timed ? tune_time(device, enqueue_trial, t, *us) : -1;

	if (!best || (took > 0 && *us > 0 && took < TUNE_FASTER * *us)) {
		dn_plan_free(best);
		*us = took;
		return;
	}
	dn_plan_free(s->plan);
	s->plan = best;
}

static void make_plan(struct device *device, struct dn *dn, struct sdpa *s, struct why *why)
{
	static const struct step none;
	struct dn_choice choice[MAX_ENGINES];
	struct trial t = {.s = s, .call = {.step = &none, .stream = cuda_stream(device)}};
	char key[512];
	double us = 0;

	key_text(&s->key, dn_version(dn), key, sizeof(key));
	if (from_cache(device, dn, s, key))
		return;
	s->graph = dn_graph_new(dn, why);
	if (!s->graph || !build_graph(s->graph, &s->key, why))
		return;
	int n = dn_choices(s->graph, DN_BEST, 0, choice, MAX_ENGINES);
	bool may = n > 1 && tune_may(device);
	if (may)
		tune_begin(device, "attention");
	bool timed = may && place_trial_operands(device, &t);
	for (int i = 0; i < n && (!s->plan || timed); i++) {
		struct dn_plan *best = s->plan;
		s->plan = dn_plan_new(s->graph, &choice[i], why);
		if (!s->plan) {
			s->plan = best;
			continue;
		}
		keep_faster(device, &t, s, best, &us);
		if (s->plan != best)
			snprintf(s->how, sizeof(s->how), "%.*s", DN_TEXT, choice[i].text);
	}
	if (may)
		tune_end(device);
	if (s->plan)
		store_plan(device, s, key);
	if (!n)
		refuse(why, "cuDNN has no engine for this attention");
}

const struct sdpa *sdpa_of(const struct site *s, const struct gpu_attend *job, enum dtype t,
			   size_t *workspace, struct why *why)
{
	const char *bad = why_unsupported(job, t);
	struct plans *plans = bad ? NULL : plans_of(s->device);
	struct key key = key_of(job, t);
	struct sdpa *p = plans ? plans->first : NULL;

	if (bad) {
		refuse(why, "%s", bad);
		return NULL;
	}
	while (p && memcmp(&p->key, &key, sizeof(key)) != 0)
		p = p->next;
	if (!p) {
		struct why told = {.arena = &plans->arena};
		p = arena_new(&plans->arena, struct sdpa);
		*p = (struct sdpa){.key = key, .next = plans->first};
		plans->first = p;
		struct dn *dn = dn_of(s->device, &told);
		if (dn)
			make_plan(s->device, dn, p, &told);
		p->why = told.text ? told.text : "cuDNN refused";
	}
	if (!p->plan) {
		refuse(why, "%s", p->why);
		return NULL;
	}
	*workspace = dn_plan_workspace(p->plan);
	return p;
}

void sdpa_choices(const struct device *device, struct str *b)
{
	const struct plans *all = gpu_slot(device, GPU_ATTENTION);
	char key[512];

	for (const struct sdpa *p = all ? all->first : NULL; p; p = p->next) {
		key_text(&p->key, 0, key, sizeof(key));
		str_addf(b, "\n        %s\n          %s", strchr(key, ' ') + 1,
			 p->plan ? p->how : p->why);
	}
}

int sdpa_run(const struct call *c, const struct sdpa *p, const struct gpu_attend *job, void *workspace)
{
	float scale = job->scale, least = -INFINITY;
	int64_t uid[] = {UID_Q, UID_K, UID_V, UID_Y, UID_SCALE, UID_MASK, UID_LEAST};
	void *at[] = {(void *)(uintptr_t)job->q,
		      (void *)(uintptr_t)job->k,
		      (void *)(uintptr_t)job->v,
		      job->y,
		      &scale,
		      (void *)(uintptr_t)job->mask,
		      &least};
	int n = 5;

	if (p->key.mask) {
		n++;
	} else {
		uid[5] = UID_LEAST;
		at[5] = &least;
	}
	if (p->key.causal)
		n++;
	return dn_plan_run(p->plan, n, uid, at, workspace, c->diag);
}
