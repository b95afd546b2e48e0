/* SPDX-License-Identifier: Apache-2.0 */
#include "input/use.h"

#include "input/mask.h"
#include "ir/walk.h"
#include "ops/op.h"

#include <string.h>

bool is_among(const char *text, const char *const *list)
{
	while (*list && strcmp(text, *list) != 0)
		list++;
	return *list;
}

const char *live_op(const struct node *n)
{
	return n->dead || !n->type ? "" : n->type;
}

static const void *attribute(const struct node *n, const char *name, enum ftype type)
{
	struct op row = n->op ? op_resolved(n->op) : (struct op){0};
	const struct field *f = row.attrs && n->params ? field_find(row.attrs, name) : NULL;

	return f && f->type == type ? (const char *)n->params + f->off : NULL;
}

int64_t int_attribute(const struct node *n, const char *name, int64_t other)
{
	const int64_t *number = attribute(n, name, F_INT);

	return number && *number != INT_ABSENT ? *number : other;
}

/* ---- where a length comes from ------------------------------------------------------------------ */

enum { MAX_STEPS_BACK = 64 };

static bool is_integer(const struct tensor *t)
{
	enum dtype_class c = dtype_class(tensor_dtype(t));

	return c == DT_INT || c == DT_UINT;
}

/* Element i of the constant that the value is, or `other`. */
static int64_t constant_element(const struct value *v, int64_t i, int64_t other)
{
	const struct tensor *t = elements_of(v);

	return t && is_integer(t) && i < tensor_count(t) ? elem_i64(tensor_dtype(t), t->data, i)
							 : other;
}

/* Constants of a file may be any number; lengths may have 32 bits. */
static bool tell_number(int64_t number, struct whole_length *w)
{
	bool is_length = number > 0 && number <= INT32_MAX;

	if (is_length)
		w->number = number;
	return is_length;
}

/* Whether a dimension that some value has is one of an input: a size, or a symbol that an input has as well. */
static bool tell_by_dimension(const struct graph *g, int64_t dim, struct whole_length *w)
{
	int64_t base;

	if (!dim_is_sym(dim))
		return tell_number(dim, w);
	(void)dim_parts(g->model, dim, &base);
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct value *x = g->value[g->in[i]];
		for (int k = 0; x->info.type.kind == V_TENSOR && k < x->info.shape.rank; k++)
			if (x->info.shape.dim[k] == base) {
				*w = (struct whole_length){.input = x, .axis = k};
				return true;
			}
	}
	return false;
}

/* Returns the axis of the node's data input that axis `axis` of its output is; -1 if that cannot be told. Sets *v to the input. */
static int64_t axis_before(const struct graph *g, const struct node *n, int64_t axis,
			   const struct value **v)
{
	const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0), *other = node_in(g, n, 1);
	const struct ints *perm = attribute(n, "perm", F_INTS);
	const char *op = live_op(n);
	int rank = y ? y->info.shape.rank : -1;

	*v = x;
	if (!x || n->nsub)
		return -1;
	if (!strcmp(op, "Transpose"))
		return perm && perm->n > axis ? perm->v[axis] : rank - 1 - axis;
	if (!strcmp(op, "Unsqueeze") || !strcmp(op, "Squeeze")) {
		int64_t at = constant_element(other, 0, INT64_MAX), up = op[0] == 'U';
		if (at < -MAX_RANK || at > MAX_RANK ||
		    constant_element(other, 1, INT64_MAX) != INT64_MAX)
			return -1;
		at += at < 0 ? (up ? rank : x->info.shape.rank) : 0;
		return axis < at ? axis : up ? (axis == at ? -1 : axis - 1) : axis + 1;
	}
	if (!strcmp(op, "Gather") && elements_of(x)) { /* rows of a table */
		*v = other;
		return int_attribute(n, "axis", 0) == 0 && other && axis < other->info.shape.rank
			       ? axis
			       : -1;
	}
	if (!strcmp(op, "Reshape"))
		return constant_element(other, axis, -1) == 0 ? axis : -1;
	/* an operand of arithmetic that is no constant */
	if (elements_of(x) && other && !elements_of(other))
		*v = x = other;
	return x->info.shape.rank == rank ? axis : -1;
}

