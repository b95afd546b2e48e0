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
	bool *turns;		    /* by node id: makes whole numbers of NaN that it reads */
	const struct node *decides; /* the first such node */
	bool ran;
};

/* Whether it is known if the value has NaN: a step has made it, or it is the same in every run, as a size is. */
static bool is_known(const void *arg, uint32_t id)
{
	const struct nan_run *r = arg;

	return r->made[id] || value_constant(r->g->value[id]);
}

static bool reads_nan(const struct nan_run *r, const struct node *n)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		if (n->in[i] == NO_VALUE)
			continue;
		uint32_t id = follow_views(r->g, n->in[i], true, is_known, r);
		const struct tensor *t = r->g->value[id]->init;
		if (t ? value_stats(t).nan != 0 : r->nan[id])
			return true;
	}
	return false;
}

static void look_at_step(struct observer *o, const struct step *s, const struct call *call)
{
	struct nan_run *r = (struct nan_run *)o;
	const struct node *n = s->node;

	if (!step_computes(r->rt, r->g, s))
		return;
	for (uint32_t i = 0; i < s->nout; i++) {
		struct value_copy v;
		if (!call->out[i] || n->out[i] == NO_VALUE ||
		    value_fetch(r->rt, call, call->out[i], false, &v, NULL))
			continue;
		r->made[n->out[i]] = true;
		r->nan[n->out[i]] = value_stats(&v.t).nan != 0;
		bool whole = v.t.type.kind == V_TENSOR && (T_BIT(tensor_dtype(&v.t)) & T_INTS);
		if (whole && !check_is(n, "Shape") && !check_is(n, "Size") && reads_nan(r, n)) {
			r->turns[n->id] = true;
			r->decides = r->decides ? r->decides : n;
		}
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
	r->turns = arena_new_n(&c->arena, bool, r->g->nnodes + 1);
	for (uint32_t i = 0; i < r->g->nin; i++) {
		r->made[r->g->in[i]] = true;
		r->nan[r->g->in[i]] = value_stats(c->in[i]).nan != 0;
	}
	const struct tensor **out = arena_new_n(&c->arena, const struct tensor *, r->g->nout + 1);
	r->ran = check_try_run(c, s, c->in, out, &r->observer);
}

/*
 * Returns the session's value of a weight of the file's own graph, or NULL. Each load of a file numbers its values alike; names need
 * not be unique, as functions that are called by nodes of one name give theirs to several values.
 */
static const struct value *value_here(const struct nan_run *r, const struct nan_weight *x)
{
	if (!r->ran || x->g != r->c->file->graph || x->v->id >= r->g->nvalues)
		return NULL;
	const struct value *v = r->g->value[graph_became(r->g, x->v->id)];

	return v->init ? v : NULL;
}

/* Whether a node that reads the weight makes NaN, or whole numbers of it, or has no step that would tell, as one in a body. */
static bool passes_on(const struct nan_run *r, const struct nan_weight *x)
{
	const struct value *v = value_here(r, x);

	if (!v || v->is_output || !v->nusers)
		return true;
	for (uint32_t k = 0; k < v->nusers; k++) {
		const struct node *n = r->g->node[v->users[k]];
		if (r->turns[n->id])
			return true;
		for (uint32_t i = 0; i < n->nout; i++)
			if (n->out[i] != NO_VALUE && (!r->made[n->out[i]] || r->nan[n->out[i]]))
				return true;
	}
	return false;
}

/* Whether an output has NaN for which no finding blames inputs that were generated. */
static bool has_nan_output(const struct check_context *c)
{
	for (uint32_t k = 0; k < c->nout; k++)
		if (c->out[k] && value_stats(c->out[k]).nan &&
		    !(c->inputs_to_blame && c->inputs_to_blame[k]))
			return true;
	return false;
}

static void judge(const struct nan_run *r, const struct nan_weight *x, bool output)
{
	struct check_context *c = r->c;
	const struct node *n = x->v->nusers ? x->g->node[x->v->users[0]] : NULL;
	bool meant = readers_mean(x->g, x->v, x->v->init, nan_is_meant);
	bool reaches = c->out && passes_on(r, x) && (output || r->decides);
	const char *shown = !c->out ? "no run has shown whether an output becomes NaN"
			    : !reaches && c->inputs_to_blame
				    ? "the NaN of outputs come from generated inputs"
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
