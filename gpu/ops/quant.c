/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/quant.h"

#include "ops/quant.h"

#include "gpu/ops/block_gather.h"
#include "gpu/ops/quantized_elementwise.h"
#include "gpu/ops/int8.h"
#include "gpu/ops/int8_conv.h"
#include "gpu/ops/nbits.h"
#include "gpu/launch/channels_last.h"
#include "gpu/launch/window.h"
#include "ops/matmul.h"

#define T_HALVES (T_F32 | T_F16 | T_BF16)

struct quant_state {
	void *fn;
	struct gpu_quantize job;
};

static const char *fill_quant(const struct site *s, struct quant_state *q)
{
	const struct quantize_params *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	bool down = s->node->op->variant != QUANT_UP;
	struct granularity g;

	enum dtype wide = down ? gpu_type(s, 0) : gpu_out_type(s, 0),
		   small = down ? gpu_out_type(s, 0) : gpu_type(s, 0);
	if (!(T_BIT(wide) & T_HALVES) || gpu_type(s, 1) != wide || (down && p->precision))
		return "scales of another type";
	if (!(T_BIT(small) & (T_I8 | T_U8 | T_I16 | T_U16 | (down ? 0 : T_I32))))
		return "no kernel for this narrow type";
	if (granularity_set(&g, x, &site_in(s, 1)->shape, p->axis, p->block_size))
		return "scales that do not fit";
	q->job = (struct gpu_quantize){
		.n = gpu_count(x), .from = (int)gpu_type(s, 0), .to = (int)gpu_out_type(s, 0)};
	if (g.kind != QUANT_TENSOR) {
		q->job.dim = g.dim;
		q->job.inner = g.inner;
	}
	if (g.kind == QUANT_BLOCK) {
		q->job.block = g.block;
		q->job.blocks = g.blocks;
	}
	return NULL;
}

static bool quant_accepts(const struct site *s, struct why *w)
{
	struct quant_state q = {0};
	const char *bad = fill_quant(s, &q);

	return bad ? refuse(w, "%s", bad) : true;
}

static int quant_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct quant_state *q = arena_new(s->plan_arena, struct quant_state);
	bool down = s->node->op->variant != QUANT_UP;

	fill_quant(s, q);
	q->fn = gpu_typed(s, "rows", down ? "quantize" : "dequantize",
			  down ? gpu_out_type(s, 0) : gpu_type(s, 0), d);
	step->state = q;
	return q->fn ? 0 : -E_DEVICE;
}

