/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the watched program: starts it, forwards signals to it, reads the files of its processes, waits for its end. */
#include "watch/watch.h"

#include "base/clock.h"
#include "base/proc.h"
#include "watch/library.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBRARY "libinfer-watch.so"

/* ---- the temporary folder */

/*
 * Returns the folder for temporary files as an absolute path, because programs change their working directory. Falls
 * back to /tmp if TMPDIR contains a character that separates names in LD_PRELOAD, or a $, which the loader expands.
 */
static const char *folder_root(char *room)
{
	const char *tmp = getenv("TMPDIR");

	if (!tmp || !*tmp)
		return "/tmp";
	if (!realpath(tmp, room))
		return tmp; /* mkdtemp will fail and report the reason */
	return strpbrk(room, " \t\n:;$") ? "/tmp" : room;
}

static int make_folder(struct watch *w, struct diag *d)
{
	char root[PATH_MAX];
	int n = snprintf(w->dir, sizeof(w->dir), "%s/infer-watch-XXXXXX", folder_root(root));

	if (n < (int)sizeof(w->dir) && mkdtemp(w->dir)) {
		struct statvfs fs;
		if (statvfs(w->dir, &fs) || !(fs.f_flag & ST_NOEXEC))
			return 0;
		return FAIL(d, E_OUTPUT,
			    .message = fmt(d, "no library can be loaded from %s: it is mounted noexec",
					   w->dir),
			    .hint = "TMPDIR names where temporary files go");
	}
	int err = errno;
	*strrchr(w->dir, '/') = '\0';
	int rc = FAIL(d, E_OUTPUT,
		      .message = fmt(d, "no temporary folder in %s: %s", w->dir, strerror(err)),
		      .hint = "TMPDIR names where temporary files go");
	w->dir[0] = '\0';
	return rc;
}

