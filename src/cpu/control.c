/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control-flow operators on the CPU. backend/control_flow.inc implements If, Loop and Scan; this file defines the functions
 * that control_flow.inc declares, for values in host memory. SequenceMap is implemented here.
 */
#include "base/str.h"
#include "cpu/math/move.h"

/* Memory of a held value, which outlives an iteration of the body (struct held in backend/control_flow.inc). */
struct held_memory {
	void *data;
	size_t bytes;
	struct arena arena; /* used instead of data for strings, sequences, ... */
};
/*
 * Elements of an output that is stacked over the iterations. They are stored unpacked (cpu/math/move.h): an element of
 * a packed type takes a byte, a string takes a struct text.
 */
struct heap {
	char *data;
	size_t used, capacity;
	struct arena text;
};
struct cut {
	bool packed; /* the elements are smaller than a byte; `copy` holds one per byte */
	struct strided view;
	char *copy; /* all elements of the input, with the scanned axis in front */
};

#include "backend/control_flow.inc"

/* ---- values that outlive an iteration of the body ------------------------------------------------ */

static void held_set(struct held *h, const struct site *s)
{
	(void)h, (void)s;
}

static int hold(const struct call *c, struct held *h, const struct tensor *t)
{
	struct held_memory *r = &h->memory;

	if (t->type.kind != V_TENSOR || t->type.dtype == DT_STRING) {
		arena_free(&r->arena);
		h->value = *tensor_copy(&r->arena, t);
		return 0;
	}
	if (r->bytes < t->bytes || !r->data) {
		mem_free(r->data);
		r->bytes = t->bytes + 1;
		r->data = mem_alloc(r->bytes, MEM_ACTIVATIONS);
		if (!r->data) {
			r->bytes = 0;
			return call_fail(c, E_MEMORY, NULL,
					 fmt(c->diag, "%zu bytes refused", t->bytes));
		}
	}
	h->value = *t;
	h->value.data = r->data;
	h->value.arena = NULL;
	if (t->bytes && t->data != r->data)
		memcpy(r->data, t->data, t->bytes);
	return 0;
}

static void held_offer(struct body *b, uint32_t i, const struct held *h)
{
	b->ops->place(b, i, h->memory.data, h->memory.bytes);
}

static void held_free(struct held *h)
{
	mem_free(h->memory.data);
	arena_free(&h->memory.arena);
	*h = (struct held){0};
}

static int read_host(const struct call *c, const struct tensor *t, void *to, size_t bytes)
{
	(void)c;
	if (bytes)
		memcpy(to, t->data, bytes);
	return 0;
}

static int store_value(const struct call *c, uint32_t i, const struct tensor *t)
{
	return call_copy(c, i, t);
}

static void may_lie_anywhere(struct step *step, uint64_t inputs)
{
	(void)step, (void)inputs;
}

/* ---- scan outputs -------------------------------------------------------------------------------- */

static void heap_set(struct stack *s, struct site *site, struct diag *d)
{
	(void)s, (void)site, (void)d;
}

static void heap_clear(struct stack *s)
{
	arena_free(&s->heap.text);
	s->heap.used = 0;
}

static void heap_free(struct stack *s)
{
	mem_free(s->heap.data);
	arena_free(&s->heap.text);
	s->heap = (struct heap){0};
}

static void heap_write(struct stack *s, char *to, const struct tensor *t)
{
	struct text *v = (struct text *)(void *)to;
	int64_t n = s->size;
	unsigned bits = dtype_bits(s->type), per = bits < 8 ? 8 / bits : 1;

	if (s->type == DT_STRING) {
		for (int64_t i = 0; i < n; i++) {
			const char *p = tensor_string(t, i, &v[i].n);
			v[i].s = arena_strn(&s->heap.text, p, v[i].n);
		}
	} else if (bits < 8) {
		const uint8_t *p = t->data;
		for (int64_t i = 0; i < n; i++)
			to[i] = (char)(p[i / per] >> (i % per * bits) & ((1u << bits) - 1));
	} else if (n) {
		memcpy(to, t->data, (size_t)n * move_size(s->type));
	}
}

static int heap_push(const struct call *c, struct stack *s, const struct tensor *t)
{
	struct heap *h = &s->heap;
	size_t bytes, want;

	if (!size_mul((size_t)s->size, move_size(s->type), &bytes) || !size_add(h->used, bytes, &want))
		return call_fail(c, E_SIZE, NULL, NULL);
	if (c->host_limit && want > c->host_limit) /* nothing else bounds the iterations of a loop */
		return call_fail(c, E_MEMORY_LIMIT,
				 fmt(c->diag, "at most %s bytes; see --memory-limit",
				     c->diag ? str_count(&c->diag->arena, (int64_t)c->host_limit) : ""),
				 fmt(c->diag, "a scan output of %s bytes, and more iterations",
				     c->diag ? str_count(&c->diag->arena, (int64_t)want) : ""));
	if (want > h->capacity || !h->data) {
		size_t capacity = want > 2 * h->capacity ? want : 2 * h->capacity;
		char *data = mem_alloc(capacity + 64, MEM_ACTIVATIONS);
		if (!data)
			return call_fail(c, E_MEMORY, NULL,
					 fmt(c->diag, "%zu bytes refused", capacity));
		mem_move(data, h->data, h->used);
		h->data = data;
		h->capacity = capacity;
	}
	heap_write(s, h->data + h->used, t);
	h->used = want;
	return 0;
}

