/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that cut out or split tensors, or pad them: Slice, Split, Pad, Trilu, ... */
#include "ops/slice.h"

#include "ops/infer_util.h"

#include <inttypes.h>

static struct shape unknown_dims(int rank)
{
	struct shape s = {.rank = rank};

	for (int i = 0; i < rank; i++)
		s.dim[i] = DIM_UNKNOWN;
	return s;
}

/* ---- Slice ------------------------------------------------------------------------------------- */

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
	return v < low ? low : v > high ? high : v;
}

static void slice_dim(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *from,
		      int64_t *len)
{
	*from = *len = 0;
	if (dim <= 0)
		return;
	start += start < 0 ? dim : 0;
	end += end < 0 ? dim : 0;
	if (step > 0) {
		start = clamp(start, 0, dim);
		end = clamp(end, 0, dim);
		*len = end > start ? (end - start - 1) / step + 1 : 0;
	} else {
		int64_t back = step == INT64_MIN ? INT64_MAX : -step;
		start = clamp(start, 0, dim - 1);
		end = clamp(end, -1, dim - 1);
		*len = start > end ? (start - end - 1) / back + 1 : 0;
	}
	*from = *len ? start : 0;
}

static const char *slice_axis(int rank, const struct int_list *axes, int k, uint32_t *seen, int *axis)
{
	*axis = axis_of(axes ? axes->v[k] : k, rank);
	if (*axis < 0)
		return "an axis lies outside the rank";
	if (*seen & 1u << *axis)
		return "an axis is named twice";
	*seen |= 1u << *axis;
	return NULL;
}

static const char *slice_counts(const struct int_list *starts, const struct int_list *ends,
				const struct int_list *axes, const struct int_list *steps)
{
	if (ends->n != starts->n)
		return "ends has another length than starts";
	if (axes && axes->n != starts->n)
		return "axes has another length than starts";
	if (steps && steps->n != starts->n)
		return "steps has another length than starts";
	return NULL;
}

const char *slice_spec(const struct shape *x, const struct int_list *starts,
		       const struct int_list *ends, const struct int_list *axes,
		       const struct int_list *steps, struct slice_spec *out)
{
	const char *bad = slice_counts(starts, ends, axes, steps);
	uint32_t seen = 0;
	int a;

	for (int i = 0; i < x->rank; i++) {
		out->from[i] = 0;
		out->step[i] = 1;
		out->len[i] = x->dim[i];
	}
	for (int k = 0; k < starts->n && !bad; k++) {
		int64_t step = steps ? steps->v[k] : 1;
		bad = slice_axis(x->rank, axes, k, &seen, &a);
		if (bad)
			break;
		if (!step)
			return "a step is 0";
		slice_dim(x->dim[a], starts->v[k], ends->v[k], step, &out->from[a], &out->len[a]);
		out->step[a] = out->len[a] > 1 ? step : 1;
	}
	return bad;
}

/* Output size of one sliced axis when sizes or bounds may be symbols; DIM_UNKNOWN if it cannot be told. */
static int64_t symbolic_slice_dim(int64_t dim, const struct int_list *starts,
				  const struct int_list *ends, int k, int64_t step)
{
	int64_t from, len, start = starts->v[k], end = ends->v[k];
	bool start_known = starts->exact || start >= 0, end_known = ends->exact || end >= 0;

	if (dim == 0)
		return 0;
	if (dim > 0 && start_known && end_known) {
		slice_dim(dim, start, end, step, &from, &len);
		return len;
	}
	if (!start_known || start || step != 1)
		return DIM_UNKNOWN;
	/*
	 * The slice is the whole axis if it ends at the largest integer, or at the axis's own symbol. Another symbol may
	 * be larger than the axis, so the size is unknown.
	 */
	if ((end_known && end >= INT32_MAX) || (!end_known && dim_is_sym(end) && end == dim))
		return dim;
	return DIM_UNKNOWN;
}

static void slice_ints(struct infer *c, const struct slice_spec *s)
{
	struct int_list in, out = {.exact = true};

	if (!list_of_info(infer_in(c, 0), &in) || in.n > MAX_RANK)
		return;
	for (int64_t k = 0; k < s->len[0]; k++)
		out.v[out.n++] = in.v[s->from[0] + k * s->step[0]];
	out.exact = in.exact;
	infer_give_ints(c, 0, &out);
}

