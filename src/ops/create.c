/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that create a tensor from a shape or a few numbers: constants, Range, random numbers. */
#include "ops/create.h"

#include "ops/infer_util.h"
#include "ops/ints.h"

#include <inttypes.h>
#include <math.h>

#define T_FB T_FLOATS_BF

static bool is_type(int64_t t, uint64_t mask)
{
	return t > 0 && t < DT_COUNT && (T_BIT(t) & mask);
}

static int bad_dtype(const struct infer *c, int64_t t)
{
	return infer_fail_saying(
		c, E_OP_ATTRIBUTE, -1,
		fmt(c->diag, "attribute 'dtype': %" PRId64 "%s%s is no type that the operator makes",
		    t, t > 0 && t < DT_COUNT ? ", " : "",
		    t > 0 && t < DT_COUNT ? dtype_name((enum dtype)t) : ""));
}

static int bad_dim(const struct infer *c, int slot, int64_t dim)
{
	return infer_fail(c, E_VALUE, slot, "dimensions of 0 and more", fmt(c->diag, "%" PRId64, dim));
}

/* ---- ConstantOfShape, ConstantFill ----------------------------------------------------------- */

#define T_OLD_CONST (T_NUMERIC | T_BOOL)
static const struct slot cos_in[] = {SLOT("input", NULL, T_I64, .dims = "_"), SLOT_END};
static const struct slot cos_out[] = {SLOT("output", NULL, T_ALL & ~(T_STRING | T_COMPLEX)), SLOT_END};
static const struct field cos_attrs[] = {FIELD(struct constant_of_shape, value, F_TENSOR, NULL,
					       "one element: what fills the output"),
					 {0}};

/*
 * Sets *out to the shape that the elements of integer input i give. Dims or rank are unknown if the elements are
 * unknown.
 */
static int shape_from(struct infer *c, uint32_t i, struct shape *out)
{
	struct int_list l;
	struct shape in = infer_shape(c, i);

	*out = SHAPE_UNKNOWN;
	if (infer_list(c, i, &l)) {
		if (l.n > MAX_RANK)
			return infer_fail(c, E_RANK, (int)i, fmt(c->diag, "rank up to %d", MAX_RANK),
					  fmt(c->diag, "%d", l.n));
		out->rank = l.n;
		for (int k = 0; k < l.n; k++) {
			out->dim[k] = l.v[k];
			if (l.exact && l.v[k] < 0)
				return bad_dim(c, (int)i, l.v[k]);
		}
	} else if (in.rank == 1 && in.dim[0] >= 0 && in.dim[0] <= MAX_RANK) {
		out->rank = (int32_t)in.dim[0];
		for (int k = 0; k < out->rank; k++)
			out->dim[k] = DIM_UNKNOWN;
	}
	return 0;
}

static int infer_constant_of_shape(struct infer *c)
{
	const struct constant_of_shape *p = infer_params(c);
	struct shape y;
	int err = shape_from(c, 0, &y);

	if (err)
		return err;
	if (p->value && tensor_count(p->value) != 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "value: one element",
				  fmt(c->diag, "%" PRId64, tensor_count(p->value)));
	enum dtype t = p->value ? tensor_dtype(p->value) : DT_F32;
	infer_set(c, 0, t, &y);
	/* the elements of a short integer list are known when its length is */
	if ((t == DT_I64 || t == DT_I32) && p->value && y.rank == 1 && y.dim[0] >= 0 &&
	    y.dim[0] <= MAX_RANK) {
		struct int_list l = {.n = (int)y.dim[0], .exact = true};
		for (int i = 0; i < l.n; i++)
			l.v[i] = elem_i64(t, p->value->data, 0);
		infer_give_ints(c, 0, &l);
	}
	return 0;
}

static const struct slot fill_in[] = {SLOT_OPT("input", NULL, T_NUMERIC | T_BOOL), SLOT_END};
static const struct slot fill_out[] = {SLOT("output", NULL, T_F32 | T_I32 | T_I64 | T_BOOL), SLOT_END};
static const struct field fill_attrs[] = {
	FIELD(struct constant_fill, dtype, F_INT, "1", "element type"),
	FIELD(struct constant_fill, input_as_shape, F_INT, "0", "1: the input's values are the shape"),
	FIELD(struct constant_fill, value, F_FLOAT, "0", "what fills the output"),
	FIELD(struct constant_fill, shape, F_INTS, NULL, "shape"),
	FIELD(struct constant_fill, extra_shape, F_INTS, NULL, "further dimensions"),
	{0}};

