/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks of malloc's begin and end, so that a copy that leaves one is known although the page behind it is
 * mapped. It works where this library was loaded before the program (LD_PRELOAD): malloc and its like are
 * here, call the next ones, and keep blocks of a size or more in mind, in bounded memory. A program that has a
 * malloc of its own goes past this, and loses nothing.
 */
#include "watch/inject/inject.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- the index */

/*
 * A block is filed by its size class and its place in pages of that size: class k holds what has 2^k to 2^(k+1) - 1
 * usable bytes, so that no two blocks have one key, and an address is in a block of class k only where one of three
 * keys says so.
 */
struct filed {
	uint64_t key; /* 0: free; GONE: was taken out */
	const char *start;
	size_t bytes; /* asked for */
};
enum { GONE = 1, SHARDS = 64, SHARD_SMALL = 64, SHARD_MOST = 1 << 14, CLASSES = 48, LEAST = 64 };
static struct shard {
	struct filed *v;
	size_t cap, used, live; /* used: with those gone */
	int lock;
} shard[SHARDS];
static size_t filed_from =
	SIZE_MAX; /* blocks from here on are filed; threads may be there before it is known */

static size_t least(void)
{
	return __atomic_load_n(&filed_from, __ATOMIC_RELAXED);
}

static unsigned class_of(size_t usable)
{
	return 63u - (unsigned)__builtin_clzll(usable);
}

static uint64_t key_of(uint64_t page, unsigned k)
{
	return page << 6 | k;
}

static uint64_t mixed(uint64_t key)
{
	uint64_t h = key * UINT64_C(0x9E3779B97F4A7C15);

	return h ^ h >> 32;
}

/* The key's place in its shard, or the first free one; NULL: neither. */
static struct filed *look(const struct shard *s, uint64_t key)
{
	if (!s->cap)
		return NULL;
	for (size_t i = (size_t)(mixed(key) >> 8) & (s->cap - 1);; i = (i + 1) & (s->cap - 1))
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
		if (s->v[i].key <= GONE)
			continue;
		*look(&bigger, s->v[i].key) = s->v[i];
		bigger.used++;
	}
	if (s->v)
		munmap(s->v, s->cap * sizeof(*s->v));
	s->v = bigger.v;
	s->cap = cap;
	s->used = s->live = bigger.used;
	return true;
}

/* Room for one more. At the bound there must be some left over, or each would sweep out what is gone. */
static bool room(struct shard *s)
{
	size_t cap = s->cap ? s->cap : SHARD_SMALL;

	if (2 * (s->used + 1) <= s->cap)
		return true;
	while (4 * (s->live + 1) > cap && cap < SHARD_MOST)
		cap *= 2;
	return 8 * (s->live + 1) <= 3 * cap && resize(s, cap);
}

static void file_block(const char *start, size_t bytes, size_t usable)
{
	unsigned k = class_of(usable);
	uint64_t key = key_of((uint64_t)(uintptr_t)start >> k, k);
	struct shard *s = &shard[mixed(key) % SHARDS];

	lock_take(&s->lock);
	if (room(s)) {
		struct filed *f = look(s, key);
		s->used += !f->key;
		s->live += !f->key;
		*f = (struct filed){key, start, bytes};
	}
	lock_give(&s->lock);
}

/* The bytes it was filed with; 0: it was not. */
static size_t unfile(const char *start, size_t usable)
{
	unsigned k = class_of(usable);
	uint64_t key = key_of((uint64_t)(uintptr_t)start >> k, k);
	struct shard *s = &shard[mixed(key) % SHARDS];
	size_t bytes = 0;

	lock_take(&s->lock);
	struct filed *f = look(s, key);
	if (f && f->key == key && f->start == start) {
		bytes = f->bytes;
		*f = (struct filed){.key = GONE};
		s->live--;
	}
	lock_give(&s->lock);
	return bytes;
}

