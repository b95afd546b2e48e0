/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --leak: checks whether memory keeps growing from run to run. After each run the check reads several counters, from
 * exact to rough: infer's own, malloc's, the process's private memory, and the device's memory in use. growth.c
 * judges the series. If memory leaks, further runs are observed step by step to find the node that allocates it.
 */
#include "check/growth.h"
#include "check/prepare_inputs.h"
#include "check/trial_sizes.h"
#include "base/asan.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "output/html.h"

#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	DEFAULT_RUNS = 500, /* without --runs */
	MIN_RUNS = 60,	    /* fewer cannot show a trend */
	MAX_SECONDS = 60, /* without --runs, stop after this time if MIN_RUNS runs have been made */
	OBSERVED_RUNS = 60, /* runs that are observed step by step to find the leaking node */
	MAX_SESSIONS = 60,  /* opened by --recreate */
};
/* Growth beyond this many bytes is a warning even if it stops, as no arena should take more. */
static const double host_limit = 5.0 * (1 << 20), device_limit = 200.0 * (1 << 20);

/* ---- memory readings */

/* The series of readings, from exact to rough. */
enum { OWN, MALLOC, PRIVATE, OWN_DEVICE, DEVICE, SERIES };
static const struct {
	const char *name, *about;
	bool device; /* the counter is of the device's memory, not the host's */
	bool rough;  /* readings vary by themselves, see GROWTH_NOISE */
} kinds[SERIES] = {
	{"counted", "host memory that infer counts", false, false},
	{"malloc", "memory that malloc has in use", false, false},
	{"private", "private memory of the process", false, true},
	{"counted device", "device memory that infer counts", true, false},
	{"device", "memory in use on the device", true, true},
};

/* The step that leaks. Its node is NULL if it was not found. */
struct culprit {
	const char *node, *op, *kernel;
	double bytes;	  /* per run */
	const char *site; /* which allocator, for the report */
};

struct leak {
	struct series of[SERIES];
	size_t runs;
	size_t per_point; /* runs between two readings */
	double seconds;	  /* per run */
	double left[2];	  /* bytes that are free on the host and on the device */
	enum growth verdict;
	struct culprit culprit;
	int statm; /* open /proc/self/statm; -1: not available */
};

static double counted_bytes(enum mem_kind kind)
{
	double sum = 0;

	for (int p = 0; p < MEM_PURPOSES; p++)
		sum += (double)mem_count(kind, (enum mem_purpose)p).live;
	return sum;
}

static double malloc_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return (double)m.uordblks + (double)m.hblkhd;
}

/*
 * Gets the bytes of the device's memory that all programs use and that are free. Returns false if the session has no
 * device, or if the device does not tell.
 */
static bool device_memory(struct session *s, double *used, double *unused)
{
	const struct runtime *rt = s ? session_runtime(s) : NULL;
	uint64_t left, total;

	if (!rt || !rt->device || !rt->backend || !rt->backend->memory ||
	    rt->backend->memory(rt->device, &left, &total, NULL))
		return false;
	*used = (double)(total - left);
	*unused = (double)left;
	return true;
}

static void add_reading(struct series *s, double v)
{
	s->v[s->n++] = v;
}

static void take_readings(struct leak *x, struct session *s)
{
	uint64_t rss, own;
	double used;

	add_reading(&x->of[OWN], counted_bytes(MEM_HOST) + counted_bytes(MEM_PINNED));
	/* AddressSanitizer keeps freed memory for a while, so that only infer's own counters are exact */
	if (!WITH_ASAN)
		add_reading(&x->of[MALLOC], malloc_bytes());
	if (!WITH_ASAN && x->statm >= 0 && proc_sample(x->statm, &rss, &own))
		add_reading(&x->of[PRIVATE], (double)own);
	if (counted_bytes(MEM_DEVICE) > 0 || x->of[OWN_DEVICE].n)
		add_reading(&x->of[OWN_DEVICE], counted_bytes(MEM_DEVICE));
	if (device_memory(s, &used, &x->left[1]))
		add_reading(&x->of[DEVICE], used);
}

/* ---- finding the step that leaks */

/* The bytes that a step has allocated and not freed, summed over the observed runs. */
struct step_bytes {
	const struct step *step;
	double bytes[3]; /* counted, malloc, device */
	struct step_bytes *next;
};

