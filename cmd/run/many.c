/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run/many.h"

#include "base/clock.h"
#include "base/pool.h"
#include "base/str.h"
#include "cmd/output/auto_precision.h"
#include "cmd/output/output.h"
#include "cmd/output/progress.h"
#include "cmd/output/watchdog.h"
#include "cmd/run/results.h"
#include "input/reader.h"
#include "session/batch.h"
#include "session/free_sizes.h"
#include "session/session.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_READERS = 16, MAX_WARNINGS = 20 };

struct many {
	struct options *o;
	struct diag *d;
	struct arena arena;
	struct session *session;
	struct input_list list;
	struct batch batch;
	struct results results;
	struct reader *reader;
	struct progress progress;
	size_t *todo, ntodo; /* indices of the cases that are not done yet */
	size_t done, failed;
	uint64_t start; /* of the first case */
	double seconds;
	/* the cases of the next run, and the one that was read but did not fit into it */
	struct read_case *cases, held;
	const struct tensor *const **in; /* for each of `cases`, its tensors */
	size_t ncases;
	bool holds;
	const struct tensor **out;
	struct output *outputs;
};

bool run_names_many(const struct options *o)
{
	const struct input_request request = options_request(o);

	return o->batch || o->jsonl || o->keep_going || o->resume || o->score.n > 0 ||
	       o->fail_below.n > 0 || input_names_many(&request);
}

static int last_code(const struct diag *d)
{
	return d->last ? -(int)d->last->code : -E_INTERNAL;
}

/* ---- before the first run */

static int open_session(struct many *m)
{
	m->session = session_open(m->o->operand[0], &m->o->config, m->d);
	return m->session ? 0 : last_code(m->d);
}

/*
 * Opens the model and finds the cases. The search for a precision needs the inputs of one case, which are known only
 * once the model is open, so the model is opened anew with the result.
 */
static int open_model(struct many *m)
{
	const struct input_request request = options_request(m->o);
	bool search = m->o->config.precision == PRECISION_AUTO;

	if (search)
		m->o->config.precision = PRECISION_FP32;
	int rc = open_session(m);
	rc = rc ? rc : input_list_open(&m->list, session_model(m->session), &request, m->d);
	if (rc || !search)
		return rc;
	session_close(m->session);
	m->session = NULL;
	m->o->config.precision = PRECISION_AUTO;
	const struct input_request first = input_list_case(&m->list, 0);
	precision_settle(m->o, &m->o->config, &first, NULL, m->d);
	return open_session(m);
}

static void list_todo(struct many *m)
{
	m->todo = arena_new_n(&m->arena, size_t, m->list.n + 1);
	for (size_t i = 0; i < m->list.n; i++)
		if (!m->o->resume || !results_has(&m->results, m->list.name[i]))
			m->todo[m->ntodo++] = i;
}

/* Random values are one input; what --batch is asked for then is the size of the model's first dimension. */
static int refuse_batch_of_random(struct many *m)
{
	const struct model *model = session_model(m->session);
	const struct graph *g = model->graph;
	const char *hint = "name a folder or a pattern with --input";

	for (uint32_t i = g->nin; i-- > 0;) {
		const struct value *v = g->value[g->in[i]];
		if (v->info.type.kind == V_TENSOR && v->info.shape.rank > 0 &&
		    v->info.shape.dim[0] < 0)
			hint = fmt(m->d, "set the size of the batch with --dim %s=%" PRId64,
				   input_dim_name(model, v, 0, &m->arena), m->o->batch);
	}
	return options_fail(m->o, "batch", "it stacks inputs from files, and no file is given",
			    hint, m->d);
}

static int run_with_sizes(void *many, const struct input_set *inputs, struct diag *d)
{
	struct many *m = many;

	return session_run(m->session, input_tensors(inputs), m->out, d);
}

