/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: reuse of memory, cached plans, cuts at data-dependent shapes, no allocation in a repeated run. */
#include "backend/weight_store.h"
#include "base/asan.h"
#include "cpu/cpu.h"
#include "opt/pipeline.h"
#include "plan/plan.h"
#include "test/unit/unit.h"

#include <math.h>

static struct run_config config = {.device = "cpu", .memory_plan = true, .arena = true};

/* A model made by hand: one f32 input [n,4]. */
struct bench {
	struct model model;
	struct graph *g;
	struct runtime rt;
	struct instance *x;
	struct diag d;
	uint32_t in;
};

static void begin(struct bench *b)
{
	*b = (struct bench){0};
	b->g = b->model.graph = graph_new(&b->model.arena, &b->model, "test");
	struct value *v = graph_add_value(b->g, "x");
	v->is_input = true;
	v->info.type = type_tensor(DT_F32);
	v->info.shape = (struct shape){2, {DIM_SYM(model_symbol(&b->model, "n")), 4}};
	b->in = v->id;
	b->g->in = arena_dup(&b->model.arena, &v->id, sizeof(v->id));
	b->g->nin = 1;
}

static uint32_t node(struct bench *b, const char *op, const uint32_t *in, uint32_t nin)
{
	uint32_t out = graph_add_value(b->g, op)->id;
	const struct op *row = op_named(op);
	struct op r = op_resolved(row);
	void *params = arena_alloc(&b->model.arena, r.params_size + 1);

	if (r.attrs)
		field_defaults(r.attrs, params, &b->model.arena);
	struct node *n = graph_add_node(b->g, row, params, in, nin, &out, 1,
					origin_new(&b->model.arena, op, op, row->since));
	n->type = row->name;
	n->version = row->since;
	return out;
}

static bool finish(struct bench *b, uint32_t out)
{
	b->g->out = arena_dup(&b->model.arena, &out, sizeof(out));
	b->g->out_name = arena_new_n(&b->model.arena, const char *, 1);
	b->g->out_name[0] = "y";
	b->g->nout = 1;
	b->g->value[out]->is_output = true;
	bool ok = !graph_sort(b->g, &b->d) && !opt_run(&b->model, &cpu_backend, &config, &b->d);
	b->rt = (struct runtime){.backend = &cpu_backend,
				 .cpu = &cpu_backend,
				 .config = &config,
				 .store = store_new(NULL, NULL),
				 .arena = &b->model.arena};
	b->rt.device = cpu_backend.open(0, &config, &b->d);
	b->x = instance_new(b->g, &b->rt);
	return ok;
}

static void end(struct bench *b)
{
	if (b->d.errors)
		diag_print(&b->d, stdout, false);
	instance_free(b->x);
	store_free(b->rt.store);
	diag_free(&b->d);
	arena_free(&b->model.arena);
}

static const struct tensor *run(struct bench *b, int64_t rows, float *data)
{
	struct tensor x = {.type = type_tensor(DT_F32),
			   .shape = {2, {rows, 4}},
			   .data = data,
			   .bytes = (size_t)rows * 16};
	const struct tensor *in = &x, *out = NULL;

	return instance_run(b->x, &in, &out, &b->d) ? NULL : out;
}

static void a_chain_runs_in_place(void)
{
	struct bench b;
	struct segment_report r = {0};
	float data[8] = {-1, 2, -3, 4, -5, 6, -7, 8};

	begin(&b);
	uint32_t t = node(&b, "Neg", &b.in, 1);
	t = node(&b, "Abs", &t, 1);
	t = node(&b, "Neg", &t, 1);
	CHECK(finish(&b, t));
	struct tensor x = {
		.type = type_tensor(DT_F32), .shape = {2, {2, 4}}, .data = data, .bytes = 32};
	const struct tensor *in = &x;
	CHECK(!instance_prepare(b.x, &in, &r, &b.d));
	/* one block of 32 bytes, rounded up; AddressSanitizer watches a gap behind it */
	CHECK_INT(r.slab_bytes, WITH_ASAN ? 128 : 64);
	const struct tensor *y = run(&b, 2, data);
	CHECK(y && ((const float *)y->data)[0] == -1 && ((const float *)y->data)[7] == -8);
	CHECK(data[0] == -1 && data[1] == 2); /* the caller's input is not written to */
	end(&b);
}

