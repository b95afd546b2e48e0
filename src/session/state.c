/* SPDX-License-Identifier: Apache-2.0 */
#include "session/state.h"

#include "backend/choose.h"
#include "backend/evaluate.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "input/random.h"
#include "session/collect.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps of a decoder that neither --steps nor an id ends. */
enum { MOST_STEPS = 4096 };

/* A block of memory on the host or on the session's device, kept from step to step. */
struct room {
	struct buffer buffer;
	int device;
	size_t bytes_before; /* of the state before the one that lies here */
};

struct stepper {
	struct arena arena;
	struct session *session;
	const struct steps *steps;
	const struct graph *graph;
	const struct input_set *inputs;
	struct stepper_request request;
	const struct tensor **in; /* what the next step gets, by input */
	struct tensor *own;	  /* tensors of inputs that change, by input */
	struct room (*room)[2]; /* their memory, by input; a state alternates between the two, other inputs have their foreseen value in the second */
	int *newest;		/* by input: which of the two rooms holds the state */
	const struct tensor **next; /* what the step after the current one will probably get, by input */
	struct tensor *next_own;
	const struct tensor **out; /* of the newest step */
	struct collector *collector;
	struct positions at;
	int64_t batch, limit;
	struct step_times times;
	/* ids chosen so far, by --next: rows of `batch` ids a step */
	int64_t **ids;
	size_t *ids_room;
	bool *ended;	   /* by row of the batch: the row has had an id of --until */
	struct buffer row; /* scores of the last position on the host, a row behind the other */
	bool row_pinned;   /* the device writes there directly, several times as fast */
	uint64_t random;
	/*
	 * If the device chooses the ids, each step is launched while the one before it runs; the host reads the ids behind it. Of a step
	 * and the one launched behind it, outputs lie in memory of their own.
	 */
	struct chooser *chooser; /* NULL: the host chooses */
	const struct choose_ops *choosing;
	struct tensor *flown[2];   /* by turn: outputs of the step launched last */
	struct room (*outputs)[2]; /* by output and turn, of those that are no states */
	size_t *output_bytes;	   /* of the step that is to be launched, by output */
	bool flying;		   /* the next step has been launched */
	/* the newest answer of adds_behind(), which many states ask of a step that is to be launched */
	struct {
		int64_t have;
		uint32_t at; /* NO_VALUE: none of this step */
		bool behind;
	} asked;
};

/* ---- memory */

static void room_free(struct stepper *x, struct room *r)
{
	struct runtime *rt = session_runtime(x->session);

	if (!r->buffer.ptr)
		return;
	if (r->device) {
		rt->backend->free(rt->device, &r->buffer);
		session_forget_recordings(x->session);
	} else {
		rt->cpu->free(rt->host, &r->buffer);
	}
	r->buffer = (struct buffer){0};
}

/* Gives the room at least so many bytes on the host (0) or the device (1). What was in it is lost. */
static int room_reserve(struct stepper *x, struct room *r, size_t bytes, int device, struct diag *d)
{
	struct runtime *rt = session_runtime(x->session);

	if (r->buffer.ptr && r->device == device && r->buffer.bytes >= bytes)
		return 0;
	room_free(x, r);
	r->device = device;
	bytes = bytes ? bytes : 1;
	return device ? rt->backend->alloc(rt->device, bytes, MEM_ACTIVATIONS, &r->buffer, d)
		      : rt->cpu->alloc(rt->host, bytes, MEM_ACTIVATIONS, &r->buffer, d);
}

/* Copies a tensor of the host or the device into the room, and makes *to that copy. */
static int room_fill(struct stepper *x, struct room *r, const struct tensor *from, int device,
		     struct tensor *to, struct diag *d)
{
	int err = room_reserve(x, r, from->bytes, device, d);

	if (err)
		return err;
	if (from->bytes && !device && !from->device)
		memcpy(r->buffer.ptr, from->data, from->bytes);
	else if (from->bytes)
		err = session_copy(x->session, r->buffer.ptr, device, from, d);
	*to = (struct tensor){.type = from->type,
			      .shape = from->shape,
			      .data = r->buffer.ptr,
			      .bytes = from->bytes,
			      .device = device};
	return err;
}

/* ---- --slice */

/* Returns how many pieces the input has; 0 if it is too short for one. */
static int64_t count_pieces(const struct slice *s, int64_t length)
{
	int64_t all = s->lead + length, n = all >= s->size ? (all - s->size) / s->stride + 1 : 0;
	int64_t covered = n ? (n - 1) * s->stride + s->size : 0;

	/* gaps between pieces are left out on purpose, so a rest begins where the next piece would */
	return n + (s->rest != REST_DROP && covered < all && n * s->stride < all);
}

/* Copies elements `from` to `from` + n - 1 along the axis; positions outside of the input are zeros. */
static void copy_piece(const struct tensor *t, const struct slice *s, int64_t from, int64_t n,
		       char *to)
{
	int64_t outer = shape_span(&t->shape, 0, s->axis), size = t->shape.dim[s->axis];
	size_t inner = (size_t)shape_span(&t->shape, s->axis + 1, t->shape.rank) *
		       (dtype_bits(tensor_dtype(t)) / 8);
	int64_t begin = from < 0 ? 0 : from, end = from + n < size ? from + n : size;

	memset(to, 0, (size_t)(outer * n) * inner);
	for (int64_t i = 0; i < outer && begin < end; i++)
		memcpy(to + (size_t)(i * n + begin - from) * inner,
		       (const char *)t->data + (size_t)(i * size + begin) * inner,
		       (size_t)(end - begin) * inner);
}

/* Makes the input the piece of this step. A piece that lies in one stretch of the input is not copied. */
static int set_piece(struct stepper *x, const struct slice *s, struct diag *d)
{
	const struct tensor *t = input_info(x->inputs, s->in)->tensor;
	struct tensor *own = &x->own[s->in];
	int64_t from = x->times.steps * s->stride - s->lead, size = t->shape.dim[s->axis];
	int64_t n = s->rest == REST_KEEP && size - from < s->size ? size - from : s->size;

	*own = (struct tensor){.type = t->type, .shape = t->shape};
	own->shape.dim[s->axis] = n;
	if (!tensor_bytes(tensor_dtype(t), &own->shape, LAYOUT_ROW, &own->bytes))
		return FAIL(d, E_SIZE);
	if (from >= 0 && from + n <= size && shape_span(&t->shape, 0, s->axis) == 1) {
		size_t inner = (size_t)shape_span(&t->shape, s->axis + 1, t->shape.rank) *
			       (dtype_bits(tensor_dtype(t)) / 8);
		own->data = (char *)t->data + (size_t)from * inner;
		return 0;
	}
	int err = room_reserve(x, &x->room[s->in][0], own->bytes, 0, d);
	if (!err)
		copy_piece(t, s, from, n, own->data = x->room[s->in][0].buffer.ptr);
	return err;
}

