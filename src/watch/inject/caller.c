/* SPDX-License-Identifier: Apache-2.0 */
/* Names the libraries on the call stack, so that an event can say which library made a CUDA call. */
#include "watch/inject/inject.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FRAMES = 48, MAX_NAMES = 4 };

/* dladdr() of this variable gives the base address of this library. */
static char own_marker;

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Returns true for the driver, CUPTI and this library, which are on every stack and so do not tell callers apart. */
static bool is_internal_library(const char *name, const void *base, const void *own)
{
	static const char *const internal[] = {"libcuda.so", "libcupti.so", "libcudadebugger",
					       "libnvidia-ptxjit"};

	if (base == own)
		return true;
	for (size_t i = 0; i < sizeof(internal) / sizeof(*internal); i++)
		if (strncmp(name, internal[i], strlen(internal[i])) == 0)
			return true;
	return false;
}

/*
 * Writes an event with the path of a library that a "by" text names. The watcher opens the library's file to look up
 * functions that the library does not export.
 */
static void write_module(const Dl_info *at, struct line *l)
{
	char path[1024];
	ssize_t n = 0;

	/* for the program itself dladdr() gives argv[0], which need not be a path */
	if (at->dli_fname[0] != '/')
		n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	line_begin(l, "module");
	line_text(l, "name", base_name(at->dli_fname));
	line_text(l, "path", *path ? path : at->dli_fname);
	line_end(l);
}

/* Writes that event only once for each library. */
static void write_module_once(const Dl_info *at)
{
	static struct table written = {.most = 1024};
	struct entry e;
	struct line l;

	if (!table_get(&written, handle_of(at->dli_fbase), &e) &&
	    table_new(&written, handle_of(at->dli_fbase), 1, 0, 0))
		write_module(at, &l);
}

/*
 * Appends the name of the function that holds the frame, or the frame's offset in the library if the function is not
 * exported. `now` is the line to use in a signal handler, and NULL elsewhere.
 */
static void add_function(char *text, size_t room, const Dl_info *at, const void *frame,
			 struct line *now)
{
	size_t n = strlen(text);
	const char *base = at->dli_fbase;

	if (n + 16 >= room)
		return;
	if (at->dli_sname && strncmp(at->dli_sname, "_init", 5) != 0)
		snprintf(text + n, room - n, "(%.80s+0x%lx)", at->dli_sname,
			 (unsigned long)((const char *)frame - (const char *)at->dli_saddr));
	else {
		snprintf(text + n, room - n, "(+0x%lx)", (unsigned long)((const char *)frame - base));
		if (now)
			write_module(at, now);
		else
			write_module_once(at);
	}
}

/*
 * Writes "lib1(function+0x12) < lib2 < lib3" for the frames, innermost first. In a signal handler `now` is a static
 * line to write events with, because the handler's stack may be too small for one; elsewhere it is NULL.
 */
static void format_frames(void *const *frame, int n, char *text, size_t room, struct line *now)
{
	Dl_info own = {0};
	const void *last = NULL;
	int names = 0;

	text[0] = '\0';
	dladdr(&own_marker, &own);
	for (int i = 0; i < n && names < MAX_NAMES; i++) {
		Dl_info at;
		if (!dladdr(frame[i], &at) || !at.dli_fname || at.dli_fbase == last)
			continue;
		const char *name = base_name(at.dli_fname);
		if (is_internal_library(name, at.dli_fbase, own.dli_fbase))
			continue;
		last = at.dli_fbase;
		size_t used = strlen(text);
		if (strstr(text, name) || strcmp(name, "libc.so.6") == 0)
			continue;
		if (used + strlen(name) + 8 >= room)
			break;
		snprintf(text + used, room - used, "%s%s", names ? " < " : "", name);
		if (!names)
			add_function(text, room, &at, frame[i], now);
		names++;
	}
}

/* Results are cached by a hash of the stack: looking up the names takes longer than walking the stack. */
const char *caller_name(char *text, size_t room)
{
	static struct table seen = {.most = 1 << 14};
	void *frame[MAX_FRAMES];
	uint64_t hash = 3;
	struct entry e;
	int n = backtrace(frame, MAX_FRAMES);

	for (int i = 0; i < n; i++)
		hash = hash_mix(hash, handle_of(frame[i]));
	if (table_get(&seen, hash | 1, &e)) {
		snprintf(text, room, "%s", (const char *)pointer_of(e.a));
		return text;
	}
	format_frames(frame, n, text, room, NULL);
	const char *kept = text_keep(text);
	if (*kept)
		table_put(&seen, hash | 1, handle_of(kept), 0, 0);
	return text;
}

/* The line for events of signal handlers, which call the functions below from one thread at a time. */
static struct line now_line;

const char *caller_name_now(char *text, size_t room)
{
	/* static, because the stack of a signal handler may be small */
	static void *frame[MAX_FRAMES];

	format_frames(frame, backtrace(frame, MAX_FRAMES), text, room, &now_line);
	return text;
}

const char *caller_name_place(const void *place, char *text, size_t room)
{
	void *frame = (void *)(uintptr_t)place;

	format_frames(&frame, 1, text, room, &now_line);
	return text;
}

size_t caller_library(const char *by, const char **name)
{
	size_t n = 0;

	for (const char *p = by; *p; p += n) {
		p += strspn(p, " <");
		n = strcspn(p, " (");
		*name = p;
		/* skip the function name, if the text has one, to reach the next library */
		const char *next = strstr(p, " < ");
		if (strncmp(p, "libcudart", 9) != 0 || !next)
			return n;
		n = (size_t)(next - p);
	}
	*name = by;
	return 0;
}

static bool has_library(const char *by, const char *name, size_t n)
{
	for (const char *p = by; (p = strstr(p, name)); p++)
		if ((p == by || p[-1] == ' ') && (!p[n] || p[n] == ' ' || p[n] == '('))
			return true;
	return false;
}

bool caller_same(const char *by, const char *other)
{
	char a[WATCH_BY], b[WATCH_BY];
	const char *at;
	size_t n = caller_library(by, &at);

	snprintf(a, sizeof(a), "%.*s", (int)n, at);
	n = caller_library(other, &at);
	snprintf(b, sizeof(b), "%.*s", (int)n, at);
	return !*a || !*b || has_library(other, a, strlen(a)) || has_library(by, b, strlen(b));
}
