/* SPDX-License-Identifier: Apache-2.0 */
#include "session/internal.h"

#include "backend/evaluate.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>

int stepper_start_states(struct stepper *x, struct diag *d)
{
	struct runtime *rt = session_runtime(x->session);
	int err = 0;

	for (uint32_t k = 0; !err && k < x->steps->nfeed; k++) {
		const struct feed *f = &x->steps->feed[k];
		err = session_place(x->session, f->out, (struct placed){0}, d);
		if (err)
			return err;
		if (rt->backend == rt->cpu)
			continue;
		err = step_buffer_fill(x->session, &x->buffer[f->in][0],
				       input_info(x->inputs, f->in)->tensor, 1, &x->own[f->in], d);
		x->in[f->in] = &x->own[f->in];
	}
	return err;
}

/* Predicts the bytes of a state in the next step, from its bytes now and a step ago: growth goes on as it was. */
static size_t next_bytes(size_t now, size_t before)
{
	size_t need = now;

	return now > before && !size_add(now, now - before, &need) ? now : need;
}

/*
 * Reserves memory for the state that the next run will write: as much as the newest has, and half as much again if states
 * grow, so that it is rarely reserved anew.
 */
static int reserve_state(struct stepper *x, uint32_t in, int device, struct diag *d)
{
	struct step_buffer *r = &x->buffer[in][!x->newest[in]];
	size_t now = x->own[in].bytes, before = x->buffer[in][x->newest[in]].bytes_before;
	size_t need = next_bytes(now, before);

	if (!x->times.steps || x->own[in].device != device)
		return 0;
	if (r->memory.ptr && r->device == device && r->memory.bytes >= need)
		return 0;
	if (now != before && !size_add(need, need / 2, &need))
		need = now;
	return step_buffer_reserve(x->session, r, need, device, d);
}

/* Asks the next run to write a state where the step after the next one expects it. */
static int place_state(struct stepper *x, const struct feed *f, struct diag *d)
{
	struct runtime *rt = session_runtime(x->session);
	const struct step_buffer *r = &x->buffer[f->in][!x->newest[f->in]];
	int device = rt->backend != rt->cpu, err = reserve_state(x, f->in, device, d);
	bool usable = r->memory.ptr && r->device == device;

	return err ? err
		   : session_place(x->session, f->out,
				   usable ? step_buffer_place(r) : (struct placed){0}, d);
}

/*
 * As place_state(), for a state that the next step extends in place. If its buffer is too small for the new positions, it moves to the other
 * one, which gets half as many again. That number follows from the positions alone: kernels expect the same of keys and of values.
 */
static int place_growing(struct stepper *x, const struct feed *f, struct diag *d)
{
	const struct tensor *now = x->in[f->in];
	int newest = x->newest[f->in];
	int64_t positions = now->shape.dim[now->shape.rank - 2];
	size_t each = now->bytes / (size_t)positions; /* bytes of a position of all rows */
	size_t need = x->output_bytes[f->out] / each, bytes = 0;
	struct step_buffer *r = &x->buffer[f->in][newest];
	struct placed to = {.capacity = now->capacity};

	if (!now->capacity || now->data != r->memory.ptr || (size_t)now->capacity < need) {
		need += need > (size_t)positions ? need / 2 : 0;
		r = &x->buffer[f->in][!newest];
		if (!size_mul(need, each, &bytes))
			return FAIL(d, E_SIZE);
		int err = step_buffer_reserve(x->session, r, bytes, 1, d);
		if (err)
			return err;
		to.capacity = (int64_t)need;
	}
	to.data = r->memory.ptr;
	to.bytes = r->memory.bytes;
	return session_place(x->session, f->out, to, d);
}

enum { MAX_PREDICTED_NODES = 6, MAX_OPERANDS = 2 };

/*
 * Predicts a value's contents in the next step by evaluating up to `nodes` nodes on inputs that the host has (a mask of ones, say, whose sum
 * tells the last position). NULL if that is not possible.
 */
