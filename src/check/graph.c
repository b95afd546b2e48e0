/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds faults of a graph that loads: unused inputs, weights and nodes, nodes without effect, training mode, bad
 * names, and nodes that runtimes read in different ways.
 */
#include "check/casts.h"
#include "check/check.h"
#include "base/hash.h"
#include "base/str.h"
#include "ops/ml.h"
#include "ops/op.h"
#include "ops/resize.h"
#include "opt/params.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct graph_check {
	struct check_context *c;
	struct arena a;
	struct map used; /* tensors of the initializers that something reads, keyed by address */
	struct check_names identity, dim;
	size_t chains;
};

/* ---- unused values and nodes */

/*
 * Collects the initializers that this graph and its bodies use. An initializer is identified by its tensor's address,
 * because a body that uses an initializer of the outer graph has a constant of its own with the same tensor.
 */
static void mark_used(struct graph_check *w, const struct graph *g)
{
	for (uint32_t i = 0; i < g->nvalues; i++) {
		const struct value *v = g->value[i];
		if (v->init && (v->nusers || v->is_output))
			map_set(&w->used, arena_dup(&w->a, &v->init, sizeof(v->init)),
				sizeof(v->init), 1);
	}
	for (uint32_t i = 0; i < g->nnodes; i++)
		for (uint32_t k = 0; !g->node[i]->dead && k < g->node[i]->nsub; k++)
			mark_used(w, g->node[i]->sub[k]);
}

static void report_unused_weights(struct graph_check *w, const struct graph *g)
{
	struct check_names names = {&w->a, NULL, 0};
	struct diag *d = w->c->d;
	uint64_t bytes = 0;

	mark_used(w, g);
	for (uint32_t i = 0; i < g->nvalues; i++) {
		const struct value *v = g->value[i];
		if (!v->init || map_get(&w->used, (const char *)&v->init, sizeof(v->init)) >= 0)
			continue;
		check_name_add(&names, v->name);
		bytes += v->init->bytes;
	}
	if (names.n)
		WARN(d, E_MODEL_UNUSED,
		     .slot = names.n == 1 ? fmt(d, "initializer %s", names.text) : NULL,
		     .message = fmt(d, "nothing uses %zu initializer%s of %" PRIu64 " bytes: %s",
				    names.n, names.n > 1 ? "s" : "", bytes, check_name_list(&names)));
}

static void report_unused_inputs(struct graph_check *w, const struct graph *g)
{
	struct diag *d = w->c->d;

	for (uint32_t i = 0; i < g->nin; i++) {
		const struct value *v = g->value[g->in[i]];
		if (!v->nusers && !v->is_output)
			WARN(d, E_MODEL_UNUSED, .slot = fmt(d, "input '%s'", v->name),
			     .message = "nothing uses this input",
			     .hint = "remove it, or look for the node that should read it");
	}
}

/* Reports the nodes on which no output depends, in the graph and its bodies. */
static void report_dead_nodes(struct graph_check *w, const struct graph *g)
{
	bool *live = arena_new_n(&w->a, bool, g->nvalues + 1);
	struct check_names names = {&w->a, NULL, 0};
	const struct node *first = NULL;
	struct diag *d = w->c->d;

	for (uint32_t i = 0; i < g->nout; i++)
		live[g->out[i]] = true;
	for (uint32_t i = g->norder; i-- > 0;) {
		const struct node *n = g->node[g->order[i]];
		bool wanted = false;
		for (uint32_t k = 0; k < n->nout; k++)
			wanted |= n->out[k] != NO_VALUE && live[n->out[k]];
		for (uint32_t k = 0; wanted && k < n->nin + n->ncap; k++)
			if (n->in[k] != NO_VALUE)
				live[n->in[k]] = true;
		for (uint32_t k = 0; k < n->nsub; k++)
			report_dead_nodes(w, n->sub[k]);
		if (wanted)
			continue;
		check_name_add(&names, check_node(n));
		first = n;
	}
	if (names.n)
		WARN(d, E_MODEL_DEAD, .node = check_node(first), .op = first->origin->op,
		     .message = names.n == 1 ? "nothing uses its outputs"
					     : fmt(d, "nothing uses the outputs of %zu nodes: %s",
						   names.n, check_name_list(&names)));
}

