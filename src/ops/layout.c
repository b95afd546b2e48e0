/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that reorder elements or change the shape without changing elements. */
#include "ops/layout.h"

#include "ops/infer_util.h"
#include "ops/ints.h"

#include <inttypes.h>

/* ---- Reshape ---------------------------------------------------------------------------------- */

/*
 * Computes the size of dimension number `hole` of the target, which is -1 there: the product of the input dims
 * divided by the product of the other target dims. Equal symbols of input and target cancel. The bits of `taken` mark
 * input dims that a 0 in the target copies, the bits of `given` mark the target dims that are such copies. *bad is
 * set if no size fits.
 */
static int64_t reshape_rest(struct model *m, const struct shape *in, const struct shape *to,
			    int hole, uint32_t taken, uint32_t given, bool *bad)
{
	int64_t have = 1, want = 1, sym = 0, base[MAX_RANK] = {0};
	uint32_t used = given;
	bool over = false;

	for (int i = 0; i < to->rank; i++)
		if (i != hole && !(given & 1u << i))
			want = dim_mul(want, dim_parts(m, to->dim[i], &base[i]), &over);
	for (int i = 0; i < in->rank; i++) {
		int64_t from = 0;
		int k = 0;
		if (taken & 1u << i)
			continue;
		have = dim_mul(have, dim_parts(m, in->dim[i], &from), &over);
		if (!from)
			continue;
		while (k < to->rank &&
		       (used & 1u << k || k == hole || base[k] != from || !dim_is_sym(from)))
			k++;
		if (k < to->rank)
			used |= 1u << k;
		else if (sym)
			return DIM_UNKNOWN;
		else
			sym = from;
	}
	for (int k = 0; k < to->rank; k++)
		if (k != hole && base[k] && !(used & 1u << k))
			return DIM_UNKNOWN;
	if (over || (sym && !want))
		return DIM_UNKNOWN;
	if (sym)
		return have % want ? DIM_UNKNOWN : dim_times(m, sym, have / want);
	if (!want || have % want) {
		*bad = want || have;
		return *bad ? DIM_UNKNOWN : 0;
	}
	return have / want;
}

static int reshape_fail(const struct infer *c, const struct shape *in, const struct int_list *l)
{
	struct shape to = {.rank = l->n};

	for (int i = 0; i < l->n; i++)
		to.dim[i] = l->v[i] < 0 ? DIM_UNKNOWN : l->v[i];
	return infer_fail(c, E_SHAPE, 1,
			  fmt(c->diag, "a shape of as many elements as %s", infer_shape_text(c, in)),
			  infer_shape_text(c, &to));
}

/*
 * Computes the output shape from the target list, in which 0 copies a dim of the input and -1 stands for a dim to
 * compute.
 */
static int reshape_target(struct infer *c, const struct shape *in, const struct int_list *l,
			  struct shape *out)
{
	const struct reshape_params *p = infer_params(c);
	uint32_t taken = 0, given = 0;
	int hole = -1, holes = 0;
	bool bad = false;

	out->rank = l->n;
	for (int i = 0; i < l->n; i++) {
		out->dim[i] = l->v[i];
		if (l->v[i] == -1) {
			hole = i;
			holes++;
		} else if (l->v[i] < -1 && l->exact) {
			return infer_fail(c, E_VALUE, 1, "sizes, 0 or -1",
					  fmt(c->diag, "%" PRId64, l->v[i]));
		} else if (!l->v[i] && !p->allowzero) {
			if (in->rank >= 0 && i >= in->rank)
				return infer_fail(c, E_VALUE, 1,
						  fmt(c->diag, "0 only below rank %d", in->rank),
						  fmt(c->diag, "0 at dimension %d", i));
			out->dim[i] = in->rank < 0 ? DIM_UNKNOWN : in->dim[i];
			if (in->rank >= 0) {
				taken |= 1u << i;
				given |= 1u << i;
			}
		}
	}
	if (holes > 1 && l->exact)
		return infer_fail(c, E_VALUE, 1, "at most one -1", fmt(c->diag, "%d", holes));
	if (in->rank < 0)
		return 0;
	if (holes == 1)
		out->dim[hole] = reshape_rest(c->model, in, out, hole, taken, given, &bad);
	else if (!holes && shape_known(in) && shape_known(out))
		bad = shape_count(in) != shape_count(out);
	return bad ? reshape_fail(c, in, l) : 0;
}

static int reshape_infer(struct infer *c)
{
	struct shape in = infer_shape(c, 0), out = SHAPE_UNKNOWN, n = infer_shape(c, 1);
	struct int_list l;
	int err = 0;

	if (infer_list(c, 1, &l)) {
		if (l.n > MAX_RANK)
			return infer_fail(c, E_RANK, 1, fmt(c->diag, "at most %d", MAX_RANK),
					  fmt(c->diag, "%d", l.n));
		err = reshape_target(c, &in, &l, &out);
		if (!err && c->concrete && !shape_known(&out))
			infer_value(c, 1);
	} else if (n.rank == 1 && n.dim[0] >= 0 && n.dim[0] <= MAX_RANK) {
		out.rank = (int)n.dim[0];
		for (int i = 0; i < out.rank; i++)
			out.dim[i] = DIM_UNKNOWN;
	}
	if (err)
		return err;
	infer_set(c, 0, infer_dtype(c, 0), &out);
	infer_pass_ints(c);
	return 0;
}

