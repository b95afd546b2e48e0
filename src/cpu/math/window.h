/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CPU_MATH_WINDOW_H
#define CPU_MATH_WINDOW_H
/* Iteration over windows, shared by the CPU's convolutions and poolings. */
#include "ops/window.h"

/* Converts the row-major index i in a grid of n axes with the given sizes to coordinates. */
static inline void window_split(int64_t i, const int64_t *size, int n, int64_t *at)
{
	for (int d = n - 1; d >= 0; d--) {
		at[d] = i % size[d];
		i /= size[d];
	}
}

/* Advances the coordinates of n axes to the next ones in row-major order. */
static inline void window_next(int64_t *at, const int64_t *size, int n)
{
	for (int d = n - 1; d >= 0; d--) {
		if (++at[d] < size[d])
			return;
		at[d] = 0;
	}
}

/*
 * Sets *place to the row-major index, over the first n axes, of the input element that output o reads for the kernel
 * element `tap`. Returns false if the kernel element reads padding.
 */
static inline bool window_at(const struct window *w, int n, const int64_t *o, const int64_t *tap,
			     int64_t *place)
{
	int64_t at = 0;

	for (int d = 0; d < n; d++) {
		int64_t i = o[d] * w->stride[d] - w->begin[d] + tap[d] * w->dilation[d];
		if (i < 0 || i >= w->in[d])
			return false;
		at = at * w->in[d] + i;
	}
	*place = at;
	return true;
}

/* Sets the range of outputs *from..*from+*count-1 on axis d whose input at kernel element `tap` is not padding. */
static inline void window_run(const struct window *w, int d, int64_t tap, int64_t *from, int64_t *count)
{
	int64_t s = w->stride[d], at = tap * w->dilation[d] - w->begin[d];
	int64_t first = at >= 0 ? 0 : (-at + s - 1) / s;
	int64_t end = w->in[d] - at <= 0 ? 0 : (w->in[d] - at + s - 1) / s;

	if (end > w->out[d])
		end = w->out[d];
	*from = first;
	*count = end > first ? end - first : 0;
}

#endif
