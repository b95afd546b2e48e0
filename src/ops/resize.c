/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/resize.h"

#include "ops/infer_util.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *dims(const struct infer *c, const struct shape *s)
{
	return infer_shape_text(c, s);
}

static struct shape unknown_dims(int rank)
{
	struct shape s = {.rank = rank};

	for (int i = 0; i < rank; i++)
		s.dim[i] = DIM_UNKNOWN;
	return s;
}

/* ---- Resize ----------------------------------------------------------------------------------- */

static const char *resize_axes(const struct resize *p, int rank, struct resize_sizes *r,
			       struct diag *d)
{
	r->rank = rank;
	r->naxes = p->axes.n >= 0 ? (int)p->axes.n : rank;
	for (int i = 0; i < rank; i++)
		r->axis[i] = p->axes.n >= 0 ? -1 : i;
	for (int64_t i = 0; i < p->axes.n; i++) {
		int a = axis_of(p->axes.v[i], rank);
		if (a < 0 || r->axis[a] >= 0)
			return fmt(d, "axes within rank %d, each once", rank);
		r->axis[a] = (int)i;
	}
	return NULL;
}

static const char *sizes_from_scales(const struct shape *x, const struct tensor *scales,
				     struct resize_sizes *r, struct diag *d)
{
	if (tensor_count(scales) != r->naxes)
		return fmt(d, "%d scales, not %" PRId64, r->naxes, tensor_count(scales));
	for (int i = 0; i < r->rank; i++) {
		float s = r->axis[i] < 0
				  ? 1
				  : (float)elem_f64(tensor_dtype(scales), scales->data, r->axis[i]);
		float out = floorf((float)x->dim[i] * s);
		if (!(s > 0) || !(out < 0x1p40f))
			return fmt(d, "scales over 0 and outputs of a size that can be, not %g",
				   (double)s);
		r->scale[i] = (double)s;
		r->out[i] = r->axis[i] < 0 ? x->dim[i] : (int64_t)out;
	}
	return NULL;
}

static const char *scales_from_sizes(const struct resize *p, const struct shape *x,
				     const struct tensor *sizes, struct resize_sizes *r,
				     struct diag *d)
{
	bool smaller = p->keep_aspect_ratio_policy == POLICY_NOT_LARGER;
	double all = 0;
	bool first = true;

	if (tensor_count(sizes) != r->naxes)
		return fmt(d, "%d sizes, not %" PRId64, r->naxes, tensor_count(sizes));
	for (int i = 0; i < r->rank; i++) {
		r->out[i] = r->axis[i] < 0 ? x->dim[i]
					   : elem_i64(tensor_dtype(sizes), sizes->data, r->axis[i]);
		if (r->out[i] < 0 || r->out[i] >= INT64_C(1) << 40)
			return fmt(d, "sizes of at least 0, not %" PRId64, r->out[i]);
		r->scale[i] = x->dim[i] ? (double)r->out[i] / (double)x->dim[i] : 1;
		if (r->axis[i] >= 0) {
			all = first || (smaller ? r->scale[i] < all : r->scale[i] > all)
				      ? r->scale[i]
				      : all;
			first = false;
		}
	}
	if (p->keep_aspect_ratio_policy == POLICY_STRETCH)
		return NULL;
	for (int i = 0; i < r->rank; i++)
		if (r->axis[i] >= 0) {
			double out = floor(all * (double)x->dim[i] + 0.5);
			if (!(out < 0x1p40))
				return fmt(d, "sizes that keep the aspect ratio, not %g", out);
			r->scale[i] = all;
			r->out[i] = (int64_t)out;
		}
	return NULL;
}

const char *resize_sizes(const struct resize *p, const struct shape *x, const struct tensor *scales,
			 const struct tensor *sizes, struct resize_sizes *r, struct diag *d)
{
	const char *bad = resize_axes(p, x->rank, r, d);

	if (bad)
		return bad;
	if (sizes && tensor_count(sizes) == 0 && x->rank)
		sizes = NULL;
	if (scales && tensor_count(scales) == 0 && (x->rank || sizes))
		scales = NULL;
	if (!scales == !sizes)
		return "either scales or sizes";
	return scales ? sizes_from_scales(x, scales, r, d) : scales_from_sizes(p, x, sizes, r, d);
}

