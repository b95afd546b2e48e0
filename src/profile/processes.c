/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures in child processes, so that one measurement's memory and libraries cannot disturb the next. A child sends
 * its findings and its record back through a pipe, as JSON.
 */
#include "profile/processes.h"

#include "base/child.h"
#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 100, MAX_RECORD_BYTES = 1 << 30 };

/* ---- the child */

static bool publish_progress(void *arg, double done, const char *step)
{
	struct measuring_shared *p = arg;

	atomic_store(&p->step, step);
	atomic_store(&p->done, done);
	return atomic_load(&p->stop);
}

/* Tells the parent that the child is ready or its turn over, and waits for the next turn. */
static bool wait_for_turn(void *arg)
{
	struct measuring_shared *p = arg;

	sem_post(&p->over);
	while (sem_wait(&p->go) && errno == EINTR)
		;
	return !atomic_load(&p->stop) && !atomic_load(&p->last);
}

enum { TEXTS = 8 };
static const char *const text_keys[TEXTS] = {"model",	"node",	    "op",     "slot",
					     "message", "expected", "actual", "hint"};

static void write_finding(const struct finding *f, struct json *j)
{
	const char *const text[TEXTS] = {f->model,   f->node,	  f->op,     f->slot,
					 f->message, f->expected, f->actual, f->hint};

	json_object(j, NULL);
	json_int(j, "code", (int64_t)f->code);
	json_int(j, "severity", (int64_t)f->severity);
	for (int i = 0; i < TEXTS; i++)
		json_string(j, text_keys[i], text[i]);
	json_array(j, "rows");
	for (size_t i = 0; i < f->nrows; i++) {
		json_object(j, NULL);
		json_string(j, "label", f->rows[i].label);
		json_string(j, "text", f->rows[i].text);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_end(j, '}');
}

static void write_findings(const struct diag *d, struct json *j)
{
	json_array(j, "findings");
	for (const struct finding *f = d->first; f; f = f->next)
		write_finding(f, j);
	json_end(j, ']');
}

/* Runs in the child: measures, and writes findings and record as one JSON object. */
static void measure_and_write(void *arg, FILE *out)
{
	struct measuring *m = arg;
	struct profile_job job = *m->job;
	struct diag d = {0};
	struct json j;

	job.poll = publish_progress;
	job.arg = m->shared;
	if (job.turns)
		job.next_turn = wait_for_turn;
	struct record *r = profile_measure(&job, &d);
	json_begin(&j, out);
	json_object(&j, NULL);
	write_findings(&d, &j);
	if (r)
		record_write(r, &j);
	json_end(&j, '}');
	json_finish(&j);
}

/* ---- the parent */

/* Adds a finding that the child wrote, unless an earlier child has already reported the same one. */
static void add_child_finding(const struct jvalue *v, struct arena *a, struct diag *d)
{
	const struct jvalue *rows = jget(v, "rows");
	struct diag_row *row = arena_new_n(a, struct diag_row, rows ? rows->n + 1 : 1);
	struct finding f = {.code = (enum code)jnumber(v, "code", E_INTERNAL),
			    .severity = (enum severity)jnumber(v, "severity", SEV_ERROR),
			    .rows = row,
			    .file = __FILE__,
			    .line = __LINE__};
	const char **text[TEXTS] = {&f.model,	&f.node,     &f.op,	&f.slot,
				    &f.message, &f.expected, &f.actual, &f.hint};

	for (int i = 0; i < TEXTS; i++)
		*text[i] = jtext(v, text_keys[i]);
	for (const struct jvalue *r = rows ? rows->first : NULL; r; r = r->next)
		row[f.nrows++] = (struct diag_row){jtext(r, "label"), jtext(r, "text")};
	if (f.severity == SEV_ERROR || !diag_find(d, &f))
		(void)diag_add(d, &f);
}

static struct record *parse_measurement(const struct child *child, struct diag *d)
{
	struct arena a = {0};
	const struct jvalue *v =
		child->n ? jread(child->text, child->n, "measurement", E_INTERNAL, &a, NULL) : NULL;
	const struct jvalue *findings = jget(v, "findings");

	for (const struct jvalue *f = findings ? findings->first : NULL; f; f = f->next)
		add_child_finding(f, &a, d);
	struct record *r = v ? record_read(v) : NULL;
	if (!r && !d->errors)
		FAIL(d, E_RUN,
		     .message = child->signal ? fmt(d, "the process that measured ended by signal %d",
						    child->signal)
					      : "the process that measured ended early");
	arena_free(&a);
	return r;
}

bool measuring_begin(struct measuring *m, const struct profile_job *job, struct diag *d)
{
	struct measuring_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	*m = (struct measuring){.job = job, .input_at = lseek(STDIN_FILENO, 0, SEEK_CUR)};
	if (shared == MAP_FAILED)
		return FAIL(d, E_MEMORY, .message = NULL), false;
	m->shared = shared;
	m->running = !sem_init(&shared->go, 1, 0) && !sem_init(&shared->over, 1, 0) &&
		     child_fork(&m->child, MAX_RECORD_BYTES, measure_and_write, m);
	if (m->running)
		return true;
	munmap(shared, sizeof(*shared));
	m->shared = NULL;
	return FAIL(d, E_MEMORY, .message = "no process can be started"), false;
}

void measuring_rewind_input(const struct measuring *m)
{
	if (m->input_at >= 0)
		(void)lseek(STDIN_FILENO, m->input_at, SEEK_SET);
}

/* Reports progress, and tells the child if the caller asks to stop. */
static void report(struct measuring *m, double base, double share)
{
	const struct profile_job *job = m->job;
	const char *step = atomic_load(&m->shared->step);

	if (job->label && *job->label)
		step = job->label;
	if (job->poll && job->poll(job->arg, base + share * atomic_load(&m->shared->done),
				   step ? step : "measure"))
		atomic_store(&m->shared->stop, true);
}

bool measuring_wait(struct measuring *m, double base)
{
	while (m->child.fd >= 0 && !m->child.n) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += POLL_MS * 1000000L;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (!sem_timedwait(&m->shared->over, &until))
			return true;
		report(m, base, 0);
		(void)child_read(&m->child, 0); /* a child that failed sends its findings */
	}
	return false;
}

