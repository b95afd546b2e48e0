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
	/* com.microsoft; 0 is as good as 1 for dilation, which ai.onnx's operator does not have */
	int64_t ndim, dilation, channels_last;
	/* of ONNX Runtime's CUDA kernel alone: supported are the defaults */
	int64_t input_channels, input_channel_offset, state_length, state_channels_last,
		state_update_capacity;
	int64_t state_window; /* the states after this number of last positions are kept; 0: one state */
};
enum { CAUSAL_MICROSOFT = 1, CAUSAL_MAX_WINDOW = 8 }; /* a variant; most states */
/* Number of positions before the current one that the kernel of `taps` reads, which are the state. */
static inline int64_t causal_state(const struct causal_conv *p, int64_t taps)
{
	return (taps - 1) * (p->dilation > 1 ? p->dilation : 1);
}

/* Col2Im: sizes of the image and of the block are inputs, not attributes. */
struct col2im {
	struct window_attrs window;
};

/*
 * Fills the window of a ConvTranspose: w->in has the sizes of X, w->out the sizes of the output, begin and end the
 * number of elements cut off the full output at either side. x and weight are shapes. Returns NULL, or a text in d's
 * arena that says what is wrong.
 */
const char *conv_transpose_window(struct window *w, const struct conv_transpose *p,
				  const struct shape *x, const struct shape *weight, struct diag *d);

#endif