static const struct tensor *predict_value(const struct stepper *x, uint32_t value, int nodes,
					  struct arena *a, struct diag *d)
{
	const struct tensor *in[MAX_OPERANDS] = {0};
	const struct value *v = x->graph->value[value];
	const struct node *n = value_maker(x->graph, v);
	uint32_t which = 0;

	if (v->init)
		return v->init;
	for (uint32_t i = 0; !n && i < x->graph->nin; i++)
		if (x->graph->in[i] == value)
			return x->in[i]->device || x->in[i]->type.kind != V_TENSOR ? NULL : x->in[i];
	if (!n || !nodes || !n->nin || n->nin > MAX_OPERANDS ||
	    (n->op->flags & (OP_RANDOM | OP_CONTROL | OP_HOST_VALUES)))
		return NULL;
	for (uint32_t i = 0; i < n->nin; i++) {
		in[i] = n->in[i] == NO_VALUE ? NULL : predict_value(x, n->in[i], nodes - 1, a, d);
		if (!in[i] && n->in[i] != NO_VALUE)
			return NULL;
	}
	struct tensor **out = arena_new_n(a, struct tensor *, n->nout + 1);
	while (n->out[which] != value)
		which++;
	return eval_node(session_runtime(x->session)->cpu, x->graph, n, in, out, a, d) ? NULL
										       : out[which];
}

/*
 * Whether the next step appends its positions to the `have` that a state has in each row of the batch: the numbers of the last positions, which
 * value `at` holds, must be those.
 */
static bool appends(const struct stepper *x, uint32_t at, int64_t have)
{
	struct arena a = {0};
	struct diag unread = {0};
	const struct tensor *last = predict_value(x, at, MAX_PREDICTED_NODES, &a, &unread);
	enum dtype t = last ? tensor_dtype(last) : DT_NONE;
	bool same = (t == DT_I32 || t == DT_I64) && !last->device;

	for (int64_t i = 0; same && i < tensor_count(last); i++)
		same = elem_i64(t, last->data, i) == have + x->at.now - 1;
	diag_free(&unread);
	arena_free(&a);
	return same;
}

/* Whether the input is the only state that the output continues, and lies on the device. */
static bool is_fed(const void *arg, uint32_t in, uint32_t out)
{
	const struct stepper *x = arg;
	bool fed = false;

	for (uint32_t k = 0; k < x->steps->nfeed; k++) {
		if (x->steps->feed[k].out != out)
			continue;
		if (x->steps->feed[k].in != in)
			return false;
		fed = x->in[in]->device && x->in[in]->bytes;
	}
	return fed;
}

/*
 * Whether the step that has just been foreseen may write the feed's output over its input, whose positions stay as they are. A step that is
 * launched ahead comes to nothing if the one before it has chosen an id of --until, and the state before it is then the last one: it
 * must append its positions to that.
 */
static bool may_grow(struct stepper *x, const struct feed *f)
{
	const struct tensor *now = x->in[f->in];
	int rank = now->shape.rank;
	uint32_t at;

	if (rank < 2 || !session_grows(x->session, f->in, f->out, is_fed, x, &at))
		return false;
	if (x->request.until.n <= 0 || at == NO_VALUE)
		return true;
	int64_t have = now->shape.dim[rank - 2];
	if (x->asked.at != at || x->asked.have != have) {
		x->asked.at = at;
		x->asked.have = have;
		x->asked.appends = appends(x, at, have);
	}
	return x->asked.appends;
}

int stepper_place_states(struct stepper *x, bool foreseen, struct diag *d)
{
	int err = 0;

	x->asked.at = NO_VALUE;
	for (uint32_t k = 0; !err && k < x->steps->nfeed; k++) {
		const struct feed *f = &x->steps->feed[k];
		err = foreseen && may_grow(x, f) ? place_growing(x, f, d) : place_state(x, f, d);
	}
	return err;
}

