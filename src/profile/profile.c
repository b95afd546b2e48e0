/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

#include "backend/observe.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"
#include "base/proc.h"
#include "base/str.h"
#include "profile/gate.h"
#include "profile/core_waits.h"
#include "profile/peak.h"
#include "profile/reference_work.h"
#include "session/model_report.h"
#include "session/free_sizes.h"
#include "session/odd_outputs.h"
#include "base/samples.h"
#include "base/stats.h"
#include "profile/memory_timeline.h"
#include "profile/trace.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	MIN_RUNS = 5,
	MIN_UNDISTURBED_RUNS = 12, /* for a gate; see PATIENCE */
	MAX_RUNS = 500000,	   /* kept, of all lanes */
	MAX_LANES = 256,
	REFERENCE_SHOTS = 4, /* number of times that each reference workload is measured in a row */
	COPY_RUNS = 20 /* number of observed runs that measure copies to and from the device */
};

/* On a busy machine a loop goes on for up to PATIENCE times its duration, until enough runs were undisturbed. */
static const double PATIENCE = 4;

static const uint64_t REFERENCE_INTERVAL =
	50000000; /* least time in ns between two measurements of the reference workloads */
static const uint64_t POLL_INTERVAL = 20000000; /* ns between two calls of the job's poll */

/*
 * In ns. Another model's turn leaves the caches cold: a run that begins so early in a turn is not kept, unless all runs take
 * longer.
 */
static const uint64_t TURN_SETTLE = 10000000;

static const uint64_t CLOCK_INTERVAL = 200000000; /* ns between two samples of the device's clocks */

/* A lane is a session with its samples. Several lanes run side by side, each in a thread. */
struct lane {
	struct bench *b;
	struct session *session;
	const struct tensor **out;
	struct samples time, start, delay, cpu;
	size_t had; /* samples before this loop */
	struct diag diag;
	int rc;
	bool first; /* this lane also reports progress, samples memory, and runs the reference workloads */
};

_Static_assert((int)RECORD_REFERENCES == (int)REFERENCE_KINDS,
	       "a record has room for each reference workload");

struct bench {
	const struct profile_job *job;
	struct record *r;
	struct diag *d;
	struct arena scratch;
	uint64_t start;
	struct input_set **inputs;     /* indexed by point */
	struct input_request *request; /* from which the inputs of each point were planned */
	size_t npoints, point;
	struct lane lane[MAX_LANES];
	size_t nlanes;
	struct segment_report plan; /* of the first point */
	struct node_times *nodes;
	struct reference_work *reference;
	struct samples reference_times[REFERENCE_KINDS], reference_waits[REFERENCE_KINDS];
	struct timeline timeline;
	struct samples clock[6];  /* as in struct record_clocks */
	struct core_waits *waits; /* NULL unless the job is for a gate and has one lane */
	size_t nundisturbed;	  /* undisturbed runs of this loop, after the settle time */
	uint64_t last_report;
	_Atomic bool stop;
	bool stopped;
	uint64_t shortest;	  /* ns of the shortest run of the point's first session */
	struct samples turn_mean; /* of the point, if its job takes turns */
	double span;		  /* of the point's loops, as in struct record_point */
	double joules,
		seconds; /* of all loops: what the processors took, -1 if not known, and their time */
	/* of the loop that is running */
	/* clock_ns at which the loop began, and at which its duration is over (0 without a duration) */
	uint64_t begin, end;
	uint64_t settled;   /* clock_ns before which runs are not kept; 0 to keep all */
	size_t most;	    /* runs of each lane, 0 if the duration decides */
	double base, share; /* progress before this point, and the point's share of the progress */
	double loop; /* the loop's share of the point's progress; observed runs are the rest */
};

static struct runtime *runtime_of(const struct bench *b)
{
	return b->lane[0].session ? session_runtime(b->lane[0].session) : NULL;
}

static void end_phase(struct bench *b, const char *name, uint64_t ns)
{
	timeline_phase(&b->timeline, runtime_of(b), name, ns);
}

/* ---- progress */

static bool report_progress(struct bench *b, uint64_t now, double done, const char *what)
{
	if (b->stopped)
		return true;
	if (now - b->last_report < POLL_INTERVAL)
		return false;
	b->last_report = now;
	double all = b->base + b->share * fmin(fmax(done, 0), 1);
	if (b->job->poll && b->job->poll(b->job->arg, all, what)) {
		b->stopped = true;
		atomic_store(&b->stop, true);
	}
	return b->stopped;
}

/* ---- runs */

/* Returns the ns since `start`, and at least 1 even if the clock has not moved, so that rates stay finite. */
static uint64_t elapsed_since(uint64_t start)
{
	uint64_t ns = clock_ns() - start;

	return ns ? ns : 1;
}

static int run_once(struct lane *l, uint64_t *start, uint64_t *ns)
{
	struct bench *b = l->b;
	const struct tensor *const *in = input_tensors(b->inputs[b->point]);

	*start = clock_ns();
	int rc = session_run(l->session, in, l->out, &l->diag);
	*ns = elapsed_since(*start);
	if (l->first && *ns < b->shortest)
		b->shortest = *ns;
	return rc;
}

/*
 * Adds waits of `missed` seconds, which ended at `begin` when a run began, to the earlier runs during which they
 * happened.
 */
static void assign_missed_waits(struct lane *l, double begin, double missed)
{
	for (size_t k = missed > 0 ? l->time.n : 0; k-- > 0;) {
		double end = l->start.v[k] + l->time.v[k], part = end - (begin - missed);
		if (part <= 0)
			break;
		l->delay.v[k] = fmax(l->delay.v[k], fmin(part, l->time.v[k]));
	}
}

