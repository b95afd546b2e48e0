/* SPDX-License-Identifier: Apache-2.0 */
#include "base/field.h"

#include "base/str.h"
#include "unit.h"

struct all {
	bool flag, on;
	int64_t n, absent, bytes;
	float f;
	double d, t;
	const char *s, *word;
	int e;
	struct ints ints;
	struct floats floats;
	struct texts strings, list;
};

static const struct field table[] = {
	FIELD(struct all, flag, F_BOOL, NULL, "a flag"),
	FIELD(struct all, on, F_BOOL, "on", "a flag that is on"),
	{.name = "n", .type = F_INT, .off = offsetof(struct all, n), .def = "-3", .min = -5, .max = 5},
	FIELD(struct all, absent, F_INT, NULL, ""),
	FIELD(struct all, bytes, F_SIZE, "4K", ""),
	FIELD(struct all, f, F_FLOAT, "0.1", ""),
	FIELD(struct all, d, F_DOUBLE, NULL, ""),
	FIELD(struct all, t, F_DURATION, "200ms", ""),
	FIELD(struct all, s, F_STRING, NULL, ""),
	{.name = "word", .type = F_STRING, .off = offsetof(struct all, word), .def = "b", .choices = "a|b"},
	{.name = "e",
	 .type = F_ENUM,
	 .off = offsetof(struct all, e),
	 .def = "two",
	 .choices = "one|two|three"},
	FIELD(struct all, ints, F_INTS, "1,-2,3", ""),
	FIELD(struct all, floats, F_FLOATS, NULL, ""),
	FIELD(struct all, strings, F_STRINGS, "x,y", ""),
	FIELD(struct all, list, F_LIST, NULL, ""),
	{.name = NULL},
};

static struct arena arena;

/* 0 where the field takes the text. */
static int put(struct all *x, const char *name, const char *text)
{
	return field_set(field_find(table, name), x, text, "here", &arena, NULL);
}

static void defaults_are_set(void)
{
	struct all x;

	memset(&x, 0xee, sizeof(x));
	CHECK(field_defaults(table, &x, &arena));
	CHECK(!x.flag && x.on);
	CHECK(x.n == -3 && x.absent == INT_ABSENT && x.bytes == 4096);
	CHECK(x.f == 0.1f && isnan(x.d) && x.t == 0.2);
	CHECK(x.s == NULL && x.e == 1);
	CHECK_STR(x.word, "b");
	CHECK(x.ints.n == 3 && x.ints.v[1] == -2);
	CHECK(x.floats.n == -1 && x.strings.n == 2 && x.list.n == 0);
	CHECK_STR(x.strings.v[1].s, "y");
}

static void a_wrong_default_is_told(void)
{
	static const struct field wrong[] = {FIELD(struct all, n, F_INT, "many", ""), {.name = NULL}};
	struct all x;

	CHECK(!field_defaults(wrong, &x, &arena));
}

static void numbers_are_read_whole(void)
{
	static const char *const bad[] = {
		"", " 1", "1x", "1.5", "6", "-6", "99999999999999999999", "nan"};
	struct all x = {0};

	CHECK(put(&x, "n", "5") == 0 && x.n == 5);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!CHECK_INT(put(&x, "n", bad[i]), -E_OPTION))
			printf("# with '%s'\n", bad[i]);
	CHECK(put(&x, "d", "1e-3") == 0 && x.d == 1e-3);
	CHECK(put(&x, "d", "1e") != 0);
	CHECK(put(&x, "f", "0.25") == 0 && x.f == 0.25f);
}

static void sizes_have_units(void)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} good[] = {{"0", 0},
		    {"12", 12},
		    {"4K", 4096},
		    {"2MiB", 2 << 20},
		    {"1.5G", 3LL << 29},
		    {"10MB", 10000000},
		    {"3 GiB", 3LL << 30},
		    {"9223372036854775807", INT64_MAX}};
	static const char *const bad[] = {
		"-1", "4Q", "K", "", "1e30", "inf", "99999999999999999999"};
	struct all x = {0};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		CHECK_INT(put(&x, "bytes", good[i].text), 0);
		CHECK_INT(x.bytes, good[i].bytes);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!CHECK(put(&x, "bytes", bad[i]) != 0))
			printf("# with '%s'\n", bad[i]);
}

