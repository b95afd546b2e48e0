/* SPDX-License-Identifier: Apache-2.0 */
/* Runs `infer profile`: makes the measurements, warns about them, and gives the verdict against a baseline. */
#include "cmd/profile/decode.h"
#include "cmd/profile/profile.h"

#include "base/str.h"
#include "cmd/options/subcommand.h"
#include "backend/observe.h"
#include "cmd/output/auto_precision.h"
#include "cmd/output/watchdog.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROCESSES = 5, MAX_MEASUREMENTS = 4 };

/* In seconds. Smaller differences come from the clock's resolution or a single cache miss. */
static const double NEGLIGIBLE_TIME = 2e-6;
/* Slow first runs are told if they change the mean by a larger share. */
static const double NEGLIGIBLE_SHARE = 0.01;

static bool on_poll(void *arg, double done, const char *what)
{
	struct profile *p = arg;

	progress_at(&p->progress, p->done + p->part * done, what);
	return watchdog_caught() != E_OK;
}

/* ---- measuring */

/* Returns the number of processes that share the runs. Each process gets at least ten runs. */
static size_t processes_for(const struct profile_job *job)
{
	if (job->iterations && job->iterations < 10 * PROCESSES)
		return job->iterations < 20 ? 1 : (size_t)job->iterations / 10;
	return PROCESSES;
}

/* Adds a job's findings. A finding that several jobs report is added once. */
static void add_findings(struct profile *p, const struct profile_job *job, const struct record *r,
			 const struct diag *own)
{
	struct finding *error = NULL;

	for (const struct finding *f = own->first; f; f = f->next) {
		struct finding of_model = *f;
		/* errors get the labels of all jobs that failed with them */
		if (p->o->noperands > 1 && f->severity != SEV_ERROR && !f->model)
			of_model.model = job->path;
		struct finding *told = diag_find(p->d, &of_model);
		if (!told) {
			(void)diag_add(p->d, &of_model);
			told = p->d->last;
		}
		if (!error && f->severity == SEV_ERROR)
			error = told;
	}
	if (error && (!r || r->failed) && p->nfailed < p->njobs)
		p->failed[p->nfailed++] = (struct profile_failure){
			job->label, r ? arena_str(&p->arena, r->failed) : "", error};
}

/* Measures job k. On error, returns NULL or a record that ends early, with the error in the diag. */
static struct record *measure(struct profile *p, size_t k)
{
	struct profile_job *job = &p->job[k];
	struct diag own = {0};
	struct record *r;

	job->poll = on_poll;
	job->arg = p;
	if (job->for_gate)
		r = profile_rounds(job, processes_for(job), &own);
	else
		r = p->njobs > 1 ? profile_apart(job, &own) : profile_measure(job, &own);
	add_findings(p, job, r, &own);
	diag_free(&own);
	return r;
}

/*
 * Measures a baseline. It is measured twice as long as other records, because many later measurements are compared
 * with it.
 */
static struct record *measure_baseline(struct profile *p)
{
	struct record *r = measure(p, 0), *more;

	if (!r || r->stopped)
		return r;
	p->done = 0.5;
	more = measure(p, 0);
	if (!more) {
		record_free(r);
		return NULL;
	}
	return record_joined(r, more);
}

/* Measures all models and settings in turns. Returns false, with nothing measured, if that is not possible. */
static bool measure_in_turns(struct profile *p)
{
	struct record **r = arena_new_n(&p->arena, struct record *, p->njobs);
	struct diag *own = arena_new_n(&p->arena, struct diag, p->njobs);

	p->part = 1;
	for (size_t k = 0; k < p->njobs; k++) {
		p->job[k].poll = on_poll;
		p->job[k].arg = p;
	}
	if (p->njobs < 2 || p->sweep.points || !profile_in_turns(p->job, p->njobs, r, own))
		return false;
	for (size_t k = 0; k < p->njobs; k++) {
		add_findings(p, &p->job[k], r[k], &own[k]);
		diag_free(&own[k]);
		if (!r[k])
			continue;
		r[k]->label = p->job[k].label; /* the child sends no label */
		p->record[p->nrecords++] = r[k];
	}
	return true;
}

