/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

size_t utf8_length(const unsigned char *s, size_t n)
{
	static const struct {
		/* range of the first byte (first to last) and of the second byte (low to high) */
		unsigned char first, last, low, high;
		size_t length;
	} forms[] = {
		{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	if (s[0] < 0x80)
		return 1;
	for (size_t f = 0; f < sizeof(forms) / sizeof(*forms); f++) {
		if (s[0] < forms[f].first || s[0] > forms[f].last || n < forms[f].length)
			continue;
		if (s[1] < forms[f].low || s[1] > forms[f].high)
			return 0;
		for (size_t i = 2; i < forms[f].length; i++)
			if (!utf8_continues((char)s[i]))
				return 0;
		return forms[f].length;
	}
	return 0;
}

uint32_t utf8_get(const char *p, const char *end, size_t *n)
{
	const unsigned char *s = (const unsigned char *)p;
	size_t length = utf8_length(s, (size_t)(end - p));

	*n = length ? length : 1;
	if (*n == 1)
		return s[0];
	uint32_t c = s[0] & (0xffu >> (length + 1));
	for (size_t i = 1; i < length; i++)
		c = c << 6 | (s[i] & 0x3fu);
	return c;
}

size_t utf8_put(uint32_t c, char *out)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n; i-- > 1; c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)((0xf00u >> n & 0xff) | c);
	return n;
}

bool utf8_is_hidden(uint32_t c)
{
	/* Default_Ignorable_Code_Point of Unicode 15, U+2028 and U+2029, marks of annotations, and two that are none, which XML forbids */
	static const uint32_t ranges[][2] = {
		{0xad, 0xad},	  {0x34f, 0x34f},     {0x61c, 0x61c},	  {0x115f, 0x1160},
		{0x17b4, 0x17b5}, {0x180b, 0x180f},   {0x200b, 0x200f},	  {0x2028, 0x202e},
		{0x2060, 0x206f}, {0x3164, 0x3164},   {0xfe00, 0xfe0f},	  {0xfeff, 0xfeff},
		{0xffa0, 0xffa0}, {0xfff0, 0xfffb},   {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
		{0xfffe, 0xffff}, {0xe0000, 0xe0fff},
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++)
		if (c >= ranges[i][0] && c <= ranges[i][1])
			return true;
	return false;
}
