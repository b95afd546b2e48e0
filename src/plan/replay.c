/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consecutive steps that only launch kernels are recorded as a CUDA graph when they run for the second time at the same
 * addresses; later runs replay the graph with one call. Steps that need the host in each run cannot be recorded.
 */
#include "plan/replay.h"

#include "plan/fault.h"

#include <string.h>

enum {
	MIN_STEPS = 2, /* shorter ranges are always launched step by step */
	/* a range whose addresses have changed more often than this is not recorded any more */
	MAX_DROPPED = 4,
};

/* A range's recording, and the addresses for which it is valid. */
struct replay {
	struct captured *captured;
	bool listed; /* made ahead, by replays_record() */
	/* addresses and capacities (tensor.capacity) that the slots in range.moving had in the last run */
	const void **at;
	int64_t *capacity;
	uint32_t runs;	  /* so far with these addresses */
	uint32_t dropped; /* recordings dropped because addresses changed */
	bool refused; /* the range is not recorded any more, and its steps are launched one by one */
};

/* ---- planning ----------------------------------------------------------------------------------- */

static bool can_be_recorded(const struct segment *s, const struct step_plan *p)
{
	if (p->device != DEVICE || p->step.dynamic || p->step.no_capture || p->step.body)
		return false;
	if (p->copy)
		return p->queued;
	(void)s;
	return p->run != view_run && !(p->step.kernel->flags & (K_HOST | K_NO_CAPTURE)) &&
	       fault_replays(p);
}

bool segment_launches(const struct segment *s)
{
	for (uint32_t k = 0; k < s->nsteps; k++)
		if (s->steps[k].run != view_run && !can_be_recorded(s, &s->steps[k]))
			return false;
	return !s->waits;
}

/* Whether the slot's bytes have an address that the plan determines. For a result the caller may give memory. */
static bool has_fixed_address(const struct segment *s, uint32_t slot)
{
	const struct slot_plan *root = &s->slots[s->slots[slot].root];

	if (root->place == PLACE_SLAB && root->keep)
		return false;
	return root->place == PLACE_SLAB || root->place == PLACE_CONST || root->staged;
}

static void add_moving_slots(struct segment *s, struct range *r, const uint32_t *slots, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (slots[i] == NO_VALUE || has_fixed_address(s, slots[i]))
			continue;
		r->moving[r->nmoving++] = slots[i];
	}
}

static void find_moving(struct segment *s, struct range *r)
{
	uint32_t n = 0;

	for (uint32_t k = r->first; k < r->end; k++)
		n += s->steps[k].step.nin + s->steps[k].step.nout;
	r->moving = arena_new_n(&s->arena, uint32_t, n + 1);
	for (uint32_t k = r->first; k < r->end; k++) {
		add_moving_slots(s, r, s->steps[k].in, s->steps[k].step.nin);
		add_moving_slots(s, r, s->steps[k].out, s->steps[k].step.nout);
	}
}

void segment_ranges(struct segment *s, const struct runtime *rt)
{
	bool able = has_device(rt) && rt->backend->capture_begin;

	s->ranges = arena_new_n(&s->arena, struct range, s->nsteps + 1);
	for (uint32_t k = 0; k < s->nsteps;) {
		struct range *r = &s->ranges[s->nranges++];
		r->graph = able && can_be_recorded(s, &s->steps[k]);
		r->first = k;
		do
			k++;
		while (k < s->nsteps && r->graph == (able && can_be_recorded(s, &s->steps[k])));
		r->end = k;
		r->graph &= r->end - r->first >= MIN_STEPS;
		if (r->graph)
			find_moving(s, r);
	}
}

/* ---- running ------------------------------------------------------------------------------------ */

void replays_new(struct binding *b)
{
	const struct segment *s = b->s;

	b->replays = arena_new_n(&b->arena, struct replay, s->nranges + 1);
	for (uint32_t i = 0; i < s->nranges; i++) {
		uint32_t n = s->ranges[i].nmoving + 1;
		b->replays[i].at = arena_new_n(&b->arena, const void *, n);
		b->replays[i].capacity = arena_new_n(&b->arena, int64_t, n);
	}
}

static void drop_recording(const struct runtime *rt, struct replay *p)
{
	if (p->captured)
		rt->backend->capture_drop(p->captured);
	p->captured = NULL;
	p->listed = false;
	p->runs = 0;
}

void replays_drop(struct binding *b)
{
	for (uint32_t i = 0; i < b->s->nranges; i++)
		drop_recording(b->x->rt, &b->replays[i]);
}

