/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_CONV_H
#define OPS_CONV_H
#include "ops/infer_util.h"
#include "ops/window.h"

/* Conv */
struct conv {
	struct window_attrs window;
	int64_t group;
};

/* com.microsoft::FusedConv: Y = act(Conv(X, W, B) + Z) */
struct ms_conv {
	struct window_attrs window;
	int64_t group;
	const char *activation;
	struct floats activation_params;
};

struct conv_transpose {
	struct window_attrs window;
	int64_t group;
	struct ints output_padding, output_shape;
};

struct deform_conv {
	struct window_attrs window;
	int64_t group, offset_group;
};

enum { CAUSAL_NONE, CAUSAL_SILU, CAUSAL_SWISH };
struct causal_conv {
	int activation;
};

/* Col2Im: sizes of the image and of the block are inputs, not attributes. */
struct col2im {
	struct window_attrs window;
};

/*
 * Checks X [N, C, ...] against weights [M, C/group, ...] and the bias [M], which is input number `bias` (0 if there
 * is none). Returns 0, or the code of a finding that it reported.
 */
int infer_conv_channels(const struct infer *c, int64_t group, const struct shape *x,
			const struct shape *w, int bias);

/*
 * Fills the window of a ConvTranspose: w->in has the sizes of X, w->out the sizes of the output, begin and end the
 * number of elements cut off the full output at either side. x and weight are shapes. Returns NULL, or a text in d's
 * arena that says what is wrong.
 */
const char *conv_transpose_window(struct window *w, const struct conv_transpose *p,
				  const struct shape *x, const struct shape *weight, struct diag *d);

#endif
