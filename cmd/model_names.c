/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `infer __complete [-0] inputs|dims|outputs|labels MODEL`: prints names for the shell completions, one per line. `infer __complete keys KEY`
 * prints what may follow KEY= in --input, or the keys if KEY is empty.
 */
#include "base/hash.h"
#include "base/tame.h"
#include "cmd/options/subcommand.h"
#include "onnx/load.h"

#include <string.h>

/*
 * With -0, names end with a NUL byte. Without it, names that the tamer would change are left out: a newline would split
 * a name in two, and an escape sequence could reach the terminal.
 */
static void print_name(const char *name, bool nul)
{
	struct arena a = {0};

	if (!*name)
		return;
	if (nul || tame_word(&a, name) == name) {
		fputs(name, stdout);
		fputc(nul ? '\0' : '\n', stdout);
	}
	arena_free(&a);
}

static void print_inputs(struct model *m, bool nul)
{
	const struct graph *g = m->graph;

	for (uint32_t i = 0; i < g->nin; i++)
		if (!g->value[g->in[i]]->init)
			print_name(g->value[g->in[i]]->name, nul);
}

static void print_dims(struct model *m, bool nul)
{
	const struct graph *g = m->graph;
	struct map seen = {.arena = &m->arena};

	for (uint32_t i = 0; i < g->nin; i++) {
		const struct shape *s = &g->value[g->in[i]]->info.shape;
		for (int k = 0; k < s->rank; k++) {
			if (s->dim[k] >= 0)
				continue;
			const char *name = input_dim_name(m, g->value[g->in[i]], k, &m->arena);
			if (map_set(&seen, name, strlen(name), 0))
				print_name(name, nul);
		}
	}
}

static void print_outputs(struct model *m, bool nul)
{
	for (uint32_t i = 0; i < m->graph->nout; i++)
		print_name(m->graph->out_name[i], nul);
}

/* What --labels takes: each key of the metadata. */
static void print_labels(struct model *m, bool nul)
{
	for (size_t i = 0; i < m->nmeta; i++)
		print_name(arena_printf(&m->arena, "meta:%s", m->meta[i].key), nul);
}

static const struct {
	const char *what;
	void (*print)(struct model *m, bool nul);
} lists[] = {{"inputs", print_inputs},
	     {"dims", print_dims},
	     {"outputs", print_outputs},
	     {"labels", print_labels}};

int cmd_complete(int argc, char *const *argv, struct diag *d)
{
	bool nul = argc > 0 && strcmp(argv[0], "-0") == 0;

	argc -= nul;
	argv += nul;
	if (argc == 2 && strcmp(argv[0], "keys") == 0) {
		for (const char *s = input_key_words(argv[1]); *s;
		     s += strcspn(s, "|"), s += *s == '|')
			printf("%.*s\n", (int)strcspn(s, "|"), s);
		return 0;
	}
	size_t k = 0, n = sizeof(lists) / sizeof(*lists);
	while (k < n && !(argc == 2 && strcmp(argv[0], lists[k].what) == 0))
		k++;
	if (k == n)
		return FAIL(
			d, E_USAGE,
			.message =
				"__complete takes [-0] inputs|dims|outputs|labels MODEL, or keys KEY");
	struct load_options options = {.collect = true};
	struct model *m = onnx_load(argv[1], &options, d);
	if (!m)
		return -(int)d->last->code;
	lists[k].print(m, nul);
	onnx_unload(m);
	return 0;
}
