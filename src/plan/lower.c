/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns nodes into steps for one set of shapes: infers the outputs' shapes, chooses the kernel and prepares it, decides
 * the layouts of values and which of them can share memory.
 */
#include "plan/lower.h"

#include "base/pool.h"
#include "opt/infer.h"
#include "plan/exec.h"
#include "plan/fault.h"
#include "plan/memory.h"
#include "plan/prepared.h"
#include "plan/replay.h"
#include "plan/upload.h"

#include <string.h>

enum {
	/* what a thread does in a nanosecond, roughly, and how long the work of a thread must take to be worth waking it */
	FLOPS_EACH_NS = 50,
	BYTES_EACH_NS = 10,
	WORTH_NS = 5000,
};

static uint32_t add_slot(struct lower *l, uint32_t value, const struct tensor *desc, enum place place)
{
	struct segment *s = l->s;

	if (s->nslots == s->cap_slots) {
		s->cap_slots = s->cap_slots ? 2 * s->cap_slots : 64;
		s->slots =
			arena_grow(&s->arena, s->slots, s->nslots, s->cap_slots, sizeof(*s->slots));
		l->slot_last = arena_grow(&s->arena, l->slot_last, s->nslots, s->cap_slots,
					  sizeof(uint32_t));
	}
	struct slot_plan *p = &s->slots[s->nslots];
	*p = (struct slot_plan){.value = value,
				.desc = *desc,
				.place = place,
				.sibling = l->newest_slot[value],
				.root = s->nslots,
				.offset = NO_OFFSET,
				.born = s->nsteps,
				.dies = s->nsteps};
	l->slot_last[s->nslots] = l->last_use[value];
	l->newest_slot[value] = s->nslots;
	return s->nslots++;
}

static struct step_plan *add_step(struct lower *l)
{
	struct segment *s = l->s;

	if (s->nsteps == s->cap_steps) {
		s->cap_steps = s->cap_steps ? 2 * s->cap_steps : 64;
		s->steps =
			arena_grow(&s->arena, s->steps, s->nsteps, s->cap_steps, sizeof(*s->steps));
	}
	return &s->steps[s->nsteps++];
}

/* Whether nothing has made value v, although a node reads it. */
static bool is_missing(const struct lower *l, uint32_t v)
{
	return v != NO_VALUE && l->slot_of[v] == NO_VALUE && !l->info[v].known &&
	       !l->g->value[v]->init && !l->x->live[v];
}

/* Lets each run copy a value on the host to a fixed address in pinned memory, from which the device can read it in its own time. */
static void stage_slot(struct lower *l, uint32_t slot)
{
	struct slot_plan *p = &l->s->slots[slot];
	const struct tensor *t = &p->desc;

	p->staged = t->device == HOST && can_pin(l->x->rt) && !l->x->body &&
		    t->type.kind == V_TENSOR && t->type.dtype != DT_STRING && t->bytes;
	l->s->stages |= p->staged;
}

/* Returns the slot of value v. A value that the segment does not make gets its slot at its first use. */
static uint32_t read_slot(struct lower *l, uint32_t v)
{
	if (v == NO_VALUE || l->slot_of[v] != NO_VALUE)
		return v == NO_VALUE ? NO_VALUE : l->slot_of[v];
	const struct tensor *known = l->info[v].known ? l->info[v].known : l->g->value[v]->init;
	const struct tensor *t = known ? known : l->x->live[v];
	uint32_t slot = l->slot_of[v] = add_slot(l, v, t, known ? PLACE_CONST : PLACE_EXTERNAL);
	if (!known)
		stage_slot(l, slot);
	return slot;
}

void lower_condition(struct lower *l, uint32_t v, bool contents)
{
	struct segment *s = l->s;
	const struct tensor *t = l->x->live[v];
	struct condition *c;

	if (l->condition_of[v] == NO_VALUE) {
		if (s->nconditions == s->cap_conditions) {
			s->cap_conditions = s->cap_conditions ? 2 * s->cap_conditions : 8;
			s->conditions = arena_grow(&s->arena, s->conditions, s->nconditions,
						   s->cap_conditions, sizeof(*s->conditions));
		}
		l->condition_of[v] = s->nconditions;
		s->conditions[s->nconditions++] = (struct condition){
			.value = v, .type = t->type, .shape = t->shape, .device = t->device};
	}
	c = &s->conditions[l->condition_of[v]];
	if (contents && !c->contents) {
		const struct tensor *host = on_host(l->x->rt, t, &s->arena, l->diag);
		c->contents = host && host == t ? tensor_copy(&s->arena, t) : host;
		c->at = l->at;
	}
}

