/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_CODES_H
#define GPU_KERNELS_CODES_H
/* Parameters of the kernels of codes.cu: quantized operators from 8-bit codes to 8-bit codes. */
#include "jobs.h"

enum { GPU_CODES_SIGMOID, GPU_CODES_LEAKY, GPU_CODES_GIVEN };

/*
 * inputs: X, its scale, its zero point, the output's scale, the output's zero point; or, with GPU_CODES_GIVEN, X and the
 * table of the 256 results
 */
struct gpu_codes {
	struct gpu_io io;
	int64_t n;
	int how; /* GPU_CODES_* */
	float alpha;
};

/* inputs: A, its scale, its zero point, B, its scale, its zero point, the output's scale, the output's zero point */
struct gpu_code_pairs {
	struct gpu_io io;
	int64_t n;
	struct gpu_dims d;
	int64_t step[2][GPU_DIMS];
	int multiply, flat; /* flat: A, B and the output have the same shape */
};

#endif
