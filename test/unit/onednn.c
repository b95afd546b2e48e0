/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast kernels of the CPU against the reference rows behind them: one node at a time, over
 * shapes, types, layouts, activations, with and without weights that are packed.
 */
#include "backend/weight_store.h"
#include "base/pool.h"
#include "cpu/cpu.h"
#include "cpu/onednn/onednn.h"
#include "ops/fused.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bad, checked;
static uint64_t seed = 1;

static float random_value(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (float)((double)(seed >> 33) / 1073741824.0 - 1);
}

enum { MAX_IN = 4 };
struct test {
	const char *name, *op;
	enum dtype type;
	int nin;
	struct shape in[MAX_IN];    /* rank -1: left out */
	bool weight[MAX_IN];	    /* an initializer */
	enum layout layout[MAX_IN]; /* in which the plan would have it */
	bool bool_mask;
	int nout;
};

/* Unless `weight` is 0: what the weights of a product are at each third value of k, and what A has there (0: random values). */
static struct {
	float weight, element;
	bool transposed;
} faint;

/* One node in a graph of its own, and what a plan would know. */
struct bench {
	struct arena arena;
	struct graph *graph;
	struct node *node;
	struct vinfo *info;
	struct tensor *in[MAX_IN];
	struct store *store;
	struct diag diag;
};

static struct tensor *make_input(struct bench *b, const struct test *t, int i)
{
	enum dtype type = t->bool_mask && i == 3 ? DT_BOOL : t->type;
	struct tensor *x = tensor_new(&b->arena, type, &t->in[i]);
	for (int64_t k = 0; k < tensor_count(x); k++)
		elem_set_f64(type, x->data, k,
			     type == DT_BOOL ? random_value() > -0.5f : random_value());
	return x;
}

/* Makes a third of the weights as small as `faint` says, and zero if it says -1. */
static void make_faint(const struct test *t, struct tensor *a, struct tensor *w)
{
	int64_t k = t->in[0].dim[t->in[0].rank - 1];
	float *x = a->data, *y = w->data;

	for (int64_t i = 0; i < tensor_count(a); i++)
		if (i % k % 3 == 1 && faint.element != 0)
			x[i] = faint.element;
	for (int64_t i = 0; i < tensor_count(w); i++)
		if ((faint.transposed ? i % k : i / t->in[1].dim[1]) % 3 == 1)
			y[i] = faint.weight > 0 ? faint.weight : 0;
}

static void setup(struct bench *b, const struct test *t, void *params)
{
	uint32_t in[MAX_IN], out[2];
	*b = (struct bench){.store = store_new(NULL, NULL)};
	b->graph = graph_new(&b->arena, NULL, "test");
	for (int i = 0; i < t->nin; i++) {
		in[i] = NO_VALUE;
		if (t->in[i].rank < 0)
			continue;
		b->in[i] = make_input(b, t, i);
		in[i] = t->weight[i] ? graph_add_const(b->graph, "", b->in[i])->id
				     : graph_add_value(b->graph, "")->id;
	}
	if (faint.weight != 0)
		make_faint(t, b->in[0], b->in[1]);
	int nout = t->nout ? t->nout : 1;
	for (int i = 0; i < nout; i++)
		out[i] = graph_add_value(b->graph, "")->id;
	b->node = graph_add_node(b->graph, op_named(t->op), params, in, (uint32_t)t->nin, out,
				 (uint32_t)nout, origin_new(&b->arena, t->name, t->op, 1));
	b->info = arena_new_n(&b->arena, struct vinfo, b->graph->nvalues);
	for (int i = 0; i < t->nin; i++) {
		if (!b->in[i])
			continue;
		struct vinfo *v = &b->info[in[i]];
		v->type = b->in[i]->type;
		v->shape = b->in[i]->shape;
		v->known = t->weight[i] ? b->in[i] : NULL;
		v->layout = t->layout[i];
	}
	struct infer c = {.graph = b->graph,
			  .node = b->node,
			  .info = b->info,
			  .arena = &b->arena,
			  .diag = &b->diag,
			  .concrete = true};
	for (int i = 0; i < nout; i++)
		b->info[out[i]].type = type_tensor(t->type);
	if (op_resolved(b->node->op).infer(&c))
		diag_print(&b->diag, stdout, false);
}

