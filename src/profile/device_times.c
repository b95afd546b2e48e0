/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/device_times.h"

#include "backend/observe.h"
#include "base/clock.h"
#include "plan/segment.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_MISSES = 3, CALIBRATION_MARKS = 16 };
/* The device is held for at most MAX_HOLD, and for SPARE_HOLD longer than the last run took to queue. */
static const uint64_t MAX_HOLD = 50000000, SPARE_HOLD = 200000; /* ns */
static const uint64_t SPIN = 20000, MAX_LAUNCH = 5000;		/* ns */
/* tag of the launches that hold the device, which belong to no step */
static const uint64_t HOLD_TAG = UINT64_MAX;

/* A step on the device. Its time is known once the stream has passed its two events. */
struct pending {
	uint64_t tag;
	size_t from, to; /* events */
	bool copy;
};

struct device_times {
	const struct runtime *rt;
	struct arena arena;
	struct event **mark;
	size_t nmarks, used;
	struct pending *pending;
	size_t npending, cap_pending;
	size_t open[MAX_DEPTH]; /* indices of the marks at the begin of the steps that are running */
	int depth;
	uint64_t start,
		last; /* host's clock_ns at the begin of the run and at the end of the last step */
	uint64_t empty; /* ns between two events with nothing in between */
	uint64_t launch; /* ns that a kernel launch between two events adds, besides the kernel's own time */
	int err;
	struct diag *diag;
	struct activities *activities;
	struct diag why; /* why CUPTI is not used */
	bool tried;
	bool copied; /* the last work given to the device was a copy */
	/* The members below are for holding the stream until the host has queued a run. */
	struct hold *hold; /* NULL: never */
	bool holding;
	int misses;
	size_t steps,
		expected;  /* number of top-level steps of this run so far, and of the run before */
	uint64_t queueing; /* ns that it took to queue the run before */
	uint64_t until;	   /* clock_ns at which a hold ends by itself */
	uint64_t over; /* clock_ns at which the hold was ended; 0 if nobody ended it before `until` */
};

/* ---- marks in the stream */

static size_t mark(struct device_times *t)
{
	const struct backend *b = t->rt->backend;

	if (t->used == t->nmarks && !t->err) {
		struct event *e = b->event_new(t->rt->device, t->diag);
		if (!e) {
			t->err = -E_DEVICE;
			return 0;
		}
		t->mark = arena_append(&t->arena, t->mark, t->nmarks, sizeof(*t->mark));
		t->mark[t->nmarks++] = e;
	}
	if (!t->err)
		t->err = b->mark(t->rt->stream, t->mark[t->used], t->diag);
	return t->used++;
}

static uint64_t between(struct device_times *t, size_t from, size_t to)
{
	uint64_t ns = 0;

	if (!t->err)
		t->err = t->rt->backend->elapsed(t->mark[from], t->mark[to], &ns, t->diag);
	return ns;
}

static void push_pending(struct device_times *t, uint64_t tag, size_t from, size_t to, bool copy)
{
	if (t->npending == t->cap_pending) {
		size_t cap = t->cap_pending ? t->cap_pending * 2 : 256;
		t->pending = arena_grow(&t->arena, t->pending, t->npending, cap, sizeof(*t->pending));
		t->cap_pending = cap;
	}
	t->pending[t->npending++] = (struct pending){tag, from, to, copy};
}

/* ---- holding the device */

static void begin_own_launch(struct device_times *t)
{
	if (t->activities)
		t->rt->backend->activities->push(t->activities, HOLD_TAG);
}

static void end_own_launch(struct device_times *t)
{
	if (t->activities)
		t->rt->backend->activities->pop(t->activities);
}

static void hold(struct device_times *t, uint64_t ns)
{
	ns = ns < MAX_HOLD ? ns : MAX_HOLD;
	begin_own_launch(t);
	if (!t->err)
		t->err = t->rt->backend->hold->begin(t->hold, ns, t->diag);
	t->until = clock_ns() + ns;
	end_own_launch(t);
	t->holding = !t->err;
	t->over = 0;
}

static void release(struct device_times *t)
{
	uint64_t now = clock_ns();

	t->rt->backend->hold->end(t->hold);
	t->over = now < t->until ? now : 0;
}

/* Queues marks while the device is held, with a kernel of SPIN ns between two marks or with nothing between them. */
static void queue_marks(struct device_times *t, bool kernels)
{
	t->used = 0;
	hold(t, MAX_HOLD);
	for (int i = 0; i < CALIBRATION_MARKS; i++) {
		if (i && kernels && !t->err)
			t->err = t->rt->backend->hold->spin(t->hold, SPIN, t->diag);
		mark(t);
	}
	release(t);
}

/* Measures the time between two events with nothing between them, and what a kernel launch adds to it besides the kernel's time. */
static void calibrate_marks(struct device_times *t)
{
	uint64_t best = UINT64_MAX, sum = 0;

	t->err = 0;
	if (!t->hold)
		return;
	queue_marks(t, false);
	for (size_t i = 1; i < CALIBRATION_MARKS; i++) {
		uint64_t ns = between(t, i - 1, i);
		best = ns < best ? ns : best;
	}
	queue_marks(t, true);
	for (size_t i = 1; i < CALIBRATION_MARKS; i++)
		sum += between(t, i - 1, i);
	t->empty = t->err ? 0 : best;
	uint64_t mean = t->err ? 0 : sum / (CALIBRATION_MARKS - 1), expected = SPIN + t->empty;
	t->launch = mean > expected ? mean - expected : 0;
	t->launch = t->launch < MAX_LAUNCH ? t->launch : MAX_LAUNCH;
	t->err = 0;
}

