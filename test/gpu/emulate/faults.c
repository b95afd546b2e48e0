/* SPDX-License-Identifier: Apache-2.0 */
/* faults LIBRARY [PREFIX]: whether the emulator tells what the kernels of faults.cu do, and nothing of the sound ones; only names that begin with PREFIX. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The same struct is in run.cc. */
struct emulator {
	int (*has)(const char *kernel);
	int (*launch)(const char *kernel, const unsigned *grid, const unsigned *block,
		      unsigned shared, const void *params, size_t nparams, int early);
	void (*memory)(const void *p, size_t n, int what);
};
static const struct {
	const char *kernel, *told; /* NULL: nothing */
	int early;		   /* the launch may begin before the one before it has ended */
} tests[] = {
	{"sound", NULL, 0},
	{"summed", NULL, 0},
	{"behind", "reads 4 bytes at", 0},
	{"waits", NULL, 1},
	{"waits_late", "before it has waited for the launch before", 1},
	{"waits_late", NULL, 0},
	{"askew", "no multiple", 0},
	{"unwritten", "of an allocation that nobody has written", 0},
	{"unshared", "of shared memory that nobody has written", 0},
	{"unfetched", "that a copy on its way is to write", 0},
	{"fetched", NULL, 0},
	{"fetched_early", "copy", 0},
	{"not_waited", "that a copy on its way is to write", 0},
	{"waited_alone", "of shared memory that", 0},
	{"strangers", "which is not of its mask", 0},
	{"halves", NULL, 0},
	{"slanted", "no multiple of the 16 bytes", 0},
	{"straight", NULL, 0},
	{"raced", "with no barrier between", 0},
	{"overwritten", "wrote with no barrier between", 0},
	{"parted", "have ended, 32 wait at the barrier", 0},
	{"two_barriers", "others are at that of", 0},
	{"alone", "for their warp (__shfl_xor_sync)", 0},
	{"products_tf32", NULL, 0},
	{"products_f16", NULL, 0},
	{"products_bf16", NULL, 0},
	{"products_i8", NULL, 0},
	{"products_u8", NULL, 0},
	{"products_rounded", NULL, 0},
};
enum { N = 64 };

static int said(const struct emulator *e, const char *kernel, int early, char *text, size_t room)
{
	static _Alignas(16) float x[N], y[N];
	struct {
		float *x, *y;
		int n;
	} p = {x, y, N};
	FILE *f = tmpfile();
	int old = dup(2);

	memset(y, 0x55, sizeof(y));
	e->memory(x, sizeof(x), 1);
	e->memory(x, sizeof(x), 2);
	e->memory(y, sizeof(y), 1);
	dup2(fileno(f), 2);
	int r = e->launch(kernel, (unsigned[]){1, 1, 1}, (unsigned[]){N, 1, 1}, 0, &p, sizeof(p),
			  early);
	dup2(old, 2);
	close(old);
	rewind(f);
	text[fread(text, 1, room - 1, f)] = 0;
	fclose(f);
	e->memory(x, sizeof(x), 0);
	e->memory(y, sizeof(y), 0);
	return r;
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	const struct emulator *e = library ? dlsym(library, "emulator") : NULL;
	int bad = 0;

	if (!e) {
		printf("not ok faults: %s\n", argc > 1 ? dlerror() : "usage: faults LIBRARY [PREFIX]");
		return 1;
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		char text[2000];
		if (argc > 2 && strncmp(tests[i].kernel, argv[2], strlen(argv[2])) != 0)
			continue;
		int r = said(e, tests[i].kernel, tests[i].early, text, sizeof(text));
		int ok = tests[i].told ? r && strstr(text, tests[i].told) : !r && !*text;
		printf("%sok %s\n", ok ? "" : "not ", tests[i].kernel);
		if (!ok)
			printf("# result %d: %s\n", r, text);
		bad += !ok;
	}
	return bad != 0;
}
