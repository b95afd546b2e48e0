/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate's comparison of nodes finds the nodes that became slower than the machine explains, and how much they add
 * to the latency. All nodes of a run share the machine at that moment, so that a node that grew more than the others
 * of the same runs is slower itself, even on a busy machine. Steps 5 and 6 of docs/gate.md.
 */
#include "profile/gate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200, MAX_NODES = 64 };

static const double LOW_QUANTILE = 0.1, LEVEL = 0.95;
static const double CLOCK_STEP =
	1e-9; /* seconds; a shorter time counts as this one, since times are used as divisors */
/* The machine may have become faster by this factor although no reference workload did. */
static const double UNSEEN_SPEEDUP = 0.9;
/*
 * Shares of the observed run. A node that grew by less than the first is not named, a node that takes less than the
 * second is not compared.
 */
static const double MIN_GROWTH_SHARE = 0.01, MIN_NODE_SHARE = 0.0025;
/* Nodes are named by this limit if the latency has none. */
static const double DEFAULT_LIMIT = 0.05;

enum side { BEFORE, NOW, SIDES };

/* A node that both sides have. */
struct pair {
	const double *time[SIDES]; /* of each observed run */
	double typical;		   /* tenth percentile before */
	/*
	 * The node's time in one run. run_time / typical is the node's growth in that run; the median growth of
	 * all nodes, weighted by their typical times, is the run's pace.
	 */
	double run_time;
};

struct comparison {
	size_t runs[SIDES]; /* observed runs */
	struct pair node[MAX_NODES];
	size_t n;
	double limit;
	double ratio; /* ratio of the plain runs' latency, 0 if not known because the machine was busy */
	double min_pace_ratio;
	double *pace[SIDES];   /* of each observed run, above 0 */
	size_t *sample[SIDES]; /* the runs that a round of the bootstrap drew */
	double *buffer;	       /* has room for one number per run of the side with more runs */
};

/*
 * Finds the same node in another record. Its kernel may have changed since, and is not compared, except for copies: a
 * fused node may have one copy to the device and one to the host, both of the same name.
 */
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

/* ---- the pace of each observed run */

static int by_growth(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	double p = x->run_time * y->typical, q = y->run_time * x->typical;

	return (p > q) - (p < q);
}

/* Returns the median of the nodes' growth, weighted by their typical times. Sorts the nodes by growth. */
static double weighted_median_growth(struct pair *node, size_t n)
{
	double total = 0, sum = 0;

	for (size_t k = 0; k < n; k++)
		total += node[k].typical;
	qsort(node, n, sizeof(*node), by_growth);
	for (size_t k = 0; k < n; k++) {
		sum += node[k].typical;
		if (sum >= total / 2)
			return node[k].run_time / node[k].typical;
	}
	return 1;
}

/* Returns a node's time in a run, made large enough to be a divisor. */
static double node_time(const double *time, size_t run)
{
	return fmax(time[run], CLOCK_STEP);
}

static void fill_paces(struct comparison *c)
{
	struct pair copy[MAX_NODES];

	for (size_t k = 0; k < c->n; k++) {
		struct pair *p = &c->node[k];
		p->typical = fmax(stats_quantile_of(p->time[BEFORE], c->runs[BEFORE], LOW_QUANTILE),
				  CLOCK_STEP);
	}
	for (int side = 0; side < SIDES; side++)
		for (size_t run = 0; run < c->runs[side]; run++) {
			memcpy(copy, c->node, c->n * sizeof(*copy));
			for (size_t k = 0; k < c->n; k++)
				copy[k].run_time = node_time(copy[k].time[side], run);
			c->pace[side][run] = weighted_median_growth(copy, c->n);
		}
}

/* ---- the nodes ratio */

/* Returns, over the runs drawn, the median of the node's time divided by the pace of the run. */
static double relative_time(const struct comparison *c, const struct pair *p, enum side side)
{
	for (size_t i = 0; i < c->runs[side]; i++) {
		size_t run = c->sample[side][i];
		c->buffer[i] = node_time(p->time[side], run) / c->pace[side][run];
	}
	return stats_quantile_of(c->buffer, c->runs[side], 0.5);
}

/* Returns, over the runs drawn, the pace when other programs left the machine alone. */
static double low_pace(const struct comparison *c, enum side side)
{
	for (size_t i = 0; i < c->runs[side]; i++)
		c->buffer[i] = c->pace[side][c->sample[side][i]];
	return stats_quantile_of(c->buffer, c->runs[side], LOW_QUANTILE);
}

/*
 * Returns by how much, as a ratio, the nodes that grew beyond the pace make a run longer, and sets *pace_ratio to
 * the pace ratio of the observed runs. A node that did not grow by the limit counts as unchanged: if other nodes were made
 * faster, the pace is lower, but this node is not slower.
 */
