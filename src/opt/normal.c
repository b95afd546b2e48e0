/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The normal form in which two models are compared (diff/): what exporters write in different words gets the same words. The rules
 * of kind NORMAL do so for arithmetic; the passes here do it for what a rule's text cannot express: attributes that may be left out,
 * axes counted from either end, the many operators that only give a tensor another shape, and sizes that are computed in the run.
 */
#include "ops/cast.h"
#include "ops/gather.h"
#include "ops/ints.h"
#include "ops/layout.h"
#include "ops/reduce.h"
#include "ops/sequence.h"
#include "ops/slice.h"
#include "opt/optimizer.h"
#include "opt/params.h"

#include <stdlib.h>
#include <string.h>

struct forming {
	struct optimizer *o;
	struct graph *g;
	int changes;
};

/* ---- new nodes */

static uint32_t add_ints(struct forming *f, const int64_t *v, int64_t n)
{
	struct tensor *t = tensor_new(f->g->arena, DT_I64, &(struct shape){.rank = 1, .dim = {n}});

	for (int64_t i = 0; i < n; i++)
		elem_set_i64(DT_I64, t->data, i, v[i]);
	uint32_t id = graph_add_const(f->g, "", t)->id;
	opt_info(f->o, f->g);
	return id;
}

static void set_operator(struct node *n, const struct op *op, void *params)
{
	n->op = op;
	n->params = params;
	n->type = op->name;
	n->domain = op->domain ? op->domain : "";
	n->version = op->since;
}

/* Adds a node with one output, and returns the number of that output. */
static uint32_t add_node(struct forming *f, const char *name, void *params, const uint32_t *in,
			 uint32_t nin, const struct origin *origin)
{
	const struct op *op = op_named(name);
	uint32_t out = graph_add_value(f->g, "")->id;
	struct node *n = graph_add_node(f->g, op, params ? params : params_new(op, f->g->arena), in,
					nin, &out, 1, origin);

	set_operator(n, op, n->params);
	(void)opt_infer_node(f->o, f->g, n);
	f->changes++;
	return out;
}

/* Makes another operator of the node, which computes the same. What is known of its output stays. */
static void turn_into(struct forming *f, struct node *n, const char *name, void *params,
		      const uint32_t *in, uint32_t nin)
{
	const struct op *op = op_named(name);

	set_operator(n, op, params ? params : params_new(op, f->g->arena));
	node_set_ins(f->g, n, in, nin);
	f->changes++;
}

/* Lets what read value `old` read `with`, of which the same is known. */
static void put_in_place(struct forming *f, uint32_t old, uint32_t with)
{
	struct graph_info *x = opt_info(f->o, f->g);

	f->g->value[with]->info = x->info[with] = x->info[old];
	graph_replace(f->g, old, with);
	f->changes++;
}

static const struct shape *shape_in(const struct forming *f, const struct node *n, uint32_t i)
{
	const struct value *v = node_in(f->g, n, i);
	return v && v->info.type.kind == V_TENSOR && v->info.shape.rank >= 0 ? &v->info.shape : NULL;
}

static const struct shape *shape_out(const struct forming *f, const struct node *n)
{
	const struct value *v = node_out(f->g, n, 0);
	return v && v->info.type.kind == V_TENSOR && v->info.shape.rank >= 0 ? &v->info.shape : NULL;
}

/* Reads a constant operand of integers; returns false if it is none. */
static bool constant_ints(const struct forming *f, const struct node *n, uint32_t i,
			  struct int_list *l)
{
	const struct value *v = node_in(f->g, n, i);
	const struct tensor *t = v ? v->init : NULL;

	return t && t->type.kind == V_TENSOR && dtype_class(tensor_dtype(t)) == DT_INT &&
	       t->shape.rank <= 1 && list_of(t, l);
}

static bool constant_is(const struct forming *f, const struct node *n, uint32_t i, const int64_t *v,
			int count)
{
	const struct value *x = node_in(f->g, n, i);
	struct int_list l;

	return x && x->init && tensor_dtype(x->init) == DT_I64 && constant_ints(f, n, i, &l) &&
	       l.n == count && !memcmp(l.v, v, (size_t)count * sizeof(*v));
}

