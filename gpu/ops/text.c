/* SPDX-License-Identifier: Apache-2.0 */
/* TfIdfVectorizer of integers. Operators on strings run on the host. */
#include "gpu/launch/job.h"
#include "gpu/kernels/tfidf.h"
#include "ops/text.h"

#include "base/hash.h"

GPU_SAME(GPU_TFIDF_TF, TFIDF_TF);
GPU_SAME(GPU_TFIDF_IDF, TFIDF_IDF);
GPU_SAME(GPU_TFIDF_TFIDF, TFIDF_TFIDF);

/* The n-grams of the pool that can be counted, in the order of the pool. Each n-gram has its output column. */
struct grams {
	struct gpu_gram *v;
	int64_t *column;
	int64_t n;
};

struct tfidf_state {
	struct device *device;
	struct buffer tables;
	void *fn;
	struct gpu_tfidf job;
};

/* Returns whether the pool contains an equal n-gram after this one. Of equal n-grams, only the last is counted. */
static bool hidden_by_later(const struct map *last, const struct tfidf_params *p, int64_t from,
			    int64_t n, int64_t id)
{
	return map_get(last, (const char *)&p->pool_int64s.v[from], (size_t)n * sizeof(int64_t)) != id;
}

static const char *read_grams(const struct tfidf_params *p, struct arena *a, struct grams *g)
{
	int64_t total = p->pool_int64s.n, id = 0;

	g->v = arena_new_n(a, struct gpu_gram, (size_t)(total > 0 ? total : 0) + 1);
	g->column = arena_new_n(a, int64_t, (size_t)(total > 0 ? total : 0) + 1);
	if (total < 0)
		return "a pool of strings";
	for (int64_t n = 1; n <= p->ngram_counts.n; n++) {
		int64_t from = p->ngram_counts.v[n - 1],
			to = n < p->ngram_counts.n ? p->ngram_counts.v[n] : total;
		struct map last = {.arena = a};
		if (from < 0 || to < from || to > total || (to - from) % n)
			return "ngram_counts that do not divide the pool";
		int64_t grams = (to - from) / n;
		if (id + grams > p->ngram_indexes.n ||
		    (p->weights.n >= 0 && id + grams > p->weights.n))
			return "fewer indexes or weights than n-grams";
		for (int64_t k = 0; k < grams; k++)
			map_set(&last, (const char *)&p->pool_int64s.v[from + k * n],
				(size_t)n * sizeof(int64_t), (uint32_t)(id + k));
		for (int64_t k = 0; k < grams; k++, id++) {
			if (n < p->min_gram_length || n > p->max_gram_length ||
			    hidden_by_later(&last, p, from + k * n, n, id))
				continue;
			g->column[g->n] = p->ngram_indexes.v[id];
			g->v[g->n++] =
				(struct gpu_gram){.from = from + k * n,
						  .n = (int32_t)n,
						  .weight = p->weights.n >= 0 ? p->weights.v[id] : 1};
		}
	}
	return NULL;
}

static bool tfidf_accepts(const struct site *s, struct why *w)
{
	struct arena a = {0};
	struct grams g = {0};
	const char *bad = read_grams(s->node->params, &a, &g);

	arena_free(&a);
	return bad ? refuse(w, "%s", bad) : true;
}

/*
 * Makes one buffer that holds the start of each column's n-grams, the pool, and the n-grams sorted by column. Returns
 * NULL if memory ran out.
 */
static char *lay_tables(const struct tfidf_params *p, const struct grams *g, struct gpu_tfidf *j,
			size_t *bytes)
{
	size_t first = (size_t)(j->columns + 1) * sizeof(int64_t),
	       pool = (size_t)p->pool_int64s.n * sizeof(int64_t);
	char *host =
		mem_zalloc(first + pool + (size_t)g->n * sizeof(struct gpu_gram) + 8, MEM_STAGING);
	int64_t *begin = (int64_t *)(void *)host;

	*bytes = first + pool + (size_t)g->n * sizeof(struct gpu_gram) + 8;
	j->first = (const int64_t *)0;
	j->pool = (const int64_t *)first;
	j->gram = (const struct gpu_gram *)(first + pool);
	if (!host)
		return NULL;
	if (pool)
		memcpy(host + first, p->pool_int64s.v, pool);
	for (int64_t k = 0; k < g->n; k++)
		begin[g->column[k] + 1]++;
	for (int64_t c = 0; c < j->columns; c++)
		begin[c + 1] += begin[c];
	struct gpu_gram *to = (struct gpu_gram *)(void *)(host + first + pool);
	/* backwards, so that the n-grams of a column keep their order */
	for (int64_t k = g->n; k-- > 0;)
		to[--begin[g->column[k] + 1]] = g->v[k];
	for (int64_t c = 0; c < j->columns; c++)
		begin[c] = begin[c + 1];
	begin[j->columns] = g->n;
	return host;
}

static int upload(struct tfidf_state *t, const char *host, size_t bytes, struct diag *d)
{
	int err = host ? cuda_alloc(t->device, bytes, MEM_WORKSPACE, &t->tables, d)
		       : FAIL(d, E_MEMORY, .expected = "memory for tables");

	if (!err)
		err = cuda_copy(cuda_stream(t->device), t->tables.ptr, 1, host, 0, bytes, d);
	return err ? err : cuda_wait(cuda_stream(t->device), d);
}

static int tfidf_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct tfidf_params *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	struct tfidf_state *t = arena_new(s->plan_arena, struct tfidf_state);
	struct gpu_tfidf *j = &t->job;
	struct arena a = {0};
	struct grams g = {0};
	size_t bytes;

	t->device = s->device;
	step->state = t;
	gpu_io_types(s, &j->io);
	j->rows = x->rank == 2 ? x->dim[0] : 1;
	j->columns = y->dim[y->rank - 1];
	j->length = x->rank ? x->dim[x->rank - 1] : 1;
	j->skips = p->max_skip_count;
	j->mode = p->mode;
	read_grams(p, &a, &g);
	char *host = lay_tables(p, &g, j, &bytes);
	int err = upload(t, host, bytes, d);
	mem_free(host);
	arena_free(&a);
	t->fn = err ? NULL : gpu_kernel(s, "slice", "tfidf", d);
	return err ? err : t->fn ? 0 : -E_DEVICE;
}

static int tfidf_run(const struct call *c)
{
	const struct tfidf_state *t = c->step->state;
	struct gpu_tfidf job = t->job;
	const char *tables = t->tables.ptr;
	int64_t n = job.rows * job.columns;

	job.first = (const int64_t *)(const void *)(tables + (size_t)job.first);
	job.pool = (const int64_t *)(const void *)(tables + (size_t)job.pool);
	job.gram = (const struct gpu_gram *)(const void *)(tables + (size_t)job.gram);
	gpu_io_fill(c, &job.io);
	return n > 0 ? gpu_launch(c, t->fn, gpu_grid(n), &job, sizeof(job)) : 0;
}

static void tfidf_drop(struct step *step)
{
	struct tfidf_state *t = step->state;

	if (t && t->tables.ptr)
		cuda_free(t->device, &t->tables);
}

const struct kernel gpu_text[] = {{.op = "TfIdfVectorizer",
				   .types = T_I32 | T_I64,
				   .accepts = tfidf_accepts,
				   .reshape = tfidf_reshape,
				   .run = tfidf_run,
				   .drop = tfidf_drop},
				  {0}};
