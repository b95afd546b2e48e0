/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run/many.h"

#include "base/clock.h"
#include "base/str.h"
#include "cmd/output/auto_precision.h"
#include "cmd/output/output.h"
#include "cmd/output/progress.h"
#include "cmd/output/shard_report.h"
#include "cmd/output/watchdog.h"
#include "cmd/run/results.h"
#include "cmd/run/shard.h"
#include "cmd/run/stream.h"
#include "session/backends.h"
#include "session/free_sizes.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WARNINGS = 20 };

struct many {
	struct options *o;
	struct diag *d;
	struct arena arena;
	struct stream stream;
	struct input_list list;
	struct shard shard;
	struct results results;
	struct progress progress;
	const char *const *device;
	size_t ndevices;
	size_t *todo, ntodo; /* indices of the cases that are not done yet */
	size_t skipped, done, failed;
	struct report_case *row;	/* by case of the list; without a name: it has not run */
	uint64_t start;			/* of the first case */
	double seconds, former_seconds; /* of this program, and of those that it goes on from */
	struct output *outputs;
};

/* Whether --batch is the batch size of random values, because there are no files to stack. */
static bool batch_is_size(const struct options *o)
{
	return o->batch > 0 && !o->input.n && !o->data_set;
}

bool run_names_many(const struct options *o)
{
	const struct input_request request = options_request(o);

	return (o->batch && !batch_is_size(o)) || o->jsonl || o->keep_going || o->resume ||
	       o->report || o->shard || o->score.n > 0 || o->fail_below.n > 0 ||
	       input_names_many(&request);
}

static int last_code(const struct diag *d)
{
	return d->last ? -(int)d->last->code : -E_INTERNAL;
}

static const struct model *model_of(const struct many *m)
{
	return session_model(m->stream.lane[0].session);
}

/* ---- before the first run */

static int open_devices(struct many *m, const struct run_config *config)
{
	return stream_open(&m->stream, m->o->operand[0], config, m->device, m->ndevices, m->d);
}

/*
 * Opens the model and finds the cases. The search for a precision needs the inputs of one case, which are known only
 * once the model is open, so a session that only reads the model comes first.
 */
static int find_precision(struct many *m, const struct input_request *request)
{
	struct input_list list = {0};

	m->o->config.precision = PRECISION_FP32;
	struct session *s = session_open(m->o->operand[0], &m->o->config, m->d);
	int rc = s ? input_list_open(&list, session_model(s), request, m->d) : last_code(m->d);
	m->o->config.precision = PRECISION_AUTO;
	session_close(s);
	if (!rc) {
		const struct input_request first = input_list_case(&list, 0);
		precision_settle(m->o, &m->o->config, &first, NULL, m->d);
	}
	input_list_free(&list);
	return rc;
}

static int open_model(struct many *m)
{
	const struct input_request request = options_request(m->o);
	int rc = 0;

	m->device = device_list(m->o->config.device, &m->ndevices, &m->arena);
	m->o->config.device = m->device[0];
	if (m->o->config.precision == PRECISION_AUTO)
		rc = find_precision(m, &request);
	rc = rc ? rc : open_devices(m, &m->o->config);
	return rc ? rc : input_list_open(&m->list, model_of(m), &request, m->d);
}

/* Finds the shard. Where only the environment names one, a list of one input is not divided. */
static int find_shard(struct many *m)
{
	struct options *o = m->o;

	m->shard = (struct shard){.count = 1};
	int rc = m->list.n > 1 || o->shard ? shard_find(&m->shard, o, m->d) : 0;
	o->jsonl = shard_path(&m->shard, o->jsonl, &m->arena);
	o->save = shard_path(&m->shard, o->save, &m->arena);
	o->report = shard_path(&m->shard, o->report, &m->arena);
	if (!rc && !o->shard && m->shard.from)
		NOTE(m->d, E_SHARD,
		     .message = fmt(m->d, "this program runs shard %zu of %zu, as %s says",
				    m->shard.index + 1, m->shard.count, m->shard.from),
		     .hint = "--shard 1/1 runs all inputs");
	return rc;
}

static bool is_mine(const struct many *m, size_t i)
{
	return i % m->shard.count == m->shard.index;
}