static struct tensor *in_layout(struct arena *a, const struct tensor *x, enum layout l)
{
	struct tensor *y = arena_new(a, struct tensor);
	*y = *x;
	y->layout = l;
	if (!tensor_bytes(tensor_dtype(x), &x->shape, l, &y->bytes))
		return NULL;
	y->data = arena_alloc(a, y->bytes + 64);
	struct step step = {0};
	const struct tensor *in[] = {x};
	struct tensor *out[] = {y};
	struct call c = {.step = &step, .in = in, .out = out};
	cpu_reorder.run(&c);
	return y;
}

/* The first output by this kernel, row-major; NULL where it refuses. twice: the plan runs again. */
static struct tensor *run(struct bench *b, const struct kernel *k, bool inplace)
{
	struct site site = {.graph = b->graph,
			    .node = b->node,
			    .info = b->info,
			    .store = b->store,
			    .node_arena = &b->arena,
			    .plan_arena = &b->arena};
	struct why why = {.arena = &b->arena};
	const struct tensor *in[MAX_IN] = {NULL};
	struct tensor *out[2] = {NULL};
	if (k->accepts && !k->accepts(&site, &why)) {
		printf("# %s refuses: %s\n", k->op, why.text);
		return NULL;
	}
	struct step step = {.kernel = k,
			    .node = b->node,
			    .params = b->node->params,
			    .nin = b->node->nin,
			    .nout = b->node->nout,
			    .from = b->node->origin};
	if (k->reshape && k->reshape(&site, &step, &b->diag))
		goto failed;
	for (uint32_t i = 0; i < step.nin; i++)
		if (b->in[i])
			in[i] = in_layout(&b->arena, b->in[i], step.want ? step.want[i] : LAYOUT_ROW);
	for (uint32_t i = 0; i < step.nout; i++) {
		struct tensor *y = out[i] = arena_new(&b->arena, struct tensor);
		*y = (struct tensor){.type = site_out(&site, i)->type,
				     .shape = site_out(&site, i)->shape,
				     .layout = step.give ? step.give[i] : LAYOUT_ROW};
		if (!tensor_bytes(tensor_dtype(y), &y->shape, y->layout, &y->bytes))
			goto failed;
		y->data = arena_alloc(&b->arena, y->bytes + 64);
	}
	if (inplace && step.ninplace)
		out[step.inplace[0].out]->data = in[step.inplace[0].in]->data;
	struct call c = {.step = &step,
			 .in = in,
			 .out = out,
			 .diag = &b->diag,
			 .workspace = mem_alloc(step.workspace + 1, MEM_WORKSPACE)};
	int err = k->run(&c);
	mem_free(c.workspace);
	if (k->drop)
		k->drop(&step);
	if (!err)
		return in_layout(&b->arena, out[0], LAYOUT_ROW);
failed:
	diag_print(&b->diag, stdout, false);
	return NULL;
}

static double tolerance(enum dtype t)
{
	return t == DT_F16 ? 2e-3 : t == DT_BF16 ? 1.6e-2 : 1e-4;
}

static void compare(const struct test *t, const struct tensor *y, const struct tensor *ref,
		    const char *how)
{
	double worst = 0, scale = 1e-3;
	for (int64_t i = 0; i < tensor_count(ref); i++) {
		double a = elem_f64(t->type, y->data, i), b = elem_f64(t->type, ref->data, i);
		double d = a == b || (isnan(a) && isnan(b)) ? 0 : fabs(a - b);
		if (!(d <= worst))
			worst = d;
		if (fabs(b) > scale && !isinf(b))
			scale = fabs(b);
	}
	bool ok = worst <= tolerance(t->type) * scale;
	printf("%sok %s %s%s # %.2g of %.2g\n", ok ? "" : "not ", t->name, dtype_name(t->type), how,
	       worst, scale);
	bad += !ok;
	checked++;
}

static void test(const struct test *t, void *params)
{
	struct bench b;
	setup(&b, t, params);
	const struct kernel *k, *ref = NULL;
	for (unsigned i = 0; (k = backend_kernel(&cpu_backend, b.node->op, i)); i++)
		if (k->flags & K_REFERENCE)
			ref = k;
	struct tensor *want = ref ? run(&b, ref, false) : NULL;
	if (!want) {
		printf("not ok %s: no reference\n", t->name);
		bad++;
	}
	for (unsigned i = 0; want && (k = backend_kernel(&cpu_backend, b.node->op, i)); i++) {
		if (k == ref || !(k->types & T_BIT(t->type)))
			continue;
		for (int inplace = 0; inplace < 2; inplace++) {
			struct tensor *y = run(&b, k, inplace);
			if (y)
				compare(t, y, want, inplace ? ", in place" : "");
		}
	}
	store_free(b.store);
	diag_free(&b.diag);
	arena_free(&b.arena);
}

