/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The normal form in which two models are compared (diff/): what exporters write in different words gets the same words. The rules
 * of kind NORMAL do so for arithmetic; the passes here do it for what a rule's text cannot express: attributes that may be left out,
 * axes counted from either end, the many operators that only give a tensor another shape, and sizes that are computed in the run.
 */
#include "ops/cast.h"
#include "ops/create.h"
#include "ops/gather.h"
#include "ops/ints.h"
#include "ops/layout.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/resize.h"
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

/*
 * Sets the padding of one axis to what its windows reach: SAME_UPPER and SAME_LOWER (`same`: 1, 2) say it in other words, the last
 * windows of a ceil_mode reach behind the input, and a padding may be larger than any window needs. Returns false if that depends on a
 * size that is not known.
 */
static bool reach_padding(int64_t in, int64_t out, int64_t window, int64_t stride, int same,
			  int64_t *begin, int64_t *end)
{
	int64_t need;

	if (in < 0 || out < 0) {
		if (!same || stride != 1)
			return !same;
		need = window - 1; /* the output has the size of the input */
	} else if (__builtin_mul_overflow(out - 1, stride, &need) ||
		   __builtin_add_overflow(need, window - in, &need)) {
		return false;
	}
	if (same) {
		need = need < 0 ? 0 : need;
		*begin = same == 1 ? need / 2 : need - need / 2;
		*end = need - *begin;
	} else if (in >= 0 && out >= 0) {
		*end = need - *begin < 0 ? 0 : need - *begin;
	}
	return true;
}

/* Writes out the padding of a convolution or pool, whose other lists are written out already. */
static void form_padding(struct forming *f, struct node *n, const struct field *pad)
{
	const struct shape *x = shape_in(f, n, 0), *y = shape_out(f, n);
	const struct ints *k = list_field(n, "kernel_shape"), *s = list_field(n, "strides"),
			  *apart = list_field(n, "dilations");
	const struct field *up = params_field(n->op, "ceil_mode");
	const struct field *count = params_field(n->op, "count_include_pad");
	int spatial = x->rank - 2;
	double ceil = 0, counted = 0;
	struct ints *pads = list_field(n, "pads");

	if (list_field(n, "output_padding") || !y || y->rank != x->rank || k->n != spatial || !s ||
	    s->n != spatial || (apart && apart->n != spatial))
		return;
	int same = has_word(f, n, pad, "SAME_UPPER")   ? 1
		   : has_word(f, n, pad, "SAME_LOWER") ? 2
						       : 0;
	if ((up && !params_number(up, n->params, &ceil)) ||
	    (count && !params_number(count, n->params, &counted)) || (ceil != 0 && counted != 0) ||
	    (!same && pads->n != 2 * spatial))
		return;
	int64_t *v = arena_new_n(f->g->arena, int64_t, 2 * (size_t)spatial);
	for (int i = 0; i < spatial; i++) {
		int64_t by = apart ? apart->v[i] : 1, window = k->v[i];
		if (k->v[i] < 1 || k->v[i] > INT32_MAX || by < 1 || by > INT32_MAX || s->v[i] < 1)
			return;
		window = (window - 1) * by + 1;
		v[i] = same ? 0 : pads->v[i];
		v[spatial + i] = same ? 0 : pads->v[spatial + i];
		if (v[i] < 0 || v[spatial + i] < 0 || v[i] > INT32_MAX ||
		    (ceil != 0 && (x->dim[2 + i] < 0 || y->dim[2 + i] < 0)) ||
		    !reach_padding(x->dim[2 + i], y->dim[2 + i], window, s->v[i], same, &v[i],
				   &v[spatial + i]))
			return;
	}
	*pads = (struct ints){v, 2 * spatial};
	params_set(pad, n->params, "NOTSET", f->g->arena);
	if (up)
		params_set_number(up, n->params, 0);
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
	if (kernel->n <= 0 && w && w->rank == x->rank)
		*kernel = (struct ints){
			arena_dup(f->g->arena, w->dim + 2, (size_t)spatial * sizeof(*w->dim)),
			spatial};
	form_padding(f, n, pad);
	/* without padding, and without windows that stick out, there is nothing to count */
	const struct field *count = params_field(n->op, "count_include_pad");
	const struct field *up = params_field(n->op, "ceil_mode");
	double ceil = 0;
	bool padded = has_word(f, n, pad, "SAME_UPPER") || has_word(f, n, pad, "SAME_LOWER");
	for (int64_t i = 0; i < pads->n; i++)
		padded |= pads->v[i] != 0;
	if (count && !padded && up && params_number(up, n->params, &ceil) && ceil == 0)
		params_set_number(count, n->params, 0);
}

