/* SPDX-License-Identifier: Apache-2.0 */
/* infer check -- COMMAND: watches how another program uses CUDA; infer check --pid: watches its memory. */
#include "cmd/watch/watch.h"

#include "base/clock.h"
#include "base/str.h"
#include "cmd/options/subcommand.h"
#include "watch/library.h"
#include "watch/watch.h"
#include "cmd/output/output.h"
#include "cmd/watch/suppressions.h"
#include "cmd/output/watchdog.h"
#include "session/backends.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
	SIGNAL_STATUS = 128
}; /* base of the exit status of a program that a signal ended; the signal's number is added */

/* The state that the reports need. */
struct view {
	struct options *o;
	struct known_list known;
	size_t suppressed;
};

/* ---- the report */

/* Returns the kinds of findings to look for, which --contexts and --leak restrict. */
static struct watch_options wanted_findings(const struct options *o)
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

static double seconds_of(const struct watch_process *p)
{
	return fmax(p->ledger.seconds, p->to - p->from);
}

/* Returns true if the process ended normally: it reported its end, or called _exit(). */
static bool ended_normally(const struct watch_process *p)
{
	return p->ledger.ended ||
	       (p->shared && __atomic_load_n(&p->shared->exited, __ATOMIC_RELAXED));
}

/*
 * Describes how the process ended, as the rest of a line. `over` is set if the program that infer
 * started has ended.
 */
static const char *end_text(const struct watch *w, const struct watch_process *p, bool over,
			    struct arena *a)
{
	bool signalled = over && p->ledger.pid == w->pid && WIFSIGNALED(w->status);

	if (ended_normally(p))
		return "";
	if (p->replaced)
		return "; it replaced itself by another program (exec)";
	if (signalled)
		return arena_printf(a, "; ended by signal %d (%s)", WTERMSIG(w->status),
				    strsignal(WTERMSIG(w->status)));
	if (!watch_lives(p))
		return "; it did not end normally";
	return over ? "; it is still running, and no longer watched" : "";
}

static void print_process(const struct watch *w, const struct watch_process *p, FILE *f,
			  struct arena *a, bool over)
{
	const struct ledger *l = &p->ledger;
	const struct watch_shared *s = p->shared;

	fprintf(f, "process %d%s%s%s: %.1f s", l->pid, l->program ? " (" : "",
		l->program ? l->program : "", l->program ? ")" : "", seconds_of(p));
	if (s)
		fprintf(f, ", %llu calls, %llu launches, %llu copies, %llu failed",
			(unsigned long long)s->calls, (unsigned long long)s->launches,
			(unsigned long long)s->copies, (unsigned long long)s->failures);
	fprintf(f, ", %zu context%s%s\n", l->ncontexts, l->ncontexts == 1 ? "" : "s",
		end_text(w, p, over, a));
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
			"  note        %llu events did not fit into the buffer: some contexts and streams have no name\n",
			(unsigned long long)s->unsaid);
	if (s && s->forgotten)
		fprintf(f,
			"  note        %llu objects did not fit into the tables: sums may be too small\n",
			(unsigned long long)s->forgotten);
}

/* Names the caching allocators in use, each setting once: memory that a cache keeps looks the same whether it is used or not. */
static void print_caches(const struct watch_process *p, FILE *f)
{
	const char *printed[8];
	size_t n = 0;

	for (size_t i = 0; i < p->ncallers; i++) {
		const struct watch_caller *c = &p->caller[i];
		const char *cache = c->bytes.peak > 0 ? ledger_cache(c->site->by) : NULL;
		bool again = !cache || n == sizeof(printed) / sizeof(*printed);
		for (size_t k = 0; k < n && !again; k++)
			again = strcmp(strchr(printed[k], ':'), strchr(cache, ':')) == 0;
		if (again)
			continue;
		printed[n++] = cache;
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
				ledger_by(&p->ledger, a, s->by));
	}
}

