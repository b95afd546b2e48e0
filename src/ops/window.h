/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_WINDOW_H
#define OPS_WINDOW_H
/*
 * The sliding window of convolutions and poolings: its attributes, and sizes and pads along each axis for an input
 * shape. Shape functions and kernels both use it.
 */
#include "ops/op.h"

enum auto_pad { PAD_NOTSET, PAD_SAME_UPPER, PAD_SAME_LOWER, PAD_VALID };
#define AUTO_PAD_CHOICES "NOTSET|SAME_UPPER|SAME_LOWER|VALID"

/* Must begin as struct fused_conv, the params of infer::Conv, does: same members in the same order. */
struct window_attrs {
	int auto_pad; /* enum auto_pad */
	struct ints dilations, kernel_shape, pads, strides;
};

/* Attribute rows for a params struct type_ that has a struct window_attrs named `window`. */
#define WINDOW_FIELD(type_, member, ftype_, def_, help_)                                           \
	{                                                                                          \
		.name = #member, .type = (ftype_), .off = offsetof(type_, window.member),          \
		.def = (def_), .help = (help_)                                                     \
	}
#define WINDOW_AUTO_PAD(type_)                                                                     \
	{                                                                                          \
		.name = "auto_pad", .type = F_ENUM, .off = offsetof(type_, window.auto_pad),       \
		.def = "NOTSET", .choices = AUTO_PAD_CHOICES,                                      \
		.help = "how to pad: as pads say, or so that the output is input / stride"         \
	}
#define WINDOW_FIELDS(type_) WINDOW_FIELDS_IN(NULL, type_)
/* The same of an operator that has dilations in some versions only (see struct field). */
#define WINDOW_FIELDS_IN(dilations_, type_)                                                           \
	WINDOW_AUTO_PAD(type_),                                                                       \
		{.name = "dilations",                                                                 \
		 .type = F_INTS,                                                                      \
		 .off = offsetof(type_, window.dilations),                                            \
		 .versions = (dilations_),                                                            \
		 .help = "distance of the window's elements"},                                        \
		WINDOW_FIELD(type_, kernel_shape, F_INTS, NULL, "size of the window"),                \
		WINDOW_FIELD(type_, pads, F_INTS, NULL, "begin of each axis, then end of each axis"), \
		WINDOW_FIELD(type_, strides, F_INTS, NULL, "step of the window")

/* The attribute row of `group` of a convolution. */
#define GROUP_FIELD(type_)                                                                         \
	{                                                                                          \
		.name = "group", .type = F_INT, .off = offsetof(type_, group), .def = "1",         \
		.help = "groups that the channels are divided into", .min = 1, .max = INT32_MAX    \
	}

/* A window over n spatial axes; in and out are sizes of input and output, begin and end are pads. Unknown sizes are below 0. */
struct window {
	int n; /* spatial axes */
	int64_t in[MAX_RANK], out[MAX_RANK], kernel[MAX_RANK];
	int64_t stride[MAX_RANK], dilation[MAX_RANK];
	int64_t begin[MAX_RANK], end[MAX_RANK];
};

/*
 * Fills *w for input x [N, C, spatial...]. Without kernel_shape the dims of weight from 2 on are the kernel size; if
 * weight is NULL, kernel_shape is required. ceil is ceil_mode. Returns NULL, or a text in the arena of d that says
 * what was expected.
 */
const char *window_set(struct window *w, const struct window_attrs *a, const struct shape *x,
		       const struct shape *weight, bool ceil, struct diag *d);
/*
 * Does the part of window_set that needs no input: checks the attributes and fills in defaults. Leaves in, out and
 * automatic pads unset.
 */
const char *window_lists(struct window *w, const struct window_attrs *a, int n,
			 const struct shape *weight, struct diag *d);

/* Whether the window is larger than the padded input along an axis; window_set() has then set an output size of 0. */
bool window_too_large(const struct window *w);

/* Sets the window that covers all spatial axes of x [N, C, spatial...], as that of the global poolings. */
void window_whole(struct window *w, const struct shape *x);

/* Products over the spatial axes; -1 on overflow. */
int64_t window_size(const struct window *w);   /* of kernel */
int64_t window_inputs(const struct window *w); /* of in */
int64_t window_outputs(const struct window *w);

#endif
