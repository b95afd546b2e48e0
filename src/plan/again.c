/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/again.h"

#include "plan/exec.h"

int step_again(const struct call *c, const struct again *with, struct diag *d)
{
	/* this cast is valid because a step is the first member of its step_plan */
	const struct step_plan *p = (const struct step_plan *)(const void *)c->step;
	struct call again = *c;

	again.in = with->in;
	again.out = with->out;
	again.owner = with->owner;
	again.alloc = with->alloc;
	again.values = with->values;
	again.diag = d;
	if (with->workspace)
		again.workspace = with->workspace;
	bind_captures(&again);
	int err = p->run(&again);
	bind_captures(c); /* the bodies are shared with the original call */
	return err;
}
