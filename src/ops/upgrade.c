/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/upgrade.h"

#include "ops/layout.h"

#include <string.h>

const struct field upgrade_consumed_attrs[] = {CONSUMED(struct no_params), {0}};

int upgrade_prefix(struct edit *e)
{
	const void *old = e->node->params;
	void *now = edit_params(e);
	size_t n = e->node->op->params_size;

	if (n)
		memcpy(now, old, n);
	return 0;
}

uint32_t edit_ints(struct edit *e, const int64_t *v, int64_t n)
{
	return graph_add_const(e->graph, "", tensor_i64(e->graph->arena, 1, v, n))->id;
}

/* Sets perm to move the channels from the last dimension to dimension 1 (to_first), or back. */
static void channels_perm(struct transpose_params *p, int rank, bool to_first, struct arena *a)
{
	int64_t *perm = arena_new_n(a, int64_t, (size_t)rank);

	for (int i = 1; i < rank; i++)
		perm[i] = to_first ? (i == 1 ? rank - 1 : i - 1) : (i == rank - 1 ? 1 : i + 1);
	p->perm = (struct ints){.v = perm, .n = rank};
}

int edit_input_channels_first(struct edit *e, uint32_t i)
{
	int rank = edit_rank(e, i);
	void *params;

	if (rank < 2)
		return edit_fail(e, E_OP_UNSUPPORTED,
				 "a known rank of two or more with channels last", NULL);
	node_set_in(e->graph, e->node, i, edit_before(e, "Transpose", &e->node->in[i], 1, &params));
	channels_perm(params, rank, true, e->graph->arena);
	return 0;
}

int edit_channels_first(struct edit *e)
{
	int rank = edit_rank(e, 0), err = edit_input_channels_first(e, 0);
	void *params;

	if (err)
		return err;
	edit_after(e, 0, "Transpose", NULL, 0, &params);
	channels_perm(params, rank, false, e->graph->arena);
	return 0;
}
