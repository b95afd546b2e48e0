/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DL_H
#define BASE_DL_H
/*
 * Optional shared libraries, whose functions are called through a struct of typed pointers that is filled from
 * a list of symbols. A library is searched in the folders of INFER_LIBRARY_PATH (separated by colons), beside the program
 * ($ORIGIN/../lib, $ORIGIN/../lib/infer), among those that this process has loaded, in toolkits' folders, in the folders of
 * the dynamic linker, and in environments of Python, in this order.
 */
#include "base/diag.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct dl_symbol {
	const char *name;
	bool required;
};
struct dl {
	void *handle;
	char path[512];	 /* path of the opened library */
	const char *how; /* where it was found: "beside the program" */
	/* places that were searched, each with the reason why it failed, for messages */
	char tried[2048];
};
/*
 * Shortens a text of `tried` for people: keeps the places that have the library but cannot give it, and those that the user
 * named in INFER_LIBRARY_PATH, and counts the others, which do not have it. The text lives in the arena.
 */
const char *dl_brief(const char *tried, struct arena *a);
/*
 * Opens the first of the sonames (NULL ends the list) that is found and has all required symbols.
 * Sets table[i] to the address of symbols[i], or to NULL if that symbol is optional and missing.
 * Fails with E-LIBRARY.
 */
int dl_open(struct dl *lib, const char *const *sonames, const struct dl_symbol *symbols,
	    void **table, size_t n, struct diag *d);

/* Whether a library that stays open for the rest of the process has been found. Zero-initialized. */
struct dl_kept {
	pthread_mutex_t lock;
	atomic_bool open;
};
/*
 * Works like dl_open(), but looks for the library only until it has been found once, and later leaves the table as it is: the
 * dynamic linker has one lock for all threads, for which threads that decode small files would wait. The caller keeps
 * `k` and `table` for the rest of the process. Any thread may call it, and may read the table after it has returned 0.
 */
int dl_open_kept(struct dl_kept *k, const char *const *sonames, const struct dl_symbol *symbols,
		 void **table, size_t n, struct diag *d);

struct dl_search {
	/* glob(7) patterns of further folders, searched before and after those of the dynamic linker; NULL ends a list */
	const char *const *toolkits, *const *environments;
	/*
	 * Called with the functions of an opened library. If the library cannot be used, writes its
	 * version ("version 8.9") into `found` for the message and returns false; the search then
	 * goes on.
	 */
	bool (*suits)(void *const *table, char *found, size_t room);
	const char *expected; /* versions that can be used, for the message */
};
/* Works like dl_open(), with the further folders and conditions of `search`. */
int dl_find(struct dl *lib, const char *const *sonames, const struct dl_search *search,
	    const struct dl_symbol *symbols, void **table, size_t n, struct diag *d);

/*
 * Opens the library in this file, and nothing else, whatever the dynamic linker would find. Fails with E-LIBRARY.
 */
int dl_open_file(struct dl *lib, const char *path, const struct dl_symbol *symbols, void **table,
		 size_t n, struct diag *d);

/*
 * Lets an opened library call `function` where it would call the function of this name in another
 * library. Calls of other libraries stay as they are. Returns false if the library has no such call.
 */
bool dl_redirect(const struct dl *lib, const char *name, void (*function)(void));

#endif
