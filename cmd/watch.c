/* SPDX-License-Identifier: Apache-2.0 */
/* infer check -- COMMAND: what another program does with CUDA; infer check --pid: what its memory does. */
#include "watch/watch.h"

#include "base/file.h"
#include "base/str.h"
#include "cmd.h"
#include "gpu/cuda.h"
#include "output.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { COMMAND_DENIED = 126, COMMAND_MISSING = 127, SIGNALLED = 128 };

/* ---- suppressions */

struct suppressions {
	struct file_map file;
	size_t told; /* findings that were left out */
};

static bool text_matches(const char *pattern, const char *text)
{
	return text && fnmatch(pattern, text, 0) == 0;
}

static bool finding_matches(const struct finding *f, const char *pattern)
{
	if (text_matches(pattern, f->message))
		return true;
	for (size_t i = 0; i < f->nrows; i++)
		if (text_matches(pattern, f->rows[i].text))
			return true;
	return false;
}

static bool line_suppresses(char *line, const struct finding *f)
{
	char *rest = line + strspn(line, " \t"), *id = strsep(&rest, " \t");

	if (!*id || *id == '#' || strcmp(id, code_id(f->code, f->severity)) != 0)
		return false;
	if (rest)
		rest += strspn(rest, " \t");
	return !rest || !*rest || finding_matches(f, rest);
}

static bool suppressed(const struct suppressions *s, const struct finding *f)
{
	const char *at = (const char *)s->file.data, *end = at + s->file.size;
	bool found = false;

	while (at && at < end && !found) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((newline ? newline : end) - at);
		char *line = strndup(at, n);
		found = line && line_suppresses(line, f);
		free(line);
		at += n + 1;
	}
	return found;
}

/* Takes what is suppressed out of the findings. */
static void suppress(struct suppressions *s, struct diag *d)
{
	struct finding **at = &d->first;

	d->last = NULL;
	while (*at) {
		struct finding *f = *at;
		if (!suppressed(s, f)) {
			d->last = f;
			at = &f->next;
			continue;
		}
		d->errors -= f->severity == SEV_ERROR;
		d->warnings -= f->severity == SEV_WARNING;
		s->told++;
		*at = f->next;
	}
}

/* ---- the report */

static struct watch_options wanted(const struct options *o)
{
	bool some = o->check.contexts || o->check.leak;

	return (struct watch_options){
		.ledger = {.errors = o->watch.errors,
			   .verbose = o->verbose > 0,
			   .contexts = !some || o->check.contexts,
			   .calls = !some,
			   .sync_launch = o->config.sync == SYNC_LAUNCH},
		.memory = !some || o->check.leak,
	};
}

static void print_process(const struct watch_process *p, FILE *f, struct arena *a)
{
	const struct ledger *l = &p->ledger;
	const struct watch_shared *s = p->shared;

	fprintf(f, "process %d%s%s%s: %.1f s", l->pid, l->program ? " (" : "",
		l->program ? l->program : "", l->program ? ")" : "", l->seconds);
	if (s)
		fprintf(f, ", %llu calls, %llu launches, %llu copies, %llu failed",
			(unsigned long long)s->calls, (unsigned long long)s->launches,
			(unsigned long long)s->copies, (unsigned long long)s->failures);
	fprintf(f, ", %zu context%s%s\n", l->ncontexts, l->ncontexts == 1 ? "" : "s",
		l->ended ? "" : "; it did not end in order");
	if (s)
		fprintf(f, "  memory      device %s (peak %s), pinned %s, managed %s",
			str_bytes(a, (int64_t)s->live[WATCH_DEVICE]),
			str_bytes(a, (int64_t)s->peak[WATCH_DEVICE]),
			str_bytes(a, (int64_t)s->live[WATCH_PINNED]),
			str_bytes(a, (int64_t)s->live[WATCH_MANAGED]));
	if (s && p->host.n)
		fprintf(f, "; host private %s (peak %s)", str_bytes(a, (int64_t)p->host.last),
			str_bytes(a, (int64_t)p->host.peak));
	if (s)
		fputc('\n', f);
	if (s && s->unsaid)
		fprintf(f,
			"  note        %llu events were more than are kept: some contexts and streams have no name\n",
			(unsigned long long)s->unsaid);
	if (s && s->forgotten)
		fprintf(f,
			"  note        %llu objects were more than the tables hold: sums may be too small\n",
			(unsigned long long)s->forgotten);
}

