/* SPDX-License-Identifier: Apache-2.0 */
/* ai.onnx.preview.training: optimizers, and Gradient, which is replaced by nodes that compute the derivative. */
#include "ops/training.h"

#include "ops/infer_util.h"
#include "ops/layout.h"

#include <stdlib.h>

/* ---- Gradient ------------------------------------------------------------------------------------------ */

/* State of the reverse-mode differentiation of value y with respect to the values xs, which walks back from y. */
struct tape {
	struct edit *e;
	uint32_t nvalues, nnodes; /* number of values and nodes before derivative nodes were added */
	/* indexed by value id: id of the derivative of y with respect to the value, or NO_VALUE */
	uint32_t *grad;
	/* indexed by node id: number of nodes between xs and y that use the node and have not been handled yet */
	uint32_t *uses;
	/* indexed by node id: whether some path from the node to y does not pass through any of xs */
	bool *between;
	uint32_t *queue, head, tail;
};

static uint32_t add_node(struct tape *t, const char *op, uint32_t a, uint32_t b)
{
	const uint32_t in[] = {a, b};
	return edit_before(t->e, op, in, b == NO_VALUE ? 1 : 2, NULL);
}

static uint32_t scalar(struct tape *t, double v, enum dtype type)
{
	struct shape s = {0};
	struct tensor *x = tensor_new(t->e->graph->arena, type, &s);

	elem_set_f64(type, x->data, 0, v);
	return graph_add_const(t->e->graph, "", x)->id;
}

static uint32_t ints(struct tape *t, const int64_t *v, int64_t n)
{
	return graph_add_const(t->e->graph, "", tensor_i64(t->e->graph->arena, 1, v, n))->id;
}

static const struct vinfo *info_of(const struct tape *t, uint32_t v)
{
	return &t->e->graph->value[v]->info;
}

/*
 * Sets *out to g, which has the shape of y, summed over the dims along which x was broadcast to y; the sum has the
 * shape of x.
 */
static int unbroadcast(struct tape *t, uint32_t g, uint32_t x, uint32_t y, uint32_t *out)
{
	const struct shape *xs = &info_of(t, x)->shape, *ys = &info_of(t, y)->shape;
	int64_t axes[MAX_RANK], n = 0;

	*out = g;
	if (xs->rank >= 0 && shape_equal(xs, ys) && shape_known(xs))
		return 0;
	if (!shape_known(xs) || !shape_known(ys))
		return edit_fail(t->e, E_OP_UNSUPPORTED, "known shapes where a gradient is taken",
				 "free dimensions");
	for (int i = 0; i < ys->rank; i++) {
		int k = i - (ys->rank - xs->rank);
		if (k < 0 || xs->dim[k] != ys->dim[i])
			axes[n++] = i;
	}
	g = add_node(t, "ReduceSum", g, ints(t, axes, n));
	*out = add_node(t, "Reshape", g, ints(t, xs->dim, xs->rank));
	return 0;
}

/* Adds g, which has the shape of n's output, to the derivative of y with respect to input i of n. */
static int add_gradient(struct tape *t, const struct node *n, uint32_t i, uint32_t g)
{
	uint32_t x = n->in[i];
	int err = unbroadcast(t, g, x, n->out[0], &g);

	if (!err)
		t->grad[x] = t->grad[x] == NO_VALUE ? g : add_node(t, "Add", t->grad[x], g);
	return err;
}

static uint32_t transpose_last_two(struct tape *t, uint32_t v)
{
	int rank = info_of(t, v)->shape.rank;
	int64_t *perm = arena_new_n(t->e->graph->arena, int64_t, (size_t)(rank > 0 ? rank : 1));
	void *params;
	uint32_t out = edit_before(t->e, "Transpose", &v, 1, &params);

	for (int i = 0; i < rank; i++)
		perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
	((struct transpose_params *)params)->perm = (struct ints){perm, rank};
	return out;
}

/*
 * Adds g to the derivative with respect to input 0 of a node that transposes or reshapes; g is first moved back to
 * the input's shape.
 */
