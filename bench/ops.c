/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops [THREADS]: times single operators; bench/ops.py drives it through standard input.
 *
 *   open MODEL DIR   a session with DIR/input_K.pb, run once: "ok" or "fail TEXT"
 *   run N            N inferences: their times in ms on one line
 *   steps            the kernels of one run, each with " (reference)" where it is one
 *   close
 */
#include "base/clock.h"
#include "onnx/tensor_pb.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 4096 };

struct bench {
	struct run_config config;
	struct arena arena;
	struct diag diag;
	struct session *session;
	const struct tensor **in, **out;
};

static void close_session(struct bench *b)
{
	if (b->session)
		session_close(b->session);
	b->session = NULL;
	diag_free(&b->diag);
	arena_free(&b->arena);
	b->diag = (struct diag){0};
	b->arena = (struct arena){0};
}

static void tell_failure(const struct diag *d)
{
	const struct finding *f = d->last;

	for (const struct finding *p = d->first; p; p = p->next)
		if (p->severity == SEV_ERROR)
			f = p;
	printf("fail %s %s %s\n", f ? code_id(f->code, f->severity) : "-", f && f->op ? f->op : "",
	       f && f->expected ? f->expected : "");
}

static int open_session(struct bench *b, const char *model, const char *dir)
{
	b->session = session_open(model, &b->config, &b->diag);
	if (!b->session)
		return -1;
	const struct graph *g = session_model(b->session)->graph;
	b->in = arena_new_n(&b->arena, const struct tensor *, g->nin + 1);
	b->out = arena_new_n(&b->arena, const struct tensor *, g->nout + 1);
	for (uint32_t k = 0; k < g->nin; k++) {
		const char *path = arena_printf(&b->arena, "%s/input_%u.pb", dir, k);
		b->in[k] = tensor_pb_read(path, g->value[g->in[k]]->info.type, &b->arena, &b->diag);
		if (!b->in[k])
			return -1;
	}
	return session_run(b->session, b->in, b->out, &b->diag);
}

static void run_many(struct bench *b, long n)
{
	for (long i = 0; i < n; i++) {
		uint64_t t0 = clock_ns();
		if (session_run(b->session, b->in, b->out, &b->diag)) {
			tell_failure(&b->diag);
			return;
		}
		printf("%.5f ", (double)(clock_ns() - t0) / 1e6);
	}
	printf("\n");
}

static void step_begin(struct observer *o, const struct step *s, const struct call *c)
{
	(void)o;
	(void)s;
	(void)c;
}

static void step_end(struct observer *o, const struct step *s, const struct call *c)
{
	(void)o;
	(void)c;
	printf("%s%s ", s->kernel ? s->kernel->op : "?",
	       s->kernel && (s->kernel->flags & K_REFERENCE) ? "(reference)" : "");
}

static void show_steps(struct bench *b)
{
	struct observer o = {.begin = step_begin, .end = step_end};

	session_observe(b->session, &o);
	if (session_run(b->session, b->in, b->out, &b->diag))
		printf("failed");
	session_observe(b->session, NULL);
	printf("\n");
}

int main(int argc, char **argv)
{
	struct bench b = {.config = {.device = "cpu",
				     .optimize = OPTIMIZE_FULL,
				     .memory_plan = true,
				     .arena = true}};
	char line[LINE], model[LINE], dir[LINE];

	b.config.threads = argc > 1 ? strtol(argv[1], NULL, 10) : 2;
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "open %4095s %4095s", model, dir) == 2) {
			if (open_session(&b, model, dir)) {
				tell_failure(&b.diag);
				close_session(&b);
			} else {
				printf("ok\n");
			}
		} else if (!strncmp(line, "run ", 4) && b.session) {
			run_many(&b, strtol(line + 4, NULL, 10));
		} else if (!strncmp(line, "steps", 5) && b.session) {
			show_steps(&b);
		} else {
			close_session(&b);
			printf("closed\n");
		}
		fflush(stdout);
	}
	close_session(&b);
	return 0;
}