static void form_attributes(struct forming *f, struct node *n)
{
	const struct field *axis = params_field(n->op, "axis"), *perm = params_field(n->op, "perm");
	const struct shape *x = shape_in(f, n, 0), *y = shape_out(f, n);
	double v;

	form_window(f, n);
	/* an axis of a result with more dimensions may be one of its own */
	if (n->op == op_named("OneHot") && y && params_number(axis, n->params, &v) && v < 0)
		params_set_number(axis, n->params, v + y->rank);
	else if (axis && x && y && y->rank <= x->rank && params_number(axis, n->params, &v) &&
		 v < 0 && v >= -x->rank)
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
		const struct node *n = value_maker(f->g, x);
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
	if (!l.n && p->noop_with_empty_axes) {
		if (node_in(f->g, n, 1)) {
			node_set_ins(f->g, n, n->in, 1);
			f->changes++;
		}
		return;
	}
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
	const struct node *split = value_maker(f->g, s);
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

/* A Transpose of dimensions of size 1 alone is a view. */
static void form_transpose(struct forming *f, struct node *n)
{
	const struct shape *h = shape_in(f, n, 0);
	const struct ints *perm = list_field(n, "perm");

	if (h && shape_out(f, n) && perm->n == h->rank && keeps_order(h, perm))
		view_instead(f, n, viewed(f, n->in[0]));
}

/* ---- transposes go down, behind what reads them, where they meet others */

/* The Transpose that makes operand i, if all is known of it; or NULL. */
static const struct node *transposed(const struct forming *f, const struct node *n, uint32_t i)
{
	const struct value *v = node_in(f->g, n, i);
	const struct node *t = value_maker(f->g, v);
	const struct shape *x =
		t && !t->dead && t->op == op_named("Transpose") ? shape_in(f, t, 0) : NULL;

	if (!x || !shape_in(f, n, i))
		return NULL;
	const struct ints *perm = list_field(t, "perm");
	for (int64_t k = 0; k < perm->n; k++)
		if (perm->v[k] < 0 || perm->v[k] >= x->rank)
			return NULL;
	return perm->n == x->rank && x->rank > 0 ? t : NULL;
}

static struct ints inverse(struct forming *f, const struct ints *perm)
{
	int64_t *v = arena_new_n(f->g->arena, int64_t, (size_t)perm->n + 1);

	for (int64_t i = 0; i < perm->n; i++)
		v[perm->v[i]] = i;
	return (struct ints){v, perm->n};
}

static struct transpose_params *transpose_by(struct forming *f, struct ints perm)
{
	struct transpose_params *p = params_new(op_named("Transpose"), f->g->arena);

	p->perm = perm;
	return p;
}

/* Computes the same operator of other operands, and makes of the node a Transpose of the result. */
static void sink(struct forming *f, struct node *n, void *params, const uint32_t *in, uint32_t nin,
		 struct ints perm)
{
	uint32_t y = add_node(f, op_qualified(n->op), params, in, nin, n->origin);

	turn_into(f, n, "Transpose", transpose_by(f, perm), &y, 1);
}

/* Returns a value whose dimensions, put in the order perm, are those of operand i; NO_VALUE if that takes a Transpose that stays. */
static uint32_t before_transpose(struct forming *f, const struct node *n, uint32_t i,
				 const struct ints *perm)
{
	const struct node *t = transposed(f, n, i);
	const struct value *v = node_in(f->g, n, i);
	const struct shape *s = shape_in(f, n, i);

	if (t && list_field(t, "perm")->n == perm->n &&
	    !memcmp(list_field(t, "perm")->v, perm->v, (size_t)perm->n * sizeof(*perm->v)))
		return t->in[0];
	if (!v || !s || s->rank > perm->n)
		return NO_VALUE;
	if (shape_known(s) && shape_count(s) == 1)
		return v->id;
	struct ints back = inverse(f, perm);
	struct shape full = {.rank = (int)perm->n};
	uint32_t in[2] = {v->id, NO_VALUE};
	for (int k = 0; k < full.rank; k++)
		full.dim[k] = k < full.rank - s->rank ? 1 : s->dim[k - (full.rank - s->rank)];
	if ((!v->init && !keeps_order(&full, &back)) || !shape_known(&full))
		if (s->rank != perm->n || !keeps_order(&full, &back))
			return NO_VALUE;
	if (s->rank != perm->n) {
		in[1] = add_ints(f, full.dim, full.rank);
		in[0] = add_node(f, "Reshape", NULL, in, 2, n->origin);
	}
	return add_node(f, "Transpose", transpose_by(f, back), in, 1, n->origin);
}

static void sink_elementwise(struct forming *f, struct node *n)
{
	const struct shape *y = shape_out(f, n);
	const struct node *t = NULL;
	uint32_t in[8];

	for (uint32_t i = 0; i < n->nin && !t; i++)
		t = transposed(f, n, i);
	if (!t || n->nout != 1 || n->nin > 8 || n->nsub || !y)
		return;
	const struct ints perm = *list_field(t, "perm");
	if (perm.n != y->rank || keeps_order(shape_in(f, t, 0), &perm))
		return;
	for (uint32_t i = 0; i < n->nin; i++)
		if (n->in[i] != NO_VALUE && before_transpose(f, n, i, &perm) == NO_VALUE)
			return;
	for (uint32_t i = 0; i < n->nin; i++)
		in[i] = n->in[i] == NO_VALUE ? NO_VALUE : before_transpose(f, n, i, &perm);
	sink(f, n, n->params, in, n->nin, perm);
}

/* Whether both shapes have the same dimensions in the same order, apart from those of size 1. */
static bool same_but_ones(const struct shape *x, const struct shape *y)
{
	int i = 0, k = 0;

	for (;; i++, k++) {
		while (i < x->rank && x->dim[i] == 1)
			i++;
		while (k < y->rank && y->dim[k] == 1)
			k++;
		if (i == x->rank || k == y->rank)
			return i == x->rank && k == y->rank;
		if (x->dim[i] != y->dim[k] || x->dim[i] == DIM_UNKNOWN)
			return false;
	}
}

/* A view that only moves dimensions of size 1, as a Transpose may, goes behind what computes each element by itself as well. */
static void sink_view_below(struct forming *f, struct node *n)
{
	const struct shape *y = shape_out(f, n);
	const struct value *v = NULL;
	uint32_t in[8];

	if (n->nout != 1 || n->nin > 8 || n->nsub || !y || n->op == op_named("Identity"))
		return;
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct value *w = node_in(f->g, n, i);
		in[i] = n->in[i];
		if (!w || (w->init && tensor_count(w->init) == 1 && w->init->shape.rank <= y->rank))
			continue;
		if (v)
			return;
		v = w;
		in[i] = viewed(f, w->id);
	}
	const struct shape *x =
		v && viewed(f, v->id) != v->id ? &f->g->value[viewed(f, v->id)]->info.shape : NULL;
	if (!x || x->rank != y->rank || !shape_equal(&v->info.shape, y) || !same_but_ones(x, y))
		return;
	int64_t list[MAX_RANK];
	int count;
	if (!find_view(x, y, list, &count) || strcmp(find_view(x, y, list, &count), "Reshape") != 0)
		return;
	uint32_t back[2] = {add_node(f, op_qualified(n->op), n->params, in, n->nin, n->origin),
			    add_ints(f, list, count)};
	turn_into(f, n, "Reshape", NULL, back, 2);
}

