/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCORE_TRUTH_H
#define SCORE_TRUTH_H
/*
 * What the outputs of many inputs should be: a table of inputs and answers (CSV), or the boxes in pictures (COCO's JSON).
 * Both name inputs by file; truth_assign() finds the entry of each input.
 */
#include "base/diag.h"
#include "score/detection.h"

#include <stdint.h>

struct truth_entry {
	const char *input;  /* as the file names it */
	const char *place;  /* "truth.csv:7" */
	const char *answer; /* of a table */
	int64_t image;	    /* of COCO: its id, and its boxes */
	struct true_box *boxes;
	size_t nboxes;
};

struct truth {
	const char *file;
	struct truth_entry *entry;
	size_t n;
	const size_t *of; /* for each input the index of its entry */
	/* COCO's categories, sorted by id */
	struct category {
		int64_t id;
		const char *name;
	} * category;
	size_t ncategories;
};

/*
 * Reads lines of INPUT,ANSWER as RFC 4180 writes them, or with a tab between the two if the first line has one. A first line
 * whose first field is a word such as "input" or "file" is a heading. Fails with E-TRUTH.
 */
int truth_read_table(struct truth *t, const char *file, struct arena *a, struct diag *d);
/* The same for a text that is in memory; the text must not end before the truth does. */
int truth_parse_table(struct truth *t, const char *file, const char *text, size_t n,
		      struct arena *a, struct diag *d);
/* Reads "images", "annotations" and "categories" of a COCO file of boxes. Fails with E-TRUTH. */
int truth_read_coco(struct truth *t, const char *file, struct arena *a, struct diag *d);

/*
 * Sets t->of. An entry names an input by its label (the path as given), by its name (under which results are saved), or by
 * the last part of either. Fails with E-TRUTH if an input has no entry, or an entry no input or several.
 */
int truth_assign(struct truth *t, const char *const *label, const char *const *name, size_t n,
		 struct arena *a, struct diag *d);

#endif