static int quant_run(const struct call *c)
{
	const struct quant_state *q = c->step->state;
	struct gpu_quantize job = q->job;

	job.x = gpu_data(c, 0);
	job.scale = gpu_data(c, 1);
	job.zero = gpu_data(c, 2);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, q->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

/* ---- every other type ------------------------------------------------------------------------ */

static const char *fill_any(const struct site *s, struct gpu_quant_any *j)
{
	const struct quantize_params *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape;
	bool down = s->node->op->variant != QUANT_UP;
	struct granularity g;

	if (granularity_set(&g, x, &site_in(s, 1)->shape, p->axis, p->block_size))
		return "scales that do not fit";
	if (!down && !(T_BIT(gpu_out_type(s, 0)) & T_HALVES))
		return "an output that is not fp32, fp16 or bf16";
	j->n = gpu_count(x);
	if (g.kind != QUANT_TENSOR) {
		j->dim = g.dim;
		j->inner = g.inner;
	}
	if (g.kind == QUANT_BLOCK) {
		j->block = g.block;
		j->blocks = g.blocks;
	}
	j->saturate = p->saturate != 0;
	j->precision = (int)(p->precision ? (enum dtype)p->precision : gpu_type(s, 1));
	return NULL;
}

static bool any_accepts(const struct site *s, struct why *w)
{
	struct gpu_quant_any j = {0};
	const char *bad = fill_any(s, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

static int any_reshape(struct site *s, struct step *step, struct diag *d)
{
	bool down = s->node->op->variant != QUANT_UP;
	struct gpu_quant_any job = {0};

	fill_any(s, &job);
	return job.n ? GPU_TASK(s, step, "quant", down ? "quantize_any" : "dequantize_any", &job,
				job.n, d)
		     : 0;
}

enum { MAX_WRITING_BLOCKS = 2048 };

static int dynamic_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_dynamic_quant job = {.n = gpu_count(&site_in(s, 0)->shape)};
	struct gpu_grid grid = gpu_grid((job.n + 3) / 4), ranges = grid;

	if (ranges.x > GPU_RANGE_BLOCKS)
		ranges.x = GPU_RANGE_BLOCKS;
	/*
	 * Each block first combines the ranges that all blocks found, so that with more blocks more of this work is
	 * repeated.
	 */
	if (grid.x > MAX_WRITING_BLOCKS)
		grid.x = MAX_WRITING_BLOCKS;
	job.parts = (int)ranges.x;
	gpu_room(step, GPU_RANGE_BLOCKS * 2 * sizeof(float));
	int err = gpu_task_add(s, step, "quant", "dynamic_range", &job, sizeof(job), ranges, d);
	return err ? err
		   : gpu_task_add(s, step, "quant", "dynamic_write", &job, sizeof(job), grid, d);
}

/* ---- integers to integers -------------------------------------------------------------------- */

static int mean_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct qglobal_params *p = s->node->params;
	const struct shape *x = &site_in(s, 0)->shape, *y = &site_out(s, 0)->shape;
	bool last = p->channels_last != 0;
	struct gpu_quant_mean job = {.lines = gpu_count(y),
				     .pixels = shape_span(x, last ? 1 : 2, x->rank - last),
				     .channels = last ? x->dim[x->rank - 1] : 0};
	enum layout *want, *give;

	if (!last && gpu_is_last(s, 0)) {
		gpu_layouts(s, step, &want, &give);
		want[0] = LAYOUT_CHANNELS_LAST;
		job.channels = x->dim[1];
	}
	return job.lines ? GPU_TASK(s, step, "quant", "quant_mean", &job,
				    (job.channels ? 1 : 32) * job.lines, d)
			 : 0;
}

struct concat_state {
	void *fn;
	struct gpu_requantize *job; /* one for each input */
	/* first element of each input's part in a row of the output */
	int64_t *at;
};

/*
 * The inputs are Y_scale and Y_zero_point, followed by three inputs for each tensor: the tensor, its scale and its zero
 * point.
 */
static bool concat_accepts(const struct site *s, struct why *w)
{
	for (uint32_t i = 0; i < s->node->nin; i++)
		if (i % 3 != 2 && gpu_count(&site_in(s, i)->shape) != 1)
			return refuse(w, "more than one scale or zero point");
	return true;
}

static int concat_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct qconcat_params *p = s->node->params;
	const struct shape *ys = &site_out(s, 0)->shape;
	struct concat_state *c = arena_new(s->plan_arena, struct concat_state);
	uint32_t count = s->node->nin / 3;
	int axis = (int)(p->axis < 0 ? p->axis + ys->rank : p->axis);
	int64_t at = 0;

	c->job = arena_new_n(s->plan_arena, struct gpu_requantize, count + 1);
	c->at = arena_new_n(s->plan_arena, int64_t, count + 1);
	for (uint32_t i = 0; i < count; i++) {
		const struct shape *x = &site_in(s, 3 * i + 2)->shape;
		c->job[i] = (struct gpu_requantize){.n = gpu_count(x),
						    .part = shape_span(x, axis, x->rank),
						    .row = shape_span(ys, axis, ys->rank),
						    .xt = (int)gpu_type(s, 3 * i + 2),
						    .yt = (int)gpu_out_type(s, 0)};
		c->at[i] = at;
		at += c->job[i].part;
	}
	c->fn = gpu_kernel(s, "quant", "requantize", d);
	step->state = c;
	return c->fn ? 0 : -E_DEVICE;
}