/* Initializes what is known before the segment's first node: constants, and values that this run has made so far. */
static void start_infos(struct lower *l)
{
	const struct graph *g = l->g;

	for (uint32_t i = 0; i < g->nvalues; i++) {
		struct vinfo *v = &l->info[i];
		const struct tensor *t = g->value[i]->init ? g->value[i]->init : l->x->live[i];
		l->slot_of[i] = l->newest_slot[i] = l->condition_of[i] = NO_VALUE;
		v->type = g->value[i]->info.type;
		v->shape = SHAPE_UNKNOWN;
		if (!t)
			continue;
		v->type = t->type;
		v->shape = t->shape;
		v->layout = t->layout;
		v->known = g->value[i]->init;
	}
}

static void find_last_uses(struct lower *l)
{
	const struct graph *g = l->g;

	for (uint32_t p = 0; p < g->norder; p++) {
		const struct node *n = g->node[g->order[p]];
		for (uint32_t i = 0; i < n->nin + n->ncap; i++)
			if (n->in[i] != NO_VALUE)
				l->last_use[n->in[i]] = p;
	}
	for (uint32_t i = 0; i < g->nout; i++)
		l->last_use[g->out[i]] = UINT32_MAX;
}

bool lower_known(const struct lower *l, const struct node *n)
{
	for (uint32_t i = 0; i < n->nout; i++) {
		if (n->out[i] == NO_VALUE)
			continue;
		const struct vinfo *v = &l->info[n->out[i]];
		if (v->type.kind == V_TENSOR && !shape_known(&v->shape))
			return false;
		if (v->type.kind == V_NONE)
			return false;
	}
	return true;
}

/*
 * Makes the contents of the wanted inputs (bit i stands for input i) known to shape inference and a condition of the
 * plan; *any is set if there was a wanted input. Returns false if this segment itself makes one of these inputs,
 * whose contents are then not known before the segment runs.
 */
static bool use_contents(struct lower *l, const struct node *n, uint64_t wanted, bool *any)
{
	for (uint32_t i = 0; i < n->nin && i < 64; i++) {
		uint32_t v = n->in[i];
		if (!(wanted >> i & 1) || v == NO_VALUE || l->info[v].known)
			continue;
		if (l->inside[v])
			return false;
		if (!l->x->live[v])
			continue;
		/*
		 * fetching a value from the device waits for the steps that make the value, all of them in earlier
		 * segments
		 */
		lower_condition(l, v, true);
		l->info[v].known = l->s->conditions[l->condition_of[v]].contents;
		*any = true;
	}
	return true;
}

enum verdict lower_infer(struct lower *l, const struct node *n, int *err)
{
	for (;;) {
		struct infer c;
		bool any = false;
		infer_begin(&c, l->g, l->info, &l->s->arena, true, NULL, l->x->rt->cpu, l->diag);
		c.node = n;
		*err = infer_node(&c);
		if (*err)
			return FAILED;
		if (lower_known(l, n) || !c.wanted)
			return GO;
		if (!use_contents(l, n, c.wanted, &any))
			return CUT_BEFORE;
		if (!any)
			return GO;
	}
}

bool lower_constant(const struct lower *l, const struct node *n)
{
	bool any = false;

	for (uint32_t i = 0; i < n->nout; i++) {
		if (n->out[i] == NO_VALUE)
			continue;
		if (!l->info[n->out[i]].known)
			return false;
		any = true;
	}
	return any;
}

static int fail_unsupported(const struct lower *l, const struct node *n, const struct why *why)
{
	const struct vinfo *x = n->nin && n->in[0] != NO_VALUE ? &l->info[n->in[0]] : NULL;
	struct arena *a = &l->diag->arena;

	return FAIL(l->diag, E_OP_UNSUPPORTED, .node = n->origin->name, .op = n->origin->op,
		    .expected = fmt(l->diag, "a kernel for %s-%d%s%s", op_qualified(n->op),
				    n->op->since, x ? " with " : "", x ? type_str(a, x->type) : ""),
		    .actual = why->text ? arena_str(a, why->text) : "none");
}