static void print_summary(const struct watch *w, const struct options *o, FILE *f, bool over)
{
	struct arena a = {0};

	if (!w->nprocesses)
		fprintf(f, "no CUDA call of %s was seen%s\n", w->argv[0],
			over ? " (a program that is linked statically or clears its environment cannot be watched)"
			     : " so far");
	for (size_t i = 0; i < w->nprocesses; i++) {
		struct watch_process *p = &w->process[i];
		uint64_t calls = p->shared ? __atomic_load_n(&p->shared->calls, __ATOMIC_RELAXED) : 0;
		print_process(w, p, f, &a, over);
		if (!over)
			fprintf(f, "  calls       %llu since the last report\n",
				(unsigned long long)(calls - p->told));
		p->told = calls;
		print_caches(p, f);
		if (o->verbose)
			print_callers(p, f, &a);
	}
	if (over && w->left)
		fprintf(f, "processes that are still running use %s\n", w->dir);
	arena_free(&a);
}

/* Writes a series with at most about max_points points, because a process may have hundreds of callers. */
static void write_over_time(struct json *j, const struct series *s, size_t max_points)
{
	size_t step = s->n / max_points + 1;

	json_object(j, "over_time");
	json_array(j, "seconds");
	for (size_t i = 0; i < s->n; i += step)
		json_number(j, NULL, s->x[i]);
	json_end(j, ']');
	json_array(j, "bytes");
	for (size_t i = 0; i < s->n; i += step)
		json_number(j, NULL, s->y[i]);
	json_end(j, ']');
	json_end(j, '}');
}

static void write_callers(struct json *j, const struct watch_process *p, const char *const *names)
{
	struct arena a = {0};

	json_array(j, "callers");
	for (size_t i = 0; i < p->ncallers; i++) {
		const struct watch_site *c = p->caller[i].site;
		json_object(j, NULL);
		json_string(j, "by", ledger_by(&p->ledger, &a, c->by));
		json_string(j, "kind", names[c->kind % WATCH_KINDS]);
		json_uint(j, "bytes", c->live_bytes);
		json_uint(j, "live", c->live);
		json_uint(j, "made", c->made);
		write_over_time(j, &p->caller[i].bytes, 64);
		json_end(j, '}');
	}
	json_end(j, ']');
	arena_free(&a);
}

static void write_uses(struct json *j, const struct ledger *l, const struct ledger_context *c,
		       struct arena *a)
{
	json_array(j, "uses");
	for (size_t i = 0; i < l->nothers; i++) {
		const struct event *e = &l->other_event[i];
		if (strcmp(e->kind, "context-use") != 0 || event_handle(e, "context") != c->handle ||
		    e->seconds < c->born || (c->gone >= 0 && e->seconds > c->gone))
			continue;
		json_object(j, NULL);
		json_string(j, "call", event_text(e, "call", 0));
		json_string(j, "by", ledger_by(l, a, event_text(e, "by", 0)));
		json_int(j, "thread", e->thread);
		json_number(j, "seconds", e->seconds);
		json_end(j, '}');
	}
	json_end(j, ']');
}

/* Writes each context: who created it, when and in which thread, who used it first, and its end. */
static void write_contexts(struct json *j, const struct ledger *l)
{
	struct arena a = {0};

	json_array(j, "context_list");
	for (size_t i = 0; i < l->ncontexts; i++) {
		const struct ledger_context *c = &l->context[i];
		json_object(j, NULL);
		json_string(j, "handle", arena_printf(&a, "0x%llx", (unsigned long long)c->handle));
		if (c->known) {
			json_bool(j, "primary", c->primary);
			json_int(j, "device", c->device);
			json_string(j, "call", c->call);
		}
		json_string(j, "by", ledger_by(l, &a, c->by));
		json_int(j, "thread", c->thread);
		json_number(j, "seconds", c->born);
		if (c->cost > 0)
			json_int(j, "cost_bytes", c->cost);
		if (c->gone >= 0) {
			json_number(j, "gone_seconds", c->gone);
			json_string(j, "gone_by", ledger_by(l, &a, c->gone_by));
		}
		write_uses(j, l, c, &a);
		json_end(j, '}');
	}
	json_end(j, ']');
	arena_free(&a);
}

static void write_process(struct json *j, const struct watch_process *p)
{
	static const char *const names[WATCH_KINDS] = {"device", "pinned", "managed"};
	const struct watch_shared *s = p->shared;

	json_object(j, NULL);
	json_int(j, "pid", p->ledger.pid);
	json_string(j, "program", p->ledger.program);
	json_number(j, "seconds", seconds_of(p));
	json_bool(j, "ended", ended_normally(p));
	json_int(j, "cupti", p->ledger.cupti);
	json_uint(j, "contexts", p->ledger.ncontexts);
	write_contexts(j, &p->ledger);
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
			write_over_time(j, &p->kind[k], SERIES_MOST);
			json_end(j, '}');
		}
		json_object(j, "host_private");
		if (p->host.n) { /* there are no samples of a process that ended at once */
			json_uint(j, "bytes", (uint64_t)p->host.last);
			json_uint(j, "peak", (uint64_t)p->host.peak);
		}
		write_over_time(j, &p->host, SERIES_MOST);
		json_end(j, '}');
		json_end(j, '}');
	}
	write_callers(j, p, names);
	json_end(j, '}');
}

