/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/supported.h"

#include "base/hash.h"
#include "ops/op.h"

#include <inttypes.h>
#include <string.h>

enum { NAMES_SHOWN = 5, GROUPS_SHOWN = 40 };

struct group {
	const struct node *node; /* the first */
	uint32_t count;
	const char *names;
};

struct groups {
	struct arena arena;
	struct map of;
	struct group *v;
	uint32_t n, cap, nodes;
};

static void add_unsupported(struct groups *s, const struct node *n)
{
	const char *key = arena_printf(&s->arena, "%s::%s-%d", n->domain, n->type, n->version);
	int64_t at = map_get(&s->of, key, strlen(key));

	if (at < 0) {
		if (s->n == s->cap) {
			s->cap = s->cap ? 2 * s->cap : 16;
			s->v = arena_grow(&s->arena, s->v, s->n, s->cap, sizeof(*s->v));
		}
		at = s->n;
		s->v[s->n++] = (struct group){.node = n, .names = ""};
		map_set(&s->of, key, strlen(key), (uint32_t)at);
	}
	struct group *g = &s->v[at];
	if (g->count++ < NAMES_SHOWN)
		g->names = arena_printf(&s->arena, "%s%s'%s'", g->names, *g->names ? ", " : "",
					n->origin->name);
	s->nodes++;
}

static void find_unsupported(struct groups *s, const struct graph *g)
{
	for (uint32_t i = 0; i < g->nnodes; i++) {
		const struct node *n = g->node[i];
		if (n->dead)
			continue;
		if (!n->op)
			add_unsupported(s, n);
		for (uint32_t k = 0; k < n->nsub; k++)
			find_unsupported(s, n->sub[k]);
	}
}

/* Why the operator has no row: its domain is unknown, or it is known at later versions only; "" if neither. */
static const char *unsupported_reason(struct diag *d, const struct node *n)
{
	const struct op *newest = op_newest(n->domain, n->type);

	if (!newest || (newest->flags & OP_INTERNAL))
		return op_domain_known(n->domain) ? "" : " (unknown domain)";
	return fmt(d, " (known at version %d, but not before)", newest->since);
}

int ops_supported(const struct model *m, struct diag *d)
{
	struct groups s = {0};
	struct diag_row rows[GROUPS_SHOWN + 1];
	size_t n = 0;
	int rc = 0;

	s.of.arena = &s.arena;
	if (m->graph)
		find_unsupported(&s, m->graph);
	for (; n < s.n && n < GROUPS_SHOWN; n++) {
		const struct group *g = &s.v[n];
		const char *domain = g->node->domain;
		rows[n].label = fmt(d, "%s%s%s-%d", domain, *domain ? "::" : "", g->node->type,
				    g->node->version);
		rows[n].text = fmt(d, "%" PRIu32 " node%s: %s%s%s", g->count, g->count > 1 ? "s" : "",
				   g->names, g->count > NAMES_SHOWN ? ", ..." : "",
				   unsupported_reason(d, g->node));
	}
	if (s.n > n) {
		rows[n] = (struct diag_row){"...", fmt(d, "and %zu more", s.n - n)};
		n++;
	}
	if (n)
		rc = FAIL(d, E_OP_UNSUPPORTED, .model = d ? arena_str(&d->arena, m->path) : NULL,
			  .message = fmt(d,
					 "%" PRIu32 " operator%s, of %" PRIu32
					 " node%s, that this build cannot run",
					 s.n, s.n > 1 ? "s" : "", s.nodes, s.nodes > 1 ? "s" : ""),
			  .rows = rows, .nrows = n);
	arena_free(&s.arena);
	return rc;
}
