/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static int file_fail(const char *path, const char *what, enum code code, struct diag *d)
{
	int err = errno;

	return FAIL(d, code, .message = fmt(d, "%s: %s: %s", path, what, strerror(err)));
}

static int file_fail_text(const char *path, const char *text, enum code code, struct diag *d)
{
	return FAIL(d, code, .message = fmt(d, "%s: %s", path, text));
}

/* ---- reading */

enum { FIRST_READ = 1 << 20 };

/* Returns the default limit for the bytes that are read from a stream: half of the RAM. */
static size_t most_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	return pages > 0 && page > 0 ? (size_t)pages / 2 * (size_t)page : SIZE_MAX;
}

static int refuse_endless(const char *path, const char *what, size_t n, enum code code, struct diag *d)
{
	return FAIL(d, code, .message = fmt(d, "%s does not end", path),
		    .expected = "a file that ends", .actual = fmt(d, "%s after %zu bytes", what, n));
}

/* ---- where files are mapped, for a signal handler */

/* Any thread may map a file, and a handler looks in the middle of that: a row counts only while its size is set. */
enum { MAX_KNOWN = 256 };
static struct known {
	_Atomic(uintptr_t) start;
	_Atomic size_t size;
	_Atomic int code;
	_Atomic bool lean;
	_Atomic size_t passed; /* of a lean mapping: where its reader was when bytes were given back last */
} known[MAX_KNOWN];
static _Atomic size_t nlean; /* rows that are lean */

static void know_mapping(const struct file_map *m, enum code code)
{
	for (size_t i = 0; i < MAX_KNOWN; i++) {
		uintptr_t none = 0;
		if (!atomic_compare_exchange_strong(&known[i].start, &none, (uintptr_t)m->data))
			continue;
		atomic_store(&known[i].code, (int)code);
		atomic_store(&known[i].size, m->size);
		return;
	}
}

static void forget_mapping(const struct file_map *m)
{
	for (size_t i = 0; i < MAX_KNOWN; i++) {
		if (atomic_load(&known[i].start) != (uintptr_t)m->data)
			continue;
		if (atomic_exchange(&known[i].lean, false))
			nlean--;
		atomic_store(&known[i].passed, 0);
		atomic_store(&known[i].size, 0);
		atomic_store(&known[i].start, 0);
		return;
	}
}

static struct known *known_at(const void *address)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < MAX_KNOWN; i++) {
		size_t size = atomic_load(&known[i].size);
		uintptr_t start = atomic_load(&known[i].start);
		/* the last page counts as a whole: vector code may read behind the file's end */
		if (size && (uintptr_t)address - start < (size + page - 1) / page * page)
			return &known[i];
	}
	return NULL;
}

enum code file_mapped_at(const void *address)
{
	const struct known *k = known_at(address);

	return k ? (enum code)atomic_load(&k->code) : E_OK;
}

/*
 * Linux maps a whole folio of the page cache at a fault, up to 2 MiB of the file, aligned there. So what a reader of some bytes has
 * brought in begins and ends at such borders.
 */
enum { MAX_FOLIO = 2 << 20 };

/* Gives back n bytes at p, with the rest of the folios that they begin and end in. */
static void release_lean(const struct known *k, const void *p, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = atomic_load(&k->size);
	uintptr_t start = atomic_load(&k->start);
	size_t from = ((uintptr_t)p - start) / MAX_FOLIO * MAX_FOLIO;
	size_t to = ((uintptr_t)p - start + n + MAX_FOLIO - 1) / MAX_FOLIO * MAX_FOLIO;

	to = to < size ? to : (size + page - 1) / page * page;
	if (from < to)
		(void)madvise((void *)(start + from), to - from, MADV_DONTNEED);
}

/*
 * Notes that a reader has come to the end of n bytes at p. What it has passed over is given back in steps, as each call of the
 * system has its price; a reader that begins anew is noticed by its going back.
 */
