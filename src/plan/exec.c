/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/exec.h"

#include "base/cancel.h"
#include "base/pool.h"
#include "base/str.h"
#include "plan/extend.h"
#include "plan/memory.h"
#include "plan/redzone.h"
#include "plan/replay.h"

#include <string.h>

/* The memory of an output whose size is known only during the run. It is kept for the next run. */
struct moving {
	struct buffer buffer;
	struct arena values; /* blobs and items */
};

/* Implements `alloc` of a call: gives output i memory for a tensor of this type and shape. */
static int moving_alloc(const struct call *c, uint32_t i, enum dtype t, const struct shape *s)
{
	struct binding *b = c->owner;
	struct tensor *out = c->out[i];
	struct moving *m = &b->moving[out - b->tensors];
	size_t bytes, limit = b->x->rt->host_limit;

	if (!tensor_bytes(t, s, LAYOUT_ROW, &bytes))
		return call_fail(c, E_SIZE, "an output whose bytes can be counted", "an overflow");
	/* this output's size was planned, although the step also has dynamic outputs */
	if (b->s->slots[out - b->tensors].place != PLACE_RUN && out->bytes >= bytes && out->data) {
		out->shape = *s;
		out->bytes = bytes;
		return 0;
	}
	int device = out->device;
	if (device == HOST && limit && bytes > limit)
		return FAIL(c->diag, E_MEMORY_LIMIT, .expected = limit_text(b->x->rt, limit, c->diag),
			    .actual = fmt(c->diag, "an output of %s bytes",
					  c->diag ? str_count(&c->diag->arena, (int64_t)bytes) : ""));
	if (m->buffer.bytes < bytes || !m->buffer.ptr) {
		const struct backend *backend = backend_at(b->x->rt, device);
		struct device *on = device_at(b->x->rt, device);
		if (m->buffer.ptr)
			backend->free(on, &m->buffer);
		m->buffer = (struct buffer){0};
		int err = backend->alloc(on, bytes, MEM_ACTIVATIONS, &m->buffer, c->diag);
		if (err)
			return err;
	}
	*out = (struct tensor){.type = type_tensor(t),
			       .shape = *s,
			       .data = m->buffer.ptr,
			       .bytes = bytes,
			       .device = device};
	return 0;
}

static struct arena *moving_values(const struct call *c, uint32_t i)
{
	struct binding *b = c->owner;

	return &b->moving[c->out[i] - b->tensors].values;
}

/*
 * Call before a dynamic step. Frees the strings and items that the last run made, and resets the shapes that it set.
 */
static void clear_dynamic_outputs(const struct call *c)
{
	struct binding *b = c->owner;

	for (uint32_t i = 0; i < c->step->nout; i++) {
		if (!c->out[i])
			continue;
		ptrdiff_t slot = c->out[i] - b->tensors;
		arena_free(&b->moving[slot].values);
		if (b->s->slots[slot].place == PLACE_RUN)
			c->out[i]->shape = b->s->slots[slot].desc.shape;
	}
}

/* Call after a dynamic step. Fails if the kernel has left a dimension of an output unknown. */
static int check_output_shapes(const struct call *c)
{
	for (uint32_t i = 0; c->step->dynamic && i < c->step->nout; i++)
		if (c->out[i] && c->out[i]->type.kind == V_TENSOR && !shape_known(&c->out[i]->shape))
			return call_fail(c, E_SHAPE, "an output whose shape follows from the inputs",
					 shape_str(&c->diag->arena, &c->out[i]->shape, NULL));
	return 0;
}

void bind_captures(const struct call *c)
{
	const struct node *n = c->step->node;

	for (uint32_t k = 0; c->step->body && k < n->nsub; k++) {
		struct plan_body *p = (struct plan_body *)c->step->body[k];
		for (uint32_t j = 0; j < n->sub[k]->ncap; j++)
			p->in[p->nformal + j] = c->in[n->nin + n->sub[k]->capture[j]];
	}
}

