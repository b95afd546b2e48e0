/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_read.h"

#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

/* ---- the scanner ----------------------------------------------------------------------------- */

bool json_fail(struct json_scan *s, const char *why)
{
	s->error = s->error ? s->error : why;
	return false;
}

void json_skip_blanks(struct json_scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
		s->p++;
}

bool json_take(struct json_scan *s, char c)
{
	json_skip_blanks(s);
	if (s->p >= s->end || *s->p != c)
		return false;
	s->p++;
	return true;
}

/*
 * Returns the value of the next four characters as hexadecimal digits, or -1 if they are not
 * hexadecimal digits.
 */
static int parse_unit(const struct json_scan *s)
{
	int v = 0;

	if (s->end - s->p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = s->p[i], lower = (char)(c | 0x20);
		if (c >= '0' && c <= '9')
			v = v * 16 + (c - '0');
		else if (lower >= 'a' && lower <= 'f')
			v = v * 16 + (lower - 'a' + 10);
		else
			return -1;
	}
	return v;
}

/*
 * Reads the code point after "\u". Characters above U+FFFF are written as two such units (a
 * surrogate pair). Returns -1 if the escape is invalid.
 */
static int32_t read_unicode(struct json_scan *s)
{
	int high = parse_unit(s);

	if (high < 0)
		return -1;
	s->p += 4;
	if (high < 0xd800 || high > 0xdfff)
		return high;
	if (high < 0xdc00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u') {
		s->p += 2;
		int low = parse_unit(s);
		if (low >= 0xdc00 && low <= 0xdfff) {
			s->p += 4;
			return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
		}
		s->p -= 2;
	}
	return 0xfffd; /* an unpaired surrogate is not a character, so U+FFFD replaces it */
}

/*
 * Reads the escape after a backslash and writes its character as UTF-8 to `to`. Returns the number
 * of bytes, at most 4, or 0 if the escape is invalid.
 */
static size_t read_escape(struct json_scan *s, char *to)
{
	static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	char c = *s->p++;
	const char *at = c ? strchr(letters, c) : NULL;

	if (at) {
		*to = values[at - letters];
		return 1;
	}
	int32_t point = c == 'u' ? read_unicode(s) : -1;
	return point < 0 ? 0 : utf8_put((uint32_t)point, to);
}

/*
 * Copies a string whose closing quote is at `close`, and replaces its escapes. The copy is never
 * longer than the original, because the character of an escape is shorter than the escape.
 */
static bool copy_unescaped(struct json_scan *s, const char *close, const char **text, size_t *n)
{
	struct json_scan inner = {.p = s->p, .end = close};
	char *to = arena_alloc(s->arena, (size_t)(close - s->p) + 4);

	*text = to;
	*n = 0;
	while (inner.p < close) {
		if (*inner.p != '\\') {
			to[(*n)++] = *inner.p++;
			continue;
		}
		inner.p++;
		size_t k = read_escape(&inner, to + *n);
		if (!k) {
			s->p = inner.p;
			return json_fail(s, "JSON has no such escape");
		}
		*n += k;
	}
	return true;
}

bool json_string_rest(struct json_scan *s, const char **text, size_t *n)
{
	const char *p = s->p;
	bool escapes = false;

	for (; p < s->end && *p != '"'; p++)
		if (*p == '\\' && p + 1 < s->end) {
			escapes = true;
			p++;
		}
	if (p >= s->end)
		return json_fail(s, "this string does not end");
	*text = s->p;
	*n = (size_t)(p - s->p);
	if (escapes && !copy_unescaped(s, p, text, n))
		return false;
	s->p = p + 1;
	return true;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static bool read_value(struct json_scan *s, struct jvalue *v, int depth);

static bool take_word(struct json_scan *s, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
		return false;
	s->p += n;
	return true;
}

/* Reads the rest of a string, after its opening quote. Returns NULL if the string is invalid. */
static const char *read_string(struct json_scan *s)
{
	const char *text;
	size_t n;

	return json_string_rest(s, &text, &n) ? arena_strn(s->arena, text, n) : NULL;
}

static bool read_number(struct json_scan *s, struct jvalue *v)
{
	size_t n = 0;
	char *end;

	while (s->p + n < s->end && s->p[n] && strchr("+-.0123456789eE", s->p[n]))
		n++;
	v->type = J_NUMBER;
	v->number = strtod(arena_strn(s->arena, s->p, n), &end);
	if (!n || *end)
		return json_fail(s, "a wrong number");
	s->p += n;
	return true;
}

/* Reads the members of an object or the elements of an array. */
static bool read_members(struct json_scan *s, struct jvalue *v, char close, int depth)
{
	const struct jvalue **link = &v->first;

	if (json_take(s, close))
		return true;
	do {
		struct jvalue *m = arena_new(s->arena, struct jvalue);
		if (close == '}') {
			if (!json_take(s, '"'))
				return json_fail(s, "a key is missing");
			m->key = read_string(s);
			if (!m->key || !json_take(s, ':'))
				return json_fail(s, "a colon is missing");
		}
		if (!read_value(s, m, depth))
			return false;
		*link = m;
		link = &m->next;
		v->n++;
	} while (json_take(s, ','));
	return json_take(s, close) || json_fail(s, "a comma or a closing bracket is missing");
}

static bool read_value(struct json_scan *s, struct jvalue *v, int depth)
{
	json_skip_blanks(s);
	if (s->p >= s->end)
		return json_fail(s, "it ends too early");
	if (*s->p == '{' || *s->p == '[') {
		char close = *s->p == '{' ? '}' : ']';
		v->type = close == '}' ? J_OBJECT : J_ARRAY;
		s->p++;
		if (depth == MAX_DEPTH)
			return json_fail(s, "it is nested too deeply");
		return read_members(s, v, close, depth + 1);
	}
	if (*s->p == '"') {
		s->p++;
		v->type = J_STRING;
		v->text = read_string(s);
		return v->text != NULL;
	}
	if (take_word(s, "null"))
		return true;
	v->type = J_BOOL;
	v->number = 1;
	if (take_word(s, "true"))
		return true;
	v->number = 0;
	return take_word(s, "false") || read_number(s, v);
}

const struct jvalue *jread(const char *text, size_t n, const char *what, enum code code,
			   struct arena *a, struct diag *d)
{
	struct json_scan s = {.p = text, .end = text + n, .arena = a};
	struct jvalue *v = arena_new(a, struct jvalue);

	if (read_value(&s, v, 0)) {
		json_skip_blanks(&s);
		if (s.p == s.end)
			return v;
		json_fail(&s, "something stands behind its end");
	}
	FAIL(d, code, .slot = fmt(d, "%s", what),
	     .message = fmt(d, "no JSON: %s at byte %zu", s.error ? s.error : "a wrong value",
			    (size_t)(s.p - text)));
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
