/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include "base/asan.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_chunk {
	struct arena_chunk *next;
	size_t size;
	char data[] __attribute__((aligned(16)));
};

/*
 * Chunks double in size. The first chunk fits into one page together with its own header and the
 * header of mem_alloc().
 */
enum { FIRST_CHUNK = 4096 - 64 - 32, MAX_CHUNK = 1 << 20 };

/* Bytes after each block that AddressSanitizer watches. */
enum { REDZONE = WITH_ASAN ? 16 : 0 };

/*
 * Used by tests: the environment variable INFER_FAIL_ALLOC=n makes the n-th chunk allocation of the
 * process fail.
 */
static int refuse_for_test(void)
{
	static long left = -1;
	static int asked;

	if (!asked) {
		const char *s = getenv("INFER_FAIL_ALLOC");
		asked = 1;
		left = s ? strtol(s, NULL, 10) : -1;
	}
	return left > 0 && --left == 0;
}

static void add_chunk(struct arena *a, size_t bytes)
{
	size_t size = a->chunks ? a->size * 2 : FIRST_CHUNK;

	if (size > MAX_CHUNK)
		size = MAX_CHUNK;
	if (size < bytes)
		size = bytes;
	struct arena_chunk *c = refuse_for_test() ? NULL : mem_alloc(sizeof(*c) + size, MEM_MODEL);
	if (!c)
		mem_refused(size);
	c->size = size;
	c->next = a->chunks;
	a->chunks = c;
	a->size = size;
	a->used = 0;
	asan_poison(c->data, size);
}

/* Memory that is not zeroed. */
static void *take(struct arena *a, size_t bytes)
{
	if (bytes > SIZE_MAX / 2)
		mem_refused(bytes);
	size_t taken = ((bytes + 15) & ~(size_t)15) + REDZONE;
	if (!a->chunks || a->size - a->used < taken)
		add_chunk(a, taken);
	void *p = a->chunks->data + a->used;
	a->used += taken;
	asan_unpoison(p, bytes);
	return p;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	return memset(take(a, bytes), 0, bytes);
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
	size_t bytes;

	if (!size_mul(count, size, &bytes))
		mem_refused(SIZE_MAX);
	return arena_alloc(a, bytes);
}

void *arena_grow(struct arena *a, const void *old, size_t count, size_t newcount, size_t size)
{
	void *p = arena_array(a, newcount, size);

	if (count)
		memcpy(p, old, count * size);
	return p;
}

void *arena_append(struct arena *a, const void *old, size_t count, size_t size)
{
	if (count & (count - 1)) /* between two powers of two */
		return (void *)(uintptr_t)old;
	return arena_grow(a, old, count, count ? 2 * count : 1, size);
}

void *arena_dup(struct arena *a, const void *src, size_t bytes)
{
	void *p = take(a, bytes);

	if (bytes)
		memcpy(p, src, bytes);
	return p;
}

char *arena_strn(struct arena *a, const char *s, size_t n)
{
	char *p = arena_alloc(a, n + 1);

	if (n)
		memcpy(p, s, n);
	return p;
}

char *arena_str(struct arena *a, const char *s)
{
	return s ? arena_strn(a, s, strlen(s)) : NULL;
}

char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
{
	va_list again;

	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0)
		return arena_str(a, "?");
	char *p = arena_alloc(a, (size_t)n + 1);
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	char *p = arena_vprintf(a, fmt, ap);
	va_end(ap);
	return p;
}

void arena_free(struct arena *a)
{
	while (a->chunks) {
		struct arena_chunk *c = a->chunks;
		a->chunks = c->next;
		mem_free(c);
	}
	*a = (struct arena){0};
}

void arena_take(struct arena *to, struct arena *from)
{
	struct arena_chunk *last = from->chunks;

	while (last && last->next)
		last = last->next;
	/*
	 * insert the chunks after the newest chunk of `to`, because `to` allocates from its newest
	 * chunk
	 */
	if (last && to->chunks) {
		last->next = to->chunks->next;
		to->chunks->next = from->chunks;
	} else if (last) {
		*to = *from;
	}
	*from = (struct arena){0};
}

size_t arena_bytes(const struct arena *a)
{
	size_t sum = 0;

	for (const struct arena_chunk *c = a->chunks; c; c = c->next)
		sum += sizeof(*c) + c->size;
	return sum;
}