static int slice_known(struct infer *c, const struct shape *x, const struct int_list *l,
		       bool has_axes, bool has_steps)
{
	const struct int_list *axes = has_axes ? &l[2] : NULL, *steps = has_steps ? &l[3] : NULL;
	struct shape out = *x;
	struct slice_spec spec;
	uint32_t seen = 0;
	const char *bad = slice_counts(&l[0], &l[1], axes, steps);
	int a;

	for (int k = 0; k < l[0].n && !bad; k++) {
		int64_t step = steps ? steps->v[k] : 1;
		bad = slice_axis(x->rank, axes, k, &seen, &a);
		if (!bad && !step)
			bad = "a step is 0";
		if (!bad)
			out.dim[a] = symbolic_slice_dim(x->dim[a], &l[0], &l[1], k, step);
	}
	if (bad)
		return infer_fail(c, E_VALUE, -1, "starts, ends, axes and steps that fit", bad);
	infer_set(c, 0, infer_dtype(c, 0), &out);
	if (x->rank == 1 && x->dim[0] >= 0 && l[0].exact && l[1].exact &&
	    !slice_spec(x, &l[0], &l[1], axes, steps, &spec))
		slice_ints(c, &spec);
	return 0;
}

static int slice_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), out = unknown_dims(x.rank);
	struct int_list l[4];
	bool has_axes = infer_in(c, 3), has_steps = infer_in(c, 4);
	/* read the ends even if the starts are unknown, so that both are noted as wanted */
	bool starts = infer_list(c, 1, &l[0]), ends = infer_list(c, 2, &l[1]);
	bool bounds = starts && ends;
	bool axes = !has_axes || infer_exact(c, 3, &l[2]);
	bool steps = !has_steps || infer_list(c, 4, &l[3]);

	if (has_steps && steps && !l[3].exact)
		steps = infer_exact(c, 4, &l[3]);
	if (c->concrete && bounds && (!l[0].exact || !l[1].exact)) {
		infer_exact(c, 1, &l[0]);
		infer_exact(c, 2, &l[1]);
	}
	if (x.rank >= 0 && bounds && axes && steps)
		return slice_known(c, &x, l, has_axes, has_steps);
	for (int k = 0; x.rank >= 0 && axes && has_axes && k < x.rank; k++)
		out.dim[k] = x.dim[k];
	for (int k = 0; x.rank >= 0 && axes && has_axes && k < l[2].n; k++) {
		int a = axis_of(l[2].v[k], x.rank);
		if (a >= 0)
			out.dim[a] = DIM_UNKNOWN;
	}
	infer_set(c, 0, infer_dtype(c, 0), &out);
	return 0;
}

struct slice1_params {
	struct ints axes, ends, starts;
};

static int slice1_upgrade(struct edit *e)
{
	const struct slice1_params *old = e->node->params;

	edit_params(e);
	edit_const_ints(e, 1, old->starts.v, old->starts.n);
	edit_const_ints(e, 2, old->ends.v, old->ends.n);
	if (old->axes.n >= 0)
		edit_const_ints(e, 3, old->axes.v, old->axes.n);
	return 0;
}

/* ---- Split ------------------------------------------------------------------------------------- */

int64_t split_part(int64_t dim, int64_t n, int64_t k)
{
	int64_t chunk = n < 1 ? -1 : dim / n + (dim % n != 0);

	if (chunk < 0)
		return -1;
	return k < n - 1 ? chunk : dim - chunk * (n - 1);
}

