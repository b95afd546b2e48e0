/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_SORT_H
#define OPS_SORT_H
#include "base/field.h"

struct topk_params {
	int64_t axis, largest, sorted;
};
struct unique_params {
	int64_t axis; /* INT_ABSENT: flattened */
	int64_t sorted;
};

#endif