/* ---- attributes */

static struct ints *list_field(const struct node *n, const char *name)
{
	const struct field *f = params_field(n->op, name);
	return f && f->type == F_INTS ? (void *)((char *)n->params + f->off) : NULL;
}

static void fill_list(struct forming *f, struct ints *l, int n, int64_t with)
{
	if (!l || l->n > 0 || n < 1)
		return;
	int64_t *v = arena_new_n(f->g->arena, int64_t, (size_t)n);
	for (int i = 0; i < n; i++)
		v[i] = with;
	*l = (struct ints){v, n};
}

static bool has_word(struct forming *f, const struct node *n, const struct field *field,
		     const char *word)
{
	void *copy = arena_dup(&f->o->scratch, n->params, op_resolved(n->op).params_size);

	return params_set(field, copy, word, &f->o->scratch) && params_same(n->op, copy, n->params);
}

/* The lists of convolutions and pools that may be left out are written out; VALID is a padding by zeros. */
static void form_window(struct forming *f, struct node *n)
{
	const struct shape *x = shape_in(f, n, 0), *w = shape_in(f, n, 1);
	const struct field *pad = params_field(n->op, "auto_pad");
	struct ints *kernel = list_field(n, "kernel_shape"), *pads = list_field(n, "pads");

	if (!kernel || !pad || !pads || !x || x->rank < 3)
		return;
	int spatial = x->rank - 2;
	if (has_word(f, n, pad, "VALID")) {
		params_set(pad, n->params, "NOTSET", f->g->arena);
		pads->n = 0;
	}
	if (has_word(f, n, pad, "NOTSET"))
		fill_list(f, pads, 2 * spatial, 0);
	fill_list(f, list_field(n, "strides"), spatial, 1);
	fill_list(f, list_field(n, "dilations"), spatial, 1);
	fill_list(f, list_field(n, "output_padding"), spatial, 0);
	/* without padding, and without windows that stick out, there is nothing to count */
	const struct field *count = params_field(n->op, "count_include_pad");
	const struct field *up = params_field(n->op, "ceil_mode");
	double ceil = 0;
	bool padded = has_word(f, n, pad, "SAME_UPPER") || has_word(f, n, pad, "SAME_LOWER");
	for (int64_t i = 0; i < pads->n; i++)
		padded |= pads->v[i] != 0;
	if (count && !padded && up && params_number(up, n->params, &ceil) && ceil == 0)
		params_set_number(count, n->params, 0);
	if (kernel->n <= 0 && w && w->rank == x->rank)
		*kernel = (struct ints){
			arena_dup(f->g->arena, w->dim + 2, (size_t)spatial * sizeof(*w->dim)),
			spatial};
}

static void form_attributes(struct forming *f, struct node *n)
{
	const struct field *axis = params_field(n->op, "axis"), *perm = params_field(n->op, "perm");
	const struct shape *x = shape_in(f, n, 0), *y = shape_out(f, n);
	double v;

	form_window(f, n);
	/* an axis of a result with more dimensions may be one of its own */
	if (axis && x && y && y->rank <= x->rank && params_number(axis, n->params, &v) && v < 0 &&
	    v >= -x->rank)
		params_set_number(axis, n->params, v + x->rank);
	if (perm && perm->type == F_INTS && x && list_field(n, "perm")->n < 0) {
		fill_list(f, list_field(n, "perm"), x->rank, 0);
		int64_t *p = (int64_t *)(uintptr_t)list_field(n, "perm")->v;
		for (int i = 0; i < x->rank; i++)
			p[i] = x->rank - 1 - i;
	}
}

/* ---- operators that only give another shape */

/* The value whose bytes this one has, seen through all operators that only give another shape. */
static uint32_t viewed(const struct forming *f, uint32_t v)
{
	for (;;) {
		const struct value *x = f->g->value[v];
		const struct node *n = x->producer == NO_NODE ? NULL : f->g->node[x->producer];
		if (!n || n->dead || !n->op || !(op_flags(n->op) & OP_VIEW) || n->nout != 1 ||
		    n->in[0] == NO_VALUE || f->g->value[n->in[0]]->info.shape.rank < 0 ||
		    f->g->value[n->in[0]]->info.type.kind != V_TENSOR)
			return v;
		v = n->in[0];
	}
}

