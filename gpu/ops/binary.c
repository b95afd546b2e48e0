/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators of two or more tensors that broadcast. */
#include "gpu/launch/job.h"
#include "gpu/launch/channels_last.h"
#include "gpu/ops/gemv.h"
#include "ops/binary.h"
#include "ops/unary.h"

static const struct {
	const char *op;
	int how;
} hows[] = {
	{"Add", B_ADD},
	{"Sub", B_SUB},
	{"Mul", B_MUL},
	{"Div", B_DIV},
	{"Max", B_MAX},
	{"Min", B_MIN},
	{"Sum", B_ADD},
	{"Mean", B_ADD},
	{"And", B_AND},
	{"Or", B_OR},
	{"Xor", B_XOR},
	{"BitwiseAnd", B_AND},
	{"BitwiseOr", B_OR},
	{"BitwiseXor", B_XOR},
	{"Equal", B_EQ},
	{"Less", B_LT},
	{"LessOrEqual", B_LE},
	{"Greater", B_GT},
	{"GreaterOrEqual", B_GE},
	{"PRelu", B_PRELU},
	{"BiasGelu", B_BIASGELU},
	{"Pow", B_POW},
	{"FastGelu", B_BIASGELU_TANH},
};

static int how_of(const struct node *n)
{
	if (n->op == op_named("BitShift"))
		return ((const struct bit_shift *)n->params)->direction ? B_SHR : B_SHL;
	if (n->op == op_named("Mod"))
		return ((const struct mod *)n->params)->fmod ? B_FMOD : B_MOD;
	for (size_t i = 0; i < sizeof(hows) / sizeof(*hows); i++)
		if (!strcmp(hows[i].op, n->op->name))
			return hows[i].how;
	return B_ADD;
}

struct binary {
	void *fn;
	struct gpu_binary_job job;
};

static bool fill_binary(const struct site *s, struct binary *b, enum layout layout)
{
	const struct shape *in[2] = {&site_in(s, 0)->shape, &site_in(s, 1)->shape};
	const struct shape *out = &site_out(s, 0)->shape;

	b->job.op = how_of(s->node);
	b->job.n = gpu_count(out);
	return gpu_broadcast_as(layout, out, 2, in, &b->job.d, b->job.step);
}

static bool binary_accepts(const struct site *s, struct why *w)
{
	struct binary b = {0};

	if (!site_in(s, 0) || !site_in(s, 1) || gpu_type(s, 0) != gpu_type(s, 1))
		return refuse(w, "inputs of different types");
	return fill_binary(s, &b, LAYOUT_ROW) || refuse(w, "more than %d dimensions", GPU_DIMS);
}

static int binary_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct binary *b = arena_new(s->plan_arena, struct binary);
	bool compares = gpu_out_type(s, 0) == DT_BOOL;

	fill_binary(s, b, gpu_elementwise_layout(s, step));
	b->fn = gpu_typed(s, "elementwise", compares ? "compare" : "binary", gpu_type(s, 0), d);
	step->state = b;
	if (!compares) {
		gpu_inplace(step, 0, 0);
		gpu_inplace(step, 0, 1);
	}
	return b->fn ? 0 : -E_DEVICE;
}

static int binary_run(const struct call *c)
{
	const struct binary *b = c->step->state;
	struct gpu_binary_job job = b->job;

	job.a = gpu_data(c, 0);
	job.b = gpu_data(c, 1);
	job.y = gpu_out(c, 0);
	if (job.op == B_MUL && c->in[0]->bytes == c->out[0]->bytes &&
	    c->in[1]->bytes == c->out[0]->bytes && gpu_gemv_multiply(c, job.a, job.b, job.y, job.n))
		return 0;
	/* The kernel computes four elements in each thread if the strides allow it. Otherwise its threads loop. */
	int64_t threads = (job.n + 3) / 4;
	return job.n ? gpu_launch_early(c, b->fn, gpu_grid(threads), &job, sizeof(job)) : 0;
}

/* ---- Max, Min, Sum, Mean --------------------------------------------------------------------- */

/*
 * Each launch combines up to GPU_MANY inputs. From the second launch on, the first input is the result of the launch
 * before.
 */
struct nary {
	void *fn;
	int njobs;
	struct gpu_nary *job;
};

/*
 * Fills a launch with the node's inputs from `first` on; if `first` is not 0, the result of the launch before
 * comes first. Returns the number of operands, that result included, or 0 if the broadcast has too many dims.
 */
