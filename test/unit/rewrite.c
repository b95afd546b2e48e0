/* SPDX-License-Identifier: Apache-2.0 */
/* The rewrite language: what can be read, what matches and what does not. */
#include "test/unit/trial.h"

/* Inputs x and z and a constant k, of [2,3]. */
static void start(struct trial *t)
{
	struct shape s = {.rank = 2, .dim = {2, 3}};

	trial_start(t);
	trial_input(t, "x", DT_F32, s);
	trial_input(t, "z", DT_F32, s);
	trial_const(t, "k", tensor_new(&t->model.arena, DT_F32, &s));
}

/* What nothing uses is an output. */
static void outputs(struct trial *t)
{
	for (int i = 3; i < t->vars.n; i++) {
		struct value *v = t->g->value[t->value[i]];
		if (v->nusers)
			continue;
		v->is_output = true;
		t->g->out_name[t->g->nout] = t->vars.name[i];
		t->g->out[t->g->nout++] = v->id;
	}
}

/* How often the rule fires on the graph of a text, whose output is y. */
static int fires(const char *nodes, const char *from, const char *to)
{
	struct trial t;
	struct rule rule = {.name = "rule", .kind = FUSE, .from = from, .to = to};
	struct parsed_rule parsed;
	int n = -1;

	start(&t);
	struct made made = {&t.o, t.g};
	struct rewriter w = opt_rewriter(&made);
	if (text_build(&w, nodes, &t.vars, t.value) == 0 &&
	    rule_parse(&rule, &t.model.arena, &parsed, &t.diag) == 0) {
		struct rule_set one = {&parsed, 1};
		outputs(&t);
		n = rewrite_graph(&w, &one, KINDS_RUN, false, NULL);
	}
	trial_finish(&t);
	return n;
}

static int reads(const char *from, const char *to)
{
	struct arena a = {0};
	struct rule rule = {.name = "rule", .from = from, .to = to};
	struct parsed_rule parsed;
	int r = rule_parse(&rule, &a, &parsed, NULL);

	arena_free(&a);
	return r == 0;
}

static void what_can_be_read(void)
{
	CHECK(reads("y = Relu(x)", "y = x"));
	CHECK(reads("y = l: LeakyRelu(#w) {alpha=0.5}", "y = Elu(w) {...l, alpha=1/2}"));
	CHECK(reads("a, b = Split(x); y = Add|Sub(!Exp(a), b);", "y = Reshape(x, [-1, 1...x])"));
	CHECK(!reads("y = Relu(x", "y = x"));
	CHECK(!reads("y = NoSuchOperator(x)", "y = x"));
	CHECK(!reads("y Relu(x)", "y = x"));
	CHECK(!reads("y = Relu(x) {alpha}", "y = x"));
	CHECK(!reads("y = Relu(x)", "y = Elu(x) {...unknown}"));
	CHECK(!reads("y = Relu(x) rest", "y = x"));
	CHECK(!reads("y = Relu(x)", "y = Reshape(x, [1...unknown])"));
	CHECK(!reads("", "y = x"));
}

static void orders_of_commutative_inputs(void)
{
	CHECK_INT(fires("y = Add(Exp(x), z)", "y = Add(a, Exp(b))", "y = Sub(a, b)"), 1);
	CHECK_INT(fires("y = Sub(Exp(x), z)", "y = Sub(a, Exp(b))", "y = Add(a, b)"), 0);
	CHECK_INT(fires("y = Mul(Add(x, Exp(z)), x)", "y = Mul(a, Add(Exp(b), a))", "y = Sub(a, b)"),
		  1);
}

static void one_value_twice(void)
{
	CHECK_INT(fires("y = Sub(x, x)", "y = Sub(a, a)", "y = Neg(a)"), 1);
	CHECK_INT(fires("y = Sub(x, z)", "y = Sub(a, a)", "y = Neg(a)"), 0);
}

static void uses_outside(void)
{
	CHECK_INT(fires("t = Exp(x); u = Neg(t); y = Abs(t)", "y = Abs(Exp(a))", "y = Neg(a)"), 0);
	CHECK_INT(fires("t = Exp(x); u = Neg(t); y = Abs(t)", "y = Abs(!Exp(a))", "y = Neg(a)"), 1);
	CHECK_INT(fires("t = Exp(x); y = Mul(t, Neg(t))", "t = Exp(a); y = Mul(t, Neg(t))",
			"y = Abs(a)"),
		  1);
}

static void constants(void)
{
	CHECK_INT(fires("y = Mul(x, 0.5)", "y = Mul(a, 0.50001)", "y = Neg(a)"), 1);
	CHECK_INT(fires("y = Mul(x, 0.5)", "y = Mul(a, 0.51)", "y = Neg(a)"), 0);
	CHECK_INT(fires("y = Mul(x, k)", "y = Mul(a, #c)", "y = Neg(a)"), 1);
	CHECK_INT(fires("y = Mul(x, z)", "y = Mul(a, #c)", "y = Neg(a)"), 0);
	CHECK_INT(fires("y = Reshape(x, [3, -1])", "y = Reshape(a, [3, -1])", "y = Transpose(a)"), 1);
	CHECK_INT(fires("y = Reshape(x, [3, -1])", "y = Reshape(a, [3, 2])", "y = Transpose(a)"), 0);
}

static void attributes(void)
{
	CHECK_INT(fires("y = LeakyRelu(x) {alpha=0.3}", "y = LeakyRelu(a) {alpha=0.3}", "y = Neg(a)"),
		  1);
	CHECK_INT(fires("y = LeakyRelu(x) {alpha=0.4}", "y = LeakyRelu(a) {alpha=0.3}", "y = Neg(a)"),
		  0);
	CHECK_INT(fires("y = Concat(x, z) {axis=1}", "y = Concat(a, b) {axis=-1}",
			"y = Concat(b, a) {axis=1}"),
		  200);
}

/* A replacement of another shape is taken back. */
static void wrong_shapes(void)
{
	CHECK_INT(fires("y = Neg(x)", "y = Neg(a)", "y = Transpose(a)"), 0);
	CHECK_INT(fires("y = Neg(x)", "y = Neg(a)", "y = Shape(a)"), 0);
}

static void several_roots(void)
{
	CHECK_INT(fires("t = Exp(x); u = Neg(x); y = Add(t, u)", "b = Exp(a); c = Neg(a)",
			"b = Exp(Abs(a)); c = Abs(Abs(a))"),
		  1);
}

int main(void)
{
	UNIT(what_can_be_read);
	UNIT(orders_of_commutative_inputs);
	UNIT(one_value_twice);
	UNIT(uses_outside);
	UNIT(constants);
	UNIT(attributes);
	UNIT(wrong_shapes);
	UNIT(several_roots);
	return unit_end();
}
