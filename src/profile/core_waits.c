/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/core_waits.h"

#include "base/clock.h"
#include "base/pool.h"
#include "base/proc.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* As often as a worker's patience takes to grow from its least to its most (base/pool.c). */
enum { MEETINGS = 8 };

static const uint64_t PATIENCE = 10000000; /* ns that one waits for the others */

struct quiet {
	struct proc_waits *waits;
	uint64_t late; /* what threads had waited when the run began, the caller apart */
	bool disturbed;
};

/* ---- all threads of the pool, at once */

struct meeting {
	_Atomic int arrived;
	int threads;
	uint64_t end;
	int (*core)[]; /* pin to these, by thread; NULL: leave them */
};

static void pin(int core)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)core, &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
}

/* One piece for each thread: who has one waits for those that have not. */
static void meet(void *arg, int64_t begin, int64_t end, int thread)
{
	struct meeting *m = arg;

	if (m->core && thread < m->threads)
		pin((*m->core)[thread]);
	atomic_fetch_add(&m->arrived, (int)(end - begin));
	while (atomic_load(&m->arrived) < m->threads && clock_ns() < m->end)
		;
}

static bool gather(struct meeting *m, int times)
{
	m->threads = pool_threads();
	m->end = clock_ns() + PATIENCE;
	for (int i = 0; i < times && m->threads > 1 && clock_ns() < m->end; i++) {
		atomic_store(&m->arrived, 0);
		pool_for(m->threads, 1, meet, m);
	}
	return clock_ns() < m->end;
}

/*
 * Each thread to a core of its own, where there is one for each: the scheduler may put two on one core when others
 * work, and leaves them there.
 */
static void spread(void)
{
	cpu_set_t may;
	int core[CPU_SETSIZE], n = 0;

	if (sched_getaffinity(0, sizeof(may), &may))
		return;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET((size_t)i, &may))
			core[n++] = i;
	if (n < 2 || n != pool_threads())
		return;
	struct meeting m = {.core = &core};
	for (int i = 0; i < 10 && !gather(&m, 1); i++)
		;
}

/* ---- around a run */

struct quiet *quiet_new(void)
{
	struct quiet *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	spread();
	q->waits = proc_waits_new();
	q->disturbed = true;
	if (q->waits)
		return q;
	free(q);
	return NULL;
}

void quiet_free(struct quiet *q)
{
	if (!q)
		return;
	proc_waits_free(q->waits);
	free(q);
}

void quiet_begin(struct quiet *q)
{
	uint64_t own;

	if (!q)
		return;
	if (q->disturbed)
		gather(&(struct meeting){.core = NULL}, MEETINGS);
	proc_waits_read(q->waits, &own, &q->late);
}

double quiet_end(struct quiet *q, double *missed)
{
	uint64_t own, others;

	*missed = 0;
	if (!q)
		return 0;
	proc_waits_read(q->waits, &own, &others);
	q->disturbed = own + others > 0;
	*missed = (double)(q->late > others ? q->late : others) * 1e-9;
	return (double)(own + others) * 1e-9;
}
