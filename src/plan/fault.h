/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_FAULT_H
#define PLAN_FAULT_H
/*
 * Faults planted in steps, so that `infer check` can be tested. Only in the fault-injection build,
 * `make FAULTS=1`; any other build refuses to run where INFER_FAULT is set.
 *
 *   INFER_FAULT="NODE:KIND[=VALUE][@WHERE][,...]"
 *
 * NODE is a name as the file says it (that of a node which was fused away counts, too) or a position in
 * the order of the optimized graph. WHERE limits the fault to sessions on a device (cpu, cuda) or of
 * an optimization level (none, basic, full), a precision (fp32, ...) or a memory plan (planned,
 * unplanned), so that two sessions of one process can differ. The kinds are listed in fault.c and in
 * CONTRIBUTING.md; a backend adds its own by `faults` of its struct backend.
 *
 * A step with a fault must be launched by each run, not replayed, but for kinds of a backend's that say so.
 */
#include "plan/segment.h"

#ifdef FAULTS
/* Reads INFER_FAULT for a session whose backend is open. */
int faults_open(struct runtime *rt, struct diag *d);
/* Says on stderr which faults found no step. */
void faults_close(struct runtime *rt);
/* Wraps the step of the node at position `at` of the order where a fault is meant for it. */
int fault_plant(struct instance *x, struct segment *s, struct step_plan *p, uint32_t at,
		struct diag *d);
/* Whether a CUDA graph may hold the step: it has no fault, or one that only launches. */
bool fault_replays(const struct step_plan *p);
#else
static inline bool fault_replays(const struct step_plan *p)
{
	(void)p;
	return true;
}
int faults_open(struct runtime *rt, struct diag *d);
static inline void faults_close(struct runtime *rt)
{
	(void)rt;
}
static inline int fault_plant(struct instance *x, struct segment *s, struct step_plan *p,
			      uint32_t at, struct diag *d)
{
	(void)x, (void)s, (void)p, (void)at, (void)d;
	return 0;
}
#endif

#endif
