/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_CONV_H
#define OPS_CONV_H
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

/* Col2Im has window attributes only; the sizes come as inputs. */
struct col2im {
	struct window_attrs window;
};

/*
 * ConvTranspose: in and out of the window swap their parts: w->in is X's, w->out the output's;
 * begin and end are what is cut off. NULL or what is wrong.
 */
const char *conv_transpose_window(struct window *w, const struct conv_transpose *p,
				  const struct shape *x, const struct shape *weight, struct diag *d);

#endif
