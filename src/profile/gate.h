/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_GATE_H
#define PROFILE_GATE_H
/*
 * The performance gate: did a model become slower, or take more memory, than a baseline allows? docs/gate.md defines
 * the terms that are used here (undisturbed run, reference workload, pace, ...), gives the statistics and their
 * sources, and describes the decision step by step.
 */
#include "profile/record.h"
#include "base/stats.h"

/* How much may be lost; NAN in place of what is not compared. */
struct gate_limits {
	double latency; /* share: 0.05 is 5 % slower */
	double memory;	/* share of each kind of memory */
	double bytes;	/* the same as a size; the smaller of the two counts */
};

/*
 * Settle time: seconds after a disturbance during which runs still take longer, since caches and clocks recover. Measured
 * on a machine where compilers ran.
 */
static const double GATE_SETTLE_TIME = 3e-3;

/* Whether a run was undisturbed: its threads waited for a core for less than 1 % of its time. Both in seconds. */
static inline bool gate_undisturbed(double time, double waited)
{
	return waited < 0.01 * time;
}

/* Whether more samples may lead to an alarm: the interval holds the limit, and the estimate is beyond half of it. */
static inline bool gate_may_exceed(const struct interval *ratio, double limit)
{
	return ratio->high > 1 + limit && ratio->value > 1 + limit / 2;
}

/* Reads "5%" or "0.05", for memory also a size as "2MiB". False if the text is none of these; the caller reports it. */
bool gate_parse(const char *text, bool memory, struct gate_limits *to);

struct gate_node {
	const char *name, *op, *fused;
	/* tenth percentiles, seconds; `now` is divided by the pace ratio; 0: that side has no such node */
	double before, now;
	bool slower; /* grew by more than the limit, beyond the pace ratio */
};

struct gate_memory {
	const char *what;   /* "activations, host" */
	double before, now; /* bytes */
	bool bigger;
};

enum { GATE_NODES = 8, GATE_MEMORY = 24 };

struct gate_verdict {
	struct interval ratio;	  /* latency now over latency of the baseline, as measured */
	struct interval adjusted; /* the same, divided by machine_ratio */
	struct interval nodes_ratio; /* the same as it follows from the nodes that grew more than the pace; NAN: not known */
	double machine_ratio; /* the part of the ratio that the reference workloads excuse; 1.08: 8 % */
	double fastest_reference; /* smallest ratio of a reference workload, at most 1 */
	double before, now;	  /* latency of each side, seconds */
	size_t undisturbed_before, undisturbed_now; /* number of runs */
	bool busy; /* too few undisturbed runs: a slower node can be found, a slower model hardly */
	/* cores exchange data far faster than for the baseline, whose latency was therefore too high */
	bool cores_moved_closer;
	bool slower;
	bool undecided; /* more samples may decide between slower and not */
	struct gate_node node[GATE_NODES];
	size_t nnodes; /* the one that grew most first */
	struct gate_memory memory[GATE_MEMORY];
	size_t nmemory;
	bool bigger;
};

/* Compares the first point of two records; texts of the verdict are in the arena. */
struct gate_verdict gate_compare(const struct record *before, const struct record *now,
				 const struct gate_limits *limits, struct arena *a);

/*
 * The part of gate_compare that is about nodes: fills v->nodes_ratio and v->node, and updates v->slower and
 * v->undecided. The plain runs have been compared. limit may be NAN.
 */
void gate_compare_nodes(const struct record *before, const struct record *now, double limit,
			struct gate_verdict *v, struct arena *a);

/*
 * Why two measurements must not be compared: "threads: 2 then, 1 now; ...". NULL if nothing differs. Text in the arena.
 */
const char *gate_differs(const struct identity *before, const struct identity *now, struct arena *a);

#endif
