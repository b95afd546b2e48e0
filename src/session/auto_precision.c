/* SPDX-License-Identifier: Apache-2.0 */
#include "session/auto_precision.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "ir/difference.h"
#include "backend/tuning_cache.h"
#include "onnx/load.h"
#include "session/backends.h"
#include "session/session.h"
#include "base/stats.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Warm-up takes at most WARM_RUNS runs or WARM_NS nanoseconds. Then runs are measured until RUN_NS
 * nanoseconds have passed or MAX_RUNS runs were made, but at least MIN_RUNS runs.
 */
enum { WARM_RUNS = 3, MAX_RUNS = 30, MIN_RUNS = 3 };
static const uint64_t WARM_NS = 300000000, RUN_NS = 500000000;
/*
 * A lower precision is taken only if it needs less than this share of the best time so far, because
 * two measurements of the same precision differ by a few percent.
 */
static const double MAX_TIME_RATIO = 0.97;

/* ---- which one ------------------------------------------------------------------------------- */

void precision_judge(struct precision_choice *c, bool zeros)
{
	double best = 0;

	c->taken = PRECISION_FP32;
	c->doubtful = c->n > 1 && zeros;
	if (c->doubtful)
		c->why = "every output of fp32 is 0 or not finite, which nothing can be compared with";
	for (size_t i = 0; i < c->n; i++) {
		struct precision_trial *t = &c->trial[i];
		if (!t->why && t->precision != PRECISION_FP32) {
			if (zeros)
				t->why = "nothing to compare with";
			else if (!(t->error <= PRECISION_LIMIT))
				t->why = "over the limit";
			/* An error of 0 means that the backend computed in fp32 after all. */
			else if (!(t->error > 0))
				t->why = "the same numbers as fp32: it changes nothing";
		}
		t->fits = !t->why && t->seconds > 0;
		if (!t->fits || (best > 0 && t->seconds > MAX_TIME_RATIO * best))
			continue;
		best = t->seconds;
		c->taken = t->precision;
	}
}

/* ---- trying ---------------------------------------------------------------------------------- */

struct attempt {
	const char *path;
	const struct run_config *config;
	const struct input_request *request;
	const struct steps_request *steps;
	struct arena *arena;
	const struct backend *backend; /* of the accelerator */
	struct input_set *inputs;
	const struct tensor **want; /* fp32's outputs */
	const char **name;
	uint32_t nout;
	bool cpu; /* that is where it ran */
};

/* The inputs of a run; if the model runs step by step, those of the first step. */
static struct input_set *plan_inputs(struct attempt *x, const struct model *m, struct diag *d)
{
	struct input_request *r = arena_dup(x->arena, x->request, sizeof(*r));

	if (steps_wanted(x->steps)) {
		r->steps = steps_parse(x->steps, r, m, x->arena, d);
		if (!r->steps)
			return NULL;
	}
	return input_plan(m, r, d);
}

static const char *describe_failure(struct attempt *x, const struct diag *d)
{
	const struct finding *f = d->first;

	while (f && f->severity != SEV_ERROR)
		f = f->next;
	if (!f)
		return "it failed";
	return arena_str(x->arena, f->message ? f->message : code_title(f->code));
}

/*
 * Returns the median time of a run in seconds, or 0 if a run fails. `out` receives the outputs of
 * the last run.
 */
static double measure_run(struct session *s, const struct tensor *const *in,
			  const struct tensor **out, struct diag *d)
{
	double took[MAX_RUNS];
	uint64_t begin = clock_ns(), start;
	size_t n = 0;

	for (int i = 0; i < WARM_RUNS && (!i || clock_ns() - begin < WARM_NS); i++)
		if (session_run(s, in, out, d))
			return 0;
	begin = clock_ns();
	while (n < MAX_RUNS && (n < MIN_RUNS || clock_ns() - begin < RUN_NS)) {
		start = clock_ns();
		if (session_run(s, in, out, d))
			return 0;
		took[n++] = (double)(clock_ns() - start) * 1e-9;
	}
	return fmax(stats_of(took, n).median, 1e-9);
}

