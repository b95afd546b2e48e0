/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records where malloc blocks begin and end, so that we can report a copy that extends past the end of a block even if
 * the memory behind it is mapped. This needs LD_PRELOAD: the functions of the malloc family are defined here, call the
 * next definition (libc's), and record blocks from a minimum size on, in bounded memory. A program with its own malloc
 * does not call ours; then no blocks are known and nothing else changes.
 */
#include "watch/inject/inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- the index of recorded blocks */

/*
 * A hash table of blocks. Size class k holds blocks of 2^k to 2^(k+1) - 1 usable bytes. The key of a block is its class
 * k and its start address divided by 2^k. So no two live blocks have the same key, and to find the block around an
 * address it is enough to look up three keys in each class.
 */
struct heap_block {
	uint64_t key; /* 0 if the slot is free; REMOVED if its block was removed */
	const char *start;
	size_t bytes; /* the size that the program asked for */
};
enum {
	REMOVED = 1,
	SHARDS = 64,
	MIN_SHARD_SLOTS = 64,
	MAX_SHARD_SLOTS = 1 << 14,
	SIZE_CLASSES = 48,
	MIN_BLOCK_BYTES = 64
};
static struct shard {
	struct heap_block *v;
	size_t cap, used, live; /* live: slots with a block; used: these and the slots marked REMOVED */
	int lock;
} shard[SHARDS];
/*
 * Blocks of at least this size are recorded. Accessed atomically, because threads may run before heap_start() sets
 * the value.
 */
static size_t min_recorded = SIZE_MAX;

static size_t min_recorded_bytes(void)
{
	return __atomic_load_n(&min_recorded, __ATOMIC_RELAXED);
}

static unsigned class_of(size_t usable)
{
	return 63u - (unsigned)__builtin_clzll(usable);
}

static uint64_t key_of(uint64_t page, unsigned k)
{
	return page << 6 | k;
}

static uint64_t hash_key(uint64_t key)
{
	uint64_t h = key * UINT64_C(0x9E3779B97F4A7C15);

	return h ^ h >> 32;
}

/* Returns the slot with the key, or the free slot where the key belongs, or NULL if the shard has no slots yet. */
static struct heap_block *find_slot(const struct shard *s, uint64_t key)
{
	if (!s->cap)
		return NULL;
	for (size_t i = (size_t)(hash_key(key) >> 8) & (s->cap - 1);; i = (i + 1) & (s->cap - 1))
		if (s->v[i].key == key || !s->v[i].key)
			return &s->v[i];
}

static bool resize(struct shard *s, size_t cap)
{
	struct shard bigger = {.cap = cap};

	bigger.v = mmap(NULL, cap * sizeof(*bigger.v), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bigger.v == MAP_FAILED)
		return false;
	for (size_t i = 0; i < s->cap; i++) {
		if (s->v[i].key <= REMOVED)
			continue;
		*find_slot(&bigger, s->v[i].key) = s->v[i];
		bigger.used++;
	}
	if (s->v)
		munmap(s->v, s->cap * sizeof(*s->v));
	s->v = bigger.v;
	s->cap = cap;
	s->used = s->live = bigger.used;
	return true;
}

/*
 * Makes room for one more block: grows the shard, or rebuilds it without its removed slots. A shard of maximum size
 * accepts blocks only up to 3/8 of its slots, because in a fuller shard almost every new block would cause a rebuild.
 */
static bool make_room(struct shard *s)
{
	size_t cap = s->cap ? s->cap : MIN_SHARD_SLOTS;

	if (2 * (s->used + 1) <= s->cap)
		return true;
	while (4 * (s->live + 1) > cap && cap < MAX_SHARD_SLOTS)
		cap *= 2;
	return 8 * (s->live + 1) <= 3 * cap && resize(s, cap);
}

static void index_block(const char *start, size_t bytes, size_t usable)
{
	unsigned k = class_of(usable);
	uint64_t key = key_of((uint64_t)(uintptr_t)start >> k, k);
	struct shard *s = &shard[hash_key(key) % SHARDS];

	lock_take(&s->lock);
	if (make_room(s)) {
		struct heap_block *f = find_slot(s, key);
		s->used += !f->key;
		s->live += !f->key;
		*f = (struct heap_block){key, start, bytes};
	}
	lock_give(&s->lock);
}

/* Removes a block from the index. Returns the size of the block, or 0 if the index does not have the block. */
static size_t unindex_block(const char *start, size_t usable)
{
	unsigned k = class_of(usable);
	uint64_t key = key_of((uint64_t)(uintptr_t)start >> k, k);
	struct shard *s = &shard[hash_key(key) % SHARDS];
	size_t bytes = 0;

	lock_take(&s->lock);
	struct heap_block *f = find_slot(s, key);
	if (f && f->key == key && f->start == start) {
		bytes = f->bytes;
		*f = (struct heap_block){.key = REMOVED};
		s->live--;
	}
	lock_give(&s->lock);
	return bytes;
}

static bool find_key(uint64_t key, const char *p, const char **start, size_t *bytes)
{
	struct shard *s = &shard[hash_key(key) % SHARDS];

	lock_take(&s->lock);
	struct heap_block *f = find_slot(s, key);
	bool found = f && f->key == key && f->start <= p && p < f->start + f->bytes;
	if (found) {
		*start = f->start;
		*bytes = f->bytes;
	}
	lock_give(&s->lock);
	return found;
}

/* ---- the next malloc in the search order, normally that of libc */

static struct {
	void *(*malloc)(size_t);
	void (*free)(void *);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	size_t (*usable)(void *);
	bool looking;
} next;

/* Memory for allocations that dlsym() itself makes while it looks up the next malloc. */
static char early[16384] __attribute__((aligned(16)));
static size_t early_used;

static void *early_block(size_t n)
{
	size_t at = early_used;

	n = (n + 15) & ~(size_t)15;
	if (n > sizeof(early) - at)
		return NULL;
	early_used += n;
	return early + at;
}

static bool is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + sizeof(early);
}

