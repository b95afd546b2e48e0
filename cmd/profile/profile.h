/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_PROFILE_PROFILE_H
#define CMD_PROFILE_PROFILE_H
/* The state of `infer profile`, shared by its files. */
#include "base/stats.h"
#include "profile/gate.h"
#include "cmd/options/options.h"
#include "cmd/output/ci.h"
#include "cmd/output/output.h"
#include "profile/profile.h"
#include "cmd/output/progress.h"
#include "cmd/output/table.h"

/* A set of settings, or a point of a sweep, that could not be measured. */
struct profile_failure {
	const char *label, *point; /* label of the settings and of the point, or "" */
	struct finding *finding;   /* the error, in the diag; several failures may share it */
};

struct profile {
	struct options *o;
	struct diag *d;
	struct arena arena;
	struct input_request request;
	struct sweep sweep;
	struct profile_job *job; /* one for each combination of the compared settings */
	size_t njobs;
	struct record **record; /* results of the jobs that could be measured */
	size_t nrecords;
	struct profile_failure *failed;
	size_t nfailed;
	struct record *baseline; /* NULL: none */
	struct gate_limits limits;
	bool gate; /* a limit is given, so that a slower or bigger model makes the command fail */
	struct gate_verdict verdict; /* if compared */
	bool compared;
	struct progress progress;
	double done, part; /* progress before the current job, and its share of the progress */
};

/* ---- jobs.c: turns options into jobs, and refuses what can be refused before the first run */
int profile_plan(struct profile *p);

/* ---- text.c */
/*
 * Returns the latency to report, which does not include copies to and from the device if --transfers excludes them.
 */
double profile_latency(const struct profile *p, const struct record_point *q, double seconds);
/* "12.3 kruns/s" */
const char *profile_rate(struct arena *a, double n, const char *unit);
double profile_runs_a_second(const struct record_point *q);
/* Whether one set of settings and shapes was asked for, and measured. */
bool profile_single(const struct profile *p);
/*
 * Returns labels such as "threads=1 batch=64, threads=2 batch=64 and 2 more" of all n failures that share the finding
 * of p->failed[i]. Returns NULL if an earlier failure has the same finding.
 */
const char *failure_labels(const struct profile *p, size_t i, size_t *n, struct arena *a);
/* "E-MEMORY: the system refused memory" */
const char *failure_sentence(const struct profile_failure *f, struct arena *a);
const char *profile_head(const struct profile *p, const struct record *r, struct arena *a);
/* Prints the report. `terminal` says that f is a terminal, for which small plots are drawn. */
void profile_print(struct profile *p, bool terminal, FILE *f);
/* The tables below show all records, or one record. */
void table_latency(struct profile *p, struct table *t, struct arena *a);
/* brief: cut long names. */
void table_nodes(struct profile *p, const struct record *r, bool brief, struct table *t,
		 struct arena *a);
/*
 * Models and settings, the fastest first: how many times as fast the fastest is, with the interval. No rows if fewer than two
 * can be compared: points of a sweep do different work.
 */
void table_ranking(const struct profile *p, struct table *t, struct arena *a);
/* "a.onnx is the fastest", that the first ones do not differ, or what is not known and why. */
const char *ranking_sentence(const struct profile *p, struct arena *a);
/* Adds the member "ranking" to the open JSON object; nothing if there are no models to rank. */
void write_ranking(const struct profile *p, struct json *j);
/* Returns a quantile of a point's runs with its 95 % interval. */
struct interval latency_interval(const struct record_point *q, double quantile);
/* Sums of the nodes by their operator. */
void table_operators(const struct record *r, struct table *t, struct arena *a);
void table_memory(const struct record *r, struct table *t, struct arena *a);
void table_phases(const struct record *r, struct table *t, struct arena *a);
void table_gate(const struct profile *p, struct table *t, struct arena *a);
void table_gate_memory(const struct profile *p, struct table *t, struct arena *a);
/* Whether latency has a limit, and the measurements cannot tell whether the model exceeds it. */
bool gate_unknown(const struct profile *p);
/* Returns the verdict in a few words, such as "Slower" or "No regression". */
const char *gate_word(const struct profile *p);
/*
 * Returns a sentence with the latencies of the baseline and of now and, unless the machine was busy, their ratio
 * and, if it differs from 1, the factor by which the machine itself became slower or faster.
 */
const char *gate_sentence(const struct profile *p, struct arena *a);
/* Peak memory and what caused it. */
const char *peak_sentence(const struct record *r, struct arena *a);
/* Returns a sentence about the memory that the runs added, or NULL if not known. */
const char *growth_sentence(const struct record *r, struct arena *a);
/* Returns the label of a record among several, such as "threads=2 batch=1", or "" if there is only one. */
const char *record_label(const struct record *r, struct arena *a);
const char *work_sentence(const struct profile *p, const struct record *r, struct arena *a);
/* Returns the joules of a run at a point, and sets *by to what told them: "RAPL", "NVML". NAN if the machine does not tell. */
double profile_energy(const struct record *r, const struct record_point *q, const char **by);
/* Returns a sentence about a GPU's clocks, or NULL if there are none. */
const char *clock_sentence(const struct record *r, struct arena *a);

/* ---- export.c */
/* Whether a trace or a baseline, and not the report, goes to standard output. */
bool export_takes_stdout(const struct options *o);
/* Checks that the files can be written. Fails with E-OUTPUT or E-OPTION. */
int export_check(struct profile *p);
int export_all(struct profile *p);
void profile_document(struct profile *p, struct json *j);
int export_baseline(struct profile *p);
/* ci.c */
int export_ci(struct profile *p, enum ci_format format, const char *path);
/* page.c */
int export_page(struct profile *p, const char *path);
int baseline_read(struct profile *p);

#endif
