/* SPDX-License-Identifier: Apache-2.0 */
/* `infer __gen KIND [DIR]`: generates manual pages, completion scripts or a sample configuration from the tables. */
#include "base/file.h"
#include "cmd/inspect/inspect.h"
#include "cmd/options/subcommand.h"

#include <stdlib.h>
#include <string.h>

static void render_bash(const struct command *c, FILE *f)
{
	(void)c;
	shell_script("bash", f);
}

static void render_zsh(const struct command *c, FILE *f)
{
	(void)c;
	shell_script("zsh", f);
}

static void render_fish(const struct command *c, FILE *f)
{
	(void)c;
	shell_script("fish", f);
}

static void render_yaml(const struct command *c, FILE *f)
{
	(void)c;
	sample_config(f);
}

/* Renders a text and writes it to DIR/name, or to stdout if dir is NULL. */
static int write_file(const char *dir, const char *name,
		      void (*render)(const struct command *, FILE *), const struct command *c,
		      struct diag *d)
{
	struct arena a = {0};
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		return FAIL(d, E_MEMORY, .message = "no memory for a page");
	render(c, f);
	if (fclose(f) != 0) {
		free(text);
		return FAIL(d, E_MEMORY, .message = "no memory for a page");
	}
	struct file_out *out = file_create(dir ? path_join(&a, dir, name) : "-", E_OUTPUT, d);
	int rc = -E_OUTPUT;
	if (out) {
		file_write(out, text, n);
		rc = file_commit(out, d);
	}
	free(text);
	arena_free(&a);
	return rc;
}

static void render_operators(const struct command *c, FILE *f)
{
	(void)c;
	operators_page(f);
}

static int write_manual(const char *dir, struct diag *d)
{
	char name[64];
	int rc = write_file(dir, "man1/infer.1", manual_page, NULL, d);

	for (const struct command *c = commands; c->name && !rc; c++) {
		snprintf(name, sizeof(name), "man1/infer-%s.1", c->name);
		rc = write_file(dir, name, manual_page, c, d);
	}
	return rc ? rc : write_file(dir, "man7/infer-operators.7", render_operators, NULL, d);
}

int cmd_gen(int argc, char *const *argv, struct diag *d)
{
	static const struct {
		const char *kind, *name;
		void (*render)(const struct command *, FILE *);
	} kinds[] = {
		{"bash", "infer.bash", render_bash},
		{"zsh", "_infer", render_zsh},
		{"fish", "infer.fish", render_fish},
		{"yaml", "default.yaml", render_yaml},
	};
	const char *kind = argc > 0 ? argv[0] : "", *dir = argc > 1 ? argv[1] : NULL;

	if (strcmp(kind, "man") == 0)
		return write_manual(dir, d);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(kinds[i].kind, kind) == 0)
			return write_file(dir, kinds[i].name, kinds[i].render, NULL, d);
	return FAIL(d, E_USAGE, .message = "__gen takes man, bash, zsh, fish or yaml, and a folder");
}
