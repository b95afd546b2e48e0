/* SPDX-License-Identifier: Apache-2.0 */
/* --precision fp16: what becomes small, what stays, and where the casts stand. */
#include "ops/float8.h"
#include "test/unit/trial.h"

/*
 * x [2,4], a weight w [4,4] whose last element is beyond fp16 and whose last but one is denormal, and scales; the text's y is the output.
 */
static bool start(struct trial *t, enum precision p, const char *nodes)
{
	struct shape square = shape_of(2, (int64_t[]){4, 4});

	trial_start(t);
	t->config = (struct run_config){.optimize = OPTIMIZE_FULL, .precision = (int)p};
	trial_input(t, "x", DT_F32, shape_of(2, (int64_t[]){2, 4}));
	struct tensor *w = tensor_new(&t->model.arena, DT_F32, &square);
	for (int i = 0; i < 16; i++)
		((float *)w->data)[i] = i == 15 ? -1e30F : i == 14 ? -1e-40F : (float)i / 16;
	trial_const(t, "w", w);
	struct shape pair = shape_of(1, (int64_t[]){2});
	struct tensor *twice = tensor_new(&t->model.arena, DT_F32, &pair);
	((float *)twice->data)[0] = ((float *)twice->data)[1] = 2;
	trial_const(t, "twice", twice);
	return CHECK(trial_text(t, nodes) == 0) && CHECK(trial_output(t, "y")) &&
	       CHECK_INT(opt_run(&t->model, &cpu_backend, &t->config, &t->diag), 0);
}

static const struct node *only(const struct trial *t, const char *op)
{
	for (uint32_t i = 0; i < t->g->nnodes; i++)
		if (!t->g->node[i]->dead && t->g->node[i]->op == op_named(op))
			return t->g->node[i];
	return NULL;
}

static int type_of_in(const struct trial *t, const struct node *n, uint32_t i)
{
	return n ? (int)node_in(t->g, n, i)->info.type.dtype : -1;
}

static void products_become_small(void)
{
	struct trial t;

	if (start(&t, PRECISION_FP16, "y = MatMul(x, w)")) {
		const struct node *n = only(&t, "infer::Gemm");
		CHECK_INT(type_of_in(&t, n, 0), DT_F16);
		CHECK_INT(type_of_in(&t, n, 1), DT_F16);
		CHECK_INT(t.g->value[t.g->in[0]]->info.type.dtype, DT_F32);
		CHECK_INT(t.g->value[t.g->out[0]]->info.type.dtype, DT_F32);
		/* what fp16 cannot say is its least number, not -infinity */
		const struct tensor *w = n ? node_in(t.g, n, 1)->init : NULL;
		CHECK(w && ((const uint16_t *)w->data)[15] == 0xfbff);
	}
	trial_finish(&t);
}

static void denormal_weights_become_zeros(void)
{
	struct trial t;

	if (start(&t, PRECISION_BF16, "y = MatMul(x, w)")) {
		const struct node *n = only(&t, "infer::Gemm");
		const struct tensor *w = n ? node_in(t.g, n, 1)->init : NULL;
		CHECK(w && ((const uint16_t *)w->data)[1] &&
		      ((const uint16_t *)w->data)[14] == 0x8000);
	}
	trial_finish(&t);
}

/* A constant that is added, say, so that nothing is divided by zero. */
static void other_denormals_stay(void)
{
	struct trial t;
	int found = 0;

	if (start(&t, PRECISION_BF16, "y = Max(MatMul(x, w), Gather(w, 3))")) {
		for (uint32_t i = 0; i < t.g->nvalues; i++) {
			const struct tensor *v = t.g->value[i]->init;
			if (v && tensor_dtype(v) == DT_BF16 && v->shape.rank == 1)
				found += ((const uint16_t *)v->data)[2] == 0x8001;
		}
		CHECK_INT(found, 1);
	}
	trial_finish(&t);
}

static void pictures_stay_small(void)
{
	struct trial t;

	if (start(&t, PRECISION_BF16,
		  "y = MatMul(Slice(Resize(MatMul(x, w), _, twice), [0], [4], [1]), w)"))
		CHECK_INT(type_of_in(&t, only(&t, "Resize"), 0), DT_BF16);
	trial_finish(&t);
}

static void exponentials_stay(void)
{
	struct trial t;

	if (start(&t, PRECISION_BF16, "y = MatMul(Exp(MatMul(x, w)), w)")) {
		const struct node *n = only(&t, "Exp");
		n = n ? n : only(&t, "infer::Pointwise");
		CHECK_INT(type_of_in(&t, n, 0), DT_F32);
		CHECK_INT(type_of_in(&t, only(&t, "infer::Gemm"), 0), DT_BF16);
	}
	trial_finish(&t);
}

