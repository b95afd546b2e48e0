/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/redzone.h"

#include "base/asan.h"

static bool watches(const struct binding *b)
{
	return WITH_ASAN && !has_device(b->x->rt);
}

static const struct buffer *slab_of(const struct binding *b)
{
	return &b->x->slabs[b->s->first].buffer[HOST];
}

/* The slot that owns the bytes of `slot` if they lie in the slab, else NULL. */
static const struct slot_plan *slab_root(const struct binding *b, uint32_t slot)
{
	if (slot == NO_VALUE)
		return NULL;
	const struct slot_plan *root = &b->s->slots[b->s->slots[slot].root];
	return root->place == PLACE_SLAB ? root : NULL;
}

void redzone_begin(const struct binding *b)
{
	if (watches(b) && slab_of(b)->ptr)
		asan_poison(slab_of(b)->ptr, slab_of(b)->bytes);
}

void redzone_enter_step(const struct binding *b, uint32_t k)
{
	const struct step_plan *p = &b->s->steps[k];
	const char *slab = slab_of(b)->ptr;

	if (!watches(b))
		return;
	for (uint32_t i = 0; i < p->step.nout; i++) {
		const struct slot_plan *root = slab_root(b, p->out[i]);
		if (root && root->born == k)
			asan_unpoison(slab + root->offset, root->desc.bytes);
	}
	if (p->step.workspace)
		asan_unpoison(slab + p->workspace_offset, p->step.workspace);
}

static void close_if_last(const struct binding *b, uint32_t slot, uint32_t k)
{
	const struct slot_plan *root = slab_root(b, slot);
	const char *slab = slab_of(b)->ptr;

	if (root && root->dies == k && !root->keep)
		asan_poison(slab + root->offset, root->desc.bytes);
}

void redzone_leave_step(const struct binding *b, uint32_t k)
{
	const struct step_plan *p = &b->s->steps[k];
	const char *slab = slab_of(b)->ptr;

	if (!watches(b))
		return;
	for (uint32_t i = 0; i < p->step.nin; i++)
		close_if_last(b, p->in[i], k);
	for (uint32_t i = 0; i < p->step.nout; i++)
		close_if_last(b, p->out[i], k);
	if (p->step.workspace)
		asan_poison(slab + p->workspace_offset, p->step.workspace);
}
