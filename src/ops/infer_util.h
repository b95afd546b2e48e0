/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_INFER_UTIL_H
#define OPS_INFER_UTIL_H
/* Shape functions that many operators share. Each is a `.infer` or a helper for one. */
#include "ops/op.h"

/* Every output has type and shape of input 0. */
int infer_same(struct infer *c);
/* Output 0 has the broadcast shape (numpy rules) of all inputs; its type is bound by the slots. */
int infer_broadcast(struct infer *c);
/* Does what infer_broadcast does, but output 0 is of type bool. */
int infer_broadcast_bool(struct infer *c);
/* Output 0 has the shape of input 0 and type t. */
int infer_same_as(struct infer *c, enum dtype t);
/*
 * Resolves a possibly negative axis against the rank of input i: *out is 0..rank-1, or -1 if the rank is unknown.
 * Returns 0, or -code with a finding.
 */
int infer_axis(const struct infer *c, uint32_t i, int64_t axis, int *out);
/* Shape of input i; SHAPE_UNKNOWN if it is left out. */
struct shape infer_shape(const struct infer *c, uint32_t i);
enum dtype infer_dtype(const struct infer *c, uint32_t i);
/* The shape as text for a finding, "[2,n,4]"; "" if nobody reads findings (c->diag is NULL). */
const char *infer_shape_text(const struct infer *c, const struct shape *s);
/* Fail with E-SHAPE at a slot whose shape is `actual`, or that of the input in this slot. */
int infer_fail_shape(const struct infer *c, int slot, const char *expected,
		     const struct shape *actual);
int infer_refuse_shape(const struct infer *c, int slot, const char *expected);
/*
 * Sets *out to whichever is known of two dims that must be equal. If both are known and differ, that is the error
 * E-SHAPE, reported at slot.
 */
int infer_unify(const struct infer *c, int slot, int64_t a, int64_t b, int64_t *out);
/*
 * Output shape of Gather: x with dimension `axis` replaced by the dims of i. Returns -E_RANK if the result's rank
 * exceeds MAX_RANK.
 */
int infer_gathered(const struct infer *c, const struct shape *x, int axis, const struct shape *i,
		   struct shape *out);
/*
 * For `.expand_when` of elementwise operators, whose expansion would broadcast operands that the row does not let broadcast:
 * whether inputs a and b are known to have one shape before the run, symbolic dimensions included.
 */
bool inputs_agree(const struct graph *g, const struct node *n, uint32_t a, uint32_t b);
/*
 * Output size of a convolution or pooling along one spatial dimension; begin and end are pads, ceil is ceil_mode.
 * Returns DIM_UNKNOWN if `in` is unknown; 0 or less if the kernel does not fit, which the caller reports.
 */
int64_t conv_dim(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t begin,
		 int64_t end, bool ceil);

/*
 * Entries of a slot table (`.in`, `.out`), with the types of the newest version; other members may follow the types:
 * SLOT("B", "T", T_FLOATS, .dims = "M"). The table ends with SLOT_END.
 */
#define SLOT(name_, tvar_, ...)                                                                    \
	{                                                                                          \
		.name = (name_), .tvar = (tvar_), .types = __VA_ARGS__                             \
	}
#define SLOT_OPT(name_, tvar_, ...)                                                                \
	{                                                                                          \
		.name = (name_), .tvar = (tvar_), .optional = true, .types = __VA_ARGS__           \
	}
#define SLOT_END                                                                                   \
	{                                                                                          \
		0                                                                                  \
	}

/* ---- rows of the tables ---- */

/* The row of an old version that differs from the row above it in its types only. */
#define OLD(name_, since_, types_)                                                                 \
	{                                                                                          \
		.name = (name_), .since = (since_), .types = (types_)                              \
	}
/* An attribute whose text is one of choices_ ("a|b|c"). The int member with the attribute's name is set to the number of the choice. */
#define FIELD_ENUM(type_, member, def_, choices_, help_)                                           \
	{                                                                                          \
		.name = #member, .type = F_ENUM, .off = offsetof(type_, member), .def = (def_),    \
		.choices = (choices_), .help = (help_)                                             \
	}
/* A FIELD that the operator has in these versions only (see struct field). */
#define FIELD_IN(versions_, type_, member, ftype_, def_, help_)                                    \
	{                                                                                          \
		.name = #member, .type = (ftype_), .off = offsetof(type_, member), .def = (def_),  \
		.help = (help_), .versions = (versions_)                                           \
	}
#define ATTRS(table, type) .attrs = (table), .params_size = sizeof(type)
#define MICROSOFT	   .domain = "com.microsoft", .since = 1

#endif
