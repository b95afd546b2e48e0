/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_RNN_H
#define GPU_KERNELS_RNN_H
/* What the kernels of rnn.cu are handed for DynamicQuantizeLSTM. */
#include "jobs.h"

/* Units and sequences that a block makes; blocks that look for the range of X at most. */
enum { GPU_QLSTM_UNITS = 32, GPU_QLSTM_ROWS = 4, GPU_QLSTM_PARTS = 256 };

/* [0] of each pair is W's, [1] R's. */
struct gpu_qlstm {
	struct gpu_rnn rnn; /* operands up to P */
	const float *scale[2];
	const void *zero[2];
	int zero_type[2], many_scales[2], many_zeros[2]; /* one a column, else one a direction */
	int64_t x_parts, parts; /* blocks that leave a range: of X, of a direction's state */
	int64_t at_x_part, at_part[2], at_codes; /* offsets into the workspace */
};

#endif