static void pass_lean(struct known *k, const void *p, size_t n)
{
	size_t at = (uintptr_t)p - atomic_load(&k->start), end = at + n,
	       last = atomic_load(&k->passed);

	if (n < MAX_FOLIO / 4 && end >= last && end - last < MAX_FOLIO / 2)
		return;
	atomic_store(&k->passed, end);
	at = end >= last && last < at ? last : at;
	at = at / MAX_FOLIO * MAX_FOLIO;
	end -= end % (size_t)sysconf(_SC_PAGESIZE);
	if (at < end)
		(void)madvise((void *)(atomic_load(&k->start) + at), end - at, MADV_DONTNEED);
}

void file_release(const void *p, size_t n)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)p;
	struct known *k = n ? known_at(p) : NULL;

	if (!k || known_at((const char *)p + n - 1) != k)
		return;
	if (atomic_load(&k->lean) && n < MAX_FOLIO / 4) {
		pass_lean(k, p, n);
		return;
	}
	if (atomic_load(&k->lean)) {
		release_lean(k, p, n);
		return;
	}
	/* The last page is kept, because the next bytes of the file may be read next; they give it back. */
	uintptr_t to = (from + n) / page * page;
	from = from / page * page;
	if (from < to)
		(void)madvise((void *)from, to - from, MADV_DONTNEED);
}

void file_map_lean(const struct file_map *m)
{
	struct known *k = m->mapped ? known_at(m->data) : NULL;

	if (!k || atomic_exchange(&k->lean, true))
		return;
	nlean++;
	(void)madvise((void *)(uintptr_t)m->data, m->size, MADV_NOHUGEPAGE);
}

void file_pass(const void *p, size_t n)
{
	enum { WORTH_A_LOOK = 1024 };
	struct known *k = nlean && n >= WORTH_A_LOOK ? known_at(p) : NULL;

	if (k && atomic_load(&k->lean))
		pass_lean(k, p, n);
}

/* ---- a file without a name */

static int open_unnamed(void)
{
	const char *dir = getenv("TMPDIR");
	char path[PATH_MAX];
	int fd = -1;

	dir = dir && *dir ? dir : "/var/tmp";
#ifdef O_TMPFILE
	fd = open(dir, O_RDWR | O_TMPFILE | O_CLOEXEC | O_EXCL, 0600);
#endif
	if (fd < 0 && snprintf(path, sizeof(path), "%s/infer-XXXXXX", dir) < (int)sizeof(path)) {
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	}
	return fd;
}

bool file_spill_open(struct file_spill *s, size_t most)
{
	void *p = MAP_FAILED;

	*s = (struct file_spill){.fd = most > SIZE_MAX / 4 ? -1 : open_unnamed()};
	if (s->fd >= 0 && most && ftruncate(s->fd, (off_t)most) == 0)
		p = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (p == MAP_FAILED) {
		if (s->fd >= 0)
			close(s->fd);
		return false;
	}
	s->map = (struct file_map){p, most, true};
	know_mapping(&s->map, E_OUTPUT);
	file_map_lean(&s->map);
	return true;
}

void *file_spill_room(struct file_spill *s, size_t n)
{
	enum { STEP = 4 << 20 };
	size_t end, step;

	if (__builtin_add_overflow(s->used, n, &end) || end > s->map.size)
		return NULL;
	if (end > s->ready) {
		/* a write through the mapping must not find the disk full */
		step = end - s->ready > STEP ? end - s->ready : STEP;
		step = step < s->map.size - s->ready ? step : s->map.size - s->ready;
		if (posix_fallocate(s->fd, (off_t)s->ready, (off_t)step) != 0)
			return NULL;
		s->ready += step;
	}
	return (char *)(uintptr_t)s->map.data + s->used;
}

void file_spill_take(struct file_spill *s, size_t n)
{
	const unsigned char *p = s->map.data + s->used;
	size_t end = (s->used + n + 15) & ~(size_t)15;

	s->used = end < s->map.size ? end : s->map.size;
	file_pass(p, n);
}

