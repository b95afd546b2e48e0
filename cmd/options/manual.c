/* SPDX-License-Identifier: Apache-2.0 */
/* The manual pages and the sample configuration, from the tables of commands, options and codes. */
#include "base/str.h"
#include "cmd/options/command.h"
#include "cmd/options/options.h"
#include "cmd/options/version.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- roff */

/* n bytes with what roff would take for its own escaped; at_start: at the beginning of a line. */
static void roff_n(const char *s, size_t n, bool at_start, FILE *f)
{
	if (at_start && n && (*s == '.' || *s == '\''))
		fputs("\\&", f);
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '\\')
			fputs("\\e", f);
		else if (s[i] == '-')
			fputs("\\-", f);
		else if (s[i] == '`')
			fputs("\\(ga", f);
		else if (s[i] == '\'')
			fputs("\\(aq", f); /* as it is typed: examples and names in quotes are copied */
		else
			fputc(s[i], f);
	}
}

static void roff(const char *s, FILE *f)
{
	roff_n(s, strlen(s), false, f);
}

/* Prose: lines of at most 76 columns, an empty line in it begins a paragraph with `paragraph`. */
static void prose(const char *s, const char *paragraph, FILE *f)
{
	size_t column = 0;

	while (*s) {
		size_t n = strcspn(s, " \n");
		if (column && column + 1 + n > 76) {
			fputc('\n', f);
			column = 0;
		} else if (column) {
			fputc(' ', f);
			column++;
		}
		roff_n(s, n, column == 0, f);
		column += n;
		s += n;
		if (s[0] == '\n' && s[1] == '\n') {
			fprintf(f, "\n%s\n", paragraph);
			column = 0;
		}
		s += strspn(s, " \n");
	}
	if (column)
		fputc('\n', f);
}

/* Help lines begin small and have no full stop. */
static void sentence(const char *s, FILE *f)
{
	size_t n = strlen(s);
	char text[512];

	snprintf(text, sizeof(text), "%s%s", s, n && strchr(".?!", s[n - 1]) ? "" : ".");
	text[0] = (char)toupper((unsigned char)text[0]);
	prose(text, ".IP", f);
}

static void title(const char *name, FILE *f)
{
	fputs(".\\\" Written by `infer __gen man'; the sources are the tables in cmd/ and src/base/codes.def.\n",
	      f);
	fputs(".TH ", f);
	for (const char *p = name; *p; p++)
		fputc(toupper((unsigned char)*p), f);
	fprintf(f, " 1 \"%s\" \"infer %s\" \"User Commands\"\n", INFER_DATE, INFER_VERSION);
}

/* ---- parts */

static void option(const struct field *row, FILE *f)
{
	struct arena a = {0};

	fputs(".TP\n", f);
	if (row->sh)
		fprintf(f, "\\fB\\-%c\\fR, ", row->sh);
	fputs("\\fB\\-\\-", f);
	roff(row->name, f);
	fputs("\\fR", f);
	if (row->arg) {
		fputs(option_optional(row) ? " \\fI" : "=\\fI", f);
		roff(row->arg, f);
		fputs("\\fR", f);
	}
	fputc('\n', f);
	sentence(row->help, f);
	if (row->more) {
		fputs(".IP\n", f);
		prose(row->more, ".IP", f);
	}
	if (row->type == F_ENUM)
		sentence(field_takes(row, &a), f);
	if (row->arg && row->def)
		sentence(arena_printf(&a, "default: %s", row->def), f);
	if (row->env)
		sentence(arena_printf(&a, "environment: %s", row->env), f);
	arena_free(&a);
}

static void options(const struct command *c, FILE *f)
{
	const char *group = NULL;

	fputs(".SH OPTIONS\n", f);
	prose("Long options take their value after = or as the next word, and may be cut short as long as they "
	      "stay unambiguous; -- ends the options.",
	      ".PP", f);
	for (const struct field *row = options_table; row->name; row++) {
		if (!(row->cmds & c->bit))
			continue;
		if (!group || strcmp(group, row->group) != 0) {
			group = row->group;
			fprintf(f, ".SS %s\n", group);
		}
		option(row, f);
	}
}

static void examples(const struct command *c, bool first, FILE *f)
{
	for (const struct example *e = c->examples; e && e->line; e++) {
		if (!first || e != c->examples)
			fputs(".PP\n", f);
		prose(e->text, ".PP", f);
		fputs(".PP\n.RS 4\n.nf\n", f);
		roff(e->line, f);
		fputs("\n.fi\n.RE\n", f);
	}
}

static void variable(const char *name, const char *text, FILE *f)
{
	fprintf(f, ".TP\n.B %s\n", name);
	prose(text, ".IP", f);
}

