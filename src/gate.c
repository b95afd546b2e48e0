/* SPDX-License-Identifier: Apache-2.0 */
#include "gate.h"

#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 600, MOST_SAMPLES = 4000 };

static const double QUANTILE = 0.1, LEVEL = 0.99;
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

/* ---- bootstrap in two levels */

/* Samples with the lengths of the rounds they came from. */
struct sample {
	const double *v;
	size_t n;
	const size_t *rounds;
	size_t nrounds;
};

static struct sample sample_of(const struct record *r)
{
	const struct record_point *p = &r->point[0];
	struct sample s = {.v = p->time, .n = p->n, .rounds = p->rounds, .nrounds = p->nrounds};

	return s;
}

static double redrawn(const struct sample *s, double *room, uint64_t *state)
{
	size_t whole[1] = {s->n}, n = 0;
	const size_t *rounds = s->nrounds ? s->rounds : whole;
	size_t nrounds = s->nrounds ? s->nrounds : 1;

	for (size_t k = 0; k < nrounds; k++) {
		size_t pick = (size_t)(stats_random(state) % nrounds), from = 0;
		for (size_t i = 0; i < pick; i++)
			from += rounds[i];
		size_t len = rounds[pick], block = (size_t)ceil(2 * cbrt((double)len));
		/* long series are thinned: the interval would not change */
		size_t want = len < MOST_SAMPLES / nrounds ? len : MOST_SAMPLES / nrounds;
		for (size_t i = 0; len && i < want;) {
			size_t at = (size_t)(stats_random(state) % len);
			for (size_t j = 0; j < block && i < want; j++, i++)
				room[n++] = s->v[from + (at + j) % len];
		}
	}
	return stats_quantile_of(room, n, QUANTILE);
}

static double yard_quantile(const double *v, size_t n, double *room, uint64_t *state)
{
	for (size_t i = 0; i < n; i++)
		room[i] = v[state ? (size_t)(stats_random(state) % n) : i];
	return stats_quantile_of(room, n, QUANTILE);
}

/* How much slower the machine is, by the kind of work that suffers most. */
static double machine(const struct record *before, const struct record *now, double *room,
		      uint64_t *state)
{
	double worst = 1;

	for (int k = 0; k < 2 && before->nyard && now->nyard; k++) {
		double was = yard_quantile(before->yard[k], before->nyard, room, state);
		double is = yard_quantile(now->yard[k], now->nyard, room, state);
		worst = fmax(worst, was > 0 ? is / was : 1);
	}
	return worst;
}

static void latency(const struct record *before, const struct record *now, double limit,
		    struct gate_verdict *v)
{
	struct sample a = sample_of(before), b = sample_of(now);
	size_t most = before->nyard > now->nyard ? before->nyard : now->nyard;
	most = most > 2 * MOST_SAMPLES ? most : 2 * MOST_SAMPLES;
	double *room = calloc(most + 2 * ROUNDS + 1, sizeof(*room));
	uint64_t state = 20240229;

	if (!room)
		return;
	double *ratio = room + most, *fair = ratio + ROUNDS;
	v->before = stats_quantile_of(a.v, a.n, QUANTILE);
	v->now = stats_quantile_of(b.v, b.n, QUANTILE);
	v->machine = machine(before, now, room, NULL);
	v->ratio.value = v->now / v->before;
	v->fair.value = v->ratio.value / v->machine;
	for (int i = 0; i < ROUNDS; i++) {
		double was = redrawn(&a, room, &state);
		ratio[i] = redrawn(&b, room, &state) / was;
		fair[i] = ratio[i] / machine(before, now, room, &state);
	}
	v->ratio.low = stats_quantile_of(ratio, ROUNDS, (1 - LEVEL) / 2);
	v->ratio.high = stats_quantile_of(ratio, ROUNDS, (1 + LEVEL) / 2);
	v->fair.low = stats_quantile_of(fair, ROUNDS, (1 - LEVEL) / 2);
	v->fair.high = stats_quantile_of(fair, ROUNDS, (1 + LEVEL) / 2);
	v->slower = !isnan(limit) && v->fair.low > 1 + limit;
	v->open = !isnan(limit) && !v->slower && v->fair.high > 1 + limit &&
		  v->fair.value > 1 + limit / 2;
	free(room);
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

	latency(before, now, limits->latency, &v);
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