#define S(...)                                                                                     \
	{                                                                                          \
		.rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dim = { __VA_ARGS__ } \
	}
#define NONE                                                                                       \
	{                                                                                          \
		.rank = -1                                                                         \
	}
static const struct ints absent = {.n = -1};

/* Windows for which AVX2 has a kernel of its own, in all its parts: pads, strides, several pictures, outputs in several pieces. */
static void sums_of_products(enum dtype type)
{
	static const int64_t far[] = {256}, sides[] = {3, 5}, step[] = {2, 1},
			     around[] = {2, 1, 2, 3};
	struct fused_conv p = {.dilations = {far, 1},
			       .kernel_shape = absent,
			       .pads = {sides, 2},
			       .strides = absent,
			       .group = 1,
			       .act = ACT_GELU};
	struct test t = {"conv of elements far apart",
			 "infer::Conv",
			 type,
			 4,
			 {S(2, 64, 844), S(20, 64, 3), S(20), S(2, 20, 340)},
			 {0, 1, 1, 0},
			 {0},
			 0,
			 0};
	test(&t, &p);
	p = (struct fused_conv){.dilations = absent,
				.kernel_shape = absent,
				.pads = {around, 4},
				.strides = {step, 2},
				.group = 1,
				.act = ACT_RELU};
	t = (struct test){"conv 9x8 of 12 channels",
			  "infer::Conv",
			  type,
			  2,
			  {S(2, 12, 9, 30), S(17, 12, 9, 8)},
			  {0, 1},
			  {0},
			  0,
			  0};
	test(&t, &p);
}

/* Windows for which AVX-512 has a kernel of its own: pads, strides, dilations, several pictures, with few channels row-major ones. */
static void windows_of_products(enum dtype type)
{
	static const int64_t two[] = {2, 2}, one[] = {1, 1, 1, 1}, three[] = {3, 2, 1, 3};
	struct fused_conv p = {.dilations = absent,
			       .kernel_shape = absent,
			       .pads = {one, 4},
			       .strides = {two, 2},
			       .group = 1,
			       .act = ACT_RELU};
	struct test t = {"conv 3x3 stride 2 of many weights",
			 "infer::Conv",
			 type,
			 4,
			 {S(2, 96, 9, 11), S(208, 96, 3, 3), S(208), S(2, 208, 5, 6)},
			 {0, 1, 1, 0},
			 {0},
			 0,
			 0};
	test(&t, &p);
	t = (struct test){"conv 7x7 stride 2 of 3 channels to 40 maps",
			  "infer::Conv",
			  type,
			  3,
			  {S(2, 3, 33, 61), S(40, 3, 7, 7), S(40)},
			  {0, 1, 1},
			  {0},
			  0,
			  0};
	p.pads.v = three;
	p.act = ACT_SWISH;
	p.act_alpha = 1;
	test(&t, &p);
	t.name = "conv 7x7 stride 2 of 3 channels to 40 maps, channels last";
	t.layout[0] = LAYOUT_CHANNELS_LAST;
	test(&t, &p);
	t = (struct test){"conv 3x3 of 52 channels to 23 maps, elements two apart",
			  "infer::Conv",
			  type,
			  4,
			  {S(1, 52, 19, 21), S(23, 52, 3, 3), S(23), S(1, 23, 19, 19)},
			  {0, 1, 1, 0},
			  {0},
			  0,
			  0};
	p.dilations = (struct ints){two, 2};
	p.strides = absent;
	p.pads.v = (const int64_t[]){1, 2, 3, 0};
	p.act = ACT_HARDSWISH;
	p.act_alpha = 1.0f / 6;
	p.act_beta = 0.5f;
	test(&t, &p);
}

