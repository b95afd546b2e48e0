/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_COLUMNS_H
#define BASE_COLUMNS_H
/* How wide text for people may be. */
#include "base/arena.h"

/*
 * Returns the number of columns that lines on standard output may have: COLUMNS of the environment, else the width of the
 * terminal. Returns 0 if neither is known: a file or a pipe takes lines of any length.
 */
int columns_wanted(void);
/* Returns the number of columns of a UTF-8 text, that is, its bytes without continuation bytes. */
int columns_of(const char *s);
/* Returns a text of at most `most` columns: a longer one keeps its beginning and its end, with an ellipsis between them. */
const char *columns_shorten(const char *s, int most, struct arena *a);

#endif
