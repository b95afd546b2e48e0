/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from handles to small records: open addressing, doubled up to a bound, protected by a spin lock. */
#include "watch/inject/inject.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_SLOTS = 256, MAX_SLOTS = 1 << 17 };

static size_t home_slot(uint64_t key, size_t cap)
{
	return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (cap - 1);
}

static struct entry *find_slot(struct table *t, uint64_t key)
{
	if (!t->cap)
		return NULL;
	for (size_t i = home_slot(key, t->cap);; i = (i + 1) & (t->cap - 1))
		if (t->entry[i].key == key || !t->entry[i].key)
			return &t->entry[i];
}

static bool make_room(struct table *t)
{
	size_t cap = t->cap ? 2 * t->cap : MIN_SLOTS;
	struct table bigger = {.cap = cap};

	if (2 * (t->used + 1) <= t->cap)
		return true;
	if (cap > (t->most ? t->most : MAX_SLOTS))
		return 4 * (t->used + 1) <=
		       /* the table has its maximum size: refuse new entries when 3/4 of the slots are used */
		       3 * t->cap;
	bigger.entry = calloc(cap, sizeof(*bigger.entry));
	if (!bigger.entry)
		return t->used + 1 < t->cap;
	for (size_t i = 0; i < t->cap; i++)
		if (t->entry[i].key)
			*find_slot(&bigger, t->entry[i].key) = t->entry[i];
	free(t->entry);
	t->entry = bigger.entry;
	t->cap = cap;
	return true;
}

static bool store_entry(struct table *t, const struct entry *x, bool over)
{
	bool kept = false;

	if (!x->key)
		return false;
	lock_take(&t->lock);
	if (make_room(t)) {
		struct entry *e = find_slot(t, x->key);
		kept = over || !e->key;
		t->used += !e->key;
		*e = kept ? *x : *e;
	}
	lock_give(&t->lock);
	return kept;
}

bool table_put(struct table *t, uint64_t key, uint64_t a, uint64_t b, uint64_t c)
{
	return store_entry(t, &(struct entry){key, a, b, c}, true);
}

bool table_new(struct table *t, uint64_t key, uint64_t a, uint64_t b, uint64_t c)
{
	return store_entry(t, &(struct entry){key, a, b, c}, false);
}

bool table_must(struct table *t, uint64_t key, uint64_t a, uint64_t b, uint64_t c)
{
	bool kept = table_put(t, key, a, b, c);

	if (!kept && key)
		__atomic_fetch_add(&record_shared()->forgotten, 1, __ATOMIC_RELAXED);
	return kept;
}

bool table_get(struct table *t, uint64_t key, struct entry *e)
{
	lock_take(&t->lock);
	struct entry *found = key ? find_slot(t, key) : NULL;
	bool has = found && found->key;
	if (has)
		*e = *found;
	lock_give(&t->lock);
	return has;
}

/* Removes the entry in slot i. Entries behind it move up, because a lookup stops at the first free slot. */
static void remove_slot(struct table *t, size_t i)
{
	size_t mask = t->cap - 1, hole = i;

	for (size_t k = (i + 1) & mask; t->entry[k].key; k = (k + 1) & mask) {
		size_t home = home_slot(t->entry[k].key, t->cap);
		if (((k - home) & mask) >= ((k - hole) & mask)) {
			t->entry[hole] = t->entry[k];
			hole = k;
		}
	}
	t->entry[hole] = (struct entry){0};
	t->used--;
}

bool table_take(struct table *t, uint64_t key, struct entry *e)
{
	lock_take(&t->lock);
	struct entry *found = key ? find_slot(t, key) : NULL;
	bool has = found && found->key;
	if (has) {
		*e = *found;
		remove_slot(t, (size_t)(found - t->entry));
	}
	lock_give(&t->lock);
	return has;
}

bool table_add(struct table *t, uint64_t key, uint64_t c, struct entry *e)
{
	lock_take(&t->lock);
	struct entry *found = key ? find_slot(t, key) : NULL;
	bool has = found && found->key;
	if (has) {
		found->c += c;
		*e = *found;
	}
	lock_give(&t->lock);
	return has;
}

size_t table_used(struct table *t)
{
	lock_take(&t->lock);
	size_t used = t->used;
	lock_give(&t->lock);
	return used;
}

bool table_find(struct table *t, uint64_t address, struct entry *e, bool wait)
{
	bool has = false;

	if (wait)
		lock_take(&t->lock);
	else if (!lock_try(&t->lock))
		return false;
	for (size_t i = 0; i < t->cap && !has; i++) {
		const struct entry *x = &t->entry[i];
		if (x->key && x->key <= address && address - x->key < x->a) {
			*e = *x;
			has = true;
		}
	}
	lock_give(&t->lock);
	return has;
}

void table_each(struct table *t, void (*see)(const struct entry *, void *arg), void *arg)
{
	lock_take(&t->lock);
	for (size_t i = 0; i < t->cap; i++)
		if (t->entry[i].key)
			see(&t->entry[i], arg);
	lock_give(&t->lock);
}

struct matches {
	bool (*of)(const struct entry *e, uint64_t whose);
	uint64_t whose, key[256];
	size_t n;
};

static void collect_matching(const struct entry *e, void *arg)
{
	struct matches *f = arg;

	if (f->n < COUNT(f->key) && f->of(e, f->whose))
		f->key[f->n++] = e->key;
}

void table_clear(struct table *t, bool (*of)(const struct entry *e, uint64_t whose), uint64_t whose,
		 void (*take)(struct table *t, uint64_t key, uint64_t whose))
{
	struct matches f;

	do {
		f = (struct matches){.of = of, .whose = whose};
		table_each(t, collect_matching, &f);
		for (size_t i = 0; i < f.n; i++)
			take(t, f.key[i], whose);
	} while (f.n == COUNT(f.key));
}