/* Searches sizes for free dimensions if all values are random, and the model does not accept dimensions of 1. */
static int find_free_sizes(struct many *m)
{
	const struct input_request *r = &m->list.request, *found = r;
	struct diag why = {0};
	int rc = 0;

	if (!sizes_are_free(r) || !r->random.n)
		return 0;
	struct input_set *set = prepare_inputs_for(m->session, r, &why);
	rc = set ? run_with_sizes(m, set, &why) : last_code(&why);
	if (rc && sizes_may_help(&why)) {
		input_free(set);
		set = recover_sizes(m->session, arena_dup(&m->arena, r, sizeof(*r)), NULL,
				    run_with_sizes, m, &why, &m->arena, &found, m->d);
		rc = set ? 0 : last_code(m->d);
	} else {
		rc = 0; /* the stream runs the case again, and reports what is wrong with it */
	}
	input_free(set);
	diag_free(&why);
	m->list.request = *found;
	return rc;
}

static int prepare(struct many *m)
{
	const struct options *o = m->o;
	int rc = open_model(m);

	if (!rc && o->batch > 1 && sizes_are_free(&m->list.request))
		rc = refuse_batch_of_random(m);
	if (rc)
		return rc;
	const struct model *model = session_model(m->session);
	const uint32_t nout = model->graph->nout;
	m->out = arena_new_n(&m->arena, const struct tensor *, nout + 1);
	rc = find_free_sizes(m);
	if (rc)
		return rc;
	rc = options_blame(o, "batch",
			   batch_begin(&m->batch, model, m->list.varies, o->batch, m->d), m->d);
	rc = rc ? rc : results_open(&m->results, o, model, &m->list, m->d);
	if (rc)
		return rc;
	list_todo(m);
	size_t limit = (size_t)m->batch.limit;
	m->cases = arena_new_n(&m->arena, struct read_case, limit);
	m->in = arena_new_n(&m->arena, const struct tensor *const *, limit);
	m->outputs = arena_new_n(&m->arena, struct output, nout + 1);
	int threads = pool_cores() < MAX_READERS ? pool_cores() : MAX_READERS;
	/* two batches ahead keep the readers busy during a run; each reader holds one case besides */
	m->reader = reader_open(&m->list, model, m->todo, m->ntodo, 2 * limit + (size_t)threads,
				threads, m->batch.fixed > 1);
	return 0;
}

/* ---- the stream */

static bool stopped(void)
{
	return watchdog_caught() != E_OK;
}

/* Keeps notes and warnings of a case unless another case has given the same, and only so many. */
static void keep_findings(struct many *m, const struct diag *from, bool errors)
{
	for (const struct finding *f = from->first; f; f = f->next)
		if ((f->severity == SEV_ERROR)
			    ? errors
			    : m->d->count < m->d->errors + MAX_WARNINGS && !diag_find(m->d, f))
			diag_add(m->d, f);
}

/* After an error of the device or of what is written to, no later case would do better. */
static bool ends_all(int rc)
{
	int status = code_exit((enum code) - rc);

	return status == code_exit(E_DEVICE) || status == code_exit(E_OUTPUT);
}

/* Counts a case that failed. Returns 0 if the others shall be run all the same. */
static int fail_case(struct many *m, size_t index, struct diag *why, int rc)
{
	reader_name_errors(m->list.label[index], why);
	keep_findings(m, why, true);
	m->failed++;
	if (ends_all(rc))
		return rc;
	int written = results_add_failure(&m->results, index, why, m->d);
	return written ? written : m->o->keep_going ? 0 : rc;
}

static void drop_cases(struct many *m)
{
	for (size_t i = 0; i < m->ncases; i++) {
		input_free(m->cases[i].set);
		diag_free(&m->cases[i].diag);
	}
	m->ncases = 0;
}

