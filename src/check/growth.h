/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_GROWTH_H
#define CHECK_GROWTH_H
/*
 * Decides whether a series of memory readings, one per run, shows no growth, growth that ends (such as an arena
 * that fills up), or a leak.
 */
#include "base/stats.h"

enum growth { GROWTH_NONE, GROWTH_FLAT, GROWTH_LEAK };

enum {
	GROWTH_MIN_READINGS = 30, /* minimum number of readings; fewer readings cannot show a trend */

	/* The other three are values of `noise` for growth_judge, in bytes. */

	/* noise of a process's memory, whose page counts the kernel updates in batches per thread */
	GROWTH_NOISE = 512 * 1024,
	/*
	 * noise of malloc while plans are made and freed, because malloc caches freed blocks and counts them as used
	 */
	GROWTH_HEAP = 32 * 1024,
	/*
	 * noise of malloc's readings while sessions on a GPU are opened and closed: the driver keeps a few bytes
	 * of each closed session
	 */
	GROWTH_DRIVER = 64 * 1024,
};

struct series {
	double *v;
	size_t n;
	enum growth verdict;
	struct trend trend; /* trend of the later readings, in bytes per reading */
	double grown;	    /* bytes from the first reading to the last */
};

/*
 * Fills verdict, trend and grown from v and n. noise is the number of bytes by which readings vary by themselves. It
 * is 0 for exact counters, for which even a trend of one byte per run is a leak.
 */
void growth_judge(struct series *s, double noise);

#endif
