/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/pointwise.h"

#include "gpu/launch/channels_last.h"
#include "gpu/driver/nvrtc.h"
#include "ops/fused.h"

#include "base/str.h"

#include <math.h>

/* ---- strides of the operands ------------------------------------------------------------------ */

/*
 * The argument of a generated kernel. C compiles these lines, and the generated source contains the same lines as text.
 */
#define PW_JOB                                                                                     \
	const void *in[16];                                                                        \
	void *out[4];                                                                              \
	long long n;                                                                               \
	long long dim[8], step[16][8];                                                             \
	int rank;
struct pw_job {
	PW_JOB
};
#define TEXT_(...) #__VA_ARGS__
#define TEXT(...)  TEXT_(__VA_ARGS__)
enum { JOB_DIMS = 8 };

/*
 * Sets the dims of the loop and the strides of each operand. Returns false if there are too many operands or
 * dimensions.
 */
static bool fill_strides(const struct site *s, enum layout layout, struct gpu_dims *d,
			 int64_t (*step)[GPU_DIMS])
{
	const struct shape *in[PW_MAX_IN];

	if (s->node->nin > PW_MAX_IN || s->node->nout > PW_MAX_OUT)
		return false;
	for (uint32_t i = 0; i < s->node->nin; i++)
		in[i] = &site_in(s, i)->shape;
	return gpu_broadcast_as(layout, &site_out(s, 0)->shape, (int)s->node->nin, in, d, step) &&
	       d->rank <= JOB_DIMS;
}

/* ---- interpreted groups ----------------------------------------------------------------------- */

struct interpreted {
	void *fn;
	struct gpu_pointwise job;
};

static const char *fill_interpreted(const struct site *s, enum layout layout, struct gpu_pointwise *j)
{
	const struct fused_pointwise *p = s->node->params;
	int64_t step[PW_MAX_IN][GPU_DIMS] = {{0}};
	struct gpu_dims d;

	if (s->node->nin > GPU_PW_IN || s->node->nout > GPU_PW_OUT || p->code.n > 4 * GPU_CODE ||
	    p->consts.n > GPU_CONSTS - 1)
		return "a program that is too long";
	if (!fill_strides(s, layout, &d, step) || d.rank > GPU_PW_DIMS)
		return "too many dimensions";
	j->n = gpu_count(&site_out(s, 0)->shape);
	j->rank = d.rank;
	j->ncode = (int)(p->code.n / 4);
	j->nout = (int)s->node->nout;
	for (int r = 0; r < d.rank; r++) {
		j->dim[r] = d.dim[r];
		for (int k = 0; k < GPU_PW_IN; k++)
			j->step[k][r] = step[k][r];
	}
	for (int64_t i = 0; i < p->code.n; i++)
		j->code[i / 4][i % 4] = (uint8_t)p->code.v[i];
	for (int64_t i = 0; i < p->consts.n; i++)
		j->consts[i] = p->consts.v[i];
	for (int k = 0; k < j->nout; k++)
		j->outs[k] = (uint8_t)p->outs.v[k];
	return NULL;
}

bool gpu_pointwise_accepts(const struct site *s, struct why *w)
{
	struct gpu_pointwise j = {0};
	const char *bad = fill_interpreted(s, LAYOUT_ROW, &j);

	return bad ? refuse(w, "%s", bad) : true;
}

int gpu_pointwise_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct interpreted *p = arena_new(s->plan_arena, struct interpreted);

	fill_interpreted(s, gpu_elementwise_layout(s, step), &p->job);
	p->fn = gpu_typed(s, "product", "pointwise", gpu_type(s, 0), d);
	step->state = p;
	return p->fn ? 0 : -E_DEVICE;
}

int gpu_pointwise_run(const struct call *c)
{
	const struct interpreted *p = c->step->state;
	struct gpu_pointwise job = p->job;

	for (uint32_t i = 0; i < c->step->nin; i++)
		job.in[i] = gpu_data(c, i);
	for (uint32_t i = 0; i < c->step->nout; i++)
		job.out[i] = gpu_out(c, i);
	return job.n ? gpu_launch(c, p->fn, gpu_grid(job.n), &job, sizeof(job)) : 0;
}

