/* SPDX-License-Identifier: Apache-2.0 */
#include "session/internal.h"

#include "backend/choose_ids.h"
#include "base/cancel.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "session/sampler.h"

#include <inttypes.h>
#include <string.h>

int stepper_fail_scores(const struct stepper *x, const struct next *n, struct diag *d)
{
	const struct tensor *t = x->out[n->out];

	return FAIL(d, E_STEPS, .slot = fmt(d, "output '%s'", x->graph->out_name[n->out]),
		    .message = "no id can be chosen from it",
		    .expected = fmt(d, "scores of [%" PRId64 ", positions, ids]", x->batch),
		    .actual = t->type.kind == V_TENSOR ? shape_str(&d->arena, &t->shape, NULL)
						       : type_str(&d->arena, t->type));
}

void stepper_free_scores(struct stepper *x)
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
	stepper_free_scores(x);
	x->row_pinned = can_pin(rt);
	return x->row_pinned ? rt->backend->alloc_host(rt->device, bytes, MEM_STAGING, &x->row, d)
			     : rt->cpu->alloc(rt->host, bytes, MEM_STAGING, &x->row, d);
}

bool stepper_has_scores(const struct stepper *x, const struct tensor *t)
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

	if (!stepper_has_scores(x, t))
		return stepper_fail_scores(x, n, d);
	int64_t positions = rank == 3 ? t->shape.dim[1] : 1, size = t->shape.dim[rank - 1];
	size_t bytes = (size_t)size * (dtype_bits(tensor_dtype(t)) / 8);
	size_t all = bytes * (size_t)x->batch; /* no more than the tensor has */
	err = row_reserve(x, all, d);
	*ids = size;
	/* with one position the rows are packed */
	for (int64_t b = 0; b < (positions == 1 ? 1 : x->batch) && !err; b++) {
		struct tensor last = *t;
		last.data = (char *)t->data + (size_t)(b * positions + positions - 1) * bytes;
		last.bytes = positions == 1 ? all : bytes;
		err = session_fetch(x->session, (char *)x->row.ptr + (size_t)b * bytes, &last, d);
	}
	return err;
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
		r->ids[b] = sample_largest(r->type, r->data + (size_t)b * r->bytes, r->size);
}

int stepper_fail_nan(const struct stepper *x, const struct next *n, struct diag *d)
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
	if (cancel_called()) /* which leaves out rows */
		return -(int)E_INTERRUPTED;
	for (int64_t b = 0; b < x->batch; b++) {
		if (x->ended[b])
			ids[b] = ids[b - x->batch];
		else if (n->sample)
			ids[b] = sample_draw(t, rows.data + (size_t)b * rows.bytes, size, n->top,
					     n->temperature, &x->random);
		if (ids[b] < 0)
			return stepper_fail_nan(x, n, d);
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

int stepper_device_ids(struct stepper *x, const struct next *n, struct tensor *own, struct diag *d)
{
	int err = shape_ids(x, n, own, d);

	own->data = x->choosing->ids(x->chooser);
	own->device = 1;
	return err;
}

int stepper_make_ids(struct stepper *x, const struct next *n, struct step_buffer *r,
		     struct tensor *own, struct diag *d)
{
	int err = shape_ids(x, n, own, d);

	err = err ? err : step_buffer_reserve(x->session, r, own->bytes, 0, d);
	own->data = r->memory.ptr;
	return err;
}

int stepper_set_ids(struct stepper *x, uint32_t k, int64_t step, struct diag *d)
{
	const struct next *n = &x->steps->next[k];
	struct tensor *own = &x->own[n->in];
	const int64_t *ids = x->ids[k] + step * x->batch;
	int err = stepper_make_ids(x, n, &x->buffer[n->in][0], own, d);

	if (err)
		return err;
	for (int64_t b = 0; b < x->batch; b++)
		elem_set_i64(tensor_dtype(own), own->data, b, ids[b]);
	x->in[n->in] = own;
	return 0;
}

int stepper_grow_ids(struct stepper *x, uint32_t k, struct diag *d)
{
	size_t need, bytes;

	if (!size_mul((size_t)x->times.steps + 1, (size_t)x->batch, &need) ||
	    !size_mul(need, 2 * sizeof(int64_t), &bytes))
		return FAIL(d, E_SIZE);
	if (need <= x->ids_capacity[k])
		return 0;
	int64_t *more = mem_alloc(bytes, MEM_STAGING);
	if (!more)
		return FAIL(d, E_MEMORY);
	if (x->ids[k])
		memcpy(more, x->ids[k], (size_t)x->times.steps * (size_t)x->batch * sizeof(int64_t));
	mem_free(x->ids[k]);
	x->ids[k] = more;
	x->ids_capacity[k] = 2 * need;
	return 0;
}

bool stepper_all_ended(struct stepper *x)
{
	bool all = true;

	for (int64_t b = 0; b < x->batch; b++) {
		x->ended[b] |= ends(x, x->ids[0][x->times.steps * x->batch + b]);
		all &= x->ended[b];
	}
	return all;
}

int stepper_choose_next(struct stepper *x, bool *ended, struct diag *d)
{
	int err = 0;

	*ended = false;
	for (uint32_t k = 0; !err && k < x->steps->nnext; k++) {
		err = stepper_grow_ids(x, k, d);
		err = err ? err : choose_ids(x, k, d);
		err = err ? err : stepper_set_ids(x, k, x->times.steps, d);
	}
	if (!err && x->steps->nnext)
		*ended = stepper_all_ended(x);
	return err;
}

struct tensor *stepper_ids_tensor(struct stepper *x, uint32_t k)
{
	const struct shape shape = {.rank = 2, .dim = {x->batch, x->times.steps}};
	struct tensor *t = tensor_new(&x->arena, tensor_dtype(x->in[x->steps->next[k].in]), &shape);

	for (int64_t b = 0; t && b < x->batch; b++)
		for (int64_t i = 0; i < x->times.steps; i++)
			elem_set_i64(tensor_dtype(t), t->data, b * x->times.steps + i,
				     x->ids[k][i * x->batch + b]);
	return t;
}
