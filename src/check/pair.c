/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two sessions run in threads of their own, as a CUDA context belongs to the thread that opened it, but never at
 * the same time. The tested session (`got`) leads: after each step, the tested session lets the reference run until
 * the reference has made the value to compare with.
 */
#include "check/pair.h"

#include "backend/evaluate.h"
#include "base/hash.h"
#include "base/str.h"
#include "check/counterparts.h"
#include "check/path_precision.h"
#include "check/repeat.h"
#include "ops/op.h"
#include "session/backends.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/*
 * A value to compare with. It is the reference's own value or, if the reference has no such value, the one that the
 * tested session's kernel makes of the reference's inputs.
 */
struct ref_value {
	struct value_copy v;
	uint32_t uses; /* number of entries of pair_work.refs that point here */
};

enum turn { TURN_GOT, TURN_REF, TURN_OVER };

/* One of the two sessions while it runs. */
struct runner {
	struct observer observer;
	struct pair_work *w;
	struct pair_side *side;
	const struct runtime *rt;
	const struct graph *g;
	uint32_t *position; /* indexed by node id: the node's position in the order */
	uint32_t *other; /* indexed by value id: the other side's value of this name, or NO_VALUE */
	enum dtype *path; /* path_precisions() of the graph */
	bool *stored;  /* of the reference, indexed by value id: its value has been stored once */
	uint32_t next; /* position in the order; all nodes before this position have run */
	bool done;
	const struct tensor **out; /* the model's outputs, once it has run */
	int err;
};

struct pair_work {
	struct check_context *c;
	struct pair *p;
	const struct tensor *const *in;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum turn turn;
	pthread_t thread;
	bool threaded, closing;
	struct runner ref, got;
	uint32_t wanted; /* position up to which the reference must run */
	/* indexed by value id of `got` */
	struct ref_value **refs;
	struct shape *shape; /* of refs: a view shares the bytes of another value, but not its shape. Rank -1: unknown */
	uint32_t *last; /* position of the value's last use */
	bool *exact;	/* the tested session's value equals the reference's to the bit */
	double *rel;	/* relative distance of the tested session's value from the reference's */
	bool *steps; /* the same, for differences of quantized elements by 1, which do not count for rel */
	bool *compared; /* `rel` is known: the value, or one whose bytes it shares, was compared with the reference's */
	struct distance *distance; /* the same with all details */
	bool again; /* set while a step is repeated, so that steps of its bodies are not compared */
	size_t cap; /* of pair.nodes */
};

/* ---- taking turns ----------------------------------------------------------------------------- */

static void wait_for_turn(struct pair_work *w, enum turn mine)
{
	while (w->turn != mine && w->turn != TURN_OVER)
		pthread_cond_wait(&w->changed, &w->lock);
}

