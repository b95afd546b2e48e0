/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/core_waits.h"

#include "base/clock.h"
#include "base/pool.h"
#include "base/proc.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/*
 * MEETINGS: how often all threads wait for one another after a disturbed run. That is enough for the spin limit of a worker
 * (base/pool.c) to double from the least to the most.
 */
enum { MEETINGS = 8, MAX_PIN_ATTEMPTS = 10 };

static const uint64_t MAX_MEETING_TIME = 10000000; /* ns that threads wait for one another */

struct core_waits {
	struct proc_waits *waits;
	/* the other threads' waits, in ns, that became known between the last run and this one */
	uint64_t others_before;
	bool disturbed; /* the last run was disturbed; true before the first run */
};

/* ---- meetings of all threads of the pool */

struct meeting {
	_Atomic int arrived;
	int threads;
	uint64_t end;  /* of clock_ns: nobody waits any longer */
	int (*core)[]; /* the core to pin each thread to, or NULL to pin none */
};

static void pin_to_core(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)core, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

/*
 * There is one piece of work for each thread. A thread that has taken a piece waits here for the other threads, and
 * so cannot take a second piece.
 */
static void attend_meeting(void *arg, int64_t begin, int64_t end, int thread)
{
	struct meeting *m = arg;

	if (m->core && thread < m->threads)
		pin_to_core((*m->core)[thread]);
	atomic_fetch_add(&m->arrived, (int)(end - begin));
	while (atomic_load(&m->arrived) < m->threads && clock_ns() < m->end)
		;
}

/* Holds `times` meetings. Returns false if the threads did not all meet within MAX_MEETING_TIME. */
static bool hold_meetings(struct meeting *m, int times)
{
	m->threads = pool_threads();
	m->end = clock_ns() + MAX_MEETING_TIME;
	for (int i = 0; i < times && m->threads > 1 && clock_ns() < m->end; i++) {
		atomic_store(&m->arrived, 0);
		pool_for(m->threads, 1, attend_meeting, m);
	}
	return clock_ns() < m->end;
}

/*
 * Pins each thread to a core of its own if there are as many cores: on a busy machine the scheduler may put two threads
 * on one core, and leaves them there.
 */
static void pin_threads(void)
{
	cpu_set_t allowed;
	int core[CPU_SETSIZE], n = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET((size_t)i, &allowed))
			core[n++] = i;
	if (n < 2 || n != pool_threads())
		return;
	struct meeting m = {.core = &core};
	for (int i = 0; i < MAX_PIN_ATTEMPTS && !hold_meetings(&m, 1); i++)
		;
}

/* ---- around a run */

struct core_waits *core_waits_new(void)
{
	struct core_waits *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	pin_threads();
	w->waits = proc_waits_new();
	w->disturbed = true;
	if (w->waits)
		return w;
	free(w);
	return NULL;
}

void core_waits_free(struct core_waits *w)
{
	if (!w)
		return;
	proc_waits_free(w->waits);
	free(w);
}

void core_waits_begin(struct core_waits *w)
{
	uint64_t own;

	if (!w)
		return;
	if (w->disturbed)
		hold_meetings(&(struct meeting){.core = NULL}, MEETINGS);
	proc_waits_read(w->waits, &own, &w->others_before);
}

double core_waits_end(struct core_waits *w, double *missed)
{
	uint64_t own, others;

	*missed = 0;
	if (!w)
		return 0;
	proc_waits_read(w->waits, &own, &others);
	w->disturbed = own + others > 0;
	*missed = (double)(w->others_before > others ? w->others_before : others) * 1e-9;
	return (double)(own + others) * 1e-9;
}

double core_waits_cpu(const struct core_waits *w)
{
	return w ? proc_waits_cpu(w->waits) - (double)pool_spun_ns() * 1e-9 : 0;
}