static void convolutions(enum dtype type)
{
	static const int64_t two[] = {2, 2}, one[] = {1, 1, 1, 1}, three[] = {3, 3, 3, 3};
	struct fused_conv p = {.dilations = absent,
			       .kernel_shape = absent,
			       .pads = {one, 4},
			       .strides = absent,
			       .group = 1,
			       .act = ACT_RELU};
	struct test t = {"conv 3x3 bias relu",
			 "infer::Conv",
			 type,
			 4,
			 {S(1, 32, 14, 14), S(48, 32, 3, 3), S(48), NONE},
			 {0, 1, 1, 0},
			 {0},
			 0,
			 0};
	test(&t, &p);
	t.name = "conv 3x3 bias sum hardswish, channels last";
	t.layout[0] = LAYOUT_CHANNELS_LAST;
	t.in[3] = (struct shape)S(1, 48, 14, 14);
	p.act = ACT_HARDSWISH;
	p.act_alpha = 1.0f / 6;
	p.act_beta = 0.5f;
	test(&t, &p);
	t = (struct test){"conv 7x7 stride 2 of 3 channels",
			  "infer::Conv",
			  type,
			  2,
			  {S(2, 3, 33, 31), S(20, 3, 7, 7)},
			  {0, 1},
			  {0},
			  0,
			  0};
	p.pads.v = three;
	p.strides = (struct ints){two, 2};
	p.act = ACT_SWISH;
	p.act_alpha = 1;
	test(&t, &p);
	t = (struct test){
		"depthwise", "infer::Conv", type, 3, {S(1, 40, 15, 15), S(40, 1, 3, 3), S(40)},
		{0, 1, 1},   {0},	    0,	  0};
	p.pads.v = one;
	p.group = 40;
	p.act = ACT_CLIP;
	p.act_alpha = 0;
	p.act_beta = 6;
	test(&t, &p);
	t = (struct test){"depthwise 5x5 of 72 channels",
			  "infer::Conv",
			  type,
			  2,
			  {S(2, 72, 11, 14), S(72, 1, 5, 5)},
			  {0, 1},
			  {0},
			  0,
			  0};
	p.group = 72;
	p.strides.v = one;
	p.act = ACT_SWISH;
	p.act_alpha = 1;
	test(&t, &p);
	t = (struct test){"depthwise 7x7 of 100 channels",
			  "infer::Conv",
			  type,
			  2,
			  {S(1, 100, 9, 30), S(100, 1, 7, 7)},
			  {0, 1},
			  {0},
			  0,
			  0};
	p.group = 100;
	p.pads.v = three;
	test(&t, &p);
	t.name = "depthwise 7x7 with stride 3";
	p.strides.v = three;
	test(&t, &p);
	p.pads.v = one;
	p.strides.v = two;
	t = (struct test){"groups, dilated, weights that are no initializer",
			  "infer::Conv",
			  type,
			  2,
			  {S(1, 12, 17, 9), S(18, 4, 3, 3)},
			  {0},
			  {0},
			  0,
			  0};
	p.group = 3;
	p.dilations = (struct ints){two, 2};
	p.pads = absent;
	p.act = ACT_NONE;
	test(&t, &p);
	p = (struct fused_conv){.auto_pad = FUSED_SAME_UPPER,
				.dilations = absent,
				.kernel_shape = absent,
				.pads = absent,
				.strides = absent,
				.group = 1,
				.act = ACT_GELU};
	t = (struct test){"conv of rank 3, SAME",
			  "infer::Conv",
			  type,
			  3,
			  {S(2, 16, 50), S(24, 16, 4), S(24)},
			  {0, 1, 1},
			  {0},
			  0,
			  0};
	test(&t, &p);
	t = (struct test){"conv of rank 5",
			  "infer::Conv",
			  type,
			  3,
			  {S(1, 16, 5, 6, 7), S(8, 16, 2, 3, 2), S(8)},
			  {0, 1, 1},
			  {0},
			  0,
			  0};
	test(&t, &p);
	t = (struct test){"conv 1x1 of a blocked image",
			  "infer::Conv",
			  type,
			  3,
			  {S(1, 20, 6, 6), S(8, 20, 1, 1), S(8)},
			  {0, 1, 1},
			  {LAYOUT_BLOCK16},
			  0,
			  0};
	test(&t, &p);
}

