/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that read or write elements at given indices. */
#include "ops/gather.h"

#include "ops/infer_util.h"
#include "ops/ints.h"

#include <inttypes.h>

static int rank_fail(const struct infer *c)
{
	return infer_fail(c, E_RANK, -1,
			  fmt(c->diag, "a result of at most %d dimensions", MAX_RANK), "more");
}

/* ---- Gather -------------------------------------------------------------------------------------- */

static void gather_ints(struct infer *c)
{
	struct int_list x, i, out = {0};

	if (!list_of_info(infer_in(c, 0), &x) || !list_of_info(infer_in(c, 1), &i) || !i.exact)
		return;
	out.exact = x.exact;
	for (int k = 0; k < i.n; k++) {
		int at = axis_of(i.v[k], x.n);
		if (at < 0)
			return;
		out.v[out.n++] = x.v[at];
	}
	infer_give_ints(c, 0, &out);
}

static int gather_infer(struct infer *c)
{
	const struct gather_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), i = infer_shape(c, 1), out;
	int axis, err = infer_axis(c, 0, p->axis, &axis);

	if (err)
		return err;
	if ((err = infer_gathered(c, &x, axis, &i, &out)))
		return err;
	infer_set(c, 0, infer_dtype(c, 0), &out);
	if (x.rank == 1 && i.rank >= 0 && i.rank <= 1)
		gather_ints(c);
	return 0;
}

/* Checks that indices have the rank of the data and, except along the axis, dims no larger than the data's. */
static int elements_check(const struct infer *c, int axis)
{
	struct shape x = infer_shape(c, 0), i = infer_shape(c, 1);

	if (x.rank < 0 || i.rank < 0)
		return 0;
	if (x.rank != i.rank)
		return infer_fail(c, E_SHAPE, 1, fmt(c->diag, "rank %d", x.rank),
				  fmt(c->diag, "rank %d", i.rank));
	for (int k = 0; k < x.rank; k++)
		if (k != axis && x.dim[k] >= 0 && i.dim[k] > x.dim[k])
			return infer_fail(
				c, E_SHAPE, 1,
				fmt(c->diag, "at most %" PRId64 " in dimension %d", x.dim[k], k),
				fmt(c->diag, "%" PRId64, i.dim[k]));
	return 0;
}

static int gather_elements_infer(struct infer *c)
{
	const struct gather_params *p = infer_params(c);
	struct shape i = infer_shape(c, 1);
	int axis, err = infer_axis(c, 0, p->axis, &axis);

	if (!err)
		err = elements_check(c, axis);
	if (!err)
		infer_set(c, 0, infer_dtype(c, 0), &i);
	return err;
}

static int gather_nd_infer(struct infer *c)
{
	const struct gather_nd_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), i = infer_shape(c, 1), out = SHAPE_UNKNOWN;
	int64_t b = p->batch_dims;

	if (x.rank >= 0 && i.rank >= 0) {
		if (!x.rank || !i.rank)
			return infer_fail(c, E_SHAPE, x.rank ? 1 : 0, "rank 1 or more", "a scalar");
		if (b < 0 || b >= x.rank || b >= i.rank)
			return infer_fail(c, E_OP_ATTRIBUTE, -1, "batch_dims below both ranks",
					  fmt(c->diag, "%" PRId64, b));
		for (int k = 0; k < b; k++) {
			int64_t n;
			int err = infer_unify(c, 1, x.dim[k], i.dim[k], &n);
			if (err)
				return err;
		}
		int64_t q = i.dim[i.rank - 1];
		if (q >= 0) {
			if (q < 1 || q > x.rank - b)
				return infer_fail(
					c, E_SHAPE, 1,
					fmt(c->diag, "index tuples of 1 to %d", x.rank - (int)b),
					fmt(c->diag, "%" PRId64, q));
			if (i.rank - 1 + x.rank - b - q > MAX_RANK)
				return rank_fail(c);
			out.rank = 0;
			for (int k = 0; k < i.rank - 1; k++)
				out.dim[out.rank++] = i.dim[k];
			for (int64_t k = b + q; k < x.rank; k++)
				out.dim[out.rank++] = x.dim[k];
		}
	}
	infer_set(c, 0, infer_dtype(c, 0), &out);
	return 0;
}

/* ---- Scatter -------------------------------------------------------------------------------------- */