/* ---- the generated source --------------------------------------------------------------------- */

/*
 * The start of the generated source, which includes no header. It defines the 16-bit types, their conversions and the
 * loop; the functions that programs call follow it. A thread computes V elements in each iteration. If V > 1, each
 * operand must be contiguous along the last dimension or have a single number there.
 */
static const char prelude[] = "struct pw_job { " TEXT(
	PW_JOB) " };\n"
		"typedef long long i64;\n"
		"struct f16 { unsigned short v; };\n"
		"struct bf16 { unsigned short v; };\n"
		"#define D __device__ __forceinline__\n"
		"D float up(float x) { return x; }\n"
		"D float up(f16 x) { float r; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(x.v)); return r; }\n"
		"D float up(bf16 x) { return __uint_as_float((unsigned)x.v << 16); }\n"
		"D void down(float x, float &y) { y = x; }\n"
		"D void down(float x, f16 &y) { asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y.v) : \"f\"(x)); }\n"
		"D void down(float x, bf16 &y) { asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(y.v) : \"f\"(x)); }\n"
		"template <typename T, int V> struct alignas(sizeof(T) * V) Vec { T e[V]; };\n"
		"template <typename T, typename C, int NIN, int NOUT, int V, typename F> D void run(const pw_job &p, F f)\n"
		"{\n"
		"#if __CUDA_ARCH__ >= 900\n" /* let_next_begin(), wait_for_previous() */
		"	asm volatile(\"griddepcontrol.launch_dependents;\");\n"
		"	asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
		"#endif\n"
		"	const i64 step = (i64)gridDim.x * blockDim.x * V;\n"
		"	for (i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * V; i < p.n; i += step) {\n"
		"		i64 at[NIN];\n"
		"		Vec<T, V> x[NIN], y[NOUT];\n"
		"		if (p.rank == 1) {\n"
		"			for (int k = 0; k < NIN; k++) at[k] = i * p.step[k][0];\n"
		"		} else {\n"
		"			for (int k = 0; k < NIN; k++) at[k] = 0;\n"
		"			if (p.n < 0x7fffffff) {\n"
		"				unsigned rest = (unsigned)i;\n"
		"				for (int r = p.rank - 1; r >= 0; r--) {\n"
		"					unsigned d = (unsigned)p.dim[r], q = rest / d, c = rest - q * d;\n"
		"					rest = q;\n"
		"					for (int k = 0; k < NIN; k++) at[k] += c * p.step[k][r];\n"
		"				}\n"
		"			} else {\n"
		"				i64 rest = i;\n"
		"				for (int r = p.rank - 1; r >= 0; r--) {\n"
		"					i64 c = rest % p.dim[r];\n"
		"					rest /= p.dim[r];\n"
		"					for (int k = 0; k < NIN; k++) at[k] += c * p.step[k][r];\n"
		"				}\n"
		"			}\n"
		"		}\n"
		"#pragma unroll\n"
		"		for (int k = 0; k < NIN; k++) {\n"
		"			const T *from = (const T *)p.in[k] + at[k];\n"
		"			if (V > 1 && p.step[k][p.rank - 1]) {\n"
		"				x[k] = *(const Vec<T, V> *)from;\n"
		"			} else {\n"
		"				for (int e = 0; e < V; e++) x[k].e[e] = *from;\n"
		"			}\n"
		"		}\n"
		"#pragma unroll\n"
		"		for (int e = 0; e < V; e++) {\n"
		"			C a[NIN], o[NOUT];\n"
		"			for (int k = 0; k < NIN; k++) a[k] = up(x[k].e[e]);\n"
		"			f(a, o);\n"
		"			for (int k = 0; k < NOUT; k++) down(o[k], y[k].e[e]);\n"
		"		}\n"
		"		for (int k = 0; k < NOUT; k++) *(Vec<T, V> *)((T *)p.out[k] + i) = y[k];\n"
		"	}\n"
		"}\n";

