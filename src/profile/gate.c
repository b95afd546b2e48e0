/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/gate.h"

#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_OBSERVED = 10 };

/* The exchange workload varies by a factor of two on its own. Beyond this factor the cores were moved. */
static const double CORES_MOVED_RATIO = 2.5;
/* The samples of a reference workload are few; their lowest fiftieth is steadier than their tenth percentile. */
static const double REFERENCE_QUANTILE = 0.02;
/*
 * In bytes. Resident memory differs by as much between equal processes, the model's own memory by a quarter of this.
 */
static const double MEMORY_NOISE = 1 << 20;

/*
 * The work of a run of the same model differs by less than this factor between an idle and a busy machine: after a thread has
 * lost its core, caches have to be filled anew.
 */
static const double WORK_MARGIN = 1.25;

static const struct bootstrap latency_bootstrap = {
	.quantile = 0.1, .level = 0.95, .rounds = 400, .max_drawn = 2000, .seed = 20240229};
static const struct bootstrap observed_bootstrap = {
	.quantile = 0.1, .level = 0.95, .rounds = 200, .seed = 20240302};

static bool same_text(const char *a, const char *b)
{
	return !strcmp(a ? a : "", b ? b : "");
}

bool gate_parse(const char *text, bool memory, struct gate_limits *to)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || !isfinite(v) || v < 0)
		return false;
	if (!strcmp(end, "%") || !*end) {
		v = *end ? v / 100 : v;
		if (memory)
			to->memory = v;
		else
			to->latency = v;
		return *end || v < 1;
	}
	double unit = !strcmp(end, "B")				 ? 1
		      : !strcmp(end, "KiB") || !strcmp(end, "K") ? 0x1p10
		      : !strcmp(end, "MiB") || !strcmp(end, "M") ? 0x1p20
		      : !strcmp(end, "GiB") || !strcmp(end, "G") ? 0x1p30
								 : 0;
	to->bytes = v * unit;
	return memory && unit > 0;
}

/* ---- undisturbed runs */

struct series {
	double *v;
	size_t n;
};

/*
 * Returns the runs that were undisturbed and began at least `settle` seconds after the last disturbed run. Returns
 * all runs if `waited` is NULL, that is, if the system did not count how long threads waited.
 */
static struct series undisturbed_runs(const double *time, const double *waited, size_t n, double settle)
{
	struct series s = {calloc(n + 1, sizeof(double)), 0};
	double calm = 0; /* seconds since the last disturbed run */

	for (size_t i = 0; s.v && i < n; i++) {
		bool undisturbed = !waited || gate_undisturbed(time[i], waited[i]);
		if (undisturbed && (!waited || calm >= settle))
			s.v[s.n++] = time[i];
		calm = undisturbed ? calm + time[i] : 0;
	}
	return s;
}

/* A side of the comparison. */
struct side {
	struct series runs;			    /* undisturbed plain runs */
	size_t nruns;				    /* number of all plain runs */
	struct series reference[RECORD_REFERENCES]; /* undisturbed times of each reference workload */
	bool busy;
};

static struct side side_of(const struct record *r)
{
	const struct record_point *p = &r->point[0];
	struct side s = {.runs = undisturbed_runs(p->time, p->delay, p->n, GATE_SETTLE_TIME)};

	s.nruns = p->n;
	s.busy = gate_side_busy(s.runs.n, p->n);
	for (int k = 0; k < RECORD_REFERENCES && r->nreference; k++)
		s.reference[k] = undisturbed_runs(r->reference_time[k], r->reference_wait[k],
						  r->nreference, 0);
	return s;
}

static void side_free(struct side *s)
{
	free(s->runs.v);
	for (int k = 0; k < RECORD_REFERENCES; k++)
		free(s->reference[k].v);
}

/* ---- latency */

/*
 * Returns how much longer a reference workload takes now, as a ratio, or NAN if too few of its samples were
 * undisturbed.
 */
