/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void proc_path(char *path, size_t size, int pid, const char *name)
{
	if (pid)
		snprintf(path, size, "/proc/%d/%s", pid, name);
	else
		snprintf(path, size, "/proc/self/%s", name);
}

int proc_open(int pid)
{
	char path[64];

	proc_path(path, sizeof(path), pid, "statm");
	return open(path, O_RDONLY | O_CLOEXEC);
}

bool proc_sample(int fd, uint64_t *rss, uint64_t *unshared)
{
	char text[128];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (n <= 0)
		return false;
	text[n] = '\0';
	char *at = text;
	strtoull(at, &at, 10); /* size of the address space */
	uint64_t resident = strtoull(at, &at, 10), shared = strtoull(at, &at, 10);
	*rss = resident * page;
	*unshared = (resident > shared ? resident - shared : 0) * page;
	return true;
}

/* Returns the number in a file of a control group, or after `key` in it; UINT64_MAX if there is none. */
static uint64_t group_number(const char *path, const char *key)
{
	char line[128];
	unsigned long long n = UINT64_MAX;
	size_t skip = strlen(key);
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, skip) && sscanf(line + skip, "%llu", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

/* Returns the bytes that the control group, as a container sees it, leaves; UINT64_MAX without a limit. */
static uint64_t group_available(void)
{
	uint64_t most = group_number("/sys/fs/cgroup/memory.max", "");
	uint64_t now = group_number("/sys/fs/cgroup/memory.current", "");
	uint64_t cache = group_number("/sys/fs/cgroup/memory.stat", "inactive_file ");

	if (most == UINT64_MAX || now == UINT64_MAX)
		return UINT64_MAX;
	now -= cache < now ? cache : 0; /* the kernel drops it before it refuses memory */
	return now < most ? most - now : 0;
}

uint64_t proc_available(void)
{
	char line[128];
	unsigned long long kb = 0;
	uint64_t group = group_available();
	FILE *f = fopen("/proc/meminfo", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return (uint64_t)kb * 1024 < group ? (uint64_t)kb * 1024 : group;
}

/* For each key, sums the values of the lines `KEY: N kB` of a file in /proc/PID. */
static bool sum_lines(int pid, const char *file, const char *const *keys, uint64_t *sums)
{
	char path[64], line[256];
	proc_path(path, sizeof(path), pid, file);
	FILE *f = fopen(path, "re");

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		for (int k = 0; keys[k]; k++)
			if (!strncmp(line, keys[k], strlen(keys[k])))
				sums[k] += 1024 * strtoull(line + strlen(keys[k]), NULL, 10);
	fclose(f);
	return true;
}

bool proc_memory(int pid, struct proc_memory *m)
{
	static const char *const status[] = {"VmRSS:", "VmHWM:", "RssAnon:", "VmSwap:", NULL};
	static const char *const rollup[] = {
		"Private_Clean:", "Private_Dirty:", "Private_Hugetlb:", "Swap:", NULL};
	uint64_t s[4] = {0}, r[4] = {0};

	*m = (struct proc_memory){0};
	if (!sum_lines(pid, "status", status, s))
		return false;
	m->rss = s[0];
	m->peak = s[1];
	m->private = s[2] + s[3];
	if (sum_lines(pid, "smaps_rollup", rollup, r) && r[0] + r[1] + r[2] + r[3])
		m->private = r[0] + r[1] + r[2] + r[3];
	return true;
}

static uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static bool own_faults(struct proc_faults *f)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u))
		return false;
	*f = (struct proc_faults){.minor = (uint64_t)u.ru_minflt,
				  .major = (uint64_t)u.ru_majflt,
				  .voluntary = (uint64_t)u.ru_nvcsw,
				  .forced = (uint64_t)u.ru_nivcsw,
				  .user_ns = timeval_ns(u.ru_utime),
				  .system_ns = timeval_ns(u.ru_stime)};
	return true;
}

bool proc_faults(int pid, struct proc_faults *f)
{
	char path[64], text[1024];

	*f = (struct proc_faults){0};
	if (!pid)
		return own_faults(f);
	proc_path(path, sizeof(path), pid, "stat");
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	if (file)
		fclose(file);
	text[n] = '\0';
	/*
	 * Start after the program's name, which is in parentheses and may contain blanks and
	 * parentheses. Field 10 is minflt (minor page faults), field 12 majflt (major ones).
	 */
	const char *end = strrchr(text, ')');
	return end && sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %" SCNu64,
			     &f->minor, &f->major) == 2;
}

