/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/node_times.h"

#include "base/clock.h"
#include "base/proc.h"
#include "base/str.h"
#include "profile/device_times.h"
#include "base/hash.h"
#include "plan/exec.h"
#include "profile/kernel_name.h"
#include "session/model_report.h"
#include "base/stats.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DEPTH = 32, ROW_CACHE_SIZE = 1 << 12, MAX_EVENTS = 100000 };

/* A device kernel that a row launches. */
struct launch {
	/* theirs: the pointer that the reader uses for the name, for lookups; name: our copy */
	const char *theirs, *name;
	uint64_t count, ns; /* of all runs that are kept */
};

/* What makes two executions of steps belong to one row. Kept without padding, because it is a key of a map. */
struct row_key {
	const struct origin *from;
	const struct node *node;
	const struct kernel *kernel;
	uint32_t parent; /* row; NO_VALUE: none */
	uint16_t moves, to_device;
};

/* A row of the result stands for a node, or for a copy or reorder of the node's data. */
struct row {
	const struct step *step; /* the step of the row that ran last; a new plan has new steps */
	struct row_key key;
	int depth;
	bool device;
	const char *name, *op, *kernel_name, *fused;
	double flops, bytes, out_bytes, workspace, grown;
	uint64_t ns, calls; /* of the current run */
	uint64_t all_calls; /* of all runs that are kept */
	bool seen;
	double *time; /* indexed by run */
	uint64_t tag; /* number of the row, from 1 */
	struct launch *launch;
	size_t nlaunches;
};

/* A step that is running. Steps of a body run inside the step of the control flow node. */
struct frame {
	struct row *row;
	uint64_t start, inside; /* inside: ns that the steps of its bodies took */
	uint64_t rss;
};

struct node_times {
	struct observer observer;
	const struct session *session;
	const struct runtime *rt;
	struct arena arena;
	struct row **row;
	uint32_t nrows, cap_rows;
	struct map row_number; /* by row_key */
	struct vinfo *info;    /* scratch of set_work(), indexed by value id */
	uint32_t cap_info;
	struct row *slot[ROW_CACHE_SIZE]; /* indexed by step */
	struct frame stack[MAX_DEPTH];
	int depth, too_deep;
	size_t run, runs;
	double *total;		     /* indexed by run */
	struct device_times *device; /* NULL: everything runs on the host */
	const char *timed_by, *timed_why;
	/* event of the step whose device work is being read; its name is NULL if there is none */
	struct node_event group;
	double held, in_bytes, out_bytes; /* sums over the runs that are kept */
	int statm; /* open /proc/self/statm, or -1 if memory is not watched */
	/* keep: keep events for a trace; active: node_times_begin was called, node_times_end not yet */
	bool keep, active;
	struct node_event *event;
	size_t nevents, cap_events, kept; /* kept: number before the current run */
};

/* ---- rows */

static bool is_copy(const struct step *s)
{
	return ((const struct step_plan *)(const void *)s)->copy;
}

static bool is_reorder(const struct step *s)
{
	return ((const struct step_plan *)(const void *)s)->reorder;
}

/*
 * Whether a copy goes to the device. This must be known because a fused node that is both the model's first and last
 * node has copies both ways.
 */
static bool copies_to_device(const struct step *s, const struct call *c)
{
	return is_copy(s) && s->nin && c->in[0] && !c->in[0]->device;
}

/* The key of the row to which the step belongs while it runs inside the step of row `parent`. */
static struct row_key key_of(const struct step *s, uint32_t parent, bool in)
{
	return (struct row_key){.from = s->from,
				.node = s->node,
				.kernel = s->kernel,
				.parent = parent,
				.moves = is_copy(s) || is_reorder(s),
				.to_device = in};
}

static const char *fused_names(struct node_times *n, const struct origin *o)
{
	struct str b = {.arena = &n->arena};

	for (uint32_t i = 0; o && i < o->nfused; i++)
		str_addf(&b, "%s%s", i ? ", " : "", o->fused[i]->name);
	return b.n ? str_get(&b) : NULL;
}

/*
 * Returns the operator by which a reader knows the node: of nodes that were fused the main one of the file, such as Conv, or what
 * they make together, such as Attention.
 */
