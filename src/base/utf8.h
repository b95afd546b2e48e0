/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H
/* UTF-8 (RFC 3629): overlong forms, surrogates and numbers above U+10FFFF are not well formed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of bytes of the character at s; 0 if s does not begin with a well-formed character. n > 0: how many bytes of s can be read. */
size_t utf8_length(const unsigned char *s, size_t n);

/*
 * The code point at p, of which at least one byte can be read; *n: its bytes. A byte that begins no
 * well-formed character stands for itself: its value, and *n is 1.
 */
uint32_t utf8_get(const char *p, const char *end, size_t *n);

/* Write a code point up to U+10FFFF. Returns the number of bytes, at most 4. */
size_t utf8_put(uint32_t c, char *out);

/* Whether the byte is the second or a later one of a character. */
static inline bool utf8_continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

#endif
