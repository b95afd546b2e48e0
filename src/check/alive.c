/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run in a process of its own, with --bisect and --all: where it dies of a signal nothing is run in
 * this one, and the node is found by running the file's first half, quarter, ... in processes of their own.
 */
#include "base/file.h"
#include "base/proc.h"
#include "check/check.h"
#include "check/part.h"
#include "onnx/tensor_pb.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE = 300 }; /* seconds; what takes longer is not judged */

struct alive {
	struct check_context *c;
	struct parts parts;
	struct arena arena;
	const char *tmp;
	uint32_t tries;
	int signal;
};

/* ---- a child ---------------------------------------------------------------------------------- */

static int wait_child(pid_t pid)
{
	int status = 0;

	for (int64_t i = 0; i < (int64_t)PATIENCE * 500; i++) {
		pid_t r = waitpid(pid, &status, WNOHANG);
		if (r == pid)
			return status;
		if (r < 0 && errno != EINTR)
			return 0;
		usleep(2000);
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, &status, 0);
	return 0;
}

/* infer run MODEL --data-set DATA [-o OUT]: the signal it died of, or 0. */
static int run_child(struct alive *a, const char *model, const char *data, const char *out)
{
	static const char *const levels[] = {"none", "basic", "full"};
	static const char *const precisions[] = {"fp32", "tf32", "fp16", "bf16", "auto"};
	const struct run_config *r = a->c->config;
	const char *argv[32];
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
	argv[n++] = precisions[r->precision];
	argv[n++] = "--memory-plan";
	argv[n++] = r->memory_plan ? "on" : "off";
	if (r->external_root) {
		argv[n++] = "--external-root";
		argv[n++] = r->external_root;
	}
	if (out) {
		argv[n++] = "-o";
		argv[n++] = out;
		argv[n++] = "--save-format";
		argv[n++] = "pb";
	}
	argv[n] = NULL;
	a->tries++;
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (!proc_end_with(parent) || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
		    dup2(null, 2) < 0)
			_exit(127);
		execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	int status = pid > 0 ? wait_child(pid) : 0;
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* ---- the node ---------------------------------------------------------------------------------- */

static const char *folder(struct alive *a, const char *name)
{
	return path_join(&a->arena, a->tmp, name);
}

static void write_prefix(struct alive *a, uint32_t n, struct part *x)
{
	uint32_t *node = arena_new_n(&a->arena, uint32_t, (size_t)n + 1);

	for (uint32_t i = 0; i < n; i++)
		node[i] = i;
	if (part_write(&a->parts, node, n, folder(a, "prefix"), x))
		*x = (struct part){0};
}

static bool prefix_dies(struct alive *a, uint32_t n)
{
	struct part x;

	write_prefix(a, n, &x);
	bool dies = x.model && run_child(a, x.model, x.data, NULL) != 0;
	part_free(&x);
	return dies;
}

/* The first node of the file with which a run dies; all of it is known to. */
static uint32_t find_node(struct alive *a)
{
	uint32_t fine = 0, dies = onnx_file_nodes(a->parts.file);

	while (dies - fine > 1) {
		uint32_t middle = fine + (dies - fine) / 2;
		if (prefix_dies(a, middle))
			dies = middle;
		else
			fine = middle;
		check_step(a->c, a->tries, 0);
	}
	return dies - 1;
}

/* What the nodes before it give it, from a run of them alone. */
static bool fetch_inputs(struct alive *a, uint32_t node)
{
	struct part x;
	const char *out = folder(a, "out");
	bool fine;

	if (!node)
		return true;
	write_prefix(a, node, &x);
	fine = x.model && !run_child(a, x.model, x.data, out);
	for (uint32_t k = 0; fine && k < x.nout; k++) {
		const char *name = arena_printf(&a->arena, "output_%" PRIu32 ".pb", k);
		struct value_copy v = {0};
		const struct tensor *t =
			tensor_pb_read(path_join(&a->arena, out, name),
				       (struct type){.kind = V_TENSOR}, &v.arena, NULL);
		if (!t)
			continue;
		v.t = *t;
		parts_put(&a->parts, x.out[k], &v);
	}
	part_free(&x);
	return fine;
}

static void tell_part(struct alive *a, uint32_t node)
{
	struct check_context *c = a->c;
	const struct onnx_node *n = onnx_file_node(a->parts.file, node);
	const char *dir = c->options->save ? c->options->save : folder(a, "part");
	struct diag_row rows[4];
	struct part x;
	size_t k = 0;

	if (!fetch_inputs(a, node) || part_write(&a->parts, &node, 1, dir, &x))
		return;
	bool shows = run_child(a, x.model, x.data, NULL) != 0;
	rows[k++] = (struct diag_row){"nodes", fmt(c->d, "'%s' (%s)", n->title, n->op)};
	rows[k++] = (struct diag_row){"shows", shows ? code_id(E_RUN, SEV_ERROR)
						     : "nothing by itself: it dies in company only"};
	if (c->options->save) {
		rows[k++] = (struct diag_row){"written", fmt(c->d, "%s, %s", x.model, x.data)};
		rows[k++] = (struct diag_row){
			"try", fmt(c->d, "infer run %s --data-set %s", x.model, x.data)};
	}
	NOTE(c->d, E_BISECT, .node = fmt(c->d, "%s", n->title), .op = fmt(c->d, "%s", n->op),
	     .rows = rows, .nrows = k);
	part_free(&x);
}

static int find_and_tell(struct alive *a)
{
	struct check_context *c = a->c;
	int err = parts_open(c, &a->parts);

	if (err)
		return err;
	err = parts_inputs(&a->parts);
	uint32_t node = err ? 0 : find_node(a);
	const struct onnx_node *n =
		onnx_file_nodes(a->parts.file) ? onnx_file_node(a->parts.file, node) : NULL;
	FAIL(c->d, E_RUN, .node = n ? fmt(c->d, "%s", n->title) : NULL,
	     .op = n ? fmt(c->d, "%s", n->op) : NULL,
	     .message = fmt(c->d, "a run dies of signal %d (%s) in this node", a->signal,
			    strsignal(a->signal)),
	     .hint = c->options->bisect && c->options->save
			     ? NULL
			     : "--bisect -o DIR writes the node with its inputs, to be reported");
	if (n && c->options->bisect)
		tell_part(a, node);
	return err;
}

/* ----------------------------------------------------------------------------------------------- */

static int write_inputs(struct alive *a, const char *dir)
{
	const struct graph *g = session_model(a->c->session)->graph;
	int err = file_make_dir(dir, E_OUTPUT, a->c->d);

	for (uint32_t i = 0; i < g->nin && !err; i++)
		err = tensor_pb_write(path_join(&a->arena, dir,
						arena_printf(&a->arena, "input_%" PRIu32 ".pb", i)),
				      a->c->in[i], g->value[g->in[i]]->name, a->c->d);
	return err;
}

static void remove_files(struct alive *a, const char *dir, const char *kind)
{
	for (uint32_t k = 0; k < 65536; k++)
		if (unlink(path_join(&a->arena, dir,
				     arena_printf(&a->arena, "%s_%" PRIu32 ".pb", kind, k))))
			break;
	(void)rmdir(dir);
}

static void clean(struct alive *a)
{
	static const char *const parts[] = {"prefix", "part"};

	for (int i = 0; i < 2; i++) {
		const char *dir = folder(a, parts[i]);
		(void)unlink(path_join(&a->arena, dir, "model.onnx"));
		remove_files(a, path_join(&a->arena, dir, "test_data_set_0"), "input");
		(void)rmdir(dir);
	}
	remove_files(a, folder(a, "out"), "output");
	remove_files(a, folder(a, "data"), "input");
	(void)rmdir(a->tmp);
}

static int run(struct check_context *c)
{
	struct alive a = {.c = c};
	const char *tmp = getenv("TMPDIR");
	char *dir = arena_printf(&a.arena, "%s/infer-check-XXXXXX", tmp && *tmp ? tmp : "/tmp");

	a.tmp = mkdtemp(dir);
	if (!a.tmp)
		return FAIL(c->d, E_OUTPUT, .slot = fmt(c->d, "%s", dir),
			    .message = "cannot make a folder for the inputs");
	int err = write_inputs(&a, folder(&a, "data"));
	a.signal = err ? 0 : run_child(&a, c->path, folder(&a, "data"), NULL);
	if (a.signal) {
		err = find_and_tell(&a);
		parts_close(&a.parts);
		/* what comes would die of it, too */
		c->dies = true;
		c->in = NULL;
		c->opened = NEED_OUTPUTS;
		check_say(c, "a run dies of signal %d", a.signal);
	} else if (!err) {
		check_say(c, "a run in a process of its own ends");
	}
	clean(&a);
	arena_free(&a.arena);
	return err;
}

static bool applies(const struct check_context *c, const char **why)
{
	(void)why;
	return c->options->bisect || c->options->all;
}

const struct check check_alive = {
	.name = "alive",
	.what = "a run does not kill its process",
	.need = NEED_INPUTS,
	.cost = COST_RUN,
	.applies = applies,
	.run = run,
};
