/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_UNIT_H
#define TEST_UNIT_H
/*
 * Unit tests. A test is a function of CHECKs; UNIT runs it and prints `ok NAME` or `not ok NAME`;
 * main returns unit_end().
 *
 *   static void adds(void) { CHECK(1 + 1 == 2); CHECK_STR(name(), "x"); }
 *   int main(void) { UNIT(adds); return unit_end(); }
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int unit_faults, unit_failed, unit_run;

__attribute__((unused)) static bool unit_check(bool ok, const char *what, const char *file, int line)
{
	if (!ok) {
		printf("# %s:%d: %s\n", file, line, what);
		unit_faults++;
	}
	return ok;
}

__attribute__((unused)) static bool unit_str(const char *got, const char *want, const char *what,
					     const char *file, int line)
{
	if (got && want ? strcmp(got, want) == 0 : got == want)
		return true;
	printf("# %s:%d: %s is \"%s\", not \"%s\"\n", file, line, what, got ? got : "(null)",
	       want ? want : "(null)");
	unit_faults++;
	return false;
}

__attribute__((unused)) static bool unit_int(long long got, long long want, const char *what,
					     const char *file, int line)
{
	if (got == want)
		return true;
	printf("# %s:%d: %s is %lld, not %lld\n", file, line, what, got, want);
	unit_faults++;
	return false;
}

#define CHECK(what)	     unit_check((what), #what, __FILE__, __LINE__)
#define CHECK_STR(got, want) unit_str((got), (want), #got, __FILE__, __LINE__)
#define CHECK_INT(got, want) unit_int((long long)(got), (long long)(want), #got, __FILE__, __LINE__)

__attribute__((unused)) static void unit_test(void (*test)(void), const char *name)
{
	unit_faults = 0;
	test();
	unit_run++;
	unit_failed += unit_faults != 0;
	printf("%s %s\n", unit_faults ? "not ok" : "ok", name);
	fflush(stdout);
}
#define UNIT(test) unit_test(test, #test)

__attribute__((unused)) static int unit_end(void)
{
	printf("1..%d\n", unit_run);
	return unit_failed != 0;
}

#endif
