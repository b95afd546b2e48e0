/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_FLOAT8_H
#define GPU_KERNELS_FLOAT8_H
/* Parameters of the kernels of float8.cu: rounding to float8e4m3fn, and products of such numbers. */
#include <stdint.h>

/* float8_most finds the largest magnitudes of at most so many parts of a tensor. */
enum { GPU_FLOAT8_PARTS = 256, GPU_FLOAT8_TILE = 32 };

/* y = x / scale. If `part` is given, the scale is the largest of the `parts` magnitudes over 448, and *s receives it. */
struct gpu_float8 {
	const void *x;
	void *y;
	float *part, *s;
	int64_t n;
	int32_t parts;
	float scale;
};

/* y = act(scale * *s * a * b^T + c + r) * *d; c, r, s and d may be null */
struct gpu_float8_gemm {
	const void *a, *b, *c, *r;
	const float *s, *d;
	void *y;
	int64_t m, n, k;
	int32_t act, rounds; /* rounds: y is float8 */
	float scale, act_alpha, act_beta;
};

#endif