/*
 * The text of the functions of ops/unary.def and of the instructions of ops/pointwise.def, which follows the prelude.
 */
static const char *const functions[] = {
#define HELPER(name, formula) "template <typename C> D C " #name "(C x) { return " #formula "; }\n",
#define FUNCTION(id, cost, formula)                                                                \
	"template <typename C> D C fn_" #id "(C x, C a, C b) { return " #formula "; }\n",
#include "ops/unary.def"
#define BINARY(id, op, ninputs, text, formula)                                                     \
	"template <typename C> D C pw_" #id "(C a, C b) { return " #formula "; }\n",
#include "ops/pointwise.def"
};

/* Adds a literal of exactly the number v, which may be infinite or NaN. */
static void add_number(struct str *b, float v)
{
	if (isnan(v))
		str_add(b, "C(__int_as_float(0x7fc00000))");
	else if (isinf(v))
		str_addf(b, "C(__int_as_float(0x%s))", v > 0 ? "7f800000" : "ff800000");
	else
		str_addf(b, "C(%af)", (double)v);
}

/* Adds constant k of the program, or 0 if the program has no such constant. */
static void add_parameter(struct str *b, const struct fused_pointwise *p, int64_t k)
{
	str_add(b, ", ");
	add_number(b, k >= 0 && k < p->consts.n ? p->consts.v[k] : 0);
}

static void add_step(struct str *b, const struct fused_pointwise *p, int i)
{
	static const char *const acts[ACT_COUNT] = {
#define ACTIVATION(id, text, op, nparams, alpha, beta) [ACT_##id] = #id,
#define NAMED_ACTIVATION(id, op, nparams, alpha, beta) [ACT_##id] = #id,
#include "ops/unary.def"
	};
	static const char *const ops[PW_COUNT] = {
#define BINARY(id, op, ninputs, text, formula) [PW_##id] = #id,
#define SINGLE(id, op, text)		       [PW_##id] = #id,
#include "ops/pointwise.def"
	};
	const int64_t *c = p->code.v + 4 * i;
	int a = (int)c[1];

	str_addf(b, "		const C v%d = ", i);
	if (c[0] == PW_INPUT) {
		str_addf(b, "a[%d]", a);
	} else if (c[0] == PW_CONST) {
		add_number(b, p->consts.v[a]);
	} else if (c[0] == PW_ACT && c[2] == ACT_NONE) {
		str_addf(b, "v%d", a);
	} else if (c[0] == PW_ACT) {
		str_addf(b, "fn_%s(v%d", acts[c[2]], a);
		add_parameter(b, p, c[3]);
		add_parameter(b, p, c[3] + 1);
		str_add(b, ")");
	} else if (c[0] >= PW_NEG) {
		str_addf(b, "fn_%s(v%d, C(0), C(0))", ops[c[0]], a);
	} else {
		str_addf(b, "pw_%s(v%d, v%d)", ops[c[0]], a, (int)c[2]);
	}
	str_add(b, ";\n");
}

/* Returns the number of elements in 16 bytes, which a thread can load at once. */
static int vector_elements(enum dtype t)
{
	return 16 / (int)gpu_size(t);
}

static const char *group_text(const struct node *n, enum dtype t, int number, struct arena *a)
{
	const struct fused_pointwise *p = n->params;
	const char *type = dtype_name(t);
	struct str b = {.arena = a};

	type = t == DT_F32 ? "float" : type;
	str_addf(&b,
		 "struct G%d {\n	typedef float C;\n	D void operator()(const C *a, C *o) const\n	{\n",
		 number);
	for (int i = 0; i < (int)(p->code.n / 4); i++)
		add_step(&b, p, i);
	for (uint32_t k = 0; k < n->nout; k++)
		str_addf(&b, "		o[%u] = v%d;\n", k, (int)p->outs.v[k]);
	str_add(&b, "	}\n};\n");
	for (int wide = 0; wide < 2; wide++)
		str_addf(&b,
			 "extern \"C\" __global__ void __launch_bounds__(256) pw_%d_%s(const pw_job p)\n"
			 "{ run<%s, float, %u, %u, %d>(p, G%d()); }\n",
			 number, wide ? "v" : "1", type, n->nin, n->nout,
			 wide ? vector_elements(t) : 1, number);
	return str_get(&b);
}

