/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "plan/derive.h"
#include "plan/exec.h"
#include "plan/extend.h"
#include "plan/lower.h"
#include "plan/replay.h"
#include "plan/upload.h"

#include <string.h>

enum { CACHED_PLANS = 8 }; /* maximum number of plans kept for one position of the graph */

struct instance *instance_new(const struct graph *g, struct runtime *rt)
{
	struct arena a = {0};
	struct instance *x = arena_new(&a, struct instance);

	x->arena = a;
	x->graph = g;
	x->rt = rt;
	x->states = arena_new_n(&x->arena, struct node_state *, g->nnodes + 1);
	x->prepared = arena_new_n(&x->arena, struct prepared *, g->nnodes + 1);
	x->bodies = arena_new_n(&x->arena, struct body **, g->nnodes + 1);
	x->segments = arena_new_n(&x->arena, struct segment *, g->norder + 1);
	x->slabs = arena_new_n(&x->arena, struct slab, g->norder + 1);
	x->live = arena_new_n(&x->arena, const struct tensor *, g->nvalues + 1);
	return x;
}

static void free_segments(struct instance *x)
{
	for (uint32_t p = 0; p <= x->graph->norder; p++) {
		while (x->segments[p]) {
			struct segment *s = x->segments[p];
			x->segments[p] = s->next;
			segment_free(x, s);
		}
		slab_fit(x, p);
	}
}

void instance_forget(struct instance *x)
{
	free_segments(x);
}

void instance_free(struct instance *x)
{
	if (!x)
		return;
	free_segments(x);
	for (uint32_t i = 0; i < x->graph->nnodes; i++) {
		for (struct node_state *st = x->states[i]; st; st = st->next)
			if (st->kernel->drop_node && st->state)
				st->kernel->drop_node(st->state);
		for (uint32_t k = 0; x->bodies[i] && k < x->graph->node[i]->nsub; k++)
			instance_free(((struct plan_body *)x->bodies[i][k])->instance);
	}
	struct arena a = x->arena;
	arena_free(&a);
}

/* Whether t has the contents that the plan assumed; contents on the device are fetched first. */
static bool same_contents(const struct instance *x, const struct tensor *t, const struct tensor *want)
{
	struct arena a = {0};
	const struct tensor *host = on_host(x->rt, t, &a, NULL);
	bool same = host && tensor_same(host, want);

	arena_free(&a);
	return same;
}

/* Whether the conditions of the segment's plan hold for the values of this run. */
static bool segment_fits(const struct instance *x, const struct segment *s)
{
	if (s->parity != x->parity)
		return false;
	for (uint32_t i = 0; i < s->nconditions; i++) {
		const struct condition *c = &s->conditions[i];
		const struct tensor *t = x->live[c->value];
		if (!t || !type_equal(t->type, c->type) || t->device != c->device)
			return false;
		if (t->type.kind == V_TENSOR && !shape_equal(&t->shape, &c->shape))
			return false;
		if (c->contents && !same_contents(x, t, c->contents))
			return false;
	}
	return true;
}

static struct segment *find_segment(struct instance *x, uint32_t first)
{
	for (struct segment *s = x->segments[first]; s; s = s->next)
		if (segment_fits(x, s))
			return s;
	return NULL;
}

/* Frees the plan used longest ago if the position has more than CACHED_PLANS of them. Its memory stays: a run may be using it. */
static void evict_oldest(struct instance *x, uint32_t first)
{
	struct segment **oldest = NULL;
	int n = 0;

	for (struct segment **p = &x->segments[first]; *p; p = &(*p)->next) {
		n++;
		if (!oldest || (*p)->used < (*oldest)->used)
			oldest = p;
	}
	if (n <= CACHED_PLANS)
		return;
	struct segment *s = *oldest;
	*oldest = s->next;
	segment_free(x, s);
}

static int add_segment(struct instance *x, uint32_t first, struct segment **out, struct diag *d)
{
	struct segment *s = x->segments[first] ? segment_derive(x, x->segments[first]) : NULL;
	int err = s ? 0 : segment_plan(x, first, &s, d);

	if (err)
		return err;
	x->plans++;
	if (s->end == first && first < x->graph->norder) {
		const struct origin *o = x->graph->node[x->graph->order[first]]->origin;
		segment_free(x, s);
		return FAIL(d, E_SHAPE, .node = o->name, .op = o->op,
			    .message = "its shape depends on a value that no node before it makes");
	}
	s->next = x->segments[first];
	x->segments[first] = s;
	s->used = ++x->clock;
	*out = s;
	return 0;
}

static int get_segment(struct instance *x, uint32_t first, struct segment **out, struct diag *d)
{
	struct segment *s = find_segment(x, first);

	if (!s) {
		uint64_t start = clock_ns();
		int err = add_segment(x, first, &s, d);
		x->rt->plan_ns += clock_ns() - start;
		if (err)
			return err;
	}
	s->used = ++x->clock;
	evict_oldest(x, first);
	slab_fit(x, first);
	*out = s;
	return segment_bind(x, s, d);
}

