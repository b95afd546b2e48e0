/* SPDX-License-Identifier: Apache-2.0 */
/* Which libraries stand on the stack. */
#include "gpu/inject/inject.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <string.h>

enum { FRAMES = 48, NAMES = 4 };

/* An address of this library. */
static char own_marker;

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The driver, CUPTI and this library say nothing about the caller. */
static bool is_plumbing(const char *name, const void *base, const void *own)
{
	static const char *const plumbing[] = {"libcuda.so", "libcupti.so", "libcudadebugger",
					       "libnvidia-ptxjit"};

	if (base == own)
		return true;
	for (size_t i = 0; i < sizeof(plumbing) / sizeof(*plumbing); i++)
		if (strncmp(name, plumbing[i], strlen(plumbing[i])) == 0)
			return true;
	return false;
}

static void add_function(char *text, size_t room, const Dl_info *at, const void *frame)
{
	size_t n = strlen(text);

	if (at->dli_sname && strncmp(at->dli_sname, "_init", 5) != 0 && n + 16 < room)
		snprintf(text + n, room - n, "(%.80s+0x%lx)", at->dli_sname,
			 (unsigned long)((const char *)frame - (const char *)at->dli_saddr));
}

const char *caller_name(char *text, size_t room)
{
	void *frame[FRAMES];
	Dl_info own = {0};
	const void *last = NULL;
	int n = backtrace(frame, FRAMES), names = 0;

	text[0] = '\0';
	dladdr(&own_marker, &own);
	for (int i = 0; i < n && names < NAMES; i++) {
		Dl_info at;
		if (!dladdr(frame[i], &at) || !at.dli_fname || at.dli_fbase == last)
			continue;
		const char *name = base_name(at.dli_fname);
		if (is_plumbing(name, at.dli_fbase, own.dli_fbase))
			continue;
		last = at.dli_fbase;
		size_t used = strlen(text);
		if (strstr(text, name) || strcmp(name, "libc.so.6") == 0)
			continue;
		if (used + strlen(name) + 8 >= room)
			break;
		snprintf(text + used, room - used, "%s%s", names ? " < " : "", name);
		if (!names)
			add_function(text, room, &at, frame[i]);
		names++;
	}
	return text;
}