/* Finds the target by which a Reshape makes shape y of x: sizes, 0 for a dimension that stays in its place, and one -1. */
static bool find_target(const struct shape *x, const struct shape *y, int64_t *target)
{
	bool open = false;

	for (int i = 0; i < y->rank; i++) {
		if (y->dim[i] > 0) {
			target[i] = y->dim[i];
		} else if (dim_is_sym(y->dim[i]) && i < x->rank && x->dim[i] == y->dim[i]) {
			target[i] = 0;
		} else if (y->dim[i] != 0 && !open) {
			target[i] = -1;
			open = true;
		} else {
			return false;
		}
	}
	return true;
}

/* Finds the dimensions of size 1 that x has and y has not; false if y is not x without them. */
static bool find_dropped(const struct shape *x, const struct shape *y, int64_t *axes, int *n)
{
	int k = 0;

	*n = 0;
	for (int i = 0; i < x->rank; i++) {
		if (k < y->rank && y->dim[k] == x->dim[i] && x->dim[i] != DIM_UNKNOWN &&
		    (x->dim[i] != 1 || x->rank - i <= y->rank - k))
			k++;
		else if (x->dim[i] == 1)
			axes[(*n)++] = i;
		else
			return false;
	}
	return k == y->rank;
}

/*
 * Returns the operator that gives the elements of shape x the shape y, with the list of *count numbers that is its second operand; NULL
 * if Reshape and Squeeze cannot say it.
 */
static const char *find_view(const struct shape *x, const struct shape *y, int64_t *list, int *count)
{
	*count = y->rank;
	if (find_target(x, y, list))
		return "Reshape";
	return find_dropped(x, y, list, count) ? "Squeeze" : NULL;
}

static void form_view(struct forming *f, struct node *n)
{
	const struct shape *y = shape_out(f, n);
	int64_t list[MAX_RANK];
	int count;

	if (n->nout != 1 || n->in[0] == NO_VALUE || !y)
		return;
	uint32_t in[2] = {viewed(f, n->in[0]), NO_VALUE};
	const struct shape *x = &f->g->value[in[0]]->info.shape;
	if (x->rank < 0)
		return;
	const char *name = find_view(x, y, list, &count);
	if (!name && find_dropped(y, x, list, &count))
		name = "Unsqueeze";
	if (!name)
		return;
	const struct op *op = op_named(name);
	if (n->op == op && n->in[0] == in[0] && constant_is(f, n, 1, list, count) &&
	    params_same(op, n->params, params_new(op, &f->o->scratch)))
		return;
	in[1] = add_ints(f, list, count);
	turn_into(f, n, name, NULL, in, 2);
}

/* ---- reductions */

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* Axes are written out, counted from the front, in order; dimensions that vanish do so by a Squeeze. */
static void form_reduction(struct forming *f, struct node *n)
{
	const struct shape *x = shape_in(f, n, 0);
	struct reduce *p = n->params;
	struct int_list l = {0};

	if (!x || n->nout != 1 || (node_in(f->g, n, 1) && !constant_ints(f, n, 1, &l)))
		return;
	if (!l.n && p->noop_with_empty_axes)
		return;
	for (int i = 0; !l.n && i < x->rank; i++)
		l.v[i] = i;
	l.n = l.n ? l.n : x->rank;
	for (int i = 0; i < l.n; i++) {
		int a = axis_of(l.v[i], x->rank);
		if (a < 0)
			return;
		l.v[i] = a;
	}
	qsort(l.v, (size_t)l.n, sizeof(*l.v), by_size);
	p->noop_with_empty_axes = 0;
	if (!constant_is(f, n, 1, l.v, l.n)) {
		node_set_in(f->g, n, 1, add_ints(f, l.v, l.n));
		f->changes++;
	}
	if (p->keepdims)
		return;
	struct reduce *kept = params_new(n->op, f->g->arena);
	kept->keepdims = 1;
	uint32_t in[2] = {add_node(f, op_qualified(n->op), kept, n->in, 2, n->origin), n->in[1]};
	turn_into(f, n, "Squeeze", NULL, in, 2);
}

