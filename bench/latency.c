/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency MODEL THREADS[,bf16] [FILE:DIMS]...: one session in one process, driven through standard input.
 * Each FILE holds the raw bytes of the model's input at that place, DIMS is 1x3x224x224.
 *
 *   run N      N inferences: their times in ms on one line
 *   steps N    the same, observed: time, operator and node of each step, slowest first
 *   out FILE   the last run's first output as raw bytes
 *   memory     VmHWM and VmRSS in KiB
 *   times      ms of load, optimize, open, plan and the newest run
 *
 * It answers each line, "ready MS" first (time from process start), so that a driver can take turns.
 */
#include "base/clock.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 16 };

struct stat {
	const struct step *step;
	uint64_t ns;
};
struct steps {
	struct observer observer;
	struct stat *stat;
	size_t n, cap, at;
	uint64_t start;
};

static void step_begin(struct observer *o, const struct step *s, const struct call *c)
{
	struct steps *p = (struct steps *)o;
	(void)s;
	(void)c;
	p->start = clock_ns();
}

static void step_end(struct observer *o, const struct step *s, const struct call *c)
{
	struct steps *p = (struct steps *)o;
	uint64_t ns = clock_ns() - p->start;
	(void)c;
	size_t i = 0;
	while (i < p->n && p->stat[i].step != s)
		i++;
	if (i == p->n) {
		if (p->n == p->cap) {
			p->cap = p->cap ? 2 * p->cap : 256;
			struct stat *more = realloc(p->stat, p->cap * sizeof(*more));
			if (!more)
				exit(1);
			p->stat = more;
		}
		p->stat[p->n++] = (struct stat){.step = s};
	}
	p->stat[i].ns += ns;
}

static int slower(const void *a, const void *b)
{
	uint64_t x = ((const struct stat *)a)->ns, y = ((const struct stat *)b)->ns;
	return x < y ? 1 : x > y ? -1 : 0;
}

static int read_input(struct tensor *t, const struct value *v, const char *text)
{
	const char *colon = strrchr(text, ':'), *p = colon ? colon + 1 : "";
	char path[4096], *end;
	t->type = v->info.type;
	while (*p) {
		t->shape.dim[t->shape.rank++] = strtoll(p, &end, 10);
		p = *end ? end + 1 : end;
	}
	if (!colon || !tensor_bytes(tensor_dtype(t), &t->shape, LAYOUT_ROW, &t->bytes))
		return -1;
	snprintf(path, sizeof(path), "%.*s", (int)(colon - text), text);
	FILE *f = fopen(path, "rb");
	t->data = aligned_alloc(64, (t->bytes + 63) / 64 * 64);
	size_t got = f && t->data ? fread(t->data, 1, t->bytes, f) : 0;
	if (f)
		fclose(f);
	if (got != t->bytes)
		fprintf(stderr, "%s: %zu bytes are needed\n", path, t->bytes);
	return got == t->bytes ? 0 : -1;
}

static void print_memory(void)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmHWM:", 6) || !strncmp(line, "VmRSS:", 6)) {
			line[strcspn(line, "\n")] = 0;
			printf("%s ", line);
		}
	if (f)
		fclose(f);
	printf("\n");
}

static void print_times(const struct session *s)
{
	struct session_times t = session_times(s);
	printf("load %.2f optimize %.2f open %.2f plan %.2f run %.2f\n", (double)t.load / 1e6,
	       (double)t.optimize / 1e6, (double)t.open / 1e6, (double)t.plan / 1e6,
	       (double)t.run / 1e6);
}

static int run_many(struct session *s, const struct tensor *const *in, const struct tensor **out,
		    long n, bool quiet, struct diag *d)
{
	for (long i = 0; i < n; i++) {
		uint64_t t0 = clock_ns();
		int err = session_run(s, in, out, d);
		if (err)
			return err;
		if (!quiet)
			printf("%.4f ", (double)(clock_ns() - t0) / 1e6);
	}
	if (!quiet)
		printf("\n");
	return 0;
}

static int run_steps(struct session *s, const struct tensor *const *in, const struct tensor **out,
		     long n, struct diag *d)
{
	struct steps p = {.observer = {.begin = step_begin, .end = step_end}};
	session_observe(s, &p.observer);
	int err = run_many(s, in, out, n, true, d);
	session_observe(s, NULL);
	if (p.n)
		qsort(p.stat, p.n, sizeof(*p.stat), slower);
	for (size_t i = 0; i < p.n; i++) {
		const struct step *st = p.stat[i].step;
		printf("%8.4f %-24s%s %s\n", (double)p.stat[i].ns / 1e6 / (double)n, st->kernel->op,
		       st->kernel->flags & K_REFERENCE ? " (reference)" : "",
		       st->from ? st->from->name : "");
	}
	printf("end\n");
	free(p.stat);
	return err;
}

static int save(const struct tensor *t, const char *path)
{
	FILE *f = fopen(path, "wb");
	size_t put = f ? fwrite(t->data, 1, t->bytes, f) : 0;
	if (f)
		fclose(f);
	printf("%s\n", put == t->bytes ? "ok" : "failed");
	return put == t->bytes ? 0 : 1;
}

static int serve(struct session *s, const struct tensor *const *in, const struct tensor **out,
		 struct diag *d)
{
	char line[4200];
	int err = 0;
	while (!err && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "run ", 4))
			err = run_many(s, in, out, strtol(line + 4, NULL, 10), false, d);
		else if (!strncmp(line, "steps ", 6))
			err = run_steps(s, in, out, strtol(line + 6, NULL, 10), d);
		else if (!strncmp(line, "out ", 4))
			err = save(out[0], line + 4);
		else if (!strcmp(line, "memory"))
			print_memory();
		else if (!strcmp(line, "times"))
			print_times(s);
		else
			break;
		fflush(stdout);
	}
	return err;
}

int main(int argc, char **argv)
{
	struct diag d = {0};
	struct tensor input[MAX_INPUTS] = {0};
	const struct tensor *in[MAX_INPUTS], *out[64];
	struct run_config config = {
		.device = "cpu", .optimize = OPTIMIZE_FULL, .memory_plan = true, .arena = true};
	if (argc < 3 || argc - 3 > MAX_INPUTS) {
		fprintf(stderr, "usage: latency MODEL THREADS[,bf16] [FILE:DIMS]...\n");
		return 2;
	}
	config.threads = strtol(argv[2], NULL, 10);
	if (strstr(argv[2], ",bf16"))
		config.precision = PRECISION_BF16;
	struct session *s = session_open(argv[1], &config, &d);
	int err = s ? 0 : 1;
	const struct graph *g = s ? session_model(s)->graph : NULL;
	for (int i = 3; s && i < argc; i++) {
		in[i - 3] = &input[i - 3];
		if ((uint32_t)(i - 3) >= g->nin ||
		    read_input(&input[i - 3], g->value[g->in[i - 3]], argv[i]))
			err = 1;
	}
	if (!err && (g->nin != (uint32_t)(argc - 3) || g->nout > 64)) {
		fprintf(stderr, "the model has %u inputs and %u outputs\n", g->nin, g->nout);
		err = 1;
	}
	if (!err)
		err = session_run(s, in, out, &d);
	if (!err) {
		printf("ready %.2f\n", (double)clock_since_exec() / 1e6);
		fflush(stdout);
		err = serve(s, in, out, &d);
	}
	diag_print(&d, stderr, false);
	session_close(s);
	for (int i = 0; i < MAX_INPUTS; i++)
		free(input[i].data);
	diag_free(&d);
	return err != 0;
}