static int concat_run(const struct call *c)
{
	const struct concat_state *state = c->step->state;
	int err = 0;

	for (uint32_t i = 0; i < c->step->nin / 3 && !err; i++) {
		struct gpu_requantize job = state->job[i];
		job.y_scale = gpu_data(c, 0);
		job.y_zero = gpu_data(c, 1);
		job.x = gpu_data(c, 3 * i + 2);
		job.x_scale = gpu_data(c, 3 * i + 3);
		job.x_zero = gpu_data(c, 3 * i + 4);
		job.y = (char *)gpu_out(c, 0) + state->at[i];
		if (job.n)
			err = gpu_launch(c, state->fn, gpu_grid(job.n), &job, sizeof(job));
	}
	return err;
}

/* ---- products of integers -------------------------------------------------------------------- */

#define T_8BIT (T_U8 | T_I8)

static const struct {
	const char *op;
	struct gpu_qslots q;
} products[] = {
	/*
	 * input indices of: a, b, zero points of a and b, scales of a and b, y's scale, y's zero point, addend before
	 * scaling, addend after scaling
	 */
	{"MatMulInteger", {0, 1, 2, 3, -1, -1, -1, -1, -1, -1}},
	{"ConvInteger", {0, 1, 2, 3, -1, -1, -1, -1, -1, -1}},
	{"QLinearMatMul", {0, 3, 2, 5, 1, 4, 6, 7, -1, -1}},
	{"QLinearConv", {0, 3, 2, 5, 1, 4, 6, 7, 8, -1}},
	{"QConvAdd", {0, 3, 2, 5, 1, 4, 6, 7, 8, -1}},
	{"MatMulIntegerToFloat", {0, 1, 4, 5, 2, 3, -1, -1, -1, 6}},
	{"QGemm", {0, 3, 2, 5, 1, 4, 7, 8, 6, -1}},
};

struct gpu_qslots gpu_quant_slots(const struct site *s)
{
	for (size_t i = 0; i < sizeof(products) / sizeof(*products); i++)
		if (!strcmp(products[i].op, s->node->op->name))
			return products[i].q;
	return products[0].q;
}

void gpu_quant_counts(const struct site *s, int64_t *count)
{
	for (uint32_t i = 0; i < GPU_IN; i++)
		count[i] = site_in(s, i) ? gpu_count(&site_in(s, i)->shape) : 0;
}

static const struct qgemm_params *gemm_of(const struct site *s)
{
	return s->node->op->variant == QUANT_GEMM ? s->node->params : NULL;
}

bool gpu_quant_shape(const struct site *s, struct gpu_qslots q, struct matmul_shape *m)
{
	const struct qgemm_params *g = gemm_of(s);
	const struct fused_matmul f = {
		.alpha = 1, .transA = g ? g->transA : 0, .transB = g ? g->transB : 0};

	return matmul_shape(&site_in(s, (uint32_t)q.a)->shape, &site_in(s, (uint32_t)q.b)->shape,
			    g ? &f : NULL, m);
}

void gpu_quant_finish(const struct site *s, struct gpu_qslots q, float *alpha, int64_t *add_row,
		      int64_t *add_col)
{
	const struct qgemm_params *g = gemm_of(s);
	const struct vinfo *add = q.add < 0 ? NULL : site_in(s, (uint32_t)q.add);
	int64_t step[MAX_RANK] = {0};

	*alpha = g ? g->alpha : 1;
	if (g && add)
		shape_broadcast_strides(&add->shape, &site_out(s, 0)->shape, step);
	*add_row = step[0];
	*add_col = step[1];
}

static bool product_accepts(const struct site *s, struct why *w)
{
	struct matmul_shape m;

	if (!gpu_quant_shape(s, gpu_quant_slots(s), &m))
		return refuse(w, "matrices that do not fit");
	return m.nbatch <= GPU_DIMS || refuse(w, "more than %d dimensions", GPU_DIMS);
}