/* Measures each reference workload, then runs the model once so that the caches hold its data again. */
static int time_reference_work(struct bench *b)
{
	uint64_t start, ns;
	double missed;

	for (int k = 0; k < REFERENCE_KINDS; k++)
		if (!samples_reserve(&b->reference_times[k], REFERENCE_SHOTS) ||
		    !samples_reserve(&b->reference_waits[k], REFERENCE_SHOTS))
			return FAIL(b->d, E_MEMORY,
				    .message = "no memory for the times of reference work");
	for (int k = 0; k < REFERENCE_KINDS; k++) {
		reference_work_time(b->reference, (enum reference_kind)k); /* warms up */
		for (int i = 0; i < REFERENCE_SHOTS; i++) {
			core_waits_begin(b->waits);
			samples_push(&b->reference_times[k],
				     reference_work_time(b->reference, (enum reference_kind)k));
			samples_push(&b->reference_waits[k], core_waits_end(b->waits, &missed));
		}
	}
	return run_once(&b->lane[0], &start, &ns);
}

/*
 * Returns the progress of a loop that may take PATIENCE times its duration to collect enough samples; `enough` is the
 * share of samples collected.
 */
static double extended_progress(double by_time, double enough)
{
	return fmin(by_time, fmax(enough, by_time / PATIENCE));
}

static double loop_progress(const struct bench *b, const struct lane *l, uint64_t now)
{
	double by_runs = b->most ? (double)(l->time.n - l->had) / (double)b->most : 0;
	double by_time =
		b->end > b->begin ? (double)(now - b->begin) / (double)(b->end - b->begin) : 0;

	if (b->waits)
		by_time = extended_progress(by_time, (double)b->nundisturbed / MIN_UNDISTURBED_RUNS);
	return fmax(by_runs, by_time);
}

static bool loop_over(const struct bench *b, const struct lane *l, uint64_t now)
{
	size_t runs = l->time.n - l->had, least = b->job->next_turn ? 1 : MIN_RUNS;

	if (b->most && runs >= b->most)
		return true;
	if (!b->most && l->time.n >= MAX_RUNS / b->nlanes)
		return true; /* the runs take about a microsecond each, and no more of them can be kept */
	if (b->waits && l->first && b->nundisturbed < MIN_UNDISTURBED_RUNS &&
	    now < b->begin + 4 * (b->end - b->begin))
		return false; /* the machine is busy: go on until enough runs can be compared */
	return b->end && now >= b->end && (runs >= least || b->most);
}

/*
 * Returns when to run the reference workloads next. They may take half of the time at most, even if reading /proc is
 * slow.
 */
static uint64_t next_reference_time(uint64_t began)
{
	uint64_t now = clock_ns(), took = now - began;

	return now + (took > REFERENCE_INTERVAL ? took : REFERENCE_INTERVAL);
}

static void measure_lane(struct lane *l)
{
	struct bench *b = l->b;
	uint64_t start = 0, ns = 0, reference_at = 0, now = clock_ns();
	double calm = 0; /* seconds of runs since the last disturbed one */

	while (!l->rc && !atomic_load(&b->stop) && !loop_over(b, l, now)) {
		if (l->first && b->reference && now >= reference_at) {
			uint64_t began = clock_ns();
			l->rc = time_reference_work(b);
			reference_at = next_reference_time(began);
			if (l->rc)
				break;
		}
		core_waits_begin(b->waits);
		double cpu = core_waits_cpu(b->waits);
		l->rc = run_once(l, &start, &ns);
		now = start + ns;
		cpu = core_waits_cpu(b->waits) - cpu;
		double missed, delay = core_waits_end(b->waits, &missed);
		if (l->rc)
			break;
		if (now < b->settled || (start < b->settled && b->most))
			continue;
		assign_missed_waits(l, (double)(start - b->start) * 1e-9, missed);
		bool undisturbed = gate_undisturbed((double)ns * 1e-9, delay);
		if (b->waits) /* waits is set only if there is a single lane, so no other thread changes nundisturbed */
			b->nundisturbed += undisturbed && calm >= GATE_SETTLE_TIME;
		calm = undisturbed ? calm + (double)ns * 1e-9 : 0;
		if (!samples_reserve(&l->delay, 1) || !samples_reserve(&l->time, 1) ||
		    !samples_reserve(&l->start, 1) || !samples_reserve(&l->cpu, 1)) {
			l->rc = FAIL(&l->diag, E_MEMORY, .message = "too many runs to keep");
			break;
		}
		samples_push(&l->delay, delay);
		samples_push(&l->cpu, cpu);
		samples_push(&l->time, (double)ns * 1e-9);
		samples_push(&l->start, (double)(start - b->start) * 1e-9);
		if (l->first) {
			/* always take the first and the last sample, which tell how much memory the runs added */
			bool always = l->time.n == 1 || loop_over(b, l, now);
			timeline_sample(&b->timeline, runtime_of(b), now, (double)l->time.n, always);
			report_progress(b, now, b->loop * loop_progress(b, l, now), "measure");
		}
	}
	if (l->rc)
		atomic_store(&b->stop, true);
}

static void *lane_thread(void *arg)
{
	measure_lane(arg);
	return NULL;
}

static void measure_lanes(struct bench *b)
{
	pthread_t thread[MAX_LANES];
	size_t started = 1;

	for (; started < b->nlanes; started++)
		if (pthread_create(&thread[started], NULL, lane_thread, &b->lane[started])) {
			b->lane[0].rc = FAIL(&b->lane[0].diag, E_MEMORY,
					     .message = "a thread cannot be started");
			break;
		}
	measure_lane(&b->lane[0]);
	/*
	 * the other lanes end by their own number of runs, or together with the first lane when the duration is over
	 */
	if (!b->most)
		atomic_store(&b->stop, true);
	for (size_t i = 1; i < started; i++)
		pthread_join(thread[i], NULL);
}