struct reshape1_params {
	struct ints consumed_inputs, shape;
};

static int reshape1_upgrade(struct edit *e)
{
	const struct reshape1_params *old = e->node->params;

	edit_params(e);
	edit_const_ints(e, 1, old->shape.v, old->shape.n < 0 ? 0 : old->shape.n);
	return 0;
}

/* The old version lacks the newest attributes; with their defaults the newest version means the same. */
static int upgrade_defaults(struct edit *e)
{
	edit_params(e);
	return 0;
}

/* ---- Flatten, Squeeze, Unsqueeze, Transpose --------------------------------------------------- */

static int flatten_infer(struct infer *c)
{
	const struct flatten_params *p = infer_params(c);
	struct shape in = infer_shape(c, 0), out = {.rank = 2, .dim = {DIM_UNKNOWN, DIM_UNKNOWN}};

	if (in.rank >= 0) {
		int64_t a = p->axis < 0 ? p->axis + in.rank : p->axis;
		if (a < 0 || a > in.rank)
			return infer_fail(c, E_OP_ATTRIBUTE, 0,
					  fmt(c->diag, "axis within rank %d", in.rank),
					  fmt(c->diag, "axis %" PRId64, p->axis));
		out.dim[0] = dim_product(&in, 0, (int)a);
		out.dim[1] = dim_product(&in, (int)a, in.rank);
	}
	infer_set(c, 0, infer_dtype(c, 0), &out);
	return 0;
}

static int squeeze_infer(struct infer *c)
{
	struct shape in = infer_shape(c, 0), out = SHAPE_UNKNOWN;
	struct int_list axes = {0};
	uint32_t mask = 0;
	bool all = !infer_in(c, 1), some = all;

	if (!all && infer_exact(c, 1, &axes))
		some = true;
	if (in.rank >= 0 && some) {
		int err = infer_axes(c, 1, in.rank, &axes, &mask);
		if (err)
			return err;
		out.rank = 0;
		for (int i = 0; i < in.rank; i++) {
			bool named = mask & 1u << i;
			if (named && in.dim[i] >= 0 && in.dim[i] != 1)
				return infer_fail(c, E_SHAPE, 0, fmt(c->diag, "1 in dimension %d", i),
						  fmt(c->diag, "%" PRId64, in.dim[i]));
			if (all && in.dim[i] < 0) {
				out = SHAPE_UNKNOWN; /* a dim of 1 is dropped and any other stays, so the rank is unknown */
				break;
			}
			if (!named && !(all && in.dim[i] == 1))
				out.dim[out.rank++] = in.dim[i];
		}
	}
	infer_set(c, 0, infer_dtype(c, 0), &out);
	infer_pass_ints(c);
	return 0;
}

static int unsqueeze_infer(struct infer *c)
{
	struct shape in = infer_shape(c, 0), out = SHAPE_UNKNOWN;
	struct int_list axes;
	uint32_t mask;

	if (in.rank >= 0 && infer_exact(c, 1, &axes)) {
		out.rank = in.rank + axes.n;
		if (out.rank > MAX_RANK)
			return infer_fail(c, E_RANK, 0, fmt(c->diag, "at most %d", MAX_RANK),
					  fmt(c->diag, "%d", out.rank));
		int err = infer_axes(c, 1, out.rank, &axes, &mask);
		if (err)
			return err;
		for (int i = 0, k = 0; i < out.rank; i++)
			out.dim[i] = mask & 1u << i ? 1 : in.dim[k++];
	}
	infer_set(c, 0, infer_dtype(c, 0), &out);
	infer_pass_ints(c);
	return 0;
}

struct axes_params {
	struct ints axes;
};

static int axes_upgrade(struct edit *e)
{
	const struct axes_params *old = e->node->params;

	edit_params(e);
	if (old->axes.n >= 0)
		edit_const_ints(e, 1, old->axes.v, old->axes.n);
	return 0;
}

/* A list as text, such as "[0,2,1]". */
static const char *ints_text(const struct infer *c, const struct ints *v)
{
	struct shape s = {.rank = v->n < MAX_RANK ? (int)v->n : MAX_RANK};

	for (int i = 0; i < s.rank; i++)
		s.dim[i] = v->v[i];
	return infer_shape_text(c, &s);
}