static void sink_reduction(struct forming *f, struct node *n)
{
	const struct node *t = transposed(f, n, 0);
	const struct reduce *p = n->params;
	struct int_list l;

	if (!t || n->nout != 1 || !p->keepdims || !constant_ints(f, n, 1, &l))
		return;
	const struct ints perm = *list_field(t, "perm");
	for (int i = 0; i < l.n; i++) {
		if (l.v[i] < 0 || l.v[i] >= perm.n)
			return;
		l.v[i] = perm.v[l.v[i]];
	}
	qsort(l.v, (size_t)l.n, sizeof(*l.v), by_size);
	uint32_t in[2] = {t->in[0], add_ints(f, l.v, l.n)};
	sink(f, n, n->params, in, 2, perm);
}

/* A Concat of tensors that are all transposed alike, and a Softmax, work along another axis. */
static void sink_axis(struct forming *f, struct node *n)
{
	const struct field *field = params_field(n->op, "axis");
	const struct node *t = transposed(f, n, 0);
	double axis;

	if (!t || n->nout != 1 || !params_number(field, n->params, &axis))
		return;
	const struct ints perm = *list_field(t, "perm");
	uint32_t *in = arena_new_n(f->g->arena, uint32_t, (size_t)n->nin + 1);
	for (uint32_t i = 0; i < n->nin; i++) {
		const struct node *u = transposed(f, n, i);
		if (!u || list_field(u, "perm")->n != perm.n ||
		    memcmp(list_field(u, "perm")->v, perm.v, (size_t)perm.n * sizeof(*perm.v)))
			return;
		in[i] = u->in[0];
	}
	if (axis < 0 || axis >= (double)perm.n)
		return;
	void *params = arena_dup(f->g->arena, n->params, op_resolved(n->op).params_size);
	params_set_number(field, params, (double)perm.v[(int)axis]);
	sink(f, n, params, in, n->nin, perm);
}

