/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPT_MAGNITUDE_H
#define OPT_MAGNITUDE_H
/*
 * How large the elements of values can become whatever the inputs are, as far as constants tell. A normalization is
 * where such bounds come from: a normalized row of n elements has the Euclidean norm sqrt(n), so that its product with
 * a column w is at most sqrt(n) * |w|, and attention gives weighted means of rows of V.
 */
#include "opt/optimizer.h"

struct magnitude {
	double most; /* of an element; INFINITY: not known */
	double norm; /* Euclidean norm of the elements along the last dimension; INFINITY: not known */
};

/* Returns the bounds of the values of g, indexed by value id, in o->scratch. g->order must be sorted. */
struct magnitude *magnitudes(struct optimizer *o, const struct graph *g);

/* Whether n normalizes along the last dimension alone, with a constant scale and bias. */
bool normalizes_rows(const struct graph *g, const struct node *n);

#endif
