/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that recognize normalizations written as arithmetic, and that turn constant ones into a scale and a shift. */
#include "opt/rules/guards.h"

/* True if the constant `axes` is the last axis of x alone. */
static bool last_axis(struct match *m, const char *axes)
{
	const struct tensor *t = match_const(m, axes);
	int rank = match_rank(m, "x");

	return t && rank > 0 && tensor_count(t) == 1 &&
	       axis_of(elem_i64(tensor_dtype(t), t->data, 0), rank) == rank - 1;
}

/* True if the value is left out, or a vector that is as long as the last axis of x. */
static bool along_last_axis(struct match *m, const char *name)
{
	return !match_value(m, name) ||
	       (match_rank(m, name) == 1 && dims_equal(dim_at(m, name, 0), dim_at(m, "x", -1))) ||
	       match_why(m, "scale or shift is no vector along the last axis");
}

static bool layer_norm(struct match *m)
{
	double v;

	if (!is_fusable(m, "x") || !match_number(m, "e", &v))
		return false;
	if (!last_axis(m, "a") || !last_axis(m, "c"))
		return match_why(m, "the mean is not over the last axis alone");
	return along_last_axis(m, "s") && along_last_axis(m, "b");
}

static bool shift(struct match *m)
{
	return is_fusable(m, "x") && match_rank(m, "b") == 1 && match_rank(m, "s") == 1 &&
	       dims_equal(dim_at(m, "b", 0), dim_at(m, "s", 0));
}

static bool rms_norm(struct match *m)
{
	double v;

	return is_fusable(m, "x") && match_number(m, "e", &v) && last_axis(m, "a") &&
	       along_last_axis(m, "s");
}

/* True for a BatchNormalization that no convolution absorbed; with constant statistics it is a scale and a shift. */
static bool alone(struct match *m)
{
	return is_fusable(m, "x") && match_rank(m, "x") >= 2 && !match_value(m, "x")->is_output &&
	       normalization_fits(m, NULL, NULL);
}

#define MEAN	    "u = ReduceMean(x, #a) {keepdims=1}; d = Sub(x, u); "
#define MEAN2	    "u = ReduceMean(x, #a) {keepdims=1}; d = Sub(x, u); f = Sub(x, u); "
#define VAR(square) "q = ReduceMean(" square ", #c) {keepdims=1}; "
#define SAMPLE	    "x[2,3,8] a=[-1] c=[-1] e=1e-5 s[8]"
#define TO_LN	    "y = LayerNormalization(x, s, b) {axis=-1, epsilon=@e*1}"
#define LAYER_NORM(n, text)                                                                        \
	{                                                                                          \
		.name = "layernorm-" n, .kind = RECOGNIZE, .from = text, .to = TO_LN,              \
		.when = layer_norm, .inexact = true, .sample = SAMPLE " b[8]"                      \
	}

const struct rule rules_norm[] = {
	LAYER_NORM("pow", MEAN VAR("Pow(d, 2)") "y = Add(Mul(Div(d, Sqrt(Add(q, #e))), #s), #b)"),
	LAYER_NORM("mul", MEAN VAR("Mul(d, d)") "y = Add(Mul(Div(d, Sqrt(Add(q, #e))), #s), #b)"),
	LAYER_NORM("pow-twice",
		   MEAN2 VAR("Pow(f, 2)") "y = Add(Mul(Div(d, Sqrt(Add(q, #e))), #s), #b)"),
	LAYER_NORM("reciprocal",
		   MEAN VAR("Mul(d, d)") "y = Add(Mul(Mul(d, Reciprocal(Sqrt(Add(q, #e)))), #s), #b)"),
	LAYER_NORM("reciprocal-pow",
		   MEAN VAR("Pow(d, 2)") "y = Add(Mul(Mul(d, Reciprocal(Sqrt(Add(q, #e)))), #s), #b)"),
	LAYER_NORM("scale-first",
		   MEAN VAR("Mul(d, d)") "y = Add(Mul(d, Mul(Reciprocal(Sqrt(Add(q, #e))), #s)), #b)"),
	{"layernorm-noshift", RECOGNIZE, MEAN VAR("Pow(d, 2)") "y = Mul(Div(d, Sqrt(Add(q, #e))), #s)",
	 "y = LayerNormalization(x, s) {axis=-1, epsilon=@e*1}", layer_norm, true, .sample = SAMPLE},
	{"layernorm-shift", RECOGNIZE, "y = Add(n: LayerNormalization(x, s), #b)",
	 "y = LayerNormalization(x, s, b) {...n}", shift, true, .sample = "x[2,3,8] s[8] b[8]"},
	{"rmsnorm-div", RECOGNIZE,
	 "y = Mul(Div(x, Sqrt(Add(ReduceMean(Pow(x, 2), #a) {keepdims=1}, #e))), #s)",
	 "y = RMSNormalization(x, s) {axis=-1, epsilon=@e*1}", rms_norm, true,
	 .sample = "x[2,3,8] a=[-1] e=1e-5 s[8]"},
	{"rmsnorm-reciprocal", RECOGNIZE,
	 "y = Mul(Mul(x, Reciprocal(Sqrt(Add(ReduceMean(Pow(x, 2), #a) {keepdims=1}, #e)))), #s)",
	 "y = RMSNormalization(x, s) {axis=-1, epsilon=@e*1}", rms_norm, true,
	 .sample = "x[2,3,8] a=[-1] e=1e-5 s[8]"},
	{"rmsnorm-one-div", RECOGNIZE,
	 "y = Mul(Mul(x, Div(1, Sqrt(Add(ReduceMean(Pow(x, 2), #a) {keepdims=1}, #e)))), #s)",
	 "y = RMSNormalization(x, s) {axis=-1, epsilon=@e*1}", rms_norm, true,
	 .sample = "x[2,3,8] a=[-1] e=1e-5 s[8]"},
	{"batchnorm-affine", RECOGNIZE,
	 "y, _, _ = n: BatchNormalization(x, #s, #o, #m, #v) {training_mode=0}",
	 "k = Div(s, Sqrt(Add(v, n.epsilon))); "
	 "y = Add(Mul(x, Reshape(k, [1, -1, 1...x])), Reshape(Sub(o, Mul(m, k)), [1, -1, 1...x]))",
	 alone, true, .sample = "x[2,8,3,3] s[8] o[8] m[8] v+[8]"},
	{0}};