static int check_slice(const struct stepper *x, const struct slice *s, struct diag *d)
{
	const struct input_info *in = input_info(x->inputs, s->in);

	if (!in->tensor || in->tensor->type.kind != V_TENSOR ||
	    tensor_dtype(in->tensor) == DT_STRING || dtype_bits(tensor_dtype(in->tensor)) < 8)
		return FAIL(d, E_STEPS, .slot = fmt(d, "input '%s'", in->name),
			    .message = "it cannot be cut into pieces",
			    .expected = "a tensor of numbers of at least 8 bits",
			    .actual = type_str(&d->arena, in->type));
	return 0;
}

/* Sets the number of steps from the pieces of the inputs and --steps. */
static int limit_by_slices(struct stepper *x, struct diag *d)
{
	for (uint32_t k = 0; k < x->steps->nslice; k++) {
		const struct slice *s = &x->steps->slice[k];
		int err = check_slice(x, s, d);
		if (err)
			return err;
		const struct input_info *in = input_info(x->inputs, s->in);
		int64_t length = in->tensor->shape.dim[s->axis], n = count_pieces(s, length);
		if (!n)
			return FAIL(d, E_STEPS, .slot = fmt(d, "input '%s'", in->name),
				    .message = "it is too short for one step",
				    .expected = fmt(d, "at least %" PRId64 " elements along axis %d",
						    s->size, s->axis),
				    .actual = fmt(d, "%" PRId64, length));
		if (s->rest == REST_PAD && (n - 1) * s->stride + s->size > s->lead + length)
			NOTE(d, E_STEPS, .slot = fmt(d, "input '%s'", in->name),
			     .message = fmt(d,
					    "the last piece has %" PRId64 " of %" PRId64
					    " elements; zeros fill it up",
					    s->lead + length - (n - 1) * s->stride, s->size),
			     .hint = "rest=drop leaves it out, rest=keep runs it as it is");
		if (k && n != x->limit)
			WARN(d, E_STEPS, .slot = fmt(d, "input '%s'", in->name),
			     .message = fmt(d, "it has %" PRId64 " pieces, another input %" PRId64,
					    n, x->limit),
			     .hint = "the shorter one ends the steps");
		x->limit = !k || n < x->limit ? n : x->limit;
	}
	return 0;
}

static int set_limit(struct stepper *x, struct diag *d)
{
	int64_t asked = x->request.limit;

	x->limit = 0;
	int err = limit_by_slices(x, d);
	if (err)
		return err;
	if (!x->steps->nslice) {
		if (asked == INT_ABSENT && !(x->steps->nnext && x->request.until.n > 0))
			return FAIL(d, E_STEPS, .message = "nothing says when the steps end",
				    .expected = x->steps->nnext ? "--steps N or --until ID"
								: "--steps N, or a --slice",
				    .actual = "neither");
		x->limit = asked == INT_ABSENT ? MOST_STEPS : asked;
	} else if (asked != INT_ABSENT && asked < x->limit) {
		x->limit = asked;
	}
	return 0;
}

/* ---- --feed */

/* Brings the first states to the device. */
static int start_states(struct stepper *x, struct diag *d)
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
		err = room_fill(x, &x->room[f->in][0], input_info(x->inputs, f->in)->tensor, 1,
				&x->own[f->in], d);
		x->in[f->in] = &x->own[f->in];
	}
	return err;
}

/* How much a state will need that has `now` bytes, and had `before` bytes a step ago. */
static size_t next_bytes(size_t now, size_t before)
{
	size_t need = now;

	return now > before && !size_add(now, now - before, &need) ? now : need;
}

/*
 * Makes room for the state that the next run will write: as much as the newest has, and half as much again if states
 * grow, so that room must be made only now and then.
 */
static int reserve_state(struct stepper *x, uint32_t in, int device, struct diag *d)
{
	struct room *r = &x->room[in][!x->newest[in]];
	size_t now = x->own[in].bytes, before = x->room[in][x->newest[in]].bytes_before;
	size_t need = next_bytes(now, before);

	if (!x->times.steps || x->own[in].device != device)
		return 0;
	if (r->buffer.ptr && r->device == device && r->buffer.bytes >= need)
		return 0;
	if (now != before && !size_add(need, need / 2, &need))
		need = now;
	return room_reserve(x, r, need, device, d);
}

static struct placed whole_room(const struct room *r)
{
	return (struct placed){.data = r->buffer.ptr, .bytes = r->buffer.bytes};
}

/* Asks the next run to write a state where the step after the next one expects it. */
static int place_state(struct stepper *x, const struct feed *f, struct diag *d)
{
	struct runtime *rt = session_runtime(x->session);
	const struct room *r = &x->room[f->in][!x->newest[f->in]];
	int device = rt->backend != rt->cpu, err = reserve_state(x, f->in, device, d);
	bool usable = r->buffer.ptr && r->device == device;

	return err ? err
		   : session_place(x->session, f->out, usable ? whole_room(r) : (struct placed){0}, d);
}

/*
 * The same of a state that grows where it lies. If there is no room for its next positions, it moves to the other buffer, with half as much
 * again as it needs. How much that is follows from its positions alone: kernels expect the same of keys and of values.
 */
static int place_growing(struct stepper *x, const struct feed *f, struct diag *d)
{
	const struct tensor *now = x->in[f->in];
	int newest = x->newest[f->in];
	int64_t positions = now->shape.dim[now->shape.rank - 2];
	size_t each = now->bytes / (size_t)positions; /* bytes of a position of all rows */
	size_t need = x->output_bytes[f->out] / each, bytes = 0;
	struct room *r = &x->room[f->in][newest];
	struct placed to = {.room = now->room};

	if (!now->room || now->data != r->buffer.ptr || (size_t)now->room < need) {
		need += need > (size_t)positions ? need / 2 : 0;
		r = &x->room[f->in][!newest];
		if (!size_mul(need, each, &bytes))
			return FAIL(d, E_SIZE);
		int err = room_reserve(x, r, bytes, 1, d);
		if (err)
			return err;
		to.room = (int64_t)need;
	}
	to.data = r->buffer.ptr;
	to.bytes = r->buffer.bytes;
	return session_place(x->session, f->out, to, d);
}