static void pass_turn(struct pair_work *w, enum turn to)
{
	pthread_mutex_lock(&w->lock);
	w->turn = to;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

/* Passes the turn to the other side, and waits until the other side passes it back. */
static void pass_turn_and_wait(struct pair_work *w, enum turn to, enum turn mine)
{
	pthread_mutex_lock(&w->lock);
	w->turn = to;
	pthread_cond_broadcast(&w->changed);
	wait_for_turn(w, mine);
	pthread_mutex_unlock(&w->lock);
}

/* ---- the reference's values ------------------------------------------------------------------- */

static void release_ref(struct pair_work *w, uint32_t id)
{
	struct ref_value *r = w->refs[id];

	w->refs[id] = NULL;
	if (!r || --r->uses)
		return;
	w->p->held -= r->v.t.bytes;
	value_free(&r->v);
	mem_free(r);
}

static void store_ref(struct pair_work *w, uint32_t id, struct value_copy *v)
{
	struct ref_value *r = mem_alloc(sizeof(*r), MEM_STAGING);

	release_ref(w, id);
	if (!r) {
		value_free(v);
		return;
	}
	*r = (struct ref_value){*v, 1};
	w->refs[id] = r;
	w->shape[id] = v->t.shape;
	w->p->held += v->t.bytes;
	if (w->p->held > w->p->peak)
		w->p->peak = w->p->held;
}

static void copy_closeness(struct pair_work *w, uint32_t to, uint32_t from)
{
	w->exact[to] = w->exact[from];
	w->rel[to] = w->rel[from];
	w->steps[to] = w->steps[from];
	w->compared[to] = w->compared[from];
}

/*
 * Returns the reference's value in its shape. One whose shape is not known is taken in that of `own`, if both have as many elements.
 */
static struct tensor ref_tensor(const struct pair_work *w, uint32_t id, const struct tensor *own)
{
	struct tensor t = w->refs[id]->v.t, like = t;

	if (t.type.kind != V_TENSOR)
		return t;
	if (w->shape[id].rank >= 0) {
		t.shape = w->shape[id];
	} else if (own && own->type.kind == V_TENSOR) {
		like.shape = own->shape;
		t = tensor_count(&like) == tensor_count(&t) ? like : t;
	}
	return t;
}

/* Returns where the reference's value `id` of the runner's graph is stored, or NO_VALUE. */
static uint32_t ref_of(const struct runner *r, uint32_t id)
{
	return id == NO_VALUE || r == &r->w->got ? id : r->other[id];
}

/* Returns the reference's tensors of a node's inputs, in the arena; NULL if one is not known. */
static const struct tensor *const *inputs_of_refs(const struct runner *r, const struct node *n,
						  struct arena *a)
{
	const struct pair_work *w = r->w;
	struct tensor *in = arena_new_n(a, struct tensor, n->nin + 1);
	const struct tensor **of = arena_new_n(a, const struct tensor *, n->nin + 1);

	for (uint32_t i = 0; i < n->nin; i++) {
		uint32_t id = ref_of(r, n->in[i]);
		of[i] = n->in[i] == NO_VALUE ? NULL : r->g->value[n->in[i]]->init;
		if (n->in[i] == NO_VALUE || of[i])
			continue;
		if (id == NO_VALUE || !w->refs[id] || w->shape[id].rank < 0)
			return NULL;
		in[i] = ref_tensor(w, id, NULL);
		of[i] = &in[i];
	}
	return of;
}

/* The shape of a view of the reference's value; rank -1 if it cannot be told. The elements are those that are there already. */
static struct shape shape_of_view(const struct runner *r, const struct node *n)
{
	struct shape s = {.rank = -1};
	struct arena a = {0};
	enum dtype t;
	const struct tensor *const *in = inputs_of_refs(r, n, &a);

	if (in && !eval_shape(r->g, n, in, &t, &s))
		s.rank = -1;
	arena_free(&a);
	return s;
}

static void share_ref(struct runner *r, const struct node *n, uint32_t to, uint32_t from)
{
	struct pair_work *w = r->w;
	const struct shape *s = &r->g->value[n->out[0]]->info.shape;

	release_ref(w, to);
	w->shape[to] = shape_known(s) ? *s : shape_of_view(r, n);
	w->refs[to] = w->refs[from];
	w->refs[to]->uses++;
	copy_closeness(w, to, from);
}

/*
 * Runs a node of the runner's graph on the reference's inputs. Returns its output, which lives in the arena; NULL if an input is not
 * known, or if the output is larger than --memory-limit lets values be.
 */
static const struct tensor *evaluate_on_refs(const struct runner *r, const struct node *n,
					     struct arena *a)
{
	const size_t limit = r->rt->host_limit;
	struct tensor *out[1];
	struct shape s;
	enum dtype t;
	size_t bytes;
	const struct tensor *const *in = inputs_of_refs(r, n, a);

	if (!in || n->nout != 1 || !eval_shape(r->g, n, in, &t, &s) ||
	    !tensor_bytes(t, &s, LAYOUT_ROW, &bytes) || (limit && bytes > limit))
		return NULL;
	return eval_node(host_backend(), r->g, n, in, out, a, NULL) ? NULL : out[0];
}

/*
 * Runs a node that one plan has turned into a view, but whose row-major bytes differ from its input's (a Transpose).
 */
static void evaluate_ref(struct runner *r, const struct node *n, uint32_t to, uint32_t from)
{
	struct pair_work *w = r->w;
	struct arena a = {0};
	struct value_copy v = {0};
	const struct call call = {0};
	const struct tensor *y = n->nin == 1 && n->nout == 1 ? evaluate_on_refs(r, n, &a) : NULL;

	if (y && !value_fetch(w->got.rt, &call, y, true, &v, NULL)) {
		store_ref(w, to, &v);
		copy_closeness(w, to, from);
	}
	arena_free(&a);
}

/* Makes the reference's first output of a node that had no step in the runner's plan from the reference's input. */
static void derive_ref(struct runner *r, const struct node *n)
{
	struct pair_work *w = r->w;

	if (!n->nin || !n->nout)
		return;
	uint32_t to = ref_of(r, n->out[0]), from = ref_of(r, n->in[0]);
	if (to == NO_VALUE || from == NO_VALUE || !w->refs[from] || w->refs[to])
		return;
	if (n->op && (n->op->flags & OP_VIEW))
		share_ref(r, n, to, from);
	else
		evaluate_ref(r, n, to, from);
}

/* Frees the reference's values that no node after position `at` reads. */
static void release_last_uses(struct pair_work *w, const struct node *n, uint32_t at)
{
	for (uint32_t i = 0; i < n->nin + n->ncap; i++)
		if (n->in[i] != NO_VALUE && w->last[n->in[i]] <= at)
			release_ref(w, n->in[i]);
	for (uint32_t i = 0; i < n->nout; i++)
		if (n->out[i] != NO_VALUE && w->last[n->out[i]] <= at)
			release_ref(w, n->out[i]);
}

static void keep_reference(struct runner *r, const struct call *call, const struct tensor *t,
			   uint32_t id)
{
	struct value_copy v;

	if (r->err)
		return;
	r->err = value_fetch(r->rt, call, t, true, &v, r->w->c->d);
	if (!r->err)
		store_ref(r->w, id, &v);
}

/*
 * Whether the step has written an output in place, over this input. The input's contents are then lost and the step
 * cannot be repeated. On a GPU this also happens to the device's copy of a model input.
 */
static bool is_overwritten(const struct call *call, const struct tensor *own)
{
	for (uint32_t k = 0; k < call->step->nout; k++)
		if (call->out[k] && call->out[k]->data == own->data)
			return true;
	return false;
}

/* Stores input i of a step of the reference, if no step has made it: the plan knew it, as it follows from shapes. */
static void keep_stepless(struct runner *r, const struct call *call, uint32_t i)
{
	uint32_t there = call->step->node->in[i];
	uint32_t id = there == NO_VALUE ? NO_VALUE : r->other[there];

	if (id == NO_VALUE || r->stored[there] || r->w->refs[id] || r->w->got.done ||
	    !call->in[i] || is_overwritten(call, call->in[i]))
		return;
	const struct value *v = r->g->value[there];
	r->stored[there] = true;
	if (!v->init && v->producer != NO_NODE)
		keep_reference(r, call, call->in[i], id);
}

/*
 * Observes the reference: stores the outputs of the step, and of the nodes before the step that have no step of their
 * own. Passes the turn to the tested session when the wanted position has been reached.
 */
static void after_reference_step(struct observer *o, const struct step *s, const struct call *call)
{
	struct runner *r = (struct runner *)o;
	struct pair_work *w = r->w;

	if (!step_computes(r->rt, r->g, s) || r->err)
		return;
	uint32_t at = r->position[s->node->id];
	for (uint32_t p = r->next; p < at; p++)
		derive_ref(r, r->g->node[r->g->order[p]]);
	for (uint32_t i = 0; i < s->nin; i++)
		keep_stepless(r, call, i);
	for (uint32_t i = 0; i < s->nout; i++) {
		uint32_t id = s->node->out[i] == NO_VALUE ? NO_VALUE : r->other[s->node->out[i]];
		if (s->node->out[i] != NO_VALUE)
			r->stored[s->node->out[i]] = true;
		if (id != NO_VALUE && call->out[i] && !w->got.done)
			keep_reference(r, call, call->out[i], id);
	}
	r->next = at + 1;
	if (r->next > w->wanted && !w->got.done)
		pass_turn_and_wait(w, TURN_GOT, TURN_REF);
}

/* Lets the reference run until it has made the value that corresponds to value `id` of the tested session. */
static void advance_reference(struct pair_work *w, uint32_t id)
{
	uint32_t there = w->got.other[id];

	if (there == NO_VALUE || w->ref.done || w->refs[id])
		return;
	uint32_t producer = w->ref.g->value[there]->producer;
	if (producer == NO_NODE || w->ref.position[producer] < w->ref.next)
		return;
	w->wanted = w->ref.position[producer];
	pass_turn_and_wait(w, TURN_REF, TURN_GOT);
}

/* ---- repeating a step on the reference's inputs ------------------------------------------------ */

/*
 * Sets the repeated step's inputs to the reference's values; inputs that the reference does not keep stay the step's
 * own. *fed is set if at least one input differs from the step's own. Returns false if the step cannot be repeated.
 */
static bool set_inputs(struct pair_work *w, struct repetition *r, bool *fed)
{
	const struct step *s = r->call->step;

	for (uint32_t i = 0; i < s->nin; i++) {
		uint32_t id = s->node->in[i];
		const struct tensor *own = r->call->in[i];
		if (!own || id == NO_VALUE)
			continue;
		const struct value *v = w->got.g->value[id];
		if (v->init || v->is_input || v->producer == NO_NODE || !w->refs[id]) {
			if (is_overwritten(r->call, own))
				return false;
			continue;
		}
		*fed |= !w->exact[id];
		if (!repeat_input(r, i, &w->refs[id]->v.t))
			return false;
	}
	return true;
}

/*
 * SAME_INPUTS means that the step's own inputs equal the reference's, so that a repetition would make the same
 * outputs.
 */
enum repeated { SAME_INPUTS, REPEATED, NOT_REPEATED };

/* Repeats the step on the reference's inputs if these differ from its own. */
static enum repeated repeat_step(struct pair_work *w, struct repetition *r, struct diag *d)
{
	bool fed = false;

	if (!set_inputs(w, r, &fed))
		return NOT_REPEATED;
	if (!fed)
		return SAME_INPUTS;
	w->again = true;
	int err = repeat_run(r, d);
	w->again = false;
	return err ? NOT_REPEATED : REPEATED;
}

void input_error_add(struct input_error *e, double rel, bool seen, const char *name)
{
	e->all++;
	if (rel > e->most)
		e->most = rel;
	if (!seen && !e->unseen++)
		e->name = name;
}

const char *input_error_say(struct diag *d, const struct input_error *e)
{
	const char *agree = e->most > 0 ? fmt(d, "agree within %.2g", e->most)
			    : e->steps	? "agree but for steps of 1 of quantized elements"
					: "agree to the bit";
	const char *unseen = e->unseen > 1 ? fmt(d, "'%s' and %s", e->name,
						 str_many(&d->arena, e->unseen - 1, "other"))
					   : fmt(d, "'%s'", e->name);

	if (!e->unseen)
		return agree;
	return fmt(d, "%s%s %s not compared", e->unseen < e->all ? fmt(d, "%s, but ", agree) : "",
		   unseen, e->unseen > 1 ? "were" : "was");
}

/* ---- the tested session ------------------------------------------------------------------------ */

static struct pair_node *add_node(struct pair_work *w, const struct node *n)
{
	struct pair *p = w->p;

	if (p->n == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 64;
		p->nodes = arena_grow(&w->c->arena, p->nodes, p->n, w->cap, sizeof(*p->nodes));
	}
	const struct node *named = check_file_node(w->got.g, n);
	p->nodes[p->n] = (struct pair_node){
		.node = n, .origin = named ? named->origin : n->origin, .value = NO_VALUE};
	return &p->nodes[p->n++];
}

/* Returns the value of which views alone make value `id`; `id` itself if no view makes it. */
static const struct value *root_of_views(const struct graph *g, uint32_t id)
{
	return g->value[follow_views(g, id, false, NULL, NULL)];
}

/* Whether the value is an input of the model or a constant, or a view of one that is the same view in the reference. */
static bool is_given(const struct pair_work *w, uint32_t id)
{
	const struct value *v = root_of_views(w->got.g, id);
	uint32_t there = w->got.other[id];

	if (!v->init && v->producer != NO_NODE)
		return false;
	return there == NO_VALUE || !strcmp(root_of_views(w->ref.g, there)->name, v->name);
}

static struct input_error input_error_of(const struct pair_work *w, const struct node *n)
{
	struct input_error e = {0};

	for (uint32_t i = 0; i < n->nin + n->ncap; i++) {
		uint32_t id = n->in[i];
		if (id == NO_VALUE)
			continue;
		input_error_add(&e, w->rel[id], w->compared[id] || is_given(w, id),
				w->got.g->value[id]->name);
		e.steps |= w->steps[id];
	}
	return e;
}

/*
 * Overwrites the output of a node that draws random numbers with the reference's output, because otherwise all later
 * nodes would differ.
 */
static void adopt_reference(struct pair_work *w, const struct call *call, uint32_t i,
			    const struct ref_value *r)
{
	struct tensor *y = call->out[i];
	const struct runtime *rt = w->got.rt;

	if (y->layout != LAYOUT_ROW || y->type.kind != V_TENSOR || y->bytes != r->v.t.bytes ||
	    tensor_dtype(y) != tensor_dtype(&r->v.t))
		return;
	if (!y->device)
		memcpy(y->data, r->v.t.data, y->bytes);
	else if (!rt->backend->copy(call->stream, y->data, y->device, r->v.t.data, 0, y->bytes, NULL))
		(void)rt->backend->wait(call->stream, NULL);
}

static void set_distance(struct pair_work *w, uint32_t id, const struct distance *d)
{
	w->exact[id] = d->exact;
	w->rel[id] = d->known ? distance_rank(d) : 0;
	w->steps[id] = d->known && d->steps;
	w->compared[id] = d->known;
	w->distance[id] = *d;
}

/* Returns the type by which the distance of value `id` is judged, whichever side has rounded to it. */
static enum dtype judged_type(const struct pair_work *w, uint32_t id, enum dtype own)
{
	uint32_t there = w->got.other[id];
	enum dtype t = coarser_precision(own, w->got.path[id]);

	return there == NO_VALUE ? t : coarser_precision(t, w->ref.path[there]);
}

/* Adds the node that makes value `id` without a step, and how far the value is from the reference's. */
static void add_stepless(struct pair_work *w, uint32_t id, const struct distance *d, enum dtype dtype)
{
	const struct graph *g = w->got.g;

	set_distance(w, id, d);
	if (!d->known || g->value[id]->producer == NO_NODE)
		return;
	const struct node *n = g->node[g->value[id]->producer];
	struct pair_node *entry = add_node(w, n);
	w->p->steps++;
	entry->value = id;
	entry->own = *d;
	entry->dtype = dtype;
	entry->path = judged_type(w, id, dtype);
	entry->inputs = input_error_of(w, n);
}

/*
 * Compares the inputs of the step that no step has made, views for example, if the reference made them otherwise. `after`: the step
 * has run.
 */
static int compare_stepless_inputs(struct pair_work *w, const struct call *call, bool after)
{
	const struct step *s = call->step;
	int err = 0;

	for (uint32_t i = 0; i < s->nin && !err; i++) {
		uint32_t id = s->node->in[i];
		struct value_copy v;
		if (id == NO_VALUE || !call->in[i] || w->compared[id] || !w->refs[id] ||
		    (after && is_overwritten(call, call->in[i])))
			continue;
		err = value_fetch(w->got.rt, call, call->in[i], false, &v, w->c->d);
		if (err)
			break;
		const struct tensor want = ref_tensor(w, id, &v.t);
		struct distance d = distance_of(&v.t, &want);
		add_stepless(w, id, &d, tensor_dtype(&v.t));
		value_free(&v);
	}
	return err;
}

/*
 * Records how far output `id` is from the reference's value. `own` is the output as the step made it, `other` the
 * output as the repeated step made it from the reference's inputs.
 */
static void record_distances(struct pair_work *w, const struct node *n, uint32_t id,
			     const struct tensor *own, const struct tensor *other,
			     enum repeated how, struct pair_node **entry)
{
	const struct tensor want = ref_tensor(w, id, own);
	struct distance d = distance_of(own, &want), l = d;

	if (how == REPEATED)
		l = distance_of(other, &want);
	else if (how == NOT_REPEATED)
		l = (struct distance){0};
	set_distance(w, id, &d);
	if (!d.known)
		return;
	if (!*entry)
		*entry = add_node(w, n);
	if (distance_rank(&l) > distance_rank(&(*entry)->local))
		(*entry)->local = l;
	if ((*entry)->value == NO_VALUE || distance_rank(&d) > distance_rank(&(*entry)->own)) {
		(*entry)->own = d;
		(*entry)->value = id;
		(*entry)->dtype = tensor_dtype(own);
		(*entry)->path = judged_type(w, id, tensor_dtype(own));
	}
}

/* Compares output i, as the step made it and as the repeated step made it, with the reference's value. */
static int compare_output(struct pair_work *w, const struct call *call, struct repetition *r,
			  enum repeated how, uint32_t i, struct pair_node **entry)
{
	const struct node *n = call->step->node;
	uint32_t id = n->out[i];
	struct value_copy own, other = {0};
	int err = value_fetch(w->got.rt, call, call->out[i], false, &own, w->c->d);

	if (!err && how == REPEATED)
		err = value_fetch(w->got.rt, call, r->out[i], false, &other, w->c->d);
	if (!err && w->refs[id]) {
		record_distances(w, n, id, &own.t, &other.t, how, entry);
	} else if (!err && how != NOT_REPEATED) {
		/*
		 * if the reference has no such value, use the output that this kernel makes of the reference's inputs
		 */
		struct value_copy keep;
		const struct tensor *t = how == REPEATED ? r->out[i] : call->out[i];
		err = value_fetch(w->got.rt, call, t, true, &keep, w->c->d);
		w->exact[id] = how == SAME_INPUTS;
		if (!err) {
			struct distance d = distance_of(&own.t, &keep.t);
			w->rel[id] = d.known ? distance_rank(&d) : 0;
			w->steps[id] = d.known && d.steps;
			w->compared[id] = d.known && !input_error_of(w, n).unseen;
			store_ref(w, id, &keep);
		}
	}
	value_free(&own);
	value_free(&other);
	return err;
}

static int compare_step(struct pair_work *w, const struct call *call)
{
	const struct step *s = call->step;
	struct pair_node *entry = NULL;
	struct repetition r;

	for (uint32_t i = 0; i < s->nout; i++)
		if (call->out[i] && s->node->out[i] != NO_VALUE)
			advance_reference(w, s->node->out[i]);
	if (s->node->op && (s->node->op->flags & OP_RANDOM)) {
		for (uint32_t i = 0; i < s->nout; i++)
			if (call->out[i] && w->refs[s->node->out[i]])
				adopt_reference(w, call, i, w->refs[s->node->out[i]]);
	}
	repeat_begin(&r, w->got.rt, call);
	struct diag d = {0};
	int err = compare_stepless_inputs(w, call, true);
	enum repeated how = repeat_step(w, &r, &d);
	for (uint32_t i = 0; i < s->nout && !err; i++)
		if (call->out[i] && s->node->out[i] != NO_VALUE)
			err = compare_output(w, call, &r, how, i, &entry);
	if (entry)
		entry->inputs = input_error_of(w, s->node);
	diag_free(&d);
	repeat_end(&r);
	return err;
}

/* Makes the reference's values of the nodes between the last step and this one, which have no steps. */
static void derive_stepless(struct runner *r, uint32_t at)
{
	for (uint32_t p = r->next; p < at; p++) {
		const struct node *n = r->g->node[r->g->order[p]];
		/* what is a view here may have a step in the reference, which then decides about the value */
		for (uint32_t i = 0; i < n->nout; i++)
			if (n->out[i] != NO_VALUE)
				advance_reference(r->w, n->out[i]);
		derive_ref(r, n);
	}
}

static bool is_followed(const struct runner *r, const struct step *s)
{
	return step_computes(r->rt, r->g, s) && !r->err && !r->w->again;
}

static void before_tested_step(struct observer *o, const struct step *s, const struct call *call)
{
	struct runner *r = (struct runner *)o;
	const struct check_progress *p = &r->w->c->progress;

	if (p->at)
		p->at(p->arg, s->from ? s->from->name : NULL, s->from ? s->from->op : NULL);
	if (!is_followed(r, s))
		return;
	derive_stepless(r, r->position[s->node->id]);
	/* the step may write over its inputs */
	r->err = compare_stepless_inputs(r->w, call, false);
}

static void ignore_begin(struct observer *o, const struct step *s, const struct call *call)
{
	(void)o, (void)s, (void)call;
}

static void after_tested_step(struct observer *o, const struct step *s, const struct call *call)
{
	struct runner *r = (struct runner *)o;
	struct pair_work *w = r->w;

	if (!is_followed(r, s))
		return;
	uint32_t at = r->position[s->node->id];
	for (uint32_t p = r->next; p < at; p++)
		release_last_uses(w, r->g->node[r->g->order[p]], p);
	r->err = compare_step(w, call);
	release_last_uses(w, s->node, at);
	r->next = at + 1;
	w->p->steps++;
	check_step(w->c, r->next, r->g->norder);
}

/* ---- running ----------------------------------------------------------------------------------- */

static int run_side(struct runner *r)
{
	const struct graph *g = r->g;
	const struct tensor **out = arena_new_n(&r->w->c->arena, const struct tensor *, g->nout + 1);
	struct pair *p = r->w->p;
	r->out = out;
	const struct tensor *const *in =
		r->side->path ? counterparts_inputs(r->w->c, g, r->side->path, r->w->in) : r->w->in;

	if (!in)
		return -E_REFERENCE;
	session_observe(r->side->session, &r->observer);
	int err = session_run(r->side->session, in, out, r->w->c->d);
	session_observe(r->side->session, NULL);
	struct value_stats *stats = r == &r->w->ref ? p->ref_stats : p->got_stats;
	for (uint32_t i = 0; i < g->nout && !err && i < p->noutputs; i++)
		if (out[i])
			stats[i] = value_stats(out[i]);
	return err ? err : r->err;
}

static int open_side(struct pair_work *w, struct pair_side *s)
{
	if (!s->session)
		s->session = session_open(s->path ? s->path : w->p->path, &s->config, w->c->d);
	if (s->session)
		return 0;
	return w->c->d->last ? -(int)w->c->d->last->code : -E_INTERNAL;
}

/* Builds the tables that are indexed by node and value ids. Both sessions must be open. */
static void index_side(struct runner *r, struct pair_work *w, struct pair_side *side)
{
	struct arena *a = &w->c->arena;
	const struct graph *g = session_model(side->session)->graph;

	r->w = w;
	r->side = side;
	r->g = g;
	r->rt = session_runtime(side->session);
	r->position = arena_new_n(a, uint32_t, g->nnodes + 1);
	r->other = arena_new_n(a, uint32_t, g->nvalues + 1);
	r->stored = arena_new_n(a, bool, g->nvalues + 1);
	r->path = path_precisions(a, g);
	for (uint32_t p = 0; p < g->norder; p++)
		r->position[g->order[p]] = p;
}

static void prepare_comparison(struct pair_work *w)
{
	struct arena *a = &w->c->arena;
	struct pair *p = w->p;

	index_side(&w->ref, w, &p->ref);
	index_side(&w->got, w, &p->got);
	if (p->ref.path)
		counterparts_find(w->ref.g, w->got.g, w->ref.other, w->got.other);
	else
		counterparts_same(w->ref.g, w->got.g, w->ref.other, w->got.other);
	const struct graph *g = w->got.g;
	w->refs = arena_new_n(a, struct ref_value *, g->nvalues + 1);
	w->shape = arena_new_n(a, struct shape, g->nvalues + 1);
	w->last = arena_new_n(a, uint32_t, g->nvalues + 1);
	w->exact = arena_new_n(a, bool, g->nvalues + 1);
	w->rel = arena_new_n(a, double, g->nvalues + 1);
	w->steps = arena_new_n(a, bool, g->nvalues + 1);
	w->compared = arena_new_n(a, bool, g->nvalues + 1);
	w->distance = arena_new_n(a, struct distance, g->nvalues + 1);
	for (uint32_t k = 0; k < g->norder; k++) {
		const struct node *n = g->node[g->order[k]];
		for (uint32_t i = 0; i < n->nin + n->ncap; i++)
			if (n->in[i] != NO_VALUE)
				w->last[n->in[i]] = k;
	}
	p->noutputs = g->nout;
	p->ref_stats = arena_new_n(a, struct value_stats, g->nout + 1);
	p->got_stats = arena_new_n(a, struct value_stats, g->nout + 1);
	p->outputs = arena_new_n(a, struct distance, g->nout + 1);
	p->output_path = arena_new_n(a, enum dtype, g->nout + 1);
	w->ref.observer = (struct observer){.begin = ignore_begin, .end = after_reference_step};
	w->got.observer = (struct observer){.begin = before_tested_step, .end = after_tested_step};
}

/* Returns the side that runs in the second thread. A session that the caller has opened must stay in this thread. */
static enum turn side_in_second_thread(const struct pair *p)
{
	return p->ref.borrowed ? TURN_GOT : TURN_REF;
}

/*
 * The second thread opens its session in its first turn, runs the session in the next turns, and closes it in the
 * last turn.
 */
static void *second_thread(void *arg)
{
	struct pair_work *w = arg;
	enum turn mine = side_in_second_thread(w->p), other = mine == TURN_REF ? TURN_GOT : TURN_REF;
	struct pair_side *side = mine == TURN_REF ? &w->p->ref : &w->p->got;
	struct runner *r = mine == TURN_REF ? &w->ref : &w->got;

	pthread_mutex_lock(&w->lock);
	wait_for_turn(w, mine);
	pthread_mutex_unlock(&w->lock);
	r->err = open_side(w, side);
	pass_turn_and_wait(w, other, mine);
	if (!w->closing && side->session) {
		int err = run_side(r);
		r->err = r->err ? r->err : err;
		r->done = true;
		pass_turn_and_wait(w, other, mine);
	}
	session_close(side->session);
	side->session = NULL;
	pass_turn(w, other);
	return NULL;
}

static enum turn side_in_this_thread(const struct pair *p)
{
	return side_in_second_thread(p) == TURN_REF ? TURN_GOT : TURN_REF;
}

static int run_both(struct pair_work *w)
{
	struct runner *mine = side_in_this_thread(w->p) == TURN_GOT ? &w->got : &w->ref;
	struct runner *theirs = mine == &w->got ? &w->ref : &w->got;

	/*
	 * The tested session leads and lets the reference run as far as the comparison needs. At last the reference
	 * runs to its end.
	 */
	if (mine == &w->ref)
		pass_turn_and_wait(w, TURN_GOT, TURN_REF);
	if (!mine->done) {
		int err = run_side(mine);
		mine->err = mine->err ? mine->err : err;
		mine->done = true;
	}
	while (!theirs->done)
		pass_turn_and_wait(w, side_in_second_thread(w->p), side_in_this_thread(w->p));
	return w->got.err ? w->got.err : w->ref.err;
}

/* Returns the reference's tensor of the tested session's output k, or NULL if no output of the reference corresponds to it. */
static const struct tensor *reference_output(const struct pair_work *w, uint32_t k)
{
	const struct graph *g = w->ref.g;
	uint32_t there = w->got.other[w->got.g->out[k]];

	for (uint32_t i = 0; i < g->nout; i++)
		if (there == NO_VALUE ? i == k : g->out[i] == there)
			return w->ref.out[i];
	return NULL;
}

/* Compares the outputs of both runs. One that no step has made, a view for example, has not been compared before. */
static void compare_outputs(struct pair_work *w)
{
	struct pair *p = w->p;
	const struct graph *g = w->got.g;

	for (uint32_t k = 0; k < p->noutputs; k++) {
		const struct tensor *got = w->got.out[k], *want = reference_output(w, k);
		p->outputs[k] = w->distance[g->out[k]];
		p->output_path[k] =
			judged_type(w, g->out[k], (enum dtype)g->value[g->out[k]]->info.type.dtype);
		if (!got || !want)
			continue;
		p->outputs[k] = distance_of(got, want);
		if (!w->compared[g->out[k]] && !is_given(w, g->out[k]))
			add_stepless(w, g->out[k], &p->outputs[k], tensor_dtype(got));
	}
}

/* Whether the value itself was compared with one of the reference, and not with what its node makes of the reference's inputs. */
static bool was_compared(const struct pair_work *w, uint32_t id)
{
	const struct value *v = w->got.g->value[id];

	return v->init || v->producer == NO_NODE || w->distance[id].known;
}

uint32_t pair_nodes_before(const struct pair *p, const struct pair_node *n, struct check_names *names)
{
	const struct pair_work *w = p->work;
	const struct graph *g = w->got.g;
	struct arena tmp = {0};
	uint32_t *stack = arena_new_n(&tmp, uint32_t, (size_t)g->nnodes + 1), at = 0, count = 0;
	bool *seen = arena_new_n(&tmp, bool, (size_t)g->nnodes + 1);

	stack[at++] = n->node->id;
	seen[n->node->id] = true;
	while (at) {
		const struct node *m = g->node[stack[--at]];
		/* a view has the elements of what it is a view of */
		bool view = m->op && (m->op->flags & OP_VIEW) && m->nout && m->out[0] != NO_VALUE &&
			    w->got.other[m->out[0]] != NO_VALUE;
		if (m != n->node && !view) {
			const struct node *named = check_file_node(g, m);
			check_name_add(names, check_node(named ? named : m));
			count++;
		}
		for (uint32_t i = 0; i < m->nin + m->ncap; i++) {
			uint32_t from = m->in[i] == NO_VALUE || was_compared(w, m->in[i])
						? NO_NODE
						: g->value[m->in[i]]->producer;
			if (from == NO_NODE || seen[from])
				continue;
			seen[from] = true;
			stack[at++] = from;
		}
	}
	arena_free(&tmp);
	return count;
}

const struct node *pair_counterpart(const struct pair *p, const struct pair_node *n)
{
	const struct pair_work *w = p->work;
	uint32_t there = n->value == NO_VALUE ? NO_VALUE : w->got.other[n->value];
	uint32_t from = there == NO_VALUE ? NO_NODE : w->ref.g->value[there]->producer;

	return from == NO_NODE ? NULL : w->ref.g->node[from];
}

int pair_run(struct check_context *c, struct pair *p, const struct tensor *const *in)
{
	struct pair_work *w = arena_new(&c->arena, struct pair_work);

	*w = (struct pair_work){.c = c, .p = p, .in = in};
	p->work = w;
	p->path = p->path ? p->path : c->path;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	w->turn = side_in_this_thread(p);
	struct pair_side *mine = side_in_this_thread(p) == TURN_GOT ? &p->got : &p->ref;
	int err = open_side(w, mine);
	if (err)
		return err;
	if (pthread_create(&w->thread, NULL, second_thread, w))
		return FAIL(c->d, E_MEMORY, .message = "no thread for the second session");
	w->threaded = true;
	pass_turn_and_wait(w, side_in_second_thread(p), side_in_this_thread(p));
	err = side_in_this_thread(p) == TURN_GOT ? w->ref.err : w->got.err;
	if (err)
		return err;
	prepare_comparison(w);
	err = run_both(w);
	if (!err)
		compare_outputs(w);
	return err;
}

void pair_end(struct pair *p)
{
	struct pair_work *w = p->work;

	if (!w)
		return;
	for (uint32_t i = 0; w->refs && i < w->got.g->nvalues; i++)
		release_ref(w, i);
	if (w->threaded) {
		w->closing = true;
		pass_turn_and_wait(w, side_in_second_thread(p), side_in_this_thread(p));
		pthread_join(w->thread, NULL);
	}
	struct pair_side *mine = side_in_this_thread(p) == TURN_GOT ? &p->got : &p->ref;
	if (!mine->borrowed)
		session_close(mine->session);
	mine->session = NULL;
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->changed);
	p->work = NULL;
}
