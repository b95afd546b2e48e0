/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/evaluate.h"

#include "backend/weight_store.h"
#include "base/cancel.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <string.h>

/*
 * The evaluation of one node: a graph of one node with its value infos and tensors, all in the
 * arena `work`.
 */
struct eval {
	const struct backend *cpu;
	struct arena work;
	struct arena *result;
	struct graph *graph;
	struct node node;
	struct vinfo *info;
	struct tensor **out;
	struct step step;
	struct site site;
};

static int eval_alloc(const struct call *c, uint32_t i, enum dtype t, const struct shape *s)
{
	struct eval *e = c->owner;
	struct tensor *x = tensor_new(e->result, t, s);

	if (!x)
		return call_fail(c, E_SIZE, "a size that can be counted", "an overflow");
	*c->out[i] = *x;
	return 0;
}

static struct arena *eval_values(const struct call *c, uint32_t i)
{
	(void)i;
	return ((struct eval *)c->owner)->result;
}

/*
 * Copies the node into a new graph. The values of that graph are the node's inputs, followed by its
 * outputs.
 */
static void make_graph(struct eval *e, const struct graph *g, const struct node *n,
		       const struct tensor *const *in)
{
	uint32_t *ids = arena_new_n(&e->work, uint32_t, n->nin + n->nout + 1);

	e->graph = graph_new(&e->work, g ? g->model : NULL, "eval");
	e->node = *n;
	e->node.in = ids;
	e->node.out = ids + n->nin;
	for (uint32_t i = 0; i < n->nin; i++)
		ids[i] = in[i] ? graph_add_const(e->graph, "", in[i])->id : NO_VALUE;
	for (uint32_t i = 0; i < n->nout; i++)
		ids[n->nin + i] =
			n->out[i] == NO_VALUE ? NO_VALUE : graph_add_value(e->graph, "")->id;
	e->info = arena_new_n(&e->work, struct vinfo, e->graph->nvalues + 1);
	for (uint32_t i = 0; i < e->graph->nvalues; i++)
		e->info[i] = e->graph->value[i]->info;
}

static int infer_now(struct eval *e, struct diag *d)
{
	struct infer c = {.graph = e->graph,
			  .node = &e->node,
			  .info = e->info,
			  .arena = &e->work,
			  .diag = d,
			  .concrete = true};
	int err = infer_types(&c);

	if (!err)
		err = op_resolved(e->node.op).infer ? op_resolved(e->node.op).infer(&c)
						    : -(int)E_OP_UNSUPPORTED;
	return err ? err : infer_check_outputs(&c);
}

static int make_outputs(struct eval *e, const struct kernel *k, struct diag *d)
{
	e->step = (struct step){.kernel = k,
				.node = &e->node,
				.params = e->node.params,
				.from = e->node.origin,
				.nin = e->node.nin,
				.nout = e->node.nout};
	e->out = arena_new_n(&e->work, struct tensor *, e->node.nout + 1);
	for (uint32_t i = 0; i < e->node.nout; i++) {
		const struct vinfo *v = site_out(&e->site, i);
		if (!v)
			continue;
		bool dense = v->type.kind == V_TENSOR && v->type.dtype && shape_known(&v->shape);
		e->out[i] = dense ? tensor_new(e->result, (enum dtype)v->type.dtype, &v->shape)
				  : arena_new(e->result, struct tensor);
		if (!dense && v->type.kind == V_TENSOR && v->type.dtype != DT_STRING &&
		    !op_allocates(e->node.op))
			return op_fail_unknown_size(d, &e->node, NULL, &v->shape);
		if (!e->out[i])
			return FAIL(d, E_SIZE, .node = e->node.origin->name, .op = e->node.origin->op);
		e->step.dynamic |= !dense;
		e->out[i]->type = v->type;
	}
	return 0;
}

