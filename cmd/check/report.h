/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_CHECK_REPORT_H
#define CMD_CHECK_REPORT_H
/* The report of infer check as text, JSON and HTML. */
#include "check/check.h"
#include "cmd/options/options.h"

/* Prints a line for each finished check. */
void report_print(const struct check_context *c, FILE *f, bool color);
/* Prints the last line: number of findings, time since `start` (of clock_ns()), exit status. */
void report_end(const struct check_context *c, uint64_t start, FILE *f);
void report_json(const struct check_context *c, uint64_t start, struct options *o);
/* Writes the document of --json to a file. Fails with E-OUTPUT. */
int report_save(const struct check_context *c, uint64_t start, struct options *o, const char *path);
/* Writes the same text as to standard output, without colors. */
int report_text(const struct check_context *c, uint64_t start, const char *path);
/* Writes the report as one HTML page. Fails with E-OUTPUT. */
int report_page(const struct check_context *c, const struct options *o, const char *path,
		struct diag *d);

/* Writes the files of --export. */
int report_ci(const struct check_context *c, const struct options *o, struct diag *d);

#endif
