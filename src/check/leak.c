/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether memory keeps growing from run to run. What is watched, from exact to rough: infer's own counters, what
 * malloc has in use, what the process has for itself, what the device has in use. See growth.c for the verdict.
 *
 * Where something leaks, more runs are watched step by step, so that the node can be named.
 */
#include "check/growth.h"
#include "check/prepare_inputs.h"
#include "check/trial_sizes.h"
#include "base/asan.h"
#include "base/clock.h"
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
	RUNS = 500,	   /* unless --runs says another number */
	RUNS_LEAST = 60,   /* below that no trend is believed */
	SECONDS_MOST = 60, /* of runs, unless --runs says how many */
	STEP_RUNS = 60,	   /* that are watched step by step */
	RECREATED = 60,
};
static const double host_limit = 5.0 * (1 << 20), device_limit = 200.0 * (1 << 20);

/* ---- what is watched */

enum { OWN, MALLOC, PRIVATE, OWN_DEVICE, DEVICE, SERIES };
static const struct {
	const char *name, *about;
	bool device, rough;
} kinds[SERIES] = {
	{"counted", "host memory that infer counts", false, false},
	{"malloc", "memory that malloc has in use", false, false},
	{"private", "memory of the process alone", false, true},
	{"counted device", "device memory that infer counts", true, false},
	{"device", "memory in use on the device", true, true},
};

struct culprit {
	const char *node, *op, *kernel;
	double bytes; /* a run */
	const char *site;
};

struct leak {
	struct series of[SERIES];
	size_t runs, per_point;
	double seconds; /* a run */
	double left[2]; /* memory that is left: host, device */
	enum growth verdict;
	struct culprit culprit;
	int statm;
};

static double counted(enum mem_kind kind)
{
	double sum = 0;

	for (int p = 0; p < MEM_PURPOSES; p++)
		sum += (double)mem_count(kind, (enum mem_purpose)p).live;
	return sum;
}

static double in_malloc(void)
{
	struct mallinfo2 m = mallinfo2();

	return (double)m.uordblks + (double)m.hblkhd;
}

/* Bytes in use on the session's device and in all; false where it has none or does not say. */
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

static void add(struct series *s, double v)
{
	s->v[s->n++] = v;
}

static void sample(struct leak *x, struct session *s)
{
	uint64_t rss, own;
	double used;

	add(&x->of[OWN], counted(MEM_HOST) + counted(MEM_PINNED));
	/* AddressSanitizer keeps what is freed for a while: only the counters can be believed */
	if (!WITH_ASAN)
		add(&x->of[MALLOC], in_malloc());
	if (!WITH_ASAN && x->statm >= 0 && proc_sample(x->statm, &rss, &own))
		add(&x->of[PRIVATE], (double)own);
	if (counted(MEM_DEVICE) > 0 || x->of[OWN_DEVICE].n)
		add(&x->of[OWN_DEVICE], counted(MEM_DEVICE));
	if (device_memory(s, &used, &x->left[1]))
		add(&x->of[DEVICE], used);
}

/* ---- which node */

struct tally {
	const struct step *step;
	double bytes[3]; /* counted, malloc, device */
	struct tally *next;
};

struct stepwatch {
	struct observer observer;
	struct arena a;
	struct tally *all;
	double before[3];
};

static void now(double v[3])
{
	v[0] = counted(MEM_HOST) + counted(MEM_PINNED);
	v[1] = in_malloc();
	v[2] = counted(MEM_DEVICE);
}

static void step_begin(struct observer *o, const struct step *s, const struct call *c)
{
	struct stepwatch *w = (struct stepwatch *)o;
	struct tally *t = w->all;

	(void)c;
	while (t && t->step != s)
		t = t->next;
	if (!t) {
		t = arena_new(&w->a, struct tally);
		t->step = s;
		t->next = w->all;
		w->all = t;
	}
	now(w->before);
}

static void step_end(struct observer *o, const struct step *s, const struct call *c)
{
	struct stepwatch *w = (struct stepwatch *)o;
	double v[3];

	(void)c;
	now(v);
	for (struct tally *t = w->all; t; t = t->next)
		for (int k = 0; t->step == s && k < 3; k++)
			t->bytes[k] += v[k] - w->before[k];
}

static const char *site_of(const struct tally *t, const char *kernel, struct diag *d)
{
	if (t->bytes[2] > 0)
		return fmt(d, "device memory, allocated while kernel '%s' runs", kernel);
	if (t->bytes[0] > 0)
		return fmt(d, "mem_alloc, while kernel '%s' runs", kernel);
	return fmt(d, "malloc, while kernel '%s' runs (not through infer's counters: a library's)",
		   kernel);
}

