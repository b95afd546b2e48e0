/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/control.h"

#include "cpu/move.h"
#include "ops/ints.h"

#include <inttypes.h>

/* ---- values that outlive a turn of the body ----------------------------------------------------- */

/* A copy with memory of its own; kept between runs. */
struct held {
	struct tensor value;
	void *data;
	size_t room;
	struct arena arena; /* of strings, sequences, ... */
};

static int hold(const struct call *c, struct held *h, const struct tensor *t)
{
	if (t->type.kind != V_TENSOR || t->type.dtype == DT_STRING) {
		arena_free(&h->arena);
		h->value = *tensor_copy(&h->arena, t);
		return 0;
	}
	if (h->room < t->bytes || !h->data) {
		mem_free(h->data);
		h->room = t->bytes + 1;
		h->data = mem_alloc(h->room, MEM_ACTIVATIONS);
		if (!h->data) {
			h->room = 0;
			return call_fail(c, E_MEMORY, NULL,
					 fmt(c->diag, "%zu bytes refused", t->bytes));
		}
	}
	h->value = *t;
	h->value.data = h->data;
	h->value.arena = NULL;
	if (t->bytes)
		memcpy(h->data, t->data, t->bytes);
	return 0;
}

static void held_free(struct held *h)
{
	mem_free(h->data);
	arena_free(&h->arena);
	*h = (struct held){0};
}

/* What a loop carries: two copies of each, read and written in turns. */
struct carried {
	uint32_t n;
	struct held *held[2];
	uint8_t *now;			 /* of each: which the body reads next */
	const struct tensor **in, **out; /* of the body */
};

static void carried_make(struct carried *s, uint32_t n, const struct graph *g, struct arena *a)
{
	s->n = n;
	s->held[0] = arena_new_n(a, struct held, n + 1);
	s->held[1] = arena_new_n(a, struct held, n + 1);
	s->now = arena_new_n(a, uint8_t, n + 1);
	s->in = arena_new_n(a, const struct tensor *, g->nin + 1);
	s->out = arena_new_n(a, const struct tensor *, g->nout + 1);
}

static void carried_free(struct carried *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		held_free(&s->held[0][i]);
		held_free(&s->held[1][i]);
	}
}

/* The body gave back what it was given: it stays where it is. */
static bool unchanged(const struct tensor *was, const struct tensor *t)
{
	return t == was || (t->type.kind == V_TENSOR && was->type.kind == V_TENSOR &&
			    t->type.dtype != DT_STRING && t->type.dtype == was->type.dtype &&
			    t->data == was->data && t->bytes == was->bytes &&
			    t->layout == was->layout && shape_equal(&t->shape, &was->shape));
}

/* The values that the body gave last become the ones that it reads next. */
static int carried_turn(const struct call *c, struct carried *s, uint32_t at, uint32_t out_at)
{
	for (uint32_t i = 0; i < s->n; i++) {
		struct held *next = &s->held[!s->now[i]][i];
		if (unchanged(s->in[at + i], s->out[out_at + i]))
			continue;
		int err = hold(c, next, s->out[out_at + i]);
		if (err)
			return err;
		s->in[at + i] = &next->value;
		s->now[i] = !s->now[i];
	}
	return 0;
}

/* ---- scan outputs: tensors that are stacked ------------------------------------------------------ */

struct stack {
	enum dtype type;
	struct shape each;   /* rank -1: none yet */
	int64_t count, size; /* tensors; elements of one */
	char *data;
	size_t used, room;
	struct arena text;
};

static void stack_free(struct stack *s)
{
	mem_free(s->data);
	arena_free(&s->text);
	*s = (struct stack){0};
}

static void stack_clear(struct stack *s, enum dtype t)
{
	arena_free(&s->text);
	s->type = t;
	s->each = SHAPE_UNKNOWN;
	s->count = s->size = 0;
	s->used = 0;
}

/* Elements lie spread, see move.h. */
static void stack_write(struct stack *s, char *to, const struct tensor *t)
{
	struct text *v = (struct text *)(void *)to;
	int64_t n = s->size;
	unsigned bits = dtype_bits(s->type), per = bits < 8 ? 8 / bits : 1;

	if (s->type == DT_STRING) {
		for (int64_t i = 0; i < n; i++) {
			const char *p = tensor_string(t, i, &v[i].n);
			v[i].s = arena_strn(&s->text, p, v[i].n);
		}
	} else if (bits < 8) {
		const uint8_t *p = t->data;
		for (int64_t i = 0; i < n; i++)
			to[i] = (char)(p[i / per] >> (i % per * bits) & ((1u << bits) - 1));
	} else if (n) {
		memcpy(to, t->data, (size_t)n * move_size(s->type));
	}
}

