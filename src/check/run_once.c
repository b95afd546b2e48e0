/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports the first run, which the driver has made because this check needs outputs: if it failed, the check is
 * skipped and the driver has reported the node. Compares the shapes of its outputs with the declared ones, as inference does
 * not know what depends on data. numbers.c checks the values of the outputs.
 */
#include "check/check.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>

/* Returns the size that the inputs give to a declared dimension, or DIM_UNKNOWN. */
static int64_t size_of_dim(const struct check_context *c, int64_t dim)
{
	const struct graph *g = c->file->graph;

	if (!dim_is_sym(dim))
		return dim;
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct shape *s = &g->value[g->in[i]]->info.shape;
		for (int k = 0; k < s->rank && c->in[i] && c->in[i]->shape.rank == s->rank; k++)
			if (s->dim[k] == dim)
				return c->in[i]->shape.dim[k];
	}
	return DIM_UNKNOWN;
}

static bool is_reported(const struct check_context *c, const char *slot)
{
	for (const struct finding *f = c->d->first; f; f = f->next)
		if (f->code == E_MODEL_DECLARED && f->slot && strcmp(f->slot, slot) == 0)
			return true;
	return false;
}

static void compare_output(struct check_context *c, uint32_t i)
{
	const struct graph *g = c->file->graph;
	const struct value *v = g->value[g->out[i]];
	const struct shape *declared = &v->info.shape, *got = &c->out[i]->shape;
	const char *slot = fmt(c->d, "output '%s'", g->out_name[i]);
	bool same = declared->rank == got->rank;

	for (int k = 0; same && k < got->rank; k++) {
		int64_t n = size_of_dim(c, declared->dim[k]);
		same = n < 0 || n == got->dim[k];
	}
	if (same || is_reported(c, slot))
		return;
	const struct node *n = v->producer == NO_NODE ? NULL : g->node[v->producer];
	WARN(c->d, E_MODEL_DECLARED, .node = n ? check_node(n) : NULL, .op = n ? n->origin->op : NULL,
	     .slot = slot, .message = "the run gave another shape than is declared",
	     .expected = fmt(c->d, "%s, as declared", shape_str(&c->d->arena, declared, c->file->symbols)),
	     .actual = shape_str(&c->d->arena, got, NULL));
}

static int report_run(struct check_context *c)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < c->nout; i++) {
		const struct graph *g = c->file->graph;
		bytes += c->out[i] ? c->out[i]->bytes : 0;
		if (c->out[i] && i < g->nout && c->out[i]->type.kind == V_TENSOR &&
		    g->value[g->out[i]]->info.type.kind == V_TENSOR &&
		    g->value[g->out[i]]->info.shape.rank >= 0)
			compare_output(c, i);
	}
	check_say(c, "one run in %.2f ms, %" PRIu32 " output%s of %s",
		  (double)session_times(c->session).run / 1e6, c->nout, c->nout == 1 ? "" : "s",
		  str_bytes(&c->arena, (int64_t)bytes));
	return 0;
}

const struct check check_run_once = {
	.name = "run",
	.what = "one run succeeds",
	.need = NEED_OUTPUTS,
	.cost = COST_RUN,
	.run = report_run,
};