static int infer_constant_fill(struct infer *c)
{
	const struct constant_fill *p = infer_params(c);
	struct shape y = SHAPE_UNKNOWN;
	int err = 0;

	if (!is_type(p->dtype, T_F32 | T_I32 | T_I64 | T_BOOL))
		return bad_dtype(c, p->dtype);
	if (infer_in(c, 0) && p->input_as_shape) {
		err = shape_from(c, 0, &y);
	} else if (infer_in(c, 0)) {
		y = infer_shape(c, 0);
	} else if (p->shape.n >= 0 && p->shape.n <= MAX_RANK) {
		y = shape_of((int)p->shape.n, p->shape.v);
	}
	for (int64_t i = 0; i < p->extra_shape.n && y.rank >= 0; i++) {
		if (y.rank >= MAX_RANK)
			return infer_fail(c, E_RANK, -1, fmt(c->diag, "rank up to %d", MAX_RANK),
					  "more");
		y.dim[y.rank++] = p->extra_shape.v[i];
	}
	infer_set(c, 0, (enum dtype)p->dtype, &y);
	return err;
}

/* ---- EyeLike, Range -------------------------------------------------------------------------- */

#define T_EYE (T_NUMERIC_BF | T_BOOL)
static const struct slot eye_in[] = {SLOT("input", "T", T_EYE, .dims = "_ _"), SLOT_END};
static const struct slot eye_out[] = {SLOT("output", NULL, T_EYE), SLOT_END};
static const struct field eye_attrs[] = {
	FIELD(struct eye_like, dtype, F_INT, NULL, "element type; absent: the input's"),
	FIELD(struct eye_like, k, F_INT, "0", "which diagonal: above 0 an upper one"),
	{0}};

static int infer_eye(struct infer *c)
{
	const struct eye_like *p = infer_params(c);
	struct shape x = infer_shape(c, 0);
	int64_t t = p->dtype == INT_ABSENT ? (int64_t)infer_dtype(c, 0) : p->dtype;

	if ((t || p->dtype != INT_ABSENT) && !is_type(t, T_EYE))
		return bad_dtype(c, t);
	if (x.rank >= 0 && x.rank != 2)
		return infer_fail(c, E_SHAPE, 0, "rank 2", fmt(c->diag, "rank %d", x.rank));
	infer_set(c, 0, (enum dtype)t, &x);
	return 0;
}

#define T_RANGE (T_F32 | T_F64 | T_I16 | T_I32 | T_I64)
static const struct slot range_in[] = {
	SLOT("start", "T", T_RANGE | T_F16 | T_BF16, .dims = "() | 1"),
	SLOT("limit", "T", T_RANGE | T_F16 | T_BF16, .dims = "() | 1"),
	SLOT("delta", "T", T_RANGE | T_F16 | T_BF16, .dims = "() | 1"), SLOT_END};
static const struct slot range_out[] = {SLOT("output", "T", T_RANGE | T_F16 | T_BF16), SLOT_END};
static const struct field range_attrs[] = {FIELD_IN("27-", struct range_params, stash_type, F_INT,
						    "1", "type that narrow floats compute in"),
					   {0}};

/* differences of int64 values do not overflow in 128 bits */
__extension__ typedef __int128 wide;

/* Number of elements start, start + delta, ... before limit; -1 if there is no such number (delta 0, NaN). */
static int64_t range_length(const struct tensor *start, const struct tensor *limit,
			    const struct tensor *delta)
{
	enum dtype t = tensor_dtype(start);

	if (dtype_class(t) != DT_FLOAT) {
		wide d = elem_i64(t, delta->data, 0);
		wide span = (wide)elem_i64(t, limit->data, 0) - elem_i64(t, start->data, 0);
		if (!d)
			return -1;
		if ((span > 0) != (d > 0) || !span)
			return 0;
		wide n = (span + d + (d > 0 ? -1 : 1)) / d;
		return n > INT64_MAX ? -1 : (int64_t)n;
	}
	double n = ceil((elem_f64(t, limit->data, 0) - elem_f64(t, start->data, 0)) /
			elem_f64(t, delta->data, 0));
	if (isnan(n) || n > 0x1p62)
		return -1;
	return n > 0 ? (int64_t)n : 0;
}

