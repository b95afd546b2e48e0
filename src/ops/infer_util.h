/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_INFER_UTIL_H
#define OPS_INFER_UTIL_H
/* Shape functions that many operators share. Each is a `.infer` or a helper for one. */
#include "ops/op.h"

/* Output 0 (and every further one) has type and shape of input 0. */
int infer_same(struct infer *c);
/* Output 0 is the numpy broadcast of all inputs; dtype bound by the slots. */
int infer_broadcast(struct infer *c);
/* The same, dtype bool. */
int infer_broadcast_bool(struct infer *c);
/* Output 0 has input 0's shape and this dtype. */
int infer_same_as(struct infer *c, enum dtype t);
/* axis checked against rank of input i: 0..rank-1, or -code. Rank unknown: -1 is not an error, *axis = -1. */
int infer_axis(const struct infer *c, uint32_t i, int64_t axis, int *out);
/* dims of input i; SHAPE_UNKNOWN where left out */
struct shape infer_shape(const struct infer *c, uint32_t i);
enum dtype infer_dtype(const struct infer *c, uint32_t i);
/* Unify two dims that must be equal: the known one; E-SHAPE where they differ. */
int infer_unify(const struct infer *c, int slot, int64_t a, int64_t b, int64_t *out);
/* What Gather makes: dimension `axis` of x gives way to those of i; -E_RANK where that are too many. */
int infer_gathered(const struct infer *c, const struct shape *x, int axis, const struct shape *i,
		   struct shape *out);
/*
 * Convolution and pooling: spatial output size of one dimension; unknown in, unknown out.
 * pads begin/end; ceil: ceil_mode. Result may be <= 0 (the caller reports).
 */
int64_t conv_dim(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t begin,
		 int64_t end, bool ceil);

/* Slots that repeat: use as `.in = slots_X` etc. Types are the newest ones. */
#define SLOT(name_, tvar_, types_)                                                                 \
	{                                                                                          \
		.name = (name_), .tvar = (tvar_), .types = (types_)                                \
	}
#define SLOT_OPT(name_, tvar_, types_)                                                             \
	{                                                                                          \
		.name = (name_), .tvar = (tvar_), .types = (types_), .optional = true              \
	}
#define SLOT_END                                                                                   \
	{                                                                                          \
		0                                                                                  \
	}

/* ---- rows of the tables ---- */

/* An old version that took fewer types. */
#define OLD(name_, since_, types_)                                                                 \
	{                                                                                          \
		.name = (name_), .since = (since_), .types = (types_)                              \
	}
/* An attribute that is one of `choices_` ("a|b|c"): its number among them, in an enum member of its name. */
#define FIELD_ENUM(type_, member, def_, choices_, help_)                                           \
	{                                                                                          \
		.name = #member, .type = F_ENUM, .off = offsetof(type_, member), .def = (def_),    \
		.choices = (choices_), .help = (help_)                                             \
	}
#define ATTRS(table, type) .attrs = (table), .params_size = sizeof(type)
#define MICROSOFT	   .domain = "com.microsoft", .since = 1

#endif
