/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/pool.h"

#include "ops/infer_util.h"
#include "ops/upgrade.h"

#include <inttypes.h>

static int pool_infer(struct infer *c)
{
	const struct pool *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = x;
	struct window w;

	if (x.rank >= 0) {
		if (x.rank < 3)
			return infer_fail_shape(c, 0, "rank 3 or more", &x);
		const char *bad = window_set(&w, &p->window, &x, NULL, p->ceil_mode != 0, c->diag);
		if (bad)
			return infer_fail(c, E_OP_ATTRIBUTE, -1, bad, NULL);
		if (window_too_large(&w))
			return infer_fail_shape(
				c, 0, "an input, with its pads, as large as the window", &x);
		for (int i = 0; i < w.n; i++)
			y.dim[i + 2] = w.out[i];
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	infer_set(c, 1, DT_I64, &y);
	return 0;
}

static int global_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), y = x;

	if (x.rank >= 0 && x.rank < 2)
		return infer_fail_shape(c, 0, "rank 2 or more", &x);
	for (int i = 2; i < y.rank; i++)
		y.dim[i] = 1;
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int lp_upgrade(struct edit *e)
{
	const struct pool *old = e->node->params;
	struct pool *p = edit_params(e);

	*p = *old;
	return 0;
}

static int global_lp_upgrade(struct edit *e)
{
	const struct global_lp *old = e->node->params;
	struct global_lp *p = edit_params(e);

	*p = *old;
	return 0;
}

/* ---- MaxUnpool -------------------------------------------------------------------------------- */

const char *max_unpool_shape(const struct max_unpool *p, const struct shape *x, struct shape *y,
			     struct diag *d)
{
	struct window w;
	const char *bad = window_lists(&w, &p->window, x->rank - 2, NULL, d);

	*y = *x;
	for (int i = 0; !bad && i < w.n; i++) {
		int64_t in = x->dim[i + 2], out;
		if (in < 0) {
			y->dim[i + 2] = DIM_UNKNOWN;
			continue;
		}
		if (in >= INT64_C(1) << 31)
			return "dimensions below 2^31";
		out = (in - 1) * w.stride[i] + w.kernel[i] - w.begin[i] - w.end[i];
		y->dim[i + 2] = out < 0 ? 0 : out;
	}
	return bad;
}

static struct shape unknown_dims(int rank)
{
	struct shape s = {.rank = rank};

	for (int i = 0; i < rank; i++)
		s.dim[i] = DIM_UNKNOWN;
	return s;
}