static bool find_next_malloc(void)
{
	if (next.malloc)
		return true;
	if (next.looking)
		return false;
	next.looking = true;
	*(void **)&next.free = dlsym(RTLD_NEXT, "free");
	*(void **)&next.calloc = dlsym(RTLD_NEXT, "calloc");
	*(void **)&next.realloc = dlsym(RTLD_NEXT, "realloc");
	*(void **)&next.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
	*(void **)&next.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
	*(void **)&next.memalign = dlsym(RTLD_NEXT, "memalign");
	*(void **)&next.usable = dlsym(RTLD_NEXT, "malloc_usable_size");
	*(void **)&next.malloc = dlsym(RTLD_NEXT, "malloc");
	next.looking = false;
	return next.malloc;
}

/*
 * The thread that is in fork() and holds the locks of all shards. Fork handlers of other libraries may allocate in that
 * thread, and must not wait for those locks.
 */
static uintptr_t forking;

static bool in_fork(void)
{
	uintptr_t thread = __atomic_load_n(&forking, __ATOMIC_RELAXED);

	return thread && thread == (uintptr_t)pthread_self();
}

static void *record_block(void *p, size_t bytes)
{
	if (p && bytes >= min_recorded_bytes() && !in_fork())
		index_block(p, bytes, next.usable(p));
	return p;
}

/*
 * Call this before a block is freed, because afterwards another thread may get the same address. Returns the size of
 * the block if the block was recorded, otherwise 0.
 */
static size_t forget_block(void *p)
{
	size_t usable = p && min_recorded_bytes() != SIZE_MAX ? next.usable(p) : 0;

	return usable >= min_recorded_bytes() && !in_fork() ? unindex_block(p, usable) : 0;
}

/* ---- the malloc family */

EXPORT void *malloc(size_t n);
EXPORT void free(void *p);
EXPORT void *calloc(size_t n, size_t each);
EXPORT void *realloc(void *p, size_t n);
EXPORT void *reallocarray(void *p, size_t n, size_t each);
EXPORT int posix_memalign(void **p, size_t align, size_t n);
EXPORT void *aligned_alloc(size_t align, size_t n);
EXPORT void *memalign(size_t align, size_t n);
EXPORT size_t malloc_usable_size(void *p);