static const char *operator_name(const struct op *op, const struct origin *from)
{
	if (!op)
		return "?";
	if (!(op->flags & OP_INTERNAL))
		return op_qualified(op);
	bool named_in_file = op->flags & (OP_CONVOLUTION | OP_PRODUCT | OP_ELEMENTWISE);
	return named_in_file && from && from->op ? from->op : op->name;
}

static void set_value_info(struct vinfo *info, const struct graph *g, const uint32_t *ids,
			   uint32_t n, const struct tensor *const *t)
{
	for (uint32_t i = 0; i < n; i++) {
		if (ids[i] == NO_VALUE)
			continue;
		info[ids[i]] = g->value[ids[i]]->info;
		if (t[i])
			info[ids[i]] = (struct vinfo){.type = t[i]->type, .shape = t[i]->shape};
	}
}

/* Sets the row's FLOPs and bytes moved, for the shapes of this run. */
static void set_work(struct node_times *n, struct row *r, const struct call *c)
{
	const struct node *node = c->step->node;
	const struct graph *g = ((const struct binding *)c->owner)->x->graph;

	r->flops = r->bytes = 0;
	if (r->key.moves || node->nsub)
		return;
	struct arena a = {0};
	if (n->cap_info < g->nvalues) {
		n->cap_info = g->nvalues;
		n->info = arena_new_n(&n->arena, struct vinfo, n->cap_info);
	}
	set_value_info(n->info, g, node->in, node->nin, c->in);
	set_value_info(n->info, g, node->out, node->nout, (const struct tensor *const *)c->out);
	struct cost k = report_cost(g, node, n->info, &a);
	if (k.known) {
		r->flops = (double)k.flops;
		r->bytes = (double)k.bytes;
	}
	arena_free(&a);
}

static void set_sizes(struct node_times *n, struct row *r, const struct call *c)
{
	r->out_bytes = 0;
	for (uint32_t i = 0; i < c->step->nout; i++)
		if (c->out[i])
			r->out_bytes += (double)(c->out[i]->bytes + c->out[i]->blob_bytes);
	r->workspace = (double)c->step->workspace;
	if (c->step->nop)
		r->flops = r->bytes = r->out_bytes = 0;
	else
		set_work(n, r, c);
	if (r->key.moves)
		r->bytes = 2 * r->out_bytes;
}

static const char *kernel_name(const struct step *s, bool in)
{
	return is_copy(s)			? in ? "to device" : "to host"
	       : is_reorder(s)			? "reorder"
	       : s->nop				? "view"
	       : !s->kernel			? "view"
	       : s->kernel->flags & K_REFERENCE ? "reference"
						: "fast";
}

static struct row *new_row(struct node_times *n, const struct step *s, uint32_t parent, bool in)
{
	struct row *r = arena_new(&n->arena, struct row);
	const char *name = s->from ? s->from->name : "?";
	const char *inside = parent == NO_VALUE ? NULL : n->row[parent]->name;

	r->key = key_of(s, parent, in);
	r->depth = n->depth;
	r->device =
		has_device(n->rt) && ((const struct step_plan *)(const void *)s)->device == DEVICE;
	r->name = inside ? arena_printf(&n->arena, "%s / %s", inside, name) : name;
	r->op = is_copy(s)	? "Copy"
		: is_reorder(s) ? "Reorder"
				: operator_name(s->node->op, s->from);
	r->op = arena_str(&n->arena, r->op);
	r->kernel_name = kernel_name(s, in);
	r->fused = fused_names(n, s->from);
	r->time = arena_new_n(&n->arena, double, n->runs + 1);
	if (n->nrows == n->cap_rows) {
		n->cap_rows = n->cap_rows ? 2 * n->cap_rows : 64;
		n->row = arena_grow(&n->arena, n->row, n->nrows, n->cap_rows, sizeof(struct row *));
	}
	n->row_number.arena = &n->arena;
	map_set(&n->row_number, (const char *)&r->key, sizeof(r->key), n->nrows);
	n->row[n->nrows++] = r;
	r->tag = n->nrows;
	return r;
}

/*
 * Finds the row of a step. The step's address finds it quickly; if a new plan has made new steps for the same nodes,
 * the row is found by what the step runs.
 */