/* Prepares a call for this run. Only dynamic steps and steps with bodies need anything beside their pointers. */
static void prepare_call(struct call *c, struct diag *d)
{
	c->diag = d;
	pool_limit(c->step->threads);
	c->host_limit = ((struct binding *)c->owner)->x->rt->host_limit;
	if (c->step->dynamic)
		clear_dynamic_outputs(c);
	if (c->step->body)
		bind_captures(c);
}

int view_run(const struct call *c)
{
	const struct tensor *in = c->in[0];

	for (uint32_t i = 0; i < c->step->nout; i++) {
		struct tensor *out = c->out[i];
		if (!out)
			continue;
		struct shape planned = out->shape;
		enum layout layout = out->layout;
		*out = *in;
		out->arena = NULL;
		if (in->type.kind == V_TENSOR) {
			out->shape = planned;
			out->layout = layout;
		}
	}
	return 0;
}

int copy_run(const struct call *c)
{
	struct binding *b = c->owner;
	const struct runtime *rt = b->x->rt;
	const struct tensor *in = c->in[0];
	struct tensor *out = c->out[0];
	int err = c->step->dynamic ? call_alloc(c, 0, tensor_dtype(in), &in->shape) : 0;

	if (err)
		return err;
	return rt->backend->copy(c->stream, out->data, out->device, in->data, in->device,
				 out->bytes, c->diag);
}

/* Queues the copy, which is complete when the segment's end has waited for the stream. */
int queue_run(const struct call *c)
{
	struct binding *b = c->owner;
	const struct tensor *in = c->in[0];
	struct tensor *out = c->out[0];

	return b->x->rt->backend->queue_copy(c->stream, out->data, out->device, in->data,
					     in->device, out->bytes, c->diag);
}

/* The slab of a segment for a place, HOST or DEVICE. */
static int slab_of(const struct segment *s, int place)
{
	return place == HOST && s->parity ? HOST_ODD : place;
}

/* Makes the pointers of all tensors and workspaces point into the slab, the memory of the segment. */
static void set_pointers(struct binding *b, const struct slab *slab)
{
	struct segment *s = b->s;

	replays_drop(b); /* the recordings hold the old addresses */
	for (uint32_t i = 0; i < s->nslots; i++) {
		const struct slot_plan *p = &s->slots[i], *root = &s->slots[p->root];
		if (root->place == PLACE_SLAB || root->staged) {
			b->tensors[i].data = (char *)slab->buffer[slab_of(s, root->desc.device)].ptr +
					     root->offset;
		} else if (root->place == PLACE_CONST && p->place == PLACE_VIEW) {
			b->tensors[i].data = root->desc.data;
			b->tensors[i].blob = root->desc.blob;
		}
	}
	for (uint32_t i = 0; i < s->nsteps; i++)
		if (s->steps[i].step.workspace)
			b->calls[i].workspace =
				(char *)slab->buffer[slab_of(s, s->steps[i].device)].ptr +
				s->steps[i].workspace_offset;
	b->number = slab->number;
	b->resolved = true;
}

static void make_call(struct binding *b, uint32_t k)
{
	struct step_plan *p = &b->s->steps[k];
	const struct tensor **in = arena_new_n(&b->arena, const struct tensor *, p->step.nin + 1);
	struct tensor **out = arena_new_n(&b->arena, struct tensor *, p->step.nout + 1);

	for (uint32_t i = 0; i < p->step.nin; i++)
		in[i] = p->in[i] == NO_VALUE ? NULL : &b->tensors[p->in[i]];
	for (uint32_t i = 0; i < p->step.nout; i++)
		out[i] = p->out[i] == NO_VALUE ? NULL : &b->tensors[p->out[i]];
	b->calls[k] = (struct call){.step = &p->step,
				    .in = in,
				    .out = out,
				    .owner = b,
				    .stream = b->x->rt->stream,
				    .alloc = moving_alloc,
				    .values = moving_values};
}

