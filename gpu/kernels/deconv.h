/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_DECONV_H
#define GPU_KERNELS_DECONV_H
/* The other convolutions: transposed, deformable, causal. Row-major. */
#include "divide.h"
#include "params.h"

struct gpu_deconv {
	const void *x, *w, *b; /* w: [group * cin][cout][window] */
	void *y;
	int64_t n;		  /* elements of y */
	int64_t group, cin, cout; /* channels of a group */
	struct gpu_window win;
	int64_t image, pixels, window; /* products of in, out, kernel */
};

/*
 * y = what the products of each input pixel with the weights give to it: columns [planes][cout][window][image] of
 * float32 or float64. `every`: how far apart the window's elements are that reach an output; `back`: how far apart
 * the inputs are from which they do.
 */
struct gpu_gather_taps {
	const void *columns, *b;
	void *y;
	int64_t first; /* plane and map of y that the first row of columns is, as one number */
	int n, map;    /* elements of y; the first row's map of its image, of `maps` */
	int image, window;
	struct gpu_divisor maps, pixels, out[GPU_SPACE], stride[GPU_SPACE];
	int in[GPU_SPACE], kernel[GPU_SPACE], dilation[GPU_SPACE], begin[GPU_SPACE];
	int every[GPU_SPACE], back[GPU_SPACE];
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
