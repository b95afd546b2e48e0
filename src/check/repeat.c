/* SPDX-License-Identifier: Apache-2.0 */
#include "check/repeat.h"

#include "base/pool.h"
#include "plan/step_repeat.h"

static void *alloc_host(struct repetition *r, size_t bytes)
{
	void *p = mem_alloc(bytes ? bytes : 1, MEM_STAGING);

	if (p)
		r->host[r->nhost++] = p;
	return p;
}

static int alloc_output(const struct call *c, uint32_t i, enum dtype t, const struct shape *s)
{
	struct repetition *r = c->owner;
	size_t bytes;

	if (!tensor_bytes(t, s, LAYOUT_ROW, &bytes) || c->out[i]->device)
		return -E_SIZE;
	void *p = alloc_host(r, bytes);
	*c->out[i] = (struct tensor){.type = type_tensor(t), .shape = *s, .data = p, .bytes = bytes};
	return p ? 0 : -E_MEMORY;
}

static struct arena *output_arena(const struct call *c, uint32_t i)
{
	struct repetition *r = c->owner;

	(void)i;
	return &r->arena;
}

/* Converts a tensor to the element type of `to`, because a plan of another precision has operands of another type. */
static bool convert_type(struct repetition *r, const struct tensor *from, struct tensor *to)
{
	int64_t n = tensor_count(from);

	to->data = alloc_host(r, to->bytes);
	for (int64_t i = 0; to->data && i < n; i++)
		elem_set_f64(tensor_dtype(to), to->data, i,
			     elem_f64(tensor_dtype(from), from->data, i));
	return to->data != NULL;
}

/* Reorders a row-major tensor to the layout of `to`. */
static bool convert_layout(struct repetition *r, const struct tensor *from, struct tensor *to)
{
	const struct tensor *in[] = {from};
	struct tensor *out[] = {to};
	const struct step step = {.nin = 1, .nout = 1};
	const struct call call = {.step = &step, .in = in, .out = out};

	to->data = alloc_host(r, to->bytes);
	return to->data && !r->rt->cpu->reorder->run(&call);
}

/* Moves the tensor's bytes from the host to new memory of the device. */
static bool copy_to_device(struct repetition *r, struct tensor *t, int device)
{
	const struct runtime *rt = r->rt;
	struct buffer *b = &r->buffers[r->nbuffers];
	const void *host = t->data;

	if (rt->backend->alloc(rt->device, t->bytes ? t->bytes : 1, MEM_STAGING, b, NULL))
		return false;
	r->nbuffers++;
	t->data = b->ptr;
	t->device = device;
	return !rt->backend->copy(r->call->stream, t->data, device, host, 0, t->bytes, NULL) &&
	       !rt->backend->wait(r->call->stream, NULL);
}

/*
 * Makes *x the reference's value in the type, layout and place of the step's own operand. Returns false if that is
 * impossible.
 */
static bool match_operand(struct repetition *r, const struct tensor *ref, const struct tensor *own,
			  struct tensor *x)
{
	struct tensor row = *ref, *now = &row;

	*x = *own;
	if (own->type.kind != V_TENSOR || tensor_dtype(own) == DT_STRING) {
		*x = *ref;
		return !own->device;
	}
	row.shape = own->shape;
	row.layout = LAYOUT_ROW;
	if (tensor_count(&row) != tensor_count(ref))
		return false;
	if (tensor_dtype(ref) != tensor_dtype(own)) {
		struct tensor other = row;
		other.type = own->type;
		if (!tensor_bytes(tensor_dtype(own), &row.shape, LAYOUT_ROW, &other.bytes) ||
		    !convert_type(r, ref, &other))
			return false;
		row = other;
	}
	x->data = now->data;
	x->device = 0;
	x->bytes = own->layout == LAYOUT_ROW ? row.bytes : own->bytes;
	if (own->layout != LAYOUT_ROW && !convert_layout(r, now, x))
		return false;
	return !own->device || copy_to_device(r, x, own->device);
}

static bool set_outputs(struct repetition *r)
{
	const struct step *s = r->call->step;
	const struct runtime *rt = r->rt;

	for (uint32_t i = 0; i < s->nout; i++) {
		if (!r->call->out[i])
			continue;
		struct tensor *y = &r->outputs[i];
		*y = *r->call->out[i];
		r->out[i] = y;
		if (s->dynamic) {
			if (y->device)
				return false;
			y->data = NULL;
			continue;
		}
		if (!y->device) {
			y->data = alloc_host(r, y->bytes);
			if (!y->data)
				return false;
			continue;
		}
		struct buffer *b = &r->buffers[r->nbuffers];
		if (rt->backend->alloc(rt->device, y->bytes ? y->bytes : 1, MEM_STAGING, b, NULL))
			return false;
		r->nbuffers++;
		y->data = b->ptr;
	}
	return true;
}

void repeat_begin(struct repetition *r, const struct runtime *rt, const struct call *call)
{
	uint32_t nin = call->step->nin, nout = call->step->nout;

	*r = (struct repetition){.rt = rt, .call = call};
	r->in = arena_new_n(&r->arena, const struct tensor *, nin + 1);
	r->out = arena_new_n(&r->arena, struct tensor *, nout + 1);
	r->inputs = arena_new_n(&r->arena, struct tensor, nin + 1);
	r->outputs = arena_new_n(&r->arena, struct tensor, nout + 1);
	r->host = arena_new_n(&r->arena, void *, 2 * (size_t)nin + nout + 1);
	r->buffers = arena_new_n(&r->arena, struct buffer, (size_t)nin + nout + 1);
	for (uint32_t i = 0; i < nin; i++)
		r->in[i] = call->in[i];
}

void repeat_end(struct repetition *r)
{
	const struct runtime *rt = r->rt;

	for (uint32_t i = 0; i < r->nhost; i++)
		mem_free(r->host[i]);
	for (uint32_t i = 0; i < r->nbuffers; i++)
		rt->backend->free(rt->device, &r->buffers[i]);
	struct arena a = r->arena;
	arena_free(&a);
}

bool repeat_input(struct repetition *r, uint32_t i, const struct tensor *t)
{
	if (!r->call->in[i] || !match_operand(r, t, r->call->in[i], &r->inputs[i]))
		return false;
	r->in[i] = &r->inputs[i];
	return true;
}

int repeat_run(struct repetition *r, struct diag *d)
{
	if (!set_outputs(r))
		return -(int)E_MEMORY;
	struct step_repeat again = {r->in, r->out, r, alloc_output, output_arena, NULL};

	if (r->afterwards && r->call->step->workspace) {
		again.workspace = alloc_host(r, r->call->step->workspace);
		if (!again.workspace)
			return -(int)E_MEMORY;
	}
	pool_limit(r->call->step->threads);
	return step_repeat(r->call, &again, d);
}