void *malloc(size_t n)
{
	return find_next_malloc() ? record_block(next.malloc(n), n) : early_block(n);
}

void free(void *p)
{
	if (!p || is_early(p) || !find_next_malloc())
		return;
	forget_block(p);
	next.free(p);
}

void *calloc(size_t n, size_t each)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, each, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return find_next_malloc() ? record_block(next.calloc(n, each), bytes) : early_block(bytes);
}

void *realloc(void *p, size_t n)
{
	if (is_early(p) || !find_next_malloc()) {
		char *q = malloc(n);
		size_t left = p ? (size_t)(early + sizeof(early) - (char *)p) : 0;
		return q && p ? memcpy(q, p, n < left ? n : left) : q;
	}
	size_t had = forget_block(p);
	void *q = next.realloc(p, n);
	if (!q && n && had)
		record_block(p, had); /* realloc failed, so the old block is still valid */
	return record_block(q, n);
}

void *reallocarray(void *p, size_t n, size_t each)
{
	size_t bytes;

	if (!__builtin_mul_overflow(n, each, &bytes))
		return realloc(p, bytes);
	errno = ENOMEM;
	return NULL;
}

int posix_memalign(void **p, size_t align, size_t n)
{
	int rc = find_next_malloc() ? next.posix_memalign(p, align, n) : ENOMEM;

	if (!rc)
		record_block(*p, n);
	return rc;
}

void *aligned_alloc(size_t align, size_t n)
{
	return find_next_malloc() ? record_block(next.aligned_alloc(align, n), n) : NULL;
}

void *memalign(size_t align, size_t n)
{
	return find_next_malloc() ? record_block(next.memalign(align, n), n) : NULL;
}

/*
 * A program that asks for the usable size of a block may use all of these bytes, so the block is recorded again with
 * this size.
 */
size_t malloc_usable_size(void *p)
{
	if (!p || is_early(p) || !find_next_malloc())
		return 0;
	size_t usable = next.usable(p);
	if (usable >= min_recorded_bytes() && !in_fork() && unindex_block(p, usable))
		index_block(p, usable, usable);
	return usable;
}

/* ---- start, fork and lookup */

/*
 * Takes the locks of all shards before fork(). Otherwise the child could inherit a lock held by a thread that does
 * not exist in the child, and wait for this lock forever.
 */
static void before_fork(void)
{
	for (size_t i = 0; i < SHARDS; i++)
		lock_take(&shard[i].lock);
	__atomic_store_n(&forking, (uintptr_t)pthread_self(), __ATOMIC_RELAXED);
}

static void after_fork(void)
{
	__atomic_store_n(&forking, 0, __ATOMIC_RELAXED);
	for (size_t i = 0; i < SHARDS; i++)
		lock_give(&shard[i].lock);
}

__attribute__((constructor)) static void heap_start(void)
{
	const char *text = getenv(WATCH_HEAP_VARIABLE);
	size_t n = text ? strtoull(text, NULL, 10) : 0;

	if (!n || !find_next_malloc() || !next.usable || !next.posix_memalign)
		return;
	pthread_atfork(before_fork, after_fork, after_fork);
	__atomic_store_n(&min_recorded, n < MIN_BLOCK_BYTES ? MIN_BLOCK_BYTES : n, __ATOMIC_RELAXED);
}

bool heap_find(const void *p, const char **start, size_t *bytes)
{
	uint64_t address = (uint64_t)(uintptr_t)p;

	if (min_recorded_bytes() == SIZE_MAX || in_fork())
		return false;
	for (unsigned k = class_of(min_recorded_bytes()); k < SIZE_CLASSES; k++) {
		uint64_t page = address >> k;
		for (uint64_t back = 0; back < 3 && back <= page; back++) {
			if (!find_key(key_of(page - back, k), p, start, bytes))
				continue;
			/*
			 * The block may have been freed by a call that did not come through us. Then its memory may
			 * be unmapped, or be part of another block: so check the size that malloc gives.
			 */
			void *block = (void *)(uintptr_t)*start;
			if (host_readable(*start - 16, 16) && class_of(next.usable(block) | 1) == k)
				return true;
		}
	}
	return false;
}