static struct node_state *find_state(struct instance *x, const struct node *n, const struct kernel *k)
{
	for (struct node_state *st = x->states[n->id]; st; st = st->next)
		if (st->kernel == k)
			return st;
	return NULL;
}

/* Calls the kernel's `create` once per node and session, and sets site->state to the state that `create` has made. */
static int create_state(struct lower *l, struct site *site, const struct kernel *k)
{
	struct instance *x = l->x;
	struct node_state *st = find_state(x, site->node, k);

	if (!st) {
		site->state = NULL;
		int err = k->create ? k->create(site, l->diag) : 0;
		if (err)
			return err;
		st = arena_new(&x->arena, struct node_state);
		*st = (struct node_state){k, site->state, x->states[site->node->id]};
		x->states[site->node->id] = st;
	}
	site->state = st->state;
	return 0;
}

static int run_body(struct body *b, const struct tensor *const *in, uint32_t nin,
		    const struct tensor **out, uint32_t nout, struct diag *d)
{
	struct plan_body *p = (struct plan_body *)b;

	if (nin != p->nformal || nout != b->graph->nout)
		return FAIL(d, E_INTERNAL,
			    .message = "a body was called with the wrong number of values");
	for (uint32_t i = 0; i < nin; i++)
		p->in[i] = in[i];
	int err = instance_run(p->instance, p->in, out, d);
	memset(p->instance->placed, 0, nout * sizeof(*p->instance->placed));
	return err;
}

static void place_body_output(struct body *b, uint32_t i, void *data, size_t bytes)
{
	struct plan_body *p = (struct plan_body *)b;

	p->instance->placed[i] = (struct placed){.data = data, .bytes = bytes};
}

static struct body **make_bodies(struct instance *x, const struct node *n, int device)
{
	static const struct body_ops ops = {run_body, place_body_output};

	if (!n->nsub || x->bodies[n->id])
		return x->bodies[n->id];
	struct body **b = arena_new_n(&x->arena, struct body *, n->nsub);
	for (uint32_t k = 0; k < n->nsub; k++) {
		struct plan_body *p = arena_new(&x->arena, struct plan_body);
		p->body = (struct body){&ops, n->sub[k]};
		p->instance = instance_new(n->sub[k], x->rt);
		p->instance->body = true;
		p->instance->placed = arena_new_n(&x->arena, struct placed, n->sub[k]->nout + 1);
		p->instance->inner = device == DEVICE;
		p->nformal = n->sub[k]->nin;
		p->in = arena_new_n(&x->arena, const struct tensor *,
				    n->sub[k]->nin + n->sub[k]->ncap + 1);
		b[k] = &p->body;
	}
	return x->bodies[n->id] = b;
}

/* ---- layouts -------------------------------------------------------------------------------- */

/* Adds a step that copies a slot's value to a new slot, whose layout or device, given by desc, is another. */
static struct step_plan *add_moving_step(struct lower *l, uint32_t slot, const struct tensor *desc)
{
	struct segment *s = l->s;
	const struct node *n = l->g->node[l->g->order[l->at]];
	bool fixed = shape_known(&desc->shape); /* otherwise the run must allocate the output */
	uint32_t out = add_slot(l, s->slots[slot].value, desc, fixed ? PLACE_SLAB : PLACE_RUN),
		 k = s->nsteps;
	struct step_plan *p = add_step(l);

	p->step = (struct step){.nin = 1, .nout = 1, .node = n, .from = n->origin, .dynamic = !fixed};
	p->in = arena_dup(&s->arena, &slot, sizeof(slot));
	p->out = arena_dup(&s->arena, &out, sizeof(out));
	s->slots[slot].dies = k;
	s->slots[out].born = s->slots[out].dies = k;
	return p;
}

/* Returns the slot that has the same value as `slot` in this layout and on this device, or NO_VALUE. */
static uint32_t find_copy(const struct lower *l, uint32_t slot, enum layout layout, int device)
{
	const struct segment *s = l->s;
	uint32_t found = NO_VALUE;

	/* the oldest of them, which is the last in the chain */
	for (uint32_t i = l->newest_slot[s->slots[slot].value]; i != NO_VALUE; i = s->slots[i].sibling)
		if (s->slots[i].desc.layout == layout && s->slots[i].desc.device == device)
			found = i;
	return found;
}

/*
 * Returns a slot that has the value in this layout: the given slot, a copy made before, or the output of a new
 * Reorder step.
 */