/* Fills `cases` with the next ones that fit into one run. After an error those that were read before it still run. */
static int gather(struct many *m)
{
	struct read_case c;
	int rc = 0;

	while (!rc && !stopped()) {
		if (m->holds)
			c = m->held;
		else if (!reader_next(m->reader, stopped, &c))
			break;
		m->holds = false;
		if (c.rc) {
			rc = fail_case(m, c.index, &c.diag, c.rc);
			diag_free(&c.diag);
			continue;
		}
		if (m->ncases && !batch_takes(&m->batch, m->in, m->ncases, input_tensors(c.set))) {
			m->held = c;
			m->holds = true;
			break;
		}
		keep_findings(m, &c.diag, false);
		m->in[m->ncases] = input_tensors(c.set);
		m->cases[m->ncases++] = c;
		if ((int64_t)m->ncases == m->batch.limit)
			break;
	}
	return rc;
}

/* Writes the results of the case that is number k in the newest run and number `at` of `cases`. */
static int write_case(struct many *m, size_t at, size_t k, struct diag *d)
{
	const struct graph *g = session_model(m->session)->graph;
	struct tensor *part = arena_new_n(&d->arena, struct tensor, g->nout + 1);
	size_t i = m->cases[at].index;
	int rc = 0;

	for (uint32_t o = 0; !rc && o < g->nout; o++) {
		m->outputs[o] = (struct output){.name = g->out_name[o], .tensor = m->out[o]};
		if (!m->out[o])
			continue;
		rc = batch_part(&m->batch, g->out_name[o], m->out[o], k, &part[o], d);
		m->outputs[o].tensor = &part[o];
	}
	return rc ? rc : results_add(&m->results, i, m->cases[at].set, m->outputs, d);
}

/* Runs cases first..first+n-1 together. *ran says whether the run itself succeeded. */
static int run_together(struct many *m, size_t first, size_t n, bool *ran, struct diag *d)
{
	const struct tensor *const *in;
	int rc = batch_stack(&m->batch, m->in + first, n, &in, d);

	rc = rc ? rc : session_run(m->session, in, m->out, d);
	*ran = !rc;
	return rc;
}

/* Writes the results of the newest run, of cases first..first+n-1. */
static int write_together(struct many *m, size_t first, size_t n)
{
	int rc = 0;

	for (size_t k = 0; !rc && k < n; k++) {
		struct diag why = {0};
		rc = write_case(m, first + k, k, &why);
		m->done += !rc;
		if (rc)
			rc = fail_case(m, m->cases[first + k].index, &why, rc);
		else
			keep_findings(m, &why, false);
		diag_free(&why);
	}
	return rc;
}

/*
 * Runs what was gathered. If the run fails, each case is run alone, so that the error names the one that it is about.
 */
static int run_gathered(struct many *m)
{
	struct diag why = {0};
	size_t n = m->ncases;
	bool ran;
	int rc = run_together(m, 0, n, &ran, &why);

	if (ran) {
		keep_findings(m, &why, false);
		rc = write_together(m, 0, n);
	} else if (n == 1) {
		rc = fail_case(m, m->cases[0].index, &why, rc);
	} else {
		rc = 0;
		for (size_t k = 0; !rc && k < n && !stopped(); k++) {
			diag_free(&why);
			rc = run_together(m, k, 1, &ran, &why);
			rc = ran ? write_together(m, k, 1)
				 : fail_case(m, m->cases[k].index, &why, rc);
		}
	}
	diag_free(&why);
	return rc;
}

static void show_progress(struct many *m)
{
	struct arena a = {0};
	size_t over = m->done + m->failed;
	double seconds = (double)(clock_ns() - m->start) * 1e-9;

	progress_at(&m->progress, (double)over / (double)m->ntodo,
		    arena_printf(&a, "%s of %s, %.1f/s", str_count(&a, (int64_t)over),
				 str_count(&a, (int64_t)m->ntodo), (double)over / seconds));
	arena_free(&a);
}

