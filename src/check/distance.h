/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_DISTANCE_H
#define CHECK_DISTANCE_H
/* The distance of a value from its reference, when both come from runs of the same model. */
#include "base/diag.h"
#include "ir/tensor.h"

struct distance {
	bool known; /* false if values of this type cannot be compared, or have not been compared yet */
	bool fits;  /* types and shapes agree */
	bool exact; /* equal to the bit */
	bool text; /* the elements are strings (equal, or one number in 8 digits), of which only count, at and rel are set */
	bool zero; /* all elements of the value are 0, but not all of the reference */
	int64_t count; /* elements */
	int64_t wrong; /* number of elements that are NaN or infinite on one side only */
	int64_t at; /* index of the first `wrong` element, otherwise of the largest difference; -1 if none */
	int64_t steps; /* of integers of up to 16 bits: number of elements that differ by 1, which does not count for `rel` */
	double got, want; /* that element's value and reference */
	double max_abs;	  /* largest absolute difference */
	double max_want;  /* largest absolute value of the reference */
	double rel; /* for floats max_abs / max_want, for integers and strings the share of elements that differ */
};
/*
 * Returns the distance of got from want. Both must be row-major and in host memory; their types may differ. The distance of a
 * sequence, an optional or a map is that of its tensor that is farthest away.
 */
struct distance distance_of(const struct tensor *got, const struct tensor *want);
/*
 * Returns a number that orders distances: -1 for unknown distances, infinity for values that differ in type, shape or
 * finiteness.
 */
double distance_rank(const struct distance *d);
/* Returns the limit for values of type t: a short type, which rounds coarsely, raises it. */
double distance_limit(enum dtype t, double limit);
/* Returns a text such as "0.004 of the largest element" of a limit for a value of type t that has the distance x. */
const char *distance_limit_say(struct diag *d, const struct distance *x, enum dtype t, double limit);
/* Whether the distance exceeds that limit. */
bool distance_over(const struct distance *d, enum dtype t, double limit);
/* Returns a text such as "max diff 0.5 of 8 (0.062), at element 3: 7.5 for 8", which lives as long as d. */
const char *distance_say(struct diag *d, const struct distance *x);

#endif
