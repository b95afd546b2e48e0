/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_RESIZE_H
#define OPS_RESIZE_H
#include "ops/op.h"

enum resize_mode {
	RESIZE_NEAREST,
	RESIZE_LINEAR,
	RESIZE_CUBIC,
	RESIZE_BILINEAR /* name of linear in Upsample-1 */
};
enum resize_coordinate {
	COORD_HALF_PIXEL,
	COORD_HALF_PIXEL_SYMMETRIC,
	COORD_PYTORCH_HALF_PIXEL,
	COORD_ALIGN_CORNERS,
	COORD_ASYMMETRIC,
	COORD_TF_HALF_PIXEL_FOR_NN, /* in opsets 11 and 12 only */
	COORD_TF_CROP_AND_RESIZE
};
enum resize_nearest {
	NEAREST_PREFER_FLOOR,
	NEAREST_PREFER_CEIL,
	NEAREST_FLOOR,
	NEAREST_CEIL,
	NEAREST_SIMPLE /* Resize-10 and Upsample: ceil if the axis shrinks, otherwise floor */
};
enum resize_policy { POLICY_STRETCH, POLICY_NOT_LARGER, POLICY_NOT_SMALLER };

struct resize {
	int mode, coordinate_transformation_mode, nearest_mode, keep_aspect_ratio_policy;
	int64_t antialias, exclude_outside;
	float cubic_coeff_a, extrapolation_value;
	struct ints axes;
	/* Upsample-7 and -1 */
	struct floats scales;
	float height_scale, width_scale;
};

/* Output size and scale of each axis, from the inputs scales or sizes and the shape of X. */
struct resize_sizes {
	int rank;
	int64_t out[MAX_RANK];
	double scale[MAX_RANK]; /* output coordinates are divided by the scale */
	/* position of the axis in roi, scales and sizes; -1 if the axis is not resized */
	int axis[MAX_RANK];
	int naxes;
};
/*
 * Fills *r. Either scales or sizes is given; the other is NULL or has no elements. Returns NULL, or a text that says
 * what is wrong.
 */
const char *resize_sizes(const struct resize *p, const struct shape *x, const struct tensor *scales,
			 const struct tensor *sizes, struct resize_sizes *r, struct diag *d);
/*
 * Whether the node's coordinates depend on how length times scale is rounded: align_corners, with a scale that is not whole or not known. The text of
 * Resize-11 and later means "the length of the resized tensor", as PyTorch and ONNX Runtime do; ONNX's own cases and reference
 * (resize_downsample_scales_cubic_align_corners) take length times scale with its fraction.
 */
bool resize_has_fractional_lengths(const struct graph *g, const struct node *n);
/* Whether such nodes of the graph take the whole length: PyTorch has written the model. Otherwise they follow ONNX's cases. */
bool resize_rounds_lengths(const struct graph *g);

enum { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC, GRID_BILINEAR, GRID_BICUBIC };
enum { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };
struct grid_sample {
	int mode, padding_mode;
	int64_t align_corners;
};

struct affine_grid {
	int64_t align_corners;
};

enum { PIXEL_RGB, PIXEL_BGR, PIXEL_GRAYSCALE };
struct image_decoder {
	int pixel_format;
};

#endif
