/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml.h"

#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

struct all {
	bool flag;
	int64_t n;
	const char *s;
	struct ints ints;
	struct texts list;
	bool help;
};

static const struct field table[] = {
	FIELD(struct all, flag, F_BOOL, NULL, ""),
	FIELD(struct all, n, F_INT, "1", ""),
	FIELD(struct all, s, F_STRING, NULL, ""),
	FIELD(struct all, ints, F_INTS, NULL, ""),
	FIELD(struct all, list, F_LIST, NULL, ""),
	{.name = "help", .type = F_BOOL, .off = offsetof(struct all, help), .flags = 256},
	{.name = NULL},
};

static char path[64];
static struct arena arena;
static struct all x;
static struct diag diag;
static char last_seen[128];

static void seen(void *ctx, const struct field *f, const char *where)
{
	(void)ctx;
	snprintf(last_seen, sizeof(last_seen), "%s %s", f->name, where + strlen(path));
}

static int load_n(const char *text, size_t n)
{
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(text, 1, n, f) != n || fclose(f) != 0)
		return -1;
	diag_free(&diag);
	*last_seen = '\0';
	field_defaults(table, &x, &arena);
	return yaml_load(path, table, 256, &x, seen, NULL, &arena, &diag);
}

static int load(const char *text)
{
	return load_n(text, strlen(text));
}

/* "LINE: message", for a text that is refused. */
static const char *refusal(const char *text)
{
	if (load(text) != -E_CONFIG || diag.errors != 1 || diag.last->code != E_CONFIG)
		return "not refused as it should be";
	return arena_printf(&arena, "%s: %s", diag.last->slot + strlen(path) + 1, diag.last->message);
}

static void values_are_set(void)
{
	CHECK_INT(load("# a comment\nflag: yes\nn: -7\ns: 'it''s # text'\nints: [1, 2]\n"
		       "list:\n  - a b\n  - \"c\\td\"\n"),
		  0);
	CHECK(x.flag && x.n == -7);
	CHECK_STR(x.s, "it's # text");
	CHECK(x.ints.n == 2 && x.ints.v[1] == 2);
	CHECK(x.list.n == 2);
	CHECK_STR(x.list.v[1].s, "c\td");
	CHECK_STR(last_seen, "list :8");
}

static void single_values_and_mappings_make_lists(void)
{
	CHECK_INT(load("list: one\n"), 0);
	CHECK(x.list.n == 1);
	CHECK_INT(load("list: {batch: 4, \"my in\": a=b}\n"), 0);
	CHECK(x.list.n == 2);
	CHECK_STR(x.list.v[0].s, "batch=4");
	CHECK_STR(x.list.v[1].s, "my in=a=b");
}

static void empty_files_and_values(void)
{
	CHECK_INT(load(""), 0);
	CHECK_INT(load("# nothing\n"), 0);
	CHECK_INT(load("---\n...\n"), 0);
	CHECK_INT(load("n:\ns: ~\nlist: []\n"), 0);
	CHECK(x.n == 1 && !x.s && x.list.n == 0);
	CHECK_INT(load("s: ''\n"), 0);
	CHECK_STR(x.s, "");
}

static void errors_have_a_line(void)
{
	CHECK_STR(refusal("n: 1\nflga: on\n"), "2: unknown option 'flga'");
	CHECK_STR(diag.last->hint, "did you mean 'flag'?");
	CHECK_STR(refusal("\n\nn: many\n"), "3: n: wrong value");
	CHECK_STR(refusal("n: 1\n\nn: 2\n"), "3: n: given twice");
	CHECK_STR(diag.last->hint, "the first is in line 1");
	CHECK_STR(refusal("n: [1]\n"), "1: n takes a single value here");
	CHECK_STR(refusal("n: {a: 1}\n"), "1: n takes a single value here");
	CHECK_STR(refusal("list:\n- [a]\n"), "2: list takes a single value here");
	CHECK_STR(refusal("- a\n"), "1: a mapping (key: value) is expected");
	CHECK_STR(refusal("help: on\n"), "1: help: only the command line can say this");
	CHECK_STR(refusal("? [a]\n: b\n"), "1: a key must be a name");
	CHECK_STR(refusal("s: &a b\nlist: *a\n"), "2: anchors and aliases are not used here");
	CHECK_STR(refusal("n: 1\n---\nn: 2\n"), "2: a second document");
	CHECK_STR(refusal("s: \"a\\0b\"\n"), "1: a value holds a NUL character");
}

static void no_yaml_is_refused(void)
{
	static const char *const bad[] = {"a: b: c\n", "s: 'open\n", "n: 1\n\tflag: on\n",
					  "\xff\xfe\xff", "s: \x01"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (!CHECK(load(bad[i]) == -E_CONFIG))
			printf("# text %zu\n", i);
	CHECK(load_n("n: 1\0\n", 6) == -E_CONFIG);
	CHECK_INT(yaml_load("/nowhere/x.yaml", table, 0, &x, NULL, NULL, &arena, NULL), -E_CONFIG);
}

static void deep_nesting_is_refused(void)
{
	static char deep[100001];

	memset(deep, '[', sizeof(deep) - 1);
	memcpy(deep, "list: ", 6);
	CHECK_INT(load(deep), -E_CONFIG);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(path, sizeof(path), "%s/infer-unit-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	int fd = mkstemp(path);
	if (fd < 0)
		return 1;
	close(fd);
	UNIT(values_are_set);
	UNIT(single_values_and_mappings_make_lists);
	UNIT(empty_files_and_values);
	UNIT(errors_have_a_line);
	UNIT(no_yaml_is_refused);
	UNIT(deep_nesting_is_refused);
	unlink(path);
	diag_free(&diag);
	arena_free(&arena);
	return unit_end();
}
