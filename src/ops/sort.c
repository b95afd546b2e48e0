/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that sort or search: TopK, Unique, NonZero. */
#include "ops/sort.h"

#include "ops/infer_util.h"
#include "ops/ints.h"

#include <inttypes.h>

/* ---- TopK -------------------------------------------------------------------------------------- */

static int topk_infer(struct infer *c)
{
	const struct topk_params *p = infer_params(c);
	struct shape out = infer_shape(c, 0);
	struct int_list k;
	int axis, err = infer_axis(c, 0, p->axis, &axis);

	if (err)
		return err;
	if (out.rank >= 0) {
		int64_t dim = out.dim[axis];
		out.dim[axis] = DIM_UNKNOWN;
		if (infer_list(c, 1, &k)) {
			if (k.n != 1 || (k.exact && (k.v[0] < 0 || (dim >= 0 && k.v[0] > dim))))
				return infer_fail(c, E_VALUE, 1,
						  fmt(c->diag, "one K from 0 to %" PRId64, dim),
						  fmt(c->diag, "%" PRId64, k.n == 1 ? k.v[0] : k.n));
			out.dim[axis] = k.v[0];
			if (c->concrete && !k.exact)
				infer_value(c, 1);
		}
	}
	infer_set(c, 0, infer_dtype(c, 0), &out);
	infer_set(c, 1, DT_I64, &out);
	return 0;
}

static int topk10_upgrade(struct edit *e)
{
	int64_t axis = ((const struct topk_params *)e->node->params)->axis;

	((struct topk_params *)edit_params(e))->axis = axis;
	return 0;
}

struct topk1_params {
	int64_t axis, k;
};

static int topk1_upgrade(struct edit *e)
{
	const struct topk1_params *old = e->node->params;

	((struct topk_params *)edit_params(e))->axis = old->axis;
	edit_const_ints(e, 1, &old->k, 1);
	return 0;
}

/* ---- Unique, NonZero ---------------------------------------------------------------------------- */

static int unique_infer(struct infer *c)
{
	const struct unique_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = {.rank = 1, .dim = {DIM_UNKNOWN}};
	struct shape list = {.rank = 1, .dim = {DIM_UNKNOWN}}, all = list;
	int axis;

	if (p->axis == INT_ABSENT) {
		if (x.rank >= 0)
			all.dim[0] = dim_product(&x, 0, x.rank);
	} else {
		int err = infer_axis(c, 0, p->axis, &axis);
		if (err)
			return err;
		y = x;
		if (x.rank >= 0) {
			all.dim[0] = x.dim[axis];
			y.dim[axis] = DIM_UNKNOWN;
		}
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	infer_set(c, 1, DT_I64, &list);
	infer_set(c, 2, DT_I64, &all);
	infer_set(c, 3, DT_I64, &list);
	return 0;
}

static int non_zero_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), out = {.rank = 2, .dim = {x.rank, DIM_UNKNOWN}};

	if (x.rank < 0)
		out.dim[0] = DIM_UNKNOWN;
	infer_set(c, 0, DT_I64, &out);
	return 0;
}

/* ---- the rows ------------------------------------------------------------------------------------- */

static const struct slot topk_in[] = {{.name = "X", .tvar = "T", .types = T_NUMERIC_BF},
				      {.name = "K", .types = T_I64, .dims = "1"},
				      SLOT_END};
static const struct slot topk1_in[] = {{.name = "X", .tvar = "T", .types = T_FLOATS}, SLOT_END};
static const struct slot topk_out[] = {
	{.name = "Values", .tvar = "T", .types = T_NUMERIC_BF, .optional = true},
	{.name = "Indices", .types = T_I64, .optional = true},
	SLOT_END};