static int run_kernel(struct eval *e, const struct tensor *const *in, struct diag *d)
{
	const struct kernel *k = e->step.kernel;
	struct store *store = store_new(NULL, NULL);
	int err = 0;

	e->site.store = store;
	if (k->create)
		err = k->create(&e->site, d);
	e->step.node_state = e->site.state;
	if (!err && k->reshape)
		err = k->reshape(&e->site, &e->step, d);
	void *scratch = NULL;
	if (!err && e->step.workspace) {
		scratch = mem_alloc(e->step.workspace, MEM_WORKSPACE);
		if (!scratch)
			err = FAIL(d, E_MEMORY);
	}
	struct call call = {.step = &e->step,
			    .in = in,
			    .out = e->out,
			    .workspace = scratch,
			    .diag = d,
			    .owner = e,
			    .alloc = eval_alloc,
			    .values = eval_values};
	if (!err && e->step.nop && e->out[0]) {
		struct shape planned = e->out[0]->shape;
		*e->out[0] = *tensor_copy(e->result, in[0]);
		if (in[0]->type.kind == V_TENSOR)
			e->out[0]->shape = planned;
	} else if (!err) {
		err = k->run(&call);
	}
	mem_free(scratch);
	if (k->drop)
		k->drop(&e->step);
	if (k->drop_node && e->site.state)
		k->drop_node(e->site.state);
	store_free(store);
	return err;
}

/*
 * A node may take EVAL_NS, and as much again for each EVAL_BYTES that it reads and writes. Each node that is cut off
 * halves that for the ones after it, down to 1/1024, so that a model of many such nodes is not held up by all of them:
 * what is not evaluated is computed when the model runs.
 */
static const uint64_t EVAL_NS = 1000000000, EVAL_BYTES = 64 << 20;
enum { MAX_HALVINGS = 10 };
static _Atomic unsigned cut_off;

static uint64_t eval_limit(const struct eval *e, const struct tensor *const *in)
{
	unsigned halvings = atomic_load(&cut_off);
	size_t bytes = 0;

	for (uint32_t i = 0; i < e->node.nin; i++)
		bytes += in[i] ? in[i]->bytes : 0;
	for (uint32_t i = 0; i < e->node.nout; i++)
		bytes += e->out[i] ? e->out[i]->bytes : 0;
	return (EVAL_NS + bytes / EVAL_BYTES * EVAL_NS) >>
	       (halvings < MAX_HALVINGS ? halvings : MAX_HALVINGS);
}

static int run_within_limit(struct eval *e, const struct tensor *const *in, struct diag *d)
{
	uint64_t before = cancel_at(clock_ns() + eval_limit(e, in));
	int err = run_kernel(e, in, d);
	bool late = cancel_requested();

	cancel_at(before);
	if (!late)
		return err;
	atomic_fetch_add(&cut_off, 1);
	return -(int)E_TIMEOUT;
}

int eval_node(const struct backend *cpu, const struct graph *g, const struct node *n,
	      const struct tensor *const *in, struct tensor **out, struct arena *a, struct diag *d)
{
	static const struct run_config config = {.device = "cpu", .memory_plan = true};
	struct eval e = {.cpu = cpu, .result = a};
	int err = -(int)E_OP_UNSUPPORTED;

	make_graph(&e, g, n, in);
	err = infer_now(&e, d);
	e.site = (struct site){.graph = e.graph,
			       .node = &e.node,
			       .info = e.info,
			       .config = &config,
			       .node_arena = &e.work,
			       .plan_arena = &e.work};
	/*
	 * prefer the reference kernel, which packs no weights: packing does not pay off in a single
	 * run
	 */
	const struct kernel *k = NULL;
	for (unsigned i = 0; !err; i++) {
		const struct kernel *next = backend_kernel(cpu, n->op, i);
		if (!next)
			break;
		if (!(next->flags & K_REFERENCE) || backend_choose(cpu, &e.site, i, NULL) != next)
			continue;
		k = next;
		break;
	}
	if (!err && !k)
		k = backend_choose(cpu, &e.site, 0, NULL);
	if (!err && !k)
		err = -(int)E_OP_UNSUPPORTED;
	if (!err)
		err = make_outputs(&e, k, d);
	if (!err)
		err = run_within_limit(&e, in, d);
	for (uint32_t i = 0; i < n->nout; i++)
		out[i] = !err ? e.out[i] : NULL;
	arena_free(&e.work);
	return err;
}

bool eval_shape(const struct graph *g, const struct node *n, const struct tensor *const *in,
		enum dtype *t, struct shape *s)
{
	struct eval e = {0};
	struct diag quiet = {0};
	const struct vinfo *y = NULL;

	make_graph(&e, g, n, in);
	if (!infer_now(&e, &quiet) && n->nout && n->out[0] != NO_VALUE)
		y = &e.info[e.node.out[0]];
	bool known = y && y->type.kind == V_TENSOR && shape_known(&y->shape);
	if (known) {
		*t = (enum dtype)y->type.dtype;
		*s = y->shape;
	}
	arena_free(&e.work);
	diag_free(&quiet);
	return known;
}
