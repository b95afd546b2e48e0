/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_UNIT_TRIAL_H
#define TEST_UNIT_TRIAL_H
/*
 * A graph made of text (the notation of src/opt/rewrite.h) for tests of the optimizer:
 *
 *   struct trial t; trial_start(&t); trial_input(&t, "x", DT_F32, shape); trial_text(&t, "y = Relu(x)");
 *   trial_output(&t, "y"); ... trial_finish(&t);
 */
#include "cpu/cpu.h"
#include "opt/optimizer.h"
#include "opt/pattern.h"
#include "test/unit/unit.h"

#include <string.h>

struct trial {
	struct model model; /* its arena has the graph */
	struct diag diag;
	struct run_config config;
	struct optimizer o;
	struct graph *g;
	struct names vars;	   /* names that the text may use, */
	uint32_t value[MAX_NAMES]; /* and the values they stand for */
};

__attribute__((unused)) static void trial_start(struct trial *t)
{
	memset(t, 0, sizeof(*t));
	t->g = t->model.graph = graph_new(&t->model.arena, &t->model, "trial");
	t->g->in = arena_new_n(&t->model.arena, uint32_t, MAX_NAMES);
	t->g->out = arena_new_n(&t->model.arena, uint32_t, MAX_NAMES);
	t->g->out_name = arena_new_n(&t->model.arena, const char *, MAX_NAMES);
	t->o = (struct optimizer){
		.model = &t->model, .cpu = &cpu_backend, .config = &t->config, .diag = &t->diag};
}

__attribute__((unused)) static void trial_finish(struct trial *t)
{
	if (t->diag.errors)
		diag_print(&t->diag, stdout, false);
	arena_free(&t->o.scratch);
	arena_free(&t->model.arena);
	diag_free(&t->diag);
}

__attribute__((unused)) static void trial_name(struct trial *t, const char *name, uint32_t id)
{
	t->value[t->vars.n] = id;
	t->vars.name[t->vars.n++] = name;
}

__attribute__((unused)) static void trial_input(struct trial *t, const char *name, enum dtype type,
						struct shape s)
{
	struct value *v = graph_add_value(t->g, name);

	v->info.type = type_tensor(type);
	v->info.shape = s;
	v->is_input = true;
	t->g->in[t->g->nin++] = v->id;
	trial_name(t, name, v->id);
}

__attribute__((unused)) static void trial_const(struct trial *t, const char *name, struct tensor *x)
{
	trial_name(t, name, graph_add_const(t->g, name, x)->id);
}

/* Adds the nodes of the text; 0 or -code. */
__attribute__((unused)) static int trial_text(struct trial *t, const char *nodes)
{
	struct made made = {&t->o, t->g};
	struct rewriter w = opt_rewriter(&made);

	return text_build(&w, nodes, &t->vars, t->value);
}

/* Makes a named value an output of the graph; false where there is none of that name. */
__attribute__((unused)) static bool trial_output(struct trial *t, const char *name)
{
	int k = names_find(&t->vars, name, strlen(name));

	if (k == NO_VAR)
		return false;
	t->g->out_name[t->g->nout] = name;
	t->g->out[t->g->nout++] = t->value[k];
	t->g->value[t->value[k]]->is_output = true;
	return true;
}

#endif
