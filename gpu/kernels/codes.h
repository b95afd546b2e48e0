/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_CODES_H
#define GPU_KERNELS_CODES_H
/* What codes.cu is handed: functions of 8-bit codes that give such codes. */
#include "jobs.h"

enum { GPU_CODES_SIGMOID, GPU_CODES_LEAKY };

struct gpu_codes { /* X, its scale and zero point; the output's */
	struct gpu_io io;
	int64_t n;
	int how; /* GPU_CODES_* */
	float alpha;
};

struct gpu_code_pairs { /* A, its scale and zero point; B's; the output's */
	struct gpu_io io;
	int64_t n;
	struct gpu_dims d;
	int64_t step[2][GPU_DIMS];
	int multiply, flat; /* flat: neither operand is repeated */
};

#endif