static int add_moved_gradient(struct tape *t, const struct node *n, uint32_t g)
{
	uint32_t x = n->in[0];
	const struct shape *s = &info_of(t, x)->shape;
	uint32_t back;

	if (!strcmp(n->op->name, "Transpose")) {
		const struct ints *perm = &((const struct transpose_params *)n->params)->perm;
		int64_t *inverse = arena_new_n(t->e->graph->arena, int64_t, MAX_RANK);
		void *params;
		back = edit_before(t->e, "Transpose", &g, 1, &params);
		for (int64_t i = 0; i < perm->n && i < MAX_RANK; i++)
			inverse[axis_of(perm->v[i], (int)perm->n)] = i;
		if (perm->n >= 0)
			((struct transpose_params *)params)->perm = (struct ints){inverse, perm->n};
	} else if (shape_known(s)) {
		back = add_node(t, "Reshape", g, ints(t, s->dim, s->rank));
	} else {
		back = add_node(t, "Reshape", g, add_node(t, "Shape", x, NO_VALUE));
	}
	t->grad[x] = t->grad[x] == NO_VALUE ? back : add_node(t, "Add", t->grad[x], back);
	return 0;
}

/* The derivative dy/dx of an elementwise function y = op(x); NO_VALUE if it is not known. */
static uint32_t elementwise_derivative(struct tape *t, const char *op, uint32_t x, uint32_t y)
{
	enum dtype type = (enum dtype)info_of(t, x)->type.dtype;

	if (!strcmp(op, "Exp"))
		return y;
	if (!strcmp(op, "Log"))
		return add_node(t, "Reciprocal", x, NO_VALUE);
	if (!strcmp(op, "Sqrt"))
		return add_node(t, "Div", scalar(t, 0.5, type), y);
	if (!strcmp(op, "Neg"))
		return scalar(t, -1, type);
	if (!strcmp(op, "Sin"))
		return add_node(t, "Cos", x, NO_VALUE);
	if (!strcmp(op, "Cos"))
		return add_node(t, "Neg", add_node(t, "Sin", x, NO_VALUE), NO_VALUE);
	if (!strcmp(op, "Abs"))
		return add_node(t, "Sign", x, NO_VALUE);
	if (!strcmp(op, "Relu"))
		return add_node(t, "Sign", y, NO_VALUE);
	if (!strcmp(op, "Reciprocal"))
		return add_node(t, "Neg", add_node(t, "Mul", y, y), NO_VALUE);
	if (!strcmp(op, "Sigmoid"))
		return add_node(t, "Mul", y, add_node(t, "Sub", scalar(t, 1, type), y));
	if (!strcmp(op, "Tanh"))
		return add_node(t, "Sub", scalar(t, 1, type), add_node(t, "Mul", y, y));
	return NO_VALUE;
}

/* Propagates g, the derivative with respect to n's output, to input i of n, which has two inputs. */
static int derive_binary(struct tape *t, const struct node *n, uint32_t i, uint32_t g)
{
	const char *op = n->op->name;
	uint32_t a = n->in[0], b = n->in[1], y = n->out[0];
	enum dtype type = (enum dtype)info_of(t, a)->type.dtype;

	if (!strcmp(op, "Add"))
		return add_gradient(t, n, i, g);
	if (!strcmp(op, "Sub"))
		return add_gradient(t, n, i, i ? add_node(t, "Neg", g, NO_VALUE) : g);
	if (!strcmp(op, "Mul"))
		return add_gradient(t, n, i, add_node(t, "Mul", g, i ? a : b));
	if (!strcmp(op, "Div"))
		return add_gradient(t, n, i,
				    i ? add_node(t, "Neg",
						 add_node(t, "Mul", g, add_node(t, "Div", y, b)),
						 NO_VALUE)
				      : add_node(t, "Div", g, b));
	if (!strcmp(op, "Pow") && i)
		return add_gradient(t, n, i,
				    add_node(t, "Mul", g,
					     add_node(t, "Mul", y, add_node(t, "Log", a, NO_VALUE))));
	if (!strcmp(op, "Pow"))
		return add_gradient(
			t, n, i,
			add_node(t, "Mul", g,
				 add_node(t, "Mul", b,
					  add_node(t, "Pow", a,
						   add_node(t, "Sub", b, scalar(t, 1, type))))));
	if (!strcmp(op, "MatMul") && info_of(t, a)->shape.rank >= 2 && info_of(t, b)->shape.rank >= 2)
		return add_gradient(t, n, i,
				    i ? add_node(t, "MatMul", transpose_last_two(t, a), g)
				      : add_node(t, "MatMul", g, transpose_last_two(t, b)));
	return edit_fail(t->e, E_OP_UNSUPPORTED, "operators whose derivative is known", op);
}

