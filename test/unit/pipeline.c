/* SPDX-License-Identifier: Apache-2.0 */
/* The passes on small graphs made of text: what they leave, and that numbers stay. */
#include "backend/evaluate.h"
#include "opt/params.h"
#include "test/unit/trial.h"

#include <math.h>

static void start(struct trial *t)
{
	trial_start(t);
	t->config.optimize = OPTIMIZE_FULL;
}

/* A constant of one dimension, elements 1, 2, 3... times a factor. */
static void weight(struct trial *t, const char *name, int64_t n, double by)
{
	struct tensor *x =
		tensor_new(&t->model.arena, DT_F32, &(struct shape){.rank = 1, .dim = {n}});

	for (int64_t i = 0; i < n; i++)
		elem_set_f64(DT_F32, x->data, i, by * (double)(i + 1));
	trial_const(t, name, x);
}

static bool text(struct trial *t, const char *nodes, const char *output)
{
	return CHECK(trial_text(t, nodes) == 0) && CHECK(trial_output(t, output));
}

static uint32_t live(const struct trial *t, const char *op)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->g->nnodes; i++)
		n += !t->g->node[i]->dead && (!op || t->g->node[i]->op == op_named(op));
	return n;
}

static struct tensor *ramp(struct arena *a, struct shape s)
{
	struct tensor *x = tensor_new(a, DT_F32, &s);

	for (int64_t i = 0; i < tensor_count(x); i++)
		elem_set_f64(DT_F32, x->data, i, sin((double)i) * 3);
	return x;
}

/* Output 0 with every input a ramp. */
static const struct tensor *run(struct trial *t)
{
	struct arena *a = &t->model.arena;
	const struct tensor **at = arena_new_n(a, const struct tensor *, t->g->nvalues);

	for (uint32_t i = 0; i < t->g->nvalues; i++)
		at[i] = t->g->value[i]->init;
	for (uint32_t i = 0; i < t->g->nin; i++)
		at[t->g->in[i]] = ramp(a, t->g->value[t->g->in[i]]->info.shape);
	if (!CHECK(graph_sort(t->g, &t->diag) == 0))
		return NULL;
	for (uint32_t i = 0; i < t->g->norder; i++) {
		const struct node *n = t->g->node[t->g->order[i]];
		const struct tensor *in[16];
		struct tensor *out[16] = {0};
		for (uint32_t k = 0; k < n->nin; k++)
			in[k] = n->in[k] == NO_VALUE ? NULL : at[n->in[k]];
		if (!CHECK(eval_node(&cpu_backend, t->g, n, in, out, a, &t->diag) == 0))
			return NULL;
		for (uint32_t k = 0; k < n->nout; k++)
			if (n->out[k] != NO_VALUE)
				at[n->out[k]] = out[k];
	}
	return at[t->g->out[0]];
}

static void check_same(const struct tensor *a, const struct tensor *b)
{
	if (!CHECK(a && b && shape_equal(&a->shape, &b->shape)))
		return;
	for (int64_t i = 0; i < tensor_count(a); i++) {
		double x = elem_f64(DT_F32, a->data, i), y = elem_f64(DT_F32, b->data, i);
		if (!CHECK(fabs(x - y) <= 1e-5 + 1e-5 * fabs(x)))
			return;
	}
}

/* Before and after the whole pipeline; what is left is the caller's to look at. */
static void optimize(struct trial *t)
{
	const struct tensor *before = run(t);
	CHECK_INT(opt_run(&t->model, &cpu_backend, &t->config, &t->diag), 0);
	check_same(before, run(t));
}

#define SHAPE(...)                                                                                 \
	shape_of(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static void constants_fold(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(2, 3));
	weight(&t, "a", 3, 1);
	weight(&t, "b", 3, 2);
	if (text(&t, "y = Add(x, Mul(a, Add(b, 1)))", "y"))
		optimize(&t);
	CHECK_INT(live(&t, "Mul"), 0);
	CHECK_INT(live(&t, NULL), 1);
	trial_finish(&t);
}

static void shapes_of_known_dims_fold(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(2, 3, 4));
	if (text(&t, "y = Reshape(x, Concat(Gather(Shape(x), [1]), [-1]) {axis=0})", "y"))
		optimize(&t);
	CHECK_INT(live(&t, "Shape"), 0);
	CHECK_INT(live(&t, NULL), 1);
	trial_finish(&t);
}

static void symbols_stay(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(DIM_SYM(model_symbol(&t.model, "batch")), 3));
	if (text(&t, "y = Shape(x)", "y"))
		CHECK_INT(opt_run(&t.model, &cpu_backend, &t.config, &t.diag), 0);
	CHECK_INT(live(&t, "Shape"), 1);
	trial_finish(&t);
}