static int split_sizes(struct infer *c, struct shape *out, int axis, int64_t dim,
		       const struct int_list *l)
{
	int64_t sum = 0;

	if (l->n != (int)c->node->nout)
		return infer_fail(c, E_VALUE, 1,
				  fmt(c->diag, "%u sizes, one an output", c->node->nout),
				  fmt(c->diag, "%d", l->n));
	for (int k = 0; k < l->n; k++) {
		out->dim[axis] = l->exact			       ? l->v[k]
				 : l->v[k] >= 0 || dim_is_sym(l->v[k]) ? l->v[k]
								       : DIM_UNKNOWN;
		if (l->exact && (l->v[k] < 0 || __builtin_add_overflow(sum, l->v[k], &sum)))
			return infer_fail(c, E_VALUE, 1, "sizes", fmt(c->diag, "%" PRId64, l->v[k]));
		infer_set(c, (uint32_t)k, infer_dtype(c, 0), out);
	}
	if (l->exact && dim >= 0 && sum != dim)
		return infer_fail(c, E_VALUE, 1, fmt(c->diag, "sizes that sum to %" PRId64, dim),
				  fmt(c->diag, "%" PRId64, sum));
	return 0;
}

static int split_equal(struct infer *c, struct shape *out, int axis, int64_t dim)
{
	const struct split_params *p = infer_params(c);
	int64_t n = p->num_outputs == INT_ABSENT ? c->node->nout : p->num_outputs;

	if (n != c->node->nout)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "num_outputs = %u", c->node->nout),
				  fmt(c->diag, "%" PRId64, n));
	if (p->num_outputs == INT_ABSENT && n > 0 && dim >= 0 && dim % n)
		return infer_fail(c, E_SHAPE, 0, fmt(c->diag, "a multiple of %" PRId64, n),
				  fmt(c->diag, "%" PRId64, dim));
	for (uint32_t k = 0; k < c->node->nout; k++) {
		out->dim[axis] = dim < 0 ? (n == 1 ? dim : DIM_UNKNOWN) : split_part(dim, n, k);
		if (dim >= 0 && out->dim[axis] < 0)
			return infer_fail(c, E_SHAPE, 0,
					  fmt(c->diag, "enough for %" PRId64 " parts", n),
					  fmt(c->diag, "%" PRId64, dim));
		infer_set(c, k, infer_dtype(c, 0), out);
	}
	return 0;
}

static int split_infer(struct infer *c)
{
	const struct split_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), out = x;
	struct int_list l;
	int axis, err = infer_axis(c, 0, p->axis, &axis);

	if (err)
		return err;
	if (x.rank < 0) {
		for (uint32_t k = 0; k < c->node->nout; k++)
			infer_set(c, k, infer_dtype(c, 0), &x);
		return 0;
	}
	if (!infer_in(c, 1))
		return split_equal(c, &out, axis, x.dim[axis]);
	/* if there are more sizes than struct int_list holds, read the tensor itself */
	const struct tensor *t = infer_in(c, 1)->known;
	if (infer_list(c, 1, &l)) {
		if (c->concrete && !l.exact)
			infer_value(c, 1);
		return split_sizes(c, &out, axis, x.dim[axis], &l);
	}
	if (t && tensor_count(t) != c->node->nout)
		return infer_fail(c, E_VALUE, 1,
				  fmt(c->diag, "%u sizes, one an output", c->node->nout), NULL);
	for (uint32_t k = 0; k < c->node->nout; k++) {
		out.dim[axis] = t ? elem_i64(tensor_dtype(t), t->data, k) : DIM_UNKNOWN;
		if (t && out.dim[axis] < 0)
			return infer_fail(c, E_VALUE, 1, "sizes", NULL);
		infer_set(c, k, infer_dtype(c, 0), &out);
	}
	return 0;
}

struct split2_params {
	int64_t axis;
	struct ints split;
};

static int split2_upgrade(struct edit *e)
{
	const struct split2_params *old = e->node->params;
	struct split_params *p = edit_params(e);

	p->axis = old->axis;
	if (old->split.n >= 0)
		edit_const_ints(e, 1, old->split.v, old->split.n);
	return 0;
}

/* Split-1 may have the sizes in input 1, even as floats. */
static int split1_upgrade(struct edit *e)
{
	const struct split2_params *old = e->node->params;
	const struct value *v = node_in(e->graph, e->node, 1);
	int64_t sizes[MAX_INTS], n = v && v->init ? tensor_count(v->init) : 0;

	if (v && old->split.n < 0) {
		if (!v->init || n > MAX_INTS)
			return edit_fail(e, E_OP_UNSUPPORTED, "constant sizes",
					 "a computed input 'split'");
		for (int64_t k = 0; k < n; k++)
			sizes[k] = (int64_t)elem_f64(tensor_dtype(v->init), v->init->data, k);
		split2_upgrade(e);
		edit_const_ints(e, 1, sizes, n);
		return 0;
	}
	return split2_upgrade(e);
}

