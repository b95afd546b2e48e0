/* SPDX-License-Identifier: Apache-2.0 */
/* What is called a leak: series of readings as sound and leaking programs give them, each fifty times. */
#include "check/growth.h"

#include "unit.h"

#include <stdlib.h>

enum { RUNS = 500, TIMES = 50 };

static double noise(uint64_t *seed)
{
	return (double)(stats_random(seed) >> 11) * 0x1p-53 - 0.5;
}

/* How often `make` is called `what`. */
static int verdicts(double (*make)(int i, double noise), bool rough, enum growth what)
{
	double v[RUNS];
	int n = 0;

	for (uint64_t k = 0; k < TIMES; k++) {
		uint64_t seed = k;
		struct series s = {.v = v, .n = RUNS};
		for (int i = 0; i < RUNS; i++)
			v[i] = 1e8 + make(i, noise(&seed));
		growth_judge(&s, rough ? GROWTH_NOISE : 0);
		n += s.verdict == what;
	}
	return n;
}

static double flat(int i, double x)
{
	(void)i, (void)x;
	return 0;
}
static double wavers(int i, double x)
{
	(void)i;
	return 400e3 * x;
}
static double fills(int i, double x) /* an arena of 3 MiB in the first fifty runs */
{
	(void)x;
	return i < 50 ? 65536.0 * i : 65536.0 * 50;
}
static double fills_roughly(int i, double x)
{
	return fills(i, 0) + wavers(i, x);
}
static double steps_late(int i, double x) /* one more block, after three quarters */
{
	(void)x;
	return i < 375 ? 0 : 1 << 20;
}
static double leaks_a_byte(int i, double x)
{
	(void)x;
	return i;
}
static double leaks_now_and_then(int i, double x) /* 100 bytes every tenth run */
{
	(void)x;
	return i / 10 * 100.0;
}
static double leaks_4k(int i, double x)
{
	return 4096.0 * i + wavers(i, x);
}
static double fills_and_leaks(int i, double x)
{
	return fills(i, x) + 4096.0 * i + wavers(i, x);
}

static void sound_is_no_leak(void)
{
	CHECK_INT(verdicts(flat, false, GROWTH_NONE), TIMES);
	CHECK_INT(verdicts(wavers, true, GROWTH_LEAK), 0);
	CHECK_INT(verdicts(steps_late, false, GROWTH_FLAT), TIMES);
}

static void an_arena_is_no_leak(void)
{
	CHECK_INT(verdicts(fills, false, GROWTH_FLAT), TIMES);
	CHECK_INT(verdicts(fills_roughly, true, GROWTH_FLAT), TIMES);
}

static void a_leak_is_found(void)
{
	CHECK_INT(verdicts(leaks_a_byte, false, GROWTH_LEAK), TIMES);
	CHECK_INT(verdicts(leaks_now_and_then, false, GROWTH_LEAK), TIMES);
	CHECK_INT(verdicts(leaks_4k, true, GROWTH_LEAK), TIMES);
	CHECK_INT(verdicts(fills_and_leaks, true, GROWTH_LEAK), TIMES);
}

/* 200 bytes a session: what the driver of a GPU keeps for itself, and no more. */
static void a_driver_may_keep_a_little(void)
{
	double v[60];
	struct series s = {.v = v, .n = 60};

	for (int i = 0; i < 60; i++)
		v[i] = 200.0 * i;
	growth_judge(&s, GROWTH_DRIVER);
	CHECK_INT(s.verdict, GROWTH_NONE);
	for (int i = 0; i < 60; i++)
		v[i] = 78000.0 * i;
	growth_judge(&s, GROWTH_DRIVER);
	CHECK_INT(s.verdict, GROWTH_LEAK);
}

/* A sweep of shapes: malloc's own store of freed blocks fills by and by; 64 bytes a run leak all the same. */
static void plans_that_come_and_go_are_no_leak(void)
{
	double v[31];
	struct series s = {.v = v, .n = 31};

	for (int i = 0; i < 31; i++)
		v[i] = 14000.0 * (1 - 1.0 / (1 + 0.3 * i));
	growth_judge(&s, GROWTH_HEAP);
	CHECK(s.verdict != GROWTH_LEAK);
	for (int i = 0; i < 31; i++)
		v[i] = 64.0 * 64 * i;
	growth_judge(&s, GROWTH_HEAP);
	CHECK_INT(s.verdict, GROWTH_LEAK);
}

static void few_readings_say_nothing(void)
{
	double v[] = {1, 2, 3, 4, 5};
	struct series s = {.v = v, .n = 5, .verdict = GROWTH_LEAK};

	growth_judge(&s, 0);
	CHECK_INT(s.verdict, GROWTH_NONE);
}

int main(void)
{
	UNIT(sound_is_no_leak);
	UNIT(an_arena_is_no_leak);
	UNIT(a_leak_is_found);
	UNIT(a_driver_may_keep_a_little);
	UNIT(plans_that_come_and_go_are_no_leak);
	UNIT(few_readings_say_nothing);
	return unit_end();
}
