/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H
/*
 * Measures a model: phases, latency in the steady state, nodes, memory. One job is one set of settings
 * with all points of its sweep; what it finds is a record.
 */
#include "input/input.h"
#include "profile/node_times.h"
#include "profile/record.h"
#include "input/sweep.h"

struct profile_job {
	const char *path;
	const char *label; /* of the comparison; "" */
	struct run_config config;
	const struct input_request *request;
	const struct sweep *sweep; /* no points: one with what the request says */
	int64_t iterations;	   /* 0: by duration */
	double duration;	   /* seconds for each point; 0: by iterations */
	int64_t warm_runs;
	double warm_time; /* seconds */
	int64_t sessions; /* side by side */
	int64_t observed; /* observed runs of the first point at most; 0: none */
	bool peak;	  /* measure what the device can do */
	bool yard;	  /* measure the yardstick in between */
	bool hash;	  /* of the model's file */
	bool copies;	  /* to and from the device, of each point */
	/* E_BASELINE_FILE before the first run where this is another measurement than that, of the file `expected_by`; NULL */
	const struct identity *expect;
	const char *expected_by;
	const char *trace; /* file for a trace of some observed runs; NULL */
	/* Told often, `done` in 0..1 of the whole; true: stop, keeping what there is. */
	bool (*poll)(void *arg, double done, const char *what);
	void *arg;
};

/*
 * In its own arena (record_free). NULL with a finding; where an error ended a sweep behind its first point, what was measured
 * before (`failed`) and the finding.
 */
struct record *profile_measure(const struct profile_job *job, struct diag *d);

/* The same in a process of its own, which begins with nothing: memory, threads and contexts are its own. */
struct record *profile_apart(const struct profile_job *job, struct diag *d);

/*
 * `n` equal jobs one after the other, each in a process of its own, put together: what differs from process
 * to process (addresses, huge pages) is then in the samples.
 */
struct record *profile_rounds(const struct profile_job *job, size_t n, struct diag *d);

/* Two such measurements put together; both are given up, the result is a's. */
struct record *record_joined(struct record *a, struct record *b);

#endif
