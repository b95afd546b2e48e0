/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TREND_POINTS = 512, MOST_DRAWN = 4096 };

static const double SIGMA = 1.4826;  /* of a normal distribution, in median distances */
static const double FAR_AWAY = 10.0; /* robust deviations, as hyperfine has it */

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void sort(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), ascending);
}

double *stats_sorted(const double *v, size_t n)
{
	double *copy = calloc(n + 1, sizeof(*copy));

	if (copy && n) {
		memcpy(copy, v, n * sizeof(*copy));
		sort(copy, n);
	}
	return copy;
}

double stats_quantile(const double *sorted, size_t n, double q)
{
	if (!n)
		return NAN;
	double at = fmin(fmax(q, 0), 1) * (double)(n - 1);
	size_t k = (size_t)at;
	if (k + 1 >= n)
		return sorted[n - 1];
	return sorted[k] + (at - (double)k) * (sorted[k + 1] - sorted[k]);
}

double stats_quantile_of(const double *v, size_t n, double q)
{
	double *s = stats_sorted(v, n);
	double value = s ? stats_quantile(s, n, q) : NAN;

	free(s);
	return value;
}

static void moments(const double *v, size_t n, struct stats *s)
{
	double sum = 0, squares = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i];
	s->mean = sum / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (v[i] - s->mean) * (v[i] - s->mean);
	s->deviation = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

static bool is_far(double v, const struct stats *s)
{
	/* a series without any spread has no outliers but what differs by more than a tenth */
	double unit = fmax(s->mad, fabs(s->median) * 0.01);

	return fabs(v - s->median) > FAR_AWAY * unit;
}

struct stats stats_of(const double *v, size_t n)
{
	struct stats s = {n, NAN, NAN, NAN, NAN, NAN, NAN, 0};
	double *sorted = n ? stats_sorted(v, n) : NULL;

	if (!sorted)
		return s;
	s.min = sorted[0];
	s.max = sorted[n - 1];
	s.median = stats_quantile(sorted, n, 0.5);
	moments(v, n, &s);
	for (size_t i = 0; i < n; i++)
		sorted[i] = fabs(v[i] - s.median);
	sort(sorted, n);
	s.mad = SIGMA * stats_quantile(sorted, n, 0.5);
	free(sorted);
	for (size_t i = 0; i < n; i++)
		s.outliers += is_far(v[i], &s);
	return s;
}

size_t stats_outlier(const double *v, size_t n, const struct stats *s, size_t from)
{
	while (from < n && !is_far(v[from], s))
		from++;
	return from < n ? from : n;
}

/* ---- drawing lots */

/* A long series drawn whole takes seconds; fewer draws only widen the interval. */
static size_t drawn(size_t n)
{
	return n < MOST_DRAWN ? n : MOST_DRAWN;
}

/* Runs of neighbours, from anywhere, until there are enough of them. */
static void draw(const double *v, size_t n, size_t block, double *to, uint64_t *state)
{
	for (size_t i = 0; i < drawn(n);) {
		size_t from = (size_t)(stats_random(state) % n);
		for (size_t k = 0; k < block && i < drawn(n); k++)
			to[i++] = v[(from + k) % n];
	}
}

static size_t block_of(size_t block, size_t n)
{
	if (!block)
		block = (size_t)ceil(2 * cbrt((double)n));
	return block < n ? block : n;
}

static double drawn_quantile(const double *v, size_t n, double q, size_t block, double *room,
			     uint64_t *state)
{
	draw(v, n, block, room, state);
	sort(room, drawn(n));
	return stats_quantile(room, drawn(n), q);
}

static void bounds(double *rounds, int n, double level, struct interval *i)
{
	sort(rounds, (size_t)n);
	i->low = stats_quantile(rounds, (size_t)n, (1 - level) / 2);
	i->high = stats_quantile(rounds, (size_t)n, (1 + level) / 2);
}

struct interval stats_bootstrap(const double *v, size_t n, double q, size_t block, int rounds,
				double level, uint64_t seed)
{
	struct interval i = {stats_quantile_of(v, n, q), NAN, NAN};
	double *room = calloc(n + (size_t)rounds + 1, sizeof(*room));

	if (n && room && rounds > 0) {
		double *found = room + n;
		block = block_of(block, n);
		for (int r = 0; r < rounds; r++)
			found[r] = drawn_quantile(v, n, q, block, room, &seed);
		bounds(found, rounds, level, &i);
	}
	free(room);
	return i;
}

