/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_GROWTH_H
#define CHECK_GROWTH_H
/* What a series of memory readings, one a run, says: nothing, an arena that fills, or a leak. */
#include "base/stats.h"

enum growth { GROWTH_NONE, GROWTH_FLAT, GROWTH_LEAK };

enum {
	GROWTH_LEAST = 30,	   /* readings; below that no trend is believed */
	GROWTH_NOISE = 512 * 1024, /* bytes: the system counts pages in batches, a batch a thread */
	GROWTH_HEAP = 32 * 1024, /* freed blocks that malloc keeps at hand and counts as in use, while plans come and go */
	GROWTH_DRIVER = 64 * 1024, /* what a GPU's driver may keep of all the sessions that were closed */
};

struct series {
	double *v;
	size_t n;
	enum growth verdict;
	struct trend trend; /* of the later part, bytes a reading */
	double grown;	    /* from the first to the last */
};

/* noise: bytes that readings waver by; 0: exact counters, of which a trend of one byte a run is a leak. */
void growth_judge(struct series *s, double noise);

#endif