static int stack_push(const struct call *c, struct stack *s, const struct tensor *t)
{
	if (s->each.rank < 0) {
		s->each = t->shape;
		s->type = tensor_dtype(t);
		s->size = shape_count(&t->shape);
	}
	if (!shape_equal(&s->each, &t->shape) || t->type.kind != V_TENSOR || tensor_dtype(t) != s->type)
		return call_fail(c, E_SHAPE,
				 fmt(c->diag, "a scan output of shape %s in every turn",
				     c->diag ? shape_str(&c->diag->arena, &s->each, NULL) : ""),
				 c->diag ? shape_str(&c->diag->arena, &t->shape, NULL) : "");
	size_t bytes, want;
	if (!size_mul((size_t)s->size, move_size(s->type), &bytes) || !size_add(s->used, bytes, &want))
		return call_fail(c, E_SIZE, NULL, NULL);
	if (want > s->room || !s->data) {
		size_t room = want > 2 * s->room ? want : 2 * s->room;
		char *data = mem_alloc(room + 64, MEM_ACTIVATIONS);
		if (!data)
			return call_fail(c, E_MEMORY, NULL, fmt(c->diag, "%zu bytes refused", room));
		if (s->used)
			memcpy(data, s->data, s->used);
		mem_free(s->data);
		s->data = data;
		s->room = room;
	}
	stack_write(s, s->data + s->used, t);
	s->used = want;
	s->count++;
	return 0;
}

/* Lead dims of the stack: as they were pushed; the last of them moves to `axis`, reversed where asked. */
static int stack_arrange(const struct call *c, uint32_t i, const struct stack *s,
			 const struct shape *each, const int64_t *lead, int nlead, int axis,
			 bool reverse)
{
	struct shape out = {.rank = each->rank + nlead};
	int64_t from[MAX_RANK], to[MAX_RANK], dense[MAX_RANK], outer = nlead > 1 ? lead[0] : 1;
	int64_t turns = lead[nlead - 1], size = shape_count(each);
	size_t esize = move_size(s->type);
	struct shape inner = {.rank = each->rank + 1};
	struct strided v;

	if (out.rank > MAX_RANK)
		return call_fail(c, E_RANK, NULL, NULL);
	dense_strides(each, dense);
	for (int k = 0, e = 0; k < inner.rank; k++) {
		inner.dim[k] = k == axis ? turns : each->dim[e];
		from[k] = k == axis ? (reverse ? -size : size) : dense[e];
		e += k != axis;
	}
	out = inner;
	if (nlead > 1) {
		out.rank = inner.rank + 1;
		out.dim[0] = outer;
		for (int k = 0; k < inner.rank; k++)
			out.dim[k + 1] = inner.dim[k];
	}
	if ((axis == 0 && !reverse) || !shape_count(&out))
		return move_pack(c, i, s->type, &out, s->data);
	char *tmp = mem_alloc(s->used + 1, MEM_WORKSPACE);
	if (!tmp)
		return call_fail(c, E_MEMORY, NULL, NULL);
	dense_strides(&inner, to);
	strided_set(&v, inner.rank, inner.dim, from, to);
	for (int64_t o = 0; o < outer; o++) {
		size_t at = (size_t)(o * turns * size) * esize;
		size_t first = reverse ? (size_t)((turns - 1) * size) * esize : 0;
		strided_copy(&v, s->data + at + first, tmp + at, esize);
	}
	int err = move_pack(c, i, s->type, &out, tmp);
	mem_free(tmp);
	return err;
}

/* What an element would look like had there been a turn: as inferred, unknown sizes 0. */
static struct shape planned_element(const struct shape *out, int nlead, int axis)
{
	struct shape each = {0};

	if (out->rank < nlead)
		return each;
	for (int k = nlead - 1; k < out->rank; k++) {
		if (k - (nlead - 1) == axis)
			continue;
		each.dim[each.rank++] = out->dim[k] < 0 ? 0 : out->dim[k];
	}
	return each;
}