static struct row *find_row(struct node_times *n, const struct step *s, bool in)
{
	size_t at = ((uintptr_t)s >> 6) * 0x9e3779b1u % ROW_CACHE_SIZE;
	struct row *above = n->depth ? n->stack[n->depth - 1].row : NULL, *r = n->slot[at];
	uint32_t parent = above ? (uint32_t)above->tag - 1 : NO_VALUE;
	struct row_key key = key_of(s, parent, in);

	if (r && r->step == s && !memcmp(&r->key, &key, sizeof(key)))
		return r;
	int64_t at_row = map_get(&n->row_number, (const char *)&key, sizeof(key));
	r = at_row < 0 ? new_row(n, s, parent, in) : n->row[at_row];
	r->step = s;
	n->slot[at] = r;
	return r;
}

/* ---- events for a trace */

static void keep_event(struct node_times *n, const struct node_event *e)
{
	if (!n->keep || !n->active || n->nevents >= MAX_EVENTS)
		return;
	if (n->nevents == n->cap_events) {
		size_t cap = n->cap_events ? n->cap_events * 2 : 1024;
		n->event = arena_grow(&n->arena, n->event, n->nevents, cap, sizeof(*n->event));
		n->cap_events = cap;
	}
	n->event[n->nevents++] = *e;
}

static struct node_event row_event(const struct row *r, uint64_t start, uint64_t ns, bool device)
{
	return (struct node_event){.start = start,
				   .ns = ns,
				   .name = r->name,
				   .op = r->op,
				   .kernel = r->kernel_name,
				   .fused = r->fused,
				   .kind = r->key.moves && !strcmp(r->op, "Copy") ? EVENT_COPY
										  : EVENT_STEP,
				   .device = device,
				   .depth = r->depth + 1,
				   .bytes = r->out_bytes};
}

static void keep_step_event(struct node_times *n, const struct row *r, uint64_t start, uint64_t ns,
			    bool device)
{
	struct node_event e = row_event(r, start, ns, device);

	keep_event(n, &e);
}

/* ---- the observer */

static uint64_t resident_bytes(const struct node_times *n)
{
	uint64_t rss = 0, unshared;

	if (n->statm >= 0)
		proc_sample(n->statm, &rss, &unshared);
	return rss;
}

static void begin_step(struct observer *o, const struct step *s, const struct call *c)
{
	struct node_times *n = (struct node_times *)(void *)o;

	if (n->depth == MAX_DEPTH) {
		n->too_deep++;
		return;
	}
	struct row *r = find_row(n, s, copies_to_device(s, c));
	struct frame *f = &n->stack[n->depth++];
	*f = (struct frame){.row = r, .rss = resident_bytes(n)};
	if (n->device)
		device_times_enter(n->device, r->tag, r->device, is_copy(s));
	f->start = clock_ns();
}

static void end_step(struct observer *o, const struct step *s, const struct call *c)
{
	struct node_times *n = (struct node_times *)(void *)o;
	uint64_t now = clock_ns();

	(void)s;
	if (n->too_deep) {
		n->too_deep--;
		return;
	}
	struct frame *f = &n->stack[--n->depth];
	struct row *r = f->row;
	uint64_t ns = now - f->start;
	if (!r->seen)
		set_sizes(n, r, c);
	r->seen = true;
	r->calls++;
	if (n->device)
		device_times_leave(n->device, r->tag, r->device);
	if (!n->device || !r->device) {
		r->ns += ns - (f->inside < ns ? f->inside : ns);
		keep_step_event(n, r, f->start, ns, false);
	}
	if (n->statm >= 0) {
		uint64_t rss = resident_bytes(n);
		r->grown += rss > f->rss ? (double)(rss - f->rss) : 0;
	}
	/*
	 * this time includes the observation itself, so that observing a body does not count as time of the control
	 * flow node
	 */
	if (n->depth)
		n->stack[n->depth - 1].inside += clock_ns() - f->start;
}

struct node_times *node_times_new(struct session *s, size_t runs, bool events, struct diag *d)
{
	struct node_times *n = calloc(1, sizeof(*n));