static uint32_t reorder_to_layout(struct lower *l, uint32_t slot, enum layout layout)
{
	struct segment *s = l->s;
	uint32_t copy;

	if (s->slots[slot].desc.layout == layout)
		return slot;
	copy = find_copy(l, slot, layout, s->slots[slot].desc.device);
	if (copy != NO_VALUE)
		return copy;
	struct tensor desc = s->slots[slot].desc;
	desc.layout = layout;
	desc.data = NULL;
	tensor_bytes(tensor_dtype(&desc), &desc.shape, layout, &desc.bytes);
	struct step_plan *p = add_moving_step(l, slot, &desc);
	const struct kernel *reorder =
		backend_at(l->x->rt, has_device(l->x->rt) ? desc.device : HOST)->reorder;
	p->reorder = true;
	p->step.kernel = reorder;
	p->run = reorder->run;
	p->device = desc.device;
	return *p->out;
}

/*
 * Replaces *slot by a slot that has the value on this device: the same slot, a copy made before, or the output of a
 * new Copy step.
 */
static int move_to_device(struct lower *l, uint32_t *slot, int device)
{
	struct segment *s = l->s;
	struct tensor desc = s->slots[*slot].desc;

	if (desc.device == device)
		return 0;
	uint32_t there_already = find_copy(l, *slot, desc.layout, device);
	if (there_already != NO_VALUE) {
		*slot = there_already;
		return 0;
	}
	/* initializers are uploaded once per session; other constants hold for these shapes only, so the plan copies them */
	if (device == DEVICE && s->slots[*slot].place == PLACE_CONST &&
	    l->g->value[s->slots[*slot].value]->init) {
		struct tensor there;
		int err = upload(l->x->rt, &desc, &there, l->diag);
		if (!err)
			*slot = add_slot(l, s->slots[*slot].value, &there, PLACE_CONST);
		return err;
	}
	if (device == DEVICE && s->slots[*slot].place == PLACE_CONST)
		stage_slot(l, *slot);
	desc.device = device;
	desc.data = NULL;
	struct step_plan *p = add_moving_step(l, *slot, &desc);
	p->copy = true;
	/*
	 * code that looks at a step needs a kernel with flags: this kernel has suitable ones, and no state to be
	 * freed
	 */
	p->step.kernel = l->x->rt->backend->reorder;
	/*
	 * A copy may be queued only if nothing overwrites the host's bytes before the segment's end. This holds for
	 * results for the caller and for staged inputs; in any other slot the host could write the next value before
	 * the device has made the copy.
	 */
	p->queued = can_pin(l->x->rt) && !p->step.dynamic &&
		    (device == HOST ? l->finishing : s->slots[s->slots[*slot].root].staged);
	p->run = p->queued ? queue_run : copy_run;
	p->device = DEVICE;
	s->waits |= device == HOST;
	*slot = *p->out;
	return 0;
}

/*
 * Whether the channels fill all blocks of the layout. If they do not, an elementwise kernel would compute with the
 * padding as well.
 */
static bool fills_blocks(const struct tensor *t)
{
	int64_t block = t->layout == LAYOUT_BLOCK8 ? 8 : t->layout == LAYOUT_BLOCK16 ? 16 : 1;
	return t->shape.rank < 2 || t->shape.dim[1] % block == 0;
}

/*
 * Returns the layout in which an elementwise step runs: the layout of its inputs if each of them has the output's
 * shape or is a scalar, otherwise row-major.
 */
static enum layout common_layout(const struct lower *l, const struct node *n, const uint32_t *slots)
{
	const struct vinfo *y = NULL;
	enum layout found = LAYOUT_ROW;

	for (uint32_t i = 0; i < n->nout && !y; i++)
		if (n->out[i] != NO_VALUE)
			y = &l->info[n->out[i]];
	for (uint32_t i = 0; i < n->nin; i++) {
		if (slots[i] == NO_VALUE)
			continue;
		const struct tensor *t = &l->s->slots[slots[i]].desc;
		if (tensor_count(t) == 1)
			continue;
		if (!y || !shape_equal(&t->shape, &y->shape) || !fills_blocks(t))
			return LAYOUT_ROW;
		if (found == LAYOUT_ROW)
			found = t->layout;
	}
	return found;
}

/* ---- one node ------------------------------------------------------------------------------- */