static int write_library(const struct watch *w, char *path, size_t room, struct diag *d)
{
	const unsigned char *data;
	size_t n = watch_library(&data);

	if (!n)
		return FAIL(d, E_LIBRARY, .message = "this build cannot watch programs",
			    .actual = "it was built without CUDA's headers");
	snprintf(path, room, "%s/" LIBRARY, w->dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	int err = fd < 0 ? errno : 0;
	while (!err && n) {
		ssize_t got = write(fd, data, n);
		if (got <= 0 && !(got < 0 && errno == EINTR))
			err = got ? errno : EIO; /* kept: close() may set another one */
		data += got > 0 ? got : 0;
		n -= got > 0 ? (size_t)got : 0;
	}
	if (fd >= 0 && close(fd) && !err)
		err = errno;
	return err ? FAIL(d, E_OUTPUT, .message = fmt(d, "%s: %s", path, strerror(err))) : 0;
}

static void remove_folder(struct watch *w)
{
	DIR *dir = w->dir[0] && !w->left ? opendir(w->dir) : NULL;
	struct dirent *e;

	if (!dir)
		return;
	while ((e = readdir(dir)))
		if (e->d_name[0] != '.')
			unlinkat(dirfd(dir), e->d_name, 0);
	closedir(dir);
	rmdir(w->dir);
	w->dir[0] = '\0';
}

/* ---- the watched processes */

enum { MAX_PROCESSES = 256 };

static double seconds_since_start(const struct watch *w)
{
	return (double)(clock_ns() - w->start) / 1e9;
}

static void close_files(struct watch_process *p);

static struct watch_process *find_or_add_process(struct watch *w, int pid, int k)
{
	for (size_t i = 0; i < w->nprocesses; i++)
		if (w->process[i].ledger.pid == pid && w->process[i].k == k)
			return &w->process[i];
	if (w->nprocesses == MAX_PROCESSES)
		return NULL;
	struct watch_process *grown = realloc(w->process, (w->nprocesses + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	w->process = grown;
	struct watch_process *p = &w->process[w->nprocesses++];
	*p = (struct watch_process){.log = -1, .k = k, .statm = proc_open(pid)};
	p->ledger.pid = pid;
	p->from = p->to = w->now;
	return p;
}

/* From how many bytes on a line without end is dropped: those that our library writes are shorter (struct line). */
enum { MAX_LINE_BYTES = 1 << 16 };

/* Reads the new lines of the log. An incomplete last line is kept in p->rest until the rest of it is written. */
static void read_log(struct watch_process *p)
{
	char buffer[65536];
	ssize_t n;

	while (p->log >= 0 && (n = pread(p->log, buffer, sizeof(buffer), (off_t)p->read)) > 0) {
		char *text = realloc(p->rest, p->nrest + (size_t)n);
		if (!text)
			return;
		memcpy(text + p->nrest, buffer, (size_t)n);
		p->read += (uint64_t)n;
		size_t end = p->nrest + (size_t)n, from = 0;
		for (size_t i = 0; i < end; i++) {
			if (text[i] != '\n')
				continue;
			ledger_line(&p->ledger, text + from, i - from);
			from = i + 1;
		}
		memmove(text, text + from, end - from);
		p->rest = text;
		p->nrest = end - from > MAX_LINE_BYTES ? 0 : end - from;
	}
}

static void map_shared(struct watch_process *p, int dir, const char *name)
{
	struct stat st;
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size >= (off_t)sizeof(struct watch_shared)) {
		void *m = mmap(NULL, sizeof(struct watch_shared), PROT_READ, MAP_SHARED, fd, 0);
		p->shared = m == MAP_FAILED ? NULL : m;
	}
	close(fd);
	if (p->shared && __atomic_load_n(&p->shared->magic, __ATOMIC_ACQUIRE) != WATCH_MAGIC) {
		munmap(p->shared, sizeof(*p->shared));
		/* the process has not initialized the file yet: the next sample tries again */
		p->shared = NULL;
	}
	if (p->shared)
		p->ledger.counts = p->shared->failed;
}

/* Parses a name such as PID.log or PID.K.mem; k is 0 without K. Returns the part after the last dot, or NULL. */
static const char *parse_name(const char *name, int *pid, int *k)
{
	char *end;
	long n = strtol(name, &end, 10);

	if (n <= 0 || *end != '.')
		return NULL;
	*pid = (int)n;
	const char *rest = end + 1;
	n = strtol(rest, &end, 10);
	*k = end > rest && *end == '.' ? (int)n : 0;
	return *k ? end + 1 : rest;
}

static void open_new_files(struct watch *w)
{
	DIR *dir = opendir(w->dir);
	struct dirent *e;
	size_t more = 0;

	if (!dir)
		return;
	while ((e = readdir(dir))) {
		int pid, k;
		const char *kind = parse_name(e->d_name, &pid, &k);
		if (!kind)
			continue;
		bool log = strcmp(kind, "log") == 0;
		struct watch_process *p = find_or_add_process(w, pid, k);
		more += !p && log;
		if (!p || p->ended)
			continue;
		if (log && p->log < 0)
			p->log = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC);
		if (!log && !p->shared)
			map_shared(p, dirfd(dir), e->d_name);
	}
	closedir(dir);
	w->more = more;
}

/*
 * Returns whether a newer program runs in this process, that is, whether another entry has the same pid and a greater
 * k.
 */
static bool is_replaced(const struct watch *w, const struct watch_process *p)
{
	for (size_t i = 0; i < w->nprocesses; i++)
		if (w->process[i].ledger.pid == p->ledger.pid && w->process[i].k > p->k)
			return true;
	return false;
}

static void sample_callers(struct watch_process *p, double now, double work)
{
	size_t n = __atomic_load_n(&p->shared->nsites, __ATOMIC_ACQUIRE);

	n = n < WATCH_SITES ? n : WATCH_SITES;
	if (!p->caller)
		p->caller = calloc(WATCH_SITES, sizeof(*p->caller));
	if (!p->caller)
		return;
	for (size_t i = 0; i < n; i++) {
		const struct watch_site *site = &p->shared->site[i];
		p->caller[i].site = site;
		series_add(&p->caller[i].bytes, now, work,
			   (double)__atomic_load_n(&site->live_bytes, __ATOMIC_RELAXED));
	}
	p->ncallers = n;
}

/* Closes the files of an ended process, so that a program that starts thousands of others does not exhaust our descriptors. */
static void close_files(struct watch_process *p)
{
	if (p->log >= 0)
		close(p->log);
	if (p->statm >= 0)
		close(p->statm);
	p->log = p->statm = -1;
	p->ended = true;
}

bool watch_lives(const struct watch_process *p)
{
	uint64_t rss = 0, unshared;

	return !p->ended && p->statm >= 0 && proc_sample(p->statm, &rss, &unshared) && rss;
}

static void sample_process(const struct watch *w, struct watch_process *p, double now)
{
	uint64_t rss = 0, unshared = 0;

	if (p->ended)
		return;
	/* Begin at 1, because series_judge takes a total of 0 to mean that calls are not counted. */
	double work = 1;
	if (p->shared)
		work += (double)__atomic_load_n(&p->shared->calls, __ATOMIC_RELAXED);
	p->replaced = is_replaced(w, p);
	bool lives = !p->replaced && p->statm >= 0 && proc_sample(p->statm, &rss, &unshared) && rss;
	read_log(p);
	if (lives)
		p->to = now;
	if (lives && unshared)
		series_add(&p->host, now, work, (double)unshared);
	if (!lives && p->log >= 0)
		close_files(p);
	if (!p->shared)
		return;
	for (int k = 0; k < WATCH_KINDS; k++)
		series_add(&p->kind[k], now, work,
			   (double)__atomic_load_n(&p->shared->live[k], __ATOMIC_RELAXED));
	sample_callers(p, now, work);
}

static int compare_first_seen(const void *a, const void *b)
{
	const struct watch_process *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->ledger.pid != y->ledger.pid ? x->ledger.pid - y->ledger.pid : x->k - y->k;
}

static void sample_processes(struct watch *w)
{
	size_t had = w->nprocesses;

	w->now = seconds_since_start(w);
	open_new_files(w);
	if (w->nprocesses > had)
		qsort(w->process, w->nprocesses, sizeof(*w->process), compare_first_seen);
	for (size_t i = 0; i < w->nprocesses; i++)
		sample_process(w, &w->process[i], w->now);
}

/* ---- the program */

/* Appends ":b" to the value of an environment variable, or sets the variable to b if it is empty or missing. */
static void append_to_variable(const char *variable, const char *b)
{
	const char *a = getenv(variable);
	char *both = NULL;

	if (!a || !*a)
		setenv(variable, b, 1);
	else if (asprintf(&both, "%s:%s", a, b) >= 0)
		setenv(variable, both, 1);
	free(both);
}

static void set_environment(const struct watch *w, const char *library, const char *cupti)
{
	char what[16], heap[32];

	snprintf(what, sizeof(what), "%u", w->what);
	if (w->heap) {
		snprintf(heap, sizeof(heap), "%zu", w->heap);
		setenv(WATCH_HEAP_VARIABLE, heap, 1);
		append_to_variable("LD_PRELOAD", library); /* after the user's own libraries */
		/*
		 * AddressSanitizer refuses to start if another library is loaded before AddressSanitizer, unless this
		 * check is off.
		 */
		append_to_variable("ASAN_OPTIONS", "verify_asan_link_order=0");
	}
	/*
	 * Keep a library that the user injects: our library loads it first. But if the variable names the library of
	 * another watch, which runs around this one, replace it.
	 */
	const char *other = getenv("CUDA_INJECTION64_PATH");
	if (other && *other && !strstr(other, "/" LIBRARY))
		setenv(WATCH_NEXT_VARIABLE, other, 1);
	else
		unsetenv(WATCH_NEXT_VARIABLE);
	setenv("CUDA_INJECTION64_PATH", library, 1);
	setenv(WATCH_DIR_VARIABLE, w->dir, 1);
	setenv(WATCH_CUPTI_VARIABLE, cupti, 1);
	setenv(WATCH_WHAT_VARIABLE, what, 1);
	if (w->sync_launch)
		setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	if (w->own)
		unsetenv(w->own);
}

/*
 * The signals that watch_run waits for, and the signal mask and SIGCHLD action from before watch_run, with which the
 * program is started.
 */
struct signals {
	sigset_t waited, mask;
	struct sigaction child;
};

/* Executes the program in the child process. If exec fails, writes errno to the pipe `report`. */
static void exec_program(const struct watch *w, const struct signals *s, int report,
			 const char *library, const char *cupti)
{
	set_environment(w, library, cupti);
	sigaction(SIGCHLD, &s->child, NULL);
	sigprocmask(SIG_SETMASK, &s->mask, NULL);
	execvp(w->argv[0], (char *const *)(uintptr_t)w->argv);
	int err = errno;
	ssize_t told = write(report, &err, sizeof(err));
	_exit(told < 0 ? 126 : 127);
}

/* Returns a hint if the program's name looks like a shell command line, otherwise NULL. */
static const char *shell_hint(const struct watch *w)
{
	return !w->argv[1] && strpbrk(w->argv[0], " |&;<>$*")
		       ? "variables, pipes and patterns are a shell's: -- sh -c '...'"
		       : NULL;
}

static int start_program(const struct watch *w, const struct signals *s, const char *library,
			 const char *cupti, pid_t *child, int *status, struct diag *d)
{
	int report[2], err = 0;

	if (pipe2(report, O_CLOEXEC))
		return FAIL(d, E_WATCH_EXEC, .message = fmt(d, "no pipe: %s", strerror(errno)));
	*child = fork();
	if (*child == 0)
		exec_program(w, s, report[1], library, cupti);
	if (*child < 0)
		err = errno;
	close(report[1]);
	ssize_t told = 0;
	do
		told = *child > 0 ? read(report[0], &err, sizeof(err)) : 0;
	while (told < 0 && errno == EINTR);
	if (told == (ssize_t)sizeof(err)) {
		waitpid(*child, NULL, 0);
		*status = err == ENOENT ? 127 : 126;
	}
	close(report[0]);
	if (!err)
		return 0;
	return FAIL(d, E_WATCH_EXEC, .hint = shell_hint(w),
		    .message = fmt(d, "'%s' cannot be run: %s", w->argv[0], strerror(err)));
}

/*
 * Returns the seconds until the next sample. The pause is short at first, when contexts are created and arenas fill,
 * and then becomes longer.
 */
static double sample_pause(double seconds)
{
	double p = seconds / 200;

	return p < 0.02 ? 0.02 : p > 0.5 ? 0.5 : p;
}

static void forward_signal(const siginfo_t *info, pid_t child)
{
	/*
	 * The terminal sends the signal of Ctrl-C to the whole process group, so the program has got the signal
	 * already.
	 */
	if (info->si_code == SI_KERNEL)
		return;
	if (info->si_code == SI_QUEUE)
		sigqueue(child, info->si_signo, info->si_value);
	else
		kill(child, info->si_signo);
}

/* Stops this process after SIGTSTP, as the program stops, until SIGCONT arrives. */
static void stop_self(void)
{
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	sigprocmask(SIG_BLOCK, &stop, NULL);
}

/*
 * Appends the descendants of process `of`, if the kernel lists them, to pid[], which has n entries. Returns the new
 * number of entries.
 */
static size_t add_descendants(pid_t *pid, size_t n, size_t most, pid_t of)
{
	char path[64], text[4096], *at = text, *end;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)of, (int)of);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[size > 0 ? size : 0] = '\0';
	for (long child; (child = strtol(at, &end, 10)) > 0 && end > at && n < most; at = end) {
		pid[n++] = (pid_t)child;
		n = add_descendants(pid, n, most, (pid_t)child);
	}
	return n;
}

