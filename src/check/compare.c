/* SPDX-License-Identifier: Apache-2.0 */
/* --compare: runs the model in two ways, compares them node by node, and finds the first node that differs. */
#include "base/str.h"
#include "check/check.h"
#include "check/compare_bodies.h"
#include "check/compare.h"
#include "check/distance.h"
#include "check/pair.h"
#include "check/pair_sides.h"
#include "check/path_precision.h"
#include "ops/op.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the verdict ------------------------------------------------------------------------------ */

struct verdict {
	struct pair pair;
	double limit;
	struct pair_node *first; /* first node whose output is over the limit */
	/* first node whose output is over the limit even with the reference's inputs */
	struct pair_node *jump;
	struct pair_node *worst; /* node that adds the largest error itself */
	size_t jumps;		 /* number of nodes such as `jump` */
	bool outputs;		 /* at least one output of the model is over the limit */
	uint32_t output;	 /* the first such output */
	double most;		 /* largest rel of the model's outputs */
	bool wide;		 /* the inputs are those of widen_inputs */
};

enum { WIDE = 8 };

static void find_divergence(const struct check_context *c, struct verdict *v)
{
	struct pair *p = &v->pair;

	for (size_t i = 0; i < p->n; i++) {
		struct pair_node *n = &p->nodes[i];
		bool own = distance_over(&n->own, n->path, path_limit(n->path, v->limit)),
		     local = distance_over(&n->local, n->dtype, v->limit);
		if (own && !v->first)
			v->first = n;
		/*
		 * a node that could not be repeated on the reference's inputs is to blame if its own inputs agree
		 * with the reference's
		 */
		if (!n->local.known && own && n->inputs.most <= v->limit)
			local = true;
		if (local) {
			v->jumps++;
			if (!v->jump)
				v->jump = n;
		}
		if (n->local.known && (!v->worst || n->local.rel > v->worst->local.rel))
			v->worst = n;
	}
	for (uint32_t k = 0; k < p->noutputs; k++) {
		bool over = pair_sides_output_over(c, &p->outputs[k], p->output_path[k], v->limit);
		if (over && !v->outputs)
			v->output = k;
		v->outputs |= over;
		if (p->outputs[k].known && p->outputs[k].rel > v->most)
			v->most = p->outputs[k].rel;
	}
}

enum { MAX_ROWS = 21 };

static const char *value_name(const struct verdict *v, uint32_t value)
{
	const char *name = session_model(v->pair.got.session)->graph->value[value]->name;

	return *name ? name : "without a name";
}

static const char *list_fused(struct diag *d, const struct node *n)
{
	const char *text = "";

	for (uint32_t i = 0; i < n->origin->nfused; i++)
		text = fmt(d, "%s%s'%s'", text, i ? ", " : "", n->origin->fused[i]->name);
	return text;
}

static size_t add_output_rows(struct check_context *c, const struct verdict *v, struct diag_row *rows)
{
	const struct pair *p = &v->pair;
	const struct graph *g = session_model(p->got.session)->graph;
	size_t n = 0;

	for (uint32_t k = 0; k < p->noutputs && n < 4; k++)
		rows[n++] = (struct diag_row){fmt(c->d, "output '%s'", g->out_name[k]),
					      distance_say(c->d, &p->outputs[k])};
	return n;
}

/* Returns the constant of this name in graph g, or NULL. */
static const struct tensor *constant_named(const struct graph *g, const char *name)
{
	for (uint32_t i = 0; i < g->nvalues; i++)
		if (g->value[i]->init && !strcmp(g->value[i]->name, name))
			return g->value[i]->init;
	return NULL;
}

/* The constant that the node's counterpart m reads in place of operand i; that of its name, if m is none or another operator. */
static const struct tensor *other_weight(const struct graph *ref, const struct node *m,
					 const struct graph *g, const struct node *n, uint32_t i)
{
	bool same = m && !strcmp(m->type, n->type);
	const struct value *y = same ? node_in(ref, m, i) : NULL;

	if (y && !y->init && m->nin == 2 && n->nin == 2 && m->op && (op_flags(m->op) & OP_COMMUTATIVE))
		y = node_in(ref, m, 1 - i);
	return y ? y->init : same ? NULL : constant_named(ref, node_in(g, n, i)->name);
}

