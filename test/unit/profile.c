/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps, records, the gate, pages: what `infer profile` is made of, without a clock. */
#include "profile/gate.h"
#include "output/html.h"
#include "profile/record.h"
#include "input/sweep.h"
#include "base/json_read.h"
#include "base/proc.h"
#include "cmd/profile/profile.h"
#include "test/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static struct texts list(const char *a, const char *b)
{
	static struct text v[2];

	v[0] = (struct text){a, strlen(a)};
	v[1] = (struct text){b, b ? strlen(b) : 0};
	return (struct texts){v, b ? 2 : 1};
}

static int parse(const char *a, const char *b, struct sweep *s, struct arena *arena)
{
	struct texts t = list(a, b);
	struct diag d = {0};
	int rc = sweep_parse(&t, s, arena, &d);

	diag_free(&d);
	return rc;
}

static void sweeps(void)
{
	struct arena a = {0};
	struct sweep s;

	CHECK_INT(parse("batch=1..4", "x.len=5..20:5", &s, &a), 0);
	CHECK_INT(s.points, 16);
	CHECK_STR(sweep_label(&s, 0, &a), "batch=1 x.len=5");
	CHECK_STR(sweep_label(&s, 5, &a), "batch=2 x.len=10");
	CHECK_STR(sweep_label(&s, 15, &a), "batch=4 x.len=20");
	struct texts dims = sweep_point(&s, 6, NULL, &a);
	CHECK_INT(dims.n, 2);
	CHECK_STR(dims.v[1].s, "x.len=15");
	CHECK_INT(parse("n=1,8,32", NULL, &s, &a), 0);
	CHECK_INT(s.points, 3);
	CHECK_INT(sweep_size(&s, 2, 0), 32);
	arena_free(&a);
}

static void empty_sweeps(void)
{
	static const char *const bad[] = {"batch",
					  "batch=",
					  "=3",
					  "batch=4..1",
					  "batch=1..x",
					  "batch=1..9:0",
					  "batch=1..100000000000",
					  "batch=a",
					  "batch=1;2"};
	struct arena a = {0};
	struct sweep s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(parse(bad[i], NULL, &s, &a) == -E_OPTION);
	CHECK(parse("n=1..2", "n=3", &s, &a) == -E_OPTION);
	CHECK(parse("n=1..1000", "m=1..1000", &s, &a) == -E_OPTION);
	arena_free(&a);
}

/* A record with one point, two nodes and times of the reference workloads. */
static struct record *made(size_t n, double latency, double noise, double heavy, uint64_t seed)
{
	struct arena a = {0};
	struct record *r = arena_new(&a, struct record);
	double *time = arena_new_n(&a, double, n), *yard = arena_new_n(&a, double, n);
	double *one = arena_new_n(&a, double, n), *two = arena_new_n(&a, double, n);

	for (size_t i = 0; i < n; i++) {
		double x = 1 + noise * (double)(stats_random(&seed) >> 11) * 0x1p-53;
		one[i] = latency * 0.2 * heavy * x;
		two[i] = latency * 0.8 * x;
		time[i] = one[i] + two[i];
		yard[i] = 1e-4 * x;
	}
	struct record_node *node = arena_new_n(&a, struct record_node, 2);
	node[0] = (struct record_node){
		.name = "small", .op = "Conv", .kernel = "fast", .place = "host", .time = one, .n = n};
	node[1] = (struct record_node){
		.name = "large", .op = "Gemm", .kernel = "fast", .place = "host", .time = two, .n = n};
	r->arena = a;
	r->label = "";
	r->id = (struct identity){
		.model = "m.onnx", .hash = "1", .device = "cpu", .device_name = "c", .threads = 2};
	r->point = arena_new(&r->arena, struct record_point);
	r->point[0] =
		(struct record_point){.label = "", .time = time, .n = n, .slab = 1000, .items = 1};
	r->npoints = 1;
	r->node = node;
	r->nnodes = 2;
	r->observed = latency;
	r->reference_time[0] = r->reference_time[1] = r->reference_time[2] = yard;
	r->nreference = n;
	return r;
}

static struct gate_verdict judge(struct record *before, struct record *now, struct arena *a)
{
	struct gate_limits l = {0.05, NAN, NAN};

