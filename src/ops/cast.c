/* SPDX-License-Identifier: Apache-2.0 */
/* Cast and CastLike: conversions of the element type. */
#include "ops/cast.h"

#include "ops/infer_util.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define T_CAST	  (T_ALL & ~T_COMPLEX)
#define T_CAST_9  (T_NUMERIC | T_BOOL | T_STRING)
#define T_CAST_13 (T_CAST_9 | T_BF16)
#define T_CAST_19 (T_CAST_13 | T_F8)
#define T_CAST_21 (T_CAST_19 | T_4BIT)
#define T_CAST_23 (T_CAST_21 | T_F4)
#define T_CAST_24 (T_CAST_23 | T_F8E8M0)
#define T_CAST_28 (T_CAST | T_F6)

static const struct slot cast_in[] = {SLOT("input", "T", T_CAST_28), SLOT_END};
static const struct slot cast_out[] = {SLOT("output", NULL, T_CAST_28), SLOT_END};
static const struct slot like_in[] = {SLOT("input", "T", T_CAST), SLOT("target_type", "T2", T_CAST),
				      SLOT_END};
static const struct slot like_out[] = {SLOT("output", "T2", T_CAST), SLOT_END};

#define ROUND(in_)                                                                                 \
	FIELD_ENUM(in_, round_mode, "up", "up|down|nearest",                                       \
		   "how powers of two (float8e8m0) are rounded")

static const struct field cast_attrs[] = {
	FIELD_REQ(struct cast, to, F_INT, "element type of the output"),
	FIELD(struct cast, saturate, F_INT, "1", "float8: what is too large becomes the largest"),
	ROUND(struct cast),
	{0}};
static const struct field like_attrs[] = {FIELD(struct cast_like, saturate, F_INT, "1",
						"float8: what is too large becomes the largest"),
					  ROUND(struct cast_like),
					  {0}};

/* Opsets 1 to 5 gave the type by name, such as "FLOAT". */
struct cast_1 {
	const char *to;
};
static const struct field cast_1_attrs[] = {
	FIELD_REQ(struct cast_1, to, F_STRING, "element type of the output, as text"), {0}};

static int upgrade_cast(struct edit *e)
{
	const struct cast_1 *old = e->node->params;
	struct cast *now = edit_params(e);
	char name[32] = {0};

	for (size_t i = 0; old->to && old->to[i] && i + 1 < sizeof(name); i++)
		name[i] = (char)tolower((unsigned char)old->to[i]);
	now->to = dtype_parse(name);
	if (now->to == DT_NONE)
		return edit_fail(e, E_OP_ATTRIBUTE, "to: the name of a type", old->to);
	return 0;
}

static int infer_cast(struct infer *c)
{
	const struct cast *p = infer_params(c);
	struct vinfo *y = infer_out(c, 0);
	const struct vinfo *x = infer_in(c, 0);

	if (p->to <= 0 || p->to >= DT_COUNT || !(T_BIT(p->to) & T_CAST_28))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "to: a type that can be cast to",
				  fmt(c->diag, "%" PRId64, p->to));
	infer_same_as(c, (enum dtype)p->to);
	/* what is known of the elements of a small integer list stays known */
	if (x && y && (p->to == DT_I64 || p->to == DT_I32) &&
	    (x->type.dtype == DT_I64 || x->type.dtype == DT_I32))
		y->ints = x->ints;
	return 0;
}

static int infer_cast_like(struct infer *c)
{
	return infer_same_as(c, infer_dtype(c, 1));
}

#define OLD_24_TO_19(name_)                                                                        \
	OLD(name_, 24, T_CAST_24), OLD(name_, 23, T_CAST_23), OLD(name_, 21, T_CAST_21),           \
		OLD(name_, 19, T_CAST_19)

const struct op ops_cast[] = {{.name = "Cast",
			       .since = 28,
			       .in = cast_in,
			       .out = cast_out,
			       .types = T_CAST_28,
			       ATTRS(cast_attrs, struct cast),
			       .infer = infer_cast,
			       .flags = OP_ELEMENTWISE | OP_PASSES},
			      OLD("Cast", 25, T_CAST),
			      OLD_24_TO_19("Cast"),
			      OLD("Cast", 13, T_CAST_13),
			      OLD("Cast", 9, T_CAST_9),
			      OLD("Cast", 6, T_NUMERIC | T_BOOL),
			      {.name = "Cast",
			       .since = 1,
			       .in = cast_in,
			       .out = cast_out,
			       .types = T_NUMERIC | T_BOOL,
			       ATTRS(cast_1_attrs, struct cast_1),
			       .upgrade = upgrade_cast},
			      {.name = "CastLike",
			       .since = 25,
			       .in = like_in,
			       .out = like_out,
			       .types = T_CAST,
			       ATTRS(like_attrs, struct cast_like),
			       .infer = infer_cast_like,
			       .flags = OP_ELEMENTWISE | OP_PASSES},
			      OLD_24_TO_19("CastLike"),
			      OLD("CastLike", 15, T_CAST_13),
			      {0}};