static void write_suppressions(struct json *j, const struct view *v)
{
	if (!v->known.path)
		return;
	json_uint(j, "suppressed", v->suppressed);
	json_array(j, "unused_suppressions");
	for (size_t i = 0; i < v->known.n; i++)
		if (!v->known.v[i].used)
			json_int(j, NULL, v->known.v[i].line);
	json_end(j, ']');
}

static void write_document(const struct watch *w, const struct view *v, const struct diag *d)
{
	struct json j;

	json_envelope_begin(&j, v->o, d);
	json_array(&j, "program");
	for (size_t i = 0; w->argv && w->argv[i]; i++)
		json_string(&j, NULL, w->argv[i]);
	json_end(&j, ']');
	json_int(&j, "status", v->o->status);
	json_number(&j, "seconds", w->seconds);
	write_suppressions(&j, v);
	json_array(&j, "processes");
	for (size_t i = 0; i < w->nprocesses; i++)
		write_process(&j, &w->process[i]);
	json_end(&j, ']');
	json_envelope_end(&j, d);
}

/* Prints an intermediate report, on stderr because stdout belongs to the program. */
static void report_now(void *arg, struct watch *w)
{
	struct view *v = arg;
	const struct watch_options what = wanted_findings(v->o);
	struct diag d = {0};

	fprintf(stderr, "infer: after %.1f s\n", (double)(clock_ns() - w->start) / 1e9);
	watch_findings(w, &what, &d);
	known_suppress(&v->known, &d);
	print_summary(w, v->o, stderr, false);
	diag_print(&d, stderr, output_color(v->o, stderr));
	diag_free(&d);
}

static void apply_suppressions(struct view *v, struct diag *d)
{
	v->suppressed = known_suppress(&v->known, d);
	if (v->o->watch.suppress_all)
		known_write(v->o->watch.suppress_all, d);
}

static void print_suppressions(const struct view *v)
{
	if (v->suppressed)
		fprintf(stderr, "%zu finding%s suppressed\n", v->suppressed,
			v->suppressed == 1 ? "" : "s");
	for (size_t i = 0; i < v->known.n; i++) {
		const struct known *k = &v->known.v[i];
		if (!k->used)
			fprintf(stderr, "%s:%d: '%s%s%s' matched no finding\n", v->known.path,
				k->line, k->id, k->pattern ? " " : "", k->pattern ? k->pattern : "");
	}
}

/* ---- the command */

static int exit_status_of(int wait_status)
{
	return WIFSIGNALED(wait_status) ? SIGNAL_STATUS + WTERMSIG(wait_status)
					: WEXITSTATUS(wait_status);
}

/*
 * Returns the size of the smallest malloc block to track, or 0 to track none. Smaller blocks are
 * too many, and are rarely copied to a GPU.
 */
static size_t min_tracked_block(int which)
{
	static const size_t least[] = {
		[WATCH_HEAP_OFF] = 0, [WATCH_HEAP_ON] = 512, [WATCH_HEAP_EVERY] = 64};

	return least[which];
}

static int fail_without_device(const char *program, const struct diag *none, struct diag *d)
{
	const char *why = none->first && none->first->message ? none->first->message : "no device";

	return FAIL(d, E_DEVICE,
		    .message = fmt(d, "'%s' was not started: there is no CUDA device to watch (%s)",
				   program, why));
}

static struct watch make_watch(struct view *v, const char **argv, const struct watch_options *what)
{
	const struct options *o = v->o;

	return (struct watch){
		.argv = argv,
		.what = what->ledger.calls ? WATCH_ALL
					   : (what->ledger.contexts ? WATCH_CONTEXTS : 0u) |
						     (what->memory ? WATCH_MEMORY : 0u),
		.sync_launch = o->config.sync == SYNC_LAUNCH,
		.heap = what->ledger.calls ? min_tracked_block(o->watch.heap) : 0,
		.interval = isnan(o->watch.interval) ? 0 : o->watch.interval,
		.report = report_now,
		.arg = v,
	};
}

