/* SPDX-License-Identifier: Apache-2.0 */
/* Writes events to PID.log and keeps the counters in PID.mem; shared.h describes both files. */
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

/* The two files of this process, opened once when the driver loads this library. */
static struct {
	int log;
	/*
	 * identity of the log file, needed because the program may close descriptor `log` and get the same number for
	 * another file
	 */
	dev_t device;
	ino_t inode;
	char path[4096];
	struct watch_shared *shared;
	uint64_t start, written;
} recorder = {.log = -1};

/*
 * Bound of the log, in bytes, for a program that creates contexts and streams without end. Vital lines, which report
 * findings, may fill the log up to twice this size.
 */
enum { MAX_LOG_BYTES = 4 << 20 };

/*
 * Moves our file descriptor to a high number: programs expect the low numbers to be free, and close any descriptor
 * that has one of them.
 */
static int move_fd_up(int fd)
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

static int create_file(const char *dir, const char *what, int k, char *path, size_t room)
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

/* Creates both files with the same K (see shared.h): K is above 0 if an earlier program of this process id left files. */
static bool create_files(const char *dir, int *mem)
{
	char path[sizeof(recorder.path)];
	struct stat st;

	for (int k = 0; k < 10000; k++) {
		*mem = create_file(dir, "mem", k, path, sizeof(path));
		if (*mem >= 0 || errno != EEXIST) {
			recorder.log = *mem < 0 ? -1
						: create_file(dir, "log", k, recorder.path,
							      sizeof(recorder.path));
			break;
		}
	}
	if (recorder.log < 0 || fstat(recorder.log, &st))
		return false;
	recorder.device = st.st_dev;
	recorder.inode = st.st_ino;
	recorder.log = move_fd_up(recorder.log);
	return true;
}

bool record_open(const char *dir)
{
	struct rlimit most;
	int mem = -1;

	/* with a low limit on file size our writes would raise SIGXFSZ, which ends the program */
	if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < 2 * MAX_LOG_BYTES)
		return false;
	recorder.start = clock_ns();
	bool made = create_files(dir, &mem);
	/* reserve all disk blocks now: on a full disk a later store to the mapping would raise SIGBUS */
	if (made && posix_fallocate(mem, 0, sizeof(*recorder.shared)) == 0) {
		void *p = mmap(NULL, sizeof(*recorder.shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			       mem, 0);
		recorder.shared = p == MAP_FAILED ? NULL : p;
	}
	if (mem >= 0)
		close(mem);
	if (!recorder.shared)
		return false;
	recorder.shared->pid = (int32_t)getpid();
	__atomic_store_n(&recorder.shared->magic, WATCH_MAGIC, __ATOMIC_RELEASE);
	return true;
}

static bool is_log(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == recorder.device &&
	       st.st_ino == recorder.inode;
}

/*
 * Returns the descriptor of the log. If the program has closed the log, opens it again; returns -1 if the log cannot
 * be opened.
 */
static int open_log(void)
{
	int had = __atomic_load_n(&recorder.log, __ATOMIC_RELAXED), fd = had;

	if (is_log(fd))
		return fd;
	fd = move_fd_up(open(recorder.path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY));
	if (fd >= 0 && !is_log(fd)) {
		close(fd);
		fd = -1;
	}
	if (fd < 0 || __atomic_compare_exchange_n(&recorder.log, &had, fd, false, __ATOMIC_RELAXED,
						  __ATOMIC_RELAXED))
		return fd;
	close(fd); /* another thread has opened the log meanwhile */
	return had;
}

void record_forked(void)
{
	if (is_log(recorder.log))
		close(recorder.log);
	recorder.log = -1;
	if (recorder.shared)
		mmap(recorder.shared, sizeof(*recorder.shared), PROT_READ | PROT_WRITE,
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
	return recorder.shared;
}

static void append(struct line *l, const char *s, size_t n)
{
	size_t room = sizeof(l->text) - 2 - l->n; /* 2: the newline and the NUL */

	n = n < room ? n : room;
	memcpy(l->text + l->n, s, n);
	l->n += n;
}

static bool is_vital(const char *kind)
{
	static const char *const vital[] = {"start", "fail", "repeats",	     "late",  "copy",
					    "fault", "end",  "context-gone", "yield", "forked",
					    "dead",  "lost", "orphan"};

	for (size_t i = 0; i < sizeof(vital) / sizeof(*vital); i++)
		if (strcmp(kind, vital[i]) == 0)
			return true;
	return false;
}

void line_begin(struct line *l, const char *kind)
{
	uint64_t t = clock_ns() - recorder.start;
	int n = snprintf(l->text, sizeof(l->text), "%llu.%06llu\t%ld\t%s",
			 (unsigned long long)(t / 1000000000u),
			 (unsigned long long)(t % 1000000000u / 1000), syscall(SYS_gettid), kind);
	l->n = n > 0 ? (size_t)n : 0;
	l->vital = is_vital(kind);
}

void line_text(struct line *l, const char *key, const char *value)
{
	append(l, "\t", 1);
	append(l, key, strlen(key));
	append(l, "=", 1);
	for (const char *p = value; *p; p++) {
		if (*p == '%')
			append(l, "%25", 3);
		else if (*p == '\t')
			append(l, "%09", 3);
		else if (*p == '\n')
			append(l, "%0A", 3);
		else
			append(l, p, 1);
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
	uint64_t most = l->vital ? 2 * MAX_LOG_BYTES : MAX_LOG_BYTES;
	bool room, said = false;

	l->text[l->n++] = '\n';
	room = __atomic_add_fetch(&recorder.written, l->n, __ATOMIC_RELAXED) <= most;
	/* one write() in O_APPEND mode, so that the lines of several threads do not mix */
	if (room) {
		int fd = open_log();
		said = fd >= 0 && write(fd, l->text, l->n) == (ssize_t)l->n;
	}
	if (said)
		return;
	__atomic_fetch_sub(&recorder.written, l->n, __ATOMIC_RELAXED);
	if (recorder.shared)
		__atomic_fetch_add(&recorder.shared->unsaid, 1, __ATOMIC_RELAXED);
}
