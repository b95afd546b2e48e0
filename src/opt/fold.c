/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/evaluate.h"
#include "base/file.h"
#include "opt/optimizer.h"

#include <string.h>

/*
 * Constant folding. Nodes whose outputs inference knows become constants; nodes on larger constants, such as weights
 * times a folded scale, are evaluated here. A result may have FOLD_BYTES, or FOLD_GROWTH times the bytes of the inputs,
 * because weights may be stored in a smaller type. All results that are kept together may have FOLD_TOTAL, or
 * FOLD_GROWTH times the bytes of the model's weights.
 */
enum { FOLD_BYTES = 4 << 20, FOLD_GROWTH = 4, FOLD_TOTAL = 64 << 20 };

/*
 * Limits for a graph that is to be written to a file. A node stays if its result takes more than FILE_GROWTH bytes beyond those
 * of its inputs: a file would grow by filled or expanded tensors, and by weights that are stored in a smaller type. It also stays
 * if it reads more than FILE_READ bytes, because mapped weights that are read count as memory. All results together have FILE_TOTAL.
 */
enum { FILE_GROWTH = 64 << 10, FILE_READ = 16 << 20, FILE_TOTAL = 36 << 20 };

/* State while a graph is folded. Results that only folded nodes read are freed as soon as these are folded. */
struct folding {
	struct optimizer *o;
	struct graph *g;
	/* indexed by value id: the result that holds the value; NULL if folding did not make the value */
	struct temporary **of;
	bool all;
};

/* The outputs of one evaluated node, in an arena that is freed when none of them is needed any more. */
struct temporary {
	struct arena arena;
	uint32_t left; /* number of outputs that are still needed */
	size_t bytes;
};

static bool inputs_constant(const struct graph *g, const struct node *n, size_t *bytes)
{
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = node_in(g, n, i);
		if (!v)
			continue;
		if (!v->init || v->init->type.kind != V_TENSOR || v->init->type.dtype == DT_STRING)
			return false;
		*bytes += v->init->bytes;
	}
	return n->nin > 0;
}

/* Sets *total to the bytes of the node's results; returns false if they are not known. */
static bool result_bytes(const struct graph *g, const struct node *n, size_t *total)
{
	size_t out = 0, bytes;

	for (uint32_t i = 0; i < n->nout; i++) {
		const struct value *v = node_out(g, n, i);
		if (!v)
			continue;
		if (v->info.type.kind != V_TENSOR || !shape_known(&v->info.shape) ||
		    !tensor_bytes((enum dtype)v->info.type.dtype, &v->info.shape, LAYOUT_ROW, &bytes) ||
		    !size_add(out, bytes, &out))
			return false;
	}
	*total = out;
	return true;
}

/* Whether the results of the node may be kept. Sets *total to their bytes. */
static bool within_budget(const struct folding *f, const struct node *n, size_t in, size_t *total)
{
	if (!result_bytes(f->g, n, total) || (f->o->config->to_file && in > FILE_READ))
		return false;
	return *total <= FOLD_BYTES || *total / FOLD_GROWTH <= in;
}

static bool outputs_known(const struct graph *g, const struct node *n)
{
	bool any = false;

	for (uint32_t i = 0; i < n->nout; i++) {
		const struct value *v = node_out(g, n, i);
		if (v && !v->info.known)
			return false;
		any |= v != NULL;
	}
	return any;
}

/*
 * Gives the output of a view (Reshape, ...) of a constant the bytes of that constant under another shape. They are
 * not copied, because weights may be mapped from the model file.
 */
static bool fold_view(struct folding *f, const struct node *n)
{
	struct graph *g = f->g;
	const struct value *x = node_in(g, n, 0);
	struct value *y = node_out(g, n, 0);
	struct tensor *t;

	if (!(n->op->flags & OP_VIEW) || n->nout != 1 || !x || !y || !x->init)
		return false;
	if (x->init->type.kind != V_TENSOR || !type_equal(x->init->type, y->info.type) ||
	    !shape_known(&y->info.shape) || shape_count(&y->info.shape) != tensor_count(x->init))
		return false;
	t = arena_dup(g->arena, x->init, sizeof(*x->init));
	t->shape = y->info.shape;
	y->info.known = t;
	f->of[y->id] = f->of[x->id];
	if (f->of[x->id])
		f->of[x->id]->left++;
	return true;
}

