/* SPDX-License-Identifier: Apache-2.0 */
/* infer: runs ONNX models and finds what is wrong with them. */
#include "base/file.h"
#include "base/str.h"
#include "cmd/run/blame.h"
#include "cmd/options/foreign.h"
#include "cmd/options/subcommand.h"
#include "cmd/options/whole_line.h"
#include "cmd/output/output.h"
#include "cmd/options/version.h"
#include "cmd/output/watchdog.h"
#include "custom/custom.h"
#include "session/backends.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool equals_either(const char *word, const char *a, const char *b)
{
	return strcmp(word, a) == 0 || (b && strcmp(word, b) == 0);
}

/* Returns the hint for another tool's name in place of a subcommand, with the whole line if its options have equals of ours. */
static const char *with_profile_line(const char *hint, int argc, char *const *argv, struct diag *d)
{
	const char *line = str_starts(hint, "infer profile MODEL ")
				   ? whole_line(command_find("profile"), 1, argc, argv, d)
				   : NULL;

	return line ? fmt(d, "%s; the whole line: %s", hint, line) : hint;
}

/* argv holds the words behind the name. */
static int unknown_command(const char *name, int argc, char *const *argv, struct diag *d)
{
	static const char *const plain[] = {"--version", "--help"};
	const char *near = !strcmp(name, "-V")	      ? plain[0]
			   : *name == '-'	      ? str_nearest(name, plain, 2)
			   : !strcmp(name, "version") ? plain[0]
						      : NULL;

	if (near)
		return FAIL(d, E_OPTION,
			    .message = fmt(d, "unknown %s '%s'",
					   *name == '-' ? "option" : "subcommand", name),
			    .hint = fmt(d, "did you mean '%s'?", near));
	if (*name == '-') {
		size_t n = strcspn(name, "=");
		const struct field *ours =
			str_starts(name, "--")
				? field_find(options_table, fmt(d, "%.*s", (int)n - 2, name + 2))
				: NULL;
		if (ours)
			return FAIL(
				d, E_USAGE,
				.message = fmt(d, "option '%s' comes before the subcommand", name),
				.hint = fmt(d, "write it behind the subcommand: infer run MODEL --%s%s%s",
					    ours->name, ours->arg ? " " : "",
					    ours->arg ? ours->arg : ""));
		const char *other = foreign_hint(name, n, CMD_ALL, name[n] ? name + n + 1 : NULL, d);
		return FAIL(d, E_USAGE,
			    .message = fmt(d, "option '%s' comes before the subcommand", name),
			    .hint = other ? other : "infer COMMAND [OPTION]...; see infer --help");
	}
	if (access(name, F_OK) == 0)
		return FAIL(d, E_USAGE, .message = fmt(d, "'%s' is a file, not a subcommand", name),
			    .hint = fmt(d, "infer run %s runs it, infer inspect %s shows what it wants as inputs",
					str_quoted(&d->arena, name), str_quoted(&d->arena, name)));
	const char *foreign = foreign_hint(name, strlen(name), CMD_ALL, NULL, d);
	if (foreign)
		return FAIL(d, E_OPTION, .message = fmt(d, "unknown subcommand '%s'", name),
			    .hint = with_profile_line(foreign, argc, argv, d));
	for (const struct command *c = commands; c->name; c++) {
		const char *pair[2] = {near, c->name};
		const char *now = str_nearest(name, pair, 2);
		near = now ? now : near;
	}
	return FAIL(d, E_OPTION, .message = fmt(d, "unknown subcommand '%s'", name),
		    .hint = near ? fmt(d, "did you mean '%s'?", near) : "see infer --help");
}

/* Opens the libraries of --ops. Their code may crash, of which the user then hears which node ran. */
static int open_libraries(const struct options *o, struct diag *d)
{
	const struct texts *ops = &o->config.ops;

	for (int64_t i = 0; i < ops->n; i++)
		if (!ops->v[i].n && !(o->command->bit & CMD_INSPECT))
			return FAIL(d, E_OPTION, .slot = "--ops",
				    .message = "the value is missing: the file of a library",
				    .hint = "infer inspect --ops lists the operators");
	if (ops->n)
		watchdog_crash();
	return custom_open(ops, d);
}

/*
 * Returns the error of a write to standard output that failed earlier, whose errno is lost: a pipe tells whether its reader has
 * closed it.
 */
static int error_of_earlier_write(void)
{
	struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&out, 1, 0) == 1 && out.revents & POLLERR ? EPIPE : EIO;
}