	return gate_compare(before, now, &l, a);
}

static void gate_is_calm(void)
{
	struct arena a = {0};
	int alarms = 0;

	for (uint64_t k = 0; k < 20; k++) {
		struct record *x = made(200, 1e-3, 0.3, 1, 2 * k),
			      *y = made(200, 1e-3, 0.3, 1, 2 * k + 1);
		alarms += judge(x, y, &a).slower;
		record_free(x);
		record_free(y);
	}
	CHECK_INT(alarms, 0);
	arena_free(&a);
}

static void gate_names_the_node(void)
{
	struct arena a = {0};
	struct record *x = made(300, 1e-3, 0.05, 1, 5), *y = made(300, 1e-3, 0.05, 1.5, 6);
	struct gate_verdict v = judge(x, y, &a);

	CHECK(v.slower);
	CHECK(v.nnodes > 0 && v.node[0].slower);
	CHECK_STR(v.node[0].name, "small");
	CHECK(!v.node[1].slower);
	CHECK(!v.bigger);
	record_free(x);
	record_free(y);
	arena_free(&a);
}

/* A node that only one side has is listed as new or gone, and not matched with another one. */
static void gate_tells_new_and_gone(void)
{
	struct arena a = {0};
	struct record *x = made(200, 1e-3, 0.1, 1, 1), *y = made(200, 1e-3, 0.1, 1, 2);

	((struct record_node *)(uintptr_t)x->node)[0].name = "formerly";
	struct gate_verdict v = judge(x, y, &a);
	if (CHECK_INT(v.nnodes, 3)) {
		CHECK_STR(v.node[0].name, "small");
		CHECK(v.node[0].before == 0 && v.node[0].now > 0 && v.node[0].slower);
		CHECK_STR(v.node[2].name, "formerly");
		CHECK(v.node[2].now == 0 && v.node[2].before > 0 && !v.node[2].slower);
	}
	/* copies both ways of one node go by their kernels */
	struct record_node *n = (struct record_node *)(uintptr_t)x->node,
			   *m = (struct record_node *)(uintptr_t)y->node;
	for (int i = 0; i < 2; i++) {
		n[i].name = m[i].name = "fused";
		n[i].op = m[i].op = "Copy";
		n[i].kernel = m[i].kernel = i ? "to host" : "to device";
	}
	v = judge(x, y, &a);
	CHECK_INT(v.nnodes, 2);
	for (size_t k = 0; k < v.nnodes; k++)
		CHECK(!v.node[k].slower && fabs(v.node[k].now / v.node[k].before - 1) < 0.05);
	/* a node whose times are below the clock's resolution still exists */
	memset((void *)(uintptr_t)n[0].time, 0, n[0].n * sizeof(double));
	memset((void *)(uintptr_t)m[0].time, 0, m[0].n * sizeof(double));
	v = judge(x, y, &a);
	for (size_t k = 0; k < v.nnodes; k++)
		CHECK(v.node[k].before > 0 && v.node[k].now > 0 && !v.node[k].slower);
	record_free(x);
	record_free(y);
	arena_free(&a);
}

/* If the reference workloads take longer as well, the machine is slower, not the model. */
static void gate_knows_a_slow_machine(void)
{
	struct arena a = {0};
	struct record *x = made(300, 1e-3, 0.05, 1, 5), *y = made(300, 1.3e-3, 0.05, 1, 6);

	CHECK(judge(x, y, &a).slower);
	for (size_t i = 0; i < y->nreference; i++)
		((double *)(uintptr_t)y->reference_time[0])[i] *= 1.3;
	struct gate_verdict v = judge(x, y, &a);
	CHECK(!v.slower);
	CHECK(v.machine_ratio > 1.25 && v.machine_ratio < 1.35);
	record_free(x);
	record_free(y);
	arena_free(&a);
}

/* Times of a reference workload, multiplied by `by`. */
static const double *work(const struct record *r, double by, double *room)
{
	for (size_t i = 0; i < r->nreference; i++)
		room[i] = r->reference_time[2][i] * by;
	return room;
}

