/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_PIPELINE_H
#define OPT_PIPELINE_H
/* The shape-independent part of preparing a model: graph to graph. */
#include "backend/backend.h"

struct optimizer;
struct opt_pass {
	const char *name, *about;
	int (*run)(struct optimizer *, struct graph *); /* how much it changed, or -code */
	int level;					/* enum optimize from which it runs */
};
/* In the order they run; ends with a NULL name. */
extern const struct opt_pass opt_passes[];

/* A line of --explain: a rule that fired at a node, or why it did not. */
struct opt_note {
	const char *rule, *node, *why; /* why NULL: it fired */
	struct opt_note *next;
};

enum { OPT_PASSES = 18 };

/* What happened; texts are the model's. */
struct opt_report {
	bool explain; /* in: keep notes */
	struct opt_done {
		bool ran;	/* false: not at this level of optimization */
		int changes;	/* that it counted */
		uint32_t nodes; /* afterwards, bodies too */
	} done[OPT_PASSES];	/* by pass */
	uint32_t nodes;		/* before the first */
	uint32_t nrules;
	const char **rule; /* names, in order */
	uint32_t *fired;   /* by rule */
	struct opt_note *first, *last;
};

/*
 * Upgrade, infer, expand, fold, rewrite m->graph and its bodies, as far as cfg->optimize says.
 * With OPTIMIZE_NONE what is needed to run and no more.
 */
int opt_run(struct model *m, const struct backend *cpu, const struct run_config *cfg, struct diag *d);
/* The same, with a report (may be NULL). */
int opt_run_report(struct model *m, const struct backend *cpu, const struct run_config *cfg,
		   struct opt_report *report, struct diag *d);

#endif
