/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_DEVICE_TIMES_H
#define PROFILE_DEVICE_TIMES_H
/*
 * When a device did what was queued between the begin and the end of steps: by CUPTI's records where they can
 * be had, else by events in the stream. The device is held until all of a run is queued: else the time between
 * two events would be that of the launch wherever the device is faster than the host.
 */
#include "backend/observe.h"
#include "plan/plan.h"

struct device_times;

/* NULL where there is no device, or its backend has no events. */
struct device_times *device_times_new(const struct runtime *rt);
void device_times_free(struct device_times *t);
/* Opens and closes CUPTI. */
void device_times_trace(struct device_times *t, bool on);
const char *device_times_source(const struct device_times *t);
const char *device_times_why(const struct device_times *t); /* not by CUPTI; NULL */

/* Around a run, and around each step of it; tag is the step's, neither 0 nor UINT64_MAX. */
int device_times_begin(struct device_times *t, struct diag *d);
void device_times_enter(struct device_times *t, uint64_t tag, bool device, bool copy);
void device_times_leave(struct device_times *t, uint64_t tag, bool device);

struct device_time {
	uint64_t tag; /* 0: of no step */
	uint64_t start, ns;
	uint64_t alone;		     /* ns without what an earlier one had of it: these add up */
	const struct activity *what; /* NULL: by events, the whole step */
};
/* After the run, which has waited for the device: each by start. */
int device_times_read(struct device_times *t, void (*tell)(void *arg, const struct device_time *),
		      void *arg, struct diag *d);
/* Of the last run: when the device began, which was held before; of clock_ns. */
uint64_t device_times_over(const struct device_times *t);

#endif
