/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_LAUNCH_WINDOW_H
#define GPU_LAUNCH_WINDOW_H
/* An operator's window (ops/window.h) as kernels of GPU_SPACE axes are handed it. */
#include "gpu/kernels/conv.h"
#include "gpu/kernels/params.h"
#include "ops/window.h"

/* The last of GPU_SPACE axes are those of v, the others `absent`. */
void gpu_space(int64_t *to, const int64_t *v, int n, int64_t absent);
/* Their product. */
static inline int64_t gpu_volume(const int64_t *v)
{
	return v[0] * v[1] * v[2];
}

/* NULL, or why input x has not the number of axes for it. */
const char *gpu_window_axes(const struct shape *x);
void gpu_window_take(struct gpu_window *g, const struct window *w);
/* window_set() for such a kernel; NULL, or why not. end: the pads behind the input; may be NULL. */
const char *gpu_window_set(struct gpu_window *g, const struct window_attrs *a, const struct shape *x,
			   const struct shape *weight, bool ceil, int64_t *end);

/* The first axis says nothing: the others alone need be looked at. */
bool gpu_window_flat(const struct gpu_window *g);
struct gpu_plane gpu_window_plane(const struct gpu_window *g);

#endif
