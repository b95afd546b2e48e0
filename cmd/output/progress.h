/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_PROGRESS_H
#define CMD_OUTPUT_PROGRESS_H
/*
 * A bar on standard error with the time that remains, for what takes more than two seconds. Nothing where
 * standard error is no terminal, with --quiet, or on a dumb terminal. Others that write there call
 * progress_clear first.
 */
#include "cmd/options/options.h"

struct progress {
	bool on, shown;
	uint64_t start, last;
	double done;  /* at `last` */
	double speed; /* of the whole a second, smoothed */
	char what[48];
};

void progress_begin(struct progress *p, const struct options *o);
/* done: 0..1 of the whole, never less than before; what: a few words. Costs a look at the clock. */
void progress_at(struct progress *p, double done, const char *what);
void progress_clear(struct progress *p);

#endif
