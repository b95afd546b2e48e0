/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/watch/suppressions.h"

#include "base/file.h"
#include "base/str.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

enum { MAX_FILE_BYTES = 16 << 20 };

static bool matches(const char *pattern, const char *text)
{
	return text && fnmatch(pattern, text, 0) == 0;
}

/* ---- the file */

static bool some_finding_has(const char *id)
{
	for (enum code c = E_OK + 1; c < E_COUNT; c++)
		for (enum severity s = SEV_NOTE; s <= SEV_ERROR; s++)
			if (matches(id, code_id(c, s)))
				return true;
	return false;
}

static int unknown_id(const struct known_list *k, int line, const char *id, struct diag *d)
{
	const char *names[E_COUNT] = {0};

	for (enum code c = E_OK + 1; c < E_COUNT; c++)
		names[c] = code_id(c, id[0] == 'N'   ? SEV_NOTE
				      : id[0] == 'W' ? SEV_WARNING
						     : SEV_ERROR);
	const char *near = str_nearest(id, names, E_COUNT);
	return FAIL(d, E_CONFIG,
		    .message = fmt(d, "%s:%d: no finding has the id '%s'", k->path, line, id),
		    .expected =
			    "ID [PATTERN], for example 'E-CTX-FOREIGN *libfoo.so*'; # begins a comment",
		    .hint = near ? fmt(d, "did you mean %s?", near)
				 : "infer-check(1) lists the ids, each with E-, W- or N-");
}

static int parse_line(struct known_list *k, char *text, int line, struct arena *a, struct diag *d)
{
	char *id = text + strspn(text, " \t"), *end = id + strlen(id);

	while (end > id && strchr(" \t\r", end[-1]))
		*--end = '\0';
	if (!*id || *id == '#')
		return 0;
	char *pattern = id + strcspn(id, " \t");
	if (*pattern) {
		*pattern++ = '\0';
		pattern += strspn(pattern, " \t");
	}
	if (!some_finding_has(id))
		return unknown_id(k, line, id, d);
	k->v = arena_append(a, k->v, k->n, sizeof(*k->v));
	k->v[k->n++] = (struct known){.id = id, .pattern = *pattern ? pattern : NULL, .line = line};
	return 0;
}

int known_read(struct known_list *k, const char *path, struct arena *a, struct diag *d)
{
	struct file_map f;
	int rc = file_map_most(path, MAX_FILE_BYTES, &f, E_CONFIG, d), line = 0;

	*k = (struct known_list){.path = path};
	if (rc)
		return rc;
	char *text = arena_strn(a, (const char *)f.data, f.size), *rest = text, *one;
	if (memchr(f.data, '\0', f.size))
		rc = FAIL(d, E_CONFIG, .message = fmt(d, "%s is not a text file", path));
	file_unmap(&f);
	while (!rc && (one = strsep(&rest, "\n")))
		rc = parse_line(k, one, ++line, a, d);
	return rc;
}

/* ---- findings */

static bool some_line_matches(const struct finding *f, const char *pattern)
{
	if (matches(pattern, f->message ? f->message : code_title(f->code)))
		return true;
	for (size_t i = 0; i < f->nrows; i++)
		if (matches(pattern, f->rows[i].text))
			return true;
	return false;
}

static bool is_known(struct known_list *k, const struct finding *f)
{
	bool found = false;

	/* do not stop at the first match: every line that matches counts as used */
	for (size_t i = 0; i < k->n; i++) {
		struct known *one = &k->v[i];
		if (!matches(one->id, code_id(f->code, f->severity)) ||
		    (one->pattern && !some_line_matches(f, one->pattern)))
			continue;
		one->used = found = true;
	}
	return found;
}

size_t known_suppress(struct known_list *k, struct diag *d)
{
	struct finding **at = &d->first;
	size_t n = 0;

	d->last = NULL;
	while (*at) {
		struct finding *f = *at;
		if (!is_known(k, f)) {
			d->last = f;
			at = &f->next;
			continue;
		}
		d->errors -= f->severity == SEV_ERROR;
		d->warnings -= f->severity == SEV_WARNING;
		n++;
		*at = f->next;
	}
	return n;
}

/* ---- writing lines for the findings */

/*
 * Returns the length of the unit (" bytes", " MiB") that begins at s, or 0 if there is none. The unit is replaced
 * by * together with the number before it, because it may differ in another run too.
 */
static size_t unit_length(const char *s)
{
	static const char *const units[] = {" bytes", " KiB", " MiB", " GiB", " TiB"};

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (str_starts(s, units[i]))
			return strlen(units[i]);
	return 0;
}

/*
 * Returns the length of the text at s that changes from run to run (a number, an address, a list),
 * or 0 if no such text begins at s.
 */
static size_t varying_length(const char *s, char before)
{
	if (str_starts(s, ", first of "))
		return strlen(s);
	if (!isdigit((unsigned char)*s) || isalnum((unsigned char)before) || before == '_')
		return 0;
	size_t n = str_starts(s, "0x") ? 2 + strspn(s + 2, "0123456789abcdef")
				       : strspn(s, "0123456789.,");
	while (s[n - 1] == '.' || s[n - 1] == ',')
		n--;
	return n + unit_length(s + n);
}

/* Makes a pattern that matches this text and the text of the same finding in later runs. */
static const char *make_pattern(struct arena *a, const char *text)
{
	char *out = arena_alloc(a, 2 * strlen(text) + 2), *to = out;
	char before = ' ';

	for (const char *s = text; *s; s++) {
		size_t n = varying_length(s, before);
		if (n) {
			*to++ = '*';
			s += n - 1;
		} else {
			if (strchr("*?[\\", *s))
				*to++ = '\\';
			*to++ = *s;
		}
		before = *s;
	}
	if (to == out || to[-1] != '*')
		*to++ = '*'; /* this * also matches a count that may follow */
	*to = '\0';
	return out;
}

/* Returns the line of the finding that best identifies the caller and the call. */
static const char *most_specific_line(const struct finding *f)
{
	static const char *const labels[] = {"call", "failed", "at", "by"};

	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++)
		for (size_t k = 0; k < f->nrows; k++)
			if (strcmp(f->rows[k].label, labels[i]) == 0)
				return f->rows[k].text;
	return f->message ? f->message : code_title(f->code);
}

int known_write(const char *path, struct diag *d)
{
	const char **lines = NULL;
	size_t n = 0;
	struct file_out *out = file_create(path, E_OUTPUT, d);

	if (!out)
		return -E_OUTPUT;
	for (const struct finding *f = d->first; f; f = f->next) {
		const char *line = fmt(d, "%s %s\n", code_id(f->code, f->severity),
				       make_pattern(&d->arena, most_specific_line(f)));
		bool again = f->severity == SEV_NOTE;
		for (size_t i = 0; i < n && !again; i++)
			again = strcmp(lines[i], line) == 0;
		if (again)
			continue;
		lines = arena_append(&d->arena, lines, n, sizeof(*lines));
		lines[n++] = line;
		file_write(out, line, strlen(line));
	}
	return file_commit(out, d);
}
