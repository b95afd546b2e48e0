/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TREND_POINTS = 512, MAX_DRAWN = 4096 };

/* Ratio of a normal distribution's standard deviation to its median absolute deviation. */
static const double SIGMA_PER_MAD = 1.4826;
/*
 * An outlier is further from the median than this many times the mad (stats.h); hyperfine uses the
 * same limit.
 */
static const double OUTLIER_MADS = 10.0;

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void sort_ascending(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare_doubles);
}

double *stats_sorted(const double *v, size_t n)
{
	double *copy = calloc(n + 1, sizeof(*copy));

	if (copy && n) {
		memcpy(copy, v, n * sizeof(*copy));
		sort_ascending(copy, n);
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

static void fill_mean_and_deviation(const double *v, size_t n, struct stats *s)
{
	double sum = 0, squares = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i];
	s->mean = sum / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (v[i] - s->mean) * (v[i] - s->mean);
	s->deviation = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

static bool is_outlier(double v, const struct stats *s)
{
	/*
	 * The unit is at least 1 % of the median, so that in a nearly constant series only values
	 * that differ from the median by more than a tenth are outliers.
	 */
	double unit = fmax(s->mad, fabs(s->median) * 0.01);

	return fabs(v - s->median) > OUTLIER_MADS * unit;
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
	fill_mean_and_deviation(v, n, &s);
	for (size_t i = 0; i < n; i++)
		sorted[i] = fabs(v[i] - s.median);
	sort_ascending(sorted, n);
	s.mad = SIGMA_PER_MAD * stats_quantile(sorted, n, 0.5);
	free(sorted);
	for (size_t i = 0; i < n; i++)
		s.outliers += is_outlier(v[i], &s);
	return s;
}

/* ---- bootstrap */

size_t stats_block_length(size_t n)
{
	size_t block = (size_t)ceil(2 * cbrt((double)n));

	return block < n ? block : n;
}

void stats_resample(size_t *index, size_t count, size_t n, size_t block, uint64_t *state)
{
	for (size_t i = 0; i < count;) {
		size_t from = (size_t)(stats_random(state) % n);
		for (size_t k = 0; k < block && i < count; k++)
			index[i++] = (from + k) % n;
	}
}

/* Buffers for one bootstrap resampling of a series. */
struct resample {
	size_t *index;
	double *value;
};

static bool resample_new(struct resample *r, size_t n)
{
	r->index = calloc(n + 1, sizeof(*r->index));
	r->value = calloc(n + 1, sizeof(*r->value));
	return r->index && r->value;
}

static void resample_free(struct resample *r)
{
	free(r->index);
	free(r->value);
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Returns the quantile of one bootstrap resampling of v. */
static double resampled_quantile(const double *v, size_t n, const struct bootstrap *how,
				 struct resample *r, uint64_t *state)
{
	size_t count = smaller(n, how->max_drawn ? how->max_drawn : MAX_DRAWN);
	size_t block = how->block ? smaller(how->block, n)
				  : stats_block_length(how->max_drawn ? count : n);

	stats_resample(r->index, count, n, block, state);
	for (size_t i = 0; i < count; i++)
		r->value[i] = v[r->index[i]];
	sort_ascending(r->value, count);
	return stats_quantile(r->value, count, how->quantile);
}

/* Computes the percentile confidence interval from the estimates of all bootstrap rounds. */
static void set_bounds(double *estimate, int rounds, double level, struct interval *i)
{
	sort_ascending(estimate, (size_t)rounds);
	i->low = stats_quantile(estimate, (size_t)rounds, (1 - level) / 2);
	i->high = stats_quantile(estimate, (size_t)rounds, (1 + level) / 2);
}

struct interval stats_bootstrap(const double *v, size_t n, const struct bootstrap *how)
{
	struct interval i = {stats_quantile_of(v, n, how->quantile), NAN, NAN};
	double *estimate = calloc((size_t)how->rounds + 1, sizeof(*estimate));
	struct resample r;
	bool ready = resample_new(&r, n) && estimate;
	uint64_t state = how->seed;

	if (ready && n && how->rounds > 0) {
		for (int k = 0; k < how->rounds; k++)
			estimate[k] = resampled_quantile(v, n, how, &r, &state);
		set_bounds(estimate, how->rounds, how->level, &i);
	}
	resample_free(&r);
	free(estimate);
	return i;
}

struct interval stats_ratio(const double *a, size_t na, const double *b, size_t nb,
			    const struct bootstrap *how)
{
	double q = how->quantile;
	struct interval i = {stats_quantile_of(b, nb, q) / stats_quantile_of(a, na, q), NAN, NAN};
	double *estimate = calloc((size_t)how->rounds + 1, sizeof(*estimate));
	struct resample r;
	bool ready = resample_new(&r, na > nb ? na : nb) && estimate;
	uint64_t state = how->seed;

	if (ready && na && nb && how->rounds > 0) {
		for (int k = 0; k < how->rounds; k++) {
			double x = resampled_quantile(a, na, how, &r, &state);
			double y = resampled_quantile(b, nb, how, &r, &state);
			estimate[k] = y / x;
		}
		set_bounds(estimate, how->rounds, how->level, &i);
	}
	resample_free(&r);
	free(estimate);
	return i;
}

/* ---- turns */

/*
 * Groups of turns differ if the error by their medians is larger than that by single turns by this factor: its square, 2, is
 * exceeded by chance in about one of eight measurements.
 */
static const double GROUPS_DIFFER = 1.414;

/* A mean with its standard error and degrees of freedom. */
struct estimate {
	double value, error;
	size_t freedom;
};

/*
 * Returns the probability that Student's t with this many degrees of freedom is within +- sqrt(freedom) tan(angle), by the
 * finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
 */
static double student_within(double angle, size_t freedom)
{
	double s = sin(angle), c = cos(angle), sum = 0;
	bool odd = freedom % 2;
	double term = odd ? c : 1;

	for (size_t k = odd ? 1 : 0; k + 1 < freedom; k += 2) {
		sum += term;
		term *= c * c * (double)(k + 1) / (double)(k + 2);
	}
	return odd ? 2 / M_PI * (angle + s * sum) : s * sum;
}

/* Returns the bound within which Student's t stays, on both sides of 0, with this probability. */
static double student_bound(double level, size_t freedom)
{
	double low = 0, high = M_PI / 2;

	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;
		if (student_within(middle, freedom) < level)
			low = middle;
		else
			high = middle;
	}
	return sqrt((double)freedom) * tan(low);
}

/* The mean of ascending values without a fifth of them at each end, which a burst of load would move; by Tukey and McLaughlin. */
static struct estimate trimmed_mean(const double *sorted, size_t n)
{
	size_t cut = n / 5, kept = n - 2 * cut;
	double sum = 0, winsorized = 0, squares = 0;

	for (size_t k = cut; k < n - cut; k++)
		sum += sorted[k];
	winsorized = (sum + (double)cut * (sorted[cut] + sorted[n - cut - 1])) / (double)n;
	for (size_t k = 0; k < n; k++) {
		double v = fmin(fmax(sorted[k], sorted[cut]), sorted[n - cut - 1]);
		squares += (v - winsorized) * (v - winsorized);
	}
	double deviation = n > 1 ? sqrt(squares / (double)(n - 1)) : NAN;
	return (struct estimate){sum / (double)kept, deviation * sqrt((double)n) / (double)kept,
				 kept - 1};
}

/* The mean of the groups' medians. Its error is larger than that of the single values if the groups differ. */
static struct estimate mean_of_groups(double *v, size_t n, size_t group)
{
	size_t groups = n / group;

	for (size_t k = 0; k < groups; k++)
		v[k] = stats_quantile_of(v + k * group, group, 0.5);
	struct stats s = stats_of(v, groups);
	return (struct estimate){s.mean, s.deviation / sqrt((double)groups), groups - 1};
}

struct interval stats_paired_ratio(const double *a, const double *b, size_t n, size_t group,
				   double level)
{
	enum { MIN_GROUPS = 3 };
	struct interval i = {NAN, NAN, NAN};
	double *ratio = calloc(n + 1, sizeof(*ratio));

	for (size_t k = 0; ratio && k < n; k++)
		ratio[k] = log(b[k] / a[k]);
	double *sorted = ratio && n ? stats_sorted(ratio, n) : NULL;
	if (sorted) {
		struct estimate e = trimmed_mean(sorted, n), of_groups = {0};
		double value = e.value;
		if (group > 1 && n / group >= MIN_GROUPS)
			of_groups = mean_of_groups(ratio, n, group);
		if (of_groups.error > GROUPS_DIFFER * e.error)
			e = of_groups;
		double half = e.freedom ? student_bound(level, e.freedom) * e.error : NAN;
		i = (struct interval){exp(value), exp(value - half), exp(value + half)};
	}
	free(sorted);
	free(ratio);
	return i;
}

/* ---- trend */

struct points {
	double x[MAX_TREND_POINTS], y[MAX_TREND_POINTS];
	size_t n;
};

/* Reduces a series to at most MAX_TREND_POINTS points: the medians of windows of equal length. */
static void reduce_to_medians(const double *x, const double *y, size_t n, struct points *p)
{
	p->n = n < MAX_TREND_POINTS ? n : MAX_TREND_POINTS;
	for (size_t i = 0; i < p->n; i++) {
		size_t from = i * n / p->n, to = (i + 1) * n / p->n, middle = (from + to - 1) / 2;
		p->x[i] = x ? x[middle] : (double)middle;
		p->y[i] = stats_quantile_of(y + from, to - from, 0.5);
	}
}

/*
 * Returns the variance that Kendall's S (rising pairs minus falling pairs) has if there is no
 * trend, corrected for ties.
 */
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

/*
 * Returns a quantile of the standard normal distribution. Bisection is slow, but each trend needs
 * only one quantile.
 */
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

/*
 * Computes the slopes of all pairs of points, in ascending order, and Kendall's S. Returns the
 * number of slopes.
 */
static size_t pair_slopes(const struct points *p, double *slope, double *s_statistic)
{
	size_t k = 0;

	*s_statistic = 0;
	for (size_t i = 0; i < p->n; i++)
		for (size_t j = i + 1; j < p->n; j++) {
			double dx = p->x[j] - p->x[i], dy = p->y[j] - p->y[i];
			*s_statistic += (dy > 0) - (dy < 0);
			if (dx > 0)
				slope[k++] = dy / dx;
		}
	sort_ascending(slope, k);
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
	double *slope = calloc((size_t)MAX_TREND_POINTS * MAX_TREND_POINTS / 2, sizeof(*slope)),
	       s_statistic;

	if (p && slope && n >= 3) {
		reduce_to_medians(x, y, n, p);
		size_t k = pair_slopes(p, slope, &s_statistic);
		double variance = kendall_variance(p);
		t.points = p->n;
		if (k)
			sen_interval(slope, k, variance, level, &t.slope);
		if (variance > 0 && fabs(s_statistic) >= 1)
			t.probability = erfc((fabs(s_statistic) - 1) / sqrt(2 * variance));
		for (size_t i = 0; i < p->n; i++)
			slope[i] = p->y[i] - t.slope.value * p->x[i];
		t.intercept = stats_quantile_of(slope, p->n, 0.5);
	}
	free(slope);
	free(p);
	return t;
}
