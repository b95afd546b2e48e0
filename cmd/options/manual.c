/* SPDX-License-Identifier: Apache-2.0 */
/* Generates the manual pages and the sample configuration from the tables of commands, options and codes. */
#include "base/str.h"
#include "cmd/options/subcommand.h"
#include "cmd/options/options.h"
#include "cmd/options/version.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- roff */

/* Writes n bytes of text and escapes the characters that roff would interpret. at_start: the text begins a line. */
static void write_roff_n(const char *s, size_t n, bool at_start, FILE *f)
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
			fputs("\\(aq",
			      f); /* a plain apostrophe, because users copy examples and quoted names */
		else
			fputc(s[i], f);
	}
}

static void write_roff(const char *s, FILE *f)
{
	write_roff_n(s, strlen(s), false, f);
}

/* Writes running text in lines of at most 76 columns. At an empty line in s, the roff macro `paragraph` starts a new paragraph. */
static void write_prose(const char *s, const char *paragraph, FILE *f)
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
		write_roff_n(s, n, column == 0, f);
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

/* Writes a help line, which starts in lower case and has no full stop, as a sentence. */
static void write_sentence(const char *s, FILE *f)
{
	size_t n = strlen(s);
	char text[512];

	snprintf(text, sizeof(text), "%s%s", s, n && strchr(".?!", s[n - 1]) ? "" : ".");
	text[0] = (char)toupper((unsigned char)text[0]);
	write_prose(text, ".IP", f);
}

static void write_title(const char *name, FILE *f)
{
	fputs(".\\\" Written by `infer __gen man'; the sources are the tables in cmd/ and src/base/codes.def.\n",
	      f);
	fputs(".TH ", f);
	for (const char *p = name; *p; p++)
		fputc(toupper((unsigned char)*p), f);
	fprintf(f, " 1 \"%s\" \"infer %s\" \"User Commands\"\n", INFER_DATE, INFER_VERSION);
}

/* ---- parts */

static void write_option(const struct command *c, const struct field *row, FILE *f)
{
	struct arena a = {0};

	fputs(".TP\n", f);
	if (row->sh)
		fprintf(f, "\\fB\\-%c\\fR, ", row->sh);
	fputs("\\fB\\-\\-", f);
	write_roff(row->name, f);
	fputs("\\fR", f);
	if (row->arg) {
		fputs(option_optional(row) ? " \\fI" : "=\\fI", f);
		write_roff(row->arg, f);
		fputs("\\fR", f);
	}
	fputc('\n', f);
	write_sentence(option_help(row, c->bit), f);
	if (row->more) {
		fputs(".IP\n", f);
		write_prose(row->more, ".IP", f);
	}
	if (row->type == F_ENUM)
		write_sentence(field_takes(row, &a), f);
	if (row->arg && row->def)
		write_sentence(arena_printf(&a, "default: %s", row->def), f);
	if (row->env)
		write_sentence(arena_printf(&a, "environment: %s", row->env), f);
	arena_free(&a);
}

static void write_options(const struct command *c, FILE *f)
{
	const char *group = NULL;

	fputs(".SH OPTIONS\n", f);
	write_prose("A long option takes its value after = or as the next word, and may be abbreviated as long as it "
		    "stays unambiguous; -- ends the options.",
		    ".PP", f);
	for (const struct field *row = options_table; row->name; row++) {
		if (!(row->cmds & c->bit))
			continue;
		if (!group || strcmp(group, row->group) != 0) {
			group = row->group;
			fprintf(f, ".SS %s\n", group);
		}
		write_option(c, row, f);
	}
}

static void write_examples(const struct command *c, bool first, FILE *f)
{
	for (const struct example *e = c->examples; e && e->line; e++) {
		if (!first || e != c->examples)
			fputs(".PP\n", f);
		write_prose(e->text, ".PP", f);
		fputs(".PP\n.RS 4\n.nf\n", f);
		write_roff(e->line, f);
		fputs("\n.fi\n.RE\n", f);
	}
}

static void write_entry(const char *name, const char *text, FILE *f)
{
	fprintf(f, ".TP\n.B %s\n", name);
	write_prose(text, ".IP", f);
}