/* ---- If ---------------------------------------------------------------------------------------------- */

static int if_reshape(struct site *s, struct step *st, struct diag *d)
{
	(void)d;
	st->workspace = (s->node->nout + 1) * sizeof(struct tensor *);
	return 0;
}

static int if_run(const struct call *c)
{
	const struct if_params *p = call_params(c);
	const struct tensor *cond = c->in[0], **out = c->workspace;
	uint32_t nout = c->step->nout;

	if (tensor_count(cond) != 1)
		return call_fail(c, E_VALUE, "one condition",
				 fmt(c->diag, "%" PRId64, tensor_count(cond)));
	struct body *b =
		c->step->body[*(const uint8_t *)cond->data ? p->then_branch : p->else_branch];
	int err = b->ops->run(b, NULL, 0, out, nout, c->diag);
	for (uint32_t i = 0; i < nout && !err; i++)
		if (c->out[i])
			err = call_copy(c, i, out[i]);
	return err;
}

/* ---- Loop -------------------------------------------------------------------------------------------- */

struct loop {
	struct carried state;
	uint32_t nscan;
	struct stack *scan;
	struct shape *planned; /* of an element of each scan output */
	enum dtype *type;
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
		stack_free(&l->scan[i]);
	st->state = NULL;
}

static void loop_scalar(struct tensor *t, const struct graph *g, uint32_t formal, enum dtype type,
			void *data, size_t bytes)
{
	const struct shape *s = &g->value[g->in[formal]]->info.shape;

	*t = (struct tensor){.type = type_tensor(type), .data = data, .bytes = bytes};
	if (shape_count(s) == 1)
		t->shape = *s;
}

static int loop_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct loop_params *p = site_params(s);
	const struct graph *g = s->node->sub[p->body];
	struct loop *l = arena_new(s->plan_arena, struct loop);
	uint32_t n = s->node->nin > 2 ? s->node->nin - 2 : 0;

	(void)d;
	carried_make(&l->state, n, g, s->plan_arena);
	l->nscan = s->node->nout - n;
	l->scan = arena_new_n(s->plan_arena, struct stack, l->nscan + 1);
	l->planned = arena_new_n(s->plan_arena, struct shape, l->nscan + 1);
	l->type = arena_new_n(s->plan_arena, enum dtype, l->nscan + 1);
	for (uint32_t i = 0; i < l->nscan; i++) {
		const struct vinfo *o = site_out(s, n + i);
		if (o) {
			l->planned[i] = planned_element(&o->shape, 1, 0);
			l->type[i] = (enum dtype)o->type.dtype;
		}
	}
	loop_scalar(&l->turn, g, 0, DT_I64, &l->turn_value, sizeof(l->turn_value));
	loop_scalar(&l->cond, g, 1, DT_BOOL, &l->cond_value, sizeof(l->cond_value));
	st->state = l;
	return 0;
}

static int loop_turn(const struct call *c, struct loop *l, struct body *b, bool *go)
{
	const struct graph *g = b->graph;
	struct carried *s = &l->state;

	int err = b->ops->run(b, s->in, g->nin, s->out, g->nout, c->diag);
	if (err)
		return err;
	if (tensor_count(s->out[0]) != 1 || tensor_dtype(s->out[0]) != DT_BOOL)
		return call_fail(c, E_VALUE, "one condition from the body", NULL);
	*go = *(const uint8_t *)s->out[0]->data;
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
			err = call_copy(c, i, l->state.in[2 + i]);
	for (uint32_t i = 0; i < l->nscan && !err; i++) {
		struct stack *s = &l->scan[i];
		if (!c->out[n + i])
			continue;
		err = stack_arrange(c, n + i, s, s->count ? &s->each : &l->planned[i], &s->count, 1,
				    0, false);
	}
	return err;
}

