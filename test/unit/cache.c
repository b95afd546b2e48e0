/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning results on disk: what is kept, what is passed over, what goes when there is too much. */
#include "backend/tuning_cache.h"
#include "base/file.h"
#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct arena arena;

/* A folder of its own for each test. */
static const char *folder(void)
{
	char *path = arena_str(&arena, "/tmp/infer-cache-XXXXXX");

	return mkdtemp(path) ? path : "/nowhere";
}

static const char *choices(const char *root)
{
	return path_join(&arena, root, "v1/gpu/choices.txt");
}

static void write_file(const char *path, const char *text, size_t n)
{
	FILE *f = fopen(path, "w");

	if (CHECK(f != NULL)) {
		CHECK(fwrite(text, 1, n, f) == n);
		fclose(f);
	}
}

static void remove_all(const char *root)
{
	unsigned long long bytes;
	size_t files;

	CHECK(cache_clear(root, &bytes, &files, NULL) == 0);
	CHECK(rmdir(root) == 0);
}

static void choices_come_back(void)
{
	const char *root = folder();
	struct cache *c = cache_open(root, "gpu");

	CHECK(cache_trouble(c) == NULL);
	CHECK(cache_get(c, "a key") == NULL);
	cache_put(c, "a key", "first");
	cache_put(c, "a key", "second");
	cache_put(c, "another", "third");
	cache_put(c, "bad\tkey", "x");
	cache_put(c, "bad", "two\nlines");
	CHECK_INT(cache_close(c, NULL), 0);
	c = cache_open(root, "gpu");
	CHECK_STR(cache_get(c, "a key"), "second");
	CHECK_STR(cache_get(c, "another"), "third");
	CHECK(cache_get(c, "bad") == NULL && cache_get(c, "bad\tkey") == NULL);
	cache_close(c, NULL);
	c = cache_open(root, "other gpu/../x");
	CHECK(cache_get(c, "a key") == NULL);
	CHECK(access(path_join(&arena, root, "v1/other_gpu_.._x"), R_OK) == 0);
	cache_close(c, NULL);
	remove_all(root);
}

/* Two processes: each keeps what the other wrote. */
static void writers_do_not_lose_each_others(void)
{
	const char *root = folder();
	struct cache *a = cache_open(root, "gpu"), *b = cache_open(root, "gpu");

	cache_put(a, "of a", "1");
	cache_put(b, "of b", "2");
	cache_close(a, NULL);
	cache_close(b, NULL);
	a = cache_open(root, "gpu");
	CHECK_STR(cache_get(a, "of a"), "1");
	CHECK_STR(cache_get(a, "of b"), "2");
	cache_close(a, NULL);
	remove_all(root);
}

static void damage_is_passed_over(void)
{
	static const char text[] =
		"infer choices 1\n\tno key\nno tab\ngood\tvalue\nempty\t\ncut\tsho";
	const char *root = folder();

	cache_close(cache_open(root, "gpu"), NULL);
	write_file(choices(root), text, sizeof(text) - 1);
	struct cache *c = cache_open(root, "gpu");
	CHECK_STR(cache_get(c, "good"), "value");
	CHECK(cache_get(c, "cut") == NULL && cache_get(c, "empty") == NULL &&
	      cache_get(c, "") == NULL);
	cache_put(c, "new", "line");
	cache_close(c, NULL);
	c = cache_open(root, "gpu");
	CHECK_STR(cache_get(c, "good"), "value");
	CHECK_STR(cache_get(c, "new"), "line");
	cache_close(c, NULL);
	write_file(choices(root), "another format\ngood\tvalue\n", 26);
	c = cache_open(root, "gpu");
	CHECK(cache_get(c, "good") == NULL);
	cache_close(c, NULL);
	remove_all(root);
}

static const char *only_blob(const char *root)
{
	FILE *f = popen(arena_printf(&arena, "ls %s/v1/gpu/blobs/*", root), "r");
	char line[256] = "";

	if (f && fgets(line, sizeof(line), f))
		line[strcspn(line, "\n")] = 0;
	if (f)
		pclose(f);
	return arena_str(&arena, line);
}