static int transpose_infer(struct infer *c)
{
	const struct transpose_params *p = infer_params(c);
	struct shape in = infer_shape(c, 0), out = in;
	struct int_list perm = {.exact = true};
	uint32_t mask;

	if (p->perm.n >= 0 && in.rank >= 0 && p->perm.n != in.rank)
		return infer_fail(c, E_OP_ATTRIBUTE, 0,
				  fmt(c->diag, "rank %" PRId64 ", as perm has", p->perm.n),
				  fmt(c->diag, "rank %d", in.rank));
	if (in.rank < 0 && p->perm.n >= 0 && p->perm.n <= MAX_RANK) {
		out.rank = (int)p->perm.n;
		for (int i = 0; i < out.rank; i++)
			out.dim[i] = DIM_UNKNOWN;
	} else if (in.rank >= 0 && p->perm.n < 0) {
		for (int i = 0; i < in.rank; i++)
			out.dim[i] = in.dim[in.rank - 1 - i];
	} else if (in.rank >= 0) {
		perm.n = in.rank;
		for (int i = 0; i < in.rank; i++)
			perm.v[i] = p->perm.v[i];
		struct infer quiet = *c;
		quiet.diag = NULL;
		if (infer_axes(&quiet, -1, in.rank, &perm, &mask))
			return infer_fail(c, E_OP_ATTRIBUTE, -1,
					  fmt(c->diag, "a perm with each axis from 0 to %d once",
					      in.rank - 1),
					  fmt(c->diag, "perm %s", ints_text(c, &p->perm)));
		for (int i = 0; i < in.rank; i++)
			out.dim[i] = in.dim[perm.v[i]];
	}
	infer_set(c, 0, infer_dtype(c, 0), &out);
	return 0;
}

/* ---- Expand, Tile, Concat ---------------------------------------------------------------------- */

static int expand_infer(struct infer *c)
{
	struct shape in = infer_shape(c, 0), to = SHAPE_UNKNOWN, out, n = infer_shape(c, 1);
	struct int_list l;

	if (infer_list(c, 1, &l) && l.n <= MAX_RANK) {
		to.rank = l.n;
		for (int i = 0; i < l.n; i++) {
			/* ONNX does not allow -1, but exporters write it for a dimension that stays */
			to.dim[i] = l.exact && l.v[i] == -1 ? 1 : l.v[i];
			if (l.exact && l.v[i] < -1)
				return infer_fail(c, E_VALUE, 1, "sizes",
						  fmt(c->diag, "%" PRId64, l.v[i]));
		}
	} else if (n.rank == 1 && n.dim[0] >= 0 && n.dim[0] <= MAX_RANK) {
		to.rank = (int)n.dim[0];
		for (int i = 0; i < to.rank; i++)
			to.dim[i] = DIM_UNKNOWN;
	}
	if (!shape_broadcast(&in, &to, &out))
		return infer_fail(
			c, E_SHAPE, 1,
			fmt(c->diag, "a shape that broadcasts with %s", infer_shape_text(c, &in)),
			infer_shape_text(c, &to));
	/*
	 * An unknown target dim may be 1 or anything: the output dim is known only if the input's is 2 or more. A plan waits
	 * for the target even then, as one that does not fit would go unseen.
	 */
	for (int i = 0; to.rank >= 0 && i < out.rank; i++) {
		int k = i - (out.rank - to.rank), j = i - (out.rank - in.rank);
		if (k >= 0 && to.dim[k] == DIM_UNKNOWN && (c->concrete || j < 0 || in.dim[j] < 2))
			out.dim[i] = DIM_UNKNOWN;
	}
	if (c->concrete && !shape_known(&out))
		infer_value(c, 1);
	infer_set(c, 0, infer_dtype(c, 0), &out);
	return 0;
}

static int tile_infer(struct infer *c)
{
	struct shape in = infer_shape(c, 0), out = in;
	struct int_list rep;
	bool over = false, known = infer_list(c, 1, &rep);

	if (in.rank < 0 && known && rep.n <= MAX_RANK) {
		out.rank = rep.n;
		for (int i = 0; i < rep.n; i++)
			out.dim[i] = DIM_UNKNOWN;
	} else if (in.rank >= 0) {
		if (known && rep.n != in.rank)
			return infer_fail(c, E_SHAPE, 1, fmt(c->diag, "%d repeats", in.rank),
					  fmt(c->diag, "%d", rep.n));
		for (int i = 0; i < in.rank; i++) {
			if (known && rep.exact && rep.v[i] < 0)
				return infer_fail(c, E_VALUE, 1, "repeats of 0 or more",
						  fmt(c->diag, "%" PRId64, rep.v[i]));
			out.dim[i] = known ? dim_mul(in.dim[i], rep.v[i], &over) : DIM_UNKNOWN;
		}
	}
	if (over)
		return infer_fail(c, E_SIZE, -1, NULL, NULL);
	if (c->concrete && known && !rep.exact)
		infer_value(c, 1);
	infer_set(c, 0, infer_dtype(c, 0), &out);
	return 0;
}

static const struct field no_attrs[] = {{0}};