static int loop_run(const struct call *c)
{
	const struct loop_params *p = call_params(c);
	struct loop *l = c->step->state;
	struct body *b = c->step->body[p->body];
	const struct tensor *m = c->step->nin > 0 && c->step->node->nin > 0 ? c->in[0] : NULL;
	const struct tensor *cond = c->step->node->nin > 1 ? c->in[1] : NULL;
	int64_t turns = INT64_MAX;
	bool go = true, next = true;

	if ((m && tensor_count(m) != 1) || (cond && tensor_count(cond) != 1))
		return call_fail(c, E_VALUE, "one trip count and one condition", NULL);
	if (m)
		turns = *(const int64_t *)m->data;
	if (cond)
		go = *(const uint8_t *)cond->data;
	for (uint32_t i = 0; i < l->nscan; i++)
		stack_clear(&l->scan[i], l->type[i]);
	l->state.in[0] = &l->turn;
	l->state.in[1] = &l->cond;
	for (uint32_t i = 0; i < l->state.n; i++)
		l->state.in[2 + i] = c->in[2 + i];
	for (int64_t t = 0; t < turns && go; t++) {
		l->turn_value = t;
		l->cond_value = 1;
		int err = loop_turn(c, l, b, &next);
		if (err)
			return err;
		/* with a trip count and no condition the body's is ignored; with neither it alone can end this */
		if (cond || !m)
			go = next;
	}
	return loop_results(c, l);
}

/* ---- Scan ---------------------------------------------------------------------------------------------- */

/* A scanned input with its axis in front. */
struct scanned {
	bool moved, packed; /* copied; a byte an element */
	bool reverse;
	struct strided view;
	struct shape each;
	int64_t size; /* elements of a slice */
	struct tensor slice;
	char *copy; /* of all, axis in front; or of one packed slice */
};

struct scan {
	struct carried state;
	uint32_t nin, nout; /* scanned inputs, scan outputs */
	int64_t turns, batch;
	struct scanned *in;
	struct stack *out;
	struct shape *planned;
	int *axis;
	bool *reverse;
};

static void scan_drop(struct step *st)
{
	struct scan *s = st->state;

	if (!s)
		return;
	carried_free(&s->state);
	for (uint32_t i = 0; i < s->nout; i++)
		stack_free(&s->out[i]);
	for (uint32_t i = 0; i < s->nin; i++)
		mem_free(s->in[i].copy);
	st->state = NULL;
}

static int64_t list_at(const struct ints *v, uint32_t i)
{
	return v->n < 0 ? 0 : v->v[i];
}

static void scanned_set(struct scanned *v, const struct vinfo *info, int drop, int axis, bool reverse)
{
	const struct shape *x = &info->shape;
	int64_t n[MAX_RANK], in[MAX_RANK], out[MAX_RANK], dense[MAX_RANK];
	struct shape front = {.rank = x->rank};
	enum dtype t = (enum dtype)info->type.dtype;

	v->reverse = reverse;
	v->packed = dtype_bits(t) < 8;
	v->moved = axis != 0 && drop == 1;
	dense_strides(x, dense);
	for (int i = 0; i < x->rank; i++) {
		int k = drop > 1 ? i : i == 0 ? axis : i <= axis ? i - 1 : i;
		n[i] = front.dim[i] = x->dim[k];
		in[i] = dense[k];
		if (i >= drop)
			v->each.dim[v->each.rank++] = n[i];
	}
	dense_strides(&front, out);
	strided_set(&v->view, x->rank, n, in, out);
	v->size = shape_count(&v->each);
	v->slice = (struct tensor){.type = info->type, .shape = v->each};
	(void)dtype_bytes(t, v->size, &v->slice.bytes);
}

/* Copies with the axis in front, where it is not; room for a slice of packed elements. */
static int scanned_start(const struct call *c, struct scanned *v, const struct tensor *x)
{
	enum dtype t = tensor_dtype(x);
	int64_t n = tensor_count(x);

	mem_free(v->copy);
	v->copy = NULL;
	v->slice.blob = x->blob;
	v->slice.blob_bytes = x->blob_bytes;
	if (!v->moved && !v->packed)
		return 0;
	v->copy = mem_zalloc((size_t)n * (v->packed ? 2 : dtype_bits(t) / 8) + 64, MEM_WORKSPACE);
	if (!v->copy)
		return call_fail(c, E_MEMORY, NULL, NULL);
	if (!v->packed) {
		strided_copy(&v->view, x->data, v->copy, dtype_bits(t) / 8);
		return 0;
	}
	/* second half: spread; the first half then has the axis in front, still spread */
	unsigned bits = dtype_bits(t), per = 8 / bits;
	char *wide = v->copy + n;
	for (int64_t i = 0; i < n; i++)
		wide[i] = (char)(((const uint8_t *)x->data)[i / per] >> (i % per * bits) &
				 ((1u << bits) - 1));
	strided_copy(&v->view, wide, v->copy, 1);
	return 0;
}

