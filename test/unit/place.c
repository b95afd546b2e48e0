/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement, copies and separate memories, with a device that every machine has: a backend whose memory
 * is its own (poisoned, counted) and whose kernels are the CPU's for two families. What it does not take
 * runs on the host.
 */
#include "backend/weight_store.h"
#include "cpu/cpu.h"
#include "opt/pipeline.h"
#include "plan/upload.h"
#include "test/unit/unit.h"

#include <stdlib.h>

extern const struct kernel cpu_unary[], cpu_binary[];
static const struct kernel none[] = {{0}};
#define FAMILY(F) +1
enum {
	FAMILIES = 0
#include "ops/families.def"
};
#undef FAMILY
static const struct kernel *own[FAMILIES];

static int live_buffers, copies_in, copies_out;

static int fake_alloc(struct device *device, size_t bytes, enum mem_purpose purpose,
		      struct buffer *b, struct diag *d)
{
	(void)device, (void)purpose, (void)d;
	b->ptr = malloc(bytes + 1);
	b->bytes = bytes;
	memset(b->ptr, 0xcd, bytes);
	live_buffers++;
	return 0;
}

static void fake_free(struct device *device, struct buffer *b)
{
	(void)device;
	free(b->ptr);
	*b = (struct buffer){0};
	live_buffers--;
}

static int fake_copy(struct stream *stream, void *dst, int dst_device, const void *src,
		     int src_device, size_t bytes, struct diag *d)
{
	(void)stream, (void)d;
	copies_in += dst_device > src_device;
	copies_out += dst_device < src_device;
	memcpy(dst, src, bytes);
	return 0;
}

static int fake_wait(struct stream *stream, struct diag *d)
{
	(void)stream, (void)d;
	return 0;
}

static struct backend fake = {.name = "fake",
			      .alloc = fake_alloc,
			      .free = fake_free,
			      .copy = fake_copy,
			      .wait = fake_wait,
			      .families = own};
static struct run_config config = {.device = "fake", .memory_plan = true, .arena = true};

static uint32_t node(struct graph *g, const char *op, const uint32_t *in, uint32_t nin)
{
	uint32_t out = graph_add_value(g, op)->id;
	struct op r = op_resolved(op_named(op));
	void *params = arena_alloc(g->arena, r.params_size + 1);

	if (r.attrs)
		field_defaults(r.attrs, params, g->arena);
	struct node *n = graph_add_node(g, op_named(op), params, in, nin, &out, 1,
					origin_new(g->arena, op, op, r.since));
	n->type = r.name;
	n->version = r.since;
	return out;
}

static void one_graph_on_two_places(void)
{
	struct model m = {0};
	struct diag d = {0};
	struct graph *g = m.graph = graph_new(&m.arena, &m, "g");
	struct value *x = graph_add_value(g, "x");
	float weight[4] = {10, 20, 30, 40}, data[4] = {4, 3, 2, 1};
	static const int turned[4] = {0, 2, 1, 3};
	struct tensor w = {
		.type = type_tensor(DT_F32), .shape = {2, {2, 2}}, .data = weight, .bytes = 16};

	x->is_input = true;
	x->info.type = type_tensor(DT_F32);
	x->info.shape = (struct shape){2, {2, 2}};
	g->in = arena_dup(&m.arena, &x->id, sizeof(x->id));
	g->nin = 1;
	uint32_t two[2] = {node(g, "Neg", &x->id, 1), graph_add_const(g, "w", &w)->id};
	uint32_t sum = node(g, "Add", two, 2);	     /* on the device */
	uint32_t tr = node(g, "Transpose", &sum, 1); /* on the host: the device has no such kernel */
	uint32_t three[2] = {tr, two[1]};
	uint32_t out = node(g, "Mul", three, 2); /* on the device again */
	g->out = arena_dup(&m.arena, &out, sizeof(out));
	g->out_name = arena_new_n(&m.arena, const char *, 1);
	g->out_name[0] = "y";
	g->nout = 1;
	g->value[out]->is_output = true;
	config.optimize = OPTIMIZE_NONE;
	CHECK(!graph_sort(g, &d));
	CHECK(!opt_run(&m, &cpu_backend, &config, &d));
	struct runtime rt = {.backend = &fake,
			     .cpu = &cpu_backend,
			     .config = &config,
			     .store = store_new(NULL, NULL),
			     .arena = &m.arena};
	rt.host = cpu_backend.open(0, &config, &d);
	struct instance *i = instance_new(g, &rt);
	struct tensor t = {
		.type = type_tensor(DT_F32), .shape = {2, {2, 2}}, .data = data, .bytes = 16};
	const struct tensor *in = &t, *y = NULL;
	for (int run = 0; run < 3; run++) {
		copies_in = copies_out = 0;
		CHECK(!instance_run(i, &in, &y, &d));
		CHECK(y && y->device == 0);
		for (int k = 0; k < 4 && y; k++)
			CHECK(((const float *)y->data)[k] ==
			      (weight[turned[k]] - data[turned[k]]) * weight[k]);
		CHECK_INT(copies_in, run ? 2 : 3); /* x, the host's part; the weight once */
		CHECK_INT(copies_out, 2);
	}
	diag_print(&d, stdout, false);
	instance_free(i);
	uploads_free(&rt);
	store_free(rt.store);
	CHECK_INT(live_buffers, 0);
	diag_free(&d);
	arena_free(&m.arena);
}

int main(void)
{
	int k = 0;

	fake.reorder = cpu_backend.reorder;
#define FAMILY(F)                                                                                  \
	own[k++] = !strcmp(#F, "unary") ? cpu_unary : !strcmp(#F, "binary") ? cpu_binary : none;
#include "ops/families.def"
#undef FAMILY
	UNIT(one_graph_on_two_places);
	return unit_end();
}