/* Whether another input of the step has the same bytes as input `except`. */
static bool shares_root(const struct lower *l, const struct step_plan *p, uint32_t except)
{
	uint32_t root = l->s->slots[p->in[except]].root;

	for (uint32_t i = 0; i < p->step.nin; i++)
		if (i != except && p->in[i] != NO_VALUE && l->s->slots[p->in[i]].root == root)
			return true;
	return false;
}

/* Returns the slot of an input whose memory output `o` may overwrite, or NO_VALUE. */
static uint32_t inplace_input(const struct lower *l, const struct step_plan *p, uint32_t o,
			      size_t bytes)
{
	const struct segment *s = l->s;

	if (!l->x->rt->config->memory_plan)
		return NO_VALUE;
	for (int k = 0; k < p->step.ninplace; k++) {
		uint32_t i = p->step.inplace[k].in;
		if (p->step.inplace[k].out != o || i >= p->step.nin || p->in[i] == NO_VALUE)
			continue;
		const struct slot_plan *in = &s->slots[p->in[i]];
		const struct slot_plan *root = &s->slots[in->root];
		if (root->place != PLACE_SLAB || in->desc.bytes != bytes ||
		    root->desc.bytes < bytes || in->desc.device != p->device ||
		    l->slot_last[in->root] > l->at || shares_root(l, p, i))
			continue;
		return p->in[i];
	}
	return NO_VALUE;
}

/* Makes `slot` share the bytes of slot `of`, whose lifetime then covers the lifetimes of both. */
static void alias_slot(struct lower *l, uint32_t slot, uint32_t of)
{
	struct segment *s = l->s;
	uint32_t root = s->slots[of].root;

	s->slots[slot].place = PLACE_VIEW;
	s->slots[slot].root = root;
	if (l->slot_last[slot] > l->slot_last[root])
		l->slot_last[root] = l->slot_last[slot];
}

/*
 * Whether the slot's bytes have a planned address. A view of such bytes needs no step; the pointer of any other view
 * is set in each run.
 */
static bool has_planned_address(const struct segment *s, uint32_t slot)
{
	const struct slot_plan *root = &s->slots[s->slots[slot].root];
	return (root->place == PLACE_SLAB || root->place == PLACE_CONST || root->staged) &&
	       s->slots[slot].desc.type.kind == V_TENSOR &&
	       s->slots[slot].desc.type.dtype != DT_STRING;
}

static int make_outputs(struct lower *l, const struct node *n, struct step_plan *p, uint32_t step,
			enum layout common)
{
	struct segment *s = l->s;

	for (uint32_t i = 0; i < n->nout; i++) {
		uint32_t v = n->out[i];
		p->out[i] = NO_VALUE;
		if (v == NO_VALUE)
			continue;
		struct vinfo *info = &l->info[v];
		struct tensor desc = {.type = info->type,
				      .shape = info->shape,
				      .layout = common,
				      .device = p->device};
		bool plain = info->type.kind == V_TENSOR && info->type.dtype != DT_STRING;
		bool fixed = plain && shape_known(&info->shape);
		if (!plain) /* strings, sequences, optionals and maps are always on the host */
			desc.device = HOST;
		if (p->step.give)
			desc.layout = p->step.give[i];
		if (fixed && !tensor_bytes(tensor_dtype(&desc), &desc.shape, desc.layout, &desc.bytes))
			return FAIL(l->diag, E_SIZE, .node = n->origin->name, .op = n->origin->op,
				    .expected = "an output whose bytes can be counted",
				    .actual = shape_str(&l->diag->arena, &desc.shape, NULL));
		if (plain && !fixed && !p->step.nop && !op_allocates(n->op))
			return op_fail_unknown_size(l->diag, n, l->x->graph->value[v]->name,
						    &info->shape);
		info->layout = desc.layout;
		p->step.dynamic |= !fixed && !p->step.nop;
		uint32_t slot = add_slot(l, v, &desc, fixed && !p->step.nop ? PLACE_SLAB : PLACE_RUN);
		s->slots[slot].born = s->slots[slot].dies = step;
		l->slot_of[v] = p->out[i] = slot;
		l->inside[v] = true;
		uint32_t with = fixed && !p->step.nop ? inplace_input(l, p, i, desc.bytes) : NO_VALUE;
		if (with != NO_VALUE)
			alias_slot(l, slot, with);
	}
	return 0;
}

/*
 * Chooses a kernel of the session's device, or of the host if the device does not support the node. Returns NULL if
 * there is none.
 */