/* Dimensions first..first+n-1 of a tensor become dimensions to..to+m-1 of a view of it. */
struct regrouped {
	int first, n, to, m;
};

/* Finds the smallest groups of dimensions of h and y that correspond. Returns their number, or 0. */
static int find_groups(const struct shape *h, const struct shape *y, struct regrouped *g)
{
	int n = 0, i = 0, k = 0;

	while (i < h->rank && k < y->rank) {
		struct regrouped *r = &g[n++];
		*r = (struct regrouped){i, 1, k, 1};
		int64_t a = h->dim[i++], b = y->dim[k++];
		if (a == DIM_UNKNOWN || b == DIM_UNKNOWN || a == 0 || b == 0)
			return 0;
		while (a != b) {
			bool more = a >= 0 && b >= 0 && a < b;
			if (a < 0 || b < 0 || (more ? i == h->rank : k == y->rank))
				return 0;
			int64_t next = more ? h->dim[i++] : y->dim[k++];
			if (next <= 0 || __builtin_mul_overflow(more ? a : b, next, more ? &a : &b))
				return 0;
			*(more ? &r->n : &r->m) += 1;
		}
	}
	for (; n && i < h->rank && h->dim[i] == 1; i++)
		g[n - 1].n++;
	for (; n && k < y->rank && y->dim[k] == 1; k++)
		g[n - 1].m++;
	return i == h->rank && k == y->rank ? n : 0;
}