/* ---- parts of tensors */

/* Adds a Slice of elements from..to-1 along one axis. */
static uint32_t add_slice(struct forming *f, uint32_t x, int64_t axis, int64_t from, int64_t to,
			  const struct origin *origin)
{
	const int64_t one = 1;
	const uint32_t in[] = {x, add_ints(f, &from, 1), add_ints(f, &to, 1), add_ints(f, &axis, 1),
			       add_ints(f, &one, 1)};

	return add_node(f, "Slice", NULL, in, 5, origin);
}

static void form_slice(struct forming *f, struct node *n)
{
	const struct shape *x = shape_in(f, n, 0);
	struct int_list start, end, axes = {0}, step = {0};
	int64_t part[MAX_RANK][4];
	int count = 0;

	if (!x || !constant_ints(f, n, 1, &start) || !constant_ints(f, n, 2, &end) ||
	    (node_in(f->g, n, 3) && !constant_ints(f, n, 3, &axes)) ||
	    (node_in(f->g, n, 4) && !constant_ints(f, n, 4, &step)) || start.n > x->rank)
		return;
	for (int i = 0; i < start.n; i++) {
		int a = axes.n ? axis_of(axes.v[i], x->rank) : i;
		int64_t by = step.n ? step.v[i] : 1, from = start.v[i], to = end.v[i];
		if (a < 0 || by < 1)
			return;
		if (x->dim[a] >= 0) {
			from = from < 0 ? from + x->dim[a] : from;
			to = to < 0 ? to + x->dim[a] : to < x->dim[a] ? to : x->dim[a];
		}
		to = to >= INT32_MAX ? INT64_MAX : to;
		if (by == 1 && from == 0 && (to == INT64_MAX || to == x->dim[a]))
			continue;
		const int64_t one[4] = {a, from, to, by};
		memcpy(part[count++], one, sizeof(one));
	}
	if (!count) /* the rule slice-all removes it */
		return;
	qsort(part, (size_t)count, sizeof(*part), by_size);
	static const int column[] = {1, 2, 0, 3}; /* Slice's order of its operands */
	for (uint32_t k = 0; k < 4; k++) {
		int64_t v[MAX_RANK];
		for (int i = 0; i < count; i++)
			v[i] = part[i][column[k]];
		if (constant_is(f, n, k + 1, v, count))
			continue;
		node_set_in(f->g, n, k + 1, add_ints(f, v, count));
		f->changes++;
	}
}

/* A Split becomes a Slice for each of its outputs that is read. */
static void form_split(struct forming *f, struct node *n)
{
	const struct split_params *p = n->params;
	const struct shape *x = shape_in(f, n, 0);
	int64_t from = 0;

	int a = x ? axis_of(p->axis, x->rank) : -1;
	if (a < 0)
		return;
	for (uint32_t k = 0; k < n->nout; k++) {
		const struct value *y = node_out(f->g, n, k);
		if (!y || y->info.shape.rank != x->rank || y->info.shape.dim[a] < 0)
			return;
	}
	for (uint32_t k = 0; k < n->nout; k++) {
		const struct value *y = node_out(f->g, n, k);
		int64_t to = from + y->info.shape.dim[a];
		if (y->nusers || y->is_output)
			put_in_place(f, y->id, add_slice(f, n->in[0], a, from, to, n->origin));
		from = to;
	}
}

/* Whether the elements of an integer constant are *from, *from + 1, ... */
static bool consecutive(const struct tensor *t, int64_t *from)
{
	if (!t || t->type.kind != V_TENSOR || dtype_class(tensor_dtype(t)) != DT_INT ||
	    tensor_count(t) < 1)
		return false;
	*from = elem_i64(tensor_dtype(t), t->data, 0);
	for (int64_t i = 1; i < tensor_count(t); i++)
		if (elem_i64(tensor_dtype(t), t->data, i) != *from + i)
			return false;
	return true;
}

