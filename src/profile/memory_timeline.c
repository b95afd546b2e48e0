/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/memory_timeline.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_MOMENTS = 4000 };

static const uint64_t SAMPLE_INTERVAL = 1000000; /* ns between two samples, to begin with */

void timeline_begin(struct timeline *t, uint64_t start)
{
	*t = (struct timeline){.start = start, .statm = proc_open(0), .step = SAMPLE_INTERVAL};
}

static double device_used(const struct runtime *rt)
{
	uint64_t unused = 0, total = 0;

	if (!rt || !rt->backend || !rt->backend->memory || !rt->device ||
	    rt->backend->memory(rt->device, &unused, &total, NULL))
		return 0;
	return (double)(total - unused);
}

static double live_bytes_of_kind(int kind)
{
	double sum = 0;

	for (int p = 0; p < MEM_PURPOSES; p++)
		sum += (double)mem_count((enum mem_kind)kind, (enum mem_purpose)p).live;
	return sum;
}

/* Drops every second sample, and halves the rate of new ones. */
static void drop_every_second_sample(struct timeline *t)
{
	for (int k = 0; k < MOMENTS; k++) {
		for (size_t i = 0; i < t->moment[k].n / 2; i++)
			t->moment[k].v[i] = t->moment[k].v[2 * i];
		t->moment[k].n /= 2;
	}
	t->step *= 2;
}

static void push_sample(struct timeline *t, uint64_t now, double run, double rss, double private,
			double used)
{
	const double v[MOMENTS] = {[AT] = (double)(now - t->start) * 1e-9,
				   [RUN] = run,
				   [RSS] = rss,
				   [PRIVATE] = private,
				   [HOST_COUNTED] = live_bytes_of_kind(MEM_HOST) +
						    live_bytes_of_kind(MEM_PINNED),
				   [DEVICE_COUNTED] = live_bytes_of_kind(MEM_DEVICE),
				   [DEVICE_USED] = used};

	samples_push_row(t->moment, v, MOMENTS);
	if (t->moment[AT].n >= MAX_MOMENTS)
		drop_every_second_sample(t);
}

void timeline_phase(struct timeline *t, const struct runtime *rt, const char *name, uint64_t ns)
{
	struct proc_memory m;

	if (t->nphases == MAX_PHASES)
		return;
	struct record_phase *p = &t->phase[t->nphases++];
	proc_memory(0, &m);
	*p = (struct record_phase){.name = name,
				   .seconds = (double)ns * 1e-9,
				   .rss = (double)m.rss,
				   .private = (double)m.private,
				   .peak = (double)m.peak,
				   .device_used = device_used(rt)};
	for (int k = 0; k < MEM_KINDS; k++)
		for (int i = 0; i < MEM_PURPOSES; i++)
			p->live[k][i] = (double)mem_count((enum mem_kind)k, (enum mem_purpose)i).live;
	push_sample(t, clock_ns(), -1, p->rss, p->private, p->device_used);
}

/*
 * Returns when to take the next sample of a number whose last sample took from `began` until now, so that sampling
 * takes at most a hundredth of the time.
 */
static uint64_t next_time(uint64_t began, uint64_t step)
{
	uint64_t now = clock_ns(), least = 100 * (now - began);

	return now + (step > least ? step : least);
}

/*
 * Returns the device memory in use. The driver answers slowly, and is therefore asked more rarely than once per
 * sample.
 */
static double sampled_device_used(struct timeline *t, const struct runtime *rt, uint64_t now)
{
	if (now >= t->next_driver) {
		uint64_t began = clock_ns();
		t->last_used = device_used(rt);
		t->next_driver = next_time(began, 100 * SAMPLE_INTERVAL);
	}
	return t->last_used;
}

/*
 * Returns the private memory that statm does not count: pages of files that no other process maps. This number is
 * slow to get and nearly constant, so it is read more rarely than once per sample.
 */
static double private_files(struct timeline *t, uint64_t now)
{
	struct proc_memory m;
	uint64_t rss = 0, anonymous = 0;

	if (now >= t->next_private) {
		uint64_t began = clock_ns();
		proc_sample(t->statm, &rss, &anonymous);
		proc_memory(0, &m);
		t->private_files = fmax((double)m.private - (double)anonymous, 0);
		t->next_private = next_time(began, 100 * SAMPLE_INTERVAL);
	}
	return t->private_files;
}

void timeline_sample(struct timeline *t, const struct runtime *rt, uint64_t now, double run,
		     bool always)
{
	uint64_t rss = 0, anonymous = 0;

	if (now < t->next_moment && !always)
		return;
	double used = sampled_device_used(t, rt, now), files = private_files(t, now);
	uint64_t began = clock_ns();
	proc_sample(t->statm, &rss, &anonymous);
	push_sample(t, now, run, (double)rss, files + (double)anonymous, used);
	t->next_moment = next_time(began, t->step);
}

void timeline_store(const struct timeline *t, struct record *r)
{
	struct arena *a = &r->arena;

	r->phase = arena_dup(a, t->phase, sizeof(t->phase));
	r->nphases = t->nphases;
	r->timeline =
		(struct record_timeline){.at = samples_kept(a, &t->moment[AT]),
					 .run = samples_kept(a, &t->moment[RUN]),
					 .rss = samples_kept(a, &t->moment[RSS]),
					 .private = samples_kept(a, &t->moment[PRIVATE]),
					 .host = samples_kept(a, &t->moment[HOST_COUNTED]),
					 .device = samples_kept(a, &t->moment[DEVICE_COUNTED]),
					 .device_used = samples_kept(a, &t->moment[DEVICE_USED]),
					 .n = t->moment[AT].n};
}

void timeline_end(struct timeline *t)
{
	for (int k = 0; k < MOMENTS; k++)
		free(t->moment[k].v);
	if (t->statm >= 0)
		close(t->statm);
}
