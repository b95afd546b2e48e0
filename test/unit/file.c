/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/clock.h"
#include "base/dl.h"
#include "base/mem.h"
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];
static struct arena arena;

static const char *in_dir(const char *name)
{
	return path_join(&arena, dir, name);
}

static int entries(void)
{
	DIR *d = opendir(dir);
	int n = -2; /* . and .. */

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static int put(const char *path, const char *text, struct diag *d)
{
	struct file_out *f = file_create(path, E_OUTPUT, d);

	if (!f)
		return -E_OUTPUT;
	file_write(f, text, strlen(text));
	return file_commit(f, d);
}

static bool holds(const char *path, const char *text)
{
	struct file_map m;

	if (file_map(path, &m, E_INPUT_OPEN, NULL))
		return false;
	bool same = m.size == strlen(text) && memcmp(m.data, text, m.size) == 0;
	file_unmap(&m);
	return same;
}

static void what_is_written_is_read(void)
{
	const char *path = in_dir("a.txt");

	CHECK_INT(put(path, "hello", NULL), 0);
	CHECK(holds(path, "hello"));
	CHECK_INT(put(path, "again", NULL), 0);
	CHECK(holds(path, "again"));
	CHECK_INT(put(path, "", NULL), 0);
	CHECK(holds(path, ""));
	CHECK_INT(entries(), 1);
	unlink(path);
}

static void an_abort_leaves_what_was_there(void)
{
	const char *path = in_dir("a.txt");

	put(path, "old", NULL);
	struct file_out *f = file_create(path, E_OUTPUT, NULL);
	file_write(f, "new", 3);
	file_abort(f);
	file_abort(NULL);
	CHECK(holds(path, "old"));
	CHECK_INT(entries(), 1);
	unlink(path);
}

static void mode_and_links_are_kept(void)
{
	const char *path = in_dir("a.txt"), *link = in_dir("link");
	struct stat st;

	put(path, "old", NULL);
	chmod(path, 0640);
	CHECK_INT(symlink("a.txt", link), 0);
	CHECK_INT(put(link, "new", NULL), 0);
	CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
	CHECK(holds(path, "new"));
	CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640);
	unlink(link);
	unlink(path);
}

static void a_limit_on_file_size(void)
{
	int status = 0;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct rlimit limit = {4096, 4096};
		struct diag d = {0};
		static char big[100000];
		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &limit);
		memset(big, 'x', sizeof(big) - 1);
		_exit(put(in_dir("big"), big, &d) == -E_OUTPUT && d.errors == 1 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	CHECK_INT(status, 0);
	CHECK_INT(entries(), 0);
}

static void refusals_say_why(void)
{
	struct diag d = {0};
	struct file_map m;

	CHECK_INT(file_map(in_dir("none"), &m, E_MODEL_OPEN, &d), -E_MODEL_OPEN);
	CHECK(strstr(d.last->message, "none: cannot open: No such file"));
	CHECK_INT(file_map(dir, &m, E_INPUT_OPEN, &d), -E_INPUT_OPEN);
	CHECK(strstr(d.last->message, "directory"));
	CHECK(file_create(in_dir("no/folder"), E_OUTPUT, &d) == NULL);
	CHECK(file_create(dir, E_OUTPUT, &d) == NULL);
	CHECK_INT(put("/dev/full", "text", &d), -E_OUTPUT);
	CHECK(strstr(d.last->message, "/dev/full: cannot write: No space"));
	CHECK_INT(put("/dev/null", "text", &d), 0);
	diag_free(&d);
}

static void pipes_are_read_whole(void)
{
	static char block[65536];
	int fds[2];
	char path[64];
	struct file_map m;
	uint64_t before = mem_count(MEM_HOST, MEM_STAGING).live;

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		close(fds[0]);
		memset(block, 'p', sizeof(block));
		for (int i = 0; i < 50; i++)
			if (write(fds[1], block, sizeof(block)) != (ssize_t)sizeof(block))
				_exit(1);
		_exit(0);
	}
	close(fds[1]);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	CHECK_INT(file_map(path, &m, E_INPUT_OPEN, NULL), 0);
	CHECK_INT(m.size, 50 * sizeof(block));
	CHECK(!m.mapped && m.data[0] == 'p' && m.data[m.size - 1] == 'p');
	file_unmap(&m);
	close(fds[0]);
	waitpid(child, NULL, 0);
	CHECK_INT(mem_count(MEM_HOST, MEM_STAGING).live, before);
	CHECK_INT(file_map("/proc/self/status", &m, E_INPUT_OPEN, NULL), 0);
	CHECK(m.size > 100);
	file_unmap(&m);
}

