/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/launch/window.h"

void gpu_space(int64_t *to, const int64_t *v, int n, int64_t absent)
{
	for (int i = 0; i < GPU_SPACE; i++) {
		int k = i - (GPU_SPACE - n);
		to[i] = k < 0 ? absent : v[k];
	}
}

const char *gpu_window_axes(const struct shape *x)
{
	return x->rank < 3 || x->rank > 2 + GPU_SPACE ? "no window of one to three dimensions" : NULL;
}

void gpu_window_take(struct gpu_window *g, const struct window *w)
{
	gpu_space(g->in, w->in, w->n, 1);
	gpu_space(g->out, w->out, w->n, 1);
	gpu_space(g->kernel, w->kernel, w->n, 1);
	gpu_space(g->stride, w->stride, w->n, 1);
	gpu_space(g->dilation, w->dilation, w->n, 1);
	gpu_space(g->begin, w->begin, w->n, 0);
}

const char *gpu_window_set(struct gpu_window *g, const struct window_attrs *a, const struct shape *x,
			   const struct shape *weight, bool ceil, int64_t *end)
{
	const char *bad = gpu_window_axes(x);
	struct window w = {0};

	if (bad)
		return bad;
	if (window_set(&w, a, x, weight, ceil, NULL))
		return "a window that does not fit";
	gpu_window_take(g, &w);
	if (end)
		gpu_space(end, w.end, w.n, 0);
	return NULL;
}

bool gpu_window_flat(const struct gpu_window *g)
{
	return g->in[0] == 1 && g->kernel[0] == 1 && g->out[0] == 1;
}

struct gpu_plane gpu_window_plane(const struct gpu_window *g)
{
	struct gpu_plane p;

	for (int i = 0; i < 2; i++) {
		p.in[i] = (int)g->in[1 + i];
		p.out[i] = (int)g->out[1 + i];
		p.kernel[i] = (int)g->kernel[1 + i];
		p.stride[i] = (int)g->stride[1 + i];
		p.dilation[i] = (int)g->dilation[1 + i];
		p.begin[i] = (int)g->begin[1 + i];
	}
	return p;
}