	if (!n) {
		FAIL(d, E_MEMORY, .message = NULL);
		return NULL;
	}
	n->observer = (struct observer){.begin = begin_step, .end = end_step};
	n->session = s;
	n->rt = session_runtime(s);
	n->runs = runs;
	n->keep = events;
	n->statm = -1;
	n->timed_by = "clock";
	n->device = device_times_new(n->rt);
	n->total = arena_new_n(&n->arena, double, runs + 1);
	return n;
}

void node_times_free(struct node_times *n)
{
	if (!n)
		return;
	device_times_free(n->device);
	if (n->statm >= 0)
		close(n->statm);
	arena_free(&n->arena);
	free(n);
}

struct observer *node_times_observer(struct node_times *n)
{
	return &n->observer;
}

void node_times_watch_memory(struct node_times *n, bool on)
{
	if (n->statm >= 0)
		close(n->statm);
	n->statm = on ? proc_open(0) : -1;
}

void node_times_trace(struct node_times *n, bool on)
{
	if (!n->device)
		return;
	device_times_trace(n->device, on);
	if (!on)
		return;
	n->timed_by = arena_str(&n->arena, device_times_source(n->device));
	n->timed_why = arena_str(&n->arena, device_times_why(n->device));
}

int node_times_begin(struct node_times *n, struct diag *d)
{
	n->depth = n->too_deep = 0;
	n->active = n->statm < 0;
	n->kept = n->nevents;
	for (uint32_t i = 0; i < n->nrows; i++)
		n->row[i]->ns = n->row[i]->calls = 0;
	return n->device ? device_times_begin(n->device, d) : 0;
}

/* ---- what the device did */

static void count_launch(struct node_times *n, struct row *r, const struct device_time *t)
{
	size_t k = 0;

	while (k < r->nlaunches && r->launch[k].theirs != t->what->name)
		k++;
	if (k == r->nlaunches) {
		r->launch = arena_append(&n->arena, r->launch, k, sizeof(*r->launch));
		r->launch[k] = (struct launch){.theirs = t->what->name,
					       .name = arena_str(&n->arena, t->what->name)};
		r->nlaunches++;
	}
	r->launch[k].count++;
	r->launch[k].ns += t->ns;
}

static void end_step_event(struct node_times *n)
{
	if (n->group.name)
		keep_event(n, &n->group);
	n->group.name = NULL;
}

/* Merges consecutive device work of one step into one event of the trace, from the first begin to the last end. */
static void extend_step_event(struct node_times *n, const struct row *r, const struct device_time *t)
{
	if (n->group.name && (!r || n->group.name != r->name || n->group.op != r->op))
		end_step_event(n);
	if (!r)
		return;
	if (!n->group.name)
		n->group = row_event(r, t->start + t->ns - t->alone, 0, true);
	n->group.ns = t->start + t->ns - n->group.start;
}

static void keep_device_event(struct node_times *n, const struct row *r, const struct device_time *t)
{
	static const struct {
		enum event_kind kind;
		const char *name;
	} kinds[] = {[ACTIVITY_KERNEL] = {EVENT_KERNEL, NULL},
		     [ACTIVITY_TO_DEVICE] = {EVENT_TO_DEVICE, "host to device"},
		     [ACTIVITY_TO_HOST] = {EVENT_TO_HOST, "device to host"},
		     [ACTIVITY_COPY] = {EVENT_ON_DEVICE, "on the device"},
		     [ACTIVITY_SET] = {EVENT_SET, "fill"}};
	const struct activity *a = t->what;

	extend_step_event(n, r, t);
	if (!n->keep)
		return;
	/*
	 * kernels may overlap, but events of one track must not, so the event begins when the previous kernel has
	 * ended
	 */
	struct node_event e = {.start = t->start + t->ns - t->alone,
			       .ns = t->alone,
			       .name = a->name ? kernel_short_name(a->name, &n->arena)
					       : kinds[a->kind].name,
			       .op = r ? r->name : NULL,
			       .kernel = a->name ? arena_str(&n->arena, a->name) : NULL,
			       .kind = kinds[a->kind].kind,
			       .device = true,
			       .bytes = (double)a->bytes};
	keep_event(n, &e);
}