struct step_observer {
	struct observer observer;
	struct arena a;
	struct step_bytes *all;
	struct step_bytes **step;
	size_t n, cap;
	struct map index; /* in `step`, by the step's address */
	double before[3];
};

static void read_counters(double v[3])
{
	v[0] = counted_bytes(MEM_HOST) + counted_bytes(MEM_PINNED);
	v[1] = malloc_bytes();
	v[2] = counted_bytes(MEM_DEVICE);
}

static void step_begin(struct observer *o, const struct step *s, const struct call *c)
{
	struct step_observer *w = (struct step_observer *)o;

	(void)c;
	int64_t at = map_get(&w->index, (const char *)&s, sizeof(s));
	struct step_bytes *t = at < 0 ? arena_new(&w->a, struct step_bytes) : w->step[at];
	if (at < 0) {
		t->step = s;
		t->next = w->all;
		w->all = t;
		if (w->n == w->cap) {
			w->cap = w->cap ? 2 * w->cap : 64;
			w->step = arena_grow(&w->a, w->step, w->n, w->cap, sizeof(*w->step));
		}
		map_set(&w->index, (const char *)&t->step, sizeof(t->step), (uint32_t)w->n);
		w->step[w->n++] = t;
	}
	read_counters(w->before);
}

static void step_end(struct observer *o, const struct step *s, const struct call *c)
{
	struct step_observer *w = (struct step_observer *)o;
	double v[3];

	(void)c;
	read_counters(v);
	int64_t at = map_get(&w->index, (const char *)&s, sizeof(s));
	for (int k = 0; at >= 0 && k < 3; k++)
		w->step[at]->bytes[k] += v[k] - w->before[k];
}

static const char *describe_site(const struct step_bytes *t, const char *kernel, struct diag *d)
{
	if (t->bytes[2] > 0)
		return fmt(d, "device memory, allocated while kernel '%s' runs", kernel);
	if (t->bytes[0] > 0)
		return fmt(d, "mem_alloc, while kernel '%s' runs", kernel);
	return fmt(d, "malloc, while kernel '%s' runs (not counted by infer, so by a library)",
		   kernel);
}

static void find_leaking_step(struct check_context *c, struct leak *x)
{
	struct step_observer w = {.observer = {.begin = step_begin, .end = step_end}};
	const struct tensor **out =
		arena_new_n(&c->arena, const struct tensor *, (size_t)c->nout + 1);
	const struct step_bytes *worst = NULL;
	double most = 0;
	bool quiet = true;

	w.index.arena = &w.a;
	/*
	 * the first run adds the steps to the list, which itself takes memory, so the counts of this run are
	 * discarded
	 */
	check_session_run(c, c->session, c->in, out, &w.observer);
	for (struct step_bytes *t = w.all; t; t = t->next)
		memset(t->bytes, 0, sizeof(t->bytes));
	for (int i = 0; i < OBSERVED_RUNS && quiet; i++)
		quiet = !check_session_run(c, c->session, c->in, out, &w.observer);
	for (const struct step_bytes *t = w.all; t; t = t->next) {
		/* malloc's count includes the bytes that infer counts, so take the larger of the two, not the sum */
		double sum = fmax(t->bytes[0], t->bytes[1]) + t->bytes[2];
		if (sum <= most)
			continue;
		most = sum;
		worst = t;
	}
	if (worst && most >= OBSERVED_RUNS && worst->step->from) {
		const char *kernel = worst->step->kernel ? worst->step->kernel->op : "?";
		x->culprit = (struct culprit){.node = worst->step->from->name,
					      .op = worst->step->from->op,
					      .kernel = kernel,
					      .bytes = most / OBSERVED_RUNS,
					      .site = describe_site(worst, kernel, c->d)};
	}
	arena_free(&w.a);
}

/* ---- runs */

static size_t wanted_runs(const struct check_context *c)
{
	return c->options->runs > 0 ? (size_t)c->options->runs : DEFAULT_RUNS;
}

static int begin_series(struct check_context *c, struct leak *x, size_t n)
{
	for (int i = 0; i < SERIES; i++)
		x->of[i].v = arena_new_n(&c->arena, double, n + 1);
	x->statm = proc_open(0);
	return 0;
}