static void folders_are_made(void)
{
	struct stat st;
	struct diag d = {0};

	CHECK_INT(file_make_dir(in_dir("x/y//z/"), E_OUTPUT, &d), 0);
	CHECK_INT(file_make_dir(in_dir("x/y/z"), E_OUTPUT, &d), 0);
	CHECK(stat(in_dir("x/y/z"), &st) == 0 && S_ISDIR(st.st_mode));
	put(in_dir("x/file"), "", NULL);
	CHECK_INT(file_make_dir(in_dir("x/file"), E_OUTPUT, &d), -E_OUTPUT);
	CHECK_INT(file_make_dir(in_dir("x/file/below"), E_OUTPUT, &d), -E_OUTPUT);
	CHECK_INT(d.errors, 2);
	CHECK_INT(file_make_dir("/", E_OUTPUT, &d), 0);
	unlink(in_dir("x/file"));
	rmdir(in_dir("x/y/z"));
	rmdir(in_dir("x/y"));
	rmdir(in_dir("x"));
	diag_free(&d);
}

static void paths_are_parted(void)
{
	CHECK_STR(path_dir(&arena, "a/b/c.x"), "a/b");
	CHECK_STR(path_dir(&arena, "c.x"), ".");
	CHECK_STR(path_dir(&arena, "/c.x"), "/");
	CHECK_STR(path_base("a/b.d/c"), "c");
	CHECK_STR(path_ext("a.b/c.npy"), ".npy");
	CHECK_STR(path_ext("a.b/c"), "");
	CHECK_STR(path_ext(".hidden"), "");
	CHECK_STR(path_join(&arena, "a/", "b"), "a/b");
	CHECK_STR(path_join(&arena, "a", "/b"), "/b");
	CHECK_STR(path_join(&arena, "", "b"), "b");
}

static void libraries_are_looked_for(void)
{
	static const char *const math[] = {"libinfer_none.so.1", "libm.so.6", NULL},
				 *const none[] = {"libinfer_none.so.1", NULL};
	static const struct dl_symbol symbols[] = {{"cos", true}, {"infer_no_such", false}};
	static const struct dl_symbol missing[] = {{"infer_no_such", true}};
	void *table[2] = {NULL, NULL};
	struct dl lib;
	struct diag d = {0};

	setenv("INFER_LIBRARY_PATH", dir, 1);
	CHECK_INT(dl_open(&lib, math, symbols, table, 2, &d), 0);
	CHECK(table[0] && !table[1] && strstr(lib.path, "libm.so"));
	CHECK_INT(dl_open(&lib, none, symbols, table, 2, &d), -E_LIBRARY);
	CHECK(d.last && strstr(d.last->actual, dir));
	CHECK_INT(dl_open(&lib, &math[1], missing, table, 1, &d), -E_LIBRARY);
	CHECK(strstr(d.last->actual, "it has no symbol infer_no_such"));
	diag_free(&d);
}

static int asked;
static bool never(void *const *table, char *found, size_t room)
{
	asked++;
	snprintf(found, room, "version %d", table[0] ? 5 : 0);
	return false;
}

static void a_library_that_does_not_suit_is_passed_over(void)
{
	static const char *const math[] = {"libm.so.6", NULL};
	static const struct dl_symbol symbols[] = {{"cos", true}};
	static const char *const folders[] = {"/no/such/*/folder", NULL};
	const struct dl_search search = {folders, NULL, never, "version 6"};
	void *table[1] = {NULL};
	struct dl lib;
	struct diag d = {0};

	CHECK_INT(dl_find(&lib, math, &search, symbols, table, 1, &d), -E_LIBRARY);
	CHECK_INT(asked, 1);
	CHECK(!lib.handle && !table[0] && !*lib.path);
	CHECK(d.last && strstr(d.last->actual, "version 5"));
	CHECK(strstr(lib.tried, "/no/such/*/folder: no such folder"));
	CHECK(strstr(d.last->actual, "; no such file in ") && !strstr(d.last->actual, "/no/such"));
	CHECK_STR(d.last->expected, "version 6");
	diag_free(&d);
}