bool measuring_turn(struct measuring *m, double base)
{
	report(m, base, 0);
	sem_post(&m->shared->go);
	return measuring_wait(m, base);
}

struct record *measuring_end(struct measuring *m, double base, double share, struct diag *d)
{
	struct record *r = NULL;

	if (!m->running)
		return NULL;
	atomic_store(&m->shared->last, true);
	sem_post(&m->shared->go);
	/* a child that was asked to stop is read all the same: it writes what it has measured */
	while (child_read(&m->child, POLL_MS))
		report(m, base, share);
	child_wait(&m->child, INFINITY);
	r = parse_measurement(&m->child, d);
	child_free(&m->child);
	sem_destroy(&m->shared->go);
	sem_destroy(&m->shared->over);
	munmap(m->shared, sizeof(*m->shared));
	/* the child has read inputs from standard input, and the next child will read them again */
	measuring_rewind_input(m);
	m->running = false;
	return r;
}

/* Measures once in a child process, whose progress is reported as `base` plus `share` times the part that is done. */
static struct record *measure_in_child(const struct profile_job *job, double base, double share,
				       struct diag *d)
{
	struct measuring m;

	return measuring_begin(&m, job, d) ? measuring_end(&m, base, share, d) : NULL;
}

struct record *profile_apart(const struct profile_job *job, struct diag *d)
{
	return measure_in_child(job, 0, 1, d);
}

/* ---- rounds */

/*
 * Joins the arrays that get returns for the n records. `to` is r[0], and *count may be one of its members, so *count
 * is written last.
 */
static const double *joined(struct record *to, const struct record *const *r, size_t n,
			    const double *(*get)(const struct record *, size_t *), size_t *count)
{
	size_t sum = 0, at = 0, k = 0;

	for (size_t i = 0; i < n; i++) {
		get(r[i], &k);
		sum += k;
	}
	double *v = arena_new_n(&to->arena, double, sum + 1);
	for (size_t i = 0; i < n; i++) {
		const double *from = get(r[i], &k);
		if (k && from)
			memcpy(v + at, from, k * sizeof(*v));
		at += from ? k : 0;
	}
	*count = at;
	return v;
}

