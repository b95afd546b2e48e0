/* SPDX-License-Identifier: Apache-2.0 */
#include "session/internal.h"

#include "backend/choose_ids.h"
#include "base/clock.h"
#include "session/collect.h"

#include <string.h>

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
		x->next_own[f->in] = stepper_same_place(t);
		x->next[f->in] = &x->next_own[f->in];
		if (stepper_place_next(x, f, t->bytes, d))
			return false;
	}
	for (uint32_t k = 0; k < x->steps->nderive; k++) {
		const struct derive *v = &x->steps->derive[k];
		if (stepper_derive(x, v, stepper_positions_after(x), &x->buffer[v->in][1],
				   &x->next_own[v->in], d))
			return false;
		x->next[v->in] = &x->next_own[v->in];
	}
	for (uint32_t k = 0; k < x->steps->nnext; k++) {
		const struct next *next = &x->steps->next[k];
		struct tensor *own = &x->next_own[next->in];
		if (x->chooser ? stepper_device_ids(x, next, own, d)
			       : stepper_make_ids(x, next, &x->buffer[next->in][1], own, d))
			return false;
		if (!x->chooser)
			memset(own->data, 0, own->bytes);
		x->next[next->in] = own;
	}
	return true;
}

const struct tensor *const *stepper_foresee(void *arg)
{
	struct stepper *x = arg;
	struct diag unread = {0};
	bool known = x->times.steps + 1 < x->limit && foresee_inputs(x, &unread);

	diag_free(&unread);
	return known ? x->next : NULL;
}

void stepper_choose_on_device(struct stepper *x)
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

/* Gives the outputs that are no states memory that neither the step before nor the step after this one writes. */
static int place_outputs(struct stepper *x, unsigned parity, struct diag *d)
{
	int err = 0;

	for (uint32_t k = 0; !err && k < x->graph->nout; k++) {
		struct step_buffer *r = &x->outputs[k][parity];
		size_t need = x->output_bytes[k], more;
		if (is_state(x, k))
			continue;
		bool grows = r->memory.ptr && need > r->memory.bytes;
		more = grows && size_add(need, need / 2, &more) ? more : need;
		err = need > r->memory.bytes || !r->memory.ptr
			      ? step_buffer_reserve(x->session, r, more, 1, d)
			      : 0;
		err = err ? err : session_place(x->session, k, step_buffer_place(r), d);
	}
	return err;
}

/* Whether the next step will not overwrite any output of this one. */
static bool outputs_survive(const struct stepper *x, unsigned parity)
{
	for (uint32_t k = 0; k < x->steps->nfeed; k++)
		if (stepper_buffer_of(x, &x->steps->feed[k],
				      &x->queued_out[parity][x->steps->feed[k].out]) < 0)
			return false;
	for (uint32_t k = 0; k < x->graph->nout; k++)
		if (!is_state(x, k) &&
		    x->queued_out[parity][k].data != x->outputs[k][parity].memory.ptr)
			return false;
	return true;
}

static int queue_choice(struct stepper *x, unsigned parity, struct diag *d)
{
	const struct next *n = x->steps->next;
	const struct tensor *t = &x->queued_out[parity][n->out];
	int rank = t->shape.rank;

	if (!stepper_has_scores(x, t))
		return stepper_fail_scores(x, n, d);
	int64_t positions = rank == 3 ? t->shape.dim[1] : 1, size = t->shape.dim[rank - 1];
	size_t before = (size_t)((positions - 1) * size) * (dtype_bits(tensor_dtype(t)) / 8);
	const struct scores scores = {.type = tensor_dtype(t),
				      .data = (const char *)t->data + before,
				      .n = size,
				      .step = positions * size};
	return x->choosing->queue(x->chooser, parity, &scores, d);
}

/*
 * Launches the step with number `step`, after which the device chooses the ids. *able becomes false if it must run as others do; nothing
 * has been launched then.
 */
