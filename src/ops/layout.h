/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_LAYOUT_H
#define OPS_LAYOUT_H
#include "base/field.h"

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
enum depth_mode { DEPTH_DCR, DEPTH_CRD };
struct depth_params { /* DepthToSpace and SpaceToDepth */
	int64_t blocksize;
	int mode; /* enum depth_mode */
};

#endif