/* Gives the output of n the elements of value v in another shape, and returns true; n stays as it is if no operator can say it. */
static bool view_instead(struct forming *f, struct node *n, uint32_t v)
{
	const struct shape *x = &f->g->value[v]->info.shape, *y = shape_out(f, n);
	uint32_t in[2] = {v, NO_VALUE};
	int64_t list[MAX_RANK];
	int count;

	const char *name = y && x->rank >= 0 ? find_view(x, y, list, &count) : NULL;

	if (!name)
		return false;
	in[1] = add_ints(f, list, count);
	turn_into(f, n, name, NULL, in, 2);
	return true;
}

/* A Gather by constant numbers that follow one another is a Slice, perhaps in another shape. */
static void form_gather(struct forming *f, struct node *n)
{
	const struct gather_params *p = n->params;
	const struct shape *x = shape_in(f, n, 0);
	const struct value *i = node_in(f->g, n, 1);
	int64_t from;

	int a = x ? axis_of(p->axis, x->rank) : -1;
	if (a < 0 || !i || !consecutive(i->init, &from) || (from < 0 && x->dim[a] < 0))
		return;
	if (from < 0 && from + tensor_count(i->init) > 0)
		return; /* from the end it goes on at the beginning */
	from = from < 0 ? from + x->dim[a] : from;
	uint32_t part = n->in[0];
	if (from != 0 || x->dim[a] != tensor_count(i->init))
		part = add_slice(f, part, a, from, from + tensor_count(i->init), n->origin);
	if (i->init->shape.rank == 1 && part != n->in[0])
		put_in_place(f, n->out[0], part);
	else
		view_instead(f, n, part);
}

/* A part of a sequence that was split before is a Slice. */
static void form_sequence_at(struct forming *f, struct node *n)
{
	const struct value *s = node_in(f->g, n, 0), *size;
	const struct node *split = s && s->producer != NO_NODE ? f->g->node[s->producer] : NULL;
	struct int_list at, sizes = {0};
	int64_t from = 0, part;

	if (!split || split->op != op_named("SplitToSequence") || !constant_ints(f, n, 1, &at) ||
	    at.n != 1 || at.v[0] < 0 || !shape_in(f, split, 0))
		return;
	const struct split_to_sequence_params *p = split->params;
	int a = axis_of(p->axis, shape_in(f, split, 0)->rank);
	size = node_in(f->g, split, 1);
	if (a < 0 || (size && !constant_ints(f, split, 1, &sizes)))
		return;
	if (size && size->info.shape.rank == 1) {
		if (at.v[0] >= sizes.n)
			return;
		for (int i = 0; i < at.v[0]; i++)
			from += sizes.v[i];
		part = sizes.v[at.v[0]];
	} else {
		part = size ? sizes.v[0] : 1;
		from = at.v[0] * part;
	}
	uint32_t slice = add_slice(f, split->in[0], a, from, from + part, n->origin);
	if (size || p->keepdims)
		put_in_place(f, n->out[0], slice);
	else
		view_instead(f, n, slice);
}

/* ---- operands */

/* A constant that broadcasts loses its leading dimensions of 1. */
static void form_broadcast(struct forming *f, struct node *n)
{
	int most = 0;

	for (uint32_t i = 0; i < n->nin; i++) {
		const struct shape *s = shape_in(f, n, i);
		if (!s)
			return;
		if (!node_in(f->g, n, i)->init && s->rank > most)
			most = s->rank;
	}
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct tensor *t = node_in(f->g, n, i)->init;
		if (!t || t->type.kind != V_TENSOR || t->shape.rank < 1 || t->shape.rank > most ||
		    t->shape.dim[0] != 1)
			continue;
		struct tensor *less = arena_dup(f->g->arena, t, sizeof(*t));
		int drop = 0;
		while (drop < t->shape.rank && t->shape.dim[drop] == 1)
			drop++;
		less->shape.rank -= drop;
		memmove(less->shape.dim, less->shape.dim + drop,
			(size_t)less->shape.rank * sizeof(*less->shape.dim));
		node_set_in(f->g, n, i, graph_add_const(f->g, node_in(f->g, n, i)->name, less)->id);
		opt_info(f->o, f->g);
		f->changes++;
	}
}