/* Convolutions along one axis, whose other axes have one element. */
static void lines(enum dtype type)
{
	static const int64_t around[] = {0, 1, 0, 1}, behind[] = {0, 2}, two[] = {2};
	struct fused_conv p = {.dilations = absent,
			       .kernel_shape = absent,
			       .pads = {around, 4},
			       .strides = absent,
			       .group = 1,
			       .act = ACT_SWISH,
			       .act_alpha = 1};
	struct test t = {"conv 1x3 of lines, bias, sum",
			 "infer::Conv",
			 type,
			 4,
			 {S(2, 96, 1, 23), S(40, 96, 1, 3), S(40), S(2, 40, 1, 23)},
			 {0, 1, 1, 0},
			 {LAYOUT_CHANNELS_LAST, 0, 0, LAYOUT_CHANNELS_LAST},
			 0,
			 0};
	test(&t, &p);
	t = (struct test){"conv of lines, stride 2, padded at one end",
			  "infer::Conv",
			  type,
			  3,
			  {S(3, 70, 37), S(36, 70, 4), S(36)},
			  {0, 1, 1},
			  {LAYOUT_CHANNELS_LAST},
			  0,
			  0};
	p.pads = (struct ints){behind, 2};
	p.strides = (struct ints){two, 1};
	p.act = ACT_NONE;
	test(&t, &p);
	t.name = "conv of lines without padding";
	t.in[0] = (struct shape)S(1, 64, 4);
	t.in[1] = (struct shape)S(36, 64, 4);
	p.pads = absent;
	test(&t, &p);
	t.name = "conv of lines, SAME";
	t.in[0] = (struct shape)S(1, 64, 20);
	p.auto_pad = FUSED_SAME_UPPER;
	test(&t, &p);
}

static void products(enum dtype type)
{
	struct fused_gemm p = {.alpha = 1, .beta = 1, .act = ACT_GELU};
	struct test t = {"product, bias, gelu",
			 "infer::Gemm",
			 type,
			 3,
			 {S(2, 9, 64), S(64, 48), S(48)},
			 {0, 1, 1},
			 {0},
			 0,
			 0};
	test(&t, &p);
	t = (struct test){"product, bias, sum",
			  "infer::Gemm",
			  type,
			  4,
			  {S(2, 9, 64), S(64, 48), S(48), S(2, 9, 48)},
			  {0, 1, 1},
			  {0},
			  0,
			  0};
	p.act = ACT_NONE;
	test(&t, &p);
	t = (struct test){"product with alpha, beta, transposed weights",
			  "infer::Gemm",
			  type,
			  4,
			  {S(7, 33), S(20, 33), S(20), S(7, 20)},
			  {0, 1, 1},
			  {0},
			  0,
			  0};
	p = (struct fused_gemm){.alpha = 0.5f, .beta = 2, .transB = 1, .act = ACT_RELU};
	test(&t, &p);
	t = (struct test){"many columns of short sums, transposed weights",
			  "infer::Gemm",
			  type,
			  3,
			  {S(2, 35, 33), S(1003, 33), S(1003)},
			  {0, 1, 1},
			  {0},
			  0,
			  0};
	p = (struct fused_gemm){.alpha = 1, .beta = 1, .transB = 1, .act = ACT_RELU};
	test(&t, &p);
	t = (struct test){"many columns of short sums",
			  "infer::Gemm",
			  type,
			  2,
			  {S(5, 65), S(65, 800)},
			  {0, 1},
			  {0},
			  0,
			  0};
	p = (struct fused_gemm){.alpha = 1, .beta = 1, .act = ACT_NONE};
	test(&t, &p);
	t = (struct test){"product with a column C, transposed A",
			  "infer::Gemm",
			  type,
			  3,
			  {S(33, 7), S(33, 20), S(7, 1)},
			  {0, 1},
			  {0},
			  0,
			  0};
	p = (struct fused_gemm){.alpha = 1, .beta = 1, .transA = 1};
	test(&t, &p);
	t = (struct test){"batches that repeat",
			  "infer::Gemm",
			  type,
			  2,
			  {S(2, 1, 3, 5, 8), S(4, 1, 8, 6)},
			  {0},
			  {0},
			  0,
			  0};
	p = (struct fused_gemm){.alpha = 1, .beta = 1};
	test(&t, &p);
	t = (struct test){"batches of weights, scalar C",
			  "infer::Gemm",
			  type,
			  3,
			  {S(3, 5, 8), S(3, 8, 6), {.rank = 0}},
			  {0, 1},
			  {0},
			  0,
			  0};
	test(&t, &p);
	t = (struct test){
		"vector by matrix", "infer::Gemm", type, 2, {S(8), S(3, 8, 6)}, {0}, {0}, 0, 0};
	test(&t, &p);
	t = (struct test){
		"matrix by vector", "infer::Gemm", type, 2, {S(5, 8), S(8)}, {0, 1}, {0}, 0, 0};
	test(&t, &p);
}

