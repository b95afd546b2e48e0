/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --determinism N: checks that N runs on the same input give the same bits. If they do not, finds the first node that
 * differs.
 */
#include "base/hash.h"
#include "check/check.h"
#include "check/step_value.h"
#include "ops/op.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The hashes of a run's values. Keeping the values themselves of two runs could take too much memory. */
struct value_hashes {
	struct observer observer;
	const struct runtime *rt;
	const struct graph *g;
	struct diag *d;
	uint64_t *hash; /* indexed by value id */
	int err;
};

static void ignore_begin(struct observer *o, const struct step *s, const struct call *call)
{
	(void)o, (void)s, (void)call;
}

static void hash_outputs(struct observer *o, const struct step *s, const struct call *call)
{
	struct value_hashes *x = (struct value_hashes *)o;

	if (!step_computes(x->rt, x->g, s))
		return;
	for (uint32_t i = 0; i < s->nout && !x->err; i++) {
		struct value_copy v;
		if (!call->out[i] || call->out[i]->type.kind != V_TENSOR ||
		    tensor_dtype(call->out[i]) == DT_STRING)
			continue;
		x->err = value_fetch(x->rt, call, call->out[i], false, &v, x->d);
		if (x->err)
			return;
		x->hash[s->node->out[i]] = hash_bytes(v.t.data, v.t.bytes, 1) | 1;
		value_free(&v);
	}
}

static int hash_run(struct check_context *c, struct value_hashes *x, const struct tensor **out)
{
	const struct graph *g = session_model(c->session)->graph;

	*x = (struct value_hashes){.observer = {.begin = ignore_begin, .end = hash_outputs},
				   .rt = session_runtime(c->session),
				   .g = g,
				   .d = c->d};
	x->hash = arena_new_n(&c->arena, uint64_t, g->nvalues + 1);
	int err = check_session_run(c, c->session, c->in, out, &x->observer);
	return err ? err : x->err;
}

/* Returns the first node with different outputs, or NULL. All nodes before it agree, and so do its inputs. */
static const struct node *first_difference(const struct value_hashes *a, const struct value_hashes *b)
{
	for (uint32_t p = 0; p < a->g->norder; p++) {
		const struct node *n = a->g->node[a->g->order[p]];
		for (uint32_t i = 0; i < n->nout; i++)
			if (n->out[i] != NO_VALUE && a->hash[n->out[i]] != b->hash[n->out[i]])
				return n;
	}
	return NULL;
}

/*
 * Repeats runs whose values are hashed node by node, until one differs from the first or there were determinism +
 * 20 runs. *node becomes the first node whose outputs differ, or NULL if no run differed.
 */
static int find_nondeterministic_node(struct check_context *c, const struct tensor **out,
				      const struct node **node)
{
	struct value_hashes first, other;
	int err = hash_run(c, &first, out);

	*node = NULL;
	for (int64_t i = 1; i < c->options->determinism + 20 && !err && !*node; i++) {
		err = hash_run(c, &other, out);
		if (!err)
			*node = first_difference(&first, &other);
	}
	return err;
}

/* Tells how far apart the values of one output are in several runs. */
struct spread {
	int64_t runs;	/* number of runs that differ from the first */
	double most;	/* largest difference of an element */
	double largest; /* largest absolute value in the first run */
	int64_t at;	/* index of the element with the largest difference */
	double got, want; /* values of that element in the run with this difference and in the first run */
};

static void add_run(const struct tensor *got, const struct tensor *first, struct spread *s)
{
	int64_t n = tensor_count(first);
	enum dtype t = tensor_dtype(first);

	if (tensor_same(got, first))
		return;
	s->runs++;
	if (got->type.kind != V_TENSOR || t == DT_STRING || t == DT_C64 || t == DT_C128 ||
	    !shape_equal(&got->shape, &first->shape))
		return;
	for (int64_t i = 0; i < n; i++) {
		double x = elem_f64(t, got->data, i), y = elem_f64(t, first->data, i);
		if (fabs(y) > s->largest)
			s->largest = fabs(y);
		if (!(fabs(x - y) > s->most))
			continue;
		s->most = fabs(x - y);
		s->at = i;
		s->got = x;
		s->want = y;
	}
}

static int report_spread(struct check_context *c, uint32_t k, const struct spread *s, int64_t runs,
			 const struct node *n)
{
	const struct graph *g = session_model(c->session)->graph;
	struct diag_row rows[3];
	size_t r = 0;

	rows[r++] = (struct diag_row){
		"apart", fmt(c->d, "%.3g of %.4g at most, at element %" PRId64 ": %.9g and %.9g",
			     s->most, s->largest, s->at, s->want, s->got)};
	if (n)
		rows[r++] = (struct diag_row){"first node",
					      fmt(c->d, "'%s' (%s): the same inputs, other outputs",
						  n->origin->name, n->origin->op)};
	else
		rows[r++] = (struct diag_row){
			"first node",
			"not found: runs that are observed node by node agree, so a race condition is likely"};
	if (n && n->op && (n->op->flags & OP_RANDOM))
		rows[r++] = (struct diag_row){
			"likely", "the node draws random numbers: set its seed, or remove it"};
	FAIL(c->d, E_DETERMINISM, .slot = fmt(c->d, "output '%s'", g->out_name[k]),
	     .node = n ? n->origin->name : NULL, .op = n ? n->origin->op : NULL,
	     .message = fmt(c->d, "%" PRId64 " of %" PRId64 " runs differ from the first", s->runs,
			    runs),
	     .rows = rows, .nrows = r);
	return 0;
}

static int run_determinism(struct check_context *c)
{
	const struct graph *g = session_model(c->session)->graph;
	const struct tensor **out = arena_new_n(&c->arena, const struct tensor *, g->nout + 1);
	struct spread *spread = arena_new_n(&c->arena, struct spread, g->nout + 1);
	int64_t runs = c->options->determinism > 0 ? c->options->determinism : 5;
	const struct node *node = NULL;
	bool differs = false;
	int err = 0;

	for (int64_t i = 1; i < runs && !err; i++) {
		err = check_session_run(c, c->session, c->in, out, NULL);
		for (uint32_t k = 0; k < g->nout && !err; k++)
			if (out[k] && c->out[k])
				add_run(out[k], c->out[k], &spread[k]);
		check_step(c, (uint64_t)i, (uint64_t)runs);
	}
	for (uint32_t k = 0; k < g->nout; k++)
		differs |= spread[k].runs != 0;
	if (!err && differs)
		err = find_nondeterministic_node(c, out, &node);
	for (uint32_t k = 0; k < g->nout && !err; k++)
		if (spread[k].runs)
			report_spread(c, k, &spread[k], runs, node);
	if (!err && !differs)
		check_say(c, "%" PRId64 " runs, the same bits", runs);
	return err;
}

static bool is_requested(const struct check_context *c, const char **why)
{
	(void)why;
	return c->options->determinism > 0 || c->options->all;
}

const struct check check_determinism = {
	.name = "determinism",
	.what = "the same input gives the same bits",
	.need = NEED_OUTPUTS,
	.cost = COST_RUNS,
	.applies = is_requested,
	.run = run_determinism,
};