/* A view of a transposed tensor that keeps the groups of dimensions together which the Transpose moves. */
static bool sink_view(struct forming *f, struct node *n)
{
	const struct node *t = n->nout == 1 ? transposed(f, n, 0) : NULL;
	const struct shape *y = shape_out(f, n), *h = t ? shape_in(f, n, 0) : NULL;
	struct regrouped g[MAX_RANK];
	struct shape before = {0};
	int64_t place[MAX_RANK], list[MAX_RANK];

	int groups = h && y ? find_groups(h, y, g) : 0;
	if (!groups || keeps_order(shape_in(f, t, 0), list_field(t, "perm")))
		return false;
	const struct ints perm = *list_field(t, "perm");
	for (int i = 0; i < groups; i++)
		for (int k = 1; k < g[i].n; k++)
			if (perm.v[g[i].first + k] != perm.v[g[i].first + k - 1] + 1)
				return false;
	for (int64_t at = 0; at < perm.n; at++) /* the groups in the order of the source */
		for (int i = 0; i < groups; i++)
			for (int k = 0; perm.v[g[i].first] == at && k < g[i].m; k++) {
				place[g[i].to + k] = before.rank;
				before.dim[before.rank++] = y->dim[g[i].to + k];
			}
	const struct shape *x = shape_in(f, t, 0);
	if (!find_target(x, &before, list))
		return false;
	int64_t *then = arena_dup(f->g->arena, place, (size_t)y->rank * sizeof(*place));
	uint32_t in[2] = {t->in[0], add_ints(f, list, before.rank)};
	in[0] = add_node(f, "Reshape", NULL, in, 2, n->origin);
	turn_into(f, n, "Transpose", transpose_by(f, (struct ints){then, y->rank}), in, 1);
	return true;
}

/* ---- defaults, and what has no effect */

/* Returns elements from..to-1 of the last dimension of a constant; the constant itself if that dimension broadcasts. */
static const struct tensor *last_part(struct forming *f, const struct tensor *t, int64_t from,
				      int64_t to)
{
	struct shape s = t->shape;
	size_t size = dtype_bits(tensor_dtype(t)) / 8;

	if (!s.rank || s.dim[s.rank - 1] == 1)
		return t;
	int64_t n = s.dim[s.rank - 1], rows = n ? tensor_count(t) / n : 0;
	s.dim[s.rank - 1] = to - from;
	struct tensor *part = tensor_new(f->g->arena, tensor_dtype(t), &s);
	for (int64_t i = 0; i < rows; i++)
		memcpy((char *)part->data + (size_t)(i * (to - from)) * size,
		       (const char *)t->data + (size_t)(i * n + from) * size,
		       (size_t)(to - from) * size);
	return part;
}

/* Part of the results of a product by a constant matrix is a product by part of that matrix, as if it had never been joined. */
static void form_slice_of_product(struct forming *f, struct node *n)
{
	const struct value *v = node_in(f->g, n, 0);
	const struct node *g = value_maker(f->g, v);
	const struct shape *x = shape_in(f, n, 0);
	struct int_list from, to, axis, step;

	if (!g || g->dead || g->op != op_named("infer::Gemm") || g->nout != 1 || !x ||
	    (g->nin > 3 && g->in[3] != NO_VALUE) || !constant_ints(f, n, 1, &from) ||
	    !constant_ints(f, n, 2, &to) || !constant_ints(f, n, 3, &axis) ||
	    !constant_ints(f, n, 4, &step) || from.n != 1 || axis.v[0] != x->rank - 1 ||
	    step.v[0] != 1)
		return;
	const struct value *b = node_in(f->g, g, 1), *c = node_in(f->g, g, 2);
	int64_t all = x->dim[x->rank - 1];
	const struct field *turned = params_field(g->op, "transB");
	double trans = 1;
	if (!b || !b->init || b->init->shape.rank != 2 || b->init->shape.dim[1] != all ||
	    !params_number(turned, g->params, &trans) || trans != 0 || from.v[0] < 0 ||
	    to.v[0] > all || from.v[0] >= to.v[0] || dtype_bits(tensor_dtype(b->init)) < 8 ||
	    (c && (!c->init || (c->init->shape.rank && c->init->shape.dim[c->init->shape.rank - 1] != 1 &&
				c->init->shape.dim[c->init->shape.rank - 1] != all))))
		return;
	uint32_t in[3] = {g->in[0], NO_VALUE, NO_VALUE};
	in[1] = graph_add_const(f->g, b->name, last_part(f, b->init, from.v[0], to.v[0]))->id;
	if (c)
		in[2] = graph_add_const(f->g, c->name, last_part(f, c->init, from.v[0], to.v[0]))->id;
	opt_info(f->o, f->g);
	put_in_place(f, n->out[0], add_node(f, "infer::Gemm", g->params, in, c ? 3 : 2, g->origin));
}

