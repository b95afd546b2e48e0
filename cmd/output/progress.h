/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_PROGRESS_H
#define CMD_OUTPUT_PROGRESS_H
/*
 * A progress bar on standard error with the remaining time, for work that takes more than two seconds. It is not
 * shown with --quiet, on a dumb terminal, or if standard error is not a terminal. Call progress_clear() before
 * anything else is written to standard error.
 */
#include "cmd/options/options.h"

struct progress {
	bool on, shown;
	uint64_t start, last;
	double done;  /* at `last` */
	double speed; /* fraction of the work per second, smoothed */
	char what[48];
};

void progress_begin(struct progress *p, const struct options *o);
/* done: fraction of the work, 0..1, never decreasing; what: a few words on the current step. Cheap: one clock read. */
void progress_at(struct progress *p, double done, const char *what);
void progress_clear(struct progress *p);

#endif
