/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_RESIZE_H
#define GPU_KERNELS_RESIZE_H
/* One pass of Resize along an axis; tables by place of the output. */
#include <stdint.h>

enum { RESIZE_AXES = 16 };

struct gpu_resize_pass {
	const void *x;
	void *y;
	const int32_t *index; /* [out][taps] */
	const void *weight;   /* as it is computed in: f32 or f64 */
	int64_t n;	      /* elements of y */
	int64_t in, out, inner;
	int taps, whole; /* whole: round to a number of the range after the pass */
	double low, high;
};

/* The tables of an axis of a region that only the run knows; as ops/taps.h makes them. */
struct gpu_resize_region {
	const void *roi;
	int32_t *index;
	void *weight;
	uint8_t *outside;
	int64_t in, out, begin, end; /* begin, end: elements of roi */
	int taps, type, narrow;	     /* type: roi's, as ONNX numbers it; narrow: weights are f32 */
	int nearest, linear, nearest_mode, exclude;
	double scale, stretch, cubic; /* stretch: of the filter */
};

/* Integers to what is computed in, and back. */
struct gpu_resize_whole {
	const void *x;
	void *y;
	int64_t n;
	int type, drop; /* as ONNX numbers it; drop: of the fraction */
	double low, high;
};

/* Where any axis lies outside the region. */
struct gpu_resize_outside {
	void *y;
	const uint8_t *outside[RESIZE_AXES]; /* null: none is */
	int64_t n, dim[RESIZE_AXES];
	int rank;
	double value;
};

#endif
