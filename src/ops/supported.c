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

/* Returns the version that the operator came with if the model imports an earlier one, otherwise 0. */
static int version_needed(const struct node *n)
{
	const struct op *oldest = op_oldest(n->domain, n->type);

	return !oldest || (oldest->flags & OP_INTERNAL) || oldest->since <= n->version
		       ? 0
		       : oldest->since;
}

/* Why the operator has no row: its domain is unknown, or the model imports an opset without it; "" if neither. */
static const char *unsupported_reason(struct diag *d, const struct node *n)
{
	int since = version_needed(n);

	if (since)
		return fmt(d, " (came with opset %d of %s, and the model imports %d)", since,
			   *n->domain ? n->domain : "ai.onnx", n->version);
	return op_domain_known(n->domain) ? "" : " (unknown domain)";
}

/* Domains of the nodes that ONNX Runtime makes for the machine on which it optimizes a model. */
static bool is_of_one_machine(const struct node *n)
{
	return !strcmp(n->domain, "com.microsoft.nchwc") ||
	       !strcmp(n->domain, "com.ms.internal.nhwc");
}

/* A cure for the operators that have no row, or NULL if there is none of them. */
static const char *unsupported_cure(struct diag *d, const struct groups *s)
{
	const struct node *newest = NULL;
	bool all_late = s->n > 0;

	for (uint32_t i = 0; i < s->n; i++) {
		const struct node *n = s->v[i].node;
		if (is_of_one_machine(n))
			return "ONNX Runtime has optimized this model for one kind of CPU and saved the result, which "
			       "only it can run: take the original model, or save it at a lower optimization level";
		all_late &= version_needed(n) > 0;
		if (!newest || version_needed(n) > version_needed(newest))
			newest = n;
	}
	if (!newest) /* there is none at all */
		return NULL;
	if (!all_late)
		return "--ops LIBRARY.so, if you have their kernels in a library written against infer/op.h (see "
		       "--ops in infer-run(1)); infer inspect --ops lists the operators that run";
	return fmt(d, "export for opset %d of %s, or a later one, and let opset_import say so",
		   version_needed(newest), *newest->domain ? newest->domain : "ai.onnx");
}

int ops_supported(const struct model *m, struct diag *d)
{
	struct groups s = {0};
	struct diag_row rows[GROUPS_SHOWN + 2];
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
	const char *cure = n ? unsupported_cure(d, &s) : NULL;
	if (cure)
		rows[n++] = (struct diag_row){"try", cure};
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
