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
	char tried[2048]; /* what was looked for and where, for the message */
};
/* Opens the first of sonames (NULL ends) that can be; fills table[i] with symbols[i]. */
int dl_open(struct dl *lib, const char *const *sonames, const struct dl_symbol *symbols,
	    void **table, size_t n, struct diag *d);

struct dl_search {
	const char *const *folders; /* patterns as of glob(7), looked into last; NULL ends */
	/*
	 * Looks at an opened library: false where it does not suit, with what it is in `found`, which is
	 * noted, and the search goes on.
	 */
	bool (*suits)(void *const *table, char *found, size_t room);
	const char *expected; /* for the message: which version suits */
};
int dl_find(struct dl *lib, const char *const *sonames, const struct dl_search *search,
	    const struct dl_symbol *symbols, void **table, size_t n, struct diag *d);

#endif
