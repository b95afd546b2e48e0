/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_PAIR_H
#define CHECK_PAIR_H
/*
 * Two sessions of one model side by side: a reference, and the one that is looked at. They run in step, so that only
 * values are kept that the other side still has to compare or to compute from. At every node whose
 * output both plans have, the output is compared as it is (what has added up so far), and as the node
 * makes it from the reference's inputs (what the node itself adds).
 */
#include "check/check.h"
#include "check/value.h"

/* How far a value is from its reference. */
struct distance {
	bool known;
	bool fits;	  /* types and shapes agree */
	bool exact;	  /* to the bit */
	bool zero;	  /* all 0, which the reference is not */
	int64_t count;	  /* elements */
	int64_t wrong;	  /* NaN or Inf on one side only; of integers: elements that differ */
	int64_t at;	  /* the worst element; -1 */
	double got, want; /* its values */
	double max_abs, max_want;
	double rel; /* largest difference over the largest element of the reference */
};
/* Both row-major, in host memory; types may differ. */
struct distance distance_of(const struct tensor *got, const struct tensor *want);
/* Over the limit, which is wider for short types. */
bool distance_over(const struct distance *d, enum dtype t, double limit);
const char *distance_say(struct diag *d, const struct distance *x);

struct pair_side {
	const char *name; /* "cpu:none" */
	struct run_config config;
	struct session *session;
	bool borrowed; /* the session is the caller's */
};

/* A node of the side that is looked at. */
struct pair_node {
	const struct node *node;
	uint32_t value; /* its output that is farthest off; NO_VALUE: none is in the reference */
	enum dtype dtype;
	struct distance own;   /* with its own inputs */
	struct distance local; /* with the reference's inputs */
	double inputs;	       /* largest rel of its inputs */
	uint32_t since; /* nodes before it whose outputs the reference does not have: it answers for them */
};

struct pair {
	const char *path;
	struct pair_side ref, got;
	struct pair_node *nodes; /* those that could be compared, in the order of the run */
	size_t n;
	size_t steps;		  /* that ran */
	struct distance *outputs; /* by position */
	uint32_t noutputs;
	struct value_stats *ref_stats, *got_stats; /* of the outputs */
	size_t held, peak;			   /* bytes of the reference's values kept */
	struct pair_work *work;
};

/* Runs both sides on `in`; sessions that are not set are opened. What is told lives until pair_end. */
int pair_run(struct check_context *c, struct pair *p, const struct tensor *const *in);
void pair_end(struct pair *p);

/* The first node of a body that differs, where bodies differ. */
struct drilled {
	const char *node, *op; /* in the diag's arena */
	uint32_t time;	       /* which run of the body, from 1 */
	struct distance distance;
};
bool pair_drill(struct check_context *c, const struct pair *p, const struct tensor *const *in,
		double limit, struct drilled *found);

/* The words of --compare: "cpu,cuda:fp16"; sides' names and configurations. E-OPTION. */
int pair_parse(struct check_context *c, const char *text, struct pair *p);

/* What --compare says; with --all alone: the CPU, or on the CPU the unoptimized run. NULL: nothing. */
const char *pair_text(const struct check_context *c);
/* The limit for what is over: --rtol, or what the coarser precision of the two is worth. */
double pair_limit(const struct check_context *c, const struct pair *p);

#endif