static void compare_outputs(struct attempt *x, const struct tensor *const *got,
			    struct precision_trial *t)
{
	for (uint32_t i = 0; i < x->nout && !t->why; i++) {
		struct difference e;
		if (!got[i] || !x->want[i]) {
			if (got[i] || x->want[i])
				t->why = arena_printf(x->arena, "output '%s' is left out", x->name[i]);
			continue;
		}
		compare_tensors(got[i], x->want[i], (struct tolerance){0, DBL_MAX}, &e);
		double error = e.max_abs > 0 ? e.max_abs / e.max_want : 0;
		if (!e.same_type || !e.same_shape)
			t->why = arena_printf(x->arena, "output '%s' has another shape", x->name[i]);
		else if (e.beyond)
			t->why = arena_printf(x->arena,
					      "output '%s' has %" PRId64
					      " elements that are no numbers, or where fp32's are none",
					      x->name[i], e.beyond);
		if (!t->output || error > t->error) {
			t->error = error;
			t->output = x->name[i];
		}
	}
}

static void keep_outputs(struct attempt *x, const struct session *s, const struct tensor *const *out)
{
	const struct graph *g = session_model(s)->graph;

	x->nout = g->nout;
	x->want = arena_new_n(x->arena, const struct tensor *, g->nout + 1);
	x->name = arena_new_n(x->arena, const char *, g->nout + 1);
	for (uint32_t i = 0; i < g->nout; i++) {
		x->want[i] = out[i] ? tensor_copy(x->arena, out[i]) : NULL;
		x->name[i] = arena_str(x->arena, g->out_name[i]);
	}
}

/*
 * Returns true if all elements of all floating-point outputs are 0 or not finite. Outputs of other
 * types are not compared.
 */
static bool all_zero(const struct attempt *x)
{
	for (uint32_t i = 0; i < x->nout; i++) {
		struct difference e;
		const struct tensor *t = x->want[i];
		if (!t || t->type.kind != V_TENSOR || dtype_class(tensor_dtype(t)) != DT_FLOAT)
			continue;
		compare_tensors(t, t, (struct tolerance){0, DBL_MAX}, &e);
		if (e.max_want > 0)
			return false;
	}
	return true;
}

/*
 * Tries one precision. Returns false if the precision is fp32 and the model does not run: the other
 * precisions then cannot be compared.
 */
static bool try_precision(struct attempt *x, struct precision_trial *t)
{
	struct run_config config = *x->config;
	struct diag d = {0};
	bool first = t->precision == PRECISION_FP32;

	config.precision = t->precision;
	struct session *s = session_open(x->path, &config, &d);
	if (s && first) {
		x->inputs = plan_inputs(x, session_model(s), &d);
		if (!x->inputs || input_read(x->inputs, &d)) {
			t->why = describe_failure(x, &d);
			session_close(s);
			diag_free(&d);
			return false;
		}
	}
	const struct tensor *const *in = s ? input_tensors(x->inputs) : NULL;
	const struct tensor **out =
		s ? arena_new_n(x->arena, const struct tensor *, session_model(s)->graph->nout + 1)
		  : NULL;
	struct segment_report report;
	if (s && !session_prepare(s, in, &report, &d)) {
		x->cpu = !strcmp(session_device(s), host_backend()->name);
		t->seconds = x->cpu ? 0 : measure_run(s, in, out, &d);
	}
	if (t->seconds > 0 && first)
		keep_outputs(x, s, out);
	else if (t->seconds > 0)
		compare_outputs(x, out, t);
	else
		t->why = describe_failure(x, &d);
	session_close(s);
	diag_free(&d);
	return t->seconds > 0 || !first;
}