void file_spill_done(struct file_spill *s, struct file_map *out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), keep = (s->used + page - 1) / page * page;
	struct file_map whole = s->map;

	forget_mapping(&whole);
	if (keep < whole.size)
		munmap((void *)(uintptr_t)(whole.data + keep), whole.size - keep);
	*out = (struct file_map){whole.data, s->used, true};
	(void)!ftruncate(s->fd, (off_t)s->used);
	(void)mprotect((void *)(uintptr_t)out->data, keep, PROT_READ);
	know_mapping(out, E_MODEL_OPEN);
	file_map_lean(out);
	close(s->fd);
	*s = (struct file_spill){.fd = -1};
}

void file_spill_close(struct file_spill *s)
{
	if (s->map.size)
		file_unmap(&s->map);
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct file_spill){.fd = -1};
}

/* ---- streams */

/* How long we wait for another program to open the other end of a pipe that has a name. */
enum { PARTNER_MS = 1000, LOOK_MS = 5 };

/* Returns true for a pipe in a folder. Unlike the pipes of a shell it may have nobody at its other end yet. */
static bool is_named_pipe(int fd)
{
	enum { PIPEFS = 0x50495045 };
	struct stat st;
	struct statfs fs;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && fstatfs(fd, &fs) == 0 &&
	       fs.f_type != PIPEFS;
}

/*
 * Reads the next bytes of a stream. A stream without O_NONBLOCK waits in read(). With it, pipes and
 * standard input wait here, a pipe with a name only until `patience` (in milliseconds) is used up
 * while no program has it open to write; then errno is ENXIO.
 */
static ssize_t read_some(int fd, void *p, size_t n, int *patience)
{
	struct stat st;

	for (;;) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		ssize_t got = read(fd, p, n);
		if (got > 0)
			*patience = 0;
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN &&
		    (fd == STDIN_FILENO || (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode)))) {
			*patience = 0;
			poll(&ready, 1, -1);
			continue;
		}
		if (got != 0 || !*patience)
			return got;
		/* the end: the pipe's last writer has gone, or none has come */
		if (poll(&ready, 1, LOOK_MS) > 0 && (ready.revents & POLLHUP)) {
			*patience = 0;
			continue;
		}
		*patience -= *patience < LOOK_MS ? *patience : LOOK_MS;
		if (!*patience) {
			errno = ENXIO;
			return -1;
		}
	}
}

/*
 * Returns true for a character device other than a terminal: /dev/null is empty, and /dev/zero
 * never ends.
 */
static bool is_endless(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && !isatty(fd);
}

/*
 * Creates or grows a mapping. Unlike a heap block, a mapping takes memory only for pages that have
 * been written, and it moves without a copy. store: descriptor of the memfd to map, or -1 for an
 * anonymous mapping.
 */
static unsigned char *grow_map(int store, unsigned char *p, size_t old, size_t size)
{
	int flags = store < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *q;

	if (store >= 0 && ftruncate(store, (off_t)size) != 0)
		return NULL;
	q = p ? mremap(p, old, size, MREMAP_MAYMOVE)
	      : mmap(NULL, size, PROT_READ | PROT_WRITE, flags, store, 0);
	return q == MAP_FAILED ? NULL : q;
}

static int read_all(int fd, int store, const char *path, size_t most, struct file_map *m,
		    enum code code, struct diag *d)
{
	unsigned char *p = NULL;
	size_t cap = 0, n = 0;
	bool endless = is_endless(fd);
	int patience = is_named_pipe(fd) ? PARTNER_MS : 0;

