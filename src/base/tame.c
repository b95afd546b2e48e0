/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tame.h"

#include "base/str.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/*
 * Returns the number of bytes at s that may be shown unchanged, or 0 if the first character must be
 * escaped.
 */
static size_t harmless_bytes(const char *text, size_t n, bool lines)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t length = utf8_length(s, n), same;

	if (length == 1)
		return (s[0] >= ' ' && s[0] != 0x7f) || (lines && (s[0] == '\n' || s[0] == '\t'));
	if (length == 2 && s[0] == 0xc2 && s[1] < 0xa0)
		return 0; /* refuse C1 control characters: U+009B alone begins an escape sequence */
	return length && utf8_is_hidden(utf8_get(text, text + n, &same)) ? 0 : length;
}

/* Writes a number as hexadecimal digits. snprintf() must not be called in a signal handler. */
static char *put_hex(char *to, uint32_t number, int digits)
{
	while (digits-- > 0)
		*to++ = "0123456789abcdef"[number >> digits * 4 & 15];
	return to;
}

size_t tame_char(const char *text, size_t n, bool lines, char shown[TAMED_BYTES])
{
	size_t length = harmless_bytes(text, n, lines);
	char *end = shown;

	if (length) {
		memcpy(shown, text, length);
		shown[length] = '\0';
		return length;
	}
	uint32_t c = utf8_get(text, text + n, &length);
	*end++ = '\\';
	if (length == 1 || c < 0xa0) {
		*end++ = 'x';
		end = put_hex(end, (unsigned char)*text, 2);
		length = 1;
	} else {
		*end++ = c > 0xffff ? 'U' : 'u';
		end = put_hex(end, c, c > 0xffff ? 8 : 4);
	}
	*end = '\0';
	return length;
}

void tame_write(const char *text, size_t n, FILE *to)
{
	char shown[TAMED_BYTES];
	size_t from = 0, i = 0;

	while (i < n) {
		size_t k = harmless_bytes(text + i, n - i, true);
		if (k) {
			i += k;
			continue;
		}
		fwrite(text + from, 1, i - from, to);
		i += tame_char(text + i, n - i, true, shown);
		fputs(shown, to);
		from = i;
	}
	fwrite(text + from, 1, n - from, to);
}

const char *tame_word(struct arena *a, const char *text)
{
	size_t n = strlen(text), i = 0;
	struct str out = {.arena = a};
	char shown[TAMED_BYTES];

	for (size_t k; i < n && (k = harmless_bytes(text + i, n - i, false)); i += k)
		;
	if (i == n)
		return text;
	for (i = 0; i < n;) {
		i += tame_char(text + i, n - i, false, shown);
		str_add(&out, shown);
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
	if (fflush(t->held) != 0)
		return;
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
	return ferror(t->held) ? 0 : (ssize_t)n;
}

static int tame_close(void *cookie)
{
	struct tame *t = cookie;

	write_held(t);
	bool whole = !ferror(t->held);
	if (fclose(t->held) != 0)
		whole = false;
	free(t->text);
	free(t);
	return whole ? 0 : -1;
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