/* Sets m to the slots from `slot` on in the chain; next[i] is the next slot that shares the bytes of slot i. */
static void set_movable(struct binding *b, struct movable *m, uint32_t slot, const uint32_t *next)
{
	const struct segment *s = b->s;
	uint32_t n = 0;

	for (uint32_t i = slot; i != NO_VALUE; i = next[i])
		n++;
	m->slot = arena_new_n(&b->arena, uint32_t, n + 1);
	m->offset = s->slots[s->slots[slot].root].offset;
	for (uint32_t i = slot; i != NO_VALUE; i = next[i]) {
		m->slot[m->n++] = i;
		m->bytes = s->slots[i].desc.bytes > m->bytes ? s->slots[i].desc.bytes : m->bytes;
	}
}

/*
 * Fills b->movable[k] with the slots that share the bytes of output k of the graph, so that place_results() can
 * let them point to memory that the caller gives for this output instead of to the slab. There are no slots if the
 * output does not lie in the slab, or is copied there at the start of each run.
 */
static void find_movables(struct binding *b)
{
	const struct segment *s = b->s;
	const struct graph *g = b->x->graph;
	struct arena scratch = {0};
	/* first[r]: the first slot with the bytes of slot r; next[i]: the next one after slot i */
	uint32_t *first = arena_new_n(&scratch, uint32_t, s->nslots + 1);
	uint32_t *next = arena_new_n(&scratch, uint32_t, s->nslots + 1);
	uint32_t *root_of = arena_new_n(&scratch, uint32_t, g->nvalues + 1); /* by value id */

	for (uint32_t i = 0; i < s->nslots; i++)
		first[i] = NO_VALUE;
	for (uint32_t i = 0; i < g->nvalues; i++)
		root_of[i] = NO_VALUE;
	for (uint32_t i = s->nslots; i-- > 0;) {
		next[i] = first[s->slots[i].root];
		first[s->slots[i].root] = i;
	}
	for (uint32_t i = s->nresults; i-- > 0;)
		root_of[s->slots[s->results[i]].value] = s->slots[s->results[i]].root;
	b->movable = arena_new_n(&b->arena, struct movable, g->nout + 1);
	for (uint32_t k = 0; k < g->nout; k++) {
		uint32_t root = root_of[g->out[k]];
		if (root != NO_VALUE && s->slots[root].place == PLACE_SLAB &&
		    !s->slots[root].staged && s->slots[root].desc.device == has_device(b->x->rt))
			set_movable(b, &b->movable[k], first[root], next);
	}
	arena_free(&scratch);
}

static struct binding *binding_new(struct instance *x, struct segment *s)
{
	struct arena a = {0};
	struct binding *b = arena_new(&a, struct binding);

	b->arena = a;
	b->x = x;
	b->s = s;
	b->tensors = arena_new_n(&b->arena, struct tensor, s->nslots + 1);
	b->moving = arena_new_n(&b->arena, struct moving, s->nslots + 1);
	b->calls = arena_new_n(&b->arena, struct call, s->nsteps + 1);
	b->external = arena_new_n(&b->arena, uint32_t, s->nslots + 1);
	for (uint32_t i = 0; i < s->nslots; i++) {
		b->tensors[i] = s->slots[i].desc;
		if (s->slots[i].place == PLACE_EXTERNAL || s->slots[i].staged)
			b->external[b->nexternal++] = i;
	}
	for (uint32_t i = 0; i < s->nsteps; i++)
		make_call(b, i);
	/* a body on a device may be part of a recording, which holds addresses */
	if (x->placed && !(x->body && has_device(x->rt)))
		find_movables(b);
	replays_new(b);
	return b;
}

void binding_free(struct binding *b)
{
	if (!b)
		return;
	replays_drop(b);
	for (uint32_t i = 0; i < b->s->nslots; i++) {
		int device = b->tensors[i].device;
		if (b->moving[i].buffer.ptr)
			backend_at(b->x->rt, device)
				->free(device_at(b->x->rt, device), &b->moving[i].buffer);
		arena_free(&b->moving[i].values);
	}
	struct arena a = b->arena;
	arena_free(&a);
}

/* ---- slabs ---------------------------------------------------------------------------------- */

/* With the steps of a decoder a slab grows each time: it gets a HEADROOMth more than it needs, and may keep as much. */
enum { HEADROOM = 4 };

