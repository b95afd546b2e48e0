/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records the memory of this process and of its device at the end of each phase of a profile, and as samples over
 * time.
 */
#ifndef PROFILE_MEMORY_TIMELINE_H
#define PROFILE_MEMORY_TIMELINE_H

#include "profile/record.h"
#include "base/samples.h"

#include <stdbool.h>
#include <stdint.h>

struct runtime;

/* The series of the timeline, as in struct record_timeline. */
enum moment { AT, RUN, RSS, PRIVATE, HOST_COUNTED, DEVICE_COUNTED, DEVICE_USED, MOMENTS };
enum { MAX_PHASES = 16 };

struct timeline {
	uint64_t start; /* clock_ns that is time 0 of the samples */
	int statm;
	struct record_phase phase[MAX_PHASES];
	size_t nphases;
	struct samples moment[MOMENTS];
	uint64_t next_moment, step, next_driver, next_private;
	double last_used;     /* device memory in use, as the driver last said */
	double private_files; /* bytes of the private memory that are pages of files */
};

void timeline_begin(struct timeline *t, uint64_t start);
/*
 * Records the end of a phase that took `ns` nanoseconds, and adds a sample, however recent the last sample is. rt is
 * the runtime whose device memory is read as well, or NULL if there is none yet.
 */
void timeline_phase(struct timeline *t, const struct runtime *rt, const char *name, uint64_t ns);
/*
 * Adds a sample unless the last sample is too recent, or in any case if `always` is set. Call it between runs, never
 * during a run that is measured. `run` is as in struct record_timeline.
 */
void timeline_sample(struct timeline *t, const struct runtime *rt, uint64_t now, double run,
		     bool always);
/* Copies phases and samples into the record. */
void timeline_store(const struct timeline *t, struct record *r);
void timeline_end(struct timeline *t);

#endif
