/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_TREES_H
#define CPU_TREES_H
/* Tree ensembles, and what the kernels of ai.onnx.ml share. */
#include "backend/backend.h"
#include "ops/ml.h"

int tree_classifier_create(struct site *s, struct diag *d);
int tree_regressor_create(struct site *s, struct diag *d);
int ensemble_create(struct site *s, struct diag *d);
int tree_classifier_run(const struct call *c);
int tree_regressor_run(const struct call *c); /* TreeEnsemble too */

/* In place: the scores of one row. */
void post_apply(enum post_transform how, float *v, int64_t n);
/* One score becomes those of two classes: 1 - s and s, or (mixed) -s and s. */
void post_pair(enum post_transform how, float score, bool mixed, float *out);
/* Rows of X and features of each: a list is one row. */
void ml_rows(const struct tensor *x, int64_t *rows, int64_t *width);
/* The index of the highest of n scores: the first, where several are. */
int64_t ml_best(const float *v, int64_t n);
/* Labels by class index into output 0, where it is wanted. */
int ml_labels(const struct call *c, const struct texts *strings, const struct ints *ints,
	      const int64_t *which, int64_t n);

#endif
