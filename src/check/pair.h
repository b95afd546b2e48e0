/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_PAIR_H
#define CHECK_PAIR_H
/*
 * Runs two sessions of one model side by side: `ref`, the reference, and `got`, the session under test. They run in
 * step, so that the reference's values are kept only as long as the other side still has to compare them or to
 * compute from them. The output of each node that both plans have is compared twice: as the tested session made it,
 * which shows the error accumulated so far, and as the same kernel makes it from the reference's inputs, which shows
 * the error that this node adds.
 */
#include "check/check.h"
#include "check/distance.h"
#include "check/step_value.h"

struct pair_side {
	const char *name; /* "cpu:none" */
	/*
	 * another model's file for the reference, which gets the inputs of the same names (or positions); NULL for the model
	 * of the pair
	 */
	const char *path;
	struct run_config config;
	struct session *session; /* if NULL, pair_run opens a session with `config`, and pair_end closes it */
	bool borrowed;		 /* the session is the caller's and stays open */
};

/* How far a node's inputs are from the reference's. Constants and the model's inputs are the same on both sides. */
struct input_error {
	double most;  /* largest `rel` of those that were compared */
	bool steps;   /* quantized elements of one differ by 1, which does not count for `most` */
	uint32_t all; /* number of inputs */
	uint32_t unseen;  /* number of inputs that could not be compared */
	const char *name; /* of the first of those */
};
/* Counts an input of this `rel`; `seen`: it was compared. */
void input_error_add(struct input_error *e, double rel, bool seen, const char *name);
/* Returns a text such as "agree within 1e-05, but for 'x', which was not compared"; it lives as long as d. */
const char *input_error_say(struct diag *d, const struct input_error *e);

/* A node of the session under test. */
struct pair_node {
	const struct node *node;
	const struct origin *origin; /* of the node of the file by whose name findings call it */
	/* the node's output that is farthest from the reference; NO_VALUE if the reference has none of its outputs */
	uint32_t value;
	enum dtype dtype; /* of that output */
	enum dtype path; /* by which the error that has come together in that output is judged: see path_precision.h */
	struct distance own; /* distance of that output as computed from the tested session's own inputs */
	struct distance local; /* distance of that output as computed from the reference's inputs */
	struct input_error inputs;
};

struct pair {
	const char *path; /* path of the model; NULL for the path in the context */
	struct pair_side ref, got;
	struct pair_node *nodes; /* the nodes that could be compared, in the order of the run */
	size_t n;
	size_t steps; /* those that the tested session ran, and nodes without one that were compared */
	struct distance *outputs; /* indexed by position among the model's outputs */
	enum dtype *output_path;  /* the same: the types by which their distances are judged */
	uint32_t noutputs;
	struct value_stats *ref_stats, *got_stats; /* of the outputs, by position */
	size_t held, peak; /* bytes of the reference's values in memory: now, and at the peak */
	struct pair_work *work;
};

/*
 * Runs both sides on `in`. Returns 0 or -code. Call pair_end in either case: the nodes' pointers into the sessions
 * are valid until then.
 */
int pair_run(struct check_context *c, struct pair *p, const struct tensor *const *in);
void pair_end(struct pair *p);
/*
 * Adds the names of the nodes between n and the last values before it that were compared, and returns their number: what the reference has
 * no counterparts of may be at fault in place of n.
 */
uint32_t pair_nodes_before(const struct pair *p, const struct pair_node *n, struct check_names *names);
/* The reference's node that makes what n's value was compared with; NULL if it is an input or a constant. */
const struct node *pair_counterpart(const struct pair *p, const struct pair_node *n);

#endif