static int measure_all(struct profile *p)
{
	size_t first = measure_in_turns(p) ? p->njobs : 0;

	for (size_t k = first; k < p->njobs && watchdog_caught() == E_OK; k++) {
		p->part = 1 / (double)p->njobs;
		p->done = (double)k * p->part;
		bool twice = p->o->save_baseline && !p->o->baseline;
		if (twice)
			p->part = 0.5;
		struct record *r = twice ? measure_baseline(p) : measure(p, k);
		if (!r)
			continue;
		/* the child sends no label */
		r->label = p->job[k].label;
		p->record[p->nrecords++] = r;
	}
	if (p->nrecords || watchdog_caught() != E_OK)
		return 0;
	return p->nfailed ? -(int)p->failed[0].finding->code : -E_INTERNAL;
}

/* ---- what could not be measured */

/*
 * Adds to the finding of each failure the labels of the jobs that failed with it, such as "threads=2 batch=64",
 * unless all jobs failed with it.
 */
static void name_failed_jobs(struct profile *p)
{
	for (size_t i = 0; i < p->nfailed; i++) {
		size_t n = 0;
		const char *whose = failure_labels(p, i, &n, &p->d->arena);
		struct finding *f = p->failed[i].finding;
		/* a file that cannot be opened is named by the message */
		bool named = whose && f->message && str_starts(f->message, whose) &&
			     f->message[strlen(whose)] == ':';
		if (whose && !named && (p->nrecords || n < p->njobs))
			f->slot = f->slot ? fmt(p->d, "%s: %s", whose, f->slot) : whose;
	}
}

/* ---- warnings about noise */

/* Adds a warning about the measurement of one point to `own`, with the point as its slot. */
static void add_warning(struct diag *own, const struct record *r, const struct record_point *q,
			const char *message, const char *hint)
{
	const char *what = fmt(own, "%s%s%s", r->label, *r->label && *q->label ? " " : "", q->label);

	WARN(own, E_UNSTEADY, .slot = *what ? what : NULL, .message = message, .hint = hint);
}

static void warn_of_slow_first_runs(struct diag *own, const struct record *r,
				    const struct record_point *q, const struct stats *s)
{
	size_t cold = 0;
	double excess = 0; /* seconds */

	while (cold < q->n && cold < 20 &&
	       q->time[cold] > s->median + fmax(10 * fmax(s->mad, s->median * 0.01), NEGLIGIBLE_TIME)) {
		excess += q->time[cold] - s->median;
		cold++;
	}
	if (excess > NEGLIGIBLE_SHARE * s->median * (double)q->n && !q->rounds)
		add_warning(
			own, r, q,
			cold == 1
				? fmt(own, "the first run was slower than the others (%s against %s)",
				      str_seconds(&own->arena, q->time[0]),
				      str_seconds(&own->arena, s->median))
				: fmt(own,
				      "the first %zu runs were slower than the others (%s against %s)",
				      cold, str_seconds(&own->arena, q->time[0]),
				      str_seconds(&own->arena, s->median)),
			"warm up longer: --warmup 1s");
	/* up to 2 % of outliers show only in the maximum and the highest percentile */
	if (s->outliers > cold && s->outliers - cold > q->n / 50 &&
	    s->max - s->median > NEGLIGIBLE_TIME)
		add_warning(
			own, r, q,
			fmt(own, "%zu of %zu runs are outliers (up to %s)", s->outliers - cold,
			    q->n, str_seconds(&own->arena, s->max)),
			"other programs use the machine, or its clock changes; compare percentiles rather than means");
}

static void warn_of_drift_and_spread(struct diag *own, const struct record *r,
				     const struct record_point *q, const struct stats *s)
{
	struct trend t = stats_trend(NULL, q->time, q->n, 0.99);
	double drift = t.slope.value * (double)q->n / s->median;

	if (!q->rounds && q->n >= 20 && t.probability < 0.001 && fabs(drift) > 0.05 &&
	    fabs(drift) * s->median > NEGLIGIBLE_TIME)
		add_warning(
			own, r, q,
			fmt(own, "the latency drifted by %+.0f %% while it was measured", drift * 100),
			"the clock, the temperature or the load changed: measure longer, or lock the clock");
	else if (s->mad > 0.1 * s->median && s->mad > NEGLIGIBLE_TIME)
		add_warning(own, r, q,
			    fmt(own, "half of the runs are more than %.0f %% away from the median",
				s->mad / 1.4826 / s->median * 100),
			    "the machine is busy, or its clock changes");
	if (r->clock_low > 0 && r->clock_high > 1.2 * r->clock_low)
		add_warning(own, r, q,
			    fmt(own, "the cores' clocks were between %.2f and %.2f GHz",
				r->clock_low / 1e6, r->clock_high / 1e6),
			    "the CPU frequency governor \"performance\" keeps them constant");
}

