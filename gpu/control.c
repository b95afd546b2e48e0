/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control flow: the host decides, bodies run on the device, and what they carry stays where it is made.
 * Counts and conditions are read back; nothing else is.
 */
#include "ops/control.h"

#include "gpu/job.h"

#include <inttypes.h>

/* Memory of the device that grows. */
struct grown {
	struct device *device;
	struct buffer buffer;
};

static void grown_free(struct grown *g)
{
	if (g->buffer.ptr)
		cuda_backend.free(g->device, &g->buffer);
	g->buffer = (struct buffer){0};
}

/* At least `bytes`; the first `keep` of what there was stay. */
static int grow(const struct call *c, struct grown *g, size_t bytes, size_t keep)
{
	struct buffer more = {0};
	int err;

	if (g->buffer.ptr && g->buffer.bytes >= bytes)
		return 0;
	if (keep && bytes < 2 * g->buffer.bytes)
		bytes = 2 * g->buffer.bytes;
	err = cuda_backend.alloc(g->device, bytes ? bytes : 1, MEM_ACTIVATIONS, &more, c->diag);
	if (!err && keep)
		err = gpu_copy(c, more.ptr, g->buffer.ptr, keep);
	grown_free(g);
	g->buffer = more;
	return err;
}

static int copy(const struct call *c, const struct tensor *to, const struct tensor *from)
{
	return cuda_backend.copy(c->stream, to->data, to->device, from->data, from->device,
				 from->bytes, c->diag);
}

static bool is_plain(const struct tensor *t)
{
	return t->type.kind == V_TENSOR && t->type.dtype != DT_STRING;
}

/* Output i becomes t, wherever that lies. */
static int give(const struct call *c, uint32_t i, const struct tensor *t)
{
	if (!is_plain(t))
		return call_copy(c, i, t);
	int err = call_alloc(c, i, tensor_dtype(t), &t->shape);

	return err || !t->bytes ? err : copy(c, c->out[i], t);
}

/* ---- values that outlive a turn of the body -------------------------------------------------- */

/* A copy with memory of its own, at the place where the original lies; kept between runs. */
struct held {
	struct tensor value;
	struct grown there;
	void *here;
	size_t room;	    /* of here */
	struct arena arena; /* of strings, sequences, ... */
};

static int hold_here(const struct call *c, struct held *h, size_t bytes)
{
	if (h->here && h->room >= bytes)
		return 0;
	mem_free(h->here);
	h->room = bytes + 1;
	h->here = mem_alloc(h->room, MEM_ACTIVATIONS);
	return h->here ? 0 : call_fail(c, E_MEMORY, NULL, fmt(c->diag, "%zu bytes refused", bytes));
}

static int hold(const struct call *c, struct held *h, const struct tensor *t)
{
	if (!is_plain(t)) {
		arena_free(&h->arena);
		h->value = *tensor_copy(&h->arena, t);
		return 0;
	}
	int err = t->device ? grow(c, &h->there, t->bytes, 0) : hold_here(c, h, t->bytes);
	h->value = *t;
	h->value.arena = NULL;
	h->value.data = t->device ? h->there.buffer.ptr : h->here;
	return err || !t->bytes ? err : copy(c, &h->value, t);
}

/* What a loop carries: two copies of each, read and written in turns. */
struct carried {
	uint32_t n;
	struct held *held[2];
	int now;			 /* which the body reads next */
	const struct tensor **in, **out; /* of the body */
};

static void carried_make(struct carried *s, uint32_t n, const struct graph *g, struct site *site)
{
	s->n = n;
	for (int k = 0; k < 2; k++) {
		s->held[k] = arena_new_n(site->plan_arena, struct held, n + 1);
		for (uint32_t i = 0; i < n; i++)
			s->held[k][i].there.device = site->device;
	}
	s->in = arena_new_n(site->plan_arena, const struct tensor *, g->nin + 1);
	s->out = arena_new_n(site->plan_arena, const struct tensor *, g->nout + 1);
}

static void carried_free(struct carried *s)
{
	for (uint32_t i = 0; i < 2 * s->n; i++) {
		struct held *h = &s->held[i / s->n][i % s->n];
		grown_free(&h->there);
		mem_free(h->here);
		arena_free(&h->arena);
	}
}