static const char on_the_cpu[] =
	"the CPU computes fp16 in fp32; bf16 is faster on a processor with AMX, if you ask for it by --precision bf16";
static const char no_accelerator[] =
	"there is no GPU to try others on, and the CPU computes fp16 in fp32; bf16 is faster on a processor with AMX, if you ask for it by "
	"--precision bf16";

/* Why no precision was tried, if the session has no accelerator. */
static const char *why_none_tried(const struct run_config *config, struct arena *a)
{
	if (!config->device || !strcmp(config->device, "auto"))
		return no_accelerator;
	if (backend_named(config->device, NULL) == host_backend())
		return on_the_cpu;
	return arena_printf(a, "device '%s' cannot be opened, so no other was tried", config->device);
}

static void try_precisions(struct attempt *x, struct precision_choice *c)
{
	for (int p = 0; p < PRECISIONS; p++) {
		struct precision_trial *t = &c->trial[c->n++];
		*t = (struct precision_trial){.precision = p};
		if (try_precision(x, t))
			continue;
		c->n = 0;
		c->why = x->cpu ? why_none_tried(x->config, x->arena)
				: arena_printf(x->arena, "fp32 did not run: %s", t->why);
		return;
	}
	precision_judge(c, all_zero(x));
}

/* ---- what is known --------------------------------------------------------------------------- */

/*
 * The place of a choice in the tuning cache. The cache's folder identifies device and driver; the
 * key identifies everything else on which the choice depends.
 */
struct place {
	struct cache *cache;
	const char *key;
};

struct hashing {
	const unsigned char *data;
	size_t n;
	uint64_t *part;
};
enum { HASH_PART = 1 << 20 };

static void hash_part(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct hashing *h = arg;

	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		size_t at = (size_t)i * HASH_PART, n = h->n - at;
		h->part[i] = hash_bytes(h->data + at, n < HASH_PART ? n : HASH_PART, 0);
	}
}

static uint64_t hash_all(const void *data, size_t n, uint64_t seed)
{
	size_t parts = (n + HASH_PART - 1) / HASH_PART;
	struct arena a = {0};
	struct hashing h = {data, n, arena_new_n(&a, uint64_t, parts + 1)};

	pool_for((int64_t)parts, 1, hash_part, &h);
	uint64_t sum = hash_bytes(h.part, parts * sizeof(*h.part), seed);
	arena_free(&a);
	return hash_bytes(&n, sizeof(n), sum);
}

/* Hashes the model's file and the tensors that the model keeps in other files. */
static uint64_t hash_model(const char *path, const struct model *m)
{
	struct file_map f;
	const struct graph *g = m->graph;

	if (file_map(path, &f, E_MODEL_OPEN, NULL))
		return 0;
	uint64_t sum = hash_all(f.data, f.size, 0);
	file_unmap(&f);
	for (uint32_t i = 0; m->external_bytes && i < g->nvalues; i++) {
		const struct tensor *t = g->value[i]->init;
		if (t && t->data)
			sum = hash_all(t->data, t->bytes, sum);
	}
	return sum;
}

static const char *cache_key(struct attempt *x, const struct model *m, const struct input_set *in)
{
	const struct run_config *c = x->config;
	struct str s = {.arena = x->arena};
	uint64_t hash = hash_model(x->path, m);
	char versions[256] = "";

	/* wait until the libraries are open, because only open libraries have a known version */
	backends_warm_end();
	if (x->backend->versions)
		x->backend->versions(versions, sizeof(versions));
	str_addf(&s, "precision 1 %s %016" PRIx64 " %d %d %d", versions, hash, c->optimize,
		 c->cuda_graph, c->sync);
	for (uint32_t i = 0; i < input_count(in); i++) {
		const struct input_info *v = input_info(in, i);
		str_addf(&s, " %s",
			 v->type.kind == V_TENSOR ? shape_str(x->arena, &v->shape, NULL) : "?");
	}
	return str_get(&s);
}

