/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H
/*
 * Measures a model: the phases of its start, its latency in the steady state, the times of its nodes, and its memory.
 * A job is one set of settings with all points of a sweep; the result is a record.
 */
#include "input/input.h"
#include "profile/node_times.h"
#include "profile/record.h"
#include "input/sweep.h"

struct profile_job {
	const char *path;
	const char *label; /* names the settings if several are compared, such as "threads=2"; otherwise "" */
	struct run_config config;
	const struct input_request *request;
	const struct sweep *sweep; /* a sweep without points means one point, with the sizes of the request */
	int64_t iterations; /* 0: by duration */
	double duration;    /* seconds for each point; 0 if `iterations` decides */
	int64_t warm_runs;
	double warm_time; /* seconds */
	int64_t sessions; /* side by side */
	int64_t observed; /* maximum number of observed runs of the first point, 0 for none */
	bool peak;	  /* measure the peak rates of the device, too */
	bool for_gate; /* also measure waits for cores, and the reference workloads between runs */
	bool hash;     /* also hash the model's file */
	bool copies;   /* also measure copies to and from the device, at each point */
	/*
	 * NULL, or the identity of the baseline in file `expected_by`. If this measurement's identity differs, the
	 * job fails before the first run (E_BASELINE_FILE).
	 */
	const struct identity *expect;
	const char *expected_by;
	/*
	 * If several jobs take turns: waits until it is this job's turn, and returns false if there is no further one. `duration`
	 * and `iterations` are then those of all turns; a turn lasts for one of `turns` equal parts, and for one run at least. NULL
	 * if the job is measured at one go.
	 */
	bool (*next_turn)(void *arg);
	int64_t turns;
	const char *trace; /* file for a trace of some observed runs, or NULL */
	/*
	 * Called often, with the progress `done` from 0 to 1. Returns true to end the measurement early and keep its
	 * samples.
	 */
	bool (*poll)(void *arg, double done, const char *what);
	void *arg;
};

/*
 * Measures the job. The record has its own arena; free it with record_free. Returns NULL with a finding on error. If
 * an error ends a sweep after its first point, returns the points measured before, with a finding; record.failed
 * names the point that failed.
 */
struct record *profile_measure(const struct profile_job *job, struct diag *d);

/*
 * Measures the job in a new process, so that earlier measurements leave no memory, threads or CUDA contexts behind.
 */
struct record *profile_apart(const struct profile_job *job, struct diag *d);

/*
 * Measures n jobs in turns, each in processes of its own. Every turn of one is followed by a turn of each other, in random order, so
 * that a change of the machine's load meets all of them alike; every few turns start with new processes if that
 * costs little, because processes of one model differ, too. Sets r[k] and adds the findings of job k to d[k], as
 * profile_apart() does. Returns false, and measures nothing, if memory may not hold all of the models at once.
 */
bool profile_in_turns(const struct profile_job *job, size_t n, struct record **r, struct diag *d);

/*
 * Runs the job n times, each in a new process with an nth of its duration, and joins the records: the samples then
 * include what differs from process to process (addresses, huge pages).
 */
struct record *profile_rounds(const struct profile_job *job, size_t n, struct diag *d);

/* Joins two records that profile_rounds made. Frees b and returns a. */
struct record *record_joined(struct record *a, struct record *b);

#endif
