/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/gate.h"

#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 400, MOST_SAMPLES = 2000, LEAST_QUIET = 10, LEAST_PART = 10 };

static const double FAR = 2.5; /* times: twice is within what it does anyway */
static const double QUANTILE = 0.1, YARD_QUANTILE = 0.02, LEVEL = 0.95;
/* bytes: resident memory differs by as much for no reason, names and notes (the measurement's, too) by a quarter */
static const double NOTHING = 1 << 20;

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

/* ---- runs that nobody disturbed */

struct sample {
	double *v;
	size_t n;
};

/*
 * Those in which no thread waited for a core while another program ran there, nor in the `calm` seconds before: caches
 * and clocks take some time until they are the model's again. Without delays: all.
 */
static struct sample quiet(const double *v, const double *delay, size_t n, double calm)
{
	struct sample s = {calloc(n + 1, sizeof(double)), 0};
	double since = 0;

	for (size_t i = 0; s.v && i < n; i++) {
		bool now = !delay || gate_quiet(v[i], delay[i]);
		if (now && (!delay || since >= calm))
			s.v[s.n++] = v[i];
		since = now ? since + v[i] : 0;
	}
	return s;
}

/* ---- bootstrap */

/*
 * The quantile of samples drawn anew, by runs of neighbours: what one moment of the machine did to several stays
 * together. Long series are thinned: the interval would not change.
 */
static double redrawn(const struct sample *s, double *room, uint64_t *state)
{
	size_t want = s->n < MOST_SAMPLES ? s->n : MOST_SAMPLES;
	size_t block = (size_t)ceil(2 * cbrt((double)want)), n = 0;

	while (n < want) {
		size_t at = (size_t)(stats_random(state) % s->n);
		for (size_t j = 0; j < block && n < want; j++)
			room[n++] = s->v[(at + j) % s->n];
	}
	return stats_quantile_of(room, n, QUANTILE);
}

/* A side of a comparison: the model's runs, and the kinds of known work. */
struct side {
	struct sample runs, yard[RECORD_YARDS];
	bool busy; /* what few runs were undisturbed were so by chance, and are unlike each other */
};

static void yards_of(const struct record *r, struct side *s)
{
	for (int k = 0; k < RECORD_YARDS && r->nyard; k++)
		s->yard[k] = quiet(r->yard[k], r->yard_delay[k], r->nyard, 0);
}

static struct side side_of(const struct record *r)
{
	const struct record_point *p = &r->point[0];
	struct side s = {.runs = quiet(p->time, p->delay, p->n, GATE_CALM)};

	s.busy = s.runs.n < LEAST_QUIET || s.runs.n < p->n / LEAST_PART;
	yards_of(r, &s);
	return s;
}

static void side_free(struct side *s)
{
	free(s->runs.v);
	for (int k = 0; k < RECORD_YARDS; k++)
		free(s->yard[k].v);
}

static double quantile(const struct sample *s, double *room, uint64_t *state)
{
	return state ? redrawn(s, room, state) : stats_quantile_of(s->v, s->n, QUANTILE);
}

/* How much longer work of a kind takes; NAN: too few shots. They are few: their lowest fiftieth is steadier than their tenth. */
static double yard_ratio(const struct side *before, const struct side *now, int kind)
{
	const struct sample *x = &before->yard[kind], *y = &now->yard[kind];

	if (x->n < LEAST_QUIET || y->n < LEAST_QUIET)
		return NAN;
	return stats_quantile_of(y->v, y->n, YARD_QUANTILE) /
	       stats_quantile_of(x->v, x->n, YARD_QUANTILE);
}

/*
 * What the machine may have to do with a quotient of `ratio`: as much of it as lies between the most that a kind of work
 * became faster and what they became slower on average. They need not agree: their word excuses a model, and never accuses
 * it. What the cores hand to one another says nothing here, it moves far more than any model.
 */
static double machine(const struct side *before, const struct side *now, double ratio, double *faster)
{
	double slower = 0; /* logarithm */
	int n = 0;

	*faster = 1;
	for (int k = 0; k < RECORD_YARDS - 1; k++) {
		double of = yard_ratio(before, now, k);
		if (isnan(of))
			continue;
		*faster = fmin(*faster, of);
		slower += log(fmax(of, 1));
		n++;
	}
	return fmin(fmax(ratio, *faster), n ? exp(slower / n) : 1);
}

static void latency(const struct side *before, const struct side *now, double limit,
		    struct gate_verdict *v)
{
	double *room = calloc(MOST_SAMPLES + ROUNDS + 1, sizeof(*room));
	uint64_t state = 20240229;
	/* what the cores hand to one another: virtual ones move, and all that is shared with them; NAN is neither far nor near */
	double apart = yard_ratio(before, now, RECORD_YARDS - 1);