static int scatter_type(const struct infer *c, int reduction)
{
	enum dtype t = infer_dtype(c, 0);

	if (reduction == SCATTER_NONE || t == DT_NONE)
		return 0;
	if (t == DT_STRING || (dtype_class(t) == DT_COMPLEX && reduction >= SCATTER_MAX))
		return infer_fail(c, E_TYPE, 0, "numbers, for this reduction", dtype_name(t));
	return 0;
}

static int scatter_elements_infer(struct infer *c)
{
	const struct scatter_params *p = infer_params(c);
	struct shape i = infer_shape(c, 1), u = infer_shape(c, 2);
	int axis, err = infer_axis(c, 0, p->axis, &axis);

	if (!err)
		err = scatter_type(c, p->reduction);
	if (!err)
		err = elements_check(c, axis);
	if (!err && i.rank >= 0 && u.rank >= 0 && i.rank != u.rank)
		err = infer_fail(c, E_SHAPE, 2, fmt(c->diag, "rank %d", i.rank),
				 fmt(c->diag, "rank %d", u.rank));
	for (int k = 0; !err && k < i.rank && u.rank >= 0; k++) {
		int64_t n;
		err = infer_unify(c, 2, i.dim[k], u.dim[k], &n);
	}
	return err ? err : infer_same(c);
}

static int scatter_nd_infer(struct infer *c)
{
	const struct scatter_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), i = infer_shape(c, 1), u = infer_shape(c, 2);
	int err = scatter_type(c, p->reduction);

	if (err)
		return err;
	if (x.rank >= 0 && i.rank >= 0) {
		int64_t q = i.rank ? i.dim[i.rank - 1] : 0;
		if (!x.rank || !i.rank || (q >= 0 && q > x.rank))
			return infer_fail(c, E_SHAPE, 1,
					  fmt(c->diag, "index tuples of at most %d", x.rank),
					  fmt(c->diag, "%" PRId64, q));
		if (q >= 0 && u.rank >= 0 && u.rank != i.rank - 1 + x.rank - q)
			return infer_fail(c, E_SHAPE, 2,
					  fmt(c->diag, "rank %" PRId64, i.rank - 1 + x.rank - q),
					  fmt(c->diag, "rank %d", u.rank));
		for (int k = 0; q >= 0 && k < u.rank; k++) {
			int64_t n, want = k < i.rank - 1 ? i.dim[k] : x.dim[q + k - (i.rank - 1)];
			err = infer_unify(c, 2, want, u.dim[k], &n);
			if (err)
				return err;
		}
	}
	return infer_same(c);
}

static int scatter_keep_axis(struct edit *e)
{
	int64_t axis = ((const struct scatter_params *)e->node->params)->axis;

	((struct scatter_params *)edit_params(e))->axis = axis;
	return 0;
}

static int scatter_keep(struct edit *e)
{
	struct scatter_params old = *(const struct scatter_params *)e->node->params;

	*(struct scatter_params *)edit_params(e) = old;
	return 0;
}

static int scatter_nd_old(struct edit *e)
{
	edit_params(e);
	return 0;
}

static int gather_nd_old(struct edit *e)
{
	edit_params(e);
	return 0;
}

/* ---- OneHot, Compress, TensorScatter ------------------------------------------------------------------ */

static int one_hot_infer(struct infer *c)
{
	const struct one_hot_params *p = infer_params(c);
	struct shape i = infer_shape(c, 0), out = SHAPE_UNKNOWN;
	struct int_list depth;

	if (i.rank >= 0) {
		int a = axis_of(p->axis, i.rank + 1);
		if (i.rank + 1 > MAX_RANK)
			return rank_fail(c);
		if (a < 0)
			return infer_fail(c, E_OP_ATTRIBUTE, -1,
					  fmt(c->diag, "axis within rank %d", i.rank + 1),
					  fmt(c->diag, "axis %" PRId64, p->axis));
		out.rank = i.rank + 1;
		for (int k = 0; k < out.rank; k++)
			out.dim[k] = k < a ? i.dim[k] : k == a ? DIM_UNKNOWN : i.dim[k - 1];
		if (infer_list(c, 1, &depth)) {
			if (depth.n != 1 || (depth.exact && depth.v[0] < 1))
				return infer_fail(c, E_VALUE, 1, "one depth of 1 or more",
						  fmt(c->diag, "%" PRId64,
						      depth.n == 1 ? depth.v[0] : depth.n));
			out.dim[a] = depth.v[0];
			if (c->concrete && !depth.exact)
				infer_value(c, 1);
		}
	}
	infer_set(c, 0, infer_dtype(c, 2), &out);
	return 0;
}

