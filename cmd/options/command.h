/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OPTIONS_COMMAND_H
#define CMD_OPTIONS_COMMAND_H
/* The subcommands. To add one: a bit in options.h, a row in commands.c, a file with its function. */
#include "cmd/options/options.h"

struct example {
	const char *text, *line;
};

struct command {
	const char *name, *summary;
	const char *synopsis; /* what follows "infer NAME" */
	/* 0 or -code, with what is wrong in the diag. Data go to stdout, messages to stderr. */
	int (*run)(struct options *, struct diag *);
	unsigned bit;		  /* CMD_* */
	size_t least, most;	  /* operands */
	const char *operand_kind; /* completion, as metavar_kind of a field */
	const char *about;	  /* the manual's DESCRIPTION; paragraphs part at empty lines */
	const struct example *examples; /* ends with a NULL line */
};

/* Those that are offered, in the order of the manual; ends with a NULL name. */
extern const struct command commands[];
const struct command *command_find(const char *name);

int cmd_run(struct options *o, struct diag *d);
int cmd_inspect(struct options *o, struct diag *d);
int cmd_profile(struct options *o, struct diag *d);
int cmd_check(struct options *o, struct diag *d);
int cmd_cache(struct options *o, struct diag *d);
int cmd_doctor(struct options *o, struct diag *d);
/* infer check -- COMMAND and infer check --pid PID; o->status becomes the program's. */
int watch_command(struct options *o, struct diag *d);
/* An error where options for it are given for a model. */
int watch_misplaced(const struct options *o, struct diag *d);
int cmd_completion(struct options *o, struct diag *d);

/* Hidden: `infer __gen KIND [DIR]`, `infer __complete [-0] inputs|dims MODEL`. argv[0] is the first word after. */
int cmd_gen(int argc, char *const *argv, struct diag *d);
int cmd_complete(int argc, char *const *argv, struct diag *d);

/* What helps against a finding: its hint, or where it has none words for the manual. NULL only for E_OK. */
const char *code_cure(enum code code);
/* A sample of the configuration, all of it commented out; the manual page of a command (NULL: of infer). */
void sample_config(FILE *stream);
void manual_page(const struct command *c, FILE *stream);

/* `infer --help` (c NULL) and `infer COMMAND --help`. */
void help_print(const struct command *c, FILE *stream);

/* infer-operators(7): operators, versions, types, devices. */
void operators_page(FILE *f);

/* The completion script for a shell ("bash", "zsh", "fish"); false where there is none. */
bool shell_script(const char *shell, FILE *stream);

#endif
