/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_PIXEL_H
#define GPU_KERNELS_PIXEL_H
#include <stdint.h>

/*
 * A channels-last convolution with a 1 x 1 window: y[m][n] = act(sum over k of x[m][k] * w[n][k] + b[n] + r[m][n]) for
 * m pixels. The numbers of channels, n and k, are multiples of 8.
 */
struct gpu_pixel {
	const void *x, *w, *b, *r; /* b, r may be null */
	void *y;
	int64_t m;
	int n, k;
	int act;
	float alpha, beta;
	int w_is_weight; /* w may be read while the kernels before this one still run */
};

#endif
