/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TAME_H
#define BASE_TAME_H
/*
 * Names in a model must not be able to send commands to the terminal. Control characters (C0, DEL, C1) and bytes
 * that are not valid UTF-8 are shown as their numbers: \x1b. So are characters that cannot be seen or that change
 * the order of others: \u202e. All text that is printed for people passes through these functions; JSON has
 * escapes of its own.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct arena;

enum { TAMED_BYTES = 16 };
/*
 * Tames the first character of a text of n bytes, at least 1: returns how many bytes the character
 * has, and sets `shown` to the text to show for it. Newlines and tabs are kept if `lines` is true.
 * A signal handler may call it.
 */
size_t tame_char(const char *text, size_t n, bool lines, char shown[TAMED_BYTES]);
/* Writes the text, with escapes for all control characters except newlines and tabs. */
void tame_write(const char *text, size_t n, FILE *to);
/*
 * Returns a stream that writes to `to` like tame_write(), line by line; fclose() writes the rest, and
 * fails if there was no memory for a line. Returns NULL if there is no memory.
 */
FILE *tame_open(FILE *to);
/*
 * Escapes a text that is printed within a line, so newlines and tabs become numbers too. Returns
 * `text` itself if nothing needs an escape.
 */
const char *tame_word(struct arena *a, const char *text);

#endif