static void slab_free(struct instance *x, struct slab *slab, int device)
{
	struct buffer *b = &slab->buffer[device];

	if (!b->ptr)
		return;
	if (device != DEVICE && slab->pinned)
		x->rt->backend->free_host(x->rt->device, b);
	else
		backend_at(x->rt, device)->free(device_at(x->rt, device), b);
	*b = (struct buffer){0};
	slab->number++;
	slab->pending[0] = slab->pending[1] = false; /* the backend's free waits for the device */
}

/* Returns the number of bytes of a slab that the largest cached plan of the position needs. */
static size_t slab_need(const struct instance *x, uint32_t position, int slab)
{
	int place = slab == DEVICE ? DEVICE : HOST;
	size_t most = 0;

	for (const struct segment *s = x->segments[position]; s; s = s->next)
		if (slab_of(s, place) == slab && s->slab_bytes[place] > most)
			most = s->slab_bytes[place];
	return most;
}

void slab_fit(struct instance *x, uint32_t position)
{
	struct slab *slab = &x->slabs[position];

	for (int i = 0; i < SLABS; i++) {
		size_t need = slab_need(x, position, i);
		if (slab->buffer[i].bytes > need &&
		    (!x->steps || slab->buffer[i].bytes - need > need / HEADROOM))
			slab_free(x, slab, i);
	}
}

void slab_drop(struct instance *x, uint32_t position)
{
	for (int i = 0; i < SLABS; i++)
		slab_free(x, &x->slabs[position], i);
}

static int slab_grow(struct instance *x, struct slab *slab, int device, size_t bytes, struct diag *d)
{
	const struct runtime *rt = x->rt;
	struct buffer *b = &slab->buffer[device];

	if (b->bytes >= bytes)
		return 0;
	if (x->steps && b->bytes && !size_add(bytes, bytes / HEADROOM, &bytes))
		return FAIL(d, E_SIZE);
	slab_free(x, slab, device);
	slab->pinned = can_pin(rt);
	if (device != DEVICE && slab->pinned)
		return rt->backend->alloc_host(rt->device, bytes, MEM_STAGING, b, d);
	return backend_at(rt, device)->alloc(device_at(rt, device), bytes, MEM_ACTIVATIONS, b, d);
}

int segment_bind(struct instance *x, struct segment *s, struct diag *d)
{
	struct slab *slab = &x->slabs[s->first];

	for (int i = 0; i < PLACES; i++) {
		int err = slab_grow(x, slab, slab_of(s, i), s->slab_bytes[i], d);
		if (err) {
			if (d && d->last && !d->last->hint)
				d->last->hint = segment_largest(s, d);
			return err;
		}
	}
	if (!s->binding)
		s->binding = binding_new(x, s);
	if (!s->binding->resolved || s->binding->number != slab->number)
		set_pointers(s->binding, slab);
	return 0;
}

/* ---- running -------------------------------------------------------------------------------- */

static bool device_is_lost(const struct runtime *rt)
{
	return rt->backend->lost && rt->backend->lost(rt->device);
}

/*
 * Names step k in the finding. It does not if the device was lost and steps are not waited for one by one
 * (SYNC_ASYNC), because then any step queued earlier may be the one that failed.
 */
static int name_failed_step(struct binding *b, uint32_t k, int err, struct diag *d)
{
	const struct runtime *rt = b->x->rt;
	const struct origin *o = b->s->steps[k].step.from;

	if (err != RUN_AGAIN && o && !(rt->config->sync == SYNC_ASYNC && device_is_lost(rt)))
		diag_where(d, NULL, o->name, o->op);
	return err;
}

/*
 * Ends the run of a step: fails if the run is to end, because kernels then leave their outputs unfinished. The command
 * that was interrupted says why, so there is no finding here.
 */
static int finish_step(struct binding *b, uint32_t i, int err, struct diag *d)
{
	if (cancel_called())
		return -(int)E_INTERRUPTED;
	if (!err)
		err = check_output_shapes(&b->calls[i]);
	return err ? name_failed_step(b, i, err, d) : 0;
}