static double nodes_ratio(struct comparison *c, double *pace_ratio)
{
	double relative[SIDES][MAX_NODES], sum[SIDES] = {0, 0}, before = 0, now = 0;
	double observed = low_pace(c, NOW) / low_pace(c, BEFORE);

	for (size_t k = 0; k < c->n; k++)
		for (int side = 0; side < SIDES; side++) {
			relative[side][k] = relative_time(c, &c->node[k], (enum side)side);
			sum[side] += relative[side][k];
		}
	/* the pace ratio that explains the plain runs; the few observed runs may have had another pace ratio */
	double plain = c->ratio > 0 ? c->ratio * sum[BEFORE] / sum[NOW] : observed;
	double raise = fmax(plain, c->min_pace_ratio) / plain;
	for (size_t k = 0; k < c->n; k++) {
		double was = relative[BEFORE][k], is = relative[NOW][k];
		bool grew = is * plain > was * (1 + c->limit);
		before += was * raise;
		now += grew ? is : fmin(is, was * raise);
	}
	*pace_ratio = observed * raise;
	return now / before;
}

static struct interval nodes_interval(struct comparison *c, double *pace_ratio)
{
	struct interval i;
	double ratio[ROUNDS], ignored;
	uint64_t state = 20240301;

	for (int side = 0; side < SIDES; side++)
		for (size_t run = 0; run < c->runs[side]; run++)
			c->sample[side][run] = run;
	i.value = nodes_ratio(c, pace_ratio);
	for (int k = 0; k < ROUNDS; k++) {
		for (int side = 0; side < SIDES; side++)
			stats_resample(c->sample[side], c->runs[side], c->runs[side],
				       stats_block_length(c->runs[side]), &state);
		ratio[k] = nodes_ratio(c, &ignored);
	}
	i.low = stats_quantile_of(ratio, ROUNDS, (1 - LEVEL) / 2);
	i.high = stats_quantile_of(ratio, ROUNDS, (1 + LEVEL) / 2);
	return i;
}

/* ---- which nodes are compared */

