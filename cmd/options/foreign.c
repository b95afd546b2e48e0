/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options/foreign.h"

#include <stddef.h>
#include <string.h>

static const struct {
	const char *words, *hint;
} foreign[] = {
#define FOREIGN(words, hint) {words, hint},
#include "cmd/options/foreign.def"
#undef FOREIGN
};

const char *foreign_hint(const char *word, size_t n)
{
	for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++) {
		const char *p = foreign[i].words;
		for (size_t len; *p; p += len + (p[len] == ' ')) {
			len = strcspn(p, " ");
			if (len == n && !strncmp(p, word, n))
				return foreign[i].hint;
		}
	}
	return NULL;
}