static int fill_nary(const struct site *s, uint32_t first, struct gpu_nary *j, enum layout layout)
{
	const struct shape *in[GPU_MANY], *out = &site_out(s, 0)->shape;
	int taken = 0;

	if (first)
		in[taken++] = out;
	while (taken < GPU_MANY && first < s->node->nin)
		in[taken++] = &site_in(s, first++)->shape;
	*j = (struct gpu_nary){.op = how_of(s->node), .nin = taken, .n = gpu_count(out), .scale = 1};
	if (first == s->node->nin && s->node->op->variant == MANY_MEAN)
		j->scale = 1.0 / (double)s->node->nin;
	return gpu_broadcast_as(layout, out, taken, in, &j->d, j->step) ? taken : 0;
}

static bool nary_accepts(const struct site *s, struct why *w)
{
	struct gpu_nary j;

	for (uint32_t at = 0, n; at < s->node->nin; at += n - (at ? 1 : 0)) {
		n = (uint32_t)fill_nary(s, at, &j, LAYOUT_ROW);
		if (!n)
			return refuse(w, "more than %d dimensions", GPU_DIMS);
	}
	return true;
}

static int nary_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct nary *n = arena_new(s->plan_arena, struct nary);
	enum layout layout = gpu_elementwise_layout(s, step);

	n->job = arena_new_n(s->plan_arena, struct gpu_nary, s->node->nin / (GPU_MANY - 1) + 1);
	for (uint32_t at = 0; at < s->node->nin; n->njobs++) {
		int taken = fill_nary(s, at, &n->job[n->njobs], layout);
		at += (uint32_t)taken - (at ? 1 : 0);
	}
	n->fn = gpu_typed(s, "elementwise", "nary", gpu_type(s, 0), d);
	step->state = n;
	return n->fn ? 0 : -E_DEVICE;
}

static int nary_run(const struct call *c)
{
	const struct nary *n = c->step->state;
	uint32_t at = 0;
	int err = 0;

	for (int i = 0; i < n->njobs && !err; i++) {
		struct gpu_nary job = n->job[i];
		int k = 0;
		if (i)
			job.in[k++] = gpu_out(c, 0);
		while (k < job.nin)
			job.in[k++] = gpu_data(c, at++);
		job.y = gpu_out(c, 0);
		if (job.n)
			err = gpu_launch(c, n->fn, gpu_grid(job.n), &job, sizeof(job));
	}
	return err;
}

/* ---- Where ----------------------------------------------------------------------------------- */

struct where {
	void *fn;
	struct gpu_where job;
};

static bool fill_where(const struct site *s, struct where *w, enum layout layout)
{
	const struct shape *in[3], *out = &site_out(s, 0)->shape;

	for (uint32_t i = 0; i < 3; i++)
		in[i] = &site_in(s, i)->shape;
	w->job.n = gpu_count(out);
	return gpu_broadcast_as(layout, out, 3, in, &w->job.d, w->job.step);
}

static bool where_accepts(const struct site *s, struct why *why)
{
	struct where w = {0};
	int64_t size = gpu_size(gpu_type(s, 1));

	if (!(T_BIT(gpu_type(s, 1)) & T_MOVED) || size > 8)
		return refuse(why, "no kernel for %s", dtype_name(gpu_type(s, 1)));
	return fill_where(s, &w, LAYOUT_ROW) || refuse(why, "more than %d dimensions", GPU_DIMS);
}

static int where_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct where *w = arena_new(s->plan_arena, struct where);

	fill_where(s, w, gpu_elementwise_layout(s, step));
	w->fn = gpu_sized(s, "elementwise", "where", gpu_type(s, 1), d);
	step->state = w;
	return w->fn ? 0 : -E_DEVICE;
}

static int where_run(const struct call *c)
{
	const struct where *w = c->step->state;
	struct gpu_where job = w->job;

	job.c = gpu_data(c, 0);
	job.a = gpu_data(c, 1);
	job.b = gpu_data(c, 2);
	job.y = gpu_out(c, 0);
	return job.n ? gpu_launch(c, w->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

/* ---- operands of two types: Pow; SwiGLU; BiasSplitGelu; GatedAdd ------------------------------ */

static bool fill_mixed(const struct site *s, struct gpu_binary_any *j)
{
	const struct shape *in[2] = {&site_in(s, 0)->shape, &site_in(s, 1)->shape};
	const struct shape *out = &site_out(s, 0)->shape;

	j->n = gpu_count(out);
	return gpu_broadcast(out, 2, in, &j->d, j->step);
}

static bool mixed_accepts(const struct site *s, struct why *w)
{
	struct gpu_binary_any j = {.n = 0};

	if (!(T_BIT(gpu_type(s, 1)) & T_NUMBERS))
		return refuse(w, "%s", dtype_name(gpu_type(s, 1)));
	return fill_mixed(s, &j) || refuse(w, "more than %d dimensions", GPU_DIMS);
}

static int power_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct gpu_binary_any job = {.n = 0};

	fill_mixed(s, &job);
	return job.n ? GPU_TASK(s, step, "slice", "power_any", &job, job.n, d) : 0;
}

static int swiglu_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct alpha *p = s->node->params;
	struct gpu_binary_any job = {.n = 0};

	fill_mixed(s, &job);
	job.alpha = (double)p->alpha;
	return job.n ? GPU_TASK(s, step, "slice", "swiglu", &job, job.n, d) : 0;
}

