/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds parts of the graph that depend on constants only. Such parts cost time at every load or, in runtimes that do
 * not fold constants, at every run.
 */
#include "check/check.h"

#include <inttypes.h>

static int run_fold(struct check_context *c)
{
	const struct graph *g = c->file->graph;
	struct arena a = {0};
	struct check_names ends = {&a, NULL, 0};
	struct diag *d = c->d;
	uint32_t nodes = 0;

	if (!g)
		return 0;
	bool *constant = arena_new_n(&a, bool, g->nvalues + 1);
	for (uint32_t i = 0; i < g->nvalues; i++)
		constant[i] = g->value[i]->init != NULL;
	for (uint32_t i = 0; i < g->norder; i++) {
		const struct node *n = g->node[g->order[i]];
		bool all = n->nin > 0 && n->op && !(n->op->flags & OP_RANDOM);
		for (uint32_t k = 0; all && k < n->nin + n->ncap; k++)
			all = n->in[k] == NO_VALUE || constant[n->in[k]];
		nodes += all;
		for (uint32_t k = 0; all && k < n->nout; k++)
			if (n->out[k] != NO_VALUE)
				constant[n->out[k]] = true;
	}
	/*
	 * name the last node of each constant part, which is the node whose output a node outside of the part reads
	 */
	for (uint32_t i = 0; i < g->norder; i++) {
		const struct node *n = g->node[g->order[i]];
		const struct value *v = n->nin && n->nout ? node_out(g, n, 0) : NULL;
		bool end = v && constant[v->id] && !v->init && v->is_output;
		for (uint32_t k = 0; v && constant[v->id] && !v->init && k < v->nusers; k++) {
			const struct node *u = g->node[v->users[k]];
			end |= u->nout && u->out[0] != NO_VALUE && !constant[u->out[0]];
		}
		if (end)
			check_name_add(&ends, check_node(n));
	}
	if (nodes)
		NOTE(d, E_MODEL_FOLD,
		     .message = fmt(d, "%" PRIu32 " node%s depend%s on constants only%s%s", nodes,
				    nodes > 1 ? "s" : "", nodes > 1 ? "" : "s",
				    ends.n ? ", up to " : "", ends.n ? check_name_list(&ends) : ""));
	if (nodes)
		check_say(c, "%s on constants only",
			  nodes == 1 ? "1 node depends"
				     : arena_printf(&a, "%" PRIu32 " nodes depend", nodes));
	else
		check_say(c, "no part is constant");
	arena_free(&a);
	return 0;
}

const struct check check_fold = {
	.name = "constants",
	.what = "parts of the graph that are constant",
	.need = NEED_FILE,
	.cost = COST_HEAD,
	.run = run_fold,
};