static int compress_infer(struct infer *c)
{
	const struct compress_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), out = {.rank = 1, .dim = {DIM_UNKNOWN}},
		     cond = infer_shape(c, 1);
	const struct vinfo *v = infer_in(c, 1);
	int64_t count = DIM_UNKNOWN,
		limit = p->axis == INT_ABSENT && x.rank >= 0 ? dim_product(&x, 0, x.rank) : -1;
	int axis = 0;

	if (cond.rank >= 0 && cond.rank != 1)
		return infer_fail(c, E_SHAPE, 1, "rank 1", fmt(c->diag, "rank %d", cond.rank));
	if (p->axis != INT_ABSENT) {
		int err = infer_axis(c, 0, p->axis, &axis);
		if (err)
			return err;
		out = x;
		limit = x.rank >= 0 ? x.dim[axis] : -1;
	}
	/*
	 * use the condition only if it is known: waiting for a computed condition would need a new plan for each of
	 * its values
	 */
	if (v->known && limit >= 0) {
		count = 0;
		for (int64_t k = 0; k < limit && k < tensor_count(v->known); k++)
			count += ((const uint8_t *)v->known->data)[k] != 0;
	}
	if (out.rank >= 0)
		out.dim[axis] = count;
	infer_set(c, 0, infer_dtype(c, 0), &out);
	return 0;
}

static int tensor_scatter_infer(struct infer *c)
{
	const struct tensor_scatter_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), u = infer_shape(c, 1), w = infer_shape(c, 2);
	int axis, err = infer_axis(c, 0, p->axis, &axis);
	int64_t n;

	if (err)
		return err;
	if (axis == 0)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "an axis other than the batch's", "axis 0");
	if (x.rank >= 0 && u.rank >= 0 && x.rank != u.rank)
		return infer_fail(c, E_SHAPE, 1, fmt(c->diag, "rank %d", x.rank),
				  fmt(c->diag, "rank %d", u.rank));
	for (int k = 0; k < x.rank && u.rank >= 0 && !err; k++)
		if (k != axis)
			err = infer_unify(c, 1, x.dim[k], u.dim[k], &n);
	if (!err && x.rank > 0 && u.rank >= 0 && x.dim[axis] >= 0 && u.dim[axis] > x.dim[axis])
		err = infer_fail(c, E_SHAPE, 1,
				 fmt(c->diag, "at most %" PRId64 " in dimension %d", x.dim[axis], axis),
				 fmt(c->diag, "%" PRId64, u.dim[axis]));
	if (!err && w.rank >= 0 && w.rank != 1)
		err = infer_fail(c, E_SHAPE, 2, "rank 1", fmt(c->diag, "rank %d", w.rank));
	if (!err && w.rank == 1 && x.rank > 0)
		err = infer_unify(c, 2, x.dim[0], w.dim[0], &n);
	return err ? err : infer_same(c);
}

/* ---- the rows ---------------------------------------------------------------------------------------- */

#define T_INDEX (T_I32 | T_I64)
static const struct slot gather_in[] = {{.name = "data", .tvar = "T", .types = T_ALL},
					{.name = "indices", .tvar = "Tind", .types = T_INDEX},
					SLOT_END};
static const struct slot gather_nd_in[] = {{.name = "data", .tvar = "T", .types = T_ALL},
					   {.name = "indices", .types = T_I64},
					   SLOT_END};
static const struct slot scatter_in[] = {{.name = "data", .tvar = "T", .types = T_ALL},
					 {.name = "indices", .tvar = "Tind", .types = T_INDEX},
					 {.name = "updates", .tvar = "T", .types = T_ALL},
					 SLOT_END};
static const struct slot scatter_nd_in[] = {{.name = "data", .tvar = "T", .types = T_ALL},
					    {.name = "indices", .types = T_I64},
					    {.name = "updates", .tvar = "T", .types = T_ALL},
					    SLOT_END};
static const struct slot output_out[] = {{.name = "output", .tvar = "T", .types = T_ALL}, SLOT_END};
/* The type variable is "T" because .types of the row replaces the types of T: old versions allow fewer. */
static const struct slot one_hot_in[] = {
	{.name = "indices", .tvar = "T1", .types = T_NUMERIC},
	{.name = "depth", .tvar = "T2", .types = T_NUMERIC, .dims = "() | 1"},
	{.name = "values", .tvar = "T", .types = T_ALL, .dims = "2"},
	SLOT_END};