static void environment(unsigned cmds, FILE *f)
{
	struct arena a = {0};

	fputs(".SH ENVIRONMENT\n", f);
	prose("A variable overrides the configuration file and is overridden by the command line. An empty one "
	      "counts as not set.",
	      ".PP", f);
	for (const struct field *row = options_table; row->name; row++)
		if (row->env && row->cmds & cmds)
			variable(row->env, arena_printf(&a, "As --%s: %s.", row->name, row->help), f);
	variable("INFER_LIBRARY_PATH",
		 "Folders, parted by colons, in which optional libraries (oneDNN, the picture decoders) are "
		 "looked for first.",
		 f);
	if (cmds & CMD_RUN)
		variable("INFER_OPENMP",
			 "Where it is system, oneDNN uses the system's libgomp in place of infer's own threads.",
			 f);
	variable("NO_COLOR", "Where it is set, nothing is colored unless --color=always says so.", f);
	arena_free(&a);
}

static const struct {
	const char *status, *text;
} statuses[] = {
	{"0", "Fine."},
	{"1", "A check found something of no class below."},
	{"2", "Wrong use of the command line or of a configuration file."},
	{"3", "The model is unreadable, invalid or unsupported, or memory was refused."},
	{"4", "An input does not fit, or an output cannot be written."},
	{"5", "Numbers are wrong: not finite, all zero, or different from a reference."},
	{"6", "A leak."},
	{"7", "CUDA contexts conflict."},
	{"8", "A device, its driver or a library cannot be used."},
	{"9", "Slower or bigger than the baseline."},
	{"124", "The time given with --timeout is over."},
	{"125", "Of check -- COMMAND: infer itself could not watch it."},
	{"126", "Of check -- COMMAND: it was found, but cannot be run."},
	{"127", "Of check -- COMMAND: it was not found."},
	{"130", "Interrupted; what was gathered until then was printed."},
};

static void exit_status(FILE *f)
{
	fputs(".SH EXIT STATUS\n", f);
	prose("Of several errors the lowest class counts; --json lists all of them. Warnings and notes do not "
	      "change the status. check -- COMMAND passes on the program's own where nothing was found.",
	      ".PP", f);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
		variable(statuses[i].status, statuses[i].text, f);
}

static void diagnostics(FILE *f)
{
	struct arena a = {0};

	fputs(".SH DIAGNOSTICS\n", f);
	prose("Every message has an id, which stays the same from version to version: E- for errors, W- for "
	      "warnings and N- for notes of the same cause. The number is the exit status that an error of "
	      "this kind leads to.",
	      ".PP", f);
	for (int c = E_OK + 1; c < E_COUNT; c++) {
		const char *hint = code_hint((enum code)c);
		fputs(".TP\n\\fB", f);
		roff(code_id((enum code)c, SEV_ERROR), f);
		fprintf(f, "\\fR (%d)\n", code_exit((enum code)c));
		sentence(code_title((enum code)c), f);
		if (hint)
			sentence(arena_printf(&a, "cure: %s", hint), f);
	}
	arena_free(&a);
}

/* Of the manual of check: each finding with its cause and its cure, by what the exit status would be. */
static void findings(FILE *f)
{
	struct arena a = {0};

	fputs(".SH FINDINGS\n", f);
	prose("In rising order of the exit status that an error of this id leads to. The same id with W- is a "
	      "warning, with N- a note: these do not change the status. First the cause, then the cure.",
	      ".PP", f);
	for (size_t k = 0; k < sizeof(statuses) / sizeof(*statuses); k++) {
		int status = (int)strtol(statuses[k].status, NULL, 10);
		if (status == 0 || status == code_exit(E_USAGE))
			continue;
		fprintf(f, ".SS Exit status %d\n", status);
		prose(statuses[k].text, ".PP", f);
		for (int c = E_OK + 1; c < E_COUNT; c++) {
			if (code_exit((enum code)c) != status)
				continue;
			fputs(".TP\n\\fB", f);
			roff(code_id((enum code)c, SEV_ERROR), f);
			fputs("\\fR\n", f);
			sentence(code_title((enum code)c), f);
			if (code_cure((enum code)c))
				sentence(arena_printf(&a, "cure: %s", code_cure((enum code)c)), f);
		}
	}
	arena_free(&a);
}

static void see_also(const struct command *self, FILE *f)
{
	bool first = !self;

	fputs(".SH SEE ALSO\n", f);
	if (self)
		fputs(".BR infer (1)", f);
	for (const struct command *c = commands; c->name; c++) {
		if (c == self)
			continue;
		fprintf(f, "%s.BR infer\\-%s (1)", first ? "" : " ,\n", c->name);
		first = false;
	}
	fputs(" ,\n.BR infer\\-operators (7)\n", f);
}

