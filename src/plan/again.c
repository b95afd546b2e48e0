/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/again.h"

#include "plan/segment.h"

/* The bodies read their captures where the step's inputs are. */
static void capture(const struct call *c)
{
	const struct node *n = c->step->node;

	for (uint32_t k = 0; c->step->body && k < n->nsub; k++) {
		struct plan_body *p = (struct plan_body *)c->step->body[k];
		for (uint32_t j = 0; j < n->sub[k]->ncap; j++)
			p->in[p->nformal + j] = c->in[n->nin + n->sub[k]->capture[j]];
	}
}

int step_again(const struct call *c, const struct again *with, struct diag *d)
{
	/* the step is the first member of its step_plan */
	const struct step_plan *p = (const struct step_plan *)(const void *)c->step;
	struct call again = *c;

	again.in = with->in;
	again.out = with->out;
	again.owner = with->owner;
	again.alloc = with->alloc;
	again.values = with->values;
	again.diag = d;
	capture(&again);
	int err = p->run(&again);
	capture(c);
	return err;
}