/* One channel along a line: several parts, a stride, more maps than one, fewer taps than a stride would divide evenly. */
static void signals(enum dtype type)
{
	static const int64_t one[] = {1, 1}, two[] = {1, 2}, none[] = {0, 0, 0, 0};
	struct fused_conv p = {
		.dilations = {one, 2}, .pads = {none, 4}, .strides = {two, 2}, .group = 1};
	struct test t = {"filter with stride 2",
			 "infer::Conv",
			 type,
			 3,
			 {S(2, 1, 1, 4500), S(1, 1, 1, 33), S(1)},
			 {0, 1, 1},
			 {0},
			 0,
			 0};

	test(&t, &p);
	t = (struct test){"filters of three maps",
			  "infer::Conv",
			  type,
			  2,
			  {S(1, 1, 1, 1200), S(3, 1, 1, 40)},
			  {0, 1},
			  {0},
			  0,
			  0};
	p.strides.v = one;
	p.act = ACT_RELU;
	test(&t, &p);
}

/* Of channels that lie side by side, by parts of the positions: few channels, many, and fewer positions than parts. */
static void means(enum dtype type)
{
	static const struct shape sizes[] = {S(2, 3, 67, 45), S(1, 40, 33, 17), S(3, 300, 5, 6),
					     S(1, 9000, 1, 1)};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const struct test t = {"means of channels",
				       "GlobalAveragePool",
				       type,
				       1,
				       {sizes[i]},
				       {0},
				       {LAYOUT_CHANNELS_LAST},
				       0,
				       0};
		test(&t, NULL);
	}
}

static void pointwise(enum dtype type)
{
	static const int64_t outs[] = {6};
	static const int64_t code[] = {PW_INPUT,
				       0,
				       0,
				       0,
				       PW_INPUT,
				       1,
				       0,
				       0,
				       PW_ADD,
				       0,
				       1,
				       0,
				       PW_CONST,
				       0,
				       0,
				       0,
				       PW_MUL,
				       2,
				       3,
				       0,
				       PW_ACT,
				       4,
				       ACT_HARDSWISH,
				       1,
				       PW_SUB,
				       5,
				       0,
				       0};
	static const float consts[] = {1.5f, 1.0f / 6, 0.5f};
	struct fused_pointwise p = {
		.code = {code, 28}, .consts = {consts, 3}, .outs = {outs, 1}, .expr = "x"};
	struct test t = {"pointwise",
			 "infer::Pointwise",
			 type,
			 2,
			 {S(2, 40, 9, 9), S(2, 40, 9, 9)},
			 {0},
			 {0},
			 0,
			 0};
	test(&t, &p);
	t.name = "pointwise, channels last";
	t.layout[0] = LAYOUT_CHANNELS_LAST;
	test(&t, &p);
	t.name = "pointwise, channel factors";
	t.in[1] = (struct shape)S(2, 40, 1, 1);
	test(&t, &p);
	t.name = "pointwise, channel factors, blocked";
	t.layout[0] = LAYOUT_BLOCK8;
	test(&t, &p);
	t.name = "pointwise, channel factors of lower rank, blocks that are not full";
	t.layout[0] = LAYOUT_BLOCK16;
	t.in[1] = (struct shape)S(40, 1, 1);
	test(&t, &p);
	t.name = "pointwise, a row";
	t.layout[0] = LAYOUT_ROW;
	t.in[1] = (struct shape)S(9);
	test(&t, &p);
	t.name = "pointwise, image of one map, channels last";
	t.layout[0] = LAYOUT_CHANNELS_LAST;
	t.in[1] = (struct shape)S(1, 1, 9, 9);
	test(&t, &p);
	t.name = "pointwise, scalar";
	t.in[1] = (struct shape){.rank = 0};
	test(&t, &p);
	t.name = "pointwise, both repeat";
	t.layout[0] = LAYOUT_ROW;
	t.in[0] = (struct shape)S(7, 1, 5);
	t.in[1] = (struct shape)S(1, 600, 1);
	test(&t, &p);
}

