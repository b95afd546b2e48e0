/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the model in a child process, with --bisect and --all. If a signal kills the child, the driver runs nothing in
 * this process any more, and a binary search finds the node: child processes run the first half of the file's nodes,
 * then a quarter or three quarters, and so on.
 */
#include "base/child.h"
#include "base/file.h"
#include "check/check.h"
#include "check/submodel.h"
#include "onnx/tensor_pb.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A child that runs longer than this is killed and counts as a child that did not crash, because it may only be slow.
 */
enum { MAX_CHILD_SECONDS = 300 };

struct alive {
	struct check_context *c;
	struct extractor extractor;
	struct arena arena;
	const char *tmp;
	uint32_t tries;
	int signal;
};

/* ---- child process ---------------------------------------------------------------------------- */

/*
 * Runs `infer run MODEL --data-set DATA [-o OUT]` in a child process. Returns the signal that killed the child, or 0.
 */
static int run_in_child(struct alive *a, const char *model, const char *data, const char *out)
{
	static const char *const levels[] = {"none", "basic", "full"};
	const struct run_config *r = a->c->config;
	const char **argv = arena_new_n(&a->arena, const char *, (size_t)r->ops.n + 32);
	struct child child;
	int n = 0;

	argv[n++] = "infer";
	argv[n++] = "run";
	argv[n++] = model;
	argv[n++] = "--data-set";
	argv[n++] = data;
	argv[n++] = "--quiet";
	argv[n++] = "--device";
	argv[n++] = r->device ? r->device : "auto";
	argv[n++] = "--optimize";
	argv[n++] = levels[r->optimize];
	argv[n++] = "--precision";
	argv[n++] = precision_names[r->precision];
	argv[n++] = "--memory-plan";
	argv[n++] = r->memory_plan ? "on" : "off";
	if (r->external_root) {
		argv[n++] = "--external-root";
		argv[n++] = r->external_root;
	}
	for (int64_t i = 0; i < r->ops.n; i++)
		argv[n++] = arena_printf(&a->arena, "--ops=%s", r->ops.v[i].s);
	if (out) {
		argv[n++] = "-o";
		argv[n++] = out;
		argv[n++] = "--save-format";
		argv[n++] = "pb";
	}
	argv[n] = NULL;
	a->tries++;
	if (!child_exec(&child, argv, false, NULL, 0))
		return 0;
	child_wait(&child, MAX_CHILD_SECONDS);
	child_free(&child);
	return child.signal;
}

/* ---- finding the node -------------------------------------------------------------------------- */

static const char *folder_path(struct alive *a, const char *name)
{
	return path_join(&a->arena, a->tmp, name);
}

/* Writes the file's first n nodes as a model of their own; x->model is NULL if that failed. */
static void write_prefix(struct alive *a, uint32_t n, struct submodel *x)
{
	uint32_t *node = arena_new_n(&a->arena, uint32_t, (size_t)n + 1);

	for (uint32_t i = 0; i < n; i++)
		node[i] = i;
	if (submodel_write(&a->extractor, node, n, folder_path(a, "prefix"), x))
		*x = (struct submodel){0};
}

static bool prefix_crashes(struct alive *a, uint32_t n)
{
	struct submodel x;

	write_prefix(a, n, &x);
	bool dies = x.model && run_in_child(a, x.model, x.data, NULL) != 0;
	submodel_free(&x);
	return dies;
}

/* Returns the position of the first node that a prefix must contain to crash. The whole file is known to crash. */
static uint32_t find_crashing_node(struct alive *a)
{
	uint32_t fine = 0, dies = onnx_file_nodes(a->extractor.file);

	while (dies - fine > 1) {
		uint32_t middle = fine + (dies - fine) / 2;
		if (prefix_crashes(a, middle))
			dies = middle;
		else
			fine = middle;
		check_step(a->c, a->tries, 0);
	}
	return dies - 1;
}

/*
 * Adds the inputs of the crashing node to a->extractor: a child runs only the nodes before it and writes their
 * outputs to files. Returns false if that run failed.
 */
static bool capture_inputs(struct alive *a, uint32_t node)
{
	struct submodel x;
	const char *out = folder_path(a, "out");
	bool fine;

	if (!node)
		return true;
	write_prefix(a, node, &x);
	fine = x.model && !run_in_child(a, x.model, x.data, out);
	for (uint32_t k = 0; fine && k < x.nout; k++) {
		const char *name = arena_printf(&a->arena, "output_%" PRIu32 ".pb", k);
		struct value_copy v = {0};
		const struct tensor *t =
			tensor_pb_read(path_join(&a->arena, out, name),
				       (struct type){.kind = V_TENSOR}, &v.arena, NULL);
		if (!t)
			continue;
		v.t = *t;
		extractor_add_value(&a->extractor, x.out[k], &v);
	}
	submodel_free(&x);
	return fine;
}

