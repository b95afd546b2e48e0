/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_RUN_RESULTS_H
#define CMD_RUN_RESULTS_H
/*
 * The results of many inputs: files named after them (-o), a JSON line for each (--jsonl), or text. A file appears
 * completely or not at all, and a line is written by one call, so that a later run with --resume can trust what is there.
 */
#include "base/hash.h"
#include "cmd/options/options.h"
#include "input/list.h"
#include "output/result.h"

struct results {
	const struct options *o;
	const struct graph *graph;
	struct arena arena;
	int lines;	    /* file descriptor of --jsonl, or -1 */
	struct map written; /* names of cases that have a line already */
	struct labels labels;
	int64_t blank;
};

/* Opens what is written to. With --resume it reads which cases have their results. */
int results_open(struct results *r, const struct options *o, const struct model *m, struct diag *d);
/* Returns true if all results of a case are there, for --resume. */
bool results_has(const struct results *r, const char *name);
/* Writes the outputs of one case, of which there is one for each output of the graph. */
int results_add(struct results *r, const char *label, const char *name, struct output *out,
		struct diag *d);
int results_close(struct results *r, struct diag *d);

#endif