/* How far the node's weights are from those of its counterpart in the other model, up to 3 rows. */
static size_t add_weight_rows(struct check_context *c, const struct verdict *v,
			      const struct pair_node *at, struct diag_row *rows)
{
	const struct node *n = at->node;
	const struct graph *g = session_model(v->pair.got.session)->graph;
	const struct graph *ref = session_model(v->pair.ref.session)->graph;
	size_t count = 0;

	for (uint32_t i = 0; i < n->nin && count < 3; i++) {
		const struct value *x = node_in(g, n, i);
		const struct tensor *other =
			x && x->init ? other_weight(ref, pair_counterpart(&v->pair, at), g, n, i)
				     : NULL;
		if (!x || !x->init || (other && tensor_same(x->init, other)))
			continue;
		struct distance d = {0};
		if (other && x->init->data && other->data)
			d = distance_of(x->init, other);
		rows[count++] = (struct diag_row){
			"its weight",
			fmt(c->d, "'%s' %s", x->name,
			    other ? distance_say(c->d, &d)
				  : fmt(c->d, "has no counterpart in %s", v->pair.ref.name))};
	}
	return count;
}

/* Where the bodies of the node differ, if it has some and the reference runs the same file. */
static size_t add_body_row(struct check_context *c, const struct verdict *v,
			   struct body_difference *inside, struct diag_row *row)
{
	if (!v->jump->node->nsub || v->pair.ref.path ||
	    !compare_bodies(c, &v->pair, c->in, v->limit, inside))
		return 0;
	*row = (struct diag_row){"in its body",
				 fmt(c->d, "'%s' (%s), in run %" PRIu32 " of the body: %s",
				     inside->node, inside->op, inside->time,
				     distance_say(c->d, &inside->distance))};
	return 1;
}

static void report_jump(struct check_context *c, struct verdict *v)
{
	struct diag *d = c->d;
	struct diag_row rows[MAX_ROWS];
	const struct pair_node *n = v->jump;
	struct check_names names = {.arena = &c->arena};
	uint32_t before = pair_nodes_before(&v->pair, n, &names);
	size_t k = 0;

	if (n->origin->nfused)
		rows[k++] = (struct diag_row){"stands for", list_fused(d, n->node)};
	if (before)
		rows[k++] = (struct diag_row){"or before",
					      fmt(d, "%s before it without a counterpart in %s: %s",
						  str_many(&d->arena, before, "node"),
						  v->pair.ref.name, check_name_list(&names))};
	/* what such nodes make has nothing to agree with */
	rows[k++] = (struct diag_row){before ? "inputs" : "its inputs",
				      fmt(d, "%s%s", before ? "of these nodes together: " : "",
					  input_error_say(d, &n->inputs))};
	rows[k++] = (struct diag_row){
		"its output", fmt(d, "'%s' %s", value_name(v, n->value), distance_say(d, &n->own))};
	if (n->local.known && !n->inputs.unseen)
		rows[k++] = (struct diag_row){"same inputs",
					      fmt(d, "with the inputs of %s: %s", v->pair.ref.name,
						  distance_say(d, &n->local))};
	if (v->pair.ref.path)
		k += add_weight_rows(c, v, n, rows + k);
	struct body_difference inside = {0};
	k += add_body_row(c, v, &inside, rows + k);
	if (v->jumps > 1)
		rows[k++] = (struct diag_row){
			"also", fmt(d, "%zu later nodes differ by themselves", v->jumps - 1)};
	k += add_output_rows(c, v, rows + k);
	rows[k++] =
		(struct diag_row){"limit", distance_limit_say(d, &n->own, n->dtype,
							      distance_limit(n->dtype, v->limit))};
	if (v->wide)
		rows[k++] = (struct diag_row){
			"random",
			fmt(d, "floats from -%d to %d; from 0 to 1 nothing differs", WIDE, WIDE)};
	if (before && v->pair.ref.path)
		rows[k++] = (struct diag_row){
			"try", fmt(d, "infer diff %s %s, which tells nodes and weights apart",
				   c->path, v->pair.ref.path)};
	struct finding f = {.code = E_COMPARE_NODE,
			    .severity = v->outputs ? SEV_ERROR : SEV_WARNING,
			    .node = inside.node ? inside.node : n->origin->name,
			    .op = inside.node ? inside.op : n->origin->op,
			    .message = fmt(d, "%s and %s begin to differ in this node%s%s",
					   v->pair.got.name, v->pair.ref.name,
					   before || n->inputs.unseen ? " or before" : "",
					   v->outputs ? "" : ", but no output shows it"),
			    .rows = rows,
			    .nrows = k,
			    .file = __FILE__,
			    .line = __LINE__};
	diag_add(d, &f);
}

