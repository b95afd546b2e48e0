/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_GATHER_H
#define OPS_GATHER_H
#include "base/field.h"

struct gather_params { /* Gather, GatherElements */
	int64_t axis;
};
struct gather_nd_params {
	int64_t batch_dims;
};
enum scatter_reduction { SCATTER_NONE, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN };
/* the .variant of a row says what an index addresses */
enum { SCATTER_ALONG_AXIS, SCATTER_TUPLES };
struct scatter_params { /* ScatterElements, Scatter, ScatterND (no axis) */
	int64_t axis;
	int reduction; /* enum scatter_reduction */
};
struct one_hot_params {
	int64_t axis;
};
struct compress_params {
	int64_t axis; /* INT_ABSENT: flattened */
};
enum tensor_scatter_mode { TENSOR_SCATTER_LINEAR, TENSOR_SCATTER_CIRCULAR };
struct tensor_scatter_params {
	int64_t axis;
	int mode; /* enum tensor_scatter_mode */
};

#endif
