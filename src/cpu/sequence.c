/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences and optionals. A sequence made from tensors owns copies of them. A sequence made from
 * another sequence points to the items of that other sequence, which stay valid until the next run.
 */
#include "ops/sequence.h"

#include "cpu/math/move.h"
#include "cpu/math/util.h"

#include <inttypes.h>

/* ---- making and reading -------------------------------------------------------------------------- */

/* Makes output 0 a sequence of n items, which the caller fills in. */
static struct tensor *new_sequence(const struct call *c, size_t n)
{
	struct tensor *y = c->out[0];
	struct type t = y->type;
	struct arena *a = call_values(c, 0);

	*y = (struct tensor){.type = t, .arena = a, .nitems = n};
	y->items = arena_new_n(a, struct tensor *, n + 1);
	return y;
}

static int sequence_construct_run(const struct call *c)
{
	struct tensor *y = new_sequence(c, c->step->node->nin);

	for (size_t i = 0; i < y->nitems; i++)
		y->items[i] = tensor_copy(y->arena, c->in[i]);
	return 0;
}

static int empty_run(const struct call *c)
{
	new_sequence(c, 0);
	return 0;
}

/*
 * Sets *out to the position, 0 to n - 1, that input i gives, or to `missing` if the node leaves the
 * input out. Returns an error if the position is not in the sequence.
 */
static int read_position(const struct call *c, uint32_t i, int64_t n, int64_t missing, int64_t *out)
{
	const struct tensor *p = optional_in(c, i);

	*out = missing;
	if (!p)
		return missing >= 0 && missing < n
			       ? 0
			       : call_fail(c, E_VALUE, "a sequence with elements", "an empty one");
	if (tensor_count(p) != 1)
		return call_fail(c, E_VALUE, "one position",
				 fmt(c->diag, "%" PRId64, tensor_count(p)));
	int64_t k = elem_i64(tensor_dtype(p), p->data, 0);
	*out = k < 0 ? k + n : k;
	if (*out < 0 || *out >= n)
		return call_fail(c, E_VALUE,
				 fmt(c->diag, "a position from %" PRId64 " to %" PRId64, -n, n - 1),
				 fmt(c->diag, "%" PRId64, k));
	return 0;
}

static int sequence_at_run(const struct call *c)
{
	const struct tensor *s = c->in[0];
	int64_t k;
	int err = read_position(c, 1, (int64_t)s->nitems, -1, &k);

	return err ? err : call_copy(c, 0, s->items[k]);
}

static int erase_run(const struct call *c)
{
	const struct tensor *s = c->in[0];
	int64_t k;
	int err = read_position(c, 1, (int64_t)s->nitems, (int64_t)s->nitems - 1, &k);

	if (err)
		return err;
	struct tensor *y = new_sequence(c, s->nitems - 1);
	for (size_t i = 0; i < y->nitems; i++)
		y->items[i] = s->items[i < (size_t)k ? i : i + 1];
	return 0;
}

static int insert_run(const struct call *c)
{
	const struct tensor *s = c->in[0];
	int64_t k;
	/* position n appends to the sequence; negative positions count from its end */
	const struct tensor *p = optional_in(c, 2);
	int64_t n = (int64_t)s->nitems;

	if (p && tensor_count(p) != 1)
		return call_fail(c, E_VALUE, "one position", NULL);
	k = p ? elem_i64(tensor_dtype(p), p->data, 0) : n;
	if (k < -n || k > n)
		return call_fail(c, E_VALUE,
				 fmt(c->diag, "a position from %" PRId64 " to %" PRId64, -n, n),
				 fmt(c->diag, "%" PRId64, k));
	k += k < 0 ? n : 0;
	struct tensor *y = new_sequence(c, s->nitems + 1);
	for (size_t i = 0; i < y->nitems; i++)
		y->items[i] = i < (size_t)k   ? s->items[i]
			      : i > (size_t)k ? s->items[i - 1]
					      : tensor_copy(y->arena, c->in[1]);
	return 0;
}

static int length_run(const struct call *c)
{
	struct shape scalar = {0};
	int err = out_ready(c, 0, DT_I64, &scalar);

	if (!err)
		*(int64_t *)c->out[0]->data = (int64_t)c->in[0]->nitems;
	return err;
}

/* ---- ConcatFromSequence ------------------------------------------------------------------------------ */