static int split13_upgrade(struct edit *e)
{
	int64_t axis = ((const struct split_params *)e->node->params)->axis;

	((struct split_params *)edit_params(e))->axis = axis;
	return 0;
}

/* ---- Pad --------------------------------------------------------------------------------------- */

bool pad_spec(int rank, const struct int_list *pads, const struct int_list *axes, int64_t *begin,
	      int64_t *end)
{
	int n = axes ? axes->n : rank;

	if (pads->n != 2 * n)
		return false;
	for (int i = 0; i < rank; i++)
		begin[i] = end[i] = 0;
	for (int k = 0; k < n; k++) {
		int a = axes ? axis_of(axes->v[k], rank) : k;
		if (a < 0)
			return false;
		begin[a] = pads->v[k];
		end[a] = pads->v[n + k];
	}
	return true;
}

static int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int pad_dim(const struct infer *c, int i, int64_t begin, int64_t end, int64_t *dim)
{
	const struct pad_params *p = infer_params(c);
	const int64_t most = INT64_C(1) << 40; /* so that kernels may add and negate pads */
	int64_t n = *dim, out, core;

	if (!begin && !end)
		return 0;
	if (begin < -most || begin > most || end < -most || end > most)
		return infer_fail(c, E_SIZE, 1, "pads of at most 2^40",
				  fmt(c->diag, "pads %" PRId64 " and %" PRId64, begin, end));
	if (n < 0) {
		*dim = DIM_UNKNOWN;
		return 0;
	}
	out = n + begin + end;
	if (out < 0)
		return infer_fail(c, E_VALUE, 1,
				  fmt(c->diag, "at most %" PRId64 " cut off dimension %d", n, i),
				  fmt(c->diag, "pads %" PRId64 " and %" PRId64, begin, end));
	core = n + lesser(begin, 0) + lesser(end, 0);
	if (p->mode != PAD_CONSTANT && core <= 0 && out > 0)
		return infer_fail(c, E_VALUE, 1,
				  fmt(c->diag, "something to repeat in dimension %d", i), "nothing");
	*dim = out;
	return 0;
}

static int pad_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), out = unknown_dims(x.rank);
	struct int_list pads, axes;
	int64_t begin[MAX_RANK], end[MAX_RANK];
	bool has_axes = infer_in(c, 3);

	if (x.rank >= 0 && infer_list(c, 1, &pads) && (!has_axes || infer_exact(c, 3, &axes))) {
		if (!pads.exact && c->concrete)
			infer_value(c, 1);
		if (!pad_spec(x.rank, &pads, has_axes ? &axes : NULL, begin, end))
			return infer_fail(c, E_VALUE, 1, "a begin and an end for each axis",
					  fmt(c->diag, "%d pads for rank %d", pads.n, x.rank));
		out = x;
		for (int i = 0; i < x.rank; i++) {
			int err = 0;
			if (!pads.exact && (begin[i] < 0 || end[i] < 0))
				out.dim[i] = DIM_UNKNOWN;
			else
				err = pad_dim(c, i, begin[i], end[i], &out.dim[i]);
			if (err)
				return err;
		}
	}
	infer_set(c, 0, infer_dtype(c, 0), &out);
	return 0;
}

struct pad2_params {
	int mode;
	struct ints pads;
	float value;
};

static int pad2_upgrade(struct edit *e)
{
	const struct pad2_params *old = e->node->params;
	struct pad_params *p = edit_params(e);

	p->mode = old->mode;
	edit_const_ints(e, 1, old->pads.v, old->pads.n);
	if (old->value != 0) {
		enum dtype t = edit_dtype(e, 0);
		if (t == DT_NONE)
			return edit_fail(e, E_TYPE, "a known element type", "unknown");
		edit_const_scalar(e, 2, old->value, t);
	}
	return 0;
}

/* ---- the rest ---------------------------------------------------------------------------------- */