/* The values that the body gave last become the ones that it reads next. */
static int carried_turn(const struct call *c, struct carried *s, uint32_t at, uint32_t out_at)
{
	struct held *next = s->held[!s->now];
	int err = 0;

	for (uint32_t i = 0; i < s->n && !err; i++) {
		err = hold(c, &next[i], s->out[out_at + i]);
		s->in[at + i] = &next[i].value;
	}
	s->now = !s->now;
	return err;
}

/* ---- scan outputs: tensors that are stacked on the device ------------------------------------- */

struct stack {
	void *fn; /* strided copies of the type's size */
	enum dtype type;
	struct shape each, planned; /* of an element: rank -1: none yet; as inferred, unknown sizes 0 */
	int64_t count, size;	    /* tensors; elements of one */
	struct grown data;
	size_t used;
	int axis;
	bool reverse;
};

static void stack_set(struct site *s, struct stack *k, uint32_t out, int axis, bool reverse,
		      struct diag *d)
{
	const struct vinfo *o = site_out(s, out);

	k->data.device = s->device;
	if (!o)
		return;
	k->type = (enum dtype)o->type.dtype;
	k->axis = o->shape.rank > 0 ? axis_of(axis, o->shape.rank) : 0;
	k->reverse = reverse;
	k->fn = gpu_sized(s, "move", "strided", k->type, d);
	for (int i = 0; i < o->shape.rank; i++)
		if (i != k->axis)
			k->planned.dim[k->planned.rank++] = o->shape.dim[i] < 0 ? 0 : o->shape.dim[i];
}

static void stack_clear(struct stack *s)
{
	s->each = SHAPE_UNKNOWN;
	s->count = s->size = 0;
	s->used = 0;
}

static int stack_push(const struct call *c, struct stack *s, const struct tensor *t)
{
	if (s->each.rank < 0) {
		s->each = t->shape;
		s->size = shape_count(&t->shape);
	}
	if (!shape_equal(&s->each, &t->shape) || t->type.kind != V_TENSOR || tensor_dtype(t) != s->type)
		return call_fail(c, E_SHAPE,
				 fmt(c->diag, "a scan output of shape %s in every turn",
				     c->diag ? shape_str(&c->diag->arena, &s->each, NULL) : ""),
				 c->diag ? shape_str(&c->diag->arena, &t->shape, NULL) : "");
	int err = grow(c, &s->data, s->used + t->bytes, s->used);
	if (err)
		return err;
	struct tensor to = {.data = (char *)s->data.buffer.ptr + s->used, .device = 1};
	s->used += t->bytes;
	s->count++;
	return t->bytes ? copy(c, &to, t) : 0;
}

/* Output i: the stack with its axis where it belongs. */
static int stack_give(const struct call *c, uint32_t i, const struct stack *s)
{
	const struct shape *each = s->count ? &s->each : &s->planned;
	struct shape y = {.rank = each->rank + 1};
	struct gpu_piece p = {0};
	int64_t from[MAX_RANK], to[MAX_RANK], dense[MAX_RANK];

	if (y.rank > MAX_RANK)
		return call_fail(c, E_RANK, NULL, NULL);
	gpu_strides(each, dense);
	for (int k = 0, e = 0; k < y.rank; k++) {
		y.dim[k] = k == s->axis ? s->count : each->dim[e];
		from[k] = k == s->axis ? (s->reverse ? -s->size : s->size) : dense[e];
		e += k != s->axis;
	}
	int err = call_alloc(c, i, s->type, &y);
	if (err || !shape_count(&y))
		return err;
	gpu_strides(&y, to);
	if (!gpu_piece(&p, y.rank, y.dim, from, to))
		return call_fail(c, E_RANK, NULL, NULL);
	p.job.x = (char *)s->data.buffer.ptr +
		  (s->reverse ? (s->count - 1) * s->size * gpu_size(s->type) : 0);
	p.job.y = c->out[i]->data;
	return gpu_launch(c, s->fn, gpu_grid(p.job.n), &p.job, sizeof(p.job));
}

/* Tensors that can be stacked and cut here. */
static bool stacks(const struct vinfo *v)
{
	return !v || (v->type.kind == V_TENSOR && T_BIT(v->type.dtype) & T_MOVED);
}

/* ---- If -------------------------------------------------------------------------------------- */

