/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H
/*
 * Measures a model: the phases of its start, latency in the steady state, times of nodes, memory. A job is one set of
 * settings with all points of a sweep; the result is a record.
 */
#include "input/input.h"
#include "profile/node_times.h"
#include "profile/record.h"
#include "input/sweep.h"

struct profile_job {
	const char *path;
	const char *label; /* of the settings if several are compared, "threads=2"; "" */
	struct run_config config;
	const struct input_request *request;
	const struct sweep *sweep; /* without points: one point, with the sizes of the request */
	int64_t iterations;	   /* 0: by duration */
	double duration;	   /* seconds for each point; 0: by iterations */
	int64_t warm_runs;
	double warm_time; /* seconds */
	int64_t sessions; /* side by side */
	int64_t observed; /* observed runs of the first point, at most; 0: none */
	bool peak;	  /* measure the peak rates of the device, too */
	bool for_gate; /* also measure waits for cores, and the reference workloads between runs */
	bool hash;     /* also hash the model's file */
	bool copies;   /* also measure copies to and from the device, at each point */
	/* of the baseline in file `expected_by`; if this measurement differs, it fails before the first run (E_BASELINE_FILE). NULL */
	const struct identity *expect;
	const char *expected_by;
	const char *trace; /* file for a trace of some observed runs; NULL */
	/* Called often, `done` is the progress from 0 to 1; returns true to stop and keep what was measured. */
	bool (*poll)(void *arg, double done, const char *what);
	void *arg;
};

/*
 * The record has its own arena (record_free). NULL with a finding on error; if an error ends a sweep after its first
 * point, the points measured before (record.failed names the one that failed) and the finding.
 */
struct record *profile_measure(const struct profile_job *job, struct diag *d);

/* The same in a new process, so that earlier measurements leave no memory, threads or CUDA contexts behind. */
struct record *profile_apart(const struct profile_job *job, struct diag *d);

/*
 * Runs the job n times, each in a new process with an nth of its duration, and joins the records: the samples then
 * include what differs from process to process (addresses, huge pages).
 */
struct record *profile_rounds(const struct profile_job *job, size_t n, struct diag *d);

/* Joins two such records. Frees b; the result is a. */
struct record *record_joined(struct record *a, struct record *b);

#endif