static void report_drift(struct check_context *c, struct verdict *v)
{
	struct diag *d = c->d;
	struct diag_row rows[MAX_ROWS];
	const struct pair *p = &v->pair;
	size_t k = 0;

	for (size_t i = 0; i < 5 && p->n; i++) {
		const struct pair_node *n = &p->nodes[(p->n - 1) * i / 4];
		rows[k++] = (struct diag_row){i ? "" : "grows",
					      fmt(d, "%.2g at '%s'", n->own.rel, n->origin->name)};
	}
	if (v->worst)
		rows[k++] = (struct diag_row){"largest error",
					      fmt(d, "%.2g at '%s' (%s)", v->worst->local.rel,
						  v->worst->origin->name, v->worst->origin->op)};
	k += add_output_rows(c, v, rows + k);
	rows[k++] = (struct diag_row){
		"limit", pair_sides_output_limit_say(c, &p->outputs[v->output],
						     p->output_path[v->output], v->limit)};
	FAIL(d, E_COMPARE_DRIFT, .node = v->first ? v->first->origin->name : NULL,
	     .op = v->first ? v->first->origin->op : NULL,
	     .message = fmt(d, "%s and %s drift apart: %s%s", p->got.name, p->ref.name,
			    v->worst ? fmt(d,
					   "each node that could be compared alone agrees within %.2g, but the "
					   "accumulated error exceeds the limit",
					   v->worst->local.rel)
				     : "no node could be compared alone, and the limit is exceeded",
			    v->first ? " here" : ""),
	     .rows = rows, .nrows = k);
}

/* Reports outputs that are all 0 in the tested run only as E-OUT-ZERO: the plainest description of the fault. */
static void report_zero_output(struct check_context *c, struct verdict *v)
{
	const struct pair *p = &v->pair;
	const struct graph *g = session_model(p->got.session)->graph;
	const struct pair_node *n = v->jump ? v->jump : v->first;

	for (uint32_t k = 0; k < p->noutputs && n; k++) {
		if (!p->outputs[k].zero)
			continue;
		struct diag_row rows[2];
		rows[0] = (struct diag_row){
			"first divergence",
			fmt(c->d, "node '%s' (%s): its inputs: %s, its output: %s", n->origin->name,
			    n->origin->op, input_error_say(c->d, &n->inputs),
			    distance_say(c->d, &n->own))};
		const struct tensor *t = c->out ? c->out[k] : NULL;
		const char *what = t ? fmt(c->d, " %s %s", dtype_name(tensor_dtype(t)),
					   shape_str(&c->d->arena, &t->shape, NULL))
				     : "";
		FAIL(c->d, E_OUT_ZERO, .slot = fmt(c->d, "output '%s'%s", g->out_name[k], what),
		     .node = n->origin->name, .op = n->origin->op,
		     .message = fmt(c->d, "%s 0 on %s; on %s %s",
				    str_all(&c->d->arena, (uint64_t)p->got_stats[k].count, "element"),
				    p->got.name, p->ref.name, value_say(c->d, &p->ref_stats[k])),
		     .rows = rows, .nrows = 1);
	}
}