/* Sends a signal to the program, to its descendants, and to watched processes that are no longer its descendants. */
static void signal_all(struct watch *w, pid_t child, int signal)
{
	pid_t pid[1024];
	size_t n = add_descendants(pid, 0, sizeof(pid) / sizeof(*pid), child);

	for (size_t i = 0; i < w->nprocesses; i++) {
		const struct watch_process *p = &w->process[i];
		bool told = p->ledger.pid == child;
		for (size_t k = 0; k < n; k++)
			told |= p->ledger.pid == pid[k];
		if (!told && watch_lives(p))
			kill(p->ledger.pid, signal);
	}
	for (size_t k = 0; k < n; k++)
		kill(pid[k], signal);
	kill(child, signal);
}

/* Seconds that the program gets to end by itself after the time limit's SIGTERM, before SIGKILL. */
enum { GRACE_SECONDS = 5 };

static void on_timeout(struct watch *w, pid_t child, double *killed)
{
	w->timed_out = true;
	*killed = seconds_since_start(w) + GRACE_SECONDS;
	signal_all(w, child, SIGTERM);
	signal_all(w, child, SIGCONT); /* a stopped process cannot handle SIGTERM */
}

static void follow(struct watch *w, pid_t child, const sigset_t *waited)
{
	double next_report = w->interval, killed = 0;

	for (;;) {
		double pause = sample_pause(seconds_since_start(w));
		struct timespec t = {0, (long)(pause * 1e9)};
		siginfo_t info;
		int signal = sigtimedwait(waited, &info, &t);
		if (waitpid(child, &w->status, WNOHANG) != 0)
			break;
		sample_processes(w);
		if (signal == SIGUSR1 && w->report)
			w->report(w->arg, w);
		else if (signal == SIGALRM && info.si_code == SI_KERNEL)
			on_timeout(w, child, &killed);
		else if (signal > 0 && signal != SIGCHLD)
			forward_signal(&info, child);
		if (signal == SIGTSTP)
			stop_self();
		if (killed > 0 && seconds_since_start(w) >= killed)
			signal_all(w, child, SIGKILL);
		if (w->interval > 0 && w->report && seconds_since_start(w) >= next_report) {
			next_report = seconds_since_start(w) + w->interval;
			w->report(w->arg, w);
		}
	}
	sample_processes(w);
	w->seconds = seconds_since_start(w);
}