static void write_environment(unsigned cmds, FILE *f)
{
	struct arena a = {0};

	fputs(".SH ENVIRONMENT\n", f);
	write_prose("Variables override the configuration file, and the command line overrides variables. An empty variable "
		    "counts as not set.",
		    ".PP", f);
	for (const struct field *row = options_table; row->name; row++)
		if (row->env && row->cmds & cmds)
			write_entry(row->env,
				    arena_printf(&a, "Same as --%s: %s.", row->name, row->help), f);
	write_entry(
		"INFER_LIBRARY_PATH",
		"A list of folders, separated by colons, that are searched first for optional libraries (oneDNN, those of "
		"CUDA, decoders of pictures and sounds). Searched next, in this order: lib and lib/infer beside the program's "
		"folder; libraries that this process has loaded; CUDA toolkits (CUDA_HOME, CUDA_PATH, /usr/local/cuda); the "
		"system's folders; NVIDIA's packages in Python and conda environments (VIRTUAL_ENV, CONDA_PREFIX, PATH). "
		"infer doctor tells where each library was found.",
		f);
	if (cmds & (CMD_RUN | CMD_PROFILE | CMD_CHECK))
		write_entry("INFER_PTX",
			    "If it is set to 1, the CUDA backend uses the PTX code of its kernels, which the driver compiles, "
			    "even if this build has machine code for the device.",
			    f);
	if (cmds & CMD_RUN)
		write_entry("INFER_OPENMP",
			    "If it is set to system, oneDNN uses the libgomp of the system instead of infer's own threads.",
			    f);
	if (cmds & (CMD_RUN | CMD_PROFILE | CMD_CHECK))
		write_entry("ONEDNN_MAX_CPU_ISA",
			    "The most that oneDNN and infer's own loops use of the processor: AVX2 leaves AVX-512 out, SSE41 "
			    "AVX2 as well. A way to see how a model runs on a smaller machine.",
			    f);
	if (cmds & CMD_RUN)
		write_entry("INFER_SHARD_COUNT",
			    "The number of pods of an Indexed Job of Kubernetes, which JOB_COMPLETION_INDEX counts.",
			    f);
	write_entry("NO_COLOR", "If it is set, nothing is colored unless --color=always is given.", f);
	arena_free(&a);
}

static const struct {
	const char *status, *text;
} statuses[] = {
	{"0", "Success."},
	{"1", "A check found a problem that belongs to none of the classes below."},
	{"2", "An error in the command line or in a configuration file."},
	{"3", "The model is unreadable, invalid or unsupported, or there was not enough memory."},
	{"4", "An input does not fit."},
	{"5",
	 "Numbers are wrong: not finite, all zero, different from a reference, or a score worse than --fail-below."},
	{"6", "Memory leaks."},
	{"7", "CUDA contexts conflict."},
	{"8", "A device, its driver or a library cannot be used."},
	{"9", "The model is slower or needs more memory than the baseline."},
	{"10",
	 "An output cannot be written: the disk is full, nothing reads the pipe, or the path cannot be used."},
	{"11", "With --fail-unknown: the comparison with the baseline decided nothing."},
	{"124", "The time limit of --timeout was reached."},
	{"125", "With check -- COMMAND: infer could not watch the command."},
	{"126", "With check -- COMMAND: the command was found, but cannot be run."},
	{"127",
	 "With check -- COMMAND: the command was not found. Also the status of the shell if infer itself is "
	 "not found, and of the dynamic linker if a library that infer is linked with (libprotobuf-c, libyaml, "
	 "zlib) is missing: it names the library on standard error, and nothing of infer has run."},
	{"130", "Interrupted; the results so far were printed."},
	{"141", "The reader of standard output has closed its pipe, as head(1) does; nothing is said."},
};

static void write_exit_status(FILE *f)
{
	fputs(".SH EXIT STATUS\n", f);
	write_prose(
		"If there are several errors, the lowest status counts; --json lists all errors. Warnings and notes do not "
		"change the status. If check -- COMMAND finds nothing, the status is that of the command. The status of diff is that of "
		"diff(1): 0 if the models are the same, 1 if they differ, 2 if there was trouble; 124, 130 and 141 are as above.",
		".PP", f);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
		write_entry(statuses[i].status, statuses[i].text, f);
}

static void write_diagnostics(FILE *f)
{
	struct arena a = {0};

	fputs(".SH DIAGNOSTICS\n", f);
	write_prose("Every message has an id that stays the same from version to version. It begins with E- for errors, W- "
		    "for warnings and N- for notes with the same cause. The number in parentheses is the exit status of an "
		    "error with this id.",
		    ".PP", f);
	for (int c = E_OK + 1; c < E_COUNT; c++) {
		const char *hint = code_hint((enum code)c);
		fputs(".TP\n\\fB", f);
		/* all three, so that a search finds whichever was printed */
		for (int s = SEV_ERROR; s >= SEV_NOTE; s--) {
			write_roff(code_id((enum code)c, (enum severity)s), f);
			fputs(s > SEV_NOTE ? ", " : "", f);
		}
		fprintf(f, "\\fR (%d)\n", code_exit((enum code)c));
		write_sentence(code_title((enum code)c), f);
		if (hint)
			write_sentence(arena_printf(&a, "cure: %s", hint), f);
	}
	arena_free(&a);
}

