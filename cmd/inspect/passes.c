/* SPDX-License-Identifier: Apache-2.0 */
/* `infer inspect --passes` and `--explain`: the passes of the optimizer, and which rewrites it made or refused. */
#include "cmd/inspect/inspect.h"
#include "cmd/output/table.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- passes */

static void print_passes(const struct opt_report *r, struct arena *a, FILE *f)
{
	static const char *const heads[] = {"pass", "changes", "nodes", "what it does", NULL};
	struct table t;

	table_begin(&t, a, heads, "lrrl");
	for (int i = 0; opt_passes[i].name; i++) {
		const struct opt_done *p = &r->done[i];
		table_text(&t, opt_passes[i].name);
		table_text(&t, p->ran ? arena_printf(a, "%d", p->changes) : "-");
		table_text(&t, p->ran ? arena_printf(a, "%" PRIu32, p->nodes) : "-");
		table_text(&t, p->ran ? opt_passes[i].about
				      : "does not run at this level of --optimize");
	}
	fprintf(f, "passes      %" PRIu32 " node%s before the first pass\n", r->nodes,
		r->nodes == 1 ? "" : "s");
	table_print(&t, "  ", f);
}

/* ---- rewrites */

/* One attempt to apply a rewrite rule at a node. */
struct attempt {
	uint32_t rule;		/* index in the report */
	const char *node, *why; /* why: reason for the refusal; NULL if the rewrite was made */
	size_t at; /* position among all attempts, in the order in which the optimizer made them */
};

static int by_attempt(const void *a, const void *b)
{
	const struct attempt *x = a, *y = b;

	if (x->rule != y->rule)
		return x->rule < y->rule ? -1 : 1;
	int order = strcmp(x->node, y->node);
	if (order)
		return order;
	/* a rewrite that was made comes before earlier refusals at the same node */
	if (!x->why != !y->why)
		return x->why ? 1 : -1;
	return x->at < y->at ? 1 : -1; /* the latest refusal first */
}

static uint32_t rule_number(const struct opt_report *r, const char *name, uint32_t near)
{
	for (uint32_t k = 0; k < r->nrules; k++)
		if (!strcmp(r->rule[(near + k) % r->nrules], name))
			return (near + k) % r->nrules;
	return near;
}

/* Sorts the attempts and keeps for each rule and node every rewrite that was made, or else only the latest refusal. */
static struct attempt *collect_attempts(const struct opt_report *r, struct arena *a, size_t *count)
{
	size_t n = 0, kept = 0;
	uint32_t rule = 0;

	for (const struct opt_note *x = r->first; x; x = x->next)
		n++;
	struct attempt *all = arena_new_n(a, struct attempt, n + 1);
	n = 0;
	for (const struct opt_note *x = r->first; x; x = x->next, n++) {
		rule = rule_number(r, x->rule, rule);
		all[n] = (struct attempt){rule, x->node, x->why, n};
	}
	if (n)
		qsort(all, n, sizeof(*all), by_attempt);
	for (size_t i = 0; i < n; i++) {
		const struct attempt *last = kept ? &all[kept - 1] : NULL;
		bool again = last && last->rule == all[i].rule && !strcmp(last->node, all[i].node);
		if (!again || !all[i].why)
			all[kept++] = all[i];
	}
	*count = kept;
	return all;
}

static void print_attempts(const struct opt_report *r, const struct attempt *all, size_t n,
			   bool made, struct arena *a, FILE *f)
{
	const char *const heads[] = {"rewrite", "node", made ? NULL : "why not", NULL};
	struct table t;

	table_begin(&t, a, heads, made ? "ll" : "lll");
	for (size_t i = 0; i < n; i++) {
		if (made != !all[i].why)
			continue;
		table_text(&t, r->rule[all[i].rule]);
		table_text(&t, all[i].node);
		if (!made)
			table_text(&t, all[i].why);
	}
	if (t.rows)
		table_print(&t, "  ", f);
}

static void print_unmatched_rules(const struct opt_report *r, const struct attempt *all, size_t n,
				  FILE *f)
{
	size_t column = 0;

	for (uint32_t k = 0; k < r->nrules; k++) {
		bool seen = false;
		for (size_t i = 0; i < n && !seen; i++)
			seen = all[i].rule == k;
		if (seen || (k && !strcmp(r->rule[k], r->rule[k - 1])))
			continue;
		size_t length = strlen(r->rule[k]) + 2;
		if (!column)
			fputs("no match    these rewrites matched no part of the graph", f);
		if (!column || column + length > 98) {
			fputs("\n ", f);
			column = 1;
		}
		column += length;
		fprintf(f, " %s", r->rule[k]);
	}
	if (column)
		fputc('\n', f);
}

static void print_rewrites(const struct opt_report *r, struct arena *a, FILE *f)
{
	size_t n, made = 0;
	const struct attempt *all = collect_attempts(r, a, &n);

	for (size_t i = 0; i < n; i++)
		made += !all[i].why;
	if (!r->nrules) {
		fputs("rewrites    none are tried at this level of --optimize\n", f);
		return;
	}
	fprintf(f, "rewrites    %zu made\n", made);
	print_attempts(r, all, n, true, a, f);
	fprintf(f, "refused     %zu that matched a part of the graph but were not possible\n",
		n - made);
	print_attempts(r, all, n, false, a, f);
	print_unmatched_rules(r, all, n, f);
}

void inspect_print_passes(const struct inspection *x, FILE *f)
{
	struct arena a = {0};

	if (x->o->passes)
		print_passes(&x->report, &a, f);
	if (x->o->explain)
		print_rewrites(&x->report, &a, f);
	arena_free(&a);
}

/* ---- JSON */

static void write_passes(const struct opt_report *r, struct json *j)
{
	json_array(j, "passes");
	for (int i = 0; opt_passes[i].name; i++) {
		json_object(j, NULL);
		json_string(j, "name", opt_passes[i].name);
		json_string(j, "about", opt_passes[i].about);
		json_bool(j, "ran", r->done[i].ran);
		json_int(j, "changes", r->done[i].changes);
		json_int(j, "nodes", r->done[i].nodes);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void write_rewrites(const struct opt_report *r, struct json *j)
{
	struct arena a = {0};
	size_t n;
	const struct attempt *all = collect_attempts(r, &a, &n);

	json_array(j, "rewrites");
	for (size_t i = 0; i < n; i++) {
		json_object(j, NULL);
		json_string(j, "rule", r->rule[all[i].rule]);
		json_string(j, "node", all[i].node);
		json_bool(j, "made", !all[i].why);
		if (all[i].why)
			json_string(j, "why", all[i].why);
		json_end(j, '}');
	}
	json_end(j, ']');
	arena_free(&a);
}

void inspect_write_passes(const struct inspection *x, struct json *j)
{
	if (x->o->passes)
		write_passes(&x->report, j);
	if (x->o->explain)
		write_rewrites(&x->report, j);
}