/* ---- the order of the nodes */

/*
 * Whether the value is made by a Constant that comes behind node n in the file: the loader numbers the outputs of all
 * nodes in the order of the file, and values of other graphs later.
 */
static bool is_later_constant(const bool *constant, const struct node *n, const struct value *v)
{
	return constant[v->id] && v->init && n->nout && n->out[0] != NO_VALUE && v->id >= n->out[0];
}

/*
 * Reports the first node in the file that comes before a node whose output it reads. ONNX demands a topological order;
 * like ONNX Runtime, infer sorts the nodes, so that the model runs here.
 */
static void report_order(struct graph_check *w, const struct graph *g)
{
	bool *made = arena_new_n(&w->a, bool, g->nvalues + 1); /* by a Constant */
	struct diag *d = w->c->d;
	bool told = false;

	for (const struct constant_node *c = g->constants; c; c = c->next)
		made[c->value] = true;
	for (uint32_t i = 0; i < g->nnodes; i++) {
		const struct node *n = g->node[i];
		for (uint32_t k = 0; !n->dead && !told && k < n->nin + n->ncap; k++) {
			const struct value *v = n->in[k] == NO_VALUE ? NULL : g->value[n->in[k]];
			const bool constant = v && is_later_constant(made, n, v);
			if (!v || (!constant && (v->producer == NO_NODE || v->producer <= i)))
				continue;
			WARN(d, E_MODEL_ORDER, .node = check_node(n), .op = n->origin->op,
			     .message = fmt(
				     d, "it reads '%s', but stands in the file before %s '%s', which makes it",
				     v->name, constant ? "Constant" : g->node[v->producer]->type,
				     constant ? v->name : check_node(g->node[v->producer])));
			told = true;
		}
		for (uint32_t k = 0; !n->dead && k < n->nsub; k++)
			report_order(w, n->sub[k]);
	}
}

/* ---- names */

static void count_name(struct map *seen, const char *name)
{
	int64_t times = map_get(seen, name, strlen(name));

	map_set(seen, name, strlen(name), times < 0 ? 1 : (uint32_t)times + 1);
}

/* Warns of a name that several nodes have, once: its count becomes 1. */
static void report_name(struct graph_check *w, struct map *seen, const char *name, const char *op)
{
	int64_t times = map_get(seen, name, strlen(name));

	if (times < 2)
		return;
	WARN(w->c->d, E_MODEL_NAME, .node = name, .op = op,
	     .message = fmt(w->c->d, "%" PRId64 " nodes have this name", times),
	     .hint = "give each node a name of its own");
	map_set(seen, name, strlen(name), 1);
}

static void report_duplicate_names(struct graph_check *w, const struct graph *g)
{
	struct map seen = {.arena = &w->a};

	for (uint32_t i = 0; i < g->nnodes; i++)
		count_name(&seen, check_node(g->node[i]));
	for (const struct constant_node *c = g->constants; c; c = c->next)
		if (*c->name)
			count_name(&seen, c->name);
	for (uint32_t i = 0; i < g->nnodes; i++)
		report_name(w, &seen, check_node(g->node[i]), g->node[i]->origin->op);
	for (const struct constant_node *c = g->constants; c; c = c->next)
		if (*c->name)
			report_name(w, &seen, c->name, "Constant");
}

