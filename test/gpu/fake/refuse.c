/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before each function of the stand-in for the driver (cuda.c): whether this call is the one that fails. The names,
 * F(cuInit) and so on, are in functions.def, made by make.sh, which renames those of cuda.c to real_cuInit and so on.
 *
 *   FAKE_CUDA_CALL=K:R    the K-th call of the driver returns R and does nothing
 *   FAKE_CUDA_CALL=K+:R   it and all that come after it, as behind an error that lasts
 *   FAKE_CUDA_CALLS=FILE  a line for each call: its name and what it returned
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int planted(void)
{
	static _Atomic int calls;
	const char *s = getenv("FAKE_CUDA_CALL"), *colon = s ? strchr(s, ':') : NULL;
	long at = s ? strtol(s, NULL, 10) : 0;

	int call = ++calls;
	if (!colon || (call != at && (colon[-1] != '+' || call < at)))
		return 0;
	return (int)strtol(colon + 1, NULL, 10);
}

static int told(const char *name, int r)
{
	const char *path = getenv("FAKE_CUDA_CALLS");
	FILE *f = path ? fopen(path, "a") : NULL;

	if (f) {
		fprintf(f, "%s %d\n", name, r);
		fclose(f);
	}
	return r;
}

/* Arguments are integers and pointers: as many as any function has are handed on. */
#define F(name)                                                                                    \
	int real_##name(long, long, long, long, long, long, long, long, long, long, long);         \
	int name(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j,   \
		 long k)                                                                           \
	{                                                                                          \
		int r = planted();                                                                 \
		return told(#name, r ? r : real_##name(a, b, c, d, e, f, g, h, i, j, k));          \
	}
#include "functions.def"
