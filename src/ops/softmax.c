/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, LogSoftmax, Hardmax. */
#include "ops/softmax.h"

#include "ops/infer_util.h"
#include "ops/layout.h"

#include <inttypes.h>

static const struct slot in[] = {SLOT("input", "T", T_FLOATS_BF), SLOT_END};
static const struct slot out[] = {SLOT("output", "T", T_FLOATS_BF), SLOT_END};
static const struct field attrs[] = {
	FIELD(struct softmax, axis, F_INT, "-1", "dimension along which the elements sum to 1"), {0}};
static const struct field old_attrs[] = {
	FIELD(struct softmax, axis, F_INT, "1", "first of the dimensions that are taken as one"), {0}};

/*
 * Below opset 13 all dims from axis on were normalized together. The upgrade flattens the input to rank 2, applies a
 * softmax and reshapes the result back.
 */
static int upgrade_flat(struct edit *e)
{
	int64_t axis = ((const struct softmax *)e->node->params)->axis;
	int rank = edit_rank(e, 0);
	uint32_t x = e->node->in[0], shape;
	struct softmax *now = edit_params(e);
	void *params;

	if (rank > 0 && axis_of(axis, rank) < 0)
		return edit_fail(e, E_OP_ATTRIBUTE, fmt(e->diag, "axis within rank %d", rank),
				 fmt(e->diag, "%" PRId64, axis));
	now->axis = -1;
	if (rank > 0 && (axis == rank - 1 || axis == -1))
		return 0;
	shape = edit_before(e, "Shape", &x, 1, NULL);
	node_set_in(e->graph, e->node, 0, edit_before(e, "Flatten", &x, 1, &params));
	((struct flatten_params *)params)->axis = axis;
	edit_after(e, 0, "Reshape", &shape, 1, &params);
	((struct reshape_params *)params)->allowzero = 1;
	return 0;
}

static int infer_softmax(struct infer *c)
{
	const struct softmax *p = infer_params(c);
	struct shape x = infer_shape(c, 0);
	int axis, err = 0;

	if (x.rank > 0 || (p->axis != 0 && p->axis != -1))
		err = infer_axis(c, 0, p->axis, &axis);
	return err ? err : infer_same(c);
}

/*
 * com.microsoft::BiasSoftmax: the bias has the dimensions of data, 1 where it is broadcast, or fewer. All dimensions from axis on
 * are normalized together.
 */
struct bias_softmax {
	int64_t axis, is_inner_broadcast;
};
static const struct slot bias_in[] = {SLOT("data", "T", T_FLOATS), SLOT("bias", "T", T_FLOATS),
				      SLOT_END};
static const struct slot bias_out[] = {SLOT("output", "T", T_FLOATS), SLOT_END};
static const struct field bias_attrs[] = {
	FIELD(struct bias_softmax, axis, F_INT, "1", "first of the dimensions that are taken as one"),
	FIELD_REQ(struct bias_softmax, is_inner_broadcast, F_INT,
		  "a hint: bias is broadcast in the dimensions before axis (1) or in the first ones"),
	{0}};

static int infer_bias_softmax(struct infer *c)
{
	const struct bias_softmax *p = infer_params(c);
	struct shape x = infer_shape(c, 0), bias = infer_shape(c, 1);
	int axis, err = infer_axis(c, 0, p->axis, &axis);

	if (!err && !shape_broadcasts_to(&bias, &x))
		err = infer_fail(c, E_SHAPE, 1,
				 fmt(c->diag, "a bias that broadcasts to %s", infer_shape_text(c, &x)),
				 infer_shape_text(c, &bias));
	return err ? err : infer_same(c);
}

#define ROWS(name_, variant_, reduced_)                                                            \
	{.name = (name_),                                                                          \
	 .since = 13,                                                                              \
	 .in = in,                                                                                 \
	 .out = out,                                                                               \
	 .types = T_FLOATS_BF,                                                                     \
	 ATTRS(attrs, struct softmax),                                                             \
	 .infer = infer_softmax,                                                                   \
	 .variant = (variant_),                                                                    \
	 .reduced = (reduced_)},                                                                   \
		{.name = (name_),                                                                  \
		 .since = 11,                                                                      \
		 .in = in,                                                                         \
		 .out = out,                                                                       \
		 .types = T_FLOATS,                                                                \
		 ATTRS(old_attrs, struct softmax),                                                 \
		 .upgrade = upgrade_flat},                                                         \
	{                                                                                          \
		.name = (name_), .since = 1, .in = in, .out = out, .types = T_FLOATS,              \
		ATTRS(old_attrs, struct softmax), .upgrade = upgrade_flat                          \
	}

const struct op ops_softmax[] = {
	ROWS("Softmax", SOFTMAX_PLAIN, REDUCED_COMPUTES),
	ROWS("LogSoftmax", SOFTMAX_LOG, REDUCED_COMPUTES),
	ROWS("Hardmax", SOFTMAX_HARD, REDUCED_NEVER),
	{.name = "BiasSoftmax",
	 MICROSOFT,
	 .in = bias_in,
	 .out = bias_out,
	 ATTRS(bias_attrs, struct bias_softmax),
	 .infer = infer_bias_softmax,
	 .expand = "rows = Flatten(Add(data, bias)) {axis=$axis}; "
		   "output = Reshape(Softmax(rows) {axis=-1}, Shape(data)) {allowzero=1}"},
	{0}};