static bool open_cache(struct attempt *x, const char *folder, struct place *p)
{
	const struct run_config *c = x->config;
	const struct load_options load = {.external_root = c->external_root,
					  .given = c->given,
					  .ngiven = sizeof(c->given) / sizeof(*c->given)};
	struct diag d = {0};
	struct model *m = onnx_load(x->path, &load, &d);
	struct input_set *in = m ? plan_inputs(x, m, &d) : NULL;

	*p = (struct place){.key = in ? cache_key(x, m, in) : NULL};
	if (in)
		p->cache = cache_open(cache_root(c->cache, x->arena), folder);
	input_free(in);
	onnx_unload(m);
	diag_free(&d);
	return p->cache != NULL;
}

static bool find_known_choice(struct attempt *x, const struct place *p, struct precision_choice *c)
{
	size_t n = 0;
	const char *text = cache_blob_get(p->cache, p->key, x->arena, &n);
	const struct jvalue *v =
		text ? jread(text, n, "a choice of precision", E_CACHE, x->arena, NULL) : NULL;

	if (!v)
		return false;
	*c = precision_read(v, x->arena);
	c->known = true;
	return c->n > 0;
}

static void keep_choice(const struct place *p, const struct precision_choice *c)
{
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);
	struct json j;

	if (!f)
		return;
	json_begin(&j, f);
	json_object(&j, NULL);
	precision_write(c, &j);
	json_end(&j, '}');
	json_finish(&j);
	if (!fclose(f))
		cache_blob_put(p->cache, p->key, text, n);
	free(text);
}

enum { LIBRARIES_USED = WARM_DRIVER | WARM_PRODUCTS | WARM_CONVOLUTIONS };

/* ---- all of it ------------------------------------------------------------------------------- */

/*
 * Finds the backend of the accelerator that a session would use, and the folder of its device in
 * the tuning cache. Returns NULL if the session would run on the host.
 */
static const struct backend *find_accelerator(const struct run_config *c, struct arena *a,
					      const char **folder)
{
	int ordinal = 0;
	const struct backend *named = c->device ? backend_named(c->device, &ordinal) : NULL;

	for (int i = FIRST_ACCELERATOR; i < BACKENDS; i++) {
		const struct backend *b = backends[i];
		if ((named && named != b) || !b->cache_folder)
			continue;
		*folder = b->cache_folder(ordinal, a);
		if (*folder)
			return b;
	}
	return NULL;
}

/* precision_auto, in this process. */
static struct precision_choice precision_try(const char *path, const struct run_config *config,
					     const struct input_request *request,
					     const struct steps_request *steps, struct arena *a)
{
	struct attempt x = {
		.path = path, .config = config, .request = request, .steps = steps, .arena = a};
	struct precision_choice c = {.taken = PRECISION_FP32};
	const char *folder;
	struct place p;

	backends_warm_begin(config->device, LIBRARIES_USED);
	x.backend = find_accelerator(config, a, &folder);
	if (!x.backend) {
		backends_warm_end();
		c.why = why_none_tried(config, a);
		return c;
	}
	bool placed = open_cache(&x, folder, &p);
	if (placed && find_known_choice(&x, &p, &c)) {
		(void)cache_close(p.cache, NULL);
		return c;
	}
	try_precisions(&x, &c);
	input_free(x.inputs);
	if (placed && c.n && !c.doubtful)
		keep_choice(&p, &c);
	if (placed)
		(void)cache_close(p.cache, NULL);
	return c;
}

/* ---- to text and back ------------------------------------------------------------------------ */

