/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H
/*
 * Reads and writes UTF-8 (RFC 3629). Overlong forms, surrogates and numbers above U+10FFFF are not
 * well formed.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns the number of bytes of the character at s, or 0 if s does not begin with a well-formed
 * character. n is the number of bytes of s that can be read, at least 1.
 */
size_t utf8_length(const unsigned char *s, size_t n);

/*
 * Returns the code point at p and sets *n to its number of bytes. At least one byte at p must be
 * readable. If no well-formed character begins at p, returns the value of the byte itself and sets
 * *n to 1.
 */
uint32_t utf8_get(const char *p, const char *end, size_t *n);

/* Writes a code point up to U+10FFFF as UTF-8. Returns the number of bytes, at most 4. */
size_t utf8_put(uint32_t c, char *out);

/*
 * Returns true for a code point that a reader cannot see or that changes the order in which its
 * neighbours are shown: bidirectional controls, zero width characters, separators of lines and
 * paragraphs, tags and all others that Unicode calls ignorable. A name that contains one looks like
 * another name.
 */
bool utf8_is_hidden(uint32_t c);

/* Returns true if the byte is a continuation byte, that is, not the first byte of a character. */
static inline bool utf8_continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

#endif
