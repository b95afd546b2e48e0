/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on sequences and optionals. */
#include "ops/sequence.h"

#include "ops/infer_util.h"
#include "ops/ints.h"

#include <inttypes.h>

static struct type sequence_of(enum dtype t)
{
	return (struct type){.kind = V_SEQUENCE, .of = V_TENSOR, .dtype = (uint8_t)t};
}

/* The type that a sequence or optional holds. */
static struct type element_of(struct type t)
{
	return (struct type){.kind = t.of, .of = t.of_of, .dtype = t.dtype, .key = t.key};
}

static void set_type(struct infer *c, uint32_t i, struct type t)
{
	struct vinfo *o = infer_out(c, i);

	if (!o)
		return;
	o->type = t;
	o->shape = SHAPE_UNKNOWN;
}

/* Checks that input i is a sequence, if its kind is known. */
static int check_is_sequence(const struct infer *c, uint32_t i)
{
	const struct vinfo *v = infer_in(c, i);

	if (v && v->type.kind != V_NONE && v->type.kind != V_SEQUENCE)
		return infer_fail(c, E_TYPE, (int)i, "a sequence",
				  c->diag ? type_str(&c->diag->arena, v->type) : "");
	return 0;
}

static int construct_infer(struct infer *c)
{
	set_type(c, 0, sequence_of(infer_dtype(c, 0)));
	return 0;
}

static int empty_infer(struct infer *c)
{
	const struct sequence_empty_params *p = infer_params(c);
	int64_t t = p->dtype == INT_ABSENT ? DT_F32 : p->dtype;

	if (t < 1 || t >= DT_COUNT || !dtype_bits((enum dtype)t))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "an element type",
				  fmt(c->diag, "dtype %" PRId64, t));
	set_type(c, 0, sequence_of((enum dtype)t));
	return 0;
}

static int at_infer(struct infer *c)
{
	const struct vinfo *v = infer_in(c, 0);
	int err = check_is_sequence(c, 0);

	if (!err && v && v->type.kind == V_SEQUENCE)
		set_type(c, 0, element_of(v->type));
	return err;
}

/* Infers SequenceErase, and is the first step for SequenceInsert: the output has the type of the sequence. */
static int same_sequence_infer(struct infer *c)
{
	const struct vinfo *v = infer_in(c, 0);
	int err = check_is_sequence(c, 0);

	if (!err && v)
		set_type(c, 0, v->type);
	return err;
}

static int insert_infer(struct infer *c)
{
	const struct vinfo *s = infer_in(c, 0), *t = infer_in(c, 1);
	int err = same_sequence_infer(c);

	if (!err && s && t && s->type.kind == V_SEQUENCE && t->type.kind == V_TENSOR &&
	    s->type.dtype && t->type.dtype && s->type.dtype != t->type.dtype)
		err = infer_fail(c, E_TYPE, 1, dtype_name((enum dtype)s->type.dtype),
				 dtype_name((enum dtype)t->type.dtype));
	if (!err && infer_out(c, 0) && !infer_out(c, 0)->type.dtype && t)
		set_type(c, 0, sequence_of((enum dtype)t->type.dtype));
	return err;
}

static int length_infer(struct infer *c)
{
	struct shape scalar = {0};
	int err = check_is_sequence(c, 0);

	if (!err)
		infer_set(c, 0, DT_I64, &scalar);
	return err;
}

static int concat_infer(struct infer *c)
{
	const struct concat_from_sequence_params *p = infer_params(c);
	const struct vinfo *v = infer_in(c, 0);
	int err = check_is_sequence(c, 0);

	if (!err && p->new_axis != 0 && p->new_axis != 1)
		err = infer_fail(c, E_OP_ATTRIBUTE, -1, "new_axis of 0 or 1",
				 fmt(c->diag, "%" PRId64, p->new_axis));
	if (!err && v)
		infer_set(c, 0, (enum dtype)v->type.dtype, &SHAPE_UNKNOWN);
	return err;
}

static int split_infer(struct infer *c)
{
	const struct split_to_sequence_params *p = infer_params(c);
	int axis, err = infer_axis(c, 0, p->axis, &axis);

	if (!err)
		set_type(c, 0, sequence_of(infer_dtype(c, 0)));
	return err;
}

static int optional_infer(struct infer *c)
{
	const struct optional_params *p = infer_params(c);
	const struct vinfo *v = infer_in(c, 0);
	struct type t = v ? v->type : p->type ? p->type->type : (struct type){0};

	if (!v && !p->type)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "an input, or a type", "neither");
	set_type(c, 0,
		 (struct type){.kind = V_OPTIONAL,
			       .of = t.kind,
			       .of_of = t.of,
			       .dtype = t.dtype,
			       .key = t.key});
	return 0;
}

static int has_infer(struct infer *c)
{
	struct shape scalar = {0};

	infer_set(c, 0, DT_BOOL, &scalar);
	return 0;
}

/* OptionalGetElement of an optional gives what it holds; an input of another kind is passed on. */
static int get_infer(struct infer *c)
{
	const struct vinfo *v = infer_in(c, 0);

	if (!v)
		return 0;
	if (v->type.kind == V_OPTIONAL)
		set_type(c, 0, element_of(v->type));
	else
		return infer_same(c);
	return 0;
}

/* ---- the rows ------------------------------------------------------------------------------------------ */

#define T_INDEX (T_I32 | T_I64)
#define T_S	(T_ALL | T_SEQ)
#define T_O	(T_ALL | T_F6 | T_SEQ | T_OPT | T_MAP)
static const struct slot none_in[] = {SLOT_END};
static const struct slot tensors_in[] = {
	{.name = "inputs", .tvar = "T", .types = T_ALL, .variadic = true}, SLOT_END};
