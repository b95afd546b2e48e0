/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/window.h"

#include "ops/infer_util.h"

#include <inttypes.h>

/* Sizes and pads must be below this, so that sums and products of two of them do not overflow. */
#define SIZE_LIMIT (INT64_C(1) << 31)

static const char *read_list(int64_t *to, const struct ints *v, int n, int64_t absent,
			     int64_t least, const char *name, struct diag *d)
{
	if (v->n >= 0 && v->n != n && v->n)
		return fmt(d, "%s of %d numbers, not %" PRId64, name, n, v->n);
	for (int i = 0; i < n; i++) {
		to[i] = v->n > 0 ? v->v[i] : absent;
		if (to[i] < least || to[i] >= SIZE_LIMIT)
			return fmt(d, "%s from %" PRId64 " to %" PRId64 ", not %" PRId64, name,
				   least, SIZE_LIMIT - 1, to[i]);
	}
	return NULL;
}

static const char *read_kernel(struct window *w, const struct window_attrs *a,
			       const struct shape *weight, struct diag *d)
{
	const char *bad;

	if (weight && weight->rank >= 0 && weight->rank != w->n + 2)
		return fmt(d, "weights of rank %d, not %d", w->n + 2, weight->rank);
	if (a->kernel_shape.n <= 0 && weight) {
		for (int i = 0; i < w->n; i++) {
			w->kernel[i] = weight->rank >= 0 ? weight->dim[i + 2] : DIM_UNKNOWN;
			if (w->kernel[i] == 0 || w->kernel[i] >= SIZE_LIMIT)
				return "a kernel of at least 1";
		}
		return NULL;
	}
	if (a->kernel_shape.n <= 0)
		return "a kernel_shape";
	bad = read_list(w->kernel, &a->kernel_shape, w->n, 1, 1, "kernel_shape", d);
	for (int i = 0; !bad && weight && weight->rank >= 0 && i < w->n; i++)
		if (weight->dim[i + 2] >= 0 && weight->dim[i + 2] != w->kernel[i])
			bad = fmt(d, "kernel_shape %" PRId64 " as the weights say, not %" PRId64,
				  weight->dim[i + 2], w->kernel[i]);
	return bad;
}

const char *window_lists(struct window *w, const struct window_attrs *a, int n,
			 const struct shape *weight, struct diag *d)
{
	int64_t pads[2 * MAX_RANK];
	const char *bad;

	w->n = n;
	if ((bad = read_kernel(w, a, weight, d)) ||
	    (bad = read_list(w->stride, &a->strides, n, 1, 1, "strides", d)) ||
	    (bad = read_list(w->dilation, &a->dilations, n, 1, 1, "dilations", d)) ||
	    (bad = read_list(pads, &a->pads, 2 * n, 0, -SIZE_LIMIT + 1, "pads", d)))
		return bad;
	for (int i = 0; i < n; i++) {
		w->begin[i] = a->auto_pad == PAD_NOTSET ? pads[i] : 0;
		w->end[i] = a->auto_pad == PAD_NOTSET ? pads[n + i] : 0;
	}
	return NULL;
}

static void same_pads(struct window *w, int i, bool upper)
{
	int64_t total, extent = (w->kernel[i] - 1) * w->dilation[i] + 1;

	w->out[i] = (w->in[i] + w->stride[i] - 1) / w->stride[i];
	total = (w->out[i] - 1) * w->stride[i] + extent - w->in[i];
	if (total < 0 || !w->in[i])
		total = 0;
	w->begin[i] = upper ? total / 2 : total - total / 2;
	w->end[i] = total - w->begin[i];
}

const char *window_set(struct window *w, const struct window_attrs *a, const struct shape *x,
		       const struct shape *weight, bool ceil, struct diag *d)
{
	const char *bad;

	if (x->rank < 2)
		return "an input of rank 3 or more";
	bad = window_lists(w, a, x->rank - 2, weight, d);
	if (bad)
		return bad;
	for (int i = 0; i < w->n; i++) {
		bool same = a->auto_pad == PAD_SAME_UPPER || a->auto_pad == PAD_SAME_LOWER;
		w->in[i] = x->dim[i + 2];
		if (w->in[i] >= SIZE_LIMIT)
			return fmt(d, "a dimension below 2^31, not %" PRId64, w->in[i]);
		if (w->in[i] < 0 || w->kernel[i] < 0) {
			int64_t keep = (w->kernel[i] - 1) * w->dilation[i];
			bool equal = w->stride[i] == 1 &&
				     (same || (w->kernel[i] > 0 && keep == w->begin[i] + w->end[i]));
			w->out[i] = equal ? w->in[i] : DIM_UNKNOWN;
		} else if (same) {
			same_pads(w, i, a->auto_pad == PAD_SAME_UPPER);
		} else {
			w->out[i] = conv_dim(w->in[i], w->kernel[i], w->stride[i], w->dilation[i],
					     w->begin[i], w->end[i], ceil);
			if (w->out[i] < 0)
				w->out[i] = 0;
		}
	}
	return NULL;
}

bool window_too_large(const struct window *w)
{
	for (int i = 0; i < w->n; i++)
		if (w->in[i] > 0 && w->out[i] == 0)
			return true;
	return false;
}

static int64_t product(const int64_t *v, int n)
{
	struct shape s = shape_of(n, v);

	return shape_count(&s);
}

void window_whole(struct window *w, const struct shape *x)
{
	*w = (struct window){.n = x->rank - 2};
	for (int i = 0; i < w->n; i++) {
		w->in[i] = w->kernel[i] = x->dim[i + 2];
		w->stride[i] = w->dilation[i] = w->out[i] = 1;
	}
}

int64_t window_size(const struct window *w)
{
	return product(w->kernel, w->n);
}

int64_t window_inputs(const struct window *w)
{
	return product(w->in, w->n);
}

int64_t window_outputs(const struct window *w)
{
	return product(w->out, w->n);
}
