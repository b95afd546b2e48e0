/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_models MODEL [-b BATCHES] [-p PRECISIONS] [-n RUNS] [-s STEPS]: a model on the GPU against the same
 * model on the host: the largest difference over the largest value of each output, and the latency.
 *
 *   -b 1,8,32        sizes of every dimension that the model leaves open
 *   -p fp32,tf32     precisions, each a session of its own
 *   -n 50            timed runs (after two others); 0: none
 *   -s 12            the slowest steps of an observed run, with their times; 0: none
 *   -d cuda          device that gives the results to compare with (cpu; a GPU gives them sooner, but proves less)
 *   -t full          how long to search for fast kernels: off, quick (the default) or full
 *
 * A line a case: difference and bound (1e-4 in fp32, 3e-2 in tf32 and fp16, 6e-2 in bf16, 5e-2 in fp8; exit status 1 where
 * one is beyond it), then medians: of a run from host memory to host memory, of one with everything on the
 * device (launches recorded as one graph, launched and waited for), and the time the plan took.
 */
#include "base/clock.h"
#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 16, STEPS = 4096 };

struct stat {
	const struct step *step;
	uint64_t ns;
};
/* Times of steps by the device's clock: each is recorded some times over and replayed. */
enum { REPEATS = 10 };
struct steps {
	struct observer observer;
	const struct runtime *rt;
	struct stat stat[STEPS];
	struct event *from, *to;
	size_t n;
};

static bool on_device(const struct call *c)
{
	bool any = false;

	for (uint32_t i = 0; i < c->step->nout; i++) {
		if (c->out[i] && !c->out[i]->device)
			return false;
		any |= c->out[i] != NULL;
	}
	for (uint32_t i = 0; i < c->step->nin && c->step->nin == 1; i++)
		if (c->in[i] && !c->in[i]->device)
			return false;
	return any && !c->step->dynamic;
}

static void step_begin(struct observer *o, const struct step *s, const struct call *c)
{
	(void)o, (void)s, (void)c;
}

static void step_end(struct observer *o, const struct step *s, const struct call *c)
{
	struct steps *p = (struct steps *)o;
	const struct backend *b = p->rt->backend;
	struct captured *g = NULL;
	struct diag d = {0};
	uint64_t ns = 0;

	if (p->n == STEPS || !on_device(c) || (s->kernel->flags & (K_HOST | K_NO_CAPTURE)) ||
	    !strcmp(s->kernel->op, "Identity") || b->capture_begin(p->rt->stream, &d))
		return;
	for (int i = 0; i < REPEATS; i++)
		s->kernel->run(c);
	if (!b->capture_end(p->rt->stream, &g, &d) && g) {
		b->capture_launch(g, p->rt->stream, &d);
		b->mark(p->rt->stream, p->from, &d);
		b->capture_launch(g, p->rt->stream, &d);
		b->mark(p->rt->stream, p->to, &d);
		b->elapsed(p->from, p->to, &ns, &d);
		b->capture_drop(g);
		p->stat[p->n++] = (struct stat){s, ns / REPEATS};
	}
	diag_free(&d);
}

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* Small whole numbers for integers (ids), a normal-like spread for floats; masks of ones and a few zeros. */
static void fill(struct tensor *t, const char *name, uint64_t seed)
{
	uint64_t state = seed;
	bool mask = strstr(name, "mask") != NULL;
	enum dtype type = tensor_dtype(t);

	for (int64_t i = 0; i < tensor_count(t); i++) {
		uint64_t r = next(&state);
		int64_t last = t->shape.rank ? t->shape.dim[t->shape.rank - 1] : 1;
		if (mask)
			elem_set_i64(type, t->data, i, i % last < last - 5);
		else if (T_BIT(type) & (T_INTS | T_BOOL))
			elem_set_i64(type, t->data, i, (int64_t)(r % 1000));
		else
			elem_set_f64(type, t->data, i, ((double)(r % 20001) - 10000) / 5000);
	}
}

struct feed {
	struct arena arena;
	const struct tensor *in[MOST];
};

static bool feed_make(struct feed *f, const struct session *s, int64_t batch)
{
	const struct graph *g = session_model(s)->graph;

	if (g->nin > MOST)
		return false;
	for (uint32_t i = 0; i < g->nin; i++) {
		const struct value *v = g->value[g->in[i]];
		struct shape shape = v->info.shape;
		for (int r = 0; r < shape.rank; r++)
			shape.dim[r] = shape.dim[r] < 0 ? batch : shape.dim[r];
		struct tensor *t = tensor_new(&f->arena, (enum dtype)v->info.type.dtype, &shape);
		if (!t)
			return false;
		fill(t, v->name, i + 1);
		f->in[i] = t;
	}
	return true;
}

static void tell(const struct diag *d)
{
	for (const struct finding *f = d->first; f; f = f->next)
		fprintf(stderr, "  %s: %s expected %s actual %s (%s)\n", code_title(f->code),
			f->message ? f->message : "", f->expected ? f->expected : "-",
			f->actual ? f->actual : "-", f->node ? f->node : "-");
}

