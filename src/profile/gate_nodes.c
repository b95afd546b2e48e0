/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes' part of the gate: which became slower than all of them did, and what that makes of the whole. */
#include "profile/gate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200, MOST_ROWS = 64 };

static const double QUANTILE = 0.1, MIDDLE = 0.5, LEVEL = 0.95;
static const double STEP = 1e-9; /* of a clock, s: less is none */
/* a machine may be as much faster without known work to tell of it */
static const double UNSEEN = 0.9;
static const double WORTH = 0.01; /* of the run: less than this nobody looks at */

/* A node's times of each observed run, then and now. */
struct row {
	const double *was, *is;
	double before, now; /* of the runs drawn */
};

struct draw {
	const struct record *before, *now;
	struct row row[MOST_ROWS];
	size_t n;
	double limit;
	double whole; /* how much longer the runs took that nobody observed; 0: not known */
	double least; /* that the nodes may have in common: on a quiet machine they may well be faster */
	size_t *pick[2];  /* runs, by side */
	double *level[2]; /* what the nodes of each run have in common, by side; above 0 */
	double *room;
};

/* A fused node has copies both ways, told apart by their kernel; other nodes may have another kernel now. */
static const struct record_node *node_named(const struct record *r, const struct record_node *n)
{
	bool copy = !strcmp(n->op, "Copy") && n->kernel;

	for (size_t k = 0; k < r->nnodes; k++) {
		const struct record_node *m = &r->node[k];
		if (!strcmp(m->name, n->name) && !strcmp(m->op, n->op) &&
		    (!copy || (m->kernel && !strcmp(m->kernel, n->kernel))))
			return m;
	}
	return NULL;
}

/* A node's time of a run; above 0, for it is divided by. */
static double took(const double *time, size_t run)
{
	return fmax(time[run], STEP);
}

/* What a node took in the runs drawn, over what each run's nodes have in common. */
static double typical(const struct draw *d, const double *time, int side, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t run = d->pick[side][i];
		d->room[i] = took(time, run) / d->level[side][run];
	}
	return stats_quantile_of(d->room, n, MIDDLE);
}

/* How fast the machine was when it was left alone. */
static double pace(const struct draw *d, int side, size_t n)
{
	for (size_t i = 0; i < n; i++)
		d->room[i] = d->level[side][d->pick[side][i]];
	return stats_quantile_of(d->room, n, QUANTILE);
}

static int by_ratio(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	double p = x->now * y->before, q = y->now * x->before;

	return p < q ? -1 : p > q;
}

/* What half of the time, by the nodes that grew least, grew at most. */
static double common(struct row *row, size_t n)
{
	double whole = 0, sum = 0;

	for (size_t k = 0; k < n; k++)
		whole += row[k].before;
	qsort(row, n, sizeof(*row), by_ratio);
	for (size_t k = 0; k < n; k++) {
		sum += row[k].before;
		if (sum >= whole / 2)
			return row[k].now / row[k].before;
	}
	return 1;
}

/*
 * How much longer the run takes, less what all nodes have in common: in each run by itself, since that changes from one to
 * the next. A node that did not grow at all is not slower where the others became faster.
 */
static double growth(struct draw *d, double *shared)
{
	size_t nb = d->before->nobserved, nn = d->now->nobserved;
	double was[MOST_ROWS], is[MOST_ROWS], before = 0, now = 0, then = 0;
	double observed = pace(d, 1, nn) / pace(d, 0, nb);

	for (size_t k = 0; k < d->n; k++) {
		before += was[k] = typical(d, d->row[k].was, 0, nb);
		now += is[k] = typical(d, d->row[k].is, 1, nn);
	}
	/* observed runs are few and may have had another pace than the others */
	double all = d->whole > 0 ? d->whole * before / now : observed;
	double fair = fmax(all, d->least) / all;
	*shared = observed * fair;
	now = 0;
	for (size_t k = 0; k < d->n; k++) {
		bool grew = is[k] * all > was[k] * (1 + d->limit);
		then += was[k] * fair;
		now += grew ? is[k] : fmin(is[k], was[k] * fair);
	}
	return now / then;
}

