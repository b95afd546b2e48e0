/* SPDX-License-Identifier: Apache-2.0 */
/* What memory did over time, and whose it was; and a process looked at from outside. */
#include "base/clock.h"
#include "base/proc.h"
#include "base/str.h"
#include "gpu/watch.h"
#include "watch/watch.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Resident memory comes and goes by pages and library loads; counters are exact. */
static const double host_noise = 1 << 20;
/* A program that starts takes some memory: less than this is not worth a word. */
static const double plateau = 5 << 20;

static const char *rate(struct diag *d, const struct series_verdict *v)
{
	return fmt(d, "%s a second (99 %% interval %s to %s) from %.1f s to %.1f s",
		   str_bytes(&d->arena, (int64_t)v->slope), str_bytes(&d->arena, (int64_t)v->low),
		   str_bytes(&d->arena, (int64_t)v->high), v->from, v->to);
}

/* The callers whose allocations grew most. */
static size_t growing(const struct watch_process *p, uint32_t kind, const struct watch_caller *out[3])
{
	size_t n = 0;

	for (size_t i = 0; i < p->ncallers; i++) {
		const struct watch_caller *c = &p->caller[i];
		double grown = c->bytes.last - c->bytes.first;
		if (c->site->kind != kind || grown <= 0)
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

static void tell(const struct watch_process *p, int pid, const struct series *s, const char *what,
		 int kind, double noise, struct diag *d)
{
	struct series_verdict v = series_judge(s, noise);
	struct diag_row row[8];
	size_t n = 0;

	if (v.kind == VERDICT_SHORT || v.kind == VERDICT_STABLE)
		return;
	bool leak = v.kind == VERDICT_LEAK;
	if (!leak && v.grown < plateau)
		return;
	row[n++] = (struct diag_row){"grew", fmt(d, "from %s to %s, peak %s",
						 str_bytes(&d->arena, (int64_t)s->first),
						 str_bytes(&d->arena, (int64_t)s->last),
						 str_bytes(&d->arena, (int64_t)s->peak))};
	if (leak)
		row[n++] = (struct diag_row){"rate", rate(d, &v)};
	const struct watch_caller *by[3];
	size_t callers = kind >= 0 ? growing(p, (uint32_t)kind, by) : 0;
	const char *cache = NULL;
	for (size_t i = 0; i < callers; i++) {
		row[n++] = (struct diag_row){
			i ? "" : "by", fmt(d, "%s: %+lld bytes in %llu allocations", by[i]->site->by,
					   (long long)(by[i]->bytes.last - by[i]->bytes.first),
					   (unsigned long long)by[i]->site->made)};
		cache = cache ? cache : ledger_cache(by[i]->site->by);
	}
	if (cache)
		row[n++] = (struct diag_row){"note", cache};
	diag_add(d, &(struct finding){
			    .code = leak ? E_LEAK : E_LEAK_ARENA,
			    .severity = leak ? SEV_ERROR : SEV_NOTE,
			    .message = fmt(d, "%s of process %d %s", what, pid,
					   leak ? "keeps growing" : "grew and then stayed flat"),
			    .rows = arena_dup(&d->arena, row, n * sizeof(*row)),
			    .nrows = n});
}

void watch_memory_findings(const struct watch_process *p, int pid, struct diag *d)
{
	static const char *const names[WATCH_KINDS] = {"device memory", "pinned memory",
						       "managed memory"};

	for (int k = 0; k < WATCH_KINDS; k++)
		tell(p, pid, &p->kind[k], names[k], k, 0, d);
	tell(p, pid, &p->host, "private memory of the host", -1, host_noise, d);
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

/* ---- from outside */

/* The handler's: set when the user wants to end the watch. */
static volatile sig_atomic_t stop;

static void on_stop(int signal)
{
	(void)signal;
	stop = 1;
}

int watch_pid(int pid, double seconds, double every, struct watch_process *p, struct diag *d)
{
	struct sigaction act = {.sa_handler = on_stop}, old[2];
	uint64_t start = clock_ns(), rss, unshared, device;
	double now = 0;

	*p = (struct watch_process){.log = -1, .statm = -1};
	if (kill(pid, 0) && errno == ESRCH)
		return FAIL(d, E_WATCH_EXEC, .message = fmt(d, "there is no process %d", pid));
	p->statm = proc_open(pid);
	if (p->statm < 0)
		return FAIL(d, E_WATCH_EXEC,
			    .message = fmt(d, "process %d cannot be looked at: %s", pid,
					   strerror(errno)));
	stop = 0;
	sigaction(SIGINT, &act, &old[0]);
	sigaction(SIGTERM, &act, &old[1]);
	while (!stop && (seconds <= 0 || now < seconds) && proc_sample(p->statm, &rss, &unshared) &&
	       rss) {
		struct timespec t = {(time_t)every, (long)(fmod(every, 1) * 1e9)};
		series_add(&p->host, now, 0, (double)unshared);
		if (watch_gpu_memory(pid, &device))
			series_add(&p->kind[WATCH_DEVICE], now, 0, (double)device);
		nanosleep(&t, NULL);
		now = (double)(clock_ns() - start) / 1e9;
	}
	sigaction(SIGINT, &old[0], NULL);
	sigaction(SIGTERM, &old[1], NULL);
	watch_gpu_end();
	return 0;
}