/* A reference workload that became faster does not accuse the model; those that became slower excuse it by their mean. */
static void gate_gives_the_benefit_of_the_doubt(void)
{
	struct arena a = {0};
	struct record *x = made(300, 1e-3, 0.05, 1, 5), *y = made(300, 1e-3, 0.05, 1, 6);
	double room[2][300];

	y->reference_time[0] = y->reference_time[1] = work(y, 0.85, room[0]);
	struct gate_verdict v = judge(x, y, &a);
	CHECK(!v.slower && v.adjusted.value < 1.01 && v.fastest_reference < 0.9);
	record_free(y);
	y = made(300, 1.12e-3, 0.05, 1, 6);
	CHECK(judge(x, y, &a).slower);
	y->reference_time[0] = work(y, 1.1, room[0]);
	y->reference_time[1] = work(y, 1.2, room[1]);
	v = judge(x, y, &a);
	CHECK(!v.slower && v.machine_ratio > 1.1 && v.machine_ratio < 1.14);
	record_free(y);
	/* but by no more than their mean */
	y = made(300, 1.4e-3, 0.05, 1, 6);
	y->reference_time[0] = work(y, 1.1, room[0]);
	y->reference_time[1] = work(y, 1.2, room[1]);
	v = judge(x, y, &a);
	CHECK(v.slower && v.machine_ratio > 1.13 && v.machine_ratio < 1.17);
	record_free(x);
	record_free(y);
	arena_free(&a);
}

/* Of every 50 runs the first `disturbed` wait for a core and take twice as long; the next three take longer without waiting. */
static void disturb(struct record *r, size_t disturbed)
{
	double *delay = arena_new_n(&r->arena, double, r->point[0].n);
	double *time = (double *)(uintptr_t)r->point[0].time;

	for (size_t i = 0; i < r->point[0].n; i++)
		if (i % 50 < disturbed + 3) {
			delay[i] = i % 50 < disturbed ? 1e-3 : 0;
			time[i] *= i % 50 < disturbed ? 2 : 1.3;
		}
	r->point[0].delay = delay;
}

/* Runs in which threads waited for a core are not compared, nor runs within the settle time after them. */
static void gate_leaves_out_disturbed_runs(void)
{
	struct arena a = {0};
	struct record *x = made(400, 1e-3, 0.02, 1, 5), *y = made(400, 1e-3, 0.02, 1, 6);

	disturb(y, 40);
	const double *delay = y->point[0].delay;
	y->point[0].delay = NULL;
	CHECK(judge(x, y, &a).ratio.value > 1);
	y->point[0].delay = delay;
	struct gate_verdict v = judge(x, y, &a);
	CHECK_INT(v.undisturbed_before, 400);
	CHECK_INT(v.undisturbed_now, 56);
	CHECK(!v.slower && !v.busy);
	CHECK(fabs(v.ratio.value - 1) < 0.02);
	record_free(x);
	record_free(y);
	arena_free(&a);
}

/* A few undisturbed runs on a busy machine are a matter of chance: no alarm without a node that stands out. */
static void gate_knows_a_busy_machine(void)
{
	struct arena a = {0};
	struct record *x = made(400, 1e-3, 0.1, 1, 5), *y = made(400, 1.08e-3, 0.1, 1, 6);

	CHECK(judge(x, y, &a).slower);
	disturb(y, 45);
	struct gate_verdict v = judge(x, y, &a);
	CHECK(v.undisturbed_now < 40);
	CHECK(v.busy && !v.slower);
	record_free(y);
	/* growth that no disturbance explains is an alarm all the same */
	y = made(400, 1.3e-3, 0.1, 1, 6);
	disturb(y, 45);
	CHECK(judge(x, y, &a).slower);
	record_free(x);
	record_free(y);
	arena_free(&a);
}

/* Gives the runs the time that their threads worked: `work` seconds, with the noise of caches. */
static void work_for(struct record *r, double work, uint64_t seed)
{
	double *cpu = arena_new_n(&r->arena, double, r->point[0].n);

	for (size_t i = 0; i < r->point[0].n; i++)
		cpu[i] = work * (1 + 0.3 * (double)(stats_random(&seed) >> 11) * 0x1p-53);
	r->point[0].cpu = cpu;
}