/* One square initializer used as it is and transposed: two packed forms. */
static void shared_weights(void)
{
	struct fused_gemm p = {.alpha = 1, .beta = 1};
	struct test t = {"square weights", "infer::Gemm", DT_F32, 2, {S(3, 64), S(64, 64)},
			 {0, 1},	   {0},		  0,	  0};
	struct bench b;
	struct tensor *y[2];
	setup(&b, &t, &p);
	const struct kernel *fast = backend_kernel(&cpu_backend, b.node->op, 0);
	for (int i = 0; i < 2; i++) {
		p.transB = i;
		y[i] = run(&b, fast, false);
	}
	if (y[0] && y[1]) {
		bool differ = memcmp(y[0]->data, y[1]->data, y[0]->bytes) != 0;
		printf("%sok packed weights are told apart by how they are used\n",
		       differ ? "" : "not ");
		bad += !differ;
	}
	store_free(b.store);
	diag_free(&b.diag);
	arena_free(&b.arena);
}

/* infer::AddLayerNorm has one kernel: against a plain loop. */
static void norms(enum dtype type)
{
	struct fused_addnorm p = {.epsilon = 1e-5f};
	enum { ROWS = 5, N = 50 };
	struct test t = {"add and normalize",
			 "infer::AddLayerNorm",
			 type,
			 4,
			 {S(ROWS, N), S(ROWS, N), S(N), S(N)},
			 {0, 0, 1, 1},
			 {0},
			 0,
			 2};
	struct bench b;
	setup(&b, &t, &p);
	struct tensor *y = run(&b, backend_kernel(&cpu_backend, b.node->op, 0), false), *want;
	want = tensor_new(&b.arena, type, &b.in[0]->shape);
	for (int r = 0; r < ROWS; r++) {
		double s[N], mean = 0, var = 0;
		for (int i = 0; i < N; i++) {
			s[i] = elem_f64(type, b.in[0]->data, r * N + i) +
			       elem_f64(type, b.in[1]->data, r * N + i);
			mean += s[i] / N;
		}
		for (int i = 0; i < N; i++)
			var += (s[i] - mean) * (s[i] - mean) / N;
		for (int i = 0; i < N; i++)
			elem_set_f64(type, want->data, r * N + i,
				     (s[i] - mean) / sqrt(var + (double)p.epsilon) *
						     elem_f64(type, b.in[2]->data, i) +
					     elem_f64(type, b.in[3]->data, i));
	}
	if (y) {
		compare(&t, y, want, "");
	} else {
		printf("not ok %s\n", t.name);
		bad++;
	}
	store_free(b.store);
	diag_free(&b.diag);
	arena_free(&b.arena);
}

/* Weights that are denormal for some values of k, which products leave out where they add nothing. */
static void faint_weights(void)
{
	static const float cases[][2] = {{1e-39f, 0},	     {1e-39f, 1e38f}, {1e-39f, 1e-30f},
					 {1e-39f, INFINITY}, {1e-39f, NAN},   {-1, 0},
					 {-1, INFINITY},     {-1, 1e-30f}};
	struct fused_gemm p = {.alpha = 2, .beta = 1, .act = ACT_NONE};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct test t = {"product with faint weights",
				 "infer::Gemm",
				 DT_F32,
				 4,
				 {S(2, 9, 64), S(64, 48), S(48), S(2, 9, 48)},
				 {0, 1, 1},
				 {0},
				 0,
				 0};
		faint.weight = cases[i][0];
		faint.element = cases[i][1];
		faint.transposed = false;
		p.transB = 0;
		test(&t, &p);
		/* the other values of k are 1,024, whose rows products copy */
		t = (struct test){"product with faint weights, transposed",
				  "infer::Gemm",
				  DT_F32,
				  2,
				  {S(15, 1536), S(20, 1536)},
				  {0, 1},
				  {0},
				  0,
				  0};
		faint.transposed = true;
		p.transB = 1;
		test(&t, &p);
	}
	faint.weight = 0;
}

int main(void)
{
	pool_set_threads(2);
	faint_weights();
	shared_weights();
	printf("# %s\n", onednn_about());
	static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16};
	for (int i = 0; i < 3; i++) {
		sums_of_products(types[i]);
		windows_of_products(types[i]);
		convolutions(types[i]);
		lines(types[i]);
		products(types[i]);
		signals(types[i]);
		means(types[i]);
		pointwise(types[i]);
		norms(types[i]);
	}
	if (!checked) {
		printf("not ok nothing was compared\n");
		bad++;
	}
	return bad != 0;
}
