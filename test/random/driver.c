/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver [-o none|basic|full] [-t THREADS] [-s SECONDS]: runs the cases named on standard input.
 *
 * A line holds three words, MODEL IN_DIR OUT_DIR. IN_DIR has input_K.pb for the graph's inputs by
 * position, OUT_DIR gets output_K.pb. Each case is answered by one line of its own:
 *
 *   ok                    run twice with equal bytes
 *   fail EXIT ID TEXT     refused or failed, with the exit code that the program would end with
 *   crash SIGNAL          the process died
 *   hang                  no answer in time
 *   differs K             the second run gave other bytes in output K than the first
 *
 * Each case has a process of its own, so that a crash costs one case.
 */
#include "base/file.h"
#include "onnx/tensor_pb.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 4096 };

struct options {
	struct run_config config;
	unsigned seconds;
};

struct run {
	struct arena arena;
	struct diag diag;
	struct session *session;
	const struct graph *graph;
	const struct tensor **in, **out;
};

static void one_line(const char *s)
{
	for (; s && *s; s++)
		putchar(*s == '\n' || *s == '\r' || *s == '\t' ? ' ' : *s);
}

static void tell_failure(const struct diag *d)
{
	const struct finding *f = d->last;

	for (const struct finding *p = d->first; p; p = p->next)
		if (p->severity == SEV_ERROR)
			f = p;
	if (!f) {
		printf("fail 1 - failed without a message");
		return;
	}
	printf("fail %d %s ", diag_exit(d), code_id(f->code, f->severity));
	const char *part[] = {f->node, f->op, f->slot, f->message, f->expected, f->actual};
	static const char *const before[] = {"node ", "op ", "slot ", "", "expected ", "got "};
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		if (!part[i])
			continue;
		printf("%s", before[i]);
		one_line(part[i]);
		printf("; ");
	}
}

static int read_inputs(struct run *r, const char *dir)
{
	const struct graph *g = r->graph;

	for (uint32_t k = 0; k < g->nin; k++) {
		const char *name = arena_printf(&r->arena, "input_%u.pb", k);
		r->in[k] = tensor_pb_read(path_join(&r->arena, dir, name),
					  g->value[g->in[k]]->info.type, &r->arena, &r->diag);
		if (!r->in[k])
			return -1;
	}
	return 0;
}

static int write_outputs(struct run *r, const char *dir, const char *stem)
{
	for (uint32_t k = 0; k < r->graph->nout; k++) {
		const char *name = arena_printf(&r->arena, "%s_%u.pb", stem, k);
		if (tensor_pb_write(path_join(&r->arena, dir, name), r->out[k], NULL, &r->diag))
			return -1;
	}
	return 0;
}

/* The second run takes the cached plan: index of the first output that differs, or -1. */
static int second_run_differs(struct run *r, const char *dir)
{
	for (uint32_t k = 0; k < r->graph->nout; k++) {
		struct file_map a = {0}, b = {0};
		const char *first =
			path_join(&r->arena, dir, arena_printf(&r->arena, "output_%u.pb", k));
		const char *second =
			path_join(&r->arena, dir, arena_printf(&r->arena, "again_%u.pb", k));
		bool same = !file_map(first, &a, E_INPUT_OPEN, &r->diag) &&
			    !file_map(second, &b, E_INPUT_OPEN, &r->diag) && a.size == b.size &&
			    (!a.size || !memcmp(a.data, b.data, a.size));
		file_unmap(&a);
		file_unmap(&b);
		if (!same)
			return (int)k;
		unlink(second);
	}
	return -1;
}

static void run_case(const struct options *o, const char *model, const char *in, const char *out)
{
	struct run r = {0};

	r.session = session_open(model, &o->config, &r.diag);
	if (!r.session) {
		tell_failure(&r.diag);
		return;
	}
	r.graph = session_model(r.session)->graph;
	r.in = arena_new_n(&r.arena, const struct tensor *, r.graph->nin + 1);
	r.out = arena_new_n(&r.arena, const struct tensor *, r.graph->nout + 1);
	if (read_inputs(&r, in) || session_run(r.session, r.in, r.out, &r.diag) ||
	    write_outputs(&r, out, "output") || session_run(r.session, r.in, r.out, &r.diag) ||
	    write_outputs(&r, out, "again")) {
		tell_failure(&r.diag);
	} else {
		int k = second_run_differs(&r, out);
		if (k >= 0)
			printf("differs %d", k);
		else
			printf("ok");
	}
	session_close(r.session);
	diag_free(&r.diag);
	arena_free(&r.arena);
}

static void in_child(const struct options *o, const char *model, const char *in, const char *out)
{
	int status;

	fflush(NULL);
	pid_t pid = fork();
	if (pid < 0) {
		printf("fail 1 - cannot fork\n");
		return;
	}
	if (!pid) {
		alarm(o->seconds);
		run_case(o, model, in, out);
		fflush(NULL);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0)
		;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		printf("hang");
	else if (WIFSIGNALED(status))
		printf("crash %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		printf("crash exit-%d", WEXITSTATUS(status)); /* a sanitizer spoke */
	printf("\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct options o = {.config = {.device = "cpu",
				       .optimize = OPTIMIZE_FULL,
				       .threads = 1,
				       .memory_plan = true,
				       .arena = true},
			    .seconds = 20};
	char line[LINE], model[LINE], in[LINE], out[LINE];

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "-t"))
			o.config.threads = strtol(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "-s"))
			o.seconds = (unsigned)strtoul(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "-o"))
			o.config.optimize = !strcmp(argv[i + 1], "none")    ? OPTIMIZE_NONE
					    : !strcmp(argv[i + 1], "basic") ? OPTIMIZE_BASIC
									    : OPTIMIZE_FULL;
	}
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%4095s %4095s %4095s", model, in, out) != 3) { /* NOLINT */
			printf("fail 2 - the line does not have three words\n");
			fflush(stdout);
			continue;
		}
		in_child(&o, model, in, out);
	}
	return 0;
}
