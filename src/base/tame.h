/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TAME_H
#define BASE_TAME_H
/*
 * Names in a model must not be able to send commands to the terminal. Control characters (C0, DEL, C1) and bytes
 * that are not valid UTF-8 are shown as their numbers: \x1b. All text that is printed for people passes through
 * these functions; data formats (JSON, Graphviz, the strings of --print) have escapes of their own.
 */
#include <stddef.h>
#include <stdio.h>

struct arena;

/* Writes the text, with escapes for all control characters except newlines and tabs. */
void tame_write(const char *text, size_t n, FILE *to);
/*
 * Returns a stream that writes to `to` like tame_write(), line by line; fclose() writes the rest.
 * Returns NULL if there is no memory.
 */
FILE *tame_open(FILE *to);
/*
 * Escapes a text that is printed within a line, so newlines and tabs become numbers too. Returns
 * `text` itself if nothing needs an escape.
 */
const char *tame_word(struct arena *a, const char *text);

#endif
