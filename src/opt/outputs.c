/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --output: replaces the outputs of a model, before any rewrite, so that fused nodes cannot hide the values. Nodes and
 * inputs that only the former outputs needed are removed, even if no kernel could run them.
 */
#include "base/file.h"
#include "base/str.h"
#include "opt/optimizer.h"

#include <fnmatch.h>
#include <string.h>

struct chosen {
	const struct texts *made; /* names of outputs that the steps make */
	struct model *m;
	struct graph *g;
	struct arena *a;
	uint32_t *out, *place, n;
	const char **name;
	bool *taken; /* for each value */
};

static void choose(struct chosen *c, uint32_t value, const char *name, uint32_t place)
{
	if (c->taken[value] && place == NO_VALUE)
		return;
	for (uint32_t i = 0; i < c->n; i++)
		if (!strcmp(c->name[i], name))
			return;
	c->taken[value] = true;
	c->out[c->n] = value;
	c->place[c->n] = place;
	c->name[c->n++] = name;
}

/* Chooses the outputs of the nodes of this name, which listings show beside those of tensors. Returns false if there is none. */
static bool choose_node(struct chosen *c, const char *word)
{
	const struct graph *g = c->g;
	bool found = false;

	for (uint32_t i = 0; *word && i < g->nnodes; i++) {
		const struct node *n = g->node[i];
		if (n->dead || !n->origin || !n->origin->name || strcmp(word, n->origin->name) != 0)
			continue;
		for (uint32_t k = 0; k < n->nout; k++)
			if (n->out[k] != NO_VALUE && *g->value[n->out[k]]->name) {
				choose(c, n->out[k], g->value[n->out[k]]->name, NO_VALUE);
				found = true;
			}
	}
	return found;
}

/* Chooses among the outputs that the steps make. Returns false if nothing matches. */
static bool choose_made(struct chosen *c, const char *word, bool pattern)
{
	bool found = false;

	for (int64_t i = 0; i < c->made->n; i++) {
		const char *name = c->made->v[i].s;
		uint32_t k = 0;
		if (pattern ? fnmatch(word, name, 0) != 0 : strcmp(word, name) != 0)
			continue;
		while (k < c->m->nmade && strcmp(c->m->made[k], name) != 0)
			k++;
		c->m->made[k] = name;
		c->m->nmade += k == c->m->nmade;
		found = true;
	}
	return found;
}

/*
 * Chooses the model's outputs and, by pattern, those that the steps make, and if none matches the tensors inside, by name or pattern.
 * Returns false if nothing matches.
 */
static bool choose_matching(struct chosen *c, const char *word, bool pattern)
{
	const struct graph *g = c->g;
	bool found = pattern && choose_made(c, word, true);

	for (uint32_t i = 0; i < g->nout; i++)
		if (pattern ? !fnmatch(word, g->out_name[i], 0) : !strcmp(word, g->out_name[i])) {
			choose(c, g->out[i], g->out_name[i], i);
			found = true;
		}
	for (uint32_t i = 0, n = found ? 0 : g->nvalues; i < n; i++) {
		const struct value *v = g->value[i];
		bool inside = v->producer != NO_NODE || v->init || v->is_input;
		if (!inside || !*v->name ||
		    (pattern ? v->producer == NO_NODE || fnmatch(word, v->name, 0)
			     : strcmp(word, v->name) != 0))
			continue;
		choose(c, i, v->name, NO_VALUE);
		found = true;
	}
	return found;
}

static int report_unknown(const struct chosen *c, const char *word, struct diag *d)
{
	const struct graph *g = c->g;
	size_t made = c->made->n > 0 ? (size_t)c->made->n : 0, n = 0;
	const char **names = arena_new_n(c->a, const char *, g->nvalues + g->nout + made + 1),
		   *all = "";

	for (size_t i = 0; i < made; i++)
		names[n++] = c->made->v[i].s;

	for (uint32_t i = 0; i < g->nout; i++) {
		names[n++] = g->out_name[i];
		if (i < 12)
			all = fmt(d, "%s%s'%s'", all, i ? ", " : "", g->out_name[i]);
	}
	for (size_t i = 0; i < made; i++)
		all = fmt(d, "%s%s'%s'", all, *all ? ", " : "", c->made->v[i].s);
	for (uint32_t i = 0; i < g->nvalues; i++)
		names[n++] = g->value[i]->name;
	const char *near = str_nearest(word, names, n);
	static const char *const files[] = {".html", ".json", ".xml", ".csv", ".md",
					    ".txt",  ".npy",  ".npz", ".bin", ".png"};
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (!near && !strcmp(path_ext(word), files[i]))
			return FAIL(d, E_OPTION, .slot = fmt(d, "--output %s", word),
				    .message = "the model has no output, tensor or node of this name",
				    .hint = fmt(d,
						"if it is a file: infer run MODEL -o DIR writes outputs to a folder; infer check and infer profile write a "
						"report by --export %s",
						word));
	return FAIL(d, E_OPTION, .slot = fmt(d, "--output %s", word),
		    .message = strpbrk(word, "*?[")
				       ? "no output and no tensor of the model matches"
				       : "the model has no output, tensor or node of this name",
		    .hint = near ? fmt(d, "did you mean '%s'? its outputs are %s", near, all)
				 : fmt(d, "its outputs are %s; infer run MODEL -o DIR writes them to a folder",
				       all));
}