/* CastLike is a Cast to the type that the second operand has. */
static void form_cast_like(struct forming *f, struct node *n)
{
	const struct value *like = node_in(f->g, n, 1);
	const struct cast_like *p = n->params;
	struct cast *cast = params_new(op_named("Cast"), f->g->arena);

	if (!like || like->info.type.kind != V_TENSOR || !like->info.type.dtype)
		return;
	*cast = (struct cast){
		.to = like->info.type.dtype, .saturate = p->saturate, .round_mode = p->round_mode};
	turn_into(f, n, "Cast", cast, n->in, 1);
}

/* Whether a Transpose moves dimensions of size 1 only. */
static bool keeps_order(const struct shape *x, const struct ints *perm)
{
	int64_t last = -1;

	for (int64_t i = 0; i < perm->n; i++) {
		if (x->dim[perm->v[i]] == 1)
			continue;
		if (perm->v[i] < last)
			return false;
		last = perm->v[i];
	}
	return true;
}

/* A Tile of dimensions of size 1 is an Expand. */
static void form_tile(struct forming *f, struct node *n)
{
	const struct shape *x = shape_in(f, n, 0), *y = shape_out(f, n);
	struct int_list times;

	if (!x || !y || !shape_known(y) || !constant_ints(f, n, 1, &times) || times.n != x->rank)
		return;
	for (int i = 0; i < x->rank; i++)
		if (times.v[i] != 1 && x->dim[i] != 1)
			return;
	uint32_t in[] = {n->in[0], add_ints(f, y->dim, y->rank)};
	turn_into(f, n, "Expand", NULL, in, 2);
}

/* The target of an Expand is the shape of its result. */
static void form_expand(struct forming *f, struct node *n)
{
	const struct shape *y = shape_out(f, n);

	if (!y || !shape_known(y) || constant_is(f, n, 1, y->dim, y->rank))
		return;
	node_set_in(f->g, n, 1, add_ints(f, y->dim, y->rank));
	f->changes++;
}

/* The place of dimension i after the last two of `rank` dimensions are swapped. */
static int swapped(int i, int rank)
{
	return i == rank - 1 ? i - 1 : i == rank - 2 ? i + 1 : i;
}

/* A Transpose of the last two dimensions goes before an operator that only splits or merges those before them. */
static void form_transpose(struct forming *f, struct node *n)
{
	const struct shape *h = shape_in(f, n, 0), *y = shape_out(f, n), *x;
	const struct ints *perm = list_field(n, "perm");
	int64_t *swap, list[MAX_RANK];

	if (!h || !y || h->rank < 2 || perm->n != h->rank)
		return;
	if (keeps_order(h, perm) && view_instead(f, n, viewed(f, n->in[0])))
		return;
	uint32_t source = viewed(f, n->in[0]);
	x = &f->g->value[source]->info.shape;
	if (source == n->in[0] || x->rank < 2)
		return;
	for (int i = 0; i < h->rank; i++)
		if (perm->v[i] != swapped(i, h->rank))
			return;
	for (int i = 1; i <= 2; i++)
		if (x->dim[x->rank - i] != h->dim[h->rank - i] || h->dim[h->rank - i] == DIM_UNKNOWN)
			return;
	struct shape turned = *x;
	turned.dim[x->rank - 1] = x->dim[x->rank - 2];
	turned.dim[x->rank - 2] = x->dim[x->rank - 1];
	if (!find_target(&turned, y, list))
		return;
	swap = arena_new_n(f->g->arena, int64_t, (size_t)x->rank);
	for (int i = 0; i < x->rank; i++)
		swap[i] = swapped(i, x->rank);
	struct transpose_params *p = params_new(n->op, f->g->arena);
	p->perm = (struct ints){swap, x->rank};
	uint32_t in[2] = {add_node(f, "Transpose", p, &source, 1, n->origin), NO_VALUE};
	in[1] = add_ints(f, list, y->rank);
	turn_into(f, n, "Reshape", NULL, in, 2);
}

/* ---- the pass */