static void report_unnamed_dims(struct graph_check *w, const struct graph *g)
{
	struct diag *d = w->c->d;

	for (uint32_t i = 0; i < g->nin; i++) {
		const struct value *v = g->value[g->in[i]];
		struct check_names dims = {&w->a, NULL, 0};
		for (int k = 0; k < v->info.shape.rank && v->info.type.kind == V_TENSOR; k++) {
			int64_t n = v->info.shape.dim[k];
			if (n == DIM_UNKNOWN ||
			    (dim_is_sym(n) && *w->c->file->symbols[DIM_SYM_ID(n)] == '?'))
				check_name_add(&dims, arena_printf(&w->a, "%d", k));
		}
		if (dims.n)
			NOTE(d, E_MODEL_DIM_NAME, .slot = fmt(d, "input '%s'", v->name),
			     .message = fmt(d, "free dimension%s %s ha%s no name",
					    dims.n > 1 ? "s" : "", check_name_list(&dims),
					    dims.n > 1 ? "ve" : "s"));
	}
}

/* ---- nodes without effect */

/* Returns the node that makes input 0 of n if n is the only reader of that input, otherwise NULL. */
static const struct node *only_predecessor(const struct graph *g, const struct node *n)
{
	const struct value *v = node_in(g, n, 0);

	if (!v || v->producer == NO_NODE || v->nusers != 1 || v->is_output)
		return NULL;
	return g->node[v->producer];
}

/*
 * Whether Transpose with permutation b undoes Transpose with permutation a. NULL stands for the default, which
 * reverses all axes.
 */
static bool permutations_cancel(const struct ints *a, const struct ints *b)
{
	int64_t n = a ? a->n : b ? b->n : -1;

	if (n < 0 || (a && b && a->n != b->n))
		return n < 0; /* without permutations both reverse the axes */
	for (int64_t i = 0; i < n; i++) {
		int64_t k = b ? b->v[i] : n - 1 - i;
		k = k < 0 || k >= n ? -1 : a ? a->v[k] : n - 1 - k;
		if (k != i)
			return false;
	}
	return true;
}

static void check_transposes(struct graph_check *w, const struct graph *g, const struct node *n)
{
	const struct node *p = only_predecessor(g, n);
	struct diag *d = w->c->d;

	if (!p || !check_is(n, "Transpose") || !check_is(p, "Transpose"))
		return;
	bool nothing = permutations_cancel(check_ints(p, "perm"), check_ints(n, "perm"));
	WARN(d, E_MODEL_TRANSPOSE, .node = check_node(n), .op = n->type,
	     .message = fmt(d,
			    nothing ? "it undoes the Transpose '%s' before it"
				    : "it follows the Transpose '%s': one Transpose is enough",
			    check_node(p)),
	     .hint = nothing ? "remove both"
			     : "replace both by one Transpose with the combined permutation");
}

static enum dtype cast_to(const struct node *n)
{
	double v = 0;

	return check_is(n, "Cast") && check_number(n, "to", &v) ? (enum dtype)v : DT_NONE;
}

/*
 * Returns how many bits an integer may have so that a value of the type can hold it exactly. For floats this is the
 * size of the mantissa.
 */
static unsigned exact_bits(enum dtype t)
{
	switch (t) {
	case DT_F64: return 53;
	case DT_F32: return 24;
	case DT_F16: return 11;
	case DT_BF16: return 8;
	case DT_BOOL: return 1;
	default: return dtype_bits(t);
	}
}

static void check_casts(struct graph_check *w, const struct graph *g, const struct node *n)
{
	const struct node *p = only_predecessor(g, n);
	enum dtype to = cast_to(n), mid = p ? cast_to(p) : DT_NONE;
	struct diag *d = w->c->d;

	if (!to || !mid)
		return;
	const struct value *v = node_in(g, p, 0);
	enum dtype from = v->info.type.dtype ? (enum dtype)v->info.type.dtype : to;
	/*
	 * the type in between has fewer bits than the first and the last type, so the Casts lose bits that both of
	 * these can hold
	 */
	bool loses = exact_bits(mid) < exact_bits(from) && exact_bits(mid) < exact_bits(to);
	loses |= dtype_class(from) == DT_FLOAT && dtype_class(mid) != DT_FLOAT;
	const char *text = fmt(d, "it casts to %s what Cast '%s' has cast to %s", dtype_name(to),
			       check_node(p), dtype_name(mid));
	if (loses)
		suspect_cast(w->c, n, p, from, mid, text);
	else
		NOTE(d, E_MODEL_CAST, .node = check_node(n), .op = n->type, .message = text);
}

