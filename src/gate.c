/* SPDX-License-Identifier: Apache-2.0 */
#include "gate.h"

#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 400, MOST_SAMPLES = 2000, LEAST_QUIET = 10 };

static const double QUANTILE = 0.1, YARD_QUANTILE = 0.02, LEVEL = 0.95;
static const double CALM = 0.95;       /* share of the best run's share of the processor */
static const double BUSY = 0.02;       /* of the time: what threads may wait for a core */
static const double NOTHING = 1 << 20; /* bytes: resident memory differs by as much for no reason */

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

static double best_share(const double *v, const double *cpu, size_t n)
{
	double *share = calloc(n + 1, sizeof(*share)), best = 0;

	for (size_t i = 0; share && cpu && i < n; i++)
		share[i] = v[i] > 0 ? cpu[i] / v[i] : 0;
	if (share && cpu && n)
		best = stats_quantile_of(share, n, 0.99);
	free(share);
	return best;
}

/*
 * Those that had nearly as much of the processor, for their time, as the best of both sides had: in the others a thread
 * waited for a core while another program ran there. best 0: all.
 */
static struct sample quiet(const double *v, const double *cpu, size_t n, double best)
{
	struct sample s = {calloc(n + 1, sizeof(double)), 0};

	for (size_t i = 0; s.v && i < n; i++)
		if (!(best > 0) || !cpu || cpu[i] > CALM * best * v[i])
			s.v[s.n++] = v[i];
	return s;
}

/* Whether other programs were in the way; where not, each run counts, however it uses the processor. */
static bool busy(const struct record *r)
{
	const struct record_point *p = &r->point[0];

	return p->cpu && p->waited > BUSY * p->span;
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

/* Both sides of a comparison: the model's runs, and the two kinds of known work. */
struct side {
	struct sample runs, yard[2];
};

static void make_sides(const struct record *a, const struct record *b, struct side *x, struct side *y)
{
	bool any = busy(a) || busy(b);
	const struct record_point *p = &a->point[0], *q = &b->point[0];
	double best =
		any ? fmax(best_share(p->time, p->cpu, p->n), best_share(q->time, q->cpu, q->n)) : 0;

	*x = (struct side){.runs = quiet(p->time, p->cpu, p->n, best)};
	*y = (struct side){.runs = quiet(q->time, q->cpu, q->n, best)};
	for (int k = 0; k < 2 && a->nyard && b->nyard; k++) {
		best = any ? fmax(best_share(a->yard[k], a->yard_cpu[k], a->nyard),
				  best_share(b->yard[k], b->yard_cpu[k], b->nyard))
			   : 0;
		x->yard[k] = quiet(a->yard[k], a->yard_cpu[k], a->nyard, best);
		y->yard[k] = quiet(b->yard[k], b->yard_cpu[k], b->nyard, best);
	}
}

static void side_free(struct side *s)
{
	free(s->runs.v);
	free(s->yard[0].v);
	free(s->yard[1].v);
}

static double quantile(const struct sample *s, double *room, uint64_t *state)
{
	return state ? redrawn(s, room, state) : stats_quantile_of(s->v, s->n, QUANTILE);
}

/*
 * How much slower the machine is, as far as both kinds of work agree: memory alone is slower for many reasons
 * that a model does not notice. The shots are few: their lowest fiftieth is steadier than their lowest tenth.
 */
static double machine(const struct side *before, const struct side *now)
{
	double both = INFINITY;

	for (int k = 0; k < 2; k++) {
		const struct sample *x = &before->yard[k], *y = &now->yard[k];
		if (x->n < LEAST_QUIET || y->n < LEAST_QUIET)
			return 1;
		both = fmin(both, stats_quantile_of(y->v, y->n, YARD_QUANTILE) /
					  stats_quantile_of(x->v, x->n, YARD_QUANTILE));
	}
	return isfinite(both) && both > 1 ? both : 1;
}

static void latency(const struct side *before, const struct side *now, double limit,
		    struct gate_verdict *v)
{
	double *room = calloc(MOST_SAMPLES + ROUNDS + 1, sizeof(*room));
	uint64_t state = 20240229;

	v->quiet_before = before->runs.n;
	v->quiet_now = now->runs.n;
	v->busy = before->runs.n < LEAST_QUIET || now->runs.n < LEAST_QUIET;
	if (!room || !before->runs.n || !now->runs.n) {
		free(room);
		return;
	}
	double *ratio = room + MOST_SAMPLES;
	v->before = quantile(&before->runs, room, NULL);
	v->now = quantile(&now->runs, room, NULL);
	v->machine = machine(before, now);
	v->ratio.value = v->now / v->before;
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
	v->open = !isnan(limit) && !v->slower && v->ratio.high > 1 + limit;
}

/* ---- nodes */

static const struct record_node *node_named(const struct record *r, const struct record_node *n)
{
	for (size_t k = 0; k < r->nnodes; k++)
		if (!strcmp(r->node[k].name, n->name) && !strcmp(r->node[k].op, n->op))
			return &r->node[k];
	return NULL;
}

static int by_growth(const void *a, const void *b)
{
	const struct gate_node *x = a, *y = b;
	double dx = x->now - x->before, dy = y->now - y->before;

	return dx < dy ? 1 : dx > dy ? -1 : 0;
}

static void nodes(const struct record *before, const struct record *now, double limit,
		  struct gate_verdict *v, struct arena *a)
{
	struct gate_node *all = calloc(now->nnodes + 1, sizeof(*all));
	size_t n = 0;

	for (size_t k = 0; all && k < now->nnodes; k++) {
		const struct record_node *is = &now->node[k], *was = node_named(before, is);
		if (!was || !was->n || !is->n)
			continue;
		all[n] = (struct gate_node){
			.name = arena_str(a, is->name),
			.op = arena_str(a, is->op),
			.fused = arena_str(a, is->fused),
			.before = stats_quantile_of(was->time, was->n, QUANTILE),
			.now = stats_quantile_of(is->time, is->n, QUANTILE) / v->machine};
		double grown = all[n].now - all[n].before;
		all[n].slower = grown > all[n].before * (isnan(limit) ? 0.05 : limit) &&
				grown > 0.01 * now->observed;
		n++;
	}
	if (all)
		qsort(all, n, sizeof(*all), by_growth);
	v->nnodes = n < GATE_NODES ? n : GATE_NODES;
	if (all)
		memcpy(v->node, all, v->nnodes * sizeof(*all));
	free(all);
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
					   was->live[k][i], is->live[k][i], 0, l);
	add_memory(v, "resident", was->rss, is->rss, NOTHING, l);
	add_memory(v, "private", was->private, is->private, NOTHING, l);
}

struct gate_verdict gate_compare(const struct record *before, const struct record *now,
				 const struct gate_limits *limits, struct arena *a)
{
	struct gate_verdict v = {.machine = 1};

	struct side x, y;
	make_sides(before, now, &x, &y);
	latency(&x, &y, limits->latency, &v);
	if (v.busy)
		blatant(before, now, limits->latency, &v);
	side_free(&x);
	side_free(&y);
	nodes(before, now, limits->latency, &v, a);
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
	differ(&s, "optimize", before->optimize, now->optimize);
	differ(&s, "threads", arena_printf(a, "%" PRId64, before->threads),
	       arena_printf(a, "%" PRId64, now->threads));
	differ(&s, "sessions", arena_printf(a, "%" PRId64, before->sessions),
	       arena_printf(a, "%" PRId64, now->sessions));
	return s.n ? str_get(&s) : NULL;
}
