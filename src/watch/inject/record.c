/* SPDX-License-Identifier: Apache-2.0 */
/* Events to PID.log, counters in PID.mem. */
#include "watch/inject/inject.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One watched process: this library's own state, made once when the driver loads it. */
static struct {
	int log;
	dev_t device; /* of the log's file, whose number may be another file's by now */
	ino_t inode;
	char path[4096];
	struct watch_shared *shared;
	uint64_t start, written;
} to = {.log = -1};

/* A program may make contexts and streams without end: their lines stop here, those of findings at twice it. */
enum { LOG_MOST = 4 << 20 };

/* Programs count on the lowest numbers, and close what they find there. */
static int move_up(int fd)
{
	struct rlimit limit;
	int least = 200, moved;

	if (fd < 0)
		return fd;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 400)
		least = (int)(limit.rlim_cur < 4096 ? limit.rlim_cur : 4096) - 64;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, least);
	if (moved < 0)
		return fd;
	close(fd);
	return moved;
}

static int create(const char *dir, const char *what, int k, char *path, size_t room)
{
	char number[16] = "";

	if (k)
		snprintf(number, sizeof(number), ".%d", k);
	int n = snprintf(path, room, "%s/%d%s.%s", dir, (int)getpid(), number, what);
	if (n < 0 || (size_t)n >= room) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
}

/* Both files under one number: an exec leaves those of the program before. */
static bool create_both(const char *dir, int *mem)
{
	char path[sizeof(to.path)];
	struct stat st;

	for (int k = 0; k < 10000; k++) {
		*mem = create(dir, "mem", k, path, sizeof(path));
		if (*mem >= 0 || errno != EEXIST) {
			to.log = *mem < 0 ? -1 : create(dir, "log", k, to.path, sizeof(to.path));
			break;
		}
	}
	if (to.log < 0 || fstat(to.log, &st))
		return false;
	to.device = st.st_dev;
	to.inode = st.st_ino;
	to.log = move_up(to.log);
	return true;
}

bool record_open(const char *dir)
{
	struct rlimit most;
	int mem = -1;

	/* a program that may not write files would be ended by a signal */
	if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < 2 * LOG_MOST)
		return false;
	to.start = clock_ns();
	bool made = create_both(dir, &mem);
	/* with all its blocks: where there is no room for them, writing later would end the program */
	if (made && posix_fallocate(mem, 0, sizeof(*to.shared)) == 0) {
		void *p = mmap(NULL, sizeof(*to.shared), PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
		to.shared = p == MAP_FAILED ? NULL : p;
	}
	if (mem >= 0)
		close(mem);
	if (!to.shared)
		return false;
	to.shared->pid = (int32_t)getpid();
	__atomic_store_n(&to.shared->magic, WATCH_MAGIC, __ATOMIC_RELEASE);
	return true;
}

static bool is_log(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == to.device && st.st_ino == to.inode;
}

/* The log's file: opened anew where the program closed all it found, -1 where it cannot be. */
static int log_file(void)
{
	int had = __atomic_load_n(&to.log, __ATOMIC_RELAXED), fd = had;

	if (is_log(fd))
		return fd;
	fd = move_up(open(to.path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY));
	if (fd >= 0 && !is_log(fd)) {
		close(fd);
		fd = -1;
	}
	if (fd < 0 || __atomic_compare_exchange_n(&to.log, &had, fd, false, __ATOMIC_RELAXED,
						  __ATOMIC_RELAXED))
		return fd;
	close(fd); /* another thread has opened it meanwhile */
	return had;
}

void record_forked(void)
{
	if (is_log(to.log))
		close(to.log);
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
	static const char *const vital[] = {"start", "fail", "repeats",	     "late",  "copy",
					    "fault", "end",  "context-gone", "yield", "forked"};

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
	bool room, said = false;

	l->text[l->n++] = '\n';
	room = __atomic_add_fetch(&to.written, l->n, __ATOMIC_RELAXED) <= most;
	/* one write: lines of several threads do not mix (O_APPEND) */
	if (room) {
		int fd = log_file();
		said = fd >= 0 && write(fd, l->text, l->n) == (ssize_t)l->n;
	}
	if (said)
		return;
	__atomic_fetch_sub(&to.written, l->n, __ATOMIC_RELAXED);
	if (to.shared)
		__atomic_fetch_add(&to.shared->unsaid, 1, __ATOMIC_RELAXED);
}
