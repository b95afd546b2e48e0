/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_DECONV_H
#define GPU_KERNELS_DECONV_H
/* Parameters of the kernels of deconv.cu: transposed, deformable and causal convolutions of row-major tensors. */
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
 * The second half of a transposed convolution: each element of y sums the products of input pixels and weights that
 * contribute to it. A matrix product has computed them into columns [planes][cout][window][image] of float32 or
 * float64. Along an axis, only every `every`-th element of the window reaches a given output, and the input position
 * decreases by `back` from one of these window elements to the next.
 */
struct gpu_gather_taps {
	const void *columns, *b;
	void *y;
	/* output channel, counted over all planes, to which the first row of columns belongs */
	int64_t first;
	/* n: elements of y; map: index of the first row's output channel within its image, which has `maps` channels */
	int n, map;
	int image, window;
	struct gpu_divisor maps, pixels, out[GPU_SPACE], stride[GPU_SPACE];
	int in[GPU_SPACE], kernel[GPU_SPACE], dilation[GPU_SPACE], begin[GPU_SPACE];
	int every[GPU_SPACE], back[GPU_SPACE];
};

struct gpu_deform {
	const void *x, *w, *offset, *b, *mask;
	void *y;
	int64_t n;
	/* cin, cout: channels of a group; offsets: number of groups of offsets */
	int64_t group, cin, cout, offsets;
	int64_t in[2], out[2], kernel[2], stride[2], dilation[2], begin[2];
};

struct gpu_causal {
	const void *x, *w, *b, *past;
	void *y, *present;
	int64_t rows; /* channels of all batches */
	int64_t channels, length, kernel, dilation;
	int64_t state, window; /* positions that a state holds; states that present holds */
	int silu, last;	       /* last: the channels lie behind the positions */
};

#endif
