/* SPDX-License-Identifier: Apache-2.0 */
#include "base/samples.h"

#include <stdlib.h>

bool samples_push(struct samples *s, double x)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 1024;
		double *v = realloc(s->v, cap * sizeof(*v));
		if (!v)
			return false;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = x;
	return true;
}

const double *samples_kept(struct arena *a, const struct samples *s)
{
	return arena_dup(a, s->v ? s->v : &(double){0}, (s->n ? s->n : 1) * sizeof(double));
}