/* Whether the node returns its input unchanged at inference (Dropout changes it only in training). */
static bool is_identity(const struct graph *g, const struct node *n)
{
	double axis;

	if (check_is(n, "Identity"))
		return true;
	if (check_is(n, "Dropout") && n->nout < 2)
		return !check_const(g, n, 2);
	return check_is(n, "Concat") && n->nin == 1 && check_number(n, "axis", &axis);
}

static void count_identities(struct graph_check *w, const struct graph *g, const struct node *n)
{
	const struct node *p = only_predecessor(g, n);

	if (!is_identity(g, n))
		return;
	check_name_add(&w->identity, check_node(n));
	w->chains += p && is_identity(g, p);
}

/* ---- training mode */

static bool is_in_training_mode(const struct graph *g, const struct node *n)
{
	double v = 0;

	/* a norm of a weight standardizes it, which is the same in every run */
	if (check_is(n, "BatchNormalization") && op_makes_constant(g, node_in(g, n, 0)))
		return false;
	if (check_is(n, "BatchNormalization"))
		return n->version >= 14	 ? check_number(n, "training_mode", &v) && v != 0
		       : n->version >= 7 ? n->nout > 1
					 : check_number(n, "is_test", &v) && v == 0;
	if (!check_is(n, "Dropout"))
		return false;
	if (n->version < 7)
		return check_number(n, "is_test", &v) && v == 0;
	const struct tensor *t = n->version >= 12 ? check_const(g, n, 2) : NULL;
	return t && t->type.dtype == DT_BOOL && tensor_count(t) == 1 && *(const bool *)t->data;
}

static void report_training_mode(struct graph_check *w, const struct graph *g, const struct node *n)
{
	if (is_in_training_mode(g, n))
		WARN(w->c->d, E_MODEL_TRAINING, .node = check_node(n), .op = n->type,
		     .message =
			     check_is(n, "Dropout")
				     ? "it drops elements at random: the output differs from run to run"
				     : "it normalizes with the statistics of the batch, not with the trained ones");
}

/* ---- what runtimes read in different ways */

static void report_lengths(struct graph_check *w, const struct graph *g, const struct node *n)
{
	if (check_is(n, "Resize") && n->version >= 11 && n->params && !resize_rounds_lengths(g) &&
	    resize_has_fractional_lengths(g, n))
		WARN(w->c->d, E_OP_AMBIGUOUS, .node = check_node(n), .op = n->type,
		     .message = "with align_corners, lengths times scales that are not whole are rounded down by PyTorch and ONNX Runtime, but not by "
				"ONNX's own cases, which infer follows",
		     .hint = "give it the input sizes in place of scales");
}

static void report_negative_axes(struct graph_check *w, const struct node *n)
{
	const struct ints *perm = check_is(n, "Transpose") ? check_ints(n, "perm") : NULL;

	for (int64_t i = 0; perm && i < perm->n; i++) {
		if (perm->v[i] >= 0)
			continue;
		WARN(w->c->d, E_OP_AMBIGUOUS, .node = check_node(n), .op = n->type,
		     .message = fmt(w->c->d,
				    "perm has %" PRId64
				    ", which infer counts from the end; ONNX asks for a permutation of 0 to rank - 1, and ONNX "
				    "Runtime refuses the model",
				    perm->v[i]),
		     .hint = "export it with the axis counted from the start");
		return;
	}
}

static void report_kept_axis(struct graph_check *w, const struct graph *g, const struct node *n)
{
	const struct value *split = check_is(n, "SplitToSequence") ? node_in(g, n, 1) : NULL;
	double keeps = 1;

	if (!split || !check_number(n, "keepdims", &keeps) || keeps != 0 ||
	    (split->init ? split->init->shape.rank : split->info.shape.rank) != 0)
		return;
	WARN(w->c->d, E_OP_AMBIGUOUS, .node = check_node(n), .op = n->type,
	     .message = "keepdims is 0 beside a single size in `split`: ONNX and infer ignore it then, ONNX Runtime drops the axis of parts of 1 and refuses others",
	     .hint = "leave out keepdims, or leave out `split` for parts of 1");
}