/* In a build with AddressSanitizer a step and the caller can read an output, but no other bytes of the slab. */
static void the_rest_of_the_slab_is_watched(void)
{
	struct bench b;
	float data[16] = {1, 2, 3, 4};

	begin(&b);
	uint32_t t = node(&b, "Sqrt", &b.in, 1);
	CHECK(finish(&b, node(&b, "MatMul", (uint32_t[]){t, t}, 2)));
	const struct tensor *y = run(&b, 4, data);
	if (CHECK(y != NULL)) {
		const char *p = y->data;
		CHECK(!asan_is_poisoned(p) && !asan_is_poisoned(p + y->bytes - 1));
		CHECK_INT(asan_is_poisoned(p + y->bytes), WITH_ASAN);
	}
	end(&b);
}

static void a_second_run_allocates_nothing(void)
{
	struct bench b;
	float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};

	begin(&b);
	uint32_t t = node(&b, "Sqrt", &b.in, 1);
	uint32_t both[2] = {t, b.in};
	CHECK(finish(&b, node(&b, "Add", both, 2)));
	CHECK(run(&b, 2, data) != NULL);
	uint64_t before = mem_calls();
	for (int i = 0; i < 10; i++)
		CHECK(run(&b, 2, data) != NULL);
	CHECK_INT(mem_calls() - before, 0);
	end(&b);
}

static void plans_are_cached_by_shape(void)
{
	struct bench b;
	float data[64] = {0};

	begin(&b);
	CHECK(finish(&b, node(&b, "Exp", &b.in, 1)));
	for (int round = 0; round < 3; round++)
		for (int64_t rows = 1; rows <= 5; rows++)
			CHECK(run(&b, rows, data) != NULL);
	CHECK_INT(instance_plans(b.x), 5);
	for (int64_t rows = 1; rows <= 12; rows++)
		CHECK(run(&b, rows, data) != NULL);
	CHECK_INT(instance_plans(b.x), 12);
	end(&b);
}

/* Values of many kinds: of the input's rows, of rows times rows, of a size that depends on nothing, known from shapes. */
static bool begin_growing(struct bench *b)
{
	begin(b);
	uint32_t x = b->in, e = node(b, "Exp", &x, 1);
	uint32_t a = node(b, "Add", (uint32_t[]){e, x}, 2), t = node(b, "Transpose", &x, 1);
	uint32_t m = node(b, "MatMul", (uint32_t[]){a, t}, 2), r = node(b, "ReduceSum", &m, 1);
	uint32_t s = node(b, "Sqrt", &r, 1), s2 = node(b, "Neg", &s, 1);
	uint32_t shape = node(b, "Shape", &m, 1);
	uint32_t view = node(b, "Reshape", (uint32_t[]){m, shape}, 2);
	uint32_t y = node(b, "Mul", (uint32_t[]){view, s2}, 2);
	uint32_t whole = node(b, "ConstantOfShape", &shape, 1);
	return finish(b, node(b, "Add", (uint32_t[]){y, whole}, 2));
}

static bool same_reports(const struct segment_report *a, const struct segment_report *b)
{
	bool same = a->nsteps == b->nsteps && a->slab_bytes == b->slab_bytes &&
		    a->value_bytes == b->value_bytes && a->workspace == b->workspace;

	for (uint32_t i = 0; same && i < a->nsteps; i++)
		same = !strcmp(a->steps[i].op, b->steps[i].op) &&
		       !strcmp(a->steps[i].kernel, b->steps[i].kernel) &&
		       a->steps[i].out_bytes == b->steps[i].out_bytes &&
		       a->steps[i].workspace == b->steps[i].workspace &&
		       a->steps[i].live == b->steps[i].live;
	return same;
}

