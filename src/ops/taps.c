/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/taps.h"

#include <math.h>

/*
 * Coordinate of output element o in the input; *outside is set if tf_crop_and_resize puts it outside. Computed in
 * fp32, as ONNX does: with a scale of 0.6, say, a coordinate is halfway between two elements only in fp32 rounding.
 */
static double coordinate(const struct taps_axis *a, int64_t o, bool *outside)
{
	float x = (float)o, in = (float)a->in, scale = (float)a->scale,
	      width = (float)(a->scale * (double)a->in), at;

	switch (a->p->coordinate_transformation_mode) {
	case COORD_ALIGN_CORNERS: at = width == 1 ? 0 : x * (in - 1) / (width - 1); break;
	case COORD_ASYMMETRIC: at = x / scale; break;
	case COORD_PYTORCH_HALF_PIXEL: at = a->out > 1 ? (x + 0.5f) / scale - 0.5f : 0; break;
	case COORD_HALF_PIXEL_SYMMETRIC:
		at = in / 2 * (1 - (float)a->out / width) + (x + 0.5f) / scale - 0.5f;
		break;
	case COORD_TF_HALF_PIXEL_FOR_NN: at = (x + 0.5f) / scale; break;
	case COORD_TF_CROP_AND_RESIZE:
		if (width == 1)
			at = 0.5f * (float)(a->roi0 + a->roi1) * (in - 1);
		else
			at = (float)a->roi0 * (in - 1) +
			     x * (float)(a->roi1 - a->roi0) * (in - 1) / (width - 1);
		*outside = !(at >= 0 && at <= in - 1);
		break;
	default: at = (x + 0.5f) / scale - 0.5f;
	}
	return (double)at;
}

static double nearest_element(const struct taps_axis *a, double x)
{
	double f = floor(x);

	switch (a->p->nearest_mode) {
	case NEAREST_PREFER_CEIL: return x - f < 0.5 ? f : f + 1;
	case NEAREST_FLOOR: return f;
	case NEAREST_CEIL: return ceil(x);
	case NEAREST_SIMPLE: return a->scale < 1 ? ceil(x) : f;
	default: return x - f <= 0.5 ? f : f + 1;
	}
}

static double cubic_weight(double x, double a)
{
	x = fabs(x);
	if (x <= 1)
		return ((a + 2) * x - (a + 3)) * x * x + 1;
	return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

bool taps_linear(const struct resize *p)
{
	return p->mode == RESIZE_LINEAR || p->mode == RESIZE_BILINEAR;
}

int64_t taps_count(const struct resize *p, double scale)
{
	double s = p->antialias && scale < 1 ? scale : 1;

	if (p->mode == RESIZE_NEAREST)
		return 1;
	return 2 * (int64_t)ceil((taps_linear(p) ? 1 : 2) / s);
}

/* Indices and weights of the n input elements around x. With antialias, a filter of a shrinking axis is widened by 1/scale. */
static void filter_weights(const struct taps_axis *a, double x, int64_t n, int64_t *index,
			   double *weight)
{
	double s = a->p->antialias && a->scale < 1 ? a->scale : 1, base = floor(x), sum = 0, kept = 0;
	int64_t first = (int64_t)base - n / 2 + 1;

	for (int64_t k = 0; k < n; k++) {
		double d = ((double)(first + k) - x) * s;
		weight[k] = taps_linear(a->p) ? fmax(0, 1 - fabs(d))
					      : cubic_weight(d, (double)a->p->cubic_coeff_a);
		sum += weight[k];
		if (a->p->exclude_outside && (first + k < 0 || first + k >= a->in))
			weight[k] = 0;
		kept += weight[k];
	}
	if (a->p->exclude_outside)
		sum = kept;
	else if (s == 1)
		sum = 1;
	for (int64_t k = 0; k < n; k++) {
		int64_t i = first + k;
		weight[k] = sum != 0 ? weight[k] / sum : 0;
		index[k] = i < 0 ? 0 : i >= a->in ? a->in - 1 : i;
	}
}

void taps_fill(const struct taps_axis *a, struct taps *t)
{
	for (int64_t o = 0; o < t->out; o++) {
		bool outside = false;
		double x = coordinate(a, o, &outside);
		int64_t *index = t->index + o * t->n;
		double *weight = t->weight + o * t->n;
		if (!(fabs(x) < 1e15))
			x = 0;
		t->outside[o] = outside;
		if (a->p->mode != RESIZE_NEAREST) {
			filter_weights(a, x, t->n, index, weight);
			continue;
		}
		double i = nearest_element(a, x);
		index[0] = i < 0 ? 0 : i >= (double)a->in ? a->in - 1 : (int64_t)i;
		weight[0] = 1;
	}
	t->twice = t->n == 1 && t->out == 2 * t->in;
	for (int64_t o = 0; t->twice && o < t->out; o++)
		t->twice = t->index[o] == o / 2;
}

bool taps_change(const struct resize *p, const struct resize_sizes *r, const struct shape *x, int d)
{
	bool crop = p->coordinate_transformation_mode == COORD_TF_CROP_AND_RESIZE;

	return r->axis[d] >= 0 && (crop || r->out[d] != x->dim[d] || r->scale[d] != 1);
}

int taps_order(int rank, const int64_t *in, const int64_t *out, const bool *changed, bool fixed,
	       int *order)
{
	int n = 0;

	for (int d = 0; d < rank && !fixed; d++)
		if (changed[d] && out[d] < in[d])
			order[n++] = d;
	for (int d = rank - 1; d >= 0; d--)
		if (changed[d] && (fixed || out[d] >= in[d]))
			order[n++] = d;
	return n;
}