static const struct slot compress_in[] = {{.name = "input", .tvar = "T", .types = T_ALL},
					  {.name = "condition", .types = T_BOOL, .dims = "_"},
					  SLOT_END};
static const struct slot tensor_scatter_in[] = {
	{.name = "past_cache", .tvar = "T", .types = T_ALL},
	{.name = "update", .tvar = "T", .types = T_ALL},
	{.name = "write_indices", .types = T_I64, .optional = true},
	SLOT_END};
static const struct slot present_out[] = {{.name = "present_cache", .tvar = "T", .types = T_ALL},
					  SLOT_END};

static const struct field gather_attrs[] = {
	FIELD(struct gather_params, axis, F_INT, "0", "axis to gather along"), {0}};
static const struct field gather_nd_attrs[] = {FIELD(struct gather_nd_params, batch_dims, F_INT, "0",
						     "leading dims that indices and data share"),
					       {0}};
static const struct field no_attrs[] = {{0}};
#define REDUCTION(choices_)                                                                        \
	FIELD_ENUM(struct scatter_params, reduction, "none", choices_,                             \
		   "what to do with the value that is there")
#define SCATTER_AXIS FIELD(struct scatter_params, axis, F_INT, "0", "axis to scatter along")
static const struct field scatter_attrs[] = {SCATTER_AXIS, REDUCTION("none|add|mul|max|min"), {0}};
static const struct field scatter16_attrs[] = {SCATTER_AXIS, REDUCTION("none|add|mul"), {0}};
static const struct field scatter11_attrs[] = {SCATTER_AXIS, {0}};
static const struct field scatter_nd_attrs[] = {REDUCTION("none|add|mul|max|min"), {0}};
static const struct field scatter_nd16_attrs[] = {REDUCTION("none|add|mul"), {0}};
static const struct field one_hot_attrs[] = {
	FIELD(struct one_hot_params, axis, F_INT, "-1", "axis that is added"), {0}};
static const struct field compress_attrs[] = {
	FIELD(struct compress_params, axis, F_INT, NULL, "axis; default: input flattened"), {0}};
static const struct field tensor_scatter_attrs[] = {
	FIELD(struct tensor_scatter_params, axis, F_INT, "-2", "axis of the sequence"),
	FIELD_ENUM(struct tensor_scatter_params, mode, "linear", "linear|circular",
		   "whether writing wraps around at the end"),
	{0}};

#define SCATTER_SIZE .params_size = sizeof(struct scatter_params)

static const struct slot ms_gather_nd_in[] = {{.name = "data", .tvar = "T", .types = T_ALL_OLD},
					      {.name = "indices", .types = T_INDEX},
					      SLOT_END};
static const struct slot ms_gather_nd_out[] = {{.name = "output", .tvar = "T", .types = T_ALL_OLD},
					       SLOT_END};
static const struct slot embedding_in[] = {
	{.name = "weight", .tvar = "T", .types = T_NUMERIC_BF, .dims = "_ _"},
	{.name = "indices", .types = T_I64},
	{.name = "padding_idx", .types = T_I64, .optional = true},
	{.name = "scale_grad_by_freq", .types = T_BOOL, .optional = true},
	SLOT_END};
static const struct slot embedding_out[] = {{.name = "Y", .tvar = "T", .types = T_NUMERIC_BF},
					    SLOT_END};