static void blobs_are_checked(void)
{
	const char *root = folder();
	struct cache *c = cache_open(root, "gpu");
	size_t n = 0;

	CHECK(cache_blob_get(c, "plan", &arena, &n) == NULL);
	cache_blob_put(c, "plan", "some bytes\0and more", 19);
	const char *bytes = cache_blob_get(c, "plan", &arena, &n);
	CHECK(bytes && n == 19 && !memcmp(bytes, "some bytes\0and more", 19));
	CHECK(cache_blob_get(c, "other", &arena, &n) == NULL);
	/* one byte changed; cut short; of another key under this name */
	const char *path = only_blob(root);
	struct file_map m;
	CHECK(file_map(path, &m, E_CACHE, NULL) == 0);
	char *copy = arena_dup(&arena, m.data, m.size);
	size_t size = m.size;
	file_unmap(&m);
	copy[size - 3] ^= 1;
	write_file(path, copy, size);
	CHECK(cache_blob_get(c, "plan", &arena, &n) == NULL);
	copy[size - 3] ^= 1;
	write_file(path, copy, size);
	CHECK(cache_blob_get(c, "plan", &arena, &n) != NULL);
	write_file(path, copy, size - 1);
	CHECK(cache_blob_get(c, "plan", &arena, &n) == NULL);
	write_file(path, copy, 10);
	CHECK(cache_blob_get(c, "plan", &arena, &n) == NULL);
	char *key = strstr(copy, "plan");
	if (CHECK(key != NULL))
		key[0] = 'P';
	write_file(path, copy, size);
	CHECK(cache_blob_get(c, "plan", &arena, &n) == NULL);
	cache_close(c, NULL);
	remove_all(root);
}

/* More than fits: what was used last stays. */
static void the_oldest_goes(void)
{
	const char *root = folder();
	struct cache *c = cache_open(root, "gpu");
	char value[1001], key[32];
	struct stat st;

	memset(value, 'v', 1000);
	value[1000] = 0;
	for (int i = 0; i < 900; i++) {
		snprintf(key, sizeof(key), "key %d", i);
		cache_put(c, key, value);
	}
	cache_close(c, NULL);
	c = cache_open(root, "gpu");
	CHECK(cache_get(c, "key 0") != NULL); /* used: to the end */
	for (int i = 900; i < 1300; i++) {
		snprintf(key, sizeof(key), "key %d", i);
		cache_put(c, key, value);
	}
	cache_close(c, NULL);
	CHECK(stat(choices(root), &st) == 0 && st.st_size <= CACHE_MAX_TEXT);
	c = cache_open(root, "gpu");
	CHECK(cache_get(c, "key 0") != NULL);
	CHECK(cache_get(c, "key 1") == NULL);
	CHECK(cache_get(c, "key 1299") != NULL);
	cache_close(c, NULL);
	remove_all(root);
}

static void without_a_folder(void)
{
	struct cache *c = cache_open(NULL, "gpu");
	size_t n;

	cache_put(c, "k", "v");
	CHECK_STR(cache_get(c, "k"), "v");
	cache_blob_put(c, "k", "v", 1);
	CHECK(cache_blob_get(c, "k", &arena, &n) == NULL);
	CHECK_INT(cache_close(c, NULL), 0);
	c = cache_open("/dev/null/nowhere", "gpu");
	CHECK(cache_trouble(c) != NULL);
	cache_put(c, "k", "v");
	CHECK_STR(cache_get(c, "k"), "v");
	CHECK_INT(cache_close(c, NULL), 0);
	CHECK(cache_root("off", &arena) == NULL);
	CHECK_STR(cache_root("/x", &arena), "/x");
	setenv("XDG_CACHE_HOME", "/xdg", 1);
	CHECK_STR(cache_root(NULL, &arena), "/xdg/infer");
	CHECK_STR(cache_root("", &arena), "/xdg/infer");
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", "/home/me", 1);
	CHECK_STR(cache_root(NULL, &arena), "/home/me/.cache/infer");
	unsetenv("HOME");
	CHECK(cache_root(NULL, &arena) == NULL);
}

/* Only what is ours: other files in the folder, and their folder, stay. */
static void clearing_takes_ours_alone(void)
{
	const char *root = folder();
	struct cache *c = cache_open(root, "gpu");
	const char *other = path_join(&arena, root, "v1/gpu/notes.txt");
	unsigned long long bytes = 0;
	size_t files = 0;

	cache_put(c, "k", "v");
	cache_blob_put(c, "k", "v", 1);
	cache_close(c, NULL);
	write_file(other, "mine", 4);
	CHECK(cache_clear(root, &bytes, &files, NULL) == 0);
	CHECK_INT(files, 3);
	CHECK(bytes > 0);
	CHECK(access(other, R_OK) == 0);
	CHECK(access(choices(root), R_OK) != 0);
	CHECK(unlink(other) == 0);
	remove_all(root);
}

int main(void)
{
	UNIT(choices_come_back);
	UNIT(writers_do_not_lose_each_others);
	UNIT(damage_is_passed_over);
	UNIT(blobs_are_checked);
	UNIT(the_oldest_goes);
	UNIT(without_a_folder);
	UNIT(clearing_takes_ours_alone);
	arena_free(&arena);
	return unit_end();
}