/* Tile of opset 1 has two scalar inputs of the type of X: the number of repetitions, and the axis. */
static int tile1_upgrade(struct edit *e)
{
	int rank = edit_rank(e, 0);
	const struct value *tiles = node_in(e->graph, e->node, 1),
			   *axis = node_in(e->graph, e->node, 2);

	if (rank < 0 || !tiles || !axis || !tiles->init || !axis->init ||
	    tensor_count(tiles->init) != 1 || tensor_count(axis->init) != 1)
		return edit_fail(e, E_OP_UNSUPPORTED, "constant tiles and axis, and a known rank",
				 "other");
	int64_t rep[MAX_RANK];
	int64_t n = elem_i64(tensor_dtype(tiles->init), tiles->init->data, 0);
	int a = axis_of(elem_i64(tensor_dtype(axis->init), axis->init->data, 0), rank);
	if (a < 0)
		return edit_fail(e, E_VALUE, "an axis within the rank", "other");
	for (int i = 0; i < rank; i++)
		rep[i] = i == a ? n : 1;
	uint32_t x = e->node->in[0];
	node_set_ins(e->graph, e->node, &x, 1);
	edit_params(e);
	edit_const_ints(e, 1, rep, rank);
	return 0;
}

/* Records the concatenated elements if all inputs are integer lists whose elements are known. */
static void concat_ints(struct infer *c)
{
	struct int_list all = {.exact = true}, l;
	enum dtype t = infer_dtype(c, 0);

	if (t != DT_I64 && t != DT_I32)
		return;
	for (uint32_t i = 0; i < c->node->nin; i++) {
		if (!list_of_info(infer_in(c, i), &l) || all.n + l.n > MAX_RANK)
			return;
		for (int k = 0; k < l.n; k++) {
			if (l.exact && l.v[k] < -1)
				return;
			all.v[all.n++] = l.v[k];
		}
		all.exact &= l.exact;
	}
	all.exact = false; /* the value -1 reads as an unknown element, so the list is not exact */
	infer_give_ints(c, 0, &all);
}

static int concat_dims(const struct infer *c, struct shape *out, int axis)
{
	bool over = false;

	for (uint32_t i = 1; i < c->node->nin; i++) {
		struct shape s = infer_shape(c, i);
		if (s.rank != out->rank)
			return infer_fail(c, E_SHAPE, (int)i, fmt(c->diag, "rank %d", out->rank),
					  fmt(c->diag, "rank %d", s.rank));
		for (int k = 0; k < s.rank; k++) {
			int err = 0;
			if (k == axis)
				out->dim[k] = dim_add(out->dim[k], s.dim[k], &over);
			else
				err = infer_unify(c, (int)i, out->dim[k], s.dim[k], &out->dim[k]);
			if (err)
				return err;
		}
	}
	return over ? infer_fail(c, E_SIZE, -1, NULL, NULL) : 0;
}

static int concat_infer(struct infer *c)
{
	const struct concat_params *p = infer_params(c);
	struct shape out = infer_shape(c, 0);
	int axis, err;

	for (uint32_t i = 0; i < c->node->nin; i++) {
		if (infer_shape(c, i).rank < 0) {
			infer_set(c, 0, infer_dtype(c, 0), &SHAPE_UNKNOWN);
			return 0;
		}
	}
	err = infer_axis(c, 0, p->axis, &axis);
	if (!err)
		err = concat_dims(c, &out, axis);
	if (err)
		return err;
	infer_set(c, 0, infer_dtype(c, 0), &out);
	if (out.rank == 1)
		concat_ints(c);
	return 0;
}

/* ---- Shape, Size --------------------------------------------------------------------------------- */

static int shape_infer(struct infer *c)
{
	const struct shape_params *p = infer_params(c);
	struct shape in = infer_shape(c, 0), out = {.rank = 1, .dim = {DIM_UNKNOWN}}, ints = {0};

	if (in.rank < 0) {
		infer_set(c, 0, DT_I64, &out);
		return 0;
	}
	int64_t r = in.rank, from = p->start, to = p->end == INT_ABSENT ? r : p->end;
	from = from < -r ? 0 : from < 0 ? from + r : from > r ? r : from;
	to = to < -r ? 0 : to < 0 ? to + r : to > r ? r : to;
	for (int64_t i = from; i < to; i++)
		ints.dim[ints.rank++] = in.dim[i];
	out.dim[0] = ints.rank;
	infer_set(c, 0, DT_I64, &out);
	infer_set_ints(c, 0, &ints);
	return 0;
}

static int size_infer(struct infer *c)
{
	struct shape in = infer_shape(c, 0), out = {0}, ints = {.rank = 1};

	infer_set(c, 0, DT_I64, &out);
	if (in.rank >= 0) {
		ints.dim[0] = dim_product(&in, 0, in.rank);
		infer_set_ints(c, 0, &ints);
	}
	return 0;
}

