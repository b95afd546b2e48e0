/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_read.h"
#include "base/json_write.h"

#include "unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static char *text;
static size_t length;

static struct json start(void)
{
	struct json j;

	free(text);
	text = NULL;
	json_begin(&j, open_memstream(&text, &length));
	return j;
}

static const char *end(struct json *j)
{
	fclose(j->stream);
	return text;
}

static void a_document(void)
{
	struct json j = start();

	json_object(&j, NULL);
	json_string(&j, "a", "b");
	json_array(&j, "numbers");
	json_int(&j, NULL, -1);
	json_number(&j, NULL, 0.5);
	json_bool(&j, NULL, true);
	json_end(&j, ']');
	json_array(&j, "objects");
	json_object(&j, NULL);
	json_int(&j, "x", 1);
	json_end(&j, '}');
	json_object(&j, NULL);
	json_end(&j, '}');
	json_end(&j, ']');
	json_array(&j, "empty");
	json_end(&j, ']');
	json_null(&j, "none");
	json_end(&j, '}');
	json_finish(&j);
	CHECK_STR(end(&j),
		  "{\n  \"a\": \"b\",\n  \"numbers\": [-1, 0.5, true],\n  \"objects\": [\n    {\n"
		  "      \"x\": 1\n    },\n    {}\n  ],\n  \"empty\": [],\n  \"none\": null\n}\n");
}

static const char *string(const char *s, size_t n)
{
	struct json j = start();

	json_string_n(&j, NULL, s, n);
	return end(&j);
}

static void strings_are_escaped(void)
{
	CHECK_STR(string("a\"\\\n\t\x01\x7f", 7), "\"a\\\"\\\\\\n\\t\\u0001\\u007f\"");
	CHECK_STR(string("a\0b", 3), "\"a\\u0000b\"");
	CHECK_STR(string("\xc2\x9b"
			 "1\xc2\xa0",
			 5),
		  "\"\\u009b1\xc2\xa0\""); /* C1 */
	CHECK_STR(string("\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80", 9),
		  "\"\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\"");
}

#define FFFD "\xef\xbf\xbd"
static void bad_utf8_is_replaced(void)
{
	CHECK_STR(string("a\xff"
			 "b",
			 3),
		  "\"a" FFFD "b\"");
	CHECK_STR(string("\xc0\x80", 2), "\"" FFFD FFFD "\"");		/* overlong */
	CHECK_STR(string("\xe0\x80\x80", 3), "\"" FFFD FFFD FFFD "\""); /* overlong */
	CHECK_STR(string("\xed\xa0\x80", 3), "\"" FFFD FFFD FFFD "\""); /* a surrogate */
	CHECK_STR(string("\xf4\x90\x80\x80", 4), "\"" FFFD FFFD FFFD FFFD "\"");
	CHECK_STR(string("x\xe6\xbc", 3), "\"x" FFFD FFFD "\""); /* cut short */
}

static const char *number(double v)
{
	struct json j = start();

	json_number(&j, NULL, v);
	return end(&j);
}

static void numbers_read_back(void)
{
	static const double values[] = {0,	 -0.0,	 0.1,  1.0 / 3,	 DBL_MAX,
					DBL_MIN, 5e-324, 1e21, 123456789};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		CHECK(strtod(number(values[i]), NULL) == values[i]);
	CHECK_STR(number(0.1), "0.1");
	CHECK_STR(number(NAN), "\"NaN\"");
	CHECK_STR(number(-INFINITY), "\"-Infinity\"");
	struct json j = start();
	json_float(&j, NULL, 0.1f);
	CHECK_STR(end(&j), "0.1");
	j = start();
	json_int(&j, NULL, INT64_MIN);
	CHECK_STR(end(&j), "-9223372036854775808");
	j = start();
	json_uint(&j, NULL, UINT64_MAX);
	CHECK_STR(end(&j), "18446744073709551615");
}

static const char *read_text(const char *json, struct arena *a)
{
	return jtext(jread(json, strlen(json), "x", E_CONFIG, a, NULL), "s");
}

static void strings_are_read(void)
{
	struct arena a = {0};

	CHECK_STR(read_text("{\"s\": \"plain\"}", &a), "plain");
	CHECK_STR(read_text("{\"s\": \"a\\n\\\"\\u00e9\\u20AC\"}", &a), "a\n\"\xc3\xa9\xe2\x82\xac");
	CHECK_STR(read_text("{\"s\": \"\\ud83d\\ude00\"}", &a), "\xf0\x9f\x98\x80");
	CHECK_STR(read_text("{\"s\": \"\\ud83dx\"}", &a), "\xef\xbf\xbdx"); /* half of a pair */
	CHECK_STR(read_text("{\"s\": \"\\u12\"}", &a), NULL);
	CHECK_STR(read_text("{\"s\": \"\\x\"}", &a), NULL);
	CHECK_STR(read_text("{\"s\": \"\\", &a), NULL);
	CHECK_STR(read_text("{\"s\": \"", &a), NULL);
	arena_free(&a);
}

static bool is_number(const char *json, size_t n, double v)
{
	struct arena a = {0};
	const struct jvalue *got = jread(json, n, "x", E_CONFIG, &a, NULL);
	bool same = got && got->n == 1 && got->first->type == J_NUMBER && got->first->number == v;

	arena_free(&a);
	return same;
}

static void numbers_are_read(void)
{
	static const char nul[] = {'[', '1', '\0', '2', ']'};
	char json[203] = "[0.";

	CHECK(is_number("[-1.5e2]", 8, -150));
	CHECK(!is_number("[1-]", 4, 1));
	CHECK(!is_number(nul, sizeof(nul), 1));
	CHECK(!is_number("[1\0]", 4, 1));
	memset(json + 3, '0', 198); /* no number is too long */
	memcpy(json + 199, "1]", 2);
	CHECK(is_number(json, 201, 1e-197));
	memcpy(json + 195, "e199]", 5);
	json[194] = '1';
	CHECK(is_number(json, 200, 1e7));
}

static void depth_is_bounded(void)
{
	struct arena a = {0};
	char deep[201];

	memset(deep, '[', 100);
	memset(deep + 100, ']', 100);
	deep[200] = '\0';
	CHECK(jread(deep + 36, 128, "x", E_CONFIG, &a, NULL) != NULL); /* 64 levels */
	CHECK(jread(deep + 35, 130, "x", E_CONFIG, &a, NULL) == NULL);
	CHECK(jread(deep, 100, "x", E_CONFIG, &a, NULL) == NULL);
	arena_free(&a);
}

int main(void)
{
	UNIT(a_document);
	UNIT(strings_are_escaped);
	UNIT(bad_utf8_is_replaced);
	UNIT(numbers_read_back);
	free(text);
	UNIT(strings_are_read);
	UNIT(numbers_are_read);
	UNIT(depth_is_bounded);
	return unit_end();
}