static void form_node(struct forming *f, struct node *n)
{
	if (!n->params)
		return;
	form_attributes(f, n);
	if (op_flags(n->op) & OP_VIEW)
		form_view(f, n);
	else if (n->op == op_named("Slice"))
		form_slice(f, n);
	else if (n->op == op_named("Split"))
		form_split(f, n);
	else if (n->op == op_named("Gather"))
		form_gather(f, n);
	else if (n->op == op_named("SequenceAt"))
		form_sequence_at(f, n);
	else if (n->op == op_named("CastLike"))
		form_cast_like(f, n);
	else if (n->op == op_named("Transpose"))
		form_transpose(f, n);
	else if (n->op == op_named("Tile"))
		form_tile(f, n);
	else if (n->op == op_named("Expand"))
		form_expand(f, n);
	else if (op_flags(n->op) & OP_ELEMENTWISE)
		form_broadcast(f, n);
	else if (params_field(n->op, "noop_with_empty_axes"))
		form_reduction(f, n);
}

/* Forms each node. Returns the number of changes, or -code. */
static int form_all(struct optimizer *o, struct graph *g,
		    void (*form)(struct forming *, struct node *))
{
	struct forming f = {o, g, 0};
	int r = graph_sort(g, o->diag);

	opt_info(o, g);
	for (uint32_t i = 0; !r && i < g->norder; i++)
		if (!g->node[g->order[i]]->dead && g->node[g->order[i]]->op)
			form(&f, g->node[g->order[i]]);
	r = r ? r : graph_sort(g, o->diag);
	return r ? r : f.changes;
}

int pass_forms(struct optimizer *o, struct graph *g)
{
	return form_all(o, g, form_node);
}

/* ---- sizes */

/* Makes the elements that hold size `dim`, which is a multiple of a free dimension of an input; NO_VALUE if it is none. */
static uint32_t add_size(struct forming *f, int64_t dim, const struct origin *origin)
{
	const struct graph *g = f->g;
	int64_t base, factor;

	if (dim >= 0)
		return add_ints(f, &dim, 1);
	factor = dim_parts(f->o->model, dim, &base);
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct shape *s = &g->value[g->in[i]]->info.shape;
		for (int k = 0; k < s->rank; k++) {
			if (s->dim[k] != base || !dim_is_sym(base))
				continue;
			struct shape_params *p = params_new(op_named("Shape"), g->arena);
			*p = (struct shape_params){k, k + 1};
			uint32_t part[] = {add_node(f, "Shape", p, &g->in[i], 1, origin), NO_VALUE};
			if (factor == 1)
				return part[0];
			part[1] = add_ints(f, &factor, 1);
			return add_node(f, "Mul", NULL, part, 2, origin);
		}
	}
	return NO_VALUE;
}

static void form_sizes(struct forming *f, struct node *n)
{
	const struct value *v = n->nout == 1 ? node_out(f->g, n, 0) : NULL;
	uint32_t part[MAX_INTS];
	struct int_list l;

	if (!v || v->init || v->is_output || v->info.type.kind != V_TENSOR ||
	    v->info.type.dtype != DT_I64 || v->info.shape.rank > 1 || v->info.shape.rank < 0 ||
	    !list_of_info(&v->info, &l) || l.exact || l.n < 1)
		return;
	for (int i = 0; i < l.n; i++) {
		part[i] = add_size(f, l.v[i], n->origin);
		if (part[i] == NO_VALUE)
			return;
	}
	struct concat_params *along = params_new(op_named("Concat"), f->g->arena);
	along->axis = 0; /* an attribute that must be given, so there is no default */
	uint32_t all =
		l.n > 1 ? add_node(f, "Concat", along, part, (uint32_t)l.n, n->origin) : part[0];
	if (!v->info.shape.rank) {
		uint32_t in[] = {all, add_ints(f, NULL, 0)};
		all = add_node(f, "Reshape", NULL, in, 2, n->origin);
	}
	put_in_place(f, v->id, all);
}

int pass_sizes(struct optimizer *o, struct graph *g)
{
	return g == o->model->graph ? form_all(o, g, form_sizes) : 0;
}