static const double *get_time(const struct record *r, size_t *n)
{
	*n = r->npoints ? r->point[0].n : 0;
	return r->npoints ? r->point[0].time : NULL;
}

static const double *get_turns(const struct record *r, size_t *n)
{
	*n = r->npoints ? r->point[0].nturns : 0;
	return r->npoints ? r->point[0].turn_mean : NULL;
}

static const double *get_delay(const struct record *r, size_t *n)
{
	*n = r->npoints && r->point[0].delay ? r->point[0].n : 0;
	return r->npoints ? r->point[0].delay : NULL;
}

static const double *get_cpu(const struct record *r, size_t *n)
{
	*n = r->npoints && r->point[0].cpu ? r->point[0].n : 0;
	return r->npoints ? r->point[0].cpu : NULL;
}

static const double *get_reference0(const struct record *r, size_t *n)
{
	*n = r->nreference;
	return r->reference_time[0];
}

static const double *get_reference_wait0(const struct record *r, size_t *n)
{
	*n = r->reference_wait[0] ? r->nreference : 0;
	return r->reference_wait[0];
}

static const double *get_reference1(const struct record *r, size_t *n)
{
	*n = r->nreference;
	return r->reference_time[1];
}

static const double *get_reference_wait1(const struct record *r, size_t *n)
{
	*n = r->reference_wait[1] ? r->nreference : 0;
	return r->reference_wait[1];
}

static const double *get_reference2(const struct record *r, size_t *n)
{
	*n = r->nreference;
	return r->reference_time[2];
}

static const double *get_reference_wait2(const struct record *r, size_t *n)
{
	*n = r->reference_wait[2] ? r->nreference : 0;
	return r->reference_wait[2];
}

static const double *get_observed(const struct record *r, size_t *n)
{
	*n = r->nobserved;
	return r->observed_time;
}

/*
 * Finds the same node in record r by its name, operator and place. Its kernel may be another, as each process chooses
 * kernels anew.
 */
static const struct record_node *same_node(const struct record *r, const struct record_node *n,
					   size_t near)
{
	for (size_t k = 0; k < r->nnodes; k++) {
		const struct record_node *m = &r->node[(near + k) % r->nnodes];
		if (!strcmp(m->name, n->name) && !strcmp(m->op, n->op) && !strcmp(m->place, n->place))
			return m;
	}
	return NULL;
}

static void join_nodes(struct record *to, const struct record *const *r, size_t n)
{
	struct record_node *node =
		arena_dup(&to->arena, r[0]->node, (r[0]->nnodes + 1) * sizeof(*node));

	for (size_t k = 0; k < to->nnodes; k++) {
		double *v = arena_new_n(&to->arena, double, to->nobserved + 1);
		size_t at = 0;
		for (size_t i = 0; i < n; i++) {
			const struct record_node *m = same_node(r[i], &node[k], k);
			for (size_t s = 0; m && s < m->n && at < to->nobserved; s++)
				v[at++] = m->time[s];
		}
		node[k].time = v;
		node[k].n = at;
	}
	to->node = node;
}

/* Keeps the smallest memory of each phase, which is the least that a process needs. */
static void keep_least_phases(struct record *to, const struct record *r)
{
	struct record_phase *p = arena_dup(&to->arena, to->phase, (to->nphases + 1) * sizeof(*p));

	for (size_t k = 0; k < to->nphases && k < r->nphases; k++) {
		p[k].rss = fmin(p[k].rss, r->phase[k].rss);
		p[k].private = fmin(p[k].private, r->phase[k].private);
		p[k].peak = fmin(p[k].peak, r->phase[k].peak);
	}
	to->phase = p;
}

