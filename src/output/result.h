/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OUTPUT_RESULT_H
#define OUTPUT_RESULT_H
/* Shows a model's outputs to people: their values, the best classes with labels, or the text that they spell. */
#include "base/diag.h"
#include "base/json_write.h"
#include "ir/graph.h"

struct output {
	const char *name;
	const struct tensor *tensor; /* NULL or of kind V_NONE if this is an optional without a value */
	const char *path;	     /* the file to which the output was written, or NULL */
};

/* ---- labels: names of classes */

struct labels {
	const char **v;
	size_t n;
};
/*
 * Loads labels. spec names a file with one label per line, or is "meta:KEY" for such a text in the model's metadata.
 * Fails with E-LABELS.
 */
int labels_load(const char *spec, const struct model *m, struct labels *out, struct arena *a,
		struct diag *d);
/*
 * Adds a note about labels in the model's metadata, for a run that prints numbers of classes, or of letters if `text`. Without a
 * note such a run looks as if the model knew no names.
 */
void labels_suggest(const struct model *m, bool text, struct diag *d);

/* ---- decoding text (connectionist temporal classification, CTC) */

/*
 * Parses "ctc" or "ctc:blank=N"; *blank becomes the class that stands for no character, 0 by default. Returns false
 * for any other text.
 */
bool decode_parse(const char *spec, int64_t *blank);
/* The texts that an output spells, one per batch element. */
struct decoded {
	const char *output; /* its name */
	const char **text;
	size_t n;
};
/*
 * Decodes the first output of shape [batch, steps, classes] or [steps, classes] whose number of classes fits the
 * labels. Without labels, `text` has the numbers of the classes, separated by spaces. Fails with E-LABELS if no
 * output fits.
 */
int decode_ctc(const struct output *out, size_t n, int64_t blank, const struct labels *labels,
	       struct decoded *to, struct arena *a, struct diag *d);

/* ---- ranking the classes along the last axis */

struct ranked {
	const struct output *output;
	const struct tensor *tensor; /* the values: the output, or the rows that its maps make */
	struct labels names;	     /* the keys of an output of maps; none otherwise */
	int64_t rows, k;
	const int64_t *index; /* rows x k, best first */
	const double *value;
};
/*
 * Ranks every output of numbers whose last axis has at least 2 elements or, with labels, as many elements as there are labels; and maps of
 * numbers with the same keys, as ZipMap gives, whose keys are the names of the classes. `lists` has room for n rankings, of which the first
 * *used are filled. Fails with E-LABELS if no output can be ranked.
 */
int rank_outputs(const struct output *out, size_t n, int64_t k, const struct labels *labels,
		 struct ranked *lists, size_t *used, struct arena *a, struct diag *d);

/* ---- checks before the run */

struct wanted {
	bool rank, text; /* --top, --decode */
	int64_t blank;
	const struct labels *labels;
};
/*
 * Checks that the graph's outputs, as far as their shapes are known, can be ranked or decoded. This reports E-LABELS
 * before a long run instead of after it, by rank_outputs or decode_ctc.
 */
int results_check(const struct graph *g, const struct wanted *w, struct diag *d);

/* ---- writing to a stream or as JSON */

/*
 * The functions print_... write lines for people, the functions json_... add members to the object that is open in j. limit is the
 * number of values shown of each tensor, or 0 for all values.
 */
void print_outputs(const struct output *out, size_t n, int64_t limit, FILE *stream);
void print_ranked(const struct ranked *r, const struct labels *labels, FILE *stream);
void json_values(struct json *j, const char *key, const struct tensor *t, int64_t limit);
void json_decoded(struct json *j, const struct decoded *t);
void json_ranked(struct json *j, const struct ranked *r, const struct labels *labels);

#endif