static struct session *open_one(const char *path, const char *device, int precision, int tune,
				struct diag *d)
{
	struct run_config c = {.device = device,
			       .precision = precision,
			       .tune = tune,
			       .optimize = OPTIMIZE_FULL,
			       .memory_plan = true,
			       .arena = true};
	return session_open(path, &c, d);
}

/* Largest difference over the largest value; NaN and infinities must agree. */
static double apart(const struct tensor *a, const struct tensor *b)
{
	double most = 0, large = 0;

	if (!shape_equal(&a->shape, &b->shape))
		return INFINITY;
	for (int64_t i = 0; i < tensor_count(a); i++) {
		double x = elem_f64(tensor_dtype(a), a->data, i),
		       y = elem_f64(tensor_dtype(b), b->data, i);
		if (isfinite(y))
			large = fmax(large, fabs(y));
		if (isfinite(x) != isfinite(y))
			return INFINITY;
		if (isfinite(x))
			most = fmax(most, fabs(x - y));
	}
	return large > 0 ? most / large : most;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = ((const struct stat *)a)->ns, y = ((const struct stat *)b)->ns;
	return x < y ? 1 : x > y ? -1 : 0;
}

static int up(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median_ms(struct session *s, struct feed *f, const struct tensor **out, int runs)
{
	struct diag d = {0};
	double *ms = calloc((size_t)runs + 1, sizeof(double)), mid;

	for (int i = 0; ms && i < runs; i++) {
		uint64_t t = clock_ns();
		session_run(s, f->in, out, &d);
		ms[i] = (double)(clock_ns() - t) * 1e-6;
	}
	if (ms)
		qsort(ms, (size_t)runs, sizeof(double), up);
	mid = ms && runs ? ms[runs / 2] : 0;
	free(ms);
	diag_free(&d);
	return mid;
}

/* Sums by operator, then the slowest steps. */
static void tell_steps(struct steps *p, size_t most)
{
	uint64_t all = 0;

	for (size_t i = 0; i < p->n; i++) {
		const char *op = p->stat[i].step->kernel->op;
		uint64_t sum = 0;
		size_t n = 0;
		bool first = true;
		for (size_t k = 0; k < p->n; k++) {
			bool same = !strcmp(p->stat[k].step->kernel->op, op);
			first &= !(same && k < i);
			sum += same ? p->stat[k].ns : 0;
			n += same;
		}
		all += p->stat[i].ns;
		if (first)
			printf("  %9.1f us  %4zu  %s\n", (double)sum * 1e-3, n, op);
	}
	qsort(p->stat, p->n, sizeof(struct stat), by_time);
	printf("  %9.1f us  %4zu steps together; the slowest:\n", (double)all * 1e-3, p->n);
	for (size_t i = 0; i < p->n && i < most; i++)
		printf("  %9.1f us  %-28s %.90s\n", (double)p->stat[i].ns * 1e-3,
		       p->stat[i].step->kernel->op, p->stat[i].step->from->name);
}

static void slowest(struct session *s, struct feed *f, const struct tensor **out, size_t most)
{
	static struct steps seen;
	struct diag d = {0};
	const struct runtime *rt = session_runtime(s);

	if (!rt->backend->event_new || !rt->backend->capture_begin)
		return;
	seen = (struct steps){.observer = {.begin = step_begin, .end = step_end},
			      .rt = rt,
			      .from = rt->backend->event_new(rt->device, &d),
			      .to = rt->backend->event_new(rt->device, &d)};
	session_observe(s, &seen.observer);
	session_run(s, f->in, out, &d);
	session_observe(s, NULL);
	tell_steps(&seen, most);
	rt->backend->event_free(seen.from);
	rt->backend->event_free(seen.to);
	diag_free(&d);
}

/* ---- what the device alone takes: the run's launches recorded, copies to and from the host left out ---- */

enum { PIECES = 64 };
struct recorder {
	struct observer observer;
	struct runtime *rt;
	struct captured *piece[PIECES];
	int n;
	bool open, failed;
};

static void close_piece(struct recorder *r)
{
	struct diag d = {0};

	if (r->open && !r->rt->backend->capture_end(r->rt->stream, &r->piece[r->n], &d))
		r->n++;
	else if (r->open)
		r->failed = true;
	r->open = false;
	diag_free(&d);
}

static void record_begin(struct observer *o, const struct step *s, const struct call *c)
{
	struct recorder *r = (struct recorder *)o;
	struct diag d = {0};

	(void)s;
	if (!on_device(c)) {
		close_piece(r);
	} else if (!r->open && r->n < PIECES) {
		r->open = !r->rt->backend->capture_begin(r->rt->stream, &d);
		r->failed |= !r->open;
	}
	diag_free(&d);
}

static void record_end(struct observer *o, const struct step *s, const struct call *c)
{
	(void)o, (void)s, (void)c;
}

/* As a caller sees it: from the first launch until the device is done. */
static double replay_ms(struct recorder *r)
{
	const struct backend *b = r->rt->backend;
	struct diag d = {0};
	uint64_t t = clock_ns();

	for (int i = 0; i < r->n; i++)
		b->capture_launch(r->piece[i], r->rt->stream, &d);
	b->wait(r->rt->stream, &d);
	diag_free(&d);
	return (double)(clock_ns() - t) * 1e-6;
}

static double device_ms(struct session *s, struct feed *f, const struct tensor **out, int runs)
{
	struct recorder r = {.observer = {.begin = record_begin, .end = record_end},
			     .rt = session_runtime(s)};
	const struct backend *b = r.rt->backend;
	struct diag d = {0};
	double *ms = calloc((size_t)runs + 1, sizeof(double)), mid = NAN;

	if (!b->capture_begin || !ms)
		goto out;
	session_observe(s, &r.observer);
	session_run(s, f->in, out, &d);
	session_observe(s, NULL);
	close_piece(&r);
	for (int i = -2; i < runs && !r.failed && r.n; i++) {
		double t = replay_ms(&r);
		ms[i < 0 ? 0 : i] = t;
	}
	qsort(ms, (size_t)runs, sizeof(double), up);
	if (!r.failed && r.n)
		mid = ms[runs / 2];
	for (int i = 0; i < r.n; i++)
		b->capture_drop(r.piece[i]);
out:
	free(ms);
	diag_free(&d);
	return mid;
}

static const char *const names[] = {"fp32", "tf32", "fp16", "bf16", "fp8"};
static const double bounds[] = {1e-4, 3e-2, 3e-2, 6e-2, 5e-2};

/* Whether the graph rounds to codes of 8 bits: two backends then differ by a code where a value lies near a tie. */
static bool computes_on_codes(const struct graph *g)
{
	for (uint32_t i = 0; i < g->nnodes; i++)
		if (!g->node[i]->dead && g->node[i]->op == op_named("QuantizeLinear"))
			return true;
	return false;
}

struct job {
	const char *path;
	int runs, steps, tune;
	const char *reference;
};

static int one(const struct job *j, int precision, int64_t batch)
{
	struct diag d = {0};
	struct feed f = {0};
	const struct tensor *want[MOST] = {0}, *got[MOST] = {0};
	struct session *cpu = open_one(j->path, j->reference, PRECISION_FP32, j->tune, &d);
	struct session *gpu = open_one(j->path, "cuda", precision, j->tune, &d);
	int bad = !cpu || !gpu || !feed_make(&f, cpu, batch);
	const char *slash = strrchr(j->path, '/');
	double worst = 0;

	bad = bad || session_run(cpu, f.in, want, &d);
	for (int k = 0; k < 3 && !bad; k++) /* the third is a repeat, of a captured run for one */
		bad = session_run(gpu, f.in, got, &d) != 0;
	double plan = gpu ? (double)session_times(gpu).plan * 1e-6 : 0;
	const struct graph *g = bad ? NULL : session_model(cpu)->graph;
	for (uint32_t i = 0; g && i < g->nout && i < MOST; i++)
		worst = fmax(worst, apart(got[i], want[i]));
	double bound = bounds[precision];
	if (!bad && g->nin && (tensor_dtype(want[0]) == DT_F16 || computes_on_codes(g)) && bound < 3e-2)
		bound = 3e-2;
	bad = bad || !(worst <= bound);
	double ms = g && j->runs ? median_ms(gpu, &f, got, j->runs) : 0;
	double device = g && j->runs ? device_ms(gpu, &f, got, j->runs) : 0;
	printf("%-28s %s b%-3d %-4s %.2e (%.0e) run %8.3f device %8.3f plan %5.0f ms\n",
	       slash ? slash + 1 : j->path, names[precision], (int)batch, bad ? "BAD" : "ok", worst,
	       bound, ms, device, plan);
	if (g && j->steps)
		slowest(gpu, &f, got, (size_t)j->steps);
	tell(&d);
	fflush(stdout);
	session_close(cpu);
	session_close(gpu);
	arena_free(&f.arena);
	diag_free(&d);
	return bad;
}

int main(int argc, char **argv)
{
	char batches[64] = "1", precisions[64] = "fp32";
	struct job j = {.reference = "cpu"};
	int o, bad = 0;

	while ((o = getopt(argc, argv, "b:d:p:n:s:t:")) > 0) {
		if (o == 't')
			j.tune = !strcmp(optarg, "full")  ? TUNE_FULL
				 : !strcmp(optarg, "off") ? TUNE_OFF
							  : TUNE_QUICK;
		else if (o == 'd')
			j.reference = optarg;
		else if (o == 'b' || o == 'p')
			snprintf(o == 'b' ? batches : precisions, 64, "%s", optarg);
		else
			*(o == 'n' ? &j.runs : &j.steps) = atoi(optarg);
	}
	j.path = optind < argc ? argv[optind] : "";
	for (int p = 0; p < 5; p++) {
		if (!strstr(precisions, names[p]))
			continue;
		char copy[64], *save = NULL;
		memcpy(copy, batches, sizeof(copy));
		for (char *b = strtok_r(copy, ",", &save); b; b = strtok_r(NULL, ",", &save))
			bad |= one(&j, p, strtoll(b, NULL, 10));
	}
	return bad;
}
