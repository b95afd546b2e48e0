/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options/foreign.h"

#include "base/diag.h"
#include "base/file.h"
#include "base/str.h"
#include "cmd/options/options.h"
#include "io/io.h"
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
#define IN_A_LINE(words, becomes, ours)	    /* in whole_line.c */
#include "cmd/options/foreign.def"
#undef FOREIGN
#undef FOREIGN_IN
#undef FOREIGN_VALUE
#undef IN_A_LINE
};

static const struct foreign_value {
	const char *option, *values, *hint;
} foreign_values[] = {
#define FOREIGN(words, hint)		    /* in foreign */
#define FOREIGN_IN(commands, words, hint)   /* in foreign */
#define FOREIGN_VALUE(option, values, hint) {option, values, hint},
#define IN_A_LINE(words, becomes, ours)	    /* in whole_line.c */
#include "cmd/options/foreign.def"
#undef FOREIGN
#undef FOREIGN_IN
#undef FOREIGN_VALUE
#undef IN_A_LINE
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

/* Files of the command line, quoted for a shell. NULL: there is none. */
struct given {
	const char *model[2], *picture, *input;
};

/* Returns the file that a word names as x.npy, NAME=x.npy,KEY=VALUE or x:x.npy, or NULL if there is no such file. */
static const char *file_of_word(const char *word, struct diag *d)
{
	const char *named = strchr(word, '=');

	if (access(word, F_OK) != 0) {
		word = named ? named + 1 : foreign_input(word, &d->arena);
		word = strchr(word, '=') && !named ? strchr(word, '=') + 1 : word;
		word = fmt(d, "%.*s", (int)strcspn(word, ","), word);
	}
	return *word && access(word, F_OK) == 0 && !path_is_folder(word) ? word : NULL;
}

/* Whether the file of a word is an input by the word before it: an operand, or the value of --input or its like. */
static bool follows_input(const char *before)
{
	static const char *const words[] = {"--input", "-i", "--image", "--loadInputs"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(before, words[i]))
			return true;
	return *before != '-';
}

static struct given find_given(int argc, char *const *argv, struct diag *d)
{
	struct given g = {.model = {NULL}};

	for (int i = 0; i < argc; i++) {
		/* --onnx=m.onnx names a model, too */
		const char *value = *argv[i] == '-' ? strchr(argv[i], '=') : NULL;
		const char *before = value || !i ? "" : argv[i - 1];
		const char *file = file_of_word(value ? value + 1 : argv[i], d);
		if (!file || !strcmp(before, "-o"))
			continue;
		const char *quoted = str_quoted(&d->arena, file);
		bool is_picture = io_kind_of(file, "", 0) == IO_IMAGE;
		if (path_names_model(file)) {
			const char **model = &g.model[g.model[0] != NULL];
			*model = *model ? *model : quoted;
			continue;
		}
		if (is_picture && !g.picture)
			g.picture = quoted;
		if ((is_picture || follows_input(before)) && !g.input)
			g.input = quoted;
	}
	return g;
}

/* Returns what stands for the word at p in a hint, and its length in *n, or NULL if it stands for itself. */
static const char *word_in_place(const struct given *g, const char *hint, const char *p, size_t *n,
				 struct diag *d)
{
	static const struct {
		const char *words, *between;
	} pairs[] = {
		{"A.onnx B.onnx", " "},
		{"A B", " "},
		{"A --compare B.onnx", " --compare "},
		{"MODEL --compare B.onnx", " --compare "},
	};

	*n = strcspn(p, " ,;:'");
	for (size_t i = 0; g->model[1] && i < sizeof(pairs) / sizeof(*pairs); i++)
		if (str_starts(p, pairs[i].words)) {
			*n = strlen(pairs[i].words);
			return fmt(d, "%s%s%s", g->model[0], pairs[i].between, g->model[1]);
		}
	if (*n == 5 && str_starts(p, "MODEL"))
		return g->model[0];
	if (*n == 7 && str_starts(p, "PICTURE"))
		return g->picture ? g->picture : g->input;
	bool input = p - hint >= 10 && (str_starts(p - 6, "MODEL ") || str_starts(p - 8, "--input ") ||
					str_starts(p - 10, "ffmpeg -i "));
	return *n == 4 && input && str_starts(p, "FILE") ? g->input : NULL;
}

static const char *hint_with(const struct given *g, const char *hint, struct diag *d)
{
	struct str s = {.arena = &d->arena};

	for (const char *p = hint; p && *p;) {
		size_t n;
		const char *file =
			p == hint || p[-1] == ' ' ? word_in_place(g, hint, p, &n, d) : NULL;
		str_addf(&s, "%.*s", file ? (int)strlen(file) : 1, file ? file : p);
		p += file ? n : 1;
	}
	return s.n ? str_get(&s) : hint;
}

void hints_name_files(struct diag *d, int argc, char *const *argv)
{
	if (!d->first)
		return;
	const struct given g = find_given(argc, argv, d);
	for (struct finding *f = d->first; f; f = f->next)
		f->hint = hint_with(&g, f->hint, d);
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
