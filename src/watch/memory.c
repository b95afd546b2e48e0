/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes findings about memory that grows, with the callers that allocated it, and samples a running process from
 * outside.
 */
#include "base/clock.h"
#include "base/proc.h"
#include "base/str.h"
#include "watch/library.h"
#include "watch/watch.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Resident memory varies as pages and libraries are loaded; only the counters of allocations are exact. */
const double watch_host_noise = 1 << 20;
/*
 * Growth that has ended is reported only if it is at least this large, because every program takes some memory while
 * it starts.
 */
static const double min_plateau_bytes = 5 << 20;

static const char *rate_text(struct diag *d, const struct series_verdict *v)
{
	return fmt(d, "%s a second (99 %% interval %s to %s) from %.1f s to %.1f s",
		   str_bytes(&d->arena, (int64_t)v->slope), str_bytes(&d->arena, (int64_t)v->low),
		   str_bytes(&d->arena, (int64_t)v->high), v->from, v->to);
}

/*
 * Returns a text that says when memory will be exhausted at this rate of growth. Pinned and host memory both come
 * from the host's RAM.
 */
static const char *exhaustion_text(struct diag *d, const struct series_verdict *v, int kind)
{
	uint64_t left = kind == WATCH_DEVICE ? watch_gpu_left() : proc_available();

	if (!left || !(v->slope > 0))
		return "not known";
	return fmt(d, "in %s at this pace: %s are left",
		   str_span(&d->arena, (double)left / v->slope), str_bytes(&d->arena, (int64_t)left));
}

static const char *try_text(int kind)
{
	if (kind >= 0)
		return "free what is made there, or keep it and use it again; -v --interval 10s shows who holds how much";
	return "a heap profiler of the language (heaptrack, tracemalloc) tells whose it is: -- COMMAND sees CUDA's alone";
}

/*
 * The counters lie in memory that the watched program can write to, and that it may have overwritten: a kind is read once and may be
 * none, and a text may lack its end.
 */
static uint32_t kind_of(const struct watch_site *site)
{
	uint32_t kind = __atomic_load_n(&site->kind, __ATOMIC_RELAXED);

	return kind < WATCH_KINDS ? kind : WATCH_KINDS;
}

static const char *caller_of(const struct watch_site *site, struct arena *a)
{
	return arena_strn(a, site->by, strnlen(site->by, sizeof(site->by)));
}

/*
 * Sets out[] to at most three callers, those whose allocations of this kind grew most, in descending order. Returns
 * the number of callers.
 */
static size_t top_growing_callers(const struct watch_process *p, uint32_t kind,
				  const struct watch_caller *out[3])
{
	size_t n = 0;

	for (size_t i = 0; i < p->ncallers; i++) {
		const struct watch_caller *c = &p->caller[i];
		double grown = c->bytes.last - c->bytes.first;
		if (kind_of(c->site) != kind || grown <= 0)
			continue;
		size_t at = n < 3 ? n++ : 3;
		while (at > 0 && out[at - 1]->bytes.last - out[at - 1]->bytes.first < grown) {
			if (at < 3)
				out[at] = out[at - 1];
			at--;
		}
		if (at < 3)
			out[at] = c;
	}
	return n;
}

