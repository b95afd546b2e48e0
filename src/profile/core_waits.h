/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_CORE_WAITS_H
#define PROFILE_CORE_WAITS_H
/*
 * Measures how long threads waited for a core during a run. The kernel counts for each thread how long it could have
 * run but had no core; a run without such waits had all the cores it needed, whatever other programs did.
 *
 * A thread of the pool that has lost its core falls asleep. It is then woken too late for the next small piece of work
 * and falls asleep again, so that few later runs use all threads. Therefore, after a disturbed run, all threads of the
 * pool are made to meet before the next run.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core_waits;
/*
 * Watches the threads that exist now; called by the thread that measures. If there are as many cores as threads of
 * the pool, each thread is pinned to a core. Returns NULL if the system does not count waits.
 */
struct core_waits *core_waits_new(void);
void core_waits_free(struct core_waits *w);

/* Call before a run. After a disturbed run all threads of the pool meet first. w may be NULL. */
void core_waits_begin(struct core_waits *w);
/*
 * Call after the run. Returns the seconds that threads waited during the run, 0 if w is NULL. The wait of another
 * thread is only known when that thread runs again. Therefore up to *missed seconds of the waits that are known now
 * may belong to the time before core_waits_begin.
 */
double core_waits_end(struct core_waits *w, double *missed);
/* Returns the seconds for which the threads together have had a core so far and did not spin for work; 0 if w is NULL. */
double core_waits_cpu(const struct core_waits *w);

#endif
