/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tame.h"

#include "base/arena.h"
#include "unit.h"

#include <stdlib.h>

static struct arena a;

static void words(void)
{
	const char *plain = "conv_1/Relu \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80";

	CHECK(tame_word(&a, plain) == plain);
	CHECK_STR(tame_word(&a, "\033[31mred\a"), "\\x1b[31mred\\x07");
	CHECK_STR(tame_word(&a, "a\nb\tc\x7f"), "a\\x0ab\\x09c\\x7f");
	CHECK_STR(tame_word(&a, "\xc2\x9b"
				"31m \xc2\xa0"),
		  "\\xc2\\x9b31m \xc2\xa0");
	CHECK_STR(tame_word(&a, "\xff\xc3"), "\\xff\\xc3");
	CHECK_STR(tame_word(&a, ""), "");
	CHECK_STR(tame_word(&a, "a\u202eb\u200b\U000e0041\ufeff\xef\xbf\xbe"),
		  "a\\u202eb\\u200b\\U000e0041\\ufeff\\ufffe");
}

/* What comes out of a stream into which the parts are written, each by itself. */
static const char *through(const char *const *part, int buffering)
{
	static char *text;
	static size_t n;

	free(text);
	FILE *to = open_memstream(&text, &n), *f = tame_open(to);
	setvbuf(f, NULL, buffering, 8);
	for (; *part; part++)
		fputs(*part, f);
	fclose(f);
	fclose(to);
	return text;
}

static void streams(void)
{
	static const int ways[] = {_IOFBF, _IOLBF, _IONBF};

	for (size_t i = 0; i < 3; i++) {
		CHECK_STR(through((const char *const[]){"a\tb\n", "\033[0m\r\n", "end", NULL},
				  ways[i]),
			  "a\tb\n\\x1b[0m\\x0d\nend");
		/* a character that comes in two parts is whole */
		CHECK_STR(through((const char *const[]){"x\xe2\x82", "\xac\n\xc3", "\xa4", NULL},
				  ways[i]),
			  "x\xe2\x82\xac\n\xc3\xa4");
		CHECK_STR(through((const char *const[]){"", NULL}, ways[i]), "");
		CHECK_STR(through((const char *const[]){"one\n", "two\n", "\xff\n", NULL}, ways[i]),
			  "one\ntwo\n\\xff\n");
	}
}

int main(void)
{
	UNIT(words);
	UNIT(streams);
	arena_free(&a);
	return unit_end();
}
