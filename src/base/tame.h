/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TAME_H
#define BASE_TAME_H
/*
 * A model's names must not be able to command the terminal: of control characters (C0, DEL, C1) and of
 * bytes that are no UTF-8 the numbers are shown, as \x1b. Everything that is printed for people goes
 * through here; what is data (JSON, Graphviz, --print's strings) has escapes of its own.
 */
#include <stddef.h>
#include <stdio.h>

struct arena;

/* Newlines and tabs stay. */
void tame_write(const char *text, size_t n, FILE *to);
/* A stream into `to` of which the same is true; fclose passes on what is left. NULL: no memory. */
FILE *tame_open(FILE *to);
/* One word of a line: newlines and tabs are shown as numbers, too. The text itself where it is harmless. */
const char *tame_word(struct arena *a, const char *text);

#endif