/* Reports the findings after the program has ended. */
static void report_end(struct view *v, struct watch *w, const struct watch_options *what,
		       struct diag *d)
{
	struct options *o = v->o;

	o->status = exit_status_of(w->status);
	watch_findings(w, what, d);
	apply_suppressions(v, d);
	if (w->more)
		WARN(d, E_WATCH_EXEC,
		     .message = fmt(
			     d, "%zu more processes used CUDA but were not watched, because %zu already were",
			     w->more, w->nprocesses));
	if (w->timed_out)
		FAIL(d, E_TIMEOUT,
		     .message = fmt(d,
				    "'%s' was not done within the %g s of --timeout and was ended; "
				    "the results so far are reported",
				    w->argv[0], o->timeout));
	if (o->json)
		write_document(w, v, d);
	else if (!o->quiet)
		print_summary(w, o, stderr, true);
	if (!o->quiet)
		print_suppressions(v);
}

static int watch_program(struct view *v, struct diag *d)
{
	struct options *o = v->o;
	struct diag none = {0};
	const char **argv = arena_new_n(&o->arena, const char *, o->noperands + 1);
	int status;

	for (size_t i = 0; i < o->noperands; i++)
		argv[i] = o->operand[i];
	/* opening the driver sets this variable; if the user did not set it, the program must not inherit it */
	bool set_by_user = getenv("CUDA_MODULE_LOADING");
	bool device = accelerator_found(&none);
	int rc = device ? 0 : fail_without_device(argv[0], &none, d);
	diag_free(&none);
	if (rc) {
		o->status = code_exit(E_DEVICE);
		o->status_stands = true;
		return rc;
	}
	struct watch_options what = wanted_findings(o);
	struct watch w = make_watch(v, argv, &what);
	w.own = set_by_user ? NULL : "CUDA_MODULE_LOADING";
	rc = watch_run(&w, &status, d);
	if (rc == -E_WATCH_EXEC || rc == -E_OUTPUT)
		o->status = status;
	else if (rc)
		o->status = code_exit((enum code) - rc);
	o->status_stands =
		rc != 0; /* --error-exitcode does not apply to a program that could not be started */
	if (!rc)
		report_end(v, &w, &what, d);
	watch_free(&w);
	return rc;
}

/* ---- watching a running process: --pid */

static const char *verdict_text(const struct series *s, double noise)
{
	static const char *const texts[] = {[VERDICT_SHORT] = "too short a time for a verdict",
					    [VERDICT_STABLE] = "stable",
					    [VERDICT_FLAT] = "grew and then stayed flat",
					    [VERDICT_LEAK] = "it keeps growing"};

	return texts[series_judge(s, noise).kind];
}

static void print_series(FILE *f, const char *what, const struct series *s, double noise,
			 struct arena *a)
{
	if (s->n)
		fprintf(f, "%s %s, at first %s, peak %s (%s)", what, str_bytes(a, (int64_t)s->last),
			str_bytes(a, (int64_t)s->first), str_bytes(a, (int64_t)s->peak),
			verdict_text(s, noise));
}

static void print_pid(FILE *f, const struct watch_process *p)
{
	struct arena a = {0};

	fprintf(f, "process %d: %.1f s, ", p->ledger.pid, p->to);
	print_series(f, "host private", &p->host, watch_host_noise, &a);
	print_series(f, "; device", &p->kind[WATCH_DEVICE], 0, &a);
	fputs(p->kind[WATCH_DEVICE].n ? "\n" : "; device not known\n", f);
	arena_free(&a);
}

