/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_INFER_H
#define OPT_INFER_H
/* Types, shapes and small values of a graph, generic (with symbols) or for one set of shapes. */
#include "backend/backend.h"

/* What body_ctx points at; made by infer_begin. */
struct infer_env {
	const struct backend *cpu; /* evaluates small known values; NULL: none are */
	/* Called before body k of c->node is gone through (import uses it); NULL: nothing to do. */
	int (*prepare)(struct infer *c, uint32_t k, const struct vinfo *in, void *arg);
	void *arg;
};

/*
 * c sees g's values as info (by value id); set c->node, then call infer_node, node by node.
 * m: for fresh symbols; NULL when concrete.
 */
void infer_begin(struct infer *c, const struct graph *g, struct vinfo *info, struct arena *a,
		 bool concrete, struct model *m, const struct backend *cpu, struct diag *d);
/*
 * Types checked against the slots, shapes by the row's function, values where all inputs are
 * known and small. c->wanted says which values were missed. 0 or -code, the node named.
 */
int infer_node(struct infer *c);

#endif