/* Finds the axis of an input that axis `axis` of the value comes from. */
static bool tell_by_axis(const struct graph *g, const struct value *v, int64_t axis,
			 struct whole_length *w)
{
	for (int steps = 0; v && axis >= 0 && axis < MAX_RANK && steps < MAX_STEPS_BACK; steps++) {
		const struct node *n = value_maker(g, v);
		if (v->is_input) {
			*w = (struct whole_length){.input = v, .axis = (int)axis};
			return true;
		}
		axis = n && !elements_of(v) ? axis_before(g, n, axis, &v) : -1;
	}
	return false;
}

/* Finds the axis of an input that element `at` of the value, a size, comes from, or the number that it is. */
static bool tell_by_size(const struct graph *g, const struct value *v, struct whole_length *w)
{
	static const char *const moves[] = {"Cast",	 "Identity", "Reshape",
					    "Unsqueeze", "Squeeze",  NULL};
	static const char *const arithmetic[] = {"Add", "Sub",	 "Mul",	 "Div",	 "Max",
						 "Min", "Floor", "Ceil", "Clip", NULL};
	int64_t at = 0;

	for (int steps = 0; v && steps < MAX_STEPS_BACK; steps++) {
		const struct node *n = value_maker(g, v);
		const struct value *first = n ? node_in(g, n, 0) : NULL;
		const char *op = n ? live_op(n) : "";

		if (elements_of(v) || !first)
			return tell_number(constant_element(v, at, 0), w);
		if (v->info.ints && at < v->info.ints->rank &&
		    tell_by_dimension(g, v->info.ints->dim[at], w))
			return true;
		if (!strcmp(op, "Shape")) {
			int64_t start = int_attribute(n, "start", 0), rank = first->info.shape.rank;
			return start >= -MAX_RANK && start <= MAX_RANK &&
			       tell_by_axis(g, first, at + start + (start < 0 ? rank : 0), w);
		}
		if (!strcmp(op, "Size"))
			return first->info.shape.rank == 1 && tell_by_axis(g, first, 0, w);
		if (!strcmp(op, "Gather")) {
			at = constant_element(node_in(g, n, 1), at, INT64_MAX);
			if (at < 0 && first->info.shape.rank == 1 && first->info.shape.dim[0] > 0)
				at += first->info.shape.dim[0]; /* from the end of a shape */
		} else if (!strcmp(op, "Slice")) {
			int64_t start = constant_element(node_in(g, n, 1), 0, -1);
			at = start >= 0 && start < MAX_RANK ? at + start : -1;
		} else if (is_among(op, arithmetic)) {
			first = elements_of(first) ? node_in(g, n, 1) : first;
		} else if (!is_among(op, moves)) {
			return false;
		}
		if (at < 0 || at >= MAX_RANK)
			return false;
		v = first;
	}
	return false;
}

/* What counts along an axis: a Range or what is made of one, or a constant that rises. Returns false if the value does not. */
struct counter {
	const struct node *node; /* Range or CumSum, or NULL */
	const struct tensor *constant;
	const struct node *part; /* a Slice that leaves the beginning of it, or NULL */
};
static bool find_counter(const struct graph *g, const struct value *v, struct counter *c)
{
	*c = (struct counter){0};
	for (int steps = 0; v && steps < MAX_STEPS_BACK; steps++) {
		const struct tensor *t = elements_of(v);
		const struct node *n = value_maker(g, v);
		if (t && tensor_count(t) > 1) {
			c->constant = t;
			return is_integer(t) && constant_element(v, 0, 0) < constant_element(v, 1, 0);
		}
		if (n && (!strcmp(live_op(n), "Range") || !strcmp(live_op(n), "CumSum"))) {
			c->node = n;
			return true;
		}
		if (n && !strcmp(live_op(n), "Slice"))
			c->part = n;
		v = n && keeps_elements(n) ? node_in(g, n, 0) : NULL;
	}
	return false;
}

