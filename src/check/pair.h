/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_PAIR_H
#define CHECK_PAIR_H
/*
 * Runs two sessions of one model side by side: `ref`, the reference, and `got`, the session under test. They run in
 * step, so that only those of the reference's values are kept that the other side still has to compare or to compute
 * from. The output of each node that both plans have is compared twice: as the tested session made it, which shows
 * the error accumulated so far, and as the same kernel makes it from the reference's inputs, which shows the error
 * that this node adds.
 */
#include "check/check.h"
#include "check/distance.h"
#include "check/step_value.h"

struct pair_side {
	const char *name; /* "cpu:none" */
	struct run_config config;
	struct session *session; /* NULL: pair_run opens one with `config`, pair_end closes it */
	bool borrowed;		 /* the session is the caller's and stays open */
};

/* A node of the session under test. */
struct pair_node {
	const struct node *node;
	uint32_t value; /* its output that is farthest from the reference; NO_VALUE: the reference has none of them */
	enum dtype dtype;      /* of that output */
	struct distance own;   /* of its output as computed from the tested session's own inputs */
	struct distance local; /* of its output as computed from the reference's inputs */
	double inputs;	       /* largest `rel` of its inputs */
	uint32_t since; /* nodes since the last comparable one, this one included: any of them may be at fault */
};

struct pair {
	const char *path; /* of the model; NULL: that of the context */
	struct pair_side ref, got;
	struct pair_node *nodes; /* the nodes that could be compared, in the order of the run */
	size_t n;
	size_t steps;		  /* steps that the tested session ran */
	struct distance *outputs; /* indexed by position among the model's outputs */
	uint32_t noutputs;
	struct value_stats *ref_stats, *got_stats; /* of the outputs, by position */
	size_t held,
		peak; /* bytes of the reference's values kept in memory: currently, and at the peak */
	struct pair_work *work;
};

/*
 * Runs both sides on `in`. 0 or -code. Call pair_end in either case: the nodes' pointers into the sessions are valid
 * until then.
 */
int pair_run(struct check_context *c, struct pair *p, const struct tensor *const *in);
void pair_end(struct pair *p);

#endif
