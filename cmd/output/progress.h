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
/*
 * Updates the bar. `done` is the finished fraction of the work, from 0 to 1, and must never
 * decrease; `what` describes the current step in a few words. A call usually costs only one reading
 * of the clock.
 */
void progress_at(struct progress *p, double done, const char *what);
void progress_clear(struct progress *p);

#endif