static void blame(struct check_context *c, struct leak *x)
{
	struct stepwatch w = {.observer = {.begin = step_begin, .end = step_end}};
	const struct tensor **out =
		arena_new_n(&c->arena, const struct tensor *, (size_t)c->nout + 1);
	const struct tally *worst = NULL;
	double most = 0;
	bool quiet = true;

	check_session_run(c, c->session, c->in, out, &w.observer); /* the lists are made */
	for (struct tally *t = w.all; t; t = t->next)
		memset(t->bytes, 0, sizeof(t->bytes));
	for (int i = 0; i < STEP_RUNS && quiet; i++)
		quiet = !check_session_run(c, c->session, c->in, out, &w.observer);
	for (const struct tally *t = w.all; t; t = t->next) {
		/* what a step allocates through us is malloc's, too */
		double sum = fmax(t->bytes[0], t->bytes[1]) + t->bytes[2];
		if (sum <= most)
			continue;
		most = sum;
		worst = t;
	}
	if (worst && most >= STEP_RUNS && worst->step->from) {
		const char *kernel = worst->step->kernel ? worst->step->kernel->op : "?";
		x->culprit = (struct culprit){.node = worst->step->from->name,
					      .op = worst->step->from->op,
					      .kernel = kernel,
					      .bytes = most / STEP_RUNS,
					      .site = site_of(worst, kernel, c->d)};
	}
	arena_free(&w.a);
}

/* ---- runs */

static size_t wanted(const struct check_context *c)
{
	return c->options->runs > 0 ? (size_t)c->options->runs : RUNS;
}

static int make_room(struct check_context *c, struct leak *x, size_t n)
{
	for (int i = 0; i < SERIES; i++)
		x->of[i].v = arena_new_n(&c->arena, double, n + 1);
	x->statm = proc_open(0);
	return 0;
}

/* The same input, again and again; unobserved, as a program runs it. */
static int same_runs(struct check_context *c, struct leak *x, size_t n)
{
	const struct tensor **out =
		arena_new_n(&c->arena, const struct tensor *, (size_t)c->nout + 1);
	uint64_t start = clock_ns();
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++) {
		rc = session_run(c->session, c->in, out, c->d);
		sample(x, c->session);
		check_step(c, i + 1, n);
		x->runs++;
		if (!c->options->runs && i >= RUNS_LEAST &&
		    clock_ns() - start > SECONDS_MOST * UINT64_C(1000000000))
			break;
	}
	x->seconds = x->runs ? (double)(clock_ns() - start) / 1e9 / (double)x->runs : 0;
	return rc;
}

/* All shapes in turn; one point a round, where each shape is met once. */
static int sweep_runs(struct check_context *c, struct leak *x, size_t n, const struct trial_sizes *w)
{
	const struct tensor **out =
		arena_new_n(&c->arena, const struct tensor *, (size_t)c->nout + 1);
	struct input_set **in = arena_new_n(&c->arena, struct input_set *, w->n);
	size_t rounds = n / w->n > RUNS_LEAST / 2 ? n / w->n : RUNS_LEAST / 2 + 1;
	uint64_t start = clock_ns();
	int rc = 0;

	for (size_t k = 0; !rc && k < w->n; k++) {
		in[k] = random_inputs(c, &w->dims[k], c->d);
		rc = in[k] ? 0 : -E_DIM;
	}
	for (size_t i = 0; !rc && i < rounds; i++) {
		for (size_t k = 0; !rc && k < w->n; k++, x->runs++)
			rc = session_run(c->session, input_tensors(in[k]), out, c->d);
		sample(x, c->session);
		check_step(c, i + 1, rounds);
	}
	x->per_point = w->n;
	x->seconds = x->runs ? (double)(clock_ns() - start) / 1e9 / (double)x->runs : 0;
	for (size_t k = 0; k < w->n; k++)
		input_free(in[k]);
	return rc;
}

/* Opened, run once and closed: what a session leaves behind. */
static int recreate_runs(struct check_context *c, struct leak *x, size_t n)
{
	const struct tensor **out =
		arena_new_n(&c->arena, const struct tensor *, (size_t)c->nout + 1);
	uint64_t start = clock_ns();
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++, x->runs++) {
		struct session *s = check_open(c, c->config);
		rc = s ? check_session_run(c, s, c->in, out, NULL) : -E_RUN;
		session_close(s);
		sample(x, c->session);
		check_step(c, i + 1, n);
	}
	x->seconds = x->runs ? (double)(clock_ns() - start) / 1e9 / (double)x->runs : 0;
	return rc;
}

/* ---- what is said */

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

static const char *exhaustion(const struct leak *x, double slope, bool device, struct diag *d)
{
	double runs = x->left[device] / slope;

	if (!(x->left[device] > 0) || !(slope > 0))
		return "not known";
	return fmt(d, "after %.3g runs, %s at this pace: %s are left", runs,
		   str_span(&d->arena, runs * x->seconds), bytes_text(x->left[device], d));
}

