/* SPDX-License-Identifier: Apache-2.0 */
#include "score/edits.h"

#include "base/hash.h"
#include "base/utf8.h"

#include <string.h>

/* A text as numbers, of which equal ones stand for equal words or characters. */
struct units {
	uint32_t *v;
	size_t n;
};

static const char blanks[] = " \t\n\v\f\r";

static struct units split_words(const char *s, struct map *ids, struct arena *a)
{
	struct units u = {arena_new_n(a, uint32_t, strlen(s) + 1), 0};

	for (s += strspn(s, blanks); *s; s += strspn(s, blanks)) {
		size_t n = strcspn(s, blanks);
		int64_t id = map_get(ids, s, n);
		if (id < 0)
			map_set(ids, s, n, (uint32_t)(id = (int64_t)ids->used));
		u.v[u.n++] = (uint32_t)id;
		s += n;
	}
	return u;
}

static struct units split_characters(const char *s, struct arena *a)
{
	const char *end = s + strlen(s);
	struct units u = {arena_new_n(a, uint32_t, (size_t)(end - s) + 1), 0};

	s += strspn(s, blanks);
	while (end > s && strchr(blanks, end[-1]))
		end--;
	while (s < end) {
		size_t n;
		u.v[u.n++] = utf8_get(s, end, &n);
		s += n;
	}
	return u;
}

/* One row of the table of R. A. Wagner and M. J. Fischer, The string-to-string correction problem, 1974. */
static int64_t distance(const struct units *a, const struct units *b, struct arena *arena)
{
	int64_t *row = arena_new_n(arena, int64_t, b->n + 1);

	for (size_t k = 0; k <= b->n; k++)
		row[k] = (int64_t)k;
	for (size_t i = 0; i < a->n; i++) {
		int64_t diagonal = row[0];
		row[0] = (int64_t)i + 1;
		for (size_t k = 0; k < b->n; k++) {
			int64_t best = diagonal + (a->v[i] != b->v[k]);
			diagonal = row[k + 1];
			best = best < diagonal + 1 ? best : diagonal + 1;
			row[k + 1] = best < row[k] + 1 ? best : row[k] + 1;
		}
	}
	return row[b->n];
}

struct edits edits_between(const char *truth, const char *text, bool words, struct arena *a)
{
	struct map ids = {.arena = a};
	struct units x = words ? split_words(truth, &ids, a) : split_characters(truth, a);
	struct units y = words ? split_words(text, &ids, a) : split_characters(text, a);

	return (struct edits){distance(&x, &y, a), (int64_t)x.n};
}