/* [batch,4,3] -> [batch*4,3] -> [batch,4,3]: the batch comes back, and nothing is left to do. */
static void multiples_of_symbols_stay(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(DIM_SYM(model_symbol(&t.model, "batch")), 4, 3));
	if (text(&t, "y = Add(x, Reshape(Reshape(x, [-1, 3]), [-1, 4, 3]))", "y"))
		CHECK_INT(opt_run(&t.model, &cpu_backend, &t.config, &t.diag), 0);
	CHECK_INT(live(&t, "Reshape"), 0);
	trial_finish(&t);
}

static void other_multiples_stay_apart(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(DIM_SYM(model_symbol(&t.model, "batch")), 4, 3));
	if (text(&t, "y = Reshape(Reshape(x, [-1, 3]), [-1, 2, 3])", "y"))
		CHECK_INT(opt_run(&t.model, &cpu_backend, &t.config, &t.diag), 0);
	CHECK_INT(live(&t, "Reshape"), 1);
	trial_finish(&t);
}

static void equal_nodes_merge(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(2, 3));
	t.config.optimize = OPTIMIZE_BASIC;
	if (text(&t, "y = Mul(Exp(x), Exp(x))", "y"))
		optimize(&t);
	CHECK_INT(live(&t, "Exp"), 1);
	trial_finish(&t);
}

/* The value that is read in place of a named one. */
static uint32_t now(const struct trial *t, const char *name)
{
	return graph_became(t->g, t->value[names_find(&t->vars, name, strlen(name))]);
}

static void replaced_values_are_told(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(2, 3));
	weight(&t, "w", 3, 1);
	t.config.optimize = OPTIMIZE_BASIC;
	if (text(&t,
		 "a = Exp(x); b = Exp(Identity(x)); c = Identity(b); s = Add(w, w); y = Mul(Add(a, c), s)",
		 "y")) {
		optimize(&t);
		CHECK_INT(now(&t, "x"), t.value[0]);
		CHECK_INT(now(&t, "b"), now(&t, "a"));
		CHECK_INT(now(&t, "c"), now(&t, "a"));
		CHECK(now(&t, "y") != now(&t, "a"));
		CHECK(t.g->value[now(&t, "s")]->init);
		CHECK(t.g->value[now(&t, "a")]->producer != NO_NODE);
	}
	trial_finish(&t);
}

/* Of a graph that is to be written: what would make the file larger stays, small constants are folded all the same. */
static void large_constants_stay_for_a_file(void)
{
	struct trial t;

	for (int file = 0; file < 2; file++) {
		start(&t);
		trial_input(&t, "x", DT_F32, SHAPE(200, 200));
		weight(&t, "w", 200, 1);
		t.config.optimize = OPTIMIZE_BASIC;
		t.config.to_file = file;
		if (text(&t, "y = Sub(Sub(x, Sqrt(w)), Tile(Unsqueeze(w, [0]), [200, 1]))", "y"))
			optimize(&t);
		CHECK_INT(live(&t, "Sqrt"), 0);
		CHECK_INT(live(&t, "Tile"), file);
		trial_finish(&t);
	}
}

static void dead_nodes_go(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(2, 3));
	t.config.optimize = OPTIMIZE_NONE;
	if (text(&t, "z = Exp(x); y = Neg(x)", "y"))
		optimize(&t);
	CHECK_INT(live(&t, NULL), 1);
	trial_finish(&t);
}

static void chains_become_pointwise(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(2, 3, 5));
	trial_input(&t, "z", DT_F32, SHAPE(3, 1));
	weight(&t, "a", 5, 0.25);
	if (text(&t, "t = Sub(Mul(x, a), z); y = Add(Tanh(t), Mul(Abs(t), 0.5))", "y"))
		optimize(&t);
	CHECK_INT(live(&t, "infer::Pointwise"), 1);
	CHECK_INT(live(&t, NULL), 1);
	trial_finish(&t);
}

/* What is smaller than the result is not computed again for each element. */
static void small_parts_stay_outside(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(2, 3, 5));
	trial_input(&t, "z", DT_F32, SHAPE(3, 1));
	if (text(&t, "y = Mul(Relu(x), Exp(z))", "y"))
		optimize(&t);
	CHECK_INT(live(&t, "Exp"), 1);
	CHECK_INT(live(&t, "infer::Pointwise"), 1);
	trial_finish(&t);
}

static void used_values_stay(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(2, 3));
	if (text(&t, "t = Exp(x); y = Abs(t)", "t") && text(&t, "u = Neg(x)", "y"))
		optimize(&t);
	CHECK_INT(live(&t, "infer::Pointwise"), 0);
	trial_finish(&t);
}

static void none_changes_no_numbers(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(2, 3));
	t.config.optimize = OPTIMIZE_NONE;
	if (text(&t, "y = Mul(Mul(x, 2), 3)", "y"))
		optimize(&t);
	CHECK_INT(live(&t, "Mul"), 2);
	trial_finish(&t);
}