/* Warns if the GPU lowered or changed its clock. */
static void warn_of_gpu_clocks(struct profile *p, struct diag *own, const struct record *r)
{
	const struct record_clocks *c = &r->clocks;
	const struct record_point none = {.label = ""};
	double low = INFINITY, high = 0;
	uint64_t reasons = 0;
	size_t lowered = 0, busy = 0;

	for (size_t k = 0; k < c->n; k++) {
		uint64_t why = (uint64_t)c->reasons[k];
		if (why & CLOCK_IDLE)
			continue;
		busy++;
		low = fmin(low, c->sm[k]);
		high = fmax(high, c->sm[k]);
		lowered += clock_reasons(why, &p->arena) != NULL;
		reasons |= why;
	}
	if (lowered)
		add_warning(
			own, r, &none,
			fmt(own, "the GPU lowered its clock in %zu of %zu samples: %s", lowered,
			    busy, clock_reasons(reasons, &own->arena)),
			"nvidia-smi -q -d PERFORMANCE gives details; do not compare these times with others");
	else if (busy > 2 && high > 1.1 * low)
		add_warning(own, r, &none,
			    fmt(own, "the GPU's clock was between %.0f and %.0f MHz", low, high),
			    "nvidia-smi --lock-gpu-clocks keeps it constant");
}

/* Makes one warning of those about the points of a sweep, a row for each. */
static void join_warnings(const struct profile *p, const struct diag *own, size_t points)
{
	enum { SHOWN = 8 };
	struct diag_row *row = arena_new_n(&p->d->arena, struct diag_row, SHOWN + 2);
	size_t n = 0, unsteady = 0;
	const char *last = NULL;

	for (const struct finding *f = own->first; f; f = f->next) {
		const char *slot = f->slot ? f->slot : "all";
		unsteady += !last || strcmp(last, slot) != 0;
		last = slot;
		if (n < SHOWN)
			row[n++] = (struct diag_row){slot, f->message};
	}
	if (own->warnings > n)
		row[n++] = (struct diag_row){"and", fmt(p->d, "%zu more", own->warnings - SHOWN)};
	row[n++] = (struct diag_row){"cure", own->first->hint};
	WARN(p->d, E_UNSTEADY,
	     .message = fmt(p->d, "%zu of %zu measurements are unsteady", unsteady, points),
	     .rows = row, .nrows = n);
}

static void warn_of_noise(struct profile *p)
{
	struct diag own = {0};
	size_t points = 0;

	for (size_t i = 0; i < p->nrecords; i++)
		warn_of_gpu_clocks(p, &own, p->record[i]);
	for (size_t i = 0; i < p->nrecords; i++)
		for (size_t k = 0; k < p->record[i]->npoints; k++, points++) {
			const struct record_point *q = &p->record[i]->point[k];
			struct stats s = stats_of(q->time, q->n);
			if (q->n < 5 || p->record[i]->id.sessions > 1)
				continue;
			warn_of_slow_first_runs(&own, p->record[i], q, &s);
			warn_of_drift_and_spread(&own, p->record[i], q, &s);
		}
	if (points > 1 && own.warnings > 1)
		join_warnings(p, &own, points);
	else
		diag_add_grouped(p->d, &own);
	diag_free(&own);
}

/* --streams is refused with --device cpu; if `auto` chose the CPU, a warning has to do. */
static void warn_of_streams(struct profile *p)
{
	bool asked = p->o->streams > 1 || p->o->streams_axis.n;

	for (size_t i = 0; asked && i < p->nrecords; i++)
		if (!strcmp(p->record[i]->id.device, "cpu")) {
			WARN(p->d, E_OPTION, .slot = "--streams",
			     .message = "the CPU has no streams: sessions ran side by side",
			     .hint = "--device cuda asks for a GPU, --sessions N for what was done");
			return;
		}
}

/* ---- the verdict */

/*
 * Tells of differences between the two measurements. Others than a new version of the model are there only with --force:
 * otherwise a baseline that differs ends the command before the first run.
 */
