/* SPDX-License-Identifier: Apache-2.0 */
#include "test/mutants/internal.h"

#include <string.h>

/* ---- small builders ---- */

static Onnx__NodeProto *new_node(struct mutant *m, const char *op, char *in, char *out)
{
	Onnx__NodeProto *n = pile_alloc(m->p, sizeof(*n));

	if (!n)
		return NULL;
	onnx__node_proto__init(n);
	n->op_type = pile_text(m->p, op);
	if (in)
		PUSH(m->p, n->input, n->n_input, in);
	PUSH(m->p, n->output, n->n_output, out);
	return n;
}

static Onnx__AttributeProto *new_attribute(struct mutant *m, Onnx__NodeProto *n, const char *name,
					   Onnx__AttributeProto__AttributeType type)
{
	Onnx__AttributeProto *a = pile_alloc(m->p, sizeof(*a));

	if (!a)
		return NULL;
	onnx__attribute_proto__init(a);
	a->name = pile_text(m->p, name);
	a->type = type;
	PUSH(m->p, n->attribute, n->n_attribute, a);
	return a;
}

static void int_attribute(struct mutant *m, Onnx__NodeProto *n, const char *name, int64_t v)
{
	Onnx__AttributeProto *a =
		new_attribute(m, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);

	if (a) {
		a->i = v;
		a->has_i = 1;
	}
}

static void graph_attribute(struct mutant *m, Onnx__NodeProto *n, const char *name,
			    Onnx__GraphProto *g)
{
	Onnx__AttributeProto *a =
		new_attribute(m, n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);

	if (a)
		a->g = g;
}

static char *constant(struct mutant *m, int type, int rank, const int64_t *dims)
{
	char *name = new_name(m);

	add_initializer(m, make_tensor(m->r, m->p, name, type, rank, dims));
	return name;
}

static char *constant_i64(struct mutant *m, int64_t v)
{
	char *name = new_name(m);
	Onnx__TensorProto *t = make_tensor(m->r, m->p, name, 7, 0, NULL);

	if (t && t->has_raw_data)
		memcpy(t->raw_data.data, &v, sizeof(v));
	add_initializer(m, t);
	return name;
}

char *count_of_turns(struct mutant *m)
{
	return constant_i64(m, (int64_t)rng_below(m->r, 5));
}

static char *constant_bool(struct mutant *m, bool v)
{
	char *name = new_name(m);
	Onnx__TensorProto *t = make_tensor(m->r, m->p, name, 9, 0, NULL);

	if (t && t->has_raw_data)
		t->raw_data.data[0] = v;
	add_initializer(m, t);
	return name;
}

/* ---- neighbours ---- */

/* A second operand that broadcasts: a scalar, a vector, one value a channel. */
static void push_operand(struct mutant *m, Onnx__NodeProto *n, int type)
{
	const int64_t c = small_dim(m->r);
	const int64_t forms[][3] = {{1}, {c}, {c, 1, 1}, {1, c, 1}};
	const int ranks[] = {1, 1, 3, 3};
	size_t k = rng_below(m->r, 5);
	char *name = k == 4 ? constant(m, type, 0, NULL) : constant(m, type, ranks[k], forms[k]);

	PUSH(m->p, n->input, n->n_input, name);
	if (rng_chance(m->r, 25) && n->n_input == 2) {
		char *first = n->input[0];
		n->input[0] = n->input[1];
		n->input[1] = first;
	}
}

static void push_ints(struct mutant *m, Onnx__NodeProto *n)
{
	const int64_t count = (int64_t)rng_below(m->r, 5);

	PUSH(m->p, n->input, n->n_input, constant(m, 7, 1, &count));
}

