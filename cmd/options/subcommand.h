/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OPTIONS_SUBCOMMAND_H
#define CMD_OPTIONS_SUBCOMMAND_H
/* The subcommands. To add one: a row in commands.def, and a file with its function cmd_NAME(). */
#include "cmd/options/options.h"

struct example {
	const char *text, *line;
};

struct command {
	const char *name, *summary;
	const char *synopsis; /* the text after "infer NAME" */
	/* Returns 0, or -code with the cause in the diag. Data go to stdout, messages to stderr. */
	int (*run)(struct options *, struct diag *);
	unsigned bit;	    /* CMD_* */
	size_t least, most; /* number of operands */
	/* kind of the operand for the shell completions, as in metavar_kind of struct field */
	const char *operand_kind;
	const char *about; /* the manual's DESCRIPTION; an empty line ends a paragraph */
	const struct example *examples; /* the last one has a NULL line */
};

/* All subcommands that users see, in the order of the manual; the last one has a NULL name. */
extern const struct command commands[];
/* Returns the subcommand of this name, or NULL if there is none. */
const struct command *command_find(const char *name);

#define COMMAND(bit, name, ...) int cmd_##name(struct options *o, struct diag *d);
#include "cmd/options/commands.def"
#undef COMMAND

/*
 * Hidden subcommands: `infer __gen KIND [DIR]`, `infer __complete [-0] inputs|dims MODEL`. argv[0]
 * is the word after "__gen" or "__complete".
 */
int cmd_gen(int argc, char *const *argv, struct diag *d);
int cmd_complete(int argc, char *const *argv, struct diag *d);

/* Writes a sample configuration file in which every option is commented out. */
void sample_config(FILE *stream);
/* Writes the manual page of a subcommand in roff, or of infer(1) if c is NULL. */
void manual_page(const struct command *c, FILE *stream);

/* Prints the text of `infer COMMAND --help`, or of `infer --help` if c is NULL. */
void help_print(const struct command *c, FILE *stream);

/*
 * Writes the completion script for a shell ("bash", "zsh", "fish"); returns false for any other
 * shell.
 */
bool shell_script(const char *shell, FILE *stream);

#endif
