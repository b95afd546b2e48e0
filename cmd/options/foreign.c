/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options/foreign.h"

#include "base/diag.h"
#include "base/file.h"
#include "base/str.h"
#include "cmd/options/options.h"
#include "ir/graph.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct foreign {
	unsigned commands; /* bits of the subcommands for which the hint holds */
	const char *words, *hint;
};

static const struct foreign foreign[] = {
#define FOREIGN(words, hint)		    {CMD_ALL, words, hint},
#define FOREIGN_IN(commands, words, hint)   {commands, words, hint},
#define FOREIGN_VALUE(option, values, hint) /* in foreign_values */
#include "cmd/options/foreign.def"
#undef FOREIGN
#undef FOREIGN_IN
#undef FOREIGN_VALUE
};

static const struct foreign_value {
	const char *option, *values, *hint;
} foreign_values[] = {
#define FOREIGN(words, hint)		    /* in foreign */
#define FOREIGN_IN(commands, words, hint)   /* in foreign */
#define FOREIGN_VALUE(option, values, hint) {option, values, hint},
#include "cmd/options/foreign.def"
#undef FOREIGN
#undef FOREIGN_IN
#undef FOREIGN_VALUE
};

enum {
	FOREIGNS = sizeof(foreign) / sizeof(*foreign),
	FOREIGN_VALUES = sizeof(foreign_values) / sizeof(*foreign_values),
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

/* Whether a value may stand in the place {name} of a hint: {N}, {S} and {COUNT} take numbers, {MODEL} models, {FILE.xml} .xml. */
static bool fits(const char *name, size_t n, const char *value)
{
	bool number = n == 1 || (n == 5 && !strncmp(name, "COUNT", n));
	char *end = NULL;

	if (!value || !*value || strlen(value) > 200)
		return false;
	if (number) {
		(void)strtod(value, &end);
		return isdigit((unsigned char)*value) && !*end;
	}
	/* -o 99 is a level, and no file */
	if (n == 4 && !strncmp(name, "FILE", n) && !value[strspn(value, "0123456789")])
		return false;
	bool model = path_names_model(value);
	const char *ending = memchr(name, '.', n);
	if (ending) {
		size_t k = (size_t)(name + n - ending);
		return strlen(path_ext(value)) == k && !strncmp(path_ext(value), ending, k);
	}
	return n == 5 && !strncmp(name, "MODEL", n) ? model : !model && *value != '-';
}

const char *foreign_input(const char *value, struct arena *a)
{
	size_t n = strcspn(value, ":=/.,");

	if (!n || value[n] != ':' || !value[n + 1] || access(value, F_OK) == 0)
		return value;
	return arena_printf(a, "%.*s=%s", (int)n, value, value + n + 1);
}

/* Returns the hint with the user's value in its places, or with their names if the value does not fit or is not known. */
static const char *fill_in(const char *hint, const char *value, struct diag *d)
{
	struct str s = {.arena = &d->arena};

	for (const char *p = hint; *p;) {
		size_t plain = strcspn(p, "{");
		str_addf(&s, "%.*s", (int)plain, p);
		p += plain;
		if (!*p)
			break;
		size_t n = strcspn(++p, "}");
		if (fits(p, n, value))
			str_add(&s, str_quoted(&d->arena, str_starts(p, "[NAME=]FILE")
								  ? foreign_input(value, &d->arena)
								  : value));
		else
			str_addf(&s, "%.*s", (int)n, p);
		p += n + (p[n] == '}');
	}
	return str_get(&s);
}

const char *hint_with_model(const char *hint, int argc, char *const *argv, struct diag *d)
{
	const char *model = NULL, *p;
	struct str s = {.arena = &d->arena};

	for (int i = 0; i < argc && !model; i++) {
		/* --onnx=m.onnx names a model, too */
		const char *value = *argv[i] == '-' ? strchr(argv[i], '=') : NULL;
		const char *word = value ? value + 1 : argv[i];
		if (path_names_model(word) && access(word, F_OK) == 0)
			model = str_quoted(&d->arena, word);
	}
	if (!model || !hint)
		return hint;
	while ((p = strstr(hint, " MODEL"))) {
		bool whole = !p[6] || strchr(" ,;:'", p[6]);
		str_addf(&s, "%.*s %s", (int)(p - hint), hint, whole ? model : "MODEL");
		hint = p + 6;
	}
	str_addf(&s, "%s", hint);
	return str_get(&s);
}

const char *foreign_hint(const char *word, size_t n, unsigned commands, const char *value,
			 struct diag *d)
{
	for (size_t i = 0; i < FOREIGNS; i++) {
		const char *p = foreign[i].words;
		for (size_t len; *p && foreign[i].commands & commands; p += len + (p[len] == ' ')) {
			len = strcspn(p, " ");
			if (len == n && same_word(p, word, n))
				return fill_in(foreign[i].hint, value, d);
		}
	}
	return NULL;
}

const char *foreign_near(const char *word, size_t n, unsigned commands, const char *value,
			 struct diag *d)
{
	const char *meant = fmt(d, "%.*s", (int)n, word), *near = NULL;
	unsigned least_far = n < 6    ? 0
			     : n < 10 ? 2
				      : 3; /* one edit is allowed, or two in long words */

	for (size_t i = 0; i < FOREIGNS; i++) {
		const char *p = foreign[i].words;
		for (size_t len; *p && foreign[i].commands & commands; p += len + (p[len] == ' ')) {
			len = strcspn(p, " ");
			const char *candidate = fmt(d, "%.*s", (int)len, p);
			/* a dash more or less is another tool's style, and few misspell the first letter */
			size_t dashes = strspn(candidate, "-");
			unsigned far =
				dashes == strspn(meant, "-") && candidate[dashes] == meant[dashes]
					? str_distance(meant, candidate)
					: least_far;
			if (far < least_far) {
				least_far = far;
				near = candidate;
			}
		}
	}
	return near ? foreign_hint(near, strlen(near), commands, value, d) : NULL;
}

const char *foreign_value_hint(const char *option, const char *value)
{
	size_t n = strlen(value);

	for (size_t i = 0; i < FOREIGN_VALUES; i++) {
		const char *p = foreign_values[i].values;
		if (strcmp(foreign_values[i].option, option) != 0)
			continue;
		for (size_t len; *p; p += len + (p[len] == ' ')) {
			len = strcspn(p, " ");
			if (len == n && same_word(p, value, n))
				return foreign_values[i].hint;
		}
	}
	return NULL;
}
