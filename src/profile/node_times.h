/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_NODE_TIMES_H
#define PROFILE_NODE_TIMES_H
/*
 * An observer that tells the time of each node. Attached to a session for some runs, which pay for it;
 * other runs do not know of it. Steps on a device are timed by marks in its stream, read after the run;
 * steps on the host by the clock. What runs inside of a step (bodies) has rows of its own and is taken off
 * the step's time.
 */
#include "profile/record.h"
#include "session/session.h"

struct nodes;

/* runs: how many can be kept. events: keep what a trace needs. NULL with a finding. */
struct nodes *nodes_new(struct session *s, size_t runs, bool events, struct diag *d);
void nodes_free(struct nodes *n);
struct observer *nodes_observer(struct nodes *n);

/* Around each observed run; the session must be attached in between (session_observe). */
int nodes_begin(struct nodes *n, struct diag *d);
/* start, ns: of the run, as seen from outside. */
int nodes_end(struct nodes *n, uint64_t start, uint64_t ns, struct diag *d);
/* In place of nodes_end: the run is not kept. */
int nodes_skip(struct nodes *n, struct diag *d);
/*
 * While on, resident memory is read around each step (some microseconds each): for a first run, which is
 * begun and not ended, so that it is not kept.
 */
void nodes_watch_memory(struct nodes *n, bool on);
/*
 * While on, the device's work is told by CUPTI's records where they can be had: kernels with their names,
 * copies with their bytes. Else by events in the stream, which hold gaps of some microseconds.
 */
void nodes_trace(struct nodes *n, bool on);

/* The rows as the record keeps them, in the order of the first run; fills observed, gaps, nodes. */
void nodes_record(const struct nodes *n, const struct segment_report *plan, struct record *r);

/* Of the runs that are kept: seconds of copies to and from the device. */
void nodes_copies(const struct nodes *n, double *in, double *out);
/* The work of a run alone: flops, bytes. */
void nodes_work(const struct nodes *n, struct record *r);

/* For the trace: what happened when, in nanoseconds of clock_ns. */
enum event_kind {
	EVENT_RUN,
	EVENT_STEP,
	EVENT_COPY,
	/* work of the device, as CUPTI tells */
	EVENT_KERNEL,
	EVENT_TO_DEVICE,
	EVENT_TO_HOST,
	EVENT_ON_DEVICE,
	EVENT_SET,
	EVENT_HELD /* the stream waited until all was queued */
};
struct node_event {
	uint64_t start, ns;
	const char *name, *op, *kernel;
	enum event_kind kind;
	bool device; /* in the device's stream */
	int depth;
	double bytes;
};
const struct node_event *nodes_events(const struct nodes *n, size_t *count);

#endif