static int launch_step(struct stepper *x, int64_t step, bool *able, struct diag *d)
{
	const struct next *n = x->steps->next;
	unsigned parity = (unsigned)(step & 1);
	int err = stepper_set_inputs(x, d);

	err = err ? err : stepper_device_ids(x, n, &x->own[n->in], d);
	x->in[n->in] = &x->own[n->in];
	*able = !err && session_foresees(x->session, x->in, parity, x->output_bytes);
	if (!*able)
		return 0;
	err = stepper_place_states(x, true, d);
	err = err ? err : place_outputs(x, parity, d);
	err = err ? err : session_launch(x->session, x->in, parity, x->out, d);
	for (uint32_t k = 0; !err && k < x->graph->nout; k++) {
		x->queued_out[parity][k] = *x->out[k];
		x->out[k] = &x->queued_out[parity][k];
	}
	return err ? err : queue_choice(x, parity, d);
}

/* Takes the ids that the device has chosen in the step that is ending. */
static int read_ids(struct stepper *x, unsigned parity, bool *ended, struct diag *d)
{
	const int64_t *ids;
	int err = x->choosing->wait(x->chooser, parity, &ids, d);

	err = err ? err : stepper_grow_ids(x, 0, d);
	for (int64_t b = 0; !err && b < x->batch; b++) {
		x->ids[0][x->times.steps * x->batch + b] = ids[b];
		err = ids[b] < 0 ? stepper_fail_nan(x, x->steps->next, d) : 0;
	}
	*ended = !err && stepper_all_ended(x);
	return err;
}

int stepper_choose_on_host(struct stepper *x, struct diag *d)
{
	int err = 0;

	x->choosing->destroy(x->chooser);
	x->chooser = NULL;
	session_plan_ahead(x->session, stepper_foresee, x, 0);
	for (uint32_t k = 0; k < x->graph->nout; k++)
		if (session_place(x->session, k, (struct placed){0}, d))
			return -E_STEPS;
	for (uint32_t k = 0; !err && k < x->steps->nfeed; k++)
		err = stepper_make_dense(x, x->steps->feed[k].in, d);
	return err ? err : stepper_set_ids(x, 0, x->times.steps - 1, d);
}

/* Launches the next step, unless a finding must be reported or the host must see to it first: it is launched later then. */
static void launch_next(struct stepper *x)
{
	struct diag unread = {0};
	bool able;

	x->queued = !launch_step(x, x->times.steps + 1, &able, &unread) && able;
	diag_free(&unread);
}

/* Waits for a step that was launched ahead but is not needed, and drops its findings. */
static void discard_queued(struct stepper *x)
{
	struct runtime *rt = session_runtime(x->session);
	struct diag unread = {0};

	if (x->queued)
		(void)rt->backend->wait(rt->stream, &unread);
	x->queued = false;
	diag_free(&unread);
}

int stepper_step_ahead(struct stepper *x, bool *able, bool *done, struct diag *d)
{
	uint64_t start = clock_ns(), planned = session_times(x->session).planned;
	unsigned parity = (unsigned)(x->times.steps & 1);
	bool ended = false;
	int err = 0;

	*able = true;
	if (!x->queued) {
		err = x->times.steps == 1 ? x->choosing->give(x->chooser, x->ids[0], d) : 0;
		err = err ? err : launch_step(x, x->times.steps, able, d);
		if (err || !*able)
			return err;
	}
	for (uint32_t k = 0; k < x->graph->nout; k++)
		x->out[k] = &x->queued_out[parity][k];
	x->queued = false;
	bool lasting = outputs_survive(x, parity);
	err = stepper_hand_over(x, d);
	x->at = stepper_positions_after(x);
	if (!err && lasting && x->times.steps + 1 < x->limit)
		launch_next(x);
	for (uint32_t k = 0; k < x->graph->nout; k++)
		x->out[k] = &x->queued_out[parity][k];
	err = err ? err : read_ids(x, parity, &ended, d);
	uint64_t run = clock_ns() - start;
	err = err ? err : collector_add(x->collector, x->out, d);
	if (!err) {
		stepper_add_times(x, start, run, planned);
		*done = ended || x->times.steps >= x->limit;
	}
	if (err || *done)
		discard_queued(x);
	return err;
}