/* y = If(c) {Neg(x)} {Transpose(x), which does not fit}, with x captured. */
static void make_if(struct trial *t, uint32_t cond)
{
	static const char *const texts[] = {"b = Neg(x)", "b = Add(Concat(x, x) {axis=1}, x)"};
	struct arena *a = &t->model.arena;
	struct graph *g = t->g, *sub[2];
	uint32_t x = t->value[0], y;

	for (int k = 0; k < 2; k++) {
		struct trial body = *t;
		body.g = sub[k] = graph_new(a, &t->model, "body");
		memset(&body.vars, 0, sizeof(body.vars));
		struct value *v = graph_add_value(sub[k], "x");
		v->info = g->value[x]->info;
		trial_name(&body, "x", v->id);
		sub[k]->in = arena_dup(a, &v->id, sizeof(v->id));
		sub[k]->ncap = 1;
		sub[k]->capture = arena_new(a, uint32_t);
		sub[k]->out = arena_new_n(a, uint32_t, 1);
		sub[k]->out_name = arena_new_n(a, const char *, 1);
		/* without inference: the second does not fit */
		struct rewriter w = {.graph = sub[k], .arena = a, .diag = &t->diag};
		CHECK(text_build(&w, texts[k], &body.vars, body.value) == 0);
		sub[k]->out[sub[k]->nout++] = body.value[names_find(&body.vars, "b", 1)];
		sub[k]->value[sub[k]->out[0]]->is_output = true;
	}
	y = graph_add_value(g, "y")->id;
	struct node *n =
		graph_add_node(g, op_named("If"), params_new(op_named("If"), a),
			       (uint32_t[]){cond, x}, 2, &y, 1, origin_new(a, "if", "If", 0));
	n->type = "If";
	n->nin = n->ncap = 1;
	n->sub = arena_dup(a, sub, sizeof(sub));
	n->nsub = 2;
	params_set_number(params_field(n->op, "then_branch"), n->params, 0);
	params_set_number(params_field(n->op, "else_branch"), n->params, 1);
	g->out_name[g->nout] = "y";
	g->out[g->nout++] = y;
	g->value[y]->is_output = true;
}

static void known_branches_are_inlined(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(2, 3));
	struct tensor *yes = tensor_new(&t.model.arena, DT_BOOL, &(struct shape){.rank = 0});
	elem_set_i64(DT_BOOL, yes->data, 0, 1);
	make_if(&t, graph_add_const(t.g, "c", yes)->id);
	CHECK_INT(opt_run(&t.model, &cpu_backend, &t.config, &t.diag), 0);
	CHECK_INT(live(&t, "If"), 0);
	CHECK_INT(live(&t, "Neg"), 1);
	CHECK_INT(live(&t, NULL), 1);
	trial_finish(&t);
}

/* A branch that does not fit is no fault before it is taken. */
static void unknown_branches_stay(void)
{
	struct trial t;

	start(&t);
	trial_input(&t, "x", DT_F32, SHAPE(2, 3));
	trial_input(&t, "c", DT_BOOL, SHAPE(1));
	make_if(&t, t.value[1]);
	CHECK_INT(opt_run(&t.model, &cpu_backend, &t.config, &t.diag), 0);
	CHECK_INT(live(&t, "If"), 1);
	trial_finish(&t);
}

/* What a body captures and is constant becomes the body's own. */
static void constant_captures_leave(void)
{
	struct trial t;
	const struct node *n = NULL;

	start(&t);
	weight(&t, "x", 3, 1);
	trial_input(&t, "c", DT_BOOL, SHAPE(1));
	make_if(&t, t.value[1]);
	CHECK_INT(opt_run(&t.model, &cpu_backend, &t.config, &t.diag), 0);
	for (uint32_t i = 0; i < t.g->nnodes; i++)
		if (!t.g->node[i]->dead)
			n = t.g->node[i];
	if (CHECK(n && n->nsub == 2)) {
		CHECK_INT(n->ncap, 0);
		CHECK_INT(n->sub[0]->ncap, 0);
	}
	trial_finish(&t);
}

int main(void)
{
	UNIT(known_branches_are_inlined);
	UNIT(unknown_branches_stay);
	UNIT(constant_captures_leave);
	UNIT(constants_fold);
	UNIT(shapes_of_known_dims_fold);
	UNIT(symbols_stay);
	UNIT(multiples_of_symbols_stay);
	UNIT(other_multiples_stay_apart);
	UNIT(equal_nodes_merge);
	UNIT(replaced_values_are_told);
	UNIT(large_constants_stay_for_a_file);
	UNIT(dead_nodes_go);
	UNIT(chains_become_pointwise);
	UNIT(small_parts_stay_outside);
	UNIT(used_values_stay);
	UNIT(none_changes_no_numbers);
	return unit_end();
}