/*
 * Moves the lanes' findings to the job's diag. A finding that every run repeats is moved once, and only the first
 * error that ended a lane is moved.
 */
static int collect_findings(struct bench *b)
{
	int rc = 0;

	for (size_t i = 0; i < b->nlanes; i++) {
		struct lane *l = &b->lane[i];
		const struct finding *first = l->diag.first;
		bool failed = l->rc && !rc;
		arena_take(&b->d->arena, &l->diag.arena);
		for (const struct finding *f = first; f; f = f->next)
			if (f->severity == SEV_ERROR ? failed : !diag_find(b->d, f))
				diag_add(b->d, f);
		l->diag = (struct diag){0};
		rc = rc ? rc : l->rc;
	}
	return rc;
}

/* ---- a device's clocks */

static struct clock_watch *begin_clock_watch(struct bench *b)
{
	const struct runtime *rt = session_runtime(b->lane[0].session);

	return rt->backend->clocks ? rt->backend->clocks->begin(rt->device, CLOCK_INTERVAL) : NULL;
}

static void end_clock_watch(struct bench *b, struct clock_watch *w)
{
	struct clock_limits limits = {0};
	struct record_clocks *c = &b->r->clocks;
	size_t n;

	if (!w)
		return;
	const struct runtime *rt = session_runtime(b->lane[0].session);
	struct clock_sample *v = rt->backend->clocks->end(w, &n, &limits);

	for (size_t i = 0; i < n; i++) {
		const double x[6] = {(double)(v[i].at - b->start) * 1e-9,
				     v[i].sm,
				     v[i].memory,
				     v[i].celsius,
				     v[i].watts,
				     (double)v[i].reasons};
		samples_push_row(b->clock, x, 6);
	}
	if (n) {
		c->sm_most = limits.sm;
		c->memory_most = limits.memory;
		c->watts_most = limits.watts;
	}
	free(v);
}

/* ---- one point */

static int warm_up(struct bench *b)
{
	const struct profile_job *job = b->job;
	uint64_t start, ns, begin = clock_ns(), now = begin;

	for (int64_t k = 0; !b->stopped; k++) {
		bool more = k < job->warm_runs || (double)(now - begin) * 1e-9 < job->warm_time;
		if (!more)
			break;
		for (size_t i = 0; i < b->nlanes; i++) {
			b->lane[i].rc = run_once(&b->lane[i], &start, &ns);
			if (b->lane[i].rc)
				return collect_findings(b);
			now = start + ns;
		}
		report_progress(b, now, 0, "warm up");
	}
	return 0;
}

/* Opens the other sessions if several run side by side, and runs each of them once. */
static int open_lanes(struct bench *b)
{
	uint64_t start, ns, begin = clock_ns();
	const struct graph *g = session_model(b->lane[0].session)->graph;

	for (size_t i = 1; i < (size_t)b->job->sessions && i < MAX_LANES; i++) {
		struct lane *l = &b->lane[i];
		l->b = b;
		l->session = session_open(b->job->path, &b->job->config, b->d);
		if (!l->session)
			return b->d->last ? -(int)b->d->last->code : -E_INTERNAL;
		l->out = arena_new_n(&b->scratch, const struct tensor *, g->nout + 1);
		b->nlanes = i + 1;
		l->rc = run_once(l, &start, &ns);
		if (l->rc)
			return collect_findings(b);
	}
	if (b->job->sessions > 1)
		end_phase(b, "other sessions", clock_ns() - begin);
	return 0;
}

static void keep_planned_sizes(struct bench *b, struct record_point *p,
			       const struct segment_report *plan)
{
	struct runtime *rt = session_runtime(b->lane[0].session);
	bool device = rt->backend != rt->cpu;

	p->slab = (double)(device ? plan->host_bytes : plan->slab_bytes);
	p->device_slab = device ? (double)plan->slab_bytes : 0;
	p->values = (double)plan->value_bytes;
}

static void fill_identity(struct bench *b)
{
	struct identity *id = &b->r->id;
	struct device_description on;
	struct runtime *rt = session_runtime(b->lane[0].session);
	static const char *const levels[] = {"none", "basic", "full"}, *const syncs[] = {"async",
											 "node",
											 "launch"};
	const struct run_config *c = &b->job->config;

	id->device = arena_str(&b->r->arena, session_device(b->lane[0].session));
	id->precision = precision_names[c->precision];
	id->optimize = levels[c->optimize];
	id->sync = syncs[c->sync];
	id->threads = pool_threads();
	id->cores = sysconf(_SC_NPROCESSORS_ONLN);
	id->sessions = b->job->sessions;
	id->memory_plan = c->memory_plan;
	id->arena = c->arena;
	rt->backend->describe(rt->device, &on, &b->r->arena);
	id->device_name = on.name;
	id->driver = on.driver;
	id->libraries = on.libraries;
}

/* Fails if the baseline is of another measurement. */
static int check_expected(struct bench *b)
{
	const struct profile_job *job = b->job;

	fill_identity(b);
	const char *differs = job->expect ? gate_differs(job->expect, &b->r->id, &b->r->arena) : NULL;
	if (!differs)
		return 0;
	return FAIL(
		b->d, E_BASELINE_FILE, .slot = fmt(b->d, "%s", job->expected_by),
		.message = fmt(b->d, "the baseline is of another measurement: %s", differs),
		.hint = str_starts(differs, "model: ") && !strchr(differs, ';')
				? "a file of the same name is compared as a new version of the model; --force compares this one all the same"
				: "save one anew with --save-baseline, or compare all the same with --force");
}

