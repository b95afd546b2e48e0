/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions along axes, ArgMax and ArgMin, and cumulative sums and products. */
#include "ops/reduce.h"

#include "ops/cast.h"

#include "ops/infer_util.h"
#include "ops/ints.h"
#include "ops/upgrade.h"

#define T_WIDE	 (T_I32 | T_I64 | T_U32 | T_U64)
#define T_RED	 (T_FLOATS_BF | T_WIDE)
#define T_RED_1	 (T_FLOATS | T_WIDE)
#define T_MAX_12 (T_RED_1 | T_I8 | T_U8)
#define T_MAX_13 (T_RED | T_I8 | T_U8)

static const struct slot reduce_in[] = {SLOT("data", "T", T_RED),
					SLOT_OPT("axes", NULL, T_I64, .dims = "_"), SLOT_END};
static const struct slot reduce_1_in[] = {SLOT("data", "T", T_RED), SLOT_END};
static const struct slot reduce_out[] = {SLOT("reduced", "T", T_RED), SLOT_END};
static const struct slot arg_out[] = {SLOT("reduced", NULL, T_I64), SLOT_END};
static const struct slot cumulate_in[] = {SLOT("x", "T", T_RED, .dims = "_ _..."),
					  SLOT("axis", NULL, T_I32 | T_I64, .dims = "() | 1"),
					  SLOT_END};
static const struct slot cumulate_out[] = {SLOT("y", "T", T_RED), SLOT_END};

static const struct field reduce_attrs[] = {
	FIELD(struct reduce, keepdims, F_INT, "1", "whether reduced dimensions stay, with size 1"),
	FIELD(struct reduce, noop_with_empty_axes, F_INT, "0", "without axes: 1 reduces none, 0 all"),
	{0}};
struct reduce_1 {
	struct ints axes;
	int64_t keepdims;
};
static const struct field reduce_1_attrs[] = {
	FIELD(struct reduce_1, axes, F_INTS, NULL, "dimensions to reduce; none: all"),
	FIELD(struct reduce_1, keepdims, F_INT, "1", "whether reduced dimensions stay, with size 1"),
	{0}};
static const struct field arg_attrs[] = {
	FIELD(struct arg_reduce, axis, F_INT, "0", "dimension to search"),
	FIELD(struct arg_reduce, keepdims, F_INT, "1", "whether the dimension stays, with size 1"),
	FIELD_IN("12-", struct arg_reduce, select_last_index, F_INT, "0",
		 "of equal ones: 1 the last, 0 the first"),
	{0}};
static const struct field cumulate_attrs[] = {
	FIELD(struct cumulate, exclusive, F_INT, "0", "1: without the element itself"),
	FIELD(struct cumulate, reverse, F_INT, "0", "1: from the end"),
	{0}};

static int upgrade_axes(struct edit *e)
{
	const struct reduce_1 *old = e->node->params;
	struct reduce *now = edit_params(e);

	now->keepdims = old->keepdims;
	if (old->axes.n > 0)
		edit_const_ints(e, 1, old->axes.v, old->axes.n);
	return 0;
}

static struct shape reduced(const struct shape *x, uint32_t mask, bool keep)
{
	struct shape y = {0};

	for (int i = 0; i < x->rank; i++) {
		if (!(mask & 1u << i))
			y.dim[y.rank++] = x->dim[i];
		else if (keep)
			y.dim[y.rank++] = 1;
	}
	return y;
}