/* Returns the text behind the group's number. This text is equal for groups that compute the same. */
static const char *body_of(const char *text)
{
	return strchr(text, '{');
}

static bool is_group(const struct graph *g, const struct node *n, enum dtype *t)
{
	if (!n || n->dead || !n->op || n->op != op_named("infer::Pointwise") ||
	    n->nin > PW_MAX_IN || n->nout > PW_MAX_OUT)
		return false;
	*t = (enum dtype)g->value[n->in[0]]->info.type.dtype;
	for (uint32_t i = 0; i < n->nout; i++)
		if (n->out[i] == NO_VALUE)
			return false;
	return (T_BIT(*t) & T_GROUPED) != 0;
}

const char *gpu_pointwise_source(const struct graph *g, struct arena *a, const char **names)
{
	struct str b = {.arena = a};
	const char **text = arena_new_n(a, const char *, g->nnodes + 1);
	enum dtype *type = arena_new_n(a, enum dtype, g->nnodes + 1);
	int groups = 0;

	for (uint32_t k = 0; k < g->nnodes; k++) {
		const struct node *n = g->node[k];
		if (!is_group(g, n, &type[k]))
			continue;
		text[k] = group_text(n, type[k], groups, a);
		for (uint32_t e = 0; e < k && !names[k]; e++)
			if (text[e] && names[e] && type[e] == type[k] && g->node[e]->nin == n->nin &&
			    !strncmp(body_of(text[e]), body_of(text[k]),
				     strcspn(body_of(text[k]), "}")))
				names[k] = names[e];
		if (names[k])
			continue;
		if (!groups) {
			str_add(&b, prelude);
			for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
				str_add(&b, functions[i]);
		}
		names[k] = arena_printf(a, "pw_%d", groups++);
		str_add(&b, text[k]);
	}
	return groups ? str_get(&b) : NULL;
}

/* ---- compiled groups -------------------------------------------------------------------------- */

/* The compiled kernels of a graph, which the device owns. */
struct program {
	const struct graph *graph;
	const char *why; /* why the program could not be compiled, or NULL */
	/*
	 * fn[0]: kernels that compute one element in each iteration; fn[1]: kernels that compute vectors. Both are
	 * indexed by node id; an entry is NULL if there is no kernel.
	 */
	void **fn[2];
	struct program *next;
};
struct programs {
	struct arena arena;
	struct program *first;
};

static void load_kernels(struct device *device, const struct graph *g, struct program *p,
			 const void *image, const char **names, struct arena *a)
{
	const char **all = arena_new_n(a, const char *, 2 * (size_t)g->nnodes + 1);
	void **fn = arena_new_n(a, void *, 2 * (size_t)g->nnodes + 1);
	int n = 0;

	for (uint32_t k = 0; k < g->nnodes; k++)
		for (int wide = 0; names[k] && wide < 2; wide++)
			all[n++] = arena_printf(a, "%s_%s", names[k], wide ? "v" : "1");
	if (gpu_codes(device, image, all, fn, n, NULL)) {
		p->why = "the compiled kernels cannot be loaded";
		return;
	}
	n = 0;
	for (uint32_t k = 0; k < g->nnodes; k++)
		for (int wide = 0; names[k] && wide < 2; wide++)
			p->fn[wide][k] = fn[n++];
}

static struct program *program_of(struct device *device, const struct graph *g)
{
	struct programs *all = gpu_slot_new(device, GPU_NVRTC, sizeof(*all), NULL);
	struct arena a = {0};

