/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products and convolutions of 8-bit integers on the GPU against the CPU's, in each of the ways that they can be
 * computed: the cache says which was the fastest, so that a changed cache chooses another. Without a device there is
 * nothing to compare, which is said.
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

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_IN = 10, WAYS = 5 };

struct operand {
	enum dtype type; /* 0: left out */
	struct shape shape;
	double low, high;
	bool constant;
};
struct sample {
	const char *op, *attrs;
	struct operand in[MOST_IN];
};

#define SHAPE(...)                                                                                 \
	{                                                                                          \
		(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                         \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
#define U8(...)                                                                                    \
	{                                                                                          \
		DT_U8, SHAPE(__VA_ARGS__), 0, 255, false                                           \
	}
#define I8(...)                                                                                    \
	{                                                                                          \
		DT_I8, SHAPE(__VA_ARGS__), -128, 127, false                                        \
	}
#define WU8(...)                                                                                   \
	{                                                                                          \
		DT_U8, SHAPE(__VA_ARGS__), 0, 255, true                                            \
	}
#define WI8(...)                                                                                   \
	{                                                                                          \
		DT_I8, SHAPE(__VA_ARGS__), -128, 127, true                                         \
	}
#define I32(...)                                                                                   \
	{                                                                                          \
		DT_I32, SHAPE(__VA_ARGS__), -9999, 9999, false                                     \
	}
#define F32(low, high, ...)                                                                        \
	{                                                                                          \
		DT_F32, SHAPE(__VA_ARGS__), low, high, false                                       \
	}
#define ONE(type, v)                                                                               \
	{                                                                                          \
		type, {0, {0}}, v, v, false                                                        \
	}
#define FIXED(type, v)                                                                             \
	{                                                                                          \
		type, {0, {0}}, v, v, true                                                         \
	}
#define NONE                                                                                       \
	{                                                                                          \
		0                                                                                  \
	}

/* clang-format off */
static const struct sample samples[] = {
	{"MatMulInteger", "", {U8(64, 128), WI8(128, 96)}},
	{"MatMulInteger", "", {U8(2, 33, 70), I8(70, 45), ONE(DT_U8, 3), I8(45)}},
	{"MatMulInteger", "", {I8(130, 64), WI8(64, 136)}},
	{"MatMulInteger", "", {I8(130, 65), U8(65, 136), ONE(DT_I8, -7), ONE(DT_U8, 128)}},
	{"MatMulInteger", "", {U8(3, 2, 40, 48), U8(2, 48, 36), ONE(DT_U8, 9), ONE(DT_U8, 200)}},
	{"MatMulInteger", "", {U8(5, 1, 7, 16), WU8(16, 8), FIXED(DT_U8, 128), FIXED(DT_U8, 127)}},
	{"MatMulInteger", "", {U8(1, 64), I8(64, 4), U8(1)}},
	{"MatMulInteger", "", {U8(300, 1024), WI8(1024, 260), U8(300), I8(260)}},
	{"MatMulInteger", "", {U8(1300, 80), WI8(80, 1300), ONE(DT_U8, 100)}},
	{"MatMulInteger", "", {U8(3), I8(3, 5)}},
	{"MatMulInteger", "", {U8(2, 3, 4), I8(4), ONE(DT_U8, 2)}},
	{"com.microsoft::MatMulIntegerToFloat", "",
	 {U8(2, 50, 64), WI8(64, 72), ONE(DT_F32, .02), F32(.01, .1, 72), ONE(DT_U8, 77), I8(72), F32(-1, 1, 72)}},
	{"com.microsoft::MatMulIntegerToFloat", "",
	 {I8(50, 62), I8(62, 70), ONE(DT_F32, .02), ONE(DT_F32, .01), NONE, NONE, F32(-1, 1, 70)}},
	{"QLinearMatMul", "",
	 {U8(4, 64, 64), ONE(DT_F32, .02), ONE(DT_U8, 77), U8(4, 64, 32), ONE(DT_F32, .03), ONE(DT_U8, 3),
	  ONE(DT_F32, 2), ONE(DT_U8, 120)}},
	{"QLinearMatMul", "",
	 {I8(60, 64), ONE(DT_F32, .02), ONE(DT_I8, -7), WI8(64, 32), F32(.01, .04, 32), I8(32),
	  ONE(DT_F32, 2), ONE(DT_I8, 12)}},
	{"com.microsoft::QGemm", "alpha=0.7 transB=1",
	 {U8(33, 64), ONE(DT_F32, .02), ONE(DT_U8, 77), WI8(48, 64), F32(.01, .04, 48), I8(48), I32(48),
	  ONE(DT_F32, 2), ONE(DT_U8, 120)}},
	{"com.microsoft::QGemm", "transA=1",
	 {U8(64, 33), ONE(DT_F32, .02), ONE(DT_U8, 77), U8(64, 50), ONE(DT_F32, .04), ONE(DT_U8, 7), I32(33, 50)}},
	{"ConvInteger", "pads=1,1,1,1", {U8(3, 16, 14, 14), WI8(32, 16, 3, 3), ONE(DT_U8, 111)}},
	{"ConvInteger", "strides=2,1 pads=1,0,1,2", {U8(2, 6, 11, 12), U8(20, 6, 3, 3), ONE(DT_U8, 7), U8(20)}},
	{"ConvInteger", "group=2 pads=1,0,1,2", {U8(2, 6, 11, 12), U8(4, 3, 3, 3), ONE(DT_U8, 7), ONE(DT_U8, 9)}},
	{"ConvInteger", "dilations=2", {I8(2, 6, 50), I8(8, 6, 3)}},
	{"QLinearConv", "strides=2,2 pads=3,3,3,3",
	 {U8(2, 3, 64, 64), ONE(DT_F32, .02), ONE(DT_U8, 77), WI8(64, 3, 7, 7), F32(.01, .04, 64), I8(64),
	  ONE(DT_F32, 1), ONE(DT_U8, 120), I32(64)}},
	{"QLinearConv", "",
	 {I8(2, 64, 14, 14), ONE(DT_F32, .02), ONE(DT_I8, 7), WI8(32, 64, 1, 1), ONE(DT_F32, .01), ONE(DT_I8, 0),
	  ONE(DT_F32, 1), ONE(DT_I8, -20), I32(32)}},
	{"com.microsoft::QLinearGlobalAveragePool", "",
	 {U8(2, 20, 7, 7), ONE(DT_F32, .02), ONE(DT_U8, 77), ONE(DT_F32, .01), ONE(DT_U8, 12)}},
	{"com.microsoft::QLinearGlobalAveragePool", "channels_last=1",
	 {I8(2, 9, 7, 20), ONE(DT_F32, .02), ONE(DT_I8, -7), ONE(DT_F32, .01), ONE(DT_I8, 12)}},
	{"com.microsoft::QLinearConcat", "axis=1",
	 {ONE(DT_F32, .02), ONE(DT_U8, 77), U8(2, 5, 30), ONE(DT_F32, .03), ONE(DT_U8, 9), U8(2, 8, 30), ONE(DT_F32, .02),
	  ONE(DT_U8, 77)}},
	{"com.microsoft::MatMulNBits", "K=96 N=50 bits=4 block_size=32",
	 {F32(-1, 1, 2, 3, 96), WU8(50, 3, 16), F32(.01, .1, 150)}},
	{"com.microsoft::MatMulNBits", "K=100 N=50 bits=4 block_size=16",
	 {F32(-1, 1, 33, 100), U8(50, 7, 8), F32(.01, .1, 350), U8(200), NONE, F32(-1, 1, 50)}},
	{"com.microsoft::MatMulNBits", "K=64 N=136 bits=8 block_size=32",
	 {F32(-1, 1, 5, 64), WU8(136, 2, 32), F32(.01, .1, 272), WU8(272)}},
	{"com.microsoft::MatMulNBits", "K=64 N=136 bits=2 block_size=64",
	 {F32(-1, 1, 200, 64), WU8(136, 1, 16), F32(.01, .1, 136), F32(0, 3, 136)}},
	{"com.microsoft::MatMulNBits", "K=2048 N=9000 bits=4 block_size=128",
	 {F32(-1, 1, 20, 2048), WU8(9000, 16, 64), F32(.01, .1, 144000)}},
};
/* clang-format on */

static struct arena arena; /* of a sample */
static char folder[] = "/tmp/infer-int8-XXXXXX";
static struct run_config config = {.device = "cuda",
				   .memory_plan = true,
				   .arena = true,
				   .optimize = OPTIMIZE_NONE,
				   .tune = TUNE_FULL,
				   .cache = folder};
static struct device *gpu, *host;
static const char *only = ""; /* the operators whose names have it */

/* The sample as a graph of one node; given: its inputs that are no constants, by position. */
static struct graph *graph_of(struct model *m, const struct sample *s, struct tensor *const *in,
			      const struct tensor **given)
{
	struct graph *g = m->graph = graph_new(&m->arena, m, "g");
	struct op r = op_resolved(op_named(s->op));
	void *params = sample_params(g->arena, &r, s->attrs);
	uint32_t ids[MOST_IN], inputs[MOST_IN], nin = 0, used = 0;
	struct value *y;

	for (uint32_t i = 0; i < MOST_IN; i++) {
		ids[i] = NO_VALUE;
		if (!in[i])
			continue;
		const char *name = arena_printf(g->arena, "x%u", i);
		struct value *v = s->in[i].constant ? graph_add_const(g, name, in[i])
						    : graph_add_value(g, name);
		v->info.type = in[i]->type;
		v->info.shape = in[i]->shape;
		ids[i] = v->id;
		used = i + 1;
		if (s->in[i].constant)
			continue;
		v->is_input = true;
		inputs[nin] = v->id;
		given[nin++] = in[i];
	}
	y = graph_add_value(g, "y");
	y->is_output = true;
	struct node *n = graph_add_node(g, op_named(s->op), params, ids, used, &y->id, 1,
					origin_new(g->arena, s->op, s->op, r.since));
	n->type = r.name;
	n->version = r.since;
	g->in = arena_dup(g->arena, inputs, sizeof(inputs));
	g->nin = nin;
	g->out = arena_dup(g->arena, &y->id, sizeof(y->id));
	g->nout = 1;
	g->out_name = arena_new_n(g->arena, const char *, 1);
	g->out_name[0] = "y";
	return g;
}

/* Runs it twice; a copy of the output. NULL where it fails. */
static struct tensor *run_on(const struct backend *b, struct device *device, const struct sample *s,
			     struct tensor *const *in, struct diag *d)
{
	struct model m = {0};
	const struct tensor *given[MOST_IN] = {NULL}, *got = NULL;
	struct graph *g = graph_of(&m, s, in, given);
	struct runtime rt = {.backend = b,
			     .cpu = &cpu_backend,
			     .device = device,
			     .host = host,
			     .config = &config,
			     .store = store_new(NULL, NULL),
			     .arena = &m.arena};
	bool ok = !graph_sort(g, d) && !opt_run(&m, &cpu_backend, &config, d);

	if (b != &cpu_backend)
		rt.stream = cuda_stream(device);
	struct instance *x = instance_new(g, &rt);
	bool entered = ok && (!b->enter || !b->enter(device, d));

	for (int k = 0; k < 2 && ok && entered; k++)
		ok = !instance_run(x, given, &got, d);
	ok = ok && entered;
	if (entered && b->leave)
		b->leave(device, NULL);
	struct tensor *copy = ok ? tensor_copy(&arena, got) : NULL;
	instance_free(x);
	uploads_free(&rt);
	store_free(rt.store);
	arena_free(&m.arena);
	return copy;
}

static void one(const struct sample *s, int way)
{
	struct tensor *in[MOST_IN] = {NULL};
	struct diag d = {0};
	struct difference e;
	/* sums of integers are exact, and what follows them is rounded alike */
	double most = strcmp(s->op, "com.microsoft::MatMulNBits") ? 1e-6 : 1e-4;

	for (uint32_t i = 0; i < MOST_IN; i++)
		if (s->in[i].type)
			in[i] = sample_tensor(&arena, s->in[i].type, &s->in[i].shape, s->in[i].low,
					      s->in[i].high);
	const struct tensor *want = run_on(&cpu_backend, host, s, in, &d),
			    *got = run_on(&cuda_backend, gpu, s, in, &d);
	if (!CHECK(want && got)) {
		printf("# %s %s, way %d:\n", s->op, s->attrs, way);
		diag_print(&d, stdout, false);
	} else if (!CHECK(compare_tensors(got, want, (struct tolerance){most, most}, &e))) {
		printf("# %s %s, sample %td, way %d: %" PRId64 " of %" PRId64
		       " differ, first at %" PRId64 ": got %g, want %g\n",
		       s->op, s->attrs, s - samples, way, e.beyond, e.count, e.first, e.got, e.want);
	}
	diag_free(&d);
	arena_free(&arena);
}

static void all_samples(int way)
{
	struct diag d = {0};

	gpu = cuda_backend.open(0, &config, &d);
	for (size_t k = 0; CHECK(gpu != NULL) && k < sizeof(samples) / sizeof(*samples); k++) {
		if (!strstr(samples[k].op, only))
			continue;
		if (getenv("V")) { /* what a tool complains of stands behind it */
			printf("# way %d: %s %s\n", way, samples[k].op, samples[k].attrs);
			fflush(stdout);
		}
		one(&samples[k], way);
		launches_of("unit/gpu_int8");
	}
	if (gpu)
		cuda_backend.close(gpu);
	diag_free(&d);
}

/* The one folder of the cache: of the device. */
static bool choices_path(char *path, size_t size)
{
	char top[64];
	snprintf(top, sizeof(top), "%s/v1", folder);
	DIR *dir = opendir(top);
	bool found = false;

	for (struct dirent *e; dir && (e = readdir(dir));)
		if (e->d_name[0] != '.' && !found)
			found = snprintf(path, size, "%s/%s/choices.txt", top, e->d_name) < (int)size;
	if (dir)
		closedir(dir);
	return found;
}

/* Every choice between the ways becomes this one. */
static int choose(int way)
{
	char path[512], to[520], line[4096];
	int changed = 0;

	if (!choices_path(path, sizeof(path)))
		return 0;
	snprintf(to, sizeof(to), "%s.new", path);
	FILE *from = fopen(path, "r"), *out = fopen(to, "w");
	while (from && out && fgets(line, sizeof(line), from)) {
		char *tab = strchr(line, '\t');
		bool ours = !strncmp(line, "int8 ", 5) && tab;
		if (ours)
			tab[1] = (char)('0' + way);
		changed += ours;
		fputs(line, out);
	}
	if (from)
		fclose(from);
	if (out)
		fclose(out);
	return rename(to, path) ? 0 : changed;
}

static void every_way_agrees_with_the_cpu(void)
{
	all_samples(-1);
	for (int way = 0; way < WAYS; way++) {
		CHECK(choose(way) > 0 || *only);
		all_samples(way);
	}
}

int main(int argc, char **argv)
{
	struct diag d = {0};

	only = argc > 1 ? argv[1] : "";
	gpu = cuda_backend.open(0, &config, &d);
	host = cpu_backend.open(0, &config, &d);
	if (!gpu) {
		printf("ok every_way_agrees_with_the_cpu # SKIP no CUDA device\n1..1\n");
		diag_free(&d);
		return 0;
	}
	cuda_backend.close(gpu);
	if (!mkdtemp(folder))
		return 1;
	launches_begin();
	UNIT(every_way_agrees_with_the_cpu);
	diag_free(&d);
	return unit_end();
}