static void permutation(struct mutant *m, Onnx__NodeProto *n)
{
	Onnx__AttributeProto *a =
		new_attribute(m, n, "perm", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
	size_t rank = 1 + rng_below(m->r, 4);
	int64_t *v = a ? pile_alloc(m->p, 8 * sizeof(*v)) : NULL;

	if (!v)
		return;
	for (size_t i = 0; i < rank; i++) {
		size_t k = rng_below(m->r, i + 1);
		v[i] = v[k];
		v[k] = (int64_t)i;
	}
	a->ints = v;
	a->n_ints = rank;
}

enum form { ALONE, OPERAND, LIMITS, INTS, PERM, TO, AXIS, QUANTIZED };

static Onnx__NodeProto *neighbour(struct mutant *m, char *in, char *out)
{
	static const struct {
		const char *op;
		enum form form;
	} known[] = {{"Relu", ALONE},
		     {"Relu", ALONE},
		     {"Clip", LIMITS},
		     {"Clip", LIMITS},
		     {"Add", OPERAND},
		     {"Add", OPERAND},
		     {"Mul", OPERAND},
		     {"Mul", OPERAND},
		     {"Sub", OPERAND},
		     {"Div", OPERAND},
		     {"Pow", OPERAND},
		     {"Max", OPERAND},
		     {"PRelu", OPERAND},
		     {"MatMul", OPERAND},
		     {"Sigmoid", ALONE},
		     {"Tanh", ALONE},
		     {"LeakyRelu", ALONE},
		     {"HardSwish", ALONE},
		     {"HardSigmoid", ALONE},
		     {"Elu", ALONE},
		     {"Softplus", ALONE},
		     {"Erf", ALONE},
		     {"Sqrt", ALONE},
		     {"Neg", ALONE},
		     {"Identity", ALONE},
		     {"Softmax", AXIS},
		     {"Flatten", AXIS},
		     {"ReduceMean", ALONE},
		     {"GlobalAveragePool", ALONE},
		     {"Transpose", PERM},
		     {"Transpose", PERM},
		     {"Reshape", INTS},
		     {"Reshape", INTS},
		     {"Unsqueeze", INTS},
		     {"Squeeze", ALONE},
		     {"Expand", INTS},
		     {"Pad", INTS},
		     {"Slice", INTS},
		     {"Tile", INTS},
		     {"Gather", INTS},
		     {"Cast", TO},
		     {"Cast", TO},
		     {"Concat", AXIS},
		     {"Split", AXIS},
		     {"Shape", ALONE},
		     {"QuantizeLinear", QUANTIZED},
		     {"DequantizeLinear", QUANTIZED},
		     {"BatchNormalization", ALONE},
		     {"Dropout", ALONE},
		     {"Where", OPERAND}};
	size_t k = rng_below(m->r, sizeof(known) / sizeof(*known));
	Onnx__NodeProto *n = new_node(m, known[k].op, in, out);
	const int64_t type = rng_chance(m->r, 85) ? 1 : some_type(m->r);

	if (!n)
		return NULL;
	switch (known[k].form) {
	case ALONE: break;
	case OPERAND: push_operand(m, n, (int)type); break;
	case LIMITS:
		for (int i = 0; i < 2; i++)
			PUSH(m->p, n->input, n->n_input,
			     rng_chance(m->r, 20) ? no_name : constant(m, (int)type, 0, NULL));
		break;
	case INTS: push_ints(m, n); break;
	case PERM: permutation(m, n); break;
	case TO: int_attribute(m, n, "to", some_type(m->r)); break;
	case AXIS: int_attribute(m, n, "axis", (int64_t)rng_below(m->r, 6) - 2); break;
	case QUANTIZED:
		push_operand(m, n, 1);
		PUSH(m->p, n->input, n->n_input, constant(m, rng_chance(m->r, 50) ? 2 : 3, 0, NULL));
	}
	return n;
}

/* Whoever has read `from` reads `to`; some readers stay where they were, so that the value has two uses. */
static void redirect(struct mutant *m, const char *from, char *to)
{
	Onnx__GraphProto *g = m->graph;

	for (size_t i = 0; i < g->n_node; i++)
		for (size_t k = 0; k < g->node[i]->n_input; k++)
			if (!strcmp(g->node[i]->input[k], from) && rng_chance(m->r, 80))
				g->node[i]->input[k] = to;
	for (size_t i = 0; i < g->n_output; i++)
		if (g->output[i]->name && !strcmp(g->output[i]->name, from) && rng_chance(m->r, 90)) {
			g->output[i]->name = to;
			g->output[i]->type = NULL;
		}
}

/* A value that some node makes, or an input. */
static const char *made_value(struct mutant *m)
{
	const Onnx__NodeProto *n = some_node(m);

	if (n && n->n_output && rng_chance(m->r, 75))
		return n->output[rng_below(m->r, n->n_output)];
	return m->names.n ? m->names.v[rng_below(m->r, m->names.n)] : no_name;
}

void append_neighbours(struct mutant *m)
{
	const char *from = made_value(m);
	char *at = pile_text(m->p, from), *end = new_name(m);

	if (!*from)
		return;
	redirect(m, from, end);
	for (int left = 1 + (int)rng_below(m->r, 3); left > 0; left--) {
		char *out = left == 1 ? end : new_name(m);
		Onnx__NodeProto *n = neighbour(m, at, out);
		if (n)
			PUSH(m->p, m->graph->node, m->graph->n_node, n);
		at = out;
	}
}

void wrap_value(struct mutant *m)
{
	const char *from = made_value(m);
	char *held = new_name(m), *back = new_name(m);
	bool optional = rng_chance(m->r, 40);

	if (!*from)
		return;
	redirect(m, from, back);
	Onnx__NodeProto *in = new_node(m, optional ? "Optional" : "SequenceConstruct",
				       pile_text(m->p, from), held);
	Onnx__NodeProto *out =
		new_node(m, optional ? "OptionalGetElement" : "SequenceAt", held, back);
	if (!in || !out)
		return;
	if (!optional) {
		for (uint64_t more = rng_below(m->r, 3); more--;)
			PUSH(m->p, in->input, in->n_input, in->input[0]);
		if (rng_chance(m->r, 30)) { /* put together again instead of taken out */
			out->op_type = pile_text(m->p, "ConcatFromSequence");
			int_attribute(m, out, "axis", (int64_t)rng_below(m->r, 4) - 1);
		} else {
			PUSH(m->p, out->input, out->n_input,
			     constant_i64(m, (int64_t)rng_below(m->r, 5) - 2));
		}
	}
	PUSH(m->p, m->graph->node, m->graph->n_node, in);
	PUSH(m->p, m->graph->node, m->graph->n_node, out);
}

/* ---- bodies ---- */

static void body_output(struct mutant *m, Onnx__GraphProto *g, char *name)
{
	Onnx__ValueInfoProto *v = pile_alloc(m->p, sizeof(*v));

	if (!v)
		return;
	onnx__value_info_proto__init(v);
	v->name = name;
	PUSH(m->p, g->output, g->n_output, v);
}

static void body_input(struct mutant *m, Onnx__GraphProto *g, char *name, int type)
{
	Onnx__ValueInfoProto *v = pile_alloc(m->p, sizeof(*v));
	Onnx__TypeProto *t = pile_alloc(m->p, sizeof(*t));
	Onnx__TypeProto__Tensor *tensor = pile_alloc(m->p, sizeof(*tensor));

	if (!v || !t || !tensor)
		return;
	onnx__value_info_proto__init(v);
	onnx__type_proto__init(t);
	onnx__type_proto__tensor__init(tensor);
	tensor->elem_type = type;
	tensor->has_elem_type = 1;
	t->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
	t->tensor_type = tensor;
	v->name = name;
	v->type = t;
	PUSH(m->p, g->input, g->n_input, v);
}

/* A body with a copy of the node, whose outputs get new names there. */
static Onnx__GraphProto *body_of(struct mutant *m, const Onnx__NodeProto *n)
{
	Onnx__GraphProto *g = pile_alloc(m->p, sizeof(*g));
	Onnx__NodeProto *copy = duplicate_message(m->p, &n->base);

	if (!g || !copy)
		return NULL;
	onnx__graph_proto__init(g);
	g->name = pile_text(m->p, "body");
	for (size_t i = 0; i < copy->n_output; i++)
		if (*copy->output[i])
			copy->output[i] = new_name(m);
	PUSH(m->p, g->node, g->n_node, copy);
	return g;
}

static void body_outputs(struct mutant *m, Onnx__GraphProto *g)
{
	const Onnx__NodeProto *n = g->node[0];

	for (size_t i = 0; i < n->n_output; i++)
		if (*n->output[i])
			body_output(m, g, n->output[i]);
}

static void outer_outputs(struct mutant *m, Onnx__NodeProto *outer, const Onnx__NodeProto *n)
{
	outer->n_output = 0;
	for (size_t i = 0; i < n->n_output; i++)
		if (*n->output[i])
			PUSH(m->p, outer->output, outer->n_output, n->output[i]);
}

static Onnx__NodeProto *as_if(struct mutant *m, const Onnx__NodeProto *n)
{
	Onnx__NodeProto *outer = new_node(m, "If", constant_bool(m, rng_chance(m->r, 50)), no_name);
	Onnx__GraphProto *yes = body_of(m, n), *no = body_of(m, n);

	if (!outer || !yes || !no)
		return NULL;
	if (m->names.n && rng_chance(m->r, 40)) /* not known before the run, if it has that type */
		outer->input[0] = some_name(m);
	body_outputs(m, yes);
	body_outputs(m, no);
	graph_attribute(m, outer, "then_branch", yes);
	graph_attribute(m, outer, "else_branch", no);
	outer_outputs(m, outer, n);
	return outer;
}

/* The node's outputs become scan outputs of some turns. */
static Onnx__NodeProto *as_loop(struct mutant *m, const Onnx__NodeProto *n)
{
	char *turn = new_name(m), *go = new_name(m), *go_on = new_name(m);
	Onnx__NodeProto *outer = new_node(m, "Loop", count_of_turns(m), no_name);
	Onnx__GraphProto *body = body_of(m, n);
	Onnx__NodeProto *keep = new_node(m, "Identity", go, go_on);

	if (!outer || !body || !keep)
		return NULL;
	PUSH(m->p, outer->input, outer->n_input,
	     rng_chance(m->r, 50) ? no_name : constant_bool(m, true));
	body_input(m, body, turn, 7);
	body_input(m, body, go, 9);
	PUSH(m->p, body->node, body->n_node, keep);
	body_output(m, body, go_on);
	body_outputs(m, body);
	graph_attribute(m, outer, "body", body);
	outer_outputs(m, outer, n);
	return outer;
}

void wrap_node(struct mutant *m)
{
	size_t k = rng_below(m->r, m->graph->n_node);

	if (!m->graph->n_node)
		return;
	Onnx__NodeProto *outer =
		rng_chance(m->r, 50) ? as_if(m, m->graph->node[k]) : as_loop(m, m->graph->node[k]);
	if (outer)
		m->graph->node[k] = outer;
}
