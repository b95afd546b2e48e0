/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_RNN_H
#define GPU_KERNELS_RNN_H
/* Parameters of the kernels of rnn.cu for DynamicQuantizeLSTM. */
#include "jobs.h"

/*
 * GPU_QLSTM_UNITS and GPU_QLSTM_ROWS: units and sequences that a block computes. GPU_QLSTM_PARTS: largest number of
 * blocks that search for the range of X.
 */
enum { GPU_QLSTM_UNITS = 32, GPU_QLSTM_ROWS = 4, GPU_QLSTM_PARTS = 256 };

/* In arrays of two, element [0] belongs to W and element [1] to R. */
struct gpu_qlstm {
	struct gpu_rnn rnn; /* rnn.io has the operands up to P */
	const float *scale[2];
	const void *zero[2];
	/*
	 * many_scales, many_zeros: whether each column has a scale (zero point) of its own, instead of one for each
	 * direction
	 */
	int zero_type[2], many_scales[2], many_zeros[2];
	/*
	 * x_parts: number of blocks that search for the range of X; parts: number of them for the state of one
	 * direction
	 */
	int64_t x_parts, parts;
	int64_t at_x_part, at_part[2], at_codes; /* offsets into the workspace */
};

#endif