/* Returns the inputs of the first point as text, such as "x f32 [1,3,224,224], mask bool [1,128]". */
static const char *inputs_text(struct bench *b)
{
	struct str s = {.arena = &b->r->arena};

	for (uint32_t i = 0; i < input_count(b->inputs[0]); i++) {
		const struct input_info *in = input_info(b->inputs[0], i);
		str_addf(&s, "%s%s %s", i ? ", " : "", in->name, type_str(&b->scratch, in->type));
		if (in->type.kind == V_TENSOR)
			str_addf(&s, " %s", shape_str(&b->scratch, &in->shape, NULL));
	}
	return str_get(&s);
}

/* Plans the inputs of later points anew, with the sizes that were found for this point. */
static int adopt_sizes(struct bench *b, const struct input_request *found)
{
	const struct texts *had = &b->request[b->point].dim, *has = &found->dim;

	for (size_t k = b->point + 1; k < b->npoints; k++) {
		struct texts *dim = &b->request[k].dim;
		struct text *v = arena_new_n(&b->scratch, struct text, (size_t)(dim->n + has->n) + 1);
		int64_t n = 0;
		for (int64_t i = 0; i < dim->n; i++)
			v[n++] = dim->v[i];
		for (int64_t i = had->n; i < has->n; i++)
			v[n++] = has->v[i];
		*dim = (struct texts){v, n};
		input_free(b->inputs[k]);
		b->inputs[k] = input_plan(session_model(b->lane[0].session), &b->request[k], b->d);
		if (!b->inputs[k])
			return b->d->last ? -(int)b->d->last->code : -E_INTERNAL;
	}
	return 0;
}

static int run_with_sizes(void *lane, const struct input_set *inputs, struct diag *d)
{
	struct lane *l = lane;

	return session_run(l->session, input_tensors(inputs), l->out, d);
}

/* After a plan or run failed with the findings `why`: searches sizes that nobody gave, and plans the point's run with them. */
static int replace_sizes(struct bench *b, const struct diag *why, struct segment_report *plan)
{
	struct lane *l = &b->lane[0];
	const struct input_request *found;
	struct input_set *other =
		recover_sizes(l->session, &b->request[b->point], b->inputs[b->point],
			      run_with_sizes, l, why, &b->scratch, &found, b->d);

	if (!other)
		return b->d->last ? -(int)b->d->last->code : -E_INTERNAL;
	input_free(b->inputs[b->point]);
	b->inputs[b->point] = other;
	if (!b->point)
		b->r->id.inputs = inputs_text(b);
	int rc = session_prepare(l->session, input_tensors(other), plan, b->d);
	return rc ? rc : adopt_sizes(b, found);
}

/* Plans the point's run. If sizes that nobody gave do not fit the model, others are searched. */
static int prepare_point(struct bench *b, struct segment_report *plan)
{
	struct diag why = {0};
	int rc = session_prepare(b->lane[0].session, input_tensors(b->inputs[b->point]), plan, &why);

	if (rc)
		rc = replace_sizes(b, &why, plan);
	else
		diag_add_grouped(b->d, &why);
	diag_free(&why);
	return rc;
}

/* Runs the point for the first time. Shapes inside the bodies of If and Loop are known only then, and may not fit either. */
static int run_first(struct bench *b, struct record_point *p, uint64_t *ns)
{
	struct lane *l = &b->lane[0];
	uint64_t start, begin = clock_ns();

	l->rc = run_once(l, &start, ns);
	if (!l->rc || !sizes_may_help(&l->diag))
		return l->rc;
	struct diag why = l->diag;
	struct segment_report plan = {0};
	l->diag = (struct diag){0};
	session_observe(l->session, NULL);
	l->rc = replace_sizes(b, &why, &plan);
	diag_free(&why);
	if (l->rc)
		return l->rc;
	p->prepare += (double)elapsed_since(begin) * 1e-9;
	keep_planned_sizes(b, p, &plan);
	if (b->point)
		return l->rc = run_once(l, &start, ns);
	b->plan = plan;
	if (b->nodes) {
		l->rc = node_times_begin(b->nodes, b->d);
		session_observe(l->session, node_times_observer(b->nodes));
	}
	return l->rc = l->rc ? l->rc : run_once(l, &start, ns);
}

static int prepare_and_run_first(struct bench *b, struct record_point *p)
{
	struct lane *l = &b->lane[0];
	struct segment_report plan = {0};
	uint64_t begin = clock_ns(), ns;
	int rc = input_read(b->inputs[b->point], b->d);

	if (!rc && !b->point)
		end_phase(b, "inputs", clock_ns() - begin);
	begin = clock_ns();
	if (!rc)
		rc = prepare_point(b, &plan);
	if (rc)
		return rc;
	p->prepare = (double)elapsed_since(begin) * 1e-9;
	keep_planned_sizes(b, p, &plan);
	if (!b->point) {
		b->plan = plan;
		end_phase(b, "prepare", clock_ns() - begin);
		rc = check_expected(b);
		if (rc)
			return rc;
		if (b->job->observed) {
			b->nodes = node_times_new(l->session, (size_t)b->job->observed,
						  b->job->trace != NULL, b->d);
			if (!b->nodes)
				return -E_MEMORY;
			node_times_watch_memory(b->nodes, true);
			rc = node_times_begin(b->nodes, b->d);
			session_observe(l->session, node_times_observer(b->nodes));
		}
	}
	l->rc = rc ? rc : run_first(b, p, &ns);
	if (b->nodes) {
		session_observe(l->session, NULL);
		node_times_watch_memory(b->nodes, false);
	}
	if (l->rc)
		return rc ? rc : collect_findings(b);
	p->first = (double)ns * 1e-9;
	if (!b->point) {
		end_phase(b, "first run", ns);
		warn_of_odd_outputs(l->session, l->out, b->d);
	}
	return 0;
}

