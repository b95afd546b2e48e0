/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_DEVICE_TIMES_H
#define PROFILE_DEVICE_TIMES_H
/*
 * Measures when the device did the work that each step queued, from CUPTI's records if these are available, otherwise
 * by events in the stream. With events, the device is held until a run is queued as a whole: if the device is faster
 * than the host, the time between two events would otherwise be the time of the launch.
 */
#include "backend/observe.h"
#include "plan/plan.h"

struct device_times;

/* Creates the timer of a session's device. Returns NULL if there is no device, or if its backend has no events. */
struct device_times *device_times_new(const struct runtime *rt);
void device_times_free(struct device_times *t);
/*
 * Starts the use of CUPTI if `on` is set, otherwise stops it. If it is to start but is not available, events are
 * used instead, and this call calibrates them.
 */
void device_times_trace(struct device_times *t, bool on);
const char *device_times_source(const struct device_times *t);
const char *device_times_why(const struct device_times *t); /* why CUPTI is not used; NULL if it is */

/* Call at the begin of a run, and around each of its steps; tag names the step, and is neither 0 nor UINT64_MAX. */
int device_times_begin(struct device_times *t, struct diag *d);
void device_times_enter(struct device_times *t, uint64_t tag, bool device, bool copy);
void device_times_leave(struct device_times *t, uint64_t tag, bool device);

struct device_time {
	uint64_t tag; /* the step's tag, or 0 for work that belongs to no step */
	uint64_t start, ns;
	/* ns that do not overlap with earlier work; their sum is the time the device was busy */
	uint64_t alone;
	const struct activity *what; /* what CUPTI reports, or NULL if events timed the whole step */
};
/* Call after the run, which has waited for the device: calls `tell` for each piece of work, ordered by start. */
int device_times_read(struct device_times *t, void (*tell)(void *arg, const struct device_time *),
		      void *arg, struct diag *d);
/* Returns the clock_ns at which the hold of the last run was over and the device began. */
uint64_t device_times_over(const struct device_times *t);

#endif
