/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_LAYOUT_H
#define OPS_LAYOUT_H
#include "base/field.h"

struct op;

struct reshape_params {
	int64_t allowzero;
};
struct flatten_params {
	int64_t axis;
};
struct transpose_params {
	struct ints perm; /* absent: reversed */
};
struct concat_params {
	int64_t axis;
};
struct shape_params {
	int64_t start, end; /* end: INT_ABSENT */
};
/*
 * infer::Operands(first, others...) -> first: checks the operands of a node that other operators have replaced, when a plan is
 * made, because their sizes were not known before. `at` has the place of each input among the node's own.
 */
enum { MAX_OPERANDS = 32 };
struct operands {
	int64_t node; /* the node's number, so that no two are equal */
	const struct op *op;
	const void *params;
	uint32_t nin, at[MAX_OPERANDS];
};
enum depth_mode { DEPTH_DCR, DEPTH_CRD };
struct depth_params { /* DepthToSpace and SpaceToDepth */
	int64_t blocksize;
	int mode; /* enum depth_mode */
};

#endif
