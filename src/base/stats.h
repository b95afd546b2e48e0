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
/* Computes the statistics of n values in any order. All members are NAN if n is 0. */
struct stats stats_of(const double *v, size_t n);

/*
 * Returns a copy of the values in ascending order, which the caller frees, or NULL if the system
 * refuses memory.
 */
double *stats_sorted(const double *v, size_t n);
/*
 * Returns quantile q (0..1) of ascending values, interpolated between neighbours (Hyndman and Fan's
 * type 7); NAN if n is 0.
 */
double stats_quantile(const double *sorted, size_t n, double q);
/* Returns the quantile of values in any order. */
double stats_quantile_of(const double *v, size_t n, double q);

/*
 * Parameters of the circular block bootstrap (Politis and Romano 1992), which computes the
 * confidence interval of a quantile. On a busy machine, runs that follow one another resemble each
 * other, so blocks of neighbouring samples are drawn instead of single samples.
 */
struct bootstrap {
	double quantile; /* the statistic, 0..1 */
	double level;	 /* confidence level of the interval, such as 0.95 */
	int rounds;	 /* how often the series are resampled */
	/*
	 * samples per block; 1 if samples are independent; 0 for stats_block_length() of the number
	 * of drawn samples
	 */
	size_t block;
	/*
	 * at most this many samples are drawn, which only widens the interval of a longer series; 0
	 * means 4,096
	 */
	size_t max_drawn;
	uint64_t seed;
};
/* The quantile of a series. */
struct interval stats_bootstrap(const double *v, size_t n, const struct bootstrap *how);
/*
 * Returns the ratio b / a of two series' quantiles, with its interval. Every round resamples both
 * series.
 */
struct interval stats_ratio(const double *a, size_t na, const double *b, size_t nb,
			    const struct bootstrap *how);

/*
 * Returns the ratio b / a of two series that were measured in turns, with its interval: a[i] and b[i] are the means of turn i, one
 * soon after the other, so that a load which lasts longer than a turn divides out of their ratio. If chance decided which of
 * the two came first, the interval of equal series holds 1 as often as `level` says, whatever the load does. The estimate is the
 * trimmed mean of the ratios' logarithms, the interval Student's (Yuen 1974). If `group` turns in a row (one process) resemble one
 * another more than the others, groups count as single observations. The bounds are NAN if there are fewer than two turns.
 */
struct interval stats_paired_ratio(const double *a, const double *b, size_t n, size_t group,
				   double level);

/*
 * Returns the block length for a series of n samples: 2 n^(1/3), rounded up, and at most n. This
 * function and stats_resample() let a caller bootstrap other statistics.
 */
size_t stats_block_length(size_t n);
/*
 * Fills `count` indices below n with blocks of consecutive indices. Each block begins at a random
 * index and continues with index 0 after index n - 1.
 */
void stats_resample(size_t *index, size_t count, size_t n, size_t block, uint64_t *state);

/*
 * Theil and Sen's estimate of the slope of y over x: the median slope of all pairs of points, with
 * Sen's confidence interval (1968) at `level`; and Mann and Kendall's test for a trend. If x is
 * NULL, it is 0, 1, 2, ... More than 512 points are first reduced to the medians of 512 windows of
 * equal length.
 */
struct trend {
	struct interval slope;
	double intercept; /* median of y - slope * x */
	/* p-value of the two-sided test: probability of a trend at least this clear by chance */
	double probability;
	size_t points; /* used, at most 512 */
};
struct trend stats_trend(const double *x, const double *y, size_t n, double level);

/* Returns the next 64 random bits of splitmix64 (Steele, Lea and Flood 2014). */
static inline uint64_t stats_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

#endif
