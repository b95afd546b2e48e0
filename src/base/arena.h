/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
/*
 * A chunked bump allocator for many small objects that are freed together. Each large object
 * (graph, plan, diagnostics) has an arena of its own. Arenas hold metadata and the constants that
 * the optimizer makes. Weights lie in the file's map; the tensors of a run come from mem_alloc(),
 * whose failure is an ordinary error.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct arena_chunk;
struct arena {
	struct arena_chunk *chunks; /* newest first */
	size_t used, size;	    /* bytes of the newest chunk: taken, and in all */
};

/*
 * Returns zeroed, 16-byte aligned memory that the arena owns. Never returns NULL: if the system
 * refuses memory for metadata, the program ends with E-MEMORY and exit status 3.
 */
void *arena_alloc(struct arena *a, size_t bytes);
/*
 * Returns an array of count elements of `size` bytes. If the product overflows, the program ends,
 * as it does when the system refuses memory.
 */
void *arena_array(struct arena *a, size_t count, size_t size);
/*
 * Returns a copy of old[0..count) with room for newcount elements. The old array stays in the arena
 * until arena_free().
 */
void *arena_grow(struct arena *a, const void *old, size_t count, size_t newcount, size_t size);
/*
 * Returns old[0..count) with room for one more element, for arrays that grow by one element at a time and only by this
 * function: their room is the next power of two, so that n elements cost a copy of 2n at most.
 */
void *arena_append(struct arena *a, const void *old, size_t count, size_t size);
void *arena_dup(struct arena *a, const void *src, size_t bytes);
char *arena_str(struct arena *a, const char *s); /* NULL gives NULL */
char *arena_strn(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

#define arena_new(a, type)	    ((type *)arena_alloc((a), sizeof(type)))
#define arena_new_n(a, type, count) ((type *)arena_array((a), (count), sizeof(type)))

/* Frees all memory of the arena. The arena is empty afterwards and may be used again. */
void arena_free(struct arena *a);
/* Moves all memory of `from` to `to` without copying. `from` is empty afterwards. */
void arena_take(struct arena *to, struct arena *from);
/* Returns the bytes that the arena has allocated from the system, whether used or not. */
size_t arena_bytes(const struct arena *a);

#endif
