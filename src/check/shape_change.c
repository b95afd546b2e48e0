/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a session that is kept while the shape of its input changes: it runs with shape A, shape B and shape A again,
 * and each output must equal that of a fresh session. This finds caches that do not notice the change of shape.
 */
#include "check/check.h"
#include "check/pair.h"
#include "check/pair_sides.h"
#include "check/path_precision.h"
#include "check/prepare_inputs.h"
#include "check/trial_sizes.h"
#include "ir/difference.h"

#include <inttypes.h>

static bool sizes_can_change(const struct check_context *c, const char **why)
{
	if (!c->options->all && !c->options->sweep.n)
		return false;
	if (c->request->input.n || c->request->data_set) {
		*why = "inputs from files have a fixed shape; give --shape or --dim instead";
		return false;
	}
	return true;
}

static bool draws_random_numbers(const struct graph *g)
{
	for (uint32_t i = 0; i < g->nnodes; i++) {
		const struct node *n = g->node[i];
		if (!n->dead && n->op && n->op->flags & OP_RANDOM)
			return true;
		for (uint32_t k = 0; !n->dead && k < n->nsub; k++)
			if (draws_random_numbers(n->sub[k]))
				return true;
	}
	return false;
}

/* Runs the session and returns copies of its outputs, or NULL if the run failed. */
static const struct tensor **run_and_copy(struct check_context *c, struct session *s,
					  const struct input_set *in, struct arena *a)
{
	uint32_t n = session_model(s)->graph->nout;
	const struct tensor **out = arena_new_n(a, const struct tensor *, n + 1);

	if (check_session_run(c, s, input_tensors(in), out, NULL))
		return NULL;
	for (uint32_t i = 0; i < n; i++)
		out[i] = out[i] ? tensor_copy(a, out[i]) : NULL;
	return out;
}

static const struct tensor **run_fresh_session(struct check_context *c, const struct input_set *in,
					       struct arena *a)
{
	struct session *s = check_open(c, c->config);
	const struct tensor **out = s ? run_and_copy(c, s, in, a) : NULL;

	session_close(s);
	return out;
}

/* Names in *f the first node whose output differs from that in a fresh session although the node's inputs agree. */
static void name_differing_node(struct check_context *c, const struct input_set *in, struct finding *f)
{
	struct diag quiet = {0}, *all = c->d;
	struct pair p = {
		.ref = {.name = "fresh", .config = *c->config},
		.got = {.name = "kept", .config = *c->config, .session = c->session, .borrowed = true}};
	const struct pair_node *first = NULL;

	c->d = &quiet;
	int err = pair_run(c, &p, input_tensors(in));
	double limit = pair_sides_limit(c, &p);
	for (size_t i = 0; i < p.n && !err && !first; i++)
		if (distance_over(&p.nodes[i].own, p.nodes[i].path,
				  path_limit(p.nodes[i].path, limit)) &&
		    p.nodes[i].inputs.most <= limit)
			first = &p.nodes[i];
	if (first) {
		f->node = arena_str(&all->arena, first->origin->name);
		f->op = arena_str(&all->arena, first->origin->op);
	}
	pair_end(&p);
	c->d = all;
	diag_free(&quiet);
}

static int compare_outputs(struct check_context *c, const struct input_set *in,
			   const struct tensor **got, const struct tensor **want, const char *when)
{
	const struct graph *g = session_model(c->session)->graph;
	const enum dtype *path = path_precisions(&c->arena, g);
	struct diag *d = c->d;

	for (uint32_t i = 0; i < g->nout; i++) {
		struct difference x;
		const double limit = path_limit(path[g->out[i]], 1e-4);
		const struct tolerance t = {limit, limit / 10};
		if (!got[i] || !want[i] || compare_tensors(got[i], want[i], t, &x))
			continue;
		FAIL(d, E_SHAPE_STATE, .slot = fmt(d, "output '%s'", g->out_name[i]),
		     .message = fmt(d, "%s a kept session gives other values than a fresh one", when),
		     .expected = x.same_shape ? fmt(d, "%g at element %" PRId64, x.want, x.first)
					      : shape_str(&d->arena, &want[i]->shape, NULL),
		     .actual = x.same_shape ? fmt(d, "%g; %" PRId64 " of %" PRId64 " differ", x.got,
						  x.beyond, x.count)
					    : shape_str(&d->arena, &got[i]->shape, NULL));
		if (d->last)
			name_differing_node(c, in, d->last);
		return -E_SHAPE_STATE;
	}
	return 0;
}

