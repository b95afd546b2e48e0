/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_CHECK_REPORT_H
#define CMD_CHECK_REPORT_H
/* The report of infer check, in three forms. */
#include "check/check.h"
#include "cmd/options/options.h"

/* A line for each check that has ended. */
void report_print(const struct check_context *c, FILE *f, bool color);
/* The last line: findings, time since `start` (clock_ns), exit status. */
void report_end(const struct check_context *c, uint64_t start, FILE *f);
void report_json(const struct check_context *c, struct options *o);
/* One page that holds everything. E-OUTPUT. */
int report_page(const struct check_context *c, const char *path, struct diag *d);

#endif