	most = most ? most : most_memory();
	for (;;) {
		if (n > most || (n && endless)) {
			munmap(p, cap);
			return refuse_endless(path,
					      endless ? "a device that still gives more" : "more",
					      n, code, d);
		}
		if (n == cap) {
			size_t bigger = cap ? cap * 2 : FIRST_READ;
			unsigned char *q = bigger > cap ? grow_map(store, p, cap, bigger) : NULL;
			if (!q) {
				if (p)
					munmap(p, cap);
				return FAIL(d, E_MEMORY,
					    .message = fmt(d, "no memory to read %s", path));
			}
			p = q;
			cap = bigger;
		}
		ssize_t got = read_some(fd, p + n, cap - n, &patience);
		if (got < 0) {
			int rc = errno == ENXIO
					 ? file_fail_text(path, "no program writes to this pipe",
							  code, d)
				 : errno == EAGAIN
					 ? file_fail_text(path, "a device that has nothing to read",
							  code, d)
					 : file_fail(path, "cannot read", code, d);
			munmap(p, cap);
			return rc;
		}
		if (got == 0)
			break;
		n += (size_t)got;
	}
	*m = (struct file_map){.data = n ? p : (const unsigned char *)"", .size = n};
	if (n)
		mem_note(MEM_HOST, MEM_STAGING, (int64_t)n);
	size_t page = (size_t)sysconf(_SC_PAGESIZE), keep = (n + page - 1) / page * page;
	if (keep < cap)
		munmap(p + keep, cap - keep);
	return store < 0 || ftruncate(store, (off_t)n) == 0
		       ? 0
		       : file_fail(path, "cannot read", code, d);
}

/*
 * Returns the descriptor by which a shell has handed us the pipe that was opened as `fd`: 63 for /dev/fd/63, which is what <(COMMAND)
 * stands for, or 0 for /dev/stdin. -1: there is none, because the pipe has a name.
 */
static int inherited_pipe(int fd)
{
	enum { MAX_DESCRIPTORS = 1024 };
	struct stat st, other;

	if (fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode))
		return -1;
	for (int i = 0; i < MAX_DESCRIPTORS; i++)
		if (i != fd && fstat(i, &other) == 0 && other.st_dev == st.st_dev &&
		    other.st_ino == st.st_ino && (fcntl(i, F_GETFL) & O_ACCMODE) == O_RDONLY)
			return i;
	return -1;
}

/*
 * Reads a stream to its end. Standard input, or a pipe that a shell has handed us, is then replaced by an unnamed file (memfd)
 * with the same content, at its beginning, so that it can be read again: by this process (a command may read a model twice),
 * or by a child process that repeats the run. Of a pipe the second reader would find nothing, which is a valid, empty model.
 */
static int read_stream(int fd, const char *path, size_t most, struct file_map *m, enum code code,
		       struct diag *d)
{
	int from = fd == STDIN_FILENO ? fd : inherited_pipe(fd);
	int store = from >= 0 ? memfd_create("infer-stdin", MFD_CLOEXEC) : -1;
	int rc = read_all(fd, store, path, most, m, code, d);

	if (store >= 0) {
		if (!rc)
			dup2(store, from);
		close(store);
	}
	return rc;
}

static int map_fd(int fd, const char *path, size_t most, struct file_map *m, enum code code,
		  struct diag *d)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return file_fail(path, "cannot read", code, d);
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return file_fail(path, "cannot read", code, d);
	}
	/* Files in /proc report 0 bytes though they have content, so a file of 0 bytes is read and not mapped. */
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return read_stream(fd, path, most, m, code, d);
	void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return file_fail(path, "cannot map", code, d);
	*m = (struct file_map){.data = p, .size = (size_t)st.st_size, .mapped = true};
	know_mapping(m, code);
	return 0;
}

int file_map(const char *path, struct file_map *m, enum code code, struct diag *d)
{
	return file_map_most(path, 0, m, code, d);
}

int file_map_most(const char *path, size_t most, struct file_map *m, enum code code, struct diag *d)
{
	*m = (struct file_map){0};
	if (strcmp(path, "-") == 0)
		return read_stream(STDIN_FILENO, "standard input", most, m, code, d);
	if (!*path)
		return FAIL(d, code, .message = "an empty name is no file");
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return file_fail(path, "cannot open", code, d);
	int rc = map_fd(fd, path, most, m, code, d);
	close(fd);
	return rc;
}