/* What a cache holds looks the same whether it is in use or not: each setting once. */
static void print_caches(const struct watch_process *p, FILE *f)
{
	const char *told[8];
	size_t n = 0;

	for (size_t i = 0; i < p->ncallers; i++) {
		const struct watch_caller *c = &p->caller[i];
		const char *cache = c->bytes.peak > 0 ? ledger_cache(c->site->by) : NULL;
		bool again = !cache || n == sizeof(told) / sizeof(*told);
		for (size_t k = 0; k < n && !again; k++)
			again = strcmp(strchr(told[k], ':'), strchr(cache, ':')) == 0;
		if (again)
			continue;
		told[n++] = cache;
		fprintf(f, "  cache       %s\n", cache);
	}
}

static void print_callers(const struct watch_process *p, FILE *f, struct arena *a)
{
	for (size_t i = 0; i < p->ncallers; i++) {
		const struct watch_site *s = p->caller[i].site;
		if (s->live_bytes)
			fprintf(f, "  holds       %s in %llu allocations by %s\n",
				str_bytes(a, (int64_t)s->live_bytes), (unsigned long long)s->live,
				s->by);
	}
}

static void print_summary(const struct watch *w, const struct options *o, FILE *f)
{
	struct arena a = {0};

	if (!w->nprocesses)
		fprintf(f, "%s made no CUDA call\n", w->argv[0]);
	for (size_t i = 0; i < w->nprocesses; i++) {
		print_process(&w->process[i], f, &a);
		print_caches(&w->process[i], f);
		if (o->verbose)
			print_callers(&w->process[i], f, &a);
	}
	arena_free(&a);
}

