/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decoder has a plan for each length of its cache, and one differs from the next in a few sizes. Here a plan begins as a copy of
 * another one; the nodes that a change reaches are inferred, and their kernels prepared, as in lower.c. The steps, and the slots
 * between them, must come out as they were: then whatever lower.c has decided about them holds as well.
 */
#include "plan/derive.h"

#include "plan/exec.h"
#include "plan/lower.h"
#include "plan/memory.h"
#include "plan/prepared.h"
#include "plan/upload.h"

#include <string.h>

struct derivation {
	struct lower l;
	const struct segment *old;
	bool *changed; /* indexed by value id: its type, shape or known contents differ from those of `old` */
	bool *anew; /* indexed by step: prepared for this plan, and not taken from `old` */
};

/* ---- copying ------------------------------------------------------------------------------------ */

/* Whether the slots have sizes alone that may change: no layouts, and no shapes that the run finds. */
static bool is_plain(const struct instance *x, const struct segment *s)
{
#ifdef FAULTS
	if (x->rt->faults) /* they are planted in steps that are made anew */
		return false;
#endif
	(void)x;
	for (uint32_t i = 0; i < s->nslots; i++)
		if (s->slots[i].desc.layout != LAYOUT_ROW)
			return false;
	for (uint32_t i = 0; i < s->nsteps; i++)
		if (s->steps[i].step.dynamic || s->steps[i].step.body || s->steps[i].reorder)
			return false;
	return true;
}

static void copy_steps(struct segment *s, const struct segment *old)
{
	size_t n = 1;

	s->steps = arena_dup(&s->arena, old->steps, old->nsteps * sizeof(*old->steps));
	s->nsteps = s->cap_steps = old->nsteps;
	for (uint32_t i = 0; i < s->nsteps; i++)
		n += s->steps[i].step.nin + s->steps[i].step.nout;
	uint32_t *operands = arena_new_n(&s->arena, uint32_t, n);
	for (uint32_t i = 0; i < s->nsteps; i++) {
		struct step_plan *p = &s->steps[i];
		if (p->step.nin)
			memcpy(operands, p->in, p->step.nin * sizeof(*operands));
		p->in = operands;
		operands += p->step.nin;
		if (p->step.nout)
			memcpy(operands, p->out, p->step.nout * sizeof(*operands));
		p->out = operands;
		operands += p->step.nout;
	}
}

static void copy_ranges(struct segment *s, const struct segment *old)
{
	s->ranges = arena_dup(&s->arena, old->ranges, old->nranges * sizeof(*old->ranges));
	s->nranges = old->nranges;
	for (uint32_t i = 0; i < s->nranges; i++) {
		struct range *r = &s->ranges[i];
		if (r->graph)
			r->moving = arena_dup(&s->arena, r->moving, r->nmoving * sizeof(*r->moving));
	}
}

/* Copies what was known of values: the other plan's arena may be freed before this one's. */
static void copy_infos(struct derivation *v)
{
	const struct graph *g = v->l.g;
	struct arena *a = &v->l.s->arena;
	struct vinfo *info = arena_dup(a, v->old->info, g->nvalues * sizeof(*info));

	for (uint32_t i = 0; i < g->nvalues; i++) {
		if (info[i].known && info[i].known != g->value[i]->init)
			info[i].known = tensor_copy(a, info[i].known);
		if (info[i].ints)
			info[i].ints = arena_dup(a, info[i].ints, sizeof(*info[i].ints));
	}
	v->l.s->info = v->l.info = info;
}

static struct segment *copy_segment(const struct segment *old, unsigned parity)
{
	struct segment *s = mem_zalloc(sizeof(*s), MEM_MODEL);
	uint32_t n = old->end - old->first;

	if (!s)
		return NULL;
	s->first = old->first;
	s->parity = parity;
	s->end = old->end;
	s->waits = old->waits;
	s->stages = old->stages;
	s->by_class = old->by_class;
	memcpy(s->slab_bytes, old->slab_bytes, sizeof(s->slab_bytes));
	s->slots = arena_dup(&s->arena, old->slots, old->nslots * sizeof(*old->slots));
	s->nslots = s->cap_slots = old->nslots;
	s->nodes = arena_dup(&s->arena, old->nodes, n * sizeof(*old->nodes));
	s->results = arena_dup(&s->arena, old->results, old->nresults * sizeof(*old->results));
	s->nresults = old->nresults;
	s->conditions =
		arena_dup(&s->arena, old->conditions, old->nconditions * sizeof(*old->conditions));
	s->nconditions = s->cap_conditions = old->nconditions;
	copy_steps(s, old);
	copy_ranges(s, old);
	return s;
}

