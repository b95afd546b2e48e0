/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <string.h>

struct map_slot {
	const char *key; /* NULL: free */
	size_t n;
	uint64_t hash;
	uint32_t number;
};

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed)
{
	const unsigned char *s = p;
	uint64_t h = seed ? seed : UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < n; i++)
		h = (h ^ s[i]) * UINT64_C(0x100000001b3);
	return h;
}

uint64_t hash_text(const char *s)
{
	return hash_bytes(s, strlen(s), 0);
}

uint64_t hash_mix(uint64_t h, uint64_t v)
{
	/* the finalizer of SplitMix64 (Steele, Lea, Flood, 2014) */
	h ^= v + 0x9e3779b97f4a7c15 + (h << 6) + (h >> 2);
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
	h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
	return h ^ (h >> 31);
}

/*
 * Returns the slot of the key, or the free slot for a new key. The search ends, because some slots
 * are always free. The capacity is a power of two.
 */
static struct map_slot *find_slot(const struct map *m, const char *key, size_t n, uint64_t hash)
{
	/*
	 * FNV mixes its high bits better than its low bits. The low bits select the slot, so the
	 * high bits are mixed into them.
	 */
	size_t i = (size_t)(hash ^ hash >> 32);

	for (;; i++) {
		struct map_slot *s = &m->slots[i & (m->cap - 1)];
		if (!s->key || (s->hash == hash && s->n == n && memcmp(s->key, key, n) == 0))
			return s;
	}
}

int64_t map_get(const struct map *m, const char *key, size_t n)
{
	if (!m->used)
		return -1;
	const struct map_slot *s = find_slot(m, key, n, hash_bytes(key, n, 0));
	return s->key ? (int64_t)s->number : -1;
}

static void grow_slots(struct map *m)
{
	struct map old = *m;

	m->cap = old.cap ? old.cap * 2 : 16;
	m->slots = arena_new_n(m->arena, struct map_slot, m->cap);
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i].key)
			*find_slot(m, old.slots[i].key, old.slots[i].n, old.slots[i].hash) =
				old.slots[i];
}

bool map_set(struct map *m, const char *key, size_t n, uint32_t number)
{
	uint64_t hash = hash_bytes(key, n, 0);

	if (m->used >= m->cap / 4 * 3)
		grow_slots(m);
	struct map_slot *s = find_slot(m, key, n, hash);
	bool fresh = !s->key;
	if (fresh) {
		*s = (struct map_slot){.key = key, .n = n, .hash = hash};
		m->used++;
	}
	s->number = number;
	return fresh;
}
