/* SPDX-License-Identifier: Apache-2.0 */
/* Live allocations by address, sums by who made them. */
#include "watch/inject/inject.h"

#include <string.h>

/* a: bytes, b: site, c: kind, REGISTERED, and the context from CONTEXT on. What the program holds now. */
static struct table live = {.most = 1 << 20}, pinned, arrays;
enum { KIND = 7, REGISTERED = 8, CONTEXT = 4 };
/* c: kind, how often its handle was given out, and in how many places it is mapped. */
static struct table created;
#define HANDED (UINT64_C(1) << CONTEXT)
#define MAPPED (UINT64_C(1) << 32)
/* b: site and kind, c: the handle of `created`. */
static struct table mapped;
enum { MAPPED_KIND = 16 };
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

static void count(enum watch_kind kind, uint32_t site, uint64_t bytes, bool made)
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
	uint64_t peak = __atomic_load_n(&s->peak[kind], __ATOMIC_RELAXED);
	while (now > peak && !__atomic_compare_exchange_n(&s->peak[kind], &peak, now, true,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void made(struct table *t, enum watch_kind kind, uint64_t flags, uint64_t key, uint64_t bytes)
{
	uint32_t site = site_of(kind);

	if (table_must(t, key, bytes, site, kind | flags))
		count(kind, site, bytes, true);
}

static bool gone(struct table *t, uint64_t key)
{
	struct entry e;
	bool was = table_take(t, key, &e);

	if (was)
		count((enum watch_kind)(e.c & KIND), (uint32_t)e.b, e.a, false);
	return was;
}

void memory_made(enum watch_kind kind, uint64_t address, uint64_t bytes, CUcontext context)
{
	made(kind == WATCH_PINNED ? &pinned : &live, kind, handle_of(context) << CONTEXT, address,
	     bytes);
}

void memory_registered(uint64_t address, uint64_t bytes)
{
	made(&pinned, WATCH_PINNED, REGISTERED, address, bytes);
}

void memory_gone(uint64_t address)
{
	if (!gone(&live, address))
		gone(&pinned, address);
}

static bool of_context(const struct entry *e, uint64_t context)
{
	return e->c >> CONTEXT == context;
}

static void gone_with_it(struct table *t, uint64_t key, uint64_t context)
{
	(void)context;
	gone(t, key);
}

void memory_context_gone(uint64_t context)
{
	struct table *const tables[] = {&live, &pinned, &arrays};

	for (size_t i = 0; i < COUNT(tables); i++)
		table_clear(tables[i], of_context, context, gone_with_it);
}

void memory_array_made(uint64_t handle, uint64_t bytes, CUcontext context)
{
	made(&arrays, WATCH_DEVICE, handle_of(context) << CONTEXT, handle, bytes);
}

void memory_array_gone(uint64_t handle)
{
	gone(&arrays, handle);
}

/* ---- virtual memory */

void memory_created(enum watch_kind kind, uint64_t handle, uint64_t bytes)
{
	made(&created, kind, HANDED, handle, bytes);
}

static void let_go(uint64_t handle, uint64_t what)
{
	struct entry e;

	if (table_add(&created, handle, 0 - what, &e) && e.c >> CONTEXT == 0)
		gone(&created, handle);
}

void memory_retained(uint64_t handle)
{
	struct entry e;

	table_add(&created, handle, HANDED, &e);
}

void memory_released(uint64_t handle)
{
	let_go(handle, HANDED);
}

void memory_mapped(uint64_t address, uint64_t bytes, uint64_t handle)
{
	struct entry e;

	if (table_add(&created, handle, MAPPED, &e) &&
	    !table_must(&mapped, address, bytes, e.b | (e.c & KIND) << MAPPED_KIND, handle))
		let_go(handle, MAPPED);
}

struct unmapping {
	uint64_t from, to;
	uint64_t address[256];
	size_t n;
};

static void in_range(const struct entry *e, void *arg)
{
	struct unmapping *u = arg;

	if (e->key >= u->from && e->key < u->to && u->n < sizeof(u->address) / sizeof(*u->address))
		u->address[u->n++] = e->key;
}

/* All that was mapped in the range. */
void memory_unmapped(uint64_t address, uint64_t bytes)
{
	struct unmapping u;
	struct entry e;

	/* most often it is one */
	if (table_take(&mapped, address, &e)) {
		let_go(e.c, MAPPED);
		if (e.a >= bytes)
			return;
	}
	do {
		u = (struct unmapping){.from = address, .to = address + bytes};
		table_each(&mapped, in_range, &u);
		for (size_t i = 0; i < u.n; i++)
			if (table_take(&mapped, u.address[i], &e))
				let_go(e.c, MAPPED);
	} while (u.n == sizeof(u.address) / sizeof(*u.address));
}

/* ---- by address */

static struct block block_of(const struct entry *e, uint64_t site, enum watch_kind kind)
{
	return (struct block){
		.start = e->key, .bytes = e->a, .kind = kind, .by = record_shared()->site[site].by};
}

static bool found_in(struct table *t, uint64_t address, bool wait, struct block *b)
{
	struct entry e;

	if (!table_find(t, address, &e, wait))
		return false;
	*b = block_of(&e, e.b, (enum watch_kind)(e.c & KIND));
	b->registered = e.c & REGISTERED;
	return true;
}

static bool found_mapped(uint64_t address, bool wait, struct block *b)
{
	struct entry e;

	if (!table_find(&mapped, address, &e, wait))
		return false;
	*b = block_of(&e, e.b & ((1u << MAPPED_KIND) - 1), (enum watch_kind)(e.b >> MAPPED_KIND));
	return true;
}

bool memory_find(uint64_t address, bool wait, struct block *b)
{
	return found_in(&live, address, wait, b) || found_mapped(address, wait, b) ||
	       found_in(&pinned, address, wait, b);
}

bool memory_pinned(uint64_t address, struct block *b)
{
	return found_in(&pinned, address, true, b);
}
