/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_PIPELINE_H
#define OPT_PIPELINE_H
/* Graph-to-graph optimization: the part of preparing a model that does not depend on input shapes. */
#include "backend/backend.h"

struct optimizer;
struct opt_pass {
	const char *name, *about;
	int (*run)(struct optimizer *, struct graph *); /* returns the number of changes, or -code */
	int level;					/* lowest enum optimize at which it runs */
};
/* The passes in the order in which they run; the list ends with a NULL name. */
extern const struct opt_pass opt_passes[];

/* A line of --explain: a rule that was applied at a node, or why it was not. */
struct opt_note {
	const char *rule, *node, *why; /* why is NULL if the rule was applied */
	struct opt_note *next;
};

enum { OPT_PASSES = 22 };

/* What opt_run_report did. Texts live as long as the model. */
struct opt_report {
	bool explain; /* set by the caller: record notes */
	struct opt_done {
		bool ran;	/* false if the pass does not run at this level of optimization */
		int changes;	/* number of changes */
		uint32_t nodes; /* number of nodes of the model after the pass, bodies included */
	} done[OPT_PASSES];	/* indexed by pass */
	uint32_t nodes;		/* before the first */
	uint32_t nrules;
	const char **rule; /* names, in order */
	uint32_t *fired;   /* indexed by rule */
	struct opt_note *first, *last;
};

/*
 * Runs the passes over m->graph and its bodies: upgrade, infer, expand, fold, rewrite, as far as cfg->optimize
 * allows. OPTIMIZE_NONE runs only what the kernels need. Returns 0, or -code with a finding.
 */
int opt_run(struct model *m, const struct backend *cpu, const struct run_config *cfg, struct diag *d);
/* Does what opt_run does, and fills *report, which may be NULL. */
int opt_run_report(struct model *m, const struct backend *cpu, const struct run_config *cfg,
		   struct opt_report *report, struct diag *d);

#endif