/* Runs the same input again and again, without an observer, as a program would. */
static int run_same_input(struct check_context *c, struct leak *x, size_t n)
{
	const struct tensor **out =
		arena_new_n(&c->arena, const struct tensor *, (size_t)c->nout + 1);
	uint64_t start = clock_ns();
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++) {
		rc = session_run(c->session, c->in, out, c->d);
		take_readings(x, c->session);
		check_step(c, i + 1, n);
		x->runs++;
		if (!c->options->runs && i >= MIN_RUNS &&
		    clock_ns() - start > MAX_SECONDS * UINT64_C(1000000000))
			break;
	}
	x->seconds = x->runs ? (double)(clock_ns() - start) / 1e9 / (double)x->runs : 0;
	return rc;
}

/*
 * Makes inputs of the sizes of --shapes-sweep. Sizes that the model does not take, as an axis may have to be a multiple of another
 * size, are left out and named. Returns the number of inputs.
 */
static size_t sweep_inputs(struct check_context *c, const struct trial_sizes *w, struct input_set **in)
{
	const struct tensor **out =
		arena_new_n(&c->arena, const struct tensor *, (size_t)c->nout + 1);
	struct check_names refused = {&c->arena, "", 0};
	size_t n = 0;

	for (size_t k = 0; k < w->n; k++) {
		/* what is to be said of the other dimensions was said when the first run's inputs were made */
		struct diag quiet = {0};
		in[n] = generate_inputs(c, &w->dims[k], &quiet);
		if (in[n] && !session_run(c->session, input_tensors(in[n]), out, &quiet)) {
			n++;
		} else {
			check_name_add(&refused, w->label[k]);
			input_free(in[n]);
			if (k + 1 == w->n && !n)
				check_merge(c->d, &quiet);
		}
		diag_free(&quiet);
	}
	if (refused.n)
		check_say(c, "the model does not take %s", check_name_list(&refused));
	return n;
}

/* Runs all shapes of --shapes-sweep in turn, with one reading after each round. */
static int run_sweep(struct check_context *c, struct leak *x, size_t n, const struct trial_sizes *w)
{
	const struct tensor **out =
		arena_new_n(&c->arena, const struct tensor *, (size_t)c->nout + 1);
	struct input_set **in = arena_new_n(&c->arena, struct input_set *, w->n + 1);
	size_t points = sweep_inputs(c, w, in);
	size_t rounds = points && n / points > MIN_RUNS / 2 ? n / points : MIN_RUNS / 2 + 1;
	uint64_t start = clock_ns();
	int rc = points ? 0 : -E_SHAPE;

	for (size_t i = 0; !rc && i < rounds; i++) {
		for (size_t k = 0; !rc && k < points; k++, x->runs++)
			rc = session_run(c->session, input_tensors(in[k]), out, c->d);
		take_readings(x, c->session);
		check_step(c, i + 1, rounds);
	}
	x->per_point = points ? points : 1;
	x->seconds = x->runs ? (double)(clock_ns() - start) / 1e9 / (double)x->runs : 0;
	for (size_t k = 0; k < points; k++)
		input_free(in[k]);
	return rc;
}

/* Opens a session, runs it once and closes it, n times, to show the memory that a closed session leaves behind. */
static int run_new_sessions(struct check_context *c, struct leak *x, size_t n)
{
	const struct tensor **out =
		arena_new_n(&c->arena, const struct tensor *, (size_t)c->nout + 1);
	uint64_t start = clock_ns();
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++, x->runs++) {
		struct session *s = check_open(c, c->config);
		rc = s ? check_session_run(c, s, c->in, out, NULL) : -E_RUN;
		session_close(s);
		take_readings(x, c->session);
		check_step(c, i + 1, n);
	}
	x->seconds = x->runs ? (double)(clock_ns() - start) / 1e9 / (double)x->runs : 0;
	return rc;
}

/* ---- report */

static const char *bytes_text(double v, struct diag *d)
{
	double a = fabs(v);

	if (a >= 1 << 30)
		return fmt(d, "%.2f GiB", v / (1 << 30));
	if (a >= 1 << 20)
		return fmt(d, "%.2f MiB", v / (1 << 20));
	if (a >= 1 << 10)
		return fmt(d, "%.1f KiB", v / (1 << 10));
	return fmt(d, "%.0f bytes", v);
}