static int run_all(struct many *m)
{
	int rc = 0;

	watchdog_soft();
	m->start = clock_ns();
	progress_begin(&m->progress, m->o);
	while (!rc && !stopped()) {
		rc = gather(m);
		bool last = !m->ncases;
		int ran = last ? 0 : run_gathered(m);
		int flushed = results_flush(&m->results, m->d);
		rc = rc ? rc : ran ? ran : flushed;
		if (last)
			break;
		drop_cases(m);
		show_progress(m);
	}
	progress_clear(&m->progress);
	m->seconds = (double)(clock_ns() - m->start) * 1e-9;
	enum code why = watchdog_caught();
	if (!rc && why != E_OK)
		rc = FAIL(m->d, why,
			  .message = fmt(m->d,
					 "stopped after %zu of %zu inputs; their results are written",
					 m->done, m->list.n),
			  .hint = m->o->save || m->o->jsonl ? "--resume goes on from here" : NULL);
	return rc;
}

/* ---- the summary */

static void print_summary(const struct many *m)
{
	size_t skipped = m->list.n - m->ntodo;
	struct arena a = {0};
	FILE *f = listing_begin(stderr);

	fprintf(f, "inputs   %s in %s: %.1f a second, %s a run, on %s\n",
		str_many(&a, m->done, "input"), str_seconds(&a, m->seconds),
		m->seconds > 0 ? (double)m->done / m->seconds : 0.0,
		str_many(&a, (uint64_t)m->batch.limit, "input"), session_device(m->session));
	if (skipped)
		fprintf(f, "skipped  %s, done before\n", str_many(&a, skipped, "input"));
	if (m->failed)
		fprintf(f, "failed   %s\n", str_many(&a, m->failed, "input"));
	listing_end(f);
	arena_free(&a);
}

static void write_document(const struct many *m)
{
	struct json j;

	json_envelope_begin(&j, m->o, m->d);
	json_object(&j, "inputs");
	json_uint(&j, "total", m->list.n);
	json_uint(&j, "done", m->done);
	json_uint(&j, "skipped", m->list.n - m->ntodo);
	json_uint(&j, "failed", m->failed);
	json_int(&j, "batch", m->batch.limit);
	json_number(&j, "seconds", m->seconds);
	json_end(&j, '}');
	if (m->results.scores.n)
		scores_write(&m->results.scores, NULL, &j);
	json_envelope_end(&j, m->d);
}

static int refuse_options(const struct options *o, struct diag *d)
{
	const char *steps = o->steps.slice.n > 0  ? "slice"
			    : o->steps.feed.n > 0 ? "feed"
			    : o->steps.next.n > 0 ? "next"
						  : NULL;

	if (steps)
		return options_fail(o, steps, "many inputs do not run step by step",
				    "run the model once for each input; --score, --jsonl, --batch and "
				    "--keep-going are for many",
				    d);
	if (o->json && o->jsonl && !strcmp(o->jsonl, "-"))
		return options_fail(o, "jsonl", "standard output has the document of --json",
				    "name a file with --jsonl FILE", d);
	return 0;
}

int run_many(struct options *o, struct diag *d)
{
	/* static, because a reader that hangs in a pipe may outlive this call */
	static struct many m;
	m = (struct many){.o = o, .d = d, .results.lines = -1};
	int rc = refuse_options(o, d);

	rc = rc ? rc : prepare(&m);

	if (!rc && m.reader) {
		rc = run_all(&m);
		rc = rc ? rc : scores_check(&m.results.scores, d);
		if (o->json)
			write_document(&m);
		else if (!o->quiet)
			print_summary(&m);
		if (!o->json)
			results_print_scores(&m.results);
	}
	if (m.holds) {
		input_free(m.held.set);
		diag_free(&m.held.diag);
	}
	int closed = results_close(&m.results, d);
	batch_free(&m.batch);
	if (reader_close(m.reader)) {
		session_close(m.session);
		input_list_free(&m.list);
		arena_free(&m.arena);
	}
	return rc ? rc : closed;
}
