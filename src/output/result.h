/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OUTPUT_RESULT_H
#define OUTPUT_RESULT_H
/* What outputs say to a person: values, best classes, text. */
#include "base/diag.h"
#include "base/json_write.h"
#include "ir/graph.h"

struct output {
	const char *name;
	const struct tensor *tensor; /* NULL or V_NONE: an optional without a value */
	const char *path;	     /* file it was written to; NULL: none */
};

/* ---- names of classes */

struct labels {
	const char **v;
	size_t n;
};
/* spec: a file with a name a line, or "meta:KEY" of the model's metadata. E-LABELS. */
int labels_load(const char *spec, const struct model *m, struct labels *out, struct arena *a,
		struct diag *d);

/* ---- decoding */

/* "ctc" or "ctc:blank=N". E-OPTION. */
bool decode_parse(const char *spec, int64_t *blank);
/*
 * The texts that the outputs spell, one a batch element: of the first output of [batch, steps, classes]
 * (or without batch) whose classes fit the labels. Without labels, class numbers parted by blanks.
 */
struct decoded {
	const char *output;
	const char **text;
	size_t n;
};
int decode_ctc(const struct output *out, size_t n, int64_t blank, const struct labels *labels,
	       struct decoded *to, struct arena *a, struct diag *d);

/* ---- the best along the last axis */

struct ranked {
	const struct output *output;
	int64_t rows, k;
	const int64_t *index; /* rows x k, best first */
	const double *value;
};
/*
 * Of every output that has numbers along a last axis of 2 and more; with labels, of those whose last
 * axis has as many (E-LABELS where none has). lists: room for n; *used of them.
 */
int rank_outputs(const struct output *out, size_t n, int64_t k, const struct labels *labels,
		 struct ranked *lists, size_t *used, struct arena *a, struct diag *d);

/* ---- before there are values */

struct wanted {
	bool rank, text; /* --top, --decode */
	int64_t blank;
	const struct labels *labels;
};
/*
 * Whether the graph's outputs, as far as their shapes are known, can be ranked or spelled: E-LABELS as
 * rank_outputs and decode_ctc would say it after the run.
 */
int results_check(const struct graph *g, const struct wanted *w, struct diag *d);

/* ---- to a stream */

/* limit: values of each tensor; 0: all. */
void print_outputs(const struct output *out, size_t n, int64_t limit, FILE *stream);
void print_ranked(const struct ranked *r, const struct labels *labels, FILE *stream);
void json_values(struct json *j, const char *key, const struct tensor *t, int64_t limit);
void json_decoded(struct json *j, const struct decoded *t);
void json_ranked(struct json *j, const struct ranked *r, const struct labels *labels);

#endif