/* ---- the check -------------------------------------------------------------------------------- */

static struct comparison *copy_results(struct check_context *c, const struct verdict *v)
{
	const struct pair *p = &v->pair;
	struct comparison *t = arena_new(&c->arena, struct comparison);

	*t = (struct comparison){p->ref.name, p->got.name, NULL, NULL, p->n, p->peak, 0};
	t->verdict = v->jump ? "jump" : v->outputs ? "drift" : "agree";
	t->line = arena_new_n(&c->arena, struct node_result, p->n + 1);
	for (size_t i = 0; i < p->n; i++)
		t->line[i] = (struct node_result){
			arena_str(&c->arena, p->nodes[i].origin->name),
			arena_str(&c->arena, p->nodes[i].origin->op), p->nodes[i].own.rel,
			p->nodes[i].local.known ? p->nodes[i].local.rel : NAN};
	return t;
}

static void report_comparison(struct check_context *c, struct verdict *v)
{
	const struct pair *p = &v->pair;

	if (v->jump || v->outputs)
		report_zero_output(c, v);
	if (v->jump)
		report_jump(c, v);
	else if (v->outputs)
		report_drift(c, v);
	if (v->jump)
		check_say(c, "they begin to differ at '%s'", v->jump->origin->name);
	else if (v->outputs)
		check_say(c, "errors add up to %.2g", v->most);
	else
		check_say(c, "%zu of %s compared, outputs within %.2g%s%s", p->n,
			  str_many(&c->arena, p->steps, "node"), v->most,
			  v->worst ? ", largest error at " : "",
			  v->worst ? v->worst->origin->name : "");
	c->data = copy_results(c, v);
}

/* Whether the context's session runs with this configuration. */
static bool session_has_config(const struct check_context *c, const struct run_config *a)
{
	const struct run_config *b = c->config;
	const char *device = session_device(c->session);
	bool here = (a->device && b->device && !strcmp(a->device, b->device)) ||
		    (a->device && !strcmp(a->device, device));

	return here && a->precision == b->precision && a->optimize == b->optimize &&
	       a->memory_plan == b->memory_plan;
}

/* Runs both sides of the verdict's pair on `in`, and ends with what differs. Call pair_end in either case. */
static int compare_on(struct check_context *c, struct verdict *v, const struct tensor *const *in)
{
	struct pair *p = &v->pair;

	v->limit = pair_sides_limit(c, p);
	/* if one side has the open session's configuration, use that session instead of opening another */
	if (session_has_config(c, &p->got.config)) {
		p->got.session = c->session;
		p->got.borrowed = true;
	} else if (!p->ref.path && session_has_config(c, &p->ref.config)) {
		p->ref.session = c->session;
		p->ref.borrowed = true;
	}
	int err = pair_run(c, p, in);
	if (!err)
		find_divergence(c, v);
	return err;
}

/* A picture, whose values from 0 to 1 are as it has them, has four dimensions. */
static bool may_be_wider(const struct tensor *t)
{
	return t->type.kind == V_TENSOR && (T_BIT(tensor_dtype(t)) & T_FLOATS_BF) &&
	       t->shape.rank != 4 && tensor_count(t) > 0;
}

/* Whether the graph rounds to codes, whose range was chosen for the values that the model was made for. */
static bool is_quantized(const struct graph *g)
{
	for (uint32_t i = 0; i < g->nnodes; i++)
		if (!g->node[i]->dead && g->node[i]->type && strstr(g->node[i]->type, "Quantize"))
			return true;
	return false;
}

