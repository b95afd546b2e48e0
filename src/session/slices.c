/* SPDX-License-Identifier: Apache-2.0 */
#include "session/internal.h"

#include "base/str.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* Steps of a decoder that neither --steps nor an id ends. */
enum { MAX_STEPS = 4096 };

/* Returns how many pieces the input has; 0 if it is too short for one. */
static int64_t count_pieces(const struct slice *s, int64_t length)
{
	int64_t all = s->lead + length, n = all >= s->size ? (all - s->size) / s->stride + 1 : 0;
	int64_t covered = n ? (n - 1) * s->stride + s->size : 0;

	/* gaps between pieces are left out on purpose, so a rest begins where the next piece would */
	return n + (s->rest != REST_DROP && covered < all && n * s->stride < all);
}

/* Copies elements `from` to `from` + n - 1 along the axis; positions outside of the input are zeros. */
static void copy_piece(const struct tensor *t, const struct slice *s, int64_t from, int64_t n,
		       char *to)
{
	int64_t outer = shape_span(&t->shape, 0, s->axis), size = t->shape.dim[s->axis];
	size_t inner = (size_t)shape_span(&t->shape, s->axis + 1, t->shape.rank) *
		       (dtype_bits(tensor_dtype(t)) / 8);
	int64_t begin = from < 0 ? 0 : from, end = from + n < size ? from + n : size;

	memset(to, 0, (size_t)(outer * n) * inner);
	for (int64_t i = 0; i < outer && begin < end; i++)
		memcpy(to + (size_t)(i * n + begin - from) * inner,
		       (const char *)t->data + (size_t)(i * size + begin) * inner,
		       (size_t)(end - begin) * inner);
}

int stepper_set_piece(struct stepper *x, const struct slice *s, struct diag *d)
{
	const struct tensor *t = input_info(x->inputs, s->in)->tensor;
	struct tensor *own = &x->own[s->in];
	int64_t from = x->times.steps * s->stride - s->lead, size = t->shape.dim[s->axis];
	int64_t n = s->rest == REST_KEEP && size - from < s->size ? size - from : s->size;

	*own = (struct tensor){.type = t->type, .shape = t->shape};
	own->shape.dim[s->axis] = n;
	if (!tensor_bytes(tensor_dtype(t), &own->shape, LAYOUT_ROW, &own->bytes))
		return FAIL(d, E_SIZE);
	if (from >= 0 && from + n <= size && shape_span(&t->shape, 0, s->axis) == 1) {
		size_t inner = (size_t)shape_span(&t->shape, s->axis + 1, t->shape.rank) *
			       (dtype_bits(tensor_dtype(t)) / 8);
		own->data = (char *)t->data + (size_t)from * inner;
		return 0;
	}
	int err = step_buffer_reserve(x->session, &x->buffer[s->in][0], own->bytes, 0, d);
	if (!err)
		copy_piece(t, s, from, n, own->data = x->buffer[s->in][0].memory.ptr);
	return err;
}

static int check_slice(const struct stepper *x, const struct slice *s, struct diag *d)
{
	const struct input_info *in = input_info(x->inputs, s->in);

	if (!in->tensor || in->tensor->type.kind != V_TENSOR ||
	    tensor_dtype(in->tensor) == DT_STRING || dtype_bits(tensor_dtype(in->tensor)) < 8)
		return FAIL(d, E_STEPS, .slot = fmt(d, "input '%s'", in->name),
			    .message = "it cannot be cut into pieces",
			    .expected = "a tensor of numbers of at least 8 bits",
			    .actual = type_str(&d->arena, in->type));
	return 0;
}

/* Sets the number of steps from the pieces of the inputs and --steps. */
static int limit_by_slices(struct stepper *x, struct diag *d)
{
	for (uint32_t k = 0; k < x->steps->nslice; k++) {
		const struct slice *s = &x->steps->slice[k];
		int err = check_slice(x, s, d);
		if (err)
			return err;
		const struct input_info *in = input_info(x->inputs, s->in);
		int64_t length = in->tensor->shape.dim[s->axis], n = count_pieces(s, length);
		if (!n)
			return FAIL(d, E_STEPS, .slot = fmt(d, "input '%s'", in->name),
				    .message = "it is too short for one step",
				    .expected = fmt(d, "at least %" PRId64 " elements along axis %d",
						    s->size, s->axis),
				    .actual = fmt(d, "%" PRId64, length));
		if (s->rest == REST_PAD && (n - 1) * s->stride + s->size > s->lead + length)
			NOTE(d, E_STEPS, .slot = fmt(d, "input '%s'", in->name),
			     .message = fmt(d,
					    "the last piece has %" PRId64 " of %" PRId64
					    " elements; zeros fill it up",
					    s->lead + length - (n - 1) * s->stride, s->size),
			     .hint = "rest=drop leaves it out, rest=keep runs it as it is");
		const int64_t next = n * s->stride, end = (n - 1) * s->stride + s->size;
		const int64_t used = next > end ? next : end;
		if (s->rest == REST_DROP && used < s->lead + length)
			NOTE(d, E_STEPS, .slot = fmt(d, "input '%s'", in->name),
			     .message = fmt(d, "the last %s %s left out",
					    str_many(&d->arena, (uint64_t)(s->lead + length - used),
						     "element"),
					    s->lead + length - used == 1 ? "is" : "are"),
			     .hint = "rest=pad fills the last piece up with zeros, rest=keep runs it as it is");
		if (k && n != x->limit)
			WARN(d, E_STEPS, .slot = fmt(d, "input '%s'", in->name),
			     .message = fmt(d, "it has %" PRId64 " pieces, another input %" PRId64,
					    n, x->limit),
			     .hint = "the shorter one ends the steps");
		x->limit = !k || n < x->limit ? n : x->limit;
	}
	return 0;
}

int stepper_set_limit(struct stepper *x, struct diag *d)
{
	int64_t asked = x->request.limit;

	x->limit = 0;
	int err = limit_by_slices(x, d);
	if (err)
		return err;
	if (!x->steps->nslice) {
		if (asked == INT_ABSENT && !(x->steps->nnext && x->request.until.n > 0))
			return FAIL(d, E_STEPS, .message = "nothing says when the steps end",
				    .expected = x->steps->nnext ? "--steps N or --until ID"
								: "--steps N, or a --slice",
				    .actual = "neither");
		x->limit = asked == INT_ABSENT ? MAX_STEPS : asked;
	} else if (asked != INT_ABSENT && asked < x->limit) {
		x->limit = asked;
	}
	return 0;
}