static void list_todo(struct many *m)
{
	m->todo = arena_new_n(&m->arena, size_t, m->list.n + 1);
	for (size_t i = 0; i < m->list.n; i++) {
		if (!is_mine(m, i))
			continue;
		if (!m->o->resume || !results_has(&m->results, m->list.name[i])) {
			m->todo[m->ntodo++] = i;
			continue;
		}
		m->skipped++;
		m->row[i] = (struct report_case){.index = i,
						 .name = m->list.name[i],
						 .seconds = NAN,
						 .sums = m->results.former ? m->results.former[i]
									   : NULL};
	}
}

/* ---- the report */

/* A program that goes on keeps the times of what an earlier one has done. */
static int read_former_report(struct many *m, const struct shard_report *now)
{
	struct shard_report old;

	if (!m->o->resume || access(m->o->report, F_OK) != 0)
		return 0;
	int rc = report_read(&old, m->o->report, &m->arena, m->d);
	rc = rc ? rc : report_same(now, &old, m->d);
	if (rc)
		return rc;
	for (size_t k = 0; k < old.n; k++) {
		struct report_case *row = &m->row[old.cases[k].index];
		if (!row->name || old.cases[k].failed)
			continue;
		row->seconds = old.cases[k].seconds;
		row->sums = old.cases[k].sums ? old.cases[k].sums : row->sums;
	}
	m->former_seconds = old.seconds;
	return 0;
}

static int describe_report(struct many *m, struct shard_report *r)
{
	*r = (struct shard_report){.path = m->o->report,
				   .shard = m->shard.index + 1,
				   .shards = m->shard.count,
				   .seconds = m->former_seconds + m->seconds};
	r->scores = m->results.scores;
	return report_describe(r, m->o, &m->list, &m->arena, m->d);
}

static int open_report(struct many *m)
{
	struct shard_report now;

	if (!m->o->report)
		return 0;
	int rc = options_blame(m->o, "report", output_probe(m->o->report, m->d), m->d);
	rc = rc ? rc : describe_report(m, &now);
	return rc ? rc : read_former_report(m, &now);
}

static int write_report(struct many *m)
{
	struct shard_report r;
	int rc = m->o->report ? describe_report(m, &r) : 0;

	if (rc || !m->o->report)
		return rc;
	r.cases = arena_new_n(&m->arena, struct report_case, m->list.n + 1);
	for (size_t i = 0; i < m->list.n; i++)
		if (m->row[i].name)
			r.cases[r.n++] = m->row[i];
	return report_write(&r, m->o->report, m->d);
}

/* ---- beginning */

/* Random values are one input; what --batch is asked for then is the size of the model's first dimension. */
static int refuse_batch_of_random(struct many *m)
{
	const struct model *model = model_of(m);
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
	const struct lane *first = &((struct many *)many)->stream.lane[0];

	return session_run(first->session, input_tensors(inputs), first->worker[0].out, d);
}