void instance_release(struct instance *x)
{
	for (uint32_t p = 0; p <= x->graph->norder; p++)
		slab_drop(x, p);
	for (uint32_t i = 0; i < x->graph->nnodes; i++)
		for (uint32_t k = 0; x->bodies[i] && k < x->graph->node[i]->nsub; k++)
			instance_release(((struct plan_body *)x->bodies[i][k])->instance);
}

static void set_inputs(struct instance *x, const struct tensor *const *in)
{
	const struct graph *g = x->graph;

	for (uint32_t i = 0; i < g->nvalues; i++)
		x->live[i] = g->value[i]->init;
	for (uint32_t i = 0; i < g->nin + g->ncap; i++)
		if (!x->live[g->in[i]])
			x->live[g->in[i]] = in[i];
}

void instance_place(struct instance *x, uint32_t k, struct placed to)
{
	if (!x->placed)
		x->placed = arena_new_n(&x->arena, struct placed, x->graph->nout + 1);
	x->placed[k] = to;
}

int instance_run(struct instance *x, const struct tensor *const *in, const struct tensor **out,
		 struct diag *d)
{
	const struct graph *g = x->graph;

	set_inputs(x, in);
	for (uint32_t at = 0; at < g->norder;) {
		struct segment *s = NULL;
		int err = get_segment(x, at, &s, d);
		if (!err)
			err = segment_run(x, s, d);
		if (err)
			return err;
		at = s->end;
	}
	for (uint32_t k = 0; k < g->nout; k++) {
		out[k] = x->live[g->out[k]];
		if (!out[k])
			return FAIL(d, E_INTERNAL, .message = "the run did not make an output",
				    .slot = g->out_name[k]);
	}
	return 0;
}

/*
 * Sets steps[k].live to the number of bytes of values and workspace that are in use while step k runs, in the slab of
 * the host or device on which the step runs.
 */
static void set_live_bytes(const struct segment *s, struct step_report *steps)
{
	struct arena scratch = {0};
	/* change[d][k]: bytes that begin to live on d at step k, minus those that ended before it; modulo 2^64 */
	size_t *change[PLACES], live[PLACES] = {0};

	for (int d = 0; d < PLACES; d++)
		change[d] = arena_new_n(&scratch, size_t, (size_t)s->nsteps + 2);
	for (uint32_t i = 0; i < s->nslots; i++) {
		const struct slot_plan *p = &s->slots[i];
		if (p->place != PLACE_SLAB || p->dies < p->born)
			continue;
		change[p->desc.device][p->born] += p->desc.bytes;
		change[p->desc.device][p->dies < s->nsteps ? p->dies + 1 : s->nsteps + 1] -=
			p->desc.bytes;
	}
	for (uint32_t k = 0; k < s->nsteps; k++) {
		for (int d = 0; d < PLACES; d++)
			live[d] += change[d][k];
		steps[k].live = live[s->steps[k].device] + s->steps[k].step.workspace;
	}
	arena_free(&scratch);
}

static void report_segment(const struct runtime *rt, const struct segment *s, const struct graph *g,
			   struct segment_report *r)
{
	*r = (struct segment_report){.nsteps = s->nsteps,
				     .slab_bytes = s->slab_bytes[has_device(rt)],
				     .host_bytes = has_device(rt) ? s->slab_bytes[HOST] : 0,
				     .value_bytes = s->value_bytes,
				     .workspace = s->workspace,
				     .first = s->first,
				     .end = s->end,
				     .whole = s->first == 0 && s->end == g->norder};
	struct segment *writable = (struct segment *)(uintptr_t)s;
	struct step_report *steps = arena_new_n(&writable->arena, struct step_report, s->nsteps + 1);
	for (uint32_t i = 0; i < s->nsteps; i++) {
		const struct step_plan *p = &s->steps[i];
		steps[i] = (struct step_report){
			.from = p->step.from,
			.op = p->copy	   ? "Copy"
			      : p->reorder ? "Reorder"
					   : op_qualified(p->step.node->op),
			.kernel = p->copy				  ? "copy"
				  : p->reorder				  ? "reorder"
				  : p->run == view_run			  ? "view"
				  : (p->step.kernel->flags & K_REFERENCE) ? "reference"
									  : "fast",
			.reference = !p->copy && (p->step.kernel->flags & K_REFERENCE),
			.dynamic = p->step.dynamic,
			.nop = p->step.nop,
			.reorder = p->reorder,
			.copy = p->copy,
			.host = has_device(rt) && p->device == HOST && !p->copy && p->run != view_run,
			.workspace = p->step.workspace};
		for (uint32_t k = 0; k < p->step.nout; k++)
			if (p->out[k] != NO_VALUE)
				steps[i].out_bytes += s->slots[p->out[k]].desc.bytes;
	}
	set_live_bytes(s, steps);
	for (uint32_t i = 0, number = 0; i < s->nranges; i++) {
		number += s->ranges[i].graph;
		for (uint32_t k = s->ranges[i].first; k < s->ranges[i].end; k++)
			steps[k].graph = s->ranges[i].graph ? number : 0;
	}
	r->steps = steps;
}