/* Writes a section of infer-check(1) that lists every finding with its cause and its cure, grouped by exit status. */
static void write_findings(FILE *f)
{
	struct arena a = {0};

	fputs(".SH FINDINGS\n", f);
	write_prose(
		"Findings are listed in the order of the exit status of their errors, each with its cause and its cure. "
		"The same id with W- is a warning, and with N- a note; neither changes the status.",
		".PP", f);
	for (size_t k = 0; k < sizeof(statuses) / sizeof(*statuses); k++) {
		int status = (int)strtol(statuses[k].status, NULL, 10);
		if (status == 0 || status == code_exit(E_USAGE))
			continue;
		fprintf(f, ".SS Exit status %d\n", status);
		write_prose(statuses[k].text, ".PP", f);
		for (int c = E_OK + 1; c < E_COUNT; c++) {
			if (code_exit((enum code)c) != status)
				continue;
			fputs(".TP\n\\fB", f);
			write_roff(code_id((enum code)c, SEV_ERROR), f);
			fputs("\\fR\n", f);
			write_sentence(code_title((enum code)c), f);
			if (code_cure((enum code)c))
				write_sentence(arena_printf(&a, "cure: %s", code_cure((enum code)c)),
					       f);
		}
	}
	arena_free(&a);
}

static void write_see_also(const struct command *self, FILE *f)
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

static void write_synopsis(const struct command *c, FILE *f)
{
	fprintf(f, ".B infer %s\n", c->name);
	write_roff(c->synopsis, f);
	fputc('\n', f);
}

static void write_command_page(const struct command *c, FILE *f)
{
	struct arena a = {0};

	write_title(arena_printf(&a, "infer-%s", c->name), f);
	fprintf(f, ".SH NAME\ninfer\\-%s \\- ", c->name);
	write_roff(c->summary, f);
	fputs("\n.SH SYNOPSIS\n", f);
	write_synopsis(c, f);
	fputs(".SH DESCRIPTION\n", f);
	write_prose(c->about, ".PP", f);
	write_options(c, f);
	write_environment(c->bit, f);
	fputs(".SH EXIT STATUS\n", f);
	write_prose(
		c->bit == CMD_DIFF
			? "0: the models are the same, but for what --ignore names. 1: they differ. 2: there was trouble, so "
			  "nothing is known; the message says what, and infer(1) what it means. 124 and 130 as in infer(1)."
			: "0 means success. infer(1) lists the other values, and what each message means.",
		".PP", f);
	if (c->bit == CMD_CHECK)
		write_findings(f);
	fputs(".SH EXAMPLES\n", f);
	write_examples(c, true, f);
	write_see_also(c, f);
	arena_free(&a);
}

static void write_program_page(FILE *f)
{
	write_title("infer", f);
	fputs(".SH NAME\ninfer \\- run ONNX models and find what is wrong with them\n.SH SYNOPSIS\n",
	      f);
	for (const struct command *c = commands; c->name; c++) {
		if (c != commands)
			fputs(".br\n", f);
		write_synopsis(c, f);
	}
	fputs(".br\n.B infer \\-\\-help\n|\n.B \\-\\-version\n.SH DESCRIPTION\n", f);
	write_prose(
		"infer reads models in the ONNX format, runs them, and reports precisely what is wrong: an unknown "
		"operator or type, an input with the wrong shape or layout, values that are not finite.\n\n"
		"Data goes to standard output; messages and progress go to standard error. For an unknown option, "
		"subcommand, input or dimension, the error message suggests the most similar known name.\n\n"
		"The value of an option comes from, in increasing priority: its default, the YAML file given with "
		"--config (without that option: infer/config.yaml in XDG_CONFIG_HOME, or in ~/.config, if there is one), the environment, the command line. The file accepts the same options under the same names; "
		"error messages give the file name and line.",
		".PP", f);
	fputs(".SH COMMANDS\n", f);
	for (const struct command *c = commands; c->name; c++) {
		fprintf(f, ".TP\n.BR infer\\-%s (1)\n", c->name);
		write_sentence(c->summary, f);
	}
	write_environment(CMD_ALL, f);
	write_exit_status(f);
	write_diagnostics(f);
	fputs(".SH EXAMPLES\n", f);
	for (const struct command *c = commands; c->name; c++) {
		fprintf(f, ".SS infer %s\n", c->name);
		write_examples(c, true, f);
	}
	write_see_also(NULL, f);
}

void manual_page(const struct command *c, FILE *f)
{
	if (c)
		write_command_page(c, f);
	else
		write_program_page(f);
}

/* ---- the sample configuration */

static void write_yaml_row(const struct field *row, FILE *f)
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

	fputs("# The options of infer with their defaults; use with --config FILE. Keys are the names of the long\n"
	      "# options. A repeatable option takes a list; an option of the form NAME=VALUE may take a mapping,\n"
	      "# for example  dim: {batch: 4}; true stands for an option without its value, where that may be left\n"
	      "# out:  random: true.  The environment and the command line override this file.\n"
	      "# Written by `infer __gen yaml'.\n",
	      f);
	for (const struct field *row = options_table; row->name; row++) {
		if (row->flags & OPTION_COMMAND_LINE)
			continue;
		if (!group || strcmp(group, row->group) != 0) {
			group = row->group;
			fprintf(f, "\n# ---- %s\n", group);
		}
		write_yaml_row(row, f);
	}
}