static void warn_of_differences(struct profile *p)
{
	const char *differs = gate_differs(&p->baseline->id, &p->record[0]->id, &p->d->arena);

	if (differs)
		WARN(p->d, E_BASELINE_FILE, .slot = p->o->baseline, .message = differs,
		     .hint = "compared nevertheless because of --force");
	if (gate_new_version(&p->baseline->id, &p->record[0]->id))
		NOTE(p->d, E_BASELINE_FILE, .slot = p->o->baseline,
		     .message = "the model's file has changed since: its new version is compared with the old one",
		     .hint = "if the change is meant to stay, save its baseline with --save-baseline");
}

/*
 * Whether to measure once more; all samples are then compared together. An alarm has to be confirmed once, more
 * samples may decide an undecided result, and an alarm without a node that stands out is measured as often as
 * possible, because the machine may still be the cause. `measurements` is the number made so far.
 */
static bool measure_again(const struct profile *p, int measurements)
{
	const struct gate_verdict *v = &p->verdict;
	bool no_node = v->slower && !v->by_work && !(v->nodes_ratio.low > 1 + p->limits.latency);

	return p->gate &&
	       (v->undecided || no_node || ((v->slower || v->bigger) && measurements == 1));
}

static int compare_with_baseline(struct profile *p)
{
	p->verdict = gate_compare(p->baseline, p->record[0], &p->limits, &p->arena);
	p->compared = true;
	for (int k = 1; k < MAX_MEASUREMENTS && watchdog_caught() == E_OK; k++) {
		if (!measure_again(p, k))
			break;
		progress_clear(&p->progress);
		progress_begin(&p->progress, p->o);
		p->done = 0;
		p->part = 1;
		struct record *more = measure(p, 0);
		if (!more)
			return p->d->last ? -(int)p->d->last->code : -E_INTERNAL;
		p->record[0] = record_joined(p->record[0], more);
		p->verdict = gate_compare(p->baseline, p->record[0], &p->limits, &p->arena);
	}
	return 0;
}

static const char *then_and_now(const struct gate_node *n, struct diag *d)
{
	if (!(n->before > 0))
		return fmt(d, "not in the baseline, %s now", str_seconds(&d->arena, n->now));
	return fmt(d, "%s then, %s now (%+.0f %%)", str_seconds(&d->arena, n->before),
		   str_seconds(&d->arena, n->now), (n->now / n->before - 1) * 100);
}

static void report_slower(struct profile *p)
{
	struct diag *d = p->d;
	const struct gate_verdict *v = &p->verdict;
	struct diag_row *row = arena_new_n(&d->arena, struct diag_row, GATE_NODES + 3);
	size_t n = 0;

	row[n++] = (struct diag_row){"latency", gate_sentence(p, &d->arena)};
	/* a model that grew as a whole has no such nodes */
	if (v->nodes_ratio.low > 1)
		row[n++] = (struct diag_row){
			"nodes",
			fmt(d, "those that grew more than the others make a run %.3f times as long (95 %% interval %.3f to %.3f)",
			    v->nodes_ratio.value, v->nodes_ratio.low, v->nodes_ratio.high)};
	size_t told = n;
	for (size_t k = 0; k < v->nnodes; k++)
		if (v->node[k].slower)
			row[n++] = (struct diag_row){
				"slower", fmt(d, "node '%s' (%s)%s%s: %s", v->node[k].name,
					      v->node[k].op, v->node[k].fused ? " of " : "",
					      v->node[k].fused ? v->node[k].fused : "",
					      then_and_now(&v->node[k], d))};
	if (n == told)
		row[n++] = (struct diag_row){"slower", "all nodes alike; none stands out"};
	/* on a busy machine the alarm may come from the work of the threads, or from the nodes alone */
	double by = v->by_work				      ? v->work.value
		    : v->adjusted.low > 1 + p->limits.latency ? v->adjusted.value
							      : v->nodes_ratio.value;
	FAIL(d, E_BASELINE,
	     .message = fmt(
		     d, "the model is slower than the baseline by %.1f %%, more than the allowed %.4g %%",
		     (by - 1) * 100, p->limits.latency * 100),
	     .rows = row, .nrows = n);
}

static void report_bigger(struct profile *p)
{
	struct diag *d = p->d;
	const struct gate_verdict *v = &p->verdict;
	struct diag_row *row = arena_new_n(&d->arena, struct diag_row, GATE_MEMORY + 1);
	size_t n = 0;

	for (size_t k = 0; k < v->nmemory; k++)
		if (v->memory[k].bigger)
			row[n++] = (struct diag_row){
				"bigger", fmt(d, "%s: %s then, %s now", v->memory[k].what,
					      str_bytes(&d->arena, (int64_t)v->memory[k].before),
					      str_bytes(&d->arena, (int64_t)v->memory[k].now))};
	FAIL(d, E_BASELINE, .message = "the model takes more memory than the baseline allows",
	     .rows = row, .nrows = n);
}

