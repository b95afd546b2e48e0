/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own kernels of the GPU against the CPU's, an operator at a time, on random tensors of several shapes
 * and types. Without a device there is nothing to compare, which is said.
 */
#include "backend/weight_store.h"
#include "ir/difference.h"
#include "cpu/cpu.h"
#include "gpu/backend.h"
#include "gpu/driver/cuda.h"
#include "opt/pipeline.h"
#include "plan/upload.h"
#include "test/tools/launches.h"
#include "test/unit/sample.h"

#include <inttypes.h>

enum { MOST_IN = 5, MOST_OUT = 4 };

struct operand {
	struct shape shape;
	double low, high;
	enum dtype type; /* DT_NONE: the case's */
};
struct sample {
	const char *op, *attrs; /* "axis=1 largest=0" */
	uint32_t nin, nout;
	struct operand in[MOST_IN];
	uint64_t types; /* of the operands that leave theirs open */
	double rtol;	/* 0: the type's */
};

#define SHAPE(...)                                                                                 \
	{                                                                                          \
		(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                         \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
#define ANY(low, high, ...)                                                                        \
	{                                                                                          \
		SHAPE(__VA_ARGS__), low, high, DT_NONE                                             \
	}
#define OF(type, low, high, ...)                                                                   \
	{                                                                                          \
		SHAPE(__VA_ARGS__), low, high, type                                                \
	}
#define ONE(type, low, high)                                                                       \
	{                                                                                          \
		{0, {0}}, low, high, type                                                          \
	}
#define FEW  (T_F32 | T_F16 | T_I32 | T_U8)
#define REAL (T_F32 | T_F16 | T_BF16 | T_F64)

/* clang-format off */
static const struct sample samples[] = {
	{"TopK", "axis=-1", 2, 2, {ANY(-9, 9, 3, 5000), OF(DT_I64, 7, 7, 1)}, FEW, 0},
	{"TopK", "axis=0 largest=0", 2, 2, {ANY(-9, 9, 1500, 3), OF(DT_I64, 1500, 1500, 1)}, FEW, 0},
	{"Unique", "sorted=1", 1, 4, {ANY(-40, 40, 70, 90)}, FEW, 0},
	{"Unique", "sorted=0", 1, 4, {ANY(-40, 40, 3, 2000)}, FEW, 0},
	{"Unique", "axis=1", 1, 4, {ANY(0, 2, 2, 300, 2)}, FEW, 0},
	{"NonZero", "", 1, 1, {ANY(-1, 1, 5, 7, 300)}, FEW | T_BOOL, 0},
	{"Compress", "axis=1", 2, 1, {ANY(-9, 9, 3, 5000, 2), OF(DT_BOOL, 0, 1, 4900)}, FEW, 0},
	{"CumSum", "reverse=1", 2, 1, {ANY(0, 3, 4, 50, 3), ONE(DT_I32, 1, 1)}, T_F32 | T_F16 | T_I32, 0},
	{"ScatterElements", "axis=1 reduction=add", 3, 1,
	 {ANY(0, 3, 4, 60), OF(DT_I64, -60, 59, 4, 40), ANY(0, 3, 4, 40)}, FEW, 0},
	{"ScatterND", "reduction=max", 3, 1, {ANY(0, 9, 30, 5), OF(DT_I64, 0, 29, 90, 1), ANY(0, 9, 90, 5)}, FEW, 0},
	{"ScatterND", "reduction=mul", 3, 1, {ANY(0, 2, 30, 5), OF(DT_I64, 0, 29, 40, 1), ANY(0, 2, 40, 5)}, FEW, 0},
	{"OneHot", "axis=1", 3, 1, {OF(DT_I64, -9, 12, 30, 7), ONE(DT_I64, 10, 10), ANY(0, 5, 2)}, FEW, 0},
	{"ReverseSequence", "time_axis=1 batch_axis=0", 2, 1, {ANY(-9, 9, 5, 33, 3), OF(DT_I64, 0, 33, 5)}, FEW, 0},
	{"NonMaxSuppression", "", 5, 1,
	 {OF(DT_F32, 0, 1, 2, 700, 4), OF(DT_F32, 0, 1, 2, 3, 700), OF(DT_I64, 50, 50, 1),
	  OF(DT_F32, 0.4, 0.4, 1), OF(DT_F32, 0.2, 0.2, 1)}, T_F32, 0},
	/* several parts of the rows, one line and many; and a limit that ends it early */
	{"NonMaxSuppression", "", 5, 1,
	 {OF(DT_F32, 0, 1, 1, 9000, 4), OF(DT_F32, 0, 1, 1, 1, 9000), OF(DT_I64, 9000, 9000, 1),
	  OF(DT_F32, 0.9, 0.9, 1), OF(DT_F32, 0.1, 0.1, 1)}, T_F32, 0},
	{"NonMaxSuppression", "center_point_box=1", 4, 1,
	 {OF(DT_F32, 0.1, 1, 2, 3000, 4), OF(DT_F32, 0, 1, 2, 40, 3000), OF(DT_I64, 70, 70, 1),
	  OF(DT_F32, 0.6, 0.6, 1)}, T_F32, 0},
	{"Mul", "", 2, 1, {ANY(-3, 3, 3, 5, 7, 16), ANY(-3, 3, 3, 1, 1, 16)}, FEW | T_BF16 | T_F64, 0},
	{"Add", "", 2, 1, {ANY(-3, 3, 3, 5, 16), ANY(-3, 3, 3, 5, 1)}, FEW | T_I64, 0},
	{"LayerNormalization", "", 3, 1, {ANY(-3, 3, 130, 768), ANY(-3, 3, 768), ANY(-1, 1, 768)}, T_F32 | T_F16 | T_BF16, 0},
	{"LayerNormalization", "", 2, 1, {ANY(-3, 3, 3000, 776), ANY(-3, 3, 776)}, T_F32 | T_F16, 0},
	{"Softmax", "", 1, 1, {ANY(-3, 3, 40, 1000)}, T_F32 | T_F16, 0},
	{"MatMul", "", 2, 1, {ANY(-1, 1, 40, 64), ANY(-1, 1, 64, 1301)}, REAL, 0}, /* rows that begin anywhere */
	{"Conv", "strides=2,2 pads=1,1,1,1", 3, 1, {ANY(-1, 1, 3, 3, 37, 70), ANY(-1, 1, 24, 3, 3, 3), ANY(-1, 1, 24)}, T_F32 | T_F16 | T_BF16, 0},
	{"Conv", "pads=0,1,1,0", 2, 1, {ANY(-1, 1, 2, 4, 9, 33), ANY(-1, 1, 32, 4, 3, 3)}, T_F32 | T_F16, 0},
	{"LSTM", "hidden_size=37 direction=bidirectional", 4, 3,
	 {ANY(-1, 1, 9, 5, 21), ANY(-.3, .3, 2, 148, 21), ANY(-.3, .3, 2, 148, 37), ANY(-.3, .3, 2, 296)}, REAL, 0},
	{"GRU", "hidden_size=40 linear_before_reset=1", 4, 2,
	 {ANY(-1, 1, 7, 3, 64), ANY(-.3, .3, 1, 120, 64), ANY(-.3, .3, 1, 120, 40), ANY(-.3, .3, 1, 240)}, REAL, 0},
	{"GRU", "hidden_size=33 direction=reverse", 4, 2,
	 {ANY(-1, 1, 7, 3, 30), ANY(-.3, .3, 1, 99, 30), ANY(-.3, .3, 1, 99, 33), ANY(-.3, .3, 1, 198)}, REAL, 0},
	{"RNN", "hidden_size=70", 4, 2,
	 {ANY(-1, 1, 11, 2, 30), ANY(-.3, .3, 1, 70, 30), ANY(-.2, .2, 1, 70, 70), ANY(-.3, .3, 1, 140)}, REAL, 0},
	{"Einsum", "equation=bhid,bhjd->bhij", 2, 1, {ANY(-1, 1, 2, 3, 17, 40), ANY(-1, 1, 2, 3, 19, 40)}, REAL, 0},
	{"Einsum", "equation=ij,jk,kl->il", 3, 1, {ANY(0, 3, 5, 6), ANY(0, 3, 6, 7), ANY(0, 3, 7, 4)}, T_F32 | T_I32, 0},
	{"Det", "", 1, 1, {ANY(-1, 1, 9, 12, 12)}, T_F32 | T_F64, 1e-2},
	{"GridSample", "mode=cubic padding_mode=reflection", 2, 1, {ANY(-1, 1, 2, 3, 14, 15), OF(DT_F32, -1.4, 1.4, 2, 9, 8, 2)}, T_F32 | T_F64, 0},
	{"GridSample", "mode=linear align_corners=1", 2, 1, {ANY(-1, 1, 2, 3, 14, 15), OF(DT_F32, -1.4, 1.4, 2, 9, 8, 2)}, T_F32, 0},
	{"RoiAlign", "output_height=5 output_width=4 sampling_ratio=2", 3, 1,
	 {ANY(-1, 1, 2, 3, 20, 20), ANY(0, 19, 9, 4), OF(DT_I64, 0, 1, 9)}, T_F32 | T_F64, 0},
	{"DFT", "onesided=1", 1, 1, {ANY(-1, 1, 3, 100, 1)}, T_F32 | T_F64, 0},
	{"QuantizeLinear", "axis=1", 3, 1, {OF(DT_F32, -3, 3, 3, 40, 7), OF(DT_F32, .01, .1, 40), ANY(0, 100, 40)}, T_U8 | T_I8 | T_I16 | T_U16, 0},
	{"DequantizeLinear", "axis=1 block_size=8", 3, 1, {ANY(0, 100, 3, 40, 7), OF(DT_F32, .01, .1, 3, 5, 7), ANY(0, 100, 3, 5, 7)}, T_U8 | T_I8 | T_I16 | T_U16, 0},
	{"DynamicQuantizeLinear", "", 1, 3, {OF(DT_F32, -3, 5, 200, 333)}, T_F32, 0},
	{"DynamicQuantizeLinear", "", 1, 3, {OF(DT_F32, 1, 5, 1003)}, T_F32, 0},
	{"MatMulInteger", "", 4, 1, {ANY(-9, 90, 2, 33, 70), OF(DT_I8, -99, 99, 70, 45), ONE(DT_NONE, 3, 3), OF(DT_I8, -5, 5, 45)}, T_U8 | T_I8, 0},
	{"ConvInteger", "group=2 strides=2,1 pads=1,0,1,2", 3, 1, {OF(DT_U8, 0, 200, 2, 6, 11, 12), OF(DT_U8, 0, 99, 4, 3, 3, 3), ONE(DT_U8, 7, 7)}, T_U8, 0},
	{"SoftmaxCrossEntropyLoss", "reduction=mean", 3, 2, {ANY(-3, 3, 6, 11, 5), OF(DT_I64, 0, 10, 6, 5), ANY(.1, 1, 11)}, T_F32 | T_F64, 0},
	{"NegativeLogLikelihoodLoss", "reduction=none ignore_index=2", 2, 1, {ANY(-3, 3, 60, 11), OF(DT_I32, 0, 10, 60)}, T_F32 | T_F16, 0},
	{"LpNormalization", "axis=1 p=1", 1, 1, {ANY(-3, 3, 6, 500, 5)}, REAL, 0},
	{"LRN", "size=5", 1, 1, {ANY(-3, 3, 2, 12, 9, 9)}, T_F32 | T_F64, 0},
	{"Trilu", "upper=0", 2, 1, {ANY(-3, 3, 2, 12, 9), ONE(DT_I64, -2, 3)}, FEW, 0},
	{"Pow", "", 2, 1, {ANY(0, 3, 2, 12, 9), OF(DT_I64, 0, 3, 9)}, T_F32 | T_I32 | T_F16, 0},
};
/* clang-format on */

static struct arena arena; /* of a sample */

/* The sample as a graph of one node. */
static struct graph *graph_of(struct model *m, const struct sample *s, struct tensor *const *in)
{
	struct graph *g = m->graph = graph_new(&m->arena, m, "g");
	struct op r = op_resolved(op_named(s->op));
	void *params = sample_params(g->arena, &r, s->attrs);
	uint32_t ids[MOST_IN], outs[MOST_OUT];

	for (uint32_t i = 0; i < s->nin; i++) {
		struct value *v = graph_add_value(g, arena_printf(g->arena, "x%u", i));
		v->is_input = true;
		v->info.type = in[i]->type;
		v->info.shape = in[i]->shape;
		ids[i] = v->id;
	}
	for (uint32_t i = 0; i < s->nout; i++) {
		struct value *v = graph_add_value(g, arena_printf(g->arena, "y%u", i));
		v->is_output = true;
		outs[i] = v->id;
	}
	struct node *n = graph_add_node(g, op_named(s->op), params, ids, s->nin, outs, s->nout,
					origin_new(g->arena, s->op, s->op, r.since));
	n->type = r.name;
	n->version = r.since;
	g->in = arena_dup(g->arena, ids, sizeof(ids));
	g->nin = s->nin;
	g->out = arena_dup(g->arena, outs, sizeof(outs));
	g->nout = s->nout;
	g->out_name = arena_new_n(g->arena, const char *, s->nout);
	for (uint32_t i = 0; i < s->nout; i++)
		g->out_name[i] = "y";
	return g;
}

static struct run_config config = {
	.device = "cuda", .memory_plan = true, .arena = true, .optimize = OPTIMIZE_NONE};

/* Runs it twice on the backend; copies of the outputs. */
static bool run_on(const struct backend *b, struct device *device, const struct sample *s,
		   struct tensor *const *in, struct tensor **out, struct diag *d)
{
	struct model m = {0};
	struct graph *g = graph_of(&m, s, in);
	struct runtime rt = {.backend = b,
			     .cpu = &cpu_backend,
			     .device = device,
			     .host = device,
			     .config = &config,
			     .store = store_new(NULL, NULL),
			     .arena = &m.arena};
	const struct tensor *got[MOST_OUT] = {NULL};
	bool ok = !graph_sort(g, d) && !opt_run(&m, &cpu_backend, &config, d);

	if (b != &cpu_backend) {
		rt.host = cpu_backend.open(0, &config, d);
		rt.stream = cuda_stream(device);
	}
	struct instance *x = instance_new(g, &rt);
	bool entered = ok && (!b->enter || !b->enter(device, d));

	for (int k = 0; k < 2 && ok && entered; k++)
		ok = !instance_run(x, (const struct tensor *const *)in, got, d);
	ok = ok && entered;
	if (entered && b->leave)
		b->leave(device, NULL);
	for (uint32_t i = 0; i < s->nout && ok; i++)
		out[i] = tensor_copy(&arena, got[i]);
	instance_free(x);
	uploads_free(&rt);
	store_free(rt.store);
	arena_free(&m.arena);
	return ok;
}

static double tolerance_of(const struct sample *s, enum dtype t)
{
	if (s->rtol > 0)
		return s->rtol;
	return t == DT_F16 ? 4e-3 : t == DT_BF16 ? 3e-2 : 1e-4;
}

static struct device *gpu, *host;

static void one(const struct sample *s, enum dtype t)
{
	struct tensor *in[MOST_IN], *want[MOST_OUT], *got[MOST_OUT];
	struct diag d = {0};
	double tolerance = tolerance_of(s, t);

	for (uint32_t i = 0; i < s->nin; i++)
		in[i] = sample_tensor(&arena, s->in[i].type ? s->in[i].type : t, &s->in[i].shape,
				      s->in[i].low, s->in[i].high);
	bool ran = run_on(&cpu_backend, host, s, in, want, &d) &&
		   run_on(&cuda_backend, gpu, s, in, got, &d);
	if (!CHECK(ran)) {
		printf("# %s of %s:\n", s->op, dtype_name(t));
		diag_print(&d, stdout, false);
	}
	for (uint32_t i = 0; i < s->nout && ran; i++) {
		struct difference e;
		bool same = compare_tensors(got[i], want[i],
					    (struct tolerance){tolerance, tolerance}, &e);
		if (!CHECK(same))
			printf("# %s %s of %s, output %u: %" PRId64 " of %" PRId64
			       " differ, first at %" PRId64 ": got %g, want %g\n",
			       s->op, s->attrs, dtype_name(t), i, e.beyond, e.count, e.first, e.got,
			       e.want);
	}
	diag_free(&d);
	arena_free(&arena);
}

static void every_operator(void)
{
	for (size_t k = 0; k < sizeof(samples) / sizeof(*samples); k++)
		for (int t = 1; t < DT_COUNT; t++)
			if (samples[k].types & T_BIT(t))
				one(&samples[k], (enum dtype)t);
}

/* From every type to every type, of whole and broken numbers near and beyond the limits. */
static void every_cast(void)
{
	uint64_t types = T_ALL & ~(T_STRING | T_COMPLEX);

	for (int from = 1; from < DT_COUNT; from++)
		for (int to = 1; to < DT_COUNT; to++) {
			char attrs[32];
			struct sample s = {.op = "Cast", .attrs = attrs, .nin = 1, .nout = 1};
			bool real = dtype_class((enum dtype)from) == DT_FLOAT;
			if (!(types & T_BIT(from)) || !(types & T_BIT(to)))
				continue;
			snprintf(attrs, sizeof(attrs), "to=%d", to);
			/* what no int holds is nobody's business */
			double most = real && dtype_class((enum dtype)to) != DT_FLOAT ? 120 : 500;
			s.in[0] = (struct operand){{1, {1001}},
						   dtype_class((enum dtype)to) == DT_UINT ? 0 : -most,
						   most,
						   0};
			s.rtol = 1e-30;
			one(&s, (enum dtype)from);
		}
}

/* ---- types ------------------------------------------------------------------------------------ */

/* Operators of tensors that have no kernel on the device for some types, and why that is right. */
static const struct {
	const char *op, *why;
} explained[] = {
	{"Shape", "a host value: nothing of the tensor is read"},
	{"Size", "a host value"},
	{"ImageDecoder", "the codecs are of the host"},
	{"SplitToSequence", "gives a sequence"},
	{"SequenceConstruct", "gives a sequence"},
	{"NegativeLogLikelihoodLoss", "losses are of training, which happens elsewhere"},
	{"SoftmaxCrossEntropyLoss", "losses are of training, which happens elsewhere"},
};

static bool is_explained(const char *op)
{
	for (size_t i = 0; i < sizeof(explained) / sizeof(*explained); i++)
		if (!strcmp(explained[i].op, op))
			return true;
	return false;
}

/* Types that kernels' tables look at: of the first input, or of the first output. */
static uint64_t types_of(const struct op *r)
{
	const struct slot *s = r->in && r->in->name ? r->in : r->out;

	if (!s || !s->name)
		return 0;
	return r->types && s->tvar && !strcmp(s->tvar, "T") ? r->types : s->types;
}

static uint64_t missing_types(const struct op *op, const struct op *r)
{
	const uint64_t named = T_F32 | T_F16 | T_BF16 | T_I8 | T_U8 | T_I32 | T_I64 | T_BOOL;
	uint64_t left = is_explained(op_qualified(op)) ? 0 : types_of(r) & named;

	for (unsigned k = 0; left; k++) {
		const struct kernel *kernel = backend_kernel(&cuda_backend, op, k);
		if (!kernel)
			break;
		if (!(kernel->flags & K_HOST))
			left &= kernel->types ? ~kernel->types : 0;
	}
	return left;
}

static int check_types(const struct op *op, void *arg)
{
	const struct op r = op_resolved(op);
	bool own = op == op_newest(op->domain, op->name) && !op_expressed(&r);

	(void)arg;
	if (!own || (r.domain && strcmp(r.domain, "com.microsoft") != 0) ||
	    r.flags & (OP_HOST_VALUES | OP_INTERNAL))
		return 0;
	uint64_t left = missing_types(op, &r);
	for (int t = 1; t < DT_COUNT; t++)
		if (left & T_BIT(t))
			printf("# no kernel of the device for %s of %s\n", op_qualified(op),
			       dtype_name((enum dtype)t));
	CHECK(!left || r.domain); /* of other domains it is only told */
	return 0;
}

/* Every operator of ai.onnx has a kernel on the device for each type that models compute in. */
static void every_type(void)
{
	op_each(check_types, NULL);
}

int main(void)
{
	struct diag d = {0};

	gpu = cuda_backend.open(0, &config, &d);
	host = cpu_backend.open(0, &config, &d);
	if (!gpu) {
		UNIT(every_type);
		printf("# no CUDA device: kernels are not run\n");
		diag_free(&d);
		return unit_end();
	}
	UNIT(every_type);
	launches_begin();
	UNIT(every_operator);
	UNIT(every_cast);
	launches_of("unit/gpu_kernels");
	cuda_backend.close(gpu);
	diag_free(&d);
	return unit_end();
}