/* ---- DepthToSpace, SpaceToDepth -------------------------------------------------------------------- */

static int check_block(struct infer *c, int64_t *b, struct shape *s)
{
	const struct depth_params *p = infer_params(c);

	*s = infer_shape(c, 0);
	*b = p->blocksize;
	if (s->rank >= 0 && s->rank != 4)
		return infer_fail(c, E_SHAPE, 0, "rank 4", fmt(c->diag, "rank %d", s->rank));
	if (*b < 1 || *b > 1 << 20)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "blocksize of 1 or more",
				  fmt(c->diag, "%" PRId64, *b));
	return 0;
}

static int divide_dim(const struct infer *c, int64_t *dim, int64_t by)
{
	if (*dim >= 0 && *dim % by)
		return infer_fail(c, E_SHAPE, 0, fmt(c->diag, "a multiple of %" PRId64, by),
				  fmt(c->diag, "%" PRId64, *dim));
	*dim = *dim >= 0 ? *dim / by : by == 1 ? *dim : DIM_UNKNOWN;
	return 0;
}

static int depth_to_space_infer(struct infer *c)
{
	struct shape s;
	int64_t b;
	bool over = false;
	int err = check_block(c, &b, &s);

	if (!err && s.rank == 4) {
		err = divide_dim(c, &s.dim[1], b * b);
		s.dim[2] = dim_mul(s.dim[2], b, &over);
		s.dim[3] = dim_mul(s.dim[3], b, &over);
	}
	if (!err)
		infer_set(c, 0, infer_dtype(c, 0), &s);
	return err ? err : over ? infer_fail(c, E_SIZE, -1, NULL, NULL) : 0;
}

static int space_to_depth_infer(struct infer *c)
{
	struct shape s;
	int64_t b;
	bool over = false;
	int err = check_block(c, &b, &s);

	if (!err && s.rank == 4) {
		s.dim[1] = dim_mul(s.dim[1], b * b, &over);
		err = divide_dim(c, &s.dim[2], b);
		if (!err)
			err = divide_dim(c, &s.dim[3], b);
	}
	if (!err)
		infer_set(c, 0, infer_dtype(c, 0), &s);
	return err ? err : over ? infer_fail(c, E_SIZE, -1, NULL, NULL) : 0;
}

/* ---- the rows ---------------------------------------------------------------------------------------- */

static const struct slot data_in[] = {{.name = "data", .tvar = "T", .types = T_ALL}, SLOT_END};
static const struct slot input_in[] = {{.name = "input", .tvar = "T", .types = T_ALL}, SLOT_END};
static const struct slot output_out[] = {{.name = "output", .tvar = "T", .types = T_ALL}, SLOT_END};
static const struct slot reshape_in[] = {{.name = "data", .tvar = "T", .types = T_ALL},
					 {.name = "shape", .types = T_I64, .dims = "_"},
					 SLOT_END};
static const struct slot expand_in[] = {{.name = "input", .tvar = "T", .types = T_ALL},
					{.name = "shape", .types = T_I64, .dims = "_"},
					SLOT_END};
static const struct slot tile_in[] = {{.name = "input", .tvar = "T", .types = T_ALL},
				      {.name = "repeats", .types = T_I64, .dims = "_"},
				      SLOT_END};
static const struct slot tile1_in[] = {{.name = "input", .tvar = "T", .types = T_FLOATS},
				       {.name = "tiles", .types = T_FLOATS | T_INTS, .dims = "() | 1"},
				       {.name = "axis", .types = T_FLOATS | T_INTS, .dims = "() | 1"},
				       SLOT_END};
static const struct slot squeeze_in[] = {
	{.name = "data", .tvar = "T", .types = T_ALL},
	{.name = "axes", .types = T_I64, .optional = true, .dims = "_"},
	SLOT_END};
static const struct slot unsqueeze_in[] = {{.name = "data", .tvar = "T", .types = T_ALL},
					   {.name = "axes", .types = T_I64, .dims = "() | _"},
					   SLOT_END};
static const struct slot concat_in[] = {
	{.name = "inputs", .tvar = "T", .types = T_ALL, .variadic = true}, SLOT_END};
static const struct slot i64_out[] = {{.name = "shape", .types = T_I64}, SLOT_END};
static const struct slot size_out[] = {{.name = "size", .types = T_I64}, SLOT_END};

static const struct field reshape_attrs[] = {FIELD(struct reshape_params, allowzero, F_INT, "0",
						   "0 in shape means 0, not the input's size"),
					     {0}};
static const struct field reshape1_attrs[] = {
	FIELD(struct reshape1_params, consumed_inputs, F_INTS, NULL, "legacy"),
	FIELD(struct reshape1_params, shape, F_INTS, NULL, "new shape"),
	{0}};
static const struct field flatten_attrs[] = {
	FIELD(struct flatten_params, axis, F_INT, "1", "first axis of the second dimension"), {0}};
