/* SPDX-License-Identifier: Apache-2.0 */
/* Events to PID.log, counters in PID.mem. */
#include "gpu/inject/inject.h"

#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One watched process: this library's own state, made once when the driver loads it. */
static struct {
	int log;
	struct watch_shared *shared;
	uint64_t start, written;
} to = {.log = -1};

/* A program may make contexts and streams without end: their lines stop here, those of findings at twice it. */
enum { LOG_MOST = 4 << 20 };

static int create(const char *dir, const char *what)
{
	char path[4096];
	int n = snprintf(path, sizeof(path), "%s/%d.%s", dir, (int)getpid(), what);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -1;
	return open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

bool record_open(const char *dir)
{
	int mem = create(dir, "mem");

	to.start = clock_ns();
	to.log = create(dir, "log");
	if (mem < 0 || to.log < 0)
		return false;
	if (ftruncate(mem, sizeof(*to.shared)) == 0) {
		void *p = mmap(NULL, sizeof(*to.shared), PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
		to.shared = p == MAP_FAILED ? NULL : p;
	}
	close(mem);
	if (!to.shared)
		return false;
	to.shared->pid = (int32_t)getpid();
	__atomic_store_n(&to.shared->magic, WATCH_MAGIC, __ATOMIC_RELEASE);
	return true;
}

void record_forked(void)
{
	to.log = -1;
	if (to.shared)
		mmap(to.shared, sizeof(*to.shared), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void record_close(void)
{
	struct line l;

	line_begin(&l, "end");
	line_end(&l);
}

struct watch_shared *record_shared(void)
{
	return to.shared;
}

static void add(struct line *l, const char *s, size_t n)
{
	size_t room = sizeof(l->text) - 2 - l->n; /* the newline and the NUL */

	n = n < room ? n : room;
	memcpy(l->text + l->n, s, n);
	l->n += n;
}

static bool is_vital(const char *kind)
{
	static const char *const vital[] = {"start", "fail", "repeats",	     "late", "copy",
					    "fault", "end",  "context-gone", "yield"};

	for (size_t i = 0; i < sizeof(vital) / sizeof(*vital); i++)
		if (strcmp(kind, vital[i]) == 0)
			return true;
	return false;
}

void line_begin(struct line *l, const char *kind)
{
	uint64_t t = clock_ns() - to.start;
	int n = snprintf(l->text, sizeof(l->text), "%llu.%06llu\t%ld\t%s",
			 (unsigned long long)(t / 1000000000u),
			 (unsigned long long)(t % 1000000000u / 1000), syscall(SYS_gettid), kind);
	l->n = n > 0 ? (size_t)n : 0;
	l->vital = is_vital(kind);
}

void line_text(struct line *l, const char *key, const char *value)
{
	add(l, "\t", 1);
	add(l, key, strlen(key));
	add(l, "=", 1);
	for (const char *p = value; *p; p++) {
		if (*p == '%')
			add(l, "%25", 3);
		else if (*p == '\t')
			add(l, "%09", 3);
		else if (*p == '\n')
			add(l, "%0A", 3);
		else
			add(l, p, 1);
	}
}

void line_number(struct line *l, const char *key, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	line_text(l, key, text);
}

void line_handle(struct line *l, const char *key, const void *value)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)(uintptr_t)value);
	line_text(l, key, text);
}

void line_end(struct line *l)
{
	uint64_t most = l->vital ? 2 * LOG_MOST : LOG_MOST;

	l->text[l->n++] = '\n';
	if (__atomic_add_fetch(&to.written, l->n, __ATOMIC_RELAXED) > most) {
		__atomic_fetch_sub(&to.written, l->n, __ATOMIC_RELAXED);
		if (to.shared)
			__atomic_fetch_add(&to.shared->unsaid, 1, __ATOMIC_RELAXED);
		return;
	}
	/* one write: lines of several threads do not mix (O_APPEND) */
	if (to.log >= 0 && write(to.log, l->text, l->n) < 0)
		to.log = -1;
}