static int unpool_infer(struct infer *c)
{
	const struct max_unpool *p = infer_params(c);
	struct shape x = infer_shape(c, 0), idx = infer_shape(c, 1), y = SHAPE_UNKNOWN, given;
	bool have;

	if (x.rank >= 0 && x.rank < 3)
		return infer_fail_shape(c, 0, "rank 3 or more", &x);
	if (shape_known(&x) && shape_known(&idx) && !shape_equal(&x, &idx))
		return infer_fail_shape(c, 1, "the shape of X", &idx);
	if (infer_in(c, 2)) {
		have = infer_ints(c, 2, &given);
		if (have)
			y = given;
		else if (x.rank >= 0)
			y = unknown_dims(x.rank);
		if (x.rank >= 0 && y.rank >= 0 && y.rank != x.rank)
			return infer_fail(c, E_SHAPE, 2, fmt(c->diag, "%d sizes", x.rank),
					  fmt(c->diag, "%d", y.rank));
		if (c->concrete && have && !shape_known(&y))
			return infer_fail(c, E_VALUE, 2, "sizes of at least 0", "a negative one");
	} else if (x.rank >= 0) {
		const char *bad = max_unpool_shape(p, &x, &y, c->diag);
		if (bad)
			return infer_fail(c, E_OP_ATTRIBUTE, -1, bad, NULL);
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

/* ---- regions ---------------------------------------------------------------------------------- */

static int region_infer(struct infer *c, int64_t height, int64_t width, int64_t columns)
{
	struct shape x = infer_shape(c, 0), r = infer_shape(c, 1), y = {.rank = 4};

	if (x.rank >= 0 && x.rank != 4)
		return infer_fail_shape(c, 0, "rank 4", &x);
	if (r.rank >= 0 && (r.rank != 2 || (r.dim[1] >= 0 && r.dim[1] != columns)))
		return infer_fail_shape(c, 1, fmt(c->diag, "[regions, %" PRId64 "]", columns), &r);
	if (height < 1 || width < 1 || height >= INT64_C(1) << 31 || width >= INT64_C(1) << 31)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "an output height and width of at least 1",
				  fmt(c->diag, "%" PRId64 " and %" PRId64, height, width));
	y.dim[0] = r.rank == 2 ? r.dim[0] : DIM_UNKNOWN;
	y.dim[1] = x.rank == 4 ? x.dim[1] : DIM_UNKNOWN;
	y.dim[2] = height;
	y.dim[3] = width;
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int max_roi_infer(struct infer *c)
{
	const struct max_roi_pool *p = infer_params(c);

	if (p->pooled_shape.n != 2)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "pooled_shape of two numbers",
				  fmt(c->diag, "%" PRId64, p->pooled_shape.n));
	return region_infer(c, p->pooled_shape.v[0], p->pooled_shape.v[1], 5);
}

/* Each bin takes the square of this number of samples, so that more would never end; models use 0 to 4. */
enum { MAX_SAMPLING_RATIO = 128 };

static int roi_align_infer(struct infer *c)
{
	const struct roi_align *p = infer_params(c);
	struct shape r = infer_shape(c, 1), b = infer_shape(c, 2);

	if (b.rank >= 0 &&
	    (b.rank != 1 || (r.rank == 2 && r.dim[0] >= 0 && b.dim[0] >= 0 && b.dim[0] != r.dim[0])))
		return infer_fail_shape(c, 2, "one index for each region", &b);
	if (p->sampling_ratio > MAX_SAMPLING_RATIO)
		return infer_fail(c, E_VALUE, -1,
				  fmt(c->diag, "a sampling_ratio of at most %d", MAX_SAMPLING_RATIO),
				  fmt(c->diag, "%" PRId64, p->sampling_ratio));
	return region_infer(c, p->output_height, p->output_width, 4);
}

static int roi_align_upgrade(struct edit *e)
{
	const struct roi_align *old = e->node->params;
	struct roi_align *p = edit_params(e);

	*p = *old;
	p->coordinate_transformation_mode = ROI_OUTPUT_HALF_PIXEL;
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------- */

#define T_MAXPOOL (T_FLOATS_BF | T_I8 | T_U8)
static const struct slot max_in[] = {SLOT("X", "T", T_MAXPOOL), SLOT_END};
static const struct slot max_out[] = {SLOT("Y", "T", T_MAXPOOL), SLOT_OPT("Indices", NULL, T_I64),
				      SLOT_END};
static const struct slot nhwc_in[] = {SLOT("x", "T", T_I8 | T_U8), SLOT_END};
static const struct slot nhwc_out[] = {SLOT("y", "T", T_I8 | T_U8), SLOT_END};
static const struct slot one_in[] = {SLOT("X", "T", T_FLOATS_BF), SLOT_END};
static const struct slot one_out[] = {SLOT("Y", "T", T_FLOATS_BF), SLOT_END};
static const struct slot unpool_in[] = {SLOT("X", "T", T_FLOATS_BF, .dims = "..."),
					SLOT("I", NULL, T_I64, .dims = "..."),
					SLOT_OPT("output_shape", NULL, T_I64, .dims = "_"), SLOT_END};
static const struct slot unpool_out[] = {SLOT("output", "T", T_FLOATS_BF), SLOT_END};
static const struct slot max_roi_in[] = {SLOT("X", "T", T_FLOATS_BF, .dims = "_ _ _ _"),
					 SLOT("rois", "T", T_FLOATS_BF, .dims = "_ 5"), SLOT_END};
static const struct slot roi_align_in[] = {SLOT("X", "T", T_FLOATS_BF, .dims = "_ _ _ _"),
					   SLOT("rois", "T", T_FLOATS_BF, .dims = "R 4"),
					   SLOT("batch_indices", NULL, T_I64, .dims = "R"), SLOT_END};

/* dilations and ceil_mode came with these versions */
#define POOL_FIELDS(dilations_, ceil_)                                                             \
	WINDOW_FIELDS_IN(dilations_, struct pool),                                                 \
		FIELD_IN(ceil_, struct pool, ceil_mode, F_INT, "0", "1: round the output size up")
static const struct field nhwc_attrs[] = {POOL_FIELDS(NULL, NULL), {0}};
static const struct field max_attrs[] = {
	POOL_FIELDS("10-", "10-"),
	FIELD_IN("8-", struct pool, storage_order, F_INT, "0", "1: Indices count column-major"),
	{0}};
static const struct field average_attrs[] = {
	POOL_FIELDS("19-", "10-"),
	FIELD_IN("7-", struct pool, count_include_pad, F_INT, "0", "1: the average counts padding"),
	{0}};
static const struct field lp_attrs[] = {
	POOL_FIELDS("18-", "18-"), FIELD(struct pool, p, F_INT, "2", "the norm"), {0}};
static const struct field lp1_attrs[] = {
	POOL_FIELDS("18-", "18-"),
	{.name = "p", .type = F_FLOAT, .off = offsetof(struct pool, old_p), .def = "2", .help = "the norm"},
	{0}};
static const struct field global_lp_attrs[] = {FIELD(struct global_lp, p, F_INT, "2", "the norm"),
					       {0}};
static const struct field global_lp1_attrs[] = {{.name = "p",
						 .type = F_FLOAT,
						 .off = offsetof(struct global_lp, old_p),
						 .def = "2",
						 .help = "the norm"},
						{0}};
static const struct field unpool_attrs[] = {
	WINDOW_FIELD(struct max_unpool, kernel_shape, F_INTS, NULL, "size of the window"),
	WINDOW_FIELD(struct max_unpool, pads, F_INTS, NULL, "begin of each axis, then end of each"),
	WINDOW_FIELD(struct max_unpool, strides, F_INTS, NULL, "step of the window"),
	{0}};
static const struct field max_roi_attrs[] = {
	FIELD_REQ(struct max_roi_pool, pooled_shape, F_INTS, "height and width of the output"),
	FIELD(struct max_roi_pool, spatial_scale, F_FLOAT, "1",
	      "from the regions' scale to the input's"),
	{0}};
#define ROI_FIELDS                                                                                 \
	FIELD_ENUM(struct roi_align, mode, "avg", "avg|max",                                       \
		   "how the samples of a bin become one number"),                                  \
		FIELD(struct roi_align, output_height, F_INT, "1", "height of the output"),        \
		FIELD(struct roi_align, output_width, F_INT, "1", "width of the output"),          \
		FIELD(struct roi_align, sampling_ratio, F_INT, "0",                                \
		      "samples a bin and axis; 0: as fits"),                                       \
		FIELD(struct roi_align, spatial_scale, F_FLOAT, "1",                               \
		      "from the regions' scale to the input's")
static const struct field roi_align_attrs[] = {
	ROI_FIELDS,
	FIELD_ENUM(struct roi_align, coordinate_transformation_mode, "half_pixel",
		   "half_pixel|output_half_pixel", "whether coordinates are shifted by -0.5"),
	{0}};
static const struct field roi_align10_attrs[] = {ROI_FIELDS, {0}};

/* com.microsoft::NhwcMaxPool, with the channels last, becomes MaxPool between two Transposes. */
static int nhwc_upgrade(struct edit *e)
{
	const struct pool old = *(const struct pool *)e->node->params;
	struct pool *now = edit_become(e, "MaxPool");

	*now = old;
	return edit_channels_first(e);
}

#define POOL_OP .params_size = sizeof(struct pool), .infer = pool_infer

const struct op ops_pool[] = {{.name = "NhwcMaxPool",
			       MICROSOFT,
			       .in = nhwc_in,
			       .out = nhwc_out,
			       .attrs = nhwc_attrs,
			       POOL_OP,
			       .upgrade = nhwc_upgrade},
			      {.name = "MaxPool",
			       .since = 22,
			       .reduced = REDUCED_COMPUTES,
			       .in = max_in,
			       .out = max_out,
			       .attrs = max_attrs,
			       POOL_OP,
			       .flags = OP_OPTIONAL_OUT},
			      {.name = "MaxPool", .since = 12, .types = T_FLOATS | T_I8 | T_U8},
			      {.name = "MaxPool", .since = 11, .types = T_FLOATS},
			      {.name = "MaxPool", .since = 10, .types = T_FLOATS},
			      {.name = "MaxPool", .since = 8, .types = T_FLOATS},
			      {.name = "MaxPool", .since = 1, .out = one_out, .types = T_FLOATS},

			      {.name = "AveragePool",
			       .since = 22,
			       .variant = POOL_AVERAGE,
			       .reduced = REDUCED_COMPUTES,
			       .in = one_in,
			       .out = one_out,
			       .attrs = average_attrs,
			       POOL_OP},
			      {.name = "AveragePool", .since = 19, .types = T_FLOATS},
			      {.name = "AveragePool", .since = 11, .types = T_FLOATS},
			      {.name = "AveragePool", .since = 10, .types = T_FLOATS},
			      {.name = "AveragePool", .since = 7, .types = T_FLOATS},
			      {.name = "AveragePool", .since = 1, .types = T_FLOATS},

			      {.name = "LpPool",
			       .since = 22,
			       .variant = POOL_LP,
			       .in = one_in,
			       .out = one_out,
			       .attrs = lp_attrs,
			       POOL_OP},
			      {.name = "LpPool", .since = 18, .types = T_FLOATS},
			      {.name = "LpPool", .since = 11, .types = T_FLOATS},
			      {.name = "LpPool", .since = 2, .types = T_FLOATS},
			      {.name = "LpPool",
			       .since = 1,
			       ATTRS(lp1_attrs, struct pool),
			       .types = T_FLOATS,
			       .upgrade = lp_upgrade},

			      {.name = "GlobalAveragePool",
			       .since = 22,
			       .variant = POOL_GLOBAL_AVERAGE,
			       .reduced = REDUCED_COMPUTES,
			       .in = one_in,
			       .out = one_out,
			       .infer = global_infer},
			      {.name = "GlobalAveragePool", .since = 1, .types = T_FLOATS},
			      {.name = "GlobalMaxPool",
			       .since = 22,
			       .variant = POOL_GLOBAL_MAX,
			       .reduced = REDUCED_COMPUTES,
			       .in = one_in,
			       .out = one_out,
			       .infer = global_infer},
			      {.name = "GlobalMaxPool", .since = 1, .types = T_FLOATS},
			      {.name = "GlobalLpPool",
			       .since = 22,
			       .variant = POOL_GLOBAL_LP,
			       .in = one_in,
			       .out = one_out,
			       ATTRS(global_lp_attrs, struct global_lp),
			       .infer = global_infer},
			      {.name = "GlobalLpPool", .since = 2, .types = T_FLOATS},
			      {.name = "GlobalLpPool",
			       .since = 1,
			       ATTRS(global_lp1_attrs, struct global_lp),
			       .types = T_FLOATS,
			       .upgrade = global_lp_upgrade},

			      {.name = "MaxUnpool",
			       .since = 22,
			       .in = unpool_in,
			       .out = unpool_out,
			       ATTRS(unpool_attrs, struct max_unpool),
			       .infer = unpool_infer},
			      {.name = "MaxUnpool", .since = 11, .types = T_FLOATS},
			      {.name = "MaxUnpool", .since = 9, .types = T_FLOATS},

			      {.name = "MaxRoiPool",
			       .since = 22,
			       .in = max_roi_in,
			       .out = one_out,
			       ATTRS(max_roi_attrs, struct max_roi_pool),
			       .infer = max_roi_infer},
			      {.name = "MaxRoiPool", .since = 1, .types = T_FLOATS},

			      {.name = "RoiAlign",
			       .since = 22,
			       .in = roi_align_in,
			       .out = one_out,
			       ATTRS(roi_align_attrs, struct roi_align),
			       .infer = roi_align_infer},
			      {.name = "RoiAlign", .since = 16, .types = T_FLOATS},
			      {.name = "RoiAlign",
			       .since = 10,
			       ATTRS(roi_align10_attrs, struct roi_align),
			       .types = T_FLOATS,
			       .upgrade = roi_align_upgrade},
			      {0}};
