/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H
/*
 * A JSON writer that sets commas, indentation and escapes by itself. Each member of an object is on a line of
 * its own; numbers and strings of an array are on one line. Non-finite numbers become the strings "NaN",
 * "Infinity" and "-Infinity", because JSON has no such numbers.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_ESCAPED_BYTES = 16 };
/*
 * Encodes the first character of a text of n bytes, at least 1, for a JSON string: returns how many
 * bytes the character has, and sets `out` to its text. Control characters and characters that
 * cannot be seen or that change the order of others are escaped, because a document may be shown on
 * a terminal; invalid UTF-8 becomes U+FFFD. A signal handler may call it.
 */
size_t json_escape(const char *text, size_t n, char out[JSON_ESCAPED_BYTES]);

struct json {
	FILE *stream;
	int depth;
	bool comma;  /* true if the open object or array already has a member */
	bool nested; /* true if the last value written was an object or array */
	bool keyed;  /* true if a key was written, and its value comes next */
	bool one_line; /* set after json_begin(): the document has no line breaks but the closing one */
};
void json_begin(struct json *j, FILE *stream);
/* key: NULL inside arrays and at the top level */
void json_object(struct json *j, const char *key);
void json_array(struct json *j, const char *key);
void json_end(struct json *j, char close); /* '}' or ']' */
void json_string(struct json *j, const char *key,
		 const char *value); /* NULL is written as null; invalid UTF-8 is replaced */
void json_string_n(struct json *j, const char *key, const char *value, size_t n);
void json_int(struct json *j, const char *key, int64_t value);
void json_uint(struct json *j, const char *key, uint64_t value);
void json_number(struct json *j, const char *key, double value);
void json_float(struct json *j, const char *key,
		float value); /* written with the fewest digits that read back as the same float */
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
/* Writes the key of n bytes of the open object's next member. The call that writes its value passes NULL as key. */
void json_key_n(struct json *j, const char *key, size_t n);
void json_finish(struct json *j); /* closing newline */

#endif
