/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/peak.h"

#include "backend/weight_store.h"
#include "base/clock.h"
#include "base/pool.h"
#include "opt/pipeline.h"
#include "plan/upload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	DEVICE_SIDE = 4096, /* of the square matrices that are multiplied on a device */
	HOST_READ_BYTES = 256 << 20,
	DEVICE_COPY_BYTES = 256 << 20,
	SLICE_ROUNDS = 20000, /* of multiply-adds: about a tenth of a millisecond, which often nobody disturbs */
	SLICES = 200,
	MIN_REPEATS = 5,
	MAX_REPEATS = 40
};

/*
 * ns for repetitions on the host. Other programs disturb the repetitions there, so that the best of many is nearer to
 * the peak.
 */
static const uint64_t MAX_TIME = 150000000;

/* ---- multiply-adds on the host */

struct slices {
	const struct backend *host;
	double *rate; /* of each thread, FLOP/s in its best slice */
};

/*
 * All threads work at the same time, because clocks fall when all units are busy. Each is judged by its own best slice, because
 * another program takes cores from some of them.
 */
static void run_slices(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct slices *s = arg;

	(void)thread;
	for (int64_t k = begin; k < end; k++)
		for (int i = 0; i < SLICES; i++) {
			uint64_t start = clock_ns();
			double flops = s->host->multiply_add(SLICE_ROUNDS);
			uint64_t ns = clock_ns() - start;
			s->rate[k] = fmax(s->rate[k], ns ? flops / ((double)ns * 1e-9) : 0);
		}
}

static double host_flops(const struct runtime *rt)
{
	int64_t threads = pool_threads();
	struct arena a = {0};
	struct slices s = {rt->cpu, arena_new_n(&a, double, (size_t)threads)};
	double sum = 0;

	if (s.host->multiply_add)
		pool_for(threads, 1, run_slices, &s);
	for (int64_t k = 0; k < threads; k++)
		sum += s.rate[k];
	arena_free(&a);
	return sum;
}

/* ---- a matrix product on a device */

/* An observer that keeps the shortest time of the product's step. */
struct watch {
	struct observer observer;
	const struct runtime *rt;
	struct event *from, *to;
	uint64_t start, best;
	bool marked;
};

static bool is_product(const struct step *s)
{
	return s->nin == 2;
}

static void product_begins(struct observer *o, const struct step *s, const struct call *c)
{
	struct watch *w = (struct watch *)(void *)o;

	(void)c;
	if (!is_product(s))
		return;
	w->marked = w->from && !w->rt->backend->mark(w->rt->stream, w->from, NULL);
	w->start = clock_ns();
}

static void product_ends(struct observer *o, const struct step *s, const struct call *c)
{
	struct watch *w = (struct watch *)(void *)o;
	uint64_t ns = clock_ns() - w->start;

	(void)c;
	if (!is_product(s))
		return;
	if (w->from && (!w->marked || w->rt->backend->mark(w->rt->stream, w->to, NULL) ||
			w->rt->backend->elapsed(w->from, w->to, &ns, NULL)))
		return;
	if (ns && ns < w->best)
		w->best = ns;
}

static uint32_t add_matrix(struct graph *g, const char *name, int64_t side)
{
	struct value *v = graph_add_value(g, name);

	v->is_input = true;
	v->info.type = type_tensor(DT_F32);
	v->info.shape = (struct shape){2, {side, side}};
	return v->id;
}

static struct graph *product_graph(struct model *m, int64_t side)
{
	struct graph *g = m->graph = graph_new(&m->arena, m, "peak");
	uint32_t in[2] = {add_matrix(g, "a", side), add_matrix(g, "b", side)};
	uint32_t out = graph_add_value(g, "c")->id;
	const struct op *op = op_named("MatMul");
	struct node *n = graph_add_node(g, op, NULL, in, 2, &out, 1,
					origin_new(&m->arena, "MatMul", "MatMul", op->since));

	n->type = op->name;
	n->version = op->since;
	g->in = arena_dup(&m->arena, in, sizeof(in));
	g->nin = 2;
	g->out = arena_dup(&m->arena, &out, sizeof(out));
	g->out_name = arena_new_n(&m->arena, const char *, 1);
	g->out_name[0] = "c";
	g->nout = 1;
	g->value[out]->is_output = true;
	return g;
}

static void run_product(struct model *m, struct runtime *rt, struct watch *w, int64_t side)
{
	size_t bytes = (size_t)side * (size_t)side * sizeof(float);
	float *data = mem_zalloc(bytes, MEM_STAGING);
	struct tensor t = {
		.type = type_tensor(DT_F32), .shape = {2, {side, side}}, .data = data, .bytes = bytes};
	const struct tensor *in[2] = {&t, &t}, *out[1];
	struct diag d = {0};

	for (int64_t i = 0; data && i < side * side; i++)
		data[i] = (float)(i % 7) * 0.25F;
	if (data && !graph_sort(m->graph, &d) && !opt_run(m, rt->cpu, rt->config, &d)) {
		struct instance *x = instance_new(m->graph, rt);
		for (int i = 0; i < MIN_REPEATS; i++) {
			rt->observer = i ? &w->observer : NULL;
			if (instance_run(x, in, out, &d))
				break;
		}
		instance_free(x);
	}
	mem_free(data);
	diag_free(&d);
}

