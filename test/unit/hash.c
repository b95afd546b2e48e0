/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include "unit.h"

static void known_values(void)
{
	CHECK(hash_bytes("", 0, 0) == UINT64_C(0xcbf29ce484222325));
	CHECK(hash_bytes("a", 1, 0) == UINT64_C(0xaf63dc4c8601ec8c));
	CHECK(hash_bytes("b", 1, hash_bytes("a", 1, 0)) == hash_bytes("ab", 2, 0));
}

static void many_keys_are_found(void)
{
	struct arena a = {0};
	struct map m = {.arena = &a};
	static char keys[5000][8];

	CHECK_INT(map_get(&m, "x", 1), -1);
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%u", i);
		CHECK(map_set(&m, keys[i], strlen(keys[i]), i));
	}
	CHECK_INT(m.used, 5000);
	for (unsigned i = 0; i < 5000; i++)
		CHECK_INT(map_get(&m, keys[i], strlen(keys[i])), i);
	CHECK_INT(map_get(&m, "k5000", 5), -1);
	arena_free(&a);
}

static void keys_are_bytes(void)
{
	struct arena a = {0};
	struct map m = {.arena = &a};

	CHECK(map_set(&m, "a\0b", 3, 1));
	CHECK(map_set(&m, "a\0c", 3, 2));
	CHECK(map_set(&m, "a", 1, 3));
	CHECK(map_set(&m, "", 0, 4));
	CHECK(!map_set(&m, "a\0b", 3, 5));
	CHECK_INT(map_get(&m, "a\0b", 3), 5);
	CHECK_INT(map_get(&m, "a\0c", 3), 2);
	CHECK_INT(map_get(&m, "a", 1), 3);
	CHECK_INT(map_get(&m, "", 0), 4);
	CHECK(map_set(&m, "big", 3, UINT32_MAX));
	CHECK_INT(map_get(&m, "big", 3), UINT32_MAX);
	arena_free(&a);
}

int main(void)
{
	UNIT(known_values);
	UNIT(many_keys_are_found);
	UNIT(keys_are_bytes);
	return unit_end();
}