static const struct slot tensor_out[] = {{.name = "tensor", .types = T_ALL}, SLOT_END};
static const struct slot sequence_in[] = {{.name = "input_sequence", .types = T_S}, SLOT_END};
static const struct slot sequence_out[] = {{.name = "output_sequence", .types = T_S}, SLOT_END};
static const struct slot at_in[] = {
	{.name = "input_sequence", .types = T_S}, {.name = "position", .types = T_INDEX}, SLOT_END};
static const struct slot erase_in[] = {{.name = "input_sequence", .types = T_S},
				       {.name = "position", .types = T_INDEX, .optional = true},
				       SLOT_END};
static const struct slot insert_in[] = {{.name = "input_sequence", .types = T_S},
					{.name = "tensor", .types = T_ALL},
					{.name = "position", .types = T_INDEX, .optional = true},
					SLOT_END};
static const struct slot length_out[] = {{.name = "length", .types = T_I64}, SLOT_END};
static const struct slot split_in[] = {{.name = "input", .tvar = "T", .types = T_ALL},
				       {.name = "split", .types = T_INDEX, .optional = true},
				       SLOT_END};
static const struct slot optional_in[] = {{.name = "input", .types = T_O, .optional = true}, SLOT_END};
static const struct slot optional_out[] = {{.name = "output", .types = T_O}, SLOT_END};
static const struct slot get_in[] = {{.name = "input", .types = T_O}, SLOT_END};
/* before opset 28; infer check warns of other types */
#define T_O_OLD (T_ALL_OLD | T_SEQ | T_OPT)
static const struct slot optional_old_in[] = {{.name = "input", .types = T_O_OLD, .optional = true},
					      SLOT_END};
static const struct slot get_old_in[] = {{.name = "input", .types = T_O_OLD}, SLOT_END};
static const struct slot has_out[] = {{.name = "output", .types = T_BOOL}, SLOT_END};

static const struct field empty_attrs[] = {
	FIELD(struct sequence_empty_params, dtype, F_INT, NULL, "element type; default float"), {0}};
static const struct field concat_attrs[] = {
	FIELD_REQ(struct concat_from_sequence_params, axis, F_INT,
		  "axis to concatenate along, or to add"),
	FIELD(struct concat_from_sequence_params, new_axis, F_INT, "0", "1: stack along a new axis"),
	{0}};
static const struct field split_attrs[] = {
	FIELD(struct split_to_sequence_params, axis, F_INT, "0", "axis to split"),
	FIELD(struct split_to_sequence_params, keepdims, F_INT, "1", "0: parts of 1 lose the axis"),
	{0}};
static const struct field optional_attrs[] = {FIELD(struct optional_params, type, F_TYPE, NULL,
						    "type of the element where there is none"),
					      {0}};

#define HOST .flags = OP_HOST_VALUES

const struct op ops_sequence[] = {
	{.name = "SequenceConstruct",
	 .since = 11,
	 .in = tensors_in,
	 .out = sequence_out,
	 .infer = construct_infer,
	 HOST},
	{.name = "SequenceEmpty",
	 .since = 11,
	 .in = none_in,
	 .out = sequence_out,
	 ATTRS(empty_attrs, struct sequence_empty_params),
	 .infer = empty_infer,
	 HOST},
	{.name = "SequenceAt", .since = 11, .in = at_in, .out = tensor_out, .infer = at_infer, HOST},
	{.name = "SequenceErase",
	 .since = 11,
	 .in = erase_in,
	 .out = sequence_out,
	 .infer = same_sequence_infer,
	 HOST},
	{.name = "SequenceInsert",
	 .since = 11,
	 .in = insert_in,
	 .out = sequence_out,
	 .infer = insert_infer,
	 HOST},
	{.name = "SequenceLength",
	 .since = 11,
	 .in = sequence_in,
	 .out = length_out,
	 .infer = length_infer,
	 HOST},
	{.name = "ConcatFromSequence",
	 .since = 11,
	 .in = sequence_in,
	 .out = tensor_out,
	 ATTRS(concat_attrs, struct concat_from_sequence_params),
	 .infer = concat_infer,
	 HOST},
	{.name = "SplitToSequence",
	 .since = 24,
	 .in = split_in,
	 .out = sequence_out,
	 .types = T_ALL_13,
	 ATTRS(split_attrs, struct split_to_sequence_params),
	 .infer = split_infer,
	 HOST},
	{.name = "SplitToSequence", .since = 11, .types = T_ALL_OLD},
	{.name = "Optional",
	 .since = 28,
	 .in = optional_in,
	 .out = optional_out,
	 ATTRS(optional_attrs, struct optional_params),
	 .infer = optional_infer,
	 HOST},
	{.name = "Optional", .since = 15, .in = optional_old_in, .flags = OP_READ_AS_NEWEST},
	{.name = "OptionalHasElement",
	 .since = 28,
	 .in = optional_in,
	 .out = has_out,
	 .infer = has_infer,
	 HOST},
	{.name = "OptionalHasElement", .since = 18, .in = optional_old_in, .flags = OP_READ_AS_NEWEST},
	{.name = "OptionalHasElement", .since = 15, .in = get_in},
	{.name = "OptionalGetElement",
	 .since = 28,
	 .in = get_in,
	 .out = optional_out,
	 .infer = get_infer,
	 HOST},
	{.name = "OptionalGetElement", .since = 18, .in = get_old_in, .flags = OP_READ_AS_NEWEST},
	{.name = "OptionalGetElement", .since = 15, .in = get_old_in, .flags = OP_READ_AS_NEWEST},
	{0}};
