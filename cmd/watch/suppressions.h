/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_WATCH_SUPPRESSIONS_H
#define CMD_WATCH_SUPPRESSIONS_H
/* Known findings that are not reported: --suppressions FILE, --write-suppressions FILE. */
#include "base/diag.h"

/* A line of the file: ID [PATTERN]; both may contain the wildcards * and ?. */
struct known {
	const char *id, *pattern; /* a NULL pattern matches every finding with this id */
	int line;
	bool used;
};
struct known_list {
	const char *path;
	struct known *v;
	size_t n;
};

/* Reads the file. An invalid line is an E_CONFIG that names it. The strings and entries live in the arena. */
int known_read(struct known_list *k, const char *path, struct arena *a, struct diag *d);
/* Removes the known findings from d; returns their number. */
size_t known_suppress(struct known_list *k, struct diag *d);
/*
 * Writes a line for each finding in d except notes, with * in place of the parts that change from
 * run to run. Fails with E_OUTPUT.
 */
int known_write(const char *path, struct diag *d);

#endif