/* Each schedstat file holds "TIME_ON_CORE TIME_WAITED SLICES", with times in nanoseconds. */
uint64_t proc_waited(void)
{
	DIR *dir = opendir("/proc/self/task");
	uint64_t sum = 0;

	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		char path[320];
		uint64_t ran, waited;
		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", e->d_name);
		FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (f && fscanf(f, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2)
			sum += waited;
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return sum;
}

/* ---- sampling how long each thread waited for a core */

enum { MAX_WAITING_THREADS = 256 };

static const uint64_t WAKE_NS = 5000; /* nanoseconds that a wake-up takes on a free core */

struct thread_wait {
	int fd;
	clockid_t clock; /* of the time for which the thread had a core */
	uint64_t waited, slices;
};

struct proc_waits {
	size_t n;
	struct thread_wait thread[MAX_WAITING_THREADS]; /* the caller's first */
};

static bool read_wait(int fd, uint64_t *waited, uint64_t *slices)
{
	char text[80], *at = text;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	strtoull(at, &at, 10); /* time on a core */
	*waited = strtoull(at, &at, 10);
	*slices = strtoull(at, &at, 10);
	return true;
}

/* The kernel's name of a thread's clock (CPUCLOCK_PERTHREAD and CPUCLOCK_SCHED), as pthread_getcpuclockid() makes it of a pthread_t. */
static clockid_t thread_clock(pid_t id)
{
	return (clockid_t)(~(unsigned)id << 3 | 6);
}

static void watch_thread(struct proc_waits *w, const char *id)
{
	char path[320];
	struct thread_wait *t = &w->thread[w->n];

	if (w->n == MAX_WAITING_THREADS)
		return;
	snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", id);
	t->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (t->fd < 0)
		return;
	t->clock = thread_clock((pid_t)strtol(id, NULL, 10));
	if (read_wait(t->fd, &t->waited, &t->slices))
		w->n++;
	else
		close(t->fd);
}

struct proc_waits *proc_waits_new(void)
{
	struct proc_waits *w = calloc(1, sizeof(*w));
	DIR *dir = w ? opendir("/proc/self/task") : NULL;
	char own[24];

	snprintf(own, sizeof(own), "%d", (int)gettid());
	if (dir)
		watch_thread(w, own);
	for (struct dirent *e = dir && w->n ? readdir(dir) : NULL; e; e = readdir(dir))
		if (e->d_name[0] != '.' && strcmp(e->d_name, own) != 0)
			watch_thread(w, e->d_name);
	if (dir)
		closedir(dir);
	if (w && w->n)
		return w;
	free(w);
	return NULL;
}

void proc_waits_free(struct proc_waits *w)
{
	for (size_t i = 0; w && i < w->n; i++)
		close(w->thread[i].fd);
	free(w);
}

void proc_waits_read(struct proc_waits *w, uint64_t *own, uint64_t *others)
{
	*own = *others = 0;
	for (size_t i = 0; i < w->n; i++) {
		struct thread_wait *t = &w->thread[i], was = *t;
		if (!read_wait(t->fd, &t->waited, &t->slices))
			continue;
		uint64_t waited = t->waited - was.waited,
			 free_of = (t->slices - was.slices) * WAKE_NS;
		*(i ? others : own) += waited > free_of ? waited - free_of : 0;
	}
}

double proc_waits_cpu(const struct proc_waits *w)
{
	double sum = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct timespec t;
		if (!clock_gettime(w->thread[i].clock, &t))
			sum += (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
	}
	return sum;
}

/* Reads a number from a file of powercap, in millionths. Returns -1 if it cannot be read. */
static double read_millionths(const char *folder, int package, const char *name)
{
	char path[512];
	double v = -1;

	snprintf(path, sizeof(path), "%s/intel-rapl:%d/%s", folder, package, name);
	FILE *f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%lf", &v) != 1 || !(v >= 0))
		v = -1;
	fclose(f);
	return v < 0 ? -1 : v / 1e6;
}

double proc_energy(double *range)
{
	enum { MAX_PACKAGES = 16 };
	const char *given = getenv("INFER_POWERCAP");
	const char *folder = given ? given : "/sys/class/powercap";
	double sum = -1;

	*range = 0;
	for (int k = 0; k < MAX_PACKAGES; k++) {
		double joules = read_millionths(folder, k, "energy_uj");
		double most = read_millionths(folder, k, "max_energy_range_uj");
		if (joules < 0)
			break;
		sum = (sum < 0 ? 0 : sum) + joules;
		*range = most > *range ? most : *range;
	}
	return sum;
}
