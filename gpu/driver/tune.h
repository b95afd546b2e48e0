/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_DRIVER_TUNE_H
#define GPU_DRIVER_TUNE_H
/*
 * Finds the fastest of several ways to run a step by trying them while a plan is made, within the time that
 * --tune allows. Choices are kept on disk (backend/tuning_cache.h). Each device has its own state.
 */
#include "backend/tuning_cache.h"
#include "gpu/driver/cuda.h"

/*
 * Returns the earlier choice that is stored under the key, or NULL. Keys begin with the library's name and version
 * ("cudnn91900 conv ...") and contain everything that the choice depends on, except the device and its driver.
 */
const char *tune_get(struct device *device, const char *key);
void tune_put(struct device *device, const char *key, const char *value);
void *tune_blob_get(struct device *device, const char *key, struct arena *a, size_t *n);
void tune_blob_put(struct device *device, const char *key, const void *data, size_t n);

/*
 * Returns the name of a device's folder in the cache. The name contains what a choice depends on, apart from versions
 * of libraries. Returns NULL if there is no such device.
 */
const char *tune_folder(int ordinal, struct arena *a);

/*
 * tune_may() returns whether there is time left to try variants. tune_full() returns whether variants that take long
 * shall be tried as well.
 */
bool tune_may(struct device *device);
bool tune_full(const struct device *device);
/* A variant replaces another only if it takes less than this part of its time: what is closer is noise of the timing. */
#define TUNE_FASTER 0.97
/*
 * Trials of variants must stand between tune_begin() and tune_end(): the time between the two calls counts against the
 * limit of --tune. `what` is shown as progress; NULL says that the choice itself is made without timing.
 */
void tune_begin(struct device *device, const char *what);
void tune_end(struct device *device);

/*
 * Returns the microseconds that one call of enqueue takes, measured over several calls in a row, or a negative number
 * if a call fails. `best` is the time to beat, or 0 if there is none; a variant that is far slower is not measured to
 * the end.
 */
double tune_time(struct device *device, int (*enqueue)(void *arg, struct diag *d), void *arg,
		 double best);

/*
 * Returns scratch memory with arbitrary contents, which is valid until tune_end(). Returns NULL if there is no memory.
 */
void *tune_memory(struct device *device, size_t bytes);

/*
 * The second matrix of a product that is tried. If it is a weight, a network reads all others between two runs, so that it comes from memory, and not from
 * the second-level cache as that of calls in a row would. So a large one lies in as many copies as the cache does not hold, which that many calls take in
 * turns.
 */
struct tune_weights {
	char *at;
	size_t bytes;
	unsigned copies, calls;
};
/*
 * Returns tune_memory() for `others` bytes of operands that each call reads or writes, which take their part of the cache, and a workspace, both multiples
 * of 256. Behind them lie the weights: as one copy if they need not come from memory, or if there is no memory for more. If there is not even memory for
 * one copy, returns NULL, and counts the choice among those that were not tried.
 */
void *tune_operands(struct device *device, struct tune_weights *w, size_t bytes, bool from_memory,
		    size_t others, size_t workspace);
/* The weights for the next call. */
void *tune_weights_next(struct tune_weights *w);

/* Ways to run a step, numbered from 0; at most ten. */
struct tune_ways {
	int count;
	int usual; /* the way that is taken untried */
	/* Whether this is a way for the step; sets *arg up for it. */
	bool (*set)(void *arg, int way);
	/* Gives *arg, which is set up for a way, its operands for a trial. `memory` has `bytes`. */
	void (*place)(void *arg, char *memory);
	size_t bytes;
	int (*enqueue)(void *arg, struct diag *d);
	void *arg;
};
/* Returns a way: from the cache, by timing all of them, or the usual one. */
int tune_choose(struct device *device, const char *key, const struct tune_ways *ways);

/* Counts for reports such as "41 choices from the cache, 12 tried in 0.42 s, 3 not tried". */
struct tune_report {
	unsigned known, tried, untried;
	double seconds;
	const char *folder, *trouble; /* NULL if there is none */
};
void tune_report(const struct device *device, struct tune_report *out);
/*
 * Counts a choice that was made without trials. Returns true if time had run out, false if --tune off forbids trials.
 */
bool tune_skipped(struct device *device);

#endif