/* The slice number k, batch and turn together. */
static const struct tensor *scanned_at(struct scanned *v, const struct tensor *x, int64_t k)
{
	enum dtype t = tensor_dtype(x);
	size_t size = dtype_bits(t) / 8;

	if (!v->packed) {
		const char *from = v->moved ? v->copy : x->data;
		v->slice.data = (void *)(uintptr_t)(from + (size_t)(k * v->size) * size);
		return &v->slice;
	}
	unsigned bits = dtype_bits(t), per = 8 / bits;
	uint8_t *to = (uint8_t *)v->copy + tensor_count(x); /* the spread original is done with */
	const uint8_t *from = (const uint8_t *)v->copy + k * v->size;
	for (int64_t i = 0; i < v->size; i += per) {
		unsigned b = 0;
		for (unsigned j = 0; j < per && i + j < v->size; j++)
			b |= (unsigned)from[i + j] << j * bits;
		to[i / per] = (uint8_t)b;
	}
	v->slice.data = to;
	return &v->slice;
}

static void scan_outputs(struct site *s, struct scan *v, uint32_t n, int nlead,
			 const struct ints *axes, const struct ints *directions)
{
	v->out = arena_new_n(s->plan_arena, struct stack, v->nout + 1);
	v->planned = arena_new_n(s->plan_arena, struct shape, v->nout + 1);
	v->axis = arena_new_n(s->plan_arena, int, v->nout + 1);
	v->reverse = arena_new_n(s->plan_arena, bool, v->nout + 1);
	for (uint32_t i = 0; i < v->nout; i++) {
		const struct vinfo *o = site_out(s, n + i);
		if (!o)
			continue;
		if (o->shape.rank > 0 && axes)
			v->axis[i] = axis_of(list_at(axes, i), o->shape.rank);
		v->reverse[i] = directions && list_at(directions, i);
		v->planned[i] = planned_element(&o->shape, nlead, v->axis[i]);
	}
}

static int scan_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct scan_params *p = site_params(s);
	const struct graph *g = s->node->sub[p->body];
	struct scan *v = arena_new(s->plan_arena, struct scan);
	uint32_t n = s->node->nin - (uint32_t)p->num_scan_inputs;

	(void)d;
	carried_make(&v->state, n, g, s->plan_arena);
	v->nin = (uint32_t)p->num_scan_inputs;
	v->nout = s->node->nout - n;
	v->batch = 1;
	v->in = arena_new_n(s->plan_arena, struct scanned, v->nin);
	for (uint32_t i = 0; i < v->nin; i++) {
		const struct vinfo *x = site_in(s, n + i);
		int axis = axis_of(list_at(&p->scan_input_axes, i), x->shape.rank);
		v->turns = x->shape.dim[axis];
		scanned_set(&v->in[i], x, 1, axis, list_at(&p->scan_input_directions, i) != 0);
	}
	scan_outputs(s, v, n, 1, &p->scan_output_axes, &p->scan_output_directions);
	st->state = v;
	return 0;
}

static int scan_start(const struct call *c, struct scan *v, uint32_t at)
{
	for (uint32_t i = 0; i < v->nin; i++) {
		int err = scanned_start(c, &v->in[i], c->in[at + v->state.n + i]);
		if (err)
			return err;
	}
	for (uint32_t i = 0; i < v->nout; i++)
		stack_clear(&v->out[i],
			    c->out[v->state.n + i] ? tensor_dtype(c->out[v->state.n + i]) : DT_NONE);
	return 0;
}