static void report_series(const struct watch_process *p, int pid, const struct series *s,
			  const char *what, int kind, double noise, struct diag *d)
{
	struct series_verdict v = series_judge(s, noise);
	struct diag_row row[8];
	size_t n = 0;

	if (v.kind == VERDICT_SHORT || v.kind == VERDICT_STABLE)
		return;
	bool leak = v.kind == VERDICT_LEAK;
	if (!leak && v.grown < min_plateau_bytes)
		return;
	row[n++] = (struct diag_row){"grew", fmt(d, "from %s to %s, peak %s",
						 str_bytes(&d->arena, (int64_t)s->first),
						 str_bytes(&d->arena, (int64_t)s->last),
						 str_bytes(&d->arena, (int64_t)s->peak))};
	if (leak) {
		row[n++] = (struct diag_row){"rate", rate_text(d, &v)};
		row[n++] = (struct diag_row){"exhausted", exhaustion_text(d, &v, kind)};
	}
	const struct watch_caller *by[3];
	size_t callers = kind >= 0 ? top_growing_callers(p, (uint32_t)kind, by) : 0;
	const char *cache = NULL;
	for (size_t i = 0; i < callers; i++) {
		row[n++] = (struct diag_row){
			i ? "" : "by",
			fmt(d, "%s: %s more, in %llu allocations",
			    ledger_by(&p->ledger, &d->arena, caller_of(by[i]->site, &d->arena)),
			    str_bytes(&d->arena, (int64_t)(by[i]->bytes.last - by[i]->bytes.first)),
			    (unsigned long long)__atomic_load_n(&by[i]->site->made, __ATOMIC_RELAXED))};
		cache = cache ? cache : ledger_cache(caller_of(by[i]->site, &d->arena));
	}
	if (cache)
		row[n++] = (struct diag_row){"note", cache};
	if (leak && !cache)
		row[n++] = (struct diag_row){"try", try_text(kind)};
	diag_add(d, &(struct finding){
			    .code = leak ? E_LEAK : E_LEAK_ARENA,
			    .severity = leak ? SEV_ERROR : SEV_NOTE,
			    .message = fmt(d, "%s of process %d %s", what, pid,
					   leak ? "keeps growing" : "grew and then stayed flat"),
			    .rows = arena_dup(&d->arena, row, n * sizeof(*row)),
			    .nrows = n});
}

/*
 * A loop that keeps each of its blocks shows as growth only if it runs for long enough to be sampled. In a shorter
 * program the counters of the call sites show it: one site made many blocks of one size until the end, and all of them
 * are still held. A program that loads a model makes blocks of many sizes, and works after that.
 */
enum { MIN_KEPT_BLOCKS = 64 };
static const uint64_t min_kept_bytes = 1 << 20;
static const double made_until =
	0.9; /* part of the program's calls after which the newest block was made */

static bool keeps_its_blocks(const struct watch_site *site, uint64_t calls, struct arena *a)
{
	uint64_t made = __atomic_load_n(&site->made, __ATOMIC_RELAXED),
		 live = __atomic_load_n(&site->live, __ATOMIC_RELAXED),
		 each = __atomic_load_n(&site->each, __ATOMIC_RELAXED);

	return made >= MIN_KEPT_BLOCKS && live == made && each != WATCH_SIZES_DIFFER &&
	       live * each >= min_kept_bytes && !ledger_cache(caller_of(site, a)) &&
	       (double)site->last_call >= made_until * (double)calls &&
	       (double)site->first_call < (1 - made_until) * (double)calls + MIN_KEPT_BLOCKS;
}

static void report_kept_blocks(const struct watch_process *p, int pid, const struct watch_site *site,
			       uint32_t kind, const char *what, struct diag *d)
{
	const char *each = str_bytes(&d->arena, (int64_t)site->each);
	const struct diag_row row[] = {
		{"by", ledger_by(&p->ledger, &d->arena, caller_of(site, &d->arena))},
		{"so", "the program ended too soon to tell whether the growth would have gone on"},
		{"try", try_text((int)kind)},
	};

	diag_add(d, &(struct finding){
			    .code = E_LEAK,
			    .severity = SEV_WARNING,
			    .message = fmt(d, "%llu blocks of %s of %s were made one after another in process %d, and none was freed",
					   (unsigned long long)site->made, each, what, pid),
			    .rows = arena_dup(&d->arena, row, sizeof(row)),
			    .nrows = sizeof(row) / sizeof(*row)});
}

void watch_memory_findings(const struct watch_process *p, int pid, struct diag *d)
{
	static const char *const names[WATCH_KINDS] = {"device memory", "pinned memory",
						       "managed memory"};

	for (int k = 0; k < WATCH_KINDS; k++)
		report_series(p, pid, &p->kind[k], names[k], k, 0, d);
	for (size_t i = 0; p->shared && i < p->ncallers; i++) {
		const struct watch_site *site = p->caller[i].site;
		uint32_t kind = kind_of(site);
		if (kind < WATCH_KINDS && series_judge(&p->kind[kind], 0).kind == VERDICT_SHORT &&
		    keeps_its_blocks(site, p->shared->calls, &d->arena))
			report_kept_blocks(p, pid, site, kind, names[kind], d);
	}
	report_series(p, pid, &p->host, "private memory of the host", -1, watch_host_noise, d);
}