static int trilu_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0);

	if (x.rank >= 0 && x.rank < 2)
		return infer_fail(c, E_SHAPE, 0, "rank 2 or more", fmt(c->diag, "rank %d", x.rank));
	return infer_same(c);
}

static int reverse_sequence_infer(struct infer *c)
{
	const struct reverse_sequence_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), l = infer_shape(c, 1);
	int64_t n;

	if (p->batch_axis == p->time_axis || p->batch_axis < 0 || p->batch_axis > 1 ||
	    p->time_axis < 0 || p->time_axis > 1)
		return infer_fail(
			c, E_OP_ATTRIBUTE, -1, "batch_axis and time_axis 0 and 1, or 1 and 0",
			fmt(c->diag, "%" PRId64 " and %" PRId64, p->batch_axis, p->time_axis));
	if (x.rank >= 0 && x.rank < 2)
		return infer_fail(c, E_SHAPE, 0, "rank 2 or more", fmt(c->diag, "rank %d", x.rank));
	if (l.rank >= 0 && l.rank != 1)
		return infer_fail(c, E_SHAPE, 1, "rank 1", fmt(c->diag, "rank %d", l.rank));
	if (x.rank >= 0 && l.rank == 1) {
		int err = infer_unify(c, 1, x.dim[p->batch_axis], l.dim[0], &n);
		if (err)
			return err;
	}
	return infer_same(c);
}

static int center_crop_pad_infer(struct infer *c)
{
	const struct center_crop_pad_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), out = unknown_dims(x.rank);
	struct int_list to, axes = {.exact = true};
	uint32_t mask;

	if (x.rank >= 0 && infer_list(c, 1, &to)) {
		axes.n = p->axes.n < 0 ? x.rank : p->axes.n > MAX_INTS ? MAX_INTS : (int)p->axes.n;
		for (int k = 0; k < axes.n; k++)
			axes.v[k] = p->axes.n < 0 ? k : p->axes.v[k];
		int err = infer_axes(c, -1, x.rank, &axes, &mask);
		if (err)
			return err;
		if (to.n != axes.n)
			return infer_fail(c, E_VALUE, 1, fmt(c->diag, "%d sizes", axes.n),
					  fmt(c->diag, "%d", to.n));
		out = x;
		for (int k = 0; k < axes.n; k++) {
			if (to.exact && to.v[k] < 0)
				return infer_fail(c, E_VALUE, 1, "sizes",
						  fmt(c->diag, "%" PRId64, to.v[k]));
			out.dim[axes.v[k]] = to.v[k];
		}
		if (c->concrete && !to.exact)
			infer_value(c, 1);
	}
	infer_set(c, 0, infer_dtype(c, 0), &out);
	return 0;
}

static int crop_infer(struct infer *c)
{
	const struct crop_params *p = infer_params(c);
	struct shape x = infer_shape(c, 0), out = x;
	bool scaled = p->scale.n == 2;

	if (x.rank >= 0 && x.rank != 4)
		return infer_fail(c, E_SHAPE, 0, "rank 4", fmt(c->diag, "rank %d", x.rank));
	if (p->border.n != 4 || (p->scale.n >= 0 && p->scale.n != 2))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "4 borders and 2 or no sizes", NULL);
	for (int i = 0; i < 2 && x.rank == 4; i++) {
		/* border is in the order left, top, right, bottom; i = 0 is the height */
		int64_t b = p->border.v[1 - i], e = p->border.v[3 - i], dim = x.dim[2 + i];
		if (b < 0 || e < 0 || b > INT32_MAX || e > INT32_MAX || (scaled && p->scale.v[i] < 0))
			return infer_fail(c, E_OP_ATTRIBUTE, -1, "borders and sizes of 0 or more",
					  NULL);
		out.dim[2 + i] = scaled ? p->scale.v[i] : dim < 0 ? DIM_UNKNOWN : dim - b - e;
		if (dim >= 0 && (out.dim[2 + i] < 0 || out.dim[2 + i] > dim - b))
			return infer_fail(c, E_OP_ATTRIBUTE, -1, "a window inside the input", NULL);
	}
	infer_set(c, 0, infer_dtype(c, 0), &out);
	return 0;
}

/* ---- the rows ---------------------------------------------------------------------------------- */

