/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges weights that have NaN by a run of the file's nodes one by one: a weight is at fault if a node that reads it makes NaN of
 * it, and an output has NaN or consists of whole numbers that were made of NaN, as those of an ArgMax. NaN in an input are judged
 * by the outputs of the same run.
 */
#include "check/nan_weights.h"

#include "check/cause.h"
#include "check/step_value.h"

#include <string.h>

void suspect_nan(struct check_context *c, const struct graph *g, const struct value *v,
		 const char *said)
{
	struct nan_weight *x = arena_new(&c->arena, struct nan_weight);

	*x = (struct nan_weight){g, v, said, NULL};
	*(c->last_nan_weight ? &c->last_nan_weight->next : &c->nan_weights) = x;
	c->last_nan_weight = x;
}

void suspect_nan_input(struct check_context *c, const struct finding *found, bool handled)
{
	struct nan_input *x = arena_new(&c->arena, struct nan_input);

	*x = (struct nan_input){*found, handled, NULL};
	*(c->last_nan_input ? &c->last_nan_input->next : &c->nan_inputs) = x;
	c->last_nan_input = x;
}

/* What a run of the file's nodes has shown. */
struct nan_run {
	struct observer observer;
	struct check_context *c;
	const struct runtime *rt;
	const struct graph *g;
	bool *made, *nan;	    /* by value id: an input, or a step has made it; it has NaN */
	const struct node *decides; /* the first node that makes whole numbers of NaN */
	bool ran;
};

static bool reads_nan(const struct nan_run *r, const struct node *n)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = node_in(r->g, n, i);
		/* a view has the elements of what it is a view of */
		for (int depth = 0; v && depth < 64 && !v->init && !r->made[v->id]; depth++)
			v = v->producer == NO_NODE ? NULL : node_in(r->g, r->g->node[v->producer], 0);
		if (v && (v->init ? value_stats(v->init).nan != 0 : r->nan[v->id]))
			return true;
	}
	return false;
}

static void look_at_step(struct observer *o, const struct step *s, const struct call *call)
{
	struct nan_run *r = (struct nan_run *)o;
	const struct node *n = s->node;

	if (step_moves(r->rt, s) || !step_of(r->g, s))
		return;
	for (uint32_t i = 0; i < s->nout; i++) {
		struct value_copy v;
		if (!call->out[i] || n->out[i] == NO_VALUE ||
		    value_fetch(r->rt, call, call->out[i], false, &v, NULL))
			continue;
		r->made[n->out[i]] = true;
		r->nan[n->out[i]] = value_stats(&v.t).nan != 0;
		bool whole = v.t.type.kind == V_TENSOR && (T_BIT(tensor_dtype(&v.t)) & T_INTS);
		if (whole && !r->decides && !check_is(n, "Shape") && !check_is(n, "Size") &&
		    reads_nan(r, n))
			r->decides = n;
		value_free(&v);
	}
}

static void run_nodes(struct nan_run *r, struct session *s)
{
	struct check_context *c = r->c;

	r->g = session_model(s)->graph;
	r->rt = session_runtime(s);
	r->observer.end = look_at_step;
	r->made = arena_new_n(&c->arena, bool, r->g->nvalues + 1);
	r->nan = arena_new_n(&c->arena, bool, r->g->nvalues + 1);
	for (uint32_t i = 0; i < r->g->nin; i++) {
		r->made[r->g->in[i]] = true;
		r->nan[r->g->in[i]] = value_stats(c->in[i]).nan != 0;
	}
	const struct tensor **out = arena_new_n(&c->arena, const struct tensor *, r->g->nout + 1);
	r->ran = check_try_run(c, s, c->in, out, &r->observer);
}

/* Whether a node that reads the weight makes NaN, or has no step that would tell, as one in a body. */
static bool passes_on(const struct nan_run *r, const struct nan_weight *x)
{
	const struct value *v = NULL;

	for (uint32_t i = 0; r->ran && i < r->g->nvalues && !v; i++)
		if (r->g->value[i]->init && !strcmp(r->g->value[i]->name, x->v->name))
			v = r->g->value[i];
	if (!v || x->g != r->c->file->graph || v->is_output || !v->nusers)
		return true;
	for (uint32_t k = 0; k < v->nusers; k++) {
		const struct node *n = r->g->node[v->users[k]];
		for (uint32_t i = 0; i < n->nout; i++)
			if (n->out[i] != NO_VALUE && (!r->made[n->out[i]] || r->nan[n->out[i]]))
				return true;
	}
	return r->decides != NULL;
}

static bool has_nan_output(const struct check_context *c)
{
	for (uint32_t k = 0; k < c->nout; k++)
		if (c->out[k] && value_stats(c->out[k]).nan)
			return true;
	return false;
}

static void judge(const struct nan_run *r, const struct nan_weight *x, bool output)
{
	struct check_context *c = r->c;
	const struct node *n = x->v->nusers ? x->g->node[x->v->users[0]] : NULL;
	bool meant = readers_mean(x->g, x->v, x->v->init, nan_is_meant);
	bool reaches = c->out && passes_on(r, x) && (output || r->decides);
	const char *shown = !c->out    ? "no run has shown whether an output becomes NaN"
			    : !reaches ? "no output of the run shows it"
			    : output   ? "an output has NaN"
				       : fmt(c->d, "'%s' (%s) makes whole numbers of NaN",
					     check_node(r->decides), r->decides->origin->op);
	struct finding f = {
		.code = E_WEIGHT_NAN,
		.severity = reaches ? SEV_ERROR
			    : meant ? SEV_NOTE
				    : SEV_WARNING,
		.node = n ? check_node(n) : NULL,
		.op = n ? n->origin->op : NULL,
		.slot = fmt(c->d, "initializer '%s'", x->v->name),
		.message = fmt(c->d, "%s%s; %s", x->said,
			       meant && !reaches ? ", to fill in or to compare with" : "", shown),
		.file = __FILE__,
		.line = __LINE__};
	diag_add(c->d, &f);
}

static void judge_input(const struct nan_run *r, const struct nan_input *x, bool output)
{
	struct finding f = x->found;

	if (r->c->out && !output && (x->handled || (r->ran && !r->decides))) {
		f.severity = SEV_NOTE;
		f.message = fmt(r->c->d, "%s; no output of the run shows it", f.message);
	}
	diag_add(r->c->d, &f);
}

static int run_nan_weights(struct check_context *c)
{
	struct nan_run r = {.c = c};
	struct session *s = c->out ? check_open_plain(c) : NULL;

	if (s)
		run_nodes(&r, s);
	bool output = has_nan_output(c);
	for (const struct nan_weight *x = c->nan_weights; x; x = x->next)
		judge(&r, x, output);
	for (const struct nan_input *x = c->nan_inputs; x; x = x->next)
		judge_input(&r, x, output);
	session_close(s);
	return 0;
}

static bool is_anything_nan(const struct check_context *c, const char **why)
{
	(void)why;
	return c->nan_weights || c->nan_inputs;
}

const struct check check_nan_weights = {
	.name = "nan",
	.what = "how far NaN in weights and inputs reach",
	.need = NEED_FILE,
	.cost = COST_RUN,
	.applies = is_anything_nan,
	.run = run_nan_weights,
};
