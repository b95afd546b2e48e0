/* SPDX-License-Identifier: Apache-2.0 */
/* Host ranges that a copy would read or write. */
#include "watch/inject/inject.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The first page of a range that is not mapped; NULL: all are. */
static const char *unmapped(const char *from, const char *end, size_t page)
{
	enum { PAGES = 4096 };
	unsigned char in_core[PAGES];

	while (from < end) {
		size_t n = (size_t)(end - from);
		n = n < PAGES * page ? n : PAGES * page;
		if (mincore((void *)(uintptr_t)from, n, in_core) == 0) {
			from += n;
			continue;
		}
		if (n <= page)
			return from;
		/* which of these pages it is */
		for (const char *p = from; p < from + n; p += page)
			if (mincore((void *)(uintptr_t)p, page, in_core) != 0)
				return p;
		return NULL; /* it came while we looked */
	}
	return NULL;
}

/*
 * Permissions of mapped pages. The kernel's list is read again for each range: the ranges that were found
 * good last are remembered, since programs copy from the same buffers.
 */
enum { KEPT = 64 };
static struct {
	uintptr_t from, end;
	bool write;
} good[KEPT];
static unsigned next_good;
static int good_lock;

static bool known_good(uintptr_t from, uintptr_t end, bool write)
{
	bool found = false;

	if (!lock_try(&good_lock))
		return false;
	for (unsigned i = 0; i < KEPT && !found; i++)
		found = good[i].from <= from && end <= good[i].end && (good[i].write || !write);
	lock_give(&good_lock);
	return found;
}

static void keep_good(uintptr_t from, uintptr_t end, bool write)
{
	if (!lock_try(&good_lock))
		return;
	good[next_good % KEPT].from = from;
	good[next_good % KEPT].end = end;
	good[next_good++ % KEPT].write = write;
	lock_give(&good_lock);
}

/* The first byte of the range that lacks the permission; end: none does. */
static uintptr_t forbidden(uintptr_t from, uintptr_t end, bool write)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long long a, b;
	char mode[5], line[512];
	uintptr_t at = from;

	if (!f)
		return end;
	while (at < end && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx-%llx %4s", &a, &b, mode) != 3 || b <= at)
			continue;
		if (a > at)
			break; /* a hole: it is found by unmapped() */
		if (mode[0] != 'r' || (write && mode[1] != 'w')) {
			fclose(f);
			return at;
		}
		keep_good((uintptr_t)a, (uintptr_t)b, mode[1] == 'w');
		at = (uintptr_t)b;
	}
	fclose(f);
	return end;
}

const char *host_fault(const void *p, size_t bytes, bool write, char *text, size_t room)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const char *start = p, *end = start + bytes;

	if (!bytes || end < start)
		return NULL;
	const char *first = (const char *)((uintptr_t)start & ~(uintptr_t)(page - 1));
	const char *bad = unmapped(first, end, page);
	if (bad) {
		snprintf(text, room,
			 "%zu of its %zu bytes can be reached; the page at %p is not mapped",
			 bad > start ? (size_t)(bad - start) : 0, bytes, (const void *)bad);
		return text;
	}
	if (known_good((uintptr_t)start, (uintptr_t)end, write))
		return NULL;
	uintptr_t at = forbidden((uintptr_t)start, (uintptr_t)end, write);
	if (at >= (uintptr_t)end)
		return NULL;
	snprintf(text, room, "%zu of its %zu bytes can be %s; from %p on it is protected",
		 at > (uintptr_t)start ? (size_t)(at - (uintptr_t)start) : 0, bytes,
		 write ? "written" : "read", (void *)at);
	return text;
}

bool host_readable(const void *p, size_t bytes)
{
	char why[8];

	return p && !host_fault(p, bytes, false, why, sizeof(why));
}
