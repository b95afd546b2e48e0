/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SERIES_H
#define WATCH_SERIES_H
/* A quantity over time, in bounded memory, and whether it keeps growing. */
#include <stdbool.h>
#include <stddef.h>

/* When it is full every second sample goes and the rest are taken half as often. */
enum { SERIES_MOST = 1024 };
struct series {
	double *x, *y, *work; /* seconds, value, calls made so far */
	size_t n;
	unsigned stride, skipped;
	double first, last, peak; /* values */
};
/* False where the system refuses memory. */
bool series_add(struct series *s, double x, double work, double y);
void series_free(struct series *s);

enum verdict_kind { VERDICT_SHORT, VERDICT_STABLE, VERDICT_FLAT, VERDICT_LEAK };
struct series_verdict {
	enum verdict_kind kind;
	double slope, low, high; /* per second, over the part that was judged, with its interval */
	double from, to;	 /* seconds: that part */
	double grown;		 /* from the first to the last sample */
};
/*
 * What came in the later half of the work is judged (of the time, where none is counted): starting up takes time and
 * memory but few calls. A significant rise there, in each of its quarters, is a leak, however small; a
 * rise that ended before is an arena that filled, and one that ended with the work, for as long again, a program that
 * loaded what it needs. Theil and Sen's slope with Kendall's test (stats.h); noise
 * is the least rise worth a word, 0 for exact counters.
 */
struct series_verdict series_judge(const struct series *s, double noise);

#endif