/* ---- what has changed ---------------------------------------------------------------------------- */

static bool same_known(const struct vinfo *a, const struct vinfo *b)
{
	if (!a->known != !b->known || !a->ints != !b->ints)
		return false;
	if (a->ints && !shape_equal(a->ints, b->ints))
		return false;
	return a->known == b->known || tensor_same(a->known, b->known);
}

static bool same_info(const struct vinfo *a, const struct vinfo *b)
{
	return type_equal(a->type, b->type) && shape_equal(&a->shape, &b->shape) && same_known(a, b);
}

/* Takes the values from outside as they are now. Returns false if one is of another type or in another place. */
static bool read_outside(struct derivation *v)
{
	struct segment *s = v->l.s;

	for (uint32_t i = 0; i < s->nconditions; i++) {
		struct condition *c = &s->conditions[i];
		const struct tensor *t = v->l.x->live[c->value];
		struct vinfo *info = &v->l.info[c->value];
		if (!t || !type_equal(t->type, c->type) || t->device != c->device ||
		    t->layout != LAYOUT_ROW)
			return false;
		*info = (struct vinfo){.type = t->type, .shape = t->shape};
		v->changed[c->value] = !shape_equal(&t->shape, &c->shape);
		c->shape = t->shape;
		c->contents = NULL;
		v->l.condition_of[c->value] = i;
	}
	return true;
}

/* From the node at v->l.at on the contents of some values from outside are known, as in the other plan. */
static bool know_contents(struct derivation *v)
{
	for (uint32_t i = 0; i < v->old->nconditions; i++) {
		const struct condition *c = &v->old->conditions[i];
		if (!c->contents || c->at != v->l.at)
			continue;
		lower_condition(&v->l, c->value, true);
		const struct tensor *now = v->l.s->conditions[i].contents;
		if (!now)
			return false;
		v->l.info[c->value].known = now;
		v->changed[c->value] |= !tensor_same(now, c->contents);
	}
	return true;
}

static bool reaches(const struct derivation *v, const struct node *n, const struct lowered *to)
{
	for (uint32_t i = 0; i < n->nin + n->ncap; i++)
		if (n->in[i] != NO_VALUE && v->changed[n->in[i]])
			return true;
	/* what only the other plan may use */
	return to->kernel && to->step != NO_STEP &&
	       !prepared_is_shared(v->old->steps[to->step].prepared);
}

/* ---- one node ------------------------------------------------------------------------------------ */

static bool same_layouts(const enum layout *a, const enum layout *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if ((a ? a[i] : LAYOUT_ROW) != (b ? b[i] : LAYOUT_ROW))
			return false;
	return true;
}

/* Whether lower.c would make the same slots for a step that is prepared so. */
static bool same_demands(const struct step *a, const struct step *b)
{
	return a->nop == b->nop && a->unread == b->unread && a->no_capture == b->no_capture &&
	       !a->body && a->ninplace == b->ninplace &&
	       !memcmp(a->inplace, b->inplace, a->ninplace * sizeof(*a->inplace)) &&
	       same_layouts(a->want, b->want, a->nin) && same_layouts(a->give, b->give, a->nout) &&
	       !a->want == !b->want && !a->give == !b->give;
}

static bool prepare_again(struct derivation *v, const struct node *n, const struct lowered *to)
{
	struct step_plan p = {0}, *step = to->step == NO_STEP ? NULL : &v->l.s->steps[to->step];

	if (lower_prepare(&v->l, n, &p))
		return false;
	bool same =
		p.step.kernel == to->kernel &&
		(step ? p.device == step->device && same_demands(&p.step, &step->step) : p.step.nop);
	if (!same || !step) {
		prepared_release(v->l.x, p.prepared);
		return same;
	}
	step->step = p.step;
	step->prepared = p.prepared;
	v->anew[to->step] = true;
	return true;
}

static bool derive_node(struct derivation *v, const struct node *n, const struct lowered *to)
{
	int err = 0;

	if (!reaches(v, n, to))
		return true;
	if (lower_infer(&v->l, n, &err) != GO || lower_constant(&v->l, n) != !to->kernel ||
	    !lower_known(&v->l, n))
		return false;
	for (uint32_t i = 0; i < n->nout; i++) {
		uint32_t o = n->out[i];
		if (o != NO_VALUE)
			v->changed[o] = !same_info(&v->l.info[o], &v->old->info[o]);
	}
	return !to->kernel || prepare_again(v, n, to);
}

/* ---- slots --------------------------------------------------------------------------------------- */

