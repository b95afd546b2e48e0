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
#include "output/boxes.h"
#include "output/result.h"
#include "score/score.h"

struct results {
	const struct options *o;
	const struct graph *graph;
	struct arena arena;
	int lines;	    /* file descriptor of --jsonl, or -1 */
	struct map listed;  /* cases of the list by name */
	struct map written; /* names of cases that have a line already */
	struct labels labels;
	int64_t blank;
	struct box_rules box_rules; /* of --decode yolo, ssd or detr */
	const struct input_list *list;
	struct scores scores;
	struct score_sums **former; /* by case of the list: what an earlier run's line has, for --report; or NULL */
	struct line *failures; /* not written yet, by case */
};

/* Reads --decode as ctc with its blank, or as rules for boxes. Fails with E-OPTION. */
int results_parse_decode(const struct options *o, int64_t *blank, struct box_rules *rules,
			 struct diag *d);
/*
 * Opens what is written to, and reads the truth of --score. With --resume it reads which cases have their results, and
 * their scores. The list must outlive the results.
 */
int results_open(struct results *r, const struct options *o, const struct model *m,
		 const struct input_list *list, struct diag *d);
/* Returns true if all results of a case are there, for --resume. */
bool results_has(const struct results *r, const char *name);
/*
 * Writes the outputs of case `at` of the list, of which there is one for each output of the graph. Unless `sums` is NULL,
 * sums[k] become those of this case for each score k; what they point to is in the arena.
 */
int results_add(struct results *r, size_t at, const struct input_set *inputs, struct output *out,
		struct score_sums *sums, struct arena *keep, struct diag *d);
/*
 * Keeps the line of a case that failed, with its errors. Cases of a run fail before others of that run are written, so
 * the line is written before that of the next later case, or by results_flush(), which must be called when no earlier
 * case is left to come.
 */
int results_add_failure(struct results *r, size_t at, const struct diag *why, struct diag *d);
int results_flush(struct results *r, struct diag *d);
/* Prints the scores, which are results, to stdout, unless the lines of --jsonl or the document of --json go there. */
void results_print_scores(const struct results *r);
int results_close(struct results *r, struct diag *d);
/*
 * Warns of pictures that the user gave without a scale: the outputs are wrong without any sign of it. The model is read a second time for
 * that, so not if it comes out of a pipe.
 */
void doubt_pictures(const struct options *o, const struct input_set *inputs, struct diag *d);

#endif
