/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STATS_H
#define BASE_STATS_H
/* Statistics of measured series. What draws lots is seeded: the same numbers give the same verdict. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interval {
	double value, low, high;
};

struct stats {
	size_t n;
	double min, max, mean, median;
	double deviation; /* standard deviation of the sample (n - 1) */
	double mad;	  /* median of the distances from the median, times 1.4826 */
	size_t outliers;  /* further than 10 robust deviations from the median */
};
/* Of n values in any order; all NAN where n is 0. */
struct stats stats_of(const double *v, size_t n);

/* Ascending copy; the caller frees. NULL where the system refuses memory. */
double *stats_sorted(const double *v, size_t n);
/* Quantile q (0..1) of ascending values, linear between neighbours; NAN where n is 0. */
double stats_quantile(const double *sorted, size_t n, double q);
/* The same of values in any order. */
double stats_quantile_of(const double *v, size_t n, double q);
/* Index of the first of values (in measured order) beyond 10 robust deviations, from `from`; n: none. */
size_t stats_outlier(const double *v, size_t n, const struct stats *s, size_t from);

/*
 * Quantile q with its bootstrap interval at `level` (0.95). Neighbouring samples resemble each
 * other on a busy machine, so lots are drawn by runs of `block` samples (1: samples one by one; 0: about
 * n^(1/3) * 2). Of more than 4,096 samples as many are drawn: the interval is the wider for it.
 */
struct interval stats_bootstrap(const double *v, size_t n, double q, size_t block, int rounds,
				double level, uint64_t seed);

/*
 * The quotient of two series' quantiles, b / a, with its interval: both sides drawn anew in every
 * round.
 */
struct interval stats_ratio(const double *a, size_t na, const double *b, size_t nb, double q,
			    size_t block, int rounds, double level, uint64_t seed);

/*
 * Theil and Sen's slope of y over x (x NULL: 0, 1, 2, ...), the median of the slopes of all pairs, with
 * its interval at `level` after Sen; Kendall's test for a trend. More than 512 points are gathered into
 * runs of equal length, each told by its median.
 */
struct trend {
	struct interval slope;
	double intercept;   /* median of y - slope * x */
	double probability; /* of a trend this clear where there is none, both sides */
	size_t points;	    /* that were used */
};
struct trend stats_trend(const double *x, const double *y, size_t n, double level);

/* Numbers for draws: splitmix64. */
static inline uint64_t stats_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

#endif
