/* SPDX-License-Identifier: Apache-2.0 */
#include "check/path_precision.h"
#include "check/pair_sides.h"

static int coarseness(enum dtype t)
{
	return t == DT_BF16 ? 2 : t == DT_F16 ? 1 : 0;
}

enum dtype coarser_precision(enum dtype own, enum dtype path)
{
	const uint64_t coarse = T_BIT(DT_F16) | T_BIT(DT_BF16) | T_F8 | T_F4 | T_F6;

	if (T_BIT(own) & coarse)
		return coarseness(path) > coarseness(own) && coarseness(own) ? path : own;
	/* a distance of integers is a share of elements, which has a limit of its own */
	return coarseness(path) && !(T_BIT(own) & T_INTS) ? path : own;
}

double path_limit(enum dtype t, double limit)
{
	double least = t == DT_BF16 ? LIMIT_BF16 : t == DT_F16 ? LIMIT_F16 : 0;

	return limit > least ? limit : least;
}

static enum dtype coarsest(enum dtype a, enum dtype b)
{
	return coarseness(b) > coarseness(a) ? b : a;
}

/* Returns the coarsest type to which a node of the graph rounds, bodies included. */
static enum dtype coarsest_inside(const struct graph *g)
{
	enum dtype t = DT_NONE;

	for (uint32_t i = 0; i < g->nnodes; i++) {
		const struct node *n = g->node[i];
		for (uint32_t k = 0; !n->dead && k < n->nout; k++)
			if (n->out[k] != NO_VALUE)
				t = coarsest(t, (enum dtype)g->value[n->out[k]]->info.type.dtype);
		for (uint32_t k = 0; !n->dead && k < n->nsub; k++)
			t = coarsest(t, coarsest_inside(n->sub[k]));
	}
	return coarseness(t) ? t : DT_NONE;
}

enum dtype *path_precisions(struct arena *a, const struct graph *g)
{
	enum dtype *path = arena_new_n(a, enum dtype, g->nvalues + 1);

	for (uint32_t p = 0; p < g->norder; p++) {
		const struct node *n = g->node[g->order[p]];
		enum dtype t = DT_NONE;
		for (uint32_t i = 0; i < n->nin + n->ncap; i++)
			if (n->in[i] != NO_VALUE)
				t = coarsest(t, path[n->in[i]]);
		for (uint32_t k = 0; k < n->nsub; k++)
			t = coarsest(t, coarsest_inside(n->sub[k]));
		for (uint32_t i = 0; i < n->nout; i++)
			if (n->out[i] != NO_VALUE)
				path[n->out[i]] =
					coarsest(t, (enum dtype)g->value[n->out[i]]->info.type.dtype);
		for (uint32_t i = 0; i < n->nout; i++)
			if (n->out[i] != NO_VALUE && !coarseness(path[n->out[i]]))
				path[n->out[i]] = DT_NONE;
	}
	return path;
}
