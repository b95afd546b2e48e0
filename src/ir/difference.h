/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IR_DIFFERENCE_H
#define IR_DIFFERENCE_H
/* Measures how far a value is from its reference, by the rule of ONNX's test runner and by the usual metrics. */
#include "ir/tensor.h"

struct tolerance {
	double rtol, atol;
};

/* A tensor and its reference: the values that are compared, or elements of these if they are sequences or maps. */
struct tensor_pair {
	const struct tensor *got, *want;
};

struct difference {
	/* true if all tensors, elements of sequences included, have the expected type or shape */
	bool same_type, same_shape;
	int64_t count; /* elements compared */
	/* number of elements over the tolerance, with NaN on one side only, or with unequal strings */
	int64_t beyond;
	/* elements that are no finite number on one side or both, and unequal: the sums and maxima below leave them out */
	int64_t odd;
	int64_t nan_got, nan_want; /* of them, those that are NaN on this side alone */
	int64_t first;		   /* index of the first such element; -1 if there is none */
	double got, want;	   /* its values */
	double max_abs, max_want;  /* largest |got - want|; largest finite |want| */
	int64_t worst; /* index of the largest difference of finite numbers; -1 if all are equal */
	double worst_got, worst_want;
	/* the largest of |got - want| - rtol * |want|, the least atol that lets all finite elements pass; and where it is */
	double least_atol;
	int64_t farthest; /* -1 if all are equal */
	double farthest_got, farthest_want;
	/* the tensors of which `first`, `worst` and `farthest` are indices; `now`: those that are compared at the moment */
	struct tensor_pair first_in, worst_in, farthest_in, now;
	double dot, norm_got, norm_want, norm_diff; /* sums of products and squares */
};

/*
 * True if types and shapes agree and |got - want| <= atol + rtol * |want| for each element. NaN equals NaN, and an
 * infinity equals the same infinity; strings must be equal. For bf16, rtol is at least 2^-6.
 */
bool compare_tensors(const struct tensor *got, const struct tensor *want, struct tolerance t,
		     struct difference *d);

/*
 * Compares the elements of two tensors of the same shape as numbers, whatever their types, which must be numbers and not
 * complex; bf16 gets no tolerance beyond t.
 */
void compare_as_numbers(const struct tensor *got, const struct tensor *want, struct tolerance t,
			struct difference *d);

/* Cosine distance, 1 - cos(angle): 0 for the same direction, 1 for a right angle, 2 for opposite directions. */
double difference_cosine(const struct difference *d);
/* L2 norm of the difference over the L2 norm of the reference. */
double difference_l2(const struct difference *d);

#endif
