/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_EVALUATE_H
#define BACKEND_EVALUATE_H
#include "backend/backend.h"

/*
 * Runs one node now on the host, for constant folding, shape arithmetic and tests of rewrites. in:
 * a tensor for each input of the node, NULL for an input that is left out. out: receives the
 * outputs, which are made in the arena. Prefers a reference kernel of `cpu` if one accepts the
 * node. Returns 0 or -code; the code is E_OP_UNSUPPORTED if no kernel accepts the node.
 */
int eval_node(const struct backend *cpu, const struct graph *g, const struct node *n,
	      const struct tensor *const *in, struct tensor **out, struct arena *a, struct diag *d);

/*
 * Infers what output 0 of the node is for these inputs, without computing its elements. Returns false if that cannot be told, or if it is
 * no tensor.
 */
bool eval_shape(const struct graph *g, const struct node *n, const struct tensor *const *in,
		enum dtype *t, struct shape *s);

#endif