static double reference_ratio(const struct side *before, const struct side *now, int kind)
{
	const struct series *x = &before->reference[kind], *y = &now->reference[kind];

	if (x->n < GATE_MIN_UNDISTURBED || y->n < GATE_MIN_UNDISTURBED)
		return NAN;
	return stats_quantile_of(y->v, y->n, REFERENCE_QUANTILE) /
	       stats_quantile_of(x->v, x->n, REFERENCE_QUANTILE);
}

/*
 * Returns the part of the latency's ratio that the machine may have caused. The reference workloads give a range: its
 * upper end is the geometric mean of their ratios, its lower end the smallest of their ratios, at most 1. A latency
 * ratio within the range is attributed to the machine completely; of a ratio outside of the range, the machine's part
 * is the nearer end. So the workloads, which need not agree, can excuse a slower model but never accuse one. The
 * exchange workload varies far more than any model, and does not count here.
 */
static double machine_ratio(const struct side *before, const struct side *now, double ratio,
			    double *fastest)
{
	double log_slowdown = 0;
	int n = 0;

	*fastest = 1;
	for (int k = 0; k < RECORD_REFERENCES - 1; k++) {
		double of_reference = reference_ratio(before, now, k);
		if (isnan(of_reference))
			continue;
		*fastest = fmin(*fastest, of_reference);
		log_slowdown += log(fmax(of_reference, 1));
		n++;
	}
	return fmin(fmax(ratio, *fastest), n ? exp(log_slowdown / n) : 1);
}

/* Steps 1 and 2 of docs/gate.md. */
static void compare_latency(const struct side *before, const struct side *now, double limit,
			    struct gate_verdict *v)
{
	/* if the ratio is not known, it is NAN, which is neither above nor below any limit */
	double exchange = reference_ratio(before, now, RECORD_REFERENCES - 1);

	v->undisturbed_before = before->runs.n;
	v->undisturbed_now = now->runs.n;
	v->runs_before = before->nruns;
	v->runs_now = now->nruns;
	v->busy = before->busy || now->busy;
	v->cores_moved_closer = exchange < 1 / CORES_MOVED_RATIO;
	if (!before->runs.n || !now->runs.n)
		return;
	v->before = stats_quantile_of(before->runs.v, before->runs.n, latency_bootstrap.quantile);
	v->now = stats_quantile_of(now->runs.v, now->runs.n, latency_bootstrap.quantile);
	v->ratio = stats_ratio(before->runs.v, before->runs.n, now->runs.v, now->runs.n,
			       &latency_bootstrap);
	v->machine_ratio = machine_ratio(before, now, v->ratio.value, &v->fastest_reference);
	v->adjusted = (struct interval){v->ratio.value / v->machine_ratio,
					v->ratio.low / v->machine_ratio,
					v->ratio.high / v->machine_ratio};
	if (isnan(limit))
		return;
	v->slower = v->adjusted.low > 1 + limit;
	v->undecided = !v->slower && gate_may_exceed(&v->adjusted, limit);
	if (v->slower && exchange > CORES_MOVED_RATIO) {
		/*
		 * the cores were moved apart, which slows all nodes, so that only a node that stands out is evidence
		 */
		v->slower = false;
		v->undecided = true;
	}
}

/*
 * Step 3, for a busy machine. The model is called slower only if no disturbance explains it, namely if nearly every
 * run now takes longer than nearly every run of the baseline. More runs of the same kind would tell no more, so the
 * result is never undecided.
 */
static void compare_busy(const struct record *before, const struct record *now, double limit,
			 struct gate_verdict *v)
{
	static const double NEARLY_LOWEST = 0.02, NEARLY_HIGHEST = 0.9; /* step 3 of docs/gate.md */
	const struct record_point *p = &before->point[0], *q = &now->point[0];

