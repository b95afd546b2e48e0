/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/event.h"

#include <stdlib.h>
#include <string.h>

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes percent escapes such as %09, in place. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (s[0] == '%' && hex_digit(s[1]) >= 0 && hex_digit(s[2]) >= 0) {
			*to++ = (char)(16 * hex_digit(s[1]) + hex_digit(s[2]));
			s += 2;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

bool event_parse(const char *line, size_t n, struct arena *a, struct event *e)
{
	char *rest = arena_strn(a, line, n), *word, *end;

	*e = (struct event){0};
	if (!(word = strsep(&rest, "\t")) || !rest)
		return false;
	e->seconds = strtod(word, &end);
	if (end == word || *end)
		return false;
	word = strsep(&rest, "\t");
	e->thread = strtol(word, &end, 10);
	if (end == word || *end || !rest)
		return false;
	e->kind = strsep(&rest, "\t");
	while ((word = strsep(&rest, "\t")) && e->npairs < EVENT_PAIRS) {
		char *equals = strchr(word, '=');
		if (!equals)
			return false;
		*equals = '\0';
		unescape(equals + 1);
		e->pair[e->npairs].key = word;
		e->pair[e->npairs++].value = equals + 1;
	}
	return true;
}

const char *event_text(const struct event *e, const char *key, int k)
{
	for (int i = 0; i < e->npairs; i++)
		if (strcmp(e->pair[i].key, key) == 0 && k-- == 0)
			return e->pair[i].value;
	return NULL;
}

int64_t event_number(const struct event *e, const char *key)
{
	const char *v = event_text(e, key, 0);

	return v ? strtoll(v, NULL, 10) : 0;
}

uint64_t event_handle(const struct event *e, const char *key)
{
	const char *v = event_text(e, key, 0);

	return v ? strtoull(v, NULL, 16) : 0;
}
