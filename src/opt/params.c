/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/params.h"

#include "base/hash.h"

#include <math.h>
#include <string.h>

void *params_new(const struct op *op, struct arena *a)
{
	struct op r = op_resolved(op);
	void *p = arena_alloc(a, r.params_size + 1);

	if (r.attrs)
		field_defaults(r.attrs, p, a);
	return p;
}

const struct field *params_field(const struct op *op, const char *name)
{
	struct op r = op_resolved(op);

	return r.attrs ? field_find(r.attrs, name) : NULL;
}

static size_t field_size(enum ftype t)
{
	static const size_t size[] = {
		[F_BOOL] = sizeof(bool),
		[F_INT] = sizeof(int64_t),
		[F_FLOAT] = sizeof(float),
		[F_DOUBLE] = sizeof(double),
		[F_STRING] = sizeof(char *),
		[F_ENUM] = sizeof(int),
		[F_SIZE] = sizeof(int64_t),
		[F_DURATION] = sizeof(double),
		[F_INTS] = sizeof(struct ints),
		[F_FLOATS] = sizeof(struct floats),
		[F_STRINGS] = sizeof(struct texts),
		[F_LIST] = sizeof(struct texts),
		[F_TENSOR] = sizeof(void *),
		[F_TENSORS] = 0,
		[F_TYPE] = 0,
		[F_GRAPH] = sizeof(int),
	};
	return size[t];
}

static const void *at(const struct field *f, const void *obj)
{
	return (const char *)obj + f->off;
}

static bool same_list(const struct field *f, const void *a, const void *b)
{
	/*
	 * a and b may also be struct floats or struct texts, which have the same layout: a pointer v and the
	 * number n
	 */
	const struct ints *x = a, *y = b;
	size_t size = f->type == F_INTS ? sizeof(int64_t) : sizeof(float);

	if (x->n != y->n)
		return false;
	if (f->type == F_INTS || f->type == F_FLOATS)
		return x->n <= 0 || !memcmp(x->v, y->v, (size_t)x->n * size);
	for (int64_t i = 0; i < x->n; i++) {
		const struct text *s = &((const struct texts *)a)->v[i];
		const struct text *t = &((const struct texts *)b)->v[i];
		if (s->n != t->n || memcmp(s->s, t->s, s->n) != 0)
			return false;
	}
	return true;
}

static bool same_field(const struct field *f, const void *a, const void *b)
{
	if (f->type == F_STRING) {
		const char *s = *(const char *const *)a, *t = *(const char *const *)b;
		return s == t || (s && t && !strcmp(s, t));
	}
	if (f->type == F_INTS || f->type == F_FLOATS || f->type == F_STRINGS || f->type == F_LIST)
		return same_list(f, a, b);
	if (f->type == F_TENSOR) {
		const struct tensor *s = *(const struct tensor *const *)a;
		const struct tensor *t = *(const struct tensor *const *)b;
		return s == t || (s && t && tensor_same(s, t));
	}
	return field_size(f->type) && !memcmp(a, b, field_size(f->type));
}

bool params_same(const struct op *op, const void *a, const void *b)
{
	struct op r = op_resolved(op);

	for (const struct field *f = r.attrs; f && f->name; f++)
		if (!same_field(f, at(f, a), at(f, b)))
			return false;
	return true;
}

uint64_t params_hash(const struct op *op, const void *p, uint64_t seed)
{
	struct op r = op_resolved(op);

	for (const struct field *f = r.attrs; f && f->name; f++) {
		const struct ints *l = at(f, p); /* or struct floats, struct texts: see same_list */
		bool flat = f->type == F_BOOL || f->type == F_INT || f->type == F_FLOAT ||
			    f->type == F_DOUBLE || f->type == F_ENUM;
		if (flat)
			seed = hash_bytes(at(f, p), field_size(f->type), seed);
		if (f->type == F_INTS || f->type == F_FLOATS)
			seed = hash_bytes(l->v,
					  l->n > 0 ? (size_t)l->n * (f->type == F_INTS
									     ? sizeof(int64_t)
									     : sizeof(float))
						   : 0,
					  seed);
		if (f->type == F_STRING && *(const char *const *)at(f, p))
			seed = hash_bytes(*(const char *const *)at(f, p),
					  strlen(*(const char *const *)at(f, p)), seed);
		for (int64_t i = 0; (f->type == F_STRINGS || f->type == F_LIST) && i < l->n; i++)
			seed = hash_bytes(((const struct texts *)at(f, p))->v[i].s,
					  ((const struct texts *)at(f, p))->v[i].n, seed);
	}
	return seed;
}