struct leaf {
	int64_t tree, node;
	double first, all; /* the first weight, and what all of them make */
	bool several;
};

static double leaf_weight(const struct tree_params *p, int64_t i)
{
	const struct tensor *t = p->leaf_weights_as_tensor;

	if (t)
		return t->data && i < tensor_count(t) ? elem_f64(tensor_dtype(t), t->data, i) : 0;
	return i < p->leaf_weights.n ? (double)p->leaf_weights.v[i] : 0;
}

static double join_weights(const struct tree_params *p, double a, double b)
{
	if (p->aggregate_function == TREE_MIN)
		return fmin(a, b);
	return p->aggregate_function == TREE_MAX ? fmax(a, b) : a + b;
}

/* The attributes of an ensemble of trees with one target or class; NULL if the node is none. */
static const struct tree_params *single_target(const struct node *n)
{
	bool regressor = !strcmp(n->type, "TreeEnsembleRegressor");

	if (strcmp(n->domain, "ai.onnx.ml") != 0 || !n->op || !n->params ||
	    (!regressor && strcmp(n->type, "TreeEnsembleClassifier") != 0))
		return NULL;
	const struct tree_params *p = n->params;
	if (regressor)
		return p->n_targets == INT_ABSENT || p->n_targets == 1 ? p : NULL;
	bool one = p->classlabels_strings.n == 1 ||
		   (p->classlabels_strings.n <= 0 && p->classlabels_int64s.n == 1);
	return one ? p : NULL;
}

/* ONNX adds up all votes of a leaf for a target. ONNX Runtime does so for several targets, but keeps one number a leaf for a single one. */
static void report_votes(struct graph_check *w, const struct node *n)
{
	const struct tree_params *p = single_target(n);
	int64_t count = p && p->leaf_treeids.n == p->leaf_nodeids.n ? p->leaf_treeids.n : 0;
	struct arena tmp = {0};
	struct map at = {.arena = &tmp};
	struct leaf *leaf = arena_new_n(&tmp, struct leaf, (size_t)(count > 0 ? count : 0) + 1);
	uint32_t leaves = 0, apart = UINT32_MAX;

	for (int64_t i = 0; i < count; i++) {
		struct leaf *l = &leaf[leaves];
		*l = (struct leaf){p->leaf_treeids.v[i], p->leaf_nodeids.v[i], leaf_weight(p, i),
				   leaf_weight(p, i), false};
		int64_t known = map_get(&at, (const char *)l, offsetof(struct leaf, first));
		if (known < 0) {
			map_set(&at, (const char *)l, offsetof(struct leaf, first), leaves++);
			continue;
		}
		leaf[known].all = join_weights(p, leaf[known].all, l->first);
		leaf[known].several = true;
	}
	for (uint32_t i = 0; i < leaves && apart == UINT32_MAX; i++)
		if (leaf[i].several && leaf[i].all != leaf[i].first)
			apart = i;
	if (apart != UINT32_MAX)
		WARN(w->c->d, E_OP_AMBIGUOUS, .node = check_node(n), .op = n->type,
		     .message = fmt(
			     w->c->d,
			     "leaf %" PRId64 " of tree %" PRId64
			     " has several weights for the only target, which ONNX and infer take together, as %g; ONNX Runtime takes the first, %g",
			     leaf[apart].node, leaf[apart].tree, leaf[apart].all, leaf[apart].first),
		     .hint = "export it with one weight a leaf");
	arena_free(&tmp);
}