static bool is_zero(const struct value *v)
{
	const struct tensor *t = v ? v->init : NULL;

	return t && t->type.kind == V_TENSOR && tensor_count(t) == 1 &&
	       tensor_dtype(t) != DT_STRING && dtype_class(tensor_dtype(t)) != DT_COMPLEX &&
	       elem_f64(tensor_dtype(t), t->data, 0) == 0;
}

static void leave_out(struct forming *f, struct node *n, uint32_t i)
{
	uint32_t in[8];

	if (i >= n->nin || n->in[i] == NO_VALUE || n->nin > 8)
		return;
	memcpy(in, n->in, n->nin * sizeof(*in));
	in[i] = NO_VALUE;
	uint32_t count = n->nin;
	while (count && in[count - 1] == NO_VALUE)
		count--;
	node_set_ins(f->g, n, in, count);
	f->changes++;
}

/* Pads are written out for all axes; a value of 0, which is the default, and one that no mode reads are left out. */
static void form_pad(struct forming *f, struct node *n)
{
	const struct shape *x = shape_in(f, n, 0);
	const struct field *mode = params_field(n->op, "mode");
	struct int_list pads, axes;
	int64_t all[2 * MAX_RANK] = {0};

	if (n->nin > 2 && (is_zero(node_in(f->g, n, 2)) || !has_word(f, n, mode, "constant")))
		leave_out(f, n, 2);
	if (!x || !node_in(f->g, n, 3) || !constant_ints(f, n, 1, &pads) ||
	    !constant_ints(f, n, 3, &axes) || pads.n != 2 * axes.n)
		return;
	for (int i = 0; i < axes.n; i++) {
		int a = axis_of(axes.v[i], x->rank);
		if (a < 0)
			return;
		all[a] = pads.v[i];
		all[x->rank + a] = pads.v[axes.n + i];
	}
	node_set_in(f->g, n, 1, add_ints(f, all, 2 * x->rank));
	leave_out(f, n, 3);
}

/* The scales of a Resize are written out for all axes, and attributes that its mode does not read have their defaults. */
static void form_resize(struct forming *f, struct node *n)
{
	const struct shape *x = shape_in(f, n, 0);
	const struct value *v = node_in(f->g, n, 2);
	const struct tensor *scales = v ? v->init : NULL;
	struct resize *p = n->params;
	bool grows = scales && tensor_dtype(scales) == DT_F32 && tensor_count(scales) > 0;

	for (int64_t i = 0; grows && i < tensor_count(scales); i++)
		grows = elem_f64(DT_F32, scales->data, i) >= 1;
	p->mode = p->mode == RESIZE_BILINEAR ? RESIZE_LINEAR : p->mode;
	if (p->coordinate_transformation_mode != COORD_TF_CROP_AND_RESIZE) {
		leave_out(f, n, 1);
		p->extrapolation_value = 0;
	}
	if (p->mode != RESIZE_NEAREST)
		p->nearest_mode = NEAREST_PREFER_FLOOR;
	else if (p->nearest_mode == NEAREST_SIMPLE && grows)
		p->nearest_mode = NEAREST_FLOOR;
	if (p->mode != RESIZE_CUBIC)
		p->cubic_coeff_a = -0.75f;
	if (grows || p->mode == RESIZE_NEAREST)
		p->antialias = 0;
	if (!x || !scales || tensor_dtype(scales) != DT_F32 || p->axes.n <= 0 ||
	    p->axes.n != tensor_count(scales))
		return;
	struct tensor *t =
		tensor_new(f->g->arena, DT_F32, &(struct shape){.rank = 1, .dim = {x->rank}});
	for (int i = 0; i < x->rank; i++)
		((float *)t->data)[i] = 1;
	for (int64_t i = 0; i < p->axes.n; i++) {
		int a = axis_of(p->axes.v[i], x->rank);
		if (a < 0)
			return;
		((float *)t->data)[a] = ((const float *)scales->data)[i];
	}
	const struct resize *plain = params_new(n->op, f->g->arena);
	p->axes = plain->axes;
	node_set_in(f->g, n, 2, graph_add_const(f->g, "", t)->id);
	opt_info(f->o, f->g);
	f->changes++;
}