static bool absent(const struct field *f, const void *obj)
{
	const void *p = at(f, obj);
	double v;

	if (f->type == F_STRING || f->type == F_TENSOR)
		return !*(const void *const *)p;
	if (f->type == F_INTS || f->type == F_FLOATS || f->type == F_STRINGS || f->type == F_LIST)
		return ((const struct ints *)p)->n < 0;
	return !params_number(f, obj, &v);
}

bool params_copy_field(const struct field *to, void *obj, const struct field *from, const void *src,
		       struct arena *a)
{
	size_t size = field_size(from->type);
	double v;

	if (absent(from, src))
		return true; /* the attribute is absent in the source: keep the default */
	if (to->type == from->type && size &&
	    (to->type != F_ENUM || to->choices == from->choices ||
	     !strcmp(to->choices, from->choices))) {
		memcpy((char *)obj + to->off, at(from, src), size);
		return true;
	}
	if (to->type != F_ENUM && from->type != F_ENUM && params_number(from, src, &v))
		return params_set_number(to, obj, v);
	return params_set(to, obj, field_print(from, src, a), a);
}

void params_copy(const struct op *to, void *obj, const struct op *from, const void *src,
		 struct arena *a)
{
	struct op r = op_resolved(from);

	for (const struct field *f = r.attrs; f && f->name; f++) {
		const struct field *t = params_field(to, f->name);
		if (t)
			params_copy_field(t, obj, f, src, a);
	}
}

bool params_number(const struct field *f, const void *obj, double *v)
{
	const void *p = at(f, obj);

	if (f->type == F_BOOL)
		*v = *(const bool *)p;
	else if (f->type == F_INT || f->type == F_SIZE)
		*v = (double)*(const int64_t *)p;
	else if (f->type == F_FLOAT)
		*v = (double)*(const float *)p;
	else if (f->type == F_DOUBLE || f->type == F_DURATION)
		*v = *(const double *)p;
	else if (f->type == F_ENUM || f->type == F_GRAPH)
		*v = *(const int *)p;
	else
		return false;
	if (f->type == F_INT)
		return *(const int64_t *)p != INT_ABSENT;
	return !isnan(*v) && !(f->type == F_ENUM && *v < 0);
}

bool params_set_number(const struct field *f, void *obj, double v)
{
	void *p = (char *)obj + f->off;

	if (f->type == F_BOOL)
		*(bool *)p = v != 0;
	else if (f->type == F_INT || f->type == F_SIZE)
		*(int64_t *)p = (int64_t)llround(v);
	else if (f->type == F_FLOAT)
		*(float *)p = (float)v;
	else if (f->type == F_DOUBLE || f->type == F_DURATION)
		*(double *)p = v;
	else if (f->type == F_ENUM || f->type == F_GRAPH)
		*(int *)p = (int)lround(v);
	else
		return false;
	return true;
}

const struct field *params_body(const struct node *n, uint32_t k, uint32_t *rank)
{
	const struct op op = n->op ? op_resolved(n->op) : (struct op){0};
	double at;

	*rank = 0;
	for (const struct field *f = op.attrs; f && f->name && n->params; f++)
		if (f->type == F_GRAPH) {
			if (params_number(f, n->params, &at) && at == k)
				return f;
			++*rank;
		}
	return NULL;
}

bool params_set(const struct field *f, void *obj, const char *text, struct arena *a)
{
	size_t n = strlen(text);
	char *plain = arena_alloc(a, n + 1), *to = plain;

	if (f->type == F_INTS || f->type == F_FLOATS) { /* a list may be written "[1, 2]" or "1,2" */
		for (; *text; text++)
			if (!strchr("[] ", *text))
				*to++ = *text;
		text = plain;
	}
	return field_set(f, obj, text, f->name, a, NULL) == 0;
}
