/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_LOSS_H
#define CHECK_LOSS_H
/*
 * How far an output is from its reference, in one number that has a derivative, so that the number can be divided among
 * the nodes that caused it. Numbers without a unit; 0 means equal. For an output with the elements y_i and the reference r_i:
 *
 *   maxabs  max |y_i - r_i| / max |r_i|
 *   cosine  1 - (y . r) / (|y| |r|)
 *   l2      |y - r|^2 / |r|^2
 *   kl      sum p_i ln(p_i / q_i) for each row along the last axis, in nats, and the mean over the rows: the divergence of
 *           Kullback and Leibler, "On information and sufficiency" (1951). p and q are r and y if the rows of r are
 *           distributions (nowhere negative, with a sum of 1), otherwise the Softmax of both. A row of one element is the
 *           probability of one of two classes: as it is if all of r lie between 0 and 1, otherwise its Sigmoid.
 */
#include "check/check.h"
#include "ir/tensor.h"

/*
 * Returns the loss of y against r, two tensors of f32 with as many elements, and sets slope, unless it is NULL, to its derivative
 * by each element of y. The derivative of maxabs is that of a norm with a high exponent in its place, as the largest element
 * alone would tell nothing of the next. A value that is not finite gives an infinite loss, with a slope of 0.
 */
double loss_of(const struct tensor *y, const struct tensor *r, enum check_metric metric, float *slope);
/*
 * Fills `to` with a random vector whose covariance is the second derivative of the loss by y, so that the expected square of its
 * product with a change of y is that change's second-order term, twice (Hutchinson, "A stochastic estimator of the trace", 1990).
 * It depends on *seed, which is changed. Returns false for maxabs, which has no second derivative, and for values that are not finite.
 */
bool loss_probe(const struct tensor *y, const struct tensor *r, enum check_metric metric,
		uint64_t *seed, float *to);

#endif
