/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/step_repeat.h"

#include "plan/exec.h"

int step_repeat(const struct call *c, const struct step_repeat *with, struct diag *d)
{
	/* this cast is valid because a step is the first member of its step_plan */
	const struct step_plan *p = (const struct step_plan *)(const void *)c->step;
	struct call repeat = *c;

	repeat.in = with->in;
	repeat.out = with->out;
	repeat.owner = with->owner;
	repeat.alloc = with->alloc;
	repeat.values = with->values;
	repeat.diag = d;
	if (with->workspace)
		repeat.workspace = with->workspace;
	bind_captures(&repeat);
	int err = p->run(&repeat);
	bind_captures(c); /* the bodies are shared with the original call */
	return err;
}