/* However long threads waited for cores, a model that makes them work much longer is slower; caches explain some of it. */
static void gate_decides_by_work(void)
{
	struct arena a = {0};
	/* work, latency, operations of a run, as ratios to the baseline */
	static const struct {
		double work, latency, flops;
		bool slower;
	} trials[] = {
		{1, 1.3, 1, false},   {1.2, 1.2, 1, false},  {1.5, 1.5, 1, true},
		{2.5, 2.5, 1, true},  {1.2, 1.2, 1.2, true}, {1, 1.2, 1.2, false},
		{1.5, 0.9, 1, false}, /* more threads at work, and done earlier */
	};

	for (size_t k = 0; k < sizeof(trials) / sizeof(*trials); k++) {
		struct record *x = made(400, 1e-3, 3, 1, 5),
			      *y = made(400, 1e-3 * trials[k].latency, 3, 1, 6);
		work_for(x, 2e-3, 7);
		work_for(y, 2e-3 * trials[k].work, 8);
		y->reference_time[0] = y->reference_time[1] = x->reference_time[0];
		x->flops = 1e6;
		y->flops = 1e6 * trials[k].flops;
		disturb(x, 47);
		disturb(y, 47);
		struct gate_verdict v = judge(x, y, &a);
		CHECK(v.busy && fabs(v.work.value - trials[k].work) < 0.05 * trials[k].work);
		CHECK_INT(v.slower, trials[k].slower);
		/* a baseline of an older version, and a GPU for which threads spin in the driver */
		x->point[0].cpu = NULL;
		CHECK(!judge(x, y, &a).slower);
		x->point[0].cpu = y->point[0].cpu;
		y->id.device = "cuda";
		CHECK(isnan(judge(x, y, &a).work.value));
		record_free(x);
		record_free(y);
	}
	arena_free(&a);
}

/* As `made`, with observed runs of five equal nodes, of which the third is `heavy`; no run is undisturbed. */
static struct record *busy(double machine, double heavy, uint64_t seed)
{
	static const char *const names[] = {"a", "b", "c", "d", "e"};
	enum { RUNS = 60 };
	struct record *r = made(RUNS, 1e-3 * machine, 0.5, 1, seed);
	struct record_node *node = arena_new_n(&r->arena, struct record_node, 5);
	double *delay = arena_new_n(&r->arena, double, RUNS);

	for (size_t k = 0; k < 5; k++) {
		double *time = arena_new_n(&r->arena, double, RUNS);
		for (size_t i = 0; i < RUNS; i++) {
			double x = 1 + 0.1 * (double)(stats_random(&seed) >> 11) * 0x1p-53;
			time[i] = 2e-4 * machine * x * (k == 2 ? heavy : 1);
			delay[i] = 1e-3;
		}
		node[k] = (struct record_node){.name = names[k],
					       .op = "Gemm",
					       .kernel = "fast",
					       .place = "host",
					       .time = time,
					       .typical = time[0],
					       .n = RUNS};
	}
	r->node = node;
	r->nnodes = 5;
	r->nobserved = RUNS;
	r->observed_time = r->point[0].time;
	r->point[0].delay = delay;
	return r;
}

/* The pace changes from one observed run to the next, but a node's growth is found within each run. */
static void gate_sees_through_a_changing_pace(void)
{
	struct arena a = {0};
	struct record *x = busy(1, 1, 11), *y = busy(1, 1.3, 31);
	struct record *both[] = {x, y};

	for (int side = 0; side < 2; side++) {
		struct record *r = both[side];
		for (size_t i = 0; i < r->nobserved; i++)
			for (size_t k = 0; k < r->nnodes; k++)
				((double *)(uintptr_t)r->node[k].time)[i] *=
					(i / (7 + 4 * (size_t)side)) % 3 ? 1 : 1.5;
		for (size_t i = 0; i < r->point[0].n && side; i++)
			((double *)(uintptr_t)r->point[0].time)[i] *=
				1.06;	  /* a node of 20 % that takes 1.3 times as long */
		r->point[0].delay = NULL; /* no waits known: all runs count as undisturbed */
	}
	struct gate_verdict v = judge(x, y, &a);
	CHECK(v.slower && v.nodes_ratio.low > 1.05 && v.nodes_ratio.value > 1.055 &&
	      v.nodes_ratio.value < 1.065);
	CHECK_STR(v.node[0].name, "c");
	/* nodes whose times are below the clock's resolution all have the same pace */
	for (int side = 0; side < 2; side++)
		for (size_t k = 0; k < both[side]->nnodes; k++)
			memset((void *)(uintptr_t)both[side]->node[k].time, 0,
			       both[side]->nobserved * sizeof(double));
	v = judge(x, y, &a);
	CHECK(fabs(v.nodes_ratio.value - 1) < 0.01);
	record_free(x);
	record_free(y);
	arena_free(&a);
}

