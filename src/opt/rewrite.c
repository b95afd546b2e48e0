/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/pattern.h"

#include <pthread.h>
#include <string.h>

/* ---- rules ----------------------------------------------------------------------------------- */

static void mark_uses(const struct pattern *p, const struct term *t, bool *used)
{
	if (t->kind == TERM_NAME && p->defined[t->var] != NO_VAR)
		used[p->defined[t->var]] = true;
	for (uint32_t i = 0; i < t->nargs; i++)
		mark_uses(p, t->args[i], used);
}

/*
 * Records for each variable the statement that defines it, and which statements are roots, that is, not used by any
 * other statement.
 */
static void index_pattern(struct pattern *p)
{
	bool used[MAX_NAMES] = {0};

	for (int i = 0; i < MAX_NAMES; i++)
		p->defined[i] = NO_VAR;
	for (int k = 0; k < p->n; k++) {
		for (uint32_t i = 0; i < p->statements[k].nouts; i++) {
			int var = p->statements[k].outs[i];
			if (var == NO_VAR)
				continue;
			p->defined[var] = k;
			p->output[var] = i;
		}
	}
	for (int k = 0; k < p->n; k++)
		mark_uses(p, p->statements[k].expr, used);
	for (int k = 0; k < p->n; k++)
		p->root[k] = !used[k];
}

int rule_parse(const struct rule *r, struct arena *a, struct parsed_rule *out, struct diag *d)
{
	int err;

	*out = (struct parsed_rule){
		.rule = r, .vars = arena_new(a, struct names), .labels = arena_new(a, struct names)};
	err = text_parse(r->from, out->vars, out->labels, a, r->name, &out->from, d);
	if (err)
		return err;
	index_pattern(out->from);
	if (out->from->n < 1 || out->from->n > MAX_NAMES || !out->from->root[out->from->n - 1])
		return FAIL(d, E_INTERNAL, .op = r->name,
			    .message = "a pattern whose last statement is no root");
	return text_parse(r->to, out->vars, out->labels, a, r->name, &out->to, d);
}

#define T(name) rules_##name,
static const struct rule *const tables[] = {RULE_TABLES(T)};
#undef T

static struct rule_set all_rules;

static void parse_all_rules(void)
{
	static struct arena arena; /* lives as long as the process */
	size_t ntables = sizeof(tables) / sizeof(*tables);
	uint32_t max = 0;

	for (size_t t = 0; t < ntables; t++)
		for (const struct rule *r = tables[t]; r->name; r++)
			max++;
	all_rules.rules = arena_new_n(&arena, struct parsed_rule, max);
	for (size_t t = 0; t < ntables; t++)
		for (const struct rule *r = tables[t]; r->name; r++)
			if (!rule_parse(r, &arena, &all_rules.rules[all_rules.n], NULL))
				all_rules.n++;
}

const struct rule_set *rules_all(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, parse_all_rules);
	return &all_rules;
}

/* ---- the engine ------------------------------------------------------------------------------ */

/* Tries one rule at one node. Returns 1 if the rule was applied, 0 if not, or -code. */
static int apply(struct rewriter *w, struct match *m, const struct parsed_rule *r, struct node *n)
{
	int fired = 0;

	if (match_rule(m, w, r, n))
		fired = match_build(m);
	if (w->told && fired >= 0 && (fired || m->why))
		w->told(w->arg, r->rule, n, fired ? NULL : m->why);
	return fired;
}

/* Hash table of the rules by the operator at their root; each chain is in the order of the set. */
enum { BUCKETS = 256 };
struct rule_index {
	uint32_t head[BUCKETS]; /* entry + 1; 0 ends */
	struct {
		uint32_t rule, next;
	} * entry;
	uint32_t n;
};

static uint32_t bucket(const struct op *op)
{
	return (uint32_t)(((uintptr_t)op / sizeof(*op) * 2654435761u) >> 7) % BUCKETS;
}

static struct rule_index *index_rules(const struct rule_set *set, unsigned kinds, bool exact,
				      struct arena *a)
{
	struct rule_index *x = arena_new(a, struct rule_index);

	x->entry = arena_array(a, (size_t)set->n * MAX_ALTERNATIVES + 1, sizeof(*x->entry));
	for (uint32_t i = set->n; i-- > 0;) {
		const struct pattern *p = set->rules[i].from;
		const struct term *root = p->statements[p->n - 1].expr;
		if (!(KIND(set->rules[i].rule->kind) & kinds) ||
		    (exact && set->rules[i].rule->inexact))
			continue;
		for (int k = 0; k < root->nops; k++) {
			uint32_t *head = &x->head[bucket(root->ops[k])];
			x->entry[x->n].rule = i;
			x->entry[x->n].next = *head;
			*head = ++x->n;
		}
	}
	return x;
}

static int visit(struct rewriter *w, struct match *m, const struct rule_set *set,
		 const struct rule_index *x, struct node *n, uint32_t *counts)
{
	uint32_t e = x->head[bucket(n->op)];

	m->w = w;
	if (!e || (n->nout && n->out[0] != NO_VALUE && will_be_constant(m, n->out[0])))
		return 0; /* the node will be folded into a constant, which is better than any rewrite */
	for (; e && !n->dead; e = x->entry[e - 1].next) {
		uint32_t i = x->entry[e - 1].rule;
		m->why = NULL;
		int fired = apply(w, m, &set->rules[i], n);
		if (fired > 0 && counts)
			counts[i]++;
		if (fired)
			return fired;
	}
	return 0;
}

/* Removes nodes without used outputs: they would count as users of their inputs, so that patterns would not match. */
static void remove_useless(struct graph *g)
{
	for (uint32_t i = g->norder; i-- > 0;) {
		struct node *n = g->node[g->order[i]];
		bool used = false;

		for (uint32_t k = 0; k < n->nout && !used; k++) {
			const struct value *v = node_out(g, n, k);
			used = v && (v->nusers || v->is_output);
		}
		if (!used && !n->dead)
			graph_remove_node(g, n);
	}
}

enum { MAX_SWEEPS = 200 }; /* limit of passes over the graph, in case two rules undo each other */

int rewrite_graph(struct rewriter *w, const struct rule_set *set, unsigned kinds, bool exact,
		  uint32_t *counts)
{
	struct arena scratch = {0};
	struct match *m = arena_new(&scratch, struct match);
	const struct rule_index *x = index_rules(set, kinds, exact, &scratch);
	int total = 0, r = 0, fired, sweeps = 0;

	do {
		fired = 0;
		r = graph_sort(w->graph, w->diag);
		if (r < 0)
			break;
		remove_useless(w->graph);
		uint32_t n = w->graph->norder;
		const uint32_t *order = w->graph->order;
		for (uint32_t i = 0; r >= 0 && i < n; i++) {
			struct node *node = w->graph->node[order[i]];
			if (node->dead || !node->op)
				continue;
			r = visit(w, m, set, x, node, counts);
			fired += r > 0;
		}
		total += fired;
	} while (r >= 0 && fired && ++sweeps < MAX_SWEEPS);
	arena_free(&scratch);
	return r < 0 ? r : total;
}