/* Maps a file beneath the test's folder; returns what it holds, or NULL. */
static const char *beneath(const char *path)
{
	static char text[16];
	struct file_map m;
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int rc = file_map_beneath(fd, path, path, &m, E_WEIGHT_EXTERNAL, NULL);

	close(fd);
	if (rc)
		return NULL;
	snprintf(text, sizeof(text), "%.*s", (int)m.size, (const char *)m.data);
	file_unmap(&m);
	return text;
}

static void check_beneath(void)
{
	CHECK_STR(beneath("in"), "inside");
	CHECK_STR(beneath("sub//in"), "deeper");
	CHECK(!beneath("link"));
	CHECK(!beneath("folder/in"));
	CHECK(!beneath("../etc/passwd"));
	CHECK(!beneath("/etc/passwd"));
	CHECK(!beneath("pipe"));
	CHECK(!beneath("sub"));
	CHECK(!beneath("nowhere"));
}

/* Makes openat2() fail with ENOSYS in this process, as on a kernel that lacks it. */
static bool forget_openat2(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(code) / sizeof(*code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static void nothing_outside_of_a_folder_is_opened(void)
{
	int status;

	mkdir(in_dir("sub"), 0777);
	CHECK_INT(put(in_dir("in"), "inside", NULL), 0);
	CHECK_INT(put(in_dir("sub/in"), "deeper", NULL), 0);
	CHECK_INT(symlink("in", in_dir("link")), 0);
	CHECK_INT(symlink("sub", in_dir("folder")), 0);
	CHECK_INT(mkfifo(in_dir("pipe"), 0600), 0);
	check_beneath();
	pid_t child = fork();
	if (child == 0) {
		if (forget_openat2())
			check_beneath();
		_exit(unit_faults != 0);
	}
	waitpid(child, &status, 0);
	CHECK_INT(status, 0);
	unlink(in_dir("pipe"));
	unlink(in_dir("folder"));
	unlink(in_dir("link"));
	unlink(in_dir("sub/in"));
	unlink(in_dir("in"));
	rmdir(in_dir("sub"));
}

/* A pipe that nobody else opens is refused, and so is a device that has nothing to read. */
static void nothing_is_waited_for(void)
{
	struct diag d = {0};
	struct file_map m;
	const char *path = in_dir("pipe");

	CHECK_INT(mkfifo(path, 0600), 0);
	CHECK_INT(file_map(path, &m, E_INPUT_OPEN, &d), -E_INPUT_OPEN);
	CHECK(strstr(d.last->message, "no program writes to this pipe"));
	CHECK_INT(put(path, "text", &d), -E_OUTPUT);
	unlink(path);
	int terminal = posix_openpt(O_RDWR | O_NOCTTY);
	if (terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal)) {
		CHECK_INT(file_map(ptsname(terminal), &m, E_INPUT_OPEN, &d), -E_INPUT_OPEN);
		close(terminal);
	}
	diag_free(&d);
}

/* A handler of SIGBUS learns what kind of file it is that became shorter. */
static void mapped_files_are_known(void)
{
	const char *path = in_dir("known");
	struct file_map m;

	CHECK_INT(put(path, "text", NULL), 0);
	CHECK_INT(file_map(path, &m, E_LABELS, NULL), 0);
	const unsigned char *p = m.data;
	CHECK_INT(file_mapped_at(p), E_LABELS);
	CHECK_INT(file_mapped_at(p + 4000), E_LABELS);
	CHECK_INT(file_mapped_at(p - 1), E_OK);
	file_unmap(&m);
	CHECK_INT(file_mapped_at(p), E_OK);
	unlink(path);
}

static void time_passes(void)
{
	uint64_t start = clock_ns(), age = clock_since_exec();

	CHECK(age > 0 && age < UINT64_C(600000000000));
	CHECK(clock_since_exec() >= age);
	CHECK(clock_ns() >= start);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/infer-unit-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return 1;
	UNIT(what_is_written_is_read);
	UNIT(an_abort_leaves_what_was_there);
	UNIT(mode_and_links_are_kept);
	UNIT(a_limit_on_file_size);
	UNIT(refusals_say_why);
	UNIT(pipes_are_read_whole);
	UNIT(folders_are_made);
	UNIT(paths_are_parted);
	UNIT(libraries_are_looked_for);
	UNIT(a_library_that_does_not_suit_is_passed_over);
	UNIT(nothing_outside_of_a_folder_is_opened);
	UNIT(nothing_is_waited_for);
	UNIT(mapped_files_are_known);
	UNIT(time_passes);
	arena_free(&arena);
	return rmdir(dir) != 0 || unit_end();
}