static int derive_input(struct tape *t, const struct node *n, uint32_t i, uint32_t g)
{
	const char *op = n->op->name;

	if (!strcmp(op, "Identity") || !strcmp(op, "Sum"))
		return add_gradient(t, n, i, g);
	if (!strcmp(op, "Reshape") || !strcmp(op, "Transpose") || !strcmp(op, "Squeeze") ||
	    !strcmp(op, "Unsqueeze") || !strcmp(op, "Flatten"))
		return i ? 0 : add_moved_gradient(t, n, g);
	if (n->nin == 2)
		return derive_binary(t, n, i, g);
	uint32_t f = n->nin == 1 ? elementwise_derivative(t, op, n->in[0], n->out[0]) : NO_VALUE;
	if (f == NO_VALUE)
		return edit_fail(t->e, E_OP_UNSUPPORTED, "operators whose derivative is known", op);
	return add_gradient(t, n, i, add_node(t, "Mul", g, f));
}

static uint32_t producer(const struct tape *t, uint32_t v)
{
	uint32_t p = v == NO_VALUE || v >= t->nvalues ? NO_NODE : t->e->graph->value[v]->producer;
	return p < t->nnodes ? p : NO_NODE;
}

/*
 * Finds the nodes that y depends on, without going past the values xs, which stop marks; counts how many of these
 * nodes use each of them.
 */
static void find_nodes_between(struct tape *t, uint32_t y, const bool *stop)
{
	uint32_t first = stop[y] ? NO_NODE : producer(t, y);

	if (first == NO_NODE)
		return;
	t->between[first] = true;
	t->queue[t->tail++] = first;
	while (t->head < t->tail) {
		const struct node *n = t->e->graph->node[t->queue[t->head++]];
		for (uint32_t i = 0; i < n->nin; i++) {
			uint32_t p = n->in[i] == NO_VALUE || stop[n->in[i]] ? NO_NODE
									    : producer(t, n->in[i]);
			if (p == NO_NODE)
				continue;
			t->uses[p]++;
			if (!t->between[p]) {
				t->between[p] = true;
				t->queue[t->tail++] = p;
			}
		}
	}
}

/* Sets wanted for the nodes that depend on one of xs; all other nodes need no derivative. */
static void find_wanted(const struct tape *t, const bool *stop, bool *wanted)
{
	for (bool again = true; again;) {
		again = false;
		for (uint32_t k = t->tail; k-- > 0;) {
			const struct node *n = t->e->graph->node[t->queue[k]];
			bool w = false;
			for (uint32_t i = 0; i < n->nin; i++) {
				uint32_t v = n->in[i], p = v == NO_VALUE ? NO_NODE : producer(t, v);
				w |= v != NO_VALUE && (stop[v] || (p != NO_NODE && wanted[p]));
			}
			again |= w && !wanted[n->id];
			wanted[n->id] |= w;
		}
	}
}

static int walk_back(struct tape *t, uint32_t y, const bool *stop, const bool *wanted)
{
	uint32_t first = stop[y] ? NO_NODE : producer(t, y);
	uint32_t *ready = arena_new_n(t->e->graph->arena, uint32_t, t->nnodes + 1), head = 0,
		 tail = 0;

	if (first != NO_NODE)
		ready[tail++] = first;
	while (head < tail) {
		const struct node *n = t->e->graph->node[ready[head++]];
		uint32_t g = n->nout == 1 ? t->grad[n->out[0]] : NO_VALUE;
		if (wanted[n->id] && n->nout != 1)
			return edit_fail(t->e, E_OP_UNSUPPORTED,
					 "operators whose derivative is known", n->op->name);
		for (uint32_t i = 0; i < n->nin; i++) {
			uint32_t v = n->in[i], p = v == NO_VALUE ? NO_NODE : producer(t, v);
			bool need = v != NO_VALUE && (stop[v] || (p != NO_NODE && wanted[p]));
			int err = need && g != NO_VALUE ? derive_input(t, n, i, g) : 0;
			if (err)
				return err;
			if (p != NO_NODE && !stop[v] && !--t->uses[p])
				ready[tail++] = p;
		}
	}
	return 0;
}

static uint32_t value_named(const struct graph *g, const char *name, size_t n)
{
	for (uint32_t i = 0; i < g->nvalues; i++)
		if (strlen(g->value[i]->name) == n && !memcmp(g->value[i]->name, name, n))
			return i;
	return NO_VALUE;
}

