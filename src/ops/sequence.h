/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_SEQUENCE_H
#define OPS_SEQUENCE_H
#include "base/field.h"

struct type_attr;

struct sequence_empty_params {
	int64_t dtype; /* ONNX's number of the type; INT_ABSENT stands for float */
};
struct concat_from_sequence_params {
	int64_t axis, new_axis;
};
struct split_to_sequence_params {
	int64_t axis, keepdims;
};
struct optional_params {
	const struct type_attr *type; /* NULL: the input's */
};

#endif
