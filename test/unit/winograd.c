/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions by Winograd's algorithm beside sums over windows in double, of which this file has its own. */
#include "backend/weight_store.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cpu/math/level.h"
#include "cpu/winograd.h"
#include "ops/fused.h"
#include "test/unit/sample.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

struct conv {
	int64_t images, channels, rows, columns, maps;
	int64_t pads[4]; /* top, left, bottom, right */
	int act;
	bool bias, residual, inplace;
};

struct conv_data {
	struct arena arena;
	struct graph *graph;
	struct vinfo *info;
	struct store *store;
	struct diag diag;
	struct fused_conv params;
	struct site site;
	struct tensor *in[4]; /* channels last, but for the weights */
	struct shape y;
	float *out;
};

static struct shape shape_4(int64_t n, int64_t c, int64_t h, int64_t w)
{
	return shape_of(4, (int64_t[]){n, c, h, w});
}

/* Makes the node and its data: numbers from -1 to 1. */
static void make(struct conv_data *t, const struct conv *c)
{
	static const struct ints absent = {.n = -1};
	uint32_t in[4] = {NO_VALUE, NO_VALUE, NO_VALUE, NO_VALUE}, out;

	*t = (struct conv_data){.store = store_new(NULL, NULL)};
	t->y = shape_4(c->images, c->maps, c->rows + c->pads[0] + c->pads[2] - 2,
		       c->columns + c->pads[1] + c->pads[3] - 2);
	struct shape shapes[] = {shape_4(c->images, c->channels, c->rows, c->columns),
				 shape_4(c->maps, c->channels, 3, 3),
				 shape_of(1, (int64_t[]){c->maps}), t->y};
	t->params = (struct fused_conv){.dilations = absent,
					.kernel_shape = absent,
					.pads = {c->pads, 4},
					.strides = absent,
					.group = 1,
					.act = c->act,
					.act_alpha = 1};
	t->graph = graph_new(&t->arena, NULL, "test");
	for (int i = 0; i < 4; i++) {
		if ((i == 2 && !c->bias) || (i == 3 && !c->residual))
			continue;
		t->in[i] = sample_tensor(&t->arena, DT_F32, &shapes[i], -1, 1);
		in[i] = i == 1 ? graph_add_const(t->graph, "", t->in[i])->id
			       : graph_add_value(t->graph, "")->id;
	}
	out = graph_add_value(t->graph, "")->id;
	struct node *node = graph_add_node(t->graph, op_named("infer::Conv"), &t->params, in, 4,
					   &out, 1, origin_new(&t->arena, "test", "infer::Conv", 1));
	t->info = arena_new_n(&t->arena, struct vinfo, t->graph->nvalues);
	for (int i = 0; i < 4; i++)
		if (t->in[i])
			t->info[in[i]] = (struct vinfo){.type = type_tensor(DT_F32),
							.shape = shapes[i],
							.known = i == 1 ? t->in[i] : NULL};
	t->info[out] = (struct vinfo){.type = type_tensor(DT_F32), .shape = t->y};
	t->site = (struct site){.graph = t->graph,
				.node = node,
				.info = t->info,
				.store = t->store,
				.node_arena = &t->arena,
				.plan_arena = &t->arena};
	t->out = arena_new_n(&t->arena, float, (size_t)shape_count(&t->y) + 1);
}

static void drop(struct conv_data *t)
{
	store_free(t->store);
	diag_free(&t->diag);
	arena_free(&t->arena);
}

static bool run(struct conv_data *t, const struct conv *c)
{
	struct step step = {.node = t->site.node, .params = &t->params, .nin = 4, .nout = 1};
	struct why why = {.arena = &t->arena};
	struct tensor y = {.type = type_tensor(DT_F32), .shape = t->y, .data = t->out};
	struct tensor *out[] = {&y};
	const struct tensor *in[] = {t->in[0], t->in[1], t->in[2], t->in[3]};

	if (!winograd_accepts(&t->site, &why))
		return false;
	CHECK(!winograd_reshape(&t->site, &step, &t->diag));
	CHECK(step.want[0] == LAYOUT_CHANNELS_LAST && step.give[0] == LAYOUT_CHANNELS_LAST);
	if (c->inplace) {
		CHECK(step.ninplace == 1 && step.inplace[0].in == 3);
		y.data = t->in[3]->data;
	}
	struct call call = {.step = &step,
			    .in = in,
			    .out = out,
			    .diag = &t->diag,
			    .workspace = mem_alloc(step.workspace + 1, MEM_WORKSPACE)};
	CHECK(!winograd_run(&call));
	mem_free(call.workspace);
	t->out = y.data;
	return true;
}