/* ---- life */

struct device_times *device_times_new(const struct runtime *rt)
{
	const struct backend *b = rt->backend;

	if (!has_device(rt) || !b->event_new || !b->mark || !b->elapsed)
		return NULL;
	struct device_times *t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->rt = rt;
	return t;
}

static void close_activities(struct device_times *t)
{
	if (t->activities)
		t->rt->backend->activities->close(t->activities);
	t->activities = NULL;
}

void device_times_free(struct device_times *t)
{
	if (!t)
		return;
	if (t->hold)
		t->rt->backend->hold->destroy(t->hold);
	close_activities(t);
	for (size_t i = 0; i < t->nmarks; i++)
		t->rt->backend->event_free(t->mark[i]);
	diag_free(&t->why);
	arena_free(&t->arena);
	free(t);
}

void device_times_trace(struct device_times *t, bool on)
{
	const struct backend *b = t->rt->backend;

	if (!on) {
		close_activities(t);
		return;
	}
	if (!t->activities && !t->tried && b->activities)
		t->activities = b->activities->open(&t->why);
	t->tried = true;
	t->diag = NULL;
	if (!t->hold && b->hold && t->rt->config->sync == SYNC_ASYNC)
		t->hold = b->hold->create(t->rt->device, t->rt->stream);
	if (!t->activities)
		calibrate_marks(t);
}

const char *device_times_source(const struct device_times *t)
{
	const struct backend *b = t->rt->backend;

	return t->activities ? b->activities->source(t->activities) : b->event_clock;
}

const char *device_times_why(const struct device_times *t)
{
	const struct finding *f = t->why.first;

	return f && f->message ? f->message : f ? code_title(f->code) : NULL;
}

/* ---- a run */

int device_times_begin(struct device_times *t, struct diag *d)
{
	t->used = t->npending = 0;
	t->depth = 0;
	t->err = 0;
	t->diag = d;
	t->steps = 0;
	t->holding = t->copied = false;
	t->start = t->last = t->over = clock_ns();
	if (t->hold && t->expected && t->misses < MAX_MISSES)
		hold(t, t->queueing + t->queueing / 2 + SPARE_HOLD);
	if (!t->activities)
		mark(t); /* mark 0: the device begins the run */
	return t->err;
}

void device_times_enter(struct device_times *t, uint64_t tag, bool device, bool copy)
{
	if (t->activities) {
		t->rt->backend->activities->push(t->activities, tag);
	} else if (device && t->depth < MAX_DEPTH) {
		/*
		 * The event behind a copy may complete with the copy, while the next kernel still waits for the copy engine
		 * to hand over. An empty kernel before the event keeps that wait out of the next step's time.
		 */
		if (t->copied && !copy && t->hold && !t->err)
			t->err = t->rt->backend->hold->spin(t->hold, 0, t->diag);
		t->copied = copy;
		t->open[t->depth] = mark(t);
	}
	t->depth++;
}

void device_times_leave(struct device_times *t, uint64_t tag, bool device)
{
	t->depth--;
	if (t->activities)
		t->rt->backend->activities->pop(t->activities);
	else if (device && t->depth < MAX_DEPTH)
		push_pending(t, tag, t->open[t->depth], mark(t), t->copied);
	if (t->depth)
		return;
	t->last = clock_ns();
	if (++t->steps == t->expected && t->holding)
		release(t);
}

/*
 * Ends a hold that the run did not end. A run that waits for the device halfway only goes on when the hold times out.
 * After MAX_MISSES such runs, runs are not held any more.
 */
static void end_hold(struct device_times *t)
{
	if (t->holding && !t->over) {
		t->misses++;
		t->over = t->until;
		t->rt->backend->hold->end(t->hold);
	}
	t->queueing = t->last - t->start;
	t->expected = t->steps;
}

static int report_activities(struct device_times *t,
			     void (*tell)(void *arg, const struct device_time *), void *arg,
			     struct diag *d)
{
	const struct activity *v;
	uint64_t done = 0;
	size_t n;
	int err = t->rt->backend->activities->read(t->activities, &v, &n, d);

	for (size_t i = 0; i < n && !err; i++) {
		uint64_t from = v[i].start > done ? v[i].start : done;
		if (v[i].tag == HOLD_TAG) {
			t->over = v[i].end;
			continue;
		}
		tell(arg, &(struct device_time){.tag = v[i].tag,
						.start = v[i].start,
						.ns = v[i].end - v[i].start,
						.alone = v[i].end > from ? v[i].end - from : 0,
						.what = &v[i]});
		done = v[i].end > done ? v[i].end : done;
	}
	return err;
}

static void report_marks(struct device_times *t,
			 void (*tell)(void *arg, const struct device_time *), void *arg)
{
	for (size_t i = 0; i < t->npending && !t->err; i++) {
		const struct pending *p = &t->pending[i];
		uint64_t since = between(t, 0, p->from), ns = between(t, p->from, p->to);
		uint64_t off = t->empty + (p->copy ? 0 : t->launch);
		ns -= ns < off ? ns : off;
		tell(arg, &(struct device_time){
				  .tag = p->tag, .start = t->over + since, .ns = ns, .alone = ns});
	}
}

int device_times_read(struct device_times *t, void (*tell)(void *arg, const struct device_time *),
		      void *arg, struct diag *d)
{
	t->diag = d;
	end_hold(t);
	if (t->err)
		return t->err;
	if (t->activities)
		return report_activities(t, tell, arg, d);
	report_marks(t, tell, arg);
	return t->err;
}

uint64_t device_times_over(const struct device_times *t)
{
	return t->over;
}