/* Says how many runs were undisturbed, how many would have to be, and on which side to measure again. */
static const char *busy_hint(const struct gate_verdict *v, struct diag *d)
{
	bool before = gate_side_busy(v->undisturbed_before, v->runs_before),
	     now = gate_side_busy(v->undisturbed_now, v->runs_now);

	return fmt(d,
		   "undisturbed were %zu of %zu runs of the baseline and %zu of %zu now, but at least %d runs and one in %d of "
		   "each have to be: %s, where less else runs",
		   v->undisturbed_before, v->runs_before, v->undisturbed_now, v->runs_now,
		   GATE_MIN_UNDISTURBED, GATE_UNDISTURBED_ONE_IN,
		   before && now ? "save the baseline anew and measure again"
		   : before	 ? "save the baseline anew"
				 : "measure again, or longer with --duration");
}

/* Reports a comparison that decided nothing: as an error with --fail-unknown, else as a warning. */
static int report_unknown(struct profile *p)
{
	const struct gate_verdict *v = &p->verdict;
	struct finding f = {.code = p->o->fail_unknown ? E_BASELINE_UNKNOWN : E_UNSTEADY,
			    .severity = p->o->fail_unknown ? SEV_ERROR : SEV_WARNING,
			    .file = __FILE__,
			    .line = __LINE__};

	if (v->busy) {
		f.message =
			isnan(v->nodes_ratio.value)
				? "the machine is too busy to say whether the model became slower"
				: "the machine is too busy to say whether the whole model became slower; "
				  "no node did more than the others";
		f.hint = busy_hint(v, p->d);
	} else {
		f.message = fmt(p->d,
				"it is not known whether the model became slower by more than the allowed "
				"%.4g %%: repeated measurements do not agree on it",
				p->limits.latency * 100);
		f.hint = "measure longer with --duration, or raise the limit";
	}
	double then = p->baseline->flops, now = p->record[0]->flops;
	if (then > 0 && now > then * (1 + p->limits.latency))
		f.actual =
			fmt(p->d,
			    "a run has %.3g times the operations of the baseline's (%s then, %s now)",
			    now / then, profile_rate(&p->d->arena, then, "FLOP"),
			    profile_rate(&p->d->arena, now, "FLOP"));
	if (!p->o->fail_unknown)
		f.hint = fmt(p->d, "%s; --fail-unknown ends with status %d in place of 0", f.hint,
			     code_exit(E_BASELINE_UNKNOWN));
	int rc = diag_add(p->d, &f);
	return p->o->fail_unknown ? rc : 0;
}

/* Holds the energy of a run against its limit, which needs no baseline. */
static int judge_energy(struct profile *p)
{
	double limit = p->o->fail_above_energy;
	int rc = 0;

	for (size_t i = 0; !isnan(limit) && i < p->nrecords; i++)
		for (size_t k = 0; k < p->record[i]->npoints; k++) {
			const struct record *r = p->record[i];
			const struct record_point *q = &r->point[k];
			const char *by, *slot = fmt(p->d, "%s%s%s", r->label,
						    *r->label && *q->label ? " " : "", q->label);
			double joules = profile_energy(r, q, &by);
			if (isnan(joules) && !p->o->fail_unknown)
				WARN(p->d, E_UNSTEADY,
				     .message = "this machine does not tell the energy of a run",
				     .hint = "NVML and RAPL were asked; RAPL may need root");
			else if (isnan(joules))
				return FAIL(p->d, E_BASELINE_UNKNOWN,
					    .message = "this machine does not tell the energy of a run",
					    .hint = "NVML and RAPL were asked; RAPL may need root");
			else if (joules > limit)
				rc = FAIL(p->d, E_BASELINE, .slot = *slot ? slot : NULL,
					  .message = "a run takes more energy than is allowed",
					  .expected = fmt(p->d, "%.3g J at most", limit),
					  .actual = fmt(p->d, "%.3g J by %s", joules, by));
			if (isnan(joules))
				return 0;
		}
	return rc;
}