/* Version 18 has a scale and a shift for each group, version 21 for each channel. */
static void form_group_norm(struct forming *f, struct node *n)
{
	const struct shape *x = shape_in(f, n, 0);
	const struct group_norm *p = n->params;

	for (uint32_t i = 1; i <= 2; i++) {
		const struct value *v = node_in(f->g, n, i);
		const struct tensor *t = v ? v->init : NULL;
		if (!x || x->rank < 2 || !t || t->shape.rank != 1 || p->num_groups < 1 ||
		    t->shape.dim[0] != p->num_groups || x->dim[1] <= p->num_groups ||
		    x->dim[1] % p->num_groups || dtype_bits(tensor_dtype(t)) < 8)
			continue;
		size_t size = dtype_bits(tensor_dtype(t)) / 8;
		int64_t each = x->dim[1] / p->num_groups;
		struct tensor *all = tensor_new(f->g->arena, tensor_dtype(t),
						&(struct shape){.rank = 1, .dim = {x->dim[1]}});
		for (int64_t k = 0; k < x->dim[1]; k++)
			memcpy((char *)all->data + (size_t)k * size,
			       (const char *)t->data + (size_t)(k / each) * size, size);
		node_set_in(f->g, n, i, graph_add_const(f->g, v->name, all)->id);
		opt_info(f->o, f->g);
		f->changes++;
	}
}

/* An Einsum that only multiplies matrices is a MatMul: "ij,jk->ik", perhaps with the same letters before both. */
static void form_einsum(struct forming *f, struct node *n)
{
	const struct einsum *p = n->params;
	const struct shape *a = shape_in(f, n, 0), *b = shape_in(f, n, 1);
	char text[64];
	size_t m = 0;

	for (const char *s = p->equation; s && *s && m < sizeof(text) - 1; s++)
		if (*s != ' ')
			text[m++] = *s;
	text[m] = '\0';
	size_t r = strcspn(text, ",");
	if (n->nin != 2 || !a || !b || r < 2 || m != 3 * r + 3 || (size_t)a->rank != r ||
	    (size_t)b->rank != r || strspn(text, "abcdefghijklmnopqrstuvwxyz") != r ||
	    text[2 * r + 1] != '-' || text[2 * r + 2] != '>')
		return;
	const char *x = text, *y = text + r + 1, *z = text + 2 * r + 3;
	bool matrices = x[r - 1] == y[r - 2] && x[r - 2] == z[r - 2] && y[r - 1] == z[r - 1] &&
			!strncmp(x, y, r - 2) && !strncmp(x, z, r - 2) && y[r - 1] != x[r - 1];
	for (size_t i = 0; i < r; i++)
		for (size_t k = 0; k < r; k++)
			matrices &= (i == k || x[i] != x[k]) && (i != k ? true : x[i] != y[r - 1]);
	if (matrices)
		turn_into(f, n, "MatMul", NULL, n->in, 2);
}

/* The axis of a DFT is written out, counted from the front. */
static void form_dft(struct forming *f, struct node *n)
{
	const struct shape *x = shape_in(f, n, 0);
	const struct value *v = node_in(f->g, n, 2);
	struct int_list l = {.n = 1, .v = {-2}};

	if (!x || (v && (!constant_ints(f, n, 2, &l) || l.n != 1)))
		return;
	int a = axis_of(l.v[0], x->rank);
	if (a < 0 || (v && l.v[0] == a && tensor_dtype(v->init) == DT_I64))
		return;
	struct tensor *t = tensor_new(f->g->arena, DT_I64, &(struct shape){.rank = 0});
	elem_set_i64(DT_I64, t->data, 0, a);
	uint32_t in[3] = {n->in[0], n->nin > 1 ? n->in[1] : NO_VALUE,
			  graph_add_const(f->g, "", t)->id};
	opt_info(f->o, f->g);
	node_set_ins(f->g, n, in, 3);
	f->changes++;
}

