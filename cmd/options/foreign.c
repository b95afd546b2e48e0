/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options/foreign.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct {
	const char *words, *hint;
} foreign[] = {
#define FOREIGN(words, hint) {words, hint},
#include "cmd/options/foreign.def"
#undef FOREIGN
};

/* Long words match with - for _ and in either case: --batch_size, --batch-size and --batchSize have one row. */
static bool same_word(const char *a, const char *b, size_t n)
{
	bool exact = n <= 2;

	for (size_t i = 0; i < n; i++) {
		int x = a[i] == '_' ? '-' : tolower((unsigned char)a[i]);
		int y = b[i] == '_' ? '-' : tolower((unsigned char)b[i]);
		if (exact ? a[i] != b[i] : x != y)
			return false;
	}
	return true;
}

const char *foreign_hint(const char *word, size_t n)
{
	for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++) {
		const char *p = foreign[i].words;
		for (size_t len; *p; p += len + (p[len] == ' ')) {
			len = strcspn(p, " ");
			if (len == n && same_word(p, word, n))
				return foreign[i].hint;
		}
	}
	return NULL;
}
