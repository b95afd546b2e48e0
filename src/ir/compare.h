/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IR_COMPARE_H
#define IR_COMPARE_H
/* How far a value is from its reference: ONNX's test runner's rule, and the usual distances. */
#include "ir/tensor.h"

struct tolerance {
	double rtol, atol;
};

struct difference {
	bool same_type, same_shape; /* of all parts, sequences' elements included */
	int64_t count;		    /* elements compared */
	int64_t beyond;	  /* elements over the tolerance, NaN against number, unequal strings */
	int64_t first;	  /* index of the first of these; -1 */
	double got, want; /* its values */
	double max_abs, max_want; /* largest |got - want|; largest finite |want| */
	int64_t worst;		  /* index of the largest difference, of finite numbers; -1 */
	double worst_got, worst_want;
	double dot, norm_got, norm_want, norm_diff; /* sums of products and squares */
};

/* |got - want| <= atol + rtol * |want|; NaN equals NaN, infinities their like; strings must be equal. */
bool compare_tensors(const struct tensor *got, const struct tensor *want, struct tolerance t,
		     struct difference *d);

/* 1 less the cosine of the angle between the two: 0 the same direction, 1 at right angles, 2 opposite. */
double difference_cosine(const struct difference *d);
/* Length of the difference over the length of the reference. */
double difference_l2(const struct difference *d);

#endif
