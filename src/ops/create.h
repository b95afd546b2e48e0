/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_CREATE_H
#define OPS_CREATE_H
#include "base/field.h"

struct tensor;

enum { FILL_WITH_TENSOR, FILL_WITH_FLOAT }; /* .variant of ConstantOfShape and ConstantFill */
struct constant_of_shape {
	const struct tensor *value; /* tensor of one element; NULL stands for an f32 zero */
};
struct constant_fill {
	int64_t dtype, input_as_shape;
	float value;
	struct ints shape, extra_shape;
};
struct eye_like {
	/* dtype INT_ABSENT stands for the input's type; k is the number of the diagonal */
	int64_t dtype, k;
};
struct range_params {
	int64_t stash_type;
};
/* RandomNormal(Like): a is the mean, b the scale. RandomUniform(Like): a is low, b is high. */
enum { RANDOM_UNIFORM, RANDOM_NORMAL }; /* .variant of the rows */
struct random {
	struct ints shape;
	int64_t dtype;
	float seed, a, b;
};
struct bernoulli {
	int64_t dtype;
	float seed;
};
struct multinomial {
	int64_t dtype, sample_size;
	float seed;
};

#endif