int stepper_place_next(struct stepper *x, const struct feed *f, size_t now, struct diag *d)
{
	const struct step_buffer *r = &x->buffer[f->in][x->newest[f->in]];
	bool usable = r->memory.ptr && r->memory.bytes >= next_bytes(now, x->in[f->in]->bytes);

	return session_place(x->session, f->out, usable ? step_buffer_place(r) : (struct placed){0},
			     d);
}

/*
 * A free axis of a state whose size is a guess must have been guessed right: 1 or 0 by default, the state's first value would
 * count as a position that nobody gave, or the state would stay empty.
 */
static int check_growth(const struct stepper *x, const struct feed *f, const struct tensor *t,
			struct diag *d)
{
	const struct input_info *in = input_info(x->inputs, f->in);
	const struct shape *was = &in->tensor->shape;

	if (x->times.steps || was->rank != t->shape.rank || strncmp(in->source, "zeros", 5))
		return 0;
	for (int i = 0; i < was->rank; i++) {
		const struct value *v = x->graph->value[x->graph->in[f->in]];
		if (v->info.shape.rank != was->rank || v->info.shape.dim[i] >= 0 ||
		    t->shape.dim[i] == was->dim[i])
			continue;
		return FAIL(d, E_STEPS, .slot = fmt(d, "input '%s'", in->name),
			    .message = fmt(d,
					   "axis %d of this state grows from step to step, but its first value "
					   "already has %" PRId64 " zeros there",
					   i, was->dim[i]),
			    .expected = "a state that begins empty, or a file",
			    .actual = fmt(d, "%s in the first step, %s in the next",
					  shape_str(&d->arena, was, NULL),
					  shape_str(&d->arena, &t->shape, NULL)),
			    .hint = fmt(d, "--dim %s.%d=0 begins with an empty state", in->name, i));
	}
	return 0;
}

static int fail_state(const struct stepper *x, const struct feed *f, struct diag *d)
{
	return FAIL(d, E_STEPS, .slot = fmt(d, "output '%s'", x->graph->out_name[f->out]),
		    .message = "it cannot come back as an input", .expected = "a tensor",
		    .actual = type_str(&d->arena, x->out[f->out]->type));
}

struct tensor stepper_same_place(const struct tensor *t)
{
	return (struct tensor){.type = t->type,
			       .shape = t->shape,
			       .data = t->data,
			       .bytes = t->bytes,
			       .device = t->device,
			       .capacity = t->capacity};
}

int stepper_buffer_of(const struct stepper *x, const struct feed *f, const struct tensor *t)
{
	int newest = x->newest[f->in],
	    k = t->capacity && t->data == x->in[f->in]->data ? newest : !newest;

	return t->data && t->data == x->buffer[f->in][k].memory.ptr ? k : -1;
}

int stepper_hand_over(struct stepper *x, struct diag *d)
{
	bool grown = false;

	x->times.state_bytes = 0;
	for (uint32_t k = 0; k < x->steps->nfeed; k++) {
		const struct feed *f = &x->steps->feed[k];
		const struct tensor *t = x->out[f->out];
		int other = stepper_buffer_of(x, f, t);
		size_t before = x->in[f->in]->bytes;
		int err = t->type.kind == V_TENSOR ? check_growth(x, f, t, d) : fail_state(x, f, d);
		if (err)
			return err;
		grown |= other == x->newest[f->in];
		if (other >= 0)
			x->own[f->in] = stepper_same_place(t);
		else
			err = step_buffer_fill(x->session,
					       &x->buffer[f->in][other = !x->newest[f->in]], t,
					       t->device, &x->own[f->in], d);
		if (err)
			return err;
		x->buffer[f->in][other].bytes_before = before;
		x->newest[f->in] = other;
		x->in[f->in] = &x->own[f->in];
		x->times.state_bytes += t->bytes;
	}
	x->times.grown += grown;
	return 0;
}

int stepper_make_dense(struct stepper *x, uint32_t in, struct diag *d)
{
	struct tensor from = x->own[in];
	int other = !x->newest[in];

	if (!from.capacity)
		return 0;
	x->newest[in] = other;
	return step_buffer_fill(x->session, &x->buffer[in][other], &from, from.device, &x->own[in], d);
}