struct branch {
	const struct tensor **out;
};

static int if_reshape(struct site *s, struct step *step, struct diag *d)
{
	struct branch *b = arena_new(s->plan_arena, struct branch);

	(void)d;
	b->out = arena_new_n(s->plan_arena, const struct tensor *, s->node->nout + 1);
	step->state = b;
	step->unread = 1; /* read back, wherever it lies */
	step->no_capture = true;
	return 0;
}

static int if_run(const struct call *c)
{
	const struct if_params *p = call_params(c);
	const struct branch *s = c->step->state;
	uint32_t nout = c->step->nout;
	uint8_t cond = 0;

	if (tensor_count(c->in[0]) != 1)
		return call_fail(c, E_VALUE, "one condition",
				 fmt(c->diag, "%" PRId64, tensor_count(c->in[0])));
	int err = gpu_read(c, 0, &cond, 1);
	if (err)
		return err;
	struct body *b = c->step->body[cond ? p->then_branch : p->else_branch];
	err = b->ops->run(b, NULL, 0, s->out, nout, c->diag);
	for (uint32_t i = 0; i < nout && !err; i++)
		if (c->out[i])
			err = give(c, i, s->out[i]);
	return err;
}

/* ---- Loop ------------------------------------------------------------------------------------ */

struct loop {
	struct carried state;
	uint32_t nscan;
	struct stack *scan;
	struct tensor turn, cond;
	int64_t turn_value;
	uint8_t cond_value;
};

static void loop_drop(struct step *st)
{
	struct loop *l = st->state;

	if (!l)
		return;
	carried_free(&l->state);
	for (uint32_t i = 0; i < l->nscan; i++)
		grown_free(&l->scan[i].data);
	st->state = NULL;
}

static bool loop_accepts(const struct site *s, struct why *w)
{
	uint32_t n = s->node->nin > 2 ? s->node->nin - 2 : 0;

	for (uint32_t i = n; i < s->node->nout; i++)
		if (!stacks(site_out(s, i)))
			return refuse(w, "scan outputs of strings, or of less than a byte");
	return true;
}

static void loop_scalar(struct tensor *t, const struct graph *g, uint32_t formal, enum dtype type,
			void *data, size_t bytes)
{
	const struct shape *s = &g->value[g->in[formal]]->info.shape;

	*t = (struct tensor){.type = type_tensor(type), .data = data, .bytes = bytes};
	if (shape_count(s) == 1)
		t->shape = *s;
}

static int loop_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct loop_params *p = s->node->params;
	const struct graph *g = s->node->sub[p->body];
	struct loop *l = arena_new(s->plan_arena, struct loop);
	uint32_t n = s->node->nin > 2 ? s->node->nin - 2 : 0;

	carried_make(&l->state, n, g, s);
	l->nscan = s->node->nout - n;
	l->scan = arena_new_n(s->plan_arena, struct stack, l->nscan + 1);
	for (uint32_t i = 0; i < l->nscan; i++)
		stack_set(s, &l->scan[i], n + i, 0, false, d);
	loop_scalar(&l->turn, g, 0, DT_I64, &l->turn_value, sizeof(l->turn_value));
	loop_scalar(&l->cond, g, 1, DT_BOOL, &l->cond_value, sizeof(l->cond_value));
	step->state = l;
	step->unread = n + 2 < 64 ? (UINT64_C(1) << (n + 2)) - 1
				  : ~UINT64_C(0); /* the body's plan moves what it wants elsewhere */
	step->no_capture = true;
	return 0;
}

static int loop_turn(const struct call *c, struct loop *l, struct body *b, bool *go)
{
	struct carried *s = &l->state;
	uint8_t next = 0;
	int err = b->ops->run(b, s->in, b->graph->nin, s->out, b->graph->nout, c->diag);

	if (err)
		return err;
	const struct tensor *cond = s->out[0];
	if (tensor_count(cond) != 1 || tensor_dtype(cond) != DT_BOOL)
		return call_fail(c, E_VALUE, "one condition from the body", NULL);
	err = cuda_backend.copy(c->stream, &next, 0, cond->data, cond->device, 1, c->diag);
	*go = next;
	for (uint32_t i = 0; i < l->nscan && !err; i++)
		if (c->out[s->n + i])
			err = stack_push(c, &l->scan[i], s->out[1 + s->n + i]);
	return err ? err : carried_turn(c, s, 2, 1);
}