/* Turn t of batch b, which has `turns` of them; at: the first of the node's inputs that are the body's. */
static int scan_turn(const struct call *c, struct scan *v, struct body *b, uint32_t at,
		     int64_t batch, int64_t t, int64_t turns)
{
	const struct graph *g = b->graph;
	struct carried *s = &v->state;

	for (uint32_t i = 0; i < v->nin; i++) {
		int64_t k = v->in[i].reverse ? turns - 1 - t : t;
		s->in[s->n + i] = scanned_at(&v->in[i], c->in[at + s->n + i], batch * v->turns + k);
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
	int err = scan_start(c, v, 0);

	for (uint32_t i = 0; i < n; i++)
		v->state.in[i] = c->in[i];
	for (int64_t t = 0; t < v->turns && !err; t++)
		err = scan_turn(c, v, c->step->body[p->body], 0, 0, t, v->turns);
	for (uint32_t i = 0; i < n && !err; i++)
		if (c->out[i])
			err = call_copy(c, i, v->state.in[i]);
	for (uint32_t i = 0; i < v->nout && !err; i++)
		if (c->out[n + i])
			err = stack_arrange(c, n + i, &v->out[i],
					    v->out[i].count ? &v->out[i].each : &v->planned[i],
					    &v->out[i].count, 1, v->axis[i], v->reverse[i]);
	return err;
}

/* ---- Scan of opset 8 -------------------------------------------------------------------------------------- */

/* A state of all batches: one slice of each is carried. */
struct batched {
	struct scan scan;      /* first: dropped as one */
	struct scanned *first; /* the states' initial values, by batch */
	struct stack *last;
};

static void batched_drop(struct step *st)
{
	struct batched *v = st->state;

	if (!v)
		return;
	for (uint32_t i = 0; i < v->scan.state.n; i++) {
		mem_free(v->first[i].copy);
		stack_free(&v->last[i]);
	}
	scan_drop(st);
}

static int batched_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct batched_scan_params *p = site_params(s);
	const struct graph *g = s->node->sub[p->body];
	struct batched *b = arena_new(s->plan_arena, struct batched);
	struct scan *v = &b->scan;
	uint32_t n = s->node->nin - 1 - (uint32_t)p->num_scan_inputs;

	(void)d;
	carried_make(&v->state, n, g, s->plan_arena);
	v->nin = (uint32_t)p->num_scan_inputs;
	v->nout = s->node->nout - n;
	v->in = arena_new_n(s->plan_arena, struct scanned, v->nin);
	b->first = arena_new_n(s->plan_arena, struct scanned, n + 1);
	b->last = arena_new_n(s->plan_arena, struct stack, n + 1);
	for (uint32_t i = 0; i < v->nin; i++) {
		const struct vinfo *x = site_in(s, 1 + n + i);
		v->batch = x->shape.dim[0];
		v->turns = x->shape.dim[1];
		scanned_set(&v->in[i], x, 2, 0, list_at(&p->directions, i) != 0);
	}
	for (uint32_t i = 0; i < n; i++)
		scanned_set(&b->first[i], site_in(s, 1 + i), 1, 0, false);
	scan_outputs(s, v, n, 2, NULL, NULL);
	st->state = b;
	return 0;
}

/* Scan outputs of shorter sequences are filled up with zeros. */
static int batched_pad(const struct call *c, struct scan *v, int64_t from)
{
	for (uint32_t i = 0; i < v->nout; i++) {
		struct stack *s = &v->out[i];
		if (!c->out[v->state.n + i] || s->type == DT_STRING || s->each.rank < 0)
			continue;
		size_t bytes;
		if (!dtype_bytes(s->type, s->size, &bytes))
			return call_fail(c, E_SIZE, NULL, NULL);
		void *zero = mem_zalloc(bytes + 1, MEM_WORKSPACE);
		struct tensor t = {
			.type = type_tensor(s->type), .shape = s->each, .data = zero, .bytes = bytes};
		int err = zero ? 0 : call_fail(c, E_MEMORY, NULL, NULL);
		for (int64_t k = from; k < v->turns && !err; k++)
			err = stack_push(c, s, &t);
		mem_free(zero);
		if (err)
			return err;
	}
	return 0;
}

static int batched_one(const struct call *c, struct batched *b, int64_t k)
{
	const struct batched_scan_params *p = call_params(c);
	struct scan *v = &b->scan;
	const struct tensor *lens = c->in[0];
	int64_t turns = lens ? ((const int64_t *)lens->data)[k] : v->turns;
	int err = 0;

	if (turns < 0 || turns > v->turns)
		return call_fail(c, E_VALUE, fmt(c->diag, "lengths from 0 to %" PRId64, v->turns),
				 fmt(c->diag, "%" PRId64, turns));
	for (uint32_t i = 0; i < v->state.n; i++)
		v->state.in[i] = scanned_at(&b->first[i], c->in[1 + i], k);
	for (int64_t t = 0; t < turns && !err; t++)
		err = scan_turn(c, v, c->step->body[p->body], 1, k, t, turns);
	for (uint32_t i = 0; i < v->state.n && !err; i++)
		if (c->out[i])
			err = stack_push(c, &b->last[i], v->state.in[i]);
	return err ? err : batched_pad(c, v, turns);
}