static void write_series(struct json *j, const char *key, const struct series *s, double noise)
{
	struct series_verdict v = series_judge(s, noise);

	json_object(j, key);
	json_string(j, "verdict", verdict_text(s, noise));
	json_number(j, "bytes_per_second", v.slope);
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

static void write_pid(const struct view *v, const struct watch_process *p, const struct diag *d)
{
	struct json j;

	json_envelope_begin(&j, v->o, d);
	json_int(&j, "pid", p->ledger.pid);
	write_suppressions(&j, v);
	write_series(&j, "host_private", &p->host, watch_host_noise);
	if (p->kind[WATCH_DEVICE].n)
		write_series(&j, "device", &p->kind[WATCH_DEVICE], 0);
	json_envelope_end(&j, d);
}

static void report_pid_now(void *arg, const struct watch_process *p, double seconds)
{
	struct view *v = arg;
	struct diag d = {0};

	fprintf(stderr, "infer: after %.1f s\n", seconds);
	print_pid(stderr, p);
	watch_memory_findings(p, p->ledger.pid, &d);
	known_suppress(&v->known, &d);
	diag_print(&d, stderr, output_color(v->o, stderr));
	diag_free(&d);
}

static bool is_interrupted(void)
{
	return watchdog_caught() != E_OK;
}

/* Reports an early end as an error. Without --duration, Ctrl-C is the normal way to end. */
static void report_early_end(const struct options *o, struct diag *d)
{
	enum code why = watchdog_caught();

	if (why == E_TIMEOUT)
		FAIL(d, why,
		     .message = fmt(
			     d, "not done within the %g s of --timeout; the results so far are reported",
			     o->timeout));
	else if (why != E_OK && !isnan(o->duration))
		FAIL(d, why, .message = "interrupted; the results so far are reported");
}

static int watch_process_memory(struct view *v, struct diag *d)
{
	struct options *o = v->o;
	const struct watch_look look = {.pid = (int)o->watch.pid,
					.seconds = isnan(o->duration) ? 0 : o->duration,
					.every = 0.1,
					.interval = isnan(o->watch.interval) ? 0 : o->watch.interval,
					.stopped = is_interrupted,
					.report = report_pid_now,
					.arg = v};
	struct watch_process p;

	watchdog_soft();
	int rc = watch_pid(&look, &p, d);
	if (!rc) {
		watch_memory_findings(&p, p.ledger.pid, d);
		apply_suppressions(v, d);
		report_early_end(o, d);
		if (o->json)
			write_pid(v, &p, d);
		else
			print_pid(stdout, &p);
		if (!o->quiet)
			print_suppressions(v);
	}
	watch_gpu_end();
	series_free(&p.host);
	series_free(&p.kind[WATCH_DEVICE]);
	return rc;
}

/* ---- options that cannot be combined */

static int refuse_option(struct diag *d, const char *option, const char *where)
{
	return FAIL(d, E_USAGE, .message = fmt(d, "%s cannot be used with %s", option, where));
}

int watch_misplaced(const struct options *o, struct diag *d)
{
	const struct {
		const char *name;
		bool given;
	} options[] = {{"--interval", !isnan(o->watch.interval)},
		       {"--suppressions", o->watch.suppressions},
		       {"--write-suppressions", o->watch.suppress_all},
		       {"--error-exitcode", o->watch.error_exit != INT_ABSENT}};

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (options[i].given)
			return refuse_option(d, options[i].name,
					     "a model: it applies to -- COMMAND and --pid");
	return 0;
}

/* Refuses options that apply only to a model. */
static int refuse_model_options(const struct options *o, struct diag *d)
{
	const struct check_options *c = &o->check;
	const struct {
		const char *name;
		bool given;
	} options[] = {{"--nan", c->nan},
		       {"--zero", c->zero},
		       {"--layout", c->layout},
		       {"--recreate", c->recreate},
		       {"--bisect", c->bisect},
		       {"--determinism", c->determinism > 0},
		       {"--compare", c->compare},
		       {"--expect", c->expect.n},
		       {"--html", o->html},
		       {"--save", o->save},
		       {"--input", o->input.n},
		       {"--random", o->random.n},
		       {"--shape", o->shape.n},
		       {"--dim", o->dim.n},
		       {"--shapes-sweep", o->sweep.n},
		       {"--data-set", o->data_set}};

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (options[i].given)
			return refuse_option(d, options[i].name,
					     o->after_dashes ? "-- COMMAND: it applies to a model"
							     : "--pid: it applies to a model");
	return 0;
}

int watch_command(struct options *o, struct diag *d)
{
	struct view v = {.o = o};
	int rc = refuse_model_options(o, d);

	if (!rc && o->watch.pid != INT_ABSENT && o->noperands)
		rc = refuse_option(d, "--pid", "a model or a command");
	if (!rc && o->watch.suppressions)
		rc = known_read(&v.known, o->watch.suppressions, &o->arena, d);
	if (!rc)
		rc = o->after_dashes ? watch_program(&v, d) : watch_process_memory(&v, d);
	return rc;
}