/* A plan that begins as a copy of another, for other sizes, has the steps, memory and results of one that is made of nothing. */
static void a_plan_made_of_another_is_as_good(void)
{
	static const int64_t sizes[] = {3, 4, 5, 1, 2, 40, 41, 1, 7, 0, 8};
	struct bench b;
	float data[41 * 4];

	for (int i = 0; i < 41 * 4; i++)
		data[i] = (float)(i % 13) / 8 - 0.5F;
	CHECK(begin_growing(&b));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct segment_report mine = {0}, anew = {0};
		struct tensor x = {.type = type_tensor(DT_F32),
				   .shape = {2, {sizes[i], 4}},
				   .data = data,
				   .bytes = (size_t)sizes[i] * 16};
		const struct tensor *in = &x;
		struct bench c;
		CHECK(begin_growing(&c));
		CHECK(!instance_prepare(b.x, &in, &mine, &b.d));
		CHECK(!instance_prepare(c.x, &in, &anew, &c.d));
		CHECK(same_reports(&mine, &anew));
		const struct tensor *y = run(&b, sizes[i], data), *z = run(&c, sizes[i], data);
		CHECK(y && z && tensor_same(y, z));
		end(&c);
	}
	end(&b);
}

static void data_dependent_shapes_cut_the_plan(void)
{
	struct bench b;
	float data[8] = {0, 2, 0, 4, 0, 0, 7, 8};

	begin(&b);
	uint32_t t = node(&b, "NonZero", &b.in, 1); /* [2, 4]: indices */
	t = node(&b, "Transpose", &t, 1);
	t = node(&b, "Neg", &t, 1);
	CHECK(finish(&b, t));
	const struct tensor *y = run(&b, 2, data);
	CHECK(y && y->shape.rank == 2 && y->shape.dim[0] == 4);
	CHECK(y && ((const int64_t *)y->data)[7] == -3);
	data[0] = 1; /* another count: another plan for what follows */
	y = run(&b, 2, data);
	CHECK(y && y->shape.dim[0] == 5);
	end(&b);
}

static void a_limit_fails_while_planning(void)
{
	struct bench b;
	float data[8] = {0};

	config.memory_limit = 16;
	begin(&b);
	CHECK(finish(&b, node(&b, "Exp", &b.in, 1)));
	CHECK(run(&b, 2, data) == NULL);
	CHECK(b.d.last && b.d.last->code == E_MEMORY_LIMIT);
	b.d.errors = 0;
	config.memory_limit = 0;
	end(&b);
}

enum { CHAIN = 6000 };

/* Negates x CHAIN times, and adds up all results, the newest first, so that all of them live at the same time. */
static float sum_of_negations(bool memory_plan, size_t *slab)
{
	struct bench b;
	static uint32_t chain[CHAIN];
	float data[8] = {3, 1, 4, 1, 5, 9, 2, 6};

	config.memory_plan = memory_plan;
	begin(&b);
	for (uint32_t i = 0; i < CHAIN; i++)
		chain[i] = node(&b, i % 3 ? "Neg" : "Abs", i ? &chain[i - 1] : &b.in, 1);
	uint32_t sum = chain[CHAIN - 1];
	for (uint32_t i = CHAIN - 1; i-- > 0;)
		sum = node(&b, "Add", (uint32_t[]){sum, chain[i]}, 2);
	CHECK(finish(&b, sum));
	const struct tensor *y = run(&b, 2, data);
	float result = y ? ((const float *)y->data)[5] : NAN;
	*slab = (size_t)mem_count(MEM_HOST, MEM_ACTIVATIONS).live;
	config.memory_plan = true;
	end(&b);
	return result;
}

static void thousands_of_values_share_memory(void)
{
	size_t planned, apart;

	/* 9, -9, 9 again and again: two thirds are 9, one third is -9 */
	CHECK(sum_of_negations(true, &planned) == 9.0F * CHAIN / 3);
	CHECK(sum_of_negations(false, &apart) == 9.0F * CHAIN / 3);
	CHECK(planned < apart);
}

int main(void)
{
	UNIT(a_chain_runs_in_place);
	UNIT(the_rest_of_the_slab_is_watched);
	UNIT(a_second_run_allocates_nothing);
	UNIT(plans_are_cached_by_shape);
	UNIT(a_plan_made_of_another_is_as_good);
	UNIT(data_dependent_shapes_cut_the_plan);
	UNIT(a_limit_fails_while_planning);
	UNIT(thousands_of_values_share_memory);
	return unit_end();
}
