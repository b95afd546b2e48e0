/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_REDUCE_H
#define OPS_REDUCE_H
#include "base/field.h"

struct reduce {
	int64_t keepdims, noop_with_empty_axes;
};
struct arg_reduce { /* ArgMax, ArgMin */
	int64_t axis, keepdims, select_last_index;
};
struct cumulate { /* CumSum, CumProd */
	int64_t exclusive, reverse;
};

#endif