/* Whether input i is left out or empty, which means the same. */
static bool absent(const struct infer *c, uint32_t i)
{
	const struct vinfo *v = infer_in(c, i);

	return !v || (v->shape.rank == 1 && v->shape.dim[0] == 0) ||
	       (v->known && tensor_count(v->known) == 0);
}

/* The region of interest counts in one mode only, which cannot do without it: a start and an end for each axis. */
static int check_roi(const struct infer *c, const struct shape *x)
{
	const struct resize *p = infer_params(c);
	struct shape roi = infer_shape(c, 1);
	int64_t axes = p->axes.n >= 0 ? p->axes.n : x->rank;

	if (p->coordinate_transformation_mode != COORD_TF_CROP_AND_RESIZE)
		return 0;
	if (!infer_in(c, 1))
		return infer_fail(c, E_OP_INPUTS, 1, "a region for tf_crop_and_resize", "none");
	if (axes < 0 || roi.rank != 1 || roi.dim[0] < 0 || roi.dim[0] == 2 * axes)
		return 0;
	return infer_fail(c, E_SHAPE, 1, fmt(c->diag, "[%" PRId64 "]", 2 * axes), dims(c, &roi));
}

static int resize_infer(struct infer *c)
{
	const struct resize *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = unknown_dims(x.rank), ints;
	bool has_scales = !absent(c, 2), has_sizes = !absent(c, 3);
	const struct tensor *scales = has_scales ? infer_value(c, 2) : NULL;
	const struct tensor *sizes = has_sizes && !has_scales ? infer_value(c, 3) : NULL;
	struct resize_sizes r;
	int err = check_roi(c, &x);

	if (err)
		return err;
	if (has_scales && has_sizes && c->concrete)
		return infer_fail(c, E_OP_INPUTS, -1, "either scales or sizes", "both");
	if (!has_scales && !has_sizes && x.rank > 0)
		return infer_fail(c, E_OP_INPUTS, -1, "either scales or sizes", "neither");
	if (x.rank >= 0 && shape_known(&x) && (scales || sizes)) {
		const char *bad = resize_sizes(p, &x, scales, sizes, &r, c->diag);
		if (bad)
			return infer_fail(c, E_VALUE, scales ? 2 : 3, bad, NULL);
		y = shape_of(x.rank, r.out);
	} else if (x.rank >= 0 && !resize_axes(p, x.rank, &r, NULL)) {
		bool have = has_sizes && !has_scales &&
			    p->keep_aspect_ratio_policy == POLICY_STRETCH &&
			    infer_ints(c, 3, &ints) && ints.rank == r.naxes;
		for (int i = 0; i < x.rank; i++) {
			double s = scales && r.axis[i] >= 0 && tensor_count(scales) == r.naxes
					   ? elem_f64(DT_F32, scales->data, r.axis[i])
					   : 0;
			if (r.axis[i] < 0 || s == 1)
				y.dim[i] = x.dim[i];
			else if (s > 0 && x.dim[i] >= 0 && (float)x.dim[i] * (float)s < 0x1p40f)
				y.dim[i] = (int64_t)floorf((float)x.dim[i] * (float)s);
			else if (have)
				y.dim[i] = ints.dim[r.axis[i]];
		}
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

bool resize_has_fractional_lengths(const struct graph *g, const struct node *n)
{
	const struct resize *p = n->params;
	const struct value *scales = node_in(g, n, 2);
	const struct tensor *known = scales ? scales->init : NULL;
	bool whole = known;

	if (p->coordinate_transformation_mode != COORD_ALIGN_CORNERS || !scales ||
	    (scales->info.shape.rank == 1 && scales->info.shape.dim[0] == 0))
		return false;
	for (int64_t i = 0; whole && i < tensor_count(known); i++) {
		double s = elem_f64(tensor_dtype(known), known->data, i);
		whole = s == floor(s);
	}
	return !whole;
}

bool resize_rounds_lengths(const struct graph *g)
{
	return g->model && g->model->producer && !strcmp(g->model->producer, "pytorch");
}

static bool expands_to_sizes(const struct graph *g, const struct node *n)
{
	return resize_rounds_lengths(g) && resize_has_fractional_lengths(g, n);
}

/* The same with sizes, which are whole, in place of scales. */
static const char *sizes_text(const struct graph *g, const struct node *n)
{
	const struct resize *p = n->params;
	bool some = p->axes.n >= 0;

	return arena_printf(
		g->arena,
		"length = Cast(%s) {to=1}; whole = Cast(Floor(Mul(length, scales))) {to=7}; "
		"Y = Resize(X, roi?, _, whole) {mode=$mode, coordinate_transformation_mode=align_corners, nearest_mode=$nearest_mode, "
		"cubic_coeff_a=$cubic_coeff_a, exclude_outside=$exclude_outside, extrapolation_value=$extrapolation_value, "
		"antialias=$antialias%s}",
		some ? "Gather(Shape(X), $axes)" : "Shape(X)", some ? ", axes=$axes" : "");
}

static int become_resize(struct edit *e, const struct resize *old, uint32_t scales)
{
	uint32_t in[3] = {e->node->in[0], NO_VALUE, scales};
	struct resize *p = edit_become(e, "Resize");

	p->mode = old->mode == RESIZE_BILINEAR ? RESIZE_LINEAR : old->mode;
	p->coordinate_transformation_mode = COORD_ASYMMETRIC;
	p->nearest_mode = NEAREST_SIMPLE;
	node_set_ins(e->graph, e->node, in, 3);
	return 0;
}

/* Resize-10 and Upsample-9 have the scales in input 1; newer versions have roi there. */
static int resize10_upgrade(struct edit *e)
{
	return become_resize(e, e->node->params, e->node->nin > 1 ? e->node->in[1] : NO_VALUE);
}

static uint32_t scales_const(struct edit *e, const float *v, int64_t n)
{
	struct shape s = shape_of(1, &n);
	struct tensor *t = tensor_new(e->graph->arena, DT_F32, &s);

	for (int64_t i = 0; i < n; i++)
		elem_set_f64(DT_F32, t->data, i, (double)v[i]);
	return graph_add_const(e->graph, "", t)->id;
}

static int upsample7_upgrade(struct edit *e)
{
	const struct resize *old = e->node->params;

	return become_resize(e, old,
			     scales_const(e, old->scales.v, old->scales.n < 0 ? 0 : old->scales.n));
}

static int upsample1_upgrade(struct edit *e)
{
	const struct resize *old = e->node->params;
	const float v[4] = {1, 1, old->height_scale, old->width_scale};

	return become_resize(e, old, scales_const(e, v, 4));
}

/* ---- GridSample ------------------------------------------------------------------------------- */

static int grid_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), g = infer_shape(c, 1), y = SHAPE_UNKNOWN;
	int rc;

	if (x.rank >= 0 && x.rank < 3)
		return infer_fail(c, E_SHAPE, 0, "rank 3 or more", dims(c, &x));
	if (x.rank >= 0 && g.rank >= 0 && x.rank != g.rank)
		return infer_fail(c, E_SHAPE, 1, fmt(c->diag, "rank %d", x.rank), dims(c, &g));
	if (g.rank >= 3 && g.dim[g.rank - 1] >= 0 && g.dim[g.rank - 1] != g.rank - 2)
		return infer_fail(c, E_SHAPE, 1, fmt(c->diag, "a last dimension of %d", g.rank - 2),
				  dims(c, &g));
	if (x.rank >= 0 || g.rank >= 0) {
		y = unknown_dims(x.rank >= 0 ? x.rank : g.rank);
		y.dim[0] = x.rank >= 0 ? x.dim[0] : g.dim[0];
		if (x.rank >= 0)
			y.dim[1] = x.dim[1];
		if (x.rank >= 0 && g.rank >= 0 &&
		    (rc = infer_unify(c, 1, x.dim[0], g.dim[0], &y.dim[0])))
			return rc;
		for (int i = 2; g.rank >= 0 && i < y.rank; i++)
			y.dim[i] = g.dim[i - 1];
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int affine_infer(struct infer *c)
{
	struct shape t = infer_shape(c, 0), s = infer_shape(c, 1), size, y = SHAPE_UNKNOWN;
	int n = t.rank == 3 && t.dim[1] >= 0 ? (int)(t.dim[1] < 4 ? t.dim[1] : 4) : -1;

	if (t.rank >= 0 && t.rank != 3)
		return infer_fail(c, E_SHAPE, 0, "rank 3", dims(c, &t));
	if (n >= 0 && (n < 2 || n > 3 || (t.dim[2] >= 0 && t.dim[2] != n + 1)))
		return infer_fail(c, E_SHAPE, 0, "[N, 2, 3] or [N, 3, 4]", dims(c, &t));
	if (s.rank == 1 && s.dim[0] >= 0 && n >= 0 && s.dim[0] != n + 2)
		return infer_fail(c, E_SHAPE, 1, fmt(c->diag, "%d sizes", n + 2), dims(c, &s));
	if (infer_ints(c, 1, &size) && (size.rank == 4 || size.rank == 5)) {
		y.rank = size.rank;
		y.dim[0] = size.dim[0];
		for (int i = 2; i < size.rank; i++)
			y.dim[i - 1] = size.dim[i];
		y.dim[size.rank - 1] = size.rank - 2;
		if (c->concrete && !shape_known(&y))
			return infer_fail(c, E_VALUE, 1, "sizes of at least 0", NULL);
		if (t.rank == 3 && t.dim[0] >= 0 && y.dim[0] >= 0 && t.dim[0] != y.dim[0])
			return infer_fail(c, E_SHAPE, 0,
					  fmt(c->diag, "%" PRId64 " matrices", y.dim[0]),
					  dims(c, &t));
	} else if (n >= 0) {
		y = unknown_dims(n + 2);
		y.dim[n + 1] = n;
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int decoder_infer(struct infer *c)
{
	const struct image_decoder *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = unknown_dims(3);

	if (x.rank >= 0 && x.rank != 1)
		return infer_fail(c, E_SHAPE, 0, "rank 1", dims(c, &x));
	y.dim[2] = p->pixel_format == PIXEL_GRAYSCALE ? 1 : 3;
	infer_set(c, 0, DT_U8, &y);
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------- */

#define T_RESIZE (T_ALL_OLD | T_BF16)
static const struct slot resize_in[] = {SLOT("X", "T", T_RESIZE),
					SLOT_OPT("roi", "T2", T_FLOATS, .dims = "_"),
					SLOT_OPT("scales", NULL, T_F32, .dims = "_"),
					SLOT_OPT("sizes", NULL, T_I64, .dims = "_"), SLOT_END};
static const struct slot resize11_in[] = {SLOT("X", "T", T_ALL_OLD),
					  SLOT("roi", "T2", T_FLOATS, .dims = "_"),
					  SLOT_OPT("scales", NULL, T_F32, .dims = "_"),
					  SLOT_OPT("sizes", NULL, T_I64, .dims = "_"), SLOT_END};
static const struct slot resize10_in[] = {SLOT("X", "T", T_ALL_OLD),
					  SLOT("scales", NULL, T_F32, .dims = "_"), SLOT_END};
static const struct slot upsample7_in[] = {SLOT("X", "T", T_ALL_OLD), SLOT_END};
static const struct slot resize_out[] = {SLOT("Y", "T", T_RESIZE), SLOT_END};
static const struct slot grid_in[] = {SLOT("X", "T", T_RESIZE), SLOT("grid", "T2", T_FLOATS_BF),
				      SLOT_END};
static const struct slot grid20_in[] = {SLOT("X", "T", T_ALL_OLD), SLOT("grid", "T2", T_FLOATS),
					SLOT_END};
static const struct slot affine_in[] = {SLOT("theta", "T", T_FLOATS_BF, .dims = "N 2 3 | N 3 4"),
					SLOT("size", NULL, T_I64, .dims = "4 | 5"), SLOT_END};
static const struct slot affine_out[] = {SLOT("grid", "T", T_FLOATS_BF), SLOT_END};
static const struct slot decoder_in[] = {SLOT("encoded_stream", NULL, T_U8, .dims = "_"), SLOT_END};
static const struct slot decoder_out[] = {SLOT("image", NULL, T_U8), SLOT_END};

#define RESIZE_MODE                                                                                \
	FIELD_ENUM(struct resize, mode, "nearest", "nearest|linear|cubic",                         \
		   "how values are interpolated")
/* Upsample-1 says bilinear, later versions linear */
#define UPSAMPLE_MODE                                                                              \
	{                                                                                          \
		.name = "mode", .type = F_ENUM, .off = offsetof(struct resize, mode),              \
		.def = "nearest", .choices = "nearest|linear|cubic|bilinear", .versions = "|||-6", \
		.help = "how values are interpolated"                                              \
	}
#define RESIZE_11_FIELDS                                                                                  \
	RESIZE_MODE,                                                                                      \
		FIELD_ENUM(struct resize, coordinate_transformation_mode, "half_pixel",                   \
			   "half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|" \
			   "tf_half_pixel_for_nn|tf_crop_and_resize",                                     \
			   "where an output element lies in the input"),                                  \
		FIELD_ENUM(struct resize, nearest_mode, "round_prefer_floor",                             \
			   "round_prefer_floor|round_prefer_ceil|floor|ceil",                             \
			   "which element is the nearest"),                                               \
		FIELD(struct resize, cubic_coeff_a, F_FLOAT, "-0.75",                                     \
		      "coefficient of cubic interpolation"),                                              \
		FIELD(struct resize, exclude_outside, F_INT, "0",                                         \
		      "1: weights outside the input are 0"),                                              \
		FIELD(struct resize, extrapolation_value, F_FLOAT, "0", "value outside the region")
static const struct field resize_attrs[] = {
	RESIZE_11_FIELDS,
	FIELD_IN("18-", struct resize, antialias, F_INT, "0",
		 "1: widen the filter where the output is smaller"),
	FIELD_IN("18-", struct resize, axes, F_INTS, NULL, "axes that roi, scales and sizes speak of"),
	{.name = "keep_aspect_ratio_policy",
	 .type = F_ENUM,
	 .off = offsetof(struct resize, keep_aspect_ratio_policy),
	 .def = "stretch",
	 .choices = "stretch|not_larger|not_smaller",
	 .versions = "18-|18-|18-",
	 .help = "how sizes are meant"},
	{0}};
static const struct field resize10_attrs[] = {RESIZE_MODE, {0}};
static const struct field upsample9_attrs[] = {UPSAMPLE_MODE, {0}};
static const struct field upsample7_attrs[] = {UPSAMPLE_MODE,
					       {.name = "scales",
						.type = F_FLOATS,
						.off = offsetof(struct resize, scales),
						.flags = FIELD_REQUIRED,
						.help = "scale of each axis"},
					       {0}};
static const struct field upsample1_attrs[] = {
	UPSAMPLE_MODE,
	FIELD_REQ(struct resize, height_scale, F_FLOAT, "scale of axis 2"),
	FIELD_REQ(struct resize, width_scale, F_FLOAT, "scale of axis 3"),
	{0}};
static const struct slot ms_grid_in[] = {SLOT("X", "T1", T_ALL_OLD), SLOT("Grid", "T1", T_ALL_OLD),
					 SLOT_END};
static const struct slot ms_grid_out[] = {SLOT("Y", "T2", T_ALL_OLD), SLOT_END};
static const struct field grid_attrs[] = {
	{.name = "mode",
	 .type = F_ENUM,
	 .off = offsetof(struct grid_sample, mode),
	 .def = "linear",
	 .choices = "linear|nearest|cubic|bilinear|bicubic",
	 .versions = "20-||20-|-19|-19",
	 .help = "interpolation"},
	FIELD_ENUM(struct grid_sample, padding_mode, "zeros", "zeros|border|reflection",
		   "what lies outside"),
	FIELD(struct grid_sample, align_corners, F_INT, "0", "1: -1 and 1 are the corners' centres"),
	{0}};
static const struct field affine_attrs[] = {FIELD(struct affine_grid, align_corners, F_INT, "0",
						  "1: -1 and 1 are the corners' centres"),
					    {0}};
static const struct field decoder_attrs[] = {FIELD_ENUM(struct image_decoder, pixel_format, "RGB",
							"RGB|BGR|Grayscale", "order of the channels"),
					     {0}};

#define RESIZE_OP .params_size = sizeof(struct resize)

/* ---- CropAndResize ---------------------------------------------------------------------------- */

struct crop_and_resize {
	int mode;
	float extrapolation_value;
};
enum { CROP_BILINEAR, CROP_NEAREST };
static const struct slot crop_in[] = {SLOT("X", "T1", T_FLOATS, .dims = "_ C _ _"),
				      SLOT("rois", "T1", T_FLOATS, .dims = "R 4"),
				      SLOT("batch_indices", "T2", T_I32, .dims = "R"),
				      SLOT("crop_size", "T2", T_I32, .dims = "2"), SLOT_END};
static const struct slot crop_out[] = {SLOT("Y", "T1", T_FLOATS), SLOT_END};
static const struct field crop_attrs[] = {
	FIELD_ENUM(struct crop_and_resize, mode, "bilinear", "bilinear|nearest", "how to sample"),
	FIELD(struct crop_and_resize, extrapolation_value, F_FLOAT, "0", "of what is outside of X"),
	{0}};

static int crop_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), rois = infer_shape(c, 1), at = infer_shape(c, 2), size, y;

	y = shape_of(4, (int64_t[]){rois.rank == 2 ? rois.dim[0] : DIM_UNKNOWN,
				    x.rank == 4 ? x.dim[1] : DIM_UNKNOWN, DIM_UNKNOWN, DIM_UNKNOWN});
	if (y.dim[0] < 0 && at.rank == 1)
		y.dim[0] = at.dim[0];
	if (infer_ints(c, 3, &size) && size.rank == 2) {
		for (int i = 0; i < 2; i++) {
			if (shape_known(&size) && size.dim[i] < 1)
				return infer_fail(c, E_VALUE, 3, "sizes of 1 or more",
						  infer_shape_text(c, &size));
			y.dim[i + 2] = size.dim[i];
		}
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

/*
 * The text of the positions of a crop along one axis of X, and whether each lies outside of X. The first and last are the ends
 * of the region; a single one is its middle. Positions outside are moved into X, so that every element that is read exists.
 */
static const char *crop_axis(const struct graph *g, const char *a, int axis, const char *type)
{
	return arena_printf(
		g->arena,
		"%s_n = Slice(sizes, [%d], [%d], [0]); %s_top = Cast(Sub(Shape(X) {start=%d, end=%d}, [1])) {to=%s}; "
		"%s_a = Mul(Slice(boxes, [%d], [%d], [1]), %s_top); %s_b = Mul(Slice(boxes, [%d], [%d], [1]), %s_top); "
		"%s_i = Range(0, Squeeze(%s_n), 1); "
		"%s_step = Div(Sub(%s_b, %s_a), Cast(Max(Sub(%s_n, [1]), [1])) {to=%s}); "
		"%s_in = Add(%s_a, Mul(Cast(%s_i) {to=%s}, %s_step)); "
		"%s_end = Where(Equal(%s_i, Sub(%s_n, [1])), %s_b, %s_in); "
		"%s = Where(Greater(%s_n, 1), %s_end, Mul(Add(%s_a, %s_b), 0.5)); "
		"%s_out = Not(And(GreaterOrEqual(%s, 0), LessOrEqual(%s, %s_top))); "
		"%s_at = Where(%s_out, Sub(%s_top, %s_top), %s); ",
		a, axis - 2, axis - 1, a, axis, axis + 1, type, a, axis - 2, axis - 1, a, a, axis,
		axis + 1, a, a, a, a, a, a, a, type, a, a, a, type, a, a, a, a, a, a, a, a, a, a, a,
		a, a, a, a, a, a, a, a, a);
}

static const char *crop_text(const struct graph *g, const struct node *n)
{
	enum dtype t = node_in(g, n, 0)->info.type.dtype;
	const char *type = t == DT_F64 ? "11" : "1";
	bool nearest = ((const struct crop_and_resize *)n->params)->mode == CROP_NEAREST;
	const char *corners =
		"top = Floor(y_at); left = Floor(x_at); dy = Unsqueeze(Sub(y_at, top), [2, 3]); "
		"dx = Unsqueeze(Sub(x_at, left), [1, 3]); "
		"y0 = Cast(top) {to=7}; y1 = Cast(Ceil(y_at)) {to=7}; "
		"x0 = Unsqueeze(Cast(left) {to=7}, [1]); x1 = Unsqueeze(Cast(Ceil(x_at)) {to=7}, [1]); "
		"r0 = Mul(Add(base, Unsqueeze(y0, [2])), wide); r1 = Mul(Add(base, Unsqueeze(y1, [2])), wide); "
		"a = Gather(pixels, Add(r0, x0)); b = Gather(pixels, Add(r0, x1)); "
		"c = Gather(pixels, Add(r1, x0)); d = Gather(pixels, Add(r1, x1)); "
		"upper = Add(a, Mul(Sub(b, a), dx)); lower = Add(c, Mul(Sub(d, c), dx)); "
		"v = Add(upper, Mul(Sub(lower, upper), dy)); ";

	if (nearest)
		corners = "near_y = Cast(Floor(Add(y_at, 0.5))) {to=7}; near_x = Cast(Floor(Add(x_at, 0.5))) {to=7}; "
			  "v = Gather(pixels, Add(Mul(Add(base, Unsqueeze(near_y, [2])), wide), "
			  "Unsqueeze(near_x, [1]))); ";
	return arena_printf(
		g->arena,
		"sizes = Cast(crop_size) {to=7}; boxes = Cast(rois) {to=%s}; images = Shape(X) {end=1}; "
		"of = Cast(batch_indices) {to=7}; which = Gather(Range(0, Squeeze(images), 1), "
		"Where(Less(of, 0), images, of)); "
		"base = Unsqueeze(Mul(which, Shape(X) {start=2, end=3}), [1, 2]); wide = Shape(X) {start=3}; "
		"pixels = Reshape(Transpose(Cast(X) {to=%s}) {perm=[0,2,3,1]}, Concat([-1], Shape(X) {start=1, end=2}) "
		"{axis=0}); %s%s%sout = Or(Unsqueeze(y_out, [1, 3]), Unsqueeze(x_out, [1, 2])); "
		"Y = CastLike(Where(out, $extrapolation_value, Transpose(v) {perm=[0,3,1,2]}), X)",
		type, type, crop_axis(g, "y", 2, type), crop_axis(g, "x", 3, type), corners);
}

const struct op ops_resize[] = {
	{.name = "Resize",
	 .since = 19,
	 .in = resize_in,
	 .out = resize_out,
	 .attrs = resize_attrs,
	 RESIZE_OP,
	 .reduced = REDUCED_MOVES,
	 .expand_when = expands_to_sizes,
	 .expand_as = sizes_text,
	 .infer = resize_infer},
	{.name = "Resize", .since = 18},
	{.name = "Resize", .since = 13},
	{.name = "Resize", .since = 11, .in = resize11_in, .types = T_ALL_OLD},
	{.name = "Resize",
	 .since = 10,
	 .in = resize10_in,
	 .types = T_ALL_OLD,
	 .attrs = resize10_attrs,
	 RESIZE_OP,
	 .upgrade = resize10_upgrade},

	{.name = "Upsample",
	 .since = 9,
	 .removed = 10,
	 .successor = "Resize",
	 .in = resize10_in,
	 .out = resize_out,
	 .types = T_ALL_OLD,
	 .attrs = upsample9_attrs,
	 RESIZE_OP,
	 .infer = resize_infer,
	 .upgrade = resize10_upgrade},
	{.name = "Upsample",
	 .since = 7,
	 .in = upsample7_in,
	 .out = resize_out,
	 .types = T_ALL_OLD,
	 .attrs = upsample7_attrs,
	 RESIZE_OP,
	 .upgrade = upsample7_upgrade},
	{.name = "Upsample",
	 .since = 1,
	 .in = upsample7_in,
	 .out = resize_out,
	 .types = T_BOOL | T_I32 | T_I64 | T_FLOATS,
	 .attrs = upsample1_attrs,
	 RESIZE_OP,
	 .upgrade = upsample1_upgrade},

	{.name = "GridSample",
	 .since = 22,
	 .in = grid_in,
	 .out = resize_out,
	 ATTRS(grid_attrs, struct grid_sample),
	 .infer = grid_infer},
	{.name = "GridSample", .since = 20, .in = grid20_in, .types = T_ALL_OLD},
	{.name = "GridSample", .since = 16, .in = grid20_in, .types = T_ALL_OLD},
	{.name = "GridSample",
	 MICROSOFT,
	 .in = ms_grid_in,
	 .out = ms_grid_out,
	 ATTRS(grid_attrs, struct grid_sample),
	 .expand = "Y = GridSample(X, Grid) {mode=$mode, padding_mode=$padding_mode, "
		   "align_corners=$align_corners}"},
	{.name = "CropAndResize",
	 MICROSOFT,
	 .in = crop_in,
	 .out = crop_out,
	 ATTRS(crop_attrs, struct crop_and_resize),
	 .infer = crop_infer,
	 .expand_as = crop_text},

	{.name = "AffineGrid",
	 .since = 20,
	 .in = affine_in,
	 .out = affine_out,
	 ATTRS(affine_attrs, struct affine_grid),
	 .infer = affine_infer},

	{.name = "ImageDecoder",
	 .since = 20,
	 .in = decoder_in,
	 .out = decoder_out,
	 ATTRS(decoder_attrs, struct image_decoder),
	 .infer = decoder_infer,
	 .flags = OP_RUN_SHAPES},
	{0}};