static const struct field transpose_attrs[] = {
	FIELD(struct transpose_params, perm, F_INTS, NULL,
	      "input axis of each output axis; default reversed"),
	{0}};
static const struct field axes_attrs[] = {FIELD(struct axes_params, axes, F_INTS, NULL, "axes"), {0}};
static const struct field concat_attrs[] = {
	FIELD_REQ(struct concat_params, axis, F_INT, "axis to concatenate along"), {0}};
static const struct field concat1_attrs[] = {
	FIELD(struct concat_params, axis, F_INT, "1", "axis to concatenate along"), {0}};
static const struct field shape_attrs[] = {
	FIELD(struct shape_params, start, F_INT, "0", "first axis"),
	FIELD(struct shape_params, end, F_INT, NULL, "axis to stop before"),
	{0}};
static const struct field depth_attrs[] = {
	FIELD_REQ(struct depth_params, blocksize, F_INT, "edge of a block"),
	FIELD_ENUM(struct depth_params, mode, "DCR", "DCR|CRD", "order of depth, column and row"),
	{0}};
static const struct field depth1_attrs[] = {
	FIELD_REQ(struct depth_params, blocksize, F_INT, "edge of a block"), {0}};

static int concat1_upgrade(struct edit *e)
{
	int64_t axis = ((const struct concat_params *)e->node->params)->axis;

	((struct concat_params *)edit_params(e))->axis = axis;
	return 0;
}

static int depth1_upgrade(struct edit *e)
{
	int64_t b = ((const struct depth_params *)e->node->params)->blocksize;

	((struct depth_params *)edit_params(e))->blocksize = b;
	return 0;
}

static const struct slot operands_in[] = {
	{.name = "operands", .types = T_ALL, .variadic = true, .heterogeneous = true}, SLOT_END};
static const struct slot operands_out[] = {SLOT("first", NULL, T_ALL), SLOT_END};
static const struct field operands_attrs[] = {
	FIELD(struct operands, node, F_INT, "0", "number of the node"), {0}};

/* Checks the operands as the node's own row does. */
static int operands_infer(struct infer *c)
{
	const struct operands *p = infer_params(c);
	uint32_t in[MAX_OPERANDS];
	struct node n = *c->node;
	struct infer as = *c;
	struct shape x = infer_shape(c, 0);
	enum dtype t = infer_dtype(c, 0);

	for (uint32_t i = 0; i < p->nin; i++)
		in[i] = NO_VALUE;
	for (uint32_t i = 0; i < c->node->nin; i++)
		in[p->at[i]] = c->node->in[i];
	n.op = p->op;
	n.params = (void *)(uintptr_t)p->params;
	n.in = in;
	n.nin = p->nin;
	n.nout = 0;
	as.node = &n;
	const struct op op = op_resolved(p->op);
	int err = infer_types(&as);
	if (!err && op.infer)
		err = op.infer(&as);
	infer_set(c, 0, t, &x);
	return err;
}

#define T_SAMPLE (T_U32 | T_U64 | T_I32 | T_I64 | T_FLOATS)
static const struct slot sample_in[] = {SLOT("X", "T", T_SAMPLE), SLOT_END};
static const struct slot sample_out[] = {SLOT("Y", "T", T_SAMPLE), SLOT_END};
static const struct slot expand_dims_in[] = {
	{.name = "X", .tvar = "T", .types = T_ALL}, {.name = "axis", .types = T_I32}, SLOT_END};
static const struct slot expand_dims_out[] = {{.name = "Y", .tvar = "T", .types = T_ALL}, SLOT_END};

/* Rows of opsets 21 to 24, which differ in their types only. */
#define OLD_24_TO_21(name_)                                                                        \
	OLD(name_, 24, T_ALL_24), OLD(name_, 23, T_ALL_23), OLD(name_, 21, T_ALL_21)
/* Old versions without attributes; the newest version means the same if its attributes have their defaults. */
#define BARE_OLD(name_, since_, in_, out_, types_)                                                 \
	{                                                                                          \
		.name = (name_), .since = (since_), .in = (in_), .out = (out_), .types = (types_), \
		.attrs = no_attrs, .upgrade = upgrade_defaults                                     \
	}
#define AXES_OLD(name_, since_)                                                                    \
	{                                                                                          \
		.name = (name_), .since = (since_), .in = data_in, .out = output_out,              \
		.types = T_ALL_OLD, ATTRS(axes_attrs, struct axes_params), .upgrade = axes_upgrade \
	}
#define DEPTH_OLD(name_, since_, types_)                                                           \
	{                                                                                          \
		.name = (name_), .since = (since_), .in = input_in, .out = output_out,             \
		.types = (types_), ATTRS(depth1_attrs, struct depth_params),                       \
		.upgrade = depth1_upgrade                                                          \
	}

/* ---- UnfoldTensor --------------------------------------------------------------------------------- */

