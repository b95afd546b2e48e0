/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that only launch are recorded once and replayed as one (a CUDA graph): when they run for the second
 * time at the same addresses. What a step needs of the host in each run keeps it out.
 */
#include "plan/replay.h"

#include "plan/fault.h"

#include <string.h>

enum { LEAST_STEPS = 2, MOST_DROPPED = 4 };

/* A range's recording, and what it holds for. */
struct replay {
	struct captured *captured;
	const void **at;  /* where range.moving lay in the last run */
	uint32_t runs;	  /* with these addresses, so far */
	uint32_t dropped; /* recordings that the addresses outran */
	bool refused;	  /* launched step by step from now on */
};

/* ---- planning ----------------------------------------------------------------------------------- */

static bool only_launches(const struct segment *s, const struct step_plan *p)
{
	if (p->device != DEVICE || p->step.dynamic || p->step.no_capture || p->step.body)
		return false;
	if (p->copy)
		return p->queued;
	(void)s;
	return p->run != view_run && !(p->step.kernel->flags & (K_HOST | K_NO_CAPTURE)) &&
	       fault_replays(p);
}

/* Bytes whose place is the plan's own. */
static bool fixed(const struct segment *s, uint32_t slot)
{
	const struct slot_plan *root = &s->slots[s->slots[slot].root];

	return root->place == PLACE_SLAB || root->place == PLACE_CONST || root->staged;
}

static void note_moving(struct segment *s, struct range *r, const uint32_t *slots, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (slots[i] == NO_VALUE || fixed(s, slots[i]))
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
		note_moving(s, r, s->steps[k].in, s->steps[k].step.nin);
		note_moving(s, r, s->steps[k].out, s->steps[k].step.nout);
	}
}

void segment_ranges(struct segment *s, const struct runtime *rt)
{
	bool able = has_device(rt) && rt->backend->capture_begin;

	s->ranges = arena_new_n(&s->arena, struct range, s->nsteps + 1);
	for (uint32_t k = 0; k < s->nsteps;) {
		struct range *r = &s->ranges[s->nranges++];
		r->graph = able && only_launches(s, &s->steps[k]);
		r->first = k;
		do
			k++;
		while (k < s->nsteps && r->graph == (able && only_launches(s, &s->steps[k])));
		r->end = k;
		r->graph &= r->end - r->first >= LEAST_STEPS;
		if (r->graph)
			find_moving(s, r);
	}
}

/* ---- running ------------------------------------------------------------------------------------ */

void replays_new(struct binding *b)
{
	const struct segment *s = b->s;

	b->replays = arena_new_n(&b->arena, struct replay, s->nranges + 1);
	for (uint32_t i = 0; i < s->nranges; i++)
		b->replays[i].at = arena_new_n(&b->arena, const void *, s->ranges[i].nmoving + 1);
}

static void drop(const struct runtime *rt, struct replay *p)
{
	if (p->captured)
		rt->backend->capture_drop(p->captured);
	p->captured = NULL;
	p->runs = 0;
}

void replays_drop(struct binding *b)
{
	for (uint32_t i = 0; i < b->s->nranges; i++)
		drop(b->x->rt, &b->replays[i]);
}

/* Whether what moves lies where it lay; notes where it lies. */
static bool same_places(const struct binding *b, const struct range *r, struct replay *p)
{
	bool same = true;

	for (uint32_t i = 0; i < r->nmoving; i++) {
		const void *now = b->tensors[r->moving[i]].data;
		same &= p->at[i] == now;
		p->at[i] = now;
	}
	return same;
}

/* Why no graph could be made of them is said once; they run all the same. */
static void refuse_replay(const struct binding *b, const struct range *r, struct replay *p,
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
		     d, "%u steps from here on cannot be made a CUDA graph; they are launched one by one",
		     r->end - r->first),
	     .actual = f && f->actual ? fmt(d, "%s", f->actual) : NULL);
}

/* Recorded instead of run; then replayed for the first time. */
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
		refuse_replay(b, r, p, &why, d);
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

static int replay(struct binding *b, const struct range *r, struct replay *p, struct diag *d)
{
	const struct runtime *rt = b->x->rt;

	if (!same_places(b, r, p)) {
		p->dropped += p->captured != NULL;
		p->refused |= p->dropped > MOST_DROPPED;
		drop(rt, p);
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
		int err = r->graph ? replay(b, r, &b->replays[i], d)
				   : steps_run(b, r->first, r->end, d);
		if (err)
			return err;
	}
	return 0;
}