static bool find_key(uint64_t key, const char *p, const char **start, size_t *bytes)
{
	struct shard *s = &shard[mixed(key) % SHARDS];

	lock_take(&s->lock);
	struct filed *f = look(s, key);
	bool found = f && f->key == key && f->start <= p && p < f->start + f->bytes;
	if (found) {
		*start = f->start;
		*bytes = f->bytes;
	}
	lock_give(&s->lock);
	return found;
}

/* ---- the next malloc */

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

/* What the loader itself asks for while the next ones are looked up. */
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

static bool ready(void)
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

/* The thread that forks, while it holds every lock: handlers of other libraries may allocate meanwhile. */
static uintptr_t forking;

static bool forks_now(void)
{
	uintptr_t thread = __atomic_load_n(&forking, __ATOMIC_RELAXED);

	return thread && thread == (uintptr_t)pthread_self();
}

static void *made(void *p, size_t bytes)
{
	if (p && bytes >= least() && !forks_now())
		file_block(p, bytes, next.usable(p));
	return p;
}

/* Before it is freed: afterwards another thread may have it. */
static size_t given(void *p)
{
	size_t usable = p && least() != SIZE_MAX ? next.usable(p) : 0;

	return usable >= least() && !forks_now() ? unfile(p, usable) : 0;
}

/* ---- malloc and its like */

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
	return ready() ? made(next.malloc(n), n) : early_block(n);
}

void free(void *p)
{
	if (!p || is_early(p) || !ready())
		return;
	given(p);
	next.free(p);
}

void *calloc(size_t n, size_t each)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, each, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return ready() ? made(next.calloc(n, each), bytes) : early_block(bytes);
}

void *realloc(void *p, size_t n)
{
	if (is_early(p) || !ready()) {
		char *q = malloc(n);
		size_t left = p ? (size_t)(early + sizeof(early) - (char *)p) : 0;
		return q && p ? memcpy(q, p, n < left ? n : left) : q;
	}
	size_t had = given(p);
	void *q = next.realloc(p, n);
	if (!q && n && had)
		made(p, had); /* it was refused: the old block stands */
	return made(q, n);
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
	int rc = ready() ? next.posix_memalign(p, align, n) : ENOMEM;

	if (!rc)
		made(*p, n);
	return rc;
}

void *aligned_alloc(size_t align, size_t n)
{
	return ready() ? made(next.aligned_alloc(align, n), n) : NULL;
}

void *memalign(size_t align, size_t n)
{
	return ready() ? made(next.memalign(align, n), n) : NULL;
}

/* Who asks for this may use all of it. */
size_t malloc_usable_size(void *p)
{
	if (!p || is_early(p) || !ready())
		return 0;
	size_t usable = next.usable(p);
	if (usable >= least() && !forks_now() && unfile(p, usable))
		file_block(p, usable, usable);
	return usable;
}

/* ---- its start */

/* A child of fork must not find a lock taken by a thread that it does not have. */
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

	if (!n || !ready() || !next.usable || !next.posix_memalign)
		return;
	pthread_atfork(before_fork, after_fork, after_fork);
	__atomic_store_n(&filed_from, n < LEAST ? LEAST : n, __ATOMIC_RELAXED);
}

bool heap_find(const void *p, const char **start, size_t *bytes)
{
	uint64_t address = (uint64_t)(uintptr_t)p;

	if (least() == SIZE_MAX || forks_now())
		return false;
	for (unsigned k = class_of(least()); k < CLASSES; k++) {
		uint64_t page = address >> k;
		for (uint64_t back = 0; back < 3 && back <= page; back++) {
			if (!find_key(key_of(page - back, k), p, start, bytes))
				continue;
			/* what was freed past us is not there, or is another block by now */
			void *block = (void *)(uintptr_t)*start;
			if (host_readable(*start - 16, 16) && class_of(next.usable(block) | 1) == k)
				return true;
		}
	}
	return false;
}
