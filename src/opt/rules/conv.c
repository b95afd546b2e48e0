/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for convolutions: scales and shifts are folded into weights and bias; sums and activations are fused behind. */
#include "ops/fused.h"
#include "opt/rules/guards.h"

static bool fusable(struct match *m)
{
	return is_fusable(m, "x") || match_why(m, "the type is not fp32, fp16 or bf16");
}

/*
 * True if constant o has one element for each of the channels, in the dimension that broadcasts to dimension 1 of the
 * result.
 */
static bool per_channel(const struct match *m, const char *o, int64_t channels, int rank)
{
	const struct tensor *t = match_const(m, o);
	int64_t n = t ? tensor_count(t) : 0;
	int at;

	if (!t || t->shape.rank > rank || n != channels)
		return false;
	at = t->shape.rank - rank + 1; /* the dimension of o that broadcasts to dimension 1 */
	return at >= 0 && t->shape.dim[at] == n;
}

static bool channel_scale(struct match *m)
{
	return fusable(m) && per_channel(m, "s", dim_at(m, "w", 0), match_rank(m, "y")) &&
	       products_fit(m, "w", "s") && products_fit(m, "b", "s");
}

static bool channel_shift(struct match *m)
{
	return fusable(m) && per_channel(m, "o", dim_at(m, "w", 0), match_rank(m, "y")) &&
	       sums_fit(m, "o", "b");
}

static bool scalar_scale(struct match *m)
{
	double v;
	return fusable(m) && match_number(m, "s", &v) && products_fit(m, "w", "s") &&
	       products_fit(m, "b", "s");
}

/* For a scale before the convolution, whose bias is not scaled. */
static bool scale_before(struct match *m)
{
	double v;
	return fusable(m) && match_number(m, "s", &v) && products_fit(m, "w", "s");
}

static bool scalar_shift(struct match *m)
{
	double v;
	return fusable(m) && match_number(m, "o", &v) && sums_fit(m, "o", "b");
}

/* True if the sum of a channel's weights times o, added to the bias, is finite. */
static bool shift_fits(struct match *m)
{
	const struct tensor *w = match_const(m, "w");
	if (!w)
		return match_why(m, "the values of the weights are not known yet");
	double n = (double)(tensor_count(w) / (dim_at(m, "w", 0) ? dim_at(m, "w", 0) : 1));

	return n * largest(m, "w") * largest(m, "o") + largest(m, "b") <= largest_finite(m, "w") ||
	       match_why(m, "the shifted bias would be no finite number");
}

/*
 * True if a constant added before the convolution can go into the bias: the input must not be padded, as pads are not
 * shifted.
 */
static bool shift_before(struct match *m)
{
	double v;
	return fusable(m) && match_number(m, "o", &v) && shift_fits(m) &&
	       (match_attr(m, "c", "auto_pad", 0) == 0 || match_attr(m, "c", "auto_pad", 0) == 3) &&
	       all_zero(match_ints(m, "c", "pads"));
}

static bool normalized(struct match *m)
{
	return fusable(m) && normalization_fits(m, "w", "b");
}

static bool ungrouped(struct match *m)
{
	return is_float(m, "x") && match_attr(m, "c", "group", 1) == 1;
}

static bool deconv_normalized(struct match *m)
{
	return ungrouped(m) && normalization_fits(m, "w", "b");
}

static bool deconv_shift(struct match *m)
{
	return ungrouped(m) && per_channel(m, "o", dim_at(m, "w", 1), match_rank(m, "y"));
}

/* True if the value r that is added to the convolution's result t has the shape of t and is no constant. */
static bool residual(struct match *m)
{
	if (!fusable(m) || match_const(m, "r"))
		return false;
	if (match_value(m, "r") == match_value(m, "t"))
		return match_why(m, "it is added to itself");
	return match_same_shape(m, "r", "t") || match_why(m, "the summands differ in shape");
}

static bool bounds(struct match *m)
{
	double v;

	return fusable(m) && (!match_value(m, "lo") || match_number(m, "lo", &v)) &&
	       (!match_value(m, "hi") || match_number(m, "hi", &v));
}

/*
 * True if the Pad before the convolution adds zeros around spatial dims only and can thus become the convolution's
 * pads.
 */
