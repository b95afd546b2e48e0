/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STR_H
#define BASE_STR_H
/*
 * Functions for text: a growing buffer, formatting of numbers for people, and a search for the name
 * that is nearest to a misspelt one.
 */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* A string that grows in an arena. Once text has been added, s is always NUL-terminated. */
struct str {
	struct arena *arena;
	char *s;
	size_t n, cap;
};
void str_add(struct str *b, const char *s);
void str_add_n(struct str *b, const char *s, size_t n);
void str_addf(struct str *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *str_get(const struct str *b); /* "" if nothing was added */

const char *str_count(struct arena *a, int64_t n);		     /* "1,228,800" */
const char *str_many(struct arena *a, uint64_t n, const char *what); /* "1 node", "1,200 nodes" */
const char *str_all(struct arena *a, uint64_t n,
		    const char *what);		    /* "the only node is", "all 1,200 nodes are" */
const char *str_bytes(struct arena *a, int64_t n);  /* "435.6 MiB", "12 bytes" */
const char *str_seconds(struct arena *a, double s); /* "12.3 ms", "4.56 s" */
const char *str_span(struct arena *a, double s);    /* "40 s", "12 min", "3.5 hours", "9 days" */
/* formats v with the fewest digits that read back as the same value */
const char *str_float(struct arena *a, float v);
const char *str_double(struct arena *a, double v); /* the same; "nan", "inf" */
/* the text as one word of a shell: as it is, or in quotes */
const char *str_quoted(struct arena *a, const char *s);
bool str_starts(const char *s, const char *prefix);

/*
 * Returns the edit distance: the number of insertions, deletions, substitutions and swaps of
 * neighbours.
 */
unsigned str_distance(const char *a, const char *b);
/*
 * Returns the name with the smallest edit distance to `meant`, or NULL if every name differs in
 * more than a third of its characters. Entries of names may be NULL.
 */
const char *str_nearest(const char *meant, const char *const *names, size_t n);

#endif