/*
 * Flushes standard output and reports a write error: a full disk must not pass as success. Returns true if a pipe's reader has
 * closed it, which is no error.
 */
static bool flush_stdout(struct diag *d)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return false;
	int error = errno ? errno : error_of_earlier_write();
	if (error != EPIPE)
		FAIL(d, E_OUTPUT,
		     .message = fmt(d, "standard output: cannot write: %s", strerror(error)));
	return error == EPIPE;
}

/* Prints the findings, and ends the process if nobody reads standard output and there is no error to report by the status. */
static void print_findings(struct options *o, struct diag *d)
{
	struct json j;

	if (o->json && !o->document) {
		json_envelope_begin(&j, o, d);
		json_envelope_end(&j, d);
	}
	size_t errors = d->errors;
	bool reader_gone = flush_stdout(d);
	if (!o->json || d->errors > errors)
		output_findings(o, d, stderr);
	if (reader_gone && !diag_exit(d))
		file_reader_gone();
}

static void run_command(struct options *o, char **argv, struct diag *d)
{
	if (o->help) {
		help_print(o->command, stdout);
		o->document = true;
	} else if (o->version) {
		printf("infer %s\n", infer_build);
		o->document = true;
	} else {
		watchdog_start(o->timeout, o->json);
		if (o->noperands && !o->after_dashes && o->command->bit & (CMD_RUNS | CMD_INSPECT))
			watchdog_model(o->operand[0]);
		blame_begin(o);
		int rc = open_libraries(o, d);
		rc = rc ? rc : o->command->run(o, d);
		if (rc && !d->errors)
			FAIL(d, (enum code) - rc, .message = NULL);
		const struct finding *blamed = blame_end(o, argv, d);
		if (blamed && o->printed) /* the report has it without the node */
			finding_print(blamed, stderr, output_color(o, stderr));
	}
}

static int run_subcommand(const struct command *c, int argc, char **argv)
{
	struct diag d = {0};
	struct options o;
	bool json = false;

	for (int i = 0; i < argc; i++)
		json |= equals_either(argv[i], "--json", NULL);
	watchdog_begin(c->name, json);
	int rc = options_parse(&o, c, argc, argv, &d);
	o.words = argv - 1;
	if (rc == 0)
		run_command(&o, argv - 2, &d);
	else
		o.json |= json;
	hints_name_files(&d, argc, argv);
	print_findings(&o, &d);
	int status = diag_exit(&d);
	if (!status || o.status_stands)
		status = o.status;
	else if (c->bit == CMD_CHECK && (o.after_dashes || o.watch.pid != INT_ABSENT) &&
		 o.watch.error_exit != INT_ABSENT)
		status = (int)o.watch.error_exit;
	else if (c->bit == CMD_DIFF)
		status = 2; /* trouble, as diff(1) has it */
	options_free(&o);
	diag_free(&d);
	watchdog_end();
	return status;
}

/* Handles a first word that is no subcommand: help, version, hidden commands, and errors. */
static int run_without_subcommand(int argc, char **argv)
{
	struct diag d = {0};
	struct options o = {0};
	const char *word = argc > 1 ? argv[1] : NULL;
	const struct command *c = argc > 2 ? command_find(argv[2]) : NULL;

	if (!word) {
		help_print(NULL, stderr);
		return code_exit(E_USAGE);
	}
	if (equals_either(word, "--version", NULL))
		printf("infer %s\n", infer_build);
	else if (equals_either(word, "--help", "-h") ||
		 (equals_either(word, "help", NULL) && (argc == 2 || c)))
		help_print(c, stdout);
	else if (equals_either(word, "__gen", NULL))
		cmd_gen(argc - 2, argv + 2, &d);
	else if (equals_either(word, "__complete", NULL))
		cmd_complete(argc - 2, argv + 2, &d);
	else
		unknown_command(equals_either(word, "help", NULL) ? argv[2] : word, argc - 2,
				argv + 2, &d);
	hints_name_files(&d, argc - 1, argv + 1);
	print_findings(&o, &d);
	int status = diag_exit(&d);
	diag_free(&d);
	return status;
}

int main(int argc, char **argv)
{
	const struct command *c = argc > 1 ? command_find(argv[1]) : NULL;

	watchdog_writes();
	int status = c ? run_subcommand(c, argc - 2, argv + 2) : run_without_subcommand(argc, argv);
	if (backends_may_exit_quickly()) {
		fflush(NULL);
		_exit(status);
	}
	return status;
}
