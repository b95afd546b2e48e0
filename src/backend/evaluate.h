/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_EVALUATE_H
#define BACKEND_EVALUATE_H
#include "backend/backend.h"

/*
 * Runs one node now on the host, for constant folding, shape arithmetic and tests of rewrites. in: a tensor for each
 * input of the node, NULL where it is left out. out: the outputs, made in the arena. Uses the reference kernel of
 * `cpu` when there is one that takes the node. 0 or -code; -E_OP_UNSUPPORTED when no kernel takes it.
 */
int eval_node(const struct backend *cpu, const struct graph *g, const struct node *n,
	      const struct tensor *const *in, struct tensor **out, struct arena *a, struct diag *d);

#endif
