/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_OPTIMIZER_H
#define OPT_OPTIMIZER_H
/* State and functions that the passes share. Private to src/opt. */
#include "opt/infer.h"
#include "opt/pipeline.h"
#include "opt/rewrite.h"

/* Types, shapes and values known of one graph during optimization, by value id; a copy of value->info. */
struct graph_info {
	const struct graph *graph;
	struct vinfo *info;
	uint32_t n, cap; /* entries in use, and allocated */
	struct infer c;
	bool imported;
	bool tolerant; /* a branch that may never run: errors are ignored, and outputs stay unknown */
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
	uint32_t *fired; /* indexed by rule */
};

struct graph_info *opt_info(struct optimizer *o, const struct graph *g);
/* Infer one node and update value->info of its outputs and the graph_info. 0 or -code. */
int opt_infer_node(struct optimizer *o, struct graph *g, struct node *n);
/* Make v a constant of the graph with the elements of t. */
void opt_set_const(struct optimizer *o, struct graph *g, struct value *v, const struct tensor *t);
/* Remove from the bodies of n the captures that became constants or that nothing uses any more. 0 or -code. */
int opt_trim_captures(struct optimizer *o, struct graph *g, struct node *n);
/* Copy what is known of the captured values into the bodies of n. */
void opt_sync_captures(struct optimizer *o, struct graph *g, struct node *n);
/* Argument of a rewriter over g that infers each new node. */
struct made {
	struct optimizer *o;
	struct graph *g;
};
struct rewriter opt_rewriter(struct made *m);

/* The passes. Each returns the number of changes, or -code. The pipeline calls them for bodies, too. */
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