/* An output before its activation and its residual; *plain is its sum in float. */
static double sum_window(const struct conv_data *t, const struct conv *c, int64_t image,
			 int64_t map, int64_t row, int64_t column, float *plain)
{
	const float *x = t->in[0]->data, *w = t->in[1]->data;
	double sum = t->in[2] ? (double)((const float *)t->in[2]->data)[map] : 0;

	for (int64_t i = 0; i < 3; i++)
		for (int64_t j = 0; j < 3; j++) {
			int64_t r = row + i - c->pads[0], k = column + j - c->pads[1];
			if (r < 0 || r >= c->rows || k < 0 || k >= c->columns)
				continue;
			const float *pixel =
				x + ((image * c->rows + r) * c->columns + k) * c->channels;
			for (int64_t n = 0; n < c->channels; n++) {
				float weight = w[(map * c->channels + n) * 9 + i * 3 + j];
				sum += (double)pixel[n] * (double)weight;
				*plain = fmaf(pixel[n], weight, *plain);
			}
		}
	return sum;
}

static double activate(int act, double x)
{
	return act == ACT_RELU	  ? (x >= 0 || isnan(x) ? x : 0)
	       : act == ACT_SWISH ? x / (1 + exp(-x))
				  : x;
}

/* Returns the expected outputs, channels last, as sums in double. *plain becomes the largest error that sums in float have. */
static float *expected(struct conv_data *t, const struct conv *c, double *plain)
{
	float *y = arena_new_n(&t->arena, float, (size_t)shape_count(&t->y) + 1), *to = y;
	const float *residual = t->in[3] ? t->in[3]->data : NULL;
	double scale = 0;

	*plain = 0;
	for (int64_t i = 0; i < c->images; i++)
		for (int64_t r = 0; r < t->y.dim[2]; r++)
			for (int64_t k = 0; k < t->y.dim[3]; k++)
				for (int64_t m = 0; m < c->maps; m++) {
					float rounded = 0;
					double sum = sum_window(t, c, i, m, r, k, &rounded);
					double bias =
						t->in[2] ? (double)((const float *)t->in[2]->data)[m]
							 : 0;
					*plain = fmax(*plain, fabs(sum - bias - (double)rounded));
					scale = fmax(scale, fabs(sum));
					sum += residual ? (double)residual[to - y] : 0;
					*to++ = (float)activate(c->act, sum);
				}
	*plain /= scale;
	return y;
}

static double largest_error(const struct conv_data *t, const float *want)
{
	double worst = 0, scale = 0;

	for (int64_t i = 0; i < shape_count(&t->y); i++) {
		worst = fmax(worst, fabs((double)t->out[i] - (double)want[i]));
		scale = fmax(scale, fabs((double)want[i]));
	}
	return worst / scale;
}

static const struct conv cases[] = {
	{1, 64, 28, 28, 64, {1, 1, 1, 1}, ACT_RELU, true, false, false}, /* 4 x 4 */
	{1, 64, 11, 14, 96, {1, 1, 1, 1}, ACT_NONE, true, true, true},	 /* 4 x 4, few tiles */
	{2, 29, 23, 17, 37, {0, 2, 1, 0}, ACT_SWISH, true, true, true}, /* odd sizes, unlike pads */
	{3, 24, 9, 9, 30, {1, 1, 1, 1}, ACT_RELU, false, true, false},
	{1, 200, 10, 10, 130, {1, 1, 1, 1}, ACT_RELU, true, false, false},  /* 2 x 2 */
	{1, 130, 11, 9, 100, {0, 1, 2, 1}, ACT_SWISH, false, false, false}, /* 2 x 2, odd sizes */
	{5, 48, 3, 40, 65, {0, 0, 0, 0}, ACT_NONE, false, false, false},    /* a row of outputs */
	{1, 40, 6, 60, 27, {5, 4, 3, 7}, ACT_RELU, true, false, false}, /* tiles in the pads alone */
	{1, 304, 18, 18, 72, {1, 1, 1, 1}, ACT_NONE, true, false, false},
	{1, 1024, 14, 14, 24, {1, 1, 1, 1}, ACT_NONE, true, false, false}, /* rows of 4,096 bytes */
};
enum { CASES = sizeof(cases) / sizeof(*cases) };

/* Under a sanitizer large cases would take minutes, each. */
static bool is_too_long(const struct conv *c)
{
#ifdef __SANITIZE_ADDRESS__
	return (double)c->images * (double)c->channels * (double)c->maps * (double)c->rows *
		       (double)c->columns >
	       5e5;
#else
	(void)c;
	return false;
#endif
}

static void sums(void)
{
	for (int i = 0; i < CASES; i++) {
		struct conv_data t;
		if (is_too_long(&cases[i]))
			continue;
		sample_seed = (uint64_t)i;
		make(&t, &cases[i]);
		double plain;
		const float *want = expected(&t, &cases[i], &plain);
		bool ran = run(&t, &cases[i]);
		double error = ran ? largest_error(&t, want) : 0;
		printf("# case %d: %s, error %.2g, of plain sums %.2g\n", i,
		       ran ? "run" : "refused", error, plain);
		CHECK(ran == (i != 6)); /* a row of outputs is no plane */
		CHECK(error <= 4 * plain);
		drop(&t);
	}
}

