/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GATE_H
#define GATE_H
/*
 * Whether a model became slower or bigger than a baseline says.
 *
 * Latency is compared by the tenth percentile: on a busy machine it stays where it is while medians wander. Its
 * quotient, now over then, gets a bootstrap interval from draws by runs of neighbouring samples, taken against what
 * the yardstick says of the machine itself, where that became slower. Only an interval wholly above the limit is
 * a failure.
 */
#include "record.h"
#include "stats.h"

struct gate_limits {
	double latency; /* 0.05; NAN: not compared */
	double memory;	/* 0.05; NAN: not a share */
	double bytes;	/* NAN: not a size */
};

/* "5%", "0.05"; for memory also a size. E_OPTION text is the caller's. */
bool gate_parse(const char *text, bool memory, struct gate_limits *to);

struct gate_node {
	const char *name, *op, *fused;
	double before, now; /* tenth percentiles; the machine's part is taken off `now` */
	bool slower;	    /* beyond the limit, by more than its own noise */
};

struct gate_memory {
	const char *what; /* "activations, host" */
	double before, now;
	bool bigger;
};

enum { GATE_NODES = 8, GATE_MEMORY = 24 };

struct gate_verdict {
	struct interval ratio;		/* of the latency as measured */
	struct interval fair;		/* the same, less the machine's part */
	double machine;			/* that part: 1.08: the yardstick takes 8 % longer */
	double before, now;		/* tenth percentiles, seconds */
	size_t quiet_before, quiet_now; /* runs that were compared */
	bool busy;			/* too few runs were undisturbed: nothing can be said */
	bool slower, open; /* open: the interval holds the limit, more samples would help */
	struct gate_node node[GATE_NODES];
	size_t nnodes; /* the worst first */
	struct gate_memory memory[GATE_MEMORY];
	size_t nmemory;
	bool bigger;
};

struct gate_verdict gate_compare(const struct record *before, const struct record *now,
				 const struct gate_limits *limits, struct arena *a);

/* What differs so that the two are not to be compared; NULL: nothing. Text in the arena. */
const char *gate_differs(const struct identity *before, const struct identity *now, struct arena *a);

#endif