static const struct slot x_in[] = {{.name = "X", .tvar = "T", .types = T_ALL}, SLOT_END};
static const struct slot unique_out[] = {{.name = "Y", .tvar = "T", .types = T_ALL},
					 {.name = "indices", .types = T_I64, .optional = true},
					 {.name = "inverse_indices", .types = T_I64, .optional = true},
					 {.name = "counts", .types = T_I64, .optional = true},
					 SLOT_END};
static const struct slot non_zero_out[] = {{.name = "Y", .types = T_I64}, SLOT_END};

#define TOPK_AXIS FIELD(struct topk_params, axis, F_INT, "-1", "axis to order")
static const struct field topk_attrs[] = {
	TOPK_AXIS,
	FIELD(struct topk_params, largest, F_INT, "1", "the largest elements, else the smallest"),
	FIELD(struct topk_params, sorted, F_INT, "1", "in order"),
	{0}};
static const struct field topk10_attrs[] = {TOPK_AXIS, {0}};
static const struct field topk1_attrs[] = {
	FIELD(struct topk1_params, axis, F_INT, "-1", "axis to order"),
	FIELD_REQ(struct topk1_params, k, F_INT, "number of elements"),
	{0}};
static const struct field unique_attrs[] = {
	FIELD(struct unique_params, axis, F_INT, NULL, "axis of the slices; default: elements"),
	FIELD(struct unique_params, sorted, F_INT, "1", "in order, else as they come"),
	{0}};

/* com.microsoft::Unique: a vector, and its elements as they come. */
static int ms_unique_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), y = shape_of(1, (int64_t[]){DIM_UNKNOWN});

	infer_set(c, 0, infer_dtype(c, 0), &y);
	infer_set(c, 1, DT_I64, &x);
	infer_set(c, 2, DT_I64, &y);
	return 0;
}
static const struct slot ms_unique_in[] = {
	{.name = "x", .tvar = "T", .types = T_ALL_OLD, .dims = "_"}, SLOT_END};
static const struct slot ms_unique_out[] = {{.name = "y", .tvar = "T", .types = T_ALL_OLD},
					    {.name = "idx", .types = T_I64},
					    {.name = "counts", .types = T_I64},
					    SLOT_END};

const struct op ops_sort[] = {{.name = "TopK",
			       .since = 24,
			       .in = topk_in,
			       .out = topk_out,
			       ATTRS(topk_attrs, struct topk_params),
			       .infer = topk_infer,
			       .flags = OP_OPTIONAL_OUT},
			      {.name = "TopK", .since = 11, .types = T_NUMERIC},
			      {.name = "TopK",
			       .since = 10,
			       .in = topk_in,
			       .out = topk_out,
			       .types = T_FLOATS,
			       ATTRS(topk10_attrs, struct topk_params),
			       .upgrade = topk10_upgrade},
			      {.name = "TopK",
			       .since = 1,
			       .in = topk1_in,
			       .out = topk_out,
			       .types = T_FLOATS,
			       ATTRS(topk1_attrs, struct topk1_params),
			       .upgrade = topk1_upgrade},
			      {.name = "Unique",
			       .since = 28,
			       .in = x_in,
			       .out = unique_out,
			       ATTRS(unique_attrs, struct unique_params),
			       .infer = unique_infer,
			       .flags = OP_OPTIONAL_OUT | OP_RUN_SHAPES},
			      {.name = "Unique", .since = 11, .types = T_ALL_OLD},
			      {.name = "NonZero",
			       .since = 13,
			       .in = x_in,
			       .out = non_zero_out,
			       .types = T_ALL_13,
			       .infer = non_zero_infer,
			       .flags = OP_RUN_SHAPES},
			      {.name = "NonZero", .since = 9, .types = T_ALL_OLD},
			      {.name = "Unique",
			       MICROSOFT,
			       .in = ms_unique_in,
			       .out = ms_unique_out,
			       .infer = ms_unique_infer,
			       .expand = "y, first, idx, counts = Unique(x) {sorted=0, axis=0}"},
			      {0}};
