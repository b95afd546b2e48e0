/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/shape.h"

#include "base/tame.h"

#include <inttypes.h>
#include <string.h>

bool shape_equal(const struct shape *a, const struct shape *b)
{
	if (a->rank != b->rank)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->dim[i] != b->dim[i])
			return false;
	return true;
}

int64_t shape_span(const struct shape *s, int from, int to)
{
	int64_t n = 1;
	bool zero = false;

	for (int i = from; i < to; i++) {
		if (s->dim[i] < 0)
			return -1;
		zero |= s->dim[i] == 0;
	}
	if (zero)
		return 0;
	for (int i = from; i < to; i++)
		if (__builtin_mul_overflow(n, s->dim[i], &n))
			return -1;
	return n;
}

int64_t shape_count(const struct shape *s)
{
	return s->rank < 0 ? -1 : shape_span(s, 0, s->rank);
}

int64_t known_product(int64_t a, int64_t b)
{
	int64_t r;

	return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r) ? DIM_UNKNOWN : r;
}

bool shape_countable(const struct shape *s)
{
	int64_t n = 1;

	for (int i = 0; i < s->rank; i++)
		if (s->dim[i] > 0 &&
		    (__builtin_mul_overflow(n, s->dim[i], &n) || n > INT64_C(1) << 40))
			return false;
	return true;
}

struct shape shape_of(int rank, const int64_t *dims)
{
	struct shape s = {.rank = rank};

	for (int i = 0; i < rank; i++)
		s.dim[i] = dims[i];
	return s;
}

/* Broadcasts one dimension; false if both are sizes that differ and neither is 1. */
static bool broadcast_dim(int64_t a, int64_t b, int64_t *out)
{
	if (a == b || b == 1)
		*out = a;
	else if (a == 1)
		*out = b;
	else if (a >= 0 && b >= 0)
		return false;
	else if (a >= 0 || b >= 0)
		/* one is a size other than 1, the other is not known and will have to be 1 or that size */
		*out = a >= 0 ? a : b;
	else
		*out = DIM_UNKNOWN;
	return true;
}

bool shape_broadcast(const struct shape *a, const struct shape *b, struct shape *out)
{
	struct shape r = {0};

	if (a->rank < 0 || b->rank < 0) {
		*out = SHAPE_UNKNOWN;
		return true;
	}
	r.rank = a->rank > b->rank ? a->rank : b->rank;
	for (int i = 0; i < r.rank; i++) {
		int ia = i - (r.rank - a->rank), ib = i - (r.rank - b->rank);
		if (!broadcast_dim(ia < 0 ? 1 : a->dim[ia], ib < 0 ? 1 : b->dim[ib], &r.dim[i]))
			return false;
	}
	*out = r;
	return true;
}

bool shape_broadcasts_to(const struct shape *s, const struct shape *to)
{
	if (s->rank < 0 || to->rank < 0)
		return true;
	if (s->rank > to->rank)
		return false;
	for (int i = 0; i < s->rank; i++) {
		int64_t n = s->dim[i], m = to->dim[to->rank - s->rank + i];

		if (n >= 0 && n != 1 && m >= 0 && n != m)
			return false;
	}
	return true;
}

void shape_strides(const struct shape *s, int64_t *strides)
{
	int64_t step = 1;

	for (int i = s->rank - 1; i >= 0; i--) {
		strides[i] = s->dim[i] == 1 ? 0 : step;
		step *= s->dim[i];
	}
}

void shape_broadcast_strides(const struct shape *s, const struct shape *as, int64_t *strides)
{
	int64_t own[MAX_RANK];
	int lead = as->rank - s->rank;

	shape_strides(s, own);
	for (int i = 0; i < as->rank; i++)
		strides[i] = i < lead ? 0 : own[i - lead];
}

int axis_of(int64_t axis, int rank)
{
	if (axis < -rank || axis >= rank)
		return -1;
	return (int)(axis < 0 ? axis + rank : axis);
}

const char *shape_str(struct arena *a, const struct shape *s, const char *const *symbols)
{
	char *text = arena_str(a, "[");

	if (s->rank < 0)
		return "[...]";
	for (int i = 0; i < s->rank; i++) {
		const char *comma = i ? "," : "";
		if (s->dim[i] >= 0)
			text = arena_printf(a, "%s%s%" PRId64, text, comma, s->dim[i]);
		else if (dim_is_sym(s->dim[i]) && symbols)
			text = arena_printf(a, "%s%s%s", text, comma,
					    tame_word(a, symbols[DIM_SYM_ID(s->dim[i])]));
		else
			text = arena_printf(a, "%s%s?", text, comma);
	}
	return arena_printf(a, "%s]", text);
}
