/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_read.h"

#include "base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 64 };

struct reader {
	const char *p, *end;
	struct arena *arena;
	int depth;
	const char *wrong; /* the first thing that is */
};

static bool read_value(struct reader *r, struct jvalue *v);

static bool wrong(struct reader *r, const char *what)
{
	if (!r->wrong)
		r->wrong = what;
	return false;
}

static void skip_space(struct reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
		r->p++;
}

static bool take(struct reader *r, char c)
{
	skip_space(r);
	if (r->p >= r->end || *r->p != c)
		return false;
	r->p++;
	return true;
}

static bool word(struct reader *r, const char *w)
{
	size_t n = strlen(w);

	if ((size_t)(r->end - r->p) < n || memcmp(r->p, w, n) != 0)
		return false;
	r->p += n;
	return true;
}

/* Four hexadecimal digits; what our writer makes is below 0x80, anything else becomes UTF-8 of its unit. */
static bool read_unit(struct reader *r, struct str *s)
{
	char digits[5] = "", *end, out[4];

	if (r->end - r->p < 4)
		return wrong(r, "a cut escape");
	memcpy(digits, r->p, 4);
	unsigned long c = strtoul(digits, &end, 16);
	if (*end)
		return wrong(r, "a wrong escape");
	r->p += 4;
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : 3;
	if (n == 1) {
		out[0] = (char)c;
	} else if (n == 2) {
		out[0] = (char)(0xc0 | (c >> 6));
		out[1] = (char)(0x80 | (c & 0x3f));
	} else {
		out[0] = (char)(0xe0 | (c >> 12));
		out[1] = (char)(0x80 | ((c >> 6) & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
	}
	str_add_n(s, out, n);
	return true;
}

static bool read_escape(struct reader *r, struct str *s)
{
	static const char letters[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";

	if (r->p >= r->end)
		return wrong(r, "a string without an end");
	char c = *r->p++;
	if (c == 'u')
		return read_unit(r, s);
	const char *at = c ? strchr(letters, c) : NULL;
	if (!at)
		return wrong(r, "a wrong escape");
	str_add_n(s, &means[at - letters], 1);
	return true;
}

static const char *read_string(struct reader *r)
{
	struct str s = {.arena = r->arena};

	while (r->p < r->end && *r->p != '"') {
		const char *from = r->p;
		while (r->p < r->end && *r->p != '"' && *r->p != '\\')
			r->p++;
		str_add_n(&s, from, (size_t)(r->p - from));
		if (r->p < r->end && *r->p == '\\') {
			r->p++;
			if (!read_escape(r, &s))
				return NULL;
		}
	}
	if (r->p >= r->end) {
		wrong(r, "a string without an end");
		return NULL;
	}
	r->p++;
	return str_get(&s);
}

static bool read_number(struct reader *r, struct jvalue *v)
{
	char text[64], *end;
	size_t n = 0;

	while (r->p + n < r->end && n < sizeof(text) - 1 && strchr("+-.0123456789eE", r->p[n]))
		n++;
	memcpy(text, r->p, n);
	text[n] = '\0';
	v->type = J_NUMBER;
	v->number = strtod(text, &end);
	if (!n || *end)
		return wrong(r, "a wrong number");
	r->p += n;
	return true;
}

/* Members of an object, elements of an array. */
static bool read_members(struct reader *r, struct jvalue *v, char close)
{
	const struct jvalue **link = &v->first;

	if (take(r, close))
		return true;
	do {
		struct jvalue *m = arena_new(r->arena, struct jvalue);
		if (close == '}') {
			if (!take(r, '"'))
				return wrong(r, "a key is missing");
			m->key = read_string(r);
			if (!m->key || !take(r, ':'))
				return wrong(r, "a colon is missing");
		}
		if (!read_value(r, m))
			return false;
		*link = m;
		link = &m->next;
		v->n++;
	} while (take(r, ','));
	return take(r, close) || wrong(r, "a closing bracket is missing");
}

static bool read_value(struct reader *r, struct jvalue *v)
{
	skip_space(r);
	if (r->p >= r->end)
		return wrong(r, "it ends too early");
	if (*r->p == '{' || *r->p == '[') {
		char close = *r->p == '{' ? '}' : ']';
		v->type = close == '}' ? J_OBJECT : J_ARRAY;
		r->p++;
		if (++r->depth > MOST_DEPTH)
			return wrong(r, "it is nested too deeply");
		bool ok = read_members(r, v, close);
		r->depth--;
		return ok;
	}
	if (*r->p == '"') {
		r->p++;
		v->type = J_STRING;
		v->text = read_string(r);
		return v->text != NULL;
	}
	if (word(r, "null"))
		return true;
	v->type = J_BOOL;
	v->number = 1;
	if (word(r, "true"))
		return true;
	v->number = 0;
	return word(r, "false") || read_number(r, v);
}

const struct jvalue *jread(const char *text, size_t n, const char *what, enum code code,
			   struct arena *a, struct diag *d)
{
	struct reader r = {.p = text, .end = text + n, .arena = a};
	struct jvalue *v = arena_new(a, struct jvalue);

	if (read_value(&r, v)) {
		skip_space(&r);
		if (r.p == r.end)
			return v;
		wrong(&r, "something stands behind its end");
	}
	FAIL(d, code, .slot = fmt(d, "%s", what),
	     .message = fmt(d, "no JSON: %s at byte %zu", r.wrong ? r.wrong : "a wrong value",
			    (size_t)(r.p - text)));
	return NULL;
}

const struct jvalue *jget(const struct jvalue *v, const char *key)
{
	for (const struct jvalue *m = v && v->type == J_OBJECT ? v->first : NULL; m; m = m->next)
		if (strcmp(m->key, key) == 0)
			return m;
	return NULL;
}

static double as_number(const struct jvalue *v, double def)
{
	if (!v)
		return def;
	if (v->type == J_STRING)
		return !strcmp(v->text, "NaN")	       ? NAN
		       : !strcmp(v->text, "Infinity")  ? INFINITY
		       : !strcmp(v->text, "-Infinity") ? -INFINITY
						       : def;
	return v->type == J_NUMBER || v->type == J_BOOL ? v->number : def;
}

double jnumber(const struct jvalue *v, const char *key, double def)
{
	return as_number(jget(v, key), def);
}

int64_t jint(const struct jvalue *v, const char *key, int64_t def)
{
	double x = jnumber(v, key, (double)def);

	return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : def;
}

const char *jtext(const struct jvalue *v, const char *key)
{
	const struct jvalue *m = jget(v, key);

	return m && m->type == J_STRING ? m->text : NULL;
}

bool jbool(const struct jvalue *v, const char *key)
{
	const struct jvalue *m = jget(v, key);

	return m && m->type == J_BOOL && m->number > 0;
}

double *jnumbers(const struct jvalue *v, const char *key, size_t *n, struct arena *a)
{
	const struct jvalue *list = jget(v, key);
	size_t k = 0;

	*n = list && list->type == J_ARRAY ? list->n : 0;
	double *out = arena_new_n(a, double, *n + 1);
	for (const struct jvalue *m = *n ? list->first : NULL; m; m = m->next)
		out[k++] = as_number(m, NAN);
	return out;
}