static int heap_give(const struct call *c, uint32_t i, const struct stack *s, const struct arranged *a)
{
	const struct heap *h = &s->heap;
	size_t size = move_size(s->type);
	int64_t iterations = a->inner.dim[a->axis], to[MAX_RANK];
	struct strided v;

	if (a->plain)
		return move_pack(c, i, s->type, &a->y, h->data);
	char *tmp = mem_alloc(h->used + 1, MEM_WORKSPACE);
	if (!tmp)
		return call_fail(c, E_MEMORY, NULL, NULL);
	strides_of(&a->inner, to);
	strided_set(&v, a->inner.rank, a->inner.dim, a->from, to);
	for (int64_t o = 0; o < a->outer; o++) {
		size_t at = (size_t)(o * iterations * s->size) * size;
		size_t first = s->reverse ? (size_t)((iterations - 1) * s->size) * size : 0;
		strided_copy(&v, h->data + at + first, tmp + at, size);
	}
	int err = move_pack(c, i, s->type, &a->y, tmp);
	mem_free(tmp);
	return err;
}

/* ---- scanned inputs ------------------------------------------------------------------------------ */

static void cut_set(struct scanned *v, struct site *s, const struct vinfo *x, const int64_t *n,
		    const int64_t *from, struct diag *d)
{
	struct shape front = shape_of(x->shape.rank, n);
	int64_t to[MAX_RANK];

	(void)s, (void)d;
	v->cut.packed = dtype_bits((enum dtype)x->type.dtype) < 8;
	strides_of(&front, to);
	strided_set(&v->cut.view, front.rank, n, from, to);
}

/*
 * Copies x with the scanned axis moved to the front, unless the axis is in front already. Packed elements are always
 * copied, one per byte, because a slice can begin inside a byte; cut_at packs each slice again.
 */
static int cut_start(const struct call *c, struct scanned *v, const struct tensor *x)
{
	struct cut *k = &v->cut;
	enum dtype t = tensor_dtype(x);
	int64_t n = tensor_count(x);

	mem_free(k->copy);
	k->copy = NULL;
	v->slice.blob = x->blob;
	v->slice.blob_bytes = x->blob_bytes;
	if (!v->moved && !k->packed)
		return 0;
	k->copy = mem_zalloc((size_t)n * (k->packed ? 2 : dtype_bits(t) / 8) + 64, MEM_WORKSPACE);
	if (!k->copy)
		return call_fail(c, E_MEMORY, NULL, NULL);
	if (!k->packed) {
		strided_copy(&k->view, x->data, k->copy, dtype_bits(t) / 8);
		return 0;
	}
	/*
	 * Unpack the elements into the second half of `copy`, then copy them to the first half with the scanned axis
	 * in front.
	 */
	unsigned bits = dtype_bits(t), per = 8 / bits;
	char *wide = k->copy + n;
	for (int64_t i = 0; i < n; i++)
		wide[i] = (char)(((const uint8_t *)x->data)[i / per] >> (i % per * bits) &
				 ((1u << bits) - 1));
	strided_copy(&k->view, wide, k->copy, 1);
	return 0;
}

static const struct tensor *cut_at(struct scanned *v, const struct tensor *x, int64_t k)
{
	enum dtype t = tensor_dtype(x);
	int64_t n = shape_count(&v->slice.shape);

	if (!v->cut.packed) {
		const char *from = v->moved ? v->cut.copy : x->data;
		v->slice.data = (void *)(uintptr_t)(from + (size_t)(k * n) * (dtype_bits(t) / 8));
		return &v->slice;
	}
	unsigned bits = dtype_bits(t), per = 8 / bits;
	/* The packed slice goes into the second half of `copy`, which cut_start used only as temporary memory. */
	uint8_t *to = (uint8_t *)v->cut.copy + tensor_count(x);
	const uint8_t *from = (const uint8_t *)v->cut.copy + k * n;
	for (int64_t i = 0; i < n; i += per) {
		unsigned b = 0;
		for (unsigned j = 0; j < per && i + j < n; j++)
			b |= (unsigned)from[i + j] << j * bits;
		to[i / per] = (uint8_t)b;
	}
	v->slice.data = to;
	return &v->slice;
}

static void cut_free(struct scanned *v)
{
	mem_free(v->cut.copy);
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

/* Makes output i a new sequence with room for n items. */
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
