/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_WATCH_SUPPRESSIONS_H
#define CMD_WATCH_SUPPRESSIONS_H
/* Findings that are known and not told: --suppressions FILE, --write-suppressions FILE. */
#include "base/diag.h"

/* A line of the file: ID [PATTERN], both with * and ?. */
struct known {
	const char *id, *pattern; /* pattern NULL: every finding of the id */
	int line;
	bool used;
};
struct known_list {
	const char *path;
	struct known *v;
	size_t n;
};

/* E_CONFIG with the line where one is wrong. Strings and entries are the arena's. */
int known_read(struct known_list *k, const char *path, struct arena *a, struct diag *d);
/* Takes the findings that are known out of d; how many these were. */
size_t known_suppress(struct known_list *k, struct diag *d);
/* Lines for known_read, of all that d holds but notes; what changes from run to run is left open. */
int known_write(const char *path, struct diag *d);

#endif
