/* SPDX-License-Identifier: Apache-2.0 */
/* The watched program: its start, its signals, its files, its end. */
#include "watch/watch.h"

#include "base/clock.h"
#include "base/proc.h"
#include "gpu/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the folder */

static int make_folder(struct watch *w, struct diag *d)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(w->dir, sizeof(w->dir), "%s/infer-watch-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (mkdtemp(w->dir)) {
		struct statvfs fs;
		if (statvfs(w->dir, &fs) || !(fs.f_flag & ST_NOEXEC))
			return 0;
		return FAIL(d, E_OUTPUT,
			    .message = fmt(d, "no library can be loaded from %s: it is mounted noexec",
					   w->dir),
			    .hint = "TMPDIR names where temporary files go");
	}
	int err = errno;
	w->dir[0] = '\0';
	return FAIL(d, E_OUTPUT, .message = fmt(d, "no temporary folder: %s", strerror(err)),
		    .hint = "TMPDIR names where temporary files go");
}

static int write_library(const struct watch *w, char *path, size_t room, struct diag *d)
{
	const unsigned char *data;
	size_t n = watch_library(&data);

	if (!n)
		return FAIL(d, E_LIBRARY, .message = "this build cannot watch programs",
			    .actual = "it was built without CUDA's headers");
	snprintf(path, room, "%s/libinfer-watch.so", w->dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	bool whole = fd >= 0 && write(fd, data, n) == (ssize_t)n;
	if (fd >= 0 && close(fd))
		whole = false;
	return whole ? 0 : FAIL(d, E_OUTPUT, .message = fmt(d, "%s: %s", path, strerror(errno)));
}

static void remove_folder(struct watch *w)
{
	DIR *dir = w->dir[0] ? opendir(w->dir) : NULL;
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

/* ---- its processes */

enum { PROCESSES_MOST = 256 };

static struct watch_process *process_of(struct watch *w, int pid)
{
	for (size_t i = 0; i < w->nprocesses; i++)
		if (w->process[i].ledger.pid == pid)
			return &w->process[i];
	if (w->nprocesses == PROCESSES_MOST)
		return NULL;
	struct watch_process *grown = realloc(w->process, (w->nprocesses + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	w->process = grown;
	struct watch_process *p = &w->process[w->nprocesses++];
	*p = (struct watch_process){.log = -1, .statm = proc_open(pid)};
	p->ledger.pid = pid;
	return p;
}

/* New lines of the log; what stands after the last newline waits for its end. */
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
		p->nrest = end - from;
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
		p->shared = NULL; /* not filled yet: the next look */
	}
}

static void look_for_processes(struct watch *w)
{
	DIR *dir = opendir(w->dir);
	struct dirent *e;

	if (!dir)
		return;
	while ((e = readdir(dir))) {
		char *end;
		long pid = strtol(e->d_name, &end, 10);
		struct watch_process *p = pid > 0 && *end == '.' ? process_of(w, (int)pid) : NULL;
		if (p && p->ended)
			continue;
		if (p && strcmp(end, ".log") == 0 && p->log < 0)
			p->log = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC);
		if (p && strcmp(end, ".mem") == 0 && !p->shared)
			map_shared(p, dirfd(dir), e->d_name);
	}
	closedir(dir);
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
		p->caller[i].site = &p->shared->site[i];
		series_add(&p->caller[i].bytes, now, work, (double)p->shared->site[i].live_bytes);
	}
	p->ncallers = n;
}

/* A program that starts others by the thousand must not leave us without files. */
static void close_files(struct watch_process *p)
{
	if (p->log >= 0)
		close(p->log);
	if (p->statm >= 0)
		close(p->statm);
	p->log = p->statm = -1;
	p->ended = true;
}