static int judge(struct profile *p)
{
	if (!p->baseline || !p->nrecords || !p->record[0]->npoints || p->record[0]->point[0].n < 2)
		return 0;
	warn_of_differences(p);
	int rc = compare_with_baseline(p);
	if (rc || !p->gate || watchdog_caught() != E_OK)
		return rc;
	rc = gate_unknown(p) ? report_unknown(p) : 0;
	if (p->verdict.slower)
		report_slower(p);
	if (p->verdict.bigger)
		report_bigger(p);
	return p->verdict.slower || p->verdict.bigger ? -E_BASELINE : rc;
}

/* ---- the command */

/* Decides which precision --precision auto selects, by the last point of a sweep, before anything is measured. */
static void settle_precision(struct profile *p)
{
	struct input_request last = p->request;

	if (p->sweep.points)
		last.dim = sweep_point(&p->sweep, p->sweep.points - 1, &p->request.dim, &p->arena);
	for (size_t k = 0; k < p->njobs; k++)
		precision_settle(p->o, &p->job[k].config, &last, p->job[k].label, p->d);
	if (p->njobs == 1)
		p->o->config.precision = p->job[0].config.precision;
}

/* Keeps standard input for all processes that will read it. */
static int keep_input_for_all(struct profile *p)
{
	const char *model = p->o->operand[0];
	struct stat st;

	if (p->njobs < 2 && !p->job[0].for_gate)
		return 0;
	input_keep_stdin(model, &p->request);
	if (strcmp(model, "-") != 0 && stat(model, &st) == 0 && S_ISFIFO(st.st_mode))
		return FAIL(p->d, E_MODEL_OPEN,
			    .message = fmt(p->d,
					   "%s: a pipe, of which the second of several processes "
					   "would find nothing",
					   model),
			    .hint = "as standard input (-) it is kept for all");
	return 0;
}

static void report_stopped(struct profile *p)
{
	enum code why = watchdog_caught();

	if (why == E_TIMEOUT)
		FAIL(p->d, why,
		     .message = fmt(p->d,
				    "not done within the %g s of --timeout; what was measured "
				    "so far is reported",
				    p->o->timeout));
	else if (why != E_OK)
		FAIL(p->d, why, .message = "interrupted; what was measured so far is reported");
}

static void print_report(struct profile *p)
{
	FILE *to = export_takes_stdout(p->o) ? stderr : stdout, *f = listing_begin(to);

	profile_print(p, isatty(fileno(to)), f);
	listing_end(f);
}

static int report(struct profile *p, int rc)
{
	struct json j;

	progress_clear(&p->progress);
	report_stopped(p);
	if (!p->nrecords || !p->record[0]->npoints)
		return rc;
	if (p->o->json)
		profile_document(p, &j);
	else if (!p->o->quiet || !export_takes_stdout(p->o))
		print_report(p);
	int written = export_all(p);
	return rc ? rc : written;
}

int cmd_profile(struct options *o, struct diag *d)
{
	if (decode_wanted(o))
		return profile_decode(o, d);
	if (steps_wanted(&o->steps))
		return FAIL(
			d, E_OPTION, .message = "--feed, --next and --derive need --decode N here",
			.hint = "without --decode, profile measures single runs; infer run tells the time of steps");
	struct profile *p = calloc(1, sizeof(*p));
	int rc = p ? 0 : -E_MEMORY;

	if (p) {
		*p = (struct profile){.o = o, .d = d};
		rc = profile_plan(p);
	}
	if (!rc) {
		settle_precision(p);
		watchdog_soft();
		rc = keep_input_for_all(p);
	}
	if (!rc) {
		progress_begin(&p->progress, o);
		rc = measure_all(p);
		name_failed_jobs(p);
	}
	if (!rc) {
		warn_of_noise(p);
		warn_of_streams(p);
		rc = judge(p);
		int energy = judge_energy(p);
		rc = rc ? rc : energy;
		if (!rc || rc == -E_BASELINE || rc == -E_BASELINE_UNKNOWN) {
			int saved = watchdog_caught() == E_OK ? export_baseline(p) : 0;
			rc = report(p, rc ? rc : saved);
		}
	}
	for (size_t k = 0; p && k < p->nrecords; k++)
		record_free(p->record[k]);
	if (p) {
		progress_clear(&p->progress);
		record_free(p->baseline);
		arena_free(&p->arena);
	}
	free(p);
	return rc;
}
