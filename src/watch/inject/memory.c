/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the live allocations by address, and the sum of bytes for each caller that allocates. */
#include "watch/inject/inject.h"

#include <string.h>

/*
 * Map the address of each live allocation, or the handle of an array, to its bytes (field a), its index in
 * watch_shared.site (field b), and in field c its enum watch_kind, REGISTERED_FLAG, and the context handle shifted by
 * CONTEXT_SHIFT.
 */
static struct table live = {.most = 1 << 20}, pinned, arrays;
enum { KIND_MASK = 7, REGISTERED_FLAG = 8, CONTEXT_SHIFT = 4 };
/*
 * Maps the handle of an allocation of cuMemCreate to its bytes (field a), its site (field b), and in field c its
 * kind, the number of references to the handle (in units of ONE_REFERENCE) and the number of its mappings (in units
 * of ONE_MAPPING).
 */
static struct table created;
#define ONE_REFERENCE (UINT64_C(1) << CONTEXT_SHIFT)
#define ONE_MAPPING   (UINT64_C(1) << 32)
/*
 * For each mapped address (cuMemMap): a is the number of bytes; b is site | kind << MAPPED_KIND_SHIFT, where the site is
 * an index into the callers in watch_shared; c is the handle of the mapped memory.
 */
static struct table mapped;
enum { MAPPED_KIND_SHIFT = 16 };
static int sites_lock;

static uint32_t site_of(enum watch_kind kind)
{
	struct watch_shared *s = record_shared();
	char by[WATCH_BY];
	uint32_t i;

	caller_name(by, sizeof(by));
	lock_take(&sites_lock);
	for (i = 0; i < s->nsites; i++)
		if (s->site[i].kind == kind && strcmp(s->site[i].by, by) == 0)
			break;
	if (i == s->nsites && i < WATCH_SITES) {
		bool last = i + 1 == WATCH_SITES;
		s->site[i].kind = kind;
		memcpy(s->site[i].by, last ? "others" : by, last ? sizeof("others") : strlen(by) + 1);
		__atomic_store_n(&s->nsites, i + 1, __ATOMIC_RELEASE);
	}
	lock_give(&sites_lock);
	return i < WATCH_SITES ? i : WATCH_SITES - 1;
}

