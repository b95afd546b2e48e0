/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_TRAINING_H
#define OPS_TRAINING_H
/* ai.onnx.preview.training */
#include "base/field.h"

enum { TRAIN_ADAGRAD, TRAIN_ADAM, TRAIN_MOMENTUM }; /* .variant of the rows */
struct adagrad_params {
	float decay_factor, epsilon, norm_coefficient;
};
struct adam_params {
	float alpha, beta, epsilon, norm_coefficient, norm_coefficient_post;
};
enum momentum_mode { MOMENTUM_STANDARD, MOMENTUM_NESTEROV };
struct momentum_params {
	float alpha, beta, norm_coefficient;
	int mode; /* enum momentum_mode */
};
struct gradient_params {
	struct texts xs, zs;
	const char *y;
};

#endif
