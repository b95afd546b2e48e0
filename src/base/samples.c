/* SPDX-License-Identifier: Apache-2.0 */
#include "base/samples.h"

#include <stdlib.h>

enum { FIRST_ROOM = 1024 };

bool samples_reserve(struct samples *s, size_t more)
{
	size_t cap = s->cap ? s->cap : FIRST_ROOM;

	while (cap - s->n < more)
		cap *= 2;
	if (cap == s->cap)
		return true;
	double *v = realloc(s->v, cap * sizeof(*v));
	if (!v)
		return false;
	s->v = v;
	s->cap = cap;
	return true;
}

bool samples_push(struct samples *s, double x)
{
	return samples_push_row(s, &x, 1);
}

bool samples_push_row(struct samples *s, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!samples_reserve(&s[i], 1))
			return false;
	for (size_t i = 0; i < n; i++)
		s[i].v[s[i].n++] = x[i];
	return true;
}

const double *samples_kept(struct arena *a, const struct samples *s)
{
	return arena_dup(a, s->v ? s->v : &(double){0}, (s->n ? s->n : 1) * sizeof(double));
}
