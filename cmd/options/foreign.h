/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OPTIONS_FOREIGN_H
#define CMD_OPTIONS_FOREIGN_H
#include <stddef.h>

/*
 * Returns what to write instead of an option ("--batch", "-niter") or a subcommand ("benchmark") of another tool, or NULL if
 * the word is not in foreign.def. n is the length of the word.
 */
const char *foreign_hint(const char *word, size_t n);

#endif
