/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DL_H
#define BASE_DL_H
/*
 * Optional shared libraries: a struct of typed pointers filled from one list of
 * symbols. Looked for in INFER_LIBRARY_PATH (a colon list), then beside the
 * program ($ORIGIN/../lib, $ORIGIN/../lib/infer), then where the system looks.
 */
#include "base/diag.h"

#include <stdbool.h>

struct dl_symbol {
	const char *name;
	bool required;
};
struct dl {
	void *handle;
	char path[512];	  /* what was opened */
	char tried[1024]; /* what was looked for and where, for the message */
};
/* Opens the first of sonames (NULL ends) that can be; fills table[i] with symbols[i]. */
int dl_open(struct dl *lib, const char *const *sonames, const struct dl_symbol *symbols,
	    void **table, size_t n, struct diag *d);

#endif