/* Returns a text that says when the free memory will be used up if `slope` bytes leak in each run. */
static const char *exhaustion_text(const struct leak *x, double slope, bool device, struct diag *d)
{
	double runs = x->left[device] / slope;

	if (!(x->left[device] > 0) || !(slope > 0))
		return "not known";
	return fmt(d, "after %.3g more runs, in %s at this rate: %s are left", runs,
		   str_span(&d->arena, runs * x->seconds), bytes_text(x->left[device], d));
}

/* Reports a leak. `how` is the unit that leaks, "run" or "session". */
static void report_leak(struct check_context *c, const struct leak *x, int which, const char *how)
{
	const struct series *s = &x->of[which];
	double per = (double)x->per_point, slope = s->trend.slope.value / per;
	struct diag *d = c->d;
	struct diag_row rows[] = {
		{"verdict", fmt(d, "leak: %s", kinds[which].about)},
		{"slope", fmt(d, "%s per %s (99 %% confidence interval %s to %s; %zu runs)",
			      bytes_text(slope, d), how, bytes_text(s->trend.slope.low / per, d),
			      bytes_text(s->trend.slope.high / per, d), x->runs)},
		{"exhausted", exhaustion_text(x, slope, kinds[which].device, d)},
		{"site", x->culprit.site
				 ? x->culprit.site
				 : "no single step: memory grows between runs or in another thread"},
		{"try",
		 x->culprit.node
			 ? "infer check --bisect -o DIR, to get a small model to attach to a report"
			 : "infer check --leak --recreate, to see whether sessions leak as well"},
	};

	FAIL(d, E_LEAK, .node = x->culprit.node, .op = x->culprit.op,
	     .message = fmt(d, "memory grows by %s with each %s, and does not stop",
			    bytes_text(slope, d), how),
	     .rows = rows, .nrows = sizeof(rows) / sizeof(*rows));
}

static void report_plateau(struct check_context *c, const struct series *s, int which)
{
	bool over = s->grown > (kinds[which].device ? device_limit : host_limit);
	struct diag *d = c->d;
	const char *text =
		fmt(d, "%s grew by %s and then stayed flat%s", kinds[which].about,
		    bytes_text(s->grown, d), over ? ", more than an arena should take" : "");

	if (over)
		WARN(d, E_LEAK_ARENA, .message = text);
	else
		NOTE(d, E_LEAK_ARENA, .message = text);
}

/*
 * Returns by how many bytes the readings of a series vary by themselves. Only malloc's readings need a case
 * distinction. From run to run they are exact, but a GPU's driver keeps a few bytes of each closed session, and when
 * shapes change, malloc keeps blocks of plans that were freed. `runs` is true if the series has a reading per run,
 * not per session.
 */
static double noise_bytes(const struct check_context *c, int which, bool runs)
{
	const struct runtime *rt = session_runtime(c->session);

	if (kinds[which].rough)
		return GROWTH_NOISE;
	if (which != MALLOC)
		return 0;
	if (!runs && rt->backend != rt->cpu)
		return GROWTH_DRIVER;
	return c->options->sweep.n ? GROWTH_HEAP : 0;
}

/*
 * Judges all series and reports one of them: the most exact series that leaks, or if none leaks the series that grew
 * most before it became flat.
 */
static void judge_and_report(struct check_context *c, struct leak *x, const char *how, bool steps)
{
	int leaking = -1, flat = -1;

	for (int i = 0; i < SERIES; i++) {
		growth_judge(&x->of[i], noise_bytes(c, i, steps));
		x->verdict = x->of[i].verdict > x->verdict ? x->of[i].verdict : x->verdict;
		if (x->of[i].verdict == GROWTH_LEAK && leaking < 0)
			leaking = i;
		if (x->of[i].verdict == GROWTH_FLAT &&
		    (flat < 0 || x->of[i].grown > x->of[flat].grown))
			flat = i;
	}
	x->left[0] = (double)proc_available();
	if (leaking >= 0 && steps)
		find_leaking_step(c, x);
	if (leaking >= 0)
		report_leak(c, x, leaking, how);
	else if (flat >= 0)
		report_plateau(c, &x->of[flat], flat);
}

static const char *const verdicts[] = {"stable", "grows then flat (an arena, no leak)", "leak"};

