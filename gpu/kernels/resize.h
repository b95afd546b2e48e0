/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_RESIZE_H
#define GPU_KERNELS_RESIZE_H
/*
 * Parameters of the kernels of resize.cu. Each resized axis needs one pass, with a table of taps: the input positions
 * and their weights for each output position.
 */
#include <stdint.h>

enum { RESIZE_AXES = 16 };

struct gpu_resize_pass {
	const void *x;
	void *y;
	const int32_t *index; /* [out][taps] */
	const void *weight;   /* f32 or f64, the type in which the pass computes */
	int64_t n;	      /* elements of y */
	int64_t in, out, inner;
	int taps, whole; /* whole: round the results to integers and clamp them to low .. high */
	double low, high;
};

/*
 * Computes the table of taps of an axis on the device, as ops/taps.h does on the host, because the region to crop is
 * known only at run time.
 */
struct gpu_resize_region {
	const void *roi;
	int32_t *index;
	void *weight;
	uint8_t *outside;
	/* begin, end: indices of the elements of roi that bound the axis */
	int64_t in, out, begin, end;
	/* type: element type of roi, as ONNX numbers it; narrow: weights are f32 */
	int taps, type, narrow;
	int nearest, linear, nearest_mode, exclude;
	/* stretch: factor by which antialiasing widens the filter */
	double scale, stretch, cubic;
};

/* Converts integers to the type in which the passes compute, and back. */
struct gpu_resize_whole {
	const void *x;
	void *y;
	int64_t n;
	/* type: integer type, as ONNX numbers it; drop: cut off the fraction instead of rounding */
	int type, drop;
	double low, high;
};

/* Writes `value` to the positions that lie outside of the region along any axis. */
struct gpu_resize_outside {
	void *y;
	/* for each axis, flags of the positions outside of the region; null if all positions are inside */
	const uint8_t *outside[RESIZE_AXES];
	int64_t n, dim[RESIZE_AXES];
	int rank;
	double value;
};

#endif