static bool choose_name(struct chosen *c, const char *word)
{
	return choose_matching(c, word, false) || choose_made(c, word, false) || choose_node(c, word);
}

/* Chooses what one text asks for: a name, which may contain commas, or names and patterns with commas between. */
static int choose_text(struct chosen *c, const char *text, struct diag *d)
{
	if (choose_name(c, text))
		return 0;
	for (const char *s = text;; s++) {
		size_t n = strcspn(s, ",");
		const char *word = arena_strn(c->a, s, n);
		if (!choose_name(c, word) && !(strpbrk(word, "*?[") && choose_matching(c, word, true)))
			return report_unknown(c, word, d);
		s += n;
		if (!*s)
			return 0;
	}
}

/*
 * Adds the outputs that steps need, behind those of --output. An empty pattern ends those of one option. If an option's patterns match
 * nothing, all outputs stay, for the message that names them.
 */
static void keep_for_steps(struct chosen *c, const struct texts *patterns)
{
	const struct graph *g = c->g;
	uint32_t asked = c->n;
	bool found = false, all = false;

	for (int64_t k = 0; k < patterns->n; k++) {
		const char *pattern = patterns->v[k].s;
		if (!*pattern) {
			all |= !found;
			found = false;
		}
		for (uint32_t i = 0; *pattern && i < g->nout; i++)
			if (!fnmatch(pattern, g->out_name[i], 0)) {
				choose(c, g->out[i], g->out_name[i], i);
				found = true;
			}
	}
	for (uint32_t i = 0; all && i < g->nout; i++)
		choose(c, g->out[i], g->out_name[i], i);
	c->m->nunasked = c->n - asked;
}

static void replace_outputs(struct chosen *c)
{
	struct graph *g = c->g;

	for (uint32_t i = 0; i < g->nout; i++)
		g->value[g->out[i]]->is_output = false;
	for (uint32_t i = 0; i < c->n; i++)
		g->value[c->out[i]]->is_output = true;
	g->out = c->out;
	g->out_name = c->name;
	g->out_place = c->place;
	g->nout = c->n;
}

static bool is_needed(const struct graph *g, const struct node *n)
{
	for (uint32_t i = 0; i < n->nout; i++) {
		const struct value *v = n->out[i] == NO_VALUE ? NULL : g->value[n->out[i]];
		if (v && (v->nusers || v->is_output))
			return true;
	}
	return false;
}

/* Removes the nodes that no output needs, and the inputs that only these used. */
static int remove_unneeded(struct model *m, struct chosen *c, struct diag *d)
{
	struct graph *g = c->g;
	bool *used = arena_new_n(c->a, bool, g->nvalues + 1);
	uint32_t n = 0;
	int rc = graph_sort(g, d);

	for (uint32_t i = 0; i < g->nin; i++)
		used[g->in[i]] = g->value[g->in[i]]->nusers;
	for (uint32_t i = rc ? 0 : g->norder; i-- > 0;)
		if (!is_needed(g, g->node[g->order[i]]))
			graph_remove_node(g, g->node[g->order[i]]);
	g->in_place = arena_new_n(g->arena, uint32_t, g->nin + 1);
	m->unneeded = arena_new_n(g->arena, const char *, g->nin + 1);
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct value *v = g->value[g->in[i]];
		if (used[v->id] && !v->nusers && !v->is_output) {
			m->unneeded[m->nunneeded++] = v->name;
			continue;
		}
		g->in_place[n] = i;
		g->in[n++] = v->id;
	}
	g->nin = n;
	return rc ? rc : graph_sort(g, d);
}

int opt_choose_outputs(struct model *m, const struct run_config *config, struct diag *d)
{
	const struct texts *names = &config->outputs;
	struct graph *g = m->graph;
	struct arena scratch = {0};
	struct chosen c = {.made = &config->made_outputs, .m = m, .g = g, .a = &scratch};
	size_t room = (size_t)g->nvalues + g->nout + 1;
	int rc = 0;

	c.out = arena_new_n(g->arena, uint32_t, room);
	c.place = arena_new_n(g->arena, uint32_t, room);
	c.name = arena_new_n(g->arena, const char *, room);
	c.taken = arena_new_n(&scratch, bool, room);
	m->made = arena_new_n(g->arena, const char *, (size_t)(c.made->n > 0 ? c.made->n : 0) + 1);
	for (int64_t i = 0; !rc && i < names->n; i++)
		rc = choose_text(&c, names->v[i].s, d);
	if (!rc) {
		keep_for_steps(&c, &config->step_outputs);
		replace_outputs(&c);
		rc = remove_unneeded(m, &c, d);
	}
	arena_free(&scratch);
	return rc;
}
