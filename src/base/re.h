/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RE_H
#define BASE_RE_H
/*
 * Regular expressions in RE2's syntax over UTF-8, matched against whole strings or found in them, in time linear in the text. A
 * pattern is compiled to a program that is run for all alternatives side by side (Thompson 1968; Pike's VM).
 * There are no captures and no back references.
 */
#include "base/diag.h"

struct re;
/*
 * Compiles a pattern of n bytes into the arena. Returns NULL, with E-OP-ATTRIBUTE, if the pattern's
 * syntax is wrong or not supported.
 */
const struct re *re_compile(const char *pattern, size_t n, struct arena *a, struct diag *d);
/*
 * Returns the bytes of scratch memory that re_full_match() and re_search() need. The memory must be aligned for
 * size_t.
 */
size_t re_scratch(const struct re *re);
/* Returns true if the whole text matches. */
bool re_full_match(const struct re *re, const char *text, size_t n, void *scratch);
/*
 * Finds the first match that begins at byte `from` of the text or later, and of those that begin there the longest. Sets *begin and *end to where
 * it lies; the text before `from` counts for ^ and \b. Returns false if there is none.
 */
bool re_search(const struct re *re, const char *text, size_t n, size_t from, void *scratch,
	       size_t *begin, size_t *end);

#endif