static bool is_numbers(const struct vinfo *v)
{
	return v->type.kind == V_TENSOR && v->type.dtype != DT_STRING;
}

/* Gives the slot the size that its value has now. Returns false if lower.c might have made another slot. */
static bool resize_slot(struct derivation *v, struct slot_plan *p)
{
	const struct vinfo *info = &v->l.info[p->value];
	const bool init = v->l.g->value[p->value]->init != NULL, empty = !p->desc.bytes;

	if (p->place == PLACE_EXTERNAL) {
		p->desc = *v->l.x->live[p->value];
		return empty == !p->desc.bytes;
	}
	if (p->place == PLACE_CONST && !init) {
		if (!info->known)
			return false;
		p->desc = *info->known;
		return empty == !p->desc.bytes;
	}
	if (p->place == PLACE_CONST || !v->changed[p->value])
		return true;
	if (!is_numbers(info) || !type_equal(info->type, p->desc.type))
		return false;
	p->desc.shape = info->shape;
	return tensor_bytes(tensor_dtype(&p->desc), &p->desc.shape, LAYOUT_ROW, &p->desc.bytes);
}

/* Whether each output of the step that takes an input's bytes, still has as many. */
static bool still_in_place(const struct segment *s, const struct step_plan *p)
{
	for (uint32_t o = 0; o < p->step.nout && !p->step.nop; o++) {
		const struct slot_plan *out = p->out[o] == NO_VALUE ? NULL : &s->slots[p->out[o]];
		bool found = !out || out->place != PLACE_VIEW;
		for (int k = 0; k < p->step.ninplace && !found; k++) {
			uint32_t i = p->step.inplace[k].in;
			if (p->step.inplace[k].out != o || i >= p->step.nin || p->in[i] == NO_VALUE)
				continue;
			const struct slot_plan *in = &s->slots[p->in[i]];
			found = in->root == out->root && in->desc.bytes == out->desc.bytes;
		}
		if (!found)
			return false;
	}
	return true;
}

static bool resize_slots(struct derivation *v)
{
	struct segment *s = v->l.s;

	for (uint32_t i = 0; i < s->nslots; i++)
		if (!resize_slot(v, &s->slots[i]))
			return false;
	for (uint32_t i = 0; i < s->nslots; i++)
		if (s->slots[i].desc.bytes > s->slots[s->slots[i].root].desc.bytes)
			return false;
	for (uint32_t i = 0; i < s->nsteps; i++)
		if (!still_in_place(s, &s->steps[i]))
			return false;
	return true;
}

/* ---- all ----------------------------------------------------------------------------------------- */

static bool derive_all(struct derivation *v)
{
	const struct graph *g = v->l.g;

	if (!read_outside(v))
		return false;
	for (v->l.at = v->old->first; v->l.at < v->old->end; v->l.at++)
		if (!know_contents(v) || !derive_node(v, g->node[g->order[v->l.at]],
						      &v->old->nodes[v->l.at - v->old->first]))
			return false;
	return resize_slots(v) && !segment_memory_again(v->l.x, v->l.s, v->old, v->l.diag);
}

static void drop(struct derivation *v)
{
	struct segment *s = v->l.s;

	for (uint32_t i = 0; i < s->nsteps; i++)
		if (!v->anew[i])
			s->steps[i].prepared = NULL;
	segment_free(v->l.x, s);
}

struct segment *segment_derive(struct instance *x, const struct segment *old)
{
	struct diag unread = {0};
	struct arena a = {0};
	struct segment *s = is_plain(x, old) ? copy_segment(old, x->parity) : NULL;

	if (!s)
		return NULL;
	struct derivation v = {.old = old};
	v.l = (struct lower){.x = x, .s = s, .g = x->graph, .diag = &unread};
	v.l.condition_of = arena_new_n(&a, uint32_t, v.l.g->nvalues + 1);
	v.l.inside = arena_new_n(&a, bool, v.l.g->nvalues + 1);
	v.changed = arena_new_n(&a, bool, v.l.g->nvalues + 1);
	v.anew = arena_new_n(&a, bool, s->nsteps + 1);
	memset(v.l.condition_of, 0xff, v.l.g->nvalues * sizeof(*v.l.condition_of));
	copy_infos(&v);
	if (derive_all(&v)) {
		for (uint32_t i = 0; i < s->nsteps; i++)
			if (!v.anew[i] && s->steps[i].prepared)
				prepared_share(s->steps[i].prepared);
	} else {
		drop(&v);
		s = NULL;
	}
	arena_free(&a);
	diag_free(&unread);
	return s;
}