void precision_write(const struct precision_choice *c, struct json *j)
{
	json_string(j, "taken", precision_names[c->taken]);
	json_bool(j, "known", c->known);
	json_bool(j, "doubtful", c->doubtful);
	json_string(j, "why", c->why);
	if (c->label)
		json_string(j, "label", c->label);
	json_number(j, "limit", PRECISION_LIMIT);
	json_array(j, "candidates");
	for (size_t i = 0; i < c->n; i++) {
		const struct precision_trial *t = &c->trial[i];
		json_object(j, NULL);
		json_string(j, "precision", precision_names[t->precision]);
		json_bool(j, "fits", t->fits);
		json_number(j, "seconds", t->seconds);
		json_number(j, "error", t->error);
		json_string(j, "output", t->output);
		json_string(j, "why", t->why);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static int precision_named(const char *name)
{
	for (int p = 0; name && p < PRECISIONS; p++)
		if (!strcmp(name, precision_names[p]))
			return p;
	return PRECISION_FP32;
}

static const char *copy_text(const struct jvalue *v, const char *key, struct arena *a)
{
	const char *s = jtext(v, key);

	return s ? arena_str(a, s) : NULL;
}

struct precision_choice precision_read(const struct jvalue *v, struct arena *a)
{
	struct precision_choice c = {.taken = precision_named(jtext(v, "taken")),
				     .known = jbool(v, "known"),
				     .doubtful = jbool(v, "doubtful"),
				     .why = copy_text(v, "why", a)};
	const struct jvalue *list = jget(v, "candidates");

	for (const struct jvalue *e = list ? list->first : NULL; e && c.n < PRECISIONS; e = e->next)
		c.trial[c.n++] =
			(struct precision_trial){.precision = precision_named(jtext(e, "precision")),
						 .fits = jbool(e, "fits"),
						 .seconds = jnumber(e, "seconds", 0),
						 .error = jnumber(e, "error", 0),
						 .output = copy_text(e, "output", a),
						 .why = copy_text(e, "why", a)};
	return c;
}

/* ---- in a child process ---------------------------------------------------------------------- */

enum { MAX_TRIALS_BYTES = 1 << 16 };

struct task {
	const char *path;
	const struct run_config *config;
	const struct input_request *request;
	const struct steps_request *steps;
};

static void try_and_write(void *arg, FILE *out)
{
	const struct task *t = arg;
	struct arena a = {0};
	const struct precision_choice c = precision_try(t->path, t->config, t->request, t->steps, &a);
	struct json j;

	json_begin(&j, out);
	json_object(&j, NULL);
	precision_write(&c, &j);
	json_end(&j, '}');
	json_finish(&j);
}

struct precision_choice precision_auto(const char *path, const struct run_config *config,
				       const struct input_request *request,
				       const struct steps_request *steps, bool warm, struct arena *a)
{
	struct precision_choice c = {.taken = PRECISION_FP32, .doubtful = true};
	struct task task = {path, config, request, steps};
	struct child child;

	if (config->device && backend_named(config->device, NULL) == host_backend())
		return (struct precision_choice){.taken = PRECISION_FP32, .why = on_the_cpu};
	c.why = "no process could be started to try the others";
	input_keep_stdin(path, request);
	off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
	if (!child_fork(&child, MAX_TRIALS_BYTES, try_and_write, &task))
		return c;
	/*
	 * while the child tries the precisions, load the libraries that a session in this process
	 * will need
	 */
	if (warm)
		backends_warm_begin(config->device, LIBRARIES_USED);
	child_wait(&child, INFINITY);
	const struct jvalue *v =
		child.n ? jread(child.text, child.n, "the trials", E_INTERNAL, a, NULL) : NULL;
	if (v)
		c = precision_read(v, a);
	else if (child.signal)
		c.why = arena_printf(a, "the process that tried the others ended by signal %d",
				     child.signal);
	else
		c.why = "the process that tried the others ended early";
	child_free(&child);
	/*
	 * the child has read inputs from standard input; rewind it, because this process reads them
	 * again
	 */
	if (at >= 0)
		(void)lseek(STDIN_FILENO, at, SEEK_SET);
	return c;
}
