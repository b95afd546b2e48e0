/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void str_add_n(struct str *b, const char *s, size_t n)
{
	if (b->cap - b->n <= n) { /* the terminating NUL needs one more byte */
		size_t cap = b->cap ? b->cap : 64;
		while (cap - b->n <= n && cap <= SIZE_MAX / 4)
			cap *= 2;
		b->s = arena_grow(b->arena, b->s, b->n, cap, 1);
		b->cap = cap;
	}
	if (n)
		memcpy(b->s + b->n, s, n);
	b->n += n;
	b->s[b->n] = '\0';
}

void str_add(struct str *b, const char *s)
{
	str_add_n(b, s, strlen(s));
}

void str_addf(struct str *b, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	str_add(b, arena_vprintf(b->arena, format, ap));
	va_end(ap);
}

const char *str_get(const struct str *b)
{
	return b->s ? b->s : "";
}

const char *str_count(struct arena *a, int64_t n)
{
	char digits[24], out[40];
	size_t len, k = 0;

	snprintf(digits, sizeof(digits), "%" PRId64, n);
	len = strlen(digits);
	for (size_t i = 0; i < len; i++) {
		out[k++] = digits[i];
		if (digits[i] != '-' && (len - 1 - i) % 3 == 0 && i + 1 < len)
			out[k++] = ',';
	}
	return arena_strn(a, out, k);
}

const char *str_all(struct arena *a, uint64_t n, const char *what)
{
	return n == 1 ? arena_printf(a, "the only %s is", what)
		      : arena_printf(a, "all %s are", str_many(a, n, what));
}

const char *str_many(struct arena *a, uint64_t n, const char *what)
{
	return arena_printf(a, "%s %s%s", str_count(a, (int64_t)n), what, n == 1 ? "" : "s");
}

const char *str_bytes(struct arena *a, int64_t n)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
	double v = (double)n / 1024;
	unsigned u = 0;

	if (n > -1024 && n < 1024)
		return arena_printf(a, "%" PRId64 " byte%s", n, n == 1 ? "" : "s");
	while (fabs(v) >= 1023.95 && u < 4) {
		v /= 1024;
		u++;
	}
	return arena_printf(a, "%.1f %s", v, units[u]);
}

const char *str_span(struct arena *a, double s)
{
	if (s < 120)
		return arena_printf(a, "%.0f s", s);
	if (s < 7200)
		return arena_printf(a, "%.0f min", s / 60);
	return s < 172800 ? arena_printf(a, "%.1f hours", s / 3600)
			  : arena_printf(a, "%.0f days", s / 86400);
}

const char *str_seconds(struct arena *a, double s)
{
	static const char *const units[] = {"s", "ms", "us", "ns"};
	unsigned u = 0;

	while (fabs(s) < 0.9995 && s != 0 && u < 3) {
		s *= 1000;
		u++;
	}
	return arena_printf(a, "%.*f %s",
			    fabs(s) >= 99.95   ? 0
			    : fabs(s) >= 9.995 ? 1
					       : 2,
			    s, units[u]);
}

const char *str_double(struct arena *a, double v)
{
	char text[40];

	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (!isfinite(v) || strtod(text, NULL) == v)
			break;
	}
	return arena_str(a, isnan(v) ? "nan" : text);
}

const char *str_float(struct arena *a, float v)
{
	char text[40];

	for (int digits = 6; digits <= 9; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, (double)v);
		if (!isfinite(v) || strtof(text, NULL) == v)
			break;
	}
	return arena_str(a, isnan(v) ? "nan" : text);
}

const char *str_quoted(struct arena *a, const char *s)
{
	struct str b = {.arena = a};
	bool plain = *s != '\0';

	for (const char *p = s; *p; p++)
		plain &= isalnum((unsigned char)*p) || strchr("_-./=,:+@%", *p) ||
			 (unsigned char)*p >= 0x80;
	if (plain)
		return s;
	str_add(&b, "'");
	for (const char *p = s; *p; p++)
		str_addf(&b, *p == '\'' ? "'\\''" : "%c", *p);
	str_add(&b, "'");
	return str_get(&b);
}

bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

enum {
	MAX_COMPARED = 64
}; /* most characters of a name that are compared, which is enough to recognize a typing error */

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned str_distance(const char *a, const char *b)
{
	size_t na = strnlen(a, MAX_COMPARED), nb = strnlen(b, MAX_COMPARED);
	unsigned row[3][MAX_COMPARED + 1];
	unsigned *before = row[0], *last = row[1], *now = row[2];

	for (unsigned j = 0; j <= nb; j++)
		last[j] = before[j] = j;
	for (unsigned i = 1; i <= na; i++) {
		now[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned same = a[i - 1] == b[j - 1] ? 0 : 1;
			now[j] = least(least(last[j] + 1, now[j - 1] + 1), last[j - 1] + same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = least(now[j], before[j - 2] + 1);
		}
		unsigned *spare = before;
		before = last;
		last = now;
		now = spare;
	}
	return last[nb];
}

const char *str_nearest(const char *meant, const char *const *names, size_t n)
{
	const char *best = NULL;
	size_t len = strlen(meant);
	unsigned third = (unsigned)(len > MAX_COMPARED ? MAX_COMPARED : len) / 3,
		 least_far = third > 1 ? third + 1 : 2;

	for (size_t i = 0; i < n; i++) {
		unsigned far;
		if (!names[i])
			continue;
		far = str_distance(meant, names[i]);
		/*
		 * A name that begins with `meant`, or with which `meant` begins, counts as at most 1 or 2 edits
		 * away.
		 */
		if (len >= 2 && str_starts(names[i], meant))
			far = least(far, 1);
		else if (len >= 2 && str_starts(meant, names[i]))
			far = least(far, 2);
		if (far < least_far && far < strlen(names[i])) {
			least_far = far;
			best = names[i];
		}
	}
	return best;
}