static void write_process(struct json *j, const struct watch_process *p)
{
	static const char *const names[WATCH_KINDS] = {"device", "pinned", "managed"};
	const struct watch_shared *s = p->shared;

	json_object(j, NULL);
	json_int(j, "pid", p->ledger.pid);
	json_string(j, "program", p->ledger.program);
	json_number(j, "seconds", p->ledger.seconds);
	json_int(j, "cupti", p->ledger.cupti);
	json_uint(j, "contexts", p->ledger.ncontexts);
	if (s) {
		json_uint(j, "calls", s->calls);
		json_uint(j, "launches", s->launches);
		json_uint(j, "copies", s->copies);
		json_uint(j, "failures", s->failures);
		json_uint(j, "forgotten", s->forgotten);
		json_uint(j, "unsaid", s->unsaid);
		json_object(j, "memory");
		for (int k = 0; k < WATCH_KINDS; k++) {
			json_object(j, names[k]);
			json_uint(j, "bytes", s->live[k]);
			json_uint(j, "peak", s->peak[k]);
			json_end(j, '}');
		}
		json_end(j, '}');
	}
	json_array(j, "callers");
	for (size_t i = 0; i < p->ncallers; i++) {
		const struct watch_site *c = p->caller[i].site;
		json_object(j, NULL);
		json_string(j, "by", c->by);
		json_string(j, "kind", names[c->kind % WATCH_KINDS]);
		json_uint(j, "bytes", c->live_bytes);
		json_uint(j, "live", c->live);
		json_uint(j, "made", c->made);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_end(j, '}');
}

static void write_document(const struct watch *w, struct options *o, const struct diag *d)
{
	struct json j;

	json_envelope_begin(&j, o, d);
	json_array(&j, "program");
	for (size_t i = 0; w->argv && w->argv[i]; i++)
		json_string(&j, NULL, w->argv[i]);
	json_end(&j, ']');
	json_int(&j, "status", o->status);
	json_number(&j, "seconds", w->seconds);
	json_array(&j, "processes");
	for (size_t i = 0; i < w->nprocesses; i++)
		write_process(&j, &w->process[i]);
	json_end(&j, ']');
	json_envelope_end(&j, d);
}

/* So far: on stderr, since stdout is the program's. */
static void report_now(void *arg, struct watch *w)
{
	const struct options *o = arg;
	const struct watch_options what = wanted(o);
	struct diag d = {0};

	fprintf(stderr, "infer: after %.1f s\n", w->nprocesses ? w->process[0].ledger.seconds : 0.0);
	watch_findings(w, &what, &d);
	print_summary(w, o, stderr);
	diag_print(&d, stderr, output_color(o, stderr));
	diag_free(&d);
}

/* ---- the command */

static int status_of(int wait_status)
{
	return WIFSIGNALED(wait_status) ? SIGNALLED + WTERMSIG(wait_status)
					: WEXITSTATUS(wait_status);
}

/* Blocks of malloc's that are kept in mind: smaller ones are many and are copied seldom. */
static size_t least_block(int which)
{
	static const size_t least[] = {
		[WATCH_HEAP_OFF] = 0, [WATCH_HEAP_ON] = 512, [WATCH_HEAP_EVERY] = 64};

	return least[which];
}

static int watch_program(struct options *o, struct suppressions *s, struct diag *d)
{
	struct device_facts facts[1];
	struct diag none = {0};
	const char **argv = arena_new_n(&o->arena, const char *, o->noperands + 1);
	bool missing = false;

	for (size_t i = 0; i < o->noperands; i++)
		argv[i] = o->operand[i];
	if (gpu_devices(facts, 1, &none) < 1) {
		const char *why =
			none.first && none.first->message ? none.first->message : "no device";
		int rc = FAIL(
			d, E_DEVICE,
			.message = fmt(d, "'%s' was not started: there is no CUDA device to watch (%s)",
				       argv[0], why));
		diag_free(&none);
		return rc;
	}
	diag_free(&none);
	struct watch_options what = wanted(o);
	struct watch w = {
		.argv = argv,
		.what = what.ledger.calls ? WATCH_ALL
					  : (what.ledger.contexts ? WATCH_CONTEXTS : 0u) |
						    (what.memory ? WATCH_MEMORY : 0u),
		.sync_launch = o->config.sync == SYNC_LAUNCH,
		.heap = what.ledger.calls ? least_block(o->watch.heap) : 0,
		.interval = isnan(o->watch.interval) ? 0 : o->watch.interval,
		.report = report_now,
		.arg = o,
	};
	int rc = watch_run(&w, &missing, d);
	if (rc == -E_WATCH_EXEC) {
		o->status = missing ? COMMAND_MISSING : COMMAND_DENIED;
		o->status_stands = true;
	}
	if (!rc) {
		o->status = status_of(w.status);
		watch_findings(&w, &what, d);
		suppress(s, d);
		if (o->json)
			write_document(&w, o, d);
		else if (!o->quiet)
			print_summary(&w, o, stderr);
		if (s->told && !o->quiet)
			fprintf(stderr, "%zu finding%s suppressed\n", s->told,
				s->told == 1 ? "" : "s");
	}
	watch_free(&w);
	return rc;
}

static void print_series(const char *what, const struct series *s, struct arena *a)
{
	struct series_verdict v = series_judge(s, 0);

	if (s->n)
		printf("%s %s, at first %s, peak %s%s", what, str_bytes(a, (int64_t)s->last),
		       str_bytes(a, (int64_t)s->first), str_bytes(a, (int64_t)s->peak),
		       v.kind == VERDICT_SHORT ? " (too short a time for a verdict)" : "");
}

static void print_pid(const struct options *o, const struct watch_process *p, const struct diag *d)
{
	struct arena a = {0};

	printf("process %d: ", (int)o->watch.pid);
	print_series("host private", &p->host, &a);
	print_series("; device", &p->kind[WATCH_DEVICE], &a);
	printf("%s\n", d->errors ? "; it keeps growing" : "");
	arena_free(&a);
}

static void write_series(struct json *j, const char *key, const struct series *s)
{
	json_object(j, key);
	json_array(j, "seconds");
	for (size_t i = 0; i < s->n; i++)
		json_number(j, NULL, s->x[i]);
	json_end(j, ']');
	json_array(j, "bytes");
	for (size_t i = 0; i < s->n; i++)
		json_number(j, NULL, s->y[i]);
	json_end(j, ']');
	json_end(j, '}');
}

static void write_pid(struct options *o, const struct watch_process *p, const struct diag *d)
{
	struct json j;

	json_envelope_begin(&j, o, d);
	json_int(&j, "pid", o->watch.pid);
	write_series(&j, "host_private", &p->host);
	if (p->kind[WATCH_DEVICE].n)
		write_series(&j, "device", &p->kind[WATCH_DEVICE]);
	json_envelope_end(&j, d);
}

static int watch_process_memory(struct options *o, struct suppressions *s, struct diag *d)
{
	double seconds = isnan(o->duration) ? 0 : o->duration;
	struct watch_process p;
	int rc = watch_pid((int)o->watch.pid, seconds, 0.1, &p, d);

	if (rc)
		return rc;
	watch_memory_findings(&p, (int)o->watch.pid, d);
	suppress(s, d);
	if (o->json)
		write_pid(o, &p, d);
	else
		print_pid(o, &p, d);
	series_free(&p.host);
	series_free(&p.kind[WATCH_DEVICE]);
	return 0;
}

int watch_command(struct options *o, struct diag *d)
{
	struct suppressions s = {0};
	int rc = 0;

	if (o->watch.suppressions)
		rc = file_map(o->watch.suppressions, &s.file, E_CONFIG, d);
	if (!rc)
		rc = o->after_dashes ? watch_program(o, &s, d) : watch_process_memory(o, &s, d);
	if (o->watch.suppressions)
		file_unmap(&s.file);
	return rc;
}