static void tell_leak(struct check_context *c, const struct leak *x, int which, const char *how)
{
	const struct series *s = &x->of[which];
	double per = (double)x->per_point, slope = s->trend.slope.value / per;
	struct diag *d = c->d;
	struct diag_row rows[] = {
		{"verdict", fmt(d, "leak: %s", kinds[which].about)},
		{"slope", fmt(d, "%s a %s (99 %% interval %s to %s; %zu runs)",
			      bytes_text(slope, d), how, bytes_text(s->trend.slope.low / per, d),
			      bytes_text(s->trend.slope.high / per, d), x->runs)},
		{"exhausted", exhaustion(x, slope, kinds[which].device, d)},
		{"site", x->culprit.site ? x->culprit.site
					 : "no single step grows: between runs, or in a thread"},
		{"try", x->culprit.node
				? "infer check --bisect -o DIR, for a model to attach to a report"
				: "infer check --leak --recreate, to tell runs from sessions"},
	};

	FAIL(d, E_LEAK, .node = x->culprit.node, .op = x->culprit.op,
	     .message = fmt(d, "memory grows by %s with each %s, without end", bytes_text(slope, d),
			    how),
	     .rows = rows, .nrows = sizeof(rows) / sizeof(*rows));
}

static void tell_plateau(struct check_context *c, const struct series *s, int which)
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
 * What readings waver by. A GPU's driver keeps some bytes of each session that was closed, which malloc's
 * count shows and the process does not feel; from run to run malloc's count is exact there, too. Where shapes
 * change plans are made and freed, of which malloc keeps blocks.
 */
static double noise_of(const struct check_context *c, int which, bool runs)
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

/* The most exact series that leaks speaks for all. */
static void conclude(struct check_context *c, struct leak *x, const char *how, bool steps)
{
	int leaking = -1, flat = -1;

	for (int i = 0; i < SERIES; i++) {
		growth_judge(&x->of[i], noise_of(c, i, steps));
		x->verdict = x->of[i].verdict > x->verdict ? x->of[i].verdict : x->verdict;
		if (x->of[i].verdict == GROWTH_LEAK && leaking < 0)
			leaking = i;
		if (x->of[i].verdict == GROWTH_FLAT &&
		    (flat < 0 || x->of[i].grown > x->of[flat].grown))
			flat = i;
	}
	x->left[0] = (double)proc_available();
	if (leaking >= 0 && steps)
		blame(c, x);
	if (leaking >= 0)
		tell_leak(c, x, leaking, how);
	else if (flat >= 0)
		tell_plateau(c, &x->of[flat], flat);
}

static const char *const verdicts[] = {"stable", "grows then flat (an arena, no leak)", "leak"};

static int finish(struct check_context *c, struct leak *x, int rc, const char *how, bool steps)
{
	const char *before = c->said;

	if (!rc)
		conclude(c, x, how, steps);
	if (x->statm >= 0)
		close(x->statm);
	check_say(c, "%s%s%s over %zu runs%s", before ? before : "", before ? "; " : "",
		  rc ? "broke off" : verdicts[x->verdict], x->runs,
		  !strcmp(how, "session") ? ", each in a session of its own" : "");
	return rc;
}

static int run(struct check_context *c)
{
	struct leak *x = arena_new_n(&c->arena, struct leak, 2);
	struct trial_sizes w = {0};
	size_t n = wanted(c);
	int rc = 0;

	x[0].per_point = x[1].per_point = 1;
	if (c->options->sweep.n)
		rc = trial_sizes_list(c, &w);
	if (rc)
		return rc;
	make_room(c, x, n + RUNS_LEAST);
	rc = w.n ? sweep_runs(c, x, n, &w) : same_runs(c, x, n);
	rc = finish(c, x, rc, "run", !rc);
	c->data = x;
	if (rc || !c->options->recreate)
		return rc;
	n = n < RECREATED ? n : RECREATED;
	make_room(c, x + 1, n);
	return finish(c, x + 1, recreate_runs(c, x + 1, n), "session", false);
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

static void plot(const struct leak *x, const char *what, struct page *p)
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
					 .y_label = "bytes",
					 .y_unit = PAGE_BYTES,
					 .series = lines,
					 .nseries = n});
}

static void write_page(const struct check_result *r, struct page *p)
{
	const struct leak *x = r->data;

	plot(&x[0], "Memory from run to run", p);
	plot(&x[1], "Memory from session to session", p);
}

static bool applies(const struct check_context *c, const char **why)
{
	(void)why;
	return c->options->leak || c->options->recreate || c->options->all;
}

const struct check check_leak = {
	.name = "leak",
	.what = "memory from run to run",
	.need = NEED_OUTPUTS,
	.cost = COST_LONG,
	.applies = applies,
	.run = run,
	.write = write_json,
	.page = write_page,
};