const struct op ops_gather[] = {{.name = "Gather",
				 .since = 13,
				 .reduced = REDUCED_MOVES,
				 .in = gather_in,
				 .out = output_out,
				 .types = T_ALL_13,
				 ATTRS(gather_attrs, struct gather_params),
				 .infer = gather_infer,
				 .flags = OP_READS_PART | OP_PASSES},
				OLD("Gather", 11, T_ALL_OLD),
				OLD("Gather", 1, T_ALL_OLD),
				{.name = "GatherElements",
				 .since = 13,
				 .in = gather_in,
				 .out = output_out,
				 .types = T_ALL_13,
				 ATTRS(gather_attrs, struct gather_params),
				 .infer = gather_elements_infer,
				 .flags = OP_READS_PART | OP_PASSES},
				OLD("GatherElements", 11, T_ALL_OLD),
				{.name = "GatherND",
				 .since = 13,
				 .in = gather_nd_in,
				 .out = output_out,
				 .types = T_ALL_13,
				 ATTRS(gather_nd_attrs, struct gather_nd_params),
				 .infer = gather_nd_infer,
				 .flags = OP_READS_PART | OP_PASSES},
				OLD("GatherND", 12, T_ALL_OLD),
				{.name = "GatherND",
				 .since = 11,
				 .in = gather_nd_in,
				 .out = output_out,
				 .types = T_ALL_OLD,
				 .attrs = no_attrs,
				 .upgrade = gather_nd_old},
				{.name = "ScatterElements",
				 .since = 18,
				 .in = scatter_in,
				 .out = output_out,
				 .types = T_ALL_13,
				 .attrs = scatter_attrs,
				 SCATTER_SIZE,
				 .infer = scatter_elements_infer},
				{.name = "ScatterElements",
				 .since = 16,
				 .in = scatter_in,
				 .out = output_out,
				 .types = T_ALL_13,
				 .attrs = scatter16_attrs,
				 SCATTER_SIZE,
				 .upgrade = scatter_keep},
				{.name = "ScatterElements",
				 .since = 13,
				 .in = scatter_in,
				 .out = output_out,
				 .types = T_ALL_13,
				 .attrs = scatter11_attrs,
				 SCATTER_SIZE,
				 .upgrade = scatter_keep_axis},
				{.name = "ScatterElements",
				 .since = 11,
				 .in = scatter_in,
				 .out = output_out,
				 .types = T_ALL_OLD,
				 .attrs = scatter11_attrs,
				 SCATTER_SIZE,
				 .upgrade = scatter_keep_axis},
				/* the name of ScatterElements before opset 11; now deprecated */
				{.name = "Scatter",
				 .since = 9,
				 .removed = 11,
				 .successor = "ScatterElements",
				 .in = scatter_in,
				 .out = output_out,
				 .types = T_ALL_OLD,
				 .attrs = scatter11_attrs,
				 SCATTER_SIZE,
				 .infer = scatter_elements_infer},
				{.name = "ScatterND",
				 .since = 18,
				 .variant = SCATTER_TUPLES,
				 .in = scatter_nd_in,
				 .out = output_out,
				 .types = T_ALL_13,
				 .attrs = scatter_nd_attrs,
				 SCATTER_SIZE,
				 .infer = scatter_nd_infer},
				{.name = "ScatterND",
				 .since = 16,
				 .in = scatter_nd_in,
				 .out = output_out,
				 .types = T_ALL_13,
				 .attrs = scatter_nd16_attrs,
				 SCATTER_SIZE,
				 .upgrade = scatter_keep},
				{.name = "ScatterND",
				 .since = 13,
				 .in = scatter_nd_in,
				 .out = output_out,
				 .types = T_ALL_13,
				 .attrs = no_attrs,
				 SCATTER_SIZE,
				 .upgrade = scatter_nd_old},
				{.name = "ScatterND",
				 .since = 11,
				 .in = scatter_nd_in,
				 .out = output_out,
				 .types = T_ALL_OLD,
				 .attrs = no_attrs,
				 SCATTER_SIZE,
				 .upgrade = scatter_nd_old},
				{.name = "OneHot",
				 .since = 28,
				 .in = one_hot_in,
				 .out = output_out,
				 ATTRS(one_hot_attrs, struct one_hot_params),
				 .infer = one_hot_infer},
				OLD("OneHot", 11, T_ALL_OLD),
				OLD("OneHot", 9, T_ALL_OLD),
				{.name = "Compress",
				 .since = 28,
				 .in = compress_in,
				 .out = output_out,
				 ATTRS(compress_attrs, struct compress_params),
				 .infer = compress_infer,
				 .flags = OP_RUN_SHAPES | OP_PASSES},
				OLD("Compress", 11, T_ALL_OLD),
				OLD("Compress", 9, T_ALL_OLD),
				{.name = "TensorScatter",
				 .since = 24,
				 .in = tensor_scatter_in,
				 .out = present_out,
				 .types = T_ALL_24,
				 ATTRS(tensor_scatter_attrs, struct tensor_scatter_params),
				 .infer = tensor_scatter_infer},
				{.name = "GatherND",
				 MICROSOFT,
				 .in = ms_gather_nd_in,
				 .out = ms_gather_nd_out,
				 .expand = "output = GatherND(data, Cast(indices) {to=7})",
				 .flags = OP_PASSES},
				{.name = "TorchEmbedding",
				 MICROSOFT,
				 .in = embedding_in,
				 .out = embedding_out,
				 .expand = "Y = Gather(weight, indices)"},
				{0}};