static bool zero_pads(struct match *m)
{
	const struct tensor *t = match_const(m, "p");
	double v = 0, how = match_attr(m, "c", "auto_pad", 0);
	int rank = match_rank(m, "x");

	if (!fusable(m) || !t || rank < 3 || tensor_count(t) != 2 * rank ||
	    (how != FUSED_NOTSET && how != FUSED_VALID))
		return false;
	if (match_value(m, "v") && (!match_number(m, "v", &v) || v != 0))
		return match_why(m, "the padding is not known to be zero");
	if (!(largest(m, "w") <= largest_finite(m, "w")))
		return match_why(m, "0 times a weight is not known to be 0");
	for (int i = 0; i < 2 * rank; i++) {
		int64_t n = elem_i64(tensor_dtype(t), t->data, i);
		if (n < 0 || n > INT32_MAX / 2 || (n && i % rank < 2))
			return match_why(m, "it crops, or pads batch or channels, or by too much");
	}
	return true;
}

static void add_pads(const struct match *m, void *params, struct arena *a)
{
	const struct tensor *t = match_const(m, "p");
	struct fused_conv *c = params;
	int rank = match_rank(m, "x"), spatial = rank - 2;
	int64_t *pads = arena_new_n(a, int64_t, 2 * (size_t)spatial);

	for (int i = 0; i < 2 * spatial; i++) {
		int at = i < spatial ? 2 + i : rank + 2 + i - spatial;
		bool own = c->auto_pad == FUSED_NOTSET && i < c->pads.n;
		pads[i] = elem_i64(tensor_dtype(t), t->data, at) + (own ? c->pads.v[i] : 0);
	}
	c->auto_pad = FUSED_NOTSET;
	c->pads = (struct ints){pads, 2 * spatial};
}

#define X    "x[2,4,6,6] w[8,4,3,3]"
#define XB   X " b[8]"
#define XR   XB " r[2,8,4,4]"
#define CONV "infer::Conv(x, w, b?, r?) {act=none}"
#define TO   "infer::Conv(x, w, b, r) {...c, "

