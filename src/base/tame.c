/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tame.h"

#include "base/str.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/*
 * Returns the number of bytes at s that may be shown unchanged, or 0 if the first byte must be
 * escaped.
 */
static size_t harmless_bytes(const unsigned char *s, size_t n, bool lines)
{
	size_t length = utf8_length(s, n);

	if (length == 1)
		return (s[0] >= ' ' && s[0] != 0x7f) || (lines && (s[0] == '\n' || s[0] == '\t'));
	if (length == 2 && s[0] == 0xc2 && s[1] < 0xa0)
		return 0; /* refuse C1 control characters: U+009B alone begins an escape sequence */
	return length;
}

void tame_write(const char *text, size_t n, FILE *to)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t from = 0, i = 0;

	while (i < n) {
		size_t k = harmless_bytes(s + i, n - i, true);
		if (k) {
			i += k;
			continue;
		}
		fwrite(s + from, 1, i - from, to);
		fprintf(to, "\\x%02x", s[i]);
		from = ++i;
	}
	fwrite(s + from, 1, n - from, to);
}

const char *tame_word(struct arena *a, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t n = strlen(text), i = 0;
	struct str out = {.arena = a};

	for (size_t k; i < n && (k = harmless_bytes(s + i, n - i, false)); i += k)
		;
	if (i == n)
		return text;
	for (i = 0; i < n;) {
		size_t k = harmless_bytes(s + i, n - i, false);
		if (k)
			str_add_n(&out, text + i, k);
		else
			str_addf(&out, "\\x%02x", s[i]);
		i += k ? k : 1;
	}
	return str_get(&out);
}

/* ---- the stream: it holds text back until the line ends, so that no character is cut in two */

struct tame {
	FILE *to, *held;
	char *text;
	size_t size;
};

static void write_held(struct tame *t)
{
	fflush(t->held);
	tame_write(t->text, t->size, t->to);
	rewind(t->held);
}

static ssize_t tame_take(void *cookie, const char *text, size_t n)
{
	struct tame *t = cookie;
	const char *end = memrchr(text, '\n', n);
	size_t whole = end ? (size_t)(end - text) + 1 : 0;

	fwrite(text, 1, whole, t->held);
	if (whole)
		write_held(t);
	fwrite(text + whole, 1, n - whole, t->held);
	return (ssize_t)n;
}

static int tame_close(void *cookie)
{
	struct tame *t = cookie;

	write_held(t);
	fclose(t->held);
	free(t->text);
	free(t);
	return 0;
}

FILE *tame_open(FILE *to)
{
	static const cookie_io_functions_t io = {.write = tame_take, .close = tame_close};
	struct tame *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->to = to;
	t->held = open_memstream(&t->text, &t->size);
	FILE *f = t->held ? fopencookie(t, "w", io) : NULL;
	if (f)
		return f;
	if (t->held)
		fclose(t->held);
	free(t->text);
	free(t);
	return NULL;
}
