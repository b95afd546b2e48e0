/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_ATTEND_GROUP_H
#define GPU_KERNELS_ATTEND_GROUP_H
#include "params.h"

/* An attention whose y is float8e4m3fn: what would be in y, times `by`. */
struct gpu_attend_float8 {
	struct gpu_attend attend;
	float by;
};

/* Attention over few keys by warpgroups (attend_group.cu): the most keys that a kernel takes, and its blocks of a processor. */
#define GPU_ATTEND_GROUP_KEYS(X) X(128, 3) X(208, 3) X(256, 2)
/* Bytes of shared memory that a block takes: keys and values, two tiles of queries, what a mask adds. */
#define GPU_ATTEND_GROUP_SHARED(keys) ((keys)*256 + 2 * 64 * 128 + (keys)*4)

#endif