/* Opens a path part by part, for kernels without openat2(). */
static int open_parts(int dir, const char *path, int flags)
{
	char part[NAME_MAX + 1];
	int at = dir, fd = -1;

	for (;;) {
		size_t n = strcspn(path, "/");
		bool last = !path[n + strspn(path + n, "/")];
		if (n > NAME_MAX) {
			errno = ENAMETOOLONG;
			break;
		}
		snprintf(part, sizeof(part), "%.*s", (int)n, path);
		if (!strcmp(part, "..")) {
			errno = EXDEV;
			break;
		}
		fd = openat(at, part,
			    last ? flags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (at != dir)
			close(at);
		if (fd < 0 || last)
			return fd;
		at = fd;
		path += n + strspn(path + n, "/");
	}
	if (at != dir)
		close(at);
	return -1;
}

static int open_beneath(int dir, const char *path)
{
	enum { TRIES = 16 };
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = -1;

	for (int i = 0; i < TRIES; i++) {
		fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN) /* EAGAIN: something was renamed meanwhile */
			break;
	}
	/* EPERM: filters of system calls that are older than this one refuse it so */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return open_parts(dir, path, (int)how.flags);
	return (int)fd;
}

int file_map_beneath(int dir, const char *path, const char *shown, struct file_map *m,
		     enum code code, struct diag *d)
{
	struct stat st;
	int fd = open_beneath(dir, path), rc;

	*m = (struct file_map){0};
	if (fd < 0)
		return file_fail(shown, "cannot open", code, d);
	if (fstat(fd, &st) != 0)
		rc = file_fail(shown, "cannot read", code, d);
	else if (!S_ISREG(st.st_mode))
		rc = file_fail_text(shown, "no regular file", code, d);
	else
		rc = map_fd(fd, shown, 0, m, code, d);
	close(fd);
	return rc;
}

void file_unmap(struct file_map *m)
{
	if (m->mapped)
		forget_mapping(m);
	if (m->size)
		munmap((void *)(uintptr_t)m->data, m->size);
	if (m->size && !m->mapped)
		mem_note(MEM_HOST, MEM_STAGING, -(int64_t)m->size);
	*m = (struct file_map){0};
}

/* ---- writing */

struct file_out {
	FILE *stream;
	char *path; /* as given */
	/*
	 * path with symbolic links resolved; NULL for a device, pipe or stdout, which are written
	 * directly
	 */
	char *real;
	char *temp; /* name until file_commit(); NULL while the file has no name (O_TMPFILE) */
	enum code code;
	int error; /* the first errno */
};

static char *join3(const char *a, size_t na, const char *b, const char *c)
{
	size_t size = na + strlen(b) + strlen(c) + 1;
	char *s = mem_alloc(size, MEM_STAGING);

	if (s)
		snprintf(s, size, "%.*s%s%s", (int)na, a, b, c);
	return s;
}

static void out_free(struct file_out *f)
{
	mem_free(f->path);
	mem_free(f->real);
	mem_free(f->temp);
	mem_free(f);
}

/*
 * Finds an unused temporary name in the folder of the file: calls `use` with new names until it no
 * longer fails with EEXIST.
 */
static int try_temp_names(struct file_out *f, int (*use)(struct file_out *, int fd), int fd)
{
	const char *base = path_base(f->real);
	size_t dir = (size_t)(base - f->real);
	char tail[64];

	for (unsigned k = 0; k < 1000; k++) {
		snprintf(tail, sizeof(tail), ".infer-%ld-%u.tmp", (long)getpid(), k);
		mem_free(f->temp);
		f->temp = join3(f->real, dir, "", tail);
		if (!f->temp) {
			errno = ENOMEM;
			return -1;
		}
		int got = use(f, fd);
		if (got >= 0 || errno != EEXIST)
			return got;
	}
	return -1;
}

static int open_temp(struct file_out *f, int fd)
{
	(void)fd;
	return open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static int link_temp(struct file_out *f, int fd)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, self, AT_FDCWD, f->temp, AT_SYMLINK_FOLLOW);
}

/*
 * Opens the file to write. An unnamed file (O_TMPFILE) disappears if the program is killed. On file
 * systems that do not support unnamed files, the file gets a temporary name.
 */