/* What slows all nodes alike, and no reference workload, is the model: each node has the time that was measured. */
static void gate_names_all_that_grew(void)
{
	struct arena a = {0};
	struct record *x = busy(1, 1, 11), *y = busy(2.2, 1, 31);

	x->point[0].delay = y->point[0].delay = NULL; /* all runs count as undisturbed */
	struct gate_verdict v = judge(x, y, &a);
	CHECK(v.slower && v.machine_ratio < 1.05);
	CHECK_INT(v.nnodes, 5);
	for (size_t k = 0; k < v.nnodes; k++)
		CHECK(v.node[k].slower && fabs(v.node[k].now / v.node[k].before - 2.2) < 0.15);
	record_free(x);
	record_free(y);
	arena_free(&a);
}

/* On a busy machine the latency decides nothing, but all nodes share the machine: one that grew more than the others is slower. */
static void gate_sets_a_node_apart(void)
{
	struct arena a = {0};
	static const struct {
		double machine, heavy;
		bool slower;
	} trials[] = {{1, 1, false},
		      {1.3, 1, false},
		      {0.8, 1, false},
		      {1, 1.5, true},
		      {1.3, 1.5, true},
		      {0.8, 1.5, true},
		      /* all other nodes became faster, this one did not change: it is not slower */
		      {0.6, 1 / 0.6, false}};

	for (size_t k = 0; k < sizeof(trials) / sizeof(*trials); k++) {
		struct record *x = busy(1, 1, 11 + k),
			      *y = busy(trials[k].machine, trials[k].heavy, 31 + k);
		struct gate_verdict v = judge(x, y, &a);
		CHECK(v.busy);
		CHECK_INT(v.slower, trials[k].slower);
		if (trials[k].slower) {
			CHECK_STR(v.node[0].name, "c");
			CHECK(v.node[0].slower && !v.node[1].slower);
			CHECK(v.nodes_ratio.low > 1.05 && v.nodes_ratio.value < 1.15);
		}
		record_free(x);
		record_free(y);
	}
	arena_free(&a);
}

static void gate_of_memory(void)
{
	struct arena a = {0};
	struct record *x = made(50, 1e-3, 0.05, 1, 5), *y = made(50, 1e-3, 0.05, 1, 6);
	struct gate_limits share = {NAN, 0.05, NAN}, size = {NAN, NAN, 200}, none = {0.05, NAN, NAN};

	y->point[0].slab = 1100;
	CHECK(gate_compare(x, y, &share, &a).bigger);
	CHECK(!gate_compare(x, y, &size, &a).bigger);
	CHECK(!gate_compare(x, y, &none, &a).bigger);
	y->point[0].slab = 1040;
	CHECK(!gate_compare(x, y, &share, &a).bigger);
	record_free(x);
	record_free(y);
	arena_free(&a);
}

/* Memory that the process held at its start, such as the baseline that it read, does not count. */
static void gate_of_memory_held_before(void)
{
	struct arena a = {0};
	struct record *x = made(50, 1e-3, 0.05, 1, 5), *y = made(50, 1e-3, 0.05, 1, 6);
	struct gate_limits share = {NAN, 0.05, NAN};
	struct record_phase then[2] = {{.name = "start"}, {.name = "steady state"}}, now[2];

	then[1].live[MEM_HOST][MEM_MODEL] = 1e6;
	memcpy(now, then, sizeof(now));
	now[0].live[MEM_HOST][MEM_MODEL] = 5e5;
	now[1].live[MEM_HOST][MEM_MODEL] = 1.5e6;
	x->phase = then;
	y->phase = now;
	x->nphases = y->nphases = 2;
	CHECK(!gate_compare(x, y, &share, &a).bigger);
	now[1].live[MEM_HOST][MEM_MODEL] = 2.1e6;
	CHECK(gate_compare(x, y, &share, &a).bigger);
	record_free(x);
	record_free(y);
	arena_free(&a);
}

