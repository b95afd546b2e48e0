/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If, Loop and Scan. The host decides what runs next, and the subgraphs ("bodies") run on the device. Values that one
 * iteration passes to the next stay on the device that made them. Only trip counts and conditions are copied to the
 * host.
 */
#include "gpu/launch/job.h"

/* A buffer on the device that is enlarged on demand. */
struct grown {
	struct device *device;
	struct buffer buffer;
};

/* Holds the copy of a value that outlives an iteration, on the device or on the host, where the original is. */
struct held_memory {
	struct grown there; /* on the device */
	void *here;	    /* on the host */
	size_t bytes;	    /* of `here` */
	/* holds strings, sequences and other values that are no plain tensors */
	struct arena arena;
};
struct heap {
	void *fn; /* kernel that copies strided elements of the type's size */
	struct grown data;
	size_t used;
};
struct cut {
	void *fn;
	struct gpu_piece view;
	struct grown front; /* copy of the input with the scanned axis first */
};

#include "backend/control_flow.inc"

static void grown_free(struct grown *g)
{
	if (g->buffer.ptr)
		cuda_free(g->device, &g->buffer);
	g->buffer = (struct buffer){0};
}

/* Enlarges g to at least `bytes` bytes and keeps the first `keep` bytes of its contents. */
static int enlarge(const struct call *c, struct grown *g, size_t bytes, size_t keep)
{
	struct buffer more = {0};
	int err;

	if (g->buffer.ptr && g->buffer.bytes >= bytes)
		return 0;
	if (keep && bytes < 2 * g->buffer.bytes)
		bytes = 2 * g->buffer.bytes;
	err = cuda_alloc(g->device, bytes ? bytes : 1, MEM_ACTIVATIONS, &more, c->diag);
	if (!err && keep)
		err = gpu_copy(c, more.ptr, g->buffer.ptr, keep);
	grown_free(g);
	g->buffer = more;
	return err;
}

static int copy_tensor(const struct call *c, const struct tensor *to, const struct tensor *from)
{
	return cuda_copy(c->stream, to->data, to->device, from->data, from->device, from->bytes,
			 c->diag);
}

static bool is_plain(const struct tensor *t)
{
	return t->type.kind == V_TENSOR && t->type.dtype != DT_STRING;
}

static int store_value(const struct call *c, uint32_t i, const struct tensor *t)
{
	if (!is_plain(t))
		return call_copy(c, i, t);
	int err = call_alloc(c, i, tensor_dtype(t), &t->shape);

	return err || !t->bytes ? err : copy_tensor(c, c->out[i], t);
}

static int read_host(const struct call *c, const struct tensor *t, void *to, size_t bytes)
{
	return cuda_copy(c->stream, to, 0, t->data, t->device, bytes, c->diag);
}

static void may_lie_anywhere(struct step *step, uint64_t inputs)
{
	/*
	 * these inputs need not be moved between host and device for this step, because the body's own plan copies
	 * them if it needs them on the other side
	 */
	step->unread = inputs;
	step->no_capture = true;
}

/* ---- values that outlive an iteration of the body -------------------------------------------- */

static void held_set(struct held *h, const struct site *s)
{
	h->memory.there.device = s->device;
}

static int hold_on_host(const struct call *c, struct held_memory *r, size_t bytes)
{
	if (r->here && r->bytes >= bytes)
		return 0;
	mem_free(r->here);
	r->bytes = bytes + 1;
	r->here = mem_alloc(r->bytes, MEM_ACTIVATIONS);
	return r->here ? 0 : call_fail(c, E_MEMORY, NULL, fmt(c->diag, "%zu bytes refused", bytes));
}

static int hold(const struct call *c, struct held *h, const struct tensor *t)
{
	struct held_memory *r = &h->memory;

	if (!is_plain(t)) {
		arena_free(&r->arena);
		h->value = *tensor_copy(&r->arena, t);
		return 0;
	}
	int err = t->device ? enlarge(c, &r->there, t->bytes, 0) : hold_on_host(c, r, t->bytes);
	h->value = *t;
	h->value.arena = NULL;
	h->value.data = t->device ? r->there.buffer.ptr : r->here;
	return err || !t->bytes ? err : copy_tensor(c, &h->value, t);
}

static void held_free(struct held *h)
{
	grown_free(&h->memory.there);
	mem_free(h->memory.here);
	arena_free(&h->memory.arena);
}

static void held_offer(struct body *b, uint32_t i, const struct held *h)
{
	(void)b, (void)i, (void)h;
}

/* ---- scan outputs: tensors that are stacked on the device ------------------------------------- */

static void heap_set(struct stack *s, struct site *site, struct diag *d)
{
	s->heap.data.device = site->device;
	s->heap.fn = gpu_sized(site, "move", "strided", s->type, d);
}

