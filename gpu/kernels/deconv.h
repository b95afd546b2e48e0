/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_DECONV_H
#define GPU_KERNELS_DECONV_H
/* The other convolutions: transposed, deformable, causal. Row-major. */
#include "params.h"

struct gpu_deconv {
	const void *x, *w, *b; /* w: [group * cin][cout][window] */
	void *y;
	int64_t n;		  /* elements of y */
	int64_t group, cin, cout; /* channels of a group */
	struct gpu_window win;
	int64_t image, pixels, window; /* products of in, out, kernel */
};

struct gpu_deform {
	const void *x, *w, *offset, *b, *mask;
	void *y;
	int64_t n;
	int64_t group, cin, cout, offsets; /* channels of a group; groups of offsets */
	int64_t in[2], out[2], kernel[2], stride[2], dilation[2], begin[2];
};

struct gpu_causal {
	const void *x, *w, *b, *past;
	void *y, *present;
	int64_t rows, channels, length, kernel;
	int silu;
};

#endif