static int product_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_int_product job = {.q = gpu_quant_slots(s), .batches = 1};
	struct matmul_shape m;
	uint64_t both = T_BIT(gpu_type(s, (uint32_t)job.q.a)) | T_BIT(gpu_type(s, (uint32_t)job.q.b));

	gpu_quant_shape(s, job.q, &m);
	gpu_quant_counts(s, job.count);
	gpu_quant_finish(s, job.q, &job.alpha, &job.add_row, &job.add_col);
	job.m = m.m, job.n = m.n, job.k = m.k;
	job.a_row = m.a_row, job.a_col = m.a_col;
	job.b_row = m.b_row, job.b_col = m.b_col;
	job.batch.rank = m.nbatch;
	for (int i = 0; i < m.nbatch; i++) {
		job.batches *= m.batch[i];
		job.batch.dim[i] = m.batch[i];
		job.bs[0][i] = m.a_batch[i];
		job.bs[1][i] = m.b_batch[i];
	}
	if (!job.m || !job.n || !job.batches)
		return 0;
	struct gpu_grid g = {(unsigned)((job.n + 31) / 32), (unsigned)((job.m + 31) / 32),
			     (unsigned)(job.batches > MAX_GRID_YZ ? MAX_GRID_YZ : job.batches), 256,
			     0};
	return gpu_task_add(s, step, "quant",
			    both & ~(uint64_t)T_8BIT ? "int_product_f8" : "int_product_i32", &job,
			    sizeof(job), g, d);
}

const char *gpu_quant_conv(const struct site *s, struct gpu_int_conv *j)
{
	const struct int_conv_params *p = s->node->params;
	j->q = gpu_quant_slots(s);
	const struct shape *x = &site_in(s, (uint32_t)j->q.a)->shape,
			   *weight = &site_in(s, (uint32_t)j->q.b)->shape;
	const char *bad = p->channels_last
				  ? "channels that come last"
				  : gpu_window_set(&j->win, &p->window, x, weight, false, NULL);

	if (bad)
		return bad;
	gpu_quant_counts(s, j->count);
	j->n = gpu_count(&site_out(s, 0)->shape);
	j->group = p->group;
	j->cin = weight->dim[1];
	j->cout = weight->dim[0] / p->group;
	return NULL;
}

