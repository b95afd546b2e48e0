/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_INFER_H
#define OPT_INFER_H
/* Inference of types, shapes and small values: with symbols, or for one set of input shapes (concrete). */
#include "backend/backend.h"

/* body_ctx of struct infer points to one, which infer_begin allocates. */
struct infer_env {
	const struct backend *cpu; /* evaluates nodes on small known values; NULL: none are evaluated */
	/* Called before body k of c->node is inferred, for import; NULL: nothing to do. Returns 0 or -code. */
	int (*prepare)(struct infer *c, uint32_t k, const struct vinfo *in, void *arg);
	void *arg;
};

/*
 * Prepare *c to infer graph g into info (by value id, at least g->nvalues entries). Then, for each node in order, set
 * c->node and call infer_node. m makes new symbols; NULL when concrete. Memory comes from a.
 */
void infer_begin(struct infer *c, const struct graph *g, struct vinfo *info, struct arena *a,
		 bool concrete, struct model *m, const struct backend *cpu, struct diag *d);
/*
 * Infer the outputs of c->node: check types against the slots, call the shape function of the row, and evaluate the node
 * if all inputs are known and small. c->wanted: inputs whose unknown values were asked for. 0, or -code with a finding.
 */
int infer_node(struct infer *c);

#endif
