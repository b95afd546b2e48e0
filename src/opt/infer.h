/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_INFER_H
#define OPT_INFER_H
/* Inference of types, shapes and small values: with symbols, or for one set of input shapes (concrete). */
#include "backend/backend.h"

/* infer_begin allocates a struct infer_env; body_ctx of struct infer points to it. */
struct infer_env {
	/* evaluates nodes on small known values; NULL if none are to be evaluated */
	const struct backend *cpu;
	/*
	 * Called before body k of c->node is inferred, for import; NULL if there is nothing to do. Returns 0 or
	 * -code.
	 */
	int (*prepare)(struct infer *c, uint32_t k, const struct vinfo *in, void *arg);
	/*
	 * Called after body k of c->node was inferred, for a loop several times, the last time with what holds in each
	 * iteration; NULL if nobody wants to know. info is indexed by value id of the body and lives in c->arena.
	 */
	void (*inferred)(const struct infer *c, uint32_t k, const struct vinfo *info, void *arg);
	/*
	 * Called after body k of c->node was inferred, which may never run, if nodes of it do not fit: `why` has the errors. NULL if
	 * nobody wants to know.
	 */
	void (*unfit)(const struct infer *c, uint32_t k, const struct diag *why, void *arg);
	void *arg;
};

/*
 * Prepares *c to infer graph g into info, which is indexed by value id and has at least g->nvalues entries. The
 * caller then sets c->node to each node in order and calls infer_node. m makes new symbols; it is NULL when concrete.
 * Memory comes from a.
 */
void infer_begin(struct infer *c, const struct graph *g, struct vinfo *info, struct arena *a,
		 bool concrete, struct model *m, const struct backend *cpu, struct diag *d);
/* Resets info[0..nvalues) and enters type, shape and elements of the constants. */
void infer_constants(const struct graph *g, struct vinfo *info);
/*
 * Infers the outputs of c->node: checks types against the slots, calls the shape function of the row, and evaluates
 * the node if all inputs are known and small. c->wanted then marks the inputs whose unknown values were asked for.
 * Returns 0, or -code with a finding.
 */
int infer_node(struct infer *c);

#endif