static bool int_conv_accepts(const struct site *s, struct why *w)
{
	struct gpu_int_conv j = {.n = 0};
	const char *bad = gpu_quant_conv(s, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

static int int_conv_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_int_conv job = {.n = 0};

	gpu_quant_conv(s, &job);
	return job.n ? GPU_TASK(s, step, "quant", "int_conv", &job, job.n, d) : 0;
}

/* The kernels on tensor cores come first. The plain kernels compute what the kernels before them refuse. */
#define INT8(name)                                                                                 \
	{                                                                                          \
		.op = (name), .types = T_8BIT, .accepts = gpu_int8_product_accepts,                \
		.reshape = gpu_int8_product_reshape, .run = gpu_int8_run, .drop = gpu_int8_drop    \
	}
#define INT8_CONV(name)                                                                            \
	{                                                                                          \
		.op = (name), .types = T_8BIT, .accepts = gpu_int8_conv_accepts,                   \
		.reshape = gpu_int8_conv_reshape, .run = gpu_int8_run, .drop = gpu_int8_drop       \
	}
#define CODES_CONV(name)                                                                           \
	{                                                                                          \
		.op = (name), .types = T_8BIT, .accepts = gpu_codes_conv_accepts,                  \
		.reshape = gpu_codes_conv_reshape, .run = gpu_codes_conv_run                       \
	}
#define PRODUCT(name)                                                                              \
	{                                                                                          \
		.op = (name), .types = T_8BIT | T_F8, .accepts = product_accepts,                  \
		.reshape = product_reshape, .run = gpu_tasks_run                                   \
	}
#define CONV(name)                                                                                 \
	{                                                                                          \
		.op = (name), .types = T_8BIT, .accepts = int_conv_accepts,                        \
		.reshape = int_conv_reshape, .run = gpu_tasks_run                                  \
	}
/*
 * Two table entries for QuantizeLinear or DequantizeLinear: a fast kernel for the usual types, then a kernel for all
 * types.
 */
#define LINEAR(name, usual)                                                                        \
	{.op = (name),                                                                             \
	 .types = (usual),                                                                         \
	 .accepts = quant_accepts,                                                                 \
	 .reshape = quant_reshape,                                                                 \
	 .run = quant_run},                                                                        \
	{                                                                                          \
		.op = (name), .accepts = any_accepts, .reshape = any_reshape, .run = gpu_tasks_run \
	}
#define T_CODES (T_I8 | T_U8 | T_I16 | T_U16 | T_I32)
#define CODES(name, how)                                                                           \
	{                                                                                          \
		.op = (name), .types = T_8BIT, .accepts = how##_accepts, .reshape = how##_reshape, \
		.run = gpu_tasks_run                                                               \
	}
#define NBITS(name)                                                                                \
	{                                                                                          \
		.op = (name), .types = T_HALVES, .accepts = gpu_nbits_accepts,                     \
		.reshape = gpu_nbits_reshape, .run = gpu_nbits_run, .drop = gpu_nbits_drop         \
	}

const struct kernel gpu_quant[] = {
	LINEAR("QuantizeLinear", T_HALVES),
	LINEAR("DequantizeLinear", T_CODES),
	LINEAR("com.microsoft::QuantizeLinear", T_HALVES),
	LINEAR("com.microsoft::DequantizeLinear", T_CODES),
	{.op = "DynamicQuantizeLinear", .types = T_F32, .reshape = dynamic_reshape, .run = gpu_tasks_run},
	INT8("MatMulInteger"),
	PRODUCT("MatMulInteger"),
	{.op = "com.microsoft::QLinearGlobalAveragePool",
	 .types = T_8BIT,
	 .reshape = mean_reshape,
	 .run = gpu_tasks_run},
	NBITS("com.microsoft::MatMulNBits"),
	NBITS("com.microsoft::MatMulBnb4"),
	{.op = "com.microsoft::GatherBlockQuantized",
	 .accepts = gpu_block_gather_accepts,
	 .reshape = gpu_block_gather_reshape,
	 .run = gpu_tasks_run},
	CODES("com.microsoft::QLinearAdd", gpu_code_pairs),
	CODES("com.microsoft::QLinearMul", gpu_code_pairs),
	CODES("com.microsoft::QLinearSigmoid", gpu_codes),
	CODES("com.microsoft::QLinearLeakyRelu", gpu_codes),
	{.op = "infer::CodeTable", .types = T_8BIT, .reshape = gpu_code_table_reshape, .run = gpu_tasks_run},
	{.op = "com.microsoft::QLinearConcat",
	 .accepts = concat_accepts,
	 .reshape = concat_reshape,
	 .run = concat_run},
	INT8("QLinearMatMul"),
	PRODUCT("QLinearMatMul"),
	INT8("com.microsoft::MatMulIntegerToFloat"),
	PRODUCT("com.microsoft::MatMulIntegerToFloat"),
	INT8("com.microsoft::QGemm"),
	PRODUCT("com.microsoft::QGemm"),
	INT8_CONV("ConvInteger"),
	CONV("ConvInteger"),
	CODES_CONV("infer::QConvAdd"),
	CODES_CONV("QLinearConv"),
	INT8_CONV("QLinearConv"),
	CONV("QLinearConv"),
	CODES_CONV("com.microsoft::QLinearConv"),
	INT8_CONV("com.microsoft::QLinearConv"),
	CONV("com.microsoft::QLinearConv"),
	{0}};
