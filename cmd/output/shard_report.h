/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_OUTPUT_SHARD_REPORT_H
#define CMD_OUTPUT_SHARD_REPORT_H
/*
 * The report of a run over many inputs, of the whole list or of one shard (--report), and the sum of several. It has a
 * row for each case, so that a sum does not depend on how the list was divided.
 */
#include "cmd/options/options.h"
#include "input/list.h"
#include "score/score.h"

struct report_case {
	size_t index; /* in the list */
	const char *name;
	bool failed;
	double seconds; /* of the run that it was part of; NAN: not known, as it was done by an earlier program */
	struct score_sums *sums; /* for each score of the report; NULL: not known */
	/* of a failure */
	const char *input, *id, *message;
};

struct report_option {
	const char *name, *value;
};

struct shard_report {
	const char *path; /* of the report, in messages */
	const char *model;
	const char *contents;	      /* hash of the model's file */
	const char *list;	      /* hash of the names of all cases, of all shards */
	struct report_option *option; /* those that results depend on */
	size_t noptions;
	size_t shard, shards; /* shard is from 1 */
	size_t total;	      /* number of cases of all shards */
	struct scores scores; /* their names, kinds and limits; the sums are those of the cases */
	struct report_case *cases;
	size_t n;
	double seconds; /* of the program */
};

/* Fills in what a report says of the model, the options and the list; the scores are the caller's. */
int report_describe(struct shard_report *r, const struct options *o, const struct input_list *l,
		    struct arena *a, struct diag *d);
int report_write(const struct shard_report *r, const char *path, struct diag *d);
/* Fails with E-SHARD if the file is no report. */
int report_read(struct shard_report *r, const char *path, struct arena *a, struct diag *d);
/* Fails with E-SHARD and names what differs, unless both are of the same model, options and list. */
int report_same(const struct shard_report *a, const struct shard_report *b, struct diag *d);

#endif