static void gate_limits(void)
{
	struct gate_limits l = {NAN, NAN, NAN};

	CHECK(gate_parse("5%", false, &l) && fabs(l.latency - 0.05) < 1e-12);
	CHECK(gate_parse("0.1", false, &l) && fabs(l.latency - 0.1) < 1e-12);
	CHECK(!gate_parse("5", false, &l));
	CHECK(!gate_parse("x%", false, &l));
	CHECK(!gate_parse("-5%", false, &l));
	CHECK(!gate_parse("2MiB", false, &l));
	CHECK(gate_parse("2MiB", true, &l) && fabs(l.bytes - 0x1p21) < 1);
	CHECK(!gate_parse("2miles", true, &l));
}

static void gate_refuses_another(void)
{
	struct arena a = {0};
	struct identity x = {.hash = "1", .device = "cpu", .threads = 2, .sessions = 1}, y = x;

	CHECK(!gate_differs(&x, &y, &a));
	y.hash = "2";
	CHECK(gate_differs(&x, &y, &a) != NULL);
	y = x;
	y.driver = "580";
	CHECK(gate_differs(&x, &y, &a) != NULL);
	y = x;
	y.threads = 1;
	CHECK(gate_differs(&x, &y, &a) != NULL);
	y = x;
	y.memory_plan = true;
	CHECK(gate_differs(&x, &y, &a) != NULL);
	y = x;
	y.arena = true;
	CHECK(gate_differs(&x, &y, &a) != NULL);
	y = x;
	y.inputs = "x f32 [1,3]"; /* baselines of older versions do not have the inputs */
	CHECK(!gate_differs(&x, &y, &a));
	x.inputs = "x f32 [2,3]";
	CHECK_STR(gate_differs(&x, &y, &a), "inputs: x f32 [2,3] then, x f32 [1,3] now");
	arena_free(&a);
}

static void gate_is_worded(void)
{
	struct profile p = {.gate = true, .limits = {0.05, NAN, NAN}};

	CHECK_STR(gate_word(&p), "No regression");
	p.verdict.busy = true;
	CHECK_STR(gate_word(&p), "Not known: the machine is too busy");
	p.verdict.busy = false;
	p.verdict.undecided = true;
	CHECK_STR(gate_word(&p), "Not known: the measurements do not agree");
	CHECK(gate_unknown(&p));
	p.verdict.busy = true;
	p.limits.latency = NAN; /* memory can be compared on a busy machine */
	CHECK_STR(gate_word(&p), "No regression");
	p.gate = false;
	CHECK_STR(gate_word(&p), "Compared, without a limit");
	p.verdict.bigger = true;
	CHECK_STR(gate_word(&p), "Bigger");
	p.verdict.slower = true;
	CHECK_STR(gate_word(&p), "Slower");
}

/* What was written is read back. */
static void record_survives_json(void)
{
	struct record *x = made(20, 1e-3, 0.05, 1, 5);
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	struct json j;
	struct arena a = {0};

	json_begin(&j, f);
	json_object(&j, NULL);
	record_write(x, &j);
	json_end(&j, '}');
	fclose(f);
	const struct jvalue *v = jread(text, size, "x", E_INTERNAL, &a, NULL);
	struct record *y = v ? record_read(v) : NULL;
	if (CHECK(y != NULL)) {
		CHECK_INT(y->npoints, 1);
		CHECK_INT(y->point[0].n, 20);
		CHECK(!memcmp(y->point[0].time, x->point[0].time, 20 * sizeof(double)));
		CHECK_STR(y->id.model, "m.onnx");
		CHECK_INT(y->nnodes, 2);
		CHECK_STR(y->node[1].name, "large");
		CHECK(!memcmp(y->node[1].time, x->node[1].time, 20 * sizeof(double)));
		CHECK_INT(y->nreference, 20);
	}
	record_free(x);
	record_free(y);
	arena_free(&a);
	free(text);
}

