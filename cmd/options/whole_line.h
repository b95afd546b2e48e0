/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OPTIONS_WHOLE_LINE_H
#define CMD_OPTIONS_WHOLE_LINE_H
/* The command that was meant by a line with several words that are not ours, so that they are not told one by one. */
#include "base/diag.h"

#include <stdbool.h>
#include <stddef.h>

struct command;

/* Whether a word of n letters is a key of --input, such as resize. */
bool is_input_key(const char *word, size_t n);

/*
 * Whether the words have --mean or --std with values from 0 to 1, as ImageNet's, but no --scale: pixels must be divided before.
 */
bool wants_scale(int argc, char *const *argv);

/*
 * Returns the line "infer run MODEL FILE,resize=...,mean=... --top 5 --labels FILE" that a command line with --mean, --topk
 * or --names is meant as, in the arena of d. A picture is resized to what the model takes if nothing else is said. Returns NULL
 * if the line names no model, has only one such word (foreign counts those that stand before argv), or a word that cannot be carried over.
 */
const char *whole_line(const struct command *command, int foreign, int argc, char *const *argv,
		       struct diag *d);

#endif