	v->quiet_before = before->runs.n;
	v->quiet_now = now->runs.n;
	v->busy = before->busy || now->busy;
	v->moved = apart < 1 / FAR;
	if (!room || !before->runs.n || !now->runs.n) {
		free(room);
		return;
	}
	double *ratio = room + MOST_SAMPLES;
	v->before = quantile(&before->runs, room, NULL);
	v->now = quantile(&now->runs, room, NULL);
	v->ratio.value = v->now / v->before;
	v->machine = machine(before, now, v->ratio.value, &v->faster);
	for (int i = 0; i < ROUNDS; i++) {
		double was = quantile(&before->runs, room, &state);
		ratio[i] = quantile(&now->runs, room, &state) / was;
	}
	v->ratio.low = stats_quantile_of(ratio, ROUNDS, (1 - LEVEL) / 2);
	v->ratio.high = stats_quantile_of(ratio, ROUNDS, (1 + LEVEL) / 2);
	v->fair = (struct interval){v->ratio.value / v->machine, v->ratio.low / v->machine,
				    v->ratio.high / v->machine};
	v->slower = !isnan(limit) && v->fair.low > 1 + limit;
	v->open = !isnan(limit) && !v->slower && v->fair.high > 1 + limit &&
		  v->fair.value > 1 + limit / 2;
	if (v->slower && apart > FAR) {
		v->slower = false; /* only a node by itself can be told */
		v->open = true;
	}
	free(room);
}

/*
 * Where hardly a run was undisturbed: only what no disturbance explains is a failure, every run now being slower than nearly
 * every run then. Otherwise more runs are wanted.
 */
static void blatant(const struct record *before, const struct record *now, double limit,
		    struct gate_verdict *v)
{
	const struct record_point *p = &before->point[0], *q = &now->point[0];

	v->before = stats_quantile_of(p->time, p->n, QUANTILE);
	v->now = stats_quantile_of(q->time, q->n, QUANTILE);
	v->ratio.value = v->now / v->before;
	v->ratio.low = stats_quantile_of(q->time, q->n, 0.02) / stats_quantile_of(p->time, p->n, 0.9);
	v->ratio.high =
		stats_quantile_of(q->time, q->n, 0.9) / stats_quantile_of(p->time, p->n, 0.02);
	v->machine = 1;
	v->fair = v->ratio;
	v->slower = !isnan(limit) && v->ratio.low > 1 + limit;
	/* more of such runs tell no more; the nodes may */
	v->open = false;
}

/* ---- memory */

static void add_memory(struct gate_verdict *v, const char *what, double before, double now,
		       double slack, const struct gate_limits *l)
{
	double allowed = INFINITY;

	if (v->nmemory == GATE_MEMORY || (before <= 0 && now <= 0))
		return;
	if (!isnan(l->memory))
		allowed = fmin(allowed, before * l->memory);
	if (!isnan(l->bytes))
		allowed = fmin(allowed, l->bytes);
	struct gate_memory *m = &v->memory[v->nmemory++];
	*m = (struct gate_memory){what, before, now, now - before > fmax(allowed, slack)};
	v->bigger |= m->bigger;
}

/* What a measurement holds at its end, less what the process held before: the baseline itself lies there. */
static double held(const struct record *r, int kind, int purpose)
{
	return fmax(r->phase[r->nphases - 1].live[kind][purpose] - r->phase[0].live[kind][purpose], 0);
}

static void memory(const struct record *before, const struct record *now,
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
		for (int i = 0; i < RECORD_PURPOSES; i++)
			if (i != MEM_STAGING) /* the yardstick's, too */
				add_memory(v,
					   arena_printf(a, "%s, %s",
							mem_purpose_name((enum mem_purpose)i),
							record_kind_name(k)),
					   held(before, k, i), held(now, k, i),
					   i == MEM_MODEL ? NOTHING / 4 : 0, l);
	add_memory(v, "resident", was->rss, is->rss, NOTHING, l);
	add_memory(v, "private", was->private, is->private, NOTHING, l);
}

struct gate_verdict gate_compare(const struct record *before, const struct record *now,
				 const struct gate_limits *limits, struct arena *a)
{
	struct gate_verdict v = {.machine = 1, .faster = 1};

	struct side x = side_of(before), y = side_of(now);
	latency(&x, &y, limits->latency, &v);
	if (v.busy)
		blatant(before, now, limits->latency, &v);
	side_free(&x);
	side_free(&y);
	gate_nodes(before, now, limits->latency, &v, a);
	memory(before, now, limits, &v, a);
	return v;
}

/* ---- what may be compared */

static bool same(const char *a, const char *b)
{
	return !strcmp(a ? a : "", b ? b : "");
}

static void differ(struct str *s, const char *what, const char *before, const char *now)
{
	if (!same(before, now))
		str_addf(s, "%s%s: %s then, %s now", s->n ? "; " : "", what,
			 before ? before : "none", now ? now : "none");
}

const char *gate_differs(const struct identity *before, const struct identity *now, struct arena *a)
{
	struct str s = {.arena = a};

	if (!same(before->hash, now->hash))
		differ(&s, "model", before->hash, now->hash);
	differ(&s, "device", before->device, now->device);
	differ(&s, "device name", before->device_name, now->device_name);
	differ(&s, "driver", before->driver, now->driver);
	differ(&s, "precision", before->precision, now->precision);
	if (before->inputs && now->inputs)
		differ(&s, "inputs", before->inputs, now->inputs);
	differ(&s, "optimize", before->optimize, now->optimize);
	differ(&s, "threads", arena_printf(a, "%" PRId64, before->threads),
	       arena_printf(a, "%" PRId64, now->threads));
	differ(&s, "sessions", arena_printf(a, "%" PRId64, before->sessions),
	       arena_printf(a, "%" PRId64, now->sessions));
	differ(&s, "memory plan", before->memory_plan ? "on" : "off", now->memory_plan ? "on" : "off");
	differ(&s, "arena", before->arena ? "on" : "off", now->arena ? "on" : "off");
	return s.n ? str_get(&s) : NULL;
}