int instance_prepare(struct instance *x, const struct tensor *const *in,
		     struct segment_report *report, struct diag *d)
{
	struct segment *s = NULL;

	set_inputs(x, in);
	if (!x->graph->norder)
		return 0;
	int err = get_segment(x, 0, &s, d);
	if (!err && report)
		report_segment(x->rt, s, x->graph, report);
	return err;
}

/* The segment that ran last, of those of its parity, except s: what it has recorded may be changed. */
static struct segment *ran_before(const struct instance *x, const struct segment *s)
{
	struct segment *ran = NULL;

	for (struct segment *o = x->segments[0]; o; o = o->next)
		if (o != s && o->parity == s->parity && (!ran || o->used > ran->used))
			ran = o;
	return ran;
}

void instance_plan_ahead(struct instance *x, const struct tensor *const *in)
{
	struct diag unread = {0};
	struct segment *s;

	x->steps = true;
	set_inputs(x, in);
	if (x->graph->norder && !find_segment(x, 0) && !add_segment(x, 0, &s, &unread)) {
		segment_record(x, s, ran_before(x, s), false);
		evict_oldest(x, 0); /* or the next run would, before the device has work */
	}
	diag_free(&unread);
}

/* The bytes that the segment gives value v: 0 if it does not make it. */
static size_t result_bytes(const struct segment *s, uint32_t v)
{
	for (uint32_t i = 0; i < s->nresults; i++)
		if (s->slots[s->results[i]].value == v)
			return s->slots[s->results[i]].desc.bytes;
	return 0;
}

bool instance_foresee(struct instance *x, const struct tensor *const *in, unsigned parity,
		      size_t *bytes)
{
	struct diag unread = {0};
	struct segment *s = NULL;

	x->steps = true;
	x->parity = parity;
	set_inputs(x, in);
	if (x->graph->norder && (s = find_segment(x, 0)) == NULL)
		(void)add_segment(x, 0, &s, &unread);
	diag_free(&unread);
	x->foreseen = s;
	if (!s || s->end != x->graph->norder || !segment_launches(s))
		return false;
	for (uint32_t k = 0; bytes && k < x->graph->nout; k++)
		bytes[k] = result_bytes(s, x->graph->out[k]);
	return true;
}

static uint32_t index_of(const uint32_t *values, uint32_t n, uint32_t value)
{
	uint32_t i = 0;

	while (i < n && values[i] != value)
		i++;
	return i;
}

bool instance_grows(const struct instance *x, uint32_t in, uint32_t out, instance_fed *fed,
		    const void *arg, uint32_t *at)
{
	const struct graph *g = x->graph;
	const struct segment *s = x->foreseen;
	struct extension how;

	if (!s || s->end != g->norder || !output_takes_capacity(x, s, out, &how) ||
	    s->slots[how.from].value != g->in[in])
		return false;
	for (int k = 0; k < how.by->step.ngrow; k++) {
		uint32_t from = how.by->in[how.by->step.grow[k].in],
			 to = how.by->out[how.by->step.grow[k].out];
		if (!fed(arg, index_of(g->in, g->nin, s->slots[from].value),
			 index_of(g->out, g->nout, s->slots[to].value)))
			return false;
	}
	*at = how.at;
	return true;
}

int instance_launch(struct instance *x, const struct tensor *const *in, unsigned parity,
		    const struct tensor **out, struct diag *d)
{
	struct segment *s;

	x->parity = parity;
	set_inputs(x, in);
	s = find_segment(x, 0);
	if (s && (!s->binding || !s->binding->resolved))
		segment_record(x, s, ran_before(x, s), true);
	x->slabs[0].pending[parity] = false; /* the run before the last has ended */
	return instance_run(x, in, out, d);
}

void instance_forget_recordings(struct instance *x)
{
	for (uint32_t p = 0; p < x->graph->norder; p++)
		for (struct segment *s = x->segments[p]; s; s = s->next)
			if (s->binding)
				replays_drop(s->binding);
}

void instance_set_parity(struct instance *x, unsigned parity)
{
	x->parity = parity;
}

uint64_t instance_plans(const struct instance *x)
{
	uint64_t sum = x->plans;

	for (uint32_t i = 0; i < x->graph->nnodes; i++)
		for (uint32_t k = 0; x->bodies[i] && k < x->graph->node[i]->nsub; k++)
			sum += instance_plans(((struct plan_body *)x->bodies[i][k])->instance);
	return sum;
}
