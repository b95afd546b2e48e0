/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCORE_SCORE_H
#define SCORE_SCORE_H
/*
 * Scores: how often, or how nearly, the outputs of many inputs are right.
 *
 *   scores_open -> { scores_judge -> score_merge } for each input -> score_value, scores_write
 *
 * A score is kept as sums that can be put together in any order and any parts, and then give the same number to the last
 * bit: counts, integers, and for map the matched boxes. score_sums_write() and score_sums_read() are their form in files.
 */
#include "base/field.h"
#include "output/boxes.h"
#include "output/result.h"
#include "score/truth.h"

enum score_kind {
	SCORE_TOP,
	SCORE_EXACT,
	SCORE_WER,
	SCORE_CER,
	SCORE_MAP,
	SCORE_PSNR,
	SCORE_COSINE
};

struct score_sums {
	int64_t inputs;	  /* counted */
	int64_t sum;	  /* right answers; edits; billionths of what is averaged */
	int64_t of;	  /* answers; words or characters; values */
	int64_t infinite; /* psnr: outputs that equal their reference, which are not in `sum` */
	struct matches matches; /* map */
};

struct score {
	const char *name; /* "top5" */
	enum score_kind kind;
	int64_t k; /* of SCORE_TOP */
	double range; /* of SCORE_PSNR: largest minus smallest possible value; NAN: by the reference's type */
	double limit;	    /* of --fail-below; NAN: none */
	const char *source; /* FILE or DIR */
	struct truth truth; /* if the source is a file */
	struct score_sums sums;
};

struct scores {
	struct arena arena;
	struct score *v;
	size_t n;
	const struct labels *labels;
	const char *const *label, *const *name; /* of the inputs */
};

/* Returns the kind of a score by its name, and k of "topK". Returns false if there is no such score. */
bool score_named(const char *name, enum score_kind *kind, int64_t *k);

struct score_request {
	struct texts score, fail_below;		/* "top1=truth.csv", "top1=0.75" */
	const char *const *label, *const *name; /* of all inputs, which are `n` */
	size_t n;
	const struct labels *labels;
	bool text, boxes; /* whether --decode gives these */
};
/*
 * Reads the truth and refuses what cannot be scored. What the request points to must outlive the scores. Fails with
 * E-OPTION or E-TRUTH.
 */
int scores_open(struct scores *s, const struct score_request *r, struct diag *d);

/* What the model says of one input. */
struct score_answer {
	const struct output *out;
	size_t nout;
	const struct decoded *text;
	const struct boxes *boxes;
};
/* Sets sums[k] to those of input i alone, for each score. The arena holds them. Fails with E-TRUTH or E-LABELS. */
int scores_judge(const struct scores *s, size_t i, const struct score_answer *answer,
		 struct score_sums *sums, struct arena *a, struct diag *d);

/* Fails with E-SIZE if a sum overflows. */
int score_merge(struct score_sums *to, const struct score_sums *from, struct arena *a, struct diag *d);
/* Returns NAN if nothing was counted. */
double score_value(enum score_kind kind, const struct score_sums *sums);
/* Adds a finding for each score that is worse than its limit, and returns -E_SCORE if there is one. */
int scores_check(const struct scores *s, struct diag *d);

/* Writes the members of the open object, and reads them back; false if v has not been written so. */
void score_sums_write(enum score_kind kind, const struct score_sums *sums, struct json *j);
bool score_sums_read(enum score_kind kind, struct score_sums *sums, const struct jvalue *v,
		     struct arena *a);
/* Writes a member "scores": an object with an object {"value", sums} for each score, by name. sums: NULL for all inputs'. */
void scores_write(const struct scores *s, const struct score_sums *sums, struct json *j);
/*
 * Adds what scores_write() wrote of one input to the sums, for a run that goes on. Unless `of` is NULL, of[k] become the
 * input's own sums for each score k; what they point to is in the arena. Returns false if v is something else.
 */
bool scores_resume(struct scores *s, const struct jvalue *v, struct score_sums *of, struct arena *a,
		   struct diag *d);
/* Prints a line for each score. total: the number of inputs. */
void scores_print(const struct scores *s, size_t total, FILE *f);

#endif
