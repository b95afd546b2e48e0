/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/memory.h"

#include "base/asan.h"
#include "base/str.h"
#include "plan/upload.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * Assigns offsets of the slab to blocks by their lifetimes: the largest block first, each at the lowest offset where it
 * overlaps no block that lives at the same time ("greedy by size", Pisarchyk & Lee 2020, arXiv:2001.03288). Workspaces
 * are blocks that live for one step. That takes time quadratic in the number of blocks, so it is done for the largest
 * MAX_FITTED blocks; the others, which are small beside these, share memory in classes of about the same size.
 */
enum { MAX_FITTED = 4096 };

struct block {
	size_t bytes, offset;
	int device;
	uint32_t born, dies;
	size_t *where; /* receives the offset */
	/*
	 * number of the slot, or nslots + the step's number for a workspace; keeps the order of equal blocks stable
	 */
	uint32_t index;
};

enum { SLAB_ALIGNMENT = 64, REDZONE = WITH_ASAN ? 64 : 0 };

static size_t round_to_alignment(size_t n)
{
	return (n + SLAB_ALIGNMENT - 1) & ~(size_t)(SLAB_ALIGNMENT - 1);
}

/* The range of sizes to which a block belongs: each power of two has four, so at most a fifth of a place is unused. */
enum { SIZE_CLASSES = 4 * 64 };

static unsigned size_class(size_t bytes, size_t *place)
{
	bytes = bytes < SLAB_ALIGNMENT ? SLAB_ALIGNMENT : bytes;
	unsigned power = 63 - (unsigned)__builtin_clzll(bytes);
	size_t quarter = (size_t)1 << (power - 2), quarters = (bytes + quarter - 1) / quarter;

	*place = round_to_alignment(quarters * quarter);
	return 4 * power + (unsigned)quarters - 4;
}

/* The bytes that a block of n bytes takes in the slab. AddressSanitizer watches the gap behind it (redzone.h). */
static size_t bytes_in_slab(size_t n, bool by_class)
{
	size_t bytes = round_to_alignment(n);

	if (by_class)
		(void)size_class(n, &bytes);
	return bytes + REDZONE;
}

static int larger_first(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	if (x->born != y->born)
		return x->born < y->born ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static bool lives_overlap(const struct block *a, const struct block *b)
{
	return a->device == b->device && a->born <= b->dies && b->born <= a->dies;
}

/*
 * Returns the lowest offset at which b overlaps no block that lives at the same time. The array placed[] is sorted by
 * offset.
 */
static size_t lowest_gap(struct block *const *placed, uint32_t n, const struct block *b)
{
	size_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct block *p = placed[i];
		if (!lives_overlap(p, b))
			continue;
		if (p->offset >= at && p->offset - at >= b->bytes)
			break;
		if (p->offset + p->bytes > at)
			at = p->offset + p->bytes;
	}
	return at;
}

static void set_offset(struct block *b, size_t offset, size_t *total)
{
	b->offset = *b->where = offset;
	if (offset + b->bytes > total[b->device])
		total[b->device] = offset + b->bytes;
}

/* Gives each of the blocks, which are sorted by size, the lowest offset that is free while the block lives. */
static void fit_blocks(struct block *blocks, uint32_t n, size_t *total)
{
	struct arena scratch = {0};
	struct block **placed = arena_new_n(&scratch, struct block *, n + 1);

	for (uint32_t k = 0; k < n; k++) {
		struct block *b = &blocks[k];
		set_offset(b, lowest_gap(placed, k, b), total);
		uint32_t i = k;
		for (; i && placed[i - 1]->offset > b->offset; i--)
			placed[i] = placed[i - 1];
		placed[i] = b;
	}
	arena_free(&scratch);
}