/* Begins a loop: the whole measurement of a point, or one turn. */
static void set_loop_limits(struct bench *b)
{
	const struct profile_job *job = b->job;
	size_t parts = (b->nlanes ? b->nlanes : 1) * (job->next_turn ? (size_t)job->turns : 1);
	double duration = job->duration / (job->next_turn ? (double)job->turns : 1);

	b->begin = clock_ns();
	b->settled = job->next_turn && b->shortest < TURN_SETTLE ? b->begin + TURN_SETTLE : 0;
	uint64_t from = b->settled ? b->settled : b->begin;
	b->end = duration > 0 ? from + (uint64_t)(duration * 1e9) : 0;
	b->most = job->iterations > 0 ? ((size_t)job->iterations + parts - 1) / parts : 0;
	for (size_t i = 0; i < b->nlanes; i++)
		b->lane[i].had = b->lane[i].time.n;
	atomic_store(&b->stop, false);
}

/*
 * Returns the mean time of a run in the turn that is over. If the turn had an end in time, the runs at its beginning and end count with
 * the parts that lie within it. Counted as whole runs they would favour slow models: a run that was held up for long
 * is more likely than others to be the one that is under way at a given time.
 */
static double turn_mean(const struct bench *b)
{
	double begin = (double)((b->settled ? b->settled : b->begin) - b->start) * 1e-9;
	double end = b->end ? (double)(b->end - b->start) * 1e-9 : INFINITY, runs = 0, sum = 0;

	for (size_t i = 0; i < b->nlanes; i++)
		for (size_t k = b->lane[i].had; k < b->lane[i].time.n; k++) {
			double from = b->lane[i].start.v[k], time = b->lane[i].time.v[k];
			/* a turn whose first run begins late holds that run alone, as a whole */
			bool late = k == b->lane[i].had && from >= end;
			double within = late ? time : fmin(from + time, end) - fmax(from, begin);
			if (within > 0) {
				sum += within;
				runs += within / time;
			}
		}
	return sum / runs;
}

/* Adds the loop's runs to the span of the point, and keeps their mean if the loop was a turn. */
static int end_loop(struct bench *b)
{
	double sum = 0, first = INFINITY, last = 0;

	for (size_t i = 0; i < b->nlanes; i++)
		for (size_t k = b->lane[i].had; k < b->lane[i].time.n; k++) {
			const struct lane *l = &b->lane[i];
			sum += l->time.v[k];
			first = fmin(first, l->start.v[k]);
			last = fmax(last, l->start.v[k] + l->time.v[k]);
		}
	if (!(sum > 0))
		return 0;
	b->span += b->nlanes > 1 ? last - first : sum;
	if (!b->job->next_turn)
		return 0;
	if (!samples_reserve(&b->turn_mean, 1))
		return FAIL(b->d, E_MEMORY, .message = "no memory for the times of turns");
	samples_push(&b->turn_mean, turn_mean(b));
	return 0;
}

/* Adds what the processors took during a loop; their counter may have begun anew once. */
static void add_energy(struct bench *b, double before, double after, double range)
{
	bool known = before >= 0 && after >= 0 && b->joules >= 0;

	b->joules = !known ? -1
			   : b->joules + (after < before ? after + range - before : after - before);
	b->seconds += (double)(clock_ns() - b->begin) * 1e-9;
}

static int measure_loop(struct bench *b)
{
	double range, joules = proc_energy(&range);
	struct clock_watch *watch = begin_clock_watch(b);
	uint64_t waited = proc_waited();

	set_loop_limits(b);
	measure_lanes(b);
	b->r->point[b->point].waited += (double)(proc_waited() - waited) * 1e-9;
	end_clock_watch(b, watch);
	add_energy(b, joules, proc_energy(&range), range);
	int rc = collect_findings(b);
	return rc ? rc : end_loop(b);
}

/* Measures a point at one go, or in turns until there is no further one. */
static int measure_loops(struct bench *b)
{
	const struct profile_job *job = b->job;
	int rc = 0;

	if (!job->next_turn)
		return b->stopped ? 0 : measure_loop(b);
	while (!rc && !b->stopped && job->next_turn(job->arg))
		rc = measure_loop(b);
	b->stopped |= job->poll && job->poll(job->arg, 1, "measure");
	return rc;
}

/* Merges the lanes' samples in the order in which the runs began. */
static void merge_samples(struct bench *b, struct record_point *p)
{
	size_t n = 0, at[MAX_LANES] = {0};

	for (size_t i = 0; i < b->nlanes; i++)
		n += b->lane[i].time.n;
	double *time = arena_new_n(&b->r->arena, double, n + 1);
	double *start = arena_new_n(&b->r->arena, double, n + 1);
	for (size_t k = 0; k < n; k++) {
		size_t best = b->nlanes;
		for (size_t i = 0; i < b->nlanes; i++)
			if (at[i] < b->lane[i].time.n &&
			    (best == b->nlanes ||
			     b->lane[i].start.v[at[i]] < b->lane[best].start.v[at[best]]))
				best = i;
		time[k] = b->lane[best].time.v[at[best]];
		start[k] = b->lane[best].start.v[at[best]++];
	}
	p->time = time;
	p->start = start;
	if (b->waits) { /* there is only one lane, so its samples are in the same order */
		p->delay = arena_dup(&b->r->arena, b->lane[0].delay.v, n * sizeof(double));
		p->cpu = arena_dup(&b->r->arena, b->lane[0].cpu.v, n * sizeof(double));
	}
	p->n = n;
	p->span = b->span;
	p->turn_mean = samples_kept(&b->r->arena, &b->turn_mean);
	p->nturns = b->turn_mean.n;
}

/*
 * Returns the size of the first input's first dimension if the model leaves that dimension free (a batch), otherwise
 * 1.
 */