int steps_run(struct binding *b, uint32_t first, uint32_t end, struct diag *d)
{
	for (uint32_t i = first; i < end; i++) {
		struct call *c = &b->calls[i];
		prepare_call(c, d);
		redzone_enter_step(b, i);
		int err = b->s->steps[i].run(c);
		redzone_leave_step(b, i);
		err = finish_step(b, i, err, d);
		if (err)
			return err;
	}
	return 0;
}

static int exec_plain(struct binding *b, struct diag *d)
{
	return steps_run(b, 0, b->s->nsteps, d);
}

/*
 * Runs the steps for --sync node and --sync launch: waits for each step on the device, so that an error belongs to
 * the step that caused it.
 */
static int exec_waiting(struct binding *b, struct diag *d)
{
	const struct runtime *rt = b->x->rt;

	for (uint32_t i = 0; i < b->s->nsteps; i++) {
		int err = steps_run(b, i, i + 1, d);
		if (err)
			return err;
		if (b->s->steps[i].device == DEVICE && (err = rt->backend->wait(rt->stream, d)) != 0)
			return name_failed_step(b, i, err, d);
	}
	return 0;
}

static int exec_observed(struct binding *b, struct diag *d)
{
	const struct runtime *rt = b->x->rt;
	struct observer *o = rt->observer;
	bool waits = has_device(rt) && rt->config->sync != SYNC_ASYNC;

	for (uint32_t i = 0; i < b->s->nsteps; i++) {
		struct call *c = &b->calls[i];
		prepare_call(c, d);
		redzone_enter_step(b, i);
		o->begin(o, c->step, c);
		int err = b->s->steps[i].run(c);
		if (!err && waits && b->s->steps[i].device == DEVICE)
			err = rt->backend->wait(rt->stream, d);
		o->end(o, c->step, c);
		redzone_leave_step(b, i);
		err = finish_step(b, i, err, d);
		if (err)
			return err;
	}
	return 0;
}

/* Chooses the function that runs the steps. The choice depends on the session only. */
static int (*choose_exec(const struct runtime *rt))(struct binding *, struct diag *)
{
	if (rt->observer)
		return exec_observed;
	if (!has_device(rt))
		return exec_plain;
	if (rt->config->sync != SYNC_ASYNC)
		return exec_waiting;
	if (rt->config->cuda_graph == CUDA_GRAPH_AUTO && rt->backend->capture_begin)
		return steps_replay;
	return exec_plain;
}

/*
 * If only a wait notices that the device was lost, any queued step may be at fault. Adds a hint that names the queued
 * steps.
 */
static int hint_lost_steps(const struct binding *b, int err, struct diag *d)
{
	const struct segment *s = b->s;

	if (!d || !d->last || d->last->node || d->last->hint || !s->nsteps ||
	    !device_is_lost(b->x->rt))
		return err;
	const struct origin *from = s->steps[0].step.from, *to = s->steps[s->nsteps - 1].step.from;
	if (from && to)
		d->last->hint = fmt(d,
				    "it was one of the %u steps from node '%s' (%s) to '%s' (%s); "
				    "--sync launch shows which",
				    s->nsteps, from->name, from->op, to->name, to->op);
	return err;
}

struct staged_copy {
	char *to;
	const char *from;
};

static void copy_piece(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct staged_copy *p = arg;

	(void)thread;
	memcpy(p->to + begin, p->from + begin, (size_t)(end - begin));
}

/* Copies each staged value to its fixed address in the slab; the other inputs are read where they lie. */
static int bind_inputs(struct instance *x, struct segment *s, struct slab *slab, struct diag *d)
{
	struct binding *b = s->binding;

	if (slab->pending[s->parity]) { /* copies of the last run may still read this slab */
		int err = x->rt->backend->wait(x->rt->stream, d);
		if (err)
			return err;
		slab->pending[0] = slab->pending[1] = false;
	}
	for (uint32_t i = 0; i < b->nexternal; i++) {
		uint32_t slot = b->external[i];
		const struct slot_plan *p = &s->slots[slot];
		const struct tensor *t = p->place == PLACE_CONST ? &p->desc : x->live[p->value];
		if (p->staged)
			pool_for((int64_t)t->bytes, 1 << 20, copy_piece,
				 &(struct staged_copy){b->tensors[slot].data, t->data});
		else
			b->tensors[slot] = *t;
		if (t->capacity && !slot_takes_capacity(x, s, slot))
			return FAIL(
				d, E_INTERNAL,
				.message =
					"a state that grows where it lies came to a step that needs it dense");
	}
	return 0;
}