static const struct kernel *choose_kernel(struct lower *l, struct site *site, int *device,
					  struct why *why)
{
	struct runtime *rt = l->x->rt;
	const struct kernel *k = NULL;

	if (has_device(rt)) {
		site->device = rt->device;
		k = backend_choose(rt->backend, site, 0, why);
		*device = k && !(k->flags & K_HOST) ? DEVICE : HOST;
	}
	if (k)
		return k;
	*device = HOST;
	site->device = device_at(rt, HOST);
	return backend_choose(rt->cpu, site, 0, why);
}

/*
 * Captured weights of more bytes are uploaded to the device, as they are hardly shapes or counts, which bodies read
 * on the host.
 */
enum { MAX_HOST_CAPTURE_BYTES = 4096 };

/*
 * Replaces each input that the step cannot read in place by a copy in the layout and on the device that the step
 * needs.
 */
static int move_inputs(struct lower *l, const struct node *n, struct step_plan *p, enum layout common)
{
	struct segment *s = l->s;
	uint32_t *in = p->in;

	for (uint32_t i = 0; i < p->step.nin; i++) {
		if (in[i] == NO_VALUE || s->slots[in[i]].desc.type.kind != V_TENSOR)
			continue;
		bool unread = i < 64 && (p->step.unread >> i & 1);
		/* a scalar serves as it lies, unless the layout has padded its only channel */
		bool full = tensor_count(&s->slots[in[i]].desc) != 1 ||
			    !fills_blocks(&s->slots[in[i]].desc);
		enum layout wanted = p->step.want ? p->step.want[i]
				     : full	  ? common
						  : s->slots[in[i]].desc.layout;
		/*
		 * Captures stay where they are, as the bodies' own plans move them if necessary. Captured weights,
		 * however, are moved here, because a body would move them in each of its executions.
		 */
		const struct slot_plan *slot = &s->slots[in[i]];
		bool weight = i >= n->nin && p->device == DEVICE && slot->place == PLACE_CONST &&
			      slot->desc.bytes > MAX_HOST_CAPTURE_BYTES &&
			      l->g->value[slot->value]->init != NULL &&
			      slot->desc.type.dtype != DT_STRING;
		/*
		 * a view shares its input's bytes, so it stays on the input's device unless the view requires a
		 * layout
		 */
		bool moves = has_device(l->x->rt) && (!p->step.nop || p->step.give) &&
			     (weight || (!unread && i < n->nin));
		/* if the value moves between host and device, its layout is changed while it is on the device */
		int err = moves && p->device == DEVICE ? move_to_device(l, &in[i], DEVICE) : 0;
		if (!err && (!unread || p->step.body))
			in[i] = reorder_to_layout(l, in[i], wanted);
		if (!err && moves && p->device == HOST)
			err = move_to_device(l, &in[i], HOST);
		if (err)
			return err;
	}
	return 0;
}

/*
 * Makes the node's outputs views of input 0. Returns true if the node needs no step because the input's address is
 * planned.
 */
static bool make_view(struct lower *l, const struct node *n, struct step_plan *p)
{
	struct segment *s = l->s;
	uint32_t in = p->in[0];

	for (uint32_t i = 0; i < n->nout; i++)
		if (p->out[i] != NO_VALUE)
			s->slots[p->out[i]].desc.device = s->slots[in].desc.device;
	p->run = view_run;
	p->step.dynamic = false;
	bool fixed = has_planned_address(s, in);
	for (uint32_t i = 0; i < n->nout && fixed; i++) {
		if (p->out[i] == NO_VALUE)
			continue;
		struct tensor *desc = &s->slots[p->out[i]].desc;
		(void)tensor_bytes(tensor_dtype(desc), &desc->shape, LAYOUT_ROW, &desc->bytes);
		alias_slot(l, p->out[i], in);
	}
	if (fixed)
		return true;
	/* the view may use the input's bytes until the end of the segment */
	l->slot_last[s->slots[in].root] = UINT32_MAX;
	s->slots[s->slots[in].root].keep = true;
	return false;
}

/* Sets in[] to the slots of the node's operands, captured values included. */
static int read_operands(struct lower *l, const struct node *n, uint32_t nin, uint32_t *in)
{
	for (uint32_t i = 0; i < nin; i++) {
		if (is_missing(l, n->in[i]))
			return FAIL(
				l->diag, E_OP_INPUTS, .node = n->origin->name, .op = n->origin->op,
				.expected =
					fmt(l->diag,
					    "input %u, which the node that makes it leaves out", i),
				.actual = "none");
		in[i] = read_slot(l, n->in[i]);
	}
	return 0;
}

