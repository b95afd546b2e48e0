/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_GATE_H
#define PROFILE_GATE_H
/*
 * Whether a model became slower or bigger than a baseline says.
 *
 * Latency is compared by the tenth percentile: on a busy machine it stays where it is while medians wander. Its
 * quotient, now over then, gets a bootstrap interval from draws by runs of neighbouring samples, less what the
 * yardsticks say that the machine itself may have to do with it. Only an interval wholly above the limit is a failure.
 *
 * What the yardsticks do not see, the nodes tell: all of them share the machine, run by run, so that a node which grew
 * more than the others of its runs did is slower itself. The latency that this makes has an interval of its own.
 */
#include "profile/record.h"
#include "base/stats.h"

struct gate_limits {
	double latency; /* 0.05; NAN: not compared */
	double memory;	/* 0.05; NAN: not a share */
	double bytes;	/* NAN: not a size */
};

/* Seconds after a disturbance that runs take longer, measured on a machine where compilers ran. */
static const double GATE_CALM = 3e-3;

/* Whether nobody disturbed a run: its threads hardly waited for a core. */
static inline bool gate_quiet(double time, double delay)
{
	return delay < 0.01 * time;
}

/* "5%", "0.05"; for memory also a size. E_OPTION text is the caller's. */
bool gate_parse(const char *text, bool memory, struct gate_limits *to);

struct gate_node {
	const char *name, *op, *fused;
	double before,
		now; /* tenth percentiles; what all grew is taken off `now`; 0: it was, or is, not there */
	bool slower; /* beyond the limit and what the others grew */
};

struct gate_memory {
	const char *what; /* "activations, host" */
	double before, now;
	bool bigger;
};

enum { GATE_NODES = 8, GATE_MEMORY = 24 };

struct gate_verdict {
	struct interval ratio; /* of the latency as measured */
	struct interval fair;  /* the same, less the machine's part */
	struct interval nodes; /* the same by the nodes that grew more than the others; NAN: not known */
	double machine;	       /* that part; 1.08: known work takes as much longer, or more */
	double faster;	       /* at most 1: the most that a kind of known work became faster by */
	double before, now;		/* tenth percentiles, seconds */
	size_t quiet_before, quiet_now; /* runs that were compared */
	bool busy; /* too few runs were undisturbed: only what sets a node apart can be said */
	bool moved; /* the cores are far nearer to one another than then: the baseline is too slow for all nodes */
	bool slower, open; /* open: the interval holds the limit, more samples would help */
	struct gate_node node[GATE_NODES];
	size_t nnodes; /* the worst first */
	struct gate_memory memory[GATE_MEMORY];
	size_t nmemory;
	bool bigger;
};

struct gate_verdict gate_compare(const struct record *before, const struct record *now,
				 const struct gate_limits *limits, struct arena *a);

/* Fills v->nodes and v->node; v->slower and v->open where the nodes say so. v->machine is known. */
void gate_nodes(const struct record *before, const struct record *now, double limit,
		struct gate_verdict *v, struct arena *a);

/* What differs so that the two are not to be compared; NULL: nothing. Text in the arena. */
const char *gate_differs(const struct identity *before, const struct identity *now, struct arena *a);

#endif
