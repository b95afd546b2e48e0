/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures several models in turns. On a machine that others use, the load changes within seconds: of two models that are measured one
 * after the other, one easily seems twice as fast. Turns of a thirtieth of the time share the load fairly. In each cycle of
 * turns the order is drawn, so that neither drift nor a rhythm of the load favours one. Two processes of the same model differ as well,
 * by where their memory lies; so new ones are started now and then, if that costs no more time than the measurement itself.
 */
#include "profile/processes.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MIN_TURNS = 10, MAX_TURNS = 30, MAX_PROCESSES = 5, MAX_AT_ONCE = 16 };

/* Jobs that take turns. */
struct contest {
	const struct profile_job *wanted; /* as the caller described them */
	struct profile_job *job;	  /* as this round's processes measure them */
	struct measuring *child;
	struct record **got; /* what process i of job k measured, at k * MAX_PROCESSES + i */
	struct diag *d;
	size_t *order; /* in which the jobs take their turns of a cycle */
	size_t n;
	size_t parts; /* into which the time or the runs that were asked for are cut: a turn measures one */
	size_t turns, processes; /* of each job, in all */
	double starting, cycle; /* seconds that it took to start all of them, and that a cycle takes */
	uint64_t seed;
	bool stopped;
};

/* ---- what is possible */

static uint64_t file_size(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

/* Whether memory holds all models at once: a model takes about its file's size twice while it starts. */
static bool memory_suffices(const struct profile_job *job, size_t n)
{
	uint64_t sum = 0, available = proc_available();

	for (size_t k = 0; k < n; k++)
		sum += 2 * file_size(job[k].path);
	return !available || sum < available / 2;
}

/*
 * Returns how many turns share the time or the runs. Turns of less than a tenth of a second would hold too few of the slices in which
 * the system gives the cores to one program and to the next.
 */
static size_t turns_for(const struct profile_job *job)
{
	size_t runs = (size_t)job->iterations;

	if (!runs)
		return (size_t)fmin(fmax(job->duration / 0.1, MIN_TURNS), MAX_TURNS);
	size_t each = (runs + MAX_TURNS - 1) / MAX_TURNS;
	return (runs + each - 1) / each;
}

/* ---- rounds of processes */

static void draw_order(struct contest *c)
{
	for (size_t k = 0; k < c->n; k++) {
		size_t other = (size_t)(stats_random(&c->seed) % (k + 1));
		c->order[k] = c->order[other];
		c->order[other] = k;
	}
}

static double seconds_since(uint64_t begin)
{
	return (double)(clock_ns() - begin) * 1e-9;
}

/* Starts a process for each job that has not failed, one after the other, each until it is ready for its first turn. */
static void start_all(struct contest *c, size_t round, double done)
{
	uint64_t begin = clock_ns();

	for (size_t k = 0; k < c->n; k++) {
		struct profile_job *job = &c->job[k];
		*job = c->wanted[k];
		job->turns = (int64_t)c->parts;
		if (round) { /* the first process tells these once for all */
			job->observed = 0;
			job->peak = job->hash = false;
			job->warm_time /= (double)c->processes;
		}
		if (round && !c->got[k * MAX_PROCESSES + round - 1])
			continue;
		if (measuring_begin(&c->child[k], job, &c->d[k]) && measuring_wait(&c->child[k], done))
			measuring_rewind_input(&c->child[k]);
	}
	c->starting = seconds_since(begin);
}

static bool was_stopped(const struct contest *c)
{
	bool stopped = false;

	for (size_t k = 0; k < c->n; k++)
		stopped |= c->child[k].running && atomic_load(&c->child[k].shared->stop);
	return stopped;
}

/* One turn of each job. */
static void run_cycle(struct contest *c, double done)
{
	uint64_t begin = clock_ns();

	draw_order(c);
	for (size_t k = 0; k < c->n && !c->stopped; k++) {
		struct measuring *m = &c->child[c->order[k]];
		if (m->running)
			(void)measuring_turn(m, done);
		c->stopped = was_stopped(c);
	}
	c->cycle = seconds_since(begin);
}

/*
 * Decides after the first cycle: fewer turns if each takes longer than planned, and processes whose starts together take no
 * longer than the turns. Fewer than three processes would tell nothing of how they differ.
 */
static void decide(struct contest *c)
{
	enum { MIN_CYCLES = 6, MIN_PROCESSES = 3 };
	double wanted = c->wanted->duration > 0 ? c->wanted->duration * (double)c->n : INFINITY;
	double cycles = fmax(MIN_CYCLES, fmin((double)c->turns, ceil(wanted / c->cycle)));

	if (!c->wanted->iterations)
		c->turns = (size_t)cycles;
	double spare = floor(fmin(wanted, (double)c->turns * c->cycle) / c->starting);
	size_t most = spare < MAX_PROCESSES ? (size_t)spare : MAX_PROCESSES;
	c->processes = 1;
	for (size_t k = MIN_PROCESSES; k <= most; k++)
		if (c->turns >= 2 * k)
			c->processes = k;
	if (!c->wanted->iterations)
		c->turns += (c->processes - c->turns % c->processes) % c->processes;
	else
		while (c->turns % c->processes) /* the number of runs was given */
			c->processes--;
	c->processes = c->processes < MIN_PROCESSES ? 1 : c->processes;
}

/* Runs the cycles of one round, with a process for each job. */
static void run_round(struct contest *c, size_t round)
{
	double base = (double)round / (double)c->processes;

	start_all(c, round, base);
	c->stopped |= was_stopped(c);
	for (size_t k = 0; k < c->turns / c->processes && !c->stopped; k++) {
		run_cycle(c, base + (double)k / (double)c->turns);
		if (!round && !k)
			decide(c);
	}
	for (size_t k = 0; k < c->n; k++)
		c->got[k * MAX_PROCESSES + round] = measuring_end(&c->child[k], base, 0, &c->d[k]);
}

/* Returns the record of job k, joined of those of its processes; NULL if one of them failed. */
static struct record *take_record(struct contest *c, size_t k, size_t rounds)
{
	struct record **got = c->got + k * MAX_PROCESSES, *to = got[0];

	for (size_t i = 0; i < rounds; i++)
		to = got[i] ? to : NULL;
	if (to && to->npoints) {
		if (rounds > 1)
			records_join(to, (const struct record *const *)got, rounds);
		to->point[0].process_turns = (int64_t)(c->turns / c->processes);
	}
	for (size_t i = 0; i < rounds; i++)
		if (got[i] != to)
			record_free(got[i]);
	return to;
}

bool profile_in_turns(const struct profile_job *job, size_t n, struct record **r, struct diag *d)
{
	struct arena a = {0};
	size_t parts = turns_for(job), round = 0;

	if (n > MAX_AT_ONCE || !memory_suffices(job, n))
		return false;
	struct contest c = {.wanted = job,
			    .job = arena_new_n(&a, struct profile_job, n),
			    .child = arena_new_n(&a, struct measuring, n),
			    .order = arena_new_n(&a, size_t, n),
			    .got = arena_new_n(&a, struct record *, n * MAX_PROCESSES),
			    .d = d,
			    .n = n,
			    .parts = parts,
			    .turns = parts,
			    .processes = 1,
			    .seed = 20240311};
	while (round < c.processes && !c.stopped)
		run_round(&c, round++);
	for (size_t k = 0; k < n; k++)
		r[k] = take_record(&c, k, round);
	arena_free(&a);
	return true;
}
