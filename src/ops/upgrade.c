/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/upgrade.h"

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