	for (struct program *p = all->first; p; p = p->next)
		if (p->graph == g)
			return p;
	struct program *p = arena_new(&all->arena, struct program);
	const char **names = arena_new_n(&a, const char *, g->nnodes + 1), *why = NULL;
	const char *source = gpu_pointwise_source(g, &a, names);
	*p = (struct program){.graph = g, .next = all->first};
	for (int wide = 0; wide < 2; wide++)
		p->fn[wide] = arena_new_n(&all->arena, void *, g->nnodes + 1);
	const void *image = source ? nvrtc_program(device, source, &a, &why) : NULL;
	if (image)
		load_kernels(device, g, p, image, names, &a);
	else
		p->why = arena_str(&all->arena, why ? why : "no group");
	all->first = p;
	arena_free(&a);
	return p;
}

struct compiled_state {
	void *one, *wide;
	int vector;
	struct pw_job job;
};

bool gpu_pointwise_compiled_accepts(const struct site *s, struct why *w)
{
	int64_t step[PW_MAX_IN][GPU_DIMS] = {{0}};
	struct gpu_dims d;

	if (!fill_strides(s, LAYOUT_ROW, &d, step))
		return refuse(w, "too many operands or dimensions");
	const struct program *p = program_of(s->device, s->graph);
	if (p->why)
		return refuse(w, "interpreted: %s", p->why);
	return p->fn[0][s->node->id] != NULL ||
	       refuse(w, "interpreted: the compiled program does not contain the node");
}

/* Returns whether each operand, in v neighbouring positions, has contiguous elements or a single number. */
static bool can_vectorize(const struct pw_job *j, uint32_t nin, int v)
{
	int last = j->rank - 1;

	if (j->dim[last] % v)
		return false;
	for (uint32_t k = 0; k < nin; k++) {
		if (j->step[k][last] != 0 && j->step[k][last] != 1)
			return false;
		for (int r = 0; r < last; r++)
			if (j->step[k][last] && j->step[k][r] % v)
				return false;
	}
	return true;
}

int gpu_pointwise_compiled_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct compiled_state *c = arena_new(s->plan_arena, struct compiled_state);
	const struct program *p = program_of(s->device, s->graph);
	int64_t steps[PW_MAX_IN][GPU_DIMS] = {{0}};
	struct gpu_dims dims;

	(void)d;
	fill_strides(s, gpu_elementwise_layout(s, step), &dims, steps);
	c->one = p->fn[0][s->node->id];
	c->vector = vector_elements(gpu_type(s, 0));
	c->job.n = gpu_count(&site_out(s, 0)->shape);
	c->job.rank = dims.rank ? dims.rank : 1;
	c->job.dim[0] = 1;
	for (int r = 0; r < dims.rank; r++) {
		c->job.dim[r] = dims.dim[r];
		for (uint32_t k = 0; k < s->node->nin; k++)
			c->job.step[k][r] = steps[k][r];
	}
	if (can_vectorize(&c->job, s->node->nin, c->vector))
		c->wide = p->fn[1][s->node->id];
	for (uint32_t i = 0; i < s->node->nin && s->node->nout == 1; i++)
		if (shape_equal(&site_in(s, i)->shape, &site_out(s, 0)->shape))
			gpu_inplace(step, 0, (uint8_t)i);
	step->state = c;
	return 0;
}

int gpu_pointwise_compiled_run(const struct call *c)
{
	const struct compiled_state *s = c->step->state;
	struct pw_job job = s->job;
	uintptr_t low = 0;

	for (uint32_t i = 0; i < c->step->nin; i++) {
		job.in[i] = gpu_data(c, i);
		if (job.step[i][job.rank - 1])
			low |= (uintptr_t)job.in[i];
	}
	for (uint32_t i = 0; i < c->step->nout; i++) {
		job.out[i] = gpu_out(c, i);
		low |= (uintptr_t)job.out[i];
	}
	if (!job.n)
		return 0;
	/* a view may begin at an address that is not aligned to 16 bytes */
	if (s->wide && !(low & 15))
		return gpu_launch_early(c, s->wide, gpu_grid(job.n / s->vector), &job, sizeof(job));
	return gpu_launch_early(c, s->one, gpu_grid(job.n), &job, sizeof(job));
}
