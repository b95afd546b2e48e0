/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/weight_store.h"

#include "base/hash.h"
#include "base/mem.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* One packed weight. */
struct packed {
	void *data;
	size_t bytes;
	bool alone; /* the block comes from mem_alloc(); false if it is part of the region */
};

enum { HUGE = 2 << 20 };

/*
 * Address space in which all packed weights lie side by side in huge pages: with small pages, page
 * faults take a fifth of the loading time. The system provides a page when it is first written.
 */
struct region {
	char *base;
	/*
	 * size is 0 if nothing is reserved yet; base is NULL if the system refused the reservation
	 */
	size_t used, size;
};

struct store {
	struct arena arena;
	struct map by_key;
	struct packed *items;
	uint32_t n, cap;
	struct region region;
	pthread_mutex_t lock;
	void (*packed)(void *arg, const struct tensor *t);
	void *arg;
};

struct store *store_new(void (*packed)(void *arg, const struct tensor *t), void *arg)
{
	struct arena a = {0};
	struct store *s = arena_new(&a, struct store);

	s->arena = a;
	s->by_key.arena = &s->arena;
	s->packed = packed;
	s->arg = arg;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void store_free(struct store *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->n; i++)
		if (s->items[i].alone)
			mem_free(s->items[i].data);
	if (s->region.base) {
		mem_note(MEM_HOST, MEM_PACKED, -(int64_t)s->region.used);
		munmap(s->region.base, s->region.size);
	}
	pthread_mutex_destroy(&s->lock);
	struct arena a = s->arena;
	arena_free(&a);
}

/*
 * Reserves as much address space as the machine has memory. Reserved addresses take no memory until
 * they are used.
 */
static void region_open(struct region *r)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	r->size = pages > 0 ? ((size_t)pages * (size_t)page + HUGE - 1) / HUGE * HUGE : HUGE;
	void *p = mmap(NULL, r->size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return;
	r->base = p;
	/*
	 * keep small pages up to the next boundary of 2 MiB, so that a small model takes no huge
	 * page
	 */
	uintptr_t huge = ((uintptr_t)p + 2 * HUGE - 1) / HUGE * HUGE, end = (uintptr_t)p + r->size;
	if (huge < end)
		madvise((void *)huge, end - huge, MADV_HUGEPAGE);
}

static void *region_take(struct region *r, size_t bytes)
{
	if (!r->size)
		region_open(r);
	if (!r->base || bytes > r->size - r->used || (bytes + 63) / 64 * 64 > r->size - r->used)
		return NULL;
	void *p = r->base + r->used;
	r->used += (bytes + 63) / 64 * 64;
	mem_note(MEM_HOST, MEM_PACKED, (int64_t)((bytes + 63) / 64 * 64));
	return p;
}

/* The newest block, given back. */
static void region_return(struct region *r, size_t bytes)
{
	r->used -= (bytes + 63) / 64 * 64;
	mem_note(MEM_HOST, MEM_PACKED, -(int64_t)((bytes + 63) / 64 * 64));
}

static const void *add_packed(struct store *s, const char *key, size_t n, void *data, size_t bytes,
			      bool alone)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->items = arena_grow(&s->arena, s->items, s->n, s->cap, sizeof(*s->items));
	}
	s->items[s->n] = (struct packed){data, bytes, alone};
	map_set(&s->by_key, arena_strn(&s->arena, key, n), n, s->n++);
	return data;
}

const void *store_get(struct store *s, const struct tensor *t, const char *key, size_t bytes,
		      int (*make)(void *dst, const struct tensor *t, void *arg), void *arg,
		      struct diag *d)
{
	char full[512];
	int n = snprintf(full, sizeof(full), "%p/%zu/%s", t->data, t->bytes, key);
	const void *found = NULL;

	if (n < 0 || (size_t)n >= sizeof(full)) {
		(void)FAIL(d, E_INTERNAL, .message = "a packed weight's key is too long");
		return NULL;
	}
	pthread_mutex_lock(&s->lock);
	int64_t k = map_get(&s->by_key, full, (size_t)n);
	if (k >= 0) {
		found = s->items[k].data;
	} else {
		void *data = region_take(&s->region, bytes);
		bool alone = !data;
		if (alone)
			data = mem_alloc(bytes, MEM_PACKED);
		int err = data ? make(data, t, arg)
			       : FAIL(d, E_MEMORY,
				      .actual = fmt(d, "%zu bytes for a packed weight", bytes));
		if (data && err == -(int)E_MEMORY)
			(void)FAIL(d, E_MEMORY, .actual = "scratch to pack a weight");
		if (!err && s->packed)
			s->packed(s->arg, t);
		if (!err)
			found = add_packed(s, full, (size_t)n, data, bytes, alone);
		else if (alone)
			mem_free(data);
		else
			region_return(&s->region, bytes);
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}
