/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_REDUCE_H
#define OPS_REDUCE_H
#include "base/field.h"

struct reduce {
	int64_t keepdims, noop_with_empty_axes;
};
enum { ARG_MAX, ARG_MIN }; /* .variant of the rows */
struct arg_reduce {	   /* ArgMax, ArgMin */
	int64_t axis, keepdims, select_last_index;
};
enum { CUMULATE_SUM, CUMULATE_PRODUCT }; /* .variant of the rows */
struct cumulate {			 /* CumSum, CumProd */
	int64_t exclusive, reverse;
};

#endif