/* What the nodes of each run have in common, as a multiple of what they took before. */
static void fill_levels(struct draw *d)
{
	struct row row[MOST_ROWS];
	size_t runs[2] = {d->before->nobserved, d->now->nobserved};

	for (size_t k = 0; k < d->n; k++)
		d->row[k].before = fmax(stats_quantile_of(d->row[k].was, runs[0], QUANTILE), STEP);
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < runs[side]; i++) {
			memcpy(row, d->row, d->n * sizeof(*row));
			for (size_t k = 0; k < d->n; k++)
				row[k].now = took(side ? row[k].is : row[k].was, i);
			d->level[side][i] = common(row, d->n);
		}
}

/* Runs drawn by neighbours; state NULL: all of them. */
static void pick(size_t *to, size_t n, uint64_t *state)
{
	size_t block = (size_t)ceil(2 * cbrt((double)n)), i = 0;

	while (i < n) {
		size_t at = state ? (size_t)(stats_random(state) % n) : i;
		for (size_t k = 0; k < block && i < n; k++)
			to[i++] = (at + k) % n;
	}
}

static int heavier(const void *a, const void *b)
{
	double x = (*(const struct record_node *const *)a)->typical;
	double y = (*(const struct record_node *const *)b)->typical;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* The nodes that take most of the time and that both sides have. */
static void fill_rows(struct draw *d)
{
	const struct record *r = d->now;
	const struct record_node **all = calloc(r->nnodes + 1, sizeof(*all));

	for (size_t k = 0; all && k < r->nnodes; k++)
		all[k] = &r->node[k];
	if (all)
		qsort(all, r->nnodes, sizeof(*all), heavier);
	for (size_t k = 0; all && k < r->nnodes && d->n < MOST_ROWS; k++) {
		const struct record_node *is = all[k], *was = node_named(d->before, is);
		if (is->typical < WORTH / 4 * r->observed)
			break;
		if (was && was->n == d->before->nobserved && is->n == r->nobserved)
			d->row[d->n++] = (struct row){.was = was->time, .is = is->time};
	}
	free(all);
}

static void compare(struct draw *d, bool gate, struct gate_verdict *v, double *shared)
{
	double ratio[ROUNDS], ignored;
	uint64_t state = 20240301;

	pick(d->pick[0], d->before->nobserved, NULL);
	pick(d->pick[1], d->now->nobserved, NULL);
	fill_levels(d);
	v->nodes.value = growth(d, shared);
	for (int i = 0; i < ROUNDS; i++) {
		pick(d->pick[0], d->before->nobserved, &state);
		pick(d->pick[1], d->now->nobserved, &state);
		ratio[i] = growth(d, &ignored);
	}
	v->nodes.low = stats_quantile_of(ratio, ROUNDS, (1 - LEVEL) / 2);
	v->nodes.high = stats_quantile_of(ratio, ROUNDS, (1 + LEVEL) / 2);
	if (!gate)
		return;
	v->slower |= v->nodes.low > 1 + d->limit;
	v->open = !v->slower &&
		  (v->open || (v->nodes.high > 1 + d->limit && v->nodes.value > 1 + d->limit / 2));
}

/*
 * The observed runs are a second witness: what made the plain ones slower, and is the model's, is in them too. Where they
 * deny it, the memory's places or the cores' were other ones for a while; more samples may tell.
 */
static void second_witness(const struct record *before, const struct record *now, double limit,
			   struct gate_verdict *v)
{
	enum { LEAST = 10 };

	if (!v->slower || v->busy || isnan(limit) || before->nobserved < LEAST ||
	    now->nobserved < LEAST)
		return;
	struct interval i = stats_ratio(before->observed_time, before->nobserved, now->observed_time,
					now->nobserved, QUANTILE, 0, ROUNDS, LEVEL, 20240302);
	if (!(i.high / v->machine > 1 + limit)) {
		v->slower = false;
		v->open = true;
	}
}

static int by_growth(const void *a, const void *b)
{
	const struct gate_node *x = a, *y = b;
	double dx = x->now - x->before, dy = y->now - y->before;

	return dx < dy ? 1 : dx > dy ? -1 : 0;
}

static int by_loss(const void *a, const void *b)
{
	const struct gate_node *x = a, *y = b;

	return x->before < y->before ? 1 : x->before > y->before ? -1 : 0;
}

static struct gate_node named(const struct record_node *n, struct arena *a)
{
	return (struct gate_node){.name = arena_str(a, n->name),
				  .op = arena_str(a, n->op),
				  .fused = arena_str(a, n->fused)};
}

/* 0 where it is not there, and only there: what takes less than a step of the clock is. */
static double lowest_tenth(const struct record_node *n)
{
	return n && n->n ? fmax(stats_quantile_of(n->time, n->n, QUANTILE), STEP) : 0;
}

/* The worst first. */
static size_t nodes_now(const struct record *before, const struct record *now, double limit,
			double shared, struct gate_node *to, struct arena *a)
{
	size_t count = 0;

	for (size_t k = 0; k < now->nnodes; k++) {
		const struct record_node *is = &now->node[k], *was = node_named(before, is);
		if (!is->n || (was && !was->n))
			continue;
		struct gate_node *n = &to[count++];
		*n = named(is, a);
		n->before = lowest_tenth(was);
		n->now = lowest_tenth(is) / shared;
		double grown = n->now - n->before;
		n->slower = grown > n->before * (isnan(limit) ? 0.05 : limit) &&
			    grown > WORTH * now->observed;
	}
	qsort(to, count, sizeof(*to), by_growth);
	return count;
}

/* Those that are not there any more, the heaviest first. */
static size_t nodes_gone(const struct record *before, const struct record *now,
			 struct gate_node *to, struct arena *a)
{
	size_t n = 0;

	for (size_t k = 0; k < before->nnodes; k++) {
		if (!before->node[k].n || node_named(now, &before->node[k]))
			continue;
		to[n] = named(&before->node[k], a);
		to[n++].before = lowest_tenth(&before->node[k]);
	}
	qsort(to, n, sizeof(*to), by_loss);
	return n;
}

static void name_nodes(const struct record *before, const struct record *now, double limit,
		       double shared, struct gate_verdict *v, struct arena *a)
{
	enum { MOST_GONE = 3 };
	struct gate_node *all = calloc(now->nnodes + before->nnodes + 1, sizeof(*all));

	v->nnodes = 0;
	if (all && before->nnodes && now->nnodes) {
		size_t here = nodes_now(before, now, limit, shared, all, a);
		size_t gone = nodes_gone(before, now, all + here, a);
		size_t last = gone < MOST_GONE ? gone : MOST_GONE;
		v->nnodes = here < GATE_NODES - last ? here : GATE_NODES - last;
		memcpy(v->node, all, v->nnodes * sizeof(*all));
		memcpy(v->node + v->nnodes, all + here, last * sizeof(*all));
		v->nnodes += last;
	}
	free(all);
}

/* Where the whole is not faster, a node that is slower may hide behind a machine that is faster. */
static double least_in_common(const struct gate_verdict *v, bool known)
{
	if (!known)
		return 0;
	return v->ratio.value > 1 ? fmin(v->faster, UNSEEN) : v->faster;
}

void gate_nodes(const struct record *before, const struct record *now, double limit,
		struct gate_verdict *v, struct arena *a)
{
	size_t nb = before->nobserved, nn = now->nobserved;
	bool known = !v->busy && !v->moved; /* the whole is */
	struct draw d = {.before = before,
			 .now = now,
			 .limit = isnan(limit) ? 0.05 : limit,
			 .whole = known ? v->ratio.value : 0,
			 .least = least_in_common(v, known),
			 .pick = {calloc(nb + 1, sizeof(size_t)), calloc(nn + 1, sizeof(size_t))},
			 .level = {calloc(nb + 1, sizeof(double)), calloc(nn + 1, sizeof(double))},
			 .room = calloc((nb > nn ? nb : nn) + 1, sizeof(double))};
	double shared = fmax(v->machine, 1);

	v->nodes = (struct interval){NAN, NAN, NAN};
	second_witness(before, now, limit, v);
	if (nb && nn && d.pick[0] && d.pick[1] && d.level[0] && d.level[1] && d.room)
		fill_rows(&d);
	if (d.n)
		compare(&d, !isnan(limit), v, &shared);
	free(d.pick[0]);
	free(d.pick[1]);
	free(d.level[0]);
	free(d.level[1]);
	free(d.room);
	name_nodes(before, now, limit, shared, v, a);
}