static const struct slot data_in[] = {{.name = "data", .tvar = "T", .types = T_ALL}, SLOT_END};
static const struct slot input_in[] = {{.name = "input", .tvar = "T", .types = T_ALL}, SLOT_END};
static const struct slot output_out[] = {{.name = "output", .tvar = "T", .types = T_ALL}, SLOT_END};
static const struct slot outputs_out[] = {
	{.name = "outputs", .tvar = "T", .types = T_ALL, .variadic = true}, SLOT_END};
#define T_INDEX (T_I32 | T_I64)
static const struct slot slice_in[] = {
	{.name = "data", .tvar = "T", .types = T_ALL},
	{.name = "starts", .tvar = "Tind", .types = T_INDEX, .dims = "N"},
	{.name = "ends", .tvar = "Tind", .types = T_INDEX, .dims = "N"},
	{.name = "axes", .tvar = "Tind", .types = T_INDEX, .optional = true, .dims = "N"},
	{.name = "steps", .tvar = "Tind", .types = T_INDEX, .optional = true, .dims = "N"},
	SLOT_END};
static const struct slot dynamic_slice_in[] = {
	{.name = "data", .tvar = "T", .types = T_ALL},
	{.name = "starts", .tvar = "Tind", .types = T_INDEX, .dims = "N"},
	{.name = "ends", .tvar = "Tind", .types = T_INDEX, .dims = "N"},
	{.name = "axes", .tvar = "Tind", .types = T_INDEX, .optional = true, .dims = "N"},
	SLOT_END};
static const struct slot split_in[] = {{.name = "input", .tvar = "T", .types = T_ALL},
				       {.name = "split", .types = T_I64, .optional = true, .dims = "_"},
				       SLOT_END};
static const struct slot split1_in[] = {
	{.name = "input", .tvar = "T", .types = T_FLOATS},
	{.name = "split", .tvar = "T", .types = T_FLOATS, .optional = true, .dims = "_"},
	SLOT_END};
static const struct slot pad_in[] = {
	{.name = "data", .tvar = "T", .types = T_ALL},
	{.name = "pads", .types = T_I64, .dims = "_"},
	{.name = "constant_value", .tvar = "T", .types = T_ALL, .optional = true, .dims = "() | 1"},
	{.name = "axes", .types = T_INDEX, .optional = true, .dims = "_"},
	SLOT_END};
static const struct slot pad13_in[] = {
	{.name = "data", .tvar = "T", .types = T_ALL},
	{.name = "pads", .types = T_I64, .dims = "_"},
	{.name = "constant_value", .tvar = "T", .types = T_ALL, .optional = true, .dims = "() | 1"},
	SLOT_END};
static const struct slot trilu_in[] = {
	{.name = "input", .tvar = "T", .types = T_ALL},
	{.name = "k", .types = T_I64, .optional = true, .dims = "() | 1"},
	SLOT_END};
static const struct slot ms_trilu_in[] = {
	{.name = "X", .tvar = "T", .types = T_ALL_13},
	{.name = "k", .types = T_I64, .optional = true, .dims = "() | 1"},
	SLOT_END};
static const struct slot ms_trilu_out[] = {{.name = "Y", .tvar = "T", .types = T_ALL_13}, SLOT_END};
static const struct slot reverse_in[] = {{.name = "input", .tvar = "T", .types = T_ALL},
					 {.name = "sequence_lens", .types = T_I64, .dims = "_"},
					 SLOT_END};
static const struct slot center_in[] = {{.name = "input_data", .tvar = "T", .types = T_ALL},
					{.name = "shape", .types = T_INDEX, .dims = "_"},
					SLOT_END};

static const struct field slice1_attrs[] = {
	FIELD(struct slice1_params, axes, F_INTS, NULL, "axes; default all"),
	{.name = "ends",
	 .type = F_INTS,
	 .off = offsetof(struct slice1_params, ends),
	 .help = "ends",
	 .flags = FIELD_REQUIRED | FIELD_ANY_INT},
	{.name = "starts",
	 .type = F_INTS,
	 .off = offsetof(struct slice1_params, starts),
	 .help = "starts",
	 .flags = FIELD_REQUIRED | FIELD_ANY_INT},
	{0}};