static int open_beside(struct file_out *f)
{
	const char *base = path_base(f->real);
	char *dir = join3(f->real, (size_t)(base - f->real), base == f->real ? "." : "", "");
	int fd = -1;

#ifdef O_TMPFILE
	if (dir && access("/proc/self/fd", X_OK) == 0)
		fd = open(dir, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
#endif
	mem_free(dir);
	if (fd < 0)
		fd = try_temp_names(f, open_temp, -1);
	return fd;
}

/* Opens a device or a pipe. One that has a name is refused if no program opens it to read within a second. */
static int open_stream(const char *path)
{
	int patience = PARTNER_MS, fd;

	while ((fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) < 0 &&
	       errno == ENXIO && patience > 0) {
		usleep(LOOK_MS * 1000);
		patience -= LOOK_MS;
	}
	if (fd >= 0)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return fd;
}

int file_open_lines(const char *path, bool anew)
{
	struct stat st;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return open_stream(path);
	return open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (anew ? O_TRUNC : 0), 0666);
}

static int open_output(struct file_out *f)
{
	struct stat st;

	if (strcmp(f->path, "-") == 0)
		return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	bool there = stat(f->path, &st) == 0;
	if (there && S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return -1;
	}
	/*
	 * A device or a pipe is written directly, because it cannot be replaced by renaming a file.
	 */
	if (there && !S_ISREG(st.st_mode))
		return open_stream(f->path);
	if (there && access(f->path, W_OK) != 0)
		return -1;
	char *real = there ? realpath(f->path, NULL) : NULL;
	const char *target = real ? real : f->path;
	f->real = join3(target, strlen(target), "", "");
	free(real);
	if (!f->real) {
		errno = ENOMEM;
		return -1;
	}
	int fd = open_beside(f);
	if (fd >= 0 && there)
		(void)!fchmod(fd, st.st_mode & 07777);
	return fd;
}

struct file_out *file_create(const char *path, enum code code, struct diag *d)
{
	struct file_out *f = mem_zalloc(sizeof(*f), MEM_STAGING);
	int fd = -1;

	if (f) {
		f->code = code;
		f->path = join3(path, strlen(path), "", "");
	}
	if (!f || !f->path) {
		mem_free(f);
		FAIL(d, E_MEMORY, .message = "no memory to write a file");
		return NULL;
	}
	fd = open_output(f);
	f->stream = fd < 0 ? NULL : fdopen(fd, "wb");
	if (f->stream)
		return f;
	file_fail(path, "cannot write", code, d);
	if (fd >= 0) {
		close(fd);
		if (f->temp)
			unlink(f->temp);
	}
	out_free(f);
	return NULL;
}

void file_write(struct file_out *f, const void *p, size_t n)
{
	if (!f->error && n && fwrite(p, 1, n, f->stream) != n)
		f->error = errno ? errno : EIO;
}

/*
 * Flushes the file to disk, gives it a temporary name if it has none, and closes it. Sets f->error
 * on failure.
 */
static void flush_and_close(struct file_out *f)
{
	if (fflush(f->stream) != 0 && !f->error)
		f->error = errno;
	if (f->real && !f->error && fsync(fileno(f->stream)) != 0 && errno != EINVAL && errno != EROFS)
		f->error = errno;
	if (f->real && !f->error && !f->temp && try_temp_names(f, link_temp, fileno(f->stream)) < 0)
		f->error = errno ? errno : EIO;
	if (fclose(f->stream) != 0 && !f->error)
		f->error = errno;
	f->stream = NULL;
}

void file_reader_gone(void)
{
	sigset_t pipe;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	signal(SIGPIPE, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, &pipe, NULL);
	raise(SIGPIPE);
	_exit(128 + SIGPIPE);
}

