/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_GROWTH_H
#define CHECK_GROWTH_H
/* Decides whether a series of memory readings, one per run, shows nothing, an arena that fills up, or a leak. */
#include "base/stats.h"

enum growth { GROWTH_NONE, GROWTH_FLAT, GROWTH_LEAK };

enum {
	GROWTH_LEAST = 30, /* minimum number of readings: fewer cannot show a trend */
	/* values of `noise` for growth_judge, in bytes */
	GROWTH_NOISE = 512 * 1024, /* of a process's memory: the kernel updates its page counts in batches per thread */
	/* of malloc while plans are made and freed: it caches freed blocks and counts them as used */
	GROWTH_HEAP = 32 * 1024,
	/* of malloc while sessions are opened and closed: a GPU's driver keeps some memory of all closed ones together */
	GROWTH_DRIVER = 64 * 1024,
};

struct series {
	double *v;
	size_t n;
	enum growth verdict;
	struct trend trend; /* of the later part, in bytes per reading */
	double grown;	    /* bytes from the first reading to the last */
};

/*
 * Fills verdict, trend and grown from v and n. noise: bytes by which readings vary by themselves; 0: exact counters, for
 * which even a trend of one byte per run is a leak.
 */
void growth_judge(struct series *s, double noise);

#endif
