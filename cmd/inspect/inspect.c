/* SPDX-License-Identifier: Apache-2.0 */
/* infer inspect: shows what a model contains, without running it. */
#include "cmd/inspect/inspect.h"

#include "base/file.h"
#include "base/tame.h"
#include "cmd/options/subcommand.h"
#include "output/graph_text.h"
#include "input/input.h"
#include "session/free_sizes.h"
#include "onnx/load.h"
#include "session/genai.h"

/* Sets free dimensions to 1, with a note for each. */
static void bind_free_dims_to_one(const char *input, struct shape *s, struct diag *d)
{
	for (int i = 0; i < s->rank; i++) {
		if (s->dim[i] >= 0)
			continue;
		NOTE(d, E_DIM_DEFAULT, .slot = fmt(d, "input '%s' dimension %d", input, i));
		s->dim[i] = 1;
	}
}

/* Applies --dim and --shape to the inputs, before shapes are inferred. */
static int bind_dims(struct inspection *x, struct diag *d)
{
	struct graph *g = x->model->graph;
	struct shape *shapes = arena_new_n(&x->arena, struct shape, g->nin + 1);
	int err = input_shapes(x->model, &x->request, shapes, d);

	for (uint32_t i = 0; i < g->nin && !err; i++)
		if (g->value[g->in[i]]->info.type.kind == V_TENSOR) {
			g->value[g->in[i]]->info.shape = shapes[i];
			if (x->o->cost)
				bind_free_dims_to_one(g->value[g->in[i]]->name,
						      &g->value[g->in[i]]->info.shape, d);
		}
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

/* Makes inputs for a plan, of random values. Sizes that nobody gave are 1, or else such that the model accepts them. */
static struct input_set *plan_inputs(struct inspection *x, struct session *s, struct diag *d)
{
	const struct input_request *found;
	struct diag why = {0};
	struct input_set *set = prepare_inputs_for(s, &x->request, &why);

	if (set)
		diag_add_grouped(d, &why);
	else
		set = recover_sizes(s, &x->request, NULL, NULL, NULL, &why, &x->arena, &found, d);
	diag_free(&why);
	return set;
}

static int plan_memory(struct inspection *x, struct session *s, struct diag *d)
{
	struct segment_report r = {0};
	uint64_t before = mem_count(MEM_HOST, MEM_PACKED).live;
	struct input_set *set = plan_inputs(x, s, d);
	int err = set ? 0 : d->last ? -(int)d->last->code : -E_INTERNAL;

	if (!err)
		err = session_prepare(s, input_tensors(set), &r, d);
	x->packed_bytes = (size_t)(mem_count(MEM_HOST, MEM_PACKED).live - before);
	if (!err) {
		size_t weights = x->weights[0].bytes;
		const struct model *m = session_model(s);
		size_t elsewhere = m->copied_bytes + m->dropped_bytes;
		x->in_place_bytes = elsewhere < weights ? weights - elsewhere : 0;
		x->copied_bytes = m->copied_bytes;
		x->peak_bytes = x->copied_bytes + x->in_place_bytes + x->packed_bytes + r.slab_bytes;
		x->plan = r;
		x->plan.steps = arena_dup(&x->arena, r.steps, r.nsteps * sizeof(*r.steps));
		x->planned = true;
	}
	input_free(set);
	return err;
}

/*
 * For --cost, after shapes could not be inferred with 1 for each free dimension, for the reason `why`: looks for sizes
 * that the model accepts, as for a run of random values, and makes them those of the request. Adds a warning that names
 * them, or the findings. Returns whether there are such sizes.
 */
static bool find_sizes(struct inspection *x, const struct diag *why, struct diag *d)
{
	const struct input_request *found;
	struct diag unopened = {0};
	struct session *s = session_open(x->path, &x->o->config, &unopened);
	struct input_set *set =
		s ? recover_sizes(s, &x->request, NULL, NULL, NULL, why, &x->arena, &found, d) : NULL;

	if (set)
		x->request = *found;
	if (!s)
		diag_add_grouped(d, why);
	x->sizes_found = set != NULL;
	input_free(set);
	session_close(s);
	diag_free(&unopened);
	return x->sizes_found;
}

/*
 * Returns true for --passes and --explain, which require that the optimizer runs as it does before
 * a run of the model.
 */
static bool shows_passes(const struct inspection *x)
{
	return x->o->passes || x->o->explain;
}

static int open_model(struct inspection *x, struct diag *d)
{
	struct load_options load = {.external_root = x->o->config.external_root, .without_data = true};
	struct diag faults = {0};

	x->model = onnx_load(x->path, &load, &faults);
	diag_add_grouped(d, &faults);
	diag_free(&faults);
	return x->model ? 0 : -(int)(d->last ? d->last->code : E_MODEL_FORMAT);
}

static int gather_model(struct inspection *x, struct session **plan, struct diag *d)
{
	struct run_config config = x->o->config;
	int stage = x->o->stage;
	struct diag told = {0};
	int err = bind_dims(x, &told);

	report_weights(x->model->graph, x->weights);
	x->ops = report_ops(x->model->graph, &x->arena, &x->nops);
	if (stage == STAGE_GRAPH || (stage == STAGE_NONE && !shows_passes(x)))
		config.optimize = OPTIMIZE_NONE;
	x->report.explain = x->o->explain;
	/*
	 * A shape that cannot be inferred is reported in d, but the rest of the model is shown nevertheless. If data are
	 * missing, what depends on them is no fault of its own.
	 */
	struct diag quiet = {0};
	int rc = err || stage == STAGE_FILE
			 ? 0
			 : opt_run_report(x->model, host_backend(), &config, &x->report,
					  x->weights[0].missing ? &quiet : &told);
	bool again = rc && x->o->cost && !x->sizes_found && sizes_are_free(&x->request) &&
		     sizes_may_help(&told);
	if (again)
		again = find_sizes(x, &told, d);
	else
		diag_add_grouped(d, &told);
	diag_free(&told);
	if (again) {
		diag_free(&quiet);
		onnx_unload(x->model);
		x->report = (struct opt_report){0};
		/* what there is to say of the file has been said */
		struct diag said = {0};
		err = open_model(x, &said);
		if (err)
			diag_add_grouped(d, &said);
		diag_free(&said);
		return err ? err : gather_model(x, plan, d);
	}
	if (rc == -(int)E_OP_UNSUPPORTED) {
		config.types_only = true;
		(void)opt_run(x->model, host_backend(), &config, &quiet);
	}
	diag_free(&quiet);
	if (!err && (x->o->nodes || x->o->cost || x->o->json || x->o->html))
		gather_nodes(x);
	if (!err && x->o->html && !x->o->memory && stage != STAGE_PLAN) {
		/* a page shows memory where it can be planned, and says nothing about it elsewhere */
		struct diag why = {0};
		*plan = session_open(x->path, &x->o->config, &why);
		if (*plan)
			(void)plan_memory(x, *plan, &why);
		diag_free(&why);
	}
	if (!err && (x->o->memory || stage == STAGE_PLAN)) {
		*plan = session_open(x->path, &x->o->config, d);
		err = *plan ? plan_memory(x, *plan, d) : -(int)E_MODEL_FORMAT;
	}
	return err;
}

static void print_stage(const struct inspection *x, FILE *f)
{
	struct arena a = {0};

	if (x->o->stage == STAGE_PLAN) {
		for (uint32_t i = 0; i < x->plan.nsteps; i++) {
			const struct step_report *s = &x->plan.steps[i];
			fprintf(f, "%4u  %-28s %-10s %12zu bytes  %s\n", i, s->op, s->kernel,
				s->out_bytes, s->from ? tame_word(&a, s->from->name) : "");
		}
		arena_free(&a);
		return;
	}
	dump_graph(f, x->model->graph, NULL);
}

static void print_listing(const struct inspection *x)
{
	FILE *f = listing_begin(stdout);

	if (x->o->stage != STAGE_NONE)
		print_stage(x, f);
	else if (shows_passes(x))
		inspect_print_passes(x, f);
	else
		inspect_print_text(x, f);
	listing_end(f);
}

static int inspect_model(struct inspection *x, struct diag *d)
{
	static const struct text range = {"0..1", 4};
	struct session *plan = NULL;
	int err = open_model(x, d);

	if (err)
		return err;
	x->request = options_request(x->o);
	x->request.random = (struct texts){&range, 1};
	err = gather_model(x, &plan, d);
	if (!err && x->o->html)
		err = inspect_page(x, x->o->html, d);
	if (!err && x->o->json)
		inspect_print_json(x, d);
	else if (!err && x->o->dot)
		dump_dot(stdout, x->model->graph);
	else if (!err)
		print_listing(x);
	session_close(plan);
	onnx_unload(x->model);
	return err;
}

/* Refuses options that apply only to models. From a configuration file they are accepted, because the file may be meant for other uses too. */
static int refuse_model_options(const struct options *o, const char *what, struct diag *d)
{
	static const char *const names[] = {"nodes", "weights", "cost",	   "memory", "stage", "dot",
					    "html",  "passes",	"explain", "shape",  "dim"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (*options_origin(o, names[i]) == '-')
			return FAIL(d, E_USAGE, .slot = fmt(d, "--%s", names[i]),
				    .message = fmt(d, "this option applies to models; '%s' is %s",
						   o->operand[0], what),
				    .hint = fmt(d, "without it infer inspect shows %s", what));
	return 0;
}

/* Warns about what a graph or a list of passes, which are printed alone, leaves out. --json and --html show everything. */
static void warn_left_out(const struct options *o, struct diag *d)
{
	static const char *const parts[] = {"nodes", "weights"};
	const char *alone = o->dot		     ? "--dot"
			    : o->stage != STAGE_NONE ? "--stage"
			    : o->passes		     ? "--passes"
			    : o->explain	     ? "--explain"
						     : NULL;

	for (size_t i = 0; alone && !o->json && !o->html && i < sizeof(parts) / sizeof(*parts); i++)
		if (*options_origin(o, parts[i]) == '-')
			WARN(d, E_OPTION, .slot = options_origin(o, parts[i]),
			     .message = fmt(d, "the table of %s is left out, as %s is printed alone",
					    parts[i], alone),
			     .hint = "use two commands");
}

int cmd_inspect(struct options *o, struct diag *d)
{
	struct inspection x = {.o = o};
	int err = 0;

	bool list = false;
	for (int64_t i = 0; i < o->config.ops.n; i++)
		list |= !o->noperands || !o->config.ops.v[i].n;
	if (list && o->noperands)
		return FAIL(d, E_USAGE, .slot = "--ops",
			    .message = "this option lists what the build runs, and takes no model",
			    .hint = "infer inspect MODEL lists the operators of a model");
	if (list) {
		inspect_print_support(o, d);
		return 0;
	}
	if (!o->noperands)
		return FAIL(d, E_USAGE, .expected = "a model", .actual = "none",
			    .hint = "infer inspect MODEL, or infer inspect --ops");
	x.path = o->operand[0];
	const char *genai = genai_path(x.path, &x.arena);
	if (genai) {
		err = refuse_model_options(o, "a folder of several models", d);
		err = err ? err : inspect_genai(o, genai, d);
		arena_free(&x.arena);
		return err;
	}
	if (path_is_folder(x.path)) {
		err = refuse_model_options(o, "a folder of tensors", d);
		err = err ? err : inspect_folder(o, x.path, d);
		arena_free(&x.arena);
		return err;
	}
	bool tensor = inspect_is_tensor(x.path) || inspect_is_json_tensor(x.path);
	if (tensor || inspect_is_report(x.path)) {
		err = refuse_model_options(o, tensor ? "a tensor" : "a report", d);
		return err	? err
		       : tensor ? inspect_tensor(o, x.path, d)
				: inspect_report(o, x.path, d);
	}
	warn_left_out(o, d);
	err = inspect_model(&x, d);
	arena_free(&x.arena);
	return err;
}