const struct rule rules_conv[] = {
	{"conv", RECOGNIZE, "y = c: Conv(x, w, b?)", "y = infer::Conv(x, w, b) {...c}", fusable,
	 .sample = XB},
	{"conv-batchnorm", RECOGNIZE,
	 "y, _, _ = n: BatchNormalization(c: infer::Conv(x, #w, #b) {act=none}, #s, #o, #m, #v) {training_mode=0}",
	 "k = Div(s, Sqrt(Add(v, n.epsilon))); y = infer::Conv(x, Mul(w, Reshape(k, [-1, 1...w])), "
	 "Add(Mul(Sub(b, m), k), o)) {...c}",
	 normalized, true, .sample = XB " s[8] o[8] m[8] v+[8]"},
	{"conv-batchnorm-nobias", RECOGNIZE,
	 "y, _, _ = n: BatchNormalization(c: infer::Conv(x, #w) {act=none}, #s, #o, #m, #v) {training_mode=0}",
	 "k = Div(s, Sqrt(Add(v, n.epsilon))); y = infer::Conv(x, Mul(w, Reshape(k, [-1, 1...w])), "
	 "Sub(o, Mul(m, k))) {...c}",
	 normalized, true, .sample = X " s[8] o[8] m[8] v+[8]"},
	{"deconv-batchnorm", RECOGNIZE,
	 "y, _, _ = n: BatchNormalization(c: ConvTranspose(x, #w, #b), #s, #o, #m, #v) {training_mode=0}",
	 "k = Div(s, Sqrt(Add(v, n.epsilon))); y = ConvTranspose(x, Mul(w, Reshape(k, [1, -1, 1...w])), "
	 "Add(Mul(Sub(b, m), k), o)) {...c}",
	 deconv_normalized, true, .sample = "x[2,4,6,6] w[4,8,3,3] b[8] s[8] o[8] m[8] v+[8]"},
	{"deconv-batchnorm-nobias", RECOGNIZE,
	 "y, _, _ = n: BatchNormalization(c: ConvTranspose(x, #w), #s, #o, #m, #v) {training_mode=0}",
	 "k = Div(s, Sqrt(Add(v, n.epsilon))); y = ConvTranspose(x, Mul(w, Reshape(k, [1, -1, 1...w])), "
	 "Sub(o, Mul(m, k))) {...c}",
	 deconv_normalized, true, .sample = "x[2,4,6,6] w[4,8,3,3] s[8] o[8] m[8] v+[8]"},
	{"deconv-add", RECOGNIZE, "y = Add(c: ConvTranspose(x, #w), #o)",
	 "y = ConvTranspose(x, w, Reshape(o, [-1])) {...c}", deconv_shift,
	 .sample = "x[2,4,6,6] w[4,8,3,3] o[8,1,1]"},
	{"conv-mul-channel", RECOGNIZE, "y = Mul(c: infer::Conv(x, #w) {act=none}, #s)",
	 "y = infer::Conv(x, Mul(w, Reshape(s, [-1, 1...w]))) {...c}", channel_scale, true,
	 .sample = X " s[8,1,1]"},
	{"conv-mul-channel-bias", RECOGNIZE, "y = Mul(c: infer::Conv(x, #w, #b) {act=none}, #s)",
	 "k = Reshape(s, [-1]); y = infer::Conv(x, Mul(w, Reshape(s, [-1, 1...w])), Mul(b, k)) {...c}",
	 channel_scale, true, .sample = XB " s[1,8,1,1]"},
	{"conv-mul-scalar", RECOGNIZE, "y = Mul(c: infer::Conv(x, #w) {act=none}, #s)",
	 "y = infer::Conv(x, Mul(w, s)) {...c}", scalar_scale, true, .sample = X " s=0.7"},
	{"conv-mul-scalar-bias", RECOGNIZE, "y = Mul(c: infer::Conv(x, #w, #b) {act=none}, #s)",
	 "y = infer::Conv(x, Mul(w, s), Mul(b, s)) {...c}", scalar_scale, true, .sample = XB " s=0.7"},
	{"conv-add-channel", RECOGNIZE, "y = Add(c: infer::Conv(x, #w) {act=none}, #o)",
	 "y = infer::Conv(x, w, Reshape(o, [-1])) {...c}", channel_shift, .sample = X " o[8,1,1]"},
	{"conv-add-channel-bias", RECOGNIZE, "y = Add(c: infer::Conv(x, #w, #b) {act=none}, #o)",
	 "y = infer::Conv(x, w, Add(b, Reshape(o, [-1]))) {...c}", channel_shift, true,
	 .sample = XB " o[1,8,1,1]"},
	{"conv-add-scalar", RECOGNIZE, "y = Add(c: infer::Conv(x, #w) {act=none}, #o)",
	 "y = infer::Conv(x, w, Expand(o, [w[0]])) {...c}", scalar_shift, .sample = X " o=0.7"},
	{"conv-add-scalar-bias", RECOGNIZE, "y = Add(c: infer::Conv(x, #w, #b) {act=none}, #o)",
	 "y = infer::Conv(x, w, Add(b, o)) {...c}", scalar_shift, true, .sample = XB " o=0.7"},
	{"mul-conv", RECOGNIZE, "y = c: infer::Conv(Mul(x, #s), #w, b?, r?)",
	 "y = infer::Conv(x, Mul(w, s), b, r) {...c}", scale_before, true, .sample = XR " s=0.7"},
	{"add-conv", RECOGNIZE, "y = c: infer::Conv(Add(x, #o), #w, #b, r?)",
	 "y = infer::Conv(x, w, Add(b, Mul(Reshape(ReduceSum(Reshape(w, [0, -1]), [1]), [-1]), o)), r) {...c}",
	 shift_before, true, .sample = XR " o=0.7"},
	{"pad-conv", RECOGNIZE, "y = c: infer::Conv(Pad(x, #p, v?) {mode=constant}, #w, b?, r?)",
	 "y = infer::Conv(x, w, b, r) {...c}", zero_pads,
	 .sample = "x[2,4,3,4] w[8,4,3,3] p=[0,0,1,0,0,0,2,2] v=0 b[8] r[2,8,4,4]",
	 .adjust = add_pads},
	{"conv-residual", FUSE, "t = c: infer::Conv(x, w, b?) {act=none}; y = Add(t, r)",
	 "y = infer::Conv(x, w, b, r) {...c}", residual, true, .sample = XR},
#define FUSED_BY_NAME(op, act)                                                                     \
	{"conv-" op, FUSE, "y = f: " op "(c: " CONV ")", "y = " TO act "}", fusable, .sample = XR},
#include "ops/unary.def"
	{"conv-gelu", FUSE, "y = Gelu(c: " CONV ") {approximate=none}", "y = " TO "act=gelu}",
	 fusable, .sample = XR},
	{"conv-gelu-tanh", FUSE, "y = Gelu(c: " CONV ") {approximate=tanh}",
	 "y = " TO "act=gelutanh}", fusable, .sample = XR},
	{"conv-swish", FUSE, "y = a: Swish(c: " CONV ")", "y = " TO "act=silu, act_alpha=a.alpha}",
	 fusable, .sample = XR},
	{"conv-clip", FUSE, "y = Clip(c: " CONV ", #lo, #hi)",
	 "y = " TO "act=clip, act_alpha=@lo*1, act_beta=@hi*1}", bounds,
	 .sample = XR " lo=-0.5 hi=0.5"},
	{"conv-clip-low", FUSE, "y = Clip(c: " CONV ", #lo, _)",
	 "y = " TO "act=clip, act_alpha=@lo*1, act_beta=inf}", bounds, .sample = XR " lo=-0.5"},
	{0}};
