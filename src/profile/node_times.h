/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_NODE_TIMES_H
#define PROFILE_NODE_TIMES_H
/*
 * An observer that measures the time of each node. The observer is attached to a session for some runs, which it
 * slows down; other runs are not affected. Steps on the host are timed by the clock, steps on a device by events in
 * its stream, which are read after the run. The nodes of a body (of control flow) have rows of their own, and their
 * time is not part of the time of the node that contains them.
 */
#include "profile/record.h"
#include "session/session.h"

struct node_times;

/*
 * Creates the observer, which keeps at most `runs` runs, and also the events of a trace if `events` is set. Returns
 * NULL with a finding on error.
 */
struct node_times *node_times_new(struct session *s, size_t runs, bool events, struct diag *d);
void node_times_free(struct node_times *n);
struct observer *node_times_observer(struct node_times *n);

/* Call before and after each observed run, with the observer attached to the session (session_observe). */
int node_times_begin(struct node_times *n, struct diag *d);
/* start and ns are the begin and the duration of the run, by clock_ns. */
int node_times_end(struct node_times *n, uint64_t start, uint64_t ns, struct diag *d);
/* Call in place of node_times_end to discard the run. */
int node_times_skip(struct node_times *n, struct diag *d);
/*
 * Switches reading of resident memory before and after each step on or off. Each reading takes some microseconds.
 * This is meant for a first run, for which node_times_end is not called, so that it is not kept.
 */
void node_times_watch_memory(struct node_times *n, bool on);
/*
 * Switches CUPTI on or off. If it is on and available, it reports the device's work: kernels with their names, copies
 * with their bytes. Otherwise events in the stream time each step, including gaps of some microseconds.
 */
void node_times_trace(struct node_times *n, bool on);

/*
 * Fills the record's nodes, in the order of the first run, and its members about observed runs (observed, gaps, held,
 * ...).
 */
void node_times_record(const struct node_times *n, const struct segment_report *plan,
		       struct record *r);

/*
 * Sets *in and *out to the seconds that copies to and from the device take in a run, averaged as the times of nodes
 * are.
 */
void node_times_copies(const struct node_times *n, double *in, double *out);
/* Fills only the record's FLOPs and bytes of a run. */
void node_times_work(const struct node_times *n, struct record *r);

/* Events of a trace; times are nanoseconds of clock_ns. */
enum event_kind {
	EVENT_RUN,
	EVENT_STEP,
	EVENT_COPY,
	/* work of the device, reported by CUPTI */
	EVENT_KERNEL,
	EVENT_TO_DEVICE,
	EVENT_TO_HOST,
	EVENT_ON_DEVICE,
	EVENT_SET,
	EVENT_HELD /* the time for which the stream was held until all work was queued */
};
struct node_event {
	uint64_t start, ns;
	const char *name, *op, *kernel;
	const char *fused; /* names of the file's nodes that were fused into this one, or NULL */
	enum event_kind kind;
	bool device; /* in the device's stream */
	int depth;
	double bytes;
};
const struct node_event *node_times_events(const struct node_times *n, size_t *count);

#endif
