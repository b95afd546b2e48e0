/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SERIES_H
#define WATCH_SERIES_H
/* Samples of a quantity over time, in bounded memory, and a test whether the quantity keeps growing. */
#include <stdbool.h>
#include <stddef.h>

/*
 * Capacity of a series. When a series is full, every second sample is dropped and new samples are taken half as
 * often.
 */
enum { SERIES_MOST = 1024 };
struct series {
	/* for each sample: time in seconds, value, and number of calls that the program has made so far */
	double *x, *y, *work;
	size_t n;
	unsigned stride, skipped;
	double first, last, peak; /* values, including samples that were dropped */
};
/* Returns false if out of memory. */
bool series_add(struct series *s, double x, double work, double y);
void series_free(struct series *s);

enum verdict_kind { VERDICT_SHORT, VERDICT_STABLE, VERDICT_FLAT, VERDICT_LEAK };
struct series_verdict {
	enum verdict_kind kind;
	double slope, low,
		high; /* growth per second over the judged part, with its 99 % confidence interval */
	double from, to; /* beginning and end of the judged part, in seconds */
	double grown;	 /* last sample minus first sample */
};
/*
 * Judges only the later half of the work (of the time if calls are not counted), because starting up takes time and
 * memory but few calls. A significant rise in that half, in each of its quarters, is a leak, however small. If the
 * rise ended before that half, the memory filled an arena and is no leak (VERDICT_FLAT). The same holds if the value
 * stopped rising when the calls stopped, and stayed constant for as long again: the program has loaded the data it
 * needs. The test is the Theil-Sen slope with Kendall's test (stats.h). `noise` is the smallest rise that counts, and
 * is 0 for exact counters.
 */
struct series_verdict series_judge(const struct series *s, double noise);

#endif
