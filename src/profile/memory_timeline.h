/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of this process and of its device: at the end of each phase of a profile, and over time. */
#ifndef PROFILE_MEMORY_TIMELINE_H
#define PROFILE_MEMORY_TIMELINE_H

#include "profile/record.h"
#include "base/samples.h"

#include <stdbool.h>
#include <stdint.h>

struct runtime;

/* What a look at memory tells; as in struct record_timeline. */
enum moment { AT, RUN, RSS, PRIVATE, HOST_COUNTED, DEVICE_COUNTED, DEVICE_USED, MOMENTS };
enum { MOST_PHASES = 16 };

struct timeline {
	uint64_t start; /* of clock_ns: moments are seconds since */
	int statm;
	struct record_phase phase[MOST_PHASES];
	size_t nphases;
	struct samples moment[MOMENTS];
	uint64_t next_moment, step, next_driver, next_private;
	double last_used;     /* of the device */
	double private_files; /* pages of files that nobody else has, within the private ones */
};

void timeline_begin(struct timeline *t, uint64_t start);
/*
 * A phase that took so long is over, which is one of the moments, however soon after the last. The runtime's device is
 * asked, too; NULL: there is none yet.
 */
void timeline_phase(struct timeline *t, const struct runtime *rt, const char *name, uint64_t ns);
/*
 * Now; nothing where the last look was a moment ago, but always. Between runs, never inside of one that is measured.
 * run: as in struct record_timeline.
 */
void timeline_look(struct timeline *t, const struct runtime *rt, uint64_t now, double run,
		   bool always);
/* The phases and the moments, in the record's arena. */
void timeline_keep(const struct timeline *t, struct record *r);
void timeline_end(struct timeline *t);

#endif