static void join_references(struct record *to, const struct record *const *r, size_t n)
{
	static const double *(*const get[RECORD_REFERENCES][2])(const struct record *, size_t *) = {
		{get_reference0, get_reference_wait0},
		{get_reference1, get_reference_wait1},
		{get_reference2, get_reference_wait2}};
	const double *time[RECORD_REFERENCES], *delay[RECORD_REFERENCES];
	size_t all = 0, delays[RECORD_REFERENCES];

	for (int k = 0; k < RECORD_REFERENCES;
	     k++) { /* runs before to->nreference, which the getters read, changes */
		time[k] = joined(to, r, n, get[k][0], &all);
		delay[k] = joined(to, r, n, get[k][1], &delays[k]);
	}
	to->nreference = all;
	for (int k = 0; k < RECORD_REFERENCES; k++) {
		to->reference_time[k] = time[k];
		to->reference_wait[k] = delays[k] == all ? delay[k] : NULL;
	}
}

void records_join(struct record *to, const struct record *const *r, size_t n)
{
	struct record_point *p = &to->point[0];
	size_t *rounds = arena_new_n(&to->arena, size_t, n + 1);

	for (size_t i = 0; i < n; i++)
		rounds[i] = r[i]->npoints ? r[i]->point[0].n : 0;
	p->rounds = rounds;
	p->nrounds = n;
	size_t delays, cpus;
	const double *delay = joined(to, r, n, get_delay, &delays);
	const double *cpu = joined(to, r, n, get_cpu, &cpus);
	p->time = joined(to, r, n, get_time, &p->n);
	p->delay = delays == p->n ? delay : NULL;
	p->cpu = cpus == p->n ? cpu : NULL;
	p->start = NULL;
	p->turn_mean = joined(to, r, n, get_turns, &p->nturns);
	join_references(to, r, n);
	to->observed_time = joined(to, r, n, get_observed, &to->nobserved);
	join_nodes(to, r, n);
	for (size_t i = 1; i < n; i++) {
		to->stopped |= r[i]->stopped;
		to->forced += r[i]->forced;
		p->span += r[i]->npoints ? r[i]->point[0].span : 0;
		p->waited += r[i]->npoints ? r[i]->point[0].waited : 0;
		keep_least_phases(to, r[i]);
	}
}

struct record *profile_rounds(const struct profile_job *job, size_t n, struct diag *d)
{
	struct profile_job one = *job;
	struct record **r = calloc(n + 1, sizeof(struct record *)), *to = NULL;
	size_t got = 0;

	one.duration = job->duration / (double)n;
	/* each process has a first run, and then warms up */
	one.warm_time = job->warm_time / (double)n;
	one.iterations = job->iterations ? (job->iterations + (int64_t)n - 1) / (int64_t)n : 0;
	while (r && got < n) {
		r[got] = measure_in_child(&one, (double)got / (double)n, 1 / (double)n, d);
		if (!r[got] || r[got++]->stopped)
			break;
		one.trace = NULL; /* of the first round */
		one.peak = false;
		one.hash = false;
		one.expect = NULL;
	}
	if (got && (got == n || r[got - 1]->stopped)) {
		to = r[0];
		if (to->npoints)
			records_join(to, (const struct record *const *)r, got);
	}
	for (size_t i = to ? 1 : 0; r && i < got; i++)
		record_free(r[i]);
	free(r);
	return to;
}

/*
 * Joins the measurements of b to those of a, and appends b's rounds (number of runs from each process) to a's.
 * Frees b and returns a.
 */
struct record *record_joined(struct record *a, struct record *b)
{
	const struct record *both[2] = {a, b};
	struct record_point *p = &a->point[0], *q = &b->point[0];
	size_t n = p->nrounds + q->nrounds, whole[2] = {p->n, q->n};
	size_t *rounds = arena_new_n(&a->arena, size_t, n + 3);

	if (p->nrounds && q->nrounds) {
		memcpy(rounds, p->rounds, p->nrounds * sizeof(*rounds));
		memcpy(rounds + p->nrounds, q->rounds, q->nrounds * sizeof(*rounds));
	} else {
		memcpy(rounds, whole, sizeof(whole));
		n = 2;
	}
	records_join(a, both, 2);
	p->rounds = rounds;
	p->nrounds = n;
	record_free(b);
	return a;
}
