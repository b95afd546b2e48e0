/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_CI_H
#define CMD_OUTPUT_CI_H
/* Reports in the forms that CI systems read: JUnit's XML, Bencher's JSON (Bencher Metric Format), GitHub's annotations. */
#include "cmd/options/options.h"

#include <stdio.h>

/* The formats of --export. Those before CI_FORMATS are written by ci_write(), the others by the command itself. */
enum ci_format {
	CI_JUNIT,
	CI_BENCHER,
	CI_GITHUB,
	CI_FORMATS,
	OWN_JSON = CI_FORMATS,
	OWN_CSV,
	OWN_MD,
	OWN_HTML,
	OWN_TXT,
	NO_FORMAT
};

/* A number that was measured. The bounds are NAN if they are not known. */
struct ci_measure {
	const char *name; /* of what was measured: "model.onnx batch=4" */
	const char *measure; /* as Bencher knows it: "latency" (ns), "throughput" (1/s), or a name of ours */
	double value, low, high;
};

/* Something that passed or failed. */
struct ci_case {
	const char *group, *name; /* "model.onnx", "check numbers" */
	double seconds;
	bool skipped;
	const char *why;    /* why it was skipped or has failed, in a sentence; NULL if it passed */
	const char *detail; /* more lines of that, or NULL */
	const struct ci_measure *measures; /* those of the report that it made */
	size_t nmeasures;
};

struct ci_report {
	const char *title; /* "infer check" */
	const struct ci_case *cases;
	size_t ncases;
	const struct ci_measure *measures;
	size_t nmeasures;
	const struct diag *d;
};

/* Returns the format that --export asks for, by "junit:FILE" or by the ending of FILE, and sets *path; or NO_FORMAT. */
enum ci_format ci_format_of(const char *text, const char **path);
/* Writes the report to a file, or to standard output if the path is -. */
int ci_write(const struct ci_report *r, enum ci_format format, const char *path, struct diag *d);
/* Writes all files of --export that are in one of these formats. */
int ci_export_all(const struct ci_report *r, const struct options *o, struct diag *d);
/* What a command writes besides: Bencher's JSON, or its own pages and documents (.html, .json). */
enum ci_more { CI_MEASURES, CI_PAGES };
/* Refuses files of --export that the command does not write, before anything is done. */
int ci_check(const struct options *o, enum ci_more more, struct diag *d);
/* Refuses a text of --export whose format is not written; `why` says so, `known` names the formats that are. */
int ci_refuse_export(const struct options *o, const char *text, const char *why, const char *known,
		     struct diag *d);

/* Returns the text of a finding for people, without the id. */
const char *ci_finding_text(const struct finding *f, struct arena *a);

#endif