static const struct field split_attrs[] = {
	FIELD(struct split_params, axis, F_INT, "0", "axis to split"),
	FIELD(struct split_params, num_outputs, F_INT, NULL, "number of parts"),
	{0}};
static const struct field split13_attrs[] = {
	FIELD(struct split_params, axis, F_INT, "0", "axis to split"), {0}};
static const struct field split2_attrs[] = {
	FIELD(struct split2_params, axis, F_INT, "0", "axis to split"),
	FIELD(struct split2_params, split, F_INTS, NULL, "sizes of the parts"),
	{0}};
#define PAD_MODES "constant|reflect|edge|wrap"
static const struct field pad_attrs[] = {
	FIELD_ENUM(struct pad_params, mode, "constant", PAD_MODES, "what to pad with"), {0}};
static const struct field pad2_attrs[] = {
	FIELD_ENUM(struct pad2_params, mode, "constant", PAD_MODES, "what to pad with"),
	FIELD_REQ(struct pad2_params, pads, F_INTS, "begin of each axis, then end of each axis"),
	FIELD(struct pad2_params, value, F_FLOAT, "0", "constant"),
	{0}};
static const struct field pad1_attrs[] = {
	FIELD_ENUM(struct pad2_params, mode, "constant", PAD_MODES, "what to pad with"),
	{.name = "paddings",
	 .type = F_INTS,
	 .off = offsetof(struct pad2_params, pads),
	 .help = "begin of each axis, then end of each axis",
	 .flags = FIELD_REQUIRED},
	FIELD(struct pad2_params, value, F_FLOAT, "0", "constant"),
	{0}};
static const struct field trilu_attrs[] = {
	FIELD(struct trilu_params, upper, F_INT, "1", "keep the upper triangle"), {0}};
static const struct field reverse_attrs[] = {
	FIELD(struct reverse_sequence_params, batch_axis, F_INT, "1", "axis of the batch"),
	FIELD(struct reverse_sequence_params, time_axis, F_INT, "0", "axis that is reversed"),
	{0}};
static const struct field center_attrs[] = {FIELD(struct center_crop_pad_params, axes, F_INTS, NULL,
						  "axes that shape is for; default all"),
					    {0}};
static const struct field crop_attrs[] = {
	FIELD(struct crop_params, border, F_INTS, NULL, "left, top, right, bottom"),
	FIELD(struct crop_params, scale, F_INTS, NULL, "height, width"),
	{0}};

static const struct slot ms_pad_in[] = {
	{.name = "data", .tvar = "T", .types = T_FLOATS},
	{.name = "pads", .types = T_I64, .dims = "_ | 1 _"},
	{.name = "value", .tvar = "T", .types = T_FLOATS, .optional = true, .dims = "() | 1"},
	SLOT_END};
static const struct slot ms_pad_out[] = {{.name = "output", .tvar = "T", .types = T_FLOATS}, SLOT_END};
static const struct field ms_pad_attrs[] = {FIELD_ENUM(struct pad_params, mode, "constant",
						       "constant|reflect|edge", "what to pad with"),
					    {0}};

