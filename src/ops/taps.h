/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_TAPS_H
#define OPS_TAPS_H
/*
 * Resize, said axis by axis: which elements of the input, with which weights, make each place of the output.
 * What every kernel of Resize is made from.
 */
#include "ops/resize.h"

struct taps {
	int64_t in, out, n; /* n taps for each of out places; 0: the axis stays */
	int64_t *index;
	double *weight;
	bool *outside;
	bool twice; /* every element two times */
};

struct taps_axis {
	const struct resize *p;
	int64_t in, out;
	double scale, roi0, roi1;
};

bool taps_linear(const struct resize *p);
/* Taps a place has; scale at least what it will be in the run. */
int64_t taps_count(const struct resize *p, double scale);
/* t->in, out, n and room are set. */
void taps_fill(const struct taps_axis *a, struct taps *t);
/* Whether axis d changes at all. */
bool taps_change(const struct resize *p, const struct resize_sizes *r, const struct shape *x, int d);
/*
 * The order of the passes, and their number: what gets smaller first, from the first axis on; then what
 * grows, from the last axis on. fixed: all from the last axis on.
 */
int taps_order(int rank, const int64_t *in, const int64_t *out, const bool *changed, bool fixed,
	       int *order);

#endif
