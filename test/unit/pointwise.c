/* SPDX-License-Identifier: Apache-2.0 */
/* The program that pointwise groups become: every instruction and activation compiles, for each type. */
#include "gpu/driver/nvrtc.h"
#include "gpu/ops/pointwise.h"
#include "ops/fused.h"
#include "test/unit/unit.h"

#include <math.h>

static struct arena arena;

/* in0, in1, a constant, then instruction `op` (act: of PW_ACT); gives the last one. */
static void group(struct graph *g, enum dtype t, int64_t op, int64_t act)
{
	struct fused_pointwise *p = arena_new(&arena, struct fused_pointwise);
	static int64_t out = 3;
	int64_t code[16] = {PW_INPUT, 0, 0, 0, PW_INPUT, 1, 0, 0, PW_CONST, 0, 0, 0, op, 0, 1, 0};
	float consts[4] = {1.5f, 0.1f, INFINITY, 0};
	uint32_t in[2] = {graph_add_value(g, "a")->id, graph_add_value(g, "b")->id},
		 y = graph_add_value(g, "y")->id;

	if (op == PW_ACT) {
		code[14] = act;
		code[15] = 1; /* alpha 0.1, beta infinite */
	}
	p->code = (struct ints){arena_dup(&arena, code, sizeof(code)), 16};
	p->consts = (struct floats){arena_dup(&arena, consts, sizeof(consts)), 4};
	p->outs = (struct ints){&out, 1};
	g->value[in[0]]->info.type = g->value[in[1]]->info.type = type_tensor(t);
	graph_add_node(g, op_named("infer::Pointwise"), p, in, 2, &y, 1,
		       origin_new(&arena, "group", "infer::Pointwise", 1));
}

/* Every instruction and activation. What two bytes compute is float's: of them, what reads and writes them. */
static struct graph *all_groups(void)
{
	static const enum dtype types[] = {DT_F32, DT_F64};
	struct graph *g = graph_new(&arena, NULL, "g");

	for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
		for (int op = PW_ADD; op < PW_ACT; op++)
			group(g, types[t], op, 0);
		for (int act = 0; act < ACT_COUNT; act++)
			group(g, types[t], PW_ACT, act);
	}
	group(g, DT_F16, PW_ADD, 0);
	group(g, DT_BF16, PW_ADD, 0);
	return g;
}

/* One of each type, and functions that the compiler makes of several instructions. */
static struct graph *some_groups(void)
{
	static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16, DT_F64};
	struct graph *g = graph_new(&arena, NULL, "g");

	for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
		group(g, types[t], PW_ACT, ACT_MISH);
	return g;
}

static void same_groups_share_a_kernel(void)
{
	struct graph *g = graph_new(&arena, NULL, "g");
	const char *names[4] = {NULL};

	group(g, DT_F32, PW_ADD, 0);
	group(g, DT_F32, PW_MUL, 0);
	group(g, DT_F32, PW_ADD, 0);
	group(g, DT_F16, PW_ADD, 0);
	CHECK(gpu_pointwise_source(g, &arena, names) != NULL);
	CHECK_STR(names[0], "pw_0");
	CHECK_STR(names[1], "pw_1");
	CHECK_STR(names[2], "pw_0");
	CHECK_STR(names[3], "pw_2");
}

static void nothing_to_compile(void)
{
	const char *names[1] = {NULL};

	CHECK(!gpu_pointwise_source(graph_new(&arena, NULL, "g"), &arena, names));
}

static void compiles(const struct graph *g, const char *arch)
{
	const char **names = arena_new_n(&arena, const char *, g->nnodes), *why = NULL;
	size_t n = 0;
	const void *image =
		nvrtc_compile(gpu_pointwise_source(g, &arena, names), arch, &arena, &n, &why);

	if (!image && (strstr(why, "not there") || strstr(why, "without"))) {
		printf("# skipped: %s\n", why);
		return;
	}
	if (!image)
		printf("# %s\n", why);
	CHECK(image && n > 1000);
}

/* The text is the same for every device: all of it for the oldest, which has the fewest instructions. */
static void everything_compiles(void)
{
	compiles(all_groups(), "sm_80");
	compiles(some_groups(), "sm_90");
	compiles(some_groups(), "sm_120");
}

static void what_does_not_compile_is_told(void)
{
	const char *why = NULL;
	size_t n;

	CHECK(!nvrtc_compile("nonsense", "sm_90", &arena, &n, &why));
	CHECK(why && *why);
}

int main(void)
{
	UNIT(same_groups_share_a_kernel);
	UNIT(nothing_to_compile);
	UNIT(everything_compiles);
	UNIT(what_does_not_compile_is_told);
	arena_free(&arena);
	return unit_end();
}
