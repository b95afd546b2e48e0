/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_SAMPLER_H
#define SESSION_SAMPLER_H
/* Chooses an id by a row of n scores of type t, as --next does. Vocabularies are long, and each step chooses. */
#include "ir/tensor.h"

/* Returns the first of the largest scores, or -1 if all are NaN. */
int64_t sample_largest(enum dtype t, const void *row, int64_t n);
/*
 * Draws an id from the `top` largest scores (0: from all), with probabilities that are the softmax of the scores over the temperature.
 * *random is a sequence of random_start(). Returns -1 if all scores are NaN.
 */
int64_t sample_draw(enum dtype t, const void *row, int64_t n, int64_t top, double temperature,
		    uint64_t *random);

#endif
