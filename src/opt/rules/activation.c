/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that recognize activations which exporters write as arithmetic. */
#include "opt/rules/guards.h"

static bool fusable(struct match *m)
{
	return is_fusable(m, "x") || match_why(m, "the type is not fp32, fp16 or bf16");
}

static bool scaled(struct match *m)
{
	double v;
	return fusable(m) && match_number(m, "k", &v);
}

/* GELU written with erf; the forms differ in where the factor 1/2 is. */
#define GELU(n, text)                                                                              \
	{                                                                                          \
		.name = "gelu-" n, .kind = RECOGNIZE, .from = text, .to = "y = Gelu(x)",           \
		.when = fusable, .inexact = true, .sample = "x[3,8]"                               \
	}
#define ERF  "Add(Erf(Div(x, 1.4142135)), 1)"
#define ERFM "Add(Erf(Mul(x, 0.70710678)), 1)"

#define GELUT(n, text)                                                                             \
	{                                                                                          \
		.name = "gelu-tanh-" n, .kind = RECOGNIZE, .from = text,                           \
		.to = "y = Gelu(x) {approximate=tanh}", .when = fusable, .inexact = true,          \
		.sample = "x[3,8]"                                                                 \
	}
#define CUBE	"Add(x, Mul(Pow(x, 3), 0.044715))"
#define CUBEM	"Add(x, Mul(x, Mul(x, Mul(x, 0.044715))))"
#define CUBEX	"Add(x, Mul(Mul(x, Mul(x, x)), 0.044715))"
#define TANH(c) "Add(Tanh(Mul(" c ", 0.7978845608)), 1)"

#define SWISH(n, text)                                                                             \
	{                                                                                          \
		.name = "hardswish-" n, .kind = RECOGNIZE, .from = text, .to = "y = HardSwish(x)", \
		.when = fusable, .inexact = true, .sample = "x[3,8]"                               \
	}
#define CLIP "Clip(Add(x, 3), 0, 6)"

const struct rule rules_activation[] = {
	GELU("half-last", "y = Mul(Mul(x, " ERF "), 0.5)"),
	GELU("half-first", "y = Mul(Mul(x, 0.5), " ERF ")"),
	GELU("half-inside", "y = Mul(x, Mul(" ERF ", 0.5))"),
	GELU("mul-half-last", "y = Mul(Mul(x, " ERFM "), 0.5)"),
	GELU("mul-half-first", "y = Mul(Mul(x, 0.5), " ERFM ")"),
	GELU("mul-half-inside", "y = Mul(x, Mul(" ERFM ", 0.5))"),
	GELUT("pow-half-first", "y = Mul(Mul(x, 0.5), " TANH(CUBE) ")"),
	GELUT("pow-half-last", "y = Mul(Mul(x, " TANH(CUBE) "), 0.5)"),
	GELUT("pow-half-inside", "y = Mul(x, Mul(" TANH(CUBE) ", 0.5))"),
	GELUT("mul-half-first", "y = Mul(Mul(x, 0.5), " TANH(CUBEM) ")"),
	GELUT("mul-half-last", "y = Mul(Mul(x, " TANH(CUBEM) "), 0.5)"),
	GELUT("mul-half-inside", "y = Mul(x, Mul(" TANH(CUBEM) ", 0.5))"),
	GELUT("square-half-first", "y = Mul(Mul(x, 0.5), " TANH(CUBEX) ")"),
	GELUT("square-half-last", "y = Mul(Mul(x, " TANH(CUBEX) "), 0.5)"),
	GELUT("square-half-inside", "y = Mul(x, Mul(" TANH(CUBEX) ", 0.5))"),
	SWISH("div-last", "y = Div(Mul(x, " CLIP "), 6)"),
	SWISH("mul-last", "y = Mul(Mul(x, " CLIP "), 0.16666667)"),
	SWISH("div", "y = Mul(x, Div(" CLIP ", 6))"),
	SWISH("mul", "y = Mul(x, Mul(" CLIP ", 0.16666667))"),
	SWISH("hardsigmoid", "y = Mul(x, HardSigmoid(x) {alpha=0.16666667, beta=0.5})"),
	{"hardsigmoid-div", RECOGNIZE, "y = Div(" CLIP ", 6)",
	 "y = HardSigmoid(x) {alpha=1/6, beta=0.5}", fusable, true, .sample = "x[3,8]"},
	{"hardsigmoid-mul", RECOGNIZE, "y = Mul(" CLIP ", 0.16666667)",
	 "y = HardSigmoid(x) {alpha=1/6, beta=0.5}", fusable, true, .sample = "x[3,8]"},
	{"swish", RECOGNIZE, "y = Mul(x, Sigmoid(x))", "y = Swish(x)", fusable, true,
	 .sample = "x[3,8]"},
	{"swish-scaled", RECOGNIZE, "y = Mul(x, Sigmoid(Mul(x, #k)))", "y = Swish(x) {alpha=@k*1}",
	 scaled, true, .sample = "x[3,8] k=1.702"},
	{"mish", RECOGNIZE, "y = Mul(x, Tanh(Softplus(x)))", "y = Mish(x)", fusable, true,
	 .sample = "x[3,8]"},
	{"relu-max", RECOGNIZE, "y = Max(x, 0)", "y = Relu(x)", fusable, .sample = "x[3,8]"},
	{0}};