static int by_typical_descending(const void *a, const void *b)
{
	double x = (*(const struct record_node *const *)a)->typical;
	double y = (*(const struct record_node *const *)b)->typical;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Selects the nodes that take most of the time, if both sides have them and timed them in each observed run. */
static void select_nodes(const struct record *before, const struct record *now, struct comparison *c)
{
	const struct record_node **sorted = calloc(now->nnodes + 1, sizeof(*sorted));

	if (!sorted)
		return;
	for (size_t k = 0; k < now->nnodes; k++)
		sorted[k] = &now->node[k];
	qsort(sorted, now->nnodes, sizeof(*sorted), by_typical_descending);
	for (size_t k = 0; k < now->nnodes && c->n < MAX_NODES; k++) {
		const struct record_node *is = sorted[k], *was = node_named(before, is);
		if (is->typical < MIN_NODE_SHARE * now->observed)
			break;
		if (was && was->n == c->runs[BEFORE] && is->n == c->runs[NOW])
			c->node[c->n++] = (struct pair){.time = {was->time, is->time}};
	}
	free(sorted);
}

/* ---- naming nodes */

static int by_growth_descending(const void *a, const void *b)
{
	const struct gate_node *x = a, *y = b;
	double dx = x->now - x->before, dy = y->now - y->before;

	return dx < dy ? 1 : dx > dy ? -1 : 0;
}

static int by_former_time_descending(const void *a, const void *b)
{
	const struct gate_node *x = a, *y = b;

	return x->before < y->before ? 1 : x->before > y->before ? -1 : 0;
}

static struct gate_node copy_names(const struct record_node *n, struct arena *a)
{
	return (struct gate_node){.name = arena_str(a, n->name),
				  .op = arena_str(a, n->op),
				  .fused = arena_str(a, n->fused)};
}

/*
 * Returns the tenth percentile of a node's times. It is 0 only if there is no such node, however short its times are.
 */
static double low_time(const struct record_node *n)
{
	return n && n->n ? fmax(stats_quantile_of(n->time, n->n, LOW_QUANTILE), CLOCK_STEP) : 0;
}

/* Lists the nodes of the current measurement, beginning with the node that grew most. Returns their number. */
static size_t list_current(const struct record *before, const struct record *now, double limit,
			   double pace_ratio, struct gate_node *to, struct arena *a)
{
	size_t count = 0;

	for (size_t k = 0; k < now->nnodes; k++) {
		const struct record_node *is = &now->node[k], *was = node_named(before, is);
		if (!is->n || (was && !was->n))
			continue;
		struct gate_node *n = &to[count++];
		*n = copy_names(is, a);
		n->before = low_time(was);
		n->measured = low_time(is);
		n->now = n->measured / pace_ratio;
		double growth = n->now - n->before;
		n->slower = growth > n->before * limit && growth > MIN_GROWTH_SHARE * now->observed;
	}
	qsort(to, count, sizeof(*to), by_growth_descending);
	return count;
}

/* Lists the nodes that only the baseline has, beginning with the node that took most time. Returns their number. */
static size_t list_removed(const struct record *before, const struct record *now,
			   struct gate_node *to, struct arena *a)
{
	size_t n = 0;

	for (size_t k = 0; k < before->nnodes; k++) {
		if (!before->node[k].n || node_named(now, &before->node[k]))
			continue;
		to[n] = copy_names(&before->node[k], a);
		to[n++].before = low_time(&before->node[k]);
	}
	qsort(to, n, sizeof(*to), by_former_time_descending);
	return n;
}

static void fill_named_nodes(const struct record *before, const struct record *now, double limit,
			     double pace_ratio, struct gate_verdict *v, struct arena *a)
{
	enum { MAX_REMOVED = 3 };
	struct gate_node *all = calloc(now->nnodes + before->nnodes + 1, sizeof(*all));

	v->nnodes = 0;
	if (all && before->nnodes && now->nnodes) {
		size_t current = list_current(before, now, limit, pace_ratio, all, a);
		size_t removed = list_removed(before, now, all + current, a);
		size_t last = removed < MAX_REMOVED ? removed : MAX_REMOVED;
		v->nnodes = current < GATE_NODES - last ? current : GATE_NODES - last;
		memcpy(v->node, all, v->nnodes * sizeof(*all));
		memcpy(v->node + v->nnodes, all + current, last * sizeof(*all));
		v->nnodes += last;
	}
	free(all);
}

/* ---- the comparison */

/*
 * Returns a lower bound of the pace ratio. Without a bound, nodes would seem slower if other nodes were made faster.
 * The bound is 1 unless a reference workload became faster. If the model as a whole is slower, the bound is lowered,
 * because the machine may be faster than the workloads tell, which would hide a slower node.
 */
static double min_pace_ratio(const struct gate_verdict *v)
{
	return v->ratio.value > 1 ? fmin(v->fastest_reference, UNSEEN_SPEEDUP) : v->fastest_reference;
}

static void decide_by_nodes(double limit, struct gate_verdict *v)
{
	v->slower |= v->nodes_ratio.low > 1 + limit;
	v->undecided = !v->slower && (v->undecided || gate_may_exceed(&v->nodes_ratio, limit));
}

void gate_compare_nodes(const struct record *before, const struct record *now, double limit,
			struct gate_verdict *v, struct arena *a)
{
	size_t nb = before->nobserved, nn = now->nobserved;
	bool latency_known = !v->busy && !v->cores_moved_closer, by_plain_runs = v->slower;
	double node_limit = isnan(limit) ? DEFAULT_LIMIT : limit;
	struct comparison c = {
		.runs = {nb, nn},
		.limit = node_limit,
		.ratio = latency_known ? v->ratio.value : 0,
		.min_pace_ratio = latency_known ? min_pace_ratio(v) : 0,
		.pace = {calloc(nb + 1, sizeof(double)), calloc(nn + 1, sizeof(double))},
		.sample = {calloc(nb + 1, sizeof(size_t)), calloc(nn + 1, sizeof(size_t))},
		.buffer = calloc((nb > nn ? nb : nn) + 1, sizeof(double))};
	double pace_ratio = fmax(v->machine_ratio, 1);

	v->nodes_ratio = (struct interval){NAN, NAN, NAN};
	if (nb && nn && c.pace[BEFORE] && c.pace[NOW] && c.sample[BEFORE] && c.sample[NOW] && c.buffer)
		select_nodes(before, now, &c);
	if (c.n) {
		fill_paces(&c);
		v->nodes_ratio = nodes_interval(&c, &pace_ratio);
		if (!isnan(limit))
			decide_by_nodes(limit, v);
	}
	for (int side = 0; side < SIDES; side++) {
		free(c.pace[side]);
		free(c.sample[side]);
	}
	free(c.buffer);
	/*
	 * If the plain runs are slower than the machine explains, the growth that all nodes share belongs to the model, and must not
	 * be divided out.
	 */
	if (v->by_work)
		pace_ratio = fmax(pace_ratio / v->work.value, 1);
	else if (by_plain_runs)
		pace_ratio = fmin(pace_ratio, fmax(v->machine_ratio, 1));
	fill_named_nodes(before, now, node_limit, pace_ratio, v, a);
}
