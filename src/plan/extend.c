/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/extend.h"

/* Returns the number + 1 of the pair of the step's operands, step.grow, that has one of these slots; 0 if none has. */
static int pair_of(const struct step_plan *p, uint32_t out_slot, uint32_t in_slot)
{
	/* a fault that runs in the kernel's place (fault.c) changes dense outputs */
	bool plain = p->step.kernel && p->run == p->step.kernel->run;

	for (int k = 0; plain && k < p->step.ngrow; k++) {
		uint32_t o = p->step.grow[k].out, i = p->step.grow[k].in;
		if (o < p->step.nout && i < p->step.nin && p->out[o] != NO_VALUE &&
		    p->in[i] != NO_VALUE && (p->out[o] == out_slot || p->in[i] == in_slot))
			return k + 1;
	}
	return 0;
}

/* Whether what the plan decides depends on the value's contents, which it then has read as those of a dense tensor. */
static bool contents_count(const struct segment *s, uint32_t value)
{
	for (uint32_t i = 0; i < s->nconditions; i++)
		if (s->conditions[i].value == value && s->conditions[i].contents)
			return true;
	return false;
}

bool slot_takes_capacity(const struct instance *x, const struct segment *s, uint32_t slot)
{
	const struct slot_plan *p = &s->slots[slot];
	const struct value *v = x->graph->value[p->value];

	return p->place == PLACE_EXTERNAL && !p->staged && p->desc.device == DEVICE &&
	       v->nusers == 1 && !v->is_output && p->dies < s->nsteps &&
	       pair_of(&s->steps[p->dies], NO_VALUE, slot) && !contents_count(s, p->value);
}

static uint32_t result_slot(const struct segment *s, uint32_t value)
{
	for (uint32_t i = 0; i < s->nresults; i++)
		if (s->slots[s->results[i]].value == value)
			return s->results[i];
	return NO_VALUE;
}

static bool is_output_once(const struct graph *g, uint32_t value)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < g->nout; k++)
		n += g->out[k] == value;
	return n == 1;
}

/* Whether a pair of the step's operands begins in a slot that takes spare capacity, and ends in an output that nobody but the caller sees. */
static bool pair_takes_capacity(const struct instance *x, const struct segment *s,
				const struct step_plan *by, int pair)
{
	uint32_t in = by->in[by->step.grow[pair].in], out = by->out[by->step.grow[pair].out];
	const struct slot_plan *p = out == NO_VALUE ? NULL : &s->slots[out];

	return p && in != NO_VALUE && p->place == PLACE_SLAB && p->desc.device == DEVICE &&
	       result_slot(s, p->value) == out && !x->graph->value[p->value]->nusers &&
	       is_output_once(x->graph, p->value) && slot_takes_capacity(x, s, in);
}

bool output_takes_capacity(const struct instance *x, const struct segment *s, uint32_t out,
			   struct extension *to)
{
	uint32_t value = x->graph->out[out], slot = result_slot(s, value);
	const struct slot_plan *p = slot == NO_VALUE ? NULL : &s->slots[slot];

	if (!p || p->born >= s->nsteps)
		return false;
	const struct step_plan *by = &s->steps[p->born];
	int pair = pair_of(by, slot, NO_VALUE);
	for (int k = 0; pair && k < by->step.ngrow; k++)
		if (!pair_takes_capacity(x, s, by, k))
			return false;
	if (!pair)
		return false;
	*to = (struct extension){.by = by,
				 .from = by->in[by->step.grow[pair - 1].in],
				 .at = by->step.grow_at ? by->step.node->in[by->step.grow_at - 1]
							: NO_VALUE};
	return true;
}