int file_commit(struct file_out *f, struct diag *d)
{
	int rc = 0;

	flush_and_close(f);
	if (f->error == EPIPE && !strcmp(f->path, "-"))
		file_reader_gone();
	if (!f->error && f->real && rename(f->temp, f->real) != 0)
		f->error = errno;
	if (f->error) {
		if (f->temp)
			unlink(f->temp);
		errno = f->error;
		rc = file_fail(strcmp(f->path, "-") == 0 ? "standard output" : f->path,
			       "cannot write", f->code, d);
	}
	out_free(f);
	return rc;
}

void file_abort(struct file_out *f)
{
	if (!f)
		return;
	fclose(f->stream);
	if (f->temp)
		unlink(f->temp);
	out_free(f);
}

int file_make_dir(const char *path, enum code code, struct diag *d)
{
	size_t n = strlen(path);
	char *part = join3(path, n, "", "");
	int rc = 0;

	if (!part)
		return FAIL(d, E_MEMORY, .message = "no memory for a path");
	if (!n || (access(path, F_OK) == 0 && !path_is_folder(path))) {
		mem_free(part);
		return n ? file_fail_text(path, "this is no folder, and a folder is wanted here",
					  code, d)
			 : FAIL(d, code, .message = "the name of the folder is empty");
	}
	for (size_t i = 1; i <= n && !rc; i++) {
		struct stat st;
		if (part[i] != '/' && part[i] != '\0')
			continue;
		part[i] = '\0';
		if (mkdir(part, 0777) != 0 && errno != EEXIST) {
			int cause = errno;
			rc = stat(part, &st) == 0 ? 0 : -1;
			errno = cause;
		}
		part[i] = i < n ? '/' : '\0';
	}
	if (!rc && !path_is_folder(path)) {
		errno = ENOTDIR;
		rc = -1;
	}
	if (rc)
		rc = file_fail(path, "cannot make the folder", code, d);
	mem_free(part);
	return rc;
}

/* ---- paths */

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool path_is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *path_dir(struct arena *a, const char *path)
{
	size_t n = (size_t)(path_base(path) - path);

	if (n == 0)
		return ".";
	while (n > 1 && path[n - 1] == '/')
		n--;
	return arena_strn(a, path, n);
}

const char *path_join(struct arena *a, const char *dir, const char *name)
{
	size_t n = strlen(dir);

	if (n == 0 || *name == '/')
		return arena_str(a, name);
	return arena_printf(a, "%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name);
}

/* An extension that two names share makes them no more alike. */
static bool stems_are_near(struct arena *a, const char *x, const char *y)
{
	size_t n = (size_t)(path_ext(x) - x), m = (size_t)(path_ext(y) - y);
	const char *stem = arena_strn(a, y, m);

	return strcmp(path_ext(x), path_ext(y)) != 0 || str_nearest(arena_strn(a, x, n), &stem, 1);
}

const char *path_near(struct arena *a, const char *path, const char *ext)
{
	enum { MAX_LOOKED_AT = 10000 };
	size_t n = (size_t)(path_base(path) - path);
	const char *folder = n ? arena_strn(a, path, n) : "", *near = NULL;
	DIR *dir = opendir(n ? folder : ".");

	for (int k = 0; dir && k < MAX_LOOKED_AT; k++) {
		const struct dirent *e = readdir(dir);
		if (!e)
			break;
		if (e->d_name[0] == '.' || strcmp(e->d_name, path_base(path)) == 0 ||
		    (ext && strcmp(path_ext(e->d_name), ext) != 0) ||
		    !stems_are_near(a, path_base(path), e->d_name))
			continue;
		/* of names that are equally near the first in order, as folders have none */
		const char *pair[2] = {near, arena_str(a, e->d_name)};
		if (near && strcmp(pair[1], near) < 0) {
			pair[0] = pair[1];
			pair[1] = near;
		}
		const char *now = str_nearest(path_base(path), pair, 2);
		near = now ? now : near;
	}
	if (dir)
		closedir(dir);
	return near ? arena_printf(a, "%s%s", folder, near) : NULL;
}

const char *path_ext(const char *path)
{
	const char *base = path_base(path), *dot = strrchr(base, '.');

	return dot && dot != base ? dot : base + strlen(base);
}