static int infer_reduce(struct infer *c)
{
	const struct reduce *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = SHAPE_UNKNOWN;
	struct int_list axes = {0};
	uint32_t mask = 0;
	int err = 0;

	if (infer_in(c, 1) && !infer_exact(c, 1, &axes)) {
		if (p->keepdims && x.rank >= 0) {
			y.rank = x.rank;
			for (int i = 0; i < y.rank; i++)
				y.dim[i] = DIM_UNKNOWN;
		}
	} else if (x.rank >= 0) {
		err = infer_axes(c, infer_in(c, 1) ? 1 : -1, x.rank, &axes, &mask);
		if (!axes.n && !p->noop_with_empty_axes)
			mask = ~0u;
		y = reduced(&x, mask, p->keepdims != 0);
	} else if (!p->keepdims && !axes.n && !p->noop_with_empty_axes) {
		y = (struct shape){0};
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return err;
}

static int infer_arg(struct infer *c)
{
	const struct arg_reduce *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = SHAPE_UNKNOWN;
	int axis, err = 0;

	if (x.rank >= 0) {
		/* as in numpy, a scalar has an axis 0 */
		if (!x.rank && (p->axis == 0 || p->axis == -1)) {
			y = x;
		} else {
			err = infer_axis(c, 0, p->axis, &axis);
			if (err)
				return err;
			if (x.dim[axis] == 0)
				return infer_fail(c, E_SHAPE, 0, "elements along the axis", "none");
			y = reduced(&x, 1u << axis, p->keepdims != 0);
		}
	}
	infer_set(c, 0, DT_I64, &y);
	return err;
}

#define AXES_INPUT(name_, since_, types_, reduced_)                                                \
	{                                                                                          \
		.name = (name_), .since = (since_), .in = reduce_in, .out = reduce_out,            \
		.types = (types_), ATTRS(reduce_attrs, struct reduce), .infer = infer_reduce,      \
		.reduced = (reduced_)                                                              \
	}
#define AXES_ATTR(name_, since_, types_)                                                           \
	{                                                                                          \
		.name = (name_), .since = (since_), .in = reduce_1_in, .out = reduce_out,          \
		.types = (types_), ATTRS(reduce_1_attrs, struct reduce_1), .upgrade = upgrade_axes \
	}
#define REDUCE(name_)                                                                              \
	AXES_INPUT(name_, 18, T_RED, REDUCED_NEVER), AXES_ATTR(name_, 13, T_RED),                  \
		AXES_ATTR(name_, 11, T_RED_1), AXES_ATTR(name_, 1, T_RED_1)
#define REDUCE_LOG(name_)                                                                          \
	AXES_INPUT(name_, 28, T_RED, REDUCED_NEVER), OLD(name_, 18, T_RED),                        \
		AXES_ATTR(name_, 13, T_RED), AXES_ATTR(name_, 11, T_RED_1),                        \
		AXES_ATTR(name_, 1, T_RED_1)
#define REDUCE_MAX(name_)                                                                          \
	AXES_INPUT(name_, 20, T_MAX_13 | T_BOOL, REDUCED_MOVES), OLD(name_, 18, T_MAX_13),         \
		AXES_ATTR(name_, 13, T_MAX_13), AXES_ATTR(name_, 12, T_MAX_12),                    \
		AXES_ATTR(name_, 11, T_RED_1), AXES_ATTR(name_, 1, T_RED_1)
#define ARG(name_, variant_)                                                                       \
	{.name = (name_),                                                                          \
	 .since = 13,                                                                              \
	 .in = reduce_1_in,                                                                        \
	 .out = arg_out,                                                                           \
	 .types = T_NUMERIC_BF,                                                                    \
	 .variant = (variant_),                                                                    \
	 ATTRS(arg_attrs, struct arg_reduce),                                                      \
	 .infer = infer_arg},                                                                      \
		OLD(name_, 12, T_NUMERIC), OLD(name_, 11, T_NUMERIC), OLD(name_, 1, T_NUMERIC)
#define CUMULATE(name_, since_, types_, variant_)                                                  \
	{                                                                                          \
		.name = (name_), .since = (since_), .in = cumulate_in, .out = cumulate_out,        \
		.types = (types_), ATTRS(cumulate_attrs, struct cumulate), .infer = infer_same,    \
		.variant = (variant_)                                                              \
	}

/* com.microsoft::ReduceSumInteger: the sum in 32 bits. */
static const struct slot sum_integer_in[] = {SLOT("data", "T1", T_I8 | T_U8), SLOT_END};
static const struct slot sum_integer_out[] = {SLOT("reduced", NULL, T_I32 | T_U32), SLOT_END};
static const struct field sum_integer_attrs[] = {
	FIELD_REQ(struct reduce_1, axes, F_INTS, "dimensions that are summed over"),
	FIELD_REQ(struct reduce_1, keepdims, F_INT, "1: they stay, with size 1"),
	{0}};

static int sum_integer_upgrade(struct edit *e)
{
	const struct reduce_1 *old = e->node->params;
	enum dtype to = edit_dtype(e, 0) == DT_U8 ? DT_U32 : DT_I32;
	void *params;
	uint32_t wide = edit_before(e, "Cast", e->node->in, 1, &params);
	struct reduce *now = edit_become(e, "ReduceSum");

	((struct cast *)params)->to = to;
	node_set_in(e->graph, e->node, 0, wide);
	now->keepdims = old->keepdims;
	if (old->axes.n > 0)
		edit_const_ints(e, 1, old->axes.v, old->axes.n);
	return 0;
}

const struct op ops_reduce[] = {AXES_INPUT("ReduceSum", 13, T_RED, REDUCED_NEVER),
				AXES_ATTR("ReduceSum", 11, T_RED_1),
				AXES_ATTR("ReduceSum", 1, T_RED_1),
				REDUCE("ReduceMean"),
				REDUCE_MAX("ReduceMax"),
				REDUCE_MAX("ReduceMin"),
				REDUCE("ReduceProd"),
				REDUCE("ReduceL1"),
				REDUCE("ReduceL2"),
				REDUCE_LOG("ReduceLogSum"),
				REDUCE_LOG("ReduceLogSumExp"),
				REDUCE("ReduceSumSquare"),
				ARG("ArgMax", ARG_MAX),
				ARG("ArgMin", ARG_MIN),
				CUMULATE("CumSum", 14, T_RED, CUMULATE_SUM),
				OLD("CumSum", 11, T_F32 | T_F64 | T_WIDE),
				CUMULATE("CumProd", 26, T_RED, CUMULATE_PRODUCT),
				{.name = "ReduceSumInteger",
				 MICROSOFT,
				 .in = sum_integer_in,
				 .out = sum_integer_out,
				 ATTRS(sum_integer_attrs, struct reduce_1),
				 .upgrade = sum_integer_upgrade},
				{0}};