/* Whether the range's moving slots have the same addresses as in the last run; stores the addresses of this run. */
static bool addresses_unchanged(const struct binding *b, const struct range *r, struct replay *p)
{
	bool same = true;

	for (uint32_t i = 0; i < r->nmoving; i++) {
		const struct tensor *now = &b->tensors[r->moving[i]];
		same &= p->at[i] == now->data && p->capacity[i] == now->capacity;
		p->at[i] = now->data;
		p->capacity[i] = now->capacity;
	}
	return same;
}

/* Warns, once, why these steps could not be recorded; they run without a graph. */
static void give_up_recording(const struct binding *b, const struct range *r, struct replay *p,
			      const struct diag *why, struct diag *d)
{
	const struct finding *f = why->last;
	const struct origin *o = b->s->steps[r->first].step.from;

	p->refused = true;
	WARN(d, f ? f->code : E_RUN,
	     .node = f && f->node ? f->node
		     : o	  ? o->name
				  : NULL,
	     .message = fmt(
		     d, "%u steps from here on cannot be recorded as a CUDA graph; they are launched one by one",
		     r->end - r->first),
	     .actual = f && f->actual ? fmt(d, "%s", f->actual) : NULL);
}

/* Writes the steps of the range down, as a change of an older recording if there is one. Returns whether that succeeded. */
static bool list(struct binding *b, const struct range *r, struct captured **captured, bool soon)
{
	const struct runtime *rt = b->x->rt;
	struct diag unread = {0};
	int err = rt->backend->list_begin(rt->stream, &unread);

	if (!err) {
		err = steps_run(b, r->first, r->end, &unread);
		int ended = rt->backend->list_end(rt->stream, captured, soon);
		err = err ? err : ended;
	}
	diag_free(&unread);
	return !err;
}

void replays_record(struct binding *b, struct binding *from, bool soon)
{
	const struct runtime *rt = b->x->rt;
	bool alike = from && from->s->nranges == b->s->nranges;

	if (!rt->backend->list_begin)
		return;
	for (uint32_t i = 0; i < b->s->nranges; i++) {
		const struct range *r = &b->s->ranges[i];
		struct replay *p = &b->replays[i], *old = alike ? &from->replays[i] : NULL;
		if (!r->graph || p->captured)
			continue;
		if (old && !old->listed)
			old = NULL;
		if (!list(b, r, old ? &old->captured : &p->captured, soon))
			continue;
		if (old) {
			p->captured = old->captured;
			old->captured = NULL;
			old->runs = 0;
		}
		addresses_unchanged(b, r, p);
		p->listed = true;
		p->runs = 1;
	}
}

/* Records the steps of the range, which does not yet run them, and then launches the recording. */
static int record(struct binding *b, const struct range *r, struct replay *p, struct diag *d)
{
	const struct runtime *rt = b->x->rt;
	struct diag why = {0};
	int err = rt->backend->capture_begin(rt->stream, &why);

	if (!err) {
		err = steps_run(b, r->first, r->end, &why);
		int ended = rt->backend->capture_end(rt->stream, &p->captured, err ? NULL : &why);
		err = err ? err : ended;
	}
	if (err && !(rt->backend->lost && rt->backend->lost(rt->device))) {
		give_up_recording(b, r, p, &why, d);
		err = steps_run(b, r->first, r->end, d);
	} else if (err) {
		FAIL(d, (enum code) - err,
		     .message = why.last ? fmt(d, "%s", why.last->message) : NULL);
	} else {
		err = rt->backend->capture_launch(p->captured, rt->stream, d);
	}
	diag_free(&why);
	return err;
}

static int run_range(struct binding *b, const struct range *r, struct replay *p, struct diag *d)
{
	const struct runtime *rt = b->x->rt;

	if (!addresses_unchanged(b, r, p)) {
		p->dropped += p->captured != NULL;
		p->refused |= p->dropped > MAX_DROPPED;
		drop_recording(rt, p);
	}
	if (p->captured)
		return rt->backend->capture_launch(p->captured, rt->stream, d);
	if (p->runs++ == 0 || p->refused)
		return steps_run(b, r->first, r->end, d);
	return record(b, r, p, d);
}

int steps_replay(struct binding *b, struct diag *d)
{
	for (uint32_t i = 0; i < b->s->nranges; i++) {
		const struct range *r = &b->s->ranges[i];
		int err = r->graph ? run_range(b, r, &b->replays[i], d)
				   : steps_run(b, r->first, r->end, d);
		if (err)
			return err;
	}
	return 0;
}
