/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_write.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void json_begin(struct json *j, FILE *stream)
{
	*j = (struct json){.stream = stream};
}

static void new_line(const struct json *j)
{
	if (!j->one_line)
		fprintf(j->stream, "\n%*s", j->depth * 2, "");
}

static char *put_unit(char *to, uint32_t unit)
{
	*to++ = '\\';
	*to++ = 'u';
	for (int shift = 12; shift >= 0; shift -= 4)
		*to++ = "0123456789abcdef"[unit >> shift & 15];
	return to;
}

size_t json_escape(const char *text, size_t n, char out[JSON_ESCAPED_BYTES])
{
	static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	size_t length = utf8_length((const unsigned char *)text, n);
	const char *p = *text ? strchr(plain, *text) : NULL;
	char *end = out;

	if (!length) {
		memcpy(out, "\xef\xbf\xbd", 4); /* U+FFFD and the end */
		return 1;
	}
	uint32_t c = utf8_get(text, text + n, &length);
	if (p) {
		*end++ = '\\';
		*end++ = letters[p - plain];
	} else if (c < 0x20 || (c >= 0x7f && c < 0xa0) || (utf8_is_hidden(c) && c <= 0xffff)) {
		end = put_unit(end, c);
	} else if (utf8_is_hidden(c)) {
		end = put_unit(end, 0xd7c0 + (c >> 10)); /* a surrogate pair */
		end = put_unit(end, 0xdc00 + (c & 0x3ff));
	} else {
		memcpy(end, text, length);
		end += length;
	}
	*end = '\0';
	return length;
}

static void write_text(const struct json *j, const char *text, size_t n)
{
	char out[JSON_ESCAPED_BYTES];

	fputc('"', j->stream);
	for (size_t i = 0; i < n;) {
		i += json_escape(text + i, n - i, out);
		fputs(out, j->stream);
	}
	fputc('"', j->stream);
}

/* Writes the text that precedes a value or its key: comma, and newline or blank. */
static void write_separator(struct json *j, bool own_line)
{
	if (j->comma)
		fputc(',', j->stream);
	if (!j->one_line && own_line)
		new_line(j);
	else if (j->comma)
		fputc(' ', j->stream);
}

void json_key_n(struct json *j, const char *key, size_t n)
{
	write_separator(j, true);
	write_text(j, key, n);
	fputs(": ", j->stream);
	j->keyed = true;
}

/* Writes the text that precedes a value: separator and key, unless json_key_n() has written them. */
static void write_prefix(struct json *j, const char *key, bool container)
{
	if (key)
		json_key_n(j, key, strlen(key));
	else if (!j->keyed)
		write_separator(j, container && j->depth);
	j->keyed = false;
	j->comma = true;
	j->nested = false;
}

static void open_container(struct json *j, const char *key, char c)
{
	write_prefix(j, key, true);
	fputc(c, j->stream);
	j->depth++;
	j->comma = false;
}

void json_object(struct json *j, const char *key)
{
	open_container(j, key, '{');
}

void json_array(struct json *j, const char *key)
{
	open_container(j, key, '[');
}

void json_end(struct json *j, char close)
{
	bool own_line = j->comma && (close == '}' || j->nested);

	j->depth--;
	if (own_line)
		new_line(j);
	fputc(close, j->stream);
	j->comma = true;
	j->nested = true;
}

void json_null(struct json *j, const char *key)
{
	write_prefix(j, key, false);
	fputs("null", j->stream);
}

void json_string_n(struct json *j, const char *key, const char *value, size_t n)
{
	write_prefix(j, key, false);
	write_text(j, value, n);
}

void json_string(struct json *j, const char *key, const char *value)
{
	if (value)
		json_string_n(j, key, value, strlen(value));
	else
		json_null(j, key);
}

void json_int(struct json *j, const char *key, int64_t value)
{
	write_prefix(j, key, false);
	fprintf(j->stream, "%" PRId64, value);
}

void json_uint(struct json *j, const char *key, uint64_t value)
{
	write_prefix(j, key, false);
	fprintf(j->stream, "%" PRIu64, value);
}

static bool write_non_finite(const struct json *j, double value)
{
	if (isfinite(value))
		return false;
	fputs(isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"", j->stream);
	return true;
}

void json_number(struct json *j, const char *key, double value)
{
	char text[40];

	write_prefix(j, key, false);
	if (write_non_finite(j, value))
		return;
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	fputs(text, j->stream);
}

void json_float(struct json *j, const char *key, float value)
{
	char text[40];

	write_prefix(j, key, false);
	if (write_non_finite(j, (double)value))
		return;
	for (int digits = 6; digits <= 9; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, (double)value);
		if (strtof(text, NULL) == value)
			break;
	}
	fputs(text, j->stream);
}

void json_bool(struct json *j, const char *key, bool value)
{
	write_prefix(j, key, false);
	fputs(value ? "true" : "false", j->stream);
}

void json_finish(struct json *j)
{
	fputc('\n', j->stream);
}