static int loop_results(const struct call *c, struct loop *l)
{
	uint32_t n = l->state.n;
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++)
		if (c->out[i])
			err = give(c, i, l->state.in[2 + i]);
	for (uint32_t i = 0; i < l->nscan && !err; i++)
		if (c->out[n + i])
			err = stack_give(c, n + i, &l->scan[i]);
	return err;
}

/* The trip count and the first condition; NULL: none. */
static int loop_bounds(const struct call *c, int64_t *turns, bool *go)
{
	uint32_t nin = c->step->node->nin;
	uint8_t first = 1;
	int err = 0;

	for (uint32_t i = 0; i < 2 && i < nin; i++)
		if (c->in[i] && tensor_count(c->in[i]) != 1)
			return call_fail(c, E_VALUE, "one trip count and one condition", NULL);
	if (nin > 0 && c->in[0])
		err = gpu_read(c, 0, turns, sizeof(*turns));
	if (!err && nin > 1 && c->in[1])
		err = gpu_read(c, 1, &first, 1);
	*go = first;
	return err;
}

static int loop_run(const struct call *c)
{
	const struct loop_params *p = call_params(c);
	struct loop *l = c->step->state;
	struct body *b = c->step->body[p->body];
	bool counted = c->step->node->nin > 0 && c->in[0],
	     asked = c->step->node->nin > 1 && c->in[1], go = true, next = true;
	int64_t turns = INT64_MAX;
	int err = loop_bounds(c, &turns, &go);

	for (uint32_t i = 0; i < l->nscan; i++)
		stack_clear(&l->scan[i]);
	l->state.in[0] = &l->turn;
	l->state.in[1] = &l->cond;
	for (uint32_t i = 0; i < l->state.n; i++)
		l->state.in[2 + i] = c->in[2 + i];
	for (int64_t t = 0; t < turns && go && !err; t++) {
		l->turn_value = t;
		l->cond_value = 1;
		err = loop_turn(c, l, b, &next);
		/* with a trip count and no condition the body's is ignored; with neither it alone can end this */
		if (asked || !counted)
			go = next;
	}
	return err ? err : loop_results(c, l);
}

/* ---- Scan ------------------------------------------------------------------------------------ */

/* A scanned input with its axis in front. */
struct scanned {
	bool moved, reverse;
	void *fn;
	struct gpu_piece view;
	struct grown front; /* the copy */
	struct tensor slice;
};

struct scan {
	struct carried state;
	uint32_t nin, nout; /* scanned inputs, scan outputs */
	int64_t turns;
	struct scanned *in;
	struct stack *out;
};

static void scan_drop(struct step *st)
{
	struct scan *s = st->state;

	if (!s)
		return;
	carried_free(&s->state);
	for (uint32_t i = 0; i < s->nout; i++)
		grown_free(&s->out[i].data);
	for (uint32_t i = 0; i < s->nin; i++)
		grown_free(&s->in[i].front);
	st->state = NULL;
}

static int64_t list_at(const struct ints *v, uint32_t i)
{
	return v->n < 0 ? 0 : v->v[i];
}

static bool scan_accepts(const struct site *s, struct why *w)
{
	const struct scan_params *p = s->node->params;
	uint32_t n = s->node->nin - (uint32_t)p->num_scan_inputs;

	for (uint32_t i = n; i < s->node->nin; i++)
		if (!stacks(site_in(s, i)) || site_in(s, i)->shape.rank > GPU_DIMS)
			return refuse(w, "scan inputs of strings, or of less than a byte");
	for (uint32_t i = n; i < s->node->nout; i++)
		if (!stacks(site_out(s, i)))
			return refuse(w, "scan outputs of strings, or of less than a byte");
	return true;
}