enum { MOST_FOLLOWED = 6, MOST_OPERANDS = 2 };

/*
 * The contents that a value has in the next step, if few nodes make it of inputs that the host has (a mask of ones, say, whose sum tells the
 * last position). NULL: it may be otherwise.
 */
static const struct tensor *follow(const struct stepper *x, uint32_t value, int nodes,
				   struct arena *a, struct diag *d)
{
	const struct tensor *in[MOST_OPERANDS] = {0};
	const struct value *v = x->graph->value[value];
	const struct node *n = v->producer == NO_NODE ? NULL : x->graph->node[v->producer];
	uint32_t which = 0;

	if (v->init)
		return v->init;
	for (uint32_t i = 0; !n && i < x->graph->nin; i++)
		if (x->graph->in[i] == value)
			return x->in[i]->device || x->in[i]->type.kind != V_TENSOR ? NULL : x->in[i];
	if (!n || !nodes || !n->nin || n->nin > MOST_OPERANDS ||
	    (n->op->flags & (OP_RANDOM | OP_CONTROL | OP_HOST_VALUES)))
		return NULL;
	for (uint32_t i = 0; i < n->nin; i++) {
		in[i] = n->in[i] == NO_VALUE ? NULL : follow(x, n->in[i], nodes - 1, a, d);
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
 * Whether the next step adds its positions behind the `have` that a state has in each row of the batch: the numbers of the last positions, which
 * value `at` holds, must be those.
 */
static bool adds_behind(const struct stepper *x, uint32_t at, int64_t have)
{
	struct arena a = {0};
	struct diag unread = {0};
	const struct tensor *last = follow(x, at, MOST_FOLLOWED, &a, &unread);
	enum dtype t = last ? tensor_dtype(last) : DT_NONE;
	bool behind = (t == DT_I32 || t == DT_I64) && !last->device;

	for (int64_t i = 0; behind && i < tensor_count(last); i++)
		behind = elem_i64(t, last->data, i) == have + x->at.now - 1;
	diag_free(&unread);
	arena_free(&a);
	return behind;
}

/* Whether the input is a state that the output continues, and no other input is, and on the device. */
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
 * must add its positions behind that.
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
		x->asked.behind = adds_behind(x, at, have);
	}
	return x->asked.behind;
}