static bool is_aligned(const struct runtime *rt, const void *data)
{
	return !rt->backend->alignment || (uintptr_t)data % rt->backend->alignment == 0;
}

/*
 * Makes the steps write each output to the memory that the caller gave for it. An output without such memory stays in
 * the slab.
 */
static void place_results(struct binding *b, const struct slab *slab)
{
	const struct instance *x = b->x;

	for (uint32_t k = 0; k < x->graph->nout; k++) {
		const struct movable *m = &b->movable[k];
		const struct placed *to = &x->placed[k];
		if (!m->n) /* and perhaps no slab */
			continue;
		void *data = (char *)slab->buffer[has_device(x->rt)].ptr + m->offset;
		struct extension unread;
		bool placed = to->data && to->bytes >= m->bytes && is_aligned(x->rt, to->data) &&
			      (!to->capacity || output_takes_capacity(x, b->s, k, &unread));
		for (uint32_t i = 0; i < m->n; i++) {
			b->tensors[m->slot[i]].data = placed ? to->data : data;
			b->tensors[m->slot[i]].capacity = placed ? to->capacity : 0;
		}
	}
}

static int run_steps(struct instance *x, struct segment *s, struct slab *slab, struct diag *d)
{
	redzone_begin(s->binding);
	int err = bind_inputs(x, s, slab, d);

	if (err)
		return err;
	if (s->binding->movable)
		place_results(s->binding, slab);
	err = choose_exec(x->rt)(s->binding, d);
	pool_limit(0);
	slab->pending[s->parity] = s->stages;
	return err;
}

void segment_record(struct instance *x, struct segment *s, struct segment *from, bool soon)
{
	struct slab *slab = &x->slabs[s->first];
	struct binding *b;

	if (choose_exec(x->rt) != steps_replay)
		return;
	for (int i = 0; i < PLACES; i++)
		if (slab->buffer[slab_of(s, i)].bytes < s->slab_bytes[i])
			return; /* the run that is under way still uses the smaller one */
	if (segment_bind(x, s, NULL))
		return;
	b = s->binding;
	for (uint32_t i = 0; i < b->nexternal; i++)
		if (!s->slots[b->external[i]].staged)
			b->tensors[b->external[i]] = *x->live[s->slots[b->external[i]].value];
	if (b->movable)
		place_results(b, slab);
	for (uint32_t i = 0; i < s->nsteps; i++)
		if (s->steps[i].run == view_run) /* of a state, say */
			view_run(&b->calls[i]);
	/* its recordings may name a slab that is gone */
	bool usable = from && from->binding && from->binding->number == b->number;
	replays_record(b, usable ? from->binding : NULL, soon);
}

/* The steps stay careful: what one input has led to, the next probably leads to as well. */
static void make_careful(struct segment *s)
{
	for (uint32_t i = 0; i < s->nsteps; i++)
		s->steps[i].step.careful = true;
}

int segment_run(struct instance *x, struct segment *s, struct diag *d)
{
	struct slab *slab = &x->slabs[s->first];
	struct binding *b = s->binding;
	int err = run_steps(x, s, slab, d);

	if (err == RUN_AGAIN) {
		make_careful(s);
		err = run_steps(x, s, slab, d);
	}
	if (!err && s->waits) {
		err = x->rt->backend->wait(x->rt->stream, d);
		slab->pending[0] = slab->pending[1] = false;
	}
	if (err)
		return hint_lost_steps(b, err, d);
	for (uint32_t i = 0; i < s->nresults; i++)
		x->live[s->slots[s->results[i]].value] = &b->tensors[s->results[i]];
	return 0;
}