/* ---- pages */

static void synopsis(const struct command *c, FILE *f)
{
	fprintf(f, ".B infer %s\n", c->name);
	roff(c->synopsis, f);
	fputc('\n', f);
}

static void command_page(const struct command *c, FILE *f)
{
	struct arena a = {0};

	title(arena_printf(&a, "infer-%s", c->name), f);
	fprintf(f, ".SH NAME\ninfer\\-%s \\- ", c->name);
	roff(c->summary, f);
	fputs("\n.SH SYNOPSIS\n", f);
	synopsis(c, f);
	fputs(".SH DESCRIPTION\n", f);
	prose(c->about, ".PP", f);
	options(c, f);
	environment(c->bit, f);
	fputs(".SH EXIT STATUS\n", f);
	prose("0 where all went well; infer(1) lists the others and what each message means.",
	      ".PP", f);
	if (c->bit == CMD_CHECK)
		findings(f);
	fputs(".SH EXAMPLES\n", f);
	examples(c, true, f);
	see_also(c, f);
	arena_free(&a);
}

static void program_page(FILE *f)
{
	title("infer", f);
	fputs(".SH NAME\ninfer \\- run ONNX models and find what is wrong with them\n.SH SYNOPSIS\n",
	      f);
	for (const struct command *c = commands; c->name; c++) {
		if (c != commands)
			fputs(".br\n", f);
		synopsis(c, f);
	}
	fputs(".br\n.B infer \\-\\-help\n|\n.B \\-\\-version\n.SH DESCRIPTION\n", f);
	prose("infer reads models in the ONNX format, runs them, and says precisely what does not fit: an "
	      "operator or a type that it does not know, an input of another shape or layout, numbers that "
	      "are not finite.\n\n"
	      "Data go to standard output, messages and progress to standard error. An unknown option, "
	      "subcommand, input or dimension is an error that names the nearest known one.\n\n"
	      "What an option is set to comes from, in rising order: its default, the YAML file given with "
	      "--config, the environment, the command line. A file may say whatever the command line may, "
	      "under the same names; errors give its name and line.",
	      ".PP", f);
	fputs(".SH COMMANDS\n", f);
	for (const struct command *c = commands; c->name; c++) {
		fprintf(f, ".TP\n.BR infer\\-%s (1)\n", c->name);
		sentence(c->summary, f);
	}
	environment(CMD_ALL, f);
	exit_status(f);
	diagnostics(f);
	fputs(".SH EXAMPLES\n", f);
	for (const struct command *c = commands; c->name; c++) {
		fprintf(f, ".SS infer %s\n", c->name);
		examples(c, true, f);
	}
	see_also(NULL, f);
}

void manual_page(const struct command *c, FILE *f)
{
	if (c)
		command_page(c, f);
	else
		program_page(f);
}

/* ---- the sample configuration */

static void yaml_row(const struct field *row, FILE *f)
{
	const char *comma = "";

	fprintf(f, "\n# %s", row->help);
	if (row->type == F_ENUM)
		fprintf(f, ": %s", row->choices);
	else if (row->arg)
		fprintf(f, ": %s", row->arg);
	if (row->cmds != CMD_ALL) {
		fputs(" (", f);
		for (const struct command *c = commands; c->name; c++) {
			if (!(row->cmds & c->bit))
				continue;
			fprintf(f, "%s%s", comma, c->name);
			comma = ", ";
		}
		fputc(')', f);
	}
	fprintf(f, "\n#%s:%s%s\n", row->name,
		row->def || row->type == F_LIST || row->type == F_BOOL ? " " : "",
		row->def	      ? row->def
		: row->type == F_LIST ? "[]"
		: row->type == F_BOOL ? "off"
				      : "");
}

void sample_config(FILE *f)
{
	const char *group = NULL;

	fputs("# Options of infer, with their defaults; use with --config FILE. Keys are the names of the long\n"
	      "# options. An option that is given repeatedly is a list; one of the form NAME=VALUE may be a\n"
	      "# mapping, as  dim: {batch: 4}.  The environment and the command line override this file.\n"
	      "# Written by `infer __gen yaml'.\n",
	      f);
	for (const struct field *row = options_table; row->name; row++) {
		if (row->flags & OPTION_COMMAND_LINE)
			continue;
		if (!group || strcmp(group, row->group) != 0) {
			group = row->group;
			fprintf(f, "\n# ---- %s\n", group);
		}
		yaml_row(row, f);
	}
}