static double items_per_run(const struct bench *b)
{
	const struct graph *g = session_model(b->lane[0].session)->graph;
	const struct input_info *in = g->nin ? input_info(b->inputs[b->point], 0) : NULL;
	const struct shape *want = g->nin ? &g->value[g->in[0]]->info.shape : NULL;

	if (!in || in->type.kind != V_TENSOR || want->rank < 1 || want->dim[0] >= 0)
		return 1;
	return in->shape.rank > 0 ? (double)in->shape.dim[0] : 1;
}

/* Makes one observed run. For a gate, the run is only kept if it was undisturbed or if `any` is set. */
static int observe_once(struct bench *b, struct node_times *n, bool any, bool *kept, uint64_t *end)
{
	struct lane *l = &b->lane[0];
	uint64_t start = 0, ns = 0;
	double missed;

	l->rc = node_times_begin(n, b->d);
	core_waits_begin(b->waits);
	if (!l->rc)
		l->rc = run_once(l, &start, &ns);
	double delay = core_waits_end(b->waits, &missed);
	*end = start + ns;
	*kept = any || gate_undisturbed((double)ns * 1e-9, delay);
	if (l->rc)
		return l->rc;
	return l->rc = *kept ? node_times_end(n, start, ns, b->d) : node_times_skip(n, b->d);
}

/* Returns the seconds that observed runs may take. On a busy machine they may take PATIENCE times as long. */
static double max_observing_time(const struct profile_job *job)
{
	return job->duration > 0 ? job->duration / 2 : 3;
}

/* Makes runs in which each step is timed. The first run makes plans and rows, which takes time, and is not kept. */
static int observe_runs(struct bench *b, struct node_times *n, int64_t runs)
{
	struct lane *l = &b->lane[0];
	uint64_t begin = clock_ns(), start, ns, now = begin;
	double most = max_observing_time(b->job);
	bool late = false, kept;

	l->rc = node_times_begin(n, b->d);
	if (!l->rc)
		l->rc = run_once(l, &start, &ns);
	if (!l->rc)
		l->rc = node_times_skip(n, b->d);
	for (int64_t k = 0; !l->rc && k < runs && !b->stopped; k += kept) {
		double passed = (double)(now - begin) * 1e-9;
		if (passed > most && k >= (b->waits ? MIN_UNDISTURBED_RUNS : MIN_RUNS))
			break;
		/* the machine is busy: from now on keep disturbed runs, too */
		late = passed > PATIENCE * most;
		if (late && k >= MIN_RUNS)
			break;
		l->rc = observe_once(b, n, !b->waits || late, &kept, &now);
		timeline_sample(&b->timeline, runtime_of(b), now, -1, false);
		double part = extended_progress(
			passed / most, (double)k / (b->waits ? MIN_UNDISTURBED_RUNS : MIN_RUNS));
		part = fmax(part, (double)(k + kept) / (double)runs);
		report_progress(b, now, b->loop + (1 - b->loop) * fmin(part, 1), "observe");
	}
	return l->rc ? collect_findings(b) : 0;
}

static int observe(struct bench *b, struct node_times *n, int64_t runs)
{
	struct lane *l = &b->lane[0];

	node_times_trace(n, true);
	session_observe(l->session, node_times_observer(n));
	int rc = observe_runs(b, n, runs);
	session_observe(l->session, NULL);
	node_times_trace(n, false);
	return rc;
}

/*
 * Makes the observed runs of a point. Nodes are observed only at the first point of a sweep, but copies depend on the
 * sizes, and are measured at each point.
 */
static int observe_point(struct bench *b, struct record_point *p)
{
	int rc = 0;

	if (b->stopped)
		return 0;
	if (!b->point) {
		rc = b->nodes ? observe(b, b->nodes, b->job->observed) : 0;
		if (b->nodes)
			node_times_copies(b->nodes, &p->copy_in, &p->copy_out);
		return rc;
	}
	if (!b->job->copies || !strcmp(session_device(b->lane[0].session), "cpu"))
		return 0;
	struct node_times *n = node_times_new(b->lane[0].session, COPY_RUNS, false, b->d);
	if (!n)
		return -E_MEMORY;
	rc = observe(b, n, COPY_RUNS);
	node_times_copies(n, &p->copy_in, &p->copy_out);
	node_times_free(n);
	return rc;
}

/* Returns the time of the shortest run, because a single run may have been held up. */
static double shortest_run(const struct lane *l)
{
	double least = INFINITY;

	for (size_t i = 0; i < l->time.n; i++)
		least = fmin(least, l->time.v[i]);
	return least;
}

/* Finds the FLOPs and bytes of a run by one observed run if no other run is observed; skipped for runs above half a second. */
static int measure_work(struct bench *b)
{
	struct lane *l = &b->lane[0];
	uint64_t start, ns;

	if (b->nodes || b->point || b->stopped || shortest_run(l) > 0.5)
		return 0;
	struct node_times *n = node_times_new(l->session, 1, false, b->d);
	if (!n)
		return -E_MEMORY;
	session_observe(l->session, node_times_observer(n));
	l->rc = node_times_begin(n, b->d);
	if (!l->rc)
		l->rc = run_once(l, &start, &ns);
	if (!l->rc)
		l->rc = node_times_end(n, start, ns, b->d);
	session_observe(l->session, NULL);
	node_times_work(n, b->r);
	node_times_free(n);
	return l->rc ? collect_findings(b) : 0;
}

/* Estimates the loop's share of the point's time. The rest of the time goes to observed runs. */
static double loop_share(const struct bench *b, const struct record_point *p)
{
	const struct profile_job *job = b->job;
	double by_runs = job->iterations ? (double)job->iterations * p->first : INFINITY;
	double loop = fmin(job->duration > 0 ? job->duration : INFINITY, by_runs);
	double observing = fmin(max_observing_time(job), (double)job->observed * p->first);

	return b->nodes && !b->point && loop > 0 ? loop / (loop + observing) : 1;
}