/* The same bits with one thread and with two, whatever the blocks. */
static void threads(void)
{
	for (int i = 0; i < CASES; i++) {
		struct conv_data t[2];
		bool ran = true;
		if (is_too_long(&cases[i]))
			continue;
		for (int k = 0; k < 2; k++) {
			pool_set_threads(1 + k);
			sample_seed = (uint64_t)i;
			make(&t[k], &cases[i]);
			ran &= run(&t[k], &cases[i]);
		}
		CHECK(!ran ||
		      !memcmp(t[0].out, t[1].out, (size_t)shape_count(&t[0].y) * sizeof(float)));
		drop(&t[0]);
		drop(&t[1]);
	}
}

/* An infinity, a NaN or a number whose transform overflows reaches those outputs alone whose windows have it. */
static void special(void)
{
	static const float values[] = {INFINITY, -INFINITY, NAN, 3e38F, -FLT_MAX};

	for (int i = 0; i < CASES; i++)
		for (size_t v = 0; v < sizeof(values) / sizeof(*values) && !is_too_long(&cases[i]);
		     v++) {
			struct conv_data t;
			const struct conv *c = &cases[i];
			sample_seed = (uint64_t)i;
			make(&t, c);
			float *x = t.in[0]->data, *w = t.in[1]->data;
			for (int64_t k = 0; k < c->channels * c->maps * 9; k++)
				w[k] *= 0.9F;
			for (int64_t k = 0; k < c->images; k++)
				x[((k * c->rows + c->rows / 2) * c->columns + c->columns / 3) * c->channels +
				  5] = values[v];
			double plain;
			const float *want = expected(&t, c, &plain);
			int64_t wrong = 0;
			bool ran = run(&t, c);
			for (int64_t k = 0; ran && k < shape_count(&t.y); k++) {
				float a = t.out[k], b = want[k];
				bool same = isfinite(b) ? fabsf(a - b) <= 5e-4F + 1e-5F * fabsf(b)
					    : isnan(b)	? isnan(a)
							: a == b;
				wrong += !same;
			}
			if (wrong)
				printf("# case %d, value %g: %lld wrong\n", i, (double)values[v],
				       (long long)wrong);
			CHECK(!wrong);
			drop(&t);
		}
}

/* What it does not compute, or computes no faster. */
static void refusals(void)
{
	static const struct conv none[] = {
		{1, 4, 28, 28, 64, {1, 1, 1, 1}, ACT_NONE, false, false, false},
		{1, 64, 28, 28, 4, {1, 1, 1, 1}, ACT_NONE, false, false, false},
		{1, 64, 3, 3, 64, {0, 0, 0, 0}, ACT_NONE, false, false, false},
		{0, 64, 28, 28, 64, {1, 1, 1, 1}, ACT_NONE, false, false, false},
		{1, 64, 2, 28, 64, {0, 1, 0, 1}, ACT_NONE, false, false, false},
		{1, 64, 28, 28, 64, {-1, 1, 1, 1}, ACT_NONE, false, false, false},
	};
	static const int64_t two[] = {2, 2};

	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		struct conv_data t;
		make(&t, &none[i]);
		CHECK(!run(&t, &none[i]));
		drop(&t);
	}
	static const struct run_config basic = {.optimize = OPTIMIZE_BASIC};
	for (int i = 0; i < 7; i++) {
		struct conv_data t;
		struct why why = {0};
		make(&t, &cases[0]);
		why.arena = &t.arena;
		t.params.strides = i == 0 ? (struct ints){two, 2} : t.params.strides;
		t.params.dilations = i == 1 ? (struct ints){two, 2} : t.params.dilations;
		t.params.group = i == 2 ? 2 : 1;
		t.site.store = i == 3 ? NULL : t.store;
		if (i == 4)
			t.info[t.site.node->in[0]].layout = LAYOUT_BLOCK8;
		/* a picture whose points are more bytes than there are */
		if (i == 5)
			t.info[t.site.node->in[0]].shape =
				shape_4(INT64_MAX / 64 / 28 / 28, 64, 28, 28);
		if (i == 6)
			t.site.config = &basic;
		if (i != 5) {
			CHECK(!winograd_accepts(&t.site, &why));
		} else if (winograd_accepts(&t.site, &why)) {
			struct step step = {
				.node = t.site.node, .params = &t.params, .nin = 4, .nout = 1};
			int err = winograd_reshape(&t.site, &step, &t.diag);
			CHECK(err || step.workspace < (size_t)1 << 40);
		}
		drop(&t);
	}
}

int main(void)
{
	if (simd_level() < 3)
		return 0;
	pool_set_threads(2);
	UNIT(sums);
	UNIT(special);
	UNIT(refusals);
	UNIT(threads);
	return unit_end();
}
