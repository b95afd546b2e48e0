/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes made from the rows of the operators' table: every operator and every attribute comes up equally often, whatever the
 * corpus has.
 */
#include "ops/op.h"
#include "test/mutants/internal.h"

#include <string.h>

enum { MAX_OPERATORS = 1024, MAX_RANK_MADE = 4 };

/* The newest rows of the operators that files may use. */
struct rows {
	const struct op *row[MAX_OPERATORS];
	size_t n;
};

static int add_row(const struct op *row, void *arg)
{
	struct rows *r = arg;

	if (op_flags(row) & OP_INTERNAL || op_newest(row->domain, row->name) != row)
		return 0;
	if (r->n < MAX_OPERATORS)
		r->row[r->n++] = row;
	return 0;
}

static const struct rows *all_rows(void)
{
	static struct rows rows;

	if (!rows.n)
		op_each(add_row, &rows);
	return &rows;
}

/* ---- types and shapes of operands ---- */

/* The type that each type variable has in the node that is made. */
struct choices {
	const char *tvar[8];
	int type[8];
	int n;
	int rank; /* of most operands */
	int64_t dim[MAX_RANK_MADE];
};

static int pick_type(struct rng *r, uint64_t types)
{
	for (int tries = 0; tries < 24; tries++) {
		int t = some_type(r);
		if (types & T_BIT(t) && element_bytes(t))
			return t;
	}
	return 0;
}

static int operand_type(struct rng *r, struct choices *c, const struct op *op, const struct slot *s)
{
	uint64_t types = op->types && s->tvar && !strcmp(s->tvar, "T") ? op->types : s->types;

	for (int i = 0; s->tvar && i < c->n; i++)
		if (!strcmp(c->tvar[i], s->tvar))
			return c->type[i];
	int type = rng_chance(r, 60) && types & T_F32 ? 1 : pick_type(r, types);
	if (s->tvar && c->n < 8) {
		c->tvar[c->n] = s->tvar;
		c->type[c->n++] = type;
	}
	return type;
}

static char *value_of_type(struct mutant *m, int type)
{
	size_t start = rng_below(m->r, m->names.n);

	for (size_t k = 0; k < m->names.n; k++) {
		size_t i = (start + k) % m->names.n;
		if (m->names.type[i] == type)
			return pile_text(m->p, m->names.v[i]);
	}
	return NULL;
}

static char *operand(struct mutant *m, struct choices *c, int type)
{
	char *name = rng_chance(m->r, 50) && type ? value_of_type(m, type) : NULL;
	int64_t dim[MAX_RANK_MADE];
	int rank = c->rank;

	if (name)
		return name;
	if (!type)
		return some_name(m);
	memcpy(dim, c->dim, sizeof(dim));
	if (type == 7 || rng_chance(m->r, 35)) { /* indices, sizes, one value a channel */
		rank = rng_chance(m->r, 30) ? 0 : 1;
		dim[0] = rng_chance(m->r, 50) ? c->dim[c->rank > 1] : small_dim(m->r);
	} else if (rng_chance(m->r, 25) && rank) {
		dim[rng_below(m->r, (uint64_t)rank)] = small_dim(m->r);
	}
	name = new_name(m);
	add_initializer(m, make_tensor(m->r, m->p, name, type, rank, dim));
	return name;
}

/* ---- attributes ---- */

static char *some_word(struct mutant *m, const char *choices)
{
	const struct pool *pool = m->corpus->pool;
	char *word = choices ? pile_text(m->p, choices) : no_name;

	if (!choices) {
		for (int k = 0; k < 64; k++) {
			const Onnx__AttributeProto *a =
				pool->attribute[rng_below(m->r, pool->nattributes)];
			if (!a->has_s || a->s.len > 64)
				continue;
			word = pile_alloc(m->p, a->s.len + 1);
			if (word && a->s.len)
				memcpy(word, a->s.data, a->s.len);
			return word ? word : no_name;
		}
		return no_name;
	}
	for (char *bar; (bar = strchr(word, '|')) != NULL; word = bar + 1)
		if (rng_chance(m->r, 40)) {
			*bar = 0;
			break;
		}
	return word;
}

static int64_t some_int(struct rng *r)
{
	return rng_chance(r, 75) ? (int64_t)rng_below(r, 6) - 1 : odd_int(r);
}

static void set_ints(struct mutant *m, Onnx__AttributeProto *a)
{
	a->n_ints = rng_below(m->r, 6);
	a->ints = pile_alloc(m->p, 8 * sizeof(*a->ints));
	for (size_t i = 0; a->ints && i < a->n_ints; i++)
		a->ints[i] = some_int(m->r);
	a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
}

static void set_floats(struct mutant *m, Onnx__AttributeProto *a)
{
	a->n_floats = rng_below(m->r, 6);
	a->floats = pile_alloc(m->p, 8 * sizeof(*a->floats));
	for (size_t i = 0; a->floats && i < a->n_floats; i++)
		a->floats[i] = odd_float(m->r);
	a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
}

