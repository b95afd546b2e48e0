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

/* What the comparison of all values shares; names lead to their values by maps, as a model may have thousands of them. */
struct comparing {
	struct check_context *c;
	struct arena tmp;
	int64_t *size;	     /* by symbol of the file: its size in the run, or DIM_UNKNOWN */
	struct map output;   /* of the file, by name */
	struct map reported; /* slots of findings about declarations */
};

static void map_name(struct map *m, const char *name, uint32_t number)
{
	if (map_get(m, name, strlen(name)) < 0)
		map_set(m, name, strlen(name), number);
}

/* Sets the sizes that the run's inputs give to the symbols that the file declares. */
static void read_sizes(struct comparing *x)
{
	const struct check_context *c = x->c;
	const struct graph *f = c->file->graph, *g = session_model(c->session)->graph;
	struct map declared = {.arena = &x->tmp};

	x->size = arena_new_n(&x->tmp, int64_t, (size_t)c->file->nsymbols + 1);
	for (uint32_t i = 0; i < c->file->nsymbols; i++)
		x->size[i] = DIM_UNKNOWN;
	for (uint32_t i = 0; i < f->nin; i++)
		map_name(&declared, f->value[f->in[i]]->name, f->in[i]);
	for (uint32_t i = 0; i < g->nin; i++) {
		const char *name = g->value[g->in[i]]->name;
		int64_t at = map_get(&declared, name, strlen(name));
		const struct shape *s = at < 0 ? NULL : &f->value[at]->info.shape;
		for (int k = 0; s && k < s->rank && c->in[i] && c->in[i]->shape.rank == s->rank; k++)
			if (dim_is_sym(s->dim[k]) && x->size[DIM_SYM_ID(s->dim[k])] == DIM_UNKNOWN)
				x->size[DIM_SYM_ID(s->dim[k])] = c->in[i]->shape.dim[k];
	}
}

static void read_reported(struct comparing *x)
{
	for (const struct finding *f = x->c->d->first; f; f = f->next)
		if (f->code == E_MODEL_DECLARED && f->slot)
			map_name(&x->reported, f->slot, 1);
}

/* Warns if the run gave value v of the file's graph another shape than the file declares. */
static void compare_shape(struct comparing *x, const struct value *v, const struct shape *got,
			  const char *slot)
{
	const struct shape *declared = &v->info.shape;
	struct check_context *c = x->c;

	if (v->info.type.kind != V_TENSOR || declared->rank < 0)
		return;
	bool same = declared->rank == got->rank;
	for (int k = 0; same && k < got->rank; k++) {
		int64_t n = declared->dim[k];
		n = dim_is_sym(n) && DIM_SYM_ID(n) < c->file->nsymbols ? x->size[DIM_SYM_ID(n)] : n;
		same = n < 0 || n == got->dim[k];
	}
	if (same || !map_set(&x->reported, slot, strlen(slot), 1))
		return;
	const struct node *n = value_maker(c->file->graph, v);
	WARN(c->d, E_MODEL_DECLARED, .node = n ? check_node(n) : NULL, .op = n ? n->origin->op : NULL,
	     .slot = slot, .message = "the run gave another shape than is declared",
	     .expected = fmt(c->d, "%s, as declared",
			     shape_str(&c->d->arena, declared, c->file->symbols)),
	     .actual = shape_str(&c->d->arena, got, NULL));
}

/* Output `at` of the run, whose name the file's graph has as an output, too, unless --output has chosen an inner value. */
static void compare_output(struct comparing *x, uint32_t at)
{
	const struct check_context *c = x->c;
	const struct graph *g = c->file->graph;
	const char *name = session_model(c->session)->graph->out_name[at];
	int64_t i = map_get(&x->output, name, strlen(name));

	if (i < 0 || !c->out[at] || c->out[at]->type.kind != V_TENSOR)
		return;
	compare_shape(x, g->value[g->out[i]], &c->out[at]->shape, fmt(c->d, "output '%s'", name));
}

/* Compares what the file declares for values between the nodes, whose shapes may depend on data, with those of the first run. */
static void compare_inner(struct comparing *x)
{
	const struct check_context *c = x->c;
	const struct graph *f = c->file->graph, *g = session_model(c->session)->graph;
	struct map of = {.arena = &x->tmp};

	for (uint32_t i = 0; c->shapes && i < g->nvalues; i++)
		if (c->shapes[i] && *g->value[i]->name)
			map_set(&of, g->value[i]->name, strlen(g->value[i]->name), i);
	for (uint32_t i = 0; i < f->nvalues && c->shapes; i++) {
		const struct value *v = f->value[i];
		if (v->is_output || v->producer == NO_NODE || !*v->name)
			continue;
		/* each load of the file numbers its values alike; one that the optimizer made in its place has its name */
		int64_t at =
			i < g->nvalues && c->shapes[i] ? i : map_get(&of, v->name, strlen(v->name));
		if (at >= 0)
			compare_shape(x, v, c->shapes[at], fmt(c->d, "value '%s'", v->name));
	}
}

static int report_run(struct check_context *c)
{
	struct comparing x = {.c = c};
	size_t bytes = 0;

	x.output.arena = x.reported.arena = &x.tmp;
	for (uint32_t i = 0; i < c->file->graph->nout; i++)
		map_name(&x.output, c->file->graph->out_name[i], i);
	read_sizes(&x);
	read_reported(&x);
	for (uint32_t i = 0; i < c->nout; i++) {
		bytes += c->out[i] ? c->out[i]->bytes : 0;
		compare_output(&x, i);
	}
	compare_inner(&x);
	arena_free(&x.tmp);
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
