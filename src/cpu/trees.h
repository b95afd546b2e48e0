/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_TREES_H
#define CPU_TREES_H
/* Tree ensembles, and functions that they share with the other kernels of ai.onnx.ml. */
#include "backend/backend.h"
#include "ops/ml.h"

int tree_classifier_create(struct site *s, struct diag *d);
int tree_regressor_create(struct site *s, struct diag *d);
int ensemble_create(struct site *s, struct diag *d);
int tree_classifier_run(const struct call *c);
int tree_regressor_run(const struct call *c); /* also runs TreeEnsemble */

/* Applies the post-transform to the n scores of one row, in place. */
void post_apply(enum post_transform how, float *v, int64_t n);
/*
 * Turns the score s of a binary classifier into the scores of both classes: logistic gives logistic(-s) and
 * logistic(s); the other transforms give 1 - s and s, or -s and s if `mixed`, that is, if the weights have mixed
 * signs.
 */
void post_pair(enum post_transform how, float score, bool mixed, float *out);
/*
 * Sets *rows to the number of rows of X and *width to the number of features per row. X with one dimension is one row.
 */
void ml_rows(const struct tensor *x, int64_t *rows, int64_t *width);
/* Returns the index of the highest of n scores, or the first such index if several scores are equal. */
int64_t ml_best(const float *v, int64_t n);
/* Writes the labels of n class indices to output 0, if the node has this output. */
int ml_labels(const struct call *c, const struct texts *strings, const struct ints *ints,
	      const int64_t *which, int64_t n);

#endif
