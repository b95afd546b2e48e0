/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_PROFILE_PROFILE_H
#define CMD_PROFILE_PROFILE_H
/* What `infer profile` found, for its printers. */
#include "profile/gate.h"
#include "cmd/options/options.h"
#include "cmd/output/output.h"
#include "profile/profile.h"
#include "cmd/output/progress.h"
#include "cmd/output/table.h"

/* What of a comparison or a sweep could not be measured. */
struct profile_failure {
	const char *label, *point; /* of the job, and of its sweep; "" */
	struct finding *finding;   /* in the diag; others may have the same */
};

struct profile {
	struct options *o;
	struct diag *d;
	struct arena arena;
	struct input_request request;
	struct sweep sweep;
	struct profile_job *job; /* one for each combination of the axes */
	size_t njobs;
	struct record **record; /* those that were measured */
	size_t nrecords;
	struct profile_failure *failed;
	size_t nfailed;
	struct record *baseline; /* NULL: none */
	struct gate_limits limits;
	bool gate;		     /* a verdict is wanted */
	struct gate_verdict verdict; /* with a baseline */
	bool compared;
	struct progress progress;
	double done, part; /* of the progress: before, and of, the job under way */
};

/* ---- profile_jobs.c: options to jobs, everything that can be refused before the first run */
int profile_plan(struct profile *p);

/* ---- profile_text.c */
/* Latency as it is told: without copies where they are excluded. */
double profile_latency(const struct profile *p, const struct record_point *q, double seconds);
/* "12.3 kruns/s" */
const char *profile_rate(struct arena *a, double n, const char *unit);
double profile_runs_a_second(const struct record_point *q);
/* One set of settings and shapes, which was measured. */
bool profile_single(const struct profile *p);
/* "threads=1 batch=64, threads=2 batch=64 and 2 more": all n that failed as p->failed[i] did; NULL: told with one before. */
const char *failure_labels(const struct profile *p, size_t i, size_t *n, struct arena *a);
/* "E-MEMORY: the system refused memory" */
const char *failure_sentence(const struct profile_failure *f, struct arena *a);
const char *profile_head(const struct profile *p, const struct record *r, struct arena *a);
/* terminal: f is shown on one. */
void profile_print(struct profile *p, bool terminal, FILE *f);
/* Tables of one record, or of all. */
void table_latency(struct profile *p, struct table *t, struct arena *a);
/* brief: long names are cut. */
void table_nodes(struct profile *p, const struct record *r, bool brief, struct table *t,
		 struct arena *a);
void table_memory(const struct record *r, struct table *t, struct arena *a);
void table_phases(const struct record *r, struct table *t, struct arena *a);
void table_gate(const struct profile *p, struct table *t, struct arena *a);
void table_gate_memory(const struct profile *p, struct table *t, struct arena *a);
/* "Slower", "No regression"; what a baseline without a limit, or a busy machine, leaves open. */
const char *gate_word(const struct profile *p);
/* "1.042 (1.031 to 1.055)" and what follows from it, in one sentence. */
const char *gate_sentence(const struct profile *p, struct arena *a);
/* Time, peak memory and what made it. */
const char *peak_sentence(const struct record *r, struct arena *a);
/* What the runs added to it; NULL. */
const char *growth_sentence(const struct record *r, struct arena *a);
/* Which of several records and points: "threads=2 batch=1"; "" where there is one. */
const char *record_label(const struct record *r, struct arena *a);
const char *work_sentence(const struct profile *p, const struct record *r, struct arena *a);
const char *clock_sentence(const struct record *r, struct arena *a); /* of a GPU; NULL */

/* ---- profile_export.c */
/* Whether something else than the report goes to standard output. */
bool export_takes_stdout(const struct options *o);
/* Whether FILE.json and so on can be written: E-OUTPUT, E-OPTION. */
int export_check(struct profile *p);
int export_all(struct profile *p);
void profile_document(struct profile *p, struct json *j);
int export_baseline(struct profile *p);
/* profile_page.c */
int export_page(struct profile *p, const char *path);
int baseline_read(struct profile *p);

#endif
