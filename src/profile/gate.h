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

/* How much slower or bigger the model may become. A limit is NAN if that quantity is not compared. */
struct gate_limits {
	double latency; /* share: 0.05 is 5 % slower */
	double memory;	/* share of each kind of memory */
	double bytes;	/* the memory limit as a size; the smaller of the two limits counts */
};

/*
 * Settle time: seconds after a disturbance during which runs still take longer, since caches and clocks recover. Measured
 * on a machine where compilers ran.
 */
static const double GATE_SETTLE_TIME = 3e-3;

/*
 * Whether a run was undisturbed: its threads waited for a core for less than 1 % of its time. Both arguments are in
 * seconds.
 */
static inline bool gate_undisturbed(double time, double waited)
{
	return waited < 0.01 * time;
}

/*
 * Whether more samples may lead to an alarm: the interval contains the limit, and the estimate is beyond half of the
 * limit.
 */
static inline bool gate_may_exceed(const struct interval *ratio, double limit)
{
	return ratio->high > 1 + limit && ratio->value > 1 + limit / 2;
}

/*
 * Reads "5%" or "0.05", and for memory also a size such as "2MiB". Returns false if the text is none of these, which
 * the caller must report.
 */
bool gate_parse(const char *text, bool memory, struct gate_limits *to);

struct gate_node {
	const char *name, *op, *fused;
	/*
	 * tenth percentiles of the node's time in seconds, 0 if that side has no such node; `now` is `measured` divided by
	 * the pace ratio, or by the machine ratio if the plain runs became slower beyond that
	 */
	double before, measured, now;
	bool slower; /* the node grew by more than the limit, beyond that ratio */
};

struct gate_memory {
	const char *what;   /* "activations, host" */
	double before, now; /* bytes */
	bool bigger;
};

enum { GATE_NODES = 8, GATE_MEMORY = 24 };

/*
 * A side's machine counts as busy if fewer than GATE_MIN_UNDISTURBED of its runs, or less than one run in
 * GATE_UNDISTURBED_ONE_IN, were undisturbed.
 */
enum { GATE_MIN_UNDISTURBED = 10, GATE_UNDISTURBED_ONE_IN = 10 };

static inline bool gate_side_busy(size_t undisturbed, size_t runs)
{
	return undisturbed < GATE_MIN_UNDISTURBED || undisturbed < runs / GATE_UNDISTURBED_ONE_IN;
}

struct gate_verdict {
	struct interval ratio;	  /* latency now over latency of the baseline, as measured */
	struct interval adjusted; /* the same, divided by machine_ratio */
	/* the ratio that follows from the nodes that grew more than the pace, or NAN if not known */
	struct interval nodes_ratio;
	/* ratio of the work of the threads, divided by the machine's part, or NAN if not known */
	struct interval work;
	bool by_work; /* `slower` was decided by `work` */
	/* the part of the ratio that the reference workloads excuse, for example 1.08 for 8 % */
	double machine_ratio;
	double fastest_reference; /* smallest ratio of a reference workload, at most 1 */
	double before, now;	  /* latency of each side, seconds */
	size_t undisturbed_before, undisturbed_now; /* number of runs */
	size_t runs_before, runs_now;		    /* number of all runs, undisturbed or not */
	bool busy; /* too few runs were undisturbed: a slower node can be found, a slower model hardly */
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

/* Compares the first point of two records. The verdict's texts are allocated in the arena. */
struct gate_verdict gate_compare(const struct record *before, const struct record *now,
				 const struct gate_limits *limits, struct arena *a);

/*
 * Does the part of gate_compare that is about nodes, after the latencies of the plain runs (in which nodes are not timed)
 * have been compared. Fills v->nodes_ratio and v->node, and updates v->slower and v->undecided. limit is NAN if latency
 * is not compared.
 */
void gate_compare_nodes(const struct record *before, const struct record *now, double limit,
			struct gate_verdict *v, struct arena *a);

/*
 * Whether the model's file has the name that it had then, but other contents: a new version, which is what a baseline is compared
 * with in CI.
 */
bool gate_new_version(const struct identity *before, const struct identity *now);

/*
 * Returns why two measurements must not be compared, such as "threads: 2 then, 1 now; ...", in the arena. Returns
 * NULL if nothing differs.
 */
const char *gate_differs(const struct identity *before, const struct identity *now, struct arena *a);

#endif