/* A file may have been edited: a size for some dimensions only, and rounds that are no numbers of runs. */
static void edited_record(void)
{
	static const char text[] =
		"{\"identity\": {}, \"dimensions\": [\"a\", \"b\", \"c\"], \"points\": [{\"size\": [7], \"samples\": [1, 2], "
		"\"rounds\": [1e30, -1, 1]}, {\"samples\": [1]}], \"nodes\": [{\"name\": 5}]}";
	struct arena a = {0};
	const struct jvalue *v = jread(text, sizeof(text) - 1, "x", E_INTERNAL, &a, NULL);
	struct record *y = v ? record_read(v) : NULL;

	if (CHECK(y != NULL && y->npoints == 2 && y->ndims == 3)) {
		CHECK(y->point[0].size[0] == 7 && y->point[0].size[2] == 0);
		CHECK(y->point[1].size[0] == 0 && y->point[1].size[2] == 0);
		CHECK_INT(y->point[0].rounds[0], 2);
		CHECK_INT(y->point[0].rounds[1], 0);
		CHECK_INT(y->point[0].rounds[2], 1);
		CHECK_INT(y->nnodes, 1);
		CHECK_STR(y->node[0].name, "");
		CHECK_STR(y->node[0].op, "");
		CHECK_STR(y->point[0].label, "");
	}
	record_free(y);
	arena_free(&a);
}

static void device_survives_json(void)
{
	static const struct record_kernel launch[] = {{"gemm", 2, 3e-5}, {"reduce", 1, 2e-6}};
	static const double series[] = {1, 2, 3};
	struct record *x = made(20, 1e-3, 0.05, 1, 5);
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	struct json j;
	struct arena a = {0};

	((struct record_node *)(uintptr_t)x->node)[1].launch = launch;
	((struct record_node *)(uintptr_t)x->node)[1].nlaunches = 2;
	x->clocks = (struct record_clocks){series, series, series, series, series,
					   series, 3,	   1980,   0,	   700};
	x->timed_by = "CUPTI 13.0";
	x->id.inputs = "x f32 [1,3]";
	x->point[0].copy_in = 1e-6;
	x->point[0].copy_out = 2e-6;
	x->timeline =
		(struct record_timeline){series, series, series, series, series, series, series, 3};
	x->in_bytes = 4096;
	json_begin(&j, f);
	json_object(&j, NULL);
	record_write(x, &j);
	json_end(&j, '}');
	fclose(f);
	const struct jvalue *v = jread(text, size, "x", E_INTERNAL, &a, NULL);
	struct record *y = v ? record_read(v) : NULL;
	if (CHECK(y != NULL)) {
		CHECK_INT(y->node[0].nlaunches, 0);
		CHECK_INT(y->node[1].nlaunches, 2);
		CHECK_STR(y->node[1].launch[0].name, "gemm");
		CHECK(y->node[1].launch[1].seconds == 2e-6);
		CHECK_INT(y->clocks.n, 3);
		CHECK_INT(y->timeline.n, 3);
		CHECK(y->timeline.run[2] == 3 && y->timeline.private[1] == 2);
		CHECK(y->point[0].copy_in == 1e-6 && y->point[0].copy_out == 2e-6);
		CHECK_STR(y->id.inputs, "x f32 [1,3]");
		CHECK(y->clocks.reasons[2] == 3 && y->clocks.sm_most == 1980);
		CHECK_STR(y->timed_by, "CUPTI 13.0");
		CHECK(y->timed_why == NULL && y->in_bytes == 4096);
	}
	record_free(x);
	record_free(y);
	arena_free(&a);
	free(text);
}

static void json_is_read(void)
{
	static const char good[] =
		" {\"a\": [1, -2.5e3, \"NaN\"], \"b\": {\"c\": \"x\\n\\u00e9\\\"\"}, \"t\": true, \"n\": null}";
	static const char *const bad[] = {"",		"{",	 "{\"a\"}", "[1,]",	   "[1 2]",
					  "{\"a\":1}x", "\"abc", "tru",	    "[\"\\u12\"]", "01x",
					  "{a:1}"};
	struct arena a = {0};
	size_t n;
	const struct jvalue *v = jread(good, sizeof(good) - 1, "x", E_INTERNAL, &a, NULL);

	if (CHECK(v != NULL)) {
		const double *d = jnumbers(v, "a", &n, &a);
		CHECK_INT(n, 3);
		CHECK(fabs(d[1] + 2500) < 1e-9 && isnan(d[2]));
		CHECK_STR(jtext(jget(v, "b"), "c"), "x\n\xc3\xa9\"");
		CHECK(jbool(v, "t"));
		CHECK(!jtext(v, "n"));
		CHECK(jget(v, "none") == NULL);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!jread(bad[i], strlen(bad[i]), "x", E_INTERNAL, &a, NULL));
	char deep[400];
	memset(deep, '[', sizeof(deep));
	CHECK(!jread(deep, sizeof(deep), "x", E_INTERNAL, &a, NULL));
	arena_free(&a);
}