static bool same_shapes(const struct input_set *a, const struct input_set *b)
{
	for (uint32_t i = 0; i < input_count(a); i++)
		if (!shape_equal(&input_info(a, i)->shape, &input_info(b, i)->shape))
			return false;
	return true;
}

/*
 * Returns a fresh session's outputs for these inputs, or NULL, without a finding, if the model does not accept the
 * inputs' shapes.
 */
static const struct tensor **run_if_accepted(struct check_context *c, const struct input_set *in,
					     struct arena *a)
{
	struct diag quiet = {0}, *all = c->d;

	c->d = &quiet;
	const struct tensor **out = run_fresh_session(c, in, a);
	c->d = all;
	diag_free(&quiet);
	return out;
}

/*
 * Returns inputs of another size that the model accepts, and sets *want to a fresh session's outputs for them.
 * Returns NULL if it finds none.
 */
static struct input_set *find_other_size(struct check_context *c, const struct trial_sizes *w,
					 const char **label, const struct tensor ***want,
					 struct arena *a)
{
	for (size_t k = 0; k < w->n; k++) {
		struct diag quiet = {0};
		struct input_set *s = generate_inputs(c, &w->dims[k], &quiet);
		bool other = s && !same_shapes(c->inputs, s);
		diag_free(&quiet);
		*label = w->label[k];
		*want = other ? run_if_accepted(c, s, a) : NULL;
		if (*want)
			return s;
		input_free(s);
	}
	return NULL;
}

static int run_three_times(struct check_context *c, const struct input_set *b,
			   const struct tensor **want_b, struct arena *a)
{
	const struct tensor **first = run_and_copy(c, c->session, c->inputs, a), **other, **again;
	const struct tensor **want = first ? run_fresh_session(c, c->inputs, a) : NULL;

	check_step(c, 1, 3);
	other = want ? run_and_copy(c, c->session, b, a) : NULL;
	check_step(c, 2, 3);
	again = other ? run_and_copy(c, c->session, c->inputs, a) : NULL;
	check_step(c, 3, 3);
	if (!again)
		return -E_RUN;
	if (!compare_outputs(c, c->inputs, first, want, "at the first shape") &&
	    !compare_outputs(c, b, other, want_b, "after the shape changed"))
		compare_outputs(c, c->inputs, again, want, "back at the first shape");
	return 0;
}

static int run_reshape(struct check_context *c)
{
	struct trial_sizes w = {0};
	const struct tensor **want = NULL;
	const char *label = NULL;
	struct arena a = {0};
	int rc = trial_sizes_list(c, &w);

	if (rc)
		return rc;
	if (!w.n) {
		check_say(c, "all dimensions of the inputs are fixed");
		return 0;
	}
	if (draws_random_numbers(c->file->graph)) {
		check_say(c, "free dimensions: %s; not tried, as the model draws random numbers",
			  w.free);
		return 0;
	}
	struct input_set *b = find_other_size(c, &w, &label, &want, &a);
	if (b) {
		rc = run_three_times(c, b, want, &a);
		check_say(c, "free dimensions: %s; a run with %s between two runs of the first shape",
			  w.free, label);
	} else {
		check_say(c, "free dimensions: %s, but the model accepts no other size that was tried",
			  w.free);
	}
	input_free(b);
	arena_free(&a);
	return rc;
}

const struct check check_reshape = {
	.name = "new shape",
	.what = "a session kept while its input's shape changes",
	.need = NEED_OUTPUTS,
	.cost = COST_RUNS,
	.applies = sizes_can_change,
	.run = run_reshape,
};