static size_t total_budget(struct optimizer *o)
{
	const struct graph *g = o->model->graph;

	if (o->fold_budget)
		return o->fold_budget;
	if (o->config->to_file)
		return o->fold_budget = FILE_TOTAL;
	size_t weights = 0;
	for (uint32_t i = 0; i < g->nvalues; i++)
		weights += g->value[i]->init ? g->value[i]->init->bytes : 0;
	o->fold_budget = weights < FOLD_TOTAL / FOLD_GROWTH ? FOLD_TOTAL : FOLD_GROWTH * weights;
	return o->fold_budget;
}

/* Tells once a model that a constant node is left to each run. */
static void note_unfolded(struct folding *f, const struct node *n, const char *why)
{
	if (f->o->told_unfolded)
		return;
	f->o->told_unfolded = true;
	bool file = f->o->config->to_file;
	NOTE(f->o->diag, E_MODEL_FOLD, .node = n->origin->name, .op = n->origin->op,
	     .message = fmt(f->o->diag,
			    "it depends on constants only, but %s: it, and perhaps others, %s", why,
			    file ? "stay nodes" : "are computed in each run"),
	     .hint = file ? "infer simplify of the model that is written folds more of them"
			  : "make the constant smaller, or compute it from an input");
}

/* Evaluates the node; its outputs share a new struct temporary. Returns false if the node cannot be evaluated. */
static bool evaluate_node(struct folding *f, const struct node *n, size_t bytes)
{
	struct arena *scratch = &f->o->scratch;
	const struct tensor **in = arena_new_n(scratch, const struct tensor *, n->nin + 1);
	struct tensor **out = arena_new_n(scratch, struct tensor *, n->nout + 1);
	struct temporary *t = arena_new(scratch, struct temporary);

	for (uint32_t i = 0; i < n->nin; i++)
		in[i] = node_in(f->g, n, i) ? node_in(f->g, n, i)->init : NULL;
	/* a node that fails stays in the graph and reports its error when the model runs */
	struct diag quiet = {0};
	int r = eval_node(f->o->cpu, f->g, n, in, out, &t->arena, &quiet);
	diag_free(&quiet);
	for (uint32_t i = 0; f->o->config->to_file && i < n->nin; i++)
		if (in[i])
			file_release(in[i]->data, in[i]->bytes);
	if (r) {
		arena_free(&t->arena);
		if (r == -(int)E_TIMEOUT)
			note_unfolded(f, n, "it takes too long");
		return false;
	}
	t->bytes = bytes;
	f->o->folded_bytes += bytes;
	for (uint32_t i = 0; i < n->nout; i++) {
		struct value *v = node_out(f->g, n, i);
		if (!v || !out[i])
			continue;
		v->info.known = out[i];
		f->of[v->id] = t;
		t->left++;
	}
	return true;
}

/* Whether the node makes floats, which the configuration wants to be computed in the run. Shapes are folded all the same. */
static bool is_kept(const struct folding *f, const struct node *n)
{
	for (uint32_t i = 0; f->o->config->keep_floats && i < n->nout; i++) {
		const struct value *v = node_out(f->g, n, i);
		if (v && v->info.type.kind == V_TENSOR &&
		    (T_BIT((enum dtype)v->info.type.dtype) & T_FLOATS_BF))
			return true;
	}
	return false;
}

/* Whether the node stays because its result would make a file too large, or what reads it slower. */
static bool kept_for_file(const struct folding *f, const struct node *n)
{
	size_t in = 0, out;

	if (!f->o->config->to_file)
		return false;
	/* runtimes recognize quantized operators by the DequantizeLinear of their weights and biases */
	if (n->op == op_named("DequantizeLinear"))
		return true;
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *v = node_in(f->g, n, i);
		in += v && v->init ? v->init->bytes : 0;
	}
	return result_bytes(f->g, n, &out) && out > in && out - in > FILE_GROWTH;
}

/* Makes the outputs known if that is possible and allowed; returns whether they are known. */
static bool evaluate(struct folding *f, struct node *n)
{
	struct graph *g = f->g;
	size_t bytes = 0, result;

	if (is_kept(f, n) || kept_for_file(f, n))
		return false;
	if (outputs_known(g, n) || fold_view(f, n))
		return true;
	if (n->op->flags & (OP_RANDOM | OP_CONTROL | OP_HOST_VALUES) ||
	    !inputs_constant(g, n, &bytes) || !within_budget(f, n, bytes, &result))
		return false;
	if (result > total_budget(f->o) - f->o->folded_bytes) {
		note_unfolded(f, n, "the folded constants would take too much memory");
		return false;
	}
	return evaluate_node(f, n, result) && outputs_known(g, n);
}

