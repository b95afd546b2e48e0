/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_STEP_REPEAT_H
#define PLAN_STEP_REPEAT_H
/* Repeats a step of an observed run on other operands, so that a check can see what the step makes of them. */
#include "plan/plan.h"

/* The operands: tensors of the same types, layouts and places as those of the original call. */
struct step_repeat {
	const struct tensor *const *in;
	struct tensor *const *out;
	/*
	 * For a dynamic step: alloc allocates its outputs, values returns the arena for their host values. Both find
	 * their own data in `owner`.
	 */
	void *owner;
	int (*alloc)(const struct call *, uint32_t out, enum dtype t, const struct shape *s);
	struct arena *(*values)(const struct call *, uint32_t out);
	/* step->workspace bytes; NULL for that of the call, which is no longer the step's own once the run has gone on */
	void *workspace;
};
/*
 * Runs the step of call c again. Observers may call this after the step has ended; with a workspace of its own, a step of the host may
 * be run after the run has ended, too, until the session runs again. Returns 0 or -code.
 */
int step_repeat(const struct call *c, const struct step_repeat *with, struct diag *d);

#endif