static double measure_product(const struct runtime *of)
{
	struct model m = {0};
	struct runtime rt = *of;
	struct watch w = {.observer = {.begin = product_begins, .end = product_ends},
			  .rt = &rt,
			  .best = UINT64_MAX};

	if (!of->backend->event_new || !of->backend->elapsed)
		return 0;
	rt.arena = &m.arena;
	rt.store = store_new(NULL, NULL);
	rt.uploads = NULL;
#ifdef FAULTS
	rt.faults = NULL;
#endif
	w.from = of->backend->event_new(of->device, NULL);
	w.to = of->backend->event_new(of->device, NULL);
	product_graph(&m, DEVICE_SIDE);
	if (w.from && w.to)
		run_product(&m, &rt, &w, DEVICE_SIDE);
	if (w.from)
		of->backend->event_free(w.from);
	if (w.to)
		of->backend->event_free(w.to);
	uploads_free(&rt);
	store_free(rt.store);
	arena_free(&m.arena);
	double flops = 2.0 * (double)DEVICE_SIDE * (double)DEVICE_SIDE * (double)DEVICE_SIDE;
	return w.best == UINT64_MAX ? 0 : flops / ((double)w.best * 1e-9);
}

/* ---- memory */

/* Adds up 64 bytes at a time, in four chains, so that memory is what the loop waits for. */
typedef uint64_t words __attribute__((vector_size(64)));

struct reading {
	const words *from;
	uint64_t sum; /* read by nobody, and never left out, because pieces add to it */
};

static void read_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	struct reading *r = arg;
	words sum[4] = {{0}};

	(void)thread;
	for (int64_t i = begin; i + 4 <= end; i += 4)
		for (int k = 0; k < 4; k++)
			sum[k] ^= r->from[i + k];
	sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
	__atomic_fetch_add(&r->sum, sum[0][0] ^ sum[0][7], __ATOMIC_RELAXED);
}

static double host_read(void)
{
	void *memory = mem_zalloc(HOST_READ_BYTES, MEM_STAGING);
	struct reading r = {memory, 0};
	uint64_t best = UINT64_MAX, begin = clock_ns();

	if (!memory)
		return 0;
	memset(memory, 1, HOST_READ_BYTES); /* pages that nobody has written are all the same one */
	for (int i = 0; i < MIN_REPEATS || (i < MAX_REPEATS && clock_ns() - begin < MAX_TIME); i++) {
		uint64_t start = clock_ns();
		pool_for(HOST_READ_BYTES / (int64_t)sizeof(words), 1 << 14, read_piece, &r);
		uint64_t ns = clock_ns() - start;
		best = ns < best ? ns : best;
	}
	mem_free(memory);
	return HOST_READ_BYTES / ((double)best * 1e-9);
}

static double timed_copies(const struct runtime *rt, const struct buffer *b)
{
	const struct backend *k = rt->backend;
	struct event *from = k->event_new(rt->device, NULL), *to = k->event_new(rt->device, NULL);
	uint64_t ns = 0, best = UINT64_MAX;

	for (int i = 0; from && to && i < MIN_REPEATS; i++)
		if (!k->mark(rt->stream, from, NULL) &&
		    !k->queue_copy(rt->stream, b[0].ptr, 1, b[1].ptr, 1, DEVICE_COPY_BYTES, NULL) &&
		    !k->mark(rt->stream, to, NULL) && !k->elapsed(from, to, &ns, NULL) && ns < best)
			best = ns;
	if (from)
		k->event_free(from);
	if (to)
		k->event_free(to);
	return best == UINT64_MAX ? 0 : 2.0 * DEVICE_COPY_BYTES / ((double)best * 1e-9);
}

static double device_copy(const struct runtime *rt)
{
	const struct backend *k = rt->backend;
	struct buffer b[2] = {{0}, {0}};
	double rate = 0;

	if (!k->queue_copy || !k->event_new || !k->elapsed)
		return 0;
	if (!k->alloc(rt->device, DEVICE_COPY_BYTES, MEM_STAGING, &b[0], NULL) &&
	    !k->alloc(rt->device, DEVICE_COPY_BYTES, MEM_STAGING, &b[1], NULL))
		rate = timed_copies(rt, b);
	for (int i = 0; i < 2; i++)
		if (b[i].ptr)
			k->free(rt->device, &b[i]);
	return rate;
}

struct peak peak_measure(const struct runtime *rt)
{
	const struct backend *k = rt->backend;

	if (k == rt->cpu)
		return (struct peak){host_flops(rt), host_read()};
	/* a launch outside of the device's context would count as the end of that context */
	if (k->enter && k->enter(rt->device, NULL))
		return (struct peak){0};
	struct peak p = {measure_product(rt), device_copy(rt)};
	if (k->leave)
		(void)k->leave(rt->device, NULL);
	return p;
}