static int batched_run(const struct call *c)
{
	struct batched *b = c->step->state;
	struct scan *v = &b->scan;
	uint32_t n = v->state.n;
	int err = scan_start(c, v, 1);

	if (c->in[0] && tensor_count(c->in[0]) != v->batch)
		return call_fail(c, E_SHAPE, fmt(c->diag, "%" PRId64 " lengths", v->batch), NULL);
	for (uint32_t i = 0; i < n && !err; i++) {
		err = scanned_start(c, &b->first[i], c->in[1 + i]);
		stack_clear(&b->last[i], tensor_dtype(c->in[1 + i]));
	}
	for (int64_t k = 0; k < v->batch && !err; k++)
		err = batched_one(c, b, k);
	for (uint32_t i = 0; i < n && !err; i++)
		if (c->out[i])
			err = stack_arrange(c, i, &b->last[i],
					    v->batch ? &b->last[i].each : &b->first[i].each,
					    &b->last[i].count, 1, 0, false);
	int64_t lead[2] = {v->batch, v->turns};
	for (uint32_t i = 0; i < v->nout && !err; i++)
		if (c->out[n + i])
			err = stack_arrange(c, n + i, &v->out[i],
					    v->out[i].count ? &v->out[i].each : &v->planned[i],
					    lead, 2, 0, false);
	return err;
}

/* ---- SequenceMap -------------------------------------------------------------------------------------------- */

static int map_reshape(struct site *s, struct step *st, struct diag *d)
{
	const struct sequence_map_params *p = site_params(s);
	const struct graph *g = s->node->sub[p->body];

	(void)d;
	st->workspace = (g->nin + g->nout + 1) * sizeof(void *);
	return 0;
}

/* A new sequence of n items in output i. */
static void start_sequence(const struct call *c, uint32_t i, size_t n)
{
	struct type t = c->out[i]->type;
	struct arena *a = call_values(c, i);

	*c->out[i] = (struct tensor){.type = t, .arena = a, .nitems = n};
	c->out[i]->items = arena_new_n(a, struct tensor *, n + 1);
}

static int map_run(const struct call *c)
{
	const struct sequence_map_params *p = call_params(c);
	struct body *b = c->step->body[p->body];
	uint32_t nin = b->graph->nin, nout = b->graph->nout;
	const struct tensor **in = c->workspace, **out = in + nin;
	size_t n = c->in[0]->nitems;

	for (uint32_t i = 0; i < nin; i++)
		if (c->in[i]->type.kind == V_SEQUENCE && c->in[i]->nitems != n)
			return call_fail(c, E_VALUE, fmt(c->diag, "sequences of %zu", n),
					 fmt(c->diag, "one of %zu", c->in[i]->nitems));
	for (uint32_t i = 0; i < nout; i++)
		if (c->out[i])
			start_sequence(c, i, n);
	for (size_t k = 0; k < n; k++) {
		for (uint32_t i = 0; i < nin; i++)
			in[i] = c->in[i]->type.kind == V_SEQUENCE ? c->in[i]->items[k] : c->in[i];
		int err = b->ops->run(b, in, nin, out, nout, c->diag);
		if (err)
			return err;
		for (uint32_t i = 0; i < nout; i++)
			if (c->out[i])
				c->out[i]->items[k] = tensor_copy(c->out[i]->arena, out[i]);
	}
	return 0;
}

const struct kernel cpu_control[] = {
	{.op = "If", .flags = K_REFERENCE, .reshape = if_reshape, .run = if_run},
	{.op = "Loop", .flags = K_REFERENCE, .reshape = loop_reshape, .run = loop_run, .drop = loop_drop},
	{.op = "Scan", .flags = K_REFERENCE, .reshape = scan_reshape, .run = scan_run, .drop = scan_drop},
	{.op = "infer::BatchedScan",
	 .flags = K_REFERENCE,
	 .reshape = batched_reshape,
	 .run = batched_run,
	 .drop = batched_drop},
	{.op = "SequenceMap", .flags = K_REFERENCE, .reshape = map_reshape, .run = map_run},
	{0}};
