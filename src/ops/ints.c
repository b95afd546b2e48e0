/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/ints.h"

#include "ops/infer_util.h"

#include <inttypes.h>

bool list_of(const struct tensor *t, struct int_list *out)
{
	int64_t n = tensor_count(t);

	if (n < 0 || n > MAX_INTS || (n && !t->data))
		return false;
	out->n = (int)n;
	out->exact = true;
	for (int i = 0; i < out->n; i++)
		out->v[i] = elem_i64(tensor_dtype(t), t->data, i);
	return true;
}

bool list_of_info(const struct vinfo *v, struct int_list *out)
{
	if (!v)
		return false;
	if (v->known)
		return list_of(v->known, out);
	if (v->shape.rank == 1 && !v->shape.dim[0]) { /* the elements of an empty list are known */
		out->n = 0;
		out->exact = true;
		return true;
	}
	if (!v->ints || v->ints->rank < 0)
		return false;
	out->n = v->ints->rank;
	out->exact = true;
	for (int i = 0; i < out->n; i++) {
		out->v[i] = v->ints->dim[i];
		out->exact &= out->v[i] >= 0;
	}
	return true;
}

bool infer_list(struct infer *c, uint32_t i, struct int_list *out)
{
	if (list_of_info(infer_in(c, i), out))
		return true;
	const struct tensor *t = infer_value(c, i);
	return t && list_of(t, out);
}

bool infer_exact(struct infer *c, uint32_t i, struct int_list *out)
{
	if (!infer_list(c, i, out))
		return false;
	if (!out->exact)
		infer_value(c, i);
	return out->exact;
}

int infer_axes(const struct infer *c, int slot, int rank, struct int_list *axes, uint32_t *mask)
{
	*mask = 0;
	for (int k = 0; k < axes->n; k++) {
		int a = axis_of(axes->v[k], rank);
		if (a < 0)
			return infer_fail(c, E_VALUE, slot,
					  fmt(c->diag, "axes from %d to %d", -rank, rank - 1),
					  fmt(c->diag, "%" PRId64, axes->v[k]));
		if (*mask & 1u << a)
			return infer_fail(c, E_VALUE, slot, "every axis once",
					  fmt(c->diag, "axis %d again", a));
		*mask |= 1u << a;
		axes->v[k] = a;
	}
	return 0;
}

void infer_give_ints(struct infer *c, uint32_t i, const struct int_list *l)
{
	struct shape s = {.rank = l->n};

	if (l->n > MAX_RANK)
		return;
	for (int k = 0; k < l->n; k++) {
		if (l->exact && l->v[k] < -1)
			return; /* vinfo.ints encodes symbols as values below -1 */
		s.dim[k] = l->v[k];
	}
	infer_set_ints(c, i, &s);
}

void infer_pass_ints(struct infer *c)
{
	struct int_list l;
	const struct vinfo *v = infer_in(c, 0), *o = infer_out(c, 0);

	if (v && o && o->shape.rank >= 0 && o->shape.rank <= 1 &&
	    (v->type.dtype == DT_I64 || v->type.dtype == DT_I32) && list_of_info(v, &l))
		infer_give_ints(c, 0, &l);
}

int64_t dim_mul(int64_t a, int64_t b, bool *over)
{
	int64_t n;

	if (!a || !b)
		return 0;
	if (a == 1 || b == 1)
		return a == 1 ? b : a;
	if (a < 0 || b < 0)
		return DIM_UNKNOWN;
	if (__builtin_mul_overflow(a, b, &n)) {
		*over = true;
		return DIM_UNKNOWN;
	}
	return n;
}

int64_t dim_add(int64_t a, int64_t b, bool *over)
{
	int64_t n;

	if (!a || !b)
		return a ? a : b;
	if (a < 0 || b < 0)
		return DIM_UNKNOWN;
	if (__builtin_add_overflow(a, b, &n)) {
		*over = true;
		return DIM_UNKNOWN;
	}
	return n;
}

int64_t dim_product(const struct shape *s, int from, int to)
{
	int64_t n = 1;
	bool over = false;

	for (int i = from; i < to; i++)
		if (s->dim[i] == 0)
			return 0;
	for (int i = from; i < to; i++)
		n = dim_mul(n, s->dim[i], &over);
	return n;
}