static void fp32_is_left_alone(void)
{
	struct trial t;

	if (start(&t, PRECISION_TF32, "y = MatMul(x, w)")) {
		CHECK(!only(&t, "Cast"));
		CHECK_INT(type_of_in(&t, only(&t, "infer::Gemm"), 1), DT_F32);
	}
	trial_finish(&t);
}

/* Whether a product behind a normalization and a Resize rounds to float8 with a factor that is known before the run. */
static bool bound_passes_resize(const char *mode)
{
	struct shape x = shape_of(4, (int64_t[]){1, 1, 8, 16}),
		     square = shape_of(2, (int64_t[]){16, 16});
	struct shape line = shape_of(1, (int64_t[]){16}), four = shape_of(1, (int64_t[]){4}),
		     none = shape_of(1, (int64_t[]){0});
	struct trial t;
	char text[256];
	bool passes = false;

	trial_start(&t);
	t.config = (struct run_config){.optimize = OPTIMIZE_FULL, .precision = PRECISION_FP8};
	trial_input(&t, "x", DT_F32, x);
	struct tensor *w = tensor_new(&t.model.arena, DT_F32, &square);
	struct tensor *s = tensor_new(&t.model.arena, DT_F32, &line);
	struct tensor *scales = tensor_new(&t.model.arena, DT_F32, &four);
	for (int i = 0; i < 256; i++)
		((float *)w->data)[i] = (float)(i % 7 - 3) / 3;
	for (int i = 0; i < 16; i++)
		((float *)s->data)[i] = 1;
	for (int i = 0; i < 4; i++)
		((float *)scales->data)[i] = i == 2 ? 2 : 1;
	trial_const(&t, "w", w);
	trial_const(&t, "s", s);
	trial_const(&t, "scales", scales);
	trial_const(&t, "none", tensor_new(&t.model.arena, DT_F32, &none));
	snprintf(text, sizeof(text),
		 "y = MatMul(Resize(LayerNormalization(x, s), none, scales) {mode=%s}, w)", mode);
	if (CHECK(trial_text(&t, text) == 0) && CHECK(trial_output(&t, "y")) &&
	    CHECK_INT(opt_run(&t.model, &cpu_backend, &t.config, &t.diag), 0))
		passes = only(&t, "infer::Float8") && only(&t, "infer::Float8")->nout == 1;
	trial_finish(&t);
	return passes;
}

static struct tensor *ramp(struct shape shape, struct trial *t)
{
	struct tensor *w = tensor_new(&t->model.arena, DT_F32, &shape);

	for (int64_t i = 0; i < tensor_count(w); i++)
		((float *)w->data)[i] = (float)(i % 7 - 3) / 3;
	return w;
}

/* Curves exceed what they go through, so that a bound of the input is none of the output. */
static void cubic_resize_has_no_bound(void)
{
	CHECK(bound_passes_resize("linear"));
	CHECK(!bound_passes_resize("cubic"));
}

/* An attention rounds what only products read: its result is bounded by its values, which lie in its first input if it has no others. */
static void attention_becomes_float8(void)
{
	static const char *const inputs[] = {"p", "p, _, _, m", "a, a, a", "a, a, a, m"};

	for (int i = 0; i < 4; i++) {
		struct shape line = shape_of(1, (int64_t[]){16});
		char text[256];
		struct trial t;
		trial_start(&t);
		t.config = (struct run_config){.optimize = OPTIMIZE_FULL, .precision = PRECISION_FP8};
		trial_input(&t, "x", DT_F32, shape_of(3, (int64_t[]){2, 3, 16}));
		trial_input(&t, "m", DT_F32, shape_of(4, (int64_t[]){2, 1, 1, 3}));
		struct tensor *w = ramp(shape_of(2, (int64_t[]){16, 16}), &t),
			      *v = ramp(shape_of(2, (int64_t[]){16, 48}), &t), *s = ramp(line, &t);
		trial_const(&t, "w", w);
		trial_const(&t, "v", v);
		trial_const(&t, "s", s);
		snprintf(text, sizeof(text),
			 "n = LayerNormalization(x, s); p = MatMul(n, v); a = MatMul(n, w);"
			 "y = MatMul(infer::Attention(%s) {num_heads=2}, w)",
			 inputs[i]);
		if (CHECK(trial_text(&t, text) == 0) && CHECK(trial_output(&t, "y")) &&
		    CHECK_INT(opt_run(&t.model, &cpu_backend, &t.config, &t.diag), 0)) {
			CHECK(only(&t, "infer::AttentionFloat8"));
			CHECK(!only(&t, "infer::Float8"));
		}
		trial_finish(&t);
	}
}