/* Prepares what only a gate needs. Called once the pool has its threads and the session its device. */
static void prepare_for_gate(struct bench *b)
{
	if (b->nlanes == 1)
		b->waits = core_waits_new();
	/* reference workloads run on the host's cores, and say nothing about a GPU */
	if (!strcmp(session_device(b->lane[0].session), "cpu"))
		b->reference = reference_work_new();
}

static int measure_point(struct bench *b)
{
	struct record_point *p = &b->r->point[b->point];

	b->shortest = UINT64_MAX;
	int rc = prepare_and_run_first(b, p);

	p->items = rc ? 1 : items_per_run(b);
	if (!rc && !b->point)
		rc = open_lanes(b);
	for (size_t i = 1; !rc && b->point && i < b->nlanes; i++) {
		uint64_t start, ns;
		b->lane[i].rc = run_once(&b->lane[i], &start, &ns);
		rc = b->lane[i].rc ? collect_findings(b) : 0;
	}
	if (!rc)
		rc = warm_up(b);
	if (rc)
		return rc;
	for (size_t i = 0; i < b->nlanes; i++)
		b->lane[i].time.n = b->lane[i].start.n = b->lane[i].delay.n = b->lane[i].cpu.n = 0;
	b->nundisturbed = b->turn_mean.n = 0;
	b->span = 0;
	b->loop = loop_share(b, p);
	if (b->job->for_gate && !b->point)
		prepare_for_gate(b);
	rc = measure_loops(b);
	merge_samples(b, p);
	if (!rc)
		rc = observe_point(b, p);
	return rc ? rc : measure_work(b);
}

/* ---- the whole measurement */

/* Returns the option that an input's setting comes from. The sizes of a sweep's point come from --shapes-sweep. */
static const char *sweep_origin(const void *request, const char *name, const char *text)
{
	const struct input_request *r = request;
	const char *from = r->origin ? r->origin(r->options, name, text) : NULL;

	return from || strcmp(name, "dim") != 0 ? from : "--shapes-sweep";
}

static int plan_inputs(struct bench *b)
{
	const struct model *m = session_model(b->lane[0].session);
	const struct sweep *s = b->job->sweep;

	b->npoints = s && s->points ? s->points : 1;
	b->inputs = arena_new_n(&b->scratch, struct input_set *, b->npoints);
	b->request = arena_new_n(&b->scratch, struct input_request, b->npoints);
	for (size_t k = 0; k < b->npoints; k++) {
		struct input_request *r = &b->request[k];
		*r = *b->job->request;
		if (s && s->points) {
			r->origin = sweep_origin;
			r->options = b->job->request;
			r->dim = sweep_point(s, k, &b->job->request->dim, &b->scratch);
		}
		b->inputs[k] = input_plan(m, r, k ? NULL : b->d);
		/*
		 * warnings of later points would repeat those of the first point, but their errors must be reported
		 */
		if (!b->inputs[k] && k)
			b->inputs[k] = input_plan(m, r, b->d);
		if (!b->inputs[k])
			return b->d->last ? -(int)b->d->last->code : -E_INTERNAL;
	}
	b->r->id.inputs = inputs_text(b);
	return 0;
}

static void make_points(struct bench *b)
{
	const struct sweep *s = b->job->sweep;
	struct record *r = b->r;

	r->npoints = b->npoints;
	r->point = arena_new_n(&r->arena, struct record_point, b->npoints);
	r->ndims = s && s->points ? s->ndims : 0;
	const char **dim = arena_new_n(&r->arena, const char *, r->ndims + 1);
	for (size_t i = 0; i < r->ndims; i++)
		dim[i] = arena_str(&r->arena, s->dim[i].name);
	r->dim = dim;
	for (size_t k = 0; k < b->npoints; k++) {
		double *size = arena_new_n(&r->arena, double, r->ndims + 1);
		for (size_t i = 0; i < r->ndims; i++)
			size[i] = (double)sweep_size(s, k, i);
		r->point[k].size = size;
		r->point[k].label = r->ndims ? sweep_label(s, k, &r->arena) : "";
	}
}

static void keep_series(struct bench *b)
{
	struct record *r = b->r;

	timeline_store(&b->timeline, r);
	struct record_clocks *c = &r->clocks;
	const double **series[] = {&c->at, &c->sm, &c->memory, &c->celsius, &c->watts, &c->reasons};
	for (int k = 0; k < 6; k++)
		*series[k] = samples_kept(&r->arena, &b->clock[k]);
	c->n = b->clock[5].n;
	r->nreference = b->reference_times[0].n;
	for (int k = 0; k < REFERENCE_KINDS; k++) {
		r->reference_time[k] = samples_kept(&r->arena, &b->reference_times[k]);
		r->reference_wait[k] = samples_kept(&r->arena, &b->reference_waits[k]);
	}
}

/* Extends the range of core clocks seen so far by the current clocks, if the system knows them. */
static void read_core_clocks(struct record *r)
{
	for (int core = 0; core < 256; core++) {
		char path[96], text[32] = "";
		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", core);
		FILE *f = fopen(path, "re");
		if (!f)
			return;
		if (fgets(text, sizeof(text), f)) {
			double khz = strtod(text, NULL);
			r->clock_low = r->clock_low > 0 ? fmin(r->clock_low, khz) : khz;
			r->clock_high = fmax(r->clock_high, khz);
		}
		fclose(f);
	}
}

/*
 * Hashes the model's file. The file is read piece by piece: if it were mapped as a whole, it would cause the
 * process's peak of memory. Of external data only the size is part of the hash.
 */
