/* SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"

#include "base/hash.h"

#include <pthread.h>
#include <string.h>

/* One packed weight. */
struct packed {
	void *data;
	size_t bytes;
};

struct store {
	struct arena arena;
	struct map by_key;
	struct packed *items;
	uint32_t n, cap;
	size_t bytes;
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
		mem_free(s->items[i].data);
	pthread_mutex_destroy(&s->lock);
	struct arena a = s->arena;
	arena_free(&a);
}

size_t store_bytes(const struct store *s)
{
	return s->bytes;
}

static const void *add(struct store *s, const char *key, size_t n, void *data, size_t bytes)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->items = arena_grow(&s->arena, s->items, s->n, s->cap, sizeof(*s->items));
	}
	s->items[s->n] = (struct packed){data, bytes};
	map_set(&s->by_key, arena_strn(&s->arena, key, n), n, s->n++);
	s->bytes += bytes;
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
		void *data = mem_alloc(bytes, MEM_WEIGHTS);
		int err = data ? make(data, t, arg)
			       : FAIL(d, E_MEMORY, .actual = fmt(d, "%zu bytes for a packed weight", bytes));
		if (!err && s->packed)
			s->packed(s->arg, t);
		if (!err)
			found = add(s, full, (size_t)n, data, bytes);
		else
			mem_free(data);
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}
