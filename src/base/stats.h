/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STATS_H
#define BASE_STATS_H
/*
 * Statistics of measured series. Random draws are seeded, so that the same numbers always give the same result.
 * docs/gate.md names the papers behind the methods.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An estimate and the bounds of its confidence interval. */
struct interval {
	double value, low, high;
};

struct stats {
	size_t n;
	double min, max, mean, median;
	double deviation; /* standard deviation of the sample (divisor n - 1) */
	double mad;	  /* median absolute deviation from the median, times 1.4826 */
	size_t outliers;  /* values further than 10 mad from the median */
};
/* Of n values in any order; all NAN if n is 0. */
struct stats stats_of(const double *v, size_t n);

/* Ascending copy, which the caller frees. NULL if the system refuses memory. */
double *stats_sorted(const double *v, size_t n);
/* Quantile q (0..1) of ascending values, interpolated between neighbours (Hyndman and Fan's type 7); NAN if n is 0. */
double stats_quantile(const double *sorted, size_t n, double q);
/* The same of values in any order. */
double stats_quantile_of(const double *v, size_t n, double q);
/* Index of the first outlier at or after index `from`, of values in the order of measurement; n if there is none. */
size_t stats_outlier(const double *v, size_t n, const struct stats *s, size_t from);

/*
 * How to find the confidence interval of a quantile: by the circular block bootstrap (Politis and Romano 1992). Runs
 * that follow one another resemble each other on a busy machine, therefore blocks of neighbours are drawn.
 */
struct bootstrap {
	double quantile; /* the statistic, 0..1 */
	double level;	 /* of the interval: 0.95 */
	int rounds;	 /* how often the series are resampled */
	size_t block; /* samples of a block; 1: independent samples; 0: stats_block_length of n or max_drawn */
	size_t max_drawn; /* drawn of a longer series, which only widens the interval; 0: 4,096 */
	uint64_t seed;
};
/* The quantile of a series. */
struct interval stats_bootstrap(const double *v, size_t n, const struct bootstrap *how);
/* The ratio of two series' quantiles, b / a; both are resampled in every round. */
struct interval stats_ratio(const double *a, size_t na, const double *b, size_t nb,
			    const struct bootstrap *how);

/* The building blocks of a bootstrap of something else: 2 n^(1/3), rounded up, and at most n. */
size_t stats_block_length(size_t n);
/* Fills `count` indices below n, by blocks that begin anywhere and go on with index 0 behind the last. */
void stats_resample(size_t *index, size_t count, size_t n, size_t block, uint64_t *state);

/*
 * Slope of y over x (x NULL: 0, 1, 2, ...) as Theil and Sen estimate it: the median slope of all pairs of points, with
 * Sen's interval at `level` (1968); and Mann and Kendall's test for a trend. More than 512 points are first
 * reduced to the medians of 512 windows of equal length.
 */
struct trend {
	struct interval slope;
	double intercept; /* median of y - slope * x */
	double probability; /* p-value of the two-sided test: chance of so clear a trend if there is none */
	size_t points; /* used, at most 512 */
};
struct trend stats_trend(const double *x, const double *y, size_t n, double level);

/* Next 64 random bits: splitmix64 (Steele, Lea and Flood 2014). */
static inline uint64_t stats_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

#endif