	v->before = stats_quantile_of(p->time, p->n, latency_bootstrap.quantile);
	v->now = stats_quantile_of(q->time, q->n, latency_bootstrap.quantile);
	v->ratio.value = v->now / v->before;
	v->ratio.low = stats_quantile_of(q->time, q->n, NEARLY_LOWEST) /
		       stats_quantile_of(p->time, p->n, NEARLY_HIGHEST);
	v->ratio.high = stats_quantile_of(q->time, q->n, NEARLY_HIGHEST) /
			stats_quantile_of(p->time, p->n, NEARLY_LOWEST);
	v->machine_ratio = 1;
	v->adjusted = v->ratio;
	v->slower = !isnan(limit) && v->ratio.low > 1 + limit;
	v->undecided = false;
}

/*
 * Step 4. The observed runs are a second measurement of the same model, and a slower model slows them, too. If they
 * do not confirm an alarm, memory or cores were placed unfavourably for a while, and more samples have to decide.
 */
static void confirm_by_observed_runs(const struct record *before, const struct record *now,
				     double limit, struct gate_verdict *v)
{
	if (!v->slower || v->busy || isnan(limit) || before->nobserved < MIN_OBSERVED ||
	    now->nobserved < MIN_OBSERVED)
		return;
	struct interval i = stats_ratio(before->observed_time, before->nobserved,
					now->observed_time, now->nobserved, &observed_bootstrap);
	if (!(i.high / v->machine_ratio > 1 + limit)) {
		v->slower = false;
		v->undecided = true;
	}
}

/*
 * Step 5. The work of a run, that is the time for which threads had a core and did not spin, is the same however long they waited for cores.
 * It decides if the latency does not: on a busy machine, or if the measurements do not agree. Caches that other programs
 * use add to it, for which there is a margin; none is needed if the operations of the plan grew beyond the limit, too.
 */
static void compare_work(const struct record *before, const struct record *now, const struct side *x,
			 const struct side *y, double limit, struct gate_verdict *v)
{
	const struct record_point *p = &before->point[0], *q = &now->point[0];
	double ignored;

	v->work = (struct interval){NAN, NAN, NAN};
	/* a thread that waits for a device spins in the driver, and the pool does not know how long */
	if (!p->cpu || !q->cpu || p->n < MIN_OBSERVED || q->n < MIN_OBSERVED ||
	    !same_text(now->id.device, "cpu"))
		return;
	v->work = stats_ratio(p->cpu, p->n, q->cpu, q->n, &latency_bootstrap);
	double machine = machine_ratio(x, y, v->work.value, &ignored);
	v->work.value /= machine;
	v->work.low /= machine;
	v->work.high /= machine;
	bool more_operations = before->flops > 0 && now->flops > before->flops * (1 + limit);
	double least = (1 + limit) * (more_operations ? 1 : WORK_MARGIN);
	if ((v->busy || v->undecided) && !v->slower && v->work.low > least &&
	    v->ratio.value > 1 + limit) {
		v->slower = v->by_work = true;
		v->undecided = false;
	}
}

/* ---- memory */

/* Adds a row about memory. Growth of up to `noise` bytes is no finding whatever the limits are. */
static void add_memory(struct gate_verdict *v, const char *what, double before, double now,
		       double noise, const struct gate_limits *l)
{
	double allowed = INFINITY;

	if (v->nmemory == GATE_MEMORY || (before <= 0 && now <= 0))
		return;
	if (!isnan(l->memory))
		allowed = fmin(allowed, before * l->memory);
	if (!isnan(l->bytes))
		allowed = fmin(allowed, l->bytes);
	struct gate_memory *m = &v->memory[v->nmemory++];
	*m = (struct gate_memory){what, before, now, now - before > fmax(allowed, noise)};
	v->bigger |= m->bigger;
}

/*
 * Returns the bytes held at the end minus the bytes held at the process's start. The latter include the baseline,
 * which a process that compares has read by then.
 */
static double bytes_added(const struct record *r, int kind, int purpose)
{
	return fmax(r->phase[r->nphases - 1].live[kind][purpose] - r->phase[0].live[kind][purpose], 0);
}