static void scanned_set(struct site *s, struct scanned *v, const struct vinfo *info, int axis,
			bool reverse, struct diag *d)
{
	const struct shape *x = &info->shape;
	struct shape front = {.rank = x->rank}, each = {0};
	enum dtype t = (enum dtype)info->type.dtype;
	int64_t in[MAX_RANK], out[MAX_RANK], dense[MAX_RANK];

	v->reverse = reverse;
	v->moved = axis != 0;
	v->front.device = s->device;
	v->fn = gpu_sized(s, "move", "strided", t, d);
	gpu_strides(x, dense);
	for (int i = 0; i < x->rank; i++) {
		int k = i == 0 ? axis : i <= axis ? i - 1 : i;
		front.dim[i] = x->dim[k];
		in[i] = dense[k];
		if (i)
			each.dim[each.rank++] = x->dim[k];
	}
	gpu_strides(&front, out);
	gpu_piece(&v->view, x->rank, front.dim, in, out);
	v->slice = (struct tensor){.type = info->type, .shape = each, .device = 1};
	dtype_bytes(t, shape_count(&each), &v->slice.bytes);
}

static int scan_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct scan_params *p = s->node->params;
	const struct graph *g = s->node->sub[p->body];
	struct scan *v = arena_new(s->plan_arena, struct scan);
	uint32_t n = s->node->nin - (uint32_t)p->num_scan_inputs;

	carried_make(&v->state, n, g, s);
	v->nin = (uint32_t)p->num_scan_inputs;
	v->nout = s->node->nout - n;
	v->in = arena_new_n(s->plan_arena, struct scanned, v->nin + 1);
	v->out = arena_new_n(s->plan_arena, struct stack, v->nout + 1);
	for (uint32_t i = 0; i < v->nin; i++) {
		const struct vinfo *x = site_in(s, n + i);
		int axis = axis_of(list_at(&p->scan_input_axes, i), x->shape.rank);
		v->turns = x->shape.dim[axis];
		scanned_set(s, &v->in[i], x, axis, list_at(&p->scan_input_directions, i) != 0, d);
	}
	for (uint32_t i = 0; i < v->nout; i++)
		stack_set(s, &v->out[i], n + i, (int)list_at(&p->scan_output_axes, i),
			  list_at(&p->scan_output_directions, i) != 0, d);
	step->state = v;
	step->no_capture = true;
	return 0;
}

static int scan_start(const struct call *c, struct scan *v)
{
	uint32_t n = v->state.n;
	int err = 0;

	for (uint32_t i = 0; i < n; i++)
		v->state.in[i] = c->in[i];
	for (uint32_t i = 0; i < v->nout; i++)
		stack_clear(&v->out[i]);
	for (uint32_t i = 0; i < v->nin && !err; i++) {
		struct scanned *s = &v->in[i];
		if (!s->moved || !s->view.job.n)
			continue;
		err = grow(c, &s->front, c->in[n + i]->bytes, 0);
		s->view.job.x = c->in[n + i]->data;
		s->view.job.y = s->front.buffer.ptr;
		if (!err)
			err = gpu_launch(c, s->fn, gpu_grid(s->view.job.n), &s->view.job,
					 sizeof(s->view.job));
	}
	return err;
}

static int scan_turn(const struct call *c, struct scan *v, struct body *b, int64_t t)
{
	const struct graph *g = b->graph;
	struct carried *s = &v->state;

	for (uint32_t i = 0; i < v->nin; i++) {
		struct scanned *x = &v->in[i];
		int64_t k = x->reverse ? v->turns - 1 - t : t;
		char *from = x->moved ? x->front.buffer.ptr : c->in[s->n + i]->data;
		x->slice.data = from + (size_t)k * x->slice.bytes;
		s->in[s->n + i] = &x->slice;
	}
	int err = b->ops->run(b, s->in, g->nin, s->out, g->nout, c->diag);
	for (uint32_t i = 0; i < v->nout && !err; i++)
		if (c->out[s->n + i])
			err = stack_push(c, &v->out[i], s->out[s->n + i]);
	return err ? err : carried_turn(c, s, 0, 0);
}

static int scan_run(const struct call *c)
{
	const struct scan_params *p = call_params(c);
	struct scan *v = c->step->state;
	uint32_t n = v->state.n;
	int err = scan_start(c, v);

	for (int64_t t = 0; t < v->turns && !err; t++)
		err = scan_turn(c, v, c->step->body[p->body], t);
	for (uint32_t i = 0; i < n && !err; i++)
		if (c->out[i])
			err = give(c, i, v->state.in[i]);
	for (uint32_t i = 0; i < v->nout && !err; i++)
		if (c->out[n + i])
			err = stack_give(c, n + i, &v->out[i]);
	return err;
}