static void on_device_time(void *arg, const struct device_time *t)
{
	struct node_times *n = arg;
	struct row *r = t->tag && t->tag <= n->nrows ? n->row[t->tag - 1] : NULL;

	if (r && r->device)
		r->ns += t->alone;
	if (!t->what) {
		if (r)
			keep_step_event(n, r, t->start, t->ns, true);
		return;
	}
	if (r && t->what->kind == ACTIVITY_KERNEL)
		count_launch(n, r, t);
	n->in_bytes += t->what->kind == ACTIVITY_TO_DEVICE ? (double)t->what->bytes : 0;
	n->out_bytes += t->what->kind == ACTIVITY_TO_HOST ? (double)t->what->bytes : 0;
	keep_device_event(n, r, t);
}

/*
 * Reads what the device did. Returns for how many ns, at the begin of the run, the device was held until all work was
 * queued.
 */
static uint64_t read_device(struct node_times *n, uint64_t start, uint64_t end, struct diag *d,
			    int *err)
{
	*err = device_times_read(n->device, on_device_time, n, d);
	end_step_event(n);
	uint64_t over = device_times_over(n->device);
	if (*err || over <= start || over >= end)
		return 0;
	keep_event(n, &(struct node_event){.start = start,
					   .ns = over - start,
					   .name = "held until all work is queued",
					   .kind = EVENT_HELD,
					   .device = true});
	return over - start;
}

static void ignore_device_time(void *arg, const struct device_time *t)
{
	(void)arg, (void)t;
}

int node_times_skip(struct node_times *n, struct diag *d)
{
	n->active = false;
	n->nevents = n->kept;
	return n->device ? device_times_read(n->device, ignore_device_time, NULL, d) : 0;
}

int node_times_end(struct node_times *n, uint64_t start, uint64_t ns, struct diag *d)
{
	uint64_t held = 0;
	int err = 0;

	if (n->run >= n->runs)
		return 0;
	if (n->device)
		held = read_device(n, start, start + ns, d, &err);
	if (err)
		return err;
	keep_event(n,
		   &(struct node_event){.start = start, .ns = ns, .name = "run", .kind = EVENT_RUN});
	n->active = false;
	n->held += (double)held * 1e-9;
	n->total[n->run] = (double)(ns - held) * 1e-9;
	for (uint32_t i = 0; i < n->nrows; i++) {
		n->row[i]->time[n->run] = (double)n->row[i]->ns * 1e-9;
		n->row[i]->all_calls += n->row[i]->calls;
	}
	n->run++;
	if (n->nevents >=
	    MAX_EVENTS) { /* the trace is full: drop this run, so that every traced run is complete */
		n->nevents = n->kept ? n->kept : n->nevents;
		n->keep = false;
	}
	return 0;
}

/* ---- results */

/* The steps of a plan by their origin: `first` has the number of the first one, next[i] the one after i, or NO_VALUE. */
struct planned {
	const struct segment_report *plan;
	struct map first;
	uint32_t *next;
};

static struct planned index_plan(const struct segment_report *plan, struct arena *a)
{
	struct planned p = {.plan = plan, .first = {.arena = a}};

	if (!plan)
		return p;
	p.next = arena_new_n(a, uint32_t, plan->nsteps + 1);
	for (uint32_t i = plan->nsteps; i-- > 0;) {
		const char *key = (const char *)&plan->steps[i].from;
		int64_t after = map_get(&p.first, key, sizeof(plan->steps[i].from));
		p.next[i] = after < 0 ? NO_VALUE : (uint32_t)after;
		map_set(&p.first, key, sizeof(plan->steps[i].from), i);
	}
	return p;
}

/* Returns the planned memory that is in use while a row's step runs. */
static double planned_live_bytes(const struct planned *p, const struct row *r)
{
	int64_t first = map_get(&p->first, (const char *)&r->key.from, sizeof(r->key.from));

	for (uint32_t i = first < 0 ? NO_VALUE : (uint32_t)first; i != NO_VALUE; i = p->next[i])
		if (!strcmp(p->plan->steps[i].op, r->op))
			return (double)p->plan->steps[i].live;
	return 0;
}

/*
 * Returns the mean of v over the runs that are no slower than the median run. These are the same runs for all nodes,
 * so that the nodes' means add up to the mean of the runs.
 */