static void tell_by_counter(const struct graph *g, const struct counter *c, struct whole_length *w)
{
	if (c->part && tell_by_size(g, node_in(g, c->part, 2), w))
		return;
	if (c->constant) {
		int64_t last = tensor_count(c->constant) - 1, number = 0;
		enum dtype t = tensor_dtype(c->constant);
		if (!__builtin_sub_overflow(elem_i64(t, c->constant->data, last),
					    elem_i64(t, c->constant->data, 0), &number) &&
		    number < INT32_MAX)
			(void)tell_number(number + 1, w);
	} else if (!strcmp(live_op(c->node), "Range")) {
		(void)tell_by_size(g, node_in(g, c->node, 1), w);
	} else if (node_in(g, c->node, 0)) {
		int rank = node_in(g, c->node, 0)->info.shape.rank;
		int64_t axis = constant_element(node_in(g, c->node, 1), 0, -1);
		if (axis >= -MAX_RANK)
			(void)tell_by_axis(g, node_in(g, c->node, 0), axis + (axis < 0 ? rank : 0), w);
	}
}

static bool an_input_has_dimension(const struct graph *g, int64_t dim)
{
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct value *x = g->value[g->in[i]];
		for (int k = 0; x->info.type.kind == V_TENSOR && k < x->info.shape.rank; k++)
			if (x->info.shape.dim[k] == dim)
				return true;
	}
	return false;
}

/*
 * Whether node n reads the value as lengths of padded sequences: a recurrent layer (2), which refuses longer ones, or a comparison with
 * positions, which makes a mask (1). Returns 0 if it does not. Sets *w to what it tells of the whole length. The lengths are scaled if
 * arithmetic lies between them and the input, as where a convolution makes the sequences shorter.
 */
static int tell_by_reader(const struct walk_place *at, const struct node *n, struct whole_length *w)
{
	static const char *const compares[] = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual",
					       NULL};
	static const char *const layers[] = {"RNN", "GRU", "LSTM", "DynamicQuantizeLSTM", NULL};
	const struct graph *g = at->g;
	const struct value *x = node_in(g, n, 0), *other = x == at->v ? node_in(g, n, 1) : x;
	bool layer = is_among(live_op(n), layers) && node_in(g, n, 4) == at->v;
	bool reverses = !strcmp(live_op(n), "ReverseSequence") && node_in(g, n, 1) == at->v;
	bool scaled = at->steps > 0;
	struct counter c;

	*w = (struct whole_length){0};
	if (layer || reverses) {
		int64_t axis = int_attribute(n, layer ? "layout" : "time_axis", 0);
		if (!x || axis < 0)
			return 0;
		if (scaled && tell_by_axis(g, x, axis, w))
			return 2;
		if (axis >= x->info.shape.rank || !tell_by_dimension(g, x->info.shape.dim[axis], w))
			(void)tell_by_axis(g, x, axis, w);
		return 2;
	}
	if (!is_among(live_op(n), compares) || !find_counter(g, other, &c))
		return 0;
	tell_by_counter(g, &c, w);
	if (scaled && !w->input && !an_input_has_dimension(g, w->number))
		w->number = 0;
	return 1;
}

/* ---- what nodes take a value for ---------------------------------------------------------------- */

/* Limit of the values that are followed from an input, since a model may have thousands of inputs. All readers of each are looked at. */
enum { MAX_FOLLOWED = 1000 };

bool names_belong(const char *sequence, const char *lengths)
{
	return *sequence && !strncmp(sequence, lengths, strlen(sequence));
}

static bool moves_elements(const struct graph *g, const struct node *n, const struct value *v)
{
	return keeps_elements(n) && node_in(g, n, 0) == v;
}