/*
 * How many threads the node's work is worth, 0 if all are. Only products and convolutions are limited: their libraries would split
 * any work, while our own loops know by their grain what is too little.
 */
static int threads_worth(const struct lower *l, const struct site *s)
{
	struct infer c = {.graph = s->graph, .node = s->node, .info = l->info, .arena = s->plan_arena};
	int64_t bytes;
	double ns;

	if (!s->node->op->macs || !infer_bytes(&c, &bytes))
		return 0;
	ns = 2 * (double)s->node->op->macs(&c) / FLOPS_EACH_NS + (double)bytes / BYTES_EACH_NS;
	return ns >= (double)WORTH_NS * pool_threads() ? 0
	       : ns < 2 * WORTH_NS		       ? 1
						       : (int)(ns / WORTH_NS);
}

/*
 * Gives the prepared step its operands and adds it to the segment. *added stays false if the node needs no step, or on
 * error.
 */
static int add_prepared(struct lower *l, const struct node *n, struct step_plan *p,
			enum layout common, bool *added)
{
	struct segment *s = l->s;
	int err = move_inputs(l, n, p, common);

	if (err)
		return err;
	uint32_t step = s->nsteps;
	for (uint32_t i = 0; i < p->step.nin; i++)
		if (p->in[i] != NO_VALUE)
			s->slots[p->in[i]].dies = step;
	err = make_outputs(l, n, p, step, common);
	if (err)
		return err;
	if (p->step.nop && n->nin && p->in[0] != NO_VALUE && make_view(l, n, p))
		return 0;
	err = fault_plant(l->x, s, p, l->at, l->diag);
	if (err)
		return err;
	*add_step(l) = *p;
	*added = true;
	return 0;
}

int lower_prepare(struct lower *l, const struct node *n, struct step_plan *p)
{
	struct instance *x = l->x;
	struct site site = {.graph = l->g,
			    .node = n,
			    .info = l->info,
			    .config = x->rt->config,
			    .store = x->rt->store,
			    .node_arena = &x->arena,
			    .plan_arena = &l->s->arena};
	struct why why = {.arena = &l->s->arena};
	int device = HOST;
	const struct kernel *k = choose_kernel(l, &site, &device, &why);

	if (!k)
		return fail_unsupported(l, n, &why);
	int err = create_state(l, &site, k);
	if (err)
		return err;
	p->run = k->run;
	p->device = device;
	p->step = (struct step){.kernel = k,
				.node = n,
				.params = n->params,
				.node_state = site.state,
				.nin = n->nin + n->ncap,
				.nout = n->nout,
				.body = make_bodies(x, n, device),
				.from = n->origin,
				.threads = device == HOST ? threads_worth(l, &site) : 0};
	pool_limit(p->step.threads);
	err = prepare_step(x, &site, &p->step, &p->prepared, l->diag);
	pool_limit(0);
	return err;
}

static int lower_node(struct lower *l, const struct node *n)
{
	struct segment *s = l->s;
	uint32_t nin = n->nin + n->ncap;
	struct step_plan p = {.in = arena_new_n(&s->arena, uint32_t, nin + 1),
			      .out = arena_new_n(&s->arena, uint32_t, n->nout + 1)};
	int err = read_operands(l, n, nin, p.in);

	err = err ? err : lower_prepare(l, n, &p);
	if (err)
		return err;
	bool added = false;
	enum layout common =
		(p.step.kernel->flags & K_ANY_LAYOUT) ? common_layout(l, n, p.in) : LAYOUT_ROW;
	err = add_prepared(l, n, &p, common, &added);
	s->nodes[l->at - s->first] = (struct lowered){p.step.kernel, added ? s->nsteps - 1 : NO_STEP};
	if (!added)
		prepared_release(l->x, p.prepared);
	return err;
}

/*
 * Ends the segment: values that the rest of the graph reads become row-major results, and the graph's outputs are
 * copied to the host.
 */