/* BiasSplitGelu adds the bias to x, then multiplies the first half of each row by the Gelu of the second half. */
static int split_gelu_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *y = &site_out(s, 0)->shape;
	struct gpu_binary_any job = {.n = gpu_count(y)};

	job.d.dim[0] = y->rank ? y->dim[y->rank - 1] : 1;
	return job.n ? GPU_TASK(s, step, "slice", "split_gelu", &job, job.n, d) : 0;
}

static int gated_add_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct shape *y = &site_out(s, 0)->shape;
	struct gpu_binary_any job = {.n = gpu_count(y)};

	job.d.dim[0] = y->dim[y->rank - 1];
	return job.n ? GPU_TASK(s, step, "slice", "gated_add", &job, job.n, d) : 0;
}

#define ROW(name, types_)                                                                          \
	{                                                                                          \
		.op = (name), .types = (types_), .accepts = binary_accepts,                        \
		.reshape = binary_reshape, .run = binary_run                                       \
	}
#define MANY(name)                                                                                 \
	{                                                                                          \
		.op = (name), .types = T_NUMBERS, .accepts = nary_accepts,                         \
		.reshape = nary_reshape, .run = nary_run                                           \
	}

const struct kernel gpu_binary[] = {
	ROW("Add", T_NUMBERS),
	ROW("Sub", T_NUMBERS),
	{.op = "Mul",
	 .types = T_F32 | T_F16 | T_BF16,
	 .accepts = gpu_scale_accepts,
	 .reshape = gpu_scale_reshape,
	 .run = gpu_scale_run},
	ROW("Mul", T_NUMBERS),
	ROW("Div", T_NUMBERS),
	ROW("Mod", T_NUMBERS),
	ROW("And", T_BOOL),
	ROW("Or", T_BOOL),
	ROW("Xor", T_BOOL),
	ROW("Equal", T_NUMBERS | T_BOOL),
	ROW("Greater", T_NUMBERS),
	ROW("GreaterOrEqual", T_NUMBERS),
	ROW("Less", T_NUMBERS),
	ROW("LessOrEqual", T_NUMBERS),
	ROW("BitShift", T_INTS),
	ROW("BitwiseAnd", T_INTS),
	ROW("BitwiseOr", T_INTS),
	ROW("BitwiseXor", T_INTS),
	ROW("PRelu", T_NUMBERS),
	ROW("com.microsoft::BiasGelu", T_FLOATING),
	ROW("com.microsoft::FastGelu", T_FLOATING),
	ROW("Pow", T_FLOATING | T_I32 | T_I64),
	{.op = "Pow",
	 .types = T_NUMBERS,
	 .accepts = mixed_accepts,
	 .reshape = power_reshape,
	 .run = gpu_tasks_run},
	{.op = "SwiGLU",
	 .types = T_FLOATING,
	 .accepts = mixed_accepts,
	 .reshape = swiglu_reshape,
	 .run = gpu_tasks_run},
	MANY("Max"),
	MANY("Min"),
	MANY("Sum"),
	MANY("Mean"),
	{.op = "com.microsoft::BiasAdd",
	 .types = T_FLOATING,
	 .accepts = nary_accepts,
	 .reshape = nary_reshape,
	 .run = nary_run},
	{.op = "com.microsoft::BiasSplitGelu",
	 .types = T_FLOATING,
	 .reshape = split_gelu_reshape,
	 .run = gpu_tasks_run},
	{.op = "com.microsoft::GatedAdd",
	 .types = T_FLOATING,
	 .reshape = gated_add_reshape,
	 .run = gpu_tasks_run},
	{.op = "Where", .accepts = where_accepts, .reshape = where_reshape, .run = where_run},
	{0}};
