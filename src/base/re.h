/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RE_H
#define BASE_RE_H
/*
 * Regular expressions in RE2's syntax over UTF-8, for whole strings, in time linear in the text:
 * a pattern becomes a program whose threads run side by side. No captures, no back references.
 */
#include "base/diag.h"

struct re;
/* NULL: the pattern is wrong, or asks for something unknown (said in d). */
const struct re *re_compile(const char *pattern, size_t n, struct arena *a, struct diag *d);
/* Scratch that a match needs. */
size_t re_scratch(const struct re *re);
bool re_full_match(const struct re *re, const char *text, size_t n, void *scratch);

#endif
