/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RE_H
#define BASE_RE_H
/*
 * Regular expressions in RE2's syntax over UTF-8, matched against whole strings, in time linear in the text. A
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
 * Returns the bytes of scratch memory that re_full_match() needs. The memory must be aligned for
 * int.
 */
size_t re_scratch(const struct re *re);
/* Returns true if the whole text matches. */
bool re_full_match(const struct re *re, const char *text, size_t n, void *scratch);

#endif