/* A normalization and a product round what only products read; a product that does not fit stays fp16. */
static void products_become_float8(void)
{
	struct shape square = shape_of(2, (int64_t[]){16, 16}), line = shape_of(1, (int64_t[]){16});
	struct trial t;

	trial_start(&t);
	t.config = (struct run_config){.optimize = OPTIMIZE_FULL, .precision = PRECISION_FP8};
	trial_input(&t, "x", DT_F32, shape_of(2, (int64_t[]){3, 16}));
	struct tensor *w = tensor_new(&t.model.arena, DT_F32, &square);
	struct tensor *s = tensor_new(&t.model.arena, DT_F32, &line);
	for (int i = 0; i < 256; i++)
		((float *)w->data)[i] = (float)(i % 7 - 3) / 3;
	for (int i = 0; i < 16; i++)
		((float *)s->data)[i] = 1;
	trial_const(&t, "w", w);
	trial_const(&t, "s", s);
	if (CHECK(trial_text(&t, "n = LayerNormalization(x, s); y = MatMul(Relu(MatMul(n, w)), w)") ==
		  0) &&
	    CHECK(trial_output(&t, "y")) &&
	    CHECK_INT(opt_run(&t.model, &cpu_backend, &t.config, &t.diag), 0)) {
		CHECK(only(&t, "infer::LayerNormFloat8"));
		CHECK(!only(&t, "infer::Gemm") && !only(&t, "infer::Float8"));
		CHECK_INT(type_of_in(&t, only(&t, "infer::GemmFloat8"), 0), FLOAT8);
		CHECK_INT(type_of_in(&t, only(&t, "infer::GemmFloat8"), 1), FLOAT8);
	}
	trial_finish(&t);
	if (start(&t, PRECISION_FP8, "y = MatMul(x, w)"))
		CHECK_INT(type_of_in(&t, only(&t, "infer::Gemm"), 1), DT_F16);
	trial_finish(&t);
}

/* The type in which `op` of the text is computed. */
static int type_with(enum precision p, const char *op, const char *nodes)
{
	struct trial t;
	int type = -1;

	if (start(&t, p, nodes))
		type = type_of_in(&t, only(&t, op), 0);
	trial_finish(&t);
	return type;
}

#define COUNT "c = Cast(Cast(x) {to=7}) {to=1}; "

/* What integers become stays fp32, up to a product with weights. */
static void counts_stay(void)
{
	CHECK_INT(type_with(PRECISION_BF16, "Add", COUNT "y = Add(c, Gather(w, 3))"), DT_F32);
	CHECK_INT(type_with(PRECISION_BF16, "infer::Gemm", COUNT "y = MatMul(c, w)"), DT_BF16);
}

/* So does what leads to integers, sizes and angles, unless a product has made it. */
static void what_leads_to_integers_stays(void)
{
	CHECK_INT(type_with(PRECISION_BF16, "Mul", "y = Cast(Mul(x, x)) {to=7}"), DT_F32);
	CHECK_INT(type_with(PRECISION_BF16, "Mul", "y = Sin(Transpose(Mul(x, x)))"), DT_F32);
	CHECK_INT(type_with(PRECISION_BF16, "Relu",
			    "y = Sin(Transpose(Relu(Transpose(MatMul(x, w)))))"),
		  DT_BF16);
	CHECK_INT(type_with(PRECISION_BF16, "Mul",
			    "y = Resize(x, _, Mul(twice, ReduceMax(x, [0,1]) {keepdims=0}))"),
		  DT_F32);
}

/* Squares and what follows them, up to the root; a product takes the largest number for what is larger. */
static void squares_stay_in_fp16(void)
{
	CHECK_INT(type_with(PRECISION_FP16, "infer::Pointwise",
			    "a = MatMul(x, w); y = Sqrt(Add(ReduceMean(Mul(a, a), [1]), Gather(w, [3])))"),
		  DT_F32);
	CHECK_INT(type_with(PRECISION_FP16, "Mul", "a = MatMul(x, w); y = MatMul(Mul(a, a), w)"),
		  DT_F16);
}

int main(void)
{
	UNIT(counts_stay);
	UNIT(what_leads_to_integers_stays);
	UNIT(squares_stay_in_fp16);
	UNIT(products_become_small);
	UNIT(denormal_weights_become_zeros);
	UNIT(other_denormals_stay);
	UNIT(pictures_stay_small);
	UNIT(exponentials_stay);
	UNIT(fp32_is_left_alone);
	UNIT(products_become_float8);
	UNIT(attention_becomes_float8);
	UNIT(cubic_resize_has_no_bound);
	return unit_end();
}
