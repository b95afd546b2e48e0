/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_KERNELS_RESIZE_H
#define GPU_KERNELS_RESIZE_H
/* Parameters of the kernels of resize.cu: one pass for each axis, with a table of taps by output position. */
#include <stdint.h>

enum { RESIZE_AXES = 16 };

struct gpu_resize_pass {
	const void *x;
	void *y;
	const int32_t *index; /* [out][taps] */
	const void *weight;   /* of the type that the pass computes in: f32 or f64 */
	int64_t n;	      /* elements of y */
	int64_t in, out, inner;
	int taps, whole; /* whole: afterwards, round to an integer and clamp to low .. high */
	double low, high;
};

/* Computes an axis' table of taps on the device, as ops/taps.h does on the host: the region is known at run time only. */
struct gpu_resize_region {
	const void *roi;
	int32_t *index;
	void *weight;
	uint8_t *outside;
	int64_t in, out, begin,
		end;		/* begin, end: numbers of the elements of roi that bound the axis */
	int taps, type, narrow; /* type: that of roi, as ONNX numbers it; narrow: weights are f32 */
	int nearest, linear, nearest_mode, exclude;
	double scale, stretch, cubic; /* stretch: how much antialiasing stretches the filter */
};

/* Converts integers to the type that passes compute in, and back. */
struct gpu_resize_whole {
	const void *x;
	void *y;
	int64_t n;
	int type, drop; /* type: of the integers, as ONNX numbers it; drop: cut off the fraction instead of rounding */
	double low, high;
};

/* Writes `value` to the positions that lie outside of the region along any axis. */
struct gpu_resize_outside {
	void *y;
	const uint8_t *outside[RESIZE_AXES]; /* by axis and position; null: none is outside */
	int64_t n, dim[RESIZE_AXES];
	int rank;
	double value;
};

#endif