/* ---- Scan of opset 8 ------------------------------------------------------------------------- */

/* Sequences one by one: the first two dims are batch and time, states have the batch in front. */
struct batched {
	struct scan scan; /* first: dropped with it */
	int64_t batch;
	struct tensor *first; /* slices of the states' initial values */
	struct stack *last;
};

static void batched_drop(struct step *st)
{
	struct batched *b = st->state;

	for (uint32_t i = 0; b && i < b->scan.state.n; i++)
		grown_free(&b->last[i].data);
	scan_drop(st);
}

static bool batched_accepts(const struct site *s, struct why *w)
{
	for (uint32_t i = 1; i < s->node->nin; i++)
		if (!stacks(site_in(s, i)))
			return refuse(w, "inputs of strings, or of less than a byte");
	for (uint32_t i = 0; i < s->node->nout; i++)
		if (!stacks(site_out(s, i)))
			return refuse(w, "outputs of strings, or of less than a byte");
	return true;
}

/* A slice of x without its first `drop` dims. */
static void slice_set(struct tensor *t, const struct vinfo *x, int drop)
{
	*t = (struct tensor){.type = x->type, .device = 1};
	for (int i = drop; i < x->shape.rank; i++)
		t->shape.dim[t->shape.rank++] = x->shape.dim[i];
	dtype_bytes((enum dtype)x->type.dtype, shape_count(&t->shape), &t->bytes);
}

static int batched_reshape(struct site *s, struct step *step, struct diag *d)
{
	const struct batched_scan_params *p = s->node->params;
	struct batched *b = arena_new(s->plan_arena, struct batched);
	struct scan *v = &b->scan;
	uint32_t n = s->node->nin - 1 - (uint32_t)p->num_scan_inputs;

	carried_make(&v->state, n, s->node->sub[p->body], s);
	v->nin = (uint32_t)p->num_scan_inputs;
	v->nout = s->node->nout - n;
	v->in = arena_new_n(s->plan_arena, struct scanned, v->nin + 1);
	v->out = arena_new_n(s->plan_arena, struct stack, v->nout + 1);
	b->first = arena_new_n(s->plan_arena, struct tensor, n + 1);
	b->last = arena_new_n(s->plan_arena, struct stack, n + 1);
	for (uint32_t i = 0; i < v->nin; i++) {
		const struct vinfo *x = site_in(s, 1 + n + i);
		b->batch = x->shape.dim[0];
		v->turns = x->shape.dim[1];
		v->in[i].reverse = list_at(&p->directions, i) != 0;
		v->in[i].front.device = s->device;
		slice_set(&v->in[i].slice, x, 2);
	}
	for (uint32_t i = 0; i < n; i++) {
		slice_set(&b->first[i], site_in(s, 1 + i), 1);
		stack_set(s, &b->last[i], i, 0, false, d);
	}
	for (uint32_t i = 0; i < v->nout; i++)
		stack_set(s, &v->out[i], n + i, 0, false, d);
	step->state = b;
	step->unread = 1;
	step->no_capture = true;
	return 0;
}

/* Scan outputs of shorter sequences are filled up with zeros. */
static int batched_pad(const struct call *c, struct scan *v, int64_t from)
{
	int err = 0;

	for (uint32_t i = 0; i < v->nout && !err; i++) {
		struct stack *s = &v->out[i];
		size_t bytes = 0;
		if (!c->out[v->state.n + i] || s->each.rank < 0 || from == v->turns)
			continue;
		dtype_bytes(s->type, s->size, &bytes);
		void *zero = mem_zalloc(bytes + 1, MEM_WORKSPACE);
		struct tensor t = {
			.type = type_tensor(s->type), .shape = s->each, .data = zero, .bytes = bytes};
		err = zero ? 0 : call_fail(c, E_MEMORY, NULL, NULL);
		for (int64_t k = from; k < v->turns && !err; k++)
			err = stack_push(c, s, &t);
		mem_free(zero);
	}
	return err;
}

