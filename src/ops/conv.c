/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/conv.h"

#include "ops/fused.h"
#include "ops/infer_util.h"
#include "ops/upgrade.h"

#include <inttypes.h>
#include <math.h>

static int window_infer(struct infer *c, const struct window_attrs *a)
{
	struct shape x = infer_shape(c, 0), w = infer_shape(c, 1), y;
	struct window win;

	y = SHAPE_UNKNOWN;
	if (x.rank >= 0) {
		const char *bad = window_set(&win, a, &x, &w, false, c->diag);
		if (bad)
			return infer_fail(c, E_OP_ATTRIBUTE, -1, bad, NULL);
		if (window_too_large(&win))
			return infer_fail_shape(
				c, 0, "an input, with its pads, as large as the kernel", &x);
		y.rank = x.rank;
		y.dim[0] = x.dim[0];
		y.dim[1] = w.rank >= 0 ? w.dim[0] : DIM_UNKNOWN;
		for (int i = 0; i < win.n; i++)
			y.dim[i + 2] = win.out[i];
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int conv_infer(struct infer *c)
{
	const struct conv *p = infer_params(c);

	return window_infer(c, &p->window);
}

static int ms_conv_infer(struct infer *c)
{
	const struct ms_conv *p = infer_params(c);

	return window_infer(c, &p->window);
}

/* com.microsoft::FusedConv becomes infer::Conv, which adds Z, followed by a node for the activation. */
static int ms_conv_upgrade(struct edit *e)
{
	const struct ms_conv *p = e->node->params;
	const struct floats *a = &p->activation_params;
	struct fused_conv *f = edit_become(e, "infer::Conv");

	f->auto_pad = p->window.auto_pad;
	f->dilations = p->window.dilations;
	f->kernel_shape = p->window.kernel_shape;
	f->pads = p->window.pads;
	f->strides = p->window.strides;
	f->group = p->group;
	return edit_activation(e, 0, p->activation, a->n > 0 ? a->v[0] : NAN,
			       a->n > 1 ? a->v[1] : NAN);
}

/* NhwcFusedConv: FusedConv whose X, Z and Y have the channels last; the weights have them where FusedConv has them. */
static int nhwc_conv_upgrade(struct edit *e)
{
	int err = edit_channels_first(e);

	if (!err && e->node->nin > 3 && e->node->in[3] != NO_VALUE)
		err = edit_input_channels_first(e, 3);
	return err ? err : ms_conv_upgrade(e);
}

/* com.microsoft::NhwcConv: Conv whose input, weights and output have the channels last. */
static int nhwc_plain_upgrade(struct edit *e)
{
	struct conv old = *(const struct conv *)e->node->params;
	int err = edit_channels_first(e);

	if (err || (err = edit_input_channels_first(e, 1)))
		return err;
	*(struct conv *)edit_become(e, "Conv") = old;
	return 0;
}

/* ---- ConvTransposeWithDynamicPads ---------------------------------------------------------------- */

static int dynamic_pads_infer(struct infer *c)
{
	const struct conv_transpose *p = infer_params(c);
	struct shape x = infer_shape(c, 0), pads = infer_shape(c, 2);

	if (p->window.auto_pad != PAD_NOTSET)
		return infer_fail(c, E_OP_UNSUPPORTED, -1, "auto_pad NOTSET, as Pads has the pads",
				  NULL);
	if (x.rank >= 0 && pads.rank == 1 && pads.dim[0] >= 0 && pads.dim[0] != 2 * (x.rank - 2))
		return infer_fail_shape(c, 2, fmt(c->diag, "[%d]", 2 * (x.rank - 2)), &pads);
	if (x.rank >= 0) {
		struct shape w = infer_shape(c, 1);
		int32_t rank = x.rank;
		x = (struct shape){.rank = rank, .dim = {x.dim[0]}};
		for (int i = 1; i < rank; i++)
			x.dim[i] = DIM_UNKNOWN;
		if (w.rank >= 2)
			x.dim[1] = known_product(w.dim[1], p->group);
	}
	infer_set(c, 0, infer_dtype(c, 0), &x);
	return 0;
}

/* Pads cut off elements at either end; negative ones add elements, which have the bias alone. */
static const char *dynamic_pads_text(const struct graph *g, const struct node *n)
{
	const char *conv = "{strides=$strides, dilations=$dilations, group=$group, "
			   "kernel_shape=$kernel_shape, output_padding=$output_padding}";

	if (!node_in(g, n, 2))
		return arena_printf(g->arena, "Y = ConvTranspose(X, W, B?) %s", conv);
	return arena_printf(
		g->arena,
		"whole = ConvTranspose(X, W) %s; half = Div(Shape(Pads), [2]); "
		"cut = Concat([0, 0], Slice(Pads, [0], half), [0, 0], Slice(Pads, half, [2147483647])) {axis=0}; "
		"%s = Pad(whole, Neg(cut))%s",
		conv, node_in(g, n, 3) ? "y" : "Y",
		node_in(g, n, 3)
			? "; Y = Add(y, Reshape(B, Concat([-1], Expand(Div(half, half), half)) {axis=0}))"
			: "");
}

/* ---- WordConvEmbedding ---------------------------------------------------------------------------- */

struct word_conv {
	int64_t embedding_size, conv_window_size, char_embedding_size;
};

static int word_conv_infer(struct infer *c)
{
	const struct word_conv *p = infer_params(c);
	struct shape words = infer_shape(c, 0), w = infer_shape(c, 1), y;
	const int64_t want[3] = {p->embedding_size, p->conv_window_size, p->char_embedding_size};
	const int at[3] = {0, 2, 3};

	for (int i = 0; i < 3 && w.rank == 4; i++)
		if (want[i] != -1 && w.dim[at[i]] >= 0 && w.dim[at[i]] != want[i])
			return infer_fail_shape(
				c, 1, fmt(c->diag, "%" PRId64 " in dimension %d", want[i], at[i]), &w);
	if (w.rank == 4 && words.rank == 2 && w.dim[2] >= 0 && words.dim[1] >= 0 &&
	    (!w.dim[2] || w.dim[2] > words.dim[1]))
		return infer_fail_shape(
			c, 0, fmt(c->diag, "words of %" PRId64 " characters or more", w.dim[2]),
			&words);
	y = shape_of(2, (int64_t[]){words.rank == 2 ? words.dim[0] : DIM_UNKNOWN,
				    w.rank == 4 ? w.dim[0] : DIM_UNKNOWN});
	infer_set(c, 0, infer_dtype(c, 1), &y);
	return 0;
}

/*
 * Only windows that start within a word count, and at least the first of each word; character ids that are not positive are padding.
 * A word that begins with padding yields zeros.
 */
#define WORD_CONV_TEXT                                                                             \
	"there = Greater(Sequence, 0); all = ReduceSum(Cast(there) {to=7}, [1]); "                 \
	"length = Mul(all, Cast(Slice(there, [0], [1], [1])) {to=7}); "                            \
	"e = Unsqueeze(Gather(C, Max(Sequence, 0)), [1]); "                                        \
	"y = Tanh(Squeeze(Conv(e, W, B), [3])); "                                                  \
	"last = Sub(Max(length, Shape(W) {start=2, end=3}), Shape(W) {start=2, end=3}); "          \
	"at = Range(0, Squeeze(Shape(y) {start=2}), 1); "                                          \
	"best = ReduceMax(Where(Unsqueeze(Greater(at, last), [1]), -1e12, y), [2]) {keepdims=0}; " \
	"Y = Where(Greater(length, 0), best, 0.0)"

static int deform_infer(struct infer *c)
{
	const struct deform_conv *p = infer_params(c);
	struct shape x = infer_shape(c, 0), y;
	int rc;

	if (p->offset_group < 1 || (x.rank == 4 && x.dim[1] >= 0 && x.dim[1] % p->offset_group))
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "an offset_group that divides the channels",
				  fmt(c->diag, "%" PRId64, p->offset_group));
	rc = window_infer(c, &p->window);
	if (rc || x.rank < 0)
		return rc;
	y = infer_out(c, 0) ? infer_out(c, 0)->shape : SHAPE_UNKNOWN;
	for (uint32_t i = 2; i <= 4; i += 2) { /* offset, mask */
		struct shape s = infer_shape(c, i), w = infer_shape(c, 1);
		if (s.rank < 0 || y.rank < 0 || w.rank < 0 || !shape_known(&s) ||
		    !shape_known(&y) || !shape_known(&w))
			continue;
		int64_t k = known_product(known_product(w.dim[2], w.dim[3]),
					  p->offset_group * (i == 2 ? 2 : 1));
		struct shape want = shape_of(4, (int64_t[]){y.dim[0], k, y.dim[2], y.dim[3]});
		if (!shape_equal(&s, &want))
			return infer_fail_shape(c, (int)i, infer_shape_text(c, &want), &s);
	}
	return 0;
}

static int64_t conv_macs(const struct infer *c)
{
	const struct vinfo *y = infer_out(c, 0);
	struct shape w = infer_shape(c, 1);

	if (!y || w.rank < 2)
		return 0;
	return known_product(shape_count(&y->shape), shape_span(&w, 1, w.rank));
}

/* ---- ConvTranspose ---------------------------------------------------------------------------- */

static void transpose_pads(struct window *w, int i, int64_t total, bool upper)
{
	if (total < 0)
		total = 0;
	w->begin[i] = upper ? total / 2 : total - total / 2;
	w->end[i] = total - w->begin[i];
}

const char *conv_transpose_window(struct window *w, const struct conv_transpose *p,
				  const struct shape *x, const struct shape *weight, struct diag *d)
{
	int n = x->rank - 2, skip = 0;
	const char *bad = window_lists(w, &p->window, n, weight, d);
	bool same = p->window.auto_pad == PAD_SAME_UPPER || p->window.auto_pad == PAD_SAME_LOWER;

	if (bad)
		return bad;
	if (p->output_shape.n == n + 2)
		skip = 2; /* some exporters write N and C before the spatial sizes */
	else if (p->output_shape.n > 0 && p->output_shape.n != n)
		return fmt(d, "output_shape of %d numbers, not %" PRId64, n, p->output_shape.n);
	if (p->output_padding.n > 0 && p->output_padding.n != n)
		return fmt(d, "output_padding of %d numbers, not %" PRId64, n, p->output_padding.n);
	for (int i = 0; i < n; i++) {
		int64_t extra = p->output_padding.n > 0 ? p->output_padding.v[i] : 0, full;
		w->in[i] = x->dim[i + 2];
		if (extra < 0 || extra >= INT64_C(1) << 31 || w->in[i] >= INT64_C(1) << 31)
			return "sizes below 2^31";
		full = w->in[i] < 0 || w->kernel[i] < 0
			       ? DIM_UNKNOWN
			       : w->stride[i] * (w->in[i] - 1) + extra +
					 (w->kernel[i] - 1) * w->dilation[i] + 1;
		if (p->output_shape.n > 0) {
			w->out[i] = p->output_shape.v[i + skip];
			if (w->out[i] < 0)
				return "output_shape without negative numbers";
			transpose_pads(w, i, full - w->out[i], p->window.auto_pad == PAD_SAME_UPPER);
		} else if (w->in[i] < 0 || w->kernel[i] < 0) {
			w->out[i] = same && w->stride[i] == 1 && p->output_padding.n <= 0
					    ? w->in[i]
					    : DIM_UNKNOWN;
		} else if (same) {
			/* the output size is in * stride, or larger if the pads would have to be negative */
			transpose_pads(w, i, full - w->in[i] * w->stride[i],
				       p->window.auto_pad == PAD_SAME_UPPER);
			w->out[i] = full - w->begin[i] - w->end[i];
		} else {
			w->out[i] = full - w->begin[i] - w->end[i];
			if (w->out[i] < 0)
				return fmt(d, "pads that leave something, not %" PRId64, w->out[i]);
		}
	}
	return NULL;
}

static int transpose_infer(struct infer *c)
{
	const struct conv_transpose *p = infer_params(c);
	struct shape x = infer_shape(c, 0), w = infer_shape(c, 1), y = SHAPE_UNKNOWN;
	struct window win;
	int64_t m = w.rank >= 2 ? known_product(w.dim[1], p->group) : DIM_UNKNOWN;

	if (x.rank >= 0) {
		const char *bad = conv_transpose_window(&win, p, &x, &w, c->diag);
		if (bad)
			return infer_fail(c, E_OP_ATTRIBUTE, -1, bad, NULL);
		y.rank = x.rank;
		y.dim[0] = x.dim[0];
		y.dim[1] = m;
		for (int i = 0; i < win.n; i++)
			y.dim[i + 2] = win.out[i];
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

static int64_t transpose_macs(const struct infer *c)
{
	struct shape x = infer_shape(c, 0), w = infer_shape(c, 1);

	return w.rank < 2 ? 0 : known_product(shape_count(&x), shape_span(&w, 1, w.rank));
}

/* ---- CausalConvWithState ---------------------------------------------------------------------- */

static int causal_infer(struct infer *c)
{
	struct shape x = infer_shape(c, 0), w = infer_shape(c, 1), s = infer_shape(c, 3);
	struct shape state = {.rank = 3, .dim = {DIM_UNKNOWN, DIM_UNKNOWN, DIM_UNKNOWN}};

	if (w.rank == 3 && w.dim[2] == 0)
		return infer_fail_shape(c, 1, "a kernel of 1 or more", &w);
	if (x.rank == 3) {
		state.dim[0] = x.dim[0];
		state.dim[1] = x.dim[1];
	}
	if (w.rank == 3 && w.dim[2] > 0)
		state.dim[2] = w.dim[2] - 1;
	if (shape_known(&s) && shape_known(&state) && !shape_equal(&s, &state))
		return infer_fail_shape(c, 3, infer_shape_text(c, &state), &s);
	infer_set(c, 0, infer_dtype(c, 0), &x);
	infer_set(c, 1, infer_dtype(c, 0), &state);
	return 0;
}

static int check_causal_attributes(const struct infer *c)
{
	const struct causal_conv *p = infer_params(c);

	if (p->ndim != 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "ndim of 1",
				  fmt(c->diag, "%" PRId64, p->ndim));
	if (p->dilation < 1)
		return infer_fail(c, E_OP_ATTRIBUTE, -1, "dilation of 1 or more",
				  fmt(c->diag, "%" PRId64, p->dilation));
	if (p->state_window < 0 || p->state_window > CAUSAL_MAX_WINDOW)
		return infer_fail(c, E_OP_ATTRIBUTE, -1,
				  fmt(c->diag, "state_window from 0 to %d", CAUSAL_MAX_WINDOW),
				  fmt(c->diag, "%" PRId64, p->state_window));
	if (p->input_channels || p->input_channel_offset || p->state_length ||
	    p->state_channels_last != -1 || p->state_update_capacity)
		return infer_fail(
			c, E_OP_ATTRIBUTE, -1,
			"input_channels, input_channel_offset, state_length, state_channels_last and "
			"state_update_capacity as they are by default",
			NULL);
	return 0;
}

/* com.microsoft's operator: the state has the dimensions of x with its own length, and before them those of the window. */
static int ms_causal_infer(struct infer *c)
{
	const struct causal_conv *p = infer_params(c);
	struct shape x = infer_shape(c, 0), w = infer_shape(c, 1), s = infer_shape(c, 3), state = x;
	int64_t channels = DIM_UNKNOWN, same;
	int err = check_causal_attributes(c), first = p->state_window > 0;

	if (err)
		return err;
	if (x.rank >= 0 && (p->channels_last ? x.rank < 3 || x.rank == MAX_RANK : x.rank != 3))
		return infer_fail_shape(c, 0, p->channels_last ? "rank 3 or more" : "rank 3", &x);
	if (w.rank == 3 && w.dim[2] == 0)
		return infer_fail_shape(c, 1, "a kernel of 1 or more", &w);
	if (x.rank > 0) {
		channels = p->channels_last ? shape_span(&x, 2, x.rank) : x.dim[1];
		err = infer_unify(c, 1, channels, w.rank == 3 ? w.dim[0] : DIM_UNKNOWN, &same);
		state.rank = x.rank + first;
		memcpy(state.dim + first, x.dim, (size_t)x.rank * sizeof(*x.dim));
		if (first)
			state.dim[0] = p->state_window;
		state.dim[first + (p->channels_last ? 1 : 2)] =
			w.rank == 3 && w.dim[2] > 0 ? known_product(w.dim[2] - 1, p->dilation)
						    : DIM_UNKNOWN;
	}
	if (!err && shape_known(&s) && shape_known(&state) && !shape_equal(&s, &state))
		return infer_fail_shape(c, 3, infer_shape_text(c, &state), &s);
	infer_set(c, 0, infer_dtype(c, 0), &x);
	infer_set(c, 1, infer_dtype(c, 0), &state);
	return err;
}

static int64_t causal_macs(const struct infer *c)
{
	struct shape x = infer_shape(c, 0), w = infer_shape(c, 1);

	return w.rank == 3 ? known_product(shape_count(&x), w.dim[2]) : 0;
}

/* ---- Col2Im ----------------------------------------------------------------------------------- */

static int col2im_infer(struct infer *c)
{
	const struct col2im *p = infer_params(c);
	struct shape x = infer_shape(c, 0), image, block, y = SHAPE_UNKNOWN;
	struct window w = {0};
	int64_t positions = 1;
	bool have = infer_ints(c, 1, &image), have_block = infer_ints(c, 2, &block);

	if (have && !image.rank)
		return infer_fail(c, E_SHAPE, 1, "a size for each of one or more dimensions", "none");
	if (!have || image.rank > MAX_RANK - 2) {
		struct shape is = infer_shape(c, 1);
		if (is.rank == 1 && is.dim[0] >= 0 && is.dim[0] <= MAX_RANK - 2) {
			y.rank = (int32_t)is.dim[0] + 2;
			for (int i = 0; i < y.rank; i++)
				y.dim[i] = i == 0 && x.rank == 3 ? x.dim[0] : DIM_UNKNOWN;
		}
		infer_set(c, 0, infer_dtype(c, 0), &y);
		return 0;
	}
	y.rank = image.rank + 2;
	y.dim[0] = x.rank == 3 ? x.dim[0] : DIM_UNKNOWN;
	y.dim[1] = DIM_UNKNOWN;
	for (int i = 0; i < image.rank; i++)
		y.dim[i + 2] = image.dim[i];
	if (have_block && shape_known(&block) && shape_known(&image) && x.rank == 3) {
		struct shape weight = {.rank = block.rank + 2, .dim = {1, 1}};
		struct shape whole = {.rank = image.rank + 2, .dim = {1, 1}};
		int64_t size = shape_count(&block);
		if (block.rank != image.rank || size <= 0)
			return infer_fail(c, E_SHAPE, 2, "as many positive sizes as image_shape has",
					  infer_shape_text(c, &block));
		for (int i = 0; i < image.rank; i++) {
			weight.dim[i + 2] = block.dim[i];
			whole.dim[i + 2] = image.dim[i];
		}
		const char *bad = window_set(&w, &p->window, &whole, &weight, false, c->diag);
		if (bad)
			return infer_fail(c, E_OP_ATTRIBUTE, -1, bad, NULL);
		positions = window_outputs(&w);
		if (x.dim[1] >= 0 && x.dim[1] % size)
			return infer_fail_shape(
				c, 0, fmt(c->diag, "dimension 1 a multiple of %" PRId64, size), &x);
		if (x.dim[2] >= 0 && x.dim[2] != positions)
			return infer_fail_shape(
				c, 0, fmt(c->diag, "dimension 2 of %" PRId64, positions), &x);
		y.dim[1] = x.dim[1] >= 0 ? x.dim[1] / size : DIM_UNKNOWN;
	}
	infer_set(c, 0, infer_dtype(c, 0), &y);
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------- */

static const struct slot conv_in[] = {SLOT("X", "T", T_FLOATS_BF, .dims = "N $group*C _ _..."),
				      SLOT("W", "T", T_FLOATS_BF, .dims = "$group*M C _ _..."),
				      SLOT_OPT("B", "T", T_FLOATS_BF, .dims = "$group*M"), SLOT_END};
static const struct slot transpose_in[] = {SLOT("X", "T", T_FLOATS_BF, .dims = "N $group*C _ _..."),
					   SLOT("W", "T", T_FLOATS_BF, .dims = "$group*C M _ _..."),
					   SLOT_OPT("B", "T", T_FLOATS_BF, .dims = "$group*M"),
					   SLOT_END};
static const struct slot ms_conv_in[] = {SLOT("X", "T", T_FLOATS, .dims = "N $group*C _ _..."),
					 SLOT("W", "T", T_FLOATS, .dims = "$group*M C _ _..."),
					 SLOT_OPT("B", "T", T_FLOATS, .dims = "$group*M"),
					 SLOT_OPT("Z", "T", T_FLOATS), SLOT_END};
static const struct slot nhwc_conv_in[] = {SLOT("X", "T", T_F32 | T_F16, .dims = "_ _ _..."),
					   SLOT("W", "T", T_F32 | T_F16, .dims = "_ _ _..."),
					   SLOT_OPT("B", "T", T_F32 | T_F16, .dims = "_"),
					   SLOT_OPT("Z", "T", T_F32 | T_F16, .dims = "_ _ _..."),
					   SLOT_END};
static const struct slot nhwc_plain_in[] = {SLOT("X", "T", T_FLOATS, .dims = "N _ _... $group*C"),
					    SLOT("W", "T", T_FLOATS, .dims = "$group*M _ _... C"),
					    SLOT_OPT("B", "T", T_FLOATS, .dims = "$group*M"),
					    SLOT_END};
static const struct slot dynamic_pads_in[] = {SLOT("X", "T", T_FLOATS, .dims = "N $group*C _ _..."),
					      SLOT("W", "T", T_FLOATS, .dims = "$group*C M _ _..."),
					      SLOT_OPT("Pads", NULL, T_I64, .dims = "_"),
					      SLOT_OPT("B", "T", T_FLOATS, .dims = "$group*M"),
					      SLOT_END};
static const struct slot word_conv_in[] = {
	SLOT("Sequence", "T", T_I32, .dims = "_ _"), SLOT("W", "T1", T_F32, .dims = "M 1 _ E"),
	SLOT("B", "T1", T_F32, .dims = "M"), SLOT("C", "T1", T_F32, .dims = "_ E"), SLOT_END};
static const struct slot word_conv_out[] = {SLOT("Y", "T1", T_F32), SLOT_END};
static const struct slot conv_out[] = {SLOT("Y", "T", T_FLOATS_BF), SLOT_END};
static const struct slot deform_in[] = {SLOT("X", "T", T_FLOATS_BF, .dims = "N $group*C _ _"),
					SLOT("W", "T", T_FLOATS_BF, .dims = "$group*M C _ _"),
					SLOT("offset", "T", T_FLOATS_BF, .dims = "N _ _ _"),
					SLOT_OPT("B", "T", T_FLOATS_BF, .dims = "$group*M"),
					SLOT_OPT("mask", "T", T_FLOATS_BF, .dims = "N _ _ _"),
					SLOT_END};
#define T_CAUSAL (T_F32 | T_F16 | T_BF16)
static const struct slot causal_in[] = {SLOT("input", "T", T_CAUSAL, .dims = "N C _"),
					SLOT("weight", "T", T_CAUSAL, .dims = "C 1 K"),
					SLOT_OPT("bias", "T", T_CAUSAL, .dims = "C"),
					SLOT_OPT("past_state", "T", T_CAUSAL, .dims = "N C _"),
					SLOT_END};
static const struct slot ms_causal_in[] = {SLOT("input", "T", T_CAUSAL),
					   SLOT("weight", "T", T_CAUSAL, .dims = "C 1 _"),
					   SLOT_OPT("bias", "T", T_CAUSAL, .dims = "C"),
					   SLOT_OPT("past_state", "T", T_CAUSAL), SLOT_END};
static const struct slot causal_out[] = {SLOT("output", "T", T_CAUSAL),
					 SLOT_OPT("present_state", "T", T_CAUSAL), SLOT_END};
#define T_COL2IM (T_ALL_OLD | T_BF16)
static const struct slot col2im_in[] = {SLOT("input", "T", T_COL2IM, .dims = "_ _ _"),
					SLOT("image_shape", NULL, T_I64, .dims = "R"),
					SLOT("block_shape", NULL, T_I64, .dims = "R"), SLOT_END};
static const struct slot col2im_out[] = {SLOT("output", "T", T_COL2IM), SLOT_END};

static const struct field conv_attrs[] = {WINDOW_FIELDS(struct conv), GROUP_FIELD(struct conv), {0}};
static const struct field ms_conv_attrs[] = {
	WINDOW_FIELDS(struct ms_conv),
	GROUP_FIELD(struct ms_conv),
	FIELD(struct ms_conv, activation, F_STRING, NULL, "activation behind the convolution"),
	FIELD(struct ms_conv, activation_params, F_FLOATS, NULL, "its parameters"),
	{0}};
static const struct field transpose_attrs[] = {
	WINDOW_FIELDS(struct conv_transpose),
	GROUP_FIELD(struct conv_transpose),
	FIELD(struct conv_transpose, output_padding, F_INTS, NULL, "added at the end of each axis"),
	FIELD(struct conv_transpose, output_shape, F_INTS, NULL,
	      "output size of each axis; pads follow"),
	{0}};
static const struct field dynamic_pads_attrs[] = {
	WINDOW_FIELD(struct conv_transpose, dilations, F_INTS, NULL,
		     "distance of the kernel's elements"),
	WINDOW_FIELD(struct conv_transpose, kernel_shape, F_INTS, NULL, "size of the kernel"),
	WINDOW_FIELD(struct conv_transpose, strides, F_INTS, NULL, "step of the kernel"),
	WINDOW_AUTO_PAD(struct conv_transpose),
	GROUP_FIELD(struct conv_transpose),
	FIELD(struct conv_transpose, output_padding, F_INTS, NULL, "added at the end of each axis"),
	{0}};
static const struct field word_conv_attrs[] = {
	FIELD(struct word_conv, embedding_size, F_INT, "-1", "size of a word's vector"),
	FIELD(struct word_conv, conv_window_size, F_INT, "-1", "characters of a window"),
	FIELD(struct word_conv, char_embedding_size, F_INT, "-1", "size of a character's vector"),
	{0}};
static const struct field deform_attrs[] = {
	WINDOW_FIELD(struct deform_conv, dilations, F_INTS, NULL, "distance of the kernel's elements"),
	WINDOW_FIELD(struct deform_conv, kernel_shape, F_INTS, NULL, "size of the kernel"),
	WINDOW_FIELD(struct deform_conv, pads, F_INTS, NULL, "begin of each axis, then end of each"),
	WINDOW_FIELD(struct deform_conv, strides, F_INTS, NULL, "step of the kernel"),
	GROUP_FIELD(struct deform_conv),
	FIELD(struct deform_conv, offset_group, F_INT, "1", "groups of channels that share offsets"),
	{0}};
#define CAUSAL_FIELD                                                                               \
	FIELD_ENUM(struct causal_conv, activation, "none", "none|silu|swish",                      \
		   "activation behind the convolution")
static const struct field causal_attrs[] = {CAUSAL_FIELD, {0}};
static const struct field ms_causal_attrs[] = {
	CAUSAL_FIELD,
	FIELD(struct causal_conv, ndim, F_INT, "1", "number of spatial dimensions"),
	FIELD(struct causal_conv, dilation, F_INT, "1", "distance of the kernel's elements"),
	FIELD(struct causal_conv, channels_last, F_INT, "0", "1: channels behind the positions"),
	FIELD(struct causal_conv, state_window, F_INT, "0", "number of last states that are kept"),
	FIELD(struct causal_conv, input_channels, F_INT, "0", "channels that are read; 0: all"),
	FIELD(struct causal_conv, input_channel_offset, F_INT, "0", "the first of them"),
	FIELD(struct causal_conv, state_length, F_INT, "0",
	      "positions of the state; 0: as the kernel needs"),
	FIELD(struct causal_conv, state_channels_last, F_INT, "-1", "order of the state; -1: as x"),
	FIELD(struct causal_conv, state_update_capacity, F_INT, "0",
	      "rows of the third output; 0: none"),
	{0}};
static const struct field col2im_attrs[] = {
	WINDOW_FIELD(struct col2im, dilations, F_INTS, NULL, "distance of the block's elements"),
	WINDOW_FIELD(struct col2im, pads, F_INTS, NULL, "begin of each axis, then end of each"),
	WINDOW_FIELD(struct col2im, strides, F_INTS, NULL, "step of the block"),
	{0}};

const struct op ops_conv[] = {{.name = "Conv",
			       .since = 22,
			       .reduced = REDUCED_COMPUTES,
			       .in = conv_in,
			       .out = conv_out,
			       ATTRS(conv_attrs, struct conv),
			       .infer = conv_infer,
			       .macs = conv_macs,
			       .flags = OP_CONVOLUTION},
			      {.name = "Conv", .since = 11, .types = T_FLOATS},
			      {.name = "Conv", .since = 1, .types = T_FLOATS},

			      {.name = "ConvTranspose",
			       .since = 22,
			       .reduced = REDUCED_COMPUTES,
			       .in = transpose_in,
			       .out = conv_out,
			       ATTRS(transpose_attrs, struct conv_transpose),
			       .infer = transpose_infer,
			       .macs = transpose_macs,
			       .flags = OP_CONVOLUTION},
			      {.name = "ConvTranspose", .since = 11, .types = T_FLOATS},
			      {.name = "ConvTranspose", .since = 1, .types = T_FLOATS},

			      {.name = "DeformConv",
			       .since = 22,
			       .in = deform_in,
			       .out = conv_out,
			       ATTRS(deform_attrs, struct deform_conv),
			       .infer = deform_infer,
			       .macs = conv_macs,
			       .flags = OP_CONVOLUTION},
			      {.name = "DeformConv", .since = 19, .types = T_FLOATS},

			      {.name = "CausalConvWithState",
			       .since = 27,
			       .in = causal_in,
			       .out = causal_out,
			       ATTRS(causal_attrs, struct causal_conv),
			       .infer = causal_infer,
			       .flags = OP_CONVOLUTION | OP_OPTIONAL_OUT,
			       .macs = causal_macs},

			      {.name = "CausalConvWithState",
			       MICROSOFT,
			       .variant = CAUSAL_MICROSOFT,
			       .in = ms_causal_in,
			       .out = causal_out,
			       ATTRS(ms_causal_attrs, struct causal_conv),
			       .infer = ms_causal_infer,
			       .flags = OP_CONVOLUTION | OP_OPTIONAL_OUT,
			       .macs = causal_macs},

			      {.name = "Col2Im",
			       .since = 18,
			       .in = col2im_in,
			       .out = col2im_out,
			       ATTRS(col2im_attrs, struct col2im),
			       .infer = col2im_infer},

			      {.name = "FusedConv",
			       MICROSOFT,
			       .in = ms_conv_in,
			       .out = conv_out,
			       ATTRS(ms_conv_attrs, struct ms_conv),
			       .upgrade = ms_conv_upgrade,
			       .infer = ms_conv_infer,
			       .macs = conv_macs,
			       .flags = OP_CONVOLUTION},
			      {.name = "NhwcFusedConv",
			       MICROSOFT,
			       .in = nhwc_conv_in,
			       .out = conv_out,
			       .types = T_F32 | T_F16,
			       ATTRS(ms_conv_attrs, struct ms_conv),
			       .upgrade = nhwc_conv_upgrade,
			       .flags = OP_CONVOLUTION},
			      {.name = "NhwcConv",
			       MICROSOFT,
			       .in = nhwc_plain_in,
			       .out = conv_out,
			       .types = T_FLOATS,
			       ATTRS(conv_attrs, struct conv),
			       .upgrade = nhwc_plain_upgrade,
			       .flags = OP_CONVOLUTION},
			      {.name = "ConvTransposeWithDynamicPads",
			       MICROSOFT,
			       .in = dynamic_pads_in,
			       .out = conv_out,
			       .types = T_FLOATS,
			       ATTRS(dynamic_pads_attrs, struct conv_transpose),
			       .infer = dynamic_pads_infer,
			       .expand_as = dynamic_pads_text,
			       .flags = OP_CONVOLUTION},
			      {.name = "WordConvEmbedding",
			       MICROSOFT,
			       .in = word_conv_in,
			       .out = word_conv_out,
			       ATTRS(word_conv_attrs, struct word_conv),
			       .infer = word_conv_infer,
			       .expand = WORD_CONV_TEXT,
			       .flags = OP_CONVOLUTION},
			      {0}};
