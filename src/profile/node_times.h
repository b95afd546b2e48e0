/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_NODE_TIMES_H
#define PROFILE_NODE_TIMES_H
/*
 * An observer that measures the time of each node. It is attached to a session for some runs, which become slower by it; other
 * runs are not affected. Steps on the host are timed by the clock, steps on a device by events in its stream, which
 * are read after the run. The nodes of a body (of control flow) have rows of their own, and their time is not part of the time of the
 * node that contains them.
 */
#include "profile/record.h"
#include "session/session.h"

struct node_times;

/* runs: how many are kept at most. events: also keep the events of a trace. NULL with a finding on error. */
struct node_times *node_times_new(struct session *s, size_t runs, bool events, struct diag *d);
void node_times_free(struct node_times *n);
struct observer *node_times_observer(struct node_times *n);

/* Call before and after each observed run, with the observer attached to the session (session_observe). */
int node_times_begin(struct node_times *n, struct diag *d);
/* start, ns: of the whole run, by clock_ns. */
int node_times_end(struct node_times *n, uint64_t start, uint64_t ns, struct diag *d);
/* Call in place of node_times_end to discard the run. */
int node_times_skip(struct node_times *n, struct diag *d);
/*
 * While on, resident memory is read before and after each step, which takes some microseconds. Meant for a first run,
 * which is begun but not ended, and so not kept.
 */
void node_times_watch_memory(struct node_times *n, bool on);
/*
 * While on, CUPTI reports the device's work if it is available: kernels with their names, copies with their bytes.
 * Otherwise events in the stream time each step, including gaps of some microseconds.
 */
void node_times_trace(struct node_times *n, bool on);

/* Fills the record's nodes, in the order of the first run, and what belongs to observed runs (observed, gaps, held, ...). */
void node_times_record(const struct node_times *n, const struct segment_report *plan,
		       struct record *r);

/* Seconds of copies to and from the device in a run (means, as of nodes). */
void node_times_copies(const struct node_times *n, double *in, double *out);
/* Fills only the FLOPs and bytes of a run. */
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
	EVENT_HELD /* the stream was held until all work was queued */
};
struct node_event {
	uint64_t start, ns;
	const char *name, *op, *kernel;
	enum event_kind kind;
	bool device; /* in the device's stream */
	int depth;
	double bytes;
};
const struct node_event *node_times_events(const struct node_times *n, size_t *count);

#endif