static void sample(struct watch_process *p, double now)
{
	uint64_t rss = 0, unshared = 0;

	if (p->ended)
		return;
	/* never 0: where calls are counted, none means that it is still starting up */
	double work = 1;
	if (p->shared)
		work += (double)__atomic_load_n(&p->shared->calls, __ATOMIC_RELAXED);
	bool lives = p->statm >= 0 && proc_sample(p->statm, &rss, &unshared) && rss;
	read_log(p);
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

static double now_of(const struct watch *w)
{
	return (double)(clock_ns() - w->start) / 1e9;
}

static void look(struct watch *w)
{
	look_for_processes(w);
	for (size_t i = 0; i < w->nprocesses; i++)
		sample(&w->process[i], now_of(w));
}

/* ---- the program */

/* "A:B" in a variable; where it has none, B. */
static void add_to(const char *variable, const char *b)
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
		add_to("LD_PRELOAD", library); /* behind those that the user has */
		/* a program built with AddressSanitizer asks to be loaded first, and can do without */
		add_to("ASAN_OPTIONS", "verify_asan_link_order=0");
	}
	setenv("CUDA_INJECTION64_PATH", library, 1);
	setenv(WATCH_DIR_VARIABLE, w->dir, 1);
	setenv(WATCH_CUPTI_VARIABLE, cupti, 1);
	setenv(WATCH_WHAT_VARIABLE, what, 1);
	if (w->sync_launch)
		setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
}

/* The child: what it could not do goes through the pipe as an errno. */
static void become(const struct watch *w, const sigset_t *mask, int report, const char *library,
		   const char *cupti)
{
	set_environment(w, library, cupti);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(w->argv[0], (char *const *)(uintptr_t)w->argv);
	int err = errno;
	ssize_t told = write(report, &err, sizeof(err));
	_exit(told < 0 ? 126 : 127);
}

static int start(const struct watch *w, const sigset_t *mask, const char *library,
		 const char *cupti, pid_t *child, bool *missing, struct diag *d)
{
	int report[2], err = 0;

	if (pipe2(report, O_CLOEXEC))
		return FAIL(d, E_WATCH_EXEC, .message = fmt(d, "no pipe: %s", strerror(errno)));
	*child = fork();
	if (*child == 0)
		become(w, mask, report[1], library, cupti);
	close(report[1]);
	if (*child > 0 && read(report[0], &err, sizeof(err)) == (ssize_t)sizeof(err))
		waitpid(*child, NULL, 0);
	else if (*child < 0)
		err = errno;
	close(report[0]);
	if (!err)
		return 0;
	*missing = err == ENOENT;
	return FAIL(d, E_WATCH_EXEC,
		    .message = fmt(d, "'%s' cannot be run: %s", w->argv[0], strerror(err)));
}

/* How long between looks: often at first, when contexts are made and arenas fill, then less. */
static double pause_of(double seconds)
{
	double p = seconds / 200;

	return p < 0.02 ? 0.02 : p > 0.5 ? 0.5 : p;
}

static void pass_on(const siginfo_t *info, pid_t child)
{
	/* a terminal's Ctrl-C reaches the whole group by itself */
	if (info->si_code != SI_KERNEL)
		kill(child, info->si_signo);
}

static void follow(struct watch *w, pid_t child, const sigset_t *waited)
{
	double next_report = w->interval;

	for (;;) {
		double pause = pause_of(now_of(w));
		struct timespec t = {0, (long)(pause * 1e9)};
		siginfo_t info;
		int signal = sigtimedwait(waited, &info, &t);
		if (signal == SIGCHLD && waitpid(child, &w->status, WNOHANG) == child)
			break;
		look(w);
		if (signal == SIGUSR1 && w->report)
			w->report(w->arg, w);
		else if (signal > 0 && signal != SIGCHLD)
			pass_on(&info, child);
		if (w->interval > 0 && w->report && now_of(w) >= next_report) {
			next_report = now_of(w) + w->interval;
			w->report(w->arg, w);
		}
	}
	look(w);
	w->seconds = now_of(w);
}

int watch_run(struct watch *w, bool *missing, struct diag *d)
{
	static const int signals[] = {SIGCHLD, SIGINT,	SIGTERM, SIGHUP,   SIGQUIT,
				      SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH, SIGALRM};
	char library[320];
	sigset_t waited, before;
	pid_t child = -1;

	const char *cupti = watch_cupti(d);
	if (!cupti)
		return -E_LIBRARY;
	int rc = make_folder(w, d);
	if (!rc)
		rc = write_library(w, library, sizeof(library), d);
	if (rc)
		return rc;
	sigemptyset(&waited);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaddset(&waited, signals[i]);
	sigprocmask(SIG_BLOCK, &waited, &before);
	w->start = clock_ns();
	rc = start(w, &before, library, cupti, &child, missing, d);
	if (!rc)
		follow(w, child, &waited);
	sigprocmask(SIG_SETMASK, &before, NULL);
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
	*w = (struct watch){0};
}