/* Notes what tells a loop that keeps its blocks from a program that loads: equal sizes, made until the end. */
static void note_size_and_time(struct watch_site *w, uint64_t bytes)
{
	uint64_t none = 0, calls = __atomic_load_n(&record_shared()->calls, __ATOMIC_RELAXED);

	if (!__atomic_compare_exchange_n(&w->each, &none, bytes, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) &&
	    none != bytes)
		__atomic_store_n(&w->each, WATCH_SIZES_DIFFER, __ATOMIC_RELAXED);
	none = 0;
	__atomic_compare_exchange_n(&w->first_call, &none, calls, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	__atomic_store_n(&w->last_call, calls, __ATOMIC_RELAXED);
}

static void count_allocation(enum watch_kind kind, uint32_t site, uint64_t bytes, bool made)
{
	struct watch_shared *s = record_shared();
	struct watch_site *w = &s->site[site];
	uint64_t by = made ? bytes : 0 - bytes;
	uint64_t now = __atomic_add_fetch(&s->live[kind], by, __ATOMIC_RELAXED);

	__atomic_fetch_add(&w->live_bytes, by, __ATOMIC_RELAXED);
	__atomic_fetch_add(&w->live, made ? 1 : (uint64_t)-1, __ATOMIC_RELAXED);
	if (!made)
		return;
	__atomic_fetch_add(&w->made, 1, __ATOMIC_RELAXED);
	note_size_and_time(w, bytes);
	uint64_t peak = __atomic_load_n(&s->peak[kind], __ATOMIC_RELAXED);
	while (now > peak && !__atomic_compare_exchange_n(&s->peak[kind], &peak, now, true,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void add_allocation(struct table *t, enum watch_kind kind, uint64_t flags, uint64_t key,
			   uint64_t bytes)
{
	uint32_t site = site_of(kind);

	if (table_must(t, key, bytes, site, kind | flags))
		count_allocation(kind, site, bytes, true);
}

static bool remove_allocation(struct table *t, uint64_t key)
{
	struct entry e;
	bool was = table_take(t, key, &e);

	if (was)
		count_allocation((enum watch_kind)(e.c & KIND_MASK), (uint32_t)e.b, e.a, false);
	return was;
}

void memory_made(enum watch_kind kind, uint64_t address, uint64_t bytes, CUcontext context)
{
	lost_reused(address, bytes);
	add_allocation(kind == WATCH_PINNED ? &pinned : &live, kind,
		       handle_of(context) << CONTEXT_SHIFT, address, bytes);
}

void memory_registered(uint64_t address, uint64_t bytes)
{
	add_allocation(&pinned, WATCH_PINNED, REGISTERED_FLAG, address, bytes);
}

void memory_gone(uint64_t address)
{
	if (!remove_allocation(&live, address))
		remove_allocation(&pinned, address);
}

static struct block block_of(const struct entry *e, uint64_t site, enum watch_kind kind)
{
	return (struct block){
		.start = e->key, .bytes = e->a, .kind = kind, .by = record_shared()->site[site].by};
}

static bool is_of_context(const struct entry *e, uint64_t context)
{
	return e->c >> CONTEXT_SHIFT == context;
}

static void lose_with_context(struct table *t, uint64_t key, uint64_t context)
{
	struct entry e;

	if (t != &arrays && table_get(t, key, &e)) {
		struct block b = block_of(&e, e.b, (enum watch_kind)(e.c & KIND_MASK));
		lost_add(context, &b);
	}
	remove_allocation(t, key);
}

void memory_context_gone(uint64_t context)
{
	struct table *const tables[] = {&live, &pinned, &arrays};

	for (size_t i = 0; i < COUNT(tables); i++)
		table_clear(tables[i], is_of_context, context, lose_with_context);
}

void memory_array_made(uint64_t handle, uint64_t bytes, CUcontext context)
{
	add_allocation(&arrays, WATCH_DEVICE, handle_of(context) << CONTEXT_SHIFT, handle, bytes);
}

void memory_array_gone(uint64_t handle)
{
	remove_allocation(&arrays, handle);
}

/* ---- virtual memory */

void memory_created(enum watch_kind kind, uint64_t handle, uint64_t bytes)
{
	add_allocation(&created, kind, ONE_REFERENCE, handle, bytes);
}

static void drop_reference(uint64_t handle, uint64_t what)
{
	struct entry e;

	if (table_add(&created, handle, 0 - what, &e) && e.c >> CONTEXT_SHIFT == 0)
		remove_allocation(&created, handle);
}

void memory_retained(uint64_t handle)
{
	struct entry e;

	table_add(&created, handle, ONE_REFERENCE, &e);
}

void memory_released(uint64_t handle)
{
	drop_reference(handle, ONE_REFERENCE);
}

void memory_mapped(uint64_t address, uint64_t bytes, uint64_t handle)
{
	struct entry e;

	if (table_add(&created, handle, ONE_MAPPING, &e) &&
	    !table_must(&mapped, address, bytes, e.b | (e.c & KIND_MASK) << MAPPED_KIND_SHIFT, handle))
		drop_reference(handle, ONE_MAPPING);
}

struct unmapping {
	uint64_t from, to;
	uint64_t address[256];
	size_t n;
};

static void collect_in_range(const struct entry *e, void *arg)
{
	struct unmapping *u = arg;

	if (e->key >= u->from && e->key < u->to && u->n < sizeof(u->address) / sizeof(*u->address))
		u->address[u->n++] = e->key;
}

/* Removes all mappings that begin in the range. */
void memory_unmapped(uint64_t address, uint64_t bytes)
{
	struct unmapping u;
	struct entry e;

	/* the common case: the range is exactly one mapping */
	if (table_take(&mapped, address, &e)) {
		drop_reference(e.c, ONE_MAPPING);
		if (e.a >= bytes)
			return;
	}
	do {
		u = (struct unmapping){.from = address, .to = address + bytes};
		table_each(&mapped, collect_in_range, &u);
		for (size_t i = 0; i < u.n; i++)
			if (table_take(&mapped, u.address[i], &e))
				drop_reference(e.c, ONE_MAPPING);
	} while (u.n == sizeof(u.address) / sizeof(*u.address));
}

/* ---- by address */

static bool find_in_table(struct table *t, uint64_t address, bool wait, struct block *b)
{
	struct entry e;

	if (!table_find(t, address, &e, wait))
		return false;
	*b = block_of(&e, e.b, (enum watch_kind)(e.c & KIND_MASK));
	b->registered = e.c & REGISTERED_FLAG;
	return true;
}

static bool find_mapped(uint64_t address, bool wait, struct block *b)
{
	struct entry e;

	if (!table_find(&mapped, address, &e, wait))
		return false;
	*b = block_of(&e, e.b & ((1u << MAPPED_KIND_SHIFT) - 1),
		      (enum watch_kind)(e.b >> MAPPED_KIND_SHIFT));
	return true;
}

bool memory_find(uint64_t address, bool wait, struct block *b)
{
	return find_in_table(&live, address, wait, b) || find_mapped(address, wait, b) ||
	       find_in_table(&pinned, address, wait, b);
}

bool memory_pinned(uint64_t address, struct block *b)
{
	return find_in_table(&pinned, address, true, b);
}