struct unfold {
	int64_t dim, size, step;
};
static const struct slot unfold_in[] = {{.name = "input", .tvar = "T", .types = T_ALL_13}, SLOT_END};
static const struct slot unfold_out[] = {{.name = "output", .tvar = "T", .types = T_ALL_13}, SLOT_END};
static const struct field unfold_attrs[] = {
	FIELD(struct unfold, dim, F_INT, "-1", "dimension that is unfolded"),
	FIELD_REQ(struct unfold, size, F_INT, "elements of a slice"),
	FIELD(struct unfold, step, F_INT, "1", "distance of the slices"),
	{0}};

static int unfold_infer(struct infer *c)
{
	const struct unfold *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = x;
	int axis, err = infer_axis(c, 0, p->dim, &axis);

	if (err || x.rank < 0)
		return err;
	if (x.rank == 0 || x.rank == MAX_RANK)
		return infer_fail(c, E_SHAPE, 0, fmt(c->diag, "rank 1 to %d", MAX_RANK - 1),
				  fmt(c->diag, "rank %d", x.rank));
	if (p->size < 1 || p->step < 1 || (x.dim[axis] >= 0 && p->size > x.dim[axis]))
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  "a positive step, and a size within the dimension",
				  fmt(c->diag, "step %" PRId64 ", size %" PRId64, p->step, p->size));
	y.dim[axis] = x.dim[axis] >= 0 ? (x.dim[axis] - p->size) / p->step + 1 : DIM_UNKNOWN;
	y.dim[y.rank++] = p->size;
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

/* Gathers the slices along the dimension, and moves their elements, which lie behind it then, to the end. */
static const char *unfold_text(const struct graph *g, const struct node *n)
{
	const struct unfold *p = n->params;
	const struct shape *x = &node_in(g, n, 0)->info.shape;
	int axis = x->rank > 0 ? axis_of(p->dim, x->rank) : -1;
	const char *perm = "";

	if (axis < 0 || x->rank == MAX_RANK)
		return NULL;
	for (int i = 0; i <= x->rank; i++)
		perm = arena_printf(g->arena, "%s%s%d", perm, i ? "," : "",
				    i == x->rank ? axis + 1
				    : i > axis	 ? i + 1
						 : i);
	return arena_printf(
		g->arena,
		"n = Add(Div(Sub(Shape(input) {start=%d, end=%d}, $size), $step), 1); "
		"starts = Mul(Range(0, Squeeze(n), 1), $step); "
		"at = Add(Unsqueeze(starts, [1]), Unsqueeze(Range(0, Squeeze(Add(Mul(n, 0), $size)), 1), [0])); "
		"output = Transpose(Gather(input, at) {axis=%d}) {perm=[%s]}",
		axis, axis + 1, axis, perm);
}