static int infer_range(struct infer *c)
{
	const struct range_params *p = infer_params(c);
	const struct tensor *v[3];
	struct shape y = {.rank = 1, .dim = {DIM_UNKNOWN}};
	bool all = true;
	int rc = infer_float_attribute(c, "stash_type", p->stash_type, false);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < 3; i++) {
		v[i] = infer_value(c, i);
		if (v[i] && tensor_count(v[i]) != 1)
			return infer_fail(c, E_SHAPE, (int)i, "a scalar",
					  fmt(c->diag, "%" PRId64 " elements", tensor_count(v[i])));
		all &= v[i] != NULL;
	}
	if (all) {
		y.dim[0] = range_length(v[0], v[1], v[2]);
		if (y.dim[0] < 0)
			return infer_fail(c, E_VALUE, 2, "a delta that reaches the limit",
					  "0 or not a number");
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

/* ---- random numbers -------------------------------------------------------------------------- */

static const struct slot no_in[] = {SLOT_END};
static const struct slot random_out[] = {SLOT("output", "T", T_FB), SLOT_END};
static const struct slot like_in[] = {SLOT("input", "T", T_ALL_OLD | T_BF16), SLOT_END};
static const struct slot like_out[] = {SLOT("output", NULL, T_FB), SLOT_END};

#define SEED(type_)                                                                                \
	FIELD(type_, seed, F_FLOAT, NULL, "of the random numbers; absent: new ones each time")
#define RANDOM_FIELD(name_, member_, def_, help_)                                                  \
	{                                                                                          \
		.name = (name_), .type = F_FLOAT, .off = offsetof(struct random, member_),         \
		.def = (def_), .help = (help_)                                                     \
	}
#define NORMAL_FIELDS                                                                              \
	RANDOM_FIELD("mean", a, "0", "mean"), RANDOM_FIELD("scale", b, "1", "standard deviation"), \
		SEED(struct random)
#define UNIFORM_FIELDS                                                                             \
	RANDOM_FIELD("low", a, "0", "lower bound"), RANDOM_FIELD("high", b, "1", "upper bound"),   \
		SEED(struct random)
#define SHAPED                                                                                     \
	FIELD_REQ(struct random, shape, F_INTS, "shape of the output"),                            \
		FIELD(struct random, dtype, F_INT, "1", "element type")
#define LIKE FIELD(struct random, dtype, F_INT, NULL, "element type; absent: the input's")

static const struct field normal_attrs[] = {SHAPED, NORMAL_FIELDS, {0}};
static const struct field uniform_attrs[] = {SHAPED, UNIFORM_FIELDS, {0}};
static const struct field normal_like_attrs[] = {LIKE, NORMAL_FIELDS, {0}};
static const struct field uniform_like_attrs[] = {LIKE, UNIFORM_FIELDS, {0}};

static int infer_random(struct infer *c)
{
	const struct random *p = infer_params(c);
	struct shape y;

	if (!is_type(p->dtype, T_FB))
		return bad_dtype(c, p->dtype);
	if (p->shape.n < 0 || p->shape.n > MAX_RANK)
		return infer_fail(c, E_RANK, -1, fmt(c->diag, "a shape of rank up to %d", MAX_RANK),
				  "another");
	y = shape_of((int)p->shape.n, p->shape.v);
	for (int i = 0; i < y.rank; i++)
		if (y.dim[i] < 0)
			return bad_dim(c, -1, y.dim[i]);
	infer_set(c, 0, (enum dtype)p->dtype, &y);
	return 0;
}

static int like_type(struct infer *c, int64_t dtype, uint64_t mask)
{
	int64_t t = dtype == INT_ABSENT ? (int64_t)infer_dtype(c, 0) : dtype;

	/* an input whose type is not known yet has type 0, which is no error; an attribute of 0 names no type */
	if ((t || dtype != INT_ABSENT) && !is_type(t, mask))
		return bad_dtype(c, t);
	return infer_same_as(c, (enum dtype)t);
}

static int infer_random_like(struct infer *c)
{
	return like_type(c, ((const struct random *)infer_params(c))->dtype, T_FB);
}

static const struct slot bernoulli_in[] = {SLOT("input", "T", T_FB), SLOT_END};
static const struct slot bernoulli_out[] = {SLOT("output", NULL, T_NUMERIC_BF | T_BOOL), SLOT_END};
static const struct field bernoulli_attrs[] = {
	FIELD(struct bernoulli, dtype, F_INT, NULL, "element type; absent: the input's"),
	SEED(struct bernoulli),
	{0}};
static int infer_bernoulli(struct infer *c)
{
	return like_type(c, ((const struct bernoulli *)infer_params(c))->dtype, T_NUMERIC_BF | T_BOOL);
}

static const struct slot multinomial_out[] = {SLOT("output", NULL, T_I32 | T_I64), SLOT_END};
static const struct field multinomial_attrs[] = {
	FIELD(struct multinomial, dtype, F_INT, "6", "element type: i32 or i64"),
	FIELD(struct multinomial, sample_size, F_INT, "1", "samples a row"),
	SEED(struct multinomial),
	{0}};

static int infer_multinomial(struct infer *c)
{
	const struct multinomial *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y = {.rank = 2, .dim = {DIM_UNKNOWN, p->sample_size}};

	if (!is_type(p->dtype, T_I32 | T_I64))
		return bad_dtype(c, p->dtype);
	if (p->sample_size < 0)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "sample_size: 0 and more",
				  fmt(c->diag, "%" PRId64, p->sample_size));
	if (x.rank >= 0 && x.rank != 2)
		return infer_fail(c, E_SHAPE, 0, "rank 2", fmt(c->diag, "rank %d", x.rank));
	if (x.rank == 2)
		y.dim[0] = x.dim[0];
	infer_set(c, 0, (enum dtype)p->dtype, &y);
	return 0;
}