static void report_submodel(struct alive *a, uint32_t node)
{
	struct check_context *c = a->c;
	const struct onnx_node *n = onnx_file_node(a->extractor.file, node);
	const char *dir = c->options->save ? c->options->save : folder_path(a, "part");
	struct diag_row rows[4];
	struct submodel x;
	size_t k = 0;

	if (!capture_inputs(a, node) || submodel_write(&a->extractor, &node, 1, dir, &x))
		return;
	bool shows = run_in_child(a, x.model, x.data, NULL) != 0;
	rows[k++] = (struct diag_row){"nodes", fmt(c->d, "'%s' (%s)", n->title, n->op)};
	rows[k++] = (struct diag_row){"shows", shows ? code_id(E_RUN, SEV_ERROR)
						     : "no crash when this node runs alone"};
	if (c->options->save) {
		rows[k++] = (struct diag_row){"written", fmt(c->d, "%s, %s", x.model, x.data)};
		rows[k++] = (struct diag_row){
			"try", fmt(c->d, "infer run %s --data-set %s", x.model, x.data)};
	}
	NOTE(c->d, E_BISECT, .node = fmt(c->d, "%s", n->title), .op = fmt(c->d, "%s", n->op),
	     .rows = rows, .nrows = k);
	submodel_free(&x);
}

static int report_crash(struct alive *a)
{
	struct check_context *c = a->c;
	int err = extractor_open(c, &a->extractor);

	if (err)
		return err;
	err = extractor_add_model_inputs(&a->extractor);
	uint32_t node = err ? 0 : find_crashing_node(a);
	const struct onnx_node *n =
		onnx_file_nodes(a->extractor.file) ? onnx_file_node(a->extractor.file, node) : NULL;
	FAIL(c->d, E_RUN, .node = n ? fmt(c->d, "%s", n->title) : NULL,
	     .op = n ? fmt(c->d, "%s", n->op) : NULL,
	     .message = fmt(c->d, "a run is killed by signal %d (%s) in this node", a->signal,
			    strsignal(a->signal)),
	     .hint = c->options->bisect && c->options->save
			     ? NULL
			     : "--bisect -o DIR writes the node with its inputs, to attach to a report");
	if (n && c->options->bisect)
		report_submodel(a, node);
	return err;
}

/* ----------------------------------------------------------------------------------------------- */

static int write_model_inputs(struct alive *a, const char *dir)
{
	const struct graph *g = session_model(a->c->session)->graph;
	int err = file_make_dir(dir, E_OUTPUT, a->c->d);

	for (uint32_t i = 0; i < g->nin && !err; i++)
		err = tensor_pb_write(path_join(&a->arena, dir,
						arena_printf(&a->arena, "input_%" PRIu32 ".pb", i)),
				      a->c->in[i], g->value[g->in[i]]->name, a->c->d);
	return err;
}

/* Removes KIND_0.pb, KIND_1.pb, ... and then the folder. */
static void remove_numbered_files(struct alive *a, const char *dir, const char *kind)
{
	for (uint32_t k = 0; k < 65536; k++)
		if (unlink(path_join(&a->arena, dir,
				     arena_printf(&a->arena, "%s_%" PRIu32 ".pb", kind, k))))
			break;
	(void)rmdir(dir);
}

static void remove_temporary_files(struct alive *a)
{
	static const char *const parts[] = {"prefix", "part"};

	for (int i = 0; i < 2; i++) {
		const char *dir = folder_path(a, parts[i]);
		(void)unlink(path_join(&a->arena, dir, "model.onnx"));
		remove_numbered_files(a, path_join(&a->arena, dir, "test_data_set_0"), "input");
		(void)rmdir(dir);
	}
	remove_numbered_files(a, folder_path(a, "out"), "output");
	remove_numbered_files(a, folder_path(a, "data"), "input");
	(void)rmdir(a->tmp);
}

static int run_alive(struct check_context *c)
{
	struct alive a = {.c = c};
	const char *tmp = getenv("TMPDIR");
	char *dir = arena_printf(&a.arena, "%s/infer-check-XXXXXX", tmp && *tmp ? tmp : "/tmp");

	a.tmp = mkdtemp(dir);
	if (!a.tmp)
		return FAIL(c->d, E_OUTPUT, .slot = fmt(c->d, "%s", dir),
			    .message = "cannot create a temporary folder for the inputs");
	int err = write_model_inputs(&a, folder_path(&a, "data"));
	a.signal = err ? 0 : run_in_child(&a, c->path, folder_path(&a, "data"), NULL);
	if (a.signal) {
		err = report_crash(&a);
		extractor_close(&a.extractor);
		/* the driver must not run the model in this process, which would crash as well */
		c->dies = true;
		c->in = NULL;
		c->opened = NEED_OUTPUTS;
		check_say(c, "a run is killed by signal %d", a.signal);
	} else if (!err) {
		check_say(c, "a run in a child process ends normally");
	}
	remove_temporary_files(&a);
	arena_free(&a.arena);
	return err;
}

static bool is_requested(const struct check_context *c, const char **why)
{
	(void)why;
	return c->options->bisect || c->options->all;
}

const struct check check_alive = {
	.name = "alive",
	.what = "a run does not crash its process",
	.need = NEED_INPUTS,
	.cost = COST_RUN,
	.applies = is_requested,
	.run = run_alive,
};
