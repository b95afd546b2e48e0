/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of test/gpu/fake/cuda.c: streams, each a queue of operations. They are performed as they come, or with FAKE_CUDA_LATE
 * not before somebody waits for them.
 */
#ifndef FAKE_QUEUE_H
#define FAKE_QUEUE_H
#include "memory.h"

struct context {
	int alive, own;
	unsigned long retained;
};

/* Bytes that many may hold: a kernel's parameters, what a copy took aside. */
struct shared {
	int holders;
	size_t n;
	char v[];
};

enum kind { COPY, SET, KERNEL, RECORD, WAIT };
struct operation {
	enum kind kind;
	void *to;
	const void *from;
	size_t bytes;
	int direction; /* of a copy, as CUPTI counts them: 1 to the device, 2 to the host, 8 on it */
	int pinned;    /* its side on the host is */
	unsigned long blocks[2]; /* numbers of the allocations that a graph's copy goes to and comes from */
	unsigned char value;
	const char *kernel;
	unsigned grid[3], block[3], shared;
	int early; /* a launch that does not wait for the one before it */
	int loose; /* a graph's node that nothing goes before yet */
	struct shared *data;
	struct event *event;
	unsigned long serial; /* of a record; what a wait waits for */
};

struct graph {
	struct operation *v;
	size_t n, room;
};
struct stream {
	struct context *context;
	struct graph *graph; /* being recorded */
	int broken;	     /* what is being recorded came to nothing */
	int destroyed;	     /* what it has yet to do, it does */
	struct graph queue;
	size_t at;
	int waited_for; /* since then no kernel was queued, so that the next one has none ahead of it */
	struct stream *next;
};
struct event {
	double ms;
	unsigned long asked, done; /* the newest record, and the newest that was reached */
	int destroyed;
	struct event *next;
};

static struct stream *streams;
static struct event *events;
static int error, launched;
static double clock_ms;
static unsigned long serial;

static void perform(const struct operation *o); /* cuda.c's */

static void hold_data(const struct operation *o)
{
	if (o->data)
		o->data->holders++;
}

static void drop_data(const struct operation *o)
{
	if (o->data && !--o->data->holders)
		free(o->data);
}

static struct shared *aside(const void *p, size_t n)
{
	struct shared *s = malloc(sizeof(*s) + n);

	s->holders = 1;
	s->n = n;
	memcpy(s->v, p, n);
	return s;
}

static void append(struct graph *g, const struct operation *o)
{
	if (g->n == g->room) {
		g->room = g->room ? 2 * g->room : 16;
		g->v = realloc(g->v, g->room * sizeof(*g->v));
	}
	g->v[g->n++] = *o;
}

static void graph_free(struct graph *g)
{
	for (size_t i = 0; i < g->n; i++)
		drop_data(&g->v[i]);
	free(g->v);
	free(g);
}

/* The next of a stream's operations; 0: there is none, or it waits for an event. */
static int step(struct stream *s)
{
	struct operation o;

	if (s->at == s->queue.n)
		return 0;
	o = s->queue.v[s->at];
	if (o.kind == WAIT && o.event->done < o.serial)
		return 0;
	if (++s->at == s->queue.n)
		s->at = s->queue.n = 0;
	open_memory();
	if (o.kind == RECORD) {
		o.event->ms = clock_ms += 0.5;
		o.event->done = o.serial;
	} else if (o.kind != WAIT && !error) { /* after an error nothing runs any more */
		perform(&o);
	}
	close_memory();
	drop_data(&o);
	return 1;
}

static void reach(const struct event *e, unsigned long number);

/* One step more, whatever else has to be done for it. */
static void advance(struct stream *s)
{
	const struct operation *o = &s->queue.v[s->at];

	if (o->kind == WAIT)
		reach(o->event, o->serial);
	step(s);
}

/* FAKE_CUDA_LATE=others: what others have queued is done first, as far as it can be. */
static void let_others(const struct stream *s)
{
	const char *late = getenv("FAKE_CUDA_LATE");
	int more = late && !strcmp(late, "others");

	while (more) {
		more = 0;
		for (struct stream *t = streams; t; t = t->next)
			while (t != s && step(t))
				more = 1;
	}
}

static int records(const struct stream *s, const struct event *e, unsigned long number)
{
	for (size_t i = s->at; i < s->queue.n; i++)
		if (s->queue.v[i].kind == RECORD && s->queue.v[i].event == e &&
		    s->queue.v[i].serial == number)
			return 1;
	return 0;
}

static void reach(const struct event *e, unsigned long number)
{
	for (struct stream *s = streams; s && e->done < number; s = s->next) {
		if (!records(s, e, number))
			continue;
		let_others(s);
		while (e->done < number)
			advance(s);
	}
}

static void drain(struct stream *s)
{
	let_others(s);
	while (s->at < s->queue.n)
		advance(s);
}

static void drain_all(void)
{
	for (struct stream *s = streams; s; s = s->next)
		while (s->at < s->queue.n)
			advance(s);
}

static int is_late(void)
{
	const char *late = getenv("FAKE_CUDA_LATE");

	return late && strcmp(late, "0") != 0;
}

static void enqueue(struct stream *s, const struct operation *o)
{
	append(&s->queue, o);
	if (!is_late())
		drain(s);
}

#endif