/* No element is left open, nothing comes from outside, text is escaped. */
static void page_is_whole(void)
{
	struct arena a = {0};
	struct page p;
	static const char *const heads[] = {"name", "value", NULL};
	double v[300];
	struct page_series s = {.name = "one", .y = v, .n = 300};
	struct page_plot plot = {.title = "t",
				 .x_label = "x",
				 .y_label = "y",
				 .y_unit = PAGE_SECONDS,
				 .series = &s,
				 .nseries = 1};
	struct page_mark m = {"median", 0.5};

	for (int i = 0; i < 300; i++)
		v[i] = i % 7 * 1e-3;
	page_begin(&p, &a, "a <b> & \"c\"", NULL);
	page_fact(&p, "k", "v");
	page_tile(&p, "k", "v", NULL);
	page_section(&p, "s", NULL);
	page_histogram(&p, "h", PAGE_SECONDS, v, 300, &m, 1);
	page_histogram(&p, "none", PAGE_SECONDS, v, 0, NULL, 0);
	page_plot(&p, &plot);
	page_table(&p, heads, "lr");
	page_cell(&p, "<script>");
	page_number(&p, 1, "1");
	page_cell(&p, "half a row");
	page_table_end(&p);
	const char *html = page_end(&p);
	CHECK(strstr(html, "a &lt;b&gt; &amp; &quot;c&quot;") != NULL);
	CHECK(strstr(html, "&lt;script&gt;") != NULL);
	CHECK(!strstr(html, "http") && !strstr(html, "src=") && !strstr(html, "url("));
	CHECK(!strstr(html, "nan") && !strstr(html, "inf,"));
	CHECK(strstr(html, "</html>") != NULL);
	arena_free(&a);
}

static void process_is_seen(void)
{
	struct proc_memory m;
	struct proc_faults before, after;

	CHECK(proc_memory(0, &m));
	CHECK(m.rss > 100000 && m.private <= m.rss * 2);
	CHECK(!m.peak || m.peak >= m.rss); /* 0: a system that does not say */
	CHECK(!proc_memory(1 << 30, &m));
	CHECK(proc_faults(0, &before));
	size_t n = 8 << 20;
	volatile char *p = malloc(n);
	for (size_t i = 0; i < n; i += 4096)
		p[i] = 1;
	CHECK(proc_faults(0, &after));
	/* huge pages need few; 0: a system that does not count */
	CHECK(after.minor > before.minor || !after.minor);
	CHECK(proc_faults((int)getpid(), &after));
	free((void *)(uintptr_t)p);
}

int main(void)
{
	UNIT(sweeps);
	UNIT(empty_sweeps);
	UNIT(gate_is_calm);
	UNIT(gate_names_the_node);
	UNIT(gate_names_all_that_grew);
	UNIT(gate_tells_new_and_gone);
	UNIT(gate_knows_a_slow_machine);
	UNIT(gate_gives_the_benefit_of_the_doubt);
	UNIT(gate_leaves_out_disturbed_runs);
	UNIT(gate_knows_a_busy_machine);
	UNIT(gate_decides_by_work);
	UNIT(gate_sets_a_node_apart);
	UNIT(gate_sees_through_a_changing_pace);
	UNIT(gate_of_memory);
	UNIT(gate_of_memory_held_before);
	UNIT(gate_limits);
	UNIT(gate_refuses_another);
	UNIT(gate_is_worded);
	UNIT(record_survives_json);
	UNIT(edited_record);
	UNIT(device_survives_json);
	UNIT(json_is_read);
	UNIT(page_is_whole);
	UNIT(process_is_seen);
	return unit_end();
}