static int finish_series(struct check_context *c, struct leak *x, int rc, const char *how, bool steps)
{
	const char *before = c->said;

	if (!rc)
		judge_and_report(c, x, how, steps);
	if (x->statm >= 0)
		close(x->statm);
	const char *said =
		!rc	  ? arena_printf(&c->arena, "%s over %s", verdicts[x->verdict],
					 str_many(&c->arena, x->runs, "run"))
		: x->runs ? arena_printf(&c->arena,
					 "an error ended run %zu, so that memory was not judged",
					 x->runs)
			  : "no run succeeded, so that memory was not judged";
	check_say(c, "%s%s%s%s", before ? before : "", before ? "; " : "", said,
		  !strcmp(how, "session") ? ", each in a session of its own" : "");
	return rc;
}

static int run_leak(struct check_context *c)
{
	struct leak *x = arena_new_n(&c->arena, struct leak, 2);
	struct trial_sizes w = {0};
	size_t n = wanted_runs(c);
	int rc = 0;

	x[0].per_point = x[1].per_point = 1;
	if (c->options->sweep.n)
		rc = trial_sizes_list(c, &w);
	if (rc)
		return rc;
	begin_series(c, x, n + MIN_RUNS);
	rc = w.n ? run_sweep(c, x, n, &w) : run_same_input(c, x, n);
	rc = finish_series(c, x, rc, "run", !rc);
	c->data = x;
	if (rc || !c->options->recreate)
		return rc;
	n = n < MAX_SESSIONS ? n : MAX_SESSIONS;
	begin_series(c, x + 1, n);
	return finish_series(c, x + 1, run_new_sessions(c, x + 1, n), "session", false);
}

static void write_series(const struct leak *x, const char *name, struct json *j)
{
	if (!x->runs)
		return;
	json_object(j, name);
	json_string(j, "verdict", verdicts[x->verdict]);
	json_uint(j, "runs", x->runs);
	json_number(j, "seconds_a_run", x->seconds);
	json_array(j, "series");
	for (int i = 0; i < SERIES; i++) {
		const struct series *s = &x->of[i];
		if (!s->n)
			continue;
		json_object(j, NULL);
		json_string(j, "name", kinds[i].name);
		json_string(j, "verdict", verdicts[s->verdict]);
		json_number(j, "first", s->v[0]);
		json_number(j, "last", s->v[s->n - 1]);
		json_number(j, "slope", s->trend.slope.value / (double)x->per_point);
		json_number(j, "slope_low", s->trend.slope.low / (double)x->per_point);
		json_number(j, "slope_high", s->trend.slope.high / (double)x->per_point);
		json_array(j, "bytes");
		for (size_t k = 0; k < s->n; k += s->n / 200 + 1)
			json_number(j, NULL, s->v[k]);
		json_end(j, ']');
		json_end(j, '}');
	}
	json_end(j, ']');
	json_end(j, '}');
}

static void write_json(const struct check_result *r, struct json *j)
{
	const struct leak *x = r->data;

	write_series(&x[0], "memory", j);
	write_series(&x[1], "recreated", j);
}

static void plot_series(const struct leak *x, const char *what, struct page *p)
{
	struct page_series lines[SERIES];
	size_t n = 0;

	if (!x->runs)
		return;
	page_section(p, what, verdicts[x->verdict]);
	for (int i = 0; i < SERIES; i++)
		if (x->of[i].n)
			lines[n++] = (struct page_series){.name = kinds[i].about,
							  .y = x->of[i].v,
							  .n = x->of[i].n,
							  .steps = true};
	page_plot(p, &(struct page_plot){.title = "Memory after each run",
					 .x_label = "run",
					 .y_label = "memory",
					 .y_unit = PAGE_BYTES,
					 .series = lines,
					 .nseries = n});
}

static void write_page(const struct check_result *r, struct page *p)
{
	const struct leak *x = r->data;

	plot_series(&x[0], "Memory from run to run", p);
	plot_series(&x[1], "Memory from session to session", p);
}

static bool is_requested(const struct check_context *c, const char **why)
{
	(void)why;
	return c->options->leak || c->options->recreate || c->options->all;
}

const struct check check_leak = {
	.name = "leak",
	.what = "memory from run to run",
	.need = NEED_OUTPUTS,
	.cost = COST_LONG,
	.applies = is_requested,
	.run = run_leak,
	.write = write_json,
	.page = write_page,
};