static void heap_clear(struct stack *s)
{
	s->heap.used = 0;
}

static void heap_free(struct stack *s)
{
	grown_free(&s->heap.data);
}

static int heap_push(const struct call *c, struct stack *s, const struct tensor *t)
{
	struct heap *h = &s->heap;
	int err = enlarge(c, &h->data, h->used + t->bytes, h->used);

	if (err)
		return err;
	struct tensor to = {.data = (char *)h->data.buffer.ptr + h->used, .device = 1};
	h->used += t->bytes;
	return t->bytes ? copy_tensor(c, &to, t) : 0;
}

static int heap_give(const struct call *c, uint32_t i, const struct stack *s, const struct arranged *a)
{
	const char *from = s->heap.data.buffer.ptr;
	int64_t iterations = a->inner.dim[a->axis], to[MAX_RANK];
	struct gpu_piece p = {0};
	int err = call_alloc(c, i, s->type, &a->y);

	if (err || !shape_count(&a->y))
		return err;
	if (a->plain)
		return gpu_copy(c, c->out[i]->data, from, s->heap.used);
	/* The scan outputs of a batched Scan have already been copied above (a->plain), so that a->outer is 1 here. */
	strides_of(&a->inner, to);
	if (!gpu_piece(&p, a->inner.rank, a->inner.dim, a->from, to))
		return call_fail(c, E_RANK, NULL, NULL);
	p.job.x = from + (s->reverse ? (iterations - 1) * s->size * gpu_size(s->type) : 0);
	p.job.y = c->out[i]->data;
	return gpu_strided_run(c, s->heap.fn, &p.job);
}

/* ---- scanned inputs --------------------------------------------------------------------------- */

static void cut_set(struct scanned *v, struct site *s, const struct vinfo *x, const int64_t *n,
		    const int64_t *from, struct diag *d)
{
	struct shape front = shape_of(x->shape.rank, n);
	int64_t to[MAX_RANK];

	v->slice.device = 1;
	v->cut.front.device = s->device;
	if (!v->moved)
		return;
	v->cut.fn = gpu_sized(s, "move", "strided", (enum dtype)x->type.dtype, d);
	strides_of(&front, to);
	gpu_piece(&v->cut.view, front.rank, n, from, to);
}

static int cut_start(const struct call *c, struct scanned *v, const struct tensor *x)
{
	struct cut *k = &v->cut;

	if (!v->moved || !k->view.job.n)
		return 0;
	int err = enlarge(c, &k->front, x->bytes, 0);
	k->view.job.x = x->data;
	k->view.job.y = k->front.buffer.ptr;
	return err ? err : gpu_strided_run(c, k->fn, &k->view.job);
}

static const struct tensor *cut_at(struct scanned *v, const struct tensor *x, int64_t k)
{
	char *from = v->moved ? v->cut.front.buffer.ptr : x->data;

	v->slice.data = from + (size_t)k * v->slice.bytes;
	return &v->slice;
}

static void cut_free(struct scanned *v)
{
	grown_free(&v->cut.front);
}

/* ---- which nodes are accepted ----------------------------------------------------------------- */

/* Returns whether the kernels can stack and cut this tensor. A missing tensor counts as true. */
static bool can_stack(const struct vinfo *v)
{
	return !v || (v->type.kind == V_TENSOR && T_BIT(v->type.dtype) & T_MOVED);
}

static bool loop_accepts(const struct site *s, struct why *w)
{
	uint32_t n = s->node->nin > 2 ? s->node->nin - 2 : 0;

	for (uint32_t i = n; i < s->node->nout; i++)
		if (!can_stack(site_out(s, i)))
			return refuse(w, "scan outputs of strings, or of less than a byte");
	return true;
}

static bool scan_accepts(const struct site *s, struct why *w)
{
	const struct scan_params *p = s->node->params;
	uint32_t n = s->node->nin - (uint32_t)p->num_scan_inputs;

	for (uint32_t i = n; i < s->node->nin; i++)
		if (!can_stack(site_in(s, i)) || site_in(s, i)->shape.rank > GPU_DIMS)
			return refuse(w, "scan inputs of strings, or of less than a byte");
	for (uint32_t i = n; i < s->node->nout; i++)
		if (!can_stack(site_out(s, i)))
			return refuse(w, "scan outputs of strings, or of less than a byte");
	return true;
}

static bool batched_accepts(const struct site *s, struct why *w)
{
	for (uint32_t i = 1; i < s->node->nin; i++)
		if (!can_stack(site_in(s, i)))
			return refuse(w, "inputs of strings, or of less than a byte");
	for (uint32_t i = 0; i < s->node->nout; i++)
		if (!can_stack(site_out(s, i)))
			return refuse(w, "outputs of strings, or of less than a byte");
	return true;
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
