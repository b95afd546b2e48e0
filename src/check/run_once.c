/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports the first run, which the driver has made because this check needs outputs: if it failed, the check is
 * skipped and the driver has reported the node. Compares the shapes of its values with the declared ones, as inference does
 * not know what depends on data. numbers.c checks the values of the outputs.
 */
#include "base/hash.h"
#include "base/str.h"
#include "check/check.h"

#include <inttypes.h>
#include <string.h>

/* The shape that the file declares for an input; NULL if it has none of the name. */
static const struct shape *declared_input(const struct graph *g, const char *name)
{
	for (uint32_t i = 0; i < g->nin; i++)
		if (strcmp(g->value[g->in[i]]->name, name) == 0)
			return &g->value[g->in[i]]->info.shape;
	return NULL;
}

/* Returns the size that the run's inputs give to a dimension that the file declares, or DIM_UNKNOWN. */
static int64_t size_of_dim(const struct check_context *c, int64_t dim)
{
	const struct graph *f = c->file->graph, *g = session_model(c->session)->graph;

	if (!dim_is_sym(dim))
		return dim;
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct shape *s = declared_input(f, g->value[g->in[i]]->name);
		for (int k = 0; s && k < s->rank && c->in[i] && c->in[i]->shape.rank == s->rank; k++)
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

/* Warns if the run gave value v of the file's graph another shape than the file declares. */
static void compare_shape(struct check_context *c, const struct value *v, const struct shape *got,
			  const char *slot)
{
	const struct shape *declared = &v->info.shape;

	if (v->info.type.kind != V_TENSOR || declared->rank < 0)
		return;
	bool same = declared->rank == got->rank;
	for (int k = 0; same && k < got->rank; k++) {
		int64_t n = size_of_dim(c, declared->dim[k]);
		same = n < 0 || n == got->dim[k];
	}
	if (same || is_reported(c, slot))
		return;
	const struct node *n = v->producer == NO_NODE ? NULL : c->file->graph->node[v->producer];
	WARN(c->d, E_MODEL_DECLARED, .node = n ? check_node(n) : NULL, .op = n ? n->origin->op : NULL,
	     .slot = slot, .message = "the run gave another shape than is declared",
	     .expected = fmt(c->d, "%s, as declared",
			     shape_str(&c->d->arena, declared, c->file->symbols)),
	     .actual = shape_str(&c->d->arena, got, NULL));
}

/* Output `at` of the run, whose name the file's graph has as an output, too, unless --output has chosen an inner value. */
static void compare_output(struct check_context *c, uint32_t at)
{
	const struct graph *g = c->file->graph;
	const char *name = session_model(c->session)->graph->out_name[at];
	uint32_t i = 0;

	while (i < g->nout && strcmp(g->out_name[i], name) != 0)
		i++;
	if (i == g->nout || !c->out[at] || c->out[at]->type.kind != V_TENSOR)
		return;
	compare_shape(c, g->value[g->out[i]], &c->out[at]->shape, fmt(c->d, "output '%s'", name));
}

/* Compares what the file declares for values between the nodes, whose shapes may depend on data, with those of the first run. */
static void compare_inner(struct check_context *c)
{
	const struct graph *f = c->file->graph, *g = session_model(c->session)->graph;
	struct arena tmp = {0};
	struct map of = {.arena = &tmp};

	for (uint32_t i = 0; c->shapes && i < g->nvalues; i++)
		if (c->shapes[i] && *g->value[i]->name)
			map_set(&of, g->value[i]->name, strlen(g->value[i]->name), i);
	for (uint32_t i = 0; i < f->nvalues; i++) {
		const struct value *v = f->value[i];
		int64_t at = v->is_output || v->producer == NO_NODE || !*v->name
				     ? -1
				     : map_get(&of, v->name, strlen(v->name));
		if (at >= 0)
			compare_shape(c, v, c->shapes[at], fmt(c->d, "value '%s'", v->name));
	}
	arena_free(&tmp);
}

static int report_run(struct check_context *c)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < c->nout; i++) {
		bytes += c->out[i] ? c->out[i]->bytes : 0;
		compare_output(c, i);
	}
	compare_inner(c);
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