static double faster_half_mean(const struct node_times *n, const double *v)
{
	double limit = stats_quantile_of(n->total, n->run, 0.5), sum = 0;
	size_t runs = 0;

	for (size_t k = 0; k < n->run; k++)
		if (n->total[k] <= limit) {
			sum += v[k];
			runs++;
		}
	return runs ? sum / (double)runs : 0;
}

static double calls_per_run(const struct node_times *n, const struct row *r)
{
	return n->run ? (double)r->all_calls / (double)n->run : 0;
}

void node_times_copies(const struct node_times *n, double *in, double *out)
{
	*in = *out = 0;
	for (uint32_t i = 0; i < n->nrows; i++)
		if (!strcmp(n->row[i]->op, "Copy"))
			*(n->row[i]->key.to_device ? in : out) +=
				faster_half_mean(n, n->row[i]->time);
}

void node_times_work(const struct node_times *n, struct record *r)
{
	r->flops = r->bytes = 0;
	for (uint32_t i = 0; i < n->nrows; i++) {
		r->flops += n->row[i]->flops * calls_per_run(n, n->row[i]);
		r->bytes += n->row[i]->bytes * calls_per_run(n, n->row[i]);
	}
}

static void fill_record_node(const struct node_times *n, const struct row *r,
			     const struct planned *plan, struct record *to, struct record_node *out)
{
	struct arena *a = &to->arena;
	double calls = calls_per_run(n, r);

	*out = (struct record_node){.name = arena_str(a, r->name),
				    .op = arena_str(a, r->op),
				    .kernel = r->kernel_name,
				    .place = has_device(n->rt) && r->device ? "device" : "host",
				    .fused = arena_str(a, r->fused),
				    .depth = r->depth,
				    .calls = calls,
				    .n = n->run,
				    .typical = faster_half_mean(n, r->time),
				    .low = stats_quantile_of(r->time, n->run, 0.1),
				    .flops = r->flops * calls,
				    .bytes = r->bytes * calls,
				    .out_bytes = r->out_bytes,
				    .workspace = r->workspace,
				    .live = r->depth ? 0 : planned_live_bytes(plan, r),
				    .grown = r->grown};
	out->time = arena_dup(a, r->time, n->run * sizeof(double));
	struct record_kernel *launch = arena_new_n(a, struct record_kernel, r->nlaunches + 1);
	for (size_t i = 0; i < r->nlaunches; i++)
		launch[i] = (struct record_kernel){arena_str(a, r->launch[i].name),
						   (double)r->launch[i].count / (double)n->run,
						   (double)r->launch[i].ns * 1e-9 / (double)n->run};
	out->launch = launch;
	out->nlaunches = r->nlaunches;
}

void node_times_record(const struct node_times *n, const struct segment_report *plan, struct record *r)
{
	struct record_node *to = arena_new_n(&r->arena, struct record_node, n->nrows + 1);

	struct arena scratch = {0};
	struct planned planned = index_plan(plan, &scratch);

	for (uint32_t i = 0; i < n->nrows; i++)
		fill_record_node(n, n->row[i], &planned, r, &to[i]);
	arena_free(&scratch);
	node_times_work(n, r);
	r->node = to;
	r->nnodes = n->nrows;
	r->nobserved = n->run;
	r->observed_time = arena_dup(&r->arena, n->total, n->run * sizeof(double));
	r->observed = faster_half_mean(n, n->total);
	r->timed_by = arena_str(&r->arena, n->timed_by);
	r->timed_why = arena_str(&r->arena, n->timed_why);
	double runs = n->run ? (double)n->run : 1;
	r->held = n->held / runs;
	r->in_bytes = n->in_bytes / runs;
	r->out_bytes = n->out_bytes / runs;
	r->gaps = r->observed;
	for (uint32_t i = 0; i < n->nrows; i++)
		r->gaps -= to[i].typical;
	for (uint32_t i = 0; i < n->nrows; i++)
		to[i].share = r->observed > 0 ? to[i].typical / r->observed : 0;
	node_times_copies(n, &r->copy_in, &r->copy_out);
}

const struct node_event *node_times_events(const struct node_times *n, size_t *count)
{
	*count = n->nevents;
	return n->event;
}
