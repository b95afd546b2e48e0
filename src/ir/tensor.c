/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/tensor.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

bool type_equal(struct type a, struct type b)
{
	return !memcmp(&a, &b, sizeof(a));
}

bool type_in(struct type t, uint64_t mask)
{
	static const uint64_t holders[] = {0, 0, T_SEQ, T_OPT, T_MAP};

	if (t.kind == V_NONE)
		return true;
	if (t.kind != V_TENSOR && !(mask & holders[t.kind]))
		return false;
	if (t.kind == V_TENSOR && !(mask & (T_ALL)))
		return false;
	return t.dtype == DT_NONE || (mask & T_BIT(t.dtype));
}

const char *type_str(struct arena *a, struct type t)
{
	struct type inner = {.kind = t.of, .of = t.of_of, .dtype = t.dtype, .key = t.key};

	switch ((enum vkind)t.kind) {
	case V_TENSOR: return dtype_name((enum dtype)t.dtype);
	case V_SEQUENCE: return arena_printf(a, "seq(%s)", type_str(a, inner));
	case V_OPTIONAL: return arena_printf(a, "optional(%s)", type_str(a, inner));
	case V_MAP:
		return arena_printf(a, "map(%s,%s)", dtype_name((enum dtype)t.key),
				    dtype_name((enum dtype)t.dtype));
	case V_NONE: break;
	}
	return "?";
}

int64_t tensor_count(const struct tensor *t)
{
	return shape_count(&t->shape);
}

bool tensor_bytes(enum dtype t, const struct shape *s, enum layout layout, size_t *bytes)
{
	struct shape padded = *s;

	if (!shape_countable(s))
		return false;
	if (layout >= LAYOUT_BLOCK8 && s->rank >= 2) {
		int64_t block = layout == LAYOUT_BLOCK8 ? 8 : 16;
		padded.dim[1] = (s->dim[1] + block - 1) / block * block;
	}
	int64_t n = shape_count(&padded);
	return n >= 0 && dtype_bytes(t, n, bytes);
}

struct tensor *tensor_new(struct arena *a, enum dtype t, const struct shape *s)
{
	size_t bytes;

	if (!tensor_bytes(t, s, LAYOUT_ROW, &bytes))
		return NULL;
	struct tensor *x = arena_new(a, struct tensor);
	x->type = type_tensor(t);
	x->shape = *s;
	x->bytes = bytes;
	x->data = arena_alloc(a, bytes);
	x->arena = a;
	return x;
}

struct tensor *tensor_i64(struct arena *a, int rank, const int64_t *values, int64_t n)
{
	struct shape s = {.rank = rank, .dim = {n}};
	struct tensor *t = tensor_new(a, DT_I64, &s);

	if (n)
		memcpy(t->data, values, (size_t)n * sizeof(*values));
	return t;
}

struct tensor *tensor_strings(struct arena *a, const struct shape *s, const char *const *text,
			      const size_t *length)
{
	struct tensor *t = tensor_new(a, DT_STRING, s);

	if (!t)
		return NULL;
	struct str_ref *refs = t->data;
	int64_t n = shape_count(s);
	size_t total = 0;
	for (int64_t i = 0; i < n; i++) {
		refs[i] = (struct str_ref){total, length[i]};
		total += length[i];
	}
	t->blob = arena_alloc(a, total + 1);
	t->blob_bytes = total;
	for (int64_t i = 0; i < n; i++)
		if (length[i])
			memcpy(t->blob + refs[i].offset, text[i], length[i]);
	return t;
}

struct tensor *tensor_copy(struct arena *a, const struct tensor *t)
{
	struct tensor *c = arena_dup(a, t, sizeof(*t));

	c->arena = a;
	if (t->data)
		c->data = arena_dup(a, t->data, t->bytes);
	if (t->blob)
		c->blob = arena_strn(a, t->blob, t->blob_bytes);
	if (t->nitems) {
		c->items = arena_new_n(a, struct tensor *, t->nitems);
		for (size_t i = 0; i < t->nitems; i++)
			c->items[i] = tensor_copy(a, t->items[i]);
	}
	return c;
}

static bool same_strings(const struct tensor *a, const struct tensor *b)
{
	for (int64_t i = 0, n = tensor_count(a); i < n; i++) {
		size_t la, lb;
		const char *sa = tensor_string(a, i, &la), *sb = tensor_string(b, i, &lb);
		if (la != lb || (la && memcmp(sa, sb, la)))
			return false;
	}
	return true;
}

bool tensor_same(const struct tensor *a, const struct tensor *b)
{
	if (!type_equal(a->type, b->type) || a->nitems != b->nitems)
		return false;
	for (size_t i = 0; i < a->nitems; i++)
		if (!tensor_same(a->items[i], b->items[i]))
			return false;
	if (a->type.kind != V_TENSOR)
		return true;
	if (!shape_equal(&a->shape, &b->shape))
		return false;
	if (tensor_dtype(a) == DT_STRING)
		return same_strings(a, b);
	return a->bytes == b->bytes && (!a->bytes || !memcmp(a->data, b->data, a->bytes));
}

/* Weights may have many million elements: the bits of an fp32 number without its sign are in the order of its magnitude. */
static double largest_f32(const uint32_t *bits, int64_t n)
{
	uint32_t most = 0;
	float v;

	for (int64_t i = 0; i < n; i++)
		most = (bits[i] & 0x7fffffffu) > most ? bits[i] & 0x7fffffffu : most;
	memcpy(&v, &most, sizeof(v));
	return isnan(v) ? (double)INFINITY : (double)v;
}

double tensor_largest(const struct tensor *t)
{
	double most = 0;

	if (tensor_dtype(t) == DT_F32)
		return largest_f32(t->data, tensor_count(t));
	for (int64_t i = 0; i < tensor_count(t); i++) {
		double v = fabs(elem_f64(tensor_dtype(t), t->data, i));
		most = v <= most ? most : isnan(v) ? (double)INFINITY : v;
	}
	return most;
}