static int finish_segment(struct lower *l)
{
	struct segment *s = l->s;
	const struct graph *g = l->g;

	s->end = l->at;
	l->finishing = true;
	if (l->at)
		l->at--; /* the Reorder and Copy steps below are attributed to the last node */
	s->results = arena_new_n(&s->arena, uint32_t, g->nvalues + 1);
	for (uint32_t p = s->first; p < s->end; p++) {
		const struct node *n = g->node[g->order[p]];
		for (uint32_t i = 0; i < n->nout; i++) {
			uint32_t v = n->out[i];
			if (v == NO_VALUE || l->last_use[v] == 0 || l->last_use[v] < s->end)
				continue;
			uint32_t slot = read_slot(l, v);
			if (s->slots[slot].desc.type.kind == V_TENSOR)
				slot = reorder_to_layout(l, slot, LAYOUT_ROW);
			/* the caller expects outputs on the host */
			if (g->value[v]->is_output && has_device(l->x->rt) && !l->x->inner &&
			    !(l->x->rt->outputs_stay && !l->x->body)) {
				int err = move_to_device(l, &slot, HOST);
				if (err)
					return err;
			}
			s->slots[slot].keep = true;
			s->results[s->nresults++] = slot;
		}
	}
	return 0;
}

static bool needs_cut_after(const struct lower *l, const struct node *n)
{
	for (uint32_t i = 0; i < n->nout; i++) {
		if (n->out[i] == NO_VALUE)
			continue;
		const struct vinfo *v = &l->info[n->out[i]];
		if (v->type.kind == V_NONE || (v->type.kind == V_TENSOR && !shape_known(&v->shape)))
			return true;
	}
	return false;
}

static int lower_all(struct lower *l)
{
	const struct graph *g = l->g;
	int err = 0;

	for (l->at = l->s->first; l->at < g->norder; l->at++) {
		const struct node *n = g->node[g->order[l->at]];
		enum verdict v = lower_infer(l, n, &err);
		if (v == FAILED) {
			diag_where(l->diag, NULL, n->origin->name, n->origin->op);
			return err;
		}
		if (v == CUT_BEFORE)
			break;
		if (lower_constant(l, n))
			continue;
		err = lower_node(l, n);
		if (err) {
			diag_where(l->diag, NULL, n->origin->name, n->origin->op);
			return err;
		}
		if (needs_cut_after(l, n)) {
			l->at++;
			break;
		}
	}
	return finish_segment(l);
}

/* Makes the types and shapes of all values that the segment reads from outside conditions of the plan. */
static void add_conditions(struct lower *l)
{
	for (uint32_t i = 0; i < l->g->nvalues; i++)
		if (l->x->live[i] && !l->g->value[i]->init && l->last_use[i] >= l->s->first)
			lower_condition(l, i, false);
}

int segment_plan(struct instance *x, uint32_t first, struct segment **out, struct diag *d)
{
	struct arena a = {0};
	struct segment *s = mem_zalloc(sizeof(*s), MEM_MODEL);
	const struct graph *g = x->graph;

	if (!s)
		return FAIL(d, E_MEMORY);
	struct lower l = {.x = x, .s = s, .g = g, .at = first, .diag = d};
	s->first = first;
	s->parity = x->parity;
	s->info = l.info = arena_new_n(&s->arena, struct vinfo, g->nvalues + 1);
	s->nodes = arena_new_n(&s->arena, struct lowered, g->norder - first + 1);
	l.slot_of = arena_new_n(&a, uint32_t, g->nvalues + 1);
	l.newest_slot = arena_new_n(&a, uint32_t, g->nvalues + 1);
	l.condition_of = arena_new_n(&a, uint32_t, g->nvalues + 1);
	l.last_use = arena_new_n(&a, uint32_t, g->nvalues + 1);
	l.inside = arena_new_n(&a, bool, g->nvalues + 1);
	start_infos(&l);
	find_last_uses(&l);
	add_conditions(&l);
	int err = lower_all(&l);
	if (!err)
		err = segment_memory(x, s, d);
	if (!err)
		segment_ranges(s, x->rt);
	arena_free(&a);
	if (err) {
		segment_free(x, s);
		return err;
	}
	*out = s;
	return 0;
}

void segment_free(struct instance *x, struct segment *s)
{
	if (!s)
		return;
	if (x->foreseen == s)
		x->foreseen = NULL;
	for (uint32_t i = 0; i < s->nsteps; i++)
		prepared_release(x, s->steps[i].prepared);
	binding_free(s->binding);
	arena_free(&s->arena);
	mem_free(s);
}