/* Returns the generated inputs, from 0 to 1, with floats from -WIDE to WIDE; NULL if some are the user's or none is a float. */
static const struct tensor *const *widen_inputs(struct check_context *c)
{
	const struct input_request *r = c->request;
	uint32_t n = session_model(c->session)->graph->nin;
	const struct tensor **in = arena_new_n(&c->arena, const struct tensor *, (size_t)n + 1);
	bool any = false;

	if (r->input.n || r->data_set || c->ranges_given ||
	    is_quantized(session_model(c->session)->graph))
		return NULL;
	for (uint32_t i = 0; i < n; i++) {
		in[i] = c->in[i];
		if (!c->in[i] || !may_be_wider(c->in[i]))
			continue;
		struct tensor *t = tensor_copy(&c->arena, c->in[i]);
		enum dtype type = tensor_dtype(t);
		for (int64_t k = 0; k < tensor_count(t); k++)
			elem_set_f64(type, t->data, k, WIDE * (2 * elem_f64(type, t->data, k) - 1));
		in[i] = t;
		any = true;
	}
	return any ? in : NULL;
}

/*
 * Compares with another model on inputs of both signs as well, since from 0 to 1 a LeakyRelu is the same with any slope and a Clip
 * with any limit above. Only a node that differs by itself, and an output that shows it, count: far from what a model was
 * trained on, rounding errors add up to more.
 */
static void compare_wider(struct check_context *c)
{
	struct verdict *v = arena_new(&c->arena, struct verdict);
	struct diag quiet = {0}, *all = c->d;
	const struct tensor *const *in = widen_inputs(c);

	if (!in || pair_sides_parse(c, pair_sides_text(c), &v->pair))
		return;
	v->wide = true;
	/* a run that fails says nothing: the model may not take such inputs */
	c->d = &quiet;
	int err = compare_on(c, v, in);
	c->d = all;
	if (!err && v->jump && v->outputs && !is_quantized(session_model(v->pair.ref.session)->graph))
		report_comparison(c, v);
	pair_end(&v->pair);
	diag_free(&quiet);
}

static int run_compare(struct check_context *c)
{
	struct verdict *v = arena_new(&c->arena, struct verdict);
	struct pair *p = &v->pair;

	if (pair_sides_ort(pair_sides_text(c)))
		return compare_with_ort(c);
	int err = pair_sides_parse(c, pair_sides_text(c), p);
	if (err)
		return err;
	bool other_model = p->ref.path != NULL;
	err = compare_on(c, v, c->in);
	if (!err)
		report_comparison(c, v);
	pair_end(p);
	if (!err && other_model && !v->jump && !v->outputs)
		compare_wider(c);
	return err;
}

static int validate_options(struct check_context *c)
{
	const struct check_options *o = c->options;
	struct pair p = {0};
	bool ort = pair_sides_ort(o->compare);
	int err = o->compare && !ort ? pair_sides_parse(c, o->compare, &p) : 0;

	if (o->every_tensor && !ort)
		return FAIL(c->d, E_OPTION, .slot = "--every-tensor",
			    .message = "--every-tensor needs --compare onnxruntime",
			    .hint = "other comparisons are node by node anyway");

	return !err && (o->compare || o->all) ? check_rtol(c) : err;
}

static bool is_requested(const struct check_context *c, const char **why)
{
	(void)why;
	return pair_sides_text(c) != NULL && !c->options->sensitivity;
}

static void write_json(const struct check_result *r, struct json *j)
{
	const struct comparison *t = r->data;

	if (!t)
		return;
	json_string(j, "reference", t->ref);
	json_string(j, "compared", t->got);
	json_string(j, "verdict", t->verdict);
	json_uint(j, "held_bytes", t->peak);
	if (t->inputs)
		json_uint(j, "inputs", t->inputs);
	json_array(j, "nodes");
	for (size_t i = 0; i < t->n; i++) {
		json_object(j, NULL);
		json_string(j, "node", t->line[i].node);
		json_string(j, "op", t->line[i].op);
		json_number(j, "accumulated", t->line[i].own);
		if (isnan(t->line[i].local))
			json_null(j, "of_its_own");
		else
			json_number(j, "of_its_own", t->line[i].local);
		json_end(j, '}');
	}
	json_end(j, ']');
}

const struct check check_compare = {
	.name = "compare",
	.what = "two ways to run the model, node by node",
	.need = NEED_INPUTS,
	.cost = COST_RUNS,
	.asked = validate_options,
	.applies = is_requested,
	.run = run_compare,
	.write = write_json,
};
