/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options/subcommand.h"
#include "cmd/options/version.h"

#include <string.h>

enum { HELP_COLUMN = 32, HELP_WIDTH = 100 };

/* Prints text from column `indent` on, broken at spaces. The cursor is at column `at`. */
static void print_wrapped(const char *text, int at, int indent, FILE *f)
{
	if (at > indent - 1) {
		fprintf(f, "\n%*s", indent, "");
	} else {
		fprintf(f, "%*s", indent - at, "");
	}
	at = indent;
	while (*text) {
		int n = (int)strcspn(text, " ");
		if (at > indent && at + 1 + n > HELP_WIDTH) {
			fprintf(f, "\n%*s", indent, "");
			at = indent;
		} else if (at > indent) {
			fputc(' ', f);
			at++;
		}
		fprintf(f, "%.*s", n, text);
		at += n;
		text += n + (text[n] == ' ');
	}
	fputc('\n', f);
}

static void print_option(const struct command *c, const struct field *row, FILE *f)
{
	char left[96], text[512];
	int at;

	at = snprintf(left, sizeof(left), "  %c%c%s --%s%s%s", row->sh ? '-' : ' ',
		      row->sh ? row->sh : ' ', row->sh ? "," : " ", row->name, row->arg ? " " : "",
		      row->arg ? row->arg : "");
	fputs(left, f);
	snprintf(text, sizeof(text), "%s%s%s%s%s%s%s%s%s%s", option_help(row, c->bit),
		 row->type == F_ENUM ? ": " : "", row->type == F_ENUM ? row->choices : "",
		 row->def && row->arg && strcmp(row->def, "0") != 0 ? " (default " : "",
		 row->def && row->arg && strcmp(row->def, "0") != 0 ? row->def : "",
		 row->def && row->arg && strcmp(row->def, "0") != 0 ? ")" : "", row->env ? " [" : "",
		 row->env ? "$" : "", row->env ? row->env : "", row->env ? "]" : "");
	print_wrapped(text, at, HELP_COLUMN, f);
}

static void print_program_help(FILE *f)
{
	fputs("infer runs ONNX models and finds what is wrong with them.\n\n", f);
	fputs("usage: infer COMMAND [OPTION]...\n\nCommands:\n", f);
	for (const struct command *c = commands; c->name; c++)
		fprintf(f, "  %-12s %s\n", c->name, c->summary);
	fputs("\nCommon tasks:\n"
	      "  infer inspect model.onnx                                 what a model wants and gives\n"
	      "  infer run model.onnx --random                            run it on random values\n"
	      "  infer run model.onnx photo.jpg,resize=224x224,scale=1/255 --top 5 --labels classes.txt\n"
	      "  infer run yolo.onnx photo.jpg,resize=640x640,scale=1/255 --decode yolo -o boxes.png\n"
	      "  infer check model.onnx --all -o findings.txt             everything that may be wrong\n"
	      "  infer check model.onnx x.npy --expect y.npy --atol 1e-3  compare with a reference\n"
	      "  infer profile model.onnx --nodes --top 3                 latency and the slowest nodes\n"
	      "  infer profile a.onnx b.onnx                              which is faster\n"
	      "  infer inspect model.onnx --memory                        memory and weights\n"
	      "  infer doctor                                             is there a GPU, what is missing\n"
	      "Set defaults in ~/.config/infer/config.yaml, for example 'threads: 4'.\n",
	      f);
	fputs("\n`infer COMMAND --help' lists the options of a command. infer(1) lists the exit codes and "
	      "explains\nevery message. `infer --version' prints the version.\n",
	      f);
}

void help_print(const struct command *c, FILE *f)
{
	const char *group = NULL;

	if (!c) {
		print_program_help(f);
		return;
	}
	fprintf(f, "infer %s: %s\n\nusage: infer %s %s\n", c->name, c->summary, c->name, c->synopsis);
	for (const struct field *row = options_table; row->name; row++) {
		if (!(row->cmds & c->bit))
			continue;
		if (!group || strcmp(group, row->group) != 0)
			fprintf(f, "\n%s:\n", group = row->group);
		print_option(c, row, f);
	}
	if (!c->examples)
		return;
	fputs("\nExamples:\n", f);
	for (const struct example *e = c->examples; e->line; e++) {
		fprintf(f, "  # %s\n", e->text);
		for (const char *s = e->line; *s; s += strcspn(s, "\n"), s += *s == '\n')
			fprintf(f, "  %.*s\n", (int)strcspn(s, "\n"), s);
	}
}