/* Whether the node makes something of its type of the value by arithmetic, or joins it with others. */
static bool computes_with(const struct graph *g, const struct node *n, const struct value *v)
{
	struct op row = n->op ? op_resolved(n->op) : (struct op){0};

	for (uint32_t i = 0; !n->dead && n->op && i < n->nin; i++)
		if (node_in(g, n, i) == v && op_has_output_type(&row, i))
			return op_flags(n->op) & OP_ELEMENTWISE || row.reduced == REDUCED_MOVES;
	return false;
}

bool use_as_lengths(const struct graph *g, const struct value *v, struct whole_length *whole)
{
	struct walk w = {0};
	const struct walk_place *p;
	int best = 0;

	*whole = (struct whole_length){0};
	walk_to(&w, g, v, 0);
	while (w.next < MAX_FOLLOWED && (p = walk_next(&w))) {
		struct walk_place at = *p;
		for (uint32_t k = 0; k < at.v->nusers; k++) {
			const struct node *n = g->node[at.v->users[k]];
			struct whole_length found;
			int sure = tell_by_reader(&at, n, &found);
			if (sure)
				sure = 4 * sure + (found.input || found.number) +
				       2 * (found.input && names_belong(found.input->name, v->name));
			if (sure > best) {
				best = sure;
				*whole = found;
			}
			if (moves_elements(g, n, at.v))
				walk_to(&w, g, node_out(g, n, 0), at.steps);
			else if (computes_with(g, n, at.v))
				walk_to(&w, g, node_out(g, n, 0), at.steps + 1);
		}
	}
	walk_end(&w);
	return best > 0;
}

/* Whether the node reads the value as a size, a number of elements or a step. */
static bool takes_size(const struct graph *g, const struct node *n, const struct value *v)
{
	static const struct {
		const char *op;
		uint32_t from, to; /* the inputs that are sizes */
	} sizes[] = {
		{"ConstantOfShape", 0, 0}, {"Reshape", 1, 1}, {"Expand", 1, 1}, {"Tile", 1, 1},
		{"OneHot", 1, 1},	   {"TopK", 1, 1},    {"Range", 1, 2},	{"Resize", 3, 3}};

	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++)
		for (uint32_t i = sizes[k].from;
		     i <= sizes[k].to && !strcmp(live_op(n), sizes[k].op); i++)
			if (node_in(g, n, i) == v)
				return true;
	return false;
}

/* Whether the node reads the value as indices. */
static bool takes_index(const struct graph *g, const struct node *n, const struct value *v)
{
	static const char *const reads[] = {"Gather",	       "GatherND",  "GatherElements",
					    "ScatterElements", "ScatterND", NULL};

	return is_among(live_op(n), reads) && node_in(g, n, 1) == v;
}

typedef bool takes_value(const struct graph *g, const struct node *n, const struct value *v);

/* Whether such a node reads the value, or what up to 8 nodes make of it by moving its elements or, with `arithmetic`, by computing as well. */
static bool is_taken(const struct graph *g, const struct value *v, takes_value *takes, bool arithmetic)
{
	enum { MOST_BETWEEN = 8 };
	struct walk w = {0};
	const struct walk_place *p;
	bool taken = false;

	walk_to(&w, g, v, 0);
	while (!taken && w.next < MAX_FOLLOWED && (p = walk_next(&w))) {
		struct walk_place at = *p;
		for (uint32_t k = 0; k < at.v->nusers && !taken; k++) {
			const struct node *n = g->node[at.v->users[k]];
			taken = takes(g, n, at.v);
			if (at.steps < MOST_BETWEEN && (moves_elements(g, n, at.v) ||
							(arithmetic && computes_with(g, n, at.v))))
				walk_to(&w, g, node_out(g, n, 0), at.steps + 1);
		}
	}
	walk_end(&w);
	return taken;
}

bool use_as_size(const struct graph *g, const struct value *v)
{
	return is_taken(g, v, takes_size, true);
}

bool use_as_indices(const struct graph *g, const struct value *v)
{
	return is_taken(g, v, takes_index, false);
}