static void set_strings(struct mutant *m, Onnx__AttributeProto *a)
{
	a->n_strings = rng_below(m->r, 5);
	a->strings = pile_alloc(m->p, 8 * sizeof(*a->strings));
	for (size_t i = 0; a->strings && i < a->n_strings; i++) {
		char *s = some_word(m, NULL);
		a->strings[i] = (ProtobufCBinaryData){strlen(s), (uint8_t *)s};
	}
	a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
}

/* The body or the type that some model has under this name. */
static bool borrow(struct mutant *m, const char *name, Onnx__AttributeProto *a)
{
	const struct pool *pool = m->corpus->pool;
	size_t start = rng_below(m->r, pool->nattributes);

	for (size_t k = 0; k < pool->nattributes; k++) {
		const Onnx__AttributeProto *other = pool->attribute[(start + k) % pool->nattributes];
		if ((!other->g && !other->tp) || !other->name || strcmp(other->name, name) != 0)
			continue;
		const Onnx__AttributeProto *copy = duplicate_message(m->p, &other->base);
		if (copy)
			*a = *copy;
		return copy != NULL;
	}
	return false;
}

static bool set_value(struct mutant *m, const struct field *f, Onnx__AttributeProto *a)
{
	char *word;

	switch (f->type) {
	case F_FLOAT:
	case F_DOUBLE:
		a->f = odd_float(m->r);
		a->has_f = 1;
		a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
		return true;
	case F_STRING:
	case F_ENUM:
		word = some_word(m, f->choices);
		a->s = (ProtobufCBinaryData){strlen(word), (uint8_t *)word};
		a->has_s = 1;
		a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
		return true;
	case F_INTS: set_ints(m, a); return true;
	case F_FLOATS: set_floats(m, a); return true;
	case F_STRINGS: set_strings(m, a); return true;
	case F_TENSOR:
		a->t = some_tensor(m->r, m->p, "");
		a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
		return a->t != NULL;
	case F_GRAPH:
	case F_TYPE: return borrow(m, f->name, a);
	default:
		a->i = some_int(m->r);
		a->has_i = 1;
		a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
		return true;
	}
}

static void make_attributes(struct mutant *m, Onnx__NodeProto *n, const struct op *op)
{
	for (const struct field *f = op->attrs; f && f->name; f++) {
		if (!(f->flags & FIELD_REQUIRED) && rng_chance(m->r, 65))
			continue;
		Onnx__AttributeProto *a = pile_alloc(m->p, sizeof(*a));
		if (!a)
			return;
		onnx__attribute_proto__init(a);
		a->name = pile_text(m->p, f->name);
		if (set_value(m, f, a))
			PUSH(m->p, n->attribute, n->n_attribute, a);
	}
}

/* ---- the node ---- */

static void make_operands(struct mutant *m, Onnx__NodeProto *n, const struct op *op)
{
	struct choices c = {.rank = 1 + (int)rng_below(m->r, MAX_RANK_MADE)};

	for (int i = 0; i < MAX_RANK_MADE; i++)
		c.dim[i] = small_dim(m->r);
	for (const struct slot *s = op->in; s && s->name; s++) {
		int times = s->variadic ? 1 + (int)rng_below(m->r, 3) : 1;
		int type = operand_type(m->r, &c, op, s);
		while (times--)
			PUSH(m->p, n->input, n->n_input,
			     s->optional && rng_chance(m->r, 40) ? no_name : operand(m, &c, type));
	}
	while (n->n_input && !*n->input[n->n_input - 1])
		n->n_input--;
}

static void make_outputs(struct mutant *m, Onnx__NodeProto *n, const struct op *op)
{
	for (const struct slot *s = op->out; s && s->name; s++) {
		char *name = s->optional && rng_chance(m->r, 40) ? no_name : new_name(m);
		PUSH(m->p, n->output, n->n_output, name);
		name_add(&m->names, name, 0);
	}
}

/* The operator must be known to the opset that the model imports. */
static void import_version(struct mutant *m, const struct op *op)
{
	for (size_t i = 0; i < m->model->n_opset_import; i++) {
		Onnx__OperatorSetIdProto *o = m->model->opset_import[i];
		if (!strcmp(o->domain ? o->domain : "", op->domain ? op->domain : "") &&
		    o->version < op->since)
			o->version = op->since;
	}
}

void invent_node(struct mutant *m)
{
	const struct rows *rows = all_rows();
	const struct op op = op_resolved(rows->row[rng_below(m->r, rows->n)]);
	Onnx__NodeProto *n = pile_alloc(m->p, sizeof(*n));

	if (!n)
		return;
	onnx__node_proto__init(n);
	n->op_type = pile_text(m->p, op.name);
	n->domain = op.domain ? pile_text(m->p, op.domain) : NULL;
	if (rng_chance(m->r, 50)) { /* alone: nothing that is wrong elsewhere hides it */
		m->graph = m->model->graph;
		m->graph->n_node = m->graph->n_output = 0;
	}
	make_attributes(m, n, &op);
	make_operands(m, n, &op);
	make_outputs(m, n, &op);
	import_version(m, &op);
	PUSH(m->p, m->graph->node, m->graph->n_node, n);
	if (m->graph != m->model->graph)
		return;
	for (size_t i = 0; i < n->n_output; i++)
		if (*n->output[i])
			add_output(m, n->output[i]);
}