static void block_signals(struct signals *s)
{
	/*
	 * Signals that watch_run does not wait for: faults of this process, and the signals that a terminal sends to
	 * background processes.
	 */
	static const int kept[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP,
				   SIGSYS,  SIGABRT, SIGPIPE, SIGTTIN, SIGTTOU};
	/* If our parent left SIGCHLD ignored, waitpid would not return the child's status. */
	static const struct sigaction plain = {.sa_handler = SIG_DFL};

	sigfillset(&s->waited);
	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
		sigdelset(&s->waited, kept[i]);
	sigprocmask(SIG_BLOCK, &s->waited, &s->mask);
	sigaction(SIGCHLD, &plain, &s->child);
}

/*
 * Discards signals that arrived while the program ended. They were meant for the program and must not interrupt the
 * report.
 */
static void unblock_signals(const struct signals *s)
{
	static const struct itimerval none;
	static const struct timespec now;

	setitimer(ITIMER_REAL, &none, NULL);
	while (sigtimedwait(&s->waited, NULL, &now) > 0)
		;
	sigaction(SIGCHLD, &s->child, NULL);
	sigprocmask(SIG_SETMASK, &s->mask, NULL);
}

int watch_run(struct watch *w, int *status, struct diag *d)
{
	char library[PATH_MAX + 32];
	struct signals s;
	pid_t child = -1;

	*status = 125;
	const char *cupti = watch_cupti(d);
	if (!cupti)
		return -E_LIBRARY;
	int rc = make_folder(w, d);
	if (!rc)
		rc = write_library(w, library, sizeof(library), d);
	if (rc)
		return rc;
	block_signals(&s);
	w->start = clock_ns();
	rc = start_program(w, &s, library, cupti, &child, status, d);
	w->pid = (int)child;
	if (!rc)
		follow(w, child, &s.waited);
	unblock_signals(&s);
	bool lives = false;
	for (size_t i = 0; i < w->nprocesses; i++)
		lives |= watch_lives(&w->process[i]);
	w->left = lives;
	remove_folder(w);
	return rc;
}

static void process_free(struct watch_process *p)
{
	for (size_t i = 0; i < p->ncallers; i++)
		series_free(&p->caller[i].bytes);
	free(p->caller);
	for (int k = 0; k < WATCH_KINDS; k++)
		series_free(&p->kind[k]);
	series_free(&p->host);
	if (p->shared)
		munmap(p->shared, sizeof(*p->shared));
	close_files(p);
	free(p->rest);
	ledger_free(&p->ledger);
}

void watch_free(struct watch *w)
{
	for (size_t i = 0; i < w->nprocesses; i++)
		process_free(&w->process[i]);
	free(w->process);
	remove_folder(w);
	watch_gpu_end();
	*w = (struct watch){0};
}