static void compare_memory(const struct record *before, const struct record *now,
			   const struct gate_limits *l, struct gate_verdict *v, struct arena *a)
{
	const struct record_point *p = &before->point[0], *q = &now->point[0];

	add_memory(v, "planned, host", p->slab, q->slab, 0, l);
	add_memory(v, "planned, device", p->device_slab, q->device_slab, 0, l);
	if (!before->nphases || !now->nphases)
		return;
	const struct record_phase *was = &before->phase[before->nphases - 1];
	const struct record_phase *is = &now->phase[now->nphases - 1];
	for (int k = 0; k < RECORD_KINDS; k++)
		for (int i = 0; i < MEM_PURPOSES; i++) {
			/* staging memory is left out, as it includes the reference workloads' buffers */
			if (i == MEM_STAGING || i == MEM_PACKED)
				continue;
			/* copied or packed, a weight is a weight; older records do not tell which */
			bool weights = i == MEM_WEIGHTS;
			add_memory(v,
				   arena_printf(a, "%s, %s",
						weights ? "weights"
							: mem_purpose_name((enum mem_purpose)i),
						record_kind_name(k)),
				   bytes_added(before, k, i) +
					   (weights ? bytes_added(before, k, MEM_PACKED) : 0),
				   bytes_added(now, k, i) +
					   (weights ? bytes_added(now, k, MEM_PACKED) : 0),
				   i == MEM_MODEL ? MEMORY_NOISE / 4 : 0, l);
		}
	add_memory(v, "resident", was->rss, is->rss, MEMORY_NOISE, l);
	add_memory(v, "private", was->private, is->private, MEMORY_NOISE, l);
}

struct gate_verdict gate_compare(const struct record *before, const struct record *now,
				 const struct gate_limits *limits, struct arena *a)
{
	struct gate_verdict v = {.machine_ratio = 1, .fastest_reference = 1};
	struct side x = side_of(before), y = side_of(now);

	compare_latency(&x, &y, limits->latency, &v);
	if (v.busy)
		compare_busy(before, now, limits->latency, &v);
	confirm_by_observed_runs(before, now, limits->latency, &v);
	compare_work(before, now, &x, &y, limits->latency, &v);
	side_free(&x);
	side_free(&y);
	gate_compare_nodes(before, now, limits->latency, &v, a);
	compare_memory(before, now, limits, &v, a);
	return v;
}

/* ---- what may be compared */

static void add_difference(struct str *s, const char *what, const char *before, const char *now)
{
	if (!same_text(before, now))
		str_addf(s, "%s%s: %s then, %s now", s->n ? "; " : "", what,
			 before ? before : "none", now ? now : "none");
}

bool gate_new_version(const struct identity *before, const struct identity *now)
{
	return before->model && now->model && !strcmp(before->model, now->model) &&
	       !same_text(before->hash, now->hash);
}

const char *gate_differs(const struct identity *before, const struct identity *now, struct arena *a)
{
	struct str s = {.arena = a};

	/* the names say more than the hashes, and a new version of the model has the same name */
	if (!same_text(before->hash, now->hash) && !gate_new_version(before, now)) {
		bool named = before->model && now->model && strcmp(before->model, now->model) != 0;
		add_difference(&s, "model", named ? before->model : before->hash,
			       named ? now->model : now->hash);
	}
	add_difference(&s, "device", before->device, now->device);
	add_difference(&s, "device name", before->device_name, now->device_name);
	add_difference(&s, "driver", before->driver, now->driver);
	add_difference(&s, "precision", before->precision, now->precision);
	if (before->inputs && now->inputs)
		add_difference(&s, "inputs", before->inputs, now->inputs);
	add_difference(&s, "optimize", before->optimize, now->optimize);
	add_difference(&s, "threads", arena_printf(a, "%" PRId64, before->threads),
		       arena_printf(a, "%" PRId64, now->threads));
	add_difference(&s, "sessions", arena_printf(a, "%" PRId64, before->sessions),
		       arena_printf(a, "%" PRId64, now->sessions));
	add_difference(&s, "memory plan", before->memory_plan ? "on" : "off",
		       now->memory_plan ? "on" : "off");
	add_difference(&s, "arena", before->arena ? "on" : "off", now->arena ? "on" : "off");
	return s.n ? str_get(&s) : NULL;
}
