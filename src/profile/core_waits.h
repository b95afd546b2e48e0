/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_CORE_WAITS_H
#define PROFILE_CORE_WAITS_H
/*
 * Runs that nobody disturbs, on a machine where others work, too. The kernel counts how long each thread waited for a
 * core although it could run: a run during which none did had all the cores it wanted, whatever else went on.
 * Where a thread of the pool has lost its core, it is woken for each piece of work too late to take part, and runs
 * with all threads become rare; so the threads meet before the next run that is measured.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct quiet;
/* Of the threads that there are now, called by the one that measures. NULL where the system does not count waits. */
struct quiet *quiet_new(void);
void quiet_free(struct quiet *q);

/* Before a run: where threads waited since quiet_new or the last quiet_end, all meet. q may be NULL. */
void quiet_begin(struct quiet *q);
/*
 * After it: seconds that threads waited during it. What others waited is known late, when they run again: `missed` is how
 * much of it may belong to the time before quiet_begin.
 */
double quiet_end(struct quiet *q, double *missed);

#endif
