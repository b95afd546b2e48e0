/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OPTIONS_FOREIGN_H
#define CMD_OPTIONS_FOREIGN_H
#include <stddef.h>

struct arena;
struct diag;

/*
 * Returns what to write instead of an option ("--batch", "-niter") or a subcommand ("benchmark") of another tool, or NULL if
 * the word is not in foreign.def. n is the length of the word. commands are the bits of the subcommands behind which it stands,
 * CMD_ALL for a word in place of a subcommand. value is what was given to the option, or NULL: the hint repeats it if it fits.
 */
const char *foreign_hint(const char *word, size_t n, unsigned commands, const char *value,
			 struct diag *d);

/* Returns the value of --input that trtexec's x:a.bin is, x=a.bin; other values as they are. */
const char *foreign_input(const char *value, struct arena *a);

/*
 * Puts files of the command line into the hints of all findings, so that the commands in them can be pasted: the first model for
 * MODEL, the first two for "A.onnx B.onnx" and "A B", the first picture for PICTURE, the first input for FILE behind "--input" or MODEL.
 */
void hints_name_files(struct diag *d, int argc, char *const *argv);

/* Returns foreign_hint() of the word in foreign.def that `word` misspells, or NULL. */
const char *foreign_near(const char *word, size_t n, unsigned commands, const char *value,
			 struct diag *d);

/* Returns what to write instead of a value that the option of ours (without dashes) does not take, or NULL. */
const char *foreign_value_hint(const char *option, const char *value);

#endif