/* Places all states for the next run, which has been `foreseen` if it is launched ahead. */
static int place_states(struct stepper *x, bool foreseen, struct diag *d)
{
	int err = 0;

	x->asked.at = NO_VALUE;
	for (uint32_t k = 0; !err && k < x->steps->nfeed; k++) {
		const struct feed *f = &x->steps->feed[k];
		err = foreseen && may_grow(x, f) ? place_growing(x, f, d) : place_state(x, f, d);
	}
	return err;
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

/* A tensor with the bytes of another one. */
static struct tensor same_place(const struct tensor *t)
{
	return (struct tensor){.type = t->type,
			       .shape = t->shape,
			       .data = t->data,
			       .bytes = t->bytes,
			       .device = t->device,
			       .room = t->room};
}

/* In which of its input's two rooms the newest output of a feed was placed; -1 if it lies elsewhere, or is a view of the input. */
static int room_of(const struct stepper *x, const struct feed *f, const struct tensor *t)
{
	int newest = x->newest[f->in],
	    k = t->room && t->data == x->in[f->in]->data ? newest : !newest;

	return t->data && t->data == x->room[f->in][k].buffer.ptr ? k : -1;
}

/* Makes the newest outputs the inputs of the next step. */
static int hand_over(struct stepper *x, struct diag *d)
{
	bool grown = false;

	x->times.state_bytes = 0;
	for (uint32_t k = 0; k < x->steps->nfeed; k++) {
		const struct feed *f = &x->steps->feed[k];
		const struct tensor *t = x->out[f->out];
		int other = room_of(x, f, t);
		size_t before = x->in[f->in]->bytes;
		int err = t->type.kind == V_TENSOR ? check_growth(x, f, t, d) : fail_state(x, f, d);
		if (err)
			return err;
		grown |= other == x->newest[f->in];
		if (other >= 0)
			x->own[f->in] = same_place(t);
		else
			err = room_fill(x, &x->room[f->in][other = !x->newest[f->in]], t, t->device,
					&x->own[f->in], d);
		if (err)
			return err;
		x->room[f->in][other].bytes_before = before;
		x->newest[f->in] = other;
		x->in[f->in] = &x->own[f->in];
		x->times.state_bytes += t->bytes;
	}
	x->times.grown += grown;
	return 0;
}

/* ---- --next */

static int fail_scores(const struct stepper *x, const struct next *n, struct diag *d)
{
	const struct tensor *t = x->out[n->out];

	return FAIL(d, E_STEPS, .slot = fmt(d, "output '%s'", x->graph->out_name[n->out]),
		    .message = "no id can be chosen from it",
		    .expected = fmt(d, "scores of [%" PRId64 ", positions, ids]", x->batch),
		    .actual = t->type.kind == V_TENSOR ? shape_str(&d->arena, &t->shape, NULL)
						       : type_str(&d->arena, t->type));
}

static void row_free(struct stepper *x)
{
	struct runtime *rt = session_runtime(x->session);

	if (x->row.ptr && x->row_pinned)
		rt->backend->free_host(rt->device, &x->row);
	else if (x->row.ptr)
		rt->cpu->free(rt->host, &x->row);
	x->row = (struct buffer){0};
}

static int row_reserve(struct stepper *x, size_t bytes, struct diag *d)
{
	struct runtime *rt = session_runtime(x->session);

	if (x->row.bytes >= bytes)
		return 0;
	row_free(x);
	x->row_pinned = can_pin(rt);
	return x->row_pinned ? rt->backend->alloc_host(rt->device, bytes, MEM_STAGING, &x->row, d)
			     : rt->cpu->alloc(rt->host, bytes, MEM_STAGING, &x->row, d);
}

/* Whether ids can be chosen from the output: it has scores for each row of the batch. */
static bool has_scores(const struct stepper *x, const struct tensor *t)
{
	int rank = t->shape.rank;

	return t->type.kind == V_TENSOR && rank >= 1 && rank <= 3 && tensor_count(t) > 0 &&
	       (T_BIT(tensor_dtype(t)) & T_FLOATS_BF) &&
	       (rank == 1 ? x->batch == 1 : t->shape.dim[0] == x->batch);
}

/* Brings the scores of the last position of all rows to the host, x->row, and returns their number in a row in *ids. */
static int fetch_scores(struct stepper *x, const struct next *n, int64_t *ids, struct diag *d)
{
	const struct tensor *t = x->out[n->out];
	int rank = t->shape.rank, err = 0;

	if (!has_scores(x, t))
		return fail_scores(x, n, d);
	int64_t positions = rank == 3 ? t->shape.dim[1] : 1, size = t->shape.dim[rank - 1];
	size_t bytes = (size_t)size * (dtype_bits(tensor_dtype(t)) / 8);
	size_t all = bytes * (size_t)x->batch; /* no more than the tensor has */
	err = row_reserve(x, all, d);
	*ids = size;
	/* with one position, all rows lie behind one another */
	for (int64_t b = 0; b < (positions == 1 ? 1 : x->batch) && !err; b++) {
		struct tensor last = *t;
		last.data = (char *)t->data + (size_t)(b * positions + positions - 1) * bytes;
		last.bytes = positions == 1 ? all : bytes;
		err = session_fetch(x->session, (char *)x->row.ptr + (size_t)b * bytes, &last, d);
	}
	return err;
}

struct score {
	double value;
	int64_t id;
};

static int larger_score_first(const void *a, const void *b)
{
	const struct score *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* A number for the bits of a float, with sign and magnitude apart: in the floats' order, least of all for NaN. */
static inline int order_of(uint32_t magnitude, bool negative, uint32_t infinity)
{
	return magnitude > infinity ? INT_MIN : negative ? -(int)magnitude : (int)magnitude;
}

enum {
	SCORES_AT_ONCE = 32
}; /* a constant number, so that compilers make vector code of the loops */

/* Sets to[] to the orders of the next SCORES_AT_ONCE scores. */
static inline void orders(enum dtype t, const void *row, int64_t at, int *to)
{
	const uint32_t *wide = (const uint32_t *)row + at;
	const uint16_t *half = (const uint16_t *)row + at;
	uint32_t infinity = t == DT_F32 ? 0x7f800000 : t == DT_F16 ? 0x7c00 : 0x7f80;

	for (int k = 0; k < SCORES_AT_ONCE && t == DT_F32; k++)
		to[k] = order_of(wide[k] & 0x7fffffff, wide[k] >> 31, infinity);
	for (int k = 0; k < SCORES_AT_ONCE && t != DT_F32; k++)
		to[k] = order_of(half[k] & 0x7fffU, half[k] >> 15, infinity);
}

static inline int order_at(enum dtype t, const void *row, int64_t i)
{
	return t == DT_F32
		       ? order_of(((const uint32_t *)row)[i] & 0x7fffffff,
				  ((const uint32_t *)row)[i] >> 31, 0x7f800000)
		       : order_of(((const uint16_t *)row)[i] & 0x7fffU,
				  ((const uint16_t *)row)[i] >> 15, t == DT_F16 ? 0x7c00 : 0x7f80);
}

/* Returns the first of the largest of n scores of float32, float16 or bfloat16, or -1 if all are NaN. */
static inline int64_t largest_of(enum dtype t, const void *row, int64_t n)
{
	int best[SCORES_AT_ONCE], now[SCORES_AT_ONCE], most = INT_MIN;
	int64_t i = 0;

	for (int k = 0; k < SCORES_AT_ONCE; k++)
		best[k] = INT_MIN;
	for (; i + SCORES_AT_ONCE <= n; i += SCORES_AT_ONCE) {
		orders(t, row, i, now);
		for (int k = 0; k < SCORES_AT_ONCE; k++)
			best[k] = now[k] > best[k] ? now[k] : best[k];
	}
	for (int k = 0; k < SCORES_AT_ONCE; k++)
		most = best[k] > most ? best[k] : most;
	for (; i < n; i++)
		most = order_at(t, row, i) > most ? order_at(t, row, i) : most;
	if (most == INT_MIN)
		return -1;
	for (i = 0; i + SCORES_AT_ONCE <= n; i += SCORES_AT_ONCE) {
		int found = 0;
		orders(t, row, i, now);
		for (int k = 0; k < SCORES_AT_ONCE; k++)
			found |= now[k] == most;
		if (found)
			break;
	}
	while (order_at(t, row, i) != most)
		i++;
	return i;
}

/* Returns the first of the largest scores, or -1 if all are NaN. A vocabulary is long, so that it must be found quickly. */
static int64_t largest(enum dtype t, const void *row, int64_t n)
{
	int64_t best = -1;
	double most = 0;

	if (t == DT_F32) /* a constant type each, for the compiler */
		return largest_of(DT_F32, row, n);
	if (t == DT_F16)
		return largest_of(DT_F16, row, n);
	if (t == DT_BF16)
		return largest_of(DT_BF16, row, n);
	for (int64_t i = 0; i < n; i++) {
		double v = elem_f64(t, row, i);
		if (v == v && (best < 0 || v > most)) {
			best = i;
			most = v;
		}
	}
	return best;
}

/* Draws an id with probabilities that are the softmax of the scores over the temperature. */
static int64_t draw(struct stepper *x, const struct next *n, enum dtype t, const void *row, int64_t ids)
{
	struct arena scratch = {0};
	struct score *s = arena_new_n(&scratch, struct score, (size_t)ids + 1);
	int64_t count = 0, k = 0;
	double sum = 0;

	for (int64_t i = 0; i < ids; i++) {
		double v = elem_f64(t, row, i);
		if (v == v)
			s[count++] = (struct score){v, i};
	}
	qsort(s, (size_t)count, sizeof(*s), larger_score_first);
	if (n->top && n->top < count)
		count = n->top;
	double most = count ? s[0].value : 0;
	for (int64_t i = 0; i < count; i++)
		sum += s[i].value = isinf(most) ? s[i].value == most
						: exp((s[i].value - most) / n->temperature);
	double at = random_unit(&x->random) * sum;
	while (k + 1 < count && (at -= s[k].value) >= 0)
		k++;
	int64_t id = count ? s[k].id : -1;
	arena_free(&scratch);
	return id;
}

static bool ends(const struct stepper *x, int64_t id)
{
	for (int64_t i = 0; i < x->request.until.n; i++)
		if (x->request.until.v[i] == id)
			return true;
	return false;
}

/* The rows of the batch, of which several threads find the largest scores. */
struct rows {
	enum dtype type;
	const char *data;
	int64_t size;
	size_t bytes; /* of a row */
	int64_t *ids;
};

static void find_largest(void *arg, int64_t begin, int64_t end, int thread)
{
	const struct rows *r = arg;

	(void)thread;
	for (int64_t b = begin; b < end; b++)
		r->ids[b] = largest(r->type, r->data + (size_t)b * r->bytes, r->size);
}

static int fail_nan(const struct stepper *x, const struct next *n, struct diag *d)
{
	return FAIL(d, E_OUT_NAN, .slot = fmt(d, "output '%s'", x->graph->out_name[n->out]),
		    .message = fmt(d, "all scores of step %" PRId64 " are NaN", x->times.steps + 1));
}

/* Chooses an id for each row. Rows that have ended repeat their last id, so that the other rows can go on. */
static int choose_ids(struct stepper *x, uint32_t k, struct diag *d)
{
	const struct next *n = &x->steps->next[k];
	int64_t *ids = x->ids[k] + x->times.steps * x->batch;

	int64_t size = 0;
	int err = fetch_scores(x, n, &size, d);
	if (err)
		return err;
	enum dtype t = tensor_dtype(x->out[n->out]);
	struct rows rows = {t, x->row.ptr, size, (size_t)size * (dtype_bits(t) / 8), ids};
	if (!n->sample)
		pool_for(x->batch, 1, find_largest, &rows);
	for (int64_t b = 0; b < x->batch; b++) {
		if (x->ended[b])
			ids[b] = ids[b - x->batch];
		else if (n->sample)
			ids[b] = draw(x, n, t, rows.data + (size_t)b * rows.bytes, size);
		if (ids[b] < 0)
			return fail_nan(x, n, d);
	}
	return 0;
}

/* Gives the input for --next the shape of one id a row. */
static int shape_ids(struct stepper *x, const struct next *n, struct tensor *own, struct diag *d)
{
	const struct tensor *given = input_info(x->inputs, n->in)->tensor;

	*own = (struct tensor){.type = given->type, .shape = given->shape};
	if (own->shape.rank)
		own->shape.dim[own->shape.rank - 1] = 1;
	if (shape_count(&own->shape) != x->batch)
		return FAIL(
			d, E_STEPS, .slot = fmt(d, "input '%s'", input_info(x->inputs, n->in)->name),
			.expected = fmt(d, "one id a step for each of %" PRId64 " rows", x->batch),
			.actual = shape_str(&d->arena, &given->shape, NULL));
	own->bytes = (size_t)x->batch * (dtype_bits(tensor_dtype(given)) / 8);
	return 0;
}

/* The ids that the device chooses, as an input for --next. */
static int chosen_ids(struct stepper *x, const struct next *n, struct tensor *own, struct diag *d)
{
	int err = shape_ids(x, n, own, d);

	own->data = x->choosing->ids(x->chooser);
	own->device = 1;
	return err;
}

/* Makes room for one id a row, as an input for --next. */
static int make_ids(struct stepper *x, const struct next *n, struct room *r, struct tensor *own,
		    struct diag *d)
{
	int err = shape_ids(x, n, own, d);

	err = err ? err : room_reserve(x, r, own->bytes, 0, d);
	own->data = r->buffer.ptr;
	return err;
}

/* Makes the ids that a step has chosen the input of the next one. */
static int set_ids(struct stepper *x, uint32_t k, int64_t step, struct diag *d)
{
	const struct next *n = &x->steps->next[k];
	struct tensor *own = &x->own[n->in];
	const int64_t *ids = x->ids[k] + step * x->batch;
	int err = make_ids(x, n, &x->room[n->in][0], own, d);

	if (err)
		return err;
	for (int64_t b = 0; b < x->batch; b++)
		elem_set_i64(tensor_dtype(own), own->data, b, ids[b]);
	x->in[n->in] = own;
	return 0;
}

/* Makes room for the ids of one more step. */
static int grow_ids(struct stepper *x, uint32_t k, struct diag *d)
{
	size_t need, bytes;

	if (!size_mul((size_t)x->times.steps + 1, (size_t)x->batch, &need) ||
	    !size_mul(need, 2 * sizeof(int64_t), &bytes))
		return FAIL(d, E_SIZE);
	if (need <= x->ids_room[k])
		return 0;
	int64_t *more = mem_alloc(bytes, MEM_STAGING);
	if (!more)
		return FAIL(d, E_MEMORY);
	if (x->ids[k])
		memcpy(more, x->ids[k], (size_t)x->times.steps * (size_t)x->batch * sizeof(int64_t));
	mem_free(x->ids[k]);
	x->ids[k] = more;
	x->ids_room[k] = 2 * need;
	return 0;
}

/* Notes the rows that the newest ids end. Returns whether all have ended. */
static bool all_ended(struct stepper *x)
{
	bool all = true;

	for (int64_t b = 0; b < x->batch; b++) {
		x->ended[b] |= ends(x, x->ids[0][x->times.steps * x->batch + b]);
		all &= x->ended[b];
	}
	return all;
}

/* Chooses the ids of the next step, and tells in *ended whether every row of the batch has ended. */
static int choose_next(struct stepper *x, bool *ended, struct diag *d)
{
	int err = 0;

	*ended = false;
	for (uint32_t k = 0; !err && k < x->steps->nnext; k++) {
		err = grow_ids(x, k, d);
		err = err ? err : choose_ids(x, k, d);
		err = err ? err : set_ids(x, k, x->times.steps, d);
	}
	if (!err && x->steps->nnext)
		*ended = all_ended(x);
	return err;
}

/* ---- --derive */

static int derive(struct stepper *x, const struct derive *v, struct positions at, struct room *r,
		  struct tensor *own, struct diag *d)
{
	const struct shape *declared = &x->graph->value[x->graph->in[v->in]]->info.shape;
	const struct tensor *first = input_info(x->inputs, v->in)->tensor;
	struct shape shape = first->shape;

	if (shape.rank && declared->rank == shape.rank && declared->dim[shape.rank - 1] < 0)
		shape.dim[shape.rank - 1] = DIM_UNKNOWN;
	*own = (struct tensor){.type = first->type,
			       .shape = derive_shape(v->rule, &shape, at, x->batch)};
	if (!tensor_bytes(tensor_dtype(own), &own->shape, LAYOUT_ROW, &own->bytes))
		return FAIL(d, E_SIZE);
	int err = room_reserve(x, r, own->bytes, 0, d);
	if (err)
		return err;
	own->data = r->buffer.ptr;
	if (!derive_fill(v->rule, at, own))
		return derive_fail(input_info(x->inputs, v->in)->name, at, own, d);
	return 0;
}

static int set_derived(struct stepper *x, const struct derive *v, struct diag *d)
{
	int err = derive(x, v, x->at, &x->room[v->in][0], &x->own[v->in], d);

	x->in[v->in] = &x->own[v->in];
	return err;
}

/* ---- steps */

/* Sets the inputs that the step number and the positions determine. Those of the first step were read as inputs. */
static int set_inputs(struct stepper *x, struct diag *d)
{
	int err = 0;

	for (uint32_t k = 0; !err && k < x->steps->nslice; k++) {
		err = set_piece(x, &x->steps->slice[k], d);
		x->in[x->steps->slice[k].in] = &x->own[x->steps->slice[k].in];
	}
	for (uint32_t k = 0; !err && x->times.steps && k < x->steps->nderive; k++)
		err = set_derived(x, &x->steps->derive[k], d);
	return err;
}

static struct positions positions_after(const struct stepper *x)
{
	return (struct positions){x->at.past + x->at.now, x->steps->nnext ? 1 : x->at.now};
}

/*
 * Tells the session where the next step will write a state, whose newest value has `now` bytes: over the one that the current step
 * reads. If that has not enough room, place_states() will make some, at another address.
 */
static int place_next(struct stepper *x, const struct feed *f, size_t now, struct diag *d)
{
	const struct room *r = &x->room[f->in][x->newest[f->in]];
	bool usable = r->buffer.ptr && r->buffer.bytes >= next_bytes(now, x->in[f->in]->bytes);

	return session_place(x->session, f->out, usable ? whole_room(r) : (struct placed){0}, d);
}

/*
 * What the next step will get, as far as a plan depends on it: states of the shapes that the current step makes, the positions,
 * and ids that are not known yet. Returns false if that cannot be told.
 */
static bool foresee_inputs(struct stepper *x, struct diag *d)
{
	uint32_t n = input_count(x->inputs);

	memcpy(x->next, x->in, n * sizeof(*x->next));
	for (uint32_t k = 0; k < x->steps->nfeed; k++) {
		const struct feed *f = &x->steps->feed[k];
		const struct tensor *t = x->out[f->out];
		if (t->type.kind != V_TENSOR)
			return false;
		x->next_own[f->in] = same_place(t);
		x->next[f->in] = &x->next_own[f->in];
		if (place_next(x, f, t->bytes, d))
			return false;
	}
	for (uint32_t k = 0; k < x->steps->nderive; k++) {
		const struct derive *v = &x->steps->derive[k];
		if (derive(x, v, positions_after(x), &x->room[v->in][1], &x->next_own[v->in], d))
			return false;
		x->next[v->in] = &x->next_own[v->in];
	}
	for (uint32_t k = 0; k < x->steps->nnext; k++) {
		const struct next *next = &x->steps->next[k];
		struct tensor *own = &x->next_own[next->in];
		if (x->chooser ? chosen_ids(x, next, own, d)
			       : make_ids(x, next, &x->room[next->in][1], own, d))
			return false;
		if (!x->chooser)
			memset(own->data, 0, own->bytes);
		x->next[next->in] = own;
	}
	return true;
}

static const struct tensor *const *foresee(void *arg)
{
	struct stepper *x = arg;
	struct diag unread = {0};
	bool known = x->times.steps + 1 < x->limit && foresee_inputs(x, &unread);

	diag_free(&unread);
	return known ? x->next : NULL;
}

/* ---- steps that are launched before the one before them has ended */

/* Lets the device choose the ids, if nothing else of a step must be seen by the host. What it lacks for that is no error. */
static void choose_on_device(struct stepper *x)
{
	struct runtime *rt = session_runtime(x->session);
	const struct next *n = x->steps->next;
	struct diag unread = {0};

	if (x->steps->nnext != 1 || n->sample || x->steps->nslice || x->limit < 3 ||
	    !rt->backend->choose || rt->observer || rt->config->sync != SYNC_ASYNC ||
	    !collector_wants_last(x->collector))
		return;
	enum dtype t = tensor_dtype(input_info(x->inputs, n->in)->tensor);
	if (t != DT_I64 && t != DT_I32)
		return;
	x->choosing = rt->backend->choose;
	x->chooser = x->choosing->create(rt->device, rt->stream, t, x->batch, x->request.until.v,
					 x->request.until.n, &unread);
	diag_free(&unread);
}

static bool is_state(const struct stepper *x, uint32_t out)
{
	for (uint32_t k = 0; k < x->steps->nfeed; k++)
		if (x->steps->feed[k].out == out)
			return true;
	return false;
}

/* Gives the outputs that are no states memory that the steps before and behind this one do not write. */
static int place_outputs(struct stepper *x, unsigned turn, struct diag *d)
{
	int err = 0;

	for (uint32_t k = 0; !err && k < x->graph->nout; k++) {
		struct room *r = &x->outputs[k][turn];
		size_t need = x->output_bytes[k], more;
		if (is_state(x, k))
			continue;
		bool grows = r->buffer.ptr && need > r->buffer.bytes;
		more = grows && size_add(need, need / 2, &more) ? more : need;
		err = need > r->buffer.bytes || !r->buffer.ptr ? room_reserve(x, r, more, 1, d) : 0;
		err = err ? err : session_place(x->session, k, whole_room(r), d);
	}
	return err;
}

/* Whether all outputs of the step lie where the step behind it writes nothing. */
static bool outputs_last(const struct stepper *x, unsigned turn)
{
	for (uint32_t k = 0; k < x->steps->nfeed; k++)
		if (room_of(x, &x->steps->feed[k], &x->flown[turn][x->steps->feed[k].out]) < 0)
			return false;
	for (uint32_t k = 0; k < x->graph->nout; k++)
		if (!is_state(x, k) && x->flown[turn][k].data != x->outputs[k][turn].buffer.ptr)
			return false;
	return true;
}

static int queue_choice(struct stepper *x, unsigned turn, struct diag *d)
{
	const struct next *n = x->steps->next;
	const struct tensor *t = &x->flown[turn][n->out];
	int rank = t->shape.rank;

	if (!has_scores(x, t))
		return fail_scores(x, n, d);
	int64_t positions = rank == 3 ? t->shape.dim[1] : 1, size = t->shape.dim[rank - 1];
	size_t before = (size_t)((positions - 1) * size) * (dtype_bits(tensor_dtype(t)) / 8);
	const struct scores scores = {.type = tensor_dtype(t),
				      .data = (const char *)t->data + before,
				      .n = size,
				      .step = positions * size};
	return x->choosing->queue(x->chooser, turn, &scores, d);
}

/*
 * Launches the step with number `step`, behind which its ids are chosen. *able becomes false if it must run as others do; nothing
 * has been launched then.
 */
static int launch_step(struct stepper *x, int64_t step, bool *able, struct diag *d)
{
	const struct next *n = x->steps->next;
	unsigned turn = (unsigned)(step & 1);
	int err = set_inputs(x, d);

	err = err ? err : chosen_ids(x, n, &x->own[n->in], d);
	x->in[n->in] = &x->own[n->in];
	*able = !err && session_foresees(x->session, x->in, turn, x->output_bytes);
	if (!*able)
		return 0;
	err = place_states(x, true, d);
	err = err ? err : place_outputs(x, turn, d);
	err = err ? err : session_launch(x->session, x->in, turn, x->out, d);
	for (uint32_t k = 0; !err && k < x->graph->nout; k++) {
		x->flown[turn][k] = *x->out[k];
		x->out[k] = &x->flown[turn][k];
	}
	return err ? err : queue_choice(x, turn, d);
}

/* Takes the ids that the device has chosen in the step that is ending. */
static int read_ids(struct stepper *x, unsigned turn, bool *ended, struct diag *d)
{
	const int64_t *ids;
	int err = x->choosing->wait(x->chooser, turn, &ids, d);

	err = err ? err : grow_ids(x, 0, d);
	for (int64_t b = 0; !err && b < x->batch; b++) {
		x->ids[0][x->times.steps * x->batch + b] = ids[b];
		err = ids[b] < 0 ? fail_nan(x, x->steps->next, d) : 0;
	}
	*ended = !err && all_ended(x);
	return err;
}

/* Steps that are not launched ahead read and write dense states. */
static int make_dense(struct stepper *x, uint32_t in, struct diag *d)
{
	struct tensor from = x->own[in];
	int other = !x->newest[in];

	if (!from.room)
		return 0;
	x->newest[in] = other;
	return room_fill(x, &x->room[in][other], &from, from.device, &x->own[in], d);
}

/* The host chooses from now on. */
static int choose_on_host(struct stepper *x, struct diag *d)
{
	int err = 0;

	x->choosing->destroy(x->chooser);
	x->chooser = NULL;
	session_plan_ahead(x->session, foresee, x, 0);
	for (uint32_t k = 0; k < x->graph->nout; k++)
		if (session_place(x->session, k, (struct placed){0}, d))
			return -E_STEPS;
	for (uint32_t k = 0; !err && k < x->steps->nfeed; k++)
		err = make_dense(x, x->steps->feed[k].in, d);
	return err ? err : set_ids(x, 0, x->times.steps - 1, d);
}

static void find_sizes(struct stepper *x)
{
	uint32_t n = input_count(x->inputs);
	const struct shape **shapes = arena_new_n(&x->arena, const struct shape *, n + 1);
	const struct tensor *first = x->steps->nnext	? x->in[x->steps->next->in]
				     : x->steps->nslice ? x->in[x->steps->slice->in]
							: NULL;

	for (uint32_t i = 0; i < n; i++)
		shapes[i] = &x->in[i]->shape;
	x->at = steps_first(x->steps, x->graph, shapes);
	x->batch = first && first->shape.rank > 1 ? first->shape.dim[0] : 1;
}

static struct stepper *new_stepper(struct session *s, const struct stepper_request *r,
				   const struct input_set *inputs)
{
	struct arena a = {0};
	struct stepper *x = arena_new(&a, struct stepper);
	uint32_t n = input_count(inputs);

	x->arena = a;
	x->session = s;
	x->request = *r;
	x->steps = r->steps;
	x->graph = session_model(s)->graph;
	x->inputs = inputs;
	x->in = arena_new_n(&x->arena, const struct tensor *, n + 1);
	x->own = arena_new_n(&x->arena, struct tensor, n + 1);
	x->next = arena_new_n(&x->arena, const struct tensor *, n + 1);
	x->next_own = arena_new_n(&x->arena, struct tensor, n + 1);
	x->room = arena_array(&x->arena, n + 1, sizeof(*x->room));
	x->newest = arena_new_n(&x->arena, int, n + 1);
	x->out = arena_new_n(&x->arena, const struct tensor *, x->graph->nout + 1);
	x->ids = arena_new_n(&x->arena, int64_t *, x->steps->nnext + 1);
	x->outputs = arena_array(&x->arena, x->graph->nout + 1, sizeof(*x->outputs));
	x->output_bytes = arena_new_n(&x->arena, size_t, x->graph->nout + 1);
	for (int k = 0; k < 2; k++)
		x->flown[k] = arena_new_n(&x->arena, struct tensor, x->graph->nout + 1);
	x->ids_room = arena_new_n(&x->arena, size_t, x->steps->nnext + 1);
	for (uint32_t i = 0; i < n; i++)
		x->in[i] = input_tensors(inputs)[i];
	find_sizes(x);
	x->ended = arena_new_n(&x->arena, bool, (size_t)x->batch + 1);
	x->random = random_start(r->seed, "--next");
	return x;
}

struct stepper *stepper_new(struct session *s, const struct stepper_request *r,
			    const struct input_set *inputs, struct diag *d)
{
	struct stepper *x = new_stepper(s, r, inputs);
	int err = set_limit(x, d);

	mem_keep_freed(); /* each step makes a plan, and frees an older one */
	if (!err) {
		x->collector = collector_new(s, r, &x->arena, d);
		err = x->collector ? 0 : -E_STEPS;
	}
	err = err ? err : session_start(s, d); /* a first piece may need room before anything runs */
	err = err ? err : start_states(x, d);
	if (!err && session_runtime(s)->backend != session_runtime(s)->cpu)
		err = session_outputs_stay(s, true, d);
	err = err ? err : set_inputs(x, d);
	if (!err) {
		choose_on_device(x);
		session_plan_ahead(s, foresee, x, x->chooser != NULL);
		return x;
	}
	stepper_free(x);
	return NULL;
}

int stepper_prepare(struct stepper *x, struct diag *d)
{
	return session_prepare(x->session, x->in, NULL, d);
}

/* Counts a step, of which `run` nanoseconds were the model's. */
static void add_times(struct stepper *x, uint64_t start, uint64_t run, uint64_t planned)
{
	struct session_times t = session_times(x->session);
	uint64_t took = clock_ns() - start;

	if (!x->times.steps) {
		x->times.first = took;
	} else {
		x->times.rest += took;
		x->times.run += run;
		x->times.planned += t.planned - planned;
	}
	x->times.steps++;
}

/* Names the step in the newest finding. */
static int blame_step(const struct stepper *x, int err, struct diag *d)
{
	if (err && d->last && !d->last->hint && x->times.steps)
		d->last->hint = fmt(d, "this was step %" PRId64, x->times.steps + 1);
	return err;
}

/* Launches the next step, unless a finding must be reported or the host must see to it first: it is then launched in its turn. */
static void launch_next(struct stepper *x)
{
	struct diag unread = {0};
	bool able;

	x->flying = !launch_step(x, x->times.steps + 1, &able, &unread) && able;
	diag_free(&unread);
}

/* A step that the host did not want any more ends, and what it has found to be wrong is nobody's concern. */
static void land(struct stepper *x)
{
	struct runtime *rt = session_runtime(x->session);
	struct diag unread = {0};

	if (x->flying)
		(void)rt->backend->wait(rt->stream, &unread);
	x->flying = false;
	diag_free(&unread);
}

/* Runs a step whose ids the device chooses. *able becomes false, and nothing has happened, if the step cannot run so. */
static int step_ahead(struct stepper *x, bool *able, bool *done, struct diag *d)
{
	uint64_t start = clock_ns(), planned = session_times(x->session).planned;
	unsigned turn = (unsigned)(x->times.steps & 1);
	bool ended = false;
	int err = 0;

	*able = true;
	if (!x->flying) {
		err = x->times.steps == 1 ? x->choosing->give(x->chooser, x->ids[0], d) : 0;
		err = err ? err : launch_step(x, x->times.steps, able, d);
		if (err || !*able)
			return err;
	}
	for (uint32_t k = 0; k < x->graph->nout; k++)
		x->out[k] = &x->flown[turn][k];
	x->flying = false;
	bool lasting = outputs_last(x, turn);
	err = hand_over(x, d);
	x->at = positions_after(x);
	if (!err && lasting && x->times.steps + 1 < x->limit)
		launch_next(x);
	for (uint32_t k = 0; k < x->graph->nout; k++)
		x->out[k] = &x->flown[turn][k];
	err = err ? err : read_ids(x, turn, &ended, d);
	uint64_t run = clock_ns() - start;
	err = err ? err : collector_add(x->collector, x->out, d);
	if (!err) {
		add_times(x, start, run, planned);
		*done = ended || x->times.steps >= x->limit;
	}
	if (err || *done)
		land(x);
	return err;
}

int stepper_step(struct stepper *x, bool *done, struct diag *d)
{
	uint64_t start = clock_ns(), planned = session_times(x->session).planned;
	bool ended = false, ahead = false;
	int err = x->chooser && x->times.steps ? step_ahead(x, &ahead, done, d) : 0;

	if (err || ahead)
		return blame_step(x, err, d);
	err = x->chooser && x->times.steps ? choose_on_host(x, d) : 0;
	err = err ? err : set_inputs(x, d);

	err = err ? err : place_states(x, false, d);
	err = err ? err : session_run(x->session, x->in, x->out, d);
	err = err ? err : hand_over(x, d);
	err = err ? err : choose_next(x, &ended, d);
	err = err ? err : collector_add(x->collector, x->out, d);
	if (err)
		return blame_step(x, err, d);
	x->at = positions_after(x);
	add_times(x, start, session_times(x->session).run, planned);
	*done = ended || x->times.steps >= x->limit;
	return 0;
}

const struct tensor *stepper_state(const struct stepper *x, uint32_t feed)
{
	return x->in[x->steps->feed[feed].in];
}

struct step_times stepper_times(const struct stepper *x)
{
	return x->times;
}

const int64_t *stepper_ids(const struct stepper *x, int64_t *n)
{
	*n = x->batch;
	return x->steps->nnext && x->times.steps ? x->ids[0] + (x->times.steps - 1) * x->batch : NULL;
}

/* The ids of a --next as a tensor [batch, steps] of the input's type. */
static struct tensor *ids_tensor(struct stepper *x, uint32_t k)
{
	const struct shape shape = {.rank = 2, .dim = {x->batch, x->times.steps}};
	struct tensor *t = tensor_new(&x->arena, tensor_dtype(x->in[x->steps->next[k].in]), &shape);

	for (int64_t b = 0; t && b < x->batch; b++)
		for (int64_t i = 0; i < x->times.steps; i++)
			elem_set_i64(tensor_dtype(t), t->data, b * x->times.steps + i,
				     x->ids[k][i * x->batch + b]);
	return t;
}

const struct step_output *stepper_outputs(struct stepper *x, size_t *n, struct diag *d)
{
	size_t outputs = collector_count(x->collector);
	struct step_output *o =
		arena_new_n(&x->arena, struct step_output, outputs + x->steps->nnext + 1);

	if (collector_finish(x->collector, x->out, o, d))
		return NULL;
	for (uint32_t k = 0; k < x->steps->nnext; k++) {
		o[outputs + k].name = arena_printf(
			&x->arena, "%s.next", input_info(x->inputs, x->steps->next[k].in)->name);
		o[outputs + k].tensor = ids_tensor(x, k);
		if (!o[outputs + k].tensor) {
			FAIL(d, E_SIZE);
			return NULL;
		}
	}
	*n = outputs + x->steps->nnext;
	return o;
}

void stepper_free(struct stepper *x)
{
	if (!x)
		return;
	session_plan_ahead(x->session, NULL, NULL, 0);
	if (x->choosing && x->chooser)
		x->choosing->destroy(x->chooser);
	for (uint32_t k = 0; k < x->graph->nout; k++)
		for (int turn = 0; turn < 2; turn++)
			if (x->outputs[k][turn].buffer.ptr) {
				room_free(x, &x->outputs[k][turn]);
				(void)session_place(x->session, k, (struct placed){0}, NULL);
			}
	for (uint32_t k = 0; k < x->steps->nfeed; k++)
		if (x->room[x->steps->feed[k].in][0].buffer.ptr ||
		    x->room[x->steps->feed[k].in][1].buffer.ptr)
			(void)session_place(x->session, x->steps->feed[k].out, (struct placed){0},
					    NULL);
	for (uint32_t i = 0; i < input_count(x->inputs); i++)
		for (int k = 0; k < 2; k++)
			room_free(x, &x->room[i][k]);
	for (uint32_t k = 0; k < x->steps->nnext; k++)
		mem_free(x->ids[k]);
	row_free(x);
	collector_free(x->collector);
	struct arena a = x->arena;
	arena_free(&a);
}