static void form_constant_of_shape(struct forming *f, struct node *n)
{
	(void)f;
	struct constant_of_shape *p = n->params;

	if (p->value && tensor_dtype(p->value) == DT_F32 && tensor_count(p->value) == 1 &&
	    elem_f64(DT_F32, p->value->data, 0) == 0)
		p->value = NULL;
}

static void form_grid_sample(struct forming *f, struct node *n)
{
	(void)f;
	struct grid_sample *p = n->params;

	p->mode = p->mode == GRID_BILINEAR  ? GRID_LINEAR
		  : p->mode == GRID_BICUBIC ? GRID_CUBIC
					    : p->mode;
}

/* A pool over the whole picture is a global one. */
static void form_pool(struct forming *f, struct node *n)
{
	const struct shape *x = shape_in(f, n, 0);
	const struct ints *k = list_field(n, "kernel_shape"), *pads = list_field(n, "pads"),
			  *apart = list_field(n, "dilations");
	bool whole = x && n->nout == 1 && x->rank >= 3 && k->n == x->rank - 2 && pads->n >= 0 &&
		     has_word(f, n, params_field(n->op, "auto_pad"), "NOTSET");

	for (int64_t i = 0; whole && i < k->n; i++)
		whole = k->v[i] == x->dim[2 + i] && (!apart || apart->n <= i || apart->v[i] == 1);
	for (int64_t i = 0; whole && i < pads->n; i++)
		whole = pads->v[i] == 0;
	if (whole)
		turn_into(f, n, n->op == op_named("MaxPool") ? "GlobalMaxPool" : "GlobalAveragePool",
			  NULL, n->in, 1);
}

/* ---- the pass */

static void form_reduction_below(struct forming *f, struct node *n)
{
	form_reduction(f, n);
	if (n->op != op_named("Squeeze"))
		sink_reduction(f, n);
}

static void form_slice_below(struct forming *f, struct node *n)
{
	form_slice(f, n);
	form_slice_of_product(f, n);
}

static void form_operands(struct forming *f, struct node *n)
{
	form_broadcast(f, n);
	sink_elementwise(f, n);
	if (op_flags(n->op) & OP_ELEMENTWISE)
		sink_view_below(f, n);
}

/* An upgrade may have left the name that the operator had in its old version. */
static void form_node(struct forming *f, struct node *n)
{
	static const struct {
		const char *name;
		void (*form)(struct forming *, struct node *);
	} rows[] = {
		{"Slice", form_slice_below},
		{"Split", form_split},
		{"Gather", form_gather},
		{"SequenceAt", form_sequence_at},
		{"CastLike", form_cast_like},
		{"Transpose", form_transpose},
		{"Tile", form_tile},
		{"Expand", form_expand},
		{"Pad", form_pad},
		{"Resize", form_resize},
		{"GroupNormalization", form_group_norm},
		{"Einsum", form_einsum},
		{"DFT", form_dft},
		{"ConstantOfShape", form_constant_of_shape},
		{"GridSample", form_grid_sample},
		{"AveragePool", form_pool},
		{"MaxPool", form_pool},
		{"Concat", sink_axis},
		{"Softmax", sink_axis},
	};

	if (strcmp(n->type, n->op->name) != 0)
		set_operator(n, n->op, n->params);
	if (!n->params)
		return;
	form_attributes(f, n);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (n->op == op_named(rows[i].name)) {
			rows[i].form(f, n);
			return;
		}
	if (op_flags(n->op) & OP_VIEW) {
		if (!sink_view(f, n))
			form_view(f, n);
	} else if (op_flags(n->op) & OP_ELEMENTWISE) {
		form_operands(f, n);
	} else if (params_field(n->op, "noop_with_empty_axes")) {
		form_reduction_below(f, n);
	}
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
