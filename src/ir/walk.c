/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/walk.h"

void walk_to(struct walk *w, const struct graph *g, const struct value *v, int steps)
{
	w->seen.arena = &w->arena;
	/* the key is the address of the value, which the graph keeps */
	if (!v || !map_set(&w->seen, (const char *)&g->value[v->id], sizeof(g->value[v->id]), 1))
		return;
	w->place = arena_append(&w->arena, w->place, w->n, sizeof(*w->place));
	w->place[w->n++] = (struct walk_place){g, v, steps};
}

const struct walk_place *walk_next(struct walk *w)
{
	return w->next < w->n ? &w->place[w->next++] : NULL;
}

void walk_end(struct walk *w)
{
	arena_free(&w->arena);
	*w = (struct walk){0};
}