/*
 * Replaces the outputs of the Gradient node by the derivatives. If y does not depend on x, the derivative is x - x,
 * which is all zeros.
 */
static void replace_outputs(struct tape *t, const uint32_t *xs, uint32_t nxs)
{
	struct node *n = t->e->node;
	struct graph *g = t->e->graph;

	for (uint32_t i = 0; i < nxs; i++) {
		if (t->grad[xs[i]] == NO_VALUE)
			t->grad[xs[i]] = add_node(t, "Sub", xs[i], xs[i]);
		if (i && i < n->nout && n->out[i] != NO_VALUE)
			graph_replace(g, n->out[i], add_node(t, "Identity", t->grad[xs[i]], NO_VALUE));
	}
	n->nout = 1;
	edit_become(t->e, "Identity");
	node_set_ins(g, n, &t->grad[xs[0]], 1);
}

static int gradient_upgrade(struct edit *e)
{
	const struct gradient_params *p = e->node->params;
	struct graph *g = e->graph;
	struct arena *a = g->arena;
	struct tape t = {.e = e, .nvalues = g->nvalues, .nnodes = g->nnodes};
	uint32_t y = p->y ? value_named(g, p->y, strlen(p->y)) : NO_VALUE,
		 nxs = p->xs.n > 0 ? (uint32_t)p->xs.n : 0;
	uint32_t *xs = arena_new_n(a, uint32_t, nxs + 1);
	bool *stop = arena_new_n(a, bool, g->nvalues + 1),
	     *wanted = arena_new_n(a, bool, g->nnodes + 1);

	if (y == NO_VALUE || !nxs || e->node->nin < nxs || e->node->nout > nxs)
		return edit_fail(e, E_OP_ATTRIBUTE, "y and xs that name values of the graph",
				 "others");
	for (uint32_t i = 0; i < nxs; i++) {
		xs[i] = value_named(g, p->xs.v[i].s, p->xs.v[i].n);
		if (xs[i] == NO_VALUE || xs[i] != e->node->in[i])
			return edit_fail(e, E_OP_UNSUPPORTED,
					 "inputs that are the values named by xs", "others");
		stop[xs[i]] = true;
	}
	t.grad = arena_new_n(a, uint32_t, g->nvalues + 1);
	t.uses = arena_new_n(a, uint32_t, g->nnodes + 1);
	t.between = arena_new_n(a, bool, g->nnodes + 1);
	t.queue = arena_new_n(a, uint32_t, g->nnodes + 1);
	for (uint32_t i = 0; i < g->nvalues; i++)
		t.grad[i] = NO_VALUE;
	find_nodes_between(&t, y, stop);
	find_wanted(&t, stop, wanted);
	t.grad[y] = add_node(&t, "Expand", scalar(&t, 1, (enum dtype)info_of(&t, y)->type.dtype),
			     add_node(&t, "Shape", y, NO_VALUE));
	int err = walk_back(&t, y, stop, wanted);
	if (!err)
		replace_outputs(&t, xs, nxs);
	return err;
}

static int gradient_infer(struct infer *c)
{
	for (uint32_t i = 0; i < c->node->nout; i++) {
		struct shape s = infer_shape(c, i);
		infer_set(c, i, infer_dtype(c, i), &s);
	}
	return 0;
}

/* ---- optimizers ------------------------------------------------------------------------------------------ */

/*
 * Inputs: R, T, then `groups` groups of n tensors each: the variables X, their gradients G, and the states. Outputs: the
 * new X and the new states.
 */
static int update_infer(struct infer *c, uint32_t groups)
{
	uint32_t n = c->node->nin < 2 ? 0 : (c->node->nin - 2) / groups;

	if (!n || c->node->nin != 2 + n * groups || c->node->nout != n * (groups - 1))
		return infer_fail(c, E_OP_INPUTS, -1,
				  fmt(c->diag, "R, T and %u tensors a variable", groups),
				  fmt(c->diag, "%u input%s, %u output%s", c->node->nin,
				      c->node->nin == 1 ? "" : "s", c->node->nout,
				      c->node->nout == 1 ? "" : "s"));
	for (uint32_t i = 0; i < c->node->nout; i++) {
		uint32_t from = 2 + i % n;
		struct shape s = infer_shape(c, from);
		infer_set(c, i, infer_dtype(c, from), &s);
	}
	for (uint32_t i = 0; i < n * groups; i++) {
		struct shape x = infer_shape(c, 2 + i % n), s = infer_shape(c, 2 + i);
		if (shape_known(&x) && shape_known(&s) && !shape_equal(&x, &s))
			return infer_fail(c, E_SHAPE, (int)(2 + i), "the shape of the variable",
					  "another");
	}
	return 0;
}

