/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_OPTIMIZER_H
#define OPT_OPTIMIZER_H
/* State and functions that the passes share. Private to src/opt. */
#include "base/hash.h"
#include "opt/infer.h"
#include "opt/pipeline.h"
#include "opt/rewrite.h"

/*
 * What is known of the values of one graph during optimization (type, shape, elements), indexed by value id; copies
 * of value->info.
 */
struct graph_info {
	const struct graph *graph;
	struct vinfo *info;
	uint32_t n, cap; /* entries in use, and allocated */
	struct infer c;
	bool imported;
	/* true for a branch that may never run: errors are ignored, and outputs stay unknown */
	bool tolerant;
};

/*
 * Makes the values that config->outputs lists or matches the outputs of the model, in that order, followed by those of
 * config->step_outputs, and removes what they do not need. Fails with E-OPTION.
 */
int opt_choose_outputs(struct model *m, const struct run_config *config, struct diag *d);

struct optimizer {
	struct model *model;
	const struct backend *cpu;
	const struct run_config *config;
	struct opt_report *report;
	struct diag *diag;
	struct arena scratch;
	/*
	 * A model may have thousands of bodies, so their infos are found by the address of the graph; `recent` is the
	 * info that was asked for last.
	 */
	struct graph_info **graphs, *recent;
	uint32_t ngraphs, cap_graphs;
	struct map graph_number;
	struct rule_set rules;
	uint32_t *fired; /* indexed by rule */
	/* bytes that folding has made and may make; the budget is 0 until it is known */
	size_t folded_bytes, fold_budget;
	bool told_unfolded;
};

struct graph_info *opt_info(struct optimizer *o, const struct graph *g);
/* Infers one node and updates value->info of its outputs and the graph_info. Returns 0 or -code. */
int opt_infer_node(struct optimizer *o, struct graph *g, struct node *n);
/* Makes v a constant of the graph with the elements of t. */
void opt_set_const(struct optimizer *o, struct graph *g, struct value *v, const struct tensor *t);
/* Removes from the bodies of n the captures that became constants or that nothing uses any more. Returns 0 or -code. */
int opt_trim_captures(struct optimizer *o, struct graph *g, struct node *n);
/* Whether the pass "quantize" will look for operators on codes, for which constants stay codes until then. */
bool opt_keeps_codes(const struct optimizer *o);
/* Returns, indexed by value id, whether the body of a node reads the value. The memory is o->scratch's. */
bool *opt_captured(struct optimizer *o, const struct graph *g);
/* Copies what is known of the captured values into the bodies of n. */
void opt_sync_captures(struct optimizer *o, struct graph *g, struct node *n);
/* The argument of a rewriter's callback `made`, which infers each new node of g. */
struct made {
	struct optimizer *o;
	struct graph *g;
};
struct rewriter opt_rewriter(struct made *m);

/* The passes. Each returns the number of changes, or -code. The pipeline calls them for bodies, too. */
int pass_import(struct optimizer *o, struct graph *g);
int pass_branches(struct optimizer *o, struct graph *g);
int pass_infer(struct optimizer *o, struct graph *g);
int pass_expand(struct optimizer *o, struct graph *g);
int pass_fold(struct optimizer *o, struct graph *g);
int pass_fold_codes(struct optimizer *o, struct graph *g);
int pass_fold_weights(struct optimizer *o, struct graph *g);
int pass_cse(struct optimizer *o, struct graph *g);
int pass_simplify(struct optimizer *o, struct graph *g);
int pass_quantize(struct optimizer *o, struct graph *g);
int pass_fuse(struct optimizer *o, struct graph *g);
int pass_pointwise(struct optimizer *o, struct graph *g);
int pass_dce(struct optimizer *o, struct graph *g);
int pass_precision(struct optimizer *o, struct graph *g);
int pass_float8(struct optimizer *o, struct graph *g);
/* For models that are compared and not run: sizes computed in the run, and all else that rules cannot express, in one form. */
int pass_sizes(struct optimizer *o, struct graph *g);
int pass_forms(struct optimizer *o, struct graph *g);

#endif
