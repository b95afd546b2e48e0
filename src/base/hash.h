/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HASH_H
#define BASE_HASH_H
/*
 * A map from byte strings to 32-bit numbers, in an arena; the hash function that the map uses
 * (FNV-1a, 64 bits); and one that joins hashes.
 */
#include "base/arena.h"

#include <stdbool.h>

uint64_t hash_bytes(const void *p, size_t n,
		    /*
		     * seed: 0 to start (FNV's offset basis), or the hash of the preceding bytes to
		     * continue
		     */
		    uint64_t seed);

/* Returns the hash of a text. */
uint64_t hash_text(const char *s);
/* Returns a hash of both, whose order counts. */
uint64_t hash_mix(uint64_t h, uint64_t v);

struct map_slot;
struct map {
	struct arena *arena;
	struct map_slot *slots;
	size_t used, cap;
};
/*
 * Returns the number of the key, or -1 if the map lacks the key. Keys may contain NULs. The map
 * borrows the keys and does not copy them.
 */
int64_t map_get(const struct map *m, const char *key, size_t n);
/* Sets the number of a key. Returns true if the key is new. */
bool map_set(struct map *m, const char *key, size_t n, uint32_t number);

#endif
