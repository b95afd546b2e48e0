/* SPDX-License-Identifier: Apache-2.0 */
/* infer inspect: what a model is, without running it. */
#include "inspect.h"

#include "cmd.h"
#include "cpu/cpu.h"
#include "dump.h"
#include "input.h"
#include "onnx/load.h"

/* Sizes that the user gave for free dimensions go into the inputs before anything is inferred. */
static int bind_dims(struct inspection *x, struct diag *d)
{
	struct graph *g = x->model->graph;
	const struct input_request request = {.dim = x->o->dim, .shape = x->o->shape};
	struct shape *shapes = arena_new_n(&x->arena, struct shape, g->nin + 1);
	int err = input_shapes(x->model, &request, shapes, d);

	for (uint32_t i = 0; i < g->nin && !err; i++)
		if (g->value[g->in[i]]->info.type.kind == V_TENSOR)
			g->value[g->in[i]]->info.shape = shapes[i];
	return err;
}

static void gather_nodes(struct inspection *x)
{
	const struct graph *g = x->model->graph;
	struct vinfo *info = arena_new_n(&x->arena, struct vinfo, g->nvalues + 1);

	for (uint32_t i = 0; i < g->nvalues; i++)
		info[i] = g->value[i]->info;
	x->nodes = arena_new_n(&x->arena, struct node_row, g->norder + 1);
	x->total.known = true;
	for (uint32_t i = 0; i < g->norder; i++) {
		const struct node *n = g->node[g->order[i]];
		if (n->dead)
			continue;
		struct cost c = report_cost(g, n, info, &x->arena);
		x->nodes[x->nnodes++] = (struct node_row){g, n, c};
		x->total.known &= c.known;
		x->total.macs += c.macs;
		x->total.flops += c.flops;
		x->total.bytes += c.bytes;
	}
}

/* A tensor of the input's type with free dimensions taken as 1 and no contents worth speaking of. */
static struct tensor *blank_input(struct inspection *x, const struct value *v, struct diag *d)
{
	struct tensor *t = arena_new(&x->arena, struct tensor);

	t->type = v->info.type;
	t->shape = v->info.shape;
	if (t->type.kind != V_TENSOR || t->shape.rank < 0)
		return t->type.kind == V_TENSOR ? NULL : t;
	for (int i = 0; i < t->shape.rank; i++) {
		if (t->shape.dim[i] >= 0)
			continue;
		NOTE(d, E_DIM_DEFAULT, .slot = fmt(d, "input '%s' dimension %d", v->name, i));
		t->shape.dim[i] = 1;
	}
	if (!tensor_bytes(tensor_dtype(t), &t->shape, LAYOUT_ROW, &t->bytes))
		return NULL;
	t->data = mem_zalloc(t->bytes + 1, MEM_STAGING);
	return t->data ? t : NULL;
}

static int plan_memory(struct inspection *x, struct session *s, struct diag *d)
{
	const struct graph *g = session_model(s)->graph;
	const struct tensor **in = arena_new_n(&x->arena, const struct tensor *, g->nin + 1);
	int err = 0;

	for (uint32_t i = 0; i < g->nin && !err; i++) {
		struct value v = *x->model->graph->value[x->model->graph->in[i]];
		in[i] = blank_input(x, &v, d);
		if (!in[i])
			err = FAIL(d, E_INPUT_SHAPE, .slot = fmt(d, "input '%s'", v.name),
				   .message = "its shape is not known",
				   .hint = "bind it with --dim NAME=N");
	}
	struct segment_report r = {0};
	uint64_t before = mem_count(MEM_HOST, MEM_WEIGHTS).live;
	if (!err)
		err = session_prepare(s, in, &r, d);
	x->packed_bytes = (size_t)(mem_count(MEM_HOST, MEM_WEIGHTS).live - before);
	if (!err) {
		x->plan = r;
		x->plan.steps = arena_dup(&x->arena, r.steps, r.nsteps * sizeof(*r.steps));
		x->planned = true;
	}
	for (uint32_t i = 0; i < g->nin; i++)
		if (in[i] && in[i]->data)
			mem_free((void *)(uintptr_t)in[i]->data);
	return err;
}

/* The optimizer is what is looked at: it runs as it would before a run. */
static bool tells_passes(const struct inspection *x)
{
	return x->o->passes || x->o->explain;
}

static int gather(struct inspection *x, struct session **plan, struct diag *d)
{
	struct run_config config = x->o->config;
	int stage = x->o->stage;
	int err = bind_dims(x, d);

	report_weights(x->model->graph, x->weights);
	x->ops = report_ops(x->model->graph, &cpu_backend, &x->arena, &x->nops);
	if (stage == STAGE_GRAPH || (stage == STAGE_NONE && !tells_passes(x)))
		config.optimize = OPTIMIZE_NONE;
	x->report.explain = x->o->explain;
	/* what cannot be inferred is told, and the rest is shown all the same */
	if (!err && stage != STAGE_FILE)
		(void)opt_run_report(x->model, &cpu_backend, &config, &x->report, d);
	if (!err && (x->o->nodes || x->o->cost || x->o->json || x->o->html))
		gather_nodes(x);
	if (!err && (x->o->memory || stage == STAGE_PLAN)) {
		*plan = session_open(x->path, &x->o->config, d);
		err = *plan ? plan_memory(x, *plan, d) : -(int)E_MODEL_FORMAT;
	}
	return err;
}

static void print_stage(const struct inspection *x)
{
	if (x->o->stage == STAGE_PLAN) {
		for (uint32_t i = 0; i < x->plan.nsteps; i++) {
			const struct step_report *s = &x->plan.steps[i];
			printf("%4u  %-28s %-10s %12zu bytes  %s\n", i, s->op, s->kernel,
			       s->out_bytes, s->from ? s->from->name : "");
		}
		return;
	}
	dump_graph(stdout, x->model->graph, NULL);
}

static int inspect_model(struct inspection *x, struct diag *d)
{
	struct load_options load = {.external_root = x->o->config.external_root};
	struct session *plan = NULL;

	x->model = onnx_load(x->path, &load, d);
	if (!x->model)
		return -(int)(d->last ? d->last->code : E_MODEL_FORMAT);
	int err = gather(x, &plan, d);
	if (!err && x->o->html)
		err = inspect_page(x, x->o->html, d);
	if (!err && x->o->json)
		inspect_print_json(x, d);
	else if (!err && x->o->dot)
		dump_dot(stdout, x->model->graph);
	else if (!err && x->o->stage != STAGE_NONE)
		print_stage(x);
	else if (!err && tells_passes(x))
		inspect_print_passes(x);
	else if (!err)
		inspect_print_text(x);
	session_close(plan);
	onnx_unload(x->model);
	return err;
}

int cmd_inspect(struct options *o, struct diag *d)
{
	struct inspection x = {.o = o};
	int err = 0;

	if (o->ops && !o->noperands) {
		inspect_print_support(o, d);
		return 0;
	}
	if (!o->noperands)
		return FAIL(d, E_USAGE, .expected = "a model", .actual = "none",
			    .hint = "infer inspect MODEL, or infer inspect --ops");
	x.path = o->operand[0];
	if (inspect_is_tensor(x.path))
		return inspect_tensor(o, x.path, d);
	err = inspect_model(&x, d);
	arena_free(&x.arena);
	return err;
}