/* Frees the memory of value `id` if nothing uses the value any more, nor any other output that shares the memory. */
static void release_result(struct folding *f, uint32_t id)
{
	struct temporary *t = f->of[id];
	struct value *v = f->g->value[id];

	if (!t || v->nusers || v->is_output)
		return;
	f->of[id] = NULL;
	v->init = v->info.known = NULL;
	opt_info(f->o, f->g)->info[id].known = NULL;
	if (--t->left == 0) {
		f->o->folded_bytes -= t->bytes;
		arena_free(&t->arena);
	}
}

/* Makes the known outputs of the node constants of the graph and removes the node. */
static void replace_by_constants(struct folding *f, struct node *n)
{
	for (uint32_t k = 0; k < n->nout; k++) {
		struct value *v = node_out(f->g, n, k);
		if (v)
			opt_set_const(f->o, f->g, v, v->info.known);
	}
	graph_remove_node(f->g, n);
	for (uint32_t k = 0; k < n->nin; k++)
		if (n->in[k] != NO_VALUE)
			release_result(f, n->in[k]);
}

/* Whether op is a product for which a rule of rules/matmul.c turns a Transpose before input 1 into an attribute. */
static bool takes_transposed_weight(const struct op *op)
{
	return op &&
	       (op == op_named("MatMul") || op == op_named("Gemm") || op == op_named("infer::Gemm"));
}

/*
 * Whether a Transpose of a constant weight is kept for now: a rule will turn it into an attribute of the products that
 * read it, which needs no transposed copy of the weight.
 */
static bool left_to_rules(const struct graph *g, const struct node *n)
{
	const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);

	if (n->op != op_named("Transpose") || !x || !x->init || x->init->shape.rank != 2 || !y)
		return false;
	for (uint32_t i = 0; i < y->nusers; i++) {
		const struct node *u = g->node[y->users[i]];
		if (!takes_transposed_weight(u->op) || node_in(g, u, 1) != y)
			return false;
	}
	return y->nusers > 0;
}

bool opt_keeps_codes(const struct optimizer *o)
{
	return o->config->optimize == OPTIMIZE_FULL && !o->config->to_file;
}

/* Whether the node dequantizes constant codes of 8 bits, which the pass "quantize" may want as they are. */
static bool left_to_quantize(const struct folding *f, const struct node *n)
{
	const struct value *x = node_in(f->g, n, 0);

	return opt_keeps_codes(f->o) && n->op == op_named("DequantizeLinear") && x && x->init &&
	       (T_BIT(tensor_dtype(x->init)) & (T_U8 | T_I8));
}

enum left { LEAVE_NOTHING, LEAVE_TRANSPOSED, LEAVE_CODES };

/* Folds all nodes that can be folded except those that `left`, or what stands before it in the enumeration, keeps for rules. */
static int fold(struct optimizer *o, struct graph *g, enum left left)
{
	struct folding f = {o, g, arena_new_n(&o->scratch, struct temporary *, g->nvalues),
			    left == LEAVE_NOTHING};
	int changes = 0, r = graph_sort(g, o->diag);

	for (uint32_t i = 0; !r && i < g->norder; i++) {
		struct node *n = g->node[g->order[i]];
		if (n->nsub || (left >= LEAVE_TRANSPOSED && left_to_rules(g, n)) ||
		    (left >= LEAVE_CODES && left_to_quantize(&f, n)) || !evaluate(&f, n))
			continue;
		replace_by_constants(&f, n);
		changes++;
	}
	for (uint32_t i = 0; i < g->nvalues; i++)
		if (f.of[i])
			arena_take(g->arena, &f.of[i]->arena);
	return r ? r : changes;
}

int pass_fold(struct optimizer *o, struct graph *g)
{
	return fold(o, g, o->config->optimize == OPTIMIZE_NONE ? LEAVE_NOTHING : LEAVE_CODES);
}

int pass_fold_codes(struct optimizer *o, struct graph *g)
{
	return opt_keeps_codes(o) ? fold(o, g, LEAVE_TRANSPOSED) : 0;
}

int pass_fold_weights(struct optimizer *o, struct graph *g)
{
	return fold(o, g, LEAVE_NOTHING);
}