static int adagrad_infer(struct infer *c)
{
	return update_infer(c, 3);
}

static int adam_infer(struct infer *c)
{
	return update_infer(c, 4);
}

#define T_FLOAT (T_F32 | T_F64)
static const struct slot update_in[] = {
	{.name = "R", .types = T_FLOAT, .dims = "() | 1"},
	{.name = "T", .types = T_I64, .dims = "() | 1"},
	{.name = "inputs", .types = T_FLOAT, .variadic = true, .heterogeneous = true},
	SLOT_END};
static const struct slot update_out[] = {
	{.name = "outputs", .types = T_FLOAT, .variadic = true, .heterogeneous = true}, SLOT_END};
static const struct slot gradient_in[] = {
	{.name = "Inputs", .types = T_ALL, .variadic = true, .heterogeneous = true}, SLOT_END};
static const struct slot gradient_out[] = {
	{.name = "Outputs", .types = T_FLOATS, .variadic = true, .heterogeneous = true}, SLOT_END};

static const struct field adagrad_attrs[] = {
	FIELD(struct adagrad_params, decay_factor, F_FLOAT, "0", "decay of the learning rate"),
	FIELD(struct adagrad_params, epsilon, F_FLOAT, "1e-6", "keeps the divisor above 0"),
	FIELD(struct adagrad_params, norm_coefficient, F_FLOAT, "0", "regularization"),
	{0}};
static const struct field adam_attrs[] = {
	FIELD(struct adam_params, alpha, F_FLOAT, "0.9", "decay of the gradients"),
	FIELD(struct adam_params, beta, F_FLOAT, "0.999", "decay of the squared gradients"),
	FIELD(struct adam_params, epsilon, F_FLOAT, "1e-6", "keeps the divisor above 0"),
	FIELD(struct adam_params, norm_coefficient, F_FLOAT, "0", "regularization"),
	FIELD(struct adam_params, norm_coefficient_post, F_FLOAT, "0", "regularization afterwards"),
	{0}};
static const struct field momentum_attrs[] = {
	FIELD_REQ(struct momentum_params, alpha, F_FLOAT, "decay of the momentum"),
	FIELD_REQ(struct momentum_params, beta, F_FLOAT, "factor of the gradient"),
	FIELD_REQ(struct momentum_params, norm_coefficient, F_FLOAT, "regularization"),
	{.name = "mode",
	 .type = F_ENUM,
	 .off = offsetof(struct momentum_params, mode),
	 .flags = FIELD_REQUIRED,
	 .choices = "standard|nesterov",
	 .help = "which momentum"},
	{0}};
static const struct field gradient_attrs[] = {
	FIELD_REQ(struct gradient_params, xs, F_STRINGS, "what is differentiated by"),
	FIELD(struct gradient_params, zs, F_STRINGS, NULL, "other inputs of the part of the graph"),
	FIELD_REQ(struct gradient_params, y, F_STRING, "what is differentiated"),
	{0}};

#define TRAINING(name_, in_, out_, infer_)                                                         \
	.name = (name_), .domain = "ai.onnx.preview.training", .since = 1, .in = (in_),            \
	.out = (out_), .infer = (infer_)

const struct op ops_training[] = {
	{TRAINING("Adagrad", update_in, update_out, adagrad_infer),
	 ATTRS(adagrad_attrs, struct adagrad_params), .variant = TRAIN_ADAGRAD,
	 .flags = OP_OPTIONAL_OUT},
	{TRAINING("Adam", update_in, update_out, adam_infer), ATTRS(adam_attrs, struct adam_params),
	 .variant = TRAIN_ADAM, .flags = OP_OPTIONAL_OUT},
	{TRAINING("Momentum", update_in, update_out, adagrad_infer),
	 ATTRS(momentum_attrs, struct momentum_params), .variant = TRAIN_MOMENTUM,
	 .flags = OP_OPTIONAL_OUT},
	{TRAINING("Gradient", gradient_in, gradient_out, gradient_infer),
	 ATTRS(gradient_attrs, struct gradient_params), .upgrade = gradient_upgrade},
	{0}};