void watch_findings(const struct watch *w, const struct watch_options *o, struct diag *d)
{
	for (size_t i = 0; i < w->nprocesses; i++) {
		const struct watch_process *p = &w->process[i];
		ledger_findings(&p->ledger, &o->ledger, d);
		if (o->memory)
			watch_memory_findings(p, p->ledger.pid, d);
	}
}

/* ---- sampling a running process from outside */

/* Flags that the signal handler sets when the user wants to end the watch, or wants a report (SIGUSR1). */
static volatile sig_atomic_t stop_requested, report_requested;

static void on_stop(int signal)
{
	if (signal == SIGUSR1)
		report_requested = 1;
	else
		stop_requested = 1;
}

/*
 * Returns the value of the line `name` in /proc/PID/status, which is stored in `line`, or "" if there is no such
 * line.
 */
static const char *proc_status_value(int pid, const char *name, char *line, size_t room)
{
	char path[64];
	size_t n = strlen(name);
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	while (f && !found && fgets(line, (int)room, f))
		found = strncmp(line, name, n) == 0 && line[n] == ':';
	if (f)
		fclose(f);
	return found ? line + n + 1 + strspn(line + n + 1, " \t") : "";
}

static int open_process(int pid, struct watch_process *p, struct diag *d)
{
	char line[128];

	*p = (struct watch_process){.log = -1, .statm = -1};
	if (kill(pid, 0) && errno == ESRCH)
		return FAIL(d, E_WATCH_EXEC, .message = fmt(d, "there is no process %d", pid));
	int of = (int)strtol(proc_status_value(pid, "Tgid", line, sizeof(line)), NULL, 10);
	if (of && of != pid)
		NOTE(d, E_WATCH_EXEC,
		     .message = fmt(d, "%d is a thread of process %d, which is looked at", pid, of));
	p->ledger.pid = pid = of ? of : pid;
	p->statm = proc_open(pid);
	if (p->statm < 0)
		return FAIL(d, E_WATCH_EXEC,
			    .message = fmt(d, "process %d cannot be looked at: %s", pid,
					   strerror(errno)));
	return 0;
}

static bool sample_once(struct watch_process *p, double now)
{
	uint64_t rss = 0, unshared, device;

	if (!proc_sample(p->statm, &rss, &unshared) || !rss)
		return false;
	series_add(&p->host, now, 0, (double)unshared);
	if (watch_gpu_memory(p->ledger.pid, &device))
		series_add(&p->kind[WATCH_DEVICE], now, 0, (double)device);
	p->to = now;
	return true;
}

static void sample_until_end(const struct watch_look *look, struct watch_process *p)
{
	uint64_t start = clock_ns();
	double now = 0, next = look->interval;
	struct timespec t = {(time_t)look->every, (long)(fmod(look->every, 1) * 1e9)};

	while (!stop_requested && !look->stopped() && (look->seconds <= 0 || now < look->seconds) &&
	       sample_once(p, now)) {
		nanosleep(&t, NULL);
		now = (double)(clock_ns() - start) / 1e9;
		if (!report_requested && !(look->interval > 0 && now >= next))
			continue;
		next = report_requested ? next : now + look->interval;
		report_requested = 0;
		look->report(look->arg, p, now);
	}
}

int watch_pid(const struct watch_look *look, struct watch_process *p, struct diag *d)
{
	struct sigaction act = {.sa_handler = on_stop}, old[2];
	int rc = open_process(look->pid, p, d);

	if (rc)
		return rc;
	stop_requested = report_requested = 0;
	sigaction(SIGTERM, &act, &old[0]);
	sigaction(SIGUSR1, &act, &old[1]);
	sample_until_end(look, p);
	sigaction(SIGTERM, &old[0], NULL);
	sigaction(SIGUSR1, &old[1], NULL);
	close(p->statm);
	p->statm = -1;
	if (p->host.n)
		return 0;
	char line[128];
	const char *state = proc_status_value(p->ledger.pid, "State", line, sizeof(line));
	return FAIL(d, E_WATCH_EXEC,
		    .message = fmt(d,
				   *state == 'Z' ? "process %d has ended; its parent has not asked how"
				   : *state ? "process %d has no memory of its own: it is the kernel's"
					    : "process %d ended before it could be looked at",
				   p->ledger.pid));
}
