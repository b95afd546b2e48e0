/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include "base/asan.h"
#include "base/mem.h"
#include "unit.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void blocks_are_cleared_and_aligned(void)
{
	struct arena a = {0};

	for (size_t n = 0; n < 3000; n += 7) {
		unsigned char *p = arena_alloc(&a, n);
		CHECK((uintptr_t)p % 16 == 0);
		for (size_t i = 0; i < n; i++)
			if (!CHECK(p[i] == 0))
				break;
		memset(p, 0xee, n);
	}
	arena_free(&a);
	CHECK(a.chunks == NULL);
}

static void one_block_may_be_large(void)
{
	struct arena a = {0};
	char *p = arena_alloc(&a, 5 << 20);

	p[(5 << 20) - 1] = 1;
	CHECK(arena_bytes(&a) >= 5 << 20);
	arena_free(&a);
	CHECK_INT(arena_bytes(&a), 0);
}

static void everything_is_given_back(void)
{
	struct arena a = {0};
	uint64_t before = mem_count(MEM_HOST, MEM_MODEL).live;

	for (int i = 0; i < 1000; i++)
		arena_alloc(&a, 1000);
	CHECK(mem_count(MEM_HOST, MEM_MODEL).live > before);
	arena_free(&a);
	CHECK_INT(mem_count(MEM_HOST, MEM_MODEL).live, before);
}

static void arrays_that_grow_by_one_cost_what_they_hold(void)
{
	enum { COUNT = 20000 };
	struct arena a = {0};
	int *v = NULL;

	for (int i = 0; i < COUNT; i++) {
		v = arena_append(&a, v, (size_t)i, sizeof(*v));
		v[i] = i;
	}
	for (int i = 0; i < COUNT; i++)
		if (!CHECK_INT(v[i], i))
			break;
	CHECK(arena_bytes(&a) < 8 * COUNT * sizeof(*v));
	arena_free(&a);
}

/* In a build with AddressSanitizer: behind each block, though the next block of the arena or the heap follows. */
static void bytes_between_blocks_are_watched(void)
{
	struct arena a = {0};
	char *p = arena_alloc(&a, 20), *q = arena_alloc(&a, 16), *m = mem_alloc(20, MEM_MODEL);

	CHECK(!asan_is_poisoned(p + 19) && !asan_is_poisoned(q) && m && !asan_is_poisoned(m + 19));
	CHECK_INT(asan_is_poisoned(p + 20), WITH_ASAN);
	CHECK_INT(asan_is_poisoned(q - 1), WITH_ASAN);
	CHECK_INT(asan_is_poisoned(m - 1), WITH_ASAN);
	CHECK_INT(asan_is_poisoned(m + 20), WITH_ASAN);
	mem_free(m);
	arena_free(&a);
}

static void text_is_copied(void)
{
	struct arena a = {0};

	CHECK_STR(arena_str(&a, "abc"), "abc");
	CHECK(arena_str(&a, NULL) == NULL);
	CHECK_STR(arena_strn(&a, "abcdef", 2), "ab");
	CHECK_STR(arena_strn(&a, NULL, 0), "");
	CHECK_STR(arena_printf(&a, "%d-%s", 7, "x"), "7-x");
	arena_free(&a);
}

static void arrays_grow(void)
{
	struct arena a = {0};
	int first[3] = {1, 2, 3};
	int *p = arena_grow(&a, first, 3, 8, sizeof(int));

	CHECK(p[0] == 1 && p[2] == 3 && p[3] == 0 && p[7] == 0);
	arena_free(&a);
}

/* The exit status of a child that asks for something that cannot be given. */
static int status_of(void (*ask)(struct arena *))
{
	int status = 0;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct arena a = {0};
		if (!freopen("/dev/null", "w", stderr))
			_exit(9);
		ask(&a);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void ask_overflow(struct arena *a)
{
	arena_array(a, SIZE_MAX / 2, 16);
}

static void ask_much(struct arena *a)
{
	arena_alloc(a, SIZE_MAX - 3);
}

static void refusal_ends_with_3(void)
{
	CHECK_INT(status_of(ask_overflow), 3);
	CHECK_INT(status_of(ask_much), 3);
}

static void sizes_are_checked(void)
{
	size_t n = 0;

	CHECK(size_mul(3, 4, &n) && n == 12);
	CHECK(!size_mul(SIZE_MAX, 2, &n));
	CHECK(!size_add(SIZE_MAX, 1, &n));
}

int main(void)
{
	UNIT(blocks_are_cleared_and_aligned);
	UNIT(one_block_may_be_large);
	UNIT(everything_is_given_back);
	UNIT(arrays_that_grow_by_one_cost_what_they_hold);
	UNIT(bytes_between_blocks_are_watched);
	UNIT(text_is_copied);
	UNIT(arrays_grow);
	UNIT(refusal_ends_with_3);
	UNIT(sizes_are_checked);
	return unit_end();
}
