/* SPDX-License-Identifier: Apache-2.0 */
#include "input/sweep.h"

#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int refuse_sweep(const char *text, const char *why, struct diag *d)
{
	return FAIL(d, E_OPTION, .slot = "--shapes-sweep", .message = fmt(d, "'%s': %s", text, why),
		    .expected = "DIM=A..B, DIM=A..B:STEP or DIM=A,B,C", .hint = "as batch=1..16");
}

static bool parse_size(const char **s, int64_t *v)
{
	char *end;

	if (!isdigit((unsigned char)**s))
		return false;
	errno = 0;
	*v = strtoll(*s, &end, 10);
	*s = end;
	*v = errno ? INT64_MAX : *v;
	return true;
}

static bool add_size(struct sweep_dim *dim, int64_t v, struct arena *a)
{
	dim->size = arena_append(a, dim->size, dim->n, sizeof(*dim->size));
	dim->size[dim->n] = v;
	return ++dim->n <= SWEEP_MAX_POINTS;
}

/*
 * Parses "1", "1..16" (or "1-16") or "5..100:5" and adds its sizes to the dimension. Returns a description of
 * the error, or NULL.
 */
static const char *parse_part(const char **s, struct sweep_dim *dim, struct arena *a)
{
	int64_t from, to, step = 1;

	if (!parse_size(s, &from))
		return "a size is missing";
	to = from;
	if (!strncmp(*s, "..", 2) || **s == '-') {
		*s += **s == '-' ? 1 : 2;
		if (!parse_size(s, &to))
			return "a size is missing behind ..";
		if (to < from)
			return "the range is empty: it ends before it begins";
		if (**s == ':') {
			++*s;
			if (!parse_size(s, &step) || step < 1)
				return "a step is 1 or more";
		}
	}
	if (from == INT64_MAX || to == INT64_MAX)
		return "a size is too large";
	for (int64_t v = from; v <= to; v += step) {
		if (!add_size(dim, v, a))
			return "too many sizes";
		if (v > to - step)
			break;
	}
	return NULL;
}

static int parse_dim(const char *text, struct sweep_dim *dim, struct arena *a, struct diag *d)
{
	const char *eq = strrchr(text, '=');

	if (!eq || eq == text || !eq[1])
		return refuse_sweep(text, "nothing to go through", d);
	dim->name = arena_strn(a, text, (size_t)(eq - text));
	for (const char *s = eq + 1;; s++) {
		const char *why = parse_part(&s, dim, a);
		if (why)
			return refuse_sweep(text, why, d);
		if (!*s)
			return 0;
		if (*s != ',')
			return refuse_sweep(text, "that is no list of sizes", d);
	}
}

int sweep_parse(const struct texts *text, struct sweep *out, struct arena *a, struct diag *d)
{
	size_t n = text->n > 0 ? (size_t)text->n : 0, points = n ? 1 : 0;
	struct sweep_dim *dim = arena_new_n(a, struct sweep_dim, n + 1);

	for (size_t i = 0; i < n; i++) {
		int rc = parse_dim(text->v[i].s, &dim[i], a, d);
		if (rc)
			return rc;
		for (size_t k = 0; k < i; k++)
			if (!strcmp(dim[k].name, dim[i].name))
				return refuse_sweep(text->v[i].s, "the dimension is given twice", d);
		points *= dim[i].n;
		if (points > SWEEP_MAX_POINTS)
			return refuse_sweep(text->v[i].s, "more than 10,000 combinations", d);
	}
	*out = (struct sweep){dim, n, points};
	return 0;
}

int64_t sweep_size(const struct sweep *s, size_t k, size_t dim)
{
	for (size_t i = s->ndims; i-- > dim + 1;)
		k /= s->dim[i].n;
	return s->dim[dim].size[k % s->dim[dim].n];
}

/* Whether a text of --dim is about a dimension that the sweep goes through. */
static bool sweep_replaces(const struct sweep *s, const char *text)
{
	for (size_t i = 0; i < s->ndims; i++) {
		size_t n = strlen(s->dim[i].name);
		if (!strncmp(text, s->dim[i].name, n) && text[n] == '=')
			return true;
	}
	return false;
}

struct texts sweep_point(const struct sweep *s, size_t k, const struct texts *more, struct arena *a)
{
	size_t n = more && more->n > 0 ? (size_t)more->n : 0;
	struct text *v = arena_new_n(a, struct text, n + s->ndims + 1);

	size_t used = 0;

	for (size_t i = 0; i < n; i++)
		if (!sweep_replaces(s, more->v[i].s))
			v[used++] = more->v[i];
	for (size_t i = 0; i < s->ndims; i++, used++) {
		v[used].s = arena_printf(a, "%s=%" PRId64, s->dim[i].name, sweep_size(s, k, i));
		v[used].n = strlen(v[used].s);
	}
	return (struct texts){v, (int64_t)used};
}

const char *sweep_label(const struct sweep *s, size_t k, struct arena *a)
{
	struct str b = {.arena = a};

	for (size_t i = 0; i < s->ndims; i++)
		str_addf(&b, "%s%s=%" PRId64, i ? " " : "", s->dim[i].name, sweep_size(s, k, i));
	return str_get(&b);
}