static int batched_turn(const struct call *c, struct batched *b, int64_t batch, int64_t t,
			int64_t turns)
{
	const struct batched_scan_params *p = call_params(c);
	struct body *body = c->step->body[p->body];
	struct scan *v = &b->scan;
	struct carried *s = &v->state;

	for (uint32_t i = 0; i < v->nin; i++) {
		struct scanned *x = &v->in[i];
		int64_t at = batch * v->turns + (x->reverse ? turns - 1 - t : t);
		x->slice.data = (char *)c->in[1 + s->n + i]->data + (size_t)at * x->slice.bytes;
		s->in[s->n + i] = &x->slice;
	}
	int err = body->ops->run(body, s->in, body->graph->nin, s->out, body->graph->nout, c->diag);
	for (uint32_t i = 0; i < v->nout && !err; i++)
		if (c->out[s->n + i])
			err = stack_push(c, &v->out[i], s->out[s->n + i]);
	return err ? err : carried_turn(c, s, 0, 0);
}

static int batched_one(const struct call *c, struct batched *b, int64_t k, int64_t turns)
{
	struct scan *v = &b->scan;
	struct carried *s = &v->state;
	int err = 0;

	if (turns < 0 || turns > v->turns)
		return call_fail(c, E_VALUE, fmt(c->diag, "lengths from 0 to %" PRId64, v->turns),
				 fmt(c->diag, "%" PRId64, turns));
	for (uint32_t i = 0; i < s->n; i++) {
		b->first[i].data = (char *)c->in[1 + i]->data + (size_t)k * b->first[i].bytes;
		s->in[i] = &b->first[i];
	}
	for (int64_t t = 0; t < turns && !err; t++)
		err = batched_turn(c, b, k, t, turns);
	for (uint32_t i = 0; i < s->n && !err; i++)
		if (c->out[i])
			err = stack_push(c, &b->last[i], s->in[i]);
	return err ? err : batched_pad(c, v, turns);
}

/* [batch, time, ...] */
static int batched_give(const struct call *c, uint32_t i, const struct batched *b,
			const struct stack *s)
{
	struct shape y = {.rank = 2, .dim = {b->batch, b->scan.turns}};

	for (int r = s->count ? 0 : 1; r < (s->count ? s->each.rank : s->planned.rank); r++)
		y.dim[y.rank++] = s->count ? s->each.dim[r] : s->planned.dim[r];
	int err = call_alloc(c, i, s->type, &y);
	return err || !s->used ? err : gpu_copy(c, c->out[i]->data, s->data.buffer.ptr, s->used);
}

static int batched_run(const struct call *c)
{
	struct batched *b = c->step->state;
	struct scan *v = &b->scan;
	uint32_t n = v->state.n;
	int err = 0;

	if (c->in[0] && tensor_count(c->in[0]) != b->batch)
		return call_fail(c, E_SHAPE, fmt(c->diag, "%" PRId64 " lengths", b->batch), NULL);
	for (uint32_t i = 0; i < n; i++)
		stack_clear(&b->last[i]);
	for (uint32_t i = 0; i < v->nout; i++)
		stack_clear(&v->out[i]);
	int64_t *lens = mem_zalloc((size_t)(b->batch + 1) * sizeof(*lens), MEM_WORKSPACE);
	if (!lens)
		return call_fail(c, E_MEMORY, NULL, NULL);
	if (c->in[0])
		err = gpu_read(c, 0, lens, (size_t)b->batch * sizeof(*lens));
	for (int64_t k = 0; k < b->batch && !err; k++)
		err = batched_one(c, b, k, c->in[0] ? lens[k] : v->turns);
	mem_free(lens);
	for (uint32_t i = 0; i < n && !err; i++)
		if (c->out[i])
			err = stack_give(c, i, &b->last[i]);
	for (uint32_t i = 0; i < v->nout && !err; i++)
		if (c->out[n + i])
			err = batched_give(c, n + i, b, &v->out[i]);
	return err;
}

const struct kernel gpu_control[] = {
	{.op = "If", .reshape = if_reshape, .run = if_run},
	{.op = "Loop", .accepts = loop_accepts, .reshape = loop_reshape, .run = loop_run, .drop = loop_drop},
	{.op = "Scan", .accepts = scan_accepts, .reshape = scan_reshape, .run = scan_run, .drop = scan_drop},
	{.op = "infer::BatchedScan",
	 .accepts = batched_accepts,
	 .reshape = batched_reshape,
	 .run = batched_run,
	 .drop = batched_drop},
	{0}};
