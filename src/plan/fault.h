/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_FAULT_H
#define PLAN_FAULT_H
/*
 * Plants faults in steps, so that `infer check` can be tested. Only the fault-injection build, `make FAULTS=1`, has
 * them; any other build refuses to run when INFER_FAULT is set.
 *
 *   INFER_FAULT="NODE:KIND[=VALUE][@WHERE][,...]"
 *
 * NODE is a node's name in the file (also of a node that was fused into another) or a position in
 * the order of the optimized graph. WHERE limits the fault to sessions on a device (cpu, cuda) or of
 * an optimization level (none, basic, full), a precision (fp32, ...) or a memory plan (planned,
 * unplanned), so that of two sessions in one process only one has it. The kinds are listed in fault.c and in
 * CONTRIBUTING.md; a backend adds its own by `faults` of its struct backend.
 *
 * A step with a fault must run anew each time and cannot be part of a CUDA graph, except for backend's kinds that only
 * launch (struct fault_kind).
 */
#include "plan/segment.h"

#ifdef FAULTS
/*
 * Parses INFER_FAULT for a session whose backend is open. Fails with E-OPTION if it is wrong. is_backend tells
 * whether there is a backend of that name.
 */
int faults_open(struct runtime *rt, bool (*is_backend)(const char *name), struct diag *d);
/* Warns on stderr about each fault whose node had no step, and frees the memory that the faults leaked. */
void faults_close(struct runtime *rt);
/* Wraps the step of the node at position `at` of the order if INFER_FAULT names it. */
int fault_plant(struct instance *x, struct segment *s, struct step_plan *p, uint32_t at,
		struct diag *d);
/* Whether the step may be part of a CUDA graph, because it has no fault or only a fault that launches kernels. */
bool fault_replays(const struct step_plan *p);
#else
static inline bool fault_replays(const struct step_plan *p)
{
	(void)p;
	return true;
}
int faults_open(struct runtime *rt, bool (*is_backend)(const char *name), struct diag *d);
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