static int born_first(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	if (x->born != y->born)
		return x->born < y->born ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/*
 * Gives the blocks places behind the blocks placed so far. A block takes the place of a block of its class that is
 * dead, or a new one.
 */
static void pool_blocks(struct block *blocks, uint32_t n, uint32_t nsteps, size_t *total)
{
	struct arena scratch = {0};
	/* lists of numbers of blocks + 1: those that die at a step, and those whose places are free */
	uint32_t *dying = arena_new_n(&scratch, uint32_t, (size_t)nsteps + 1);
	uint32_t *next = arena_new_n(&scratch, uint32_t, n + 1);
	uint32_t(*unused)[SIZE_CLASSES] = arena_array(&scratch, PLACES, sizeof(*unused));
	uint32_t step = 0;
	size_t place;

	qsort(blocks, n, sizeof(*blocks), born_first);
	for (uint32_t k = 0; k < n; k++) {
		struct block *b = &blocks[k];
		for (; step < b->born; step++) {
			for (uint32_t i = dying[step], after; i; i = after) {
				const struct block *dead = &blocks[i - 1];
				uint32_t *list =
					&unused[dead->device][size_class(dead->bytes, &place)];
				after = next[i - 1];
				next[i - 1] = *list;
				*list = i;
			}
		}
		uint32_t *list = &unused[b->device][size_class(b->bytes, &place)];
		if (*list) {
			uint32_t i = *list - 1;
			*list = next[i];
			set_offset(b, blocks[i].offset, total);
		} else {
			set_offset(b, total[b->device], total);
			total[b->device] = b->offset + place;
		}
		next[k] = dying[b->dies];
		dying[b->dies] = k + 1;
	}
	arena_free(&scratch);
}

static void place_blocks(struct block *blocks, uint32_t n, uint32_t nsteps, bool reuse, size_t *total)
{
	uint32_t fitted = n < MAX_FITTED ? n : MAX_FITTED;

	if (!reuse) {
		for (uint32_t k = 0; k < n; k++)
			set_offset(&blocks[k], total[blocks[k].device], total);
		return;
	}
	qsort(blocks, n, sizeof(*blocks), larger_first);
	fit_blocks(blocks, fitted, total);
	pool_blocks(blocks + fitted, n - fitted, nsteps, total);
}

/* Extends the life of each slot whose bytes views share until the last of these views has been used. */
static void extend_lives_of_roots(struct segment *s)
{
	for (uint32_t i = s->nslots; i-- > 0;) {
		struct slot_plan *p = &s->slots[i];
		if (p->place != PLACE_VIEW)
			continue;
		struct slot_plan *root = &s->slots[p->root];
		if (p->dies > root->dies)
			root->dies = p->dies;
		root->keep |= p->keep;
	}
}

/* Sets reads[] to UINT32_MAX for slots that something other than a planned step may read, such as results and views that no step makes. */
static void find_other_readers(const struct segment *s, uint32_t *reads, struct arena *scratch)
{
	bool *made = arena_new_n(scratch, bool, s->nslots + 1);
	bool *viewed = arena_new_n(scratch, bool, s->nslots + 1); /* by root */

	for (uint32_t i = 0; i < s->nsteps; i++)
		for (uint32_t k = 0; k < s->steps[i].step.nout; k++)
			if (s->steps[i].out[k] != NO_VALUE)
				made[s->steps[i].out[k]] = true;
	for (uint32_t i = 0; i < s->nslots; i++)
		if (s->slots[i].place == PLACE_VIEW && !made[i])
			viewed[s->slots[i].root] = true;
	for (uint32_t i = 0; i < s->nresults; i++)
		viewed[s->slots[s->results[i]].root] = true;
	for (uint32_t i = 0; i < s->nslots; i++) {
		const struct slot_plan *p = &s->slots[i], *root = &s->slots[p->root];
		bool planned = p->place == PLACE_SLAB || p->place == PLACE_VIEW;
		if (!planned || p->keep || root->keep || viewed[p->root])
			reads[i] = UINT32_MAX;
	}
}

/* Tells each step who reads what it makes, and what it reads that no step has made. */
static void tell_steps(struct segment *s)
{
	struct arena scratch = {0};
	uint32_t *reads =
		arena_new_n(&scratch, uint32_t, s->nslots + 1); /* the last step that reads a slot */

	for (uint32_t i = 0; i < s->nsteps; i++) {
		struct step_plan *p = &s->steps[i];
		p->step.number = i;
		p->step.outside = 0;
		for (uint32_t k = 0; k < p->step.nin; k++) {
			if (p->in[k] == NO_VALUE)
				continue;
			reads[p->in[k]] = i;
			enum place place = s->slots[p->in[k]].place;
			if (k < 64 && (place == PLACE_EXTERNAL || place == PLACE_CONST))
				p->step.outside |= UINT64_C(1) << k;
		}
	}
	find_other_readers(s, reads, &scratch);
	for (uint32_t i = 0; i < s->nsteps; i++) {
		struct step_plan *p = &s->steps[i];
		bool any = p->step.nout && p->out[0] != NO_VALUE;
		p->step.last_reader = any ? reads[p->out[0]] : UINT32_MAX;
	}
	arena_free(&scratch);
}

const char *segment_largest(const struct segment *s, struct diag *d)
{
	const struct slot_plan *top[3] = {0};
	const char *names = "";

	for (uint32_t i = 0; i < s->nslots; i++) {
		const struct slot_plan *p = s->slots[i].place == PLACE_SLAB ? &s->slots[i] : NULL;
		for (int k = 0; k < 3 && p; k++) {
			if (top[k] && p->desc.bytes <= top[k]->desc.bytes)
				continue;
			const struct slot_plan *pushed = top[k];
			top[k] = p;
			p = pushed;
		}
	}
	for (int k = 0; k < 3 && top[k]; k++) {
		const struct step_plan *by = &s->steps[top[k]->born];
		names = fmt(d, "%s%s%s %s bytes of '%s'", names, k ? "; " : "",
			    shape_str(&d->arena, &top[k]->desc.shape, NULL),
			    str_count(&d->arena, (int64_t)top[k]->desc.bytes),
			    by->step.from ? by->step.from->name : "?");
	}
	return fmt(d, "the largest values: %s", names);
}

const char *limit_text(const struct runtime *rt, size_t limit, struct diag *d)
{
	return fmt(d, "at most %s bytes%s", d ? str_count(&d->arena, (int64_t)limit) : "",
		   rt->config->memory_limit == INT_ABSENT
			   ? " (the default for this model, its inputs and this machine; see --memory-limit)"
			   : "");
}

static int fail_over_limit(const struct segment *s, const struct runtime *rt, size_t limit,
			   size_t weights, size_t total, struct diag *d)
{
	return FAIL(d, E_MEMORY_LIMIT, .expected = limit_text(rt, limit, d),
		    .actual = fmt(d, "%s%s bytes of activations and workspace",
				  weights && d ? fmt(d, "%s bytes of weights and ",
						     str_count(&d->arena, (int64_t)weights))
					       : "",
				  d ? str_count(&d->arena, (int64_t)total) : ""),
		    .hint = segment_largest(s, d));
}

/*
 * Compares the memory of the session's device with --memory-limit. On a GPU this memory includes the weights uploaded
 * so far.
 */
static bool is_over_limit(const struct segment *s, const struct runtime *rt)
{
	int64_t limit = rt->config->memory_limit;
	size_t sum;

	return limit > 0 && (!size_add(s->slab_bytes[has_device(rt)], uploads_bytes(rt), &sum) ||
			     sum > (size_t)limit);
}

static bool is_over_host_limit(const struct segment *s, const struct runtime *rt)
{
	return rt->host_limit && s->slab_bytes[HOST] > rt->host_limit;
}

static int check_limit(const struct segment *s, const struct runtime *rt, struct diag *d)
{
	if (is_over_limit(s, rt))
		return fail_over_limit(s, rt, (size_t)rt->config->memory_limit, uploads_bytes(rt),
				       s->slab_bytes[has_device(rt)], d);
	if (is_over_host_limit(s, rt))
		return fail_over_limit(s, rt, rt->host_limit, 0, s->slab_bytes[HOST], d);
	return 0;
}

/* The last step that uses the workspace of step i. */
static uint32_t workspace_dies(const struct segment *s, uint32_t i)
{
	const struct step_plan *p = &s->steps[i];
	const struct slot_plan *y =
		p->step.nout && p->out[0] != NO_VALUE ? &s->slots[p->out[0]] : NULL;

	if (!p->step.keep_workspace || !y || y->dies < i)
		return i;
	return y->keep ? s->nsteps : y->dies;
}

/* Gives each slot and workspace its offset. With by_class they have the room of their class of sizes. */
static void lay_out(struct segment *s, const struct runtime *rt, bool by_class)
{
	struct arena scratch = {0};
	struct block *blocks = arena_new_n(&scratch, struct block, (size_t)s->nslots + s->nsteps + 1);
	uint32_t n = 0;

	memset(s->slab_bytes, 0, sizeof(s->slab_bytes));
	for (uint32_t i = 0; i < s->nslots; i++) {
		struct slot_plan *p = &s->slots[i];
		if (p->place != PLACE_SLAB && !p->staged)
			continue;
		blocks[n++] = (struct block){.bytes = bytes_in_slab(p->desc.bytes, by_class),
					     .device = p->desc.device,
					     .born = p->staged ? 0 : p->born,
					     .dies = p->keep || p->staged ? s->nsteps : p->dies,
					     .where = &p->offset,
					     .index = i};
	}
	for (uint32_t i = 0; i < s->nsteps; i++) {
		size_t bytes = s->steps[i].step.workspace;
		if (bytes)
			blocks[n++] = (struct block){.bytes = bytes_in_slab(bytes, by_class),
						     .device = s->steps[i].device,
						     .born = i,
						     .dies = workspace_dies(s, i),
						     .where = &s->steps[i].workspace_offset,
						     .index = s->nslots + i};
	}
	place_blocks(blocks, n, s->nsteps, rt->config->memory_plan, s->slab_bytes);
	arena_free(&scratch);
}

static void sum_up(struct segment *s)
{
	s->value_bytes = s->workspace = 0;
	for (uint32_t i = 0; i < s->nslots; i++)
		if (s->slots[i].place == PLACE_SLAB && !s->slots[i].staged)
			s->value_bytes += s->slots[i].desc.bytes;
	for (uint32_t i = 0; i < s->nsteps; i++)
		if (s->steps[i].step.workspace > s->workspace)
			s->workspace = s->steps[i].step.workspace;
}

int segment_memory(const struct instance *x, struct segment *s, struct diag *d)
{
	const struct runtime *rt = x->rt;

	tell_steps(s);
	extend_lives_of_roots(s);
	sum_up(s);
	/*
	 * In a decoder some values grow with each step. With rooms of a few sizes the next plan has mostly the same offsets, so that
	 * few of the recorded launches must be changed.
	 */
	s->by_class = x->steps;
	lay_out(s, rt, s->by_class);
	if (s->by_class && (is_over_limit(s, rt) || is_over_host_limit(s, rt)))
		lay_out(s, rt, s->by_class = false);
	return check_limit(s, rt, d);
}

/* Whether each slot and workspace takes as many bytes of the slab as in the other segment. */
static bool same_rooms(const struct segment *s, const struct segment *old)
{
	for (uint32_t i = 0; i < s->nslots; i++) {
		size_t now = s->slots[i].desc.bytes, then = old->slots[i].desc.bytes;
		if (now != then && (s->slots[i].place == PLACE_SLAB || s->slots[i].staged) &&
		    bytes_in_slab(now, s->by_class) != bytes_in_slab(then, s->by_class))
			return false;
	}
	for (uint32_t i = 0; i < s->nsteps; i++) {
		size_t now = s->steps[i].step.workspace, then = old->steps[i].step.workspace;
		if (now != then && (!now != !then || bytes_in_slab(now, s->by_class) !=
							     bytes_in_slab(then, s->by_class)))
			return false;
	}
	return true;
}

int segment_memory_again(const struct instance *x, struct segment *s, const struct segment *old,
			 struct diag *d)
{
	if (s->by_class != x->steps || !same_rooms(s, old))
		return segment_memory(x, s, d);
	tell_steps(s);
	sum_up(s);
	return check_limit(s, x->rt, d);
}
