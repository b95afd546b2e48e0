/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCORE_EDITS_H
#define SCORE_EDITS_H
/* How far a text is from the right one. */
#include "base/arena.h"

#include <stdbool.h>

/*
 * The fewest insertions, deletions and substitutions that turn one text into the other (V. I. Levenshtein, Binary
 * codes capable of correcting deletions, insertions, and reversals, 1966), and the length of the right one. The units
 * are words, separated by white space, or characters (code points of UTF-8) without white space at both ends. The sum
 * of the edits over the sum of the lengths is the word or the character error rate, as jiwer computes them.
 */
struct edits {
	int64_t edits, length;
};
struct edits edits_between(const char *truth, const char *text, bool words, struct arena *a);

#endif