/* Explicit pads beside auto_pad, which ONNX forbids. infer goes by auto_pad; pads of 0 change nothing, whichever counts. */
static void report_pads(struct graph_check *w, const struct node *n)
{
	const struct field *f = n->op && n->params ? params_field(n->op, "auto_pad") : NULL;
	const struct ints *pads = f ? check_ints(n, "pads") : NULL;
	const char *automatic = f ? field_print(f, n->params, &w->a) : NULL;
	int64_t i = 0;

	if (!pads || !automatic || !strcmp(automatic, "NOTSET"))
		return;
	while (i < pads->n && !pads->v[i])
		i++;
	if (i < pads->n)
		WARN(w->c->d, E_OP_AMBIGUOUS, .node = check_node(n), .op = n->type,
		     .message = fmt(w->c->d,
				    "it has pads beside auto_pad %s, which ONNX forbids: infer goes by auto_pad, others by pads, and ONNX Runtime "
				    "refuses such a Conv",
				    automatic),
		     .hint = "leave out one of both attributes");
}

/* Integers that are divided by a constant 0: the result is defined here, but not in ONNX's text, and other runtimes may crash. */
static void report_zero_divisors(struct graph_check *w, const struct graph *g, const struct node *n)
{
	bool divides = check_is(n, "Div") || check_is(n, "Mod");
	const struct tensor *by = divides ? check_const(g, n, 1) : NULL;
	int64_t zeros = 0, count = by ? tensor_count(by) : 0;

	if (!by || by->type.kind != V_TENSOR || !(T_BIT(tensor_dtype(by)) & T_INTS) || !by->data)
		return;
	for (int64_t i = 0; i < count; i++)
		zeros += !elem_i64(tensor_dtype(by), by->data, i);
	if (zeros)
		WARN(w->c->d, E_VALUE, .node = check_node(n), .op = n->type, .slot = "input 1 'B'",
		     .message = fmt(w->c->d, CHECK_DIVIDES_BY_0,
				    str_many(&w->c->d->arena, (uint64_t)zeros, "element")),
		     .hint = "correct the divisor");
}

/* ---- the check */

static void check_node_alone(const struct graph *g, const struct node *n, void *arg)
{
	struct graph_check *w = arg;

	if (!n->type)
		return;
	check_transposes(w, g, n);
	check_casts(w, g, n);
	count_identities(w, g, n);
	report_training_mode(w, g, n);
	report_lengths(w, g, n);
	report_negative_axes(w, n);
	report_votes(w, n);
	report_kept_axis(w, g, n);
	report_pads(w, n);
	report_zero_divisors(w, g, n);
}

static int run_graph(struct check_context *c)
{
	struct graph_check w = {.c = c};
	const struct graph *g = c->file->graph;
	struct diag *d = c->d;

	if (!g)
		return 0;
	w.used.arena = &w.a;
	w.identity.arena = &w.a;
	/* if parts of the file could not be read, things that only these parts use would seem unused */
	if (!c->file_errors) {
		report_unused_weights(&w, g);
		report_unused_inputs(&w, g);
		report_dead_nodes(&w, g);
	}
	/* the nodes of functions are inlined where they are called */
	if (!c->file->nfunctions)
		report_order(&w, g);
	report_duplicate_names(&w, g);
	report_unnamed_dims(&w, g);
	graph_each_node(g, check_node_alone, &w);
	const char *text =
		fmt(d, "%zu node%s change%s nothing: %s", w.identity.n, w.identity.n > 1 ? "s" : "",
		    w.identity.n > 1 ? "" : "s", check_name_list(&w.identity));
	if (w.chains)
		WARN(d, E_MODEL_IDENTITY, .message = text);
	else if (w.identity.n)
		NOTE(d, E_MODEL_IDENTITY, .message = text);
	check_say(c, "%s, %s, %s", str_many(&w.a, g->norder, "node"),
		  str_many(&w.a, g->nin, "input"), str_many(&w.a, g->nout, "output"));
	arena_free(&w.a);
	return 0;
}

const struct check check_graph = {
	.name = "graph",
	.what = "unused parts, nodes without effect, training mode, names",
	.need = NEED_FILE,
	.cost = COST_HEAD,
	.run = run_graph,
};