struct interval stats_ratio(const double *a, size_t na, const double *b, size_t nb, double q,
			    size_t block, int rounds, double level, uint64_t seed)
{
	struct interval i = {stats_quantile_of(b, nb, q) / stats_quantile_of(a, na, q), NAN, NAN};
	size_t most = na > nb ? na : nb;
	double *room = calloc(most + (size_t)rounds + 1, sizeof(*room));

	if (na && nb && room && rounds > 0) {
		double *found = room + most;
		for (int r = 0; r < rounds; r++) {
			double x = drawn_quantile(a, na, q, block_of(block, na), room, &seed);
			double y = drawn_quantile(b, nb, q, block_of(block, nb), room, &seed);
			found[r] = y / x;
		}
		bounds(found, rounds, level, &i);
	}
	free(room);
	return i;
}

/* ---- trend */

struct points {
	double x[TREND_POINTS], y[TREND_POINTS];
	size_t n;
};

/* Runs of equal length, each told by the median of its values. */
static void gather(const double *x, const double *y, size_t n, struct points *p)
{
	p->n = n < TREND_POINTS ? n : TREND_POINTS;
	for (size_t i = 0; i < p->n; i++) {
		size_t from = i * n / p->n, to = (i + 1) * n / p->n, middle = (from + to - 1) / 2;
		p->x[i] = x ? x[middle] : (double)middle;
		p->y[i] = stats_quantile_of(y + from, to - from, 0.5);
	}
}

/* Kendall's variance, less what ties take from it. */
static double kendall_variance(const struct points *p)
{
	double *y = stats_sorted(p->y, p->n), n = (double)p->n;
	double sum = n * (n - 1) * (2 * n + 5);

	for (size_t i = 0, k; y && i < p->n; i = k) {
		for (k = i; k < p->n && !(y[k] > y[i]); k++)
			;
		double t = (double)(k - i);
		sum -= t * (t - 1) * (2 * t + 5);
	}
	free(y);
	return sum / 18;
}

/* The normal distribution's quantile, by bisection: it is wanted once a trend. */
static double normal_quantile(double p)
{
	double low = -10, high = 10;

	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;
		if (0.5 * erfc(-middle / sqrt(2)) < p)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

static size_t pair_slopes(const struct points *p, double *slope, double *balance)
{
	size_t k = 0;

	*balance = 0;
	for (size_t i = 0; i < p->n; i++)
		for (size_t j = i + 1; j < p->n; j++) {
			double dx = p->x[j] - p->x[i], dy = p->y[j] - p->y[i];
			*balance += (dy > 0) - (dy < 0);
			if (dx > 0)
				slope[k++] = dy / dx;
		}
	sort(slope, k);
	return k;
}

static void sen_interval(const double *slope, size_t k, double variance, double level,
			 struct interval *i)
{
	double c = normal_quantile((1 + level) / 2) * sqrt(variance);
	double low = ((double)k - c) / 2, high = ((double)k + c) / 2;

	i->value = stats_quantile(slope, k, 0.5);
	i->low = slope[(size_t)fmax(0, floor(low))];
	i->high = slope[(size_t)fmin((double)(k - 1), ceil(high))];
}

struct trend stats_trend(const double *x, const double *y, size_t n, double level)
{
	struct trend t = {{NAN, NAN, NAN}, NAN, 1, 0};
	struct points *p = calloc(1, sizeof(*p));
	double *slope = calloc((size_t)TREND_POINTS * TREND_POINTS / 2, sizeof(*slope)), balance;

	if (p && slope && n >= 3) {
		gather(x, y, n, p);
		size_t k = pair_slopes(p, slope, &balance);
		double variance = kendall_variance(p);
		t.points = p->n;
		if (k)
			sen_interval(slope, k, variance, level, &t.slope);
		if (variance > 0 && fabs(balance) >= 1)
			t.probability = erfc((fabs(balance) - 1) / sqrt(2 * variance));
		for (size_t i = 0; i < p->n; i++)
			slope[i] = p->y[i] - t.slope.value * p->x[i];
		t.intercept = stats_quantile_of(slope, p->n, 0.5);
	}
	free(slope);
	free(p);
	return t;
}
