/* SPDX-License-Identifier: Apache-2.0 */
#include "base/keyed.h"

#include <stdlib.h>

int keyed_order(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

void keyed_sort(struct keyed *list, uint32_t n)
{
	qsort(list, n, sizeof(*list), keyed_order);
}

/* Returns how many elements from the first on have its key. */
static uint32_t run_length(const struct keyed *list, uint32_t n)
{
	uint32_t i = 1;

	while (i < n && list[i].key == list[0].key)
		i++;
	return i;
}

static void skip(const struct keyed **list, uint32_t *left, uint32_t n)
{
	*list += n;
	*left -= n;
}

bool keyed_meet(struct keyed_walk *w)
{
	skip(&w->p, &w->p_left, w->np);
	skip(&w->q, &w->q_left, w->nq);
	while (w->p_left && w->q_left) {
		w->np = run_length(w->p, w->p_left);
		w->nq = run_length(w->q, w->q_left);
		if (w->p->key == w->q->key)
			return true;
		if (w->p->key < w->q->key)
			skip(&w->p, &w->p_left, w->np);
		else
			skip(&w->q, &w->q_left, w->nq);
	}
	w->np = w->nq = 0;
	return false;
}