const struct op ops_slice[] = {
	{.name = "Slice",
	 .since = 13,
	 .reduced = REDUCED_MOVES,
	 .in = slice_in,
	 .out = output_out,
	 .types = T_ALL_13,
	 .infer = slice_infer,
	 .flags = OP_READS_PART | OP_PASSES},
	OLD("Slice", 11, T_ALL_OLD),
	OLD("Slice", 10, T_ALL_OLD),
	{.name = "Slice",
	 .since = 1,
	 .in = data_in,
	 .out = output_out,
	 .types = T_ALL_OLD,
	 ATTRS(slice1_attrs, struct slice1_params),
	 .upgrade = slice1_upgrade},
	/* an experimental operator of opset 1: Slice with inputs starts, ends and axes, without steps */
	{.name = "DynamicSlice",
	 .since = 1,
	 .in = dynamic_slice_in,
	 .out = output_out,
	 .types = T_ALL_OLD,
	 .infer = slice_infer,
	 .flags = OP_PASSES},
	{.name = "Split",
	 .since = 18,
	 .reduced = REDUCED_MOVES,
	 .in = split_in,
	 .out = outputs_out,
	 .types = T_ALL_13,
	 ATTRS(split_attrs, struct split_params),
	 .infer = split_infer,
	 .flags = OP_OPTIONAL_OUT | OP_PASSES},
	{.name = "Split",
	 .since = 13,
	 .in = split_in,
	 .out = outputs_out,
	 .types = T_ALL_13,
	 ATTRS(split13_attrs, struct split_params),
	 .upgrade = split13_upgrade},
	{.name = "Split",
	 .since = 11,
	 .in = input_in,
	 .out = outputs_out,
	 .types = T_ALL_OLD,
	 ATTRS(split2_attrs, struct split2_params),
	 .upgrade = split2_upgrade},
	{.name = "Split",
	 .since = 2,
	 .in = input_in,
	 .out = outputs_out,
	 .types = T_ALL_OLD,
	 ATTRS(split2_attrs, struct split2_params),
	 .upgrade = split2_upgrade},
	{.name = "Split",
	 .since = 1,
	 .in = split1_in,
	 .out = outputs_out,
	 ATTRS(split2_attrs, struct split2_params),
	 .upgrade = split1_upgrade},
	{.name = "Pad",
	 .since = 25,
	 .reduced = REDUCED_MOVES,
	 .in = pad_in,
	 .out = output_out,
	 ATTRS(pad_attrs, struct pad_params),
	 .infer = pad_infer},
	OLD("Pad", 24, T_ALL_24),
	OLD("Pad", 23, T_ALL_23),
	OLD("Pad", 21, T_ALL_21),
	OLD("Pad", 19, T_ALL_13),
	OLD("Pad", 18, T_ALL_13),
	{.name = "Pad", .since = 13, .in = pad13_in, .types = T_ALL_13},
	{.name = "Pad", .since = 11, .in = pad13_in, .types = T_NUMERIC},
	{.name = "Pad",
	 .since = 2,
	 .in = data_in,
	 .out = output_out,
	 .types = T_FLOATS,
	 ATTRS(pad2_attrs, struct pad2_params),
	 .upgrade = pad2_upgrade},
	{.name = "Pad",
	 .since = 1,
	 .in = data_in,
	 .out = output_out,
	 .types = T_FLOATS,
	 ATTRS(pad1_attrs, struct pad2_params),
	 .upgrade = pad2_upgrade},
	{.name = "Trilu",
	 .since = 14,
	 .in = trilu_in,
	 .out = output_out,
	 .types = T_ALL_13,
	 ATTRS(trilu_attrs, struct trilu_params),
	 .infer = trilu_infer,
	 .flags = OP_PASSES},
	{.name = "Trilu",
	 MICROSOFT,
	 .in = ms_trilu_in,
	 .out = ms_trilu_out,
	 .types = T_ALL_13,
	 ATTRS(trilu_attrs, struct trilu_params),
	 .expand = "Y = Trilu(X, k?) {upper=$upper}",
	 .flags = OP_PASSES},
	{.name = "ReverseSequence",
	 .since = 28,
	 .in = reverse_in,
	 .out = output_out,
	 ATTRS(reverse_attrs, struct reverse_sequence_params),
	 .infer = reverse_sequence_infer,
	 .flags = OP_PASSES},
	OLD("ReverseSequence", 10, T_ALL_OLD),
	{.name = "CenterCropPad",
	 .since = 18,
	 .in = center_in,
	 .out = output_out,
	 .types = T_ALL_13,
	 ATTRS(center_attrs, struct center_crop_pad_params),
	 .infer = center_crop_pad_infer,
	 .flags = OP_PASSES},
	{.name = "Crop",
	 .since = 1,
	 .in = input_in,
	 .out = output_out,
	 .types = T_FLOATS,
	 ATTRS(crop_attrs, struct crop_params),
	 .infer = crop_infer},
	{.name = "Pad",
	 MICROSOFT,
	 .in = ms_pad_in,
	 .out = ms_pad_out,
	 ATTRS(ms_pad_attrs, struct pad_params),
	 .expand = "v = Squeeze(value?); output = Pad(data, Reshape(pads, [-1]), v?) {mode=$mode}"},
	{0}};
