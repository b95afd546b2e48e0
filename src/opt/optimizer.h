/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_OPTIMIZER_H
#define OPT_OPTIMIZER_H
/* What the passes share. Private to src/opt. */
#include "opt/infer.h"
#include "opt/pipeline.h"
#include "opt/rewrite.h"

/* What is known of one graph's values while it is worked on; mirrors value->info. */
struct graph_info {
	const struct graph *graph;
	struct vinfo *info;
	uint32_t n, cap; /* values entered; room */
	struct infer c;
	bool imported;
	bool tolerant; /* a branch that may not be taken: what does not fit is left unknown */
	struct graph_info *next;
};

struct optimizer {
	struct model *model;
	const struct backend *cpu;
	const struct run_config *config;
	struct opt_report *report;
	struct diag *diag;
	struct arena scratch;
	struct graph_info *graphs;
	struct rule_set rules;
	uint32_t *fired; /* by rule */
};

struct graph_info *opt_info(struct optimizer *o, const struct graph *g);
/* Infer one node; its outputs' value->info and the graph's info say what came out. */
int opt_infer_node(struct optimizer *o, struct graph *g, struct node *n);
/* A value became constant. */
void opt_set_const(struct optimizer *o, struct graph *g, struct value *v, const struct tensor *t);
/* Captures that became constants, or that nothing uses any more, leave the bodies of n. */
int opt_trim_captures(struct optimizer *o, struct graph *g, struct node *n);
/* What the bodies of n see of outer values. */
void opt_sync_captures(struct optimizer *o, struct graph *g, struct node *n);
/* A rewriter over g whose new nodes are inferred. */
struct made {
	struct optimizer *o;
	struct graph *g;
};
struct rewriter opt_rewriter(struct made *m);

/* The passes; each returns how much it changed, or -code. Bodies are the pipeline's business. */
int pass_import(struct optimizer *o, struct graph *g);
int pass_infer(struct optimizer *o, struct graph *g);
int pass_expand(struct optimizer *o, struct graph *g);
int pass_fold(struct optimizer *o, struct graph *g);
int pass_fold_weights(struct optimizer *o, struct graph *g);
int pass_cse(struct optimizer *o, struct graph *g);
int pass_simplify(struct optimizer *o, struct graph *g);
int pass_fuse(struct optimizer *o, struct graph *g);
int pass_pointwise(struct optimizer *o, struct graph *g);
int pass_dce(struct optimizer *o, struct graph *g);
int pass_precision(struct optimizer *o, struct graph *g);

#endif
