/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_WINDOW_H
#define GPU_LAUNCH_WINDOW_H
/* The window of an operator (ops/window.h) in the form of the kernels, which always have GPU_SPACE spatial axes. */
#include "gpu/kernels/conv.h"
#include "gpu/kernels/params.h"
#include "ops/window.h"

/* Right-aligns the n numbers of v among GPU_SPACE axes; the axes before them get the number `absent`. */
void gpu_space(int64_t *to, const int64_t *v, int n, int64_t absent);
/* Product of GPU_SPACE numbers. */
static inline int64_t gpu_volume(const int64_t *v)
{
	return v[0] * v[1] * v[2];
}

/* Returns why the kernels have no window for an input of this rank, or NULL if they have one. */
const char *gpu_window_axes(const struct shape *x);
void gpu_window_take(struct gpu_window *g, const struct window *w);
/*
 * Sets the window of the kernels from the attributes and shapes. Returns the reason on failure, otherwise NULL. `end`
 * gets the padding behind the input and may be NULL.
 */
const char *gpu_window_set(struct gpu_window *g, const struct window_attrs *a, const struct shape *x,
			   const struct shape *weight, bool ceil, int64_t *end);

/*
 * Returns whether the first axis has size 1, so that a kernel for two axes suffices. gpu_window_plane() returns the
 * window of these two axes.
 */
bool gpu_window_flat(const struct gpu_window *g);
struct gpu_plane gpu_window_plane(const struct gpu_window *g);

#endif