const struct op ops_layout[] = {
	{.name = "Reshape",
	 .since = 25,
	 .reduced = REDUCED_MOVES,
	 .in = reshape_in,
	 .out = output_out,
	 ATTRS(reshape_attrs, struct reshape_params),
	 .infer = reshape_infer,
	 .flags = OP_VIEW | OP_PASSES},
	OLD_24_TO_21("Reshape"),
	OLD("Reshape", 19, T_ALL_19),
	OLD("Reshape", 14, T_ALL_13),
	BARE_OLD("Reshape", 13, reshape_in, output_out, T_ALL_13),
	BARE_OLD("Reshape", 5, reshape_in, output_out, T_ALL_OLD),
	{.name = "Reshape",
	 .since = 1,
	 .in = data_in,
	 .out = output_out,
	 .types = T_FLOATS,
	 ATTRS(reshape1_attrs, struct reshape1_params),
	 .upgrade = reshape1_upgrade},
	{.name = "Flatten",
	 .since = 25,
	 .reduced = REDUCED_MOVES,
	 .in = input_in,
	 .out = output_out,
	 ATTRS(flatten_attrs, struct flatten_params),
	 .infer = flatten_infer,
	 .flags = OP_VIEW | OP_PASSES},
	OLD_24_TO_21("Flatten"),
	OLD("Flatten", 13, T_ALL_13),
	OLD("Flatten", 11, T_ALL_OLD),
	OLD("Flatten", 9, T_ALL_OLD),
	OLD("Flatten", 1, T_FLOATS),
	{.name = "Squeeze",
	 .since = 25,
	 .reduced = REDUCED_MOVES,
	 .in = squeeze_in,
	 .out = output_out,
	 .infer = squeeze_infer,
	 .flags = OP_VIEW | OP_PASSES},
	OLD_24_TO_21("Squeeze"),
	OLD("Squeeze", 13, T_ALL_13),
	AXES_OLD("Squeeze", 11),
	AXES_OLD("Squeeze", 1),
	{.name = "Unsqueeze",
	 .since = 25,
	 .reduced = REDUCED_MOVES,
	 .in = unsqueeze_in,
	 .out = output_out,
	 .infer = unsqueeze_infer,
	 .flags = OP_VIEW | OP_PASSES},
	OLD_24_TO_21("Unsqueeze"),
	OLD("Unsqueeze", 13, T_ALL_13),
	AXES_OLD("Unsqueeze", 11),
	AXES_OLD("Unsqueeze", 1),
	{.name = "Operands",
	 .domain = "infer",
	 .since = 1,
	 .in = operands_in,
	 .out = operands_out,
	 ATTRS(operands_attrs, struct operands),
	 .infer = operands_infer,
	 .flags = OP_VIEW | OP_INTERNAL},
	{.name = "SampleOp", MICROSOFT, .in = sample_in, .out = sample_out, .expand = "Y = Identity(X)"},
	{.name = "ExpandDims",
	 MICROSOFT,
	 .in = expand_dims_in,
	 .out = expand_dims_out,
	 .expand = "Y = Unsqueeze(X, Reshape(Cast(axis) {to=7}, [1]))",
	 .flags = OP_PASSES},
	{.name = "Transpose",
	 .since = 25,
	 .reduced = REDUCED_MOVES,
	 .in = data_in,
	 .out = output_out,
	 ATTRS(transpose_attrs, struct transpose_params),
	 .infer = transpose_infer,
	 .flags = OP_PASSES},
	OLD_24_TO_21("Transpose"),
	OLD("Transpose", 13, T_ALL_13),
	OLD("Transpose", 1, T_ALL_OLD),
	{.name = "Expand",
	 .since = 13,
	 .reduced = REDUCED_MOVES,
	 .in = expand_in,
	 .out = output_out,
	 .types = T_ALL_13,
	 .infer = expand_infer,
	 .flags = OP_PASSES},
	OLD("Expand", 8, T_ALL_OLD),
	{.name = "Tile",
	 .since = 13,
	 .reduced = REDUCED_MOVES,
	 .in = tile_in,
	 .out = output_out,
	 .types = T_ALL_13,
	 .infer = tile_infer,
	 .flags = OP_PASSES},
	OLD("Tile", 6, T_ALL_OLD),
	{.name = "Tile",
	 .since = 1,
	 .in = tile1_in,
	 .out = output_out,
	 .attrs = no_attrs,
	 .upgrade = tile1_upgrade},
	{.name = "Concat",
	 .since = 13,
	 .reduced = REDUCED_MOVES,
	 .in = concat_in,
	 .out = output_out,
	 .types = T_ALL_13,
	 ATTRS(concat_attrs, struct concat_params),
	 .infer = concat_infer,
	 .flags = OP_PASSES},
	OLD("Concat", 11, T_ALL_OLD),
	OLD("Concat", 4, T_ALL_OLD),
	{.name = "Concat",
	 .since = 1,
	 .in = concat_in,
	 .out = output_out,
	 .types = T_FLOATS,
	 ATTRS(concat1_attrs, struct concat_params),
	 .upgrade = concat1_upgrade},
	{.name = "Shape",
	 .since = 25,
	 .in = data_in,
	 .out = i64_out,
	 ATTRS(shape_attrs, struct shape_params),
	 .infer = shape_infer},
	OLD_24_TO_21("Shape"),
	OLD("Shape", 19, T_ALL_19),
	OLD("Shape", 15, T_ALL_13),
	BARE_OLD("Shape", 13, data_in, i64_out, T_ALL_13),
	BARE_OLD("Shape", 1, data_in, i64_out, T_ALL_OLD),
	{.name = "Size", .since = 25, .in = data_in, .out = size_out, .infer = size_infer},
	OLD_24_TO_21("Size"),
	OLD("Size", 19, T_ALL_19),
	OLD("Size", 13, T_ALL_13),
	OLD("Size", 1, T_ALL_OLD),
	{.name = "DepthToSpace",
	 .since = 28,
	 .reduced = REDUCED_MOVES,
	 .in = input_in,
	 .out = output_out,
	 ATTRS(depth_attrs, struct depth_params),
	 .infer = depth_to_space_infer,
	 .flags = OP_PASSES},
	OLD("DepthToSpace", 13, T_ALL_13),
	OLD("DepthToSpace", 11, T_ALL_OLD),
	DEPTH_OLD("DepthToSpace", 1, T_ALL_OLD),
	{.name = "SpaceToDepth",
	 .since = 28,
	 .reduced = REDUCED_MOVES,
	 .in = input_in,
	 .out = output_out,
	 ATTRS(depth_attrs, struct depth_params),
	 .infer = space_to_depth_infer,
	 .flags = OP_PASSES},
	DEPTH_OLD("SpaceToDepth", 13, T_ALL_13),
	DEPTH_OLD("SpaceToDepth", 1, T_ALL_OLD),
	{.name = "UnfoldTensor",
	 MICROSOFT,
	 .in = unfold_in,
	 .out = unfold_out,
	 ATTRS(unfold_attrs, struct unfold),
	 .infer = unfold_infer,
	 .expand_as = unfold_text},
	{0}};
