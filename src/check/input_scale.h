/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_INPUT_SCALE_H
#define CHECK_INPUT_SCALE_H
/*
 * Compares the scale of an input with the scale that the model was trained on. A BatchNormalization keeps the mean and
 * the variance of the values that it saw in training; if it reads the input, directly or through one convolution, the
 * input must lead to about the same variance.
 */
#include "ir/graph.h"

struct scale_evidence {
	const struct node *norm; /* the BatchNormalization */
	const struct node *conv; /* the Conv between it and the input, or NULL */
	/* medians over the channels of the standard deviation of what it reads: in training, and of this input */
	double trained, given;
	double ratio; /* median of given / trained */
};

/*
 * Measures on a sample of tensor t, the input v of graph g. Returns false if the model has no such BatchNormalization,
 * or if the tensor is too small.
 */
bool measure_scale(const struct graph *g, const struct value *v, const struct tensor *t,
		   struct scale_evidence *e);

#endif