static int concat_shape(const struct call *c, struct shape *y, int *axis)
{
	const struct concat_from_sequence_params *p = call_params(c);
	const struct tensor *s = c->in[0];

	if (!s->nitems)
		return call_fail(c, E_VALUE, "a sequence with elements", "an empty one");
	*y = s->items[0]->shape;
	if (p->new_axis && y->rank == MAX_RANK)
		return call_fail(c, E_RANK, NULL, NULL);
	*axis = axis_of(p->axis, y->rank + (p->new_axis != 0));
	if (*axis < 0)
		return call_fail(c, E_OP_ATTRIBUTE, "an axis within the rank",
				 fmt(c->diag, "%" PRId64, p->axis));
	if (p->new_axis) {
		for (int k = y->rank++; k > *axis; k--)
			y->dim[k] = y->dim[k - 1];
		y->dim[*axis] = (int64_t)s->nitems;
	}
	for (size_t i = 1; i < s->nitems; i++) {
		const struct shape *x = &s->items[i]->shape, *first = &s->items[0]->shape;
		bool fits = x->rank == first->rank;
		for (int k = 0; fits && k < x->rank; k++)
			fits = x->dim[k] == first->dim[k] || (!p->new_axis && k == *axis);
		if (!fits)
			return call_fail(c, E_SHAPE,
					 c->diag ? shape_str(&c->diag->arena, first, NULL) : "",
					 c->diag ? shape_str(&c->diag->arena, x, NULL) : "");
		if (!p->new_axis &&
		    __builtin_add_overflow(y->dim[*axis], x->dim[*axis], &y->dim[*axis]))
			return call_fail(c, E_SIZE, NULL, NULL);
	}
	return 0;
}

static int concat_run(const struct call *c)
{
	const struct tensor *s = c->in[0];
	struct shape y;
	int axis = 0, err = concat_shape(c, &y, &axis);
	size_t bytes, step, at = 0;

	if (err)
		return err;
	enum dtype t = tensor_dtype(s->items[0]);
	size_t size = move_size(t);
	int64_t n = shape_count(&y), outer = shape_span(&y, 0, axis);
	if (n < 0 || !size_mul((size_t)n, size, &bytes))
		return call_fail(c, E_SIZE, NULL, NULL);
	char *all = mem_alloc(bytes + 1, MEM_WORKSPACE);
	if (!all)
		return call_fail(c, E_MEMORY, NULL, fmt(c->diag, "%zu bytes refused", bytes));
	step = outer ? bytes / (size_t)outer : 0;
	for (size_t i = 0; i < s->nitems && !err && n; i++) {
		size_t run = (size_t)(tensor_count(s->items[i]) / outer) * size;
		bool plain = t != DT_STRING && dtype_bits(t) >= 8;
		char *wide = plain ? NULL : move_spread(s->items[i]);
		const char *x = plain ? s->items[i]->data : wide;
		if (!x && run)
			err = call_fail(c, E_MEMORY, NULL, NULL);
		for (int64_t o = 0; o < outer && run && !err; o++)
			memcpy(all + (size_t)o * step + at, x + (size_t)o * run, run);
		mem_free(wide);
		at += run;
	}
	if (!err)
		err = move_pack(c, 0, t, &y, all);
	mem_free(all);
	return err;
}

/* ---- SplitToSequence ----------------------------------------------------------------------------------- */

struct parts {
	int axis;
	bool squeeze;
	size_t n;
	int64_t even; /* size of all parts but the last; 0 if `sizes` holds the sizes */
	const struct tensor *sizes;
};

static int64_t part_size(const struct parts *p, int64_t dim, size_t k)
{
	if (!p->even)
		return elem_i64(tensor_dtype(p->sizes), p->sizes->data, (int64_t)k);
	int64_t left = dim - (int64_t)k * p->even;
	return left < p->even ? left : p->even;
}

static int split_parts(const struct call *c, struct parts *p, int64_t dim)
{
	const struct tensor *s = optional_in(c, 1);
	int64_t sum = 0;

	if (!s) {
		p->even = 1;
		p->n = (size_t)dim;
		return 0;
	}
	p->squeeze = false; /* keepdims counts only if the input `split` is left out */
	if (!s->shape.rank) {
		p->even = elem_i64(tensor_dtype(s), s->data, 0);
		if (p->even < 1)
			return call_fail(c, E_VALUE, "parts of 1 or more",
					 fmt(c->diag, "%" PRId64, p->even));
		p->n = (size_t)(dim / p->even + (dim % p->even != 0));
		return 0;
	}
	p->sizes = s;
	p->n = (size_t)tensor_count(s);
	for (size_t k = 0; k < p->n; k++) {
		int64_t v = part_size(p, dim, k);
		if (v < 0 || __builtin_add_overflow(sum, v, &sum))
			return call_fail(c, E_VALUE, "sizes", fmt(c->diag, "%" PRId64, v));
	}
	if (sum != dim)
		return call_fail(c, E_VALUE, fmt(c->diag, "sizes that sum to %" PRId64, dim),
				 fmt(c->diag, "%" PRId64, sum));
	return 0;
}