static int hash_model(struct bench *b)
{
	enum { PIECE = 1 << 18 };
	struct identity *id = &b->r->id;
	size_t outside = session_model(b->lane[0].session)->external_bytes, n;
	uint64_t hash = 0;
	struct stat st;

	if (!b->job->hash || stat(b->job->path, &st) || !S_ISREG(st.st_mode))
		return 0; /* a model that came through a pipe cannot be read again */
	FILE *f = fopen(b->job->path, "re");
	unsigned char *piece = malloc(PIECE);
	while (f && piece && (n = fread(piece, 1, PIECE, f)) > 0)
		hash = hash_bytes(piece, n, hash);
	bool failed = !f || !piece || ferror(f);
	free(piece);
	if (f)
		fclose(f);
	if (failed)
		return FAIL(b->d, E_MODEL_OPEN, .message = "the model cannot be read again");
	id->hash = arena_printf(&b->r->arena, "fnv1a:%016" PRIx64, hash);
	if (outside)
		id->hash = arena_printf(&b->r->arena, "%s+%zu", id->hash, outside);
	return 0;
}

static int open_session(struct bench *b)
{
	struct lane *l = &b->lane[0];
	uint64_t begin = clock_ns();

	end_phase(b, "start", 0);
	*l = (struct lane){.b = b, .first = true};
	l->session = session_open(b->job->path, &b->job->config, b->d);
	if (!l->session)
		return b->d->last ? -(int)b->d->last->code : -E_INTERNAL;
	b->nlanes = 1;
	end_phase(b, "load", clock_ns() - begin);
	l->out = arena_new_n(&b->scratch, const struct tensor *,
			     session_model(l->session)->graph->nout + 1);
	return plan_inputs(b);
}

static int measure_all(struct bench *b)
{
	struct proc_faults before, after;
	int rc = 0;

	make_points(b);
	read_core_clocks(b->r);
	proc_faults(0, &before);
	uint64_t begin = clock_ns();
	for (b->point = 0; b->point < b->npoints && !rc && !b->stopped; b->point++) {
		b->base = (double)b->point / (double)b->npoints;
		b->share = 1 / (double)b->npoints;
		rc = measure_point(b);
		if (!rc) {
			input_free(b->inputs[b->point]);
			b->inputs[b->point] = NULL;
			if (!b->point ||
			    b->r->point[b->point].n) /* a point stopped before its first run is left out */
				b->r->npoints = b->point + 1;
		}
	}
	proc_faults(0, &after);
	b->r->watts = b->joules > 0 && b->seconds > 0 ? b->joules / b->seconds : 0;
	read_core_clocks(b->r);
	end_phase(b, "steady state", clock_ns() - begin);
	b->r->faults_minor = (double)(after.minor - before.minor);
	b->r->faults_major = (double)(after.major - before.major);
	b->r->forced = (double)(after.forced - before.forced);
	if (!rc || b->point < 2)
		return rc;
	b->r->failed = b->r->point[b->point - 1].label;
	return 0;
}

static void fill_record(struct bench *b)
{
	struct record *r = b->r;

	keep_series(b);
	fill_identity(b);
	uint64_t weights = 0;
	for (enum mem_purpose p = MEM_WEIGHTS; p <= MEM_PACKED; p++)
		weights += mem_count(MEM_HOST, p).live + mem_count(MEM_DEVICE, p).live;
	for (size_t k = 0; k < r->npoints; k++)
		r->point[k].weights = (double)weights;
	if (b->nodes)
		node_times_record(b->nodes, &b->plan, r);
	if (b->nodes &&
	    b->job->trace) /* a trace that cannot be written is reported; the measurement goes on */
		(void)trace_write(b->job->trace, b->nodes, r, b->start, b->d);
	if (b->job->peak && !b->stopped && !r->failed) {
		struct peak p = peak_measure(session_runtime(b->lane[0].session));
		r->peak_flops = p.flops;
		r->peak_bytes = p.bytes;
	}
	r->stopped = b->stopped;
}

static void bench_free(struct bench *b)
{
	node_times_free(b->nodes);
	reference_work_free(b->reference);
	core_waits_free(b->waits);
	for (size_t k = 0; b->inputs && k < b->npoints; k++)
		input_free(b->inputs[k]);
	for (size_t i = 0; i < MAX_LANES; i++) {
		session_close(b->lane[i].session);
		free(b->lane[i].time.v);
		free(b->lane[i].start.v);
		free(b->lane[i].delay.v);
		free(b->lane[i].cpu.v);
		diag_free(&b->lane[i].diag);
	}
	for (int k = 0; k < REFERENCE_KINDS; k++) {
		free(b->reference_times[k].v);
		free(b->reference_waits[k].v);
	}
	for (int k = 0; k < 6; k++)
		free(b->clock[k].v);
	timeline_end(&b->timeline);
	arena_free(&b->scratch);
	free(b->turn_mean.v);
	free(b);
}

struct record *profile_measure(const struct profile_job *job, struct diag *d)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct arena a = {0};
	struct record *r = arena_new(&a, struct record);

	r->arena = a;
	r->label = arena_str(&r->arena, job->label ? job->label : "");
	if (!b) {
		FAIL(d, E_MEMORY, .message = NULL);
		record_free(r);
		return NULL;
	}
	*b = (struct bench){.job = job, .r = r, .d = d, .start = clock_ns()};
	timeline_begin(&b->timeline, b->start);
	r->id.model = arena_str(&r->arena, path_base(job->path));
	int rc = open_session(b);
	if (!rc)
		rc = hash_model(b);
	if (!rc)
		rc = measure_all(b);
	if (!rc)
		fill_record(b);
	bench_free(b);
	if (rc) {
		record_free(r);
		return NULL;
	}
	return r;
}
