/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_TAPS_H
#define OPS_TAPS_H
/*
 * Resize axis by axis: each output element along an axis is a weighted sum of n input elements, its taps. All kernels
 * of Resize work from tables of taps.
 */
#include "ops/resize.h"

struct taps {
	int64_t in, out; /* sizes of the axis */
	int64_t n;	 /* number of taps of each output element; 0 if the axis is not resized */
	int64_t *index;	 /* [out, n] */
	double *weight;	 /* [out, n] */
	bool *outside;	 /* [out]: true if the element has the extrapolation value */
	/* output elements 2i and 2i + 1 are input element i (mode nearest, scale 2) */
	bool twice;
};

struct taps_axis {
	const struct resize *p;
	int64_t in, out;
	double scale, roi0, roi1;
};

bool taps_linear(const struct resize *p);
/* Number of taps of an output element for this scale. Antialiasing a shrinking axis needs more of them. */
int64_t taps_count(const struct resize *p, double scale);
/* Fills index, weight, outside and twice; the caller has set in, out and n and allocated the arrays. */
void taps_fill(const struct taps_axis *a, struct taps *t);
/* Whether axis d is resized: its size changes, or the scale or the crop changes its elements. */
bool taps_change(const struct resize *p, const struct resize_sizes *r, const struct shape *x, int d);
/*
 * Computes the order in which axes are resized one after the other; returns their number. Axes that shrink come
 * first, from the first axis on, because they leave less work for the rest; then those that grow, from the last on.
 * With `fixed`, all axes go from the last one on, whatever their sizes.
 */
int taps_order(int rank, const int64_t *in, const int64_t *out, const bool *changed, bool fixed,
	       int *order);

#endif