static int split_part(const struct call *c, struct tensor *y, const struct parts *p, size_t k,
		      int64_t from, const char *x)
{
	const struct shape *s = &c->in[0]->shape;
	struct shape part = *s;
	enum dtype t = tensor_dtype(c->in[0]);
	size_t size = move_size(t);
	int64_t dim = s->dim[p->axis], len = part_size(p, dim, k);
	int64_t outer = shape_span(s, 0, p->axis), inner = shape_span(s, p->axis + 1, s->rank);

	part.dim[p->axis] = len;
	size_t run = (size_t)(len * inner) * size, step = (size_t)(dim * inner) * size;
	char *data = mem_alloc((size_t)outer * run + 1, MEM_WORKSPACE);
	if (!data)
		return call_fail(c, E_MEMORY, NULL, NULL);
	for (int64_t o = 0; o < outer && run; o++)
		memcpy(data + (size_t)o * run, x + (size_t)o * step + (size_t)(from * inner) * size,
		       run);
	if (p->squeeze) {
		part.rank--;
		for (int i = p->axis; i < part.rank; i++)
			part.dim[i] = part.dim[i + 1];
	}
	y->items[k] = move_tensor(y->arena, t, &part, data);
	mem_free(data);
	return y->items[k] ? 0 : call_fail(c, E_SIZE, NULL, NULL);
}

static int split_run(const struct call *c)
{
	const struct split_to_sequence_params *q = call_params(c);
	const struct tensor *x = c->in[0];
	struct parts p = {.axis = axis_of(q->axis, x->shape.rank), .squeeze = !q->keepdims};
	int64_t dim = x->shape.dim[p.axis], from = 0;
	bool plain = tensor_dtype(x) != DT_STRING && dtype_bits(tensor_dtype(x)) >= 8;
	int err = split_parts(c, &p, dim);

	if (err)
		return err;
	char *wide = plain ? NULL : move_spread(x);
	if (!plain && !wide)
		return call_fail(c, E_MEMORY, NULL, NULL);
	struct tensor *y = new_sequence(c, p.n);
	for (size_t k = 0; k < p.n && !err; k++) {
		err = split_part(c, y, &p, k, from, plain ? x->data : wide);
		from += part_size(&p, dim, k);
	}
	mem_free(wide);
	return err;
}

/* ---- optionals --------------------------------------------------------------------------------------------- */

static int optional_run(const struct call *c)
{
	const struct tensor *x = optional_in(c, 0);
	struct tensor *y = new_sequence(c, x ? 1 : 0);

	if (x)
		y->items[0] = tensor_copy(y->arena, x);
	return 0;
}

static int optional_has_run(const struct call *c)
{
	const struct tensor *x = optional_in(c, 0);
	struct shape scalar = {0};
	int err = out_ready(c, 0, DT_BOOL, &scalar);

	if (!err)
		*(uint8_t *)c->out[0]->data = x && (x->type.kind != V_OPTIONAL || x->nitems);
	return err;
}

static int optional_get_run(const struct call *c)
{
	const struct tensor *x = c->in[0];

	if (x->type.kind == V_OPTIONAL && !x->nitems)
		return call_fail(c, E_VALUE, "an optional with an element", "an empty one");
	return call_copy(c, 0, x->type.kind == V_OPTIONAL ? x->items[0] : x);
}

const struct kernel cpu_sequence[] = {
	{.op = "SequenceConstruct", .flags = K_REFERENCE, .run = sequence_construct_run},
	{.op = "SequenceEmpty", .flags = K_REFERENCE, .run = empty_run},
	{.op = "SequenceAt", .flags = K_REFERENCE, .run = sequence_at_run},
	{.op = "SequenceErase", .flags = K_REFERENCE, .run = erase_run},
	{.op = "SequenceInsert", .flags = K_REFERENCE, .run = insert_run},
	{.op = "SequenceLength", .flags = K_REFERENCE, .run = length_run},
	{.op = "ConcatFromSequence", .flags = K_REFERENCE, .run = concat_run},
	{.op = "SplitToSequence", .flags = K_REFERENCE, .run = split_run},
	{.op = "Optional", .flags = K_REFERENCE, .run = optional_run},
	{.op = "OptionalHasElement", .flags = K_REFERENCE, .run = optional_has_run},
	{.op = "OptionalGetElement", .flags = K_REFERENCE, .run = optional_get_run},
	{0}};
