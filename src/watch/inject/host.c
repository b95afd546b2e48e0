/* SPDX-License-Identifier: Apache-2.0 */
/* Tells whether host memory can be read or written, so that a bad copy is reported before the driver runs it. */
#include "watch/inject/inject.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Returns the first page of the range that is not mapped, or NULL if all pages are mapped. mincore() fails if a page
 * is not mapped.
 */
static const char *first_unmapped_page(const char *from, const char *end, size_t page)
{
	enum { MAX_PAGES = 4096 };
	unsigned char in_core[MAX_PAGES];

	while (from < end) {
		size_t n = (size_t)(end - from);
		n = n < MAX_PAGES * page ? n : MAX_PAGES * page;
		if (mincore((void *)(uintptr_t)from, n, in_core) == 0) {
			from += n;
			continue;
		}
		if (n <= page)
			return from;
		/* test these pages one by one to find which one is not mapped */
		for (const char *p = from; p < from + n; p += page)
			if (mincore((void *)(uintptr_t)p, page, in_core) != 0)
				return p;
		return NULL; /* another thread mapped the page meanwhile */
	}
	return NULL;
}

/*
 * A cache of address ranges whose permissions were found good. Without it, each check would read /proc/self/maps, and
 * programs copy from the same buffers again and again.
 */
enum { MAX_GOOD_RANGES = 64 };
static struct {
	uintptr_t from, end;
	bool write;
} good[MAX_GOOD_RANGES];
static unsigned next_good;
static int good_lock;

static bool is_known_good(uintptr_t from, uintptr_t end, bool write)
{
	bool found = false;

	if (!lock_try(&good_lock))
		return false;
	for (unsigned i = 0; i < MAX_GOOD_RANGES && !found; i++)
		found = good[i].from <= from && end <= good[i].end && (good[i].write || !write);
	lock_give(&good_lock);
	return found;
}

static void remember_good(uintptr_t from, uintptr_t end, bool write)
{
	if (!lock_try(&good_lock))
		return;
	good[next_good % MAX_GOOD_RANGES].from = from;
	good[next_good % MAX_GOOD_RANGES].end = end;
	good[next_good++ % MAX_GOOD_RANGES].write = write;
	lock_give(&good_lock);
}

/*
 * Returns the first address of the range that cannot be read (written if `write` is set), or `end` if there is no
 * such address.
 */
static uintptr_t first_forbidden(uintptr_t from, uintptr_t end, bool write)
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
			break; /* an unmapped hole, which first_unmapped_page() reports */
		if (mode[0] != 'r' || (write && mode[1] != 'w')) {
			fclose(f);
			return at;
		}
		remember_good((uintptr_t)a, (uintptr_t)b, mode[1] == 'w');
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
	const char *bad = first_unmapped_page(first, end, page);
	if (bad) {
		snprintf(text, room,
			 "%zu of its %zu bytes can be reached; the page at %p is not mapped",
			 bad > start ? (size_t)(bad - start) : 0, bytes, (const void *)bad);
		return text;
	}
	if (is_known_good((uintptr_t)start, (uintptr_t)end, write))
		return NULL;
	uintptr_t at = first_forbidden((uintptr_t)start, (uintptr_t)end, write);
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