#define RANDOM(name_, variant_, in_, out_, table, infer_)                                          \
	{.name = (name_),                                                                          \
	 .variant = (variant_),                                                                    \
	 .since = 22,                                                                              \
	 .in = (in_),                                                                              \
	 .out = (out_),                                                                            \
	 ATTRS(table, struct random),                                                              \
	 .infer = (infer_),                                                                        \
	 .flags = OP_RANDOM},                                                                      \
		OLD(name_, 1, T_FLOATS)

#define T_MS_RANGE (T_F32 | T_F64 | T_I16 | T_I32 | T_I64)
static const struct slot ms_range_in[] = {SLOT("start", "T", T_MS_RANGE, .dims = "() | 1"),
					  SLOT("limit", "T", T_MS_RANGE, .dims = "() | 1"),
					  SLOT_OPT("delta", "T", T_MS_RANGE, .dims = "() | 1"),
					  SLOT_END};
static const struct slot ms_range_out[] = {SLOT("Y", "T", T_MS_RANGE), SLOT_END};

static const char *ms_range_text(const struct graph *g, const struct node *n)
{
	return node_in(g, n, 2) ? "Y = Range(Squeeze(start), Squeeze(limit), Squeeze(delta))"
				: "Y = Range(Squeeze(start), Squeeze(limit), 1)";
}

const struct op ops_create[] = {
	{.name = "ConstantOfShape",
	 .since = 25,
	 .in = cos_in,
	 .out = cos_out,
	 ATTRS(cos_attrs, struct constant_of_shape),
	 .infer = infer_constant_of_shape},
	OLD("ConstantOfShape", 24, 0),
	OLD("ConstantOfShape", 23, 0),
	OLD("ConstantOfShape", 21, 0),
	OLD("ConstantOfShape", 20, 0),
	OLD("ConstantOfShape", 9, 0),
	{.name = "ConstantFill",
	 .since = 1,
	 .variant = FILL_WITH_FLOAT,
	 .in = fill_in,
	 .out = fill_out,
	 ATTRS(fill_attrs, struct constant_fill),
	 .infer = infer_constant_fill},
	{.name = "EyeLike",
	 .since = 22,
	 .in = eye_in,
	 .out = eye_out,
	 .types = T_EYE,
	 ATTRS(eye_attrs, struct eye_like),
	 .infer = infer_eye},
	OLD("EyeLike", 9, T_OLD_CONST),
	{.name = "Range",
	 .since = 27,
	 .in = range_in,
	 .out = range_out,
	 .types = T_RANGE | T_F16 | T_BF16,
	 ATTRS(range_attrs, struct range_params),
	 .infer = infer_range},
	OLD("Range", 11, T_RANGE),
	RANDOM("RandomNormal", RANDOM_NORMAL, no_in, random_out, normal_attrs, infer_random),
	RANDOM("RandomUniform", RANDOM_UNIFORM, no_in, random_out, uniform_attrs, infer_random),
	{.name = "RandomNormalLike",
	 .since = 22,
	 .variant = RANDOM_NORMAL,
	 .in = like_in,
	 .out = like_out,
	 ATTRS(normal_like_attrs, struct random),
	 .infer = infer_random_like,
	 .flags = OP_RANDOM},
	OLD("RandomNormalLike", 1, T_ALL_OLD),
	{.name = "RandomUniformLike",
	 .since = 22,
	 .in = like_in,
	 .out = like_out,
	 ATTRS(uniform_like_attrs, struct random),
	 .infer = infer_random_like,
	 .flags = OP_RANDOM},
	OLD("RandomUniformLike", 1, T_ALL_OLD),
	{.name = "Bernoulli",
	 .since = 22,
	 .in = bernoulli_in,
	 .out = bernoulli_out,
	 .types = T_FB,
	 ATTRS(bernoulli_attrs, struct bernoulli),
	 .infer = infer_bernoulli,
	 .flags = OP_RANDOM},
	OLD("Bernoulli", 15, T_FLOATS),
	{.name = "Multinomial",
	 .since = 22,
	 .in = bernoulli_in,
	 .out = multinomial_out,
	 .types = T_FB,
	 ATTRS(multinomial_attrs, struct multinomial),
	 .infer = infer_multinomial,
	 .flags = OP_RANDOM},
	OLD("Multinomial", 7, T_FLOATS),
	{.name = "Range", MICROSOFT, .in = ms_range_in, .out = ms_range_out, .expand_as = ms_range_text},
	{0}};
