/* SPDX-License-Identifier: Apache-2.0 */
#include "watch_known.h"

#include "base/file.h"
#include "base/str.h"

#include <fnmatch.h>
#include <string.h>

enum { FILE_MOST = 16 << 20 };

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
		    .expected = "ID [PATTERN], as 'E-CTX-FOREIGN *libfoo.so*'; # begins a comment",
		    .hint = near ? fmt(d, "did you mean %s?", near)
				 : "infer-check(1) lists the ids, each with E-, W- or N-");
}

static int read_line(struct known_list *k, char *text, int line, struct arena *a, struct diag *d)
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
	k->v = arena_grow(a, k->v, k->n, k->n + 1, sizeof(*k->v));
	k->v[k->n++] = (struct known){.id = id, .pattern = *pattern ? pattern : NULL, .line = line};
	return 0;
}

int known_read(struct known_list *k, const char *path, struct arena *a, struct diag *d)
{
	struct file_map f;
	int rc = file_map_most(path, FILE_MOST, &f, E_CONFIG, d), line = 0;

	*k = (struct known_list){.path = path};
	if (rc)
		return rc;
	char *text = arena_strn(a, (const char *)f.data, f.size), *rest = text, *one;
	if (memchr(f.data, '\0', f.size))
		rc = FAIL(d, E_CONFIG, .message = fmt(d, "%s is no text", path));
	file_unmap(&f);
	while (!rc && (one = strsep(&rest, "\n")))
		rc = read_line(k, one, ++line, a, d);
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

	/* all that match are in use */
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