/* Searches sizes for free dimensions if all values are random, and the model does not accept dimensions of 1. */
static int find_free_sizes(struct many *m)
{
	const struct lane *first = &m->stream.lane[0];
	const struct input_request *r = &m->list.request, *found = r;
	struct diag why = {0};
	int rc = 0;

	if (!sizes_are_free(r) || !r->random.n)
		return 0;
	struct input_set *set = prepare_inputs_for(first->session, r, &why);
	rc = set ? run_with_sizes(m, set, &why) : last_code(&why);
	if (rc && sizes_may_help(&why)) {
		input_free(set);
		set = recover_sizes(first->session, arena_dup(&m->arena, r, sizeof(*r)), NULL,
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

/* One input stacks to a batch of one, which is not what somebody wants who asks for outputs of a batch. */
static void tell_short_list(struct many *m)
{
	if (m->o->batch > 1 && m->list.n < (size_t)m->o->batch)
		NOTE(m->d, E_BATCH,
		     .message = fmt(m->d,
				    "--batch %" PRId64 " stacks so many inputs, and there %s only %zu",
				    m->o->batch, m->list.n == 1 ? "is" : "are", m->list.n),
		     .hint = "name a folder, a list @FILE or a quoted pattern such as 'pics/*.png' with --input, or split=0 behind an "
			     "array of many inputs; --random --dim NAME=N makes a batch of random values");
}

static int write_group(void *arg, struct group *g);

static bool stopped(void)
{
	return watchdog_caught() != E_OK;
}

static int prepare(struct many *m)
{
	const struct options *o = m->o;

	m->stream = (struct stream){.keep_going = o->keep_going,
				    .batch = o->batch,
				    .stopped = stopped,
				    .write = write_group,
				    .arg = m};
	int rc = open_model(m);
	rc = rc ? rc : find_shard(m);
	if (!rc && o->batch > 1 && sizes_are_free(&m->list.request))
		rc = refuse_batch_of_random(m);
	rc = rc ? rc : options_blame(o, "batch", stream_batch(&m->stream, &m->list, m->d), m->d);
	if (!rc)
		tell_short_list(m);
	rc = rc ? rc : find_free_sizes(m);
	rc = rc ? rc : results_open(&m->results, o, model_of(m), &m->list, m->d);
	if (rc)
		return rc;
	m->outputs = arena_new_n(&m->arena, struct output, model_of(m)->graph->nout + 1);
	m->row = arena_new_n(&m->arena, struct report_case, m->list.n + 1);
	list_todo(m);
	return open_report(m);
}

/* ---- the stream */

/* Keeps notes and warnings of a case unless another case has given the same, and only the first few. */
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
	const struct finding *f = why->last;

	reader_name_errors(m->list.label[index], why);
	keep_findings(m, why, true);
	m->failed++;
	m->row[index] = (struct report_case){
		.index = index,
		.name = m->list.name[index],
		.failed = true,
		.seconds = NAN,
		.input = m->list.label[index],
		.id = code_id((enum code) - rc, SEV_ERROR),
		.message = arena_str(&m->arena,
				     f && f->message ? f->message : code_title((enum code) - rc))};
	if (ends_all(rc))
		return rc;
	int written = results_add_failure(&m->results, index, why, m->d);
	return written ? written : m->o->keep_going ? 0 : rc;
}

static int write_outputs(struct many *m, const struct read_case *c, const struct outcome *x,
			 struct score_sums *sums, struct diag *d)
{
	const struct graph *g = model_of(m)->graph;

	for (uint32_t o = 0; o < g->nout; o++)
		m->outputs[o] = (struct output){.name = g->out_name[o], .tensor = x->out[o]};
	return results_add(&m->results, c->index, c->set, m->outputs, sums, &m->arena, d);
}

static int write_case(struct many *m, struct read_case *c, struct outcome *x)
{
	struct diag *why = c->rc ? &c->diag : &x->why;
	/* kept for the report only, as there may be very many inputs */
	struct score_sums *sums =
		m->o->report ? arena_new_n(&m->arena, struct score_sums, m->results.scores.n) : NULL;
	int rc = x->rc ? x->rc : write_outputs(m, c, x, sums, why);

	if (rc)
		return fail_case(m, c->index, why, rc);
	keep_findings(m, &c->diag, false);
	keep_findings(m, &x->why, false);
	if (!m->done++) /* what is wrong with the scale of one picture is wrong with all of them */
		doubt_pictures(m->o, c->set, m->d);
	m->row[c->index] = (struct report_case){.index = c->index,
						.name = m->list.name[c->index],
						.seconds = x->seconds,
						.sums = sums};
	return 0;
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

static int write_group(void *arg, struct group *g)
{
	struct many *m = arg;
	int rc = 0;

	keep_findings(m, &g->notes, false);
	for (size_t i = 0; !rc && i < g->n; i++) {
		struct outcome *x = &g->outcome[i];
		if (!x->out && (!x->rc || g->cut))
			break; /* it was not reached */
		rc = write_case(m, &g->cases[i], x);
	}
	int flushed = results_flush(&m->results, m->d);
	show_progress(m);
	return rc ? rc : flushed;
}

static int run_all(struct many *m)
{
	watchdog_soft();
	m->start = clock_ns();
	progress_begin(&m->progress, m->o);
	int rc = stream_run(&m->stream, &m->list, m->todo, m->ntodo, m->d);
	progress_clear(&m->progress);
	m->seconds = (double)(clock_ns() - m->start) * 1e-9;
	enum code why = watchdog_caught();
	if (why != E_OK && (!rc || rc == -E_INTERRUPTED))
		rc = FAIL(m->d, why,
			  .message = fmt(m->d,
					 "stopped after %zu of %zu inputs; their results are written",
					 m->done, m->ntodo + m->skipped),
			  .hint = m->o->save || m->o->jsonl ? "--resume goes on from here" : NULL);
	int written = write_report(m);
	return rc ? rc : written;
}

/* ---- the summary */

/* The devices that ran, each with the number of its inputs if there are several. */
static const char *devices_text(const struct many *m, struct arena *a)
{
	struct str s = {.arena = a};

	for (size_t i = 0; i < m->stream.nlanes; i++) {
		const struct lane *l = &m->stream.lane[i];
		if (m->stream.nlanes == 1)
			return session_device(l->session);
		str_addf(&s, "%s%s (%zu%s)", i ? ", " : "", l->device, l->done,
			 l->lost ? ", then lost" : "");
	}
	return str_get(&s);
}

static void print_summary(const struct many *m)
{
	struct arena a = {0};
	FILE *f = listing_begin(stderr);

	uint64_t each = (uint64_t)stream_limit(&m->stream);
	if (m->done && m->done < each)
		each = m->done;
	if (m->done)
		fprintf(f, "inputs   %s in %s: %.1f a second, %s a run, on %s\n",
			str_many(&a, m->done, "input"), str_seconds(&a, m->seconds),
			m->seconds > 0 ? (double)m->done / m->seconds : 0.0,
			str_many(&a, each, "input"), devices_text(m, &a));
	else
		fprintf(f, "inputs   none was run\n");
	if (m->shard.count > 1)
		fprintf(f, "shard    %zu of %zu, of %s\n", m->shard.index + 1, m->shard.count,
			str_many(&a, m->list.n, "input"));
	if (m->skipped)
		fprintf(f, "skipped  %s, done before\n", str_many(&a, m->skipped, "input"));
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
	json_uint(&j, "total", m->ntodo + m->skipped);
	json_uint(&j, "done", m->done);
	json_uint(&j, "skipped", m->skipped);
	json_uint(&j, "failed", m->failed);
	json_int(&j, "batch", stream_limit(&m->stream));
	json_number(&j, "seconds", m->seconds);
	json_end(&j, '}');
	json_object(&j, "shard");
	json_uint(&j, "index", m->shard.index + 1);
	json_uint(&j, "count", m->shard.count);
	json_end(&j, '}');
	json_array(&j, "devices");
	for (size_t i = 0; i < m->stream.nlanes; i++) {
		const struct lane *l = &m->stream.lane[i];
		json_object(&j, NULL);
		json_string(&j, "device", l->device);
		json_uint(&j, "inputs", l->done);
		json_bool(&j, "lost", l->lost);
		json_end(&j, '}');
	}
	json_end(&j, ']');
	if (m->results.scores.n)
		scores_write(&m->results.scores, NULL, &j);
	json_envelope_end(&j, m->d);
}

/* Refuses what many inputs do not go with. */
static int check_options(const struct options *o, struct diag *d)
{
	const char *steps = o->steps.slice.n > 0  ? "slice"
			    : o->steps.feed.n > 0 ? "feed"
			    : o->steps.next.n > 0 ? "next"
						  : NULL;

	if (o->json && o->jsonl && !strcmp(o->jsonl, "-"))
		return options_fail(o, "jsonl", "standard output has the document of --json",
				    "name a file with --jsonl FILE", d);
	if (steps)
		return options_fail(o, steps, "many inputs do not run step by step",
				    "run the model once for each input; --score, --jsonl, --batch and "
				    "--keep-going are for many",
				    d);
	return 0;
}

int run_many(struct options *o, struct diag *d)
{
	/* static, because a reader that hangs in a pipe may outlive this call, and uses the model and the list */
	static struct many m;
	m = (struct many){.o = o, .d = d, .results.lines = -1};
	int rc = check_options(o, d);

	rc = rc ? rc : prepare(&m);

	if (!rc) {
		rc = run_all(&m);
		rc = rc ? rc : scores_check(&m.results.scores, d);
		if (o->json)
			write_document(&m);
		else if (!o->quiet)
			print_summary(&m);
		if (!o->json)
			results_print_scores(&m.results);
	}
	int closed = results_close(&m.results, d);
	if (stream_close(&m.stream)) {
		input_list_free(&m.list);
		arena_free(&m.arena);
	}
	return rc ? rc : closed;
}