static void durations_have_units(void)
{
	struct all x = {0};

	CHECK(put(&x, "t", "3") == 0 && x.t == 3);
	CHECK(put(&x, "t", "3s") == 0 && x.t == 3);
	CHECK(put(&x, "t", "2m") == 0 && x.t == 120);
	CHECK(put(&x, "t", "1.5h") == 0 && x.t == 5400);
	CHECK(put(&x, "t", "250us") == 0 && x.t == 250e-6);
	CHECK(put(&x, "t", "-1s") != 0);
	CHECK(put(&x, "t", "1 day") != 0);
}

static void words_are_checked(void)
{
	struct all x = {0};
	struct diag d = {0};

	CHECK(put(&x, "flag", "yes") == 0 && x.flag);
	CHECK(put(&x, "flag", "off") == 0 && !x.flag);
	CHECK(put(&x, "flag", "maybe") != 0);
	CHECK(put(&x, "e", "three") == 0 && x.e == 2);
	CHECK(put(&x, "e", "thre") != 0);
	CHECK(put(&x, "word", "c") != 0);
	field_set(field_find(table, "e"), &x, "thre", "--e", &arena, &d);
	CHECK_STR(d.last->slot, "--e");
	CHECK_STR(d.last->expected, "one of one, two, three");
	CHECK_STR(d.last->actual, "'thre'");
	CHECK_STR(d.last->hint, "did you mean 'three'?");
	diag_free(&d);
}

static void lists_grow(void)
{
	struct all x;

	field_defaults(table, &x, &arena);
	CHECK(put(&x, "list", "a,b") == 0 && put(&x, "list", "c") == 0);
	CHECK(x.list.n == 2);
	CHECK_STR(x.list.v[0].s, "a,b");
	CHECK(put(&x, "ints", "") == 0 && x.ints.n == 0);
	CHECK(put(&x, "ints", "1,,2") != 0);
	CHECK(put(&x, "floats", "1,2.5") == 0 && x.floats.n == 2 && x.floats.v[1] == 2.5f);
}

static void what_is_printed_reads_back(void)
{
	struct all x, y;

	field_defaults(table, &x, &arena);
	put(&x, "bytes", "3GiB");
	put(&x, "d", "0.1");
	put(&x, "floats", "0.1,3e20");
	put(&x, "s", "a = b");
	for (const struct field *f = table; f->name; f++) {
		const char *text = field_print(f, &x, &arena);
		field_defaults(table, &y, &arena);
		if (!text || f->type == F_LIST)
			continue;
		CHECK_INT(field_set(f, &y, text, "", &arena, NULL), 0);
		CHECK_STR(field_print(f, &y, &arena), text);
	}
	CHECK_STR(field_print(field_find(table, "bytes"), &x, &arena), "3G");
	CHECK_STR(field_print(field_find(table, "floats"), &x, &arena), "0.1,3e+20");
	CHECK(field_print(field_find(table, "absent"), &x, &arena) == NULL);
}

static void names_are_found(void)
{
	CHECK(field_find(table, "floats") == &table[12]);
	CHECK(field_find(table, "float") == NULL);
	CHECK_STR(field_nearest(table, "flaots"), "floats");
	CHECK_STR(field_nearest(table, "flga"), "flag");
	CHECK(field_nearest(table, "elephant") == NULL);
}

static void texts_are_for_people(void)
{
	CHECK_STR(str_count(&arena, 1228800), "1,228,800");
	CHECK_STR(str_count(&arena, -1000), "-1,000");
	CHECK_STR(str_count(&arena, 999), "999");
	CHECK_STR(str_bytes(&arena, 1), "1 byte");
	CHECK_STR(str_bytes(&arena, 1536), "1.5 KiB");
	CHECK_STR(str_bytes(&arena, 1048575), "1.0 MiB");
	CHECK_STR(str_seconds(&arena, 0.0123), "12.3 ms");
	CHECK_STR(str_seconds(&arena, 2), "2.00 s");
	CHECK_STR(str_float(&arena, 0.1f), "0.1");
	CHECK_INT(str_distance("kitten", "sitting"), 3);
	CHECK_INT(str_distance("ab", "ba"), 1);
	CHECK_INT(str_distance("", "abc"), 3);
}

int main(void)
{
	UNIT(defaults_are_set);
	UNIT(a_wrong_default_is_told);
	UNIT(numbers_are_read_whole);
	UNIT(sizes_have_units);
	UNIT(durations_have_units);
	UNIT(words_are_checked);
	UNIT(lists_grow);
	UNIT(what_is_printed_reads_back);
	UNIT(names_are_found);
	UNIT(texts_are_for_people);
	arena_free(&arena);
	return unit_end();
}
